"""Autoregressive fits: least squares and Student-t likelihood against oracles, recovery, gaps, roots, bad samples."""

import numpy as np
import pytest
import scipy.stats
from identify_cases import changed, history_of, labels, simulated, total

import understudy as us
from understudy.errors import ConfigurationError, ModelError
from understudy.identify.candidates import lags as lagged
from understudy.identify.candidates import rows_of, start_law
from understudy.identify.candidates.autoregressive import Likelihood, fit_autoregression, student_regression
from understudy.identify.selection import log_densities


def normal_models():
    return {v: us.AutoRegressive([0.6, 0.3], 5.0 + 2.0 * v, us.Gaussian(0.0, 1.0 + 3.0 * v)) for v in (0, 1)}


def student_models(nu=(3.0, 6.0)):
    return {
        v: us.AutoRegressive([0.9], 4.0 + v, us.Scalar(scipy.stats.t(nu[v], loc=0.0, scale=1.0 + v))) for v in (0, 1)
    }


def test_separate_coefficients_are_least_squares_of_each_value():
    """Without robustness, `by_class` is ordinary least squares on the rows of each value with both predecessors."""
    history = simulated(normal_models(), [700, 500], seed=1)
    fit = fit_autoregression(history, order=2, by_class=True, robust=False)
    for v in (0, 1):
        X, y = [], []
        for segment in history.segments:
            for k in range(2, len(segment)):
                if segment.theta[k] == v:
                    X.append([segment.Y[k - 1, 0], segment.Y[k - 2, 0], 1.0])
                    y.append(segment.Y[k, 0])
        best, rest = np.linalg.lstsq(np.array(X), np.array(y), rcond=None)[:2]
        np.testing.assert_allclose(
            [*fit.parameters["coefficients"][v], fit.parameters["intercept"][v]], best, rtol=1e-7
        )
        assert fit.parameters["covariance"][v] == pytest.approx(rest.item() / len(y), rel=1e-6)


def conditional(history, coefficients, intercept, variance):
    """The conditional log-likelihood, written out."""
    value = 0.0
    for segment in history.segments:
        y = segment.Y[:, 0]
        p = len(coefficients)
        mean = np.array(intercept)[segment.theta[p:]]
        for lag, a in enumerate(coefficients, start=1):
            mean = mean + a * y[p - lag : len(y) - lag]
        value += scipy.stats.norm.logpdf(y[p:], mean, np.sqrt(np.array(variance)[segment.theta[p:]])).sum()
    return value


def test_shared_coefficients_are_at_the_top_of_the_likelihood():
    """Moving any parameter either way lowers the conditional likelihood."""
    history = simulated(normal_models(), [900], seed=2)
    found = fit_autoregression(history, order=2, robust=False).parameters
    x = np.array([*found["coefficients"], *found["intercept"], *found["covariance"]])
    top = conditional(history, x[:2], x[2:4], x[4:])
    for i in range(6):
        for step in (1e-3, -1e-3):
            moved = x.copy()
            moved[i] += step
            assert conditional(history, moved[:2], moved[2:4], moved[4:]) < top


def test_known_normal_parameters_come_back():
    """Coefficients within 5 standard errors of least squares, variances within 5 sqrt(2/n)."""
    history = simulated(normal_models(), [6000], seed=3)
    rows = rows_of(history)
    found = fit_autoregression(history, order=2).parameters
    at, X = lagged(rows, 2)
    weight = 1.0 / np.array([1.0, 4.0])[rows.theta[at]]
    regressors = np.column_stack([X, rows.theta[at] == 0, rows.theta[at] == 1])
    errors = np.sqrt(np.diag(np.linalg.inv((weight[:, None] * regressors).T @ regressors)))
    x = np.array([*found["coefficients"], *found["intercept"]])
    assert (np.abs(x - [0.6, 0.3, 5.0, 7.0]) < 5.0 * errors).all()
    counts = np.bincount(rows.theta[at])
    assert (np.abs(np.array(found["covariance"]) / [1.0, 4.0] - 1.0) < 5.0 * np.sqrt(2.0 / counts)).all()


