"""Can the private value be told from scores? A classifier tries, and chance is simulated.

For each reading the means over a trailing window are taken of the score, of its size and of its product with the one
before. A linear discriminant is trained on every other stretch of time and tested on the rest, both ways. Under a right
model the scores are standard normals that know nothing of theta, so chance is exactly what the same classifier
reaches on fresh normals with the same labels: it is simulated, persistence of the labels and all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array

WINDOWS = (1, 15, 60)
_STRETCHES = 20
_SIMULATIONS = 200


class Told(NamedTuple):
    """How well theta is told from so many scores: balanced accuracy, that of chance, its error, and the p-value.

    The p-value is that of a normal law with the mean and the variance of the simulations.
    """

    window: int
    accuracy: float
    chance: float
    chance_error: float
    p: float


def tellable(
    parts: list[Array], thetas: list[NDArray[np.intp]], tested: list[int], rng: np.random.Generator
) -> list[Told]:
    """Try for each window; `tested` are the values that are to be told apart, by position."""
    from scipy.stats import norm

    found = []
    theta, ok, stretch = _laid_out(parts, thetas, tested)
    z = np.concatenate(parts)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    missing = np.isnan(z)
    for window in WINDOWS:
        accuracy = _accuracy(_features(z, starts, window), theta, ok, stretch, len(tested))
        if accuracy is None:
            continue
        null = np.array(
            [
                _accuracy(_features(_fresh(missing, rng), starts, window), theta, ok, stretch, len(tested))
                for _ in range(_SIMULATIONS)
            ],
            dtype=float,
        )
        mean, sd = float(null.mean()), float(null.std(ddof=1))
        p = float(norm.sf((accuracy - mean) / max(sd, 1e-12)))
        found.append(Told(window, accuracy, mean, sd, p))
    return found


def _fresh(missing: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    z = rng.standard_normal(missing.shape)
    z[missing] = np.nan
    return z


def _laid_out(parts: list[Array], thetas: list[NDArray[np.intp]], tested: list[int]) -> tuple[Any, Any, Any]:
    """Labels 0, 1, ... of the values that are told apart, which rows count, and the parity of their stretch of time."""
    theta = np.concatenate(thetas)
    label = np.full(len(theta), -1)
    for new, old in enumerate(tested):
        label[theta == old] = new
    ok = (label >= 0) & ~np.isnan(np.concatenate(parts)).any(axis=1)
    order = np.cumsum(ok) - 1
    stretch = np.where(ok, order * _STRETCHES // max(1, int(ok.sum())), 0) % 2
    return label, ok, stretch


def _features(z: Array, starts: NDArray[np.int64], window: int) -> Array:
    """Means over the last `window` rows of the same segment of: score, its square, product with the one before."""
    before = np.full_like(z, np.nan)
    before[1:] = z[:-1]
    before[starts[:-1][starts[:-1] < len(z)]] = np.nan
    raw = np.concatenate([z, np.square(z) - 1.0, z * before], axis=1)
    if window == 1:
        return np.asarray(np.nan_to_num(raw))
    known = ~np.isnan(raw)
    total, count = (
        np.concatenate([np.zeros((1, raw.shape[1])), x.cumsum(axis=0)]) for x in (np.nan_to_num(raw), known)
    )
    rows = np.arange(1, len(z) + 1)
    first = np.maximum(rows - window, np.repeat(starts[:-1], np.diff(starts)))
    return np.asarray((total[rows] - total[first]) / np.maximum(1.0, count[rows] - count[first]))


def _accuracy(features: Array, label: Any, ok: Any, parity: Any, classes: int) -> float | None:
    """Balanced accuracy on stretches that were not trained on; None where a value is not in both halves."""
    right, total = np.zeros(classes), np.zeros(classes)
    for side in (0, 1):
        train, test = ok & (parity == side), ok & (parity != side)
        count = np.bincount(label[train], minlength=classes)
        if (count < 2).any():
            return None
        # a linear discriminant with all values equally likely, which is what balanced accuracy asks for
        X, labels = features[train], label[train]
        means = np.stack([np.bincount(labels, X[:, j], classes) / count for j in range(X.shape[1])], axis=1)
        spread = np.cov((X - means[labels]).T).reshape(X.shape[1], X.shape[1])
        weights = np.linalg.solve(spread + 1e-9 * np.eye(len(spread)), means.T)
        judged = features[test] @ weights - 0.5 * np.einsum("ij,ji->i", means, weights)
        guess = judged.argmax(axis=1)
        right += np.bincount(label[test][guess == label[test]], minlength=classes)
        total += np.bincount(label[test], minlength=classes)
    return None if (total == 0).any() else float((right / total).mean())
