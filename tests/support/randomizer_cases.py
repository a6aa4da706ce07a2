"""Randomizer problems of many kinds, and what holds of every solution, worked out another way than the package.

The families are those that break solvers of the distortion-rate problem: ties, huge ranges, tiny
budgets. `violations` looks at one answer: is it a kernel, is the budget kept in 50 digits, does the proof
hold when it is done again, is the status true. The proof is the dual bound at the law r of the pseudo parameter
under the kernel itself and at the slope that the design reports; nothing of the solver's insides is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mpmath
import numpy as np

import understudy as us
from understudy.errors import InfeasibleError

UNIT = 2.0**-53
TOLERANCE = 1e-9  # "optimal" means a gap of this much of what there is above the least possible


class Case(NamedTuple):
    """A cost matrix, a prior and a budget; the optimum where it is known, with the law and slope it has."""

    family: str
    cost: np.ndarray
    prior: np.ndarray
    budget: float
    optimum: float = math.nan
    law: np.ndarray | None = None
    slope: float = math.nan


# --- generators -------------------------------------------------------------------------------------------------------


def exact_case(rng, m, n, idle=0, top_slope=50.0):
    """A problem with a known answer: W[i given j], weights q and a slope make the prior, the costs and the budget.

    p = W q and L = -ln(W) / beta + v_i; idle columns cost s_j more. Then P_ij = q_j W_ij / p_i is optimal.
    """
    W = rng.dirichlet(np.full(m, float(rng.choice([0.3, 1.0, 5.0]))), size=n).T
    W = np.maximum(W, 1e-12)
    W /= W.sum(axis=0)
    q = rng.dirichlet(np.ones(n))
    beta = math.exp(rng.uniform(math.log(0.1), math.log(top_slope)))
    v = rng.random(m) * float(rng.choice([0.0, 1.0, 10.0]))
    p = W @ q
    active = -np.log(W) / beta + v[:, None]
    extra = rng.integers(n, size=idle)
    cost = np.hstack([active, active[:, extra] + rng.random(idle) + 0.01])
    joint = W * q
    budget = math.fsum((joint * np.log(W / p[:, None])).ravel())
    optimum = math.fsum((joint * active).ravel())
    order = rng.permutation(n + idle)
    law = np.concatenate((q, np.zeros(idle)))[order]
    return Case("exact", np.ascontiguousarray(cost[:, order]), p, budget, optimum, law, beta)


def _sizes(rng, most):
    return (int(x) for x in np.minimum(2 + rng.geometric(0.18, size=2), most))


def _prior(rng, m):
    kind = rng.integers(4)
    if kind == 0:
        return np.full(m, 1.0 / m)
    p = rng.dirichlet(np.full(m, (0.3, 1.0, 10.0)[kind - 1])) + 1e-13
    return p / p.sum()


def _points(rng, k):
    return np.linspace(0.0, 1.0, k) if rng.random() < 0.5 else np.sort(rng.random(k))


def _random(rng, m, n):
    return rng.random((m, n)) ** float(rng.choice([0.5, 1.0, 4.0]))


def _squared(rng, m, n):
    return (_points(rng, m)[:, None] - _points(rng, n)) ** 2


def _absolute(rng, m, n):
    return np.abs(_points(rng, m)[:, None] - _points(rng, n))


def _hamming(rng, m, n):
    return 1.0 - np.eye(m, n)


def _erasure(rng, m, n):
    return np.hstack([1e6 * (1.0 - np.eye(m)), np.ones((m, 1))])


def _ties(rng, m, n):
    return rng.integers(0, int(rng.integers(2, 5)), size=(m, n)).astype(float)


def _duplicates(rng, m, n):
    cost = rng.random((m, n))
    return np.ascontiguousarray(cost[:, rng.integers(n, size=n + 2)])


def _ranges(rng, m, n):
    return np.exp(rng.uniform(-24.0, 24.0, size=(m, n)))


def _offsets(rng, m, n):
    return 1e12 * (1.0 if rng.random() < 0.5 else rng.random((m, 1))) + rng.random((m, n))


def _forbidden(rng, m, n):
    cost = rng.random((m, n))
    gone = rng.random((m, n)) < rng.choice([0.2, 0.5])
    gone[np.arange(m), rng.integers(n, size=m)] = False
    cost[gone] = np.inf
    return cost


_COSTS = {
    "random": _random,
    "squared": _squared,
    "absolute": _absolute,
    "Hamming": _hamming,
    "erasure": _erasure,
    "ties": _ties,
    "duplicates": _duplicates,
    "ranges": _ranges,
    "offsets": _offsets,
    "forbidden": _forbidden,
}
FAMILIES = (*_COSTS, "exact", "zero priors", "tiny priors", "tiny budgets", "saturation")


def cheapest_information(cost, p):
    """I when each row draws its cheapest column, the first of them where they tie: saturation, or a little more."""
    P = np.zeros(cost.shape)
    P[np.arange(len(p)), cost.argmin(axis=1)] = 1.0
    r = p @ P
    return max(0.0, -math.fsum((r[r > 0.0] * np.log(r[r > 0.0])).tolist()))


def entropy(p):
    """H of a prior, in nats."""
    return max(0.0, -math.fsum((p[p > 0.0] * np.log(p[p > 0.0])).tolist()))


def random_case(rng, family, most=24):
    """One problem of a family."""
    m, n = _sizes(rng, most)
    if family == "exact":
        return exact_case(rng, m, n, idle=int(rng.integers(0, 4)))
    base = family if family in _COSTS else str(rng.choice(list(_COSTS)[:-1]))
    cost, p = _COSTS[base](rng, m, n), _prior(rng, m)
    share = math.exp(rng.uniform(math.log(1e-4), 0.0))
    if family in ("zero priors", "tiny priors"):
        few = rng.random(m) < 0.4
        few[rng.integers(m)] = False
        p = np.where(few, 0.0, p)
        p = np.where(few, 0.0 if family == "zero priors" else 1e-14, p / p.sum())
        p /= p.sum()
    elif family == "tiny budgets":
        share = 10.0 ** rng.uniform(-9.0, -4.0)
    top = cheapest_information(cost, p)
    if family == "saturation":
        share = 1.0 - 10.0 ** rng.uniform(-6.0, -1.0)
        return Case(family, cost, p, top * share)
    return Case(family, cost, p, share * entropy(p) if rng.random() < 0.5 else share * top)


def cases(seed, count, most=24, first=0):
    """Problems up to number `count`, the families in turn; each from a generator of its own."""
    for k in range(first, count):
        yield random_case(np.random.default_rng([seed, k]), FAMILIES[k % len(FAMILIES)], most)


# --- what holds of every answer, worked out another way --------------------------------------------------------------


def information_50(p, P):
    """I of a kernel in 50 digits: for the prior as it is, and normalised."""
    with mpmath.workdps(50):
        weights = [mpmath.mpf(x) for x in p.tolist()]
        total = mpmath.fsum(weights)
        given = mpmath.mpf(0)
        for column in P.T.tolist():
            pairs = [(w, mpmath.mpf(x)) for w, x in zip(weights, column, strict=True) if w and x]
            r = mpmath.fsum(w * x for w, x in pairs)
            given += mpmath.fsum(w * x * mpmath.log(x / r) for w, x in pairs)
        return given, given / total + mpmath.log(total)


def cost_50(p, P, cost):
    """Expected cost of a kernel in 50 digits, and the least that any kernel has."""
    with mpmath.workdps(50):
        rows = list(zip(p.tolist(), P.tolist(), cost.tolist(), strict=True))
        pairs = ((w, x, c) for w, xs, cs in rows for x, c in zip(xs, cs, strict=True) if w and x)
        least = mpmath.fsum(mpmath.mpf(w) * min(cs) for w, _, cs in rows if w)
        return mpmath.fsum(mpmath.mpf(w) * x * c for w, x, c in pairs), least


def shifted(cost, p):
    """The rows that can occur, each less its cheapest entry: costs above the least possible."""
    there = p > 0.0
    return cost[there] - cost[there].min(axis=1, keepdims=True), p[there]


def dual_bound(cost, p, r, beta, budget):
    """(F - ln max c - I_0) / beta above the least possible cost, in doubles: a bound for any law r and slope beta."""
    L, p = shifted(cost, p)
    E = np.exp(-beta * L)
    z = E @ (r / r.sum())
    if not (z > 0.0).all():
        return -math.inf
    c = (p / z) @ E
    return float((-(p @ np.log(z)) - math.log(c.max()) - budget) / beta)


def best_law(cost, p, beta, start, stop):
    """The law of the pseudo parameter that makes the dual bound at a slope largest: a barrier method in plain numpy.

    Minimises -sum_i p_i ln sum_j q_j E_ij + sum q - t sum ln q for t down to `stop`, by Newton steps in dq / q.
    """
    L, p = shifted(cost, p)
    E = np.exp(-beta * L)
    q = np.maximum(start, 1e-3 / len(start))
    q = q / q.sum()
    t = 1e-2
    while True:
        for _ in range(30):
            A = E * (q / (E @ q)[:, None])
            try:
                step = np.linalg.solve(A.T @ (p[:, None] * A) + t * np.eye(len(q)), p @ A - q + t)
            except np.linalg.LinAlgError:
                return q / q.sum()
            if not abs(step).max() < 1e6:  # rounding has taken over
                return q / q.sum()
            q = q * (1.0 + step * min(1.0, 0.9 / max(-step.min(), 1e-300)))
            if abs(step).max() < 1e-3:
                break
        if t <= stop:
            return q / q.sum()
        t = max(0.1 * t, stop)


def best_dual(case, p, law, slope, excess, goal):
    """Law, slope and value of a dual bound of at least `goal`, or the best found: bisection in the slope.

    At the best law of a slope the bound rises with 1 / beta as KL_q(beta) - I_0 has it, so its sign tells the side.
    """
    found = (law, slope, dual_bound(case.cost, p, law, slope, case.budget))
    low, high, width = 0.0, math.inf, 1e-12
    for _ in range(100):
        law = best_law(case.cost, p, slope, law, max(1e-17, 1e-12 * slope * excess / len(law)))
        bound = dual_bound(case.cost, p, law, slope, case.budget)
        if bound > found[2]:
            found = (law, slope, bound)
        if found[2] >= goal or high - low <= 1e-16 * low:
            break
        L, q = shifted(case.cost, p)
        E = np.exp(-slope * L)
        A = E * (law / (E @ law)[:, None])
        spent = -float(q @ np.log(E @ law)) - slope * float(
            q @ np.multiply(A, L, where=A > 0.0, out=np.zeros_like(A)).sum(axis=1)
        )
        if spent > case.budget:
            high = slope
        else:
            low = slope
        if low > 0.0 and high < math.inf:
            slope = 0.5 * (low + high)
        else:
            slope *= 1.0 + width if high == math.inf else 1.0 - width
            width = min(8.0 * width, 0.5)
    return found


def dual_bound_50(cost, p, r, beta, budget):
    """The same in 50 digits, with the prior normalised; the shift by the cheapest entries is exact too."""
    with mpmath.workdps(50):
        b, weights = mpmath.mpf(beta), [mpmath.mpf(x) for x in p.tolist()]
        total = mpmath.fsum(weights)
        q = [mpmath.mpf(x) for x in r.tolist()]
        one = mpmath.fsum(q)
        F, c = mpmath.mpf(0), [mpmath.mpf(0)] * len(q)
        for w, row in zip(weights, cost.tolist(), strict=True):
            if not w:
                continue
            least = mpmath.mpf(min(row))
            E = [mpmath.exp(-b * (x - least)) if x < math.inf else mpmath.mpf(0) for x in row]
            z = mpmath.fsum(x * e for x, e in zip(q, E, strict=True)) / one
            F -= w / total * mpmath.log(z)
            c = [x + w / total * e / z for x, e in zip(c, E, strict=True)]
        return (F - mpmath.log(max(c)) - mpmath.mpf(budget)) / b


def rounding_allowance(cost, p, beta, excess, budget):
    """What double precision hides of a gap: the errors of F and of ln max c over beta, and of the budget kept."""
    return 16.0 * UNIT * (sum(cost.shape) + 10.0) / beta + 32.0 * UNIT * excess + 2e-14 * budget / beta


def is_kernel(P):
    """Whether the entries are whole numbers of 2^-53, not negative, and each row sums to one exactly."""
    counts = P * 2.0**53
    if not ((counts >= 0.0).all() and (counts == np.floor(counts)).all()):
        return False
    return all(sum(int(x) for x in row) == 2**53 for row in counts.tolist())


class Verdict(NamedTuple):
    """What is wrong with an answer, and its figures: the gap of the proof done again, and over what may be left."""

    wrong: list[str]
    optimal: bool
    gap: float = 0.0
    of_allowed: float = 0.0
    steps: int = 0


def overspent(case, design):
    """Whether the kernel gives away more than the budget in 50 digits, the prior normalised or as it is."""
    given, normalised = information_50(design.prior, design.randomizer.kernel)
    # of a prior whose sum t is off by a rounding, -t ln t = 1e-16 is there whatever is drawn
    return max(normalised, given if case.budget > 1e-12 else 0.0) > max(mpmath.mpf(case.budget), mpmath.mpf(10) ** -45)


def violations(case, design, digits=True):
    """All that is wrong with a design; with `digits` in 50-digit arithmetic too."""
    P, p, cost = design.randomizer.kernel, design.prior, case.cost
    wrong = []
    if not is_kernel(P):
        return Verdict(["invalid kernel"], False, steps=design.iterations)
    if (P[np.isinf(cost) & (p > 0.0)[:, None]] > 0.0).any():
        wrong.append("a forbidden pair is drawn")
    if digits and overspent(case, design):
        wrong.append("overspent")
    if not (design.leakage <= case.budget and design.lower_bound <= design.distortion and design.gap >= 0.0):
        wrong.append("figures out of order")
    used = P > 0.0
    weights = p[:, None] * P
    spent = float(weights[used & (weights > 0.0)] @ cost[used & (weights > 0.0)])
    if not math.isclose(spent, design.distortion, rel_tol=1e-12, abs_tol=1e-300):
        wrong.append("distortion is not that of the kernel")
    L, q = shifted(cost, p)
    drawn = P[p > 0.0] > 0.0
    excess = float((q[:, None] * P[p > 0.0])[drawn] @ L[drawn])
    if not math.isnan(case.optimum) and not (
        design.lower_bound <= case.optimum * (1.0 + 1e-13) + 1e-13 and design.distortion >= case.optimum * (1.0 - 1e-13)
    ):
        wrong.append("bounds do not hold the optimum")
    gap, of_allowed = _proof(case, design, excess, digits)
    if design.status == "optimal" and of_allowed > 1.0:
        wrong.append("not optimal")
    if design.status == "inexact" and design.gap <= TOLERANCE * excess:
        wrong.append("optimal after all")
    return Verdict(wrong, design.status == "optimal", gap, of_allowed, design.iterations)


def _proof(case, design, excess, digits):
    """The relative gap when the proof is done again, and the gap over what "optimal" leaves open."""
    P, p, cost = design.randomizer.kernel, design.prior, case.cost
    if math.isinf(design.slope):
        if case.budget == 0.0:
            with np.errstate(invalid="ignore"):
                constant = (p[p > 0.0] @ shifted(cost, p)[0]).min()
            return 0.0, 0.0 if math.isclose(excess, constant, rel_tol=1e-12) else math.inf
        return 0.0, 0.0 if excess == 0.0 else math.inf
    allowed = rounding_allowance(cost, p, design.slope, excess, case.budget)
    goal = excess - 1e-10 * excess
    law, slope = p @ P, design.slope
    bound = dual_bound(cost, p, law, slope, case.budget)
    if bound < goal:
        # rounding moves the law of a kernel by less than its cost and by more than the bound can bear
        law, slope, bound = best_dual(case, p, law, slope, excess, goal)
    if digits:
        bound = float(dual_bound_50(cost, p, law, slope, case.budget))
    bound = max(bound, 0.0)
    gap = (excess - bound) / excess if excess > 0.0 else 0.0
    return gap, (excess - bound) / (1.1 * TOLERANCE * excess + allowed)


def least_information(cost, p, sweeps=4000):
    """Bounds on the least information of a kernel that avoids forbidden pairs, by Blahut and Arimoto's sweeps."""
    there = p > 0.0
    E, p = np.isfinite(cost[there]).astype(float), p[there]
    q = np.full(E.shape[1], 1.0 / E.shape[1])
    for _ in range(sweeps):
        c = (p / (E @ q)) @ E
        q *= c
    z = E @ q
    c = (p / z) @ E
    F = -float(p @ np.log(z))
    return F - math.log(c.max()), F


def look(case, digits=True):
    """Solve a case and look at the answer; a refusal is looked at too."""
    try:
        design = us.solve(case.cost, prior=case.prior, leakage=case.budget)
    except InfeasibleError:
        least, _ = least_information(case.cost, case.prior)
        wrong = [] if least > case.budget * (1.0 - 1e-6) else ["refused without reason"]
        return Verdict(wrong, True)
    return violations(case, design, digits)
