"""The quick maps of rounded readings: the same answers as the model's own methods, in steps, chunks and wholes."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from helpers import random_system, room

import understudy as us
from understudy.errors import ReadingError, StateError
from understudy.laws.uniforms import SeededUniforms, Uniforms
from understudy.models.quantised import Quantised
from understudy.transform import quantised as polynomials
from understudy.transform.backend import compiled
from understudy.transform.core import transformation
from understudy.transform.quantised import (
    LineWhitening,
    MomentWhitening,
    PointWhitening,
    colouring,
    early,
    narrow,
    settled_filter,
    whitening,
)

UNIFORMS = SeededUniforms(b"uniforms for tests")


def models():
    """Every loop, and what is unusual about each."""
    rng = np.random.default_rng(3)
    two, three = (random_system(rng, n, d) for n, d in ((2, 1), (3, 2)))
    switched = us.GaussMarkov(us.PerStep([0.9, 0.5] * 150), 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0)
    return {
        "narrow": Quantised(room(1), 0.125, 0.1),
        "narrowest": Quantised(room(1), 1e-7),
        "half": Quantised(room(1), 0.2524),
        "wide": Quantised(room(1), 2.0, method="moments"),
        "narrow and clipped": Quantised(room(1), 0.2, low=150.0, high=199.0),
        "uncertain start": Quantised(room(1, cov0=1e6), 0.1),
        "sure start": Quantised(room(1, cov0=0.0), 0.1),
        "no noise": Quantised(room(1, R=0.0), 0.1),
        "points": Quantised(room(1), 0.5, 0.1),
        "few points": Quantised(room(1), 5.0),
        "clipped points": Quantised(room(1), 1.0, low=190.0, high=200.0),
        "points, negative": Quantised(room(0, A=-0.8, C=-2.0, mean0=1.0), 1.0),
        "points that forget": Quantised(room(0, A=0.0, mean0=1.0), 1.0),
        "points, uncertain start": Quantised(room(1, cov0=1e6), 1.0),
        "points, by step": Quantised(switched, 1.0),
        "moments, by step": Quantised(switched, 1.0, method="moments"),
        "two states": Quantised(us.GaussMarkov(**two), 1.0),
        "two grids": Quantised(us.GaussMarkov(**three), [1.0, 0.1]),
        "one grid of two": Quantised(us.GaussMarkov(**three), [None, 2.0], high=[None, 4.0]),
    }


MODELS = models()
LOOPS = {"narrow": LineWhitening, "wide": LineWhitening, "points": PointWhitening, "two grids": MomentWhitening}


def readings(model, T=300, seed=5):
    z = np.random.default_rng(seed).standard_normal((T, model.dim))
    causal = colouring(model)
    return z, causal.apply(causal.start(), z)[1]


def by_methods(model, Y):
    """Scores by predict, score, update and skip."""
    state, out = model.start(), np.full(Y.shape, np.nan)
    for k, row in enumerate(Y):
        if np.isnan(row).any():
            state = model.skip(state)
            continue
        v = UNIFORMS.at(k, model.dim)
        y, v = (float(row[0]), float(v[0])) if model.dim == 1 else (row, v)
        out[k] = model.predict(state).score(y, v)
        state = model.update(state, y)
    return out


@pytest.mark.parametrize("name", list(LOOPS))
def test_which_loop_runs(name):
    """The maps are those that this file means to test."""
    assert type(whitening(MODELS[name], UNIFORMS)) is LOOPS[name]


@pytest.mark.sample(default=3, seconds=2, reason="19 models, method by method")
@pytest.mark.parametrize("name", list(MODELS))
def test_whitening_agrees_with_the_methods(name):
    """To 1e-10, with gaps and readings far out."""
    model = MODELS[name]
    _, Y = readings(model)
    Y[[40, 41, 120]] = np.nan
    for channel, row in zip(model.grid.channels, Y.T, strict=True):
        if channel.step and math.isinf(channel.high):
            row[60] += 40 * channel.step
            row[200] -= channel.step * round(20.0 / channel.step)
    out = whitening(model, UNIFORMS).apply(whitening(model, UNIFORMS).start(), Y)[1]
    wanted = by_methods(model, Y)
    assert np.array_equal(np.isnan(out), np.isnan(wanted))
    assert np.nanmax(np.abs(out - wanted) / np.maximum(1.0, np.abs(wanted))) < 1e-10


@pytest.mark.sample(default=10, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize("name", list(MODELS))
def test_steps_chunks_and_the_whole_agree(name):
    """Bit for bit, also from a copied state."""
    model = MODELS[name]
    _, Y = readings(model, 120)
    Y[[20, 21, 50]] = np.nan
    causal = whitening(model, UNIFORMS)
    end, whole = causal.apply(causal.start(), Y)
    state, parts = causal.start(), []
    for chunk in np.array_split(Y, [1, 3, 22, 70]):
        state, part = causal.apply(copy.deepcopy(state), np.ascontiguousarray(chunk))
        parts.append(part)
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)
    assert state[0] == end[0] == 120
    assert all(np.array_equal(a, b) for a, b in zip(state[1], end[1], strict=True))
    state, steps = causal.start(), []
    for row in Y:
        given = None if np.isnan(row).any() else row[0] if model.dim == 1 else row
        state, out = causal.step(state, given)
        steps.append(np.reshape(out, model.dim))
    assert np.array_equal(np.array(steps), whole, equal_nan=True)


@pytest.mark.parametrize("name", list(MODELS))
def test_colouring_agrees_with_emit(name):
    """The rounded pair of filters, in steps and chunks, and the model's own `emit`; a gap stays one."""
    model = MODELS[name]
    z, whole = readings(model, 60)
    causal = colouring(model)
    state, mine, theirs = causal.start(), [], []
    own = model.start()
    for row in z:
        given = float(row[0]) if model.dim == 1 else row
        state, y = causal.step(state, given)
        mine.append(np.reshape(y, model.dim))
        own, y = model.emit(own, given)
        theirs.append(np.reshape(y, model.dim))
    assert np.array_equal(np.array(mine), whole)
    assert np.max(np.abs(np.array(theirs) - whole)) < 1e-9
    z[7] = np.nan
    gap = causal.apply(causal.start(), z)[1]
    assert np.isnan(gap[7]).all()
    assert not np.isnan(np.delete(gap, 7, axis=0)).any()


