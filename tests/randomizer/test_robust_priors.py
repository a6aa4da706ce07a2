"""A budget that holds for every prior of a hull: the worst odds, the kernel, its proof, streams and files."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import cvxpy
import numpy as np
import pytest
from helpers import room
from hypothesis import given, settings
from hypothesis import strategies as st
from randomizer_cases import information_50, is_kernel
from robust_cases import Approximate, look, mixtures, mutual, robust_cases

import understudy as us
from understudy.errors import ConfigurationError, DesignError, InfeasibleError, StoredFileError
from understudy.randomizer.measures import capacity
from understudy.randomizer.priors import RobustDesign, design_robust, solve_robust, worst_prior
from understudy.serialize import fingerprint
from understudy.text import PRIORS

INF = math.inf
FLIP = np.array([[0.8, 0.2], [0.2, 0.8]])
ENDS = [[0.95, 0.05], [0.05, 0.95]]


def h(e):
    return -e * math.log(e) - (1.0 - e) * math.log(1.0 - e)


# --- the worst odds of a kernel ---------------------------------------------------------------------------------------


def test_the_corners_do_not_suffice():
    """0.039 nats at either corner, 0.193 between them: the worst odds are found in the middle."""
    assert round(mutual(np.array(ENDS[0]), FLIP), 3) == 0.039
    found = worst_prior(FLIP, ENDS)
    assert found.upper == pytest.approx(math.log(2.0) - h(0.2), rel=1e-12)
    assert found.prior == pytest.approx([0.5, 0.5], abs=1e-6)
    assert round(found.upper, 3) == 0.193


@pytest.mark.long(seconds=2, reason="a fine grid of priors")
def test_the_worst_odds_are_those_of_a_fine_grid():
    """Three corners, 2,000 mixtures: none above the bound, and one close below it."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        P, corners = rng.dirichlet(np.ones(5), size=4), rng.dirichlet(np.ones(4), size=3)
        found = worst_prior(P, corners)
        values = [mutual(p, P) for p in mixtures(corners, 2000, rng)]
        assert max(values) <= found.upper * (1.0 + 1e-12)
        assert found.upper - found.lower <= 1e-11 * found.upper
        assert found.lower == pytest.approx(mutual(found.prior, P), rel=1e-9)
        assert max(values) >= 0.98 * found.upper


def test_all_odds_are_the_capacity():
    """The hull of all unit vectors, against the capacity that `measures` finds."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        P = rng.dirichlet(np.full(6, 0.5), size=5)
        assert worst_prior(P, "all").upper == pytest.approx(capacity(P).upper, rel=1e-10)


def test_one_prior_is_itself():
    """A hull of one point has the information at that point."""
    p = np.array([0.7, 0.3])
    found = worst_prior(FLIP, [p])
    assert found.upper == pytest.approx(mutual(p, FLIP), rel=1e-12)


# --- known answers ----------------------------------------------------------------------------------------------------


def test_a_symmetric_hull_is_the_symmetric_problem():
    """Hamming cost, mirrored priors: the worst odds are equal ones, and the kernel is that of a fair coin."""
    found = solve_robust(1.0 - np.eye(2), ENDS, leakage=0.1)
    fair = us.solve(1.0 - np.eye(2), leakage=0.1)
    assert found.distortion == pytest.approx(fair.distortion, rel=1e-9)
    assert found.status == "optimal"
    assert found.randomizer.kernel == pytest.approx(fair.randomizer.kernel, abs=1e-6)


def test_any_odds_for_the_symmetric_channel():
    """priors="all", Hamming on three values: ln 3 - h(D) - D ln 2 = I_0."""
    found = solve_robust(1.0 - np.eye(3), "all", leakage=0.25)
    D = found.distortion
    assert math.log(3.0) - h(D) - D * math.log(2.0) == pytest.approx(0.25, abs=1e-9)
    assert capacity(found.randomizer.kernel).upper <= 0.25 * (1.0 + 1e-12)
    assert found.any_odds


def test_one_prior_is_the_ordinary_problem():
    """A hull of one prior gives what us.solve gives."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        cost, p = rng.random((4, 6)), rng.dirichlet(np.ones(4))
        budget = float(rng.uniform(0.05, 0.8))
        robust, plain = solve_robust(cost, [p], leakage=budget), us.solve(cost, prior=p, leakage=budget)
        assert robust.distortion == pytest.approx(plain.distortion, rel=1e-8)
        assert robust.lower_bound <= plain.distortion


