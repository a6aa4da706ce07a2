"""The kernel of least cost on a lattice as a mixed-integer linear program for HiGHS (Huangfu and Hall, 2018).

The unknowns are whole numbers of steps away from a kernel of the lattice, so that the numbers stay small however fine
the steps are. Every measure but the mutual information is linear (`program`). That is convex: for any conditional laws
q_0j of the value given the draw j Gibbs' inequality gives::

    I(P) >= sum_ij p_i P_ij ln(q_0ij / p_i)

and each column may have its own. Those of every kernel that comes out and tells too much are added, until one does not
(Duran and Grossmann, 1986).
Nothing of the solver is believed: what comes out is checked in whole numbers, and its bound is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.constrained.base import Constraint, Exact
from understudy.randomizer.constrained.constraints import (
    ErrorAtLeast,
    LocalDP,
    MaximalLeakage,
    Multiples,
    PointwiseLeakage,
    TotalVariation,
)
from understudy.randomizer.constrained.linear import rows
from understudy.randomizer.constrained.multiples_lattice import Counts, Flags, Lattice, on_lattice
from understudy.randomizer.constrained.program import Program, program
from understudy.randomizer.constrained.reduction import expanded
from understudy.randomizer.constrained.silence import silent
from understudy.randomizer.interior import information

_PRICE, _GAP = 1e3, 1e-6  # the largest cost of a step, and the gap at which the solver stops
_SEEN = 1e-8  # of the price: a gap that is larger says nothing
_MARGIN = 1e-3  # of a step; the solver's own tolerance is 1e-6 of one
_SHARP = 1e-3  # the largest share that is mixed into a kernel before its row is taken
_TANGENTS = 16  # to begin with, where there are two values
_OPTIMAL, _INFEASIBLE = 0, 2


class Effort(NamedTuple):
    """How far from the centre to look (None: everywhere), how many programs, and the branches of each."""

    reach: int | None
    rounds: int
    nodes: int


class Found(NamedTuple):
    """A kernel that keeps everything, if there is one, and whether the solver says that none is cheaper."""

    K: Counts | None
    settled: bool


class Tangents:
    """What the mutual information is at least, column by column: w_j >= sum_i p_i P_ij ln(q_i / p_i) for some q."""

    def __init__(self, lattice: Lattice) -> None:
        self.p: Array = lattice.problem.p / math.fsum(lattice.problem.p)
        self.budget = lattice.problem.budget
        self.rows: dict[bytes, Array] = {}
        if self.budget < math.inf:
            self.add(lattice.free)
        if self.budget < math.inf and len(self.p) == 2:
            for x in np.linspace(0.0, 1.0, _TANGENTS + 2)[1:-1]:
                self._touch(np.log([x, 1.0 - x]) - np.log(self.p))

    def add(self, P: Array) -> float:
        """Touch the information of a kernel; by how much that is above the budget."""
        over = information(self.p, np.ascontiguousarray(P).reshape(-1)) - self.budget
        share = min(_SHARP, max(1e-9, 0.1 * over))
        r = self.p @ P
        for j in np.flatnonzero(r > 0.0):
            self._touch(np.log((1.0 - share) * P[:, j] / r[j] + share))
        return over

    def _touch(self, ratio: Array) -> None:
        row = self.p * ratio
        self.rows.setdefault(row.round(12).tobytes(), row)

    def onto(self, told: Program) -> Program:
        """A program with these rows, an unknown w for each column, and the budget for their sum."""
        if not self.rows:
            return told
        R, k = told.G.shape
        G = np.zeros((R + len(self.rows), k + 1))
        G[:R, :k] = told.G
        G[R:, : len(self.p)] = np.stack([*self.rows.values()])
        G[R:, k] = -1.0
        F = np.zeros((len(told.F) + 1, k + 1))
        F[:-1, :k] = told.F
        F[-1, k] = 1.0
        return told._replace(G=G, F=F, f=np.append(told.f, self.budget))


def by_program(lattice: Lattice, effort: Effort, most: float = math.inf) -> Found:
    """The cheapest kernel within reach of the best one off the lattice, as the solver finds it.

    `most` is the price of one that is known: pairs of which a single step costs more are left out.
    """
    m, n = lattice.shape
    tangents = Tangents(lattice)
    cheap: Flags = lattice.cost <= (math.inf if lattice.least else most * lattice.of * (1.0 + 1e-9))
    centre = on_lattice(lattice.free, lattice.of, lattice.least)
    asked = [one for one in lattice.problem.constraints if not isinstance(one, Multiples)]
    margins = [0.0] * len(asked)  # in steps
    # a row that touches the information at the best kernel is exceeded by it close by
    spared = 0.0 if effort.reach is None else _MARGIN
    for _ in range(effort.rounds):
        strict = [_stricter(one, x / lattice.of) if x else one for one, x in zip(asked, margins, strict=True)]
        result = _solved(lattice, centre, strict, tangents, spared, effort, cheap)
        settled = effort.reach is None and not spared and not any(margins)
        if result.x is None:
            return Found(None, settled and result.status == _INFEASIBLE)
        K: Counts = centre + np.rint(result.x.reshape(n, -1)[:, :m].T).astype(np.int64)
        if (K.sum(axis=1) != lattice.of).any():
            break
        if lattice.kept(K):
            seen = _GAP * float(lattice.cost[cheap].max()) / _PRICE / lattice.of <= _SEEN * lattice.price(K)
            return Found(K, seen and settled and result.status == _OPTIMAL)
        if result.status != _OPTIMAL:
            break
        exact = Exact(lattice.problem.prior, expanded(lattice.problem.left, K / lattice.of))
        broken = [not one.kept(exact) for one in asked]
        if any(broken):
            margins = [max(_MARGIN, 4.0 * x) if off else x for x, off in zip(margins, broken, strict=True)]
        else:
            over = tangents.add(K / lattice.of)
            if over * lattice.of < _MARGIN:  # less than the solver can tell
                spared = max(_MARGIN, 4.0 * spared)
    return Found(None, False)


def _solved(
    lattice: Lattice,
    centre: Counts,
    asked: Sequence[Constraint],
    tangents: Tangents,
    spared: float,
    effort: Effort,
    cheap: Flags,
) -> Any:
    """HiGHS' answer, in steps from the centre."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    problem, of = lattice.problem, lattice.of
    m = len(problem.p)
    pairs = [(i, k) for i in range(m) for k in range(i + 1, m)]
    floor = lattice.least / of
    told = program(problem.p, problem.left.top, problem.L, problem.allowed, floor, asked, pairs)
    told = tangents.onto(told)
    A, b, sums, lowest, highest = rows(told, max(1.0, min(tangents.budget, 700.0)))
    X = _around(told, centre)
    at = X.ravel()
    low, high = lowest * of - at, highest * of - at
    kernel = np.zeros(X.shape, dtype=bool)
    kernel[:, :m] = True
    inside = kernel.ravel()
    # of a step: bounds of whole numbers are whole
    low[inside], high[inside] = np.rint(low[inside]), np.rint(high[inside])
    if effort.reach is not None:
        idle = np.zeros(X.shape, dtype=bool)
        idle[centre.max(axis=0) == 0, :m] = True
        reach = np.where(idle.ravel(), 0.0, float(effort.reach))
        low[inside] = np.maximum(low, -reach)[inside]
        high[inside] = np.minimum(high, reach)[inside]
    price = np.zeros(X.shape)
    cost = np.where(cheap, lattice.cost, 0.0)
    price[:, :m] = cost.T * (_PRICE / max(float(cost.max()), 1e-300))
    if not cheap.all():
        dear = np.zeros(X.shape, dtype=bool)
        dear[:, :m] = ~cheap.T
        low[dear.ravel()] = high[dear.ravel()] = -at[dear.ravel()]
    rules = [LinearConstraint(sums, 0.0, 0.0)]
    if A.shape[0]:
        limits = b * of - A @ at
        if tangents.rows:
            limits[-1] -= spared
        rules.append(LinearConstraint(A, -np.inf, limits))
    with silent():
        return milp(
            price.ravel(),
            integrality=inside.astype(float),
            bounds=Bounds(low, high),
            constraints=rules,
            options={"node_limit": effort.nodes, "mip_rel_gap": 0.0, "presolve": False},
        )


def _around(told: Program, K: Counts) -> Array:
    """All unknowns (n, k) at a kernel in counts: each that is above the rest of its rows as low as it may be."""
    m, n = K.shape
    X = np.zeros((n, told.unknowns))
    X[:, :m] = K.T
    for v in range(m, told.unknowns):
        below = told.G[told.G[:, v] < 0.0]
        X[:, v] = np.maximum((X[:, :m] @ below[:, :m].T).max(axis=1), 0.0)
    return X


def _stricter(one: Constraint, by: float) -> Constraint:
    """A constraint with its limit a little closer."""
    if isinstance(one, LocalDP):
        return LocalDP(max(0.0, one.epsilon - by))
    if isinstance(one, MaximalLeakage):
        return MaximalLeakage(max(0.0, one.nats - by))
    if isinstance(one, PointwiseLeakage):
        return PointwiseLeakage(max(0.0, one.nats - by))
    if isinstance(one, TotalVariation):
        return TotalVariation(max(0.0, one.at_most - by))
    if isinstance(one, ErrorAtLeast):
        return ErrorAtLeast(min(1.0, one.error + by))
    return one
