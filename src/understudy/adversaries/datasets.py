"""What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is known of them.

Noise of equal distortion: what adding Gaussian noise would hide at the same price.

The noise is independent from reading to reading, or held for some readings, and its mean absolute value is that of the
disguise, channel by channel. Where readings lie on a grid the noisy ones are rounded to it, and it is the rounded noise
that has the wanted size.

Cases from a design's own models: what adversaries get if all its premises hold.

A `Design` is played on sequences of a constant theta, with the odds of the design; a `CausalDesign` on sequences along
which theta moves by its chain, from one decision to the next. All sequences are independent. One half is learned
from, the other judged.

Cases from raw readings: a recording is disguised with fresh draws and attacked, or an output is taken as it is.

The adversary has a labelled history of his own. He knows the design, so he disguises that history as often as he
likes: `replicates` copies, each with draws of its own. He is judged on copies of another stretch of time, or on a
recording that he has never seen.

Held noise: the other noise of equal distortion, an offset that is drawn once an epoch and kept.

Noise that is new at each reading is averaged away by whoever looks at many of them. An offset that stays as long as
one draw of the design is not, and is the fairer comparison. Its mean absolute value is that of the disguise too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Ints, Progress
from understudy.adversaries.design_run import Stage, disguised
from understudy.adversaries.knowledge import Cases, Known
from understudy.adversaries.recording import Piece, Recording, blocks_of, halves, unit_of
from understudy.distortion.simulation import colour_all, quick
from understudy.errors import ConfigurationError
from understudy.identify.history import History
from understudy.models.family import Family
from understudy.models.model import Model
from understudy.transform.core import disguise, gauss_markov

# Noise of equal distortion: what adding Gaussian noise would hide at the same price ------------------


def noise_scale(wanted: float, step: float = 0.0) -> float:
    """The standard deviation of Gaussian noise whose mean absolute value, rounded to the step, is as wanted.

    E abs(round(s Z)) in steps is 2 sum over k >= 1 of Pr(s Z > k - 1/2).

    >>> round(noise_scale(1.0), 6), round(noise_scale(0.5, step=1.0), 4)
    (1.253314, 0.6915)
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if not wanted > 0.0:
        return 0.0
    plain = wanted * math.sqrt(0.5 * math.pi)
    if not step > 0.0 or plain > 8.0 * step:  # rounding is noise of its own, and does not show beside so much
        return plain

    def size(s: float) -> float:
        k = np.arange(1, 2 + math.ceil(10.0 * s / step))
        return float(2.0 * step * ndtr(-(k - 0.5) * step / s).sum()) - wanted

    low, high = 0.02 * step, 16.0 * step + 4.0 * plain
    return low if size(low) > 0.0 else float(brentq(size, low, high, xtol=1e-12 * step))


def noise_scales(wanted: Array, grid: Grid | None) -> Array:
    """The same for each channel, (d,)."""
    steps = np.zeros(len(wanted)) if grid is None else grid[0]
    return np.array([noise_scale(float(w), float(s)) for w, s in zip(wanted, steps, strict=True)])


