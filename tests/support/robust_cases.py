"""Problems of a budget over a hull of priors, and what holds of every answer, worked out another way.

The costs and odds are those of `randomizer_cases`, the corners lie around them; or the corners are of certain values
alone, or have zeros, and the worst of them weigh the cost, which leaves rows free that no odds ask for. `look` checks
an answer without the solver's insides: the kernel, the budget at odds drawn from the hull, and optimality by the saddle
property: the *ordinary* problem at the worst odds, with costs weighed by the stated ones, must cost as much. Where the
worst odds weigh, the answer may not be dearer than the best kernel that tells nothing (a linear program), nor than the
answer at a fifth of the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from randomizer_cases import cases, information_50, is_kernel
from scipy.optimize import linprog

import understudy as us
from understudy.errors import InfeasibleError
from understudy.models.model import Residual
from understudy.randomizer.priors import solve_robust


class RobustCase(NamedTuple):
    """Costs, corners (or "all"), the odds that weigh the cost (None, "worst" or odds) and a budget."""

    family: str
    cost: np.ndarray
    priors: np.ndarray | str
    prior: object
    budget: float


class Approximate:
    """A Gauss-Markov model that says it is off by so much a reading."""

    def __init__(self, model, nats):
        self.gauss_markov, self.nats, self.dim = model, nats, model.dim
        self.start, self.predict, self.update, self.skip = model.start, model.predict, model.update, model.skip

    def residual(self, T, *, sequences=16, rng=None):
        return Residual(self.nats * T, 0.0, T, "made up")


class RobustVerdict(NamedTuple):
    """What is wrong with an answer, whether it is proven optimal, and its relative gap."""

    wrong: list[str]
    optimal: bool
    gap: float
    refused: bool = False


def robust_cases(seed, count, most=10, first=0):
    """Problems up to number `count` of all the families, corners near the odds of each, or far from them."""
    for k, case in enumerate(cases(seed, count, most, first), first):
        rng = np.random.default_rng([seed, 100, k])
        corners = case.prior * np.exp(
            rng.normal(size=(int(rng.integers(1, 5)), len(case.prior))) * rng.choice([0.1, 1.0, 3.0])
        )
        corners /= corners.sum(axis=1, keepdims=True)
        prior = (None, "worst", case.prior)[k % 3]
        if k % 8 in (3, 7):  # 8 and the number of families have no common factor, so all costs come up
            yield _bare_corners(rng, case, k % 16)
            continue
        yield RobustCase(case.family, case.cost, corners if k % 6 else "all", prior, case.budget)


def _bare_corners(rng, case, kind):
    """Corners that are certain of a value, some or all of them, or that have zeros; the worst of them weigh."""
    m, cost = len(case.prior), case.cost
    if kind == 3:
        # rows whose columns cost alike, as a row between two others has
        middle = rng.integers(m)
        allowed = cost[middle][np.isfinite(cost[middle])]
        cost = cost.copy()
        cost[middle] = allowed.mean() if rng.random() < 0.5 else cost[middle]
        return RobustCase("one-hot corners", cost, "all", "worst", case.budget)
    if kind == 7:
        order = rng.permutation(m)[: int(rng.integers(1, m + 1))]
        return RobustCase("one-hot corners", cost, np.eye(m)[order], "worst", case.budget)
    corners = rng.dirichlet(np.full(m, float(rng.choice([0.3, 1.0]))), size=int(rng.integers(2, 6))) + 1e-9
    corners[rng.random(corners.shape) < rng.choice([0.3, 0.6])] = 0.0
    corners[np.arange(len(corners)), rng.integers(m, size=len(corners))] += 0.1
    return RobustCase("corners with zeros", cost, corners / corners.sum(axis=1, keepdims=True), "worst", case.budget)


def constant(cost, corners):
    """The largest cost over the corners of the best kernel that tells nothing, as a linear program finds it."""
    free = np.isfinite(cost[corners.max(axis=0) > 0.0]).all(axis=0)
    if not free.any():
        return np.inf
    game = corners @ np.where(corners.max(axis=0)[:, None] > 0.0, cost, 0.0)[:, free]
    offset, span = float(game.min()), float(game.max() - game.min()) or 1.0
    n = game.shape[1]
    found = linprog(
        np.eye(n + 1)[n], np.column_stack(((game - offset) / span, -np.ones(len(game)))), np.zeros(len(game)),
        np.append(np.ones(n), 0.0)[None, :], [1.0],
    )  # fmt: skip
    law = np.maximum(found.x[:n], 0.0)
    return float((game @ (law / law.sum())).max())


def mixtures(priors, count, rng):
    """Odds drawn from the hull: the corners, the middle, and random mixtures, some of them close to an edge."""
    K = len(priors)
    weights = rng.dirichlet(np.full(K, 0.3), size=count // 2).tolist() + rng.dirichlet(np.ones(K), size=count).tolist()
    return np.concatenate((priors, priors.mean(axis=0)[None, :], np.array(weights) @ priors))


def mutual(p, P):
    """I(p, P) in plain numpy, and no more exact than that."""
    r = p @ P
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(P > 0.0, P * (np.log(P) - np.log(np.where(r > 0.0, r, 1.0))), 0.0)
    return float(p @ terms.sum(axis=1))


def ordinary(found, budget):
    """What the ordinary problem costs at the worst odds, or at least, costs weighed as in the design; None if none."""
    p, w = found.worst_prior, found.prior
    if not (p[w > 0.0] > 1e-9).all():
        return None
    there = p > 0.0
    lowest = found.cost[there].min(axis=1)
    ratio = (w[there] / p[there])[:, None]
    with np.errstate(invalid="ignore"):
        cost = np.where(
            np.isinf(found.cost[there]),
            np.inf,
            np.where(ratio > 0.0, ratio * (found.cost[there] - lowest[:, None]), 0.0),
        )
    q = p[there] / p[there].sum()
    design = us.solve(cost, prior=q, leakage=budget)
    return float(w[there] @ lowest) + (design.distortion if design.status == "optimal" else design.lower_bound)


def _dearer(case, found):
    """Whether a kernel that tells nothing, or a fifth of the budget, does better."""
    allowed = found.distortion * (1.0 - 1e-9)
    wrong = ["dearer than a constant"] if constant(case.cost, found.priors) < allowed - 1e-12 else []
    try:
        less = solve_robust(case.cost, case.priors, leakage=0.2 * case.budget, prior="worst")
    except InfeasibleError:
        return wrong
    return [*wrong, "dearer than with less to tell"] if less.distortion < allowed else wrong


def look(case, rng, digits=0):
    """Solve a case and look at the answer."""
    try:
        found = solve_robust(case.cost, case.priors, leakage=case.budget, prior=case.prior)
    except InfeasibleError:
        needed = np.isfinite(case.cost).all(axis=0).any()
        return RobustVerdict(["refused without reason"] if needed else [], True, 0.0, True)
    P, wrong = found.randomizer.kernel, []
    if not is_kernel(P):
        return RobustVerdict(["invalid kernel"], False, 0.0)
    odds = mixtures(found.priors, 40, rng)
    if any(mutual(p, P) > case.budget + 1e-12 for p in odds) or found.worst_leakage > case.budget:
        wrong.append("overspent")
    for p in (found.worst_prior, *odds[:2])[:digits]:
        if information_50(p, P)[1] > case.budget * (1.0 + 1e-15) + 1e-45:
            wrong.append("overspent in 50 digits")
    weights = found.prior[:, None] * P
    used = weights > 0.0
    spent = float(weights[used] @ found.cost[used])
    if not np.isclose(spent, found.distortion, rtol=1e-9, atol=1e-300) and not isinstance(case.prior, str):
        wrong.append("distortion is not that of the kernel")
    if not found.lower_bound <= found.distortion:
        wrong.append("bounds out of order")
    least = float(found.prior @ np.where(found.prior > 0.0, found.cost.min(axis=1), 0.0))
    excess = max(found.distortion - least, 0.0)
    beside = ordinary(found, case.budget) if found.status == "optimal" and excess > 1e-9 * found.distortion else None
    if beside is not None and beside > found.distortion + 1e-7 * excess:
        wrong.append("cheaper than a relaxation")
    if isinstance(case.prior, str):
        wrong += _dearer(case, found)
    return RobustVerdict(
        wrong, found.status == "optimal", found.gap / excess if excess > 1e-9 * found.distortion else 0.0
    )
