"""Densities of several numbers: the later ones integrated out, one inside the other.

The law of the first number is that of its marginal density, the law of the second given the first that
of a marginal density with the first held fixed, and so on: the triangular map of any joint density.
Each integral over one number is done by the trapezoidal rule of `trapezoid`; where to begin is told by the
mode of the joint density and its curvature there, as if it were Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy.laws.numeric.asked import Asked, not_a_number
from understudy.laws.numeric.bulk import DROP, Bulk, Hint, NowhereError, find_bulk, panel_edges
from understudy.laws.numeric.coordinate import REACH, Coordinate, Stretch
from understudy.laws.numeric.line import Line
from understudy.laws.numeric.panels import Panels
from understudy.laws.numeric.surrogate import Surrogate
from understudy.laws.numeric.trapezoid import Index, integrals, settle

MOST = 4
"""Numbers that are integrated over at most, the one whose law is asked for included."""

_DEEP = 740.0  # polynomials go as far out as a tail has a probability in float64
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
        self.stretches = [Stretch(*support) for support in supports]
        self._hints = hints
        with np.errstate(all="ignore"):
            self._centre, self._root = _gaussian(self._searched, self._start(), ask.name)
            self._top = float(self._searched(self._centre[:, None])[0])

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.stretches)

    def _start(self) -> Array:
        start = np.zeros(self.size)
        for i, (stretch, hint) in enumerate(zip(self.stretches, self._hints, strict=True)):
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
        rows = [stretch.x(row) for stretch, row in zip(self.stretches, u, strict=True)]
        f = self.ask.search(np.stack(rows))
        for stretch, row in zip(self.stretches, u, strict=True):
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
        pairs = list(zip(self.stretches, x, strict=False))
        inside = np.all([(row > stretch.low) & (row < stretch.high) for stretch, row in pairs], axis=0)
        out = np.where(np.isnan(x).any(axis=0), np.nan, -np.inf)
        if inside.any():
            u = [stretch.u(row[inside]) for stretch, row in pairs]
            slopes = sum(stretch.log_slope(row) for (stretch, _), row in zip(pairs, u, strict=True))
            out[inside] = self.marginal(np.stack(u)) - slopes
        return out

    def conditional(self, x: Array) -> tuple[Line, float]:
        """The law of the number after the given ones (l,), and its mass as the integral over all that follow."""
        given = np.array([s.u(x[i : i + 1]) for i, s in enumerate(self.stretches[: x.size])])
        return self.line(x), float(self.marginal(given)[0])

    def line(self, x: Array) -> Line:
        """The law of the number that follows the given ones (l,), those after it integrated out."""
        known = x.size
        given = np.array([s.u(x[i : i + 1]) for i, s in enumerate(self.stretches[:known])]).reshape(known, 1)
        stretch = self.stretches[known]

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
                found = settle(integrand, centre, scale, _DEEP)
                _, w, g = found.blocks[0]
                alive = np.flatnonzero(g[0] > g.max() - _DEEP)
                first, last = float(w[max(alive[0] - 1, 0)]), float(w[min(alive[-1] + 1, w.size - 1)])
                place = Coordinate(stretch, float(found.centre[0]), float(found.scale[0]))
                if not stretch.line:
                    low, high = np.arcsinh((np.array([-_ROOM, _ROOM]) - place.centre) / place.scale).tolist()
                    first, last = max(first, low), min(last, high)
                bulk = Bulk(place, panel_edges(first, last, np.empty(0)), stretch)
            coordinate = bulk.coordinate

            def height(w: Array) -> Array:
                return density(coordinate.x(w)) + coordinate.log_slope(w)

            depth, most = (DROP, 1500) if self.careful else (_DEEP, 4000)
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
