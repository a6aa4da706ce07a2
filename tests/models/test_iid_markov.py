"""IID and Markov: scores by their definition, time dependence, gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from helpers import room, same_bits

import understudy as us
from understudy.errors import MissingReadingError, ReadingError


def test_iid_scores_are_those_of_the_law():
    """Each reading by itself, gaps left alone."""
    law = us.Scalar(scipy.stats.gamma(3.0))
    Y = np.array([0.5, 2.0, np.nan, 7.0])
    expected = [law.score(0.5), law.score(2.0), np.nan, law.score(7.0)]
    assert np.allclose(us.whiten(Y, us.IID(law)), expected, rtol=1e-12, equal_nan=True)
    total = scipy.stats.gamma.logpdf([0.5, 2.0, 7.0], 3.0).sum()
    assert us.loglik(Y, us.IID(law)) == pytest.approx(total, rel=1e-13)


def test_iid_vectors_agree_with_a_constant_gauss_markov():
    """A Gaussian vector law, and the Gauss-Markov model with nothing but measurement noise, are one law."""
    S = np.array([[2.0, 0.7, 0.1], [0.7, 1.0, -0.2], [0.1, -0.2, 0.5]])
    mean = np.array([1.0, 2.0, 3.0])
    iid = us.IID(us.Gaussian(mean, S))
    linear = us.GaussMarkov(0.0, np.zeros((3, 1)), 0.0, S, d=mean, mean0=0.0, cov0=0.0)
    Y = us.sample(iid, 100, rng=151)
    Y[[3, 50]] = np.nan
    assert np.nanmax(np.abs(us.whiten(Y, iid) - us.whiten(Y, linear))) < 1e-12
    assert us.loglik(Y, iid) == pytest.approx(us.loglik(Y, linear), rel=1e-12)


def test_iid_refuses_readings_outside_the_support():
    """A negative reading of a positive law has no score; the error names the position, not the reading."""
    with pytest.raises(ReadingError, match=r"position 1.*support") as caught:
        us.whiten([1.0, -3.875, 2.0], us.IID(us.Scalar(scipy.stats.expon())))
    assert "3.875" not in str(caught.value)


def heteroscedastic(y):
    return us.Gaussian(1.0 + 0.5 * y, 1.0 + 0.25 * y * y)


def test_markov_scores_by_their_definition():
    """z_1 under the initial law, z_k under transition(y_{k-1})."""
    model = us.Markov(us.Gaussian(2.0, 4.0), heteroscedastic)
    Y = us.sample(model, 50, rng=152)
    previous, expected = None, []
    for y in Y:
        mean, variance = (2.0, 4.0) if previous is None else (1.0 + 0.5 * previous, 1.0 + 0.25 * previous**2)
        expected.append((y - mean) / math.sqrt(variance))
        previous = y
    assert np.allclose(us.whiten(Y, model), expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(us.colour(us.whiten(Y, model), model), Y, rtol=1e-12, atol=1e-12)


def test_markov_with_a_linear_transition_is_an_autoregression():
    """The same law written as AutoRegressive gives the same scores and log-likelihood."""
    markov = us.Markov(us.Gaussian(2.5, 2.0), lambda y: us.Gaussian(1.0 + 0.5 * y, 2.0))
    auto = us.AutoRegressive(0.5, 1.0, us.Gaussian(0.0, 2.0), past=3.0)
    Y = us.sample(auto, 100, rng=153)
    assert np.max(np.abs(us.whiten(Y, markov) - us.whiten(Y, auto))) < 1e-11
    assert us.loglik(Y, markov) == pytest.approx(us.loglik(Y, auto), rel=1e-12)


@pytest.mark.parametrize("form", ["lambda", "default", "star", "method"])
def test_a_transition_may_take_k(form):
    """K is the number of the reading whose law is asked for: 2 at the first call."""
    seen = []

    def law(y, k):
        seen.append(k)
        return us.Gaussian(0.0, float(k))

    class Clock:
        def at(self, y, k):
            return law(y, k)

    forms = {
        "lambda": lambda y, k: law(y, k),
        "default": lambda y, k=None: law(y, k),
        "star": lambda *a: law(*a),
    }
    model = us.Markov(us.Gaussian(0.0, 1.0), forms.get(form, Clock().at))
    z = us.whiten([1.0, 1.0, 1.0, 1.0], model)
    assert seen == [2, 3, 4]
    assert np.allclose(z, [1.0, 1 / math.sqrt(2), 1 / math.sqrt(3), 0.5])


def ar_gap(y, steps):
    """The law `steps` after y of y_k = 0.5 y_{k-1} + e_k, e_k ~ N(0, 1), y_0 = 0."""
    variance = sum(0.25**i for i in range(steps))
    return us.Gaussian(0.0 if y is None else 0.5**steps * y, variance)


def test_a_gap_law_makes_missing_readings_exact():
    """With gap= the model agrees with the Gaussian autoregression across any gap, one at the start too."""
    markov = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0), gap=ar_gap)
    auto = us.AutoRegressive(0.5, 0.0, us.Gaussian(0.0, 1.0), past=0.0)
    Y = us.sample(auto, 60, rng=154)
    Y[[0, 1, 10, 20, 21, 22, 59]] = np.nan
    assert np.nanmax(np.abs(us.whiten(Y, markov) - us.whiten(Y, auto))) < 1e-12
    assert us.loglik(Y, markov) == pytest.approx(us.loglik(Y, auto), rel=1e-12)
    out = us.disguise(Y, markov, room(0))
    assert same_bits(np.isnan(out), np.isnan(Y))


def test_a_gap_law_may_take_k():
    """gap(y_last, steps, k): y_last is None when no reading was seen yet."""
    seen = []

    def gap(y, steps, k):
        seen.append((y, steps, k))
        return us.Gaussian(0.0, 1.0)

    model = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(y, 1.0), gap=gap)
    us.whiten([None, None, 5.0, 6.0, None, 7.0], model)
    assert seen == [(None, 3, 3), (6.0, 2, 6)]


def test_without_a_gap_law_a_missing_reading_is_refused():
    """The message names the reading and what would help."""
    model = us.Markov(us.Gaussian(0.0, 1.0), heteroscedastic)
    for readings in ([1.0, None, 2.0], [1.0, None]):
        with pytest.raises(MissingReadingError, match=r"reading number 2.*gap="):
            us.whiten(readings, model)


def test_markov_vectors():
    """Two channels whose covariance depends on the past."""

    def transition(y):
        c = 0.9 * math.tanh(y[0])
        return us.Gaussian(0.5 * np.asarray(y), [[1.0, c], [c, 1.0]])

    model = us.Markov(us.Gaussian([0.0, 0.0], np.eye(2)), transition)
    Y = us.sample(model, 40, rng=155)
    state, expected = model.start(), []
    for y in Y:
        law = model.predict(state)
        expected.append(np.linalg.solve(np.linalg.cholesky(law.cov), y - law.mean))
        state = model.update(state, y)
    assert np.max(np.abs(us.whiten(Y, model) - expected)) < 1e-11
