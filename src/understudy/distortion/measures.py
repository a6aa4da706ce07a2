"""What counts as far: the distortion of one reading, d(y, ~y).

Two measures have names. With the difference D = y - ~y of one reading, over its channels l::

    "mse"    sum_l w_l D_l^2,   or D' W D with a matrix of weights
    "mae"    sum_l w_l |D_l|

Without weights w_l = 1 / channels, so that the figure is a mean over the channels. Any other
measure is a function of your own, ``d(y, y_out)``. It takes many readings at once: arrays (N,) for
one channel, (channels, N) for several, as a law does; and it returns N numbers, finite and not
negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen
from understudy.errors import DesignError

Function = Callable[[Array, Array], ArrayLike]

_POWERS = {"mae": 1, "mse": 2}
_RULE = "it must be 'mse', 'mae' or a function d(y, y_out)"
# Rounding that a symmetric or semidefinite matrix of weights may carry.
_ROUNDING = 1e-12
_ROOT = math.sqrt(2.0 / math.pi)
_TINY = 1e-290  # in place of a standard deviation of 0


class Measure(Frozen):
    """A distortion, checked: sum over c of ``weights[c] |(read D)_c| ^ power``, or a function.

    >>> import numpy as np
    >>> Measure("mae", dim=2).of(np.array([[3.0], [1.0]]), np.zeros((2, 1))).tolist()
    [2.0]
    """

    __slots__ = ("dim", "function", "name", "power", "read", "weights")

    def __init__(self, distortion: str | Function, dim: int, weights: ArrayLike | None = None) -> None:
        self.dim = dim
        if isinstance(distortion, str) and distortion in _POWERS:
            self.name, self.power, self.function = distortion, _POWERS[distortion], None
            self.read, self.weights = _weights(weights, dim, self.power)
        elif callable(distortion):
            if weights is not None:
                raise DesignError("weights go with 'mse' and 'mae'; a function of your own weighs by itself")
            self.name = str(getattr(distortion, "__name__", type(distortion).__name__))
            self.power, self.function = 0, distortion
            self.read, self.weights = None, np.ones(dim)
        else:
            raise DesignError(f"distortion = {distortion!r}; {_RULE}")
        self.weights.flags.writeable = False

    def __repr__(self) -> str:
        return f"Measure({self.name}, dim={self.dim})"

    @property
    def by_channel(self) -> bool:
        """Whether the distortion is a sum over channels, each looked at by itself."""
        return self.function is None and self.read is None

    def of(self, y: Array, y_out: Array) -> Array:
        """The distortion of readings (channels, N): N numbers."""
        if self.function is not None:
            return self._asked(y, y_out)
        D = y - y_out if self.read is None else self.read @ (y - y_out)
        return np.asarray(self.weights @ (np.abs(D) if self.power == 1 else D * D))

    def of_normal(self, mean: Array, variance: Array) -> Array:
        """E d for differences that are normal, over arrays (channels, ...), channels summed.

        E |D| = s sqrt(2/pi) exp(-m^2 / 2 s^2) + m erf(m / (s sqrt 2)), and |m| at s = 0.
        """
        if self.power == 2:
            E = mean * mean + variance
        else:
            E = np.abs(mean)
            if variance.any():
                E = _mean_absolute(E, variance)
        return np.asarray(E[0] * self.weights[0] if len(E) == 1 else np.tensordot(self.weights, E, 1))

    def _asked(self, y: Array, y_out: Array) -> Array:
        if self.function is None:
            raise TypeError("a named measure asks no function")
        shape = y.shape[1:] if self.dim == 1 else y.shape
        try:
            given = self.function(y.reshape(shape), y_out.reshape(shape))
            found = np.asarray(given, dtype=float)
        except (TypeError, ValueError) as error:
            raise DesignError(
                f"distortion {self.name} fails on arrays of shape {shape}: {error}; it takes many readings at once "
                "(np.vectorize makes such a function from one of two numbers)"
            ) from error
        if found.shape != y.shape[1:]:
            raise DesignError(
                f"distortion {self.name} gives shape {found.shape} for readings of shape {shape}; "
                f"it must be {y.shape[1:]}, one number for each reading"
            )
        bad = ~(np.isfinite(found) & (found >= 0.0))
        if bad.any():
            raise DesignError(f"distortion {self.name} gives {found[bad][0]}; it must be finite and not negative")
        return found


def _mean_absolute(size: Array, variance: Array) -> Array:
    """E |N(m, V)| from |m| and V."""
    from scipy.special import erf

    s = np.sqrt(variance)
    r = size / np.maximum(s, _TINY)
    return np.asarray(size * erf(r * math.sqrt(0.5)) + s * (_ROOT * np.exp(-0.5 * r * r)))


def _weights(given: ArrayLike | None, dim: int, power: int) -> tuple[Array | None, Array]:
    """What reads the differences, and the weights of what is read: D' W D = sum_c weights[c] (read D)_c^2."""
    if given is None:
        return None, np.full(dim, 1.0 / dim)
    try:
        w = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise DesignError(f"weights = {given!r}; they must be numbers") from None
    if w.ndim == 0 and dim == 1:
        w = w.reshape(1)
    if w.shape not in ((dim,), (dim, dim)):
        raise DesignError(f"weights has shape {w.shape}; {dim} channels need ({dim},), or ({dim}, {dim}) for 'mse'")
    if not np.isfinite(w).all():
        raise DesignError("weights has an entry that is not finite; every one must be")
    if w.ndim == 1:
        if w.min() < 0.0 or w.max() == 0.0:
            raise DesignError(f"weights = {w.tolist()}; none may be negative, and one must be positive")
        return None, w
    if power != 2:
        raise DesignError(f"weights has shape {w.shape}; a matrix of weights goes with 'mse' only")
    size = float(np.abs(w).max())
    if float(np.abs(w - w.T).max()) > _ROUNDING * size:
        raise DesignError("weights is not symmetric; a matrix of weights must be")
    values, vectors = np.linalg.eigh((w + w.T) / 2.0)
    if values[0] < -_ROUNDING * dim * size or values[-1] <= 0.0:
        raise DesignError(
            f"weights has the eigenvalues {values.tolist()}; none may be negative, and one must be positive"
        )
    kept = values > _ROUNDING * dim * size
    read = np.ascontiguousarray(vectors[:, kept].T)
    read.flags.writeable = False
    return read, values[kept]
