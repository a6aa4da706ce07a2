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

A design played over a sequence, as a stream plays it, without ledger and records: what an audit attacks.

A `Design` draws once for a sequence, or once an epoch, for the value of theta at the first reading of the epoch. A
`CausalDesign` decides every so many readings, with memory. Between draws the filters go on from where they stood, by
the same rules as in a stream. Draws come from a generator: nobody's secret depends on them.

Laws of dependent channels as tables: quantiles and scores of one reading in microseconds.

Asking a fitted law for one reading takes milliseconds, most of it an inversion by search. Here the quantiles of each
channel are tabulated at scores 0.002 apart and interpolated; scores are read off the same table backwards, so that both
stay inverses of each other. The error of a score is below 1e-6 where the density does not jump.

The filters of autoregressions on a grid, many readings at a time: the same numbers as reading by reading.

These are the models that a fit gives for most sensors, and asking their laws reading by reading takes a millisecond.
The scores of all readings of one value are found together, since the past of each is known. Noise is found for all
scores together, where channels are independent given the past; what is left is a recursion of plain numbers. Where
channels depend on each other, their laws are tabulated first (`tabulated`), which is good to a millionth of a score.

What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is known of them.

Noise of equal distortion: what adding Gaussian noise would hide at the same price.

The noise is independent from reading to reading, or held for some readings, and its mean absolute value is that of the
disguise, channel by channel. Where readings lie on a grid the noisy ones are rounded to it, and it is the rounded noise
that has the wanted size.

Cases from a design's own models: what adversaries get if all its premises hold.

A `Design` is played on sequences of a constant theta, with the odds of the design; a `CausalDesign` on sequences along
which theta moves by its chain, from one decision to the next. All sequences are independent. One half is learned
from, the other judged.

Cases from raw readings: a recording is disguised with fresh draws and attacked, or an output is taken as it is.

The adversary has a labelled history of his own. He knows the design, so he disguises that history as often as he
likes: `replicates` copies, each with draws of its own. He is judged on copies of another stretch of time, or on a
recording that he has never seen.

Held noise: the other noise of equal distortion, an offset that is drawn once an epoch and kept.

Noise that is new at each reading is averaged away by whoever looks at many of them. An offset that stays as long as
one draw of the design is not, and is the fairer comparison. Its mean absolute value is that of the disguise too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Ints, Progress, Value
from understudy.adversaries.knowledge import Cases, Knowledge
from understudy.distortion.simulation import colour_all, quick
from understudy.errors import ConfigurationError, MissingReadingError, ModelError
from understudy.identify.history import History
from understudy.laws.atoms import Channel as CellChannel
from understudy.laws.atoms import Rounded, Rounding
from understudy.laws.law import Law
from understudy.laws.multivariate import GaussianCopula, Independent
from understudy.laws.uniforms import uniforms_from
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family
from understudy.models.gauss_markov import gauss_markov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, colour_on_grid, score_on_grid
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_guarantee import Beliefs
from understudy.randomizer.design import Design
from understudy.randomizer.measures import bayes_error, prior_error
from understudy.stream.engine import hand_over_state
from understudy.tables.times import DAY, hours
from understudy.transform.core import colour, colouring, disguise, has_atoms, sample, transformation
from understudy.transform.gaps import refill_of, restarting_map
from understudy.transform.readings import CausalMap

# A recording: raw readings with labels beside them, and how it is cut into what is learned from and w ---


# A recording: raw readings with labels beside them, and how it is cut into what is learned from and w ---


Labels: TypeAlias = Value | Iterable[Value]
"""Private values: one for all rows, or one a row."""
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


def make_recording(
    Y: ArrayLike,
    theta: Labels,
    values: Sequence[Value],
    hours: ArrayLike | None = None,
    days: ArrayLike | None = None,
    segments: ArrayLike | None = None,
) -> Recording:
    """A recording out of arrays: readings (T,) or (T, d), and one value of theta a row.

    A value that is None, NaN or no value of the family is unknown.

    >>> make_recording([1.0, 2.0, 3.0], [0, 1, None], values=[0, 1]).theta.tolist()
    [0, 1, -1]
    """
    readings = as_table(Y, "Y")
    T = len(readings)
    marks = np.zeros(T, dtype=np.int64) if segments is None else _segment_numbers(segments)
    hour = None if hours is None else _floats(hours, "hours")
    if hour is not None and not ((hour[~np.isnan(hour)] >= 0.0) & (hour[~np.isnan(hour)] < 24.0)).all():
        raise ConfigurationError("hours must lie in [0, 24), NaN for unknown")
    weekday = None
    if days is not None:
        given = _floats(days, "days")
        weekday = np.where(np.isnan(given), -1.0, given).astype(np.int64)
    found = positions(theta, values, T)
    strange = sum(at < 0 and _is_known(v) for v, at in zip(_as_list(theta, T), found.tolist(), strict=True))
    return Recording(readings, found, marks, hour, weekday, strange=strange)


def as_table(Y: ArrayLike, name: str) -> Array:
    """Readings as an array (T, d); what is no number is an error that does not show it."""
    readings = _floats(Y, name)
    if readings.ndim == 1:
        readings = readings[:, None]
    if readings.ndim != 2:
        raise ConfigurationError(f"{name} has shape {readings.shape}; it must be (T,) or (T, d)")
    if np.isinf(readings).any():
        raise ConfigurationError(f"{name} holds a reading that is infinite; each must be finite, or NaN for missing")
    return readings


def _floats(given: ArrayLike, name: str) -> Array:
    try:
        return np.array(given, dtype=float)
    except (TypeError, ValueError):  # whose message holds the value
        raise ConfigurationError(
            f"{name} holds what is no number, or rows of unequal length; each entry must be a number, NaN for missing"
        ) from None


def _is_known(v: Value) -> bool:
    """Whether a label says anything: it is not None, and not NaN, which is unequal to itself."""
    try:
        return v is not None and bool(v == v)
    except TypeError:  # the NA of pandas has no truth
        return False


def _as_list(theta: Labels, T: int) -> list[Any]:
    """The private values row by row; one that stands for all of them is repeated."""
    dims = getattr(theta, "ndim", None)
    if isinstance(theta, Iterable) and (not isinstance(theta, str) if dims is None else dims > 0):
        return list(theta)
    return [theta] * T


