"""Protection at zero budget on six recordings: what was chosen on training days, and what came out elsewhere.

    python -m studies.real_rooms --data ../shared/data --out study

For each recording the settings (model class, period, output, fresh share) are measured on the training days alone, by
`understudy.adversaries.tuning`: models, targets and adversaries have not seen the day that is attacked. The setting of
least distortion whose best adversary stays within `MARGIN` of the control is written to a file, with its SHA-256,
before a test recording is looked at. The control is the same setting with a fresh share of 1: an output that does not
depend on the readings. What adversaries find there they find by the time of day and the shape of labels.

Then each test recording is disguised `SEEDS` times. *Outsiders* learn from the disguised training days, *insiders* from
other days of the test recording. Intervals are over days.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from studies.real_data.data import candanedo, sdu, where
from understudy.adversaries.rivals import distortion_limit
from understudy.adversaries.tuning import (
    Days,
    Fold,
    Part,
    Piece,
    Search,
    Setting,
    cases_of,
    complete,
    distortion_of,
    limits,
)
from understudy.errors import UnderstudyError
from understudy.identify.fit import resample_held_readings
from understudy.identify.history import History
from understudy.identify.resample import Columns
from understudy.tables.table import Table

MARGIN = 0.03
SEEDS = 5
ADVERSARIES = ("boosting", "logistic", "hmm")
MODELS = ("adaptive", "AR(1), Student-t", "AR(2), free noise by class")
SHARES = (1.0, 0.95, 0.9, 0.8, 0.65, 0.5, 0.0)

Frame = dict[str, np.ndarray]


class Recording:
    """Training rows, test rows by name, their columns, and the periods that are tried."""

    def __init__(
        self, train: Frame, tests: dict[str, Callable[[], Frame]], columns: Columns, periods: list[float | None]
    ):
        self.train, self.tests, self.columns, self.periods = train, tests, columns, periods


def recordings(root: Path) -> dict[str, Recording]:
    """The office with two test files, and four rooms with one day of three held out."""
    frames = candanedo(root)
    office = Columns("CO2", "Occupancy", "date")
    found = {
        "candanedo": Recording(
            frames["train"],
            {name: partial(frames.__getitem__, name) for name in ("test", "test2")},
            office,
            [300.0, 900.0],
        )
    }
    for number in (1, 2, 3, 4):
        frame = sdu(root, number)
        held = frame["day"] % 3 == 2
        columns = Columns("co2", "people", "time", "day", 900.0, "0,1+")
        found[f"sdu {number}"] = Recording(
            where(frame, ~held),
            {"held-out days": partial(where, frame, held)},
            columns,
            [None],
        )
    return found


def search_of(recording: Recording, seed: int) -> Search:
    """A search in which every setting passes, so that all of them are measured."""
    tell = lambda words: print("  ", words, file=sys.stderr, flush=True)  # noqa: E731  # one use, beside its only caller
    rng = np.random.default_rng(seed)
    return Search(Table(recording.train), recording.columns, "chance", ADVERSARIES, 1.0, 0.95, rng, tell)


def history_at(recording: Recording, frame: Frame, period: float | None) -> tuple[History, Any]:
    """A frame as a history at a period."""
    columns = recording.columns if period is None else replace(recording.columns, period=period)
    return resample_held_readings(Table(frame), columns)


def choose(recording: Recording, models: tuple[str, ...], outputs: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every setting measured on the training days: distortion, best adversary, control."""
    search, rows = search_of(recording, 1), []
    learners = search.learners()
    for period in recording.periods:
        history, resampling = history_at(recording, recording.train, period)
        part = Part(history, history, resampling, Days.of(history))
        for model in models:
            try:
                folds = search.folds(part, model)
            except UnderstudyError as error:
                rows.append({"model": model, "period": period, "failure": str(error)})
                continue
            for output in outputs:
                for fresh in SHARES:
                    setting = Setting(model, period, False, 0.0, output, fresh)
                    try:
                        pieces = [p for k, fold in enumerate(folds) for p in search.disguise(part, k, fold, setting)]
                    except UnderstudyError as error:
                        rows.append({**setting._asdict(), "failure": str(error)})
                        continue
                    name, accuracy, _ = search.attack(folds[0].family, pieces, learners, 0.05)
                    size = distortion_of(pieces)
                    rows.append({**setting._asdict(), "distortion": size, "accuracy": accuracy, "adversary": name})
                    search.tell(f"{setting}: {100 * size:.1f} percent, {accuracy:.3f}")
    return rows


