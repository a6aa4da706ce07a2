"""Readings simulated by the definition of each model, without the package: many sequences at once.

Nothing here goes through scores, so that a test of the output law does not test a thing by itself.
Arrays are (T, d, N): time, channel, sequence.
"""

from __future__ import annotations

import numpy as np


def gauss_markov(rng, systems, mean0, cov0, T, N):
    """X_k = A X_{k-1} + b + W, Y_k = C X_k + d + V; `systems(k)` gives A, b, Q, C, d, R of step k."""
    n = len(mean0)
    x = np.asarray(mean0, float)[:, None] + _normal(rng, cov0, n, N)
    out = []
    for k in range(1, T + 1):
        A, b, Q, C, d, R = (np.asarray(v, float) for v in systems(k))
        x = A @ x + b[:, None] + _normal(rng, Q, n, N)
        out.append(C @ x + d[:, None] + _normal(rng, R, len(d), N))
    return np.stack(out)


def of_model(rng, model, T, N):
    """The same for a `GaussMarkov`, from its own matrices."""
    return gauss_markov(rng, lambda k: model.at(k), model.mean0, model.cov0, T, N)


def recursion(rng, first, following, T, N):
    """y_1 = first(rng, N), y_k = following(rng, y_{k-1}, k): arrays (N,)."""
    y = [first(rng, N)]
    for k in range(2, T + 1):
        y.append(following(rng, y[-1], k))
    return np.stack(y)[:, None, :]


def autoregressive(rng, phi, intercept, noise, past, T, N):
    """Scalar AR(p), `past` latest first; `noise(rng, N)` draws innovations."""
    history = [np.full(N, float(value)) for value in past]
    out = []
    for _ in range(T):
        y = intercept + sum(f * h for f, h in zip(phi, history, strict=True)) + noise(rng, N)
        history = [y, *history[:-1]]
        out.append(y)
    return np.stack(out)[:, None, :]


def _normal(rng, cov, size, N):
    cov = np.asarray(cov, float)
    values, vectors = np.linalg.eigh(cov)  # semidefinite is fine here
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.standard_normal((size, N))
