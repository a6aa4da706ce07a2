"""The randomizer problem against references, exact cases, closed forms, the conditions of optimality and CVXPY."""

from __future__ import annotations

import math

import cvxpy
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomizer_cases import (
    Case,
    cost_50,
    dual_bound,
    dual_bound_50,
    entropy,
    exact_case,
    information_50,
    is_kernel,
    random_case,
    violations,
)

import understudy as us


def squared(k):
    x = np.linspace(0.0, 1.0, k)
    return (x[:, None] - x) ** 2


def hamming(k):
    return 1.0 - np.eye(k)


def erasure(k, off):
    return np.hstack([np.where(np.eye(k) > 0.0, 0.0, off), np.ones((k, 1))])


REFERENCES = {
    "binary Hamming": (hamming(2), 0.2, 0.194827162770185),
    "8-ary Hamming": (hamming(8), 1.0, 0.260149753419480),
    "4-ary erasure": (erasure(4, 1e6), 0.7, 0.495056735688863),
    "16 points, squared": (squared(16), 1.0, 0.0100607553232073),
    "16 points, 1e-6 nats": (squared(16), 1e-6, 0.0955265813312904),
    "64 points, squared": (squared(64), 1.0, 0.00918672388629618),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_values(name):
    """Distortion and lower bound agree with the references to 1e-10, and stand on either side of them."""
    cost, budget, optimum = REFERENCES[name]
    solved = us.solve(cost, leakage=budget)
    assert solved.status == "optimal"
    assert solved.distortion == pytest.approx(optimum, rel=1e-10)
    assert solved.lower_bound == pytest.approx(optimum, rel=1e-10)
    assert solved.lower_bound <= optimum * (1.0 + 1e-14)  # the references are rounded to 15 digits
    assert optimum <= solved.distortion * (1.0 + 1e-14)
    assert not violations(Case(name, cost, solved.prior, budget), solved).wrong


# --- exact cases of any size ------------------------------------------------------------------------------------------


def assert_exact(case):
    """The answer is the known one, its bounds hold it, and the conditions of optimality hold at it."""
    solved = us.solve(case.cost, prior=case.prior, leakage=case.budget)
    assert solved.status == "optimal"
    assert solved.distortion == pytest.approx(case.optimum, rel=1e-9)
    assert solved.lower_bound <= case.optimum * (1.0 + 1e-13)
    assert case.optimum <= solved.distortion * (1.0 + 1e-13)
    assert solved.lower_bound == pytest.approx(case.optimum, rel=2e-9)
    assert solved.slope == pytest.approx(case.slope, rel=1e-4)
    assert_optimality_conditions(case, solved)


def assert_optimality_conditions(case, solved, price=1e-7, form=1e-7):
    """c_j <= 1, c_j = 1 where r_j > 0, P_ij = r_j exp(-beta L_ij) / z_i, and the budget met; r is the law of draws."""
    P, p, beta = solved.randomizer.kernel, solved.prior, solved.slope
    r = p @ P
    L = case.cost - case.cost.min(axis=1, keepdims=True)
    E = np.exp(-beta * L)
    z = E @ r
    c = (p / z) @ E
    assert c.max() <= 1.0 + price
    # complementarity: what a column lacks of one, times how often it is drawn
    assert np.abs(r * (1.0 - c)).max() <= price
    assert np.abs(c[r > 1e-3] - 1.0).max(initial=0.0) <= 1e3 * price
    assert np.abs(P - r * E / z[:, None]).max() <= form
    assert 0.0 <= case.budget - solved.leakage <= 1e-12 * case.budget + 1e-15


@given(st.integers(0, 2**32), st.integers(2, 20), st.integers(2, 20), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_exact_cases(seed, m, n, idle):
    """Any prior, any law of the pseudo parameter, any slope, idle columns, more rows than columns or fewer."""
    assert_exact(exact_case(np.random.default_rng(seed), m, n, idle))


@pytest.mark.parametrize("size", [(32, 32), (33, 33), (64, 64), (64, 20), (20, 64), (40, 3), (3, 40)])
@pytest.mark.parametrize("idle", [0, 7])
def test_larger_exact_cases(size, idle):
    """On both sides of the size at which LAPACK takes over."""
    for seed in range(4):
        assert_exact(exact_case(np.random.default_rng([seed, *size]), *size, idle))


def test_an_exact_case_of_200_by_150():
    """The same at a size that no general solver does quickly."""
    assert_exact(exact_case(np.random.default_rng(200), 200, 150, 10, top_slope=5.0))


def test_the_exact_cases_would_catch_a_wrong_solver():
    """A kernel of the right budget and another slope fails the conditions that the optimum satisfies."""
    case = exact_case(np.random.default_rng(3), 6, 5)
    solved = us.solve(case.cost, prior=case.prior, leakage=case.budget)
    other = us.solve(case.cost**1.01, prior=case.prior, leakage=case.budget)
    assert_optimality_conditions(case, solved)
    with pytest.raises(AssertionError):
        assert_optimality_conditions(case, other)
    assert (case.prior[:, None] * other.randomizer.kernel * case.cost).sum() > case.optimum * (1.0 + 1e-8)


# --- closed forms -----------------------------------------------------------------------------------------------------


def coin(x):
    """The entropy of a coin."""
    return -x * mpmath.log(x) - (1 - x) * mpmath.log(1 - x)


def solve_for(f, low, high):
    """The root of an increasing f in 40 digits, by bisection."""
    with mpmath.workdps(40):
        low, high = mpmath.mpf(low), mpmath.mpf(high)
        for _ in range(130):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) < 0 else (low, middle)
        return float(low)


@pytest.mark.parametrize("p", [0.5, 0.3, 0.05, 1e-3])
@pytest.mark.parametrize("share", [0.999, 0.5, 1e-2, 1e-4, 1e-6])
def test_binary_hamming(p, share):
    """R(D) = h(p) - h(D) for a binary parameter of any odds."""
    with mpmath.workdps(40):
        H = coin(mpmath.mpf(p))
    budget = share * float(H)
    D = solve_for(lambda x: coin(x) - (H - mpmath.mpf(budget)), mpmath.mpf(10) ** -30, p)
    solved = us.solve(hamming(2), prior=[p, 1.0 - p], leakage=budget)
    assert solved.distortion == pytest.approx(D, rel=1e-9)
    assert solved.lower_bound == pytest.approx(D, rel=2e-9)
    assert solved.lower_bound <= D * (1.0 + 1e-13)
    assert solved.distortion >= D * (1.0 - 1e-13)


@pytest.mark.parametrize(("m", "budget"), [(3, 0.5), (5, 1e-3), (10, 2.0), (40, 1.0), (50, 3.5)])
def test_hamming_of_many_values(m, budget):
    """R(D) = ln m - h(D) - D ln(m - 1) for equally likely values."""
    D = solve_for(
        lambda x: coin(x) + x * mpmath.log(m - 1) - (mpmath.log(m) - mpmath.mpf(budget)),
        mpmath.mpf(10) ** -30,
        1 - 1 / mpmath.mpf(m),
    )
    assert us.solve(hamming(m), leakage=budget).distortion == pytest.approx(D, rel=1e-9)


def test_hamming_of_unequal_values():
    """R(D) = H - h(D) - D ln(m - 1) for any prior while D <= (m - 1) min p."""
    p = np.array([0.4, 0.25, 0.2, 0.15])
    budget = entropy(p) - 0.8
    D = solve_for(lambda x: coin(x) + x * mpmath.log(3) - mpmath.mpf(0.8), mpmath.mpf(10) ** -30, 0.75)
    assert not D > 0.45  # (m - 1) min p
    assert us.solve(hamming(4), prior=p, leakage=budget).distortion == pytest.approx(D, rel=1e-9)


@pytest.mark.parametrize("off", [1e6, 1e12, math.inf])
@pytest.mark.parametrize("p", [[0.25] * 4, [0.4, 0.25, 0.2, 0.15]])
def test_erasure(off, p):
    """D = (H - I) / ln m while D <= m min p, at a slope of ln m: the curve is a straight line."""
    H = entropy(np.array(p))
    for D in (0.01, 0.1, 0.3, 0.55):
        budget = H - D * math.log(4)
        solved = us.solve(erasure(4, off), prior=p, leakage=budget)
        assert solved.distortion == pytest.approx(D, rel=1e-9)
        assert solved.slope == pytest.approx(math.log(4), rel=1e-6)


@pytest.mark.parametrize("R", [0.2, 0.7])
def test_a_finely_divided_gaussian(R):
    """D(R) = sigma^2 exp(-2 R) of a Gaussian source, on a grid far finer than the distortion."""
    x = np.linspace(-7.0, 7.0, 141)
    p = np.exp(-0.5 * x**2)
    solved = us.solve((x[:, None] - x) ** 2, prior=p / p.sum(), leakage=R)
    assert solved.distortion == pytest.approx(math.exp(-2.0 * R), rel=1e-6)


# --- CVXPY ------------------------------------------------------------------------------------------------------------


def by_clarabel(cost, p, budget):
    """The optimum by a general conic solver: relative entropies, the law of the pseudo parameter a variable too."""
    m, n = cost.shape
    P, r = cvxpy.Variable((m, n), nonneg=True), cvxpy.Variable(n, nonneg=True)
    rows = cvxpy.vstack([r] * m)
    leaked = cvxpy.sum(cvxpy.multiply(np.repeat(p[:, None], n, axis=1), cvxpy.rel_entr(P, rows)))
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(p[:, None] * cost, P))),
        [cvxpy.sum(P, axis=1) == 1.0, r == p @ P, leaked <= budget],
    )
    problem.solve(solver=cvxpy.CLARABEL)
    return problem.value


