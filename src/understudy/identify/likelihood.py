"""The likelihood of the grey-box model with its gradient, from one banded system of equations.

::

    x_k = A x_{k-1} + b_k + w_k,    w_k ~ N(0, Q_k)         x_0 ~ N(mean0, cov0) in every segment
    y_k = x_k + v_k,                v_k ~ N(0, R_k)         R_k diagonal, no y_k where a reading is missing

Given the readings, the states are jointly normal, and their precision L is block tridiagonal: each state touches its
neighbours only. So instead of running a filter forwards and a smoother backwards, a banded Cholesky factor of L gives
everything at once, all segments together:

* the smoothed states xhat, L xhat = r;
* log p(y) = log p(xhat, y) - log p(xhat given y), where the second term is a determinant;
* the covariances of neighbouring states, the entries of L^-1 inside the band. With G_k = L_{k+1,k} L_kk^-1 of the
  factor, Sigma_kk = (L_kk L_kk')^-1 + G_k' Sigma_{k+1,k+1} G_k, linear in the unknown Sigma: a second banded system.

The gradient is the mean of the gradient of log p(x, y) under the smoothed law (Fisher's identity), which asks for just
these moments: d/dA = sum Q^-1 E[w_k x_{k-1}'], d/db = sum Q^-1 E[w_k], d/dQ = (sum Q^-1 E[w w'] Q^-1 - Q^-1) / 2.

The same number is `us.loglik` of the switched Gauss-Markov model, a test says; this way is quicker, and has a gradient.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.identify.labelled import Indices, Rows
from understudy.laws.base import Array


class Layout(NamedTuple):
    """Where things stand: one node for each row and one before each segment; which rows have a reading."""

    node: Indices
    """(N,) the node of each row's state; the node before it is the state before the row."""
    zero: Indices
    """The node of x_0 of each segment."""
    seen: Indices
    """Rows with a reading."""
    Y: Array
    """Their readings (d, n)."""
    mean0: Array
    cov0: Array

    @property
    def nodes(self) -> int:
        """Number of states."""
        return len(self.node) + len(self.zero)


class Moments(NamedTuple):
    """The log-likelihood, and what the gradient is made of, row by row; rows come last."""

    loglik: float
    w: Array
    """(d, N) E[w_k]"""
    ww: Array
    """(d, d, N) E[w_k w_k']"""
    wx: Array
    """(d, d, N) E[w_k x_{k-1}']"""
    vv: Array
    """(d, n) E[v_k^2] of the rows with a reading"""


class System(NamedTuple):
    """A (d, d); for each row the offset b (d, N), and which of the noises Q (G, d, d), R (G, d) it has."""

    A: Array
    b: Array
    Q: Array
    R: Array
    noise: Indices


def layout(rows: Rows, mean0: Array, cov0: Array) -> Layout:
    """The layout of these rows."""
    opening = rows.opening
    node = np.arange(len(rows.Y)) + np.cumsum(opening)
    seen = np.flatnonzero(rows.used)
    return Layout(node, node[opening] - 1, seen, np.ascontiguousarray(rows.Y[seen].T), mean0, cov0)


