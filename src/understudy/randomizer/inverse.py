"""The least leakage at an acceptable distortion: problem (OP) from the other end.

The curve D(I) of least distortion at a leakage I is convex and decreasing, and each of its points comes with its slope.
Newton's method therefore finds the budget at which the curve meets the demand. The tangents lie below the curve, so
every step also proves a leakage that no randomizer of that distortion can go below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from understudy._types import Array
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.solver import (
    TOLERANCE,
    Solution,
    bounds_of,
    least_information,
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
    nothing, proven = least_information(cost, p)
    if meets(nothing, cost, p, limit):
        return nothing, proven
    if limit == everything.lowest:
        return everything, everything.leakage
    return follow_curve(
        lambda budget: minimise(cost, p, budget),
        lambda found: meets(found, cost, p, limit),
        limit,
        everything,
        nothing,
        proven,
    )


def follow_curve(
    curve: Callable[[float], Solution],
    accept: Callable[[Solution], bool],
    limit: float,
    best: Solution,
    least: Solution,
    proven: float,
    tolerance: float = TOLERANCE,
) -> tuple[Solution, float]:
    """Newton's method on a curve of least distortion: the least leakage at which it meets a limit, and its proof.

    `best` is the end of the curve that meets the limit, `least` the other one, of least leakage, and `proven` what no
    solution leaks less than. Near that end the leakage is about the square of the distance from its distortion, so the
    method is applied to its root.
    """
    low, high = max(least.leakage, proven), best.leakage
    x = limit - best.lowest
    share = (least.excess - x) / (least.excess - best.excess)
    budget = low + (high - low) * share * share
    proof: tuple[Solution, float] | None = None
    for _ in range(_ROUNDS):
        try:
            solution = curve(budget)
        except InfeasibleError:
            low, budget = budget, 0.5 * (budget + high)
            continue
        if accept(solution):
            high, best = budget, solution
        else:
            low = budget
        step = 0.0
        if math.isfinite(solution.slope):
            # R(x) >= I + beta (bound - x), the tangent with its proof
            tangent = budget + solution.slope * (solution.bound - x)
            if tangent > proven:
                proven, proof = tangent, (solution, budget)
            # a little to the right of the root, so that the demand is met
            step = solution.slope * (2.0 * solution.excess - solution.bound - x) + 1e-13 * budget
            step += 0.25 * step * step / budget
        if best.leakage - proven <= 0.5 * tolerance * best.leakage or high - low <= 4e-16 * high:
            break
        new = budget + step
        budget = new if low < new < high else 0.5 * (low + high)
    proven = min(proven, best.leakage)
    closed = best.leakage - proven <= tolerance * best.leakage + 1e-14
    if proof is not None and best.multipliers is not None and best.multipliers is not proof[0].multipliers:
        # one set of multipliers proves both bounds: D >= bound - (I - budget) / beta as well
        by, budget = proof
        bound = by.bound - max(best.leakage - budget, 0.0) / by.slope
        best = best._replace(bound=min(bound, best.excess), slope=by.slope, multipliers=by.multipliers)
    return best._replace(optimal=best.optimal and closed), proven


def meets(solution: Solution, cost: Array, p: Array, limit: float) -> bool:
    """Whether a kernel costs no more than the limit, the bounds of the solution being looked at first."""
    upper, _ = bounds_of(solution)
    if upper <= limit or upper > limit * (1.0 + 1e-9) or cost.size > 100_000:
        return upper <= limit
    return costs_at_most(solution.kernel, cost, p, limit)


def costs_at_most(P: Array, cost: Array, p: Array, limit: float) -> bool:
    """Whether a kernel costs no more than the limit, in whole fractions."""
    used = (P > 0.0) & (p[:, None] > 0.0)
    parts = np.broadcast_to(p[:, None], P.shape)[used], P[used], cost[used]
    terms = zip(*(part.tolist() for part in parts), strict=True)
    return sum(Fraction(w) * Fraction(x) * Fraction(c) for w, x, c in terms) <= Fraction(limit)
