"""Fleets: readings of many rooms in one call, against a stream for each and against bare arrays."""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, race, row
from benchmarks.systems import SOURCE
from understudy.models.adaptive import AdaptivePrior
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
    """A fleet that takes one reading of each room a call; readings are those of a model, if one is given."""

    def __init__(
        self, design: us.Design, store: us.Ledger | Table, missing: bool, model: us.Model | None = None
    ) -> None:
        self.fleet = us.Fleet(design, store, "bench", key=KEY, rooms=[f"room-{i:07d}" for i in range(ROOMS)])
        rng = np.random.default_rng(7)
        self.number, self.theta, self.k = np.arange(ROOMS), rng.integers(0, 2, ROOMS), 0
        self.Y = rng.normal(SOURCE.mean0, 1.0, (14, ROOMS))
        if model is not None:
            self.Y = us.sample(model, 14, n=ROOMS, rng=rng)[:, 0]
        if missing:
            self.Y[(np.arange(14)[:, None] + self.number) % 7 == 0] = np.nan
        for _ in range(40 if model is None else 2):  # gains settle
            self.step()

    def step(self) -> np.ndarray:
        """One reading of each room."""
        self.k += 1
        return self.fleet.apply(self.number, np.full(ROOMS, self.k), self.Y[self.k % 14], self.theta)


def _recursion(value: int) -> us.AutoRegressive:
    return us.AutoRegressive([0.6, 0.2], intercept=60.0 + value, noise=_heavy(), past=[300.0, 300.0])


def _heavy() -> us.Scalar:
    from scipy import stats

    return us.Scalar(stats.t(4.0, 0.0, 3.0))


def _hidden(value: int) -> us.HiddenMarkov:
    laws = [us.Gaussian(float(value), 1.0), us.Gaussian(value + 3.0, 2.0)]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


def _linear(value: int) -> us.GaussMarkov:
    return us.GaussMarkov(A=0.9, C=1.0, Q=1.0, R=1.0, b=float(value), mean0=10.0, cov0=1.0)


OTHERS: dict[str, Callable[[int], us.Model]] = {
    "an autoregression with t noise": _recursion,
    "an autoregression on a grid": lambda value: us.OnGrid(_recursion(value), step=1.0),
    "a Gauss-Markov model on a grid": lambda value: us.OnGrid(_linear(value), step=0.5),
    "a rounded Gauss-Markov model": lambda value: us.Quantised(_linear(value), step=0.5),
    "a hidden Markov model": _hidden,
}
"""Models that go link by link, all rooms side by side."""


def _adaptive(value: int) -> us.Adaptive:
    targets = tuple(us.AutoRegressive([0.6, 0.2, 0.1], 10.0 + v, _heavy(), past=[100.0] * 3) for v in (0, 1))
    known = {"mean": np.zeros((2, 7)), "cov": np.stack([np.eye(7) / 50.0] * 2), "variance": np.array([1.0, 4.0])}
    return us.Adaptive(AdaptivePrior(**known, centre=100.0, spread=10.0, targets=targets), value)


def _hidden_on_grid(value: int) -> us.OnGrid:
    return us.OnGrid(_hidden(value), step=0.25)


def _point_masses(value: int) -> us.Quantised:
    return us.Quantised(_linear(value), step=4.0, method="point-mass")


DEAR: dict[str, Callable[[int], us.Model]] = {
    "an adaptive model": _adaptive,
    "a hidden Markov model on a grid": _hidden_on_grid,
    "point masses": _point_masses,
}
"""Models whose filter is most of the price; the last two go room by room."""


def _others(quick: bool) -> list[Row]:
    """Each of the other models: a fleet, and a stream a room beside it."""
    rows: list[Row] = []
    for name, model in (OTHERS | DEAR).items():
        design = us.design(us.Family(model, values=[0, 1]), leakage=0.2, horizon=10, distortion="mae")
        rooms, stream = Rooms(design, Table(), False, model(0)), design.stream(0)
        given = us.sample(model(0), 200, rng=np.random.default_rng(5)).tolist()
        contenders = [
            Contender(f"a fleet, {name}", rooms.step, ROOMS),
            Contender(f"Stream.step, {name}", lambda stream=stream, given=given: [stream.step(y) for y in given], 200),
        ]
        fleet, step = race(contenders, 3 if quick or name in DEAR else 10, process_time).values()
        required = None if name in DEAR else Required(50.0)
        rows += [row(fleet), row(step, step.best / fleet.best, required=required)]
    return rows


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
        found = race([Contender(*each) for each in contenders], 10 if quick else 60, process_time)
        fleet, missing, kept, step, disguise = found.values()
        ledger.close()
        rows: list[Row] = [
            row(fleet),
            row(step, step.best / fleet.best, required=Required(50.0)),
            row(disguise, disguise.best / fleet.best, required=Required(0.25)),
            row(missing, fleet.best / missing.best, required=Required(1.0 / 3.0)),
            row(kept, fleet.best / kept.best),
            *_others(quick),
        ]
        note = "" if quick else _million(design, folder)
    finally:
        shutil.rmtree(folder)
    notes = [
        f"{ROOMS:,} rooms, one reading of each a call, each between two values of its own. Times of the processor."
    ]
    return Section("Fleets: many rooms", "the contender's time / the fleet's time, per reading", rows, [*notes, note])


def _million(design: us.Design, folder: Path) -> str:
    """A million rooms begun, stepped ten times and stored."""
    count, start = 1_000_000, process_time()
    rng = np.random.default_rng(1)
    with us.Ledger(folder / "million.ledger", rollback_guard=folder) as ledger:
        fleet = us.Fleet(design, ledger, "million", key=KEY, rooms=[f"room-{i:07d}" for i in range(count)])
        number, theta = np.arange(count), rng.integers(0, 2, count)
        for k in range(10):
            fleet.apply(number, np.full(count, k), rng.normal(SOURCE.mean0, 1.0, count), theta)
    seconds = process_time() - start
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{count:,} rooms begun, stepped ten times and stored in a ledger after each: {seconds:.0f} s of the processor "
        f"(at most 60), {size:.2f} GB at most (at most 2)."
    )
