"""Readings far out pass through finite and correct, and are forgotten (design 4.2)."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from helpers import room

import understudy as us


@pytest.mark.parametrize("far", [8.0, 8.3, 12.0, 40.0, -40.0, 1e6])
def test_a_gaussian_reading_far_out_is_exact(far):
    """`far` standard deviations under the source become `far` standard deviations under the target."""
    source, target = room(1), room(0.2, Q=0.5, R=0.3)
    transform = us.Transform(source, target)
    law, target_law = source.predict(source.start()), target.predict(target.start())
    _, out = transform.step(transform.start(), law.value(far))
    assert out == pytest.approx(target_law.value(far), rel=1e-12)


def test_a_gaussian_vector_far_out_is_exact():
    """The same with correlated channels, 40 standard deviations out in each."""
    S = np.array([[2.0, 1.2], [1.2, 1.5]])
    source, target = us.IID(us.Gaussian([5.0, 1.0], S)), us.IID(us.Gaussian([0.0, 3.0], S[::-1, ::-1]))
    z = np.array([[40.0, -40.0]])
    assert np.allclose(us.whiten(us.colour(z, source), source), z, rtol=1e-12)
    out = us.disguise(us.colour(z, source), source, target)
    assert np.allclose(us.whiten(out, target), z, rtol=1e-12)


def student_tail(z, df):
    """The value that a Student-t law exceeds with probability Phi(-z), in 60 digits."""
    with mpmath.workdps(60):
        tail = mpmath.erfc(z / mpmath.sqrt(2)) / 2

        def log_sf(log_x):
            x = mpmath.exp(log_x)
            return mpmath.log(mpmath.betainc(df / 2, 0.5, 0, df / (df + x * x), regularized=True) / 2)

        start = -mpmath.log(tail) / df
        return float(mpmath.exp(mpmath.findroot(lambda u: log_sf(u) - mpmath.log(tail), start)))


@pytest.mark.parametrize("far", [5.0, 12.0, 25.0, 40.0])
def test_a_gaussian_source_and_a_student_autoregressive_target(far):
    """A reading `far` standard deviations out comes out at the same tail probability of the Student-t law."""
    df = 3.0
    source = room(1)
    target = us.AutoRegressive([0.5, 0.1], 2.0, us.Scalar(scipy.stats.t(df)), past=[1.0, -1.0])
    y = source.predict(source.start()).value(far)
    expected = 2.0 + 0.5 * 1.0 - 0.1 * 1.0 + student_tail(far, df)
    (out,) = us.disguise([y], source, target)
    assert out == pytest.approx(expected, rel=1e-9)
    assert us.disguise([out], target, source)[0] == pytest.approx(y, rel=1e-9)


def literal(Y, source, target):
    """The paper's filter as printed: u = Phi((y - yhat) / s), ~y = ~yhat + ~s Phi^-1(u)."""
    a, b = source.start(), target.start()
    out = []
    for y in Y:
        law, target_law = source.predict(a), target.predict(b)
        u = scipy.stats.norm.cdf(y, law.mean, math.sqrt(law.cov))
        out.append(float(scipy.stats.norm.ppf(u, target_law._mean, target_law._scale)))
        a = source.update(a, y)
        if not math.isfinite(out[-1]):
            return out + [out[-1] * 0.0] * (len(Y) - len(out))  # inf - inf from here on
        b = target.update(b, out[-1])
    return out


def spiked():
    """Readings of the room with one spike of 12 innovation standard deviations at number 50."""
    source = room(1)
    Y = us.sample(source, 200, rng=101)
    state = source.start()
    for y in Y[:50]:
        state = source.update(state, y)
    Y[50] = source.predict(state).value(12.0)
    return Y, us.sample(source, 200, rng=101)


def test_a_literal_filter_never_recovers_from_a_spike():
    """Twin: through cdf and ppf the output is infinite at the spike, and not a number ever after."""
    Y, _ = spiked()
    out = np.array(literal(Y, room(1), room(0.4)))
    assert np.isfinite(out[:50]).all()
    assert np.max(np.abs(out[:50] - us.disguise(Y[:50], room(1), room(0.4)))) < 1e-6
    assert not np.isfinite(out[50:]).any()


def test_a_literal_filter_fed_its_own_infinity_stays_lost():
    """Twin: a textbook update with an infinite output is lost for good; the case is not contrived."""
    target = room(0.4)
    with np.errstate(invalid="ignore"):
        state = target.update(target.start(), math.inf)
        for _ in range(5):
            assert not np.isfinite(state.mean).any()
            state = target.update(state, 100.0)


def test_ours_returns_to_normal_after_a_spike():
    """Everything is finite, and a hundred readings later the spike has left no trace above 1e-9."""
    Y, calm = spiked()
    out, without = us.disguise(Y, room(1), room(0.4)), us.disguise(calm, room(1), room(0.4))
    assert np.isfinite(out).all()
    assert abs(out[50] - without[50]) > 1.0
    assert np.max(np.abs(out[150:] - without[150:])) < 1e-9


def test_scores_are_the_normal_quantiles_where_those_still_exist():
    """In the middle, z = Phi^-1(F(y)) by the usual functions gives the same scores."""
    y = np.linspace(-20, 30, 101)
    law = scipy.stats.logistic(2.0, 3.0)
    z = us.whiten(y, us.IID(us.Scalar(law)))
    assert np.max(np.abs(z - scipy.special.ndtri(law.cdf(y)))) < 1e-9
