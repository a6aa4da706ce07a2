"""The estimators of Section II-B: exact moments against the joint Gaussian and simulation, and what is said of them."""

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA, dense

import understudy as us
from understudy.paper import estimates
from understudy.paper import setting as room
from understudy.paper.estimates import SLOW, Setup, misses
from understudy.paper.setting import Settings


@pytest.fixture(scope="module")
def outcome():
    return estimates.compute(Settings(quick=True))


@pytest.mark.parametrize("setup", [Setup(), Setup(window=5), Setup(a=0.5, start=7.0), SLOW], ids=str)
@pytest.mark.parametrize("estimator", estimates.ESTIMATORS)
def test_moments_are_those_of_the_joint_gaussian(setup, estimator):
    """Mean and deviation from the stacked covariance of all 50 readings, written another way."""
    T, noise = 50, 1.0
    system = {"A": setup.a, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 2 * setup.b, "mean0": setup.start, "cov0": 1.0}
    mean, cov = dense(system, T)
    c = np.zeros(T)
    c[T - setup.window - 1 :] = setup.weights(estimator)
    wanted = c @ mean, np.sqrt(c @ (cov + noise * np.eye(T)) @ c)
    np.testing.assert_allclose(setup.moments(estimator, 2, T, noise), wanted, rtol=1e-9)


def test_weights_are_the_estimators_of_the_frame():
    """Linear combinations and means over windows say the same."""
    Y = us.sample(room.room(1), 50, rng=3)
    means = [(Y[k - 10 : k].mean(), Y[k - 11 : k - 1].mean()) for k in range(11, 51)]
    printed = [(now - before) / room.A for now, before in means]
    consistent = [(now - room.A * before) / room.B for now, before in means]
    for estimator, at in (("printed", printed), ("consistent", consistent)):
        np.testing.assert_allclose(Setup().estimate(Y, estimator), at, rtol=1e-9, atol=1e-12)
        assert Setup().last_estimate(Y, estimator) == pytest.approx(at[-1], rel=1e-9)


def test_the_printed_estimator_is_the_slope_and_dies_out():
    """(Y_k - Y_{k-10}) / 9.5; its mean follows the closed form and is gone at reading 1000, whatever b is."""
    Y = us.sample(room.room(1), 50, rng=3)
    assert float(Setup().last_estimate(Y, "printed")) == pytest.approx((Y[49] - Y[39]) / 9.5)
    assert Setup().moments("printed", 1)[0] == pytest.approx(0.95**40 * (1 - 0.95**10) * 100 / 9.5)
    for b in (1.0, 10.0, 1000.0):
        assert abs(Setup(b=b).moments("printed", 2, 1000)[0]) < 1e-9


def test_the_printed_means_for_one_and_two_are_in_one_ratio_at_all_times():
    """3 from X_0 = 100, 2 from X_0 = 0 alone: no window and no reading makes them 1 and 2 from 100."""
    for start, ratio in ((100.0, 3.0), (0.0, 2.0)):
        for window in (5, 10, 20):
            setup = Setup(start=start, window=window)
            for k in (25, 50, 80):
                assert setup.moments("printed", 2, k)[0] / setup.moments("printed", 1, k)[0] == pytest.approx(ratio)


def test_exact_misses_agree_with_simulation(outcome):
    """Two-sided binomial at 1e-6 for all eight together."""
    n = int(outcome.numbers["sequences"])
    for name in [name for name in outcome.numbers if name.endswith("_simulated")]:
        exact = min(outcome.numbers[name.removesuffix("_simulated")], 1.0)
        wrong = round(n * outcome.numbers[name])
        assert scipy.stats.binomtest(wrong, n, exact).pvalue > ALPHA / 8


def test_the_same_comparison_catches_the_wrong_estimator(outcome):
    """The consistent one's misses are not those of the printed one."""
    n = int(outcome.numbers["sequences"])
    wrong = round(n * outcome.numbers["consistent_theta1_raw_misses_simulated"])
    assert scipy.stats.binomtest(wrong, n, outcome.numbers["printed_theta1_raw_misses"]).pvalue < ALPHA / 8


def test_golden_values(outcome):
    """What the text says of both estimators, exactly computed."""
    n = outcome.numbers
    assert n["consistent_theta1_raw_mean"] == pytest.approx(1.0)
    assert n["consistent_theta2_noisy_mean"] == pytest.approx(2.0)
    assert n["consistent_theta1_raw_sd"] == pytest.approx(0.0109202, abs=1e-7)
    assert n["consistent_theta1_noisy_sd"] == pytest.approx(0.0176564, abs=1e-7)
    assert n["printed_theta1_raw_mean"] == pytest.approx(0.5428124, abs=1e-7)
    assert n["printed_theta2_raw_mean"] == pytest.approx(1.6284373, abs=1e-7)
    assert n["printed_theta1_raw_misses"] == pytest.approx(0.3438004, abs=1e-6)
    assert n["slow_printed_theta1_mean"] == pytest.approx(0.9574157, abs=1e-6)
    assert n["printed_b_for_last_reading"] == pytest.approx(9.2112849, abs=1e-6)


def test_misses_of_a_whole_number():
    """Both sides count."""
    assert misses(1.0, 0.5, 1) == pytest.approx(2 * scipy.stats.norm.sf(1.0))


def test_the_disguised_pair():
    """The change is 51.94 in every realisation; the consistent estimator finds 0.6, the printed one neither."""
    for seed in (0, 1):
        n = estimates.compute_disguised(Settings(seed=seed)).numbers
        assert n["mean_change"] == pytest.approx(n["mean_change_exact"]) == pytest.approx(51.9391272, abs=1e-6)
        assert n["consistent_disguised_mean"] == pytest.approx(0.6)
        assert abs(n["consistent_disguised"] - 0.6) < 5 * n["consistent_disguised_sd"]
        assert n["printed_disguised_mean"] == pytest.approx(0.1085625, abs=1e-6)
        assert n["whiteness_under_pseudo"] > ALPHA > n["whiteness_under_true"]
        assert n["round_trip"] < 1e-9
        assert n["kernel_mass_on_pseudo"] == 0.0


def test_figures_are_drawn(outcome):
    """Each on a figure of its own, with units on the axes."""
    for made in (outcome, estimates.compute_disguised(Settings())):
        for draw in made.pictures.values():
            figure = draw()
            figure.canvas.draw()
            assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)


def test_results_are_repeatable():
    """The same seed gives the same numbers, another seed others."""
    first, again, other = (estimates.compute(Settings(seed=s, quick=True)).numbers for s in (1, 1, 2))
    assert first == again
    assert first != other
