"""One line for each model: readings whitened and disguised a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.stats

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, compared, race, row, samples_for
from benchmarks.peers import hidden

STATES = 5


def run(quick: bool) -> Section:
    """Hidden Markov against a loop, rounded against not rounded, and what the others cost."""
    rounds = 3 if quick else 7
    rows = [*_hidden(quick, rounds), *_rounded(quick, rounds), *_others(quick, rounds)]
    return Section(
        "Models: one reading",
        "speed: the peer's time / understudy's time, per reading",
        rows,
        [
            "The loops take one reading at a time, with Brent's method for the inverse: with `scipy.stats.norm`, which "
            "is what one writes down first and what the figure is asked against, and with the bare functions under it.",
            "Rounded readings: the source whitens cells with uniforms from a seed (a keyed stream uses BLAKE2b: about "
            "0.1 us a reading more). The ratio is the speed relative to the same pair of models without rounding. "
            "Steps up to a quarter of an innovation standard deviation (0.1 here is 0.2 of one) have the shortest "
            "polynomials and run in stretches side by side.",
            "`General` integrates a density that is known by its values only; `Nonlinear` carries 1000 particles, or a "
            "grid of points, through every step.",
        ],
    )


def _chains(seed: int) -> tuple[us.HiddenMarkov, tuple[hidden.Chain, hidden.Chain]]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(STATES, 2.0), STATES)
    initial, means, sds = np.full(STATES, 1 / STATES), 4.0 * rng.standard_normal(STATES), 0.5 + rng.random(STATES)
    laws = [us.Gaussian(float(m), float(s * s)) for m, s in zip(means, sds, strict=True)]
    chain = P, initial, means, sds
    return us.HiddenMarkov(P, initial, laws), (hidden.Chain(*chain, plain=True), hidden.Chain(*chain))


def _hidden(quick: bool, rounds: int) -> list[Row]:
    T = 20_000 if quick else 200_000
    (source, sources), (target, targets) = _chains(1), _chains(2)
    Y = us.sample(source, T, rng=3)
    rows: list[Row] = []
    for name, ours, theirs in (
        ("whiten", lambda: us.whiten(Y, source), lambda n, i: hidden.whiten(Y[:n], sources[i])),
        (
            "disguise",
            lambda: us.disguise(Y, source, target),
            lambda n, i: hidden.disguise(Y[:n], sources[i], targets[i]),
        ),
    ):
        few = [samples_for(partial(_swap, theirs, i), 0.5 if quick else 3.0, T) for i in (0, 1)]
        label = f"HiddenMarkov, {STATES} states: {name}"
        timings = race(
            [
                Contender(f"{label}, understudy", ours, T),
                Contender(f"{label}, a loop with `scipy.stats`", partial(theirs, few[0], 0), few[0], rounds=3),
                Contender(f"{label}, a loop with `scipy.special`", partial(theirs, few[1], 1), few[1], rounds=3),
            ],
            rounds,
        )
        mine, plain, lean = timings.values()
        rows += [
            row(mine, **compared(mine.output, lean.output)),
            row(plain, plain.best / mine.best, required=Required(100), **compared(mine.output, plain.output)),
            row(lean, lean.best / mine.best),
        ]
    return rows


def _swap(run: Callable[[int, int], np.ndarray], i: int, n: int) -> np.ndarray:
    return run(n, i)


def _rounded(quick: bool, rounds: int) -> list[Row]:
    T = 100_000 if quick else 2_000_000

    def room(people: float) -> us.GaussMarkov:
        return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)

    rows: list[Row] = []
    smooth = us.sample(room(1), T, rng=4)
    plain = Contender("GaussMarkov, not rounded", lambda: us.disguise(smooth, room(1), room(0.6)), T)
    for step in (0.1, 0.25, 1.0):
        source, target = (us.Quantised(room(people), step=step) for people in (1, 0.6))
        Y = us.sample(source, T, rng=5)
        few = Y if step < 0.5 else Y[: T // 100]
        timings = race(
            [
                Contender(
                    f"Quantised, step {step:g}", lambda s=source, t=target, y=few: us.disguise(y, s, t, rng=6), len(few)
                ),
                plain,
            ],
            rounds if step < 0.5 else 3,
        )
        mine, peer = timings.values()
        rows.append(row(mine, peer.best / mine.best, required=Required(0.1) if step < 0.25 else None))
        last = peer
    rows.append(row(last))
    return rows


def _others(quick: bool, rounds: int) -> list[Row]:
    T = 200 if quick else 1000
    log_c = math.log(math.sqrt(2.0) * math.gamma(0.25) / 2.0)

    def density(y: np.ndarray, past: np.ndarray) -> np.ndarray:
        return -((y - 0.5 * (past[-1] if past.size else 0.0)) ** 4) / 4 - log_c

    def growth(x: np.ndarray, k: int) -> np.ndarray:
        return 0.5 * x + 25.0 * x / (1.0 + x * x) + 8.0 * math.cos(1.2 * k)

    parts = {
        "move": growth,
        "read": lambda x: x * x / 20.0,
        "process_noise": us.Gaussian(0.0, 10.0),
        "reading_noise": us.Gaussian(0.0, 1.0),
        "initial": us.Gaussian(0.0, 5.0),
    }
    student = us.Scalar(scipy.stats.t(4))
    models = {
        "IID, Student t": us.IID(student),
        "AutoRegressive, Student t": us.AutoRegressive([0.5, 0.3], noise=student),
        "IID, mixture of 2 normals": us.IID(us.Mixture([0.4, 0.6], [us.Gaussian(0.0, 1.0), us.Gaussian(3.0, 0.5)])),
        "Markov, Gaussian": us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0 + 0.1 * y * y)),
        "General, density exp(-e^4/4)": us.General(conditional=density, memory=1),
        "Nonlinear, 1000 particles": us.Nonlinear(**parts),
        "Nonlinear, point mass": us.Nonlinear(**parts, method="point-mass"),
    }
    rows: list[Row] = []
    for name, model in models.items():
        n = 100 * T if name.startswith(("IID", "Auto")) else T
        Y = us.sample(model, n, rng=7)
        timings = race(
            [Contender(f"{name}: whiten and colour", lambda m=model, y=Y: us.colour(us.whiten(y, m), m), n)], 3
        )
        (mine,) = timings.values()
        rows.append(row(mine, **compared(mine.output, Y)))
    return rows
