"""The randomizer problem with constraints: how it is solved, and what is proven of the answer.

Problem (OP) of the paper asks for the kernel P of least expected cost sum p_i P_ij L_ij. Here it has further rules.
Every rule but the mutual information is linear in P and a few auxiliary unknowns of each column j::

    local DP            t_j <= P_ij,  e^-epsilon P_ij <= t_j
    maximal leakage     P_ij <= u_j,  sum_j u_j <= e^L
    pointwise leakage   e^-L P_ij <= r_j <= sum_k p_k P_kj
    Bayes error         p_i P_ij <= w_j,  sum_j w_j <= 1 - e
    total variation     o_j <= P_ij,  o_j <= P_kj,  sum_j o_j >= 1 - tau       for each pair of rows that needs it

So a program has the same rows G x_j <= 0 in each column x_j = (P_1j, .., P_mj, t_j, ..), each with one auxiliary, and
few rows across the columns, F sum_j x_j <= f. The steps:

1. `reduce_problem` merges rows that must coincide, and drops columns that nobody can draw.
2. Without a budget of mutual information the rest is a linear program for HiGHS (`solve_linear`). With one it is a
   convex program for a primal-dual interior-point method (`interior_point`).
3. The kernel is mixed with one that has room and rounded to whole numbers of 2^-53 until every rule holds in exact
   arithmetic (`make_exact`).
4. For any multipliers z, y >= 0 no kernel that keeps the rules costs less than ::

       sum_i min_j d_ij - y f + (parts of t, u, ..),       d = p L + z G

   and with nu >= 0 for the budget I_0, d / p takes the place of the costs in the dual bound of the distortion-rate
   function. `lower_bound` computes it, less what rounding may have added. A stored design keeps the multipliers, so
   that what it claims is proved again without solving anything (`Problem.prove`).
5. Where a linear program has several optima, the one of least information is taken (`Problem.tie_break`): found in
   the few coordinates that the optima have (`least_telling_optimum`), or with a small weight on the information.

`least_leakage_within` solves the problem from the other end: the least information at an acceptable distortion.
`least_distortion` is the plain problem with a demand on the Bayes error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from understudy._types import Array, Index, Mask
from understudy.errors import DesignError, InfeasibleError, NumericalError, StoredFileError
from understudy.randomizer.certificate import dual, prove
from understudy.randomizer.constraints import (
    Constraint,
    ErrorAtLeast,
    Exact,
    Floor,
    Forbidden,
    LocalDP,
    MaximalLeakage,
    Names,
    PointwiseLeakage,
    Same,
    TotalVariation,
    describe,
)
from understudy.randomizer.measures import step_room
from understudy.randomizer.solver import (
    FORBIDDEN,
    Multipliers,
    Solution,
    bounds_of,
    costs_at_most,
    follow_curve,
    information,
    least_leakage,
    minimise,
    within,
)

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array


TOLERANCE = 1e-7
"""A kernel counts as optimal up to this gap, relative to what it costs above the least possible."""
TIE = 1e-10
"""Of kernels that cost the same up to this, relative, one of least information is taken."""

# The program: rows of inequalities ------------------------------------------------------------------


class Program(NamedTuple):
    """Costs (m, n), zero where a pair is forbidden, and rows in the unknowns X (k, n): the kernel, then auxiliaries.

    Local rows G X <= 0, G (R, k), hold in each column. A row across, F X 1 <= f, F (K, k), bounds the sum of one
    auxiliary.
    """

    p: Array
    cost: Array
    allowed: Mask
    floor: float
    G: Array
    F: Array
    f: Array
    local_dp: bool = False  # whether the first rows and the first auxiliary are those of local DP, t_j <= P_ij

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows and columns of the kernel, and unknowns of a column."""
        return (*self.cost.shape, self.G.shape[1])

    @property
    def law(self) -> Array:
        """The prior, summing to one."""
        return self.p / math.fsum(self.p)


def write_program(
    p: Array,
    top: Array,
    cost: Array,
    allowed: Mask,
    floor: float,
    constraints: Sequence[Constraint],
    pairs: Sequence[tuple[int, int]] = (),
) -> Program:
    """The rows of all measures among the constraints; of the total variation those of the pairs of rows given."""
    m = len(p)
    eye, ones = np.eye(m), np.ones(m)
    local: list[tuple[Array, Array]] = []  # coefficients of P and of a new auxiliary
    sums: list[tuple[int, float, float]] = []  # an auxiliary whose sum over the columns, times a sign, has a limit
    strictest = _strictest(constraints)
    if LocalDP in strictest:
        local.append((np.vstack([-eye, math.exp(-strictest[LocalDP]) * eye]), np.concatenate([ones, -ones])))
    if MaximalLeakage in strictest:
        sums.append((len(local), 1.0, math.exp(min(strictest[MaximalLeakage], 700.0))))
        local.append((eye, -ones))
    if PointwiseLeakage in strictest:
        law = -p / math.fsum(p)
        local.append((np.vstack([math.exp(-strictest[PointwiseLeakage]) * eye, law]), np.append(-ones, 1.0)))
    if ErrorAtLeast in strictest:
        most = (1.0 - strictest[ErrorAtLeast]) * math.fsum(p) / float(top.max())
        scaled, beside = np.diag(top / top.max()), -ones
        if most <= 1.0 + 1e-12:
            # nothing may be gained by a guess: p_i P_ij <= w_j <= p_k P_kj with k the likeliest
            k = int(top.argmax())
            scaled[k, k] = -1.0
            beside = np.where(np.arange(m) == k, 1.0, -1.0)
        else:
            sums.append((len(local), 1.0, most))
        local.append((scaled, beside))
    for pair in pairs if TotalVariation in strictest else ():
        sums.append((len(local), -1.0, strictest[TotalVariation] - 1.0))
        local.append((-eye[list(pair)], np.ones(2)))
    G = np.zeros((sum(len(over) for over, _ in local), m + len(local)))
    F = np.zeros((len(sums), m + len(local)))
    at = 0
    for unknown, (over, beside) in enumerate(local, m):
        G[at : at + len(over), :m] = over
        G[at : at + len(over), unknown] = beside
        at += len(over)
    for row, (unknown, sign, _) in zip(F, sums, strict=True):
        row[m + unknown] = sign
    limits = np.array([limit for _, _, limit in sums])
    return Program(p, np.where(allowed, cost, 0.0), allowed, floor, G, F, limits, LocalDP in strictest)


def _strictest(constraints: Iterable[Constraint]) -> dict[type[Constraint], float]:
    """The limit of each kind of measure: the smallest, of errors the largest."""
    found: dict[type[Constraint], float] = {}
    for one in constraints:
        if one.measure:
            both = one.limit, found.get(type(one), one.limit)
            found[type(one)] = max(both) if isinstance(one, ErrorAtLeast) else min(both)
    return found


def interior_start(problem: Program, P: Array) -> Array:
    """All unknowns (k, n) for a kernel (m, n) that keeps every row with room: in the middle of that room."""
    m, n, k = problem.shape
    X = np.zeros((k, n))
    X[:m] = P
    rest = problem.G[:, :m] @ P
    for v in range(m, k):
        sign = problem.G[:, v, None]
        low = np.where(sign < 0.0, rest, -math.inf).max(axis=0)
        high = np.where(sign > 0.0, -rest, math.inf).min(axis=0)
        across = problem.F[:, v]
        if (across > 0.0).any():
            X[v] = low + 0.5 * (problem.f[across > 0.0].min() - low.sum()) / n
        elif (across < 0.0).any():
            X[v] = high - 0.5 * (high.sum() + problem.f[across < 0.0].min()) / n
        else:
            X[v] = np.sqrt(np.maximum(low, 0.0) * high)
    return X


# Lower bounds that any multipliers prove -------------------------------------------------------------

_ROUNDOFF = 2.0**-52
_DUAL_STEPS = 40  # of the law of the draw towards a better bound, at most


def lower_bound(problem: Program, by: Multipliers) -> float:
    """What the multipliers prove of a program without information: no kernel costs less."""
    n = problem.cost.shape[1]
    # with more digits than a double has: of a cost of 1e-9 those are soon used up
    d, constant = _charge(problem, by, np.longdouble)
    least = np.where(problem.allowed, d, math.inf).min(axis=1)
    rows = problem.floor * d.sum(axis=1) + (1.0 - n * problem.floor) * least
    size = problem.floor * np.abs(d).sum(axis=1) + np.abs(least)
    lost = (len(d) + n + 8) * np.finfo(d.dtype).eps * size.sum()
    found = float(rows.sum() + constant - lost)
    return found - 2.0 * _ROUNDOFF * abs(found)


