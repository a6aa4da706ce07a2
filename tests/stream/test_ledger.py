"""What the ledger keeps and for how long, keys and values, and what its commands say."""

import datetime as dt
import json
import os
import stat
from typing import NamedTuple

import numpy as np
import pytest
import stream_worker as worker
from stream_helpers import FULL, opened, played

import understudy as us
from understudy.cli import app
from understudy.errors import ConfigurationError, LedgerError, ReadingError, SnapshotError
from understudy.stream import inspection
from understudy.stream.snapshot import dump, from_plain, load, to_plain

DAY = 86_400


@pytest.fixture
def ledger(tmp_path):
    with opened(tmp_path) as one:
        yield one


def test_old_outputs_are_forgotten_in_bounded_disk(design, tmp_path):
    """At most 1.1 times `retain` outputs stay, the file stops growing, and what is older is refused."""
    path = tmp_path / "room.ledger"
    with us.Ledger(path, rollback_guard=tmp_path, retain=500) as ledger:
        stream = design.stream(1, ledger, "a")
        sizes = []
        for start in range(0, 12_000, 100):
            out = stream.apply(np.full(100, FULL), keys=range(start, start + 100))
            kept = ledger.rows("SELECT count(*), max(key) - min(key) + 1 FROM outputs")[0]
            assert kept[0] == kept[1] <= 550
            assert kept[0] >= min(start + 100, 500)
            sizes.append(ledger.rows("PRAGMA page_count")[0][0])
        assert len(set(sizes[20:])) == 1
        assert stream.step(0.0, key=11_950) == out[50]
        with pytest.raises(ReadingError, match="older than what the ledger retains"):
            stream.step(0.0, key=11_000)
        with pytest.raises(ReadingError):
            stream.apply(np.full(2000, FULL), keys=range(11_000, 13_000))
        assert stream.count == 12_000
        assert os.path.getsize(f"{path}-wal") < 8_000_000


@pytest.mark.long(seconds=2, reason="sizes show only after thousands of outputs")
def test_what_a_stream_takes_on_disk(design, tmp_path):
    """Below 40 bytes an output, and 250 an epoch with its charge: the figures of the guide."""
    with us.Ledger(tmp_path / "a", rollback_guard=False) as ledger:
        stream = design.stream(1, ledger, "a", epoch=1_000)
        stream.apply(np.full(1_000, FULL))
        page = ledger.rows("PRAGMA page_size")[0][0]
        empty = ledger.rows("PRAGMA page_count")[0][0] * page
        stream.apply(np.full(99_000, FULL))
        outputs = ledger.rows("PRAGMA page_count")[0][0] * page - empty
        assert 20 < outputs / 99_000 < 40
        before = ledger.rows("PRAGMA page_count")[0][0] * page
        for _ in range(1_000):
            stream.new_epoch(1, marginal="design")
        assert (ledger.rows("PRAGMA page_count")[0][0] * page - before) / 1_000 < 250


def test_a_batch_larger_than_what_is_retained(design, tmp_path):
    """Is recorded, and its older part is forgotten at once."""
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=1) as ledger:
        stream = design.stream(1, ledger, "a")
        out = stream.apply(np.full(50, 100.0), keys=range(50))
        assert stream.step(0.0, key=49) == out[49]
        with pytest.raises(ReadingError):
            stream.step(0.0, key=48)
        stream.step(100.0, key=50)
        assert ledger.rows("SELECT key FROM outputs") == [(50,)]


