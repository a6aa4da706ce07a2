"""Parameters that break a rule are refused, and the message names the matrix and the rule."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import room

import understudy as us
from understudy.errors import ConfigurationError, LawError, ModelError, UnderstudyError

GOOD = {
    "A": np.diag([0.5, 0.3]),
    "C": np.eye(2),
    "Q": np.eye(2),
    "R": np.eye(2),
    "mean0": [0.0, 0.0],
    "cov0": np.eye(2),
}
NAN, INF = float("nan"), float("inf")


def indefinite():
    return np.array([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize("name", ["Q", "R", "cov0"])
def test_an_indefinite_covariance_is_refused(name):
    """The message names the matrix and its eigenvalue."""
    with pytest.raises(ModelError, match=rf"{name} has the eigenvalue -1;.*positive semidefinite"):
        us.GaussMarkov(**{**GOOD, name: indefinite()})


@pytest.mark.parametrize("name", ["Q", "R", "cov0"])
def test_a_covariance_that_is_not_symmetric_is_refused(name):
    """The message names the matrix."""
    with pytest.raises(ModelError, match=f"{name} is not symmetric"):
        us.GaussMarkov(**{**GOOD, name: np.array([[1.0, 0.5], [0.4, 1.0]])})


@pytest.mark.parametrize("name", ["Q", "R", "cov0"])
def test_a_negative_variance_is_refused(name):
    """Scalars too."""
    given = {"A": 0.5, "C": 1.0, "Q": 1.0, "R": 1.0, "mean0": 0.0, "cov0": 1.0, name: -0.25}
    with pytest.raises(ModelError, match=rf"{name} has the eigenvalue -0.25"):
        us.GaussMarkov(**given)


def test_rounding_in_a_singular_covariance_is_accepted():
    """A product B B' of rank one is positive semidefinite to rounding, and that is enough."""
    column = np.array([[1.0 / 3.0], [0.1], [7.0]])
    us.GaussMarkov(0.5 * np.eye(3), [[1.0, 1.0, 1.0]], column @ column.T, 1.0)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("name", ["A", "C", "Q", "R", "b", "d", "mean0", "cov0"])
def test_a_parameter_that_is_not_finite_is_refused(name, bad):
    """In any parameter, the message names which."""
    given = {k: np.array(v, dtype=float) for k, v in {**GOOD, "b": [0.0, 0.0], "d": [0.0, 0.0]}.items()}
    given[name].flat[0] = bad
    with pytest.raises(ModelError, match=f"{name} has an entry that is not finite"):
        us.GaussMarkov(**given)


@pytest.mark.parametrize("bad", ["0.5", True, 1 + 2j, None, [[1.0, 2.0], [3.0]], [], object()])
@pytest.mark.parametrize("name", ["A", "C", "Q", "R"])
def test_a_parameter_that_is_no_number_is_refused(name, bad):
    """Strings, truth values, complex numbers, nothing, ragged lists, empty lists."""
    with pytest.raises(ModelError, match=name):
        us.GaussMarkov(**{**GOOD, name: bad})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("A", np.ones((2, 3))), ("A", np.eye(3)), ("C", np.ones((2, 3))), ("Q", np.eye(3)), ("Q", 1.0),
        ("R", np.eye(3)), ("R", 1.0), ("b", [1.0, 2.0, 3.0]), ("b", 1.0), ("d", [1.0]), ("mean0", [1.0]),
        ("mean0", 1.0), ("cov0", np.eye(3)),
        ("cov0", 1.0), ("A", np.ones((2, 2, 2, 2))),
    ],
)  # fmt: skip
def test_a_parameter_of_the_wrong_shape_is_refused(name, bad):
    """Nothing is guessed: a number does not stand for a matrix of two states."""
    with pytest.raises(ModelError, match="shape"):
        us.GaussMarkov(**{**GOOD, name: bad})


def test_zero_stands_for_zeros():
    """B = 0, d = 0, mean0 = 0 and cov0 = 0 are allowed in any dimension."""
    model = us.GaussMarkov(GOOD["A"], GOOD["C"], GOOD["Q"], GOOD["R"], b=0, d=0.0, mean0=0, cov0=0)
    assert not model.b.any()
    assert not model.cov0.any()


