"""The integral of a density of one number, found and computed from its logarithm alone.

- `Stretch` and `Coordinate`: coordinates in which any density of one number is tame. A support (low, high) is first
  stretched to the whole line: u = x, log(x - low), -log(high - x), or the logit of the place between both ends. A
  pole or a power of the density at an end becomes an exponential there. Then u = centre + scale sinh w brings the bulk
  to |w| < 1 or so and makes every power of a tail an exponential too. Densities are integrated in w.
- `Asked`: a user's log-density, asked with care: what it may do wrong is named, and no reading is.
- `find_bulk`: where the mass is. Nothing is known beforehand: the scale may be 1e-12 or 1e12, and there may be several
  modes. A log-density tells the way, though: even a thousand standard deviations off it has a slope. So the
  search looks at readings of all magnitudes, closes in on every peak that it sees (a parabola through three points
  finds a Gaussian one at once), looks around each at all scales for others, and stops when no peak is left that has not
  been looked at. What is so narrow that no look ever fell on its slopes stays unseen; the mass that is then missing is
  noticed by whoever integrates.
- `Panels`: the integral, in panels with a Gauss-Legendre rule that has been seen to be enough. A panel is halved until
  both halves together agree with it, the error measured against the smaller of the two tails that it belongs to: so
  both tails keep their relative accuracy, down to `FLOOR`. The mass is added up from both ends for the same reason.
  What lies between a point and the next edge is integrated afresh with the same rule, so that nothing is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Index, Mask
from understudy.errors import NumericalError
from understudy.laws.mixture import Look, invert, middle_float

# Panels ------------------------------------------------------------------------------------------------


FLOOR = 1e-16
"""The tail probability down to which panels are used; |z| is 8.2 there."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = 160
_MOST = 20_000
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

Height = Callable[[Array], Array]
Grain = Callable[[Array], Array]


def _matrices() -> tuple[Array, Array]:
    """What takes values at the nodes to integrals of their polynomial from -1 to each node, and to its ends."""
    n = _NODES.size
    legendre = np.polynomial.legendre.legvander(_NODES, n)
    # int_-1^x P_k = (P_{k+1}(x) - P_{k-1}(x)) / (2 k + 1), and coefficient k = (2 k + 1) / 2 sum_i w_i P_k(x_i) f_i
    integral = np.empty((n, n))
    integral[:, 0] = _NODES + 1.0
    for k in range(1, n):
        integral[:, k] = (legendre[:, k + 1] - legendre[:, k - 1]) / (2 * k + 1)
    transform = (np.arange(n) + 0.5)[:, None] * (legendre[:, :n] * _WEIGHTS[:, None]).T
    ends = np.array([[(-1.0) ** k for k in range(n)], [1.0] * n])
    return integral @ transform, (ends @ transform).T


_CUMULATIVE, _ENDS = _matrices()


