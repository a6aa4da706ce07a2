"""Families, and the model of y when theta follows a path."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import OwnGaussMarkov, dense, dense_scores, draw, random_system, room, with_gaps

import understudy as us
from understudy.errors import FamilyError, ModelError


def switching(seed, n, d, count=3):
    """Systems that share state coordinates, and the family of their models."""
    rng = np.random.default_rng([31, seed])
    systems = [random_system(rng, n, d) for _ in range(count)]
    for system in systems[1:]:
        system["mean0"], system["cov0"] = systems[0]["mean0"], systems[0]["cov0"]
    return rng, systems, us.Family({i: us.GaussMarkov(**s) for i, s in enumerate(systems)})


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (4, 3)])
def test_a_path_is_the_joint_law_of_the_switched_system(n, d):
    """theta_k enters the step into x_k and the reading y_k; with and without gaps, to 1e-9 of the oracle."""
    rng, systems, family = switching(n, n, d)
    path = rng.integers(0, 3, size=40).tolist()
    switched = {name: [systems[i][name] for i in path] for name in ("A", "C", "Q", "R", "b", "d")}
    switched.update(mean0=systems[0]["mean0"], cov0=systems[0]["cov0"])
    mean, cov = dense(switched, len(path))
    Y = draw(rng, mean, cov, len(path))
    model = family.along(path)
    for readings in (Y, with_gaps(rng, Y)):
        z, loglik = dense_scores(readings, mean, cov)
        assert np.nanmax(np.abs(us.whiten(readings, model) - z)) < 1e-9
        assert us.loglik(readings, model) == pytest.approx(loglik, rel=1e-11)


def test_switching_one_step_later_is_another_law():
    """Twin: the oracle of a path delayed by one step disagrees."""
    rng, systems, family = switching(7, 2, 1)
    path = [0] * 10 + [1] * 10
    late = [0] * 11 + [1] * 9
    switched = {name: [systems[i][name] for i in late] for name in ("A", "C", "Q", "R", "b", "d")}
    switched.update(mean0=systems[0]["mean0"], cov0=systems[0]["cov0"])
    mean, cov = dense(switched, 20)
    Y = draw(rng, mean, cov, 20)
    assert np.max(np.abs(us.whiten(Y, family.along(path)) - dense_scores(Y, mean, cov)[0])) > 0.01


def test_a_constant_path_is_the_member_itself():
    """A path that never moves gives the scores of the member."""
    family = us.Family(room, values=[0, 1])
    Y = us.sample(room(1), 100, rng=1)
    assert np.max(np.abs(us.whiten(Y, family.along([1] * 100)) - us.whiten(Y, room(1)))) < 1e-10


def test_paths_may_take_values_outside_the_prior():
    """A family made from a function serves pseudo values along a path too."""
    family = us.Family(room, values=[0, 1])
    model = family.along([0, 0.2, 0.6])
    assert model.at(2).b[0] == pytest.approx(2.0)
    assert model.at(3).b[0] == pytest.approx(6.0)


def test_a_path_of_autoregressive_models():
    """Gaussian AR members switch like the straightforward recursion."""
    members = {
        v: us.AutoRegressive([0.5 + v, -0.2], 1.0 + v, us.Gaussian(0.0, 1.0 + v), past=[1.0, 2.0]) for v in (0, 0.3)
    }
    path = [0, 0.3, 0.3, 0, 0.3]
    Y = np.array([1.0, 2.5, -0.5, 3.0, 0.2])
    past, expected = [1.0, 2.0], []
    for v, y in zip(path, Y, strict=True):
        expected.append((y - (1.0 + v) - (0.5 + v) * past[0] + 0.2 * past[1]) / np.sqrt(1.0 + v))
        past = [y, past[0]]
    assert np.allclose(us.whiten(Y, us.Family(members).along(path)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["student", "iid", "markov", "own"])
def test_a_path_of_any_models(kind):
    """Members that are not Gauss-Markov switch by their own four methods; the state goes through."""

    def member(v):
        if kind == "student":
            return us.AutoRegressive(0.5 + v, v, us.Scalar(scipy.stats.t(4, scale=1 + v)), past=1.0)
        if kind == "iid":
            return us.IID(us.Gaussian(v, 1.0 + v))
        if kind == "markov":
            return us.Markov(us.Gaussian(v, 1.0), lambda y, k: us.Gaussian(v * y + k, 1.0 + v))
        return OwnGaussMarkov(room(v))

    family = us.Family(member, values=[0, 0.4])
    path = [0, 0.4, 0.4, 0, 0.4]
    Y = np.array([1.0, 2.0, -1.0, 0.5, 3.0])
    model = family.along(path)
    state, expected = member(0).start(), []
    for v, y in zip(path, Y.tolist(), strict=True):
        expected.append(member(v).predict(state).score(y))
        state = member(v).update(state, y)
    assert np.allclose(us.whiten(Y, model), np.ravel(expected), rtol=1e-12, atol=1e-12)
    assert np.allclose(us.colour(us.whiten(Y, model), model), Y, rtol=1e-9, atol=1e-9)
    with pytest.raises(ModelError, match="step 6"):
        us.whiten([*Y, 1.0], model)


def test_one_member_object_for_each_value():
    """The model of a value is made once, so its gain table is computed once."""
    family = us.Family(room, values=[0, 1])
    assert family.model(0.6) is family.model(0.6)


def test_the_default_prior_is_uniform_and_read_only():
    """Without a prior the values are equally likely."""
    family = us.Family(room, values=[0, 1, 2, 3])
    assert np.array_equal(family.prior, np.full(4, 0.25))
    with pytest.raises(ValueError, match="read-only"):
        family.prior[0] = 1.0


def test_a_disguise_along_a_path_inverts():
    """Source along a path, target constant, and back."""
    family = us.Family(room, values=[0, 1])
    path = [0] * 30 + [1] * 40 + [0] * 30
    Y = us.sample(family.along(path), 100, rng=3)
    out = us.disguise(Y, family.along(path), room(0.5))
    assert np.max(np.abs(us.disguise(out, room(0.5), family.along(path)) - Y)) < 1e-9
    assert np.max(np.abs(out - us.colour(us.whiten(Y, family.along(path)), room(0.5)))) < 1e-12 * np.abs(out).max()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"models": 3, "values": [1]}, "function or a mapping"),
        ({"models": room}, "values is missing"),
        ({"models": room, "values": []}, "at least one value"),
        ({"models": room, "values": [0, 1, 0]}, "twice"),
        ({"models": room, "values": [0, 1], "prior": [0.5, 0.6]}, "sums to 1.1"),
        ({"models": room, "values": [0, 1], "prior": [1.5, -0.5]}, "not negative"),
        ({"models": room, "values": [0, 1], "prior": [float("nan"), 1.0]}, "finite"),
        ({"models": room, "values": [0, 1], "prior": [1.0]}, "one probability for each"),
        ({"models": room, "values": [0, 1], "prior": ["a", "b"]}, "one probability for each"),
        ({"models": room, "values": [0, 1], "prior": [[0.5], [0.2, 0.3]]}, "one probability for each"),
        ({"models": lambda v: 3.0, "values": [0]}, "dim, start, predict, update, skip"),
        ({"models": {0: room(0)}, "values": [0, 1]}, "no model for 1"),
        ({"models": {0: room(0), 1: us.IID(us.Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]))}}, "channels"),
    ],
)
def test_a_bad_family_is_refused(arguments, rule):
    """The message names the rule that was broken."""
    with pytest.raises(FamilyError, match=rule):
        us.Family(**arguments)


def test_an_empty_path_is_refused():
    """A path holds one value for each reading."""
    with pytest.raises(FamilyError, match="path is empty"):
        us.Family(room, values=[0, 1]).along([])


def test_a_path_through_different_models_is_refused():
    """Members of a path share type, channels and the dimension of their state."""
    two = us.GaussMarkov(np.diag([0.5, 0.5]), [[1.0, 1.0]], np.eye(2), 1.0)
    student = us.AutoRegressive(0.5, noise=us.Scalar(scipy.stats.t(3)))
    for other in (two, us.IID(us.Gaussian(0.0, 1.0)), us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))):
        with pytest.raises(FamilyError, match="must share"):
            us.Family({0: room(0), 1: other}).along([0, 1])
    for other in (
        us.AutoRegressive([0.5, 0.1], noise=us.Scalar(scipy.stats.t(3))),
        us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0)),
    ):
        with pytest.raises(FamilyError, match="must share"):
            us.Family({0: student, 1: other}).along([0, 1])


def test_values_that_are_vectors_make_a_family():
    """A parameter of two numbers, given as arrays, is as good as one given as tuples."""
    family = us.Family(lambda v: room(v[0], d=v[1]), values=[np.array([0.0, 1.0]), np.array([1.0, 0.0])])
    assert len(family.values) == 2
