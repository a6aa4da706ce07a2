"""Scalar Gauss-Markov readings: against copying, filtering, Kalman libraries and noise addition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, Timing, compared, race, row, samples_for
from benchmarks.peers import kalman, noise, statsmodels_peer
from benchmarks.peers.steady import SteadyFilter
from benchmarks.systems import SOURCE, TARGET

OURS = "understudy.disguise"
OURS_OUT = "understudy.disguise, out="
COPY, COPY_INTO = "memory copy, `Y.copy()`", "memory copy into an array already there, `np.copyto`"
FILTER, FILTER_OFFSET = "`scipy.signal.lfilter`, filter alone", "`scipy.signal.lfilter` and its offset"
TRANSIENT = 500  # readings after which the exact gains are frozen to double precision
SAME_JOB = {  # name -> (package, function, required ratio)
    "statsmodels, two `KalmanFilter`s": ("statsmodels", statsmodels_peer.filters, Required(1000)),
    "statsmodels, quickest way": ("statsmodels", statsmodels_peer.quickest, Required(1000)),
    "filterpy x 2, `norm.cdf`/`ppf`": ("filterpy", kalman.filterpy, Required(40_000)),
    "pykalman, `filter_update`": ("pykalman", kalman.pykalman, None),
    "simdkalman, one sensor": ("simdkalman", kalman.simdkalman, None),
}
NOISE = {
    "noise: numpy Gaussian": ("numpy", noise.numpy_gaussian),
    "noise: diffprivlib Gaussian": ("diffprivlib", noise.diffprivlib_gaussian),
    "noise: diffprivlib Laplace": ("diffprivlib", noise.diffprivlib_laplace),
    "noise: OpenDP Gaussian": ("opendp", noise.opendp_gaussian),
    "noise: OpenDP Laplace": ("opendp", noise.opendp_laplace),
}


def run(quick: bool) -> Section:
    """Ten million readings (one million when quick); slow peers get a shorter prefix of the same input."""
    T, budget, rounds = (1_000_000, 0.5, 5) if quick else (10_000_000, 10.0, 15)
    source, target = SOURCE.model(), TARGET.model()
    Y = us.sample(source, T, rng=np.random.default_rng(1))
    there, mine = np.zeros_like(Y), np.zeros_like(Y)
    lfilter = SteadyFilter(SOURCE, TARGET)

    contenders = [
        Contender(OURS, partial(us.disguise, Y, source=source, target=target), T),
        Contender(OURS_OUT, partial(us.disguise, Y, source=source, target=target, out=mine), T),
        Contender(COPY, Y.copy, T),
        Contender(COPY_INTO, partial(np.copyto, there, Y), T),
        Contender(FILTER, partial(lfilter.alone, Y), T),
        Contender(FILTER_OFFSET, partial(lfilter.whole, Y), T),
    ]
    missing = []
    for name, (package, peer, *_) in (SAME_JOB | NOISE).items():
        if find_spec(package) is None:
            missing.append(name)
            continue
        work = partial(peer, source=SOURCE, target=TARGET) if name in SAME_JOB else peer
        contenders.append(_slow(name, work, Y, budget))

    timings = race(contenders, rounds)
    return Section(
        f"Scalar Gauss-Markov, T = {T:,}",
        "speed: peer's time / understudy's time, per sample",
        _rows(timings, lfilter) + [Row(name, "", "not installed", "") for name in missing],
        [
            "`understudy.disguise` allocates its output, as `Y.copy()` and `lfilter` do, and pays for fresh pages; "
            "every ratio but one is against it. The copy into an existing array does not pay, and stands beside it "
            "for comparison only.",
            "`understudy.disguise, out=` writes into an array that is there. Its ratio, and its alone, is the time of "
            "`lfilter` and its offset over its own: `lfilter` has no `out`, so it allocates and understudy does not.",
            "The transformation is a filter and an offset, so `lfilter` with its offset is the same job; the filter "
            "alone stands beside it.",
            f"`lfilter` is compared after {TRANSIENT} readings (its gains are frozen from the start); where "
            "its constant offset was not timed, it is added before comparing.",
            "statsmodels freezes its gains when they have converged to about 1e-10, hence its distance. Its "
            "`KalmanFilter` cannot colour, so the first row has that recursion in numpy; the second uses "
            "`SimulationSmoother.simulate` with given shocks, runs compiled throughout, and is no longer its Kalman "
            "filter alone; the figure asked of statsmodels is held against both.",
            "Noise addition is another job (it hides a reading, not the parameter), here for its price.",
        ],
    )


def _slow(name: str, work: Callable[[np.ndarray], np.ndarray], Y: np.ndarray, budget: float) -> Contender:
    """A peer on the prefix of Y that keeps it busy for about `budget` seconds."""
    work(Y[:64])  # imports and first-call costs are not the peer's speed
    samples = samples_for(lambda n: work(Y[:n]), budget, len(Y))
    return Contender(name, partial(work, Y[:samples]), samples, rounds=3)


def _rows(timings: dict[str, Timing], lfilter: SteadyFilter) -> list[Row]:
    ours = timings[OURS]
    Y_out = ours.output
    into = timings[OURS_OUT]
    whole = timings[FILTER_OFFSET]
    rows = [
        row(ours),
        row(into, whole.best / into.best, required=Required(3), **compared(Y_out, into.output)),
    ]
    for name, timing in timings.items():
        if name in (OURS, OURS_OUT):
            continue
        ratio, out = timing.best / ours.best, timing.output
        if name in (COPY, COPY_INTO):
            required = Required(0.3) if name == COPY else None
            rows.append(row(timing, ratio, required=required, compared="copies"))
        elif name == FILTER:
            apart = compared(Y_out, out + lfilter.offset, TRANSIENT)
            rows.append(row(timing, ratio, **apart))
        elif name == FILTER_OFFSET:
            rows.append(row(timing, ratio, required=Required(3), **compared(Y_out, out, TRANSIENT)))
        elif name in SAME_JOB:
            rows.append(row(timing, ratio, required=SAME_JOB[name][2], **compared(Y_out, out)))
        else:
            rows.append(row(timing, ratio, compared="another job"))
    return rows
