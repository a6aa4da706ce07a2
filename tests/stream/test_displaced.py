"""A ledger that is deleted, replaced or written by others while a stream runs: it stops, and nothing is released."""

import os
import re
import shutil
import sqlite3

import numpy as np
import pytest
from stream_helpers import FULL, in_child, opened, whole

import understudy as us
from understudy.errors import ConfigurationError, LedgerBusyError, LedgerDamagedError, LedgerError
from understudy.stream import inspection
from understudy.stream import ledger_file as files

posix = pytest.mark.skipif(os.name != "posix", reason="files in use cannot be deleted elsewhere")


def delete(path):
    """The file alone."""
    os.unlink(path)


def move(path):
    os.rename(path, f"{path}.elsewhere")


def replace_by_a_copy(path):
    """The copy is the same to the byte, and another file."""
    os.replace(shutil.copy(path, f"{path}.copy"), path)


def replace_by_a_folder(path):
    os.unlink(path)
    os.mkdir(path)


def link(path):
    os.link(path, f"{path}.second")


def delete_log(path):
    os.unlink(f"{path}-wal")


def replace_log(path):
    os.replace(shutil.copy(f"{path}-wal", f"{path}.copy"), f"{path}-wal")


def delete_index(path):
    os.unlink(f"{path}-shm")


HARMS = [delete, move, replace_by_a_copy, replace_by_a_folder, link, delete_log, replace_log, delete_index]


@posix
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("harm", HARMS)
def test_a_ledger_that_is_deleted_or_replaced_stops_its_stream(design, readings, tmp_path, harm, steps):
    """Before the first reading or between two: nothing more is released by any call, and the error quotes nothing."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        for k in range(steps):
            stream.step(float(readings[k]), key=k)
        harm(ledger.path)
        calls = [
            lambda: stream.step(float(readings[steps]), key=steps),
            lambda: stream.apply(readings[steps : steps + 3], keys=range(steps, steps + 3)),
            lambda: stream.new_epoch(1),
            lambda: stream.becomes(0),
            lambda: stream.run("file").apply(readings[steps : steps + 3], keys=range(steps, steps + 3)),
            lambda: ledger.limit("a", total=1.0),
            lambda: design.stream(1, ledger, "b"),
        ]
        for call in calls:
            with pytest.raises(LedgerError, match=r"was (deleted|replaced|given)") as caught:
                call()
            assert not re.search(r"\d\d", str(caught.value).replace("room.ledger", ""))
            assert not isinstance(caught.value, LedgerDamagedError)


@posix
@pytest.mark.parametrize("harm", [delete, move, replace_by_a_copy, replace_by_a_folder, link])
def test_a_ledger_that_goes_while_the_commit_waits_for_the_disk(design, tmp_path, monkeypatch, harm):
    """The last look is after the commit: what was recorded in a file that is gone is not released either."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        looks, find_displacement = [], files.find_displacement

        def look(parts):
            looks.append(find_displacement(parts))
            if len(looks) == 1:
                harm(ledger.path)
            return looks[-1]

        monkeypatch.setattr(files, "find_displacement", look)
        with pytest.raises(LedgerError, match=r"was (deleted|replaced|given)"):
            stream.step(100.0, key=0)
        assert looks[0] is None


