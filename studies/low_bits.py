"""What low-order bits tell, and from which step of the output on they are not told apart.

A disguise maps doubles to doubles, and the adversary `bits` counts the readings that give exactly an output. Two
tables:

1. The design of the README: how often the adversary is wrong about theta, from outputs as doubles and from outputs
   rounded to the lattice of the design, 2^-11, beside what the card says; exact intervals (Clopper and Pearson) at 99
   percent.
2. For pairs of models, outputs of the one disguised as the other beside outputs of the other as itself, rounded to
   2^-k: the area under the curve (AUC) of what counting says for the first against the second, and the probability of
   so much by chance (Mann and Whitney). Steps are listed from fine to coarse until three in a row are not told at 1e-6.
   How coarse a step must be grows with the number of readings: what is left of each is of the order of the square of
   (spacing of readings / step).

    python -m studies.low_bits             # a few minutes
    python -m studies.low_bits --quick     # smaller, for a look
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bits import Bits, count_evidence
from understudy.adversaries.learners.inversion import DOUBLE, Form, Machine, Release

ALARM = 1e-6
CARD_STEP = 2.0**-11  # that of the README's design
READINGS = 300
LEARNED = 2000


def room(occupants: float) -> us.GaussMarkov:
    """The room of the README."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def rounded(Y: np.ndarray, step: float) -> np.ndarray:
    """What leaves at a step; doubles where it is 0."""
    return Y if step == 0.0 else np.rint(Y / step) * step + 0.0


# 1. The design of the README -------------------------------------------------------------------------


def rooms(design: Any, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (T, 1, count) of rooms with a draw each, and the position of theta of each."""
    theta = rng.choice(len(design.prior), size=count, p=design.prior)
    ends = np.cumsum(design.randomizer.kernel, axis=1)
    drawn = (rng.random(count)[:, None] >= ends[theta]).sum(axis=1)
    outputs = np.empty((READINGS, 1, count))
    for i, j in np.unique(np.stack([theta, drawn]), axis=1).T.tolist():
        at = np.flatnonzero((theta == i) & (drawn == j))
        source, target = (design.family.model(v) for v in (design.values[i], design.pseudo[j]))
        outputs[:, :, at] = us.disguise(
            us.sample(source, READINGS, at.size + 2, rng=rng)[:, :, : at.size], source, target
        )
    return outputs, theta


def readme(count: int) -> None:
    """How often the adversary is wrong on the design of the README."""
    family = us.Family(room, values=[0, 1])
    design = us.design(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")
    known = Knowledge(family, design.pseudo, design.randomizer.kernel, design.prior, None, None, None, design)
    outputs, theta = rooms(design, LEARNED + count, np.random.default_rng(1))
    print(f"README design: the card says wrong in at least {100 * design.guarantee.bayes_error:.2f} percent")
    for step in (0.0, CARD_STEP):
        rows = np.tile(theta, (READINGS, 1))
        cases = Cases(rounded(outputs, step), rows, np.tile(np.arange(theta.size), (READINGS, 1)), 2, once=True)
        attack = Bits().learn(cases.sequences(slice(0, LEARNED)), known, np.random.default_rng(2))
        judge = cases.sequences(slice(LEARNED, theta.size))
        wrong = int((attack.logits(judge).argmax(axis=0) != judge.truth).sum())
        low, high = scipy.stats.binomtest(wrong, count).proportion_ci(0.99, "exact")
        name = "doubles" if step == 0.0 else f"2^{np.log2(step):.0f}"
        print(
            f"  {name:8} wrong in {100 * wrong / count:.2f} percent ({100 * low:.2f} to {100 * high:.2f}), n = {count}"
        )


# 2. Pairs of models ----------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A source, a target, the form of the readings, and the exponents -k that are tried."""

    name: str
    source: Any
    target: Any
    form: Form
    exponents: range


def normal(mean: float, sd: float) -> us.IID:
    """Independent normals."""
    return us.IID(us.Gaussian(mean, sd * sd))


PAIRS = (
    Pair("README room, 1 as 0", room(1), room(0), DOUBLE, range(48, 41, -1)),
    Pair("N(3,1) as N(0,1)", normal(3.0, 1.0), normal(0.0, 1.0), DOUBLE, range(52, 41, -1)),
    Pair("N(0,1) as N(3,1)", normal(0.0, 1.0), normal(3.0, 1.0), DOUBLE, range(52, 41, -1)),
    Pair("N(0,1.7^2) as N(0,1)", normal(0.0, 1.7), normal(0.0, 1.0), DOUBLE, range(52, 41, -1)),
    Pair("N(0,1) as N(0,1.7^2)", normal(0.0, 1.0), normal(0.0, 1.7), DOUBLE, range(52, 41, -1)),
    Pair("N(0,2^2) as N(0,1)", normal(0.0, 2.0), normal(0.0, 1.0), DOUBLE, range(52, 41, -1)),
    Pair("float32 room, 1 as 0", room(1), room(0), Form("float32"), range(20, 11, -1)),
)


def told(pair: Pair, step: float, count: int, seed: int) -> tuple[float, float]:
    """AUC of what counting says for the source against the target as itself, and its p value."""
    said = []
    for k, model in enumerate((pair.source, pair.target)):
        raw = us.sample(model, READINGS, count, rng=np.random.default_rng([seed, k]))
        out = rounded(us.disguise(pair.form.nearest(raw), model, pair.target), step)
        nats = [
            count_evidence(Machine(other, pair.target, READINGS), out, Release((step,)), pair.form, 2 * READINGS // 3)[
                0
            ]
            for other in (pair.source, pair.target)
        ]
        said.append(nats[0] - nats[1])
    found = scipy.stats.mannwhitneyu(said[0], said[1], alternative="greater")
    return float(found.statistic) / count**2, float(found.pvalue)


def pairs(count: int) -> None:
    """From which step on each pair is not told apart."""
    for pair in PAIRS:
        print(f"{pair.name} (n = {count} of each, T = {READINGS})")
        silent = 0
        for name, step in [("doubles", 0.0), *((f"2^-{k}", 2.0**-k) for k in pair.exponents)]:
            auc, p = told(pair, step, count, 7)
            print(f"  {name:8} AUC {auc:.3f}  p {p:.1e}{'' if p < ALARM else f'  not at {ALARM:g}'}")
            silent = 0 if p < ALARM else silent + 1
            if silent == 3:
                break


def timed(work: Callable[[int], None], count: int) -> None:
    """Do it, and say how long it took."""
    started = time.perf_counter()
    work(count)
    print(f"  ({time.perf_counter() - started:.0f} s)\n")


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description="what low-order bits tell")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, for a look")
    quick = parser.parse_args().quick
    timed(readme, 2000 if quick else 20_000)
    timed(pairs, 100 if quick else 1500)


if __name__ == "__main__":
    main()
