"""A law given by its log-density and nothing else; c.d.f.s and their inverses are computed.

`FromDensity` is the law. Its parts, from the bottom up:

- `LogDensity`: a user's function, called with care: what it may do wrong is named, and no reading is.
- `Stretch` and `Coordinate`: coordinates in which any density of one number is tame. A support (low, high) is first
  stretched to the whole line: u = x, log(x - low), -log(high - x), or the logit of the place between both ends. A
  pole or a power of the density at an end becomes an exponential there. Then u = centre + scale sinh w brings the bulk
  to |w| < 1 or so and makes every power of a tail an exponential too.
- `refine`: the log-density as polynomials in w, on panels that are cut until each is good enough. A panel is cut
  in the middle, and around the place where its highest values point to a peak: even a thousand standard deviations
  off a log-density has a slope, and a parabola through three points finds a Gaussian peak at once.
- `find_bulk`: where the mass is. Nothing is known beforehand: the scale may be 1e-12 or 1e12, and there may be several
  modes. Panels of all magnitudes are refined, roughly, and the peaks that they show give the coordinate. What is so
  narrow that no look ever fell on its slopes stays unseen; the mass that is then missing is noticed later.
- `Line`: a law of one number. The panels are refined until the error of each is small beside the smaller of the two
  tails that it belongs to: so both tails keep their relative accuracy, down to `FLOOR`. The mass is added up from both
  ends for the same reason, and between an edge and a reading the density is integrated by a Gauss-Legendre rule.
  Beyond `FLOOR` the tail is integrated from the log-density outward, by the arithmetic of `scalar`.
- `integrals`: many integrals of one number at once, each integrand with a place and a scale of its own. The trapezoidal
  rule in w converges faster than any power of its step for smooth integrands that die out at both ends, and needs
  about sixty looks for twelve digits. It wants a centre and a scale that fit, so a coarse rule first moves both to
  where it sees the mass.
- `Nest`: several numbers. The law of the first is that of its marginal density, the law of the second given the first
  that of a marginal density with the first fixed, and so on: the triangular map of any joint density. The later
  numbers are integrated out, one inside the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Mask, Numbers
from understudy.errors import LawError, NumericalError
from understudy.laws.gaussian import solve_lower
from understudy.laws.law import channels, check_inside, check_reached, to_shape, until_missing
from understudy.laws.mixture import Look, invert, middle_float
from understudy.laws.scalar import Density, quantiles, scores

# A user's log-density ----------------------------------------------------------------------------------


_AT_ONCE = 65_536  # points in one call, which bounds the memory


class LogDensity(NamedTuple):
    """A log-density of candidates (N,) or (D, N), checked at every call.

    `name` begins the messages: which log-density it is. What a function of our `own` raises is passed on.

    >>> import numpy as np
    >>> LogDensity(lambda y: -abs(y), "the log-density")(np.array([1.0, -2.0])).tolist()
    [-1.0, -2.0]
    >>> LogDensity(lambda y: 0.0, "the log-density")(np.array([1.0, -2.0]))
    Traceback (most recent call last):
    ...
    understudy.errors.NumericalError: the log-density gave shape () for 2 candidates; it must give (2,), one number each
    """

    function: Callable[[Array], Any]
    name: str
    own: bool = False

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
            return np.concatenate([self.search(y[..., k : k + _AT_ONCE]) for k in range(0, N, _AT_ONCE)])
        y = y.view()
        y.flags.writeable = False
        try:
            with np.errstate(all="ignore"):
                f = np.asarray(self.function(y))
        except Exception as error:
            if self.own:
                raise
            # Its words may hold a reading, so only its type is told.
            raise NumericalError(f"{self.name} raised {type(error).__name__}") from None
        if f.dtype.kind not in "fiu":
            raise NumericalError(f"{self.name} gave {f.dtype} values; it must give real numbers")
        if f.shape != (N,):
            rule = f"it must give ({N},), one number each"
            raise NumericalError(f"{self.name} gave shape {f.shape} for {N} candidates; {rule}")
        if (f == np.inf).any():
            raise NumericalError(
                f"{self.name} is +inf at a point of its support; a density must be finite (give support=(low, high) "
                "if that point is an end)"
            )
        return f.astype(float, copy=False)


def not_a_number(name: str) -> NumericalError:
    """The error for a log-density that is NaN."""
    return NumericalError(
        f"{name} is not a number (NaN) at a point of its support; it must be finite there, and -inf or outside "
        "support=(low, high) where the density is zero"
    )


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

    def holds(self, x: Array) -> Mask:
        """Which are strictly inside."""
        return np.asarray((x > self.low) & (x < self.high))

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
        above = 0.0 if math.isinf(low) else np.log(x - low)
        below = 0.0 if math.isinf(high) else np.log(high - x)
        return np.asarray(above - below)

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
        return self.w_of_u(self.stretch.u(x))

    def w_of_u(self, u: Array) -> Array:
        """The inverse of the first map."""
        return np.asarray(np.arcsinh(np.clip((u - self.centre) / self.scale, -LARGEST, LARGEST)))

    def log_slope(self, w: Array) -> Array:
        """Log dx/dw."""
        return self.stretch.log_slope(self.centre + self.scale * np.sinh(w)) + math.log(self.scale) + log_cosh(w)

    def grain(self, w: Array) -> Array:
        """The distance in w from one float to the next, be it of x or of w."""
        return np.spacing(np.abs(self.x(w))) * np.exp(-self.log_slope(w)) + np.spacing(np.abs(w))


def log_cosh(w: Array) -> Array:
    """Log cosh w, which does not overflow."""
    size = np.abs(w)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))


# Polynomials on panels ---------------------------------------------------------------------------------


Height = Callable[[Array], Array]
"""Log-density of the coordinate w."""

_N = 16  # degree
_NODES = -np.cos(np.pi * np.arange(_N + 1) / _N)  # both ends of a panel are nodes, so that no jump hides beside an edge
_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(_N)
_TERMS = np.linalg.inv(np.polynomial.chebyshev.chebvander(_NODES, _N)).T
_AT_GAUSS = _TERMS @ np.polynomial.chebyshev.chebvander(_GAUSS, _N).T
_MOST = 20_000
_ABYSS = 1e3  # nats, for a density of zero
_CUTS = np.array([-6.0, -1.5, 1.5, 6.0])  # around a peak, in its widths


class Panels(NamedTuple):
    """Panels side by side."""

    left: Array
    right: Array
    g: Array
    """Heights at the nodes, (P, 17)."""
    top: Array
    """The highest node of each."""
    span: Array
    """How much the height changes in each, -inf left out."""
    error: Array
    """Error of the polynomial: infinite where the density is zero at some of the nodes."""

    @property
    def log_width(self) -> Array:
        """Logarithm of the widths."""
        return np.log(self.right - self.left)

    def select(self, which: Mask | Index) -> Panels:
        """Some of them."""
        return Panels(*(part[which] for part in self))


def _look(height: Height, left: Array, right: Array) -> Panels:
    half = 0.5 * (right - left)[:, None]
    w = 0.5 * (left + right)[:, None] + half * _NODES
    w[:, 0], w[:, -1] = left, right
    g = height(w.ravel()).reshape(w.shape)
    known, top = np.isfinite(g), g.max(axis=1)
    there = known.all(axis=1)
    error = np.abs(np.where(known, g, 0.0) @ _TERMS[:, -3:]).max(axis=1)
    span = top - np.where(known, g, np.inf).min(axis=1)
    # where the density is zero at some nodes there is no polynomial, and none is needed where it is zero at all
    return Panels(left, right, g, top, span, np.where(there, error, np.where(known.any(axis=1), np.inf, 0.0)))


def refine(height: Height, edges: Array, bad: Callable[[Panels], Mask], most: int) -> Panels | None:
    """Panels from the first to the last edge, the bad ones cut again and again; None if there are too many.

    >>> peak = lambda w: -0.5 * ((w - 0.3) / 1e-6) ** 2
    >>> panels = refine(peak, np.array([-1.0, 1.0]), lambda p: (p.top > p.top.max() - 9.0) & (p.span > 9.0), 200)
    >>> round(float(panels.top.max()), 1) + 0.0
    0.0
    """
    panels = _look(height, edges[:-1], edges[1:])
    while (wrong := bad(panels)).any():
        if panels.left.size + wrong.sum() > most:
            return None
        more = _look(height, *_cut(panels.select(wrong)))
        joined = Panels(*(np.concatenate(pair) for pair in zip(panels.select(~wrong), more, strict=True)))
        panels = joined.select(np.argsort(joined.left))
    return panels


def _peaks(panels: Panels) -> tuple[Array, Array, Array]:
    """Where the highest node and its neighbours point to: place and width in a panel (-1, 1), and height."""
    top = np.argmax(panels.g, axis=1)
    rows, at = np.arange(top.size), np.clip(top, 1, _N - 1)
    # the parabola f0 + p (t - t0) - q (t - t0) (t - t1)
    t0, t1, t2 = (_NODES[at + i] for i in (-1, 0, 1))
    f0, f1, f2 = (panels.g[rows, at + i] for i in (-1, 0, 1))
    p = (f1 - f0) / (t1 - t0)
    q = (p - (f2 - f1) / (t2 - t1)) / (t2 - t0)
    place = 0.5 * (t0 + t1) + 0.5 * p / q
    height = f0 + (place - t0) * (p - q * (place - t1))
    # it may be higher, since a density is no parabola
    height += height - panels.top
    # and there is no peak at an end from which the next panel rises
    slope = (top == 0) & np.append(True, top[:-1] != _N) | (top == _N) & np.append(top[1:] != 0, True)
    there = (place > t0) & (place < t2) & (q > 0.0) & np.isfinite(height) & ~slope
    return place, np.where(there, np.sqrt(0.5 / q), np.nan), np.where(there, height, panels.top)


def _cut(panels: Panels) -> tuple[Array, Array]:
    """Left and right edges of the parts of panels."""
    place, width, _ = _peaks(panels)
    steep = panels.span > _STEEP
    width[(width > 0.5) | ~steep] = np.nan
    cuts = [np.zeros(place.size), *(place + width * cut for cut in _CUTS)]
    # equal falls where it is steep; otherwise around the place where the slope changes most, a kink or a jump
    g = np.where(np.isneginf(panels.g), panels.top[:, None] - _ABYSS, panels.g)
    slopes = np.diff(g) / np.diff(_NODES)
    bends = np.abs(np.diff(slopes)) / (_NODES[2:] - _NODES[:-2])
    at, rows = np.clip(np.argmax(bends, axis=1) + 1, 2, _N - 2), np.arange(place.size)
    levels = [np.abs(g - (panels.top - part * panels.span)[:, None]).argmin(axis=1) for part in (0.25, 0.5, 0.75)]
    cuts += [_NODES[np.where(steep, level, at + i)] for level, i in zip(levels, (-1, 1, 1), strict=True)]
    # the lines on both sides of a kink meet there
    a, b, left, right = _NODES[at - 1], _NODES[at + 1], slopes[rows, at - 2], slopes[rows, at + 1]
    cuts.append(np.where(steep, 0.0, (g[rows, at + 1] - g[rows, at - 1] + left * a - right * b) / (left - right)))
    # a needle may begin at an end
    needle = panels.g[:, [0, -1]] - panels.g[:, [1, -2]] > _STEEP
    cuts += [np.where(needle[:, i], sign * (1.0 - step), 0.0) for i, sign in enumerate((-1, 1)) for step in (0.1, 1e-3)]
    t = np.sort(np.where(np.abs(cuts) < 1.0, cuts, 0.0), axis=0)
    middle, half = 0.5 * (panels.left + panels.right), 0.5 * (panels.right - panels.left)
    edges = np.concatenate([panels.left[None], middle + half * t, panels.right[None]])
    left, right = edges[:-1].ravel(), edges[1:].ravel()
    return left[left < right], right[left < right]


# The bulk ----------------------------------------------------------------------------------------------


DROP = 64.0
"""Where the density (in w) is less than e^-DROP of its peak there is nothing to integrate: 1.6e-28."""

_STEEP = 24.0  # nats over which a Gauss-Legendre rule integrates an exponential to all digits
_ROUGH = 0.1  # nats by which a polynomial may be wrong in the search
_ROUGH_END = 7.0  # a panel with an end of the density is small enough if its mass is less than e^-7
_COUNTS = 40.0  # nats below which a mode has no mass that counts
_PEAKS = 24  # modes that are kept
_DENSE = 4000  # panels of a thorough search
_NARROW = 1e-6  # log(x - low) has lost digits where the bulk is narrower
_FALLS = (15.0, 30.0, 45.0, 57.0)  # nats, where panels end so that none is steep
_DIED = 24.0  # by how much the log-density must have fallen where floats end
# in w, to 700; in between so that no panel of a Gaussian density is steep
_EDGES = np.concatenate([[0.5, 1.0, 1.5, 2.0, 2.4, 2.7, 2.9, 3.1], 3.5 * 1.6 ** np.arange(0.0, 12.0)])
_EDGES = np.concatenate([-_EDGES[::-1], [0.0], _EDGES])


class NowhereError(NumericalError):
    """No reading of positive density was found."""


class Hint(NamedTuple):
    """What is known of the place: a centre, a scale, and readings that may be near.

    A `thorough` search also goes through the bulk in small steps, for needles.
    """

    centre: float | None = None
    scale: float | None = None
    near: tuple[float, ...] = ()
    thorough: bool = False


class Bulk(NamedTuple):
    """A coordinate that fits the density, the edges in w of the panels to begin with, and the true support."""

    coordinate: Coordinate
    edges: Array
    support: Stretch

    def height(self, function: LogDensity) -> Height:
        """The log-density of w, from that of x."""
        return lambda w: function(self.coordinate.x(w)) + self.coordinate.log_slope(w)


class _Samples(NamedTuple):
    """Where the log-density was looked at, in order; `h` is that of u, -inf where it is NaN."""

    u: Array
    h: Array
    nan: Mask

    def peaks(self) -> list[int]:
        """Indices of the maxima that rise by more than noise above the valleys beside them."""
        h = self.h
        around = np.concatenate([[-np.inf], h, [-np.inf]])
        tops = np.flatnonzero((h > around[:-2]) & (h >= around[2:]))
        tops = np.sort(tops[np.argsort(-h[tops])[: 4 * _PEAKS]])
        while tops.size > 1:
            valleys = np.minimum.reduceat(h, tops)[:-1]
            highest = np.maximum(np.append(-np.inf, valleys), np.append(valleys, -np.inf))
            rise = h[tops] - highest - 1e-9 * np.where(np.isfinite(highest), np.abs(highest), 0.0)
            if rise.min() >= 1.0:
                break
            tops = np.delete(tops, int(np.argmin(rise)))
        return [int(i) for i in tops[np.argsort(-h[tops])[:_PEAKS]]]

    def width(self, i: int) -> float:
        """The scale of the peak at index i: what it would be for a Gaussian one."""
        falls = []
        for part in (slice(i, None, -1), slice(i, None)):
            drop = self.h[i] - self.h[part]
            low = np.flatnonzero((drop >= 0.5) & (drop > 0.0))
            falls += [(abs(float(self.u[part][j] - self.u[i])), float(drop[j])) for j in low[:1]]
        smooth = [distance / math.sqrt(2.0 * drop) for distance, drop in falls if math.isfinite(drop)]
        return min(smooth) if smooth else max((distance for distance, _ in falls), default=float(np.ptp(self.u)))

    def widths(self) -> dict[int, float]:
        """The peaks with their widths; first the narrowest of those that matter: it keeps the digits of all."""
        widths = {i: self.width(i) for i in self.peaks()}
        mass = {i: float(self.h[i]) + math.log(width) for i, width in widths.items()}
        main = min((i for i in mass if mass[i] >= max(mass.values()) - DROP), key=widths.__getitem__)
        return {main: widths.pop(main), **widths}


def find_bulk(function: LogDensity, support: Stretch, hint: Hint) -> Bulk:
    """Searches the support.

    >>> function = LogDensity(lambda x: -0.5 * ((x - 3e5) / 1e-3) ** 2, "it")
    >>> bulk = find_bulk(function, Stretch(), Hint())
    >>> round(bulk.coordinate.centre, 6), round(bulk.coordinate.scale, 4)
    (300000.0, 0.001)
    """
    with np.errstate(all="ignore"):
        for _ in range(3):
            bulk = _search(function, support, hint)
            if bulk.support == support:
                return bulk
            support = bulk.support  # the density ends inside the support
    raise NumericalError(f"the ends of the support of {function.name} were not found; give support=(low, high)")


def _looks(function: LogDensity, coordinate: Coordinate, edges: Array) -> _Samples:
    """Panels are refined wherever the density is not negligible; all that was seen on the way."""
    seen: list[tuple[Array, Array]] = []

    def height(w: Array) -> Array:
        u = coordinate.centre + coordinate.scale * np.sinh(w)
        f = function.search(coordinate.stretch.x(u)) + coordinate.stretch.log_slope(u)
        seen.append((u, f))
        return np.where(np.isnan(f), -np.inf, f + math.log(coordinate.scale) + log_cosh(w))

    def bad(panels: Panels) -> Mask:
        size = panels.top + panels.log_width
        mixed = np.isinf(panels.error)
        _, width, height = _peaks(panels)
        alive = height + panels.log_width > size.max() - _COUNTS
        coarse = np.where(mixed, size > size.max() - _ROUGH_END, panels.error > _ROUGH)
        coarse |= (panels.span > _STEEP) & (width > 0.0)
        return np.asarray(alive & coarse & (panels.right - panels.left > 64.0 * coordinate.grain(panels.left)))

    refine(height, edges, bad, _MOST)
    u, h = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    u, first = np.unique(u, return_index=True)
    return _Samples(u, np.where(np.isnan(h), -np.inf, h)[first], np.isnan(h)[first])


def _edges(low: float, high: float, marks: Array) -> Array:
    """Edges in w from low to high: even in the middle, wider and wider in the tails; and marks."""
    together = np.unique(np.concatenate([_EDGES, marks]))
    return np.concatenate([[low], together[(together > low) & (together < high)], [high]])


def _search(function: LogDensity, support: Stretch, hint: Hint) -> Bulk:
    limit = LARGEST if support.line else REACH
    near = np.array([x for x in (hint.centre, *hint.near) if x is not None])
    near = support.u(near[support.holds(near)])
    centre = 0.0 if hint.centre is None or not near.size else float(near[0])
    rough = Coordinate(support, centre, hint.scale if hint.scale is not None and support.line else 1.0)
    ends = rough.w_of_u(np.array([-limit, limit])).tolist()
    samples = _looks(function, rough, _edges(ends[0], ends[1], rough.w_of_u(near)))
    if not np.isfinite(samples.h).any():
        raise NowhereError(f"{function.name} is -inf wherever it was looked at; give support=, centre= and scale=")
    if hint.thorough:
        main, width = next(iter(samples.widths().items()))
        fine = Coordinate(support, float(samples.u[main]), width)
        low, high = np.clip(fine.w_of_u(np.array([-limit, limit])), -46.0, 46.0).tolist()
        dense = np.linspace(low, high, _DENSE)
        more = _looks(function, fine, np.unique(np.concatenate([dense, fine.w_of_u(near)])))
        u, distinct = np.unique(np.concatenate([samples.u, more.u]), return_index=True)
        samples = _Samples(u, *(np.concatenate(pair)[distinct] for pair in zip(samples[1:], more[1:], strict=True)))
    return _fit(function, support, samples)


def _fit(function: LogDensity, support: Stretch, samples: _Samples) -> Bulk:
    """The coordinate of the main peak, and panels for all that is not negligible."""
    (main, width), *others = samples.widths().items()
    coordinate = Coordinate(support, float(samples.u[main]), width)
    if not support.line and width < _NARROW:
        x, slope = support.x(samples.u[[main]]), support.log_slope(samples.u[[main]])
        hint = Hint(float(x[0]), width * math.exp(float(slope[0])))
        return _search(function, Stretch(), hint)._replace(support=support)
    w = coordinate.w_of_u(samples.u)
    g = samples.h + log_cosh(w)
    alive = np.flatnonzero(g >= g.max() - DROP)
    first, last = int(alive[0]), int(alive[-1])
    if samples.nan[max(first - 1, 0) : last + 2].any():
        raise not_a_number(function.name)
    if (g[[0, -1]] > g.max() - _DIED).any():
        raise NumericalError(
            f"{function.name} does not die out as far as floats go, so it is not that of a density (a mistake of "
            "sign, perhaps)"
        )
    ends, limits = list(support), [w[max(first - 1, 0)], w[min(last + 1, w.size - 1)]]
    gone = np.flatnonzero(np.isneginf(samples.h) & ~samples.nan)
    for side, i, outside in ((0, first, gone[gone < first][-1:]), (1, last, gone[gone > last][:1])):
        # otherwise an underflow, such as that of log(exp(-x^2))
        if outside.size and abs(w[outside[0]] - w[i]) < 0.1:
            x_in, ends[side] = _end(function, *support.x(samples.u[[i, outside[0]]]).tolist())
            limits[side] = coordinate.w(np.array([x_in]))[0]
    marks = [samples.u[i] + k * each for i, each in others if first <= i <= last for k in (-12.0, -3.0, 0.0, 3.0, 12.0)]
    falls = [w[np.flatnonzero(g >= g.max() - fall)[[0, -1]]] for fall in _FALLS]
    edges = _edges(limits[0], limits[1], np.concatenate([coordinate.w_of_u(np.array(marks)), *falls]))
    return Bulk(coordinate, edges, Stretch(*ends))


def _end(function: LogDensity, inside: float, outside: float) -> tuple[float, float]:
    """Neighbouring floats between which the density ends."""
    while True:
        middle = middle_float(np.array([min(inside, outside)]), np.array([max(inside, outside)]))
        if middle[0] in (inside, outside):
            return inside, outside
        f = float(function(middle)[0])
        inside, outside = (float(middle[0]), outside) if f > -math.inf else (inside, float(middle[0]))


# One number -------------------------------------------------------------------------------------------


FLOOR = 1e-16
"""The tail probability down to which panels are used; |z| is 8.2 there."""

_FLOATS = 4096.0  # a bulk must be wider than so many floats
_DEEP = 8.0  # |z| up to which values come from the panels, inside their floor
_NO_POLYNOMIAL = 0.01  # nats; where a polynomial is worse (its panel does not matter) a constant stands for it


class Line:
    """The law of one number whose log-density, up to a constant, is `function`, with this bulk.

    `relative` is the error of the function itself; it is an error if more than `most` panels are needed.

    >>> function = LogDensity(lambda x: -0.25 * x**4, "it")
    >>> line = Line(function, find_bulk(function, Stretch(), Hint()), 1e-9)
    >>> z = line.scores(np.array([-2.0, 1.0, 20.0]))
    >>> line.quantiles(z).round(12).tolist()
    [-2.0, 1.0, 20.0]
    """

    def __init__(
        self, function: LogDensity, bulk: Bulk, accuracy: float, relative: float = 0.0, most: int = _MOST
    ) -> None:
        self.function, self.coordinate, self.support, self._relative = function, bulk.coordinate, bulk.support, relative
        if self.coordinate.grain(np.zeros(1))[0] * _FLOATS > 1.0:
            raise NumericalError(
                f"{function.name} changes over a few rounding units of a reading; take an offset off it"
            )
        with np.errstate(all="ignore"):
            panels = refine(bulk.height(function), bulk.edges, partial(self._bad, accuracy / 30.0), most)
            if panels is None:
                raise NumericalError(
                    f"{function.name} cannot be integrated to the accuracy asked for (it jumps or oscillates too "
                    "often, or the place was not found); ask for less, or give centre= and scale="
                )
            self._set(panels)

    def _set(self, panels: Panels) -> None:
        self.edges = np.append(panels.left, panels.right[-1])
        self._terms = np.where(np.isfinite(panels.g), panels.g, 0.0) @ _TERMS
        flat = panels.error > _NO_POLYNOMIAL
        self._terms[flat | np.isneginf(panels.top)] = 0.0
        self._terms[flat, 0], self._terms[np.isneginf(panels.top), 0] = panels.top[flat], -np.inf
        log_mass, loss = _masses(panels)
        self._log_scale = float(log_mass.max())
        mass, error = np.exp(log_mass - self._log_scale), np.exp(loss - self._log_scale)
        self._below, self._above = _tails(mass)
        self._total = float(mass.sum())
        self.log_mass = self._log_scale + math.log(self._total)
        least = FLOOR * self._total
        inside = (self._below[:-1] > least) & (self._above[1:] > least)
        if ((np.isneginf(panels.g).sum(axis=1) > 1) & inside).any():
            raise NumericalError(
                f"{self.function.name} is -inf on an interval inside the support: the density must be positive there, "
                "or the score would not increase (a density that underflows is to be computed in log space)"
            )
        self._loss = error

    @cached_property
    def error(self) -> float:
        """Estimated error of a score above the floor: sqrt(pi / 2) times the relative error of its tail."""
        below, above = _tails(self._loss)
        tails = np.minimum(self._below, self._above)
        there = tails > FLOOR * self._total
        share = np.where(self._below < self._above, below, above)[there] / tails[there]
        return math.sqrt(0.5 * math.pi) * float(share.max() + below[-1] / self._total + 2.0 * self._relative)

    def _bad(self, tolerance: float, panels: Panels) -> Mask:
        """Panels whose error matters beside the smaller of the tails up to and from them."""
        width = panels.right - panels.left
        log_mass, log_loss = _masses(panels)
        scale = float(log_mass.max())
        mass = np.exp(log_mass - scale)
        below, above = _tails(mass)
        allowed = tolerance * np.maximum(np.minimum(below[1:], above[:-1]), FLOOR * mass.sum())
        # rounding of the readings: the height changes by this much from one float to the next
        noise = panels.span / width * self.coordinate.grain(panels.left) + 1e-15 * (1.0 + np.abs(panels.top))
        fits = (np.exp(log_loss - scale) <= allowed) | (panels.error <= 8.0 * noise)
        steep = panels.span > _STEEP
        if steep.any():
            steep &= np.exp(_peaks(panels)[2] + panels.log_width - scale) > 100.0 * allowed
        least = 256.0 * np.spacing(np.maximum(np.abs(panels.left), np.abs(panels.right)))
        return np.asarray((steep | ~fits) & (width > least))

    def _height(self, j: Index, w: Array) -> Array:
        """The polynomials of panels j (n,) at w (n, k), by Clenshaw's recurrence."""
        a, b, terms = self.edges[j, None], self.edges[j + 1, None], self._terms[j]
        t = (2.0 * w - a - b) / (b - a)
        one = two = np.zeros(w.shape)
        for k in range(_N, 0, -1):
            one, two = 2.0 * t * one - two + terms[:, k, None], one
        return np.asarray(t * one - two + terms[:, :1])

    def _tail(self, w: Array) -> tuple[Array, Array, Array]:
        """The smaller tail probability at each w inside the edges, its side (-1 or 1), and the log-density there."""
        j = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, self.edges.size - 2)
        left = self._below[j] + self._below[j + 1] < self._total
        half = 0.5 * np.where(left, w - self.edges[j], self.edges[j + 1] - w)
        middle = np.where(left, w - half, w + half)
        g = self._height(j, np.concatenate([middle[:, None] + half[:, None] * _GAUSS, w[:, None]], axis=1))
        # a sum and not a matrix product, which may round one point and many points differently
        part = half * (np.exp(g[:, :-1] - self._log_scale) * _WEIGHTS).sum(axis=1)
        p = (np.where(left, self._below[j], self._above[j + 1]) + part) / self._total
        return p, np.where(left, -1.0, 1.0), g[:, -1] - self.log_mass

    def scores(self, x: Array) -> Array:
        """Scores; infinite outside the support, NaN where x is, or where a tail cannot be computed."""
        from scipy.special import ndtri

        z = np.where(np.isnan(x), np.nan, np.where(x <= self.support.low, -np.inf, np.inf))
        inside = np.flatnonzero(self.support.holds(x))
        with np.errstate(all="ignore"):
            w = self.coordinate.w(x[inside])
            near = np.flatnonzero((w > self.edges[0]) & (w < self.edges[-1]))
            if near.size:
                p, side, _ = self._tail(w[near])
                z[inside[near]] = np.where(p > FLOOR, 0.0 - side * ndtri(p), np.nan)
                inside = np.concatenate([np.delete(inside, near), inside[near[p <= FLOOR]]])
            if inside.size:
                z[inside] = scores(self._density, x[inside])
        return z

    def quantiles(self, z: Array) -> Array:
        """The inverse of `scores`; NaN where it cannot be computed."""
        x = np.full(z.shape, np.nan)
        near, far = np.flatnonzero(np.abs(z) <= _DEEP), np.flatnonzero(np.abs(z) > _DEEP)
        with np.errstate(all="ignore"):
            if near.size:
                x[near] = self.support.within(self.coordinate.x(self._places(z[near])))
            if far.size:
                x[far] = quantiles(self._density, z[far])
        return x

    @cached_property
    def _edge_scores(self) -> Array:
        from scipy.special import ndtri

        below, above = self._below / self._total, self._above / self._total
        return np.asarray(np.where(below < above, ndtri(below), -ndtri(above)))

    def _places(self, z: Array) -> Array:
        """The w with score z, for |z| at most that of the floor."""
        from scipy.special import ndtri

        ends = self._edge_scores
        j = np.clip(np.searchsorted(ends, z, side="right") - 1, 0, ends.size - 2)

        def look(which: Index, w: Array) -> Look:
            p, side, g = self._tail(w)
            score = -side * ndtri(p)
            miss = score - z[which]
            # dz/dw = density / phi(z)
            move = -miss * np.exp(-0.5 * score * score - g) / math.sqrt(2.0 * math.pi)
            close = (np.abs(miss) < 1e-7) & (np.abs(move) < 1e-6)
            return Look(miss, move, close, np.isneginf(g), np.isneginf(g))

        share = np.clip((z - ends[j]) / (ends[j + 1] - ends[j]), 0.0, 1.0)
        start = self.edges[j] + np.where(np.isfinite(share), share, 0.5) * (self.edges[j + 1] - self.edges[j])
        return invert(look, self.edges[j], self.edges[j + 1], start)[0]

    def logpdf(self, x: Array) -> Array:
        """Log-density, normalised; -inf outside the support."""
        out = np.where(np.isnan(x), np.nan, -np.inf)
        inside = self.support.holds(x)
        if inside.any():
            out[inside] = self.function(x[inside]) - self.log_mass
        return out

    @cached_property
    def _density(self) -> Density:
        """The same law for the arithmetic of the tails."""
        from scipy.special import ndtri

        def logpdf(x: Array) -> Array:
            inside = self.support.holds(x) & np.isfinite(x)
            out = np.where(inside, 0.0, -np.inf)
            if inside.any():
                out[inside] = self.function.search(x[inside]) - self.log_mass
            return out

        def probability(tail: float, x: Array) -> Array:
            w = np.clip(self.coordinate.w(x), *self.edges[[0, -1]])
            p, side, _ = self._tail(w)
            return np.where(side == tail, p, 1.0 - p)

        def quantile(tail: float, q: Array) -> Array:
            return self.coordinate.x(self._places(-tail * ndtri(q)))

        cdf, sf, ppf, isf = (partial(f, tail) for f in (probability, quantile) for tail in (-1.0, 1.0))
        return Density(logpdf, cdf, sf, ppf, isf, self.support.low, self.support.high, reach=1e-15)


