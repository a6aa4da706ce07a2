"""Full disks, read-only ones, two processes, two threads: a clear message, and nothing released unrecorded."""

import gc
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import stream_worker as worker
from stream_helpers import FULL, in_child, opened, whole

import understudy as us
from understudy.errors import ConfigurationError, LedgerBusyError, LedgerDamagedError, LedgerError
from understudy.stream import inspection

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, modes and limits")


def test_a_full_database_records_and_releases_nothing(design, readings, tmp_path):
    """`PRAGMA max_page_count`: a clear error, the state before, and with room again the stream goes on to the bit."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        out = [stream.apply(readings[:50])]
        pages = ledger.rows("PRAGMA page_count")[0][0]
        ledger.rows(f"PRAGMA max_page_count={pages + 1}")
        failures, at = [], 50
        while at < 2000 and len(failures) < 3:
            try:
                out.append(stream.apply(readings[at : at + 10]))
                at += 10
            except LedgerError as error:
                failures.append(str(error))
            assert stream.count == at
        assert (
            failures == ["room.ledger: the disk is full (SQLITE_FULL); nothing was recorded and nothing released"] * 3
        )

        def begin_more():
            for i in range(100):
                design.stream(1, ledger, f"another{i}")

        with pytest.raises(LedgerError, match="disk is full"):
            begin_more()
        assert ledger.rows("SELECT count(*) FROM outputs") == [(at,)]
        ledger.rows("PRAGMA max_page_count=100000")
        out.append(stream.apply(readings[at:]))
        assert np.array_equal(np.concatenate(out), whole(design, stream, readings))
    assert all(f.passed for f in inspection.verify(tmp_path / "room.ledger"))


@posix
def test_a_limit_of_file_sizes_records_and_releases_nothing(design, readings, tmp_path):
    """RLIMIT_FSIZE, in a process of its own: the same, and the next process goes on to the bit."""

    def work():
        with opened(tmp_path) as ledger:
            stream = design.stream(1, ledger, "a")
            out = stream.apply(readings[:20], keys=range(20)).tolist()
            size = os.path.getsize(f"{ledger.path}-wal")
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40_000, hard))
            at = 20
            while at < 2000:
                try:
                    out += stream.apply(readings[at : at + 10], keys=range(at, at + 10)).tolist()
                except LedgerError as error:
                    if "the disk refuses" not in str(error):
                        raise
                    break
                at += 10
            for _ in range(2):
                try:
                    stream.step(float(readings[at]), key=at)
                    return "a reading was released"
                except LedgerError:
                    pass
            if stream.count != at:
                return "a reading was counted"
            if stream.step(0.0, key=7) != out[7]:
                return "a released output cannot be told again"
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            out += stream.apply(readings[at:1000], keys=range(at, 1000)).tolist()
            return " ".join(float(y).hex() for y in out)

    found = [float.fromhex(word) for word in in_child(work).split()]
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        assert stream.count == 1000
        found += stream.apply(readings[1000:], keys=range(1000, 2000)).tolist()
        assert np.array_equal(found, whole(design, stream, readings))


@posix
@pytest.mark.parametrize("what", ["file", "folder", "new"])
def test_a_file_or_folder_that_cannot_be_written_is_refused(design, tmp_path, what):
    """As a user without the right (root has every right, so a fork gives it up): refused when opened, one line."""
    folder = tmp_path / "there"
    folder.mkdir()
    path = folder / "room.ledger"
    if what != "new":
        with us.Ledger(path, rollback_guard=False) as ledger:
            design.stream(1, ledger, "a").step(100.0)
    if os.getuid() == 0:
        for name in (folder, *folder.iterdir()):
            os.chown(name, 65534, 65534)
        for parent in folder.parents:
            if parent != Path("/") and parent.stat().st_mode & 0o005 != 0o005:
                os.chmod(parent, parent.stat().st_mode | 0o005)
    if what == "file":
        path.chmod(0o400)
    else:
        folder.chmod(0o500)

    def work():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        us.Ledger(path, rollback_guard=False).close()

    said = in_child(work)
    folder.chmod(0o700)
    assert said.startswith("LedgerError: room.ledger")
    assert ("cannot be written" if what == "file" else "cannot be") in said
    if what == "folder":  # looking is allowed
        folder.chmod(0o500)
        assert inspection.summary(path)["streams"][0]["readings"] == 1
        folder.chmod(0o700)
    if what == "new":
        assert not path.exists()


def test_a_file_that_becomes_read_only_while_in_use(design, tmp_path):
    """`PRAGMA query_only`, the nearest thing: an error, the same state, and then on."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        ledger.rows("PRAGMA query_only=ON")
        for call in (lambda: stream.step(100.0), lambda: stream.new_epoch(1), lambda: ledger.limit("a", total=1.0)):
            with pytest.raises(LedgerError, match=r"cannot be written"):
                call()
        ledger.rows("PRAGMA query_only=OFF")
        assert (stream.count, stream.epoch, ledger.spent("a")) == (0, 0, 0.3)
        stream.step(100.0)


