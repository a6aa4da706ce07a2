"""`us.audit`: every adversary of the roster against a design or an output, with what each learned and how sure that is.

`ROSTER` names the adversaries. They are loaded when they are needed, as some need packages of their own. An audit makes
its material (`understudy.adversaries.datasets`), lets every adversary learn and guess, with the public clock and
without it, and tests all of them together on each kind of data (`understudy.adversaries.statistics`). Beside the
figures stand the distortion and what is left for honest use (`understudy.adversaries.utility`).
"""

from __future__ import annotations

import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Seed
from understudy.adversaries.datasets import (
    AuditDesign,
    Labels,
    Material,
    Recording,
    ReplayOptions,
    as_table,
    label_shares,
    make_recording,
    mean_distance,
    replay,
    shared_rows,
    simulate,
    with_insiders,
    with_noise,
    with_scores,
)
from understudy.adversaries.knowledge import Cases, Knowledge, Learner, normalise
from understudy.adversaries.learners.calibration import Split, other_days
from understudy.adversaries.results import Audit, Row
from understudy.adversaries.rivals import RivalData, Rivals, compare
from understudy.adversaries.statistics import (
    FEW,
    Attempt,
    Figure,
    Outcome,
    Sums,
    block_interval,
    error_of,
    figures,
    guesses_of,
    hours_of,
    outcomes_of,
    turn_guesses,
)
from understudy.adversaries.utility import Own, Thresholds, Utility, measure_utility
from understudy.errors import ConfigurationError
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.coin import CoinDesign

ROSTER: dict[str, str] = {
    "blind": "calibration:Blind",
    "clock": "calibration:Clock",
    "windowed": "machine_learning:Windowed",
    "logistic": "machine_learning:Logistic",
    "boosting": "machine_learning:Boosting",
    "neighbours": "machine_learning:Neighbours",
    "changes": "machine_learning:Changes",
    "exact": "bayes:Exact",
    "smoother": "bayes:Smoother",
    "hmm": "machine_learning:Hidden",
    "redraws": "bayes:Redraws",
    "grid": "grid:GridInverter",
    "digits": "grid:Digits",
    "bits": "bits:Bits",
    "oracle": "bayes:Oracle",
}
"""Name -> where it is, as module:class of `learners`."""

Adversaries: TypeAlias = str | Iterable[str] | Mapping[str, Learner]
"""What a user gives: "all", a name, several, or learners by name."""

_MODEL_BASED = ("exact", "smoother", "redraws", "grid", "bits", "oracle")

LABEL_LEARNERS = ("windowed", "logistic", "boosting", "neighbours", "changes", "hmm")
"""Those that need labelled outputs alone, and so can attack rivals and scores as well."""
QUICK = ("windowed", "logistic", "boosting")
"""Those of them that insiders use, and that attack scores: several rounds of learning stay affordable."""
REFERENCES = ("blind", "clock", "oracle")
"""Those that attack nothing: they tell what is known without the output, or with the pseudo value itself."""


def roster(adversaries: Adversaries = "all") -> dict[str, Learner | str]:
    """The adversaries of an audit: name -> learner, or the reason why there is none.

    "all", a name, several, or a mapping of names to learners of your own. References always come with them.

    >>> list(roster(["windowed"]))
    ['blind', 'clock', 'windowed', 'oracle']
    >>> roster("nobody")
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: there is no adversary 'nobody'; there are windowed, logistic, boosting, \
neighbours, changes, exact, smoother, hmm, redraws, grid, digits, bits
    """
    chosen: dict[str, Learner | None] = {"blind": None, "clock": None, **_select(adversaries)}
    chosen.setdefault("oracle", None)
    return {name: _load(name) if learner is None else learner for name, learner in chosen.items()}


