"""A recording: raw readings with labels beside them, and how it is cut into what is learned from and what is judged.

It is cut by time, never by single readings: the first part of the time is for learning, whole segments (days, rooms)
where there are many. If a part then lacks a value of theta, stretches from all over the time are dealt out in turn. No
stretch is in both parts, each is played with draws of its own, and windows do not reach from one into the other; where
stretches are dealt out in turn, some rows between them are in neither.

Whether two recordings share rows: an adversary who learned from what it is judged on has learned nothing.

Stretches of time, the unit of resampling: whole days where there are enough of them, else as long as theta stays.

What a day has in common (who is away, the weather) is not known from its readings. Where theta flickers during the
day, stretches as long as it stays would count that many times over.

The clock on the wall: hour of the day and weekday of times in nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Ints
from understudy.errors import ConfigurationError
from understudy.tables.frame import DAY, hours

# A recording: raw readings with labels beside them, and how it is cut into what is learned from and w ---


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


# Whether two recordings share rows: an adversary who learned from what it is judged on has learned no ---


WINDOW = 64
"""Rows in a row that must agree to the bit."""
CHANGES = 16
"""How often the readings must change among them: sensors that stand still agree by chance."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def in_common(one: Array, other: Array) -> int:
    """How many rows of `other` (T, d) are in stretches of readings that `one` holds too.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(500, 1)), rng.normal(size=(500, 1))
    >>> in_common(first, second), in_common(first, np.concatenate([second, first[:100]]))
    (0, 100)
    """
    (known, _), (marks, good) = _windows(one), _windows(other)
    shared = np.flatnonzero(good & np.isin(marks, known))
    rows = np.zeros(len(other) + 1, dtype=np.int64)
    np.add.at(rows, shared, 1)
    np.add.at(rows, shared + WINDOW, -1)
    return int((np.cumsum(rows)[:-1] > 0).sum())


def _windows(Y: Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A number for each window of rows, and whether the window changes often enough to be known again."""
    count = len(Y) - WINDOW + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=bool)
    bits = (np.ascontiguousarray(Y, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    row, mark = np.zeros(len(Y), dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    for channel in bits.T:
        row = (row ^ channel) * _FACTOR
        row ^= row >> np.uint64(29)
    for k in range(WINDOW):
        mark = mark * _FACTOR + row[k : k + count]
    changed = np.concatenate([[0], np.cumsum((Y[1:] != Y[:-1]).any(axis=1))])
    missing = np.concatenate([[0], np.cumsum(np.isnan(Y).any(axis=1))])
    good = (changed[WINDOW - 1 :] - changed[:count] >= CHANGES) & (missing[WINDOW:] == missing[:count])
    return mark, np.asarray(good)


# Stretches of time, the unit of resampling: whole days where there are enough of them, else as long a ---


DAYS = 8
"""From so many days on, a day is the unit of resampling."""
_LEAST_BLOCK = 30
_TURN = 1.5  # hours that a clock goes back within a segment, if it is a new day and not the end of summer time


def blocks_of(recording: Recording, pieces: Sequence[Piece], least: int = 1) -> Ints:
    """(T,) the number of the stretch that each row of the pieces is in, -1 elsewhere; the unit of resampling.

    A stretch is about as long as theta stays on average, and at least `least` rows: a decision, or an epoch. Where
    days are known, and there are enough of them, it is a whole day, or several if theta stays for so long.
    """
    length = max(recording.spell, float(least), float(_LEAST_BLOCK))
    found = np.full(len(recording.Y), -1, dtype=np.int64)
    dates = dates_in(recording, pieces)
    if dates is not None and whole_days(dates) >= DAYS:
        inside, days = dates >= 0, np.unique(dates[dates >= 0])
        together = max(1, round(length * days.size / float(inside.sum())))
        found[inside] = np.searchsorted(days, dates[inside]) // together
        return found
    number = 0
    for piece in pieces:
        for start, stop in parts(piece, length):
            found[start:stop] = number
            number += 1
    return found


def dates_in(recording: Recording, pieces: Sequence[Piece]) -> Ints | None:
    """(T,) the day of each row of the pieces, -1 elsewhere; None where no time is known."""
    dates = dates_of(recording)
    if dates is None:
        return None
    found = np.full(len(dates), -1, dtype=np.int64)
    for start, stop in pieces:
        found[start:stop] = dates[start:stop]
    return found


def unit_of(recording: Recording, pieces: Sequence[Piece]) -> str:
    """What a stretch is, in a sentence for the notes."""
    dates = dates_in(recording, pieces)
    if dates is None:
        return (
            "no time is known, and a stretch is about as long as theta stays: what goes on for longer, as what a day "
            "has in common, is not accounted for"
        )
    days = whole_days(dates)
    if days >= DAYS:
        return "a stretch is a day, or several where theta stays for longer"
    return (
        f"the judged part has {days} whole day{'s' if days != 1 else ''}, and a stretch is about as long as theta "
        f"stays: dependence from day to day cannot be accounted for with fewer than {DAYS} days"
    )


def dates_of(recording: Recording) -> Ints | None:
    """(T,) a number for each day, in their order; None where no time is known.

    A day is new where the clock goes back or the weekday changes. Without a clock days are counted in rows.
    """
    T = len(recording.Y)
    if recording.hours is None:
        if recording.period is None:
            return None
        rows = max(1, round(86_400.0 / recording.period))
        new = np.zeros(T, dtype=bool)
        for start, stop in recording.pieces():
            new[start:stop:rows] = True
        return np.cumsum(new) - 1
    known = np.maximum.accumulate(np.where(np.isnan(recording.hours), 0, np.arange(T)))
    hour = np.nan_to_num(recording.hours[known])
    back = hour[:-1] - hour[1:]
    new = np.where(recording.segments[1:] == recording.segments[:-1], back > _TURN, back > 1e-9)
    if recording.days is not None:
        new |= (recording.days[1:] != recording.days[:-1]) & (recording.days[1:] >= 0) & (recording.days[:-1] >= 0)
    return np.concatenate([[0], np.cumsum(new)]).astype(np.int64)


def whole_days(dates: Ints) -> int:
    """How many days there are, without those that have less than half of what the others have; -1 is no day.

    >>> whole_days(np.repeat([-1, 0, 1, 2], [9, 2, 10, 10]))
    2
    """
    counts = np.unique(dates[dates >= 0], return_counts=True)[1]
    return int((counts >= 0.5 * np.median(counts)).sum()) if counts.size else 0


# The clock on the wall: hour of the day and weekday of times in nanoseconds --------------------------


def hours_and_days(ns: NDArray[np.int64], zone: str | None) -> tuple[Array, NDArray[np.int64]]:
    """Hour of the day in [0, 24), and weekday from 0 (Monday), of times since 1970.

    >>> hours_and_days(np.array([0, 90 * 60 * 10**9]), "+02:00")
    (array([2. , 3.5]), array([3, 3]))
    """
    ns = np.asarray(ns, dtype=np.int64)
    whole = DAY // 24
    # what the zone adds, to the whole hour, from -12 to 14; the rest of an hour is that of UTC
    shift = (hours(ns, zone) - hours(ns, None) + 12) % 24 - 12
    local = ns + shift.astype(np.int64) * whole
    day = (local // DAY + 3) % 7  # 1970 began on a Thursday
    return np.asarray((local % DAY) / whole), day.astype(np.int64)
