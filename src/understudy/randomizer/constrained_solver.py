"""The randomizer problem with constraints: what is solved how, and what is proven of the answer.

What can be taken out of the problem is (`reduction`). If the bare solver's kernel keeps the constraints, that is the
answer. Without a budget of mutual information the rest is a linear program (`linear`); with one an interior-point
method (`central`). Either way the kernel is mixed and rounded until all holds exactly (`feasible`), and no kernel
costs less than the bound of `program`. Where a linear program has several optima, one that tells least is looked for
(`ties`). Pairs of rows enter a total variation as they are needed.

The constrained randomizer problem as rows of inequalities, and a lower bound that any multipliers prove.

Every measure but the mutual information is linear in the kernel with a few more unknowns for each column j::

    local DP            t_j <= P_ij,  e^-epsilon P_ij <= t_j
    maximal leakage     P_ij <= u_j,  sum_j u_j <= e^L
    pointwise leakage   e^-L P_ij <= r_j,  r_j <= sum_k p_k P_kj
    Bayes error         p_i P_ij <= w_j,  sum_j w_j <= 1 - e
    total variation     P_ij - P_kj <= v_j,  v_j >= 0,  sum_j v_j <= tau       for each pair of rows that needs it

So each column has the same rows, G x_j <= 0, in its own unknowns x_j = (P_1j, .., P_mj, t_j, ..), and few rows,
F sum_j x_j <= f, go across. For any multipliers z, y >= 0 of these rows, no kernel that keeps them costs less than::

    sum_i min_j d_ij - y f + (parts of t, u, r, w, v),       d = p L + z G + y F

with a floor, sum_j floor d_ij + (1 - n floor) min_j d_ij in place of the first term. With nu >= 0 for a budget of
mutual information, d / p takes the place of the costs in the dual bound of the distortion-rate function::

    nu [-sum_i p_i ln sum_j q_j E_ij - ln max_j sum_i p_i E_ij / z_i - I_0] - y f + ...,    E = exp(-d / (p nu))

for any law q. Any numbers will do: those of a linear program, or of an interior-point method that was stopped. What
rounding may have added is worked out beside the sums and taken off.

Newton's equations of the interior-point method, solved: a block for each column, then one small system.

The block of a column is G' H G and a diagonal, H being multiplier over slack of each row. A pair of rows of a total
variation has an unknown v of its own, in two rows of G only, a x - v <= 0 and -v <= 0 with weights h and g; taken out
by hand, such a pair leaves h g / (h + g) a a' and no unknown. So a block is never larger than the kernel's column and a
few more, however many pairs there are. What goes across the columns (rows of F, the last row, p of each column, sums
of rows) is one system for all.

The constrained problem with mutual information: a primal-dual interior-point method, a column at a time.

Minimise the expected cost over the kernels that keep all rows of a `Program` and I(Theta; ~Theta) <= I_0; or, with a
limit on the cost, minimise the information. Both are convex. Newton's equations have a block for each column, since
the rows are the same in each and the Hessian of the information is::

    d2 I / dP_ij dP_kj = p_i [i = k] / P_ij - p_i p_k / r_j

and few rows go across: those of F, the gradient of the information, p of each column for the second term
above, and the sums of the rows of the kernel. The blocks are inverted, the rest is one small system (`blocks`).

A step aims at what a first one towards the boundary shows to be within reach (Mehrotra). It starts from a kernel that
keeps everything with room to spare. The budget is curved, so its slack is an unknown of its own: kernels on the way
may exceed it a little, and what is mixed in later (`feasible`) brings the last one back. Where the method stops
matters little: `program.lower_told` turns any multipliers into a bound.

From a matrix of floats that nearly keeps all constraints to a kernel that keeps every one exactly.

The matrix is mixed with another that keeps them with room to spare, as little as will do, and rounded to whole numbers
of 2^-53; whether it will do is decided in whole numbers. All constraints are convex, so a mixture keeps what both
keep. First it is tried with the part of the other that leaves zeros what they are: a pair that is never drawn should
not come once in a billion years for the sake of a rounding error.

The constrained problem without mutual information: a linear program for HiGHS (Huangfu and Hall, 2018).

Its kernel and its multipliers are floats that nearly solve it. Neither is believed: the kernel is rounded and mixed
until every constraint holds exactly (`feasible`), and the bound is that of `program.lower`.

A constrained problem with all that can be taken out of it: rows that coincide, pairs that are never drawn.

Rows that must coincide are one row, with the sum of their odds and the mean of their costs: the information about
the values is then that about their groups. A measure of which nothing is allowed makes all rows coincide. Local
differential privacy lets no column be drawn that is forbidden to some value. Values that cannot occur are left out,
and get a row at the end that is also one of another value, where their pairs allow it.

Of kernels that cost the same, the one that tells least: a second stage for linear programs with ties.

A linear program has as a rule one optimum, and says so: every bound that is met has its price (`linear.settled`). If
not, others may cost the same and tell less. For a small weight w the kernel of least cost + w * information is, up to
what vanishes like e^(-1/w), the one of least information among the cheapest. The interior-point method finds it, and a
linear program close by puts it back among the cheapest to the last digits. The lower bound stays that of the first.

The least leakage at an acceptable distortion, with constraints: the problem of `constrained` from the other end.

The interior-point method minimises the information with the cost as one more row. Its multiplier is the slope of the
curve, and the same dual numbers prove both a leakage that cannot be undercut at this distortion and a distortion
that cannot be undercut at this leakage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import DesignError, InfeasibleError, NumericalError
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
    shown,
)
from understudy.randomizer.inverse import least_leakage
from understudy.randomizer.solver import FORBIDDEN, Point, Solution, Workspace, bounds_of, information, minimise, within

# The constrained randomizer problem as rows of inequalities, and a lower bound that any multipliers p ---


_ROUNDOFF = 2.0**-52
_FINE = 40_000  # multipliers times unknowns up to which a bound is worked out with more digits

Pair = tuple[int, int]


class Program(NamedTuple):
    """Costs (m, n), zero where a pair is forbidden, and rows of inequalities in the k >= m unknowns of a column."""

    p: Array
    cost: Array
    allowed: NDArray[np.bool_]
    floor: float
    G: Array
    F: Array
    f: Array
    pairs: int = 0  # how many unknowns, the last, are of a pair of rows; each has two rows of G and one of F, the last

    @property
    def unknowns(self) -> int:
        """How many unknowns a column has."""
        return int(self.G.shape[1])

    @property
    def work(self) -> int:
        """About how many operations a step of the interior-point method takes."""
        (m, n), few = self.cost.shape, self.unknowns - self.pairs
        return int((len(self.F) + m + n) ** 2 * n * few + n * few**3)

    def over(self, X: Array) -> Array:
        """X G' for unknowns (n, k), without the zeros of the pairs."""
        E = self.pairs
        if not E:
            return X @ self.G.T
        k, R = self.unknowns - E, len(self.G) - 2 * E
        found = np.empty((len(X), len(self.G)))
        found[:, :R] = X[:, :k] @ self.G[:R, :k].T
        found[:, R::2] = X[:, :k] @ self.G[R::2, :k].T - X[:, k:]
        found[:, R + 1 :: 2] = -X[:, k:]
        return found

    def under(self, z: Array, size: bool = False) -> Array:
        """Z G for multipliers (n, R), or z |G|, without the zeros of the pairs."""
        E = self.pairs
        if not E:
            return z @ (np.abs(self.G) if size else self.G)
        k, R = self.unknowns - E, len(self.G) - 2 * E
        rows, apart = self.G[:R, :k], self.G[R::2, :k]
        if size:
            rows, apart = np.abs(rows), np.abs(apart)
        both = z[:, R::2] + z[:, R + 1 :: 2]
        return np.hstack([z[:, :R] @ rows + z[:, R::2] @ apart, both if size else -both])


class Multipliers(NamedTuple):
    """Of the rows of each column (n, R), of those across (K,) and of the floor (m, n), which may be empty.

    For the information: `nu` of the budget, or one where it is sought; `cost` is one, or the multiplier of its limit.
    """

    z: Array
    y: Array
    w: Array
    cost: float = 1.0
    nu: float = 0.0


