"""What the filter of rounded readings comes to with time, for one state and one channel."""

from __future__ import annotations

import math
from typing import NamedTuple

from understudy.models.gauss_markov import GaussMarkov

_FORGOTTEN = 45.0  # natural logarithm: exp(-45) of a guess is beneath the last bit, with some room


class Settled(NamedTuple):
    """What a filter of one state comes to."""

    g: tuple[float, float]
    """The range of half^2 / S: between no variance left in a cell and the most."""
    variance: float
    """Sigma_{k|k}."""
    pole: float
    """The part of an error in the mean that is left after a reading."""


def settled_filter(linear: GaussMarkov, step: float) -> Settled:
    """The filter of matched moments under a constant model of one state and one channel, with cells of width `step`.

    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> settled = settled_filter(GaussMarkov(0.95, 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0), 0.1)
    >>> round(settled.pole, 3), round(settled.variance, 3)
    (0.374, 0.061)
    """
    A, _, Q, C, _, R = linear.row(1).tolist()
    square = (0.5 * step) ** 2
    ends, poles, variance = [], [], 0.0
    for left in (square / 3.0, 0.0):
        P = float(linear.cov0.item())
        for _ in range(10_000):
            F = A * P * A + Q
            S = C * C * F + R
            # Sigma_{k|k} = Sigma R / S + K^2 Var[y | cell]
            after = F * R / S + (C * F / S) ** 2 * left
            if abs(after - P) <= 1e-12 * after:
                break
            P = after
        ends.append(square / S)
        # A (1 - K C (1 - Var[y | cell] / S))
        poles.append(abs(A) * (1.0 - C * C * F / S * (1.0 - left / S)))
        variance = max(variance, P)
    return Settled((0.999 * min(ends), 1.001 * max(ends)), variance, max(poles))


def early(pole: float) -> int:
    """How many readings before its first a stretch begins; 0 where the filter does not forget."""
    if not pole < 0.999:
        return 0
    return 32 + math.ceil(_FORGOTTEN / -math.log(max(pole, 0.01)))
