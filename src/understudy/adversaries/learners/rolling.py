"""Moving windows over time: sums, means, variances, slopes and extremes of readings with gaps.

Time is the first axis. A window of a reading k reaches from k - back to k + ahead; what lies before the first reading
or after the last is left out, and so is what is missing (NaN). A window that holds nothing gives NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array


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
