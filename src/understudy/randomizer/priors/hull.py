"""The worst odds of several: the largest mutual information of a kernel over the convex hull of priors.

I(p, P) is concave in p, so the largest over a hull need not stand at one of its corners. For every law r of
the draw, with the prior fixed or not::

    I(p, P) <= sum_i p_i KL(P_i || r)

and the right side is linear in p: its largest value over the hull is at a corner. At the odds that are worst, with r
the law of the draw under them, the two meet. So the odds are moved, by the method that finds a capacity, until the
bound at the corners and the information at the odds agree. The bound holds wherever it stops.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.measures import _divergences, _interior_step, checked_kernel
from understudy.randomizer.problem import as_prior

_STEPS = 100
_EPS = float(np.finfo(float).eps)
_LEAST = 1e-100  # weight that every corner keeps, so that no draw of its values is overlooked


class Worst(NamedTuple):
    """The largest leakage over a hull, at most `upper` and at least `lower`, and the odds that reach `lower`."""

    upper: float
    lower: float
    prior: Array
    mixture: Array  # of the corners


def worst_prior(kernel: Any, priors: Any) -> Worst:
    """The odds in the convex hull of `priors` at which a kernel gives away most, and how much that is.

    `priors` are several vectors of odds, or "all" for any odds at all (the capacity).

    >>> found = worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.05, 0.95]])
    >>> round(found.upper, 6), found.prior.round(6).tolist()
    (0.192745, [0.5, 0.5])
    >>> round(worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.9, 0.1]]).upper, 6)
    0.072654
    """
    P = checked_kernel(kernel)
    return worst(P, as_corners(priors, len(P)))


def as_corners(priors: Any, m: int) -> Array:
    """Priors (K, m) as the columns of a matrix (m, K)."""
    if isinstance(priors, str):
        if priors != "all":
            raise DesignError(f"priors = {priors!r}; they must be several priors, or 'all' for any odds")
        return np.eye(m)
    try:
        rows = [_corner(k, prior, m) for k, prior in enumerate(priors)]
    except TypeError:
        raise DesignError(f"priors is a {type(priors).__name__}; it must hold several priors, or be 'all'") from None
    if not rows:
        raise DesignError("priors is empty; there must be at least one")
    return np.ascontiguousarray(np.stack(rows, axis=1))


def _corner(k: int, prior: Any, m: int) -> Array:
    try:
        return as_prior(prior, m)
    except DesignError as error:
        raise DesignError(f"priors[{k}]: {error}") from error


def worst(P: Array, B: Array, start: Array | None = None, limit: float = -1.0) -> Worst:
    """The largest I(B a, P) over mixtures a of the columns of B; P is (m, n), B is (m, K).

    With a `limit` only whether it is within that is asked, and the bounds may be far apart.
    """
    K = B.shape[1]
    found = _climbed(P, B, np.full(K, 1.0 / K) if start is None else np.maximum(start / start.sum(), _LEAST), limit)
    if start is not None and found.upper > limit >= found.lower:
        # undecided: a start close to an edge is a bad one
        other = _climbed(P, B, np.full(K, 1.0 / K), limit)
        best = max(found, other, key=lambda one: one.lower)
        found = best._replace(upper=min(found.upper, other.upper))
    return found


def _climbed(P: Array, B: Array, start: Array, limit: float) -> Worst:
    K = B.shape[1]
    units = 2.0 * (K + len(P)) * _EPS  # sums of K and m terms, each rounded
    M = B.T @ P
    there = B.max(axis=1) > 0.0
    rows, corners = P[there], B[there]
    a = best = start
    upper, lower, slack, stalled = math.inf, -1.0, np.empty(0), 0
    for _ in range(_STEPS):
        p = corners @ a
        divergences, r, _ = _divergences(p / p.sum(), rows)
        D = corners.T @ divergences
        value = math.fsum(a * D)
        better = value > lower * (1.0 + 1e-15) or D.max() < upper * (1.0 - 1e-15)
        stalled = 0 if better else stalled + 1
        upper = min(upper, float(D.max()))
        if value > lower:
            lower, best = value, a
        told = limit >= 0.0 and (upper * (1.0 + units) <= limit or lower > limit)
        if told or upper - lower <= 1e-15 * upper or K == 1 or stalled > 3:
            break
        # the first slacks are such that none is close to zero
        slack = slack if slack.size else 2.0 * D.max() - D
        if float(a @ slack) < _EPS * upper:  # what is left is rounding
            break
        used = r > 0.0
        try:
            a, slack = _interior_step(a, slack, D, (M - a @ M)[:, used], r[used])
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(a).all():
            break
        a = np.maximum(a, _LEAST)
    mixed = B @ best
    mixed.flags.writeable = best.flags.writeable = False
    return Worst(upper * (1.0 + units), min(lower, upper), mixed, best)
