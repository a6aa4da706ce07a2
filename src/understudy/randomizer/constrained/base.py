"""What every constraint on a randomizer is, and a kernel in whole numbers to check it with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.measures import checked_kernel
from understudy.randomizer.problem import as_prior

_DIGITS = Context(prec=60, Emax=999_999, Emin=-999_999)
_UNIT = 1 << 53
_FINEST = 1 << 1074  # every double is a whole number of its inverse


class Exact:
    """A prior and a kernel in whole numbers: `weights` and `rows` of all values, and `one`, what a row sums to."""

    __slots__ = ("columns", "kernel", "one", "rows", "there", "total", "weights")

    def __init__(self, prior: Any, kernel: Any) -> None:
        P = checked_kernel(kernel)
        parts = [Fraction(x) for x in as_prior(prior, len(P)).tolist()]
        common = math.lcm(*(x.denominator for x in parts))
        self.weights = [int(x * common) for x in parts]
        self.total = sum(self.weights)
        self.there = [i for i, w in enumerate(self.weights) if w]
        self._of(P)

    def _of(self, P: Array) -> None:
        counts = P * float(_UNIT)
        self.one = _UNIT if (counts == np.floor(counts)).all() else _FINEST
        self.rows: list[list[int]] = (
            counts.astype(np.int64).tolist()
            if self.one == _UNIT
            else [[int(Fraction(x) * _FINEST) for x in row] for row in P.tolist()]
        )
        self.kernel: Array = P
        # of the values that can occur
        self.columns = list(zip(*(self.rows[i] for i in self.there), strict=True))

    def of(self, P: Array) -> Exact:
        """Another kernel with the same prior."""
        other = Exact.__new__(Exact)
        other.weights, other.total, other.there = self.weights, self.total, self.there
        other._of(P)
        return other


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a randomizer has to keep; the kinds are below."""

    name: ClassVar[str] = ""
    measure: ClassVar[bool] = True  # whether it looks at the values that can occur only

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        raise NotImplementedError

    def holds(self, prior: Any, kernel: Any, values: Any = None, pseudo: Any = None) -> bool:
        """Whether a kernel keeps it, exactly; `values` and `pseudo` name rows and columns, numbers by default.

        >>> from understudy.randomizer.constrained.constraints import LocalDP
        >>> LocalDP(1.0).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
        False
        >>> LocalDP(1.1).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
        True
        """
        exact = Exact(prior, kernel)
        m, n = exact.kernel.shape
        placed = self.placed(range(m) if values is None else values, range(n) if pseudo is None else pseudo)
        return placed.kept(exact)

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it, with a share of the limit to spare; rows and columns by position."""
        raise NotImplementedError

    def placed(self, values: Sequence[Any], pseudo: Sequence[Any]) -> Constraint:
        """The same with rows and columns by their positions; a `DesignError` where one is not there."""
        return self


def check(what: Constraint, name: str, least: float, most: float, rule: str) -> None:
    """Make a field of a constraint a float, if it is a number between two others."""
    given = getattr(what, name)
    ok = not isinstance(given, (bool, np.bool_)) and isinstance(given, (int, float, np.integer, np.floating))
    if not (ok and least <= given <= most):
        raise DesignError(f"{type(what).__name__}: {name} = {given!r}; it must be {rule}")
    object.__setattr__(what, name, float(given))


@lru_cache(maxsize=256)
def exponential(nats: float, spare: Fraction = Fraction(0)) -> Fraction:
    """A fraction just below e^nats, less a share to spare where there is room.

    >>> float(exponential(0.0)), float(exponential(1.0))
    (1.0, 2.718281828459045)
    """
    if nats == 0.0:
        return Fraction(1)
    below = Fraction(_DIGITS.exp(Decimal(nats))) * (1 - Fraction(1, 10**58))
    return max(Fraction(1), below * (1 - spare))


def as_constraints(given: Any) -> tuple[Constraint, ...]:
    """Constraints as a tuple: none, one, or several.

    >>> from understudy.randomizer.constrained.constraints import LocalDP
    >>> as_constraints(LocalDP(1.0)), as_constraints(None)
    ((LocalDP(epsilon=1.0),), ())
    """
    if given is None:
        return ()
    found = (given,) if isinstance(given, Constraint) else tuple(given) if isinstance(given, Iterable) else (given,)
    for one in found:
        if not isinstance(one, Constraint) or type(one) is Constraint:
            raise DesignError(f"constraints holds a {type(one).__name__}; it must hold constraints such as LocalDP(1)")
    return found


def position(what: str, wanted: Any, known: Sequence[Any], kind: str) -> int:
    """Where a value stands among those that are known."""
    for i, value in enumerate(known):
        if value is wanted or np.array_equal(value, wanted):
            return i
    raise DesignError(f"{what}: {wanted!r} is no {kind} of the design")