def _masses(panels: Panels) -> tuple[Array, Array]:
    """Logarithms of the masses of panels, and of what their errors may amount to."""
    known = np.isfinite(panels.g)
    top = np.where(np.isfinite(panels.top), panels.top, 0.0)
    density = np.exp(np.where(known, panels.g - top[:, None], 0.0) @ _AT_GAUSS)
    whole = known.all(axis=1) & (panels.error < _NO_POLYNOMIAL)
    log_mass = top + np.log(np.where(whole, density @ _WEIGHTS, 2.0)) + np.log(0.5 * (panels.right - panels.left))
    log_mass = np.where(np.isneginf(panels.top), -np.inf, log_mass)
    # where there is no polynomial all of the mass is uncertain, and more if the highest node is not the highest point
    excess = np.where(np.isfinite(panels.error), np.minimum(panels.error, 700.0), 0.0)
    return log_mass, log_mass + np.where(whole, np.log(panels.error), excess)


def _tails(mass: Array) -> tuple[Array, Array]:
    """What lies below and above each edge."""
    return np.concatenate([[0.0], np.cumsum(mass)]), np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])


# Many integrals at once -------------------------------------------------------------------------------


Integrand = Callable[[Index, Array], Array]
"""Log of integrand number ``which[i]`` at ``u[i]``."""

