"""Designs for a public clock: one slope for all times, its proof, what the time tells by itself, streams."""

from __future__ import annotations

import math
from fractions import Fraction

import cvxpy
import numpy as np
import pytest
from helpers import room
from hypothesis import given, settings
from hypothesis import strategies as st
from robust_cases import Approximate
from scipy.optimize import brentq

import understudy as us
from understudy.errors import ConfigurationError, DesignError
from understudy.identify.history import Chain
from understudy.randomizer.measures import entropy, mutual_information
from understudy.randomizer.priors import clock_priors, design_conditional, shares, solve_conditional

HAMMING = 1.0 - np.eye(2)


def h(e):
    return 0.0 if e <= 0.0 else -e * math.log(e) - (1.0 - e) * math.log(1.0 - e)


def spent(found):
    """The mean leakage of the kernels, from the kernels alone."""
    return math.fsum(
        w * mutual_information(design.prior, design.randomizer.kernel)
        for w, design in zip(found.weights, found.designs, strict=True)
    )


# --- known answers and oracles ----------------------------------------------------------------------------------------


def test_binary_times_have_one_distortion():
    """Hamming: I_s = h(p_s) - h(D) at one D for all times with p_s above it; the others tell nothing."""
    rare, weights, budget = [0.02, 0.1, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4], 0.15
    D = brentq(lambda D: sum(w * max(0.0, h(p) - h(D)) for p, w in zip(rare, weights, strict=True)) - budget, 1e-6, 0.5)
    priors = {k: [1.0 - p, p] for k, p in enumerate(rare)}
    found = solve_conditional(HAMMING, priors, dict(enumerate(weights)), leakage=budget)
    expected = [min(p, D) for p in rare]
    assert [design.distortion for design in found.designs] == pytest.approx(expected, rel=1e-7)
    assert list(found.leakages.values()) == pytest.approx([max(0.0, h(p) - h(D)) for p in rare], abs=1e-7)
    assert found.distortion == pytest.approx(float(np.dot(weights, expected)), rel=1e-9)
    assert found.slope == pytest.approx(math.log((1.0 - D) / D), rel=1e-6)
    assert found.status == "optimal"


def by_cvxpy(cost, priors, weights, budget):
    """The least mean cost with the mean information within the budget, all kernels at once, by a conic solver."""
    m, n = cost.shape
    kernels = [cvxpy.Variable((m, n), nonneg=True) for _ in weights]
    told, costs = [], []
    for p, w, P in zip(priors, weights, kernels, strict=True):
        J = cvxpy.multiply(np.repeat(p[:, None], n, axis=1), P)
        r = cvxpy.reshape(p @ P, (1, n), order="C")
        told.append(w * cvxpy.sum(cvxpy.rel_entr(J, p[:, None] @ r)))
        costs.append(w * cvxpy.sum(cvxpy.multiply(cost, J)))
    limits = [cvxpy.sum(P, axis=1) == 1.0 for P in kernels]
    problem = cvxpy.Problem(cvxpy.Minimize(sum(costs)), [*limits, sum(told) <= budget])
    problem.solve(solver="CLARABEL")
    return problem.value


@pytest.mark.parametrize("seed", range(4))
def test_a_conic_solver_on_all_times_at_once(seed):
    """CVXPY with one budget over three kernels: the same mean cost to 1e-6."""
    rng = np.random.default_rng([1, seed])
    cost, priors = rng.random((3, 4)), rng.dirichlet(np.ones(3), size=3)
    weights, budget = rng.dirichlet(np.ones(3)), float(rng.uniform(0.05, 0.5))
    found = solve_conditional(cost, dict(enumerate(priors)), dict(enumerate(weights)), leakage=budget)
    assert found.distortion == pytest.approx(by_cvxpy(cost, priors, weights, budget), rel=1e-6, abs=1e-7)
    assert found.status == "optimal"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_budget_is_kept_and_the_bound_holds(seed):
    """Any costs, odds, weights and budget: kept in fractions, proven, and no worse than equal leakages."""
    rng = np.random.default_rng(seed)
    m, n, S = (int(x) for x in rng.integers(2, 6, size=3))
    cost, priors = rng.random((m, n)), rng.dirichlet(np.full(m, 0.6), size=S)
    weights = rng.dirichlet(np.ones(S))
    budget = float(10.0 ** rng.uniform(-4, 0))
    found = solve_conditional(cost, dict(enumerate(priors)), dict(enumerate(weights)), leakage=budget)
    exact = sum(
        Fraction(w) * Fraction(design.leakage) for w, design in zip(found.weights.tolist(), found.designs, strict=True)
    )
    assert exact <= Fraction(budget)
    assert spent(found) <= budget * (1.0 + 1e-12)
    assert found.lower_bound <= found.distortion
    assert found.status == "optimal"
    equal = solve_conditional(
        cost, dict(enumerate(priors)), dict(enumerate(weights)), leakage=budget, split="same leakage"
    )
    assert found.distortion <= equal.distortion * (1.0 + 1e-8)
    assert all(design.leakage <= budget for design in equal.designs)


