"""Filters of rounded readings that are set against each other: what each expects next, cell by cell.

Each says, one channel after the other, which probability it gives to any cell (`masses`), and is then told what was
read (`see`). `Points` and `Particles` serve as the truth. `Normal` is the filter in use, and two that are not to be
used, for comparison.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from understudy.laws.base import Array
from understudy.laws.cell_law import CellLaw, conditioned, known
from understudy.laws.cells import scores, truncated
from understudy.laws.rounding import Channel, Rounding
from understudy.models.cell_moments import CellState, moved
from understudy.models.cell_point_mass import Fineness, predicted, updated
from understudy.models.gauss_markov import GaussMarkov, System


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


def _between(edges: Array, q: Any, s: float, rounded: bool) -> Array:
    """What a normal law with each of the means q puts between the edges (its density there), (edges, means)."""
    from scipy.special import erfc

    t = (edges[:, None] - q) / s
    if not rounded:
        return np.asarray(np.exp(-0.5 * t * t) / (math.sqrt(2.0 * math.pi) * s))
    return np.asarray(0.5 * np.diff(erfc(-math.sqrt(0.5) * t), axis=0))


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
        x, P = moved(self._mean, self._cov, system)
        across = system.C @ P
        self._mean = np.concatenate((x, system.C @ x + system.d))
        self._cov = np.block([[P, across.T], [across, across @ system.C.T + system.R]])

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
            _, shift, variance = known(self._grid.channels[i], i, (q, s), y)
        elif self._rule == "kalman":
            r = step * step / 12.0
            shift, variance = (y - q) * S / (S + r), S * r / (S + r)
        else:
            shift, variance = y + step * float(self._rng.uniform(-0.5, 0.5)) - q, 0.0
        self._mean, self._cov = conditioned(self._mean, self._cov, self._n + i, shift, variance)

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
        law = predicted(self._state, system, self._grid, self._fineness)
        if isinstance(law, CellLaw):
            mean, cov = law.parts
            self._parts = np.ones(1), np.reshape(mean, (-1, 1)), np.sqrt(np.diag(np.atleast_2d(cov)))
        else:
            self._parts = law.parts
        self._seen = []

    def outline(self, i: int) -> tuple[float, float]:
        """Mean and standard deviation of the mixture."""
        w, q, s = self._parts[0], self._parts[1][i], float(self._parts[2][i])
        mean = float(w @ q)
        return mean, math.sqrt(float(w @ (q - mean) ** 2) + s * s)

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
        self._state = updated(self._state, self._system, y, self._grid, self._fineness)


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
        A, b, C, d = system.A, system.b, system.C, system.d
        x = A @ self._mean + b[:, None]
        P = A @ self._cov @ A.T + system.Q
        across = C @ P
        self._mean = np.concatenate((x, C @ x + d[:, None]))
        self._cov = np.block([[P, across.T], [across, across @ C.T + system.R]])

    def _normal(self, i: int) -> tuple[Array, float]:
        at = self._n + i
        return self._mean[at], math.sqrt(self._cov[at, at])

    def outline(self, i: int) -> tuple[float, float]:
        """Mean and standard deviation of the mixture."""
        q, s = self._normal(i)
        w = 0.5 * self._weights.ravel()
        mean = float(w @ q)
        return mean, math.sqrt(float(w @ (q - mean) ** 2) + s * s)

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
            logs = truncated(a, b, np.full(q.shape, cell.half / s)).log_probability
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
