"""Protection at zero budget on real recordings: chosen on training days, judged on other recordings.

*Choosing.* Every setting (model class, period, output, fresh share) is measured on the training days alone, by
`understudy.adversaries.tuning`: models, targets and adversaries have not seen the day that is attacked. The figures go
to a file, whose SHA-256 is kept with the results, before a test recording is opened. From these figures `PICKS` follow:

- *chosen*: the least distorting setting whose best adversary stays within `MARGIN` of the control;
- *older classes*: the same without `us.Adaptive`;
- *0.70*: the least distorting setting whose best adversary stays below 0.70.

*Judging.* Each test recording is disguised `SEEDS` times by each setting. *Outsiders* learn from the disguised training
days, *insiders* from other days of the test recording. The *control* is the same setting with a fresh share of 1: an
output that does not depend on the readings. What adversaries find there they find by the shape of labels and chance.
Beside them stand the raw readings, a constant, white and slow noise and a coin of equal distortion, and the least
distortion of any method (`us.distortion_limit`). The scores of every model class are attacked as the gate attacks them.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from studies.real_data.data import Frame, candanedo, iotsec, robod, sdu, where
from understudy.adversaries.datasets import noise_scale
from understudy.adversaries.knowledge import Learner
from understudy.adversaries.rivals import HALF_LIFE, constant_output, distortion_limit, slow_noise
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
from understudy.identify.detection import detect
from understudy.identify.fit import resample_held_readings
from understudy.identify.history import History
from understudy.identify.resample import Columns
from understudy.identify.selection import log_densities, scores
from understudy.models.family import Family
from understudy.tables.table import Table

MARGIN = 0.03
SEEDS = 5
ADVERSARIES = ("boosting", "logistic", "hmm")
ADAPTIVE = "adaptive"
MODELS = (ADAPTIVE, "AR(1), Student-t", "AR(2), free noise by class")
VECTORS = ("VAR(1), normal", "VAR(1), Student-t")
OUTPUTS = ("least-change", "lifelike")
SHARES = (1.0, 0.95, 0.9, 0.8, 0.65, 0.5, 0.0)
FEWER = (1.0, 0.9, 0.65, 0.0)
LEVELS = (0.5, 0.6, 0.7)
"""Balanced accuracies at which the limit is stated."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A room: training rows, test rows by name (opened when they are asked for), columns, and what is tried."""

    train: Frame
    tests: Mapping[str, Callable[[], Frame]]
    columns: Columns
    periods: tuple[float | None, ...] = (None,)
    models: tuple[str, ...] = MODELS
    shares: tuple[float, ...] = SHARES


def subjects(root: Path) -> dict[str, Callable[[], Subject]]:
    """Every room by name; the first five make the six recordings of the headline figures."""
    found: dict[str, Callable[[], Subject]] = {"candanedo": partial(_office, root)}
    found |= {f"sdu {number}": partial(_classroom, root, number) for number in (1, 2, 3, 4)}
    found |= {f"robod {number}": partial(_control_room, root, number) for number in (1, 2, 3)}
    return found | {f"iotsec {place}": partial(_climate, root, place) for place in "ABC"}


HEADLINE = ("candanedo", "sdu 1", "sdu 2", "sdu 3", "sdu 4")


def _office(root: Path) -> Subject:
    """One office; two test files."""
    frames = candanedo(root)
    tests = {name: partial(frames.__getitem__, name) for name in ("test", "test2")}
    return Subject(frames["train"], tests, Columns("CO2", "Occupancy", "date"), (300.0, 900.0))


def _classroom(root: Path, number: int) -> Subject:
    """A room of OU44 at 15 min; one day of three is held out."""
    frame = sdu(root, number)
    held = frame["day"] % 3 == 2
    columns = Columns("co2", "people", "time", "day", 900.0, "0,1+")
    return Subject(where(frame, ~held), {"held-out days": partial(where, frame, held)}, columns)


