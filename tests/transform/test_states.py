"""States that do not belong to the filter are refused, as a StateError."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import random_system, room

import understudy as us
from understudy.errors import StateError

TWO = us.GaussMarkov(np.diag([0.5, 0.3]), np.eye(2), np.eye(2), np.eye(2))
TRANSFORMS = {
    "scalar": us.Transform(room(1), room(0)),
    "vector": us.Transform(TWO, us.GaussMarkov(**random_system(np.random.default_rng(121), 3, 2))),
    "chain": us.Transform(us.IID(us.Gaussian(0.0, 1.0)), room(0)),
}


def reading(transform):
    return 100.0 if transform.dim == 1 else np.zeros(2)


@pytest.mark.parametrize("kind", TRANSFORMS)
@pytest.mark.parametrize("state", [(), (0,), (0, 1.0), (0, 1.0, 2.0, 3.0), (0, *[1.0] * 30), None, 5, "state"])
def test_a_state_of_the_wrong_shape_is_refused(kind, state):
    """By step and by apply."""
    transform = TRANSFORMS[kind]
    y = reading(transform)
    with pytest.raises(StateError):
        transform.step(state, y)
    with pytest.raises(StateError):
        transform.apply(state, [y])


def test_a_state_from_another_filter_is_refused():
    """A state of a two-channel filter, given to a scalar one, and the other way round."""
    scalar, vector = TRANSFORMS["scalar"], TRANSFORMS["vector"]
    with pytest.raises(StateError, match="tuple of"):
        scalar.step(vector.start(), 100.0)
    with pytest.raises(StateError, match="tuple of"):
        vector.apply(scalar.start(), np.zeros((3, 2)))
    with pytest.raises(StateError, match="tuple of"):
        scalar.apply((*scalar.start(), 1.0), [100.0])


INDEX = """
import sys
import numpy as np
import understudy as us

room = lambda v: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * v, mean0=100.0, cov0=1.0)
two = us.GaussMarkov(np.diag([0.5, 0.3]), np.eye(2), np.eye(2), np.eye(2))
index = int(sys.argv[2])
scalar, vector = us.Transform(room(1), room(0)), us.Transform(two, two)
calls = {
    "step": lambda: scalar.step((index, 100.0, 100.0), 100.0),
    "apply": lambda: scalar.apply((index, 100.0, 100.0), [100.0]),
    "gap": lambda: scalar.apply((index, 100.0, 100.0), [None]),
    "vector": lambda: vector.apply((index, 0.0, 0.0, 0.0, 0.0), [[0.0, 0.0]]),
    "sensors": lambda: scalar.apply(((index, 100.0, 100.0),) * 2, np.full((1, 1, 2), 100.0)),
}
try:
    calls[sys.argv[1]]()
except us.errors.StateError:
    print("refused")
"""


@pytest.mark.sample(default=3, seconds=2, reason="ten interpreters")
@pytest.mark.parametrize("index", [-1, -(10**9)])
@pytest.mark.parametrize("call", ["step", "apply", "gap", "vector", "sensors"])
def test_a_negative_index_is_refused(call, index):
    """It would read outside the gain table; in a process of its own, because that may end or hang it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(us.__file__).parents[1])}
    command = [sys.executable, "-c", INDEX, call, str(index)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=10)
    assert answer.returncode == 0
    assert answer.stdout == "refused\n"


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_the_number_of_sensors_must_agree(kind):
    """One state a sensor; the message tells how to make them."""
    transform = TRANSFORMS[kind]
    Y = np.zeros((4, transform.dim, 3))
    for state in (transform.start(2), transform.start(4), ()):
        with pytest.raises(StateError, match=r"3 sensors.*start\(3\)"):
            transform.apply(state, Y)


def test_one_state_is_not_that_of_three_sensors():
    """A scalar state has three entries, which are not three states; and three states are not one."""
    transform = TRANSFORMS["scalar"]
    with pytest.raises(StateError):
        transform.apply(transform.start(), np.zeros((4, 1, 3)))
    with pytest.raises(StateError):
        transform.apply(transform.start(3), np.zeros(4))


def test_sensor_states_of_the_wrong_shape_are_refused():
    """Each sensor's state is checked like a single one."""
    transform = TRANSFORMS["scalar"]
    good = transform.start()
    for states in (((0, 1.0), (0, 1.0)), (good, (0, 1.0)), (good, TRANSFORMS["vector"].start())):
        with pytest.raises(StateError):
            transform.apply(states, np.full((4, 1, 2), 100.0))


def test_a_state_that_is_not_finite_gives_no_output():
    """Where a state holds NaN the filter stops rather than release NaN as if the reading were missing."""
    transform = TRANSFORMS["scalar"]
    with pytest.raises(us.errors.UnderstudyError):
        transform.apply((0, float("nan"), 100.0), [100.0])
    with pytest.raises(us.errors.UnderstudyError):
        transform.step((0, float("nan"), 100.0), 100.0)


def test_state_errors_do_not_show_the_state():
    """A state holds the past readings, so its numbers are not in the message."""
    transform = TRANSFORMS["scalar"]
    with pytest.raises(StateError) as caught:
        transform.apply((0, 123.456, 654.321, 0.125), [100.0])
    for digits in ("123.4", "654.3", "0.125"):
        assert digits not in str(caught.value)


def test_a_filter_works_on_after_a_refused_state():
    """A refusal changes nothing: the filter holds no state."""
    transform = TRANSFORMS["scalar"]
    before = transform.step(transform.start(), 101.0)
    with pytest.raises(StateError):
        transform.apply((0,), [101.0])
    assert transform.step(transform.start(), 101.0) == before
