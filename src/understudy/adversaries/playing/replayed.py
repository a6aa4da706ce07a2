"""Cases from raw readings: a recording is disguised with fresh draws and attacked, or an output is taken as it is.

The adversary has a labelled history of his own. He knows the design, so he disguises that history as often as he
likes: `replicates` copies, each with draws of its own. He is judged on copies of another stretch of time, or on a
recording that he has never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.judging.by_day import blocks_of, unit_of
from understudy.adversaries.known import Known
from understudy.adversaries.playing.material import Material, grid_of, odds_of, raw_known, transitions_of
from understudy.adversaries.playing.played import Ints, Stage
from understudy.adversaries.playing.recording import Piece, Recording, halves
from understudy.adversaries.playing.simulated import joint_kernel
from understudy.errors import ConfigurationError
from understudy.identify.history import History
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy._types import Progress as Tell


_WASTE = 4.0  # how much larger than its rows a padded array may be
_GRID_ROWS = 20_000  # that a grid is looked for in


class Part(NamedTuple):
    """Stretches of a recording, and the stretch of resampling of each row."""

    recording: Recording
    pieces: Sequence[Piece]
    blocks: Ints


def from_history(history: History, family: Family) -> Recording:
    """A history, as `understudy.identify.again.reread` makes one of a frame, as a recording to be audited on.

    Labels keep their order where the family has them; hours and weekdays are those of the clock on the wall.
    """
    from understudy.adversaries.wall_clock import hours_and_days

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
    rng: np.random.Generator, tell: Tell,
) -> Material:  # fmt: skip
    """A recording disguised and split, or all of it judged by who has learned from another one."""
    stage, m, notes = _prepared(design, recording, epoch)
    learn, judge, told = _split(recording, train, m, stage.every or 1)
    notes += told
    once = _constant(learn) and _constant(judge) and stage.every is None
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
    known = _known(stage, raw[0], output[0], recording if train is None else train)
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
    epoch: int | None, rng: np.random.Generator, tell: Tell,
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
    once = _constant(learn) and _constant(judge) and stage.every is None
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
    known = _known(stage, known_by, pseudo_known, shown if train is None else train)
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


def _constant(part: Part) -> bool:
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


def _known(stage: Stage, raw: Cases, output: Cases, recording: Recording) -> Known:
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
