"""Column generation: problems with more pseudo values than can be factored at once.

Few pseudo values are used at the optimum. The problem is solved on some columns; at its (q, beta) every
other column has a price c_j, and one with c_j <= 1 could not help. Those above are let in, and so on. The
lower bound is that of all columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.interior import TOLERANCE, Finished, Point, Workspace

Indices = NDArray[np.intp]

# Up to this size of the smaller side a problem is solved whole.
WHOLE = 512

_FIRST = 64
_NEW = 64
_ROUNDS = 40
_ROWS = 256


def generate(space: Workspace, budget: float, best: int, base: Array) -> tuple[Finished, int]:
    """Solve on a growing set of columns until none outside it could help."""
    m, n, p = space.m, space.n, space.p
    L, B = space.L.reshape(m, n), base.reshape(m, n)
    chosen = np.zeros(n, dtype=bool)
    chosen[np.linspace(0, n - 1, _FIRST).astype(int)] = True
    chosen |= (B > 0.0).any(axis=0)
    steps = 0
    for _ in range(_ROUNDS):
        J = np.flatnonzero(chosen)
        part = Workspace(m, J.size, p, np.ascontiguousarray(L[:, J]).ravel())
        point = part.interior(budget, part.first_slope(budget, int(np.searchsorted(J, best)) if best >= 0 else -1))
        steps += point.steps
        q = np.zeros(n)
        q[J] = point.q / point.q.sum()
        c = _prices(L, p, q, J, point.slope)
        excess = part.finish(budget, point, np.ascontiguousarray(B[:, J]).ravel())
        wanted = (c > 1.0 + 0.1 * TOLERANCE * point.slope * excess.excess) & ~chosen
        if not wanted.any() or chosen.sum() > max(n // 2, 2 * WHOLE):
            break
        chosen[(q < 1e-12) & (c < 1.0 - 1e-3) & ~(B > 0.0).any(axis=0)] = False
        chosen[_most_wanted(np.where(wanted, c, 0.0))] = True
    else:
        J = np.flatnonzero(chosen)
    if wanted.any() and n <= 4 * WHOLE:
        return space.optimise(budget, best, base)
    bound, rounding = space.bound(budget, Point(q, point.slope, point.gap, steps))
    P = np.zeros((m, n))
    P[:, J] = excess.kernel.reshape(m, J.size)
    return Finished(P.ravel(), excess.excess, bound, excess.leakage, excess.slope, rounding + excess.rounding), steps


def _prices(L: Array, p: Array, q: Array, J: Indices, slope: float) -> Array:
    """c_j = sum_i p_i E_ij / z_i of every column, a block of rows at a time."""
    c = np.zeros(L.shape[1])
    for i in range(0, L.shape[0], _ROWS):
        E = np.exp(-slope * L[i : i + _ROWS])
        c += (p[i : i + _ROWS] / (E[:, J] @ q[J])) @ E
    return c


def _most_wanted(c: Array) -> Indices:
    """The columns to let in: peaks among neighbours first, since neighbours are often alike, then by price."""
    padded = np.concatenate(([0.0], c, [0.0]))
    peak = (c > 0.0) & (c >= padded[:-2]) & (c >= padded[2:])
    order = np.argsort(-(c + np.where(peak, c.max(), 0.0)))
    return order[: min(_NEW, int((c > 0.0).sum()))]
