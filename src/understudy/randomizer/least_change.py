"""Least change: pseudo values whose outputs stay as near to the readings as a function of the scores can.

What leaves may be any function of the scores, the pseudo value and fresh chance: by the data-processing inequality it
leaks no more than they do. A lifelike output has the law of another value. A least-change output gives that law up,
and is a filter of the scores that was fitted to the readings themselves::

    e_{k+1} = a e_k + (1 - a) z_k        exponential means of the past scores, one for each pole a
    ~y_k    = c + C e_k + L z_k          so fitted that the mean of |y_k - ~y_k| (or its square) is least

The poles a = exp(-1 / t) are fixed, with time constants t from one reading to about a day. So the filter is stable, it
reverts to c, and its memory is bounded. It is linear, static and fixed before anything is released; it never learns
from its own output. A reading y_k of value theta_i counts in column j with the probability Pr(theta_i, column j).

The coefficients are found by least absolute deviations (iterated reweighted least squares) or least squares, with a
ridge. Four rules keep the filter near what was seen:

- The ridge is chosen by cross-validation over whole days, and so is the filter itself: unless it changes the
  readings of held-out days less than a constant does, by more than the standard error over days, the constant (the
  weighted median or mean) takes its place.
- |C| and |L| sum to no more than the range of the readings, so a score that is off by one for ever moves the output by
  no more than that.
- L is at least a small positive share of the spread of the readings.
- The filter can be inverted stably: the filter that undoes it forgets.

**As a model.** The filter is the Kalman predictor of the Gauss-Markov model with the state (e, z), R = 0 and
Q = diag(0, I), whose start is known: each reading tells z exactly, so innovations are L z and predictions c + C e. So
`colour`, kernels, streams, fleets and files need nothing new. A constant is a law of one atom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Frozen, Index, Ints, Plain, Seed, Value
from understudy.distortion.costs import MEASURED, SEED, Costs
from understudy.distortion.measures import Measure
from understudy.errors import DesignError, NumericalError, StoredFileError
from understudy.laws.atoms import Atoms
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.iid_markov import IID
from understudy.models.model import Model
from understudy.serialize import entries, fields, from_plain, number_from_plain, number_to_plain, to_plain
from understudy.transform.core import colour, whiten

LIFELIKE, LEAST_CHANGE = "lifelike", "least-change"
FEWEST_DAYS = 3
"""Days of history below which no filter is fitted: a constant serves."""
_RIDGES = (1e-3, 1e-2, 1e-1)
_FOLDS = 8
_RATIO = 3.2  # of one time constant to the next
_LONGEST = 1000.0  # readings: a pole of 0.999
_WITHOUT_PERIOD = 300.0  # readings that stand for a day where the period is not known
_REPLICATES = 3  # of the fresh scores that are mixed in
_LEAST_GAIN = 0.01  # of the spread of the readings
_INVERSE = 0.9995  # largest modulus of a pole of the filter that undoes this one
_ROUNDS, _SETTLED = 25, 1e-3  # of reweighting, until coefficients move by less than this share of the spread
_DAY = 86_400 * 10**9  # nanoseconds
_ALTERNATIONS = 3  # of outputs fitted to a kernel, and a kernel found for the costs of the outputs
_CONTRAST = 2.0  # of the columns that these begin with

T = TypeVar("T")


class Recorded(Protocol):
    """A block of time without interruption."""

    @property
    def Y(self) -> Array:
        """Readings (T, d); NaN is missing."""

    @property
    def theta(self) -> Index:
        """Position of each label among the values of the family; -1 is unknown."""

    @property
    def times(self) -> NDArray[np.int64] | None:
        """Nanoseconds since 1970, if there are times."""


class Recording(Protocol):
    """Labelled training readings: `understudy.identify.history.History` is one."""

    @property
    def segments(self) -> Sequence[Recorded]:
        """Blocks of time."""

    @property
    def period(self) -> float | None:
        """Seconds from one reading to the next, if that is known."""


class Run(NamedTuple):
    """Readings in a row, all of them there and labelled, with their scores."""

    Y: Array
    """(T, d) readings."""
    z: Array
    """(T, d) scores under the models of the labels."""
    theta: Index
    day: Ints
    """(T,) the day of each row, by number."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A recording whose readings have their scores under one family, for several designs of it."""

    segments: Sequence[Recorded]
    period: float | None
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, family: Family, history: Recording) -> Scored:
        """Score a recording once, as each design would."""
        return cls(history.segments, history.period, tuple(runs_of(family, history, SEED)))


