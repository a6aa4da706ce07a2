"""After a gap the source fills up, nothing leaves meanwhile, and the target goes on: exact, causal, to the bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA, same_bits, white_pvalue
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import MissingReadingError, ModelError, ReadingError, StateError
from understudy.laws.uniforms import Uniforms
from understudy.stream.engine import hand_over_state
from understudy.stream.snapshot import dump, load
from understudy.transform.core import RandomisedScore, transformation
from understudy.transform.gaps import RestartingMap, refill_of, restarting_map

KEY = b"k" * 32
FAST = settings(max_examples=40, deadline=None, derandomize=True, database=None)
HEAVY = us.Scalar(scipy.stats.t(4.0, 0.0, 2.0))


def scalar(v):
    return us.AutoRegressive([0.5, 0.3], intercept=v, noise=HEAVY, past=[5.0 * v] * 2)


def single(v):
    return us.AutoRegressive(0.6 + 0.1 * v, intercept=v, noise=HEAVY, past=[v])


def vector(v):
    noise = us.Independent(HEAVY, us.Scalar(scipy.stats.t(6.0)))
    Phi = np.array([[[0.5, 0.1], [0.0, 0.4]], [[0.1, 0.0], [0.1, 0.2]], [[0.05, 0.0], [0.0, 0.1]]])
    return us.AutoRegressive(Phi, intercept=[v, -v], noise=noise, past=np.full((3, 2), v))


def on_grid(v):
    return us.OnGrid(scalar(v), step=0.5)


KINDS = {"scalar": scalar, "one lag": single, "vector": vector, "grid": on_grid}


def readings(model, missing, seed):
    """A sequence with some of it gone, (T, d)."""
    Y = np.reshape(us.sample(model, T=len(missing), rng=seed), (len(missing), -1))
    Y[missing] = np.nan
    return Y


def refilled(missing, p):
    """Which outputs leave: those of readings with at least p before them since the beginning or the last gap."""
    leaves, row = [], 0
    for gone in missing:
        leaves.append(not gone and row >= p)
        row = 0 if gone else row + 1
    return np.array(leaves)


def by_hand(Y, source, target, uniforms=None):
    """Another way to the same output: plain loops over the models, with the last p readings in hand."""
    p, d = source.refill, source.dim
    out, past, disguised = np.full(Y.shape, np.nan), [], target.start()
    for k, y in enumerate(Y):
        if np.isnan(y).any():
            past = []
            continue
        if len(past) == p:
            law = source.predict(np.array(past))
            given = y.item() if d == 1 else y
            v = () if uniforms is None else (uniforms.at(k, d).item(),)
            x = target.predict(disguised).value(law.score(given, *v))
            disguised, out[k] = target.update(disguised, x), x
        past = [y, *past][:p]
    return out


GAPS = st.lists(st.booleans() | st.just(False), min_size=1, max_size=40).map(np.array)


@FAST
@given(missing=GAPS, seed=st.integers(0, 50), kind=st.sampled_from(sorted(KINDS)))
def test_p_readings_are_withheld_after_each_gap_and_at_the_beginning(missing, seed, kind):
    """Whatever is missing: what leaves follows from that alone, and is what plain loops over the models give."""
    source, target = KINDS[kind](0.0), KINDS[kind](1.0)
    Y = readings(source, missing, seed)
    made = restarting_map(source, target, KEY)
    _, out = made.apply(made.start(), Y)
    p = {"scalar": 2, "one lag": 1, "vector": 3, "grid": 2}[kind]
    assert (~np.isnan(out).any(axis=1)).tolist() == refilled(missing, p).tolist()
    assert np.isnan(out[~refilled(missing, p)]).all()
    uniforms = Uniforms(KEY) if kind == "grid" else None
    np.testing.assert_allclose(out, by_hand(Y, source, target, uniforms), rtol=1e-9, atol=1e-9)


@FAST
@given(
    missing=GAPS, seed=st.integers(0, 50), kind=st.sampled_from(sorted(KINDS)), cuts=st.sets(st.integers(1, 39))
)  # fmt: skip
def test_steps_chunks_and_stored_states_have_the_same_bits(missing, seed, kind, cuts):
    """One by one, in chunks, with the state through a file in between, or all at once; final states too."""
    source, target = KINDS[kind](0.0), KINDS[kind](1.0)
    Y = readings(source, missing, seed)
    made = restarting_map(source, target, KEY)
    last, whole = made.apply(made.start(), Y)
    state, parts = made.start(), []
    for a, b in pairwise([0, *sorted(c for c in cuts if c < len(Y)), len(Y)]):
        state, out = restarting_map(source, target, KEY).apply(load(dump(state)), Y[a:b])
        parts.append(out)
    assert same_bits(np.concatenate(parts), whole)
    assert dump(state) == dump(last)
    state, steps = made.start(), []
    for y in Y:
        given_y = (float(y[0]) if not np.isnan(y[0]) else None) if made.dim == 1 else y
        state, out = made.step(state, given_y)
        steps.append(np.reshape(out, made.dim))
    assert same_bits(np.array(steps), whole)
    assert dump(state) == dump(last)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_output_is_causal(kind):
    """Other readings later change nothing before them."""
    source, target = KINDS[kind](0.0), KINDS[kind](1.0)
    missing = np.zeros(40, dtype=bool)
    missing[[12, 13, 25]] = True
    made = restarting_map(source, target, KEY)
    Y, other = readings(source, missing, 1), readings(source, missing, 2)
    early = np.concatenate([Y[:20], other[20:]])
    whole = made.apply(made.start(), Y)[1]
    assert same_bits(made.apply(made.start(), early)[1][:20], whole[:20])
    assert not same_bits(made.apply(made.start(), early)[1][20:], whole[20:])


def scores(out, model, seed):
    """Scores of all that left, one after the other."""
    return us.whiten(out[~np.isnan(out).any(axis=1)], model, rng=seed)


@pytest.mark.parametrize("kind", ["scalar", "vector", "grid"])
def test_what_leaves_has_the_law_of_the_target(kind):
    """Scores under the target are white although gaps are many; under the source, the twin, not. False alarms: 1e-6."""
    source, target = KINDS[kind](0.0), KINDS[kind](1.0)
    rng = np.random.default_rng(5)
    made = restarting_map(source, target, KEY)
    Y = readings(source, rng.random(1000) < 0.08, 6)
    out = made.apply(made.start(), Y)[1]
    assert 500 < (~np.isnan(out).any(axis=1)).sum() < 900
    assert white_pvalue(scores(out, target, 1)) > ALPHA
    assert white_pvalue(scores(out, source, 1)) < ALPHA


def test_a_past_that_is_held_across_gaps_leaves_scores_that_are_not_white():
    """Why p readings are withheld: with the reading before a gap as the past, the twin, scores after it are too wide.

    Ten of twenty readings are missing at a time; 1,000 pieces, false alarms 1e-6. The filter's own scores are white.
    """
    source, target = (us.AutoRegressive(0.95, intercept=v, noise=HEAVY, past=[20.0 * v]) for v in (0.0, 1.0))
    Y = readings(source, np.arange(20_000) % 20 >= 10, 7)
    made = restarting_map(source, target)
    out = made.apply(made.start(), Y)[1]
    assert white_pvalue(scores(out, target, 1)) > ALPHA
    held, wrong = source.start(), []
    for y in Y[~np.isnan(Y)].tolist():
        wrong.append(source.predict(held).score(y))
        held = source.update(held, y)
    assert white_pvalue(np.array(wrong)) < ALPHA


def test_a_reading_beyond_the_law_on_a_wrong_past_can_fill_up():
    """Noise with ends: a level of 100 has no score from a start at 0, and is no error while nothing leaves."""
    model = us.AutoRegressive(0.9, noise=us.Scalar(scipy.stats.uniform(-1.0, 2.0)), past=[0.0])
    made = restarting_map(model, model)
    _, out = made.apply(made.start(), np.array([[100.0], [90.5], [81.0]]))
    np.testing.assert_allclose(out[:, 0], [np.nan, 0.5, 0.0], atol=1e-9)
    with pytest.raises(ReadingError, match="outside the support"):
        us.disguise([100.0, 90.5], model, model)
    with pytest.raises(ReadingError, match="outside the support"):
        made.apply(made.start(), np.array([[1.0], [1.0], [np.nan], [1.0], [50.0]]))


class Counting(Uniforms):
    """Uniforms that remember what was asked for."""

    asked: list[int] = []  # noqa: RUF012

    def at(self, k, dim=1):
        """As it is, and noted."""
        self.asked.append(k)
        return super().at(k, dim)


@FAST
@given(missing=GAPS, seed=st.integers(0, 20))
def test_no_auxiliary_uniform_is_used_twice(missing, seed):
    """Reading k has uniform k, gaps and withheld readings counted: none comes again after a restart."""
    source = on_grid(0.0)
    made = restarting_map(source, on_grid(1.0), KEY)
    uniforms = Counting(KEY)
    uniforms.asked.clear()
    counted = RestartingMap(RandomisedScore(source, uniforms), made.target, 2)
    Y = readings(source, missing, seed)
    state, out = counted.apply(counted.start(), Y)
    assert uniforms.asked == np.flatnonzero(refilled(missing, 2)).tolist()
    assert same_bits(out, made.apply(made.start(), Y)[1])
    assert state[1][0] == len(Y)


def test_noise_with_atoms_counts_too():
    """Where the noise itself has atoms the count goes on across gaps."""
    model = us.AutoRegressive(1.0, noise=us.Atoms([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25]), past=[0.0])
    made = restarting_map(model, model, KEY)
    Y = np.array([[0.0], [1.0], [np.nan], [np.nan], [5.0], [6.0]])
    state, out = made.apply(made.start(), Y)
    assert dump(state[1]).count("[6]") == 1
    np.testing.assert_allclose(out[:, 0], by_hand(Y, model, model, Uniforms(KEY))[:, 0])


@pytest.mark.sample(default=1, seconds=3, reason="four kinds of models")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_switch_within_a_refill_or_after_it(kind):
    """At every moment: the source goes on with the readings it has, and the target too."""
    make = KINDS[kind]
    p = make(0.0).refill
    missing = np.zeros(18, dtype=bool)
    missing[[6, 7]] = True
    Y = readings(make(0.0), missing, 3)
    for n in range(1, 18):
        old, new = restarting_map(make(0.0), make(1.0), KEY), restarting_map(make(0.5), make(0.2), KEY)
        state, first = old.apply(old.start(), Y[:n])
        _, second = new.apply(load(dump(hand_over_state(old, new, state))), Y[n:])
        out = np.concatenate([first, second])
        past, disguised, wanted = [], None, np.full(Y.shape, np.nan)
        for k, y in enumerate(Y):
            source, target = (make(0.0), make(1.0)) if k < n else (make(0.5), make(0.2))
            if missing[k]:
                past = []
                continue
            if len(past) == p:
                disguised = target.start() if disguised is None else disguised
                v = () if kind != "grid" else (Uniforms(KEY).at(k, 1).item(),)
                z = source.predict(np.array(past)).score(y.item() if source.dim == 1 else y, *v)
                wanted[k] = target.predict(disguised).value(z)
                disguised = target.update(disguised, wanted[k])
            past = [y, *past][:p]
        np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-9)


def test_a_switch_that_cannot_be_is_refused_while_filling_up_too():
    """A target that cannot go on under the new value is refused before it has begun, not only after."""
    for other in (restarting_map(scalar(0.0), us.OnGrid(scalar(1.0), 0.5)), restarting_map(single(0.0), single(1.0))):
        old = restarting_map(scalar(0.0), scalar(1.0))
        with pytest.raises(ModelError, match="cannot go on under the models of another value"):
            hand_over_state(old, other, old.start())


def test_models_that_need_nothing_are_left_alone():
    """Gaussian noise has an exact law across gaps, readings without memory too: no wrapper, nothing withheld."""
    normal = us.AutoRegressive([0.5, 0.2], noise=us.Gaussian(0.0, 1.0))
    assert normal.refill is None
    assert us.OnGrid(normal, 0.5).refill == normal.order
    assert on_grid(0.0).refill == scalar(0.0).refill == 2
    Y = readings(normal, np.arange(20) % 7 == 3, 1)
    made = restarting_map(normal, normal)
    assert type(made) is type(transformation(normal, normal, False, None))
    assert same_bits(made.apply(made.start(), Y)[1], us.disguise(Y[:, 0], normal, normal)[:, None])
    assert type(restarting_map(us.IID(HEAVY), us.IID(HEAVY))) is not RestartingMap


def test_members_must_agree():
    """What is withheld must not tell which model is meant."""
    normal = us.AutoRegressive([0.5, 0.2], noise=us.Gaussian(0.0, 1.0))
    for models in ([scalar(0.0), single(0.0)], [normal, scalar(0.0)]):
        with pytest.raises(ModelError, match="they must agree"):
            refill_of(models)
        with pytest.raises(ModelError, match="they must agree"):
            restarting_map(*models)
    # a target with an exact law across gaps waits for its source
    assert type(restarting_map(scalar(0.0), normal)) is RestartingMap
    assert refill_of([]) is None


def test_bad_readings_and_states_are_refused_while_filling_up():
    """An infinity, a reading off the grid, a state of something else; and `us.disguise` refuses gaps as before."""
    made = restarting_map(on_grid(0.0), on_grid(1.0), KEY)
    for bad in (np.inf, 0.3):
        with pytest.raises(ReadingError):
            made.step(made.start(), bad)
        with pytest.raises(ReadingError):
            made.apply(made.start(), np.array([[0.5], [bad]]))
    for state in (None, (), (3, (0, 1), None), (True, (), None)):
        with pytest.raises(StateError):
            made.step(state, 0.5)
        with pytest.raises(StateError):
            made.apply(state, np.array([[0.5]]))
    with pytest.raises(MissingReadingError):
        us.disguise([0.5, None, 0.5], scalar(0.0), scalar(1.0))
