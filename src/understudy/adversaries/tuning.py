"""Tuning by measurement: the design of least distortion that adversaries on real days do not see through.

Where models are wrong, no theorem says what an output tells. It can be measured: a design is applied to days that
nothing was fitted to, adversaries learn from the outputs of other days, and the best of them is judged by the upper
confidence limit of its balanced accuracy. `tune` looks for the least distortion at which that limit is at most a given
number, over six choices: model class, period, output, fresh share, budget and clock.

What makes the figure valid:

- *Nothing has seen the day that is attacked.* Days are dealt out in blocks of neighbours, the *folds*. The outputs of a
  fold are made by models and targets that were fitted without it, and the adversary learns from what the same design
  makes of the other folds.
- *Days are the unit.* Readings of a day are dependent, so the variance of an accuracy is that of its sums over days.
- *The order is fixed beforehand.* All but the fresh share names a *path*. On a path the largest share comes first, for
  it costs most, whatever was measured. The walk ends at the first setting that fails, so a path needs no correction
  for the number of its settings (fixed-sequence testing). The level is divided by the number of paths (Bonferroni).
- *All adversaries must stay within the limit*, each at the whole level of a path: where one of them is in truth beyond
  what is allowed, the limit of that one would have to be wrong (an intersection-union test), so their number needs no
  correction.
- *Too few days are refused.* With a fresh share of 1 the output does not depend on the readings. If such an output
  would not pass, nothing could, and the result says so.
- *The last figure is from days that tuning never saw*: the last quarter of the days.

The result is measured against these adversaries. It is no promise; the theorem's part of the design stands beside it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Ints, Mask, Seed
from understudy.adversaries.audit import REFERENCES, roster
from understudy.adversaries.datasets import DesignRun, hours_and_days, noise_scale, ticks_of_week
from understudy.adversaries.knowledge import Cases, Knowledge, Learner
from understudy.adversaries.statistics import Guesses, guesses_of
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.identify.fit import Identifier, align, columns_of, resample_held_readings
from understudy.identify.grid import ManyLimits
from understudy.identify.history import History, Segment
from understudy.identify.resample import Columns
from understudy.identify.selection import scores
from understudy.models.family import Family
from understudy.models.model import as_target
from understudy.randomizer.causal import CausalDesign, design_causal
from understudy.randomizer.causal import at_most as rate_of
from understudy.randomizer.least_change import Scored
from understudy.tables.table import Table
from understudy.tables.times import SECOND, hours, seconds
from understudy.transform.core import colour

if TYPE_CHECKING:
    from understudy.tables.table import Frame

ADVERSARIES = ("boosting", "logistic", "hmm")
"""Who attacks unless others are named: the strongest first, so that a setting that fails does so soon."""

MODELS = ("adaptive", "AR(1), Student-t", "AR(2), free noise by class")
VECTORS = ("VAR(1), Student-t", "VAR(1), normal")
"""Model classes that are tried for several channels."""
SHARES = (1.0, 0.95, 0.8, 0.5, 0.0)
BUDGETS = (0.0, 1.0)
OUTPUTS = ("least-change", "lifelike")
DECISION = 900.0
"""Seconds from one decision to the next, at least."""
FOLDS = 5
REPLICATES = 4
"""Copies of each day with draws of their own: accuracies are means over the draws, and days stay the unit."""
FEWEST_DAYS = 4
"""Days below which nothing is tuned."""
_LEARNED = -2
"""The fold of pieces that are learned from only."""
_SHORTEST = 8
"""Rows below which a block of readings without a gap is left out."""

Tell = Callable[[float, str], None]


# What is tried, and what came out ---------------------------------------------------------------------------


class Setting(NamedTuple):
    """One choice of all six."""

    model: str
    period: float | None
    """Seconds; None is the period of the data."""
    clock: bool
    budget: float
    """Nats a day."""
    output: str
    fresh: float

    @property
    def path(self) -> tuple[str, float, bool, float, str]:
        """What names the path that the setting is on."""
        return self.model, self.period or 0.0, self.clock, self.budget, self.output


class Outcome(enum.Enum):
    """How a search ended."""

    FOUND = "found"
    TOO_FEW_DAYS = "too few days"
    NOTHING_PASSED = "nothing passed"


class Step(NamedTuple):
    """A setting that was measured: what it costs, and what the best adversary reached."""

    setting: Setting
    distortion: float
    """Mean absolute change on days that nothing was fitted to, the mean over channels of the share of its mean."""
    adversary: str
    accuracy: float
    """Balanced accuracy of the adversary whose upper limit is the highest, or its gain over the clock."""
    upper: float
    """That limit, at the confidence of the search."""
    passed: bool


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures from the days that tuning never saw."""

    days: int
    distortion: float
    adversary: str
    accuracy: float
    low: float
    high: float
    raw: float
    """What the best adversary reaches on the raw readings of the same days."""
    noise: float
    """What it reaches on raw readings with white noise of the same distortion."""
    constant: float
    """The distortion of a constant output, the median of the tuning days; nobody learns anything from that one."""
    coin: float
    """What a coin by day of the same distortion would leave: on the line from the raw readings to the constant."""
    clock: float | None
    """What the time of day alone tells, without any reading; None where there are no times."""


