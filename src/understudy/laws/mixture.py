"""Mixtures of laws of one number: exact scores from log space, and an inverse that always ends.

A reading comes from law i with probability w_i. Its score is that of the smaller tail of the mixture,
a sum over the components (`blend`); the inverse is searched between the smallest and the largest
quantile of the components (`inverse`). Where every law is Gaussian, all components are worked on as one array.

The functions take another mixture of the same laws for each reading, which is what a hidden finite state
predicts; `Mixture` is one mixture for all of them.

Tails of a mixture from the scores of its components.

With z_i the score of a reading under component i, the tails of the mixture are

    F(y) = sum_i w_i Phi(z_i),    1 - F(y) = sum_i w_i Phi(-z_i),

and its score follows from the smaller one. Down to tails of 1e-290 (scores of 36) these sums keep all
their digits as they stand; below, their logarithms are summed. Component first: arrays are (K, N).

Quantiles of one law on a grid of scores: where to start the search for all others.

Mixtures of any laws of one number, by their scores, quantiles and densities.

A reading outside the support of one component counts 0 or 1 there: its score is infinite. `Scalar` and
`Mixture` say so by their method ``score_or_end``; of another law that refuses such a reading, those
below its median count as below the support.

Mixtures of normal laws, another one for each reading.

What a hidden finite state predicts, and what one channel of a Gaussian mixture is given the others. The
weights, means and scales (standard deviations) have the component on their last axis: (K,) for all
readings alike or (N, K) for one mixture each. They are taken as checked: weights sum to 1 and scales are
positive. With ``log_weights=True`` the weights are given as logarithms, which matters where an outlier
brings back a component whose weight had underflowed.

One reading under a mixture of normal laws, in plain floats: what a stream asks for, a reading at a time.

The same formulas as in `normal_mixture`, which works on arrays, where one call costs as much as a
thousand readings do. Both agree up to rounding. Whatever is out of the ordinary here (tails below 1e-290,
stretches where the score does not change, NaN) is answered by None and left to the arrays.

One reading under a mixture of any laws of one number, in plain floats.

As `single` is to normal laws, so is this to others: the formulas of `components` and `blend`, with None for
whatever is out of the ordinary.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from math import erfc, exp, inf, isfinite, isinf, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Frozen, Index, Plain
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws._quadrature import Look, invert
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, channels, check_inside, check_reached, is_law, shaped
from understudy.serialize import Place, construct, fields, laws_from_plain, laws_to_plain, stored_array

# Tails of a mixture from the scores of its components ------------------------------------------------


_DEEP = 1e-290  # a term that underflows is then less than a rounding unit of the sum
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_LOG_SQRT_2PI = math.log(_SQRT_2PI)
_FLAT = 1e-13  # a score that changes by less over the width of a component tells nothing about the reading
_BLOCK = 8192  # readings worked on at a time: what fits a processor's cache


def checked_weights(weights: Any, count: int, what: str = "laws") -> Array:
    """Weights of a mixture, summing to 1."""
    try:
        w = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise LawError(f"weights are of type {type(weights).__name__}; they must be a vector of numbers") from None
    if w.ndim != 1 or w.size == 0:
        raise LawError(f"weights have shape {w.shape}; they must be a vector with one weight for each law")
    if w.size != count:
        raise LawError(f"there are {w.size} weights and {count} {what}; each needs one weight")
    for i, weight in enumerate(w.tolist()):
        if not 0.0 <= weight < math.inf:
            raise LawError(f"weight {i} is {weight!r}; weights must be finite and not negative")
    total = math.fsum(w.tolist())
    if abs(total - 1.0) > 1e-9:
        raise LawError(f"the weights sum to {total!r}; they must sum to 1")
    w /= total
    w.flags.writeable = False
    return w


def blended_score(z: Array, log_w: Array) -> Array:
    """Score of a mixture; infinite where every component is, NaN where one is.

    >>> blended_score(np.array([[-1.0, 40.0], [1.0, 60.0]]), np.log([[0.5], [0.5]])).round(6).tolist()
    [0.0, 40.017314]
    """
    from scipy.special import ndtr, ndtri

    w = np.exp(log_w)
    small = ndtr(-np.abs(z))
    large = 1.0 - small
    left = z < 0.0
    below = added(w * np.where(left, small, large))
    above = added(w * np.where(left, large, small))
    out = np.asarray(ndtri(np.minimum(below, above)))
    out = np.where(above < below, -out, out)
    deep = np.minimum(below, above) < _DEEP
    if deep.any():
        at = np.flatnonzero(deep)
        out[at] = _deep_score(z.take(at, axis=1), columns(log_w, at))
    return out


def _deep_score(z: Array, log_w: Array) -> Array:
    from scipy.special import log_ndtr, ndtri_exp

    below = np.logaddexp.reduce(log_w + log_ndtr(z), axis=0)
    above = np.logaddexp.reduce(log_w + log_ndtr(-z), axis=0)
    out = np.where(above < below, -ndtri_exp(above), ndtri_exp(below))
    lost = np.isinf(out)
    if lost.any():
        # log Phi(-z) = -z^2/2 has left float64, and beside it the weights are nothing: the nearest one counts.
        nearest = np.where(log_w > -np.inf, np.abs(z), np.inf).min(axis=0)
        out[lost] = np.copysign(nearest, out)[lost]
    return np.asarray(out)


class Parts(NamedTuple):
    """The components at one point for each target.

    `x` are their scores, with the sign turned so that the target is above the middle; `pace` the rate
    dz_i/dy at which the scores change, so that the density is phi(x) times it. Outside the support of a
    component x is infinite and its pace 0.
    """

    x: Array
    pace: Array
    log_w: Array


def assess(parts: Parts, goal: Array, side: Array, small: float, halley: bool) -> Look:
    """What a mixture says about the quantile of score ``side * goal`` (side 1 or -1) at one point for each.

    Newton's method is applied to the score, which in the tails of a Gaussian is a straight line; `halley`
    corrects it by the second derivative that Gaussian components have. A move that changes the components'
    densities by less than the fraction `small` is settled.
    """
    from scipy.special import ndtr, ndtri

    x, pace, log_w = parts
    w = np.exp(log_w)
    tail = added(w * ndtr(-x))
    score = np.asarray(-ndtri(tail))
    density = w * pace * np.exp(-0.5 * x * x)
    total = added(density)
    deep = tail < _DEEP
    if deep.any():
        at = np.flatnonzero(deep)
        score[at], part = _deep_parts(x.take(at, axis=1), columns(pace, at), columns(log_w, at))
        density[:, at], total[at] = part, added(part)
        scale = np.where(deep, 1.0, np.exp(0.5 * score * score))
    else:
        scale = np.exp(0.5 * score * score)
    # dz/dy = f / phi(z)
    slope = total * scale
    change = density * pace
    turn = change * (x if halley else np.clip(x, -1e300, 1e300))
    # the rate at which the densities of the components change
    rate = added(change + np.abs(turn)) / total
    miss = score - goal
    move = -miss / slope
    if halley:
        # z'' / z' = d log f / dy + z z', with d log f / dy = - sum_i f_i x_i pace_i / f
        move /= np.clip(1.0 + 0.5 * move * (score * slope - added(turn) / total), 0.5, 2.0)
    flat = ~(slope > _FLAT * rate)
    settled = np.abs(move) * (rate + (1.0 + np.abs(score)) * slope) < small
    return Look(side * miss, side * move, settled, flat, ~(total > 0.0))


def _deep_parts(x: Array, pace: Array, log_w: Array) -> tuple[Array, Array]:
    """The score, and the components' densities over phi(score)."""
    from scipy.special import log_ndtr, ndtri_exp

    score = -ndtri_exp(np.logaddexp.reduce(log_w + log_ndtr(-x), axis=0))
    log_density = log_w + np.log(pace) - 0.5 * x * x
    return score, np.exp(log_density + 0.5 * score * score)


