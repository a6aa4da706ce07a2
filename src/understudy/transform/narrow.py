"""Polynomials for narrow cells, fitted once for a filter: what spares its loop the exponentials.

In a cell of half-width h (in standard deviations) around m, the density is proportional to exp(-c t - g t^2 / 2) with
t in (-1, 1), c = m h and g = h^2. Over the cells of one filter g hardly varies, so the mean of t over -c, and its
variance, are polynomials of few terms in c^2 and g; so are the parts of

    W(w, g) = int_0^1 exp(-w s - g s^2 / 2) ds = even(w^2, g) - w odd(w^2, g)

of which a score is the inverse: the t with t W(c t, g t^2) = D is t_0 = -log(1 - c D) / c for g = 0, and in general
t_0 times a polynomial in c t_0 and g t_0^2. Each fit is compared with what it stands for; where it is not good enough
(cells that are not narrow) there is no table, and the loop takes the longer way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array

TOP = 0.36
"""Largest c^2: cells further out take the longer way."""
_WIDEST = 0.0667  # largest g: steps up to about half a standard deviation
_GOOD = 1e-9  # largest error of a fit; it enters scores by less than a hundredth
_IN_RANGE = (5, 3, 1)  # degrees in c^2 of the coefficients of 1, u, u^2 with u = g in its range, as (-1, 1)
_FACTOR = (7, 6, 5, 3, 2, 1)  # degrees in c t_0 of those of the powers of g t_0^2
_LOGARITHM = 6
_NODES = 20

_ROOM = 1.05  # over the largest c t_0

Function = Callable[[Array, Array], Array]
Span = tuple[float, float]


class Narrow(NamedTuple):
    """Tables in the order in which the loops read them."""

    moments: Array
    scores: Array


def narrow(least: float, most: float) -> Narrow | None:
    """The tables for g between `least` and `most`; None where there are none good enough.

    >>> narrow(0.05, 0.06).moments.shape
    (29,)
    >>> narrow(0.5, 0.6) is None
    True
    """
    if not 0.0 < least < most < _WIDEST:
        return None
    middle, scale = 0.5 * (least + most), 2.0 / (most - least)
    c2, u = (0.0, TOP), (least, most)
    ranged = [_fitted(f, _IN_RANGE, (c2, u), (middle, scale)) for f in (_mean, _variance, _even, _odd)]
    # s = tanh(c t_0 / 2), with some room
    end = math.tanh(0.5 * _ROOM * math.sqrt(TOP)) ** 2
    logarithm = _fitted(
        lambda x, g: np.arctanh(np.sqrt(x)) / np.sqrt(x), (_LOGARITHM,), ((0.0, end), u), (middle, scale)
    )
    w = _ROOM * math.sqrt(TOP)
    factor = _fitted(_factor, _FACTOR, ((-w, w), (0.0, most)), (0.0, 1.0), by=lambda g: g)
    if max(error for _, error in (*ranged, logarithm, factor)) > _GOOD:
        return None
    mean, variance, even, odd = (row for row, _ in ranged)
    moments = np.concatenate(([least, most, middle, scale, TOP], mean, variance))
    scores = np.concatenate(([middle, scale], even, odd, logarithm[0], factor[0]))
    moments.flags.writeable = scores.flags.writeable = False
    return Narrow(moments, scores)


def _fitted(
    f: Function, degrees: tuple[int, ...], spans: tuple[Span, Span], unit: tuple[float, float], by: Any = np.ones_like
) -> tuple[Array, float]:
    """Coefficients of x (fastest) and of (g - unit[0]) unit[1], and the largest error, by least squares.

    What is fitted, and its error, is f(x, g) times by(g).
    """
    t = 0.5 + 0.5 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    x, g = np.meshgrid(*(low + (high - low) * t for low, high in spans))
    u = (g - unit[0]) * unit[1]
    units = np.abs(x).max(), np.abs(u).max()
    powers = [(i, j) for j, degree in enumerate(degrees) for i in range(degree + 1)]
    columns = np.stack([(x / units[0]) ** i * (u / units[1]) ** j for i, j in powers], axis=-1).reshape(-1, len(powers))
    weight = by(g).ravel()
    columns, wanted = columns * weight[:, None], f(x, g).ravel() * weight
    coefficients = np.linalg.lstsq(columns / weight.max(), wanted / weight.max(), rcond=None)[0]
    error = float(np.abs(columns @ coefficients - wanted).max())
    return coefficients / np.array([units[0] ** i * units[1] ** j for i, j in powers]), error


def _rule(low: float) -> tuple[Array, Array]:
    t, weights = np.polynomial.legendre.leggauss(20)
    return 0.5 * (1.0 - low) * t + 0.5 * (1.0 + low), 0.5 * (1.0 - low) * weights


def _integral(c: Array, g: Array, odd: bool, power: int, low: float) -> Array:
    """Integral over (low, 1) of t^power exp(-g t^2 / 2) times cosh(c t), or sinh(c t)."""
    t, weights = _rule(low)
    wave = (np.sinh if odd else np.cosh)(c[..., None] * t)
    return np.asarray((wave * np.exp(-0.5 * g[..., None] * t * t)) @ (weights * t**power))


def _mean(square: Array, g: Array) -> Array:
    """-E[t] / c, as a function of c^2."""
    c = np.sqrt(square)
    return _integral(c, g, True, 1, -1.0) / (c * _integral(c, g, False, 0, -1.0))


def _variance(square: Array, g: Array) -> Array:
    c = np.sqrt(square)
    return _integral(c, g, False, 2, -1.0) / _integral(c, g, False, 0, -1.0) - square * _mean(square, g) ** 2


def _even(square: Array, g: Array) -> Array:
    return _integral(np.sqrt(square), g, False, 0, 0.0)


def _odd(square: Array, g: Array) -> Array:
    c = np.sqrt(square)
    return _integral(c, g, True, 0, 0.0) / c


def _factor(c: Array, g: Array) -> Array:
    """(t - 1) / g, where t solves t W(c t, g t^2) = W(c, 0): t_0 is 1 here, which loses nothing."""
    s, weights = _rule(0.0)
    D = np.exp(-c[..., None] * s) @ weights
    t = np.ones_like(c)
    for _ in range(6):  # Newton's method, from an error of g/6
        x = t[..., None] * s
        W = np.exp(-x * (c[..., None] + 0.5 * g[..., None] * x)) @ weights
        t = t + (D - t * W) * np.exp(t * (c + 0.5 * g * t))
    return np.asarray((t - 1.0) / g)
