"""Beside the frontier: an adversary who knows the regime, an estimated private value, the package's own audit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from studies.real_data import attacking, disguising, rooms
from studies.real_data.rooms import Room
from understudy._types import Array
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.identify.history import History
from understudy.models.family import Family


def insider(
    room: Room, history: History, outputs: Sequence[Array], known: Knowledge, adversaries: Any, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Adversaries with labels of the first half of a test recording itself, judged on its second half."""
    halves: list[tuple[History, list[Array]]] = []
    for second in (False, True):
        segments, parts = [], []
        for segment, output in zip(history.segments, outputs, strict=True):
            middle = len(segment) // 2
            a, b = (middle, len(segment)) if second else (0, middle)
            segments.append(segment.cut(a, b))
            parts.append(output[a:b])
        halves.append((replace(history, segments=tuple(segments)), parts))
    learn, judge = (attacking.cases(room, *half) for half in halves)
    return attacking.attack(learn, {"half": judge}, known, adversaries, rng, clock=False)["half"]


def estimates(family: Family, history: History) -> tuple[list[Any], float]:
    """The private value estimated from the readings by the family's own Bayes filter, and how often it is right."""
    from understudy.randomizer.estimation import Estimator

    estimator = Estimator(family, disguising.transition(family))
    paths, right, total = [], 0, 0
    for segment in history.segments:
        state, path = estimator.start(), np.empty(len(segment), dtype=np.intp)
        for k, y in enumerate(segment.Y[:, 0].tolist() if family.dim == 1 else segment.Y):
            state, path[k] = estimator.step(state, y)
        paths.append(path)
        right += int((path == segment.theta).sum())
        total += len(segment)
    return paths, right / total


def as_estimated(family: Family, history: History) -> tuple[History, float]:
    """The history with estimates in place of labels: what a filter sees that is not told."""
    paths, share = estimates(family, history)
    segments = [replace(segment, theta=path) for segment, path in zip(history.segments, paths, strict=True)]
    return replace(history, segments=tuple(segments)), share


def audited(room: Room, a_day: Sequence[float], told: Any) -> dict[str, Any]:
    """`us.audit` with the whole roster, at several nats a day and a decision every 15 minutes, on the first recording.

    It learns from the training recording, and attacks raw readings and noise of equal distortion as well.
    """
    from understudy.adversaries.audit import audit
    from understudy.adversaries.datasets import from_history

    rng, found = np.random.default_rng(4), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family = rooms.fitted(room).family_
        name, frame = next(iter(room.tests.items()))
        train, test = (from_history(rooms.read(x, family), family) for x in (room.train, frame))
        period = float(family.about["period"])
        every = max(1, round(900.0 / period))
        cost = disguising.costs(family, 96, np.ones(1))
        for k, nats in enumerate(a_day):
            plan = disguising.causal(family, cost, every, nats * every * period / 86_400.0, rng)
            told((k + 0.2) / len(a_day))
            made = audit(
                plan.design, test, train=train, rng=5, replicates=2, confidence=0.95, utility=False, noise=True
            )
            found.append({"asked": nats, "test": name, **_plain(made)})
    return {"audits": found, "model": family.about["model"]["name"], "period": period}


def _plain(made: Any) -> dict[str, Any]:
    rows = [
        {
            **{name: getattr(row, name) for name in ("data", "adversary", "clock", "reference", "p", "found", "title")},
            **{name: [round(float(x), 4) for x in getattr(row, name)] for name in ("balanced", "gain", "nats")},
            "seconds": round(row.seconds, 2),
        }
        for row in made.rows
    ]
    distortion = [round(float(figure.value), 3) for figure in made.distortion]
    return {
        "rows": rows,
        "skipped": dict(made.skipped),
        "notes": list(made.notes),
        "distortion": distortion,
        "mean": [round(float(x), 3) for x in made.mean_reading],
        "guesses": made.guesses,
        "seconds": round(made.seconds, 1),
    }
