"""One state on a grid: quadrature that agrees with Kalman's recursion and with brute force."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import understudy as us
from understudy.models.nonlinear import Extent, Nonlinear, divergence, fineness, locate, places_of, stretch_grid

RNG = np.random.default_rng(0)


def pair(a=0.9, c=1.0, Q=1.0, R=1.0, b=0.0, d=0.0, mean0=0.0, cov0=1.0, points=200):
    """A linear model as Kalman's recursion and as a grid."""
    exact = us.GaussMarkov(a, c, Q, R, b=b, d=d, mean0=mean0, cov0=cov0, allow_unstable=True)
    grid = Nonlinear(
        lambda x: a * x + b,
        lambda x: c * x + d,
        us.Gaussian(0.0, Q),
        us.Gaussian(0.0, R),
        us.Gaussian(mean0, cov0) if cov0 else mean0,
        method="point-mass",
        points=points,
    )
    return exact, grid


def kitagawa(**changes):
    """Kitagawa's growth model: two modes most of the time."""
    given_ = {"particles": 500, "reading_noise": us.Gaussian(0.0, 1.0), **changes}
    return Nonlinear(
        lambda x, k: 0.5 * x + 25.0 * x / (1.0 + x * x) + 8.0 * np.cos(1.2 * k),
        lambda x: x * x / 20.0,
        us.Gaussian(0.0, 10.0),
        initial=us.Gaussian(0.0, 10.0),
        **given_,
    )


def normal(s):
    """Density and c.d.f. of N(0, s^2)."""
    root = s * math.sqrt(2.0 * math.pi)
    return SimpleNamespace(pdf=lambda e: np.exp(-0.5 * (e / s) ** 2) / root, cdf=lambda e: ndtr(e / s))


def brute_force(model, process, noise, initial, Y, x):
    """Scores by plain sums over one even, fixed, very fine grid that covers everything."""
    move, read = model.system.move, model.system.read
    p = initial.pdf(x)
    p /= p.sum()
    scores = []
    for k, y in enumerate(Y, start=1):
        p = process.pdf(x[:, None] - move.at(k, x)) @ p
        p /= p.sum()
        scores.append(float(ndtri((p * noise.cdf(y - read.at(k, x))).sum())))
        p = p * noise.pdf(y - read.at(k, x))
        p /= p.sum()
    return np.array(scores)


SYSTEMS = {
    "room": {"a": 0.95, "Q": 0.1, "R": 0.1, "b": 10.0, "mean0": 100.0},
    "even": {},
    "sharp sensor": {"a": 0.5, "c": -2.0, "R": 0.001},
    "slow state": {"a": 0.99, "Q": 1e-4},
    "random walk": {"a": 1.0, "R": 1e-3, "mean0": -5.0},
    "growing": {"a": 1.1, "b": 0.1},
    "known start": {"a": -0.7, "c": 3.0, "Q": 2.0, "R": 5.0, "b": 1.0, "d": 2.0, "mean0": 3.0, "cov0": 0.0},
}


@pytest.mark.sample(default=4, seconds=2, reason="many models")
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_linear_model_is_kalmans(name):
    """Scores, log-likelihood and readings to 1e-8, with a gap; the grid is laid anew at every step."""
    exact, grid = pair(**SYSTEMS[name])
    Y = us.sample(exact, 30, rng=np.random.default_rng(1))
    Y[10:13] = np.nan
    z = us.whiten(Y, exact)
    np.testing.assert_allclose(us.whiten(Y, grid), z, atol=1e-8)
    assert us.loglik(Y[:10], grid) == pytest.approx(us.loglik(Y[:10], exact), abs=1e-8)
    np.testing.assert_allclose(us.colour(z, grid), Y, atol=1e-8 * max(1.0, np.nanmax(np.abs(Y))))