def runs_of(family: Family, history: Recording, rng: Seed = None) -> list[Run]:
    """The readings of a history with their scores along the labels, run by run.

    Each run begins as a stream does. Where the models know no law of their first readings, these are left out.
    """
    if isinstance(history, Scored):
        return list(history.runs)
    generator = np.random.default_rng(rng)
    found: list[Run] = []
    days: dict[tuple[int, int], int] = {}
    refill = max(int(getattr(family.model(value), "refill", None) or 0) for value in family.values)
    for number, segment in enumerate(history.segments):
        T = len(segment.Y)
        if not T:
            continue
        of_day = np.zeros(T, dtype=np.int64) if segment.times is None else segment.times // _DAY
        day = np.array([days.setdefault((number, each), len(days)) for each in of_day.tolist()], dtype=np.int64)
        there = ~np.isnan(segment.Y).any(axis=1) & (segment.theta >= 0)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], there, [False])).astype(int)))
        for start, stop in edges.reshape(-1, 2).tolist():
            if stop - start <= refill + 1:
                continue
            Y, theta = segment.Y[start:stop], segment.theta[start:stop]
            source = family.along([family.values[i] for i in theta.tolist()])
            z = whiten(np.ascontiguousarray(Y if family.dim > 1 else Y[:, 0]), source, rng=generator)
            keep = slice(refill, None)
            found.append(Run(Y[keep], z.reshape(Y.shape)[keep], theta[keep], day[start:stop][keep]))
    if not found:
        raise DesignError("history holds no labelled readings; a least-change output is fitted to some")
    if len(days) == 1 and history.segments[0].times is None:  # one long sequence: its days, or as many tenths
        return _by_length(found, history.period)
    return found


