"""Designs from the other end: the least that can leak at a distortion, the least distortion at an error.

**A distortion that is acceptable.** The curve D(I) is convex and decreasing, and each solution comes with its
slope, so Newton's method finds the budget at which the curve meets the demand. Its tangents lie
below the curve, so every step is also a proof that less will not do.

**An error that every adversary must make.** Nobody guesses better than the best guess from ~Theta itself, which is
wrong with probability 1 - sum_j max_i p_i P_ij. Keeping that at or above e is a linear program in P.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from understudy.errors import DesignError, InfeasibleError, NumericalError
from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view
from understudy.randomizer.interior import FORBIDDEN, TOLERANCE, information
from understudy.randomizer.solver import Solution, bounds_of, minimise

_ROUNDS = 60


def least_leakage(cost: Array, p: Array, limit: float) -> tuple[Solution, float]:
    """The kernel of least information with a distortion of at most `limit`, and a leakage that none can go below."""
    if not limit >= 0.0:
        raise DesignError(f"distortion_at_most = {limit!r}; it must be 0 or more")
    everything = minimise(cost, p, math.inf)
    if everything.lowest > limit:
        raise InfeasibleError(
            f"distortion_at_most = {limit:.6g}; the least that any randomizer reaches is {everything.lowest:.6g}"
        )
    finite = np.isfinite(cost[p > 0.0]).all(axis=0).any()
    if finite:
        nothing = minimise(cost, p, 0.0)
        if bounds_of(nothing)[0] <= limit:
            return nothing, 0.0
    x = limit - everything.lowest
    if x == 0.0:
        return everything, everything.leakage
    low, high = 0.0, everything.leakage
    best, proven = everything, 0.0
    budget = 0.5 * high
    for _ in range(_ROUNDS):
        try:
            solution = minimise(cost, p, budget)
        except InfeasibleError:
            low, budget = budget, 0.5 * (budget + high)
            continue
        if bounds_of(solution)[0] <= limit:
            high, best = budget, solution
        else:
            low = budget
        # R(x) >= I + beta (bound - x), the tangent with its proof
        if math.isfinite(solution.slope):
            proven = max(proven, budget + solution.slope * (solution.bound - x))
            step = solution.slope * (solution.excess - x)
        else:
            step = 0.0
        if best.leakage - proven <= 0.5 * TOLERANCE * best.leakage or high - low <= 4e-16 * high:
            break
        # a hair to the right of the root, so that the demand is met
        new = budget + step + 1e-13 * budget
        budget = new if low < new < high else 0.5 * (low + high)
    return best, min(proven, best.leakage)


def least_distortion(cost: Array, p: Array, error: float) -> Solution:
    """The kernel of least distortion under which every guess is wrong with probability `error` or more."""
    top = int(np.argmax(p))
    if not error >= 0.0:
        raise DesignError(f"error_at_least = {error!r}; it must be 0 or more")
    if error > 1.0 - p[top]:
        raise InfeasibleError(
            f"error_at_least = {error:.6g}; who always guesses the likeliest value is wrong with probability "
            f"{1.0 - p[top]:.6g}, so more cannot be asked"
        )
    m, n = cost.shape
    work, L, r = np.empty(n), np.empty(m * n), np.zeros(5)
    if kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(work), view(r)):
        minimise(cost, p, math.inf)  # raises, saying what is wrong
    lowest, scale = r[0], r[1] or 1.0
    L = L.reshape(m, n)
    P, bound = _linear_program(L, p, error)
    P = _exactly(P, p, error, top, np.isfinite(cost))
    excess = float(kernels.mean_cost(view(L.reshape(-1)), m, n, view(p), view(P.reshape(-1))))
    bound = min(max(bound, 0.0), excess)
    optimal = excess - bound <= TOLERANCE * max(excess, 1.0)
    leakage = information(p, np.ascontiguousarray(P).reshape(-1))
    return Solution(P, lowest, scale * excess, scale * bound, leakage, 0, optimal, math.nan)


def _linear_program(L: Array, p: Array, error: float) -> tuple[Array, float]:
    """The least sum p_i P_ij L_ij with p_i P_ij <= t_j, sum t <= 1 - error and rows of one; and its dual bound."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, eye_array, hstack, kron, vstack

    m, n = L.shape
    allowed = L < FORBIDDEN
    costs = np.where(allowed, L, 0.0)
    each = hstack([kron(coo_matrix(np.diag(p)), eye_array(n)), -kron(np.ones((m, 1)), eye_array(n))])
    total = coo_matrix(np.concatenate((np.zeros(m * n), np.ones(n)))[None, :])
    result = linprog(
        np.concatenate(((p[:, None] * costs).ravel(), np.zeros(n))),
        A_ub=vstack([each, total]).tocsr(),
        b_ub=np.concatenate((np.zeros(m * n), [1.0 - error])),
        A_eq=hstack([kron(eye_array(m), np.ones((1, n))), coo_matrix((m, n))]).tocsr(),
        b_eq=np.ones(m),
        bounds=[(0.0, None if ok else 0.0) for ok in allowed.ravel()] + [(0.0, None)] * n,
        method="highs",
    )
    if result.status == 2:
        raise InfeasibleError(f"error_at_least = {error:.6g}; the forbidden pairs (infinite costs) do not allow it")
    if result.x is None:
        raise NumericalError(f"the linear program was not solved: {result.message}")
    # For any alpha >= 0 with column sums of at most kappa: D* >= sum_i p_i min_j (L_ij + alpha_ij) - kappa (1 - error)
    alpha = np.maximum(-result.ineqlin.marginals[: m * n].reshape(m, n), 0.0)
    kappa = float(alpha.sum(axis=0).max())
    bound = float(p @ (L + alpha).min(axis=1)) - kappa * (1.0 - error)
    P = np.maximum(result.x[: m * n].reshape(m, n), 0.0)
    return P / P.sum(axis=1, keepdims=True), bound


def _exactly(P: Array, p: Array, error: float, top: int, allowed: Array) -> Array:
    """Round to whole numbers of 2^-53 and mix with the row of the likeliest value until the demand holds exactly."""
    row = np.tile(P[top], (len(p), 1)) if allowed[:, P[top] > 0.0][p > 0.0].all() else P
    share = 0.0
    weights = [Fraction(x) for x in p.tolist()]
    # a little more than asked where there is room, so that the demand also holds in floating point
    spare = Fraction(2) ** -48 if error + 2.0**-48 < 1.0 - float(p[top]) else Fraction(0)
    limit = sum(weights) - Fraction(error) - spare
    for _ in range(64):
        Q = np.ascontiguousarray((1.0 - share) * P + share * row)
        kernels.whole(view(Q.reshape(-1)), *Q.shape)
        if sum(max(w * Fraction(x) for w, x in zip(weights, column, strict=True)) for column in Q.T.tolist()) <= limit:
            return Q
        share = max(2.0 * share, 2.0**-53)
        if share >= 1.0:
            break
    raise NumericalError(f"error_at_least = {error:.6g}; no kernel was found that meets it exactly")
