"""The randomizer problem: min sum p_i P_ij L_ij subject to I(Theta; ~Theta) <= I_0 (paper, problem (OP)).

This is the distortion-rate function of information theory. Its saddle form::

    D(I_0) = max over beta of min over q >= 0 of [ -sum_i p_i ln sum_j q_j exp(-beta L_ij) + sum q - 1 - I_0 ] / beta

has the law q of the pseudo parameter and the slope beta of the curve as its only unknowns. An interior-point
method finds both at once (`interior`), or on a growing set of columns (`columns`). Here stand the
cases around it: nothing may leak, more may leak than is of use, pairs are forbidden.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import DesignError, InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.backend import compiled, kernels, view
from understudy.randomizer.columns import FEW, WHOLE, generate
from understudy.randomizer.interior import (
    FORBIDDEN,
    SMALL,
    Finished,
    Workspace,
    at_slope,
    closed,
    information,
    within,
)

# Costs too small to divide by are lifted by this.
_LIFT = 2.0**600


class Solution(NamedTuple):
    """A kernel within its budget and its proof: lowest + bound <= optimum <= lowest + excess.

    `lowest` is the expected cost of the cheapest pair of each row, which no kernel can go below.
    """

    kernel: Array
    lowest: float
    excess: float
    bound: float
    leakage: float
    iterations: int
    optimal: bool
    slope: float


def bounds_of(solution: Solution) -> tuple[float, float]:
    """Distortion and lower bound in full, each rounded to its safe side."""
    m, n = solution.kernel.shape
    sums = (m + n + 6) * 2.0**-53
    upper = solution.lowest * (1.0 + 4e-16) + solution.excess * (1.0 + sums)
    lower = solution.lowest * (1.0 - 4e-16) + solution.bound * (1.0 - sums)
    return upper, min(lower, upper)


def minimise(cost: Array, p: Array, budget: float) -> Solution:
    """The kernel of least expected cost with I(Theta; ~Theta) <= budget nats, and its proof."""
    if 0.0 < budget < math.inf and min(cost.shape) <= SMALL:
        found = _at_once(cost, p, budget)
        if found is not None:
            return found
    return _step_by_step(cost, p, budget)


def minimise_at(cost: Array, p: Array, slope: float) -> Solution:
    """The kernel with the least I(Theta; ~Theta) + slope * expected cost, and its proof at the leakage that it has.

    This is the point of the curve with the slope given, in nats a unit of cost.
    """
    m, n = cost.shape
    L, base, r = np.empty(m * n), np.empty(m * n), np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(base), view(r))
    lowest, scale, _, _, position = r.tolist()
    if code and code != 5:
        raise _bad_cost(code, cost, int(position))
    b = slope * scale
    if code or not 0.0 < b < math.inf:
        return minimise(cost, p, 0.0 if slope == 0.0 else math.inf)
    kernels.saturated(view(L), m, n, view(base))
    found = at_slope(L, p, b, base)
    excess = float(kernels.mean_cost(view(L), m, n, view(p), view(found.kernel)))
    leakage = information(p, found.kernel)
    rounding = (found.rounding + 1e-14 * leakage) / b
    bound = max(0.0, (found.bound - leakage) / b - rounding)
    proven = Finished(found.kernel.reshape(m, n), excess, bound, leakage, b, 2.0 * rounding)
    return _unscaled(proven, found.steps, lowest, scale)


def least_told(cost: Array, p: Array) -> tuple[Solution, float]:
    """The kernel that tells least of all that are allowed, and a leakage that none can go below.

    Where a column is allowed to all, the cheapest such column, and nothing is told.
    """
    if np.isfinite(cost[p > 0.0]).all(axis=0).any():
        return minimise(cost, p, 0.0), 0.0
    m, n = cost.shape
    finite = np.isfinite(cost)
    kernel, least = Workspace(m, n, p, np.zeros(m * n)).least_information(finite.ravel())
    # a hair more than it tells, so that the cheapest of its kind is found
    return minimise(cost, p, information(p, kernel) * (1.0 + 1e-12)), least


def _at_once(cost: Array, p: Array, budget: float) -> Solution | None:
    """The ordinary small problem in one call; None for all that needs more care."""
    m, n = cost.shape
    P, room = np.empty((m, n)), np.empty(3 * m * n + 11 * n + 2 * m + 18 + min(m, n) ** 2)
    flat: list[Any] = [cost.ravel(), p, room, P.ravel()]  # all of them row major: no copies
    L, odds, work, kernel = flat if compiled else [view(array) for array in flat]
    found = kernels.at_once(L, m, n, odds, budget, work, kernel)
    if found is None:
        return None
    slope, excess, bound, leakage, rounding, steps, lowest, scale = found
    bound = bound if bound > 0.0 else 0.0
    if not closed(excess, bound, rounding):
        return None
    return Solution(P, lowest, scale * excess, scale * bound, leakage, steps, True, slope / scale)


def _unscaled(found: Finished, steps: int, lowest: float, scale: float) -> Solution:
    return Solution(
        found.kernel, lowest, scale * found.excess, scale * found.bound,
        found.leakage, steps, found.optimal, found.slope / scale,
    )  # fmt: skip


def _step_by_step(cost: Array, p: Array, budget: float) -> Solution:
    m, n = cost.shape
    space = Workspace(m, n, p, np.empty(m * n))
    r = np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(space.L), view(space.work), view(r))
    lowest, scale, where, ties, position = r.tolist()
    if code == 5:
        large = minimise(cost * _LIFT, p, budget)
        return large._replace(
            lowest=large.lowest / _LIFT,
            excess=large.excess / _LIFT,
            bound=large.bound / _LIFT,
            slope=large.slope * _LIFT,
        )
    if code:
        raise _bad_cost(code, cost, int(position))
    best = int(where)
    if best >= 0:
        base = np.zeros(m * n)
        base[best::n] = 1.0
    else:
        base, least = space.least_information(space.L < FORBIDDEN)
        if not within(p, base, budget):
            digits = 6 if budget < 0.9999 * least else 17
            raise InfeasibleError(
                f"leakage = {budget!r} nats; the forbidden pairs (infinite costs) need at least {least:.{digits}g} nats"
            )
    if scale == 0.0 or budget == 0.0:
        excess = scale * space.cost(base)
        return Solution(base.reshape(m, n), lowest, excess, excess, information(p, base), 0, True, math.inf)

    if not ties or min(m, n) > WHOLE:
        P = np.empty(m * n)
        kernels.saturated(view(space.L), m, n, view(P))
    else:
        P, _ = space.least_information(space.L == 0.0)
    if within(p, P, budget):
        return Solution(P.reshape(m, n), lowest, 0.0, 0.0, information(p, P), 0, True, math.inf)

    solver = space.optimise if min(m, n) <= FEW else partial(generate, space)
    found, steps = solver(budget, best, base)
    return _unscaled(found._replace(kernel=found.kernel.reshape(m, n)), steps, lowest, scale)


def _bad_cost(code: int, cost: Array, position: int) -> DesignError:
    i, j = divmod(position, cost.shape[1])
    if code == 3:
        return InfeasibleError(f"row {i} of the costs is infinite throughout; each value needs an allowed pair")
    what = "is not a number" if code == 1 else f"is {cost[i, j]:.6g}"
    return DesignError(f"the cost in row {i}, column {j} {what}; costs must be 0 or more (infinite = forbidden)")
