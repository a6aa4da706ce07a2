"""Killed at any point, a stream goes on as if nothing had happened: real processes, real disk, SIGKILL."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import stream_worker as worker
from stream_helpers import released_as

import understudy as us
from understudy.stream import inspection

TOTAL = 4000


def start(path, tmp_path, batch, epoch):
    here = Path(worker.__file__)
    command = [sys.executable, str(here), str(path), str(tmp_path / "guard"), str(batch), str(TOTAL), str(epoch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def fork_and_kill(path, tmp_path, batch, epoch, rng, kills):
    """Run the worker in forks of this process (no import to wait for) and kill each after a random moment."""
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                worker.main(str(path), str(tmp_path / "guard"), batch, TOTAL, epoch)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def check(path, tmp_path, epoch):
    """One draw an epoch, each output once and unchanged, all equal to the uninterrupted run."""
    released = {}
    for line in Path(f"{path}.released").read_text(encoding="ascii").splitlines():
        parts = line.split()
        if len(parts) != 2 or not parts[1].endswith(("p+0", "p+1", "p+2", "p+3", "p+4", "p+5", "p+6", "p+7", "p+8")):
            continue  # a line cut by the kill
        key, value = int(parts[0]), float.fromhex(parts[1])
        assert released.setdefault(key, value) == value, "an output was changed"
    db = sqlite3.connect(path)
    stored = dict(db.execute("SELECT key, value FROM outputs").fetchall())
    draws = [draw for (draw,) in db.execute("SELECT draw FROM epochs ORDER BY epoch")]
    charges = db.execute("SELECT count(*) FROM charges WHERE kind = 'draw'").fetchone()[0]
    readings = db.execute("SELECT count FROM states").fetchone()[0]
    streams = db.execute("SELECT count(*) FROM streams").fetchone()[0]
    db.close()
    assert streams == 1
    assert sorted(stored) == list(range(TOTAL)), "a reading was lost or counted twice"
    assert readings == TOTAL
    assert len(draws) == charges == (TOTAL // epoch if epoch else 1), "a draw was made twice"
    assert all(stored[key] == value for key, value in released.items()), "a released output is not the recorded one"
    design = worker.design()
    path_of = [design.pseudo[draws[k // epoch if epoch else 0]] for k in range(TOTAL)]
    Y = us.sample(worker.room(1), TOTAL, rng=9)
    family = us.Family(worker.room, values=[0, 0.5, 1])
    target = family.along(path_of) if epoch else worker.room(path_of[0])
    expected = us.disguise(Y, worker.room(1), target)
    found = np.array([stored[k] for k in range(TOTAL)])
    assert released_as(found, expected, design.resolution, 1e-9)
    assert epoch or np.array_equal(found, us.disguise(Y, worker.room(1), target, resolution=design.resolution))
    assert all(finding.passed for finding in inspection.verify(path))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    ("batch", "epoch", "kills"),
    [
        (1, 0, 12),
        (5, 500, 12),
        pytest.param(1, 0, 120, marks=pytest.mark.long(seconds=11, reason="120 kills")),
        pytest.param(7, 0, 100, marks=pytest.mark.long(seconds=9, reason="100 kills")),
        pytest.param(5, 500, 100, marks=pytest.mark.long(seconds=9, reason="100 kills")),
    ],
)
def test_killed_many_times(tmp_path, batch, epoch, kills):
    """Kills at random moments (320 in the long suite), from before the draw to the last output; then a whole run."""
    path = tmp_path / "room.ledger"
    fork_and_kill(path, tmp_path, batch, epoch, random.Random(batch + epoch), kills)  # noqa: S311  # moments of kills
    last = start(path, tmp_path, 500, epoch)
    output, _ = last.communicate(timeout=120)
    assert last.returncode == 0
    assert "done" in output
    check(path, tmp_path, epoch)


@pytest.mark.long(seconds=4, reason="four interpreters, one after the other")
def test_a_process_of_its_own_killed_while_it_writes(tmp_path):
    """The same with an interpreter of its own, killed in the middle of its work, and another that is told to wait."""
    path = tmp_path / "room.ledger"
    for _ in range(3):
        process = start(path, tmp_path, 1, 0)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(us.errors.LedgerBusyError, match=f"process {process.pid}"):
            us.Ledger(path, rollback_guard=tmp_path / "guard")
        time.sleep(0.1)
        process.kill()
        process.communicate()
    last = start(path, tmp_path, 500, 0)
    last.communicate(timeout=120)
    check(path, tmp_path, 0)