def lower_bound_with_information(
    problem: Program, by: Multipliers, budget: float = 0.0, cost: float = 1.0, steps: int = 1
) -> float:
    """The same of `cost` times the cost and `nu` times the information above the budget."""
    p = problem.p
    d, constant = _charge(problem, by, np.float64, cost)
    if by.w.size:
        d = d - by.w * (1.0 + 4.0 * _ROUNDOFF)
        constant += problem.floor * float(by.w.sum()) * (1.0 - 1e-13)
    d = np.where(problem.allowed, d / p[:, None], math.inf)
    lost = 4.0 * _ROUNDOFF * np.where(problem.allowed, np.abs(d), 0.0).max(axis=1)
    least = d.min(axis=1)
    rows = (p * (least - 2.0 * lost)).tolist()
    L = np.where(problem.allowed, d - least[:, None], FORBIDDEN)
    # no kernel has an I + L / nu below this
    found = dual(L, p, np.maximum(by.q, 1e-300), 1.0 / by.nu, steps=steps)
    # a prior that sums to one up to rounding
    off = 2.0 * abs(math.fsum([*p.tolist(), -1.0])) + 1e-14 * budget
    return math.fsum([*rows, by.nu * (found.value - budget - off), constant])


def _charge(problem: Program, by: Multipliers, kind: type[np.floating], cost: float = 1.0) -> tuple[Array, float]:
    """What a pair costs with the multipliers (m, n), rounded down, and what is apart from the pairs."""
    G, F, m = problem.G, problem.F, len(problem.p)
    z = np.maximum(by.z, 0.0).astype(kind) if by.z.size else np.zeros((len(G), problem.cost.shape[1]), kind)
    y = np.maximum(by.y, 0.0).astype(kind) if by.y.size else np.zeros(len(F), kind)
    c = cost * problem.p[:, None].astype(kind) * problem.cost
    over = G.T @ z + (y @ F)[:, None]  # (k, n)
    few = (len(G) + len(F) + 12) * np.finfo(kind).eps
    # coefficients that are not 1 are rounded themselves, in every arithmetic
    size, rounded = np.abs(G), np.where(np.abs(G) == 1.0, 0.0, np.abs(G))
    off = few * (size.T @ z + (y @ np.abs(F))[:, None]) + 4.0 * _ROUNDOFF * (rounded.T @ z)
    d = c + over[:m] - few * c - off[:m]
    rest = over[m:] - off[m:]
    limits, most = y @ problem.f, y @ np.abs(problem.f)
    # the auxiliaries are between 0 and 1
    constant = np.minimum(rest, 0.0).sum() - limits - few * np.abs(rest).sum() - max(few, 4.0 * _ROUNDOFF) * most
    return d, float(constant)


# The interior-point method ---------------------------------------------------------------------------

_REFINED = (1e-2, 1e-5)  # below each of these sums of slack times multiplier a step is refined once more
_STEPS = 80
_TARGET = 2e-10  # the relative gap at which it stops
_CENTRED = 0.05  # how far towards the boundary a step aims at most
_FALL = 0.9  # by how much of itself a probability may fall in a step
_WORTH = 1e-2  # of the value: the sum of slack times multiplier from which on a bound is worked out
_PATIENCE = 8  # steps without a better gap
_NEAR = 0.99  # of the way to the boundary that a step may take


class Goal(NamedTuple):
    """Minimise cost * (expected cost) + information * (mutual information), the latter within a budget."""

    cost: float = 1.0
    information: float = 0.0
    budget: float = math.inf


class Centre(NamedTuple):
    """The best kernel found, with all unknowns (k, n), and the multipliers of the best bound."""

    X: Array
    value: float
    bound: float
    by: Multipliers
    steps: int


class _Step(NamedTuple):
    """A change of all unknowns and multipliers."""

    X: Array
    z: Array  # of the local rows
    w: Array  # of the floor
    y: Array  # of the rows across and of the budget
    slack: Array  # of the same
    sums: Array  # multipliers of the sums of the rows of the kernel


def interior_point(problem: Program, X: Array, goal: Goal, enough: float = -math.inf) -> Centre:
    """Reach the goal from unknowns `X` that keep every row with room; stop once the value is below `enough`."""
    state = _Iterate(problem, X, goal)
    best = Centre(X, math.inf, -math.inf, state.multipliers(), 0)
    left, mu, since = math.inf, math.inf, 0
    for step in range(_STEPS + 1):
        # far from the optimum a bound says little
        bound = state.bound() if state.mu * X.size < _WORTH * abs(state.value) or step == 0 else -math.inf
        if bound > best.bound:
            best = best._replace(bound=bound, by=state.multipliers())
        # what the budget is off by counts as well: a kernel that exceeds it may cost less than the optimum
        gap = abs(state.value + state.price * state.over - best.bound) + state.price * abs(state.off)
        since = 0 if gap < 0.9 * left or state.mu < 0.5 * mu else since + 1
        mu = min(mu, state.mu)
        if gap < left:
            left, best = gap, best._replace(X=state.X, value=state.value)
        best = best._replace(steps=step)
        if left <= _TARGET * abs(best.value) + 1e-15 or (state.over <= 0.0 and state.value < enough):
            break
        if since > _PATIENCE or not state.advance():
            break
    return best


