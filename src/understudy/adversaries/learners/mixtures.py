"""Mixtures of normal laws with full covariances, fitted by expectation and maximisation: densities of features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array

_STEPS = 40
_RIDGE = 1e-3  # of a unit variance, so that no component collapses
_ROWS = 200_000  # scored at a time


class NormalMixture(NamedTuple):
    """Weights (K,), means (K, F) and lower factors (K, F, F) of the covariances."""

    weights: Array
    means: Array
    factors: Array

    def logs(self, X: Array) -> Array:
        """Log-densities (count,) of rows (count, F)."""
        parts = [_logs(self, X[first : first + _ROWS]) for first in range(0, len(X), _ROWS)]
        return np.concatenate([np.logaddexp.reduce(part, axis=1) for part in parts]) if parts else np.empty(0)


def fitted(X: Array, K: int, rng: np.random.Generator) -> NormalMixture:
    """The mixture of K normal laws that rows (count, F) of about unit variance speak for.

    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(-4.0, 1.0, 500), rng.normal(4.0, 1.0, 500)])[:, None]
    >>> np.sort(fitted(X, 2, rng).means[:, 0]).round().tolist()
    [-4.0, 4.0]
    """
    count, F = X.shape
    K = max(1, min(K, count // (5 * (F + 1))))
    share = np.full((count, K), 1.0 / K)
    if K > 1:
        # begin apart along the direction of the greatest spread
        direction = np.linalg.eigh(np.cov(X.T).reshape(F, F))[1][:, -1]
        place = np.argsort(np.argsort(X @ direction, kind="stable"), kind="stable") * K // count
        share = 0.8 * np.eye(K)[place] + 0.2 / K
    made, last = _maximised(X, share), -np.inf
    for _ in range(_STEPS if K > 1 else 0):
        logs = _logs(made, X)
        total = np.logaddexp.reduce(logs, axis=1)
        value = float(total.mean())
        if value - last < 1e-5:
            break
        last, made = value, _maximised(X, np.exp(logs - total[:, None]))
    return made


def _maximised(X: Array, share: Array) -> NormalMixture:
    F = X.shape[1]
    size = share.sum(axis=0) + 1e-9
    means = share.T @ X / size[:, None]
    factors = np.empty((len(size), F, F))
    for k in range(len(size)):
        E = X - means[k]
        cov = (share[:, k, None] * E).T @ E / size[k]
        factors[k] = np.linalg.cholesky(cov + _RIDGE * np.eye(F))
    return NormalMixture(size / size.sum(), means, factors)


def _logs(made: NormalMixture, X: Array) -> Array:
    """Log-densities (count, K) of each component, with its weight."""
    from scipy.linalg import solve_triangular

    F = X.shape[1]
    result = np.empty((len(X), len(made.weights)))
    for k, (weight, mean, L) in enumerate(zip(*made, strict=True)):
        z = solve_triangular(L, (X - mean).T, lower=True, check_finite=False)
        scale = float(np.log(np.diag(L)).sum()) + 0.5 * F * float(np.log(2.0 * np.pi))
        result[:, k] = np.log(weight) - 0.5 * np.square(z).sum(axis=0) - scale
    return result