@pytest.mark.parametrize("family", ["random", "squared", "absolute", "Hamming", "ties", "duplicates", "exact"])
@pytest.mark.parametrize("seed", [0, 1])
def test_agreement_with_a_general_solver(family, seed):
    """CVXPY with Clarabel finds the same optimum, to its accuracy; and another at another budget."""
    rng = np.random.default_rng([seed, len(family)])
    case = random_case(rng, family, most=7)
    budget = min(max(case.budget, 0.02), 0.8 * entropy(case.prior))
    solved = us.solve(case.cost, prior=case.prior, leakage=budget)
    found = by_clarabel(case.cost, case.prior, budget)
    scale = max(abs(found), 1e-3 * case.cost.max())
    assert abs(solved.distortion - found) <= 1e-6 * scale
    if solved.distortion > 1.001 * solved.cost.min(axis=1) @ solved.prior:
        assert abs(us.solve(case.cost, prior=case.prior, leakage=0.98 * budget).distortion - found) > 1e-6 * scale


# --- the budget, in 50 digits -----------------------------------------------------------------------------------------

SMALL_BUDGETS = [1e-12, 1e-10, 1e-9, 1e-8, 1e-6, 1e-4, 1e-2, 0.3]


@pytest.mark.parametrize("budget", SMALL_BUDGETS)
def test_the_budget_is_kept_in_fifty_digits(budget):
    """I(P) <= I_0 for the kernel that is sampled, the prior as it is and normalised; next to none is left unspent."""
    used = 0
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        m, n = int(rng.integers(2, 12)), int(rng.integers(2, 12))
        cost, p = rng.random((m, n)), rng.dirichlet(np.ones(m))
        solved = us.solve(cost, prior=p, leakage=budget)
        P = solved.randomizer.kernel
        assert is_kernel(P)
        given, normalised = information_50(solved.prior, P)
        spent = max(given, normalised)
        assert spent <= mpmath.mpf(budget)
        assert abs(normalised - mpmath.mpf(solved.leakage)) <= 1e-14 * budget
        used += spent >= budget * (1.0 - 1e-5)
    # below 1e-10 a unique best column is left so late that the gain is rounding; at 0.3 some have saturated
    assert used > 40 or not 1e-10 <= budget < 0.1