def log_sum(terms: Array) -> Array:
    """Logarithm of the sum over the components of the exponentials."""
    top = terms.max(axis=0)
    top = np.where(np.isinf(top), 0.0, top)
    return np.asarray(top + np.log(added(np.exp(terms - top))))


def columns(array: Array, at: Any) -> Array:
    """The columns `at` of (K, N); one column stands for all."""
    if array.shape[1] == 1:
        return array
    return array[:, at] if isinstance(at, slice) else array.take(at, axis=1)


def added(terms: Array) -> Array:
    """The sum over the components, added up in the same order for one reading and for many."""
    return np.asarray(terms.sum(axis=0) if terms.shape[1] > 1 else np.add.accumulate(terms, axis=0)[-1])


def blockwise(function: Callable[[Array, slice], Array], y: Array) -> Array:
    """``function(y[block], block)`` over the entries of `y`, in its shape."""
    flat = y.reshape(-1)
    out = np.empty(flat.shape)
    with np.errstate(all="ignore"):
        for first in range(0, flat.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            out[block] = function(flat[block], block)
    return out.reshape(y.shape)


# Quantiles of one law on a grid of scores: where to start the search for all others ------------------


_SPAN, _NODES = 5.0, 513
_STEP = 2.0 * _SPAN / (_NODES - 1)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Table:
    """Cubic interpolation of y(z) between nodes, whose slopes the density gives.

    The start of a search shows in the last digit of its end. So a law has one table for all of its values,
    however many are asked for at a time.

    >>> table = Table(lambda z: np.sinh(z), lambda y: -0.5 * np.arcsinh(y) ** 2 - 0.5 * np.log(2 * np.pi * (1 + y * y)))
    >>> bool(abs(table.start(np.array([0.123])) - np.sinh(0.123)) < 1e-9)
    True
    """

    __slots__ = ("_slope", "_y")

    def __init__(self, value: Callable[[Array], Array], logpdf: Callable[[Array], Array]) -> None:
        z = np.linspace(-_SPAN, _SPAN, _NODES)
        with np.errstate(all="ignore"):
            self._y = value(z)
            # dy/dz = phi(z) / f(y), for a step of the grid
            log_slope = -0.5 * z * z - _HALF_LOG_2PI - logpdf(self._y)
            self._slope = _STEP * np.exp(np.minimum(log_slope, 700.0))

    def start(self, z: Array) -> Array:
        """A point near the quantile of score z, NaN beyond the nodes."""
        place = (z + _SPAN) / _STEP
        inside = (place >= 0.0) & (place < _NODES - 1)
        place = np.where(inside, place, 0.0)
        node = place.astype(np.intp)
        t = place - node
        y, slope = self._y, self._slope
        low, rise = y[node], y[node + 1] - y[node]
        a, b = slope[node] - rise, rise - slope[node + 1]
        return np.where(inside, low + t * (rise + (1.0 - t) * ((1.0 - t) * a + t * b)), np.nan)


# Mixtures of any laws of one number, by their scores, quantiles and densities ------------------------


_LOG_SQRT_2PI_components = 0.5 * math.log(2.0 * math.pi)
_SMALL, _PATIENCE = 1e-8, 2  # Newton's error is of second order; twice, because a density may have a step
_FAR = 2.5  # beyond this score a good start is worth a second round of quantiles
_LAST = sys.float_info.max


def blended(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Scores of the readings (N,) under mixtures with the log-weights (K, N) or (K, 1)."""
    return blended_score(_each(_component_score, y, log_w, laws), log_w)


def heights(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Log-densities of the mixtures."""
    return log_sum(log_w + _each(_component_logpdf, y, log_w, laws))


def _each(function: Any, y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """A function of law and readings for every law, (K, N); 0 for the readings to which a law adds nothing."""
    known = ~np.isnan(y)
    out = np.zeros((len(laws), y.size))
    out[:, ~known] = np.nan
    for i, law in enumerate(laws):
        counts = known & (log_w[i] > -np.inf)
        if counts.all():
            out[i] = function(law, y)
        elif counts.any():
            out[i, counts] = function(law, y[counts])
    return out


def _component_logpdf(law: Law, y: Array) -> Array:
    return np.asarray(law.logpdf(y), dtype=float)


def _component_score(law: Law, y: Array) -> Array:
    """Scores, infinite outside the support, NaN where they cannot be computed."""
    score = getattr(law, "score_or_end", law.score)
    try:
        return np.asarray(score(y), dtype=float)
    except (ReadingError, NumericalError):
        return np.array([_one_score(law, score, reading) for reading in y.tolist()])


def _one_score(law: Law, score: Any, y: float) -> float:
    try:
        return float(score(y))
    except ReadingError:
        return -math.inf if y < law.value(0.0) else math.inf
    except NumericalError:
        return math.nan


def _component_value(law: Law, z: Array) -> Array:
    """Quantiles; the last float for one that is beyond it."""
    try:
        return np.asarray(law.value(z), dtype=float)
    except NumericalError:
        return np.array([_one_value(law, score) for score in z.tolist()])


def _one_value(law: Law, z: float) -> float:
    try:
        return float(law.value(z))
    except NumericalError:
        return math.copysign(_LAST, z)


def values(z: Array, log_w: Array, laws: Sequence[Law], table: Table | None = None) -> tuple[Array, NDArray[np.int64]]:
    """Quantiles of mixtures of any laws, and the number of looks that each took; NaN for one beyond all floats."""
    quantile = _each(_component_value, z, log_w, laws)
    weighs = log_w != -np.inf
    low = np.where(weighs, quantile, np.inf).min(axis=0)
    high = np.where(weighs, quantile, -np.inf).max(axis=0)
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    bounded = np.zeros(z.shape, dtype=bool)

    def look(which: Index, y: Array) -> Look:
        weights = columns(log_w, which)
        x = _each(_component_score, y, weights, laws)
        outside = np.isinf(x)
        bounded[which] |= outside.any(axis=0)
        # dz_i/dy = f_i / phi(z_i)
        pace = np.exp(_each(_component_logpdf, y, weights, laws) + 0.5 * x * x + _LOG_SQRT_2PI_components)
        pace[outside] = 0.0
        return assess(Parts(side[which] * x, pace, weights), goal[which], side[which], _SMALL, halley=False)

    start = np.full(z.shape, np.nan) if table is None else table.start(z)
    unknown = np.flatnonzero(np.isnan(start))
    if unknown.size:
        start[unknown] = _start(z[unknown], columns(log_w, unknown), laws, quantile.take(unknown, axis=1))
    y, looks = invert(look, low, high, start, _PATIENCE)
    y = _inside(y, log_w, laws, np.flatnonzero(bounded))
    return np.where(np.abs(y) < _LAST, y, np.nan), looks


def _start(z: Array, log_w: Array, laws: Sequence[Law], quantile: Array) -> Array:
    """A point near the quantile: see `normal_mixture`, where the same is done for normal laws."""
    from scipy.special import log_ndtr, ndtri_exp

    start = added(np.exp(log_w) * quantile)
    at = np.flatnonzero(np.abs(z) > _FAR)
    if at.size:
        weights = columns(log_w, at)
        side = np.where(z[at] < 0.0, -1.0, 1.0)
        excess = log_ndtr(-np.abs(z[at])) - weights
        goal = -side * ndtri_exp(np.minimum(excess, -1e-300))
        farthest = np.full(excess.shape, -np.inf)
        for i, law in enumerate(laws):
            counts = (excess[i] < 0.0) & (weights[i] > -np.inf)
            farthest[i, counts] = side[counts] * _component_value(law, goal[i, counts])
        best = farthest.max(axis=0)
        start[at] = np.where(np.isfinite(best), side * best, start[at])
    return start


def _inside(y: Array, log_w: Array, laws: Sequence[Law], at: Index) -> Array:
    """Answers that were rounded into a hole are moved to the float beside it."""
    out = at[heights(y[at], columns(log_w, at), laws) == -np.inf] if at.size else at
    for end in (-np.inf, np.inf):
        if not out.size:
            break
        beside = np.nextafter(y[out], end)
        good = heights(beside, columns(log_w, out), laws) > -np.inf
        y[out[good]] = beside[good]
        out = out[~good]
    return y


# Mixtures of normal laws, another one for each reading -----------------------------------------------


_SMALL_normal_mixture = 1e-5  # Halley's error is of third order


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
        start[unknown] = _start_normal_mixture(z[unknown], normals.at(unknown))
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    pace = 1.0 / normals.scale

    def look(which: Index, y: Array) -> Look:
        log_w, mean, scale = normals.at(which)
        x = side[which] * (y - mean) / scale
        return assess(
            Parts(x, columns(pace, which), log_w), goal[which], side[which], _SMALL_normal_mixture, halley=True
        )

    return invert(look, low, high, start)


def _bracket(z: Array, normals: Normals) -> tuple[Array, Array]:
    """The smallest and the largest quantile of the components."""
    quantile = normals.mean + normals.scale * z
    if np.isfinite(normals.log_w).all():
        return quantile.min(axis=0), quantile.max(axis=0)
    weighs = normals.log_w != -np.inf  # NaN weighs, and makes NaN
    return np.where(weighs, quantile, np.inf).min(axis=0), np.where(weighs, quantile, -np.inf).max(axis=0)


def _start_normal_mixture(z: Array, normals: Normals) -> Array:
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


# One reading under a mixture of normal laws, in plain floats: what a stream asks for, a reading at a  ---


_FLAT_single = 1e-12
_SMALL_single = 1e-5
_LOOKS = 30
_ROOT_HALF = sqrt(0.5)
_HALF_LOG_2PI_single = 0.5 * log(2.0 * pi)

Part = tuple[float, float, float]
"""Weight, mean and scale of a component."""


def one_score(y: float, parts: Sequence[Part]) -> float | None:
    """Z = Phi^-1(sum_i w_i Phi((y - m_i) / s_i)), or None.

    >>> round(one_score(5.0, [(0.5, -5.0, 1.0), (0.5, 5.0, 1.0)]), 6)
    0.67449
    """
    from scipy.special import ndtri

    below = above = 0.0
    for w, mean, scale in parts:
        z = (y - mean) / scale
        small = 0.5 * erfc(abs(z) * _ROOT_HALF)
        if z < 0.0:
            below += w * small
            above += w * (1.0 - small)
        else:
            below += w * (1.0 - small)
            above += w * small
    if below <= above:
        return float(ndtri(below)) if below > _DEEP else None
    return -float(ndtri(above)) if above > _DEEP else None


def one_logpdf(y: float, parts: Sequence[Part]) -> float | None:
    """Log-density, or None.

    >>> round(one_logpdf(0.0, [(0.5, 0.0, 1.0), (0.5, 0.0, 1.0)]), 6)
    -0.918939
    """
    logs = [-0.5 * ((y - mean) / scale) ** 2 for _, mean, scale in parts]
    top = max(logs)
    if not isfinite(top):
        return None
    total = sum(w / scale * exp(height - top) for (w, _, scale), height in zip(parts, logs, strict=True))
    return top + log(total) - _HALF_LOG_2PI_single if total > _DEEP else None


def one_value(z: float, parts: Sequence[Part]) -> float | None:
    """The reading with score `z`, or None: Halley's method as in `blend.assess`, inside a bracket.

    >>> round(one_value(0.67449, [(0.5, -5.0, 1.0), (0.5, 4.0, 1.0)]), 3)
    4.0
    """
    from scipy.special import ndtri

    side, goal = (-1.0, -z) if z < 0.0 else (1.0, z)
    q = 0.5 * erfc(goal * _ROOT_HALF)
    if not q > _DEEP:
        return None
    # everything below is mirrored for z < 0, so that the target is above the middle: u = side y
    quantiles = [side * mean + scale * goal for _, mean, scale in parts]
    low, high = min(quantiles), max(quantiles)
    beyond = [side * mean - scale * float(ndtri(q / w)) for w, mean, scale in parts if q < w]
    u = max(beyond) if beyond else sum(part[0] * quantile for part, quantile in zip(parts, quantiles, strict=True))
    u = min(max(u, low), high)
    for _ in range(_LOOKS):
        tail = total = bend = rate = 0.0
        for w, mean, scale in parts:
            x = (u - side * mean) / scale
            density = w * exp(-0.5 * x * x) / scale
            change = density / scale
            tail += 0.5 * w * erfc(x * _ROOT_HALF)
            total += density
            bend -= change * x
            rate += change * (1.0 + abs(x))
        if not (_DEEP < tail < 1.0 and total > 0.0):
            return None
        score = -float(ndtri(tail))
        slope = total * exp(0.5 * score * score)
        if not slope * total > _FLAT_single * rate:
            return None
        miss = score - goal
        move = -miss / slope
        move /= min(max(1.0 + 0.5 * move * (score * slope + bend / total), 0.5), 2.0)
        if miss < 0.0:
            low = u
        else:
            high = u
        if abs(move) * (rate / total + (1.0 + abs(score)) * slope) < _SMALL_single:
            return side * min(max(u + move, low), high)
        u = u + move if low < u + move < high else 0.5 * low + 0.5 * high
    return None


# One reading under a mixture of any laws of one number, in plain floats ------------------------------


_DEEP_single_any, _FLAT_single_any, _SMALL_single_any, _LOOKS_single_any = 1e-290, 1e-12, 1e-8, 30
_LOG_SQRT_2PI_single_any = 0.5 * log(2.0 * pi)

Share = tuple[float, Any]
"""Weight and law of a component."""


def one_score_of(y: float, shares: Sequence[Share]) -> float | None:
    """The score of one reading, or None.

    >>> from understudy.laws.gaussian import Gaussian
    >>> round(one_score_of(5.0, [(0.5, Gaussian(-5.0, 1.0)), (0.5, Gaussian(5.0, 1.0))]), 6)
    0.67449
    """
    from scipy.special import ndtri

    below = above = 0.0
    try:
        for w, law in shares:
            z = _score_single_any(law, y)
            below += 0.5 * w * erfc(-z * _ROOT_HALF)
            above += 0.5 * w * erfc(z * _ROOT_HALF)
    except (NumericalError, ReadingError):
        return None
    if below <= above:
        return float(ndtri(below)) if below > _DEEP_single_any else None
    return -float(ndtri(above)) if above > _DEEP_single_any else None


def one_value_of(z: float, shares: Sequence[Share]) -> float | None:
    """The reading with score `z`, or None: Newton's method inside a bracket, until two moves in a row are small.

    >>> from understudy.laws.gaussian import Gaussian
    >>> round(one_value_of(0.67449, [(0.5, Gaussian(-5.0, 1.0)), (0.5, Gaussian(4.0, 1.0))]), 3)
    4.0
    """
    if not abs(z) < _FAR:
        return None
    try:
        quantiles = [float(law.value(z)) for _, law in shares]
        y = sum(w * quantile for (w, _), quantile in zip(shares, quantiles, strict=True))
        return _search(z, shares, y, (min(quantiles), max(quantiles)))
    except (NumericalError, ReadingError):
        return None


def _search(z: float, shares: Sequence[Share], y: float, bracket: tuple[float, float]) -> float | None:
    from scipy.special import ndtri

    low, high = bracket
    side, calm, bounded = (-1.0 if z < 0.0 else 1.0), 0, False
    if not low < high:
        return low if isfinite(low) else None
    y = min(max(y, low), high)
    for _ in range(_LOOKS_single_any):
        tail = total = rate = 0.0
        for w, law in shares:
            x = side * _score_single_any(law, y)
            tail += 0.5 * w * erfc(x * _ROOT_HALF)
            if isinf(x):
                bounded = True
                continue
            height = float(law.logpdf(y))
            density = w * exp(height)
            total += density
            # dz_i/dy = f_i / phi(z_i)
            rate += density * exp(height + 0.5 * x * x + _LOG_SQRT_2PI_single_any) * (1.0 + abs(x))
        if not _DEEP_single_any < tail < 1.0:
            return None
        score = -float(ndtri(tail))
        slope = total * exp(0.5 * score * score + _LOG_SQRT_2PI_single_any)
        flat = not slope * total > _FLAT_single_any * rate
        miss = side * score - z
        if flat and miss == 0.0:
            return None
        if miss < 0.0:
            low = y
        else:
            high = y
        move = inf if flat else -miss / slope
        small = not flat and abs(move) * (rate / total + (1.0 + abs(score)) * slope) < _SMALL_single_any
        calm = calm + 1 if small else 0
        if calm == 2 or y + move == y:
            y = min(max(y + move, low), high)
            return y if not bounded or _possible(y, shares) else None
        y = y + move if low < y + move < high else 0.5 * low + 0.5 * high
    return None


def _score_single_any(law: Any, y: float) -> float:
    return float(getattr(law, "score_or_end", law.score)(y))


def _possible(y: float, shares: Sequence[Share]) -> bool:
    return any(float(law.logpdf(y)) > -inf for _, law in shares)


# Mixtures of laws of one number: exact scores from log space, and an inverse that always ends --------


class Mixture(Frozen):
    """A reading from one of several laws of one number, with the given probabilities.

    The laws may be any of dimension 1: `Gaussian`, `Scalar`, another `Mixture`, one of your own.

    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Mixture([0.9, 0.1], [Gaussian(20.0, 1.0), Scalar(scipy.stats.t(3, loc=20.0, scale=5.0))])
    >>> law
    Mixture(2 laws, dim=1)
    >>> law.score(20.0)
    0.0
    >>> round(law.score(law.value(30.0)), 9)
    30.0

    Where supports leave a hole the score is constant, and the inverse is an end of the hole.

    >>> hole = Mixture([0.5, 0.5], [Scalar(scipy.stats.uniform(0, 1)), Scalar(scipy.stats.uniform(2, 1))])
    >>> hole.score([1.2, 1.8]).tolist(), round(hole.value(0.0), 9)
    ([0.0, 0.0], 1.0)
    """

    __slots__ = ("_flat", "_given", "_laws", "_log_w", "_parts", "_shares", "_table", "_weights", "dim")

    dim: int
    _laws: tuple[Law, ...]
    _weights: Array
    _given: tuple[float, ...]
    _log_w: Array
    _flat: tuple[Law, ...]
    _parts: tuple[Part, ...]
    _shares: tuple[Share, ...]
    _table: Table

    def __init__(self, weights: Any, laws: Sequence[Law]) -> None:
        put = object.__setattr__  # a hidden state makes one for every reading; the guard of `Frozen` would cost a third
        put(self, "dim", 1)
        put(self, "_laws", _checked_laws(laws))
        put(self, "_weights", checked_weights(weights, len(self._laws)))
        put(self, "_given", tuple(float(weight) for weight in weights))
        parts = [part for part in _flattened(self._weights, self._laws) if part[0] > -math.inf]
        put(self, "_log_w", np.array([log_w for log_w, _ in parts]))
        put(self, "_flat", tuple([law for _, law in parts]))
        normals = _normals(self._flat)
        put(self, "_parts", _plain(self._log_w, normals) if normals else ())
        put(self, "_shares", () if normals else tuple(zip(np.exp(self._log_w).tolist(), self._flat, strict=True)))

    @property
    def weights(self) -> Array:
        """The probabilities of the laws, summing to 1."""
        return self._weights

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws."""
        return self._laws

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixture, (self._given, self._laws)

    def to_dict(self, place: Place) -> Plain:
        """Weights as they were given, before they are divided by their sum, and laws; see `understudy.serialize`."""
        return {"weights": list(self._given), "laws": laws_to_plain(self._laws, place / "laws")}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Mixture:
        """The law again."""
        given = fields(place, plain, "weights", "laws")
        weights = stored_array(place / "weights", given["weights"], 1)
        return construct(place, cls, weights, laws_from_plain(given["laws"], place / "laws"))

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Mixture({len(self._laws)} laws, dim=1)"

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = Phi^-1(sum_i w_i F_i(y)), element by element; NaN stays NaN."""
        if isinstance(y, float):
            z = one_score(float(y), self._parts) if self._parts else one_score_of(float(y), self._shares)
            if z is not None:
                return z
        readings = channels(y, 1, "reading")[0]
        return shaped(_checked_scores(readings, self._log_w[:, None], self._flat, np.shape(y)), np.shape(y))

    def score_or_end(self, y: Any) -> Any:
        """The score, or -inf below all supports and inf above, where `score` refuses."""
        z = _scores(channels(y, 1, "reading")[0], self._log_w[:, None], self._flat)
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with this score: the inverse of `score`, at an end of the hole if it meets one."""
        if isinstance(z, float):
            y = one_value(float(z), self._parts) if self._parts else one_value_of(float(z), self._shares)
            if y is not None:
                return y
        log_w, laws = self._log_w, self._flat
        if np.ndim(z) == 0:
            return shaped(mixture_value(z, log_w, laws, log_weights=True), ())
        if not hasattr(self, "_table"):
            # past the guard of a frozen value: two threads may both find it missing
            object.__setattr__(self, "_table", _table(log_w, laws))
        return mixture_value(z, log_w, laws, log_weights=True, table=self._table)

    def logpdf(self, y: Any) -> Any:
        """Log-density: log sum_i w_i f_i(y)."""
        if self._parts and isinstance(y, float):
            height = one_logpdf(float(y), self._parts)
            if height is not None:
                return height
        return shaped(mixture_logpdf(y, self._log_w, self._flat, log_weights=True), np.shape(y))


def mixture_score(y: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False) -> Array:
    """Scores of readings `y` under mixtures of `laws`; the weights are (K,), or one row (N, K) a reading.

    Weights (or their logarithms, with ``log_weights=True``) and laws are taken as checked.

    >>> from understudy.laws.gaussian import Gaussian
    >>> laws = [Gaussian(0.0, 1.0), Gaussian(10.0, 4.0)]
    >>> mixture_score([1.0, 12.0], [[1.0, 0.0], [0.0, 1.0]], laws).tolist()
    [1.0, 1.0]
    """
    readings = channels(y, 1, "reading")[0]
    return _checked_scores(readings, _log_columns(weights, log_weights), laws, np.shape(y)).reshape(np.shape(y))


def mixture_value(
    z: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False, table: Table | None = None
) -> Array:
    """The readings with scores `z`: the inverse of `mixture_score`.

    >>> from understudy.laws.gaussian import Gaussian
    >>> mixture_value([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], [Gaussian(0.0, 1.0), Gaussian(10.0, 4.0)]).tolist()
    [1.0, 12.0]
    """
    wanted = channels(z, 1, "score")[0]
    y = _values(wanted, _log_columns(weights, log_weights), laws, table)
    check_reached(y, wanted, np.shape(z), "score")
    return y.reshape(np.shape(z))


def mixture_logpdf(y: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False) -> Array:
    """Log-densities of readings `y` under mixtures of `laws`.

    >>> from understudy.laws.gaussian import Gaussian
    >>> mixture_logpdf([0.0], [0.5, 0.5], [Gaussian(0.0, 1.0), Gaussian(0.0, 1.0)]).round(6).tolist()
    [-0.918939]
    """
    readings = channels(y, 1, "reading")[0]
    return _heights(readings, _log_columns(weights, log_weights), laws).reshape(np.shape(y))


def _checked_laws(laws: Any) -> tuple[Law, ...]:
    try:
        given = tuple(laws)
    except TypeError:
        raise LawError(f"laws is of type {type(laws).__name__}; it must be a list of laws of one number") from None
    for i, law in enumerate(given):
        if type(law) is Gaussian and law.dim == 1:
            continue
        if not is_law(law):
            raise LawError(f"law {i} is of type {type(law).__name__}; it must be a law")
        dim = getattr(law, "dim", 1)
        if dim != 1:
            raise LawError(f"law {i} has dim = {dim}; a mixture is of laws of one number (see GaussianMixture)")
        if getattr(law, "atoms", False):
            raise LawError(f"law {i} has atoms; a mixture is of continuous laws (a mixture of Atoms is Atoms itself)")
    return given


def _flattened(weights: Array, laws: Sequence[Law]) -> list[tuple[float, Law]]:
    """Log-weights and laws, with those of an inner mixture in its place."""
    parts: list[tuple[float, Law]] = []
    for weight, law in zip(weights.tolist(), laws, strict=True):
        log_w = math.log(weight) if weight > 0.0 else -math.inf
        inner = zip(law._log_w.tolist(), law._flat, strict=True) if isinstance(law, Mixture) else [(0.0, law)]
        parts += [(log_w + other, part) for other, part in inner]
    return parts


def _log_columns(weights: Any, log_weights: bool) -> Array:
    """Log-weights as (K, N) or (K, 1)."""
    w = np.asarray(weights, dtype=float)
    if not log_weights:
        with np.errstate(divide="ignore"):
            w = np.log(w)
    return np.ascontiguousarray((w[None, :] if w.ndim == 1 else w).T)


def _normals(laws: Sequence[Law]) -> tuple[Array, Array] | None:
    """Means and standard deviations, if every law is Gaussian."""
    given = [law.given for law in laws if type(law) is Gaussian]
    if len(given) < len(laws):
        return None
    return np.array([mean for mean, _ in given]), np.sqrt([variance for _, variance in given])


def _plain(log_w: Array, normals: tuple[Array, Array]) -> tuple[Part, ...]:
    """Weights, means and standard deviations as numbers."""
    return tuple(zip(np.exp(log_w).tolist(), normals[0].tolist(), normals[1].tolist(), strict=True))


def _checked_scores(y: Array, log_w: Array, laws: Sequence[Law], shape: tuple[int, ...]) -> Array:
    z = _scores(y, log_w, laws)
    check_inside(z, shape)
    check_reached(z, y, shape, "reading")
    return z


def _scores(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Scores of readings (N,), infinite outside every support."""
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_score(y, log_w.T, *normals, log_weights=True)
    return blockwise(lambda part, block: blended(part, columns(log_w, block), laws), y)


def _values(z: Array, log_w: Array, laws: Sequence[Law], table: Table | None = None) -> Array:
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_value(z, log_w.T, *normals, log_weights=True, table=table)
    return blockwise(lambda part, block: values(part, columns(log_w, block), laws, table)[0], z)


def _heights(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_logpdf(y, log_w.T, *normals, log_weights=True)
    return blockwise(lambda part, block: heights(part, columns(log_w, block), laws), y)


def _table(log_w: Array, laws: Sequence[Law]) -> Table:
    column = log_w[:, None]
    return Table(lambda z: _values(z, column, laws), lambda y: _heights(y, column, laws))