def test_outputs_come_back_as_they_were(tmp_path):
    """Several channels, missing ones, negative zeros: bit for bit, from the ledger and in the export."""
    a = us.GaussMarkov(np.diag([0.9, 0.5]), np.eye(2), np.eye(2), np.eye(2), mean0=np.zeros(2), cov0=np.eye(2))
    b = us.GaussMarkov(np.diag([0.5, 0.5]), np.eye(2), np.eye(2), np.eye(2), mean0=np.ones(2), cov0=np.eye(2))
    pair = us.design(us.Family({0: a, 1: b}, values=[0, 1]), leakage=0.3, horizon=5, distortion="mse")
    Y = us.sample(a, 40, rng=1)
    Y[7] = np.nan
    with us.Ledger(tmp_path / "a", rollback_guard=False) as ledger:
        stream = pair.stream(0, ledger, "two")
        out = stream.apply(Y, keys=range(40))
        again = stream.apply(Y * 0.0, keys=range(40))
        assert again.tobytes() == out.tobytes()
        assert np.array_equal(stream.step(Y[3], key=3), out[3])
    records = list(inspection.released_outputs(tmp_path / "a", "two"))
    mark = {"disguised": True, "design": pair.fingerprint, "resolution": list(pair.resolution)}
    assert records[7] == {"key": 7, "y": [None, None], **mark}
    assert np.array_equal([r["y"] for r in records if r["key"] != 7], np.delete(out, 7, axis=0))


def test_a_parameter_that_was_announced_is_not_forgotten(design, tmp_path):
    """`becomes` is recorded: after a restart without a reading between, readings are still those of the new value."""
    path = tmp_path / "a"
    stream = design.stream(1, us.Ledger(path, rollback_guard=tmp_path), "a")
    stream.step(100.0)
    stream.becomes(0)
    stream.close()
    again = us.Stream.open(us.Ledger(path, rollback_guard=tmp_path), design, "a")
    assert again._now.position.source == 0
    again.close()


