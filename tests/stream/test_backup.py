"""`understudy ledger backup`: a private, whole copy of one moment, or none."""

import json
import os
import sqlite3
import stat
import threading

import numpy as np
import pytest
from stream_helpers import in_child, opened, whole
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.errors import LedgerDamagedError, LedgerError, RollbackError
from understudy.stream import inspection

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, modes and links")


def entries(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "guard")


@posix
def test_a_copy_while_another_process_writes(design, readings, tmp_path):
    """Each copy is of one moment: verified, a beginning of what was released, and gone on from to the bit."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with opened(tmp_path) as ledger:
                stream = design.stream(1, ledger, "a")
                for k in range(100_000):
                    stream.step(float(readings[k % 2000]), key=k)
                    if k == 20:
                        os.write(writer, b"x")
                    if os.getppid() == 1 or (tmp_path / "stop").exists():
                        break
        finally:
            os._exit(0)
    os.read(reader, 1)
    counts = []
    for k in range(8):
        assert all(f.passed for f in inspection.backup_ledger(tmp_path / "room.ledger", tmp_path / f"copy{k}"))
        counts.append(inspection.summary(tmp_path / f"copy{k}")["streams"][0]["readings"])
    (tmp_path / "stop").touch()
    os.waitpid(child, 0)
    for descriptor in (reader, writer):
        os.close(descriptor)
    assert counts == sorted(counts)
    assert counts[0] > 20
    assert counts[0] < counts[-1]
    with us.Ledger(tmp_path / "copy7", rollback_guard=False) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        given = readings[np.arange(counts[-1] + 10) % 2000]
        out = [stream.step(0.0, key=k) for k in range(counts[-1])]
        out += [stream.step(float(given[k]), key=k) for k in range(counts[-1], counts[-1] + 10)]
        assert np.array_equal(out, whole(design, stream, given))


def test_a_copy_while_a_thread_of_this_process_writes(design, readings, tmp_path):
    """The stream goes on undisturbed, and is not told that another one has written."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        out, errors, done = [], [], threading.Event()

        def work():
            try:
                while not done.is_set() or len(out) < 200:
                    out.append(stream.step(float(readings[len(out) % 2000]), key=len(out)))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        for k in range(5):
            inspection.backup_ledger(ledger.path, tmp_path / f"copy{k}")
        done.set()
        thread.join()
        assert errors == []
        assert np.array_equal(out, whole(design, stream, readings[np.arange(len(out)) % 2000]))


@posix
def test_a_copy_is_private_from_its_first_moment(design, tmp_path, monkeypatch):
    """Whatever the umask says: mode 600, one name, nothing left beside it; also of a ledger that nobody has open."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    modes, verify = [], inspection.verify

    def look(path):
        modes.append(stat.S_IMODE(os.stat(path).st_mode))
        return verify(path)

    monkeypatch.setattr(inspection, "verify", look)
    before = os.umask(0)
    try:
        inspection.backup_ledger(tmp_path / "room.ledger", tmp_path / "copy")
    finally:
        os.umask(before)
    found = os.lstat(tmp_path / "copy")
    assert (stat.S_IMODE(found.st_mode), found.st_nlink, modes) == (0o600, 1, [0o600])
    assert entries(tmp_path) == ["copy", "room.ledger", "room.ledger.lock"]


@posix
@pytest.mark.parametrize("what", ["file", "folder", "link", "dangling link", "the ledger", "its log", "no folder"])
def test_a_target_that_is_there_is_refused(design, tmp_path, what):
    """Nothing is replaced, followed or left behind."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    copy, other = tmp_path / "copy", tmp_path / "other"
    other.write_text("mine")
    if what == "file":
        copy.write_text("mine")
    elif what == "folder":
        copy.mkdir()
    elif what == "link":
        copy.symlink_to(other)
    elif what == "dangling link":
        copy.symlink_to(tmp_path / "nowhere")
    elif what == "the ledger":
        copy = tmp_path / "room.ledger"
    elif what == "its log":
        copy = tmp_path / "room.ledger-wal"
    else:
        copy = tmp_path / "no" / "copy"
    before = entries(tmp_path)
    with pytest.raises(LedgerError, match=r"exists already|part of the ledger|cannot be made"):
        inspection.backup_ledger(tmp_path / "room.ledger", copy)
    assert entries(tmp_path) == before
    assert other.read_text() == "mine"
    assert all(f.passed for f in inspection.verify(tmp_path / "room.ledger"))