_STEP = 0.5
_FIRST, _LAST = 5.0, 640.0  # |w| to which the coarse rule goes, doubled until the integrand has died out
_DEAD = 36.0  # terms below e^-36 of the largest do not count
_MOVES = 60
_HALVINGS = 9


class Placement(NamedTuple):
    """Centres, scales, and the terms of the coarse rule: blocks of which integrands, nodes (K,) and logs (n, K)."""

    centre: Array
    scale: Array
    blocks: list[tuple[Index, Array, Array]]


def settle(integrand: Integrand, centre: Array, scale: Array, dead: float = _DEAD) -> Placement:
    """Moves centres and scales to the mass, and widens the rule until its terms are `dead` at both ends.

    >>> found = settle(lambda which, u: -0.5 * ((u - 300.0) / 0.1) ** 2, np.zeros(1), np.ones(1))
    >>> bool(abs(found.centre[0] - 300.0) < 0.1), bool(0.05 < found.scale[0] < 0.2)
    (True, True)
    """
    centre, scale, reach = centre.copy(), scale.copy(), np.full(centre.shape, _FIRST)
    blocks = []
    todo = np.arange(centre.size)
    for turn in range(_MOVES):
        if not todo.size:
            break
        still = []
        for distance in np.unique(reach[todo]):
            which = todo[reach[todo] == distance]
            w = np.arange(-distance, distance + 0.5 * _STEP, _STEP)
            u = centre[which, None] + scale[which, None] * np.sinh(w)
            g = integrand(np.repeat(which, w.size), u.ravel()).reshape(u.shape)
            g += np.log(scale[which, None]) + log_cosh(w)
            # Where the mass lies, in nodes: quantiles of the coarse rule.
            top = g.max(axis=1)
            p = np.cumsum(np.exp(g - np.where(np.isfinite(top), top, 0.0)[:, None]), axis=1)
            low, middle, high = (np.argmax(p >= q * p[:, -1:], axis=1) for q in (0.16, 0.5, 0.84))
            off = (high - low < 2) | (np.abs(w[middle]) > 1.5)
            off &= np.isfinite(top) & (turn < _MOVES - 1)
            ends = np.maximum(g[:, 0], g[:, -1])
            wide = ~off & (ends > top - dead) & (distance < _LAST) & (turn < _MOVES - 1)
            rows, moved = np.arange(which.size), which[off]
            spread = 0.5 * (u[rows, high] - u[rows, low])
            spacing = _STEP * scale[which] * np.cosh(w[middle])
            centre[moved], scale[moved] = u[rows, middle][off], np.maximum(spread, 0.15 * spacing)[off]
            reach[moved], reach[which[wide]] = _FIRST, 2.0 * distance
            going = off | wide
            still.append(which[going])
            if not going.all():
                blocks.append((which[~going], w, g[~going]))
        todo = np.concatenate(still)
    return Placement(centre, scale, blocks)


