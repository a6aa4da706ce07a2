"""Matrices of many targets with their derivatives: forward-mode differentiation of what the recursion needs.

A `Tangent` holds a matrix of each target (J, ...) and its derivatives in k coordinates, (J, k, ...). Products follow
the product rule; a Cholesky factor follows dL = L phi(L^-1 dS L^-T), phi the lower triangle with half of its diagonal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.laws.base import Array


class Tangent(NamedTuple):
    """A matrix of each target (J, ...) and its derivatives (J, k, ...)."""

    value: Array
    slope: Array


def times(X: Tangent, Y: Tangent) -> Tangent:
    """X Y."""
    x, y = X.value[:, None], Y.value[:, None]
    return Tangent(X.value @ Y.value, X.slope @ y + x @ Y.slope)


def plus(X: Tangent, Y: Tangent) -> Tangent:
    """X + Y."""
    return Tangent(X.value + Y.value, X.slope + Y.slope)


def turned(X: Tangent) -> Tangent:
    """X'."""
    return Tangent(X.value.swapaxes(-1, -2), X.slope.swapaxes(-1, -2))


def column(X: Tangent) -> Tangent:
    """Vectors as matrices of one column."""
    return Tangent(X.value[..., None], X.slope[..., None])


def exact(value: Any, slope: Any) -> Tangent:
    """A tangent of what linear algebra gives, which is float64, though its types do not say so."""
    return Tangent(value, slope)


def factor(S: Tangent) -> Tangent:
    """The lower Cholesky factor: dL = L phi(L^-1 dS L^-T)."""
    L = np.linalg.cholesky(S.value)
    inner = np.linalg.solve(L[:, None], np.linalg.solve(L[:, None], S.slope).swapaxes(-1, -2))
    half = np.tril(inner)
    at = np.arange(L.shape[-1])
    half[..., at, at] *= 0.5
    return exact(L, L[:, None] @ half)


def lowered(Y: Tangent, L: Tangent) -> Tangent:
    """Y L^-T: M = Sigma C' L^-T, and dM = (dY - M dL') L^-T."""
    M = np.linalg.solve(L.value, Y.value.swapaxes(-1, -2)).swapaxes(-1, -2)
    rest = Y.slope - M[:, None] @ L.slope.swapaxes(-1, -2)
    return exact(M, np.linalg.solve(L.value[:, None], rest.swapaxes(-1, -2)).swapaxes(-1, -2))
