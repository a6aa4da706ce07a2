"""The kernel of least cost that keeps a budget over a hull of priors, with its proof.

Around the saddle point (`saddle`) stand the cases in which nothing, or everything, may be told (`robust_ends`); the
mixing that makes a kernel keep its budget to the last bit; and attempts until the gap is closed: from a first start,
then with the kernel itself as the unknown (`direct`), then from other starts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.interior import closed
from understudy.randomizer.priors.direct import direct
from understudy.randomizer.priors.hull import Worst, worst
from understudy.randomizer.priors.robust_ends import (
    KEPT,
    Attempt,
    base_kernel,
    certain,
    cheapest,
    constant,
    costs_of,
    floor,
    prepared,
    rounded,
    units_of,
)
from understudy.randomizer.priors.robust_starts import STARTS, ordinary, starting_point
from understudy.randomizer.priors.saddle import Point, Problem, bound, kernel_at, saddle
from understudy.randomizer.solver import minimise

_IDLE = 1e-9  # of its slack, below which a column is not drawn


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


def robust(cost: Array, B: Array, C: Array, budget: float) -> Robust:
    """The kernel of least cost, at the worst column of C, that tells at most the budget over the hull of B."""
    middle = B.mean(axis=1)
    minimise(cost, middle / middle.sum(), math.inf)  # refuses costs that are none
    there = np.asarray(middle > 0.0)
    problem, scale, offset = prepared(cost[there], B[there], C[there], budget)
    steps = 0
    if budget == 0.0:
        best = constant(problem)
    elif (cheap := cheapest(problem)).found.upper <= budget * KEPT:
        best = cheap
    elif scale == 0.0:
        best = certain(problem, base_kernel(problem))  # what is allowed is free
    else:
        base, tries = base_kernel(problem), list[Attempt]()
        for number, (dearest, factor) in enumerate(STARTS):
            point = saddle(problem, starting_point(problem, dearest, factor))
            steps += point.steps
            tries += _attempts(problem, point, base)
            if number == 0 and not _closed(problem, _best(tries)):
                tries += _head_on(problem, base)
            if _closed(problem, _best(tries)):
                break
        best = _best(tries)
    found = _unscaled(problem, scale or 1.0, cost, there, best)
    upper, lower = offset * (1.0 + 4e-16) + found.upper, offset * (1.0 - 4e-16) + found.lower
    return found._replace(upper=upper, lower=min(lower, upper), steps=steps)


def _unscaled(problem: Problem, f: float, cost: Array, there: NDArray[np.bool_], a: Attempt) -> Robust:
    kernel, prior = np.zeros(cost.shape), np.zeros(len(cost))
    kernel[there], prior[there] = a.P, a.found.prior
    for i in np.flatnonzero(~there):
        kernel[i, int(cost[i].argmin())] = 1.0  # never drawn: the value occurs at no odds of the hull
    prior.flags.writeable = False
    gap, excess = max(0.0, a.upper - a.lower), max(0.0, a.upper - floor(problem))
    return Robust(
        kernel, f * a.upper, f * min(a.lower, a.upper), f * gap, f * excess, f * a.rounding,
        a.found._replace(prior=prior), a.weights, f * a.price, 0,
    )  # fmt: skip


# Attempts --------------------------------------------------------------------------------------------


def _attempts(problem: Problem, point: Point, base: Array) -> list[Attempt]:
    """What a saddle point comes to; and, if that leaves a gap, the ordinary optimum at its odds."""
    weights, price = point.h / math.fsum(point.h), math.fsum(point.a)
    few = _pruned(problem, point)
    lower, rounding = max(bound(problem, point), bound(problem, few))
    units, tries = units_of(problem), list[Attempt]()
    for each in (few, point):
        P, found = _within(problem, each, base)
        upper = float(costs_of(problem, P).max()) * (1.0 + units)
        tries.append(Attempt(P, found, upper, max(lower, floor(problem)), rounding, weights, price))
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
    told = worst(other.kernel, problem.B, point.a, problem.budget * KEPT)
    if told.upper <= problem.budget * KEPT:
        upper = float(costs_of(problem, other.kernel).max()) * (1.0 + units)
        second = second._replace(P=other.kernel, found=told, upper=upper)
    return [first, second]


def _head_on(problem: Problem, base: Array) -> list[Attempt]:
    """What the kernel comes to that is found as such; and the one to begin with, which nothing may be worse than."""
    found, units = direct(problem, base), units_of(problem)
    tries = [] if found is None else [found[0], _cleared(problem, found[0])]
    q = np.full(problem.L.shape[1], 1.0 / problem.L.shape[1])
    # without a point the bound is that no kernel goes below, whatever it tells
    point = Point(q, np.zeros(problem.B.shape[1]), np.ones(problem.C.shape[1])) if found is None else found[1]
    lower, rounding = bound(problem, point)
    made = []
    for P in (*tries, base):
        Q = rounded(P / P.sum(axis=1, keepdims=True))
        told = worst(Q, problem.B, None, problem.budget * KEPT)
        if told.upper > problem.budget * KEPT:
            Q, told = _mixed(problem, point, Q, base, told)
        upper = float(costs_of(problem, Q).max()) * (1.0 + units)
        lowest, most = max(lower, floor(problem)), max(rounding, units * upper)
        made.append(Attempt(Q, told, upper, lowest, most, point.h / math.fsum(point.h), math.fsum(point.a)))
    return made


def _cleared(problem: Problem, P: Array) -> Array:
    """Only what is cheapest in rows of the corner that costs most, whatever is told: there no pair is rare but idle."""
    floors = problem.C.T @ problem.least
    rows = problem.C[:, floors >= floors.max() * (1.0 - 1e-15)].max(axis=1) > 0.0
    Q = np.where(rows[:, None] & (problem.L > 0.0), 0.0, P)
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def _best(tries: list[Attempt]) -> Attempt:
    """The cheapest kernel of all, with the best of all bounds."""
    low, best = max(tries, key=lambda a: a.lower), min(tries, key=lambda a: a.upper)
    return best._replace(lower=min(low.lower, best.upper), rounding=low.rounding, weights=low.weights, price=low.price)


def _closed(problem: Problem, a: Attempt) -> bool:
    excess = max(0.0, a.upper - floor(problem))
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
    Q = rounded(P)
    limit = problem.budget * KEPT
    found = worst(Q, problem.B, point.a, limit)
    if found.upper <= limit:
        return Q, found
    mixed = _mixed(problem, point, P, base, found)
    least, spent = float(costs_of(problem, Q).max()), float(costs_of(problem, mixed[0]).max())
    if spent - least <= 1e-11 * (least - floor(problem)):
        return mixed  # as good as free
    dearer = _dearer(problem, point)
    if dearer is None:
        return mixed
    return min(mixed, dearer, key=lambda one: float(costs_of(problem, one[0]).max()))


def _dearer(problem: Problem, point: Point) -> tuple[Array, Worst] | None:
    """The kernel at a higher price of leakage, as little as will do."""
    limit = problem.budget * KEPT
    for more in (4.0**k * 1e-16 for k in range(20)):
        Q = rounded(kernel_at(problem, point._replace(a=point.a * (1.0 + more))))
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return None


def _mixed(problem: Problem, point: Point, P: Array, base: Array, found: Worst) -> tuple[Array, Worst]:
    """The kernel mixed with one that tells less. I is convex in the kernel, so the chord tells how much is needed."""
    limit, share = problem.budget * KEPT, 0.0
    lowest = worst(base, problem.B).upper
    for _ in range(64):
        needed = (found.upper - limit) / max(found.upper - lowest, 1e-300)
        # at least twice as much as before: what is needed is known to rounding only
        share = min(1.0, max(2.0 * share, share + (1.0 - share) * (1.001 * needed + 2.0**-52)))
        Q = rounded((1.0 - share) * P + share * base)
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return rounded(base), worst(base, problem.B)
