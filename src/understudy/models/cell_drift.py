"""Whether the readings of a rounded sensor still go somewhere after the filter has settled.

The covariance of a filter settles in a few readings; the readings themselves may take thousands to reach the place
where they rest. What a filter of cells gives away depends on the place if the range has ends, or if a cell is
wide beside the readings: then the first readings do not stand for those that follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.laws.rounding import Rounding
from understudy.models.gauss_markov import GaussMarkov

_MOVED = 0.05  # by how many standard deviations a law may move that is taken for settled
_BEYOND = 8.0  # standard deviations beyond an end of the range, where nothing else is ever reported


class Move(NamedTuple):
    """Several steps of a constant system at once: x -> A x + b + noise of covariance Q."""

    A: Array
    b: Array
    Q: Array

    def then(self, after: Move) -> Move:
        """One after the other."""
        return Move(after.A @ self.A, after.A @ self.b + after.b, after.A @ self.Q @ after.A.T + after.Q)


def moved_by(linear: GaussMarkov, steps: int) -> Move:
    """So many steps of a constant model, by doubling.

    >>> room = GaussMarkov(A=0.5, C=1.0, Q=1.0, R=1.0, b=1.0)
    >>> [part.item() for part in moved_by(room, 3)]
    [0.125, 1.75, 1.3125]
    """
    n, system = linear.states, linear.at(1)
    done, step = Move(np.eye(n), np.zeros(n), np.zeros((n, n))), Move(system.A, system.b, system.Q)
    with np.errstate(over="ignore", invalid="ignore"):
        while steps:
            if steps % 2:
                done = done.then(step)
            step, steps = step.then(step), steps // 2
    return done


def started_at(linear: GaussMarkov, time: int) -> GaussMarkov:
    """A constant model that starts at a later time, with the law that the state has then if nothing was read.

    >>> room = GaussMarkov(A=0.5, C=1.0, Q=0.75, R=1.0, b=1.0, mean0=0.0, cov0=1.0)
    >>> late = started_at(room, 2)
    >>> late.mean0.item(), late.cov0.item()
    (1.5, 1.0)
    """
    system, (A, b, Q) = linear.at(1), moved_by(linear, time)
    mean, cov = A @ linear.mean0 + b, A @ linear.cov0 @ A.T + Q
    return GaussMarkov(
        system.A, system.C, system.Q, system.R, system.b, system.d, mean, 0.5 * (cov + cov.T), allow_unstable=True
    )


def drifts(linear: GaussMarkov, grid: Rounding, early: int, late: int) -> bool:
    """Whether readings have another law at the later time, and the grid is such that this counts.

    >>> slow = GaussMarkov(A=0.999, C=1.0, Q=0.01, R=0.1, b=0.05, mean0=0.0, cov0=0.1)
    >>> drifts(slow, Rounding(1, step=0.1), 50, 5000), drifts(slow, Rounding(1, step=0.1, high=30.0), 50, 5000)
    (False, True)
    """
    mean, sd = _readings(linear, early)
    after, spread = _readings(linear, late)
    if not all(np.isfinite(part).all() for part in (mean, sd, after, spread)):
        return False  # an unstable model leaves every range; only its beginning can be simulated
    for i, (step, _, low, high) in enumerate(grid.channels):
        placed = math.isfinite(low) or math.isfinite(high) or step > min(sd[i], spread[i])
        if step and placed and max(abs(after[i] - mean[i]), abs(spread[i] - sd[i])) > _MOVED * sd[i]:
            return True
    return False


def settled_by(linear: GaussMarkov, grid: Rounding, first: int, T: int) -> int:
    """The reading, at least the `first` and at most T, from which on readings do not drift in a way that counts.

    >>> slow = GaussMarkov(A=0.999, C=1.0, Q=0.01, R=0.1, b=0.05, mean0=0.0, cov0=0.1)
    >>> settled_by(slow, Rounding(1, step=0.1), 100, 5000), settled_by(slow, Rounding(1, 0.1, high=30.0), 100, 50000)
    (100, 6400)
    """
    if first >= T or not drifts(linear, grid, first // 2, T):
        return first
    time = first
    while time < T and drifts(linear, grid, time, T):
        time *= 2
    return min(time, T)


def saturated(linear: GaussMarkov, grid: Rounding) -> bool:
    """Whether the first reading is as good as certain: every channel far beyond an end of its range."""
    mean, sd = _readings(linear, 1)
    far = _BEYOND * sd
    return all(c.step and (mean[i] + far[i] < c.low or mean[i] - far[i] > c.high) for i, c in enumerate(grid.channels))


def _readings(linear: GaussMarkov, time: int) -> tuple[Array, Array]:
    """Means and standard deviations of the unrounded reading of that time, nothing being read before."""
    system, (A, b, Q) = linear.at(1), moved_by(linear, time)
    with np.errstate(over="ignore", invalid="ignore"):
        cov = system.C @ (A @ linear.cov0 @ A.T + Q) @ system.C.T + system.R
        return system.C @ (A @ linear.mean0 + b) + system.d, np.sqrt(np.diag(cov))
