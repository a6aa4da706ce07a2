"""What a stored design claims, proved again without solving anything.

A kernel is a solution of (OP) if it keeps its budget and costs no more than a proven lower bound. Both are checked
from the kernel alone, by one evaluation each:

- **Feasible.** The counts of a row are whole numbers, none negative, that sum to 2^53. This is exact.
- **Within the budget.** I(Theta; ~Theta) of the kernel is summed from positive terms, and must stay below the budget
  by more than rounding can have taken from it (`solver.within`).
- **The lower bound.** For every law q of the pseudo parameter and every slope beta > 0, weak duality gives::

      I + beta D >= F - ln max_j c_j,   F = -sum_i p_i ln z_i,  z_i = sum_j q_j exp(-beta L_ij),
                                        c_j = sum_i p_i exp(-beta L_ij) / z_i

  for all kernels. The multiplier beta is stored, and q is what the kernel draws: the law of its pseudo values, moved a
  few steps towards the optimum where that proves more. An allowance for rounding is subtracted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy._types import Array
from understudy.errors import StoredFileError
from understudy.randomizer.solver import FORBIDDEN, TOLERANCE, Solution, information, is_closed, kernels, view, within

_STEPS = 40  # of q, at most
_LIFT = 2.0**600  # costs too small to divide by are multiplied by this


class Dual(NamedTuple):
    """No kernel has an I + beta D below `value`, in nats; rounding took `rounding` of it."""

    value: float
    rounding: float


class Proof(NamedTuple):
    """A kernel that is within its budget, with the bounds that it proves, and what rounding took of them."""

    solution: Solution
    rounding: float


def dual(L: Array, p: Array, q: Array, beta: float, wanted: float = math.inf, steps: int = _STEPS) -> Dual:
    """The bound that a law q of the pseudo values proves at a slope, moved until `wanted` is proved or nothing gained.

    >>> L, p = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.5, 0.5])
    >>> P = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> found = dual(L, p, p @ P, beta=np.log(9.0))
    >>> round(float(found.value), 9), round(float(information(p, P.ravel()) + np.log(9.0) * 0.1), 9)
    (0.587786665, 0.587786665)
    """
    m, n = L.shape
    flat = np.ascontiguousarray(L).reshape(-1)
    A, c, w, r = np.empty(m * n), np.empty(n), np.empty(n), np.empty(3)
    best = Dual(-math.inf, 0.0)
    for step in range(steps):
        q = q / q.sum()
        found = kernels.bound(view(flat), m, n, view(p), view(q), beta, 0.0, view(A), view(c), view(w), view(r))
        proved = Dual(beta * float(found), beta * float(r[2]))
        if not proved.value > best.value:
            break
        best = proved
        if best.value >= wanted or step + 1 == steps:
            break
        # a column that is worth more than it is drawn: c_j falls by sum_i p_i A_ij^2 for each unit of q_j
        with np.errstate(over="ignore"):
            steep = p @ A.reshape(m, n) ** 2
        q = q * c + np.where(c > 1.0, (c - 1.0) / np.maximum(steep, 1.0), 0.0)
        if not np.isfinite(q).all():
            break
    return best


def least_information(allowed: Array, p: Array, kernel: Array) -> Dual:
    """A lower bound on the leakage of every kernel that draws allowed pairs alone."""
    return dual(np.where(allowed, 0.0, FORBIDDEN), p, p @ kernel, 1.0)


def prove(cost: Array, p: Array, kernel: Array, budget: float, slope: float, iterations: int = 0) -> Proof:
    """That a kernel keeps a budget, and what it proves of the least cost within that budget."""
    m, n = cost.shape
    L, r = np.empty(m * n), np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(np.empty(n)), view(r))
    if code == 5:
        large = prove(cost * _LIFT, p, kernel, budget, slope / _LIFT, iterations)
        small = large.solution
        return Proof(
            small._replace(
                lowest=small.lowest / _LIFT, excess=small.excess / _LIFT, bound=small.bound / _LIFT, slope=slope
            ),
            large.rounding / _LIFT,
        )
    if code:
        raise StoredFileError("the costs are not those of a randomizer problem")
    lowest, scale = r[:2].tolist()
    P = np.ascontiguousarray(kernel)
    excess = float(kernels.mean_cost(view(L), m, n, view(p), view(P.reshape(-1))))
    alike = bool((P[p > 0.0] == P[p > 0.0][0]).all())  # the same law in every row: nothing leaks
    if excess >= FORBIDDEN or not (alike or within(p, P.reshape(-1), budget)):
        raise StoredFileError("the kernel is not a solution for the prior, the costs and the demand")
    beta, rounding = slope * scale, 0.0
    if excess == 0.0:
        bound = 0.0  # no kernel costs less than the cheapest pair of each row
    elif budget == 0.0:
        columns = p[p > 0.0] @ L.reshape(m, n)[p > 0.0]
        bound = min(excess, float(columns.min()))  # nothing may leak: one column for all
    elif 0.0 < beta < math.inf:
        found = dual(L.reshape(m, n), p, p @ P, beta, budget + beta * excess)
        bound = max(0.0, (found.value - budget) / beta)
        rounding = (found.rounding + 1e-14 * budget) / beta
    else:
        bound = 0.0
    bound = min(bound, excess)
    optimal = is_closed(excess, bound, rounding)
    leakage = information(p, P.reshape(-1))
    solution = Solution(kernel, lowest, scale * excess, scale * bound, leakage, iterations, optimal, slope)
    return Proof(solution, scale * rounding)


def proven_leakage(cost: Array, p: Array, kernel: Array, limit: float, slope: float) -> Dual:
    """What no kernel of an expected cost within the limit leaks less than."""
    m, n = cost.shape
    least = cost[p > 0.0].min(axis=1)
    lowest = math.fsum((p[p > 0.0] * least).tolist())
    allowed = np.isfinite(cost)
    if limit - lowest <= 0.0:  # the cheapest pairs alone
        allowed = cost == cost.min(axis=1, keepdims=True)
    allowed[p == 0.0] = True
    found = Dual(0.0, 0.0)
    if not allowed.all(axis=0).any():
        found = least_information(allowed, p, kernel)
    L, r = np.empty(m * n), np.zeros(5)
    kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(np.empty(n)), view(r))
    lowest, scale = r[:2].tolist()
    # where no slope was stored, the demand is at an end of the curve, and steeper tangents prove more
    slopes = [slope] if slope < math.inf else [2.0**k / scale for k in range(60)] if scale > 0.0 else []
    for one in slopes:
        tangent = dual(L.reshape(m, n), p, p @ kernel, one * scale)
        value = tangent.value - one * max(limit - lowest, 0.0)
        found = max(found, Dual(value, tangent.rounding + 1e-14 * abs(value)))
    return found


def is_proved(claim: float, proved: float, size: float, rounding: float, tolerance: float = TOLERANCE) -> bool:
    """Whether a claimed bound is proved, to a tenth of the tolerance to which a gap counts as closed.

    The kernel does not hold the last digits of the q at which the claim was proved once.

    >>> is_proved(1.0 + 1e-12, 1.0, 1.0, 0.0), is_proved(1.0 + 1e-9, 1.0, 1.0, 0.0)
    (True, False)
    """
    return claim <= proved + 0.1 * tolerance * size + 2.0 * rounding
