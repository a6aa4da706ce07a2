"""Any continuous law of one number, as `scipy.stats` gives it: heavy tails, skewness, bounds.

`Scalar` takes the distribution apart into location, scale and a standard law, because the standard
law keeps its digits next to the end of its support, where ``y`` itself would have lost them. The score of x is
z = Phi^-1(F(x)). Three ways lead to it.

*Closed forms*: the normal law needs no distribution function at all, its scores are its values. For some others the
smaller of F(x) and 1 - F(x) is a formula, and so is the x that belongs to it; neither saturates, so that nothing is
integrated or searched for. Where even the smaller one leaves float64 its logarithm takes over.

*The middle* of any other law: F as the library computes it.

*The tails* of any other law: F(x) is 1 up to rounding, and a library's own tail functions saturate, lose their digits
or underflow; so beyond `TRUSTED` the tail is integrated from the log-density, which does not suffer from any of this:

    log sf(x) = logpdf(x) + log int_0^inf exp(logpdf(x + s) - logpdf(x)) ds

and the score follows from the logarithm of the smaller tail, z = -Phi^-1(exp(log sf)). The inverse
solves score(x) = z by Newton's method kept inside a bracket of floats, so that both directions agree.

Near a finite end floats are too far apart for the tail that is left: the inverse then gives the one
whose tail probability is nearest, and beyond the last one inside the support that one. Either way it
is within a rounding unit of the quantile. A quantile beyond the largest float has no such neighbour.
The arithmetic of the tails raises nothing on a point that cannot be computed: it comes back as NaN, and `Scalar` knows
its position.

`Shifted` is a law moved by a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Index, Json, Mask, Numbers, Plain
from understudy.errors import LawError, ModelError, StoredFileError
from understudy.laws.law import Law, channels, check_inside, check_reached, dimension, has_atoms, to_shape
from understudy.laws.mixture import Look, invert
from understudy.serialize import WAY_OUT, Place, construct, fields, from_plain, stored_array, to_plain

# Closed forms ------------------------------------------------------------------------------------------


_TINY = 1e-290  # below this the logarithm of a probability keeps digits that the probability has lost
_FARTHEST = 1e6  # standard deviations
_BLOCK = 8192  # points at a time, so that what is in between stays in the cache
_LOG_2 = math.log(2.0)


class Closed(Protocol):
    """Both directions, for arrays of one axis; -inf and inf stand for what lies beyond the ends of the support."""

    def score(self, x: Array) -> Array:
        """Phi^-1(F(x)); NaN where it leaves float64."""
        ...

    def value(self, z: Array) -> Array:
        """F^-1(Phi(z))."""
        ...


def _drop_mistakes(z: Array) -> Array:
    """Scores, NaN where they are so large that a reading is a mistake; infinite ones tell that it is outside."""
    with np.errstate(invalid="ignore"):
        far = np.abs(z) > _FARTHEST
    if far.any():
        z[far & np.isfinite(z)] = np.nan
    return z


@dataclass(frozen=True)
class Normal:
    """The scores themselves."""

    def score(self, x: Array) -> Array:
        """The same, as far as scores go."""
        return _drop_mistakes(np.array(x))

    def value(self, z: Array) -> Array:
        """The same."""
        return np.array(z)


@dataclass(frozen=True)
class LogNormal:
    """x = exp(s z)."""

    s: float

    def score(self, x: Array) -> Array:
        """The logarithm of x, over s."""
        with np.errstate(divide="ignore"):
            return _drop_mistakes(np.asarray(np.log(np.maximum(x, 0.0)) / self.s))

    def value(self, z: Array) -> Array:
        """The exponential of s z."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.s * z))


