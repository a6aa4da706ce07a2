"""The stranger's Kalman filter: right by another route, content with disguised readings, not with noisy ones."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import dense, dense_scores
from scipy import stats

from understudy.paper.examples import office
from understudy.paper.examples import simulate as simulated
from understudy.paper.noise import Check, checks, kalman
from understudy.paper.noise import compute_downstream as compute
from understudy.paper.setting import FALSE_ALARM, Settings


@pytest.fixture(scope="module")
def found():
    return checks(Settings())


def test_the_filter_is_the_joint_gaussian():
    """Its scores are those of one big Cholesky of the joint covariance, three channels and four states."""
    model = office(True)
    Y = simulated(model, 12, 2, np.random.default_rng(0))
    scores, nis = kalman(Y, model)
    system = {name: getattr(model, name) for name in ("A", "C", "Q", "R", "b", "d", "mean0", "cov0")}
    z, _ = dense_scores(Y[:, :, 1], *dense(system, 12))
    assert scores[:, :, 1] == pytest.approx(z, abs=1e-9)
    assert nis[:, 1] == pytest.approx(np.square(z).sum(axis=1), rel=1e-9)


def test_consistent_on_disguised_readings_under_the_pseudo_model(found):
    """NIS, bounds and whiteness, 100,000 readings (false alarm 1e-6)."""
    check = found["disguised"]
    assert check.scores.size >= 100_000
    assert check.p_value > FALSE_ALARM
    assert check.consistent
    assert check.mean_nis == pytest.approx(1.0, abs=0.02)
    assert check.outside == pytest.approx(0.05, abs=0.004)


def test_scores_of_disguised_readings_are_those_of_the_raw_ones(found):
    """The filter hands the same z from one predictor to the other."""
    assert found["disguised"].scores == pytest.approx(found["raw"].scores, abs=1e-8)


@pytest.mark.parametrize("name", ["wrong_model", "laplace", "gaussian", "laplace_unit", "gaussian_unit"])
def test_not_consistent_under_the_wrong_model_or_after_noise(found, name):
    """The twins: each of the three tests alone refuses, at 1e-6."""
    check = found[name]
    assert not check.consistent
    assert max(check.p_nis, check.p_outside, check.p_white) < FALSE_ALARM


def test_told_the_variance_gaussian_noise_passes_and_laplace_noise_does_not(found):
    """No Gaussian model has the law of Laplace noise; the sum of NIS alone would not show it."""
    assert found["gaussian_told"].consistent
    assert found["laplace_told"].p_nis > FALSE_ALARM
    assert found["laplace_told"].p_outside < FALSE_ALARM


@pytest.mark.parametrize("dim", [1, 3])
def test_p_values_are_uniform_under_a_right_model(dim):
    """Of 300 white streams, the number below 0.1 is binomial for each test (false alarm 1e-6)."""
    rng = np.random.default_rng(5)
    below = np.zeros(3)
    for _ in range(300):
        z = rng.standard_normal((100, dim, 20))
        check = Check("", "", z, np.square(z).sum(axis=1))
        below += np.array([check.p_nis, check.p_outside, check.p_white]) < 0.1
    few, many = stats.binom.ppf([FALSE_ALARM / 6.0, 1.0 - FALSE_ALARM / 6.0], 300, 0.1)
    assert (below >= few).all()
    assert (below <= many).all()


def test_a_correlation_of_three_percent_is_seen():
    """The portmanteau alone, with 100,000 readings of the right spread."""
    rng = np.random.default_rng(6)
    e = rng.standard_normal((501, 1, 200))
    z = (e[1:] + 0.03 * e[:-1]) / np.sqrt(1.0 + 0.03**2)
    check = Check("", "", z, np.square(z[:, 0]))
    assert check.p_nis > FALSE_ALARM
    assert check.p_white < FALSE_ALARM


def test_outcome():
    """Numbers for every stream, a verdict each, a figure with units."""
    outcome = compute(Settings(quick=True))
    (table,) = outcome.tables
    assert [row[-1] for row in table.rows[:4]] == ["consistent", "consistent", "not consistent", "not consistent"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert outcome.numbers["readings"] == 8000
    figure = outcome.pictures["downstream"]()
    assert all(ax.get_xlabel() for ax in figure.axes)
