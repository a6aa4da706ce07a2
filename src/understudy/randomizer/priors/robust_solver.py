"""The kernel of least cost that keeps a budget over a hull of priors, with its proof.

Around the saddle point (`saddle`) stand the cases in which nothing, or everything, may be told; the mixing that makes a
kernel keep its budget to the last bit; and attempts from several starts until the gap is closed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view
from understudy.randomizer.interior import Workspace, closed
from understudy.randomizer.priors.hull import Worst, worst
from understudy.randomizer.priors.robust_starts import STARTS, ordinary, starting_point
from understudy.randomizer.priors.saddle import Point, Problem, bound, kernel_at, saddle
from understudy.randomizer.solver import minimise

_KEPT = 1.0 - 4e-15  # of a budget, so that no rounding breaks it
_IDLE = 1e-9  # of its slack, below which a column is not drawn
_LEAST_TRIES = 60


class Robust(NamedTuple):
    """A kernel that keeps a budget over a hull: lower <= optimum <= upper."""

    kernel: Array
    upper: float
    lower: float
    gap: float
    excess: float  # of the upper bound over the cheapest pair of each row
    rounding: float
    worst: Worst
    weights: Array  # of the corners that the cost is the largest of
    price: float
    steps: int

    @property
    def optimal(self) -> bool:
        """Whether the gap is closed."""
        return closed(self.excess, self.excess - self.gap, self.rounding)


class _Attempt(NamedTuple):
    """A kernel of the rows that occur, in whole numbers of 2^-53, and what it comes to, costs scaled."""

    P: Array
    found: Worst
    upper: float
    lower: float
    rounding: float
    weights: Array
    price: float


def robust(cost: Array, B: Array, C: Array, budget: float) -> Robust:
    """The kernel of least cost, at the worst column of C, that tells at most the budget over the hull of B."""
    middle = B.mean(axis=1)
    minimise(cost, middle / middle.sum(), math.inf)  # refuses costs that are none
    there = np.asarray(middle > 0.0)
    problem, scale, offset = _prepared(cost[there], B[there], C[there], budget)
    steps = 0
    if budget == 0.0:
        best = _constant(problem)
    elif (cheap := _cheapest(problem)).found.upper <= budget * _KEPT:
        best = cheap
    elif scale == 0.0:
        best = _certain(problem, _base(problem))  # what is allowed is free
    else:
        base, tries = _base(problem), list[_Attempt]()
        for dearest, factor in STARTS:
            point = saddle(problem, starting_point(problem, dearest, factor))
            steps += point.steps
            tries += _attempts(problem, point, base)
            if _closed(problem, _best(tries)):
                break
        best = _best(tries)
    found = _unscaled(problem, scale or 1.0, cost, there, best)
    upper, lower = offset * (1.0 + 4e-16) + found.upper, offset * (1.0 - 4e-16) + found.lower
    return found._replace(upper=upper, lower=min(lower, upper), steps=steps)


def _unscaled(problem: Problem, f: float, cost: Array, there: NDArray[np.bool_], a: _Attempt) -> Robust:
    kernel, prior = np.zeros(cost.shape), np.zeros(len(cost))
    kernel[there], prior[there] = a.P, a.found.prior
    for i in np.flatnonzero(~there):
        kernel[i, int(cost[i].argmin())] = 1.0  # never drawn: the value occurs at no odds of the hull
    prior.flags.writeable = False
    gap, excess = max(0.0, a.upper - a.lower), max(0.0, a.upper - _floor(problem))
    return Robust(
        kernel, f * a.upper, f * min(a.lower, a.upper), f * gap, f * excess, f * a.rounding,
        a.found._replace(prior=prior), a.weights, f * a.price, 0,
    )  # fmt: skip


def _prepared(cost: Array, B: Array, C: Array, budget: float) -> tuple[Problem, float, float]:
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


def _floor(problem: Problem) -> float:
    """A cost that no kernel goes below, whatever it tells."""
    return float((problem.C.T @ problem.least).max()) * (1.0 - _units(problem))


def _units(problem: Problem) -> float:
    """What the sums over a kernel are off by at most, relatively."""
    return (sum(problem.L.shape) + 8) * 2.0**-53


def _costs(problem: Problem, P: Array) -> Array:
    """The cost of a kernel at each corner."""
    means = (P * np.where(P > 0.0, problem.L, 0.0)).sum(axis=1)
    return np.asarray(problem.C.T @ (problem.least + means))


def _certain(problem: Problem, P: Array, lower: float | None = None) -> _Attempt:
    """A kernel that is known to be the best, and its cost as the bound."""
    Q = _rounded(P)
    costs, units = _costs(problem, Q), _units(problem)
    upper = float(costs.max())
    weights = np.zeros(costs.size)
    weights[int(costs.argmax())] = 1.0
    found = max(upper if lower is None else lower, _floor(problem)) * (1.0 - units)
    return _Attempt(Q, worst(Q, problem.B), upper * (1.0 + units), found, 4.0 * units * upper, weights, 0.0)


# Nothing told, everything told, the least that must be told ------------------------------------------


def _constant(problem: Problem) -> _Attempt:
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
        return _certain(problem, P)
    # a game: the draw of a column against the odds that make it dear
    weights, law = _game(costs)
    mixed = np.zeros(problem.L.shape)
    mixed[:, free] = law
    lower = float((weights @ costs).min())
    best = min((_certain(problem, each, lower) for each in (P, mixed)), key=lambda a: a.upper)
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


def _cheapest(problem: Problem) -> _Attempt:
    """Each row its cheapest columns, those of a tie so that little is told."""
    middle = problem.B.mean(axis=1)
    m, n = problem.L.shape
    space = Workspace(m, n, middle / middle.sum(), np.zeros(problem.L.size))
    P = space.least_information(problem.L.ravel() == 0.0)[0].reshape(problem.L.shape)
    return _certain(problem, P)


def _base(problem: Problem) -> Array:
    """A kernel that tells less than the budget, to mix with."""
    allowed = np.isfinite(problem.L)
    if allowed.all(axis=0).any():
        return _constant(problem).P
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
    if needed > limit or told > limit * _KEPT:
        raise InfeasibleError(
            f"leakage = {limit!r} nats; at the worst odds the forbidden pairs (infinite costs) need at least "
            f"{needed:.6g} nats, and {told:.6g} are enough"
        )
    return best


# Attempts --------------------------------------------------------------------------------------------


def _attempts(problem: Problem, point: Point, base: Array) -> list[_Attempt]:
    """What a saddle point comes to; and, if that leaves a gap, the ordinary optimum at its odds."""
    weights, price = point.h / math.fsum(point.h), math.fsum(point.a)
    few = _pruned(problem, point)
    lower, rounding = max(bound(problem, point), bound(problem, few))
    units, tries = _units(problem), list[_Attempt]()
    for each in (few, point):
        P, found = _within(problem, each, base)
        upper = float(_costs(problem, P).max()) * (1.0 + units)
        tries.append(_Attempt(P, found, upper, max(lower, _floor(problem)), rounding, weights, price))
        if _closed(problem, tries[-1]):
            return tries
    first = _best(tries)
    p, w = problem.B @ point.a, problem.C @ weights
    other = ordinary(problem, p / p.sum(), w) if price > 0.0 and (p > 0.0).all() else None
    if other is None:
        return [first]
    # the costs of that problem are rounded once more
    lower = (float(w @ problem.least) + other.bound) * (1.0 - 4.0 * units)
    second = first._replace(lower=lower, rounding=4.0 * units * upper)
    told = worst(other.kernel, problem.B, point.a, problem.budget * _KEPT)
    if told.upper <= problem.budget * _KEPT:
        upper = float(_costs(problem, other.kernel).max()) * (1.0 + units)
        second = second._replace(P=other.kernel, found=told, upper=upper)
    return [first, second]


def _best(tries: list[_Attempt]) -> _Attempt:
    """The cheapest kernel of all, with the best of all bounds."""
    low, best = max(tries, key=lambda a: a.lower), min(tries, key=lambda a: a.upper)
    return best._replace(lower=min(low.lower, best.upper), rounding=low.rounding, weights=low.weights, price=low.price)


def _closed(problem: Problem, a: _Attempt) -> bool:
    excess = max(0.0, a.upper - _floor(problem))
    return closed(excess, excess - (a.upper - a.lower), a.rounding)


def _pruned(problem: Problem, point: Point) -> Point:
    """Without the columns that complementarity says are idle."""
    s = problem.B @ point.a
    P = kernel_at(problem, point)
    with np.errstate(all="ignore"):
        c = np.where(point.q > 0.0, (s @ P) / point.q, 0.0) / s.sum()
    q = np.where(point.q < _IDLE * (1.0 - c), 0.0, point.q)
    rows = np.isfinite(problem.L) & (q > 0.0)
    return point._replace(q=q / q.sum()) if rows.any(axis=1).all() else point


def _within(problem: Problem, point: Point, base: Array) -> tuple[Array, Worst]:
    """The kernel of a point, or one that tells a little less, within the budget over the hull.

    At a price that is higher by a hair, or mixed with a kernel that tells less; whichever costs less.
    """
    P = kernel_at(problem, point)
    Q = _rounded(P)
    limit = problem.budget * _KEPT
    found = worst(Q, problem.B, point.a, limit)
    if found.upper <= limit:
        return Q, found
    mixed = _mixed(problem, point, P, base, found)
    least, spent = float(_costs(problem, Q).max()), float(_costs(problem, mixed[0]).max())
    if spent - least <= 1e-11 * (least - _floor(problem)):
        return mixed  # as good as free
    dearer = _dearer(problem, point)
    if dearer is None:
        return mixed
    return min(mixed, dearer, key=lambda one: float(_costs(problem, one[0]).max()))


def _dearer(problem: Problem, point: Point) -> tuple[Array, Worst] | None:
    """The kernel at a higher price of leakage, as little as will do."""
    limit = problem.budget * _KEPT
    for more in (4.0**k * 1e-16 for k in range(20)):
        Q = _rounded(kernel_at(problem, point._replace(a=point.a * (1.0 + more))))
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return None


def _mixed(problem: Problem, point: Point, P: Array, base: Array, found: Worst) -> tuple[Array, Worst]:
    """The kernel mixed with one that tells less. I is convex in the kernel, so the chord tells how much is needed."""
    limit, share = problem.budget * _KEPT, 0.0
    lowest = worst(base, problem.B).upper
    for _ in range(64):
        needed = (found.upper - limit) / max(found.upper - lowest, 1e-300)
        # at least twice as much as before: what is needed is known to rounding only
        share = min(1.0, max(2.0 * share, share + (1.0 - share) * (1.001 * needed + 2.0**-52)))
        Q = _rounded((1.0 - share) * P + share * base)
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return _rounded(base), worst(base, problem.B)


def _rounded(P: Array) -> Array:
    Q = np.array(P, order="C")
    kernels.whole(view(Q.reshape(-1)), *Q.shape)
    return Q
