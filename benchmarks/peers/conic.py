"""General conic solvers through CVXPY, for the randomizer: least distortion under a leakage budget.

The problem is  min sum_i p_i P_ij L_ij  subject to  I <= I_0, rows of P summing to one. It is written in the joint
law J_ij = p_i P_ij with the output marginal r as a variable of its own, tied to J by r_j = sum_i J_ij:

    min sum J L   s.t.   sum_j J_ij = p_i,   r_j = sum_i J_ij,   sum_ij rel_entr(J_ij, p_i r_j) <= I_0.

The exponential cones keep J and r nonnegative, so J >= 0 is left out. On squared error at 64 x 64, ECOS took 0.3 s
with this form and ended `optimal`; in the kernel P with P >= 0 it took 0.8 s and ended `optimal_inaccurate`
(Clarabel: 0.25 and 0.35 s). Leaving the tie to r out (r is then the best one anyway) is quicker still with Clarabel at
128 x 128, but ends `optimal_inaccurate` with the distortion off by 7e-5, and is not used.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """What a solver returned; the kernel after clipping negatives and normalising its rows."""

    kernel: Array
    distortion: float
    leakage: float
    status: str
    whole_seconds: float  # CPU time of the whole call, CVXPY's compilation included
    solver_seconds: float  # CPU time inside the solver


def solve(cost: Array, prior: Array, leakage: float, solver: str, **options: Any) -> Answer:
    """Build, compile and solve with `solver` ("CLARABEL" or "ECOS") at its default tolerances."""
    import cvxpy as cp

    start = process_time()
    J = cp.Variable(cost.shape)
    r = cp.Variable(cost.shape[1])
    problem = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(cost, J))),
        [
            cp.sum(J, axis=1) == prior,
            cp.sum(J, axis=0) == r,
            cp.sum(cp.rel_entr(J, cp.outer(prior, r))) <= leakage,
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate": the status says it, and is in the table
        # `problem.solve` in its three parts, so that the solver's own time can be told apart.
        data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
        before = process_time()
        raw = chain.solve_via_data(problem, data, solver_opts=options)
        after = process_time()
        status = FAILED
        with contextlib.suppress(cp.error.SolverError):
            problem.unpack_results(raw, chain, inverse)
            status = problem.status
    kernel = np.full(cost.shape, np.nan)  # a solver that gave up has no answer
    if J.value is not None:
        weights = np.clip(J.value, 0.0, None)
        sums = weights.sum(axis=1, keepdims=True)
        if (sums > 0).all():
            kernel = weights / sums
    end = process_time()
    return Answer(
        kernel=kernel,
        distortion=float(np.sum(prior[:, None] * kernel * cost)),
        leakage=mutual_information(kernel, prior),
        status=status,
        whole_seconds=end - start,
        solver_seconds=after - before,
    )


def mutual_information(kernel: Array, prior: Array) -> float:
    """I = sum p_i P_ij ln(P_ij / r_j), in nats."""
    from scipy.special import rel_entr

    return float(prior @ rel_entr(kernel, prior @ kernel).sum(axis=1))
