"""Constrained randomizer problems of many kinds, and what holds of every answer, worked out another way.

`violations` looks at one answer: is it a kernel, is every constraint kept in whole fractions, the budget in 50 digits,
are the figures those of the kernel. The rules are written here anew, with 60-digit exponentials, and use nothing of
the package's constraints but their numbers. `conic` solves the same problem with CVXPY.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import mpmath
import numpy as np
from randomizer_cases import _COSTS, _prior, _sizes, entropy, information_50, is_kernel, shifted

import understudy as us
from understudy.errors import InfeasibleError
from understudy.randomizer import constraints as kinds

# what a problem is asked besides its constraints
DEMANDS = ("nothing", "leakage", "leakage", "error_at_least", "distortion_at_most")
COSTS = tuple(_COSTS)
MEASURES = ("local_dp", "maximal_leakage", "pointwise_leakage", "total_variation", "error_at_least")


class Case(NamedTuple):
    """Costs, a prior, constraints and one demand."""

    family: str
    cost: np.ndarray
    prior: np.ndarray
    constraints: tuple
    demand: dict


# --- generators -------------------------------------------------------------------------------------------------------


def _one(rng, name, m, n, p):
    """A constraint of a kind, from hardly any to very strict."""
    amount = float(np.exp(rng.uniform(math.log(0.02), math.log(1.5))))
    if name == "local_dp":
        return kinds.LocalDP(amount * 2.0)
    if name == "maximal_leakage":
        return kinds.MaximalLeakage(amount)
    if name == "pointwise_leakage":
        return kinds.PointwiseLeakage(amount)
    if name == "total_variation":
        return kinds.TotalVariation(min(1.0, amount))
    if name == "error_at_least":
        return kinds.ErrorAtLeast(float(rng.uniform(0.0, 1.0) * (1.0 - p.max()) * 0.999))
    if name == "floor":
        return kinds.Floor(float(rng.uniform(0.0, 0.9 / n)))
    if name == "forbidden":
        count = int(rng.integers(1, 3))
        return kinds.Forbidden([(int(rng.integers(m)), int(rng.integers(n))) for _ in range(count)])
    return kinds.Same([sorted({int(i) for i in rng.integers(m, size=2)})])


def random_case(rng, family, most=8):
    """One problem whose first constraint is of the kind named."""
    m, n = _sizes(rng, most)
    cost = _COSTS[str(rng.choice(COSTS))](rng, m, n)
    m, n = cost.shape
    p = _prior(rng, m)
    if rng.random() < 0.15:
        p = np.where(np.arange(m) == rng.integers(m), 0.0, p)
        p = p / p.sum()
    names = [family]
    others = [name for name in kinds.KINDS if name != family]
    names += [str(x) for x in rng.choice(others, size=int(rng.integers(0, 3)), replace=False)]
    found = tuple(_one(rng, name, m, n, p) for name in names)
    demand = str(rng.choice(DEMANDS))
    if demand == "leakage":
        return Case(family, cost, p, found, {"leakage": float(rng.uniform(0.02, 1.0)) * max(entropy(p), 1e-6)})
    if demand == "error_at_least":
        return Case(family, cost, p, found, {"error_at_least": float(rng.uniform(0.0, 0.99) * (1.0 - p.max()))})
    if demand == "distortion_at_most":
        finite = np.where(np.isfinite(cost), cost, np.nanmax(np.where(np.isfinite(cost), cost, np.nan)))
        limit = float(p @ finite.mean(axis=1)) * rng.uniform(0.3, 1.0)
        return Case(family, cost, p, found, {"distortion_at_most": limit})
    return Case(family, cost, p, found, {})


def cases(seed, count, most=8, first=0):
    """Problems up to number `count`, the kinds of constraints in turn; each from a generator of its own."""
    names = list(kinds.KINDS)
    for k in range(first, count):
        yield random_case(np.random.default_rng([seed, k]), names[k % len(names)], most)


# --- what holds of every answer, worked out another way --------------------------------------------------------------


def _fractions(p, P):
    """Weights that sum to one, and rows, of the values that can occur."""
    total = sum(Fraction(x) for x in p.tolist())
    rows = [[Fraction(x) for x in row] for row, w in zip(P.tolist(), p.tolist(), strict=True) if w > 0.0]
    return [Fraction(w) / total for w in p.tolist() if w > 0.0], rows


def _below_exponential(x, nats):
    """Whether a fraction is at most e^nats, in 60 digits."""
    with mpmath.workdps(60):
        return mpmath.mpf(x.numerator) / x.denominator <= mpmath.exp(mpmath.mpf(nats))


def broken(one, p, P):
    """Whether a kernel breaks a constraint: its definition, in fractions."""
    weights, rows = _fractions(p, P)
    columns = list(zip(*rows, strict=True))
    if one.name == "local_dp":
        pairs = [(max(x), min(x)) for x in columns if max(x)]
        return not all(low and _below_exponential(high / low, one.epsilon) for high, low in pairs)
    if one.name == "maximal_leakage":
        return not _below_exponential(sum(map(max, columns)), one.nats)
    if one.name == "pointwise_leakage":
        means = [sum(w * y for w, y in zip(weights, x, strict=True)) for x in columns]
        return not all(_below_exponential(max(x) / r, one.nats) for x, r in zip(columns, means, strict=True) if r)
    if one.name == "total_variation":
        apart = [sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2 for a, b in combinations(rows, 2)]
        return max(apart, default=0) > Fraction(one.at_most)
    if one.name == "error_at_least":
        return 1 - sum(max(w * y for w, y in zip(weights, x, strict=True)) for x in columns) < Fraction(one.error)
    every = [[Fraction(x) for x in row] for row in P.tolist()]
    if one.name == "floor":
        return min(map(min, every)) < Fraction(one.at_least)
    if one.name == "forbidden":
        return any(every[i][j] for i, j in one.pairs)
    return any(every[i] != every[group[0]] for group in one.groups for i in group)


class Verdict(NamedTuple):
    """What is wrong with an answer, and its figures."""

    wrong: list
    optimal: bool
    gap: float = 0.0
    refused: bool = False


def violations(case, design):
    """All that is wrong with a design."""
    P, p, cost = design.randomizer.kernel, design.prior, case.cost
    if not is_kernel(P):
        return Verdict(["invalid kernel"], False)
    wrong = [f"{one.name} broken" for one in case.constraints if broken(one, p, P)]
    if (P[np.isinf(cost) & (p > 0.0)[:, None]] > 0.0).any():
        wrong.append("a forbidden pair is drawn")
    if "leakage" in case.demand:
        given, normalised = information_50(p, P)
        budget = mpmath.mpf(case.demand["leakage"])
        if max(normalised, given if budget > 1e-12 else 0.0) > max(budget, mpmath.mpf(10) ** -45):
            wrong.append("overspent")
    if "error_at_least" in case.demand and broken(kinds.ErrorAtLeast(case.demand["error_at_least"]), p, P):
        wrong.append("error broken")
    used = (P > 0.0) & (p > 0.0)[:, None]
    weights = np.broadcast_to(p[:, None], P.shape)
    spent = sum(
        Fraction(w) * Fraction(x) * Fraction(c)
        for w, x, c in zip(weights[used].tolist(), P[used].tolist(), cost[used].tolist(), strict=True)
    )
    if "distortion_at_most" in case.demand and spent > Fraction(case.demand["distortion_at_most"]):
        wrong.append("too dear")
    if not math.isclose(float(spent), design.distortion, rel_tol=1e-12, abs_tol=1e-300):
        wrong.append("distortion is not that of the kernel")
    if not (0.0 <= design.lower_bound <= design.distortion and design.gap >= 0.0):
        wrong.append("figures out of order")
    L, q = shifted(cost, p)
    drawn = P[p > 0.0] > 0.0
    excess = float((q[:, None] * P[p > 0.0])[drawn] @ L[drawn])
    finite = np.where(np.isfinite(L), L, np.nan)
    if design.status == "optimal" and design.gap > 1.1e-7 * excess + 4e-15 * float(q @ np.nanmedian(finite, axis=1)):
        wrong.append("not optimal")
    return Verdict(wrong, design.status == "optimal", design.gap / max(excess, 1e-300))


def look(case):
    """Solve a case and look at the answer; a refusal is told."""
    try:
        design = us.solve(case.cost, prior=case.prior, constraints=case.constraints, **case.demand)
    except InfeasibleError:
        return Verdict([], False, refused=True), None
    return violations(case, design), design


# --- the same problem by CVXPY ----------------------------------------------------------------------------------------


def conic(case, solver=None):
    """The optimum by CVXPY: a distortion, or a leakage where a distortion was asked for; NaN where it gave up.

    Infinite where there is no kernel.
    """
    import cvxpy as cp

    there = case.prior > 0.0
    m, n = case.cost.shape
    P = cp.Variable((m, n), nonneg=True)
    p = case.prior / case.prior.sum()
    Q, w = P[np.flatnonzero(there)], p[there]
    rules = [cp.sum(P, axis=1) == 1]
    gone = np.isinf(case.cost)
    rules += [P[i, j] == 0 for i, j in np.argwhere(gone)]
    asked = [*case.constraints]
    if "error_at_least" in case.demand:
        asked.append(kinds.ErrorAtLeast(case.demand["error_at_least"]))
    for one in asked:
        if one.name == "local_dp":
            low = np.ones((len(w), 1)) @ cp.Variable((1, n))
            rules += [low <= Q, math.exp(one.epsilon) * low >= Q]
        elif one.name == "maximal_leakage":
            rules.append(cp.sum(cp.max(Q, axis=0)) <= math.exp(one.nats))
        elif one.name == "pointwise_leakage":
            rules.append(math.exp(one.nats) * np.outer(np.ones(len(w)), w) @ Q >= Q)
        elif one.name == "total_variation":
            rules += [cp.norm1(Q[i] - Q[k]) <= 2.0 * one.at_most for i, k in combinations(range(len(w)), 2)]
        elif one.name == "error_at_least":
            rules.append(cp.sum(cp.max(cp.multiply(w[:, None], Q), axis=0)) <= 1.0 - one.error)
        elif one.name == "floor":
            rules.append(one.at_least <= P)
        elif one.name == "forbidden":
            rules += [P[i, j] == 0 for i, j in one.pairs]
        elif one.name == "same":
            rules += [P[i] == P[group[0]] for group in one.groups for i in group[1:]]
    cost = cp.sum(cp.multiply(np.where(gone, 0.0, p[:, None] * case.cost), P))
    r = w @ Q
    told = cp.sum(cp.rel_entr(cp.multiply(w[:, None], Q), cp.outer(w, r)))
    goal = cost
    if "leakage" in case.demand:
        rules.append(told <= case.demand["leakage"])
    if "distortion_at_most" in case.demand:
        rules.append(cost <= case.demand["distortion_at_most"])
        goal = told
    problem = cp.Problem(cp.Minimize(goal), rules)
    try:
        problem.solve(solver=solver or cp.CLARABEL)
    except cp.error.SolverError:
        return math.nan
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        return math.inf
    return float(problem.value) if problem.status == "optimal" else math.nan


APART = 2e-6  # how far CVXPY's optimum may be from a bound, relative: that of its own tolerance, and room


def disagreement(case, verdict, design):
    """By how much CVXPY's optimum lies outside the proven bounds; infinite where only one of the two has an answer.

    Zero where both agree, NaN where CVXPY gave up or the costs are too large for it.
    """
    if case.cost[np.isfinite(case.cost)].max() > 1e3:
        return math.nan  # its tolerance is absolute
    optimum = conic(case)
    if math.isnan(optimum):
        return math.nan
    if verdict.refused or optimum == math.inf:
        return 0.0 if verdict.refused and optimum == math.inf else math.inf
    inverse = "distortion_at_most" in case.demand
    lower, upper = design.lower_bound, design.distortion
    if inverse:
        lower, upper = design.leakage_lower_bound, design.leakage
    allowed = APART * max(abs(optimum), 0.05)
    below = max(0.0, lower - optimum - allowed)
    dearer = max(0.0, upper - optimum - 10.0 * allowed) if verdict.optimal else 0.0
    return below + max(0.0, optimum - upper - allowed) + dearer