def test_a_parameter_that_changes_before_the_first_reading_starts_its_own_model(design):
    """Nothing has been read, so nothing is carried over: the stream is as if begun with it."""

    def start(people):
        return us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0 + 50.0 * people, cov0=1.0 + people)

    own = us.design(us.Family(start, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")
    Y = us.sample(start(0), 30, rng=2)
    stream = own.stream(1)
    stream.becomes(0)
    stream.new_epoch(0)
    expected = us.disguise(Y, start(0), start(own.pseudo[played(stream)]), resolution=own.resolution)
    assert np.array_equal(stream.apply(Y), expected)


def test_a_stream_goes_on_under_its_own_terms_only(design, ledger):
    """Another length of epochs or another room than it was begun with is refused, and not silently passed over."""
    design.stream(1, ledger, "a", room="lab", epoch=10)
    design.stream(1, ledger, "a")
    design.stream(1, ledger, "a", room="lab", epoch=10)
    with pytest.raises(ConfigurationError, match="another length"):
        design.stream(1, ledger, "a", epoch=11)
    with pytest.raises(ConfigurationError, match="belongs to the room"):
        design.stream(1, ledger, "a", room="hall")
    with pytest.raises(ConfigurationError, match="texts"):
        design.stream(1, ledger, "")
    with pytest.raises(ConfigurationError, match="texts"):
        design.stream(1, ledger, "b", room=3)


def test_keys_are_exact_to_the_nanosecond():
    """Times of numpy and pandas keep their nanoseconds; what 64 bits cannot hold is refused and does not wrap round."""
    from understudy.stream.cadence import as_key, number_keys

    def as_keys(keys, count):
        return number_keys("", 0, keys, count)

    class Stamp(dt.datetime):  # as pandas has it
        nanosecond = 7

    assert as_key(Stamp(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)) == ("time", 10**9 + 7)
    assert as_key(np.datetime64("1970-01-01T00:00:01.000000009")) == ("time", 10**9 + 9)
    times = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:01"], dtype="datetime64[s]")
    assert as_keys(times, 2) == as_keys(list(times), 2)
    assert as_keys(np.arange(5), 5) == as_keys(range(5), 5) == ("number", [0, 1, 2, 3, 4])
    for bad in (np.datetime64("3000-01-01"), np.timedelta64(5, "s"), np.array([True, False])):
        with pytest.raises(ReadingError):
            as_keys(np.atleast_1d(bad), np.size(bad))
    with pytest.raises(ReadingError, match="0 keys for 1 reading;"):
        as_keys([], 1)
    with pytest.raises(ReadingError, match="beyond 64 bits"):
        as_keys([5, 2**63], 2)
    with pytest.raises(ReadingError, match="one kind"):
        as_keys([5, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], 2)


def test_a_clock_that_jumps_back_is_told_and_nothing_is_released(design, ledger):
    """A time before the last one is refused, unless it is that of a reading that has been here."""
    stream = design.stream(1, ledger, "a", epoch=dt.timedelta(hours=1), period=dt.timedelta(hours=1))
    at = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    first = stream.step(100.0, key=at)
    stream.step(101.0, key=at + dt.timedelta(hours=2))
    with pytest.raises(ReadingError, match="the clock went back"):
        stream.step(102.0, key=at + dt.timedelta(hours=1))
    assert stream.step(999.0, key=at) == first
    assert (stream.count, stream.epoch) == (3, 1)  # the hour between them is a missing reading


class Point(NamedTuple):
    x: float
    y: float


def test_states_come_back_as_they_were():
    """Tuples, named ones of a loaded module, arrays of any order and of no axis; what would change is refused."""
    square = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    state = (1, 0.1, -0.0, None, Point(1.0, float("inf")), np.array(2.5), square, np.array([True]), np.arange(3))
    back = load(dump(state))
    assert type(back[4]) is Point
    assert back[4] == state[4]
    assert np.signbit(back[2])
    assert back[5].shape == ()
    assert back[6].flags.f_contiguous
    for one, other in zip(back[5:], state[5:], strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert load(dump((1, float("nan"), 10**400)))[2] == 10**400
    local = NamedTuple("local", [("x", float)])  # noqa: UP014  # a type that no module has
    for bad in (np.float32(1.0), np.zeros(2, np.float32), np.zeros(2, complex), {"a": 1}, b"x", local(1.0)):
        with pytest.raises(SnapshotError):
            to_plain(bad)
    for bad in ({"tuple": "os:system", "parts": []}, {"tuple": "nowhere:Point", "parts": []}, {"array": "AA=="}):
        with pytest.raises(SnapshotError):
            from_plain(bad)


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_only_the_owner_may_read_it(design, tmp_path):
    """Every file beside the ledger is 0600, whatever the umask; one that others can read is refused."""
    old = os.umask(0)
    try:
        ledger = us.Ledger(tmp_path / "a", rollback_guard=tmp_path / "w")
        design.stream(1, ledger, "a").step(100.0)
    finally:
        os.umask(old)
    names = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in os.listdir(tmp_path) if name != "w"}
    assert names == {"a": 0o600, "a-wal": 0o600, "a-shm": 0o600, "a.lock": 0o600}
    seen = [f for f in (tmp_path / "w").rglob("*") if f.is_file()]
    assert [stat.S_IMODE(f.stat().st_mode) for f in seen] == [0o600]
    os.chmod(tmp_path / "a-wal", 0o644)
    assert not inspection.verify(tmp_path / "a")[0].passed
    os.chmod(tmp_path / "a-wal", 0o600)
    ledger.close()
    os.chmod(tmp_path / "a", 0o640)
    with pytest.raises(LedgerError, match=r"can be read by others \(mode 640\)"):
        us.Ledger(tmp_path / "a", rollback_guard=False)
    assert not inspection.verify(tmp_path / "a")[0].passed


def test_a_ledger_is_closed_by_whoever_holds_it_last(design, tmp_path):
    """Closed twice, by the stream, by `with`, or by nobody: the file is free again, and a closed one says so."""
    for _ in range(3):
        ledger = us.Ledger(tmp_path / "a", rollback_guard=False)
        stream = design.stream(1, ledger, "a")
        del ledger, stream
    with us.Ledger(tmp_path / "a", rollback_guard=False) as ledger, design.stream(1, ledger, "a") as stream:
        stream.step(100.0)
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        stream.step(100.0)
    with pytest.raises(LedgerError, match="is closed"):
        ledger.spent("a")


def test_a_path_that_came_to_nothing_is_free_again(design, tmp_path, monkeypatch):
    """Errors in `Stream.open` and `Design.stream` give the lock back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "a"
    other = us.design(us.Family(worker.room, values=[0, 1]), leakage=0.2, horizon=50, distortion="mae")
    with design.stream(1, path, "a") as stream:
        stream.step(100.0)
    for call in (
        lambda: us.Stream.open(path, design, "nobody"),
        lambda: us.Stream.open(path, other, "a"),
        lambda: us.Stream.open(path, design, "a", theta="nobody"),
        lambda: us.Stream.open(path, design, "a", rollback="shrug"),
        lambda: other.stream(1, path, "a"),
        lambda: design.stream("nobody", path, "b"),
        lambda: design.stream(1, path, "a", epoch=5),
    ):
        with pytest.raises(us.errors.UnderstudyError):
            call()
    with us.Stream.open(path, design, "a") as again:
        assert again.count == 1


def test_show_verify_and_export(design, tmp_path, capsys):
    """What a ledger says of itself, as tables and as JSON, while it is in use; outputs carry their mark."""
    path = tmp_path / "room.ledger"
    with us.Ledger(path, rollback_guard=False) as ledger:
        ledger.limit("lab", total=5.0, amount=2.0, period=DAY)
        stream = design.stream(1, ledger, "co2 [red]", room="lab", rng=5)
        outs = stream.apply([100.0, None, 101.0], keys=[4, 5, 9])
        app(["ledger", "show", str(path)], standalone_mode=False)
        shown = " ".join(capsys.readouterr().out.split())
        assert "co2 [red]" in shown.replace("│ ", "")
        assert "insecure" in shown
        app(["ledger", "show", str(path), "--json"], standalone_mode=False)
        told = json.loads(capsys.readouterr().out)
        app(["ledger", "verify", str(path)], standalone_mode=False)
        assert "FAIL" not in capsys.readouterr().out
    assert told["rooms"] == [
        {
            "room": "lab",
            "charged_nats": 0.3,
            "budget": {"total": 5.0, "amount": 2.0, "period_seconds": DAY, "when_spent": "stop"},
        }
    ]
    assert told["streams"][0]["readings"] == told["streams"][0]["outputs_kept"] == 3
    app(["ledger", "export", str(path), "co2 [red]"], standalone_mode=False)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    steps = list(design.resolution)
    mark = {"disguised": True, "design": design.fingerprint, "resolution": steps, "insecure": True}
    assert lines == [{"key": k, "y": None if k == 5 else y, **mark} for k, y in zip((4, 5, 9), outs, strict=True)]
    app(["ledger", "export", str(path), "co2 [red]", "--out", str(tmp_path / "out")], standalone_mode=False)
    assert len((tmp_path / "out").read_text().splitlines()) == 3
    for arguments in (["show", "none"], ["verify", "none"], ["export", str(path), "none"]):
        with pytest.raises(LedgerError):
            app(["ledger", *arguments], standalone_mode=False)
    left = sorted(os.listdir(tmp_path))
    assert left == ["out", "room.ledger", "room.ledger.lock"]


def test_a_ledger_needs_posix_and_says_so_at_once(tmp_path, monkeypatch):
    """Without fcntl nothing is opened or made; the error names the rule."""
    from understudy.stream import ledger_file

    monkeypatch.setattr(ledger_file, "fcntl", None)
    with pytest.raises(ConfigurationError, match="needs a POSIX system"):
        us.Ledger(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_the_former_name_of_the_rollback_guard_is_understood(design, tmp_path):
    """A ledger that was begun with witness= goes on with rollback_guard=, and the folder still tells."""
    with us.Ledger(tmp_path / "a", witness=tmp_path / "w") as ledger:
        design.stream(1, ledger, "a").step(FULL)
    old = (tmp_path / "a").read_bytes()
    with us.Ledger(tmp_path / "a", rollback_guard=tmp_path / "w") as ledger:
        us.Stream.open(ledger, design, "a").step(FULL)
    (tmp_path / "a").write_bytes(old)
    with us.Ledger(tmp_path / "a", rollback_guard=tmp_path / "w") as ledger, pytest.raises(us.errors.RollbackError):
        us.Stream.open(ledger, design, "a")
