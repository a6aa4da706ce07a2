"""Noise addition beside the filter: exact errors against dense oracles and simulations (false alarm 1e-6)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from helpers import ALPHA, dense
from paper_golden import GOLDEN

import understudy as us
from understudy.errors import DesignError
from understudy.paper import noise
from understudy.paper import setting as room
from understudy.paper.setting import Settings
from understudy.report.figures import Line

E = 0.13358602535325897  # the exact error of the best adversary at I_0 = 0.3


@pytest.fixture(scope="module")
def outcome():
    return noise.compute(Settings(quick=True))


def joint(occupants, T, s=0.0):
    return dense(
        {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1 + s * s, "b": 10.0 * occupants, "mean0": 100.0, "cov0": 1.0}, T
    )


def agrees(wrong, n, probability):
    """Whether so many wrong guesses out of n pass for this probability (exact binomial test, false alarm 1e-6)."""
    return scipy.stats.binomtest(int(wrong), n, probability).pvalue > ALPHA


def test_the_numbers_are_the_golden_ones(outcome):
    for name, (value, tolerance) in GOLDEN["noise"].items():
        assert outcome.numbers[name] == pytest.approx(value, abs=tolerance), name


def test_the_reckoning_without_process_noise_was_of_standard_deviations(outcome):
    """443, 1179 and 2809 ppm are standard deviations; exactly they are less by at most 0.01 percent."""
    for T, reckoned in ((50, 443), (200, 1179), (1000, 2809)):
        assert round(outcome.numbers[f"gaussian_sd_neglecting_{T}"]) == reckoned
        exact = outcome.numbers[f"gaussian_sd_{T}"]
        assert 0.9999 * outcome.numbers[f"gaussian_sd_neglecting_{T}"] < exact < reckoned + 0.5
        assert outcome.numbers[f"gaussian_ppm_{T}"] == pytest.approx(exact * math.sqrt(2 / math.pi), rel=1e-12)


@pytest.mark.parametrize("s", [0.0, 1.0, 30.0, 442.6])
def test_separation_is_that_of_the_joint_gaussian(s):
    T = 60
    (mean0, cov), (mean1, _) = joint(0, T, s), joint(1, T, s)
    delta = mean1 - mean0
    np.testing.assert_allclose(noise.effect(T), delta, rtol=1e-12)
    for k in (1, 7, T):
        d2 = delta[:k] @ np.linalg.solve(cov[:k, :k], delta[:k])
        assert noise.separation(T, s)[k - 1] == pytest.approx(math.sqrt(d2), rel=1e-9)


def test_gaussian_noise_is_calibrated():
    s = noise.gaussian_scale(50, E)
    assert noise.wrong(noise.separation(50, s)[-1]) == pytest.approx(E, abs=1e-12)
    assert noise.gaussian_scale(50, 0.3) > s


def test_noise_drawn_once_is_calibrated():
    T = 40
    (mean0, cov), (mean1, _) = joint(0, T), joint(1, T)
    delta, s = mean1 - mean0, noise.once_scale(T, E)
    d2 = delta @ np.linalg.solve(cov + s * s * np.outer(delta, delta), delta)
    assert noise.wrong(math.sqrt(d2)) == pytest.approx(E, abs=1e-9)


def test_a_simulated_likelihood_ratio_is_wrong_as_often_against_gaussian_noise():
    """Binomial test, false alarm 1e-6; its twin takes noise of another strength."""
    T, n, s = 50, 20_000, noise.gaussian_scale(50, E)
    Y = us.sample(noise.noisy(1, s), T, n=n, rng=3)
    wrong = (us.loglik(Y, noise.noisy(0, s)) > us.loglik(Y, noise.noisy(1, s))).sum()
    assert agrees(wrong, n, E)
    Y = us.sample(noise.noisy(1, 1.15 * s), T, n=n, rng=3)
    wrong = (us.loglik(Y, noise.noisy(0, 1.15 * s)) > us.loglik(Y, noise.noisy(1, 1.15 * s))).sum()
    assert not agrees(wrong, n, E)


def test_laplace_error_of_one_reading_is_that_of_a_threshold():
    """One reading: the guess is wrong if the noise exceeds half the effect, exp(-r/2) / 2."""
    for b in (1.0, 10.0, 400.0):
        assert noise.laplace_error(1, b) == pytest.approx(0.5 * math.exp(-5.0 / b), abs=1e-6)


def test_laplace_error_of_two_readings_is_a_double_integral():
    b = 20.0
    r = noise.effect(2) / b

    def rest(x):
        """The density of the first noise times the probability that the second one tips the balance."""
        need = abs(x - r[0]) - abs(x)  # wrong if |y - r| - |y| < -need, a function of y that falls from r to -r
        y = 0.5 * (r[1] + need)
        if abs(need) >= r[1]:
            return 0.5 * math.exp(-abs(x)) * (need < 0.0)
        return 0.5 * math.exp(-abs(x)) * scipy.stats.laplace.sf(y)

    exact = scipy.integrate.quad(rest, -40.0, 40.0, points=[0.0, r[0]], limit=200)[0]
    assert noise.laplace_error(2, b) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("T", "n"), [(10, 100_000), (50, 100_000), (400, 20_000)])
def test_laplace_error_is_that_of_simulated_guesses(T, n):
    """Binomial test, false alarm 1e-6; its twin takes noise of another strength."""
    rng, b = np.random.default_rng(T), noise.laplace_scale(T, E)
    delta, unit = noise.effect(T)[:, None], rng.laplace(size=(T, n))
    assert noise.laplace_error(T, b) == pytest.approx(E, abs=1e-9)

    def wrong(b):
        return ((abs(b * unit - delta) - abs(b * unit)).sum(axis=0) < 0.0).sum()

    assert agrees(wrong(b), n, E)
    assert not agrees(wrong(1.2 * b), n, E)


def test_the_two_adversaries_around_the_best_one_are_close():
    """Who is told more is wrong less often, by too little to see: within five standard errors (false alarm 6e-7)."""
    found = noise.Bracket(50, noise.laplace_scale(50, E), 20_000, np.random.default_rng(0))
    assert agrees(round(found.told * found.n), found.n, E)
    assert abs(found.extra) < 5.0 * found.extra_error
    assert 0.0 <= found.slack < 0.01
    # against noise as weak as the room's own, neglecting that one costs something, and it is seen
    weak = noise.Bracket(1, 2.0, 40_000, np.random.default_rng(0))
    assert weak.extra > 5.0 * weak.extra_error


def test_the_filter_is_as_good_after_one_reading_as_after_many():
    """The best adversary of disguised readings, simulated (binomial, false alarm 1e-6); the twin skips the filter."""
    design = us.design(room.family(), room.PSEUDO, leakage=0.3, horizon=50, distortion="mae")
    assert np.flatnonzero(design.randomizer.kernel.any(axis=0)).tolist() == [0, 5]  # it plays 0 or 1
    assert design.guarantee.bayes_error == pytest.approx(E, rel=1e-13)
    T, n, rng = 3, 40_000, np.random.default_rng(5)
    played = rng.random(n) < E
    Y = us.sample(room.room(1), T, n=n, rng=rng)
    out = np.where(played, us.disguise(Y, room.room(1), room.room(0)), Y)
    guess = us.loglik(out, room.room(1)) > us.loglik(out, room.room(0))
    assert agrees((~guess).sum(), n, noise.filter_error(E, T)[-1])
    guess = us.loglik(Y, room.room(1)) > us.loglik(Y, room.room(0))
    assert not agrees((~guess).sum(), n, noise.filter_error(E, T)[-1])


def test_noise_must_grow_for_ever_and_the_filter_levels_off(outcome):
    n = outcome.numbers
    assert n["filter_ppm_50"] < n["filter_ppm_200"] < n["filter_ppm_1000"] < n["filter_ppm_limit"]
    assert n["filter_ppm_1000"] > 0.98 * n["filter_ppm_limit"]
    for name in ("gaussian", "laplace"):
        # four times as many readings, about twice the noise
        assert noise.gaussian_scale(8000, E) / noise.gaussian_scale(2000, E) == pytest.approx(2.0, rel=0.01)
        assert n[f"{name}_ppm_50"] > 20 * n["filter_ppm_50"]
        assert n[f"{name}_ppm_1000"] > 80 * n["filter_ppm_1000"]
    assert n["laplace_ppm_1000"] / n["gaussian_ppm_1000"] == pytest.approx(math.sqrt(math.pi / 2), rel=0.015)
    assert n["error_gaussian_kept_1000"] < 1e-9 < E * (1.0 - 1e-13) <= n["error_filter_1000"]


def test_the_figure_has_units_and_no_adversary_below_the_filter_line(outcome):
    figure = outcome.pictures["noise"]()
    left, right = figure.axes
    assert left.get_ylabel() == "mean absolute distortion (ppm)"
    assert left.get_xscale() == left.get_yscale() == "log"
    assert (right.lines[0].get_ydata() >= E * (1.0 - 1e-13)).all()
    assert len({(line.get_color(), str(line.get_linestyle())) for line in left.lines}) == 4
    figure.canvas.draw()


def test_lines_that_do_not_fit_are_refused():
    with pytest.raises(DesignError, match="2 points x and 3"):
        Line("noise", [1, 2], [1, 2, 3])
    with pytest.raises(DesignError, match="shape"):
        Line("noise", [], [])
