"""Noise moved to many places: exact scores, their inverse, channels in a triangle."""

from __future__ import annotations

import copy
import math
import pickle

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtri

import understudy as us
from understudy.laws.multivariate import ReadingNoise, ShiftedMixture

NOISES = {
    "normal": us.Gaussian(0.3, 0.5),
    "student": us.Scalar(scipy.stats.t(3, scale=0.7)),
    "skewed": us.Scalar(scipy.stats.gamma(2.5, scale=0.4)),
}


def mixture(noise, N=40, seed=0, spread=3.0):
    """N random places with random weights."""
    rng = np.random.default_rng(seed)
    shifts = spread * rng.standard_normal(N if noise.dim == 1 else (noise.dim, N))
    weights = rng.gamma(0.5, size=N)
    return ShiftedMixture(shifts, np.log(weights / weights.sum()), ReadingNoise(noise))


@pytest.mark.sample(default=2, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("name", NOISES)
def test_score_is_the_integral_of_the_density(name):
    """Oracle: F(y) by adaptive quadrature of sum_i w_i f(y - m_i), with f from scipy."""
    noise, law = NOISES[name], mixture(NOISES[name])
    frozen = scipy.stats.norm(0.3, math.sqrt(0.5)) if name == "normal" else noise.dist

    def density(y):
        return float(np.exp(law.log_weights) @ frozen.pdf(y - law.shifts[0]))

    for z in (-0.8, 1.2):
        y = law.value(z)
        assert law.logpdf(y) == pytest.approx(math.log(density(y)), abs=1e-12)
        # the lower tail, from well below any place
        breaks = np.sort(law.shifts[0])[::8]
        area = sum(
            scipy.integrate.quad(density, a, b, limit=200)[0]
            for a, b in zip([-np.inf, *breaks[breaks < y]], [*breaks[breaks < y], y], strict=True)
        )
        assert float(ndtri(area)) == pytest.approx(z, abs=2e-7)


@pytest.mark.parametrize("z", [-30.0, -9.0, 12.0, 36.0, 45.0])
def test_far_tails_agree_with_many_digits(z):
    """Scores far beyond where a c.d.f. saturates, against mpmath with 60 digits."""
    law = mixture(NOISES["normal"], N=6)
    y = law.value(z)
    with mpmath.workdps(60):
        sign = 1 if z < 0 else -1
        terms = [
            mpmath.e ** mpmath.mpf(float(w))
            * mpmath.ncdf(sign * (mpmath.mpf(y) - mpmath.mpf(m) - 0.3) / mpmath.sqrt(0.5))
            for w, m in zip(law.log_weights, law.shifts[0].tolist(), strict=True)
        ]
        log_tail = float(mpmath.log(mpmath.fsum(terms)))
    assert float(log_ndtr(-abs(law.score(y)))) == pytest.approx(log_tail, rel=1e-11)
    assert law.score(y) == pytest.approx(z, rel=1e-12)


@given(st.floats(-8.0, 8.0), st.integers(0, 50), st.sampled_from(sorted(NOISES)), st.floats(0.01, 30.0))
@settings(max_examples=60, deadline=None)
def test_value_undoes_score(z, seed, name, spread):
    """For any weights and places, gaps between the places included."""
    law = mixture(NOISES[name], N=7, seed=seed, spread=spread)
    assert law.score(law.value(z)) == pytest.approx(z, abs=1e-9)


def test_arrays_are_worked_on_element_by_element():
    """Any shape for one channel; NaN stays NaN."""
    law = mixture(NOISES["normal"])
    y = np.array([[0.0, 1.0, np.nan], [-2.0, 3.0, 0.5]])
    z = law.score(y)
    assert z.shape == (2, 3)
    assert np.isnan(z[0, 2])
    assert z[1, 1] == pytest.approx(law.score(3.0), abs=1e-13)
    np.testing.assert_allclose(law.value(z), y, atol=1e-10)
    assert law.logpdf(y).shape == (2, 3)


def test_channels_are_conditional_on_those_before():
    """Oracle: the conditional c.d.f. of the second channel as a ratio of sums of bivariate normals."""
    cov = np.array([[0.5, 0.3], [0.3, 0.9]])
    law = mixture(us.Gaussian([0.1, -0.2], cov), N=5, spread=1.0)
    y = np.array([0.7, -0.4])
    means = law.shifts.T + np.array([0.1, -0.2])
    w = np.exp(law.log_weights)
    first = (w * scipy.stats.norm.cdf(y[0], means[:, 0], math.sqrt(0.5))).sum()
    # given y_1, part i is normal with mean m_2 + 0.3 / 0.5 (y_1 - m_1) and variance 0.9 - 0.3^2 / 0.5
    posterior = w * scipy.stats.norm.pdf(y[0], means[:, 0], math.sqrt(0.5))
    posterior /= posterior.sum()
    centre = means[:, 1] + 0.6 * (y[0] - means[:, 0])
    second = (posterior * scipy.stats.norm.cdf(y[1], centre, math.sqrt(0.9 - 0.18))).sum()
    np.testing.assert_allclose(law.score(y), ndtri([first, second]), atol=1e-12)
    np.testing.assert_allclose(law.value(law.score(y)), y, atol=1e-12)
    joint = sum(wi * scipy.stats.multivariate_normal.pdf(y, m, cov) for wi, m in zip(w, means, strict=True))
    assert law.logpdf(y) == pytest.approx(math.log(joint), abs=1e-12)


def test_independent_channels_share_their_weights():
    """One normal and one Laplace channel: together they are not independent, since the place is common."""
    noise = us.Independent(us.Gaussian(0.0, 0.2), us.Scalar(scipy.stats.laplace(scale=0.5)))
    law = mixture(noise, N=8)
    z = np.random.default_rng(1).standard_normal((2, 50))
    y = law.value(z)
    np.testing.assert_allclose(law.score(y), z, atol=1e-10)
    assert law.logpdf(y).shape == (50,)
    alone = ShiftedMixture(law.shifts[1], law.log_weights, ReadingNoise(noise.laws[1]))
    assert np.abs(law.score(y)[1] - alone.score(y[1])).max() > 0.1


def test_noise_with_an_end():
    """Exponential noise: parts beyond the reading count nothing, and a reading below all of them is refused."""
    law = ShiftedMixture(np.array([0.0, 10.0]), np.log([0.5, 0.5]), ReadingNoise(us.Scalar(scipy.stats.expon())))
    assert law.score(5.0) == pytest.approx(float(ndtri(0.5 * -math.expm1(-5.0))), abs=1e-12)
    assert law.value(law.score(10.5)) == pytest.approx(10.5, abs=1e-9)
    assert law.logpdf(-1.0) == -math.inf
    with pytest.raises(us.errors.ReadingError, match="outside the support"):
        law.score(-1.0)


def test_values_are_copied_and_show_nothing():
    """Copies give the same scores; neither law nor noise shows a number of its own."""
    law = mixture(NOISES["student"])
    for twin in (copy.deepcopy(law), pickle.loads(pickle.dumps(law))):  # noqa: S301  # our own bytes
        assert twin.score(0.5) == law.score(0.5)
    assert repr(law) == "ShiftedMixture(40 points, dim=1)"
    assert repr(law.noise) == "ReadingNoise(dim=1)"
    with pytest.raises(AttributeError):
        law.dim = 2


def test_other_vector_noise_is_refused():
    """Its conditional laws are not known here."""
    with pytest.raises(us.errors.LawError, match="Gaussian or Independent"):
        ReadingNoise(us.Scalar(scipy.stats.t(3, scale=[1.0, 2.0])))
