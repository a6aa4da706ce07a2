"""A law given by its log-density and nothing else; c.d.f.s and their inverses are computed.

`FromDensity` is the law. Its parts, from the bottom up:

- `Line`: a law of one number. The bulk is searched for and the density integrated in panels (`panels`); down to a
  tail probability of `FLOOR` scores come from the panels, and beyond, the tail is integrated from the log-density
  outward, by the arithmetic of `scalar`.
- `integrals`: many integrals of one number at once, each integrand with a place and a scale of its own. The trapezoidal
  rule in w, u = centre + scale sinh w, converges faster than any power of its step for smooth integrands that die out
  at both ends, and needs about sixty looks for twelve digits. It wants a centre and a scale that fit, so a
  coarse rule first moves both to where it sees the mass.
- `Nest`: several numbers. The law of the first is that of its marginal density, the law of the second given the first
  that of a marginal density with the first fixed, and so on: the triangular map of any joint density. The later
  numbers are integrated out, one inside the other; where to begin is told by the mode of the joint density and
  its curvature there, as if it were Gaussian.
- `Surrogate`: a marginal density is dear to evaluate, so polynomials on panels stand for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Mask, Numbers
from understudy.errors import LawError, NumericalError
from understudy.laws.law import channels, check_inside, check_reached, to_shape, until_missing
from understudy.laws.panels import (
    DROP,
    FLOOR,
    REACH,
    Asked,
    Bulk,
    Coordinate,
    Height,
    Hint,
    NowhereError,
    Panels,
    Stretch,
    find_bulk,
    log_cosh,
    not_a_number,
    panel_edges,
)
from understudy.laws.scalar import Density, quantiles, scores

# One number -------------------------------------------------------------------------------------------


_FLOATS = 4096.0  # a bulk must be wider than so many floats
_DEEP = 8.0  # |z| up to which values come from the panels, inside their floor


class Line:
    """The law whose log-density, up to a constant, is what `ask` says.

    The bulk is searched for, unless it was `found` before: then with the log-density in its coordinate and
    the error of that.

    >>> line = Line(Asked(lambda x: -0.25 * x**4, "it"), (-math.inf, math.inf), Hint(), 1e-9)
    >>> z = line.scores(np.array([-2.0, 1.0, 20.0]))
    >>> line.quantiles(z).round(12).tolist()
    [-2.0, 1.0, 20.0]
    """

    def __init__(
        self,
        ask: Asked,
        support: tuple[float, float],
        hint: Hint,
        accuracy: float,
        found: tuple[Bulk, Height, float] | None = None,
    ) -> None:
        self.ask = ask
        try:
            bulk, height, relative = found or (find_bulk(ask.search, support, hint, ask.name), self._height, 0.0)
        except NowhereError as error:
            raise NumericalError(str(error)) from None
        self.coordinate, self.support = bulk.coordinate, bulk.support
        if self._grain(np.zeros(1))[0] * _FLOATS > 1.0:
            raise NumericalError(f"{ask.name} changes over a few rounding units of a reading; take an offset off it")
        with np.errstate(all="ignore"):
            self.panels = Panels(height, bulk.edges, accuracy, ask.name, self._grain)
        self._relative = relative

    @property
    def log_mass(self) -> float:
        """Logarithm of the integral of the density as it was given."""
        return self.panels.log_mass

    @property
    def error(self) -> float:
        """Estimated error of a score, to |z| = 8."""
        return self.panels.error + 2.0 * math.sqrt(0.5 * math.pi) * self._relative

    def _height(self, w: Array) -> Array:
        return self.ask(self.coordinate.x(w)) + self.coordinate.log_slope(w)

    def _grain(self, w: Array) -> Array:
        """The distance in w from one float to the next, be it of x or of w."""
        return np.spacing(np.abs(self.coordinate.x(w))) * np.exp(-self.coordinate.log_slope(w)) + np.spacing(np.abs(w))

    def scores(self, x: Array) -> Array:
        """Scores; infinite outside the support, NaN where x is, or where a tail cannot be computed."""
        from scipy.special import ndtri

        low, high = self.support
        z = np.where(np.isnan(x), np.nan, np.where(x <= low, -np.inf, np.inf))
        inside = np.flatnonzero((x > low) & (x < high))
        with np.errstate(all="ignore"):
            w = self.coordinate.w(x[inside])
            near = np.flatnonzero((w > self.panels.edges[0]) & (w < self.panels.edges[-1]))
            if near.size:
                p, side, _ = self.panels.tails(w[near])
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
                x[near] = self.support.within(self.coordinate.x(self.panels.places(z[near])))
            if far.size:
                x[far] = quantiles(self._density, z[far])
        return x

    def logpdf(self, x: Array) -> Array:
        """Log-density, normalised; -inf outside the support."""
        out = np.where(np.isnan(x), np.nan, -np.inf)
        inside = np.flatnonzero((x > self.support.low) & (x < self.support.high))
        if inside.size:
            out[inside] = self.ask(x[inside]) - self.log_mass
        return out

    @cached_property
    def _density(self) -> Density:
        """The same law for the arithmetic of the tails."""
        from scipy.special import ndtri

        def logpdf(x: Array) -> Array:
            x = np.asarray(x, dtype=float)
            out = np.full(x.shape, -np.inf)
            inside = (x > self.support.low) & (x < self.support.high) & np.isfinite(x)
            if inside.any():
                out[inside] = self.ask.search(x[inside]) - self.log_mass
            return out

        def place(z: Array) -> Array:
            return self.coordinate.x(self.panels.places(z))

        low, high = self.support
        below, above = partial(self._probability, -1.0), partial(self._probability, 1.0)
        return Density(
            logpdf, below, above, lambda q: place(ndtri(q)), lambda q: place(-ndtri(q)), low, high, reach=1e-15
        )

    def _probability(self, tail: float, x: Array) -> Array:
        """Pr(X < x) for tail -1, Pr(X > x) for tail 1; what lies beyond the panels is neglected."""
        w = self.coordinate.w(x)
        first, last = self.panels.edges[[0, -1]]
        p = np.where((w <= first) == (tail > 0), 1.0, 0.0)
        near = (w > first) & (w < last)
        if near.any():
            smaller, side, _ = self.panels.tails(w[near])
            p[near] = np.where(side == tail, smaller, 1.0 - smaller)
        return p


# A function that is dear to evaluate ------------------------------------------------------------------


_N = 16
_ANGLES = (np.arange(_N) + 0.5) * np.pi / _N
_NODES = np.cos(_ANGLES)
_COEFFICIENTS = 2.0 / _N * np.cos(np.arange(_N)[:, None] * _ANGLES)
_COEFFICIENTS[0] *= 0.5
_COUNTS = 45.0  # below e^-45 of the top eight digits are enough


class Surrogate:
    """Chebyshev polynomials of degree 15 for a log-density, on panels halved until their last terms are small.

    What is lower than its top by `depth` does not matter. It is an error if more than `most` looks are needed.

    >>> f = Surrogate(lambda w: -0.5 * np.sinh(w) ** 2, np.array([-3.0, -1.0, 1.0, 3.0]), 1e-11, "it", 700.0, 500)
    >>> float(np.abs(f(np.array([0.3, 2.0])) + 0.5 * np.sinh([0.3, 2.0]) ** 2).max()) < 1e-10
    True
    """

    def __init__(
        self, function: Callable[[Array], Array], edges: Array, tolerance: float, name: str, depth: float, most: int
    ) -> None:
        a, b = edges[:-1], edges[1:]
        left, coefficients, top, looks = [], [], -np.inf, 0
        while True:
            looks += a.size * _N
            if looks > most:
                raise NumericalError(
                    f"{name} cannot be integrated over its later numbers to the accuracy asked for (it is not smooth, "
                    "or the place was not found); give centre= and scale=, or ask for less accuracy"
                )
            half = 0.5 * (b - a)[:, None]
            values = function((0.5 * (a + b)[:, None] + half * _NODES).ravel()).reshape(-1, _N)
            top = max(top, float(values.max()))
            terms = values @ _COEFFICIENTS.T
            highest = values.max(axis=1)
            size = np.where(highest > top - _COUNTS, tolerance, max(tolerance, 1e-8))
            # Far below, where the function may jump from slope to slope, a polynomial would overshoot: a constant does.
            dead = highest < top - depth
            terms[dead] = 0.0
            terms[dead, 0] = highest[dead]
            small = np.abs(terms[:, -3:]).max(axis=1) <= size + 4e-16 * np.abs(values).max(axis=1)
            left.append(a[small])
            coefficients.append(terms[small])
            a, b = a[~small], b[~small]
            if not a.size:
                break
            middle = 0.5 * (a + b)
            a, b = np.concatenate([a, middle]), np.concatenate([middle, b])
        order = np.argsort(np.concatenate(left))
        self.edges = np.append(np.concatenate(left)[order], edges[-1])
        self._terms = np.concatenate(coefficients)[order]

    def __call__(self, w: Array) -> Array:
        """The function at places between the edges."""
        j = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, self.edges.size - 2)
        a, b = self.edges[j], self.edges[j + 1]
        t = (2.0 * w - a - b) / (b - a)
        terms = self._terms[j]
        # Clenshaw's recurrence
        one = two = np.zeros(w.shape)
        for k in range(_N - 1, 0, -1):
            one, two = 2.0 * t * one - two + terms[:, k], one
        return np.asarray(t * one - two + terms[:, 0])


# Many integrals at once -------------------------------------------------------------------------------


Integrand = Callable[[Index, Array], Array]
"""Log of integrand number ``which[i]`` at ``u[i]``."""

_STEP = 0.5
_FIRST, _LAST = 5.0, 640.0  # |w| to which the coarse rule goes, doubled until the integrand has died out
_DEAD = 36.0  # terms below e^-36 of the largest do not count
_MOVES = 60
_HALVINGS = 9


class Settled(NamedTuple):
    """Centres, scales, and the terms of the coarse rule: blocks of which integrands, nodes (K,) and logs (n, K)."""

    centre: Array
    scale: Array
    blocks: list[tuple[Index, Array, Array]]


def settle(integrand: Integrand, centre: Array, scale: Array, dead: float = _DEAD) -> Settled:
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
            w, u, g = _coarse(integrand, which, centre, scale, distance)
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
            reach[moved] = _FIRST
            reach[which[wide]] = 2.0 * distance
            going = off | wide
            still.append(which[going])
            if not going.all():
                blocks.append((which[~going], w, g[~going]))
        todo = np.concatenate(still)
    return Settled(centre, scale, blocks)


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
                alive = np.maximum(g[:, :-1], g[:, 1:]) > g.max(axis=1, keepdims=True) - _DEAD
                row, column = np.nonzero(alive)
                at, x = which[row], between[column]
                new = np.full(alive.shape, -np.inf)
                new[row, column] = integrand(at, centre[at] + scale[at] * np.sinh(x)) + np.log(scale[at]) + log_cosh(x)
                w, g, step = _woven(w, between), _woven(g.T, new.T).T, 0.5 * step
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


def _coarse(
    integrand: Integrand, which: Index, centre: Array, scale: Array, distance: float
) -> tuple[Array, Array, Array]:
    """Nodes (K,), places (n, K) and log terms (n, K) of the coarse rule."""
    w = np.arange(-distance, distance + 0.5 * _STEP, _STEP)
    c, s = centre[which, None], scale[which, None]
    u = c + s * np.sinh(w)
    g = integrand(np.repeat(which, w.size), u.ravel()).reshape(u.shape) + np.log(s) + log_cosh(w)
    return w, u, g


def _log_sum(g: Array, step: float) -> Array:
    top = g.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(top + np.log(step * np.exp(g - top[:, None]).sum(axis=1)))


def _woven(a: Array, b: Array) -> Array:
    """Elements of a and b in turn, along the first axis."""
    out = np.empty((a.shape[0] + b.shape[0], *a.shape[1:]))
    out[::2], out[1::2] = a, b
    return out


# Several numbers --------------------------------------------------------------------------------------


MOST = 4
"""Numbers that are integrated over at most, the one whose law is asked for included."""

_DEEPEST = 740.0  # polynomials go as far out as a tail has a probability in float64
_INNER, _SMOOTH = 0.01, 0.02  # shares of the accuracy for one integral, and for the polynomials
_AT_ONCE = 4096  # integrals side by side, which bounds the memory
_ROOM = REACH - 90.0  # |u| of a number, so that those after it have room
_NOTHING = 1e4  # a slice whose log-density is lower than the mode by this is not integrated, only estimated
_CAREFUL_REACH = 1e4  # scales that a search goes away where every look is an integral
_LINE = (-math.inf, math.inf)
_SHORTER = np.array([1.0, 0.5, 0.25, 0.1, 0.0])


class Nest:
    """A log-density of D numbers, up to a constant, on a product of intervals.

    >>> f = Asked(lambda x: -0.5 * (x[0] ** 2 + (x[1] - x[0]) ** 2), "it")
    >>> nest = Nest(f, [(-math.inf, math.inf)] * 2, [Hint(), Hint()], 1e-9)
    >>> first = nest.line(np.empty(0))
    >>> first.scores(np.array([1.0, -3.0])).round(9).tolist()
    [1.0, -3.0]
    >>> nest.line(np.array([5.0])).scores(np.array([7.0])).round(9).tolist()
    [2.0]

    With `careful` the last integral is done by a search and by panels, one after the other: a hundred times
    slower, but modes far apart, kinks and jumps are no obstacle.
    """

    def __init__(
        self,
        ask: Asked,
        supports: list[tuple[float, float]],
        hints: list[Hint],
        accuracy: float,
        careful: bool = False,
    ) -> None:
        self.ask, self.accuracy, self.careful = ask, accuracy, careful
        self.truth_blocks = [Stretch(*support) for support in supports]
        self._hints = hints
        with np.errstate(all="ignore"):
            self._centre, self._root = _gaussian(self._searched, self._start(), ask.name)
            self._top = float(self._searched(self._centre[:, None])[0])

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.truth_blocks)

    def _start(self) -> Array:
        start = np.zeros(self.size)
        for i, (stretch, hint) in enumerate(zip(self.truth_blocks, self._hints, strict=True)):
            places = [hint.centre, *hint.seeds, 0.0]
            inside = [x for x in places if x is not None and stretch.low < x < stretch.high]
            if inside:
                start[i] = stretch.u(np.array(inside[:1]))[0]
        return start

    def joint(self, u: Array) -> Array:
        """Log-density of stretched numbers (D, N)."""
        f = self._searched(u)
        if np.isnan(f).any():
            raise not_a_number(self.ask.name)
        return f

    def _searched(self, u: Array) -> Array:
        """The same while the mode is being looked for: far away from it NaN is allowed."""
        rows = [stretch.x(row) for stretch, row in zip(self.truth_blocks, u, strict=True)]
        f = self.ask.search(np.stack(rows))
        for stretch, row in zip(self.truth_blocks, u, strict=True):
            if not stretch.line:
                f = np.where(np.abs(row) < REACH, f + stretch.log_slope(row), -np.inf)
        return f

    def marginal(self, u: Array) -> Array:
        """Log-density of the first numbers (l, N), the others integrated out."""
        known, N = u.shape
        if known == self.size:
            return self.joint(u)
        if self.careful and known == self.size - 1:
            return np.array([self._last(u[:, j : j + 1]) for j in range(N)])
        if N > _AT_ONCE:
            return np.concatenate([self.marginal(u[:, k : k + _AT_ONCE]) for k in range(0, N, _AT_ONCE)])
        log_mass, lost = integrals(lambda which, x: self._next(u, which, x), *self._guess(u), _INNER * self.accuracy)
        lost &= log_mass > log_mass.max() - DROP
        if lost.any():
            raise NumericalError(
                f"{self.ask.name} cannot be integrated over number {known + 1} to the accuracy asked for; give centre= "
                "and scale=, or ask for less"
            )
        return log_mass

    def _last(self, u: Array) -> float:
        """Log of the integral over the last number, given the others (D - 1, 1), by a search and by panels."""

        def along(x: Array) -> Array:
            return self._searched(np.concatenate([np.repeat(u, x.size, axis=1), x[None, :]]))

        try:
            coordinate, edges, _ = find_bulk(along, _LINE, Hint(float(self._guess(u)[0][0])), self.ask.name)
        except NowhereError:
            return -math.inf
        middle = np.zeros(1)
        rough = float((along(coordinate.x(middle)) + coordinate.log_slope(middle))[0])
        if rough < self._top - _NOTHING:
            return rough
        panels = Panels(lambda w: along(coordinate.x(w)) + coordinate.log_slope(w), edges, self.accuracy, self.ask.name)
        return panels.log_mass

    def _next(self, u: Array, which: Index, x: Array) -> Array:
        return self.marginal(np.concatenate([u[:, which], x[None, :]]))

    def _guess(self, u: Array) -> tuple[Array, Array]:
        """Mean and scale of the next number given the first ones, by the Gaussian approximation."""
        known, N = u.shape
        L = self._root
        mean = np.full(N, self._centre[known])
        if known:
            from scipy.linalg import solve_triangular

            e = solve_triangular(L[:known, :known], u - self._centre[:known, None], lower=True)
            mean = mean + (L[known, :known, None] * e).sum(axis=0)
        return mean, np.full(N, L[known, known])

    def logpdf(self, x: Array) -> Array:
        """Log-density of the first numbers (l, N), unstretched: -inf outside the support, NaN where one is missing."""
        pairs = list(zip(self.truth_blocks, x, strict=False))
        inside = np.all([(row > stretch.low) & (row < stretch.high) for stretch, row in pairs], axis=0)
        out = np.where(np.isnan(x).any(axis=0), np.nan, -np.inf)
        if inside.any():
            u = [stretch.u(row[inside]) for stretch, row in pairs]
            slopes = sum(stretch.log_slope(row) for (stretch, _), row in zip(pairs, u, strict=True))
            out[inside] = self.marginal(np.stack(u)) - slopes
        return out

    def conditional(self, x: Array) -> tuple[Line, float]:
        """The law of the number after the given ones (l,), and its mass as the integral over all that follow."""
        given = np.array([s.u(x[i : i + 1]) for i, s in enumerate(self.truth_blocks[: x.size])])
        return self.line(x), float(self.marginal(given)[0])

    def line(self, x: Array) -> Line:
        """The law of the number that follows the given ones (l,), those after it integrated out."""
        known = x.size
        given = np.array([s.u(x[i : i + 1]) for i, s in enumerate(self.truth_blocks[:known])]).reshape(known, 1)
        stretch = self.truth_blocks[known]

        def density(y: Array) -> Array:
            u = stretch.u(y)
            return self.marginal(np.concatenate([np.repeat(given, y.size, axis=1), u[None, :]])) - stretch.log_slope(u)

        centre, scale = self._guess(given)
        if known == self.size - 1:
            ask = Asked(density, self.ask.name, own=True)
            at = float(stretch.x(centre)[0])
            hint = Hint(at, None, self._hints[known].seeds) if stretch.line else Hint(None, None, (at,))
            return Line(ask, stretch, hint, self.accuracy)
        return self._line(density, stretch, centre, scale)

    def _line(self, density: Callable[[Array], Array], stretch: Stretch, centre: Array, scale: Array) -> Line:
        """A line whose density is dear: it is looked at a hundred times or two, and polynomials do the rest."""

        def integrand(which: Index, u: Array) -> Array:
            return density(stretch.x(u)) + stretch.log_slope(u)

        with np.errstate(all="ignore"):
            if self.careful:
                at = stretch.x(centre)
                size = scale * np.exp(stretch.log_slope(centre))
                hint = Hint(float(at[0]), float(size[0]), reach=_CAREFUL_REACH)
                bulk = find_bulk(density, stretch, hint, self.ask.name)
            else:
                found = settle(integrand, centre, scale, _DEEPEST)
                _, w, g = found.blocks[0]
                alive = np.flatnonzero(g[0] > g.max() - _DEEPEST)
                first, last = float(w[max(alive[0] - 1, 0)]), float(w[min(alive[-1] + 1, w.size - 1)])
                place = Coordinate(stretch, float(found.centre[0]), float(found.scale[0]))
                if not stretch.line:
                    low, high = np.arcsinh((np.array([-_ROOM, _ROOM]) - place.centre) / place.scale).tolist()
                    first, last = max(first, low), min(last, high)
                bulk = Bulk(place, panel_edges(first, last, np.empty(0)), stretch)
            coordinate = bulk.coordinate

            def height(w: Array) -> Array:
                return density(coordinate.x(w)) + coordinate.log_slope(w)

            depth, most = (DROP, 1500) if self.careful else (_DEEPEST, 4000)
            smooth = Surrogate(height, bulk.edges, _SMOOTH * self.accuracy, self.ask.name, depth, most)
        first, last = smooth.edges[[0, -1]].tolist()

        def ask(x: Array) -> Array:
            w = coordinate.w(x)
            return np.where((w > first) & (w < last), smooth(w) - coordinate.log_slope(w), -np.inf)

        bulk = bulk._replace(edges=smooth.edges)
        relative = (self.size * _INNER + _SMOOTH) * self.accuracy
        return Line(Asked(ask, self.ask.name, own=True), stretch, Hint(), self.accuracy, (bulk, smooth, relative))


def _gaussian(joint: Callable[[Array], Array], start: Array, name: str) -> tuple[Array, Array]:
    """Mode of the joint density, and a root L of the covariance L L' that its curvature there stands for."""
    D = start.size
    u, scale = start.copy(), np.ones(D)
    for cycle in range(3):
        far = 0.0
        for i in range(D):

            def along(x: Array, i: int = i) -> Array:
                points = np.repeat(u[:, None], x.size, axis=1)
                points[i] = x
                return joint(points)

            coordinate = find_bulk(along, _LINE, Hint(float(u[i]), float(scale[i]) if cycle else None), name).coordinate
            middle = np.zeros(1)
            place = float(coordinate.x(middle)[0])
            scale[i] = math.exp(float(coordinate.log_slope(middle)[0]))
            far, u[i] = max(far, abs(place - u[i]) / scale[i]), place
        if far < 3.0:
            break
    root = np.diag(scale)
    for _ in range(8):
        step, root = _newton(joint, u, scale, root)
        best = joint(u[:, None] + step[:, None] * _SHORTER)
        at = int(np.argmax(best))
        u = u + step * _SHORTER[at]
        if np.abs(step / scale).max() < 0.1:
            break
    return u, root


