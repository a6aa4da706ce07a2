"""`OnGrid`: any continuous model as a process on a grid, exact on both sides."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.errors import LawError, ModelError, ReadingError
from understudy.laws.atoms import Rounded, Rounding
from understudy.models.quantised import OnGrid, colour_on_grid, score_on_grid

ALPHA = 1e-6


def student(df=3.0, scale=5.0):
    return us.Scalar(stats.t(df, 0.0, scale))


def heavy(step=2.0, a=0.9, level=60.0, scale=5.0, **ends):
    inside = us.AutoRegressive(a, intercept=level, noise=student(scale=scale), past=[level / (1.0 - a)])
    return OnGrid(inside, step=step, **ends)


def pair():
    """Two channels with Student-t noise, joined by a copula."""
    noise = us.GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [student(4.0, 3.0), student(6.0, 0.5)])
    Phi = [[[0.8, 0.1], [0.0, 0.7]]]
    return OnGrid(us.AutoRegressive(Phi, [40.0, 6.0], noise, past=[[210.0, 20.0]]), step=[2.0, 0.25])


def is_white(z):
    """Kolmogorov-Smirnov and lag one, false alarm 1e-6 each."""
    z = z.ravel()
    ks = stats.kstest(z, "norm").statistic < stats.kstwo.isf(ALPHA, z.size)
    return bool(ks and abs(float(z[1:] @ z[:-1])) / math.sqrt(z.size) < stats.norm.isf(ALPHA / 2.0))


# The law ---------------------------------------------------------------------------------------------------


@given(st.floats(0.05, 20.0), st.floats(-3.0, 3.0), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_probabilities_are_those_of_cells(step, offset, seed):
    """An oracle by differences of the distribution function, in the middle of the law."""
    law = stats.t(4.0, 1.0, 2.0)
    rounded = Rounded(us.Scalar(law), Rounding(1, step=step, offset=offset))
    y = rounded.value(float(np.random.default_rng(seed).normal()))
    cell = law.cdf(y + 0.5 * step) - law.cdf(y - 0.5 * step)
    assert math.exp(rounded.logpdf(y)) == pytest.approx(cell, rel=1e-6)


@given(st.floats(0.01, 50.0), st.floats(1e-9, 1.0 - 1e-9), st.floats(-7.0, 7.0))
@settings(max_examples=80, deadline=None)
def test_value_inverts_score(step, v, z):
    """For any uniform, far into both tails."""
    law = Rounded(student(), Rounding(1, step=step))
    y = law.value(z)
    assert law.value(law.score(y, v)) == y


def test_numbers_and_arrays_agree():
    """One at a time or all at once."""
    law = Rounded(student(), Rounding(1, step=2.0, low=-10.0, high=10.0))
    y = np.array([-10.0, -4.0, 0.0, 6.0, 10.0])
    v = np.linspace(0.1, 0.9, 5)
    np.testing.assert_allclose(law.score(y, v), [law.score(a, b) for a, b in zip(y, v, strict=True)], rtol=1e-9)
    np.testing.assert_allclose(law.logpdf(y), [law.logpdf(float(a)) for a in y], rtol=1e-9)
    assert np.exp(law.logpdf(np.arange(-10.0, 11.0, 2.0))).sum() == pytest.approx(1.0, abs=1e-12)


def test_probabilities_of_a_vector_sum_to_one():
    """All pairs of grid points of two dependent channels."""
    law = pair().predict(pair().start())
    first, second = np.arange(150.0, 270.0, 2.0), np.arange(15.0, 26.0, 0.25)
    points = np.array([g.ravel() for g in np.meshgrid(first, second, indexing="ij")])
    assert float(np.exp(law.logpdf(points)).sum()) == pytest.approx(1.0, abs=1e-3)


def test_scores_of_a_vector_come_back():
    """Reading to scores to reading, channel by channel."""
    law = pair().predict(pair().start())
    rng = np.random.default_rng(3)
    z = rng.standard_normal((2, 50))
    y = law.value(z)
    assert (law.value(law.score(y, rng.random((2, 50)))) == y).all()
    one = law.value(z[:, 7])
    assert (one == y[:, 7]).all()


def test_only_continuous_laws_are_rounded():
    """A law with atoms has its own grid, and a channel without a step none."""
    with pytest.raises(LawError, match="continuous"):
        Rounded(us.Atoms([0.0, 1.0], [0.5, 0.5]), Rounding(1, step=1.0))
    with pytest.raises(LawError, match="each must have a step"):
        Rounded(pair().model.noise, Rounding(2, step=[1.0, None]))


def test_uniforms_are_needed():
    """A reading on a grid does not tell its score."""
    with pytest.raises(ReadingError):
        Rounded(student(), Rounding(1, step=1.0)).score(2.0)


# The model -------------------------------------------------------------------------------------------------


@pytest.mark.sample(default=1, seconds=2, reason="laws on a grid, reading by reading")
@pytest.mark.parametrize("make", [heavy, pair])
def test_its_own_readings_have_standard_normal_scores(make):
    """Simulated by itself and whitened by itself: white (false alarm 1e-6); on the grid throughout."""
    model = make()
    Y = us.sample(model, 800, rng=1)
    grid = np.array([channel.step for channel in model.grid.channels])
    assert np.abs(Y / grid - np.rint(Y / grid)).max() < 1e-6
    assert is_white(us.whiten(Y, model, rng=2))


def test_the_same_test_catches_another_model():
    """The twin: half the scale, and the same readings as if they were not on a grid of five scales."""
    Y = us.sample(heavy(step=2.0), 1500, rng=1)
    assert not is_white(us.whiten(Y, heavy(step=2.0, scale=2.5), rng=2))
    coarse = us.sample(heavy(step=25.0), 1500, rng=1)
    assert not is_white(us.whiten(coarse, heavy(step=25.0).model))


@pytest.mark.long(seconds=2, reason="a law on a grid, reading by reading")
def test_a_disguise_has_the_law_of_the_target():
    """From one process on the grid to another: on the grid, and white under the target (false alarm 1e-6)."""
    source, target = heavy(), heavy(level=80.0, scale=8.0)
    Y = us.sample(source, 1500, rng=5)
    out = us.disguise(Y, source=source, target=target, rng=6)
    assert (out == 2.0 * np.rint(out / 2.0)).all()
    assert is_white(us.whiten(out, target, rng=7))
    assert not is_white(us.whiten(out, source, rng=7))


def test_a_parameter_can_move():
    """Along a path the state goes on through the switches, and scores are white."""
    family = us.Family({0: heavy(), 1: heavy(level=80.0)})
    along = family.along(([0] * 50 + [1] * 50) * 10)
    assert is_white(us.whiten(us.sample(along, 1000, rng=2), along, rng=3))


@pytest.mark.sample(default=1, seconds=1, reason="many models")
@pytest.mark.parametrize("make", [heavy, pair])
def test_many_sequences_at_once_are_as_one_by_one(make):
    """To the bit, apart from what arrays round otherwise: on a grid that is a step or nothing."""
    z = np.random.default_rng(0).standard_normal((40, make().dim, 5))
    one_by_one = np.stack([us.colour(z[:, :, j], make()).reshape(40, -1) for j in range(5)], axis=2)
    np.testing.assert_allclose(colour_on_grid(z, make()), one_by_one, rtol=1e-9)
    assert colour_on_grid(z, OnGrid(us.IID(us.Gaussian(0.0, 1.0)), step=1.0)) is None


@pytest.mark.parametrize("make", [heavy, pair])
def test_all_readings_at_once_are_as_one_by_one(make):
    """Scores along a moving parameter, against the four methods step by step with the same uniforms."""
    members = [make(), make()]
    which = np.repeat([0, 1, 0], 20)
    Y = us.sample(make(), 60, rng=4).reshape(60, -1)
    Y[30] = np.nan
    v = np.random.default_rng(5).uniform(0.01, 0.99, Y.shape)
    z = score_on_grid(Y, which, members, v)
    assert np.isnan(z[[0, 30, 31]]).all()
    for k in (1, 7, 45, 59):
        law = members[which[k]].predict(Y[k - 1 : k])
        one = law.score(Y[k] if len(Y[k]) > 1 else Y[k].item(), v[k] if len(v[k]) > 1 else v[k].item())
        np.testing.assert_allclose(z[k], np.ravel(one), rtol=1e-9)
    assert score_on_grid(Y[:, :1], which, [OnGrid(us.IID(us.Gaussian(0.0, 1.0)), step=1.0)] * 2, v[:, :1]) is None


def test_it_is_a_value():
    """It shows no parameter, can be copied, and holds what made it."""
    model = heavy()
    assert repr(model) == "OnGrid(AutoRegressive(order=1, dim=1))"
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  # our own bytes
    z = np.random.default_rng(1).standard_normal(30)
    assert (us.colour(z, again) == us.colour(z, model)).all()
    with pytest.raises(AttributeError):
        model.dim = 2


@pytest.mark.parametrize(
    "inside",
    [
        us.IID(us.Atoms([0.0, 1.0], [0.5, 0.5])),
        us.Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 1.0), step=1.0),
        "model",
    ],
)
def test_what_cannot_be_on_a_grid_is_refused(inside):
    """Models with atoms, models that feed back something else, and what is no model."""
    with pytest.raises(ModelError, match="a process on a grid needs"):
        OnGrid(inside, step=1.0)


def test_a_missing_reading_is_treated_as_inside():
    """Refused where the model inside has no law across it."""
    with pytest.raises(us.errors.MissingReadingError):
        us.whiten([600.0, np.nan, 600.0], heavy(), rng=1)
    gaussian = OnGrid(us.AutoRegressive(0.9, 60.0, us.Gaussian(0.0, 9.0)), step=2.0)
    assert np.isfinite(us.whiten([600.0, np.nan, 602.0], gaussian, rng=1)[2])


def test_many_sequences_of_a_gauss_markov_model_are_those_of_one():
    """The vectorised way gives the readings of the reading-by-reading one, for one channel and for two."""
    rng = np.random.default_rng(21)
    one = OnGrid(us.GaussMarkov(0.9, 1.0, 4.0, 1.0, b=10.0, mean0=0.0, cov0=1.0), step=1.0)
    A, C = np.array([[0.9, 0.1], [0.0, 0.5]]), np.array([[1.0, 0.0], [0.5, 1.0]])
    two = OnGrid(us.GaussMarkov(A, C, np.eye(2), np.eye(2), b=[1.0, 2.0]), step=[1.0, 0.5])
    for model in (one, two):
        z = rng.standard_normal((20, model.dim, 3))
        np.testing.assert_array_equal(colour_on_grid(z, model), us.colour(z, model))
