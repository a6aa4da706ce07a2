"""The paper's remark that direct computation becomes prohibitive for large k.

Disguising the k-th reading directly takes the conditional law of y_k given y_1..y_{k-1} from the joint
Gaussian, once under the source and once under the target. The textbook formula solves with the (k-1) x (k-1)
covariance at every reading, k^3; keeping the Cholesky factor and adding a row is k^2. The recursion is O(1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Row, Section, compared, duration, race
from benchmarks.systems import SOURCE, TARGET, System

LENGTHS = (10, 30, 100, 300, 1000, 3000)


@dataclass(frozen=True)
class Joint:
    """Mean and covariance of y_1..y_T, and the rows of its Cholesky factor packed one after the other."""

    mean: np.ndarray
    cov: np.ndarray
    packed: np.ndarray

    @classmethod
    def of(cls, m: System, T: int) -> Joint:
        """Stack the recursion: Cov(X_j, X_k) = A^(k-j) Var(X_j) for j <= k."""
        mean, var = np.empty(T), np.empty(T)
        x, P = m.mean0, m.cov0
        for k in range(T):
            x, P = m.A * x + m.b, m.A * P * m.A + m.Q
            mean[k], var[k] = m.C * x + m.d, P
        k = np.arange(T)
        earlier = np.minimum.outer(k, k)
        cov = m.C**2 * m.A ** np.abs(np.subtract.outer(k, k)) * var[earlier] + m.R * np.eye(T)
        return cls(mean, cov, np.linalg.cholesky(cov)[np.tril_indices(T)])


def conditional(joint: Joint, past: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the next reading by the textbook formula, one Cholesky solve; k^3."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(past)
    cross = joint.cov[n, :n]
    weights = cho_solve(cho_factor(joint.cov[:n, :n], lower=True, check_finite=False), cross, check_finite=False)
    return joint.mean[n] + weights @ (past - joint.mean[:n]), (joint.cov[n, n] - weights @ cross) ** 0.5


def bordered(joint: Joint, scores: np.ndarray) -> tuple[float, float]:
    """The same from a factor that is kept: its new row by one triangular solve; k^2.

    Packed by rows the factor grows at its end, so that a prefix of it is the factor of a shorter past.
    """
    from scipy.linalg.blas import dtpsv

    n = len(scores)
    # L new = cross; rows of L are columns of its transpose, which is what BLAS calls upper packed
    new = dtpsv(n, joint.packed[: n * (n + 1) // 2], joint.cov[n, :n], lower=0, trans=1)
    return joint.mean[n] + new @ scores, (joint.cov[n, n] - new @ new) ** 0.5


def _direct(law: Callable[..., tuple[float, float]], source: tuple, target: tuple, y: float) -> np.ndarray:
    """Score the reading under the source given its past, and give the target's value of that score."""
    mean, deviation = law(*source)
    mean_out, deviation_out = law(*target)
    return np.array([mean_out + deviation_out * (y - mean) / deviation])


def run(quick: bool) -> Section:
    """Cost of reading number k, three ways, on the same sequence."""
    lengths = LENGTHS[:-1] if quick else LENGTHS
    T = max(lengths)
    source, target = SOURCE.model(), TARGET.model()
    Y = us.sample(source, T, rng=np.random.default_rng(5))
    Y_out, z = us.disguise(Y, source=source, target=target), us.whiten(Y, source)
    joints = Joint.of(SOURCE, T), Joint.of(TARGET, T)
    transform = us.Transform(source, target)
    rows = []
    for k in lengths:
        n = k - 1
        state, _ = transform.apply(transform.start(), Y[:n])
        y = float(Y[n])
        calls = 2000
        step = partial(_repeat, transform.step, state, y, calls)
        pasts = [(j, past) for j, past in zip(joints, (Y[:n], Y_out[:n]), strict=True)]
        kept = [(j, z[:n]) for j in joints]
        names = f"k = {k:,}: recursion", f"k = {k:,}: solve anew", f"k = {k:,}: growing Cholesky"
        timings = race(
            [
                Contender(names[0], step, 1, calls=calls),
                Contender(names[1], partial(_direct, conditional, *pasts, y), 1),
                Contender(names[2], partial(_direct, bordered, *kept, y), 1),
            ],
            3 if k >= 3000 or quick else 20,
        )
        ours = timings[names[0]]
        for name in names:
            t = timings[name]
            ratio = None if t is ours else t.best / ours.best
            apart = compared(Y_out[n:k], t.output)
            rows.append(Row(name, "1", duration(t.best), duration(t.median), ratio, **apart))
    return Section(
        "Direct computation against the recursion",
        "speed: direct time / the recursion's time for reading number k",
        rows,
        [
            "The joint covariances are given (filling them in is not timed); all three see the same past.",
        ],
    )


def _repeat(step: Callable[..., tuple], state: object, y: float, calls: int) -> np.ndarray:
    for _ in range(calls):
        _, out = step(state, y)
    return np.atleast_1d(out)
