"""Keys of streams that a ledger stores wrapped with a master key: without it nothing is drawn, and no draw changes."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from stream_helpers import opened
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.errors import ConfigurationError, LedgerDamagedError, LedgerError
from understudy.stream import inspection

ONE, TWO = us.MasterKey(bytes(range(32))), us.MasterKey(bytes(32))
SECRET = np.random.default_rng(7).bytes(32)  # of a stream with rng=7


def test_a_wrapped_ledger_gives_what_a_plain_one_gives(design, readings, tmp_path):
    """Draws, outputs and charges are those of the key; the file does not hold it, and the log neither."""
    outputs = []
    for name, key in (("plain", None), ("wrapped", ONE)):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, key=key) as ledger:
            stream = design.stream(1, ledger, "a", epoch=10, period=60, rng=7)
            outputs.append([*stream.apply(readings[:35]), ledger.spent("a")])
            content = b"".join(path.read_bytes() for path in (tmp_path / name).glob("room.ledger*"))
            assert (SECRET in content) == (key is None)
        with opened(tmp_path / name, key=key) as ledger:
            outputs[-1] += list(us.Stream.open(ledger, design, "a").apply(readings[35:60]))
        assert all(finding.passed for finding in inspection.verify(tmp_path / name / "room.ledger"))
        assert inspection.summary(tmp_path / name / "room.ledger")["streams"][0]["readings"] == 60
    assert outputs[0] == outputs[1]


def test_rewrapping_changes_no_draw(design, readings, tmp_path):
    """Plain, one key, another key, plain again: the stream goes on as if nothing had happened, options and all."""
    lone = design.stream(1, name="a", epoch=5, rng=7)
    out, keys = [], [None, ONE, TWO, None, TWO]
    for k, key in enumerate(keys):
        with opened(tmp_path, key=key) as ledger:
            stream = design.stream(1, ledger, "a", epoch=5, rng=7) if k == 0 else us.Stream.open(ledger, design, "a")
            out += list(stream.apply(readings[12 * k : 12 * k + 6]))
            if k + 1 < len(keys):
                ledger.rewrap(keys[k + 1])
                out += list(stream.apply(readings[12 * k + 6 : 12 * k + 12]))
                assert (SECRET in (tmp_path / "room.ledger").read_bytes()) == (keys[k + 1] is None)
        assert all(finding.passed for finding in inspection.verify(tmp_path / "room.ledger"))
    assert out == list(lone.apply(readings[: len(out)]))
    assert us.Ledger(tmp_path / "room.ledger", rollback_guard=False, key=TWO).spent("a") == lone.spent


def test_the_wrong_key_or_none_is_refused_and_named(design, tmp_path):
    """By its id alone; a ledger whose keys are plain says how to wrap them, and a new one takes the key."""
    with opened(tmp_path, key=ONE) as ledger:
        design.stream(1, ledger, "a")
    with pytest.raises(LedgerError, match=f"{ONE.id}, and none is given"):
        opened(tmp_path)
    with pytest.raises(LedgerError, match=f"{ONE.id}, not {TWO.id}"):
        opened(tmp_path, key=TWO)
    with pytest.raises(ConfigurationError, match="MasterKey"):
        opened(tmp_path, key="master.key")
    with opened(tmp_path, key=ONE) as ledger:
        ledger.rewrap(None)
    with pytest.raises(LedgerError, match="not wrapped"):
        opened(tmp_path, key=ONE)
    opened(tmp_path).close()


def test_keys_that_are_not_as_they_were_written(design, tmp_path):
    """One that was put there plain, or taken from another ledger, is damage or is under another key."""
    path = tmp_path / "room.ledger"
    with opened(tmp_path, key=ONE) as ledger:
        design.stream(1, ledger, "a")
    shutil.copy(path, tmp_path / "copy")
    for change in ("UPDATE streams SET secret = zeroblob(32)", "DELETE FROM meta WHERE name = 'key'"):
        shutil.copy(tmp_path / "copy", path)
        with closing(sqlite3.connect(path)) as db:
            db.execute(change)
            db.commit()
        with pytest.raises(LedgerDamagedError):
            opened(tmp_path, key=ONE)


def test_a_rewrap_that_fails_leaves_the_keys_as_they_were(design, tmp_path, monkeypatch):
    """One transaction; and it does not stand in a group."""
    with opened(tmp_path, key=ONE) as ledger:
        stream = design.stream(1, ledger, "a")
        with monkeypatch.context() as patch:
            patch.setattr(us.Ledger, "_commit", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                ledger.rewrap(TWO)
        stream.step(100.0)
        with ledger.group() as group:
            ticket = group.call(ledger.rewrap, TWO)
        with pytest.raises(LedgerError, match="group"):
            ticket.result()
    with opened(tmp_path, key=ONE) as ledger:
        assert us.Stream.open(ledger, design, "a").count == 1


def test_the_command(design, readings, tmp_path, monkeypatch):
    """`understudy key rewrap`, from a file and the environment."""
    ONE.save(tmp_path / "one.key")
    monkeypatch.setenv("TWO", "understudy-key-1 " + bytes(32).hex())
    path = str(tmp_path / "room.ledger")
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(readings[0])
    first = CliRunner().invoke(app, ["key", "rewrap", path, "--new-key", str(tmp_path / "one.key")])
    assert (first.exit_code, ONE.id in first.output) == (0, True)
    wrong = CliRunner().invoke(app, ["key", "rewrap", path, "--new-key", "env:TWO"])
    assert wrong.exit_code != 0
    again = CliRunner().invoke(
        app, ["key", "rewrap", path, "--old-key", str(tmp_path / "one.key"), "--new-key", "env:TWO"]
    )
    assert (again.exit_code, TWO.id in again.output) == (0, True)
    absent = CliRunner().invoke(app, ["key", "rewrap", str(tmp_path / "no"), "--new-key", "env:TWO"])
    assert absent.exit_code != 0
    assert not (tmp_path / "no").exists()
    with opened(tmp_path, key=TWO) as ledger:
        assert us.Stream.open(ledger, design, "a").count == 1
