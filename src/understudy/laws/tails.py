"""Scores of any continuous one-dimensional law, far into both tails, and back.

The score of x is z = Phi^-1(F(x)). Near the middle that is how it is computed. In a tail F(x) is
1 up to rounding, and a library's own tail functions saturate, lose their digits or underflow; so
beyond `TRUSTED` the tail is integrated from the log-density, which does not suffer from any of this:

    log sf(x) = logpdf(x) + log int_0^inf exp(logpdf(x + s) - logpdf(x)) ds

and the score follows from the logarithm of the smaller tail, z = -Phi^-1(exp(log sf)). The inverse
solves score(x) = z by Newton's method kept inside a bracket of floats, so that both directions agree.

Near a finite end floats are too far apart for the tail that is left: the inverse then gives the one
whose tail probability is nearest, and beyond the last one inside the support that one. Either way it
is within a rounding unit of the quantile. A quantile beyond the largest float has no such neighbour.

Nothing here raises on a point that cannot be computed: it comes back as NaN, and `scalar` knows its
position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.laws.closed import Closed
from understudy._types import Mask

Function = Callable[[Array], Any]

TRUSTED = 1e-3
"""The tail probability down to which a library's cdf and sf are believed (1 - F keeps 13 digits there)."""

_LAST_RESORT = 1e-9  # where quadrature fails (a step in the density), cdf and sf are believed down to here
_BLOCK = 2048  # points integrated at a time, which bounds the memory
_STEPS = (0.0625, 0.03125, 0.015625)
_ITERATIONS = 200
_PURE_NEWTON = 12  # iterations after which every second one bisects, so that the bracket must close
_RIGHT = 2e-15  # the part of a tail probability by which a library's inverse may miss it
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class _Pole:
    """Less than `reach` from a finite end, log density = height + power log(distance from the end).

    That stands in for the log-density where floats cannot: between the last ones next to an end other
    than 0, at which the density is infinite, and in the subnormal numbers next to 0.
    """

    reach: float = 0.0
    power: float = 0.0
    height: float = 0.0

    def logpdf(self, log_distance: Array) -> Array:
        return self.height + self.power * log_distance


@dataclass(frozen=True)
class Density:
    """A continuous law on the open interval (lower, upper), as functions of arrays.

    `power` = (exponent, start) says that a tail beyond |x| = start is, to double precision, a pure
    power with that exponent; its integral is then known even where it leaves float64. `ppf` and `isf`
    are asked for no probability below `reach`, and for the start of a search only. With a `closed` form
    neither they nor cdf and sf are asked for scores and quantiles.
    """

    logpdf: Function
    cdf: Function
    sf: Function
    ppf: Function
    isf: Function
    lower: float = -math.inf
    upper: float = math.inf
    power: tuple[float, float] | None = None
    reach: float = TRUSTED
    closed: Closed | None = None

    @cached_property
    def middle(self) -> tuple[float, float]:
        """The median, and a width (the interquartile range): the units that the tails are searched in."""
        with np.errstate(all="ignore"):
            low, median, high = np.asarray(self.ppf(np.array([0.25, 0.5, 0.75])), dtype=float).tolist()
        return median, (high - low) / 1.349

    @cached_property
    def poles(self) -> tuple[_Pole, _Pole]:
        """The powers of the density at the lower and at the upper end."""
        return self._pole(self.lower, 1.0), self._pole(self.upper, -1.0)

    def _pole(self, end: float, inward: float) -> _Pole:
        reach = min(abs(end), self.middle[1]) * 2.0**-27 if end else 1e-290
        distance = reach * 2.0 ** np.array([0.0, -3.0, -6.0] if end else [20.0, 10.0, 0.0])
        if math.isinf(end) or not 64.0 * math.ulp(end) <= distance[-1] < distance[0] < self.middle[1]:
            return _Pole()
        x = end + inward * distance
        with np.errstate(all="ignore"):
            height, log_distance = np.asarray(self.logpdf(x), dtype=float), np.log(np.abs(end - x))
            slopes = np.diff(height) / np.diff(log_distance)
        power = float(slopes.mean())
        if abs(slopes[1] - slopes[0]) < 1e-6 and -1.0 < power < (-1e-3 if end else math.inf):
            return _Pole(reach, power, float(height[0] - power * log_distance[0]))
        return _Pole()

    def within(self, x: Array, loc: float = 0.0, scale: float = 1.0) -> Array:
        """Brings `x` strictly inside the support (of loc + scale X), to the nearest float."""
        lower, upper = loc + scale * self.lower, loc + scale * self.upper
        first = lower if math.isinf(lower) else math.nextafter(lower, math.inf)
        last = upper if math.isinf(upper) else math.nextafter(upper, -math.inf)
        return np.asarray(np.minimum(np.maximum(x, first), last))


