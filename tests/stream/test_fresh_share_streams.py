"""Streams with a fresh share: each slot has chance of its own, the same however its reading comes."""

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.stats
from helpers import is_white, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_helpers import released_as

import understudy as us
from understudy.errors import SnapshotError, UnderstudyError
from understudy.laws.uniforms import Uniforms
from understudy.transform.core import FreshShare

T, S = 240, 0.6
NOON = np.datetime64("2026-03-02T12:00:00", "ns")
MINUTE = np.timedelta64(60, "s")


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def two_channels(level):
    return us.GaussMarkov(
        [[0.9, 0.1], [0.0, 0.7]], [[1.0, 0.0], [0.5, 1.0]], np.diag([0.1, 0.2]), np.diag([0.3, 0.1]),
        b=[level, 1.0], mean0=[10.0, 3.0], cov0=np.eye(2),
    )  # fmt: skip


def heavy(level):
    return us.AutoRegressive([0.5, 0.2], intercept=level, noise=us.Scalar(scipy.stats.laplace()))


def on_grid(level):
    return us.Quantised(us.GaussMarkov(A=0.9, C=1.0, Q=1.0, R=1.0, b=level, mean0=10.0, cov0=1.0), step=0.5)


def hidden(level):
    laws = [us.Gaussian(level, 1.0), us.Gaussian(level + 3.0, 2.0)]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


MODELS = {"room": room, "two channels": two_channels, "heavy": heavy, "grid": on_grid, "hidden": hidden}
FLIP = [[0.95, 0.05], [0.05, 0.95]]


@functools.cache
def made(name, fresh=S):
    family = us.Family(MODELS[name], values=[0, 1])
    return us.design(family, leakage=0.2, horizon=8, distortion="mae", accuracy=0.2, fresh=fresh)


@functools.cache
def moving(fresh=S):
    family = us.Family(room, values=[0, 1])
    return us.design_causal(family, FLIP, rate=0.05, horizon=20, distortion="mae", decision_every=7, fresh=fresh)


@functools.cache
def history(name):
    """Readings (T, d) with gaps where the models bear them, and a private value that moves."""
    rng = np.random.default_rng(3)
    Y = np.asarray(us.sample(MODELS[name](1.0), T, rng=rng)).reshape(T, -1)
    Y[[40, 41, 90, 91, 92, 200]] = np.nan
    return Y, np.repeat(rng.integers(0, 2, T // 30), 30)


def begin(name, ledger=None, **options):
    design = moving() if name == "moving" else made(name)
    if name == "heavy":
        options["gaps"] = "withhold"
    return design, design.stream(0, ledger, "a", rng=11, **options)


def play(stream, Y, theta, cuts, single=False):
    """Outputs of readings in pieces; with `single` all pieces of a few readings come one by one."""
    outs = []
    for part in np.split(np.arange(len(Y)), sorted(cuts)):
        if single and len(part) < 20:
            outs += [stream.step(Y[k] if Y.shape[1] > 1 else float(Y[k, 0]), theta=int(theta[k])) for k in part]
        elif len(part):
            outs += list(stream.apply(Y[part] if Y.shape[1] > 1 else Y[part, 0], theta=theta[part]))
    return np.array(outs)


# The same bits, however readings come -------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS, "moving"])
@given(cuts=st.lists(st.integers(1, T - 1), max_size=6, unique=True), single=st.booleans())
@settings(max_examples=4, deadline=None)
def test_chunks_and_steps_agree(name, cuts, single):
    """Through gaps, switches of the value and epochs of 50 readings."""
    Y, theta = history("room" if name == "moving" else name)
    options = {} if name == "moving" else {"epoch": 50}
    whole = play(begin(name, **options)[1], Y, theta, ())
    assert same_bits(play(begin(name, **options)[1], Y, theta, cuts, single), whole)
    assert np.isfinite(whole).mean() > 0.8


@pytest.mark.parametrize("name", [*MODELS, "moving"])
def test_restarts_snapshots_and_replays_agree(name, tmp_path):
    """A ledger opened again, a snapshot, and the same keys once more."""
    Y, theta = history("room" if name == "moving" else name)
    whole = play(begin(name)[1], Y, theta, ())
    outs, cuts = [], [0, 35, 41, 130, T]
    for first, stop in itertools.pairwise(cuts):
        with us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path / "guard") as ledger:
            design, stream = begin(name, ledger) if not first else (None, None)
            design = design or (moving() if name == "moving" else made(name))
            stream = stream or us.Stream.open(ledger, design, "a")
            keys = np.arange(first, stop)
            given = Y[first:stop] if Y.shape[1] > 1 else Y[first:stop, 0]
            outs.append(stream.apply(given, keys=keys, theta=theta[first:stop]))
            again = stream.apply(given, keys=keys, theta=theta[first:stop])
            assert same_bits(again, outs[-1])
    assert same_bits(np.concatenate(outs), whole)
    design, stream = begin(name)
    before = play(stream, Y[:99], theta[:99], ())
    other = us.Stream.restore(design, stream.snapshot())
    assert same_bits(np.concatenate([before, play(other, Y[99:], theta[99:], (13,))]), whole)


def test_files_are_replayed(tmp_path):
    """A run over a file, interrupted and begun again, gives the same rows; a long one, the same as a live stream."""
    Y, theta = history("room")
    whole = play(begin("room")[1], Y, theta, ())
    for stop in (100, T):
        with us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path / "guard") as ledger:
            run = begin("room", ledger)[1].run("today.csv")
            out = np.concatenate(
                [run.apply(Y[:60, 0], theta=theta[:60]), run.apply(Y[60:stop, 0], theta=theta[60:stop])]
            )
    assert same_bits(out, whole)


