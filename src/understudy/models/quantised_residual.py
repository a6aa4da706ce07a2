"""Filters of rounded readings, and what they give away.

Given the cells of the past readings, a Gauss-Markov state is not normal. Two filters are here.

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

What such a filter gives away is the divergence of the true law from its own, by simulation. A sequence is drawn and
rounded. Before each reading, the true law of its cell given the cells so far, p, is set
against the one of the filter in use, q:

    KL = sum over cells of p ln(p/q) = sum of (p ln(p/q) - p + q)

whose terms are nowhere negative, so that nothing cancels and a divergence of 1e-12 keeps its digits. (The mean of
ln(p/q) over the readings that were drawn has the same expectation and a standard error of sqrt(2 KL / n), which
drowns it.) By the chain rule the sum over the readings, averaged over sequences, is the divergence of the whole.

The truth is the point-mass filter on a fine grid where there is one. For several states, and where else there is none,
it is a population of 2 x 1000 Kalman filters on readings drawn inside the cells; what their own noise adds to the
divergence is estimated from two halves and taken off.

Filters are set against each other by what each expects next, cell by cell (`Contender`). Each says, one channel after
the other, which probability it gives to any cell (`masses`), and is then told what was read (`see`). `Points` and
`Particles` serve as the truth. `Normal` is the filter in use, and two that are not to be used, for comparison.

A model may drift after its filter has settled (`drifts`). The covariance of a filter settles in a few readings; the
readings themselves may take thousands to reach the place where they rest. What a filter of cells gives away depends
on the place if the range has ends, or if a cell is wide beside the readings: then the first readings do not stand for
those that follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, Protocol

import numpy as np

from understudy._types import Array, Numbers, Seed
from understudy.errors import ModelError
from understudy.laws.atoms import (
    CellLaw,
    CellMixture,
    Channel,
    Rounding,
    condition,
    log_probability,
    observe,
    scores,
    truncate,
)
from understudy.models.gauss_markov import Filtered, GaussMarkov, System
from understudy.models.model import Residual

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


def move_state(mean: Array, cov: Array, system: System) -> tuple[Array, Array]:
    """xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q; the mean (n,), or (n, N)."""
    A, b, Q = system.A, system.b, system.Q
    return ((A @ mean).T + b).T, A @ cov @ A.T + Q


def joint_law(x: Array, P: Array, system: System) -> tuple[Array, Array]:
    """Mean, (n + d,) or (n + d, N), and covariance of state and reading together."""
    C, n, size = system.C, len(x), len(x) + len(system.d)
    mean, cov = np.empty((size, *x.shape[1:])), np.empty((size, size))
    mean[:n], cov[:n, :n] = x, P
    cov[n:, :n] = across = C @ P
    cov[:n, n:] = across.T
    mean[n:], cov[n:, n:] = ((C @ x).T + system.d).T, across @ C.T + system.R
    return mean, cov


def reading_law(x: Array, P: Array, system: System) -> tuple[Array, Array]:
    """Mean and covariance of the unrounded reading, C x + d and C P C' + R."""
    C, d, R = system.C, system.d, system.R
    return C @ x + d, C @ P @ C.T + R


def match_moments(x: Array, P: Array, system: System, y: Numbers, grid: Rounding) -> tuple[Array, Array]:
    """Mean and covariance of the state after a reading, from those before it."""
    n, (mean, cov) = len(x), joint_law(x, P, system)
    readings = [float(y)] if grid.dim == 1 else np.asarray(y, dtype=float).tolist()
    for i, channel in enumerate(grid.channels):
        at = n + i
        _, shift, variance = observe(channel, i, (float(mean[at]), math.sqrt(cov[at, at])), readings[i])
        mean, cov = condition(mean, cov, at, shift, variance)
    x, P = mean[:n], cov[:n, :n]
    return freeze(x), freeze(0.5 * (P + P.T))


def freeze(array: Array) -> Array:
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


