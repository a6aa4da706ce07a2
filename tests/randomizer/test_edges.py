"""The edges of the randomizer problem: no leakage and all of it, ties, huge ranges, forbidden pairs, extreme shapes."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from randomizer_cases import (
    Case,
    cheapest_information,
    dual_bound,
    entropy,
    exact_case,
    information_50,
    is_kernel,
    least_information,
    shifted,
    violations,
)

import understudy as us
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.measures import mutual_information

INF = math.inf
TIES = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])


def checked(cost, budget, prior=None, digits=True):
    """Solve, and look at the answer in every way of `violations`."""
    cost = np.asarray(cost, dtype=float)
    solved = us.solve(cost, prior=prior, leakage=budget)
    verdict = violations(Case("edge", cost, solved.prior, budget), solved, digits)
    assert not verdict.wrong, verdict
    return solved


# --- nothing and everything -------------------------------------------------------------------------------------------


def test_nothing_may_leak():
    """I_0 = 0: the best single column, whatever the value; nothing is told."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        m, n = rng.integers(1, 8, size=2)
        cost, p = rng.random((m, n)), rng.dirichlet(np.ones(m))
        solved = checked(cost, 0.0, p)
        column = int(np.argmin(p @ cost))
        assert (solved.randomizer.kernel[:, column] == 1.0).all()
        assert solved.leakage == 0.0
        assert solved.gap == 0.0
        assert solved.distortion == pytest.approx(float((p @ cost)[column]), rel=1e-14)
        assert solved.status == "optimal"


@pytest.mark.parametrize("budget", [INF, "100%", 1e300])
def test_everything_may_leak(budget):
    """Beyond saturation each value has its cheapest column, and no more leaks than that takes."""
    rng = np.random.default_rng(1)
    cost, p = rng.random((6, 9)), rng.dirichlet(np.ones(6))
    solved = us.solve(cost, prior=p, leakage=budget)
    assert solved.distortion == pytest.approx(float(p @ cost.min(axis=1)), rel=1e-14)
    assert solved.lower_bound <= solved.distortion
    assert solved.gap == 0.0
    assert solved.leakage == pytest.approx(cheapest_information(cost, p), rel=1e-13)
    assert solved.leakage <= entropy(p)


def test_saturation_with_ties_is_below_the_entropy():
    """A value that two columns suit equally well joins either: (2/3) ln 2 is enough for D = 0."""
    enough = 2.0 / 3.0 * math.log(2.0)
    unlimited = us.solve(TIES, leakage=INF)
    assert unlimited.distortion == 0.0
    assert unlimited.leakage == pytest.approx(enough, rel=1e-9)
    assert unlimited.leakage < 0.7 * math.log(3.0)
    assert np.abs(unlimited.randomizer.kernel - [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]).max() < 1e-4
    assert checked(TIES, enough * (1.0 + 1e-9)).distortion == 0.0
    assert 0.0 <= checked(TIES, enough).distortion < 1e-10
    below = checked(TIES, 0.99 * enough)
    assert below.distortion > 1e-4
    assert below.status == "optimal"


def test_saturation_with_ties_against_sweeps():
    """The least information of all kernels that draw cheapest pairs alone, by Blahut and Arimoto's sweeps."""
    for seed in range(25):
        rng = np.random.default_rng([2, seed])
        cost = rng.integers(0, 2, size=(6, 4)).astype(float)
        p = rng.dirichlet(np.ones(6))
        low, high = least_information(np.where(cost == cost.min(axis=1, keepdims=True), cost, INF), p)
        solved = us.solve(cost, prior=p, leakage=INF)
        assert solved.distortion == pytest.approx(float(p @ cost.min(axis=1)), rel=1e-14, abs=1e-15)
        assert low - 1e-9 <= solved.leakage <= high + 1e-9


