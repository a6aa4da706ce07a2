"""The randomizer: the law of the pseudo parameter given the private one, exactly as it is drawn.

Each probability is a whole number of 2^-53 and each row sums to one, so a draw compares 53 random bits with
whole numbers: the kernel that is certified is the one that is sampled, to the last bit.
"""

from __future__ import annotations

import bisect
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Frozen
from understudy.errors import DesignError
from understudy.randomizer.solver import kernels, view

BITS = 53


class Randomizer(Frozen):
    """A kernel P[i, j] = Pr(~theta_j given theta_i), and draws from it.

    `values` and `pseudo` name the rows and the columns; without them they are numbered. A kernel that is
    not in whole numbers of 2^-53 is rounded to them.

    >>> import understudy as us
    >>> randomizer = us.Randomizer([[0.9, 0.1], [0.2, 0.8]], values=["away", "home"], pseudo=["away", "home"])
    >>> randomizer.kernel.sum(axis=1).tolist()
    [1.0, 1.0]
    >>> randomizer.draw("home") in ("away", "home")
    True
    """

    __slots__ = ("kernel", "pseudo", "values")

    kernel: Array
    values: tuple[Any, ...]
    pseudo: tuple[Any, ...]

    def __init__(self, kernel: Any, values: Sequence[Any] | None = None, pseudo: Sequence[Any] | None = None) -> None:
        self._set(_rounded(kernel), values, pseudo)

    @classmethod
    def _certified(cls, kernel: Array, values: Sequence[Any] | None, pseudo: Sequence[Any] | None) -> Randomizer:
        """From a kernel that the solver made, which is in whole numbers of 2^-53 already."""
        made = cls.__new__(cls)
        made._set(kernel if kernel.base is None else kernel.copy(), values, pseudo)
        return made

    def _set(self, P: Array, values: Sequence[Any] | None, pseudo: Sequence[Any] | None) -> None:
        m, n = P.shape
        P.setflags(write=False)
        put = object.__setattr__  # a design is made in microseconds; the check of `Frozen` would cost a tenth of it
        put(self, "kernel", P)
        put(self, "values", _counted(m) if values is None else _names("values", values, m))
        put(self, "pseudo", _counted(n) if pseudo is None else _names("pseudo", pseudo, n))

    def __repr__(self) -> str:
        # the names of the values are the user's; a draw is a secret and is kept nowhere here
        return f"Randomizer({self.kernel.shape[0]} x {self.kernel.shape[1]})"

    @property
    def counts(self) -> NDArray[np.int64]:
        """The probabilities as whole numbers of 2^-53; each row sums to 2^53."""
        return (self.kernel * 2.0**BITS).astype(np.int64)

    def row(self, value: Any) -> int:
        """Where a value of the private parameter stands."""
        for i, known in enumerate(self.values):
            if known is value or np.array_equal(known, value):
                return i
        raise DesignError(f"the randomizer has no row for a value of type {type(value).__name__}")

    def draw(self, value: Any, rng: np.random.Generator | None = None) -> Any:
        """Draw a pseudo value for a private one, from the random source of the operating system.

        A `rng` is for simulations and tests: its draws can be foretold.
        """
        return self.pseudo[self.draw_index(self.row(value), rng)]

    def draw_index(self, row: int, rng: np.random.Generator | None = None) -> int:
        """The same by position."""
        bits = secrets.randbits(BITS) if rng is None else int(rng.integers(1 << BITS))
        ends: list[int] = np.cumsum(self.counts[row]).tolist()
        return bisect.bisect_right(ends, bits)


def _rounded(kernel: Any) -> Array:
    try:
        given = np.asarray(kernel)
    except ValueError:
        given = np.empty(0)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.size == 0:
        raise DesignError("the kernel of a randomizer must be a matrix of probabilities, a row for each value")
    P = np.array(given, dtype=float)
    if not np.isfinite(P).all() or (P < 0.0).any():
        raise DesignError("the kernel of a randomizer holds a number that is negative or not finite")
    total = P.sum(axis=1)
    if (abs(total - 1.0) > 1e-9).any():
        i = int(np.argmax(abs(total - 1.0)))
        raise DesignError(f"row {i} of the randomizer sums to {total[i]:.12g}; each row must sum to 1")
    kernels.whole(view(P.reshape(-1)), *P.shape)
    return P


@lru_cache
def _counted(size: int) -> tuple[int, ...]:
    return tuple(range(size))


def _names(what: str, names: Sequence[Any], size: int) -> tuple[Any, ...]:
    names = tuple(names)
    if len(names) != size:
        raise DesignError(f"{what} has {len(names)} entries and the kernel has {size}; they must agree")
    return names