def program(
    p: Array,
    top: Array,
    cost: Array,
    allowed: NDArray[np.bool_],
    floor: float,
    constraints: Sequence[Constraint],
    pairs: Sequence[Pair] = (),
) -> Program:
    """The rows of all measures among the constraints; of the total variation those of the pairs given."""
    m = len(p)
    eye = np.eye(m)
    local: list[tuple[Array, Array]] = []  # rows over P, rows over unknowns of their own
    across: list[tuple[int, float]] = []  # an unknown that is summed over the columns, and its limit
    more = 0
    # pairs last
    for one in sorted(constraints, key=lambda one: isinstance(one, TotalVariation)):
        if isinstance(one, LocalDP):
            down = math.exp(-one.epsilon)
            local.append((np.vstack([-eye, down * eye]), _beside(more, np.concatenate([np.ones(m), -np.ones(m)]))))
            more += 1
        elif isinstance(one, MaximalLeakage):
            local.append((eye, _beside(more, -np.ones(m))))
            across.append((more, math.exp(min(one.nats, 700.0))))
            more += 1
        elif isinstance(one, ErrorAtLeast) and (1.0 - one.error) * math.fsum(p) <= top.max() * (1.0 + 1e-12):
            # nothing may be gained by a guess: p_i P_ij <= p_k P_kj with k the likeliest
            k = int(top.argmax())
            others = np.delete(np.arange(m), k)
            local.append(((np.diag(top / top[k]) - eye[k])[others], np.zeros((len(others), 0))))
        elif isinstance(one, ErrorAtLeast):
            local.append((np.diag(top / top.max()), _beside(more, -np.ones(m))))
            across.append((more, (1.0 - one.error) * math.fsum(p) / float(top.max())))
            more += 1
        elif isinstance(one, PointwiseLeakage):
            over = np.vstack([math.exp(-one.nats) * eye, -p / math.fsum(p)])
            local.append((over, _beside(more, np.append(-np.ones(m), 1.0))))
            more += 1
        elif isinstance(one, TotalVariation):
            for i, k in pairs:
                local.append((np.vstack([eye[i] - eye[k], np.zeros(m)]), _beside(more, -np.ones(2))))
                across.append((more, one.at_most))
                more += 1
    paired = len(pairs) * sum(isinstance(one, TotalVariation) for one in constraints)
    G = np.zeros((sum(len(a) for a, _ in local), m + more))
    row = 0
    for over, beside in local:
        G[row : row + len(over), :m] = over
        G[row : row + len(over), m : m + beside.shape[1]] = beside
        row += len(over)
    F = np.zeros((len(across), m + more))
    for k, (unknown, _) in enumerate(across):
        F[k, m + unknown] = 1.0
    limits = np.array([limit for _, limit in across])
    return Program(p, np.where(allowed, cost, 0.0), allowed, floor, G, F, limits, paired)


def _beside(before: int, column: Array) -> Array:
    """A column of coefficients of the unknown that comes after `before` others."""
    return np.hstack([np.zeros((len(column), before)), column[:, None]])


def begun(problem: Program, P: Array) -> Array:
    """All unknowns (n, k) for a kernel (m, n) that keeps every row with room to spare: in the middle of that room."""
    m, n = problem.cost.shape
    X = np.zeros((n, problem.unknowns))
    X[:, :m] = P.T
    sums = problem.F.sum(axis=0)
    k, E = problem.unknowns, problem.pairs
    if E:
        low = np.maximum(P.T @ problem.G[len(problem.G) - 2 * E :: 2, :m].T, 0.0)
        X[:, k - E :] = low + 0.5 * (problem.f[len(problem.f) - E :] - low.sum(axis=0)) / n
    for v in range(m, k - E):
        rows = problem.G[:, v] != 0.0
        G = problem.G[rows]
        # where the sign is -1 the unknown is above the rest of its row, where it is +1 below
        rest = X[:, :m] @ G[:, :m].T
        low = np.where(G[:, v] < 0.0, rest, -math.inf).max(axis=1)
        high = np.where(G[:, v] > 0.0, -rest, math.inf).min(axis=1)
        if sums[v] > 0.0:
            limit = float(problem.f[problem.F[:, v] > 0.0].min())
            X[:, v] = low + 0.5 * (limit - low.sum()) / n
        else:
            X[:, v] = np.sqrt(np.maximum(low, 0.0) * high)
    return X


def lower(problem: Program, by: Multipliers) -> float:
    """What the multipliers prove of a program without information: no kernel costs less."""
    n = problem.cost.shape[1]
    # more digits where that takes no time: of a cost of 1e-9 those of a double are soon used up
    fine = by.z.size * problem.unknowns <= _FINE
    d, constant = _charged(problem, by, np.longdouble if fine else np.float64)
    least = np.where(problem.allowed, d, math.inf).min(axis=1)
    rows, size = least, np.abs(least)
    if problem.floor > 0.0:
        rows = problem.floor * d.sum(axis=1) + (1.0 - n * problem.floor) * least
        size = problem.floor * np.abs(d).sum(axis=1) + np.abs(least)
    lost = (len(d) + n + 8) * np.finfo(d.dtype).eps * size.sum()
    found = float(rows.sum() + constant - lost)
    return found - 2.0 * _ROUNDOFF * abs(found)


def lower_told(problem: Program, by: Multipliers, q: Array, budget: float, best: bool = False) -> float:
    """The same with information, which counts `nu` times what it is above the budget; q is a law of the draw.

    With `best` the law and the multiplier of the information are sought anew, by the solver of the bare problem.
    """
    p = problem.p
    d, constant = _charged(problem, by)
    if by.w.size:
        d = d - by.w * (1.0 + 4.0 * _ROUNDOFF)
        constant += problem.floor * float(by.w.sum()) * (1.0 - 1e-13)
    d = np.where(problem.allowed, d / p[:, None], math.inf)
    lost = 4.0 * _ROUNDOFF * np.where(problem.allowed, np.abs(d), 0.0).max(axis=1)
    least = d.min(axis=1)
    rows = (p * (least - 2.0 * lost)).tolist()
    L = np.where(problem.allowed, d - least[:, None], FORBIDDEN)
    nu = by.nu
    if best:
        found = minimise(np.where(problem.allowed, L, math.inf), p, budget)
        told, nu = bounds_of(found)[1], 1.0 / found.slope
    else:
        space = Workspace(len(p), L.shape[1], p, np.ascontiguousarray(L).reshape(-1))
        told = space.bound(budget, Point(np.maximum(q, 1e-300), 1.0 / nu, 0.0, 0.0, 0))[0]
    # odds that sum to one up to rounding
    off = nu * (2.0 * abs(math.fsum([*p.tolist(), -1.0])) + 1e-14 * budget)
    return math.fsum([*rows, told, float(constant), -off])


def _charged(problem: Program, by: Multipliers, kind: Any = np.float64) -> tuple[Array, Any]:
    """What a pair costs with the multipliers (m, n), rounded down, and what is apart from the pairs."""
    m = len(problem.p)
    G, F = problem.G, problem.F
    z, y = np.maximum(by.z, 0.0).astype(kind), np.maximum(by.y, 0.0).astype(kind)
    c = by.cost * problem.p[:, None].astype(kind) * problem.cost
    over = problem.under(z) + y @ F  # (n, k)
    both = problem.under(z, size=True) + y @ np.abs(F)
    few = (G.shape[0] + F.shape[0] + 12) * np.finfo(kind).eps
    off = few * both
    if kind is not np.float64:
        # coefficients that are rounded themselves are so in every arithmetic
        off += 4.0 * _ROUNDOFF * (z @ np.where(np.abs(G) == 1.0, 0.0, np.abs(G)))
    d = c + over[:, :m].T - few * c - off[:, :m].T
    rest = over[:, m:] - off[:, m:]
    limits = y @ problem.f
    # the other unknowns are between 0 and 1
    constant = np.minimum(rest, 0.0).sum() - limits
    return d, constant - few * np.abs(rest).sum() - max(few, 4.0 * _ROUNDOFF) * limits


# Newton's equations of the interior-point method, solved: a block for each column, then one small sys ---


class Blocks(NamedTuple):
    """The blocks inverted (n, k - E, k - E), and what brings the unknowns of the E pairs back."""

    inverted: Array
    free: NDArray[np.bool_]  # (n, k - E)
    apart: Array  # the rows a (E, k - E)
    share: Array  # h / (h + g), (n, E)
    spread: Array  # 1 / (h + g)

    def solve(self, right: Array) -> Array:
        """All unknowns (n, k) for a right side, zero where a pair is forbidden."""
        few = self.inverted.shape[1]
        if not len(self.apart):
            return (self.inverted @ np.where(self.free, right, 0.0)[:, :, None])[:, :, 0]
        rest = right[:, few:]
        reduced = np.where(self.free, right[:, :few] + (self.share * rest) @ self.apart, 0.0)
        X = (self.inverted @ reduced[:, :, None])[:, :, 0]
        return np.hstack([X, self.spread * rest + self.share * (X @ self.apart.T)])

    def system(self, W: Array, K: int) -> Array:
        """What all columns together make of the rows across, W (n, T, k - E); of the first K the last E are pairs'."""
        E = len(self.apart)
        if E:
            W[:, K - E : K] = self.share[:, :, None] * self.apart
        W = W * self.free[:, None, :]
        S: Array = np.tensordot(W @ self.inverted, W, axes=([0, 2], [0, 2]))
        if E:
            S[np.arange(K - E, K), np.arange(K - E, K)] += self.spread.sum(axis=0)
        return S


def blocks(problem: Program, weights: Array, diagonal: Array, free: NDArray[np.bool_]) -> Blocks:
    """Blocks from multiplier over slack of the rows of G (n, R) and what is added on the diagonal (n, k - E)."""
    E = problem.pairs
    k, R = problem.unknowns - E, len(problem.G) - 2 * E
    G = problem.G[:R, :k]
    free = free[:, :k]
    B = (G.T * weights[:, None, :R]) @ G
    apart = problem.G[R::2, :k]
    h, g = weights[:, R::2], weights[:, R + 1 :: 2]
    if E:
        B = B + (apart.T * (h * g / (h + g))[:, None, :]) @ apart
    B *= free[:, :, None] & free[:, None, :]
    each = np.arange(k)
    B[:, each, each] += diagonal
    d = 1.0 / np.sqrt(B[:, each, each])
    scaled = np.linalg.inv(B * (d[:, :, None] * d[:, None, :])) * (d[:, :, None] * d[:, None, :])
    return Blocks(0.5 * (scaled + scaled.transpose(0, 2, 1)), free, apart, h / (h + g), 1.0 / (h + g))


