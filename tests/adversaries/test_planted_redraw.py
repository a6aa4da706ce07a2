"""A planted leak: the pseudo value is drawn again after every restart.

The exact bound of the design is what one draw allows. Who is wrong less often, beyond luck once in a million, has found
that there was more than one.
"""

import numpy as np
import pytest
from adversary_cases import beats, disguised, known_of
from planted_leaks import quick_room, restarted

import understudy as us
from understudy.adversaries.learners.bayes import Exact, Redraws
from understudy.randomizer.measures import bayes_error

T, N = 60, 3000


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(quick_room, [0, 1]), [0, 0.5, 1], leakage="0.1 bit", horizon=T)


@pytest.fixture(scope="module")
def bound(design):
    return bayes_error(design.prior, design.randomizer.kernel)


@pytest.mark.long(seconds=3, reason="a planted leak through every restart")
def test_draws_after_restarts_are_found(design, bound):
    """Fifteen draws where one is allowed: far below the bound."""
    cases = disguised(design, T, N, np.random.default_rng(1), restarted(design))
    found, error = beats(Redraws(), cases, known_of(design), bound)
    assert found
    assert bound > 0.3
    assert error < 0.2


def test_one_draw_is_no_more_than_its_bound(design, bound):
    """The same design, played as it should be: neither this adversary nor the best one is below the bound."""
    cases = disguised(design, T, N, np.random.default_rng(1))
    for learner in (Redraws(), Exact()):
        found, error = beats(learner, cases, known_of(design), bound)
        assert not found
        assert error < bound + 0.04
