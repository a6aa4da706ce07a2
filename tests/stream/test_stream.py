"""Streams: the same outputs however the readings come, exact through switches, and nothing drawn twice."""

import datetime as dt
import json
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from stream_helpers import released_as

import understudy as us
from understudy.cli import app
from understudy.errors import (
    ConfigurationError,
    DesignError,
    LedgerError,
    ReadingError,
    RollbackError,
    SnapshotError,
    UnderstudyWarning,
)
from understudy.laws.atoms import Atoms
from understudy.stream import inspection
from understudy.stream import snapshot as snapshots

T = 300


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(room, values=[0, 1]), pseudo=[0, 0.5, 1], leakage=0.3, horizon=50, distortion="mae")


@pytest.fixture(scope="module")
def readings():
    Y = us.sample(room(1), T, rng=1)
    Y[[40, 41, 90]] = np.nan
    return Y


@pytest.fixture
def ledger(tmp_path):
    with us.Ledger(tmp_path / "room.ledger", rollback_guard=tmp_path / "guard") as opened:
        yield opened


def played(stream):
    """What the stream plays, which only a test may look at."""
    return stream._now.epoch.draw


@given(cuts=st.lists(st.integers(1, T - 1), max_size=6, unique=True))
@settings(max_examples=15, deadline=None)
def test_steps_chunks_and_restarts_agree_bit_for_bit(design, readings, cuts):
    """However readings are cut into steps, batches and restored snapshots, the outputs are those of `disguise`."""
    stream = design.stream(1, name="a")
    whole = us.disguise(readings, room(1), room(design.pseudo[played(stream)]), resolution=design.resolution)
    parts = []
    for part in np.split(readings, sorted(cuts)):
        stream = us.Stream.restore(design, stream.snapshot())
        parts.append(stream.apply(part) if len(part) > 3 else np.array([stream.step(y) for y in part]))
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)
    assert stream.count == T


def test_a_reading_that_comes_again_gets_its_output_again(design, readings, ledger):
    """Replays by key are answered from the ledger, singly and in batches, and change nothing."""
    stream = design.stream(1, ledger, "a")
    first = stream.apply(readings[:100], keys=range(100))
    assert stream.step(12345.0, key=17) == first[17]
    again = stream.apply(readings[80:120], keys=range(80, 120))
    assert np.array_equal(again[:20], first[80:], equal_nan=True)
    assert stream.count == 120
    rest = stream.apply(readings[120:], keys=range(120, T))
    whole = us.disguise(readings, room(1), room(design.pseudo[played(stream)]), resolution=design.resolution)
    assert np.array_equal(np.concatenate([first, again[20:], rest]), whole, equal_nan=True)


def test_a_ledger_goes_on_without_a_draw(design, readings, tmp_path):
    """Closed and opened, by open and by design.stream: the same draw, the same charge, the same outputs."""
    path = tmp_path / "room.ledger"
    draws, outputs = set(), []
    for part in np.array_split(readings, 12):
        ledger = us.Ledger(path, rollback_guard=tmp_path / "w")
        stream = design.stream(1, ledger, "a") if len(outputs) % 2 == 0 else us.Stream.open(ledger, design, "a")
        draws.add((played(stream), stream._row.secret))
        outputs.append(stream.apply(part))
        assert stream.spent == 0.3
        stream.close()
    assert len(draws) == 1
    whole = us.disguise(readings, room(1), room(design.pseudo[draws.pop()[0]]), resolution=design.resolution)
    assert np.array_equal(np.concatenate(outputs), whole, equal_nan=True)


def test_the_private_parameter_may_move_within_an_epoch(design):
    """Whitening follows the path of theta, the pseudo parameter stays: as `Family.along` does it, to 1e-9."""
    path = [1] * 50 + [0] * 70 + [1] * 80
    family = us.Family(room, values=[0, 1])
    Y = us.sample(family.along(path), len(path), rng=4)
    stream = design.stream(path[0], name="a")
    out = [stream.step(y, theta=theta) for y, theta in zip(Y, path, strict=True)]
    expected = us.disguise(Y, family.along(path), room(design.pseudo[played(stream)]))
    assert released_as(out, expected, design.resolution, 1e-9)


