"""The least leakage at an acceptable distortion, with constraints: the problem of `constrained` from the other end.

The interior-point method minimises the information with the cost as one more row. Its multiplier is the slope of the
curve, and the same dual numbers prove both a leakage that cannot be undercut at this distortion and a distortion
that cannot be undercut at this leakage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.errors import DesignError, InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.constrained.central import central
from understudy.randomizer.constrained.feasible import exactly
from understudy.randomizer.constrained.naming import Names
from understudy.randomizer.constrained.program import Program, begun, lower_told
from understudy.randomizer.constrained.reduction import expanded
from understudy.randomizer.constrained.solving import TOLERANCE, Constrained, Found
from understudy.randomizer.constrained.ties import quieter
from understudy.randomizer.inverse import least_leakage
from understudy.randomizer.solver import Solution, bounds_of

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