@dataclass(frozen=True, slots=True, repr=False)
class Tuning:
    """What `tune` found: the design, what is promised, what was measured, and every step on the way."""

    outcome: Outcome
    at_most: float
    over: str
    confidence: float
    days: int
    adversaries: tuple[str, ...]
    steps: tuple[Step, ...]
    chosen: Step | None
    design: CausalDesign | None
    final: Measurement | None
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Tuning({self.outcome.value}, {text.with_count(len(self.steps), 'step')}, {self.days} days)"

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is promised, what was measured, and what it costs."""
        return text.tuning_sentences(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values; no reading, no label and no draw."""
        return {
            "outcome": self.outcome.value,
            "at_most": self.at_most,
            "over": self.over,
            "confidence": self.confidence,
            "days": self.days,
            "adversaries": list(self.adversaries),
            "steps": [_plain_step(step) for step in self.steps],
            "chosen": None if self.chosen is None else _plain_step(self.chosen),
            "promise": None if self.design is None else self.design.rate,
            "decisions_a_day": None if self.design is None else _decisions_a_day(self.design),
            "final": None if self.final is None else {name: getattr(self.final, name) for name in _FINAL},
            "notes": list(self.notes),
        }


_FINAL = tuple(Measurement.__dataclass_fields__)


def _plain_step(step: Step) -> dict[str, Any]:
    return {**step._asdict(), "setting": step.setting._asdict()}


def _decisions_a_day(design: CausalDesign) -> float:
    period = float((design.family.about or {}).get("period") or 60.0)
    return 86400.0 / (period * design.decision_every)


# The search --------------------------------------------------------------------------------------------------


def tune(
    frame: Frame | Table,
    *,
    at_most: float = 0.65,
    family: Family | None = None,
    reading: Any = None,
    private: str | None = None,
    time: str | None = None,
    segment: Any = None,
    period: Any = None,
    bins: Any = None,
    day_first: bool = False,
    limits: ManyLimits | None = None,
    over: str = "chance",
    models: Iterable[str] | None = None,
    periods: Iterable[Any] | None = None,
    clocks: Iterable[bool] | None = None,
    outputs: Iterable[str] = OUTPUTS,
    fresh: Iterable[float] = SHARES,
    budgets: Iterable[float] = BUDGETS,
    adversaries: Iterable[str] = ADVERSARIES,
    confidence: float = 0.95,
    rng: Seed = 0,
    progress: Tell | None = None,
) -> Tuning:
    """The least distortion for which the best adversary, measured on held-out days, is kept to `at_most`.

    Parameters
    ----------
    frame : dataframe or mapping of columns
        Labelled history, as for `us.fit`.
    at_most : float
        The greatest upper confidence limit of the best adversary's balanced accuracy; with ``over="clock"`` of its
        gain over an adversary who has the clock alone.
    family : Family, optional
        A family from `us.fit`, which says what the columns are; in place of the eight that follow.
    reading, private, time, segment, period, bins, day_first, limits
        The columns of the history, as in `us.fit`.
    over : "chance" or "clock"
        What the adversary is compared with.
    models, periods, clocks, outputs, fresh, budgets
        What is tried: model classes of `us.fit` (by default that of the `family` among them), periods (None is that of
        the data), designs without and with a public clock, outputs and fresh shares of `us.design_causal`, and budgets
        in nats a day. By default designs by the clock are tried where adversaries are compared with it: their outputs
        show the routine, which counts as accuracy over chance.
    adversaries : names
        Learners of `us.audit`.
    confidence : float
        Of the limit of the best adversary, over all paths together.
    rng : seed
        For draws, auxiliary uniforms and learners.
    progress : function of a share and a sentence, optional
        Hears how much of the work is done, from 0 to 1, and what each step came to.

    Returns
    -------
    Tuning
        With the design, fitted to all days but the last quarter, and the figures of those days.

    """
    if over not in ("chance", "clock"):
        raise ConfigurationError(f"over = {over!r}; it must be 'chance' or 'clock'")
    least = 0.0 if over == "clock" else 0.5
    if not isinstance(at_most, (int, float)) or isinstance(at_most, bool) or not least < at_most < 1.0:
        raise ConfigurationError(f"at_most = {at_most!r}; it must lie between {least} and 1")
    if not 0.5 <= confidence < 1.0:
        raise ConfigurationError(f"confidence = {confidence!r}; it must lie in [0.5, 1)")
    table = frame if isinstance(frame, Table) else Table(frame)
    if family is not None:
        columns, limits = columns_of(family), (family.about or {}).get("limits")
    elif reading is None or private is None:
        raise ConfigurationError("reading and private name columns of the history; both are needed without a family")
    else:
        columns = Columns(reading, private, time, segment, period, bins, day_first=day_first)
    tell = progress or (lambda _share, _words: None)
    if models is None:
        own = ((family.about or {}).get("model") or {}).get("name") if family is not None else None
        usual = VECTORS if len(columns.readings) > 1 else MODELS
        models = usual if own is None else dict.fromkeys((*usual, str(own)))
    if clocks is None:
        clocks = (False, True) if over == "clock" else (False,)
    settings = _settings(table, columns, models, periods, clocks, outputs, fresh, budgets)
    chance = np.random.default_rng(rng)
    search = Search(table, columns, over, tuple(adversaries), at_most, confidence, chance, tell, limits)
    return search.run(settings)


