"""The distortion of a pair of linear models, by recursion: no simulation.

Source and target are driven by the same scores, so the difference D_k = Y_k - ~Y_k is linear in them.
With delta = x - ~x the difference of the two predictor means, and Delta for differences of matrices::

    D_k     = H delta + (Delta H) ~x + Delta g + (Delta L) e
    delta+  = A delta + (Delta A) ~x + Delta b + (Delta M) e

where delta, ~x and D are Gaussian if e is. Their means and covariances follow from the same lines.
Writing them for delta rather than for x and ~x costs nothing and cancels nothing: two equal models
have a distortion of exactly zero, two nearly equal ones keep their digits, and so do models with a
large common offset. (One law written in two coordinates has a squared error of 1e-16 times its
variance, which is rounding, and so an absolute error of 1e-8 times its standard deviation.)

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

_BLOCK = 32  # steps laid out, and readings measured, at a time
_TILE = 8192  # numbers of a covariance over the pairs of a tile
_EPS = float(np.finfo(float).eps)
_NOTHING = 1e-20  # beside what a number has been, when it dies out


class Moments(NamedTuple):
    """Means and covariances of delta and ~x over all pairs; the target's own have one row of pairs.

    None is zero: where models differ in their offsets alone, delta does not vary.
    """

    delta: Array  # (n, 1, sources, targets)
    x: Array  # (n, 1, 1, targets)
    Pdd: Array | None  # (n, n, sources, targets)
    Pdx: Array | None  # (n, n, sources, targets)
    Pxx: Array  # (n, n, 1, targets)


class Steps(NamedTuple):
    """The matrices of one step over all pairs: the source's, the target's, their differences, the noise.

    `DA` is A - ~A, and so on; None is zero.
    """

    source: Coefficients
    target: Coefficients
    DA: Array | None
    Db: Array
    DH: Array | None
    Dg: Array
    Ndd: Array | None  # covariance of the noise of delta
    Ndx: Array | None  # between the noise of delta and that of ~x
    Nxx: Array
    Nyy: Array | None  # variances of the noise of D, (c, 1, sources, targets)


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
        return np.asarray((_product(limit.H, _rest(limit.A, limit.b)) + limit.g)[:, 0])
    step: Coefficients | None
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
    peaks = _peaks([np.zeros(())] * len(state), state)
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
            means[index], variance, state = _advance(state, steps)
            variances[index] = 0.0 if variance is None else variance
        total += measure.of_normal(means, np.maximum(variances, 0.0)).sum(axis=0)
        k += count
        peaks = _peaks(peaks, state)
        if constant and steps is not None and _at_rest(state, before, peaks):
            total += (horizon - k) * _measured(state, steps, measure)
            break
    return np.asarray(total / horizon)


def _start(sources: Filters, targets: Filters, chosen: slice) -> Moments:
    n = max(sources.states, targets.states)
    x, x_target = _tall(sources.start()[..., chosen], n)[..., :, None], _tall(targets.start(), n)[..., None, :]
    delta = x - x_target
    return Moments(delta, x_target, None, None, np.zeros((n, n, 1, len(targets))))


def _measured(state: Moments, steps: Steps, measure: Measure) -> Array:
    """The distortion of the next reading."""
    mean, variance, _ = _advance(state, steps)
    return measure.of_normal(mean, np.zeros(mean.shape) if variance is None else np.maximum(variance, 0.0))


def _steps(source: Coefficients, target: Coefficients, kappa: Array | None, chosen: slice) -> Steps:
    """The matrices of one step for all pairs, with the covariance of its noise."""
    n = max(len(source.A), len(target.A))
    a = Coefficients(*(part[..., chosen, None] for part in _padded(source, n)))
    t = Coefficients(*(part[..., None, :] for part in _padded(target, n)))
    delta = Coefficients(*(p - q for p, q in zip(a, t, strict=True)))
    Ndd, Ndx, Nxx = _square(delta.M, delta.M), _square(delta.M, t.M), _square(t.M, t.M)
    Nyy = (delta.L * delta.L).sum(axis=1, keepdims=True)
    if kappa is not None:
        # cov(M eps - ~M ~eps) = (Delta M)(Delta M)' + sum_l kappa_l (M_l ~M_l' + ~M_l M_l')
        both = _square(a.M * kappa, t.M)
        Ndd = Ndd + (both + both.swapaxes(0, 1))
        # cov(M eps - ~M ~eps, ~M ~eps) = (Delta M) ~M' - sum_l kappa_l M_l ~M_l'
        Ndx = Ndx - both
        Nyy = Nyy + 2.0 * (a.L * kappa * t.L).sum(axis=1, keepdims=True)
    dA, dH = _or_none(delta.A), _or_none(delta.H)
    return Steps(a, t, dA, delta.b, dH, delta.g, _or_none(Ndd), _or_none(Ndx), Nxx, _or_none(Nyy))


def _or_none(X: Array) -> Array | None:
    return X if X.any() else None


def _advance(state: Moments, steps: Steps) -> tuple[Array, Array | None, Moments]:
    """Mean and variance of D (c, sources, targets), and the moments after the step."""
    delta, x, Pdd, Pdx, Pxx = state
    A, H, dA, dH, A_target = steps.source.A, steps.source.H, steps.DA, steps.DH, steps.target.A
    Pxd = None if Pdx is None else Pdx.swapaxes(0, 1)
    # m = H delta + (Delta H) ~x + Delta g,  V = [H, Delta H] Pi [H, Delta H]' + noise
    mean = _sum(_product(H, delta), _times(dH, x), steps.Dg)
    U, W = _plus(_times(H, Pdd), _times(dH, Pxd)), _plus(_times(H, Pdx), _times(dH, Pxx))
    variance = _plus(_plus(_row_sums(U, H), _row_sums(W, dH)), steps.Nyy)
    # Pi+ = [A, Delta A; 0, ~A] Pi [A, Delta A; 0, ~A]' + noise
    U, W = _plus(_times(A, Pdd), _times(dA, Pxd)), _plus(_times(A, Pdx), _times(dA, Pxx))
    Pdd = _plus(_plus(_times_turned(U, A), _times_turned(W, dA)), steps.Ndd)
    after = Moments(
        _sum(_product(A, delta), _times(dA, x), steps.Db),
        _product(A_target, x) + steps.target.b,
        Pdd if Pdd is None or len(Pdd) == 1 else (Pdd + Pdd.swapaxes(0, 1)) / 2.0,
        _plus(_times_turned(W, A_target), steps.Ndx),
        _square(_product(A_target, Pxx), A_target) + steps.Nxx,
    )
    return mean[:, 0], None if variance is None else variance[:, 0], after


def _at_rest(state: Moments, before: Moments, peaks: list[Array]) -> bool:
    """Whether the last step moved nothing by more than rounding."""
    sd, sx = (
        np.zeros(()) if P is None else np.sqrt(np.abs(np.einsum("ii...->i...", P)))[:, None]
        for P in (state.Pdd, state.Pxx)
    )
    spreads = (sd, sx, sd * sd.swapaxes(0, 1) if sd.ndim else sd, sd * sx.swapaxes(0, 1), sx * sx.swapaxes(0, 1))
    for now, then, peak, spread in zip(state, before, peaks, spreads, strict=True):
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
    return [peak if now is None else np.maximum(peak, np.abs(now)) for peak, now in zip(peaks, state, strict=True)]


# The limit -------------------------------------------------------------------------------------------


def _stationary(sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice) -> Array:
    steps = _steps(sources.steady(), targets.steady(), kappa, chosen)
    A, A_target = steps.source.A, steps.target.A
    x = _rest(A_target, steps.target.b)
    delta = _rest(A, _sum(steps.Db, _times(steps.DA, x)))
    n, shape = len(A), steps.Db.shape[2:]
    # Pi = F Pi F' + N by doubling: Pi <- Pi + F Pi F', F <- F F
    F, Pi = np.zeros((2, *shape, 2 * n, 2 * n))
    F[..., :n, :n], F[..., n:, n:], Pi[..., n:, n:] = _last(A), _last(A_target), _last(steps.Nxx)
    if steps.DA is not None:
        F[..., :n, n:] = _last(steps.DA)
    if steps.Ndd is not None:
        Pi[..., :n, :n] = _last(steps.Ndd)
    if steps.Ndx is not None:
        Pi[..., :n, n:], Pi[..., n:, :n] = _last(steps.Ndx), _last(steps.Ndx.swapaxes(0, 1))
    while float(np.abs(F).max()) > 1e-200:
        Pi = Pi + F @ Pi @ F.swapaxes(-1, -2)
        F = F @ F
    P = np.moveaxis(Pi, (-2, -1), (0, 1))
    return _measured(Moments(delta, x, P[:n, :n], P[:n, n:], P[n:, n:]), steps, measure)


def _rest(A: Array, b: Array) -> Array:
    """The x with x = A x + b."""
    x: Array = np.linalg.solve(np.eye(len(A)) - _last(A), _last(b))  # type: ignore[assignment]  # all are float64
    return np.moveaxis(x, (-2, -1), (0, 1))


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


def _times(X: Array | None, Y: Array | None) -> Array | None:
    """X Y, where None is zero."""
    return None if X is None or Y is None else _product(X, Y)


def _times_turned(X: Array | None, Y: Array | None) -> Array | None:
    """X Y', where None is zero."""
    return None if X is None or Y is None else _square(X, Y)


def _row_sums(X: Array | None, Y: Array | None) -> Array | None:
    """The diagonal of X Y', where None is zero."""
    if X is None or Y is None:
        return None
    return np.asarray(X * Y if X.shape[1] == 1 else (X * Y).sum(axis=1, keepdims=True))


def _plus(X: Array | None, Y: Array | None) -> Array | None:
    """X + Y, where None is zero."""
    if X is None or Y is None:
        return Y if X is None else X
    return np.asarray(X + Y)


def _sum(X: Array, Y: Array | None, Z: Array | None = None) -> Array:
    """X + Y + Z, where None is zero."""
    X = X if Y is None else X + Y
    return X if Z is None else X + Z


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
