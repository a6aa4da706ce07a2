"""Models, families and transformations are values: they do not change, and copies are as good."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.stats
from helpers import room

import understudy as us

VALUES = {
    "gauss-markov": room(1),
    "per step": us.GaussMarkov(0.9, 1.0, us.PerStep([0.1, 0.2, 0.3]), 0.1, mean0=0.0, cov0=1.0),
    "autoregressive": us.AutoRegressive([0.5, 0.1], 1.0, us.Gaussian(0.0, 1.0)),
    "student": us.AutoRegressive([0.5, 0.1], 1.0, us.Scalar(scipy.stats.t(4))),
    "iid": us.IID(us.Gaussian([0.0, 1.0], np.eye(2))),
    "path": us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(1.0, 1.0))}).along([0, 1, 1]),
}


def through_pickle(value):
    """What a worker process receives."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes


@pytest.mark.parametrize("name", VALUES)
def test_an_attribute_is_set_once(name):
    """Changing or deleting one is refused, and nothing has changed."""
    model = VALUES[name]
    for attribute in ("dim", "anything"):
        with pytest.raises(AttributeError):
            setattr(model, attribute, 7)
    with pytest.raises(AttributeError, match="value"):
        del model.dim
    assert model.dim == (2 if name == "iid" else 1)


def test_a_transform_and_a_family_do_not_change():
    """The same for what is made of models."""
    for value in (us.Transform(room(1), room(0)), us.Family(room, values=[0, 1])):
        with pytest.raises(AttributeError, match="value"):
            value.dim = 3


def test_arrays_of_a_model_are_read_only():
    """Neither matrices nor prior can be written to."""
    for array in (room(1).A, room(1).cov0, us.Family(room, values=[0, 1]).prior, VALUES["student"].past):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("name", VALUES)
def test_a_copy_gives_the_same_bits(name, copied):
    """For worker processes: a model that went through a pickle whitens as before."""
    model = VALUES[name]
    Y = us.sample(model, 3, rng=1)
    assert us.whiten(Y, copied(model)).tolist() == us.whiten(Y, model).tolist()


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_copied_transform_continues(copied):
    """A state of the original continues in the copy."""
    transform = us.Transform(room(1), room(0.4))
    state, _ = transform.step(transform.start(), 105.0)
    assert copied(transform).step(state, 110.0) == transform.step(state, 110.0)