def _select(adversaries: Adversaries) -> dict[str, Learner | None]:
    if isinstance(adversaries, str):
        adversaries = tuple(ROSTER) if adversaries == "all" else (adversaries,)
    if isinstance(adversaries, dict):
        for name, learner in adversaries.items():
            if not isinstance(name, str) or not callable(getattr(learner, "learn", None)):
                raise ConfigurationError(f"the adversary {name!r} is no learner; it needs name, objection and learn")
        return dict(adversaries)
    if not isinstance(adversaries, Iterable):
        raise ConfigurationError(f"adversaries = {adversaries!r}; it must be 'all', names, or names with learners")
    names = tuple("oracle" if name == "genie" else name for name in adversaries)
    for name in names:
        if name not in ROSTER:
            raise ConfigurationError(
                f"there is no adversary {name!r}; there are {', '.join(n for n in ROSTER if n not in REFERENCES)}"
            )
    return dict.fromkeys(name for name in ROSTER if name in names)


def _load(name: str) -> Learner | str:
    """The learner of this name, or why there is none."""
    module, _, cls = ROSTER[name].partition(":")
    try:
        learner: Learner = getattr(import_module(f"understudy.adversaries.learners.{module}"), cls)()
        return learner
    except ModuleNotFoundError as missing:
        root = (missing.name or "").partition(".")[0]
        if root == "sklearn":
            return "it needs scikit-learn: pip install 'understudy[sklearn]'"
        return f"it needs the package {root}" if root != "understudy" else "it is not part of this version"


Progress = Callable[[int, int, str], None]
"""Is told how many steps are done, of how many, and what comes next."""

_STEPS_OF_PLAYING, _STEPS_OF_RIVALS = 5, 8
_MARGIN = 60  # readings beside what is judged whose labels an insider does not use
_NOT_TURNED = Figure(math.nan, math.nan, math.nan)


