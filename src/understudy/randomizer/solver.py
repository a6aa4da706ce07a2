"""The randomizer problem: min sum p_i P_ij L_ij subject to I(Theta; ~Theta) <= I_0 (paper, problem (OP)).

This is the distortion-rate function of information theory. Its saddle form::

    D(I_0) = max over beta of min over q >= 0 of [ -sum_i p_i ln sum_j q_j exp(-beta L_ij) + sum q - 1 - I_0 ] / beta

has the law q of the pseudo parameter and the slope beta of the curve as its only unknowns. An
interior-point method finds both at once (`_kernels.interior`); `_kernels.finish` then makes the kernel
that will be sampled and proves how good it is. Here stand the cases around it: no budget at all, more
budget than is of use, forbidden pairs, and problems too large to factor whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.errors import DesignError, InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view

# care, clip and spread of the first attempt and of the careful ones after it (see `_kernels.interior`)
_ATTEMPTS = ((0.1, 1.0, 0.5, 60.0), (0.5, 0.5, 0.5, 120.0), (1.0, 0.25, 2.0, 200.0))

# The method stops at this gap; a design counts as optimal up to `TOLERANCE`.
_TARGET = 1e-11
TOLERANCE = 1e-9

_SMALL, _FORBIDDEN = kernels.limits()

# Above this size columns are generated.
_WHOLE = 512


class Solution(NamedTuple):
    """A kernel and its proof: lowest <= lowest + bound <= optimum <= lowest + excess."""

    kernel: Array
    lowest: float
    excess: float
    bound: float
    leakage: float
    iterations: int
    optimal: bool
    slope: float


class _Room:
    """The arrays that the kernels work in, for a problem of one size."""

    def __init__(self, m: int, n: int, p: Array) -> None:
        k = min(m, n)
        self.m, self.n, self.p = m, n, p
        self.A = np.empty((m, n))
        self.work = np.empty(10 * n + m + 3)
        self.small = k <= _SMALL
        self.H = np.empty(k * k if self.small else 0)
        self.d, self.x = self.work[4 * n : 5 * n], self.work[5 * n : 6 * n]

    def dense(self, solve: int) -> int:
        """Factor, or solve by the factor, with LAPACK: what `_kernels` does itself for small sizes."""
        from scipy.linalg.lapack import dpotrf, dpotrs

        wide = self.n > self.m
        if not solve:
            self.B = np.sqrt(self.p)[:, None] * self.A
            # the lower triangle of H + diag d, or by Woodbury of I + B diag(1/d) B'
            H = (self.B / self.d) @ self.B.T if wide else self.B.T @ self.B
            H[np.diag_indices_from(H)] += 1.0 if wide else self.d
            self.H, bad = dpotrf(H.T, lower=0, overwrite_a=1)
            return int(bad == 0)
        if wide:
            y = self.x / self.d
            self.x[:] = y - (self.B.T @ dpotrs(self.H, self.B @ y)[0]) / self.d
        else:
            self.x[:] = dpotrs(self.H, self.x)[0]
        return 1


class _Point(NamedTuple):
    """Where the interior-point method stopped."""

    q: Array
    slope: float
    gap: float
    steps: int


def _interior(L: Array, room: _Room, budget: float, slope: float, attempt: int) -> _Point:
    """One run from uniform q; a budget of NaN holds the slope fixed."""
    care, clip, spread, most = _ATTEMPTS[attempt]
    fixed = budget != budget
    s = np.array([budget, slope, care, clip, spread, 1e-14 if fixed else _TARGET, most, float(fixed), 0.0])
    q = np.full(room.n, 1.0 / room.n)
    gap = kernels.interior(
        view(L), room.m, room.n, view(room.p), view(s), view(q), view(room.A), view(room.work), view(room.H), room.dense
    )
    return _Point(q, s[1], gap, int(s[8]))


def _first_slope(L: Array, room: _Room, budget: float, best: int) -> float:
    q = np.full(room.n, 1.0 / room.n)
    n, m, work, p = room.n, room.m, room.work, room.p
    slope = kernels.slide(
        view(L), m, n, view(p), view(q), 1.0, budget, 0.1, 8,
        view(room.A), view(work[:n]), view(work[n : 2 * n]), view(work[-3:]),
    )  # fmt: skip
    return max(slope, budget, kernels.begin(view(L), m, n, view(p), best) if best >= 0 else 0.0)


class _Finished(NamedTuple):
    kernel: Array
    excess: float
    bound: float
    leakage: float
    slope: float
    rounding: float

    @property
    def optimal(self) -> bool:
        return bool(self.excess - self.bound <= TOLERANCE * self.excess + 2.0 * self.rounding)


def _finish(L: Array, room: _Room, budget: float, point: _Point, base: Array) -> _Finished:
    P = np.empty((room.m, room.n))
    s = np.array([budget, point.slope, 0.0, 0.0, 0.0, 0.0])
    q = point.q.copy()
    kernels.finish(
        view(L), room.m, room.n, view(room.p), view(q), view(s), view(base), view(room.A), view(room.work), view(P)
    )
    return _Finished(P, s[2], max(s[3], 0.0), s[4], s[1], s[5])


def information(prior: Array, kernel: Array) -> float:
    """I(Theta; ~Theta) of a kernel, in nats, to the last digits however small it is."""
    r = np.empty(2)
    m, n = kernel.shape
    kernels.information(view(np.ascontiguousarray(kernel)), m, n, view(prior), view(r))
    return float(r[0])


def _within(prior: Array, kernel: Array, budget: float) -> bool:
    r = np.empty(2)
    kernels.information(view(kernel), *kernel.shape, view(prior), view(r))
    return bool(max(r) <= budget * (1.0 - 4e-15))


def _least_information(L: Array, room: _Room, allowed: Any) -> tuple[Array, float]:
    """The kernel of least information that draws allowed pairs alone, and a bound below which none can be."""
    mask = np.where(allowed, 0.0, _FORBIDDEN)
    point = _interior(mask, room, float("nan"), 1.0, 0)
    q = point.q / point.q.sum()
    P = np.empty(L.shape)
    kernels.kernel(view(mask), room.m, room.n, view(room.p), view(q), 1.0, view(P), 0.0, view(P))
    return P, max(0.0, information(room.p, P) - point.gap - 1e-13)


def minimise(cost: Array, p: Array, budget: float) -> Solution:
    """The kernel of least expected cost with I(Theta; ~Theta) <= budget, and its proof."""
    m, n = cost.shape
    room = _Room(m, n, p)
    L, r = np.empty((m, n)), np.zeros(5)
    code = kernels.prepare(view(cost), m, n, view(p), view(L), view(room.work), view(r))
    if code:
        raise _bad_cost(code, cost, int(r[4]))
    lowest, scale, best, ties = r[0], r[1], int(r[2]), r[3] > 0.0

    if best >= 0:
        base, least = np.zeros((m, n)), 0.0
        base[:, best] = 1.0
    else:
        base, least = _least_information(L, room, L < _FORBIDDEN)
    base_cost = kernels.mean_cost(view(L), m, n, view(p), view(base))

    def solution(found: _Finished, steps: int, optimal: bool) -> Solution:
        return Solution(
            found.kernel, lowest, scale * found.excess, scale * found.bound, found.leakage, steps, optimal, found.slope / scale
        )

    if best < 0 and not _within(p, base, budget):
        raise InfeasibleError(
            f"leakage = {budget:.6g} nats; the forbidden (infinite) costs need at least {least:.6g} nats"
        )
    if scale == 0.0 or budget == 0.0:
        cost_now = 0.0 if scale == 0.0 else base_cost
        return Solution(base, lowest, scale * cost_now, scale * cost_now, 0.0, 0, True, float("inf"))

    if not ties:
        P = np.empty((m, n))
        kernels.saturated(view(L), m, n, view(P))
    else:
        P, _ = _least_information(L, room, L == 0.0)
    if _within(p, P, budget):
        return Solution(P, lowest, 0.0, 0.0, information(p, P), 0, True, float("inf"))

    if min(m, n) > _WHOLE:
        raise NotImplementedError
    slope = _first_slope(L, room, budget, best)
    steps = 0
    found = None
    for attempt in range(len(_ATTEMPTS)):
        point = _interior(L, room, budget, slope, attempt)
        steps += point.steps
        new = _finish(L, room, budget, point, base)
        if found is None or new.excess - new.bound < found.excess - found.bound:
            found = new
        if found.optimal:
            break
    return solution(found, steps, found.optimal)


def _bad_cost(code: int, cost: Array, position: int) -> DesignError:
    i, j = divmod(position, cost.shape[1])
    if code == 3:
        return InfeasibleError(f"row {i} of the costs is infinite throughout; each value needs an allowed pair")
    what = "is not a number" if code == 1 else f"is {cost[i, j]:.6g}"
    return DesignError(f"the cost in row {i}, column {j} {what}; costs must be 0 or more (infinite = forbidden)")
