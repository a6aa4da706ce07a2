"""Designs from the other end: an error that every adversary must make, a distortion that is acceptable."""

from __future__ import annotations

import math
from fractions import Fraction

import cvxpy
import numpy as np
import pytest
from randomizer_cases import exact_case, information_50, is_kernel, random_case

import understudy as us
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.measures import bayes_error

INF = math.inf


def exact_error(solved):
    """1 - sum_j max_i p_i P_ij in exact arithmetic, the prior normalised."""
    p = [Fraction(x) for x in solved.prior.tolist()]
    guessed = sum(
        max(w * Fraction(x) for w, x in zip(p, column, strict=True)) for column in solved.randomizer.kernel.T.tolist()
    )
    return 1 - guessed / sum(p)


def exact_cost(solved):
    """The expected cost of the kernel in exact arithmetic."""
    rows = zip(solved.prior.tolist(), solved.randomizer.kernel.tolist(), solved.cost.tolist(), strict=True)
    pairs = [(w, x, c) for w, xs, cs in rows for x, c in zip(xs, cs, strict=True) if w and x]
    return sum(Fraction(w) * Fraction(x) * Fraction(c) for w, x, c in pairs)


def problems(count, seed, forbidden=0.0):
    """Random costs and priors, a share of the pairs forbidden and one column allowed to all."""
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        m, n = rng.integers(2, 8, size=2)
        cost, p = rng.random((m, n)), rng.dirichlet(np.full(m, 2.0))
        cost[rng.random((m, n)) < forbidden] = INF
        cost[:, rng.integers(n)] = rng.random(m)
        yield rng, cost, p


# --- an error that every adversary must make --------------------------------------------------------------------------


@pytest.mark.sample(default=1, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_the_error_demanded_is_met_exactly(forbidden):
    """In fractions: nobody guesses better than allowed, not by one part in 10^50."""
    for rng, cost, p in problems(60, 1, forbidden):
        error = float(rng.random()) * (1.0 - p.max())
        solved = us.solve(cost, prior=p, error_at_least=error)
        assert is_kernel(solved.randomizer.kernel)
        assert exact_error(solved) >= Fraction(error)
        assert bayes_error(solved.prior, solved.randomizer.kernel) >= error * (1.0 - 1e-15)
        assert (solved.randomizer.kernel[np.isinf(cost)] == 0.0).all()
        assert solved.status == "optimal"
        assert solved.leakage == pytest.approx(
            float(information_50(solved.prior, solved.randomizer.kernel)[1]), rel=1e-12
        )


def by_cvxpy(cost, p, error):
    """The least distortion with that Bayes error, written with the maximum itself."""
    P = cvxpy.Variable(cost.shape, nonneg=True)
    finite = np.where(np.isinf(cost), 0.0, cost)
    joint = cvxpy.multiply(np.repeat(p[:, None], cost.shape[1], axis=1), P)
    rules = [cvxpy.sum(P, axis=1) == 1.0, cvxpy.sum(cvxpy.max(joint, axis=0)) <= 1.0 - error]
    if np.isinf(cost).any():
        rules.append(P[np.isinf(cost)] == 0.0)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(finite, joint))), rules)
    problem.solve(solver=cvxpy.CLARABEL)
    return problem.value


@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_no_kernel_with_that_error_costs_less(forbidden):
    """CVXPY with Clarabel, the maximum written as one, finds the same distortion; and bounds hold it."""
    for rng, cost, p in problems(8, 2, forbidden):
        error = float(rng.uniform(0.2, 0.95)) * (1.0 - p.max())
        solved = us.solve(cost, prior=p, error_at_least=error)
        best = by_cvxpy(cost, p, error)
        assert solved.distortion == pytest.approx(best, rel=1e-6)
        assert solved.lower_bound <= best * (1.0 + 1e-6)
        assert solved.lower_bound == pytest.approx(solved.distortion, rel=1e-8)
        assert float(exact_cost(solved)) == pytest.approx(solved.distortion, rel=1e-12)