def audit(
    design: AuditDesign,
    Y: ArrayLike | Recording | None = None,
    theta: Labels | None = None,
    adversaries: Adversaries = "all",
    n: int = 100_000,
    confidence: float = 0.99,
    rng: Seed = None,
    *,
    hours: ArrayLike | None = None,
    days: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    train: Recording | tuple[ArrayLike, Labels] | None = None,
    released: ArrayLike | None = None,
    replicates: int = 4,
    epoch: int | None = None,
    utility: Own | Mapping[str, Own] | Literal[False] | None = None,
    alarm: Thresholds | None = None,
    noise: bool = True,
    rivals: bool | None = None,
    insider: bool = True,
    scores: bool = True,
    progress: Progress | None = None,
) -> Audit:
    """Attack a design with all adversaries, and report what they learned.

    Without readings the design's own models are simulated, and everything that the theorem wants is true: `n`
    sequences (of a causal design: n readings), half of them to learn from. With raw readings `Y`, (T,) or (T, d), and
    their private values `theta`, these are disguised here with fresh draws, `replicates` times; the adversaries learn
    from the `train` recording, or else from the first part of the time. `released` is an output of the same rows that
    was made elsewhere, and is attacked as it is; Y may then be left out. `hours` (of the day) and `days` (weekdays
    from 0) are the public clock, `segments` says which rows belong together. In place of Y there may be a `Recording`,
    as `understudy.adversaries.datasets.from_history` makes one; `train` is a recording, or readings with
    values.

    A `Design` on readings whose theta moves draws again every `epoch` readings. `adversaries` is "all", names of the
    roster, or a mapping of names to learners of your own. `noise` adds the comparison with noise of equal distortion,
    drawn for each reading, and held for an epoch. `rivals` adds the table of a constant output, a coin by epoch, white
    and slow noise, and the least distortion that any method needs, for a recording; None does as `noise` says.
    Beside `train`, which is another period, `insider` adds adversaries with labels of other days of the judged period.
    `scores` adds attacks on the scores of the raw readings and on their running sums, which an owner can make.
    `utility` is a function of readings and output, several by name, or False; `alarm` a threshold for alarms.
    ``progress(done, total, what)`` is called as the work goes on. Nothing that is returned holds a reading.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> design = us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")
    >>> found = audit(design, adversaries=["windowed"], n=4000, rng=1, noise=False)
    >>> found.broken, abs(found.best.error.value - design.guarantee.bayes_error) < 0.03
    (False, True)
    """
    started = time.perf_counter()
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0.5 <= confidence < 1.0:
        raise ConfigurationError(f"confidence = {confidence!r}; it must lie in [0.5, 1)")
    if isinstance(replicates, bool) or not isinstance(replicates, (int, np.integer)) or replicates < 1:
        raise ConfigurationError(f"replicates = {replicates!r}; it must be a whole number of copies, at least 1")
    if getattr(design, "family", None) is None:
        raise ConfigurationError("the design has no models (us.solve makes none); an audit needs one from us.design")
    learners = roster(adversaries)
    if design.blind:
        learners |= {name: "a coin has no models" for name in _MODEL_BASED if name in learners}
    seed = int(np.random.default_rng(rng).integers(2**62))
    recording = _recording(Y, theta, released, design, hours, days, segments)
    work = _Work(confidence, seed, progress)
    raw = Y is not None or released is None
    kinds = (
        "disguised", *(("insider",) if insider and train is not None else ()),
        *(("scores",) if scores and Y is not None and not (design.blind or design.estimated) else ()),
        *(("raw", *(("noise", "offset") if noise else ())) if raw else ()),
    )  # fmt: skip
    clocked = recording is not None and recording.hours is not None
    beside = recording is not None and Y is not None and (noise if rivals is None else bool(rivals))
    work.total = _STEPS_OF_PLAYING + len(_plan(learners, kinds, clocked, released is None)) + beside * _STEPS_OF_RIVALS
    options = ReplayOptions(int(replicates), epoch, raw=Y is not None)
    if released is not None:
        options = replace(options, output=as_table(released, "released"))
    material = _material(work, design, recording, train, options, n)
    if int((material.judge["disguised"].counts > 0).sum()) < 2:
        raise ConfigurationError("nothing can be judged: only one value occurs among the judged labels")
    if noise and "raw" in material.judge:
        for kind in ("noise", "offset"):
            material = with_noise(material, work.rng(kind), kind)
    if "insider" in kinds:
        material = with_insiders(material)
    if "scores" in kinds and not isinstance(design, CoinDesign):
        material = with_scores(material, design, work.rng("scores"))
    rows, skipped = work.attack(material, learners)
    if not rows:
        raise ConfigurationError(f"no adversary could be run: {skipped}")
    compared = work.rivals(material, rows, learners) if beside else None
    work.done = work.total
    work.tell("done")
    judge = material.judge["disguised"]
    estimated = bool(design.estimated)
    notes = (*material.notes, *_notes(material, rows, recording, estimated))
    return Audit(
        rows=tuple(rows), bound=material.bound, prior_error=material.prior_error, confidence=float(confidence),
        level=1.0 - confidence, guesses=judge.guesses, learned=material.learn["disguised"].guesses, how=material.how,
        values=judge.m, moving=not judge.once, notes=notes, skipped=skipped, **_distances(material, confidence),
        utility=_utility(material, recording, utility, alarm, confidence),
        seconds=time.perf_counter() - started, design=repr(design), budget=_budget(design), estimated=estimated,
        causal=isinstance(design, CausalDesign), rivals=compared, days=_days(material),
    )  # fmt: skip