class _Iterate:
    """Where the method stands: unknowns, slacks and multipliers.

    Slacks and multipliers of the local rows are eliminated from Newton's equations, then the auxiliaries, whose matrix
    is diagonal since a row has one of them, then P, a column at a time. A small positive definite system is left, in
    the multipliers of the rows across, of the budget and of the sums.
    """

    def __init__(self, problem: Program, X: Array, goal: Goal) -> None:
        m, n, k = problem.shape
        self.problem, self.goal, self.X = problem, goal, X
        self.limited = int(goal.budget < math.inf)
        self.c = np.zeros((k, n))
        self.c[:m] = problem.p[:, None] * problem.cost
        self.slack = np.zeros(len(problem.F) + self.limited)
        self._measure()
        self.slack = -self.residual
        self._measure()
        self.mu = 1.0 / self.room.size
        self.z, self.y = self.mu / self.s, self.mu / self.slack
        self.w = np.where(problem.allowed, self.mu / self.room, 0.0)
        self.sums = np.zeros(m)

    @property
    def price(self) -> float:
        """The multiplier of the budget."""
        return float(self.y[-1]) if self.limited else 0.0

    @property
    def off(self) -> float:
        """What the budget and its slack are off by."""
        return float(self.residual[-1]) if self.limited else 0.0

    def _measure(self) -> None:
        """Slacks, gradients and value at the unknowns."""
        problem, goal, X = self.problem, self.goal, self.X
        m, law = len(problem.p), problem.law
        P = X[:m]
        self.q = law @ P
        self.s = -(problem.G @ X)
        self.room = np.where(problem.allowed, P - problem.floor, 1.0)
        self.slope = np.zeros_like(X)
        with np.errstate(all="ignore"):
            self.slope[:m] = law[:, None] * np.log(np.where(problem.allowed, P / self.q, 1.0))
        cost, leakage = float((self.c * X).sum()), information(problem.p, np.ascontiguousarray(P).reshape(-1))
        self.value = goal.cost * cost + goal.information * leakage
        across = problem.F @ X.sum(axis=1) - problem.f
        self.over = leakage - goal.budget if self.limited else 0.0
        # the budget is curved, so its slack is an unknown of its own, and what both are off by is worked off
        self.residual = np.append(across, [self.over] * self.limited) + self.slack

    def multipliers(self) -> Multipliers:
        """In the form that proves a bound."""
        w = self.w if self.problem.floor > 0.0 else np.empty((0, 0))
        return Multipliers(self.z, self.y[: len(self.problem.F)], w, self.goal.information + self.price, self.q)

    def bound(self) -> float:
        """What the multipliers prove."""
        budget = self.goal.budget if self.limited else 0.0
        return lower_bound_with_information(self.problem, self.multipliers(), budget, self.goal.cost)

    def advance(self) -> bool:
        """One step; False where none can be made."""
        count = self.s.size + self.slack.size + int(self.problem.allowed.sum())
        mu = self.mu = self._complementarity() / count
        try:
            with np.errstate(all="ignore"):
                solve = self._factor()
                first = solve(0.0, 0)
                sigma = (self._complementarity(first, *self._reach(first)) / count / mu) ** 2
                step = solve(min(1.0, max(_CENTRED, sigma)) * mu, sum(mu * count < x for x in _REFINED))
        except np.linalg.LinAlgError:
            return False
        if not all(np.isfinite(part).all() for part in step):
            return False
        a, b = (min(1.0, _NEAR * x) for x in self._reach(step))
        # a logarithm is not what its tangent says where a probability falls to nothing at once
        a = min(a, _FALL * step_room(self.room, step.X[: len(self.problem.p)]))
        before = self.X, self.slack
        self.X, self.slack = self.X + a * step.X, self.slack + a * step.slack
        self._measure()
        if not ((self.s > 0.0).all() and (self.room > 0.0).all()):
            self.X, self.slack = before
            self._measure()
            return False
        self.z, self.w, self.y = self.z + b * step.z, self.w + b * step.w, self.y + b * step.y
        self.sums = self.sums + b * step.sums
        return True

    def _factor(self) -> Callable[[float, int], _Step]:
        """Newton's equations, factored: a function from the wanted slack times multiplier to a step."""
        problem, (m, n, k), T = self.problem, self.problem.shape, len(self.slack)
        G, K, law, free = problem.G, len(problem.F), problem.law, problem.allowed
        P, each = np.where(free, self.X[:m], 1.0), np.arange(m)
        curved = self.goal.information + self.price
        weights = self.z / self.s
        # the auxiliaries: their diagonal (k - m, n), and what couples them to P (n, m, k - m)
        own = 1.0 / ((G[:, m:] ** 2).T @ weights)
        weighted = G[:, :m].T * weights.T[:, None]
        B = weighted @ G[:, m:]
        blocks = weighted @ G[:, :m] - (B * own.T[:, None]) @ B.transpose(0, 2, 1)
        blocks *= free.T[:, :, None] & free.T[:, None]
        blocks[:, each, each] += np.where(free, curved * law[:, None] / P + self.w / self.room, 1.0).T
        scale = 1.0 / np.sqrt(blocks[:, each, each])
        both = scale[:, :, None] * scale[:, None]
        inverse = np.linalg.inv(blocks * both) * both * (free.T[:, :, None] & free.T[:, None])  # (n, m, m)
        # rows over P and over the auxiliaries: across, of the budget, of the sums
        U = np.zeros((n, T + m, m))
        U[:, K:T] = self.slope[:m].T[:, None]
        U[:, T + each, each] = 1.0
        beside = np.zeros((T + m, k - m))
        beside[:K] = problem.F[:, m:]
        C = U - (beside * own.T[:, None]) @ B.transpose(0, 2, 1)
        V, H = C @ inverse, law @ inverse  # (n, T + m, m), (n, m)
        S = np.empty((n + T + m, n + T + m))
        S[n:, n:] = (V @ C.transpose(0, 2, 1)).sum(axis=0) + (beside * own.sum(axis=1)) @ beside.T
        S[n + np.arange(T), n + np.arange(T)] += self.slack / self.y
        S[n:, :n] = -(V @ law).T
        S[:n, n:] = S[n:, :n].T
        S[:n, :n] = np.diag(H @ law)
        unit = 1.0 / np.sqrt(S.diagonal())
        S[np.arange(n), np.arange(n)] -= self.q / curved
        small = np.linalg.inv(S * np.outer(unit, unit)) * np.outer(unit, unit)
        gradient = self.goal.cost * self.c + curved * self.slope + G.T @ self.z
        gradient += (self.y[:K] @ problem.F)[:, None]
        gradient[:m] += self.sums[:, None] - self.w
        gradient[:m] = np.where(free, gradient[:m], 0.0)

        def base(right: Array, wanted: Array) -> tuple[Array, Array]:
            leaves = own * right[m:]
            over = right[:m].T - (B @ leaves.T[:, :, None])[:, :, 0]  # (n, m)
            side = np.einsum("jtm,jm->t", V, over) + beside @ leaves.sum(axis=1)
            u = small @ np.concatenate([-(H * over).sum(axis=1), side - wanted])
            bend, dual = u[:n, None], u[n:]
            dX = np.empty((k, n))
            dX[:m] = ((inverse @ over[:, :, None])[:, :, 0] + H * bend - np.einsum("jtm,t->jm", V, dual)).T
            dX[m:] = leaves - own * ((dX[:m].T[:, None] @ B)[:, 0].T + (dual @ beside)[:, None])
            return dX, dual

        def left(dX: Array, dual: Array) -> tuple[Array, Array]:
            x = G.T @ (weights * (G @ dX)) + (dual[:K] @ problem.F)[:, None] + dual[K:T].sum() * self.slope
            dP = dX[:m]
            x[:m] += curved * law[:, None] * (dP / P - law @ dP / self.q) + self.w / self.room * dP + dual[T:, None]
            x[:m] = np.where(free, x[:m], 0.0)
            return x, np.append(self.across(dX) - self.slack / self.y * dual[:T], dP.sum(axis=1))

        def solve(target: float, refined: int) -> _Step:
            z, w, y = target - self.z * self.s, target - self.w * self.room, target - self.y * self.slack
            right = -gradient - G.T @ (z / self.s)
            right[:m] += np.where(free, w / self.room, 0.0)
            wanted = np.append(-self.residual - y / self.y, 1.0 - self.X[:m].sum(axis=1))
            dX, dual = base(right, wanted)
            for _ in range(refined):
                x, u = left(dX, dual)
                more = base(right - x, wanted - u)
                dX, dual = dX + more[0], dual + more[1]
            return _Step(
                dX,
                (z + self.z * (G @ dX)) / self.s,
                np.where(free, (w - self.w * dX[:m]) / self.room, 0.0),
                dual[:T],
                -self.residual - self.across(dX),
                dual[T:],
            )

        return solve

    def across(self, X: Array) -> Array:
        """The rows across and the budget, applied to a change of the unknowns."""
        return np.append(self.problem.F @ X.sum(axis=1), [float((self.slope * X).sum())] * self.limited)

    def _reach(self, step: _Step) -> tuple[float, float]:
        """How far unknowns and multipliers can go with every slack and every multiplier positive."""
        a = min(
            step_room(self.s, -(self.problem.G @ step.X)),
            step_room(self.slack, step.slack),
            step_room(self.room, step.X[: len(self.problem.p)]),
        )
        b = min(step_room(self.z, step.z), step_room(self.y, step.y), step_room(self.w, step.w))
        return min(1.0, a), min(1.0, b)

    def _complementarity(self, step: _Step | None = None, a: float = 0.0, b: float = 0.0) -> float:
        """The sum of slack times multiplier, here or after a step."""
        if step is None:
            return float((self.s * self.z).sum() + self.slack @ self.y + (self.room * self.w).sum())
        s = self.s - a * (self.problem.G @ step.X)
        room = self.room + a * step.X[: len(self.problem.p)]
        across = (self.slack + a * step.slack) @ (self.y + b * step.y)
        return float((s * (self.z + b * step.z)).sum() + across + (room * (self.w + b * step.w)).sum())


# The linear program, for HiGHS (Huangfu and Hall, 2018) ----------------------------------------------

# these programs have little that a presolve finds, and it takes longer than it saves
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False}
# method, options, and where costs are cut off; a kernel or a bound that comes of such costs is as good as another
_ATTEMPTS: tuple[tuple[str, dict[str, float], float], ...] = (
    ("highs", _TIGHT, math.inf),
    ("highs", {}, 1e6),
    ("highs-ipm", {}, 1e4),
)
_INFEASIBLE = 2
_SMALL = 4_000  # entries of a matrix up to which scipy is quicker with all of them than with those that count
_CLOSE_BY = 1e-4  # how far a kernel close by may be
_MET = 1e-9  # a slack or a price that is less is none
_LESS = 1e-7  # nats; an optimum that has less information by less is as good
_NOISE = 1e-12  # entries of a linear program that are less are its rounding
_DENSE = 400  # unknowns up to which equations are solved with all entries of their matrix
_DIMENSIONS = 64  # of the optima up to which a tie is broken in their own coordinates
_FIRST_SLACK = 0.3  # of what a vertex meets
_CLOSE = 1e-10  # the sum of slack times multiplier, nats, at which the optimum of least information is reached


class Linear(NamedTuple):
    """Minimise c x subject to A x <= b, E x = e and bounds; x are the unknowns (k, n) in one row.

    Local DP has s_ij = P_ij - t_j >= 0 in place of P_ij, where that is all there is to be bounded from below: bounds in
    place of rows take a quarter of the time at 32 x 32. `shift` is then the place of t, otherwise 0.
    """

    c: Array
    A: csr_array
    b: Array
    E: csr_array
    e: Array
    lowest: Array
    highest: Array
    shift: int = 0


class Vertex(NamedTuple):
    """The solution of a linear program: the kernel, the multipliers of the rows, and what HiGHS said."""

    P: Array
    by: Multipliers
    program: Linear
    result: OptimizeResult


def solve_linear(problem: Program, near: Array | None = None, reach: float = _CLOSE_BY) -> Vertex | None:
    """The kernel of least cost that keeps the rows; None where there is none.

    With `near` the one of those in which no probability is further from it than `reach`.
    """
    m, n, k = problem.shape
    linear = _write_linear(problem, problem.local_dp and near is None)
    if near is not None:
        around = np.vstack([near, np.full((k - m, n), 0.5)])
        reaches = np.where(np.arange(k) < m, reach, 1.0)[:, None]
        lowest = np.maximum(linear.lowest, (around - reaches).ravel())
        highest = np.minimum(linear.highest, np.maximum((around + reaches).ravel(), lowest))
        linear = linear._replace(lowest=lowest, highest=highest)
    result = _call_highs(linear)
    if result is None:
        return None
    prices, X = np.maximum(-result.ineqlin.marginals, 0.0), result.x.reshape(k, n)
    rows = len(prices) - len(problem.F)
    z, P = prices[:rows].reshape(-1, n), X[:m]
    if linear.shift:
        z = np.vstack([np.maximum(result.lower.marginals.reshape(k, n)[:m], 0.0), z])
        P = P + X[linear.shift]
    return Vertex(P, Multipliers(z, prices[rows:]), linear, result)