def test_plain_doubles_would_not_see_the_budget_overspent():
    """Why 50 digits: at 1e-9 nats the plain sum is off by more than the solver leaves unspent."""
    solved = us.solve(hamming(2), leakage=1e-9)
    P, p = solved.randomizer.kernel, solved.prior
    exact = float(information_50(p, P)[0])
    plain = float((p[:, None] * P * np.log(P / (p @ P))).sum())
    assert abs(plain - exact) > 1e-17
    assert abs(solved.leakage - exact) < 1e-22


def test_leakage_is_that_of_the_kernel():
    """The reported leakage has 14 digits however small it is."""
    for budget in SMALL_BUDGETS:
        solved = us.solve(squared(5), leakage=budget)
        assert solved.leakage == pytest.approx(
            float(information_50(solved.prior, solved.randomizer.kernel)[1]), rel=1e-14
        )


def test_distortion_and_bound_in_fifty_digits():
    """The distortion is that of the kernel, and the bound is one: a 50-digit dual point lies above or next to it."""
    for seed in range(40):
        case = random_case(np.random.default_rng([9, seed]), "random", most=10)
        solved = us.solve(case.cost, prior=case.prior, leakage=case.budget)
        spent, least = cost_50(solved.prior, solved.randomizer.kernel, case.cost)
        assert abs(spent - mpmath.mpf(solved.distortion)) <= 4e-15 * solved.distortion
        assert mpmath.mpf(solved.lower_bound) <= spent * (1.0 + 1e-15)
        if math.isfinite(solved.slope):
            r = solved.prior @ solved.randomizer.kernel
            proven = least + dual_bound_50(case.cost, solved.prior, r, solved.slope, case.budget)
            assert proven <= spent
            doubles = float(least) + dual_bound(case.cost, solved.prior, r, solved.slope, case.budget)
            assert doubles == pytest.approx(float(proven), rel=1e-9)