def noised(Y: Array, scales: Array, grid: Grid | None, rng: np.random.Generator, every: int = 1) -> Array:
    """Readings (T, d, N) with noise of these standard deviations, by channel, drawn anew every so many readings.

    >>> found = noised(np.zeros((6, 1, 1)), np.ones(1), None, np.random.default_rng(0), every=4)
    >>> np.unique(found, return_counts=True)[1].tolist()
    [2, 4]
    """
    T, d, N = Y.shape
    drawn = rng.standard_normal((-(-T // every), d, N))
    noise = (drawn if every == 1 else np.repeat(drawn, every, axis=0)[:T]) * scales[:, None]
    if grid is not None:
        steps = grid[0]
        rough = np.where(steps > 0.0, steps, 1.0)[:, None]
        noise = np.where(steps[:, None] > 0.0, rough * np.rint(noise / rough), noise)
    return np.asarray(Y + noise)


# What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is  ---


Grid = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Material:
    """Cases by the kind of data: "disguised", and "raw" and "noise" where raw readings are there.

    Sequences of raw and disguised cases correspond: sequence n of the output is that of the raw one n mod their count.
    """

    learn: dict[str, Cases]
    judge: dict[str, Cases]
    known: dict[str, Known]
    independent: bool
    """Sequences are independent of each other, and each is one stretch."""
    how: str
    bound: float | None
    prior_error: float
    notes: tuple[str, ...] = ()
    period: float | None = None

    def __repr__(self) -> str:
        return f"Material({self.how}, {self.judge['disguised']!r})"


def with_noise(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus noise of the distortion that the output has on the judged cases."""
    learn, judge = material.learn, material.judge
    wanted = mean_distance(judge["raw"], judge["disguised"])
    known = material.known["raw"]
    scales = noise_scales(wanted, known.grid)
    made = []
    for cases in (learn, judge):
        # as many copies as there are of the output: an adversary can add noise to his own history as often as he likes
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        made.append(replace(copies, outputs=noised(copies.outputs, scales, known.grid, rng)))
    return replace(
        material,
        learn={**learn, "noise": made[0]},
        judge={**judge, "noise": made[1]},
        known={**material.known, "noise": replace(known, noise=scales)},
    )


def mean_distance(raw: Cases, output: Cases) -> Array:
    """Mean absolute distance of output and reading, (d,), where both are there; 0 where they never are."""
    total, count = np.zeros(raw.d), np.zeros(raw.d)
    for n in range(0, output.N, raw.N):
        apart = np.abs(output.outputs[:, :, n : n + raw.N] - raw.outputs)
        total += np.nansum(apart, axis=(0, 2))
        count += np.isfinite(apart).sum(axis=(0, 2))
    return np.asarray(total / np.maximum(count, 1))


def transitions_of(labels: NDArray[np.int64], m: int) -> Array:
    """How theta moves from one reading to the next, in labels (T, N): counts, with one more in all for what is rare.

    >>> transitions_of(np.array([[0], [0], [0], [1], [1]]), 2).round(3).tolist()
    [[0.625, 0.375], [0.25, 0.75]]
    """
    before, after = labels[:-1].ravel(), labels[1:].ravel()
    known = (before >= 0) & (after >= 0)
    counts = np.bincount(before[known] * m + after[known], minlength=m * m).reshape(m, m).astype(float)
    total = counts.sum(axis=1, keepdims=True)
    # one pseudo-transition a value, spread as the values are on the whole; who was never seen stays
    spread = (counts.sum(axis=0) + 1.0) / (counts.sum() + m)
    return np.asarray((counts + spread) / (total + 1.0))


def odds_of(labels: NDArray[np.int64], m: int) -> Array:
    """The odds of the values in labels of any shape, none of them 0."""
    counts = np.bincount(labels[labels >= 0].ravel(), minlength=m) + 0.5
    return np.asarray(counts / counts.sum())


def raw_known(known: Known) -> Known:
    """What is known where nothing is disguised: theta plays itself."""
    m = len(known.family.values)
    return replace(known, pseudo=tuple(known.family.values), kernel=np.eye(m), decision_every=None, raw=True)


def grid_of(models: list[Model], Y: Array | None = None) -> Grid | None:
    """Steps and offsets of all channels, if each has a grid: the models', or that of readings (T, d) themselves."""
    channels: Any = getattr(getattr(models[0], "grid", None), "channels", None)
    if channels is not None and all(channel.step for channel in channels):
        return np.array([c.step for c in channels]), np.array([c.offset for c in channels])
    if Y is None:
        return None
    from understudy.identify.grid import detect_grid

    found = detect_grid(Y)
    grids = found if isinstance(found, tuple) else (found,)
    if any(grid.step is None for grid in grids):
        return None
    return np.array([g.step for g in grids], dtype=float), np.array([g.offset for g in grids], dtype=float)


# Cases from a design's own models: what adversaries get if all its premises hold ---------------------


HORIZON = 50
"""Readings of a sequence, where the design is for the limit of long ones."""
MOST = 20_000_000
"""Readings that are held at a time, in all channels."""
MOST_GRID = 1_000_000
"""The same for autoregressions on a grid."""
MOST_SLOW = 100_000
"""The same for models whose filters are asked reading by reading."""
MOST_DECISIONS = 40_000
"""Decisions of a causal design, each of which may be a problem to be solved."""
_SEQUENCES = 400  # that a causal design is played on, where there are readings enough
_FEWEST_DECISIONS = 10


def simulated(design: Any, n: int, rng: np.random.Generator, tell: Progress, causal: bool) -> Material:
    """Independent sequences of the design's models: n in all, or n readings in all where theta moves."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 8:
        raise ConfigurationError(f"n = {n!r}; it must be a whole number of at least 8")
    stage = Stage(design)
    return _moving(stage, int(n), rng, tell) if causal else _constant(stage, int(n), rng, tell)


def _constant(stage: Stage, n: int, rng: np.random.Generator, tell: Progress) -> Material:
    design, d = stage.design, stage.family.dim
    horizon = None if design.costs is None else design.costs.horizon
    T = horizon or HORIZON
    notes = [] if horizon else [f"the design is for the limit of long sequences; simulated ones have {T} readings"]
    linear = all(gauss_markov(model) is not None for model in (*stage.sources, *stage.targets))
    most = max(200, (MOST if linear else MOST_GRID if stage.quick else MOST_SLOW) // (T * d))
    if n > most:
        why = "so many are held at a time" if linear else "its models take their time"
        notes.append(f"{most:,} sequences of {T} readings were simulated in place of {n:,}: {why}")
        n = most
    theta = rng.choice(len(design.prior), size=n, p=design.prior)
    raw, output, pseudo = np.empty((T, d, n)), np.empty((T, d, n)), np.empty(n, dtype=np.int64)
    done = 0
    for i, source in enumerate(stage.sources):
        mine = np.flatnonzero(theta == i)
        if not mine.size:
            continue
        z = rng.standard_normal((T, d, mine.size))
        raw[:, :, mine] = colour_all(z, source)
        pseudo[mine] = rng.choice(len(design.pseudo), size=mine.size, p=design.randomizer.kernel[i])
        for j, target in enumerate(stage.targets):
            those = mine[pseudo[mine] == j]
            if those.size:
                Y = np.ascontiguousarray(raw[:, :, those])
                if stage.quick:
                    output[:, :, those] = disguised(Y, source, target, rng)  # type: ignore[arg-type]  # on a grid
                else:
                    output[:, :, those] = disguise(Y, source, target, rng)
            done += those.size
            tell(done / n)
    output = design.release.rounded(output, output)  # as streams release it
    labels = np.broadcast_to(theta, (T, n))
    known = _known(stage, design.randomizer.kernel, None, None)
    guarantee = design.guarantee
    return _material(
        raw, output, labels, np.broadcast_to(pseudo, (T, n)), known, True, guarantee.bayes_error,
        guarantee.prior_error, tuple(notes),
    )  # fmt: skip


def _moving(stage: Stage, n: int, rng: np.random.Generator, tell: Progress) -> Material:
    design, every, d = stage.design, stage.design.decision_every, stage.family.dim
    T = max(n // _SEQUENCES, _FEWEST_DECISIONS * every, 2)
    N = max(2, n // T)
    notes = ["theta moves by the chain of the design, from one decision to the next"]
    slow = not all(quick(model) for model in (*stage.sources, *stage.targets))
    most = max(16, min(MOST_DECISIONS // -(-T // every), (MOST_SLOW if slow else MOST) // (T * d)))
    if most < N:
        notes.append(
            f"{most:,} sequences of {T} readings were simulated in place of {N:,}: each decision takes its time"
        )
        N = most
    raw, output = np.empty((T, d, N)), np.empty((T, d, N))
    labels, pseudo = np.empty((T, N), dtype=np.int64), np.empty((T, N), dtype=np.int64)
    for k in range(N):
        labels[:, k] = chain(design.beliefs, T, every, rng)
        raw[:, :, k] = stage.readings(labels[:, k], rng)
        output[:, :, k], pseudo[:, k], _ = stage.played(raw[:, :, k], labels[:, k], rng)
        tell((k + 1) / N)
    # (I + (P - I) / every): on average theta moves as if at any reading
    m = len(design.values)
    average = design.beliefs.transitions.mean(axis=0)
    moves = np.eye(m) + (average - np.eye(m)) / every
    # of the half that is learned from: nobody knows the draws by which he is judged
    seen = slice(0, N // 2)
    known = _known(stage, joint_kernel(labels[:, seen], pseudo[:, seen], m, len(design.pseudo)), moves, every)
    prior_error = 1.0 - float(odds_of(labels, m).max())
    return _material(raw, output, labels, pseudo, known, False, None, prior_error, tuple(notes))


def chain(beliefs: Any, T: int, every: int, rng: np.random.Generator) -> Ints:
    """A path of theta: the prior, then a step of the chain at each decision."""
    decisions = -(-T // every)
    found = [int(rng.choice(len(beliefs.prior), p=beliefs.prior))]
    for k in range(decisions - 1):
        row = beliefs.transitions[k % beliefs.period][found[-1]]
        at = int(np.searchsorted(np.cumsum(row), rng.random(), "right"))
        found.append(min(at, len(row) - 1))
    return np.repeat(np.array(found, dtype=np.int64), every)[:T]


def joint_kernel(labels: Ints, pseudo: Ints, m: int, n: int) -> Array:
    """The average of Pr(pseudo given theta) in paths of both; uniform where theta never is."""
    known = (labels >= 0) & (pseudo >= 0)
    counts = np.bincount(labels[known] * n + pseudo[known], minlength=m * n).reshape(m, n).astype(float)
    counts[counts.sum(axis=1) == 0.0] = 1.0
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _known(stage: Stage, kernel: Array, transitions: Array | None, every: int | None) -> Known:
    design, family = stage.design, stage.family
    prior = design.beliefs.prior if stage.causal else design.prior
    grid = grid_of(stage.sources)
    return Known(family, tuple(design.pseudo), kernel, np.asarray(prior), transitions, every, grid, design)


def _material(
    raw: Array, output: Array, labels: Ints, pseudo: Ints, known: Known, once: bool, bound: float | None,
    prior_error: float, notes: tuple[str, ...],
) -> Material:  # fmt: skip
    N, half = raw.shape[2], raw.shape[2] // 2
    blocks = np.broadcast_to(np.arange(N), labels.shape)
    m = len(known.family.values)
    cases = {
        "disguised": Cases(output, labels, blocks, m, once, pseudo=pseudo),
        "raw": Cases(raw, labels, blocks, m, once),
    }
    return Material(
        learn={name: case.sequences(slice(0, half)) for name, case in cases.items()},
        judge={name: case.sequences(slice(half, N)) for name, case in cases.items()},
        known={"disguised": known, "raw": raw_known(known)},
        independent=True,
        how="simulated",
        bound=bound,
        prior_error=prior_error,
        notes=notes,
    )


# Cases from raw readings: a recording is disguised with fresh draws and attacked, or an output is tak ---


_WASTE = 4.0  # how much larger than its rows a padded array may be
_GRID_ROWS = 20_000  # that a grid is looked for in


class Part(NamedTuple):
    """Stretches of a recording, and the stretch of resampling of each row."""

    recording: Recording
    pieces: Sequence[Piece]
    blocks: Ints


def from_history(history: History, family: Family) -> Recording:
    """A history, as `understudy.identify.fit.reread` makes one of a frame, as a recording to be audited on.

    Labels keep their order where the family has them; hours and weekdays are those of the clock on the wall.
    """
    from understudy.adversaries.recording import hours_and_days

    at = {value: i for i, value in enumerate(family.values)}
    lookup = np.array([at.get(value, -1) for value in history.values] + [-1], dtype=np.int64)
    segments = [segment for segment in history.segments if len(segment)]
    Y = np.concatenate([segment.Y for segment in segments])
    theta = np.concatenate([lookup[segment.theta] for segment in segments])
    number = np.repeat(np.arange(len(segments)), [len(segment) for segment in segments])
    hours = days = None
    if all(segment.times is not None for segment in segments):
        times = np.concatenate([np.asarray(segment.times) for segment in segments])
        hours, days = hours_and_days(times, history.zone)
    return Recording(np.array(Y), theta, number.astype(np.int64), hours, days, history.period)


def replayed(
    design: Any, recording: Recording, train: Recording | None, replicates: int, epoch: int | None,
    rng: np.random.Generator, tell: Progress,
) -> Material:  # fmt: skip
    """A recording disguised and split, or all of it judged by who has learned from another one."""
    stage, m, notes = _prepared(design, recording, epoch)
    learn, judge, told = _split(recording, train, m, stage.every or 1)
    notes += told
    once = _constant_replayed(learn) and _constant_replayed(judge) and stage.every is None
    total = len(learn.pieces) + len(judge.pieces)
    raw = [_cases(part, _rows(part), 1, m, once) for part in (learn, judge)]
    output, count = [], 0
    for part in (learn, judge):
        made, restarts, withheld = [], 0, 0
        for _ in range(replicates):
            for start, stop in part.pieces:
                done = stage.played(part.recording.Y[start:stop], part.recording.theta[start:stop], rng)
                made.append((done.output, done.pseudo))
                restarts += done.restarts
                there = ~np.isnan(part.recording.Y[start:stop]).any(axis=1)
                withheld += int((np.isnan(done.output).any(axis=1) & there).sum())
                count += 1
                tell(count / (total * replicates))
        output.append(_cases(part, [out for out, _ in made], replicates, m, once, [drawn for _, drawn in made]))
    notes += _gaps(restarts, withheld, replicates, stage.refill)
    known = _known_replayed(stage, raw[0], output[0], recording if train is None else train)
    truth = raw[1].truth
    odds = odds_of(truth, m)
    bound = _bound(design, truth, m) if once and not stage.causal else None
    if not once:
        notes += _premise(stage, recording)
    return Material(
        learn={"disguised": output[0], "raw": raw[0]}, judge={"disguised": output[1], "raw": raw[1]},
        known={"disguised": known, "raw": raw_known(known)}, independent=False, how="replayed", bound=bound,
        prior_error=1.0 - float(odds.max()), notes=tuple(notes), period=recording.period,
    )  # fmt: skip


def released(
    design: Any, recording: Recording, output: Array, train: Recording | None, raw_known_too: bool, replicates: int,
    epoch: int | None, rng: np.random.Generator, tell: Progress,
) -> Material:  # fmt: skip
    """An output that was made elsewhere, attacked as it is; `recording` has its labels, and raw readings if known.

    Without a recording to learn from, the adversary has the labels of the first part of the output.
    """
    stage, m, notes = _prepared(design, recording, epoch)
    if output.shape != recording.Y.shape:
        raise ConfigurationError(
            f"released has {len(output)} rows of {output.shape[1]} channels, and there are {len(recording.Y)} rows of "
            f"{recording.Y.shape[1]} beside it; they must agree"
        )
    shown = replace(recording, Y=output)
    learn, judge, told = _split(shown, train, m, stage.every or 1)
    notes += told
    once = _constant_replayed(learn) and _constant_replayed(judge) and stage.every is None
    attacked = _cases(judge, _rows(judge), 1, m, once)
    if train is None:
        known_by = _cases(learn, _rows(learn), 1, m, once)
        pseudo_known = known_by
    else:
        made = []
        for k in range(replicates):
            for start, stop in learn.pieces:
                made.append(stage.played(train.Y[start:stop], train.theta[start:stop], rng))
            tell((k + 1) / replicates)
        paths = [done.pseudo for done in made]
        known_by = pseudo_known = _cases(learn, [done.output for done in made], replicates, m, once, paths)
    known = _known_replayed(stage, known_by, pseudo_known, shown if train is None else train)
    learned, judged = {"disguised": replace(known_by, pseudo=None)}, {"disguised": attacked}
    if raw_known_too:
        of_learning = learn._replace(recording=recording) if train is None else learn
        learned["raw"] = _cases(of_learning, _rows(of_learning), 1, m, once)
        judged["raw"] = _cases(judge, _rows(judge._replace(recording=recording)), 1, m, once)
    if not once:
        notes += _premise(stage, recording)
    return Material(
        learn=learned, judge=judged, known={"disguised": known, "raw": raw_known(known)}, independent=False,
        how="released", bound=_bound(design, attacked.truth, m) if once and not stage.causal else None,
        prior_error=1.0 - float(odds_of(attacked.truth, m).max()), notes=tuple(notes), period=recording.period,
    )  # fmt: skip


def _prepared(design: Any, recording: Recording, epoch: int | None) -> tuple[Stage, int, list[str]]:
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, (int, np.integer)) or epoch < 1):
        raise ConfigurationError(f"epoch = {epoch!r}; it must be a whole number of readings, at least 1")
    causal = hasattr(design, "decision_every")
    notes: list[str] = []
    if causal and epoch is not None:
        raise ConfigurationError("a causal design decides every so many readings by itself; epoch is not for it")
    if not causal and epoch is None and _moves(recording):
        epoch = None if design.costs is None else design.costs.horizon
        epoch = epoch or 60
        notes.append(f"theta moves, and the design is for a constant one: it draws anew every {epoch} readings")
    stage = Stage(design, None if epoch is None else int(epoch))
    if recording.Y.shape[1] != stage.family.dim:
        raise ConfigurationError(
            f"the readings have {recording.Y.shape[1]} channels and the models {stage.family.dim}; they must agree"
        )
    return stage, len(design.values), notes


def _moves(recording: Recording) -> bool:
    """Whether theta changes within a segment."""
    return any(np.unique(theta[theta >= 0]).size > 1 for theta in _labels(recording, recording.pieces()))


def _constant_replayed(part: Part) -> bool:
    return len(part.pieces) > 1 and all(
        np.unique(theta[theta >= 0]).size <= 1 for theta in _labels(part.recording, part.pieces)
    )


def _labels(recording: Recording, pieces: Sequence[Piece]) -> list[Ints]:
    return [recording.theta[start:stop] for start, stop in pieces]


def _split(recording: Recording, train: Recording | None, m: int, least: int) -> tuple[Part, Part, list[str]]:
    """What is learned from, and what is judged."""
    if train is None:
        first, last, told = halves(recording, m)
        return (
            Part(recording, first, blocks_of(recording, first, least)),
            Part(recording, last, blocks_of(recording, last, least)),
            [told, unit_of(recording, last)],
        )
    if train.Y.shape == recording.Y.shape and np.array_equal(train.Y, recording.Y, equal_nan=True):
        raise ConfigurationError("train has the readings that are judged; nothing can be learned about others from it")
    both = []
    for each in (train, recording):
        pieces = [p for p in each.pieces() if each.judged[p[0] : p[1]].any()]
        if not pieces:
            raise ConfigurationError("a recording has no row with a reading and a label; there is nothing to go by")
        both.append(Part(each, pieces, blocks_of(each, pieces, least)))
    return both[0], both[1], ["one recording is learned from, another one judged", unit_of(*both[1][:2])]


def _rows(part: Part) -> list[Array]:
    return [part.recording.Y[start:stop] for start, stop in part.pieces]


def _cases(
    part: Part, outputs: Sequence[Array], copies: int, m: int, once: bool, pseudo: Sequence[Ints] | None = None
) -> Cases:
    """Stretches as sequences side by side, all copies of them; long ones are cut where padding would be most of it."""
    recording = part.recording
    pieces = list(part.pieces) * copies
    cut = _cuts([stop - start for start, stop in part.pieces]) if not once else None
    columns: list[tuple[int, int, int]] = []  # which output, first row in it, the one after the last
    for k, (start, stop) in enumerate(pieces):
        length = stop - start
        step = length if cut is None else -(-length // -(-length // cut))
        columns += [(k, at, min(at + step, length)) for at in range(0, length, step)]
    T, N, d = max(b - a for _, a, b in columns), len(columns), recording.Y.shape[1]
    Y = np.full((T, d, N), np.nan)
    labels, blocks = np.full((T, N), -1, dtype=np.int64), np.zeros((T, N), dtype=np.int64)
    hours = None if recording.hours is None or not recording.public else np.full((T, N), np.nan)
    days = None if recording.days is None or hours is None else np.full((T, N), -1, dtype=np.int64)
    drawn = None if pseudo is None else np.full((T, N), -1, dtype=np.int64)
    theta = np.where(recording.judged, recording.theta, -1)
    for column, (k, a, b) in enumerate(columns):
        rows = slice(pieces[k][0] + a, pieces[k][0] + b)
        Y[: b - a, :, column] = outputs[k][a:b]
        labels[: b - a, column] = theta[rows]
        blocks[:, column] = part.blocks[rows][-1]
        blocks[: b - a, column] = part.blocks[rows]
        if hours is not None and recording.hours is not None:
            hours[: b - a, column] = recording.hours[rows]
        if days is not None and recording.days is not None:
            days[: b - a, column] = recording.days[rows]
        if drawn is not None and pseudo is not None:
            drawn[: b - a, column] = pseudo[k][a:b]
    if once:
        known = [theta_k[theta_k >= 0][:1] for theta_k in labels.T]
        labels = np.broadcast_to(np.array([k[0] if k.size else -1 for k in known], dtype=np.int64), (T, N))
        firsts = part.blocks[[start for start, _ in part.pieces]]
        blocks = np.broadcast_to(np.tile(firsts, copies), (T, N))
    return Cases(Y, labels, blocks, m, once, hours, days, drawn)


def _cuts(lengths: Sequence[int]) -> int | None:
    """The most rows of a sequence, where a few long ones would make padding out of all the others; None if not."""
    if max(lengths) * len(lengths) <= _WASTE * sum(lengths) + 10_000:
        return None
    return max(1000, round(2.0 * sum(lengths) / len(lengths)))


def _known_replayed(stage: Stage, raw: Cases, output: Cases, recording: Recording) -> Known:
    """What the adversary makes of the design and of his own history."""
    design, m = stage.design, raw.m
    kernel = (
        design.randomizer.kernel if not stage.causal else np.full((m, len(design.pseudo)), 1.0 / len(design.pseudo))
    )
    if stage.causal and output.pseudo is not None:
        kernel = joint_kernel(output.labels, output.pseudo, m, len(design.pseudo))
    moves = None if raw.once else transitions_of(raw.labels, m)
    there = recording.Y[~np.isnan(recording.Y).any(axis=1)][:_GRID_ROWS]
    grid = grid_of(stage.sources, there if len(there) > 50 else None)
    odds = odds_of(raw.truth, m)
    return Known(stage.family, tuple(design.pseudo), np.asarray(kernel), odds, moves, stage.every, grid, design)


def _bound(design: Any, truth: Ints, m: int) -> float:
    """The error of the best adversary who sees the pseudo value, at the odds among the judged."""
    from understudy.randomizer.measures import bayes_error

    counts = np.bincount(truth[truth >= 0], minlength=m)
    charge = design.residual and design.charge.variation
    return max(0.0, float(bayes_error(counts / counts.sum(), design.randomizer.kernel)) - float(charge))


def _gaps(restarts: int, withheld: int, replicates: int, refill: int | None) -> list[str]:
    notes = []
    if withheld and refill is not None:
        notes.append(
            f"of each judged copy {withheld / replicates:,.0f} outputs are withheld: the models need {refill} readings "
            "in a row at the beginning and after a gap; they are guessed from the others"
        )
    if restarts:
        notes.append(
            f"the models have no law across missing readings: at {restarts / replicates:,.0f} gaps of each judged copy "
            "the filters began anew, which a stream refuses to do"
        )
    return notes


def _premise(stage: Stage, recording: Recording) -> list[str]:
    """What the theorem wants, and these data do not give."""
    notes = ["no bound is stated beside real readings: it holds where the models are right, and they are only fitted"]
    if not stage.causal:
        spells = f"here theta stays for {recording.spell:,.0f} readings on average"
        notes.append(
            f"the guarantee is for a theta that is constant over an epoch and drawn with the stated odds; {spells}, "
            "and draws for the same stay add up"
        )
    return notes


# Held noise: the other noise of equal distortion, an offset that is drawn once an epoch and kept -----


def holds(every: int | None, T: int) -> int:
    """For how many readings an offset is kept: an epoch, or the sequence if it has one draw.

    >>> holds(None, 50), holds(20, 50)
    (50, 20)
    """
    return T if every is None else min(every, T)


def with_held(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus held noise of the distortion that the output has on the judged cases."""
    learn, judge, known = material.learn, material.judge, material.known["raw"]
    scales = noise_scales(mean_distance(judge["raw"], judge["disguised"]), known.grid)
    every = material.known["disguised"].decision_every
    made = []
    for cases in (learn, judge):
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        offsets = noised(copies.outputs, scales, known.grid, rng, holds(every, copies.T))
        made.append(replace(copies, outputs=offsets))
    return replace(
        material,
        learn={**learn, "held": made[0]},
        judge={**judge, "held": made[1]},
        known={**material.known, "held": replace(known, noise=scales)},
    )