class Panels:
    """The panels of one density: `height` is its logarithm in the coordinate w, up to a constant.

    >>> normal = Panels(lambda w: -0.5 * w * w, np.linspace(-12.0, 12.0, 9), 1e-9, "it")
    >>> round(math.exp(normal.log_mass) - math.sqrt(2.0 * math.pi), 12)
    0.0
    >>> normal.scores(np.array([-8.0, 0.5])).round(12).tolist()
    [-8.0, 0.5]
    >>> normal.places(np.array([-8.0, 0.5])).round(12).tolist()
    [-8.0, 0.5]
    """

    def __init__(self, height: Height, edges: Array, accuracy: float, name: str, grain: Grain | None = None) -> None:
        self.height = height
        left, right, g, log_mass, log_error = _halved(height, edges, accuracy / 30.0, name, grain)
        self.edges = np.append(left, right[-1])
        self._g = g
        self.log_scale = float(log_mass.max())
        mass = np.exp(log_mass - self.log_scale)
        self.total = float(mass.sum())
        self.below = np.concatenate([[0.0], np.cumsum(mass)])
        self.above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
        self.log_mass = self.log_scale + math.log(self.total)
        self._log_error = log_error
        self._positive(g.max(axis=1) == -np.inf, name)

    def _positive(self, empty: Mask, name: str) -> None:
        least = FLOOR * self.total
        if empty.any() and (empty & (self.below[:-1] > least) & (self.above[1:] > least)).any():
            raise NumericalError(
                f"{name} is -inf on an interval inside the support: the density must be positive there, or the score "
                "would not increase (a density that underflows is to be computed in log space)"
            )

    @cached_property
    def error(self) -> float:
        """Largest error of a score above the floor: sqrt(pi / 2) times the largest relative error of a tail."""
        error = np.exp(self._log_error - self.log_scale)
        with np.errstate(invalid="ignore"):
            below, above = np.cumsum(error) / self.below[1:], np.cumsum(error[::-1])[::-1] / self.above[:-1]
        half, least = 0.5 * self.total, FLOOR * self.total
        kept = [float(error.sum()) / self.total]
        kept += [*below[(self.below[1:] > least) & (self.below[:-1] < half)]]
        kept += [*above[(self.above[:-1] > least) & (self.above[1:] < half)]]
        return _SQRT_HALF_PI * (max(kept) + kept[0])

    def tails(self, w: Array) -> tuple[Array, Array, Array]:
        """The smaller tail probability at each w inside the edges, its side (-1 or 1), and the height there."""
        j = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, self.edges.size - 2)
        a, b = self.edges[j], self.edges[j + 1]
        left = self.below[j] + self.below[j + 1] < self.total
        start = np.where(left, a, w)
        half = 0.5 * np.where(left, w - a, b - w)
        points = np.concatenate([(start + half)[:, None] + half[:, None] * _NODES, w[:, None]], axis=1)
        g = self.height(points.ravel()).reshape(points.shape) - self.log_scale
        # a sum and not a matrix product, which may round one point and many points differently
        part = half * (np.exp(g[:, :-1]) * _WEIGHTS).sum(axis=1)
        p = (np.where(left, self.below[j], self.above[j + 1]) + part) / self.total
        return p, np.where(left, -1.0, 1.0), g[:, -1] + self.log_scale - self.log_mass

    def scores(self, w: Array) -> Array:
        """Scores of points whose tail is above the floor."""
        from scipy.special import ndtri

        p, side, _ = self.tails(w)
        return np.asarray(-side * ndtri(p))

    @cached_property
    def _knots(self) -> tuple[Array, Array, Array]:
        """Scores of the edges; and places with rough scores, many in a panel, to start a search from."""
        from scipy.special import ndtri

        half = 0.5 * np.diff(self.edges)[:, None]
        part = half * (np.exp(self._g - self.log_scale) @ _CUMULATIVE.T)
        w = 0.5 * (self.edges[:-1] + self.edges[1:])[:, None] + half * _NODES
        low, high = self.below[:-1, None] + part, self.above[:-1, None] - part
        low = np.clip(low, self.below[:-1, None], self.below[1:, None]) / self.total
        high = np.clip(high, self.above[1:, None], self.above[:-1, None]) / self.total
        rough = np.where(low < high, ndtri(low), -ndtri(high)).ravel()
        ends = np.where(self.below < self.above, ndtri(self.below / self.total), -ndtri(self.above / self.total))
        return ends, np.maximum.accumulate(rough), w.ravel()

    def places(self, z: Array) -> Array:
        """The w with score z, inverse of `scores`, for |z| at most that of the floor."""
        from scipy.special import ndtri

        ends, rough, at = self._knots
        j = np.clip(np.searchsorted(ends, z, side="right") - 1, 0, ends.size - 2)

        def look(which: Index, w: Array) -> Look:
            p, side, g = self.tails(w)
            found = -side * ndtri(p)
            miss = found - z[which]
            # dz/dw = density / phi(z)
            move = -miss * np.exp(-0.5 * found * found - g) / math.sqrt(2.0 * math.pi)
            close = (np.abs(miss) < 1e-7) & (np.abs(move) < 1e-6)
            empty = np.isneginf(g)
            return Look(miss, move, close, empty, empty)

        return invert(look, self.edges[j], self.edges[j + 1], np.interp(z, rough, at))[0]


