"""`scipy.signal.lfilter` with the equivalent steady-state filter.

With frozen gains the scalar disguise is linear and time-invariant. Whitening by the source's predictor is
z / y = (1 - A q) / (L (1 - F q)) in the delay q, with F = A (1 - K C); colouring is its inverse with the
target's numbers, so the map is

    H(q) = (~L / L) (1 - A q) (1 - ~F q) / ((1 - F q) (1 - ~A q)).

It is not the same job at the start, where the exact gains still move; outputs are compared after that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.systems import System

Array = NDArray[np.float64]


def steady_state(m: System) -> tuple[float, float]:
    """F and L of the frozen scalar predictor, by running the Riccati recursion to its fixed point."""
    A, C, Q, R = (float(v) for v in (m.A, m.C, m.Q, m.R))
    P = Q
    for _ in range(100_000):
        S = C * P * C + R
        P, before = A * (P - P * C / S * C * P) * A + Q, P
        if before == P:
            break
    S = C * P * C + R
    return A * (1 - P * C / S * C), S**0.5


def transfer_function(source: System, target: System) -> tuple[Array, Array]:
    """Numerator and denominator of the steady-state disguise, for centred readings."""
    F, L = steady_state(source)
    Ft, Lt = steady_state(target)
    return Lt / L * np.convolve([1, -source.A], [1, -Ft]), np.convolve([1, -F], [1, -target.A])


def means(m: System) -> float:
    """The stationary mean of a scalar system's readings."""
    return float(m.C * m.b / (1 - m.A) + m.d)


class SteadyFilter:
    """The equivalent filter, designed once; only the filtering is timed."""

    def __init__(self, source: System, target: System) -> None:
        from scipy.signal import lfilter, lfilter_zi

        self._lfilter = lfilter
        self._b, self._a = transfer_function(source, target)
        self._source_mean, self._target_mean = means(source), means(target)
        # Starting at rest at the source's mean makes the mean pass through as a constant.
        self._zi = lfilter_zi(self._b, self._a) * self._source_mean
        self.offset = self._target_mean - self._source_mean * self._b.sum() / self._a.sum()

    def alone(self, Y: Array) -> Array:
        """The bare filter: the output still lacks the constant `offset`. The quickest that scipy can do."""
        return self._lfilter(self._b, self._a, Y, zi=self._zi)[0]

    def whole(self, Y: Array) -> Array:
        """The filter and the offset: what a user needs."""
        out = self.alone(Y)
        out += self.offset
        return out
