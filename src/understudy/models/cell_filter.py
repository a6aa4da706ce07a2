"""Filters of rounded readings: what is known of a Gauss-Markov state given the cells of the past readings.

Given the cells, the state is not normal. Two filters are here.

The *moment-matched* filter takes the state for normal, with the mean and the covariance that it has: the joint normal
law of state and reading is restricted to the cell, channel by channel, and replaced by the normal law with the same
moments.

The *point-mass* filter (one state) is exact, up to a quadrature. The law of X_k given the cells so far is a density; it
is kept as weighted points. One step::

    p(x) = sum_j w_j N(x; A x_j + b, Q)                     the move into X_k
    w_i ~ p(x_i) prod_l Pr(Y_l in its cell | x_i) h_i       the reading, at new points x_i with quadrature weights h_i

Everything under the sum is smooth on the scale 1/sigma^2 = 1/Q + A^2/Q + sum_l C_l^2/R_l, and equidistant points at
a spacing of r sigma sum it with a relative error of exp(-2 pi^2 / r^2): 6e-16 for r = 0.75. Where R = 0 the cell is
where the state is, and Gauss-Legendre points fill it. The points go as far as prior and likelihood both reach.

A reading of probability below 1e-11 lies where the points do not reach; it falls back on matched moments.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Numbers
from understudy.laws.cells import CellLaw, CellMixture, Rounding, conditioned, known, log_probability
from understudy.models.gauss_markov import Filtered, GaussMarkov, System

# Matched moments ---------------------------------------------------------------------------------------


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


def matched(x: Array, P: Array, system: System, y: Numbers, grid: Rounding) -> tuple[Array, Array]:
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


# Point masses ------------------------------------------------------------------------------------------


_UNLIKELY = 1e-11


class Fineness(NamedTuple):
    """How finely a density is kept."""

    ratio: float = 0.75
    """Spacing of the points over the scale sigma."""
    reach: float = 8.3
    """How many standard deviations of a noise are followed."""
    least: float = 1e-17
    """Weights at the ends that are less than this part of the largest one are dropped."""
    most: int = 4000
    """Points; more would be needed only where the start is very uncertain, and the law is then taken for normal."""


USUAL = Fineness()
REFERENCE = Fineness(0.55, 9.5, 1e-21, 40_000)


class Scalars(NamedTuple):
    """A system of one state, in plain numbers and vectors over the channels."""

    A: float
    b: float
    Q: float
    C: Array
    d: Array
    R: Array

    @property
    def scale(self) -> float:
        """The length on which everything is smooth; R = 0 does not count."""
        noisy = self.R > 0.0
        rate = (1.0 + self.A**2) / self.Q + float((self.C[noisy] ** 2 / self.R[noisy]).sum())
        return 1.0 / math.sqrt(rate)


def scalars(system: System) -> Scalars:
    """The system, if it has one state and channels whose noises are independent."""
    return Scalars(
        float(system.A.item()),
        float(system.b.item()),
        float(system.Q.item()),
        system.C[:, 0],
        system.d,
        np.diag(system.R),
    )


def point_mass_obstacle(system: System, grid: Rounding) -> str | None:
    """Why there is no point-mass filter for this system; None if there is one."""
    if system.A.shape[0] != 1:
        return f"the model has {system.A.shape[0]} states, and the point-mass filter is for one"
    if not grid.everywhere:
        return "a channel is not rounded"
    R = system.R
    if np.any(R - np.diag(np.diag(R))):
        return "the noises of the channels are correlated (R is not diagonal)"
    if not system.Q.item() > 0.0:
        return "there is no state noise (Q = 0)"
    s = scalars(system)
    if grid.dim > 1 and not (s.R > 0.0).all():
        return "a channel has no noise (R has a zero on its diagonal)"
    widths = [c.step + 2.0 * USUAL.reach * math.sqrt(r) for c, r in zip(grid.channels, s.R, strict=True) if r > 0.0]
    spacing = USUAL.ratio * s.scale
    if any(width > 1000.0 * spacing * abs(c) > 0.0 for width, c in zip(widths, s.C, strict=False)):
        return "the noise of a reading is too small beside its step for a grid of points (and not zero)"
    return None


def predicted(state: CellState, system: System, grid: Rounding, fineness: Fineness = USUAL) -> CellLaw | CellMixture:
    """Law of the next reading."""
    s = scalars(system)
    if grid.dim == 1:
        if not state.points.size:  # a normal state: exact
            return CellLaw(*reading_law(*moved(state.mean, state.cov, system), system), grid)
        centres = s.C[:, None] * (s.A * state.points + s.b) + s.d[:, None]
        return CellMixture(state.weights, centres, np.sqrt(s.C**2 * s.Q + s.R), grid)
    window = _reached(state, s, fineness)
    count = _count(window, s, fineness)
    if count > fineness.most:
        return CellLaw(*reading_law(*moved(state.mean, state.cov, system), system), grid)
    x, _ = _equidistant(window, count)
    weights = prior(state, s, x)
    return CellMixture(weights / weights.sum(), s.C[:, None] * x + s.d[:, None], np.sqrt(s.R), grid)


def updated(state: CellState, system: System, y: Numbers, grid: Rounding, fineness: Fineness = USUAL) -> CellState:
    """What is known after a reading."""
    found = _posterior(state, scalars(system), np.reshape(y, grid.dim).tolist(), grid, fineness)
    if found is None:
        mean, cov = matched(*moved(state.mean, state.cov, system), system, y, grid)
        return CellState(state.k + 1, mean, cov)
    return _kept(state.k + 1, *found, fineness)


def skipped(state: CellState, system: System, fineness: Fineness = USUAL) -> CellState:
    """What is known after a missing reading: the move alone."""
    mean, cov = moved(state.mean, state.cov, system)
    s = scalars(system)
    window = _reached(state, s, fineness)
    count = _count(window, s, fineness)
    if not state.points.size or count > fineness.most:
        return CellState(state.k + 1, frozen(mean), frozen(cov))
    x, spacing = _equidistant(window, count)
    return _kept(state.k + 1, x, prior(state, s, x), spacing, fineness)


def prior(state: CellState, s: Scalars, x: Array) -> Array:
    """Density of X_k before its reading, at points x."""
    if not state.points.size:
        mean, variance = s.A * float(state.mean.item()) + s.b, s.A**2 * float(state.cov.item()) + s.Q
        return np.asarray(np.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2.0 * math.pi * variance))
    t = (x[:, None] - (s.A * state.points + s.b)) / math.sqrt(s.Q)
    return np.asarray(np.exp(-0.5 * t * t) @ state.weights / math.sqrt(2.0 * math.pi * s.Q))


def _reached(state: CellState, s: Scalars, fineness: Fineness) -> tuple[float, float]:
    """Where X_k may be before its reading."""
    if state.points.size:
        first, last = sorted((s.A * float(state.points[0]) + s.b, s.A * float(state.points[-1]) + s.b))
        room = fineness.reach * math.sqrt(s.Q)
    else:
        first = last = s.A * float(state.mean.item()) + s.b
        room = fineness.reach * math.sqrt(s.A**2 * float(state.cov.item()) + s.Q)
    return first - room, last + room


def _count(window: tuple[float, float], s: Scalars, fineness: Fineness) -> int:
    return 2 + int(min((window[1] - window[0]) / (fineness.ratio * s.scale), 1e9))


@cache
def _legendre(count: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(count)


def _equidistant(window: tuple[float, float], count: int) -> tuple[Array, float]:
    spacing = (window[1] - window[0]) / (count - 1)
    return np.asarray(window[0] + spacing * np.arange(count), dtype=float), spacing


def _posterior(
    state: CellState, s: Scalars, y: list[float], grid: Rounding, fineness: Fineness
) -> tuple[Array, Array, float] | None:
    """Points, weights and spacing after a reading; None where the points do not reach."""
    first, last = _reached(state, s, fineness)
    cells = [channel.cells(y[i], i) for i, channel in enumerate(grid.channels)]
    for i, cell in enumerate(cells):
        C, d, r = float(s.C[i]), float(s.d[i]), fineness.reach * math.sqrt(s.R[i])
        if C:
            low, high = sorted(((float(cell.lower) - r - d) / C, (float(cell.upper) + r - d) / C))
            first, last = max(first, low), min(last, high)
    if not first < last:
        return None
    if grid.dim == 1 and s.R[0] == 0.0:
        # the reading is the state: Gauss-Legendre points fill what the cell leaves
        spacing, width = 0.0, (last - first) / math.sqrt(s.Q)
        t, h = _legendre(12 + int(min(4.0 * width, 200.0)))
        x = 0.5 * (first + last) + 0.5 * (last - first) * t
        weights = prior(state, s, x) * (0.5 * (last - first) * h)
    else:
        count = _count((first, last), s, fineness)
        if count > fineness.most:
            return None
        x, spacing = _equidistant((first, last), count)
        weights = prior(state, s, x) * spacing
        for i, cell in enumerate(cells):
            q, sd = s.C[i] * x + s.d[i], math.sqrt(s.R[i])
            half = np.full(x.shape, cell.half / sd)
            weights = weights * np.exp(log_probability((cell.lower - q) / sd, (cell.upper - q) / sd, half))
    if not float(weights.sum()) > _UNLIKELY:
        return None
    return x, weights, spacing


def _kept(k: int, x: Array, weights: Array, spacing: float, fineness: Fineness) -> CellState:
    """The state with these points, without the ends that weigh nothing."""
    there = np.flatnonzero(weights > fineness.least * weights.max())
    keep = slice(int(there[0]), int(there[-1]) + 1)
    x, weights = x[keep], weights[keep] / weights[keep].sum()
    mean = float(weights @ x)
    variance = float(weights @ (x - mean) ** 2)
    return CellState(k, frozen(np.array([mean])), frozen(np.array([[variance]])), frozen(x), frozen(weights), spacing)


def innovation_sds(linear: GaussMarkov, count: int = 200) -> Array:
    """Smallest standard deviation of each channel of the unrounded innovations, over the first readings."""
    state: Filtered = linear.start()
    least = np.full(linear.dim, math.inf)
    for k in range(1, min(count, linear.steps or count) + 1):
        system = linear.at(k)
        x, P = moved(state.mean, state.cov, system)
        S = system.C @ P @ system.C.T + system.R
        now = np.sqrt(np.diag(S))
        if linear.constant and np.allclose(now, least, rtol=1e-12, atol=0.0):
            break
        least = np.minimum(least, now)
        state = linear.update(state, system.C @ x + system.d)
    return least