class _Leaves(NamedTuple):
    """Panels side by side: edges, heights at the nodes, log masses and log errors."""

    left: Array
    right: Array
    g: Array
    log_mass: Array
    log_error: Array

    def chosen(self, which: Mask | Index) -> _Leaves:
        return _Leaves(*(part[which] for part in self))

    def joined(self, other: _Leaves) -> _Leaves:
        return _Leaves(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def _halved(height: Height, edges: Array, tolerance: float, name: str, grain: Grain | None) -> _Leaves:
    """Panels that are good enough, from left to right."""
    a, b = edges[:-1], edges[1:]
    g = log_mass = np.empty(0)
    done: _Leaves | None = None
    scale = -math.inf
    for _ in range(_LEVELS):
        middle = 0.5 * (a + b)
        left, right = np.stack([a, middle], axis=1).ravel(), np.stack([middle, b], axis=1).ravel()
        if log_mass.size:
            half_g, half_mass = _rule(height, left, right)
        else:  # the first time, panels and halves in one call
            both_g, both_mass = _rule(height, np.concatenate([a, left]), np.concatenate([b, right]))
            (g, half_g), (log_mass, half_mass) = np.split(both_g, [a.size]), np.split(both_mass, [a.size])
        scale = max(scale, float(half_mass.max()))
        pair = np.exp(half_mass - scale).reshape(-1, 2).sum(axis=1)
        error = np.abs(pair - np.exp(log_mass - scale))
        small = error <= tolerance * _smaller_tail(a, pair, scale, done)
        if not small.all() and grain is not None:
            # rounding of the readings: the height changes by this much from one float to the next
            rounding = _span(g) / (b - a) * grain(middle) + 1e-15 * (1.0 + np.abs(log_mass))
            small |= error <= 8.0 * pair * rounding
        small |= (b - a) <= 256.0 * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        with np.errstate(divide="ignore"):
            log_error = np.repeat(np.log(error / np.where(pair > 0.0, pair, 1.0)), 2) + half_mass
        halves, kept = _Leaves(left, right, half_g, half_mass, log_error), np.repeat(small, 2)
        good, going = halves.chosen(kept), halves.chosen(~kept)
        done = good if done is None else done.joined(good)
        if not going.left.size:
            done = done.chosen(np.argsort(done.left))
            suspect = _suspect(done, tolerance, grain)
            if not suspect.any():
                return done
            done, going = done.chosen(~suspect), done.chosen(suspect)
        if going.left.size > _MOST:
            break
        a, b, g, log_mass, _ = going
    raise NumericalError(
        f"{name} cannot be integrated to the accuracy asked for (it jumps or oscillates too often); ask for less"
    )


def _suspect(panels: _Leaves, tolerance: float, grain: Grain | None) -> Mask:
    """Panels that do not continue each other.

    A jump, or the slope of a narrow peak, between an edge and the node next to it is seen by neither a panel
    nor its halves. But then the polynomials on both sides of the edge disagree there.
    """
    out = np.zeros(panels.left.size, dtype=bool)
    scale = float(panels.log_mass.max())
    mass, size = np.exp(panels.log_mass - scale), panels.right - panels.left
    wide = np.maximum(size[1:], size[:-1])
    with np.errstate(all="ignore"):
        ends = panels.g @ _ENDS
        here, there = ends[:-1, 1], ends[1:, 0]
        # No node is nearer to an edge than 0.0053 of the panel.
        at_stake = np.abs(np.exp(here - scale) - np.exp(there - scale)) * 0.006 * wide
        tail = np.minimum(np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[::-1][1:])
        torn = (np.abs(here - there) > 1e-8) & (at_stake > tolerance * np.maximum(tail, FLOOR * mass.sum()))
        if torn.any() and grain is not None:
            slope = _span(panels.g) / size
            torn &= np.abs(here - there) > 8.0 * np.maximum(slope[1:], slope[:-1]) * grain(panels.left[1:])
    torn &= wide > 512.0 * np.spacing(np.abs(panels.left[1:]))
    out[:-1] |= torn
    out[1:] |= torn
    return out


def _span(g: Array) -> Array:
    """How much the height changes in each panel, -inf left out."""
    return np.asarray(np.ptp(np.where(np.isfinite(g), g, g.max(axis=1, keepdims=True)), axis=1))


def _rule(height: Height, a: Array, b: Array) -> tuple[Array, Array]:
    """Heights at the nodes of each panel, and the logarithm of its mass."""
    half = 0.5 * (b - a)
    g = height(((0.5 * (a + b))[:, None] + half[:, None] * _NODES).ravel()).reshape(-1, _NODES.size)
    top = g.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return g, top + np.log(np.exp(g - top[:, None]) @ _WEIGHTS) + np.log(half)


def _smaller_tail(a: Array, pair: Array, scale: float, done: _Leaves | None) -> Array:
    """The smaller of the masses up to and from each panel, itself included, but not less than the floor."""
    starts, mass = a, pair
    if done is not None:
        starts, mass = np.concatenate([a, done.left]), np.concatenate([pair, np.exp(done.log_mass - scale)])
    order = np.argsort(starts)
    sorted_mass = mass[order]
    tail = np.empty(starts.size)
    tail[order] = np.minimum(np.cumsum(sorted_mass), np.cumsum(sorted_mass[::-1])[::-1])
    return np.asarray(np.maximum(tail[: a.size], FLOOR * sorted_mass.sum()))


# Coordinates -------------------------------------------------------------------------------------------


LARGEST = 1e300
"""Readings beyond this are not looked at."""

REACH = 690.0
"""Nor is |u| beyond this on a stretched support: x - low is no longer a float of full precision."""


class Stretch(NamedTuple):
    """The map from the whole line to the open interval (low, high).

    >>> Stretch(0.0, math.inf).x(np.array([0.0, 1.0])).round(6).tolist()
    [1.0, 2.718282]
    >>> Stretch(0.0, 4.0).u(np.array([2.0])).tolist()
    [0.0]
    """

    low: float = -math.inf
    high: float = math.inf

    @property
    def line(self) -> bool:
        """Whether nothing is stretched."""
        return math.isinf(self.low) and math.isinf(self.high)

    def within(self, x: Array) -> Array:
        """Brings x strictly inside, to the nearest float."""
        first = -LARGEST if math.isinf(self.low) else math.nextafter(self.low, math.inf)
        last = LARGEST if math.isinf(self.high) else math.nextafter(self.high, -math.inf)
        return np.asarray(np.minimum(np.maximum(x, first), last))

    def x(self, u: Array) -> Array:
        """Where u is, strictly inside the support."""
        low, high = self
        if self.line:
            return self.within(u)
        if math.isinf(high):
            return self.within(low + np.exp(np.minimum(u, 700.0)))
        if math.isinf(low):
            return self.within(high - np.exp(np.minimum(-u, 700.0)))
        e = np.exp(-np.abs(u))
        part = (high - low) * (e / (1.0 + e))
        return self.within(np.where(u < 0.0, low + part, high - part))

    def u(self, x: Array) -> Array:
        """The inverse of `x`."""
        low, high = self
        if self.line:
            return x
        if math.isinf(high):
            return np.asarray(np.log(x - low))
        if math.isinf(low):
            return np.asarray(-np.log(high - x))
        return np.asarray(np.log(x - low) - np.log(high - x))

    def log_slope(self, u: Array) -> Array:
        """Log dx/du."""
        low, high = self
        if self.line:
            return np.zeros(np.shape(u))
        if math.isinf(high):
            return u
        if math.isinf(low):
            return -u
        size = np.abs(u)
        return np.asarray(math.log(high - low) - size - 2.0 * np.log1p(np.exp(-size)))


class Coordinate(NamedTuple):
    """The map w -> x: first u = centre + scale sinh w, then the stretch.

    >>> c = Coordinate(Stretch(), 5.0, 2.0)
    >>> c.w(c.x(np.array([-3.0, 0.0, 0.5]))).round(12).tolist()
    [-3.0, 0.0, 0.5]
    """

    stretch: Stretch
    centre: float
    scale: float

    def x(self, w: Array) -> Array:
        """Where w is."""
        return self.stretch.x(self.centre + self.scale * np.sinh(w))

    def w(self, x: Array) -> Array:
        """The inverse of `x`."""
        return np.asarray(np.arcsinh((self.stretch.u(x) - self.centre) / self.scale))

    def log_slope(self, w: Array) -> Array:
        """Log dx/dw."""
        if self.stretch.line:
            return math.log(self.scale) + log_cosh(w)
        return self.stretch.log_slope(self.centre + self.scale * np.sinh(w)) + math.log(self.scale) + log_cosh(w)


def log_cosh(w: Array) -> Array:
    """Log cosh w, which does not overflow."""
    size = np.abs(w)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))