def test_the_uniforms_belong_to_the_reading():
    """Another key gives other scores of the same cells; the number of the reading decides, not the chunk."""
    model = MODELS["points"]
    _, Y = readings(model, 50)
    a, b = (whitening(model, key).apply(whitening(model, key).start(), Y)[1] for key in (UNIFORMS, Uniforms(b"k" * 32)))
    assert not np.any(a == b)
    # both are scores of the same cells
    state = model.start()
    for y, z, w in zip(Y[:, 0].tolist(), a[:, 0].tolist(), b[:, 0].tolist(), strict=True):
        law = model.predict(state)
        assert law.value(z) == law.value(w) == y
        state = model.update(state, y)


def test_sensors_have_uniforms_of_their_own():
    """Sensor j of several is scored with its own uniforms, by the map and through `whiten`."""
    model = MODELS["narrow"]
    _, Y = readings(model, 50)
    causal = whitening(model, UNIFORMS)
    other = causal.sensor(1)
    assert not np.any(causal.apply(causal.start(), Y)[1] == other.apply(other.start(), Y)[1])
    wanted = whitening(model, UNIFORMS.sensor(1))
    assert np.array_equal(other.apply(other.start(), Y)[1], wanted.apply(wanted.start(), Y)[1])


@pytest.mark.parametrize("name", ["narrow", "points", "two grids"])
def test_a_state_may_go_through_a_file(name):
    """Lists in place of tuples and arrays continue with the same bits."""
    model = MODELS[name]
    _, Y = readings(model, 40)
    causal = whitening(model, UNIFORMS)
    (k, known), _ = causal.apply(causal.start(), Y[:20])
    plain = [k, [part.tolist() if isinstance(part, np.ndarray) else part for part in known]]
    again = causal.apply(json.loads(json.dumps(plain)), Y[20:])[1]
    assert np.array_equal(again, causal.apply((k, known), Y[20:])[1])


def test_a_block_ends_where_it_may():
    """More readings than one block holds."""
    model = MODELS["narrow"]
    _, Y = readings(model, 140_000)
    causal = whitening(model, UNIFORMS)
    _, whole = causal.apply(causal.start(), Y)
    state, first = causal.apply(causal.start(), Y[:63_000])
    _, second = causal.apply(state, np.ascontiguousarray(Y[63_000:]))
    assert np.array_equal(np.concatenate((first, second)), whole)