def _write_linear(problem: Program, shift: bool = False) -> Linear:
    """A program as matrices."""
    (m, n, k), G, F, sums = problem.shape, problem.G, problem.F, np.eye(*problem.shape[::2])
    c, lowest, highest = np.zeros((k, n)), np.zeros((k, n)), np.ones((k, n))
    c[:m] = problem.p[:, None] * problem.cost
    lowest[:m] = np.where(problem.allowed, problem.floor, 0.0)
    highest[:m] = problem.allowed
    shift = shift and problem.floor == 0.0 and bool(problem.allowed.all())
    if shift:
        # P_ij = s_ij + t_j, t being the first auxiliary
        G = G[m:].copy()
        G[:, m] += G[:, :m].sum(axis=1)
        c[m] += c[:m].sum(axis=0)
        sums[:, m] = 1.0
    b = np.concatenate([np.zeros(len(G) * n), problem.f])
    A, E = _matrix(G, F, n), _matrix(np.empty((0, k)), sums, n)
    return Linear(c.ravel(), A, b, E, np.ones(m), lowest.ravel(), highest.ravel(), m if shift else 0)


def _matrix(local: Array, across: Array, n: int) -> csr_array:
    """Rows (R, k) that hold in each of n columns, and rows (K, k) over all columns, as one matrix."""
    from scipy.sparse import csr_array

    (i, v), (h, u), j = np.nonzero(local), np.nonzero(across), np.arange(n)
    data = np.repeat(np.concatenate([local[i, v], across[h, u]]), n)
    where = np.concatenate([(i[:, None] * n + j).ravel(), np.repeat(h, n) + len(local) * n])
    which = (np.concatenate([v, u])[:, None] * n + j).ravel()
    return csr_array((data, (where, which)), shape=(len(local) * n + len(across), local.shape[1] * n))


def _call_highs(linear: Linear) -> OptimizeResult | None:
    """The optimum, or None where there is none."""
    from scipy.optimize import linprog

    A, E = (x.toarray() if math.prod(x.shape) <= _SMALL else x for x in (linear.A, linear.E))
    b, e = linear.b, linear.e
    bounds = np.stack([linear.lowest, linear.highest], axis=1)
    for method, options, most in _ATTEMPTS:
        c = np.clip(linear.c, -most, most)
        result = linprog(c, A_ub=A, b_ub=b, A_eq=E, b_eq=e, bounds=bounds, method=method, options=options)
        if result.x is not None:
            return result
        if result.status == _INFEASIBLE:
            return None
    raise NumericalError(f"the linear program was not solved: {result.message}")


class Priced(NamedTuple):
    """What every optimum shares with a vertex: unknowns that are held, and rows that are met, since they have a price.

    `spare` is what the vertex may leave to others: unknowns that are not held, less rows that are met. A vertex is the
    only optimum if all outside its basis has a price, that is, if none is to spare.
    """

    held: Mask
    met: Mask
    spare: int


def find_prices(vertex: Vertex) -> Priced:
    """What has a price at a vertex."""
    result = vertex.result
    lower, upper, equal = result.lower, result.upper, result.eqlin
    held = np.abs(lower.marginals) + np.abs(upper.marginals) > _MET
    stuck = np.maximum(lower.residual, upper.residual) <= _MET
    met = np.abs(result.ineqlin.marginals) > _MET
    if (held | stuck | (np.minimum(lower.residual, upper.residual) > _MET)).all() and (
        met | (result.ineqlin.residual > _MET)
    ).all():
        return Priced(held | stuck, met, 0)
    spare = int((~held).sum()) - int(met.sum()) - int((np.abs(equal.marginals) > _MET).sum())
    return Priced(held | stuck, met, max(spare, 0))


def has_less_telling_optimum(problem: Program, vertex: Vertex, priced: Priced) -> bool:
    """Whether another kernel is as cheap and has less information.

    The information is convex: it is least at the vertex if its derivative towards no other optimum is negative. That
    is one more linear program, in the unknowns that are not held.
    """
    from scipy.sparse import vstack

    if not priced.spare:
        return False
    result, linear, (m, n, k) = vertex.result, vertex.program, problem.shape
    P, x, free = np.maximum(vertex.P, 0.0), result.x, ~priced.held
    slope = np.zeros((k, n))
    slope[:m] = problem.law[:, None] * np.log(np.maximum(P, _NOISE) / np.maximum(problem.law @ P, _NOISE))
    if linear.shift:
        slope[linear.shift] = slope[:m].sum(axis=0)
    A, lowest, highest = linear.A[:, free], np.minimum(linear.lowest, x), np.maximum(linear.highest, x)
    goal, x, other = slope.ravel()[free], x[free], ~priced.met
    equal = vstack([linear.E[:, free], A[priced.met]], format="csr")
    most = A[other] @ x + np.maximum(result.ineqlin.residual[other], 0.0)
    found = _call_highs(Linear(goal, A[other], most, equal, equal @ x, lowest[free], highest[free]))
    return found is None or found.fun < goal @ x - _LESS


def least_telling_optimum(problem: Program, vertex: Vertex, priced: Priced) -> Array | None:
    """The optimum of least information, a kernel (m, n) in floats; None where the optima have too many dimensions.

    The optima are x + Z t for the vertex x, where Z spans the null space of the rows that all of them meet, in the
    unknowns that are not held, and C t <= c is what is left of the bounds and of the other rows. The information is
    convex in t, which has few dimensions.
    """
    from scipy.sparse import vstack
    from scipy.sparse.linalg import splu

    result, linear, (m, n, k) = vertex.result, vertex.program, problem.shape
    free = np.flatnonzero(~priced.held)
    A, d = linear.A[:, free], free.size - len(linear.e) - int(priced.met.sum())
    if not 0 < d <= _DIMENSIONS:
        return None
    # d more rows, whichever, make the rows a regular matrix
    rows = [linear.E[:, free], A[priced.met], np.random.default_rng(0).standard_normal((d, free.size))]
    unit = np.eye(free.size)[:, -d:]
    matrix = vstack(rows, format="csc")
    try:
        Z = np.linalg.solve(matrix.toarray(), unit) if free.size <= _DENSE else splu(matrix).solve(unit)
    except (np.linalg.LinAlgError, RuntimeError):
        return None  # rows that depend on each other
    whole = np.zeros((k, n, d))
    whole.reshape(k * n, d)[free] = Z
    kernel = whole[:m] + whole[linear.shift] if linear.shift else whole[:m]
    P = np.maximum(vertex.P, 0.0)
    # that P is not negative, and so at most 1, is seen to without a row
    beside = free >= m * n
    low = beside | (linear.shift > 0) | (problem.floor > 0.0)
    # nor is one needed that is about one unknown, which is not negative
    other = ~priced.met & ~((np.diff(A.indptr) == 1) & (A.sum(axis=1) < 0.0))
    C = np.vstack([-Z[low], Z[beside], A[other] @ Z])
    c = [result.lower.residual[free[low]], result.upper.residual[free[beside]], result.ineqlin.residual[other]]
    there = np.abs(C).max(axis=1) > _MET
    t = _least_telling_step(problem.law, P, kernel, C[there], np.maximum(np.concatenate(c)[there], 0.0))
    return None if t is None else np.maximum(P + kernel @ t, 0.0)


