"""What a learner looks at: a table of features, one row for each guess.

Where theta moves there is a row for each reading. Its features come from windows around it and before it, of several
lengths: levels, differences, means, variances, slopes, extremes, and what differences of two channels have in common.
Where theta is constant there is a row for each sequence (`sequence_features`). The clock is among the features if the
cases have one.

What the features need to know beforehand, lengths of windows and scales, is settled once on the cases that are learned
from (`recipe_for`), and used again on those that are judged.

Moving windows over time: sums, means, variances, slopes and extremes of readings with gaps.

Time is the first axis. A window of a reading k reaches from k - back to k + ahead; what lies before the first reading
or after the last is left out, and so is what is missing (NaN). A window that holds nothing gives NaN.

Features of whole sequences, for a theta that is constant in each: one row for each sequence.

The readings themselves where they are few, means of stretches, quantiles, variances and autocorrelations of readings
and of their differences, the share of time between levels, bands of the spectrum, the first and the last reading, and
for pairs of channels what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.adversaries.knowledge import Cases

# Moving windows over time: sums, means, variances, slopes and extremes of readings with gaps ---------


class Window(NamedTuple):
    """The readings k - back .. k + ahead."""

    back: int
    ahead: int


class Running(NamedTuple):
    """Sums and counts of what is there, up to each reading."""

    sums: Array
    counts: Array


def centred(length: int) -> Window:
    """As many readings before as after; an even length is made odd."""
    return Window(length // 2, length // 2)


def trailing(length: int) -> Window:
    """The reading and those before it."""
    return Window(length - 1, 0)


def leading(length: int) -> Window:
    """The reading and those after it."""
    return Window(0, length - 1)


def shifted(x: Array, lag: int) -> Array:
    """The value `lag` readings before (after, if negative); NaN where there is none.

    >>> shifted(np.array([1.0, 2.0, 3.0]), 1)
    array([nan,  1.,  2.])
    """
    out = np.full_like(x, np.nan)
    T = len(x)
    if lag >= 0:
        out[lag:] = x[: max(T - lag, 0)]
    else:
        out[: max(T + lag, 0)] = x[-lag:]
    return out


def running(x: Array) -> Running:
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

    >>> mean(running(np.array([1.0, np.nan, 5.0, 6.0])), trailing(2))
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

    def summed(values: Array, weights: Array) -> Array:
        return np.asarray(correlate1d(values, weights, axis=0, mode="constant", cval=0.0))

    one = np.ones_like(place)
    n, p, pp = (summed(there, weights) for weights in (one, place, place * place))
    y, py = summed(filled, one), summed(filled, place)
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
    found = _Columns()
    T, d, N = cases.outputs.shape
    changes = []
    for c in range(d):
        x = cases.outputs[:, c] - recipe.centre[c]
        change = x - shifted(x, 1)
        changes.append(change)
        _levels(found, f"y{c}", x, recipe, c)
        _spreads(found, f"y{c}", change, recipe, c)
    for i, j in recipe.pairs:
        _together(found, f"y{i} y{j}", changes[i], changes[j], recipe.step[[i, j]], recipe.windows)
    if recipe.gaps:
        there = running(np.where(np.isnan(cases.outputs).all(axis=1), np.nan, 1.0))
        for w in recipe.windows:
            found.add(f"readings there, {w}", count(there, centred(w)))
    if recipe.clock:
        clock_columns(found.add, cases.hours, cases.days if recipe.weekdays else None, recipe.weekdays, (T, N))
    return found.table(T * N)


def clock_columns(
    add: Callable[[str, Array], None],
    hours: Array | None,
    days: NDArray[np.int64] | None,
    weekdays: bool,
    shape: tuple[int, ...],
) -> None:
    """Sine and cosine of the hour, the hour, and whether it is a weekend."""
    hour = np.full(shape, np.nan) if hours is None else np.asarray(hours, dtype=float)
    turn = 2.0 * np.pi * hour / 24.0
    add("clock sine", np.sin(turn))
    add("clock cosine", np.cos(turn))
    add("clock hour", hour)
    if weekdays:
        day = np.full(shape, -1.0) if days is None else np.asarray(days, dtype=float)
        add("clock weekend", np.where(day < 0.0, np.nan, (day >= 5.0).astype(float)))


def _levels(found: _Columns, name: str, x: Array, recipe: Recipe, c: int) -> None:
    """Level, differences, means, slopes, spread of the level, extremes."""
    found.add(f"{name} level", x)
    for lag in dict.fromkeys((1, *(max(w // 2, 1) for w in recipe.windows))):
        found.add(f"{name} difference, {lag} back", x - shifted(x, lag))
        found.add(f"{name} difference, {lag} ahead", shifted(x, -lag) - x)
    run, squares = running(x), running(x * x)
    floor = _TINY * recipe.spread[c]
    for w in recipe.windows:
        found.add(f"{name} mean around, {w}", mean(run, centred(w)))
        found.add(f"{name} mean before, {w}", mean(run, trailing(w)))
        if w < 3:
            continue
        found.add(f"{name} slope, {w}", slope(x, w))
        found.add(f"{name} log variance, {w}", np.log(variance(run, squares, centred(w)) + floor))
        low, high = extremes(x, w)
        found.add(f"{name} above the least, {w}", x - low)
        found.add(f"{name} below the greatest, {w}", high - x)


def _spreads(found: _Columns, name: str, change: Array, recipe: Recipe, c: int) -> None:
    """How much the readings change from one to the next."""
    run, squares = running(change), running(change * change)
    still = running(np.where(np.isnan(change), np.nan, (change == 0.0).astype(float)))
    floor = _TINY * recipe.step[c]
    for w in recipe.windows:
        if w < 3:
            continue
        around = variance(run, squares, centred(w))
        found.add(f"{name} deviation of differences around, {w}", np.sqrt(around))
        found.add(f"{name} log variance of differences around, {w}", np.log(around + floor))
        before = variance(run, squares, trailing(w))
        found.add(f"{name} log variance of differences before, {w}", np.log(before + floor))
        found.add(f"{name} share unchanged, {w}", mean(still, centred(w)))


def _together(found: _Columns, name: str, a: Array, b: Array, step: Array, windows: tuple[int, ...]) -> None:
    """Mean product and correlation of the differences of two channels."""
    gone = np.isnan(a) | np.isnan(b)
    a, b = np.where(gone, np.nan, a) / np.sqrt(step[0]), np.where(gone, np.nan, b) / np.sqrt(step[1])
    product, aa, bb = running(a * b), running(a * a), running(b * b)
    found.add(f"{name} product of differences", a * b)
    for w in windows:
        if w < 3:
            continue
        found.add(f"{name} mean product of differences, {w}", mean(product, centred(w)))
        found.add(f"{name} correlation of differences, {w}", correlation(product, aa, bb, centred(w)))


def correlation(product: Running, aa: Running, bb: Running, window: Window) -> Array:
    """Correlation about zero of two series in units of their typical changes, drawn to zero where both are still."""
    scale = np.sqrt((mean(aa, window) + _TINY) * (mean(bb, window) + _TINY))
    return ratio(mean(product, window), np.where(np.isnan(scale), 0.0, scale))


class _Columns:
    """Columns as they come."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.columns: list[Array] = []

    def add(self, name: str, column: Array) -> None:
        self.names.append(name)
        self.columns.append(column)

    def table(self, rows: int) -> Features:
        values = np.empty((rows, len(self.columns)), order="F")
        for f, column in enumerate(self.columns):
            values[:, f] = column.ravel()
        return Features(values, tuple(self.names))


