"""A program that feeds `understudy pipe` as a collector does: it resends what has no output, whatever was killed.

The pipe runs as a process of its own, which is killed at random moments. The driver keeps every output line that came
whole, and begins the next process with the first line that has none.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import understudy as us

MINUTE, BEGIN = 60 * 10**9, 1_700_000_040 * 10**9 // (60 * 10**9) * (60 * 10**9)
COMMAND = (sys.executable, "-m", "understudy")
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OPENBLAS_NUM_THREADS": "1"}


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def design():
    return us.design(us.Family(room, values=[0, 1]), pseudo=[0, 0.5, 1], leakage=0.3, horizon=50, distortion="mae")


@dataclass(frozen=True)
class Reading:
    """A line, and what it says."""

    room: str
    time: int
    y: float
    theta: int | None

    @property
    def line(self) -> str:
        said = "" if self.theta is None else f",people={self.theta}i"
        return f"air,floor=2,room={self.room} co2={self.y!r}{said},temp=20.5 {self.time}"


def readings(count: int, rooms: int) -> list[Reading]:
    """Readings of rooms side by side, whose people come and go; every third line does not say how many there are."""
    noise = np.random.default_rng(7).normal(size=count).tolist()
    found = []
    for i, y in enumerate(noise):
        slot, k = divmod(i, rooms)
        people = (slot // 40 + k) % 2
        said = people if slot % 3 == 0 or slot % 40 < 3 else None
        found.append(Reading(f"lab{k}", BEGIN + slot * MINUTE, 100.0 + 10.0 * people + y, said))
    return found


def options(folder: Path, ledger: str = "room.db", *more: str) -> list[str]:
    """What is typed after the design."""
    return [
        "--format", "influx", "--reading", "co2", "--private", "people", "--room", "room", "--keep", "floor",
        "--period", "1min", "--epoch", "1h", "--ledger", str(folder / ledger), "--key", str(folder / "master.key"),
        *more,
    ]  # fmt: skip


def prepare(folder: Path) -> None:
    """The design and a master key."""
    design().save(folder / "design.json")
    if not (folder / "master.key").exists():
        us.MasterKey.new().save(folder / "master.key")


def start(folder: Path, typed: Sequence[str], command: Sequence[str] = COMMAND, **rest) -> subprocess.Popen:
    """The pipe as a process; its rollback guard is in the folder."""
    whole = [*command, "pipe", str(folder / "design.json"), *typed]
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(folder / "state")}
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment}
    return subprocess.Popen(whole, **given | rest)


def run(folder: Path, typed: Sequence[str], lines: str | bytes, **rest) -> subprocess.CompletedProcess:
    """One process over some lines."""
    process = start(folder, typed, **rest)
    out, err = process.communicate(lines.encode() if isinstance(lines, str) else lines, timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@dataclass
class Log:
    """Outputs of all lives: for each reading the lines that it got."""

    outputs: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    kills: int = 0

    def add(self, line: bytes) -> None:
        tags, _, stamp = line.rsplit(b" ", 2)
        key = tags.rpartition(b"room=")[2].decode(), int(stamp)
        self.outputs.setdefault(key, []).append(line)


class Life:
    """One process, whose output is read as it comes; it has ended when the `with` is left."""

    def __init__(self, process: subprocess.Popen, log: Log, kill_after: int) -> None:
        self.process, self._log, self._kill_after = process, log, kill_after
        self.seen = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, process.stderr.read)]

    def __enter__(self) -> Life:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
        for thread in self._threads:
            thread.join(10)
        for each in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                each.close()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # half a line is none
                self._log.add(line[:-1])
                self.seen += 1
                if self.seen == self._kill_after:
                    self.process.send_signal(signal.SIGKILL)


def feed(folder: Path, given: list[Reading], kills: int, seed: int = 1, command: Sequence[str] = COMMAND) -> Log:
    """Feed all readings, through so many kills; half of them at an output, half at any moment.

    Now and then some lines that have their output are sent again, as if that had been lost on the way.
    """
    chance, log, typed = random.Random(seed), Log(), options(folder)  # noqa: S311  # a test that repeats
    each, first, stuck = max(1, len(given) // (kills + 1)), 0, 0
    for _ in range(2 * kills + 5):
        last, at_output = log.kills >= kills, chance.random() < 0.5
        most = chance.randint(max(1, each // 2), each)
        begin = max(0, first - chance.choice((0, 0, 0, 10)))
        life = Life(start(folder, typed, command), log, most if at_output and not last else -1)
        with life:
            _send(life, given[begin:], chance, -1 if last or at_output else most)
        log.kills += life.process.returncode == -signal.SIGKILL
        before = first
        first = next((i for i, one in enumerate(given) if (one.room, one.time) not in log.outputs), len(given))
        stuck = stuck + 1 if first == before else 0
        if first == len(given) or stuck == 4:
            break
    return log


def _send(life: Life, waiting: list[Reading], chance: random.Random, kill_after: int) -> None:
    """Write lines, a few at a time and not far ahead of the outputs; kill after so many, or close at the end."""
    sent, patience = 0, 10.0  # seconds to wait for outputs, in all
    begun = False
    with contextlib.suppress(BrokenPipeError):
        while sent < len(waiting) and life.process.poll() is None:
            if 0 <= kill_after <= life.seen:
                time.sleep(chance.random() * 0.05)
                life.process.send_signal(signal.SIGKILL)
                return
            if life.seen and not begun:
                begun, patience = True, 1.0
            if sent - life.seen > 100 and patience > 0.0:
                time.sleep(0.001)
                patience -= 0.001
                continue
            group = waiting[sent : sent + chance.randint(1, 60)]
            life.process.stdin.write("".join(reading.line + "\n" for reading in group).encode())
            life.process.stdin.flush()
            sent += len(group)
        life.process.stdin.close()