def _least_telling_step(law: Array, P: Array, Z: Array, C: Array, c: Array) -> Array | None:
    """The t of least information of P + Z t, with C t <= c and no probability negative; None where it is not reached.

    A primal-dual interior-point method: s = c - C t are slacks, z their multipliers, both positive. It starts at a
    vertex, t = 0, with slacks that are too large, and works off what they are too large by. The first slacks are the
    probabilities that t changes.
    """
    moved = np.abs(Z).max(axis=2) > _MET
    row, column = np.nonzero(moved)
    weight, still = law[row], law @ np.where(moved, 0.0, P)
    # of the probabilities, and of those of the columns
    Z, Q = Z[moved], np.tensordot(law, np.where(moved[:, :, None], Z, 0.0), 1)
    C, c = np.vstack([-Z, C]), np.concatenate([P[moved], c])
    t, s = np.zeros(C.shape[1]), np.maximum(c, _FIRST_SLACK)
    if not moved.any():
        return t
    z, least, since = _FIRST_SLACK / s, math.inf, 0

    def step(inverse: Array, gradient: Array, off: Array, target: float) -> tuple[Array, Array, Array]:
        wanted = target - s * z
        dt = -inverse @ (gradient + C.T @ ((wanted + z * off) / s))
        ds = -off - C @ dt
        return dt, ds, (wanted - z * ds) / s

    for _ in range(_STEPS):
        off, gap, p = C @ t + s - c, float(s @ z), s[: len(weight)]
        least, since = (gap, 0) if gap < 0.5 * least else (least, since + 1)
        if (gap < _CLOSE and np.abs(off).max() < 0.01 * _CLOSE) or since > _PATIENCE:
            break
        q = still + np.bincount(column, weight * p, still.size)
        gradient = Z.T @ (weight * np.log(p / q[column])) + C.T @ z
        # the second derivatives of the information, and what the slacks add
        H = (Z.T * (weight / p)) @ Z - (Q.T / np.where(q > 0.0, q, 1.0)) @ Q + (C.T * (z / s)) @ C
        try:
            inverse = np.linalg.inv(H)
        except np.linalg.LinAlgError:
            break
        _, ds, dz = step(inverse, gradient, off, 0.0)
        a, b = 1.0 / max(1.0, float((-ds / s).max())), 1.0 / max(1.0, float((-dz / z).max()))
        target = gap / s.size * (float((s + a * ds) @ (z + b * dz)) / gap) ** 3
        dt, ds, dz = step(inverse, gradient, off, target)
        a = 1.0 / max(1.0, float((-ds / s).max()) / _NEAR, float((-dz / z).max()) / _NEAR)
        if not math.isfinite(float(dt.sum())):
            break
        t, s, z = t + a * dt, s + a * ds, z + a * dz
    if float(s @ z) > _LESS:
        return None
    # what is met is met to the last digits
    met = z > s
    t = t + np.linalg.lstsq(C[met], c[met] - C[met] @ t, rcond=None)[0]
    return t if float((C @ t - c).max()) < _NOISE else None


def roomiest(problem: Program) -> tuple[Array, float] | None:
    """Unknowns that keep every row and every bound with the most room, and that room; None where there are none."""
    from scipy.sparse import csr_array, hstack, vstack

    (m, n, k), linear = problem.shape, _write_linear(problem)
    entries = np.flatnonzero(problem.allowed.ravel())
    # P_ij - room >= floor for allowed pairs, and room in every row
    unit = csr_array((-np.ones(entries.size), (np.arange(entries.size), entries)), shape=(entries.size, k * n))
    A = vstack([linear.A, unit])
    lowest, highest = linear.lowest.reshape(k, n).copy(), linear.highest.reshape(k, n).copy()
    lowest[m:], highest[m:] = -2.0, 2.0
    result = _call_highs(
        Linear(
            np.append(np.zeros(k * n), -1.0),
            hstack([A, np.ones((A.shape[0], 1))], format="csr"),
            np.concatenate([linear.b, -linear.lowest[entries]]),
            hstack([linear.E, np.zeros((m, 1))], format="csr"),
            linear.e,
            np.append(lowest, 0.0),
            np.append(highest, 1.0),
        )
    )
    return None if result is None else (result.x[:-1].reshape(k, n), float(result.x[-1]))


# From a matrix of floats to a kernel that keeps every constraint exactly ----------------------------

_UNIT = 1 << 53
# a little more than asked where there is room, so that measures in floating point say the same
_SPARE = Fraction(1, 2**48)
_LITTLE = -36  # the power of two up to which a part of the other kernel is mixed in

Check = Callable[[Array, Fraction], bool]
"""Whether a kernel keeps all that is asked, with a share of each limit to spare."""


def round_rows(P: Array, floor: float) -> Array:
    """Rows in whole numbers of 2^-53 that sum to one, none below the floor; the largest takes what is left.

    >>> round_rows(np.array([[0.1, 0.2, 0.7]]), 0.125).round(6).tolist()
    [[0.125, 0.2, 0.675]]
    """
    counts = np.rint(np.maximum(P, floor) * float(_UNIT)).astype(np.int64)
    counts[np.arange(len(P)), P.argmax(axis=1)] += _UNIT - counts.sum(axis=1)
    return counts / float(_UNIT)


def make_exact(P: Array, inner: Array, floor: float, check: Check, room: bool = True) -> Array | None:
    """The least mixture of P with `inner` that passes the check, rounded; None where not even `inner` itself does.

    A pair that is never drawn should not be drawn for the sake of a rounding error, so the part of `inner` that leaves
    zeros what they are is tried first. Without `room` nothing is left to spare: less is mixed in.
    """
    zeros = (P == 0.0) & (inner > 0.0)
    part = np.where(P > 0.0, inner, 0.0)
    sums = part.sum(axis=1, keepdims=True)
    for spare in (_SPARE, Fraction(0)) if room else (Fraction(0),):
        found = None
        if zeros.any() and (sums > 0.0).all() and floor == 0.0:
            found = _least_mixture(P, part / sums, floor, check, spare, _LITTLE)
        if found is None:
            found = _least_mixture(P, inner, floor, check, spare)
        if found is not None:
            return found
    return None


def _least_mixture(P: Array, inner: Array, floor: float, check: Check, spare: Fraction, most: int = 0) -> Array | None:
    """A mixture with the least power of two, up to 2^most, that passes the check."""

    def mixture(power: int) -> Array | None:
        share = 2.0**power if power > -54 else 0.0
        found = round_rows((1.0 - share) * P + share * inner, floor)
        return found if check(found, spare) else None

    low, found = -54, mixture(-54)
    if found is not None:
        return found
    for high in range(-52, most + 1, 4):
        found = mixture(high)
        if found is not None:
            break
        low = high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        less = mixture(middle)
        low, high, found = (middle, high, found) if less is None else (low, middle, less)
    return found


# What can be taken out: rows that coincide, pairs that are never drawn --------------------------------


class Reduction(NamedTuple):
    """The problem that is left: a row for each group that can occur, a column for each that can be drawn.

    `cost` is above `lowest`, what the cheapest pair of each value costs; infinite where a pair is forbidden.
    `top` is the largest probability in each group, `floor` what each entry is at least.
    """

    groups: tuple[tuple[int, ...], ...]
    never: tuple[tuple[int, ...], ...]  # groups that cannot occur
    columns: Index
    p: Array
    top: Array
    cost: Array
    lowest: float
    floor: float
    open: Mask  # of all values and columns: whether the pair may be drawn
    dear: Array  # costs of all values above their cheapest allowed pair

    @property
    def allowed(self) -> Mask:
        """Which pairs may be drawn."""
        return np.isfinite(self.cost)


def reduce_problem(
    cost: Array, p: Array, constraints: Sequence[Constraint], budget: float = math.inf, names: Names | None = None
) -> Reduction:
    """Merge rows that must coincide, and drop values and pairs that cannot occur.

    Rows that must coincide are one row, with the sum of their probabilities and the mean of their costs. A measure with
    a limit of 0 makes all rows coincide. Local differential privacy lets no column be drawn that is forbidden to some
    value. An `InfeasibleError` says where nothing is left.
    """
    names = names or Names()
    n = cost.shape[1]
    free = np.isfinite(cost)
    for one in constraints:
        if isinstance(one, Forbidden):
            for i, j in one.pairs:
                free[i, j] = False
    for i in np.flatnonzero(~free.any(axis=1)).tolist():
        raise InfeasibleError(
            f"{names.row(i)}: every pair is forbidden ({_because(cost[i])}); each value needs an allowed pair"
        )
    floor = _floor(constraints, cost, free, names)
    groups, reasons = _groups(p, constraints, budget)
    for group in groups:
        free[list(group)] = free[list(group)].all(axis=0)
        if not free[group[0]].any():
            raise InfeasibleError(
                f"{names.rows(group)} must be treated alike ({' and '.join(reasons)}), and no "
                f"{names.a_column} is allowed to all of them; allow one, or let them differ"
            )
    there = [g for g in groups if p[list(g)].max() > 0.0]
    rows = [i for g in there for i in g]
    columns = np.arange(n)
    strict = [one for one in constraints if isinstance(one, LocalDP)]
    if strict:
        columns = np.flatnonzero(free[rows].all(axis=0))
        if columns.size == 0:
            raise InfeasibleError(
                f"{describe(strict[0])} with forbidden pairs: every pseudo value is forbidden to some value, and local "
                "differential privacy needs one that all may draw"
            )
        free[rows] &= np.isin(np.arange(n), columns)
    allowed = free.copy()
    gone, forcing = _find_forced(p, rows, constraints, free)
    free[rows] &= ~gone
    for i in np.flatnonzero(~free.any(axis=1)).tolist():
        others = [k for k in rows if not allowed[k, allowed[i]].all()]
        raise InfeasibleError(
            f"{' and '.join(forcing)} with forbidden pairs: {names.row(i)} may draw no {names.a_column} without "
            f"telling too much, since each that it may draw is forbidden to others ({names.rows(others)}); allow more"
        )
    columns = columns[free[rows][:, columns].any(axis=0)]
    least = np.where(free, cost, math.inf).min(axis=1)
    dear = np.where(free, cost - least[:, None], math.inf)
    weights = np.array([math.fsum(p[list(g)]) for g in there])
    merged = np.empty((len(there), columns.size))
    for k, g in enumerate(there):
        part = [i for i in g if p[i] > 0.0]
        merged[k] = dear[part[0], columns] if len(part) == 1 else (p[part] / weights[k]) @ dear[part][:, columns]
        merged[k][~free[g[0], columns]] = math.inf  # of values that cannot occur as well
    top = np.array([p[list(g)].max() for g in there])
    lowest = math.fsum((p[rows] * least[rows]).tolist())
    never = tuple(g for g in groups if not p[list(g)].max() > 0.0)
    return Reduction(tuple(there), never, columns, weights, top, merged, lowest, floor, free, dear)


