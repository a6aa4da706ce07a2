"""Designs through the public names: the paper's room, units, bad input, uncertainty, and what is left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import OwnGaussMarkov, room
from scipy import stats

import understudy as us
from understudy.errors import DesignError, UnderstudyError
from understudy.randomizer.measures import entropy

FALSE_ALARM = 1e-6
PSEUDO = [0, 0.2, 0.4, 0.6, 0.8, 1]
HAMMING = 1.0 - np.eye(3)


@pytest.fixture(scope="module")
def family():
    return us.Family(room, values=[0, 1], prior=[0.5, 0.5])


@pytest.fixture(scope="module")
def rooms(family):
    """The paper's numerical example."""
    return us.design(family, pseudo=PSEUDO, leakage=0.3, horizon=50, distortion="mae")


# --- the paper's room -------------------------------------------------------------------------------------------------


def test_the_room_of_the_paper(rooms):
    """Distortion 17.346, the kernel between the two ends alone, and a guess wrong 13.36 percent of the time."""
    assert rooms.distortion == pytest.approx(17.346, abs=5e-4)
    expected = [[0.866, 0, 0, 0, 0, 0.134], [0.134, 0, 0, 0, 0, 0.866]]
    assert np.abs(rooms.randomizer.kernel - expected).max() < 5e-4
    assert rooms.guarantee.bayes_error == pytest.approx(0.1336, abs=5e-5)
    assert rooms.relative_distortion == pytest.approx(0.1735, abs=5e-5)
    assert rooms.status == "optimal"
    assert rooms.lower_bound <= rooms.distortion <= rooms.lower_bound * (1.0 + 1e-9)
    assert rooms.leakage <= 0.3
    assert rooms.values == (0, 1)
    assert rooms.pseudo == tuple(PSEUDO)
    assert rooms.distortion_error == 0.0


def test_the_room_in_closed_form(rooms):
    """Costs are linear in the distance, so the ends suffice: D = D(0, 1) e with h(e) = ln 2 - 0.3."""
    e = rooms.distortion / rooms.cost[0, 5]
    assert -e * math.log(e) - (1.0 - e) * math.log(1.0 - e) == pytest.approx(math.log(2.0) - 0.3, rel=1e-9)


def test_a_design_is_its_bare_problem(rooms):
    """us.solve on the costs of a design gives the same kernel and the same figures."""
    solved = us.solve(rooms.cost, prior=rooms.prior, leakage=0.3)
    assert np.array_equal(solved.randomizer.kernel, rooms.randomizer.kernel)
    for name in ("distortion", "lower_bound", "gap", "leakage", "budget", "status", "iterations", "slope"):
        assert getattr(solved, name) == getattr(rooms, name)


def test_the_families_own_values_are_the_default(family):
    """Without pseudo values the private ones play each other."""
    found = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    assert found.pseudo == found.values == (0, 1)
    assert found.distortion == pytest.approx(17.346, abs=5e-4)


def test_the_inverse_demands(family, rooms):
    """An error or a distortion in place of a leakage: the same trade-off from the other end."""
    by_distortion = us.design(family, PSEUDO, distortion_at_most=rooms.distortion, horizon=50, distortion="mae")
    assert by_distortion.distortion <= rooms.distortion
    assert by_distortion.leakage == pytest.approx(0.3, rel=1e-8)
    by_error = us.design(family, PSEUDO, error_at_least=0.13, horizon=50, distortion="mae")
    assert by_error.guarantee.bayes_error >= 0.13
    assert by_error.distortion == pytest.approx(0.13 * rooms.cost[0, 5], rel=1e-9)
    assert by_error.budget is None


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "nats"),
    [
        (0.3, 0.3),
        ("0.3 nats", 0.3),
        ("0.3nat", 0.3),
        (" 3e-1  nats ", 0.3),
        ("0.4 bit", 0.4 * math.log(2.0)),
        ("0.4 bits", 0.4 * math.log(2.0)),
        ("40%", 0.4 * math.log(3.0)),
        ("40 percent", 0.4 * math.log(3.0)),
        ("0%", 0.0),
        ("100%", math.log(3.0)),
        (0, 0.0),
        (1, 1.0),
        (np.float64(0.3), 0.3),
        (np.float32(0.5), 0.5),
        (math.inf, math.inf),
    ],
)
def test_units_of_the_budget(written, nats):
    """Nats, bits, and shares of the entropy."""
    solved = us.solve(HAMMING, leakage=written)
    assert solved.budget == pytest.approx(nats, rel=1e-14)
    assert solved.leakage <= solved.budget
    assert solved.demand == ("leakage", written)