class _Work:
    """What all steps of an audit share: confidence, random source, progress."""

    def __init__(self, confidence: float, seed: int, progress: Progress | None) -> None:
        self.confidence, self.seed, self.progress = confidence, seed, progress
        self.done, self.total = 0, 1

    def rng(self, *names: object) -> np.random.Generator:
        """A generator for one purpose, whatever else is asked for."""
        return np.random.default_rng([self.seed, *(zlib.crc32(str(name).encode()) for name in names)])

    def tell(self, what: str) -> None:
        """Say what comes next."""
        if self.progress is not None:
            self.progress(self.done, max(self.total, self.done), what)

    def attack(self, material: Material, learners: Mapping[str, Learner | str]) -> tuple[list[Row], dict[str, str]]:
        """All adversaries on all kinds of data."""
        judge = material.judge["disguised"]
        plan = _plan(learners, tuple(material.judge), judge.hours is not None, judge.pseudo is not None)
        self.done = _STEPS_OF_PLAYING
        skipped: dict[str, str] = {}
        rows: list[Row] = []
        for data in material.judge:
            attempts = []
            for kind, name, clock in plan:
                if kind != data:
                    continue
                self.tell(f"{name}{' + clock' if clock and name != 'clock' else ''} on {data}")
                found = self._one(material, data, name, clock, learners[name])
                self.done += 1
                if isinstance(found, str):
                    skipped.setdefault(name, found if data == "disguised" else f"{found} ({data})")
                else:
                    attempts.append(found)
            rows += self._rows(material, data, attempts)
        return rows, skipped

    def _one(self, material: Material, data: str, name: str, clock: bool, learner: Learner | str) -> Attempt | str:
        """What one adversary says, or why it says nothing."""
        if isinstance(learner, str):
            return learner
        learn, judge = (_visible(cases[data], name, clock) for cases in (material.learn, material.judge))
        started = time.perf_counter()
        try:
            rng, known = self.rng(name, data, clock), material.known[data]
            if data == "insider":
                said = _cross_fit(learner, judge, other_days(material.judge[data], _MARGIN), known, rng)
            else:
                said = _logits(learner, learn, judge, known, rng)
            if isinstance(said, str):
                return said
            made = guesses_of(said, judge, label_shares(learn.truth, learn.m))
        except Exception as error:  # a learner may be anybody's
            return f"it stopped with a {type(error).__name__}"  # its message may hold anything
        return Attempt(name, clock, made, getattr(learner, "name", name), time.perf_counter() - started)

    def _rows(self, material: Material, data: str, attempts: list[Attempt]) -> list[Row]:
        """The rows of one kind of data, tested together."""
        cases, independent = material.judge[data], material.independent
        by_name = {a.name: a.made for a in attempts}
        reference = by_name.get("clock", by_name.get("blind"))
        real = [a for a in attempts if a.name not in REFERENCES]
        level, trials = 1.0 - self.confidence, independent and cases.once
        strict = 1.0 - level / max(len(real), 1)
        hours = hours_of(cases) if any(a.clock for a in real) else None
        tested = iter(outcomes_of(real, cases, independent, hours, level, partial(self.rng, "tested", data)))
        turned = self._turned(material, data, real)
        blocks = int(np.unique(cases.truth_blocks[cases.truth >= 0]).size)
        rows = []
        for a in attempts:
            own = a.name in REFERENCES
            came = Outcome(math.nan, math.nan, "", False) if own else next(tested)
            made = figures(a.made, reference, trials, self.confidence)
            bounded = material.bound is not None and data == "disguised" and not own
            small = came.corrected <= level
            other, around = turned.get((a.name, a.clock), (_NOT_TURNED, False))
            row = Row(
                data=data, adversary=a.name, clock=a.clock, reference=own, **made._asdict(), p=came.p,
                found=around or (small and (not a.clock or made.gain.value > 0.0)),
                beats=bounded and error_of(a.made, trials, strict).high < (material.bound or 0.0),
                guesses=int(a.made.truth.size), blocks=blocks, seconds=a.seconds, test=came.test, title=a.title,
                testable=small or around or came.testable, corrected=came.corrected, turned=other,
                smallest=came.smallest, needed=came.needed,
            )  # fmt: skip
            rows.append(row)
        return rows

    def _turned(
        self, material: Material, data: str, real: list[Attempt]
    ) -> dict[tuple[str, bool], tuple[Figure, bool]]:
        """Of adversaries without the clock that are right less often than chance: the figure turned, and if it counts.

        It counts at a tenth of the level, by the test of the opposite guesses, so that all together raise false alarms
        at 1.1 times the level. The figure is read with the sign that labels of other blocks speak for.
        """
        cases, level = material.judge[data], 1.0 - self.confidence
        values = int((cases.counts > 0).sum())
        below = [
            a for a in real
            if not a.clock and figures(a.made, None, False, self.confidence).balanced.high < 1.0 / max(values, 1) - 1e-9
        ]  # fmt: skip
        splits = other_days(cases) if below else ()
        if not splits:
            return {}
        groups = np.full(cases.truth.shape, len(splits))
        for k, split in enumerate(splits):
            groups[split.held] = k
        opposite = [a._replace(made=a.made._replace(fair=1 - a.made.fair)) for a in below] if cases.m == 2 else []
        source = partial(self.rng, "turned", data)
        p = [one.corrected for one in outcomes_of(opposite, cases, material.independent, None, 0.1 * level, source)]
        found = {}
        for k, a in enumerate(below):
            made = turn_guesses(a.made, groups[cases.truth >= 0])
            figure = figures(made, None, material.independent and cases.once, self.confidence).balanced
            found[a.name, a.clock] = figure, bool(p) and p[k] <= 0.1 * level
        return found

    def rivals(self, material: Material, rows: list[Row], learners: Mapping[str, Learner | str]) -> Rivals | None:
        """Simple outputs beside the design, attacked by boosting and by the best on the output and on raw readings."""
        able = {
            name: learner for name, learner in learners.items()
            if not isinstance(learner, str) and (name in LABEL_LEARNERS or name not in ROSTER)
        }  # fmt: skip
        best = {}
        for data in ("disguised", "raw"):
            those = [row for row in rows if row.data == data and not row.clock and row.adversary in able]
            if not those:
                return None
            best[data] = max(those, key=lambda row: row.strength.value)
        names = [name for name in able if name == "boosting" or name in {row.adversary for row in best.values()}]
        known, prior = material.known["raw"], label_shares(material.learn["raw"].truth, material.judge["raw"].m)

        def attack(learn: Cases, judge: Cases) -> tuple[Figure, str]:
            found = []
            for name in names:
                self.tell(f"{name} on rivals")
                self.done = min(self.done + 1, self.total - 1)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seen = learn.without_clock(), judge.without_clock()
                    said = _logits(able[name], seen[0], seen[1], known, self.rng("rival", name))
                if not isinstance(said, str):
                    found.append((figures(guesses_of(said, judge, prior), None, False, self.confidence).balanced, name))
            return max(found, key=lambda pair: pair[0].value)

        raw, output = material.judge["raw"], material.judge["disguised"]
        ground = RivalData(material.learn["raw"], raw, known.grid, material.period, attack, self.rng("rivals"))
        bare, made = ((best[data].strength, best[data].adversary) for data in ("raw", "disguised"))
        return replace(compare(ground, bare, made, mean_distance(raw, output)), adversaries=tuple(names))


