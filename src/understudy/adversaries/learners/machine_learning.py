"""Adversaries that learn from labelled outputs alone, without the models of the design.

What they look at is a table of *features* with one row for each guess. Where theta moves there is a row for each
reading; its features come from windows around it and before it, of several lengths: levels, differences, means,
variances, slopes, extremes, and what differences of two channels have in common. Where theta is constant there is a row
for each sequence (`sequence_features`). The clock is among the features if the cases have one. Lengths of windows and
scales are settled once on the cases that are learned from (`recipe_for`).

`Logistic`, `Boosting` and `Neighbours` learn from this table with scikit-learn (the extra `sklearn`). Every value
counts alike while they learn, however rare it is, so that what they give is evidence: a posterior over a prior. What
learning leaves open (a penalty, a number of trees, a number of neighbours) is chosen on held-out blocks of time; then
they learn again from all there is. `understudy.adversaries.learners.calibration` makes log-probabilities of the
evidence.

`Windowed` is the paper's estimator, learned. In the paper's room X_{k+1} = a X_k + b Theta + W_k, and (Ybar - a
Ybarbar) / b estimates Theta, with Ybar the mean of the readings in a window and Ybarbar that of the readings one step
before. Whoever does not know a and b learns a linear discriminant of the two, for several lengths of the window.

`Changes` detects changes. A disguise that follows theta betrays it by the *times* of its changes, even if what it plays
at any time says nothing. At each reading the window after it is compared with the window before it, for the mean of the
readings, the mean of their differences, and the logarithm of the variance of the differences. A statistic that is
greatest in its neighbourhood and beyond a threshold marks a change. A table says how often each value goes with which
last change, how long ago, and which next change, how soon; where theta is constant, with how many changes.

`Hidden` is a hidden Markov smoother. In each channel it looks at the level, differences over a few lags to either side,
and the logarithm of the local variance. For each value a mixture of normal laws with full covariances, fitted by
expectation and maximisation, says how likely these are; labels say how theta moves; forward and backward do the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Frozen, Ints, Mask
from understudy.adversaries.knowledge import Attack, Cases, Knowledge
from understudy.adversaries.learners.calibration import (
    AlongChain,
    FixedProbabilities,
    Split,
    chain_of,
    clock_table,
    fit_reader,
    held_out,
    prior_of,
    settle,
    settle_held_out,
)

# Adversaries that learn from labelled outputs alone, without the models of the design ----------------


# Moving windows over time: sums, means, variances, slopes and extremes of readings with gaps ---------


class Window(NamedTuple):
    """The readings k - back .. k + ahead."""

    back: int
    ahead: int


class Running(NamedTuple):
    """Sums and counts of what is there, up to each reading."""

    sums: Array
    counts: Array


def centred_window(length: int) -> Window:
    """As many readings before as after; an even length is made odd."""
    return Window(length // 2, length // 2)


def trailing_window(length: int) -> Window:
    """The reading and those before it."""
    return Window(length - 1, 0)


def leading_window(length: int) -> Window:
    """The reading and those after it."""
    return Window(0, length - 1)


def shift(x: Array, lag: int) -> Array:
    """The value `lag` readings before (after, if negative); NaN where there is none.

    >>> shift(np.array([1.0, 2.0, 3.0]), 1)
    array([nan,  1.,  2.])
    """
    out = np.full_like(x, np.nan)
    T = len(x)
    if lag >= 0:
        out[lag:] = x[: max(T - lag, 0)]
    else:
        out[: max(T + lag, 0)] = x[-lag:]
    return out


def cumulate(x: Array) -> Running:
    """Cumulative sums, from which every window is two look-ups."""
    there = ~np.isnan(x)
    start = np.zeros((1, *x.shape[1:]))
    sums = np.concatenate([start, np.cumsum(np.where(there, x, 0.0), axis=0)])
    return Running(sums, np.concatenate([start, np.cumsum(there, axis=0)]))


def count(run: Running, window: Window) -> Array:
    """How many readings the window of each reading holds."""
    return _between(run.counts, window)


def mean(run: Running, window: Window) -> Array:
    """The mean in the window of each reading.

    >>> mean(cumulate(np.array([1.0, np.nan, 5.0, 6.0])), trailing_window(2))
    array([1. , 1. , 5. , 5.5])
    """
    return ratio(_between(run.sums, window), _between(run.counts, window))


def variance(run: Running, squares: Running, window: Window) -> Array:
    """The variance about the mean of the window; NaN where it holds fewer than two readings."""
    centre, second = mean(run, window), mean(squares, window)
    found = np.maximum(second - centre * centre, 0.0)
    return np.asarray(np.where(count(run, window) >= 2.0, found, np.nan))


def slope(x: Array, length: int) -> Array:
    """The least-squares slope a reading in the centred window; NaN where it holds fewer than two readings.

    >>> slope(np.array([0.0, 2.0, np.nan, 6.0]), 3)
    array([ 2.,  2.,  2., nan])
    """
    from scipy.ndimage import correlate1d

    half = min(length // 2, len(x) - 1)
    if half < 1:
        return np.full_like(x, np.nan)
    there = (~np.isnan(x)).astype(float)
    filled = np.where(there > 0.0, x, 0.0)
    if there.all() and x.ndim > 1:
        there = there[:, :1]  # the same edges everywhere
    place = np.arange(-half, half + 1, dtype=float)

    def add_up(values: Array, weights: Array) -> Array:
        return np.asarray(correlate1d(values, weights, axis=0, mode="constant", cval=0.0))

    one = np.ones_like(place)
    n, p, pp = (add_up(there, weights) for weights in (one, place, place * place))
    y, py = add_up(filled, one), add_up(filled, place)
    below = n * pp - p * p
    return np.where(n >= 2.0, ratio(n * py - p * y, np.where(n >= 2.0, below, 0.0)), np.nan)


def extremes(x: Array, length: int) -> tuple[Array, Array]:
    """The least and the greatest value in the centred window.

    >>> extremes(np.array([3.0, 1.0, np.nan, 7.0]), 3)
    (array([1., 1., 1., 7.]), array([3., 3., 7., 7.]))
    """
    from scipy.ndimage import maximum_filter1d

    size = 2 * min(length // 2, len(x)) + 1
    gone = np.isnan(x)

    def greatest(values: Array) -> Array:
        held = np.where(gone, -np.inf, values)
        return np.asarray(maximum_filter1d(held, size, axis=0, mode="constant", cval=-np.inf))

    low, high = -greatest(-x), greatest(x)
    return np.where(np.isfinite(low), low, np.nan), np.where(np.isfinite(high), high, np.nan)


def ratio(above: Array, below: Array) -> Array:
    """A quotient, NaN where the denominator is not positive."""
    above, below = np.broadcast_arrays(above, below)
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0.0))


def _between(sums: Array, window: Window) -> Array:
    T = len(sums) - 1
    k = np.arange(T)
    high, low = np.clip(k + window.ahead + 1, 0, T), np.clip(k - window.back, 0, T)
    return np.asarray(sums[high] - sums[low])


# What a learner looks at: a table of features, one row for each guess --------------------------------


_LONGEST = 241  # readings: longer windows tell what the clock tells
_WINDOWS = 4
_TINY = 1e-4  # of a typical variance: what is added before a logarithm is taken
_PAIRS = 10  # of channels; with more, neighbours only


class Features(NamedTuple):
    """A table: one row for each guess, one named column for each feature. NaN where there is nothing to tell."""

    values: Array
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recipe:
    """How features are made: settled on what is learned from."""

    once: bool
    length: int
    """Readings in a sequence that was learned from."""
    windows: tuple[int, ...]
    clock: bool
    weekdays: bool
    gaps: bool
    """Whether readings were missing."""
    centre: Array
    """A typical reading of each channel, (d,)."""
    spread: Array
    """A typical variance of the readings, (d,)."""
    step: Array
    """A typical square of a difference, (d,)."""
    edges: Array
    """Levels between which time is counted, (d, bins - 1)."""

    def __repr__(self) -> str:
        what = "sequence" if self.once else "reading"
        return f"Recipe(a row for each {what}, {len(self.centre)} channels, windows {self.windows})"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which channels are compared."""
        d = len(self.centre)
        every = tuple((i, j) for i in range(d) for j in range(i + 1, d))
        return every if len(every) <= _PAIRS else tuple((i, i + 1) for i in range(d - 1))


