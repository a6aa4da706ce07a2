"""Which period and model class to use, decided on the training recording alone, by what is to be avoided: the leak.

At zero budget one value is played throughout, and under a right model the output tells nothing. So each candidate is
fitted on the training recording, which is then disguised at zero budget; adversaries learn from some of its days and
are judged on the others. No test recording takes part.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from studies.real_data import attacking, disguising, rooms
from studies.real_data.rooms import Room
from understudy._types import Array
from understudy.adversaries.audit import REFERENCES, roster
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.statistics import guesses_of
from understudy.errors import UnderstudyError
from understudy.identify.history import History, Segment
from understudy.models.family import Family
from understudy.tables.times import DAY

QUICK = ("windowed", "logistic", "neighbours", "changes", "hmm")
FOLDS = 3
REPLICATES = 2


def candidates(
    make: Callable[[int, str], Room], tried: list[tuple[int, str]], told: Callable[[float], None]
) -> list[dict[str, Any]]:
    """One row for each period (minutes) and model class that was tried."""
    rows = []
    for k, (minutes, model) in enumerate(tried):
        told(k / len(tried))
        rows.append(candidate(make(minutes, model), minutes, model))
    return rows


def candidate(room: Room, minutes: int, model: str) -> dict[str, Any]:
    """The strongest adversary on training days that it has not learned from, at zero budget, and what it costs."""
    rng, start = np.random.default_rng(3), time.perf_counter()
    row: dict[str, Any] = {"minutes": minutes, "model": model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = rooms.fitted(room)
        except UnderstudyError as error:
            return row | {"failure": str(error)}
        family = made.family_
        if any("it has the law of" in note for note in made.notes_):
            return row | {"failure": "a value has too few readings for a law of its own"}
        history = rooms.read(room.train, family)
        outputs = silent(family, history, rng)
        accuracies = across_days(room, family, history, outputs, rng)
    best = max(accuracies, key=lambda name: accuracies[name])
    gate = made.gate_
    size = disguising.distortion(history, outputs)
    return row | {
        "chosen": family.about["model"]["name"],
        "best": best,
        "accuracy": accuracies[best],
        "all": accuracies,
        "percent": np.round(100.0 * size / np.abs(history.stack().mean(axis=0)), 2).tolist(),
        "gate": [len(gate.failed), len(gate.verdicts)],
        "told": max((each.accuracy for each in gate.attack.windows), default=None),
        "score": next((r.score for r in made.table_.rows if r.name == family.about["model"]["name"]), None),
        "seconds": round(time.perf_counter() - start, 1),
    }


def silent(family: Family, history: History, rng: np.random.Generator) -> list[Array]:
    """The recording at zero budget: the likeliest value played throughout."""
    z = [disguising.scores(family, history, rng=int(rng.integers(1 << 31))) for _ in range(REPLICATES)]
    played = int(np.argmax(family.prior))
    low, high = (end[None, :, None] for end in disguising.limits(history))
    found = []
    for k, segment in enumerate(history.segments):
        which = np.full((len(segment), REPLICATES), played)
        made = disguising.coloured(np.stack([part[k] for part in z], axis=2), family, which)
        found.append(np.clip(made, low, high))
    return found


def across_days(
    room: Room, family: Family, history: History, outputs: list[Array], rng: np.random.Generator
) -> dict[str, float]:
    """Balanced accuracy of each quick adversary, days judged that it has not learned from."""
    segments, parts = [], []
    for segment, output in zip(history.segments, outputs, strict=True):
        for a, b in days_of(segment):
            segments.append(segment.cut(a, b))
            parts.append(output[a:b])
    cases = attacking.cases(room, replace(history, segments=tuple(segments)), parts).without_clock()
    fold = np.repeat(np.arange(len(segments)) % FOLDS, parts[0].shape[2])
    m = len(family.values)
    kernel = np.zeros((m, m))
    kernel[:, int(np.argmax(family.prior))] = 1.0
    T = disguising.transition(family)
    known = Knowledge(family, family.values, kernel, family.prior, T, 1, None, None)
    found = {}
    for name, learner in roster(QUICK).items():
        if name in REFERENCES or isinstance(learner, str):
            continue
        right, total = np.zeros((2, m))
        for k in range(FOLDS):
            learn, judge = cases.sequences(np.flatnonzero(fold != k)), cases.sequences(np.flatnonzero(fold == k))
            if learner.objection(learn, known):
                break
            odds = learn.counts / learn.counts.sum()
            made = guesses_of(np.asarray(learner.learn(learn, known, rng).logits(judge)), judge, odds)
            total += np.bincount(made.truth, minlength=m)
            right += np.bincount(made.truth[made.fair == made.truth], minlength=m)
        if (total > 0).any():
            found[name] = round(float((right[total > 0] / total[total > 0]).mean()), 4)
    return found


def days_of(segment: Segment) -> list[tuple[int, int]]:
    """The rows of each calendar day of a segment, short ends left out; the whole where there are no times."""
    day = np.zeros(len(segment), dtype=np.int64) if segment.times is None else segment.times // DAY
    cuts = [0, *(np.flatnonzero(np.diff(day)) + 1).tolist(), len(segment)]
    return [(a, b) for a, b in pairwise(cuts) if b - a >= rooms.SHORTEST]
