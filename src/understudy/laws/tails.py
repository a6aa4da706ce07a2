"""Scores of any continuous one-dimensional law, far into both tails, and back.

The score of x is z = Phi^-1(F(x)). Near the middle that is how it is computed. In a tail F(x) is
1 up to rounding, and a library's own tail functions saturate, lose their digits or underflow; so
beyond `TRUSTED` the tail is integrated from the log-density, which does not suffer from any of this:

    log sf(x) = logpdf(x) + log int_0^inf exp(logpdf(x + s) - logpdf(x)) ds

and the score follows from the logarithm of the smaller tail, z = -Phi^-1(exp(log sf)). The inverse
solves score(x) = z by Newton's method kept inside a bracket, so that both directions agree.

Nothing here raises on a point that cannot be computed: it comes back as NaN, and `scalar` knows its
position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array

Function = Callable[[Array], Any]
Mask = NDArray[np.bool_]

TRUSTED = 1e-3
"""The tail probability down to which a library's cdf and sf are believed (1 - F keeps 13 digits there)."""

_LAST_RESORT = 1e-9  # where quadrature fails (a step in the density), cdf and sf are believed down to here
_BLOCK = 2048  # points integrated at a time, which bounds the memory
_STEPS = (0.25, 0.125, 0.0625, 0.03125, 0.015625)
_ITERATIONS = 200
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Density:
    """A continuous law on the open interval (lower, upper), as functions of arrays.

    `power` = (exponent, start) says that a tail beyond |x| = start is, to double precision, a pure
    power with that exponent; its integral is then known even where it leaves float64.
    """

    logpdf: Function
    cdf: Function
    sf: Function
    ppf: Function
    isf: Function
    lower: float = -math.inf
    upper: float = math.inf
    power: tuple[float, float] | None = None

    @cached_property
    def middle(self) -> tuple[float, float]:
        """The median, and a width (the interquartile range): the units that the tails are searched in."""
        with np.errstate(all="ignore"):
            low, median, high = np.asarray(self.ppf(np.array([0.25, 0.5, 0.75])), dtype=float).tolist()
        return median, (high - low) / 1.349

    def within(self, x: Array, loc: float = 0.0, scale: float = 1.0) -> Array:
        """Brings `x` strictly inside the support (of loc + scale X), to the nearest float."""
        lower, upper = loc + scale * self.lower, loc + scale * self.upper
        first = lower if math.isinf(lower) else math.nextafter(lower, math.inf)
        last = upper if math.isinf(upper) else math.nextafter(upper, -math.inf)
        return np.asarray(np.clip(x, first, last))


def scores(law: Density, x: Array) -> Array:
    """Phi^-1(F(x)): -inf and inf at and beyond the ends of the support, NaN where it cannot be computed.

    >>> from scipy import stats
    >>> s = stats.logistic
    >>> scores(Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf), np.array([0.0, 450.0])).round(6).tolist()
    [0.0, 29.855772]
    """
    from scipy.special import ndtri, ndtri_exp

    z = np.full(x.shape, np.nan)
    z[x <= law.lower], z[x >= law.upper] = -np.inf, np.inf
    inside = np.flatnonzero((x > law.lower) & (x < law.upper))
    with np.errstate(all="ignore"):
        above = x[inside] > law.middle[0]
        for side, at in ((-1.0, inside[~above]), (1.0, inside[above])):
            if at.size:
                p = np.asarray((law.sf if side > 0 else law.cdf)(x[at]), dtype=float)
                z[at] = -side * ndtri(p)
                tail = p < TRUSTED
                far = at[tail]
                z[far] = -side * ndtri_exp(log_tail(law, x[far], side, p[tail]))
    return z


def log_tail(law: Density, x: Array, side: float, rough: Array) -> Array:
    """Logarithm of Pr(X > x) for side 1, of Pr(X < x) for side -1; NaN where it cannot be computed.

    `rough` is the same probability by other means (cdf or sf). Where it is large enough to mean
    something and contradicts the quadrature, it wins: the quadrature has stepped over a distant mode.
    (A mode of weight below 1e-6, far out in the tail of the rest, goes unnoticed.)

    >>> from scipy import stats
    >>> s = stats.logistic
    >>> law = Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf)
    >>> log_tail(law, np.array([800.0]), 1.0, np.array([0.0])).round(9).tolist()
    [-800.0]
    """
    out = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        far = np.zeros(x.shape, dtype=bool)
        if law.power is not None:
            exponent, start = law.power
            far = side * x > start
            # int_x^inf c s^-(nu+1) ds = (x/nu) c x^-(nu+1)
            out[far] = np.asarray(law.logpdf(x[far])) + np.log(np.abs(x[far]) / exponent)
        near = np.flatnonzero(~far)
        for first in range(0, near.size, _BLOCK):
            block = near[first : first + _BLOCK]
            out[block] = _integrate(law, x[block], side)
        contradicted = (rough > 1e-6) & ~(np.abs(out - np.log(rough)) < 1e-3)
        unknown = (contradicted | np.isnan(out)) & (rough > _LAST_RESORT)
        out[unknown] = np.log(rough[unknown])
    return out


