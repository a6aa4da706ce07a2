"""Figures of an adversary, against loops that count guess by guess."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import normalise as normalise
from understudy.adversaries.statistics import Attempt, Figure, error_of, figures, guesses_of, hours_of, outcomes_of
from understudy.errors import ConfigurationError


def _cases(rng, T=40, N=6, m=3, once=False):
    labels = rng.integers(-1, m, (T, N))
    if once:
        labels = np.tile(labels[0], (T, 1))
    blocks = np.tile(np.arange(T)[:, None] // 10, (1, N)) + 4 * np.arange(N)
    if once:
        blocks = np.tile(np.arange(N), (T, 1))
    return Cases(rng.standard_normal((T, 2, N)), labels, blocks, m, once)


def _said(rng, cases):
    """Log-probabilities that know something of the truth."""
    truth = cases.truth
    logits = rng.standard_normal((cases.m, *truth.shape))
    for c in range(cases.m):
        logits[c] += 1.2 * (truth == c)
    return normalise(logits)


@pytest.mark.parametrize("once", [False, True])
def test_figures_are_those_of_counting(once):
    """Error, balanced accuracy, gain and nats agree with a count of one guess after the other."""
    rng = np.random.default_rng(1)
    cases = _cases(rng, N=120 if once else 6, once=once)
    said, other, prior = _said(rng, cases), _said(rng, cases), np.array([0.2, 0.3, 0.5])
    made, reference = guesses_of(said, cases, prior), guesses_of(other, cases, prior)
    found = figures(made, reference, once, 0.95)
    places = [at for at in np.ndindex(cases.truth.shape) if cases.truth[at] >= 0]
    odds = [sum(cases.truth[at] == c for at in places) / len(places) for c in range(3)]
    wrong, nats = 0, 0.0
    right, base, count = [0] * 3, [0] * 3, [0] * 3
    for at in places:
        truth, q = int(cases.truth[at]), np.exp(said[(slice(None), *at)])
        wrong += int(np.argmax(q) != truth)
        nats += math.log(0.999 * q[truth] / odds[truth] + 0.001)
        count[truth] += 1
        right[truth] += int(np.argmax(q / prior) == truth)
        base[truth] += int(np.argmax(np.exp(other[(slice(None), *at)]) / prior) == truth)
    balanced = np.mean([r / n for r, n in zip(right, count, strict=True)])
    assert found.error.value == pytest.approx(wrong / len(places))
    assert found.balanced.value == pytest.approx(balanced)
    assert found.gain.value == pytest.approx(balanced - np.mean([r / n for r, n in zip(base, count, strict=True)]))
    assert found.nats.value == pytest.approx(nats / len(places))
    assert all(f.low < f.value < f.high for f in found)


def test_who_says_the_odds_guesses_nothing():
    """Log-probabilities that are the odds have balanced accuracy 1/m, no gain and no nats, whatever the rounding."""
    rng = np.random.default_rng(2)
    cases = _cases(rng)
    odds = np.bincount(cases.truth[cases.truth >= 0], minlength=3) / cases.guesses
    said = np.tile(np.log(odds)[:, None, None], (1, *cases.truth.shape)) + 1e-12 * rng.standard_normal((3, 40, 6))
    found = figures(guesses_of(said, cases, odds), None, False, 0.95)
    assert found.balanced == pytest.approx((1 / 3,) * 3)  # and that is no estimate
    assert found.gain.value == pytest.approx(0.0)
    assert found.nats.value == pytest.approx(0.0, abs=1e-9)


def test_nats_are_at_most_the_mutual_information():
    """For a binary channel that flips with probability 0.2 the true posterior has the information, another one less."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 40_000)
    seen = np.where(rng.random(truth.size) < 0.2, 1 - truth, truth)
    cases = Cases(seen[None, None].astype(float), truth[None], np.arange(truth.size)[None], 2, True)
    information = math.log(2) + 0.2 * math.log(0.2) + 0.8 * math.log(0.8)
    for sure, least in ((0.8, information - 0.01), (0.95, 0.0)):
        said = np.log(np.where(np.arange(2)[:, None] == seen, sure, 1 - sure))
        nats = figures(guesses_of(said, cases, np.array([0.5, 0.5])), None, True, 0.99).nats
        assert least < nats.value < information + 0.01
    assert nats.high < information  # who is too sure of himself knows less


