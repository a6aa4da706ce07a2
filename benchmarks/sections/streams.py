"""Durable readings: a stream with a ledger, against plain SQLite inserts of the same rows."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, race, row
from benchmarks.systems import SOURCE
from understudy.stream.ledger import _OUTPUT, _STATE
from understudy.stream.ledger_file import SETTINGS, TABLES

BATCHES = (1, 10, 100, 1000)
OURS, ALONE, WITH_STATE = "understudy, a stream", "SQLite, outputs alone", "SQLite, outputs and state"


class Plain:
    """The rows that a ledger writes, into a file with the same tables and settings, and nothing else done."""

    def __init__(self, path: Path, rows: list[tuple[int, int, float, int]], state: tuple[object, ...] | None) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        for statement in (*SETTINGS, *TABLES):
            self.db.execute(statement)
        self.db.execute("INSERT INTO states VALUES (1, 0, NULL, '', 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, '', '')")
        self.rows, self.state, self.at = rows, state, 0

    def batches(self, size: int, count: int) -> int:
        """Group commits: so many rows each."""
        execute = self.db.execute
        for _ in range(count):
            some = self.rows[self.at : self.at + size]
            execute("BEGIN IMMEDIATE")
            self.db.executemany(_OUTPUT, some)
            if self.state is not None:
                # another count each time, or SQLite would not write the page
                execute(_STATE, (1, self.at, *self.state[2:]))
            execute("COMMIT")
            self.at += size
        return self.at


class Ours:
    """A stream with a ledger, reading by reading or in batches with a key for each."""

    def __init__(self, folder: Path, Y: np.ndarray) -> None:
        family = us.Family({0: SOURCE.model(), 1: SOURCE._replace(b=SOURCE.b * 0.6).model()}, values=[0, 1])
        design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
        self.ledger = us.Ledger(folder / "ours.ledger", rollback_guard=folder)
        self.stream = design.stream(0, self.ledger, "bench")
        self.Y, self.at = Y, 0

    def batches(self, size: int, count: int) -> int:
        """The same readings a group commit."""
        step, apply = self.stream.step, self.stream.apply
        if size == 1:
            for y in self.Y[self.at : self.at + count].tolist():
                step(y, key=self.at)
                self.at += 1
            return self.at
        for _ in range(count):
            apply(self.Y[self.at : self.at + size], keys=range(self.at, self.at + size))
            self.at += size
        return self.at


def run(quick: bool) -> Section:
    """Each batch size is a race of its own; every contender has its own file on the same disk."""
    rounds, budget = (8, 0.02) if quick else (40, 0.1)
    rows: list[Row] = []
    for size in BATCHES:
        folder = Path(tempfile.mkdtemp(prefix="understudy-bench-"))
        try:
            rows += _race(folder, size, rounds, budget)
        finally:
            shutil.rmtree(folder)
    return Section(
        "Streams: durable readings",
        "SQLite's time / understudy's time, per reading",
        rows,
        [
            "One transaction a batch, on disk (WAL, synchronous=FULL) before it returns. SQLite alone inserts the rows "
            "that the ledger holds afterwards (stream, key, output, checksum) into the same tables with the same "
            "settings; with the state it also updates the row of the filter's state, as the ledger must. What "
            "understudy does besides: the filter, keys and their order, checksums, the rollback guard.",
            "What counts is the wait for the disk, which differs from moment to moment; contenders take turns. The "
            "files are in the system's temporary folder: where that is in memory, nothing is durable, and the figures "
            "show the work of the processor alone.",
        ],
    )


def _race(folder: Path, size: int, rounds: int, budget: float) -> list[Row]:
    most = 400_000
    Y = us.sample(SOURCE.model(), most, rng=np.random.default_rng(5))
    ours = Ours(folder, Y)
    ours.batches(size, 3)
    state = ours.ledger.rows("SELECT * FROM states")[0]  # its text is as long as those to come
    values = Y.tolist()
    filed = [(1, key, values[key], 1_000_000_007) for key in range(most)]
    contenders: dict[str, Callable[[int, int], int]] = {
        OURS: ours.batches,
        ALONE: Plain(folder / "alone.db", filed, None).batches,
        WITH_STATE: Plain(folder / "state.db", filed, state).batches,
    }
    count = min(_batches(contenders[WITH_STATE], size, budget), most // (rounds + 2) // size)
    found = race(
        [
            Contender(f"batches of {size:,}: {name}", partial(work, size, count), size * count)
            for name, work in contenders.items()
        ],
        rounds,
    )
    mine, *peers = found.values()
    kept = ours.ledger.rows("SELECT count(*), max(key) FROM outputs")[0]
    failure = "" if kept == (ours.at, ours.at - 1) else "readings are missing"
    rows = [row(mine, failure=failure)]
    for peer in peers:
        rows.append(row(peer, peer.best / mine.best, required=Required(0.5)))
    ours.ledger.close()
    return rows


def _batches(work: Callable[[int, int], int], size: int, budget: float) -> int:
    """How many batches keep a contender busy for about `budget` seconds."""
    done, start = 0, perf_counter()
    while perf_counter() - start < budget and done < 10_000 // size:
        work(size, 1)
        done += 1
    return done
