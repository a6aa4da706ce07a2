"""The hidden Markov smoother that is learned without models: its mixtures, its features, and what it tells."""

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Smoother
from understudy.adversaries.learners.machine_learning import Hidden, NormalMixture, fit_mixture
from understudy.adversaries.learners.machine_learning import local_features as features


def test_log_densities_of_a_mixture_are_those_of_its_parts():
    """Against scipy's multivariate normal laws."""
    rng = np.random.default_rng(1)
    factors = np.tril(rng.standard_normal((3, 2, 2))) + 2.0 * np.eye(2)
    made = NormalMixture(np.array([0.5, 0.3, 0.2]), rng.standard_normal((3, 2)), factors)
    X = rng.standard_normal((50, 2))
    parts = [w * scipy.stats.multivariate_normal(mu, L @ L.T).pdf(X) for w, mu, L in zip(*made, strict=True)]
    np.testing.assert_allclose(made.logs(X), np.log(np.sum(parts, axis=0)), atol=1e-10)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_a_fitted_mixture_is_as_good_as_that_of_scikit_learn(K):
    """Mean log-density of readings it has not seen, to 0.02 nats; the truth has two components."""
    sklearn = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal([-1.0, 0.5], [0.3, 0.8], (3000, 2)), rng.normal([0.8, -0.4], [0.6, 0.3], (2000, 2))])
    X = rng.permutation(X)
    other = sklearn.GaussianMixture(K, random_state=0, reg_covar=1e-3).fit(X[:2500])
    assert fit_mixture(X[:2500], K).logs(X[2500:]).mean() > other.score(X[2500:]) - 0.02


def test_features_are_levels_differences_and_local_variances():
    """By hand, at a reading in the middle; missing readings have none, and leave their neighbours finite ones."""
    Y = np.random.default_rng(3).standard_normal((200, 2, 2)).cumsum(axis=0)
    X, k = features(Y), 100
    assert X.shape == (2 * 6, 200, 2)
    np.testing.assert_allclose(X[:2, k], Y[k])
    for at, lag in enumerate((1, 4, 16, 48), start=1):
        np.testing.assert_allclose(X[2 * at : 2 * at + 2, k], Y[k + lag] - Y[k - lag])
    curvature = Y[k - 7 : k + 10] - 2.0 * Y[k - 8 : k + 9] + Y[k - 9 : k + 8]
    np.testing.assert_allclose(X[10:, k], np.log(np.square(curvature).mean(axis=0)), atol=0.01)
    Y[k, 0, 0] = np.nan
    missing = np.isnan(features(Y))
    assert missing[:, k, 0].all()
    assert missing.sum() == 12


def moving(seed, T=3000, level=1.0, spread=1.0, length=50):
    """Theta changes every 50 readings or so; it is in the level, or in the noise."""
    rng = np.random.default_rng(seed)
    theta = (np.cumsum(rng.random((T, 2)) < 1.0 / length, axis=0) % 2).astype(np.int64)
    Y = level * theta + rng.standard_normal((T, 2)) * spread**theta
    return Cases(Y[:, None], theta, np.arange(T)[:, None] // 100 * 2 + np.arange(2), 2, False)


FAMILY = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
KNOWN = Knowledge(
    FAMILY, (0, 1), np.eye(2), FAMILY.prior, np.array([[0.98, 0.02], [0.02, 0.98]]), None, None, None, raw=True
)


def right(attack, cases):
    return float((attack.logits(cases).argmax(axis=0) == cases.labels).mean())


@pytest.mark.long(seconds=2, reason="trains on long recordings")
def test_without_models_it_comes_near_who_has_them():
    """A level of one standard deviation: within 3 percent of the smoother with the true models, from 6000 readings."""
    rng = np.random.default_rng(0)
    learn, judge = moving(1), moving(2)
    best = right(Smoother().learn(learn, KNOWN, rng), judge)
    assert best > 0.93
    assert right(Hidden().learn(learn, KNOWN, rng), judge) > best - 0.03


@pytest.mark.long(seconds=1, reason="trains on long recordings")
def test_it_sees_what_is_in_the_noise_alone():
    """The same level, and twice the noise."""
    attack = Hidden().learn(moving(3, level=0.0, spread=2.0), KNOWN, np.random.default_rng(0))
    assert right(attack, moving(4, level=0.0, spread=2.0)) > 0.85


def test_it_finds_nothing_where_there_is_nothing_and_does_not_pretend_to():
    """Labels that have nothing to do with the readings: its odds are no worse than the prior's, by 0.05 nats."""
    learn, judge = moving(5, level=0.0), moving(6, level=0.0)
    logits = Hidden().learn(learn, KNOWN, np.random.default_rng(0)).logits(judge)
    told = np.take_along_axis(logits, judge.labels[None], axis=0).mean()
    assert abs(told + np.log(2.0)) < 0.05


@pytest.mark.long(seconds=1, reason="trains on long recordings")
def test_evidence_that_is_counted_twice_is_cooled():
    """Readings that wander slowly around the level of theta, so that neighbours say the same: far below one."""
    learn = moving(7)
    slow = np.random.default_rng(8).standard_normal((3000, 1, 2)).cumsum(axis=0) * 0.1
    again = Cases(learn.outputs * 0.1 + learn.labels[:, None] + slow, learn.labels, learn.blocks, 2, False)
    assert Hidden().learn(again, KNOWN, np.random.default_rng(0)).temperature < 0.3