def integrals(integrand: Integrand, centre: Array, scale: Array, tolerance: float) -> tuple[Array, Mask]:
    """Logarithms of the integrals, and which of them have not come within the tolerance.

    >>> log_mass, lost = integrals(lambda which, u: -0.5 * (u - which) ** 2, np.zeros(2), np.ones(2), 1e-12)
    >>> (np.exp(2.0 * log_mass) / (2.0 * np.pi)).round(12).tolist()
    [1.0, 1.0]
    """
    with np.errstate(all="ignore"):
        centre, scale, blocks = settle(integrand, centre, scale)
        out, lost = np.empty(centre.size), np.ones(centre.size, dtype=bool)
        for which, w, g in blocks:
            step, total, change = _STEP, _log_sum(g, _STEP), np.full(which.size, np.inf)
            for _ in range(_HALVINGS):
                between = 0.5 * (w[:-1] + w[1:])
                row, column = np.nonzero(np.maximum(g[:, :-1], g[:, 1:]) > g.max(axis=1, keepdims=True) - _DEAD)
                at, x = which[row], between[column]
                new = np.full((which.size, between.size), -np.inf)
                new[row, column] = integrand(at, centre[at] + scale[at] * np.sinh(x)) + np.log(scale[at]) + log_cosh(x)
                order = np.argsort(np.concatenate([w, between]))
                w, g = np.concatenate([w, between])[order], np.concatenate([g, new], axis=1)[:, order]
                step *= 0.5
                finer = _log_sum(g, step)
                out[which] = finer
                change, before = np.abs(finer - total), change
                # Halving the step about squares the error of a smooth integrand: it then falls faster and faster.
                ratio = np.where(np.isfinite(before), change / before, 1.0)
                done = (change <= tolerance) | ((ratio < 0.01) & (change * ratio <= tolerance)) | np.isneginf(finer)
                lost[which[done]] = False
                which, g, total, change = which[~done], g[~done], finer[~done], change[~done]
                if not which.size:
                    break
    return out, lost


