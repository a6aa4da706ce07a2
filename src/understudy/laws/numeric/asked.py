"""A user's log-density, asked with care: what it may do wrong is named, and no reading is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.base import Array

_AT_ONCE = 65_536  # points in one call, which bounds the memory


class Asked:
    """A log-density of candidates (N,) or (D, N), checked at every call.

    `name` begins the messages: which log-density it is. What a function of our `own` raises is passed on.

    >>> import numpy as np
    >>> Asked(lambda y: -abs(y), "the log-density")(np.array([1.0, -2.0])).tolist()
    [-1.0, -2.0]
    >>> Asked(lambda y: 0.0, "the log-density")(np.array([1.0, -2.0]))
    Traceback (most recent call last):
    ...
    understudy.errors.NumericalError: the log-density gave shape () for 2 candidates; it must give (2,), one number each
    """

    __slots__ = ("_function", "_own", "name")

    def __init__(self, function: Callable[[Array], Any], name: str, own: bool = False) -> None:
        self._function, self.name, self._own = function, name, own

    def __call__(self, y: Array) -> Array:
        """The log-densities, none of them NaN or +inf."""
        f = self.search(y)
        if np.isnan(f).any():
            raise not_a_number(self.name)
        return f

    def search(self, y: Array) -> Array:
        """The same while the bulk is being looked for: far away from it NaN is allowed."""
        N = y.shape[-1]
        if N > _AT_ONCE:
            parts = [self.search(y[..., first : first + _AT_ONCE]) for first in range(0, N, _AT_ONCE)]
            return np.concatenate(parts)
        y = y.view()
        y.flags.writeable = False
        try:
            with np.errstate(all="ignore"):
                given = self._function(y)
        except Exception as error:
            if self._own:
                raise
            # Its words may hold a reading, so only its type is told.
            raise NumericalError(f"{self.name} raised {type(error).__name__}") from None
        f = np.asarray(given)
        if f.dtype.kind not in "fiu":
            raise NumericalError(f"{self.name} gave {f.dtype} values; it must give real numbers")
        if f.shape != (N,):
            rule = f"it must give ({N},), one number each"
            raise NumericalError(f"{self.name} gave shape {f.shape} for {N} candidates; {rule}")
        f = f.astype(float, copy=False)
        if (f == np.inf).any():
            raise NumericalError(
                f"{self.name} is +inf at a point of its support; a density must be finite (give support=(low, high) "
                "if that point is an end)"
            )
        return f


def not_a_number(name: str) -> NumericalError:
    """The error for a log-density that is NaN."""
    return NumericalError(
        f"{name} is not a number (NaN) at a point of its support; it must be finite there, and -inf or outside "
        "support=(low, high) where the density is zero"
    )
