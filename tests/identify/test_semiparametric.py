"""Noise of no assumed shape passes the gate where parametric laws fail it; what it cannot mend still fails."""

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.identify.candidates.autoregressive import fit_autoregression, fit_semiparametric, shape_of
from understudy.identify.gate import gate
from understudy.identify.history import History, Segment
from understudy.serialize import from_plain, to_plain

THETA = np.repeat([0, 1] * 10, 250)


def history(y, theta=THETA):
    y = y[:, None] if y.ndim == 1 else y
    names = tuple(f"c{i}" for i in range(y.shape[1]))
    return History(names, "people", None, (), (0, 1), 60.0, (Segment("1", None, y, theta),), ())


def skewed(seed):
    """Readings of an AR(1) whose noise is skewed, more so in the second value."""
    laws = [us.Scalar(scipy.stats.gamma(shape, loc=-shape * s, scale=s)) for shape, s in ((4.0, 1.0), (1.5, 3.0))]
    family = us.Family({v: us.AutoRegressive(0.8, 2.0 * v, laws[v], past=0.0) for v in (0, 1)})
    return us.sample(family.along(THETA.tolist()), len(THETA), rng=seed)


@pytest.mark.long(seconds=8, reason="fits and gates two candidates")
def test_skewed_noise_fails_with_student_and_passes_with_free_noise():
    """The law of innovations was the only thing wrong, and the gate says so both times."""
    train, held = history(skewed(1)), history(skewed(2))
    parametric = fit_autoregression(train, order=1, student=True, by_class=True)
    free = fit_semiparametric(train, order=1)
    assert not gate(parametric.models, held).passed
    found = gate(free.models, held)
    assert found.passed, [v.sentence for v in found.failed]
    assert free.name == "AR(1), free noise by class"


@pytest.mark.long(seconds=5, reason="fits and gates two candidates")
def test_dependence_that_a_free_law_cannot_mend_still_fails():
    """An AR(2) fitted with one lag: the innovations know each other whatever their law."""
    model = us.AutoRegressive([0.5, 0.4], 1.0, us.Scalar(scipy.stats.t(4)), past=[10.0, 10.0])
    y, fresh = (us.sample(model, len(THETA), rng=seed) for seed in (3, 4))
    found = gate(fit_semiparametric(history(y), order=1).models, history(fresh))
    assert "memory" in {v.name for v in found.failed}
    assert gate(fit_semiparametric(history(y), order=2).models, history(fresh)).passed


@pytest.mark.long(seconds=3, reason="fits four laws with mixtures")
def test_a_mixture_predicts_as_well_as_the_law_that_it_stands_for():
    """Per reading, on fresh numbers, within 0.02 nats of the true law: normal, heavy, skewed, of two scales."""
    rng = np.random.default_rng(5)
    laws = [scipy.stats.norm(1, 2), scipy.stats.t(3), scipy.stats.skewnorm(5), scipy.stats.laplace(0, 3)]
    for law in laws:
        shape = shape_of(law.rvs(2500, random_state=rng))
        fresh = law.rvs(2500, random_state=rng)
        density = shape.log_density(fresh)
        assert density.mean() > law.logpdf(fresh).mean() - 0.02
        np.testing.assert_allclose(shape.law().logpdf(fresh), density, rtol=1e-9, atol=1e-9)


def test_normal_noise_needs_one_part():
    """Parts that earn nothing are not taken."""
    shape = shape_of(np.random.default_rng(6).normal(3.0, 2.0, 5000))
    assert len(shape.weights) == 1
    assert shape.means[0] == pytest.approx(3.0, abs=0.15)
    assert shape.deviations[0] == pytest.approx(2.0, abs=0.1)


def test_a_grid_does_not_make_a_spike():
    """Innovations that are mostly one number: no part is narrower than the grid allows."""
    e = np.round(np.random.default_rng(7).normal(0.0, 0.3, 3000))
    assert shape_of(e, floor=1.0 / np.sqrt(12.0)).deviations.min() >= 1.0 / np.sqrt(12.0)


@pytest.mark.long(seconds=2, reason="fits mixtures of two channels")
def test_two_channels_are_joined():
    """A copula with the correlation of the innovations; the models can be stored."""
    rng, theta = np.random.default_rng(8), THETA[:1500]
    e = rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], size=len(theta))
    e = np.sign(e) * np.abs(e) ** 1.5
    y = np.zeros_like(e)
    for k in range(1, len(y)):
        y[k] = 0.7 * y[k - 1] + e[k] + theta[k]
    fit = fit_semiparametric(history(y, theta), order=1)
    again = from_plain(to_plain(fit.models[1]))
    assert fit.name == "VAR(1), free noise by class"
    np.testing.assert_array_equal(us.whiten(y[:50], again), us.whiten(y[:50], fit.models[1]))
    assert gate(fit.models, history(y[500:], theta[500:])).passed