@pytest.mark.parametrize("A", [1.01, -1.5, np.diag([0.5, 1.2])])
def test_a_spectral_radius_above_one_is_refused(A):
    """Unless allow_unstable=True; the message names the modulus."""
    n = np.atleast_2d(A).shape[0]
    given = {"A": A, "C": np.ones((1, n)), "Q": np.eye(n), "R": 1.0, "mean0": np.zeros(n), "cov0": np.eye(n)}
    with pytest.raises(ModelError, match=r"A has an eigenvalue of modulus 1\.\d+.*allow_unstable"):
        us.GaussMarkov(**given)
    us.GaussMarkov(**given, allow_unstable=True)


def test_a_spectral_radius_of_one_is_allowed():
    """A random walk and a rotation, double roots too; they have no stationary start."""
    us.GaussMarkov(1.0, 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0)
    us.GaussMarkov([[0.0, -1.0], [1.0, 0.0]], [[1.0, 0.0]], np.eye(2), 1.0, mean0=0, cov0=0)
    us.GaussMarkov([[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0]], np.eye(2), 1.0, mean0=0, cov0=0)
    with pytest.raises(ModelError, match="mean0 and cov0 must be given"):
        us.GaussMarkov(1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "given",
    [
        {"A": 0.5, "C": 1.0, "Q": 0.0, "R": 0.0, "mean0": 0.0, "cov0": 0.0},
        {"A": 0.5, "C": 1.0, "Q": 0.0, "R": 0.0, "mean0": 0.0, "cov0": 1.0},  # known after the first reading
        {"A": 0.5, "C": np.ones((2, 1)), "Q": 1.0, "R": np.zeros((2, 2)), "mean0": 0.0, "cov0": 1.0},
        {"A": 0.5, "C": 0.0, "Q": 1.0, "R": 0.0, "mean0": 0.0, "cov0": 1.0},
    ],
)
def test_a_singular_innovation_is_refused(given):
    """A reading that is known beforehand has no law; the message names the reading and the eigenvalue."""
    with pytest.raises(ModelError, match=r"innovation covariance.*reading \d+.*eigenvalue.*positive definite"):
        us.GaussMarkov(**given)


def test_a_singular_innovation_later_on_is_refused_when_it_comes():
    """A varying system is refused at the reading that has no law, before anything is returned."""
    model = us.GaussMarkov(0.5, 1.0, us.PerStep([1.0, 1.0, 0.0, 1.0]), us.PerStep([0.0] * 4), mean0=0.0, cov0=1.0)
    transform = us.Transform(model, room(0))
    state, _ = transform.apply(transform.start(), [0.1, 0.2])
    with pytest.raises(ModelError, match="reading 3"):
        transform.step(state, 0.3)
    with pytest.raises(ModelError, match="reading 3"):
        us.whiten(np.zeros((4, 1, 3)), model)


def test_parameters_per_step_must_have_one_length():
    """The message tells the lengths."""
    with pytest.raises(ModelError, match=r"\[3, 4\] steps"):
        us.GaussMarkov(us.PerStep([0.5] * 3), 1.0, us.PerStep([1.0] * 4), 1.0, mean0=0.0, cov0=1.0)
    with pytest.raises(ModelError, match="PerStep is empty"):
        us.PerStep([])
    with pytest.raises(ModelError, match="must be given"):
        us.GaussMarkov(us.PerStep([0.5] * 3), 1.0, 1.0, 1.0)


def test_readings_beyond_the_last_step_are_refused():
    """A model given for three steps has no law for a fourth reading, and the state stays usable."""
    model = us.GaussMarkov(us.PerStep([0.5] * 3), 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0)
    transform = us.Transform(model, room(0))
    with pytest.raises(ModelError, match="3 steps; there is no step 4"):
        us.whiten(np.zeros(4), model)
    state, _ = transform.apply(transform.start(), np.zeros(3))
    with pytest.raises(ModelError, match="no step 4"):
        transform.step(state, 0.0)
    assert us.whiten(np.zeros(3), model).shape == (3,)


def test_each_value_per_step_is_checked():
    """A bad covariance at step 2 is refused: at once in a sequence, when it comes with a callable."""
    with pytest.raises(ModelError, match="Q has the eigenvalue -1"):
        us.GaussMarkov(0.5, 1.0, us.PerStep([1.0, -1.0]), 1.0, mean0=0.0, cov0=1.0)
    model = us.GaussMarkov(0.5, 1.0, lambda k: 1.0 if k < 2 else -1.0, 1.0, mean0=0.0, cov0=1.0)
    with pytest.raises(ModelError, match="Q of step 2 breaks a rule") as caught:
        us.whiten([0.0, 0.0], model)
    assert "-1" not in str(caught.value)  # at run time a matrix may tell the parameter


