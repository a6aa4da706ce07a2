"""Banks of filters: Gauss-Markov and hidden Markov models side by side, for many sequences, mixed where one may switch.

Each model j has its own state. Where the value may have moved, the states are mixed: with w_i the odds of model i so
far and M the odds of going from i to j, model j goes on from the mean and the covariance (or the probabilities) of the
mixture over i with weights w_i M_ij. For hidden Markov models that is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.identify.predicting import filtered
from understudy.laws.base import Array
from understudy.laws.cells import Truncated, truncated
from understudy.laws.rounding import Rounding
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.quantised import innovation_sds

_LOG_2PI = math.log(2.0 * math.pi)
_FINE = 0.1  # innovation standard deviations that a step may be for its cell not to matter
_FEW = 16  # sequences that go one by one through the compiled loop


def gaussian_logs(
    models: Sequence[Any], Y: Array, mixing: Array | None, every: int, grid: tuple[Rounding, bool] | None = None
) -> Array:
    """Log-densities (n, T, N) of readings (T, d, N) under Gauss-Markov models of one size.

    `grid` holds the grid of readings that are rounded, and whether the process goes on from them. Then one channel is
    judged by the probabilities of its cells, and if it does not go on from them, the state takes in what the cell says
    of the reading, by its mean and variance. With several channels, and where steps are fine, the readings' noise has
    step^2/12 more variance instead.
    """
    T, d, N = Y.shape
    if grid is not None and _fine(models, grid[0]):
        extra = np.zeros(d) if grid[1] else np.array([channel.step**2 / 12.0 for channel in grid[0].channels])
        logs = gaussian_logs([_rougher(m, extra) for m in models], Y, mixing, every)
        return logs + sum(math.log(channel.step) for channel in grid[0].channels)
    if grid is None and mixing is None and N <= _FEW and all(m.constant for m in models):
        return np.stack([np.stack([_compiled(m, Y[:, :, s]) for s in range(N)], axis=1) for m in models])
    extra = np.zeros((d, d))
    if grid is not None:
        rounding, on = grid
        Y = np.stack([channel.rounded(Y[:, c]) for c, channel in enumerate(rounding.channels)], axis=1)
        extra = np.diag([0.0 if on or d == 1 else channel.step**2 / 12.0 for channel in rounding.channels])
    matched = grid is not None and d == 1 and not grid[1]
    bank = _Bank(models, N, shared=mixing is None and not matched and not np.isnan(Y).any())
    result = np.zeros((len(models), T, N))
    for k in range(T):
        if mixing is not None and k > 0 and k % every == 0:
            bank.mix(mixing)
        gone = np.isnan(Y[k]).any(axis=0)
        mean, S = bank.predict(k + 1)
        e, spread = np.where(gone, 0.0, Y[k]).T - mean, None  # (n, N, d)
        if grid is not None and d == 1:
            sd = np.sqrt(S[..., 0, 0])
            cell = _cell(rounding, Y[k, 0], mean[:, :, 0], sd, gone)
            logs = np.asarray(cell.log_probability)
            if matched:
                e, spread = (sd * cell.mean)[..., None], np.asarray(cell.variance)
        else:
            logs = _normal(e, S + extra)
        result[:, k] = np.where(gone, 0.0, logs)
        bank.update(e, S + extra, gone, result[:, k], spread)
    return result


def _fine(models: Sequence[GaussMarkov], grid: Rounding) -> bool:
    """Whether all steps are so small that the probability of a cell is its width times the density at its middle."""
    if not grid.everywhere or not all(m.constant for m in models):
        return False
    ends = any(math.isfinite(end) for channel in grid.channels for end in (channel.low, channel.high))
    steps = np.array([channel.step for channel in grid.channels])
    return not ends and all(bool((steps <= _FINE * innovation_sds(m)).all()) for m in models)


def _rougher(model: GaussMarkov, variance: Array) -> GaussMarkov:
    """The model with more noise in its readings."""
    return GaussMarkov(**{**model.given, "R": model.R + np.diag(variance), "allow_unstable": True})


def _compiled(model: GaussMarkov, Y: Array) -> Array:
    try:
        return filtered([model], np.ascontiguousarray(Y), np.zeros(len(Y), dtype=np.intp))[0]
    except UnderstudyError:
        return np.full(len(Y), np.nan)


def _normal(e: Array, S: Array) -> Array:
    d = e.shape[-1]
    if d == 1:
        s = S[..., 0, 0]
        return np.asarray(-0.5 * (np.square(e[..., 0]) / s + np.log(s) + _LOG_2PI))
    L = np.linalg.cholesky(S)
    z = np.linalg.solve(np.broadcast_to(L, (*e.shape, d)), e[..., None])[..., 0]
    return np.asarray(
        -0.5 * (np.square(z).sum(axis=-1) + d * _LOG_2PI) - np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1)
    )


def _cell(grid: Rounding, y: Array, mean: Array, sd: Array, gone: Any) -> Truncated:
    """Standard scores of normal laws (n, N), given that they lie in the cells of readings (N,)."""
    cell = grid.channels[0].cells(np.where(gone, grid.channels[0].rounded(mean[0]), y), 0)
    low, high = ((end - mean) / sd for end in (cell.lower, cell.upper))
    return truncated(low, high, np.broadcast_to(cell.half / sd, low.shape))


class _Bank:
    """Means (n, N, s) and covariances (n, N or 1, s, s) of the states of n models."""

    def __init__(self, models: Sequence[GaussMarkov], N: int, shared: bool) -> None:
        self.models, n, s = models, len(models), models[0].states
        self.x = np.repeat(np.stack([m.mean0 for m in models])[:, None], N, axis=1)
        self.P: Array = np.repeat(np.stack([m.cov0 for m in models])[:, None], 1 if shared else N, axis=1)
        self.odds = np.full((n, N), -math.log(n))
        self._constant = self._systems(1) if all(m.constant for m in models) else None
        self._R: Array = np.zeros((n, 1, models[0].dim, models[0].dim))
        self._C: Array = np.zeros((n, 1, models[0].dim, s))

    def _systems(self, k: int) -> list[Array]:
        return [np.stack(parts)[:, None] for parts in zip(*(m.at(k) for m in self.models), strict=True)]

    def mix(self, mixing: Array) -> None:
        """States as they are where the value may have moved."""
        with np.errstate(divide="ignore"):
            joint = np.log(mixing)[:, :, None] + self.odds[:, None, :]  # (from, to, N)
        odds = np.logaddexp.reduce(joint, axis=0)
        w = np.exp(joint - odds)
        x = np.einsum("ijN,iNs->jNs", w, self.x)
        apart = self.x[:, None] - x[None]  # (from, to, N, s)
        spread = self.P[:, None] + apart[..., :, None] * apart[..., None, :]
        self.P = np.asarray((w[..., None, None] * spread).sum(axis=0))
        self.x, self.odds = x, odds

    def predict(self, k: int) -> tuple[Array, Array]:
        """Mean (n, N, d) and covariance (n, N or 1, d, d) of reading k."""
        A, b, Q, C, d, R = self._constant or self._systems(k)
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        self.x = self.x @ np.swapaxes(A[:, 0], 1, 2) + b
        self.P = A @ self.P @ np.swapaxes(A, 2, 3) + Q
        self._C, self._R = C, R
        return self.x @ np.swapaxes(C[:, 0], 1, 2) + d, C @ self.P @ np.swapaxes(C, 2, 3) + R

    def update(self, e: Array, S: Array, gone: Any, logs: Array, spread: Array | None = None) -> None:
        """Take in readings, given as distances from the means; S is their covariance as the filter sees it.

        `spread` (n, N) is what remains of the variance of a reading of which only the cell is known.
        """
        across = self._C @ self.P  # (n, N, d, s)
        # K = Sigma C' S^-1
        K = np.swapaxes(across / S if S.shape[-1] == 1 else np.linalg.solve(S, across), 2, 3)
        x = self.x + (K @ e[..., None])[..., 0]
        P = self.P - (K @ across if spread is None else (1.0 - spread)[..., None, None] * (K @ across))
        P = 0.5 * (P + np.swapaxes(P, 2, 3))
        if gone.any():
            x = np.where(gone[None, :, None], self.x, x)
            P = np.where(gone[None, :, None, None], self.P, P)
        self.x, self.P = x, P
        odds = self.odds + logs
        self.odds = odds - np.logaddexp.reduce(odds, axis=0)


def hidden_logs(
    models: Sequence[HiddenMarkov], Y: Array, mixing: Array | None, every: int, asked: Callable[[Any, Array], Array]
) -> Array:
    """The same under hidden Markov models with as many hidden states; `asked` gives log-densities of a law."""
    T, d, N = Y.shape
    n, S = len(models), models[0].states
    there = np.asarray(~np.isnan(Y).any(axis=1))
    rows = np.moveaxis(Y, 1, 0)[:, there]
    emissions = np.zeros((n, S, T, N))
    for j, model in enumerate(models):
        for s, law in enumerate(model.emissions):
            emissions[j, s][there] = asked(law, rows[0] if d == 1 else rows) if rows.size else 0.0
    A = np.stack([m.transition for m in models])
    pi = np.repeat(np.stack([m.initial for m in models])[:, :, None], N, axis=2)  # (n, S, N), before the next reading
    odds, result = np.full((n, N), -math.log(n)), np.zeros((n, T, N))
    for k in range(T):
        if k > 0:
            if mixing is not None and k % every == 0:
                joint = mixing[:, :, None] * np.exp(odds)[:, None, :]
                total = np.maximum(joint.sum(axis=0), 1e-300)
                pi, odds = np.einsum("ijN,isN->jsN", joint / total, pi), np.log(total)
            pi = np.einsum("jsN,jst->jtN", pi, A)
        logs = emissions[:, :, k]
        top = logs.max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        p = pi * np.exp(logs - top[:, None])
        total = p.sum(axis=1)
        with np.errstate(divide="ignore"):
            found = np.log(total) + top
        result[:, k] = np.where(there[k], found, 0.0)
        pi = np.where(total[:, None] > 0.0, p / np.where(total > 0.0, total, 1.0)[:, None], pi)
        odds = odds + np.maximum(result[:, k], -2000.0)
        odds = odds - np.logaddexp.reduce(odds, axis=0)
    return result
