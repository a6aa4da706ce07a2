"""The constrained problem with mutual information: a primal-dual interior-point method, a column at a time.

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
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.constrained.blocks import blocks
from understudy.randomizer.constrained.program import Multipliers, Program, lower_told
from understudy.randomizer.interior import information

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
