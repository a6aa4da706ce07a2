"""Tests of "it tells nothing": exact where labels can be permuted, and at their rate where they cannot."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats
from audit_cases import switching
from hypothesis import given
from hypothesis import strategies as st

from understudy.adversaries import statistics
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.statistics import (
    Attempt,
    agreement,
    contributions,
    exchange_test,
    holm,
    joint_p_values,
    outcomes_of,
    permutation_test,
    single_p_value,
)
from understudy.adversaries.statistics import Guesses as Guesses

RATE = 1e-6


def stretches(guess, truth, blocks, m, strata, rng):
    """The p of one adversary."""
    return single_p_value(agreement(guess, truth, blocks, m, strata), rng)


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
        assert permutation_test(guess, truth, 2, rng) == pytest.approx(known, rel=1e-9)


def test_three_values_have_the_permutation_test():
    """With three values p agrees with all 5040 permutations of 7 labels, to the error of 9999 draws."""
    truth, guess = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 0])
    counted = np.bincount(truth)

    def balanced(labels):
        return sum((guess[labels == c] == c).sum() / counted[c] for c in range(3))

    every = np.array([balanced(np.array(p)) for p in permutations(truth.tolist())])
    known = np.mean(every >= balanced(truth) - 1e-9)
    found = permutation_test(guess, truth, 3, np.random.default_rng(1))
    assert abs(found - known) < 5.0 * np.sqrt(known * (1 - known) / 9999) + 1e-4


def test_paths_are_exchanged_as_a_whole():
    """Persistent guesses that are independent of the labels give uniform p; those that know them give a small one."""
    rng = np.random.default_rng(4)
    p = []
    for _ in range(60):
        truth, guess = (np.stack([switching(50, 0.03, rng) for _ in range(12)], axis=1) for _ in range(2))
        p.append(exchange_test(guess, truth, 2, rng))
    assert scipy.stats.kstest(p, "uniform").pvalue > RATE
    assert exchange_test(truth, truth, 2, rng) == pytest.approx(1e-4)


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
    assert _false_alarms(lambda g, t, rng: permutation_test(g, t, 2, rng)) > 2 * limit


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


def _adversaries(rng, many, days, knows=0.0, clocked=0):
    """Labels, stretches, hours, and guesses of several adversaries who look at outputs of their own.

    The first knows a share of the labels; the last `clocked` are compared within hours.
    """
    truth = switching(48 * days, 0.1, rng)
    blocks, hours = np.arange(truth.size) // 48, np.arange(truth.size) % 48 // 2
    guesses = [switching(truth.size, 0.05, rng) for _ in range(many)]
    guesses[0] = np.where(rng.random(truth.size) < knows, truth, guesses[0])
    strata = [None] * (many - clocked) + [hours] * clocked
    return truth, blocks, guesses, strata


def _agreements(truth, blocks, guesses, strata):
    return [agreement(guess, truth, blocks, 2, hour) for guess, hour in zip(guesses, strata, strict=True)]


def _stepped_down(found):
    """Westfall and Young's p of every adversary by their own words: each against the largest of those that are left."""
    x = [one.x / np.sqrt(np.square(one.x).sum()) for one in found]
    sums = [row.sum() / one.wider for row, one in zip(x, found, strict=True)]
    signs = list(product((-1.0, 1.0), repeat=len(x[0])))
    left, p, worst = set(range(len(found))), {}, 0.0
    while left:
        first = max(left, key=lambda i: sums[i])
        largest = [max(np.dot(x[i], sign) for i in left) for sign in signs]
        worst = max(worst, np.mean([value >= sums[first] - 1e-9 for value in largest]))
        p[first] = worst
        left.remove(first)
    return [p[i] for i in range(len(found))]


