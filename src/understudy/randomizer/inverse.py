"""Designs from the other end: the least that can leak at a distortion, the least distortion at an error.

**A distortion that is acceptable.** The curve D(I) is convex and decreasing, and each solution comes with its
slope, so Newton's method finds the budget at which the curve meets the demand. Its tangents lie
below the curve, so every step is also a proof that less will not do.

**An error that every adversary must make.** Nobody guesses better than the best guess from ~Theta itself, which is
wrong with probability 1 - sum_j max_i p_i P_ij. Keeping that at or above e is a linear program in P. Where kernels tie,
one that tells less is taken, as in problems with constraints (`constrained.ties`).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import DesignError, InfeasibleError, NumericalError
from understudy.randomizer.solver import (
    FORBIDDEN,
    TOLERANCE,
    Solution,
    bounds_of,
    information,
    kernels,
    least_told,
    minimise,
    view,
)

_ROUNDS = 60
_TIED = 2_500  # pairs up to which one that tells less is looked for


def least_leakage(cost: Array, p: Array, limit: float) -> tuple[Solution, float]:
    """The kernel of least information with a distortion of at most `limit`, and a leakage that none can go below."""
    if not limit >= 0.0:
        raise DesignError(f"distortion_at_most = {limit!r}; it must be 0 or more")
    everything = minimise(cost, p, math.inf)
    if everything.lowest > limit:
        raise InfeasibleError(
            f"distortion_at_most = {limit:.6g}; the least that any randomizer reaches is {everything.lowest:.6g}"
        )
    nothing, proven = least_told(cost, p)
    if _meets(nothing, cost, p, limit):
        return nothing, proven
    x = limit - everything.lowest
    if x == 0.0:
        return everything, everything.leakage
    low, high = nothing.leakage, everything.leakage
    best = everything
    budget = 0.5 * (low + high)
    for _ in range(_ROUNDS):
        solution = minimise(cost, p, budget)
        if _meets(solution, cost, p, limit):
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
    proven = min(proven, best.leakage)
    closed = best.leakage - proven <= TOLERANCE * best.leakage + 1e-14
    return best._replace(optimal=best.optimal and closed), proven


def _meets(solution: Solution, cost: Array, p: Array, limit: float) -> bool:
    """Whether a kernel costs no more than the limit: in whole fractions where rounding could decide."""
    upper, _ = bounds_of(solution)
    if upper <= limit or upper > limit * (1.0 + 1e-9) or cost.size > 100_000:
        return upper <= limit
    used = (solution.kernel > 0.0) & (p[:, None] > 0.0)
    terms = zip(
        np.broadcast_to(p[:, None], cost.shape)[used].tolist(),
        solution.kernel[used].tolist(),
        cost[used].tolist(),
        strict=True,
    )
    return sum(Fraction(w) * Fraction(x) * Fraction(c) for w, x, c in terms) <= Fraction(limit)


def least_distortion(cost: Array, p: Array, error: float) -> Solution:
    """The kernel of least distortion under which every guess is wrong with probability `error` or more."""
    if not error >= 0.0:
        raise DesignError(f"error_at_least = {error!r}; it must be 0 or more")
    m, n = cost.shape
    work, flat, r = np.empty(n), np.empty(m * n), np.zeros(5)
    if kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(flat), view(work), view(r)) not in (0, 5):
        minimise(cost, p, math.inf)  # raises, saying what is wrong
    lowest, scale = r[:2].tolist()
    L = flat.reshape(m, n)
    most = 1 - max(map(Fraction, p.tolist())) / sum(map(Fraction, p.tolist()))
    if error > float(most) + 1e-15:
        raise InfeasibleError(
            f"error_at_least = {error:.6g}; who always guesses the likeliest value is wrong with probability "
            f"{float(most):.6g}, so more cannot be asked"
        )
    allowed = L < FORBIDDEN
    P, bound, settled = _linear_program(L, p, min(error, float(most)))
    # where every pair is allowed: all rows that of the likeliest value, and nothing is told
    same = np.tile(P[int(np.argmax(p))], (m, 1))
    safest = same if allowed[p > 0.0].all() else _safest(allowed, p)
    P = _exactly(P, safest, p, min(Fraction(error), most))
    excess = float(kernels.mean_cost(view(flat), m, n, view(p), view(P.reshape(-1))))
    bound = min(max(bound, 0.0), excess)
    optimal = excess - bound <= TOLERANCE * excess + 1e-14
    told = information(p, P.reshape(-1))
    first = Solution(P, lowest, scale * excess, scale * bound, told, 0, optimal, math.nan)
    return first if settled or m * n > _TIED or told == 0.0 else _quieter(cost, p, error, first)


def _quieter(cost: Array, p: Array, error: float, first: Solution) -> Solution:
    """The first answer, or one that costs the same to a hair and tells less."""
    from understudy.randomizer.constrained_solver import HAIR, Constrained
    from understudy.randomizer.constraints import ErrorAtLeast

    try:
        found = Constrained(cost, p, (ErrorAtLeast(error),)).solved()
    except InfeasibleError:
        return first
    cheap = bounds_of(found)[0] <= bounds_of(first)[0] + HAIR * first.excess
    less = found.leakage < (1.0 - 1e-9) * first.leakage
    return found if found.optimal and cheap and less else first


def _linear_program(L: Array, p: Array, error: float) -> tuple[Array, float, bool]:
    """The least sum p_i P_ij L_ij with p_i P_ij <= t_j, sum t <= 1 - error and rows of one; and its dual bound.

    Beside them whether no other kernel costs as little, for sure.
    """
    m, n = L.shape
    allowed = L < FORBIDDEN
    P, marginals, settled = _program(p, allowed, np.where(allowed, L, 0.0), np.zeros(n), 1.0 - error)
    # For any alpha >= 0 with column sums of at most kappa: D* >= sum_i p_i min_j (L_ij + alpha_ij) - kappa (1 - error)
    alpha = np.maximum(-marginals[: m * n].reshape(m, n), 0.0)
    kappa = float(alpha.sum(axis=0).max())
    return P, float(p @ (L + alpha).min(axis=1)) - kappa * (1.0 - error), settled


def _safest(allowed: NDArray[np.bool_], p: Array) -> Array:
    """The kernel that draws allowed pairs alone and leaves the best guess wrong most often."""
    return _program(p, allowed, np.zeros(allowed.shape), np.ones(allowed.shape[1]), 2.0)[0]


def _program(
    p: Array, allowed: NDArray[np.bool_], costs: Array, caps: Array, total: float
) -> tuple[Array, Array, bool]:
    """Minimise sum p_i P_ij costs_ij + sum t_j caps_j, p_i P_ij <= t_j and sum t <= total; P and the multipliers.

    Beside them whether that is the only optimum, for sure.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, eye_array, hstack, kron, vstack

    from understudy.randomizer.constrained_solver import settled

    m, n = costs.shape
    each = hstack([kron(coo_matrix(np.diag(p)), eye_array(n)), -kron(np.ones((m, 1)), eye_array(n))])
    sum_of_caps = coo_matrix(np.concatenate((np.zeros(m * n), np.ones(n)))[None, :])
    result = linprog(
        np.concatenate(((p[:, None] * costs).ravel(), caps)),
        A_ub=vstack([each, sum_of_caps]).tocsr(),
        b_ub=np.concatenate((np.zeros(m * n), [total])),
        A_eq=hstack([kron(eye_array(m), np.ones((1, n))), coo_matrix((m, n))]).tocsr(),
        b_eq=np.ones(m),
        bounds=[(0.0, None if ok else 0.0) for ok in allowed.ravel()] + [(0.0, None)] * n,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status == 2:
        raise InfeasibleError(
            f"error_at_least = {1.0 - total:.6g}; the forbidden pairs (infinite costs) do not allow it"
        )
    if result.x is None:
        raise NumericalError(f"the linear program was not solved: {result.message}")
    P = result.x[: m * n].reshape(m, n)
    P = np.where(P > 1e-12, P, 0.0)  # what is less is the solver's rounding
    return P / P.sum(axis=1, keepdims=True), result.ineqlin.marginals, settled(result)


def _exactly(P: Array, safest: Array, p: Array, error: Fraction) -> Array:
    """Round to whole numbers of 2^-53, and mix with a kernel that is safer until the demand holds exactly."""
    weights = [Fraction(x) for x in p.tolist()]
    # a little more than asked where there is room, so that the demand also holds in floating point
    for spare in (Fraction(2) ** -48, Fraction(0)):
        limit = sum(weights) * (1 - error - spare)
        for share in (0.0, *(2.0**k for k in range(-53, 1))):
            Q = np.ascontiguousarray((1.0 - share) * P + share * safest)
            kernels.whole(view(Q.reshape(-1)), *Q.shape)
            if sum(max(w * Fraction(x) for w, x in zip(weights, row, strict=True)) for row in Q.T.tolist()) <= limit:
                return Q
    raise InfeasibleError(
        f"error_at_least = {float(error):.6g}; the forbidden pairs (infinite costs) do not allow it exactly"
    )