def test_nothing_may_be_told():
    """A budget of zero: the best column for all, or against the worst odds the best mixture of columns."""
    cost = np.array([[0.0, 1.0, 0.6], [1.0, 0.0, 0.6]])
    found = solve_robust(cost, ENDS, leakage=0.0)
    assert found.worst_leakage == 0.0
    assert found.distortion == pytest.approx(0.5)
    worst = solve_robust(cost, ENDS, leakage=0.0, prior="worst")
    # a fair mixture of the first two columns costs 1/2 whatever the odds; each of them alone 0.95 at the worst
    assert worst.distortion == pytest.approx(0.5, abs=1e-9)
    assert worst.status == "optimal"


def test_a_large_budget_costs_nothing():
    """Above the largest entropy of the hull every row has its cheapest column."""
    found = solve_robust(1.0 - np.eye(3), "all", leakage=1.2)
    assert found.distortion == 0.0
    assert found.randomizer.kernel.tolist() == np.eye(3).tolist()


# --- oracles ----------------------------------------------------------------------------------------------------------


def by_cvxpy(cost, w, odds, budget):
    """The least cost with I <= budget at each of finitely many odds, by a conic solver; w one weighing or several."""
    m, n = cost.shape
    P = cvxpy.Variable((m, n), nonneg=True)
    limits = [cvxpy.sum(P, axis=1) == 1.0]
    for p in odds:
        there = np.flatnonzero(p > 0.0)
        r = p[there] @ P[there]
        J = cvxpy.multiply(np.repeat(p[there, None], n, axis=1), P[there])
        limits.append(
            cvxpy.sum(
                cvxpy.rel_entr(
                    J, cvxpy.reshape(p[there], (len(there), 1), order="C") @ cvxpy.reshape(r, (1, n), order="C")
                )
            )
            <= budget
        )
    spent = [cvxpy.sum(cvxpy.multiply(each[:, None] * cost, P)) for each in np.atleast_2d(w)]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.maximum(*spent) if len(spent) > 1 else spent[0]), limits)
    problem.solve(solver="CLARABEL")
    return problem.value


@pytest.mark.sample(default=2, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("seed", range(4))
def test_a_conic_solver_on_a_grid_of_priors(seed):
    """CVXPY with the budget at 15 odds of the hull, the worst among them: the same cost to 1e-6."""
    rng = np.random.default_rng([4, seed])
    cost, corners = rng.random((3, 4)), rng.dirichlet(np.ones(3), size=2)
    budget = float(rng.uniform(0.05, 0.4))
    found = solve_robust(cost, corners, leakage=budget, prior="worst" if seed % 2 else None)
    t = np.linspace(0.0, 1.0, 14)[:, None]
    odds = np.concatenate((t * corners[0] + (1.0 - t) * corners[1], found.worst_prior[None, :]))
    w = corners if seed % 2 else corners.mean(axis=0)
    assert found.status == "optimal"
    assert found.distortion == pytest.approx(by_cvxpy(cost, w, odds, budget), rel=1e-6, abs=1e-7)


def test_enumeration_of_all_kernels():
    """Two values, two columns: no kernel of a grid of 300 x 300 keeps the budget at 41 odds and costs less."""
    cost, corners, budget = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[0.9, 0.1], [0.3, 0.7]]), 0.15
    found = solve_robust(cost, corners, leakage=budget)
    a, b = np.meshgrid(np.linspace(0.0, 1.0, 301), np.linspace(0.0, 1.0, 301), indexing="ij")
    w, within = corners.mean(axis=0), np.ones(a.shape, dtype=bool)
    for t in np.linspace(0.0, 1.0, 41):
        p, q = t * corners[0] + (1.0 - t) * corners[1]
        r = p * a + q * b  # Pr(second column)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = sum(
                np.where(x > 0.0, weight * x * np.log(x / y), 0.0)
                for weight, x, y in ((p, a, r), (p, 1 - a, 1 - r), (q, b, r), (q, 1 - b, 1 - r))
            )
        within &= told <= budget
    costs = np.where(within, w[0] * a * cost[0, 1] + w[1] * (1 - b) * cost[1, 0], INF)
    assert found.lower_bound <= costs.min()
    assert found.distortion == pytest.approx(costs.min(), rel=0.02)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_budget_holds_at_random_odds_of_the_hull(seed):
    """Whatever the costs, the corners and the budget: 60 odds of the hull, to 1e-6 and far better."""
    rng = np.random.default_rng(seed)
    m, n, K = (int(x) for x in rng.integers(2, 6, size=3))
    cost, corners = rng.random((m, n)), rng.dirichlet(np.full(m, 0.7), size=K)
    budget = float(10.0 ** rng.uniform(-4, 0))
    found = solve_robust(cost, corners, leakage=budget)
    P = found.randomizer.kernel
    assert is_kernel(P)
    assert max(mutual(p, P) for p in mixtures(corners, 40, rng)) <= budget * (1.0 + 1e-6)
    assert information_50(found.worst_prior, P)[1] <= budget * (1.0 + 1e-15)
    assert found.lower_bound <= found.distortion
    assert found.status == "optimal"


