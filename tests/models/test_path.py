"""A parameter that moves through the newer models: hidden chains, rounded sensors, atoms, and what is refused."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.stats
from helpers import is_white, room, same_bits

import understudy as us
from understudy.checks import check_model
from understudy.errors import FamilyError, ModelError
from understudy.laws.atoms import Atoms
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.nonlinear import Nonlinear
from understudy.models.quantised import Quantised

STUDENT = us.Scalar(scipy.stats.t(4.0, loc=1.0))


def chain(v):
    """Two hidden states; the value moves the chain, the first probabilities and the laws."""
    laws = [us.Gaussian(5.0 * v, 1.0 + v), us.Gaussian(4.0 + 5.0 * v, 2.0)]
    return HiddenMarkov([[0.9 - 0.5 * v, 0.1 + 0.5 * v], [0.2, 0.8]], [0.3 + v, 0.7 - v], laws)


def grid(v):
    """The same on a grid."""
    laws = [Atoms([0.0, 1.0, 2.0], [0.5, 0.5 - v, v]), Atoms([0.0, 1.0, 2.0], [0.1 + v, 0.3, 0.6 - v])]
    return HiddenMarkov([[0.9 - 0.5 * v, 0.1 + 0.5 * v], [0.2, 0.8]], [0.3 + v, 0.7 - v], laws)


PATH = [0.2, 0.0, 0.2, 0.2, 0.0]
Y = [1.0, 5.0, 4.0, -1.0, 0.5]


def enumerated(make, path, upto, law_of):
    """Sum over all hidden paths: weights of the first readings times law_of(k, member, hidden state)."""
    total = 0.0
    for hidden in itertools.product(range(2), repeat=upto):
        weight = make(path[0]).initial[hidden[0]]
        for k in range(1, upto):
            weight *= make(path[k]).transition[hidden[k - 1], hidden[k]]
        for k in range(upto):
            weight *= law_of(k, make(path[k]).laws[hidden[k]])
        total += weight
    return total


def test_a_path_of_hidden_chains_is_the_sum_over_all_hidden_paths():
    """The entry of step k governs the move into the hidden state of reading k, and its law."""
    model = us.Family(chain, values=[0.0, 0.2]).along(PATH)

    def normal(law):
        return scipy.stats.norm(law.mean, law.cov**0.5)

    z = us.whiten(Y, model)
    for k in range(len(Y)):
        past = enumerated(chain, PATH, k, lambda i, law: normal(law).pdf(Y[i])) if k else 1.0
        below = enumerated(
            chain, PATH, k + 1, lambda i, law, k=k: normal(law).cdf(Y[i]) if i == k else normal(law).pdf(Y[i])
        )
        assert scipy.stats.norm.cdf(z[k]) == pytest.approx(below / past, rel=1e-10)
    both = enumerated(chain, PATH, len(Y), lambda i, law: normal(law).pdf(Y[i]))
    assert us.loglik(Y, model) == pytest.approx(np.log(both), rel=1e-12)
    # twin: to move by the member that is left tells another law
    state, off = chain(PATH[0]).start(), []
    for v, y in zip(PATH, Y, strict=True):
        off.append(chain(v).predict(state).score(y))
        state = chain(v).update(state, y)
    assert np.abs(z - off).max() > 0.01


def test_gaps_along_a_path_of_hidden_chains_are_exact():
    """A missing reading moves the chain and tells nothing."""
    model = us.Family(chain, values=[0.0, 0.2]).along(PATH)
    there = np.array([1.0, np.nan, np.nan, -1.0, 0.5])

    def density(i, law):
        return 1.0 if np.isnan(there[i]) else scipy.stats.norm(law.mean, law.cov**0.5).pdf(there[i])

    assert us.loglik(there, model) == pytest.approx(np.log(enumerated(chain, PATH, 5, density)), rel=1e-12)


@pytest.mark.parametrize("make", [chain, grid])
def test_a_constant_path_is_the_member(make):
    """Up to rounding."""
    family = us.Family(make, values=[0.0, 0.2])
    model, member = family.along([0.2] * 50), make(0.2)
    readings = us.sample(member, 50, rng=1)
    assert np.abs(us.whiten(readings, model, rng=2) - us.whiten(readings, member, rng=2)).max() < 1e-12
    assert us.loglik(readings, model) == pytest.approx(us.loglik(readings, member), rel=1e-13)
    with pytest.raises(ModelError, match="50 steps; there is no step 51"):
        us.whiten(np.append(readings, readings[0]), model, rng=2)


@pytest.mark.long(seconds=2, reason="every check for paths of 300 readings")
@pytest.mark.parametrize("make", [chain, grid])
def test_a_path_of_hidden_chains_passes_the_checks(make):
    """With atoms and without; 300 readings."""
    model = us.Family(make, values=[0.0, 0.2]).along([0.0, 0.2, 0.2] * 100)
    assert check_model(model, T=300).passed
    assert getattr(model, "atoms", False) == (make is grid)
    assert repr(model) == "HiddenPath(states=2, steps=300, dim=1)"
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301  # our own bytes
        assert same_bits(us.sample(other, 300, rng=1), us.sample(model, 300, rng=1))


def test_readings_along_a_path_are_disguised():
    """From a path to a constant model, with the target's law; the path with its values changed has another."""
    family = us.Family(chain, values=[0.0, 0.2])
    path = [0.0, 0.2] * 1000
    readings = us.sample(family.along(path), 2000, rng=5)
    assert is_white(us.whiten(us.disguise(readings, family.along(path), chain(0.1)), chain(0.1)))
    assert not is_white(us.whiten(readings, us.Family(chain, values=[0.0, 0.2]).along([0.2] * 2000)))


