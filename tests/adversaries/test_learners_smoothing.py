"""From evidence to log-probabilities: smoothing against enumeration of all paths, temperatures on held-out blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_cases import paths

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners.calibration import (
    AlongChain,
    Chain,
    Split,
    chain_of,
    held_out,
    settle_held_out,
    smooth,
)


def along(told, P, prior):
    """Probabilities (m, T, N) along a chain, from evidence for theta itself."""
    return smooth(told, None, Chain(prior, P[None]), np.zeros(told.shape[1:], dtype=int))


@pytest.mark.parametrize("m", [2, 3])
def test_smoothing_is_the_sum_over_all_paths(m):
    """Forward and backward give the posterior that enumerating every path gives."""
    rng = np.random.default_rng(m)
    T, N = 5, 3
    told, P, prior = rng.normal(size=(m, T, N)), rng.dirichlet(np.ones(m), size=m), rng.dirichlet(np.ones(m))
    expected = np.zeros((m, T, N))
    for path in itertools.product(range(m), repeat=T):
        chance = prior[path[0]] * np.prod([P[a, b] for a, b in itertools.pairwise(path)])
        weight = chance * np.exp(sum(told[i, k] for k, i in enumerate(path)))
        for k, i in enumerate(path):
            expected[i, k] += weight
    np.testing.assert_allclose(along(told, P, prior), expected / expected.sum(axis=0), rtol=1e-10)


def test_smoothing_stands_impossible_evidence():
    """Readings that contradict each other, and a theta that never moves, give numbers all the same."""
    told = np.array([[0.0, -1e6], [-1e6, 0.0]]).repeat(50, axis=1)[:, :, None]
    attack = AlongChain(np.array([1.0, 0.0]), Chain(np.array([1.0, 0.0]), np.eye(2)[None]))
    labels = np.zeros((100, 1), dtype=int)
    logits = attack.posterior(told, Cases(np.zeros((100, 1, 1)), labels, labels, 2, False), 1.0)
    assert np.isfinite(np.exp(logits)).all()
    np.testing.assert_allclose(np.exp(logits).sum(axis=0), 1.0)


def cases_of(labels):
    return Cases(np.zeros((len(labels), 1, labels.shape[1])), labels, labels * 0, 2, False)


def test_transitions_are_counted_within_sequences_and_not_across_gaps():
    """Every step that both ends are known of counts, with half a count for each."""
    labels = np.array([[0, 1], [1, -1], [1, 0], [0, 0]])
    expected = np.array([[1.5, 1.5], [1.5, 1.5]])
    found = chain_of(cases_of(labels)).moves[0]
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))


def weak(rng, n=20, strength=0.3, copies=1):
    """Evidence of log-likelihood ratios that are weak at each reading and right on the whole."""
    theta = paths(n, rng, T=200, stay=0.99)
    y = rng.normal(size=theta.shape) + strength * (2 * theta - 1)
    told = np.stack([-strength * y, strength * y])
    return theta, copies * told


def settled(told, theta, held):
    return settle_held_out(told, cases_of(theta), [Split(~held, held)])


def test_weak_evidence_of_a_slow_theta_is_smoothed():
    """What says little at each reading says much over time, at temperature 1 where readings are independent."""
    theta, told = weak(np.random.default_rng(1))
    held = np.ones_like(theta, dtype=bool)
    found = settled(told, theta, held)
    assert found.rule.chain is not None
    assert found.temperature >= 0.7
    rule = AlongChain(np.array([0.5, 0.5]), None)
    alone = np.take_along_axis(rule.posterior(told, cases_of(theta), 1.0), theta[None], axis=0)
    assert -found.loss > alone.mean() + 0.2


def test_overconfidence_is_undone():
    """Evidence that counts everything ten times is given a temperature near a tenth."""
    theta, told = weak(np.random.default_rng(2), copies=10)
    found = settled(told, theta, np.ones_like(theta, dtype=bool))
    assert found.rule.chain is not None
    assert 0.05 <= found.temperature <= 0.2


def test_what_was_learned_from_has_no_say():
    """Evidence outside of what was held out changes nothing, and labels there are not looked at."""
    rng = np.random.default_rng(3)
    theta, told = weak(rng)
    held = np.zeros_like(theta, dtype=bool)
    held[50:120, ::2] = True
    before = settled(told, theta, held)
    after = settled(np.where(held, told, 100.0 * rng.normal(size=told.shape)), theta, held)
    assert (before.temperature, before.loss) == (after.temperature, after.loss)
    np.testing.assert_array_equal(after.cases.truth, np.where(held, theta, -1))


def test_nothing_held_out_means_evidence_as_it_is():
    """Temperature one and no smoothing."""
    theta, told = weak(np.random.default_rng(4))
    found = settled(told, theta, np.zeros_like(theta, dtype=bool))
    assert found.temperature == 1.0
    assert found.rule.chain is None


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 12), st.booleans(), st.integers(0, 20), st.integers(1, 3))
def test_held_out_stretches_are_kept_apart(T, N, length, once, margin, copies):
    """Nothing is in both, unlabelled guesses are in neither, copies go together, neighbours keep their distance."""
    rng = np.random.default_rng(T + 100 * N)
    labels = rng.integers(-1, 2, size=(T, N))
    blocks = np.arange(N)[None] * 1000 + (0 * np.arange(T)[:, None] if once else np.arange(T)[:, None] // length)
    labels, blocks = np.tile(labels, (1, copies)), np.tile(blocks, (1, copies))
    cases = Cases(np.zeros((T, 1, N * copies)), labels, blocks, 2, once)
    for fit, held in held_out(cases, margin):
        assert not (fit & held).any()
        assert held.any()
        assert len(np.unique(cases.truth[fit])) == 2
        assert (cases.truth[fit] >= 0).all()
        assert (cases.truth[held] >= 0).all()
        whole = held.reshape(*held.shape[:-1], copies, N)
        assert (whole == whole[..., :1, :]).all()
        if len(np.unique(cases.truth_blocks)) >= 8:
            assert not set(cases.truth_blocks[fit].tolist()) & set(cases.truth_blocks[held].tolist())


def test_readings_near_a_held_out_stretch_are_not_learned_from():
    """With a margin of 3, three readings on each side are left alone."""
    labels = np.tile([[0], [1]], (200, 1))
    cases = Cases(np.zeros((400, 1, 1)), labels, np.arange(400)[:, None] // 50, 2, False)
    for fit, held in held_out(cases, 3):
        edges = np.flatnonzero(np.diff(held[:, 0].astype(int)))
        assert edges.size
        for edge in edges:
            near = slice(max(edge - 2, 0), edge + 4)
            assert not fit[near, 0].any()


def test_an_order_that_goes_with_the_labels_does_no_harm():
    """Sequences whose labels alternate still have both values on either side."""
    labels = np.tile(np.arange(400) % 4 // 2, (3, 1))
    cases = Cases(np.zeros((3, 1, 400)), labels, np.tile(np.arange(400), (3, 1)), 2, True)
    for fit, held in held_out(cases):
        assert 0.3 < cases.truth[held].mean() < 0.7
        assert 0.4 < cases.truth[fit].mean() < 0.6
