"""The worst odds weigh the cost: rows that no odds ask for are free, and the optimum is found all the same."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest
from randomizer_cases import is_kernel
from robust_cases import RobustCase, constant, look, mutual

from understudy.randomizer.priors import solve_robust, worst_prior

BETWEEN = np.array([[0.0, 1.0], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [1.0, 0.0]])
WITH_ZERO = np.array([[0.8, 0.6, 0.4], [0.5, 0.5, 0.6]]), np.array([[0.0, 1.0], [0.9, 0.1]])
BUDGETS = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)


def by_cvxpy(cost, corners, budget):
    """The same problem to a conic solver, exact over the whole hull: with a law r of the draw as another unknown.

    The largest of I(p, P) over the hull is the least over r of the largest of sum_i p_i KL(P_i || r) over the corners.
    """
    m, n = cost.shape
    P, r = cvxpy.Variable((m, n), nonneg=True), cvxpy.Variable((1, n), nonneg=True)
    told = cvxpy.sum(cvxpy.rel_entr(P, np.ones((m, 1)) @ r), axis=1)
    spent = cvxpy.sum(cvxpy.multiply(cost, P), axis=1)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.max(corners @ spent)),
        [cvxpy.sum(P, axis=1) == 1.0, cvxpy.sum(r) == 1.0, corners @ told <= budget],
    )
    problem.solve(solver="CLARABEL")
    return problem.value


def crooked(seed):
    """Costs, corners with zeros or certain of a value, and a budget."""
    rng = np.random.default_rng([8, seed])
    m, n = (int(x) for x in rng.integers(2, 6, size=2))
    cost = np.round(rng.random((m, n)) * 4.0) / 4.0 if seed % 3 == 0 else rng.random((m, n)) ** (1 + 3 * (seed % 2))
    corners = rng.dirichlet(np.ones(m), size=3) * (rng.random((3, m)) < 0.5) + 1e-300
    corners = np.eye(m) if seed % 2 else np.where(corners > 1e-200, corners, 0.0)
    corners[corners.sum(axis=1) == 0.0, 0] = 1.0
    return cost, corners / corners.sum(axis=1, keepdims=True), float(10.0 ** rng.uniform(-2.0, 0.0))


@pytest.mark.parametrize("priors", ["all", np.eye(5)])
def test_a_value_between_two_others(priors):
    """The middle row costs 1/2 whatever is drawn, and so does the fair coin for all: 1/2 at every budget."""
    for budget in BUDGETS[1:]:
        found = solve_robust(BETWEEN, priors, prior="worst", leakage=budget)
        assert found.distortion == pytest.approx(0.5, rel=1e-12)
        assert found.status == "optimal"
        assert found.worst_leakage <= budget


def test_a_corner_with_a_zero():
    """One corner is certain of the second value, which costs 1/2 at least: reached at 0.3 nats, and above."""
    for budget in (0.3, 0.4, 0.5, 0.6):
        found = solve_robust(*WITH_ZERO, prior="worst", leakage=budget)
        assert found.distortion == pytest.approx(0.5, rel=1e-12)
        assert found.status == "optimal"


@pytest.mark.sample(default=3, seconds=2, reason="eight hulls, five budgets each")
@pytest.mark.parametrize("seed", range(8))
def test_more_to_tell_never_costs_more(seed):
    """Over twelve budgets: optimal at each, never dearer than before, nor than the best kernel that tells nothing."""
    cost, corners, _ = crooked(seed)
    still = constant(cost, corners)
    before = np.inf
    for budget in BUDGETS:
        found = solve_robust(cost, corners, prior="worst", leakage=budget)
        assert found.status == "optimal"
        assert found.distortion <= min(before * (1.0 + 1e-9), still) + 1e-12
        before = found.distortion


@pytest.mark.sample(default=6, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("seed", range(12))
def test_a_conic_solver_over_the_whole_hull(seed):
    """CVXPY with the law of the draw as an unknown agrees to 1e-6, on corners with zeros and certain ones."""
    cost, corners, budget = crooked(100 + seed)
    found = solve_robust(cost, corners, prior="worst", leakage=budget)
    assert found.status == "optimal"
    assert found.distortion == pytest.approx(by_cvxpy(cost, corners, budget), rel=1e-6, abs=1e-7)


@pytest.mark.sample(default=10, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("seed", range(20))
def test_the_method_itself_closes_the_gap(seed):
    """Corners with zeros or certain of a value: a kernel within the budget, and a bound within 1e-7 of its cost."""
    cost, corners, budget = crooked(200 + seed)
    found = solve_robust(cost, corners, prior="worst", leakage=budget)
    assert is_kernel(found.randomizer.kernel)
    assert worst_prior(found.randomizer.kernel, corners).upper <= budget
    assert found.distortion <= constant(cost, corners) * (1.0 + 1e-13)
    assert 0.0 <= found.distortion - found.lower_bound <= 1e-7
    assert found.status == "optimal"


def test_forbidden_pairs_and_free_rows():
    """Infinite costs leave no constant kernel: the method starts from the one that tells least, and draws none."""
    cost = np.array([[0.0, 1.0, np.inf], [0.3, 0.3, 0.9], [np.inf, 1.0, 0.0]])
    found = solve_robust(cost, "all", prior="worst", leakage=0.3)
    assert found.status == "optimal"
    assert (found.randomizer.kernel[np.isinf(cost)] == 0.0).all()
    assert is_kernel(found.randomizer.kernel)
    assert max(mutual(p, found.randomizer.kernel) for p in np.random.default_rng(1).dirichlet(np.ones(3), 200)) <= 0.3


def test_the_look_catches_a_search_that_stopped_early(monkeypatch):
    """The twin: with a budget a hundred times smaller than asked for, the fuzz's look says that it is too dear."""
    case = RobustCase("one-hot corners", 1.0 - np.eye(3), "all", "worst", 0.4)
    rng = np.random.default_rng(2)
    assert look(case, rng).wrong == []

    def early(cost, priors, *, leakage, prior):
        return solve_robust(cost, priors, leakage=leakage / 100.0 if leakage == 0.4 else leakage, prior=prior)

    monkeypatch.setattr("robust_cases.solve_robust", early)
    assert "dearer than with less to tell" in look(case, rng).wrong