def test_epochs_by_the_clock_draw_again_and_go_on(design):
    """A new draw every 60 readings, whatever the batches; source and target states continue; charged each time."""
    Y = us.sample(room(1), 240, rng=5)
    stream = design.stream(1, name="a", epoch=60, rng=11)
    assert stream.insecure
    outs, columns = [], []
    for part in np.split(Y, [10, 100, 130]):
        for y in part:
            outs.append(stream.step(y))
            columns.append(played(stream))
    assert stream.epoch == 3
    path = [design.pseudo[column] for column in columns]
    assert all(len(set(path[i : i + 60])) == 1 for i in range(0, 240, 60))
    expected = us.disguise(Y, room(1), us.Family(room, values=[0, 0.5, 1]).along(path))
    assert released_as(outs, expected, design.resolution, 1e-9)
    whole = design.stream(1, name="b", epoch=60, rng=11)
    assert np.array_equal(whole.apply(Y), outs)
    worst = us.Guarantee.of(design.prior, design.randomizer.kernel).capacity.upper
    assert stream.spent == pytest.approx(0.3 + 3 * worst, abs=1e-5)


def test_epochs_by_time(design):
    """A timedelta counts by the times that come as keys; numbers are then refused."""
    stream = design.stream(1, name="a", epoch=dt.timedelta(hours=1), period=60)
    at = dt.datetime(2026, 3, 1, 11, 50, tzinfo=dt.UTC)
    for minutes, epoch in ((0, 0), (5, 0), (9, 0), (10, 1), (69, 1), (70, 2)):
        stream.step(100.0, key=at + dt.timedelta(minutes=minutes))
        assert stream.epoch == epoch
    with pytest.raises(ReadingError, match="kind"):
        stream.step(100.0, key=5)
    with pytest.raises(ReadingError, match="no output is kept"):
        stream.step(100.0, key=at)


@pytest.mark.long(seconds=2, reason="a design on a grid")
def test_atoms_are_scored_with_the_key_of_the_stream(tmp_path):
    """A grid chain through a stream: replay, chunks and restarts agree, and another stream has other uniforms."""
    a = us.Markov(Atoms([0, 1, 2], [0.5, 0.3, 0.2]), lambda y: Atoms([0, 1, 2], [0.3, 0.4, 0.3]))
    b = us.IID(us.Gaussian(0.0, 1.0))
    c = us.IID(us.Scalar(stats.t(5)))
    design = us.design(
        us.Family({0: a, 1: b, 2: c}, values=[0, 1]), pseudo=[1, 2], leakage=0.1, horizon=5, accuracy=0.5
    )
    Y = us.sample(a, 60, rng=1)
    stream = design.stream(0, name="a")
    blob = stream.snapshot()
    whole = stream.apply(Y)
    again = us.Stream.restore(design, blob)
    parts = np.concatenate([again.apply(Y[:7]), [again.step(y) for y in Y[7:20]], again.apply(Y[20:])])
    assert np.array_equal(parts, whole)
    assert not np.array_equal(us.Stream.restore(design, design.stream(0).snapshot()).apply(Y), whole)


# Draws ---------------------------------------------------------------------------------------------


def test_draws_have_the_probabilities_of_the_kernel(design):
    """20,000 draws from the operating system: chi-square at a false alarm of 1e-6; the other row must fail."""
    counts = np.bincount([design.draw(1) for _ in range(20_000)], minlength=3)
    kernel = design.randomizer.kernel
    used = kernel[1] > 0
    expected = kernel[1][used] * counts.sum()
    assert stats.chisquare(counts[used], expected).pvalue > 1e-6
    assert stats.chisquare(counts[used], kernel[0][used] * counts.sum()).pvalue < 1e-6


