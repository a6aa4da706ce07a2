"""Matrices of many pairs of models at once: rows and columns on the first two axes, sources and targets on the last.

What belongs to sources alone has one target, what belongs to targets alone one source: numpy spreads it
out where the two meet. None is a matrix of zeros, and costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array


class Triangle(NamedTuple):
    """F = [A, D; 0, B]: a step of (delta, ~x), or many steps; the source's, between the two, the target's."""

    A: Array  # (p, p, sources, 1)
    D: Array | None  # (p, q, sources, targets)
    B: Array  # (q, q, 1, targets)

    def squared(self) -> Triangle:
        """F F."""
        A, D, B = self
        return Triangle(product(A, A), plus(times(A, D), times(D, B)), product(B, B))

    def of(self, delta: Array, x: Array) -> tuple[Array, Array]:
        """F (delta, ~x), of vectors."""
        return total(product(self.A, delta), times(self.D, x)), product(self.B, x)

    def around(self, P: Form) -> Form:
        """F P F'."""
        A, D, B = self
        Pxd = None if P.dx is None else P.dx.swapaxes(0, 1)
        U, W = plus(times(A, P.dd), times(D, Pxd)), plus(times(A, P.dx), times(D, P.xx))
        dd = plus(times_turned(U, A), times_turned(W, D))
        if dd is not None and len(dd) > 1:
            dd = (dd + dd.swapaxes(0, 1)) / 2.0
        return Form(dd, times_turned(W, B), times_turned(times(B, P.xx), B))

    def within(self, W: Form) -> Form:
        """F' W F."""
        A, D, B = self
        At, Bt = A.swapaxes(0, 1), B.swapaxes(0, 1)
        Dt, Wxd = (None if X is None else X.swapaxes(0, 1) for X in (D, W.dx))
        U, V = plus(times(W.dd, D), times(W.dx, B)), plus(times(Wxd, D), times(W.xx, B))
        return Form(times(At, times(W.dd, A)), times(At, U), plus(times(Dt, U), times(Bt, V)))


class Form(NamedTuple):
    """A symmetric matrix [dd, dx; dx', xx] of (delta, ~x): a covariance, or the weights of a squared error."""

    dd: Array | None
    dx: Array | None
    xx: Array | None

    def plus(self, other: Form) -> Form:
        """The sum of both."""
        return Form(*(plus(X, Y) for X, Y in zip(self, other, strict=True)))

    def dot(self, P: Form) -> Array | None:
        """tr(W P); None is zero. Further axes of W may stand between the matrix and the pairs."""
        twice = None if P.dx is None else 2.0 * P.dx
        out = entries(self.dd, P.dd)
        for part in (entries(self.dx, twice), entries(self.xx, P.xx)):
            out = plus(out, part) if out is None or part is None else np.add(out, part, out=out)
        return out


def entries(X: Array | None, Y: Array | None) -> Array | None:
    """The sum over rows and columns of X times Y."""
    if X is None or Y is None:
        return None
    out: Array = X[0, 0] * Y[0, 0]
    for at in range(1, X.shape[0] * X.shape[1]):
        i, j = divmod(at, X.shape[1])
        out += X[i, j] * Y[i, j]
    return out


def product(X: Array, Y: Array) -> Array:
    """X Y."""
    if X.shape[1] == 1:
        return np.asarray(X * Y)
    return np.asarray(np.einsum("ik...,kj...->ij...", X, Y))


def square(X: Array, Y: Array) -> Array:
    """X Y'."""
    if X.shape[1] == 1:
        return np.asarray(X * Y.swapaxes(0, 1))
    return np.asarray(np.einsum("ik...,jk...->ij...", X, Y))


def times(X: Array | None, Y: Array | None) -> Array | None:
    """X Y, where None is zero."""
    return None if X is None or Y is None else product(X, Y)


def times_turned(X: Array | None, Y: Array | None) -> Array | None:
    """X Y', where None is zero."""
    return None if X is None or Y is None else square(X, Y)


def plus(X: Array | None, Y: Array | None) -> Array | None:
    """X + Y, where None is zero."""
    if X is None or Y is None:
        return Y if X is None else X
    return np.asarray(X + Y)


def total(X: Array, Y: Array | None, Z: Array | None = None) -> Array:
    """X + Y + Z, where None is zero."""
    X = X if Y is None else X + Y
    return X if Z is None else X + Z


def or_none(X: Array) -> Array | None:
    """X, or None if it is zero throughout."""
    return X if X.any() else None


def last(X: Array) -> Array:
    """The matrix axes moved to the end."""
    return np.moveaxis(X, (0, 1), (-2, -1))


def tall(X: Array, n: int) -> Array:
    """X with rows of zeros added, n in all."""
    return X if len(X) == n else np.pad(X, ((0, n - len(X)), *((0, 0),) * (X.ndim - 1)))
