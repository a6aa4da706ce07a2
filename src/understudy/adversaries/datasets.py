"""Labelled outputs that an audit works on: simulated by a design, or made from a recording.

An audit needs cases that adversaries learn from and other cases that they are judged on. `Material` holds both, for
each kind of data: the disguised output, the raw readings, and raw readings with noise of equal distortion.

`simulate` draws independent sequences from the design's own models, where every premise of the theorem holds: sequences
of a constant theta for a `Design`, paths of the Markov chain for a `CausalDesign`. One half is learned from.

`replay` takes a `Recording`: raw readings with labels beside them. It is cut by time, never by single readings
(`split_in_time`): the first part of the time is for learning, whole segments where there are many. Where a part lacks a
value of theta, blocks from all over the time are dealt out in turn, with a margin between them. The adversary knows the
design and has a labelled history of his own, so he disguises it as often as he likes: `replicates` copies, each with
fresh draws. An output that was made elsewhere is attacked as it is.

`DesignRun` plays a design over a sequence as a stream does, without ledger and records. Readings are autocorrelated, so
intervals resample blocks of time (`blocks_of`): whole days where there are enough of them, otherwise blocks as long as
theta stays.

Noise of equal distortion shows what adding noise would hide at the same price. It is independent from reading to
reading, or a constant offset for as long as one draw of the design. Its mean absolute value is that of the disguise in
each channel; on a grid the rounded noise has that size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Ints, Progress, Value
from understudy.adversaries.knowledge import Cases, Knowledge
from understudy.distortion.simulation import colour_all, quick
from understudy.errors import ConfigurationError, MissingReadingError, ModelError, NumericalError
from understudy.identify.history import History, Segment
from understudy.identify.selection import scores
from understudy.laws.atoms import Rounded
from understudy.laws.uniforms import Uniforms
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family
from understudy.models.gauss_markov import gauss_markov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, colour_on_grid
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_guarantee import Beliefs
from understudy.randomizer.coin import CoinDesign
from understudy.randomizer.design import Design
from understudy.randomizer.measures import bayes_error, prior_error
from understudy.randomizer.routine import WEEK
from understudy.stream.engine import hand_over_state
from understudy.tables.times import DAY, hours
from understudy.transform.core import colour, colouring, disguise, has_atoms, sample, transformation
from understudy.transform.gaps import refill_between, restarting_map
from understudy.transform.readings import CausalMap

# Recordings ----------------------------------------------------------------------------------------------------------


Labels: TypeAlias = Value | Iterable[Value]
"""Private values: one for all rows, or one a row."""
Piece = tuple[int, int]
"""Consecutive rows: the first, and the one after the last."""


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
    """(T,), a number for each part without interruption; rows of one stand together."""
    hours: Array | None = None
    days: Ints | None = None
    period: float | None = None
    """Seconds from one row to the next."""
    strange: int = 0
    """Labels that are no value of the family, and are taken for unknown."""
    public: bool = True
    """Whether adversaries see the clock; blocks are days in either case."""

    def __post_init__(self) -> None:
        T = len(self.Y)
        if self.Y.ndim != 2 or T < 2:
            raise ConfigurationError(f"the readings have shape {self.Y.shape}; they must be (T, d) with T >= 2")
        for name in ("theta", "segments", "hours", "days"):
            part = getattr(self, name)
            if part is not None and part.shape != (T,):
                raise ConfigurationError(f"{name} has shape {part.shape}; {T} readings need ({T},)")
        if np.unique(self.segments).size != len(self.pieces()):
            raise ConfigurationError("segments: the rows of a segment must stand together")

    def __repr__(self) -> str:
        T, d = self.Y.shape
        count = len(self.pieces())
        return f"Recording({T} rows, {d} channel{'s' if d != 1 else ''}, {count} segment{'s' if count != 1 else ''})"

    def pieces(self) -> list[Piece]:
        """The rows of each segment."""
        cuts = np.flatnonzero(self.segments[1:] != self.segments[:-1]) + 1
        return list(pairwise([0, *cuts.tolist(), len(self.segments)]))

    @property
    def usable_rows(self) -> NDArray[np.bool_]:
        """Rows that have a label and a reading in some channel."""
        return np.asarray((self.theta >= 0) & ~np.isnan(self.Y).all(axis=1))

    def drop_unlabelled(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces that have a row to be judged: others can neither be played nor be judged."""
        judged = self.usable_rows
        return [(start, stop) for start, stop in pieces if judged[start:stop].any()]

    def labels(self, pieces: Iterable[Piece]) -> list[Ints]:
        """The known labels in each piece."""
        return [part[part >= 0] for part in (self.theta[start:stop] for start, stop in pieces)]

    @property
    def spell(self) -> float:
        """Mean number of rows for which theta stays."""
        known = self.labels(self.pieces())
        stays = sum(int((np.diff(part) != 0).sum()) + bool(part.size) for part in known)
        return sum(part.size for part in known) / max(stays, 1)


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
    names = np.zeros(T) if segments is None else np.asarray(segments)
    hour = None if hours is None else _floats(hours, "hours")
    if hour is not None and not (np.isnan(hour) | ((hour >= 0.0) & (hour < 24.0))).all():
        raise ConfigurationError("hours must lie in [0, 24), NaN for unknown")
    weekday = None if days is None else np.nan_to_num(_floats(days, "days"), nan=-1.0).astype(np.int64)
    found, strange = _positions(theta, values, T)
    numbers = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return Recording(readings, found, numbers, hour, weekday, strange=strange)


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


