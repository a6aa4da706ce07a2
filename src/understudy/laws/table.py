"""Quantiles of one law on a grid of scores: where to start the search for all others."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from understudy.laws.base import Array

_SPAN, _NODES = 5.0, 513
_STEP = 2.0 * _SPAN / (_NODES - 1)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Table:
    """Cubic interpolation of y(z) between nodes, whose slopes the density gives.

    The start of a search shows in the last digit of its end. So a law has one table for all of its values,
    however many are asked for at a time.

    >>> table = Table(lambda z: np.sinh(z), lambda y: -0.5 * np.arcsinh(y) ** 2 - 0.5 * np.log(2 * np.pi * (1 + y * y)))
    >>> bool(abs(table.start(np.array([0.123])) - np.sinh(0.123)) < 1e-9)
    True
    """

    __slots__ = ("_slope", "_y")

    def __init__(self, value: Callable[[Array], Array], logpdf: Callable[[Array], Array]) -> None:
        z = np.linspace(-_SPAN, _SPAN, _NODES)
        with np.errstate(all="ignore"):
            self._y = value(z)
            # dy/dz = phi(z) / f(y), for a step of the grid
            log_slope = -0.5 * z * z - _HALF_LOG_2PI - logpdf(self._y)
            self._slope = _STEP * np.exp(np.minimum(log_slope, 700.0))

    def start(self, z: Array) -> Array:
        """A point near the quantile of score z, NaN beyond the nodes."""
        place = (z + _SPAN) / _STEP
        inside = (place >= 0.0) & (place < _NODES - 1)
        place = np.where(inside, place, 0.0)
        node = place.astype(np.intp)
        t = place - node
        y, slope = self._y, self._slope
        low, rise = y[node], y[node + 1] - y[node]
        a, b = slope[node] - rise, rise - slope[node + 1]
        return np.where(inside, low + t * (rise + (1.0 - t) * ((1.0 - t) * a + t * b)), np.nan)