def _by_length(runs: list[Run], period: float | None) -> list[Run]:
    """Days of one long sequence without times, counted from its first reading."""
    total = sum(len(run.Y) for run in runs)
    rows = max(1, total // 10 if period is None else round(86_400.0 / period))
    ends = np.cumsum([0, *(len(run.Y) for run in runs)])
    spans = zip(runs, pairwise(ends), strict=True)
    return [run._replace(day=np.arange(start, stop) // rows) for run, (start, stop) in spans]


# The filter ----------------------------------------------------------------------------------------------


class Filter(Frozen):
    """~y_k = c + C e_k + L z_k, with exponential means e of the past scores at these poles.

    >>> smooth = Filter([0.5], [400.0], [[10.0]], [[2.0]])
    >>> smooth.run(np.array([[1.0], [1.0]])).ravel().tolist()
    [402.0, 407.0]
    >>> import understudy as us
    >>> us.colour([1.0, 1.0], smooth.model()).tolist()
    [402.0, 407.0]
    """

    __slots__ = ("C", "L", "c", "poles")

    def __init__(self, poles: ArrayLike, c: ArrayLike, C: ArrayLike, L: ArrayLike) -> None:
        self.poles: Array = np.array(poles, dtype=float)
        self.c: Array = np.array(c, dtype=float)
        self.C: Array = np.array(C, dtype=float)  # (d, poles d): pole by pole, channel by channel
        self.L: Array = np.array(L, dtype=float)  # (d, d), lower triangular
        for part in (self.poles, self.c, self.C, self.L):
            part.flags.writeable = False

    def run(self, z: Array) -> Array:
        """Outputs (T, d) for scores (T, d), from the start."""
        means = exponential_means(z, self.poles)
        return np.asarray(self.c + means @ self.C.T + z @ self.L.T)

    def with_gain(self, least: Array) -> Filter:
        """The same with a gain of at least so much in each channel."""
        return Filter(self.poles, self.c, self.C, self.L + np.diag(np.maximum(least - np.diag(self.L), 0.0)))

    def with_means(self, share: float) -> Filter:
        """The same with this share of what the past adds."""
        return Filter(self.poles, self.c, share * self.C, self.L)

    @property
    def reach(self) -> Array:
        """(d,) how far scores that stay between -1 and 1 can take each output from c."""
        return np.asarray(np.abs(self.C).sum(axis=1) + np.abs(self.L).sum(axis=1))

    @property
    def inverse_radius(self) -> float:
        """Largest modulus of a pole of the filter that undoes this one; infinite where there is none."""
        if (np.diag(self.L) <= 0.0).any():
            return math.inf
        A, B = self._recursion()
        # e_{k+1} = A e_k + B z_k with z_k = L^-1 (~y_k - c - C e_k)
        return float(np.abs(np.linalg.eigvals(A - B @ np.linalg.solve(self.L, self.C))).max(initial=0.0))

    def _recursion(self) -> tuple[Array, Array]:
        d = len(self.c)
        return np.diag(np.repeat(self.poles, d)), np.asarray(np.kron(1.0 - self.poles[:, None], np.eye(d)), dtype=float)

    def model(self) -> GaussMarkov:
        """The Gauss-Markov model of which this filter is the Kalman predictor."""
        d, n = len(self.c), len(self.poles) * len(self.c)
        decay, gain = self._recursion()
        A, Q = np.zeros((n + d, n + d)), np.zeros((n + d, n + d))
        A[:n, :n], A[:n, n:], Q[n:, n:] = decay, gain, np.eye(d)
        C = np.hstack([self.C, self.L])
        return GaussMarkov(A, C, Q, np.zeros((d, d)), 0.0, self.c, np.zeros(n + d), np.zeros((n + d, n + d)))


def exponential_means(z: Array, poles: Array) -> Array:
    """Exponential means of the scores before each row, (T, poles d): pole by pole, channel by channel."""
    from scipy.signal import lfilter

    # e_{k+1} = a e_k + (1 - a) z_k, e_1 = 0
    return np.hstack([lfilter([0.0, 1.0 - a], [1.0, -a], z, axis=0) for a in poles.tolist()])


def poles_of(period: float | None) -> Array:
    """Poles with time constants from one reading to about a day.

    >>> poles_of(900.0).round(3).tolist()
    [0.368, 0.727, 0.903, 0.968, 0.99]
    """
    day = min(_LONGEST, _WITHOUT_PERIOD if period is None else 86_400.0 / period)
    count = 1 + max(1, math.ceil(math.log(max(day, _RATIO)) / math.log(_RATIO)))
    return np.asarray(np.exp(-1.0 / np.geomspace(1.0, max(day, _RATIO), count)))


def constant(values: Sequence[float]) -> IID:
    """The model whose readings are these numbers, one for each channel, for ever."""
    laws: list[Law] = [Atoms([float(value)], [1.0]) for value in values]
    return IID(laws[0] if len(laws) == 1 else Independent(*laws))


# The fit -------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """All rows one below the other, fresh replicates included: what a fit needs."""

    Y: Array
    X: Array
    """(N, poles d + d): exponential means, then the scores themselves."""
    weight: Array
    day: Ints

    def where(self, mask: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.Y[mask], self.X[mask], self.weight[mask], self.day[mask])


@dataclass(frozen=True, slots=True, repr=False)
class Column:
    """The output of one pseudo value: a filter of the scores, or a constant."""

    target: Model
    constant: bool
    """Whether the output is a constant: no filter changed the readings of held-out days less."""
    distortion: float
    """Mean change of the readings of training days, each by a filter fitted to the others."""
    interval: tuple[float, float]
    """Of that mean, at 95 percent, over days."""
    constant_distortion: float
    """The same for the best constant."""
    lifelike_distortion: float
    """The same for readings with the law of the pseudo value; NaN where that was not measured."""
    days: int

    def __repr__(self) -> str:
        kind = "constant" if self.constant else "filter"
        return f"Column({kind}, distortion={self.distortion:.6g}, {self.days} days)"


@dataclass(frozen=True, slots=True, repr=False)
class LeastChange:
    """The outputs of all pseudo values, and the costs of all pairs as they were measured on training days."""

    columns: tuple[Column, ...]
    cost: Array = field(default_factory=lambda: np.empty((0, 0)))
    """(m, n) mean change of the readings of value i by column j; empty where the outputs come from a file."""
    error: Array = field(default_factory=lambda: np.empty((0, 0)))
    """(m, n) their standard errors, over days."""

    def __repr__(self) -> str:
        constants = sum(column.constant for column in self.columns)
        return f"LeastChange({len(self.columns)} columns, {constants} constant)"

    @property
    def targets(self) -> tuple[Model, ...]:
        """The models to colour with, one for each pseudo value."""
        return tuple(column.target for column in self.columns)

    def to_plain(self) -> Plain:
        """What files and fingerprints hold: the models, and what was measured of each."""
        return {
            "kind": LEAST_CHANGE,
            "columns": [
                {
                    "target": to_plain(column.target),
                    "constant": column.constant,
                    "distortion": number_to_plain(column.distortion),
                    "interval": [number_to_plain(end) for end in column.interval],
                    "constant_distortion": number_to_plain(column.constant_distortion),
                    "lifelike_distortion": number_to_plain(column.lifelike_distortion),
                    "days": column.days,
                }
                for column in self.columns
            ],
        }

    @classmethod
    def from_plain(cls, plain: Plain) -> LeastChange:
        """The outputs that a file holds; the costs stand elsewhere in it."""
        given = fields("outputs", plain, "columns")
        columns = []
        for place, one in enumerate(entries("outputs.columns", given["columns"])):
            here = f"outputs.columns[{place}]"
            part = fields(here, one, *Column.__slots__, kind=False)
            low, high = (number_from_plain(here, end) for end in part["interval"])
            names = ("distortion", "constant_distortion", "lifelike_distortion")
            mean, level, other = (number_from_plain(here, part[name]) for name in names)
            if type(part["days"]) is not int or type(part["constant"]) is not bool or not low <= mean <= high:
                raise StoredFileError(f"{here} does not say how its distortion was measured")
            target = from_plain(part["target"])
            columns.append(Column(target, part["constant"], mean, (low, high), level, other, part["days"]))
        return cls(tuple(columns))


def fit_least_change(
    runs: Sequence[Run],
    kernel: Array,
    measure: Measure,
    period: float | None = None,
    fresh: float = 0.0,
    rng: Seed = None,
    lifelike: Sequence[Model] = (),
    prior: Array | None = None,
) -> LeastChange:
    """Fit the outputs of all columns of a kernel (m, n) = Pr(column given theta) to runs of scored readings.

    `fresh` is the share of fresh chance in the scores: the filters are fitted to scores that have it. `lifelike` are
    the models of the pseudo values, to compare with. Values count as often as the `prior` says, by default as often as
    they occur.
    """
    if not measure.by_channel or measure.function is not None:
        raise DesignError("output = 'least-change' is fitted for the distortion 'mae' or 'mse', channel by channel")
    kernel = np.asarray(kernel, dtype=float)
    poles = poles_of(period)
    scored, (rows, theta) = _rows(runs, poles, fresh, np.random.default_rng(rng))
    # a column that is never drawn is fitted to all readings, as if it were
    weights = np.where(kernel.sum(axis=0) > 0.0, kernel, 1.0)
    if prior is not None:  # Pr(theta_i, column j)
        share = np.bincount(theta, minlength=len(kernel)) / len(theta)
        weights = weights * (prior / np.maximum(share, 1e-12))[:, None]
    own_rows = (rows._replace(weight=weights[theta, j]) for j in range(kernel.shape[1]))
    fits = [_fit_column(own, poles, measure, scored=fresh < 1.0) for own in own_rows]
    filters = [fit.filter for fit in fits]
    if any(each is not None for each in filters):  # all of one type, so that a path can change among them
        least = _LEAST_GAIN * _spread(rows.Y)
        filters = [each or _level(fit.level, poles, least) for each, fit in zip(filters, fits, strict=True)]
    columns, cost, error = [], np.empty(kernel.shape), np.empty(kernel.shape)
    for j, (fit, made) in enumerate(zip(fits, filters, strict=True)):
        target: Model = constant(_short(fit.level, _spread(rows.Y))) if made is None else made.model()
        mean, spread, days = _over_days(fit.change, rows.day, weights[theta, j])
        t = _student(days)
        level = _over_days(fit.constant, rows.day, weights[theta, j])[0]
        interval = max(0.0, mean - t * spread), mean + t * spread
        other = math.nan
        if lifelike:
            played = [measure.of(y.T, _played(lifelike[j], z).T) for y, z in scored]
            other = float(np.average(np.concatenate(played), weights=weights[theta, j]))
        columns.append(Column(target, fit.filter is None, mean, interval, level, other, days))
        for i in range(len(kernel)):
            cost[i, j], error[i, j], _ = _over_days(fit.change, rows.day, (theta == i).astype(float))
    if not np.isfinite(cost).all():
        raise DesignError("history lacks a value of the family; a least-change output is fitted to readings of each")
    for part in (cost, error):
        part.flags.writeable = False
    return LeastChange(tuple(columns), cost, error)


def fit_with_kernel(
    runs: Sequence[Run],
    shape: tuple[int, int],
    measure: Measure,
    period: float | None,
    fresh: float,
    solve: Callable[[LeastChange], tuple[T, Array, float]],
    lifelike: Sequence[Model] = (),
    prior: Array | None = None,
) -> tuple[T, LeastChange]:
    """Outputs and a randomizer for each other: each in turn is found for the other as it stands.

    `solve` finds a randomizer for the costs of outputs; it returns it, its kernel (m, n) and what is to be least. The
    best of a few rounds is kept. A column that is not drawn stays as it was.
    """
    m, n = shape
    i, j = np.linspace(0.0, 1.0, m)[:, None] if m > 1 else np.zeros((1, 1)), np.linspace(0.0, 1.0, n)
    weights = np.exp(-_CONTRAST * np.abs(i - j))
    weights /= weights.sum(axis=1, keepdims=True)
    best: tuple[float, T, LeastChange] | None = None
    for _ in range(_ALTERNATIONS):
        outputs = fit_least_change(runs, weights, measure, period, fresh, SEED, lifelike, prior)
        made, kernel, aim = solve(outputs)
        if best is None or aim < best[0]:
            best = aim, made, outputs
        before, weights = weights, np.where(kernel.sum(axis=0) > 1e-9, kernel, weights)
        if float(np.abs(weights - before).max()) < 0.01:
            break
    if best is None:
        raise DesignError("the least change is not a number; the costs of the outputs must be")
    return best[1], best[2]


def measured_costs(
    outputs: LeastChange, runs: Sequence[Run], family: Family, pseudo: Sequence[Value], measure: Measure
) -> Costs:
    """The costs of outputs as they were measured on training days, with standard errors over days."""
    method = np.full(outputs.cost.shape, MEASURED, dtype="<U11")
    mean = float(np.concatenate([run.Y for run in runs]).mean())
    sizes = outputs.cost.copy(), outputs.error.copy(), method
    return Costs(*sizes, None, mean, 0.0, None, measure.name, family.values, tuple(pseudo), 0)


def check_output(output: str, history: Recording | None) -> Recording | None:
    """The history that outputs are fitted to; None for lifelike ones, which need none.

    >>> check_output("lifelike", None) is None
    True
    """
    if output not in (LIFELIKE, LEAST_CHANGE):
        raise DesignError(f"output = {output!r}; it must be {LIFELIKE!r} or {LEAST_CHANGE!r}")
    if output == LIFELIKE:
        if history is not None:
            raise DesignError(f"history is for output = {LEAST_CHANGE!r}; a lifelike output is not fitted to any")
        return None
    if history is None:
        raise DesignError(f"output = {LEAST_CHANGE!r} is fitted to labelled readings, and history = None; give some")
    return history


def _rows(
    runs: Sequence[Run], poles: Array, fresh: float, rng: np.random.Generator
) -> tuple[list[tuple[Array, Array]], tuple[_Rows, Index]]:
    """Readings with their mixed scores, run by run; and all rows with their labels."""
    parts, scored = [], []
    for _ in range(_REPLICATES if 0.0 < fresh < 1.0 else 1):
        for run in runs:
            # z' = sqrt(1 - s^2) z + s w
            z = run.z if fresh == 0.0 else math.sqrt(1.0 - fresh**2) * run.z + fresh * rng.standard_normal(run.z.shape)
            scored.append((run.Y, z))
            parts.append((run.Y, np.hstack([exponential_means(z, poles), z]), run.day, run.theta))
    Y, X, day, theta = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not np.isfinite(X).all():
        raise NumericalError("the scores of the history are not finite; the models do not hold its readings")
    return scored, (_Rows(Y, X, np.ones(len(Y)), day), theta)


def _played(model: Model, z: Array) -> Array:
    """Scores (T, d) coloured by a model."""
    return np.asarray(colour(z[:, 0] if z.shape[1] == 1 else z, model)).reshape(z.shape)


class _Fit(NamedTuple):
    filter: Filter | None
    level: Array
    change: Array
    """(N,) of each row, by what was fitted to the other days."""
    constant: Array
    """The same for a constant."""


def _fit_column(rows: _Rows, poles: Array, measure: Measure, scored: bool) -> _Fit:
    """The filter of one column, or none where no filter beats the constant on days that it was not fitted to."""
    level, power = _levels(rows, measure.power), measure.power
    folds = list(_folds(rows.day))
    held_level = np.empty(rows.Y.shape)
    for held in folds:
        held_level[held] = _levels(rows.where(~held), power)
    by_level = measure.of(rows.Y.T, held_level.T)
    nothing = _Fit(None, level, by_level, by_level)
    if not scored or len(np.unique(rows.day)) < FEWEST_DAYS:
        return nothing
    best: tuple[float, float, Array] | None = None
    for ridge in _RIDGES:
        outputs = np.empty(rows.Y.shape)
        for held in folds:
            made = _fit_filter(rows.where(~held), poles, power, ridge)
            if made is None:
                break
            outputs[held] = _outputs(made, rows.X[held])
        else:
            change = measure.of(rows.Y.T, outputs.T)
            mean = float(np.average(change, weights=rows.weight))
            if best is None or mean < best[0]:
                best = mean, ridge, change
    if best is None:
        return nothing
    gain, error, _ = _over_days(by_level - best[2], rows.day, rows.weight)
    made = _fit_filter(rows, poles, power, best[1])
    return nothing if made is None or not gain > error else _Fit(made, level, best[2], by_level)


def _folds(day: Ints) -> Iterator[NDArray[np.bool_]]:
    """Whole days held out, in turn."""
    known, which = np.unique(day, return_inverse=True)
    count = max(2, min(_FOLDS, len(known)))
    for fold in range(count):
        held = which * count // len(known) == fold if len(known) > 1 else which == -fold - 1
        if held.any() or fold == 0:
            yield held


def _fit_filter(rows: _Rows, poles: Array, power: int, ridge: float) -> Filter | None:
    """The filter of least change with this ridge; None if its reach is beyond the range of the readings."""
    least = _LEAST_GAIN * _spread(rows.Y)
    made = _by_channel(rows, poles, power, ridge, least)
    if made.inverse_radius > _INVERSE:
        # a larger gain, and the rest fitted anew beside it
        more = next((g for g in 2.0 ** np.arange(0.5, 12.0, 0.5) if _invertible(made.with_gain(g * least))), None)
        if more is None:
            return None
        made = _by_channel(rows, poles, power, ridge, more * least)
        shares = (made.with_means(share) for share in 0.8 ** np.arange(20.0))
        made = next(each for each in shares if _invertible(each))
    return made if (made.reach <= np.ptp(rows.Y, axis=0)).all() else None


def _invertible(made: Filter) -> bool:
    return made.inverse_radius <= _INVERSE


def _by_channel(rows: _Rows, poles: Array, power: int, ridge: float, least: Array) -> Filter:
    """Regressions of each channel on the means, on its own scores and on those of the channels before it."""
    n, d = len(poles) * rows.Y.shape[1], rows.Y.shape[1]
    c, C, L = np.empty(d), np.empty((d, n)), np.zeros((d, d))
    for i in range(d):
        X, y = rows.X[:, : n + i + 1], rows.Y[:, i]
        beta = _regress(X, y, rows.weight, power, ridge)
        if beta[-1] < least[i]:
            beta = np.append(_regress(X[:, :-1], y - least[i] * X[:, -1], rows.weight, power, ridge), least[i])
        c[i], C[i], L[i, : i + 1] = beta[0], beta[1 : 1 + n], beta[1 + n :]
    return Filter(poles, c, C, L)


def _regress(X: Array, y: Array, weight: Array, power: int, ridge: float) -> Array:
    """Least absolute deviations (power 1) or least squares of y on 1 and X; all but the first are shrunk."""
    F = np.column_stack([np.ones(len(X)), X])
    penalty = np.full(F.shape[1], ridge)
    penalty[0] = 0.0
    scale = float(np.median(np.abs(y - np.median(y)))) or float(np.ptp(y)) or 1.0
    u, beta = weight, np.zeros(F.shape[1])
    for _ in range(_ROUNDS if power == 1 else 1):
        G = F * u[:, None]
        before, beta = beta, np.linalg.solve(F.T @ G + np.diag(penalty * u.sum() + 1e-12 * u.sum()), G.T @ y)
        if float(np.abs(beta - before).max()) <= _SETTLED * scale:
            break
        # sum |r| = sum u r^2 with u = 1 / |r|, kept finite
        u = weight / np.maximum(np.abs(y - F @ beta), 1e-3 * scale)
    return np.asarray(beta)


def _level(level: Array, poles: Array, least: Array) -> Filter:
    """A constant as a filter: all but constant."""
    d = len(level)
    return Filter(poles, level, np.zeros((d, len(poles) * d)), np.diag(least))


def _outputs(made: Filter, X: Array) -> Array:
    return np.asarray(made.c + X @ np.hstack([made.C, made.L]).T)


def _short(level: Array, spread: Array) -> list[float]:
    """Levels to a thousandth of the spread, with as few decimals as that takes: a constant is shown in full."""
    places = [max(0, math.ceil(3.0 - math.log10(each))) for each in spread.tolist()]
    return [round(value, k) for value, k in zip(level.tolist(), places, strict=True)]


def _levels(rows: _Rows, power: int) -> Array:
    """The constant of least change in each channel: the weighted median, or the mean."""
    if power == 2:
        return np.asarray(np.average(rows.Y, axis=0, weights=rows.weight))
    found = []
    for y in rows.Y.T:
        order = np.argsort(y, kind="stable")
        total = np.cumsum(rows.weight[order])
        found.append(y[order][np.searchsorted(total, 0.5 * total[-1])])
    return np.array(found, dtype=float)


def _spread(Y: Array) -> Array:
    """(d,) median absolute deviation of the readings, or a positive stand-in."""
    spread = np.median(np.abs(Y - np.median(Y, axis=0)), axis=0)
    return np.where(spread > 0.0, spread, np.maximum(np.ptp(Y, axis=0), 1e-9))


def _over_days(x: Array, day: Ints, weight: Array) -> tuple[float, float, int]:
    """A weighted mean, its standard error over days (a ratio estimate), and the number of days with weight."""
    which = np.unique(day, return_inverse=True)[1]
    top, below = np.bincount(which, weights=weight * x), np.bincount(which, weights=weight)
    days = int((below > 0.0).sum())
    if not days:
        return math.nan, math.nan, 0
    mean = float(top.sum() / below.sum())
    if days < 2:
        return mean, math.inf, days
    rest = (top - mean * below) / below.sum()
    return mean, float(math.sqrt(days / (days - 1) * np.square(rest).sum())), days


def _student(days: int) -> float:
    """The factor of a 95 percent interval over so many days."""
    from scipy.special import stdtrit

    return float(stdtrit(max(days - 1, 1), 0.975))