def moments(system: System, lay: Layout) -> Moments:
    """Log-likelihood and smoothed moments.

    >>> rows = Rows(np.array([[1.0]]), np.array([0]), np.array([0]), np.array([True]))
    >>> one = np.ones((1, 1))
    >>> system = System(0.5 * one, 0.0 * one, one[None], one, np.array([0]))
    >>> round(moments(system, layout(rows, np.zeros(1), 4.0 * one)).loglik, 9)  # y_1 ~ N(0, 0.25 * 4 + 1 + 1)
    -1.634911344
    """
    from scipy.linalg import cho_solve_banded, cholesky_banded

    A, b, Q, R, noise = system
    d, n = len(A), lay.nodes
    node, before, zero = lay.node, lay.node - 1, lay.zero
    seen, at = node[lay.seen], noise[lay.seen]
    Qi: Array = np.asarray(np.linalg.solve(Q, np.broadcast_to(np.eye(d), Q.shape)), dtype=float)
    start = np.linalg.solve(lay.cov0, np.eye(d))
    precision = (1.0 / R).T[:, at]
    # the precision of the states: blocks D on the diagonal, F below it; r the right-hand side
    D, F, r = np.zeros((d, d, n)), np.zeros((d, d, n)), np.zeros((d, n))
    D[:, :, node] = _spread(Qi, noise)
    D[:, :, before] += _spread(A.T @ Qi @ A, noise)
    F[:, :, before] = _spread(-Qi @ A, noise)
    D[:, :, zero] += start[:, :, None]
    for i in range(d):
        D[i, i, seen] += precision[i]
    Qb = np.einsum("ijk,jk->ik", _spread(Qi, noise), b)
    r[:, node] = Qb
    r[:, before] -= A.T @ Qb
    r[:, zero] += (start @ lay.mean0)[:, None]
    r[:, seen] += precision * lay.Y
    factor = cholesky_banded(_banded(D, F), overwrite_ab=True, lower=True, check_finite=False)
    x = cho_solve_banded((factor, True), r.T.ravel(), check_finite=False).reshape(n, d).T
    S, C = _covariances(factor, n, d)

    w = x[:, node] - A @ x[:, before] - b
    v = lay.Y - x[:, seen]
    u = x[:, zero] - lay.mean0[:, None]
    squares = np.einsum("ik,ijk,jk->", w, _spread(Qi, noise), w) + np.sum(precision * v * v)
    squares += np.einsum("ik,ij,jk->", u, start, u)
    counts = np.bincount(noise, minlength=len(Q))
    logs = counts @ np.linalg.slogdet(Q)[1] + np.bincount(at, minlength=len(Q)) @ np.log(R).sum(axis=1)
    logs += len(zero) * np.linalg.slogdet(lay.cov0)[1] + 2.0 * np.log(factor[0]).sum()
    loglik = -0.5 * float(squares + logs + lay.Y.size * math.log(2.0 * math.pi))

    # cov(w_k, x_{k-1}) = cov(x_k, x_{k-1}) - A cov(x_{k-1})
    cross = C[:, :, before]
    cwx = cross - np.einsum("ij,jlk->ilk", A, S[:, :, before])
    # cov(w_k) = cov(x_k) - A cov(x_{k-1}, x_k) - cov(w_k, x_{k-1}) A'
    cww = S[:, :, node] - np.einsum("ij,ljk->ilk", A, cross) - np.einsum("ijk,lj->ilk", cwx, A)
    ww = w[:, None] * w[None, :] + cww
    wx = w[:, None] * x[None, :, before] + cwx
    vv = v * v + np.einsum("iik->ik", S)[:, seen]
    return Moments(loglik, w, ww, wx, vv)


def _spread(matrices: Array, which: Indices) -> Array:
    """The matrix of each row, rows last."""
    return np.ascontiguousarray(matrices.transpose(1, 2, 0))[:, :, which]


def _banded(D: Array, F: Array) -> Array:
    """The band below the diagonal, as LAPACK wants it: entry (i, j) of the matrix stands at (i - j, j)."""
    d, _, n = D.shape
    band = np.zeros((n, d, 2 * d))
    for i in range(d):
        for j in range(d):
            if i >= j:
                band[:, j, i - j] += D[i, j]
            band[:, j, d + i - j] += F[i, j]
    return band.reshape(n * d, 2 * d).T


def _covariances(factor: Array, n: int, d: int) -> tuple[Array, Array]:
    """Sigma_kk and Sigma_{k+1,k} of every node, nodes last, from the banded factor."""
    from scipy.linalg.lapack import dtbtrs

    band = factor.T.reshape(n, d, 2 * d)
    K, B = np.zeros((d, d, n)), np.zeros((d, d, n))
    for i in range(d):
        for j in range(d):
            if i >= j:
                K[i, j] = band[:, j, i - j]
            B[i, j, :-1] = band[:-1, j, d + i - j]
    inverse = _inverse(K)
    G = np.einsum("ijk,jlk->ilk", B, inverse)
    # vec Sigma_k - (G_k' (x) G_k') vec Sigma_{k+1} = vec (L_k L_k')^-1, an upper triangular band
    m = d * d
    M = np.einsum("cak,ebk->abcek", G, G).reshape(m, m, n)
    kd = 2 * m - 1
    upper = np.zeros((n, m, kd + 1))
    for p in range(m):
        for q in range(m):
            upper[1:, q, kd - (m + q - p)] = -M[p, q, :-1]
    right = np.einsum("jik,jlk->kil", inverse, inverse).reshape(-1, 1)
    solved = dtbtrs(upper.reshape(n * m, kd + 1).T, right, uplo="U", diag="U", overwrite_b=1)[0]
    S = np.ascontiguousarray(solved.reshape(n, d, d).transpose(1, 2, 0))
    S = (S + S.transpose(1, 0, 2)) / 2.0
    C = np.zeros((d, d, n))
    C[:, :, :-1] = -np.einsum("ijk,jlk->ilk", S[:, :, 1:], G[:, :, :-1])
    return S, C


def _inverse(K: Array) -> Array:
    """Inverses of lower triangular matrices (d, d, n), by forward substitution."""
    X = np.zeros_like(K)
    for i in range(len(K)):
        X[i, i] = 1.0 / K[i, i]
        for j in range(i):
            X[i, j] = -np.einsum("lk,lk->k", K[i, j:i], X[j:i, j]) / K[i, i]
    return X
