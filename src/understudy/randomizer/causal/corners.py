"""Looking ahead with more than two values: randomizers that always leave one of a few posteriors.

While every column is in use the greedy randomizer leaves the posterior u_j after draw j, whatever the belief was
before; so does the one that looks ahead (its envelope has one facet there, see `dynamic.py`). A randomizer of this
kind is told by its posteriors, one for each column. The draws are then a Markov chain on the columns, and what it
tells and costs in the long run has a closed form, which is made least over all posteriors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view
from understudy.randomizer.causal.beliefs import Beliefs, rounded


class Corners(Beliefs):
    """The randomizer that leaves posterior ``corners[j]`` after draw j, for as many columns as values.

    A belief outside of the corners is drawn for greedily. The corners are those given, or the ones with
    the least rate + slope * distortion that a search from the greedy ones finds.

    >>> from understudy.randomizer.causal.limit import long_run
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
        key = rounded(belief)
        found = self._kept.get(key)
        if found is None:
            b = np.array(key, dtype=float)
            split = self._split(b / b.sum())
            return super().kernel(belief) if split is None else self._keep(key, split)
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
