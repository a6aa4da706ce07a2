"""Damaged files: refused or harmless, never another draw or output."""

import os
import shutil
import sqlite3
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from stream_helpers import SUFFIXES

import understudy as us
from understudy.cli import main
from understudy.errors import LedgerDamagedError, LedgerError, ReadingError
from understudy.stream import inspection


def damaged_one(design, tmp_path, Y):
    """A ledger with two streams of three epochs each, and what is true of it."""
    path = tmp_path / "good.ledger"
    with us.Ledger(path, rollback_guard=False) as ledger:
        ledger.limit("a", total=100.0, amount=50.0, period=86_400)
        facts = {}
        for name in ("a", "b"):
            stream = design.stream(1, ledger, name, epoch=40)
            outs = stream.apply(Y[:100], keys=range(100))
            facts[name] = outs, tuple(stream._now.epoch), stream._row.secret
        budget = ledger._budget("a")
    return path, facts, budget


def told_by(path, design, facts, budget, Y, following):
    """Whether a ledger says what is true, or is refused; anything else fails. True if refused."""
    refused = False
    try:
        with us.Ledger(path, rollback_guard=False) as ledger:
            assert ledger.names() == ["a", "b"]
            assert ledger._budget("a") == budget
            for name, (outs, epoch, secret) in facts.items():
                stream = us.Stream.open(ledger, design, name)
                assert (tuple(stream._now.epoch), stream._row.secret) == (epoch, secret)
                for key in range(0, 100, 9):
                    try:
                        assert stream.step(0.0, key=key) == outs[key]
                    except ReadingError:
                        refused = True  # lost, but not changed
                assert np.array_equal(stream.apply(Y[100:110], keys=range(100, 110)), following[name])
    except LedgerError:
        refused = True
    return refused


@pytest.mark.long(seconds=3, reason="opens a damaged ledger hundreds of times")
def test_flipped_bytes_anywhere_are_refused_or_harmless(design, readings, tmp_path):
    """Over the whole file: never another draw, key, budget or output, and never a second draw for a stream."""
    path, facts, budget = damaged_one(design, tmp_path, readings)
    content = path.read_bytes()
    bad = tmp_path / "bad.ledger"

    def tried(data):
        for suffix in (*SUFFIXES, ".lock"):
            Path(f"{bad}{suffix}").unlink(missing_ok=True)
        bad.write_bytes(data)
        bad.chmod(0o600)
        return told_by(bad, design, facts, budget, readings, following)

    shutil.copy(path, bad)
    with us.Ledger(bad, rollback_guard=False) as ledger:
        following = {n: us.Stream.open(ledger, design, n).apply(readings[100:110], keys=range(100, 110)) for n in facts}
    assert not tried(content)
    rng = np.random.default_rng(0)
    positions = sorted({*rng.integers(0, len(content), 250).tolist(), *range(0, 112, 7)})
    refused = 0
    for at in positions:
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        refused += tried(bytes(changed))
    for start in rng.integers(0, len(content) - 64, 60):
        changed = bytearray(content)
        changed[start : start + 64] = rng.bytes(64)
        refused += tried(bytes(changed))
    assert refused > 20  # most of a small file is empty
    # every stored output is covered: a flip in any of their bytes is noticed
    value = struct.pack(">d", facts["a"][0][27])
    at = content.index(value)
    for i in range(8):
        changed = bytearray(content)
        changed[at + i] ^= 0x10
        bad.write_bytes(bytes(changed))
        with us.Ledger(bad, rollback_guard=False) as ledger, pytest.raises(LedgerDamagedError, match="an output"):
            us.Stream.open(ledger, design, "a").step(0.0, key=27)
        assert not all(f.passed for f in inspection.verify(bad))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_refused(design, readings, tmp_path, share):
    """Wherever it is cut, page or not: damaged, in our own words."""
    path, *_ = damaged_one(design, tmp_path, readings)
    size = path.stat().st_size
    os.truncate(path, int(size * share))

    def go_on():
        with us.Ledger(path, rollback_guard=False) as ledger:
            for name in ("a", "b"):
                us.Stream.open(ledger, design, name).apply(readings[:110], keys=range(110))

    with pytest.raises(LedgerError):
        go_on()