def test_paths_that_cannot_hold_a_ledger(tmp_path):
    """A folder, a missing folder, a hard link, an empty file, half of a ledger: each with its own line."""
    with pytest.raises(LedgerError, match="is not a file"):
        us.Ledger(tmp_path, rollback_guard=False)
    with pytest.raises(LedgerError, match="cannot be locked: No such file"):
        us.Ledger(tmp_path / "no" / "room.ledger", rollback_guard=False)
    (tmp_path / "empty").touch(mode=0o600)
    with pytest.raises(LedgerDamagedError, match="which is empty"):
        us.Ledger(tmp_path / "empty", rollback_guard=False)
    (tmp_path / "half-wal").touch(mode=0o600)
    with pytest.raises(LedgerDamagedError, match="-wal is there"):
        us.Ledger(tmp_path / "half", rollback_guard=False)
    us.Ledger(tmp_path / "one", rollback_guard=False).close()
    os.link(tmp_path / "one", tmp_path / "two")
    with pytest.raises(LedgerError, match="hard link"):
        us.Ledger(tmp_path / "two", rollback_guard=False)
    with pytest.raises(ConfigurationError, match="retain"):
        us.Ledger(tmp_path / "x", retain=0)
    with pytest.raises(ConfigurationError, match="guard"):
        us.Ledger(tmp_path / "y", rollback_guard=True)


@posix
def test_two_processes_and_two_names(design, tmp_path):
    """The second one is told who has it; a symbolic link is the same ledger; a file of a dead process is free."""
    ledger = opened(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "room.ledger")
    said = in_child(lambda: us.Ledger(tmp_path / "link", rollback_guard=False).close())
    assert said.startswith(f"LedgerBusyError: room.ledger is in use by process {os.getpid()}; one process at a time")
    with pytest.raises(LedgerBusyError, match="in this process already"):
        us.Ledger(tmp_path / "link", rollback_guard=False)
    ledger.close()
    assert in_child(lambda: us.Ledger(tmp_path / "link", rollback_guard=False).names() or "free") == "free"
    us.Ledger(tmp_path / "link", rollback_guard=False).close()


@posix
def test_a_fork_cannot_use_the_ledger_of_its_parent(design, readings, tmp_path):
    """It is told so, its exit does the parent no harm, and it does not keep the lock when the parent closes."""
    ledger = opened(tmp_path)
    stream = design.stream(1, ledger, "a")
    first = stream.apply(readings[:10])

    def work():
        try:
            stream.step(1.0)
        except LedgerError as error:
            ledger.close()
            gc.collect()
            return str(error)

    assert "opened before a fork" in in_child(work)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    rest = stream.apply(readings[10:])
    assert np.array_equal(np.concatenate([first, rest]), whole(design, stream, readings))
    ledger.close()
    opened(tmp_path).close()  # although the child lives
    os.write(writer, b"x")
    os.waitpid(child, 0)
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_two_threads_on_one_stream_and_two_streams_on_one_ledger(design, tmp_path):
    """No reading is lost or counted twice, and each stream is that of one thread after another."""
    with opened(tmp_path) as ledger:
        one, two = (design.stream(1, ledger, name) for name in ("one", "two"))
        errors = []

        def work(stream, n):
            try:
                for _ in range(n):
                    stream.step(FULL)
                    stream.apply([FULL, FULL])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(stream, 40)) for stream in (one, one, two, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        for stream in (one, two):
            assert stream.count == 240
            found = [record["y"] for record in inspection.released_outputs(ledger.path, stream.name)]
            assert np.array_equal(found, whole(design, stream, np.full(240, FULL)))


def test_two_objects_of_one_stream_are_one_stream(design, readings, tmp_path):
    """Whatever goes through one is known to the other: readings, epochs, changes of the parameter."""
    with opened(tmp_path) as ledger:
        streams = [design.stream(1, ledger, "a"), us.Stream.open(ledger, design, "a")]
        out = [streams[k % 2].step(float(readings[k]), key=k) for k in range(40)]
        assert np.array_equal(out, whole(design, streams[0], readings[:40]))
        assert streams[0].step(0.0, key=39) == out[39]
        streams[0].new_epoch(0)
        assert streams[1].epoch == 1
        streams[1].becomes(1)
        streams[0].step(100.0, key=40)
        assert streams[1].count == 41
    assert all(f.passed for f in inspection.verify(tmp_path / "room.ledger"))


@posix
def test_killed_while_the_ledger_is_made(tmp_path):
    """There is a whole ledger or none: what a killed process left half made is cleared away."""
    for name in ("room.ledger.new", "room.ledger.new-journal"):
        (tmp_path / name).write_bytes(b"half")
    opened(tmp_path).close()
    assert not list(tmp_path.glob("*.new*"))


@pytest.mark.long(seconds=3, reason="three processes, one after the other")
def test_the_example_of_a_service(tmp_path):
    """A process that is started again under the same name finds its stream, through the usual state folder."""
    code = (
        "import sys, stream_worker as w, understudy as us\n"
        "with w.design().stream(1, sys.argv[1], 'a') as stream:\n"
        "    print(stream.step(float(sys.argv[2]), key=int(sys.argv[3])).hex())"
    )
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(worker.__file__).parent), environment.get("PYTHONPATH", "")])
    said = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "a"), y, key],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout
        for y, key in (("100", "1"), ("101", "2"), ("102", "1"))
    ]  # fmt: skip
    assert said[0] == said[2] != said[1]
