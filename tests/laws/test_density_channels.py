"""Densities of two and three channels: triangular scores by nested integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import positive
from scipy import special, stats

import understudy as us
from understudy.errors import NumericalError, ReadingError
from understudy.laws.numeric import FromDensity

INF = math.inf
LOG_2PI = math.log(2.0 * math.pi)
Z = np.array([[0.3, -1.2, 2.5, -4.0], [0.7, 1.0, -2.0, 3.0]])


def gaussian(mean, cov):
    """Log-density of a Gaussian vector."""
    mean, root = np.asarray(mean, dtype=float), np.linalg.cholesky(cov)
    constant = 0.5 * mean.size * LOG_2PI + np.log(np.diag(root)).sum()
    return lambda y: -0.5 * (np.linalg.solve(root, y - mean[:, None]) ** 2).sum(axis=0) - constant


def round_bell(y, at):
    """A standard normal pair somewhere else."""
    return -0.5 * ((y[0] - at[0]) ** 2 + (y[1] - at[1]) ** 2) - LOG_2PI


def two_bells(apart):
    """Log-density of two bells, and the scores of its channels one after the other."""

    def logpdf(y):
        return np.logaddexp(math.log(0.3) + round_bell(y, (0, 0)), math.log(0.7) + round_bell(y, (apart, -apart)))

    def scores(y):
        pdf, cdf = stats.norm.pdf, special.ndtr
        first, second = 0.3 * pdf(y[0]), 0.7 * pdf(y[0] - apart)
        share = first / (first + second)
        return special.ndtri(
            [0.3 * cdf(y[0]) + 0.7 * cdf(y[0] - apart), share * cdf(y[1]) + (1.0 - share) * cdf(y[1] + apart)]
        )

    return logpdf, scores


def bent(y):
    """The second channel follows the square of the first."""
    return -0.5 * y[0] ** 2 - 0.5 * ((y[1] - 5.0 * y[0] ** 2) / 0.1) ** 2 - math.log(0.1) - LOG_2PI


def funnel(y):
    """The first channel is the logarithm of the variance of the second."""
    return -0.5 * y[0] ** 2 - 0.5 * y[1] ** 2 * np.exp(-y[0]) - 0.5 * y[0] - LOG_2PI


def waiting(y):
    """The second channel is exponential, its mean the first, which is exponential too."""
    return -y[0] - y[1] / y[0] - np.log(y[0])


SHAPES = {
    "bent": (bent, None, lambda y: [y[0], (y[1] - 5.0 * y[0] ** 2) / 0.1]),
    "funnel": (funnel, None, lambda y: [y[0], y[1] * np.exp(-0.5 * y[0])]),
    "waiting": (
        waiting,
        (0.0, INF),
        lambda y: [special.ndtri_exp(np.log(-np.expm1(-t))) for t in (y[0], y[1] / y[0])],
    ),
    "two bells": (two_bells(5.0)[0], None, two_bells(5.0)[1]),
    "two bells far apart": (two_bells(1000.0)[0], None, two_bells(1000.0)[1]),
    "uniform": (lambda y: np.zeros(y.shape[1]), (0.0, 1.0), special.ndtri),
    "one of each": (lambda y: -0.5 * (y[0] ** 2 + LOG_2PI) - y[1], [(-INF, INF), (0.0, INF)], None),
}


@pytest.mark.sample(default=4, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("name", SHAPES)
def test_two_channels(name):
    """Curved, with two modes, on bounded supports: the known triangular scores, to 1e-9."""
    logpdf, support, scores = SHAPES[name]
    law = FromDensity(logpdf, dim=2, support=support)
    z = Z[:, :2] if name in ("uniform", "two bells far apart") else Z
    y = law.value(z)
    assert np.abs(law.score(y) - z).max() < 1e-9
    if scores is not None:
        assert np.abs(scores(y) - z).max() < 1e-9
    assert np.abs(law.logpdf(y) - logpdf(y)).max() < 1e-9
    assert law.error < law.accuracy


@pytest.mark.long(seconds=6, reason="integrals of two dimensions")
def test_kinks_are_integrated_too():
    """Two Laplace channels, the second around the first."""
    law = FromDensity(lambda y: -np.abs(y[0]) - np.abs(y[1] - y[0]) - math.log(4.0), dim=2)
    y = np.array([0.7, -0.4])
    assert np.abs(law.score(y) - us.Scalar(stats.laplace()).score([0.7, -1.1])).max() < 1e-9


@pytest.mark.sample(default=3, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_gaussian_vectors_of_every_scale(d, scale):
    """The Cholesky map, far from the origin and correlated."""
    rng = np.random.default_rng(d)
    mean, cov = 100.0 * scale * rng.standard_normal(d), scale**2 * positive(rng, d, floor=0.01)
    law, known = FromDensity(gaussian(mean, cov), dim=d), us.Gaussian(mean, cov)
    z = rng.standard_normal(d)
    y = known.value(z)
    assert np.abs(law.score(y) - z).max() < 1e-9
    assert np.abs(law.value(z) - y).max() < 1e-9 * scale
    assert abs(law.logpdf(y) - known.logpdf(y)) < 1e-9


def test_a_number_that_is_integrated_out():
    """A hidden mean: the density of both, the law of the first."""
    law = FromDensity(lambda x: -0.5 * (x[0] - x[1]) ** 2 - 0.5 * x[1] ** 2 - LOG_2PI, dim=1, integrate=1)
    y = np.array([-3.0, 0.1, 7.0])
    assert np.abs(law.score(y) - y / math.sqrt(2.0)).max() < 1e-9
    assert np.abs(law.value(law.score(y)) - y).max() < 1e-9
    assert np.abs(law.logpdf(y) - us.Gaussian(0.0, 2.0).logpdf(y)).max() < 1e-9


def test_far_tails_of_the_first_channel():
    """|z| = 20, without an integral for every look."""
    law = FromDensity(gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]), dim=2)
    z = np.array([20.0, -0.5])
    assert np.abs(law.score(law.value(z)) - z).max() < 1e-7
    assert abs(law.value(z)[0] - 20.0) < 1e-7


def test_missing_channels_and_shapes():
    """NaN stays NaN from the missing channel on; other shapes are refused."""
    law = FromDensity(gaussian([0.0, 0.0], np.eye(2)), dim=2)
    z = law.score([[1.0, np.nan, 2.0], [np.nan, 1.0, 0.5]])
    assert np.array_equal(np.isnan(z), [[False, True, False], [True, True, False]])
    assert np.isnan(law.logpdf([np.nan, 1.0]))
    with pytest.raises(ReadingError, match="2 channels"):
        law.score([1.0, 2.0, 3.0])
    outside = FromDensity(waiting, dim=2, support=(0.0, INF))
    assert outside.logpdf([1.0, -1.0]) == -INF
    with pytest.raises(ReadingError, match="outside the support"):
        outside.score([1.0, -1.0])


@pytest.mark.parametrize(
    ("message", "logpdf"),
    [
        ("does not integrate to 1", lambda y: -0.5 * (y**2).sum(axis=0)),
        ("NaN", lambda y: np.where(y[0] > 1.0, np.nan, round_bell(y, (0, 0)))),
        ("shape", lambda y: y),
        ("raised KeyError", lambda y: {}["a"]),
        ("-inf wherever", lambda y: np.full(y.shape[1], -np.inf)),
    ],
)
def test_faults_are_named(message, logpdf):
    """As for one channel."""
    with pytest.raises(NumericalError, match=message):
        FromDensity(logpdf, dim=2).score([0.5, 0.5])
