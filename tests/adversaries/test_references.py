"""The references: the prior, and the time-aware prior."""

import numpy as np
import pytest

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners.calibration import Blind, Clock, clock_table, prior_of


def week(days, rng, *, flip=0.0, per_day=96, copies=1, weekends=True):
    """Days of quarters of hours: theta is 1 from 8 to 17 o'clock, not on weekends; now and then it is flipped."""
    T = days * per_day
    hours = 24.0 * (np.arange(T) % per_day) / per_day
    day = (np.arange(T) // per_day) % 7
    theta = ((hours >= 8) & (hours < 17) & ((day < 5) | (not weekends))).astype(np.int64)
    theta = np.where(rng.random(T) < flip, 1 - theta, theta)

    def tiled(x):
        return np.tile(x[:, None], (1, copies))

    outputs = rng.normal(size=(T, 1, copies))
    return Cases(outputs, tiled(theta), tiled(np.arange(T) // 40), 2, False, tiled(hours), tiled(day))


def balanced(logits, cases, prior):
    guess = (logits - np.log(prior).reshape(-1, 1, 1)).argmax(axis=0)
    return np.mean([(guess == i)[cases.truth == i].mean() for i in range(cases.m)])


def test_blind_gives_the_shares_of_the_labels():
    """Everywhere the same; unknown labels do not count."""
    labels = np.array([[0, 2], [2, 2], [-1, 2]])
    cases = Cases(np.zeros((3, 1, 2)), labels, labels * 0, m=3, once=False)
    logits = Blind().learn(cases, None, None).logits(cases)
    assert logits.shape == (3, 3, 2)
    np.testing.assert_allclose(np.exp(logits[:, 1, 0]), [0.2, 1e-6, 0.8], atol=3e-6)
    assert (logits == logits[:, :1, :1]).all()
    once = Cases(np.zeros((3, 1, 2)), labels, labels * 0, m=3, once=True)
    np.testing.assert_allclose(np.exp(Blind().learn(once, None, None).logits(once))[[0, 2]], 0.5, atol=1e-5)


def test_without_labels_everything_is_equally_likely():
    """Nothing is known of theta."""
    labels = -np.ones((4, 2), dtype=np.int64)
    assert prior_of(Cases(np.zeros((4, 1, 2)), labels, labels * 0, m=4, once=False)).tolist() == [0.25] * 4


def test_the_clock_knows_office_hours_and_weekends():
    """Two weeks of office hours are foretold for the weeks after, weekends included."""
    rng = np.random.default_rng(1)
    train, test = week(21, rng, flip=0.02), week(21, rng)
    attack = Clock().learn(train, None, rng)
    logits = attack.logits(test)
    assert balanced(logits, test, prior_of(train)) > 0.99
    assert (logits.argmax(axis=0) == test.truth).mean() > 0.99
    # the twin: who does not know weekdays cannot
    plain = Cases(test.outputs, test.labels, test.blocks, 2, False, test.hours)
    learned = Clock().learn(Cases(train.outputs, train.labels, train.blocks, 2, False, train.hours), None, rng)
    assert (learned.logits(plain).argmax(axis=0) == test.truth).mean() < 0.95


def test_the_table_is_that_of_counted_visits():
    """With the strength and the cells that were chosen, shares are (visits + strength prior) / (n + strength)."""
    rng = np.random.default_rng(2)
    cases = week(30, rng, flip=0.3, weekends=False, per_day=24)
    cases = Cases(cases.outputs, cases.labels, cases.blocks, 2, False, cases.hours)
    table = clock_table(cases)
    prior = prior_of(cases)
    shares = np.exp(table.logs) * prior[:, None]
    cells = table.cells
    fits = []
    for strength in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0):
        expected = [
            (cases.labels[cases.hours == h].sum() + strength * prior[1]) / ((cases.hours == h).sum() + strength)
            for h in range(24)
        ]
        fits.append(np.allclose(shares[1, : cells : cells // 24], expected, atol=1e-9))
    assert sum(fits) == 1


def test_copies_do_not_make_the_clock_surer():
    """The labels of a stretch count once, however many outputs were made of it."""
    one, many = (clock_table(week(10, np.random.default_rng(3), flip=0.2, copies=n)) for n in (1, 5))
    np.testing.assert_allclose(one.logs, many.logs)


def test_noise_is_drawn_to_the_prior():
    """Where theta has nothing to do with the clock, the table says next to nothing."""
    rng = np.random.default_rng(4)
    cases = week(20, rng, flip=0.5)
    judged = week(20, rng, flip=0.5)
    logits = Clock().learn(cases, None, rng).logits(judged)
    score = np.take_along_axis(logits, judged.truth[None], axis=0).mean()
    assert score > np.log(0.5) - 0.02


def test_unknown_hours_get_the_prior():
    """A reading without a time is judged by the prior, also if no reading has one."""
    rng = np.random.default_rng(5)
    cases = week(7, rng)
    hours = cases.hours.copy()
    hours[::2] = np.nan
    part = Cases(cases.outputs, cases.labels, cases.blocks, 2, False, hours, cases.days)
    logits = Clock().learn(part, None, rng).logits(part)
    expected = Blind().learn(part, None, rng).logits(part)
    np.testing.assert_allclose(logits[:, ::2], expected[:, ::2])
    assert np.abs(logits[:, 1::2] - expected[:, 1::2]).max() > 1.0
    nothing = Cases(cases.outputs, cases.labels, cases.blocks, 2, False, np.full_like(hours, np.nan))
    np.testing.assert_allclose(Clock().learn(nothing, None, rng).logits(nothing), expected)


def test_the_clock_of_whole_sequences_is_that_of_their_first_reading():
    """Sequences that begin at night have one value, those that begin by day the other."""
    hours = np.tile(np.arange(200) % 24.0, (5, 1))
    labels = ((hours >= 8) & (hours < 20)).astype(np.int64)
    cases = Cases(np.zeros((5, 1, 200)), labels, np.tile(np.arange(200), (5, 1)), 2, True, hours)
    assert (Clock().learn(cases, None, None).logits(cases).argmax(axis=0) == labels[0]).all()


@pytest.mark.parametrize("learner", [Blind, Clock])
def test_objections(learner):
    """Only who needs a clock objects to there being none."""
    cases = week(1, np.random.default_rng(6))
    assert learner().objection(cases, None) == ""
    assert bool(learner().objection(cases.without_clock(), None)) == (learner is Clock)
