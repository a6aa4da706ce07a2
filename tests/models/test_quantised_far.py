"""Readings and grids that double precision cannot hold are refused, and never become a missing reading."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.errors import ModelError, NumericalError, StateError

ROOM = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)


@pytest.mark.parametrize("row", [0, 1])
def test_a_reading_too_far_out_is_refused_by_its_row(row):
    """It gave NaN, which is a missing reading, and a warning."""
    Y = np.full(3, 105.0)
    Y[row] = 1e300
    sensor = us.Quantised(ROOM, 1.0)
    if row == 0:
        assert np.isfinite(us.whiten(Y, sensor, rng=1)).all()  # a normal law at the start: exact however far
        return
    with pytest.raises(NumericalError, match="row 1: channel 0 is too far out") as caught:
        us.whiten(Y, sensor, rng=1)
    assert "e+300" not in str(caught.value)


def test_an_offset_that_hides_the_step_is_refused():
    """1e20 + 1 is 1e20: every reading would be reported as the same few numbers."""
    with pytest.raises(ModelError, match=r"offset of channel 0 = 1e\+20"):
        us.Quantised(ROOM, 1.0, 1e20)
    assert us.Quantised(ROOM, 1.0, 1e5).grid.channels[0].offset == 1e5


@pytest.mark.parametrize("state", [(2.0, 3.0), (float("nan"), 1.0), ("a", "b"), (-0.5, 1.5), ([1.0], [0.0])])
def test_a_hidden_state_that_is_no_probabilities_is_refused(state):
    """States come back from files."""
    laws = [us.Gaussian(0.0, 1.0), us.Gaussian(1.0, 2.0)]
    model = us.HiddenMarkov([[0.9, 0.1], [0.5, 0.5]], [1.0, 0.0], laws)
    transform = us.Transform(model, us.IID(us.Gaussian(0.0, 1.0)))
    with pytest.raises(StateError, match="probabilities"):
        transform.step((state, ()), 1.0)
