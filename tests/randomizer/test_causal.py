"""`us.design_causal`: what it takes, what it refuses, what a decision is, and what it keeps to itself."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from causal_cases import ALPHA, HAMMING, STAY, bits, level, room_design
from helpers import count_calls, room
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import understudy as us
from understudy.errors import DesignError, FamilyError, InfeasibleError, StateError
from understudy.randomizer.causal import CausalDesign, design_causal
from understudy.randomizer.causal_guarantee import Beliefs, BeliefState, long_run, play


@pytest.fixture(scope="module")
def made():
    return room_design()


# Making --------------------------------------------------------------------------------------------------


def test_a_design_from_models(made):
    """Costs are those of us.costs; the rate is met; the first decision is apart."""
    expected = us.design(us.Family(room, [0, 1]), [0, 0.5, 1], leakage=0.3, horizon=50, distortion="mae").cost
    assert (made.beliefs.cost == expected).all()
    assert made.rate == pytest.approx(0.05, rel=1e-8)
    assert made.rate <= 0.05
    assert made.first_charge > made.rate
    assert made.expected_leakage(10) == pytest.approx(made.first_charge + 9 * made.rate)
    assert made.expected_leakage(0) == 0.0
    assert made.demand == ("rate", 0.05)
    assert made.values == (0, 1)
    assert made.pseudo == (0, 0.5, 1)


def test_rates_have_units():
    """Bits are nats over ln 2."""
    one = design_causal(bits(), STAY, rate="0.1 bit", distortion=HAMMING)
    assert one.rate == pytest.approx(0.1 * math.log(2.0), rel=1e-8)


def test_more_rate_costs_less():
    """The distortion falls and the slope grows with the rate, up to what is of use; nothing told is a constant."""
    family = us.Family(level, values=[0, 1, 2], prior=[0.5, 0.3, 0.2])
    T = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    found = [design_causal(family, T, rate=rate, distortion="mae") for rate in (0.0, 0.02, 0.1, 0.3, 5.0)]
    assert [x.slope for x in found] == sorted(x.slope for x in found)
    assert (np.diff([x.distortion for x in found]) < 0.0).all()
    assert found[0].slope == 0.0
    assert found[0].rate == 0.0
    assert found[-1].slope == math.inf
    assert found[-1].distortion == 0.0
    assert found[-1].rate == pytest.approx(-(0.9 * math.log(0.9) + 0.1 * math.log(0.05)), abs=1e-9)


def test_the_time_of_day_turns():
    """Matrices take turns: with one that stays and one that forgets, the rate is the mean of two decisions."""
    made = design_causal(bits(), [np.eye(2), np.full((2, 2), 0.5)], slope=math.inf, distortion=HAMMING)
    # theta_0 is told; it stays, nothing new; it is drawn afresh, all is new; and so on
    assert made.rate == pytest.approx(0.5 * math.log(2.0), abs=1e-12)
    state, charges = made.start(), []
    for theta in (0, 0, 1, 1):
        state, pseudo, charge = made.draw(state, theta)
        assert pseudo == theta
        charges.append(charge)
    assert charges == pytest.approx([math.log(2.0), 0.0, math.log(2.0), 0.0], abs=1e-12)


def test_forbidden_pairs_are_never_drawn():
    """An infinite cost forbids a pair; too small a rate is then refused, saying so."""
    family = us.Family(level, values=[0, 1, 2])
    T = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    cost = [[0.0, 1.0, math.inf], [1.0, 0.0, 1.0], [math.inf, 1.0, 0.0]]
    made = design_causal(family, T, slope=1.0, distortion=cost)
    played = play(made.beliefs, 50, 50, rng=1)
    assert not np.isinf(made.beliefs.cost[played.theta, played.pseudo]).any()
    assert math.isfinite(made.distortion)
    must_tell = [[0.0, math.inf, math.inf], [math.inf, 0.0, 1.0], [math.inf, 1.0, 0.0]]
    with pytest.raises(InfeasibleError, match="forbidden pairs"):
        design_causal(family, T, rate=1e-3, distortion=must_tell)
    with pytest.raises(DesignError, match="no column is allowed to all"):
        Beliefs([0.5, 0.5], STAY, [[0.0, math.inf], [math.inf, 0.0]], 0.0).kernel((0.5, 0.5))


WRONG = {
    "family": ({"family": "room"}, "must be a Family"),
    "both": ({"rate": 0.1, "slope": 1.0}, "exactly one"),
    "neither": ({"rate": None}, "exactly one"),
    "negative": ({"rate": -0.1}, "rate = -0.1; it must be 0 or more"),
    "share": ({"rate": "10%"}, "nats or bits a decision"),
    "infinite": ({"rate": math.inf}, "finite"),
    "word": ({"rate": "much"}, "rate = 'much'"),
    "slope": ({"rate": None, "slope": -1.0}, "slope = -1.0"),
    "every": ({"decision_every": 0}, "decision_every = 0"),
    "half": ({"decision_every": 1.5}, "decision_every = 1.5"),
    "shape": ({"transition": [[1.0]]}, r"transition has shape \(1, 1\)"),
    "row": ({"transition": [[0.9, 0.2], [0.1, 0.9]]}, "row 0 of the transition sums to 1.1"),
    "rows": ({"transition": [STAY, [[0.9, 0.1], [0.1, 0.7]]]}, "row 1 of matrix 1 of the transition sums to 0.8"),
    "sign": ({"transition": [[1.1, -0.1], [0.1, 0.9]]}, "negative or not finite"),
    "ragged": ({"transition": [[1.0], [0.5, 0.5]]}, "transition has shape"),
    "cost": ({"distortion": [[0.0, 1.0]]}, r"distortion has shape \(1, 2\)"),
    "nan": ({"distortion": [[0.0, math.nan], [1.0, 0.0]]}, "row 0, column 1 is not a number"),
    "minus": ({"distortion": [[0.0, -1.0], [1.0, 0.0]]}, "row 0, column 1 is -1"),
    "closed": ({"distortion": [[math.inf, math.inf], [1.0, 0.0]]}, "row 0 of the costs is infinite"),
    "pseudo": ({"pseudo": []}, "pseudo is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    """A configuration error names the value and the rule."""
    changes, message = WRONG[name]
    settings = {"family": bits(), "transition": STAY, "rate": 0.1, "distortion": HAMMING, **changes}
    with pytest.raises(DesignError, match=message):
        design_causal(settings.pop("family"), settings.pop("transition"), **settings)


def test_models_that_cannot_follow_each_other_are_refused():
    """Members of different kinds have no path; approximate ones have one whose leak is not known."""
    mixed = us.Family({0: level(0), 1: us.GaussMarkov(0.9, 1.0, 0.1, 0.1)})
    with pytest.raises(FamilyError, match="the path switches"):
        design_causal(mixed, STAY, rate=0.1, distortion=HAMMING)
    rounded = us.Family(lambda v: us.Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=v), 1.0), [0, 1])
    with pytest.raises(DesignError, match="approximate"):
        design_causal(rounded, STAY, rate=0.1, distortion=HAMMING)


# Deciding ------------------------------------------------------------------------------------------------


def test_draws_have_the_law_of_the_kernel(made):
    """Counts of 40,000 draws at a belief against its kernel row (chi-square, false alarm 1e-6); the other row fails."""
    state, rng = BeliefState((0.3, 0.7), 5), np.random.default_rng(1)
    counts = np.bincount([made.draw(state, 1, rng).pseudo for _ in range(40_000)], minlength=3)
    for row, fits in ((1, True), (0, False)):
        expected = 40_000 * made.kernel(state.belief)[row]
        assert counts[expected == 0.0].sum() == 0 or not fits
        used = expected > 0.0
        statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
        assert (statistic < chi2.isf(ALPHA, used.sum() - 1)) == fits


def test_a_decision_is_a_pure_function_of_state_and_coins(made):
    """Equal coins give equal decisions; the charge is known before; the state holds a count and a belief."""
    state = made.start()
    one, two = (made.draw(state, 1, np.random.default_rng(3)) for _ in range(2))
    assert one == two
    assert made.next_charge(state) == one.charge == made.first_charge
    assert one.state.k == 1
    assert math.fsum(one.state.belief) == pytest.approx(1.0, abs=1e-15)
    assert state == made.start()
    restored = pickle.loads(pickle.dumps(one.state))  # noqa: S301  # our own
    assert restored == copy.deepcopy(one.state) == one.state
    assert made.draw(restored, 0, np.random.default_rng(4)) == made.draw(one.state, 0, np.random.default_rng(4))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 5), st.floats(0.01, 50.0))
def test_the_belief_is_a_martingale_up_to_the_chain(seed, m, n, slope):
    """The mean of the next belief over the draws is b T; charges are not negative and at most the entropy."""
    rng = np.random.default_rng(seed)
    b, T = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(m), m)
    beliefs = Beliefs(b, T, rng.random((m, n)), slope)
    state = beliefs.start()
    kernel = beliefs.kernel(state.belief)
    assert (kernel.sum(axis=1) == 1.0).all()
    assert (kernel >= 0.0).all()
    r = b @ kernel
    after = sum(r[j] * np.array(beliefs.after(state, kernel, j).belief) for j in range(n) if r[j] > 0.0)
    assert after == pytest.approx(b @ T, abs=1e-12)
    assert 0.0 <= beliefs.charge(state.belief, kernel) <= -(b * np.log(b)).sum() + 1e-12


def test_a_budget_is_kept_on_every_path():
    """With what is left given to each draw, all pseudo paths together and each alone stay within the budget."""
    beliefs, budget, T = Beliefs([0.5, 0.5], STAY, HAMMING, 2.0), 0.5, 6
    total, most = 0.0, 0.0
    # every pseudo path with its probability, by coins that are chosen
    waiting = [(beliefs.start(), 1.0, 0.0)]
    for _ in range(T):
        grown = []
        for state, chance, spent in waiting:
            kernel = beliefs.kernel(state.belief)
            charge = beliefs.charge(state.belief, kernel)
            if charge > budget - spent:
                quiet = beliefs.draw(state, 0, left=budget - spent)
                assert quiet.charge == 0.0
                assert quiet == beliefs.draw(state, 1, left=budget - spent)
                grown.append((quiet.state, chance, spent))
                continue
            r = np.array(state.belief) @ kernel
            grown += [(beliefs.after(state, kernel, j), chance * r[j], spent + charge) for j in range(2)]
        waiting = grown
    total = sum(chance * spent for _, chance, spent in waiting)
    most = max(spent for _, _, spent in waiting)
    assert 0.3 < total <= most <= budget
    first = beliefs.charge(beliefs.prior, beliefs.kernel(beliefs.prior))
    assert first + long_run(beliefs).rate * (T - 1) > budget  # it would not have been kept by itself


def test_a_value_that_is_none_is_refused_without_its_name():
    """Type and rule, never the value; one of probability zero is not refused, for that would tell it."""
    made = design_causal(us.Family(level, [17, 23], prior=[1.0, 0.0]), np.eye(2), slope=1.0, distortion=HAMMING)
    assert made.draw(made.start(), 23).state == made.draw(made.start(), 17).state
    with pytest.raises(DesignError, match="no row for a value of type int") as caught:
        made.draw(made.start(), 99)
    assert "99" not in str(caught.value)
    beliefs = Beliefs([0.5, 0.5], STAY, HAMMING, math.inf)
    with pytest.raises(StateError, match="decision 1"):
        beliefs.after(BeliefState((1.0, 0.0), 0), beliefs.kernel((1.0, 0.0)), 1)


def test_nothing_private_is_shown(made):
    """Repr of states, draws and designs show sizes and counts, no belief, no draw."""
    drawn = made.draw(made.start(), 1)
    assert repr(drawn) == "Draw(decision=1)"
    assert repr(drawn.state) == "BeliefState(decisions=1)"
    assert repr(made).startswith("CausalDesign(2 x 3, rate=0.05, distortion=")
    assert repr(made.beliefs).startswith("Beliefs(2 x 3, slope=")


def test_values_that_are_arrays_have_rows():
    """A parameter may be an array, or anything that can be told apart."""
    family = us.Family(lambda v: level(v[0]), values=[np.array([0.0]), np.array([1.0])])
    made = design_causal(family, STAY, slope=1.0, distortion=HAMMING)
    assert [made.row(np.array([x])) for x in (0.0, 1.0)] == [0, 1]


def test_designs_are_values():
    """Frozen, copied and pickled whole; the fingerprint follows every number."""
    family = us.Family(room_of, values=[0, 1])
    made = design_causal(family, STAY, slope=0.1)
    with pytest.raises(AttributeError):
        made.costs = None
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301  # our own
        assert isinstance(other, CausalDesign)
        assert other.fingerprint == made.fingerprint
        assert repr(other) == repr(made)
        assert (other.kernel((0.4, 0.6)) == made.kernel((0.4, 0.6))).all()
    changed = [
        design_causal(family, STAY, slope=0.1000001),
        design_causal(family, [[0.95, 0.05], [0.06, 0.94]], slope=0.1),
        design_causal(family, STAY, slope=0.1, decision_every=2),
        design_causal(us.Family(room_of, values=[0, 1], prior=[0.4, 0.6]), STAY, slope=0.1),
        design_causal(family, STAY, slope=0.1, distortion="mae"),
    ]
    assert len({x.fingerprint for x in (made, *changed)}) == 6
    with pytest.raises(DesignError, match="2 probabilities that sum to 1"):
        made.kernel((0.5, 0.6))


def room_of(v):
    return us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=float(v))


def test_a_decision_takes_few_calls():
    """Eight values and eight pseudo values, after warm-up: the median of 300 decisions."""
    m, rng = 8, np.random.default_rng(1)
    x = np.arange(float(m))
    T = np.full((m, m), 0.02) + 0.84 * np.eye(m)
    beliefs = Beliefs(np.full(m, 1.0 / m), T, abs(x[:, None] - x), 2.0)
    played = play(beliefs, 500, 1, rng)
    state, costs = beliefs.start(), []
    for theta in played.theta[:, 0].tolist():
        costs.append(count_calls(lambda state=state, theta=theta: beliefs.draw(state, theta, rng)))
        state = beliefs.draw(state, theta, rng).state
    assert np.median(costs[200:]) < 200
