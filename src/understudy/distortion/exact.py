"""The distortion of a pair of linear models, by recursion: no simulation.

Source and target are driven by the same scores, so the difference D_k = Y_k - ~Y_k is linear in them.
With delta = x - ~x the difference of the two predictor means, and Delta for differences of matrices::

    D_k     = H delta + (Delta H) ~x + Delta g + (Delta L) e
    delta+  = A delta + (Delta A) ~x + Delta b + (Delta M) e

where delta, ~x and D are Gaussian if e is. Their means and covariances follow from the same lines.
Writing them for delta rather than for x and ~x costs nothing and cancels nothing: two equal models
have a distortion of exactly zero, two nearly equal ones keep their digits, and so do models with a
large common offset. (Equal laws written in different coordinates have equal distortion up to
rounding only.)

Noise that is not Gaussian has the same first two moments, up to one number for each pair and
channel: kappa = 1 - correlation(eps, ~eps) of the two noises made from one score, and the squared
error needs no more than that.

All pairs go through the recursion together, on the last two axes, in tiles that fit the cache. Once
gains, means and covariances have come to rest, the remaining steps are all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from understudy.distortion.linear import Coefficients, Filters
from understudy.distortion.measure import Measure
from understudy.errors import NumericalError
from understudy.laws.base import Array

Progress = Callable[[float], None]

_BLOCK = 64  # steps laid out, and readings measured, at a time
_TILE = 8192  # numbers of a covariance over the pairs of a tile
_EPS = float(np.finfo(float).eps)
_NOTHING = 1e-20  # beside what a number has been, when it dies out


class Moments(NamedTuple):
    """Means and covariances of delta and ~x over all pairs; the target's own have one row of pairs."""

    delta: Array  # (n, 1, sources, targets)
    x: Array  # (n, 1, 1, targets)
    Pdd: Array  # (n, n, sources, targets)
    Pdx: Array  # (n, n, sources, targets)
    Pxx: Array  # (n, n, 1, targets)


class Steps(NamedTuple):
    """The matrices of one step over all pairs: the source's, the target's, their differences, the noise."""

    source: Coefficients
    target: Coefficients
    delta: Coefficients
    Ndd: Array  # covariance of the noise of delta
    Ndx: Array  # between the noise of delta and that of ~x
    Nxx: Array
    Nyy: Array  # variances of the noise of D, (c, sources, targets)


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
        step = models.steady()
        return np.asarray((_product(step.H, _rest(step.A, step.b)) + step.g)[:, 0])
    x, total, k, step = models.start(), np.zeros((len(models.read), len(models))), 0, None
    peak = np.abs(x)
    while k < horizon:
        count = min(_BLOCK, horizon - k)
        constant = models.settled is not None and k >= models.settled and step is not None
        block = None if constant else models.block(k, k + count)
        for index in range(count):
            step = step if block is None else block.step(index)
            before, (mean, x) = x, _mean_step(step, x)
            total += mean
        k, peak = k + count, np.maximum(peak, np.abs(x))
        allowed = np.maximum(2.0 * _EPS * np.abs(x), _NOTHING * peak)
        if constant and (np.abs(x - before) <= allowed).all():
            total += (horizon - k) * _mean_step(step, x)[0]
            break
    return total / horizon


def _mean_step(step: Coefficients | None, x: Array) -> tuple[Array, Array]:
    if step is None:
        raise TypeError("the first block lays out its steps")
    return (_product(step.H, x) + step.g)[:, 0], _product(step.A, x) + step.b


# The horizon -----------------------------------------------------------------------------------------


