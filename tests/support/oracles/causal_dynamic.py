"""Oracles of the causal randomizer: what looking ahead could gain over the greedy one of `causal_guarantee`.

The greedy randomizer weighs what a draw leaks now against what it costs now. A draw also moves the belief, and so what
later draws leak and cost. With V the value of a belief and rho the mean of I + s d a decision, the optimum solves::

    rho + V(b) = min over kernels of  I_b(P) + s d_b(P) + sum_j r_j V(u_j T)

where draw j comes with probability r_j and leaves the posterior u_j. A kernel splits b into posteriors,
b = sum_j r_j u_j, and I_b = h(b) - sum_j r_j h(u_j); so the minimum over all kernels is a convex envelope::

    rho + V(b) = h(b) + conv(g)(b),    g(u) = min_j [ -h(u) + s sum_i u_i L_ij ] + V(u T)

With two values (`Dynamic`) a belief is a number, g stands on a grid, and its lower convex hull is found in one sweep.
The greedy kernel is the same with V = 0.

With more values (`Corners`) a randomizer that always leaves one of a few posteriors, one for each column, makes the
draws a Markov chain. Its rate and its distortion have a closed form, which is minimised over the posteriors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import DesignError, NumericalError
from understudy.randomizer.causal_guarantee import Beliefs, round_belief
from understudy.randomizer.solver import kernels, view

# Two values: dynamic programming on a grid ----------------------------------------------------------


_PLACES = 1001
_FINER = 400  # further places about each posterior that is used, in a second pass
_ROUNDS = 20_000
_STILL = 1e-11


class Dynamic(Beliefs):
    """The randomizer that looks ahead, for two values and one transition matrix; used like `Beliefs`.

    `value` is the least mean of I + slope * distortion a decision, as the grid has it.

    >>> from understudy.randomizer.causal_guarantee import long_run
    >>> flip = [[0.9, 0.1], [0.1, 0.9]]
    >>> ahead = Dynamic([0.5, 0.5], flip, [[0, 1], [1, 0]], slope=1.0)
    >>> found = long_run(ahead)
    >>> round(found.rate + found.distortion, 5) == round(ahead.value, 5)
    True
    >>> greedy = long_run(Beliefs([0.5, 0.5], flip, [[0, 1], [1, 0]], slope=1.0))
    >>> found.rate + found.distortion < greedy.rate + greedy.distortion
    True
    """

    __slots__ = ("_columns", "_corners", "value")

    def __init__(self, prior: Any, transitions: Any, cost: Any, slope: float) -> None:
        super().__init__(prior, transitions, cost, slope)
        if self.cost.shape[0] != 2 or self.period != 1 or not np.isfinite(self.cost).all() or not slope < np.inf:
            raise DesignError("dynamic programming is for two values, one transition matrix, finite costs and slope")
        places = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _PLACES))
        corners, columns, _ = self._solve_on(places)
        # a second pass with more places where the posteriors are that a draw can leave
        used = np.flatnonzero(columns[1:] != columns[:-1])
        width = np.pi / _PLACES
        near = [np.linspace(corners[i] - width, corners[i] + width, _FINER) for v in used for i in (v, v + 1)]
        places = np.unique(np.clip(np.concatenate([places, *near]), 0.0, 1.0))
        self._corners, self._columns, self.value = self._solve_on(places)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel at a belief, which is split between the two corners of the hull about it."""
        key = round_belief(belief)
        if key not in self._cache:
            self._cache[key] = self._split(key[1] / (key[0] + key[1]))
        return self._cache[key]

    def _split(self, x: float) -> Array:
        u, j = self._corners, self._columns
        b = min(max(int(np.searchsorted(u, x)), 1), len(u) - 1)
        a = b - 1
        share = float(np.clip((x - u[a]) / (u[b] - u[a]), 0.0, 1.0))
        P = np.zeros(self.cost.shape)
        if j[a] == j[b]:
            P[:, j[a]] = 1.0
        else:
            for weight, v in ((1.0 - share, a), (share, b)):
                # Pr(j given i) = r_j u_j(i) / b(i); a value that cannot occur is drawn for as for anybody
                P[0, j[v]] = weight * (1.0 - u[v]) / (1.0 - x) if x < 1.0 else weight
                P[1, j[v]] = weight * u[v] / x if x > 0.0 else weight
            P /= P.sum(axis=1, keepdims=True)
        kernels.whole(view(P.reshape(-1)), *P.shape)
        return P

    def _solve_on(self, x: Array) -> tuple[Array, NDArray[np.int64], float]:
        """Value iteration on a grid: corners of the hull, the column that each is for, and rho."""
        h = _coin(x)
        each = (1.0 - x)[:, None] * self.cost[0] + x[:, None] * self.cost[1]
        column = each.argmin(axis=1)
        now = self.slope * each.min(axis=1) - h
        after = (1.0 - x) * self.transitions[0, 0, 1] + x * self.transitions[0, 1, 1]
        V = np.zeros(len(x))
        for _ in range(_ROUNDS):
            g = now + np.interp(after, x, V)
            hull = _lower_hull(x, g)
            new = h + np.interp(x, x[hull], g[hull])
            step = new - V
            V = new - new[0]
            if step.max() - step.min() <= _STILL:
                return x[hull], column[hull], 0.5 * float(step.max() + step.min())
        raise NumericalError(f"value iteration has not settled in {_ROUNDS} rounds; the chain hardly moves")