def _positions(theta: Labels, values: Sequence[Value], T: int) -> tuple[Ints, int]:
    """The position of each label among the values, -1 for any other; and how many are known but no value."""
    single = isinstance(theta, str) or not isinstance(theta, Iterable) or getattr(theta, "ndim", 1) == 0
    given: list[Any] = [theta] * T if single else list(theta)  # type: ignore[arg-type]  # iterable, as it is not single
    if any(isinstance(v, (list, np.ndarray)) and np.ndim(v) for v in given):
        shape = getattr(theta, "shape", None)
        raise ConfigurationError(
            f"theta has {f'shape {shape}' if shape else 'rows of several entries'}; it must be (T,), one value a row"
        )
    if len(given) != T:
        raise ConfigurationError(f"theta has {len(given)} entries; {T} readings need as many")
    at = {value: i for i, value in enumerate(values) if isinstance(value, Hashable)}
    plain = [v.item() if isinstance(v, np.generic) else v for v in given]
    found = np.array([at.get(v, -1) if isinstance(v, Hashable) else -1 for v in plain], dtype=np.int64)
    if (found < 0).all():
        raise ConfigurationError(f"no entry of theta is a value of the family, which has {list(values)!r}")
    return found, sum(_is_known(plain[k]) for k in np.flatnonzero(found < 0).tolist())


def _is_known(v: Value) -> bool:
    """Whether a label says anything: it is not None, and not NaN, which is unequal to itself."""
    try:
        return v is not None and bool(v == v)
    except TypeError:  # the NA of pandas has no truth
        return False


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


def hours_and_days(ns: NDArray[np.int64], zone: str | None) -> tuple[Array, NDArray[np.int64]]:
    """Hour of the day in [0, 24), and weekday from 0 (Monday), of times in nanoseconds since 1970.

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


WINDOW = 64
"""Consecutive rows that must agree to the bit before two recordings count as sharing them."""
CHANGES = 16
"""How often the readings must change among them: sensors that stand still agree by chance."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def shared_rows(one: Array, other: Array) -> int:
    """How many rows of `other` (T, d) stand in windows of readings that `one` holds too.

    An adversary who learned from what it is judged on has learned nothing.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(500, 1)), rng.normal(size=(500, 1))
    >>> shared_rows(first, second), shared_rows(first, np.concatenate([second, first[:100]]))
    (0, 100)
    """
    (known, _), (marks, good) = _windows(one), _windows(other)
    shared = np.zeros(len(other), dtype=bool)
    for start in np.flatnonzero(good & np.isin(marks, known)).tolist():
        shared[start : start + WINDOW] = True
    return int(shared.sum())


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


# The parts of a recording, and blocks of time ------------------------------------------------------------------------


_MANY_SEGMENTS = 4
_SHORTEST = 20  # rows of a piece that is dealt out
_LEAST_BLOCK = 30
_TURN = 1.5  # hours that a clock goes back within a segment, if it is a new day and not the end of summer time
DAYS = 8
"""From so many days on, a day is the unit of resampling."""


class Split(NamedTuple):
    """Pieces to learn from, pieces to be judged on, and how that was decided."""

    learn: list[Piece]
    judge: list[Piece]
    kind: str
    """A key of `understudy.text.SPLITS`."""
    complete: bool
    """Whether every value of theta that occurs does so in both parts."""


def split_in_time(recording: Recording) -> Split:
    """The first way to cut that has all values in both parts, otherwise the one that lacks fewest."""
    segments = recording.drop_unlabelled(recording.pieces())
    values = _values_in(recording, segments)
    best: tuple[int, Split] | None = None
    for kind, *ends in _ways(recording, segments):
        first, last = (recording.drop_unlabelled(part) for part in ends)
        if not first or not last:
            continue
        lacks = sum(len(values - _values_in(recording, part)) for part in (first, last))
        if best is None or lacks < best[0]:
            best = lacks, Split(first, last, kind, not lacks)
        if not lacks:
            break
    if best is None:
        raise ConfigurationError("the recording is too short to learn from one part of it and judge on another")
    return best[1]