def predict_cells(
    state: CellState, system: System, grid: Rounding, fineness: Fineness = USUAL
) -> CellLaw | CellMixture:
    """Law of the next reading."""
    s = scalars(system)
    if grid.dim == 1:
        if not state.points.size:  # a normal state: exact
            return CellLaw(*reading_law(*move_state(state.mean, state.cov, system), system), grid)
        centres = s.C[:, None] * (s.A * state.points + s.b) + s.d[:, None]
        return CellMixture(state.weights, centres, np.sqrt(s.C**2 * s.Q + s.R), grid)
    window = _window(state, s, fineness)
    count = _count(window, s, fineness)
    if count > fineness.most:
        return CellLaw(*reading_law(*move_state(state.mean, state.cov, system), system), grid)
    x, _ = _equidistant(window, count)
    weights = prior(state, s, x)
    return CellMixture(weights / weights.sum(), s.C[:, None] * x + s.d[:, None], np.sqrt(s.R), grid)


def update_cells(state: CellState, system: System, y: Numbers, grid: Rounding, fineness: Fineness = USUAL) -> CellState:
    """What is known after a reading."""
    found = _posterior(state, scalars(system), np.reshape(y, grid.dim).tolist(), grid, fineness)
    if found is None:
        mean, cov = match_moments(*move_state(state.mean, state.cov, system), system, y, grid)
        return CellState(state.k + 1, mean, cov)
    return _cut_ends(state.k + 1, *found, fineness)


def skip_cells(state: CellState, system: System, fineness: Fineness = USUAL) -> CellState:
    """What is known after a missing reading: the move alone."""
    mean, cov = move_state(state.mean, state.cov, system)
    s = scalars(system)
    window = _window(state, s, fineness)
    count = _count(window, s, fineness)
    if not state.points.size or count > fineness.most:
        return CellState(state.k + 1, freeze(mean), freeze(cov))
    x, spacing = _equidistant(window, count)
    return _cut_ends(state.k + 1, x, prior(state, s, x), spacing, fineness)


def leap_cells(state: CellState, system: System, count: int, fineness: Fineness = USUAL) -> CellState:
    """What is known after so many missing readings of a constant system: one move, as long as all of them.

    Not to the bits of one after the other, which rounds its points at each: nearer to the law.
    """
    A, b, Q = system.A, system.b, system.Q
    far, left = (np.eye(len(A)), np.zeros_like(b), np.zeros_like(Q)), count
    while left:  # moves that double, and those of them that the count is made of
        if left % 2:
            far = A @ far[0], A @ far[1] + b, A @ far[2] @ A.T + Q
        left //= 2
        A, b, Q = A @ A, A @ b + b, A @ Q @ A.T + Q
    whole, s = system._replace(A=far[0], b=far[1], Q=far[2]), scalars(system)
    mean, cov = move_state(state.mean, state.cov, whole)
    window = _window(state, scalars(whole), fineness)
    number = _count(window, s, fineness)  # as near to each other as one step needs them
    if not state.points.size or number > fineness.most:
        return CellState(state.k + count, freeze(mean), freeze(cov))
    x, spacing = _equidistant(window, number)
    return _cut_ends(state.k + count, x, prior(state, scalars(whole), x), spacing, fineness)


def prior(state: CellState, s: Scalars, x: Array) -> Array:
    """Density of X_k before its reading, at points x."""
    if not state.points.size:
        mean, variance = s.A * float(state.mean.item()) + s.b, s.A**2 * float(state.cov.item()) + s.Q
        return np.asarray(np.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2.0 * math.pi * variance))
    t = (x[:, None] - (s.A * state.points + s.b)) / math.sqrt(s.Q)
    return np.asarray(np.exp(-0.5 * t * t) @ state.weights / math.sqrt(2.0 * math.pi * s.Q))


def _window(state: CellState, s: Scalars, fineness: Fineness) -> tuple[float, float]:
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
    first, last = _window(state, s, fineness)
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


