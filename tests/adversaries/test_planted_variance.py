"""A planted leak: only the mean of the readings is moved, and their variance is still that of theta.

The budget is zero, so whoever is right more often than a coin has found a leak. False alarm: 1e-6.
"""

import numpy as np
import pytest
from adversary_cases import disguised, finds, known_of
from planted_leaks import moved, noisy_room

import understudy as us
from understudy.adversaries.learners.bayes import Exact
from understudy.adversaries.learners.machine_learning import Hidden

T, N = 40, 1200


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(noisy_room, [0, 1]), [0, 0.5, 1], leakage=0.0, horizon=T)


def test_an_unfiltered_variance_is_found(design):
    """By the hidden Markov smoother, which looks at local variances."""
    cases = disguised(design, T, N, np.random.default_rng(1), moved(design))
    assert finds(Hidden(), cases, known_of(design))


@pytest.mark.long(seconds=2, reason="an audit of a planted leak's mended form")
def test_in_what_the_filter_makes_nothing_is_found(design):
    """The same readings, disguised as they should be."""
    cases = disguised(design, T, N, np.random.default_rng(1))
    for learner in (Hidden(), Exact()):
        assert not finds(learner, cases, known_of(design))
