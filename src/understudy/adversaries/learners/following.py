"""Inverting a stream whose theta moves: the raw readings are followed from the beginning, grid point by grid point.

At the beginning the states of both filters are known. With them, each pair (theta_i, pseudo value j) makes of an output
one candidate for the raw reading, mean_i + sd_i z_j. If raw readings have a grid and the map was one of
floats, the right pair lands on it and others nearly never do. So the reading is known, both filters go on, and the
next one is followed in the same way. Doubles are such a grid too, one that grows coarser with their magnitude, and what
lies on it are the innovations. A decision's pseudo value is free at its first reading only. If both
values change within a gap, and not at its ends, the trace is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases, normalised
from understudy.adversaries.known import Known
from understudy.adversaries.learners.chains import Chain, Plan, cells, smoothed
from understudy.adversaries.learners.resimulation import spacing
from understudy.adversaries.learners.timely import ALWAYS, Timely
from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.maps import gauss_markov

_STRAY = 0.01  # share of readings that may miss the grid although the pair is right
_NEAR = 1e-9  # of a step: what counts as on the grid, besides the rounding of the readings
_SURE = 20.0  # nats that one reading may say
_SPACINGS = 1.0  # of doubles by which an innovation of the output may be wrong
_ROUGH = 0.3  # of a spacing of raw readings: an innovation that is not known better tells nothing
_ULPS = 64.0 * float(np.finfo(float).eps)


def followed(
    Y: Array,
    sources: Sequence[GaussMarkov],
    targets: Sequence[GaussMarkov],
    grid: tuple[float, float] | float,
    every: int,
    kernel: Array | None = None,
) -> Array:
    """Evidence in nats (m, T, N) for each value at each reading of outputs (T, N), up to a common constant.

    The models are constant, of one channel and of one size each side; `grid` is step and offset. Where the trace is
    lost, because nothing lands on the grid, there is no evidence any more. If `grid` is a number, raw readings are
    taken for doubles, whose innovations are multiples of their spacing, and outputs for multiples of that number
    (0: for doubles as well). With a `kernel` (m, n) a draw counts as evidence too.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 2.0 + v, 0.5, b=5.3 * v, mean0=50.0, cov0=1.0), [0, 1])
    >>> theta, pseudo = [0] * 20 + [1] * 20, [1] * 10 + [0] * 30
    >>> raw = np.round(us.sample(family.along(theta), 40, rng=1))
    >>> out = us.disguise(raw, family.along(theta), family.along(pseudo))
    >>> models = [family.model(v) for v in (0, 1)]
    >>> followed(out[:, None], models, models, (1.0, 0.0), 10)[:, :, 0].argmax(axis=0).tolist() == theta
    True
    """
    T, N = Y.shape
    m, n = len(sources), len(targets)
    source, target = _Shared(sources, N), _Shared(targets, N)
    each = np.arange(N)
    played = np.zeros(N, dtype=np.int64)
    free = np.ones(N, dtype=bool)  # whether there was a draw since the last reading that is there
    result = np.zeros((m, T, N))
    with np.errstate(divide="ignore"):
        drawn = np.log(np.tile(np.ones((m, n)) if kernel is None else kernel, (2, 2)))[:, :, None]
    for k in range(T):
        free |= k % every == 0
        gone = np.isnan(Y[k])
        y = np.where(gone, 0.0, Y[k])
        mean, sd = source.predict(gone)  # (2 m, N): twice, for what may have been in a gap
        mean_out, sd_out = target.predict(gone)
        z = (y - mean_out) / sd_out  # (2 n, N)
        e = sd[:, None] * z[None]  # (2 m, 2 n, N)
        back = mean[:, None] + e
        if isinstance(grid, tuple):
            step, offset = np.asarray(grid[0]), np.asarray(grid[1])
            place = (back - offset) / step
            width = _NEAR + _ULPS * np.abs(back) / step
        else:
            step, offset = np.minimum(spacing(back), spacing(mean)[:, None]), mean[:, None]
            place = e / step
            error = grid + _SPACINGS * np.spacing(np.maximum(np.abs(y), np.abs(mean_out)))
            width = error * (sd[:, None] / sd_out) / step + _ULPS * np.abs(place)
        r = np.abs(place - np.rint(place))
        density = np.exp(-r / width) / (2.0 * width)
        if not isinstance(grid, tuple):
            density = np.where(width < _ROUGH, density, 1.0)
        near = np.log((1.0 - _STRAY) * density + _STRAY)
        weight = near - 0.5 * np.square(z) - np.log(sd_out)
        if kernel is not None:
            weight = weight + np.where(free, drawn, 0.0)
        open_ = free | (np.arange(2 * n)[:, None] % n == played)
        weight = np.where(open_[None], weight, -np.inf)
        top = weight.max(axis=(0, 1))
        total = np.exp(weight - top).sum(axis=1).reshape(2, m, N).sum(axis=0)
        logs = np.log(total + 1e-300)
        result[:, k] = np.where(gone, 0.0, logs - logs.max(axis=0))
        best = weight.reshape(4 * m * n, N).argmax(axis=0)
        i, j = best // (2 * n), best % (2 * n)
        raw = np.where(r < 0.01, offset + step * np.rint(place), back)[i, j, each]
        source.update(i, raw - mean[i, each], gone)
        target.update(j, y - mean_out[j, each], gone)
        played, free = np.where(gone, played, j % n), free & gone
    return result


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FollowedAttack:
    """What is known, the grid or the step of the output, how theta moves, how often there is a draw, and the clock."""

    known: Known
    grid: tuple[float, float] | float
    chain: Chain
    every: int
    timely: Timely = ALWAYS
    draws: bool = False
    """Whether draws count as evidence, beside what the grid says."""

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities of each value at each reading, (m, T, N)."""
        evidence = np.maximum(self.evidence(cases), -_SURE)
        plan = Plan(np.eye(cases.m)[None], np.zeros((1, cases.m), dtype=np.int64), 0)
        with np.errstate(divide="ignore"):
            said = normalised(np.log(smoothed(evidence, plan, self.chain, cells(cases))))
        return self.timely.logits(said, cases)

    def evidence(self, cases: Cases) -> Array:
        """What speaks for each value at each reading, (m, T, N), in nats."""
        sources, targets = _linear(self.known.sources), _linear(self.known.targets)
        kernel = self.known.kernel if self.draws else None
        return followed(cases.outputs[:, 0], sources, targets, self.grid, self.every, kernel)