def test_a_seed_is_for_tests_and_says_so(design, ledger):
    """Seeded streams repeat, and whatever they write says insecure."""
    one, two = (design.stream(1, name="a", rng=3) for _ in range(2))
    assert one.step(100.0) == two.step(100.0)
    assert "INSECURE" in repr(one)
    assert json.loads(one.snapshot())["content"]["insecure"] is True
    assert one.mark["insecure"] is True
    design.stream(1, ledger, "a", rng=3)
    assert inspection.summary(ledger.path)["streams"][0]["insecure"] is True


# Snapshots -----------------------------------------------------------------------------------------


def test_snapshots_that_are_not_right_are_refused(design, readings):
    """Damaged anywhere, cut, of another design, of a newer version, of another kind, or not bytes."""
    stream = design.stream(1, name="a")
    stream.apply(readings[:50])
    blob = stream.snapshot()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(blob) - 1, 60):
        bad = bytearray(blob)
        bad[at] ^= 1 << int(rng.integers(7))
        if bytes(bad) != blob:
            with pytest.raises(SnapshotError):
                us.Stream.restore(design, bytes(bad))
    document = json.loads(blob)
    for bad in (
        blob[:-20],
        b"",
        b"{}",
        b"[1]",
        json.dumps({**document, "version": 3}).encode(),
        json.dumps({**document, "format": "understudy design"}).encode(),
        "text",
        None,
    ):
        with pytest.raises(SnapshotError):
            us.Stream.restore(design, bad)
    other = us.design(us.Family(room, values=[0, 1]), pseudo=[0, 0.5, 1], leakage=0.2, horizon=50, distortion="mae")
    with pytest.raises(SnapshotError, match="another design"):
        us.Stream.restore(other, blob)


@pytest.mark.long(seconds=3, reason="a design of simulated costs")
def test_other_versions_are_warned_of_where_they_matter(readings, monkeypatch):
    """A Gauss-Markov stream goes on silently; one with other laws warns."""
    t = us.Family(lambda v: us.AutoRegressive(0.5, intercept=float(v), noise=us.Scalar(stats.t(5))), values=[0, 1])
    heavy = us.design(t, leakage=0.3, horizon=5, accuracy=0.5)
    blob = heavy.stream(1).snapshot()
    us.Stream.restore(heavy, blob)
    versions = snapshots.versions()
    monkeypatch.setattr("understudy.stream.snapshot.versions", lambda: {**versions, "scipy": "9.9"})
    with pytest.warns(UnderstudyWarning, match="bit for bit"):
        us.Stream.restore(heavy, blob)


def test_a_snapshot_of_a_stream_with_a_ledger_does_not_pass_it_by(design, ledger):
    """The ledger's state wins: such a snapshot is refused."""
    stream = design.stream(1, ledger, "a")
    with pytest.raises(RollbackError, match="ledger"):
        us.Stream.restore(design, stream.snapshot())


# Bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, "warm", [1.0, 2.0], True, object()])
def test_a_bad_reading_changes_nothing(design, ledger, bad):
    """An infinity, a text, a wrong shape: refused without a trace."""
    stream = design.stream(1, ledger, "a")
    stream.step(105.0)
    before = stream.snapshot()
    with pytest.raises(ReadingError):
        stream.step(bad)
    with pytest.raises(ReadingError):
        stream.apply([104.0, np.inf, 103.0])
    assert stream.snapshot() == before


