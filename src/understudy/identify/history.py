"""Labelled history: readings with the private parameter beside them, ready for fitting.

A `History` is what every fitter and every test of a fit is given. Its rows are on one period: a row that the data did
not have is there with readings that are missing (NaN), so that row k + 1 is always one period after row k. Where time
is interrupted, a new `Segment` begins; nothing is carried from one segment to the next.

`understudy.identify.intake` makes a history out of a dataframe. `History.blocks` cuts it for tests on held-out data: by
stretches of time, never by single readings, because neighbours in time know each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError
from understudy.laws.base import Array

ENOUGH = 60
"""Held-out readings of a value that suffice to test its model."""
SHORTEST = 20
"""Rows that a held-out piece must have: fewer say more about the start than about the law."""


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """A stretch of time without interruption. Its text shows sizes, never a reading or a label.

    >>> Segment("day 1", None, np.array([[400.0], [410.0]]), np.array([0, 1]))
    Segment('day 1', 2 rows, 1 channel, 0 missing, 0 unlabelled)
    """

    name: str
    times: NDArray[np.int64] | None
    """Nanoseconds since 1970 (UTC, or the wall clock where the data named no zone); None without a time column."""
    Y: Array
    """Readings (T, d); NaN is missing."""
    theta: NDArray[np.intp]
    """Position of each label in `History.values`; -1 is unknown."""
    public: Array | None = None
    """Public inputs (T, q), if there are any."""

    def __post_init__(self) -> None:
        T = len(self.Y)
        if self.Y.ndim != 2 or self.Y.dtype != np.float64:
            raise ConfigurationError(
                f"Y has shape {self.Y.shape} and type {self.Y.dtype}; it must be (T, d) of float64"
            )
        for name in ("times", "theta", "public"):
            part = getattr(self, name)
            if part is not None and len(part) != T:
                raise ConfigurationError(f"{name} has {len(part)} rows and Y has {T}; they must agree")
        object.__setattr__(self, "theta", np.asarray(self.theta, dtype=np.intp))
        for name in ("times", "Y", "theta", "public"):
            object.__setattr__(self, name, _locked(getattr(self, name)))

    def __repr__(self) -> str:
        T, d = self.Y.shape
        return (
            f"Segment({self.name!r}, {_many(T, 'row')}, {_many(d, 'channel')}, "
            f"{int((~self.complete).sum())} missing, {int((self.theta < 0).sum())} unlabelled)"
        )

    def __len__(self) -> int:
        return len(self.Y)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows have a reading in every channel."""
        return np.asarray(~np.isnan(self.Y).any(axis=1))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which rows count in a likelihood: a reading in every channel, and a label."""
        return self.complete & (self.theta >= 0)

    def cut(self, start: int, stop: int) -> Segment:
        """The rows from `start` to `stop`, as a segment of its own."""
        parts = (None if x is None else x[start:stop] for x in (self.times, self.Y, self.theta, self.public))
        return Segment(self.name, *parts)  # type: ignore[arg-type]  # Y and theta are never None


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """Readings, labels and public inputs, in segments. Its text shows counts only.

    >>> y = np.array([[400.0], [410.0], [430.0]])
    >>> history = History(("co2",), "people", None, (), (0, 1), 60.0, (Segment("1", None, y, np.array([0, 1, 1])),), ())
    >>> history
    History(co2 -> people of 2 values, 1 segment, 3 rows of 60 s, 3 used)
    >>> history.counts.tolist()
    [1, 2]
    """

    readings: tuple[str, ...]
    private: str
    time: str | None
    public: tuple[str, ...]
    values: tuple[Any, ...]
    """What the private parameter can be, in order: plain int, float, bool or str; bins are text, "0", "1-2", "3+"."""
    period: float | None
    """Seconds from one row to the next; None without times."""
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]
    """What was done to the data, one plain sentence each."""
    zone: str | None = None
    """The zone of the clock on the wall, such as "Europe/Berlin" or "+08:00"; None where `times` are that clock."""
    bins: Any = None
    """How labels were put together (`understudy.identify.labels.Bins`); None where each label is a value."""

    def __post_init__(self) -> None:
        for name in ("readings", "public", "values", "segments", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        d, q, m = len(self.readings), len(self.public), len(self.values)
        if not self.segments:
            raise ConfigurationError("segments is empty; a history needs at least one")
        for segment in self.segments:
            if segment.Y.shape[1] != d:
                raise ConfigurationError(
                    f"segment {segment.name!r} has {segment.Y.shape[1]} channels and {_many(d, 'reading')} are named"
                )
            if (0 if segment.public is None else segment.public.shape[1]) != q:
                raise ConfigurationError(f"segment {segment.name!r} has not the {q} public inputs that are named")
            if len(segment) and not -1 <= int(segment.theta.min()) <= int(segment.theta.max()) < m:
                raise ConfigurationError(f"segment {segment.name!r} has a label that is not among the {m} values")

    def __repr__(self) -> str:
        period = "" if self.period is None else f" of {self.period:.6g} s"
        return (
            f"History({', '.join(self.readings)} -> {self.private} of {_many(len(self.values), 'value')}, "
            f"{_many(len(self.segments), 'segment')}, {_many(self.rows, 'row')}{period}, {int(self.counts.sum())} used)"
        )

    @property
    def dim(self) -> int:
        """Number of channels."""
        return len(self.readings)

    @property
    def rows(self) -> int:
        """Number of rows, missing ones included."""
        return sum(len(segment) for segment in self.segments)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with readings and label, for each value."""
        return sum(
            (np.bincount(s.theta[s.used], minlength=len(self.values)) for s in self.segments),
            np.zeros(len(self.values), dtype=np.int64),
        )

    def having(self, segments: Sequence[Segment], *notes: str) -> History:
        """The same history with other segments, and with more notes."""
        return replace(self, segments=tuple(segments), notes=(*self.notes, *notes))

    def stacked(self) -> tuple[Array, NDArray[np.intp]]:
        """Readings and labels of all segments one below the other: for what does not depend on order."""
        return np.concatenate([s.Y for s in self.segments]), np.concatenate([s.theta for s in self.segments])

    def split(self, share: float) -> tuple[History, History]:
        """The first part of the time, and the last: `share` of the rows, whole segments where there are many.

        If then a part lacks a value of the private parameter that the history has, or has hardly any of it, pieces
        from all over the time are held out instead.

        >>> segments = [Segment(str(day), None, np.ones((100, 1)), np.zeros(100, dtype=int)) for day in range(8)]
        >>> history = History(("co2",), "people", None, (), (0,), 60.0, segments, ())
        >>> history.split(0.25)[1]
        History(co2 -> people of 1 value, 2 segments, 200 rows of 60 s, 200 used)
        """
        if not 0.0 < share < 1.0:
            raise ConfigurationError(f"share = {share!r}; it must lie between 0 and 1")
        first, last = _ends(self, share)
        seen = self.counts > 0
        # enough to be tested, where the history has so many: a quarter of a fair share
        enough = np.minimum(ENOUGH, np.maximum(seen, self.counts * share / 4.0))

        def lacking(pair: tuple[History, History]) -> tuple[int, ...]:
            absent = tuple(int((seen & (part.counts == 0)).sum()) for part in pair)
            return *absent, int((pair[1].counts < enough).sum())

        if not any(lacking((first, last))):
            return first, last
        return min([(first, last), *self.blocks(max(2, round(1.0 / share)))], key=lacking)

    def blocks(self, k: int = 5) -> list[tuple[History, History]]:
        """Pairs (rest, held out), k of them: each stretch of time is held out once.

        Where there are at least k segments, whole ones are held out; else segments are cut. If then the rest lacks a
        value of the private parameter that the history has, time is cut finer, and the pieces are dealt out in turn.

        >>> segment = Segment("1", None, np.ones((100, 1)), np.repeat([0, 1], 50))
        >>> history = History(("co2",), "people", None, (), (0, 1), 60.0, (segment,), ())
        >>> [(rest.rows, held.rows) for rest, held in history.blocks(4)]
        [(75, 25), (75, 25), (75, 25), (75, 25)]
        """
        if not isinstance(k, int) or k < 2:
            raise ConfigurationError(f"k = {k!r}; it must be a whole number of blocks, at least 2")
        seen = self.counts > 0
        best: list[tuple[History, History]] = []
        lacking = -1
        for finer in (1, 2, 4, 8):
            pieces = _pieces(self, k * finer)
            if len(pieces) < k or (best and min(map(len, pieces)) < SHORTEST):
                break
            pairs = _dealt(self, pieces, k, in_turn=finer > 1)
            lacks = sum(int((seen & (rest.counts == 0)).sum()) for rest, _ in pairs)
            if not best or lacks < lacking:
                best, lacking = pairs, lacks
            if not lacking:
                break
        if not best:
            raise ConfigurationError(
                f"the history has {_many(self.rows, 'row')}, too few to hold out {k} blocks of them"
            )
        return best


