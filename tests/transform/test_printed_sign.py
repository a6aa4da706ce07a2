"""Lemma 1 as printed has a MINUS where the conditional mean needs a PLUS: a wrong law (design 4.3)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import is_white, white_pvalue

import understudy as us

T = 8_000


def model(seed, correlation):
    """Two channels with correlated noise, two states."""
    rng = np.random.default_rng([91, seed])
    return us.GaussMarkov(
        A=np.diag([0.7, 0.3]), C=rng.standard_normal((2, 2)), Q=np.eye(2), b=rng.standard_normal(2),
        R=np.array([[1.0, correlation], [correlation, 1.0]]),
    )  # fmt: skip


SOURCE, TARGET = model(1, 0.8), model(2, -0.6)


def predictor(model):
    """The Kalman predictor, written out: yields (yhat, S), is sent y."""
    A, b, Q, C, d, R = model.at(1)
    x, P = A @ model.mean0 + b, A @ model.cov0 @ A.T + Q
    while True:
        S = C @ P @ C.T + R
        y = yield C @ x + d, S
        K = A @ P @ C.T @ np.linalg.inv(S)
        x, P = A @ x + b + K @ (y - C @ x - d), A @ P @ A.T + Q - K @ S @ K.T


def lemma_1(Y, source, target, sign):
    """Theorem 4 channel by channel: mu^l = yhat^l + sign Delta S^-1 (y - yhat), the printed sign being -1.

    The paper's u = F(y, mu, sigma) and F^-1 cancel to z = (y - mu) / sqrt(sigma) for Gaussian laws.
    """
    inside, outside = predictor(source), predictor(target)
    (yhat, S), (yhat_t, S_t) = next(inside), next(outside)
    out = np.empty_like(Y)
    for k, y in enumerate(Y):
        for channel in range(2):
            z = _score(y, yhat, S, channel, sign)
            mean, sd = _conditional(out[k], yhat_t, S_t, channel, sign)
            out[k, channel] = mean + sd * z
        yhat, S = inside.send(y)
        yhat_t, S_t = outside.send(out[k])
    return out


def _conditional(y, yhat, S, channel, sign):
    """Mean and standard deviation of channel l given the channels before it (equation MV)."""
    if channel == 0:
        return yhat[0], np.sqrt(S[0, 0])
    delta, before = S[1, 0], S[0, 0]
    return yhat[1] + sign * delta / before * (y[0] - yhat[0]), np.sqrt(S[1, 1] - delta * delta / before)


def _score(y, yhat, S, channel, sign):
    mean, sd = _conditional(y, yhat, S, channel, sign)
    return (y[channel] - mean) / sd


@pytest.fixture(scope="module")
def readings():
    return us.sample(SOURCE, T, rng=92)


@pytest.fixture(scope="module")
def plus(readings):
    """Lemma 1 with the sign put right."""
    return lemma_1(readings, SOURCE, TARGET, +1.0)


def test_the_plus_version_is_ours(readings, plus):
    """Lemma 1 with the sign put right gives our output to 1e-9."""
    assert np.max(np.abs(plus - us.disguise(readings, SOURCE, TARGET))) < 1e-9


def test_ours_has_the_law_of_the_target(readings, plus):
    """Scores of our output, and of the PLUS version, are white under the target (false alarm 1e-6)."""
    assert is_white(us.whiten(us.disguise(readings, SOURCE, TARGET), TARGET))
    assert is_white(us.whiten(plus, TARGET))


def test_the_printed_sign_has_another_law(readings):
    """Twin: Lemma 1 as printed fails the same test, and not by a little."""
    assert white_pvalue(us.whiten(lemma_1(readings, SOURCE, TARGET, -1.0), TARGET)) < 1e-100


def test_the_whiteness_test_sees_the_wrong_model(readings):
    """Twin: scores of the output under the source fail too."""
    assert not is_white(us.whiten(us.disguise(readings, SOURCE, TARGET), SOURCE))