# A slot and its chance --------------------------------------------------------------------------------------


def chance(design, stream, Y, out, column):
    """The w of each reading, from the scores of input and output, which only a test can know."""
    z, mixed = us.whiten(Y, room(1)), us.whiten(out, room(design.pseudo[column]))
    return (mixed - math.sqrt(1.0 - S * S) * z) / S


def reused(w):
    """Whether two readings had the same w, to what the lattice leaves of it."""
    w = np.sort(w[~np.isnan(w)])
    return bool((np.diff(w) < 1e-7).sum() > len(w) // 10)


def test_the_chance_of_a_slot_belongs_to_its_number(tmp_path):
    """By the clock: a reading after empty slots has the w of its own slot, as if the others had come."""
    design, stream = begin("room", period=60)
    slots = np.array([0, 1, 2, 7, 8, 30, 31, 32, 33, 60])
    Y = us.sample(room(1), 61, rng=5)
    full = us.disguise(Y, room(1), room(0), stream._setup.row.secret, fresh=S)
    w = FreshShare(S, Uniforms(stream._setup.row.secret), 1).normals(0, 61)[:, 0]
    sparse = np.full(61, np.nan)
    sparse[slots] = Y[slots]
    out = stream.apply(Y[slots], keys=NOON + slots * MINUTE, theta=1)
    draw = stream._now.epoch.draw
    wanted = us.disguise(sparse, room(1), room(design.pseudo[draw]), stream._setup.row.secret, fresh=S)
    assert released_as(out, wanted[slots], design.resolution)
    whole = np.full(61, np.nan)
    whole[slots] = out
    assert np.allclose(chance(design, stream, sparse, whole, draw)[slots], w[slots], atol=5e-3)
    assert np.isfinite(full).all()


def test_no_chance_is_used_twice():
    """Over gaps, epochs and switches all w differ, are white and tell nothing of the scores (false alarm 1e-6)."""
    design, stream = begin("room", epoch=500)
    Y = us.sample(room(1), 4000, rng=5)
    Y[::17] = np.nan
    out, draws = np.empty(4000), []
    for rows in np.split(np.arange(4000), 8):
        out[rows] = stream.apply(Y[rows], theta=1)
        draws += [stream._now.epoch.draw] * len(rows)
    family = us.Family(room, values=[0, 1])
    target = family.along([design.pseudo[j] for j in draws])
    z, mixed = us.whiten(Y, room(1)), us.whiten(out, target)
    w = ((mixed - 0.8 * z) / S)[~np.isnan(z)]
    assert not reused(w)
    assert is_white(w)
    assert abs((w * z[~np.isnan(z)]).mean()) < 5.0 / math.sqrt(len(w))


def test_the_same_test_catches_chance_that_is_used_twice(monkeypatch):
    """The twin: where each call begins with the same w, it shows."""
    plain = FreshShare.apply
    monkeypatch.setattr(FreshShare, "apply", lambda self, state, Y, out=None: plain(self, (0,), Y, out))
    design, stream = begin("room")
    Y = us.sample(room(1), 1000, rng=5)
    out = np.concatenate([stream.apply(part, theta=1) for part in np.split(Y, 4)])
    assert reused(np.round(chance(design, stream, Y, out, stream._now.epoch.draw), 2))
    # and two readings of one slot tell the difference of their scores
    monkeypatch.undo()
    outs = [begin("room")[1].apply(other, theta=1) for other in (Y[:300], us.sample(room(1), 300, rng=6))]
    target = room(design.pseudo[begin("room")[1]._now.epoch.draw])
    difference = us.whiten(outs[0], target) - us.whiten(outs[1], target)
    scores = us.whiten(Y[:300], room(1)) - us.whiten(us.sample(room(1), 300, rng=6), room(1))
    assert np.corrcoef(difference, scores)[0, 1] > 0.99


def test_slots_that_are_filled_go_on(tmp_path):
    """Missing readings and empty slots have outputs from fresh scores, and the others the w of their slots."""
    options = {"period": 60, "fill": True}
    slots = np.array([0, 1, 2, 5, 6, 9, 10])
    Y = us.sample(room(1), 11, rng=5)[slots]
    Y[4] = np.nan
    whole = begin("room", **options)[1].apply(Y, keys=NOON + slots * MINUTE, theta=1)
    assert np.isfinite(whole).all()
    single = begin("room", **options)[1]
    each = [single.step(float(y), NOON + k * MINUTE, theta=1) for k, y in zip(slots, Y, strict=True)]
    assert same_bits(whole, each)
    with us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path / "guard") as ledger:
        stream = begin("room", ledger, **options)[1]
        stream.apply(Y[:3], keys=NOON + slots[:3] * MINUTE, theta=1)
        stream.fill_until(NOON + 4 * MINUTE)
    with us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path / "guard") as ledger:
        stream = us.Stream.open(ledger, made("room"), "a")
        assert same_bits(stream.apply(Y[3:], keys=NOON + slots[3:] * MINUTE, theta=1), whole[3:])


