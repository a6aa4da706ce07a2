"""A planted leak: two sensors of one room, each disguised by a model of its own.

Each sensor by itself says nothing of theta: only their correlation does. The budget is zero. A false alarm happens once
in a million.
"""

import numpy as np
import pytest
from adversary_cases import disguised, finds, known_of
from planted_leaks import apart, pair, sensor

import understudy as us
from understudy.adversaries.learners.bayes import Exact
from understudy.adversaries.learners.machine_learning import Hidden

T, N = 40, 1200


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(pair, [0, 1]), [0, 0.5, 1], leakage=0.0, horizon=T)


def test_sensors_that_are_disguised_apart_are_found(design):
    """The correlation of the channels gives theta away."""
    cases = disguised(design, T, N, np.random.default_rng(1), apart(design))
    assert finds(Hidden(), cases, known_of(design))


@pytest.mark.long(seconds=3, reason="an audit of every sensor")
def test_each_of_them_alone_tells_nothing(design):
    """The same outputs, one channel at a time: every marginal is exact."""
    cases = disguised(design, T, N, np.random.default_rng(1), apart(design))
    for c in range(2):
        alone = type(cases)(cases.outputs[:, c : c + 1], cases.labels, cases.blocks, 2, True)
        family = us.Family(lambda v, c=c: sensor(v, c), [0, 1])
        assert not finds(Hidden(), alone, known_of(design, family=family))


@pytest.mark.long(seconds=3, reason="an audit of sensors together")
def test_sensors_in_one_joint_model_tell_nothing(design):
    """One filter for both."""
    cases = disguised(design, T, N, np.random.default_rng(1))
    for learner in (Hidden(), Exact()):
        assert not finds(learner, cases, known_of(design))
