"""Mixtures of normal laws, another one for each reading.

What a hidden finite state predicts, and what one channel of a Gaussian mixture is given the others. The
weights, means and scales (standard deviations) have the component on their last axis: (K,) for all
readings alike or (N, K) for one mixture each. They are taken as checked: weights sum to 1 and scales are
positive. With ``log_weights=True`` the weights are given as logarithms, which matters where an outlier
brings back a component whose weight had underflowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.laws.blend import Parts, added, assess, blended_score, blockwise, columns, log_sum
from understudy.laws.inverse import Index, Look, invert
from understudy.laws.table import Table

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALL = 1e-5  # Halley's error is of third order


def gaussian_mixture_score(y: Any, weights: Any, means: Any, scales: Any, *, log_weights: bool = False) -> Array:
    """Z = Phi^-1(sum_i w_i Phi((y - m_i) / s_i)) for each reading of `y`; NaN stays NaN.

    >>> gaussian_mixture_score([0.0, 5.0, 400.0], [0.5, 0.5], [-5.0, 5.0], [1.0, 1.0]).round(6).tolist()
    [0.0, 0.67449, 395.001755]
    """
    return _over(_score, y, _parameters(weights, means, scales, log_weights))


def gaussian_mixture_value(
    z: Any, weights: Any, means: Any, scales: Any, *, log_weights: bool = False, table: Table | None = None
) -> Array:
    """The readings with scores `z`: the inverse of `gaussian_mixture_score`, finite where `z` is.

    A `table` of the law, if all readings have the same, makes it several times as fast.

    >>> gaussian_mixture_value([0.0, 0.67449], [0.5, 0.5], [-5.0, 4.0], [1.0, 1.0]).round(3).tolist()
    [-0.5, 4.0]
    """
    normals = _parameters(weights, means, scales, log_weights)
    return _over(lambda z, normals: _value(z, normals, table)[0], z, normals)


def gaussian_mixture_logpdf(y: Any, weights: Any, means: Any, scales: Any, *, log_weights: bool = False) -> Array:
    """Log-density of the mixture at each reading of `y`.

    >>> float(gaussian_mixture_logpdf(0.0, [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]).round(6))
    -0.918939
    """
    return _over(_logpdf, y, _parameters(weights, means, scales, log_weights))


class Normals(NamedTuple):
    """Log-weights, means and scales of the components, (K, N) or (K, 1)."""

    log_w: Array
    mean: Array
    scale: Array

    def at(self, which: Any) -> Normals:
        """Those of some of the readings."""
        return Normals(*(columns(array, which) for array in self))


def _parameters(weights: Any, means: Any, scales: Any, log_weights: bool) -> Normals:
    w = np.asarray(weights, dtype=float)
    if not log_weights:
        with np.errstate(divide="ignore"):
            w = np.log(w)
    # in memory the component comes first, so that sums over it run along the readings
    log_w, mean, scale = (np.ascontiguousarray(_matrix(array).T) for array in (w, means, scales))
    return Normals(log_w, mean, scale)


def _matrix(parameter: Any) -> Array:
    array = np.asarray(parameter, dtype=float)
    return array[None, :] if array.ndim == 1 else array


def _over(function: Callable[[Array, Normals], Array], y: Any, normals: Normals) -> Array:
    return blockwise(lambda part, block: function(part, normals.at(block)), np.asarray(y, dtype=float))


def _score(y: Array, normals: Normals) -> Array:
    return blended_score((y - normals.mean) / normals.scale, normals.log_w)


def _logpdf(y: Array, normals: Normals) -> Array:
    z = (y - normals.mean) / normals.scale
    return log_sum(normals.log_w - 0.5 * z * z - np.log(normals.scale)) - _HALF_LOG_2PI


def _value(z: Array, normals: Normals, table: Table | None = None) -> tuple[Array, NDArray[np.int64]]:
    """The quantiles, and the number of looks that each took."""
    low, high = _bracket(z, normals)
    start = np.full(z.shape, np.nan) if table is None else table.start(z)
    unknown = np.flatnonzero(np.isnan(start))
    if unknown.size:
        start[unknown] = _start(z[unknown], normals.at(unknown))
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    pace = 1.0 / normals.scale

    def look(which: Index, y: Array) -> Look:
        log_w, mean, scale = normals.at(which)
        x = side[which] * (y - mean) / scale
        return assess(Parts(x, columns(pace, which), log_w), goal[which], side[which], _SMALL, halley=True)

    return invert(look, low, high, start)


def _bracket(z: Array, normals: Normals) -> tuple[Array, Array]:
    """The smallest and the largest quantile of the components."""
    quantile = normals.mean + normals.scale * z
    if np.isfinite(normals.log_w).all():
        return quantile.min(axis=0), quantile.max(axis=0)
    weighs = normals.log_w != -np.inf  # NaN weighs, and makes NaN
    return np.where(weighs, quantile, np.inf).min(axis=0), np.where(weighs, quantile, -np.inf).max(axis=0)


def _start(z: Array, normals: Normals) -> Array:
    """A point near the quantile.

    With q the tail beyond the quantile, w_i Q_i(y) <= q for every component: so y lies beyond each
    Q_i^-1(q / w_i), and where one component rules the tail it is the farthest of them.
    """
    from scipy.special import log_ndtr, ndtri_exp

    log_w, mean, scale = normals
    side = np.where(z < 0.0, -1.0, 1.0)
    excess = log_ndtr(-np.abs(z)) - log_w
    farthest = np.where(excess < 0.0, side * mean - scale * ndtri_exp(np.minimum(excess, 0.0)), -np.inf).max(axis=0)
    between = added(np.exp(log_w) * (mean + scale * z))
    return np.asarray(np.where(farthest > -np.inf, side * farthest, between))