def expand(problem: Reduction, kernel: Array) -> Array:
    """The kernel of all values from that of the groups; entries are whole numbers of 2^-53 before and after."""
    P = np.zeros(problem.open.shape)
    there = np.array([i for g in problem.groups for i in g])
    of = np.repeat(np.arange(len(problem.groups)), [len(g) for g in problem.groups])
    P[np.ix_(there, problem.columns)] = kernel[of]
    rows = [g[0] for g in problem.groups]
    for g in problem.never:
        members, free = list(g), problem.open[g[0]]
        dear = np.where(free, problem.dear[members].max(axis=0), 0.0)
        fits = [k for k in rows if not (P[k] > 0.0)[~free].any()]
        if fits:
            # like another value: no measure would be larger if this one could occur
            P[members] = P[min(fits, key=lambda k: float(P[k] @ dear))]
        else:
            P[members, int(np.where(free, dear, math.inf).argmin())] = 1.0
    return P


def _floor(constraints: Sequence[Constraint], cost: Array, free: Mask, names: Names) -> float:
    """What every entry is at least, as a number that can be drawn."""
    floors = [one for one in constraints if isinstance(one, Floor) and one.at_least > 0.0]
    if not floors:
        return 0.0
    most = max(floors, key=lambda one: one.at_least)
    n = cost.shape[1]
    least = math.ceil(most.at_least * float(_UNIT))  # a power of two times a double: exact
    if n * least > _UNIT:
        close = abs(n * most.at_least - 1.0) < 1e-9
        told = f"{least / _UNIT!r} (in whole numbers of 2^-53)" if close else f"{least / _UNIT:.6g}"
        raise InfeasibleError(
            f"{describe(most)}: {n} probabilities of at least {told} sum to more than 1; "
            f"at most {_UNIT // n / _UNIT!r} can be asked"
        )
    if not free.all():
        i, j = np.argwhere(~free)[0].tolist()
        raise InfeasibleError(
            f"{describe(most)}: {names.row(i)} may not draw {names.column(j)} ({_because(cost[i, j])}), and is asked "
            "to; a floor and forbidden pairs do not go together"
        )
    return least / _UNIT


def _find_forced(p: Array, rows: list[int], constraints: Sequence[Constraint], free: Mask) -> tuple[Mask, list[str]]:
    """Columns that nobody can draw because of those to whom they are forbidden, and the constraints that say so.

    With a pointwise leakage max_i P_ij <= e^L r_j <= e^L (probability of those who may draw j) max_i P_ij. Where
    nothing may be gained by a guess, p_i P_ij <= p_k P_kj for the likeliest value k.
    """
    gone, forcing = np.zeros(free.shape[1], dtype=bool), []
    for one in constraints:
        if isinstance(one, PointwiseLeakage):
            share = (np.where(free[rows], p[rows][:, None], 0.0)).sum(axis=0) / p[rows].sum()
            gone |= math.exp(one.nats) * share < 1.0 - 1e-12
            forcing.append(describe(one))
        elif isinstance(one, ErrorAtLeast) and _guessless(one, p):
            if one.error >= 1.0 - float(p.max()) / math.fsum(p):
                gone |= ~free[int(p.argmax())]
            forcing.append(describe(one))
    return gone, forcing


def _because(costs: Array) -> str:
    """By what pairs with these costs are forbidden."""
    infinite = np.isinf(costs)
    if infinite.all():
        return "infinite costs" if infinite.size > 1 else "its cost is infinite"
    return "Forbidden and infinite costs" if infinite.any() else "Forbidden"


def _groups(p: Array, constraints: Sequence[Constraint], budget: float) -> tuple[list[tuple[int, ...]], list[str]]:
    """The values in groups whose rows coincide, in the order of their first; and what makes them coincide."""
    home, reasons = np.arange(len(p)), []

    def join(members: Sequence[int] | Index, reason: str) -> None:
        homes = home[list(members)]
        home[np.isin(home, homes)] = homes.min(initial=len(p))
        if reason not in reasons:
            reasons.append(reason)

    there = np.flatnonzero(p > 0.0)
    if budget == 0.0:
        join(there, "leakage = 0")
    for one in constraints:
        if isinstance(one, Same):
            for group in one.groups:
                join(group, "Same")
        elif isinstance(one, ErrorAtLeast):
            if _guessless(one, p):
                # values that are likeliest alike are drawn alike
                join(np.flatnonzero(p == p.max()), f"{describe(one)}, where nothing may be gained by a guess")
        elif one.measure and one.limit == 0.0:
            join(there, describe(one))
    found: dict[int, list[int]] = {}
    for i, h in enumerate(home.tolist()):
        found.setdefault(h, []).append(i)
    return [tuple(g) for g in found.values()], reasons


def _guessless(one: ErrorAtLeast, p: Array) -> bool:
    """Whether nothing may be gained by a guess."""
    return one.error >= 1.0 - float(p.max()) / math.fsum(p) - _ERROR_ROUNDING


_ERROR_ROUNDING = 1e-15  # by which an error may be above the largest that can be asked


def _largest_error(p: Array) -> Fraction:
    """How often the likeliest value is a wrong guess."""
    weights = [Fraction(x) for x in p.tolist()]
    return 1 - max(weights) / sum(weights)


def _too_much(most: float) -> str:
    return f"who always guesses the likeliest value is wrong with probability {most:.6g}, so more cannot be asked"


def _attainable(one: ErrorAtLeast, p: Array) -> ErrorAtLeast:
    """An error that can be asked; one that is above by a rounding error is the largest that can be."""
    most = _largest_error(p)
    if Fraction(one.error) <= most:
        return one
    nearest = float(most)
    if one.error > nearest + _ERROR_ROUNDING:
        raise InfeasibleError(f"{describe(one)}; {_too_much(nearest)}")
    return ErrorAtLeast(nearest if Fraction(nearest) <= most else math.nextafter(nearest, 0.0))


# The problem ----------------------------------------------------------------------------------------

_IDLE = 1e-11  # columns that are drawn less often are not drawn
_ROOM = 1e-13  # less than this is none
_SILENT = 1e-12  # nats; less cannot be told
_TIED_SIZE = 600  # equations of a step of the tie-break beyond which it is not tried
_APART = 1e-9  # of two rows at their limit, as floats tell it
_WEIGHTS = (1e-3, 1e-5)  # of the information in a tie-break, over the cost
_REACHES = (1e-9, 1e-7, 1e-5)  # how far from its kernel the cheapest one is looked for
_NO_COST = 1e-12  # a cost, over that of telling nothing, that is none
_NO_GAIN = 1e-9  # of a leakage


class Answer(NamedTuple):
    """A kernel of the groups in floats, one beside it with room, a bound on the cost (scaled) and its multipliers."""

    P: Array
    inner: Array
    bound: float
    by: Multipliers
    vertex: Vertex | None = None  # of the linear program, where that is all


