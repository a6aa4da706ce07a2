"""The trade-off: golden values, an oracle written another way, and the simulated points (false alarm 1e-6)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from helpers import ALPHA
from paper_golden import GOLDEN

import understudy as us
from understudy.paper import setting as room
from understudy.paper import tradeoff
from understudy.paper.setting import Settings

DELTA = 200.0 * (1.0 - 0.95 ** np.arange(1, 51))  # b (1 - a^k) / (1 - a): what one person adds to reading k


@pytest.fixture(scope="module")
def outcome():
    return tradeoff.compute(Settings(quick=True))


def flip(leakage):
    """The probability with ln 2 - h(e) = leakage."""
    if leakage in (0.0, math.log(2.0)):
        return 0.5 if leakage == 0.0 else 0.0

    def told(e):
        return math.log(2.0) + e * math.log(e) + (1 - e) * math.log(1 - e)

    return scipy.optimize.brentq(lambda e: told(e) - leakage, 1e-12, 0.5 - 1e-12, xtol=1e-14)


def test_the_numbers_are_the_golden_ones(outcome):
    for name, (value, tolerance) in GOLDEN["tradeoff"].items():
        assert outcome.numbers[name] == pytest.approx(value, abs=tolerance), name


def test_the_whole_curve_is_there():
    assert len(tradeoff.LEAKAGES) >= 60
    assert tradeoff.LEAKAGES[0] == 0.0
    assert tradeoff.LEAKAGES[-1] == math.log(2.0)
    assert list(tradeoff.LEAKAGES) == sorted(set(tradeoff.LEAKAGES))


def test_absolute_distortion_is_a_flip_of_the_right_probability(outcome):
    """With two values and costs that are linear between them, a binary symmetric channel is the optimum."""
    for leakage in tradeoff.LEAKAGES:
        found = outcome.numbers[f"absolute_percent_at_{tradeoff._word(leakage)}"]
        assert found == pytest.approx(flip(leakage) * DELTA.mean(), abs=1e-6), leakage


def test_squared_distortion_is_that_of_the_best_constant_where_nothing_may_be_told(outcome):
    """Nothing told: the better of the constants 0.4 and 0.6 costs (0.16 + 0.36) / 2 of the mean square."""
    found = outcome.numbers["squared_rms_percent_at_0.00"]
    assert found == pytest.approx(math.sqrt(0.26 * np.square(DELTA).mean()), rel=1e-9)
    flipping = math.sqrt(flip(0.3) * np.square(DELTA).mean())
    assert outcome.numbers["squared_rms_percent_at_0.30"] < flipping


def test_the_simulated_points_lie_on_the_curve(outcome):
    """Chi-square over all points, false alarm 1e-6."""
    assert outcome.numbers["absolute_check_p"] > ALPHA
    assert outcome.numbers["squared_check_p"] > ALPHA


def test_the_same_check_catches_a_curve_that_is_a_little_off():
    curve = us.frontier(room.family(), room.PSEUDO, horizon=50, distortion="mae", leakages=tradeoff.LEAKAGES)
    found = tradeoff.check(curve, np.random.default_rng(0), quick=True)
    assert tradeoff.agreement(found.exact, found.mean, found.error) > ALPHA
    assert tradeoff.agreement(1.06 * found.exact, found.mean, found.error) < ALPHA
    # where nothing is left to chance, nothing may differ
    assert tradeoff.agreement(found.exact + np.array([0, 0, 0, 0, 1e-6]), found.mean, found.error) == 0.0


def test_the_check_alarms_as_rarely_as_it_says():
    """Normal deviations of the stated size: p-values are uniform (Kolmogorov-Smirnov, false alarm 1e-6)."""
    rng = np.random.default_rng(1)
    zero, one = np.zeros(8), np.ones(8)
    p = [tradeoff.agreement(zero, rng.standard_normal(8), one) for _ in range(2000)]
    assert scipy.stats.kstest(p, "uniform").pvalue > ALPHA
    p = [tradeoff.agreement(zero, rng.standard_normal(8), 0.8 * one) for _ in range(2000)]
    assert scipy.stats.kstest(p, "uniform").pvalue < ALPHA


def test_seeds_decide_the_simulation(outcome):
    again = tradeoff.compute(Settings(quick=True))
    assert again.numbers == outcome.numbers


def test_the_figure_has_units_and_both_scales(outcome):
    figure = outcome.pictures["tradeoff"]()
    left, right = figure.axes
    assert left.get_ylabel() == "mean absolute distortion, % of the mean reading"
    assert right.get_ylabel() == "mean squared distortion (ppm²)"
    beside = [child for child in right.child_axes if "root mean square" in child.get_ylabel()]
    assert len(beside) == 1
    figure.canvas.draw()
