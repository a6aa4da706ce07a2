"""The constrained randomizer problem as rows of inequalities, and a lower bound that any multipliers prove.

Every measure but the mutual information is linear in the kernel with a few more unknowns for each column j::

    local DP            t_j <= P_ij,  e^-epsilon P_ij <= t_j
    maximal leakage     P_ij <= u_j,  sum_j u_j <= e^L
    pointwise leakage   e^-L P_ij <= r_j,  r_j <= sum_k p_k P_kj
    Bayes error         p_i P_ij <= w_j,  sum_j w_j <= 1 - e
    total variation     P_ij - P_kj <= v_j,  v_j >= 0,  sum_j v_j <= tau       for each pair of rows that needs it

So each column has the same rows, G x_j <= 0, in its own unknowns x_j = (P_1j, .., P_mj, t_j, ..), and few rows,
F sum_j x_j <= f, go across. For any multipliers z, y >= 0 of these rows, no kernel that keeps them costs less than::

    sum_i min_j d_ij - y f + (parts of t, u, r, w, v),       d = p L + z G + y F

with a floor, sum_j floor d_ij + (1 - n floor) min_j d_ij in place of the first term. With nu >= 0 for a budget of
mutual information, d / p takes the place of the costs in the dual bound of the distortion-rate function::

    nu [-sum_i p_i ln sum_j q_j E_ij - ln max_j sum_i p_i E_ij / z_i - I_0] - y f + ...,    E = exp(-d / (p nu))

for any law q. Any numbers will do: those of a linear program, or of an interior-point method that was stopped. What
rounding may have added is worked out beside the sums and taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.constrained.constraints import (
    ErrorAtLeast,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    TotalVariation,
)
from understudy.randomizer.interior import FORBIDDEN, Point, Workspace
from understudy.randomizer.solver import bounds_of, minimise

_ROUNDOFF = 2.0**-52
_FINE = 40_000  # multipliers times unknowns up to which a bound is worked out with more digits

Pair = tuple[int, int]


class Program(NamedTuple):
    """Costs (m, n), zero where a pair is forbidden, and rows of inequalities in the k >= m unknowns of a column."""

    p: Array
    cost: Array
    allowed: NDArray[np.bool_]
    floor: float
    G: Array
    F: Array
    f: Array
    pairs: int = 0  # how many unknowns, the last, are of a pair of rows; each has two rows of G and one of F, the last

    @property
    def unknowns(self) -> int:
        """How many unknowns a column has."""
        return int(self.G.shape[1])

    @property
    def work(self) -> int:
        """About how many operations a step of the interior-point method takes."""
        (m, n), few = self.cost.shape, self.unknowns - self.pairs
        return int((len(self.F) + m + n) ** 2 * n * few + n * few**3)

    def over(self, X: Array) -> Array:
        """X G' for unknowns (n, k), without the zeros of the pairs."""
        E = self.pairs
        if not E:
            return X @ self.G.T
        k, R = self.unknowns - E, len(self.G) - 2 * E
        found = np.empty((len(X), len(self.G)))
        found[:, :R] = X[:, :k] @ self.G[:R, :k].T
        found[:, R::2] = X[:, :k] @ self.G[R::2, :k].T - X[:, k:]
        found[:, R + 1 :: 2] = -X[:, k:]
        return found

    def under(self, z: Array, size: bool = False) -> Array:
        """Z G for multipliers (n, R), or z |G|, without the zeros of the pairs."""
        E = self.pairs
        if not E:
            return z @ (np.abs(self.G) if size else self.G)
        k, R = self.unknowns - E, len(self.G) - 2 * E
        rows, apart = self.G[:R, :k], self.G[R::2, :k]
        if size:
            rows, apart = np.abs(rows), np.abs(apart)
        both = z[:, R::2] + z[:, R + 1 :: 2]
        return np.hstack([z[:, :R] @ rows + z[:, R::2] @ apart, both if size else -both])


class Multipliers(NamedTuple):
    """Of the rows of each column (n, R), of those across (K,) and of the floor (m, n), which may be empty.

    For the information: `nu` of the budget, or one where it is sought; `cost` is one, or the multiplier of its limit.
    """

    z: Array
    y: Array
    w: Array
    cost: float = 1.0
    nu: float = 0.0


