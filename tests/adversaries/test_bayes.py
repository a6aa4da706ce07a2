"""Exact Bayes against enumeration and against the exact bound; and the one who sees the pseudo values."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from adversary_cases import ALPHA, disguised, guesses, halves, known_of, once
from causal_cases import STAY
from helpers import dense, room
from memory_cases import errors

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Exact, Oracle
from understudy.randomizer.causal import design_causal
from understudy.randomizer.causal_guarantee import play, posteriors
from understudy.randomizer.measures import bayes_error

BOUND = 0.133586  # of the paper's room at 0.3 nats


def paper_design():
    family = us.Family(room, [0, 1])
    return us.design(family, [0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")


@pytest.fixture(scope="module")
def paper():
    design = paper_design()
    return design, disguised(design, 50, 40_000, np.random.default_rng(1))


def test_exact_bayes_reaches_the_exact_bound_and_does_not_beat_it(paper):
    """The paper's room at 0.3 nats, 20,000 sequences judged: the bound is within the 99 percent limits of its error."""
    design, cases = paper
    assert bayes_error(design.prior, design.randomizer.kernel) == pytest.approx(BOUND, abs=1e-6)
    right, N = guesses(Exact(), cases, known_of(design))
    low, high = scipy.stats.binomtest(N - right, N).proportion_ci(0.99)
    assert low <= BOUND <= high
    assert scipy.stats.binom.cdf(N - right, N, BOUND) > ALPHA


def test_the_same_check_catches_outputs_that_are_not_disguised(paper):
    """On raw readings exact Bayes is nearly never wrong, far below the bound."""
    design, _ = paper
    cases = disguised(design, 50, 2000, np.random.default_rng(2), way=lambda Y, i, j, rng: Y)
    raw = known_of(design, pseudo=design.values, kernel=np.eye(2), raw=True)
    right, N = guesses(Exact(), cases, raw)
    assert scipy.stats.binom.cdf(N - right, N, BOUND) < ALPHA
    assert right == N


def test_exact_bayes_is_bayes_rule_with_the_joint_normal_density():
    """Against a dense joint normal law and the sum over draws, with readings missing, to 1e-9."""
    design = paper_design()
    known = known_of(design)
    cases = disguised(design, 6, 40, np.random.default_rng(3))
    outputs = cases.outputs + np.random.default_rng(4).normal(
        0.0, 2.0, cases.outputs.shape
    )  # so that odds are not sure
    outputs[2, :, ::3] = np.nan
    outputs[4:, :, 1] = np.nan
    found = np.exp(Exact().learn(cases, known, np.random.default_rng(0)).logits(once(outputs, cases.labels[0], 2)))
    for s in range(40):
        there = ~np.isnan(outputs[:, 0, s])
        likelihoods = []
        for value in design.pseudo:
            mean, cov = dense({**room(value).arguments, "b": room(value).b, "d": room(value).d}, 6)
            law = scipy.stats.multivariate_normal(mean[there], cov[np.ix_(there, there)])
            likelihoods.append(law.logpdf(outputs[there, 0, s]))
        L = np.exp(np.array(likelihoods) - max(likelihoods))
        posterior = design.prior * (design.randomizer.kernel @ L)
        np.testing.assert_allclose(found[:, s], np.maximum(posterior / posterior.sum(), 1e-6), rtol=1e-5)


def test_a_sequence_without_readings_leaves_the_prior():
    """Nothing seen, nothing learned."""
    design = us.design(us.Family(room, [0, 1], prior=[0.7, 0.3]), leakage=0.1, horizon=5)
    cases = disguised(design, 5, 10, np.random.default_rng(3))
    empty = once(np.full((5, 1, 2), np.nan), np.zeros(2, dtype=int), 2)
    found = Exact().learn(cases, known_of(design), np.random.default_rng(0)).logits(empty)
    np.testing.assert_allclose(np.exp(found), [[0.7, 0.7], [0.3, 0.3]])


