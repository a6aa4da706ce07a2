"""Causal designs around the decision: budgets of a day, paths, figures, and what their tools refuse."""

from __future__ import annotations

import copy
import math

import pytest
from causal_cases import ALPHA, HAMMING, STAY, bits, room_design
from memory_cases import FixedKernel, compare_memory, errors, plot_memory
from oracles.causal_dynamic import Corners, Dynamic
from scipy.stats import norm

from understudy.errors import DesignError
from understudy.randomizer.causal import at_most, design_causal, path_distortion, per_day, true_distortion, was_ever
from understudy.randomizer.causal_guarantee import Beliefs, long_run, play


@pytest.fixture(scope="module")
def made():
    return room_design()


def test_budgets_of_a_day(made):
    """Nats a day over the day's decisions, and back."""
    assert at_most(2.4, 96) == pytest.approx(0.025)
    day = per_day(made, 96)
    assert day["nats a day"] == pytest.approx(96 * 0.05, rel=1e-8)
    assert day["bits a day"] == pytest.approx(day["nats a day"] / math.log(2.0))
    assert day["nats on the first day"] > day["nats a day"]
    for wrong in (0, -1, math.inf, True, "96"):
        with pytest.raises(DesignError, match="decisions_per_day"):
            at_most(1.0, wrong)
    with pytest.raises(DesignError, match="a day"):
        at_most("10%", 96)


def test_a_question_about_an_hour_gets_harder_with_less_rate():
    """Was anyone in: accuracy between that of a blind guess and certainty, growing with the rate."""
    seen = [
        was_ever(design_causal(bits(), STAY, rate=rate, distortion=HAMMING), [1], (40, 44), 96, 200, rng=1)
        for rate in (0.0, 0.01, 0.1, 1.0)
    ]
    assert [x.seeing for x in seen] == sorted(x.seeing for x in seen)
    assert seen[0].seeing == pytest.approx(seen[0].blind, abs=1e-12)
    assert seen[-1].seeing == pytest.approx(1.0)
    made = design_causal(bits(), STAY, rate=0.01, distortion=HAMMING)
    for values, window in (([], (0, 1)), ([0, 1], (0, 1)), ([1], (5, 5)), ([1], (-1, 2)), ([1], (0, 97))):
        with pytest.raises(DesignError):
            was_ever(made, values, window, 96)


def test_paths_need_a_distortion_and_equal_lengths(made):
    """A design from bare costs does not know what readings cost."""
    bare = design_causal(bits(), STAY, slope=1.0, distortion=HAMMING)
    with pytest.raises(DesignError, match="say which distortion"):
        path_distortion(bare, [0], [1])
    assert path_distortion(bare, [0, 0], [0, 1], "mae")[0] == pytest.approx(0.5)
    for theta, pseudo in (([0], [0, 1]), ([], [])):
        with pytest.raises(DesignError, match="as many"):
            path_distortion(made, theta, pseudo)
    with pytest.raises(DesignError, match="paths = 1"):
        true_distortion(made, 5, 1)


def test_wrong_sizes_are_refused():
    """Adversaries, kernels without memory, dynamic programs and comparisons say what they need."""
    beliefs = Beliefs([0.5, 0.5], STAY, HAMMING, 1.0)
    with pytest.raises(DesignError, match="margin"):
        errors(beliefs, 10, 5, margin=5)
    with pytest.raises(DesignError, match="kernel has shape"):
        FixedKernel([0.5, 0.5], STAY, HAMMING, [[1.0], [1.0]])
    for args in (([1.0], [[1.0]], [[0.0, 1.0]]), ([0.5, 0.5], [STAY, STAY], HAMMING)):
        with pytest.raises(DesignError, match="two values"):
            Dynamic(*args, slope=1.0)
    with pytest.raises(DesignError, match="as many pseudo values"):
        Corners([0.5, 0.5], STAY, [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]], 1.0)
    with pytest.raises(DesignError, match="out of the hull"):
        Corners([0.5, 0.5], [[0.1, 0.9], [0.9, 0.1]], HAMMING, 1.0, corners=[[0.55, 0.45], [0.5, 0.5]])
    with pytest.raises(ValueError, match="flip"):
        compare_memory(0.5)


def test_the_figure_has_three_panels():
    """Trade-off, errors at equal leakage, errors at equal distortion; one line a way and adversary."""
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot as plt

    found = compare_memory(0.05, flips_of_draws=(0.1, 0.3), steps=60, sequences=5)
    drawn = plot_memory(found)
    assert [len(ax.lines) for ax in drawn] == [3, 6, 6]
    plt.close("all")


def test_one_pseudo_value_and_one_kernel():
    """A single column tells nothing at any slope; kernels without memory survive a copy."""
    made = design_causal(bits(), STAY, [0], slope=5.0, distortion=[[1.0], [2.0]])
    assert made.rate == 0.0
    assert made.distortion == pytest.approx(1.5)
    fixed = FixedKernel([0.5, 0.5], STAY, HAMMING, [[0.75, 0.25], [0.25, 0.75]])
    twin = copy.deepcopy(fixed)
    assert (twin.kernel((0.1, 0.9)) == fixed.kernel((0.5, 0.5))).all()


def test_draws_without_memory_at_two_times_of_day():
    """A grid of beliefs for each matrix: rate and distortion agree with simulation (false alarm 1e-6)."""
    beliefs = FixedKernel([0.5, 0.5], [STAY, [[0.6, 0.4], [0.3, 0.7]]], HAMMING, [[0.8, 0.2], [0.3, 0.7]])
    found = long_run(beliefs)
    assert found.how == "grid"
    played, Z = play(beliefs, 400, 300, rng=5), float(norm.isf(ALPHA / 2))
    for series, value in ((played.charges, found.rate), (played.costs, found.distortion)):
        each = series[100:].mean(axis=0)
        assert abs(each.mean() - value) < Z * each.std(ddof=1) / math.sqrt(each.size) + 1e-6
    # the matrices in one order are not those in the other: the mean over a turn is, each decision is not
    even, odd = (played.charges[100 + k :: 2].mean() for k in range(2))
    assert abs(even - odd) > 1e-3
