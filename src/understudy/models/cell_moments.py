"""What a filter of rounded readings keeps, and the moment-matched Kalman update.

Given the cells of the past readings, the state of a Gauss-Markov model is not normal. The moment-matched filter
takes it for normal, with the mean and the covariance that it has: the joint normal law of state and reading is
restricted to the cell, channel by channel, and replaced by the normal law with the same moments.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.laws.cell_law import conditioned, known
from understudy.laws.rounding import Rounding
from understudy.models.gauss_markov import System

NOTHING = np.empty(0)
NOTHING.flags.writeable = False


class CellState(NamedTuple):
    """What is known of X_k after k readings.

    `mean` (n,) and `cov` (n, n). A point-mass filter (one state) also keeps its points, their weights, which sum to
    one, and their spacing (0 if they are not equidistant); without points the law is normal. On the way out (`emit`)
    mean and covariance are those of the ordinary Kalman filter on the unrounded readings, and there are no points.
    """

    k: int
    mean: Array
    cov: Array
    points: Array = NOTHING
    weights: Array = NOTHING
    spacing: float = 0.0


def moved(mean: Array, cov: Array, system: System) -> tuple[Array, Array]:
    """xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q."""
    A, b, Q = system.A, system.b, system.Q
    return A @ mean + b, A @ cov @ A.T + Q


def reading_law(x: Array, P: Array, system: System) -> tuple[Array, Array]:
    """Mean and covariance of the unrounded reading, C x + d and C P C' + R."""
    C, d, R = system.C, system.d, system.R
    return C @ x + d, C @ P @ C.T + R


def matched(x: Array, P: Array, system: System, y: Any, grid: Rounding) -> tuple[Array, Array]:
    """Mean and covariance of the state after a reading, from those before it."""
    C = system.C
    n = len(x)
    # the joint law of state and reading
    size = n + grid.dim
    mean, cov = np.empty(size), np.empty((size, size))
    mean[:n], cov[:n, :n] = x, P
    cov[n:, :n] = across = C @ P
    cov[:n, n:] = across.T
    mean[n:], cov[n:, n:] = C @ x + system.d, across @ C.T + system.R
    readings = [float(y)] if grid.dim == 1 else np.asarray(y, dtype=float).tolist()
    for i, channel in enumerate(grid.channels):
        at = n + i
        _, shift, variance = known(channel, i, (float(mean[at]), math.sqrt(cov[at, at])), readings[i])
        mean, cov = conditioned(mean, cov, at, shift, variance)
    x, P = mean[:n], cov[:n, :n]
    return frozen(x), frozen(0.5 * (P + P.T))


def frozen(array: Array) -> Array:
    """The array, of its own and read-only."""
    array = np.array(array, dtype=float)
    array.flags.writeable = False
    return array