class _Shared:
    """One state for each sequence, from which any of the models may go on: moments of one channel's filters.

    Across a gap nobody sees whether the value has changed in it. So each model is there twice: once with the last value
    before the gap held throughout, and once with its own.
    """

    def __init__(self, models: Sequence[GaussMarkov], N: int) -> None:
        self.M = len(models)
        systems = [np.stack(parts) for parts in zip(*(m.at(1) for m in models), strict=True)]
        self.A, self.b, self.Q, self.C, self.d, self.R = systems
        # before the first reading each model has its own
        self.x: Array = np.repeat(np.stack([m.mean0 for m in models] * 2)[:, None], N, axis=1)  # (2 M, N, s)
        self.P: Array = np.repeat(np.stack([m.cov0 for m in models] * 2)[:, None], N, axis=1)
        self.own = np.repeat((np.arange(2 * self.M) % self.M)[:, None], N, axis=1)
        self.row = np.full(N, -1)
        self.across: Array = np.empty(0)
        self.S: Array = np.empty(0)

    def predict(self, gone: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Mean and standard deviation (2 M, N) of the next reading under each model."""
        held = (np.arange(2 * self.M) < self.M)[:, None] & (gone & (self.row >= 0))
        which = np.where(held, self.row, self.own)
        A, C = self.A[which], self.C[which][..., 0, :]
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        self.x = (A @ self.x[..., None])[..., 0] + self.b[which]
        self.P = A @ self.P @ np.swapaxes(A, 2, 3) + self.Q[which]
        self.across = (self.P @ C[..., None])[..., 0]
        self.S = (self.across * C).sum(axis=2) + self.R[which][..., 0, 0]
        return (self.x * C).sum(axis=2) + self.d[which][..., 0], np.sqrt(self.S)

    def update(self, chosen: NDArray[np.int64], e: Array, gone: NDArray[np.bool_]) -> None:
        """Go on under the model that is chosen for each sequence, with its innovation; not where nothing was read."""
        each = np.arange(len(chosen))
        x, P, across, S = (part[chosen, each] for part in (self.x, self.P, self.across, self.S))
        # K = Sigma C' S^-1
        K = across / S[:, None]
        x, P = x + K * e[:, None], P - K[:, :, None] * across[:, None, :]
        self.x = np.where(gone[:, None], self.x, x)
        self.P = np.where(gone[:, None, None], self.P, 0.5 * (P + np.swapaxes(P, 1, 2)))
        self.row = np.where(gone, self.row, chosen % self.M)


def _linear(models: Sequence[Model]) -> list[GaussMarkov]:
    return [linear for model in models if (linear := gauss_markov(model)) is not None]


def obstacle(models: Sequence[GaussMarkov | None]) -> str:
    """Why a stream of these models cannot be followed; nothing if it can.

    >>> obstacle([None])
    'models without a Gauss-Markov form are not followed'
    """
    linear = [m for m in models if m is not None]
    if len(linear) < len(models):
        return "models without a Gauss-Markov form are not followed"
    if any(m.dim != 1 or not m.constant for m in linear) or len({m.states for m in linear}) > 1:
        return "only constant models of one channel and of one size are followed"
    return ""