# The constrained problem with mutual information: a primal-dual interior-point method, a column at a  ---


_STEPS = 80
_TARGET = 2e-10  # the relative gap at which it stops
_CENTRED = 0.05  # how far towards the boundary a step aims at most
_REFINED = (1e-2, 1e-5)  # below each of these sums of slack times multiplier a step is refined once more
_FALL = 0.9  # by how much of itself a probability may fall in a step
_PATIENCE = 8  # steps without a better gap
_NEAR = 0.99  # of the way to the boundary that a step may take


class Centred(NamedTuple):
    """The best kernel found, with all unknowns (n, k), and the multipliers of the best bound."""

    X: Array
    value: float
    bound: float
    by: Multipliers
    q: Array
    steps: int


def central(
    problem: Program,
    X: Array,
    budget: float = math.inf,
    limit: float | None = None,
    enough: float = -math.inf,
    weight: float = 0.0,
) -> Centred:
    """Minimise the cost within a budget; or, with a limit on the cost (which may be infinite), the information.

    With a weight, the cost and so many times the information. `X` are unknowns that keep everything with room. With
    `enough` it stops once the value is below that.
    """
    state = _State(problem, X, budget, limit, weight)
    best = Centred(X, math.inf, -math.inf, state.multipliers(), state.r, 0)
    left, mu, since = math.inf, math.inf, 0
    for step in range(_STEPS + 1):
        bound = state.bound()
        if bound > best.bound:
            best = best._replace(bound=bound, by=state.multipliers(), q=state.r)
        # what the last row is off by counts as well: a kernel that exceeds it may cost less than the optimum
        gap = abs(state.value + state.t * state.over - best.bound) + state.t * abs(state.off)
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


class _State:
    """Where the method stands: unknowns, slacks and multipliers.

    One row is special, `last`: the information within its budget, or the cost within its limit where the information
    is sought. `t` is its multiplier.
    """

    def __init__(self, problem: Program, X: Array, budget: float, limit: float | None, weight: float) -> None:
        m, n = problem.cost.shape
        self.problem, self.m, self.n, self.k = problem, m, n, problem.unknowns
        self.inverse, self.budget, self.weight = limit is not None, 0.0 if weight else budget, weight
        self.limit = math.inf if limit is None else limit
        self.lasts = 0 if weight or (self.inverse and self.limit == math.inf) else 1
        self.free = np.ones((n, self.k), dtype=bool)
        self.free[:, :m] = problem.allowed.T
        self.c = np.zeros((n, self.k))
        self.c[:, :m] = np.where(problem.allowed, problem.p[:, None] * problem.cost, 0.0).T
        self.unit = np.where(problem.allowed.T, problem.p, 0.0)  # p in each column, (n, m)
        self.across = _rows_across(problem, self.unit, self.lasts)
        self.X = X
        self.last, self.mu, self.off = math.nan, math.inf, 0.0
        self._measure()
        self.last = -self.off
        self.off = 0.0
        mu = 1.0 / self.room.size
        self.z, self.y, self.w = mu / self.s, mu / self.sy, mu / self.room
        self.t = mu / self.last if self.lasts else 0.0
        self.prices = np.zeros(m)  # of the sums of the rows of the kernel

    def _measure(self) -> None:
        """Slacks, gradients and value at the unknowns."""
        problem, m = self.problem, self.m
        P = self.X[:, :m]
        self.s = -problem.over(self.X)
        self.sy = problem.f - problem.F @ self.X.sum(axis=0)
        self.room = np.where(problem.allowed.T, P - problem.floor, 1.0)
        self.r = (self.unit * P).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(problem.allowed.T, P / self.r[:, None], 1.0)
            told = np.zeros_like(self.X)
            told[:, :m] = self.unit * np.log(ratio)
        cost = float((self.c * self.X).sum())
        leakage = information(problem.p, np.ascontiguousarray(P.T).reshape(-1))
        if self.weight:
            self.value, self.gradient = cost + self.weight * leakage, self.c + self.weight * told
            self.row, over = np.zeros_like(told), 0.0
        elif self.inverse:
            self.value, self.gradient, self.row, over = leakage, told, self.c, cost - self.limit
        else:
            self.value, self.gradient, self.row, over = cost, self.c, told, leakage - self.budget
        # the last row is curved, so its slack is an unknown of its own, and what both are off by is worked off
        self.over = over if self.lasts else 0.0
        self.off = self.over + (0.0 if math.isnan(self.last) else self.last) if self.lasts else 0.0

    def inside(self) -> bool:
        """Whether every slack is positive."""
        return all(bool((x > 0.0).all()) for x in (self.s, self.sy, self.room))

    def multipliers(self) -> Multipliers:
        """In the form that proves a bound."""
        cost, nu = (self.t, 1.0) if self.inverse else (1.0, self.weight or self.t)
        w = self.w.T if self.problem.floor > 0.0 else np.empty(0)
        return Multipliers(self.z, self.y, w, cost, nu)

    def bound(self) -> float:
        """What the multipliers prove."""
        budget = 0.0 if self.inverse else self.budget
        found = lower_told(self.problem, self.multipliers(), self.r, budget)
        return found - (self.t * self.limit * (1.0 + 1e-15) if self.inverse and self.lasts else 0.0)

    def advance(self) -> bool:
        """One step; False where none can be made."""
        self.curved = 1.0 if self.inverse else self.weight or self.t
        try:
            with np.errstate(all="ignore"):
                self._factor()
            count = self.s.size + self.sy.size + int(self.problem.allowed.sum()) + self.lasts
            mu = self.mu = self._together() / count
            first = self._direction(0.0, 0)
            sigma = (self._together(first, *self._reach(first)) / count / mu) ** 2
            left = mu * count
            step = self._direction(min(1.0, max(_CENTRED, sigma)) * mu, sum(left < x for x in _REFINED))
        except np.linalg.LinAlgError:
            return False
        if not all(np.isfinite(part).all() for part in step):
            return False
        a, b = (min(1.0, _NEAR * x) for x in self._reach(step))
        # a logarithm is not what its tangent says where a probability falls to nothing at once
        a = min(a, _FALL * _room(self.room, step.X[:, : self.m]))
        here, slack = self.X, self.last
        self.X, self.last = here + a * step.X, slack + a * step.last
        self._measure()
        if not self.inside():
            self.X, self.last = here, slack
            self._measure()
            return False
        self.z, self.y, self.w = self.z + b * step.z, self.y + b * step.y, self.w + b * step.w
        self.t += b * step.t
        self.prices = self.prices + b * step.prices
        return True

    def _factor(self) -> None:
        """The blocks of the columns inverted, and the system of the rows that go across."""
        from scipy.linalg.lapack import dgetrf

        problem, m, K = self.problem, self.m, len(self.problem.F)
        few = self.k - problem.pairs
        diagonal = np.zeros((self.n, few))
        P = np.where(problem.allowed.T, self.X[:, :m], 1.0)
        diagonal[:, :m] = np.where(problem.allowed.T, self.curved * problem.p / P + self.w / self.room, 1.0)
        self.blocks = blocks(problem, self.z / self.s, diagonal, self.free)
        if self.lasts:
            self.across[:, K] = self.row[:, :few]
        S = self.blocks.system(self.across, K)
        weights = np.zeros(len(S))
        weights[:K] = self.sy / self.y
        if self.lasts:
            weights[K] = self.last / self.t
        weights[K + self.lasts : K + self.lasts + self.n] = -self.r / self.curved
        S[np.diag_indices_from(S)] += weights
        *self.system, bad = dgetrf(S)
        if bad or not np.isfinite(self.system[0]).all():
            raise np.linalg.LinAlgError

    def _direction(self, target: float, refined: int) -> _Step:
        """The step towards slacks times multipliers of `target` each: solved, and refined by what it is off by."""
        problem, m = self.problem, self.m
        rest = self.gradient + problem.under(self.z) + self.y @ problem.F + self.t * self.row
        rest[:, :m] += self.prices - self.w
        wanted = _Step(
            -rest,
            target - self.z * self.s,
            target - self.y * self.sy,
            target - self.w * self.room,
            target - self.t * self.last if self.lasts else 0.0,
            -self.off,
            1.0 - self.X[:, :m].sum(axis=0),
        )
        step = self._solve(wanted)
        for _ in range(refined):
            step = _plus(step, self._solve(_plus(wanted, self._applied(step), -1.0)))
        return step

    def _applied(self, step: _Step) -> _Step:
        """The left side of Newton's equations."""
        problem, m = self.problem, self.m
        P = np.where(problem.allowed.T, self.X[:, :m], 1.0)
        dual = problem.under(step.z) + step.y @ problem.F + step.t * self.row
        moved = self.unit * step.X[:, :m]
        dual[:, :m] += self.curved * (moved / P - self.unit * (moved.sum(axis=1) / self.r)[:, None])
        dual[:, :m] += step.prices - step.w
        along = float((self.row * step.X).sum())
        return _Step(
            dual,
            self.s * step.z - self.z * problem.over(step.X),
            self.sy * step.y - self.y * (problem.F @ step.X.sum(axis=0)),
            self.room * step.w + self.w * step.X[:, :m],
            self.last * step.t + self.t * step.last if self.lasts else 0.0,
            along + step.last if self.lasts else 0.0,
            step.X[:, :m].sum(axis=0),
        )

    def _solve(self, r: _Step) -> _Step:
        """Newton's equations for a right side."""
        from scipy.linalg.lapack import dgetrs

        problem, m = self.problem, self.m
        right = r.X - problem.under(r.z / self.s) - (r.y / self.sy) @ problem.F
        right[:, :m] += r.w / self.room
        rt = r.t - self.t * r.last if self.lasts else 0.0
        if self.lasts:
            right -= rt / self.last * self.row
        alone, K = self.blocks.solve(right), len(problem.F)
        # W dx = C y + g: only the sums of rows have a g
        y, _ = dgetrs(*self.system, self._across(alone, r.prices))
        right = y[:K] @ problem.F + (y[K] if self.lasts else 0.0) * self.row
        right[:, :m] += self.unit * y[K + self.lasts : K + self.lasts + self.n, None] + y[-m:]
        dX = alone - self.blocks.solve(right)
        along = float((self.row * dX).sum())
        return _Step(
            dX,
            (r.z + self.z * problem.over(dX)) / self.s,
            (r.y + self.y * (problem.F @ dX.sum(axis=0))) / self.sy,
            np.where(problem.allowed.T, (r.w - self.w * dX[:, :m]) / self.room, 0.0),
            (rt + self.t * along) / self.last if self.lasts else 0.0,
            r.last - along if self.lasts else 0.0,
            y[-m:],
        )

    def _across(self, X: Array, prices: Array) -> Array:
        """What the rows that go across make of unknowns, less `prices` of the sums."""
        P = X[:, : self.m]
        last = [float((self.row * X).sum())] if self.lasts else []
        told = (self.unit * P).sum(axis=1)
        return np.concatenate([self.problem.F @ X.sum(axis=0), last, told, P.sum(axis=0) - prices])

    def _reach(self, step: _Step) -> tuple[float, float]:
        """How far unknowns and multipliers can go with every linear slack and every multiplier positive."""
        problem = self.problem
        a = min(
            _room(self.s, -problem.over(step.X)),
            _room(self.sy, -(problem.F @ step.X.sum(axis=0))),
            _room(self.room, step.X[:, : self.m]),
        )
        b = min(_room(self.z, step.z), _room(self.y, step.y), _room(self.w, step.w))
        if self.lasts:
            a = min(a, _room(np.array([self.last]), np.array([step.last])))
            b = min(b, _room(np.array([self.t]), np.array([step.t])))
        return min(1.0, a), min(1.0, b)

    def _together(self, step: _Step | None = None, a: float = 0.0, b: float = 0.0) -> float:
        """The sum of slack times multiplier, here or after a step."""
        problem, allowed = self.problem, self.problem.allowed.T
        if step is None:
            found = float((self.s * self.z).sum() + self.sy @ self.y + (self.room * self.w)[allowed].sum())
            return found + (self.last * self.t if self.lasts else 0.0)
        s = self.s - a * problem.over(step.X)
        sy = self.sy - a * (problem.F @ step.X.sum(axis=0))
        room = self.room + a * step.X[:, : self.m]
        found = float((s * (self.z + b * step.z)).sum() + sy @ (self.y + b * step.y))
        found += float((room * (self.w + b * step.w))[allowed].sum())
        last = self.last + a * step.last
        return found + (last * (self.t + b * step.t) if self.lasts else 0.0)


