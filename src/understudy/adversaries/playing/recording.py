"""A recording: raw readings with labels beside them, and how it is cut into what is learned from and what is judged.

It is cut by time, never by single readings: the first part of the time is for learning, whole segments (days, rooms)
where there are many. If a part then lacks a value of theta, stretches from all over the time are dealt out in turn. No
stretch is in both parts, each is played with draws of its own, and windows do not reach from one into the other; where
stretches are dealt out in turn, some rows between them are in neither.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError
from understudy.laws.base import Array
from understudy._types import Ints

Piece = tuple[int, int]
"""The rows of a stretch: the first, and the one after the last."""

_MANY_SEGMENTS = 4
_SHORTEST = 20  # rows of a piece that is dealt out


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recording:
    """Rows on one period, in segments. Its text tells sizes only.

    >>> Recording(np.zeros((4, 1)), np.array([0, 1, 1, -1]), np.zeros(4, dtype=int))
    Recording(4 rows, 1 channel, 1 segment)
    """

    Y: Array
    """(T, d), NaN where missing."""
    theta: Ints
    """(T,), position among the family's values; -1 is unknown."""
    segments: Ints
    """(T,), a number for each stretch without interruption; rows of one stand together."""
    hours: Array | None = None
    days: Ints | None = None
    period: float | None = None
    """Seconds from one row to the next."""
    strange: int = 0
    """Labels that are no value of the family, and are taken for unknown."""
    public: bool = True
    """Whether adversaries see the clock; stretches are days in either case."""

    def __post_init__(self) -> None:
        T = len(self.Y)
        if self.Y.ndim != 2 or T < 2:
            raise ConfigurationError(f"the readings have shape {self.Y.shape}; they must be (T, d) with T >= 2")
        for name in ("theta", "segments", "hours", "days"):
            part = getattr(self, name)
            if part is not None and part.shape != (T,):
                raise ConfigurationError(f"{name} has shape {part.shape}; {T} readings need ({T},)")
        if np.unique(self.segments).size != len(self.pieces()):
            raise ConfigurationError("the rows of a segment must stand together")

    def __repr__(self) -> str:
        T, d = self.Y.shape
        count = len(self.pieces())
        return f"Recording({T} rows, {d} channel{'s' if d != 1 else ''}, {count} segment{'s' if count != 1 else ''})"

    def pieces(self) -> list[Piece]:
        """The rows of each segment."""
        cuts = np.flatnonzero(self.segments[1:] != self.segments[:-1]) + 1
        return list(pairwise([0, *cuts.tolist(), len(self.segments)]))

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Rows that have a label and a reading in some channel."""
        return np.asarray((self.theta >= 0) & ~np.isnan(self.Y).all(axis=1))

    @property
    def spell(self) -> float:
        """Mean number of rows for which theta stays."""
        rows = changes = 0
        for start, stop in self.pieces():
            known = self.theta[start:stop][self.theta[start:stop] >= 0]
            rows += known.size
            changes += int((np.diff(known) != 0).sum()) + bool(known.size)
        return rows / max(changes, 1)


def recorded(
    Y: Any, theta: Any, values: Sequence[Any], hours: Any = None, days: Any = None, segments: Any = None
) -> Recording:
    """A recording out of arrays: readings (T,) or (T, d), and one value of theta a row.

    A value that is None, NaN or no value of the family is unknown.

    >>> recorded([1.0, 2.0, 3.0], [0, 1, None], values=[0, 1]).theta.tolist()
    [0, 1, -1]
    """
    readings = numbers(Y, "Y")
    T = len(readings)
    marks = np.zeros(T, dtype=np.int64) if segments is None else _numbered(segments)
    hour = None if hours is None else _floats(hours, "hours")
    if hour is not None and not ((hour[~np.isnan(hour)] >= 0.0) & (hour[~np.isnan(hour)] < 24.0)).all():
        raise ConfigurationError("hours must lie in [0, 24), NaN for unknown")
    weekday = None
    if days is not None:
        given = _floats(days, "days")
        weekday = np.where(np.isnan(given), -1.0, given).astype(np.int64)
    found = positions(theta, values, T)
    strange = sum(at < 0 and _told(v) for v, at in zip(_listed(theta, T), found.tolist(), strict=True))
    return Recording(readings, found, marks, hour, weekday, strange=strange)


def numbers(Y: Any, name: str) -> Array:
    """Readings as an array (T, d); what is no number is an error that does not show it."""
    readings = _floats(Y, name)
    if readings.ndim == 1:
        readings = readings[:, None]
    if readings.ndim != 2:
        raise ConfigurationError(f"{name} has shape {readings.shape}; it must be (T,) or (T, d)")
    if np.isinf(readings).any():
        raise ConfigurationError(f"{name} holds a reading that is infinite; each must be finite, or NaN for missing")
    return readings


def _floats(given: Any, name: str) -> Array:
    try:
        return np.array(given, dtype=float)
    except (TypeError, ValueError):  # whose message holds the value
        raise ConfigurationError(
            f"{name} holds what is no number, or rows of unequal length; each entry must be a number, NaN for missing"
        ) from None


def _told(v: Any) -> bool:
    """Whether a label says anything: it is not None, and not NaN, which is unequal to itself."""
    try:
        return v is not None and bool(v == v)
    except TypeError:  # the NA of pandas has no truth
        return False


def _listed(theta: Any, T: int) -> list[Any]:
    """The private values row by row; one that stands for all of them is repeated."""
    dims = getattr(theta, "ndim", None)
    one = dims == 0 if dims is not None else isinstance(theta, str) or not isinstance(theta, Iterable)
    return [theta] * T if one else list(theta)


def positions(theta: Any, values: Sequence[Any], T: int) -> Ints:
    """Where each private value stands in the family; -1 for what is no value of it."""
    shape = getattr(theta, "shape", ())
    given = _listed(theta, T)
    if len(shape) > 1 or any(isinstance(v, (list, np.ndarray)) for v in given):
        raise ConfigurationError(
            f"theta has {f'shape {shape}' if len(shape) > 1 else 'rows of several entries'}; it must be (T,), one "
            "value a row"
        )
    if len(given) != T:
        raise ConfigurationError(f"theta has {len(given)} entries; {T} readings need as many")
    at = {value: i for i, value in enumerate(values) if getattr(value, "__hash__", None) is not None}
    plain = [v.item() if isinstance(v, np.generic) else v for v in given]
    found = np.array([at.get(v, -1) if isinstance(v, Hashable) else -1 for v in plain], dtype=np.int64)
    if (found < 0).all():
        raise ConfigurationError(f"no entry of theta is a value of the family, which has {list(values)!r}")
    return found


def _numbered(segments: Any) -> Ints:
    """Segments as whole numbers in their order."""
    given = np.asarray(segments)
    changes = np.concatenate([[False], given[1:] != given[:-1]])
    number = np.cumsum(changes)
    if np.unique(given).size != int(number[-1]) + 1:
        raise ConfigurationError("segments: the rows of a segment must stand together")
    return number.astype(np.int64)


def halves(recording: Recording, m: int) -> tuple[list[Piece], list[Piece], str]:
    """Stretches to learn from, stretches to be judged on, and how that was decided."""
    segments = [p for p in recording.pieces() if recording.judged[p[0] : p[1]].any()]
    seen = _seen(recording, segments, m)
    best: tuple[int, list[Piece], list[Piece], str] | None = None
    for made in _ways(recording, segments):
        # a stretch without a label can neither be played nor be judged
        first, last = ([p for p in part if recording.judged[p[0] : p[1]].any()] for part in made[:2])
        told = made[2]
        if not first or not last:
            continue
        lacks = int((seen & ~_seen(recording, first, m)).sum() + (seen & ~_seen(recording, last, m)).sum())
        if best is None or lacks < best[0]:
            best = lacks, first, last, told
        if not lacks:
            break
    if best is None:
        raise ConfigurationError("the recording is too short to learn from one part of it and judge on another")
    _, first, last, told = best
    if best[0]:
        told += "; even so a value of theta does not occur in both parts"
    return first, last, told


def _ways(recording: Recording, segments: list[Piece]) -> list[tuple[list[Piece], list[Piece], str]]:
    """Ways to cut, the one to be preferred first."""
    rows = sum(stop - start for start, stop in segments)
    ways = []
    if len(segments) >= _MANY_SEGMENTS:
        ends = np.cumsum([stop - start for start, stop in segments])
        cut = int(np.abs(ends[:-1] - rows / 2.0).argmin()) + 1
        ways.append((segments[:cut], segments[cut:], "the first segments are learned from, the others judged"))
        ways.append((segments[::2], segments[1::2], "every second segment is learned from, the others judged"))
    else:
        first, last = _cut(segments, rows // 2)
        ways.append((first, last, "the first half of the time is learned from, the second judged"))
    # neighbours in time know each other: the ends of what is learned from are left out, for as long as theta stays
    for spell, told in ((recording.spell, _IN_TURN), (0.0, f"{_IN_TURN}, though theta stays longer than they do")):
        for count in (4, 8, 16, 32):
            if rows // count < _SHORTEST:
                break
            pieces = [p for segment in segments for p in parts(segment, max(1, rows // count))]
            ways.append((_inner(pieces[::2], spell), pieces[1::2], told))
    return ways


_IN_TURN = (
    "stretches from all over the time are learned from and judged in turn, so that what is judged has neighbours on "
    "both sides that were learned from"
)


def _inner(pieces: list[Piece], spell: float) -> list[Piece]:
    """Stretches without a quarter at either end, or as many rows as theta stays; those of which something is left."""
    found = []
    for start, stop in pieces:
        guard = math.ceil(max(spell, 0.25 * (stop - start)))
        if stop - start > 2 * guard:
            found.append((start + guard, stop - guard))
    return found


def _cut(segments: list[Piece], row: int) -> tuple[list[Piece], list[Piece]]:
    """The time cut once, at a row."""
    first: list[Piece] = []
    last: list[Piece] = []
    for start, stop in segments:
        inside = min(max(row, 0), stop - start)
        if inside:
            first.append((start, start + inside))
        if inside < stop - start:
            last.append((start + inside, stop))
        row -= stop - start
    return first, last


def parts(piece: Piece, length: float) -> list[Piece]:
    """A stretch in equal parts of about this length.

    >>> parts((10, 110), 30)
    [(10, 43), (43, 77), (77, 110)]
    """
    start, stop = piece
    count = max(1, round((stop - start) / max(length, 1.0)))
    edges = np.linspace(start, stop, count + 1).round().astype(int).tolist()
    return list(pairwise(edges))


def _seen(recording: Recording, pieces: Sequence[Piece], m: int) -> NDArray[np.bool_]:
    """Which values occur in these rows."""
    counts = np.zeros(m, dtype=np.int64)
    for start, stop in pieces:
        theta = recording.theta[start:stop][recording.judged[start:stop]]
        counts += np.bincount(theta, minlength=m)
    return np.asarray(counts > 0)
