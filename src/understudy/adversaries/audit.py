"""`us.audit`: everything we can think of against a design, or an output, and what came of it, with confidence.

The adversaries by name. They are loaded when they are asked for, as some need packages of their own.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Seed
from understudy.adversaries.datasets import (
    Labels,
    Material,
    Recording,
    as_table,
    label_shares,
    make_recording,
    replay,
    shared_rows,
    simulate,
    with_held,
    with_noise,
)
from understudy.adversaries.datasets import take_output as released_material
from understudy.adversaries.knowledge import Cases, Knowledge, Learner
from understudy.adversaries.results import Audit, Row
from understudy.adversaries.statistics import (
    FEW,
    Attempt,
    Figure,
    Guesses,
    Outcome,
    Sums,
    block_interval,
    error_of,
    figures,
    guesses_of,
    hours_of,
    outcomes_of,
)
from understudy.adversaries.utility import Own, Thresholds, Utility, measure_utility
from understudy.errors import ConfigurationError
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.design import Design

# The adversaries by name. They are loaded when they are asked for, as some need packages of their own ---


ROSTER: dict[str, str] = {
    "blind": "references:Blind",
    "clock": "references:Clock",
    "windowed": "machine_learning:Windowed",
    "logistic": "machine_learning:Logistic",
    "boosting": "machine_learning:Boosting",
    "neighbours": "machine_learning:Neighbours",
    "changes": "machine_learning:Changes",
    "exact": "bayes:Exact",
    "smoother": "bayes:Smoother",
    "hmm": "hmm:Hidden",
    "redraws": "bayes:Redraws",
    "grid": "grid:GridInverter",
    "digits": "grid:Digits",
    "bits": "bits:Bits",
    "oracle": "bayes:Oracle",
}
"""Name -> where it is, as module:class of `learners`."""

Adversaries: TypeAlias = str | Iterable[str] | Mapping[str, Learner]
"""What a user gives: "all", a name, several, or learners by name."""

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
    found: dict[str, Learner | None] = {"blind": None, "clock": None}
    for name, learner in _requested(adversaries).items():
        found[name] = learner
    if "oracle" not in found:
        found["oracle"] = None
    return {name: _load(name) if learner is None else learner for name, learner in found.items()}


def _requested(adversaries: Adversaries) -> dict[str, Learner | None]:
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


# `us.audit`: everything we can think of against a design, or an output, and what came of it, with con ---


Progress = Callable[[int, int, str], None]
"""Is told how many steps are done, of how many, and what comes next."""

_STEPS_OF_PLAYING = 5


def audit(
    design: Design | CausalDesign,
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
    drawn for each reading, and held for an epoch.
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
    seed = int(np.random.default_rng(rng).integers(2**62))
    recording = _recording(Y, theta, released, design, hours, days, segments)
    work = _Work(confidence, seed, progress)
    raw = Y is not None or released is None
    kinds = ("disguised", *(("raw", *(("noise", "offset") if noise else ())) if raw else ()))
    clocked = recording is not None and recording.hours is not None
    work.total = _STEPS_OF_PLAYING + len(_plan(learners, kinds, clocked, released is None))
    material = _material(work, design, recording, train, released, Y is not None, n, int(replicates), epoch)
    if int((material.judge["disguised"].counts > 0).sum()) < 2:
        raise ConfigurationError("nothing can be judged: only one value occurs among the judged labels")
    if noise and "raw" in material.judge:
        material = with_held(with_noise(material, work.rng("noise")), work.rng("offset"))
    rows, skipped = work.attack(material, learners)
    if not rows:
        raise ConfigurationError(f"no adversary could be run: {skipped}")
    distortion, means, noisy = distances(material, confidence)
    judge = material.judge["disguised"]
    estimated = bool(design.estimated)
    notes = (*material.notes, *_notes(material, rows, recording, estimated))
    return Audit(
        rows=tuple(rows), bound=material.bound, prior_error=material.prior_error, confidence=float(confidence),
        level=1.0 - confidence, guesses=judge.guesses, learned=material.learn["disguised"].guesses, how=material.how,
        values=judge.m, moving=not judge.once, notes=notes, skipped=skipped, distortion=distortion, mean_reading=means,
        noise=noisy, utility=utility_of(material, recording, utility, alarm, confidence),
        seconds=time.perf_counter() - started, design=repr(design), budget=_budget(design), estimated=estimated,
        causal=isinstance(design, CausalDesign),
    )  # fmt: skip


class _Judged(NamedTuple):
    """A row in the making: its guesses are kept until those of the references are there."""

    name: str
    title: str
    clock: bool
    made: Guesses
    seconds: float


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
        self.done, self.total = _STEPS_OF_PLAYING, _STEPS_OF_PLAYING + len(plan)
        skipped: dict[str, str] = {}
        rows: list[Row] = []
        for data in material.judge:
            attacked = []
            for kind, name, clock in plan:
                if kind != data:
                    continue
                self.tell(f"{name}{' + clock' if clock and name != 'clock' else ''} on {data}")
                found = self._one(material, data, name, clock, learners[name])
                self.done += 1
                if isinstance(found, str):
                    skipped.setdefault(name, found if data == "disguised" else f"{found} ({data})")
                else:
                    attacked.append(found)
            rows += self._rows(material, data, attacked)
        self.tell("done")
        return rows, skipped

    def _one(self, material: Material, data: str, name: str, clock: bool, learner: Learner | str) -> _Judged | str:
        """What one adversary says, or why it says nothing."""
        if isinstance(learner, str):
            return learner
        learn, judge = (_visible(cases[data], name, clock) for cases in (material.learn, material.judge))
        started = time.perf_counter()
        try:
            said = _logits(learner, learn, judge, material.known[data], self.rng(name, data, clock))
            if isinstance(said, str):
                return said
            made = guesses_of(said, judge, label_shares(learn.truth, learn.m))
        except Exception as error:  # a learner may be anybody's
            return f"it stopped with a {type(error).__name__}"  # its message may hold anything
        return _Judged(name, getattr(learner, "name", name), clock, made, time.perf_counter() - started)

    def _rows(self, material: Material, data: str, attacked: list[_Judged]) -> list[Row]:
        """The rows of one kind of data, tested together."""
        cases, independent = material.judge[data], material.independent
        by_name = {a.name: a.made for a in attacked}
        reference = by_name.get("clock", by_name.get("blind"))
        real = [Attempt(a.name, a.clock, a.made) for a in attacked if a.name not in REFERENCES]
        level, trials = 1.0 - self.confidence, independent and cases.once
        strict = 1.0 - level / max(len(real), 1)
        hours = hours_of(cases) if any(a.clock for a in real) else None
        came_of = iter(outcomes_of(real, cases, independent, hours, level, partial(self.rng, "tested", data)))
        rows, blocks = [], int(np.unique(cases.truth_blocks[cases.truth >= 0]).size)
        for a in attacked:
            own = a.name in REFERENCES
            came = Outcome(math.nan, math.nan, "", False) if own else next(came_of)
            found = figures(a.made, reference, trials, self.confidence)
            beats = False
            if material.bound is not None and data == "disguised" and not own:
                beats = error_of(a.made, trials, strict).high < material.bound
            fell = came.corrected <= level
            row = Row(
                data, a.name, a.clock, own, *found, came.p, fell and (not a.clock or found.gain.value > 0.0), beats,
                int(a.made.truth.size), blocks, a.seconds, came.test, a.title, fell or came.testable, came.corrected,
            )  # fmt: skip
            rows.append(row)
        return rows


def _plan(
    learners: Mapping[str, Learner | str], kinds: tuple[str, ...], clocked: bool, drawn: bool
) -> list[tuple[str, str, bool]]:
    """Who is run on what, and whether with the clock; `drawn` says that the pseudo values are known."""

    def due(name: str, clock: bool, data: str) -> bool:
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


def _recording(
    Y: ArrayLike | Recording | None,
    theta: Labels | None,
    released: ArrayLike | None,
    design: Design | CausalDesign,
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
    work: _Work, design: Design | CausalDesign, recording: Recording | None,
    train: Recording | tuple[ArrayLike, Labels] | None, released: ArrayLike | None, raw: bool,
    n: int, replicates: int, epoch: int | None,
) -> Material:  # fmt: skip
    def tell(share: float) -> None:
        work.done = int(_STEPS_OF_PLAYING * share)
        work.tell("playing the design")

    rng = work.rng("playing")
    if recording is None:
        if train is not None:
            raise ConfigurationError("train goes with readings; a simulation has its own")
        return simulate(design, n, rng, tell)
    learned: Recording | None = None
    notes: tuple[str, ...] = ()
    if isinstance(train, Recording):
        learned = train
    elif train is not None:
        if not isinstance(train, (tuple, list)) or len(train) != 2:
            raise ConfigurationError("train must be a recording, or a pair of readings and private values")
        learned = make_recording(train[0], train[1], design.values)
    if learned is not None and (learned.hours is None) != (recording.hours is None):
        # a clock that only one of them has is of no use to an adversary
        learned, recording = (replace(each, public=False) for each in (learned, recording))
        notes = ("only one of the recordings has a clock: it is used for days, and no adversary sees it",)
    shared = 0 if learned is None else shared_rows(learned.Y, recording.Y)
    if shared:
        notes += (f"{shared:,} of {len(recording.Y):,} judged rows are in the recording that was learned from as well",)
    if released is None:
        made = replay(design, recording, learned, replicates, epoch, rng, tell)
    else:
        output = as_table(released, "released")
        made = released_material(design, recording, output, learned, raw, replicates, epoch, rng, tell)
    return replace(made, notes=(*made.notes, *notes))


def _notes(material: Material, rows: list[Row], recording: Recording | None, estimated: bool) -> list[str]:
    """What the figures rest on."""
    judge = material.judge["disguised"]
    blocks = int(np.unique(judge.truth_blocks[judge.truth >= 0]).size)
    notes = []
    if estimated:
        notes.append("the design accepts private values that the edge estimates: no guarantee, audit only")
    if recording is not None and recording.strange:
        notes.append(f"{recording.strange:,} labels are no value of the family, and are taken for unknown")
    absent = int((judge.counts == 0).sum())
    if absent:
        notes.append(f"{absent} of the {judge.m} values do not occur among the judged; figures are of the others")
    if material.independent:
        notes.append("p is exact: labels are permuted among independent sequences")
        return notes + _powerless(rows)
    notes.append(f"intervals and p rest on {blocks} stretches of time")
    if blocks < FEW:
        notes.append("there are so few stretches that little can be said about how much the figures vary")
    return notes + _powerless(rows)


def _powerless(rows: list[Row]) -> list[str]:
    """Whether anything could have been found in the output, without the clock and with it."""
    notes = []
    for clock, where in ((False, ""), (True, " beyond the clock")):
        those = [row for row in rows if row.data == "disguised" and not row.reference and row.clock == clock]
        if those and not any(row.testable for row in those):
            notes.append(f"who knows every label would not count as one that finds it{where}: there is too little")
    return notes


def _budget(design: Design | CausalDesign) -> float:
    return float(design.rate if isinstance(design, CausalDesign) else design.leakage)


# How far the output is from the readings: distortion by channel, and what is left for honest use -----


def distances(material: Material, confidence: float) -> tuple[tuple[Figure, ...], tuple[float, ...], tuple[float, ...]]:
    """Mean absolute distance by channel with its interval, mean absolute reading, and distance of the noisy ones."""
    if "raw" not in material.judge:
        return (), (), ()
    raw, found = material.judge["raw"], []
    noisy = []
    for data in ("disguised", "noise"):
        if data not in material.judge:
            continue
        cases = material.judge[data]
        number = np.unique(raw.blocks, return_inverse=True)[1].reshape(raw.blocks.shape)
        B = int(number.max()) + 1
        for c in range(raw.d):
            top, bottom = np.zeros(B), np.zeros(B)
            for k in range(0, cases.N, raw.N):
                apart = np.abs(cases.outputs[:, c, k : k + raw.N] - raw.outputs[:, c])
                there = np.isfinite(apart)
                top += np.bincount(number[there], apart[there], B)
                bottom += np.bincount(number[there], minlength=B)
            sums = Sums(top[:, None], bottom[:, None])
            if data == "noise":
                noisy.append(sums.value)
            else:
                most = float(np.max(top / np.maximum(bottom, 1.0), initial=0.0))
                found.append(block_interval(sums, confidence, (0.0, 10.0 * most + 1e-300)))
    means = tuple(float(np.nanmean(np.abs(raw.outputs[:, c]))) for c in range(raw.d))
    return tuple(found), means, tuple(noisy)


def utility_of(
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
    names = ((material.known["raw"].family.about or {}).get("readings")) or None
    if names is not None and len(names) != raw.d:
        names = None
    return measure_utility(
        Y, X, period=material.period, hours=hours, days=days, segments=column, blocks=blocks, names=names, alarm=alarm,
        own=own or None, confidence=confidence,
    )  # fmt: skip