def _cut_ends(k: int, x: Array, weights: Array, spacing: float, fineness: Fineness) -> CellState:
    """The state with these points, without the ends that weigh nothing."""
    there = np.flatnonzero(weights > fineness.least * weights.max())
    keep = slice(int(there[0]), int(there[-1]) + 1)
    x, weights = x[keep], weights[keep] / weights[keep].sum()
    mean = float(weights @ x)
    variance = float(weights @ (x - mean) ** 2)
    return CellState(k, freeze(np.array([mean])), freeze(np.array([[variance]])), freeze(x), freeze(weights), spacing)


def innovation_sds(linear: GaussMarkov, count: int = 200) -> Array:
    """Smallest standard deviation of each channel of the unrounded innovations, over the first readings."""
    state: Filtered = linear.start()
    least = np.full(linear.dim, math.inf)
    for k in range(1, min(count, linear.steps or count) + 1):
        system = linear.at(k)
        x, P = move_state(state.mean, state.cov, system)
        S = system.C @ P @ system.C.T + system.R
        now = np.sqrt(np.diag(S))
        if linear.constant and np.allclose(now, least, rtol=1e-12, atol=0.0):
            break
        least = np.minimum(least, now)
        state = linear.update(state, system.C @ x + system.d)
    return least


# Filters, set against each other -----------------------------------------------------------------------


class Contender(Protocol):
    """A filter, in the hands of a simulation."""

    def advance(self, system: System) -> None:
        """Move into the next state, and form the law of its reading."""
        ...

    def outline(self, i: int) -> tuple[float, float]:
        """Mean and standard deviation of channel i given the channels before."""
        ...

    def masses(self, i: int, edges: Array) -> Array:
        """Probabilities between neighbouring edges; for a channel that is not rounded, densities there.

        One row; or several rows, each an estimate of its own.
        """
        ...

    def see(self, i: int, y: float) -> None:
        """Channel i was reported as y."""
        ...

    def finish(self) -> None:
        """All channels were seen."""
        ...


def _between(edges: Array, q: Numbers, s: float, rounded: bool) -> Array:
    """What a normal law with each of the means q puts between the edges (its density there), (edges, means)."""
    from scipy.special import erfc

    t = (edges[:, None] - q) / s
    if not rounded:
        return np.asarray(np.exp(-0.5 * t * t) / (math.sqrt(2.0 * math.pi) * s))
    return np.asarray(0.5 * np.diff(erfc(-math.sqrt(0.5) * t), axis=0))


def _outline(w: Array, q: Array, s: float) -> tuple[float, float]:
    """Mean and standard deviation of a mixture of normal laws with the means q."""
    mean = float(w @ q)
    return mean, math.sqrt(float(w @ (q - mean) ** 2) + s * s)


class Normal:
    """The state is taken for normal. `rule` says what a cell is taken for.

    "moments": the truncated law, by its moments; "kalman": a reading with the additional variance step^2/12;
    "jitter": a reading drawn anew, uniformly inside the cell, and taken for the unrounded one.
    """

    def __init__(self, linear: GaussMarkov, grid: Rounding, rule: str, rng: np.random.Generator) -> None:
        self._grid, self._rule, self._rng, self._n = grid, rule, rng, linear.states
        self._mean, self._cov = linear.mean0, linear.cov0

    def advance(self, system: System) -> None:
        """The joint normal law of state and reading."""
        self._mean, self._cov = joint_law(*move_state(self._mean, self._cov, system), system)

    def outline(self, i: int) -> tuple[float, float]:
        """As the joint law has it."""
        at = self._n + i
        return float(self._mean[at]), math.sqrt(self._cov[at, at])

    def masses(self, i: int, edges: Array) -> Array:
        """Differences of the normal distribution function."""
        q, s = self.outline(i)
        return _between(edges, q, s, bool(self._grid.channels[i].step))[:, 0][None]

    def see(self, i: int, y: float) -> None:
        """By the rule."""
        q, s = self.outline(i)
        step, S = self._grid.channels[i].step, s * s
        if not step or self._rule == "moments":
            _, shift, variance = observe(self._grid.channels[i], i, (q, s), y)
        elif self._rule == "kalman":
            r = step * step / 12.0
            shift, variance = (y - q) * S / (S + r), S * r / (S + r)
        else:
            shift, variance = y + step * float(self._rng.uniform(-0.5, 0.5)) - q, 0.0
        self._mean, self._cov = condition(self._mean, self._cov, self._n + i, shift, variance)

    def finish(self) -> None:
        """The state alone."""
        self._mean, self._cov = self._mean[: self._n], self._cov[: self._n, : self._n]


