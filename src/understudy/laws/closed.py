"""Scores in closed form: standard laws whose tails, and their inverses, are formulas that keep all digits.

The normal law needs no distribution function at all: its scores are its values. For the others the smaller of
F(x) and 1 - F(x) is a formula, and so is the x that belongs to it; neither saturates, so that nothing is
integrated or searched for. Where even the smaller one leaves float64 its logarithm takes over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array

_TINY = 1e-290  # below this the logarithm of a probability keeps digits that the probability has lost
_FARTHEST = 1e6  # standard deviations
_BLOCK = 8192  # points at a time, so that what is in between stays in the cache
_LOG_2 = math.log(2.0)


class Closed(Protocol):
    """Both directions, for arrays of one axis; -inf and inf stand for what lies beyond the ends of the support."""

    def score(self, x: Array) -> Array:
        """Phi^-1(F(x)); NaN where it leaves float64."""
        ...

    def value(self, z: Array) -> Array:
        """F^-1(Phi(z))."""
        ...


def _known(z: Array) -> Array:
    """Scores, NaN where they are so large that a reading is a mistake; infinite ones tell that it is outside."""
    with np.errstate(invalid="ignore"):
        far = np.abs(z) > _FARTHEST
    if far.any():
        z[far & np.isfinite(z)] = np.nan
    return z


@dataclass(frozen=True)
class Normal:
    """The scores themselves."""

    def score(self, x: Array) -> Array:
        """The same, as far as scores go."""
        return _known(np.array(x))

    def value(self, z: Array) -> Array:
        """The same."""
        return np.array(z)


@dataclass(frozen=True)
class LogNormal:
    """x = exp(s z)."""

    s: float

    def score(self, x: Array) -> Array:
        """The logarithm of x, over s."""
        with np.errstate(divide="ignore"):
            return _known(np.asarray(np.log(np.maximum(x, 0.0)) / self.s))

    def value(self, z: Array) -> Array:
        """The exponential of s z."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.s * z))


@dataclass(frozen=True)
class Tails:
    """A law by its smaller tail."""

    middle: float
    """The median."""
    tail: Callable[[Array, NDArray[np.bool_]], Any]
    """The smaller of F and 1 - F at x; the second argument tells where x is above the median."""
    log_tail: Callable[[Array, NDArray[np.bool_]], Any]
    """Its logarithm, where it is less than 1e-290."""
    inverse: Callable[[Array, NDArray[np.bool_]], Any]
    """The x with that tail."""
    log_inverse: Callable[[Array, NDArray[np.bool_]], Any]
    """The x whose tail has that logarithm, where it is less than 1e-290."""

    def score(self, x: Array) -> Array:
        """From the smaller tail, on its side."""
        return _by_blocks(self._score, x)

    def value(self, z: Array) -> Array:
        """From the tail beyond z, on its side."""
        return _by_blocks(self._value, z)

    def _score(self, x: Array) -> Array:
        from scipy.special import ndtri, ndtri_exp

        above = x > self.middle
        p = self.tail(x, above)
        z = np.copysign(ndtri(p), x - self.middle)
        far = np.flatnonzero(p < _TINY)
        if far.size:
            points, side = x[far], np.where(above[far], 1.0, -1.0)
            found = ndtri_exp(self.log_tail(points, above[far]))
            # a point inside the support whose tail has no logarithm either
            z[far] = -side * np.where(np.isinf(found) & np.isfinite(points), np.nan, found)
        return np.asarray(z)

    def _value(self, z: Array) -> Array:
        from scipy.special import log_ndtr, ndtr

        above = z > 0.0
        beyond = -np.abs(z)
        q = ndtr(beyond)
        x = self.inverse(q, above)
        far = np.flatnonzero(q < _TINY)
        if far.size:
            x[far] = self.log_inverse(log_ndtr(beyond[far]), above[far])
        return np.asarray(x)


