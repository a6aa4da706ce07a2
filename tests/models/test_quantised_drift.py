"""Readings that drift to an end of the range: what the first ones say is not charged for all."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.laws.atoms import Rounding
from understudy.models.quantised_residual import drifts, is_saturated, move_by, settling_time, start_at

# rests at 50 after some thousands of readings; the filter settles in tens
SLOW = us.GaussMarkov(A=0.99, C=1.0, Q=0.01, R=0.1, b=0.5, mean0=20.0, cov0=0.1)


@pytest.mark.long(seconds=4, reason="quadrature over thousands of readings")
def test_a_drift_to_the_end_of_the_range_is_charged():
    """Near an end matched moments leak 1e-4 nats a reading; the first hundred readings, far from it, leak 1e-12."""
    sensor = us.Quantised(SLOW, step=0.1, high=48.5, method="moments")
    drifting = sensor.residual(1500, sequences=4, rng=1)
    first = sensor.residual(100, sequences=4, rng=1)
    assert first.kl < 1e-7
    assert drifting.kl > 1e-3
    assert "later blocks" in drifting.how
    at_rest = us.Quantised(start_at(SLOW, 1500), step=0.1, high=48.5, method="moments")
    per_reading = at_rest.residual(100, sequences=8, rng=2).per_reading
    # some 400 readings to get there, 1100 there
    assert per_reading * 1100 / 5 < drifting.kl < per_reading * 1500 * 5


def test_a_drift_that_meets_no_end_is_not_followed():
    """Without ends and with small steps a place is like another, and the first readings stand for all."""
    found = us.Quantised(SLOW, step=0.1).residual(1500, sequences=2, rng=1)
    assert found.how.endswith("2 sequences of 100 readings")


def test_ends_ask_for_point_masses():
    """However small the step, a normal law is wrong at an end; auto takes point masses where there are any."""
    assert us.Quantised(SLOW, step=0.1).method == "moments"
    sensor = us.Quantised(SLOW, step=0.1, high=48.5)
    assert (sensor.method, sensor.reason) == ("point-mass", "point-mass: the range has ends")
    assert sensor.residual(1500, sequences=2, rng=1).kl < 1e-12
    two = us.GaussMarkov(A=0.9 * np.eye(2), C=[[1.0, 1.0]], Q=np.eye(2), R=1.0)
    assert us.Quantised(two, step=0.1, high=1.0).reason.startswith("moments, although the range has ends")


@pytest.mark.parametrize("steps", [0, 1, 7, 100])
def test_many_steps_at_once_are_the_steps(steps):
    """Doubling against a loop."""
    model = us.GaussMarkov(A=[[0.9, 0.2], [0.0, 0.7]], C=[[1.0, 0.0]], Q=0.1 * np.eye(2), R=1.0, b=[1.0, -0.5])
    x, P, (A, b, Q) = model.mean0 + 3.0, model.cov0 + np.eye(2), move_by(model, steps)
    wanted, cov = x, P
    system = model.at(1)
    for _ in range(steps):
        wanted, cov = system.A @ wanted + system.b, system.A @ cov @ system.A.T + system.Q
    np.testing.assert_allclose(A @ x + b, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(A @ P @ A.T + Q, cov, rtol=1e-12, atol=1e-12)


def test_wide_cells_see_a_drift_too():
    """In a cell that is wide beside the readings it matters where in the cell they lie."""
    assert drifts(SLOW, Rounding(1, step=20.0), 50, 1000)
    assert settling_time(SLOW, Rounding(1, step=20.0), 100, 10_000) < 2000


def test_an_unstable_model_is_followed_only_while_it_is_finite():
    """Nothing overflows into the answer."""
    wild = us.GaussMarkov(A=1.5, C=1.0, Q=1.0, R=1.0, mean0=0.0, cov0=1.0, allow_unstable=True)
    assert not drifts(wild, Rounding(1, step=1.0, high=5.0), 100, 100_000)


def test_far_beyond_an_end_nothing_is_left_to_tell():
    """Eight standard deviations beyond, every reading is the end."""
    assert is_saturated(start_at(SLOW, 3000), Rounding(1, step=0.1, high=30.0))
    assert not is_saturated(start_at(SLOW, 3000), Rounding(1, step=0.1, high=49.9))