def lengths(T: int) -> tuple[int, ...]:
    """Lengths of windows for sequences of T readings: odd, from a few readings to a quarter of the time.

    >>> lengths(8000), lengths(50), lengths(1)
    ((5, 19, 67, 241), (5, 9, 13), (1,))
    """
    if T < 3:
        return (1,)
    longest = min(max(T // 4, 3), _LONGEST)
    ideal = np.geomspace(min(5, max(longest // 3, 3)), longest, _WINDOWS)
    return tuple(sorted({2 * round((length - 1.0) / 2.0) + 1 for length in ideal.tolist()}))


def recipe_for(cases: Cases) -> Recipe:
    """The recipe for cases that are learned from.

    >>> from understudy.adversaries.knowledge import Cases
    >>> labels = np.zeros((100, 2), dtype=np.int64)
    >>> recipe_for(Cases(np.zeros((100, 3, 2)), labels, labels, m=2, once=False))
    Recipe(a row for each reading, 3 channels, windows (5, 9, 15, 25))
    """
    Y = cases.outputs
    T, d, _ = Y.shape
    some = Y[:, :, : max(1, 2_000_000 // max(T * d, 1))]
    centre, spread, step = np.zeros(d), np.ones(d), np.ones(d)
    edges = np.zeros((d, 9))
    for c in range(d):
        x = some[:, c]
        squares = np.diff(x, axis=0).ravel() ** 2
        x, squares = x[~np.isnan(x)], squares[~np.isnan(squares)]
        if x.size:
            centre[c] = np.median(x)
            spread[c] = _positive(np.quantile(np.abs(x - centre[c]), 0.8) ** 2)
            edges[c] = np.quantile(x, np.linspace(0.1, 0.9, 9))
        if squares.size:
            step[c] = _positive(np.quantile(squares, 0.9))
    # padding at the end of a sequence is no gap
    there = np.asarray(~np.isnan(Y).all(axis=1))
    after = np.logical_or.accumulate(there[::-1], axis=0)[::-1]
    gone = bool((after & ~there).any())
    return Recipe(
        cases.once, T, lengths(T), cases.hours is not None, cases.days is not None and cases.hours is not None,
        gone, centre, spread, step, edges,
    )  # fmt: skip


def features(cases: Cases, recipe: Recipe) -> Features:
    """The table of features: rows in the order of ``labels.ravel()``, or one for each sequence if theta is constant."""
    if recipe.once:
        return sequence_features(cases, recipe)
    found: dict[str, Array] = {}
    changes = []
    for c in range(cases.d):
        x = cases.outputs[:, c] - recipe.centre[c]
        changes.append(x - shift(x, 1))
        found |= _levels(f"y{c}", x, recipe, c)
        found |= _spreads(f"y{c}", changes[c], recipe, c)
    for i, j in recipe.pairs:
        found |= _together(f"y{i} y{j}", changes[i], changes[j], recipe.step[[i, j]], recipe.windows)
    if recipe.gaps:
        there = cumulate(np.where(np.isnan(cases.outputs).all(axis=1), np.nan, 1.0))
        found |= {f"readings there, {w}": count(there, centred_window(w)) for w in recipe.windows}
    if recipe.clock:
        found |= _clock(cases.hours, cases.days, recipe.weekdays, (cases.T, cases.N))
    return Features(np.array([column.ravel() for column in found.values()]).T, tuple(found))


def _clock(hours: Array | None, days: Ints | None, weekdays: bool, shape: tuple[int, ...]) -> dict[str, Array]:
    """Sine and cosine of the hour, the hour, and whether it is a weekend."""
    hour = np.full(shape, np.nan) if hours is None else np.asarray(hours, dtype=float)
    turn = 2.0 * np.pi * hour / 24.0
    found = {"clock sine": np.sin(turn), "clock cosine": np.cos(turn), "clock hour": hour}
    if weekdays:
        day = np.full(shape, -1) if days is None else days
        found["clock weekend"] = np.where(day < 0, np.nan, day >= 5)
    return found


def _levels(name: str, x: Array, recipe: Recipe, c: int) -> dict[str, Array]:
    """Level, differences, means, slopes, spread of the level, extremes."""
    found = {f"{name} level": x}
    for lag in dict.fromkeys((1, *(max(w // 2, 1) for w in recipe.windows))):
        found[f"{name} difference, {lag} back"] = x - shift(x, lag)
        found[f"{name} difference, {lag} ahead"] = shift(x, -lag) - x
    run, squares = cumulate(x), cumulate(x * x)
    floor = _TINY * recipe.spread[c]
    for w in recipe.windows:
        found[f"{name} mean around, {w}"] = mean(run, centred_window(w))
        found[f"{name} mean before, {w}"] = mean(run, trailing_window(w))
        if w < 3:
            continue
        low, high = extremes(x, w)
        found[f"{name} slope, {w}"] = slope(x, w)
        found[f"{name} log variance, {w}"] = np.log(variance(run, squares, centred_window(w)) + floor)
        found[f"{name} above the least, {w}"] = x - low
        found[f"{name} below the greatest, {w}"] = high - x
    return found


def _spreads(name: str, change: Array, recipe: Recipe, c: int) -> dict[str, Array]:
    """How much the readings change from one to the next."""
    run, squares = cumulate(change), cumulate(change * change)
    still = cumulate(np.where(np.isnan(change), np.nan, change == 0.0))
    floor, found = _TINY * recipe.step[c], {}
    for w in (w for w in recipe.windows if w >= 3):
        around, before = (variance(run, squares, window) for window in (centred_window(w), trailing_window(w)))
        found[f"{name} deviation of differences around, {w}"] = np.sqrt(around)
        found[f"{name} log variance of differences around, {w}"] = np.log(around + floor)
        found[f"{name} log variance of differences before, {w}"] = np.log(before + floor)
        found[f"{name} share unchanged, {w}"] = mean(still, centred_window(w))
    return found


def _together(name: str, a: Array, b: Array, step: Array, windows: tuple[int, ...]) -> dict[str, Array]:
    """Mean product and correlation of the differences of two channels."""
    gone = np.isnan(a) | np.isnan(b)
    a, b = np.where(gone, np.nan, a) / np.sqrt(step[0]), np.where(gone, np.nan, b) / np.sqrt(step[1])
    product, aa, bb = cumulate(a * b), cumulate(a * a), cumulate(b * b)
    found = {f"{name} product of differences": a * b}
    for w in (w for w in windows if w >= 3):
        found[f"{name} mean product of differences, {w}"] = mean(product, centred_window(w))
        found[f"{name} correlation of differences, {w}"] = correlation(product, aa, bb, centred_window(w))
    return found


def correlation(product: Running, aa: Running, bb: Running, window: Window) -> Array:
    """Correlation about zero of two series in units of their typical changes, drawn to zero where both are still."""
    scale = np.sqrt((mean(aa, window) + _TINY) * (mean(bb, window) + _TINY))
    return ratio(mean(product, window), np.where(np.isnan(scale), 0.0, scale))


def _positive(value: float) -> float:
    return float(value) if value > 1e-24 else 1e-12


# Features of whole sequences, for a theta that is constant in each: one row for each sequence --------


_READINGS = 64  # up to so many are features themselves
_STRETCHES, _QUARTERS, _BANDS = 8, 4, 6
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LAGS = (1, 2, 3, 5)
_LEAST = 1e-6  # of a typical variance
_AT_ONCE = 4_000_000  # readings


def sequence_features(cases: Cases, recipe: Recipe) -> Features:
    """The table of features, one row for each sequence."""
    Y = cases.outputs[: recipe.length]
    Y = np.concatenate([Y, np.full((recipe.length - len(Y), *Y.shape[1:]), np.nan)])
    step = max(1, _AT_ONCE // (recipe.length * cases.d))
    parts = [_of_sequences(Y[:, :, start : start + step], recipe) for start in range(0, cases.N, step)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if recipe.clock:
        hours, days = (None if part is None else part[0] for part in (cases.hours, cases.days))
        found |= _clock(hours, days, recipe.weekdays, (cases.N,))
    return Features(np.array(list(found.values())).T, tuple(found))


def _of_sequences(Y: Array, recipe: Recipe) -> dict[str, Array]:
    T, d, _ = Y.shape
    found: dict[str, Array] = {}
    levels = [Y[:, c] - recipe.centre[c] for c in range(d)]
    changes = [np.diff(x, axis=0) for x in levels]
    for c, (x, change) in enumerate(zip(levels, changes, strict=True)):
        name, floor = f"y{c}", _LEAST * recipe.step[c]
        if T * d <= _READINGS:
            found |= {f"{name} reading {k}": x[k] for k in range(T)}
        found |= {f"{name} mean {k}": _mean(part) for k, part in enumerate(np.array_split(x, min(_STRETCHES, T)))}
        found |= {f"{name} first": _first(x), f"{name} last": _first(x[::-1])}
        found |= _spread(name, x, _LEAST * recipe.spread[c]) | _spread(f"{name} differences", change, floor)
        for k, part in enumerate(np.array_split(change, min(_QUARTERS, max(T - 1, 1)))):
            found[f"{name} differences log variance {k}"] = np.log(_variance(part) + floor)
        cells, there = np.searchsorted(recipe.edges[c] - recipe.centre[c], x), ~np.isnan(x)
        for b in range(len(recipe.edges[c]) + 1):
            found[f"{name} share of time {b}"] = ratio(((cells == b) & there).sum(axis=0), there.sum(axis=0))
        found |= _spectrum(name, change, floor)
        if recipe.gaps:
            found[f"{name} readings there"] = there.sum(axis=0).astype(float)
    for i, j in recipe.pairs:
        a, b = changes[i], changes[j]
        found[f"y{i} y{j} correlation"] = _correlation(levels[i], levels[j])
        found[f"y{i} y{j} correlation of differences"] = _correlation(a, b)
        found[f"y{i} y{j} correlation of differences, one later"] = _correlation(a[:-1], b[1:])
        found[f"y{i} y{j} correlation of differences, one earlier"] = _correlation(a[1:], b[:-1])
        found[f"y{i} y{j} mean product of differences"] = _mean(a * b) / np.sqrt(recipe.step[i] * recipe.step[j])
    return found


def _spread(name: str, x: Array, floor: float) -> dict[str, Array]:
    """Quantiles, variance and autocorrelations."""
    found = {f"{name} quantile {q:g}": value for q, value in zip(_QUANTILES, _quantiles(x), strict=True)}
    found[f"{name} log variance"] = np.log(_variance(x) + floor)
    found[f"{name} log mean square"] = np.log(_mean(x * x) + floor)
    return found | {f"{name} autocorrelation {lag}": _correlation(x[lag:], x[:-lag]) for lag in _LAGS}


def _spectrum(name: str, change: Array, floor: float) -> dict[str, Array]:
    """Logarithms of the power of the differences in bands of frequency."""
    K = len(change)
    if K < 4:
        return {}
    power = np.abs(np.fft.rfft(np.where(np.isnan(change), 0.0, change), axis=0)) ** 2 / K
    ends = np.unique(np.rint(np.geomspace(1, len(power), min(_BANDS, len(power) - 1) + 1)).astype(int)).tolist()
    bands = enumerate(pairwise(ends))
    return {f"{name} band {k}": np.log(power[low:high].mean(axis=0) + floor) for k, (low, high) in bands}


def _quantiles(x: Array) -> Array:
    """Quantiles (Q, N) of what is there, interpolated as numpy does it; NaN where nothing is."""
    if not len(x):
        return np.full((len(_QUANTILES), x.shape[1]), np.nan)
    place = np.multiply.outer(_QUANTILES, np.maximum((~np.isnan(x)).sum(axis=0) - 1.0, 0.0))
    low, high = (end(place).astype(int) for end in (np.floor, np.ceil))
    a, b = (np.take_along_axis(np.sort(x, axis=0), at, axis=0) for at in (low, high))  # missing readings come last
    return np.asarray(a + (place - low) * (b - a))


def _mean(x: Array) -> Array:
    return ratio(np.nansum(x, axis=0), (~np.isnan(x)).sum(axis=0))


def _variance(x: Array) -> Array:
    enough = (~np.isnan(x)).sum(axis=0) >= 2
    return np.asarray(np.where(enough, _mean((x - _mean(x)) ** 2), np.nan))


def _correlation(a: Array, b: Array) -> Array:
    """Correlation of the rows that both have; NaN where one of them is constant."""
    gone = np.isnan(a) | np.isnan(b)
    a, b = np.where(gone, np.nan, a), np.where(gone, np.nan, b)
    a, b = a - _mean(a), b - _mean(b)
    return ratio(_mean(a * b), np.sqrt(_mean(a * a) * _mean(b * b)))


def _first(x: Array) -> Array:
    """The first reading that is there."""
    return np.asarray(x[np.argmax(~np.isnan(x), axis=0), np.arange(x.shape[1])])


# What scikit-learn does: three ways to learn from a table of features -----------------------------------------------


Predict = Callable[[Array], list[Array]]
"""Rows in; the evidence (m, rows) of each setting out."""
_UNSEEN = 1e-6  # probability of a value that was not among the labels, and the least of any


class LabelledRows(NamedTuple):
    """Rows of features with labels from 0 to m - 1."""

    X: Array
    y: Ints
    m: int

    def some(self, most: int, rng: np.random.Generator) -> LabelledRows:
        """At most so many rows, none of the values reduced to less than half an equal share if it can be helped."""
        if len(self.y) <= most:
            return self
        counts = np.bincount(self.y, minlength=self.m)
        least = np.minimum(counts, most // (2 * self.m))
        wanted = least + np.floor((most - least.sum()) * (counts - least) / max((counts - least).sum(), 1)).astype(int)
        rows = [rng.permutation(np.flatnonzero(self.y == i))[: wanted[i]] for i in range(self.m)]
        chosen = np.sort(np.concatenate(rows))
        return LabelledRows(self.X[chosen], self.y[chosen], self.m)


class Fitter(Protocol):
    """A way to learn from a table of features and labels, on one thread; each value counts alike."""

    @property
    def folds(self) -> int:
        """How often a part is held out to choose a setting."""
        ...

    def settings(self, m: int) -> tuple[float, ...]:
        """What learning leaves open, for m values; the one in the middle is the usual one."""
        ...

    def learn(self, data: LabelledRows, settings: Sequence[float], rng: np.random.Generator) -> Predict:
        """Learn with each of these settings."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scaler:
    """Columns that vary, cut off at what is rare, with mean 0 and variance 1. What is missing becomes 0."""

    columns: Ints
    low: Array
    high: Array
    centre: Array
    scale: Array

    def __call__(self, X: Array) -> Array:
        """The scaled table."""
        cut = np.clip(X[:, self.columns], self.low, self.high)
        return np.asarray(np.nan_to_num((cut - self.centre) / self.scale, nan=0.0))


def scaler(X: Array) -> Scaler:
    """Learn to scale: limits are the quantiles 0.002 and 0.998."""
    ordered = np.sort(X, axis=0)
    n = (~np.isnan(X)).sum(axis=0)
    every = np.arange(X.shape[1])
    low, high = (ordered[np.rint(q * np.maximum(n - 1, 0)).astype(int), every] for q in (0.002, 0.998))
    # a table in which nothing varies keeps one column, of zeros: it tells nothing, and classifiers can be fitted to it
    columns = np.flatnonzero((n > 0) & (high > low)) if ((n > 0) & (high > low)).any() else np.zeros(1, dtype=int)
    low, high = low[columns], high[columns]
    cut = np.clip(X[:, columns], low, high)
    count = np.maximum(n[columns], 1)
    centre = np.nansum(cut, axis=0) / count
    scale = np.sqrt(np.nansum((cut - centre) ** 2, axis=0) / count)
    return Scaler(columns, low, high, centre, np.maximum(scale, 1e-300))


@dataclass(frozen=True, slots=True)
class LogisticFitter:
    """Logistic regression; the setting is the penalty on the squared weights, for a row."""

    penalties: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    cells: int = 1_100_000
    """Rows times columns that are learned from, at most."""
    folds: int = 4

    def settings(self, m: int) -> tuple[float, ...]:
        """Penalties."""
        return self.penalties

    def learn(self, data: LabelledRows, settings: Sequence[float], rng: np.random.Generator) -> Predict:
        """Learn with each penalty."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        data = data.some(_rows(data, self.cells), rng)
        scaled = scaler(data.X)
        X, strengths = scaled(data.X), [1.0 / (penalty * len(data.y)) for penalty in settings]
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # nearly there is good enough: it is scored
            models = [
                LogisticRegression(C=C, class_weight="balanced", max_iter=150, tol=1e-3).fit(X, data.y)
                for C in strengths
            ]
        return lambda rows: [_evidence(model.predict_proba(scaled(rows)), model.classes_, data.m) for model in models]


@dataclass(frozen=True, slots=True)
class BoostingFitter:
    """Gradient boosting of small trees; the setting is their number.

    Rows are not weighted (with weights, finding bins takes longer than growing trees): the shares of the labels are
    divided out of what it finds.
    """

    trees: int = 100
    leaves: int = 12
    rate: float = 0.12
    cells: int = 1_800_000
    """Rows times columns that are learned from, at most."""
    folds: int = 2

    def settings(self, m: int) -> tuple[float, ...]:
        """Numbers of trees."""
        rounds = self.trees if m == 2 else max(2 * self.trees // m, 20)
        return tuple(k for k in range(1, rounds + 1) if k in (1, 2, 3, 4, 6, 8) or k % 5 == 0)

    def learn(self, data: LabelledRows, settings: Sequence[float], rng: np.random.Generator) -> Predict:
        """Grow as many trees as the greatest setting says; the others are stages of it."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        data = data.some(_rows(data, self.cells), rng)
        columns, n, counts = _find_varying(data.X), len(data.y), np.bincount(data.y)
        share = counts[counts > 0] / n
        model = HistGradientBoostingClassifier(
            learning_rate=self.rate, max_iter=int(max(settings)), max_leaf_nodes=self.leaves, l2_regularization=2.0,
            max_bins=63, min_samples_leaf=min(max(20, n // 500), max(n // 10, 1)), early_stopping=False,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip
        with one_thread():
            model.fit(data.X[:, columns], data.y)

        def predict(X: Array) -> list[Array]:
            with one_thread():
                rows = X[:, columns]
                if len(settings) == 1:
                    stages = [model.predict_proba(rows)]
                else:
                    stages = [p for k, p in enumerate(model.staged_predict_proba(rows), 1) if k in settings]
                return [_evidence(stage / share, model.classes_, data.m) for stage in stages]

        return predict


@dataclass(frozen=True, slots=True)
class NeighboursFitter:
    """Nearest neighbours; the setting is their number.

    Distances are taken in few dimensions: the directions that tell the mean of a value from that of another, at double
    weight, and those in which most of the variance is.
    """

    numbers: tuple[float, ...] = (5, 15, 40, 100)
    dimensions: int = 8
    most: int = 10_000
    folds: int = 4

    def settings(self, m: int) -> tuple[float, ...]:
        """Numbers of neighbours."""
        return self.numbers

    def learn(self, data: LabelledRows, settings: Sequence[float], rng: np.random.Generator) -> Predict:
        """Keep the rows."""
        from sklearn.neighbors import NearestNeighbors

        data = data.some(self.most, rng)
        scaled = scaler(data.X)
        turned = _directions(scaled(data.X), data.y, self.dimensions)
        most = min(int(max(settings)), len(data.y))
        totals = np.bincount(data.y, minlength=data.m)
        share = np.where(totals > 0, totals, 1)[:, None] / len(data.y)
        with one_thread():
            rows = NearestNeighbors(n_neighbors=most, algorithm="brute", n_jobs=1).fit(scaled(data.X) @ turned)

        def predict(X: Array) -> list[Array]:
            with one_thread():
                near = data.y[rows.kneighbors(scaled(X) @ turned, return_distance=False)]
            found = []
            for k in settings:
                # how much more often than at all a value is found there, one neighbour of all kinds added
                seen = np.stack([(near[:, : int(k)] == i).sum(axis=1) for i in range(data.m)])
                odds = (seen + share) / share
                odds[totals == 0] = _UNSEEN
                found.append(np.log(np.maximum(odds / odds.sum(axis=0), _UNSEEN)))
            return found

        return predict


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, nothing takes a second core."""
    limits = import_module("threadpoolctl").threadpool_limits  # it comes with scikit-learn

    with limits(limits=1):
        yield


def _rows(data: LabelledRows, cells: int) -> int:
    """How many rows are learned from at most."""
    return max(cells // max(int(data.X.shape[1]), 1), 5_000)


def _evidence(probabilities: Array, classes: Ints, m: int) -> Array:
    found = np.full((m, len(probabilities)), _UNSEEN)
    found[classes] = np.maximum(probabilities.T / probabilities.sum(axis=1), _UNSEEN)
    return np.asarray(np.log(found))


def _find_varying(X: Array) -> Ints:
    """Columns in which something is told."""
    low, high = (
        function(np.where(np.isnan(X), fill, X), axis=0) for function, fill in ((np.min, np.inf), (np.max, -np.inf))
    )
    found = np.flatnonzero(high > low)
    return found if found.size else np.arange(1)


def _directions(X: Array, y: Ints, dimensions: int) -> Array:
    """Directions (columns, dimensions) to take distances in, each with variance 1, the discriminating ones with 4."""
    n, f = X.shape
    if f == 0:
        return np.zeros((0, 1))
    values, vectors = np.linalg.eigh(X.T @ X / n)
    order = np.argsort(-values)[: min(dimensions, f)]
    wide = vectors[:, order] / np.sqrt(np.maximum(values[order], 1e-9))
    label = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(label)
    means = np.stack([X[label == i].mean(axis=0) for i in range(counts.size)])
    inside = X - means[label]
    S = (inside / (counts.size * counts[label])[:, None]).T @ inside + 1e-2 * np.eye(f)  # every value counts alike
    apart = np.linalg.solve(S, (means[1:] - means[0]).T)
    spread = np.sqrt(np.maximum(((X @ apart) ** 2).mean(axis=0), 1e-18))
    return np.concatenate([wide, 2.0 * apart / spread], axis=1)


# Adversaries off the shelf -------------------------------------------------------------------------------------------


_MOST_HELD = 10_000  # rows on which a setting is chosen


@dataclass(frozen=True, slots=True)
class TableLearner:
    """A way to learn, on features of the output and of the clock where there is one."""

    name: str
    fitter: Fitter = field(repr=False)

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """It needs scikit-learn."""
        return "" if find_spec("sklearn") else 'it needs scikit-learn: pip install "understudy[sklearn]"'

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Learn from the features of labelled outputs."""
        judged = cases.truth >= 0
        if len(np.unique(cases.truth[judged])) < 2:
            return FixedProbabilities(prior_of(cases), clock_table(cases))
        recipe = recipe_for(cases)
        X = features(cases, recipe).values
        splits = held_out(cases, recipe.windows[-1] // 2, self.fitter.folds)
        settings = self.fitter.settings(cases.m)
        best, evidence = len(settings) // 2, np.zeros((cases.m, *cases.truth.shape))
        if splits:
            held = [
                self.fitter.learn(_rows_of(X, cases, split.fit), settings, rng)(X[split.held.ravel()])
                for split in splits
            ]
            best = _best_setting(held, cases, splits, rng)
            for split, found in zip(splits, held, strict=True):
                evidence[:, split.held] = found[best]
        predict = self.fitter.learn(_rows_of(X, cases, judged), settings[best : best + 1], rng)
        return settle_held_out(evidence, cases, splits).attack(_Table(recipe, predict), cases, rng)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Table:
    """Features, and what was learned from them."""

    recipe: Recipe
    predict: Predict

    def evidence(self, cases: Cases) -> Array:
        (found,) = self.predict(features(cases, self.recipe).values)
        return np.asarray(found.reshape(len(found), *cases.truth.shape))


@dataclass(frozen=True, slots=True)
class Logistic(TableLearner):
    """Logistic regression."""

    name: str = "logistic regression"
    fitter: Fitter = field(default=LogisticFitter(), repr=False)


@dataclass(frozen=True, slots=True)
class Boosting(TableLearner):
    """Gradient boosting of small trees.

    >>> labels = np.random.default_rng(1).integers(2, size=(1, 600)).repeat(20, axis=0)
    >>> outputs = ((1 + labels) * np.random.default_rng(2).normal(size=labels.shape))[:, None, :]
    >>> cases = Cases(outputs, labels, np.tile(np.arange(600), (20, 1)), m=2, once=True)
    >>> attack = Boosting().learn(cases.sequences(slice(400)), None, np.random.default_rng(3))
    >>> bool((attack.logits(cases.sequences(slice(400, 600))).argmax(axis=0) == labels[0, 400:]).mean() > 0.9)
    True
    """

    name: str = "gradient boosting"
    fitter: Fitter = field(default=BoostingFitter(), repr=False)


@dataclass(frozen=True, slots=True)
class Neighbours(TableLearner):
    """Nearest neighbours."""

    name: str = "nearest neighbours"
    fitter: Fitter = field(default=NeighboursFitter(), repr=False)


def _rows_of(X: Array, cases: Cases, where: NDArray[np.bool_]) -> LabelledRows:
    return LabelledRows(X[where.ravel()], cases.truth[where], cases.m)


def _best_setting(held: list[list[Array]], cases: Cases, splits: Sequence[Split], rng: np.random.Generator) -> int:
    """Which setting has the greatest mean log-probability on rows that were held out, at its best temperature."""
    truth = np.concatenate([cases.truth[split.held] for split in splits])
    some = rng.permutation(len(truth))[:_MOST_HELD]
    labels = truth[some][None]
    rows = Cases(np.zeros((1, 1, len(some))), labels, labels, cases.m, once=True)
    rule = AlongChain(prior_of(cases), None)
    losses = [settle(np.concatenate(found, axis=1)[:, some], rows, [rule]).loss for found in zip(*held, strict=True)]
    return int(np.argmin(losses))


# The paper's estimator, learned --------------------------------------------------------------------------------------


_RIDGE = 1e-9  # of a variance: keeps readings that never differ from being divided by


class Discriminant(NamedTuple):
    """A linear discriminant: normals with a mean for each value and one covariance for all."""

    weights: Array
    """(m, f)."""
    offsets: Array
    """(m,), without the prior; -inf for a value that was not seen."""

    def evidence(self, X: Array) -> Array:
        """Log-likelihoods (m, rows) of the values, up to a common constant."""
        return np.asarray(self.weights @ X.T + self.offsets[:, None])


def linear_discriminant(X: Array, y: Ints, m: int) -> Discriminant:
    """The linear discriminant (LDA) of rows (n, f) with labels from 0 to m - 1.

    >>> rows, labels = np.array([[1.0], [2.0], [3.0], [7.0], [8.0], [9.0]]), np.array([0, 0, 0, 1, 1, 1])
    >>> found = linear_discriminant(rows, labels, 2)
    >>> found.evidence(np.array([[4.9], [5.1]])).argmax(axis=0).tolist()
    [0, 1]
    """
    if not len(y):
        return Discriminant(np.zeros((m, X.shape[1])), np.zeros(m))
    counts = np.bincount(y, minlength=m).astype(float)
    centre = X.mean(axis=0)
    X = X - centre
    sums = np.stack([np.bincount(y, weights=column, minlength=m) for column in X.T], axis=1)
    means = sums / np.maximum(counts, 1.0)[:, None]
    inside = X - means[y]
    S = inside.T @ inside / max(len(y) - int((counts > 0).sum()), 1)
    scale = np.where(np.diag(S) > 0.0, np.diag(S), np.maximum((X * X).mean(axis=0), 1e-300))
    S = S + np.diag(_RIDGE * scale)
    # log N(x; mu_i, S) = mu_i' S^-1 x - mu_i' S^-1 mu_i / 2 + what all have in common
    weights = np.linalg.solve(S, means.T).T
    offsets = -0.5 * (weights * means).sum(axis=1) - weights @ centre
    return Discriminant(weights, np.where(counts > 0.0, offsets, -np.inf))


@dataclass(frozen=True, slots=True)
class Windowed:
    """The windowed estimator of the paper, with what it needs to know learned from labelled outputs.

    >>> labels = np.random.default_rng(1).integers(2, size=(1, 400)).repeat(20, axis=0)
    >>> outputs = (labels + np.random.default_rng(2).normal(size=labels.shape))[:, None, :]
    >>> cases = Cases(outputs, labels, np.tile(np.arange(400), (20, 1)), m=2, once=True)
    >>> attack = Windowed().learn(cases.sequences(slice(200)), None, None)
    >>> int((attack.logits(cases.sequences(slice(200, 400))).argmax(axis=0) == labels[0, 200:]).sum())
    198
    """

    name: str = "windowed estimator"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There is none."""
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Learn the discriminant for several windows, and take the best."""
        windows = _ends(cases.T) if cases.once else _around(cases.T)
        return fit_reader(
            [partial(_fit_window, cases, window) for window in windows], cases, rng, lengths(cases.T)[-1] // 2
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Windows:
    """A window and the discriminant that was learned for it."""

    window: Window
    centre: Array
    rule: Discriminant

    def evidence(self, cases: Cases) -> Array:
        X = means_of(cases, self.window)
        gone = np.isnan(X).all(axis=1)
        found = self.rule.evidence(np.where(np.isnan(X), self.centre, X))
        # a value that was not seen is unlikely, but never impossible
        found = np.maximum(found, np.where(np.isfinite(found), found, np.inf).min(axis=0) - 12.0)
        found = np.where(gone, 0.0, found - found.max(axis=0))
        return np.asarray(found.reshape(len(found), *cases.truth.shape))


def means_of(cases: Cases, window: Window) -> Array:
    """Mean of the window of each guess, and of the same window one reading earlier: (guesses, 2 d).

    Where theta is constant in a sequence, the window is the one of its last reading.
    """
    columns = []
    for c in range(cases.d):
        now = mean(cumulate(cases.outputs[:, c]), window)
        # the window a reading earlier: what is before the first reading is left out of both
        before = shift(now, 1)
        columns += [now[-1], before[-1]] if cases.once else [now.ravel(), before.ravel()]
    return np.stack(columns, axis=1)


def _fit_window(cases: Cases, window: Window, where: Mask) -> _Windows:
    X, y = means_of(cases, window)[where.ravel()], cases.truth[where]
    there = ~np.isnan(X)
    centre = np.where(there, X, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return _Windows(window, centre, linear_discriminant(np.where(there, X, centre), y, cases.m))


def _around(T: int) -> list[Window]:
    """Windows for a theta that moves: around a reading and before it."""
    return [kind(w) for w in lengths(T) for kind in (centred_window, trailing_window)]


def _ends(T: int) -> list[Window]:
    """Windows at the end of a sequence; the paper's is a fifth of it."""
    sizes = {1, 2, 5, T // 10, T // 5, T // 2, T - 1}
    return [trailing_window(w) for w in sorted(size for size in sizes if 1 <= size <= max(T - 1, 1))]


# Change detection ----------------------------------------------------------------------------------------------------


_THRESHOLDS = (3.5, 2.0)  # typical sizes
_TIMES = (1.0, 3.0, 8.0)  # windows: a change is just now, recent, some time ago, long ago
_STATES = 1 + 2 * (len(_TIMES) + 1)  # no change, or up or down with a time
_MOST = 3  # changes are counted up to this many, where theta is constant
_SHRINKAGE = 0.05  # share of a table that the pooled one counts for
_FEWEST = 6  # readings
_MOST_SEQUENCES = 10_000


class Detector(NamedTuple):
    """What marks changes: windows of a length, and a threshold for each kind and channel, (3 d,)."""

    recipe: Recipe
    window: int
    thresholds: Array


class Marks(NamedTuple):
    """Where changes are: +1 up, -1 down, 0 none, for each kind and channel: (3 d, T, N)."""

    signs: NDArray[np.int8]
    window: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Change detection, and a table of how theta goes with changes.

    >>> theta = np.zeros((600, 1), dtype=np.int64); theta[100:150] = theta[300:350] = theta[450:500] = 1
    >>> outputs = np.cumsum(theta - 0.1, axis=0)[:, None] + np.random.default_rng(1).normal(size=(600, 1, 1))
    >>> cases = Cases(outputs, theta, np.arange(600)[:, None] // 50, m=2, once=False)
    >>> attack = Changes().learn(cases, None, None)
    >>> bool((attack.logits(cases).argmax(axis=0) == theta).mean() > 0.9)
    True
    """

    name: str = "change detection"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """It needs sequences that have a before and an after."""
        return "" if cases.T >= _FEWEST else f"sequences of {cases.T} readings are too short for changes in them"

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Mark changes with windows of several lengths, learn the tables, and take the best."""
        if cases.once and cases.N > _MOST_SEQUENCES:
            cases = cases.sequences(np.sort(rng.permutation(cases.N)[:_MOST_SEQUENCES]))
        recipe = recipe_for(cases)
        candidates = []
        for w in _lengths(cases.T):
            scales = _scales(_statistics(cases.outputs, recipe, w))
            for threshold in _THRESHOLDS:
                detector = Detector(recipe, w, threshold * scales)
                candidates.append(
                    partial(_fit_tables, cases, _states(cases, mark_changes(cases.outputs, detector)), detector)
                )
        return fit_reader(candidates, cases, rng, lengths(cases.T)[-1] // 2)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Tables:
    detector: Detector
    logs: Array
    """(tables, states, m)."""

    def evidence(self, cases: Cases) -> Array:
        states = _states(cases, mark_changes(cases.outputs, self.detector))
        found = sum(table[state] for table, state in zip(self.logs, states, strict=True))
        return np.moveaxis(np.asarray(found), -1, 0)


def mark_changes(outputs: Array, detector: Detector) -> Marks:
    """The changes in outputs (T, d, N): statistics beyond their threshold that are greatest within half a window."""
    from scipy.ndimage import maximum_filter1d

    window, thresholds = detector.window, detector.thresholds
    signs = np.zeros((len(thresholds), outputs.shape[0], outputs.shape[2]), dtype=np.int8)
    for at, statistic in enumerate(_statistics(outputs, detector.recipe, window)):
        z = np.where(np.isnan(statistic), 0.0, statistic) / thresholds[at]
        size = np.abs(z)
        top = maximum_filter1d(size, window | 1, axis=0, mode="constant", cval=0.0)
        peak = (size >= 1.0) & (size == top)
        signs[at] = np.where(peak, np.sign(z), 0.0).astype(np.int8)
    return Marks(signs, window)


def _statistics(outputs: Array, recipe: Recipe, w: int) -> list[Array]:
    """For each channel: jump of the mean, of the mean difference, and of the log variance of differences, (T, N)."""
    found = []
    for c in range(outputs.shape[1]):
        x = outputs[:, c] - recipe.centre[c]
        change = x - shift(x, 1)
        after, before = leading_window(w), Window(w, -1)
        levels, run, squares = cumulate(x), cumulate(change), cumulate(change * change)
        floor = _TINY * recipe.step[c]
        # the difference into the first reading of the window belongs to neither side
        later, earlier = Window(-1, w), before
        # with few readings on a side everything looks like a change
        few = np.minimum(count(levels, after), count(levels, before)) < max(w // 2, 1)
        jump = mean(levels, after) - mean(levels, before)
        trend = mean(run, later) - mean(run, earlier)
        spread = [np.log(variance(run, squares, side) + floor) for side in (later, earlier)]
        found += [np.where(few, np.nan, each) for each in (jump, trend, spread[0] - spread[1])]
    return found


def _scales(statistics: list[Array]) -> Array:
    """The typical size of each statistic: 1.48 times the median of its absolute value."""
    scales = []
    for statistic in statistics:
        size = np.abs(statistic[~np.isnan(statistic)])
        typical = float(np.median(size)) if size.size else 0.0
        # more than half of them 0: a sensor that holds its value
        typical = typical if typical > 0.0 else float(size.mean()) if size.size and size.any() else 1.0
        scales.append(1.4826 * typical)
    return np.array(scales)


def _states(cases: Cases, marks: Marks) -> list[Ints]:
    """The row of each guess in each table."""
    if cases.once:
        ups, downs = ((marks.signs == sign).sum(axis=1) for sign in (1, -1))
        return list(np.minimum(ups, _MOST) * (_MOST + 1) + np.minimum(downs, _MOST))
    return [_since(signs, marks.window) * _STATES + _since(signs[::-1], marks.window)[::-1] for signs in marks.signs]


def _since(signs: NDArray[np.int8], window: int) -> Ints:
    """The last change and how long ago it was, as one number: 0 is none."""
    T = len(signs)
    place = np.arange(T)[:, None]
    last = np.maximum.accumulate(np.where(signs != 0, place, -1), axis=0)
    up = np.take_along_axis(signs, np.maximum(last, 0), axis=0) > 0
    long = np.searchsorted(np.array(_TIMES) * window, place - last)
    return np.asarray(np.where(last < 0, 0, 1 + long + up * (len(_TIMES) + 1)), dtype=np.int64)


def _fit_tables(cases: Cases, states: list[Ints], detector: Detector, where: Mask) -> _Tables:
    """Learn the tables: the log of how much more often a state goes with a value than at all."""
    truth, m = cases.truth[where], cases.m
    rows = (_MOST + 1) ** 2 if cases.once else _STATES**2
    logs = np.zeros((len(states), rows, m))
    counts = np.bincount(truth, minlength=m)
    seen = counts > 0
    if not seen.any():
        return _Tables(detector, logs)
    for table, state in zip(logs, states, strict=True):
        joint = np.bincount(state[where] * m + truth, minlength=rows * m).reshape(rows, m)
        share = joint[:, seen] / counts[seen]
        pooled = share.mean(axis=1, keepdims=True)  # every value counts alike
        found = (share + _SHRINKAGE * pooled) / (1.0 + _SHRINKAGE)
        table[:, seen] = np.log(np.divide(found, pooled, out=np.ones_like(found), where=pooled > 0.0))
    return _Tables(detector, logs)


def _lengths(T: int) -> tuple[int, ...]:
    """Windows, each of which fits twice."""
    return tuple(w for w in lengths(T) if 2 * w < T) or (max(T // 3, 1),)


# A hidden Markov smoother on mixtures of normal laws ------------------------------------------------------------------


_STEPS = 40
_VARIANCE_RIDGE = 1e-3  # of a unit variance, so that no component collapses
_SCORED = 200_000  # scored at a time


class NormalMixture(NamedTuple):
    """Weights (K,), means (K, F) and lower factors (K, F, F) of the covariances."""

    weights: Array
    means: Array
    factors: Array

    def logs(self, X: Array) -> Array:
        """Log-densities (count,) of rows (count, F)."""
        parts = [_logs(self, X[first : first + _SCORED]) for first in range(0, len(X), _SCORED)]
        return np.concatenate([np.logaddexp.reduce(part, axis=1) for part in parts]) if parts else np.empty(0)


def fit_mixture(X: Array, K: int) -> NormalMixture:
    """The mixture of K normal laws that rows (count, F) of about unit variance speak for.

    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(-4.0, 1.0, 500), rng.normal(4.0, 1.0, 500)])[:, None]
    >>> np.sort(fit_mixture(X, 2).means[:, 0]).round().tolist()
    [-4.0, 4.0]
    """
    count, F = X.shape
    K = max(1, min(K, count // (5 * (F + 1))))
    share = np.full((count, K), 1.0 / K)
    if K > 1:
        # begin apart along the direction of the greatest spread
        direction = np.linalg.eigh(np.cov(X.T).reshape(F, F))[1][:, -1]
        place = np.argsort(np.argsort(X @ direction, kind="stable"), kind="stable") * K // count
        share = 0.8 * np.eye(K)[place] + 0.2 / K
    made, last = _maximise(X, share), -np.inf
    for _ in range(_STEPS if K > 1 else 0):
        logs = _logs(made, X)
        total = np.logaddexp.reduce(logs, axis=1)
        value = float(total.mean())
        if value - last < 1e-5:
            break
        last, made = value, _maximise(X, np.exp(logs - total[:, None]))
    return made


def _maximise(X: Array, share: Array) -> NormalMixture:
    F = X.shape[1]
    size = share.sum(axis=0) + 1e-9
    means = share.T @ X / size[:, None]
    factors = np.empty((len(size), F, F))
    for k in range(len(size)):
        E = X - means[k]
        cov = (share[:, k, None] * E).T @ E / size[k]
        factors[k] = np.linalg.cholesky(cov + _VARIANCE_RIDGE * np.eye(F))
    return NormalMixture(size / size.sum(), means, factors)


def _logs(made: NormalMixture, X: Array) -> Array:
    """Log-densities (count, K) of each component, with its weight."""
    from scipy.linalg import solve_triangular

    F = X.shape[1]
    result = np.empty((len(X), len(made.weights)))
    for k, (weight, mean, L) in enumerate(zip(*made, strict=True)):
        z = solve_triangular(L, (X - mean).T, lower=True, check_finite=False)
        scale = float(np.log(np.diag(L)).sum()) + 0.5 * F * float(np.log(2.0 * np.pi))
        result[:, k] = np.log(weight) - 0.5 * np.square(z).sum(axis=0) - scale
    return result


_DIFFERENCES = (1, 4, 16, 48)
_LOCAL = 8
_ROWS = 6000  # of each value that a mixture is fitted to
_COMPONENTS = (1, 2, 3)
_SEQUENCES = 8000  # of a constant theta that are learned from
_NUMBERS = 400_000  # readings at a time


class Look(NamedTuple):
    """Which features there are: that is settled when they are learned from, however long a later sequence is."""

    lags: tuple[int, ...]
    variance: bool

    @classmethod
    def at(cls, T: int) -> Look:
        """What can be looked at in sequences of T readings."""
        return cls(tuple(lag for lag in _DIFFERENCES if lag < T and (lag == 1 or 2 * lag < T)), T > 2)


class Hidden(Frozen):
    """A hidden Markov smoother on levels, differences and local variances.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> known = Knowledge(family, (0, 1), np.eye(2), family.prior, None, None, None, None, raw=True)
    >>> rng = np.random.default_rng(1)
    >>> theta = np.repeat(np.arange(40) % 2, 100).reshape(1000, 4)
    >>> cases = Cases(rng.normal(2.0 * theta)[:, None], theta, np.arange(40).repeat(100).reshape(1000, 4), 2, False)
    >>> attack = Hidden().learn(cases, known, rng)
    >>> bool((attack.logits(cases).argmax(axis=0) == theta).mean() > 0.97)
    True
    """

    __slots__ = ()

    name = "hidden Markov smoother"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There is none: labelled outputs are all it needs."""
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Mixtures with several numbers of components, of which held-out blocks choose one."""
        cases = cases.sequences(slice(0, _SEQUENCES)) if cases.once else cases
        look = Look.at(cases.T)
        X = local_features(cases.outputs, look)  # (F, T, N)
        seeds = rng.integers(2**62, size=len(_COMPONENTS))
        candidates = [
            partial(_fit_mixtures, cases, look, X, K, seed) for K, seed in zip(_COMPONENTS, seeds.tolist(), strict=True)
        ]
        rule = AlongChain(prior_of(cases), None if cases.once else chain_of(cases, known))
        return fit_reader(candidates, cases, rng, _LOCAL, [rule])


def _fit_mixtures(cases: Cases, look: Look, X: Array, K: int, seed: int, where: Mask) -> MixtureReader:
    """A mixture of K normal laws for each value, learned where `where` says."""
    rng = np.random.default_rng(seed)
    judged = np.broadcast_to(where, cases.labels.shape) if cases.once else where
    there = judged & (cases.labels >= 0) & ~np.isnan(X[0])
    centre, scale = _standard(X[:, there])
    reader = MixtureReader(look, centre, scale, ())
    rows, y = reader.standardise(X, there), cases.labels[there]
    return replace(reader, mixtures=tuple(_fit_mixture(rows[y == i], K, rng) for i in range(cases.m)))


def _fit_mixture(rows: Array, K: int, rng: np.random.Generator) -> NormalMixture | None:
    if len(rows) < 2 or rows.shape[1] == 0:
        return None
    if len(rows) > _ROWS:
        rows = rows[rng.choice(len(rows), _ROWS, replace=False)]
    return fit_mixture(rows, K)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixtureReader:
    """How features are standardised, and a mixture for each value; None for a value that was never seen."""

    look: Look
    centre: Array
    scale: Array
    mixtures: tuple[NormalMixture | None, ...]

    def evidence(self, cases: Cases) -> Array:
        """Log-densities (m, T, N) of the features of each reading, add_up where theta is constant; 0 if missing."""
        size = max(1, _NUMBERS // cases.T)
        parts = [self._evidence(cases.outputs[:, :, first : first + size]) for first in range(0, cases.N, size)]
        logs = np.concatenate(parts, axis=2)
        return np.asarray(logs.sum(axis=1)) if cases.once else logs

    def _evidence(self, Y: Array) -> Array:
        X = local_features(Y, self.look)
        there = np.asarray(~np.isnan(X[0]))
        rows = self.standardise(X, there)
        logs = np.zeros((len(self.mixtures), *there.shape))
        if rows.size:
            logs[:, there] = [np.full(len(rows), -1e6) if mix is None else mix.logs(rows) for mix in self.mixtures]
            # a reading that is strange under every value is no evidence for the widest law
            logs[:, there] = np.maximum(logs[:, there], logs[:, there].max(axis=0) - 20.0)
        return logs

    def standardise(self, X: Array, there: Mask) -> Array:
        """Rows of features that vary, in units of their spread."""
        scaled = (X[:, there] - self.centre[:, None]) / self.scale[:, None]
        return np.asarray(scaled[np.isfinite(self.scale)].T.clip(-12.0, 12.0))


def local_features(Y: Array, look: Look | None = None) -> Array:
    """What is looked at, (F, T, N), in outputs (T, d, N); NaN where a reading is missing.

    >>> local_features(np.zeros((50, 2, 3))).shape
    (10, 50, 3)
    """
    T, d, N = Y.shape
    look = look or Look.at(T)
    missing = np.isnan(Y).any(axis=1)
    filled = _fill(Y)
    k = np.arange(T)
    columns = [filled[:, c] for c in range(d)]
    for lag in look.lags:
        ahead, behind = filled[np.minimum(k + lag, T - 1)], filled[np.maximum(k - lag, 0)]
        columns += [(ahead - behind)[:, c] for c in range(d)]
    if look.variance and T <= 2:
        columns += [np.zeros((T, N))] * d
    elif look.variance:
        # what neighbours do not explain, squared and averaged over a window; steps of a grid leave it above zero
        e = filled[2:] - 2.0 * filled[1:-1] + filled[:-2]
        e = np.concatenate([e[:1], e, e[-1:]])
        total = np.concatenate([np.zeros((1, d, N)), np.cumsum(np.square(e), axis=0)])
        low, high = np.maximum(k - _LOCAL, 0), np.minimum(k + _LOCAL + 1, T)
        local = (total[high] - total[low]) / (high - low)[:, None, None]
        floor = 1e-3 * np.mean(np.square(e), axis=(0, 2))[:, None] + 1e-300
        columns += [np.log(local + floor)[:, c] for c in range(d)]
    X = np.stack(columns)
    X[:, missing] = np.nan
    return X


def _fill(Y: Array) -> Array:
    """Missing readings replaced by the last one before, or the first after; by 0 where there is none."""
    T = len(Y)
    there = ~np.isnan(Y)
    if there.all():
        return Y
    index = np.where(there, np.arange(T)[:, None, None], -1)
    last = np.maximum.accumulate(index, axis=0)
    first = np.where(there.any(axis=0), there.argmax(axis=0), 0)
    found = np.take_along_axis(Y, np.where(last >= 0, last, first[None]), axis=0)
    return np.asarray(np.where(np.isnan(found), 0.0, found))


def _standard(X: Array) -> tuple[Array, Array]:
    """Centre and scale of features (F, count) by quantiles, which outliers leave alone; infinite where constant."""
    if X.shape[1] == 0:
        return np.zeros(len(X)), np.full(len(X), np.inf)
    low, centre, high = np.quantile(X, (0.1, 0.5, 0.9), axis=1)
    spread = np.where(high > low, (high - low) / 2.56, X.std(axis=1))
    return centre, np.where(spread > 1e-9 * (1.0 + np.abs(centre)), spread, np.inf)
