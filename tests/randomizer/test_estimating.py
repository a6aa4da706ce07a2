"""Theta guessed from the readings: the filter against enumeration and against likelihoods of whole sequences."""

import itertools
import math
import pickle

import numpy as np
import pytest
from causal_cases import bits
from helpers import count_calls, dense, dense_scores, random_system
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.errors import DesignError, FamilyError, ReadingError
from understudy.randomizer.causal_guarantee import _power
from understudy.randomizer.estimation import Estimator, EstimatorState
from understudy.stream.snapshot import dump, load

ALPHA = 1e-6
STAY = [[0.9, 0.1], [0.2, 0.8]]
TURNS = [STAY, [[0.6, 0.4], [0.5, 0.5]]]
GAP = math.nan


def room(v, **changes):
    given = {"A": 0.9, "C": 1.0, "Q": 0.3, "R": 0.2, "b": 0.6 * v, "mean0": 1.0, "cov0": 0.5}
    return us.GaussMarkov(**{**given, **changes})


def beliefs_along(estimator, Y, tick=0):
    state, rows, found = estimator.start(tick), [], []
    for y in Y:
        state, row = estimator.step(state, y)
        rows.append(row)
        found.append(estimator.belief(state))
    return np.array(found), rows


# --- against other ways to compute it ---------------------------------------------------------------------------------


