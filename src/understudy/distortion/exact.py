"""The distortion of a pair of linear models, by recursion: no simulation.

Source and target are driven by the same scores, so the difference D_k = Y_k - ~Y_k is linear in them, and
Gaussian if they are; its mean and variance follow from those of the two predictors (`moments.py`).

All pairs go through the recursion together, on the last two axes, in tiles that fit the cache, step by step
until their gains have settled. From there on all steps are alike: squared errors are summed by
doubling (`doubling.py`), absolute ones need the mean and variance of every reading, many readings at a
time, until these have come to rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from understudy.distortion.ahead import Ahead
from understudy.distortion.doubling import squares
from understudy.distortion.linear import Filters
from understudy.distortion.matrices import last, product, times, total
from understudy.distortion.measure import Measure
from understudy.distortion.moments import Moments, Move, Step, cut, start, step_between
from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy._types import Progress


_BLOCK = 32  # readings measured at a time; a power of 2
_TILE = 8192  # numbers of a covariance over the pairs of a tile
_READINGS = 16384  # numbers that a block of readings takes, over the pairs of a smaller tile
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
    for k, (A, b, _, H, g, _) in enumerate(models.steps(_stepped(models.settled, horizon))):
        if k == models.settled:
            # the rest at once: (sums, x, 1) moves by a matrix, and over many steps by its power
            c, n = H.shape[:2]
            F = np.zeros((len(models), c + n + 1, c + n + 1))
            F[:, :c, :c], F[:, -1, -1] = np.eye(c), 1.0
            F[:, :c, c:-1], F[:, :c, -1:], F[:, c:-1, c:-1], F[:, c:-1, -1:] = last(H), last(g), last(A), last(b)
            state = np.concatenate((sums, x, np.ones((1, 1, len(models)))))
            sums = np.moveaxis(np.linalg.matrix_power(F, horizon - k) @ last(state), 0, -1)[:c]
            break
        sums += product(H, x) + g
        x = product(A, x) + b
    return np.asarray(sums[:, 0] / horizon)


# The horizon -----------------------------------------------------------------------------------------


def _over(
    sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice, horizon: int
) -> Array:
    state = start(sources, targets, chosen)
    sums = np.zeros(state.delta.shape[2:])
    ends = (sources.settled, targets.settled)
    settled = None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    sides = (side.steps(_stepped(settled, horizon)) for side in (sources, targets))
    for k, (source, target) in enumerate(zip(*sides, strict=True)):
        step = step_between(source, target, kappa, chosen)
        if k == settled:
            sums += _settled(step, state, horizon - k, measure)
            break
        sums += step.measured(state, measure)
        state = step.move.of(state)
    return np.asarray(sums / horizon)


def _stepped(settled: int | None, horizon: int) -> int:
    """How many steps are laid out: the last one is the settled one, if there is one in time."""
    return horizon if settled is None else min(settled + 1, horizon)


def _settled(step: Step, state: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps."""
    if measure.power == 2:
        return squares(step, state, K, measure.weights)
    sums = np.zeros(state.delta.shape[2:])
    side = max(1, int((_READINGS / (_BLOCK * step.H[..., 0, 0].size * len(state.x))) ** 0.5))
    m, n = step.g.shape[2:]
    for i, j in itertools.product(range(0, m, side), range(0, n, side)):
        at = slice(i, i + side), slice(j, j + side)
        sums[at] = _absolute(cut(step, *at), cut(state, *at), K, measure)
    return sums


def _absolute(step: Step, state: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps, many readings at a time, until means and covariances rest."""
    ahead, move = Ahead(step, _BLOCK), step.move
    for _ in range(_BLOCK.bit_length() - 1):
        move = move.twice()
    sums = np.zeros(state.delta.shape[2:])
    peaks = _peaks([np.zeros(())] * 5, state)
    for k in range(0, K, _BLOCK):
        means, variances = ahead.readings(state)
        sums += measure.of_normal(means[: K - k], variances[: K - k]).sum(axis=0)
        before, state = state, move.of(state)
        peaks = _peaks(peaks, state)
        if k + _BLOCK < K and _at_rest(state, before, peaks):
            means, variances = ahead.readings(state)
            sums += (K - k - _BLOCK) * measure.of_normal(means[:1], variances[:1])[0]
            break
    return sums


def _at_rest(state: Moments, before: Moments, peaks: list[Array]) -> bool:
    """Whether the last steps moved nothing by more than rounding."""
    sd, sx = (
        np.zeros(()) if P is None else np.sqrt(np.abs(np.einsum("ii...->i...", P)))[:, None]
        for P in (state.P.dd, state.P.xx)
    )
    spreads = (sd, sx, sd * sd.swapaxes(0, 1) if sd.ndim else sd, sd * sx.swapaxes(0, 1), sx * sx.swapaxes(0, 1))
    for now, then, peak, spread in zip(_numbers(state), _numbers(before), peaks, spreads, strict=True):
        if now is None:
            continue
        if then is None:
            return False
        allowed = np.maximum(2.0 * _EPS * np.maximum(np.abs(now), spread), _NOTHING * peak)
        if not (np.abs(now - then) <= allowed).all():
            return False
    return True


def _peaks(peaks: list[Array], state: Moments) -> list[Array]:
    """The largest that each number has been."""
    pairs = zip(peaks, _numbers(state), strict=True)
    return [peak if now is None else np.maximum(peak, np.abs(now)) for peak, now in pairs]


def _numbers(state: Moments) -> tuple[Array | None, ...]:
    return state.delta, state.x, *state.P


# The limit -------------------------------------------------------------------------------------------


def _stationary(sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice) -> Array:
    step = step_between(sources.steady(), targets.steady(), kappa, chosen)
    (A, D, B), f, N = step.move
    x = _rest(B, f[1])
    delta = _rest(A, total(f[0], times(D, x)))
    # P = F P F' + N is the noise of ever more steps
    move = Move(step.move.F, (np.zeros(f[0].shape), np.zeros(f[1].shape)), N)
    while max(float(np.abs(part).max()) for part in move.F if part is not None) > 1e-200:
        move = move.twice()
    return step.measured(Moments(delta, x, move.N), measure)


def _rest(A: Array, b: Array) -> Array:
    """The x with x = A x + b."""
    x: Array = np.linalg.solve(np.eye(len(A)) - last(A), last(b))  # type: ignore[assignment]  # all are float64
    return np.moveaxis(x, (-2, -1), (0, 1))
