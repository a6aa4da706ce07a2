"""The randomizer problem with constraints: what is solved how, and what is proven of the answer.

What can be taken out of the problem is (`reduction`). If the bare solver's kernel keeps the constraints, that is the
answer. Without a budget of mutual information the rest is a linear program (`linear`); with one an interior-point
method (`central`). Either way the kernel is mixed and rounded until all holds exactly (`feasible`), and no kernel
costs less than the bound of `program`. Where a linear program has several optima, one that tells least is looked for
(`ties`). Pairs of rows enter a total variation as they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from understudy.errors import InfeasibleError, NumericalError
from understudy.laws.base import Array
from understudy.randomizer.constrained.base import Constraint, Exact
from understudy.randomizer.constrained.central import central
from understudy.randomizer.constrained.constraints import (
    ErrorAtLeast,
    Forbidden,
    Multiples,
    Same,
    TotalVariation,
    shown,
)
from understudy.randomizer.constrained.feasible import exactly
from understudy.randomizer.constrained.linear import Solved, linear, others, roomiest
from understudy.randomizer.constrained.naming import Names
from understudy.randomizer.constrained.program import Pair, Program, begun, lower, lower_told, program
from understudy.randomizer.constrained.reduction import expanded, reduced
from understudy.randomizer.interior import information, within
from understudy.randomizer.solver import Solution, minimise

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
        from understudy.randomizer.constrained.ties import quieter

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
        return all(one.kept(self._exact, spare) for one in self.constraints if not isinstance(one, Multiples))

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