class _Step(NamedTuple):
    """A change of all unknowns and multipliers; also the right side of the equations that each of them solves."""

    X: Array
    z: Array
    y: Array
    w: Array
    t: float
    last: float
    prices: Array


def _plus(a: _Step, b: _Step, sign: float = 1.0) -> _Step:
    return _Step(
        a.X + sign * b.X,
        a.z + sign * b.z,
        a.y + sign * b.y,
        a.w + sign * b.w,
        a.t + sign * b.t,
        a.last + sign * b.last,
        a.prices + sign * b.prices,
    )


def _rows_across(problem: Program, unit: Array, lasts: int) -> Array:
    """The rows that go across the columns (n, T, k - E): F, a place for the last, p of each column, sums of rows."""
    (m, n), few, K = problem.cost.shape, problem.unknowns - problem.pairs, len(problem.F) + lasts
    W = np.zeros((n, K + n + m, few))
    W[:, : len(problem.F)] = problem.F[:, :few]
    W[np.arange(n), K + np.arange(n), :m] = unit
    W[:, K + n + np.arange(m), np.arange(m)] = 1.0
    return W


def _room(x: Array, dx: Array) -> float:
    """How much of the step dx may be taken with x staying positive."""
    down = dx < 0.0
    return float((x[down] / -dx[down]).min(initial=math.inf))


# From a matrix of floats that nearly keeps all constraints to a kernel that keeps every one exactly ---


_UNIT = 2.0**53
# a little more than asked where there is room, so that measures in floating point say the same
_SPARE = Fraction(1, 2**48)
_LITTLE = -36  # the power of two up to which a part of the other kernel is mixed in

Kept = Callable[[Array, Fraction], bool]


def whole(P: Array, floor: float) -> Array:
    """Rows in whole numbers of 2^-53 that sum to one, none below the floor; the largest takes what is left.

    >>> whole(np.array([[0.1, 0.2, 0.7]]), 0.125).round(6).tolist()
    [[0.125, 0.2, 0.675]]
    """
    counts = np.rint(np.maximum(P, floor) * _UNIT).astype(np.int64)
    rows = np.arange(len(P))
    largest = P.argmax(axis=1)
    counts[rows, largest] += (1 << 53) - counts.sum(axis=1)
    return counts / _UNIT


def exactly(P: Array, inner: Array, floor: float, kept: Kept, room: bool = True) -> Array | None:
    """The least mixture of P with `inner` that is kept, rounded; None where not even `inner` itself is.

    Without `room` nothing is left to spare: less is mixed in.
    """
    zeros = (P == 0.0) & (inner > 0.0)
    part = np.where(P > 0.0, inner, 0.0)
    sums = part.sum(axis=1, keepdims=True)
    for spare in (_SPARE, Fraction(0)) if room else (Fraction(0),):
        found = None
        if zeros.any() and (sums > 0.0).all() and floor == 0.0:
            found = _least_mixture(P, part / sums, floor, kept, spare, _LITTLE)
        if found is None:
            found = _least_mixture(P, inner, floor, kept, spare)
        if found is not None:
            return found
    return None


def _least_mixture(P: Array, inner: Array, floor: float, holds: Kept, spare: Fraction, most: int = 0) -> Array | None:
    def kept(Q: Array) -> bool:
        return holds(Q, spare)

    def mixed(share: float) -> Array:
        return whole((1.0 - share) * P + share * inner, floor)

    first = mixed(0.0)
    if kept(first):
        return first
    low, high = -54, 0
    for power in range(-52, most + 1, 4):
        if kept(mixed(2.0**power)):
            high = power
            break
        low = power
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(mixed(2.0**middle)) else (middle, high)
    return mixed(2.0**high)


# The constrained problem without mutual information: a linear program for HiGHS (Huangfu and Hall, 20 ---


_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# method, options, and where costs are cut off; a kernel or a bound that comes of such costs is as good as another
_ATTEMPTS: tuple[tuple[str, dict[str, float], float], ...] = (
    ("highs", _TIGHT, math.inf),
    ("highs", {}, 1e6),
    ("highs-ipm", {}, 1e4),
)
_INFEASIBLE = 2
_NEAR_linear = 1e-4  # a little
_MET = 1e-9  # a slack or a price that is less is none
_OTHER = 1e-6  # a change of a sum of probabilities that is less is none
_SMALL = 4_000  # entries of a matrix up to which scipy is quicker with all of them than with those that count


class Solved(NamedTuple):
    """All unknowns (n, k), and the multipliers of the rows."""

    X: Array
    by: Multipliers
    steps: int
    prices: Array | None = None  # of the bounds of all unknowns, where bounds or rows are met without a price


def linear(problem: Program, near: Array | None = None, reach: float = _NEAR_linear) -> Solved | None:
    """The kernel of least cost that keeps the rows; None where there is none.

    With `near` the one of those in which no probability is further from it than `reach`.
    """
    result = _highs(problem, problem.cost, 0.0, near, reach)
    if result is None:
        return None
    n, k = problem.cost.shape[1], problem.unknowns
    prices = np.maximum(-result.ineqlin.marginals, 0.0)
    local = n * problem.G.shape[0]
    by = Multipliers(prices[:local].reshape(n, -1), prices[local:], np.empty(0))
    prices = None if settled(result) else np.abs(result.lower.marginals) + np.abs(result.upper.marginals)
    return Solved(result.x[: n * k].reshape(n, k), by, int(result.nit), prices)


