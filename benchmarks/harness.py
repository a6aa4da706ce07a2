"""Timing by alternation, and what one line of the table holds.

Two contenders timed one after the other see two machines: the clock frequency, the neighbours and the
state of memory have moved on. So the contenders take turns, round after round in one process on the same
input, and each keeps its best time; the median stands beside it, so that a reader sees how far to trust it.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

AGREE = 1e-6  # outputs further apart than this are not the same job; the run then fails


@dataclass(frozen=True)
class Contender:
    """Something to time: `run()` works `calls` times through `samples` readings and returns its output."""

    name: str
    run: Callable[[], Any]
    samples: int
    rounds: int | None = None  # slow peers sit out the later rounds
    calls: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds per sample of every round, and the last output."""

    contender: Contender
    seconds: tuple[float, ...]
    output: Any = field(repr=False)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Required:
    """A ratio the issue asks for: at least or at most a number."""

    bound: float
    at_most: bool = False

    def met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:,g}"


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is held against `required`; `compared`: how far outputs are apart."""

    contender: str
    samples: str
    best: str
    median: str
    ratio: float | None = None
    required: Required | None = None
    compared: str = ""
    failure: str = ""  # why this line is no measurement at all; the run then ends with status 1

    @property
    def verdict(self) -> str:
        if self.failure:
            return self.failure.upper()
        if self.required is None or self.ratio is None:
            return ""
        return "met" if self.required.met(self.ratio) else "missed"


@dataclass(frozen=True)
class Section:
    """One table: its rows, what its ratio means, and what a reader must know to believe it."""

    title: str
    ratio: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)


def race(contenders: Sequence[Contender], rounds: int, clock: Callable[[], float] = perf_counter) -> dict[str, Timing]:
    """Let the contenders take turns for `rounds` rounds; seconds, by `clock`, are per sample."""
    seconds: dict[str, list[float]] = {c.name: [] for c in contenders}
    outputs: dict[str, Any] = {}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            for c in contenders:
                if c.rounds is not None and turn >= c.rounds:
                    continue
                outputs.pop(c.name, None)  # give the memory back before the next output is allocated
                start = clock()
                outputs[c.name] = c.run()
                seconds[c.name].append((clock() - start) / (c.samples * c.calls))
    finally:
        if collecting:
            gc.enable()
    return {c.name: Timing(c, tuple(seconds[c.name]), outputs[c.name]) for c in contenders}


def samples_for(run: Callable[[int], Any], budget: float, most: int, least: int = 64) -> int:
    """How many samples keep `run(samples)` busy for about `budget` seconds, found by doubling."""
    samples, spent = least, 0.0
    while samples < most:
        start = perf_counter()
        run(samples)
        spent = perf_counter() - start
        if spent > budget / 20:
            break
        samples *= 2
    return int(min(most, max(least, samples * budget / max(spent, 1e-9))))


def difference(ours: Any, theirs: Any, skip: int = 0) -> float:
    """Largest absolute difference over the readings both have, after the first `skip`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    common = min(len(ours), len(theirs))
    return float(np.max(np.abs(ours[skip:common] - theirs[skip:common])))


def duration(seconds: float) -> str:
    """A time in the unit that gives it one to three digits before the point."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def row(timing: Timing, ratio: float | None = None, **rest: Any) -> Row:
    """The line of one timing, per sample."""
    c = timing.contender
    return Row(c.name, f"{c.samples:,}", duration(timing.best), duration(timing.median), ratio, **rest)


def compared(ours: Any, theirs: Any, skip: int = 0) -> dict[str, Any]:
    """The `compared` and `failure` fields for two outputs of the same job."""
    apart = difference(ours, theirs, skip)
    return {"compared": f"{apart:.1e}", "failure": "" if apart <= AGREE else "outputs differ"}