def _over(
    sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice, horizon: int
) -> Array:
    state = _start(sources, targets, chosen)
    peaks = Moments(*(np.abs(part) for part in state))
    ends = (sources.settled, targets.settled)
    settled = None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    total = np.zeros(state.delta.shape[2:])
    k, steps = 0, None
    while k < horizon:
        count = min(_BLOCK, horizon - k)
        means, variances = np.empty((2, count, len(sources.read), *total.shape))
        constant = settled is not None and k >= settled and steps is not None
        block = None if constant else (sources.block(k, k + count), targets.block(k, k + count))
        before = state
        for index in range(count):
            if block is not None:
                steps = _steps(block[0].step(index), block[1].step(index), kappa, chosen)
            if steps is None:
                raise TypeError("the first block lays out its steps")
            before = state
            means[index], variances[index], state = _advance(state, steps)
        total += measure.of_normal(means, np.maximum(variances, 0.0)).sum(axis=0)
        k += count
        peaks = Moments(*(np.maximum(peak, np.abs(part)) for peak, part in zip(peaks, state, strict=True)))
        if constant and steps is not None and _at_rest(state, before, peaks):
            mean, variance, _ = _advance(state, steps)
            total += (horizon - k) * measure.of_normal(mean, np.maximum(variance, 0.0))
            break
    return np.asarray(total / horizon)


def _start(sources: Filters, targets: Filters, chosen: slice) -> Moments:
    n = max(sources.states, targets.states)
    x, x_target = _tall(sources.start()[..., chosen], n)[..., :, None], _tall(targets.start(), n)[..., None, :]
    delta = x - x_target
    nothing = np.zeros((n, n, *delta.shape[2:]))
    return Moments(delta, x_target, nothing, nothing, np.zeros((n, n, 1, len(targets))))


def _steps(source: Coefficients, target: Coefficients, kappa: Array | None, chosen: slice) -> Steps:
    """The matrices of one step for all pairs, with the covariance of its noise."""
    n = max(len(source.A), len(target.A))
    a = Coefficients(*(part[..., chosen, None] for part in _padded(source, n)))
    t = Coefficients(*(part[..., None, :] for part in _padded(target, n)))
    delta = Coefficients(*(p - q for p, q in zip(a, t, strict=True)))
    Ndd, Ndx, Nxx = _square(delta.M, delta.M), _square(delta.M, t.M), _square(t.M, t.M)
    Nyy = (delta.L * delta.L).sum(axis=1)
    if kappa is not None:
        # cov(M eps - ~M ~eps) = (Delta M)(Delta M)' + sum_l kappa_l (M_l ~M_l' + ~M_l M_l')
        both = _square(a.M * kappa, t.M)
        Ndd = Ndd + (both + both.swapaxes(0, 1))
        # cov(M eps - ~M ~eps, ~M ~eps) = (Delta M) ~M' - sum_l kappa_l M_l ~M_l'
        Ndx = Ndx - both
        Nyy = Nyy + 2.0 * (a.L * kappa * t.L).sum(axis=1)
    return Steps(a, t, delta, Ndd, Ndx, Nxx, Nyy)


def _advance(state: Moments, steps: Steps) -> tuple[Array, Array, Moments]:
    """Mean and variance of D (c, sources, targets), and the moments after the step."""
    delta, x, Pdd, Pdx, Pxx = state
    A, H = steps.source.A, steps.source.H
    dA, dH = steps.delta.A, steps.delta.H
    Pxd = Pdx.swapaxes(0, 1)
    # m = H delta + (Delta H) ~x + Delta g,  V = [H, Delta H] Pi [H, Delta H]' + noise
    mean = _product(H, delta) + _product(dH, x) + steps.delta.g
    U, W = _product(H, Pdd) + _product(dH, Pxd), _product(H, Pdx) + _product(dH, Pxx)
    variance = (U * H + W * dH).sum(axis=1) + steps.Nyy
    # Pi+ = [A, Delta A; 0, ~A] Pi [A, Delta A; 0, ~A]' + noise
    U, W = _product(A, Pdd) + _product(dA, Pxd), _product(A, Pdx) + _product(dA, Pxx)
    Pdd = _square(U, A) + _square(W, dA) + steps.Ndd
    after = Moments(
        _product(A, delta) + _product(dA, x) + steps.delta.b,
        _product(steps.target.A, x) + steps.target.b,
        Pdd if len(Pdd) == 1 else (Pdd + Pdd.swapaxes(0, 1)) / 2.0,
        _square(W, steps.target.A) + steps.Ndx,
        _square(_product(steps.target.A, Pxx), steps.target.A) + steps.Nxx,
    )
    return mean[:, 0], variance, after