def settled(result: Any) -> bool:
    """Whether a vertex is the only optimum, for sure: every row and every bound that is met has its price."""
    free = (result.lower.residual > _MET) & (result.upper.residual > _MET)
    fixed = (result.lower.residual <= _MET) & (result.upper.residual <= _MET)
    priced = np.abs(result.lower.marginals) + np.abs(result.upper.marginals) > _MET
    rows = (result.ineqlin.residual > _MET) | (np.abs(result.ineqlin.marginals) > _MET)
    return bool((free | fixed | priced).all() and rows.all())


def others(problem: Program, found: Solved) -> bool:
    """Whether another kernel is as cheap.

    All optima meet what has a price. If among these a sum of probabilities with chance weights has the same least and
    largest value, there is one kernel only.
    """
    if found.prices is None:
        return False
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    A, b, sums, lowest, highest = rows(problem)
    x, m = found.X.ravel(), len(problem.p)
    bounds, each = found.prices > _MET, np.concatenate([found.by.z.ravel(), found.by.y]) > _MET
    lowest, highest = np.where(bounds, x, np.minimum(lowest, x)), np.where(bounds, x, np.maximum(highest, x))
    weights = np.zeros_like(found.X)
    weights[:, :m] = np.random.default_rng(0).uniform(0.5, 1.5, (len(found.X), m))
    goal = weights.ravel()
    for sign in (1.0, -1.0):
        result = linprog(
            sign * goal,
            A_ub=A,
            b_ub=b,
            A_eq=csr_array(vstack([sums, A[np.flatnonzero(each)]])),
            b_eq=np.concatenate([np.ones(m), b[each]]),
            bounds=np.stack([lowest, highest], axis=1),
            method="highs",
        )
        if result.x is None or abs(sign * result.fun - float(goal @ x)) > _OTHER:
            return True
    return False


def roomiest(problem: Program) -> tuple[Array, float] | None:
    """Unknowns that keep every row and every bound with the most room, and that room; None where there are none."""
    result = _highs(problem, np.zeros_like(problem.cost), 1.0)
    if result is None:
        return None
    n, k = problem.cost.shape[1], problem.unknowns
    return result.x[: n * k].reshape(n, k), float(result.x[-1])


class Rows(NamedTuple):
    """The inequalities A x <= b, the sums of the rows of the kernel, and bounds of the unknowns, column by column."""

    A: Any
    b: Array
    sums: Any
    lowest: Array
    highest: Array


def rows(problem: Program, above: float = 1.0) -> Rows:
    """All rows of a program as sparse matrices; `above` is the largest value of the unknowns beside the kernel."""
    from scipy.sparse import csr_array

    (m, n), k, G, F = problem.cost.shape, problem.unknowns, problem.G, problem.F
    lowest, highest = np.zeros((n, k)), np.full((n, k), above)
    lowest[:, :m] = np.where(problem.allowed, problem.floor, 0.0).T
    highest[:, :m] = np.where(problem.allowed, 1.0, 0.0).T
    columns = np.arange(n)[:, None]

    def placed(M: Array, apart: int) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """The entries of M once for each column of the kernel, and where: rows of their own, or the same."""
        i, v = np.nonzero(M)
        return np.tile(M[i, v], n), (columns * apart + i).ravel(), (columns * k + v).ravel()

    local, across = placed(G, len(G)), placed(F, 0)
    data, where, which = (np.concatenate(pair) for pair in zip(local, across, strict=True))
    where[local[1].size :] += n * len(G)
    A = csr_array((data, (where, which)), shape=(n * len(G) + len(F), n * k))
    one, i, v = placed(np.eye(m, k), 0)
    sums = csr_array((one, (i, v)), shape=(m, n * k))
    return Rows(A, np.concatenate([np.zeros(n * len(G)), problem.f]), sums, lowest.ravel(), highest.ravel())


def _highs(problem: Program, cost: Array, room: float, near: Array | None = None, close: float = _NEAR_linear) -> Any:
    """Minimise the expected cost, less `room` times the room that all rows and allowed entries have."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array, csr_array

    (m, n), k = cost.shape, problem.unknowns
    A, b, sums, lowest, highest = rows(problem, 2.0 if room else 1.0)
    objective = np.zeros((n, k))
    objective[:, :m] = (problem.p[:, None] * cost).T
    c = objective.ravel()
    if near is not None:
        around = np.full((n, k), 0.5)
        around[:, :m] = near.T
        reach = np.where(np.arange(k) < m, close, 1.0)
        lowest = np.maximum(lowest, (around - reach).ravel())
        highest = np.minimum(highest, np.maximum((around + reach).ravel(), lowest))
    if room:
        # P_ij - room >= floor for allowed pairs, and room in every row
        entries = np.flatnonzero(np.hstack([problem.allowed.T, np.zeros((n, k - m), dtype=bool)]).ravel())
        unit = coo_array((-np.ones(entries.size), (np.arange(entries.size), entries)), shape=(entries.size, n * k))
        A = block_array([[A], [unit]])
        A = csr_array(block_array([[A, coo_array(np.ones((A.shape[0], 1)))]]))
        sums = csr_array(block_array([[sums, coo_array((m, 1))]]))
        b = np.concatenate([b, -lowest[entries]])
        c, lowest, highest = np.append(c, -room), np.append(lowest, 0.0), np.append(highest, 1.0)
    if A.shape[0] * A.shape[1] <= _SMALL:
        A, sums = A.toarray(), sums.toarray()
    for method, options, most in _ATTEMPTS:
        result = linprog(
            np.clip(c, -most, most),
            A_ub=A,
            b_ub=b,
            A_eq=sums,
            b_eq=np.ones(m),
            bounds=np.stack([lowest, highest], axis=1),
            method=method,
            options=options,
        )
        if result.x is not None:
            return result
        if result.status == _INFEASIBLE:
            return None
    raise NumericalError(f"the linear program was not solved: {result.message}")


# A constrained problem with all that can be taken out of it: rows that coincide, pairs that are never ---


_UNIT_reduction = 1 << 53


class Reduced(NamedTuple):
    """The problem that is left: a row for each group that can occur, a column for each that can be drawn.

    `cost` is above `lowest`, what the cheapest pair of each value costs; infinite where a pair is forbidden.
    `top` is the largest odds in each group, `floor` what each entry is at least.
    """

    groups: tuple[tuple[int, ...], ...]
    never: tuple[tuple[int, ...], ...]  # groups that cannot occur
    columns: NDArray[np.intp]
    p: Array
    top: Array
    cost: Array
    lowest: float
    floor: float
    open: NDArray[np.bool_]  # of all values and columns: whether the pair may be drawn
    dear: Array  # costs of all values above their cheapest allowed pair

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which pairs may be drawn."""
        return np.isfinite(self.cost)