@dataclass(frozen=True)
class Tails:
    """A law by its smaller tail."""

    middle: float
    """The median."""
    tail: Callable[[Array, Mask], Any]
    """The smaller of F and 1 - F at x; the second argument tells where x is above the median."""
    log_tail: Callable[[Array, Mask], Any]
    """Its logarithm, where it is less than 1e-290."""
    inverse: Callable[[Array, Mask], Any]
    """The x with that tail."""
    log_inverse: Callable[[Array, Mask], Any]
    """The x whose tail has that logarithm, where it is less than 1e-290."""

    def score(self, x: Array) -> Array:
        """From the smaller tail, on its side."""
        return _by_blocks(self._score, x)

    def value(self, z: Array) -> Array:
        """From the tail beyond z, on its side."""
        return _by_blocks(self._value, z)

    def _score(self, x: Array) -> Array:
        from scipy.special import ndtri, ndtri_exp

        above = x > self.middle
        p = self.tail(x, above)
        z = np.copysign(ndtri(p), x - self.middle)
        far = np.flatnonzero(p < _TINY)
        if far.size:
            points, side = x[far], np.where(above[far], 1.0, -1.0)
            found = ndtri_exp(self.log_tail(points, above[far]))
            # a point inside the support whose tail has no logarithm either
            z[far] = -side * np.where(np.isinf(found) & np.isfinite(points), np.nan, found)
        return np.asarray(z)

    def _value(self, z: Array) -> Array:
        from scipy.special import log_ndtr, ndtr

        above = z > 0.0
        beyond = -np.abs(z)
        q = ndtr(beyond)
        x = self.inverse(q, above)
        far = np.flatnonzero(q < _TINY)
        if far.size:
            x[far] = self.log_inverse(log_ndtr(beyond[far]), above[far])
        return np.asarray(x)


