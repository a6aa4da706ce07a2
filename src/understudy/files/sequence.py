"""Rows as a sequence of readings: in order, one period apart, with missing ones where the clock shows a gap.

Time must grow from row to row. Where the family has a period, each row is put into a slot (`understudy.stream.cadence`,
as in live streams): slots that stay empty are missing readings, and a row that comes late into a full slot has no
output. Within a gap the private parameter is taken for what it was before it.
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
from understudy.stream.cadence import Cadence, Places
from understudy._types import Ints as Whole

LONGEST_GAP = 100_000
_FEW = 4
_FIRST = 1024  # rows that tell where the slots are
_MOST = 262_144  # readings that are given at a time, gaps included



class Piece(NamedTuple):
    """Readings for the stream: values, times, private values by position; and which of them are rows of the file."""

    Y: Array
    times: Whole | None
    theta: Positions | None
    places: Whole | None  # None if all are; -1 for a row that came late into a full slot
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
    """Where a sequence stands: the time and the private value of its last reading, and its slots."""

    def __init__(self, period: int | None, longest_gap: int = LONGEST_GAP, timed: bool = False) -> None:
        self.period, self.longest_gap, self.timed = period, longest_gap, timed
        self.cadence: Cadence | None = None
        self.last: int | None = None
        self.theta = -1
        self.filled = self.late = 0

    def __repr__(self) -> str:
        return f"Sequence({self.filled} filled)"

    def origin(self, times: Whole, name: str) -> int | None:
        """Where the slots begin: at a multiple of the period since 1970, or at the first time, or where most rows are.

        The first of these from which no row is more than a quarter of a period away.
        """
        if self.period is None:
            return None
        times = times[:_FIRST]
        self._check_period(times, name)
        for origin in (0, int(times[0])):
            beside = (times - origin + self.period // 2) % self.period - self.period // 2
            if (4 * np.abs(beside) <= self.period).all():
                return int(times[0]) - int(beside[0])
        return int(times[0]) + round(_phase(times, self.period), -6)

    def pieces(self, Y: Array, times: Whole | None, theta: Positions | None, lines: Any, name: str) -> Iterator[Piece]:
        """Readings in order. A stream with times finds its slots itself; for others missing ones are put in between.

        Those are given a few at a time where gaps are many.
        """
        if not len(Y):
            return
        places = self._places(Y, times, lines, name)
        before, earlier = self.theta, self.last
        if theta is not None:
            self.theta = int(theta[-1])
        if times is not None:
            self.last = int(times[-1])
        if places is None or times is None or self.timed:
            yield Piece(Y, times, theta, None, slice(0, len(Y)))
            return
        taken, steps = places.taken, places.skipped + 1
        ends = np.cumsum(steps)
        start = 0
        while start < len(taken):
            base = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, base + _MOST, side="right")), start + 1)
            rows = taken[start:stop]
            was = earlier, before
            if start:
                was = int(times[taken[start - 1]]), -1 if theta is None else int(theta[taken[start - 1]])
            end = int(taken[stop]) if stop < len(taken) else len(Y)
            whole = slice(int(taken[start]) if start else 0, end)
            yield self._filled(Y, times, theta, steps[start:stop], was, rows, whole)
            start = stop

    def _places(self, Y: Array, times: Whole | None, lines: Any, name: str) -> Places | None:
        """The slots of rows; None where there are none, or all rows take one after the other."""
        if times is None or self.cadence is None or self.cadence.is_regular(times, self.last):
            return None
        places = self.cadence.places(times, self.last)
        if len(places.taken) < len(times):
            late = np.ones(len(times), dtype=bool)
            late[places.taken] = False
            self.late += int((late & ~np.isnan(Y).any(axis=1)).sum())  # others are counted as missing
        if len(places.taken) == len(times) and not places.skipped.any():
            return None
        self.filled += int(places.skipped.sum())
        too_long = np.flatnonzero(places.skipped > self.longest_gap)
        if too_long.size:
            raise ReadingError(
                f"{name}, line {lines[places.taken[too_long[0]]]}: {places.skipped[too_long[0]]} readings are missing "
                f"before it, more than the {self.longest_gap} that are filled (longest_gap); a column that separates "
                "segments of time (segment) begins anew after a gap"
            )
        return places

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
        rows: Whole,
        whole: slice,
    ) -> Piece:
        """Rows with missing readings between them; rows that came late into a full slot have no place."""
        places = np.cumsum(steps) - 1
        count = int(places[-1]) + 1
        wide = np.full((count, Y.shape[1]), np.nan)
        wide[places] = Y[rows]
        of_rows = np.full(whole.stop - whole.start, -1, dtype=np.int64)
        of_rows[rows - whole.start] = places
        if theta is None:
            return Piece(wide, None, None, of_rows, whole)
        held = np.repeat(np.concatenate([[was[1] if was[1] >= 0 else theta[rows[0]]], theta[rows[:-1]]]), steps)
        held[places] = theta[rows]
        return Piece(wide, None, held, of_rows, whole)


def _phase(times: Whole, period: int) -> int:
    """Nanoseconds from the first time to the nearest place of the period that suits most of the others."""
    offset = (times - times[0]) / period
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return round((turn + float(np.median(rest - np.rint(rest)))) * period)
