"""Fleets: readings of many rooms in one call, against a stream for each and against bare arrays."""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, race, row
from benchmarks.systems import SOURCE
from understudy.stream.fleet import Decisions

ROOMS = 10_000
KEY = us.MasterKey(bytes(range(32)))


class Table:
    """Decisions in memory: what a fleet costs apart from its ledger."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], tuple[int, ...]] = {}

    def decide(self, proposed: Decisions) -> Decisions:
        """What stands."""
        rows = zip(*(column.tolist() for column in proposed), strict=True)
        standing = [self.rows.setdefault(found[:2], found) for found in rows]
        return Decisions(*(np.array(column) for column in zip(*standing, strict=True)))


class Rooms:
    """A fleet that takes one reading of each room a call."""

    def __init__(self, design: us.Design, store: us.Ledger | Table, missing: bool) -> None:
        self.fleet = us.Fleet(design, store, "bench", key=KEY, rooms=[f"room-{i:07d}" for i in range(ROOMS)])
        rng = np.random.default_rng(7)
        self.number, self.theta, self.k = np.arange(ROOMS), rng.integers(0, 2, ROOMS), 0
        self.Y = rng.normal(SOURCE.mean0, 1.0, (14, ROOMS))
        if missing:
            self.Y[(np.arange(14)[:, None] + self.number) % 7 == 0] = np.nan
        for _ in range(40):  # gains settle
            self.step()

    def step(self) -> np.ndarray:
        """One reading of each room."""
        self.k += 1
        return self.fleet.apply(self.number, np.full(ROOMS, self.k), self.Y[self.k % 14], self.theta)


def run(quick: bool) -> Section:
    """Ratios within one race, and a million rooms once."""
    design = us.design(
        us.Family({0: SOURCE.model(), 1: SOURCE._replace(b=SOURCE.b * 0.6).model()}, values=[0, 1]),
        leakage=0.3, horizon=50, distortion="mae",
    )  # fmt: skip
    stream = design.stream(0)
    readings = us.sample(SOURCE.model(), 2000, rng=np.random.default_rng(5)).tolist()
    sensors = np.random.default_rng(7).normal(SOURCE.mean0, 1.0, (1, 1, ROOMS))
    source, target = SOURCE.model(), SOURCE._replace(b=SOURCE.b * 0.6).model()
    folder = Path(tempfile.mkdtemp(prefix="understudy-bench-"))
    try:
        ledger = us.Ledger(folder / "rooms.ledger", rollback_guard=folder)
        plain, gaps, durable = (
            Rooms(design, store, missing) for store, missing in ((Table(), False), (Table(), True), (ledger, False))
        )
        contenders: list[tuple[str, Callable[[], object], int]] = [
            ("a fleet, decisions in memory", plain.step, ROOMS),
            ("a fleet, every 7th reading missing", gaps.step, ROOMS),
            ("a fleet with a ledger", durable.step, ROOMS),
            ("Stream.step, one room after the other", lambda: [stream.step(y) for y in readings], len(readings)),
            ("us.disguise on the same array", lambda: us.disguise(sensors, source, target, resolution=2**-11), ROOMS),
        ]
        found = race([Contender(*each) for each in contenders], 10 if quick else 60)
        fleet, missing, kept, step, disguise = found.values()
        ledger.close()
        rows: list[Row] = [
            row(fleet),
            row(step, step.best / fleet.best, required=Required(50.0)),
            row(disguise, disguise.best / fleet.best, required=Required(0.25)),
            row(missing, fleet.best / missing.best, required=Required(1.0 / 3.0)),
            row(kept, fleet.best / kept.best),
        ]
        note = "" if quick else _million(design, folder)
    finally:
        shutil.rmtree(folder)
    notes = [f"{ROOMS:,} rooms, one reading of each a call, each room between two values of its own."]
    return Section("Fleets: many rooms", "the contender's time / the fleet's time, per reading", rows, [*notes, note])


def _million(design: us.Design, folder: Path) -> str:
    """A million rooms begun, stepped ten times and stored."""
    count, start = 1_000_000, perf_counter()
    rng = np.random.default_rng(1)
    with us.Ledger(folder / "million.ledger", rollback_guard=folder) as ledger:
        fleet = us.Fleet(design, ledger, "million", key=KEY, rooms=[f"room-{i:07d}" for i in range(count)])
        number, theta = np.arange(count), rng.integers(0, 2, count)
        for k in range(10):
            fleet.apply(number, np.full(count, k), rng.normal(SOURCE.mean0, 1.0, count), theta)
    seconds = perf_counter() - start
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{count:,} rooms begun, stepped ten times and stored in a ledger after each: {seconds:.0f} s (at most 60), "
        f"{size:.2f} GB at most (at most 2)."
    )
