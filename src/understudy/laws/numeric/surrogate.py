"""A function of one number that is dear to evaluate, as polynomials on panels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.base import Array

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