@pytest.mark.sample(default=2, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("short", [1e-1, 1e-3, 1e-6, 1e-9])
def test_just_below_saturation(short):
    """A little less than enough costs a little, and is proven to."""
    cost = (np.linspace(0, 1, 7)[:, None] - np.linspace(0, 1, 9)) ** 2
    top = cheapest_information(cost, np.full(7, 1.0 / 7.0))
    solved = checked(cost, top * (1.0 - short))
    lowest = float(cost.min(axis=1).mean())
    assert solved.status == "optimal"
    assert solved.distortion > lowest
    assert solved.leakage == pytest.approx(top * (1.0 - short), rel=1e-9)


# --- priors -----------------------------------------------------------------------------------------------------------


def test_values_that_cannot_occur_change_nothing():
    """A row of prior zero, whatever it costs, leaves the optimum where it is."""
    rng = np.random.default_rng(3)
    cost, p = rng.random((5, 6)), rng.dirichlet(np.ones(5))
    alone = us.solve(cost, prior=p, leakage=0.2)
    for row in (rng.random(6), np.zeros(6), np.full(6, 1e9), np.full(6, INF)):
        more = checked(np.vstack([cost[:2], row, cost[2:]]), 0.2, np.insert(p, 2, 0.0))
        assert more.distortion == pytest.approx(alone.distortion, rel=1e-9)
        assert more.status == "optimal"


def test_values_that_hardly_occur_change_hardly_anything():
    """Rows of prior 1e-14: the same optimum to what they can cost."""
    for seed in range(30):
        rng = np.random.default_rng([4, seed])
        cost, p = rng.random((6, 6)), rng.dirichlet(np.ones(4))
        rare = np.concatenate((p, [1e-14, 1e-14]))
        alone = us.solve(cost[:4], prior=p, leakage=0.2)
        more = checked(cost, 0.2, rare / rare.sum())
        assert more.distortion == pytest.approx(alone.distortion, abs=1e-7)
        assert more.lower_bound == pytest.approx(alone.distortion, abs=1e-7)


def test_priors_of_1e_14_are_solved_to_the_end():
    """Rare values do not keep the gap from closing."""
    open_gaps = []
    for seed in range(60):
        rng = np.random.default_rng([5, seed])
        m, n = rng.integers(3, 12, size=2)
        cost, p = rng.random((m, n)), rng.dirichlet(np.ones(m))
        p[rng.permutation(m)[: rng.integers(1, m - 1)]] = 1e-14
        solved = checked(cost, float(rng.uniform(0.05, 0.9)) * entropy(p / p.sum()), p / p.sum())
        if solved.status != "optimal":
            open_gaps.append((seed, solved.gap))
    assert not open_gaps


# --- ties -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1e-3, 0.1, 0.7])
def test_duplicate_columns_change_nothing(budget):
    """The same column several times is drawn as often as it was alone."""
    rng = np.random.default_rng(6)
    cost = rng.random((5, 4))
    alone = checked(cost, budget)
    copies = [0, 1, 1, 2, 3, 3, 3, 0]
    many = checked(cost[:, copies], budget)
    assert many.distortion == pytest.approx(alone.distortion, rel=1e-9)
    together = many.randomizer.kernel @ np.eye(4)[copies]
    assert np.abs(together - alone.randomizer.kernel).max() < 1e-5


def test_duplicate_rows_change_nothing():
    """Two values with the same costs are one value with the prior of both."""
    rng = np.random.default_rng(7)
    cost, p = rng.random((4, 5)), rng.dirichlet(np.ones(4))
    alone = checked(cost, 0.3, p)
    twice = checked(np.repeat(cost, 2, axis=0), 0.3, np.repeat(p, 2) / 2.0)
    assert twice.distortion == pytest.approx(alone.distortion, rel=1e-9)


def test_all_columns_alike():
    """Where nothing can be gained nothing leaks."""
    solved = checked(np.tile([[1.0], [2.0]], 3), 0.3)
    assert solved.distortion == pytest.approx(1.5, rel=1e-14)
    assert solved.leakage == 0.0
    assert solved.status == "optimal"


def test_tied_columns_everywhere():
    """Costs of 0 and 1 alone, where row minima, columns and optima tie."""
    for seed in range(60):
        rng = np.random.default_rng([8, seed])
        m, n = rng.integers(2, 7, size=2)
        assert checked(rng.integers(0, 2, size=(m, n)), float(rng.uniform(0.01, 0.6))).status == "optimal"


# --- small budgets, large ranges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1e-6, 1e-8, 1e-9, 1e-10])
def test_tiny_budgets(budget):
    """Binary Hamming: h(D) = ln 2 - I_0, in 40 digits; what is gained over nothing is right to five digits."""
    with mpmath.workdps(40):
        # h(1/2 - x) = ln 2 - sum over k >= 1 of (2 x)^(2 k) / (2 k (2 k - 1))
        gain = mpmath.findroot(
            lambda x: sum((2 * x) ** (2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 8)) - mpmath.mpf(budget),
            mpmath.sqrt(mpmath.mpf(budget) / 2),
        )
    solved = checked(1.0 - np.eye(2), budget)
    assert 0.5 - solved.distortion == pytest.approx(float(gain), rel=1e-5)
    assert 0.5 - solved.distortion <= float(gain) * (1.0 + 1e-9)
    assert solved.status == "optimal"


def test_costs_over_a_huge_range():
    """Costs from e^-24 to e^24: proven to 1e-9 of what is above the least possible, in nearly all; honest in all."""
    optimal = 0
    for seed in range(60):
        rng = np.random.default_rng([9, seed])
        m, n = rng.integers(2, 9, size=2)
        cost = np.exp(rng.uniform(-24.0, 24.0, size=(m, n)))
        optimal += checked(cost, float(rng.uniform(0.05, 0.95)) * math.log(m)).status == "optimal"
    assert optimal >= 59


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-12, 1e12, 1e150, 1e290])
def test_the_unit_of_the_costs_does_not_matter(scale):
    """The same kernel in any unit, down to the smallest and up to the largest numbers."""
    rng = np.random.default_rng(10)
    cost = rng.random((5, 6))
    alone, scaled = us.solve(cost, leakage=0.4), us.solve(cost * scale, leakage=0.4)
    assert scaled.distortion == pytest.approx(alone.distortion * scale, rel=1e-9)
    assert scaled.lower_bound <= scaled.distortion
    assert scaled.status == "optimal"
    assert np.abs(scaled.randomizer.kernel - alone.randomizer.kernel).max() < 1e-6