def test_the_models_have_the_likelihood_of_an_autoregression():
    """Past the first p readings the companion form with a start law gives the conditional likelihood."""
    history = simulated(normal_models(), [400], seed=4)
    fit = fit_autoregression(history, order=2)
    density = log_densities(fit.models, history)[0]
    found = fit.parameters
    oracle = conditional(history, found["coefficients"], found["intercept"], found["covariance"])
    # once two readings are known, so is the state
    assert np.nansum(density[2:]) == pytest.approx(oracle, rel=1e-6)


def test_rows_after_a_gap_are_left_out():
    """A gap in one segment is the same as two segments: no row is predicted across it."""
    history = simulated(normal_models(), [600], seed=5)
    segment = history.segments[0]
    Y = segment.Y.copy()
    Y[300] = np.nan
    gap = history_of([(Y, segment.theta)], (0, 1))
    cut = history_of([(Y[:300], segment.theta[:300]), (Y[301:], segment.theta[301:])], (0, 1))
    for student in (False, True):
        one, other = (fit_autoregression(h, order=2, student=student).parameters for h in (gap, cut))
        np.testing.assert_allclose(one["coefficients"], other["coefficients"], rtol=1e-12)
    at, _ = lagged(rows_of(gap), 2)
    assert not {0, 1, 300, 301, 302} & set(at.tolist())
    assert len(at) == 600 - 5


def test_bad_samples_do_not_decide_the_variance_of_an_autoregression():
    """Half a percent of far samples: robust variances within 10 percent, plain ones off by more than five times."""
    history = simulated(normal_models(), [8000], seed=6)
    rng = np.random.default_rng(7)
    at = rng.choice(8000, 20, replace=False)
    bad = changed(history, lambda Y, _: Y.__setitem__((at, 0), Y[at, 0] + rng.choice([-80.0, 80.0], len(at))))
    clean, robust, plain = (
        np.array(fit_autoregression(h, order=2, robust=r).parameters["covariance"])
        for h, r in ((history, True), (bad, True), (bad, False))
    )
    np.testing.assert_allclose(clean, [1.0, 4.0], rtol=0.1)
    np.testing.assert_allclose(robust, [1.0, 4.0], rtol=0.1)
    assert (plain > 5.0 * clean).all()


# Student-t ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_of_the_student_likelihood_is_its_slope(shared):
    """Coefficients, intercepts, scales and degrees of freedom against central differences; the value against scipy."""
    rng = np.random.default_rng(8)
    n, G = 200, 2
    X, y, g = rng.standard_normal((n, 2)), rng.standard_t(3, n), rng.integers(0, G, n)
    problem = Likelihood(X, y, g, G, shared, 0.1)
    B, c = np.tile([0.3, -0.2], (G, 1)) if shared else rng.standard_normal((G, 2)), np.array([0.1, -0.1])
    scale, nu = np.array([0.8, 1.3]), np.array([2.5, 9.0])
    x = problem.pack(B, c, scale, nu)
    value, gradient = problem.value(x)
    oracle = scipy.stats.t.logpdf(y - np.einsum("ki,ki->k", X, B[g]), nu[g], loc=c[g], scale=scale[g]).mean()
    assert value == pytest.approx(-oracle, rel=1e-12)
    h = 1e-6
    for i, e in enumerate(np.eye(len(x))):
        slope = (problem.value(x + h * e)[0] - problem.value(x - h * e)[0]) / (2 * h)
        assert gradient[i] == pytest.approx(slope, abs=1e-8, rel=1e-6)


