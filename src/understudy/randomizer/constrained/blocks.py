"""Newton's equations of the interior-point method, solved: a block for each column, then one small system.

The block of a column is G' H G and a diagonal, H being multiplier over slack of each row. A pair of rows of a total
variation has an unknown v of its own, in two rows of G only, a x - v <= 0 and -v <= 0 with weights h and g; taken out
by hand, such a pair leaves h g / (h + g) a a' and no unknown. So a block is never larger than the kernel's column and a
few more, however many pairs there are. What goes across the columns (rows of F, the last row, p of each column, sums
of rows) is one system for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.constrained.program import Program


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