class Points:
    """The point-mass filter, of one state."""

    def __init__(self, linear: GaussMarkov, grid: Rounding, fineness: Fineness) -> None:
        self._grid, self._fineness = grid, fineness
        self._state = CellState(0, linear.mean0, linear.cov0)
        self._seen: list[float] = []

    def advance(self, system: System) -> None:
        """Points and weights of the law of the reading."""
        self._system = system
        law = predict_cells(self._state, system, self._grid, self._fineness)
        if isinstance(law, CellLaw):
            mean, cov = law.parts
            self._parts = np.ones(1), np.reshape(mean, (-1, 1)), np.sqrt(np.diag(np.atleast_2d(cov)))
        else:
            self._parts = law.parts
        self._seen = []

    def outline(self, i: int) -> tuple[float, float]:
        """Mean and standard deviation of the mixture."""
        w, q, s = self._parts
        return _outline(w, q[i], float(s[i]))

    def masses(self, i: int, edges: Array) -> Array:
        """Sums over the points."""
        w, q, s = self._parts
        return np.asarray(_between(edges, q[i], float(s[i]), True) @ w)[None]

    def see(self, i: int, y: float) -> None:
        """The points are weighted by the probability of the cell."""
        self._seen.append(y)
        if len(self._seen) < self._grid.dim:
            w, q, s = self._parts
            cell = self._grid.channels[i].cells(y, i)
            w = w * _between(np.array([cell.lower, cell.upper]), q[i], float(s[i]), True)[0]
            self._parts = w / w.sum(), q, s

    def finish(self) -> None:
        """The update of the filter."""
        y = self._seen[0] if self._grid.dim == 1 else np.array(self._seen)
        self._state = update_cells(self._state, self._system, y, self._grid, self._fineness)