@posix
def test_an_untouched_ledger_goes_on_while_it_is_looked_at(design, readings, tmp_path):
    """The twin: readers, a fork, a reader's own connection and a renamed neighbour are no reason to stop."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        out = []
        for k in range(40):
            out.append(stream.step(float(readings[k]), key=k))
            if k % 10 == 3:
                assert all(f.passed for f in inspection.verify(ledger.path))
                other = sqlite3.connect(ledger.path)
                other.execute("SELECT count(*) FROM outputs").fetchone()
                other.close()
                in_child(lambda: "looked")
                (tmp_path / "neighbour").write_text("")
                os.replace(tmp_path / "neighbour", tmp_path / f"neighbour{k}")
        assert np.array_equal(out, whole(design, stream, readings[:40]))


@posix
@pytest.mark.parametrize("steps", [0, 4])
def test_a_ledger_that_was_put_back_is_opened_again(design, readings, tmp_path, steps):
    """The open one stays of no use; a new one goes on to the bit, and knows what was released."""
    ledger = opened(tmp_path)
    stream = design.stream(1, ledger, "a")
    out = [stream.step(float(readings[k]), key=k) for k in range(steps)]
    os.rename(ledger.path, tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="deleted or moved"):
        stream.step(float(readings[steps]), key=steps)
    os.rename(tmp_path / "elsewhere", ledger.path)
    with pytest.raises(LedgerError, match="deleted or moved"):
        stream.step(float(readings[steps]), key=steps)
    ledger.close()
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        assert stream.count == steps
        out += [stream.step(float(readings[k]), key=k) for k in range(steps, 20)]
        assert np.array_equal(out, whole(design, stream, readings[:20]))
    assert all(f.passed for f in inspection.verify(ledger.path))


@posix
@pytest.mark.parametrize("harm", [delete_log, delete_index])
def test_a_log_that_was_deleted_loses_nothing_when_the_ledger_is_closed(design, readings, tmp_path, harm):
    """SQLite still has it open: closing brings it into the ledger, and a new one goes on to the bit."""
    ledger = opened(tmp_path)
    stream = design.stream(1, ledger, "a")
    out = [stream.step(float(readings[k]), key=k) for k in range(7)]
    harm(ledger.path)
    with pytest.raises(LedgerError, match="deleted or moved"):
        stream.step(float(readings[7]), key=7)
    ledger.close()
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        assert stream.count == 7
        out += [stream.step(float(readings[k]), key=k) for k in range(7, 20)]
        assert np.array_equal(out, whole(design, stream, readings[:20]))


@posix
def test_a_ledger_without_this_check_would_release_unrecorded(design, tmp_path, monkeypatch):
    """The twin that must fail: without a look at the file, a reading is released that no ledger has."""
    monkeypatch.setattr(files, "find_displacement", lambda parts: None)
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        stream.step(100.0, key=0)
        os.unlink(ledger.path)
        assert stream.step(101.0, key=1)
    with pytest.raises(LedgerDamagedError):
        opened(tmp_path)


# A second writer ---------------------------------------------------------------------------------------------


def second_writer(tmp_path, design, readings, keys):
    """Another process that has deleted the lock and goes on with the same stream."""

    def work():
        os.unlink(tmp_path / "room.ledger.lock")
        with opened(tmp_path) as ledger:
            stream = us.Stream.open(ledger, design, "a")
            return " ".join(stream.step(float(readings[k]), key=k).hex() for k in keys) or "opened"

    return in_child(work)


@posix
@pytest.mark.parametrize("keys", [range(3, 6), range(100, 103)], ids=["the same keys", "other keys"])
@pytest.mark.parametrize("first", [0, 3])
def test_a_second_writer_is_told_what_it_is(design, readings, tmp_path, keys, first):
    """Whoever comes second stops, with no word of damage; the record is that of one stream, undisturbed."""
    ledger = opened(tmp_path)
    stream = design.stream(1, ledger, "a")
    out = [stream.step(float(readings[k]), key=k) for k in range(first)]
    out += [float.fromhex(y) for y in second_writer(tmp_path, design, readings, keys).split()]
    calls = [
        lambda: stream.step(float(readings[3]), key=3),
        lambda: stream.step(float(readings[3]), key=1000),
        lambda: stream.new_epoch(0),
        lambda: stream.becomes(0),
        lambda: ledger.limit("a", total=1.0),
        lambda: design.stream(1, ledger, "b"),
        lambda: stream.run("file").apply(readings[:3], keys=range(200, 203)),
    ]
    for call in calls:
        with pytest.raises(LedgerBusyError, match=r"another process has written to room\.ledger") as caught:
            call()
        assert "damaged" not in str(caught.value)
    ledger.close()
    assert all(f.passed for f in inspection.verify(ledger.path))
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        given = [*range(first), *keys]
        assert (stream.count, stream.epoch, ledger.spent("a")) == (len(given), 0, 0.3)
        assert np.array_equal(out, whole(design, stream, readings[given]))
        assert [stream.step(0.0, key=k) for k in given] == out


@posix
def test_a_second_process_that_only_looks_stops_nobody(design, readings, tmp_path):
    """The twin: it has opened the ledger without its lock, and has written nothing."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        out = [stream.step(float(readings[0]), key=0)]
        assert second_writer(tmp_path, design, readings, []) == "opened"
        out.append(stream.step(float(readings[1]), key=1))
        assert np.array_equal(out, whole(design, stream, readings[:2]))


