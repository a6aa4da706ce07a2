"""Checking what a user gives for a randomizer problem, once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array


def as_cost(cost: Any) -> Array:
    """A cost matrix (m, n), row major; its entries are looked at by the solver."""
    if type(cost) is np.ndarray and cost.dtype == np.float64 and cost.ndim == 2 and cost.size:
        return cost.copy()  # the usual case, in a microsecond less
    try:
        array = np.asarray(cost)
    except ValueError:
        raise DesignError("cost is ragged; it must be a matrix, a row for each value") from None
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.size == 0 or isinstance(cost, np.ma.MaskedArray):
        raise DesignError(
            f"cost has shape {array.shape} and type {array.dtype}; it must be a matrix of numbers (none masked), "
            "a row for each value and a column for each pseudo value"
        )
    return np.array(array, dtype=float, order="C")


def as_prior(prior: Any, m: int) -> Array:
    """A prior over m values; equally likely without one."""
    if prior is None:
        return np.full(m, 1.0 / m)
    if type(prior) is np.ndarray and prior.dtype == np.float64 and prior.shape == (m,):
        return _checked(prior.copy(), prior, m)
    try:
        array = np.asarray(prior)
    except ValueError:
        raise DesignError("prior is ragged; it must hold one probability for each row of the costs") from None
    if array.dtype.kind not in "fiu" or array.shape != (m,) or isinstance(prior, np.ma.MaskedArray):
        raise DesignError(
            f"prior has shape {array.shape} and type {array.dtype}; it must hold one probability "
            f"for each of the {m} rows of the costs"
        )
    return _checked(np.array(array, dtype=float), prior, m)


def _checked(p: Array, prior: Any, m: int) -> Array:
    """Probabilities that sum to 1, from ones that nearly do; `prior` is what the user gave."""
    entries = p.tolist()
    total = math.fsum(entries)
    if not (min(entries) >= 0.0 and total < math.inf):
        raise DesignError(f"prior is {prior!r}; probabilities must be finite and not negative")
    if abs(total - 1.0) > 1e-9:
        raise DesignError(f"prior sums to {total:.12g}; probabilities must sum to 1")
    if abs(total - 1.0) > 1e-15 * m:
        p /= total
    return p
