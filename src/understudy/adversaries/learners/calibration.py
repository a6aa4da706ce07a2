"""Scores made into probabilities by what training cases show: a logistic regression, or a temperature.

An adversary that knows the design has scores from models, and models are never quite right on real data: readings that
are taken for independent given theta are not, and evidence is counted twice. Two remedies, both learned from training
cases alone. A *temperature* t raises likelihoods to a power, so that evidence counts as much as it proved to be worth.
A *logistic regression* on the scores, with a ridge, weighs several scores against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import normalised
from understudy.laws.base import Array

MOST = 200_000
"""Training cases that a regression looks at, at most."""

_CLEARLY = 5.0  # nats by which the training cases must speak against a model that is known to be right


class Calibration(NamedTuple):
    """A multinomial logistic regression on standardised scores; `logits` gives log-probabilities."""

    centre: Array
    scale: Array
    weights: Array

    def __repr__(self) -> str:
        return f"Calibration({len(self.centre)} scores, {len(self.weights)} values)"

    def logits(self, scores: Array) -> Array:
        """Log-probabilities (m, ...) for scores (F, ...); a score that is not finite counts as an average one."""
        flat = scores.reshape(len(scores), -1)
        found = self.weights[:, :-1] @ _standardised(flat, self.centre, self.scale) + self.weights[:, -1:]
        return normalised(found.reshape(len(self.weights), *scores.shape[1:]))


def calibrated(
    scores: Array, labels: NDArray[np.int64], m: int, *, ridge: float = 1.0, rng: np.random.Generator | None = None
) -> Calibration:
    """Learn from scores (F, ...) and labels of the same shape but for the first axis; -1 takes no part.

    The ridge is in units of cases on standardised scores. A value that is absent from training is left with the odds
    of half a case.

    >>> rng = np.random.default_rng(1)
    >>> label = rng.integers(2, size=2000)
    >>> made = calibrated(rng.normal(3.0 * label)[None], label, 2)
    >>> made
    Calibration(1 scores, 2 values)
    >>> float(np.exp(made.logits(np.array([[1.5]]))[0, 0])).__round__(1)
    0.5
    """
    flat, truth = scores.reshape(len(scores), -1), labels.reshape(-1)
    at = np.flatnonzero(truth >= 0)
    if at.size > MOST:
        generator = np.random.default_rng(0) if rng is None else rng
        at = np.sort(generator.choice(at, MOST, replace=False))
    X, y = flat[:, at], truth[at]
    finite = np.isfinite(X)
    count = np.maximum(finite.sum(axis=1), 1)
    centre = np.where(finite, X, 0.0).sum(axis=1) / count
    spread = np.sqrt(np.where(finite, np.square(X - centre[:, None]), 0.0).sum(axis=1) / count)
    # what never varies tells nothing
    scale = np.where(spread > 1e-9 * (1.0 + np.abs(centre)), spread, np.inf)
    odds = np.bincount(y, minlength=m) + 0.5
    start = np.zeros((m, len(X) + 1))
    start[:, -1] = np.log(odds / odds.sum())
    if at.size == 0 or np.isinf(scale).all():
        return Calibration(centre, scale, start)
    return Calibration(centre, scale, _regression(_standardised(X, centre, scale), y, start, ridge))


def coolest(
    loss: Callable[[float], float],
    temperatures: Sequence[float] = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001),
) -> float:
    """The temperature of least loss, and once more between its neighbours.

    >>> coolest(lambda t: (t - 0.3) ** 2)
    0.25
    """
    grid = sorted(temperatures)
    losses = [loss(t) for t in grid]
    k = int(np.argmin(losses))
    found = [(losses[k], grid[k])]
    for other in (k - 1, k + 1):
        if 0 <= other < len(grid):
            between = float(np.sqrt(grid[k] * grid[other]))
            found.append((loss(between), between))
    return min(found)[1]


def believed(loss: Callable[[float], float], cases: int) -> float:
    """The temperature 1 of a model that is right, unless so many independent cases speak clearly against it.

    >>> believed(lambda t: (t - 0.9) ** 2, 100), round(believed(lambda t: (t - 0.3) ** 2, 100), 2)
    (1.0, 0.25)
    """
    best = coolest(loss)
    return best if (loss(1.0) - loss(best)) * cases > _CLEARLY else 1.0


def surprise(logits: Array, labels: NDArray[np.int64]) -> float:
    """Mean of minus the log-probability (m, ...) of the labels (...), in nats; -1 takes no part."""
    there = labels >= 0
    if not there.any():
        return 0.0
    picked = np.take_along_axis(logits, np.where(there, labels, 0)[None], axis=0)[0]
    return -float(picked[there].mean())


def _standardised(X: Array, centre: Array, scale: Array) -> Array:
    Z = (X - centre[:, None]) / scale[:, None]
    return np.asarray(np.clip(np.where(np.isfinite(Z), Z, 0.0), -30.0, 30.0))


def _regression(X: Array, y: NDArray[np.int64], start: Array, ridge: float) -> Array:
    """Weights (m, F + 1) of least ridge |W|^2 / 2 - log-likelihood."""
    from scipy.optimize import minimize

    m, F = len(start), len(X)
    Z = np.concatenate([X, np.ones((1, X.shape[1]))])
    count = X.shape[1]
    pull = np.append(np.full(F, ridge / count), 1e-6)  # the intercept hardly

    def loss(flat: Array) -> tuple[float, Any]:
        W = flat.reshape(m, F + 1)
        scores = W @ Z
        top = scores.max(axis=0)
        p = np.exp(scores - top)
        total = p.sum(axis=0)
        value = float((np.log(total) + top).sum() - scores[y, np.arange(count)].sum()) / count
        p /= total
        p[y, np.arange(count)] -= 1.0
        return value + 0.5 * float((np.square(W - start) * pull).sum()), (p @ Z.T / count + (W - start) * pull).ravel()

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300, "gtol": 1e-7})
    return np.asarray(found.x.reshape(m, F + 1))