def program(
    p: Array,
    top: Array,
    cost: Array,
    allowed: NDArray[np.bool_],
    floor: float,
    constraints: Sequence[Constraint],
    pairs: Sequence[Pair] = (),
) -> Program:
    """The rows of all measures among the constraints; of the total variation those of the pairs given."""
    m = len(p)
    eye = np.eye(m)
    local: list[tuple[Array, Array]] = []  # rows over P, rows over unknowns of their own
    across: list[tuple[int, float]] = []  # an unknown that is summed over the columns, and its limit
    more = 0
    # pairs last
    for one in sorted(constraints, key=lambda one: isinstance(one, TotalVariation)):
        if isinstance(one, LocalDP):
            down = math.exp(-one.epsilon)
            local.append((np.vstack([-eye, down * eye]), _beside(more, np.concatenate([np.ones(m), -np.ones(m)]))))
            more += 1
        elif isinstance(one, MaximalLeakage):
            local.append((eye, _beside(more, -np.ones(m))))
            across.append((more, math.exp(min(one.nats, 700.0))))
            more += 1
        elif isinstance(one, ErrorAtLeast) and (1.0 - one.error) * math.fsum(p) <= top.max() * (1.0 + 1e-12):
            # nothing may be gained by a guess: p_i P_ij <= p_k P_kj with k the likeliest
            k = int(top.argmax())
            others = np.delete(np.arange(m), k)
            local.append(((np.diag(top / top[k]) - eye[k])[others], np.zeros((len(others), 0))))
        elif isinstance(one, ErrorAtLeast):
            local.append((np.diag(top / top.max()), _beside(more, -np.ones(m))))
            across.append((more, (1.0 - one.error) * math.fsum(p) / float(top.max())))
            more += 1
        elif isinstance(one, PointwiseLeakage):
            over = np.vstack([math.exp(-one.nats) * eye, -p / math.fsum(p)])
            local.append((over, _beside(more, np.append(-np.ones(m), 1.0))))
            more += 1
        elif isinstance(one, TotalVariation):
            for i, k in pairs:
                local.append((np.vstack([eye[i] - eye[k], np.zeros(m)]), _beside(more, -np.ones(2))))
                across.append((more, one.at_most))
                more += 1
    paired = len(pairs) * sum(isinstance(one, TotalVariation) for one in constraints)
    G = np.zeros((sum(len(a) for a, _ in local), m + more))
    row = 0
    for over, beside in local:
        G[row : row + len(over), :m] = over
        G[row : row + len(over), m : m + beside.shape[1]] = beside
        row += len(over)
    F = np.zeros((len(across), m + more))
    for k, (unknown, _) in enumerate(across):
        F[k, m + unknown] = 1.0
    limits = np.array([limit for _, limit in across])
    return Program(p, np.where(allowed, cost, 0.0), allowed, floor, G, F, limits, paired)


def _beside(before: int, column: Array) -> Array:
    """A column of coefficients of the unknown that comes after `before` others."""
    return np.hstack([np.zeros((len(column), before)), column[:, None]])


def begun(problem: Program, P: Array) -> Array:
    """All unknowns (n, k) for a kernel (m, n) that keeps every row with room to spare: in the middle of that room."""
    m, n = problem.cost.shape
    X = np.zeros((n, problem.unknowns))
    X[:, :m] = P.T
    sums = problem.F.sum(axis=0)
    k, E = problem.unknowns, problem.pairs
    if E:
        low = np.maximum(P.T @ problem.G[len(problem.G) - 2 * E :: 2, :m].T, 0.0)
        X[:, k - E :] = low + 0.5 * (problem.f[len(problem.f) - E :] - low.sum(axis=0)) / n
    for v in range(m, k - E):
        rows = problem.G[:, v] != 0.0
        G = problem.G[rows]
        # where the sign is -1 the unknown is above the rest of its row, where it is +1 below
        rest = X[:, :m] @ G[:, :m].T
        low = np.where(G[:, v] < 0.0, rest, -math.inf).max(axis=1)
        high = np.where(G[:, v] > 0.0, -rest, math.inf).min(axis=1)
        if sums[v] > 0.0:
            limit = float(problem.f[problem.F[:, v] > 0.0].min())
            X[:, v] = low + 0.5 * (limit - low.sum()) / n
        else:
            X[:, v] = np.sqrt(np.maximum(low, 0.0) * high)
    return X


