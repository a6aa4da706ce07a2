"""Tails of a mixture from the scores of its components.

With z_i the score of a reading under component i, the tails of the mixture are

    F(y) = sum_i w_i Phi(z_i),    1 - F(y) = sum_i w_i Phi(-z_i),

and its score follows from the smaller one. Down to tails of 1e-290 (scores of 36) these sums keep all
their digits as they stand; below, their logarithms are summed. Component first: arrays are (K, N).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array
from understudy.laws.inverse import Look

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