# A user's log-density ----------------------------------------------------------------------------------


_AT_ONCE = 65_536  # points in one call, which bounds the memory


class Asked:
    """A log-density of candidates (N,) or (D, N), checked at every call.

    `name` begins the messages: which log-density it is. What a function of our `own` raises is passed on.

    >>> import numpy as np
    >>> Asked(lambda y: -abs(y), "the log-density")(np.array([1.0, -2.0])).tolist()
    [-1.0, -2.0]
    >>> Asked(lambda y: 0.0, "the log-density")(np.array([1.0, -2.0]))
    Traceback (most recent call last):
    ...
    understudy.errors.NumericalError: the log-density gave shape () for 2 candidates; it must give (2,), one number each
    """

    __slots__ = ("_function", "_own", "name")

    def __init__(self, function: Callable[[Array], Any], name: str, own: bool = False) -> None:
        self._function, self.name, self._own = function, name, own

    def __call__(self, y: Array) -> Array:
        """The log-densities, none of them NaN or +inf."""
        f = self.search(y)
        if np.isnan(f).any():
            raise not_a_number(self.name)
        return f

    def search(self, y: Array) -> Array:
        """The same while the bulk is being looked for: far away from it NaN is allowed."""
        N = y.shape[-1]
        if N > _AT_ONCE:
            parts = [self.search(y[..., first : first + _AT_ONCE]) for first in range(0, N, _AT_ONCE)]
            return np.concatenate(parts)
        y = y.view()
        y.flags.writeable = False
        try:
            with np.errstate(all="ignore"):
                given = self._function(y)
        except Exception as error:
            if self._own:
                raise
            # Its words may hold a reading, so only its type is told.
            raise NumericalError(f"{self.name} raised {type(error).__name__}") from None
        f = np.asarray(given)
        if f.dtype.kind not in "fiu":
            raise NumericalError(f"{self.name} gave {f.dtype} values; it must give real numbers")
        if f.shape != (N,):
            rule = f"it must give ({N},), one number each"
            raise NumericalError(f"{self.name} gave shape {f.shape} for {N} candidates; {rule}")
        f = f.astype(float, copy=False)
        if (f == np.inf).any():
            raise NumericalError(
                f"{self.name} is +inf at a point of its support; a density must be finite (give support=(low, high) "
                "if that point is an end)"
            )
        return f


