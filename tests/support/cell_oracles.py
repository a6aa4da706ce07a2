"""Rounded Gaussian readings by other means: mpmath, and Gauss-Legendre quadrature over the unrounded readings."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
from scipy.special import ndtr


def exact_cell(centre, half, a, b):
    """Log-probability, mean and variance of a standard normal in a cell, in many digits.

    A finite cell is given by its centre and half-width, another by its ends.
    """
    # the variance of a narrow cell is a difference that loses many digits
    with mp.workdps(120):
        if math.isfinite(half):
            a, b = mp.mpf(centre) - mp.mpf(half), mp.mpf(centre) + mp.mpf(half)
        else:
            a, b = mp.mpf(a), mp.mpf(b)
        if a + b < 0:
            P = mp.erfc(-b / mp.sqrt(2)) / 2 - mp.erfc(-a / mp.sqrt(2)) / 2
        else:
            P = mp.erfc(a / mp.sqrt(2)) / 2 - mp.erfc(b / mp.sqrt(2)) / 2
        at = [mp.mpf(0) if mp.isinf(e) else mp.npdf(e) for e in (a, b)]
        edge = [mp.mpf(0) if mp.isinf(e) else e * f for e, f in zip((a, b), at, strict=True)]
        mean = (at[0] - at[1]) / P
        variance = 1 + (edge[0] - edge[1]) / P - mean**2
        return float(mp.log(P)), float(mean), float(variance)


def exact_score(centre, half, a, b, v):
    """Phi^-1(Phi(a) + v (Phi(b) - Phi(a))) by Newton's method on the smaller tail, in many digits."""
    with mp.workdps(60):
        if math.isfinite(half):
            a, b = mp.mpf(centre) - mp.mpf(half), mp.mpf(centre) + mp.mpf(half)
        else:
            a, b = mp.mpf(a), mp.mpf(b)
        v = mp.mpf(v)
        below = lambda x: mp.mpf(0) if mp.isinf(x) and x < 0 else mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
        above = lambda x: mp.mpf(0) if mp.isinf(x) and x > 0 else mp.erfc(x / mp.sqrt(2)) / 2  # noqa: E731
        # interpolated tails, neither of which is a small difference
        u, w = (1 - v) * below(a) + v * below(b), (1 - v) * above(a) + v * above(b)
        sign, tail = (1, w) if w < u else (-1, u)
        # log sf(z) = log tail, from the asymptote
        z = mp.sqrt(max(mp.mpf("1e-6"), -2 * mp.log(2 * tail)))
        for _ in range(60):
            step = (mp.log(above(z)) - mp.log(tail)) * above(z) / mp.npdf(z)
            z += step
            if abs(step) < mp.mpf(10) ** -40:
                break
        return float(sign * z)


def next_cells(mean, cov, cells, ends, nodes=40):
    """Pr(last of some jointly normal readings between ends | each reading before in its cell)."""
    T = len(mean)
    if T == 1:
        return np.diff(ndtr((np.array(ends) - mean[0]) / math.sqrt(cov[0, 0])), axis=1)[:, 0]
    t, w = np.polynomial.legendre.leggauss(nodes)
    L = np.linalg.cholesky(cov)
    axes = [0.5 * (a + b) + 0.5 * (b - a) * t for a, b in cells]
    mesh = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")])
    weights = np.array([math.prod(p) for p in itertools.product(w, repeat=T - 1)])
    z = np.linalg.solve(L[: T - 1, : T - 1], mesh - mean[: T - 1, None])
    f = weights * np.exp(-0.5 * (z**2).sum(axis=0))
    q, s = mean[-1] + L[-1, : T - 1] @ z, L[-1, -1]
    return np.array([f @ (ndtr((b - q) / s) - ndtr((a - q) / s)) for a, b in ends]) / f.sum()