def test_an_offset_changes_nothing():
    """Costs raised by 1e12: the same kernel, bit for bit, and the gap is still measured against D - D_min."""
    rng = np.random.default_rng(11)
    cost = np.round(rng.random((6, 7)) * 4096.0) / 4096.0  # sums with 1e12 are exact
    alone = us.solve(cost, leakage=0.5)
    for offset in (1e12, 1e12 * rng.integers(0, 3, size=(6, 1))):
        raised = checked(cost + offset, 0.5)
        assert np.array_equal(raised.randomizer.kernel, alone.randomizer.kernel)
        assert raised.gap == alone.gap
        assert raised.gap < 1e-9 * (alone.distortion - cost.min(axis=1).mean())
        assert raised.status == "optimal"


# --- forbidden pairs --------------------------------------------------------------------------------------------------


def test_forbidden_pairs_are_never_drawn():
    """Infinite costs: the kernel has zeros there, and a draw cannot come out as one."""
    for seed in range(60):
        rng = np.random.default_rng([12, seed])
        m, n = rng.integers(2, 8, size=2)
        cost = rng.random((m, n))
        cost[rng.random((m, n)) < 0.4] = INF
        cost[:, rng.integers(n)] = 1.0  # one column for all, so that every budget can be kept
        solved = checked(cost, float(rng.uniform(0.0, 1.0)) * math.log(m))
        P = solved.randomizer.kernel
        assert (P[np.isinf(cost)] == 0.0).all()
        assert math.isfinite(solved.distortion)
        draws = [solved.randomizer.draw_index(i, rng) for i in range(m) for _ in range(20)]
        assert all(np.isfinite(cost[k // 20, j]) for k, j in enumerate(draws))


def test_infinite_costs_are_the_limit_of_large_ones():
    """Forbidden is what a cost of 1e9 comes to."""
    rng = np.random.default_rng(13)
    cost = rng.random((4, 5))
    cost[0, 1] = cost[2, 3] = cost[3, 0] = INF
    large = us.solve(np.where(np.isinf(cost), 1e9, cost), leakage=0.3)
    solved = checked(cost, 0.3)
    assert solved.distortion == pytest.approx(large.distortion, rel=1e-6)
    assert solved.distortion >= large.lower_bound * (1.0 - 1e-12)


def test_a_budget_that_forbidden_pairs_do_not_allow():
    """Two values that share no column cannot hide among each other: ln 2 is needed, and the message says so."""
    apart = [[1.0, INF], [INF, 2.0]]
    with pytest.raises(InfeasibleError, match=r"the forbidden pairs .* need at least 0\.69314"):
        us.solve(apart, leakage=0.3)
    with pytest.raises(InfeasibleError, match="forbidden pairs"):
        us.solve(apart, leakage=0.0)
    solved = checked(apart, math.log(2.0) * (1.0 + 1e-12))
    assert solved.distortion == pytest.approx(1.5, rel=1e-14)
    assert np.array_equal(solved.randomizer.kernel, np.eye(2))


@pytest.mark.long(seconds=2, reason="sweeps until they settle")
def test_what_forbidden_pairs_need_against_sweeps():
    """The border between allowed and refused is where Blahut and Arimoto's sweeps find it."""
    for seed in range(40):
        rng = np.random.default_rng([14, seed])
        m, n = rng.integers(3, 7, size=2)
        cost = np.where(rng.random((m, n)) < 0.6, INF, rng.random((m, n)))
        cost[np.arange(m), rng.integers(n, size=m)] = rng.random(m)
        p = rng.dirichlet(np.full(m, 2.0))
        low, high = least_information(cost, p)
        if low > 1e-3:
            with pytest.raises(InfeasibleError, match="forbidden pairs"):
                us.solve(cost, prior=p, leakage=low * (1.0 - 1e-4))
        solved = checked(cost, high * (1.0 + 1e-6) + 1e-9, p)
        assert math.isfinite(solved.distortion)


def test_a_value_without_an_allowed_pair():
    """A row of infinite costs is refused by its number."""
    with pytest.raises(InfeasibleError, match="row 1 of the costs is infinite throughout"):
        us.solve([[1.0, 2.0], [INF, INF]], leakage=0.3)


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0.0, 0.3, INF])
def test_one_value(budget):
    """With m = 1 there is nothing to hide, the cheapest column."""
    solved = us.solve([[3.0, 1.0, 2.0]], leakage=budget)
    assert solved.randomizer.kernel.tolist() == [[0.0, 1.0, 0.0]]
    assert solved.lower_bound <= 1.0 <= solved.distortion
    assert solved.distortion == pytest.approx(1.0, rel=1e-14)
    assert solved.gap == 0.0
    assert solved.leakage == 0.0


@pytest.mark.parametrize("budget", [0.0, 0.3, INF])
def test_one_pseudo_value(budget):
    """With n = 1 there is no choice, and nothing is told."""
    solved = us.solve([[3.0], [1.0], [2.0]], prior=[0.25, 0.25, 0.5], leakage=budget)
    assert solved.randomizer.kernel.tolist() == [[1.0], [1.0], [1.0]]
    assert solved.lower_bound <= 2.0 <= solved.distortion
    assert solved.distortion == pytest.approx(2.0, rel=1e-14)
    assert solved.gap == 0.0
    assert solved.leakage == 0.0


@pytest.mark.sample(default=2, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("shape", [(2000, 3), (3, 2000)])
@pytest.mark.parametrize("budget", [1e-3, 0.3])
def test_long_and_wide(shape, budget):
    """Many values with few pseudo values, and the other way: a small factor either way."""
    rng = np.random.default_rng(15)
    cost, p = rng.random(shape), rng.dirichlet(np.ones(shape[0]))
    solved = checked(cost, budget, p, digits=False)
    assert solved.status == "optimal"
    normalised = information_50(solved.prior, solved.randomizer.kernel)[1]
    assert normalised <= mpmath.mpf(budget)


def test_exact_cases_long_and_wide():
    """The same against a known optimum."""
    for m, n, idle in ((500, 3, 0), (3, 10, 500)):
        case = exact_case(np.random.default_rng(16), m, n, idle)
        solved = us.solve(case.cost, prior=case.prior, leakage=case.budget)
        assert solved.status == "optimal"
        assert solved.distortion == pytest.approx(case.optimum, rel=1e-9)


# --- straight pieces of the curve -------------------------------------------------------------------------------------


def test_a_straight_piece_of_the_curve():
    """Where I(beta) jumps the optimum is the chord: telling a value or nothing, at one slope from end to end."""
    cost = np.hstack([np.where(np.eye(3) > 0.0, 0.0, INF), np.ones((3, 1))])
    H = math.log(3.0)
    budgets = np.linspace(0.05, 0.95, 7) * H
    found = [checked(cost, float(budget)) for budget in budgets]
    D = np.array([solved.distortion for solved in found])
    chord = D[0] + (D[-1] - D[0]) * (budgets - budgets[0]) / (budgets[-1] - budgets[0])
    assert np.abs(D - chord).max() < 1e-9
    slopes = np.array([solved.slope for solved in found])
    assert slopes == pytest.approx(np.full(7, H), rel=1e-6)
    assert all(solved.status == "optimal" for solved in found)


def test_a_straight_piece_between_two_curved_ones():
    """Slopes that stay while the budget grows: time-sharing between the kernels at both ends of the piece."""
    # an expensive way to tell all four values apart or a cheap way to tell two pairs
    cost = np.array(
        [
            [0.0, 1.0, 1.0, 1.0, 0.3, 1.0, 0.5],
            [1.0, 0.0, 1.0, 1.0, 0.3, 1.0, 0.5],
            [1.0, 1.0, 0.0, 1.0, 1.0, 0.3, 0.5],
            [1.0, 1.0, 1.0, 0.0, 1.0, 0.3, 0.5],
        ]
    )
    budgets = np.linspace(0.02, 1.3, 120)
    found = [us.solve(cost, leakage=float(budget)) for budget in budgets]
    assert all(solved.status == "optimal" for solved in found)
    slopes = np.array([solved.slope for solved in found])
    D = np.array([solved.distortion for solved in found])
    straight = np.abs(np.diff(slopes)) < 1e-6 * slopes[:-1]
    assert 10 < straight.sum() < 110  # there are straight pieces, and curved ones
    fall = np.diff(D)[straight] / np.diff(budgets)[straight]
    assert fall == pytest.approx(-1.0 / slopes[:-1][straight], rel=1e-6)
    first, *_, last = np.flatnonzero(straight[: np.flatnonzero(~straight & (np.arange(119) > np.argmax(straight)))[0]])
    share = (budgets[first + 3] - budgets[first]) / (budgets[last] - budgets[first])
    mixed = (1.0 - share) * found[first].randomizer.kernel + share * found[last].randomizer.kernel
    assert (mixed * cost).sum() / 4.0 == pytest.approx(D[first + 3], rel=1e-9)
    assert mutual_information([0.25] * 4, mixed / mixed.sum(axis=1, keepdims=True)) <= budgets[first + 3] + 1e-9


# --- many columns -----------------------------------------------------------------------------------------------------


@pytest.mark.long(seconds=2, reason="problems with a thousand columns")
@pytest.mark.parametrize("copies", [15, 26])
def test_column_generation_against_a_small_twin(copies):
    """600 and 1040 columns that are 40 columns many times over, rows likewise: the optimum of the small problem."""
    case = exact_case(np.random.default_rng(17), 40, 36, 4, top_slope=5.0)
    cost = np.repeat(np.repeat(case.cost, copies, axis=0), copies, axis=1)
    p = np.repeat(case.prior, copies) / copies
    order, columns = (
        np.random.default_rng(18).permutation(40 * copies),
        np.random.default_rng(19).permutation(40 * copies),
    )
    solved = us.solve(cost[order][:, columns], prior=p[order], leakage=case.budget)
    assert solved.distortion == pytest.approx(case.optimum, rel=1e-8)
    assert solved.lower_bound <= case.optimum * (1.0 + 1e-12)
    assert case.optimum <= solved.distortion * (1.0 + 1e-12)
    assert solved.status == "optimal"
    assert is_kernel(solved.randomizer.kernel)


@pytest.mark.sample(default=1, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("n", [600, 1024])
def test_column_generation_is_proven_by_its_own_law(n):
    """The dual bound at the law of the pseudo values and the slope, worked out in plain numpy, closes the gap."""
    x = np.linspace(0.0, 1.0, n)
    cost = (x[:, None] - x) ** 2
    solved = us.solve(cost, leakage=1.0)
    P, p = solved.randomizer.kernel, solved.prior
    assert is_kernel(P)
    assert solved.status == "optimal"
    assert mutual_information(p, P) <= 1.0
    assert float((p[:, None] * P * cost).sum()) == pytest.approx(solved.distortion, rel=1e-12)
    # the law of the kernel itself, with all that rounding does to it, proves six digits; the solver's own, nine
    assert dual_bound(cost, p, p @ P, solved.slope, 1.0) >= solved.distortion * (1.0 - 1e-6)
    assert solved.lower_bound == pytest.approx(solved.distortion, rel=2e-9)
    # above Shannon's bound exp(2 h - 2 R) / (2 pi e) for the continuum, below the reference for 64 points
    assert math.exp(-2.0) / (2.0 * math.pi * math.e) < solved.distortion < 0.00918672388629618


@pytest.mark.long(seconds=2, reason="a problem with 600 columns")
def test_column_generation_with_forbidden_pairs():
    """Neighbours alone may stand in for each other, 600 by 600: never another one, and the budget is kept."""
    x = np.arange(600.0)
    gap = np.abs(x[:, None] - x)
    cost = np.where(gap <= 150.0, gap, INF)
    solved = us.solve(cost, leakage=3.0)
    P = solved.randomizer.kernel
    assert (P[np.isinf(cost)] == 0.0).all()
    assert mutual_information(solved.prior, P) <= 3.0
    with pytest.raises(InfeasibleError, match="forbidden pairs"):
        us.solve(cost, leakage=0.1)


# --- what the proof says ----------------------------------------------------------------------------------------------


def test_bounds_stand_in_order_in_exact_arithmetic():
    """lower_bound <= cost of the kernel <= distortion, with fractions: each is rounded to its safe side."""
    for seed in range(120):
        rng = np.random.default_rng([20, seed])
        m, n = rng.integers(2, 7, size=2)
        cost, p = rng.random((m, n)) + float(rng.choice([0.0, 1e12])), rng.dirichlet(np.ones(m))
        solved = us.solve(cost, prior=p, leakage=float(rng.choice([0.0, rng.uniform(0.0, 1.0), INF])))
        rows = zip(solved.prior.tolist(), solved.randomizer.kernel.tolist(), cost.tolist(), strict=True)
        spent = sum(Fraction(w) * Fraction(x) * Fraction(c) for w, xs, cs in rows for x, c in zip(xs, cs, strict=True))
        assert Fraction(solved.lower_bound) <= spent <= Fraction(solved.distortion)


def test_no_other_kernel_within_the_budget_is_below_the_bound():
    """Random kernels, mixed with a constant one until they keep the budget, all cost at least the lower bound."""
    rng = np.random.default_rng(21)
    cost, p = rng.random((4, 5)), rng.dirichlet(np.ones(4))
    solved = us.solve(cost, prior=p, leakage=0.2)
    base = np.eye(5)[[int(np.argmin(p @ cost))] * 4]
    L, _ = shifted(cost, p)
    for _ in range(300):
        P = rng.dirichlet(np.full(5, 0.3), size=4) * np.exp(-rng.uniform(0, 20) * L)
        P /= P.sum(axis=1, keepdims=True)
        share = 1.0
        while mutual_information(p, share * P + (1.0 - share) * base) > 0.2:
            share *= 0.9
        assert (p[:, None] * (share * P + (1.0 - share) * base) * cost).sum() >= solved.lower_bound


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ([[0.0, -1.0], [1.0, 0.0]], "row 0, column 1 is -1"),
        ([[0.0, 1.0], [math.nan, 0.0]], "row 1, column 0 is not a number"),
        ([[0.0, 1.0], [-INF, 0.0]], "row 1, column 0 is -inf"),
    ],
)
def test_costs_that_are_none(cost, words):
    """Negative costs and NaN are refused by their place, at any budget."""
    for budget in (0.0, 0.3, INF):
        with pytest.raises(DesignError, match=words):
            us.solve(cost, leakage=budget)
