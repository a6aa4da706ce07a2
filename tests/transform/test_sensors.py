"""Many sensors through one pair of models: each has the bits it would have alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from helpers import OwnGaussMarkov, random_system, room, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us


def one_by_one(Y, function):
    """`function` of each sensor by itself."""
    d = Y.shape[1]
    outs = [function(Y[:, 0, j] if d == 1 else Y[:, :, j]).reshape(Y.shape[:2]) for j in range(Y.shape[2])]
    return np.stack(outs, axis=2)


def gappy(rng, Y):
    """Some sensors whole, some with scattered gaps, one always missing, one missing at the ends."""
    Y = Y.copy()
    for j in range(1, Y.shape[2], 2):
        Y[rng.random(len(Y)) < 0.2, :, j] = np.nan
    Y[:, :, -1] = np.nan
    Y[[0, -1], :, 0] = np.nan
    return Y


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 4), m=st.integers(1, 4), d=st.integers(1, 3),
    N=st.integers(1, 9), gaps=st.booleans(),
)  # fmt: skip
def test_many_sensors_are_one_by_one_bit_for_bit(seed, n, m, d, N, gaps):
    """(T, d, N), with a pattern of gaps for each sensor: disguise, whiten and colour."""
    rng = np.random.default_rng([61, seed, n, m, d])
    source = us.GaussMarkov(**random_system(rng, n, d, radius=0.8))
    target = us.GaussMarkov(**random_system(rng, m, d, radius=0.6))
    Y = rng.standard_normal((50, d, N))
    Y = gappy(rng, Y) if gaps else Y
    assert same_bits(us.disguise(Y, source, target), one_by_one(Y, lambda y: us.disguise(y, source, target)))
    z = us.whiten(Y, source)
    assert same_bits(z, one_by_one(Y, lambda y: us.whiten(y, source)))
    assert same_bits(us.colour(z, target), one_by_one(z, lambda y: us.colour(y, target)))


@pytest.mark.parametrize("d", [1, 2])
def test_time_varying_sensors_are_one_by_one(d):
    """The same when the matrices change with time, on one side or on both."""
    rng = np.random.default_rng([62, d])
    steps = [random_system(rng, 2, d) for _ in range(40)]
    parts = {name: us.PerStep([s[name] for s in steps]) for name in ("A", "C", "Q", "R", "b", "d")}
    varying = us.GaussMarkov(**parts, mean0=np.zeros(2), cov0=np.eye(2))
    constant = us.GaussMarkov(**random_system(rng, 3, d))
    Y = gappy(rng, rng.standard_normal((40, d, 6)))
    for source, target in ((varying, constant), (constant, varying), (varying, varying)):
        alone = one_by_one(Y, partial(us.disguise, source=source, target=target))
        assert same_bits(us.disguise(Y, source, target), alone)


def test_missing_channels_of_many_sensors():
    """partial=True for many sensors: each is scored on the channels that it has."""
    rng = np.random.default_rng(63)
    source, target = (us.GaussMarkov(**random_system(rng, 2, 3)) for _ in range(2))
    Y = rng.standard_normal((40, 3, 5))
    Y[rng.random(Y.shape) < 0.15] = np.nan
    ours = us.disguise(Y, source, target, partial=True)
    assert same_bits(ours, one_by_one(Y, lambda y: us.disguise(y, source, target, partial=True)))
    assert same_bits(np.isnan(ours), np.isnan(Y))


@pytest.mark.parametrize("own", [False, True])
def test_sensors_in_chunks_keep_their_states_apart(own):
    """One state a sensor, chunk by chunk, with gaps at different times: the bits of the whole."""
    source, target = room(1), room(0.3, A=0.8)
    if own:
        source = OwnGaussMarkov(source)
    rng = np.random.default_rng(64)
    Y = gappy(rng, us.sample(room(1), 60, n=6, rng=rng))
    transform = us.Transform(source, target)
    state, parts = transform.start(6), []
    for start, stop in ((0, 1), (1, 20), (20, 21), (21, 60)):
        state, out = transform.apply(state, Y[start:stop])
        parts.append(out)
    whole = us.disguise(Y, source, target)
    assert same_bits(np.concatenate(parts), whole)
    for j in range(6):
        alone, _ = transform.apply(transform.start(), Y[:, 0, j])
        if not own:
            assert state[j] == alone


def test_sensors_that_start_together_after_a_common_gap():
    """Sensors that were all missing together share carried covariances, and still have the same bits."""
    Y = us.sample(room(1), 60, n=3, rng=65)
    Y[20:25] = np.nan
    transform = us.Transform(room(1), room(0))
    state, first = transform.apply(transform.start(3), Y[:23])
    state, second = transform.apply(state, Y[23:27])
    _, third = transform.apply(state, Y[27:])
    out = np.concatenate((first, second, third))
    assert same_bits(out, one_by_one(Y, lambda y: us.disguise(y, room(1), room(0))))


def test_an_infinity_in_one_sensor_is_refused_for_all():
    """Nothing is returned, and the states are as usable as before."""
    transform = us.Transform(room(1), room(0))
    Y = us.sample(room(1), 30, n=3, rng=66)
    state, _ = transform.apply(transform.start(3), Y[:10])
    bad = Y[10:].copy()
    bad[7, 0, 1] = -np.inf
    with pytest.raises(us.errors.ReadingError, match="row 7"):
        transform.apply(state, bad)
    _, rest = transform.apply(state, Y[10:])
    assert same_bits(rest, us.disguise(Y, room(1), room(0))[10:])


def test_one_sensor_may_be_written_with_its_axis():
    """(T, d, 1) and (T, d) hold the same readings; the output has the shape of the input."""
    Y = us.sample(room(1), 30, rng=67)
    flat = us.disguise(Y, room(1), room(0))
    assert same_bits(us.disguise(Y[:, None], room(1), room(0)), flat[:, None])
    assert same_bits(us.disguise(Y[:, None, None], room(1), room(0)), flat[:, None, None])
