"""Older copies of a ledger: refused, or charged on request."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from stream_helpers import SUFFIXES, along, copied, in_child, opened, played, whole

import understudy as us
from understudy.errors import (
    BudgetError,
    ConfigurationError,
    LedgerDamagedError,
    LedgerError,
    ReadingError,
    RollbackError,
    UnderstudyWarning,
)
from understudy.stream import inspection

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, modes and limits")


@pytest.mark.parametrize("with_wal", [True, False])
def test_an_older_copy_is_refused(design, readings, tmp_path, with_wal):
    """Copied while in use, with its -wal or without, and put back later: refused until the newest is back."""
    path, backup, newest = tmp_path / "room.ledger", tmp_path / "backup", tmp_path / "newest"
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        stream.apply(readings[:50])
        if not with_wal:
            ledger.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        copied(path, backup)
        stream.apply(readings[50:60])
    copied(path, newest)
    copied(backup, path)
    for _ in range(2):
        with opened(tmp_path) as ledger:
            with pytest.raises(RollbackError, match="older than what this stream has released"):
                us.Stream.open(ledger, design, "a")
            with pytest.raises(RollbackError):
                design.stream(1, ledger, "a")
    copied(newest, path)
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        out = stream.apply(readings[60:])
        assert np.array_equal(out, whole(design, stream, readings)[60:])


def test_a_lost_write_ahead_log_is_a_rollback(design, readings, tmp_path):
    """Killed, and the -wal deleted or damaged before the restart: noticed, or nothing is lost."""
    path = tmp_path / "room.ledger"

    def work():
        stream = design.stream(1, opened(tmp_path), "a")
        stream.apply(readings[:20], keys=range(20))
        for k in range(20, 30):
            stream.step(float(readings[k]), key=k)
        os.kill(os.getpid(), signal.SIGKILL)

    in_child(work)
    files = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    wal = files["-wal"]
    rng = np.random.default_rng(1)

    def tried(changed):
        for suffix in SUFFIXES:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(files[""])
        path.chmod(0o600)
        if changed is not None:
            Path(f"{path}-wal").write_bytes(changed)
            Path(f"{path}-wal").chmod(0o600)
        with opened(tmp_path) as ledger:
            stream = us.Stream.open(ledger, design, "a")
            assert stream.count == 30

    tried(wal)
    shutil.copytree(tmp_path / "guard", tmp_path / "seen")
    refused = 0
    for at in rng.integers(0, len(wal), 40):
        changed = bytearray(wal)
        changed[at] ^= 0x40
        try:
            tried(bytes(changed))
        except LedgerError:
            refused += 1
    assert refused > 20
    for changed in (None, wal[: len(wal) // 2], b""):
        with pytest.raises(LedgerError):
            tried(changed)
    for suffix in SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    Path(f"{path}-wal").write_bytes(wal)
    Path(f"{path}-wal").chmod(0o600)
    with pytest.raises(LedgerDamagedError, match="only the part ending in -wal"):
        opened(tmp_path)


@posix
@pytest.mark.parametrize("guard", [True, False])
def test_an_older_file_under_a_newer_log(design, readings, tmp_path, guard):
    """Half of a ledger restored: SQLite makes one of both, which does not fit together, guard or not."""
    path, old = tmp_path / "room.ledger", tmp_path / "old"

    def work():
        ledger = us.Ledger(path, rollback_guard=tmp_path / "w" if guard else False)
        stream = design.stream(1, ledger, "a", epoch=30)
        stream.apply(readings[:20])
        ledger.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, old)
        stream.apply(readings[20:1000])
        ledger.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        stream.apply(readings[1000:1009])
        os.kill(os.getpid(), signal.SIGKILL)

    in_child(work)
    shutil.copy(old, path)
    with pytest.raises(LedgerError), us.Ledger(path, rollback_guard=tmp_path / "w" if guard else False) as ledger:
        us.Stream.open(ledger, design, "a")


def test_a_rollback_on_request_draws_again_and_charges(design, readings, tmp_path):
    """What was charged since is booked again, lost readings count as missing, and their keys are used up.

    Neither the old copy nor the newest can be brought back afterwards.
    """
    path, backup, newest = tmp_path / "room.ledger", tmp_path / "backup", tmp_path / "newest"
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        first = stream.apply(readings[:50], keys=range(50))
        draws = [played(stream)]
    copied(path, backup)
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        stream.apply(readings[50:60], keys=range(50, 60))
        stream.new_epoch(1)
        stream.apply(readings[60:70], keys=range(60, 70))
        spent = ledger.spent("a")
    copied(path, newest)
    copied(backup, path)
    with opened(tmp_path) as ledger:
        again = us.Stream.open(ledger, design, "a", rollback="charge", theta=1)
        assert ledger.spent("a") == pytest.approx(spent + design.leakage_of_draw(None), abs=2e-6)
        assert (again.count, again.epoch) == (70, 1)
        assert again.step(0.0, key=49) == first[49]
        with pytest.raises(ReadingError):
            again.step(float(readings[55]), key=55)
        out = again.apply(readings[70:100], keys=range(70, 100))
        draws.append(played(again))
    Y = readings[:100].copy()
    Y[50:70] = np.nan
    expected = along(design, Y, [draws[0]] * 70 + [draws[1]] * 30)
    assert np.allclose(out, expected[70:], rtol=0, atol=1e-9)
    assert all(f.passed for f in inspection.verify(path))
    for old in (backup, newest):
        copied(old, path)
        with opened(tmp_path) as ledger, pytest.raises(RollbackError):
            us.Stream.open(ledger, design, "a")


def test_a_rollback_that_the_budget_forbids_changes_nothing(design, readings, tmp_path):
    """Refused, and refused again."""
    path, backup = tmp_path / "room.ledger", tmp_path / "backup"
    with opened(tmp_path) as ledger:
        ledger.limit("a", total=0.3)
        design.stream(1, ledger, "a").apply(readings[:50])
    copied(path, backup)
    with opened(tmp_path) as ledger:
        us.Stream.open(ledger, design, "a").apply(readings[50:60])
    copied(backup, path)
    for _ in range(2):
        with opened(tmp_path) as ledger, pytest.raises(BudgetError):
            us.Stream.open(ledger, design, "a", rollback="charge")


def test_a_stream_that_an_older_copy_has_never_heard_of(design, readings, tmp_path):
    """Its draw would be made a second time: the copy is refused as a whole, or drawn for again as a new stream."""
    path, backup = tmp_path / "room.ledger", tmp_path / "backup"
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
    copied(path, backup)
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "b").step(100.0)
    copied(backup, path)
    with pytest.raises(RollbackError, match="which is not in it"):
        opened(tmp_path)
    with opened(tmp_path, rollback="charge") as ledger:
        again = design.stream(1, ledger, "b")
        assert again._row.id == 3
        assert ledger.spent("b") == 0.3
        again.step(100.0)
    with opened(tmp_path) as ledger:
        assert ledger.names() == ["a", "b"]


def test_rooms_whose_leader_was_rolled_back(design, readings, tmp_path):
    """A stream that shares a draw follows the new one of its leader, which goes first."""
    path, backup = tmp_path / "room.ledger", tmp_path / "backup"
    with opened(tmp_path) as ledger:
        one = design.stream(1, ledger, "one", room="lab")
        two = design.stream(1, ledger, "two", room="lab", share="independent")
        copied(path, backup)
        one.apply(readings[:10])
        two.apply(readings[:10])
        spent = ledger.spent("lab")
    copied(backup, path)
    with opened(tmp_path, rollback="charge") as ledger:
        with pytest.raises(LedgerError, match="goes first"):
            us.Stream.open(ledger, design, "two")
        one = us.Stream.open(ledger, design, "one")
        two = us.Stream.open(ledger, design, "two")
        assert played(one) == played(two)
        assert (one.count, two.count, one.epoch, two.epoch) == (10, 10, 1, 1)
        assert ledger.spent("lab") == pytest.approx(spent + design.leakage_of_draw(None), abs=2e-6)


def test_a_ledger_that_was_begun_anew_is_a_new_one(design, tmp_path):
    """Deleted together with its log: nothing can tell, a new draw is made and charged, under another identity."""
    with opened(tmp_path) as ledger:
        design.stream(1, ledger, "a").step(100.0)
        old = ledger.id
    for suffix in (*SUFFIXES, ".lock"):
        (tmp_path / f"room.ledger{suffix}").unlink(missing_ok=True)
    with opened(tmp_path) as ledger:
        assert ledger.id != old
        assert design.stream(1, ledger, "a").spent == 0.3
    assert len(os.listdir(tmp_path / "guard")) == 2


def test_without_a_rollback_guard_an_older_copy_goes_unnoticed(design, readings, tmp_path):
    """The twin of the tests above: it is the rollback guard that notices, and without one nothing does."""
    path, backup = tmp_path / "room.ledger", tmp_path / "backup"
    with us.Ledger(path, rollback_guard=False) as ledger:
        design.stream(1, ledger, "a").apply(readings[:50])
    copied(path, backup)
    with us.Ledger(path, rollback_guard=False) as ledger:
        us.Stream.open(ledger, design, "a").apply(readings[50:60])
    copied(backup, path)
    with us.Ledger(path, rollback_guard=False) as ledger:
        assert us.Stream.open(ledger, design, "a").count == 50


@posix
def test_a_rollback_guard_that_cannot_be_kept_is_told(design, tmp_path, monkeypatch):
    """A folder that cannot be made is refused if it was asked for, and warned of if it is the usual one."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="folder of the rollback guard cannot be made"):
        us.Ledger(tmp_path / "a", rollback_guard=tmp_path / "file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(UnderstudyWarning, match="would not be noticed"):
        us.Ledger(tmp_path / "a").close()
    with us.Ledger(tmp_path / "a", rollback_guard=tmp_path / "w") as ledger:
        stream = design.stream(1, ledger, "a")

        def refused(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("understudy.stream.rollback_guard._pwrite", refused)
        with pytest.warns(UnderstudyWarning, match="rollback guard cannot be written"):
            stream.step(100.0)
        stream.step(100.0)  # said once
        assert stream.count == 2
