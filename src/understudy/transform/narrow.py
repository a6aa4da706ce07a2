"""Polynomials for narrow cells, fitted once for a filter: what spares its loop the exponentials.

In a cell of half-width h (in standard deviations) around m, the density is proportional to exp(-c t - g t^2 / 2) with
t in (-1, 1), c = m h and g = h^2. Over the cells of one filter g hardly varies, so the mean of t over -c, and its
variance, are polynomials of few terms in c^2 and g; so are the parts of

    W(w, g) = int_0^1 exp(-w s - g s^2 / 2) ds = even(w^2, g) - w odd(w^2, g)

of which a score is the inverse: the t with t W(c t, g t^2) = D is t_0 = -log(1 - c D) / c for g = 0, and in general
t_0 times a polynomial in c t_0 and g t_0^2.

There are two sets of degrees. The short one serves steps up to about a quarter of a standard deviation, and cells up to
four standard deviations out; the long one steps up to a half. Each fit is compared with what it stands for; where
neither is good enough there is no table, and the loop takes the longer way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array

TOP = 0.36
"""Largest c^2 of the long polynomials: cells further out take the longer way."""
FAR_OUT = 16.0
"""The same for the short ones, over g: four standard deviations."""
_WIDEST = 0.0667  # largest g: steps up to about half a standard deviation
_GOOD = 5e-11  # largest error of a fit, in the units of a score
_NODES = 20
_ROOM = 1.05  # over the largest c t_0

Function = Callable[[Array, Array], Array]
Span = tuple[float, float]


class Degrees(NamedTuple):
    """How long the polynomials are."""

    moments: tuple[int, ...]
    """In c^2, of the coefficients of 1, u, u^2 with u = g in its range, as (-1, 1)."""
    parts: tuple[int, ...]
    """The same for even and odd."""
    logarithm: int
    factor: tuple[int, ...]
    """In c t_0, of the coefficients of the powers of g t_0^2."""


SHORT = Degrees((3, 2), (3, 2), 4, (5, 3, 2))
LONG = Degrees((5, 3, 1), (5, 3, 1), 6, (7, 6, 5, 3, 2, 1))


class Narrow(NamedTuple):
    """Tables in the order in which the loops read them."""

    moments: Array
    scores: Array
    short: bool


@lru_cache(maxsize=64)
def narrow(least: float, most: float) -> Narrow | None:
    """The tables for g between `least` and `most`; None where there are none good enough.

    >>> narrow(0.009, 0.00903).short, narrow(0.058, 0.06).short
    (True, False)
    >>> narrow(0.5, 0.6) is None
    True
    """
    if not 0.0 < least < most < _WIDEST:
        return None
    return _tables(least, most, SHORT) or _tables(least, most, LONG)


def _tables(least: float, most: float, degrees: Degrees) -> Narrow | None:
    middle, scale = 0.5 * (least + most), 2.0 / (most - least)
    top = min(TOP, FAR_OUT * least) if degrees is SHORT else TOP
    spans, unit = ((0.0, top), (least, most)), (middle, scale)
    shift, variance = (_fitted(f, degrees.moments, spans, unit) for f in (_shift, _spread))
    even, odd = (_fitted(f, degrees.parts, spans, unit) for f in (_even, _odd))
    # s = tanh(c t_0 / 2), with some room
    w = _ROOM * math.sqrt(top)
    end = math.tanh(0.5 * w) ** 2
    logarithm = _fitted(_logarithm, (degrees.logarithm,), ((0.0, end), (least, most)), unit)
    factor = _fitted(_factor, degrees.factor, ((-w, w), (0.0, most)), (0.0, 1.0), by=lambda g: g)
    # a score is m + h t; a mean that is off enters the next score, and a variance by a quarter at most
    worst = math.sqrt(most) * max(error for _, error in (even, odd, logarithm, factor))
    if max(worst, shift[1], 0.25 * variance[1]) > _GOOD:
        return None
    rows = [_padded(row, degrees.moments, LONG.moments) for row, _ in (shift, variance)]
    moments = np.concatenate(([least, most, middle, scale, top], *rows))
    scores = np.concatenate(([middle, scale], even[0], odd[0], logarithm[0], factor[0]))
    moments.flags.writeable = scores.flags.writeable = False
    return Narrow(moments, scores, degrees is SHORT)


def _padded(row: Array, degrees: tuple[int, ...], full: tuple[int, ...]) -> Array:
    """The coefficients among zeros, in the places of longer polynomials: these then give the same numbers."""
    out, read, at = np.zeros(sum(full) + len(full)), 0, 0
    for j, degree in enumerate(full):
        if j < len(degrees):
            out[at : at + degrees[j] + 1] = row[read : read + degrees[j] + 1]
            read += degrees[j] + 1
        at += degree + 1
    return out


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


def _shift(square: Array, g: Array) -> Array:
    """1 + g E[t] / c: what is left of an innovation, as the mean over its cell."""
    return 1.0 - g * _mean(square, g)


def _spread(square: Array, g: Array) -> Array:
    """The variance of t, times g."""
    return g * _variance(square, g)


def _logarithm(x: Array, g: Array) -> Array:
    return np.asarray(np.arctanh(np.sqrt(x)) / np.sqrt(x))


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
