"""Independent readings: normal, Student-t and kernel laws against what made them."""

import numpy as np
import pytest
import scipy.stats
from identify_cases import history_of, labels, simulated, total

import understudy as us
from understudy.identify.candidates.independent import fit_independent, kernel_estimate
from understudy.identify.selection import log_densities


def test_normal_laws_are_the_moments_of_each_value():
    """Mean and covariance (divided by n) of the labelled, complete readings."""
    rng = np.random.default_rng(1)
    theta = labels(rng, 500, 2)
    Y = rng.standard_normal((500, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + 3.0 * theta[:, None]
    Y[7, 0] = np.nan
    theta[9] = -1
    fit = fit_independent(history_of([(Y, theta)], (0, 1)))
    for v in (0, 1):
        part = Y[(theta == v) & ~np.isnan(Y).any(axis=1)]
        np.testing.assert_allclose(fit.parameters["mean"][v], part.mean(axis=0))
        np.testing.assert_allclose(fit.parameters["covariance"][v], np.cov(part.T, bias=True), rtol=1e-6)


def test_student_laws_come_back():
    """Location and scale within 5 standard errors (that of a t law is near scale sqrt((nu+3)/((nu+1) n)))."""
    models = {v: us.IID(us.Scalar(scipy.stats.t(4.0, loc=10.0 * v, scale=1.0 + v))) for v in (0, 1)}
    history = simulated(models, [6000], seed=2)
    fit = fit_independent(history, law="student")
    for v, n in enumerate(history.counts):
        error = (1.0 + v) * np.sqrt(7.0 / (5.0 * n))
        assert abs(fit.parameters["location"][v] - 10.0 * v) < 5.0 * error
        assert abs(fit.parameters["scale"][v] / (1.0 + v) - 1.0) < 10.0 / np.sqrt(n)
        assert 3.0 < fit.parameters["freedom"][v] < 5.5


def test_a_kernel_law_finds_two_humps():
    """Held out, it loses little to the truth, and a normal law much more."""
    humps = us.Mixture([0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(10.0, 1.0)])
    models = {0: us.IID(humps), 1: us.IID(us.Gaussian(3.0, 4.0))}
    train, test = simulated(models, [4000], seed=3), simulated(models, [4000], seed=4)
    truth = total(log_densities(models, test))
    kernel, normal = (
        total(log_densities(fit_independent(train, law=law).models, test)) for law in ("kernel", "normal")
    )
    assert truth - kernel < 0.03 * 4000
    assert truth - normal > 0.2 * 4000


def test_a_kernel_law_is_thin_and_keeps_the_moments():
    """At most 201 components; mean and variance are those of the readings, widened by the bandwidth."""
    rng = np.random.default_rng(5)
    Y = rng.gamma(3.0, 2.0, (3000, 1))
    w, m, S = kernel_estimate(Y, 1.0, np.zeros(1))
    assert len(w) == 201
    assert w @ m[:, 0] == pytest.approx(Y.mean(), rel=1e-9)
    h = (4.0 / 3.0) ** 0.2 * 3000.0**-0.2
    variance = w @ (S[:, 0, 0] + np.square(m[:, 0])) - Y.mean() ** 2
    assert variance == pytest.approx(Y.var() * (0.99 * (1.0 + h * h) + 0.01 * 9.0), rel=1e-6)


def test_a_kernel_law_of_two_channels_follows_a_bend():
    """A bent cloud, which no normal law follows: better held out, and the same for the same `random_state`."""
    rng = np.random.default_rng(6)

    def cloud(T):
        x = rng.standard_normal(T)
        return np.column_stack([x, x * x + 0.2 * rng.standard_normal(T)]), np.zeros(T, dtype=np.intp)

    train, test = history_of([cloud(2000)], (0,)), history_of([cloud(2000)], (0,))
    kernel = fit_independent(train, law="kernel")
    assert total(log_densities(kernel.models, test)) > total(log_densities(fit_independent(train).models, test)) + 500.0
    again = fit_independent(train, law="kernel")
    assert total(log_densities(kernel.models, test)) == total(log_densities(again.models, test))


def test_held_readings_do_not_make_a_kernel_of_spikes():
    """On a grid no component is narrower than a cell."""
    rng = np.random.default_rng(7)
    y = np.round(rng.normal(20.0, 1.5, 1000))
    fit = fit_independent(history_of([(y, np.zeros(1000, dtype=np.intp))], (0,)), law="kernel")
    law = fit.models[0].law
    peak = max(float(law.logpdf(v)) for v in np.unique(y))
    assert peak < np.log(1.0 / np.sqrt(2.0 * np.pi / 12.0))


@pytest.mark.parametrize("law", ["normal", "student", "kernel"])
def test_a_channel_that_stands_still_within_a_value_has_a_law(law):
    """Narrow, finite, and independent of the other channel."""
    rng = np.random.default_rng(9)
    theta = np.repeat([0, 1], 200)
    Y = rng.standard_normal((400, 2))
    Y[:200, 0] = 3.0
    history = history_of([(Y, theta)], (0, 1))
    assert np.isfinite(total(log_densities(fit_independent(history, law=law).models, history)))
