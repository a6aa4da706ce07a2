"""Families on a grid, as `us.fit` returns them for real recordings: readings a second, and long gaps."""

from __future__ import annotations

from time import process_time

import numpy as np
import scipy.stats

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, Timing, compared, duration, race, row
from understudy.laws.uniforms import Uniforms
from understudy.stream.release import LARGEST_SCORE
from understudy.transform.core import Chain, Emit, RandomisedScore
from understudy.transform.gaps import restarting_map

GAP = 40_000
KEY = b"a key of thirty-two bytes for it"
_COMPARED = 300


def run(quick: bool) -> Section:
    """Blocks of readings against the methods of the models, one reading at a time; then gaps."""
    rows = [line for name, required in WANTED.items() for line in _readings(name, required, quick)]
    rows += [_gap(name, required) for name, required in GAPS.items()]
    return Section(
        "Families on a grid",
        "readings a second; of gaps, milliseconds",
        rows,
        [
            "Each reading is whitened under one value and coloured under another, with keyed uniforms, as `apply` and "
            "`Stream.apply` do it. The models are those that `us.fit` chooses for recordings of an office: an "
            "autoregression with Student-t noise, and one of four channels, whose noises are mixtures joined by a "
            "copula. Times are those of the processor.",
            "A reading at a time: the methods of the models, which 0.1 asked for every reading (it was measured at 500 "
            "to 1,500 readings a second of one channel, and 139 of four, with other models). Both ways give the same "
            f"bits; {_COMPARED} readings are compared here.",
            f"Gaps: {GAP:,} missing readings in a row, whitening and colouring.",
        ],
    )


def one(v: int) -> us.OnGrid:
    """CO2 of an office."""
    noise = us.Scalar(scipy.stats.t(2.5 + v, 0.0, 1.0 + v))
    return us.OnGrid(us.AutoRegressive([0.7, 0.29], 5.0 + v, noise, past=[500.0, 500.0]), step=1.0 / 12.0)


def four(v: int) -> us.OnGrid:
    """CO2, temperature, humidity and light of an office."""
    normal = us.Gaussian(0.0, 1.0)
    laws = [
        us.Mixture([0.95, 0.05], [normal, us.Scalar(scipy.stats.t(3.0, 0.0, 3.0 + v))]),
        us.Mixture([0.35, 0.65], [normal, us.Gaussian(0.1, 0.1)]),
        us.Mixture([0.3, 0.5, 0.2], [normal, us.Gaussian(0.1, 0.1), us.Gaussian(-0.1, 4.0 + v)]),
        us.Mixture([0.2, 0.2, 0.6], [normal, us.Gaussian(1.0, 9.0), us.Scalar(scipy.stats.t(3.0))]),
    ]
    R = 0.3 * np.ones((4, 4)) + 0.7 * np.eye(4)
    Phi = np.array([0.6 * np.eye(4) + 0.02, 0.2 * np.eye(4)])
    noise = us.GaussianCopula(R, laws)
    return us.OnGrid(us.AutoRegressive(Phi, [1.0 + v, 2.0, 3.0, 4.0], noise), step=[0.1, 0.01, 0.05, 0.2])


def grey_box(v: int) -> us.OnGrid:
    """CO2 of a room by its balance."""
    return us.OnGrid(us.GaussMarkov(0.95, 1.0, 4.0, 9.0, b=25.0 + 5.0 * v, mean0=500.0, cov0=100.0), step=1.0)


def point_masses(v: int) -> us.Quantised:
    """A coarse sensor of the same."""
    return us.Quantised(us.GaussMarkov(0.95, 1.0, 4.0, 9.0, b=25.0 + 5.0 * v, mean0=500.0, cov0=100.0), step=20.0)


MODELS = {
    "OnGrid, AR(2), Student t, one channel": one,
    "OnGrid, VAR(2), mixtures and a copula, four channels": four,
    "OnGrid, Gauss-Markov": grey_box,
    "Quantised, point masses": point_masses,
}
WANTED = {
    "OnGrid, AR(2), Student t, one channel": Required(100_000),
    "OnGrid, VAR(2), mixtures and a copula, four channels": Required(20_000),
    "OnGrid, Gauss-Markov": Required(100_000),
}
GAPS = {
    "OnGrid, AR(2), Student t, one channel": Required(100, at_most=True),
    "OnGrid, Gauss-Markov": Required(100, at_most=True),
    "Quantised, point masses": Required(100, at_most=True),
}


def _readings(name: str, required: Required, quick: bool) -> list[Row]:
    make, count = MODELS[name], 20_000 if quick else 100_000
    Y = np.reshape(us.sample(make(0), count, rng=1), (count, -1))
    quickly = restarting_map(make(0), make(1), KEY, LARGEST_SCORE)
    maps = getattr(quickly, "maps", None) or (quickly.source, quickly.target)
    singly = Chain(RandomisedScore(make(0), Uniforms(KEY)), Emit(make(1)), limit=LARGEST_SCORE)
    both = Chain(*maps, limit=LARGEST_SCORE)
    few = Y[:_COMPARED]
    timings = race(
        [
            Contender(f"{name}: a block at a time", lambda: both.apply(both.start(), Y)[1], count),
            Contender(f"{name}: a reading at a time", lambda: singly.apply(singly.start(), few)[1], len(few), rounds=2),
        ],
        3 if quick else 5,
        process_time,
    )
    mine, general = timings.values()
    return [
        row(mine, 1.0 / mine.best, required=required, **compared(mine.output, general.output)),
        row(general, 1.0 / general.best),
    ]


def _gap(name: str, required: Required | None) -> Row:
    made = restarting_map(MODELS[name](0), MODELS[name](1), KEY, LARGEST_SCORE)
    state, _ = made.apply(made.start(), np.reshape(us.sample(MODELS[name](0), 50, rng=1), (50, -1)))
    nothing = np.full((GAP, made.dim), np.nan)
    (found,) = race([Contender(f"{name}: a gap", lambda: made.apply(state, nothing)[0], 1)], 3, process_time).values()
    return _line(found, required)


def _line(found: Timing, required: Required | None) -> Row:
    best, median = duration(found.best), duration(found.median)
    return Row(found.contender.name, f"{GAP:,}", best, median, 1e3 * found.best, required)