def _newton(joint: Callable[[Array], Array], u: Array, scale: Array, root: Array) -> tuple[Array, Array]:
    """One Newton step towards the mode, from differences over one scale; and the root of the covariance."""
    D = u.size
    unit = np.eye(D)
    pairs = [(i, j) for i in range(D) for j in range(i)]
    moves = [0.0 * unit[0], *unit, *-unit]
    for i, j in pairs:
        moves += [unit[i] + unit[j], unit[i] - unit[j], unit[j] - unit[i], -unit[i] - unit[j]]
    f = joint(u[:, None] + scale[:, None] * np.array(moves).T)
    up, down, mixed = f[1 : D + 1], f[D + 1 : 2 * D + 1], f[2 * D + 1 :].reshape(-1, 4)
    gradient = 0.5 * (up - down)
    H = np.diag(up + down - 2.0 * f[0])
    for (i, j), (a, b, c, d) in zip(pairs, mixed, strict=True):
        H[i, j] = H[j, i] = 0.25 * (a - b - c + d)
    if not (np.isfinite(H).all() and np.linalg.eigvalsh(-H)[0] > 1e-6):
        return np.zeros(D), root
    covariance = np.linalg.inv(-H)
    return scale * (covariance @ gradient), scale[:, None] * np.linalg.cholesky(covariance)