@posix
def test_a_target_that_appears_while_the_copy_is_made_is_not_replaced(design, tmp_path, monkeypatch):
    """The name is given only if nobody has it."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    verify = inspection.verify

    def slow(path):
        (tmp_path / "copy").write_text("mine")
        return verify(path)

    monkeypatch.setattr(inspection, "verify", slow)
    with pytest.raises(LedgerError, match="copy cannot be made: File exists"):
        inspection.backup_ledger(tmp_path / "room.ledger", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "mine"
    assert entries(tmp_path) == ["copy", "room.ledger", "room.ledger.lock"]


@pytest.mark.parametrize("closes", [False, True])
def test_a_ledger_that_is_opened_while_it_is_copied_is_copied_again(design, tmp_path, monkeypatch, closes):
    """One at rest is read without locks: if it was written meanwhile, the copy could be of two moments."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    copy, writers = inspection._copy, []

    def slow(*given):
        copy(*given)
        writers.append(opened(tmp_path))
        us.Stream.open(writers[0], design, "a").step(101.0)
        if closes:
            writers[0].close()

    with monkeypatch.context() as patch:
        patch.setattr(inspection, "_copy", slow)
        with pytest.raises(LedgerError, match="copy it again"):
            inspection.backup_ledger(ledger.path, tmp_path / "copy")
    assert not list(tmp_path.glob("*copy*"))
    inspection.backup_ledger(ledger.path, tmp_path / "copy")
    writers[0].close()
    assert inspection.summary(tmp_path / "copy")["streams"][0]["readings"] == 2


def test_a_damaged_ledger_is_not_copied(design, tmp_path):
    """A copy that cannot be gone on from is none; the error quotes no row."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    with sqlite3.connect(ledger.path) as db:
        db.execute("UPDATE epochs SET draw = 1 - draw")
    db.close()
    with pytest.raises(LedgerDamagedError, match="what was copied"):
        inspection.backup_ledger(ledger.path, tmp_path / "copy")
    with pytest.raises(LedgerError, match="does not exist"):
        inspection.backup_ledger(tmp_path / "nothing", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@posix
def test_a_copy_opens_when_the_original_is_gone(design, readings, tmp_path):
    """With the same rollback guard: as far as the copy goes it is gone on from, and one that is behind is refused."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        out = [stream.step(float(readings[k]), key=k) for k in range(5)]
        inspection.backup_ledger(ledger.path, tmp_path / "new")
        newest = os.path.join(tmp_path, "new")
        inspection.backup_ledger(ledger.path, tmp_path / "old")
    os.unlink(ledger.path)
    with us.Ledger(newest, rollback_guard=tmp_path / "guard") as ledger:
        stream = us.Stream.open(ledger, design, "a")
        out += [stream.step(float(readings[k]), key=k) for k in range(5, 10)]
        assert np.array_equal(out, whole(design, stream, readings[:10]))
    with us.Ledger(tmp_path / "old", rollback_guard=tmp_path / "guard") as ledger:
        with pytest.raises(RollbackError, match="older than what this stream has released"):
            us.Stream.open(ledger, design, "a")
        assert us.Stream.open(ledger, design, "a", rollback="charge").epoch == 1


@posix
def test_a_copy_of_what_a_killed_process_left(design, readings, tmp_path):
    """The log that it left is part of the copy."""

    def work():
        stream = design.stream(1, opened(tmp_path), "a")
        stream.apply(readings[:50], keys=range(50))
        os._exit(0)

    in_child(work)
    assert (tmp_path / "room.ledger-wal").stat().st_size > 0
    inspection.backup_ledger(tmp_path / "room.ledger", tmp_path / "copy")
    assert inspection.summary(tmp_path / "copy")["streams"][0]["readings"] == 50


def test_the_command_says_what_the_copy_is(design, tmp_path):
    """For people and as JSON; a target that is there is status 1, in one line."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
        told = CliRunner().invoke(app, ["ledger", "backup", ledger.path, str(tmp_path / "copy")])
        assert (told.exit_code, "knows the draws" in told.output, "guard" in told.output) == (0, True, True)
        told = CliRunner().invoke(app, ["ledger", "backup", ledger.path, str(tmp_path / "two"), "--json"])
        assert json.loads(told.output)["streams"] == 1
        told = CliRunner().invoke(app, ["ledger", "backup", ledger.path, str(tmp_path / "copy")])
        assert told.exit_code == 1
    assert all(f.passed for f in inspection.verify(tmp_path / "two"))


@posix
@pytest.mark.parametrize("how", ["itself", "symbolic link", "hard link", "its log"])
def test_outputs_are_not_written_over_the_ledger(design, tmp_path, how):
    """`ledger export --out` to the ledger, by whatever name: status 1, and the ledger is as it was."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
        out = tmp_path / "out"
        if how == "itself":
            out = tmp_path / "room.ledger"
        elif how == "symbolic link":
            out.symlink_to(tmp_path / "room.ledger")
        elif how == "hard link":
            os.link(tmp_path / "room.ledger", out)
        else:
            out = tmp_path / "room.ledger-wal"
        told = CliRunner().invoke(app, ["ledger", "export", ledger.path, "a", "--out", str(out)])
        assert told.exit_code == 1
    assert all(f.passed for f in inspection.verify(tmp_path / "room.ledger"))
    assert inspection.summary(tmp_path / "room.ledger")["streams"][0]["readings"] == 1
