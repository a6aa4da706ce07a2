"""Coordinates in which any density of one number is tame.

A support (low, high) is first stretched to the whole line: u = x, log(x - low), -log(high - x), or the
logit of the place between both ends. A pole or a power of the density at an end becomes an exponential
there. Then u = centre + scale sinh w brings the bulk to |w| < 1 or so and makes every power of a tail
an exponential too. Densities are integrated in w.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array

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
