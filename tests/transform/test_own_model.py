"""A user's own model, with nothing but `dim` and the four methods, passes through everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import OwnGaussMarkov, random_system, room, stepwise

import understudy as us


class OwnLaw:
    """A user's own law: three methods, no `dim`."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def score(self, y, v=None):
        return (y - self.mean) / self.sd

    def value(self, z):
        return self.mean + self.sd * z

    def logpdf(self, y):
        return -0.5 * self.score(y) ** 2 - math.log(self.sd * math.sqrt(2 * math.pi))


class Kalman:
    """A scalar Kalman predictor written from scratch, state (mean, variance)."""

    dim = 1

    def __init__(self, a, b, q, r):
        self.a, self.b, self.q, self.r = a, b, q, r

    def start(self):
        return (100.0, 1.0)

    def _ahead(self, state):
        return self.a * state[0] + self.b, self.a**2 * state[1] + self.q

    def predict(self, state):
        x, p = self._ahead(state)
        return OwnLaw(x, math.sqrt(p + self.r))

    def update(self, state, y):
        x, p = self._ahead(state)
        gain = p / (p + self.r)
        return x + gain * (y - x), (1 - gain) * p

    def skip(self, state):
        return self._ahead(state)


def scratch(occupants):
    return Kalman(0.95, 10.0 * occupants, 0.1, 0.1)


VECTOR = [us.GaussMarkov(**random_system(np.random.default_rng([161, k]), 3, 2)) for k in range(2)]
PAIRS = {
    "scalar from scratch": ((scratch(1), scratch(0.4)), (room(1), room(0.4))),
    "scalar wrapped": ((OwnGaussMarkov(room(1)), OwnGaussMarkov(room(0.4))), (room(1), room(0.4))),
    "vector wrapped": ((OwnGaussMarkov(VECTOR[0]), OwnGaussMarkov(VECTOR[1])), tuple(VECTOR)),
}


@pytest.fixture(params=PAIRS)
def case(request):
    """Own pair, built-in pair, readings with gaps."""
    own, built_in = PAIRS[request.param]
    Y = us.sample(built_in[0], 120, rng=162)
    Y[[0, 40, 41, 42, 119]] = np.nan
    return own, built_in, Y


def near(a, b):
    """Equal to 1e-10, missing where the other is missing."""
    return np.allclose(a, b, rtol=1e-10, atol=1e-10, equal_nan=True)


def test_whiten_colour_and_loglik(case):
    """The same scores, readings and log-likelihood as the built-in model."""
    (own, _), (built_in, _), Y = case
    z = us.whiten(Y, own)
    assert near(z, us.whiten(Y, built_in))
    assert near(us.colour(z, own), Y)
    assert us.loglik(Y, own) == pytest.approx(us.loglik(Y, built_in), rel=1e-11)


def test_disguise_in_every_combination(case):
    """Own to own, own to built-in, built-in to own."""
    own, built_in, Y = case
    expected = us.disguise(Y, *built_in)
    assert near(us.disguise(Y, *own), expected)
    assert near(us.disguise(Y, own[0], built_in[1]), expected)
    assert near(us.disguise(Y, built_in[0], own[1]), expected)


def test_step_and_apply(case):
    """The Transform of own models, one reading at a time and in chunks."""
    own, built_in, Y = case
    transform = us.Transform(*own)
    _, steps = stepwise(transform, Y)
    assert near(steps, us.disguise(Y, *built_in))
    state, first = transform.apply(transform.start(), Y[:50])
    _, second = transform.apply(state, Y[50:])
    assert np.array_equal(np.concatenate((first, second)), steps, equal_nan=True)


def test_samples(case):
    """The same seed gives the same readings."""
    (own, _), (built_in, _), _ = case
    assert near(us.sample(own, 60, n=3, rng=163), us.sample(built_in, 60, n=3, rng=163))


def test_many_sensors(case):
    """(T, d, N), with log-likelihoods for each sensor."""
    own, built_in, _ = case
    Y = us.sample(built_in[0], 40, n=3, rng=164)
    Y[5, :, 1] = np.nan
    assert near(us.disguise(Y, *own), us.disguise(Y, *built_in))
    assert near(us.loglik(Y, own[0]), us.loglik(Y, built_in[0]))


def test_a_family_of_own_models_along_a_path():
    """family.along(path) of own models is that of the built-in ones."""
    path = [0, 0, 1, 1, 0.5] * 20
    own, built_in = us.Family(scratch, values=[0, 1]).along(path), us.Family(room, values=[0, 1]).along(path)
    Y = us.sample(built_in, 100, rng=165)
    Y[30:34] = np.nan
    assert near(us.whiten(Y, own), us.whiten(Y, built_in))
    assert near(us.disguise(Y, own, room(0)), us.disguise(Y, built_in, room(0)))


def test_an_own_law_serves_the_built_in_models():
    """A law of three methods is enough for IID and Markov."""
    Y = np.array([1.0, 2.0, -1.0])
    assert near(us.whiten(Y, us.IID(OwnLaw(1.0, 2.0))), us.whiten(Y, us.IID(us.Gaussian(1.0, 4.0))))
    own = us.Markov(OwnLaw(0.0, 1.0), lambda y: OwnLaw(0.5 * y, 2.0))
    built_in = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 4.0))
    assert near(us.whiten(Y, own), us.whiten(Y, built_in))


def test_a_model_with_its_own_emit():
    """`emit` is asked for the reading, so a model can feed back something else than what it releases."""

    class Rounded(Kalman):
        def emit(self, state, z):
            y = self.predict(state).value(z)
            return self.update(state, y), float(round(y))

    z = np.random.default_rng(166).standard_normal(50)
    rounded = us.colour(z, Rounded(0.95, 10.0, 0.1, 0.1))
    assert np.array_equal(rounded, np.round(us.colour(z, scratch(1))))


def test_a_law_of_the_wrong_size_is_refused():
    """A law that gives two numbers for a model of one channel is an error, not an output."""

    class Wrong(Kalman):
        def predict(self, state):
            return OwnLaw(np.zeros(2), 1.0)

    with pytest.raises(us.errors.UnderstudyError, match="channels"):
        us.colour([[0.5]], Wrong(0.9, 0.0, 1.0, 1.0))