def enumerated(family, transitions, every, Y, tick):
    """Pr(theta_k given y_1..k), by adding up all paths of theta: one value for each decision."""
    T, m = np.asarray(transitions).reshape(-1, len(family.values), len(family.values)), len(family.values)
    prior, found = family.prior, []
    for d in range(tick % len(T)):
        prior = prior @ T[d]
    for k in range(1, len(Y) + 1):
        decisions = -(-k // every)
        total = np.zeros(m)
        for path in itertools.product(range(m), repeat=decisions):
            p = prior[path[0]]
            for d in range(1, decisions):
                p *= T[(tick + d - 1) % len(T)][path[d - 1], path[d]]
            for r, y in enumerate(Y[:k]):
                if not math.isnan(y):
                    p *= stats.norm.pdf(y, family.values[path[r // every]], 1.0)
            total[path[-1]] += p
        found.append(total / total.sum())
    return np.array(found)


@pytest.mark.sample(default=2, seconds=2, reason="many problems, solved and proved")
@pytest.mark.parametrize(("transitions", "every", "tick"), [(STAY, 1, 0), (STAY, 3, 0), (TURNS, 1, 1), (TURNS, 2, 4)])
def test_with_independent_readings_it_is_the_exact_filter(transitions, every, tick):
    """Belief and value agree with the sum over all paths, missing readings and turns of the matrices included."""
    family = bits([0.7, 0.3])
    Y = [0.3, 1.4, GAP, -0.2, 0.9, 2.0, 1.1, GAP, 0.2]
    found, rows = beliefs_along(Estimator(family, transitions, every), Y, tick)
    exact = enumerated(family, transitions, every, Y, tick)
    assert np.allclose(found, exact, rtol=0.0, atol=1e-13)
    assert rows == exact.argmax(axis=1).tolist()


def test_three_values_too():
    """The same with three values, two of which are hard to tell apart."""
    family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0.0, 0.4, 3.0], prior=[0.5, 0.2, 0.3])
    chain = [[0.8, 0.1, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]]
    Y = [0.2, 2.4, 0.1, 0.4, 3.3]
    found, _ = beliefs_along(Estimator(family, chain), Y)
    assert np.allclose(found, enumerated(family, chain, 1, Y, 0), rtol=0.0, atol=1e-13)


def families():
    rng = np.random.default_rng(3)
    wide = random_system(rng, 2, 2)
    laws = [us.Gaussian(0.0, 1.0), us.Gaussian(2.0, 0.5)]

    def hidden(v):
        return us.HiddenMarkov([[0.8 - 0.5 * v, 0.2 + 0.5 * v], [0.4, 0.6]], [0.5, 0.5], laws)

    def chain(v):
        return us.Markov(
            us.Gaussian(v, 1.0),
            lambda y: us.Gaussian(0.5 * y + v, 1.0),
            gap=lambda y, n: us.Gaussian(v + (0.0 if y is None else 0.5**n * y), 1.3),
        )

    return {
        "scalar": (us.Family(room, [0, 1]), True),
        "start by value": (us.Family(lambda v: room(v, mean0=2.0 * v, cov0=0.1 + v), [0, 1]), True),
        "per step": (us.Family(lambda v: room(v, b=[0.6 * v + 0.1 * k for k in range(40)]), [0, 1]), True),
        "two channels": (us.Family(lambda v: us.GaussMarkov(**{**wide, "b": wide["b"] + 2.0 * v}), [0, 1]), True),
        "noise": (us.Family(lambda v: room(0, R=0.2 + v), [0, 1, 2]), True),
        "hidden": (us.Family(hidden, [0, 1]), True),
        "regression": (
            us.Family(lambda v: us.AutoRegressive([0.5], noise=us.Gaussian(v, 1.0), past=[0.0]), [0, 1]),
            True,
        ),
        "chain": (us.Family(chain, [0, 1]), False),
        "sensor": (us.Family(lambda v: us.Quantised(room(v), step=0.1), [0, 1]), False),
    }


@pytest.mark.parametrize("name", list(families()))
def test_every_family_is_filtered_with_the_likelihoods_of_whole_paths(name):
    """p(y_k given the past) under value i is a ratio of likelihoods, along the path that was taken and then i."""
    family, gaps = families()[name]
    m = len(family.values)
    chain = np.full((m, m), 0.1) + (1.0 - 0.1 * m) * np.eye(m)
    path = [family.values[i] for i in ([0] * 5 + [1] * 7)]
    Y = us.sample(family.along(path), len(path), rng=5)
    if gaps:
        Y = Y.copy()
        Y[[2, 7, 8]] = np.nan
    estimator = Estimator(family, chain, 3)
    found, rows = beliefs_along(estimator, Y)
    b = family.prior
    for k in range(len(Y)):
        if k and k % 3 == 0:
            b = b @ chain
        if not np.isnan(Y[k]).any():
            before = [family.values[i] for i in rows[:k]]
            logs = np.array([us.loglik(Y[: k + 1], family.along([*before, v])) for v in family.values])
            b = b * np.exp(logs - logs.max())
            b = b / b.sum()
        assert found[k] == pytest.approx(b, abs=1e-9), k
        assert rows[k] == int(np.argmax(found[k]))


def test_the_scalar_filter_against_one_big_gaussian():
    """The same once more with densities from the covariance of all readings, which knows no recursion."""
    family = us.Family(room, [0, 1])
    Y = us.sample(family.along([0, 0, 1, 1, 1, 0]), 6, rng=2)
    found, rows = beliefs_along(Estimator(family, STAY), Y)
    b = family.prior
    for k in range(6):
        b = b @ STAY if k else b
        logs = []
        for i in (0, 1):
            drift = [0.6 * r for r in (*rows[:k], i)]
            system = {"A": 0.9, "C": 1.0, "Q": 0.3, "R": 0.2, "b": drift, "mean0": 1.0, "cov0": 0.5}
            logs.append(dense_scores(Y[: k + 1, None], *dense(system, k + 1))[1])
        b = b * np.exp(np.array(logs) - max(logs))
        b = b / b.sum()
        assert found[k] == pytest.approx(b, abs=1e-11)


def test_the_reading_of_a_score_is_that_of_the_path():
    """`value` undoes whitening along the path that was taken so far."""
    family = us.Family(room, [0, 1])
    Y = us.sample(family.along([0, 1, 1, 0, 1]), 5, rng=4)
    estimator = Estimator(family, STAY)
    _, rows = beliefs_along(estimator, Y)
    z = us.whiten(Y, family.along([family.values[i] for i in rows]))
    state = estimator.start()
    for k, row in enumerate(rows):
        assert estimator.value(state, row, z[k]) == pytest.approx(Y[k], abs=1e-12)
        state, _ = estimator.step(state, Y[k])


def calibration(filter_with):
    """z-value of (wrong guesses - what the belief says they are), over many sequences from the family of bits."""
    rng = np.random.default_rng(9)
    chain = np.array([[0.9, 0.1], [0.1, 0.9]])
    differences = []
    for _ in range(400):
        theta = [int(rng.random() < 0.5)]
        while len(theta) < 20:
            theta.append(theta[-1] if rng.random() < 0.9 else 1 - theta[-1])
        Y = np.array(theta) + rng.standard_normal(20)
        found, rows = beliefs_along(Estimator(filter_with, chain), Y)
        differences.append(float(rows[-1] != theta[-1]) - (1.0 - found[-1].max()))
    return np.mean(differences) / (np.std(differences) / math.sqrt(len(differences)))


def test_it_is_wrong_as_often_as_it_says():
    """Calibrated at a false-alarm rate of 1e-6; a filter that takes readings for more telling than they are is not."""
    limit = stats.norm.isf(ALPHA / 2)
    assert abs(calibration(bits())) < limit
    sure = us.Family(lambda v: us.IID(us.Gaussian(float(v), 0.2)), [0, 1])
    assert abs(calibration(sure)) > limit


# --- states and steps -------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-50.0, 50.0)), min_size=1, max_size=25), st.integers(1, 4))
def test_a_belief_stays_a_belief(Y, every):
    """It sums to one, the value is its largest entry, and a stored state goes on to the same bits."""
    estimator = Estimator(us.Family(room, [0, 1, 3]), np.full((3, 3), 1.0 / 3.0), every)
    state = estimator.start()
    for y in Y:
        stored = load(dump(state))
        assert stored == state
        assert type(stored) is EstimatorState
        again, _ = estimator.step(stored, y)
        state, row = estimator.step(state, y)
        assert again == state
        b = estimator.belief(state)
        assert math.fsum(b) == pytest.approx(1.0, abs=1e-12)
        assert b[row] == max(b)
        assert state.row == row


@pytest.mark.parametrize("name", ["two channels", "hidden", "sensor", "chain"])
def test_states_of_all_kinds_can_be_stored(name):
    """Vectors, probabilities, cells: what comes back goes on to the same belief."""
    family, _ = families()[name]
    estimator = Estimator(family, STAY, 2)
    Y = us.sample(family.model(0), 6, rng=1)
    state = estimator.start()
    for y in Y:
        back = load(dump(state))
        again, _ = estimator.step(back, y)
        state, _ = estimator.step(state, y)
        assert again.belief == state.belief


def test_decisions_come_from_the_count_or_from_the_caller():
    """`moved` says how many decisions have begun; by default one begins every `decision_every` readings."""
    estimator = Estimator(bits(), TURNS, 2)
    counted = told = estimator.start(1)
    for k, y in enumerate([0.2, 0.4, 1.3, 0.9, 1.0]):
        counted, _ = estimator.step(counted, y)
        told, _ = estimator.step(told, y, moved=k in (2, 4))
        assert counted == told
    before, _ = estimator.step(estimator.start(1), 0.2)
    twice, _ = estimator.step(before, None, 2)
    b = np.array(estimator.belief(before)) @ np.array(TURNS[1]) @ np.array(TURNS[0])
    assert estimator.belief(twice) == pytest.approx(b, abs=1e-14)
    assert twice.decision == 3
    assert estimator.log_prior(before, 2) == twice.belief


def test_a_gap_of_a_million_decisions_is_quick():
    """The belief settles, and then only the turn of the matrices counts."""
    estimator = Estimator(bits(), TURNS)
    state, _ = estimator.step(estimator.start(), 5.0)
    for moves in (1_000_000, 1_000_001):
        far, _ = estimator.step(state, None, moves)
        few, _ = estimator.step(state, None, moves % 2 + 400)
        assert far.belief == pytest.approx(few.belief, abs=1e-12)
        assert far.decision == moves


def stepped(estimator, belief, decision, moves):
    """The belief moved one decision at a time, in exact logarithms of sums over all values."""
    T = estimator.transitions
    for k in range(moves):
        with np.errstate(divide="ignore"):
            logs = np.log(T[(decision + k) % len(T)])
        belief = np.logaddexp.reduce(np.array(belief)[:, None] + logs, axis=0)
    return belief


@pytest.mark.parametrize("moves", [64, 65, 66, 199, 200, 1001])
@pytest.mark.parametrize("tick", [0, 1, 2])
def test_a_long_gap_is_many_steps(moves, tick):
    """The power of a whole turn is what its steps make of the belief, from any place of the turn on."""
    turns = [[[0.999, 0.001], [0.0004, 0.9996]], [[1.0, 0.0], [0.01, 0.99]], [[0.2, 0.8], [0.0, 1.0]]]
    estimator = Estimator(bits([0.3, 0.7]), turns)
    state, _ = estimator.step(estimator.start(tick), 0.4)
    far, _ = estimator.step(state, None, moves)
    assert far.belief == pytest.approx(stepped(estimator, state.belief, state.decision, moves), rel=1e-11, abs=1e-13)
    assert estimator.log_prior(state, moves) == far.belief


def test_a_gap_of_years_takes_few_calls_whatever_the_chain():
    """A thousand million decisions cost hardly more calls than a thousand, for chains that settle slowly or never.

    Gone through one by one they would take an hour.
    """
    rng = np.random.default_rng(4)
    family = us.Family(lambda v: us.IID(us.Gaussian(float(v), 1.0)), values=list(range(20)))
    for chain in (
        np.eye(20) * (1.0 - 1e-9) + 1e-9 * rng.dirichlet(np.ones(20), 20), np.roll(np.eye(20), 1, axis=1),
        rng.dirichlet(np.full(20, 0.1), 20),
    ):  # fmt: skip
        estimator = Estimator(family, chain)
        state, _ = estimator.step(estimator.start(), 7.3)
        far, _ = estimator.step(state, None, 10**9)
        near, late = (count_calls(lambda n=n: estimator.step(state, None, n)) for n in (10**3, 10**9))  # noqa: B023  # at once
        assert late < 4 * near < 10_000
        assert math.fsum(estimator.belief(far)) == pytest.approx(1.0, abs=1e-9)
        wanted = np.array(estimator.belief(state)) @ _power(estimator.transitions[0], 10**9)
        assert estimator.belief(far) == pytest.approx(wanted, abs=1e-7)


def test_a_long_gap_loses_nothing_that_can_occur():
    """What is as unlikely as 2^-5000 after a gap is not impossible; a power of plain numbers would say so."""
    leaves = [[0.5, 0.5], [0.0, 1.0]]
    estimator = Estimator(bits(), leaves)
    state, _ = estimator.step(estimator.start(), 0.5)
    far, _ = estimator.step(state, None, 5000)
    assert far.belief[0] == pytest.approx(math.log(0.5) * 5001, rel=1e-12)
    assert _power(np.array(leaves), 5000)[0, 0] == 0.0
    still, _ = Estimator(bits([1.0, 0.0]), np.eye(2)).step(EstimatorState((0.0, -math.inf), 1, 0, 0, None), None, 10**9)
    assert still.belief == (0.0, -math.inf)


def test_what_is_unlikely_is_never_lost():
    """With transitions that never move, ten thousand readings against a value do not rule it out for ever."""
    estimator = Estimator(bits(), np.eye(2))
    state = estimator.start()
    for _ in range(10_000):
        state, row = estimator.step(state, -0.5)
    assert row == 0
    assert state.belief[1] == pytest.approx(-10_000.0, rel=1e-9)
    for _ in range(10_001):
        state, row = estimator.step(state, 1.5)
    assert row == 1


def test_a_value_that_is_held_changes_at_decisions_only():
    """The belief is the same either way; the value is that of the first reading of a decision."""
    Y = [0.1, 3.0, 3.0, 2.0, -3.0, -3.0]
    hold, free = Estimator(bits(), STAY, 3, hold=True), Estimator(bits(), STAY, 3)
    held, rows = beliefs_along(hold, Y)
    moving, each = beliefs_along(free, Y)
    assert np.array_equal(held, moving)
    assert rows == [0, 0, 0, 1, 1, 1]
    assert each == [0, 1, 1, 1, 0, 0]
    assert hold.rows(Y) == rows


def test_readings_that_are_missing():
    """None, NaN and vectors with a channel missing leave the belief as it is; the models move on."""
    estimator = Estimator(us.Family(room, [0, 1]), np.eye(2))
    state, _ = estimator.step(estimator.start(), 1.7)
    for gone in (None, math.nan, np.array([math.nan])):
        after, row = estimator.step(state, gone)
        assert after.belief == state.belief
        assert after.predictor != state.predictor
        assert row == state.row
    family, _ = families()["two channels"]
    wide = Estimator(family, np.eye(2))
    state, _ = wide.step(wide.start(), np.array([0.1, 0.2]))
    after, _ = wide.step(state, np.array([0.1, math.nan]))
    assert after.belief == state.belief


def test_a_value_without_odds_is_never_taken():
    """A prior of zero and transitions that do not lead there keep a value out, whatever is read."""
    estimator = Estimator(bits([1.0, 0.0]), np.eye(2))
    assert estimator.rows([1.0, 50.0, 3.0]) == [0, 0, 0]


def test_a_reading_is_refused_without_being_shown():
    """Infinite readings, those without a density, and those of another shape: the message has no value."""
    estimator = Estimator(bits(), STAY)
    with pytest.raises(ReadingError, match="reading 0 is infinite"):
        estimator.step(estimator.start(), math.inf)
    with pytest.raises(ReadingError, match="has no density") as caught:
        estimator.step(estimator.start(), 7.3e200)
    assert "7.3" not in str(caught.value)
    with pytest.raises(ReadingError, match="shape"):
        estimator.step(estimator.start(), [1.0, 2.0])
    family, _ = families()["two channels"]
    wide = Estimator(family, STAY)
    with pytest.raises(ReadingError, match="infinite"):
        wide.step(wide.start(), [math.inf, 1.0])


def test_what_cannot_be_filtered_is_refused():
    """A family whose members do not follow each other, and choices that break a rule."""
    mixed = us.Family({0: room(0), 1: us.IID(us.Gaussian(0.0, 1.0))})
    with pytest.raises(FamilyError, match="members of a path"):
        Estimator(mixed, STAY)
    with pytest.raises(DesignError, match="decision_every"):
        Estimator(bits(), STAY, 0)
    with pytest.raises(DesignError, match="transition"):
        Estimator(bits(), [[1.0]])
    with pytest.raises(DesignError, match="family"):
        Estimator(room, STAY)


def test_nothing_secret_is_shown_and_nothing_changes():
    """Reprs tell counts; the filter is a value, which survives a copy."""
    family = us.Family({0: room(0), 1: room(1)})
    estimator = Estimator(family, STAY, 2, hold=True)
    state, _ = estimator.step(estimator.start(), 1.2345)
    assert repr(state) == "EstimatorState(readings=1)"
    assert repr(estimator) == "Estimator(2 values, decision_every=2)"
    with pytest.raises(AttributeError):
        estimator.hold = False
    again = pickle.loads(pickle.dumps(estimator))  # noqa: S301  # our own
    assert again.step(again.start(), 1.2345)[0] == state
