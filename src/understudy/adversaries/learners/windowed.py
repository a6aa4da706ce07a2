"""The paper's estimator, learned: a linear discriminant on the mean of a window and on that of one reading earlier.

In the paper's room X_{k+1} = a X_k + b Theta + W_k, and (Ybar - a Ybarbar) / b estimates Theta, with Ybar the mean of
the readings in a window and Ybarbar that of the readings one step before. Whoever does not know a and b learns from
labelled outputs which combination of the two tells the values apart. Several lengths of the window are tried; the one
that does best on stretches that were held out is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.learners.features import lengths
from understudy.adversaries.learners.rolling import Window, centred, mean, running, shifted, trailing
from understudy.adversaries.learners.weighing import Mask, Weighed, weighed
from understudy.errors import ConfigurationError
from understudy.laws.base import Array

_RIDGE = 1e-9  # of a variance: keeps readings that never differ from being divided by


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Discriminant:
    """A linear discriminant: normals with a mean for each value and one covariance for all."""

    weights: Array
    """(m, f)."""
    offsets: Array
    """(m,), without the prior; -inf for a value that was not seen."""
    prior: Array
    """(m,), shares of the labels."""

    def __repr__(self) -> str:
        m, f = self.weights.shape
        return f"Discriminant({m} values, {f} features)"

    def evidence(self, levels: Any) -> Array:
        """Log-likelihoods (m, rows) of the values, up to a common constant."""
        X = _table(levels)
        return np.asarray(self.weights @ X.T + self.offsets[:, None])

    def guess(self, levels: Any) -> NDArray[np.int64]:
        """The likeliest value of each row, at the odds among the labels."""
        with np.errstate(divide="ignore"):
            odds = np.log(self.prior)
        return np.asarray(np.argmax(self.evidence(levels) + odds[:, None], axis=0), dtype=np.int64)


def linear_discriminant(levels: Any, labels: Any, m: int | None = None) -> Discriminant:
    """The linear discriminant (LDA) of labelled rows, (n,) or (n, f); `m` values, as many as labels if not given.

    >>> found = linear_discriminant([1.0, 2.0, 3.0, 7.0, 8.0, 9.0], [0, 0, 0, 1, 1, 1])
    >>> found.guess([4.9, 5.1]).tolist()
    [0, 1]
    """
    X, y = _table(levels), np.asarray(labels, dtype=np.int64)
    if y.shape != X.shape[:1] or not len(y) or not np.isfinite(X).all() or int(y.min()) < 0:
        raise ConfigurationError(
            f"levels of shape {X.shape} and labels of shape {y.shape}; it takes finite rows, and a label each"
        )
    m = int(y.max()) + 1 if m is None else m
    counts = np.bincount(y, minlength=m).astype(float)
    centre = X.mean(axis=0)
    X = X - centre
    sums = np.stack([np.bincount(y, weights=column, minlength=m) for column in X.T], axis=1)
    means = sums / np.maximum(counts, 1.0)[:, None]
    inside = X - means[y]
    S = inside.T @ inside / max(len(y) - int((counts > 0).sum()), 1)
    scale = np.where(np.diag(S) > 0.0, np.diag(S), np.maximum((X * X).mean(axis=0), 1e-300))
    S = S + np.diag(_RIDGE * scale)
    # log N(x; mu_i, S) = mu_i' S^-1 x - mu_i' S^-1 mu_i / 2 + what all have in common
    weights = np.linalg.solve(S, means.T).T
    offsets = -0.5 * (weights * means).sum(axis=1) - weights @ centre
    return Discriminant(weights, np.where(counts > 0.0, offsets, -np.inf), counts / counts.sum())


@dataclass(frozen=True, slots=True)
class Windowed:
    """The windowed estimator of the paper, with what it needs to know learned from labelled outputs.

    >>> labels = np.random.default_rng(1).integers(2, size=(1, 400)).repeat(20, axis=0)
    >>> outputs = (labels + np.random.default_rng(2).normal(size=labels.shape))[:, None, :]
    >>> cases = Cases(outputs, labels, np.tile(np.arange(400), (20, 1)), m=2, once=True)
    >>> attack = Windowed().learn(cases.sequences(slice(200)), None, None)
    >>> int((attack.logits(cases.sequences(slice(200, 400))).argmax(axis=0) == labels[0, 200:]).sum())
    198
    """

    name: str = "windowed estimator"

    def objection(self, cases: Cases, known: Known) -> str:
        """There is none."""
        return ""

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> Weighed:
        """Learn the discriminant for several windows, and take the best."""
        windows = _ends(cases.T) if cases.once else _around(cases.T)
        return weighed([partial(_read, cases, window) for window in windows], cases, lengths(cases.T)[-1] // 2)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Windows:
    """A window and the discriminant that was learned for it."""

    window: Window
    centre: Array
    rule: Discriminant

    def evidence(self, cases: Cases) -> Array:
        X = means_of(cases, self.window)
        gone = np.isnan(X).all(axis=1)
        found = self.rule.evidence(np.where(np.isnan(X), self.centre, X))
        # a value that was not seen is unlikely, but never impossible
        found = np.maximum(found, np.where(np.isfinite(found), found, np.inf).min(axis=0) - 12.0)
        found = np.where(gone, 0.0, found - found.max(axis=0))
        return np.asarray(found.reshape(len(found), *cases.truth.shape))


def means_of(cases: Cases, window: Window) -> Array:
    """Mean of the window of each guess, and of the same window one reading earlier: (guesses, 2 d).

    Where theta is constant in a sequence, the window is the one of its last reading.
    """
    columns = []
    for c in range(cases.d):
        now = mean(running(cases.outputs[:, c]), window)
        # the window a reading earlier: what is before the first reading is left out of both
        before = shifted(now, 1)
        columns += [now[-1], before[-1]] if cases.once else [now.ravel(), before.ravel()]
    return np.stack(columns, axis=1)


def _read(cases: Cases, window: Window, where: Mask) -> _Windows:
    X, y = means_of(cases, window)[where.ravel()], cases.truth[where]
    there = ~np.isnan(X)
    centre = np.where(there, X, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    X = np.where(there, X, centre)
    if not len(X):
        rule = Discriminant(np.zeros((cases.m, 2 * cases.d)), np.zeros(cases.m), np.full(cases.m, 1.0 / cases.m))
    else:
        rule = linear_discriminant(X, y, cases.m)
    return _Windows(window, centre, rule)


def _around(T: int) -> list[Window]:
    """Windows for a theta that moves: around a reading and before it."""
    return [kind(w) for w in lengths(T) for kind in (centred, trailing)]


def _ends(T: int) -> list[Window]:
    """Windows at the end of a sequence; the paper's is a fifth of it."""
    sizes = {1, 2, 5, T // 10, T // 5, T // 2, T - 1}
    return [trailing(w) for w in sorted(size for size in sizes if 1 <= size <= max(T - 1, 1))]


def _table(levels: Any) -> Array:
    X = np.asarray(levels, dtype=float)
    return X[:, None] if X.ndim == 1 else X