def test_one_time_is_the_ordinary_problem():
    """A clock with one value: us.solve."""
    cost, p = np.random.default_rng(2).random((4, 5)), [0.1, 0.2, 0.3, 0.4]
    found = solve_conditional(cost, {"always": p}, leakage=0.3)
    assert found.distortion == pytest.approx(us.solve(cost, prior=p, leakage=0.3).distortion, rel=1e-9)
    assert found.clock_information == pytest.approx(0.0, abs=1e-15)


def test_curves_with_straight_pieces():
    """Erasure at equal odds: D(I) is a straight line, so leakage jumps with the slope; the budget is spent anyhow."""
    cost = np.column_stack((np.where(np.eye(3) > 0.0, 0.0, np.inf), np.ones(3)))
    priors = {0: [0.5, 0.5, 0.0], 1: [1 / 3, 1 / 3, 1 / 3]}
    found = solve_conditional(cost, priors, leakage=0.4)
    H = [entropy(np.array(p)) for p in priors.values()]
    # one nat saves 1 / H(p_s) of an erasure: best spent where H is least, up to all of it
    first = min(0.8, min(H))
    expected = 0.5 * (1.0 - first / min(H)) + 0.5 * (1.0 - (0.8 - first) / max(H))
    assert found.distortion == pytest.approx(expected, rel=1e-9)
    assert found.leakage == pytest.approx(0.4, rel=1e-9)
    assert found.status == "optimal"


def test_nothing_and_everything():
    """A budget of zero tells nothing at any time; one above all entropies costs nothing."""
    priors = {0: [0.9, 0.1], 1: [0.5, 0.5]}
    nothing = solve_conditional(HAMMING, priors, leakage=0.0)
    assert nothing.distortion == pytest.approx(0.5 * 0.1 + 0.5 * 0.5)
    assert nothing.leakage == 0.0
    everything = solve_conditional(HAMMING, priors, leakage=0.7)
    assert everything.distortion == 0.0
    assert everything.status == "optimal"
    assert shares(HAMMING, np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5]), 0.1)[0][0] == 0.0


def test_a_time_that_never_comes_spends_nothing():
    """Weight zero: its odds do not matter to the others."""
    priors = {0: [0.9, 0.1], 1: [0.5, 0.5]}
    found = solve_conditional(HAMMING, priors, {0: 1.0, 1: 0.0}, leakage=0.1)
    assert found.at(0).leakage == pytest.approx(0.1, rel=1e-9)
    assert found.worst == 0


# --- what the clock tells ---------------------------------------------------------------------------------------------


def test_the_clock_tells_what_it_tells():
    """I(Theta; clock) against the joint law written out, and the error of the worst time."""
    priors = {0: [0.9, 0.1], 1: [0.2, 0.8]}
    found = solve_conditional(HAMMING, priors, {0: 3, 1: 1}, leakage=0.1)
    joint = np.array([[0.75 * 0.9, 0.75 * 0.1], [0.25 * 0.2, 0.25 * 0.8]])
    told = float((joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))).sum())
    assert found.clock_information == pytest.approx(told, rel=1e-12)
    errors = found.errors
    assert found.worst == min(errors, key=errors.get)
    assert errors[found.worst] == found.at(found.worst).guarantee.bayes_error
    card = found.card()
    assert "beyond the time" in " ".join(card.split())
    assert "which nothing here hides" in card
    assert str(found) == card