def test_an_ordinary_design_breaks_the_budget_within_the_hull():
    """The twin: a design for one corner keeps its budget there, and gives away more than twice that between them."""
    plain = us.solve(1.0 - np.eye(2), prior=ENDS[0], leakage=0.02)
    assert plain.leakage <= 0.02
    assert worst_prior(plain.randomizer.kernel, ENDS).upper > 0.05


@pytest.mark.long(seconds=3, reason="a hundred problems, some of them in rational arithmetic")
def test_a_fuzz_of_every_family():
    """Problems that break solvers, with corners around them: nothing wrong, the gap closed in 98 percent of them."""
    rng, wrong, optimal, count = np.random.default_rng(5), {}, 0, 0
    for k, case in enumerate(robust_cases(5, 105)):
        verdict = look(case, rng, digits=1 if k % 5 == 0 else 0)
        if verdict.wrong:
            wrong[k] = (case.family, verdict.wrong)
        optimal, count = optimal + verdict.optimal, count + 1
    assert wrong == {}
    assert optimal >= 0.98 * count


# --- forbidden pairs, values that do not occur, refusals --------------------------------------------------------------


def test_forbidden_pairs_are_never_drawn():
    """An infinite cost is kept, and a budget that it does not leave room for is refused with what is needed."""
    cost = np.array([[0.0, 1.0, INF], [INF, 1.0, 0.0]])
    found = solve_robust(cost, ENDS, leakage=0.2)
    assert (found.randomizer.kernel[np.isinf(cost)] == 0.0).all()
    assert found.status == "optimal"
    with pytest.raises(InfeasibleError, match=r"need at least 0\.69314"):
        solve_robust([[0, INF], [INF, 0]], ENDS, leakage=0.2)
    with pytest.raises(InfeasibleError, match="something must be told"):
        solve_robust([[0, INF], [INF, 0]], ENDS, leakage=0.0)
    whole = solve_robust([[0, INF], [INF, 0]], ENDS, leakage=0.7)
    assert whole.randomizer.kernel.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_values_that_occur_at_no_odds_do_not_count():
    """A value of probability zero in all corners changes nothing."""
    cost = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 5.0]])
    found = solve_robust(cost, [[0.95, 0.05, 0.0], [0.05, 0.95, 0.0]], leakage=0.1)
    assert found.distortion == pytest.approx(solve_robust(cost[:2], ENDS, leakage=0.1).distortion, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"priors": "some"}, "or 'all' for any odds"),
        ({"priors": []}, "priors is empty"),
        ({"priors": 3}, "must hold several priors"),
        ({"priors": [[0.5, 0.5], [0.5, 0.6]]}, r"priors\[1\]: .*sums to 1\.1"),
        ({"priors": ENDS, "prior": "best"}, "'worst' for the largest cost"),
        ({"priors": ENDS, "leakage": -1}, "must be 0 or more"),
    ],
)
def test_refusals_name_the_rule(arguments, message):
    """What is wrong is said before any work is done."""
    with pytest.raises(DesignError, match=message):
        solve_robust(1.0 - np.eye(2), **({"leakage": 0.1} | arguments))


def test_the_stated_prior_joins_the_hull():
    """Odds that weigh the cost are odds that must be kept: the budget holds there too."""
    found = solve_robust(1.0 - np.eye(2), [[0.95, 0.05], [0.9, 0.1]], prior=[0.5, 0.5], leakage=0.1)
    assert len(found.priors) == 3
    assert found.leakage_at([0.5, 0.5]) <= 0.1
    assert found.prior.tolist() == [0.5, 0.5]


# --- designs: streams, cards, files -----------------------------------------------------------------------------------


def made(**changes):
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    given = {"priors": [[0.9, 0.1], [0.3, 0.7]], "leakage": 0.2, "horizon": 50, "distortion": "mae"} | changes
    return design_robust(family, [0, 0.5, 1], **given)