def positions(theta: Labels, values: Sequence[Value], T: int) -> Ints:
    """Where each private value stands in the family; -1 for what is no value of it."""
    shape = getattr(theta, "shape", ())
    given = _as_list(theta, T)
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


def _segment_numbers(segments: ArrayLike) -> Ints:
    """Segments as whole numbers in their order."""
    given = np.asarray(segments)
    changes = np.concatenate([[False], given[1:] != given[:-1]])
    number = np.cumsum(changes)
    if np.unique(given).size != int(number[-1]) + 1:
        raise ConfigurationError("segments: the rows of a segment must stand together")
    return number.astype(np.int64)


def split_in_time(recording: Recording, m: int) -> tuple[list[Piece], list[Piece], str]:
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
            ways.append((_without_ends(pieces[::2], spell), pieces[1::2], told))
    return ways


_IN_TURN = (
    "stretches from all over the time are learned from and judged in turn, so that what is judged has neighbours on "
    "both sides that were learned from"
)


def _without_ends(pieces: list[Piece], spell: float) -> list[Piece]:
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


def shared_rows(one: Array, other: Array) -> int:
    """How many rows of `other` (T, d) are in stretches of readings that `one` holds too.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(500, 1)), rng.normal(size=(500, 1))
    >>> shared_rows(first, second), shared_rows(first, np.concatenate([second, first[:100]]))
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


# A design played over a sequence, as a stream plays it, without ledger and records: what an audit att ---


# Laws of dependent channels as tables: quantiles and scores of one reading in microseconds -----------


_FAR = 7.0  # scores beyond are asked of the law itself
_STEP = 0.002


class Table:
    """A law of d channels whose scores are correlated normals, L z, on a grid.

    >>> import understudy as us
    >>> law = GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [us.Gaussian(0.0, 4.0), us.Gaussian(1.0, 1.0)])
    >>> table = Table(law)
    >>> round(table.quantile(0, 1.2345), 9), round(table.score(1, 0.5), 9)
    (2.469, -0.5)
    """

    def __init__(self, law: GaussianCopula) -> None:
        self._law = law
        self._L: list[list[float]] = np.linalg.cholesky(law.correlation).tolist()
        at = np.arange(-_FAR, _FAR + 0.5 * _STEP, _STEP)
        found: list[Array] = [np.maximum.accumulate(np.asarray(one.value(at), dtype=float)) for one in law.laws]
        self._at: list[float] = at.tolist()
        self._values: list[list[float]] = [column.tolist() for column in found]

    def __repr__(self) -> str:
        return f"Table(dim={len(self._values)})"

    def quantile(self, i: int, s: float) -> float:
        """The value of channel i that has this score under its own law."""
        if not -_FAR < s < _FAR:
            return float(np.asarray(self._law.laws[i].value(s)))
        k = min(int((s + _FAR) / _STEP), len(self._at) - 2)
        column = self._values[i]
        return column[k] + (column[k + 1] - column[k]) * ((s - self._at[k]) / _STEP)

    def score(self, i: int, y: float) -> float:
        """The score of a value of channel i under its own law."""
        column = self._values[i]
        if not column[0] < y < column[-1]:
            return float(np.asarray(self._law.laws[i].score(y)))
        k = bisect_right(column, y) - 1
        gap = column[k + 1] - column[k]
        return self._at[k] + _STEP * ((y - column[k]) / gap if gap > 0.0 else 0.5)

    def reported(self, z: Sequence[float], mean: Sequence[float], channels: Sequence[CellChannel]) -> list[float]:
        """What is reported for scores z around a mean: each channel follows what was reported of those before it."""
        out: list[float] = []
        w: list[float] = []
        for i, channel in enumerate(channels):
            row = self._L[i]
            before = sum(a * b for a, b in zip(row, w, strict=False))
            y = float(channel.rounded(mean[i] + self.quantile(i, before + row[i] * z[i])))
            out.append(y)
            w.append((self.score(i, y - mean[i]) - before) / row[i])
        return out


def table_of(law: Law) -> Table | None:
    """The table of a law, made once; None for laws of another kind."""
    return _table(law) if isinstance(law, GaussianCopula) else None


@lru_cache(maxsize=32)
def _table(law: GaussianCopula) -> Table:
    return Table(law)


# The filters of autoregressions on a grid, many readings at a time: the same numbers as reading by re ---


def all_on_grid(models: Sequence[Model]) -> bool:
    """Whether all models are autoregressions of one order on a grid."""
    inside = [model.model if type(model) is OnGrid else None for model in models]
    return all(type(m) is AutoRegressive and m.order == inside[0].order for m in inside)  # type: ignore[union-attr]  # all are of that type


def _on_grid(model: Model) -> tuple[AutoRegressive, Rounding]:
    """The autoregression inside of a model on a grid, and the grid."""
    if not isinstance(model, OnGrid) or not isinstance(model.model, AutoRegressive):
        raise ModelError(f"a {type(model).__name__} is no autoregression on a grid")
    return model.model, model.grid


def run_on_grid(
    Y: Array, theta: Ints, pseudo: Ints, sources: Sequence[Model], targets: Sequence[Model], secret: bytes
) -> Array:
    """An output (T, d) along both paths, with readings withheld at the beginning and after gaps, as `RestartingMap`.

    >>> import understudy as us, scipy.stats
    >>> noise = us.Scalar(scipy.stats.t(3.0, 0.0, 2.0))
    >>> low, high = (OnGrid(us.AutoRegressive(0.5, level, noise, past=[level]), step=1.0) for level in (5.0, 9.0))
    >>> Y = np.array([[10.0], [11.0], [np.nan], [9.0], [10.0]])
    >>> here, there = np.zeros(5, dtype=int), np.zeros(5, dtype=int)
    >>> np.isnan(run_on_grid(Y, here, there, [low], [high], bytes(32)))[:, 0].tolist()
    [True, False, True, True, False]
    """
    v = uniforms_from(secret).block(0, *Y.shape)
    z = score_on_grid(Y, theta, [model for model in sources if isinstance(model, OnGrid)], v)  # all of them are
    output = np.full(Y.shape, np.nan)
    rows = np.array([], dtype=np.int64) if z is None else np.flatnonzero(~np.isnan(z).any(axis=1))
    if z is not None and rows.size:
        output[rows] = colour_path(z[rows], pseudo[rows], targets)
    return output


def disguise_on_grid(Y: Array, source: OnGrid, target: OnGrid, rng: np.random.Generator) -> Array:
    """Many sequences (T, d, N) of one value disguised as another; none is missing, and the past is the model's."""
    T, d, N = Y.shape
    inside, grid = _on_grid(source)
    past = np.concatenate([np.repeat(inside.past[::-1, :, None], N, axis=2), Y])  # the earliest first
    p = inside.order
    # yhat_k = intercept + sum_i Phi_i y_{k-i}
    mean = inside.intercept[:, None] + sum(
        np.einsum("ij,tjn->tin", inside.coefficients[i], past[p - 1 - i : p - 1 - i + T]) for i in range(p)
    )
    flat, at = (x.transpose(1, 0, 2).reshape(d, T * N) for x in (Y, mean))
    v = rng.random((d, T * N)) * (1.0 - 2.0**-52) + 2.0**-53
    law = Rounded(inside.noise, grid, at[0] if d == 1 else at)
    z = np.reshape(law.score(flat[0], v[0]) if d == 1 else law.score(flat, v), (d, T, N)).transpose(1, 0, 2)
    found = colour_on_grid(np.ascontiguousarray(z), target)
    return Y if found is None else found


