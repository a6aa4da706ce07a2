"""A thousand sensors at once, in and out of cache: understudy against a memory copy."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, compared, race, row
from benchmarks.peers import kalman
from benchmarks.systems import SOURCE, TARGET

SENSORS = 1000
SIZES = ((1000, Required(3.0, at_most=True)), (16_000, Required(1.3, at_most=True)))


def run(quick: bool) -> Section:
    """Readings of shape (time, channel, sensor); the time of a step covers all sensors."""
    rows: list[Row] = []
    for T, required in SIZES:
        rows += _size(T, required, quick)
    return Section(
        f"{SENSORS} sensors at once",
        "time: understudy's time / the contender's time (below 1, understudy is faster)",
        rows,
        [
            "Times are per reading (one sensor, one step). `understudy.disguise` allocates its output, as "
            "`Y.copy()` does; `np.copyto` writes into an array already there.",
            "Batch against single sensor: the compared figure of understudy's own row is the largest "
            "difference from disguising the first, the middle and the last sensor alone.",
            "Out of cache both sides pay for new memory: writing one number into each page of a fresh output took "
            "11.5 ms where the copy took 17.5, and one step in a pass into an array already there 13.4. The loop runs "
            "four steps in a pass and is compiled for AVX2 too, chosen at load time; either alone missed 1.3.",
        ],
    )


def _size(T: int, required: Required, quick: bool) -> list[Row]:
    source, target = SOURCE.model(), TARGET.model()
    Y = us.sample(source, T, n=SENSORS, rng=np.random.default_rng(2))
    there = np.zeros_like(Y)
    tag = f"{SENSORS} x {T:,}: "
    ours, copy, into, simd = (tag + name for name in ("understudy.disguise", "`Y.copy()`", "`np.copyto`", "simdkalman"))
    contenders = [
        Contender(ours, partial(us.disguise, Y, source=source, target=target), Y.size),
        Contender(copy, Y.copy, Y.size),
        Contender(into, partial(np.copyto, there, Y), Y.size),
    ]
    if SIZES[0][0] == T and find_spec("simdkalman"):
        contenders.append(
            Contender(simd, partial(kalman.simdkalman, Y[:, 0, :], SOURCE, TARGET), Y.size, rounds=1 if quick else 3)
        )
    timings = race(contenders, 5 if quick else 30)
    Y_out = timings[ours].output
    alone = [us.disguise(Y[:, 0, i].copy(), source=source, target=target) for i in (0, SENSORS // 2, -1)]
    rows = [row(timings[ours], **compared(Y_out[:, 0, [0, SENSORS // 2, -1]], np.stack(alone, axis=1)))]
    for name in (copy, into):
        ratio = timings[ours].best / timings[name].best
        held = required if name == copy else None
        rows.append(row(timings[name], ratio, required=held, compared="copies"))
    if simd in timings:
        ratio = timings[ours].best / timings[simd].best
        rows.append(row(timings[simd], ratio, **compared(Y_out[:, 0, :], timings[simd].output)))
    return rows