# The law ----------------------------------------------------------------------------------------------


_FINEST, _COARSEST = 1e-12, 1e-3


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

    The mass is searched for at all scales from 1e-20 to 1e20. `support` = (low, high) says where it ends
    (one pair for each channel if they differ); `centre` and `scale` help where it is a needle in a
    haystack, `near` are readings that may be close to it. A density that does not integrate to 1 within the
    accuracy is refused, because some of its mass may not have been found; with ``normalise=True`` it is
    divided by what was found, and nothing tells of a needle that was not.

    For several channels the joint density should be smooth, and its support a product of intervals; a law of
    two takes about 20 ms, one of three half a second, and one second where two channels have kinks or modes
    far apart.

    With ``integrate=m`` the function takes ``(dim + m, N)``, and the last m numbers are integrated out;
    together they may be 4. `log_total` is the logarithm of what the density must integrate to, where that is
    not 1. `name` is what messages call the function.
    """

    __slots__ = (
        "_ask",
        "_built",
        "_given",
        "_hints",
        "_logpdf",
        "_supports",
        "accuracy",
        "dim",
        "log_total",
        "normalise",
    )

    _built: tuple[Line, Nest | None]

    def __init__(
        self,
        logpdf: Callable[[Array], Any],
        dim: int = 1,
        *,
        support: ArrayLike | None = None,
        centre: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        near: Sequence[ArrayLike] | Array = (),
        integrate: int = 0,
        log_total: float = 0.0,
        normalise: bool = False,
        accuracy: float = 1e-9,
        name: str = "the log-density",
    ) -> None:
        if not callable(logpdf):
            raise LawError(f"logpdf is of type {type(logpdf).__name__}; it must be a function of candidate readings")
        self.dim, self.normalise, self.log_total = dim, normalise, log_total
        self.accuracy = check_accuracy(accuracy)
        size = check_size(dim, integrate)
        self._supports = supports_of(support, size)
        self._hints = _hints(centre, scale, near, size)
        self._ask = Asked(logpdf, name)
        self._given: dict[str, Any] = {
            "support": support,
            "centre": centre,
            "scale": scale,
            "near": near,
            "integrate": integrate,
            "log_total": log_total,
            "normalise": normalise,
            "accuracy": accuracy,
            "name": name,
        }
        self._logpdf = logpdf

    def __repr__(self) -> str:
        # The function of a conditional law holds the past readings, so nothing of it is shown.
        return f"FromDensity(dim={self.dim})"

    def __reduce__(self) -> tuple[Callable[..., FromDensity], tuple[Callable[[Array], Any], int]]:
        return partial(FromDensity, **self._given), (self._logpdf, self.dim)

    def __copy__(self) -> FromDensity:
        return self  # a value, and what it has computed is worth keeping

    def __deepcopy__(self, memo: dict[int, Any]) -> FromDensity:
        return self

    @property
    def error(self) -> float:
        """Estimated error of a score, to |z| = 8 (of the first channel, where there are several)."""
        return self._line.error

    @property
    def mass(self) -> float:
        """What the density integrates to, as a multiple of what it must (of 1, if nothing else was said)."""
        return math.exp(min(self._line.log_mass - self.log_total, 700.0))

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = Phi^-1(F(y)), channel by channel given those before it; NaN stays NaN."""
        readings = channels(y, self.dim, "reading")
        z = np.full(readings.shape, np.nan)
        z[0] = self._line.scores(readings[0])
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
        y[0] = self._line.quantiles(wanted[0])
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
    def _line(self) -> Line:
        """The law of the first channel."""
        return self._parts[0]

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
        nest, hints = None, self._hints
        if len(hints) == 1:
            first = Line(self._ask, self._supports[0], hints[0]._replace(thorough=careful), self.accuracy)
        else:
            nest = Nest(self._ask, self._supports, hints, self.accuracy, careful)
            first = nest.line(np.empty(0))
        off = abs(first.log_mass - self.log_total)
        if not (self.normalise or off <= self.accuracy or off <= first.error + 1e-14 * abs(self.log_total)):
            raise NumericalError(
                f"{self._ask.name}: the density does not integrate to 1 within {self.accuracy:g}; it is not "
                "normalised (normalise=True accepts that), or part of it was not found (centre= and scale= help)"
            )
        return first, nest

    def _conditional(self, y: Array) -> Line:
        """The law of the channel that follows the first ones (l,)."""
        _, nest = self._parts
        if nest is None:
            raise TypeError("a law of one number has no later channels")
        line, log_mass = nest.conditional(y)
        if not abs(line.log_mass - log_mass) <= 10.0 * self.accuracy + line.error:
            raise NumericalError(
                f"{self._ask.name} gives two different masses to channel {y.size + 1}: part of it was not found "
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


def supports_of(support: ArrayLike | None, size: int) -> list[tuple[float, float]]:
    """One pair (low, high) for each number."""
    if support is None:
        return [(-math.inf, math.inf)] * size
    try:
        pairs = np.broadcast_to(np.asarray(support, dtype=float), (size, 2)).tolist()
    except (TypeError, ValueError):
        raise LawError(f"support = {support!r}; it must be (low, high), or one such pair for each channel") from None
    for low, high in pairs:
        if not low < high or low == math.inf or high == -math.inf:
            raise LawError(f"support = ({low!r}, {high!r}); low must be below high")
    return [(low, high) for low, high in pairs]


def _hints(
    centre: ArrayLike | None, scale: ArrayLike | None, near: Sequence[ArrayLike] | Array, size: int
) -> list[Hint]:
    given: dict[str, list[float | None]] = {}
    for name, value in (("centre", centre), ("scale", scale)):
        if value is None:
            given[name] = [None] * size
            continue
        try:
            numbers = np.broadcast_to(np.asarray(value, dtype=float), (size,))
        except (TypeError, ValueError):
            raise LawError(f"{name} is of type {type(value).__name__}; it must be a number, or one a channel") from None
        if not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0).any()):
            rule = "positive and finite" if name == "scale" else "finite"
            raise LawError(f"{name} has an entry that breaks the rule; each must be {rule}")
        given[name] = numbers.tolist()
    if size == 1:
        seeds = np.asarray(near, dtype=float).reshape(-1, 1)
    else:
        seeds = np.array([np.broadcast_to(np.asarray(x, dtype=float), (size,)) for x in near]).reshape(-1, size)
    return [
        Hint(c, s, tuple(column))
        for c, s, column in zip(given["centre"], given["scale"], seeds.T.tolist(), strict=True)
    ]