def _integrate(law: Density, x: Array, side: float) -> Array:
    """The tail beyond each x by double-exponential quadrature, its step halved until it settles."""
    end = law.upper if side > 0 else law.lower
    room = np.abs(end - x)
    top = np.asarray(law.logpdf(x), dtype=float)
    width = _decay_width(law, x, side, room, top)
    out = np.full(x.shape, np.nan)
    todo = np.flatnonzero(np.isfinite(top) & (width > 0))
    # Where the density changes over a few rounding units of x, no more is to be had than x is known to.
    size = np.abs(x) if math.isinf(end) else np.maximum(np.abs(x), abs(end))
    rounding = 8.0 * np.spacing(size) / width
    coarse = np.full(todo.shape, np.nan)
    for step in _STEPS:
        fine = _double_exponential(law, x[todo], side, (end, room[todo], width[todo], top[todo]), step)
        # Halving the step about squares the error, so two that agree to 1e-10 are right to rounding. Noise in
        # the log-density itself may prevent that; at the last step 1e-7 (1e-8 in a score) must do.
        settled = np.abs(fine - coarse) < rounding[todo] + (1e-10 if step > _STEPS[-1] else 1e-7)
        out[todo[settled]] = (top[todo] + fine)[settled]
        todo, coarse = todo[~settled], fine[~settled]
        if not todo.size:
            break
    return out


def _decay_width(law: Density, x: Array, side: float, room: Array, top: Array) -> Array:
    """The length over which the density falls by about e^2 beyond x, within a factor of four."""
    median, spread = law.middle
    longest = np.where(np.isfinite(room), room, 16.0 * (np.abs(x - median) + spread))
    s = longest * 4.0 ** -np.arange(1.0, 25.0)[:, None]
    fallen = np.asarray(law.logpdf(x + side * s), dtype=float) - top < -2.0
    first = np.argmin(fallen, axis=0)
    return np.asarray(s[first, np.arange(x.size)])


def _double_exponential(
    law: Density, x: Array, side: float, geometry: tuple[float, Array, Array, Array], step: float
) -> Array:
    """Log of the integral of exp(logpdf(x + s) - logpdf(x)) over s in (0, room), with one step size.

    s = e / (1 + e / room) with e = width exp(pi/2 sinh t) maps the real line to (0, room), crowding
    both ends double-exponentially; with room = inf it is the exp-sinh rule. Beyond the middle of a
    finite room the point is placed by its distance from the end, which keeps its digits there.
    """
    end, room, width, top = geometry
    t = np.arange(-4.0, 6.75 + step / 2, step)[:, None]
    log_e = np.log(width) + 0.5 * np.pi * np.sinh(t)
    q = np.exp(np.minimum(log_e - np.log(room), 700.0))  # e / room
    s = np.where(np.isinf(room), np.exp(log_e), room * (q / (1.0 + q)))
    point = np.where(q < 1.0, x + side * s, end - side * (room / (1.0 + q)))
    rise = np.asarray(law.logpdf(law.within(point)), dtype=float) - top
    # ds = e / (1 + q)^2 (pi/2) cosh t dt
    term = rise + log_e - 2.0 * np.log1p(q) + np.log(0.5 * np.pi * step * np.cosh(t))
    term[np.isinf(s) | np.isnan(term)] = -np.inf
    peak = term.max(axis=0)
    total = peak + np.log(np.exp(term - peak).sum(axis=0))
    # The terms must have died out before the nodes, float64 or the log-density end.
    last = term.shape[0] - 1 - np.argmax(np.isfinite(term[::-1]), axis=0)
    died = term[last, np.arange(x.size)] - total < math.log(1e-10)
    return np.where(died & np.isfinite(total), total, np.nan)


def quantiles(law: Density, z: Array) -> Array:
    """The x with score z, nearest float inside the support; NaN where it cannot be found.

    >>> from scipy import stats
    >>> s = stats.logistic
    >>> quantiles(Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf), np.array([30.0])).round(6).tolist()
    [454.321244]
    """
    x = np.full(z.shape, np.nan)
    for side in (-1.0, 1.0):
        at = np.flatnonzero(np.isfinite(z) & ((z < 0) if side < 0 else (z >= 0)))
        if at.size:
            with np.errstate(all="ignore"):
                x[at] = _solve(law, z[at], side)
    return x


