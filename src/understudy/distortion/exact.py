"""The distortion of a pair of linear models, by recursion: no simulation.

Source and target are driven by the same scores, so the difference D_k = Y_k - ~Y_k is linear in them, and
Gaussian if they are; its mean and variance follow from those of the two predictors (`moments.py`).

All pairs go through the recursion together, on the last two axes, in tiles that fit the cache, step by step
until their gains have settled. From there on all steps are alike: squared errors are summed by
doubling (`doubling.py`), absolute ones need the mean and variance of every reading, many readings at a
time, until these have come to rest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.distortion.doubling import squares
from understudy.distortion.linear import Filters
from understudy.distortion.matrices import Form, last, or_none, product, times, total
from understudy.distortion.measure import Measure
from understudy.distortion.moments import Moments, Move, Step, cut, start, step_between
from understudy.errors import NumericalError
from understudy.laws.base import Array

Progress = Callable[[float], None]

_BLOCK = 32  # steps laid out, and readings measured, at a time; a power of 2
_TILE = 8192  # numbers of a covariance over the pairs of a tile
_EPS = float(np.finfo(float).eps)
_NOTHING = 1e-20  # beside what a number has been, when it dies out


def distances(
    sources: Filters,
    targets: Filters,
    measure: Measure,
    horizon: int | None,
    kappa: Array | None = None,
    progress: Progress | None = None,
) -> Array:
    """The mean distortion of every source under every target, (sources, targets).

    `kappa` (d, sources, targets) belongs to noise that is not Gaussian; `horizon` None is the
    stationary limit.
    """
    n = max(sources.states, targets.states)
    rows = max(1, _TILE // (n * n * len(targets)))
    parts = []
    for first in range(0, len(sources), rows):
        chosen = slice(first, min(first + rows, len(sources)))
        part_kappa = None if kappa is None else kappa[:, chosen]
        with np.errstate(over="ignore", invalid="ignore"):
            if horizon is None:
                parts.append(_stationary(sources, targets, measure, part_kappa, chosen))
            else:
                parts.append(_over(sources, targets, measure, part_kappa, chosen, horizon))
        if progress is not None:
            progress(chosen.stop / len(sources))
    found = np.concatenate(parts)
    if not np.isfinite(found).all():
        raise NumericalError(
            f"the distortion over {horizon} readings leaves the range of double precision; a model is unstable"
        )
    return found


def mean_readings(models: Filters, horizon: int | None) -> Array:
    """The mean of E Y_k over the horizon, (channels read, models)."""
    if horizon is None:
        limit = models.steady()
        return np.asarray((product(limit.H, _rest(limit.A, limit.b)) + limit.g)[:, 0])
    x, sums = models.start(), np.zeros((len(models.read), 1, len(models)))
    stepped = _stepped(models.settled, horizon)
    for k in range(0, stepped, _BLOCK):
        block = models.block(k, min(k + _BLOCK, stepped))
        for index in range(len(block.A)):
            A, b, _, H, g, _ = block.step(index)
            sums += product(H, x) + g
            x = product(A, x) + b
    if stepped < horizon:
        # (sums, x, 1) moves by a matrix, and over many steps by its power
        A, b, _, H, g, _ = models.block(stepped, stepped + 1).step(0)
        c, n = H.shape[:2]
        F = np.zeros((len(models), c + n + 1, c + n + 1))
        F[:, :c, :c], F[:, -1, -1] = np.eye(c), 1.0
        F[:, :c, c:-1], F[:, :c, -1:], F[:, c:-1, c:-1], F[:, c:-1, -1:] = last(H), last(g), last(A), last(b)
        state = np.concatenate((sums, x, np.ones((1, 1, len(models)))))
        sums = np.moveaxis(np.linalg.matrix_power(F, horizon - stepped) @ last(state), 0, -1)[:c]
    return np.asarray(sums[:, 0] / horizon)


# The horizon -----------------------------------------------------------------------------------------


def _over(
    sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice, horizon: int
) -> Array:
    state = start(sources, targets, chosen)
    sums = np.zeros(state.delta.shape[2:])
    ends = (sources.settled, targets.settled)
    stepped = _stepped(None if ends[0] is None or ends[1] is None else max(ends[0], ends[1]), horizon)
    for k in range(0, stepped, _BLOCK):
        block = [side.block(k, min(k + _BLOCK, stepped)) for side in (sources, targets)]
        means, variances = np.zeros((2, len(block[0].A), len(measure.weights), *sums.shape))
        for index in range(len(means)):
            step = step_between(block[0].step(index), block[1].step(index), kappa, chosen)
            means[index], variance = step.mean(state)[:, 0], step.variance(state)
            if variance is not None:
                variances[index] = variance[:, 0]
            state = step.move.of(state)
        sums += measure.of_normal(means, np.maximum(variances, 0.0)).sum(axis=0)
    if stepped < horizon:
        block = [side.block(stepped, stepped + 1) for side in (sources, targets)]
        step = step_between(block[0].step(0), block[1].step(0), kappa, chosen)
        if measure.power == 2:
            sums += squares(step, state, horizon - stepped, measure.weights)
        else:
            side = max(1, int((_TILE / (step.H[..., 0, 0].size * len(state.x))) ** 0.5 / 4))
            for i, j in np.ndindex(*(-(-size // side) for size in sums.shape)):
                at = slice(i * side, (i + 1) * side), slice(j * side, (j + 1) * side)
                sums[at] += _absolute(cut(step, *at), cut(state, *at), horizon - stepped, measure)
    return np.asarray(sums / horizon)


def _stepped(settled: int | None, horizon: int) -> int:
    """How many steps are taken one by one."""
    return horizon if settled is None else min(settled, horizon)


def _absolute(step: Step, state: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps, many readings at a time, until means and covariances rest."""
    sums = np.zeros(state.delta.shape[2:])
    shifts, seen, noise = _ahead(step)
    move = step.move
    for _ in range(_BLOCK.bit_length() - 1):
        move = move.twice()
    peaks, k, rest = _numbers(state), 0, False
    peaks = [np.zeros(()) if peak is None else np.abs(peak) for peak in peaks]
    while k < K:
        count = 1 if rest else min(_BLOCK, K - k)
        means = shifts.dot(Form(*step.drift(state), None))
        means = step.mean(state)[:, 0] + (0.0 if means is None else means[:count])
        variances = seen.dot(state.P)
        variances = noise[:count] if variances is None else variances[:count] + noise[:count]
        found = measure.of_normal(means, np.maximum(variances, 0.0)).sum(axis=0)
        if rest:
            return np.asarray(sums + (K - k) * found)
        sums += found
        before, state, k = state, move.of(state), k + count
        peaks = _peaks(peaks, state)
        rest = _at_rest(state, before, peaks)
    return sums