def test_bad_keys_and_values(design):
    """Keys of a wrong type, naive times, keys that go back, unknown values: clear errors."""
    stream = design.stream(1, name="a")
    for bad in (1.5, "7", True, dt.datetime(2026, 1, 1), np.datetime64("NaT", "s"), 2**70):
        with pytest.raises(ReadingError):
            stream.step(100.0, key=bad)
    stream.step(100.0, key=5)
    with pytest.raises(ReadingError, match="no output is kept"):
        stream.step(100.0, key=5)
    with pytest.raises(ReadingError, match="has none"):
        stream.step(100.0)
    with pytest.raises(ReadingError, match="must grow"):
        stream.apply([1.0, 2.0], keys=[8, 8])
    with pytest.raises(ReadingError, match="each reading needs one"):
        stream.apply([1.0, 2.0], keys=[8])
    with pytest.raises(DesignError):
        stream.step(100.0, key=9, theta="away")
    with pytest.raises(ConfigurationError, match="epoch"):
        design.stream(1, epoch=0)
    with pytest.raises(DesignError, match="no models"):
        us.solve([[0, 1], [1, 0]], leakage=0.2).stream(0)


def test_a_room_with_several_sensors(design, ledger, readings):
    """A second stream of a room needs a word: one draw for all, or separate draws that are charged."""
    first = design.stream(1, ledger, "co2", room="lab")
    with pytest.raises(ConfigurationError, match="joint model"):
        design.stream(1, ledger, "temperature", room="lab")
    shared = design.stream(1, ledger, "temperature", room="lab", share="independent")
    assert played(shared) == played(first)
    assert ledger.spent("lab") == 0.3
    with pytest.raises(LedgerError, match="goes first"):
        shared.new_epoch(1)
    first.new_epoch(1)
    shared.new_epoch(1)
    assert played(shared) == played(first)
    spent = ledger.spent("lab")
    with pytest.warns(UnderstudyWarning, match="separate draws"):
        design.stream(1, ledger, "humidity", room="lab", share="separate")
    assert ledger.spent("lab") == pytest.approx(spent + 0.3)
    other = us.design(us.Family(room, values=[0, 1]), pseudo=[0, 1], leakage=0.2, horizon=50, distortion="mae")
    with pytest.raises(ConfigurationError, match="another randomizer"):
        other.stream(1, ledger, "light", room="lab", share="independent")


# Secrets -------------------------------------------------------------------------------------------


def test_nothing_that_a_run_says_holds_a_secret(design, tmp_path, caplog, capsys):
    """Logs at debug level, texts, errors and the printed ledger, searched for planted values."""
    caplog.set_level(logging.DEBUG)
    secret = 73.18530717958
    family = us.Family(lambda v: room(v), values=[secret, 1.0])
    planted = us.design(family, pseudo=[secret, 41.2384626433], leakage=0.3, horizon=50, distortion="mae")
    ledger = us.Ledger(tmp_path / "a.ledger", rollback_guard=tmp_path)
    stream = planted.stream(secret, ledger, "a")
    said = [repr(stream), str(stream), repr(ledger), str(stream.mark)]
    y = 811.2718281828
    outs = [stream.step(y, key=0), stream.step(y, key=1)]
    for call in (
        lambda: stream.step(y * np.inf, key=2),
        lambda: stream.step([y, y], key=2),
        lambda: stream.step(y, key=1.5),
        lambda: stream.step(y, theta=12.5),
        lambda: us.Stream.restore(planted, stream.snapshot()[:-9]),
        lambda: stream.apply([y, np.inf]),
    ):
        with pytest.raises(us.errors.UnderstudyError) as error:
            call()
        said.append(f"{error.value!r} {error.value}")
    stream.new_epoch(1.0)
    stream.close()
    app(["ledger", "show", str(tmp_path / "a.ledger")], standalone_mode=False)
    app(["ledger", "verify", str(tmp_path / "a.ledger")], standalone_mode=False)
    said += [caplog.text, *capsys.readouterr()]
    text = "\n".join(said)
    assert "stream a begun" in text
    for hidden in ("73.185", "41.238", "811.27", stream._row.secret.hex(), *(f"{out:.4f}" for out in outs)):
        assert hidden not in text