def test_more_error_than_the_prior_allows_is_refused():
    """Who always guesses the likeliest value errs 1 - max p of the time: as much can be asked, and no more."""
    p = [0.5, 0.25, 0.25]
    with pytest.raises(InfeasibleError, match=r"error_at_least = 0\.51; .* 0\.5, so more cannot be asked"):
        us.solve(1.0 - np.eye(3), prior=p, error_at_least=0.51)
    solved = us.solve(1.0 - np.eye(3), prior=p, error_at_least=0.5)
    assert exact_error(solved) == Fraction(1, 2)
    with pytest.raises(InfeasibleError, match="cannot be asked"):
        us.solve(1.0 - np.eye(3), prior=p, error_at_least=0.5 + 1e-9)


@pytest.mark.parametrize("m", [2, 3, 5, 7, 10])
def test_as_much_error_as_the_prior_allows(m):
    """Equally likely values, whose prior does not sum to one exactly: all that can be asked is given."""
    solved = us.solve(1.0 - np.eye(m), error_at_least=1.0 - np.full(m, 1.0 / m).max())
    assert exact_error(solved) >= Fraction(1) - Fraction(1, m) - Fraction(1, 2**52)
    assert solved.distortion == pytest.approx(1.0 - 1.0 / m, rel=1e-12)


def test_hamming_costs_as_much_as_the_error():
    """Under 0-1 costs every unit of error is a unit of distortion."""
    for error in (0.0, 0.1, 0.3, 0.6):
        solved = us.solve(1.0 - np.eye(4), error_at_least=error)
        assert solved.distortion == pytest.approx(error, abs=1e-12)


def test_forbidden_pairs_that_do_not_allow_the_error():
    """Values that share no column are told apart: no error can be asked."""
    with pytest.raises(InfeasibleError, match="forbidden pairs"):
        us.solve([[1.0, INF], [INF, 1.0]], error_at_least=0.1)
    assert us.solve([[1.0, INF], [INF, 1.0]], error_at_least=0.0).distortion == pytest.approx(1.0, rel=1e-12)


def test_no_error_asked():
    """Nothing demanded, nothing paid: the cheapest pair of each row."""
    cost = np.random.default_rng(4).random((5, 5))
    assert us.solve(cost, error_at_least=0.0).distortion == pytest.approx(cost.min(axis=1).mean(), rel=1e-12)


def test_error_with_rare_and_impossible_values():
    """Priors of zero and of 1e-14."""
    cost = np.random.default_rng(5).random((4, 4))
    for p in ([0.5, 0.5, 0.0, 0.0], [0.6, 0.4 - 2e-14, 1e-14, 1e-14]):
        solved = us.solve(cost, prior=p, error_at_least=0.25)
        assert exact_error(solved) >= Fraction(1, 4)


# --- a distortion that is acceptable ----------------------------------------------------------------------------------


def test_the_distortion_demanded_is_met_and_costs_least():
    """Met as reported and in exact arithmetic; the budget found gives the same design; less does not do."""
    for k in range(40):
        rng = np.random.default_rng([6, k])
        case = random_case(rng, ("random", "squared", "absolute", "Hamming", "exact")[k % 5], most=9)
        lowest = float(case.prior @ case.cost.min(axis=1))
        constant = float((case.prior @ case.cost).min())
        limit = lowest + float(rng.uniform(0.05, 0.95)) * (constant - lowest)
        if not lowest < limit < constant:
            continue
        solved = us.solve(case.cost, prior=case.prior, distortion_at_most=limit)
        assert solved.distortion <= limit
        assert exact_cost(solved) <= Fraction(limit) * (1 + Fraction(12) / 2**53)
        assert solved.distortion == pytest.approx(limit, rel=1e-6)
        again = us.solve(case.cost, prior=case.prior, leakage=solved.leakage)
        assert again.distortion == pytest.approx(solved.distortion, rel=1e-8)
        less = us.solve(case.cost, prior=case.prior, leakage=solved.leakage * (1.0 - 1e-6))
        assert less.lower_bound > limit * (1.0 - 1e-9)
        tighter = us.solve(case.cost, prior=case.prior, leakage=solved.leakage * 0.99)
        assert tighter.lower_bound > limit