def _log_sum(g: Array, step: float) -> Array:
    top = g.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(top + np.log(step * np.exp(g - top[:, None]).sum(axis=1)))


# Several numbers --------------------------------------------------------------------------------------


MOST = 4
"""Numbers that are integrated over at most, the one whose law is asked for included."""

_INNER = 0.01  # share of the accuracy for one integral
_SIDE_BY_SIDE = 4096  # integrals at once, which bounds the memory
_ROOM = REACH - 90.0  # |u| of a number, so that those after it have room
_NOTHING = 1e4  # a slice whose log-density is lower than the mode by this is not integrated, only estimated
_CAREFUL_REACH = 10.0  # |w| to which panels go where every look is a search
_CYCLES = 6  # of the search for the mode
_FEW = 240  # panels where every look is an integral


class Nest:
    """A log-density of D numbers, up to a constant, on a product of intervals.

    >>> f = LogDensity(lambda x: -0.5 * (x[0] ** 2 + (x[1] - x[0]) ** 2), "it")
    >>> nest = Nest(f, [Stretch()] * 2, [Hint(), Hint()], 1e-9)
    >>> first = nest.line(np.empty(0))
    >>> first.scores(np.array([1.0, -3.0])).round(9).tolist()
    [1.0, -3.0]
    >>> nest.line(np.array([5.0])).scores(np.array([7.0])).round(9).tolist()
    [2.0]

    With `careful` the last integral is done by a search and by panels, one after the other: a hundred times
    slower, but modes far apart, kinks and jumps are no obstacle.
    """

    def __init__(
        self, function: LogDensity, supports: list[Stretch], hints: list[Hint], accuracy: float, careful: bool = False
    ) -> None:
        self.function, self.supports, self.accuracy, self.careful = function, supports, accuracy, careful
        self._hints = hints
        with np.errstate(all="ignore"):
            self._centre, self._root = self._gaussian(*self._mode())
            self._top = float(self._search(self._centre[:, None])[0])

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.supports)

    def _mode(self) -> tuple[Array, Array]:
        """A place where the joint density is high, and the scales there: searched for one number after the other."""
        u, scale = np.zeros(self.size), np.ones(self.size)
        for i, (support, hint) in enumerate(zip(self.supports, self._hints, strict=True)):
            inside = [x for x in (hint.centre, *hint.near, 0.0) if x is not None and support.low < x < support.high]
            u[i : i + 1] = support.u(np.array(inside[:1])) if inside else 0.0
        for cycle in range(_CYCLES):
            before = u.copy()
            for i in range(self.size):
                hint = Hint(float(u[i]), float(scale[i]) if cycle else None)
                place = find_bulk(self._slice(u, i), Stretch(), hint).coordinate
                u[i], scale[i] = place.centre, place.scale
            if (np.abs(u - before) < 3.0 * scale).all():
                break
        return u, scale

    def _gaussian(self, u: Array, scale: Array) -> tuple[Array, Array]:
        """Mode, and a root L of the covariance L L' that the curvature there stands for, by Newton's method."""
        offsets = np.array(list(product((-1.0, 0.0, 1.0), repeat=self.size))).T
        i, j = np.triu_indices(self.size)
        quadratic = np.concatenate([np.ones((1, offsets.shape[1])), offsets, offsets[i] * offsets[j]])
        root = np.diag(scale)
        for _ in range(_CYCLES):
            f = self._search(u[:, None] + scale[:, None] * offsets)
            if not np.isfinite(f).all():
                break
            terms = np.linalg.lstsq(quadratic.T, f)[0]
            H = np.zeros((self.size, self.size))
            H[i, j] = -terms[1 + self.size :]
            H += H.T
            if np.linalg.eigvalsh(H)[0] < 1e-6:
                break
            step = np.linalg.solve(H, terms[1 : 1 + self.size])
            better = float(self._search((u + scale * step)[:, None])[0]) > f[offsets.shape[1] // 2]
            root, u = scale[:, None] * np.linalg.cholesky(np.linalg.inv(H)), u + scale * step if better else u
            if not better or np.abs(step).max() < 0.1:
                break
        return u, root

    def _guess(self, u: Array) -> tuple[Array, Array]:
        """Mean and scale of the next number given the first ones (l, N), as if all were Gaussian."""
        known, L = len(u), self._root
        e = solve_lower(L[:known, :known], u - self._centre[:known, None])
        return self._centre[known] + L[known, :known] @ e, np.full(u.shape[1], L[known, known])

    def _slice(self, u: Array, i: int) -> LogDensity:
        """The joint log-density as a function of the stretched number i, the others being at u."""

        def along(x: Array) -> Array:
            points = np.repeat(u[:, None], x.size, axis=1)
            points[i] = x
            return self._search(points)

        return LogDensity(along, self.function.name, own=True)

    def _search(self, u: Array) -> Array:
        """Log-density of stretched numbers (D, N); while the mode is being looked for, NaN is allowed."""
        pairs = list(zip(self.supports, u, strict=True))
        f = self.function.search(np.stack([support.x(row) for support, row in pairs]))
        for support, row in pairs:
            if not support.line:
                f = np.where(np.abs(row) < REACH, f + support.log_slope(row), -np.inf)
        return f

    def marginal(self, u: Array) -> Array:
        """Log-density of the first stretched numbers (l, N), the others integrated out."""
        known, N = u.shape
        if known == self.size:
            f = self._search(u)
            if np.isnan(f).any():
                raise not_a_number(self.function.name)
            return f
        if self.careful and known == self.size - 1:
            return np.array([self._last(column) for column in u.T])
        if N > _SIDE_BY_SIDE:
            blocks = range(0, N, _SIDE_BY_SIDE)
            return np.concatenate([self.marginal(u[:, k : k + _SIDE_BY_SIDE]) for k in blocks])

        def integrand(which: Index, x: Array) -> Array:
            return self.marginal(np.concatenate([u[:, which], x[None, :]]))

        log_mass, lost = integrals(integrand, *self._guess(u), _INNER * self.accuracy)
        lost &= log_mass > log_mass.max() - DROP
        if lost.any():
            raise NumericalError(
                f"{self.function.name} cannot be integrated over number {known + 1} to the accuracy asked for; give "
                "centre= and scale=, or ask for less"
            )
        return log_mass

    def _last(self, u: Array) -> float:
        """Log of the integral over the last number, given the others (D - 1,), by a search and by panels."""
        along = self._slice(np.append(u, 0.0), self.size - 1)
        try:
            bulk = find_bulk(along, Stretch(), Hint(float(self._guess(u[:, None])[0][0])))
        except NowhereError:
            return -math.inf
        rough = float(bulk.height(along)(np.zeros(1))[0])
        return rough if rough < self._top - _NOTHING else Line(along, bulk, self.accuracy).log_mass

    def logpdf(self, x: Array) -> Array:
        """Log-density of the first numbers (l, N), unstretched: -inf outside the support, NaN where one is missing."""
        pairs = list(zip(self.supports, x, strict=False))
        inside = np.all([support.holds(row) for support, row in pairs], axis=0)
        out = np.where(np.isnan(x).any(axis=0), np.nan, -np.inf)
        if inside.any():
            u = np.stack([support.u(row[inside]) for support, row in pairs])
            out[inside] = self.marginal(u) - sum(
                support.log_slope(row) for (support, _), row in zip(pairs, u, strict=True)
            )
        return out

    def stretch(self, x: Array) -> Array:
        """The first numbers (l,), stretched, as a column."""
        return np.array([support.u(x[i : i + 1]) for i, support in enumerate(self.supports[: x.size])]).reshape(-1, 1)

    def line(self, x: Array) -> Line:
        """The law of the number that follows the given ones (l,), those after it integrated out."""
        known, given, support = x.size, self.stretch(x), self.supports[x.size]

        last = known == self.size - 1

        def density(y: Array) -> Array:
            u = support.u(y)
            together = np.concatenate([np.repeat(given, y.size, axis=1), u[None, :]])
            return (self._search(together) if last else self.marginal(together)) - support.log_slope(u)

        function = LogDensity(density, self.function.name, own=True)
        centre, scale = (float(guess[0]) for guess in self._guess(given))
        if last:
            at, near = float(support.x(np.array([centre]))[0]), self._hints[known].near
            return Line(function, find_bulk(function, support, Hint(at, None, near)), self.accuracy)
        with np.errstate(all="ignore"):
            bulk = self._bulk(density, Coordinate(support, centre, scale))
        relative = self.size * _INNER * self.accuracy
        return Line(function, bulk, self.accuracy, relative, _FEW)

    def _bulk(self, density: Callable[[Array], Array], place: Coordinate) -> Bulk:
        """Where a density is that is dear to evaluate."""
        support, (low, high) = place.stretch, (-_CAREFUL_REACH, _CAREFUL_REACH)
        if not self.careful:

            def integrand(which: Index, u: Array) -> Array:
                return density(support.x(u)) + support.log_slope(u)

            centre, scale, blocks = settle(integrand, np.array([place.centre]), np.array([place.scale]), DROP)
            place = Coordinate(support, float(centre[0]), float(scale[0]))
            _, w, g = blocks[0]
            alive = np.flatnonzero(g[0] > g.max() - DROP)
            low, high = float(w[max(alive[0] - 1, 0)]), float(w[min(alive[-1] + 1, w.size - 1)])
        if not support.line:
            first, last = place.w_of_u(np.array([-_ROOM, _ROOM])).tolist()
            low, high = max(first, low), min(last, high)
        return Bulk(place, _edges(low, high, np.empty(0)), support)


# The law ----------------------------------------------------------------------------------------------


_FINEST, _COARSEST = 1e-12, 1e-3


@dataclass(frozen=True)
class Settings:
    """What may be said of a log-density besides the function itself.

    The mass is searched for at all scales from 1e-20 to 1e20. A density that does not integrate to 1 within the
    accuracy is refused, because some of its mass may not have been found.
    """

    support: ArrayLike | None = None
    """Where the density ends: (low, high), or one pair for each number."""
    centre: ArrayLike | None = None
    """Where the mass is, if it is a needle in a haystack: a number, or one for each."""
    scale: ArrayLike | None = None
    """How wide it is."""
    near: Sequence[ArrayLike] | Array = ()
    """Readings that may be close to it."""
    integrate: int = 0
    """How many numbers follow the channels, to be integrated out; the function takes ``(dim + integrate, N)``."""
    log_total: float = 0.0
    """Logarithm of what the density must integrate to."""
    normalise: bool = False
    """Whether it is divided by what was found; nothing then tells of a needle that was not."""
    accuracy: float = 1e-9
    """Of a score."""
    name: str = "the log-density"
    """What messages call the function."""

    def hints(self, size: int) -> list[Hint]:
        """What is known of the place of each number."""
        given: list[list[float | None]] = []
        for name, value in (("centre", self.centre), ("scale", self.scale)):
            if value is None:
                given.append([None] * size)
                continue
            try:
                numbers = np.broadcast_to(np.asarray(value, dtype=float), (size,))
            except (TypeError, ValueError):
                raise LawError(
                    f"{name} is of type {type(value).__name__}; it must be a number, or one a channel"
                ) from None
            if not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0).any()):
                rule = "positive and finite" if name == "scale" else "finite"
                raise LawError(f"{name} has an entry that breaks the rule; each must be {rule}")
            given.append(numbers.tolist())
        near = np.array([np.broadcast_to(np.asarray(x, dtype=float), (size,)) for x in self.near]).reshape(-1, size)
        return [Hint(*each) for each in zip(*given, map(tuple, near.T.tolist()), strict=True)]


