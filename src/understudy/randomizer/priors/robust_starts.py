"""Where the search for a robust kernel begins: ordinary problems, at the mean of the priors and beside each of them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.priors.saddle import Point, Problem
from understudy.randomizer.solver import Solution, minimise

# starts: at the price of leakage of the mean of the priors, or of the dearest of them, times a factor
STARTS = ((False, 1.0), (True, 1.0), (True, 30.0), (True, 1e3), (False, 0.1))


def starting_point(problem: Problem, dearest: bool, factor: float) -> Point:
    """From ordinary problems: at the mean of the priors, and at each of them beside it."""
    B, C, n = problem.B, problem.C, problem.L.shape[1]
    K, J = B.shape[1], C.shape[1]
    middle, weights = B.mean(axis=1), C.mean(axis=1)
    q, price = _law_and_price(problem, middle, weights)
    if dearest:
        for k, j in itertools.product(range(K), range(J)):
            beside = _law_and_price(problem, 0.1 * middle + 0.9 * B[:, k], 0.1 * weights + 0.9 * C[:, j])
            q, price = q + beside[0] / (K * J), max(price, beside[1])
    q = 0.7 * q / q.sum() + 0.3 / n
    return Point(q / q.sum(), np.full(K, factor * (price or 1.0) / K), np.full(J, 1.0 / J))


def _law_and_price(problem: Problem, p: Array, w: Array) -> tuple[Array, float]:
    found = ordinary(problem, p, w)
    if found is None:
        return np.full(problem.L.shape[1], 1.0 / problem.L.shape[1]), 0.0
    return p @ found.kernel, 1.0 / found.slope if 0.0 < found.slope < math.inf else 0.0


def ordinary(problem: Problem, p: Array, w: Array) -> Solution | None:
    """The problem of one prior and other weights, which is that of costs times w / p."""
    L = problem.L
    with np.errstate(all="ignore"):
        ratio = np.where(w > 0.0, w / p, 0.0)[:, None]
        cost = np.where(np.isinf(L), math.inf, np.where(L > 0.0, np.minimum(ratio * L, 1e290), 0.0))
    try:
        return minimise(np.ascontiguousarray(cost), p / p.sum(), problem.budget)
    except DesignError:
        return None  # forbidden pairs: other odds will tell