def _settings(
    table: Table,
    columns: Columns,
    models: Iterable[str],
    periods: Iterable[Any] | None,
    clocks: Iterable[bool],
    outputs: Iterable[str],
    fresh: Iterable[float],
    budgets: Iterable[float],
) -> list[Setting]:
    """Every combination; the periods are those named, or that of the data and a quarter of an hour."""
    given = [None if p is None else seconds(p) for p in periods] if periods is not None else None
    if given is None:
        own = resample_held_readings(table, columns)[0].period
        given = [None] if columns.time is None or own is None or own >= 450.0 else [900.0, None]
    axes = (tuple(models), given, tuple(clocks), tuple(budgets), tuple(outputs), tuple(fresh))
    for name, axis in zip(("models", "periods", "clocks", "budgets", "outputs", "fresh"), axes, strict=True):
        if not axis:
            raise ConfigurationError(f"{name} is empty; at least one is needed")
    return [Setting(m, p, c, float(b), o, float(s)) for m, p, c, b, o, s in product(*axes)]


class Part(NamedTuple):
    """A history at one period: the days for tuning, the last quarter of them, and how rows were put together."""

    tuned: History
    final: History
    resampling: dict[str, Any] | None
    days: Days


class Fold(NamedTuple):
    """One block of days, and the family that was fitted without it."""

    family: Family
    learn: History
    judge: History
    scored: Scored | None = None
    """What is learned from with its scores, where several designs need them."""

    def with_scores(self) -> Fold:
        """The same, scored; as it is where nothing can be scored, which the designs then say."""
        try:
            return self._replace(scored=Scored.of(self.family, self.learn))
        except UnderstudyError:
            return self