def colour_path(z: Array, pseudo: Ints, targets: Sequence[Model]) -> Array:
    """Scores (T, d) to readings along a pseudo path."""
    T, d = z.shape
    inside = [_on_grid(target) for target in targets]
    laws = [model.noise for model, _ in inside]
    used = sorted(set(pseudo.tolist()))
    separate = d == 1 or all(isinstance(laws[j], Independent) for j in used)
    noise = np.empty(z.shape)
    if separate:
        for j in used:
            at = pseudo == j
            noise[at] = np.reshape(laws[j].value(z[at, 0]), (-1, 1)) if d == 1 else np.asarray(laws[j].value(z[at].T)).T
    if d == 1:
        return _line(noise[:, 0], pseudo, inside)[:, None]
    dependent = None if separate else [table_of(law) if j in used else None for j, law in enumerate(laws)]
    out = np.empty(z.shape)
    past = np.array(inside[int(pseudo[0])][0].past)
    for k in range(T):
        j = int(pseudo[k])
        model, grid = inside[j]
        mean = model.intercept + np.tensordot(model.coefficients, past, axes=((0, 2), (0, 1)))
        table = None if dependent is None else dependent[j]
        if separate:
            out[k] = [c.rounded(y) for c, y in zip(grid.channels, (noise[k] + mean).tolist(), strict=True)]
        elif table is not None:
            out[k] = table.reported(z[k].tolist(), mean.tolist(), grid.channels)
        else:
            out[k] = Rounded(model.noise, grid, mean).value(z[k])
        past = np.concatenate([out[k][None], past[:-1]])
    return out


def _line(noise: Array, pseudo: Ints, targets: Sequence[tuple[AutoRegressive, Rounding]]) -> Array:
    """One channel: y_k = round(intercept + sum of phi_i y_{k-i} + e_k)."""
    parts = [(m.coefficients[:, 0, 0].tolist(), float(m.intercept[0]), grid.channels[0]) for m, grid in targets]
    past = targets[int(pseudo[0])][0].past[:, 0].tolist()
    out = np.empty(len(noise))
    for k, (e, j) in enumerate(zip(noise.tolist(), pseudo.tolist(), strict=True)):
        phi, intercept, channel = parts[j]
        y = channel.rounded(e + (intercept + sum(a * b for a, b in zip(phi, past, strict=True))))
        out[k] = y
        past = [y, *past[:-1]]
    return out


# A design played over a sequence, as a stream plays it, without ledger and records: what an audit att ---


class Run(NamedTuple):
    """An output and how it came about."""

    output: Array
    pseudo: Ints
    """(T,), positions of the pseudo values."""
    restarts: int
    """Gaps after which the filters had to begin anew, as the models have no law across them."""