class Problem:
    """A problem with constraints, by position, and a budget in nats; all that is worked out once."""

    def __init__(
        self,
        cost: Array,
        p: Array,
        constraints: Sequence[Constraint],
        budget: float = math.inf,
        names: Names | None = None,
    ) -> None:
        if not (cost >= 0.0).all():
            minimise(cost, p, math.inf)  # raises, saying what is wrong
        self.cost, self.prior, self.budget = cost, p, budget
        self.constraints = tuple(_attainable(one, p) if isinstance(one, ErrorAtLeast) else one for one in constraints)
        self.left = reduce_problem(cost, p, self.constraints, budget, names)
        self.allowed, self.p = self.left.allowed, self.left.p
        self.scale = _scale(self.left.cost, self.p)
        self.L = np.where(self.allowed, self.left.cost / self.scale, 0.0)
        # what a few steps of 2^-53 may add to a cost: by the median of each row
        ordered = np.sort(self.left.cost, axis=1)
        usual = ordered[np.arange(len(ordered)), self.allowed.sum(axis=1) // 2]
        self.rounding = 2e-15 * float(self.p @ np.where(np.isfinite(usual), usual, ordered[:, 0]))
        self.steps = 0
        self.binding = False  # whether the budget is known to be too little for the cheapest kernel
        self.pairs: tuple[tuple[int, int], ...] = ()
        self.tied: tuple[Program, Answer] | None = None  # what a tie-break begins with
        self._exact: Exact | None = None

    # The answer -----------------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """The kernel of least expected cost within all of it, and its proof; of several one of least information."""
        return self.tie_break(self.cheapest())

    def cheapest(self, also: Check | None = None) -> Solution:
        """A kernel of least expected cost, whatever its information; `also` is asked of it too, if that can be."""
        bare = self._bare()
        if bare is not None:
            return bare
        if self.L.shape[1] * self.left.floor > 1.0 - 1e-12:
            return self._uniform()
        found, program = self._with_pairs(self._relax)
        kernel = None if also is None else make_exact(found.P, found.inner, program.floor, also)
        kernel = make_exact(found.P, found.inner, program.floor, self.check) if kernel is None else kernel
        if kernel is None:
            raise self.impossible(" exactly")
        solution = self.certify(kernel, found.bound, found.by)
        self.tied = program, found
        if not solution.optimal:
            # room to spare was too dear
            closer = make_exact(found.P, found.inner, program.floor, self.check, room=False)
            other = solution if closer is None else self.certify(closer, found.bound, found.by)
            solution = min(solution, other, key=lambda one: one.excess)
        return solution

    def check(self, kernel: Array, spare: Fraction = Fraction(0)) -> bool:
        """Whether the kernel of the groups keeps everything, looked at in the kernel of all values."""
        return self.keeps(expand(self.left, kernel), spare)

    def keeps(self, P: Array, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel of all values keeps everything, with a share of each limit to spare."""
        if self.budget < math.inf and len(self.p) > 1 and not within(self.prior, P.reshape(-1), self.budget):
            return False
        self._exact = Exact(self.prior, P) if self._exact is None else self._exact.of(P)
        return all(one.holds_exactly(self._exact, spare) for one in self.constraints)

    def certify(self, kernel: Array, bound: float, by: Multipliers, P: Array | None = None) -> Solution:
        """The solution that a kernel of the groups is, or one of all values, with a bound on the scaled cost."""
        P = expand(self.left, kernel) if P is None else P
        excess = self.excess(P)
        least = min(max(0.0, self.scale * bound * (1.0 - (len(P) + 6) * 2.0**-52)), excess)
        optimal = excess - least <= TOLERANCE * excess + self.rounding
        leakage = information(self.prior, P.reshape(-1))
        slope = 1.0 / by.nu / self.scale if by.nu > 0.0 else math.nan
        by = by._replace(pairs=self.pairs)
        return Solution(P, self.left.lowest, excess, least, leakage, self.steps, optimal, slope, by)

    def excess(self, P: Array) -> float:
        """What a kernel of all values costs above the cheapest pairs."""
        drawn = P > 0.0
        weights = np.broadcast_to(self.prior[:, None], P.shape)[drawn]
        return math.fsum((weights * P[drawn] * self.left.dear[drawn]).tolist())

    def expected_cost(self, P: Array) -> float:
        """The scaled cost of a kernel of the groups."""
        return float((self.p[:, None] * self.L * P).sum())

    # Ways to it -----------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The rows of all constraints, with those of the pairs of rows that are known to need them."""
        return write_program(self.p, self.left.top, self.L, self.allowed, self.left.floor, self.constraints, self.pairs)

    def _bare(self) -> Solution | None:
        """The kernel of the problem without constraints but those that were taken out, if it keeps the rest."""
        budget = self.budget
        measures = any(one.measure for one in self.constraints)
        for _ in range(1 if measures or self.left.floor > 0.0 else 4):
            try:
                found = minimise(self.left.cost, self.p, budget)
            except InfeasibleError:
                if measures:
                    return None
                raise
            self.steps = found.iterations
            if self.check(found.kernel):
                by = Multipliers(nu=1.0 / (found.slope * self.scale))
                return self.certify(found.kernel, self._bare_bound(found), by)
            budget *= 1.0 - 4e-14  # merged probabilities are rounded: a little less is kept
        return None

    def _bare_bound(self, found: Solution) -> float:
        """The scaled bound of the problem without constraints."""
        return (found.lowest * (1.0 - 4e-16) + found.bound * (1.0 - 1e-14)) / self.scale

    def _uniform(self) -> Solution:
        """Where the floor leaves no choice."""
        m, n = self.L.shape
        row = np.full(n, self.left.floor)
        # what is left of a row goes to one column: all rows the same keep every measure
        row[int((self.p @ self.L).argmin())] = 1.0 - (n - 1) * self.left.floor
        kernel = np.tile(row, (m, 1))
        if not self.check(kernel):
            raise self.impossible()
        return self.certify(kernel, lower_bound(self.program(), Multipliers()), Multipliers())

    def _with_pairs(self, solve: Callable[[Program], Answer], margin: float = _APART) -> tuple[Answer, Program]:
        """Solve, and again with the pairs of rows that are further apart than they may be, until none is."""
        most = _strictest(self.constraints).get(TotalVariation, math.inf) + margin
        while True:
            program = self.program()
            found = solve(program)
            more = () if most == math.inf else _far_pairs(found.P, most, self.pairs)
            if not more:
                return found, program
            self.pairs += more

    def _relax(self, program: Program) -> Answer:
        """Kernel and bound for the rows of a program and the budget."""
        without = None if self.binding else self._without_budget(program)
        if without and information(self.p, without.P.reshape(-1)) <= self.budget * (1.0 - 1e-12):
            return without
        m = len(self.p)
        start = self.start(program)
        centre = interior_point(program, start, Goal(budget=self.budget))
        self.steps += centre.steps
        P, bound, by = _clean(centre.X[:m]), centre.bound, centre.by
        if centre.value - bound > 1e-10 * centre.value:
            bound = max(bound, lower_bound_with_information(program, by, self.budget, steps=_DUAL_STEPS))
        if without and without.bound > bound:
            bound, by = without.bound, without.by
        return Answer(P, self.inner(program, P, start[:m]), bound, by)

    def _without_budget(self, program: Program) -> Answer:
        """The same without the budget: a vertex of the linear program."""
        found = solve_linear(program)
        if found is None:
            raise self.impossible()
        self.steps += int(found.result.nit)
        P = _clean(found.P, _NOISE)
        return Answer(P, self.inner(program, P), lower_bound(program, found.by), found.by, found)

    def inner(self, program: Program, P: Array, otherwise: Array | None = None) -> Array:
        """A kernel that keeps everything with room: all rows the same where that is allowed."""
        r = self.p @ P / self.p.sum()
        if (self.allowed | (r == 0.0)).all():
            return np.tile(r, (len(P), 1))
        return self.start(program)[: len(P)] if otherwise is None else otherwise

    def start(self, program: Program) -> Array:
        """Unknowns (k, n) that keep all rows and the budget with room."""
        m, n = self.L.shape
        if self.allowed.all():
            return interior_start(program, np.full((m, n), 1.0 / n))
        found = roomiest(program)
        if found is None or found[1] < _ROOM:
            raise self.impossible()
        X = found[0]
        if self.budget == math.inf or information(self.p, np.ascontiguousarray(X[:m]).reshape(-1)) < 0.9 * self.budget:
            return X
        least = interior_point(program, X, Goal(0.0, 1.0), enough=0.9 * self.budget)
        if least.value < self.budget * (1.0 - 1e-9):
            return least.X
        named = [describe(one) for one in self.constraints if one.measure]
        raise InfeasibleError(
            f"leakage = {self.budget:.6g} nats; {' and '.join(['the forbidden pairs', *named])} need at least "
            f"{max(least.bound, 0.0):.6g} nats"
        )

    def least_information(self) -> tuple[Solution, float]:
        """The kernel of least information, where forbidden pairs let none be without; and nats that none goes below."""
        found, program = self._with_pairs(self._least_information)
        kernel = make_exact(found.P, found.inner, program.floor, self.check)
        if kernel is None:
            raise self.impossible(" exactly")
        solution = self.certify(kernel, 0.0, found.by)
        optimal = solution.leakage - found.bound <= TOLERANCE * solution.leakage
        return solution._replace(optimal=optimal, slope=math.nan, multipliers=None), max(0.0, found.bound)

    def _least_information(self, program: Program) -> Answer:
        start, m = self.start(program), len(self.p)
        centre = interior_point(program, start, Goal(0.0, 1.0))
        return Answer(_clean(centre.X[:m]), start[:m], centre.bound, Multipliers())

    # Ties -----------------------------------------------------------------------------------------------

    def tie_break(self, first: Solution, check: Check | None = None) -> Solution:
        """The first answer, or one that costs the same and has less information; the lower bound stays."""
        if self.tied is None or first.leakage <= _SILENT:
            return first
        program, found = self.tied
        m, n, _ = program.shape
        if found.vertex is None or n + m + len(program.F) > _TIED_SIZE:
            return first
        priced = find_prices(found.vertex)
        if not priced.spare:
            return first
        check, dear, less = check or self.check, self.expected_cost(found.P), (1.0 - _NO_GAIN) * first.leakage
        P = least_telling_optimum(program, found.vertex, priced)
        if P is not None and information(self.p, P.reshape(-1)) >= less:
            return first
        kernel = self._exactly(program, P, dear, check)
        if kernel is None and has_less_telling_optimum(program, found.vertex, priced):
            kernel = self._least_bare(program, dear, check)
            kernel = self._least_weighted(program, found, check) if kernel is None else kernel
        if kernel is None:
            return first
        other = self.certify(kernel, found.bound, found.by)
        cheap = other.excess <= first.excess * (1.0 + TIE) + self.rounding and (other.optimal or not first.optimal)
        return other if cheap and other.leakage < less else first

    def _exactly(self, program: Program, P: Array | None, dear: float, check: Check) -> Array | None:
        """The kernel within the constraints, exactly kept, that is next to P; None where it costs more."""
        if P is None:
            return None
        Q = _clean(P, _NOISE)
        dear = max(dear, _NO_COST)
        if self.expected_cost(Q) > dear * (1.0 + 0.1 * TIE):
            return None
        kernel = make_exact(Q, self.inner(program, Q), program.floor, check)
        return kernel if kernel is not None and self.expected_cost(kernel) <= dear * (1.0 + 0.5 * TIE) else None

    def _least_bare(self, program: Program, dear: float, check: Check) -> Array | None:
        """The kernel of least information at this cost without the constraints, if it keeps them (5 x quicker)."""
        if program.floor > 0.0 or not dear > 0.0:
            return None
        with suppress(InfeasibleError):
            bare, _ = least_leakage(self.left.cost, self.p, self.scale * dear * (1.0 + 0.01 * TIE))
            return bare.kernel if check(bare.kernel, Fraction(0)) else None
        return None

    def _least_weighted(self, program: Program, found: Answer, check: Check) -> Array | None:
        """The kernel of least information at this cost within the constraints, however many optima there are.

        For a small weight w the kernel of least cost + w * information is, up to what vanishes like e^(-1/w), the one
        of least information among the cheapest. The interior-point method finds it, and a linear program close by puts
        it back among the cheapest to the last digits.
        """
        m, dear = len(self.p), self.expected_cost(found.P)

        def weigh(weight: float, program: Program) -> Answer:
            least = dear if dear > _NO_COST else 1.0
            centre = interior_point(program, self.start(program), Goal(1.0, weight * least))
            return found._replace(P=_clean(centre.X[:m]))

        with suppress(InfeasibleError, NumericalError):
            for weight in _WEIGHTS:
                (P, *_), program = self._with_pairs(partial(weigh, weight), margin=-_CLOSE_BY)
                for reach in _REACHES:
                    # the looser the reach, the fewer entries of rounding in columns that nobody else draws
                    close = solve_linear(program, P, reach)
                    kernel = self._exactly(program, None if close is None else close.P, dear, check)
                    if kernel is not None:
                        return kernel
        return None

    # What a stored kernel proves -------------------------------------------------------------------------

    def prove(self, P: Array, by: Multipliers) -> Solution:
        """The solution that a stored kernel of all values is, with what stored multipliers prove.

        Nothing is solved: the rules are checked exactly, and the bound is one evaluation of the dual function. A
        `StoredFileError` says where a rule is broken.
        """
        most = len(self.p)
        if not all(0 <= i < k < most for i, k in by.pairs):
            raise StoredFileError("multipliers.pairs must hold pairs of rows, the first before the second")
        self.pairs = by.pairs
        program = self.program()
        m, n = program.cost.shape
        arrays = (by.z, (len(program.G), n)), (by.y, (len(program.F),)), (by.w, (m, n)), (by.q, (n,))
        if any(given.size and given.shape != size for given, size in arrays) or by.nu < 0.0:
            raise StoredFileError("multipliers must have the shapes that the constraints give, and not be negative")
        if not self.keeps(P) or (P[~self.left.open] > 0.0).any():
            raise StoredFileError(
                "the kernel is not a solution for the prior, the costs, the demand and the constraints"
            )
        kernel = np.array([P[g[0]][self.left.columns] for g in self.left.groups])
        if by.nu == 0.0:
            bound = lower_bound(program, by)
        elif by.q.size == 0:
            bound = self._bare_bound(
                prove(self.left.cost, self.p, kernel, self.budget, 1.0 / by.nu / self.scale).solution
            )
        else:
            bound = lower_bound_with_information(program, by, self.budget, steps=_DUAL_STEPS)
        return self.certify(kernel, bound, by, P)

    # What cannot be -------------------------------------------------------------------------------------

    def impossible(self, how: str = "") -> InfeasibleError:
        """The error that names the constraints that do not go together: all without which the rest is possible."""
        blamed = []
        for one in self.constraints:
            rest = [other for other in self.constraints if other is not one]
            with suppress(InfeasibleError):
                if one.measure and solve_linear(Problem(self.cost, self.prior, rest, self.budget).program()):
                    blamed.append(describe(one))
        kinds = [
            type(one).__name__ if isinstance(one, (Forbidden, Same)) else describe(one) for one in self.constraints
        ]
        pairs = "" if self.allowed.all() else " with the forbidden pairs"
        return InfeasibleError(f"{' and '.join(blamed or dict.fromkeys(kinds))} cannot be kept{how}{pairs}; allow more")


def _far_pairs(P: Array, most: float, known: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Pairs of rows whose total variation is above the limit, and that are not known."""
    far = np.triu(np.maximum(P[:, None] - P, 0.0).sum(axis=2) > most, 1)
    for i, k in known:
        far[i, k] = False
    return tuple((i, k) for i, k in np.argwhere(far).tolist())


def _scale(cost: Array, p: Array) -> float:
    """The expected cost of the cheapest column that is allowed to all, or the largest cost."""
    columns = np.isfinite(cost).all(axis=0)
    constant = float((p @ cost[:, columns]).min()) if columns.any() else 0.0
    return constant or float(cost[np.isfinite(cost)].max()) or 1.0


def _clean(P: Array, least: float = 0.0) -> Array:
    """A kernel without entries below the least, and without columns that are hardly drawn."""
    P = np.where(least < P, P, 0.0)
    P = np.where(P.max(axis=0) > _IDLE, P, 0.0)
    return np.ascontiguousarray(P / P.sum(axis=1, keepdims=True))


# The least leakage at an acceptable distortion, and an error that every adversary must make ------------


def least_leakage_within(
    cost: Array, p: Array, constraints: Sequence[Constraint], limit: float, names: Names | None = None
) -> tuple[Solution, float]:
    """The kernel of least information within the constraints at a distortion of at most `limit`.

    Beside it a leakage that no such kernel goes below.
    """
    if not limit >= 0.0:
        raise DesignError(f"distortion_at_most = {limit!r}; it must be 0 or more")
    problem = Problem(cost, p, constraints, names=names)

    def check(kernel: Array, spare: Fraction) -> bool:
        return affordable(expand(problem.left, kernel)) and problem.check(kernel, spare)

    def affordable(P: Array) -> bool:
        return costs_at_most(P, cost, p, limit)

    cheapest = problem.cheapest(check)
    upper, lower = bounds_of(cheapest)
    if lower > limit:
        raise InfeasibleError(
            f"distortion_at_most = {limit:.6g}; the least that any randomizer within the constraints reaches "
            f"is {lower:.6g}"
        )
    if not affordable(cheapest.kernel):
        raise InfeasibleError(
            f"distortion_at_most = {limit!r}; no randomizer within the constraints was found that meets it, "
            f"and one that costs {upper!r}"
        )
    try:
        least = Problem(cost, p, constraints, 0.0).solve()._replace(leakage=0.0)
        proven = 0.0
    except InfeasibleError:
        least, proven = problem.least_information()
    if affordable(least.kernel):
        return least, proven
    best = problem.tie_break(cheapest, check)

    def curve(budget: float) -> Solution:
        problem.budget, problem.binding, problem.tied = budget, True, None
        return problem.solve()

    return follow_curve(curve, lambda found: affordable(found.kernel), limit, best, least, proven, TOLERANCE)


def leakage_bound(found: Solution, budget: float, limit: float) -> float:
    """What no kernel of a cost within the limit leaks less than, by a solution that is proven at a budget."""
    if not math.isfinite(found.slope):
        return 0.0
    return budget + found.slope * (found.bound - max(limit - found.lowest, 0.0))


def least_distortion(cost: Array, p: Array, error: float) -> Solution:
    """The kernel of least distortion under which every guess is wrong with probability `error` or more.

    Nobody guesses better than the best guess from ~Theta itself, which is wrong with probability
    1 - sum_j max_i p_i P_ij.
    """
    if not error >= 0.0:
        raise DesignError(f"error_at_least = {error!r}; it must be 0 or more")
    most = float(_largest_error(p))
    if error > most + _ERROR_ROUNDING:
        raise InfeasibleError(f"error_at_least = {error:.6g}; {_too_much(most)}")
    try:
        return Problem(cost, p, (ErrorAtLeast(min(error, 1.0)),)).solve()
    except InfeasibleError:
        raise InfeasibleError(
            f"error_at_least = {error:.6g}; the forbidden pairs (infinite costs) do not allow it"
        ) from None