NORMAL = us.Gaussian(0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"coefficients": 0.5}, "noise is missing"),
        (
            {"coefficients": 0.5, "noise": scipy.stats.norm()},
            "noise is of type rv_continuous_frozen.*us.Scalar",
        ),
        ({"coefficients": [0.9, 0.5], "noise": NORMAL}, "root of modulus 1.2"),
        ({"coefficients": 1.0, "noise": NORMAL}, "past must be given"),
        ({"coefficients": [NAN, 0.1], "noise": NORMAL}, "coefficients has an entry that is not finite"),
        (
            {"coefficients": 0.5, "intercept": INF, "noise": NORMAL},
            "intercept has an entry that is not finite",
        ),
        ({"coefficients": [0.5, 0.1], "noise": NORMAL, "past": [1.0]}, r"past has shape \(1, 1\)"),
        (
            {"coefficients": [0.5, 0.1], "noise": NORMAL, "past": [1.0, NAN]},
            "past has an entry that is not finite",
        ),
        ({"coefficients": "0.5", "noise": NORMAL}, "coefficients"),
        ({"coefficients": [], "noise": NORMAL}, "coefficients"),
        ({"coefficients": [[0.5]], "noise": NORMAL}, "coefficients has shape"),
        ({"coefficients": [[1.0], [1.0, 2.0]], "noise": NORMAL}, "coefficients"),
        ({"coefficients": [0.5, 0.1], "noise": NORMAL, "past": [[1.0], [1.0, 2.0]]}, "past"),
        ({"coefficients": [0.5], "noise": us.Gaussian([0.0, 0.0], np.eye(2))}, r"\(p, 2, 2\)"),
    ],
)
def test_a_bad_autoregression_is_refused(arguments, rule):
    """The message names the parameter and the rule."""
    with pytest.raises(ModelError, match=rule):
        us.AutoRegressive(**arguments)


def test_what_is_no_law_is_refused():
    """IID and Markov say what a law is."""
    with pytest.raises(ModelError, match="it must be a law"):
        us.IID(3.0)
    with pytest.raises(ModelError, match=r"initial.*it must be a law"):
        us.Markov(scipy.stats.norm(), lambda y: NORMAL)
    with pytest.raises(ModelError, match=r"transition.*must be a function"):
        us.Markov(NORMAL, NORMAL)
    with pytest.raises(ModelError, match=r"gap.*must be a function"):
        us.Markov(NORMAL, lambda y: NORMAL, gap=3)


@pytest.mark.parametrize(
    ("mean", "cov", "rule"),
    [
        (0.0, -1.0, "positive"), (0.0, 0.0, "positive"), (NAN, 1.0, "finite"), (0.0, INF, "finite"),
        ("a", 1.0, "numbers"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "eigenvalue -1"),
        ([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([0.0, 0.0], 1.0, "shape"), ([0.0, NAN], np.eye(2), "finite"),
    ],
)  # fmt: skip
def test_a_bad_gaussian_is_refused(mean, cov, rule):
    """The message names the rule."""
    with pytest.raises(LawError, match=rule):
        us.Gaussian(mean, cov)


def test_models_that_do_not_fit_together_are_refused():
    """Source and target have the same number of channels, and partial=True needs Gauss-Markov models."""
    two = us.GaussMarkov(**GOOD)
    with pytest.raises(ModelError, match="source has 1 channels and target has 2"):
        us.disguise([1.0], room(1), two)
    with pytest.raises(ModelError, match="target is of type float"):
        us.Transform(room(1), 3.0)
    with pytest.raises(ModelError, match="model is of type"):
        us.whiten([1.0], scipy.stats.norm())
    with pytest.raises(ConfigurationError, match="partial=True needs"):
        us.Transform(us.IID(NORMAL), room(1), partial=True)
    with pytest.raises(ConfigurationError, match="partial=True needs"):
        us.whiten([1.0], us.IID(NORMAL), partial=True)
    with pytest.raises(ConfigurationError, match="partial=True needs"):
        us.loglik([1.0], us.IID(NORMAL), partial=True)


def test_every_refusal_is_a_value_error_of_ours():
    """One base class for what this package raises, and ValueError for those who know nothing of it."""
    with pytest.raises(UnderstudyError) as caught:
        us.GaussMarkov(0.5, 1.0, -1.0, 1.0)
    assert isinstance(caught.value, ValueError)
