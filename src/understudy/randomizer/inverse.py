"""The least leakage at an acceptable distortion: problem (OP) from the other end.

The curve D(I) of least distortion at a leakage I is convex and decreasing, and each of its points comes with its slope.
Newton's method therefore finds the budget at which the curve meets the demand. The tangents lie below the curve, so
every step also proves a leakage that no randomizer of that distortion can go below.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from understudy._types import Array
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.solver import (
    TOLERANCE,
    Solution,
    bounds_of,
    least_told,
    minimise,
)

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
    nothing, proven = least_told(cost, p)
    if meets(nothing, cost, p, limit):
        return nothing, proven
    x = limit - everything.lowest
    if x == 0.0:
        return everything, everything.leakage
    low, high = nothing.leakage, everything.leakage
    best = everything
    budget = 0.5 * (low + high)
    for _ in range(_ROUNDS):
        solution = minimise(cost, p, budget)
        if meets(solution, cost, p, limit):
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
        # a little to the right of the root, so that the demand is met
        new = budget + step + 1e-13 * budget
        budget = new if low < new < high else 0.5 * (low + high)
    proven = min(proven, best.leakage)
    closed = best.leakage - proven <= TOLERANCE * best.leakage + 1e-14
    return best._replace(optimal=best.optimal and closed), proven


def meets(solution: Solution, cost: Array, p: Array, limit: float) -> bool:
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
