"""Rows as a sequence of readings: in order, one period apart, with missing ones where the clock shows a gap.

Time must grow from row to row. Where the family has a period, each row takes the nearest place on it that is free, so
that jitter of time stamps does no harm, and places that stay empty are missing readings: they are given to the stream
and not written. Within a gap the private parameter is taken for what it was before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ReadingError
from understudy.files.columns import Positions
from understudy.identify.clock import SECOND, in_words
from understudy.laws.base import Array

LONGEST_GAP = 100_000
_FEW = 4
_MOST = 262_144  # readings that are given at a time, gaps included

Whole = NDArray[np.int64]


class Piece(NamedTuple):
    """Readings for the stream: values, times, private values by position; and which of them are rows of the file."""

    Y: Array
    times: Whole | None
    theta: Positions | None
    places: Whole | None  # None if all are
    rows: slice

    def __repr__(self) -> str:
        return f"Piece({len(self.Y)} readings)"


def out_of_order(times: Whole, unknown: NDArray[np.bool_] | None, last: int | None) -> list[int]:
    """Rows whose time does not come after all before; times that are `unknown` do not count.

    >>> out_of_order(np.array([1, 3, 2, 3, 4]), None, None)
    [2, 3]
    """
    first = last is None or not len(times) or int(times[0]) > last
    if unknown is None and first and bool((times[1:] > times[:-1]).all()):
        return []
    lowest = np.iinfo(np.int64).min
    if unknown is None:
        unknown = np.zeros(len(times), dtype=bool)
    seen = np.maximum.accumulate(np.concatenate([[lowest if last is None else last], np.where(unknown, lowest, times)]))
    return np.flatnonzero((times <= seen[:-1]) & ~unknown & (seen[:-1] > lowest)).tolist()


def known_before(theta: Positions, before: int) -> Positions:
    """Private values, each unknown one (-1) taken for the last that was known, or else the next.

    >>> known_before(np.array([-1, 2, -1, 0]), -1).tolist()
    [2, 2, 2, 0]
    """
    known = theta >= 0
    if known.all() or not (known.any() or before >= 0):
        return theta
    last = np.maximum.accumulate(np.where(known, np.arange(len(theta)), -1))
    first = before if before >= 0 else int(theta[known.argmax()])
    return np.where(last >= 0, theta[last], first)


class Sequence:
    """Where a sequence stands: the time and the private value of its last reading."""

    def __init__(self, period: int | None, longest_gap: int = LONGEST_GAP) -> None:
        self.period, self.longest_gap = period, longest_gap
        self.last: int | None = None
        self.theta = -1
        self._origin: int | None = None
        self._place = 0  # of the last row, in periods from the origin
        self.filled = 0

    def __repr__(self) -> str:
        return f"Sequence({self.filled} filled)"

    def pieces(self, Y: Array, times: Whole | None, theta: Positions | None, lines: Any, name: str) -> Iterator[Piece]:
        """Readings in order, with the missing ones of gaps; a few at a time where gaps are many."""
        if not len(Y):
            return
        steps = self._steps(times, lines, name)
        before, earlier = self.theta, self.last
        if theta is not None:
            self.theta = int(theta[-1])
        if times is not None:
            self.last = int(times[-1])
        if steps is None or times is None:
            yield Piece(Y, times, theta, None, slice(0, len(Y)))
            return
        self.filled += int(steps.sum()) - len(Y)
        ends = np.cumsum(steps)
        start = 0
        while start < len(Y):
            base = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, base + _MOST, side="right")), start + 1)
            rows = slice(start, stop)
            was = earlier, before
            if start:
                was = int(times[start - 1]), -1 if theta is None else int(theta[start - 1])
            yield self._filled(Y[rows], times[rows], None if theta is None else theta[rows], steps[rows], was, rows)
            start = stop

    def _steps(self, times: Whole | None, lines: Any, name: str) -> Whole | None:
        """Periods between each row and the one before; None if all are one."""
        if times is None or self.period is None:
            return None
        if self._origin is None:
            self._check_period(times, name)
            self._origin = int(times[0]) + _phase(times, self.period)
            first = self.last is None  # which leaves no gap before it
            self._place = (
                round(((int(times[0]) if self.last is None else self.last) - self._origin) / self.period) - first
            )
        k = np.arange(1, len(times) + 1)
        # a place that is taken already: the next one, which is a running maximum of what is ahead of the count
        ahead = np.rint((times - self._origin) / self.period).astype(np.int64) - k
        places = np.maximum.accumulate(np.concatenate([[self._place], ahead])) + np.concatenate([[0], k])
        steps = np.diff(places)
        self._place = int(places[-1])
        if (steps == 1).all():
            return None
        too_long = np.flatnonzero(steps - 1 > self.longest_gap)
        if too_long.size:
            raise ReadingError(
                f"{name}, line {lines[too_long[0]]}: {steps[too_long[0]] - 1} readings are missing before it, more "
                f"than the {self.longest_gap} that are filled (longest_gap); a column that separates stretches of time "
                "(segment) begins anew after a gap"
            )
        return np.asarray(steps)

    def _check_period(self, times: Whole, name: str) -> None:
        """Refuse rows that come more often than the family knows them: their law is another."""
        apart = float(np.median(np.diff(times))) if len(times) > _FEW else float("inf")
        if self.period is not None and apart < 0.6 * self.period:
            raise ReadingError(
                f"{name}: rows come every {in_words(apart / SECOND)}, and the family is of readings every "
                f"{in_words(self.period / SECOND)}; readings of another period have another law. Take every n-th row, "
                "or fit a family to this period"
            )

    def _filled(
        self,
        Y: Array,
        times: Whole,
        theta: Positions | None,
        steps: Whole,
        was: tuple[int | None, int],
        rows: slice,
    ) -> Piece:
        places = np.cumsum(steps) - 1
        count = int(places[-1]) + 1
        wide = np.full((count, Y.shape[1]), np.nan)
        wide[places] = Y
        before = np.concatenate([[times[0] - (self.period or 0) if was[0] is None else was[0]], times[:-1]])
        within = np.arange(count) - np.repeat(places - steps, steps)
        # times of what is missing, evenly between the rows about it
        keys = np.repeat(before, steps) + np.repeat((times - before) // steps, steps) * within
        keys[places] = times
        if theta is None:
            return Piece(wide, keys, None, places, rows)
        held = np.repeat(np.concatenate([[was[1] if was[1] >= 0 else theta[0]], theta[:-1]]), steps)
        held[places] = theta
        return Piece(wide, keys, held, places, rows)


def _phase(times: Whole, period: int) -> int:
    """Nanoseconds from the first time to the nearest place of the period that suits most of the others."""
    offset = (times - times[0]) / period
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return round((turn + float(np.median(rest - np.rint(rest)))) * period)