def _by_blocks(f: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        if x.size <= _BLOCK:
            return f(x)
        out = np.empty(x.shape)
        for first in range(0, x.size, _BLOCK):
            out[first : first + _BLOCK] = f(x[first : first + _BLOCK])
    return out


# The laws ---------------------------------------------------------------------------------------------------------
# Exponential: 1 - F = exp(-x).


def _exponential_tail(x: Array, above: Mask) -> Any:
    return np.where(above, np.exp(-x), -np.expm1(-np.maximum(x, 0.0)))


def _exponential_inverse(q: Array, above: Mask) -> Any:
    return -np.where(above, np.log(q), np.log1p(-q))


_EXPONENTIAL = Tails(
    _LOG_2,
    _exponential_tail,
    # F = x for small x
    lambda x, above: np.where(above, -x, np.log(np.maximum(x, 0.0))),
    _exponential_inverse,
    lambda log_q, above: np.where(above, -log_q, np.exp(log_q)),
)

# F = exp(-exp(-x)): exp(-x) is exponential, and falls where x rises.
_GUMBEL_R = Tails(
    -math.log(_LOG_2),
    lambda x, above: _exponential_tail(np.exp(-x), ~above),
    lambda x, above: np.where(above, -x, -np.exp(-x)),
    lambda q, above: -np.log(_exponential_inverse(q, ~above)),
    lambda log_q, above: np.where(above, -log_q, -np.log(-log_q)),
)

# The same, turned round.
_GUMBEL_L = Tails(
    math.log(_LOG_2),
    lambda x, above: _exponential_tail(np.exp(x), above),
    lambda x, above: np.where(above, -np.exp(x), x),
    lambda q, above: np.log(_exponential_inverse(q, above)),
    lambda log_q, above: np.where(above, np.log(-log_q), log_q),
)


def _both_ways(size: Array, above: Mask) -> Array:
    """Sizes with the sign of their side, for symmetric laws."""
    return np.where(above, size, -size)


# F = 1 / (1 + exp(-x))
def _logistic_tail(x: Array, above: Mask) -> Any:
    from scipy.special import expit

    return expit(-np.abs(x))


_LOGISTIC = Tails(
    0.0,
    _logistic_tail,
    lambda x, above: -np.abs(x),
    lambda q, above: _both_ways(np.log1p(-q) - np.log(q), above),
    lambda log_q, above: _both_ways(-log_q, above),
)

# F = exp(x) / 2 below the median
_LAPLACE = Tails(
    0.0,
    lambda x, above: 0.5 * np.exp(-np.abs(x)),
    lambda x, above: -_LOG_2 - np.abs(x),
    lambda q, above: _both_ways(-np.log(2.0 * q), above),
    lambda log_q, above: _both_ways(-_LOG_2 - log_q, above),
)

_FIXED: dict[str, Closed] = {
    "norm": Normal(),
    "expon": _EXPONENTIAL,
    "gumbel_r": _GUMBEL_R,
    "gumbel_l": _GUMBEL_L,
    "logistic": _LOGISTIC,
    "laplace": _LAPLACE,
}


def closed_form(family: Any, shapes: dict[str, float]) -> Closed | None:
    """The closed form of a family of scipy.stats with these shapes, if it is here.

    >>> import numpy as np
    >>> import scipy.stats
    >>> closed_form(scipy.stats.logistic, {}).score(np.array([0.0, 450.0])).round(6).tolist()
    [0.0, 29.855772]
    >>> closed_form(scipy.stats.gamma, {"a": 2.0}) is None
    True
    """
    import scipy.stats

    # by type, so that a family of the user's own with a known name is not taken for it
    if type(family) is type(scipy.stats.lognorm):
        return LogNormal(shapes["s"])
    for name, form in _FIXED.items():
        if type(family) is type(getattr(scipy.stats, name)):
            return form
    return None


# Tails from the log-density ----------------------------------------------------------------------------


Function = Callable[[Array], Any]

TRUSTED = 1e-3
"""The tail probability down to which a library's cdf and sf are believed (1 - F keeps 13 digits there)."""

_LAST_RESORT = 1e-9  # where quadrature fails (a step in the density), cdf and sf are believed down to here
_POINTS = 2048  # points integrated at a time, which bounds the memory
_STEPS = (0.0625, 0.03125, 0.015625)
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
    neither they nor cdf and sf are asked for scores and quantiles. `alone` adds up the integral of each of many
    points in the order that it has for a single one.
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
    alone: bool = False

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
        for first in range(0, near.size, _POINTS):
            block = near[first : first + _POINTS]
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
    # numpy adds up the nodes of one point by halves, those of many points one after the other
    every, second = (ratio.T.copy(), ratio.T.copy()[:, ::2]) if law.alone else (ratio.T, ratio[::2].T)
    coarse, fine = peak + np.log(2.0 * second.sum(axis=1)), peak + np.log(every.sum(axis=1))
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
    """Newton's method in (w, asinh z) inside a bracket; w is a coordinate in which the score is tame.

    Towards infinity x = median + spread sinh w, towards a finite end the distance from it is proportional to e^-w. In
    (w, asinh z) the normal law is a straight line, and every tail that is a power or an exponential is nearly one.
    """
    median, spread = law.middle
    end = law.upper if side > 0 else law.lower
    last = math.nextafter(end, -side * math.inf)

    def speed(x: Array) -> Array:
        return np.asarray(np.hypot(spread, x - median) if math.isinf(end) else np.abs(end - x))

    def move(x: Array, w: Array) -> Array:
        """Where x goes when its coordinate grows by w, outward."""
        if math.isinf(end):
            # sinh(v + w) = sinh v cosh w + cosh v sinh w
            return np.asarray(x + 2.0 * (x - median) * np.sinh(0.5 * w) ** 2 + side * speed(x) * np.sinh(w))
        room = end - x
        return np.where(np.abs(w) < 0.5, x - room * np.expm1(-w), end - room * np.exp(-w))

    # Next to a finite end, where a pole of the density meets rounding, a failed evaluation means "at the end".
    edge = max(1e-10 * abs(end), 1e-300) if math.isfinite(end) else 0.0
    failed = np.zeros(z.shape, dtype=bool)

    def look(which: Index, x: Array) -> Look:
        score = scores(law, x)
        score[np.isnan(score) & (np.abs(end - x) < edge)] = side * np.inf
        # where the log-density has left float64
        lost = np.isnan(score) | (np.isinf(score) & math.isinf(end))
        failed[which] |= lost
        miss = np.where(lost, side * np.inf, np.arcsinh(score) - np.arcsinh(z[which]))
        # d asinh(z) / dw = pdf / phi(z) |dx/dw| / sqrt(1 + z^2)
        log_slope = np.asarray(law.logpdf(x)) + 0.5 * score**2 + _LOG_SQRT_2PI - 0.5 * np.log1p(score**2)
        w = -side * miss * np.exp(-log_slope - np.log(speed(x)))
        newton = move(x, w)
        newton = np.where(side * newton < side * last, newton, last)
        close = (np.abs(miss) < 1e-8) & (np.abs(w) < 1e-6)
        return Look(miss, newton - x, close, ~np.isfinite(w), lost)

    inner = float(move(np.array([median]), np.array([-1.0]))[0])
    outer = end if math.isfinite(end) else last
    usable = (side * start > side * inner) & (side * start < side * last)
    start = np.where(usable, start, law.within(move(np.full(z.shape, median), np.arcsinh(np.abs(z)))))
    low, high = np.full(z.shape, min(inner, outer)), np.full(z.shape, max(inner, outer))
    x = law.within(invert(look, low, high, start)[0])
    # A bracket closed by a failed evaluation, or by the end of float64, proves nothing.
    beyond = np.flatnonzero(failed)
    if beyond.size:
        next_scores = scores(law, np.nextafter(x[beyond], end))
        x[beyond[~np.isfinite(next_scores) & (np.abs(end - x[beyond]) >= edge)]] = np.nan
    return np.where(math.isinf(end) & (np.abs(np.nextafter(x, end)) >= abs(last)), np.nan, x)


# The law of a scipy.stats distribution -----------------------------------------------------------------


_RULE = "a law of one number is a frozen continuous scipy.stats distribution, such as scipy.stats.t(3, loc=1)"
_NOTHING = -1e6  # a log-density below which the rest of a tail is nothing, whatever its length in float64


class Scalar:
    """The law of a frozen continuous scipy.stats distribution.

    Scores come from the logarithm of the smaller tail, so they are right far beyond the point
    (about 8) where a distribution function has become 0 or 1.

    >>> import scipy.stats
    >>> law = Scalar(scipy.stats.t(3, loc=20.0))
    >>> law
    Scalar(t, dim=1)
    >>> law.score(20.0)
    0.0
    >>> round(law.score(law.value(30.0)), 9)
    30.0

    Parameters of shape ``(d,)`` give d independent channels, on the first axis of a reading.

    >>> pair = Scalar(scipy.stats.expon(scale=[1.0, 10.0]))
    >>> pair.score(pair.value([-1.0, 2.0])).round(9).tolist()
    [-1.0, 2.0]
    """

    __slots__ = ("_channels", "_dist", "_family", "dim")

    dim: int

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self._family, self._channels = _channels(dist)
        self.dim = len(self._channels)

    @property
    def dist(self) -> Any:
        """The distribution that was given."""
        return self._dist

    @property
    def alone(self) -> Scalar:
        """The same law, which gives each of many readings the bits that it gives a single one."""
        other = Scalar(self._dist)
        other._channels = [channel.alone() for channel in self._channels]
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return Scalar, (self._dist,)

    def to_dict(self, place: Place) -> Plain:
        """The name that scipy.stats has for the distribution, and its parameters; see `understudy.serialize`."""
        family: Any = getattr(self._dist, "dist", None)
        name = getattr(family, "name", None)
        named = _distribution(name)
        # a class of the user's, one of scipy's with another support, or one with a switch outside its parameters
        own = named is None or type(family) is not type(named) or (family.a, family.b) != (named.a, named.b)
        if own or hasattr(named, "parameterization"):
            shown = name if named is not None else type(self._dist).__name__
            raise ModelError(
                f"{place} is a distribution ({shown}) that its name and its parameters do not tell; of a Scalar law, "
                f"only a frozen distribution that scipy.stats has under a name can be stored: {WAY_OUT}"
            )
        names = _parameter_names(named)
        given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, self._dist.args, strict=False)), **self._dist.kwds}
        return {"distribution": name, "parameters": {key: _parameter(place / key, given[key]) for key in names}}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Scalar:
        """The law again; the name is looked up in a list, and nothing is imported by it."""
        given = fields(place, plain, "distribution", "parameters")
        family = _distribution(given["distribution"])
        if family is None or hasattr(family, "parameterization"):
            import scipy

            raise StoredFileError(
                f"{place}.distribution must be the name of a continuous distribution of scipy.stats; "
                f"scipy {scipy.__version__} has none of this name that can be stored"
            )
        names = _parameter_names(family)
        inside = place / "parameters"
        parameters = fields(inside, given["parameters"], *names, kind=False)
        values = {name: _stored_numbers(inside / name, parameters[name]) for name in names}
        return construct(place, lambda: cls(family(**values)))

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Scalar({self._family}, dim={self.dim})"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = Phi^-1(F(y)), channel by channel; NaN stays NaN."""
        readings = channels(y, self.dim, "reading")
        z = self._scores(readings)
        check_inside(z, np.shape(y))
        check_reached(z, readings, np.shape(y), "reading")
        return to_shape(z, np.shape(y))

    def score_or_end(self, y: ArrayLike) -> Numbers:
        """The score, or -inf below the support and inf above, where `score` refuses: what a mixture needs.

        Far out where the density is below exp(-1e6) and its tail cannot be integrated, an infinity too.
        """
        readings = channels(y, self.dim, "reading")
        z = self._scores(readings)
        lost = np.isnan(z) & ~np.isnan(readings)
        if lost.any():
            for i, channel in enumerate(self._channels):
                at = np.flatnonzero(lost[i])
                z[i, at] = channel.end(readings[i, at])
            lost = np.isnan(z)
            check_reached(np.where(lost, z, 0.0), readings, np.shape(y), "reading")
        return to_shape(z, np.shape(y))

    def _scores(self, readings: Array) -> Array:
        return np.stack([channel.score(row) for channel, row in zip(self._channels, readings, strict=True)])

    def value(self, z: ArrayLike) -> Numbers:
        """Y = F^-1(Phi(z)), the inverse of `score`, rounded to a float inside the support.

        It is within one rounding unit of the quantile (of y, or of loc where that is larger): next to
        the end of a support, the last float inside. A quantile beyond the largest float is an error.
        """
        wanted = channels(z, self.dim, "score")
        y = np.stack([channel.value(row) for channel, row in zip(self._channels, wanted, strict=True)])
        check_reached(y, wanted, np.shape(z), "score")
        return to_shape(y, np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density, summed over the channels."""
        readings = channels(y, self.dim, "reading")
        rows = [channel.logpdf(row) for channel, row in zip(self._channels, readings, strict=True)]
        shape = np.shape(y) if self.dim == 1 else np.shape(y)[1:]
        return to_shape(np.sum(rows, axis=0), shape)


class _Channel:
    """y = loc + scale x, with x from a standard law."""

    __slots__ = ("_law", "_loc", "_scale")

    def __init__(self, law: Density, loc: float, scale: float) -> None:
        self._law, self._loc, self._scale = law, loc, scale

    def alone(self) -> _Channel:
        return _Channel(replace(self._law, alone=True), self._loc, self._scale)

    def score(self, y: Array) -> Array:
        law, loc, scale = self._law, self._loc, self._scale
        with np.errstate(over="ignore"):
            x = (y - loc) / scale
        if math.isinf(law.lower) and math.isinf(law.upper):
            return scores(law, x)
        # Inside or outside is decided for y, so that rounding in x never throws a reading out.
        x = law.within(x)
        x[y <= loc + scale * law.lower], x[y >= loc + scale * law.upper] = -np.inf, np.inf
        return scores(law, x)

    def end(self, y: Array) -> Array:
        """-inf or inf where the density is as good as zero, NaN elsewhere."""
        nothing = self.logpdf(y) < _NOTHING
        median = self._loc + self._scale * self._law.middle[0]
        return np.where(nothing, np.where(y < median, -np.inf, np.inf), np.nan)

    def value(self, z: Array) -> Array:
        law, loc, scale = self._law, self._loc, self._scale
        with np.errstate(over="ignore"):
            return law.within(loc + scale * quantiles(law, z), loc, scale)

    def logpdf(self, y: Array) -> Array:
        law = self._law
        with np.errstate(all="ignore"):
            x = (y - self._loc) / self._scale
            height = np.asarray(law.logpdf(np.clip(x, law.lower, law.upper)), dtype=float) - math.log(self._scale)
            return np.where((x < law.lower) | (x > law.upper), -np.inf, height)


def _channels(dist: Any) -> tuple[str, list[_Channel]]:
    import scipy.stats

    if isinstance(getattr(dist, "dist", None), scipy.stats.rv_continuous) and hasattr(dist, "args"):
        return _from_frozen(dist)
    if all(hasattr(dist, name) for name in ("logpdf", "ccdf", "icdf", "iccdf", "support")):
        return _from_variable(dist)
    raise LawError(f"{_describe(dist)} is not a law; {_RULE}")


def _from_frozen(dist: Any) -> tuple[str, list[_Channel]]:
    """The channels of ``scipy.stats.name(*args, **kwds)``."""
    family = dist.dist
    names = [*(family.shapes.replace(",", " ").split() if family.shapes else []), "loc", "scale"]
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, dist.args, strict=False)), **dist.kwds}
    name = str(family.name)
    try:
        arrays = np.broadcast_arrays(*[np.asarray(given[key], dtype=float) for key in names])
    except (KeyError, TypeError, ValueError):
        raise LawError(f"the parameters of {name} must be numbers, or vectors of one length") from None
    shape = arrays[0].shape
    if arrays[0].size == 0 or (len(shape) > 1 and arrays[0].size > 1):
        raise LawError(f"the parameters of {name} have shape {shape}; they must be numbers or vectors (d,)")
    rows = np.stack([array.ravel() for array in arrays], axis=1).tolist()
    return name, [_standard(family, name, dict(zip(names, row, strict=True))) for row in rows]


def _standard(family: Any, name: str, given: dict[str, float]) -> _Channel:
    import scipy.stats

    loc, scale = given.pop("loc"), given.pop("scale")
    if not math.isfinite(loc):
        raise LawError(f"loc = {loc!r}; the location of {name} must be finite")
    if not 0.0 < scale < math.inf:
        raise LawError(f"scale = {scale!r}; the scale of {name} must be positive and finite")
    with np.errstate(all="ignore"):
        lower, upper = (float(end) for end in family.support(**given))
    if not lower < upper:
        shapes = ", ".join(f"{key} = {number!r}" for key, number in given.items())
        raise LawError(f"{shapes}: not valid parameters of scipy.stats.{name}")
    cdf, sf, ppf, isf = (_function(family, key, given) for key in ("cdf", "sf", "ppf", "isf"))
    logpdf, power = _log_density(family, given)
    # scipy's generic inverse is a slow search, whose end is not certain far out
    reach = 1e-12 if type(family)._ppf is not scipy.stats.rv_continuous._ppf else TRUSTED
    closed = closed_form(family, given)
    return _Channel(Density(logpdf, cdf, sf, ppf, isf, lower, upper, power, reach, closed), loc, scale)


def _function(family: Any, name: str, given: dict[str, float]) -> Function:
    """One function of the standard law, for arguments inside the support (probabilities inside (0, 1)).

    scipy's checks of arguments take ten times as long as the formula of a typical family, so the
    formula is called, which every family defines under the underscored name.
    """
    from scipy.stats import rv_continuous

    if getattr(type(family), name) is not getattr(rv_continuous, name):  # levy_stable does more than check
        return partial(getattr(family, name), **given)
    formula, shapes = getattr(family, "_" + name), list(given.values())

    def function(x: Array) -> Any:
        flat = np.ravel(np.asarray(x, dtype=float))
        if not flat.size:
            return np.empty(np.shape(x))
        # a formula may pick entries of its parameters by a mask over x
        return np.reshape(formula(flat, *[np.full(flat.shape, shape) for shape in shapes]), np.shape(x))

    return function


def _from_variable(dist: Any) -> tuple[str, list[_Channel]]:
    """The channel of a distribution of scipy's newer kind, such as ``scipy.stats.Normal()``."""
    name = type(dist).__name__
    with np.errstate(all="ignore"):
        lower, upper = (np.asarray(end, dtype=float) for end in dist.support())
        if lower.size != 1 or upper.size != 1:
            raise LawError(f"the parameters of {name} are arrays; join one law a channel by Independent")
        height = float(np.asarray(dist.logpdf(dist.icdf(0.5))).item())
    if not (lower < upper and math.isfinite(height)):
        raise LawError(f"{name} has no finite density at its median (discrete, or bad parameters); {_RULE}")
    law = Density(dist.logpdf, dist.cdf, dist.ccdf, dist.icdf, dist.iccdf, lower.item(), upper.item())
    return name, [_Channel(law, 0.0, 1.0)]


def _log_density(family: Any, given: dict[str, float]) -> tuple[Function, tuple[float, float] | None]:
    """The log-density, and the power of its tail: ours where scipy's is log(density) or squares x.

    Those underflow or overflow well inside the range that scores must reach.
    """
    from scipy import stats

    if type(family) in (type(stats.t), type(stats.cauchy)) and given.get("df", 1.0) < math.inf:
        df = given.get("df", 1.0)
        return _student(df), (df, 1e9 * math.sqrt(df))
    if type(family) is type(stats.halfcauchy):
        student = _student(1.0)
        return lambda x: np.where(x < 0, -np.inf, math.log(2.0) + student(x)), (1.0, 1e9)
    if type(family) is type(stats.laplace):
        return lambda x: -math.log(2.0) - np.abs(x), None
    if type(family) is type(stats.pareto):
        b = given["b"]
        return lambda x: np.where(x < 1, -np.inf, math.log(b) - (b + 1.0) * np.log(x)), (b, 1.0)
    if type(family) is type(stats.levy):
        half = 0.5 * math.log(2.0 * math.pi)
        return lambda x: -half - 1.5 * np.log(x) - 0.5 / x, (0.5, 1e17)
    return _function(family, "logpdf", given), None


def _student(df: float) -> Function:
    import scipy.stats

    peak = float(scipy.stats.t.logpdf(0.0, df))

    def logpdf(x: Array) -> Any:
        r = np.abs(x) / math.sqrt(df)
        # log(1 + r^2), without squaring a large r
        far = 2.0 * np.log(np.abs(x)) - math.log(df) + np.log1p(np.maximum(r, 1.0) ** -2.0)
        log1p = np.where(r < 1.0, np.log1p(np.minimum(r, 1.0) ** 2), far)
        return peak - 0.5 * (df + 1.0) * log1p

    return logpdf


def _describe(dist: Any) -> str:
    plain = isinstance(dist, str | int | float | type(None))
    return repr(dist) if plain else f"an object of type {type(dist).__name__}"


# A law moved by a constant ---------------------------------------------------------------------------


class Shifted:
    """The law of `law` plus `shift`: what an innovation becomes once it is added to a prediction.

    >>> from understudy.laws.gaussian import Gaussian
    >>> Shifted(Gaussian(0.0, 1.0), 10.0).value(2.0)
    12.0
    """

    __slots__ = ("dim", "law", "shift")

    def __init__(self, law: Law, shift: Numbers) -> None:
        self.dim = dimension(law)
        self.law = law
        self.shift = shift

    @property
    def atoms(self) -> bool:
        """Whether the law that is moved has atoms."""
        return has_atoms(self.law)

    def to_dict(self, place: Place) -> Plain:
        """The law and the shift; see `understudy.serialize`."""
        return {
            "law": to_plain(self.law, "law", place / "law"),
            "shift": _parameter(place / "shift", self.shift),
        }

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Shifted:
        """The law again."""
        given = fields(place, plain, "law", "shift")
        law = from_plain(given["law"], "law", place / "law")
        shift = _stored_numbers(place / "shift", given["shift"])
        if np.ndim(shift) and np.shape(shift) != (law.dim,):
            raise StoredFileError(f"{place}.shift must be a number, or one number for each of the {law.dim} channels")
        return construct(place, cls, law, shift)

    def __repr__(self) -> str:
        return f"Shifted({self.law!r})"

    def score(self, y: Numbers, v: Numbers | None = None) -> Numbers:
        """Score of the innovation."""
        innovation = _move(y, self.shift, -1.0)
        return self.law.score(innovation) if v is None else self.law.score(innovation, v)

    def value(self, z: Numbers) -> Numbers:
        """Innovation of the score, moved."""
        return _move(self.law.value(z), self.shift, 1.0)

    def logpdf(self, y: Numbers) -> Numbers:
        """Density of the innovation."""
        return self.law.logpdf(_move(y, self.shift, -1.0))


def _move(y: Numbers, shift: Numbers, sign: float) -> Numbers:
    if np.ndim(shift) == 0:
        return y + sign * shift
    return (np.asarray(y).T + sign * np.asarray(shift)).T


# What is stored of a law: parameters under the names that scipy.stats has for them -----------------------


def _parameter(place: Place, given: ArrayLike) -> Any:
    """A number or a vector of numbers, as the constructor will read it again."""
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{place} is of type {type(given).__name__}; it must be a number or a vector") from None
    if found.ndim > 1 and found.size != 1:
        raise ModelError(f"{place} has shape {found.shape}; it must be a number or a vector")
    if not np.isfinite(found).all():
        raise ModelError(f"{place} has an entry that is not finite; every number that is stored must be")
    return found.item() if found.size == 1 else found.tolist()


def _stored_numbers(place: Place, given: Json) -> Any:
    """A number, or a vector of numbers."""
    return stored_array(place, given, 1 if type(given) is list else 0)[()]


def _distribution(name: Json) -> Any:
    """The continuous distribution that scipy.stats has under this name, or None: a list, not an import."""
    import scipy.stats

    found = vars(scipy.stats).get(name) if type(name) is str else None
    return found if isinstance(found, scipy.stats.rv_continuous) and found.name == name else None


def _parameter_names(family: Any) -> list[str]:
    return [*(family.shapes.replace(",", " ").split() if family.shapes else []), "loc", "scale"]