def _positive(value: float) -> float:
    return float(value) if value > 1e-24 else 1e-12


# Features of whole sequences, for a theta that is constant in each: one row for each sequence --------


_READINGS = 64  # up to so many are features themselves
_STRETCHES, _QUARTERS, _BANDS = 8, 4, 6
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LAGS = (1, 2, 3, 5)
_TINY_sequence_features = 1e-6  # of a typical variance
_AT_ONCE = 4_000_000  # readings


def sequence_features(cases: Cases, recipe: Recipe) -> Features:
    """The table of features, one row for each sequence."""
    Y = cases.outputs[: recipe.length]
    if len(Y) < recipe.length:
        Y = np.concatenate([Y, np.full((recipe.length - len(Y), *Y.shape[1:]), np.nan)])
    T, d, N = Y.shape
    step = max(1, _AT_ONCE // max(T * d, 1))
    parts, names = [], []
    for start in range(0, N, step):
        found: dict[str, Array] = {}
        _add(found, Y[:, :, start : start + step], recipe)
        if recipe.clock:
            some = slice(start, start + step)
            hours = None if cases.hours is None else cases.hours[0, some]
            days = None if cases.days is None or not recipe.weekdays else cases.days[0, some]
            clock_columns(found.__setitem__, hours, days, recipe.weekdays, (min(step, N - start),))
        names = list(found)
        parts.append(np.stack(list(found.values()), axis=1))
    return Features(np.concatenate(parts), tuple(names))


def _add(found: dict[str, Array], Y: Array, recipe: Recipe) -> None:
    T, d, _ = Y.shape
    changes = []
    for c in range(d):
        x = Y[:, c] - recipe.centre[c]
        change = np.diff(x, axis=0)
        changes.append(change)
        name = f"y{c}"
        if T * d <= _READINGS:
            found |= {f"{name} reading {k}": x[k] for k in range(T)}
        for k, part in enumerate(np.array_split(x, min(_STRETCHES, T))):
            found[f"{name} mean {k}"] = _mean(part)
        found[f"{name} first"], found[f"{name} last"] = _first(x), _first(x[::-1])
        _spread(found, name, x, recipe.spread[c])
        _spread(found, f"{name} differences", change, recipe.step[c])
        for k, part in enumerate(np.array_split(change, min(_QUARTERS, max(T - 1, 1)))):
            found[f"{name} differences log variance {k}"] = np.log(
                _variance(part) + _TINY_sequence_features * recipe.step[c]
            )
        cells = np.searchsorted(recipe.edges[c] - recipe.centre[c], x)
        there = ~np.isnan(x)
        for b in range(len(recipe.edges[c]) + 1):
            found[f"{name} share of time {b}"] = ratio(((cells == b) & there).sum(axis=0), there.sum(axis=0))
        _spectrum(found, name, change, recipe.step[c])
        if recipe.gaps:
            found[f"{name} readings there"] = there.sum(axis=0).astype(float)
    for i, j in recipe.pairs:
        a, b = Y[:, i] - recipe.centre[i], Y[:, j] - recipe.centre[j]
        found[f"y{i} y{j} correlation"] = _correlation(a, b)
        a, b = changes[i], changes[j]
        found[f"y{i} y{j} correlation of differences"] = _correlation(a, b)
        found[f"y{i} y{j} correlation of differences, one later"] = _correlation(a[:-1], b[1:])
        found[f"y{i} y{j} correlation of differences, one earlier"] = _correlation(a[1:], b[:-1])
        scale = np.sqrt(recipe.step[i] * recipe.step[j])
        found[f"y{i} y{j} mean product of differences"] = _mean(a * b) / scale


def _spread(found: dict[str, Array], name: str, x: Array, typical: float) -> None:
    """Quantiles, variance and autocorrelations."""
    for q, value in zip(_QUANTILES, _quantiles(x), strict=True):
        found[f"{name} quantile {q:g}"] = value
    found[f"{name} log variance"] = np.log(_variance(x) + _TINY_sequence_features * typical)
    found[f"{name} log mean square"] = np.log(_mean(x * x) + _TINY_sequence_features * typical)
    for lag in _LAGS:
        found[f"{name} autocorrelation {lag}"] = _correlation(x[lag:], x[:-lag])


def _spectrum(found: dict[str, Array], name: str, change: Array, typical: float) -> None:
    """Logarithms of the power of the differences in bands of frequency."""
    K = len(change)
    if K < 4:
        return
    power = np.abs(np.fft.rfft(np.where(np.isnan(change), 0.0, change), axis=0)) ** 2 / K
    ends = np.unique(np.rint(np.geomspace(1, len(power), min(_BANDS, len(power) - 1) + 1)).astype(int))
    for k, (low, high) in enumerate(pairwise(ends.tolist())):
        found[f"{name} band {k}"] = np.log(power[low:high].mean(axis=0) + _TINY_sequence_features * typical)


def _quantiles(x: Array) -> list[Array]:
    """Quantiles of what is there, interpolated as numpy does it; NaN where nothing is."""
    ordered = np.sort(x, axis=0)  # missing readings come last
    if not len(x):
        return [np.full(x.shape[1], np.nan) for _ in _QUANTILES]
    last = (~np.isnan(x)).sum(axis=0) - 1.0
    columns = np.arange(x.shape[1])
    found = []
    for q in _QUANTILES:
        place = np.maximum(q * last, 0.0)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, np.maximum(last, 0.0)).astype(int)
        a, b = ordered[low, columns], ordered[high, columns]
        found.append(np.asarray(a + (place - low) * (b - a)))
    return found


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