class Piece(NamedTuple):
    """A block of readings, disguised."""

    fold: int
    """The fold in which it is judged; it is learned from in the others."""
    segment: Segment
    days: Ints
    output: Array
    design: int = -1
    """The fold that the design was fitted without; -1 where one design serves all folds."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search over settings: what it is made on, who attacks, and what is allowed."""

    table: Table
    columns: Columns
    over: str
    adversaries: tuple[str, ...]
    at_most: float
    confidence: float
    rng: np.random.Generator
    tell: Tell
    limits: ManyLimits | None = None

    def run(self, settings: list[Setting]) -> Tuning:
        """Walk every path, and measure the best setting again on the days that are left."""
        paths = [
            (path, list(those)) for path, those in groupby(sorted(settings, key=lambda s: s.path), key=lambda s: s.path)
        ]
        learners = self.learners()
        level = (1.0 - self.confidence) / len(paths)
        notes: list[str] = []
        steps: list[Step] = []
        parts: dict[float | None, Part] = {}
        days, refused = 0, False
        fitted: dict[tuple[str, float | None], list[Fold]] = {}
        for number, (_, those) in enumerate(paths):
            at = number / len(paths)
            model, period = those[0].model, those[0].period
            if period not in parts:
                parts[period] = self.split(period)
            part = parts[period]
            days = max(days, len(np.unique(np.concatenate(part.days.each(part.tuned)))))
            try:
                folds = fitted.setdefault((model, period), []) or self.folds(part, model, at)
                fitted[model, period] = folds
            except UnderstudyError as error:
                notes.append(text.tuning_note("path", model=model, period=period, why=str(error)))
                continue
            walked = self.walk(part, folds, those, learners, level, notes, at)
            first = walked[0] if walked else None
            if first is not None and first.setting.fresh == 1.0 and not first.passed:
                # the output of a design by the clock tells something even if no reading enters it
                refused = refused or self.over == "clock" or not first.setting.clock
            steps += walked
        passed = [step for step in steps if step.passed]
        if not passed:
            outcome = Outcome.TOO_FEW_DAYS if refused else Outcome.NOTHING_PASSED
            return self._result(outcome, days, steps, None, None, None, learners, notes)
        chosen = min(passed, key=lambda step: step.distortion)
        setting = chosen.setting
        design, learn, final = self.measure(parts[setting.period], setting, learners)
        found = self._result(Outcome.FOUND, days, steps, chosen, design, final, learners, notes)
        return replace(found, design=make_design(with_measurement(design.family, found), setting, learn))

    def _result(
        self,
        outcome: Outcome,
        days: int,
        steps: list[Step],
        chosen: Step | None,
        design: CausalDesign | None,
        final: Measurement | None,
        learners: Mapping[str, Learner],
        notes: list[str],
    ) -> Tuning:
        return Tuning(
            outcome, self.at_most, self.over, self.confidence, days, tuple(learners), tuple(steps), chosen, design,
            final, tuple(notes),
        )  # fmt: skip

    def learners(self) -> dict[str, Learner]:
        """The adversaries that can be run."""
        found = {name: learner for name, learner in roster(self.adversaries).items() if name not in REFERENCES}
        usable = {name: learner for name, learner in found.items() if not isinstance(learner, str)}
        if not usable:
            raise ConfigurationError(f"no adversary can be run: {found}")
        return usable

    def split(self, period: float | None) -> Part:
        """The history at a period, the last quarter of its days apart."""
        columns = self.columns if period is None else replace(self.columns, period=period)
        history, resampling = resample_held_readings(self.table, columns)
        # without times the blocks that stand for days are counted once, in segments of their own
        days = Days.of(history)
        if any(segment.times is None for segment in history.segments):
            history = _cut_in_blocks(history, days.length)
            days = Days.of(history)._replace(length=history.rows)
        number = days.each(history)
        every = np.unique(np.concatenate(number))
        if len(every) < FEWEST_DAYS:
            raise ConfigurationError(
                f"the history has {text.with_count(len(every), 'day')}; tuning needs at least {FEWEST_DAYS}"
            )
        final = [np.isin(n, every[-max(1, len(every) // 4) :]) for n in number]
        return Part(_where(history, [~f for f in final]), _where(history, final), resampling, days)

    def folds(self, part: Part, model: str, at: float) -> list[Fold]:
        """Blocks of neighbouring days, each with a family that was fitted to the others; `at` is for the progress."""
        number = part.days.each(part.tuned)
        every = np.unique(np.concatenate(number))
        made: list[Fold] = []
        for those in np.array_split(every, min(FOLDS, len(every))):
            held = [np.isin(n, those) for n in number]
            learn, judge = _where(part.tuned, [~h for h in held]), _where(part.tuned, held)
            made.append(Fold(*self.fit(learn, judge, model, part.resampling)))
            self.tell(at, text.tuning_note("fitted", model=model, done=len(made), total=min(FOLDS, len(every))))
        return made

    def fit(self, learn: History, judge: History, model: str, resampling: Any) -> tuple[Family, History, History]:
        """A family of one model class for some days, and both parts as its models take them."""
        given = Identifier(private=self.columns.private, model=model, holdout=None, limits=self.limits)
        made = given.fit_history(learn, resampling)
        family = made.family_
        return family, complete(align(learn, family)), complete(align(judge, family))

    def walk(
        self,
        part: Part,
        folds: list[Fold],
        settings: list[Setting],
        learners: Mapping[str, Learner],
        level: float,
        notes: list[str],
        at: float,
    ) -> list[Step]:
        """The settings of a path, the largest fresh share first, until the first that fails."""
        steps: list[Step] = []
        folds = [fold.with_scores() for fold in folds] if settings[0].output != "lifelike" else folds
        for setting in sorted(settings, key=lambda each: -each.fresh):
            try:
                outputs = [piece for k, fold in enumerate(folds) for piece in self.disguise(part, k, fold, setting)]
            except UnderstudyError as error:
                notes.append(text.tuning_note("setting", **setting._asdict(), why=str(error)))
                continue
            size = distortion_of(outputs)
            name, accuracy, upper = self.attack(folds[0].family, outputs, learners, level)
            steps.append(Step(setting, size, name, accuracy, upper, upper <= self.at_most))
            self.tell(at, text.tuning_note("step", **setting._asdict(), size=size, accuracy=accuracy, upper=upper))
            if not steps[-1].passed:
                break
        return steps

    def disguise(self, part: Part, number: int, fold: Fold, setting: Setting, chance: bool = False) -> list[Piece]:
        """All days by the design that was fitted without a fold, as a stream with this setting would release them.

        With `chance` the same outputs are driven by fresh scores alone: what adversaries find in these is no leak.
        """
        design = make_design(fold.family, setting, fold.scored or fold.learn)
        run = DesignRun(with_fresh_scores(design) if chance else design)

        def output(segment: Segment) -> Array:
            ticks = ticks_of(design, segment, fold.judge.zone)
            return run.run(np.array(segment.Y), segment.theta, self.rng, ticks).output

        parts = (number, fold.judge), (_LEARNED, fold.learn)
        return [
            Piece(which, segment, part.days(segment), output(segment), number)
            for which, history in parts
            for segment in history.segments
            for _ in range(REPLICATES)
        ]

    def attack(
        self, family: Family, outputs: list[Piece], learners: Mapping[str, Learner], level: float
    ) -> tuple[str, float, float]:
        """The adversary with the highest upper limit; the rest are spared once one is beyond what is allowed."""
        worst = ("", -math.inf, -math.inf)
        reference = None
        cases = cases_of(outputs, len(family.values), self.over == "clock")
        if self.over == "clock":
            clock = roster("clock")["clock"]
            reference = None if isinstance(clock, str) else self.guesses(family, outputs, cases, clock)
        for name, learner in learners.items():
            right = self.guesses(family, outputs, cases, learner)
            if right is None:
                continue
            accuracy, upper, _ = limits(right, reference, level)
            if upper > worst[2]:
                worst = name, accuracy, upper
            if upper > self.at_most:
                break
        if not worst[0]:
            raise ConfigurationError("no adversary could learn from these days")
        return worst

    def guesses(self, family: Family, outputs: list[Piece], cases: Cases, learner: Learner) -> Counts | None:
        """Guesses of an adversary who learned from the other folds, counted by day and value."""
        known = _knowledge(family)
        folds, designs = np.array([piece.fold for piece in outputs]), np.array([piece.design for piece in outputs])
        truth, days, right = [], [], []
        for k in np.unique(folds[folds != _LEARNED]):
            same = (designs == k) | (designs == -1)
            learn = cases.sequences(np.flatnonzero(same & (folds != k)))
            judge = cases.sequences(np.flatnonzero(same & (folds == k)))
            if learner.objection(learn, known):
                return None
            prior = learn.counts / learn.counts.sum()
            made = guesses_of(np.asarray(learner.learn(learn, known, self.rng).logits(judge)), judge, prior)
            truth.append(made.truth)
            days.append(made.blocks)
            right.append(_right(made, learn, judge))
        return count_by_day(np.concatenate(truth), np.concatenate(days), np.concatenate(right), len(family.values))

    def measure(
        self, part: Part, setting: Setting, learners: Mapping[str, Learner]
    ) -> tuple[CausalDesign, History, Measurement]:
        """The design for all tuning days, these days, and its figures on the days that are left."""
        family, learn, judge = self.fit(part.tuned, part.final, setting.model, part.resampling)
        design = make_design(family, setting, learn)
        made = self.disguise(part, 0, Fold(family, learn, judge), setting)
        last, outputs = ([p for p in made if (p.fold == 0) is judged] for judged in (True, False))
        raw_last, raw = ([p._replace(output=np.array(p.segment.Y)) for p in those] for those in (last, outputs))
        name, accuracy, low, high = self.judge(family, outputs, last, learners)
        _, told, _, _ = self.judge(family, raw, raw_last, learners)
        size, count = distortion_of(last), len(np.unique(np.concatenate([piece.days for piece in last])))
        noise, constant, clock = self.rivals(family, raw, raw_last, learners, size)
        chance = 0.0 if self.over == "clock" else 1.0 / len(family.values)
        coin = told - (told - chance) * min(1.0, size / constant) if constant > 0.0 else told
        found = Measurement(count, size, name, accuracy, low, high, told, noise, constant, coin, clock)
        return design, learn, found

    def rivals(
        self, family: Family, learn: list[Piece], judge: list[Piece], learners: Mapping[str, Learner], size: float
    ) -> tuple[float, float, float | None]:
        """Raw pieces with white noise of a distortion: the best adversary; a constant: its distortion; the clock."""
        means = np.abs(np.nanmean(np.concatenate([piece.segment.Y for piece in judge]), axis=0))
        scale = np.array([noise_scale(float(wanted)) for wanted in size * means])
        noisy = [
            [p._replace(output=p.output + scale * self.rng.standard_normal(p.output.shape)) for p in those]
            for those in (learn, judge)
        ]
        level = np.nanmedian(np.concatenate([piece.segment.Y for piece in learn]), axis=0)
        flat = [piece._replace(output=np.broadcast_to(level, piece.output.shape)) for piece in judge]
        clock, alone = roster("clock")["clock"], None
        if not isinstance(clock, str) and all(piece.segment.times is not None for piece in [*learn, *judge]):
            m = len(family.values)
            counts = self.count(family, cases_of(learn, m, True), cases_of(judge, m, True), clock)
            alone = None if counts is None else limits(counts, None, 0.5)[0]
        return self.judge(family, noisy[0], noisy[1], learners)[1], distortion_of(flat), alone

    def judge(
        self, family: Family, learn: list[Piece], judge: list[Piece], learners: Mapping[str, Learner]
    ) -> tuple[str, float, float, float]:
        """The best adversary who learned from some days and is judged on others, with its interval."""
        m, best = len(family.values), ("", -math.inf, math.nan, math.nan)
        with_clock = self.over == "clock"
        both = cases_of(learn, m, with_clock), cases_of(judge, m, with_clock)
        level = (1.0 - self.confidence) / (2 * len(learners))
        reference = None
        if with_clock:
            clock = roster("clock")["clock"]
            reference = None if isinstance(clock, str) else self.count(family, *both, clock)
        for name, learner in learners.items():
            right = self.count(family, *both, learner)
            if right is None:
                continue
            accuracy, high, low = limits(right, reference, level)
            if accuracy > best[1]:
                least = -1.0 if with_clock else 0.0
                best = name, accuracy, max(low, least), min(high, 1.0)  # of a single day: anything
        return best

    def count(self, family: Family, learn: Cases, judge: Cases, learner: Learner) -> Counts | None:
        """Guesses of an adversary who learned from some cases, on others; None if it cannot learn from them."""
        known = _knowledge(family)
        if learner.objection(learn, known):
            return None
        prior = learn.counts / learn.counts.sum()
        made = guesses_of(np.asarray(learner.learn(learn, known, self.rng).logits(judge)), judge, prior)
        return count_by_day(made.truth, made.blocks, _right(made, learn, judge), len(family.values))


def with_measurement(family: Family, found: Tuning) -> Family:
    """The family with the figures beside what is known about it, so that the design, its page and `apply` have them."""
    figures = {name: value for name, value in found.to_dict().items() if name not in ("steps", "notes")}
    models = {value: family.model(value) for value in family.values}
    return Family(models, family.values, family.prior, about={**(family.about or {}), "tuning": figures})


def make_design(family: Family, setting: Setting, history: History | Scored) -> CausalDesign:
    """The causal design of a setting for a fitted family."""
    about: dict[str, Any] = dict(family.about or {})
    period = float(about.get("period") or DECISION)
    every = max(1, round(DECISION / period))
    T = np.linalg.matrix_power(np.array(about["chain"]["transition"], dtype=float), every)
    demand: dict[str, Any] = {"slope": 0.0}
    if setting.budget:
        demand = {"rate": rate_of(setting.budget, 86400.0 / (period * every))}
    given: dict[str, Any] = {"fresh": setting.fresh} if setting.fresh else {}
    if isinstance(history, History) and setting.output == "lifelike":
        given["distortion"] = measure_costs(family, history, setting.fresh)
    if setting.output != "lifelike":
        given |= {"output": setting.output, "history": history}
    if setting.clock:
        given["clock"] = True
    transition = None if setting.clock else T / T.sum(axis=1, keepdims=True)
    return design_causal(family, transition, **demand, decision_every=every, **{"distortion": "mae", **given})


def with_fresh_scores(design: CausalDesign) -> CausalDesign:
    """The same draws and the same outputs, but with a fresh share of 1: no reading enters."""
    choices = replace(design._choices, terms=design.terms._replace(fresh=1.0))
    return CausalDesign(design.family, design.beliefs, design.pseudo, design.long_run, choices)


def ticks_of(design: CausalDesign, segment: Segment, zone: str | None) -> Ints | None:
    """The ticks of a public clock at the rows of a segment, from the beginning of a Thursday; None without a clock."""
    if design.clock is None:
        return None
    if segment.times is None:
        raise ConfigurationError("a design by the clock needs readings with times")
    times = np.asarray(segment.times)
    passed = np.asarray((times - times[0]) // SECOND, dtype=float)
    return ticks_of_week(*hours_and_days(times, zone), passed, int(design.clock.tick))


def measure_costs(family: Family, history: History, fresh: float) -> Array:
    """Mean absolute change (m, m) on training days: rows by private value, columns by the value that is played.

    It is measured along the real paths of theta, where costs of `us.costs` are for values that stay.
    """
    m, rng = len(family.values), np.random.default_rng(1)
    models = {value: family.model(value) for value in family.values}
    total, count = np.zeros((m, m)), np.zeros(m)
    for segment, z in zip(history.segments, scores(models, history, rng=1), strict=True):
        w = rng.standard_normal(z.shape)
        mixed = np.where(np.isnan(z), w, math.sqrt(1.0 - fresh * fresh) * z + fresh * w)
        count += np.bincount(segment.theta, minlength=m)
        for j, target in enumerate(map(as_target, models.values())):
            out = np.asarray(colour(mixed if family.dim > 1 else mixed[:, 0], target)).reshape(z.shape)
            total[:, j] += np.bincount(segment.theta, np.abs(segment.Y - out).mean(axis=1), minlength=m)
    return np.asarray(total / np.maximum(count, 1.0)[:, None])


# Days, pieces and cases --------------------------------------------------------------------------------------


class Days(NamedTuple):
    """How the rows of a history are counted in days, for every part of it alike."""

    names: dict[str, int] | None
    """Number of each segment, where segments lie beside each other in time and are days of their own."""
    zone: str | None
    length: int
    """Rows of a block that stands for a day, where there are no times."""

    @classmethod
    def of(cls, history: History) -> Days:
        """The days of a whole history."""
        timed = [np.asarray(s.times) for s in history.segments if s.times is not None and len(s)]
        apart = len(timed) == len(history.segments) and all(a[-1] < b[0] for a, b in pairwise(timed))
        names = list(dict.fromkeys(segment.name for segment in history.segments))
        length = history.rows if len(names) >= 2 * FEWEST_DAYS else max(1, history.rows // 12)
        return cls(None if apart else {name: k for k, name in enumerate(names)}, history.zone, length)

    def __call__(self, segment: Segment) -> Ints:
        """The number of the day of each row.

        >>> day = 86_400 * 10**9
        >>> rows = Segment("1", np.arange(4) * (day // 2), np.zeros((4, 1)), np.zeros(4, dtype=int))
        >>> Days.of(History(("co2",), "people", "t", (), (0,), 43200.0, (rows,), ()))(rows).tolist()
        [0, 0, 1, 1]
        """
        if segment.times is None:
            number = np.arange(len(segment)) // self.length
        else:
            hour = np.asarray(segment.times) // (3600 * SECOND)
            number = (hour - hours(np.asarray(segment.times), self.zone) + 12) // 24
        return np.asarray(number + (0 if self.names is None else 10**6 * self.names[segment.name]), dtype=np.int64)

    def each(self, history: History) -> list[Ints]:
        """The numbers of the rows of every segment."""
        return [self(segment) for segment in history.segments]


def _where(history: History, masks: Sequence[Mask]) -> History:
    """The rows of a history that are marked, as segments without interruption."""
    pieces = []
    for segment, mask in zip(history.segments, masks, strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
        pieces += [segment.cut(a, b) for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]
    return replace(history, segments=tuple(piece for piece in pieces if len(piece)))


def _cut_in_blocks(history: History, length: int) -> History:
    """Segments cut into blocks of so many rows, each with a name of its own."""
    pieces = [s.cut(a, min(a + length, len(s))) for s in history.segments for a in range(0, len(s), length)]
    return replace(history, segments=tuple(replace(piece, name=str(k)) for k, piece in enumerate(pieces)))


def complete(history: History) -> History:
    """Blocks of readings and labels without a gap, the short ones left out."""
    found = _where(history, [segment.used for segment in history.segments])
    return replace(found, segments=tuple(s for s in found.segments if len(s) >= _SHORTEST))


def distortion_of(outputs: Sequence[Piece]) -> float:
    """Mean absolute change of what is judged, as a share of the mean reading; the mean over channels."""
    judged = [piece for piece in outputs if piece.fold != _LEARNED]
    Y = np.concatenate([piece.segment.Y for piece in judged])
    out = np.concatenate([piece.output for piece in judged])
    return float((np.nanmean(np.abs(Y - out), axis=0) / np.abs(np.nanmean(Y, axis=0))).mean())


def cases_of(outputs: Sequence[Piece], m: int, clock: bool) -> Cases:
    """Pieces side by side, padded; the blocks are days."""
    T, N, d = max(len(p.output) for p in outputs), len(outputs), outputs[0].output.shape[1]
    Y, labels = np.full((T, d, N), np.nan), np.full((T, N), -1, dtype=np.int64)
    blocks, hour, weekday = (
        np.zeros((T, N), dtype=np.int64),
        np.full((T, N), np.nan),
        np.full((T, N), -1, dtype=np.int64),
    )
    for j, piece in enumerate(outputs):
        n = len(piece.output)
        Y[:n, :, j], labels[:n, j], blocks[:n, j] = piece.output, piece.segment.theta, piece.days
        blocks[n:, j] = piece.days[-1]
        if clock and piece.segment.times is not None:
            hour[:n, j], weekday[:n, j] = hours_and_days(np.asarray(piece.segment.times), None)
    public: dict[str, Any] = {"hours": hour, "days": weekday} if clock else {}
    return Cases(Y, labels, blocks, m, False, **public)


def _knowledge(family: Family) -> Knowledge:
    """What an adversary is told: the families, and that nothing is known about the draws."""
    m = len(family.values)
    T = np.array((family.about or {})["chain"]["transition"], dtype=float)
    return Knowledge(family, family.values, np.full((m, m), 1.0 / m), family.prior, T, 1, None, None)


# Accuracy and its limits -------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """Right guesses and all guesses, (days, values), for the values that occur."""

    right: Array
    total: Array


def _right(made: Guesses, learn: Cases, judge: Cases) -> Array:
    """Which guesses are right, 1 or 0; one in m of them where the output is one constant, which tells nothing."""
    Y = np.concatenate([learn.outputs.ravel(), judge.outputs.ravel()])
    if np.nanmin(Y) == np.nanmax(Y):
        # a fold may lack a value that the others have
        labels = np.concatenate([learn.labels.ravel(), judge.labels.ravel()])
        return np.full(made.truth.shape, 1.0 / np.unique(labels[labels >= 0]).size)
    return np.asarray(made.fair == made.truth, dtype=float)


def count_by_day(truth: Ints, days: Ints, right: Array | Mask, m: int) -> Counts:
    """Guesses counted by day and value.

    >>> made = count_by_day(np.array([0, 1, 1]), np.array([5, 5, 7]), np.array([True, False, True]), 2)
    >>> made.right.tolist(), made.total.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]])
    """
    _, row = np.unique(days, return_inverse=True)
    n = int(row.max()) + 1 if row.size else 0
    total = np.bincount(row * m + truth, minlength=n * m).reshape(n, m).astype(float)
    good = np.bincount(row * m + truth, weights=right.astype(float), minlength=n * m).reshape(n, m)
    seen = total.sum(axis=0) > 0
    return Counts(np.asarray(good[:, seen], dtype=float), total[:, seen])


def limits(counts: Counts, reference: Counts | None, level: float) -> tuple[float, float, float]:
    """Balanced accuracy, or its gain over a reference, with its upper and its lower limit at a one-sided level.

    A ratio of sums over days. Its variance is that of the linear approximation, by day; limits are Student's, with the
    number of days less one as degrees of freedom.

    >>> made = Counts(np.array([[5.0, 4.0], [6.0, 5.0]]), np.array([[10.0, 10.0], [10.0, 10.0]]))
    >>> accuracy, upper, lower = limits(made, None, 0.05)
    >>> accuracy, round(upper, 3), round(lower, 3)
    (0.5, 0.816, 0.184)
    """
    from scipy.stats import t as student

    total = counts.total.sum(axis=0)
    right = counts.right if reference is None else counts.right - reference.right
    a = right.sum(axis=0) / total
    days, m = right.shape
    influence = ((right - a * counts.total) / total).sum(axis=1) / m
    error = math.sqrt(days / (days - 1) * float(np.square(influence).sum())) if days > 1 else math.inf
    value = float(a.mean())
    wide = 0.0 if error == 0.0 else float(student.isf(level, max(1, days - 1))) * error
    return value, value + wide, value - wide