def not_a_number(name: str) -> NumericalError:
    """The error for a log-density that is NaN."""
    return NumericalError(
        f"{name} is not a number (NaN) at a point of its support; it must be finite there, and -inf or outside "
        "support=(low, high) where the density is zero"
    )


# The bulk ----------------------------------------------------------------------------------------------


Ask = Callable[[Array], Array]

DROP = 64.0
"""Where the density (in w) is less than e^-DROP of its peak there is nothing to integrate: 1.6e-28."""

_PEAKS = 24  # modes that are followed
_ROUNDS = 80
_DENSE = 60_000  # looks of a thorough search inside the bulk
_SHARP = 8.0  # a peak is resolved when the log-density falls by no more than this to a neighbour
_AROUND = 10.0 ** np.concatenate([np.arange(-2.0, 0.3, 0.25), np.arange(0.3, 2.0, 0.1), np.arange(2.0, 40.1, 0.5)])
_EVERYWHERE = 10.0 ** np.arange(-20.0, 20.1, 0.25)
_EVERYWHERE = np.concatenate([-_EVERYWHERE[::-1], [0.0], _EVERYWHERE])
_EDGES = np.concatenate([np.arange(0.5, 3.6, 0.5), 3.5 * 1.35 ** np.arange(1.0, 19.0)])  # in w, to 700
_EDGES = np.concatenate([-_EDGES[::-1], [0.0], _EDGES])
_FARTHEST = 10.0 ** np.arange(20.0, 300.0, 4.0)
_DIED = 24.0  # by how much the log-density must have fallen where floats end


class NowhereError(NumericalError):
    """No reading of positive density was found."""


class Hint(NamedTuple):
    """What is known of the place: a centre, a scale, readings that may be near, and how many scales to look away.

    A `thorough` search also goes through the bulk and all magnitudes in small steps, for needles.
    """

    centre: float | None = None
    scale: float | None = None
    seeds: tuple[float, ...] = ()
    reach: float = 1e20
    thorough: bool = False


class Bulk(NamedTuple):
    """A coordinate that fits the density, the edges in w of the panels to begin with, and the true support."""

    coordinate: Coordinate
    edges: Array
    support: Stretch