def _at_rest(state: Moments, before: Moments, peaks: Moments) -> bool:
    """Whether the last step moved nothing by more than rounding."""
    sd, sx = (np.sqrt(np.abs(np.einsum("ii...->i...", P))) for P in (state.Pdd, state.Pxx))
    spreads = (sd[:, None], sx[:, None], sd[:, None] * sd, sd[:, None] * sx, sx[:, None] * sx)
    for now, then, peak, spread in zip(state, before, peaks, spreads, strict=True):
        allowed = np.maximum(2.0 * _EPS * np.maximum(np.abs(now), spread), _NOTHING * peak)
        if not (np.abs(now - then) <= allowed).all():
            return False
    return True


# The limit -------------------------------------------------------------------------------------------


def _stationary(sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice) -> Array:
    steps = _steps(sources.steady(), targets.steady(), kappa, chosen)
    A, dA = steps.source.A, steps.delta.A
    x = _rest(steps.target.A, steps.target.b)
    delta = _rest(A, _product(dA, x) + steps.delta.b)
    n, shape = len(A), steps.Ndd.shape[2:]
    # Pi = F Pi F' + N by doubling: Pi <- Pi + F Pi F', F <- F F
    F, Pi = np.zeros((2, *shape, 2 * n, 2 * n))
    F[..., :n, :n], F[..., :n, n:], F[..., n:, n:] = _last(A), _last(dA), _last(steps.target.A)
    Pi[..., :n, :n], Pi[..., n:, n:] = _last(steps.Ndd), _last(steps.Nxx)
    Pi[..., :n, n:] = _last(steps.Ndx)
    Pi[..., n:, :n] = _last(steps.Ndx.swapaxes(0, 1))
    while float(np.abs(F).max()) > 1e-200:
        Pi = Pi + F @ Pi @ F.swapaxes(-1, -2)
        F = F @ F
    P = np.moveaxis(Pi, (-2, -1), (0, 1))
    state = Moments(delta, x, P[:n, :n], P[:n, n:], P[n:, n:])
    mean, variance, _ = _advance(state, steps)
    return measure.of_normal(mean, np.maximum(variance, 0.0))


def _rest(A: Array, b: Array) -> Array:
    """The x with x = A x + b."""
    return np.moveaxis(np.linalg.solve(np.eye(len(A)) - _last(A), _last(b)), (-2, -1), (0, 1))


# Matrices on the first two axes, pairs on the last ones ----------------------------------------------


def _product(X: Array, Y: Array) -> Array:
    """X Y."""
    if X.shape[1] == 1:
        return np.asarray(X * Y)
    return np.asarray(np.einsum("ik...,kj...->ij...", X, Y))


def _square(X: Array, Y: Array) -> Array:
    """X Y'."""
    if X.shape[1] == 1:
        return np.asarray(X * Y.swapaxes(0, 1))
    return np.asarray(np.einsum("ik...,jk...->ij...", X, Y))


def _last(X: Array) -> Array:
    """The matrix axes moved to the end."""
    return np.moveaxis(X, (0, 1), (-2, -1))


def _padded(step: Coefficients, n: int) -> Coefficients:
    """The same step with zeros for further states."""
    if len(step.A) == n:
        return step
    more = n - len(step.A)
    A = np.pad(step.A, ((0, more), (0, more), (0, 0)))
    H = np.pad(step.H, ((0, 0), (0, more), (0, 0)))
    return Coefficients(A, _tall(step.b, n), _tall(step.M, n), H, step.g, step.L)


def _tall(X: Array, n: int) -> Array:
    return np.pad(X, ((0, n - len(X)), *((0, 0),) * (X.ndim - 1)))
