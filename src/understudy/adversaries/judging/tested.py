"""Whether adversaries found anything: p of each, p corrected for all that were tried, and whether it could be small."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.judging import stretching, testing
from understudy.adversaries.judging.figures import Judged
from understudy._types import Ints

Source = Callable[..., np.random.Generator]
"""Generators by purpose."""


class Tried(NamedTuple):
    """The guesses of one adversary, and whether it had the clock."""

    name: str
    clock: bool
    made: Judged


class Tested(NamedTuple):
    """What became of one adversary."""

    p: float
    """Of "it tells nothing about theta"; with the clock, nothing beyond it. NaN where nothing can be told."""
    corrected: float
    """The same, for all adversaries together."""
    test: str
    """"permutation" or "stretches"."""
    testable: bool
    """Somebody who knows every label would be below the level."""


def outcomes(
    tried: Sequence[Tried], cases: Cases, independent: bool, hours: Ints | None, level: float, source: Source
) -> list[Tested]:
    """All adversaries that were tried on the same cases; `hours` numbers times of day, in the shape of ``cases.truth``.

    `independent` says that sequences are independent of each other.
    """
    return _permuted(tried, cases, level, source) if independent else _stretched(tried, cases, hours, level, source)


def _permuted(tried: Sequence[Tried], cases: Cases, level: float, source: Source) -> list[Tested]:
    draws = testing.permutations_for(len(tried), level)

    def p_of(made: Judged, rng: np.random.Generator) -> float:
        if cases.once:
            return testing.tables(made.fair, made.truth, made.m, rng, draws)
        guess = np.full(cases.truth.shape, -1)
        guess[cases.truth >= 0] = made.fair
        return testing.exchanged(guess, cases.truth, made.m, rng, draws)

    p = [p_of(one.made, source(one.name, one.clock)) for one in tried]
    count = sum(x == x for x in p)
    could = bool(tried) and count * p_of(_knowing(tried[0].made), source("knowing")) <= level
    return [Tested(x, y, "permutation", x == x and could) for x, y in zip(p, testing.holm(p), strict=True)]


def _stretched(tried: Sequence[Tried], cases: Cases, hours: Ints | None, level: float, source: Source) -> list[Tested]:
    draws = testing.permutations_for(1, level)

    def of(made: Judged, clock: bool) -> stretching.Agreement | None:
        hour = hours[cases.truth >= 0] if clock and hours is not None else None
        return stretching.agreement(made.fair, made.truth, made.blocks, made.m, hour)

    found = [of(one.made, one.clock) for one in tried]
    p = [stretching.alone(x, source(one.name, one.clock), draws) for x, one in zip(found, tried, strict=True)]
    drawn = stretching.together(found, source("together"), draws)
    corrected = [max(both) for both in zip(drawn, p, strict=True)]  # both may be drawn at random
    could: dict[bool, bool] = {}
    for k, one in enumerate(tried):
        if one.clock not in could:
            # in the place of this one
            knowing = [*found[:k], of(_knowing(one.made), one.clock), *found[k + 1 :]]
            best = stretching.together(knowing, source("knowing", one.clock), draws)[k]
            could[one.clock] = not math.isnan(best) and best <= level
    return [
        Tested(x, y, "stretches", x == x and could[one.clock]) for x, y, one in zip(p, corrected, tried, strict=True)
    ]


def _knowing(made: Judged) -> Judged:
    return made._replace(fair=made.truth)