class Particles:
    """Any model: unrounded readings are drawn inside their cells, and given these the Kalman filter is exact.

    A particle is the mean of a Kalman filter; the covariance is common to all. Its weight is the probability of
    the cells along the readings that it drew. Two populations, which know nothing of each other, tell how much of
    a divergence is the noise of the particles.
    """

    def __init__(self, linear: GaussMarkov, grid: Rounding, count: int, rng: np.random.Generator) -> None:
        self._grid, self._rng, self._n = grid, rng, linear.states
        self._mean = np.repeat(linear.mean0[:, None], 2 * count, axis=1)
        self._cov = linear.cov0
        self._weights = np.full((2, count), 1.0 / count)

    def advance(self, system: System) -> None:
        """The joint normal law of state and reading, with one mean a particle."""
        self._mean, self._cov = joint_law(*move_state(self._mean, self._cov, system), system)

    def _normal(self, i: int) -> tuple[Array, float]:
        at = self._n + i
        return self._mean[at], math.sqrt(self._cov[at, at])

    def outline(self, i: int) -> tuple[float, float]:
        """Mean and standard deviation of the mixture."""
        return _outline(0.5 * self._weights.ravel(), *self._normal(i))

    def masses(self, i: int, edges: Array) -> Array:
        """The two populations' estimates."""
        q, s = self._normal(i)
        rounded = bool(self._grid.channels[i].step)
        rows = []
        for means, weights in zip(q.reshape(2, -1), self._weights, strict=True):
            nodes, w = _few(means, weights, s)
            rows.append(_between(edges, nodes, s, rounded) @ w)
        return np.array(rows)

    def see(self, i: int, y: float) -> None:
        """Weights by the cell, and a reading drawn inside it."""
        q, s = self._normal(i)
        channel: Channel = self._grid.channels[i]
        if channel.step:
            cell = channel.cells(y, i)
            a, b = (cell.lower - q) / s, (cell.upper - q) / s
            logs = np.asarray(truncate(a, b, np.full(q.shape, cell.half / s)).log_probability)
            drawn = q + s * scores(a, b, logs, self._uniforms())
        else:
            logs, drawn = -0.5 * ((y - q) / s) ** 2, np.full(q.shape, y)
        w = self._weights * np.exp(logs - logs.max()).reshape(2, -1)
        self._weights = w / w.sum(axis=1, keepdims=True)
        at = self._n + i
        K = self._cov[:, at] / self._cov[at, at]
        self._mean = self._mean + K[:, None] * (drawn - q)
        self._cov = self._cov - np.outer(K, K) * self._cov[at, at]

    def _uniforms(self) -> Array:
        """Spread evenly over each population, in random order: sums over the past hardly vary."""
        count = self._weights.shape[1]
        order = self._rng.permuted(np.tile(np.arange(count, dtype=float), (2, 1)), axis=1)
        v = (order + self._rng.random(order.shape)) / count
        return np.asarray(np.clip(v.ravel(), 1e-16, 1.0 - 1e-16))

    def finish(self) -> None:
        """The states alone; a population that has grown uneven is drawn anew from itself, in the order of readings."""
        shown = self._mean[self._n]
        self._mean, self._cov = self._mean[: self._n], self._cov[: self._n, : self._n]
        count = self._weights.shape[1]
        for population, w in enumerate(self._weights):
            if count * float(w @ w) > 2.0:
                span = slice(population * count, (population + 1) * count)
                order = np.argsort(shown[span])
                at = (np.arange(count) + self._rng.random()) / count
                chosen = order[np.minimum(np.searchsorted(np.cumsum(w[order]), at), count - 1)]
                self._mean[:, span] = self._mean[:, span][:, chosen]
                self._weights[population] = 1.0 / count


def _few(q: Array, w: Array, s: float) -> tuple[Array, Array]:
    """A few means and weights that stand for many: the Gauss quadrature of the same moments (Stieltjes' procedure).

    What is summed over the means is smooth on the scale s, so a dozen and four for each s of their spread will do.
    """
    centre, half = 0.5 * float(q.min() + q.max()), 0.5 * float(q.max() - q.min())
    if half <= 1e-12 * s:
        return np.array([float(w @ q)]), np.ones(1)
    t = (q - centre) / half
    count = min(12 + int(8.0 * half / s), 60, t.size // 4)
    diagonal, beside = np.empty(count), np.zeros(count)
    before, now, norm = np.zeros(t.size), np.ones(t.size), 1.0
    for k in range(count):
        diagonal[k] = float(w @ (t * now * now)) / norm
        after = (t - diagonal[k]) * now - beside[k] * before
        size = float(w @ (after * after))
        if k + 1 == count or size <= 1e-28 * norm:
            count = k + 1
            break
        beside[k + 1] = size / norm
        before, now, norm = now, after, size
    off = np.sqrt(beside[1:count])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal[:count]) + np.diag(off, 1) + np.diag(off, -1))
    return centre + half * nodes, vectors[0] ** 2


# Readings that drift -----------------------------------------------------------------------------------


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


