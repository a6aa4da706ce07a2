"""What every learner must stand: gaps, short sequences, values that were never seen, clocks; and say the same again."""

from dataclasses import replace

import numpy as np
import pytest
from learner_cases import ALPHA, chance, constant, moving

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners import machine_learning
from understudy.adversaries.learners.calibration import Blind, Clock
from understudy.adversaries.learners.machine_learning import (
    Boosting,
    Changes,
    Logistic,
    Neighbours,
    Windowed,
    linear_discriminant,
)

LEARNERS = [Blind, Clock, Windowed, Logistic, Boosting, Neighbours, Changes]
BY_OUTPUT = [Windowed, Logistic, Boosting, Neighbours, Changes]


def some(T, N, rng, *, d=1, m=2, once=False, hours=True, gaps=0.0, values=None):
    """Outputs that depend on theta, with gaps in the outputs, the labels and the clock."""
    labels = rng.integers(m, size=(T, N)) if values is None else rng.choice(values, size=(T, N))
    if once:
        labels = np.tile(labels[:1], (T, 1))
    outputs = labels[:, None] + rng.normal(size=(T, d, N))
    clock = np.tile((np.arange(T) * 0.5 % 24.0)[:, None], (1, N))
    if gaps:
        outputs[rng.random(outputs.shape) < gaps] = np.nan
        outputs[:, :, -1] = np.nan
        outputs[T - T // 5 :, :, 0] = np.nan
        clock[rng.random(clock.shape) < gaps] = np.nan
        if not once:
            labels[rng.random(labels.shape) < gaps] = -1
    days = np.tile((np.arange(T)[:, None] // 48) % 7, (1, N)) if hours else None
    blocks = np.tile(np.arange(N), (T, 1)) if once else np.arange(N)[None] * T + np.arange(T)[:, None] // 10
    return Cases(outputs, labels.astype(np.int64), blocks, m, once, clock if hours else None, days)


def proper(logits, cases):
    shape = (cases.m, cases.N) if cases.once else (cases.m, cases.T, cases.N)
    assert logits.shape == shape
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(np.exp(logits).sum(axis=0), 1.0, rtol=1e-9)
    assert np.exp(logits).min() > 0.9e-6


@pytest.mark.sample(default=5, seconds=3, reason="seven learners, twice")
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("once", [False, True])
def test_gaps_in_everything(learner, once):
    """Missing readings, whole sequences of them, padding, unknown labels and hours: proper probabilities."""
    rng = np.random.default_rng(1)
    cases = some(40, 10, rng, d=2, m=3, once=once, gaps=0.2)
    attack = learner().learn(cases, None, rng)
    for judged in (cases, some(40, 5, rng, d=2, m=3, once=once, gaps=0.9), some(25, 3, rng, d=2, m=3, once=once)):
        proper(attack.logits(judged), judged)


@pytest.mark.sample(default=4, seconds=4, reason="seven learners, three lengths")
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("T", [1, 2, 6])
def test_short_sequences(learner, T):
    """One reading is a sequence, too; who cannot use it objects."""
    rng = np.random.default_rng(2)
    for once in (False, True):
        cases = some(T, 40, rng, once=once)
        if learner().objection(cases, None):
            assert learner is Changes
            continue
        proper(learner().learn(cases, None, rng).logits(cases), cases)


@pytest.mark.sample(default=3, seconds=2, reason="seven learners")
@pytest.mark.parametrize("learner", LEARNERS)
def test_values_that_were_never_seen(learner):
    """A value without a label is given next to nothing; one value alone is the prior; none at all is no knowledge."""
    rng = np.random.default_rng(3)
    for once in (False, True):
        cases = some(30, 20, rng, m=4, once=once, values=[0, 2])
        logits = learner().learn(cases, None, rng).logits(cases)
        proper(logits, cases)
        assert np.exp(logits[[1, 3]]).max() < 0.05
        alone = some(30, 20, rng, m=3, once=once, values=[1])
        logits = learner().learn(alone, None, rng).logits(alone)
        proper(logits, alone)
        assert np.exp(logits[1]).min() > 0.9
        nothing = Cases(alone.outputs, 0 * alone.labels - 1, alone.blocks, 3, once, alone.hours, alone.days)
        proper(learner().learn(nothing, None, rng).logits(nothing), nothing)


@pytest.mark.sample(default=2, seconds=3, reason="seven learners")
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_again(learner):
    """The same cases and the same random numbers give the same log-probabilities."""
    logits = []
    for _ in range(2):
        cases = some(60, 5, np.random.default_rng(4))
        logits.append(learner().learn(cases, None, np.random.default_rng(5)).logits(cases))
    np.testing.assert_array_equal(logits[0], logits[1])


@pytest.mark.sample(default=1, seconds=4, reason="five learners")
@pytest.mark.parametrize("learner", BY_OUTPUT)
def test_the_clock_is_used_if_and_only_if_it_is_there(learner):
    """Theta is known from the hour, and outputs say nothing: found with the clock, not without (false alarm 1e-6)."""
    rng = np.random.default_rng(6)

    def office(n):
        """Sequences of 96 half hours that begin at any time; at some time of the day the room is taken."""
        start = 24.0 * rng.random(n)
        hours = (start + 0.5 * np.arange(96)[:, None]) % 24.0
        labels = ((hours > 7) & (hours < 18)).astype(np.int64)
        blocks = np.tile(np.arange(n), (96, 1))
        return Cases(rng.normal(size=(96, 1, n)), labels, blocks, 2, False, hours)

    train, test = office(16), office(44)
    attack = learner().learn(train, None, rng)
    assert chance(attack, test) < ALPHA
    blind = learner().learn(train.without_clock(), None, rng)
    assert chance(blind, test.without_clock()) > ALPHA
    # who has not learned a clock does not look at one
    np.testing.assert_array_equal(blind.logits(test), blind.logits(test.without_clock()))


@pytest.mark.sample(default=2, seconds=1, reason="learners trained and judged in many settings")
@pytest.mark.parametrize("learner", [Logistic, Boosting, Neighbours])
def test_odds_are_those_of_the_labels(learner):
    """Rare values count alike while learning; probabilities are right again afterwards, to a few percent."""
    rng = np.random.default_rng(7)
    theta = (rng.random(2000) < 0.1).astype(np.int64)
    outputs = rng.normal(size=(8, 1, 2000)) + 0.4 * theta
    cases = Cases(outputs, np.tile(theta, (8, 1)), np.tile(np.arange(2000), (8, 1)), 2, True)
    attack = learner().learn(cases.sequences(slice(1000)), None, rng)
    p = np.exp(attack.logits(cases.sequences(slice(1000, 2000))))[1]
    # 1000 independent labels: five standard deviations of their sum
    assert abs(p.sum() - theta[1000:].sum()) < 5.0 * np.sqrt((p * (1.0 - p)).sum()) + 15.0
    order = np.argsort(p)
    assert theta[1000:][order[-100:]].mean() > theta[1000:][order[:500]].mean() + 0.1


@pytest.mark.parametrize("learner", [Logistic, Boosting, Neighbours])
def test_without_scikit_learn_it_says_what_to_install(learner, monkeypatch):
    """The reason names the command."""
    cases = constant("mean", 10, np.random.default_rng(8))
    assert learner().objection(cases, None) == ""
    monkeypatch.setattr(machine_learning, "find_spec", lambda name: None)
    assert 'pip install "understudy[sklearn]"' in learner().objection(cases, None)


@pytest.mark.parametrize("learner", BY_OUTPUT)
@pytest.mark.parametrize("once", [False, True])
def test_an_output_that_never_changes(learner, once):
    """Full sequences of one constant: proper probabilities, and the same for every reading of a length."""
    rng = np.random.default_rng(10)
    cases = some(24, 12, rng, once=once, hours=False)
    cases = replace(cases, outputs=np.full_like(cases.outputs, 420.0))
    logits = learner().learn(cases, None, rng).logits(cases)
    proper(logits, cases)
    assert np.ptp(logits, axis=-1).max() < 1e-9


def test_training_is_capped():
    """Of too many rows some are taken, rare values first, and the odds come out all the same."""
    from understudy.adversaries.learners.machine_learning import LabelledRows

    rng = np.random.default_rng(9)
    y = (rng.random(10_000) < 0.02).astype(np.int64)
    some_rows = LabelledRows(np.arange(10_000.0)[:, None], y, 2).some(1000, rng)
    assert len(some_rows.y) <= 1000
    assert some_rows.y.sum() == y.sum()
    assert (y[some_rows.X[:, 0].astype(int)] == some_rows.y).all()


def test_linear_discriminant_agrees_with_scikit_learn():
    """Guesses and evidence are those of its discriminant analysis; a value that was not seen is never guessed."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(10)
    y = rng.choice([0, 1, 3], size=500, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + y[:, None]
    found = linear_discriminant(X, y, 4)
    theirs = LinearDiscriminantAnalysis().fit(X, y)
    with np.errstate(divide="ignore"):
        logs = found.evidence(X) + np.log(np.bincount(y, minlength=4) / 500.0)[:, None]
    assert (logs.argmax(axis=0) == theirs.predict(X)).all()
    mine = logs[[0, 1, 3]].T
    p = np.exp(mine - np.logaddexp.reduce(mine, axis=1, keepdims=True))
    np.testing.assert_allclose(p, theirs.predict_proba(X), atol=1e-5)


def test_texts_tell_no_readings():
    """The text of an attack tells its kind and its temperature."""
    rng = np.random.default_rng(11)
    attack = Windowed().learn(moving("mean", 8, rng), None, rng)
    assert repr(attack).startswith("EvidenceAttack(_Windows, AlongChain, temperature ")
    assert len(repr(attack)) < 100
