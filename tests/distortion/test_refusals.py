"""What is refused, and that the message names the value and the rule."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_system, room

import understudy as us
from understudy.distortion.costs import costs

FAMILY = us.Family(room, values=[0, 1])
PAIR = us.Family({k: us.GaussMarkov(**random_system(np.random.default_rng(k), 2, 2)) for k in (0, 1)})


@pytest.mark.parametrize("horizon", [0, -1, 2.5, "50", True, np.nan])
def test_a_horizon_is_a_positive_whole_number(horizon):
    """Or None; anything else is named."""
    with pytest.raises(us.errors.DesignError, match="horizon = "):
        costs(FAMILY, horizon=horizon)


@pytest.mark.parametrize("distortion", ["rmse", "MSE", None, 2, ["mse"]])
def test_an_unknown_measure(distortion):
    """A measure is a known name or a function."""
    with pytest.raises(us.errors.DesignError, match="'mse', 'mae' or a function"):
        costs(FAMILY, horizon=5, distortion=distortion)


@pytest.mark.parametrize(
    ("weights", "distortion", "rule"),
    [
        ([1.0, -1.0], "mse", "negative"),
        ([0.0, 0.0], "mae", "positive"),
        ([1.0, 2.0, 3.0], "mse", "shape"),
        (2.0, "mse", "shape"),
        ([1.0, np.inf], "mse", "finite"),
        ("ab", "mse", "numbers"),
        ([[1.0, 2.0], [0.0, 1.0]], "mse", "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "mse", "negative"),
        ([[0.0, 0.0], [0.0, 0.0]], "mse", "positive"),
        ([[1.0, 0.0], [0.0, 1.0]], "mae", "'mse' only"),
    ],
)
def test_weights_that_break_a_rule(weights, distortion, rule):
    """Vectors and matrices of weights are checked for shape, sign, symmetry and finiteness."""
    with pytest.raises(us.errors.DesignError, match=rule):
        costs(PAIR, horizon=5, distortion=distortion, weights=weights)


def test_weights_with_a_function():
    """A function of one's own weighs by itself."""
    with pytest.raises(us.errors.DesignError, match="weights"):
        costs(PAIR, horizon=5, distortion=lambda y, x: np.abs(y - x).sum(axis=0), weights=[1.0, 1.0])


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda y, x: -np.abs(y - x), "not negative"),
        (lambda y, x: np.full(y.shape, np.nan), "finite"),
        (lambda y, x: np.full(y.shape, np.inf), "finite"),
        (lambda y, x: 1.0, "shape"),
        (lambda y, x: np.ones((2, y.size)), "shape"),
        (lambda y, x: "far", "vectorize"),
        (lambda y, x: float(y) - float(x), "vectorize"),
    ],
)
@pytest.mark.parametrize("family", [FAMILY, us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])])
def test_a_function_that_breaks_a_rule(function, rule, family):
    """One finite number for each reading, none negative; in simulation and in quadrature alike."""
    with pytest.raises(us.errors.DesignError, match=rule):
        costs(family, horizon=5, distortion=function)


@pytest.mark.parametrize("accuracy", [0.0, -1.0, np.nan, np.inf, "1%"])
def test_an_accuracy_is_a_positive_number(accuracy):
    """Anything else is named."""
    with pytest.raises(us.errors.DesignError, match="accuracy"):
        costs(FAMILY, horizon=5, accuracy=accuracy)


def test_a_family_is_a_family():
    """A dict is not; the message says what is."""
    with pytest.raises(us.errors.DesignError, match=r"us\.Family"):
        costs({0: room(0)})


@pytest.mark.parametrize("pseudo", [[], 3])
def test_pseudo_values_are_several(pseudo):
    """At least one, in a sequence."""
    with pytest.raises(us.errors.DesignError, match="pseudo"):
        costs(FAMILY, pseudo=pseudo)


def test_pseudo_models_have_the_same_channels():
    """A pseudo value whose model has other channels is named with both numbers."""
    models = {0: room(0), 1: PAIR.model(0)}
    family = us.Family(models, values=[0])
    with pytest.raises(us.errors.DesignError, match="2 channels"):
        costs(family, pseudo=[0, 1], horizon=5)


def test_a_limit_that_would_need_simulation():
    """The message names the measure, the model and what is missing."""
    family = us.Family(lambda v: us.Markov(us.Gaussian(v, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0)), values=[0, 1])
    with pytest.raises(us.errors.DesignError, match=r"horizon is missing.*mse of a Markov model"):
        costs(family)
    with pytest.raises(us.errors.DesignError, match="horizon is missing"):
        costs(FAMILY, distortion=lambda y, x: np.abs(y - x))


def test_a_distortion_beyond_double_precision():
    """An unstable model over a long horizon is refused, not reported as NaN."""
    members = {v: us.GaussMarkov(v, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, allow_unstable=True) for v in (1.5, 1.6)}
    with pytest.raises(us.errors.NumericalError, match="range of double precision"):
        costs(us.Family(members), horizon=2000)