def test_the_rate_of_exact_cases():
    """R(D) where it is known: the distortion of an exact case needs its budget."""
    for k in range(25):
        case = exact_case(np.random.default_rng([7, k]), 6, 5, 2, top_slope=8.0)
        solved = us.solve(case.cost, prior=case.prior, distortion_at_most=case.optimum)
        assert solved.distortion <= case.optimum
        # an error of a few roundings in D costs the slope times as much in R
        slack = case.slope * 1e-14 * case.optimum + 1e-14
        assert case.budget - slack <= solved.leakage <= case.budget * (1.0 + 1e-8) + 1e3 * slack
        assert solved.budget == solved.leakage
        assert solved.leakage_lower_bound <= case.budget + slack
        assert solved.leakage_lower_bound >= case.budget * (1.0 - 1e-8) - 1e3 * slack


def test_binary_hamming_rate():
    """R(0.1) = ln 2 - h(0.1)."""
    expected = math.log(2.0) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9)
    solved = us.solve(1.0 - np.eye(2), distortion_at_most=0.1)
    assert solved.leakage == pytest.approx(expected, rel=1e-9)
    assert solved.leakage >= expected * (1.0 - 1e-13)
    assert solved.distortion <= 0.1


def test_an_impossible_distortion_is_refused():
    """Less than the cheapest pair of each row: the message says what can be had."""
    with pytest.raises(InfeasibleError, match=r"distortion_at_most = 1; the least that any randomizer reaches is 1\.5"):
        us.solve([[1.0, 3.0], [2.0, 4.0]], distortion_at_most=1.0)


def test_the_least_possible_distortion():
    """Exactly what can be had: everything leaks that has to."""
    solved = us.solve([[1.0, 3.0], [4.0, 2.0]], distortion_at_most=1.5)
    assert exact_cost(solved) == Fraction(3, 2)
    assert solved.distortion == pytest.approx(1.5, rel=1e-14)
    assert solved.leakage == pytest.approx(math.log(2.0), rel=1e-12)


@pytest.mark.parametrize("limit", [0.5, 0.50001, 1.0, 1e300, INF])
def test_nothing_leaks_where_a_constant_column_will_do(limit):
    """An acceptable distortion that needs no information gets none; on the very border no more than a rounding."""
    solved = us.solve(1.0 - np.eye(2), distortion_at_most=limit)
    assert solved.leakage <= (1e-15 if limit == 0.5 else 0.0)
    assert solved.distortion <= limit
    assert solved.distortion == pytest.approx(0.5, rel=1e-7 if limit == 0.5 else 1e-14)


def test_distortion_with_forbidden_pairs():
    """No column for all: something leaks whatever the distortion, and the demand is met."""
    cost = np.array([[0.0, 1.0, INF], [INF, 1.0, 2.0], [3.0, INF, 0.0]])
    for limit in (0.4, 0.7, 1.5, 10.0):
        solved = us.solve(cost, distortion_at_most=limit)
        assert solved.distortion <= limit
        assert solved.leakage > 0.1
        assert (solved.randomizer.kernel[np.isinf(cost)] == 0.0).all()
    most = us.solve(cost, distortion_at_most=0.4).leakage
    assert us.solve(cost, distortion_at_most=1.5).leakage < most


@pytest.mark.parametrize("demand", ["error_at_least", "distortion_at_most"])
@pytest.mark.parametrize("value", [-0.1, math.nan, "0.3", True, [0.3], 1j])
def test_demands_that_are_none(demand, value):
    """Negative, NaN, words, truth values: refused by name."""
    with pytest.raises(DesignError, match=demand):
        us.solve(1.0 - np.eye(3), **{demand: value})