@pytest.mark.parametrize("name", ["narrow", "points", "two grids"])
def test_bad_readings_are_named_by_their_row(name):
    """Infinite, off the grid: position and rule, not the value."""
    model = MODELS[name]
    _, Y = readings(model, 20)
    causal = whitening(model, UNIFORMS)
    for bad, message in ((math.inf, "row 13 is infinite"), (123.4567, "row 13")):
        given = Y.copy()
        given[13, 0] = bad
        with pytest.raises(ReadingError, match=message) as caught:
            causal.apply(causal.start(), given)
        assert "4567" not in str(caught.value)


@pytest.mark.parametrize(
    "state",
    [
        None,
        (),
        (0,),
        (0, None),
        (-1, None),
        (0, (1, 2)),
        ("0", (1,) * 6),
        (True, (1,) * 6),
        (0, (0, [0.0], [[math.nan]], [], [], 0.0)),
        (0, (0, [0.0, 1.0], [[1.0]], [], [], 0.0)),
        (0, (0, "a", 1, 2, 3, 4)),
    ],
)
def test_bad_states(state):
    """What cannot be a state of this map is refused."""
    causal = whitening(MODELS["narrow"], UNIFORMS)
    with pytest.raises(StateError, match=r"of a state|state of this filter"):
        causal.step(state, 100.0)


def test_where_only_the_methods_serve():
    """Point masses of several channels, or without noise, have no loop."""
    two = us.GaussMarkov(0.9, [[1.0], [0.5]], 0.1, np.diag([0.1, 0.2]), mean0=0.0, cov0=1.0)
    assert whitening(Quantised(two, 2.0, method="point-mass"), UNIFORMS) is None
    assert whitening(Quantised(room(0, R=0.0), 2.0), UNIFORMS) is None


def test_polynomials_of_narrow_cells():
    """The fits are good for every step they serve, down to the smallest."""
    for g in (1e-16, 1e-8, 1e-3, 0.03, 0.06):
        assert polynomials.narrow(0.98 * g, 1.02 * g) is not None
    assert polynomials.narrow(0.01, 0.06) is None
    assert polynomials.narrow(0.06, 0.07) is None


def in_order(model, Y):
    """Scores by the same map without stretches side by side."""
    causal = whitening(model, UNIFORMS)
    causal._early = 0
    return causal.apply(causal.start(), Y)


def same_state(a, b):
    return a[0] == b[0] and all(np.array_equal(x, y) for x, y in zip(a[1], b[1], strict=True))


@pytest.mark.skipif(not compiled, reason="plain loops go one after the other")
@pytest.mark.parametrize("case", ["room", "slow", "uncertain start", "negative", "no noise"])
def test_stretches_side_by_side_change_nothing(case):
    """Bit for bit what one after the other gives, with gaps and wide cells, and most stretches count at once."""
    model = {
        "room": MODELS["narrow"],
        "slow": Quantised(room(1, A=0.999, Q=0.001, mean0=10_000.0), 0.05),
        "uncertain start": MODELS["uncertain start"],
        "negative": Quantised(room(0, A=-0.8, C=-2.0, mean0=1.0), 0.1),
        "no noise": Quantised(room(1, R=0.0), 0.05),
    }[case]
    _, Y = readings(model, 60_000)
    Y[[400, 401, 30_000]] = np.nan
    Y[[7000, 50_000], 0] += 30 * model.grid.channels[0].step
    causal = whitening(model, UNIFORMS)
    assert causal._early > 0
    counted = []
    quick = causal._side_by_side
    causal._side_by_side = lambda data, k, x, P: counted.append(quick(data, k, x, P)) or counted[-1]
    state, out = causal.apply(causal.start(), Y)
    wanted_state, wanted = in_order(model, Y)
    assert np.array_equal(out, wanted, equal_nan=True)
    assert same_state(state, wanted_state)
    assert max(k for k, _, _ in counted) > 52_000


