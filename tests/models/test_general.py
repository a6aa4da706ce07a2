"""The model of a density that the user writes down: the law of a known model, or a named refusal."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
import scipy.stats
from helpers import dense, random_system
from scipy import special

import understudy as us
from understudy.errors import MissingReadingError, ModelError, NumericalError, ReadingError
from understudy.models.general import General

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
INF = math.inf
SECRET = 0.7314159
ROOM = {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 10.0, "mean0": 100.0, "cov0": 1.0}


def ar1(y, past):
    """Gaussian AR(1), at module level so that it can be pickled."""
    last = past[-1] if past.size else 0.0
    return -0.5 * (y - 0.5 * last) ** 2 - LOG_SQRT_2PI


def chain(Y):
    """The same as a joint density, for sequences of any length."""
    e = Y - 0.5 * np.concatenate([np.zeros_like(Y[:1]), Y[:-1]])
    return (-0.5 * e**2 - LOG_SQRT_2PI).sum(axis=0)


KNOWN = us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))


def joint_gaussian(system, T):
    """Log-density of k <= T readings of a Gauss-Markov model, from one big covariance."""
    mean, cov = dense(system, T)
    d = mean.size // T
    roots = {k: np.linalg.cholesky(cov[: k * d, : k * d]) for k in range(1, T + 1)}

    def logpdf(Y):
        k = len(Y)
        z = np.linalg.solve(roots[k], Y.reshape(k * d, -1) - mean[: k * d, None])
        return -0.5 * (z**2).sum(axis=0) - k * d * LOG_SQRT_2PI - np.log(np.diag(roots[k])).sum()

    return logpdf


# Conditional densities -----------------------------------------------------------------------------


def test_a_gaussian_recursion():
    """Scores, readings and log-likelihood are those of the known model."""
    model = General(conditional=ar1, memory=1)
    z = np.random.default_rng(1).standard_normal(100)
    Y = us.colour(z, KNOWN)
    assert np.abs(us.whiten(Y, model) - z).max() < 1e-9
    assert np.abs(us.colour(z, model) - Y).max() < 1e-9
    assert abs(us.loglik(Y, model) - us.loglik(Y, KNOWN)) < 1e-9


@pytest.mark.long(seconds=1, reason="conditional laws by quadrature")
def test_noise_of_other_laws():
    """Student-t around the last reading, gamma whose scale is the last reading."""
    t = General(lambda y, past: scipy.stats.t(3, loc=past[-1]).logpdf(y), initial=us.Gaussian(0.0, 1.0), memory=1)
    t_known = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Scalar(scipy.stats.t(3, loc=y)))
    gamma = General(
        lambda y, past: scipy.stats.gamma(2.0, scale=0.1 + past[-1]).logpdf(y),
        initial=us.Scalar(scipy.stats.gamma(2.0)),
        support=(0.0, INF),
        memory=1,
    )
    gamma_known = us.Markov(
        us.Scalar(scipy.stats.gamma(2.0)), lambda y: us.Scalar(scipy.stats.gamma(2.0, scale=0.1 + y))
    )
    for model, known in ((t, t_known), (gamma, gamma_known)):
        z = np.concatenate([np.random.default_rng(2).standard_normal(30), [5.0, -6.0]])
        Y = us.colour(z, known)
        assert np.abs(us.whiten(Y, model) - z).max() < 1e-8
        assert np.abs(us.colour(z, model) / Y - 1.0).max() < 1e-8


def test_two_modes():
    """Where the last reading says how likely each is."""

    def logpdf(y, past):
        p = special.expit(past[-1])
        up, down = -0.5 * (y - 30.0) ** 2, -0.5 * (y + 30.0) ** 2
        return np.logaddexp(np.log(p) + up, np.log1p(-p) + down) - LOG_SQRT_2PI

    model = General(logpdf, initial=us.Gaussian(0.0, 1.0), memory=1)
    Y = np.array([0.5, 29.0, -31.0, 30.5])
    p = special.expit(Y[:-1])
    known = special.ndtri(p * special.ndtr(Y[1:] - 30.0) + (1.0 - p) * special.ndtr(Y[1:] + 30.0))
    assert np.abs(us.whiten(Y, model)[1:3] - known[:2]).max() < 1e-9


def test_the_number_of_the_reading_is_passed_on():
    """A third argument receives k, from 1 on."""
    model = General(lambda y, past, k: -0.5 * (y - 10.0 * k) ** 2 - LOG_SQRT_2PI, memory=0)
    assert np.abs(us.whiten([11.0, 22.0, 33.0], model) - [1.0, 2.0, 3.0]).max() < 1e-9


def test_the_past_is_read_only_and_as_long_as_the_memory():
    """(k - 1,) or the last p; (k - 1, d) for several channels."""
    shapes = []

    def seen(y, past):
        shapes.append(past.shape)
        if past.flags.writeable:
            raise AssertionError("the past can be written to")
        return -0.5 * (y**2).reshape(-1, y.shape[-1]).sum(axis=0)

    us.whiten([0.1, 0.2, 0.3, 0.4], General(seen, normalise=True))
    assert sorted(set(shapes)) == [(0,), (1,), (2,), (3,)]
    shapes.clear()
    us.whiten([0.1, 0.2, 0.3, 0.4], General(seen, normalise=True, memory=2))
    assert sorted(set(shapes)) == [(0,), (1,), (2,)]
    shapes.clear()
    us.whiten([[0.1, 0.2], [0.3, 0.4]], General(seen, dim=2, normalise=True))
    assert sorted(set(shapes)) == [(0, 2), (1, 2)]


def test_a_model_without_memory_has_one_law():
    """It is integrated once for all readings."""
    calls = []
    model = General(lambda y, past: calls.append(1) or -np.abs(y) - math.log(2.0), memory=0)
    built = len(calls)
    us.whiten(np.linspace(-2.0, 2.0, 100), model)
    assert len(calls) - built <= 100
    assert model.predict(model.update(model.start(), 1.0)) is model.predict(model.start())


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_every_scale(scale):
    """Nothing is known of the units."""
    model = General(lambda y, past: ar1(y / scale, past / scale) - math.log(scale), memory=1)
    z = np.random.default_rng(3).standard_normal(20)
    Y = scale * us.colour(z, KNOWN)
    assert np.abs(us.whiten(Y, model) - z).max() < 1e-9
    assert np.abs(us.colour(z, model) - Y).max() < 1e-9 * scale


def test_hints_may_be_functions_of_the_past():
    """Centre and scale say where to look; they change no score."""
    plain = General(ar1, memory=1)
    helped = General(ar1, memory=1, centre=lambda past: 0.5 * past.sum(), scale=1.0)
    Y = np.array([0.3, -1.0, 2.0])
    assert np.abs(us.whiten(Y, helped) - us.whiten(Y, plain)).max() < 1e-9
    bad = General(ar1, memory=1, scale=lambda past: 1.0 - past.sum())
    with pytest.raises(NumericalError, match="reading number 2: scale"):
        us.whiten([1.0, 0.5], bad)
    with pytest.raises(NumericalError, match="reading number 2: centre raised ZeroDivisionError"):
        us.whiten([1.0, 0.5], General(ar1, centre=lambda past: 1 / 0 if past.size else 0.0))


# Joint densities -----------------------------------------------------------------------------------


def test_a_joint_density_of_any_length():
    """Dense Gaussians of growing length against the Kalman filter."""
    model, known = General(joint=joint_gaussian(ROOM, 30)), us.GaussMarkov(**ROOM)
    Y = us.sample(known, 30, rng=1)
    assert np.abs(us.whiten(Y, model) - us.whiten(Y, known)).max() < 1e-9
    assert np.abs(us.colour(us.whiten(Y, known), model) - Y).max() < 1e-8
    assert abs(us.loglik(Y, model) - us.loglik(Y, known)) < 1e-9


@pytest.mark.parametrize("T", [1, 2, 3])
def test_a_joint_density_of_the_whole_length(T):
    """The readings to come are integrated out."""
    model, known = General(joint=joint_gaussian(ROOM, T), steps=T), us.GaussMarkov(**ROOM)
    Y = us.sample(known, T, rng=T)
    assert np.abs(us.whiten(Y, model) - us.whiten(Y, known)).max() < 1e-9
    assert np.abs(us.colour(us.whiten(Y, known), model) - Y).max() < 1e-8
    assert abs(us.loglik(Y, model) - us.loglik(Y, known)) < 1e-9
    with pytest.raises(ModelError, match=f"there is no reading {T + 1}"):
        us.whiten(np.append(Y, 100.0), model)


def test_a_whole_length_density_need_not_be_normalised():
    """Three readings that pull each other together: against the same by one covariance."""
    precision = np.array([[2.0, -1.0, 0.0], [-1.0, 3.0, -1.0], [0.0, -1.0, 2.0]])
    joint = lambda Y: -0.5 * (Y * (precision @ Y)).sum(axis=0)  # noqa: E731
    model = General(joint=joint, steps=3, normalise=True)
    z = np.array([0.4, -1.0, 2.0])
    Y = np.linalg.cholesky(np.linalg.inv(precision)) @ z
    assert np.abs(us.whiten(Y, model) - z).max() < 1e-9
    with pytest.raises(ModelError, match=r"integrates to 5\.56.*not 1"):
        General(joint=joint, steps=3)


def test_several_channels():
    """Two channels of any length, and of the whole length."""
    system = random_system(np.random.default_rng(3), 2, 2)
    known, joint = us.GaussMarkov(**system), joint_gaussian(system, 4)
    Y = us.sample(known, 4, rng=2)
    model = General(joint=joint, dim=2)
    assert np.abs(us.whiten(Y, model) - us.whiten(Y, known)).max() < 1e-9
    assert np.abs(us.colour(us.whiten(Y, known), model) - Y).max() < 1e-9
    assert abs(us.loglik(Y, model) - us.loglik(Y, known)) < 1e-9


def test_joint_densities_of_different_lengths_that_disagree_are_refused():
    """An energy that is no density at any length; normalise=True conditions it step by step."""
    energy = lambda Y: -0.5 * (Y**2).sum(axis=0) - (np.diff(Y, axis=0) ** 2).sum(axis=0) - LOG_SQRT_2PI  # noqa: E731
    with pytest.raises(NumericalError, match=r"reading number 2.*does not integrate to 1"):
        us.whiten([0.5, 0.5], General(joint=energy))
    z = us.whiten([0.5, 0.5], General(joint=energy, normalise=True))
    assert abs(z[1] - (0.5 - 1.0 / 3.0) * math.sqrt(3.0)) < 1e-9


def test_a_joint_density_with_memory():
    """Only the last p readings stand before the candidate."""
    model = General(joint=chain, memory=1, normalise=True)
    Y = np.array([0.5, 1.0, -2.0, 0.3])
    assert np.abs(us.whiten(Y, model) - us.whiten(Y, KNOWN)).max() < 1e-9


# States, copies ------------------------------------------------------------------------------------


def test_states_are_values():
    """Read-only, copied deeply, and no longer than the memory."""
    model = General(ar1, memory=3)
    state = model.start()
    for y in (0.1, 0.2, 0.3, 0.4, 0.5):
        state = model.update(state, y)
    assert state.k == 5
    assert state.readings.tolist() == [0.3, 0.4, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        state.readings[0] = 7.0
    assert model.predict(copy.deepcopy(state)).score(0.1) == model.predict(state).score(0.1)
    for bad in (math.nan, INF, [1.0, 2.0]):
        with pytest.raises(ReadingError, match="reading number 6"):
            model.update(state, bad)


def test_a_missing_reading_is_refused():
    """No exact law across a gap is known."""
    with pytest.raises(MissingReadingError, match="reading number 2 is missing"):
        us.whiten([0.1, None, 0.2], General(ar1))


def test_models_are_values():
    """Copies whiten alike, also through a pickle; nothing changes; repr shows no parameter."""
    model = General(ar1, memory=1, centre=SECRET)
    Y = [0.3, -0.5]
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301  # our own
        assert us.whiten(Y, copied).tolist() == us.whiten(Y, model).tolist()
    with pytest.raises(AttributeError, match="value"):
        model.dim = 2
    assert repr(model) == "General(dim=1)"
    assert repr(model.predict(model.update(model.start(), SECRET))) == "FromDensity(dim=1)"


# Faults --------------------------------------------------------------------------------------------


def test_faults_of_the_setting_are_named():
    """What is known before the first reading is told in full, with the value."""
    f = lambda y, past: -0.5 * y**2 - LOG_SQRT_2PI  # noqa: E731
    for message, given in {
        "exactly one": {},
        "exactly one of": {"conditional": f, "joint": chain},
        "of type int": {"conditional": 3},
        "integrates to 2.50662827, not 1": {"conditional": lambda y, past: -0.5 * y**2},
        r"integrates to 1 \+1e-07, not 1": {"conditional": lambda y, past: f(y, past) + 1e-7},
        r"raised IndexError \(.*past is empty": {"conditional": lambda y, past: y - past[-1]},
        "raised TypeError": {"conditional": lambda y: y},
        "gave shape": {"conditional": lambda y, past: 0.0},
        "reading number 2.*gave shape": {"conditional": lambda y, past: 0.0, "initial": us.Gaussian(0.0, 1.0)},
        "NaN": {"conditional": lambda y, past: np.where(y > 0, np.nan, f(y, past))},
        "dim = 4": {"conditional": f, "dim": 4},
        "steps = 5 .*without steps=": {"joint": chain, "steps": 5},
        "steps = 3 with dim = 2": {"joint": chain, "steps": 3, "dim": 2},
        "steps= says": {"conditional": f, "steps": 2},
        "without memory=": {"joint": chain, "steps": 2, "memory": 1},
        "memory = -1": {"conditional": f, "memory": -1},
        "steps = 0": {"joint": chain, "steps": 0},
        "accuracy = 0": {"conditional": f, "accuracy": 0},
        "support = ": {"conditional": f, "support": (2.0, 1.0)},
        "initial has 2 channels": {"conditional": f, "initial": us.Gaussian([0.0, 0.0], np.eye(2))},
        "initial is of type float": {"conditional": f, "initial": 0.0},
        "scale has an entry": {"conditional": f, "scale": -1.0},
        "centre raised": {"conditional": f, "centre": "here"},
    }.items():
        with pytest.raises(ModelError, match=message):
            General(**given)


def broken(y, past, how):
    """A standard normal law until a reading has come."""
    if past.size:
        if how == "raise":
            raise ValueError(f"cannot go on after {past[-1]}")
        y = how(y)
    return y if past.size else -0.5 * y**2 - LOG_SQRT_2PI


RUN_TIME = {
    "raised ValueError": "raise",
    "does not integrate to 1": lambda y: -0.5 * (y - SECRET) ** 2,
    "does not die out": lambda y: 0.0 * y + SECRET,
    "NaN": lambda y: np.full(y.shape, np.nan) if y.size < 3 else np.where(y > SECRET, np.nan, -(y**2)),
    r"\+inf": lambda y: np.where(y == 0.0, np.inf, -np.abs(y)),
    "gave shape": lambda y: y[:1],
    "must be positive": lambda y: np.where(np.abs(np.abs(y) - 2.0) < 1.0, -math.log(4.0), -np.inf),
}


@pytest.mark.parametrize("message", RUN_TIME)
def test_faults_at_run_time_name_the_reading_and_no_value(message):
    """Which reading, what kind of fault; never a reading, a parameter or a mass."""
    model = General(lambda y, past: broken(y, past, RUN_TIME[message]))
    with pytest.raises(NumericalError, match=f"reading number 2: the log-density conditional.*{message}") as caught:
        us.whiten([SECRET, 0.5], model)
    assert not re.search(r"7314|0\.73|\d\.\d", str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_past_that_the_joint_density_does_not_allow_is_said():
    """-inf for the readings so far."""
    model = General(joint=lambda Y: np.where(Y[0] < 1.0, chain(Y), -np.inf) - np.log(special.ndtr(1.0)))
    with pytest.raises(NumericalError, match=r"reading number 3.*does not allow"):
        model.predict(model.update(model.update(model.start(), 2.0), 0.1))