def _ways(recording: Recording, segments: list[Piece]) -> list[tuple[str, list[Piece], list[Piece]]]:
    """Ways to cut, the one to be preferred first."""
    ends = np.cumsum([stop - start for start, stop in segments])
    rows = int(ends[-1]) if segments else 0
    ways = []
    if len(segments) >= _MANY_SEGMENTS:
        cut = int(np.abs(ends[:-1] - rows / 2.0).argmin()) + 1
        ways.append(("segments", segments[:cut], segments[cut:]))
        ways.append(("alternate segments", segments[::2], segments[1::2]))
    else:
        middles = [start + min(max(rows // 2 - int(end) + stop - start, 0), stop - start)
                   for (start, stop), end in zip(segments, ends, strict=True)]  # fmt: skip
        first = [(start, at) for (start, _), at in zip(segments, middles, strict=True) if at > start]
        last = [(at, stop) for (_, stop), at in zip(segments, middles, strict=True) if at < stop]
        ways.append(("halves", first, last))
    # readings are autocorrelated: the ends of what is learned from are left out, for as long as theta stays
    for spell, kind in ((recording.spell, "alternate blocks"), (0.0, "short alternate blocks")):
        for number in (4, 8, 16, 32):
            if rows // number < _SHORTEST:
                break
            pieces = [p for segment in segments for p in parts(segment, max(1, rows // number))]
            ways.append((kind, _without_ends(pieces[::2], spell), pieces[1::2]))
    return ways


def _without_ends(pieces: list[Piece], spell: float) -> list[Piece]:
    """Pieces without a quarter at either end, or as many rows as theta stays; those of which something is left."""
    guarded = ((start, stop, math.ceil(max(spell, 0.25 * (stop - start)))) for start, stop in pieces)
    return [(start + guard, stop - guard) for start, stop, guard in guarded if stop - start > 2 * guard]


def parts(piece: Piece, length: float) -> list[Piece]:
    """A piece in equal parts of about this length.

    >>> parts((10, 110), 30)
    [(10, 43), (43, 77), (77, 110)]
    """
    start, stop = piece
    number = max(1, round((stop - start) / max(length, 1.0)))
    return list(pairwise(np.linspace(start, stop, number + 1).round().astype(int).tolist()))


def _values_in(recording: Recording, pieces: Sequence[Piece]) -> set[int]:
    """Which values occur in the rows that are judged."""
    judged = recording.usable_rows
    return {v for start, stop in pieces for v in recording.theta[start:stop][judged[start:stop]].tolist()}


def blocks_of(recording: Recording, pieces: Sequence[Piece], least: int = 1) -> Ints:
    """(T,) the number of the block that each row of the pieces is in, -1 elsewhere; the unit of resampling.

    A block is about as long as theta stays on average, and at least `least` rows: a decision, or an epoch. Where days
    are known, and there are enough of them, it is a whole day, or several if theta stays for so long.
    """
    length = max(recording.spell, float(least), float(_LEAST_BLOCK))
    found = np.full(len(recording.Y), -1, dtype=np.int64)
    dates = _dates_in(recording, pieces)
    if dates is not None and whole_days(dates) >= DAYS:
        inside, days = dates >= 0, np.unique(dates[dates >= 0])
        together = max(1, round(length * days.size / float(inside.sum())))
        found[inside] = np.searchsorted(days, dates[inside]) // together
        return found
    for number, (start, stop) in enumerate(part for piece in pieces for part in parts(piece, length)):
        found[start:stop] = number
    return found


def days_in(recording: Recording, pieces: Sequence[Piece]) -> int | None:
    """How many whole days the pieces have; None where no time is known."""
    dates = _dates_in(recording, pieces)
    return None if dates is None else whole_days(dates)


def _dates_in(recording: Recording, pieces: Sequence[Piece]) -> Ints | None:
    """(T,) the day of each row of the pieces, -1 elsewhere; None where no time is known."""
    dates = dates_of(recording)
    if dates is None:
        return None
    inside = np.zeros(len(dates), dtype=bool)
    for start, stop in pieces:
        inside[start:stop] = True
    return np.where(inside, dates, -1)


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


AuditDesign: TypeAlias = Design | CausalDesign | CoinDesign
"""A design that can be audited."""


# A design played over a sequence -------------------------------------------------------------------------------------


class Run(NamedTuple):
    """An output and how it came about."""

    output: Array
    pseudo: Ints
    """(T,), positions of the pseudo values."""
    restarts: int
    """Gaps after which the filters had to begin anew, as the models have no law across them."""


class DesignRun:
    """A design ready to be played over sequences, as a stream plays it.

    A `Design` draws once for a sequence, or once an epoch, for the value of theta at the first reading of the epoch. A
    `CausalDesign` decides every so many readings, with memory. A `CoinDesign` has a coin for each epoch, at a random
    phase. Between draws the filters go on from where they stood. Filters are made once where they need no auxiliary
    uniforms.
    """

    def __init__(self, design: AuditDesign, epoch: int | None = None) -> None:
        if design.family is None:
            raise ConfigurationError(
                "the design has no models (us.solve makes none); an audit needs one from us.design"
            )
        self.design, self.family = design, design.family
        self.every: int | None = design.decision_every if isinstance(design, CausalDesign) else epoch
        self.sources: list[Model] = [self.family.model(value) for value in design.values]
        self.targets: list[Model] = list(design.targets)
        self._atoms = any(has_atoms(model) or not hasattr(model, "atoms") for model in self.sources)
        self._maps: dict[tuple[int, int], CausalMap] = {}

    @cached_property
    def refill(self) -> int | None:
        """Readings that the filters need in a row before they go on after a gap; None if the models state none."""
        try:
            return refill_between(self.sources, self.targets)
        except ModelError:
            return None

    def draws(self, theta: Ints, rng: np.random.Generator, ticks: Ints | None = None) -> Ints:
        """The pseudo path (T,) for a path of private values, none of them unknown; by a clock, at its ticks."""
        T, every = len(theta), self.every or len(theta)
        if isinstance(self.design, CausalDesign) and ticks is not None:
            return _draws_by_clock(self.design, theta, ticks, rng)
        firsts = theta[::every].tolist()
        if isinstance(self.design, CoinDesign):
            phase = int(rng.integers(every))
            coins = [self.design.draw(0, rng) for _ in range((T + phase) // every + 1)]
            return np.array(coins, dtype=np.int64)[(np.arange(T) + phase) // every]
        if isinstance(self.design, Design):
            drawn = [self.design.draw(row, rng) for row in firsts]
        else:
            drawn, state, beliefs = [], self.design.start(), self.design.beliefs
            for row in firsts:
                state, column, _ = beliefs.draw(state, row, rng)
                drawn.append(column)
        return np.repeat(np.array(drawn, dtype=np.int64), every)[:T]

    def run(self, Y: Array, theta: Ints, rng: np.random.Generator, ticks: Ints | None = None) -> Run:
        """Readings (T, d) of one sequence, disguised with fresh draws; `ticks` (T,) are those of a public clock."""
        theta = fill_unknown(theta)
        Y = np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)
        if isinstance(self.design, CausalDesign) and self.design.estimated:
            theta = self._estimate(self.design, Y)
        pseudo = self.draws(theta, rng, ticks)
        secret = rng.bytes(32)
        try:
            return Run(self._release(self._through(Y, theta, pseudo, secret)), pseudo, 0)
        except MissingReadingError:
            return self._in_runs(Y, theta, pseudo, secret)

    def _estimate(self, design: CausalDesign, Y: Array) -> Ints:
        """The private values as the edge would guess them, where the design accepts that."""
        from understudy.randomizer.estimation import Estimator

        estimator = Estimator(self.family, design.beliefs.transitions, design.decision_every)
        rows = Y[:, 0].tolist() if self.family.dim == 1 else list(Y)
        return np.array(estimator.rows(rows), dtype=np.int64)

    def _through(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Array:
        """The output along both paths."""
        coin = self.design if isinstance(self.design, CoinDesign) else None
        fresh = self.design.fresh
        apart = self._atoms or fresh or coin is not None
        maps: dict[tuple[int, int], CausalMap] = {} if apart else self._maps

        def between(i: int, j: int) -> CausalMap:
            if coin is not None and (i, j) not in maps:
                maps[i, j] = coin.mapping(j, secret)
            if (i, j) not in maps:
                pair = self.sources[i], self.targets[j]
                waits = self.refill is not None
                maps[i, j] = (
                    restarting_map(*pair, secret, fresh=fresh)
                    if waits
                    else transformation(*pair, False, secret, fresh=fresh)
                )
            return maps[i, j]

        try:
            return run_along(between, Y, theta, pseudo)
        except ModelError:  # filters that cannot go on from one another; a model of the whole path may know how
            one = self.family.along([self.design.values[k] for k in theta.tolist()])
            other = self.design.target_along([self.design.pseudo[k] for k in pseudo.tolist()])
            return np.asarray(disguise(Y, one, other, secret, fresh=fresh)).reshape(Y.shape)

    def _in_runs(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Run:
        """Each run of readings without a gap from a new beginning."""
        output, restarts = np.full(Y.shape, np.nan), -1
        there = np.asarray(~np.isnan(Y).any(axis=1))
        cuts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(Y)]
        for start, stop in pairwise(cuts):
            if there[start]:
                rows = slice(start, stop)
                own = Uniforms(secret).derive(f"run {start}")  # no chance is used twice
                output[rows] = self._through(np.ascontiguousarray(Y[rows]), theta[rows], pseudo[rows], own)
                restarts += 1
        return Run(self._release(output), pseudo, max(restarts, 0))

    def _release(self, output: Array) -> Array:
        """Outputs (T, d) on the lattice of the design, as streams release them."""
        return self.design.release.rounded(output)

    def readings(self, theta: Ints, rng: np.random.Generator) -> Array:
        """Readings (T, d) of the models themselves along a path of private values."""
        z = rng.standard_normal((len(theta), self.family.dim))
        maps = [colouring(model) for model in self.sources]
        try:
            return run_along(lambda i, _: maps[i], z, theta, theta * 0)
        except ModelError:
            model = self.family.along([self.design.values[i] for i in theta.tolist()])
            return np.asarray(sample(model, len(theta), rng=rng)).reshape(z.shape)


def _draws_by_clock(design: CausalDesign, theta: Ints, ticks: Ints, rng: np.random.Generator) -> Ints:
    """The pseudo path of a design by the clock, for a path of private values at these ticks."""
    beliefs, state, last = design.beliefs, design.start(int(ticks[0])), int(ticks[0]) - 1
    pseudo = np.empty(len(theta), dtype=np.int64)
    cuts = [0, *(np.flatnonzero(ticks[1:] != ticks[:-1]) + 1).tolist(), len(theta)]
    for start, stop in pairwise(cuts):
        state = beliefs.advance(state, int(ticks[start]) - last - 1)
        state, pseudo[start:stop], _ = beliefs.draw(state, int(theta[start]), rng)
        last = int(ticks[start])
    return pseudo


def _ticks(design: AuditDesign, recording: Recording, start: int, stop: int) -> Ints | None:
    """The ticks of the public clock at these rows, from the beginning of a week on Thursday; None without a clock."""
    if not isinstance(design, CausalDesign) or design.clock is None:
        return None
    clock = design.clock
    hours, days = recording.hours, recording.days
    period = recording.period or (design.family.about or {}).get("period")
    if hours is None or days is None or not period or math.isnan(hours[start]) or days[start] < 0:
        raise ConfigurationError(
            "a design by the clock is played on readings with times; hours, days or period is missing"
        )
    return ticks_of_week(
        hours[start:stop], days[start:stop], np.arange(stop - start, dtype=float) * float(period), clock.tick
    )


def ticks_of_week(hours: Array, days: Ints, passed: Array, tick: int) -> Ints:
    """The ticks of a clock on the wall, from the beginning of a Thursday: of rows so many seconds after the first.

    Where the clock is put forward ticks are passed over, and where it is put back they come again. A row without an
    hour goes on from the one before.

    >>> ticks_of_week(np.array([1.0, 3.0, 4.0]), np.array([6, 6, 6]), np.array([0.0, 3600.0, 7200.0]), 3600).tolist()
    [73, 75, 76]
    """
    week = (days - 3) % 7 * 86_400 + hours * 3600.0
    moved = week - week[0] - passed
    known = np.maximum.accumulate(np.where(np.isnan(moved) | (days < 0), 0, np.arange(len(moved))))
    moved = (moved[known] + WEEK // 2) % WEEK - WEEK // 2  # the calendar goes round; summer time moves it by less
    return np.asarray(np.rint(week[0] + passed + moved) // tick, dtype=np.int64)


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


def disguise_on_grid(Y: Array, source: OnGrid, target: OnGrid, rng: np.random.Generator) -> Array | None:
    """Many sequences (T, d, N) of an autoregression on a grid, none missing, disguised as another; None for others."""
    inside = source.model
    if not isinstance(inside, AutoRegressive):
        return None
    T, d, N = Y.shape
    p = inside.order
    past = np.concatenate([np.repeat(inside.past[::-1, :, None], N, axis=2), Y])  # the earliest first
    # yhat_k = intercept + sum_i Phi_i y_{k-i}
    mean = inside.intercept[:, None] + sum(
        np.einsum("ij,tjn->tin", inside.coefficients[i], past[p - 1 - i : p - 1 - i + T]) for i in range(p)
    )
    flat, at = (x.transpose(1, 0, 2).reshape(d, T * N) for x in (Y, mean))
    v = rng.random((d, T * N)) * (1.0 - 2.0**-52) + 2.0**-53
    law = Rounded(inside.noise, source.grid, at[0] if d == 1 else at)
    z = np.reshape(law.score(flat[0], v[0]) if d == 1 else law.score(flat, v), (d, T, N)).transpose(1, 0, 2)
    return colour_on_grid(np.ascontiguousarray(z), target)


# Material: cases to learn from and to be judged on, for each kind of data ---------------------------------------------


Grid = tuple[Array, Array]
"""Steps and offsets by channel."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Material:
    """Cases by the kind of data: "disguised", and others of `understudy.adversaries.results.DATA` that are there.

    Sequences of raw and disguised cases correspond: sequence n of the output is that of the raw one n mod their count.
    """

    learn: dict[str, Cases]
    judge: dict[str, Cases]
    known: dict[str, Knowledge]
    independent: bool
    """Sequences are independent of each other, and each is one block."""
    how: str
    bound: float | None
    prior_error: float
    notes: tuple[str, ...] = ()
    period: float | None = None

    def __repr__(self) -> str:
        return f"Material({self.how}, {self.judge['disguised']!r})"


def with_noise(material: Material, rng: np.random.Generator, kind: str = "noise") -> Material:
    """The same, with raw readings plus noise of the distortion that the output has on the judged cases.

    `kind` is "noise", drawn for each reading, or "offset", which stays for an epoch, or a sequence that has one draw.
    """
    known = material.known["raw"]
    wanted = mean_distance(material.judge["raw"], material.judge["disguised"])
    steps = np.zeros(len(wanted)) if known.grid is None else known.grid[0]
    scales = np.array([noise_scale(float(w), float(s)) for w, s in zip(wanted, steps, strict=True)])

    def noisy(cases: dict[str, Cases]) -> dict[str, Cases]:
        # as many copies as there are of the output: an adversary can add noise to his own history as often as he likes
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        every = 1 if kind == "noise" else min(material.known["disguised"].decision_every or copies.T, copies.T)
        return {**cases, kind: replace(copies, outputs=add_noise(copies.outputs, scales, known.grid, rng, every))}

    return replace(
        material,
        learn=noisy(material.learn),
        judge=noisy(material.judge),
        known={**material.known, kind: replace(known, noise=scales)},
    )


def with_insiders(material: Material) -> Material:
    """The same, with the output once more for adversaries who learn from other days of what is judged."""
    cases = material.judge["disguised"]
    return replace(
        material,
        learn={**material.learn, "insider": cases},
        judge={**material.judge, "insider": cases},
        known={**material.known, "insider": material.known["disguised"]},
    )


def with_scores(material: Material, design: Design | CausalDesign, rng: np.random.Generator) -> Material:
    """The same, with the scores of the raw readings and their running sums as channels; without where there are none.

    Nobody who sees the output sees more than the scores, the pseudo values and fresh chance. So what is learned from
    the scores, mixed with their fresh share, bounds what an output can tell beyond the draws.
    """
    family = material.known["raw"].family
    models = {i: family.model(value) for i, value in enumerate(design.values)}
    keep = math.sqrt(1.0 - design.fresh**2)

    def scored(cases: Cases) -> Cases:
        there = np.asarray(~np.isnan(cases.outputs).all(axis=1))
        lengths = np.where(there.any(axis=0), cases.T - there[::-1].argmax(axis=0), 1).tolist()  # without padding
        parts = tuple(
            Segment(str(n), None, np.ascontiguousarray(cases.outputs[:T, :, n]), cases.labels[:T, n])
            for n, T in enumerate(lengths)
        )
        names = tuple(f"channel {c + 1}" for c in range(cases.d))
        history = History(names, "theta", None, (), tuple(range(cases.m)), None, parts, ())
        found = np.full((cases.T, 2 * cases.d, cases.N), np.nan)
        for n, z in enumerate(scores(models, history, rng=rng)):
            z = keep * z + design.fresh * rng.standard_normal(z.shape)
            found[: len(z), : cases.d, n] = z
            found[: len(z), cases.d :, n] = np.where(np.isnan(z), np.nan, np.nancumsum(z, axis=0))
        return replace(cases, outputs=found)

    try:
        learn, judge = (scored(cases["raw"]) for cases in (material.learn, material.judge))
    except (MissingReadingError, ConfigurationError, NumericalError):
        return replace(material, notes=(*material.notes, text.NO_SCORES_NOTE))
    return replace(
        material,
        learn={**material.learn, "scores": learn},
        judge={**material.judge, "scores": judge},
        known={**material.known, "scores": replace(material.known["raw"], grid=None)},
    )


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


def add_noise(Y: Array, scales: Array, grid: Grid | None, rng: np.random.Generator, every: int = 1) -> Array:
    """Readings (T, d, N) with noise of these standard deviations, by channel, drawn anew every so many readings.

    >>> found = add_noise(np.zeros((6, 1, 1)), np.ones(1), None, np.random.default_rng(0), every=4)
    >>> np.unique(found, return_counts=True)[1].tolist()
    [2, 4]
    """
    T, d, N = Y.shape
    noise = np.repeat(rng.standard_normal((-(-T // every), d, N)), every, axis=0)[:T] * scales[:, None]
    noise = noise if grid is None else on_steps(noise, grid[0][:, None])
    return np.asarray(Y + noise)


def on_steps(noise: Array, steps: Array) -> Array:
    """Noise rounded to whole steps, in channels that have one; a step of 0 leaves it as it is."""
    rough = np.where(steps > 0.0, steps, 1.0)
    return np.where(steps > 0.0, rough * np.rint(noise / rough), noise)


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
    counts = _joint_counts(labels[:-1], labels[1:], m, m)
    # one pseudo-transition a value, spread as the values are on the whole; who was never seen stays
    spread = (counts.sum(axis=0) + 1.0) / (counts.sum() + m)
    return np.asarray((counts + spread) / (counts.sum(axis=1, keepdims=True) + 1.0))


def joint_kernel(labels: Ints, pseudo: Ints, m: int, n: int) -> Array:
    """The average of Pr(pseudo given theta) in paths of both; uniform where theta never is."""
    counts = _joint_counts(labels, pseudo, m, n)
    counts[counts.sum(axis=1) == 0.0] = 1.0
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _joint_counts(one: Ints, other: Ints, m: int, n: int) -> Array:
    """How often both positions occur together, (m, n); -1 takes no part."""
    known = (one >= 0) & (other >= 0)
    return np.bincount(one[known] * n + other[known], minlength=m * n).reshape(m, n).astype(float)


def label_shares(labels: NDArray[np.int64], m: int) -> Array:
    """The shares of the values in labels of any shape, none of them 0."""
    counts = np.bincount(labels[labels >= 0].ravel(), minlength=m) + 0.5
    return np.asarray(counts / counts.sum())


def _without_disguise(known: Knowledge) -> Knowledge:
    """What is known where nothing is disguised: theta plays itself."""
    m = len(known.family.values)
    return replace(known, pseudo=tuple(known.family.values), kernel=np.eye(m), decision_every=None, raw=True)


def _grid_of(models: list[Model], Y: Array | None = None) -> Grid | None:
    """Steps and offsets of all channels, if each has a grid: the models', or that of readings (T, d) themselves."""
    from understudy.identify.grid import detect_grid

    grids: Any = getattr(getattr(models[0], "grid", None), "channels", None)
    if grids is None or not all(grid.step for grid in grids):
        found = () if Y is None else detect_grid(Y)
        grids = found if isinstance(found, tuple) else (found,)
    if not grids or any(grid.step is None for grid in grids):
        return None
    return np.array([g.step for g in grids], dtype=float), np.array([g.offset for g in grids], dtype=float)


def _bound(design: Design, prior: Array) -> float:
    """The error of the best adversary who sees the pseudo value, less what approximate models may add to his chance."""
    charge = 0.0
    if design.charge is not None:
        charge = math.fsum(w * x for w, x in zip(prior.tolist(), design.charge.variations, strict=True))
    return max(0.0, bayes_error(prior, design.randomizer.kernel) - charge)


# Simulated sequences -------------------------------------------------------------------------------------------------


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


class _Simulated(NamedTuple):
    """Sequences (T, d, N) of raw readings and outputs, (T, N) of labels and pseudo values, and notes."""

    raw: Array
    output: Array
    labels: Ints
    pseudo: Ints
    notes: tuple[str, ...]


def simulate(design: AuditDesign, n: int, rng: np.random.Generator, tell: Progress) -> Material:
    """Independent sequences of the design's models: n in all, or n readings in all where theta moves."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 8:
        raise ConfigurationError(f"n = {n!r}; it must be a whole number of at least 8")
    stage, m = DesignRun(design), len(design.values)
    moves: Array | None = None
    bound: float | None = None
    if isinstance(design, CoinDesign):
        raise ConfigurationError("a coin has no models to simulate; give readings Y with their private values theta")
    if isinstance(design, Design):
        raw, output, labels, pseudo, notes = _simulate_constant(design, stage, int(n), rng, tell)
        kernel, bound, error = design.randomizer.kernel, _bound(design, design.prior), prior_error(design.prior)
    else:
        raw, output, labels, pseudo, notes = _simulate_moving(design, stage, int(n), rng, tell)
        # I + (P - I) / every: on average theta moves as if at any reading
        moves = np.eye(m) + (design.beliefs.transitions.mean(axis=0) - np.eye(m)) / design.decision_every
        # of the half that is learned from: nobody knows the draws by which he is judged
        seen = slice(0, raw.shape[2] // 2)
        kernel = joint_kernel(labels[:, seen], pseudo[:, seen], m, len(design.pseudo))
        error = 1.0 - float(label_shares(labels, m).max())
    grid = _grid_of(stage.sources)
    known = Knowledge(
        stage.family, tuple(design.pseudo), kernel, np.asarray(design.prior), moves, stage.every, grid, design
    )
    N, blocks = raw.shape[2], np.broadcast_to(np.arange(raw.shape[2]), labels.shape)
    clock = _simulated_clock(design, labels.shape) if isinstance(design, CausalDesign) else {}
    cases = {
        "disguised": Cases(output, labels, blocks, m, moves is None, pseudo=pseudo, **clock),
        "raw": Cases(raw, labels, blocks, m, moves is None, **clock),
    }
    return Material(
        learn={name: case.sequences(slice(0, N // 2)) for name, case in cases.items()},
        judge={name: case.sequences(slice(N // 2, N)) for name, case in cases.items()},
        known={"disguised": known, "raw": _without_disguise(known)},
        independent=True, how="simulated", bound=bound, prior_error=error, notes=notes,
    )  # fmt: skip


def _simulated_clock(design: CausalDesign, shape: tuple[int, ...]) -> dict[str, Any]:
    """Hours and weekdays of simulated sequences, which begin on a Thursday at midnight; nothing without a clock."""
    if design.clock is None:
        return {}
    seconds = np.arange(shape[0]) * (design.clock.tick / design.decision_every)
    hours, days = seconds % 86_400 / 3600.0, (seconds // 86_400 + 3).astype(np.int64) % 7
    return {"hours": np.broadcast_to(hours[:, None], shape), "days": np.broadcast_to(days[:, None], shape)}


def _simulate_constant(
    design: Design, stage: DesignRun, n: int, rng: np.random.Generator, tell: Progress
) -> _Simulated:
    d = stage.family.dim
    horizon = None if design.costs is None else design.costs.horizon
    T = horizon or HORIZON
    models = (*stage.sources, *stage.targets)
    linear = all(gauss_markov(model) is not None for model in models)
    grids = all(isinstance(model, OnGrid) and isinstance(model.model, AutoRegressive) for model in models)
    most = max(200, (MOST if linear else MOST_GRID if grids else MOST_SLOW) // (T * d))
    notes = () if horizon else (text.long_run_note(T),)
    if n > most:
        notes, n = (*notes, text.fewer_sequences(most, T, n, "memory" if linear else "models")), most
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
                found = None
                if isinstance(source, OnGrid) and isinstance(target, OnGrid) and not design.fresh:
                    found = disguise_on_grid(Y, source, target, rng)
                output[:, :, those] = disguise(Y, source, target, rng, fresh=design.fresh) if found is None else found
            done += those.size
            tell(done / n)
    output = design.release.rounded(output, output)  # as streams release it
    labels, drawn = (np.broadcast_to(path, (T, n)) for path in (theta, pseudo))
    return _Simulated(raw, output, labels, drawn, notes)


def _simulate_moving(
    design: CausalDesign, stage: DesignRun, n: int, rng: np.random.Generator, tell: Progress
) -> _Simulated:
    every, d = design.decision_every, stage.family.dim
    T = max(n // _SEQUENCES, _FEWEST_DECISIONS * every, 2)
    N = max(2, n // T)
    slow = not all(quick(model) for model in (*stage.sources, *stage.targets))
    most = max(16, min(MOST_DECISIONS // -(-T // every), (MOST_SLOW if slow else MOST) // (T * d)))
    notes: tuple[str, ...] = (text.CHAIN_NOTE,)
    if most < N:
        notes, N = (*notes, text.fewer_sequences(most, T, N, "decisions")), most
    raw, output = np.empty((T, d, N)), np.empty((T, d, N))
    labels, pseudo = np.empty((T, N), dtype=np.int64), np.empty((T, N), dtype=np.int64)
    for k in range(N):
        labels[:, k] = draw_path(design.beliefs, T, every, rng)
        raw[:, :, k] = stage.readings(labels[:, k], rng)
        output[:, :, k], pseudo[:, k], _ = stage.run(raw[:, :, k], labels[:, k], rng)
        tell((k + 1) / N)
    return _Simulated(raw, output, labels, pseudo, notes)


def draw_path(beliefs: Beliefs, T: int, every: int, rng: np.random.Generator) -> Ints:
    """A path of theta: the prior, then a step of the chain at each decision."""
    path = [int(rng.choice(len(beliefs.prior), p=beliefs.prior))]
    for k in range(-(-T // every) - 1):
        row = beliefs.transitions[k % beliefs.period][path[-1]]
        at = int(np.searchsorted(np.cumsum(row), rng.random(), "right"))
        path.append(min(at, len(row) - 1))
    return np.repeat(np.array(path, dtype=np.int64), every)[:T]


# Recordings, disguised or released -----------------------------------------------------------------------------------


_WASTE = 4.0  # how much larger than its rows a padded array may be
_GRID_ROWS = 20_000  # that a grid is looked for in
_EPOCH = 60  # readings, where neither the user nor the design says


@dataclass(frozen=True, slots=True, eq=False)
class ReplayOptions:
    """How a recording is made into material."""

    replicates: int = 1
    """Copies, each with fresh draws."""
    epoch: int | None = None
    """Readings for which a `Design` draws once; None for its horizon, where theta moves."""
    train: Recording | None = None
    """What is learned from; None for a part of the recording itself."""
    output: Array | None = None
    """(T, d), an output of the same rows that was made elsewhere."""
    raw: bool = True
    """Whether the recording holds raw readings; beside an output it may hold labels alone."""


class _Part(NamedTuple):
    """Pieces of a recording, and the block of each row."""

    recording: Recording
    pieces: Sequence[Piece]
    blocks: Ints

    @property
    def constant(self) -> bool:
        """Whether theta is constant in each of several pieces."""
        return len(self.pieces) > 1 and not _moves(self.recording, self.pieces)

    def rows(self, readings: Array | None = None) -> list[Array]:
        """The readings of each piece."""
        Y = self.recording.Y if readings is None else readings
        return [Y[start:stop] for start, stop in self.pieces]


def replay(
    design: AuditDesign,
    recording: Recording,
    options: ReplayOptions,
    rng: np.random.Generator,
    tell: Progress,
) -> Material:
    """A recording, disguised here or attacked as it was released, in a part to learn from and a part to be judged on.

    Where an output is given without a recording to learn from, the adversary has the labels of its first part.
    """
    m, train, output = len(design.values), options.train, options.output
    stage, notes = _stage(design, recording, options)
    shown = recording if output is None else replace(recording, Y=output)
    learn, judge, about = _split(shown, train, stage.every or 1)
    notes += about
    once = learn.constant and judge.constant and stage.every is None

    done, total = count(1), options.replicates * (len(learn.pieces) + len(judge.pieces))

    def play(part: _Part) -> Cases:
        runs = []
        for _ in range(options.replicates):
            for start, stop in part.pieces:
                ticks = _ticks(design, part.recording, start, stop)
                runs.append(stage.run(part.recording.Y[start:stop], part.recording.theta[start:stop], rng, ticks))
                tell(next(done) / total)
        if part is judge:
            notes.extend(_gap_notes(part, runs, options.replicates, stage.refill))
        pseudo = [run.pseudo for run in runs]
        return _cases(part, [run.output for run in runs], options.replicates, m, once, pseudo)

    own = output is not None and train is None
    first = _cases(learn, learn.rows(), 1, m, once) if own else play(learn)
    last = play(judge) if output is None else _cases(judge, judge.rows(), 1, m, once)
    raw = [
        _cases(part, part.rows(recording.Y if own or part is judge else None), 1, m, once) for part in (learn, judge)
    ]
    known = _knowledge(stage, first, raw[0], train or shown)
    learned, judged = {"disguised": first if output is None else first.without_pseudo()}, {"disguised": last}
    if options.raw:
        learned["raw"], judged["raw"] = raw
    truth = raw[1].truth
    bound = None
    if once and isinstance(design, Design):
        counts = np.bincount(truth[truth >= 0], minlength=m)
        bound = _bound(design, counts / counts.sum())
    if not once:
        spell = None if isinstance(design, CausalDesign) else recording.spell
        notes += text.premise_notes(spell)
    return Material(
        learn=learned, judge=judged, known={"disguised": known, "raw": _without_disguise(known)}, independent=False,
        how="replayed" if output is None else "released", bound=bound,
        prior_error=1.0 - float(label_shares(truth, m).max()), notes=tuple(notes), period=recording.period,
    )  # fmt: skip


def _stage(design: AuditDesign, recording: Recording, options: ReplayOptions) -> tuple[DesignRun, list[str]]:
    """The design ready to be played on this recording, and what is to be said about it."""
    epoch, notes = options.epoch, []
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 1):
        raise ConfigurationError(f"epoch = {epoch!r}; it must be a whole number of readings, at least 1")
    if isinstance(design, CausalDesign):
        if epoch is not None:
            raise ConfigurationError("a causal design decides every so many readings by itself; epoch is not for it")
    elif isinstance(design, CoinDesign):
        epoch = _readings_of_epoch(design, recording, epoch)
    elif epoch is None and _moves(recording, recording.pieces()):
        epoch = (None if design.costs is None else design.costs.horizon) or _EPOCH
        notes.append(text.epoch_note(epoch))
    stage = DesignRun(design, None if epoch is None else int(epoch))
    if recording.Y.shape[1] != stage.family.dim:
        raise ConfigurationError(
            f"the readings have {recording.Y.shape[1]} channels and the models {stage.family.dim}; they must agree"
        )
    output = options.output
    if output is not None and output.shape != recording.Y.shape:
        raise ConfigurationError(
            f"released has {len(output)} rows of {output.shape[1]} channels, and there are {len(recording.Y)} rows of "
            f"{recording.Y.shape[1]} beside it; they must agree"
        )
    return stage, notes


def _readings_of_epoch(design: CoinDesign, recording: Recording, given: int | None) -> int:
    """How many readings an epoch of a coin has."""
    if given is not None:
        return given
    if isinstance(design.epoch, int):
        return design.epoch
    period = recording.period or (design.family.about or {}).get("period")
    if not period:
        raise ConfigurationError("epochs are lengths of time, and the readings have no period; give epoch= in readings")
    return max(1, round(design.epoch.total_seconds() / float(period)))


def _moves(recording: Recording, pieces: Sequence[Piece]) -> bool:
    """Whether theta changes within a piece."""
    return any(np.unique(known).size > 1 for known in recording.labels(pieces))


def _split(recording: Recording, train: Recording | None, least: int) -> tuple[_Part, _Part, list[str]]:
    """What is learned from, what is judged, and what is to be said about it."""
    if train is None:
        first, last, kind, complete = split_in_time(recording)
        learn, judge = (_Part(recording, part, blocks_of(recording, part, least)) for part in (first, last))
    else:
        if train.Y.shape == recording.Y.shape and np.array_equal(train.Y, recording.Y, equal_nan=True):
            raise ConfigurationError(
                "train has the readings that are judged; nothing can be learned about others from it"
            )
        kind, complete = "recordings", True
        both = [(each, each.drop_unlabelled(each.pieces())) for each in (train, recording)]
        if not all(pieces for _, pieces in both):
            raise ConfigurationError("a recording has no row with a reading and a label; there is nothing to go by")
        learn, judge = (_Part(each, pieces, blocks_of(each, pieces, least)) for each, pieces in both)
    return learn, judge, [text.split_note(kind, complete), text.block_note(days_in(recording, judge.pieces), DAYS)]


def _gap_notes(part: _Part, runs: Sequence[Run], copies: int, refill: int | None) -> list[str]:
    """What is to be said about outputs that are missing although the reading is there."""
    there = [~np.isnan(Y).any(axis=1) for Y in part.rows()] * copies
    withheld = sum(
        int((np.isnan(run.output).any(axis=1) & known).sum()) for run, known in zip(runs, there, strict=True)
    )
    restarts = sum(run.restarts for run in runs)
    notes = [] if refill is None or not withheld else [text.withheld_note(withheld / copies, refill)]
    return [*notes, text.restart_note(restarts / copies)] if restarts else notes


def _cases(
    part: _Part, outputs: Sequence[Array], copies: int, m: int, once: bool, pseudo: Sequence[Ints] | None = None
) -> Cases:
    """Pieces as sequences side by side, all copies of them; long ones are cut where padding would be most of it."""
    recording = part.recording
    lengths = [stop - start for start, stop in part.pieces]
    cut = None if once else _longest(lengths)
    lengths *= copies
    columns: list[tuple[int, int]] = []  # rows of all outputs, one below the other: the first, and how many
    for first, length in zip(np.cumsum([0, *lengths[:-1]]).tolist(), lengths, strict=True):
        step = length if cut is None else -(-length // -(-length // cut))
        columns += [(first + at, min(step, length - at)) for at in range(0, length, step)]
    firsts, counts = np.array(columns).T
    k = np.arange(counts.max())[:, None]
    there = k < counts
    at = firsts + np.minimum(k, counts - 1)  # (T, N); padding repeats the last row
    row = np.concatenate([np.arange(start, stop) for start, stop in part.pieces] * copies)[at]

    def side_by_side(values: Any, none: float | int) -> Any:
        return None if values is None else np.where(there, values, none)

    theta = np.where(recording.usable_rows, recording.theta, -1)
    labels, blocks = side_by_side(theta[row], -1), part.blocks[row]
    if once:
        known = np.take_along_axis(labels, (labels >= 0).argmax(axis=0)[None], axis=0)
        labels, blocks = (np.broadcast_to(first, labels.shape) for first in (known, blocks[:1]))
    clock = recording.hours is not None and recording.public
    return Cases(
        outputs=np.where(there[:, None], np.concatenate(outputs)[at].transpose(0, 2, 1), np.nan),
        labels=labels,
        blocks=blocks,
        m=m,
        once=once,
        hours=side_by_side(recording.hours[row], np.nan) if clock and recording.hours is not None else None,
        days=side_by_side(recording.days[row], -1) if clock and recording.days is not None else None,
        pseudo=None if pseudo is None else side_by_side(np.concatenate(pseudo)[at], -1),
    )


def _longest(lengths: Sequence[int]) -> int | None:
    """The most rows of a sequence, where a few long ones would make padding out of all the others; None if not."""
    if max(lengths) * len(lengths) <= _WASTE * sum(lengths) + 10_000:
        return None
    return max(1000, round(2.0 * sum(lengths) / len(lengths)))


def _knowledge(stage: DesignRun, output: Cases, labelled: Cases, recording: Recording) -> Knowledge:
    """What the adversary makes of the design and of his own history."""
    design, m, n = stage.design, labelled.m, len(stage.design.pseudo)
    if isinstance(design, Design):
        kernel = design.randomizer.kernel
    elif output.pseudo is not None:
        kernel = joint_kernel(output.labels, output.pseudo, m, n)
    else:
        kernel = np.full((m, n), 1.0 / n)
    moves = None if labelled.once else transition_counts(labelled.labels, m)
    there = recording.Y[~np.isnan(recording.Y).any(axis=1)][:_GRID_ROWS]
    grid = _grid_of(stage.sources, there if len(there) > 50 else None)
    prior = label_shares(labelled.truth, m)
    kept = None if isinstance(design, CoinDesign) else design
    return Knowledge(stage.family, tuple(design.pseudo), np.asarray(kernel), prior, moves, stage.every, grid, kept)
