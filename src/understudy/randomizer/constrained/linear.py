"""The constrained problem without mutual information: a linear program for HiGHS (Huangfu and Hall, 2018).

Its kernel and its multipliers are floats that nearly solve it. Neither is believed: the kernel is rounded and mixed
until every constraint holds exactly (`feasible`), and the bound is that of `program.lower`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy.randomizer.constrained.program import Multipliers, Program

_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# method, options, and where costs are cut off; a kernel or a bound that comes of such costs is as good as another
_ATTEMPTS: tuple[tuple[str, dict[str, float], float], ...] = (
    ("highs", _TIGHT, math.inf),
    ("highs", {}, 1e6),
    ("highs-ipm", {}, 1e4),
)
_INFEASIBLE = 2
_NEAR = 1e-4  # a little
_MET = 1e-9  # a slack or a price that is less is none
_OTHER = 1e-6  # a change of a sum of probabilities that is less is none
_SMALL = 4_000  # entries of a matrix up to which scipy is quicker with all of them than with those that count


class Solved(NamedTuple):
    """All unknowns (n, k), and the multipliers of the rows."""

    X: Array
    by: Multipliers
    steps: int
    prices: Array | None = None  # of the bounds of all unknowns, where bounds or rows are met without a price


def linear(problem: Program, near: Array | None = None, reach: float = _NEAR) -> Solved | None:
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


def _highs(problem: Program, cost: Array, room: float, near: Array | None = None, close: float = _NEAR) -> Any:
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
