"""Intervals of an audit: against scipy, by their coverage, and where there is too little to go by."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from understudy.adversaries.statistics import Sums, balanced_trials, clopper_pearson, long_run_variance
from understudy.adversaries.statistics import block_interval as block_interval


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (7, 7), (1, 50), (430, 500), (2, 3)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_clopper_pearson_is_that_of_scipy(hits, trials, confidence):
    """The exact interval of a share agrees with scipy's to 1e-12."""
    found = clopper_pearson(hits, trials, confidence)
    known = scipy.stats.binomtest(hits, trials).proportion_ci(confidence, method="exact")
    assert found == pytest.approx((hits / trials, known.low, known.high), abs=1e-12)


def test_balanced_accuracy_of_trials_holds_the_truth():
    """An interval of 90 percent holds the balanced accuracy of unequal values in 90 percent of 2000 samples."""
    rng = np.random.default_rng(1)
    rates, trials = np.array([0.95, 0.6, 0.3]), np.array([200, 40, 15])
    held = 0
    for hits in rng.binomial(trials, rates, size=(2000, 3)):
        _, low, high = balanced_trials(hits, trials, 0.9)
        held += low <= rates.mean() <= high
    # below 0.9 once in a million would be 0.868
    assert held / 2000 > 0.9 - 4.75 * np.sqrt(0.09 / 2000)


def test_a_value_that_was_never_tried_does_not_count():
    """Balanced accuracy is over the values that occur, and of nothing at all nothing is known."""
    assert balanced_trials(np.array([9, 0]), np.array([10, 0]), 0.95).value == pytest.approx(0.9)
    assert balanced_trials(np.zeros(2, int), np.zeros(2, int), 0.95)[1:] == (0.0, 1.0)


def test_the_bootstrap_is_that_of_scipy():
    """For the mean of 40 skewed stretches of equal size, the ends are at least as far as scipy's BCa, and near it."""
    top = np.random.default_rng(3).gamma(1.0, 2.0, 40)
    found = block_interval(Sums(top[:, None], np.ones((40, 1))), 0.9, (0.0, 100.0))
    with np.errstate(all="ignore"):
        known = scipy.stats.bootstrap(
            (top,), np.mean, confidence_level=0.9, n_resamples=20_000, rng=np.random.default_rng(1)
        ).confidence_interval
    student = scipy.stats.t.interval(0.9, 39, top.mean(), top.std(ddof=1) / np.sqrt(40))
    width = known.high - known.low
    assert found.value == pytest.approx(top.mean())
    # the wider of the two at either end, but for the noise of 2000 resamples and the covariances of neighbours
    assert found.high == pytest.approx(max(known.high, student[1]), abs=0.1 * width)
    assert found.low == pytest.approx(min(known.low, student[0]), abs=0.1 * width)


def _stretches(rng, blocks=25, each=60):
    """Right guesses in stretches that differ among themselves: 80 percent on average."""
    return rng.binomial(each, rng.beta(4.0, 1.0, blocks))[:, None].astype(float), np.full((blocks, 1), float(each))


def test_intervals_over_stretches_hold_the_truth_and_those_over_readings_do_not():
    """Of 600 intervals of 95 percent 91.5 percent hold the truth; of the twin's, over single readings, below 60."""
    rng = np.random.default_rng(7)
    held = naive = 0
    for _ in range(600):
        top, bottom = _stretches(rng)
        _, low, high = block_interval(Sums(top, bottom), 0.95, (0.0, 1.0))
        held += low <= 0.8 <= high
        _, low, high = clopper_pearson(int(top.sum()), int(bottom.sum()), 0.95)
        naive += low <= 0.8 <= high
    assert held / 600 > 0.915  # 0.95 less 4.75 standard errors is 0.908
    assert naive / 600 < 0.6


def test_values_of_which_little_is_known_widen_the_interval():
    """A value that two stretches have adds all that is possible; stretches that are all alike are so many trials."""
    rng = np.random.default_rng(0)
    top, bottom = np.full((20, 2), 9.0), np.full((20, 2), 10.0)
    top[:, 0] += rng.integers(-1, 2, 20)
    top[2:, 1] = bottom[2:, 1] = 0.0
    both = block_interval(Sums(top, bottom), 0.95, (0.0, 1.0))
    assert both.value == pytest.approx((top[:, 0].sum() / 200 + 0.9) / 2)
    assert both.low < 0.46
    assert both.high > 0.94
    alike = block_interval(Sums(np.full((12, 1), 5.0), np.full((12, 1), 5.0)), 0.95, (0.0, 1.0))
    assert alike.low == pytest.approx(0.025 ** (1 / 12))
    assert alike.high == 1.0


def test_neighbours_that_know_each_other_count_as_fewer():
    """For a sum of 64 autoregressive stretches the variance comes out nearer to the true one than the plain sum."""
    rng = np.random.default_rng(2)
    sums, plain, whole = [], [], []
    for _ in range(500):
        x = scipy.signal.lfilter([1.0], [1.0, -0.6], rng.standard_normal(200))[-64:]
        sums.append(x.sum())
        plain.append(np.square(x).sum())
        whole.append(long_run_variance(x))
    assert np.mean(plain) < 0.35 * np.var(sums)
    assert 0.6 * np.var(sums) < np.mean(whole) < 1.2 * np.var(sums)