def test_another_program_that_writes_the_ledger_is_noticed(design, tmp_path):
    """A change by any other connection, such as that of a shell, and not what our own errors leave behind."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        stream.step(100.0, key=0)
        pages = ledger.rows("PRAGMA page_count")[0][0]
        ledger.rows(f"PRAGMA max_page_count={pages}")
        with pytest.raises(LedgerError, match="disk is full"):
            stream.apply(np.full(500, FULL), keys=range(1, 501))
        ledger.rows("PRAGMA max_page_count=100000")
        stream.step(100.0, key=1)
        other = sqlite3.connect(ledger.path)
        other.execute("UPDATE states SET count = count + 1")
        other.commit()
        other.close()
        for _ in range(2):
            with pytest.raises(LedgerBusyError, match="another process has written"):
                stream.step(100.0, key=2)
    with opened(tmp_path) as ledger, pytest.raises(LedgerDamagedError, match="a state"):
        us.Stream.open(ledger, design, "a")


@posix
def test_without_this_check_a_second_writer_would_change_the_record(design, readings, tmp_path, monkeypatch):
    """The twin that must fail: the stream of the first one goes on as if the readings of the second had not been."""
    monkeypatch.setattr(us.Ledger, "_check_sole_writer", lambda self: None)
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        second_writer(tmp_path, design, readings, range(3))
        stream.step(float(readings[3]), key=1000)
        assert stream.count == 1
        assert len(list(inspection.released_outputs(ledger.path, "a"))) == 4  # of which one is known to the filter


# Names -------------------------------------------------------------------------------------------------------

BAD = ["lab\n", "lab\x1b[2J", "\u202elab", "lab\udc80", "lab\x00", "lab\u200b", "\x7f", ""]


@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_names_with_control_characters_are_refused(design, tmp_path, bad):
    """Of streams and of rooms, before anything is drawn; the message is printable."""
    with opened(tmp_path) as ledger:
        calls = [
            lambda: design.stream(1, ledger, bad),
            lambda: design.stream(1, ledger, "a", room=bad),
            lambda: ledger.limit(bad, total=1.0),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match=r"must be (a text of printable|texts)") as caught:
                call()
            assert str(caught.value).isprintable()
        assert ledger.names() == []


@pytest.mark.parametrize("good", ["lab", "Büro 3", "会议室", "hall/left #2", "a" * 200])
def test_names_in_any_alphabet_are_taken(design, tmp_path, good):
    """The twin: whatever can be printed."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, good).step(100.0)
        ledger.limit(good, total=1.0)
        assert ledger.names() == [good]


def test_a_name_that_an_older_version_took_can_still_be_opened(design, tmp_path, monkeypatch):
    """Only new streams are refused; the list of streams prints no escape."""
    from typer.testing import CliRunner

    from understudy.cli import app
    from understudy.randomizer import design as playing
    from understudy.stream import ledger as module

    with opened(tmp_path) as ledger:
        with monkeypatch.context() as old:
            for where in (module, playing):
                old.setattr(where, "check_name", lambda what, name: None)
            design.stream(1, ledger, "lab\x1b[2J").step(100.0)
        assert us.Stream.open(ledger, design, "lab\x1b[2J").count == 1
    said = CliRunner().invoke(app, ["ledger", "show", str(ledger.path)])
    assert said.exit_code == 0
    assert "\x1b" not in said.output
    assert "lab\\x1b" in said.output
