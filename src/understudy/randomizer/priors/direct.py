"""The robust problem head-on: an interior-point method in the kernel itself.

The saddle point (`saddle`) has the kernel as P_ij ~ q_j exp(-w_i L_ij / s_i). Where the cost is the worst over the
hull, a row may have neither weight nor price at the optimum, and 0 / 0 says nothing about it: what it draws is free
within limits. Here nothing is divided by them. With r a law of the draw, ::

    least t  with   sum_i C_ij (least_i + sum_l L_il P_il) <= t     for every corner j of the cost,
                    sum_i B_ik KL(P_i || r) <= I_0                  for every corner k of the budget

is convex in (P, r, t) together, since KL is. The multipliers are the a and h of the saddle point, and prove the same
bound. There are more unknowns, but each P_il meets only r_l, so a step costs a solve of m + K + J equations. Along the
central path rows that are free stay in the middle of what they may do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.priors.saddle import Point, Problem

_STEPS = 200
_TARGET = 1e-14  # of the best constant column
_TO_THE_EDGE = 0.99


class _State(NamedTuple):
    """Kernel, law, level; multipliers of the budgets, the costs, the rows, and of P >= 0 and r >= 0."""

    P: Array
    r: Array
    t: float
    a: Array
    h: Array
    nu: Array
    U: Array
    v: Array


class _Values(NamedTuple):
    """What is left of budgets and level, and the derivatives that a step needs."""

    s: Array
    log: Array  # ln(P / r) + 1, the slope of P ln(P / r)
    budget: Array  # (K,) left
    level: Array  # (J,) left
    lawful: Array  # (K, n): slopes of the budgets in r
    in_kernel: Array
    in_law: Array
    sums: Array


def direct(problem: Problem, base: Array) -> tuple[Array, Point] | None:
    """A kernel strictly within the budget and the point that proves how good it is; None without room to begin."""
    with np.errstate(all="ignore"):  # what is not finite is noticed
        x = _begun(problem, base)
        return None if x is None else _followed(problem, x)


def _begun(problem: Problem, base: Array) -> _State | None:
    """A kernel that tells less than the budget at every corner, all that is allowed drawn sometimes."""
    B, limit = problem.B, problem.budget
    allowed = np.isfinite(problem.L)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    middle = B.mean(axis=1)
    for k in range(60):
        share = 0.5 ** (k + 1)
        P = (1.0 - share) * base + share * even
        r = middle @ P
        r = 0.5 * r + 0.5 * P.mean(axis=0) if k % 2 else r
        left = limit - _told(problem, P, r / r.sum())
        if (left > 0.05 * limit).all() or (k > 30 and (left > 0.0).all()):
            break
    else:
        return None
    r = r / r.sum()
    costs = _levels(problem, P)
    mu = 1.0 / (P.size + r.size + left.size + costs.size)
    slack = float(costs.max()) - costs + mu * costs.size
    m = len(P)
    U = np.where(allowed, mu / np.where(allowed, P, 1.0), 0.0)
    return _State(P, r, float(costs.max()) + mu * costs.size, mu / left, mu / slack, np.zeros(m), U, mu / r)


def _told(problem: Problem, P: Array, r: Array) -> Array:
    """sum_i B_ik KL(P_i || r), for laws r of any sum."""
    terms = np.where(P > 0.0, P * np.log(np.where(P > 0.0, P, 1.0) / r), 0.0)
    return np.asarray(problem.B.T @ (terms.sum(axis=1) + (r.sum() - P.sum(axis=1))))


def _levels(problem: Problem, P: Array) -> Array:
    costs = np.where(np.isfinite(problem.L), problem.L, 0.0)
    return np.asarray(problem.C.T @ (problem.least + (P * costs).sum(axis=1)))


def _values(problem: Problem, x: _State) -> _Values:
    allowed = np.isfinite(problem.L)
    s, w = problem.B @ x.a, problem.C @ x.h
    log = np.where(allowed, np.log(np.where(allowed, x.P, 1.0) / x.r), 0.0)
    costs = np.where(allowed, problem.L, 0.0)
    gP = np.where(allowed, s[:, None] * log + w[:, None] * costs + x.nu[:, None], 0.0)
    gr = x.a.sum() - (s @ x.P) / x.r
    return _Values(
        s, log, problem.budget - _told(problem, x.P, x.r), x.t - _levels(problem, x.P),
        1.0 - (problem.B.T @ x.P) / x.r, gP, gr, x.P.sum(axis=1),
    )  # fmt: skip


def _residual(now: _Values, x: _State, y: _State) -> float:
    """How far the conditions are from being met, each weighed by the variable y."""
    off = np.abs(y.P * (now.in_kernel - x.U)).sum() + np.abs(y.r * (now.in_law - x.v)).sum()
    return float(off + np.abs(now.sums - 1.0).sum() + abs(x.h.sum() - 1.0))


def _gap(now: _Values, x: _State) -> float:
    return float((x.P * x.U).sum() + x.r @ x.v + x.a @ now.budget + x.h @ now.level)


def _followed(problem: Problem, x: _State) -> tuple[Array, Point]:
    now = _values(problem, x)
    count = int(np.isfinite(problem.L).sum()) + x.r.size + x.a.size + x.h.size
    best, found, stalled, centring = math.inf, x, 0, 0.2
    for _ in range(_STEPS):
        gap, off = _gap(now, x), _residual(now, x, x)
        if gap + off < best:
            best, found, stalled = gap + off, x, 0
        else:
            stalled += 1
        if not math.isfinite(gap + off) or best <= _TARGET or stalled > 12:
            break
        dx = _direction(problem, now, x, centring * gap / count)
        if dx is None:
            break
        length = min(1.0, _TO_THE_EDGE * _room(x, dx))
        for _ in range(40):
            new = _moved(x, dx, length)
            then = _values(problem, new)
            inside = (then.budget > 0.0).all() and (then.level > 0.0).all()
            if inside and _residual(then, new, x) <= max((1.0 - 0.01 * length) * off, 10.0 * _gap(then, new)):
                break
            length /= 2.0
        else:
            break
        x, now = new, then
        centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return found.P, Point(found.r, found.a, found.h)


def _moved(x: _State, dx: _State, length: float) -> _State:
    return _State(
        x.P + length * dx.P, x.r + length * dx.r, x.t + length * dx.t, x.a + length * dx.a, x.h + length * dx.h,
        x.nu + length * dx.nu, x.U + length * dx.U, x.v + length * dx.v,
    )  # fmt: skip


def _direction(problem: Problem, now: _Values, x: _State, mu: float) -> _State | None:
    """Newton's step for complementarities of mu.

    The second derivatives are s_i / P_il in P, s_i P_il / r_l^2 in r, and -s_i / r_l between them; P goes first, which
    leaves a diagonal in r, and then both, which leaves the multipliers and the level.
    """
    B, C, s = problem.B, problem.C, now.s
    allowed = np.isfinite(problem.L)
    costs = np.where(allowed, problem.L, 0.0)
    inverse = np.where(allowed, x.P / (s[:, None] + x.U), 0.0)  # of the diagonal in P
    cross = s[:, None] * inverse / x.r
    # s P / r^2 - (s / r)^2 P / (s + U) = s P / r^2 * U / (s + U), without the difference
    diagonal = (s[:, None] * x.P * x.U / (s[:, None] + x.U)).sum(axis=0) / x.r**2 + x.v / x.r
    bP = np.where(allowed, mu / np.where(allowed, x.P, 1.0), 0.0) - now.in_kernel
    br = mu / x.r - now.in_law
    # rows of the system: budgets, costs, rows of the kernel
    K, J, m = x.a.size, x.h.size, len(s)
    fields = (now.log, costs, allowed.astype(float))
    left = (B, C, np.eye(m))
    in_r = [X.T @ (cross * field) for X, field in zip(left, fields, strict=True)]
    in_r[0] = in_r[0] + now.lawful
    R = np.concatenate(in_r)
    size = K + J + m
    M = np.zeros((size + 1, size + 1))
    at = np.cumsum([0, K, J, m])
    for i in range(3):
        for j in range(3):
            middle = (fields[i] * fields[j] * inverse).sum(axis=1)
            M[at[i] : at[i + 1], at[j] : at[j + 1]] = left[i].T @ (middle[:, None] * left[j])
    M[:size, :size] += (R / diagonal) @ R.T
    M[np.arange(K), np.arange(K)] += now.budget / x.a
    M[np.arange(K, K + J), np.arange(K, K + J)] += now.level / x.h
    M[K : K + J, -1] = M[-1, K : K + J] = 1.0
    reduced = br + (cross * bP).sum(axis=0)
    b = np.concatenate([X.T @ (field * inverse * bP).sum(axis=1) for X, field in zip(left, fields, strict=True)])
    b += R @ (reduced / diagonal)
    b -= np.concatenate((now.budget - mu / x.a, now.level - mu / x.h, 1.0 - now.sums))
    try:
        y = np.linalg.solve(M, np.concatenate((b, [1.0 - x.h.sum()])))
    except np.linalg.LinAlgError:
        return None
    da, dh, dnu, dt = y[:K], y[K : K + J], y[K + J : size], float(y[-1])
    dr = (reduced - R.T @ y[:size]) / diagonal
    push = (B @ da)[:, None] * now.log + (C @ dh)[:, None] * costs + np.where(allowed, dnu[:, None], 0.0)
    dP = inverse * (bP - push) + cross * dr
    dU = np.where(allowed, (mu - x.U * dP) / np.where(allowed, x.P, 1.0) - x.U, 0.0)
    dv = (mu - x.v * dr) / x.r - x.v
    found = _State(dP, dr, dt, da, dh, dnu, dU, dv)
    return found if all(np.isfinite(part).all() for part in found) else None


def _room(x: _State, dx: _State) -> float:
    """How much of a step may be taken with all that is positive staying so."""
    room = math.inf
    for u, du in ((x.P, dx.P), (x.r, dx.r), (x.a, dx.a), (x.h, dx.h), (x.U, dx.U), (x.v, dx.v)):
        down = du < 0.0
        room = min(room, float((u[down] / -du[down]).min(initial=math.inf)))
    return room
