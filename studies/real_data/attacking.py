"""Adversaries of the audit, let loose on what the study disguised, and their figures with intervals.

Every adversary of the roster learns from the labelled training recording, disguised (or raw, or with noise) as the one
that it is judged on: an adversary may make as many labelled copies of his own history as he likes. Balanced accuracy
is that of the value whose odds rose most over the prior, which is what balanced accuracy asks for. Intervals are over
stretches of time, at 95 percent (`understudy.adversaries.statistics`). The strongest adversary is picked on the
test data
themselves, which favours him.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.real_data.rooms import Room
from understudy._types import Array
from understudy.adversaries.audit import REFERENCES, roster
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.statistics import Guesses as Guesses
from understudy.adversaries.statistics import figures, guesses_of
from understudy.identify.history import History
from understudy.tables.times import DAY, SECOND

LEVEL = 0.95


def cases(room: Room, history: History, outputs: Sequence[Array], pseudo: Sequence[Any] | None = None) -> Cases:
    """Outputs (T, d, R) of each segment as labelled cases; replicates of a stretch of time share its number."""
    T, R = max(len(s) for s in history.segments), outputs[0].shape[2]
    N = len(history.segments) * R
    Y = np.full((T, history.dim, N), np.nan)
    labels, blocks = np.full((T, N), -1, dtype=np.int64), np.zeros((T, N), dtype=np.int64)
    hours, days = np.full((T, N), np.nan), np.full((T, N), -1, dtype=np.int64)
    played = np.full((T, N), -1, dtype=np.int64)
    rows = max(1, round(room.block / (history.period or 1.0)))
    first = 0
    for k, segment in enumerate(history.segments):
        n, at = len(segment), slice(k * R, (k + 1) * R)
        Y[:n, :, at] = outputs[k]
        labels[:n, at] = segment.theta[:, None]
        number = first + np.arange(n) // rows
        blocks[:n, at] = number[:, None]
        blocks[n:, at] = number[-1]
        first = int(number[-1]) + 1
        if pseudo is not None:
            played[:n, at] = pseudo[k]
        if segment.times is not None:
            clock_hours = room.pace * (segment.times % DAY) / (3600.0 * SECOND)
            hours[:n, at] = np.minimum(clock_hours, 23.999)[:, None]
            weekday = (segment.times // DAY + 3) % 7  # 1970 began on a Thursday
            days[:n, at] = (weekday if not room.weekdays else np.full(n, room.weekdays.get(segment.name, -1)))[:, None]
    clock: dict[str, Any] = {"hours": hours, "days": days} if room.clock else {}
    return Cases(Y, labels, blocks, len(history.values), False, **clock, pseudo=None if pseudo is None else played)


def attack(
    learn: Cases,
    tests: dict[str, Cases],
    known: Knowledge,
    adversaries: Any,
    rng: np.random.Generator,
    clock: bool = True,
) -> dict[str, list[dict[str, Any]]]:
    """Every adversary, without the clock and with it, on every test recording: rows of figures by recording."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tests}
    learners = roster(adversaries)
    ways = [False, True] if clock and learn.hours is not None else [False]
    reference: dict[tuple[str, bool], Guesses] = {}
    for with_clock in ways:
        train = learn if with_clock else learn.without_clock()
        prior = train.counts / train.counts.sum()
        for name, learner in learners.items():
            if isinstance(learner, str) or name == "oracle" or (name in REFERENCES and (name == "clock") != with_clock):
                continue
            start = time.perf_counter()
            bare = train.without_pseudo()
            if learner.objection(bare, known):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learned = learner.learn(bare, known, rng)
                for test, whole in tests.items():
                    seen = (whole if with_clock else whole.without_clock()).without_pseudo()
                    made = guesses_of(np.asarray(learned.logits(seen)), seen, prior)
                    if name in ("blind", "clock"):
                        reference[test, with_clock] = made
                    row = row_of(made, reference.get((test, with_clock)))
                    row |= {"adversary": name, "clock": with_clock, "reference": name in REFERENCES}
                    found[test].append(row | {"seconds": round(time.perf_counter() - start, 2)})
    return found


def row_of(made: Guesses, reference: Guesses | None) -> dict[str, Any]:
    """Figures of one adversary: balanced accuracy, error, gain over the reference and nats, each with its interval."""
    found = figures(made, reference, False, LEVEL)
    counted = {"blocks": int(np.unique(made.blocks).size), "guesses": int(made.truth.size)}
    return {name: _rounded(figure) for name, figure in found._asdict().items()} | counted


def _rounded(figure: Any) -> list[float]:
    return [round(float(x), 4) for x in figure]


def best(rows: list[dict[str, Any]], clock: bool = False) -> dict[str, Any] | None:
    """The strongest adversary that is no reference: by balanced accuracy, or with the clock by its gain over it."""
    those = [row for row in rows if row["clock"] is clock and not row["reference"]]
    key = "gain" if clock else "balanced"
    return max((row for row in those if key in row), key=lambda row: row[key][0], default=None)