def test_a_gap_of_years_is_one_leap():
    """As for the map in one piece."""
    stream = begin("room", period=60)[1]
    stream.step(101.0, NOON, theta=1)
    out = stream.step(101.0, NOON + np.timedelta64(3 * 365, "D"), theta=1)
    assert math.isfinite(out)
    assert stream._now.position.state[0][1] == (stream._now.position.readings,)


def test_readings_out_of_range_have_outputs(tmp_path):
    """A glitch is no reading: its slot is filled, and what follows has the w of its own slot."""
    design, stream = begin("room")
    Y = us.sample(room(1), 20, rng=5)
    Y[[4, 9]] = 1e6
    out = stream.apply(Y, theta=1)
    assert np.isfinite(out).all()
    single = begin("room")[1]
    assert same_bits(out, [single.step(float(y), theta=1) for y in Y])
    assert design.release.high[0] < 1e6


@pytest.mark.parametrize("name", ["room", "heavy"])
def test_all_fresh_outputs_do_not_look_at_readings(name):
    """Whatever the readings are, and whatever the model of the source."""
    outs = []
    for seed in (1, 2):
        stream = made(name, 1.0).stream(1, rng=4, **({"gaps": "withhold"} if name == "heavy" else {}))
        outs.append(stream.apply(us.sample(MODELS[name](1), 50, rng=seed), theta=1))
    assert same_bits(*outs)
    assert made(name, 1.0).floating is None


def test_a_stream_of_another_share_is_another_stream(tmp_path):
    """Neither snapshot nor ledger goes on under another share."""
    Y = us.sample(room(1), 20, rng=5)
    stream = begin("room")[1]
    stream.apply(Y, theta=1)
    for other in (0.0, 0.5):
        with pytest.raises(SnapshotError, match="another design"):
            us.Stream.restore(made("room", other), stream.snapshot())
    with us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path / "guard") as ledger:
        begin("room", ledger)
        with pytest.raises(UnderstudyError, match="design"):
            us.Stream.open(ledger, made("room", 0.5), "a")
