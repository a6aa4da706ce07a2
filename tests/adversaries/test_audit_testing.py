"""Tests of "it tells nothing": exact where labels can be permuted, and at their rate where they cannot."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats
from audit_cases import switching
from hypothesis import given
from hypothesis import strategies as st

from understudy.adversaries.judging import stretching
from understudy.adversaries.judging.stretching import agreement, alone, contributions, together
from understudy.adversaries.judging.testing import exchanged, holm, tables

RATE = 1e-6


def stretches(guess, truth, blocks, m, strata, rng):
    """The p of one adversary."""
    return alone(agreement(guess, truth, blocks, m, strata), rng)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_is_the_rule_that_steps_down(p, level):
    """The smallest p must be below level / n, the next below level / (n - 1), until one is not: written another way."""
    known, left = [False] * len(p), len(p)
    for i in np.argsort(p, kind="stable"):
        if p[i] > level / left:
            break
        known[i], left = True, left - 1
    corrected = holm(p)
    # p (n - k) <= level and p <= level / (n - k) may differ in the last bit
    assert any(abs(x - level) < 1e-12 for x in corrected) or [x <= level for x in corrected] == known


def test_two_values_have_fishers_test():
    """With two values p is that of Fisher's exact test, one-sided."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth = rng.integers(0, 2, 40)
        guess = np.where(rng.random(40) < 0.3, truth, rng.integers(0, 2, 40))
        table = [[((truth == a) & (guess == b)).sum() for b in (0, 1)] for a in (0, 1)]
        known = scipy.stats.fisher_exact(table, alternative="greater").pvalue
        assert tables(guess, truth, 2, rng) == pytest.approx(known, rel=1e-9)


def test_three_values_have_the_permutation_test():
    """With three values p agrees with all 5040 permutations of 7 labels, to the error of 9999 draws."""
    truth, guess = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 0])
    counted = np.bincount(truth)

    def balanced(labels):
        return sum((guess[labels == c] == c).sum() / counted[c] for c in range(3))

    every = np.array([balanced(np.array(p)) for p in permutations(truth.tolist())])
    known = np.mean(every >= balanced(truth) - 1e-9)
    found = tables(guess, truth, 3, np.random.default_rng(1))
    assert abs(found - known) < 5.0 * np.sqrt(known * (1 - known) / 9999) + 1e-4


def test_paths_are_exchanged_as_a_whole():
    """Persistent guesses that are independent of the labels give uniform p; those that know them give a small one."""
    rng = np.random.default_rng(4)
    p = []
    for _ in range(60):
        truth, guess = (np.stack([switching(50, 0.03, rng) for _ in range(12)], axis=1) for _ in range(2))
        p.append(exchanged(guess, truth, 2, rng))
    assert scipy.stats.kstest(p, "uniform").pvalue > RATE
    assert exchanged(truth, truth, 2, rng) == pytest.approx(1e-4)


def _false_alarms(test, audits=400):
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(audits):
        truth, guess = switching(1500, 0.02, rng), switching(1500, 0.01, rng)
        found += test(guess, truth, rng) < 0.05
    return found


def test_stretches_keep_their_rate_and_single_readings_do_not():
    """400 recordings of persistent labels and independent persistent guesses: 5 percent alarms; the twin over half."""
    limit = scipy.stats.binom.isf(RATE, 400, 0.05)
    blocks = np.arange(1500) // 50
    assert _false_alarms(lambda g, t, rng: stretches(g, t, blocks, 2, None, rng)) <= limit
    assert _false_alarms(lambda g, t, rng: tables(g, t, 2, rng)) > 2 * limit


def test_the_sum_over_stretches_is_the_balanced_accuracy():
    """Without a clock the contributions add up to m times the balanced accuracy, less 1."""
    rng = np.random.default_rng(5)
    truth, guess = rng.integers(0, 3, 300), rng.integers(0, 3, 300)
    balanced = np.mean([(guess[truth == c] == c).mean() for c in range(3)])
    assert contributions(guess, truth, np.arange(300) // 20, 3, None).sum() == pytest.approx(3 * balanced - 1)


def test_what_the_clock_tells_does_not_count():
    """Guesses by the hour find much without strata, and nothing within hours; guesses that know more still do."""
    rng = np.random.default_rng(6)
    hour = np.tile(np.arange(24), 60)
    truth = (rng.random(hour.size) < np.where((hour > 8) & (hour < 18), 0.8, 0.05)).astype(int)
    guess = ((hour > 8) & (hour < 18)).astype(int)
    days = np.arange(hour.size) // 24
    assert stretches(guess, truth, days, 2, None, rng) < 1e-3
    assert stretches(guess, truth, days, 2, hour, rng) > 0.5
    knowing = np.where(rng.random(hour.size) < 0.5, truth, guess)
    assert stretches(knowing, truth, days, 2, hour, rng) < 1e-3


def test_few_stretches_cannot_tell():
    """Five stretches have no p below 1/32, however sure the guesses are."""
    truth = np.tile(np.repeat([0, 1], 10), 5)
    assert stretches(truth, truth, np.arange(100) // 20, 2, None, np.random.default_rng(0)) == 1 / 32


def _adversaries(rng, many, days, knows=0.0):
    """Agreements of several adversaries who look at the same output, one of which may know some of the labels."""
    truth, seen = switching(48 * days, 0.1, rng), switching(48 * days, 0.05, rng)
    blocks = np.arange(truth.size) // 48
    found = []
    for k in range(many):
        guess = np.where(rng.random(truth.size) < 0.8, seen, rng.integers(0, 2, truth.size))
        if k == 0 and knows:
            guess = np.where(rng.random(truth.size) < knows, truth, guess)
        found.append(agreement(guess, truth, blocks, 2, None))
    return found


def test_signs_are_tossed_for_all_together():
    """The corrected p of the clearest of three is counted through: the largest of all sums, over every sign."""
    rng = np.random.default_rng(7)
    found = _adversaries(rng, 3, 8, knows=0.6)
    x = np.stack([one.x / np.sqrt(np.square(one.x).sum()) for one in found])
    sums = [one.sum() / kind.wider for one, kind in zip(x, found, strict=True)]
    first = int(np.argmax(sums))
    every = np.array([max(np.dot(row, signs) for row in x) for signs in product((-1.0, 1.0), repeat=8)])
    known = np.mean(every >= sums[first] - 1e-9)
    assert stretching._tossed(found, rng, 0)[first] == pytest.approx(known)
    corrected = together(found, rng)
    assert corrected[first] >= known
    assert corrected == pytest.approx(together(found[::-1], rng)[::-1])
    assert all(c >= alone(one, rng) for c, one in zip(corrected, found, strict=True))


def test_many_adversaries_on_nine_days_keep_their_rate_and_find_a_leak():
    """Twenty adversaries and nine days: 300 recordings that tell nothing raise alarms at their rate for all together.

    The twin, which corrects nothing, raises more. One that knows most labels is found, which Holm's rule never could.
    """
    rng = np.random.default_rng(12)
    alarms = twin = power = 0
    for _ in range(300):
        found = _adversaries(rng, 20, 9)
        alarms += min(together(found, rng)) <= 0.05
        twin += min(alone(one, rng) for one in found) <= 0.05
        if _ < 40:
            knowing = _adversaries(rng, 20, 9, knows=0.9)
            power += together(knowing, rng)[0] <= 0.01
            assert holm([alone(one, rng) for one in knowing])[0] > 0.01
    assert alarms <= scipy.stats.binom.isf(RATE, 300, 0.05)
    assert twin > alarms
    assert power > 30