def _by_blocks(f: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        if x.size <= _BLOCK:
            return f(x)
        out = np.empty(x.shape)
        for first in range(0, x.size, _BLOCK):
            out[first : first + _BLOCK] = f(x[first : first + _BLOCK])
    return out


# The laws ---------------------------------------------------------------------------------------------------------
# Exponential: 1 - F = exp(-x).


def _exponential_tail(x: Array, above: NDArray[np.bool_]) -> Any:
    return np.where(above, np.exp(-x), -np.expm1(-np.maximum(x, 0.0)))


def _exponential_inverse(q: Array, above: NDArray[np.bool_]) -> Any:
    return -np.where(above, np.log(q), np.log1p(-q))


_EXPONENTIAL = Tails(
    _LOG_2,
    _exponential_tail,
    # F = x for small x
    lambda x, above: np.where(above, -x, np.log(np.maximum(x, 0.0))),
    _exponential_inverse,
    lambda log_q, above: np.where(above, -log_q, np.exp(log_q)),
)

# F = exp(-exp(-x)): exp(-x) is exponential, and falls where x rises.
_GUMBEL_R = Tails(
    -math.log(_LOG_2),
    lambda x, above: _exponential_tail(np.exp(-x), ~above),
    lambda x, above: np.where(above, -x, -np.exp(-x)),
    lambda q, above: -np.log(_exponential_inverse(q, ~above)),
    lambda log_q, above: np.where(above, -log_q, -np.log(-log_q)),
)

# The same, turned round.
_GUMBEL_L = Tails(
    math.log(_LOG_2),
    lambda x, above: _exponential_tail(np.exp(x), above),
    lambda x, above: np.where(above, -np.exp(x), x),
    lambda q, above: np.log(_exponential_inverse(q, above)),
    lambda log_q, above: np.where(above, np.log(-log_q), log_q),
)


def _both_ways(size: Any, above: NDArray[np.bool_]) -> Any:
    """Sizes with the sign of their side, for symmetric laws."""
    return np.where(above, size, -size)


# F = 1 / (1 + exp(-x))
def _logistic_tail(x: Array, above: NDArray[np.bool_]) -> Any:
    from scipy.special import expit

    return expit(-np.abs(x))


_LOGISTIC = Tails(
    0.0,
    _logistic_tail,
    lambda x, above: -np.abs(x),
    lambda q, above: _both_ways(np.log1p(-q) - np.log(q), above),
    lambda log_q, above: _both_ways(-log_q, above),
)

# F = exp(x) / 2 below the median
_LAPLACE = Tails(
    0.0,
    lambda x, above: 0.5 * np.exp(-np.abs(x)),
    lambda x, above: -_LOG_2 - np.abs(x),
    lambda q, above: _both_ways(-np.log(2.0 * q), above),
    lambda log_q, above: _both_ways(-_LOG_2 - log_q, above),
)

_FIXED: dict[str, Closed] = {
    "norm": Normal(),
    "expon": _EXPONENTIAL,
    "gumbel_r": _GUMBEL_R,
    "gumbel_l": _GUMBEL_L,
    "logistic": _LOGISTIC,
    "laplace": _LAPLACE,
}


def closed_form(family: Any, shapes: dict[str, float]) -> Closed | None:
    """The closed form of a family of scipy.stats with these shapes, if it is here.

    >>> import numpy as np
    >>> import scipy.stats
    >>> closed_form(scipy.stats.logistic, {}).score(np.array([0.0, 450.0])).round(6).tolist()
    [0.0, 29.855772]
    >>> closed_form(scipy.stats.gamma, {"a": 2.0}) is None
    True
    """
    import scipy.stats

    # by type, so that a family of the user's own with a known name is not taken for it
    if type(family) is type(scipy.stats.lognorm):
        return LogNormal(shapes["s"])
    for name, form in _FIXED.items():
        if type(family) is type(getattr(scipy.stats, name)):
            return form
    return None
