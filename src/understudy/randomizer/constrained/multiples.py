"""Kernels in multiples of 1/256, or of another power of two, for devices that draw with few random bits.

The kernel of the problem without this demand is rounded to the lattice, mixed with one that has room where it must be,
and then improved by moving steps of probability, in small problems of two rows at once too, as long as that pays and
every constraint is kept. How far that is from the best is not known, but how far at most: no kernel at all costs less
than the bound of the problem without the demand.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.constrained.constraints import Multiples, shown
from understudy.randomizer.constrained.solving import Constrained
from understudy.randomizer.solver import Solution

_TRIES = 12_000  # kernels that are looked at in all, about
_STARTS = 4  # roundings that are improved
_PAIRED = 64  # entries up to which steps of two rows at once are tried

Counts = NDArray[np.int64]
Steps = tuple[tuple[int, int, int], ...]  # row, from this column, to that one
Move = tuple[float, Steps]


def in_multiples(problem: Constrained, best: Solution, of: int) -> Solution:
    """The best kernel found in multiples of 1/of; its bound is that of `best`, the solution without them."""
    search = _Search(problem, best, of)
    K = search.found()
    if K is None:
        raise InfeasibleError(
            f"{shown(Multiples(of))}: no kernel in multiples of 1/{of} was found that keeps the other constraints; "
            "take finer ones"
        )
    kernel = K / of
    bound = best.bound / problem.scale
    return problem.proven(kernel, bound)


class _Search:
    """Kernels of the groups in whole numbers that sum to `of` in each row."""

    def __init__(self, problem: Constrained, best: Solution, of: int) -> None:
        self.problem, self.of, self.tries = problem, of, 0
        left = problem.left
        self.best = np.array([best.kernel[g[0]][left.columns] for g in left.groups])
        self.least = math.ceil(left.floor * of)
        self.cost = problem.p[:, None] * problem.L

    def kept(self, K: Counts) -> bool:
        """Whether the kernel keeps everything else."""
        self.tries += 1
        return self.problem.kept(K / self.of)

    def found(self) -> Counts | None:
        """The best of what rounding and moving give."""
        starts = self._rounded()
        return min((self._improved(K) for K in starts), key=self._price) if starts else None

    def _price(self, K: Counts) -> float:
        return float((self.cost * K).sum())

    def _rounded(self) -> list[Counts]:
        """The optimum on the lattice, with as little as will do of a kernel whose rows are all the same; a few."""
        r = self.problem.p @ self.best / self.problem.p.sum()
        alike = np.tile(_on_lattice(r[None, :], self.of, self.least), (len(self.best), 1))
        if not self.problem.allowed[alike > 0].all():
            alike = _on_lattice(self.best, self.of, self.least)
        found: list[Counts] = []
        for share in (0.0, *(2.0**k for k in np.arange(-9.0, 0.0, 0.5)), 1.0):
            K = _on_lattice((1.0 - share) * self.best + share * alike / self.of, self.of, self.least)
            K = alike if share == 1.0 else K
            if self.kept(K):
                found.append(K)
            if len(found) == _STARTS:
                break
        return found

    def _improved(self, K: Counts) -> Counts:
        """Steps that pay, the largest gain first, until none is left."""
        n = K.shape[1]
        most = self.tries + _TRIES // _STARTS
        while True:
            moves: list[Move] = [
                (self.cost[i, a] - self.cost[i, b], ((i, a, b),))
                for i in range(len(K))
                for a, b in permutations(range(n), 2)
                if K[i, a] > self.least and self.problem.allowed[i, b]
            ]
            if K.size <= _PAIRED:
                moves += self._pairs(moves)
            before = self._price(K)
            for gain, steps in sorted(moves, key=lambda move: -move[0]):
                if gain <= 1e-15 or self.tries > most:
                    break
                K = self._moved(K, steps)
            if self._price(K) >= before or self.tries > most:
                return K

    def _pairs(self, moves: list[Move]) -> list[Move]:
        """Two steps of different rows at once, where together they pay and one alone would not."""
        singles = [(gain, steps[0]) for gain, steps in moves]
        return [
            (gain + other, (step, second))
            for gain, step in singles
            if gain > 0.0
            for other, second in singles
            if second[0] != step[0] and other <= 0.0 and gain + other > 0.0 and {*second[1:]} & {*step[1:]}
        ]

    def _moved(self, K: Counts, steps: Steps) -> Counts:
        """The kernel after the steps, as often as they can be made; as it is where they cannot."""
        size = self.of
        while size:
            Q = K.copy()
            for i, a, b in steps:
                Q[i, a] -= size
                Q[i, b] += size
            if all(Q[i, a] >= self.least for i, a, _ in steps) and self.kept(Q):
                return Q
            size //= 4
        return K


def _on_lattice(P: Array, of: int, least: int) -> Counts:
    """Rows rounded to whole numbers that sum to `of`, the largest remainders up; none below `least`."""
    K = np.maximum(np.floor(P * of).astype(np.int64), least)
    for row, exact in zip(K, P * of, strict=True):
        while (left := of - int(row.sum())) != 0:
            off = exact - row
            if left > 0:
                row[np.argsort(-np.where(exact > 0.0, off, -math.inf), kind="stable")[: min(left, len(row))]] += 1
            else:
                row[int(np.where(row > least, off, math.inf).argmin())] -= 1
    return K
