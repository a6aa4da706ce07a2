"""The distortion with a fresh share: against a joint normal, quadrature over two scores, and another simulation."""

import math

import numpy as np
import pytest
import scipy.stats
from helpers import random_system, room

import understudy as us
from understudy.distortion.costs import EXACT, MONTE_CARLO, costs
from understudy.distortion.measures import Measure
from understudy.errors import ConfigurationError, HorizonMissingError

SHARES = [0.05, 0.5, 0.9, 1.0]


def impulses(model, T):
    """Mean (T d,) of the readings, and the matrix that takes all scores to them: one colouring for each score."""
    d = model.dim
    zero = np.asarray(us.colour(np.zeros((T, d)), model)).reshape(-1)
    columns = [np.asarray(us.colour(e.reshape(T, d), model)).reshape(-1) - zero for e in np.eye(T * d)]
    return zero, np.stack(columns, axis=1)


def joint(source, target, T, s, measure):
    """The mean distortion from the joint normal of Y and ~Y: Y = m + G z, ~Y = ~m + ~G z', E z z'^T = c I."""
    (m, G), (m_out, G_out), c = impulses(source, T), impulses(target, T), math.sqrt(1.0 - s * s)
    cross = c * G @ G_out.T
    cov = G @ G.T + G_out @ G_out.T - cross - cross.T
    d = source.dim
    mean, variance = (m - m_out).reshape(T, d), np.diag(cov).reshape(T, d)
    return float(measure.of_normal(mean.T, variance.T).mean())


def systems(kind):
    rng = np.random.default_rng(4)
    if kind == "room":
        return {0: room(0), 1: room(1)}
    if kind == "other dynamics":
        return {0: room(0), 1: room(0.3, A=0.5, Q=2.0, R=0.01)}
    if kind == "two channels":
        return {0: us.GaussMarkov(**random_system(rng, 2, 2)), 1: us.GaussMarkov(**random_system(rng, 3, 2))}
    return {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.AutoRegressive([0.5, 0.3], noise=us.Gaussian(0.0, 2.0))}


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("kind", ["room", "other dynamics", "two channels", "mixed"])
@pytest.mark.parametrize("distortion", ["mae", "mse"])
def test_exact_distortions_are_those_of_the_joint_normal(kind, s, distortion):
    """All pairs, to 1e-9; a value that plays itself costs something too."""
    models, T = systems(kind), 12
    found = costs(us.Family(models), horizon=T, distortion=distortion, fresh=s)
    measure = Measure(distortion, models[0].dim)
    wanted = [[joint(models[i], models[j], T, s, measure) for j in (0, 1)] for i in (0, 1)]
    assert (found.method == EXACT).all()
    assert np.allclose(found.matrix, wanted, rtol=1e-9)
    assert (np.diag(found.matrix) > 0.0).all()


def test_the_oracle_catches_the_distortion_without_a_share():
    """The twin: what two sequences of one score cost is not what mixed ones do, and nothing is where there is none."""
    models = systems("other dynamics")
    wanted = joint(models[0], models[1], 12, 0.5, Measure("mse", 1))
    assert costs(us.Family(models), horizon=12, fresh=0.0).matrix[0, 1] < (1.0 - 1e-5) * wanted
    assert (np.diag(costs(us.Family(models), horizon=12).matrix) == 0.0).all()


@pytest.mark.parametrize("s", [0.3, 1.0])
def test_the_limit_of_long_sequences(s):
    """And the closed form of independent readings: 2 v (1 - sqrt(1 - s^2)), and its root times sqrt(2 / pi)."""
    family = us.Family({0: room(0), 1: room(1)})
    limit, long = (costs(family, horizon=T, distortion="mae", fresh=s).matrix for T in (None, 200_000))
    assert np.allclose(limit, long, rtol=1e-3)
    one = us.Family({0: us.IID(us.Gaussian(1.0, 4.0)), 1: us.IID(us.Gaussian(1.0, 4.0))})
    variance = 8.0 * (1.0 - math.sqrt(1.0 - s * s))
    assert np.allclose(costs(one, fresh=s).matrix, variance, rtol=1e-12)
    assert np.allclose(costs(one, distortion="mae", fresh=s).matrix, math.sqrt(2.0 * variance / math.pi), rtol=1e-12)


def laplace(v):
    return us.IID(us.Scalar(scipy.stats.laplace(loc=v, scale=1.0 + v)))


@pytest.mark.parametrize("s", [0.4, 1.0])
def test_simulated_costs_are_an_integral_over_two_scores(s):
    """Laws that are not normal: E (y(z) - ~y(z'))^2 by 80 x 80 points of Gauss and Hermite (6 standard errors)."""
    family = us.Family(laplace, values=[0, 1])
    found = costs(family, distortion="mse", accuracy=0.02, fresh=s)
    assert (found.method == MONTE_CARLO).all()
    x, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    z, w = x[:, None], x[None, :]
    mixed = math.sqrt(1.0 - s * s) * z + s * w
    for i in (0, 1):
        for j in (0, 1):
            y, y_out = laplace(i).law.value(z), laplace(j).law.value(mixed)
            wanted = float(weight @ np.square(y - y_out) @ weight)
            assert abs(found.matrix[i, j] - wanted) < 6.0 * found.error[i, j]


@pytest.mark.parametrize("model", ["room", "grid", "heavy"])
def test_simulated_costs_are_those_of_disguised_readings(model):
    """Another simulation, through `us.disguise`, agrees (6 standard errors); a rounded model whitens its readings."""
    make = {
        "room": room,
        "grid": lambda v: us.Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=v, mean0=10.0, cov0=1.0), step=0.5),
        "heavy": lambda v: us.AutoRegressive(0.5, intercept=v, noise=us.Scalar(scipy.stats.t(5.0)), past=[0.0]),
    }[model]
    family, T, n = us.Family(make, values=[0, 1]), 6, 3000
    found = costs(family, horizon=T, distortion=lambda y, y_out: np.abs(y - y_out), accuracy=0.02, fresh=0.6)
    assert (found.method == MONTE_CARLO).all()
    for i, j in ((0, 0), (0, 1)):
        Y = us.sample(make(i), T, n=n, rng=8)
        each = np.abs(Y - us.disguise(Y, make(i), make(j), 9, fresh=0.6)).mean(axis=(0, 1))
        error = math.hypot(float(each.std()) / math.sqrt(n), found.error[i, j])
        assert abs(each.mean() - found.matrix[i, j]) < 6.0 * error


def test_models_without_a_formula_need_a_horizon():
    family = us.Family(
        lambda v: us.AutoRegressive(0.5, intercept=v, noise=us.Scalar(scipy.stats.t(5.0))), values=[0, 1]
    )
    with pytest.raises(HorizonMissingError):
        costs(family, fresh=0.5)
    with pytest.raises(ConfigurationError, match="fresh"):
        costs(family, fresh=1.5)


def test_the_costs_of_no_share_are_what_they_were():
    """Bit for bit, simulated ones too: no random number is drawn for it."""
    family = us.Family(laplace, values=[0, 1])
    a, b = (
        costs(family, distortion=lambda y, y_out: (y - y_out) ** 2, horizon=2, **more) for more in ({}, {"fresh": 0})
    )
    assert (a.matrix == b.matrix).all()