def _plan(
    learners: Mapping[str, Learner | str], kinds: tuple[str, ...], clocked: bool, drawn: bool
) -> list[tuple[str, str, bool]]:
    """Who is run on what, and whether with the clock; `drawn` says that the pseudo values are known."""

    def due(name: str, clock: bool, data: str) -> bool:
        if data in ("insider", "scores") and name in ROSTER and name not in (*QUICK, "blind", "clock"):
            return False
        if name in ("blind", "clock"):
            return clock == (name == "clock")
        return name != "oracle" or (data == "disguised" and not clock and drawn)

    ways = (False, True) if clocked else (False,)
    return [(data, name, clock) for data in kinds for name in learners for clock in ways if due(name, clock, data)]


def _visible(cases: Cases, name: str, clock: bool) -> Cases:
    """What this adversary may see."""
    shown = cases if name == "oracle" else cases.without_pseudo()
    return shown if clock else shown.without_clock()


def _logits(learner: Learner, learn: Cases, judge: Cases, known: Knowledge, rng: np.random.Generator) -> Array | str:
    """Log-probabilities of the judged cases, or an objection."""
    objection = learner.objection(learn, known) or learner.objection(judge, known)
    if objection:
        return objection
    hidden = np.broadcast_to(np.int64(-1), judge.labels.shape)
    return learner.learn(learn, known, rng).logits(replace(judge, labels=hidden))