def pick(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The least distorting setting within the margin of its control, which is the mean of its path at a share of 1."""
    good = [row for row in rows if "failure" not in row]
    control = float(np.mean([row["accuracy"] for row in good if row["fresh"] == 1.0]))
    within = [row for row in good if row["accuracy"] <= max(control, 0.5) + MARGIN]
    return {**min(within, key=lambda row: row["distortion"]), "control": control}


def judge(recording: Recording, frame: Frame, chosen: dict[str, Any]) -> dict[str, Any]:
    """One test recording at the setting that was chosen, at its control, and as it is."""
    setting = Setting(*(chosen[name] for name in Setting._fields))
    train, resampling = history_at(recording, recording.train, setting.period)
    test, _ = history_at(recording, frame, setting.period)
    own = days = Days.of(replace(train, segments=train.segments + test.segments))
    search = search_of(recording, 2)
    part = Part(train, test, resampling, days)
    learners = search.learners()
    family, learn, last = search.fit(train, test, setting.model, resampling)
    figures: dict[str, Any] = {"days": len(np.unique(np.concatenate(own.each(last))))}
    for name, this in (("chosen", setting), ("control", setting._replace(fresh=1.0))):
        outside: list[float] = []
        inside: list[float] = []
        sizes: list[float] = []
        for _ in range(SEEDS):
            both = search.disguise(part, 0, Fold(family, learn, last), this)
            made, pieces = ([p for p in both if (p.fold == 0) is judged] for judged in (True, False))
            best = search.judge(family, pieces, made, learners)
            outside.append(best[1])
            inside.append(insider(search, family, made, learners)[0])
            sizes.append(distortion_of(made))
        figures[name] = {
            "outsider": spread(outside),
            "insider": spread(inside),
            "distortion": spread(sizes),
        }
    raw = [Piece(0, s, days(s), np.array(s.Y)) for s in complete(train).segments]
    raw_test = [Piece(-1, s, own(s), np.array(s.Y)) for s in complete(test).segments]
    figures["raw"] = {
        "outsider": search.judge(family, raw, raw_test, learners)[1],
        "insider": insider(search, family, raw_test, learners)[0],
    }
    Y = np.concatenate([p.segment.Y for p in raw_test])
    centre = np.median(np.concatenate([p.segment.Y for p in raw]))
    figures["constant"] = float(np.abs(Y - centre).mean() / Y.mean())
    accuracy = figures["chosen"]["outsider"][0]
    levels = sorted({0.5, 0.6, 0.7, round(min(0.95, max(0.5, accuracy)), 3)})
    found = distortion_limit(replace(test, segments=tuple(p.segment for p in raw_test)), accuracies=levels)
    figures["limit"] = dict(zip(map(str, found.accuracies), found.percent[0], strict=True))
    return figures


def insider(search: Search, family: Any, pieces: list[Piece], learners: Any) -> tuple[float, float]:
    """The best adversary who learned from other days of the same recording: each day is judged once."""
    cut = []
    for piece in pieces:
        edges = [0, *(np.flatnonzero(np.diff(piece.days)) + 1).tolist(), len(piece.days)]
        cut += [
            Piece(int(piece.days[a]), piece.segment.cut(a, b), piece.days[a:b], piece.output[a:b])
            for a, b in pairwise(edges)
            if b - a >= 8
        ]
    known = sorted({piece.fold for piece in cut})
    folds = {day: k % min(5, len(known)) for k, day in enumerate(known)}
    dealt = [piece._replace(fold=folds[piece.fold]) for piece in cut]
    cases = cases_of(dealt, len(family.values), False)
    best = (0.0, 0.0)
    for learner in learners.values():
        found = search.guesses(family, dealt, cases, learner)
        if found is not None:
            value, upper, _ = limits(found, None, 0.025)
            best = max(best, (value, upper))
    return best


def spread(values: list[float]) -> list[float]:
    """Mean, least and greatest."""
    return [round(float(x), 4) for x in (np.mean(values), np.min(values), np.max(values))]


def main() -> None:
    """Choose on training days, write and hash the choice, then open the test recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("study"))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--outputs", nargs="*", default=["least-change", "lifelike"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    given.out.mkdir(parents=True, exist_ok=True)
    for name, recording in recordings(given.data).items():
        if given.only and name not in given.only:
            continue
        began = time.process_time()
        rows = choose(recording, tuple(given.models), tuple(given.outputs))
        chosen = pick(rows)
        stem = name.replace(" ", "_")
        text = json.dumps({"chosen": chosen, "rows": rows}, indent=1)
        (given.out / f"{stem}_choice.json").write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        print(name, "chosen on training days:", chosen, "sha256", digest[:16], flush=True)
        found = {test: judge(recording, frame(), chosen) for test, frame in recording.tests.items()}
        seconds = round(time.process_time() - began, 1)
        result = {"choice": digest, "chosen": chosen, "tests": found, "cpu_seconds": seconds}
        (given.out / f"{stem}.json").write_text(json.dumps(result, indent=1))
        for test, figures in found.items():
            print(name, test, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
