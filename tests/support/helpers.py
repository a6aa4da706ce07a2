"""Oracles written another way than the package: one big joint Gaussian, and a test for white scores."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import scipy.stats

import understudy as us

ALPHA = 1e-6  # false-alarm rate of every statistical test


def room(occupants, **changes):
    """The paper's room: occupants raise the CO2 by 10 a step."""
    given = {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 10.0 * occupants, "mean0": 100.0, "cov0": 1.0}
    return us.GaussMarkov(**{**given, **changes})


def positive(rng, size, rank=None, floor=0.0):
    """A random covariance; singular if `rank` is less than `size`."""
    root = rng.standard_normal((size, size if rank is None else rank))
    return root @ root.T + floor * np.eye(size)


def stable(rng, n, radius):
    """A random matrix with the given spectral radius."""
    A = rng.standard_normal((n, n))
    return A * (radius / np.abs(np.linalg.eigvals(A)).max())


def random_system(rng, n, d, radius=0.9, rank=None):
    """Keyword arguments of a random GaussMarkov model with n states and d outputs."""
    return {
        "A": stable(rng, n, radius),
        "C": rng.standard_normal((d, n)),
        "Q": positive(rng, n, rank),
        "R": positive(rng, d, floor=0.1),
        "b": rng.standard_normal(n),
        "d": rng.standard_normal(d),
        "mean0": 3.0 * rng.standard_normal(n),
        "cov0": positive(rng, n),
    }


def entry(given, k):
    """The value of a parameter at reading k: callable, per step (list) or constant."""
    if callable(given):
        return given(k)
    return given[k - 1] if isinstance(given, list) else given


def dense(system, T):
    """Mean (T d) and covariance of the stacked readings, from the noises that drive them.

    Y = const + F (X_0 - mean0, W_1..W_T, V_1..V_T), so cov Y = F blockdiag(cov0, Q.., R..) F'.
    """
    mean0, cov0 = np.atleast_1d(system["mean0"]), np.atleast_2d(system["cov0"])
    n = mean0.size
    d = np.atleast_2d(entry(system["C"], 1)).shape[0]
    size = n + T * n + T * d
    noise = np.zeros((size, size))
    noise[:n, :n] = cov0
    x, X = mean0.astype(float), np.zeros((n, size))
    X[:, :n] = np.eye(n)
    mean, F = np.zeros(T * d), np.zeros((T * d, size))
    for k in range(1, T + 1):
        A, C, Q, R = (np.atleast_2d(entry(system[name], k)) for name in ("A", "C", "Q", "R"))
        b, offset = (np.broadcast_to(entry(system.get(name, 0.0), k), size) for name, size in (("b", n), ("d", d)))
        w, v, rows = n + (k - 1) * n, n + T * n + (k - 1) * d, slice((k - 1) * d, k * d)
        noise[w : w + n, w : w + n], noise[v : v + d, v : v + d] = Q, R
        x, X = A @ x + b, A @ X
        X[:, w : w + n] += np.eye(n)
        mean[rows], F[rows] = C @ x + offset, C @ X
        F[rows, v : v + d] += np.eye(d)
    return mean, F @ noise @ F.T


def dense_scores(Y, mean, cov, partial=False):
    """Scores and log-likelihood by one big Cholesky, with the rows of missing readings deleted."""
    Y = np.asarray(Y, dtype=float)
    flat = Y.reshape(len(Y), -1)
    gone = np.isnan(flat)
    if not partial:
        gone = np.broadcast_to(gone.any(axis=1, keepdims=True), flat.shape)
    there = ~gone.ravel()
    L = np.linalg.cholesky(cov[np.ix_(there, there)])
    z = np.full(there.size, np.nan)
    z[there] = np.linalg.solve(L, flat.ravel()[there] - mean[there])
    loglik = -0.5 * np.sum(z[there] ** 2) - 0.5 * there.sum() * math.log(2 * math.pi) - np.log(np.diag(L)).sum()
    return z.reshape(Y.shape), float(loglik)


def draw(rng, mean, cov, T):
    """One sequence from the joint Gaussian, (T, d)."""
    values, vectors = np.linalg.eigh(cov)
    return (mean + vectors @ (np.sqrt(np.clip(values, 0, None)) * rng.standard_normal(mean.size))).reshape(T, -1)


def with_gaps(rng, Y, share=0.3, partial=False):
    """A copy of Y (T, d) with whole rows missing, and single channels too if `partial`."""
    Y = Y.copy()
    Y[rng.random(len(Y)) < share] = np.nan
    if partial:
        Y[rng.random(Y.shape) < share] = np.nan
    return Y


def white_pvalue(z, lags=8):
    """p-value (Bonferroni over its parts) that z (T, d) are independent standard normals.

    Parts: each marginal (Kolmogorov-Smirnov), mean, mean square, all serial and cross correlations up
    to `lags` of z, and of z^2 - 1.
    """
    z = np.asarray(z, dtype=float).reshape(len(z), -1)
    T, d = z.shape
    parts = [scipy.stats.kstest(z[:, i], "norm").pvalue for i in range(d)]
    parts += [2 * scipy.stats.norm.sf(abs(z[:, i].sum()) / math.sqrt(T)) for i in range(d)]
    squares = (z**2).sum(axis=0)
    parts += [2 * min(scipy.stats.chi2.sf(s, T), scipy.stats.chi2.cdf(s, T)) for s in squares]
    for w in (z, (z**2 - 1) / math.sqrt(2.0)):
        total, count = 0.0, 0
        for lag in range(lags + 1):
            c = w[lag:].T @ w[: T - lag] / math.sqrt(T - lag)
            kept = c[np.tril_indices(d, -1)] if lag == 0 else c.ravel()
            total, count = total + float(kept @ kept), count + kept.size
        parts.append(scipy.stats.chi2.sf(total, count))
    return min(1.0, min(parts) * len(parts))


def is_white(z):
    """Whether z passes for white standard normals, at a false-alarm rate of `ALPHA`."""
    return white_pvalue(z) > ALPHA


def same_bits(a, b):
    """Equal bit for bit, NaN counted as equal to NaN."""
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def count_calls(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, are called while `work` runs: its cost on any machine."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def stepwise(transform, Y):
    """The output of a Transform one reading at a time, and the last state."""
    state, out = transform.start(), []
    for y in Y:
        state, value = transform.step(state, float(y) if np.ndim(y) == 0 else y)
        out.append(value)
    return state, np.array(out)


class OwnGaussMarkov:
    """A user's own model: nothing but the four methods and `dim`, around a built-in one."""

    def __init__(self, model):
        self._model, self.dim = model, model.dim

    def start(self):
        return self._model.start()

    def predict(self, state):
        return self._model.predict(state)

    def update(self, state, y):
        return self._model.update(state, y)

    def skip(self, state):
        return self._model.skip(state)
