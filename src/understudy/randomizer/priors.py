"""Priors that are not known, and priors that a public clock tells.

**A hull.** The leakage I(p, P) is concave in the prior p. A randomizer that keeps its budget at two priors may break it
between them: [[.8, .2], [.2, .8]] leaks 0.039 nats at a prior of 95 to 5 percent, either way round, and 0.193 in the
middle. `design_robust` keeps the budget at *every* mixture of the priors that are given, or at any prior at all
(`priors="all"`, the capacity). `worst_prior` finds the prior of a hull at which a kernel leaks most, with a bound that
is proven.

The kernel of least cost with I(p, P) <= I_0 for every p in the hull of the columns of B is a saddle point, since the
information is concave in p and convex in P. With s = B a, a >= 0 (the worst prior times a price of leakage), w = C h
(the prior that weighs the cost: one column, or the worst of several) and q a law of the draw::

    optimum = max over a, h of min over q of  sum_i w_i least_i - sum_i s_i ln z_i - |s| I_0
    z_i = sum_j q_j exp(-w_i L_ij / s_i),      P_ij = q_j exp(-w_i L_ij / s_i) / z_i

where L is the cost above the least of its row. The function is concave in (a, h), convex in q, and smooth. One
primal-dual interior-point method (`saddle`) finds the worst prior, the price and the kernel together. Nothing rests on
the method having arrived: any point (q, a, h) proves a lower bound (`bound`), and the kernel is mixed with one that
leaks less until its proven leakage over the hull is within the budget. A file stores the point, so that loading proves
the bound again and solves nothing.

**A clock.** The time is public, and it is informative about Theta. With p_s = Pr(Theta given clock s), a kernel P_s for
each s, and weights pi_s for the share of draws made at s, `design_conditional` minimises the mean distortion subject
to ::

    I(Theta; ~Theta given clock) = sum_s pi_s I(p_s, P_s) <= I_0

At the optimum the curves D_s(I) of all s have the same slope: nothing is gained by moving leakage from one time to
another. The tangents of the curves at this slope add up to the proof. The split "same leakage" bounds the leakage at
each s instead. The information of the clock itself, I(Theta; clock), is not protected by any randomizer, and is
reported.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Mask, Plain, Progress, Seed, Value
from understudy.distortion.costs import Costs, costs
from understudy.distortion.measures import Function
from understudy.errors import ConfigurationError, DesignError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.randomizer.design import (
    FIELDS,
    Design,
    Randomizer,
    agree,
    shared_parts,
    solve_demand,
    stored_charge,
    stored_demand,
    stored_randomizer,
    stored_share,
    stored_terms,
    total,
    with_terms,
)
from understudy.randomizer.measures import (
    _divergences,
    _interior_step,
    bayes_error,
    capacity,
    check_kernel,
    entropy,
    mutual_information,
    prior_error,
    step_room,
)
from understudy.randomizer.residual import Charge, charge
from understudy.randomizer.solver import (
    Workspace,
    as_cost,
    as_prior,
    at_slope,
    information,
    is_closed,
    kernels,
    least_information,
    minimise,
    nats,
    view,
)
from understudy.serialize import matrix_from_plain, number_from_plain, value_from_plain
from understudy.stream.engine import DESIGN_PRIOR
from understudy.stream.release import Terms
from understudy.transform.core import as_share

# The worst prior of a hull ---------------------------------------------------------------------------

_EPS = float(np.finfo(float).eps)
_STEPS = 150
_LEAST = 1e-100  # weight that every corner keeps, so that no draw of its values is overlooked


class Worst(NamedTuple):
    """The largest leakage over a hull, at most `upper` and at least `lower`, and the prior that reaches `lower`."""

    upper: float
    lower: float
    prior: Array
    mixture: Array  # of the corners


def worst_prior(kernel: ArrayLike, priors: ArrayLike | str) -> Worst:
    """The prior in the convex hull of `priors` at which a kernel gives away most, and how much that is.

    Parameters
    ----------
    kernel : array_like, shape (m, n)
        A randomizer, rows sum to one.
    priors : array_like, shape (K, m), or "all"
        The corners of the hull; "all" is any prior, and the leakage then the capacity.

    Returns
    -------
    Worst
        Bounds on the largest leakage, in nats, and the prior that reaches the lower one.

    Examples
    --------
    >>> found = worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.05, 0.95]])
    >>> round(found.upper, 6), found.prior.round(6).tolist()
    (0.192745, [0.5, 0.5])
    >>> round(worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.9, 0.1]]).upper, 6)
    0.072654

    """
    P = check_kernel(kernel)
    return worst(P, as_corners(priors, len(P)))


def as_corners(priors: ArrayLike | str, m: int) -> Array:
    """Priors (K, m) as the columns of a matrix (m, K)."""
    if isinstance(priors, str):
        if priors != "all":
            raise DesignError(f"priors = {priors!r}; they must be several priors, or 'all' for any odds")
        return np.eye(m)
    if not isinstance(priors, Iterable):
        raise DesignError(f"priors is a {type(priors).__name__}; it must hold several priors, or be 'all'")
    rows = [_prior_at(k, prior, m) for k, prior in enumerate(priors)]
    if not rows:
        raise DesignError("priors is empty; there must be at least one")
    return np.ascontiguousarray(np.stack(rows, axis=1))


def _prior_at(key: Hashable, prior: ArrayLike, m: int) -> Array:
    try:
        return as_prior(prior, m)
    except DesignError as error:
        raise DesignError(f"priors[{key!r}]: {error}") from error


def worst(P: Array, B: Array, limit: float = -1.0) -> Worst:
    """The largest I(B a, P) over mixtures a of the columns of B; P is (m, n), B is (m, K).

    For every law r of the draw I(p, P) <= sum_i p_i KL(P_i || r). The right side is linear in p, so that its largest
    value over the hull is at a corner; at the worst prior, with r the law of the draw under it, the two meet. With a
    `limit` the search ends once it is known whether the leakage is within that.
    """
    K = B.shape[1]
    units = 2.0 * (K + len(P)) * _EPS  # sums of K and m terms, each rounded
    M = B.T @ P
    there = B.max(axis=1) > 0.0
    rows, corners = P[there], B[there]
    a = best = np.full(K, 1.0 / K)
    upper, lower, slack, stalled = math.inf, -1.0, np.empty(0), 0
    for _ in range(_STEPS):
        p = corners @ a
        divergences, r, _ = _divergences(p / p.sum(), rows)
        D = corners.T @ divergences
        value = math.fsum(a * D)
        better = value > lower * (1.0 + 1e-15) or D.max() < upper * (1.0 - 1e-15)
        stalled = 0 if better else stalled + 1
        upper = min(upper, float(D.max()))
        if value > lower:
            lower, best = value, a
        decided = limit >= 0.0 and (upper * (1.0 + units) <= limit or lower > limit)
        if decided or upper - lower <= 1e-15 * upper or K == 1 or stalled > 3:
            break
        # the first slacks are such that none is close to zero
        slack = slack if slack.size else 2.0 * D.max() - D
        if float(a @ slack) < _EPS * upper:  # what is left is rounding
            break
        used = r > 0.0
        try:
            a, slack = _interior_step(a, slack, D, (M - a @ M)[:, used], r[used])
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(a).all():
            break
        a = np.maximum(a, _LEAST)
    mixed = B @ best
    mixed.flags.writeable = best.flags.writeable = False
    return Worst(upper * (1.0 + units), min(lower, upper), mixed, best)


# The saddle point ------------------------------------------------------------------------------------

_ROUNDOFF = 2.0**-53
_TARGET = 1e-13  # of the cost above the least possible
_TO_THE_EDGE = 0.995
_FAR = 1e280  # an exponent that is as good as infinite, and yet the smallest of a row


class Problem(NamedTuple):
    """Costs above the least of each row, infinite where forbidden; that least; corners of the priors; the budget."""

    L: Array  # (m, n)
    least: Array  # (m,)
    B: Array  # (m, K): the budget holds for the hull of these
    C: Array  # (m, J): the cost is the largest of these
    budget: float

    @property
    def limit(self) -> float:
        """The budget, less what rounding may add."""
        return self.budget * (1.0 - 4e-15)

    @property
    def units(self) -> float:
        """What the sums over a kernel are off by at most, relatively."""
        return (sum(self.L.shape) + 8) * _ROUNDOFF

    @property
    def floors(self) -> Array:
        """What every kernel costs at each corner at least, whatever it leaks."""
        return np.asarray(self.C.T @ self.least)

    @property
    def floor(self) -> float:
        """A cost that no kernel goes below, rounded down."""
        return float(self.floors.max()) * (1.0 - self.units)

    def costs(self, P: Array) -> Array:
        """The cost of a kernel at each corner."""
        means = (P * np.where(P > 0.0, self.L, 0.0)).sum(axis=1)
        return np.asarray(self.C.T @ (self.least + means))


class Point(NamedTuple):
    """A law of the draw, prices of the corners of the budget, weights of the corners of the cost; steps taken."""

    q: Array
    a: Array
    h: Array
    steps: int = 0


class _Values(NamedTuple):
    """All that a step needs of one point."""

    s: Array
    w: Array
    A: Array  # P_ij = q_j A_ij
    deviation: Array  # L_ij - mean_i where allowed
    variance: Array
    excess: float  # the cost above the least possible
    slopes: Array  # in q, minus those in a, minus those in h


def saddle(problem: Problem, start: Point) -> Point:
    """The saddle point, as close as a primal-dual interior-point method comes.

    With x = (q, a, h) >= 0 and t the level of the cost, the slack of the conditions is the slope in q, minus the slope
    in a, and t minus the slope in h. The multipliers z of x >= 0 are to be equal to it, and x z to zero.
    """
    n, K = start.q.size, start.a.size
    x = np.concatenate(start[:3])
    with np.errstate(all="ignore"):  # what is not finite is noticed
        now = _values(problem, x)
        level = np.arange(x.size) >= n + K  # entries of h
        t = float(-now.slopes[level].min())
        z = np.maximum(now.slopes + t * level, 0.0) + 0.1 / x
        centring, best, nearest, stalled = 0.2, x, math.inf, 0
        for steps in range(1, _STEPS + 1):  # noqa: B007 - counts what was needed
            gap = float(x @ z)
            off = _residual(now, x, x, z, t, level)
            stalled = 0 if gap + off < nearest else stalled + 1
            if gap + off < nearest:
                best, nearest = x, gap + off
            target = _TARGET * min(1.0, now.excess)
            if gap + off <= target or stalled > 12:
                break
            mu = max(centring * gap, 1e-3 * target) / x.size
            direction = _direction(problem, now, x, z, t, mu)
            if direction is None:
                break
            dx, dz, dt = x * direction[:-1], mu / x - z - z * direction[:-1], float(direction[-1])
            length = min(1.0, _TO_THE_EDGE * min(step_room(x, dx), step_room(z, dz)))
            for _ in range(12):
                new, multipliers, moved = x + length * dx, z + length * dz, t + length * dt
                then = _values(problem, new)
                # the step may not leave the neighbourhood of the path: residuals, weighed as before, fall with the gap
                after = _residual(then, x, new, multipliers, moved, level)
                if after <= max((1.0 - 0.01 * length) * off, 10.0 * float(new @ multipliers)) and math.isfinite(after):
                    break
                length /= 2.0
            x, z, t, now = new, multipliers, moved, then
            centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return Point(best[:n], best[n : n + K], best[n + K :], steps)


def _values(problem: Problem, x: Array) -> _Values:
    L, least, B, C, budget = problem
    n, K = L.shape[1], B.shape[1]
    q, s, w = x[:n], B @ x[n : n + K], C @ x[n + K :]
    allowed = np.isfinite(L)
    costs = np.where(allowed, L, 0.0)
    ratio = w / s
    E = np.exp(-np.where(allowed, ratio[:, None] * costs, math.inf))
    z = E @ q
    A = E / z[:, None]
    P = A * q
    mean = (P * costs).sum(axis=1)
    deviation = np.where(allowed, costs - mean[:, None], 0.0)
    variance = (P * deviation**2).sum(axis=1)
    # KL(P_i || q) - I_0: what is left of the budget
    leaked = -np.log(z) - ratio * mean + (float(q.sum()) - 1.0 - budget)
    slopes = np.concatenate((float(s.sum()) - s @ A, -(B.T @ leaked), -(C.T @ (least + mean))))
    return _Values(s, w, A, deviation, variance, float(w @ mean), slopes)


def _residual(now: _Values, weights: Array, x: Array, z: Array, t: float, level: Mask) -> float:
    """How far the conditions are from being met, each weighed by its variable."""
    off = np.abs(weights * (now.slopes + t * level - z)).sum()
    return float(off + abs(x[level].sum() - 1.0))


def _direction(problem: Problem, now: _Values, x: Array, z: Array, t: float, mu: float) -> Array | None:
    """Newton's step for the conditions with complementarities of mu, relative to the variables."""
    n, K = problem.L.shape[1], problem.B.shape[1]
    q, a, h = x[:n], x[n : n + K], x[n + K :]
    s, A, ratio, v = now.s, now.A, now.w / now.s, now.variance / now.s
    U, W = problem.B * a, problem.C * h
    # Phi_qq = A' diag(s) A, Phi_qs = 1 - A (1 + w/s (L - mean)), Phi_qw = A (L - mean); scaled by q, a, h
    root = np.sqrt(s)[:, None] * A * q
    qa = (q * (1.0 - A * (1.0 + ratio[:, None] * now.deviation))).T @ U
    qh = (q * (A * now.deviation)).T @ W
    # Phi_ss = -w^2 var / s^3, Phi_sw = w var / s^2, Phi_ww = -var / s
    aa, ah, hh = -(U.T @ ((v * ratio**2)[:, None] * U)), U.T @ ((v * ratio)[:, None] * W), -(W.T @ (v[:, None] * W))
    none = np.zeros((n + K, 1))
    G = np.block([[root.T @ root, qa, qh], [qa.T, aa, ah], [qh.T, ah.T, hh]])
    sign = np.where(np.arange(x.size) < n, 1.0, -1.0)
    G[np.arange(x.size), np.arange(x.size)] += sign * x * z
    edge = np.concatenate((none, -h[:, None]))
    G = np.block([[G, edge], [edge.T, np.zeros((1, 1))]])
    slack = now.slopes + t * (np.arange(x.size) >= n + K)
    right = np.concatenate((sign * (mu - x * slack), [float(h.sum()) - 1.0]))
    try:
        found = np.asarray(np.linalg.solve(G, right), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found).all() else None


