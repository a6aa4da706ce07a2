"""A budget that holds for every prior of a hull: a saddle point in the odds and in the law of the draw.

Asked for is the kernel of least cost with I(p, P) <= I_0 for every p in the hull of the columns of B. The information
is concave in p and convex in P, so the worst odds may be named first. With s = B a, a >= 0 (the odds times a price of
leakage), w = C h (the odds that weigh the cost: one column, or the worst of several) and q a law of the draw::

    optimum = max over a, h of min over q of  sum_i w_i least_i - sum_i s_i ln z_i - |s| I_0
    z_i = sum_j q_j exp(-w_i L_ij / s_i),      P_ij = q_j exp(-w_i L_ij / s_i) / z_i

where L is the cost above the least of its row. The function is concave in (a, h), convex in q, and smooth. Its
derivative in s_i is KL(P_i || q) - I_0: what is left of the budget. So a primal-dual interior-point
method finds the worst odds, the price and the kernel together. For one prior this is the ordinary randomizer problem.

Any a, h and q prove a lower bound (`bound`), and any kernel has a bound on what it tells (`hull`); nothing rests on the
method having arrived.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array

_ROUNDOFF = 2.0**-53
_STEPS = 150
_TARGET = 1e-13  # of the cost above the least possible
_TO_THE_EDGE = 0.995
_FAR = 1e280  # an exponent that is as good as infinite, and yet the smallest of a row


class Problem(NamedTuple):
    """Costs above the least of each row, infinite where forbidden; that least; corners of the odds; the budget."""

    L: Array  # (m, n)
    least: Array  # (m,)
    B: Array  # (m, K): the budget holds for the hull of these
    C: Array  # (m, J): the cost is the largest of these
    budget: float


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
    mean: Array  # of L under each row of P
    deviation: Array  # L_ij - mean_i where allowed
    variance: Array
    gq: Array
    ga: Array
    gh: Array


def saddle(problem: Problem, start: Point) -> Point:
    """The saddle point, as close as the interior-point method comes."""
    with np.errstate(all="ignore"):  # what is not finite is noticed
        return _followed(problem, start)


def _followed(problem: Problem, start: Point) -> Point:
    q, a, h = start.q, start.a, start.h
    n, K, J = q.size, a.size, h.size
    now = _values(problem, q, a, h)
    t = float(now.gh.max())
    u, v, y = np.maximum(now.gq, 0.0) + 0.1 / q, np.maximum(-now.ga, 0.0) + 0.1 / a, t - now.gh + 0.1 / h
    centring, best, stalled = 0.2, (math.inf, Point(q, a, h)), 0
    for step in range(1, _STEPS + 1):
        gap = float(q @ u + a @ v + h @ y)
        off = _residual(now, q, a, h, t, u, v, y)
        if gap + off < best[0]:
            best, stalled = (gap + off, Point(q, a, h, step)), 0
        else:
            stalled += 1
        target = _TARGET * min(1.0, float(now.w @ now.mean))
        if gap + off <= target or stalled > 12:
            break
        mu = max(centring * gap, 1e-3 * target) / (n + K + J)
        x = _direction(problem, now, (q, a, h, t), (u, v, y), mu)
        if x is None:
            break
        dq, da, dh, dt = q * x[:n], a * x[n : n + K], h * x[n + K : n + K + J], float(x[-1])
        du = mu / q - u - u * x[:n]
        dv = mu / a - v - v * x[n : n + K]
        dy = mu / h - y - y * x[n + K : n + K + J]
        room = min(_room(q, dq), _room(a, da), _room(h, dh), _room(u, du), _room(v, dv), _room(y, dy))
        length = min(1.0, _TO_THE_EDGE * room)
        for _ in range(12):
            new = q + length * dq, a + length * da, h + length * dh
            moved = t + length * dt
            duals = u + length * du, v + length * dv, y + length * dy
            then = _values(problem, *new)
            left = float(sum(x @ z for x, z in zip(new, duals, strict=True)))
            # the step may not leave the neighbourhood of the path: residuals, weighed as before, shrink with the gap
            after = _residual(then, q, a, h, moved, *duals)
            if after <= max((1.0 - 0.01 * length) * off, 10.0 * left) and math.isfinite(after):
                break
            length /= 2.0
        (q, a, h), t, (u, v, y), now = new, moved, duals, then
        centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return best[1]


def kernel_at(problem: Problem, point: Point) -> Array:
    """P_ij = q_j exp(-w_i L_ij / s_i) / z_i: the kernel of a point."""
    x, q = np.where(point.q > 0.0, _exponents(problem, point), math.inf), point.q
    x = x - x.min(axis=1, keepdims=True)
    weights = q * np.exp(-x)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bound(problem: Problem, point: Point) -> tuple[float, float]:
    """A cost that no kernel within the budget goes below, and how much of it rounding took.

    For every q, with s and w as they stand: the least over all q' of -sum s_i ln z_i(q') is at least
    -sum s_i ln z_i(q) - |s| ln max_j c_j, where c_j = sum_i s_i exp(-w_i L_ij / s_i) / z_i / |s|.
    """
    _, least, B, C, budget = problem
    s, w, q = B @ point.a, C @ (point.h / math.fsum(point.h)), point.q / math.fsum(point.q)
    total = math.fsum(s)
    floor = math.fsum(w * least)
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


def _values(problem: Problem, q: Array, a: Array, h: Array) -> _Values:
    L, least, B, C, budget = problem
    s, w = B @ a, C @ h
    allowed = np.isfinite(L)
    costs = np.where(allowed, L, 0.0)
    ratio = w / s
    x = np.where(allowed, ratio[:, None] * costs, math.inf)
    E = np.exp(-x)
    z = E @ q
    A = E / z[:, None]
    P = A * q
    mean = (P * costs).sum(axis=1)
    deviation = np.where(allowed, costs - mean[:, None], 0.0)
    variance = (P * deviation**2).sum(axis=1)
    excess = float(q.sum()) - 1.0
    told = -np.log(z) - ratio * mean
    gq, ga, gh = float(s.sum()) - s @ A, B.T @ (told + (excess - budget)), C.T @ (least + mean)
    return _Values(s, w, A, mean, deviation, variance, gq, ga, gh)


def _residual(now: _Values, q: Array, a: Array, h: Array, t: float, u: Array, v: Array, y: Array) -> float:
    """How far the conditions are from being met, each weighed by its variable."""
    rq, ra, rh = q * (now.gq - u), a * (now.ga + v), h * (now.gh - t + y)
    return float(np.abs(rq).sum() + np.abs(ra).sum() + np.abs(rh).sum() + abs(h.sum() - 1.0))


def _direction(
    problem: Problem, now: _Values, x: tuple[Array, Array, Array, float], duals: tuple[Array, Array, Array], mu: float
) -> Array | None:
    """Newton's step for the conditions with complementarities of mu, relative to the variables."""
    B, C = problem.B, problem.C
    (q, a, h, t), (u, v, y) = x, duals
    s, w, A = now.s, now.w, now.A
    n, K, J = q.size, a.size, h.size
    ratio = (w / s)[:, None]
    G = np.empty((n + K + J + 1, n + K + J + 1))
    # Phi_qq = A' diag(s) A, Phi_qs = 1 - A (1 + w/s (L - mean)), Phi_qw = A (L - mean); scaled by q, a, h
    root = np.sqrt(s)[:, None] * A * q
    G[:n, :n] = root.T @ root
    qs, qw = q * (1.0 - A * (1.0 + ratio * now.deviation)), q * (A * now.deviation)
    G[:n, n : n + K] = qs.T @ (B * a)
    G[:n, n + K : -1] = qw.T @ (C * h)
    # Phi_ss = -w^2 var / s^3, Phi_sw = w var / s^2, Phi_ww = -var / s
    v1 = now.variance / s
    U, W = B * a, C * h
    G[n : n + K, n : n + K] = -(U.T @ ((v1 * (w / s) ** 2)[:, None] * U))
    G[n : n + K, n + K : -1] = U.T @ ((v1 * (w / s))[:, None] * W)
    G[n + K : -1, n + K : -1] = -(W.T @ (v1[:, None] * W))
    G[n : n + K, :n] = G[:n, n : n + K].T
    G[n + K : -1, :n] = G[:n, n + K : -1].T
    G[n + K : -1, n : n + K] = G[n : n + K, n + K : -1].T
    G[:n, -1] = G[-1, :n] = 0.0
    G[n : n + K, -1] = G[-1, n : n + K] = 0.0
    G[n + K : -1, -1] = G[-1, n + K : -1] = -h
    G[-1, -1] = 0.0
    at = np.arange(n + K + J)
    G[at, at] += np.concatenate((q * u, -a * v, -h * y))
    right = np.concatenate(
        (mu - q * now.gq, -mu - a * now.ga, -mu - h * (now.gh - t), [float(h.sum()) - 1.0])
    )  # fmt: skip
    try:
        found: Array = np.asarray(np.linalg.solve(G, right), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found).all() else None


def _room(x: Array, dx: Array) -> float:
    """How much of a step may be taken with x staying positive."""
    down = dx < 0.0
    return float((x[down] / -dx[down]).min(initial=math.inf))
