"""AutoRegressive: against the dense joint Gaussian, and against the recursion written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA, dense_scores, is_white, positive, same_bits, white_pvalue, with_gaps

import understudy as us

SCALAR = {1: [0.8], 2: [0.5, -0.3], 3: [0.4, 0.2, -0.5], 4: [0.3, -0.2, 0.1, 0.4]}


def joint(Phi, intercept, S, past, T):
    """Mean and covariance of the readings: the recursion as one linear system B Y = c + E."""
    p, d = Phi.shape[:2]
    B, c = np.eye(T * d), np.tile(intercept, T)
    for k in range(T):
        rows = slice(k * d, (k + 1) * d)
        for i in range(p):
            if k - i - 1 >= 0:
                B[rows, (k - i - 1) * d : (k - i) * d] = -Phi[i]
            else:
                c[rows] = c[rows] + Phi[i] @ past[i - k]
    inverse = np.linalg.inv(B)
    return inverse @ c, inverse @ np.kron(np.eye(T), S) @ inverse.T


def agrees(model, Phi, intercept, S, past, T=40, seed=0):
    """Scores and log-likelihood of one draw against the joint law, without and with gaps."""
    rng = np.random.default_rng([141, seed])
    d = Phi.shape[1]
    mean, cov = joint(Phi, intercept, S, past, T)
    Y = (mean + np.linalg.cholesky(cov) @ rng.standard_normal(T * d)).reshape(T, d)
    for readings in (Y, with_gaps(rng, Y)):
        z, loglik = dense_scores(readings, mean, cov)
        assert np.nanmax(np.abs(us.whiten(readings, model) - z)) < 1e-9
        assert us.loglik(readings, model) == pytest.approx(loglik, rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("order", SCALAR)
def test_scalar_gaussian_against_the_joint_law(order):
    """Orders 1 to 4, a given past, a noise mean and an intercept, with and without gaps."""
    past = np.arange(1.0, order + 1)
    model = us.AutoRegressive(SCALAR[order], 2.0, us.Gaussian(0.5, 1.7), past=past)
    Phi = np.array(SCALAR[order]).reshape(-1, 1, 1)
    agrees(model, Phi, np.array([2.5]), np.array([[1.7]]), past[:, None], seed=order)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_vector_gaussian_against_the_joint_law(order):
    """Two channels, full matrices, correlated noise."""
    rng = np.random.default_rng([142, order])
    Phi = rng.standard_normal((order, 2, 2)) * 0.25 / order
    S, past, intercept = positive(rng, 2, floor=0.2), rng.standard_normal((order, 2)), np.array([1.0, -2.0])
    model = us.AutoRegressive(Phi, intercept, us.Gaussian([0.1, 0.2], S), past=past)
    agrees(model, Phi, intercept + np.array([0.1, 0.2]), S, past, seed=order)


@pytest.mark.sample(default=4, seconds=2, reason="many models")
@pytest.mark.parametrize("order", SCALAR)
@pytest.mark.parametrize("df", [2.5, 4.0])
def test_student_noise_against_the_recursion(order, df):
    """z_k = Phi^-1(F(y_k - yhat_k)), with scipy's own functions in the middle of the law."""
    phi = SCALAR[order]
    model = us.AutoRegressive(phi, 1.0, us.Scalar(scipy.stats.t(df, scale=1.5)), past=np.zeros(order))
    Y = us.sample(model, 300, rng=143)
    past, expected, loglik = [0.0] * order, [], 0.0
    for y in Y.tolist():
        e = y - 1.0 - sum(p * q for p, q in zip(phi, past, strict=True))
        tail = scipy.stats.t.sf(abs(e), df, scale=1.5)
        expected.append(np.sign(e) * scipy.stats.norm.isf(tail))
        loglik += scipy.stats.t.logpdf(e, df, scale=1.5)
        past = [y, *past[:-1]]
    assert np.max(np.abs(us.whiten(Y, model) - expected)) < 1e-9
    assert us.loglik(Y, model) == pytest.approx(loglik, rel=1e-12)


def test_the_quick_path_is_the_four_methods():
    """Student-t noise: the four methods give the scores and values of the vectorised path."""
    model = us.AutoRegressive([0.5, -0.2], 3.0, us.Scalar(scipy.stats.t(3)), past=[1.0, 4.0])
    z = np.random.default_rng(144).standard_normal(200)
    Y = us.colour(z, model)
    state, values, scores = model.start(), [], []
    for k in range(200):
        law = model.predict(state)
        values.append(law.value(z[k]))
        scores.append(law.score(Y[k]))
        state = model.update(state, Y[k])
    assert np.allclose(values, Y, rtol=1e-12, atol=1e-12)
    assert np.allclose(scores, us.whiten(Y, model), rtol=1e-9, atol=1e-11)