def test_a_design_streams_and_is_charged_with_the_worst(tmp_path):
    """It is an ordinary design to a stream; what a draw is charged is the leakage over the hull."""
    found = made()
    assert isinstance(found, us.Design)
    assert found.leakage_of_draw("design") == found.worst_leakage <= 0.2
    assert found.leakage_at([0.9, 0.1]) < found.worst_leakage
    assert found.leakage_of_draw([0.9, 0.1]) == found.leakage_at([0.9, 0.1])
    assert found.leakage_of_draw() >= found.worst_leakage
    with pytest.raises(ConfigurationError, match="must be 'design'"):
        found.leakage_of_draw("today")
    stream = found.stream(theta=1, rng=1)
    Y = us.sample(room(1), T=5, rng=2)
    assert np.isfinite([stream.step(y) for y in Y.ravel()]).all()
    assert found.guarantee.within_budget


def test_the_card_says_what_holds_over_the_hull():
    """In words: the mixture, the nats, the error at the least favourable corner; and the same as data."""
    found = made()
    card = " ".join(found.card().split())
    assert "mixture of the 2 priors" in card
    assert "at most 0.2 nats" in card
    assert "however long it watches" in card
    assert found.worst_error == min(us.Guarantee.of(p, found.randomizer.kernel).bayes_error for p in found.priors)
    assert all(
        us.Guarantee.of(p, found.randomizer.kernel).bayes_error >= found.worst_error - 1e-15
        for p in mixtures(found.priors, 50, np.random.default_rng(0))
    )
    plain = json.loads(found.json())
    assert plain["worst_leakage_nats"] == found.worst_leakage
    assert len(plain["corners"]) == 2
    anyone = made(priors="all")
    assert anyone.headline.startswith(PRIORS["any"])
    assert "any odds" in repr(anyone)


def test_a_file_comes_back_and_is_checked(tmp_path):
    """Saved, loaded, the same bits; a claim that was edited is refused, and so is a kernel that overspends."""
    found, path = made(), tmp_path / "robust.json"
    found.save(path)
    again = us.load_design(path)
    assert np.array_equal(again.randomizer.kernel, found.randomizer.kernel)
    assert (again.worst_leakage, again.distortion, again.status) == (found.leakage, found.distortion, found.status)
    assert again.fingerprint == found.fingerprint
    bad = replace(found, lower_bound=0.0)
    bad.save(path)
    with pytest.raises(StoredFileError, match="lower_bound is not what"):
        us.load_design(path)
    telling = replace(found, randomizer=us.Randomizer(np.eye(2, 3), found.values, found.pseudo))
    telling.save(path)
    with pytest.raises(StoredFileError, match="not a solution"):
        us.load_design(path)
    found.save(path, models=False)
    assert us.load_design(path).family is None
    assert us.load_design(path, family=us.Family(room, values=[0, 1])).family is not None


def test_a_file_holds_the_multipliers_that_prove_its_bound(tmp_path, monkeypatch):
    """Loading solves nothing; multipliers that prove less, or are none, are refused; without them they are found."""
    found, path = made(), tmp_path / "robust.json"
    content = found.to_content()
    old = {name: part for name, part in content.items() if name != "multipliers"}
    assert RobustDesign.from_content(old, None).lower_bound == pytest.approx(found.lower_bound, rel=1e-9)
    monkeypatch.setattr("understudy.randomizer.priors.saddle", None)
    found.save(path)
    assert us.load_design(path).lower_bound == found.lower_bound
    point = found.multipliers
    replace(found, multipliers=point._replace(a=0.5 * point.a)).save(path)
    with pytest.raises(StoredFileError, match="lower_bound is not what"):
        us.load_design(path)
    replace(found, multipliers=point._replace(a=-point.a)).save(path)
    with pytest.raises(StoredFileError, match="0 or more"):
        us.load_design(path)


def test_percent_and_bits_are_budgets_too():
    """A share of the entropy is of the odds that weigh the cost."""
    found = made(leakage="50%", prior=[0.5, 0.5])
    assert found.budget == pytest.approx(0.5 * math.log(2.0))
    assert found.demand == ("leakage", "50%")


def test_what_models_give_away_is_kept_within_the_budget_at_every_corner():
    """Residuals are charged at the corner where they are most, and draw and residual together keep the budget."""
    family = us.Family({0: Approximate(room(0), 0.0), 1: Approximate(room(1), 1e-3)}, prior=[0.5, 0.5])
    found = design_robust(family, priors=[[0.9, 0.1], [0.3, 0.7]], leakage=0.2, horizon=50, distortion="mae")
    assert found.residual == pytest.approx(0.7 * 0.05)
    assert found.total_leakage <= 0.2 * (1.0 + 1e-15)
    assert found.residual_of_block() == (found.residual, 50)
    assert "residual" in found.card()


def test_the_fingerprint_tells_designs_apart():
    """Another hull, another design."""
    assert made().fingerprint != made(priors=[[0.8, 0.2], [0.3, 0.7]]).fingerprint
    assert fingerprint({}) != made().fingerprint