class _Samples:
    """Where the log-density was looked at, in order; `h` is that of u, NaN counted as -inf."""

    def __init__(self, ask: Ask, stretch: Stretch, limits: tuple[float, float]) -> None:
        self.ask, self.stretch, self.limits = ask, stretch, limits
        self.u = self.h = np.empty(0)
        self.nan = np.empty(0, dtype=bool)
        self._peaks: list[int] | None = None
        self._widths: dict[int, float] = {}

    def add(self, u: Array) -> None:
        """Looks at some more."""
        u = u[(u >= self.limits[0]) & (u <= self.limits[1])]
        if not u.size:
            return
        f = self.ask(self.stretch.x(u)) + self.stretch.log_slope(u)
        together, heights = np.concatenate([self.u, u]), np.concatenate([self.h, f])
        order = np.argsort(together, kind="stable")
        order = order[np.concatenate([[True], np.diff(together[order]) > 0.0])]
        self.u, heights = together[order], heights[order]
        self.nan = np.isnan(heights) | np.concatenate([self.nan, np.zeros(u.size, dtype=bool)])[order]
        self.h = np.where(self.nan, -np.inf, heights)
        self._peaks, self._widths = None, {}

    def peaks(self) -> list[int]:
        """Indices of the maxima that rise by more than noise above the valleys beside them, highest first."""
        if self._peaks is not None:
            return self._peaks
        h = self.h
        around = np.concatenate([[-np.inf], h, [-np.inf]])
        tops = np.flatnonzero((h > around[:-2]) & (h >= around[2:])).tolist()
        kept, valley = tops[:1], math.inf
        valleys: list[float] = []
        for before, top in pairwise(tops):
            valley = min(valley, float(h[before:top].min()))
            noise = 1.0 + 1e-9 * abs(valley)
            while kept and h[kept[-1]] - valley < noise and h[kept[-1]] <= h[top]:
                kept.pop()
                valley = min(valley, valleys.pop()) if kept else valley
            if kept and h[top] - valley < noise:
                continue  # a bump on the slope of the last
            if kept:
                valleys.append(valley)
            kept.append(top)
            valley = math.inf
        self._peaks = sorted(kept, key=lambda i: -float(h[i]))[:_PEAKS]
        return self._peaks

    def width(self, i: int) -> float:
        """The scale of the peak at index i: what it would be for a Gaussian one."""
        if i in self._widths:
            return self._widths[i]
        u, h = self.u, self.h
        smooth, cut = [], []
        for part in (slice(i, None, -1), slice(i, None)):
            fallen = np.flatnonzero((h[part] <= h[i] - 0.5) & (h[part] < h[i]))
            if fallen.size:
                distance = abs(float(u[part][fallen[0]] - u[i]))
                drop = float(h[i] - h[part][fallen[0]])
                if math.isfinite(drop):
                    smooth.append(distance / math.sqrt(2.0 * drop))
                else:
                    cut.append(distance)
        self._widths[i] = min(smooth) if smooth else max(cut, default=float(u[-1] - u[0]))
        return self._widths[i]

    def main(self) -> int:
        """The narrowest of the peaks that matter, were all of them Gaussian: its coordinate keeps the digits of all."""
        mass = {i: float(self.h[i]) + math.log(self.width(i)) for i in self.peaks()}
        return min((i for i in mass if mass[i] >= max(mass.values()) - DROP), key=self.width)

    def around(self, i: int) -> Array:
        """More places to look at around the peak at index i, at all scales."""
        distance = self.width(i) * _AROUND
        return np.concatenate([self.u[i] - distance, self.u[i] + distance])

    def sharp(self, i: int) -> bool:
        """Whether the peak at index i lies between two neighbours that are far below, yet not next to it."""
        if not 0 < i < self.u.size - 1:
            return False
        before, here, after = self.u[i - 1 : i + 2].tolist()
        drop = self.h[i] - max(self.h[i - 1], self.h[i + 1])
        return bool(drop > _SHARP) and after - before > 64.0 * math.ulp(here)

    def closer(self, i: int) -> Array:
        """Places between the neighbours of a sharp peak: evenly, and by a parabola through the three."""
        a, m, b = self.u[i - 1 : i + 2].tolist()
        fa, fm, fb = self.h[i - 1 : i + 2].tolist()
        even = np.arange(1.0, 8.0) / 8.0
        places = [a + (m - a) * even, m + (b - m) * even]
        # h = fm + p t - q t^2 with t = u - m
        left, right = (fa - fm) / (a - m), (fb - fm) / (b - m)
        q = (left - right) / (b - a)
        p = left + q * (a - m)
        if math.isfinite(q) and q > 0.0:
            top, sd = m + 0.5 * p / q, math.sqrt(0.5 / q)
            places.append(top + sd * np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
        together = np.concatenate(places)
        return np.asarray(together[(together > a) & (together < b)])


def find_bulk(ask: Ask, support: tuple[float, float], hint: Hint, name: str) -> Bulk:
    """Searches the support; `ask` gives the log-density, NaN where it has none.

    >>> bulk = find_bulk(lambda x: -0.5 * ((x - 3e5) / 1e-3) ** 2, (-math.inf, math.inf), Hint(), "it")
    >>> round(bulk.coordinate.centre, 6), round(bulk.coordinate.scale, 9)
    (300000.0, 0.001)
    """
    stretch = Stretch(*support)
    with np.errstate(all="ignore"):
        for _ in range(3):
            samples = _search(ask, stretch, hint, name)
            found = _settled(samples, name)
            if isinstance(found, Bulk):
                return found
            stretch = found  # the density ends inside the support
    raise NumericalError(f"the ends of the support of {name} were not found; give support=(low, high)")


def _search(ask: Ask, stretch: Stretch, hint: Hint, name: str) -> _Samples:
    samples = _Samples(ask, stretch, _limits(stretch, hint))
    samples.add(_first_looks(stretch, hint))
    if not np.isfinite(samples.h).any():
        raise NowhereError(f"{name} is -inf wherever it was looked at; give support=, centre= and scale=")
    _follow(samples)
    if hint.thorough:
        fit = _Fit(samples, samples.main())
        first, last = max(int(fit.alive[0]) - 1, 0), min(int(fit.alive[-1]) + 1, fit.w.size - 1)
        inside, outside = np.linspace(fit.w[first], fit.w[last], _DENSE), np.linspace(0.0, 46.0, _DENSE // 3)
        dense = np.sinh(np.concatenate([inside, -outside, outside]))
        samples.add(fit.coordinate.centre + fit.coordinate.scale * dense)
        _follow(samples)
    return samples


def _follow(samples: _Samples) -> None:
    """Closes in on every peak, and looks around it for others, until there is none left."""
    seen: list[float] = []
    enough = samples.u.size + 20_000
    for _ in range(_ROUNDS):
        peaks = samples.peaks()
        more = [samples.closer(i) for i in peaks if samples.sharp(i)]
        if not more:
            new = [i for i in peaks if not any(abs(samples.u[i] - u) <= 2.0 * samples.width(i) for u in seen)]
            more = [samples.around(i) for i in new]
            seen += samples.u[new].tolist()
        if not more or samples.u.size > enough:
            break
        samples.add(np.concatenate(more))


def _limits(stretch: Stretch, hint: Hint) -> tuple[float, float]:
    if stretch.line and hint.centre is not None and hint.scale is not None and hint.reach < 1e20:
        return hint.centre - hint.scale * hint.reach, hint.centre + hint.scale * hint.reach
    return (-LARGEST, LARGEST) if stretch.line else (-REACH, REACH)


def _first_looks(stretch: Stretch, hint: Hint) -> Array:
    """Readings of all magnitudes on both sides of the centre, or in proportion to the distance from an end."""
    centre, scale = hint.centre, hint.scale
    inside = [s for s in (*hint.seeds, *([] if centre is None else [centre])) if stretch.low < s < stretch.high]
    near = stretch.u(np.array(inside))
    if not stretch.line:
        even = np.arange(-46.0, 46.25, 0.5) + (0.0 if scale is None else math.log(scale))
        return np.concatenate([near, even, [-REACH, REACH]])
    if scale is None:
        return np.concatenate([near, _EVERYWHERE + (centre or 0.0)])
    size = scale * 10.0 ** np.arange(-3.0, math.log10(hint.reach) + 0.1, 0.25)
    return np.concatenate([near, np.array([0.0, *-size, *size]) + (centre or 0.0)])


def _settled(samples: _Samples, name: str) -> Bulk | Stretch:
    """The coordinate and its panels; or a narrower support, where the density ends inside the given one."""
    fit = _Fit(samples, samples.main())
    if samples.stretch.line:
        far = fit.coordinate.scale * _FARTHEST
        sides = [side for side, i in ((-1.0, 0), (1.0, samples.u.size - 1)) if i in fit.alive[[0, -1]]]
        if sides:
            samples.add(np.concatenate([fit.coordinate.centre + side * far for side in sides]))
            fit = _Fit(samples, samples.main())
    elif samples.width(fit.main) < 0.01:
        fit = _plain(samples, fit.main) or fit
    support, samples, coordinate, w = samples.stretch, fit.samples, fit.coordinate, fit.w
    first, last = int(fit.alive[0]), int(fit.alive[-1])
    if samples.nan[max(first - 1, 0) : last + 2].any():
        raise not_a_number(name)
    if (fit.g[[0, -1]] > fit.floor + DROP - _DIED).any():
        raise NumericalError(
            f"{name} does not die out as far as floats go, so it is not that of a density (a mistake of sign, perhaps)"
        )
    ends, limits = list(support), [float(w[max(first - 1, 0)]), float(w[min(last + 1, w.size - 1)])]
    gone = np.flatnonzero(np.isneginf(samples.h) & ~samples.nan)
    for side, inside, outside in ((0, first, gone[gone < first][-1:]), (1, last, gone[gone > last][:1])):
        if outside.size:
            x_in, x_out, real = fit.end(inside, int(outside[0]), name)
            ends[side] = x_out if real else ends[side]
            if abs(int(outside[0]) - inside) == 1:
                limits[side] = float(coordinate.w(np.array([x_in]))[0])
    if tuple(ends) != tuple(support):
        return Stretch(*ends)
    others = [(samples.u[i], samples.width(i)) for i in samples.peaks() if i != fit.main and first <= i <= last]
    marks = np.array([u + k * s for u, s in others for k in (-12.0, -3.0, 0.0, 3.0, 12.0)])
    edges = panel_edges(limits[0], limits[1], (marks - coordinate.centre) / coordinate.scale)
    return Bulk(coordinate, edges, support)


class _Fit:
    """The coordinate that belongs to one peak, the samples in it, and those that are not negligible."""

    def __init__(self, samples: _Samples, main: int) -> None:
        self.samples, self.main = samples, main
        self.coordinate = Coordinate(samples.stretch, float(samples.u[main]), samples.width(main))
        self.w = np.arcsinh((samples.u - self.coordinate.centre) / self.coordinate.scale)
        self.g = samples.h + log_cosh(self.w)
        self.floor = float(self.g.max()) - DROP
        self.alive = np.flatnonzero(self.g >= self.floor)

    def end(self, inside: int, outside: int, name: str) -> tuple[float, float, bool]:
        """Neighbouring floats between which the density ends, and True; or a place before where it is negligible.

        An end that is far from there is an underflow, such as that of log(exp(-x^2)).
        """
        stretch, coordinate = self.samples.stretch, self.coordinate
        x = stretch.x(self.samples.u[[inside, outside]])
        while True:
            between = _floats_between(x)
            if between.size == 2:
                return float(x[0]), float(x[1]), True
            f = self.samples.ask(between[1:-1])
            last = int(np.argmax(np.append(~np.isfinite(f), True)))  # how many from the inside are finite
            if last < f.size and np.isnan(f[last]):
                raise not_a_number(name)
            x = between[last : last + 2]
            u = stretch.u(between[1 : last + 2])
            w = np.arcsinh((u - coordinate.centre) / coordinate.scale)
            g = f[:last] + stretch.log_slope(u[:last]) + log_cosh(w[:last])
            dead = int(np.argmin(np.append(g >= self.floor, False)))
            if dead < last and abs(w[-1] - w[dead]) > 0.01:
                return float(between[dead + 1]), float(x[1]), False


def _floats_between(x: Array) -> Array:
    """The two, and up to 63 between them that are evenly spaced when floats are counted."""
    for _ in range(6):
        low, high = np.minimum(x[:-1], x[1:]), np.maximum(x[:-1], x[1:])
        woven = np.empty(2 * x.size - 1)
        woven[::2], woven[1::2] = x, middle_float(low, high)
        x = woven[np.concatenate([[True], np.diff(woven) != 0.0])]
    return x


def _plain(samples: _Samples, main: int) -> _Fit | None:
    """The fit of a narrow bulk on the plain line, if it is far from the ends: log(x - low) has lost digits there."""
    plain = _Samples(samples.ask, Stretch(), (-LARGEST, LARGEST))
    plain.u, distinct = np.unique(samples.stretch.x(samples.u), return_index=True)
    plain.h = np.where(np.isneginf(samples.h), -np.inf, samples.h - samples.stretch.log_slope(samples.u))[distinct]
    plain.nan = samples.nan[distinct]
    fit = _Fit(plain, int(np.searchsorted(plain.u, samples.stretch.x(samples.u[[main]])[0])))
    return fit if fit.alive[0] > 0 and fit.alive[-1] < plain.u.size - 1 else None


def panel_edges(low: float, high: float, marks: Array) -> Array:
    """Edges in w from low to high: even in the middle, wider and wider in the tails; and marks (sinh w)."""
    together = np.unique(np.concatenate([_EDGES, np.arcsinh(marks)])) if marks.size else _EDGES
    return np.concatenate([[low], together[(together > low) & (together < high)], [high]])