def move_by(linear: GaussMarkov, steps: int) -> Move:
    """So many steps of a constant model, by doubling.

    >>> room = GaussMarkov(A=0.5, C=1.0, Q=1.0, R=1.0, b=1.0)
    >>> [part.item() for part in move_by(room, 3)]
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


def start_at(linear: GaussMarkov, time: int) -> GaussMarkov:
    """A constant model that starts at a later time, with the law that the state has then if nothing was read.

    >>> room = GaussMarkov(A=0.5, C=1.0, Q=0.75, R=1.0, b=1.0, mean0=0.0, cov0=1.0)
    >>> late = start_at(room, 2)
    >>> late.mean0.item(), late.cov0.item()
    (1.5, 1.0)
    """
    system, (A, b, Q) = linear.at(1), move_by(linear, time)
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


def settling_time(linear: GaussMarkov, grid: Rounding, first: int, T: int) -> int:
    """The reading, at least the `first` and at most T, from which on readings do not drift in a way that counts.

    >>> slow = GaussMarkov(A=0.999, C=1.0, Q=0.01, R=0.1, b=0.05, mean0=0.0, cov0=0.1)
    >>> settling_time(slow, Rounding(1, step=0.1), 100, 5000)
    100
    >>> settling_time(slow, Rounding(1, 0.1, high=30.0), 100, 50000)
    6400
    """
    if first >= T or not drifts(linear, grid, first // 2, T):
        return first
    time = first
    while time < T and drifts(linear, grid, time, T):
        time *= 2
    return min(time, T)


def is_saturated(linear: GaussMarkov, grid: Rounding) -> bool:
    """Whether the first reading is as good as certain: every channel far beyond an end of its range."""
    mean, sd = _readings(linear, 1)
    far = _BEYOND * sd
    return all(c.step and (mean[i] + far[i] < c.low or mean[i] - far[i] > c.high) for i, c in enumerate(grid.channels))


def _readings(linear: GaussMarkov, time: int) -> tuple[Array, Array]:
    """Means and standard deviations of the unrounded reading of that time, nothing being read before."""
    system, (A, b, Q) = linear.at(1), move_by(linear, time)
    with np.errstate(over="ignore", invalid="ignore"):
        cov = system.C @ (A @ linear.cov0 @ A.T + Q) @ system.C.T + system.R
        return system.C @ (A @ linear.mean0 + b) + system.d, np.sqrt(np.diag(cov))


# The divergence ----------------------------------------------------------------------------------------


RULES = ("moments", "kalman", "jitter", "point-mass")
_FEWEST, _MOST = 100, 2000  # readings that are simulated; what follows is like the second half of them
_BLOCKS = 4  # later ones a sequence, where readings drift on
_POPULATION = 1000
_FAR = 9.5  # standard deviations within which cells are summed

Maker = Callable[[np.random.Generator], Contender]


def residual(
    linear: GaussMarkov, grid: Rounding, method: str, T: int, *, sequences: int = 16, rng: Seed = None
) -> Residual:
    """Divergence of the true law of T readings from a filter: method "moments" or "point-mass".

    A constant model settles, and only its first readings are simulated (at least 100); the rest are counted at the
    mean of the second half of these. Where readings drift on, to an end of the range or to another place in a wide
    cell, later blocks are simulated too.

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    >>> found = residual(room, Rounding(1, step=0.5), "moments", 1000, sequences=4, rng=1)
    >>> 5e-8 < found.per_reading < 5e-7
    True
    """
    for name, count, least in (("T", T, 1), ("sequences", sequences, 2)):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
            raise ModelError(f"{name} = {count!r}; it must be a whole number of at least {least}")
    generator = np.random.default_rng(rng)
    simulated = min(T, _settling_time(linear)) if linear.constant else T
    # point masses are right wherever readings drift to
    rest = settling_time(linear, grid, simulated, T) if method == "moments" else simulated
    if rest > simulated >= T // 2:
        simulated = rest = T
    truth, name = _truth(linear, grid)
    use = contender(linear, grid, method)
    total = []
    for j, seed in enumerate(generator.spawn(sequences)):
        first = _divergences(linear, grid, (truth, use), simulated, seed)[0]
        later = float(first[simulated // 2 :].mean())
        total.append(float(first.sum()))
        if rest > simulated:
            # integral of D(t) dt = that of D(t) t dln(t), by one time in each of many equal parts of the logarithm
            span = math.log(rest / simulated)
            parts = (np.arange(_BLOCKS) + (j + seed.random(_BLOCKS)) / sequences) / _BLOCKS
            times = (simulated * np.exp(span * parts)).tolist()
            around = partial(_around, linear, grid, method, simulated, seed)
            total[-1] += span * sum(t * around(t) for t in times) / _BLOCKS
            later = around(rest) if rest < T else 0.0
        total[-1] += (T - rest) * later
    how = f"{name}, {sequences} sequences of {simulated} readings" + " and later blocks" * (rest > simulated)
    return Residual.from_totals(np.array(total), T, how)


def _around(
    linear: GaussMarkov, grid: Rounding, method: str, readings: int, rng: np.random.Generator, time: float
) -> float:
    """Mean divergence of a reading around a later time: at the end of a block, when the filters have settled."""
    before, counted = readings // 3, readings // 6
    begun = start_at(linear, max(0, int(time) - before))
    if is_saturated(begun, grid):
        return 0.0
    makers = _truth(begun, grid)[0], contender(begun, grid, method)
    return float(_divergences(begun, grid, makers, before + counted, rng)[0, before:].mean())


class Row(NamedTuple):
    """Divergence a reading, in nats, and its standard error."""

    ratio: float
    """Step over the standard deviation of the unrounded innovations."""
    rule: str
    """The filter."""
    kl: float
    error: float


def residual_table(
    linear: GaussMarkov,
    ratios: Sequence[float] = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0),
    rules: tuple[str, ...] = RULES,
    *,
    readings: int = 100,
    sequences: int = 16,
    rng: Seed = 0,
) -> list[Row]:
    """Divergence a reading of several filters, in the settled state, for several steps (one channel).

    "moments" and "point-mass" are those of `Quantised`; "kalman" takes a cell for a reading with the additional
    variance step^2/12; "jitter" draws a reading inside the cell and goes on as if it had not been rounded. All are
    scored by the probabilities of cells. (To score the jittered number itself, by its density, is worse still.)

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1)
    >>> rows = residual_table(room, [1.0], ("moments", "jitter"), readings=20, sequences=4)
    >>> [row.rule for row in rows if row.kl < 1e-6]
    ['moments']
    """
    if linear.dim != 1 or not linear.constant:
        raise ModelError("the table is for a constant model of one channel")
    sd = float(innovation_sds(linear)[0])
    rows = []
    for ratio in ratios:
        # an offset that is no fraction of the step: no cell is special
        grid = Rounding(1, step=float(ratio) * sd, offset=0.2345 * sd)
        truth, _ = _truth(linear, grid)
        makers = (truth, *(contender(linear, grid, rule) for rule in rules))
        each = np.array(
            [
                _divergences(linear, grid, makers, 2 * readings, seed)[:, readings:].mean(axis=1)
                for seed in np.random.default_rng(rng).spawn(sequences)
            ]
        )
        errors = each.std(axis=0, ddof=1) / math.sqrt(sequences)
        figures = zip(rules, each.mean(axis=0).tolist(), errors.tolist(), strict=True)
        rows += [Row(float(ratio), rule, kl, error) for rule, kl, error in figures]
    return rows


def contender(linear: GaussMarkov, grid: Rounding, rule: str) -> Maker:
    """What makes a filter by its name."""
    if rule not in RULES:
        raise ModelError(f"rule = {rule!r}; it must be one of {', '.join(RULES)}")
    if rule == "point-mass":
        return lambda rng: Points(linear, grid, USUAL)
    return lambda rng: Normal(linear, grid, rule, rng)


def _truth(linear: GaussMarkov, grid: Rounding) -> tuple[Maker, str]:
    """The reference, and its name."""
    steps = [1] if linear.constant or linear.steps is None else range(1, linear.steps + 1)
    if all(point_mass_obstacle(linear.at(k), grid) is None for k in steps):
        return lambda rng: Points(linear, grid, REFERENCE), "point-mass reference"
    return lambda rng: Particles(linear, grid, _POPULATION, rng), f"reference of 2 x {_POPULATION} particles"


def _divergences(
    linear: GaussMarkov, grid: Rounding, makers: tuple[Maker, ...], T: int, rng: np.random.Generator
) -> Array:
    """The divergence of each reading along one sequence, (filters, T); the first maker makes the truth."""
    simulation, *seeds = rng.spawn(1 + len(makers))
    filters = [make(seed) for make, seed in zip(makers, seeds, strict=True)]
    true, *used = filters
    x = linear.mean0 + _root(linear.cov0) @ simulation.standard_normal(linear.states)
    out = np.zeros((len(used), T))
    for k in range(T):
        system = linear.at(k + 1)
        x = system.A @ x + system.b + _root(system.Q) @ simulation.standard_normal(linear.states)
        y = system.C @ x + system.d + _root(system.R) @ simulation.standard_normal(linear.dim)
        for each in filters:
            each.advance(system)
        for i, channel in enumerate(grid.channels):
            edges, width = _edges(channel, *(each.outline(i) for each in filters))
            p = width * true.masses(i, edges)
            for row, each in zip(out, used, strict=True):
                row[k] += _divergence(p, width * each.masses(i, edges)[0])
            released = float(channel.round(float(y[i])))
            for each in filters:
                each.see(i, released)
        for each in filters:
            each.finish()
    return out


def _edges(channel: Channel, *outlines: tuple[float, float]) -> tuple[Array, float]:
    """Ends of all cells that matter; for a channel that is not rounded, points at a spacing, and this spacing."""
    low, high = min(q - _FAR * s for q, s in outlines), max(q + _FAR * s for q, s in outlines)
    if not channel.step:
        width = min(s for _, s in outlines) / 8.0
        return np.arange(low, high + width, width), width
    cells = channel.between(low, high)
    inner = 0.5 * (cells[1:] + cells[:-1])
    return np.concatenate(([-np.inf], inner, [np.inf])), 1.0


def _divergence(p: Array, q: Array) -> float:
    """KL(p || q); of several rows of p, each an estimate, that of their mean less what their noise adds."""
    if len(p) == 1:
        return _kl(p[0], q)
    mean = p.mean(axis=0)
    return _kl(mean, q) - sum(_kl(row, mean) for row in p) / len(p)


def _kl(p: Array, q: Array) -> float:
    """Sum of p ln(p/q) - p + q, each term by the form that loses nothing."""
    p, q = np.maximum(p, 0.0), np.maximum(q, 1e-300)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        t = (p - q) / q
        # (1 + t) ln(1 + t) - t = t^2/2 - t^3/6 + t^4/12 - t^5/20 + ...
        near = t * t * (0.5 - t * (1.0 / 6.0 - t * (1.0 / 12.0 - t * (0.05 - t / 30.0))))
        far = np.where(p > 0.0, p * np.log(p / q), 0.0) - p + q
    return float(np.where(np.abs(t) < 1e-3, q * near, far).sum())


def _settling_time(linear: GaussMarkov) -> int:
    """Readings to simulate: three times as many as the covariance needs to settle to a thousandth."""
    state: Filtered = linear.start()
    for k in range(1, _MOST // 3):
        after = linear.update(state, np.zeros(linear.dim))
        if np.allclose(after.cov, state.cov, rtol=1e-3, atol=1e-12):
            return max(_FEWEST, 3 * k)
        state = after
    return _MOST


def _root(cov: Array) -> Array:
    """A matrix whose square (times its transpose) is the covariance, singular or not."""
    if cov.size == 1:
        return np.sqrt(cov)
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