def test_a_path_of_atoms_says_so():
    """Independent readings on a grid: scores along the path need uniforms, and get them."""
    family = us.Family(lambda v: us.IID(Atoms([0.0, 1.0], [0.5 - v, 0.5 + v])), values=[0.0, 0.2])
    model = family.along([0.0, 0.2] * 500)
    assert model.atoms
    assert not us.Family({0: us.IID(STUDENT), 1: us.IID(us.Gaussian(0.0, 1.0))}).along([0, 1]).atoms
    readings = us.sample(model, 1000, rng=1)
    assert is_white(us.whiten(readings, model, rng=2))
    assert set(us.disguise(readings, model, us.IID(Atoms([3.0, 4.0], [0.9, 0.1])))) == {3.0, 4.0}


def test_a_path_of_rounded_rooms_is_the_rounded_path():
    """One grid in front of the switched model: the same readings, the same scores."""
    family = us.Family(lambda v: Quantised(room(v), 1.0), values=[0, 1])
    path = [0, 1, 1, 0] * 10
    model, behind = family.along(path), us.Family(room, values=[0, 1]).along(path)
    assert repr(model) == "Quantised(GaussMarkov(states=1, dim=1, per step), point-mass)"
    assert model.steps == 40
    readings = us.sample(model, 40, rng=1)
    assert same_bits(readings, np.round(us.sample(behind, 40, rng=1)))
    assert same_bits(us.whiten(readings, model, rng=2), us.whiten(readings, Quantised(behind, 1.0), rng=2))


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({0: chain(0.0), 1: HiddenMarkov(np.eye(3), [0.2, 0.3, 0.5], [STUDENT] * 3)}, "must share type, channels"),
        ({0: chain(0.0), 1: us.IID(STUDENT)}, "between a HiddenMarkov of 1 channels and a IID"),
        ({0: Quantised(room(0), 1.0), 1: Quantised(room(1), 2.0)}, "several grids or methods; members must share both"),
        ({0: Quantised(room(0), 1.0), 1: Quantised(room(1), 1.0, 0.5)}, "several grids or methods"),
        ({0: Quantised(room(0), 1.0), 1: Quantised(room(1), 1.0, method="moments")}, "several grids or methods"),
        ({0: Quantised(room(0), 1.0), 1: room(1)}, "between a Quantised of 1 channels and a GaussMarkov"),
    ],
)
def test_members_that_do_not_go_together_are_refused(members, rule):
    """The message names the rule."""
    with pytest.raises(FamilyError, match=rule):
        us.Family(members).along([0, 1, 1])


def test_approximate_models_do_not_follow_a_path():
    """What they would give away along it is not known, and could not be charged."""

    def sensor(v):
        normal = us.Gaussian(0.0, 1.0)
        return Nonlinear(lambda x: 0.9 * x + v, lambda x: x, normal, normal, normal, particles=20)

    with pytest.raises(FamilyError, match="Nonlinear models, which are approximate; members of a path must be exact"):
        us.Family(sensor, values=[0, 1]).along([0, 1])


def test_densities_follow_a_path_if_they_remember_alike():
    """The member of step k gives the law of reading k, for the past that all of them keep."""

    def density(v, memory=1):
        def conditional(y, past):
            e = y - v - 0.5 * (past[-1] if past.size else 0.0)
            return -0.5 * e * e - 0.5 * np.log(2.0 * np.pi)

        return General(conditional, memory=memory)

    readings = [1.0, 2.0, -1.0]
    z = us.whiten(readings, us.Family(density, values=[0.0, 1.0]).along([0.0, 1.0, 1.0]))
    assert np.abs(z - [1.0, 0.5, -3.0]).max() < 1e-8
    members = {0: density(0.0), 1: density(1.0, memory=2)}
    with pytest.raises(FamilyError, match="the memory"):
        us.Family(members).along([0, 1])


def test_own_models_with_emit_do_not_follow_a_path():
    """A path knows how to read and predict, not how to release."""

    class Sensor:
        dim = 1

        def __init__(self, v):
            self.v = v

        def start(self):
            return 0.0

        def predict(self, state):
            return us.Gaussian(self.v, 1.0)

        def update(self, state, y):
            return y

        def skip(self, state):
            return state

        def emit(self, state, z):
            return z, float(round(z))

    with pytest.raises(FamilyError, match="Sensor models, which feed back something else than they release"):
        us.Family(Sensor, values=[0, 1]).along([0, 1])