@given(st.floats(-1.0, 1.0), st.floats(-1.5, 1.5), st.floats(-1.0, 1.0), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_any_linear_model_is_kalmans(a, log_Q, log_R, seed):
    """Random coefficients, noises from a tenth to ten."""
    exact, grid = pair(a=a, Q=10.0**log_Q, R=10.0**log_R, points=150)
    Y = us.sample(exact, 6, rng=np.random.default_rng(seed))
    np.testing.assert_allclose(us.whiten(Y, grid), us.whiten(Y, exact), atol=1e-8)


@pytest.mark.long(seconds=2, reason="a fixed grid of thousands of points")
@pytest.mark.parametrize(("R", "count"), [(1.0, 1201), (0.01, 4001)])
def test_kitagawa_is_brute_force(R, count):
    """Two modes (with the sharp sensor apart), a slope of 25 at zero: to 1e-8 of a fixed fine grid."""
    model = kitagawa(method="point-mass", reading_noise=us.Gaussian(0.0, R))
    Y = model.simulate(3, rng=4).Y[:, 0, 0]
    wide, narrow = normal(math.sqrt(10.0)), normal(math.sqrt(R))
    expected = brute_force(model, wide, narrow, wide, Y, np.linspace(-60.0, 60.0, count))
    np.testing.assert_allclose(us.whiten(Y, model), expected, atol=1e-8)


def test_other_noises_are_brute_force():
    """Logistic moves, a saturating sensor with Student noise."""
    process, noise = scipy.stats.logistic(scale=0.5), scipy.stats.t(4)
    model = Nonlinear(
        lambda x: 0.8 * x + 1.0,
        lambda x: 5.0 * np.tanh(x / 5.0),
        us.Scalar(process),
        us.Scalar(noise),
        us.Gaussian(2.0, 4.0),
        method="point-mass",
    )
    Y = np.array([4.0, 5.5, 1.0, 12.0])
    initial = SimpleNamespace(pdf=lambda x: normal(2.0).pdf(x - 2.0))
    expected = brute_force(model, process, noise, initial, Y, np.linspace(-35.0, 45.0, 801))
    np.testing.assert_allclose(us.whiten(Y, model), expected, atol=1e-8)


def test_a_heavy_tail_of_the_process_is_covered():
    """Student moves with 3 degrees of freedom: a jump of 1000 is followed, and found by the stretched grid."""
    model = Nonlinear(
        lambda x: x,
        lambda x: x,
        us.Scalar(scipy.stats.t(3)),
        us.Gaussian(0.0, 1.0),
        0.0,
        method="point-mass",
        points=150,
    )
    z = us.whiten([0.5, 1000.0, 1001.0, 1000.5], model)
    assert 5.5 < z[1] < 6.5  # Pr(t_3 > 1000) = 1.1e-9, z = 5.98
    assert np.abs(z[2:]).max() < 1.5


def test_twice_the_points_change_nothing():
    """Its own error, by halving the grid: a divergence below 1e-11 a reading, and the residual says so."""
    model = kitagawa(method="point-mass", points=100)
    found = model.residual(8, sequences=3, rng=1)
    assert 0.0 <= found.kl < 8e-11
    assert found.charged < 1e-8
    assert "200 points" in found.how
    # a grid that is too coarse for a sharp sensor is told from a fine one
    _, coarse = pair(c=100.0, R=1e-4, points=20)
    assert coarse.residual(4, sequences=2, rng=1).per_reading > 1e-4


def test_an_outlier_moves_the_grid():
    """Fifteen deviations out the state goes where Kalman's goes, and the next scores are his to 0.01."""
    exact, grid = pair()
    Y = [0.3, -0.2, 25.0, 22.0, 20.0]
    np.testing.assert_allclose(us.whiten(Y, grid)[3:], us.whiten(Y, exact)[3:], atol=0.01)
    # the outlier itself lies beyond the grid and is measured against the reading noise: finite, and too large
    assert us.whiten(Y, exact)[2] < us.whiten(Y, grid)[2] < 30.0


def test_nothing_is_random():
    """Seed and key change no bit."""
    one, two = kitagawa(method="point-mass", seed=1), kitagawa(method="point-mass", seed=2).with_key(b"k" * 32)
    assert np.array_equal(us.whiten([1.0, 5.0, 2.0], one), us.whiten([1.0, 5.0, 2.0], two))


def test_members_of_a_family_share_their_state():
    """Theta_k enters the step into x_k: a state goes from one member to the other, as Kalman's does."""
    members = [pair(b=shift) for shift in (0.0, 3.0)]
    path = [0, 1, 1, 0]
    states = [member.start() for member in members[0]]
    for theta, y in zip(path, [0.3, 2.5, 4.0, 3.0], strict=True):
        kalman, grid = members[theta]
        laws = kalman.predict(states[0]), grid.predict(states[1])
        assert laws[1].score(y) == pytest.approx(float(laws[0].score(y)), abs=1e-8)
        states = [kalman.update(states[0], y), grid.update(states[1], y)]


@pytest.mark.long(seconds=3, reason="quadrature, reading by reading")
def test_check_model():
    """Every check that ships with the package."""
    assert us.checks.check_model(pair(points=40)[1], T=50).passed


def test_two_channels_of_one_state():
    """A grid serves readings of several channels: two sensors of one state, against Kalman."""
    R = np.array([[0.5, 0.1], [0.1, 0.2]])
    exact = us.GaussMarkov(0.9, [[1.0], [-2.0]], 1.0, R, mean0=0.0, cov0=1.0)
    grid = Nonlinear(
        lambda x: 0.9 * x,
        lambda x: np.stack([x, -2.0 * x]),
        us.Gaussian(0.0, 1.0),
        us.Gaussian([0.0, 0.0], R),
        us.Gaussian(0.0, 1.0),
        method="point-mass",
    )
    Y = us.sample(exact, 12, rng=np.random.default_rng(3))
    np.testing.assert_allclose(us.whiten(Y, grid), us.whiten(Y, exact), atol=1e-8)


# The tools -----------------------------------------------------------------------------------------


def test_the_stretched_grid_integrates_narrow_and_wide():
    """A normal and a Cauchy density on the same 200 points: to 1e-12, and to the tail left out."""
    x, log_cells = stretch_grid(Extent(-4.0, 4.0, -1e9, 1e9), 200)
    assert (scipy.stats.norm.pdf(x) * np.exp(log_cells)).sum() == pytest.approx(1.0, abs=1e-12)
    assert (scipy.stats.cauchy.pdf(x) * np.exp(log_cells)).sum() == pytest.approx(1.0, abs=1e-8)


def test_a_density_is_found():
    """From a bad guess; a density of zero is not found; two peaks on a grid are two places."""
    found = locate(lambda x: -0.5 * ((x - 90.0) / 0.1) ** 2, Extent(-1.0, 1.0, -3.0, 3.0))
    assert 88.0 < found.far_low < found.low < 90.0 < found.high < found.far_high < 92.0
    assert locate(lambda x: np.full(x.size, -np.inf), Extent(-1.0, 1.0, -3.0, 3.0)) is None
    x = np.linspace(0.0, 100.0, 2001)
    two_peaks = np.logaddexp(-0.5 * ((x - 30.0) / 0.1) ** 2, -20.0 - 0.5 * ((x - 60.0) / 0.2) ** 2)
    places = places_of(x, two_peaks)
    assert [round(place.low + place.high) for place in places] == [60, 120]
    assert len(places_of(x, -0.5 * ((x - 30.0) / 3.0) ** 2)) == 1


def test_fineness_counts_where_there_is_mass():
    """A coarse step in an empty tail costs nothing; one in the middle does."""
    x = np.linspace(-12.0, 12.0, 200)
    steps = np.where(np.abs(x[1:]) > 8.0, 100.0, 0.1)
    assert fineness(-0.5 * x * x, steps) == 1.0
    assert fineness(-0.5 * x * x, steps[::-1] * 0.0 + 3.0) > 3.0
    assert fineness(-0.5 * (10.0 * x) ** 2, 0.0 * steps) > 1.2


@pytest.mark.parametrize("m", [1e-8, 0.3, 4.0])
def test_divergence_is_the_closed_form(m):
    """KL(N(0, 1) || N(m, 1)) = m^2 / 2, down to 1e-16."""
    p, q = (pair()[1].system.law(1, np.array([x]), np.zeros(1)) for x in (0.0, m))
    assert divergence(p, q, RNG) == pytest.approx(0.5 * m * m, rel=1e-6)


def test_the_state_is_a_value():
    """Read-only arrays that survive a deep copy, and go on to the same bits."""
    model = kitagawa(method="point-mass")
    state = model.update(model.start(), 3.0)
    assert not state.points.flags.writeable
    assert not state.log_weights.flags.writeable
    twin = copy.deepcopy(state)
    after, again = model.update(state, 1.0), model.update(twin, 1.0)
    assert np.array_equal(after.points, again.points)
    assert np.array_equal(after.log_weights, again.log_weights)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial": [0.0, 0.0], "process_noise": us.Gaussian([0.0, 0.0], np.eye(2))}, "one state"),
        ({"move": lambda x, noise: x * noise}, "noise that is added"),
        ({"points": 5}, "points = 5"),
        ({"process_noise": us.Scalar(scipy.stats.cauchy(scale=1e300))}, "quantiles"),
    ],
)
def test_what_a_grid_cannot_do_is_refused(changes, message):
    """Several states, noise that is not added, too few points, tails beyond float64."""
    given_ = {
        "move": lambda x: 0.5 * x,
        "read": lambda x: x if x.ndim == 1 else x[0],
        "process_noise": us.Gaussian(0.0, 1.0),
        "reading_noise": us.Gaussian(0.0, 1.0),
        "initial": 0.0,
        "method": "point-mass",
    }
    with pytest.raises(us.errors.ModelError, match=message):
        Nonlinear(**{**given_, **changes})