class DesignRun:
    """A design ready to be played; filters are made once where they need no auxiliary uniforms."""

    def __init__(self, design: Design | CausalDesign, epoch: int | None = None) -> None:
        family = design.family
        if family is None:
            raise ConfigurationError(
                "the design has no models (us.solve makes none); an audit needs one from us.design"
            )
        self.design, self.family = design, family
        self.causal = isinstance(design, CausalDesign)
        self.every: int | None = design.decision_every if isinstance(design, CausalDesign) else epoch
        self.sources: list[Model] = [self.family.model(value) for value in design.values]
        self.targets: list[Model] = [self.family.model(value) for value in design.pseudo]
        self.atoms = any(has_atoms(model) or not hasattr(model, "atoms") for model in self.sources)
        self.quick = all_on_grid((*self.sources, *self.targets))
        self._maps: dict[tuple[int, int], CausalMap] = {}

    @cached_property
    def refill(self) -> int | None:
        """Readings that the filters need in a row before they go on after a gap; None if the models state none."""
        try:
            return refill_of((*self.sources, *self.targets))
        except ModelError:
            return None

    def draws(self, theta: Ints, rng: np.random.Generator) -> Ints:
        """The pseudo path (T,) for a path of private values, none of them unknown."""
        T, every = len(theta), self.every or len(theta)
        firsts = theta[::every].tolist()
        if isinstance(self.design, Design):
            drawn = [self.design.draw(row, rng) for row in firsts]
        else:
            drawn, state, beliefs = [], self.design.start(), self.design.beliefs
            for row in firsts:
                state, column, _ = beliefs.draw(state, row, rng)
                drawn.append(column)
        return np.repeat(np.array(drawn, dtype=np.int64), every)[:T]

    def run(self, Y: Array, theta: Ints, rng: np.random.Generator) -> Run:
        """Readings (T, d) of one sequence, disguised with fresh draws."""
        theta = fill_unknown(theta)
        Y = np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)
        if isinstance(self.design, CausalDesign) and self.design.estimated:
            theta = self._estimated(self.design, Y)
        pseudo = self.draws(theta, rng)
        secret = rng.bytes(32)
        try:
            return Run(self._released(self._through(Y, theta, pseudo, secret)), pseudo, 0)
        except MissingReadingError:
            return self._in_runs(Y, theta, pseudo, secret)

    def _estimated(self, design: CausalDesign, Y: Array) -> Ints:
        """The private values as the edge would guess them, where the design accepts that."""
        from understudy.randomizer.estimation import Estimator

        made = Estimator(self.family, design.beliefs.transitions, design.decision_every)
        rows = Y[:, 0].tolist() if self.family.dim == 1 else list(Y)
        return np.array(made.rows(rows), dtype=np.int64)

    def _through(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Array:
        """The output along both paths."""
        if self.quick and self.refill is not None:
            return run_on_grid(Y, theta, pseudo, self.sources, self.targets, secret)
        maps: dict[tuple[int, int], CausalMap] = {} if self.atoms else self._maps

        def between(i: int, j: int) -> CausalMap:
            if (i, j) not in maps:
                pair = self.sources[i], self.targets[j]
                waits = self.refill is not None
                maps[i, j] = restarting_map(*pair, secret) if waits else transformation(*pair, False, secret)
            return maps[i, j]

        try:
            return run_along(between, Y, theta, pseudo)
        except ModelError:  # filters that cannot go on from one another; a model of the whole path may know how
            both = (self.design.values, theta), (self.design.pseudo, pseudo)
            one, other = (self.family.along([values[k] for k in path.tolist()]) for values, path in both)
            return np.asarray(disguise(Y, one, other, secret)).reshape(Y.shape)

    def _in_runs(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Run:
        """Each run of readings without a gap from a new beginning."""
        output, restarts = np.full(Y.shape, np.nan), -1
        there = np.asarray(~np.isnan(Y).any(axis=1))
        cuts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(Y)]
        for start, stop in pairwise(cuts):
            if there[start]:
                rows = slice(start, stop)
                output[rows] = self._through(np.ascontiguousarray(Y[rows]), theta[rows], pseudo[rows], secret)
                restarts += 1
        return Run(self._released(output), pseudo, max(restarts, 0))

    def _released(self, output: Array) -> Array:
        """Outputs (T, d) on the lattice of the design, as streams release them."""
        return self.design.release.rounded(output)

    def readings(self, theta: Ints, rng: np.random.Generator) -> Array:
        """Readings (T, d) of the models themselves along a path of private values."""
        z = rng.standard_normal((len(theta), self.family.dim))
        if self.quick:
            return colour_path(z, theta, self.sources)
        made = [colouring(model) for model in self.sources]
        try:
            return run_along(lambda i, _: made[i], z, theta, theta * 0)
        except ModelError:
            model = self.family.along([self.design.values[i] for i in theta.tolist()])
            return np.asarray(sample(model, len(theta), rng=rng)).reshape(z.shape)


def run_along(between: Callable[[int, int], CausalMap], Y: Array, theta: Ints, pseudo: Ints) -> Array:
    """Readings through the filters of both paths, piece by piece; the state goes on from one to the next."""
    changes = np.flatnonzero((theta[1:] != theta[:-1]) | (pseudo[1:] != pseudo[:-1])) + 1
    cuts = [0, *changes.tolist(), len(Y)]
    out = np.empty(Y.shape)
    old: CausalMap | None = None
    state: Any = None
    for start, stop in pairwise(cuts):
        new = between(int(theta[start]), int(pseudo[start]))
        if new is not old:
            state = new.start() if old is None else hand_over_state(old, new, state)
        state, out[start:stop] = new.apply(state, np.ascontiguousarray(Y[start:stop]))
        old = new
    return out


def fill_unknown(theta: Ints) -> Ints:
    """A path whose unknown values are those before them, or, at the beginning, the first that is known.

    >>> fill_unknown(np.array([-1, 1, -1, 0, -1])).tolist()
    [1, 1, 1, 0, 0]
    """
    known = np.flatnonzero(theta >= 0)
    if not known.size:
        raise ConfigurationError("a sequence has no known private value at all; it cannot be played")
    last = np.maximum.accumulate(np.where(theta >= 0, np.arange(len(theta)), known[0]))
    return np.asarray(theta[last])


# What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is  ---


# Noise of equal distortion: what adding Gaussian noise would hide at the same price ------------------


def noise_scale(wanted: float, step: float = 0.0) -> float:
    """The standard deviation of Gaussian noise whose mean absolute value, rounded to the step, is as wanted.

    E abs(round(s Z)) in steps is 2 sum over k >= 1 of Pr(s Z > k - 1/2).

    >>> round(noise_scale(1.0), 6), round(noise_scale(0.5, step=1.0), 4)
    (1.253314, 0.6915)
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if not wanted > 0.0:
        return 0.0
    plain = wanted * math.sqrt(0.5 * math.pi)
    if not step > 0.0 or plain > 8.0 * step:  # rounding is noise of its own, and does not show beside so much
        return plain

    def size(s: float) -> float:
        k = np.arange(1, 2 + math.ceil(10.0 * s / step))
        return float(2.0 * step * ndtr(-(k - 0.5) * step / s).sum()) - wanted

    low, high = 0.02 * step, 16.0 * step + 4.0 * plain
    return low if size(low) > 0.0 else float(brentq(size, low, high, xtol=1e-12 * step))


def noise_scales(wanted: Array, grid: Grid | None) -> Array:
    """The same for each channel, (d,)."""
    steps = np.zeros(len(wanted)) if grid is None else grid[0]
    return np.array([noise_scale(float(w), float(s)) for w, s in zip(wanted, steps, strict=True)])


def add_noise(Y: Array, scales: Array, grid: Grid | None, rng: np.random.Generator, every: int = 1) -> Array:
    """Readings (T, d, N) with noise of these standard deviations, by channel, drawn anew every so many readings.

    >>> found = add_noise(np.zeros((6, 1, 1)), np.ones(1), None, np.random.default_rng(0), every=4)
    >>> np.unique(found, return_counts=True)[1].tolist()
    [2, 4]
    """
    T, d, N = Y.shape
    drawn = rng.standard_normal((-(-T // every), d, N))
    noise = (drawn if every == 1 else np.repeat(drawn, every, axis=0)[:T]) * scales[:, None]
    if grid is not None:
        steps = grid[0]
        rough = np.where(steps > 0.0, steps, 1.0)[:, None]
        noise = np.where(steps[:, None] > 0.0, rough * np.rint(noise / rough), noise)
    return np.asarray(Y + noise)


# What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is  ---


Grid = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Material:
    """Cases by the kind of data: "disguised", and "raw" and "noise" where raw readings are there.

    Sequences of raw and disguised cases correspond: sequence n of the output is that of the raw one n mod their count.
    """

    learn: dict[str, Cases]
    judge: dict[str, Cases]
    known: dict[str, Knowledge]
    independent: bool
    """Sequences are independent of each other, and each is one stretch."""
    how: str
    bound: float | None
    prior_error: float
    notes: tuple[str, ...] = ()
    period: float | None = None

    def __repr__(self) -> str:
        return f"Material({self.how}, {self.judge['disguised']!r})"


def with_noise(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus noise of the distortion that the output has on the judged cases."""
    learn, judge = material.learn, material.judge
    wanted = mean_distance(judge["raw"], judge["disguised"])
    known = material.known["raw"]
    scales = noise_scales(wanted, known.grid)
    made = []
    for cases in (learn, judge):
        # as many copies as there are of the output: an adversary can add noise to his own history as often as he likes
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        made.append(replace(copies, outputs=add_noise(copies.outputs, scales, known.grid, rng)))
    return replace(
        material,
        learn={**learn, "noise": made[0]},
        judge={**judge, "noise": made[1]},
        known={**material.known, "noise": replace(known, noise=scales)},
    )


def mean_distance(raw: Cases, output: Cases) -> Array:
    """Mean absolute distance of output and reading, (d,), where both are there; 0 where they never are."""
    total, count = np.zeros(raw.d), np.zeros(raw.d)
    for n in range(0, output.N, raw.N):
        apart = np.abs(output.outputs[:, :, n : n + raw.N] - raw.outputs)
        total += np.nansum(apart, axis=(0, 2))
        count += np.isfinite(apart).sum(axis=(0, 2))
    return np.asarray(total / np.maximum(count, 1))


def transition_counts(labels: NDArray[np.int64], m: int) -> Array:
    """How theta moves from one reading to the next, in labels (T, N): counts, with one more in all for what is rare.

    >>> transition_counts(np.array([[0], [0], [0], [1], [1]]), 2).round(3).tolist()
    [[0.625, 0.375], [0.25, 0.75]]
    """
    before, after = labels[:-1].ravel(), labels[1:].ravel()
    known = (before >= 0) & (after >= 0)
    counts = np.bincount(before[known] * m + after[known], minlength=m * m).reshape(m, m).astype(float)
    total = counts.sum(axis=1, keepdims=True)
    # one pseudo-transition a value, spread as the values are on the whole; who was never seen stays
    spread = (counts.sum(axis=0) + 1.0) / (counts.sum() + m)
    return np.asarray((counts + spread) / (total + 1.0))


def label_shares(labels: NDArray[np.int64], m: int) -> Array:
    """The odds of the values in labels of any shape, none of them 0."""
    counts = np.bincount(labels[labels >= 0].ravel(), minlength=m) + 0.5
    return np.asarray(counts / counts.sum())


def undisguised(known: Knowledge) -> Knowledge:
    """What is known where nothing is disguised: theta plays itself."""
    m = len(known.family.values)
    return replace(known, pseudo=tuple(known.family.values), kernel=np.eye(m), decision_every=None, raw=True)


def grid_of(models: list[Model], Y: Array | None = None) -> Grid | None:
    """Steps and offsets of all channels, if each has a grid: the models', or that of readings (T, d) themselves."""
    channels: Any = getattr(getattr(models[0], "grid", None), "channels", None)
    if channels is not None and all(channel.step for channel in channels):
        return np.array([c.step for c in channels]), np.array([c.offset for c in channels])
    if Y is None:
        return None
    from understudy.identify.grid import detect_grid

    found = detect_grid(Y)
    grids = found if isinstance(found, tuple) else (found,)
    if any(grid.step is None for grid in grids):
        return None
    return np.array([g.step for g in grids], dtype=float), np.array([g.offset for g in grids], dtype=float)


# Cases from a design's own models: what adversaries get if all its premises hold ---------------------


HORIZON = 50
"""Readings of a sequence, where the design is for the limit of long ones."""
MOST = 20_000_000
"""Readings that are held at a time, in all channels."""
MOST_GRID = 1_000_000
"""The same for autoregressions on a grid."""
MOST_SLOW = 100_000
"""The same for models whose filters are asked reading by reading."""
MOST_DECISIONS = 40_000
"""Decisions of a causal design, each of which may be a problem to be solved."""
_SEQUENCES = 400  # that a causal design is played on, where there are readings enough
_FEWEST_DECISIONS = 10


def simulate(design: Design | CausalDesign, n: int, rng: np.random.Generator, tell: Progress) -> Material:
    """Independent sequences of the design's models: n in all, or n readings in all where theta moves."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 8:
        raise ConfigurationError(f"n = {n!r}; it must be a whole number of at least 8")
    stage = DesignRun(design)
    if isinstance(design, Design):
        return _simulate_constant(design, stage, int(n), rng, tell)
    return _simulate_moving(design, stage, int(n), rng, tell)


def _simulate_constant(design: Design, stage: DesignRun, n: int, rng: np.random.Generator, tell: Progress) -> Material:
    d = stage.family.dim
    horizon = None if design.costs is None else design.costs.horizon
    T = horizon or HORIZON
    notes = [] if horizon else [f"the design is for the limit of long sequences; simulated ones have {T} readings"]
    linear = all(gauss_markov(model) is not None for model in (*stage.sources, *stage.targets))
    most = max(200, (MOST if linear else MOST_GRID if stage.quick else MOST_SLOW) // (T * d))
    if n > most:
        why = "so many are held at a time" if linear else "its models take their time"
        notes.append(f"{most:,} sequences of {T} readings were simulated in place of {n:,}: {why}")
        n = most
    theta = rng.choice(len(design.prior), size=n, p=design.prior)
    raw, output, pseudo = np.empty((T, d, n)), np.empty((T, d, n)), np.empty(n, dtype=np.int64)
    done = 0
    for i, source in enumerate(stage.sources):
        mine = np.flatnonzero(theta == i)
        if not mine.size:
            continue
        z = rng.standard_normal((T, d, mine.size))
        raw[:, :, mine] = colour(z, source) if linear else colour_all(z, source)
        pseudo[mine] = rng.choice(len(design.pseudo), size=mine.size, p=design.randomizer.kernel[i])
        for j, target in enumerate(stage.targets):
            those = mine[pseudo[mine] == j]
            if those.size:
                Y = np.ascontiguousarray(raw[:, :, those])
                if stage.quick and isinstance(source, OnGrid) and isinstance(target, OnGrid):
                    output[:, :, those] = disguise_on_grid(Y, source, target, rng)
                else:
                    output[:, :, those] = disguise(Y, source, target, rng)
            done += those.size
            tell(done / n)
    output = design.release.rounded(output, output)  # as streams release it
    labels = np.broadcast_to(theta, (T, n))
    known = _knowledge_simulated(stage, design.randomizer.kernel, None, None)
    return _material(
        raw, output, labels, np.broadcast_to(pseudo, (T, n)), known, True, _bound(design, design.prior),
        prior_error(design.prior), tuple(notes),
    )  # fmt: skip


def _simulate_moving(
    design: CausalDesign, stage: DesignRun, n: int, rng: np.random.Generator, tell: Progress
) -> Material:
    every, d = design.decision_every, stage.family.dim
    T = max(n // _SEQUENCES, _FEWEST_DECISIONS * every, 2)
    N = max(2, n // T)
    notes = ["theta moves by the chain of the design, from one decision to the next"]
    slow = not all(quick(model) for model in (*stage.sources, *stage.targets))
    most = max(16, min(MOST_DECISIONS // -(-T // every), (MOST_SLOW if slow else MOST) // (T * d)))
    if most < N:
        notes.append(
            f"{most:,} sequences of {T} readings were simulated in place of {N:,}: each decision takes its time"
        )
        N = most
    raw, output = np.empty((T, d, N)), np.empty((T, d, N))
    labels, pseudo = np.empty((T, N), dtype=np.int64), np.empty((T, N), dtype=np.int64)
    for k in range(N):
        labels[:, k] = draw_path(design.beliefs, T, every, rng)
        raw[:, :, k] = stage.readings(labels[:, k], rng)
        output[:, :, k], pseudo[:, k], _ = stage.run(raw[:, :, k], labels[:, k], rng)
        tell((k + 1) / N)
    # (I + (P - I) / every): on average theta moves as if at any reading
    m = len(design.values)
    average = design.beliefs.transitions.mean(axis=0)
    moves = np.eye(m) + (average - np.eye(m)) / every
    # of the half that is learned from: nobody knows the draws by which he is judged
    seen = slice(0, N // 2)
    known = _knowledge_simulated(
        stage, joint_kernel(labels[:, seen], pseudo[:, seen], m, len(design.pseudo)), moves, every
    )
    error = 1.0 - float(label_shares(labels, m).max())
    return _material(raw, output, labels, pseudo, known, False, None, error, tuple(notes))


def draw_path(beliefs: Beliefs, T: int, every: int, rng: np.random.Generator) -> Ints:
    """A path of theta: the prior, then a step of the chain at each decision."""
    decisions = -(-T // every)
    found = [int(rng.choice(len(beliefs.prior), p=beliefs.prior))]
    for k in range(decisions - 1):
        row = beliefs.transitions[k % beliefs.period][found[-1]]
        at = int(np.searchsorted(np.cumsum(row), rng.random(), "right"))
        found.append(min(at, len(row) - 1))
    return np.repeat(np.array(found, dtype=np.int64), every)[:T]


def joint_kernel(labels: Ints, pseudo: Ints, m: int, n: int) -> Array:
    """The average of Pr(pseudo given theta) in paths of both; uniform where theta never is."""
    known = (labels >= 0) & (pseudo >= 0)
    counts = np.bincount(labels[known] * n + pseudo[known], minlength=m * n).reshape(m, n).astype(float)
    counts[counts.sum(axis=1) == 0.0] = 1.0
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _knowledge_simulated(stage: DesignRun, kernel: Array, transitions: Array | None, every: int | None) -> Knowledge:
    design, family = stage.design, stage.family
    grid = grid_of(stage.sources)
    return Knowledge(family, tuple(design.pseudo), kernel, np.asarray(design.prior), transitions, every, grid, design)


def _material(
    raw: Array, output: Array, labels: Ints, pseudo: Ints, known: Knowledge, once: bool, bound: float | None,
    prior_error: float, notes: tuple[str, ...],
) -> Material:  # fmt: skip
    N, half = raw.shape[2], raw.shape[2] // 2
    blocks = np.broadcast_to(np.arange(N), labels.shape)
    m = len(known.family.values)
    cases = {
        "disguised": Cases(output, labels, blocks, m, once, pseudo=pseudo),
        "raw": Cases(raw, labels, blocks, m, once),
    }
    return Material(
        learn={name: case.sequences(slice(0, half)) for name, case in cases.items()},
        judge={name: case.sequences(slice(half, N)) for name, case in cases.items()},
        known={"disguised": known, "raw": undisguised(known)},
        independent=True,
        how="simulated",
        bound=bound,
        prior_error=prior_error,
        notes=notes,
    )


# Cases from raw readings: a recording is disguised with fresh draws and attacked, or an output is tak ---


_WASTE = 4.0  # how much larger than its rows a padded array may be
_GRID_ROWS = 20_000  # that a grid is looked for in


class Part(NamedTuple):
    """Stretches of a recording, and the stretch of resampling of each row."""

    recording: Recording
    pieces: Sequence[Piece]
    blocks: Ints


def from_history(history: History, family: Family) -> Recording:
    """A history, as `understudy.identify.fit.read_again` makes one of a frame, as a recording to be audited on.

    Labels keep their order where the family has them; hours and weekdays are those of the clock on the wall.
    """
    at = {value: i for i, value in enumerate(family.values)}
    lookup = np.array([at.get(value, -1) for value in history.values] + [-1], dtype=np.int64)
    segments = [segment for segment in history.segments if len(segment)]
    Y = np.concatenate([segment.Y for segment in segments])
    theta = np.concatenate([lookup[segment.theta] for segment in segments])
    number = np.repeat(np.arange(len(segments)), [len(segment) for segment in segments])
    hours = days = None
    if all(segment.times is not None for segment in segments):
        times = np.concatenate([np.asarray(segment.times) for segment in segments])
        hours, days = hours_and_days(times, history.zone)
    return Recording(np.array(Y), theta, number.astype(np.int64), hours, days, history.period)


def replay(
    design: Design | CausalDesign, recording: Recording, train: Recording | None, replicates: int, epoch: int | None,
    rng: np.random.Generator, tell: Progress,
) -> Material:  # fmt: skip
    """A recording disguised and split, or all of it judged by who has learned from another one."""
    stage, m, notes = _prepare(design, recording, epoch)
    learn, judge, told = _split(recording, train, m, stage.every or 1)
    notes += told
    once = _is_constant(learn) and _is_constant(judge) and stage.every is None
    total = len(learn.pieces) + len(judge.pieces)
    raw = [_cases(part, _rows(part), 1, m, once) for part in (learn, judge)]
    output, count = [], 0
    for part in (learn, judge):
        made, restarts, withheld = [], 0, 0
        for _ in range(replicates):
            for start, stop in part.pieces:
                done = stage.run(part.recording.Y[start:stop], part.recording.theta[start:stop], rng)
                made.append((done.output, done.pseudo))
                restarts += done.restarts
                there = ~np.isnan(part.recording.Y[start:stop]).any(axis=1)
                withheld += int((np.isnan(done.output).any(axis=1) & there).sum())
                count += 1
                tell(count / (total * replicates))
        output.append(_cases(part, [out for out, _ in made], replicates, m, once, [drawn for _, drawn in made]))
    notes += _gaps(restarts, withheld, replicates, stage.refill)
    known = _knowledge_replayed(stage, raw[0], output[0], recording if train is None else train)
    truth = raw[1].truth
    odds = label_shares(truth, m)
    bound = _bound(design, _occurrence(truth, m)) if once and isinstance(design, Design) else None
    if not once:
        notes += _premise(stage, recording)
    return Material(
        learn={"disguised": output[0], "raw": raw[0]}, judge={"disguised": output[1], "raw": raw[1]},
        known={"disguised": known, "raw": undisguised(known)}, independent=False, how="replayed", bound=bound,
        prior_error=1.0 - float(odds.max()), notes=tuple(notes), period=recording.period,
    )  # fmt: skip


def take_output(
    design: Design | CausalDesign, recording: Recording, output: Array, train: Recording | None,
    raw_known_too: bool, replicates: int, epoch: int | None, rng: np.random.Generator, tell: Progress,
) -> Material:  # fmt: skip
    """An output that was made elsewhere, attacked as it is; `recording` has its labels, and raw readings if known.

    Without a recording to learn from, the adversary has the labels of the first part of the output.
    """
    stage, m, notes = _prepare(design, recording, epoch)
    if output.shape != recording.Y.shape:
        raise ConfigurationError(
            f"released has {len(output)} rows of {output.shape[1]} channels, and there are {len(recording.Y)} rows of "
            f"{recording.Y.shape[1]} beside it; they must agree"
        )
    shown = replace(recording, Y=output)
    learn, judge, told = _split(shown, train, m, stage.every or 1)
    notes += told
    once = _is_constant(learn) and _is_constant(judge) and stage.every is None
    attacked = _cases(judge, _rows(judge), 1, m, once)
    if train is None:
        known_by = _cases(learn, _rows(learn), 1, m, once)
        pseudo_known = known_by
    else:
        made = []
        for k in range(replicates):
            for start, stop in learn.pieces:
                made.append(stage.run(train.Y[start:stop], train.theta[start:stop], rng))
            tell((k + 1) / replicates)
        paths = [done.pseudo for done in made]
        known_by = pseudo_known = _cases(learn, [done.output for done in made], replicates, m, once, paths)
    known = _knowledge_replayed(stage, known_by, pseudo_known, shown if train is None else train)
    learned, judged = {"disguised": replace(known_by, pseudo=None)}, {"disguised": attacked}
    if raw_known_too:
        of_learning = learn._replace(recording=recording) if train is None else learn
        learned["raw"] = _cases(of_learning, _rows(of_learning), 1, m, once)
        judged["raw"] = _cases(judge, _rows(judge._replace(recording=recording)), 1, m, once)
    if not once:
        notes += _premise(stage, recording)
    bound = _bound(design, _occurrence(attacked.truth, m)) if once and isinstance(design, Design) else None
    return Material(
        learn=learned, judge=judged, known={"disguised": known, "raw": undisguised(known)}, independent=False,
        how="released", bound=bound,
        prior_error=1.0 - float(label_shares(attacked.truth, m).max()), notes=tuple(notes), period=recording.period,
    )  # fmt: skip


def _prepare(
    design: Design | CausalDesign, recording: Recording, epoch: int | None
) -> tuple[DesignRun, int, list[str]]:
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 1):
        raise ConfigurationError(f"epoch = {epoch!r}; it must be a whole number of readings, at least 1")
    causal = isinstance(design, CausalDesign)
    notes: list[str] = []
    if causal and epoch is not None:
        raise ConfigurationError("a causal design decides every so many readings by itself; epoch is not for it")
    if not causal and epoch is None and _moves(recording):
        epoch = None if design.costs is None else design.costs.horizon
        epoch = epoch or 60
        notes.append(f"theta moves, and the design is for a constant one: it draws anew every {epoch} readings")
    stage = DesignRun(design, None if epoch is None else int(epoch))
    if recording.Y.shape[1] != stage.family.dim:
        raise ConfigurationError(
            f"the readings have {recording.Y.shape[1]} channels and the models {stage.family.dim}; they must agree"
        )
    return stage, len(design.values), notes


def _moves(recording: Recording) -> bool:
    """Whether theta changes within a segment."""
    return any(np.unique(theta[theta >= 0]).size > 1 for theta in _labels(recording, recording.pieces()))


def _is_constant(part: Part) -> bool:
    return len(part.pieces) > 1 and all(
        np.unique(theta[theta >= 0]).size <= 1 for theta in _labels(part.recording, part.pieces)
    )


def _labels(recording: Recording, pieces: Sequence[Piece]) -> list[Ints]:
    return [recording.theta[start:stop] for start, stop in pieces]


def _split(recording: Recording, train: Recording | None, m: int, least: int) -> tuple[Part, Part, list[str]]:
    """What is learned from, and what is judged."""
    if train is None:
        first, last, told = split_in_time(recording, m)
        return (
            Part(recording, first, blocks_of(recording, first, least)),
            Part(recording, last, blocks_of(recording, last, least)),
            [told, unit_of(recording, last)],
        )
    if train.Y.shape == recording.Y.shape and np.array_equal(train.Y, recording.Y, equal_nan=True):
        raise ConfigurationError("train has the readings that are judged; nothing can be learned about others from it")
    both = []
    for each in (train, recording):
        pieces = [p for p in each.pieces() if each.judged[p[0] : p[1]].any()]
        if not pieces:
            raise ConfigurationError("a recording has no row with a reading and a label; there is nothing to go by")
        both.append(Part(each, pieces, blocks_of(each, pieces, least)))
    return both[0], both[1], ["one recording is learned from, another one judged", unit_of(*both[1][:2])]


def _rows(part: Part) -> list[Array]:
    return [part.recording.Y[start:stop] for start, stop in part.pieces]


def _cases(
    part: Part, outputs: Sequence[Array], copies: int, m: int, once: bool, pseudo: Sequence[Ints] | None = None
) -> Cases:
    """Stretches as sequences side by side, all copies of them; long ones are cut where padding would be most of it."""
    recording = part.recording
    pieces = list(part.pieces) * copies
    cut = _cuts([stop - start for start, stop in part.pieces]) if not once else None
    columns: list[tuple[int, int, int]] = []  # which output, first row in it, the one after the last
    for k, (start, stop) in enumerate(pieces):
        length = stop - start
        step = length if cut is None else -(-length // -(-length // cut))
        columns += [(k, at, min(at + step, length)) for at in range(0, length, step)]
    T, N, d = max(b - a for _, a, b in columns), len(columns), recording.Y.shape[1]
    Y = np.full((T, d, N), np.nan)
    labels, blocks = np.full((T, N), -1, dtype=np.int64), np.zeros((T, N), dtype=np.int64)
    hours = None if recording.hours is None or not recording.public else np.full((T, N), np.nan)
    days = None if recording.days is None or hours is None else np.full((T, N), -1, dtype=np.int64)
    drawn = None if pseudo is None else np.full((T, N), -1, dtype=np.int64)
    theta = np.where(recording.judged, recording.theta, -1)
    for column, (k, a, b) in enumerate(columns):
        rows = slice(pieces[k][0] + a, pieces[k][0] + b)
        Y[: b - a, :, column] = outputs[k][a:b]
        labels[: b - a, column] = theta[rows]
        blocks[:, column] = part.blocks[rows][-1]
        blocks[: b - a, column] = part.blocks[rows]
        if hours is not None and recording.hours is not None:
            hours[: b - a, column] = recording.hours[rows]
        if days is not None and recording.days is not None:
            days[: b - a, column] = recording.days[rows]
        if drawn is not None and pseudo is not None:
            drawn[: b - a, column] = pseudo[k][a:b]
    if once:
        known = [theta_k[theta_k >= 0][:1] for theta_k in labels.T]
        labels = np.broadcast_to(np.array([k[0] if k.size else -1 for k in known], dtype=np.int64), (T, N))
        firsts = part.blocks[[start for start, _ in part.pieces]]
        blocks = np.broadcast_to(np.tile(firsts, copies), (T, N))
    return Cases(Y, labels, blocks, m, once, hours, days, drawn)


def _cuts(lengths: Sequence[int]) -> int | None:
    """The most rows of a sequence, where a few long ones would make padding out of all the others; None if not."""
    if max(lengths) * len(lengths) <= _WASTE * sum(lengths) + 10_000:
        return None
    return max(1000, round(2.0 * sum(lengths) / len(lengths)))


def _knowledge_replayed(stage: DesignRun, raw: Cases, output: Cases, recording: Recording) -> Knowledge:
    """What the adversary makes of the design and of his own history."""
    design, m = stage.design, raw.m
    n = len(design.pseudo)
    if isinstance(design, Design):
        kernel = design.randomizer.kernel
    elif output.pseudo is not None:
        kernel = joint_kernel(output.labels, output.pseudo, m, n)
    else:
        kernel = np.full((m, n), 1.0 / n)
    moves = None if raw.once else transition_counts(raw.labels, m)
    there = recording.Y[~np.isnan(recording.Y).any(axis=1)][:_GRID_ROWS]
    grid = grid_of(stage.sources, there if len(there) > 50 else None)
    odds = label_shares(raw.truth, m)
    return Knowledge(stage.family, tuple(design.pseudo), np.asarray(kernel), odds, moves, stage.every, grid, design)


def _bound(design: Design, prior: Array) -> float:
    """The error of the best adversary who sees the pseudo value, less what approximate models may add to his chance."""
    charge = 0.0
    if design.charge is not None:
        charge = math.fsum(w * x for w, x in zip(prior.tolist(), design.charge.variations, strict=True))
    return max(0.0, bayes_error(prior, design.randomizer.kernel) - charge)


def _occurrence(truth: Ints, m: int) -> Array:
    """The share of each value among the judged labels, 0 for one that does not occur."""
    counts = np.bincount(truth[truth >= 0], minlength=m)
    return np.asarray(counts / counts.sum())


def _gaps(restarts: int, withheld: int, replicates: int, refill: int | None) -> list[str]:
    notes = []
    if withheld and refill is not None:
        notes.append(
            f"of each judged copy {withheld / replicates:,.0f} outputs are withheld: the models need {refill} readings "
            "in a row at the beginning and after a gap; they are guessed from the others"
        )
    if restarts:
        notes.append(
            f"the models have no law across missing readings: at {restarts / replicates:,.0f} gaps of each judged copy "
            "the filters began anew, which a stream refuses to do"
        )
    return notes


def _premise(stage: DesignRun, recording: Recording) -> list[str]:
    """What the theorem wants, and these data do not give."""
    notes = ["no bound is stated beside real readings: it holds where the models are right, and they are only fitted"]
    if not stage.causal:
        spells = f"here theta stays for {recording.spell:,.0f} readings on average"
        notes.append(
            f"the guarantee is for a theta that is constant over an epoch and drawn with the stated odds; {spells}, "
            "and draws for the same stay add up"
        )
    return notes


# Held noise: the other noise of equal distortion, an offset that is drawn once an epoch and kept -----


def holds(every: int | None, T: int) -> int:
    """For how many readings an offset is kept: an epoch, or the sequence if it has one draw.

    >>> holds(None, 50), holds(20, 50)
    (50, 20)
    """
    return T if every is None else min(every, T)


def with_held(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus held noise of the distortion that the output has on the judged cases."""
    learn, judge, known = material.learn, material.judge, material.known["raw"]
    scales = noise_scales(mean_distance(judge["raw"], judge["disguised"]), known.grid)
    every = material.known["disguised"].decision_every
    made = []
    for cases in (learn, judge):
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        offsets = add_noise(copies.outputs, scales, known.grid, rng, holds(every, copies.T))
        made.append(replace(copies, outputs=offsets))
    return replace(
        material,
        learn={**learn, "offset": made[0]},
        judge={**judge, "offset": made[1]},
        known={**material.known, "offset": replace(known, noise=scales)},
    )