def test_vector_noise_with_independent_channels():
    """A vector model with one Student-t and one Laplace channel, against the recursion."""
    noise = us.Independent(us.Scalar(scipy.stats.t(4)), us.Scalar(scipy.stats.laplace(0.0, 2.0)))
    Phi = np.array([[[0.5, 0.2], [-0.1, 0.3]]])
    model = us.AutoRegressive(Phi, [1.0, 2.0], noise, past=[[3.0, 4.0]])
    Y = us.sample(model, 100, rng=145)
    E = Y - [1.0, 2.0] - np.vstack([[3.0, 4.0], Y[:-1]]) @ Phi[0].T
    expected = np.stack([scipy.stats.norm.isf(scipy.stats.t.sf(E[:, 0], 4)), noise.score(E.T)[1]], axis=1)
    assert np.max(np.abs(us.whiten(Y, model) - expected)) < 1e-8
    total = scipy.stats.t.logpdf(E[:, 0], 4).sum() + scipy.stats.laplace.logpdf(E[:, 1], 0.0, 2.0).sum()
    assert us.loglik(Y, model) == pytest.approx(total, rel=1e-12)


def test_the_default_past_is_the_level_at_rest():
    """Noise-free, a model started there stays there."""
    model = us.AutoRegressive([0.5, -0.2], 7.0, us.Gaussian(0.0, 1.0))
    assert np.allclose(us.colour(np.zeros(20), model)[0], 10.0, rtol=1e-12)
    vector = us.AutoRegressive([np.diag([0.5, 0.2])], [1.0, 4.0], us.Gaussian([0.0, 0.0], np.eye(2)))
    assert np.allclose(vector.past, [[2.0, 5.0]])


def test_the_default_past_counts_the_mean_of_the_noise():
    """A noise law of mean 3 is an intercept of 3: the same resting level, the same model."""
    a = us.AutoRegressive(0.5, 1.0, us.Gaussian(3.0, 1.0))
    b = us.AutoRegressive(0.5, 4.0, us.Gaussian(0.0, 1.0))
    assert np.max(np.abs(us.colour(np.zeros(10), a) - us.colour(np.zeros(10), b))) < 1e-12


def test_unit_roots_and_unstable_models():
    """A random walk needs its past; growth has to be asked for by name."""
    walk = us.AutoRegressive(1.0, 0.0, us.Gaussian(0.0, 4.0), past=10.0)
    assert np.allclose(us.whiten([12.0, 10.0], walk), [1.0, -1.0])
    growing = us.AutoRegressive(1.5, 0.0, us.Gaussian(0.0, 1.0), past=1.0, allow_unstable=True)
    assert np.allclose(us.whiten([1.5, 2.25, 4.375], growing), [0.0, 0.0, 1.0])


def test_values_are_frozen():
    """Coefficients, intercept and past are read-only copies."""
    phi = np.array([0.5, 0.1])
    model = us.AutoRegressive(phi, 1.0, us.Gaussian(0.0, 1.0))
    phi[0] = 9.0
    assert model.coefficients[0, 0, 0] == 0.5
    for array in (model.coefficients, model.intercept, model.past):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_scores_of_a_student_disguise_are_white():
    """Student-t AR(2) to AR(1): white under the target (false alarm 1e-6), not under the source."""
    source = us.AutoRegressive([0.5, 0.3], 1.0, us.Scalar(scipy.stats.t(3)))
    target = us.AutoRegressive(-0.4, 0.0, us.Scalar(scipy.stats.t(8, scale=2.0)))
    out = us.disguise(us.sample(source, 20_000, rng=146), source, target)
    assert is_white(us.whiten(out, target))
    assert white_pvalue(us.whiten(out, source)) < ALPHA


def test_many_sensors_of_a_student_autoregression():
    """(T, 1, N) is each sensor by itself."""
    model = us.AutoRegressive([0.5, 0.3], 1.0, us.Scalar(scipy.stats.t(3)))
    Y = us.sample(model, 50, n=4, rng=147)
    z = us.whiten(Y, model)
    totals = us.loglik(Y, model)
    for j in range(4):
        assert same_bits(z[:, 0, j], us.whiten(Y[:, 0, j], model))
        assert totals[j] == us.loglik(Y[:, 0, j], model)