def lower(problem: Program, by: Multipliers) -> float:
    """What the multipliers prove of a program without information: no kernel costs less."""
    n = problem.cost.shape[1]
    # more digits where that takes no time: of a cost of 1e-9 those of a double are soon used up
    fine = by.z.size * problem.unknowns <= _FINE
    d, constant = _charged(problem, by, np.longdouble if fine else np.float64)
    least = np.where(problem.allowed, d, math.inf).min(axis=1)
    rows, size = least, np.abs(least)
    if problem.floor > 0.0:
        rows = problem.floor * d.sum(axis=1) + (1.0 - n * problem.floor) * least
        size = problem.floor * np.abs(d).sum(axis=1) + np.abs(least)
    lost = (len(d) + n + 8) * np.finfo(d.dtype).eps * size.sum()
    found = float(rows.sum() + constant - lost)
    return found - 2.0 * _ROUNDOFF * abs(found)


def lower_told(problem: Program, by: Multipliers, q: Array, budget: float, best: bool = False) -> float:
    """The same with information, which counts `nu` times what it is above the budget; q is a law of the draw.

    With `best` the law and the multiplier of the information are sought anew, by the solver of the bare problem.
    """
    p = problem.p
    d, constant = _charged(problem, by)
    if by.w.size:
        d = d - by.w * (1.0 + 4.0 * _ROUNDOFF)
        constant += problem.floor * float(by.w.sum()) * (1.0 - 1e-13)
    d = np.where(problem.allowed, d / p[:, None], math.inf)
    lost = 4.0 * _ROUNDOFF * np.where(problem.allowed, np.abs(d), 0.0).max(axis=1)
    least = d.min(axis=1)
    rows = (p * (least - 2.0 * lost)).tolist()
    L = np.where(problem.allowed, d - least[:, None], FORBIDDEN)
    nu = by.nu
    if best:
        found = minimise(np.where(problem.allowed, L, math.inf), p, budget)
        told, nu = bounds_of(found)[1], 1.0 / found.slope
    else:
        space = Workspace(len(p), L.shape[1], p, np.ascontiguousarray(L).reshape(-1))
        told = space.bound(budget, Point(np.maximum(q, 1e-300), 1.0 / nu, 0.0, 0.0, 0))[0]
    # odds that sum to one up to rounding
    off = nu * (2.0 * abs(math.fsum([*p.tolist(), -1.0])) + 1e-14 * budget)
    return math.fsum([*rows, told, float(constant), -off])


def _charged(problem: Program, by: Multipliers, kind: Any = np.float64) -> tuple[Array, Any]:
    """What a pair costs with the multipliers (m, n), rounded down, and what is apart from the pairs."""
    m = len(problem.p)
    G, F = problem.G, problem.F
    z, y = np.maximum(by.z, 0.0).astype(kind), np.maximum(by.y, 0.0).astype(kind)
    c = by.cost * problem.p[:, None].astype(kind) * problem.cost
    over = problem.under(z) + y @ F  # (n, k)
    both = problem.under(z, size=True) + y @ np.abs(F)
    few = (G.shape[0] + F.shape[0] + 12) * np.finfo(kind).eps
    off = few * both
    if kind is not np.float64:
        # coefficients that are rounded themselves are so in every arithmetic
        off += 4.0 * _ROUNDOFF * (z @ np.where(np.abs(G) == 1.0, 0.0, np.abs(G)))
    d = c + over[:, :m].T - few * c - off[:, :m].T
    rest = over[:, m:] - off[:, m:]
    limits = y @ problem.f
    # the other unknowns are between 0 and 1
    constant = np.minimum(rest, 0.0).sum() - limits
    return d, constant - few * np.abs(rest).sum() - max(few, 4.0 * _ROUNDOFF) * limits