def scores(law: Density, x: Array) -> Array:
    """Phi^-1(F(x)): -inf and inf at and beyond the ends of the support, NaN where it cannot be computed.

    >>> from scipy import stats
    >>> s = stats.logistic
    >>> scores(Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf), np.array([0.0, 450.0])).round(6).tolist()
    [0.0, 29.855772]
    """
    from scipy.special import ndtri, ndtri_exp

    if law.closed is not None:
        return law.closed.score(x)
    z = np.full(x.shape, np.nan)
    above = x > law.middle[0]
    for side, half, end in ((-1.0, (x <= law.middle[0]), x <= law.lower), (1.0, above, x >= law.upper)):
        if end.any():
            z[end] = side * np.inf
            half = half & ~end
        at = np.flatnonzero(half)
        if at.size:
            with np.errstate(all="ignore"):
                points = x[at]
                p = np.asarray((law.sf if side > 0 else law.cdf)(points), dtype=float)
                z[at] = -side * ndtri(p)
                tail = np.flatnonzero(p < TRUSTED)
                if tail.size:
                    z[at[tail]] = -side * ndtri_exp(log_tail(law, points[tail], side, p[tail]))
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
            out[far] = np.asarray(law.logpdf(x[far])) + np.log(np.abs(x[far])) - math.log(exponent)
        end, pole = (law.upper, law.poles[1]) if side > 0 else (law.lower, law.poles[0])
        room = np.abs(end - x)
        last = room < pole.reach
        # int_0^r c s^a ds = r c r^a / (a + 1)
        log_room = np.log(room[last])
        out[last] = pole.logpdf(log_room) + log_room - math.log1p(pole.power)
        near = np.flatnonzero(~far & ~last)
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
    for step in _STEPS:
        coarse, fine = _double_exponential(law, x[todo], side, (end, room[todo], width[todo], top[todo]), step)
        # Halving the step about squares the error, so two that agree to 1e-10 are right to rounding. Noise in
        # the log-density itself may prevent that; at the last step 1e-7 (1e-8 in a score) must do.
        settled = np.abs(fine - coarse) < rounding[todo] + (1e-10 if step > _STEPS[-1] else 1e-7)
        out[todo[settled]] = (top[todo] + fine)[settled]
        todo = todo[~settled]
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


@cache
def _nodes(step: float) -> tuple[Array, Array]:
    """The nodes pi/2 sinh t of the rule, and the logarithms of its weights, as columns."""
    t = np.arange(-4.0, 6.75 + step / 2, step)[:, None]
    return 0.5 * np.pi * np.sinh(t), np.log(0.5 * np.pi * step * np.cosh(t))