def _tested(made, cases, independent):
    return outcomes_of(
        [Attempt("one", False, made)], cases, independent, None, 0.01, lambda *names: np.random.default_rng(len(names))
    )[0]


def test_rare_values_count_as_much_as_others():
    """At odds of 99 to 1 the likeliest value is always the frequent one, and yet the balanced accuracy shows a leak."""
    rng = np.random.default_rng(4)
    truth = (rng.random(20_000) < 0.01).astype(int)
    y = truth + rng.standard_normal(truth.size)
    cases = Cases(y[None, None], truth[None], np.arange(truth.size)[None], 2, True)
    prior = np.array([0.99, 0.01])
    said = normalise(np.stack([-0.5 * y**2, -0.5 * (y - 1.0) ** 2]) + np.log(prior)[:, None])
    made = guesses_of(said, cases, prior)
    found = figures(made, None, True, 0.99)
    assert found.error.value == pytest.approx(0.01, abs=0.003)
    assert found.balanced.value == pytest.approx(0.69, abs=0.05)  # Phi(1/2)
    assert _tested(made, cases, True).p < 1e-6


def test_the_way_of_testing_is_told():
    """Independent sequences are permuted, recordings judged by stretches."""
    rng = np.random.default_rng(5)
    cases = _cases(rng)
    made = guesses_of(_said(rng, cases), cases, np.full(3, 1 / 3))
    assert _tested(made, cases, True).test == "permutation"
    assert _tested(made, cases, False).test == "stretches"
    assert hours_of(cases) is None


def _days(count, weekdays, per=48):
    """So many days of readings in one sequence, with a clock."""
    k = np.arange(count * per)
    hours, days = ((k % per) * 24.0 / per)[:, None], ((k // per) % 7)[:, None]
    labels = (k % 2)[:, None]
    return Cases(np.zeros((k.size, 1, 1)), labels, (k // per)[:, None], 2, False, hours, days if weekdays else None)


def test_times_of_day_are_as_fine_as_the_readings():
    """Strata are half-hours for half-hourly readings; weekdays are apart from three weeks on, weekends before."""
    assert np.unique(hours_of(_days(5, False))).size == 48
    assert np.unique(hours_of(_days(21, True))).size == 7 * 48
    assert np.unique(hours_of(_days(16, True))).size == 2 * 48
    assert (hours_of(_days(1, False)) == -1).all()  # every time comes on one day only


def test_who_always_says_a_value_that_does_not_occur_is_right_as_often_as_chance():
    """Of three values two occur: the blind one has 1/2 whichever he says, and gains are over that."""
    rng = np.random.default_rng(8)
    truth = 1 + rng.integers(0, 2, 400)
    cases = Cases(np.zeros((1, 1, 400)), truth[None], np.arange(400)[None], 3, True)
    blind = guesses_of(np.tile(np.log([[0.5], [0.3], [0.2]]), (1, 400)), cases, np.array([0.1, 0.3, 0.6]))
    assert set(blind.fair.tolist()) == {0}
    assert figures(blind, None, True, 0.99).balanced == (0.5, 0.5, 0.5)
    told = normalise(np.where(np.arange(3)[:, None] == truth, 3.0, 0.0))
    known = figures(guesses_of(told, cases, np.full(3, 1 / 3)), blind, True, 0.99)
    assert known.balanced.value == 1.0
    assert known.gain.value == pytest.approx(0.5)


def test_what_is_not_finite_or_of_another_shape_is_refused():
    """An adversary that says NaN, or too little, is an error and no figure."""
    rng = np.random.default_rng(6)
    cases = _cases(rng)
    with pytest.raises(ConfigurationError, match="shape"):
        guesses_of(np.zeros((3, 40)), cases, np.ones(3))
    with pytest.raises(ConfigurationError, match="finite"):
        guesses_of(np.full((3, 40, 6), np.nan), cases, np.ones(3))


def test_error_at_a_stricter_confidence_is_wider():
    """The interval that decides whether a bound is beaten is wider than the one that is shown."""
    rng = np.random.default_rng(7)
    cases = _cases(rng, N=200, once=True)
    made = guesses_of(_said(rng, cases), cases, np.full(3, 1 / 3))
    shown, strict = (error_of(made, True, c) for c in (0.99, 0.999))
    assert strict.low < shown.low < shown.value < shown.high < strict.high
    assert isinstance(shown, Figure)
