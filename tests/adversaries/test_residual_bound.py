"""Rounded readings degrade gradually: the best adversary gains with T what the residual allows, and no more.

The adversary is the exact one. With the pseudo parameter known (nothing is drawn from theta here) it has
the scores. Under each candidate theta the scores decode the rounded readings, and the likelihood of the
scores is the ratio of their true conditional probabilities (a point-mass filter) to those that the
moment-matched filter used. Its error is the mean of the smaller posterior probability.
"""

import numpy as np
import pytest
from scipy import stats

import understudy as us

T, N = 60, 40  # as many as the twin needs
STEP = 4 * 0.5289  # four innovation standard deviations of the rooms below


def room(b):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=b, mean0=20.0 * b, cov0=1.0)


ROOMS = [room(0.3), room(0.55)]


def sensors(method):
    return [us.Quantised(model, step=STEP, method=method) for model in ROOMS]


@pytest.fixture(scope="module")
def posteriors():
    """For each sequence and each length, the posterior probability of the true theta."""
    used, exact = sensors("moments"), sensors("point-mass")
    found = np.empty((N, T))
    for n in range(N):
        theta = n % 2
        Y = us.sample(used[theta], T, rng=1000 + n)
        z = us.whiten(Y, used[theta], rng=n)
        evidence = np.zeros((2, T))
        for candidate in (0, 1):
            model, truth = used[candidate], exact[candidate]
            state, known = model.start(), truth.start()
            for k in range(T):
                law = model.predict(state)
                y = law.value(float(z[k]))
                evidence[candidate, k] = truth.predict(known).logpdf(y) - law.logpdf(y)
                state, known = model.update(state, y), truth.update(known, y)
        gain = np.cumsum(evidence[1 - theta] - evidence[theta])
        found[n] = 1.0 / (1.0 + np.exp(gain))
    return found


@pytest.mark.parametrize("length", [10, 30, T])
def test_the_error_is_within_the_charged_bound(posteriors, length):
    """Error of the exact adversary >= 1/2 - sum_i p_i sqrt(KL_i / 2), to 4.75 standard errors (false alarm 1e-6)."""
    wrong = np.minimum(posteriors, 1.0 - posteriors)[:, length - 1]
    error, spread = wrong.mean(), wrong.std() / np.sqrt(N)
    charged = [model.residual(length, sequences=8, rng=3) for model in sensors("moments")]
    bound = 0.5 - 0.5 * sum(residual.variation for residual in charged)
    assert 0.0 < bound < 0.5
    assert error > bound - stats.norm.isf(1e-6) * spread


def test_the_adversary_does_learn(posteriors):
    """The twin: a claim that nothing leaks (error 1/2 at any length) is refuted, and more is learned as T grows."""
    wrong = np.minimum(posteriors, 1.0 - posteriors)
    early, late = wrong[:, 9], wrong[:, -1]
    assert late.mean() + stats.norm.isf(1e-6) * late.std() / np.sqrt(N) < 0.5
    assert 0.5 - late.mean() > 2.0 * (0.5 - early.mean())