def test_other_files_are_no_ledgers(design, tmp_path):
    """A text, a database of somebody else's, a version that is not known yet."""
    path = tmp_path / "room.ledger"
    path.write_text("not a database " * 500)
    path.chmod(0o600)
    for call in (lambda: us.Ledger(path, rollback_guard=False), lambda: inspection.summary(path)):
        with pytest.raises(LedgerDamagedError, match="SQLITE_NOTADB"):
            call()
    assert not inspection.verify(path)[-1].passed
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE streams(x)")
    db.close()
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(LedgerDamagedError, match="no ledger"):
        us.Ledger(path, rollback_guard=False)
    assert path.read_bytes() == before
    path.unlink()
    us.Ledger(path, rollback_guard=False).close()
    from understudy.stream.ledger_file import digest

    db = sqlite3.connect(path)
    identity = db.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]
    db.execute("UPDATE meta SET value = '5' WHERE name = 'schema'")
    db.execute("UPDATE meta SET value = ? WHERE name = 'digest'", (digest("5", identity),))
    db.commit()
    db.close()
    for call in (lambda: us.Ledger(path, rollback_guard=False), lambda: inspection.summary(path)):
        with pytest.raises(LedgerError, match="is of version 5; this understudy knows versions up to 4"):
            call()


TAMPERED = {
    "a draw": "UPDATE epochs SET draw = 1 - draw WHERE epoch = 2",
    "a lost draw": "DELETE FROM epochs WHERE stream = 1 AND epoch = 2",
    "a lost draw between": "DELETE FROM epochs WHERE stream = 1 AND epoch = 1",
    "a state": "UPDATE states SET source = 1 - source",
    "a lost state": "DELETE FROM states WHERE stream = 2",
    "a stream": "UPDATE streams SET room = 'elsewhere'",
    "a lost stream": "DELETE FROM streams WHERE id = 2",
    "a lost charge": "DELETE FROM charges WHERE id = 2",
    "a smaller charge": "UPDATE charges SET micronats = 1 WHERE id = 2",
    "an earlier charge": "UPDATE charges SET at = 5 WHERE id = 2",
    "a lost budget": "DELETE FROM budgets",
    "a larger budget": "UPDATE budgets SET total = 1000000000000",
    "another identity": "UPDATE meta SET value = 'x' || substr(value, 2) WHERE name = 'id'",
    "another table": "CREATE TABLE more(x)",
}


@pytest.mark.parametrize("what", TAMPERED)
def test_rows_that_are_not_what_was_written(design, readings, tmp_path, what, capsys):
    """Each is noticed when the stream goes on at the latest, and by `understudy ledger verify`, which leaves with 1."""
    path, *_ = damaged_one(design, tmp_path, readings)
    db = sqlite3.connect(path)
    db.execute(TAMPERED[what])
    db.commit()
    db.close()

    def go_on():
        with us.Ledger(path, rollback_guard=False) as ledger:
            for name in ("a", "b"):
                us.Stream.open(ledger, design, name).new_epoch(1)

    with pytest.raises(LedgerDamagedError, match="nothing is released"):
        go_on()
    assert status("ledger", "verify", str(path)) == 1
    assert "FAIL" in capsys.readouterr().out


def status(*arguments):
    """The exit status of a command."""
    old, sys.argv = sys.argv, ["understudy", *arguments]
    try:
        main()
    except SystemExit as left:
        return left.code or 0
    finally:
        sys.argv = old
    return 0


def test_commands_on_a_damaged_file_leave_with_status_1(design, readings, tmp_path, capsys):
    """`show`, `verify` and `export`: one line, no traceback, no content."""
    path, facts, _ = damaged_one(design, tmp_path, readings)
    assert status("ledger", "verify", str(path)) == 0
    content = bytearray(path.read_bytes())
    at = bytes(content).index(struct.pack(">d", facts["a"][0][27]))
    content[at] ^= 0x10
    path.write_bytes(bytes(content))
    assert status("ledger", "export", str(path), "a") == 1
    assert status("ledger", "verify", str(path)) == 1
    path.write_bytes(b"\0" * 5000)
    capsys.readouterr()
    for command in ("show", "export"):
        assert status("ledger", command, str(path), *["a"] * (command == "export")) == 1
        said = capsys.readouterr()
        assert said.err.startswith("understudy: ")
        assert said.err.count("\n") == 1
    assert status("ledger", "verify", str(path)) == 1


def test_a_text_that_is_none_any_more_is_not_quoted(design, readings, tmp_path):
    """SQLite's own error quotes the text that it cannot decode, which is the state of the filter; ours does not."""
    path, *_ = damaged_one(design, tmp_path, readings)
    content = path.read_bytes()
    with us.Ledger(path, rollback_guard=False) as ledger:
        text = ledger.rows("SELECT state FROM states WHERE stream = 1")[0][0]
    content = path.read_bytes()
    path.write_bytes(content.replace(text.encode(), text[:3].encode() + b"\xff\xfe" + text[5:].encode()))
    with us.Ledger(path, rollback_guard=False) as ledger, pytest.raises(LedgerDamagedError) as error:
        us.Stream.open(ledger, design, "a")
    assert text[6:12] not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None
