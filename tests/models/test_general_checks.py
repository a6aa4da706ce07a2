"""Every check that ships with the package, on models that are given by a density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import understudy as us
from understudy.checks import check_model, check_transform
from understudy.errors import CheckError
from understudy.models.general import General

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def quartic():
    """AR(1) whose noise has the density exp(-e^4 / 4), up to a constant."""
    return General(lambda y, past: -((y - 0.5 * past.sum()) ** 4) / 4, memory=1, normalise=True)


def bimodal():
    """Two modes; the last reading says how likely each is."""

    def logpdf(y, past):
        p = special.expit(past[-1])
        up, down = -0.5 * (y - 3.0) ** 2, -0.5 * (y + 3.0) ** 2
        return np.logaddexp(np.log(p) + up, np.log1p(-p) + down) - LOG_SQRT_2PI

    return General(logpdf, initial=us.Gaussian(0.0, 1.0), memory=1)


def positive():
    """Exponential, its mean one plus half the last reading."""

    def logpdf(y, past):
        mean = 1.0 + 0.5 * past.sum()
        return -y / mean - math.log(mean)

    return General(logpdf, memory=1, support=(0.0, math.inf))


def chain():
    """A Gaussian AR(1), as a joint density."""

    def joint(Y):
        e = Y - 0.5 * np.concatenate([np.zeros_like(Y[:1]), Y[:-1]])
        return (-0.5 * e**2 - LOG_SQRT_2PI).sum(axis=0)

    return General(joint=joint)


def pair():
    """Two channels, independent in time: the second follows the square of the first."""

    def logpdf(y, past):
        return -0.5 * y[0] ** 2 - 0.5 * (y[1] - y[0] ** 2) ** 2 - 2.0 * LOG_SQRT_2PI

    return General(logpdf, dim=2, memory=0)


SLOW = pytest.mark.long(seconds=2, reason="quadrature, reading by reading")


@pytest.mark.long(seconds=3, reason="a model of quadratures, checked by simulation")
@pytest.mark.parametrize(
    "make", [chain, *(pytest.param(make, marks=SLOW) for make in (quartic, bimodal, positive, pair))]
)
def test_check_model(make):
    """Every check that ships with the package."""
    report = check_model(make(), T=50)
    assert report.passed


@pytest.mark.sample(default=1, seconds=3, reason="two models, each checked by simulation")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(quartic, bimodal, marks=SLOW),
        (positive, lambda: us.GaussMarkov(0.9, 1.0, 0.1, 0.1)),
        (lambda: us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0)), chain),
    ],
)
def test_check_transform(source, target):
    """A density that was written down plays any other model, and is played by any."""
    assert check_transform(source(), target(), T=50).passed


class Rough(General):
    """Twin: its law scores a reading a little off, so that value does not undo it."""

    def predict(self, state):
        law = super().predict(state)

        class Off:
            dim = 1

            def score(self, y, v=None):
                return law.score(y) + 1e-3 * np.sin(1e3 * np.asarray(y))

            value, logpdf = law.value, law.logpdf

        return Off()


def test_the_checks_catch_a_broken_one():
    """The twin fails, and the report says where."""
    with pytest.raises(CheckError, match="FAIL value undoes score"):
        check_model(Rough(lambda y, past: -0.5 * (y - 0.5 * past.sum()) ** 2 - LOG_SQRT_2PI, memory=1), T=50)