def _double_exponential(
    law: Density, x: Array, side: float, geometry: tuple[float, Array, Array, Array], step: float
) -> tuple[Array, Array]:
    """Log of the integral of exp(logpdf(x + s) - logpdf(x)) over s in (0, room), with steps 2 h and h.

    s = e / (1 + e / room) with e = width exp(pi/2 sinh t) maps the real line to (0, room), crowding
    both ends double-exponentially; with room = inf it is the exp-sinh rule. Beyond the middle of a
    finite room the point is placed by its distance from the end, which keeps its digits there.
    """
    end, room, width, top = geometry
    node, log_weight = _nodes(step)
    log_e = np.log(width) + node
    # ds = e / (1 + e / room)^2 (pi/2) cosh t dt
    term = log_e + log_weight
    if math.isinf(end):
        s = np.exp(log_e)
        term[np.isinf(s)] = -np.inf
        term += np.asarray(law.logpdf(x + side * s), dtype=float) - top
    else:
        q = np.exp(np.minimum(log_e - np.log(room), 700.0))  # e / room
        left, log1p_q = room / (1.0 + q), np.log1p(q)
        point = np.where(q < 1.0, x + side * room * (q / (1.0 + q)), end - side * left)
        height = np.asarray(law.logpdf(law.within(point)), dtype=float)
        pole = law.poles[1 if side > 0 else 0]
        if pole.reach:
            height = np.where(left < pole.reach, pole.logpdf(np.log(room) - log1p_q), height)
        term += height - top - 2.0 * log1p_q
    term[np.isnan(term)] = -np.inf
    peak = term.max(axis=0)
    ratio = np.exp(term - peak)
    coarse, fine = peak + np.log(2.0 * ratio[::2].sum(axis=0)), peak + np.log(ratio.sum(axis=0))
    # The terms must have died out before the nodes, float64 or the log-density end.
    last = term.shape[0] - 1 - np.argmax(np.isfinite(term[::-1]), axis=0)
    died = term[last, np.arange(x.size)] - fine < math.log(1e-10)
    return coarse, np.where(died & np.isfinite(fine), fine, np.nan)


def quantiles(law: Density, z: Array) -> Array:
    """The x with score z: the float inside the support with the nearest tail; NaN where it cannot be found.

    >>> from scipy import stats
    >>> s = stats.uniform
    >>> law = Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf, 0.0, 1.0)
    >>> (1.0 - quantiles(law, np.array([7.372, 9.0]))).tolist()  # the tails are 8.40e-14 and 1.13e-19
    [8.404388296412435e-14, 1.1102230246251565e-16]
    >>> s = stats.logistic
    >>> quantiles(Density(s.logpdf, s.cdf, s.sf, s.ppf, s.isf), np.array([30.0])).round(6).tolist()
    [454.321244]
    """
    if law.closed is not None:
        return law.closed.value(z)
    x = np.full(z.shape, np.nan)
    for side in (-1.0, 1.0):
        at = np.flatnonzero(np.isfinite(z) & ((z < 0) if side < 0 else (z >= 0)))
        if at.size:
            with np.errstate(all="ignore"):
                x[at] = _solve(law, z[at], side)
    return x


@dataclass(frozen=True)
class _Outward:
    """A coordinate w that grows outward to one end and makes the score tame.

    Towards infinity x = median + spread sinh w, towards a finite end the distance from it is
    proportional to e^-w. In (w, asinh z) the normal law is a straight line, and every tail that is a
    power or an exponential is nearly one far out.
    """

    law: Density
    side: float

    @property
    def end(self) -> float:
        return self.law.upper if self.side > 0 else self.law.lower

    def speed(self, x: Array) -> Array:
        """|dx/dw|."""
        median, spread = self.law.middle
        return np.asarray(np.hypot(spread, x - median) if math.isinf(self.end) else np.abs(self.end - x))

    def moved(self, x: Array, w: Array) -> Array:
        """Where x goes when its coordinate grows by w."""
        if math.isinf(self.end):
            # sinh(v + w) = sinh v cosh w + cosh v sinh w
            offset = x - self.law.middle[0]
            return np.asarray(x + 2.0 * offset * np.sinh(0.5 * w) ** 2 + self.side * self.speed(x) * np.sinh(w))
        room = self.end - x
        return np.where(np.abs(w) < 0.5, x - room * np.expm1(-w), self.end - room * np.exp(-w))

    def between(self, x: Array, y: Array) -> Array:
        """The middle of x and y by coordinate, or where rounding forbids by value."""
        median, spread = self.law.middle
        if math.isinf(self.end):
            v = 0.5 * (np.arcsinh((x - median) / spread) + np.arcsinh((y - median) / spread))
            middle = median + spread * np.sinh(v)
        else:
            middle = self.end - np.sign(self.end - x) * np.sqrt(np.abs(self.end - x)) * np.sqrt(np.abs(self.end - y))
        inside = (self.side * middle > self.side * x) & (self.side * middle < self.side * y)
        return np.where(inside, middle, 0.5 * x + 0.5 * y)


