"""The cost matrix: exact distortion of every pair of a family, against Monte Carlo of 1 percent accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, duration, race
from benchmarks.peers import montecarlo

SIZE, T = 64, 1000
ACCURACY = 0.01
PILOT = 200  # sequences from which the number needed is found
BUDGET = 20.0  # CPU seconds; a Monte Carlo that needs more is extrapolated
VALUES = tuple(float(v) for v in np.linspace(0, 1, SIZE))


def ventilated(theta: float) -> us.GaussMarkov:
    """A room whose dynamics and noise move with theta while its level stays: only the fluctuations differ."""
    A = 0.9 + 0.08 * theta
    return us.GaussMarkov(A=A, C=1.0, Q=0.1 + 0.1 * theta, R=0.1 + 0.1 * theta, b=200 * (1 - A), mean0=200.0, cov0=1.0)


def occupied(theta: float) -> us.GaussMarkov:
    """The paper's room: only the mean moves."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * theta, mean0=100.0, cov0=1.0)


def run(quick: bool) -> Section:
    """The family where everything but the mean moves carries the requirement; the paper's room stands beside it."""
    rows = _family("dynamics and noise move", ventilated, Required(1000), quick)
    rows += _family("the paper's room, the mean moves", occupied, None, quick)
    return Section(
        f"Cost matrix of {SIZE} x {SIZE} Gauss-Markov pairs, T = {T:,}, mean squared error",
        "speed: Monte Carlo's time / understudy's time; in understudy's own row, seconds",
        rows,
        [
            "CPU time of a whole call on models never used before (their gains are computed in it); pseudo values are "
            "the private values, so each model is on both sides. Samples are sequences of T readings.",
            "1 percent accuracy: the standard error of every entry is at most 1 percent of that entry, the least that "
            "the words can mean (an interval of 99 percent confidence that wide takes 6.6 times as many sequences). "
            f"The number of sequences is found from {PILOT} beforehand, by the worst entry and the 1/sqrt(N) law, "
            f"untimed, and is at least 2. Where the whole run would take more than {BUDGET:g} s, some of the sources "
            "are run and the time is extrapolated to all; the row says so.",
            "*Each pair*: readings of each source sampled once, disguised as each target, squared and averaged; it "
            "would serve any distortion. *Shared scores*: the same scores for all models, each coloured once, all "
            "pairs by a matrix product; squared error only. Both run understudy's own compiled transformations on "
            "many sequences at a time. The figure asked of Monte Carlo is held against both.",
            "In the paper's room all models differ in the mean alone, so that Y - ~Y is not random and two sequences "
            "give the exact answer. It stands here for that, without a requirement.",
            "*Outputs apart*: the largest distance from understudy's matrix relative to the entry.",
        ],
    )


def _matrix(room: Callable[[float], us.GaussMarkov]) -> Any:
    family = us.Family(room, values=VALUES)
    return np.asarray(us.costs(family, pseudo=VALUES, horizon=T, distortion="mse").matrix)


def _apart(exact: np.ndarray, estimate: np.ndarray) -> dict[str, str]:
    """Six standard errors and rounding are allowed."""
    apart = np.max(np.abs(estimate - exact)[exact > 0] / exact[exact > 0])
    return {"compared": f"{apart:.1e}", "failure": "" if apart <= 6 * ACCURACY else "outputs differ"}


def _family(tag: str, room: Callable[[float], us.GaussMarkov], required: Required | None, quick: bool) -> list[Row]:
    def fresh() -> list[us.GaussMarkov]:
        return [room(v) for v in VALUES]

    mean, deviation = montecarlo.spread(fresh(), T, PILOT, np.random.default_rng(7))
    off = ~np.eye(SIZE, dtype=bool)
    N = max(2, math.ceil(float(np.max((deviation[off] / (ACCURACY * mean[off])) ** 2))))

    # how many sources the plain way can be given
    start = process_time()
    montecarlo.each_pair(fresh(), T, N, [SIZE // 2], np.random.default_rng(8))
    one = process_time() - start
    some = max(1, min(SIZE, int((2.0 if quick else BUDGET) / one)))
    sources = list(range(0, SIZE, math.ceil(SIZE / some)))

    ours = f"{tag}: understudy.costs"
    plain = f"{tag}: Monte Carlo, each pair"
    if len(sources) < SIZE:
        plain += f" ({len(sources)} of {SIZE} sources run, extrapolated)"
    shared = f"{tag}: Monte Carlo, shared scores"
    timings = race(
        [
            Contender(ours, partial(_matrix, room), 1),
            Contender(plain, lambda: montecarlo.each_pair(fresh(), T, N, sources, np.random.default_rng(9)), 1, 2),
            Contender(shared, lambda: montecarlo.shared_scores(fresh(), T, N, np.random.default_rng(10)), 1, 3),
        ],
        3 if quick else 10,
        process_time,
    )
    mine = timings[ours]
    rows = [
        Row(
            ours,
            "",
            duration(mine.best),
            duration(mine.median),
            mine.best,
            None if required is None else Required(2.0, at_most=True),
        )
    ]
    for name, exact, whole in (
        (plain, mine.output[sources], SIZE / len(sources)),
        (shared, mine.output, 1.0),
    ):
        best, median = timings[name].best * whole, timings[name].median * whole
        rows.append(
            Row(
                name,
                f"{N:,}",
                duration(best),
                duration(median),
                best / mine.best,
                required,
                **_apart(exact, timings[name].output),
            )
        )
    return rows
