"""Models on a grid, many readings at once: the bits of the general path, which asks the model one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import random_system, room, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import MissingReadingError, ReadingError
from understudy.laws.uniforms import Uniforms
from understudy.models.quantised import OnGrid, Quantised
from understudy.transform import on_grid
from understudy.transform.core import Emit, RandomisedScore, transformation
from understudy.transform.gaps import restarting_map

KEY = Uniforms(b"k" * 32)
FAST = settings(max_examples=6, deadline=None, derandomize=True, database=None)
HEAVY, LIGHT = us.Scalar(scipy.stats.t(3.0, 0.1, 2.0)), us.Scalar(scipy.stats.t(6.0, -0.2, 1.0))
NORMALS = us.Mixture([0.6, 0.3, 0.1], [us.Gaussian(0.0, 1.0), us.Gaussian(0.5, 9.0), us.Gaussian(-1.0, 100.0)])
TAILED = us.Mixture([0.7, 0.2, 0.1], [us.Gaussian(0.0, 1.0), us.Gaussian(0.5, 9.0), HEAVY])
R = [[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]]
PHI = np.array([np.diag([0.6, 0.5, 0.4]) + 0.05, np.full((3, 3), 0.05)])
LAWS = {"t": HEAVY, "lighter t": LIGHT, "normals": NORMALS, "normals and t": TAILED, "normal": us.Gaussian(1.0, 4.0)}


def regression(noise, phi=(0.5, 0.3), intercept=1.0, **grid):
    return OnGrid(us.AutoRegressive(phi, intercept, noise), **grid)


def models():
    """Each kind that `fit` returns, and what is unusual about each."""
    copula = us.GaussianCopula(R, [HEAVY, NORMALS, TAILED])
    return {
        "t": regression(HEAVY, 0.9, step=0.5),
        "fine": regression(LIGHT, step=0.01, offset=0.003),
        "coarse, with an end": regression(LIGHT, step=5.0, low=0.0),
        "order 3, both ends": regression(LIGHT, (0.5, 0.3, 0.1), step=0.1, low=-5.0, high=20.0),
        "normals": regression(NORMALS, step=0.1),
        "normals and t": regression(TAILED, step=0.1),
        "copula": regression(copula, PHI, [1.0, 2.0, 3.0], step=[0.1, 0.5, 3.0]),
        "independent": regression(
            us.Independent(HEAVY, LIGHT, us.Gaussian(0.0, 4.0)), PHI, [1.0, 2.0, 3.0], step=[0.1, 0.5, 3.0]
        ),
        "iid": OnGrid(us.IID(NORMALS), step=0.3),
        "iid, two channels": OnGrid(
            us.IID(us.GaussianMixture([0.3, 0.7], [[0.0, 0.0], [3.0, 4.0]], [np.eye(2), [[2.0, 1.0], [1.0, 3.0]]])),
            step=[0.3, 1.0],
        ),
    }


def linear_models():
    """Gauss-Markov models inside, which know a law across missing readings."""
    rng = np.random.default_rng(3)
    return {
        "room": OnGrid(room(1), step=0.5),
        "slow": OnGrid(us.GaussMarkov(0.994, 1.0, 0.5, 3.0, b=4.0, mean0=600.0, cov0=9.0), step=1.0, low=0.0),
        "random walk": OnGrid(us.GaussMarkov(1.0, 1.0, 0.5, 3.0, mean0=600.0, cov0=9.0), step=1.0),
        "two states": OnGrid(us.GaussMarkov(**random_system(rng, 2, 1)), step=1.0),
        "three states, two channels": OnGrid(us.GaussMarkov(**random_system(rng, 3, 2)), step=[1.0, 0.1]),
        "four and four": OnGrid(us.GaussMarkov(**random_system(rng, 4, 4, radius=0.99)), step=[1.0, 0.1, 0.3, 2.0]),
        "normal noise": regression(us.Gaussian(0.0, 4.0), step=0.1),
        "normal noise, two channels": regression(
            us.Gaussian([0.0, 0.0], [[4.0, 1.0], [1.0, 2.0]]), PHI[:, :2, :2], [1.0, 2.0], step=[0.1, 0.2]
        ),
    }


LINEAR = linear_models()
MODELS = {**models(), **LINEAR}


def scores(model, count, seed=5):
    """Scores with some far out."""
    z = np.clip(1.2 * np.random.default_rng(seed).standard_normal((count, model.dim)), -6.0, 6.0)
    z[3], z[7] = 5.5, -6.0
    return z


def same_state(one, other):
    if isinstance(one, tuple):
        return all(same_state(a, b) for a, b in zip(one, other, strict=True))
    return one is other is None or same_bits(np.asarray(one, dtype=float), np.asarray(other, dtype=float))


@pytest.mark.parametrize("name", LAWS)
def test_many_numbers_have_the_bits_of_one(name):
    """Scores and quantiles of an array, far out too, against those of single numbers."""
    law, z = LAWS[name], np.linspace(-8.0, 8.0, 201)
    quick = on_grid.singles_of(law)
    y = np.array([law.value(each) for each in z.tolist()])
    assert same_bits(np.asarray(quick.value(z)), y)
    assert same_bits(np.asarray(quick.score(y)), np.array([law.score(each) for each in y.tolist()]))


def test_an_array_of_a_heavy_tail_is_added_up_otherwise():
    """The twin: without `alone`, some tails of an array differ from those of single numbers in the last bit."""
    y = np.array([HEAVY.value(each) for each in np.linspace(3.2, 8.0, 101).tolist()])
    assert not same_bits(np.asarray(HEAVY.score(y)), np.array([HEAVY.score(each) for each in y.tolist()]))


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_the_general_path(name):
    """Readings of scores and scores of readings, and the states after them."""
    model, z = MODELS[name], scores(MODELS[name], 150)
    quick, general = on_grid.colouring(model), Emit(model)
    after, Y = general.apply(general.start(), z)
    found, out = quick.apply(quick.start(), z)
    assert quick.rows is not None
    assert same_bits(out, Y)
    assert same_state(found, after)
    source, asked = on_grid.whitening(model, KEY), RandomisedScore(model, KEY)
    after, wanted = asked.apply(asked.start(), Y)
    found, out = source.apply(source.start(), Y)
    assert same_bits(out, wanted)
    assert same_state(found, after)


@pytest.mark.parametrize("name", MODELS)
@FAST
@given(st.lists(st.integers(1, 40), max_size=3))
def test_chunks_and_steps(name, cuts):
    """Any chunks give the same bits, and so do single steps."""
    model = MODELS[name]
    made = transformation(model, model, False, KEY, 6.0)
    Y = np.reshape(us.sample(model, 60, rng=1), (60, -1))
    _, whole = made.apply(made.start(), Y)
    state, parts, at = made.start(), [], 0
    for size in [*cuts, 60]:
        state, out = made.apply(state, np.ascontiguousarray(Y[at : at + size])) if at < 60 else (state, Y[:0])
        parts.append(out)
        at += size
    assert same_bits(np.concatenate(parts), whole)
    state, single = made.start(), []
    for row in Y[:3]:
        state, out = made.step(state, row.item() if model.dim == 1 else row)
        single.append(out)
    assert same_bits(np.reshape(single, (3, -1)), whole[:3])


@pytest.mark.parametrize("name", MODELS)
def test_sensors_side_by_side(name):
    """One step of many sensors, each with a past of its own, is the step of each."""
    model, N = MODELS[name], 7
    rows, z = on_grid.rows_of(model), scores(MODELS[name], 10 + N)
    emit = Emit(model)
    states = [emit.apply(emit.start(), z[: 3 + n])[0] for n in range(N)]
    S = np.array([rows.column(state) for state in states]).T.reshape(rows.size, N)
    Z = z[10:].T
    Y = rows.value(S, np.ascontiguousarray(Z))
    score = RandomisedScore(model, KEY)
    v = np.array([KEY.at(n, model.dim) for n in range(N)]).T
    found, after = rows.score(S, Y, v), rows.move(S, Y)
    for n, state in enumerate(states):
        wanted = np.atleast_1d(emit.step(state, Z[:, n] if model.dim > 1 else Z[0, n].item())[1])
        assert same_bits(Y[:, n], wanted)
        moved, w = score.step((n, state), wanted if model.dim > 1 else wanted.item())
        assert same_bits(found[:, n], np.atleast_1d(w))
        assert same_state(rows.state(after[:, n]), moved[1])


@pytest.mark.parametrize("name", [*LINEAR, "iid", "iid, two channels"])
def test_missing_readings(name):
    """Some here and there, and long gaps: the bits of the general path, for readings and for scores."""
    model, z = MODELS[name], scores(MODELS[name], 400)
    z[20::7], z[150:290], z[399] = np.nan, np.nan, np.nan
    z[60, -1] = np.nan
    quick, general = on_grid.colouring(model), Emit(model)
    (found, out), (after, Y) = quick.apply(quick.start(), z), general.apply(general.start(), z)
    assert same_bits(out, Y)
    assert same_state(found, after)
    source, asked = on_grid.whitening(model, KEY), RandomisedScore(model, KEY)
    (found, out), (after, wanted) = source.apply(source.start(), Y), asked.apply(asked.start(), Y)
    assert same_bits(out, wanted)
    assert same_state(found, after)


@pytest.mark.parametrize("name", [*LINEAR, "iid"])
@FAST
@given(before=st.integers(0, 5), gap=st.integers(1, 300))
def test_one_gap_is_so_many_single_steps(name, before, gap):
    """A gap in one call, and one missing reading after the other."""
    model = MODELS[name]
    made = transformation(model, model, False, KEY, 6.0)
    Y = np.reshape(us.sample(model, 6, rng=1), (6, -1))[:before]
    state = made.apply(made.start(), Y)[0] if before else made.start()
    single = state
    nothing = np.full((1, model.dim), np.nan)
    for _ in range(gap):
        single = made.apply(single, nothing)[0]
    assert same_state(made.apply(state, np.repeat(nothing, gap, axis=0))[0], single)


@pytest.mark.parametrize("name", ["room", "two states", "random walk"])
def test_a_gap_of_forty_thousand(name):
    """The same for a gap of a month: as many single steps of the model."""
    model = MODELS[name]
    state = model.update(model.start(), np.zeros(1))
    single = state
    for _ in range(40_000):
        single = model.skip(single)
    assert same_state(model.skip_many(state, 40_000), single)


COARSE = {
    "point masses": Quantised(room(1), 5.0),
    "point masses, two channels": Quantised(us.GaussMarkov(0.9, [[1.0], [2.0]], 1.0, np.eye(2)), [5.0, 3.0]),
    "point masses, no noise": Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 0.0), 5.0),
    "moments": Quantised(room(1), 0.125),
    "hidden states": us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(0.0, 1.0)] * 2),
    "hidden states on a grid": OnGrid(
        us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]), step=0.1
    ),
}


@pytest.mark.parametrize("name", COARSE)
def test_long_gaps_of_other_models(name):
    """So many missing readings in one leap, past the point where states come again, and one after the other."""
    model = COARSE[name]
    state = model.start()
    for y in np.reshape(us.sample(model, 4, rng=1), (4, -1)):
        state = model.update(state, y.item() if model.dim == 1 else y)
    single, at = state, 0
    for count in (1, 40, 1500):
        while at < count:
            single, at = model.skip(single), at + 1
        assert same_state(model.skip_many(state, count), single)
    made = transformation(model, model, False, KEY, 6.0)
    state = made.apply(made.start(), np.reshape(us.sample(model, 4, rng=1), (4, -1)))[0]
    nothing, single = np.full((1, model.dim), np.nan), state
    for _ in range(30):
        single = made.apply(single, nothing)[0]
    assert same_state(made.apply(state, np.repeat(nothing, 30, axis=0))[0], single)


@pytest.mark.parametrize("name", ["t", "copula", "room", "three states, two channels", "plain", "plain, two channels"])
def test_fresh_scores_of_a_block(name):
    """Many empty slots that are filled at once have the bits of one after the other."""
    plain = {"plain": room(1), "plain, two channels": LINEAR["three states, two channels"].model}
    model = {**MODELS, **plain}[name]
    made = restarting_map(model, model, KEY, 6.0)
    state = made.apply(made.start(), np.reshape(us.sample(model, 9, rng=1), (9, -1)))[0]
    z = scores(model, 40)
    found, out = made.fresh(state, z)
    for k, row in enumerate(z):
        state, one = made.fresh(state, row[None, :])
        assert same_bits(one[0], out[k])
    assert same_state(found, state)


def test_a_wrong_guess_is_found(monkeypatch):
    """With tables that are far off, every block is made anew at each wrong row, and the bits are the same."""
    model, z = MODELS["copula"], scores(MODELS["copula"], 60)
    tables, sizes = on_grid._quantile_tables(model.model.noise)
    rows = on_grid.RegressionRows(model, model.model, on_grid.joint_of(model.model.noise))
    rows._tables = 1.05 * tables, sizes
    _, Y = Emit(model).apply(model.start(), z)
    calls = []
    guess = rows.guess
    monkeypatch.setattr(rows, "guess", lambda *given: calls.append(1) or guess(*given))
    assert same_bits(rows.colour(model.start(), z)[1], Y)
    assert len(calls) > 5


def test_products_one_after_the_other(monkeypatch):
    """Where numpy adds up many products otherwise than one, each is computed alone."""
    model, z = MODELS["copula"], scores(MODELS["copula"], 30)
    monkeypatch.setattr(on_grid, "_products", lambda inside, past: on_grid._each_product(inside, past) + 1e-9)
    rows = on_grid.RegressionRows(model, model.model, on_grid.joint_of(model.model.noise))
    assert same_bits(rows.colour(model.start(), z)[1], Emit(model).apply(model.start(), z)[1])


@pytest.mark.parametrize("name", ["t", "copula"])
def test_refusals(name):
    """What is off the grid or missing is refused as one reading is, at its row."""
    model = MODELS[name]
    made = on_grid.whitening(model, KEY)
    Y = np.reshape(us.sample(model, 20, rng=1), (20, -1))
    for bad, error in ((np.nan, MissingReadingError), (Y[5, 0] + 0.017, ReadingError)):
        rows = Y.copy()
        rows[5, 0] = bad
        with pytest.raises(error):
            made.apply(made.start(), rows)
        assert same_bits(made.apply(made.start(), rows[:5])[1], made.apply(made.start(), Y)[1][:5])


def test_a_law_of_ones_own():
    """A model inside that is not known here goes the general way."""

    class Own(us.Gaussian):
        pass

    model = OnGrid(us.IID(Own(0.0, 4.0)), step=0.5)
    made = on_grid.whitening(model, KEY)
    assert made.rows is None
    assert same_bits(
        made.apply(made.start(), np.array([[0.5], [1.0]]))[1],
        RandomisedScore(model, KEY).apply((0, None), np.array([[0.5], [1.0]]))[1],
    )
