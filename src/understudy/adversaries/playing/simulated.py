"""Cases from a design's own models: what adversaries get if all its premises hold.

A `Design` is played on sequences of a constant theta, with the odds of the design; a `CausalDesign` on sequences along
which theta moves by its chain, from one decision to the next. All sequences are independent. One half is learned
from, the other judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.playing.material import Material, grid_of, odds_of, raw_known
from understudy.adversaries.playing.on_grid import disguised
from understudy.adversaries.playing.played import Ints, Stage
from understudy.distortion.many import colour_all, quick
from understudy.errors import ConfigurationError
from understudy.laws.base import Array
from understudy.transform.filter import disguise
from understudy.transform.maps import gauss_markov
from understudy._types import Progress as Tell


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


def simulated(design: Any, n: int, rng: np.random.Generator, tell: Tell, causal: bool) -> Material:
    """Independent sequences of the design's models: n in all, or n readings in all where theta moves."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 8:
        raise ConfigurationError(f"n = {n!r}; it must be a whole number of at least 8")
    stage = Stage(design)
    return _moving(stage, int(n), rng, tell) if causal else _constant(stage, int(n), rng, tell)


def _constant(stage: Stage, n: int, rng: np.random.Generator, tell: Tell) -> Material:
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


def _moving(stage: Stage, n: int, rng: np.random.Generator, tell: Tell) -> Material:
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