def reduced(
    cost: Array, p: Array, constraints: Sequence[Constraint], budget: float = math.inf, names: Names | None = None
) -> Reduced:
    """Take out what can be taken out; `InfeasibleError` where nothing is left."""
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
    groups = _groups(p, constraints, budget)
    for group in groups:
        free[list(group)] = free[list(group)].all(axis=0)
        if not free[group[0]].any():
            raise InfeasibleError(
                f"{names.rows(group)} must be treated alike ({_alike(p, constraints, budget)}), and no "
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
                f"{shown(strict[0])} with forbidden pairs: every pseudo value is forbidden to some value, and local "
                "differential privacy needs one that all may draw"
            )
        free[rows] &= np.isin(np.arange(n), columns)
    allowed = free.copy()
    free[rows] &= ~_forced(p, rows, constraints, free)
    for i in np.flatnonzero(~free.any(axis=1)).tolist():
        others = [k for k in rows if not allowed[k, allowed[i]].all()]
        raise InfeasibleError(
            f"{_forcing(p, constraints)} with forbidden pairs: {names.row(i)} may draw no {names.a_column} without "
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
    return Reduced(tuple(there), never, columns, weights, top, merged, lowest, floor, free, dear)


def expanded(problem: Reduced, kernel: Array) -> Array:
    """The kernel of all values from that of the groups; entries are whole numbers of 2^-53 before and after."""
    m, n = problem.open.shape
    P = np.zeros((m, n))
    for g, row in zip(problem.groups, kernel, strict=True):
        for i in g:
            P[i, problem.columns] = row
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


def _floor(constraints: Sequence[Constraint], cost: Array, free: NDArray[np.bool_], names: Names) -> float:
    """What every entry is at least, as a number that can be drawn."""
    floors = [one for one in constraints if isinstance(one, Floor) and one.at_least > 0.0]
    if not floors:
        return 0.0
    most = max(floors, key=lambda one: one.at_least)
    n = cost.shape[1]
    steps = _UNIT_reduction
    least = math.ceil(most.at_least * float(steps))  # a power of two times a double: exact
    if n * least > steps:
        close = abs(n * most.at_least - 1.0) < 1e-9
        said = f"{least / steps!r} (in whole numbers of 2^-53)" if close else f"{least / steps:.6g}"
        raise InfeasibleError(
            f"{shown(most)}: {n} probabilities of at least {said} sum to more than 1; "
            f"at most {steps // n / steps!r} can be asked"
        )
    if not free.all():
        i, j = np.argwhere(~free)[0].tolist()
        raise InfeasibleError(
            f"{shown(most)}: {names.row(i)} may not draw {names.column(j)} ({_because(cost[i, j])}), and is asked to; "
            "a floor and forbidden pairs do not go together"
        )
    return least / steps


def _forced(p: Array, rows: list[int], constraints: Sequence[Constraint], free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns that nobody can draw because of those to whom they are forbidden.

    With a pointwise leakage max_i P_ij <= e^L r_j <= e^L (odds of those who may draw j) max_i P_ij. Where nothing may
    be gained by a guess, p_i P_ij <= p_k P_kj for the likeliest value k.
    """
    gone = np.zeros(free.shape[1], dtype=bool)
    for one in constraints:
        if isinstance(one, PointwiseLeakage):
            odds = (np.where(free[rows], p[rows][:, None], 0.0)).sum(axis=0) / p[rows].sum()
            gone |= math.exp(one.nats) * odds < 1.0 - 1e-12
        elif isinstance(one, ErrorAtLeast) and one.error >= 1.0 - float(p.max()) / math.fsum(p):
            gone |= ~free[int(p.argmax())]
    return gone


def _forcing(p: Array, constraints: Sequence[Constraint]) -> str:
    """What takes columns out in `_forced`."""
    return " and ".join(
        shown(one)
        for one in constraints
        if isinstance(one, PointwiseLeakage) or (isinstance(one, ErrorAtLeast) and _guessless(one, p))
    )


def _because(costs: Any) -> str:
    """By what pairs with these costs are forbidden."""
    infinite = np.isinf(costs)
    if infinite.all():
        return "infinite costs" if infinite.size > 1 else "its cost is infinite"
    return "Forbidden and infinite costs" if infinite.any() else "Forbidden"


def _alike(p: Array, constraints: Sequence[Constraint], budget: float) -> str:
    """What makes rows coincide."""
    named = ["leakage = 0"] if budget == 0.0 else []
    for one in constraints:
        if isinstance(one, Same):
            named.append("Same")
        elif isinstance(one, (LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation)) and _nothing(one):
            named.append(shown(one))
        elif isinstance(one, ErrorAtLeast) and _guessless(one, p):
            named.append(f"{shown(one)}, where nothing may be gained by a guess")
    return " and ".join(named)


def _groups(p: Array, constraints: Sequence[Constraint], budget: float) -> list[tuple[int, ...]]:
    """The values in groups whose rows coincide, in the order of their first."""
    home = list(range(len(p)))

    def joined(members: Sequence[int]) -> None:
        homes = {home[i] for i in members}
        for i, h in enumerate(home):
            if h in homes:
                home[i] = min(homes)

    there = np.flatnonzero(p > 0.0).tolist()
    if budget == 0.0:
        joined(there)
    for one in constraints:
        if isinstance(one, Same):
            for group in one.groups:
                joined(group)
        elif isinstance(one, (LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation)) and _nothing(one):
            joined(there)
        elif isinstance(one, ErrorAtLeast) and _guessless(one, p):
            # values that are likeliest alike are drawn alike
            joined(np.flatnonzero(p == p.max()).tolist())
    found: dict[int, list[int]] = {}
    for i, h in enumerate(home):
        found.setdefault(h, []).append(i)
    return [tuple(g) for g in found.values()]


def _guessless(one: ErrorAtLeast, p: Array) -> bool:
    """Whether nothing may be gained by a guess."""
    return one.error >= 1.0 - float(p.max()) / math.fsum(p) - 1e-15


def _nothing(one: LocalDP | MaximalLeakage | PointwiseLeakage | TotalVariation) -> bool:
    limit = one.epsilon if isinstance(one, LocalDP) else one.at_most if isinstance(one, TotalVariation) else one.nats
    return limit == 0.0


# The randomizer problem with constraints: what is solved how, and what is proven of the answer -------


# A kernel counts as optimal up to this gap, relative to what it costs above the least possible.
TOLERANCE = 1e-7
# Of kernels that cost the same up to this, relative, that which tells least is taken.
HAIR = 1e-10
_IDLE = 1e-11  # columns that are drawn less often are not drawn
_HUGE = 1e5  # costs, over that of telling nothing, beyond which a linear program loses its digits
_NOISE = 1e-12  # entries of a linear program that are less are its rounding
_ROOM = 1e-13  # less than this is none
_SILENT = 1e-12  # nats; less cannot be told
_TIED_WORK = 3e8  # operations of a step of the second stage beyond which it is not tried
_SLACK = 1e-8  # a gap, relative, that a budget which binds leaves at most
_CLOSE = 1e-9  # of two rows at their limit, as floats tell it


class Found(NamedTuple):
    """A kernel of the groups in floats, one beside it with room, a bound on the cost (scaled), and the slope."""

    P: Array
    inner: Array
    bound: float
    slope: float = math.nan
    vertex: Solved | None = None  # of the linear program, where that is all


class Constrained:
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
        self.constraints = tuple(_possible(one, p) if isinstance(one, ErrorAtLeast) else one for one in constraints)
        self.left = reduced(cost, p, self.constraints, budget, names)
        self.allowed, self.p = self.left.allowed, self.left.p
        self.scale = _scale(self.left.cost, self.p)
        self.L = np.where(self.allowed, self.left.cost / self.scale, 0.0)
        # what a few steps of 2^-53 may add to a cost
        usual = [np.median(row[ok]) for row, ok in zip(self.left.cost, self.allowed, strict=True)]
        self.rounding = 2e-15 * float(self.p @ usual)
        self.steps = 0
        self.binding = False  # whether the budget was too little for the cheapest kernel
        self.tied: tuple[Program, Found] | None = None
        self._exact: Exact | None = None

    # The answer -----------------------------------------------------------------------------------------

    def solved(self) -> Solution:
        """The kernel of least expected cost within all of it, and its proof; of several that which tells least."""
        first = self.cheapest()
        if self.tied is None:
            return first

        return quieter(self, *self.tied, first)

    def cheapest(self, also: Callable[[Array, Fraction], bool] | None = None) -> Solution:
        """A kernel of least expected cost, whatever it tells; `also` is asked of it beside `kept`, if that can be."""
        bare = self._bare()
        if bare is not None:
            return bare
        if self.L.shape[1] * self.left.floor > 1.0 - 1e-12:
            return self._uniform()
        found, problem = self._with_pairs(self._relaxed)
        kernel = None if also is None else exactly(found.P, found.inner, problem.floor, also)
        kernel = exactly(found.P, found.inner, problem.floor, self.kept) if kernel is None else kernel
        if kernel is None:
            raise self.impossible(" exactly")
        solution = self.proven(kernel, found.bound, slope=found.slope)
        quiet = solution.leakage <= _SILENT or problem.work > _TIED_WORK
        if not quiet and found.vertex is not None and others(problem, found.vertex):
            self.tied = problem, found
        return solution if solution.optimal else self._closer(problem, found, solution)

    def _closer(self, problem: Program, found: Found, first: Solution) -> Solution:
        """The same with less mixed in, where that was too dear: no room to spare, or pairs alone that are drawn."""
        inners, best = [found.inner], first
        with suppress(NumericalError):
            drawn = roomiest(problem._replace(allowed=problem.allowed & (found.P > 0.0)))
            if drawn is not None and drawn[1] > _ROOM:
                inners.append(drawn[0][:, : len(self.p)].T)
        for inner in inners:
            kernel = exactly(found.P, inner, problem.floor, self.kept, room=False)
            if kernel is not None:
                other = self.proven(kernel, found.bound, slope=found.slope)
                best = other if other.excess < best.excess else best
        return best

    def kept(self, kernel: Array, spare: Fraction = Fraction(0)) -> bool:
        """Whether the kernel of the groups keeps everything, looked at in the kernel of all values."""
        P = expanded(self.left, kernel)
        if self.budget < math.inf and not within(self.prior, P.reshape(-1), self.budget) and len(self.p) > 1:
            return False
        self._exact = Exact(self.prior, P) if self._exact is None else self._exact.of(P)
        return all(one.kept(self._exact, spare) for one in self.constraints)

    def proven(self, kernel: Array, bound: float, optimal: bool | None = None, slope: float = math.nan) -> Solution:
        """The solution that a kernel of the groups is, with a bound on the scaled cost."""
        P = expanded(self.left, kernel)
        drawn = P > 0.0
        weights = np.broadcast_to(self.prior[:, None], P.shape)[drawn]
        excess = math.fsum((weights * P[drawn] * self.left.dear[drawn]).tolist())
        least = min(max(0.0, self.scale * bound * (1.0 - (len(P) + 6) * 2.0**-52)), excess)
        if optimal is None:
            optimal = excess - least <= TOLERANCE * excess + self.rounding
        told = information(self.prior, P.reshape(-1))
        return Solution(P, self.left.lowest, excess, least, told, self.steps, optimal, slope / self.scale)

    # Ways to it -----------------------------------------------------------------------------------------

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
            if self.kept(found.kernel):
                bound = (found.lowest * (1.0 - 4e-16) + found.bound * (1.0 - 1e-14)) / self.scale
                return self.proven(found.kernel, bound, found.optimal, found.slope * self.scale)
            budget *= 1.0 - 4e-14  # merged odds are rounded: a hair less is kept
        return None

    def _uniform(self) -> Solution:
        """Where the floor leaves no choice."""
        m, n = self.L.shape
        row = np.full(n, self.left.floor)
        # what is left of a row goes to one column: all rows the same keep every measure
        row[int((self.p @ self.L).argmin())] = 1.0 - (n - 1) * self.left.floor
        kernel = np.tile(row, (m, 1))
        if not self.kept(kernel):
            raise self.impossible()
        cost = float(self.p @ self.L.mean(axis=1))
        return self.proven(kernel, cost - n * (1.0 / n - self.left.floor) * float(self.L.max()))

    def _with_pairs(self, solve: Callable[[Program], Found]) -> tuple[Found, Program]:
        """Solve, and again with the pairs of rows that were too far apart, until none is."""
        pairs: list[Pair] = []
        while True:
            problem = program(self.p, self.left.top, self.L, self.allowed, self.left.floor, self.constraints, pairs)
            found = solve(problem)
            more = self._apart(found.P, pairs)
            if not more:
                return found, problem
            pairs += more

    def _apart(self, P: Array, pairs: Sequence[Pair]) -> list[Pair]:
        """Pairs of rows that are further apart than they may be, and not among those given."""
        most = min([one.at_most for one in self.constraints if isinstance(one, TotalVariation)], default=1.0)
        known = {*pairs}
        return [
            (i, k)
            for i in range(len(P))
            for k in range(i + 1, len(P))
            if (i, k) not in known and np.maximum(P[i] - P[k], 0.0).sum() > most + _CLOSE
        ]

    def _relaxed(self, problem: Program) -> Found:
        """Kernel and bound for the rows of a program and the budget."""
        # a budget that did bind with fewer pairs does so with more, as a rule
        without = None if self.binding and self.allowed.all() else self._without_budget(problem)
        bound = -math.inf
        if without is not None:
            bound = without.bound
            self.binding = information(self.p, without.P.reshape(-1)) > self.budget * (1.0 - 1e-12)
            if not self.binding:
                return without
        m = len(self.p)
        start = self.start(problem)
        centred = central(problem, start, self.budget)
        self.steps += centred.steps
        P = cleaned(centred.X[:, :m].T)
        bound = max(bound, centred.bound)
        if centred.value - bound > 1e-10 * centred.value:
            bound = max(bound, lower_told(problem, centred.by, centred.q, self.budget, best=True))
        if without is None and centred.value - bound > _SLACK * centred.value:
            without = self._without_budget(problem)
            bound = max(bound, without.bound)
            if information(self.p, without.P.reshape(-1)) <= self.budget * (1.0 - 1e-12):
                return without
        if centred.value - bound > _SLACK * centred.value and information(self.p, P.reshape(-1)) < self.budget:
            # the budget is not what binds: of the kernels that are all as cheap, one close by
            close = linear(problem, P)
            Q = P if close is None else cleaned(close.X[:, :m].T, _NOISE)
            P = Q if information(self.p, Q.reshape(-1)) < self.budget else P
        inner = self.inner(problem, P, start[:, :m].T)
        return Found(P, inner, bound, 1.0 / centred.by.nu)

    def _without_budget(self, problem: Program) -> Found:
        """The same without the budget: a vertex of the linear program."""
        found = linear(problem)
        if found is None:
            raise self.impossible()
        self.steps += found.steps
        P = cleaned(found.X[:, : len(self.p)].T, _NOISE)
        bound = lower(problem, found.by)
        if problem.cost.max() > _HUGE:
            P, bound = self._cut_off(problem, P, bound)
        return Found(P, self.inner(problem, P), bound, vertex=found)

    def _cut_off(self, problem: Program, P: Array, bound: float) -> tuple[Array, float]:
        """The better of a kernel and that for costs without the huge ones, and of the bounds of both.

        Who cuts costs off makes every kernel cheaper: what is proven of them holds of the true ones.
        """
        cheaper = problem._replace(cost=np.minimum(problem.cost, _HUGE))
        found = linear(cheaper)
        if found is None:
            return P, bound
        Q = cleaned(found.X[:, : len(self.p)].T, _NOISE)
        paid = [float((self.p[:, None] * problem.cost * kernel).sum()) for kernel in (P, Q)]
        return (Q if paid[1] < paid[0] else P), max(bound, lower(cheaper, found.by))

    def inner(self, problem: Program, P: Array, otherwise: Array | None = None) -> Array:
        """A kernel that keeps everything with room: all rows the same where that is allowed."""
        r = self.p @ P / self.p.sum()
        if (self.allowed | (r == 0.0)).all():
            return np.tile(r, (len(P), 1))
        return self.start(problem)[:, : len(P)].T if otherwise is None else otherwise

    def start(self, problem: Program) -> Array:
        """Unknowns (n, k) that keep all rows and the budget with room."""
        m, n = self.L.shape
        if self.allowed.all():
            return begun(problem, np.full((m, n), 1.0 / n))
        found = roomiest(problem)
        if found is None or found[1] < _ROOM:
            raise self.impossible()
        X = found[0]
        if self.budget == math.inf or information(self.p, _flat(X[:, :m])) < 0.9 * self.budget:
            return X
        least = central(problem, X, limit=math.inf, enough=0.9 * self.budget)
        if least.value < self.budget * (1.0 - 1e-9):
            return least.X
        raise InfeasibleError(
            f"leakage = {self.budget:.6g} nats; the forbidden pairs{self._named(' and ')} need at least "
            f"{max(least.bound, 0.0):.6g} nats"
        )

    # What cannot be -------------------------------------------------------------------------------------

    def impossible(self, how: str = "") -> InfeasibleError:
        """The error that names the constraints that do not go together: all without which the rest is possible."""
        blamed = []
        for one in self.constraints:
            rest = [other for other in self.constraints if other is not one]
            try:
                if one.measure and Constrained(self.cost, self.prior, rest, self.budget)._possible():
                    blamed.append(shown(one))
            except InfeasibleError:
                pass
        named = blamed or list(dict.fromkeys(_brief(one) for one in self.constraints))
        pairs = "" if self.allowed.all() else " with the forbidden pairs"
        return InfeasibleError(f"{' and '.join(named)} cannot be kept{how}{pairs}; allow more")

    def _possible(self) -> bool:
        problem = program(self.p, self.left.top, self.L, self.allowed, self.left.floor, self.constraints)
        return linear(problem) is not None

    def _named(self, before: str) -> str:
        named = [shown(one) for one in self.constraints if one.measure]
        return before + " and ".join(named) if named else ""


def _possible(one: ErrorAtLeast, p: Array) -> ErrorAtLeast:
    """An error that can be asked; one that is above by a rounding error is the largest that can be."""
    most = 1 - max(map(Fraction, p.tolist())) / sum(map(Fraction, p.tolist()))
    if Fraction(one.error) <= most:
        return one
    if one.error > float(most) + 1e-15:
        raise InfeasibleError(
            f"{shown(one)}; who always guesses the likeliest value is wrong with probability {float(most):.6g}, so "
            "more cannot be asked"
        )
    nearest = float(most)
    return ErrorAtLeast(nearest if Fraction(nearest) <= most else math.nextafter(nearest, 0.0))


def _brief(one: Constraint) -> str:
    """A constraint in a message; of those with long lists the kind alone."""
    return type(one).__name__ if isinstance(one, (Forbidden, Same)) else shown(one)


def _scale(cost: Array, p: Array) -> float:
    """The expected cost of the cheapest column that is allowed to all, or the largest cost."""
    columns = np.isfinite(cost).all(axis=0)
    constant = float((p @ cost[:, columns]).min()) if columns.any() else 0.0
    return constant or float(cost[np.isfinite(cost)].max()) or 1.0


def cleaned(P: Array, least: float = 0.0) -> Array:
    """A kernel without entries below the least, and without columns that are hardly drawn."""
    P = np.where(least < P, P, 0.0)
    P = np.where(P.max(axis=0) > _IDLE, P, 0.0)
    return np.ascontiguousarray(P / P.sum(axis=1, keepdims=True))


def _flat(X: Array) -> Array:
    return np.ascontiguousarray(X.T).reshape(-1)


# Of kernels that cost the same, the one that tells least: a second stage for linear programs with tie ---


_WEIGHTS = (1e-3, 1e-2, 1e-5)  # of the information, over the cost
_REACHES = (1e-9, 1e-7, 1e-5)  # how far the linear program may look
_NONE = 1e-12  # a cost, over that of telling nothing, that is none
_SAME = 1e-9  # of a leakage: less than this is no gain


def quieter(
    problem: Constrained, program: Program, found: Found, first: Solution, kept: Kept | None = None
) -> Solution:
    """The first answer, or one that costs the same to a hair and tells less; `kept` says what is exactly kept."""
    most = first.excess * (1.0 + HAIR) + problem.rounding
    for way in (_bare, _weighed):
        kernel = way(problem, program, found, kept or problem.kept)
        if kernel is None:
            continue
        other = problem.proven(kernel, found.bound)
        cheap = other.excess <= most and (other.optimal or not first.optimal)
        if cheap and other.leakage < (1.0 - _SAME) * first.leakage:
            return other
        if way is _bare:
            return first  # no other tells less, with constraints or without
    return first


def _bare(problem: Constrained, program: Program, found: Found, kept: Kept) -> Array | None:
    """The kernel that tells least at this cost without the constraints, if it keeps them."""
    dear = problem.scale * _cost(problem, found.P)
    if program.floor > 0.0 or not dear > 0.0:
        return None
    try:
        bare, _ = least_leakage(problem.left.cost, problem.p, dear * (1.0 + 0.01 * HAIR))
    except (InfeasibleError, NumericalError):
        return None
    return bare.kernel if kept(bare.kernel, Fraction(0)) else None


def _weighed(problem: Constrained, program: Program, found: Found, kept: Kept) -> Array | None:
    """The kernel that tells least within the constraints, exactly kept."""
    m = len(program.p)
    dear = _cost(problem, found.P)
    with np.errstate(all="ignore"):
        if dear <= _NONE:
            return _free(problem, program, kept)
        try:
            start = problem.start(program)
            for weight in _WEIGHTS:
                P = cleaned(central(program, start, weight=weight * dear).X[:, :m].T)
                for reach in _REACHES:
                    close = linear(program, P, reach)
                    Q = None if close is None else cleaned(close.X[:, :m].T, 1e-12)
                    if Q is None or _cost(problem, Q) > dear * (1.0 + 0.1 * HAIR):
                        continue
                    kernel = exactly(Q, problem.inner(program, Q), program.floor, kept)
                    # the looser the reach, the less dust in columns that nobody else draws
                    if kernel is not None and _cost(problem, kernel) <= dear * (1.0 + 0.5 * HAIR):
                        return kernel
        except (InfeasibleError, NumericalError):
            return None
    return None


def _cost(problem: Constrained, P: Array) -> float:
    return float((problem.p[:, None] * problem.L * P).sum())


def _free(problem: Constrained, program: Program, kept: Kept) -> Array | None:
    """The same where the cheapest pairs of all rows alone will do: no other is drawn."""
    m = len(problem.p)
    cheap = program._replace(allowed=program.allowed & (program.cost <= 0.0))
    try:
        roomy = roomiest(cheap)
        if roomy is None or roomy[1] < 1e-9:
            return None
        told = central(cheap, roomy[0], limit=math.inf)
    except NumericalError:
        return None
    P = cleaned(told.X[:, :m].T)
    return exactly(P, roomy[0][:, :m].T, program.floor, kept)


# The least leakage at an acceptable distortion, with constraints: the problem of `constrained` from t ---


_WIDER = 1e-7  # of a limit that leaves no choice, relative


def least_leakage_with(
    cost: Array, p: Array, constraints: Sequence[Constraint], limit: float, names: Names | None = None
) -> tuple[Solution, float]:
    """The kernel of least information within the constraints at a distortion of at most `limit`.

    Beside it a leakage that no such kernel goes below.
    """
    if not limit >= 0.0:
        raise DesignError(f"distortion_at_most = {limit!r}; it must be 0 or more")
    return _AtMost(cost, p, constraints, limit, names).found()


class _AtMost(Constrained):
    """A problem with a limit on the cost."""

    def __init__(
        self, cost: Array, p: Array, constraints: Sequence[Constraint], limit: float, names: Names | None = None
    ) -> None:
        super().__init__(cost, p, constraints, names=names)
        self.limit, self.proof = limit, 0.0
        self.most = (limit - self.left.lowest) / self.scale

    def found(self) -> tuple[Solution, float]:
        """The answer, and the leakage that is proven."""
        cheapest = self.cheapest(self._kept_cheaply)
        upper, least = bounds_of(cheapest)
        if least > self.limit:
            raise InfeasibleError(
                f"distortion_at_most = {self.limit:.6g}; the least that any randomizer within the constraints reaches "
                f"is {least:.6g}"
            )
        if not self._cheap_enough(cheapest.kernel):
            raise InfeasibleError(
                f"distortion_at_most = {self.limit!r}; no randomizer within the constraints was found that meets it, "
                f"and one that costs {upper!r}"
            )
        bare = self._bare_leakage() or self._silent()
        if bare is not None:
            return bare
        self.corner = np.array([cheapest.kernel[g[0]][self.left.columns] for g in self.left.groups])
        # where hardly any room is left to look for less in, the limit that is proven with is wider
        dearest = cheapest.excess / self.scale
        room = self.most - dearest
        self.most = max(self.most, dearest + _WIDER * max(1.0, dearest))
        found, problem = self._with_pairs(self._told)
        kernel = None
        if room > _WIDER * max(1.0, dearest):
            kernel = exactly(found.P, found.inner, problem.floor, self._kept_cheaply)
        if kernel is None:
            if self.tied is not None:
                cheapest = quieter(self, *self.tied, cheapest, self._kept_cheaply)
            proof = min(max(self.proof, found.bound), cheapest.leakage)
            closed = cheapest.leakage - proof <= TOLERANCE * cheapest.leakage + 1e-13
            return cheapest._replace(optimal=cheapest.optimal and closed), proof
        solution = self.proven(kernel, 0.0, optimal=True)
        # D >= (B - I) / beta, B being what the multipliers prove of beta D + I
        beta = 1.0 / found.slope
        told = solution.leakage * (1.0 + 1e-14)
        bound = max(0.0, (found.bound - told) / beta + self.most * (1.0 - 1e-14))
        bound = min(self.scale * bound * (1.0 - (len(self.prior) + 6) * 2.0**-52), solution.excess)
        proof = min(max(self.proof, found.bound), solution.leakage)
        closed = solution.leakage - proof <= TOLERANCE * solution.leakage + 1e-13
        solution = self._cheapest(solution._replace(bound=bound, slope=beta / self.scale))
        proof = min(proof, solution.leakage)
        also = solution.excess - solution.bound <= TOLERANCE * solution.excess + self.rounding
        return solution._replace(optimal=closed and also), proof

    def _cheapest(self, solution: Solution) -> Solution:
        """The cheapest kernel that tells no more: where the limit is not what binds there may be a cheaper one."""
        if solution.excess - solution.bound <= TOLERANCE * solution.excess:
            return solution
        budget = solution.leakage * (1.0 + 1e-11)
        try:
            found = Constrained(self.cost, self.prior, self.constraints, budget).solved()
        except InfeasibleError:
            return solution
        return found if found.excess <= solution.excess and self._cheap_enough(found.kernel) else solution

    def _bare_leakage(self) -> tuple[Solution, float] | None:
        """The answer without the constraints, if it keeps them."""
        if any(len(g) > 1 for g in self.left.groups) or self.left.floor > 0.0:
            return None
        try:
            found, proof = least_leakage(np.where(self.left.open, self.cost, math.inf), self.prior, self.limit)
        except InfeasibleError:
            return None
        kernel = np.array([found.kernel[g[0]][self.left.columns] for g in self.left.groups])
        if np.array_equal(expanded(self.left, kernel), found.kernel) and self.kept(kernel):
            return found, proof
        self.proof = proof  # no kernel tells less without the constraints, so none does with them
        return None

    def _silent(self) -> tuple[Solution, float] | None:
        """The cheapest kernel that tells nothing, if that will do."""
        try:
            found = Constrained(self.cost, self.prior, self.constraints, 0.0).solved()
        except InfeasibleError:
            return None
        return (found._replace(leakage=0.0), 0.0) if self._cheap_enough(found.kernel) else None

    def _told(self, problem: Program) -> Found:
        """Kernel, and a bound on the information."""
        m = len(self.p)
        inner = self.start(problem)[:, :m].T
        here, there = (float((self.p[:, None] * self.L * P).sum()) for P in (self.corner, inner))
        share = 0.5 if there <= here else min(0.5, 0.5 * (self.most - here) / (there - here))
        middle = (1.0 - share) * self.corner + share * inner
        centred = central(problem, begun(problem, middle), limit=self.most)
        self.steps += centred.steps
        P = np.maximum(centred.X[:, :m].T, 0.0)
        P = np.ascontiguousarray(P / P.sum(axis=1, keepdims=True))
        bound = max(
            centred.bound,
            lower_told(problem, centred.by, self.p @ P, 0.0) - centred.by.cost * self.most * (1.0 + 1e-15),
        )
        return Found(P, middle, bound, 1.0 / centred.by.cost)

    def _kept_cheaply(self, kernel: Array, spare: Fraction) -> bool:
        return self._cheap_enough(expanded(self.left, kernel)) and self.kept(kernel, spare)

    def _cheap_enough(self, P: Array) -> bool:
        """Whether a kernel costs no more than the limit: in whole fractions where rounding could decide."""
        drawn = (P > 0.0) & (self.prior[:, None] > 0.0)
        parts = np.broadcast_to(self.prior[:, None], P.shape)[drawn], P[drawn], self.cost[drawn]
        spent = float((parts[0] * parts[1] * parts[2]).sum())
        if abs(spent - self.limit) > 1e-9 * self.limit:
            return spent < self.limit
        terms = zip(*(part.tolist() for part in parts), strict=True)
        return sum(Fraction(w) * Fraction(x) * Fraction(c) for w, x, c in terms) <= Fraction(self.limit)
