"""Column generation: solve on the few pseudo values that are used, and prove that the others could not help.

At the optimum few columns are used. The problem is solved on some of them; at its (q, beta) every
other column has a price c_j, and one with c_j <= 1 could not help. Those above are let in, and so on. The
lower bound is that of all columns. A problem that wants most of its columns is solved whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.interior import SMALL, TOLERANCE, Finished, Point, Workspace
from understudy._types import Index as Indices


# Up to the first size of its smaller side a problem is solved whole at once, up to the second if need be.
FEW = 256
WHOLE = 2048

_FIRST = 64
_ROUNDS = 40
_ROWS = 256


def generate(space: Workspace, budget: float, best: int, base: Array) -> tuple[Finished, int]:
    """Solve on a growing set of columns until none outside it could help."""
    m, n, p = space.m, space.n, space.p
    L, B = space.L.reshape(m, n), base.reshape(m, n)
    needed = np.asarray(B.any(axis=0))
    chosen = needed.copy()
    # the cheapest columns of some rows
    chosen[L[np.linspace(0, m - 1, _FIRST).astype(int)].argmin(axis=1)] = True
    steps, slope = 0, 0.0
    for _ in range(_ROUNDS):
        J = np.flatnonzero(chosen)
        part = Workspace(m, J.size, p, L[:, J].ravel())
        if slope == 0.0:
            slope = part.first_slope(budget, int(np.searchsorted(J, best)) if best >= 0 else -1)
        point = part.interior(budget, slope)
        steps, slope = steps + point.steps, point.slope
        q = np.zeros(n)
        q[J] = point.q / point.q.sum()
        c = _prices(L, p, q, J, slope)
        wanted = (c > 1.0 + 0.01 * TOLERANCE * slope * point.cost) & ~chosen
        if point.found and not wanted.any():
            return _proven(space, budget, part.finish(budget, point, B[:, J].ravel()), point._replace(q=q), J), steps
        idle = (point.q < 1e-9 * (1.0 - c[J])) & ~needed[J]
        chosen[J[idle]] = False
        chosen[_most_wanted(np.where(wanted, c, 0.0), max(SMALL - int(chosen.sum()), J.size))] = True
        if n <= WHOLE and (not point.found or 2 * int(chosen.sum()) > n):
            found, more = space.optimise(budget, best, base)
            return found, steps + more
    return _proven(space, budget, part.finish(budget, point, B[:, J].ravel()), point._replace(q=q), J), steps


def _proven(space: Workspace, budget: float, part: Finished, point: Point, J: Indices) -> Finished:
    """The kernel of some columns as one of all, with a bound that holds for all."""
    bound, rounding = space.bound(budget, point)
    P = np.zeros((space.m, space.n))
    P[:, J] = part.kernel.reshape(space.m, J.size)
    return part._replace(kernel=P.ravel(), bound=bound, rounding=part.rounding + rounding)


def _prices(L: Array, p: Array, q: Array, J: Indices, slope: float) -> Array:
    """c_j = sum_i p_i E_ij / z_i of every column, a block of rows at a time."""
    c = np.zeros(L.shape[1])
    for i in range(0, L.shape[0], _ROWS):
        E = np.exp(-slope * L[i : i + _ROWS])
        c += (p[i : i + _ROWS] / (E[:, J] @ q[J])) @ E
    return c


def _most_wanted(c: Array, most: int) -> Indices:
    """The columns to let in: peaks among neighbours first, since neighbours are often alike, then by price."""
    padded = np.concatenate(([0.0], c, [0.0]))
    peak = (c > 0.0) & (c >= padded[:-2]) & (c >= padded[2:])
    order = np.argsort(-(c + np.where(peak, c.max(), 0.0)))
    return order[: min(most, int((c > 0.0).sum()))]