def kernel_at(problem: Problem, point: Point) -> Array:
    """P_ij = q_j exp(-w_i L_ij / s_i) / z_i: the kernel of a point."""
    x = np.where(point.q > 0.0, _exponents(problem, point), math.inf)
    weights = point.q * np.exp(-(x - x.min(axis=1, keepdims=True)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bound(problem: Problem, point: Point) -> tuple[float, float]:
    """A cost that no kernel within the budget goes below, and how much of it rounding took.

    For every q, with s and w as they stand: the least over all q' of -sum s_i ln z_i(q') is at least
    -sum s_i ln z_i(q) - |s| ln max_j c_j, where c_j = sum_i s_i exp(-w_i L_ij / s_i) / z_i / |s|.
    """
    L, least, B, C, budget = problem
    s, w, q = B @ point.a, C @ (point.h / math.fsum(point.h)), point.q / math.fsum(point.q)
    total = math.fsum(s)
    floor = math.fsum(w * least)
    if budget == 0.0:  # nothing may leak: one column for all
        free = np.isfinite(L).all(axis=0)
        found = floor + float((w @ L[:, free]).min(initial=math.inf))
        return found * (1.0 - problem.units), 2.0 * problem.units * found
    if not total > 0.0:
        return floor, 8.0 * len(s) * _ROUNDOFF * floor
    x = _exponents(problem, point)
    with np.errstate(over="ignore"):
        E = np.exp(-x)
    z = E @ q
    used = s > 0.0
    if not (z[used] > 0.0).all():
        return floor, 0.0
    A = E[used] / z[used, None]
    share = s[used] / total
    c = share @ A
    F = -math.fsum(s[used] * np.log(z[used]))
    found = floor + F - total * (math.log(max(float(c.max()), 1.0)) + budget)
    # exponents are off by a few roundings each, sums by one for each term
    finite = np.where(np.isfinite(x[used]), x[used], 0.0)
    spread = float((share @ (A * finite)).max()) + float((s[used, None] * q * A * finite).sum()) / total
    sums = len(s) + len(q) + 16.0
    rounding = 4.0 * _ROUNDOFF * (total * (sums * (1.0 + budget) + 2.0 * spread) + sums * (floor + abs(F)))
    return found - rounding, rounding


def _exponents(problem: Problem, point: Point) -> Array:
    """w_i L_ij / s_i; infinite where a pair is forbidden, or costs anything in a row that no price is on."""
    s, w = problem.B @ point.a, problem.C @ (point.h / math.fsum(point.h))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(w > 0.0, w / s, 0.0)[:, None]
        x = np.where(problem.L > 0.0, np.minimum(ratio * problem.L, _FAR), 0.0)
    return np.where(np.isinf(problem.L), math.inf, x)


# Kernels within the budget, with their proof ---------------------------------------------------------

_LEAST_TRIES = 60
_PRICES = (1.0, 30.0, 0.1, 1e3)  # where searches start, in units of the price at the mean of the priors


class Attempt(NamedTuple):
    """A kernel of the rows that occur, in whole numbers of 2^-53, its leakage, its cost, and a proven bound; scaled."""

    P: Array
    worst: Worst
    upper: float
    lower: float
    rounding: float
    point: Point  # that proves the bound
    steps: int = 0


def prepare(cost: Array, B: Array, C: Array, budget: float) -> tuple[Problem, float, float]:
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


def certify(problem: Problem, P: Array, point: Point) -> Attempt:
    """What a kernel costs and leaks, and the lower bound that a point proves."""
    Q = round_kernel(P)
    upper = float(problem.costs(Q).max()) * (1.0 + problem.units)
    lower, rounding = bound(problem, point)
    rounding = max(rounding, 2.0 * problem.units * upper)
    return Attempt(Q, worst(Q, problem.B), upper, max(lower, problem.floor), rounding, point)


def constant(problem: Problem) -> Attempt:
    """The best kernel that leaks nothing: one column, or where several priors weigh, the best mixture of columns."""
    free = np.flatnonzero(np.isfinite(problem.L).all(axis=0))
    if not free.size:
        raise InfeasibleError(
            f"leakage = {problem.budget!r} nats; the forbidden pairs (infinite costs) allow no column to all values, "
            "so something must be told"
        )
    costs = problem.C.T @ (problem.least[:, None] + problem.L[:, free])  # (corners, columns)
    weights, laws = np.ones(1), [np.eye(free.size)[int(costs.max(axis=0).argmin())]]
    if len(costs) > 1:
        # a game: the draw of a column against the prior that makes it dear
        weights, mixture = _game(costs)
        laws.append(mixture)
    tries = []
    for law in laws:
        q = np.zeros(problem.L.shape[1])
        q[free] = law
        tries.append(certify(problem, np.tile(q, (len(problem.L), 1)), Point(q, np.zeros(problem.B.shape[1]), weights)))
    return min(tries, key=lambda one: one.upper)


def _game(costs: Array) -> tuple[Array, Array]:
    """The mixtures of rows and of columns that solve the game of this matrix: rows maximise, columns minimise."""
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
        return np.full(k, 1.0 / k), np.full(n, 1.0 / n)  # the gap will show it
    law, weights = np.maximum(result.x[:n], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return weights / weights.sum(), law / law.sum()


def _least_information(allowed: Mask, p: Array) -> tuple[Array, float]:
    """The kernel on the allowed pairs that leaks least at a prior, and how much that is."""
    m, n = allowed.shape
    flat, least = Workspace(m, n, p / p.sum(), np.zeros(m * n)).least_information(allowed.ravel())  # type: ignore[arg-type]  # a mask will do
    return flat.reshape(m, n), least


def base_kernel(problem: Problem) -> Array:
    """A kernel that leaks less than the budget, to mix with."""
    allowed = np.isfinite(problem.L)
    if allowed.all(axis=0).any():
        return constant(problem).P
    # the prior moves towards the one at which the least that must be leaked is most
    K, limit = problem.B.shape[1], problem.budget
    a, needed, leaked = np.full(K, 1.0 / K), 0.0, math.inf
    best = np.empty(allowed.shape)
    for k in range(_LEAST_TRIES):
        P, least = _least_information(allowed, np.maximum(problem.B @ a, 1e-12))
        needed = max(needed, least)
        found = worst(P, problem.B)
        if found.upper < leaked:
            best, leaked = P, found.upper
        if needed > limit or leaked <= limit * (1.0 - 1e-6) or K == 1:
            break
        a = a + (found.mixture - a) * (2.0 / (k + 3.0))
    if needed > limit or leaked > problem.limit:
        raise InfeasibleError(
            f"leakage = {limit!r} nats; at the worst odds the forbidden pairs (infinite costs) need at least "
            f"{needed:.6g} nats, and {leaked:.6g} are enough"
        )
    return best


def round_kernel(P: Array) -> Array:
    """The kernel as it is drawn, in whole numbers of 2^-53."""
    Q = np.array(P, order="C")
    kernels.whole(view(Q.reshape(-1)), *Q.shape)
    return Q


class Robust(NamedTuple):
    """A kernel that keeps a budget over a hull: lower <= optimum <= upper."""

    kernel: Array
    upper: float
    lower: float
    gap: float
    optimal: bool
    worst: Worst
    point: Point
    price: float
    steps: int

    @property
    def weights(self) -> Array:
        """Of the corners that the cost is the largest of."""
        return np.asarray(self.point.h / math.fsum(self.point.h))


def robust(cost: Array, B: Array, C: Array, budget: float) -> Robust:
    """The kernel of least cost, at the worst column of C, that leaks at most the budget over the hull of B."""
    middle = B.mean(axis=1)
    minimise(cost, middle / middle.sum(), math.inf)  # refuses costs that are none
    there = np.asarray(middle > 0.0)
    problem, scale, offset = prepare(cost[there], B[there], C[there], budget)
    return _of_all_rows(_solve(problem), problem, cost, there, (scale, offset))


def prove(cost: Array, B: Array, C: Array, budget: float, kernel: Array, point: Point) -> Robust:
    """A stored kernel with its cost and its leakage, and the lower bound that a stored point proves."""
    there = np.asarray(B.max(axis=1) > 0.0)
    problem, *scales = prepare(cost[there], B[there], C[there], budget)
    if not (kernel[there][np.isinf(problem.L)] == 0.0).all():
        raise StoredFileError(_NO_SOLUTION)
    found = certify(problem, kernel[there], point)
    if found.worst.upper > problem.budget:
        raise StoredFileError(_NO_SOLUTION)
    return _of_all_rows(found, problem, cost, there, scales)


def _of_all_rows(found: Attempt, problem: Problem, cost: Array, there: Mask, scales: Sequence[float]) -> Robust:
    """The same for all rows, in the units of the costs."""
    scale, offset = scales
    kernel, prior = np.zeros(cost.shape), np.zeros(len(cost))
    kernel[there], prior[there] = found.P, found.worst.prior
    for i in np.flatnonzero(~there):
        kernel[i, int(cost[i].argmin())] = 1.0  # never drawn: the value occurs at no prior of the hull
    prior.flags.writeable = False
    f = scale or 1.0
    upper = offset * (1.0 + 4e-16) + f * found.upper
    lower = offset * (1.0 - 4e-16) + f * min(found.lower, found.upper)
    return Robust(
        kernel, upper, min(lower, upper), f * max(0.0, found.upper - found.lower), _is_closed(problem, found),
        found.worst._replace(prior=prior), found.point, f * math.fsum(found.point.a), found.steps,
    )  # fmt: skip


def _solve(problem: Problem) -> Attempt:
    if problem.budget == 0.0:
        return constant(problem)
    K, J = problem.B.shape[1], problem.C.shape[1]
    # each row its cheapest columns, those of a tie so that little is leaked
    P = _least_information(problem.L == 0.0, problem.B.mean(axis=1))[0]
    top = np.eye(J)[int(problem.floors.argmax())]
    cheapest = certify(problem, P, Point(np.full(P.shape[1], 1.0 / P.shape[1]), np.zeros(K), top))
    if cheapest.worst.upper <= problem.limit:
        return cheapest
    base = base_kernel(problem)
    tries, steps = [certify(problem, base, cheapest.point)], 0
    for number, start in enumerate(_starts(problem)):
        if _is_closed(problem, _best(tries)):
            break
        point = saddle(problem, start)
        steps += point.steps
        tries.append(certify(problem, _within(problem, point, base), point))
        if number == 0 and not _is_closed(problem, _best(tries)):
            tries += _at_the_floor(problem)
    best = _best(tries)
    return certify(problem, best.P, best.point)._replace(steps=steps)


def _starts(problem: Problem) -> Iterator[Point]:
    """Where searches start: the law of the draw and the price of the ordinary problem at the mean of the priors."""
    p, w, L = problem.B.mean(axis=1), problem.C.mean(axis=1), problem.L
    n, K, J = L.shape[1], problem.B.shape[1], problem.C.shape[1]
    q, price = np.full(n, 1.0 / n), 1.0
    with np.errstate(all="ignore"):
        # other weights than the prior are other costs
        ratio = np.where(w > 0.0, w / p, 0.0)[:, None]
        cost = np.where(np.isinf(L), math.inf, np.where(L > 0.0, np.minimum(ratio * L, 1e290), 0.0))
    with contextlib.suppress(DesignError):  # forbidden pairs: the search will show whether there is a kernel
        found = minimise(np.ascontiguousarray(cost), p / p.sum(), problem.budget)
        q = p @ found.kernel
        price = 1.0 / found.slope if 0.0 < found.slope < math.inf else 1.0
    q = 0.7 * q / q.sum() + 0.3 / n
    for factor in _PRICES:
        yield Point(q / q.sum(), np.full(K, factor * price / K), np.full(J, 1.0 / J))


def _at_the_floor(problem: Problem) -> list[Attempt]:
    """What is left to choose where one corner costs what it must cost in any case, and no other need cost more.

    There the other corners have neither weight nor price at the optimum, and 0 / 0 says nothing about their rows. So
    the rows of that corner keep to their cheapest columns, and the others are weighed alone.
    """
    floors = problem.floors
    top = floors >= floors.max() * (1.0 - 1e-15)
    if top.all():
        return []
    rows = problem.C[:, top].max(axis=1) > 0.0
    L = np.where(rows[:, None] & (problem.L > 0.0), math.inf, problem.L)
    rest = problem._replace(L=L, C=np.ascontiguousarray(problem.C[:, ~top]))
    try:
        found = _solve(rest)
    except InfeasibleError:
        return []
    return [certify(problem, found.P, Point(found.point.q, np.zeros(problem.B.shape[1]), top / top.sum()))]


def _best(tries: list[Attempt]) -> Attempt:
    """The cheapest kernel of all, with the best of all bounds."""
    low, best = max(tries, key=lambda a: a.lower), min(tries, key=lambda a: a.upper)
    return best._replace(lower=min(low.lower, best.upper), rounding=low.rounding, point=low.point)


def _is_closed(problem: Problem, a: Attempt) -> bool:
    excess = max(0.0, a.upper - problem.floor)
    return is_closed(excess, excess - max(0.0, a.upper - a.lower), a.rounding)


def _within(problem: Problem, point: Point, base: Array) -> Array:
    """The kernel of a point, or one that leaks a little less, within the budget over the hull.

    At a price that is higher by as little as will do; or mixed with a kernel that leaks less, of which the chord shows
    how much is needed, since the leakage is convex in the kernel.
    """
    limit = problem.limit
    for more in (0.0, *(4.0**k * 1e-16 for k in range(20))):
        Q = round_kernel(kernel_at(problem, point._replace(a=point.a * (1.0 + more))))
        if worst(Q, problem.B, limit).upper <= limit:
            return Q
    P, share, lowest = kernel_at(problem, point), 0.0, worst(base, problem.B).upper
    found = worst(P, problem.B).upper
    for _ in range(64):
        needed = (found - limit) / max(found - lowest, 1e-300)
        # at least twice as much as before: what is needed is known to rounding only
        share = min(1.0, max(2.0 * share, share + (1.0 - share) * (1.001 * needed + 2.0**-52)))
        Q = round_kernel((1.0 - share) * P + share * base)
        found = worst(Q, problem.B, limit).upper
        if found <= limit:
            return Q
    return round_kernel(base)


# Designs whose budget holds for every prior of a hull -------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False, eq=False, kw_only=True)
class RobustDesign(Design):
    """A design that keeps its budget at all odds in the hull of `priors`; `us.design_robust` makes one.

    It is a `Design` for the odds `prior`, with streams, a guarantee and all else. Three things are those of the hull:
    `leakage` is a bound for every prior in it (`worst_leakage`), which streams are charged; `lower_bound` is what no
    randomizer that keeps the budget over the hull goes below; and `worst_prior` are the odds in it at which most is
    told. `weighed` says which odds weigh the distortion: "stated" for `prior`, "worst" for those of the hull that make
    it largest, which `prior` then are.
    """

    kind: ClassVar[str] = "robust"
    file_kind: ClassVar[str] = "robust design"

    priors: Array
    worst_prior: Array
    multipliers: Point
    weighed: str = "stated"

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        more = "" if self.charge is None else f"residual={text.number(self.residual, 'up')}, "
        more += f"fresh={self.fresh:g}, " if self.fresh else ""
        hull = "any odds" if self.any_odds else text.with_count(len(self.priors), "prior")
        distortion = text.with_error(self.distortion, self.distortion_error)
        proven = f"leakage<={self.leakage:.6g}, {more}{self.status}"
        return f"RobustDesign({m} x {n}, {hull}, distortion={distortion}, {proven})"

    def __str__(self) -> str:
        return self.card()

    @property
    def any_odds(self) -> bool:
        """Whether the hull holds all odds there are."""
        return bool((self.priors.max(axis=1) == 1.0).sum() == len(self.prior) <= len(self.priors))

    @property
    def worst_leakage(self) -> float:
        """What a draw tells at most, at any odds in the hull."""
        return self.leakage

    @property
    def residual(self) -> float:
        """What the models themselves give away over the horizon, at the worst odds in the hull; 0 if they are exact."""
        if self.charge is None:
            return 0.0
        return max(self.charge.at(corner).total for corner in self.priors)

    @property
    def total_leakage(self) -> float:
        """Leakage and residual, rounded up: what the readings tell on average at any odds in the hull, at most."""
        return max(total(self.leakage, None if self.charge is None else self.charge.at(p)) for p in self.priors)

    @property
    def worst_error(self) -> float:
        """How often the best guess is wrong, at the least favourable odds of the hull.

        The chance to guess right is convex in the odds, so here the corners do suffice.
        """
        return min(self._errors())

    def leakage_at(self, prior: ArrayLike) -> float:
        """What a draw tells at given odds, in the hull or not."""
        return mutual_information(as_prior(prior, len(self.prior)), self.randomizer.kernel)

    def leakage_of_draw(self, marginal: ArrayLike | str | None = None) -> float:
        """Nats that one draw gives away: over the hull for "design", at given odds, or at any odds if None."""
        if marginal is None:
            return capacity(self.randomizer.kernel, self.priors.mean(axis=0)).upper
        return Design.leakage_of_draw(self, marginal)

    def residual_of_block(self, marginal: ArrayLike | str | None = DESIGN_PRIOR) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings; see `Design.residual_of_block`."""
        if self.charge is not None and isinstance(marginal, str) and marginal == DESIGN_PRIOR:
            return self.residual, self.charge.horizon
        return Design.residual_of_block(self, marginal)

    @property
    def headline(self) -> str:
        """What is guaranteed over the hull, in one sentence, conditions included."""
        priors = None if self.any_odds else len(self.priors)
        horizon = None if self.charge is None else self.charge.horizon
        return text.robust_claim(priors, self.total_leakage, self.worst_error, horizon)

    def card(self, width: int = 100) -> str:
        """The card of the hull as plain text: what holds at all odds in it, and what at each corner."""
        distortion = text.with_error(self.distortion, self.distortion_error)
        residual = None if self.charge is None else (self.residual, self.charge.horizon)
        return text.robust_card(self.to_dict(), distortion, residual, width)

    @property
    def conditions(self) -> str:
        """All that must be true for the bounds to hold, and what they do not say."""
        return text.robust_conditions(self.any_odds, self.fresh)

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "headline": self.headline,
            "priors": self.priors.tolist(),
            "any_odds": self.any_odds,
            "worst_odds": self.worst_prior.tolist(),
            "worst_leakage_nats": self.worst_leakage,
            "total_leakage_nats": self.total_leakage,
            "budget_nats": self.budget,
            "distortion": self.distortion,
            "distortion_weighed_by": self.weighed,
            "lower_bound": self.lower_bound,
            "status": self.status,
            "corners": [
                {"odds": p.tolist(), "nats": self.leakage_at(p), "wrong_before": prior_error(p), "wrong_after": error}
                for p, error in zip(self.priors, self._errors(), strict=True)
            ],
            "conditions": self.conditions,
        }

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design: an ordinary one's content, the priors of the hull, and the multipliers."""
        content = Design.to_content(self, models)
        q, a, h, _ = self.multipliers
        return content | {
            "numbers": {name: content["numbers"][name] for name in _NUMBERS},
            "demand": content["demand"][1],
            "charge": content.get("charge"),
            "priors": self.priors.tolist(),
            "weighed": self.weighed,
            "multipliers": {"law": q.tolist(), "prices": a.tolist(), "weights": h.tolist()},
        }

    @classmethod
    def from_content(cls, content: Plain, family: Family | None) -> RobustDesign:
        """The design in a file, if its kernel keeps the budget and its multipliers prove the bound.

        A file of version 0.1 has no multipliers; then they are found anew. The family may have any prior.
        """
        if content.keys() - {"multipliers", "fresh"} != _FIELDS:
            raise StoredFileError("the fields are not those of a robust design")
        parts = shared_parts(content, family, any_prior=True)
        m, n = parts.cost.shape
        corners = matrix_from_plain("priors", content["priors"], (len(content["priors"]), m))
        B = np.stack([as_prior(corner, m) for corner in corners], axis=1)
        if content["weighed"] not in ("stated", "worst"):
            raise StoredFileError("weighed must be stated or worst")
        C = B if content["weighed"] == "worst" else parts.prior[:, None]
        leak = stored_charge(content["charge"], parts, stored_share(content))
        budget = number_from_plain("budget", content["numbers"]["budget"])
        left = _left_for_the_draw(budget, leak, B)
        if "multipliers" in content:
            point = _stored_point(content["multipliers"], (n, B.shape[1], C.shape[1]))
        else:
            point = robust(parts.cost, B, C, left).point
        randomizer = stored_randomizer(content["kernel"], parts)
        proof = prove(parts.cost, B, C, left, randomizer.kernel, point)
        made = _design_of(
            proof, parts.cost, B, C, (stored_demand(content["demand"]), budget), parts.family, parts.costs, leak
        )
        for name in _NUMBERS:
            if not agree(number_from_plain(name, content["numbers"][name]), getattr(made, name)):
                raise StoredFileError(f"{name} is not what the kernel, the priors and the costs give")
        if content["status"] != made.status or type(content["iterations"]) is not int:
            raise StoredFileError("status or iterations is not what the kernel, the priors and the costs give")
        made = replace(made, randomizer=randomizer, iterations=content["iterations"])
        return with_terms(made, stored_terms(content, parts.family))

    def _errors(self) -> list[float]:
        found = [bayes_error(p, self.randomizer.kernel) for p in self.priors]
        if self.charge is None:
            return found
        return [max(0.0, error - self.charge.at(p).variation) for p, error in zip(self.priors, found, strict=True)]


SCHEMA, VERSION = "understudy.robust", 1
_NUMBERS = ("distortion", "lower_bound", "leakage", "budget", "distortion_error")
_FIELDS = FIELDS | {"priors", "weighed", "charge"}
_NO_SOLUTION = "the kernel is not a solution for the priors, the costs and the budget"


def _stored_point(plain: Plain, sizes: tuple[int, int, int]) -> Point:
    """The multipliers of a file: any that are not negative prove a bound."""
    names = ("law", "prices", "weights")
    q, a, h = (matrix_from_plain(name, plain[name], (size,)) for name, size in zip(names, sizes, strict=True))
    if not all(np.isfinite(x).all() and (x >= 0.0).all() for x in (q, a, h)) or not (q.any() and h.any()):
        raise StoredFileError("multipliers must hold finite numbers of 0 or more, not all of them 0")
    return Point(q, a, h)


def solve_robust(
    cost: ArrayLike, priors: ArrayLike | str, *, leakage: float | str, prior: ArrayLike | str | None = None
) -> RobustDesign:
    """The randomizer of least expected cost whose leakage is within the budget at every prior of a hull.

    Parameters
    ----------
    cost : array_like, shape (m, n)
        The cost of each pseudo value for each private one; infinite where a pair is forbidden.
    priors : array_like, shape (K, m), or "all"
        The budget holds for every mixture of these; "all" is any prior.
    leakage : float or str
        The budget, as in `us.solve`; a percentage is a share of the entropy of the prior that weighs the cost.
    prior : array_like, shape (m,), or "worst", optional
        What weighs the cost: a prior of its own, which joins the hull; "worst" for the largest expected cost over the
        hull; by default the mean of the priors (equal probabilities with "all").

    Returns
    -------
    RobustDesign
        The kernel, its distortion, and what no kernel within the budget goes below.

    Raises
    ------
    InfeasibleError
        If forbidden pairs need more leakage than the budget.

    Examples
    --------
    >>> import numpy as np
    >>> found = solve_robust(1 - np.eye(2), [[0.95, 0.05], [0.05, 0.95]], leakage=0.1)
    >>> found
    RobustDesign(2 x 2, 2 priors, distortion=0.280205, leakage<=0.1, optimal)
    >>> found.worst_prior.round(6).tolist(), found.lower_bound <= found.distortion
    ([0.5, 0.5], True)

    """
    matrix = as_cost(cost)
    B, C, p = _corners(priors, prior, None, matrix.shape[0])
    budget = nats(leakage, entropy(p))
    return _design_of(robust(matrix, B, C, budget), matrix, B, C, (leakage, budget), None, None, None)


def design_robust(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    priors: ArrayLike | str,
    leakage: float | str,
    prior: ArrayLike | str | None = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    resolution: Any = None,
    readings: Any = None,
    valid: Any = None,
    fresh: float = 0.0,
) -> RobustDesign:
    """The randomizer for a family whose odds are known only to lie in the hull of some priors.

    `priors` and `prior` are as in `solve_robust`, except that with "all" the cost is weighed by the family's own odds;
    the rest as in `us.design`. What comes back is a design like others, with streams, and says what holds over the
    hull: `worst_prior`, `worst_leakage`, `card`. Its streams are charged with the worst leakage.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    >>> quiet, busy = [0.8, 0.15, 0.05], [0.1, 0.3, 0.6]
    >>> found = design_robust(family, [0, 0.5, 1, 1.5, 2], priors=[quiet, busy], leakage=0.3, distortion="mae")
    >>> found.status, bool(found.worst_leakage <= 0.3)
    ('optimal', True)
    >>> found.leakage_at([0.45, 0.225, 0.325]) <= found.worst_leakage
    True
    """
    if not isinstance(family, Family):
        raise DesignError(
            f"family is a {type(family).__name__}; it must be a Family (us.solve_robust takes bare costs)"
        )
    B, C, p = _corners(priors, prior, family.prior, len(family.values))
    budget = nats(leakage, entropy(p))
    middle = B.mean(axis=1)
    share = as_share(fresh)
    leak = charge(_with_prior(family, middle / middle.sum()), horizon, rng, share)
    left = _left_for_the_draw(budget, leak, B)
    found = costs(_with_prior(family, p), pseudo, horizon, distortion, weights, accuracy, rng, progress, share)
    solution = robust(np.array(found.matrix, order="C"), B, C, left)
    made = _design_of(solution, found.matrix, B, C, (leakage, budget), family, found, leak)
    return with_terms(made, Terms(resolution, readings, valid, share))


def _corners(
    priors: ArrayLike | str, prior: ArrayLike | str | None, own: Array | None, m: int
) -> tuple[Array, Array, Array]:
    """Corners of the hull, corners of what weighs the cost, and the odds that an entropy is taken of."""
    B = as_corners(priors, m)
    if isinstance(prior, str):
        if prior != "worst":
            raise DesignError(f"prior = {prior!r}; it must be odds, or 'worst' for the largest cost over the hull")
        middle = B.mean(axis=1)
        return B, B, middle / middle.sum()
    if prior is not None:
        p = as_prior(prior, m)
        return np.column_stack((B, p)), p[:, None], p
    p = np.asarray(own) if own is not None and isinstance(priors, str) else as_prior(B.mean(axis=1), m)
    return B, p[:, None], p


def _left_for_the_draw(budget: float, leak: Charge | None, B: Array) -> float:
    """What the models leave of the budget at the corner where they leak most."""
    return budget if leak is None else min(leak.at(corner).left_for_the_draw(budget) for corner in B.T)


def _with_prior(family: Family, prior: Array) -> Family:
    """The family with another prior; its models stay those that were worked out."""
    return Family(family.model, family.values, prior, family.about)


def _design_of(
    found: Robust,
    cost: Array,
    B: Array,
    C: Array,
    demand: tuple[float | str, float],
    family: Family | None,
    measured: Costs | None,
    leak: Charge | None,
) -> RobustDesign:
    p = as_prior(C @ found.weights, len(cost))
    names = (None, None) if measured is None else (measured.values, measured.pseudo)
    error = 0.0 if measured is None else measured.expected(p[:, None] * found.kernel)[1]
    corners = np.ascontiguousarray(B.T)
    for array in (p, cost, corners):
        array.setflags(write=False)
    return RobustDesign(
        Randomizer.from_solver(found.kernel, *names), p, cost, found.upper, found.lower,
        found.gap, found.worst.upper, demand[1], ("leakage", demand[0]),
        "optimal" if found.optimal else "inexact", found.steps, 1.0 / found.price if found.price > 0.0 else math.inf,
        0.0, error, None if family is None else _with_prior(family, p), measured,
        None if leak is None else leak.at(p),
        priors=corners, worst_prior=found.worst.prior, multipliers=found.point,
        weighed="worst" if C.shape[1] > 1 else "stated",
    )  # fmt: skip


# Designs for each value of a public clock -------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConditionalDesign:
    """A design for each value of a public clock; `us.design_conditional` makes one.

    ``at(s)`` is the `Design` in force at s, with its own prior, budget, streams and card. `distortion` and `leakage`
    are means over the clock, weighed by `weights`; no randomizers with a mean leakage within the budget (with the
    split "same leakage": each within it) have a mean distortion below `lower_bound`. All curves have the slope `slope`.
    """

    kind: ClassVar[str] = "conditional"

    times: tuple[Hashable, ...]
    designs: tuple[Design, ...]
    weights: Array
    distortion: float
    lower_bound: float
    gap: float
    budget: float
    demand: tuple[float | str, str]
    status: str
    slope: float

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    def __repr__(self) -> str:
        m, n = self.designs[0].randomizer.kernel.shape
        return (
            f"ConditionalDesign({len(self.times)} times, {m} x {n}, distortion={self.distortion:.6g}, "
            f"leakage={self.leakage:.6g}, {self.status})"
        )

    def __str__(self) -> str:
        return self.card()

    def __len__(self) -> int:
        return len(self.times)

    def at(self, s: Hashable) -> Design:
        """The design in force when the clock says s."""
        try:
            return self.designs[self.times.index(s)]
        except ValueError:
            raise DesignError(f"the clock has no value {s!r}; it has {list(self.times)!r}") from None

    @property
    def split(self) -> str:
        """How the leakage is split over the clock."""
        return self.demand[1]

    @property
    def leakage(self) -> float:
        """I(Theta; ~Theta given clock): the leakage of a draw given the time, the mean over the clock, in nats."""
        return min(self.budget, math.fsum(self.weights * [design.leakage for design in self.designs]))

    @property
    def total_leakage(self) -> float:
        """The same with what approximate models give away themselves."""
        return math.fsum(self.weights * [design.total_leakage for design in self.designs]) * (1.0 + 1e-15)

    @property
    def leakages(self) -> dict[Hashable, float]:
        """The leakage of a draw at each value of the clock."""
        return {s: design.leakage for s, design in zip(self.times, self.designs, strict=True)}

    @property
    def errors(self) -> dict[Hashable, float]:
        """How often every guess is wrong, at least, by somebody who sees the time and the readings."""
        return {s: design.guarantee.bayes_error for s, design in zip(self.times, self.designs, strict=True)}

    @property
    def worst(self) -> Hashable:
        """The value of the clock at which guesses are wrong least often, of those that occur."""
        found = self.errors
        occurring = [s for s, w in zip(self.times, self.weights, strict=True) if w > 0.0]
        return min(occurring, key=lambda s: found[s])

    @property
    def clock_information(self) -> float:
        """I(Theta; clock): the information of the time itself, which no randomizer hides."""
        overall = self.weights @ [design.prior for design in self.designs]
        given = math.fsum(self.weights * [entropy(design.prior) for design in self.designs])
        return max(0.0, entropy(overall / math.fsum(overall)) - given)

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence, conditions included."""
        charge = self.designs[0].charge
        horizon = None if charge is None else charge.horizon
        return text.conditional_claim(self.total_leakage, self.errors[self.worst], self.worst, horizon)

    def card(self, width: int = 100) -> str:
        """What holds on the whole and at each value of the clock, as plain text."""
        rows = []
        for s, weight, design in zip(self.times, self.weights.tolist(), self.designs, strict=True):
            errors = design.guarantee.prior_error, design.guarantee.bayes_error
            rows.append(text.ClockRow(s, weight, design.distortion, design.leakage, *errors))
        whole = text.ClockFacts(
            self.headline, self.distortion, self.lower_bound, self.status, self.split, self.leakage, self.budget,
            self.clock_information, self.designs[0].fresh,
        )  # fmt: skip
        return text.conditional_card(whole, rows, width)


SAME_SLOPE, SAME_LEAKAGE = "same slope", "same leakage"
_ROUNDS = 200


class _Tangent(NamedTuple):
    """One time of day at a slope: the leakage of its kernel, and what no I + slope * (D - lowest) goes below."""

    leakage: float
    bound: float


def solve_conditional(
    cost: ArrayLike,
    priors: Mapping[Hashable, ArrayLike],
    weights: Mapping[Hashable, float] | None = None,
    *,
    leakage: float | str,
    split: str = SAME_SLOPE,
) -> ConditionalDesign:
    """Randomizers for a public clock on a bare cost matrix; see `design_conditional`.

    >>> import numpy as np
    >>> found = solve_conditional(1 - np.eye(2), {"night": [0.95, 0.05], "day": [0.4, 0.6]}, leakage=0.2)
    >>> found
    ConditionalDesign(2 times, 2 x 2, distortion=0.063829, leakage=0.2, optimal)
    >>> found.leakages["night"] < found.leakages["day"]
    True
    """
    matrix = as_cost(cost)
    times, P, pi = _clock(priors, weights, matrix.shape[0])
    return _build(matrix, (times, P, pi), leakage, _split(split), None, None, None)


def design_conditional(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    priors: Mapping[Hashable, ArrayLike],
    weights: Mapping[Hashable, float] | None = None,
    leakage: float | str,
    split: str = SAME_SLOPE,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    channel_weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    fresh: float = 0.0,
) -> ConditionalDesign:
    """A randomizer for each value of a public clock, such as the hour of the day.

    `priors` holds for each value s of the clock the prior of the private parameter then; `weights` how often a draw is
    made at s, equally often by default. `leakage` bounds I(Theta; ~Theta given clock), the mean over the clock, with
    `split` "same slope", which makes the mean distortion least; or, with "same leakage", the leakage at every single
    s. In percent it is a share of the entropy given the clock. `channel_weights` are the weights of `us.design`, the
    other arguments as there. ``found.at(s)`` is the design in force at s.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    >>> prior = {"night": [0.9, 0.08, 0.02], "day": [0.2, 0.3, 0.5]}
    >>> found = design_conditional(family, priors=prior, weights={"night": 2, "day": 1}, leakage="30%",
    ...                            distortion="mae")
    >>> found.at("day")
    Design(3 x 3, distortion=0.514803, leakage=0.515991, optimal)
    >>> found.worst
    'night'
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family (solve_conditional takes costs)")
    times, P, pi = _clock(priors, weights, len(family.values))
    chosen = _split(split)
    overall = _with_prior(family, as_prior(pi @ P, len(family.values)))
    share = as_share(fresh)
    leak = charge(overall, horizon, rng, share)
    found = costs(overall, pseudo, horizon, distortion, channel_weights, accuracy, rng, progress, share)
    return _build(np.array(found.matrix, order="C"), (times, P, pi), leakage, chosen, family, found, leak, share)


def clock_priors(family: Family, floor: float = 0.0) -> dict[int, Array]:
    """What the hour of the day says about the parameter, hour by hour, as `us.fit` found it.

    `floor` mixes equal probabilities in, so that no value is impossible at an hour at which it was never seen.

    >>> import understudy as us
    >>> chain = {"values": [0, 1], "by_hour": [[1.0, 0.0]] * 8 + [[0.25, 0.75]] * 16}
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1], about={"chain": chain})
    >>> clock_priors(family, floor=0.1)[3].round(6).tolist()
    [0.95, 0.05]
    """
    chain = (family.about or {}).get("chain")
    if not isinstance(chain, dict) or chain.get("by_hour") is None:
        raise ConfigurationError("the family does not say what the clock tells; us.fit does, of data with times")
    if not (isinstance(floor, (int, float)) and 0.0 <= floor < 1.0):
        raise ConfigurationError(f"floor = {floor!r}; it must be a share, from 0 to less than 1")
    named = [value_from_plain(value) for value in chain["values"]]
    try:
        order = [named.index(value) for value in family.values]
    except ValueError:
        raise ConfigurationError("the clock of the family is one for other values than it has") from None
    m = len(order)
    table = np.asarray(chain["by_hour"], dtype=float)[:, order]
    return {hour: as_prior((1.0 - floor) * row / row.sum() + floor / m, m) for hour, row in enumerate(table)}


def _split(split: str) -> str:
    if split not in (SAME_SLOPE, SAME_LEAKAGE):
        raise DesignError(f"split = {split!r}; it must be {SAME_SLOPE!r} or {SAME_LEAKAGE!r}")
    return str(split)


def _clock(
    priors: Mapping[Hashable, ArrayLike], weights: Mapping[Hashable, float] | None, m: int
) -> tuple[tuple[Hashable, ...], Array, Array]:
    """Values of the clock, their priors (S, m) and weights (S,)."""
    if not isinstance(priors, Mapping):
        raise DesignError(
            f"priors is a {type(priors).__name__}; it must be a mapping with a prior for each value of the clock"
        )
    if not priors:
        raise DesignError("priors is empty; it must give a prior for at least one value of the clock")
    times = tuple(priors)
    P = np.stack([_prior_at(s, priors[s], m) for s in times])
    if weights is None:
        return times, P, np.full(len(times), 1.0 / len(times))
    if not isinstance(weights, Mapping) or set(weights) != set(times):
        raise DesignError("weights must give one number for each value of the clock that has a prior")
    try:
        pi = np.array([float(weights[s]) for s in times])
    except (TypeError, ValueError):
        raise DesignError("weights must be numbers, how often a draw is made at each value of the clock") from None
    if not (np.isfinite(pi).all() and (pi >= 0.0).all() and pi.sum() > 0.0):
        raise DesignError(f"weights = {pi.tolist()}; they must be 0 or more, and one of them positive")
    return times, P, pi / pi.sum()


def _build(
    cost: Array,
    clock: tuple[tuple[Hashable, ...], Array, Array],
    leakage: float | str,
    split: str,
    family: Family | None,
    found: Costs | None,
    leak: Charge | None,
    fresh: float = 0.0,
) -> ConditionalDesign:
    times, P, pi = clock
    budget = nats(leakage, float(pi @ [entropy(p) for p in P]))
    leaks = [None if leak is None else leak.at(p) for p in P]
    rest = [0.0 if one is None else one.total for one in leaks]
    if split == SAME_LEAKAGE:
        spent, slope = [budget] * len(times), math.nan
    else:
        left = budget - float(pi @ rest) * (1.0 + 1e-15)
        if left < 0.0 and leak is not None:
            leak.left_for_the_draw(budget)  # says by how much
            left = 0.0
        draws, slope = shares(cost, P, pi, left)
        spent = [x + y for x, y in zip(draws, rest, strict=True)]
    designs = [
        solve_demand(cost, p.copy(), ("leakage", x), None if family is None else _with_prior(family, p), found, one)
        for p, x, one in zip(P, spent, leaks, strict=True)
    ]
    designs = [with_terms(design, Terms(fresh=fresh)) for design in designs]
    lower = math.fsum(pi * [design.lower_bound for design in designs])
    if split == SAME_SLOPE and 0.0 < slope < math.inf:
        lower = max(_lower(cost, P, pi, slope * f, left) for f in (1.0, 1.0 - 1e-9, 1.0 + 1e-9))
    return _sum_up(times, pi, designs, budget, (leakage, split), slope, lower)


def _sum_up(
    times: tuple[Hashable, ...],
    pi: Array,
    designs: list[Design],
    budget: float,
    demand: tuple[float | str, str],
    slope: float,
    lower: float,
) -> ConditionalDesign:
    units = (len(times) + 4) * 2.0**-53
    distortion = math.fsum(pi * [design.distortion for design in designs]) * (1.0 + units)
    lower = min(lower * (1.0 - units), distortion)
    # above what is cheapest for every value, which nobody goes below
    least = math.fsum(
        w * math.fsum(p * low for p, low in zip(design.prior, design.cost.min(axis=1), strict=True) if p > 0.0)
        for w, design in zip(pi, designs, strict=True)
    )
    excess = max(distortion - least, 0.0)
    rounding = (4.0 * units + 8e-15) * distortion
    proven = (
        all(design.status == "optimal" for design in designs)
        if demand[1] == SAME_LEAKAGE
        else is_closed(excess, excess - (distortion - lower), rounding)
    )
    return ConditionalDesign(
        times, tuple(designs), pi, distortion, lower, max(distortion - lower, 0.0), budget, demand,
        "optimal" if proven else "inexact", slope,
    )  # fmt: skip


def shares(cost: Array, P: Array, pi: Array, budget: float) -> tuple[list[float], float]:
    """The leakage of each time of day so that the mean is the budget and all curves have one slope; and that slope."""
    used = [k for k in range(len(pi)) if pi[k] > 0.0]
    most = [minimise(cost, p, math.inf).leakage for p in P]
    least = [least_information(cost, p)[1] for p in P]
    if math.fsum(pi[k] * most[k] for k in used) <= budget:
        return [x * (1.0 + 1e-12) for x in most], math.inf
    if budget == 0.0:
        return [0.0] * len(pi), 0.0

    def leakages_at(slope: float) -> list[float]:
        return [_tune(cost, p, slope).leakage if w > 0.0 else 0.0 for p, w in zip(P, pi, strict=True)]

    def mean(leakages: list[float]) -> float:
        return math.fsum(pi[k] * leakages[k] for k in used)

    p = pi @ P
    slope = minimise(cost, p / p.sum(), budget).slope if np.isfinite(cost).all() else 1.0
    slope = slope if 0.0 < slope < math.inf else 1.0
    low, high = (0.0, least), (math.inf, most)
    for _ in range(_ROUNDS):
        now = leakages_at(slope)
        spent = mean(now)
        low, high = ((slope, now), high) if spent <= budget else (low, (slope, now))
        if abs(spent - budget) <= 1e-14 * budget or high[0] - low[0] <= 1e-15 * low[0]:
            break
        slope = _between(low[0], high[0], mean(low[1]), mean(high[1]), budget)
    # where a curve is straight its leakage jumps with the slope: the same share of each jump
    below, above = mean(low[1]), mean(high[1])
    t = (budget - below) / (above - below) if above > below else 0.0
    found = [x + t * (y - x) for x, y in zip(low[1], high[1], strict=True)]
    return _within_budget(found, pi, budget), slope


def _between(low: float, high: float, below: float, above: float, wanted: float) -> float:
    """A slope between two: by the logarithm, drawn to where the line through both meets the budget."""
    if low == 0.0:
        return high / 4.0
    if high == math.inf:
        return low * 4.0
    share = (wanted - below) / (above - below) if above > below else 0.5
    share = min(max(share, 0.02), 0.98) if high > 1.0001 * low else 0.5
    return float(low * (high / low) ** share)


def _within_budget(leakages: list[float], pi: Array, budget: float) -> list[float]:
    """The same, a little less where rounding would exceed the budget."""
    weights = [Fraction(w) for w in pi.tolist()]
    for k in range(40):
        lowered = [x * (1.0 - (2.0**k) * 2e-16) if k else x for x in leakages]
        if sum(w * Fraction(x) for w, x in zip(weights, lowered, strict=True)) <= Fraction(budget):
            return lowered
    return [0.0] * len(leakages)


def _tune(cost: Array, p: Array, slope: float) -> _Tangent:
    """The least I + slope * (D - lowest) of a time of day: the leakage of the kernel there, and a proven bound."""
    m, n = cost.shape
    L, base, r = np.empty(m * n), np.empty(m * n), np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(base), view(r))
    if code:
        minimise(cost, p, math.inf)  # raises, saying what is wrong
    b = slope * float(r[1])
    if not 0.0 < b < math.inf:
        return _Tangent(0.0, 0.0)
    kernels.saturated(view(L), m, n, view(base))
    found = at_slope(L, p, b, base)
    return _Tangent(information(p, found.kernel), max(0.0, found.bound - found.rounding))


def _lower(cost: Array, P: Array, pi: Array, slope: float, budget: float) -> float:
    """What no randomizers within the budget go below: the tangents of all curves at one slope, added up."""
    total, scale = 0.0, 0.0
    for p, w in zip(P, pi, strict=True):
        if w > 0.0:
            # D_s >= lowest + (bound - I_s) / slope for every kernel
            lowest = math.fsum(p[p > 0.0] * cost.min(axis=1)[p > 0.0])
            total += w * (lowest + _tune(cost, p, slope).bound / slope)
            scale += w * lowest
    return total - budget / slope - 4e-15 * (scale + budget / slope)