def _cross_fit(
    learner: Learner, cases: Cases, splits: tuple[Split, ...], known: Knowledge, rng: np.random.Generator
) -> Array | str:
    """Log-probabilities of cases, each part by who has labels of the other parts; beside the shares of all labels."""
    logs = np.log(label_shares(cases.truth, cases.m))
    said = np.repeat(logs, cases.truth.size).reshape(cases.m, *cases.truth.shape)
    for split in splits:
        labels = np.where(split.fit, cases.labels, -1)
        found = _logits(learner, replace(cases, labels=labels), cases, known, rng)
        if isinstance(found, str):
            return found
        # shares differ from part to part, and lack what is guessed
        beside = logs - np.log(label_shares(labels, cases.m))
        said[:, split.held] = normalise(found[:, split.held] + beside[:, None])
    return said if splits else "there are too few days or blocks of time to learn from some of them and judge others"


def _days(material: Material) -> float:
    """How many days are judged; NaN where the period is not known."""
    if material.period is None or "raw" not in material.judge:
        return math.nan
    return int((material.judge["raw"].labels >= 0).sum()) * material.period / 86_400.0


def _recording(
    Y: ArrayLike | Recording | None,
    theta: Labels | None,
    released: ArrayLike | None,
    design: AuditDesign,
    hours: ArrayLike | None,
    days: ArrayLike | None,
    segments: ArrayLike | None,
) -> Recording | None:
    """Rows and labels, if there are any; with an output alone its own readings stand in."""
    if isinstance(Y, Recording):
        if theta is not None:
            raise ConfigurationError("theta is given twice; a recording has its private values")
        if hours is not None or days is not None or segments is not None:
            raise ConfigurationError("hours, days and segments are given twice; a recording has its own")
        return Y
    readings = released if Y is None else Y
    if readings is None:
        if theta is not None or hours is not None or days is not None or segments is not None:
            raise ConfigurationError("theta, hours, days and segments go with readings; give Y or released")
        return None
    if theta is None:
        raise ConfigurationError("theta is missing; without private values nobody can tell what was learned")
    return make_recording(readings, theta, design.values, hours, days, segments)


def _material(
    work: _Work, design: AuditDesign, recording: Recording | None,
    train: Recording | tuple[ArrayLike, Labels] | None, options: ReplayOptions, n: int,
) -> Material:  # fmt: skip
    def tell(share: float) -> None:
        work.done = int(_STEPS_OF_PLAYING * share)
        work.tell("playing the design")

    rng = work.rng("playing")
    if recording is None:
        if train is not None:
            raise ConfigurationError("train goes with readings; a simulation has its own")
        return simulate(design, n, rng, tell)
    if train is None:
        return replay(design, recording, options, rng, tell)
    if not isinstance(train, Recording):
        if not isinstance(train, (tuple, list)) or len(train) != 2:
            raise ConfigurationError("train must be a recording, or a pair of readings and private values")
        train = make_recording(train[0], train[1], design.values)
    notes = []
    if (train.hours is None) != (recording.hours is None):
        # a clock that only one of them has is of no use to an adversary
        train, recording = (replace(each, public=False) for each in (train, recording))
        notes.append(text.HIDDEN_CLOCK_NOTE)
    shared = shared_rows(train.Y, recording.Y)
    if shared:
        notes.append(text.shared_rows_note(shared, len(recording.Y)))
    made = replay(design, recording, replace(options, train=train), rng, tell)
    return replace(made, notes=(*made.notes, *notes))


