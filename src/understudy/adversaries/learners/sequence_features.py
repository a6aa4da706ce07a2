"""Features of whole sequences, for a theta that is constant in each: one row for each sequence.

The readings themselves where they are few, means of stretches, quantiles, variances and autocorrelations of readings
and of their differences, the share of time between levels, bands of the spectrum, the first and the last reading, and
for pairs of channels what they have in common.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.learners.features import Features, Recipe, clock_columns
from understudy.adversaries.learners.rolling import ratio
from understudy.laws.base import Array

_READINGS = 64  # up to so many are features themselves
_STRETCHES, _QUARTERS, _BANDS = 8, 4, 6
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LAGS = (1, 2, 3, 5)
_TINY = 1e-6  # of a typical variance
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
            found[f"{name} differences log variance {k}"] = np.log(_variance(part) + _TINY * recipe.step[c])
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
    found[f"{name} log variance"] = np.log(_variance(x) + _TINY * typical)
    found[f"{name} log mean square"] = np.log(_mean(x * x) + _TINY * typical)
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
        found[f"{name} band {k}"] = np.log(power[low:high].mean(axis=0) + _TINY * typical)


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
