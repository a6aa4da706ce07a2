"""T = 50 with the gains included: what a first call costs, against straightforward numpy."""

from __future__ import annotations

from functools import partial

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, compared, race, row
from benchmarks.peers import straightforward
from benchmarks.systems import SOURCE, SOURCE_4_3, TARGET, TARGET_4_3, System

T = 50


class Fresh:
    """Model pairs no call has seen, since a model keeps its gains.

    No two are equal either (R differs in the ninth digit), so that a cache by value would not help.
    """

    def __init__(self, source: System, target: System, calls: int, rounds: int) -> None:
        self.calls = calls
        self.systems = [(_nudged(source, i), _nudged(target, i)) for i in range(calls * rounds)]
        self.pairs = [(s.model(), t.model()) for s, t in self.systems]
        self.used = 0

    def take(self) -> slice:
        start, self.used = self.used, self.used + self.calls
        return slice(start, self.used)


def _nudged(system: System, i: int) -> System:
    return system._replace(R=np.multiply(system.R, 1.0 + 1e-9 * (i + 1)))


def run(quick: bool) -> Section:
    """Scalar (the required figure) and 4 states with 3 outputs."""
    rows: list[Row] = []
    rows += _pair("scalar", SOURCE, TARGET, Required(100), quick)
    rows += _pair("4 states, 3 outputs", SOURCE_4_3, TARGET_4_3, None, quick)
    return Section(
        f"T = {T}, gains included",
        "speed: numpy's time / the contender's time",
        rows,
        [
            "Times are for the whole call, not per reading. Each call gets two models that were never used, "
            "so that it has to compute their gains. Making the models (and checking their matrices) is "
            "outside the first figure and inside the second.",
        ],
    )


def _pair(tag: str, source: System, target: System, required: Required | None, quick: bool) -> list[Row]:
    calls, rounds = (50, 5) if quick else (200, 15)
    Y = us.sample(source.model(), T, rng=np.random.default_rng(4))
    fresh = Fresh(source, target, calls, rounds)

    def ours() -> np.ndarray:
        for s, t in fresh.pairs[fresh.take()]:
            out = us.disguise(Y, source=s, target=t)
        return out

    def ours_and_models() -> np.ndarray:
        for s, t in fresh.systems[:calls]:
            out = us.disguise(Y, source=s.model(), target=t.model())
        return out

    names = f"{tag}: understudy.disguise", f"{tag}: the same and making both models", f"{tag}: numpy"
    timings = race(
        [
            Contender(names[0], ours, 1, calls=calls),
            Contender(names[1], ours_and_models, 1, calls=calls),
            Contender(names[2], partial(straightforward.disguise, Y, source, target), 1),
        ],
        rounds,
    )
    mine, whole, numpy = (timings[name] for name in names)
    # The last pair is off by the nudge; the comparison allows for nothing else.
    last = straightforward.disguise(Y, *fresh.systems[fresh.used - 1])
    return [
        row(mine, numpy.best / mine.best, required=required, **compared(last, mine.output)),
        row(whole, numpy.best / whole.best),
        row(numpy),
    ]
