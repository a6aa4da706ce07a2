"""General conic solvers through CVXPY, for a budget over a hull of priors: by cutting planes over the odds.

CVXPY cannot say "for every prior of the hull", so the budget is stated at finitely many: the corners first, then, round
by round, the odds at which the kernel found tells most, until it tells no more than the budget there by more than a
tolerance. Each round is a new and larger problem. The odds that are added are found by understudy, and not timed: what
is timed is the solving alone, which favours the peer. The problem of one round, with J_ij = P_ij and r_k = p_k P:

    min sum w_i P_ij L_ij   s.t.   sum_j P_ij = 1,   sum_ij rel_entr(p_ki P_ij, p_ki r_kj) <= I_0   for every k
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np
from numpy.typing import NDArray

from understudy.randomizer.priors import worst_prior

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """The kernel after clipping and normalising, its cost, what it tells at worst, rounds and CPU time of solving."""

    kernel: Array
    distortion: float
    leakage: float
    status: str
    rounds: int
    seconds: float


def finite(cost: Array, weights: Array, odds: Array, leakage: float, solver: str) -> tuple[Array, str, float]:
    """One problem: the budget at finitely many odds (k, m). The kernel, the status, and the CPU time of all of it."""
    import cvxpy as cp

    m, n = cost.shape
    start = process_time()
    P = cp.Variable((m, n))
    limits = [cp.sum(P, axis=1) == 1.0]
    for p in odds:
        there = np.flatnonzero(p > 0.0)
        J = cp.multiply(np.repeat(p[there, None], n, axis=1), P[there])
        r = cp.Variable((1, n))
        limits += [r == p[there][None, :] @ P[there], cp.sum(cp.rel_entr(J, p[there][:, None] @ r)) <= leakage]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(weights[:, None] * cost, P))), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate": the status says it, and is in the table
        try:
            problem.solve(solver=solver)
        except cp.error.SolverError:
            return np.full((m, n), np.nan), "failed", process_time() - start
    seconds = process_time() - start
    if P.value is None:
        return np.full((m, n), np.nan), str(problem.status), seconds
    found = np.clip(P.value, 0.0, None)
    return found / found.sum(axis=1, keepdims=True), str(problem.status), seconds


def cutting(cost: Array, priors: Array, leakage: float, solver: str, tolerance: float = 1e-6, most: int = 20) -> Answer:
    """Cutting planes until the worst odds of the hull are within `tolerance` of the budget, relatively."""
    weights, odds, seconds = priors.mean(axis=0), priors, 0.0
    kernel, status, rounds = np.full(cost.shape, np.nan), "none", 0
    worst = np.nan
    for rounds in range(1, most + 1):  # noqa: B007 - the number of rounds is told
        kernel, status, spent = finite(cost, weights, odds, leakage, solver)
        seconds += spent
        if not np.isfinite(kernel).all():
            break
        found = worst_prior(kernel, priors)
        worst = found.upper
        if worst <= leakage * (1.0 + tolerance):
            break
        odds = np.concatenate((odds, found.prior[None, :]))
    distortion = float((weights[:, None] * kernel * cost).sum())
    return Answer(kernel, distortion, worst, status, rounds, seconds)
