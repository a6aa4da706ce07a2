"""What is printed never tells a parameter, a reading or a score (design, section 5: secrets)."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.stats
from helpers import room

import understudy as us
from understudy.laws.scalar import Shifted

SECRET = 0.7314159
DIGITS = re.compile(r"7314|0\.73|5349|\d\.\d")

GAUSS = us.Gaussian(SECRET, SECRET)
STUDENT = us.Scalar(scipy.stats.t(SECRET, loc=SECRET))
THINGS = {
    "gauss-markov": us.GaussMarkov(SECRET, SECRET, SECRET, SECRET, b=SECRET),
    "gauss-markov per step": us.GaussMarkov(SECRET, 1.0, us.PerStep([SECRET] * 3), 1.0, mean0=SECRET, cov0=SECRET),
    "per step": us.PerStep([SECRET, SECRET]),
    "autoregressive": us.AutoRegressive([SECRET], SECRET, GAUSS),
    "autoregressive student": us.AutoRegressive([SECRET], SECRET, STUDENT),
    "iid": us.IID(GAUSS),
    "markov": us.Markov(GAUSS, lambda y: us.Gaussian(SECRET * y, SECRET)),
    "gaussian": GAUSS,
    "gaussian vector": us.Gaussian([SECRET, SECRET], SECRET * np.eye(2)),
    "scalar": STUDENT,
    "independent": us.Independent(GAUSS, STUDENT),
    "shifted": Shifted(STUDENT, SECRET),
    "transform": us.Transform(room(SECRET), room(1 - SECRET)),
    "transform of other models": us.Transform(us.IID(GAUSS), us.IID(STUDENT)),
    "family": us.Family(room, values=[SECRET, 1.0], prior=[SECRET, 1 - SECRET]),
    "path": us.Family(room, values=[SECRET, 1.0]).along([SECRET, 1.0]),
    "path of other models": us.Family(lambda v: us.IID(us.Gaussian(v, v)), [SECRET, 1.0]).along([SECRET, 1.0]),
    "predictive law": room(SECRET).predict(room(SECRET).start()),
}


@pytest.mark.parametrize("name", THINGS)
def test_repr_and_str_show_no_parameter(name):
    """Sizes and kinds only."""
    for text in (repr(THINGS[name]), str(THINGS[name]), f"{THINGS[name]}"):
        assert not DIGITS.search(text)
        assert len(text) < 120


def test_the_pattern_finds_a_parameter():
    """Twin: the same pattern finds the number where it is shown."""
    assert DIGITS.search(repr(SECRET))
    assert DIGITS.search(f"Gaussian(mean={SECRET})")


def test_a_switched_path_that_is_refused_shows_kinds_only():
    """The error names what the members are, not their parameters."""
    family = us.Family({0: room(SECRET), 1: us.IID(GAUSS)})
    with pytest.raises(us.errors.FamilyError) as caught:
        family.along([0, 1])
    assert not DIGITS.search(str(caught.value))


def test_repr_of_a_transform_does_not_tell_source_from_target():
    """Two transforms of different parameters print the same."""
    assert repr(us.Transform(room(0), room(1))) == repr(us.Transform(room(1), room(0.2)))
