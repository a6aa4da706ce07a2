"""The law of one number from its log-density: bulk, panels, and the tails beyond them.

Down to a tail probability of `panels.FLOOR` scores come from the panels. Beyond, the tail is integrated
from the log-density outward, by the arithmetic of `tails`.
"""

from __future__ import annotations

import math
from functools import cached_property, partial

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy.laws.numeric.asked import Asked
from understudy.laws.numeric.bulk import Bulk, Hint, NowhereError, find_bulk
from understudy.laws.numeric.panels import FLOOR, Height, Panels
from understudy.laws.tails import Density, quantiles, scores

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
