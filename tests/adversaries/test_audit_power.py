"""What an audit could have found: too little to test is no "nothing found", and what the clock tells is no finding."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from audit_cases import Normal, plain_family

import understudy as us
from understudy import text
from understudy.adversaries.audit import audit, roster
from understudy.adversaries.datasets import add_noise
from understudy.adversaries.results import Audit
from understudy.adversaries.statistics import agreement, permutation_test, single_p_value

RATE = 1e-6


def stretches(guess, truth, blocks, m, strata, rng):
    """The p of one adversary."""
    return single_p_value(agreement(guess, truth, blocks, m, strata), rng)


@pytest.fixture(scope="module")
def design():
    """A design that tells little, of readings whose mean is theta."""
    return us.design(plain_family(3.0), leakage=0.02, distortion="mae", horizon=60)


def _days(count, per=48, seed=0):
    """Hours and weekdays of so many days, and a theta of office hours that flickers."""
    rng = np.random.default_rng(seed)
    k = np.arange(count * per)
    hours = (k % per) * 24.0 / per
    theta = ((hours >= 8) & (hours < 18) & (np.repeat(rng.random(k.size // 4 + 1), 4)[: k.size] < 0.6)).astype(int)
    return hours, (k // per) % 7, theta, rng


def test_too_few_stretches_are_told_from_nothing_found(design):
    """Raw readings handed out on six stays: nothing can be found, and the audit says that, in JSON too.

    The twin, the same on sixty stays, is found.
    """
    rng = np.random.default_rng(0)
    for stays, testable in ((6, False), (60, True)):
        theta = np.arange(stays).repeat(60) % 2
        made = audit(design, None, theta, {"one": Normal()}, rng=1, released=3.0 * theta + rng.normal(size=theta.size))
        assert made.best.balanced.value > 0.85
        assert (made.testable, made.row("one").testable, made.found) == (testable,) * 3
        assert (text.no_power_note(False) in made.notes) is not testable
        assert ("not testable" in repr(made)) is not testable
        assert Audit.from_plain(made.plain()).testable is testable


def test_more_permutations_are_drawn_where_the_level_asks_for_them():
    """Three values at confidence 0.9999: 9999 permutations could not find anything, and a leak is found."""
    family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    leaky = us.design(family, leakage=0.6, horizon=20, distortion="mae")
    made = audit(leaky, n=800, adversaries={"a": Normal(), "b": Normal(3)}, confidence=0.9999, rng=1, noise=False)
    assert made.row("a").p < 1e-4 / 2
    assert made.row("a").found
    assert made.testable


def test_files_without_the_new_fields_are_read(design):
    """An audit that was written before has rows that count as testable, and no estimates."""
    made = audit(design, n=200, adversaries={"one": Normal()}, rng=1, noise=False)
    told = made.plain()
    old = {k: v for k, v in told.items() if k not in ("estimated", "testable", "found_alone")}
    old["rows"] = [{k: v for k, v in row.items() if k not in ("testable", "corrected")} for row in old["rows"]]
    again = Audit.from_plain(old)
    assert again.testable
    assert again.estimated is False


def test_one_day_tells_nothing_beyond_the_clock(design):
    """Where every time of day comes on one judged day only, p with the clock is NaN, and the row is not testable."""
    hours, _, theta, rng = _days(2, per=480)
    made = audit(design, None, theta, {"one": Normal()}, rng=1, released=rng.normal(size=theta.size), hours=hours)
    row = made.row("one", clock=True)
    assert np.isnan(row.p)
    assert not row.testable
    assert not made.testable
    assert made.row("one").p == made.row("one").p
    assert text.no_power_note(True) in made.notes


def test_labels_that_do_not_vary_within_strata_have_no_p():
    """Theta is a function of the hour: nothing is left to be told, however well it is guessed."""
    hour = np.tile(np.arange(24), 20)
    truth = (hour > 8).astype(int)
    assert np.isnan(stretches(truth, truth, np.arange(hour.size) // 24, 2, hour, np.random.default_rng(0)))


@pytest.mark.sample(default=1, seconds=9, reason="three audits along a month")
@pytest.mark.parametrize("seed", range(3))
def test_what_the_clock_tells_within_the_hour_is_no_finding(design, seed):
    """Theta changes at half past eight and half past five; adversaries of white noise who know that find nothing.

    The twin compares within whole hours, and takes the clock for a finding.
    """
    rng = np.random.default_rng(seed)
    per, days = 96, 30
    theta = np.zeros((days, per), dtype=int)
    for day in theta:
        day[34 + rng.integers(-1, 2) : 70 + rng.integers(-1, 2)] = 1
    hours = np.tile(np.arange(per) * 0.25, days)
    made = audit(
        design, None, theta.ravel(), {"windowed": roster(["windowed"])["windowed"]}, rng=seed, hours=hours,
        released=rng.normal(size=theta.size), confidence=0.999,
    )  # fmt: skip
    assert made.row("windowed", clock=True).balanced.value > 0.95
    assert not made.found
    guess, date = ((hours >= 8.5) & (hours < 17.5)).astype(int), np.arange(hours.size) // per
    assert stretches(guess, theta.ravel(), date, 2, hours.astype(int), rng) < 1e-3
    assert stretches(guess, theta.ravel(), date, 2, (4.0 * hours).astype(int), rng) > 0.5


def test_an_output_with_a_rhythm_of_its_own_is_no_finding(design):
    """The output is a function of the clock, and noise: found without the clock, not found beyond it.

    The twin has some of theta in it, and is found with the clock.
    """
    hours, _, theta, rng = _days(40)
    rhythm = np.sin((hours - 8.0) / 24.0 * 2.0 * np.pi) + rng.normal(size=hours.size)
    learners = {"one": Normal()}
    made = audit(design, None, theta, learners, rng=1, released=rhythm, hours=hours)
    assert made.found_alone
    assert made.testable
    assert not made.found
    leaky = audit(design, None, theta, learners, rng=1, released=rhythm + 2.0 * theta, hours=hours)
    assert leaky.found
    assert leaky.row("one", clock=True).gain.value > 0.0


def test_days_that_have_something_in_common_raise_no_alarm(design):
    """Some days nobody is there, and the output has a level of its own each day: false alarms at their rate.

    The twin takes readings for independent, and raises far too many.
    """
    alarms = held = twin = 0
    for seed in range(30):
        hours, _, theta, rng = _days(30, seed=seed)
        theta = theta * np.repeat(rng.random(30) < 0.6, 48)
        level = np.repeat(rng.normal(size=30), 48) * 2.0
        made = audit(
            design, None, theta, {"one": Normal()}, rng=seed, released=level + 0.3 * rng.normal(size=level.size),
            hours=hours, confidence=0.95,
        )  # fmt: skip
        row = made.row("one")
        assert row.blocks == 15
        alarms += made.found
        held += row.balanced.low <= 0.5 <= row.balanced.high
        guess = (level > 0).astype(int)
        twin += min(permutation_test(g, theta, 2, rng) for g in (guess, 1 - guess)) < 0.05
    assert alarms <= scipy.stats.binom.isf(RATE, 30, 0.05)
    assert held >= scipy.stats.binom.ppf(RATE, 30, 0.95)
    assert twin > scipy.stats.binom.isf(RATE, 30, 0.1)


@pytest.mark.long(seconds=7, reason="an audit with two replicates of two kinds of noise")
def test_held_noise_is_as_large_and_hides_more(design):
    """Noise that is kept for an epoch has the size of the disguise, and is not averaged away as white noise is."""
    rng = np.random.default_rng(3)
    theta = rng.integers(0, 2, 80).repeat(60)
    made = audit(
        design, 3.0 * theta + rng.normal(size=theta.size), theta, {"windowed": roster(["windowed"])["windowed"]},
        rng=1, epoch=60, replicates=2,
    )  # fmt: skip
    white, held = made.row("windowed", "noise"), made.row("windowed", "offset")
    assert held.balanced.value < white.balanced.value - 0.1
    every = add_noise(np.zeros((60, 1, 2000)), np.array([2.0]), None, rng, every=60)
    assert np.abs(every).mean() == pytest.approx(2.0 * np.sqrt(2.0 / np.pi), rel=0.1)
    assert (np.diff(every, axis=0) == 0.0).all()
