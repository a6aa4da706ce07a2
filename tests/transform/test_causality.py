"""The transformation is causal, invertible, and keeps missing what was missing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import random_system, room, same_bits, stepwise

import understudy as us


def walk(b=0.0, Q=1.0, R=0.5):
    """A random walk with drift, seen through noise."""
    return us.GaussMarkov(1.0, 1.0, Q, R, b=b, mean0=0.0, cov0=1.0)


def oscillator(damping, scale):
    """A rotation with damping: two states, one reading."""
    c, s = damping * np.cos(0.7), damping * np.sin(0.7)
    return us.GaussMarkov([[c, -s], [s, c]], [[1.0, 0.5]], scale * np.eye(2), 0.1, b=[1.0, -1.0])


def big(seed, n):
    return us.GaussMarkov(**random_system(np.random.default_rng([81, seed]), n, 3, radius=0.9))


def student():
    return us.AutoRegressive([0.6, -0.3], 2.0, us.Scalar(scipy.stats.t(5, scale=1.5)))


PAIRS = {
    "room": lambda: (room(1), room(0.2)),
    "different dynamics": lambda: (room(1), room(0, A=-0.8, Q=5.0, R=0.01)),
    "random walks": lambda: (walk(), walk(b=0.3, Q=0.1, R=2.0)),
    "random walk to room": lambda: (walk(), room(0)),
    "room to random walk": lambda: (room(1), walk()),
    "oscillators": lambda: (oscillator(0.999, 1.0), oscillator(0.5, 4.0)),
    "vectors": lambda: (big(1, 4), big(2, 2)),
    "autoregressive": lambda: (
        us.AutoRegressive([0.5, 0.2, -0.4], 1.0, us.Gaussian(0.0, 2.0)),
        us.AutoRegressive([1.2, -0.5], 0.0, us.Gaussian(0.0, 0.5)),
    ),
    "iid": lambda: (us.IID(us.Gaussian(3.0, 2.0)), us.IID(us.Scalar(scipy.stats.gumbel_r(1.0, 2.0)))),
    "student autoregressive": lambda: (student(), us.AutoRegressive(0.9, 1.0, us.Scalar(scipy.stats.t(4)))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_disguising_back_returns_the_input(name):
    """To 1e-9 over ten thousand readings (beside the level: a drifting walk comes to 3,000 on its way)."""
    source, target = PAIRS[name]()
    Y = us.sample(source, 10_000, rng=82)
    out = us.disguise(Y, source, target)
    back = us.disguise(out, target, source)
    assert np.max(np.abs(back - Y)) < 1e-9 * max(1.0, np.abs(Y).max() / 100, np.abs(out).max() / 100)


@pytest.mark.parametrize("name", ["room", "random walks", "oscillators", "vectors", "autoregressive"])
def test_disguising_back_returns_the_input_across_gaps(name):
    """The same with one reading in twenty missing."""
    source, target = PAIRS[name]()
    rng = np.random.default_rng(83)
    Y = us.sample(source, 10_000, rng=rng)
    Y[rng.random(len(Y)) < 0.05] = np.nan
    back = us.disguise(us.disguise(Y, source, target), target, source)
    assert same_bits(np.isnan(back), np.isnan(Y))
    assert np.nanmax(np.abs(back - Y)) < 1e-9 * max(1.0, np.nanmax(np.abs(Y)) / 100)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", [0, 1, 30, 58])
def test_output_up_to_k_ignores_input_after_k(name, k):
    """Other readings, missing ones or wild ones after k never change a bit up to k."""
    source, target = PAIRS[name]()
    Y = us.sample(source, 60, rng=84)
    base = us.disguise(Y, source, target)
    rng = np.random.default_rng(85)
    for change in (Y[k + 1 :][::-1], Y[k + 1 :] + 5 * rng.standard_normal(Y[k + 1 :].shape)):
        other = Y.copy()
        other[k + 1 :] = change
        assert same_bits(us.disguise(other, source, target)[: k + 1], base[: k + 1])
    assert same_bits(us.disguise(Y[: k + 1], source, target), base[: k + 1])


def test_the_output_depends_on_the_input_at_k():
    """Twin: the same comparison sees a change at k itself, in each channel from there on (triangular)."""
    source, target = big(3, 3), big(4, 2)
    Y = us.sample(source, 20, rng=86)
    for channel in range(3):
        other = Y.copy()
        other[7, channel] += 0.5
        changed = us.disguise(other, source, target)[7] != us.disguise(Y, source, target)[7]
        assert not changed[:channel].any()
        assert changed[channel]


def test_output_increases_with_its_own_channel():
    """Channel l of the output increases with channel l of the reading."""
    source, target = big(5, 3), big(6, 2)
    transform = us.Transform(source, target)
    y = np.zeros(3)
    for channel in range(3):
        higher = y.copy()
        higher[channel] += 1.0
        low, high = (transform.step(transform.start(), v)[1] for v in (y, higher))
        assert high[channel] > low[channel]


@pytest.mark.parametrize("name", ["room", "vectors", "random walk to room", "iid"])
def test_missing_readings_stay_missing(name):
    """And nothing else becomes missing; a gap at the start and at the end included."""
    source, target = PAIRS[name]()
    Y = us.sample(source, 50, rng=87)
    Y[[0, 1, 20, 21, 49]] = np.nan
    assert same_bits(np.isnan(us.disguise(Y, source, target)), np.isnan(Y))
    _, steps = stepwise(us.Transform(source, target), Y)
    assert same_bits(steps, us.disguise(Y, source, target))


def test_all_missing_is_all_missing():
    """A sequence of nothing but gaps comes back as one."""
    assert np.isnan(us.disguise([None, None, np.nan], room(1), room(0))).all()
    assert us.loglik([None, None], room(1)) == 0.0


def test_the_same_model_on_both_sides_changes_nothing():
    """Theta = ~theta: the output is the input, to rounding."""
    Y = us.sample(room(1), 1000, rng=88)
    assert np.max(np.abs(us.disguise(Y, room(1), room(1)) - Y)) < 1e-10


def test_sampling_is_colouring_of_normal_draws():
    """us.sample(model, T, n, rng) is a function of the seed alone, and whitening it gives the draws back."""
    model = big(7, 3)
    Y = us.sample(model, 100, n=4, rng=np.random.default_rng(89))
    assert same_bits(Y, us.sample(model, 100, n=4, rng=89))
    z = np.random.default_rng(89).standard_normal((100, 3, 4))
    assert np.max(np.abs(us.whiten(Y, model) - z)) < 1e-10
    assert us.sample(room(1), 5, rng=1).shape == (5,)
    assert us.sample(model, 5, rng=1).shape == (5, 3)


@pytest.mark.parametrize(("T", "n"), [(0, 1), (-1, 1), (1.5, 1), ("3", 1), (True, 1), (3, 0)])
def test_a_bad_number_of_samples_is_refused(T, n):
    """T and n are whole numbers of at least 1."""
    with pytest.raises(us.errors.ConfigurationError, match="whole number"):
        us.sample(room(1), T, n=n, rng=1)