def _dealt(history: History, pieces: list[Segment], k: int, in_turn: bool) -> list[tuple[History, History]]:
    """Pieces to blocks: neighbours together, in blocks of about the same number of rows, or in turn."""
    if in_turn:
        block = np.arange(len(pieces)) % k
    else:
        sizes = np.array([len(piece) for piece in pieces], dtype=float)
        middle = (np.cumsum(sizes) - 0.5 * sizes) / sizes.sum()
        block = np.minimum((middle * k).astype(int), k - 1)
        if np.unique(block).size < k:  # segments of very different lengths
            block = np.arange(len(pieces)) * k // len(pieces)
    return [
        (
            history.having([p for p, b in zip(pieces, block, strict=True) if b != number]),
            history.having([p for p, b in zip(pieces, block, strict=True) if b == number]),
        )
        for number in range(k)
    ]


def _ends(history: History, share: float) -> tuple[History, History]:
    """The time cut once: between segments where there are many, else at the row."""
    segments = [segment for segment in history.segments if len(segment)]
    ends = np.cumsum([len(segment) for segment in segments])
    if ends[-1] < 2:
        raise ConfigurationError(f"the history has {_many(history.rows, 'row')}; nothing can be held out")
    row = min(max(round((1.0 - share) * float(ends[-1])), 1), int(ends[-1]) - 1)
    if len(segments) * min(share, 1.0 - share) >= 2.0:
        row = int(ends[np.abs(ends[:-1] - row).argmin()])
    which = int(np.searchsorted(ends, row))
    inside = row - (int(ends[which]) - len(segments[which]))
    before, after = segments[which].cut(0, inside), segments[which].cut(inside, len(segments[which]))
    first, last = [*segments[:which], before], [after, *segments[which + 1 :]]
    return history.having(first), history.having([segment for segment in last if len(segment)])


def _pieces(history: History, k: int) -> list[Segment]:
    """Whole segments where there are at least k, else about k stretches of them, in their order."""
    segments = [segment for segment in history.segments if len(segment)]
    if len(segments) >= k:
        return segments
    rows = sum(map(len, segments))
    found = []
    for segment in segments:
        cuts = min(math.ceil(k * len(segment) / rows), len(segment))
        edges = np.linspace(0, len(segment), cuts + 1).round().astype(int).tolist()
        found += [segment.cut(start, stop) for start, stop in pairwise(edges)]
    return found


def _locked(array: Any) -> Any:
    if array is None:
        return None
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