@pytest.mark.long(seconds=2, reason="maximum likelihood with second derivatives")
def test_known_student_parameters_come_back():
    """Every parameter within 5 standard errors, from the second derivatives of the likelihood."""
    models = student_models()
    history = simulated(models, [8000], seed=9)
    rows = rows_of(history)
    at, X = lagged(rows, 1)
    g = rows.theta[at]
    found = fit_autoregression(history, student=True).parameters
    problem = Likelihood(X, rows.Y[at, 0], g, 2, True, 0.0)
    truth = problem.pack(np.full((2, 1), 0.9), np.array([4.0, 5.0]), np.array([1.0, 2.0]), np.array([3.0, 6.0]))
    x = problem.pack(
        np.full((2, 1), found["coefficients"]), *(np.array(found[n]) for n in ("intercept", "scale", "freedom"))
    )
    h = 1e-5
    H = [(problem.value(x + h * e)[1] - problem.value(x - h * e)[1]) / (2 * h) * len(at) for e in np.eye(len(x))]
    errors = np.sqrt(np.diag(np.linalg.inv((np.array(H) + np.array(H).T) / 2)))
    assert (np.abs(x - truth) < 5.0 * errors).all()
    # at the top: no parameter would gain by a step of a tenth of its standard error
    assert (np.abs(problem.value(x)[1]) * len(at) * errors < 0.1).all()


@pytest.mark.long(seconds=2, reason="maximum likelihood of Student noise")
def test_student_noise_predicts_heavy_tails_better_and_tells_normal_noise():
    """Held out, Student-t beats normal on heavy tails; on normal noise its degrees of freedom are large."""
    heavy = student_models((2.5, 2.5))
    train, test = simulated(heavy, [4000], seed=10), simulated(heavy, [4000], seed=11)
    student, normal = (fit_autoregression(train, student=s) for s in (True, False))
    first = [density[1:] for density in log_densities(student.models, test)]
    second = [density[1:] for density in log_densities(normal.models, test)]
    truth = [density[1:] for density in log_densities(heavy, test)]
    assert total(first) > total(second) + 400.0
    assert total(first) > total(truth) - 30.0
    fit = fit_autoregression(simulated(normal_models(), [4000], seed=12), order=2, student=True)
    assert min(fit.parameters["freedom"]) > 20.0


def test_held_readings_do_not_make_a_spike():
    """Readings on a grid that mostly stay: the scale stops at the width of a cell, step / sqrt(12)."""
    rng = np.random.default_rng(13)
    y = np.cumsum(np.where(rng.random(3000) < 0.15, rng.integers(-20, 21, 3000), 0)) * 1.0 + 500.0
    history = history_of([(y, labels(rng, 3000, 2))], (0, 1))
    fit = fit_autoregression(history, student=True)
    assert min(fit.parameters["scale"]) >= 1.0 / np.sqrt(12.0)
    assert np.isfinite(total(log_densities(fit.models, history)))


@pytest.mark.long(seconds=2, reason="a fit of heavy tails in two channels")
def test_two_channels_with_student_noise_are_joined_by_their_correlation():
    """The matrix and the correlation of the scores come back; the log-likelihood is close to that of the truth."""
    Phi = [[[0.7, 0.2], [0.0, 0.8]]]
    laws = [us.Scalar(scipy.stats.t(4.0, scale=1.0)), us.Scalar(scipy.stats.t(4.0, scale=2.0))]
    models = {
        v: us.AutoRegressive(Phi, [v, 0.0], us.GaussianCopula([[1.0, r], [r, 1.0]], laws))
        for v, r in ((0, 0.6), (1, -0.3))
    }
    history = simulated(models, [3000], seed=14)
    fit = fit_autoregression(history, student=True)
    assert fit.name == "VAR(1), Student-t"
    np.testing.assert_allclose(fit.parameters["coefficients"][0], Phi[0], atol=0.07)
    np.testing.assert_allclose([c[0][1] for c in fit.parameters["correlation"]], [0.6, -0.3], atol=0.1)
    mine, true = (total(log_densities(m, history)) for m in (fit.models, models))
    assert abs(mine - true) < 40.0