def test_a_share_is_one_of_the_entropy_of_this_prior():
    """40 percent of less is less."""
    p = [0.9, 0.05, 0.05]
    assert us.solve(HAMMING, prior=p, leakage="40%").budget == pytest.approx(0.4 * entropy(p), rel=1e-14)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leakage", "words"),
    [
        (-0.1, "leakage = -0.1; it must be 0 or more"),
        (math.nan, "leakage = nan; it must be 0 or more"),
        (-math.inf, "must be 0 or more"),
        ("-0.3 nats", "must be 0 or more"),
        ("101%", "at most 100%"),
        ("0.3", "written with its unit"),
        ("0.3 furlongs", "written with its unit"),
        ("nats", "written with its unit"),
        ("a lot", "written with its unit"),
        ("", "written with its unit"),
        ("0.3 bits per second", "written with its unit"),
        ("inf nats", "written with its unit"),
        ("nan nats", "written with its unit"),
        (True, "must be a number of nats"),
        ([0.3], "must be a number of nats"),
        ({}, "must be a number of nats"),
        (0.3 + 0j, "must be a number of nats"),
    ],
)
def test_bad_budgets(family, leakage, words):
    """The message names the value and the rule, for bare costs and for families."""
    with pytest.raises(DesignError, match=words):
        us.solve(HAMMING, leakage=leakage)
    with pytest.raises(DesignError, match=words):
        us.design(family, PSEUDO, leakage=leakage, horizon=5)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ([[0.0, -1.0], [1.0, 0.0]], "row 0, column 1 is -1; costs must be 0 or more"),
        ([[0.0, math.nan]], "row 0, column 1 is not a number"),
        ([[0.0, 1.0], [1.0]], "ragged|type object"),
        ([], "must be a matrix of numbers"),
        ([[]], "must be a matrix of numbers"),
        ([0.0, 1.0], "must be a matrix of numbers"),
        ([[[0.0]]], "must be a matrix of numbers"),
        (3.0, "must be a matrix of numbers"),
        ("costs", "must be a matrix of numbers"),
        ([["0", "1"]], "must be a matrix of numbers"),
        ([[True, False]], "must be a matrix of numbers"),
        ([[1j, 0.0]], "must be a matrix of numbers"),
        ([[None, 0.0]], "must be a matrix of numbers"),
        (None, "must be a matrix of numbers"),
    ],
)
def test_bad_costs(cost, words):
    """Refused by place or by shape, whatever is demanded."""
    for demand in ({"leakage": 0.3}, {"error_at_least": 0.0}, {"distortion_at_most": 10.0}):
        with pytest.raises(DesignError, match=words):
            us.solve(cost, **demand)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ([0.5, 0.5], "shape .2,.*each of the 3 rows"),
        ([0.25] * 4, "each of the 3 rows"),
        ([[0.5, 0.25, 0.25]], "each of the 3 rows"),
        ([0.5, 0.25, 0.2], "prior sums to 0.95"),
        ([0.5, 0.75, -0.25], "not negative"),
        ([0.5, 0.5, math.nan], "finite"),
        ([math.inf, 0.0, 0.0], "finite"),
        ([0.0, 0.0, 0.0], "sums to 0"),
        (["a", "b", "c"], "each of the 3 rows"),
        ([True, False, False], "each of the 3 rows"),
        ([[0.5], [0.5, 0.5], [0.0]], "ragged|each of the 3 rows"),
        (1.0, "each of the 3 rows"),
        ([], "each of the 3 rows"),
    ],
)
def test_bad_priors(prior, words):
    """Rows that do not match, and what is no probability."""
    with pytest.raises(DesignError, match=words):
        us.solve(HAMMING, prior=prior, leakage=0.3)


def test_exactly_one_demand(family):
    """None, two or three demands: the message says which were given."""
    with pytest.raises(DesignError, match="no demand given; exactly one of leakage"):
        us.solve(HAMMING)
    with pytest.raises(DesignError, match="leakage and distortion_at_most given"):
        us.solve(HAMMING, leakage=0.3, distortion_at_most=0.2)
    with pytest.raises(DesignError, match="leakage and error_at_least and distortion_at_most given"):
        us.design(family, leakage=0.3, error_at_least=0.1, distortion_at_most=0.2, horizon=5)
    with pytest.raises(DesignError, match="no demand"):
        us.design(family, horizon=5)


def test_families_and_horizons_that_are_none(family):
    """A function in place of a family; no pseudo values; horizons below one."""
    with pytest.raises(DesignError, match="must be a Family"):
        us.design(room, leakage=0.3)
    with pytest.raises(DesignError, match="pseudo is empty"):
        us.design(family, [], leakage=0.3, horizon=5)
    for horizon in (0, -1, 2.5, "5", True):
        with pytest.raises(DesignError, match="horizon"):
            us.design(family, PSEUDO, leakage=0.3, horizon=horizon)
    with pytest.raises(UnderstudyError, match="distortion"):
        us.design(family, PSEUDO, leakage=0.3, horizon=5, distortion="mad")


# --- uncertainty travels ----------------------------------------------------------------------------------------------


def absolute(y, y_out):
    """The mean absolute error, as a function of one's own."""
    return np.abs(y - y_out)


@pytest.fixture(scope="module")
def simulated():
    """A family whose costs are found by simulation, and the same with exact ones."""

    def noisy(v):
        return us.GaussMarkov(0.5, 1.0, 1.0 + v, 0.5, v, 0.0, 0.0, 1.0)

    return us.Family(noisy, values=[0.0, 1.0, 2.0])


