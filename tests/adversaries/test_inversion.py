"""The recursion run backwards: everything comes out where theta was estimated, nothing where it was known.

Given the pseudo paths, wrong guesses of the last theta are independent, each with a probability that the theorem bounds
from below; so their number is judged by the law of such a sum, at a false-alarm rate of 1e-6.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from causal_cases import bits
from scipy import stats

import understudy as us
from understudy.adversaries.learners.inversion import recover_readings
from understudy.errors import ConfigurationError
from understudy.randomizer.causal_guarantee import posteriors
from understudy.randomizer.estimation import Estimator

ALPHA = 1e-6
COMES_AND_GOES = [[0.95, 0.05], [0.1, 0.9]]


def office(apart, prior=(0.9, 0.1)):
    """CO2 of a room that rests at 400, and at 10 * apart more with people in it."""

    def room(people):
        return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=4.0, b=40.0 + apart * people, mean0=400.0, cov0=20.0)

    return us.Family(room, values=[0, 1], prior=list(prior))


def designed(family, every, rate, chain=COMES_AND_GOES):
    return us.design_causal(family, chain, rate=rate, decision_every=every, distortion=[[0, 1], [1, 0]])


class Case(NamedTuple):
    """A sequence at the edge: what happened, what was taken for it, and what was released."""

    theta: np.ndarray
    Y: np.ndarray
    rows: np.ndarray
    pseudo: list
    out: np.ndarray
    least: float  # how often a guess of the last theta errs at least, given the pseudo path and the theorem


def play(design, decisions, rng, *, hold, estimated, gaps=False):
    """One sequence, with theta known or estimated from its readings."""
    family, every, chain = design.family, design.decision_every, design.beliefs.transitions[0]
    path = [int(rng.choice(len(family.values), p=family.prior))]
    while len(path) < decisions:
        path.append(int(rng.choice(len(family.values), p=chain[path[-1]])))
    theta = np.repeat(path, every)
    Y = us.sample(family.along([family.values[i] for i in theta]), len(theta), rng=rng)
    if gaps:
        Y[rng.random(len(Y)) < 0.1] = np.nan
    rows = np.array(Estimator(family, chain, every, hold=hold).rows(Y)) if estimated else theta
    state, pseudo, likelihoods = design.start(), [], []
    for k in range(decisions):
        kernel = design.kernel(state.belief)
        state, j, _ = design.draw(state, family.values[rows[k * every]], rng)
        pseudo.append(design.pseudo[j])
        likelihoods.append(kernel[:, j])
    seen = posteriors(np.array(likelihoods)[:, None, :], family.prior, design.beliefs.transitions)
    source = family.along([family.values[i] for i in rows])
    out = us.disguise(Y, source, family.along(np.repeat(pseudo, every).tolist()))
    return Case(theta, Y, rows, pseudo, out, float(1.0 - seen.filtering[-1, 0].max()))


def attacked(design, decisions, count, seed, *, hold, estimated, gaps=False, beam=32):
    rng = np.random.default_rng(seed)
    cases = [play(design, decisions, rng, hold=hold, estimated=estimated, gaps=gaps) for _ in range(count)]
    return [(case, recover_readings(design, case.out, case.pseudo, hold=hold, beam=beam)) for case in cases]


def wrong(found):
    """Wrong guesses of the last theta, how many the theorem expects at least, and how many chance lets there be."""
    count = sum(int(inversion.guess[-1] != case.theta[-1]) for case, inversion in found)
    law = np.ones(1)
    for case, _ in found:
        law = np.convolve(law, [1.0 - case.least, case.least])
    return count, math.fsum(case.least for case, _ in found), int(np.searchsorted(np.cumsum(law), ALPHA))


def recovered(case, inversion):
    return np.array_equal(np.isnan(case.Y), np.isnan(inversion.readings)) and bool(
        np.nanmax(np.abs(inversion.readings - case.Y)) < 1e-9
    )


# --- the bad case and its twin ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def design():
    """0.02 nats a decision, one decision for 30 readings, values that no single reading tells apart."""
    return designed(office(2.0), 30, 0.02)


@pytest.fixture(scope="module")
def estimated(design):
    return attacked(design, 6, 100, 1, hold=True, estimated=True)


@pytest.fixture(scope="module")
def known(design):
    return attacked(design, 6, 100, 1, hold=True, estimated=False)


def test_everything_is_recovered_where_theta_was_estimated(estimated):
    """Raw readings to 1e-9 and the whole estimated path, in at least 97 of 100 sequences."""
    full = [recovered(case, found) and np.array_equal(found.rows, case.rows) for case, found in estimated]
    assert np.mean(full) >= 0.97
    assert np.mean([found.contradictions for _, found in estimated]) == 0.0


def test_guesses_are_far_better_than_the_budget_promised(estimated):
    """The theorem would have 25 percent of the last values guessed wrong; it is as few as from raw readings."""
    count, promised, least = wrong(estimated)
    assert promised > 0.2 * len(estimated)
    assert count < least  # so the bound is broken, at a false-alarm rate of 1e-6
    raw = sum(Estimator(office(2.0), COMES_AND_GOES, 30).rows(case.Y)[-1] != case.theta[-1] for case, _ in estimated)
    assert abs(count - raw) <= 3


def test_the_same_attack_gets_nothing_where_theta_was_known(known):
    """The twin: same readings, same coins, theta from outside. Wrong guesses are as many as the theorem says."""
    count, promised, least = wrong(known)
    assert promised > 0.2 * len(known)
    assert count >= least


def test_where_nothing_may_be_told_it_is_at_chance():
    """At a rate of zero and even odds guesses are those of a coin (two-sided, 1e-6), and those of the twin are not."""
    even = designed(office(2.0, (0.5, 0.5)), 30, 0.0, [[0.95, 0.05], [0.05, 0.95]])
    count, promised, _ = wrong(attacked(even, 4, 80, 3, hold=True, estimated=False))
    assert promised == pytest.approx(40.0)
    assert stats.binomtest(count, 80, 0.5).pvalue > ALPHA
    count, _, _ = wrong(attacked(even, 4, 80, 3, hold=True, estimated=True))
    assert stats.binomtest(count, 80, 0.5).pvalue < ALPHA


@pytest.mark.long(seconds=4, reason="inverts readings one by one")
def test_a_value_renewed_at_every_reading_does_not_save_it():
    """As streams do it: paths fork where the estimate changes, not all is recovered, the promise is broken still."""
    family = us.Family(lambda v: us.IID(us.Gaussian(0.5 * v, 1.0)), [0, 1], [0.9, 0.1])
    every = designed(family, 40, 0.0, [[0.9, 0.1], [0.1, 0.9]])
    found = attacked(every, 5, 80, 5, hold=False, estimated=True)
    count, promised, least = wrong(found)
    assert promised > 0.25 * len(found)
    assert count < least
    share = np.mean([np.mean(np.abs(inversion.readings - case.Y) < 1e-9) for case, inversion in found])
    assert 0.8 < share < 1.0


# --- where it does not work -------------------------------------------------------------------------------------------


@pytest.mark.long(seconds=1, reason="an attack on many sequences")
def test_values_far_apart_leave_the_attack_with_nothing():
    """One reading settles which value it is: the path is right, each candidate agrees with itself, the bound holds.

    If the path differs with probability eps, no guess errs less than e - eps.
    """
    apart = designed(office(40.0), 2, 0.05)
    found = attacked(apart, 8, 80, 7, hold=False, estimated=True, beam=16)
    differs = sum(not np.array_equal(case.rows, case.theta) for case, _ in found)
    assert differs <= 1
    count, promised, least = wrong(found)
    assert promised > 0.15 * len(found)
    assert count >= least - differs
    assert np.mean([inversion.forks for _, inversion in found]) > 7.0  # at nearly all of 8 decisions


def test_where_the_paths_agree_nothing_can_be_told_apart():
    """The proof of e - eps: with the same readings and coins, draws and outputs are the same wherever the paths are."""
    made, agree = designed(office(12.0), 3, 0.1), 0
    for seed in range(40):
        one, other = (
            play(made, 5, np.random.default_rng(seed), hold=False, estimated=estimated) for estimated in (True, False)
        )
        assert np.array_equal(one.Y, other.Y)
        same = np.array_equal(one.rows, other.rows)
        assert same == np.array_equal(one.out, other.out)
        assert one.pseudo == other.pseudo or not same
        agree += same
    assert 10 < agree < 40


def test_a_theta_that_was_not_estimated_is_noticed():
    """Where draws and candidates rule every value out, it is counted as a contradiction and the attack goes on."""
    told = us.design_causal(bits(), [[0.6, 0.4], [0.4, 0.6]], slope=math.inf, distortion=[[0, 1], [1, 0]])
    case = play(told, 30, np.random.default_rng(2), hold=False, estimated=False)
    found = recover_readings(told, case.out, case.pseudo)
    assert found.contradictions > 0
    assert np.array_equal(found.rows, case.theta)  # the draws tell everything here
    assert recover_readings(told, case.out[:1], case.pseudo[:1]).contradictions <= 1


# --- the other bad case: what a wrong value leaves in the scores ------------------------------------------------------


def _scores_after_a_change(estimated):
    """Mean score over the 30 readings after people came, over many sequences, and how far off it is in its own sd."""
    family, rng, sums = office(2.0), np.random.default_rng(11), []
    theta = [0] * 60 + [1] * 30
    for _ in range(40):
        Y = us.sample(family.along(theta), 90, rng=rng)
        rows = Estimator(family, COMES_AND_GOES, 30, hold=True).rows(Y) if estimated else theta
        out = us.disguise(Y, family.along(rows), family.along([0] * 90))
        sums.append(us.whiten(out, family.along([0] * 90))[60:].sum())
    return np.mean(sums) / 30.0, np.mean(sums) * math.sqrt(40.0 / 30.0)


def test_whitening_under_a_wrong_value_leaves_theta_in_the_scores():
    """Scores stand at the distance of the two values until the estimate follows; with theta known, at zero (1e-6)."""
    level, off = _scores_after_a_change(estimated=True)
    assert level > 0.4
    assert off > stats.norm.isf(ALPHA)
    level, off = _scores_after_a_change(estimated=False)
    assert abs(off) < stats.norm.isf(ALPHA / 2)


# --- against enumeration ----------------------------------------------------------------------------------------------


def _density(Y, family, chain):
    """Density of readings under the chain, up to a factor, by adding up all paths of theta."""
    total = 0.0
    for path in itertools.product(range(len(family.values)), repeat=len(Y)):
        p = family.prior[path[0]] * math.prod(chain[a][b] for a, b in itertools.pairwise(path))
        total += p * math.prod(math.exp(-0.5 * (y - family.values[i]) ** 2) for y, i in zip(Y, path, strict=True))
    return total


@pytest.mark.parametrize("seed", range(8))
def test_it_weighs_every_path_that_explains_the_output(seed):
    """All paths are tried: those that the estimator finds again, weighed by density and draws, are what it keeps."""
    family, chain = bits([0.6, 0.4]), [[0.8, 0.2], [0.3, 0.7]]
    made = designed(family, 1, 0.1, chain)
    case = play(made, 5, np.random.default_rng(seed), hold=False, estimated=True)
    z = us.whiten(case.out, family.along(case.pseudo))
    drawn, state = [], made.start()
    for value in case.pseudo:
        kernel = made.kernel(state.belief)
        drawn.append(kernel[:, value])
        state = made.beliefs.after(state, kernel, value)
    weights = {}
    for path in itertools.product((0, 1), repeat=5):
        Y = us.colour(z, family.along(path))
        if tuple(Estimator(family, chain).rows(Y)) == path:
            weights[path] = _density(Y, family, chain) * math.prod(drawn[k][i] for k, i in enumerate(path))
    assert tuple(case.rows.tolist()) in weights
    found = recover_readings(made, case.out, case.pseudo, beam=1000)
    best = max(weights, key=weights.__getitem__)
    assert tuple(found.rows.tolist()) == best
    assert found.share == pytest.approx(weights[best] / sum(weights.values()), rel=1e-9)


# --- readings and refusals --------------------------------------------------------------------------------------------


@pytest.mark.long(seconds=2, reason="inverts readings one by one")
def test_missing_readings_and_several_channels():
    """Gaps stay gaps, and the rest is recovered; so are readings of two channels and of three values."""
    found = attacked(designed(office(2.0), 30, 0.02), 6, 8, 4, hold=True, estimated=True, gaps=True)
    assert np.mean([recovered(case, inversion) for case, inversion in found]) > 0.9

    def pair(v):
        return us.GaussMarkov(
            [[0.9, 0.1], [0.0, 0.8]], np.eye(2), np.eye(2), [[1.0, 0.3], [0.3, 1.0]], b=[0.4 * v, 0.2 * v]
        )

    family = us.Family(lambda v: pair(v), values=[0, 1, 2], prior=[0.8, 0.1, 0.1])
    chain = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    made = us.design_causal(family, chain, rate=0.02, decision_every=40, distortion=1.0 - np.eye(3))
    found = attacked(made, 3, 8, 4, hold=True, estimated=True)
    assert np.mean([recovered(case, inversion) for case, inversion in found]) > 0.7
    assert found[0][1].belief.shape == (120, 3)


def test_nothing_secret_is_shown_and_nothing_changes(estimated):
    """The result is read-only and its repr tells counts."""
    _, found = estimated[0]
    assert repr(found) == f"Inversion(180 readings, {found.forks} forks, 0 contradictions)"
    assert not any(array.flags.writeable for array in (found.rows, found.readings, found.belief))
    assert 0.0 < found.share <= 1.0
    assert np.allclose(found.belief.sum(axis=1), 1.0)


def test_a_column_is_as_good_as_a_list(design, estimated):
    """(T, 1) in, (T, 1) out, and the same readings."""
    case, found = estimated[0]
    column = recover_readings(design, case.out[:, None], case.pseudo, hold=True)
    assert np.array_equal(column.readings[:, 0], found.readings)
    assert np.array_equal(column.rows, found.rows)


def test_what_cannot_be_attacked_is_refused(design):
    """Paths of another length, values that are not played, readings with atoms."""
    out = np.full(60, 400.0)
    with pytest.raises(ConfigurationError, match="3 decisions"):
        recover_readings(design, out, [0, 0, 0])
    with pytest.raises(ConfigurationError, match="none of the pseudo values"):
        recover_readings(design, out, [0, 0.5])
    with pytest.raises(ConfigurationError, match="one sequence"):
        recover_readings(design, np.full((60, 1, 2), 400.0), [0, 0])
    with pytest.raises(ConfigurationError, match="beam"):
        recover_readings(design, out, [0, 0], beam=0)
    atoms = us.Family(lambda v: us.IID(us.Atoms([0.0, 1.0], [0.5 + 0.2 * v, 0.5 - 0.2 * v])), values=[0, 1])
    with pytest.raises(ConfigurationError, match="atoms"):
        recover_readings(designed(atoms, 1, 0.1), [0.0, 1.0], [0, 1])