@pytest.mark.skipif(not compiled, reason="plain loops go one after the other")
@pytest.mark.parametrize("early", [1, 3, 9])
def test_stretches_begun_too_late_are_done_again(early):
    """Where a guess has not been forgotten the states differ, and the readings are done one after the other."""
    model = MODELS["narrow"]
    _, Y = readings(model, 20_000)
    causal = whitening(model, UNIFORMS)
    causal._early = early
    reached = []
    quick = causal._side_by_side
    causal._side_by_side = lambda data, k, x, P: reached.append(quick(data, k, x, P)) or reached[-1]
    state, out = causal.apply(causal.start(), Y)
    wanted_state, wanted = in_order(model, Y)
    assert np.array_equal(out, wanted)
    assert same_state(state, wanted_state)
    assert reached[0][0] == 2500  # the first of eight


@pytest.mark.skipif(not compiled, reason="plain loops go one after the other")
def test_far_readings_among_stretches():
    """A reading that only the methods can do, off the grid or infinite, is found where it is."""
    model = MODELS["narrow"]
    _, Y = readings(model, 20_000)
    far = Y.copy()
    far[9000, 0] += 100.0
    assert np.array_equal(
        whitening(model, UNIFORMS).apply(whitening(model, UNIFORMS).start(), far)[1], in_order(model, far)[1]
    )
    for bad, message in ((math.inf, "row 13000 is infinite"), (123.4567, "row 13000")):
        given = Y.copy()
        given[13_000, 0] = bad
        causal = whitening(model, UNIFORMS)
        with pytest.raises(ReadingError, match=message):
            causal.apply(causal.start(), given)


def test_a_filter_that_does_not_forget_goes_in_order():
    """A pole near one leaves no stretches; one near zero begins them a few readings early."""
    assert early(0.9995) == early(1.2) == 0
    assert early(0.0) < early(0.5) < early(0.99)
    assert settled_filter(room(1, Q=1e-9, A=1.0), 1e-3).pole > 0.999


@pytest.mark.sample(default=1, seconds=3, reason="four kinds of short polynomials")
@pytest.mark.parametrize("step", [1e-6, 0.02, 0.1, 0.125])
def test_short_polynomials_agree_with_the_methods(step):
    """Scores of the short tables are within 1e-10 of those of the model's methods, over many readings."""
    model = Quantised(room(1), step)
    assert narrow(*settled_filter(model.linear, step).g).short
    _, Y = readings(model, 3000)
    out = whitening(model, UNIFORMS).apply(whitening(model, UNIFORMS).start(), Y)[1]
    assert np.max(np.abs(out - by_methods(model, Y))) < 1e-10


def test_in_place():
    """Scores and readings written over what they are made of have the same bits."""
    for name in ("narrow", "points", "two grids"):
        model = MODELS[name]
        z, Y = readings(model, 200)
        for causal, given in ((whitening(model, UNIFORMS), Y), (colouring(model), z)):
            state, wanted = causal.apply(causal.start(), given)
            out = given.copy()
            after, made = causal.apply(causal.start(), out, out)
            assert made is out
            assert np.array_equal(out, wanted)
            assert after[0] == state[0]


@pytest.mark.parametrize(("A", "step"), [(0.9, 4.0), (0.5, 8.0)])
def test_point_masses_leap_over_a_long_gap(A, step):
    """One long move gives the scores that follow many short ones, but for the rounding of their points."""
    model = us.Quantised(us.GaussMarkov(A, 1.0, 1.0, 0.7, b=1.0, mean0=10.0, cov0=1.0), step)
    assert model.method == "point-mass"
    pair = transformation(model, model, False, b"k" * 32, 6.0)
    state = pair.apply(pair.start(), np.array([[8.0], [8.0], [16.0]]))[0]
    slow, quick = pair.apply(state, np.full((300, 1), np.nan))[0], pair.leap(state, 300)
    assert (slow[0][0], slow[0][1].k, slow[1][0]) == (quick[0][0], quick[0][1].k, quick[1][0])
    after = [pair.maps[0].apply(found[0], np.array([[8.0], [16.0], [8.0]]))[1] for found in (slow, quick)]
    assert np.abs(after[0] - after[1]).max() < 1e-10
    # twin: a gap of another length is not this one
    other = pair.maps[0].apply(pair.leap(state, 3)[0], np.array([[8.0], [16.0], [8.0]]))[1]
    assert np.abs(after[0] - other).max() > 1e-6
    assert pair.leap(state, 40_000)[0][1].points.size > 0
