"""One reading at a time, in chunks, or all at once: the same bits; and a state that can be put away."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from helpers import OwnGaussMarkov, dense, draw, random_system, room, same_bits, stepwise, with_gaps
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us

FAST = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def gauss_markov_pair(seed, n, m, d, partial=False):
    """Two random models of the same number of channels, 60 readings with gaps."""
    rng = np.random.default_rng([51, seed, n, m, d])
    source = random_system(rng, n, d, radius=0.8)
    Y = draw(rng, *dense(source, 60), 60)
    Y = with_gaps(rng, Y, share=rng.choice([0.0, 0.05, 0.4]), partial=partial)
    return us.GaussMarkov(**source), us.GaussMarkov(**random_system(rng, m, d, radius=0.6)), Y


def chunked(transform, Y, cuts):
    """The output of a Transform, chunk by chunk."""
    state, parts = transform.start(), []
    edges = [0, *sorted(cuts), len(Y)]
    for start, stop in pairwise(edges):
        if stop > start:
            state, out = transform.apply(state, Y[start:stop])
            parts.append(out)
    return state, np.concatenate(parts)


@FAST
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 4), m=st.integers(1, 4), d=st.integers(1, 3),
    cuts=st.sets(st.integers(1, 59), max_size=6), partial=st.booleans(),
)  # fmt: skip
def test_step_chunk_and_whole_have_the_same_bits(seed, n, m, d, cuts, partial):
    """Whatever the sizes, the gaps and the boundaries; final states too."""
    source, target, Y = gauss_markov_pair(seed, n, m, d, partial)
    transform = us.Transform(source, target, partial=partial)
    whole = us.disguise(Y, source, target, partial=partial)
    last, steps = stepwise(transform, Y[:, 0] if d == 1 else Y)
    after, chunks = chunked(transform, Y, cuts)
    assert same_bits(steps.reshape(Y.shape), whole)
    assert same_bits(chunks, whole)
    assert last == after


def per_step_room():
    return us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=us.PerStep(np.linspace(0, 5, 60)), mean0=100.0, cov0=1.0)


def covariance(*rows):
    return np.array(rows)


PAIRS = {
    "scalar per step": (per_step_room, lambda: room(0)),
    "iid to room": (lambda: us.IID(us.Gaussian(100.0, 4.0)), lambda: room(1)),
    "room to student ar": (
        lambda: room(1),
        lambda: us.AutoRegressive([0.5, 0.2], 1.0, us.Scalar(scipy.stats.t(3))),
    ),
    "student ar to room": (
        lambda: us.AutoRegressive([0.5, 0.2], 30.0, us.Scalar(scipy.stats.t(3))),
        lambda: room(1),
    ),
    "gamma to laplace": (
        lambda: us.IID(us.Scalar(scipy.stats.gamma(4.0, scale=25.0))),
        lambda: us.IID(us.Scalar(scipy.stats.laplace(1.0, 2.0))),
    ),
    "markov to room": (
        lambda: us.Markov(us.Gaussian(100.0, 4.0), lambda y, k: us.Gaussian(50 + 0.5 * y, 1.0 + 1.0 / k)),
        lambda: room(1),
    ),
    "own to own": (lambda: OwnGaussMarkov(room(1)), lambda: OwnGaussMarkov(room(0))),
    "vector iid": (
        lambda: us.IID(us.Gaussian([100.0, 90.0, 95.0], covariance([2, 0.3, 0.2], [0.3, 1.5, 0.4], [0.2, 0.4, 1.0]))),
        lambda: us.IID(us.Gaussian([0.0, 1.0, 2.0], covariance([1, 0.5, 0.2], [0.5, 1.5, 0.6], [0.2, 0.6, 3.0]))),
    ),
    "vector student ar": (
        lambda: us.AutoRegressive(
            [[[0.5, 0.1], [0.0, 0.4]]],
            [40.0, 60.0],
            us.Independent(us.Scalar(scipy.stats.t(3)), us.Gaussian(0.0, 2.0)),
        ),
        lambda: us.GaussMarkov(np.diag([0.5, 0.9]), np.eye(2), np.eye(2), np.eye(2)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_kind_of_model_gives_the_same_bits_by_step_and_by_chunk(name):
    """Also where the laws are not Gaussian or the readings vectors."""
    source, target = (make() for make in PAIRS[name])
    Y = 100.0 + np.random.default_rng(52).standard_normal((60, source.dim))
    Y = Y[:, 0] if source.dim == 1 else Y
    transform = us.Transform(source, target)
    whole = us.disguise(Y, source, target)
    _, steps = stepwise(transform, Y)
    _, chunks = chunked(transform, Y, [1, 2, 17, 30, 59])
    assert same_bits(steps, whole)
    assert same_bits(chunks, whole)


@pytest.mark.parametrize("name", PAIRS)
def test_disguise_is_colour_of_whiten(name):
    """Bit for bit, except in the scalar loop, which does not compute the score in between."""
    source, target = (make() for make in PAIRS[name])
    Y = 100.0 + np.random.default_rng(53).standard_normal((60, source.dim))
    Y = Y[:, 0] if source.dim == 1 else Y
    both, one = us.disguise(Y, source, target), us.colour(us.whiten(Y, source), target)
    assert same_bits(both, one) or name.startswith("scalar")
    assert np.max(np.abs(both - one)) < 1e-12 * np.abs(both).max()


@FAST
@given(seed=st.integers(0, 1000), n=st.integers(1, 4), m=st.integers(1, 4), d=st.integers(1, 3))
def test_disguise_is_colour_of_whiten_for_gauss_markov(seed, n, m, d):
    """Bit for bit without gaps; to 1e-12 with them, since the pair leaves its tables together.

    Also to 1e-12 where a side would run in the scalar loop, which does not compute the score in between.
    """
    source, target, Y = gauss_markov_pair(seed, n, m, d)
    both, one = us.disguise(Y, source, target), us.colour(us.whiten(Y, source), target)
    if not np.isnan(Y).any() and (d > 1 or (n > 1 and m > 1)):
        assert same_bits(both, one)
    assert same_bits(np.isnan(both), np.isnan(Y))
    if not np.isnan(Y).all():
        assert np.nanmax(np.abs(both - one)) < 1e-12 * (1 + np.nanmax(np.abs(both)))


@pytest.mark.parametrize("cut", [0, 1, 25, 33, 36, 59])
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 3, 2)])
def test_a_state_goes_through_json(size, cut):
    """A state is plain numbers: through json (a list then) it continues identically."""
    source, target, Y = gauss_markov_pair(5, *size)
    Y[30:35] = np.nan
    Y = Y[:, 0] if size[2] == 1 else Y
    transform = us.Transform(source, target)
    state, before = transform.start(), Y[:0]
    if cut:
        state, before = transform.apply(state, Y[:cut])
    stored = json.loads(json.dumps(state))
    _, after = transform.apply(stored, Y[cut:])
    assert same_bits(np.concatenate((before, after)), us.disguise(Y, source, target))
    one = transform.step(stored, float(Y[cut]) if Y.ndim == 1 else Y[cut])[1]
    assert same_bits(one, after[0])


def test_the_states_of_many_sensors_go_through_json():
    """The tuple of states comes back from json as lists, and continues identically."""
    transform = us.Transform(room(1), room(0.5))
    Y = us.sample(room(1), 50, n=4, rng=54)
    Y[10:12, 0, 2] = np.nan
    state, before = transform.apply(transform.start(4), Y[:20])
    _, after = transform.apply(json.loads(json.dumps(state)), Y[20:])
    assert same_bits(np.concatenate((before, after)), us.disguise(Y, room(1), room(0.5)))


def test_a_state_of_a_chain_goes_through_json():
    """Also through several links: room to Student-t autoregression."""
    source, target = room(1), us.AutoRegressive([0.5, 0.2], 1.0, us.Scalar(scipy.stats.t(3)))
    transform = us.Transform(source, target)
    Y = us.sample(source, 40, rng=55)
    state, before = transform.apply(transform.start(), Y[:20])
    stored = json.loads(json.dumps(state))
    _, after = transform.apply(stored, Y[20:])
    assert same_bits(np.concatenate((before, after)), us.disguise(Y, source, target))
    assert transform.step(stored, float(Y[20]))[1] == after[0]


def test_a_state_can_be_used_twice():
    """States are values: stepping from one leaves it as it was."""
    transform = us.Transform(room(1), room(0))
    state, _ = transform.apply(transform.start(), us.sample(room(1), 30, rng=56))
    first = transform.step(state, 200.0)
    transform.step(state, float("nan"))
    assert transform.step(state, 200.0) == first


def test_the_input_is_left_alone():
    """Nothing writes to the array it is given, which may be read-only or not contiguous."""
    Y = us.sample(room(1), 60, rng=57)
    kept = Y.copy()
    Y.flags.writeable = False
    wide = np.repeat(kept, 2)[::2]
    assert same_bits(us.disguise(Y, room(1), room(0)), us.disguise(wide, room(1), room(0)))
    assert same_bits(us.disguise(kept.astype(">f8"), room(1), room(0)), us.disguise(Y, room(1), room(0)))
    assert same_bits(Y, kept)


@pytest.mark.parametrize("kind", ["to gauss-markov", "from gauss-markov", "both"])
def test_a_reading_may_be_a_slice_of_a_larger_array(kind):
    """A vector that is not contiguous in memory is as good as its copy: step, chunk, sensors."""
    linear = us.GaussMarkov(**random_system(np.random.default_rng(59), 2, 2))
    other = us.IID(us.Gaussian([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]))
    pairs = {
        "to gauss-markov": (other, linear),
        "from gauss-markov": (linear, other),
        "both": (linear, linear),
    }
    transform = us.Transform(*pairs[kind])
    Y = np.random.default_rng(60).standard_normal((1, 2, 3))
    _, expected = transform.step(transform.start(), Y[0, :, 1].copy())
    assert same_bits(transform.step(transform.start(), Y[0, :, 1])[1], expected)
    assert same_bits(transform.apply(transform.start(), Y[:, :, 1])[1][0], expected)
    assert same_bits(transform.apply(transform.start(3), Y)[1][0, :, 1], expected)


def test_integers_and_lists_are_readings():
    """Lists of whole numbers, None among them, are the same readings as an array of floats."""
    as_floats = us.disguise(np.array([105.0, np.nan, 110.0]), room(1), room(0))
    assert same_bits(us.disguise([105, None, 110], room(1), room(0)), as_floats)
    transform = us.Transform(room(1), room(0))
    state, first = transform.step(transform.start(), 105)
    state, second = transform.step(state, None)
    state, third = transform.step(state, np.float32(110.0))
    assert same_bits([first, second, third], as_floats)


def test_time_varying_systems_longer_than_a_block():
    """A varying system is laid out block by block, which does not show in the output."""
    T = 9000
    source = us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=lambda k: float(k % 7), mean0=0.0, cov0=1.0)
    target = room(0)
    Y = us.sample(source, T, rng=58)
    transform = us.Transform(source, target)
    _, chunks = chunked(transform, Y, [1, 4095, 4096, 4097, 8191])
    whole = us.disguise(Y, source, target)
    assert same_bits(chunks, whole)
    assert same_bits(us.disguise(Y[:, None, None].repeat(2, axis=2), source, target)[:, 0, 1], whole)


T_NOISE = us.Scalar(scipy.stats.t(4.0))
NORMALS = us.Mixture([0.9, 0.1], [us.Gaussian(0.0, 1.0), us.Gaussian(0.0, 9.0)])


@pytest.mark.parametrize(
    "law",
    [
        T_NOISE,
        us.Scalar(scipy.stats.skewnorm(2.0)),
        NORMALS,
        us.Mixture([0.9, 0.1], [T_NOISE, us.Gaussian(0.0, 9.0)]),
        us.Independent(T_NOISE, NORMALS),
        us.GaussianCopula([[1.0, 0.5], [0.5, 1.0]], [T_NOISE, NORMALS]),
    ],
    ids=["t", "skew", "normals", "mixture", "independent", "copula"],
)
def test_heavy_tails_have_the_same_bits_in_chunks(law):
    """Far out, where tails are integrals, one reading and many have the same bits."""
    rng = np.random.default_rng(3)
    Y = rng.standard_normal((400, law.dim)) * np.where(np.arange(400) % 4, 2.0, 4.0)[:, None]
    source, target = us.IID(law), us.IID(us.Gaussian(np.zeros(law.dim), np.eye(law.dim)) if law.dim > 1 else T_NOISE)
    there = us.Transform(source, target)
    given = Y[:, 0] if law.dim == 1 else Y
    assert same_bits(there.apply(there.start(), given)[1], stepwise(there, given)[1].reshape(given.shape))
