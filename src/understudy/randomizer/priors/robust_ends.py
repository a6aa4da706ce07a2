"""The ends of the curve of a robust design, and what all of its kernels are measured by.

Nothing told, everything told, the least that must be told: kernels that are known without a search. What a search comes
to is held in the same form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.errors import InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view
from understudy.randomizer.interior import Workspace
from understudy.randomizer.priors.hull import Worst, worst
from understudy.randomizer.priors.saddle import Problem

KEPT = 1.0 - 4e-15  # of a budget, so that no rounding breaks it
_LEAST_TRIES = 60


class Attempt(NamedTuple):
    """A kernel of the rows that occur, in whole numbers of 2^-53, and what it comes to, costs scaled."""

    P: Array
    found: Worst
    upper: float
    lower: float
    rounding: float
    weights: Array
    price: float


def prepared(cost: Array, B: Array, C: Array, budget: float) -> tuple[Problem, float, float]:
    """Costs above the least of each row, in units of the best constant column; and what all kernels cost anyhow."""
    least = cost.min(axis=1)
    L = cost - least[:, None]
    # kept apart, for it may dwarf what is at stake
    offset = math.fsum(C[:, 0] * least) if C.shape[1] == 1 else float(least.min())
    least = np.zeros_like(least) if C.shape[1] == 1 else least - offset
    allowed = np.isfinite(L)
    columns = (C.T @ np.where(allowed, L, 0.0)).max(axis=0)
    scale = float(np.where(allowed.all(axis=0), columns, math.inf).min())
    if not scale < math.inf:
        scale = float(L[allowed].max())
    f = scale if scale > 0.0 else 1.0
    return Problem(L / f, least / f, np.ascontiguousarray(B), np.ascontiguousarray(C), budget), scale, offset


def floor(problem: Problem) -> float:
    """A cost that no kernel goes below, whatever it tells."""
    return float((problem.C.T @ problem.least).max()) * (1.0 - units_of(problem))


def units_of(problem: Problem) -> float:
    """What the sums over a kernel are off by at most, relatively."""
    return (sum(problem.L.shape) + 8) * 2.0**-53


def costs_of(problem: Problem, P: Array) -> Array:
    """The cost of a kernel at each corner."""
    means = (P * np.where(P > 0.0, problem.L, 0.0)).sum(axis=1)
    return np.asarray(problem.C.T @ (problem.least + means))


def certain(problem: Problem, P: Array, lower: float | None = None) -> Attempt:
    """A kernel that is known to be the best, and its cost as the bound."""
    Q = rounded(P)
    costs, units = costs_of(problem, Q), units_of(problem)
    upper = float(costs.max())
    weights = np.zeros(costs.size)
    weights[int(costs.argmax())] = 1.0
    found = max(upper if lower is None else lower, floor(problem)) * (1.0 - units)
    return Attempt(Q, worst(Q, problem.B), upper * (1.0 + units), found, 4.0 * units * upper, weights, 0.0)


# Nothing told, everything told, the least that must be told ------------------------------------------


def constant(problem: Problem) -> Attempt:
    """The best kernel that tells nothing: one column, or where several odds weigh, the best mixture of columns."""
    free = np.flatnonzero(np.isfinite(problem.L).all(axis=0))
    if not free.size:
        raise InfeasibleError(
            f"leakage = {problem.budget!r} nats; the forbidden pairs (infinite costs) allow no column to all values, "
            "so something must be told"
        )
    costs = problem.C.T @ (problem.least[:, None] + problem.L[:, free])  # (corners, columns)
    P = np.zeros(problem.L.shape)
    P[:, free[int(costs.max(axis=0).argmin())]] = 1.0
    if len(costs) == 1:
        return certain(problem, P)
    # a game: the draw of a column against the odds that make it dear
    weights, law = _game(costs)
    mixed = np.zeros(problem.L.shape)
    mixed[:, free] = law
    lower = float((weights @ costs).min())
    best = min((certain(problem, each, lower) for each in (P, mixed)), key=lambda a: a.upper)
    return best._replace(weights=weights)


def _game(costs: Array) -> tuple[Array, Array]:
    """The mixtures of rows and of columns that make the game of this matrix: rows maximise, columns minimise."""
    from scipy.optimize import linprog

    k, n = costs.shape
    span = float(costs.max() - costs.min()) or 1.0
    result = linprog(
        np.concatenate((np.zeros(n), [1.0])),
        A_ub=np.column_stack(((costs - costs.min()) / span, -np.ones(k))),
        b_ub=np.zeros(k),
        A_eq=np.concatenate((np.ones(n), [0.0]))[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n + [(None, None)],
        method="highs",
    )
    if result.x is None:
        return np.full(k, 1.0 / k), np.full(n, 1.0 / n)  # the gap will tell
    law, weights = np.maximum(result.x[:n], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return weights / weights.sum(), law / law.sum()


def cheapest(problem: Problem) -> Attempt:
    """Each row its cheapest columns, those of a tie so that little is told."""
    middle = problem.B.mean(axis=1)
    m, n = problem.L.shape
    space = Workspace(m, n, middle / middle.sum(), np.zeros(problem.L.size))
    P = space.least_information(problem.L.ravel() == 0.0)[0].reshape(problem.L.shape)
    return certain(problem, P)


def base_kernel(problem: Problem) -> Array:
    """A kernel that tells less than the budget, to mix with."""
    allowed = np.isfinite(problem.L)
    if allowed.all(axis=0).any():
        return constant(problem).P
    # the odds move towards those at which the least that must be told is most
    m, n = allowed.shape
    K, limit = problem.B.shape[1], problem.budget
    a, needed = np.full(K, 1.0 / K), 0.0
    best, told = np.empty((m, n)), math.inf
    for k in range(_LEAST_TRIES):
        p = np.maximum(problem.B @ a, 1e-12)
        flat, least = Workspace(m, n, p / p.sum(), np.zeros(m * n)).least_information(allowed.ravel())
        P = flat.reshape(m, n)
        needed = max(needed, least)
        found = worst(P, problem.B, a)
        if found.upper < told:
            best, told = P, found.upper
        if needed > limit or told <= limit * (1.0 - 1e-6) or K == 1:
            break
        a = a + (found.mixture - a) * (2.0 / (k + 3.0))
    if needed > limit or told > limit * KEPT:
        raise InfeasibleError(
            f"leakage = {limit!r} nats; at the worst odds the forbidden pairs (infinite costs) need at least "
            f"{needed:.6g} nats, and {told:.6g} are enough"
        )
    return best


def rounded(P: Array) -> Array:
    """The kernel as it is drawn, in whole numbers of 2^-53."""
    Q = np.array(P, order="C")
    kernels.whole(view(Q.reshape(-1)), *Q.shape)
    return Q
