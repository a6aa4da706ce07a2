"""A standard normal that is only known to lie in a cell: probability, mean, variance, randomised score.

A cell is an interval (a, b), in standard deviations from the mean; either end may be infinite. Its half-width
is an argument of its own, because b - a loses its digits where the cell is narrow. What is computed here is
right to about 1e-13 (relative, the score relative to 1 and to its size) for cells of 1e-12 to 1e6 standard
deviations, in the middle and far out. Three ways lead there, each where it loses nothing:

- narrow: the density hardly changes over the cell, and ten Gauss-Legendre nodes integrate it;
- tail: from the inner end a on, it falls as exp(-a s - s^2/2); forty nodes over the 40 units before it is gone;
- middle: differences of the distribution function, of which a good part remains.

Arguments are numbers, or arrays of one shape.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_WIDE, _TINY = 0.02, 1e-290  # a difference of two tails keeps 14 digits; smaller ones lose them
_GONE = 40.0  # exp(-40) of a tail is beneath rounding


def _rule(count: int, low: float) -> tuple[Array, Array]:
    """Nodes on (low, 1), and columns that turn values there into the means of f, f t and f t^2."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    t = 0.5 * ((1.0 - low) * nodes + 1.0 + low)
    return t, 0.5 * weights[:, None] * t[:, None] ** np.arange(3.0)


_NARROW, _NARROW_SUMS = _rule(10, -1.0)
_TAIL, _TAIL_SUMS = _rule(40, 0.0)


class Truncated(NamedTuple):
    """What is known of a standard normal that lies in a cell."""

    log_probability: Any
    """Logarithm of the probability of the cell."""
    mean: Any
    """Mean, given that it lies there."""
    variance: Any
    """Variance, given that it lies there."""


def truncated(a: Any, b: Any, half: Any) -> Truncated:
    """The standard normal given that it lies between `a` and `b`; `half` is half the width, inf if that is.

    >>> cell = truncated(-0.5, 0.5, 0.5)
    >>> round(cell.log_probability, 12), cell.mean, round(cell.variance, 12)
    (-0.959916333696, 0.0, 0.080589154601)
    >>> cell = truncated(40.0, math.inf, math.inf)
    >>> round(cell.log_probability, 9), round(cell.mean, 9)
    (-804.608442014, 40.024968847)
    """
    if isinstance(a, float) and isinstance(b, float) and isinstance(half, float):
        if a + b < 0.0:
            log_probability, mean, variance = _one(-b, -a, half)
            return Truncated(log_probability, -mean, variance)
        return Truncated(*_one(a, b, half))
    with np.errstate(invalid="ignore"):
        left = np.asarray(a + b < 0.0)
    lower, upper = np.where(left, -b, a), np.where(left, -a, b)
    half = np.broadcast_to(half, left.shape)
    with np.errstate(invalid="ignore"):
        narrow = half * np.maximum(0.5 * (lower + upper), 1.0) <= 1.0
    tail = ~narrow & (lower >= 1.0)
    out = np.empty((3, *left.shape))
    for way, where in ((_narrow, narrow), (_tail, tail), (_middle, ~narrow & ~tail)):
        if where.any():
            out[:, where] = way(lower[where], upper[where], half[where])
    return Truncated(out[0], np.where(left, -out[1], out[1]), out[2])


def log_probability(a: Array, b: Array, half: Array) -> Array:
    """The first part of `truncated` alone, for arrays: quicker where no cell is narrow.

    >>> log_probability(np.array([-0.5]), np.array([0.5]), np.array([0.5])).round(12).tolist()
    [-0.959916333696]
    """
    from scipy.special import erfc

    if half.min() > _WIDE:
        with np.errstate(invalid="ignore"):
            left = a + b < 0.0
        P = 0.5 * (erfc(_SQRT_HALF * np.where(left, -b, a)) - erfc(_SQRT_HALF * np.where(left, -a, b)))
        if P.min() > _TINY:
            return np.asarray(np.log(P))
    return np.asarray(truncated(a, b, half).log_probability)


def _narrow(a: Any, b: Any, half: Any) -> tuple[Any, Any, Any]:
    # x = m + h t:  phi(x) = phi(m) exp(-h t (m + h t / 2))
    m = 0.5 * (a + b)
    s = np.multiply.outer(half, _NARROW)
    sums = np.exp(-s * (np.asarray(m)[..., None] + 0.5 * s)) @ _NARROW_SUMS
    M0, M1, M2 = np.moveaxis(sums, -1, 0)
    centre = M1 / M0
    return (
        np.log(2.0 * half * M0) - 0.5 * m * m - _LOG_SQRT_2PI,
        m + half * centre,
        half * half * (M2 / M0 - centre * centre),
    )