def test_the_error_of_a_simulation_travels_into_the_design(simulated):
    """A standard error above zero, shown as what the mean is known to, and never as a tolerance."""
    found = us.design(simulated, leakage=0.3, horizon=4, distortion=absolute, accuracy=0.02)
    assert 0.0 < found.distortion_error < 0.05 * found.distortion
    assert found.costs is not None
    assert set(found.costs.method.ravel()) == {"Monte Carlo"}
    for shown in (str(found), repr(found)):
        assert f"(known to within {2.0 * found.distortion_error:.2g})" in shown
        assert "+-" not in shown
    exact = us.design(simulated, leakage=0.3, horizon=4, distortion="mae")
    assert exact.distortion_error == 0.0
    assert "known to within" not in str(exact) + repr(exact)


def test_the_error_covers_the_truth(simulated):
    """100 seeds: the true distortion of the kernel is within 3 standard errors, at 1e-6; half of one will not do."""
    truth = us.costs(simulated, horizon=4, distortion="mae").matrix
    inside = close = 0
    for seed in range(100):
        found = us.design(simulated, leakage=0.3, horizon=4, distortion=absolute, accuracy=0.05, rng=seed)
        true = float((found.prior[:, None] * found.randomizer.kernel * truth).sum())
        miss = abs(found.distortion - true) / found.distortion_error
        inside, close = inside + (miss < 3.0), close + (miss < 0.5)
    # the kernel is chosen for the costs that came out low, which takes a little off the coverage
    assert inside >= stats.binom.ppf(FALSE_ALARM, 100, 0.98)
    assert close < stats.binom.ppf(FALSE_ALARM, 100, 0.98)


# --- what is left alone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("demand", [{"leakage": 0.3}, {"error_at_least": 0.2}, {"distortion_at_most": 0.3}])
def test_what_the_user_gave_is_neither_changed_nor_frozen(demand):
    """Arrays of one's own stay writeable and as they were, contiguous or not; a design keeps copies."""
    wide = np.asfortranarray(np.arange(9.0).reshape(3, 3) % 4)
    cost, prior = wide.copy(), np.array([0.2, 0.3, 0.5])
    for given in (cost, wide, np.ones((6, 6))[::2, ::2]):
        before = given.copy()
        solved = us.solve(
            given, prior=prior, **demand | ({"distortion_at_most": 3.0} if "distortion" in str(demand) else {})
        )
        assert np.array_equal(given, before)
        assert prior.tolist() == [0.2, 0.3, 0.5]
        assert given.flags.writeable
        assert prior.flags.writeable
        assert not np.shares_memory(solved.cost, given)
        assert not np.shares_memory(solved.prior, prior)
        given[0, 0] += 1.0
        prior[0] = 0.9
        assert solved.cost[0, 0] == before[0, 0]
        assert solved.prior[0] == 0.2
        prior[0] = 0.2


def test_read_only_input_is_welcome():
    """Arrays that cannot be written to, as other designs hold them."""
    cost, prior = HAMMING.copy(), np.full(3, 1.0 / 3.0)
    cost.flags.writeable = prior.flags.writeable = False
    first = us.solve(cost, prior=prior, leakage=0.3)
    assert np.array_equal(
        us.solve(first.cost, prior=first.prior, leakage=0.3).randomizer.kernel, first.randomizer.kernel
    )


def test_a_design_cannot_be_changed(rooms):
    """Fields and arrays are read-only."""
    for array in (rooms.cost, rooms.prior, rooms.randomizer.kernel):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(AttributeError):
        rooms.leakage = 0.0
    with pytest.raises(AttributeError):
        rooms.randomizer.kernel = np.eye(2)


def test_designs_repeat(family, rooms):
    """The same question, the same bits."""
    again = us.design(family, pseudo=PSEUDO, leakage=0.3, horizon=50, distortion="mae")
    assert np.array_equal(again.randomizer.kernel, rooms.randomizer.kernel)
    assert again.distortion == rooms.distortion


def test_no_design_shows_a_secret():
    """What is shown tells sizes and figures: no value of the parameter and no kernel."""
    values = ["Alice at home", "Bob at home"]
    models = {value: room(k) for k, value in enumerate(values)}
    found = us.design(us.Family(models), leakage=0.3, horizon=5)
    for shown in (repr(found), repr(found.randomizer), repr(found.family), repr(found.costs)):
        assert "Alice" not in shown
        assert "Bob" not in shown
    found.randomizer.draw(values[0], np.random.default_rng(1))
    assert "Alice" not in repr(found) + repr(found.randomizer)


def test_a_model_of_ones_own(family):
    """Four methods are enough for a design; its costs then come with an error."""
    own = us.Family(lambda v: OwnGaussMarkov(room(v)), values=[0, 1])
    found = us.design(own, leakage=0.3, horizon=5, accuracy=0.05)
    exact = us.design(family, leakage=0.3, horizon=5)
    assert np.abs(found.randomizer.kernel - exact.randomizer.kernel).max() < 0.02
    assert abs(found.distortion - exact.distortion) <= stats.norm.isf(FALSE_ALARM / 2) * found.distortion_error + 1e-9
