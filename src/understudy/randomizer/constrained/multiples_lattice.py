"""Kernels of a constrained problem in whole numbers that sum to N in each row: prices, and what is kept.

Whether a kernel keeps everything is decided in whole numbers, one at a time. Many at once are first looked at in
floats, which lets through all that keep it and some that miss it by a hair.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.constrained.constraints import (
    ErrorAtLeast,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    TotalVariation,
)
from understudy.randomizer.constrained.solving import Constrained
from understudy.randomizer.solver import Solution
from understudy._types import Ints as Counts
from understudy._types import Mask as Flags

_HAIR = 1e-13  # of a probability: more than rounding in floats, less than a step of any lattice
_BIT = 1e-13  # of a nat
_CHUNK = 1 << 17  # entries of kernels that are looked at together



class Lattice:
    """The kernels of the groups of a problem in multiples of 1/of; `free` is the best kernel on no lattice."""

    def __init__(self, problem: Constrained, best: Solution, of: int) -> None:
        left = problem.left
        self.problem, self.solution, self.of = problem, best, of
        self.free: Array = np.array([best.kernel[g[0]][left.columns] for g in left.groups])
        self.least = math.ceil(left.floor * of)
        self.cost: Array = problem.p[:, None] * problem.L
        self.bound = best.bound / problem.scale
        self.rounding = problem.rounding / problem.scale

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n = self.cost.shape
        return m, n

    def halved(self) -> Lattice:
        """The coarser lattice with half as many steps."""
        return Lattice(self.problem, self.solution, self.of // 2)

    def price(self, K: Counts) -> float:
        """The expected cost, scaled."""
        return math.fsum((self.cost * K).ravel().tolist()) / self.of

    def unbeaten(self, K: Counts) -> bool:
        """Whether no kernel, on the lattice or off it, costs less than this one but for rounding."""
        return self.price(K) - self.bound <= 1e-13 * self.bound + self.rounding

    def kept(self, K: Counts) -> bool:
        """Whether a kernel keeps everything, in whole numbers."""
        if K.min() < self.least or (K[~self.problem.allowed] > 0).any():
            return False
        return self.problem.kept(K / self.of)

    def cheapest(self, many: Counts, most: int = 64) -> Counts | None:
        """The cheapest of many kernels (B, m, n) that keeps everything; `most` are looked at in whole numbers."""
        order = np.argsort(np.einsum("bij,ij->b", many, self.cost), kind="stable")
        for at in order[self.likely(many)[order]][:most]:
            if self.kept(many[at]):
                found: Counts = many[at]
                return found
        return None

    def likely(self, many: Counts) -> Flags:
        """Which of many kernels (B, m, n) keep everything, as floats tell it; none is missed."""
        size = max(1, _CHUNK // max(1, self.cost.size))
        parts = [self._likely(many[at : at + size] / self.of) for at in range(0, len(many), size)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def _likely(self, P: Array) -> Flags:
        problem = self.problem
        total = math.fsum(problem.p)
        ok: Flags = np.ones(len(P), dtype=bool)
        high, low = P.max(axis=1), P.min(axis=1)
        r = np.einsum("i,bij->bj", problem.p / total, P)
        for one in problem.constraints:
            if isinstance(one, LocalDP):
                ok &= (high <= math.exp(one.epsilon) * low + _HAIR).all(axis=1)
            elif isinstance(one, MaximalLeakage):
                ok &= high.sum(axis=1) <= math.exp(min(one.nats, 700.0)) + _HAIR
            elif isinstance(one, PointwiseLeakage):
                ok &= (high <= math.exp(min(one.nats, 700.0)) * r + _HAIR).all(axis=1)
            elif isinstance(one, ErrorAtLeast):
                right = (problem.left.top[:, None] * P).max(axis=1).sum(axis=1)
                ok &= right <= (1.0 - one.error) * math.fsum(problem.prior) + _HAIR
        # what takes longer is asked of those that are left
        for limit in [one.at_most for one in problem.constraints if isinstance(one, TotalVariation)]:
            for i in range(P.shape[1] - 1):
                Q = P[ok]
                apart = np.maximum(Q[:, i, None] - Q[:, i + 1 :], 0.0).sum(axis=2)
                ok[ok] = (apart <= limit + _HAIR).all(axis=1)
        if problem.budget < math.inf and ok.any():
            ok[ok] = self._told(P[ok]) <= problem.budget + _BIT
        return ok

    def told(self, many: Counts) -> Array:
        """I(Theta; ~Theta) of many kernels (B, m, n), in nats."""
        return self._told(many / self.of)

    def _told(self, P: Array) -> Array:
        p = self.problem.p / math.fsum(self.problem.p)
        r = np.einsum("i,bij->bj", p, P)
        ratio = P / np.where(r > 0.0, r, 1.0)[:, None, :]
        told: Array = np.einsum("i,bij->b", p, P * np.log(np.where(ratio > 0.0, ratio, 1.0)))
        return told


def on_lattice(P: Array, of: int, least: int) -> Counts:
    """Rows rounded to whole numbers that sum to `of`, the largest remainders up; none below `least`.

    >>> on_lattice(np.array([[0.15, 0.25, 0.6]]), 8, 0).tolist()
    [[1, 2, 5]]
    """
    K = np.maximum(np.floor(P * of).astype(np.int64), least)
    for row, exact in zip(K, P * of, strict=True):
        while (left := of - int(row.sum())) != 0:
            off = exact - row
            if left > 0:
                row[np.argsort(-np.where(exact > 0.0, off, -math.inf), kind="stable")[: min(left, len(row))]] += 1
            else:
                row[int(np.where(row > least, off, math.inf).argmin())] -= 1
    return K
