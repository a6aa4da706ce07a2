"""Intervals: of shares of independent trials, and of ratios that are made of stretches of time.

Independent trials have the interval of Clopper and Pearson. Readings in a row are no independent trials: an adversary
who is wrong at noon is wrong a minute later. There the unit is the stretch (`Cases.blocks`), and a figure is a mean of
ratios, theta = mean over c of (sum of S_bc) / (sum of n_bc), over stretches b and values c. Its interval is the wider,
at each end, of two: the bootstrap over stretches with Efron's correction for bias and skewness (BCa), and that of
Student with the jackknife's error of the ratios. The first knows of skewness, the second that there are few stretches.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.audited import Figure
from understudy.laws.base import Array

RESAMPLES = 2000
"""How many times stretches are drawn anew."""
MANY = 150
"""From so many stretches on the bootstrap says what Student does, and is left out."""
FEW = 8
"""Fewer stretches than this do not tell how much a figure varies; then it is said, and the interval is wider."""


def clopper_pearson(hits: int, trials: int, confidence: float) -> Figure:
    """The share of hits among independent trials, with its exact interval.

    >>> print(clopper_pearson(8, 10, 0.95))
    0.800 [0.444, 0.975]
    >>> clopper_pearson(0, 0, 0.95)
    Figure(value=nan, low=0.0, high=1.0)
    """
    from scipy.special import betaincinv

    if trials == 0:
        return Figure(math.nan, 0.0, 1.0)
    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1.0, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1.0, trials - hits, 1.0 - tail))
    return Figure(hits / trials, low, high)


def balanced_trials(hits: NDArray[np.int64], trials: NDArray[np.int64], confidence: float) -> Figure:
    """Balanced accuracy of independent trials: hits and trials of each value, of those that have some.

    Each value has the interval of Clopper and Pearson at 1 - (1 - confidence) / m, and these are averaged.

    >>> print(balanced_trials(np.array([90, 30]), np.array([100, 100]), 0.95))
    0.600 [0.507, 0.685]
    """
    seen = np.flatnonzero(trials)
    if not seen.size:
        return Figure(math.nan, 0.0, 1.0)
    each = 1.0 - (1.0 - confidence) / seen.size
    parts = np.array([clopper_pearson(int(hits[c]), int(trials[c]), each) for c in seen])
    return Figure(*(float(x) for x in parts.mean(axis=0)))


class Sums(NamedTuple):
    """What stretches add up to: `top` (blocks, k) over `bottom` (blocks, k), the mean of k ratios."""

    top: Array
    bottom: Array

    @property
    def value(self) -> float:
        """The mean of the ratios, of those that have something below the line."""
        total = self.bottom.sum(axis=0)
        seen = total > 0.0
        return float((self.top.sum(axis=0)[seen] / total[seen]).mean()) if seen.any() else math.nan


def of_blocks(sums: Sums, confidence: float, limits: tuple[float, float]) -> Figure:
    """The figure with its interval over stretches of time, which stays within the limits.

    A ratio that fewer than three stretches tell of may be anything within the limits: nobody knows how it varies.

    >>> b = np.random.default_rng(1).binomial(50, 0.8, 30)[:, None] * 1.0
    >>> print(of_blocks(Sums(b, np.full((30, 1), 50.0)), 0.95, (0.0, 1.0)))
    0.794 [0.771, 0.816]
    """
    used = sums.bottom.sum(axis=1) > 0.0
    top, bottom = sums.top[used], sums.bottom[used]
    value = Sums(top, bottom).value
    if math.isnan(value):
        return Figure(math.nan, *limits)
    present = bottom.sum(axis=0) > 0.0
    known = (bottom > 0.0).sum(axis=0) >= 3
    if not known.any():
        return Figure(value, *limits)
    part = Sums(top[:, known], bottom[:, known])
    low, high = _interval(part, confidence, limits)
    share = float(known.sum()) / float(present.sum())
    return Figure(value, share * low + (1.0 - share) * limits[0], share * high + (1.0 - share) * limits[1])


def _interval(sums: Sums, confidence: float, limits: tuple[float, float]) -> tuple[float, float]:
    value, B = sums.value, len(sums.top)
    influence = _influence(sums)
    error = math.sqrt(squares(influence) * B / max(B - 1, 1))
    low, high = _student(value, error, B, confidence)
    if error <= 1e-12 * (limits[1] - limits[0]):  # all alike: as if each stretch were one trial
        low, high = _alike(value, B, confidence, limits)
    elif B <= MANY:
        least, most = _bca(sums, value, influence, confidence)
        low, high = min(low, least), max(high, most)
    return max(low, limits[0]), min(high, limits[1])


def _influence(sums: Sums) -> Array:
    """How much each stretch moves the mean of the ratios: what would be missing without it (the jackknife).

    The first order alone, (S_b - r n_b) / n, is too small where a few stretches have most of a value.
    """
    B = len(sums.top)
    left = ((sums.top.sum(axis=0) - sums.top) / (sums.bottom.sum(axis=0) - sums.bottom)).mean(axis=1)
    return np.asarray((left.mean() - left) * (B - 1) / B)


def squares(x: Array) -> float:
    """The variance of the sum of stretches in their order, each of mean zero: never less than the sum of squares.

    Stretches in a row may still know each other. Covariances of a few neighbours are added with Bartlett's weights.

    >>> squares(np.array([1.0, -1.0, 1.0, -1.0])), squares(np.repeat([1.0, -1.0], 8))
    (4.0, 49.0)
    """
    B = x.size
    whole = plain = float(np.square(x).sum())
    lags = round(B ** (1.0 / 3.0)) if B >= FEW else 0
    for lag in range(1, lags + 1):
        whole += 2.0 * (1.0 - lag / (lags + 1.0)) * float(x[lag:] @ x[:-lag])
    return max(whole, plain)


def _student(value: float, error: float, blocks: int, confidence: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    wide = float(stdtrit(max(blocks - 1, 1), 0.5 + 0.5 * confidence)) * error
    return value - wide, value + wide


def _alike(value: float, blocks: int, confidence: float, limits: tuple[float, float]) -> tuple[float, float]:
    """Where stretches do not differ at all, each counts as one trial."""
    tail = (0.5 * (1.0 - confidence)) ** (1.0 / blocks)  # the low end of Clopper and Pearson for nothing but hits
    span = (1.0 - tail) * (limits[1] - limits[0])
    return value - span, value + span


@lru_cache(maxsize=8)
def _draws(B: int) -> Array:
    """How often each of B stretches is drawn, (RESAMPLES, B): always the same, so that a figure is too."""
    return np.random.default_rng(B).multinomial(B, np.full(B, 1.0 / B), RESAMPLES).astype(np.float64)


def _bca(sums: Sums, value: float, influence: Array, confidence: float) -> tuple[float, float]:
    """Efron's interval: percentiles of the bootstrap, moved for bias (z0) and skewness (a)."""
    from scipy.special import ndtr, ndtri

    B = len(sums.top)
    draws = _draws(B)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = ((draws @ sums.top) / (draws @ sums.bottom)).mean(axis=1)
    found = np.sort(found[np.isfinite(found)])  # draws in which a value does not occur tell nothing about it
    if found.size < RESAMPLES // 4:
        return value, value
    below = (np.searchsorted(found, value, "left") + np.searchsorted(found, value, "right")) / (2.0 * found.size)
    z0 = float(ndtri(min(max(below, 0.5 / found.size), 1.0 - 0.5 / found.size)))
    cubes, squares = float((influence**3).sum()), float(np.square(influence).sum())
    a = cubes / (6.0 * squares**1.5) if squares > 0.0 else 0.0
    ends = []
    for z in (float(ndtri(0.5 * (1.0 - confidence))), float(ndtri(0.5 * (1.0 + confidence)))):
        at = float(ndtr(z0 + (z0 + z) / (1.0 - a * (z0 + z)))) if a * (z0 + z) < 1.0 else float(z > 0.0)
        ends.append(float(np.quantile(found, min(max(at, 0.0), 1.0))))
    return ends[0], ends[1]