def _notes(material: Material, rows: list[Row], recording: Recording | None, estimated: bool) -> list[str]:
    """What the figures rest on."""
    judge = material.judge["disguised"]
    notes = [text.ESTIMATED_NOTE] if estimated else []
    if recording is not None and recording.strange:
        notes.append(text.unknown_labels_note(recording.strange))
    absent = int((judge.counts == 0).sum())
    if absent:
        notes.append(text.absent_values_note(absent, judge.m))
    if material.independent:
        notes.append(text.EXACT_P_NOTE)
    else:
        notes += text.blocks_note(int(np.unique(judge.truth_blocks[judge.truth >= 0]).size), FEW)
    for clock in (False, True):
        those = [row for row in rows if row.data == "disguised" and not row.reference and row.clock == clock]
        if those and not any(row.testable for row in those):
            notes.append(text.no_power_note(clock))
    return notes


def _budget(design: AuditDesign) -> float:
    return float(design.rate if isinstance(design, CausalDesign) else design.leakage)


def _distances(material: Material, confidence: float) -> dict[str, tuple[Any, ...]]:
    """By channel: mean absolute distance of the output with its interval, mean absolute reading, that of the noise."""
    if "raw" not in material.judge:
        return {}
    raw, cases = material.judge["raw"], material.judge["disguised"]
    number = np.unique(raw.blocks, return_inverse=True)[1].reshape(raw.blocks.shape)
    B = int(number.max()) + 1
    distortion = []
    for c in range(raw.d):
        top, bottom = np.zeros(B), np.zeros(B)
        for k in range(0, cases.N, raw.N):
            apart = np.abs(cases.outputs[:, c, k : k + raw.N] - raw.outputs[:, c])
            there = np.isfinite(apart)
            top += np.bincount(number[there], apart[there], B)
            bottom += np.bincount(number[there], minlength=B)
        most = float(np.max(top / np.maximum(bottom, 1.0), initial=0.0))
        sums = Sums(top[:, None], bottom[:, None])
        distortion.append(block_interval(sums, confidence, (0.0, 10.0 * most + 1e-300)))
    means = np.nanmean(np.abs(raw.outputs), axis=(0, 2))
    noise = mean_distance(raw, material.judge["noise"]).tolist() if "noise" in material.judge else ()
    return {"distortion": tuple(distortion), "mean_reading": tuple(means.tolist()), "noise": tuple(noise)}


def _utility(
    material: Material, recording: Recording | None, own: Own | Mapping[str, Own] | Literal[False] | None,
    alarm: Thresholds | None, confidence: float,
) -> Utility | None:  # fmt: skip
    """What is left for honest use, where there are raw readings beside the output."""
    if own is False or recording is None or "raw" not in material.judge:
        return None
    raw, cases = material.judge["raw"], material.judge["disguised"]
    copies = cases.N // raw.N
    there = ~np.isnan(raw.outputs).all(axis=1) | (raw.labels >= 0)
    # all rows one below the other, sequence by sequence
    column, row = np.nonzero(there.T)
    Y = raw.outputs[row, :, column]
    X = np.stack([cases.outputs[row, :, column + k * raw.N] for k in range(copies)], axis=2)
    hours, days, blocks = (None if part is None else part[row, column] for part in (raw.hours, raw.days, raw.blocks))
    known = material.known["raw"].family.about or {}
    names, units = (known.get(key) if len(known.get(key) or ()) == raw.d else None for key in ("readings", "units"))
    return measure_utility(
        Y, X, period=material.period, hours=hours, days=days, segments=column, blocks=blocks, names=names, units=units,
        alarm=alarm, own=own or None, confidence=confidence,
    )  # fmt: skip
