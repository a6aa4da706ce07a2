"""A stream that withholds after gaps: p readings, whatever is missing, with draws, restarts and switches as ever."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA, same_bits, white_pvalue
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_helpers import copied, opened, played, released_as

import understudy as us
from understudy.errors import ConfigurationError, LedgerError, MissingReadingError, ModelError, ReadingError
from understudy.laws.uniforms import Uniforms
from understudy.randomizer.causal import design_causal
from understudy.transform.gaps import RestartingMap

HEAVY = us.Scalar(scipy.stats.laplace(0.0, 2.0))
P, EVERY = 2, 5
FAST = settings(max_examples=10, deadline=None, derandomize=True, database=None)
GAPS = st.lists(st.booleans() | st.just(False), min_size=1, max_size=40).map(np.array)


@functools.cache
def room(v):
    return us.AutoRegressive([0.5, 0.3], intercept=2.0 * v, noise=HEAVY, past=[10.0 * v] * P)


@functools.cache
def gridded(v):
    return us.OnGrid(room(v), step=0.5)


def normal(v):
    return us.AutoRegressive([0.5, 0.3], intercept=2.0 * v, noise=us.Gaussian(0.0, 4.0))


@functools.cache
def design(make=room):
    return us.design(
        us.Family(make, values=[0, 1]), pseudo=[0, 0.5, 1], leakage=0.3, horizon=10, distortion="mse", accuracy=0.2,
        rng=1,
    )  # fmt: skip


@functools.cache
def causal(make=room):
    return design_causal(
        us.Family(make, values=[0, 1]), [[0.9, 0.1], [0.1, 0.9]], [0, 0.5, 1], slope=0.3,
        distortion=[[0.0, 1.0, 4.0], [4.0, 1.0, 0.0]], decision_every=EVERY,
    )  # fmt: skip


def readings(missing, seed, make=room, theta=None):
    """Of a room that is empty, or has a path, with some of it gone."""
    model = make(0) if theta is None else us.Family(make, values=[0, 1]).along(list(theta))
    Y = us.sample(model, T=len(missing), rng=seed)
    Y[missing] = np.nan
    return Y


def leaving(missing):
    """Which outputs leave: those of readings with P before them since the beginning or the last gap."""
    found, row = [], 0
    for gone in missing:
        found.append(not gone and row >= P)
        row = 0 if gone else row + 1
    return np.array(found)


def by_hand(Y, make, theta, pseudo, key=None):
    """What must come out, by plain loops over the models along both paths."""
    out, past, disguised = np.full(len(Y), np.nan), [], None
    for k, y in enumerate(Y.tolist()):
        if np.isnan(y):
            past = []
            continue
        if len(past) == P:
            source, target = make(theta[k]), make(pseudo[k])
            disguised = target.start() if disguised is None else disguised
            v = () if key is None else (Uniforms(key).at(k, 1).item(),)
            out[k] = target.predict(disguised).value(source.predict(np.array(past)).score(y, *v))
            disguised = target.update(disguised, out[k])
        past = [[y], *past][:P]
    return out


def close(out, wanted):
    grid = bool(
        np.array_equal(np.asarray(wanted)[~np.isnan(wanted)] % 1.0, 0.0 * np.asarray(wanted)[~np.isnan(wanted)])
    )
    return released_as(out, wanted, (0.0,) if grid else design().resolution)


@pytest.mark.long(seconds=5, reason="many random patterns of gaps")
@FAST
@given(missing=GAPS, seed=st.integers(0, 20), make=st.sampled_from([room, gridded]))
def test_what_is_withheld_follows_from_what_is_missing(missing, seed, make):
    """The first P readings, and P after each gap; what leaves is that of loops over the models."""
    stream = design(make).stream(0, rng=seed, gaps="withhold")
    Y = readings(missing, seed, make)
    out = stream.apply(Y)
    assert np.isnan(out).tolist() == (~leaving(missing)).tolist()
    pseudo = design(make).pseudo[played(stream)]
    key = stream._row.secret if make is gridded else None
    assert close(out, by_hand(Y, make, [0] * len(Y), [pseudo] * len(Y), key))


@FAST
@given(
    missing=GAPS, seed=st.integers(0, 20), cuts=st.sets(st.integers(1, 39), max_size=6),
    make=st.sampled_from([room, gridded]),
)  # fmt: skip
def test_batches_steps_and_snapshots_have_the_same_bits(missing, seed, cuts, make):
    """However readings are handed over, and however often the stream is restored in between."""
    Y = readings(missing, seed, make)
    whole = design(make).stream(0, rng=seed, gaps="withhold").apply(Y)
    single = design(make).stream(0, rng=seed, gaps="withhold")
    assert same_bits(np.array([single.step(None if np.isnan(y) else y) for y in Y.tolist()]), whole)
    stream, parts = design(make).stream(0, rng=seed, gaps="withhold"), []
    for a, b in itertools.pairwise([0, *sorted(c for c in cuts if c < len(Y)), len(Y)]):
        stream = us.Stream.restore(design(make), stream.snapshot())
        parts.append(stream.apply(Y[a:b]))
    assert same_bits(np.concatenate(parts), whole)


@pytest.mark.long(seconds=3, reason="many restarts")
def test_restarts_and_replays_through_a_ledger(tmp_path):
    """In the midst of a refill, with the same bits after it; and a key that was withheld is withheld again."""
    missing = np.isin(np.arange(30), [8, 9, 20])
    Y, made = readings(missing, 3), design()
    whole = made.stream(0, rng=9, gaps="withhold").apply(Y)
    parts = []
    for k in range(30):
        with opened(tmp_path) as ledger:
            stream = made.stream(0, ledger, "lab", rng=9, gaps="withhold" if k % 2 else None if k else "withhold")
            parts.append(stream.step(None if missing[k] else float(Y[k]), key=k))
    assert same_bits(np.array(parts), whole)
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, made, "lab")
        assert same_bits(stream.apply(Y, keys=range(30)), whole)
        assert [stream.step(1.0, key=k) for k in (2, 12)] == [whole[2], whole[12]]
        assert np.isnan([stream.step(1.0, key=k) for k in (0, 1, 10, 11, 22)]).all()
        assert stream.spent == pytest.approx(0.3)


def test_the_choice_is_fixed_when_the_stream_is_begun(tmp_path):
    """It stands in the ledger; another one later is refused, none is taken for what it was."""
    with opened(tmp_path) as ledger:
        design().stream(0, ledger, "old")
        design().stream(0, ledger, "new", gaps="withhold")
    with opened(tmp_path) as ledger:
        assert ledger.stream("new").options["gaps"] == "withhold"
        assert "gaps" not in ledger.stream("old").options
        for name, other in (("old", "withhold"), ("new", "refuse")):
            with pytest.raises(ConfigurationError, match="was begun with another choice"):
                design().stream(0, ledger, name, gaps=other)
        design().stream(0, ledger, "old", gaps="refuse")
        with pytest.raises(MissingReadingError):
            design().stream(0, ledger, "old").apply([1.0, None])
        assert np.isnan(design().stream(0, ledger, "new").apply([1.0, None])).all()


def test_the_default_refuses_a_gap_and_withholds_nothing():
    """As before."""
    stream = design().stream(0, rng=1)
    assert np.isfinite(stream.apply([1.0, 2.0, 3.0])).all()
    with pytest.raises(MissingReadingError):
        stream.step(None)
    for wrong in ("wait", 1, ""):
        with pytest.raises(ConfigurationError, match="it must be 'refuse' or 'withhold'"):
            design().stream(0, gaps=wrong)
        with pytest.raises(ConfigurationError, match="it must be 'refuse' or 'withhold'"):
            causal().stream(gaps=wrong)


def test_models_with_an_exact_law_across_gaps_are_unaffected():
    """Gaussian noise: the same bits with the option and without, and nothing is withheld but what is missing."""
    missing = np.arange(60) % 9 == 4
    Y = readings(missing, 2, normal)
    plain, other = (design(normal).stream(0, rng=3, gaps=gaps) for gaps in (None, "withhold"))
    out = plain.apply(Y)
    assert same_bits(other.apply(Y), out)
    assert (np.isnan(out) == missing).all()
    assert not isinstance(other._now.map, RestartingMap)


@pytest.mark.long(seconds=2, reason="two fits")
def test_members_that_do_not_agree_are_refused_before_a_draw(tmp_path):
    """Orders 1 and 2: what is withheld would tell which one is meant."""
    made = us.design(
        us.Family({0: room(0), 1: us.AutoRegressive(0.5, noise=HEAVY)}), leakage=0.3, horizon=5, distortion="mse",
        accuracy=0.2, rng=1,
    )  # fmt: skip
    with opened(tmp_path) as ledger:
        with pytest.raises(ModelError, match="they must agree"):
            made.stream(0, ledger, "lab", gaps="withhold")
        assert ledger.names() == []
    assert made.stream(0, gaps="refuse").count == 0


@FAST
@given(missing=GAPS, seed=st.integers(0, 20), make=st.sampled_from([room, gridded]))
def test_theta_may_change_at_any_moment(missing, seed, make):
    """Within a gap, a refill or after it: each reading is scored under its own value on the last P readings."""
    theta = np.random.default_rng(seed).integers(0, 2, len(missing))
    Y = readings(missing, seed, make, theta)
    stream = design(make).stream(0, rng=seed, gaps="withhold")
    out = stream.apply(Y, theta=theta.tolist())
    pseudo = design(make).pseudo[played(stream)]
    key = stream._row.secret if make is gridded else None
    assert close(out, by_hand(Y, make, theta, [pseudo] * len(Y), key))
    told = design(make).stream(0, rng=seed, gaps="withhold")
    single = []
    for y, value in zip(Y.tolist(), theta.tolist(), strict=True):
        told.becomes(value)
        single.append(told.step(y))
    assert same_bits(np.array(single), out)


@pytest.mark.long(seconds=4, reason="many random patterns of gaps")
@FAST
@given(missing=GAPS, seed=st.integers(0, 20), make=st.sampled_from([room, gridded]))
def test_epochs_and_decisions_within_a_refill(missing, seed, make):
    """A new understudy goes on from the last outputs, or begins after the refill; in both kinds of design."""
    theta = np.random.default_rng(seed).integers(0, 2, len(missing))
    Y = readings(missing, seed, make, theta)
    for made, stream in (
        (design(make), design(make).stream(0, rng=seed, epoch=3, gaps="withhold")),
        (causal(make), causal(make).stream(rng=seed, every=3, gaps="withhold")),
    ):
        out, draws = [], []
        for y, value in zip(Y.tolist(), theta.tolist(), strict=True):
            out.append(stream.step(y, theta=value))
            draws.append(made.pseudo[played(stream)])
        key = stream._row.secret if make is gridded else None
        assert close(np.array(out), by_hand(Y, make, theta, draws, key))
    assert np.isnan(out).tolist() == (~leaving(missing)).tolist()


def test_a_causal_design_in_batches_has_the_law_of_its_pseudo_path(tmp_path):
    """Scores along the pseudo path are white, piece by piece; along the true one, the twin, not. False alarms: 1e-6."""
    rng = np.random.default_rng(8)
    T = 4000
    theta = np.repeat(np.cumsum(rng.random(T // EVERY) < 0.1) % 2, EVERY)
    missing = rng.random(T) < 0.05
    Y = readings(missing, 9, room, theta)
    with opened(tmp_path) as ledger:
        out = causal().stream(ledger=ledger, name="lab", rng=4, gaps="withhold").apply(Y, theta=theta)
        found = ledger.rows("SELECT draw FROM epochs WHERE stream = 1 AND epoch > 0 ORDER BY epoch")
    pseudo = np.repeat([causal().pseudo[draw] for (draw,) in found], EVERY)
    assert (np.isnan(out) == ~leaving(missing)).all()

    def scores(path):
        z, past = [], None
        for y, value in zip(out.tolist(), path.tolist(), strict=True):
            if not np.isnan(y):
                past = room(value).start() if past is None else past
                z.append(room(value).predict(past).score(y))
                past = room(value).update(past, y)
        return np.array(z)

    assert white_pvalue(scores(pseudo)) > ALPHA
    assert white_pvalue(scores(theta)) < ALPHA


@pytest.mark.long(seconds=2, reason="a design of simulated costs")
def test_values_between_which_a_filter_cannot_go_on_are_refused_within_a_refill_too():
    """One value on a grid and one off it, of one order: refused at once, not only when outputs leave."""
    made = us.design(
        us.Family({0: room(0), 1: gridded(1)}), leakage=0.3, horizon=5, distortion="mse", accuracy=0.2, rng=1
    )
    stream = made.stream(0, gaps="withhold", rng=1)
    stream.step(1.0)
    with pytest.raises(ModelError, match="cannot go on under the models of another value"):
        stream.becomes(1)


def test_lost_readings_count_as_missing(tmp_path):
    """An older ledger: a stream that refuses gaps cannot go on from it, one that withholds goes on after them."""
    made, Y = design(), readings(np.zeros(40, dtype=bool), 5)
    with opened(tmp_path) as ledger:
        made.stream(0, ledger, "lab", gaps="withhold").apply(Y[:10])
    copied(tmp_path / "room.ledger", tmp_path / "backup")
    with opened(tmp_path) as ledger:
        us.Stream.open(ledger, made, "lab").apply(Y[10:20])
    copied(tmp_path / "backup", tmp_path / "room.ledger")
    with opened(tmp_path) as ledger:
        again = us.Stream.open(ledger, made, "lab", rollback="charge")
        assert again.count == 20
        out = again.apply(Y[20:])
        assert np.isnan(out).tolist() == [True] * P + [False] * (20 - P)


@pytest.mark.parametrize("make", [room, gridded])
def test_a_run_over_a_file_is_replayed(tmp_path, make):
    """Interrupted within a refill and begun again: the same rows become the same outputs, and go on."""
    missing = np.isin(np.arange(60), [8, 9, 29, 45])
    Y, made = readings(missing, 6, make), design(make)
    whole = made.stream(0, rng=2, gaps="withhold").apply(Y)
    for stops in ([31], [31, 46], [31, 46, 60]):
        with opened(tmp_path) as ledger:
            run = made.stream(0, ledger, "lab", rng=2, gaps="withhold").run("today")
            out = [run.apply(Y[a:b]) for a, b in itertools.pairwise([0, *stops])]
            assert same_bits(np.concatenate(out), whole[: stops[-1]])
    with opened(tmp_path) as ledger:
        run = us.Stream.open(ledger, made, "lab").run("today")
        assert run.recorded == 60
        with pytest.raises((ReadingError, LedgerError)):
            run.apply(np.where(missing, 0.0, Y)[:31])
