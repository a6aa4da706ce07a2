"""Many streams in one ledger: group commit against single steps, a thousand streams every second, and beginnings."""

from __future__ import annotations

import gc
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, duration, race, row
from benchmarks.systems import SOURCE
from understudy.stream.ledger_file import SETTINGS, TABLES

STREAMS, GROUP = 1000, 500
SLOW = 0.006  # seconds that a commit waits longer, where a slow disk is stood in for


class SlowLedger(us.Ledger):
    """A ledger on a disk that takes 6 ms to confirm a commit."""

    def _commit(self, db: sqlite3.Connection) -> None:
        super()._commit(db)
        sleep(SLOW)


def run(quick: bool) -> Section:
    """Each measurement has its own ledger, in the system's temporary folder."""
    family = us.Family({0: SOURCE.model(), 1: SOURCE._replace(b=SOURCE.b * 0.6).model()}, values=[0, 1])
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    design.stream(0).step(100.0)  # what is worked out once for a design
    rows = [*_group_commit(design, 4 if quick else 12), *_every_second(design, 3 if quick else 10)]
    return Section(
        "Streams: many in one ledger",
        "what each row says",
        [*rows, *_beginnings(design, quick)],
        [
            f"Group commit: processor time of a reading in groups of {GROUP}, against single steps of the same "
            "streams; every output is on disk (WAL, synchronous=FULL) before it is returned.",
            f"{STREAMS:,} streams at 1 Hz: one group a second. The share of a core is the processor time of a group in "
            f"seconds; with a slow disk {1000 * SLOW:.0f} ms are added to each commit, and the ratio is wall time.",
            "Beginnings, processor time: streams begun in one group, draw and charge included, against plain INSERTs "
            "of the rows that the ledger holds afterwards, one statement a row in one commit; and ten times as many.",
        ],
    )


def _begin(ledger: us.Ledger, design: us.Design, count: int) -> list[us.Stream]:
    with ledger.group() as group:
        tickets = [group.begin(design, 0, name=f"room {k}") for k in range(count)]
    return [ticket.result() for ticket in tickets]


def _step(ledger: us.Ledger, streams: list[us.Stream], key: int) -> list[Any]:
    with ledger.group() as group:
        tickets = [group.step(stream, 100.0 + key / 7.0, key=key) for stream in streams]
    return [ticket.result() for ticket in tickets]


def _group_commit(design: us.Design, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, us.Ledger(Path(folder, "a"), rollback_guard=folder) as ledger:
        streams, keys = _begin(ledger, design, GROUP), iter(range(10**6))

        def single() -> list[Any]:
            key = next(keys)
            return [stream.step(100.0 + key / 7.0, key=key) for stream in streams[:100]]

        found = race(
            [
                Contender(f"groups of {GROUP}", lambda: _step(ledger, streams, next(keys)), GROUP),
                Contender("single steps", single, 100),
            ],
            rounds,
            process_time,
        )
    group, alone = found.values()
    return [row(group), row(alone, alone.best / group.best, required=Required(4.0))]


def _every_second(design: us.Design, rounds: int) -> list[Row]:
    rows = []
    ways: list[tuple[str, type[us.Ledger], Callable[[], float], float]] = [
        ("share of a core", us.Ledger, process_time, 0.25),
        (f"wall time, {1000 * SLOW:.0f} ms a commit added", SlowLedger, perf_counter, 1.0),
    ]
    for name, kind, clock, most in ways:
        with tempfile.TemporaryDirectory() as folder, kind(Path(folder, "a"), rollback_guard=folder) as ledger:
            streams, times = _begin(ledger, design, STREAMS), list[float]()
            for key in range(rounds):
                start = clock()
                _step(ledger, streams, key)
                times.append(clock() - start)
        middle = sorted(times)[len(times) // 2]
        title = f"{STREAMS:,} streams at 1 Hz: {name}"
        rows.append(
            Row(title, f"{STREAMS:,}", duration(min(times)), duration(middle), middle, Required(most, at_most=True))
        )
    return rows


def _beginnings(design: us.Design, quick: bool) -> list[Row]:
    gc.disable()  # as in a race
    try:
        ours, plain = zip(*(_begin_and_copy(design, STREAMS) for _ in range(3 if quick else 9)), strict=True)
        many = min(_begin_and_copy(design, 10 * STREAMS)[0] for _ in range(1 if quick else 3))
    finally:
        gc.enable()
    best, raw = min(ours), min(plain)

    def line(name: str, count: int, seconds: float, ratio: float | None = None, most: float = 0.0) -> Row:
        required = None if ratio is None else Required(most, at_most=True)
        return Row(name, f"{count:,}", duration(seconds), "", ratio, required)

    return [
        line(f"{STREAMS:,} plain INSERTs of the same bytes", STREAMS, raw),
        line(f"{STREAMS:,} streams begun, over the INSERTs", STREAMS, best, best / raw, 5.0),
        line(f"{10 * STREAMS:,} begun, over {STREAMS:,}", 10 * STREAMS, many, many / best, 12.0),
    ]


def _begin_and_copy(design: us.Design, count: int) -> tuple[float, float]:
    """Seconds of the processor to begin so many streams, and to insert the rows that are there then."""
    with tempfile.TemporaryDirectory() as folder, us.Ledger(Path(folder, "a"), rollback_guard=folder) as ledger:
        start = process_time()
        _begin(ledger, design, count)
        ours = process_time() - start
        tables = ("streams", "epochs", "charges", "states")
        rows = [ledger.rows(f"SELECT * FROM {table}") for table in tables]  # noqa: S608  # names of ours
        marks = [",".join("?" * len(found[0])) for found in rows]
        inserts = [f"INSERT INTO {t} VALUES ({m})" for t, m in zip(tables, marks, strict=True)]  # noqa: S608  # ours
        with closing(sqlite3.connect(Path(folder, "b"), isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            for statement in (*SETTINGS, *TABLES):
                db.execute(statement)
            start = process_time()
            db.execute("BEGIN IMMEDIATE")
            for values in zip(*rows, strict=True):
                for insert, row_of_table in zip(inserts, values, strict=True):
                    db.execute(insert, row_of_table)
            db.execute("COMMIT")
            return ours, process_time() - start