def _solve(law: Density, z: Array, side: float) -> Array:
    """The quantiles of targets on one side of the median: the library's where they are right, else by search."""
    from scipy.special import ndtr

    inverse, tail = (law.isf, law.sf) if side > 0 else (law.ppf, law.cdf)
    q = ndtr(-np.abs(z))
    x = law.within(np.asarray(inverse(np.maximum(q, law.reach)), dtype=float))
    # In the middle the library's own inverse is mostly right to the last digit, which this is enough to see.
    miss = np.abs(np.asarray(tail(x), dtype=float) - q)
    rest = np.flatnonzero(~((q > TRUSTED) & (miss <= _RIGHT * q)))
    if rest.size:
        x[rest] = _search(law, z[rest], side, x[rest])
    return x


def _search(law: Density, z: Array, side: float, start: Array) -> Array:
    """Newton's method in (w, asinh z) inside a shrinking bracket.

    Every step starts from a float and ends on one, so that it stops where the next float is no better.
    """
    from scipy.special import log_ndtr

    coordinate = _Outward(law, side)
    end = coordinate.end
    last = math.nextafter(end, -side * math.inf)
    median, _ = law.middle
    goal = np.abs(z)
    first = coordinate.moved(np.array([median]), np.array([-1.0]))
    low, high = np.repeat(first, z.size), np.full(z.shape, end)
    score_low, score_high = np.full(z.shape, -np.inf), np.full(z.shape, np.inf)
    usable = (side * start > side * low) & (side * start < side * last)
    point = np.where(usable, start, law.within(coordinate.moved(np.array([median]), np.arcsinh(goal))))
    # Next to a finite end, where a pole of the density meets rounding, a failed evaluation means "at the end".
    edge = max(1e-10 * abs(end), 1e-300) if math.isfinite(end) else 0.0
    x = np.full(z.shape, np.nan)
    todo = np.arange(z.size)
    for iteration in range(_ITERATIONS):
        here, aim = point[todo], goal[todo]
        found = side * scores(law, here)
        found[np.isnan(found) & (np.abs(end - here) < edge)] = np.inf
        if math.isinf(end):
            found[np.isinf(found)] = np.nan  # the log-density has left float64
        miss = np.arcsinh(found) - np.arcsinh(aim)
        below = miss < 0
        low[todo[below]], score_low[todo[below]] = here[below], found[below]
        high[todo[~below]], score_high[todo[~below]] = here[~below], found[~below]
        # d asinh(z) / dw = pdf / phi(z) |dx/dw| / sqrt(1 + z^2)
        log_slope = np.asarray(law.logpdf(here)) + 0.5 * found**2 + _LOG_SQRT_2PI - 0.5 * np.log1p(found**2)
        move = -miss * np.exp(-log_slope - np.log(coordinate.speed(here)))
        newton = coordinate.moved(here, move)
        newton = np.where(side * newton < side * last, newton, last)
        close = ((newton == here) & (here != last)) | ((np.abs(miss) < 1e-8) & (np.abs(move) < 1e-6))
        x[todo[close]] = newton[close]
        a, b = low[todo], high[todo]
        shut = (np.nextafter(a, end) == b) & ~close
        if shut.any():
            at = todo[shut]
            # A bracket closed by a failed evaluation (NaN), or by the end of float64, proves nothing.
            over = np.expm1(log_ndtr(-score_low[at]) - log_ndtr(-goal[at]))
            under = -np.expm1(log_ndtr(-score_high[at]) - log_ndtr(-goal[at]))
            nearest = np.where((over <= under) | (high[at] == end), low[at], high[at])
            x[at] = np.where(np.isnan(score_high[at]) | np.isinf(high[at]), np.nan, nearest)
        going = ~(close | shut)
        todo = todo[going]
        if not todo.size:
            break
        a, b, newton = a[going], b[going], newton[going]
        legal = (side * newton > side * a) & (side * newton < side * b)
        if iteration >= _PURE_NEWTON and iteration % 2:
            legal[:] = False
        if not legal.all():
            newton = np.where(legal, newton, coordinate.between(a, np.where(b == end, last, b)))
        point[todo] = newton
    return law.within(x)