class FromDensity(Frozen):
    """The law with the log-density `logpdf`, a function of many candidates at once.

    `logpdf` takes an array ``(N,)`` and gives ``(N,)``; for a law of `dim` channels (up to 3) it takes
    ``(dim, N)``. Scores are right to `accuracy`, and to what one rounding unit of the reading is worth;
    `error` tells the estimate. In the tails beyond |z| = 8 the same holds as long as the log-density does.

    >>> import numpy as np
    >>> law = FromDensity(lambda y: -(y**4) / 4, normalise=True)
    >>> z = law.score([-1.0, 0.0, 6.0])
    >>> (z.round(6) + 0.0).tolist()
    [-1.135127, 0.0, 25.540489]
    >>> law.value(z).round(9).tolist()
    [-1.0, 0.0, 6.0]

    The fields of `Settings` are further arguments. For several channels the joint density should be smooth, and its
    support a product of intervals; a law of two takes about 20 ms, one of three half a second, and some
    seconds where two channels have kinks or modes far apart.
    """

    __slots__ = ("_built", "_function", "_hints", "_logpdf", "_settings", "_supports", "accuracy", "dim")

    _built: tuple[Line, Nest | None]

    def __init__(self, logpdf: Callable[[Array], Any], dim: int = 1, **settings: Any) -> None:
        if not callable(logpdf):
            raise LawError(f"logpdf is of type {type(logpdf).__name__}; it must be a function of candidate readings")
        self.dim, self._logpdf = dim, logpdf
        self._settings = given = Settings(**settings)
        self.accuracy = check_accuracy(given.accuracy)
        size = check_size(dim, given.integrate)
        self._supports = supports_of(given.support, size)
        self._hints = given.hints(size)
        self._function = LogDensity(logpdf, given.name)

    def __repr__(self) -> str:
        # The function of a conditional law holds the past readings, so nothing of it is shown.
        return f"FromDensity(dim={self.dim})"

    def __reduce__(self) -> tuple[Callable[..., FromDensity], tuple[Callable[[Array], Any], int]]:
        return partial(FromDensity, **vars(self._settings)), (self._logpdf, self.dim)

    def __copy__(self) -> FromDensity:
        return self  # a value, and what it has computed is worth keeping

    def __deepcopy__(self, memo: dict[int, Any]) -> FromDensity:
        return self

    @property
    def error(self) -> float:
        """Estimated error of a score, to |z| = 8 (of the first channel, where there are several)."""
        return self._parts[0].error

    @property
    def mass(self) -> float:
        """What the density integrates to, as a multiple of what it must (of 1, if nothing else was said)."""
        return math.exp(min(self._parts[0].log_mass - self._settings.log_total, 700.0))

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = Phi^-1(F(y)), channel by channel given those before it; NaN stays NaN."""
        readings = channels(y, self.dim, "reading")
        z = np.full(readings.shape, np.nan)
        z[0] = self._parts[0].scores(readings[0])
        check_inside(z, np.shape(y))
        for j in range(readings.shape[1] if self.dim > 1 else 0):
            for i in range(1, self.dim):
                if not np.isnan(readings[: i + 1, j]).any():
                    z[i, j] = self._conditional(readings[:i, j]).scores(readings[i : i + 1, j])[0]
        check_inside(z, np.shape(y))
        check_reached(z, until_missing(readings), np.shape(y), "reading")
        return to_shape(z, np.shape(y))

    def value(self, z: ArrayLike) -> Numbers:
        """The reading that has these scores, the inverse of `score`."""
        wanted = channels(z, self.dim, "score")
        y = np.full(wanted.shape, np.nan)
        y[0] = self._parts[0].quantiles(wanted[0])
        for j in range(wanted.shape[1] if self.dim > 1 else 0):
            for i in range(1, self.dim):
                if np.isfinite(y[:i, j]).all() and not np.isnan(wanted[i, j]):
                    y[i, j] = self._conditional(y[:i, j]).quantiles(wanted[i : i + 1, j])[0]
        check_reached(y, until_missing(wanted), np.shape(z), "score")
        return to_shape(y, np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density of the channels together, normalised."""
        readings, (first, nest) = channels(y, self.dim, "reading"), self._parts
        out = first.logpdf(readings[0]) if nest is None else nest.logpdf(readings) - first.log_mass
        return to_shape(out, np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    @property
    def _parts(self) -> tuple[Line, Nest | None]:
        """The law of the first channel, and the nest of all where there are several; computed once."""
        if not hasattr(self, "_built"):
            built = None
            try:
                built = self._build(careful=False)
            except NumericalError:
                # Mass may be missing, or several numbers be less smooth than the quick way wants them.
                if len(self._hints) > 2:
                    raise
            object.__setattr__(self, "_built", built or self._build(careful=True))
        return self._built

    def _build(self, careful: bool) -> tuple[Line, Nest | None]:
        function, log_total = self._function, self._settings.log_total
        if len(self._hints) == 1:
            nest, hint = None, self._hints[0]._replace(thorough=careful)
            first = Line(function, find_bulk(function, self._supports[0], hint), self.accuracy)
        else:
            nest = Nest(function, self._supports, self._hints, self.accuracy, careful)
            first = nest.line(np.empty(0))
        off = abs(first.log_mass - log_total)
        if not (self._settings.normalise or off <= self.accuracy or off <= first.error + 1e-14 * abs(log_total)):
            raise NumericalError(
                f"{function.name}: the density does not integrate to 1 within {self.accuracy:g}; it is not "
                "normalised (normalise=True accepts that), or part of it was not found (centre= and scale= help)"
            )
        return first, nest

    def _conditional(self, y: Array) -> Line:
        """The law of the channel that follows the first ones (l,)."""
        nest = self._parts[1]
        if nest is None:
            raise TypeError("a law of one number has no later channels")
        line, log_mass = nest.line(y), float(nest.marginal(nest.stretch(y))[0])
        if not abs(line.log_mass - log_mass) <= 10.0 * self.accuracy + line.error:
            raise NumericalError(
                f"{self._function.name} gives two different masses to channel {y.size + 1}: part of it was not found "
                "(centre= and scale= help)"
            )
        return line


def check_accuracy(accuracy: float) -> float:
    """The accuracy, if it is one that can be promised."""
    if not isinstance(accuracy, (int, float)) or not _FINEST <= accuracy <= _COARSEST:
        raise LawError(f"accuracy = {accuracy!r}; it must be a number from {_FINEST:g} to {_COARSEST:g}")
    return float(accuracy)


def check_size(dim: int, integrate: int) -> int:
    """How many numbers a log-density takes, if they are few enough."""
    for name, value, least in (("dim", dim, 1), ("integrate", integrate, 0)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise LawError(f"{name} = {value!r}; it must be a whole number of at least {least}")
    if dim > 3:
        raise LawError(
            f"dim = {dim}; channels are integrated out one inside the other, feasible for 3 at most; for more, "
            "use a law whose conditionals are known (us.Gaussian, us.Independent), or a class of your own"
        )
    if dim + integrate > MOST:
        raise LawError(
            f"{dim + integrate} numbers are to be integrated, one inside the other; {MOST} at most are feasible"
        )
    return int(dim + integrate)


def supports_of(support: ArrayLike | None, size: int) -> list[Stretch]:
    """One pair (low, high) for each number."""
    try:
        given = [-math.inf, math.inf] if support is None else np.asarray(support, dtype=float)
        pairs = np.broadcast_to(given, (size, 2)).tolist()
    except (TypeError, ValueError):
        raise LawError(f"support = {support!r}; it must be (low, high), or one such pair for each channel") from None
    for low, high in pairs:
        if not low < high or low == math.inf or high == -math.inf:
            raise LawError(f"support = ({low!r}, {high!r}); low must be below high")
    return [Stretch(low, high) for low, high in pairs]
