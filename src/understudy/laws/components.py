"""Mixtures of any laws of one number, by their scores, quantiles and densities.

A reading outside the support of one component counts 0 or 1 there: its score is infinite. `Scalar` and
`Mixture` say so by their method ``score_or_end``; of another law that refuses such a reading, those
below its median count as below the support.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import NumericalError, ReadingError
from understudy.laws.base import Array, Law
from understudy.laws.blend import Parts, added, assess, blended_score, columns, log_sum
from understudy.laws.inverse import Index, Look, invert
from understudy.laws.table import Table

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALL, _PATIENCE = 1e-8, 2  # Newton's error is of second order; twice, because a density may have a step
_FAR = 2.5  # beyond this score a good start is worth a second round of quantiles
_LAST = sys.float_info.max


def blended(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Scores of the readings (N,) under mixtures with the log-weights (K, N) or (K, 1)."""
    return blended_score(_each(_component_score, y, log_w, laws), log_w)


def heights(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Log-densities of the mixtures."""
    return log_sum(log_w + _each(_component_logpdf, y, log_w, laws))


def _each(function: Any, y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """A function of law and readings for every law, (K, N); 0 for the readings to which a law adds nothing."""
    known = ~np.isnan(y)
    out = np.zeros((len(laws), y.size))
    out[:, ~known] = np.nan
    for i, law in enumerate(laws):
        counts = known & (log_w[i] > -np.inf)
        if counts.all():
            out[i] = function(law, y)
        elif counts.any():
            out[i, counts] = function(law, y[counts])
    return out


def _component_logpdf(law: Law, y: Array) -> Array:
    return np.asarray(law.logpdf(y), dtype=float)


def _component_score(law: Law, y: Array) -> Array:
    """Scores, infinite outside the support, NaN where they cannot be computed."""
    score = getattr(law, "score_or_end", law.score)
    try:
        return np.asarray(score(y), dtype=float)
    except (ReadingError, NumericalError):
        return np.array([_one_score(law, score, reading) for reading in y.tolist()])


def _one_score(law: Law, score: Any, y: float) -> float:
    try:
        return float(score(y))
    except ReadingError:
        return -math.inf if y < law.value(0.0) else math.inf
    except NumericalError:
        return math.nan


def _component_value(law: Law, z: Array) -> Array:
    """Quantiles; the last float for one that is beyond it."""
    try:
        return np.asarray(law.value(z), dtype=float)
    except NumericalError:
        return np.array([_one_value(law, score) for score in z.tolist()])


def _one_value(law: Law, z: float) -> float:
    try:
        return float(law.value(z))
    except NumericalError:
        return math.copysign(_LAST, z)


def values(z: Array, log_w: Array, laws: Sequence[Law], table: Table | None = None) -> tuple[Array, NDArray[np.int64]]:
    """Quantiles of mixtures of any laws, and the number of looks that each took; NaN for one beyond all floats."""
    quantile = _each(_component_value, z, log_w, laws)
    weighs = log_w != -np.inf
    low = np.where(weighs, quantile, np.inf).min(axis=0)
    high = np.where(weighs, quantile, -np.inf).max(axis=0)
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    bounded = np.zeros(z.shape, dtype=bool)

    def look(which: Index, y: Array) -> Look:
        weights = columns(log_w, which)
        x = _each(_component_score, y, weights, laws)
        outside = np.isinf(x)
        bounded[which] |= outside.any(axis=0)
        # dz_i/dy = f_i / phi(z_i)
        pace = np.exp(_each(_component_logpdf, y, weights, laws) + 0.5 * x * x + _LOG_SQRT_2PI)
        pace[outside] = 0.0
        return assess(Parts(side[which] * x, pace, weights), goal[which], side[which], _SMALL, halley=False)

    start = np.full(z.shape, np.nan) if table is None else table.start(z)
    unknown = np.flatnonzero(np.isnan(start))
    if unknown.size:
        start[unknown] = _start(z[unknown], columns(log_w, unknown), laws, quantile.take(unknown, axis=1))
    y, looks = invert(look, low, high, start, _PATIENCE)
    y = _inside(y, log_w, laws, np.flatnonzero(bounded))
    return np.where(np.abs(y) < _LAST, y, np.nan), looks


def _start(z: Array, log_w: Array, laws: Sequence[Law], quantile: Array) -> Array:
    """A point near the quantile: see `normal_mixture`, where the same is done for normal laws."""
    from scipy.special import log_ndtr, ndtri_exp

    start = added(np.exp(log_w) * quantile)
    at = np.flatnonzero(np.abs(z) > _FAR)
    if at.size:
        weights = columns(log_w, at)
        side = np.where(z[at] < 0.0, -1.0, 1.0)
        excess = log_ndtr(-np.abs(z[at])) - weights
        goal = -side * ndtri_exp(np.minimum(excess, -1e-300))
        farthest = np.full(excess.shape, -np.inf)
        for i, law in enumerate(laws):
            counts = (excess[i] < 0.0) & (weights[i] > -np.inf)
            farthest[i, counts] = side[counts] * _component_value(law, goal[i, counts])
        best = farthest.max(axis=0)
        start[at] = np.where(np.isfinite(best), side * best, start[at])
    return start


def _inside(y: Array, log_w: Array, laws: Sequence[Law], at: Index) -> Array:
    """Answers that were rounded into a hole are moved to the float beside it."""
    out = at[heights(y[at], columns(log_w, at), laws) == -np.inf] if at.size else at
    for end in (-np.inf, np.inf):
        if not out.size:
            break
        beside = np.nextafter(y[out], end)
        good = heights(beside, columns(log_w, out), laws) > -np.inf
        y[out[good]] = beside[good]
        out = out[~good]
    return y
