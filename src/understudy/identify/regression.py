"""Least squares in groups: shared or separate coefficients, and in each group its own intercept and noise.

::

    y_k = c_g + B_g' x_k + e_k,    e_k ~ N(0, S_g),    g = group of row k

The likelihood is climbed by turns: coefficients given the covariances (generalised least squares), covariances given
the residuals.

Single bad samples must not decide a variance. `robust` leaves out rows that are further from their prediction than
five standard deviations, which a normal law does once in 1.7 million, and at most one row in a hundred (five, in small
groups): where more lie there, the tails are heavy, and a law with heavy tails must say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy.identify.labelled import Indices, Mask
from understudy.laws.base import Array

FAR = 5.0
"""Standard deviations beyond which a row is left out."""
MOST = 0.01
"""Share of the rows of a group that may be left out."""
_CENTRAL, _CENTRAL_VARIANCE = 0.95, 0.7576  # variance of a standard normal between its 2.5 and 97.5 percent points


class Normal(NamedTuple):
    """A fit with normal noise: B (G, k, d), c (G, d), S (G, d, d), and the rows that were kept."""

    B: Array
    c: Array
    S: Array
    kept: Mask


def normal_regression(
    X: Array, Y: Array, group: Indices, G: int, *, shared: bool, robust: bool, fixed: Array | None = None
) -> Normal:
    """Least squares within groups, weighted between them; `fixed` are coefficients (G, k, d) that stay as they are."""
    kept = np.ones(len(Y), dtype=bool)
    fit = _normal(X, Y, group, G, shared, kept, fixed)
    if not robust:
        return fit
    E = residuals(X, Y, group, fit)
    # a start that bad samples do not decide: the variance of the central 95 percent
    S = np.stack([np.diag(np.square(_central_scale(E[group == g]))) for g in range(G)])
    kept = within(E, S, group, G)
    for _ in range(20):
        fit = _normal(X, Y, group, G, shared, kept, fixed)
        again = within(residuals(X, Y, group, fit), fit.S, group, G)
        if np.array_equal(again, kept):
            break
        kept = again
    return fit


def residuals(X: Array, Y: Array, group: Indices, fit: Normal) -> Array:
    """What the prediction leaves."""
    E = Y - fit.c[group]
    for g in range(len(fit.c)):
        at = group == g
        E[at] -= X[at] @ fit.B[g]
    return E


def within(E: Array, S: Array, group: Indices, G: int) -> Mask:
    """Rows that are no further out than five standard deviations, or not among the one in a hundred furthest."""
    limit = distance_limit(E.shape[1])
    kept = np.ones(len(E), dtype=bool)
    for g in range(G):
        at = np.flatnonzero(group == g)
        if at.size:
            distance = np.einsum("ki,ki->k", E[at], np.linalg.solve(S[g], E[at].T).T)
            kept[at[furthest(distance, limit, allowance(at.size))]] = False
    return kept


def furthest(distance: Array, limit: float, most: int) -> Indices:
    """Positions of the distances above the limit, of at most so many: the largest."""
    far = np.flatnonzero(distance > limit)
    return far[np.argsort(-distance[far], kind="stable")[: max(most, 0)]]


def heavy_tails(gone: Any, counts: Any, values: Sequence[object]) -> tuple[str, ...]:
    """A note where as many readings of a value were left out as may be: then these are no single bad samples.

    >>> heavy_tails(np.array([10, 3]), np.array([1000, 1000]), ["empty", "full"])
    ("noise with heavy tails, which a normal law does not have, at 'empty'.",)
    """
    full = [repr(v) for v, left, n in zip(values, gone, counts, strict=True) if left and left >= allowance(int(n))]
    return (f"noise with heavy tails, which a normal law does not have, at {', '.join(full)}.",) if full else ()


def allowance(count: int) -> int:
    """How many of so many readings may be left out."""
    return max(5, int(MOST * count)) if count >= 100 else count // 20


def distance_limit(d: int) -> float:
    """The squared distance (chi-squared of d degrees) that is as unlikely as five standard deviations of one number."""
    from scipy.stats import chi2, norm

    return float(chi2.isf(2.0 * norm.sf(FAR), d))


def _central_scale(E: Array) -> Array:
    """Standard deviations of the channels from their central 95 percent."""
    if len(E) < 2:
        return np.ones(E.shape[1])
    tail = 0.5 * (1.0 - _CENTRAL)
    low, high = np.quantile(E, [tail, 1.0 - tail], axis=0)
    inside = np.where((E - low >= 0.0) & (E - high <= 0.0), E, np.nan)
    scale = np.nanstd(inside, axis=0) / math.sqrt(_CENTRAL_VARIANCE)
    whole = E.std(axis=0)
    return np.where(scale > 0.0, scale, np.where(whole > 0.0, whole, 1.0))


def _normal(X: Array, Y: Array, group: Indices, G: int, shared: bool, kept: Mask, fixed: Array | None) -> Normal:
    k, d = X.shape[1], Y.shape[1]
    rows = [np.flatnonzero(kept & (group == g)) for g in range(G)]
    mx = np.stack([X[at].mean(axis=0) for at in rows])
    my = np.stack([Y[at].mean(axis=0) for at in rows])
    XX = [(X[at] - mx[g]).T @ (X[at] - mx[g]) for g, at in enumerate(rows)]
    XY = [(X[at] - mx[g]).T @ (Y[at] - my[g]) for g, at in enumerate(rows)]
    B = np.stack([_solved(XX[g], XY[g]) for g in range(G)]) if fixed is None else np.array(fixed)
    S = np.empty((G, d, d))
    for _ in range(50 if shared and fixed is None else 1):
        before = B
        for g, at in enumerate(rows):
            E = (Y[at] - my[g]) - (X[at] - mx[g]) @ B[g]
            S[g] = _floored(E.T @ E / len(at), Y[at])
        if not shared or fixed is not None:
            break
        # sum_g S_g^-1 (x) X_g'X_g  vec B = sum_g vec(X_g'Y_g S_g^-1)
        left, right = np.zeros((k * d, k * d)), np.zeros((k, d))
        for g in range(G):
            inverse = np.linalg.solve(S[g], np.eye(d))
            left += np.kron(inverse, XX[g])
            right += XY[g] @ inverse
        one = _solved(left, right.T.reshape(-1, 1)).reshape(d, k).T
        B = np.tile(one, (G, 1, 1))
        if np.abs(B - before).max() <= 1e-12 * (1.0 + np.abs(B).max()):
            break
    c = my - np.einsum("gkd,gk->gd", B, mx)
    return Normal(B, c, S, kept)


def _solved(left: Array, right: Array) -> Array:
    """Least squares, since a channel may never move within a group."""
    if left.size == 0:
        return np.zeros((0, right.shape[1]))
    scale = np.sqrt(np.maximum(np.diag(left), np.finfo(float).tiny))
    found = np.linalg.lstsq(left / np.outer(scale, scale), right / scale[:, None], rcond=1e-13)[0]
    return np.asarray(found / scale[:, None])


def _floored(S: Array, Y: Array) -> Array:
    """A covariance that is positive definite, whatever rounding left of a channel that hardly moves."""
    floor = 1e-9 * np.maximum(Y.var(axis=0), 1e-12 * np.maximum(np.square(Y).mean(axis=0), 1e-300))
    return np.asarray(S + np.diag(floor))