def _tail(a: Any, b: Any, half: Any) -> tuple[Any, Any, Any]:
    # x = a + s:  phi(x) = phi(a) exp(-s (a + s / 2)), gone where the exponent reaches 40
    with np.errstate(over="ignore"):
        end = np.minimum(2.0 * half, 2.0 * _GONE / (a + np.hypot(a, math.sqrt(2.0 * _GONE))))
        s = np.multiply.outer(end, _TAIL)
        sums = np.exp(-s * (np.asarray(a)[..., None] + 0.5 * s)) @ _TAIL_SUMS
        M0, M1, M2 = np.moveaxis(sums, -1, 0)
        centre = M1 / M0
        log_probability = np.log(end * M0) - 0.5 * a * a - _LOG_SQRT_2PI
    return log_probability, a + end * centre, end * end * (M2 / M0 - centre * centre)


def _middle(a: Any, b: Any, half: Any) -> tuple[Any, Any, Any]:
    from scipy.special import ndtr

    outside = ndtr(a) + ndtr(-b)
    P = ndtr(-a) - ndtr(-b)
    with np.errstate(divide="ignore"):
        log_probability = np.where(a < 0.0, np.log1p(-np.minimum(outside, 1.0)), np.log(P))
    # mean = (phi(a) - phi(b)) / P, variance = 1 + (a phi(a) - b phi(b)) / P - mean^2
    at_a, at_b = np.exp(-0.5 * a * a) / _SQRT_2PI, np.exp(-0.5 * b * b) / _SQRT_2PI
    with np.errstate(invalid="ignore"):
        edges = np.where(at_a > 0.0, a * at_a, 0.0) - np.where(at_b > 0.0, b * at_b, 0.0)
    mean = (at_a - at_b) / P
    return log_probability, mean, 1.0 + edges / P - mean * mean


# One number at a time, ten times as quick ------------------------------------------------------------------------

NARROW_PAIRS = [(float(t), *map(float, sums)) for t, sums in zip(_NARROW, _NARROW_SUMS, strict=True) if t > 0.0]


def _one(a: float, b: float, half: float) -> tuple[float, float, float]:
    """The same for a cell whose middle is not negative, in plain numbers."""
    m = 0.5 * (a + b)
    if half * max(m, 1.0) <= 1.0:
        M0 = M1 = M2 = 0.0
        for t, w0, w1, w2 in NARROW_PAIRS:
            s = half * t
            right, left = math.exp(-s * (0.5 * s + m)), math.exp(-s * (0.5 * s - m))
            M0 += w0 * (left + right)
            M1 += w1 * (right - left)
            M2 += w2 * (left + right)
        centre = M1 / M0
        log_probability = math.log(2.0 * half * M0) - 0.5 * m * m - _LOG_SQRT_2PI
        return log_probability, m + half * centre, half * half * (M2 / M0 - centre * centre)
    if a >= 1.0:
        log_probability, mean, variance = _tail(a, b, half)
        return float(log_probability), float(mean), float(variance)
    below, above = 0.5 * math.erfc(-a * _SQRT_HALF), 0.5 * math.erfc(b * _SQRT_HALF)
    P = 0.5 * math.erfc(a * _SQRT_HALF) - above
    at_a, at_b = math.exp(-0.5 * a * a) / _SQRT_2PI, math.exp(-0.5 * b * b) / _SQRT_2PI
    edges = (a * at_a if at_a else 0.0) - (b * at_b if at_b else 0.0)
    mean = (at_a - at_b) / P
    log_probability = math.log1p(-(below + above)) if a < 0.0 else math.log(P)
    return log_probability, mean, 1.0 + edges / P - mean * mean


# Scores ----------------------------------------------------------------------------------------------------------


def scores(a: Any, b: Any, log_probability: Any, v: Any) -> Any:
    """Randomised score of a cell of the standard normal: Phi^-1(Phi(a) + v (Phi(b) - Phi(a))), between a and b.

    >>> round(float(scores(-1.0, 1.0, truncated(-1.0, 1.0, 1.0).log_probability, 0.5)), 12) + 0.0
    0.0
    >>> cell = truncated(40.0, 41.0, 0.5)
    >>> round(float(scores(40.0, 41.0, cell.log_probability, 0.5)), 9)
    40.017314127
    """
    from scipy.special import log_ndtr

    score = from_tails(log_ndtr(a), log_ndtr(-b), log_probability, v)
    if isinstance(score, float):
        return min(max(score, a), b)
    return np.clip(score, a, b)


def from_tails(below: Any, above: Any, log_probability: Any, v: Any) -> Any:
    """The score of a part of any law: from the logarithms of what lies below it, above it and in it.

    The smaller of F = below + v P and 1 - F = above + (1 - v) P keeps its digits, being a sum of positive terms.
    """
    from scipy.special import ndtri_exp

    if isinstance(log_probability, float) and isinstance(v, float):
        under = float(np.logaddexp(below, math.log(v) + log_probability))
        over = float(np.logaddexp(above, math.log1p(-v) + log_probability))
        # rounding may leave the sum of everything a little above one
        return float(ndtri_exp(min(under, 0.0)) if under < over else -ndtri_exp(min(over, 0.0)))
    v = np.asarray(v, dtype=float)
    under = np.logaddexp(below, np.log(v) + log_probability)
    over = np.logaddexp(above, np.log1p(-v) + log_probability)
    return np.where(under < over, ndtri_exp(np.minimum(under, 0.0)), -ndtri_exp(np.minimum(over, 0.0)))