def _control_room(root: Path, number: int) -> Subject:
    """A room of ROBOD at 5 min; the last third of the time is held out."""
    frame = robod(root, number)
    cut = np.sort(frame["time"])[len(frame["time"]) * 2 // 3]
    tests = {"last third": partial(where, frame, frame["time"] >= cut)}
    columns = Columns("co2", "present", "time")
    return Subject(where(frame, frame["time"] < cut), tests, columns, (None,), MODELS[:2], FEWER)


def _climate(root: Path, place: str) -> Subject:
    """Node 1 of a location, temperature and humidity at 2 min; one file of three is held out."""
    frame = iotsec(root)[place]
    frame = where(frame, frame["node"] == 1)
    held = frame["file"] % 3 == 2
    columns = Columns(["T", "RH"], "people", "seconds", "file", 120.0)
    tests = {"held-out files": partial(where, frame, held)}
    return Subject(where(frame, ~held), tests, columns, (None,), VECTORS, FEWER)


# Choosing, on training days ------------------------------------------------------------------------------------------


def search_of(subject: Subject, seed: int, over: str = "chance") -> Search:
    """A search in which every setting passes, so that all of them are measured."""
    rng = np.random.default_rng(seed)
    return Search(
        Table(subject.train), subject.columns, over, ADVERSARIES, 1.0, 0.95, rng, lambda _share, words: _tell(words)
    )


def _tell(words: str) -> None:
    print("  ", words, file=sys.stderr, flush=True)


def history_at(subject: Subject, frame: Frame, period: float | None) -> tuple[History, Any]:
    """A frame as a history at a period."""
    columns = subject.columns if period is None else replace(subject.columns, period=period)
    return resample_held_readings(Table(frame), columns)


def measure_settings(subject: Subject) -> list[Row]:
    """Every setting measured on the training days: distortion and best adversary, or why it cannot be used."""
    search, rows = search_of(subject, 1), list[Row]()
    learners = search.learners()
    for period in subject.periods:
        history, resampling = history_at(subject, subject.train, period)
        part = Part(history, history, resampling, Days.of(history))
        for model in subject.models:
            try:
                folds = search.folds(part, model, 0.0)
            except UnderstudyError as error:
                rows.append({"model": model, "period": period, "failure": str(error)})
                continue
            for output in OUTPUTS:
                for fresh in subject.shares:
                    setting = Setting(model, period, False, 0.0, output, fresh)
                    try:
                        pieces = [p for k, fold in enumerate(folds) for p in search.disguise(part, k, fold, setting)]
                    except UnderstudyError as error:
                        rows.append({**setting._asdict(), "failure": str(error)})
                        continue
                    name, accuracy, _ = search.attack(folds[0].family, pieces, learners, 0.05)
                    size = distortion_of(pieces)
                    rows.append({**setting._asdict(), "distortion": size, "accuracy": accuracy, "adversary": name})
                    _tell(f"{setting}: {100 * size:.1f} percent, {accuracy:.3f}")
    return rows


def pick(rows: list[Row], limit: float | None = None, models: tuple[str, ...] | None = None) -> Row | None:
    """The least distorting setting of all walks: each path is walked from a share of 1 down, to its first failure.

    A setting fails where its best adversary is beyond the limit, or beyond the control by more than the margin. The
    control is the mean over all settings with a share of 1. A walk that ends at a failure is not taken in by a lucky
    figure further down.
    """
    good = [row for row in rows if "failure" not in row and (models is None or row["model"] in models)]
    if not good:
        return None
    control = float(np.mean([row["accuracy"] for row in good if row["fresh"] == 1.0]))
    most = max(control, 0.5) + MARGIN if limit is None else limit
    path = itemgetter("model", "output")
    order = sorted(good, key=lambda row: (*path(row), row["period"] or 0.0, -row["fresh"]))
    within: list[Row] = []
    for _, those in groupby(order, key=lambda row: (*path(row), row["period"])):
        within += takewhile(lambda row: row["accuracy"] <= most, those)
    if not within:
        return None
    return {**min(within, key=itemgetter("distortion")), "control": round(control, 4)}


def picks(rows: list[Row]) -> dict[str, Row | None]:
    """The settings that are judged, each by the rule that chose it."""
    older = tuple(sorted({row["model"] for row in rows} - {ADAPTIVE}))
    return {"chosen": pick(rows), "older classes": pick(rows, models=older), "0.70": pick(rows, limit=0.7)}


# Judging, on recordings that were closed -----------------------------------------------------------------------------


class Stage:
    """One test recording at one period: both histories, and the adversaries."""

    def __init__(self, subject: Subject, frame: Frame, period: float | None) -> None:
        self.train, self.resampling = history_at(subject, subject.train, period)
        self.test, _ = history_at(subject, frame, period)
        self.days = Days.of(replace(self.train, segments=self.train.segments + self.test.segments))
        self.search = search_of(subject, 2)
        self.clock = search_of(subject, 3, "clock")
        self.learners = self.search.learners()

    def family(self, model: str) -> Family:
        """The family of a class for all training days."""
        return self.search.fit(self.train, self.test, model, self.resampling)[0]

    def judge(self, setting: Setting, chance: bool = False) -> Row:
        """Outsiders, insiders and distortion over the seeds: mean, least and greatest; `chance`: of fresh scores."""
        family, learn, last = self.search.fit(self.train, self.test, setting.model, self.resampling)
        part = Part(self.train, self.test, self.resampling, self.days)
        found = dict[str, list[float]](outsider=[], insider=[], distortion=[])
        intervals: list[tuple[float, float]] = []
        for _ in range(SEEDS):
            both = self.search.disguise(part, 0, Fold(family, learn, last), setting, chance)
            made, pieces = ([p for p in both if (p.fold == 0) is judged] for judged in (True, False))
            _, accuracy, low, high = self.search.judge(family, pieces, made, self.learners)
            found["outsider"].append(accuracy)
            found["insider"].append(self.insider(family, made))
            found["distortion"].append(distortion_of(made))
            intervals.append((low, high))
        interval = [round(float(x), 4) for x in np.mean(intervals, axis=0)]
        return {**{name: spread(values) for name, values in found.items()}, "interval": interval}

    def insider(self, family: Family, pieces: list[Piece]) -> float:
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
        counted = [self.search.guesses(family, dealt, cases, learner) for learner in self.learners.values()]
        return max((limits(found, None, 0.025)[0] for found in counted if found is not None), default=math.nan)

    def raw(self) -> tuple[list[Piece], list[Piece]]:
        """Raw readings to learn from and to be judged on."""
        parts = (0, complete(self.train)), (-1, complete(self.test))
        learn, judge = (
            [Piece(fold, s, self.days(s), np.array(s.Y)) for s in history.segments] for fold, history in parts
        )
        return learn, judge

    def rivals(self, family: Family, distortion: float) -> Row:
        """Raw readings, a constant, and noise of a distortion, attacked by outsiders; the limit."""
        learn, judge = self.raw()
        Y = np.concatenate([p.segment.Y for p in judge])
        history = np.concatenate([p.segment.Y for p in learn])
        means = np.abs(np.nanmean(Y, axis=0))
        constant = float((np.nanmean(np.abs(Y - constant_output(Y, history)), axis=0) / means).mean())
        raw = self.search.judge(family, learn, judge, self.learners)[1]
        found: Row = {"raw": raw, "raw insider": self.insider(family, judge), "constant": constant}
        found["raw over clock"] = self._over_clock(family, learn, judge)
        scale = np.array([noise_scale(float(x)) for x in distortion * means])
        rng = np.random.default_rng(4)
        for name, half in (("white noise", 0.0), ("slow noise", HALF_LIFE / float(self.test.period or 60.0))):
            noisy = (
                [
                    p._replace(output=p.output + scale * slow_noise(*p.output.shape, half, rng))
                    for p in those
                    for _ in range(2)
                ]
                for those in (learn, judge)
            )
            found[name] = self.search.judge(family, *noisy, self.learners)[1]
        found["coin"] = raw - (raw - 1.0 / len(family.values)) * min(1.0, distortion / constant)
        return {name: round(float(value), 4) for name, value in found.items()}

    def _over_clock(self, family: Family, learn: list[Piece], judge: list[Piece]) -> float:
        if any(piece.segment.times is None for piece in learn + judge):
            return math.nan
        learners: dict[str, Learner] = self.clock.learners()
        return self.clock.judge(family, learn, judge, learners)[1]

    def limit(self, accuracies: list[float]) -> dict[str, float]:
        """The least distortion of any method at these accuracies, in percent; the mean over channels."""
        judged = replace(self.test, segments=complete(self.test).segments)
        least = 1.0 / len({int(t) for s in judged.segments for t in s.theta})
        asked = sorted({round(min(0.99, max(least, a)), 3) for a in accuracies})
        found = distortion_limit(judged, accuracies=asked)
        percent = np.mean(np.array(found.percent), axis=0)
        return {str(a): round(float(x), 3) for a, x in zip(asked, percent, strict=True)}

    def models(self, names: tuple[str, ...]) -> dict[str, Row]:
        """For each class: held-out log-likelihood a reading, and the attack on its scores in this recording."""
        found: dict[str, Row] = {}
        for name in names:
            try:
                family, _, last = self.search.fit(self.train, self.test, name, self.resampling)
            except UnderstudyError as error:
                found[name] = {"failure": str(error)}
                continue
            models = {value: family.model(value) for value in family.values}
            density = np.concatenate(log_densities(models, last))
            attack = detect(
                scores(models, last, rng=5),
                [s.theta for s in last.segments],
                [s.times for s in last.segments],
                rng=6,
                zone=last.zone,
            )
            windows = [
                {"window": w.window, "excess": round(w.excess, 4), "interval": [round(w.low, 4), round(w.high, 4)]}
                for w in attack.windows
            ]
            found[name] = {"log-likelihood": round(float(np.nanmean(density)), 4), "scores": windows}
        return found


def judge(subject: Subject, frame: Frame, chosen: Mapping[str, Row | None]) -> Row:
    """One test recording by every setting that was picked."""
    stages: dict[float | None, Stage] = {}
    known: dict[Setting, Row] = {}
    found: Row = {}

    def figures(setting: Setting) -> Row:
        stage = stages.setdefault(setting.period, Stage(subject, frame, setting.period))
        if setting not in known:
            known[setting] = stage.judge(setting)
        return known[setting]

    for name, row in chosen.items():
        if row is None:
            continue
        setting = Setting(*(row[field] for field in Setting._fields))
        found[name] = {**setting._asdict(), **figures(setting), "control": figures(setting._replace(fresh=1.0))}
        stage = stages[setting.period]
        family = stage.family(setting.model)
        found[name]["rivals"] = stage.rivals(family, found[name]["distortion"][0])
        found[name]["limit"] = stage.limit([*LEVELS, found[name]["outsider"][0]])
        _tell(f"{name}: {found[name]}")
    first = stages[next(iter(stages))]
    found["days"] = len(np.unique(np.concatenate(first.days.each(complete(first.test)))))
    found["models"] = first.models(subject.models)
    return found


def controls(root: Path, choices: Path, names: tuple[str, ...] = HEADLINE) -> dict[str, Row]:
    """The chosen settings of these rooms on their test recordings, the same outputs driven by fresh scores alone."""
    found = {}
    for name in names:
        subject = subjects(root)[name]()
        chosen = pick(json.loads((choices / f"{name.replace(' ', '_')}.json").read_text(encoding="utf-8"))["rows"])
        if chosen is None:
            continue
        setting = Setting(*(chosen[field] for field in Setting._fields))
        for test, frame in subject.tests.items():
            found[f"{name}, {test}"] = Stage(subject, frame(), setting.period).judge(setting, chance=True)
            _tell(f"{name}, {test}: {found[f'{name}, {test}']}")
    return found


def spread(values: list[float]) -> list[float]:
    """Mean, least and greatest."""
    return [round(float(x), 4) for x in (np.mean(values), np.min(values), np.max(values))]


def run(name: str, subject: Subject, choices: Path, only_choose: bool = False) -> Row | None:
    """Choose on training days, write and hash the figures of the choice, then open the test recordings."""
    path = choices / f"{name.replace(' ', '_')}.json"
    began = time.process_time()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": measure_settings(subject)}, indent=1) + "\n", encoding="utf-8")
    written = path.read_bytes()
    chosen = picks(json.loads(written)["rows"])
    digest = hashlib.sha256(written).hexdigest()
    _tell(f"{name}: choice {digest}, {chosen}")
    if only_choose:
        return None
    tests = {test: judge(subject, frame(), chosen) for test, frame in subject.tests.items()}
    return {"choice": digest, "picks": chosen, "tests": tests, "seconds": round(time.process_time() - began, 1)}
