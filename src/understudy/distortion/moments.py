"""Means and covariances of a pair of linear models driven by the same scores, and the step that moves them.

With delta = x - ~x the difference of the two predictor means, and Delta for differences of matrices::

    D_k     = H delta + (Delta H) ~x + Delta g + (Delta L) e
    delta+  = A delta + (Delta A) ~x + Delta b + (Delta M) e
    ~x+     =                 ~A ~x +       ~b +       ~M  e

Writing the recursion for delta rather than for x costs nothing and cancels nothing: two equal models
have a distortion of exactly zero, two nearly equal ones keep their digits, and so do models with a
large common offset. (One law written in two coordinates has a squared error of 1e-16 times its
variance, which is rounding, and so an absolute error of 1e-8 times its standard deviation.)

Noise that is not Gaussian has the same first two moments, up to one number for each pair and
channel: kappa = 1 - correlation(eps, ~eps) of the two noises made from one score, and the squared
error needs no more than that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.distortion.linear import Coefficients, Filters
from understudy.distortion.matrices import Form, Triangle, or_none, plus, product, square, tall, times, total
from understudy.distortion.measure import Measure
from understudy.laws.base import Array


class Moments(NamedTuple):
    """Means and covariance of (delta, ~x) over all pairs.

    None is zero: where models differ in their offsets alone, delta does not vary.
    """

    delta: Array  # (n, 1, sources, targets)
    x: Array  # (n, 1, 1, targets)
    P: Form


class Move(NamedTuple):
    """(delta, ~x) -> F (delta, ~x) + f + noise of covariance N: one step, or many."""

    F: Triangle
    f: tuple[Array, Array]
    N: Form

    def of(self, state: Moments) -> Moments:
        """The moments after the move."""
        delta, x = self.F.of(state.delta, state.x)
        return Moments(delta + self.f[0], x + self.f[1], self.F.around(state.P).plus(self.N))

    def twice(self) -> Move:
        """The same move two times over."""
        delta, x = self.F.of(*self.f)
        return Move(self.F.squared(), (self.f[0] + delta, self.f[1] + x), self.N.plus(self.F.around(self.N)))


class Step(NamedTuple):
    """One step over all pairs: how (delta, ~x) moves, and D = H delta + E ~x + g + noise, with E = Delta H."""

    move: Move
    H: Array  # (c, n, sources, 1)
    E: Array | None  # (c, n, sources, targets)
    g: Array  # (c, 1, sources, targets)
    noise: Array | None  # variances of the noise of D, (c, 1, sources, targets)

    def mean(self, state: Moments) -> Array:
        """The mean of D, (c, 1, sources, targets)."""
        return total(product(self.H, state.delta), times(self.E, state.x), self.g)

    def variance(self, state: Moments) -> Array | None:
        """The variances of D, (c, 1, sources, targets)."""
        H, E, P = self.H, self.E, state.P
        U = plus(times(H, P.dd), None if P.dx is None else times(E, P.dx.swapaxes(0, 1)))
        W = plus(times(H, P.dx), times(E, P.xx))
        return plus(plus(_row_sums(U, H), _row_sums(W, E)), self.noise)

    def measured(self, state: Moments, measure: Measure) -> Array:
        """E d of the reading, (sources, targets)."""
        means, variances = self.mean(state)[:, 0], self.variance(state)
        if variances is None:
            return measure.of_normal(means, np.zeros(means.shape))
        return measure.of_normal(means, np.maximum(variances[:, 0], 0.0))

    def drift(self, state: Moments) -> tuple[Array, Array]:
        """What the step adds to the means, (F - 1)(delta, ~x) + f, of which a unit root takes no digits."""
        (A, D, B), one = self.move.F, np.eye(len(state.x))[:, :, None, None]
        delta, x = Triangle(A - one, D, B - one).of(state.delta, state.x)
        return delta + self.move.f[0], x + self.move.f[1]


def start(sources: Filters, targets: Filters, chosen: slice) -> Moments:
    """Before the first step; `chosen` sources."""
    n = max(sources.states, targets.states)
    x, x_target = tall(sources.start()[..., chosen], n)[..., :, None], tall(targets.start(), n)[..., None, :]
    return Moments(x - x_target, x_target, Form(None, None, None))


def step_between(source: Coefficients, target: Coefficients, kappa: Array | None, chosen: slice) -> Step:
    """One step of all pairs, with the covariance of its noise."""
    n = max(len(source.A), len(target.A))
    a = Coefficients(*(part[..., chosen, None] for part in _padded(source, n)))
    t = Coefficients(*(part[..., None, :] for part in _padded(target, n)))
    A, b, M, H, g, L = (p - q for p, q in zip(a, t, strict=True))
    dd, dx, xx = square(M, M), square(M, t.M), square(t.M, t.M)
    noise = (L * L).sum(axis=1, keepdims=True)
    if kappa is not None:
        # cov(M eps - ~M ~eps) = (Delta M)(Delta M)' + sum_l kappa_l (M_l ~M_l' + ~M_l M_l')
        both = square(a.M * kappa, t.M)
        dd = dd + (both + both.swapaxes(0, 1))
        # cov(M eps - ~M ~eps, ~M ~eps) = (Delta M) ~M' - sum_l kappa_l M_l ~M_l'
        dx = dx - both
        noise = noise + 2.0 * (a.L * kappa * t.L).sum(axis=1, keepdims=True)
    move = Move(Triangle(a.A, or_none(A), t.A), (b, t.b), Form(or_none(dd), or_none(dx), xx))
    return Step(move, a.H, or_none(H), g, or_none(noise))


def cut(part: Any, rows: slice, columns: slice) -> Any:
    """Moments or a step of some of the pairs."""
    if part is None:
        return None
    if isinstance(part, tuple):
        pieces = [cut(piece, rows, columns) for piece in part]
        return tuple(pieces) if type(part) is tuple else type(part)(*pieces)
    every = slice(None)
    return part[..., rows if part.shape[-2] > 1 else every, columns if part.shape[-1] > 1 else every]


def _row_sums(X: Array | None, Y: Array | None) -> Array | None:
    """The diagonal of X Y', where None is zero."""
    if X is None or Y is None:
        return None
    return np.asarray(X * Y if X.shape[1] == 1 else (X * Y).sum(axis=1, keepdims=True))


def _padded(step: Coefficients, n: int) -> Coefficients:
    """The same step with zeros for further states."""
    if len(step.A) == n:
        return step
    more = n - len(step.A)
    A = np.pad(step.A, ((0, more), (0, more), (0, 0)))
    H = np.pad(step.H, ((0, 0), (0, more), (0, 0)))
    return Coefficients(A, tall(step.b, n), tall(step.M, n), H, step.g, step.L)
