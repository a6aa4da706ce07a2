"""Undoing "disguise, then round": the likelihood of a rounded output under a pair of parameters.

Given the past, the plain map is increasing in the reading: ~y = c + r (y - e) in each channel, r = ~L / L. A released
cell therefore stands for an interval of readings, and the grid points in it are all that y can have been. With r >= 1
there is at most one, so the whole input can be followed; where there is none, the pair is refuted. With r < 1 there
are several, and a few particles draw among them. Either way the likelihood of the output is

    p(~y_1..T given i, j) = prod_k Pr_i(y_k among those that ~y_k leaves open, given y_1..k-1),

where the law of the rounded process is approximated by a Kalman filter with step^2/12 more noise.
"""

from __future__ import annotations

import numpy as np

from understudy.laws.base import Array
from understudy.models.gauss_markov import GaussMarkov

_IMPOSSIBLE = -14.0  # log-likelihood of a reading that no input explains: once in a million, for what we do not know
_EDGE = 1e-7  # of a step: a float on the edge of its cell may fall to either side
_SURE = 1.0 - 1e-9


def decoded(Y: Array, source: GaussMarkov, target: GaussMarkov, grid: tuple[Array, Array], particles: int) -> Array:
    """Log-likelihood (N,) of rounded outputs Y (T, d, N), if readings of `source` on the grid (steps, offsets) came in.

    A row that is missing in one sequence must be missing in all.
    """
    step, offset = grid
    T, d, N = Y.shape
    rng = np.random.default_rng(0)
    M = particles if _narrows(source, target, T) else 1
    nothing = np.zeros(d)
    whiten, colour = _Predictor(source, N * M, nothing), _Predictor(target, N * M, nothing)
    law = _Predictor(source, N * M, step**2 / 12.0)
    total, weight = np.zeros(N), np.zeros((N, M))
    for k in range(T):
        gone = bool(np.isnan(Y[k]).any())
        mean, mean_out, mean_law = whiten.predict(gone), colour.predict(gone), law.predict(gone)
        if gone:
            continue
        L, L_out, L_law = whiten.L, colour.L, law.L
        released = np.repeat(Y[k], M, axis=1)
        e, e_out, e_law = (np.empty((d, N * M)) for _ in range(3))
        z, u = np.empty((d, N * M)), np.empty((d, N * M))
        for c in range(d):
            # ~y = base + r (y - centre): what the channels before have settled, and what this one adds
            centre, base = mean[c] + L[c, :c] @ z[:c], mean_out[c] + L_out[c, :c] @ z[:c]
            r = L_out[c, c] / L[c, c]
            middle, half = (centre + (released[c] - base) / r - offset[c]) / step[c], (0.5 + _EDGE) / r
            first, last = np.ceil(middle - half), np.floor(middle + half)
            none = last < first
            first = np.where(none, np.rint(middle), first)
            last = np.where(none, first, last)
            at, sd = mean_law[c] + L_law[c, :c] @ u[:c], L_law[c, c]
            low, high = ((offset[c] + step[c] * edge - at) / sd for edge in (first - 0.5, last + 0.5))
            chance, place = _between(low, high, rng if M > 1 else None)
            weight += np.where(none, _IMPOSSIBLE, np.log(chance)).reshape(N, M)
            index = first
            if M > 1:
                index = np.clip(np.rint((at + sd * place - offset[c]) / step[c]), first, last)
            y = offset[c] + step[c] * index
            e[c], e_law[c] = y - mean[c], y - mean_law[c]
            z[c], u[c] = (y - centre) / L[c, c], (y - at) / sd
            e_out[c] = base + r * (y - centre) - mean_out[c]
        whiten.update(e)
        colour.update(e_out)
        law.update(e_law)
        top = weight.max(axis=1, keepdims=True)
        share = np.exp(weight - top)
        total += top[:, 0] + np.log(share.mean(axis=1))
        weight = np.log(share / share.mean(axis=1, keepdims=True))
        if M > 1:
            chosen = _resampled(share, rng)
            for predictor in (whiten, colour, law):
                predictor.x = predictor.x[:, chosen]
            weight[:] = 0.0
    return total


class _Predictor:
    """The Kalman predictor of a model for many sequences at once; `extra` is variance added to the readings' noise."""

    def __init__(self, model: GaussMarkov, count: int, extra: Array) -> None:
        self.model, self.extra, self.k, self.settled = model, np.diag(extra), 0, False
        self.x: Array = np.repeat(model.mean0[:, None], count, axis=1)
        self.P: Array = model.cov0
        self.L: Array = np.eye(model.dim)
        self.K: Array = np.zeros((model.states, model.dim))

    def predict(self, gone: bool) -> Array:
        """Move to the next reading: its mean (d, count). `L` is the factor of its covariance, `extra` left out."""
        self.k += 1
        A, b, Q, C, d, R = self.model.at(self.k)
        self.x = A @ self.x + b[:, None]
        if gone or not self.settled:
            P = A @ self.P @ A.T + Q
            S = C @ P @ C.T + R
            self.L = np.asarray(np.linalg.cholesky(S), dtype=float)
            # K = Sigma C' (S + extra)^-1, Joseph form for the covariance
            self.K = np.asarray(np.linalg.solve(S + self.extra, C @ P).T, dtype=float)
            J = np.eye(self.model.states) - self.K @ C
            before, self.P = self.P, P if gone else J @ P @ J.T + self.K @ (R + self.extra) @ self.K.T
            moved = float(np.abs(self.P - before).max())
            self.settled = self.model.constant and not gone and moved <= 1e-14 * float(np.abs(self.P).max())
        return np.asarray(C @ self.x + d[:, None])

    def update(self, innovation: Array) -> None:
        """Take in a reading, given as its distance from the mean."""
        self.x = self.x + self.K @ innovation


def _narrows(source: GaussMarkov, target: GaussMarkov, T: int) -> bool:
    """Whether the map brings readings nearer to each other anywhere, so that a cell stands for several."""
    none = np.zeros(source.dim)
    a, b = _Predictor(source, 1, none), _Predictor(target, 1, none)
    for _ in range(min(T, 200)):
        a.predict(False)
        b.predict(False)
        if (np.diag(b.L) < _SURE * np.diag(a.L)).any():
            return True
    return False


def _between(low: Array, high: Array, rng: np.random.Generator | None) -> tuple[Array, Array]:
    """Probability that a standard normal falls between, and a draw of it given that."""
    from scipy.special import ndtr, ndtri

    # both ends on the side of the smaller tail
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, above = ndtr(a), ndtr(b)
    chance = np.maximum(above - below, 1e-300)
    if rng is None:
        return chance, chance
    draw = ndtri(np.clip(below + rng.random(low.shape) * (above - below), 1e-300, 1.0 - 1e-16))
    return chance, np.where(flip, -draw, draw)


def _resampled(share: Array, rng: np.random.Generator) -> Array:
    """Systematic resampling in each row: which columns of the flat state go on."""
    N, M = share.shape
    ends = np.cumsum(share, axis=1)
    points = (rng.random((N, 1)) + np.arange(M)) / M * ends[:, -1:]
    chosen = np.minimum((points[:, :, None] > ends[:, None, :]).sum(axis=2), M - 1)
    return np.asarray((chosen + M * np.arange(N)[:, None]).ravel())