def test_priors_from_what_a_fit_says():
    """The hours of `us.fit`, in the order of the family's values; a floor keeps all values possible."""
    by_hour = np.array([[0.2, 0.7, 0.1]] * 12 + [[0.5, 0.5, 0.0]] * 12)
    stay = np.full((3, 3), 1 / 3)
    chain = Chain((2, 0, 1), 60.0, stay, np.array([0.3, 0.6, 0.1]), 100, by_hour, np.array([stay] * 24), None)
    family = us.Family(room, values=[0, 1, 2], about={"chain": chain.to_plain()})
    priors = clock_priors(family)
    assert list(priors) == list(range(24))
    assert priors[0] == pytest.approx([0.7, 0.1, 0.2])
    assert priors[23] == pytest.approx([0.5, 0.0, 0.5])
    assert clock_priors(family, floor=0.03)[23] == pytest.approx([0.495, 0.01, 0.495])
    found = design_conditional(family, priors=priors, leakage="40%", horizon=20, distortion="mae")
    assert len(found) == 24
    assert found.status == "optimal"
    with pytest.raises(ConfigurationError, match="does not say what the clock tells"):
        clock_priors(us.Family(room, values=[0, 1]))
    with pytest.raises(ConfigurationError, match="other values"):
        clock_priors(us.Family(room, values=[0, 5], about=family.about))
    with pytest.raises(ConfigurationError, match="floor"):
        clock_priors(family, floor=1.5)


# --- designs ----------------------------------------------------------------------------------------------------------


def test_the_design_in_force_streams_and_is_stored(tmp_path):
    """at(s) is an ordinary design with the odds of s: streams, cards, and a file that comes back."""
    family = us.Family(room, values=[0, 1])
    odds = {"night": [0.95, 0.05], "day": [0.4, 0.6]}
    found = design_conditional(family, [0, 0.5, 1], priors=odds, leakage=0.2, horizon=50, distortion="mae")
    day = found.at("day")
    assert isinstance(day, us.Design)
    assert day.prior.tolist() == pytest.approx([0.4, 0.6])
    stream = day.stream(theta=1, rng=1)
    assert math.isfinite(stream.step(105.0))
    day.save(tmp_path / "day.json")
    assert np.array_equal(us.load_design(tmp_path / "day.json").randomizer.kernel, day.randomizer.kernel)
    with pytest.raises(DesignError, match="no value 'dawn'"):
        found.at("dawn")
    assert "2 times" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"priors": [[0.5, 0.5]]}, "prior for each value of the clock"),
        ({"priors": {}}, "priors is empty; it must give a prior for at least one value"),
        ({"priors": {"noon": [0.5, 0.5], "night": [0.5, 0.6]}}, r"priors\['night'\]: .*sums to 1\.1"),
        ({"priors": {6: [0.5, 0.5], 7: [1.0]}}, r"priors\[7\]: prior has shape"),
        ({"weights": {0: 1.0}}, "one number for each value"),
        ({"weights": {0: -1.0, 1: 1.0}}, "0 or more"),
        ({"weights": {0: "often", 1: 1.0}}, "must be numbers"),
        ({"split": "half"}, "'same slope' or 'same leakage'"),
        ({"leakage": -0.1}, "0 or more"),
    ],
)
def test_refusals_name_the_rule(arguments, message):
    """What is wrong is said before any work is done."""
    given_ = {"priors": {0: [0.9, 0.1], 1: [0.5, 0.5]}, "leakage": 0.1} | arguments
    with pytest.raises(DesignError, match=message):
        solve_conditional(HAMMING, given_.pop("priors"), given_.pop("weights", None), **given_)


@pytest.mark.parametrize("split", ["same slope", "same leakage"])
def test_what_models_give_away_is_part_of_the_budget(split):
    """Residuals are charged at the odds of each time; with them the mean, or each, keeps the budget."""
    family = us.Family({0: Approximate(room(0), 0.0), 1: Approximate(room(1), 1e-3)})
    odds = {"night": [0.9, 0.1], "day": [0.4, 0.6]}
    found = design_conditional(family, priors=odds, leakage=0.2, split=split, horizon=50, distortion="mae")
    assert [design.residual for design in found.designs] == pytest.approx([0.005, 0.03])
    assert found.total_leakage <= 0.2 * (1.0 + 1e-14)
    assert found.total_leakage == pytest.approx(found.leakage + 0.0175)
    assert "over the first 50 readings" in " ".join(found.card().split())
    with pytest.raises(DesignError, match="the models themselves may leak"):
        design_conditional(family, priors=odds, leakage=0.001, split=split, horizon=50, distortion="mae")


def test_forgetting_the_clock_costs():
    """The twin: one kernel for the mean odds is dearer than those for each time that tell as much given the clock."""
    priors = {0: [0.95, 0.05], 1: [0.4, 0.6]}
    whole = us.solve(HAMMING, prior=[0.675, 0.325], leakage=0.2)
    told = [mutual_information(np.array(p), whole.randomizer.kernel) for p in priors.values()]
    found = solve_conditional(HAMMING, priors, leakage=float(np.mean(told)))
    assert found.distortion < 0.8 * whole.distortion