@dataclass(frozen=True)
class _Outward:
    """A coordinate w that is 0 at the median, grows outward to one end, and makes the score tame.

    Towards infinity x = median + spread sinh w, towards a finite end the distance from it is
    proportional to e^-w. In (w, asinh z) the normal law is a straight line, and every tail that is a
    power or an exponential is nearly one far out.
    """

    law: Density
    side: float

    @property
    def end(self) -> float:
        return self.law.upper if self.side > 0 else self.law.lower

    @property
    def farthest(self) -> float:
        if math.isinf(self.end):
            return math.asinh(1e308 / max(self.law.middle[1], 1e-300))
        return 1500.0

    def point(self, w: Array) -> Array:
        median, spread = self.law.middle
        if math.isinf(self.end):
            return np.asarray(median + self.side * spread * np.sinh(w))
        return np.asarray(self.end - (self.end - median) * np.exp(-w))

    def speed(self, w: Array) -> Array:
        """|dx/dw|."""
        median, spread = self.law.middle
        if math.isinf(self.end):
            return np.asarray(spread * np.cosh(w))
        return np.asarray(abs(self.end - median) * np.exp(-w))

    def of(self, x: Array) -> Array:
        median, spread = self.law.middle
        if math.isinf(self.end):
            return np.asarray(np.arcsinh(self.side * (x - median) / spread))
        return np.asarray(-np.log((self.end - x) / (self.end - median)))


def _solve(law: Density, z: Array, side: float) -> Array:
    """Newton's method in (w, asinh z) inside a shrinking bracket, for targets on one side of the median."""
    from scipy.special import ndtr

    coordinate = _Outward(law, side)
    inverse = law.isf if side > 0 else law.ppf
    w = coordinate.of(np.asarray(inverse(np.maximum(ndtr(-np.abs(z)), TRUSTED)), dtype=float))
    low, high = np.full(z.shape, -1.0), np.full(z.shape, coordinate.farthest)
    w = np.where((w > low) & (w < high), w, np.arcsinh(np.abs(z)))
    # A bracket closed by a failed evaluation, or by the end of float64, proves nothing.
    proven = np.full(z.shape, math.isfinite(coordinate.end))
    # Next to a finite end, where a pole of the density meets rounding, a failed evaluation means "at the end".
    edge = max(1e-10 * abs(coordinate.end), 1e-300) if math.isfinite(coordinate.end) else 0.0
    at_end = np.zeros(z.shape, dtype=bool)
    x = np.full(z.shape, np.nan)
    todo = np.arange(z.size)
    for _ in range(_ITERATIONS):
        u, goal = w[todo], np.abs(z[todo])
        point = coordinate.point(u)
        found = side * scores(law, point)
        failed_at_end = np.isnan(found) & (np.abs(coordinate.end - point) < edge)
        found[failed_at_end] = np.inf
        miss = np.arcsinh(found) - np.arcsinh(goal)
        below = miss < 0
        low[todo[below]] = u[below]
        high[todo[~below]] = u[~below]
        proven[todo[~below]] = ~np.isnan(miss[~below])
        at_end[todo[~below]] = failed_at_end[~below]
        # d asinh(z) / dw = pdf / phi(z) |dx/dw| / sqrt(1 + z^2)
        log_slope = np.asarray(law.logpdf(point)) + 0.5 * found**2 + _LOG_SQRT_2PI
        slope = np.exp(log_slope - 0.5 * np.log1p(found**2)) * coordinate.speed(u)
        newton = u - miss / slope
        close = (np.abs(miss) < 1e-8) & (np.abs(newton - u) < 1e-6 * (1.0 + np.abs(u)))
        x[todo[close]] = coordinate.point(newton[close])
        a, b = coordinate.point(low[todo]), coordinate.point(high[todo])
        shut = (np.nextafter(a, b) == b) | (high[todo] - low[todo] <= 4.0 * np.spacing(high[todo]))
        shut &= ~close
        a = np.where(at_end[todo], coordinate.end, a)
        x[todo[shut & proven[todo]]] = a[shut & proven[todo]]
        legal = (newton > low[todo]) & (newton < high[todo])
        w[todo] = np.where(legal, newton, 0.5 * (low[todo] + high[todo]))
        todo = todo[~(close | shut)]
        if not todo.size:
            break
    return law.within(x)