def test_models_that_are_right_are_believed_and_wrong_ones_are_not():
    """The temperature is 1 for outputs of the design, and well below where noise was said to be too small."""
    design = us.design(us.Family(lambda v: room(0.02 * v), [0, 1]), leakage=0.5, horizon=20)
    learn, _ = halves(disguised(design, 20, 8000, np.random.default_rng(5)))
    rng = np.random.default_rng(0)
    assert Exact().learn(learn, known_of(design), rng).temperature == 1.0
    sure = us.Family(lambda v: room(0.02 * v, Q=0.01, R=0.01), [0, 1])
    assert Exact().learn(learn, known_of(design, family=sure), rng).temperature < 0.5


def test_exact_bayes_leaves_a_theta_that_moves_to_others():
    """And says so."""
    cases = Cases(np.zeros((3, 1, 1)), np.zeros((3, 1), dtype=int), np.zeros((3, 1), dtype=int), 2, once=False)
    assert "smoother" in Exact().objection(cases, known_of(paper_design()))


def test_who_sees_the_draw_has_the_exact_bound(paper):
    """By enumeration: the mean over draws of the chance to be wrong is 1 - sum_j max_i p_i P_ij."""
    design, cases = paper
    n = len(design.pseudo)
    every = Cases(
        np.zeros((1, 1, n)), np.zeros((1, n), dtype=int), np.arange(n)[None], 2, True, pseudo=np.arange(n)[None]
    )
    logits = Oracle().learn(cases, known_of(design), np.random.default_rng(0)).logits(every)
    wrong = 1.0 - np.exp(logits).max(axis=0)
    assert float(design.prior @ design.randomizer.kernel @ wrong) == pytest.approx(BOUND, abs=2e-6)
    assert Oracle().objection(cases.without_pseudo(), known_of(design)) == "the pseudo values are not known here"


def causal(every, seed, decisions=60, sequences=20, slope=1.5):
    """A causal design, what is known of it, and cases in which nothing but the draws is there to be seen."""
    family = us.Family(room, [0, 1])
    design = design_causal(
        family, STAY, [0, 0.5, 1], slope=slope, distortion=[[0, 0.4, 1], [1, 0.4, 0]], decision_every=every
    )
    played = play(design.beliefs, decisions, sequences, rng=seed)
    theta, drawn = (x.repeat(every, axis=0) for x in (played.theta, played.pseudo))
    known = Knowledge(family, design.pseudo, np.full((2, 3), 1 / 3), family.prior, np.array(STAY), every, None, design)
    blocks = np.tile(np.arange(sequences), (len(theta), 1))
    return design, known, Cases(np.zeros((len(theta), 1, sequences)), theta, blocks, 2, False, pseudo=drawn), played


@pytest.mark.parametrize("every", [1, 4])
def test_who_sees_the_draws_of_a_causal_design_smooths_them_exactly(every):
    """Against forward and backward with the kernels of the simulation; theta moves with the decisions."""
    design, known, cases, played = causal(every, 1)
    attack = Oracle().learn(cases, known, np.random.default_rng(0))
    if every == 1:
        chain = attack.rule.chain._replace(moves=np.array([STAY]), initial=known.prior)
        attack = replace(attack, rule=attack.rule._replace(chain=chain))
    exact = posteriors(played.likelihoods, design.beliefs.prior, design.beliefs.transitions).smoothing
    found = np.exp(attack.logits(cases))
    np.testing.assert_allclose(found, exact.transpose(2, 0, 1).repeat(every, axis=1), atol=1e-5)


def test_who_sees_the_draws_of_a_causal_design_has_its_bound():
    """What 400 paths of draws leave in doubt, and its errors, are those of the exact smoothing adversary of the design.

    To 4.9 standard errors (1e-6); by the same measure it is not the filtering adversary.
    """
    design, known, cases, _ = causal(1, 2, decisions=100, sequences=400)
    logits = Oracle().learn(cases, known, np.random.default_rng(0)).logits(cases)
    expected = errors(design.beliefs, 100, 400, rng=3)
    doubt, wrong = (x.mean(axis=0) for x in (1.0 - np.exp(logits).max(axis=0), logits.argmax(axis=0) != cases.labels))
    for each in (doubt, wrong):
        assert abs(each.mean() - expected.smoothing) < 4.9 * np.hypot(each.std() / 20.0, expected.smoothing_error)
    assert expected.filtering - doubt.mean() > 4.9 * doubt.std() / 20.0
