"""The pipe is killed and started again: every reading has one value, that of a run that nothing disturbed."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pipe_driver as driver
import pytest

import understudy as us

SOAK = os.environ.get("UNDERSTUDY_SOAK") == "1"
RUNNER = Path(driver.__file__).with_name("pipe_runner.py")


def _records(path: Path) -> tuple[list[tuple], list[tuple]]:
    """Draws and outputs of a ledger."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        draws = db.execute("SELECT room, tick, generation, source, draw, held, micronats FROM decisions ORDER BY 1, 2")
        outputs = db.execute("SELECT room, key, sequence, content FROM outbox ORDER BY 1, 2")
        return draws.fetchall(), outputs.fetchall()


def _faults(folder: Path, given: list[driver.Reading], log: driver.Log) -> list[str]:
    """What is wrong with the outputs of a run with kills, beside a run without."""
    undisturbed = driver.run(folder, driver.options(folder, "calm.db"), "".join(r.line + "\n" for r in given))
    assert undisturbed.returncode == 0, undisturbed.stderr
    calm = driver.Log()
    for line in undisturbed.stdout.splitlines():
        calm.add(line)
    found = []
    if log.outputs.keys() != {(r.room, r.time) for r in given}:
        found.append("a reading has no output")
    if any(len(set(lines)) > 1 for lines in log.outputs.values()):
        found.append("a reading has two values")
    if any(lines[:1] != calm.outputs.get(key) for key, lines in log.outputs.items()):
        found.append("a value is not that of the undisturbed run")
    ours, theirs = (_records(folder / name) for name in ("room.db", "calm.db"))
    if ours[0] != theirs[0]:
        found.append("draws or charges are not those of the undisturbed run")
    if len(ours[0]) != len({row[:2] for row in ours[0]}):
        found.append("an epoch has two draws")
    if ours[1] != theirs[1]:
        found.append("the recorded outputs are not those of the undisturbed run")
    return found


def _epochs(given: list[driver.Reading]) -> int:
    return len({(r.room, r.time // (60 * driver.MINUTE)) for r in given})


def test_three_kills(tmp_path):
    """A few hundred readings through three kills."""
    driver.prepare(tmp_path)
    given = driver.readings(600, 4)
    log = driver.feed(tmp_path, given, 3)
    assert log.kills == 3
    assert not _faults(tmp_path, given, log)
    assert len(_records(tmp_path / "room.db")[0]) == _epochs(given)


@pytest.mark.gateway(seconds=12, reason="each kill costs the start of a process")
@pytest.mark.parametrize(("way", "faulty"), [("right", False), ("early", True), ("forgetful", True)])
def test_the_check_finds_what_is_done_wrong(tmp_path, way, faulty):
    """Killed before a write, the program as it is passes; one that writes first, or forgets its outputs, does not."""
    driver.prepare(tmp_path)
    given = driver.readings(100, 4)
    log = driver.feed(tmp_path, given, 6, command=(sys.executable, str(RUNNER), way))
    assert bool(_faults(tmp_path, given, log)) == faulty


@pytest.mark.gateway(seconds=25, reason="each kill costs the start of a process")
def test_many_kills(tmp_path):
    """Thousands of readings through many kills: one value each, one draw an epoch, the charge of an undisturbed run.

    `UNDERSTUDY_SOAK=1` (`make soak`) makes it 20,000 readings and 50 kills.
    """
    kills, count = (50, 20_000) if SOAK else (15, 6_000)
    driver.prepare(tmp_path)
    given = driver.readings(count, 20)
    log = driver.feed(tmp_path, given, kills)
    assert log.kills == kills
    assert not _faults(tmp_path, given, log)
    assert len(_records(tmp_path / "room.db")[0]) == _epochs(given)
    key = us.MasterKey.read(tmp_path / "master.key")
    spent = []
    for name in ("room.db", "calm.db"):
        with us.Ledger(tmp_path / name, rollback_guard=False) as ledger:
            fleet = us.Fleet(driver.design(), ledger, "pipe", key=key, period=60, epoch=dt.timedelta(hours=1))
            spent.append([fleet.spent(name) for name in fleet.rooms])
    assert spent[0] == spent[1]