@pytest.mark.parametrize("seed", range(4))
def test_signs_are_tossed_for_all_together(seed):
    """Four adversaries, two of them with the clock: p of each is that of stepping down through all signs."""
    rng = np.random.default_rng(seed)
    found = _agreements(*_adversaries(rng, 4, 8, knows=0.5, clocked=2))
    known = _stepped_down(found)
    assert statistics._sign_test(found, rng, 0) == pytest.approx(known)
    assert len(set(known)) > 2
    student = [statistics._student_test(one) for one in found]
    assert joint_p_values(found, rng) == pytest.approx([max(a, b) for a, b in zip(known, holm(student), strict=True)])
    assert joint_p_values([found[0], None], rng)[0] == pytest.approx(single_p_value(found[0], rng))


def test_what_is_shared_is_where_labels_vary():
    """Of k days that share their hours each is in the mean of the others; hours without change do not count."""
    rng = np.random.default_rng(3)
    truth, hour, day = rng.integers(0, 2, 7 * 24), np.tile(np.arange(24), 7), np.arange(7 * 24) // 24
    week = agreement(truth, truth, day, 2, hour)
    assert week.wider == pytest.approx(np.sqrt(7 / 6))
    # a weekend of its own hours on which nobody is there, and nights that all nine days share
    more = np.concatenate([truth, np.zeros(2 * 24, dtype=int)]), np.concatenate([hour, np.tile(np.arange(24, 48), 2)])
    whole = agreement(more[0], more[0], np.concatenate([day, np.repeat([7, 8], 24)]), 2, more[1])
    assert whole.wider == pytest.approx(week.wider)
    assert whole.varied.tolist() == [True] * 7 + [False] * 2


def test_many_adversaries_on_nine_days_keep_their_rate_and_find_a_leak():
    """Twenty adversaries and nine days: 150 recordings that tell nothing raise alarms at their rate for all together.

    The twin, which corrects nothing, raises far more. One that knows most labels is found, which Holm's rule never
    could: twenty times 2^-9 is above a hundredth.
    """
    rng = np.random.default_rng(12)
    alarms = twin = power = 0
    for k in range(150):
        found = _agreements(*_adversaries(rng, 20, 9, clocked=10))
        alarms += min(joint_p_values(found, rng)) <= 0.05
        twin += min(single_p_value(one, rng) for one in found) <= 0.05
        if k < 30:
            power += joint_p_values(_agreements(*_adversaries(rng, 20, 9, knows=0.9)), rng)[0] <= 0.01
    limit = scipy.stats.binom.isf(RATE, 150, 0.05)
    assert alarms <= limit
    assert twin > limit
    assert power > 20


def test_an_audit_corrects_for_all_and_says_what_it_could_have_found():
    """The corrected p is that of all adversaries together; testable is who knows every label in place of one of them.

    The twin: alone that one would be below a level at which it is not testable among the others.
    """
    rng = np.random.default_rng(5)
    truth, blocks, guesses, strata = _adversaries(rng, 12, 5)
    cases = Cases(np.zeros((truth.size, 1, 1)), truth[:, None], blocks[:, None], 2, False)
    made = [Guesses(truth, blocks, guess, guess, np.zeros(truth.size), 2) for guess in guesses]
    tried = [Attempt(str(k), False, one) for k, one in enumerate(made)]

    def judged(level):
        return outcomes_of(tried, cases, False, None, level, lambda *names: np.random.default_rng(1))

    found = _agreements(truth, blocks, guesses, strata)
    came = judged(0.01)
    assert [one.p for one in came] == pytest.approx([single_p_value(one, rng) for one in found])
    assert [one.corrected for one in came] == pytest.approx(joint_p_values(found, rng))
    assert max(one.corrected - one.p for one in came) > 0.1
    knowing = agreement(truth, truth, blocks, 2, None)
    by_itself, among = single_p_value(knowing, rng), joint_p_values([knowing, *found[1:]], rng)[0]
    assert by_itself < among
    assert not any(one.testable for one in judged(0.5 * (by_itself + among)))
    assert all(one.testable for one in judged(1.01 * among))
