"""The stationary limit, and long horizons that come to rest early."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_system, room
from scipy import stats

import understudy as us
from understudy.distortion import exact
from understudy.distortion.costs import costs


def family(seed, d, sizes=(1, 2, 4)):
    rng = np.random.default_rng(seed)
    systems = [random_system(rng, n, d, radius=0.8) for n in sizes]
    return us.Family(dict(enumerate(us.GaussMarkov(**system) for system in systems)))


def window(members, first, last, distortion):
    """The mean over readings first+1..last, from two horizons."""
    long, short = (costs(members, horizon=T, distortion=distortion).matrix for T in (last, first))
    return (last * long - first * short) / (last - first)


@pytest.mark.parametrize("distortion", ["mse", "mae"])
@pytest.mark.parametrize("d", [1, 2])
def test_the_limit_is_the_mean_over_a_late_window(d, distortion):
    """After the transients have died out, every reading has the limit's distortion, to 1e-9."""
    members = family(d, d)
    limit = costs(members, distortion=distortion).matrix
    np.testing.assert_allclose(window(members, 400, 600, distortion), limit, rtol=1e-9, atol=0)
    with pytest.raises(AssertionError):  # twin: an early window has not
        np.testing.assert_allclose(window(members, 1, 20, distortion), limit, rtol=1e-9, atol=0)


@pytest.mark.parametrize("distortion", ["mse", "mae"])
def test_a_long_horizon_tends_to_the_limit(distortion):
    """The difference to the limit falls like 1/T, and T times it settles."""
    members = us.Family(lambda v: room(v, A=0.9 + 0.04 * v, R=0.1 + v), values=[0, 0.5, 1])
    limit = costs(members, distortion=distortion).matrix
    gaps = [T * (costs(members, horizon=T, distortion=distortion).matrix - limit) for T in (10**5, 10**9)]
    np.testing.assert_allclose(gaps[0] / 1e5, 0.0, atol=0.02 * limit.max())
    np.testing.assert_allclose(gaps[1] / 1e9, 0.0, atol=1e-6 * limit.max())
    np.testing.assert_allclose(costs(members, horizon=10**12, distortion=distortion).matrix, limit, rtol=1e-9, atol=0)


def test_coming_to_rest_early_changes_nothing(monkeypatch):
    """Stopping once means and covariances rest gives the sum of all steps, to 1e-13."""
    members = us.Family(lambda v: room(v, A=0.5 + 0.45 * v, Q=0.01 + v), values=[0, 0.3, 1])
    found = [costs(members, horizon=3000, distortion=name).matrix for name in ("mse", "mae")]
    monkeypatch.setattr(exact, "_at_rest", lambda *_: False)
    for name, early in zip(("mse", "mae"), found, strict=True):
        np.testing.assert_allclose(costs(members, horizon=3000, distortion=name).matrix, early, rtol=1e-13)


def test_a_start_far_away_dies_out():
    """A mean that decays to zero from a million leaves the right sum: the geometric series."""
    members = us.Family(lambda v: room(0, mean0=v, cov0=0.0), values=[0.0, 1e6])
    found = costs(members, horizon=10**7, distortion="mae").matrix[0, 1]
    assert found == pytest.approx(1e6 * 0.95 / 0.05 / 1e7, rel=1e-12)


def test_the_limit_of_the_mean_reading():
    """C (I - A)^-1 b + d over the prior."""
    members = us.Family(room, values=[0, 1], prior=[0.25, 0.75])
    assert costs(members).mean_reading == pytest.approx(0.75 * 200.0, rel=1e-12)
    assert costs(members, horizon=10**9).mean_reading == pytest.approx(150.0, rel=1e-5)


def test_slow_gains_have_a_limit_too():
    """A Riccati recursion too slow to be tabulated is solved at its end."""
    members = us.Family(lambda v: us.GaussMarkov(1 - 1e-5, 1.0, 1e-13 * (1 + v), 1.0, 0.0), values=[0, 1])
    limit = costs(members).matrix[0, 1]
    sigma = []
    for q in (1e-13, 2e-13):  # scalar Riccati equation, solved as a quadratic: S^2 + S (1 - a^2 - q) - q = 0
        a = 1 - 1e-5
        h = 1 - a * a - q
        sigma.append(2 * q / (h + np.sqrt(h * h + 4 * q)))
    a, (s, t) = 1 - 1e-5, sigma
    # predicted means: x+ = a x + a K L z with K L = S / sqrt(S + 1)
    k, m = (a * v / np.sqrt(v + 1) for v in (s, t))
    expected = (k - m) ** 2 / (1 - a * a) + (np.sqrt(s + 1) - np.sqrt(t + 1)) ** 2
    assert limit == pytest.approx(expected, rel=1e-6)


def test_the_limit_of_an_autoregression_with_student_noise():
    """AR(1) with other coefficients and the same noise: E D^2 from the three geometric sums."""
    law, f, g = us.Scalar(stats.t(5)), 0.5, 0.8
    members = us.Family({v: us.AutoRegressive(v, noise=law, past=0.0) for v in (f, g)})
    expected = 5 / 3 * (1 / (1 - f * f) + 1 / (1 - g * g) - 2 / (1 - f * g))
    assert costs(members).matrix[0, 1] == pytest.approx(expected, rel=1e-9)
    assert costs(members, horizon=10**9).matrix[0, 1] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("radius", [1.0, 1.1])
def test_no_limit_without_stability(radius):
    """Unit roots and unstable models have no stationary limit; the message asks for a horizon."""
    model = us.GaussMarkov(radius, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, allow_unstable=True)
    with pytest.raises(us.errors.DesignError, match="horizon"):
        costs(us.Family({0: model, 1: room(1)}))


def test_no_limit_where_time_matters():
    """A model given per step has no limit, and no distortion beyond its steps."""
    moving = us.GaussMarkov(us.PerStep([0.5, 0.6]), 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    members = us.Family({0: moving, 1: room(1)})
    with pytest.raises(us.errors.DesignError, match="horizon is missing"):
        costs(members)
    with pytest.raises(us.errors.DesignError, match="2 steps"):
        costs(members, horizon=3)
    assert costs(members, horizon=2).matrix.shape == (2, 2)