def _coin(x: Array) -> Array:
    from scipy.special import entr

    return np.asarray(entr(x) + entr(1.0 - x))


def _lower_hull(x: Array, y: Array) -> NDArray[np.int64]:
    """Positions of the corners of the lower convex hull of points with increasing x."""
    xs, ys = x.tolist(), y.tolist()
    hull: list[int] = []
    for i in range(len(xs)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (ys[b] - ys[a]) * (xs[i] - xs[a]) < (ys[i] - ys[a]) * (xs[b] - xs[a]):
                break
            hull.pop()
        hull.append(i)
    return np.array(hull, dtype=np.int64)


# More values: one posterior for each column ---------------------------------------------------------


class Corners(Beliefs):
    """The randomizer that leaves posterior ``corners[j]`` after draw j, for as many columns as values.

    A belief outside of the corners is drawn for greedily. The corners are those given, or the ones with
    the least rate + slope * distortion that a search from the greedy ones finds.

    >>> from understudy.randomizer.causal_guarantee import long_run
    >>> ahead = Corners([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=1.0)
    >>> round(ahead.rate + ahead.distortion, 6), round(ahead.distortion, 4)
    (0.246292, 0.0977)
    >>> round(long_run(ahead).rate, 6) == round(ahead.rate, 6)
    True
    """

    __slots__ = ("corners", "distortion", "rate")

    def __init__(self, prior: Any, transitions: Any, cost: Any, slope: float, corners: Any = None) -> None:
        super().__init__(prior, transitions, cost, slope)
        m, n = self.cost.shape
        if m != n or self.period != 1 or not np.isfinite(self.cost).all() or not 0.0 < slope < math.inf:
            raise DesignError(
                "corners are for as many pseudo values as values, one transition matrix, finite costs and slope"
            )
        self.corners: Array = self._best() if corners is None else np.array(corners, dtype=float)
        self.corners.flags.writeable = False
        found = _means(self.corners, self.transitions[0], self.cost)
        if found is None:
            raise DesignError("a corner moves out of the hull of the corners; no randomizer leaves these posteriors")
        self.rate, self.distortion = found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.prior, self.transitions, self.cost, self.slope, self.corners)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel at a belief, which is split between the corners."""
        key = round_belief(belief)
        found = self._cache.get(key)
        if found is None:
            b = np.array(key, dtype=float)
            split = self._split(b / b.sum())
            return super().kernel(belief) if split is None else self._cache.setdefault(key, split)
        return found

    def _split(self, b: Array) -> Array | None:
        w = np.linalg.solve(self.corners.T, b)
        if w.min() < 0.0 or b.min() <= 0.0:
            return None
        # Pr(j given i) = r_j u_j(i) / b(i)
        P = (w[:, None] * self.corners / b).T
        P = np.ascontiguousarray(P / P.sum(axis=1, keepdims=True))
        kernels.whole(view(P.reshape(-1)), *P.shape)
        return P

    def _best(self) -> Array:
        from scipy.optimize import minimize

        m = len(self.prior)
        T, cost = self.transitions[0], self.cost

        def value(x: Array) -> float:
            found = _means(_posteriors(x, m), T, cost)
            return math.inf if found is None else found[0] + self.slope * found[1]

        # greedy corners at several slopes: w_i exp(-s L_ij) with sum_i w_i exp(-s L_ij) = 1
        starts = []
        for factor in (1.0, 2.0, 4.0, 8.0, 16.0):
            E = np.exp(-factor * self.slope * cost)
            w = np.linalg.lstsq(E.T, np.ones(m), rcond=None)[0]
            U = np.clip((w[:, None] * E).T, 1e-12, None)
            starts.append(np.log(U / U.sum(axis=1, keepdims=True)).ravel())
        x = min(starts, key=value)
        if not math.isfinite(value(x)):
            raise DesignError("no greedy randomizer of this source uses every column; there is nothing to start from")
        options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000, "maxfev": 4000, "adaptive": True}
        for _ in range(4):  # begun anew where it stopped, for a simplex may have collapsed
            x = minimize(value, x, method="Nelder-Mead", options=options).x
        return _posteriors(x, m)


def _posteriors(x: Array, m: int) -> Array:
    logs = x.reshape(m, m)
    U = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(U / U.sum(axis=1, keepdims=True))


def _means(U: Array, T: Array, cost: Array) -> tuple[float, float] | None:
    """Rate and distortion in the long run of the randomizer with these corners; None if there is none."""
    from scipy.special import entr

    if np.linalg.cond(U) > 1e12:
        return None
    b = U @ T
    K = np.linalg.solve(U.T, b.T).T  # row j: how the belief after draw j is split
    if K.min() < -1e-12:
        return None
    A = np.vstack([K.T - np.eye(len(K)), np.ones(len(K))])
    law = np.linalg.lstsq(A, np.append(np.zeros(len(K)), 1.0), rcond=None)[0]
    told = entr(b).sum(axis=1) - K @ entr(U).sum(axis=1)
    return float(law @ told), float(law @ (U * cost.T).sum(axis=1))
