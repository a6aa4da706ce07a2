"""The randomizer with constraints as others solve it: CVXPY with a solver of its own choice, and `qif`.

CVXPY is given each rule as its documentation would have it written, over the kernel P. `qif` has linear programs
for three of the rules: a Bayes vulnerability (the error), the same at equal odds (the maximal leakage, the odds being
put into the losses), and local differential privacy.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cvxpy(cost: Array, prior: Array, one: Any, leakage: float = math.inf, solver: str | None = None) -> Array:
    """The kernel of least cost that keeps a constraint, and a leakage if there is one; NaN unless it is optimal."""
    import cvxpy as cp

    m, n = cost.shape
    P = cp.Variable((m, n), nonneg=True)
    rules = [cp.sum(P, axis=1) == 1]
    if one.name == "local_dp":
        low = cp.Variable((1, n))
        ones = np.ones((m, 1))
        rules += [ones @ low <= P, math.exp(one.epsilon) * (ones @ low) >= P]
    elif one.name == "maximal_leakage":
        rules.append(cp.sum(cp.max(P, axis=0)) <= math.exp(one.nats))
    elif one.name == "pointwise_leakage":
        rules.append(math.exp(one.nats) * np.outer(np.ones(m), prior) @ P >= P)
    elif one.name == "total_variation":
        rules += [cp.norm1(P[i] - P[k]) <= 2.0 * one.at_most for i in range(m) for k in range(i + 1, m)]
    elif one.name == "error_at_least":
        rules.append(cp.sum(cp.max(cp.multiply(prior[:, None], P), axis=0)) <= 1.0 - one.error)
    elif one.name == "floor":
        rules.append(one.at_least <= P)
    if leakage < math.inf:
        J = cp.multiply(prior[:, None], P)
        rules.append(cp.sum(cp.rel_entr(J, cp.outer(prior, prior @ P))) <= leakage)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(prior[:, None] * cost, P))), rules)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate": such an answer is none
        with contextlib.suppress(cp.error.SolverError):
            problem.solve(solver=solver)
    return np.asarray(P.value) if problem.status == "optimal" else np.full(cost.shape, np.nan)


def qif(cost: Array, prior: Array, one: Any) -> Array:
    """The same by `qif`, for the three rules that it has."""
    from qif import mechanism

    m, n = cost.shape
    loss = cost.tolist()
    if one.name == "local_dp":
        epsilon = one.epsilon
        found = mechanism.d_privacy.min_loss_given_d(prior, n, lambda i, j: epsilon, lambda i, j: loss[i][j])
    elif one.name == "error_at_least":
        found = mechanism.bayes_vuln.min_loss_given_max_vuln(prior, n, 1.0 - one.error, lambda i, j: loss[i][j])
    else:
        # sum_j max_i P_ij <= e^L is a vulnerability of e^L / m at equal odds
        loss = (m * prior[:, None] * cost).tolist()
        equal = np.full(m, 1.0 / m)
        found = mechanism.bayes_vuln.min_loss_given_max_vuln(equal, n, math.exp(one.nats) / m, lambda i, j: loss[i][j])
    return np.asarray(found)


QIF = ("local_dp", "error_at_least", "maximal_leakage")