def test_vectors_with_normal_noise():
    """VAR(1) with the covariance of each value; shared coefficients weigh the values by their noise."""
    Phi, S = [[[0.7, 0.2], [-0.1, 0.8]]], [[[1.0, 0.5], [0.5, 1.0]], [[4.0, -1.0], [-1.0, 2.0]]]
    models = {v: us.AutoRegressive(Phi, [v, 1.0], us.Gaussian([0.0, 0.0], S[v])) for v in (0, 1)}
    fit = fit_autoregression(simulated(models, [6000], seed=15))
    np.testing.assert_allclose(fit.parameters["coefficients"][0], Phi[0], atol=0.05)
    np.testing.assert_allclose(fit.parameters["covariance"], S, atol=0.4)
    assert fit.count == 4 + 4 + 6


# Limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("student", [False, True])
@pytest.mark.parametrize("d", [1, 2])
def test_readings_that_grow_get_a_root_inside_the_unit_circle(student, d):
    """The roots are moved to 0.9999 and the rest is fitted again; a note says so."""
    rng = np.random.default_rng(16)
    y = np.exp(0.02 * np.arange(400))[:, None] * np.ones(d) + 0.05 * rng.standard_normal((400, d))
    fit = fit_autoregression(history_of([(y, labels(rng, 400, 2))], (0, 1)), student=student, robust=False)
    assert any("was moved to 0.9999" in note for note in fit.notes)
    Phi = np.reshape(fit.parameters["coefficients"], (d, d))
    assert np.abs(np.linalg.eigvals(Phi)).max() == pytest.approx(0.9999, rel=1e-6)


def test_where_a_segment_starts():
    """Mean and covariance of the first readings of many segments; of all readings where there are few."""
    rng = np.random.default_rng(17)
    many = history_of(
        [(np.append(rng.normal(100.0, 3.0), rng.normal(0.0, 1.0, 30)), np.zeros(31, int)) for _ in range(200)], (0,)
    )
    mean, cov = start_law(rows_of(many), 1)
    assert mean.item() == pytest.approx(100.0, abs=1.5)
    assert cov.item() == pytest.approx(9.0, rel=0.6)
    few = history_of([(rng.normal(50.0, 2.0, 1000), np.zeros(1000, int))], (0,))
    mean, cov = start_law(rows_of(few), 2)
    np.testing.assert_allclose(mean, 50.0, atol=0.5)
    np.testing.assert_allclose(cov, 4.0 * np.eye(2), atol=0.7)


def test_refusals_name_the_value_and_the_rule():
    """Order, and too short a history."""
    history = simulated(normal_models(), [100], seed=18)
    for order in (0, 1.5, True):
        with pytest.raises(ConfigurationError, match="order = "):
            fit_autoregression(history, order=order)
    with pytest.raises(ModelError, match="90 readings have their 10 predecessors"):
        fit_autoregression(history, order=10)


def test_the_scale_of_the_readings_does_not_matter():
    """In other units the fit is the same, in those units."""
    rng = np.random.default_rng(19)
    X = rng.standard_normal((500, 1))
    y = 0.5 * X[:, 0] + rng.standard_t(4, 500)
    g = np.zeros(500, dtype=np.intp)
    one = student_regression(X, y[:, None], g, 1, shared=True, floors=np.zeros(1))
    other = student_regression(1e3 * X, 1e-2 * y[:, None] + 7.0, g, 1, shared=True, floors=np.zeros(1))
    assert other.B.item() == pytest.approx(1e-5 * one.B.item(), rel=1e-3)
    assert other.scale.item() == pytest.approx(1e-2 * one.scale.item(), rel=1e-3)
    assert other.freedom.item() == pytest.approx(one.freedom.item(), rel=1e-2)
    assert other.loglik == pytest.approx(one.loglik - 500 * np.log(1e-2), rel=1e-6)
