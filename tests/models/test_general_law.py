"""Readings that were drawn without the package are white under the right density, and not under another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import is_white
from scipy import special, stats

import understudy as us
from understudy.models.general import General

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
LOG_QUARTIC = math.log(math.sqrt(2.0) * math.gamma(0.25) / 2.0)  # of the integral of exp(-e^4 / 4)

FEW, MANY = 1200, 5000  # the twins but the Gaussian one need few


def quartic(slope):
    """AR(1) whose noise has the density exp(-e^4 / 4)."""

    def logpdf(y, past):
        return -((y - slope * past.sum()) ** 4) / 4 - LOG_QUARTIC

    return General(logpdf, memory=1)


def positive():
    """Exponential, its mean one plus half the last reading."""

    def logpdf(y, past):
        mean = 1.0 + 0.5 * past.sum()
        return -y / mean - math.log(mean)

    return General(logpdf, memory=1, support=(0.0, math.inf))


def quartic_readings(rng, T, slope):
    """Drawn by the gamma law of e^4 / 4."""
    noise = rng.choice([-1.0, 1.0], T) * (4.0 * rng.gamma(0.25, size=T)) ** 0.25
    Y = np.empty(T)
    last = 0.0
    for k in range(T):
        last = Y[k] = slope * last + noise[k]
    return Y


@pytest.mark.parametrize(
    "count", [FEW, pytest.param(MANY, marks=pytest.mark.long(seconds=10, reason="conditional laws by quadrature"))]
)
def test_readings_are_white(count):
    """Under their own density (false alarm 1e-6); as many as it takes to find the twins."""
    Y = quartic_readings(np.random.default_rng(1), count, 0.5)
    assert is_white(us.whiten(Y, quartic(0.5)))


@pytest.mark.parametrize(("wrong", "count"), [("slope", FEW), ("Laplace", FEW), ("Gaussian", MANY)])
def test_under_another_density_they_are_not(wrong, count):
    """Twin: another slope, and noise of another law that has the same variance."""
    Y = quartic_readings(np.random.default_rng(1), count, 0.5)
    spread = math.sqrt(2.0 * math.gamma(0.75) / math.gamma(0.25))
    models = {
        "slope": quartic(0.3),
        "Laplace": us.AutoRegressive(0.5, noise=us.Scalar(stats.laplace(0.0, spread / math.sqrt(2.0)))),
        "Gaussian": us.AutoRegressive(0.5, noise=us.Gaussian(0.0, spread**2)),
    }
    assert not is_white(us.whiten(Y, models[wrong]))


def test_many_short_sequences_of_a_whole_length_density():
    """Three readings pulled together by a joint density, 60 times: the scores of their Cholesky map."""
    precision = np.array([[2.0, -1.0, 0.0], [-1.0, 3.0, -1.0], [0.0, -1.0, 2.0]])
    constant = 0.5 * np.linalg.slogdet(precision)[1] - 3.0 * LOG_SQRT_2PI
    model = General(joint=lambda Y: constant - 0.5 * (Y * (precision @ Y)).sum(axis=0), steps=3)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    Y = root @ np.random.default_rng(2).standard_normal((3, 60))
    z = us.whiten(Y[:, None, :], model)[:, 0, :]
    assert np.abs(z - np.linalg.solve(root, Y)).max() < 1e-9


@pytest.mark.long(seconds=3, reason="conditional laws by quadrature")
def test_the_disguise_has_the_law_of_the_target():
    """Readings drawn without the package, disguised as another density: white under it, not under the source."""
    Y = quartic_readings(np.random.default_rng(3), 800, 0.5)
    out = us.disguise(Y, source=quartic(0.5), target=positive())
    assert (out > 0.0).all()
    # exponential scores by hand: -log(1 - F) = y / mean is a standard exponential
    mean = 1.0 + 0.5 * np.concatenate([[0.0], out[:-1]])
    assert is_white(special.ndtri(-np.expm1(-out / mean)))
    assert not is_white(special.ndtri(-np.expm1(-out / 1.5)))
