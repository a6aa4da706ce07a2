"""Constraints on a randomizer beside its leakage: other measures, full support, and what people have to live with.

Each is a frozen value. `words` says it for the card, and `holds` checks a kernel in whole numbers: the entries of a
kernel are whole numbers of 2^-53, those of a prior are binary fractions, and an exponential is replaced by a
fraction that is below it by 1e-58 of itself (`Exact`, `exponential`). What holds, holds exactly.

    LocalDP(1.0)                no draw is more than e times likelier under one value than under another
    MaximalLeakage(0.3)         sum_j max_i P_ij <= e^0.3
    PointwiseLeakage(0.5)       max_i P_ij <= e^0.5 r_j for each draw j, r being the law of the draw
    TotalVariation(0.2)         no event is more than 0.2 likelier under one value than under another
    ErrorAtLeast(0.3)           every guess is wrong with this probability
    Floor(0.01)                 every pair is drawn at least so often: full support
    Forbidden([(0, 0.4)])       pairs of value and pseudo value that are never drawn
    Same([[0, 1]])              values whose rows coincide

The measures look at the values that can occur, as in `measures`; the last three are about every row. A new kind is a
class here with `words` and `kept`, an entry in `KINDS`, and its rows in `constrained_solver.write_program`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Json, Plain, Value
from understudy.errors import DesignError, StoredFileError
from understudy.randomizer.measures import check_kernel
from understudy.randomizer.solver import as_prior
from understudy.serialize import truth, value_from_plain, value_to_plain

# What every constraint is --------------------------------------------------------------------------


_DIGITS = Context(prec=60, Emax=999_999, Emin=-999_999)
_UNIT = 1 << 53
_FINEST = 1 << 1074  # every double is a whole number of its inverse


class Exact:
    """A prior and a kernel in whole numbers: `weights` and `rows` of all values, and `one`, what a row sums to."""

    __slots__ = ("columns", "kernel", "one", "rows", "there", "total", "weights")

    def __init__(self, prior: ArrayLike, kernel: ArrayLike) -> None:
        P = check_kernel(kernel)
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


_NESTED = {"pairs", "groups"}  # fields that hold values of a family, in tuples of tuples


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a randomizer has to keep; the kinds are below."""

    name: ClassVar[str] = ""
    measure: ClassVar[bool] = True  # whether it looks at the values that can occur only
    allowed: ClassVar[tuple[float, float, str]] = (-math.inf, math.inf, "")  # what its limit must be, and in words

    def __post_init__(self) -> None:
        name, (least, most, rule) = fields(self)[0].name, self.allowed
        given = getattr(self, name)
        ok = not isinstance(given, (bool, np.bool_)) and isinstance(given, (int, float, np.integer, np.floating))
        if not (ok and least <= given <= most):
            raise DesignError(f"{type(self).__name__}: {name} = {given!r}; it must be {rule}")
        object.__setattr__(self, name, float(given))

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return text.constraint_words(self.name, self.limit)

    @property
    def limit(self) -> float:
        """The number of a measure or of a floor."""
        return float(getattr(self, fields(self)[0].name))

    def holds(
        self,
        prior: ArrayLike,
        kernel: ArrayLike,
        values: Sequence[Value] | None = None,
        pseudo: Sequence[Value] | None = None,
    ) -> bool:
        """Whether a kernel keeps it, exactly; `values` and `pseudo` name rows and columns, numbers by default.

        >>> from understudy.randomizer.constraints import LocalDP
        >>> LocalDP(1.0).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
        False
        >>> LocalDP(1.1).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
        True
        """
        exact = Exact(prior, kernel)
        m, n = exact.kernel.shape
        placed = self.by_position(range(m) if values is None else values, range(n) if pseudo is None else pseudo)
        return placed.holds_exactly(exact)

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it, with a share of the limit to spare; rows and columns by position."""
        raise NotImplementedError  # each subclass has its own

    def to_dict(self) -> Plain:
        """The constraint as JSON can hold it.

        >>> Forbidden([(0, "door")]).to_dict()
        {'kind': 'forbidden', 'pairs': [[0, 'door']], 'positions': False}
        """
        plain: Plain = {"kind": self.name}
        for one in fields(self):
            given = getattr(self, one.name)
            nested = one.name in _NESTED
            plain[one.name] = [[value_to_plain(x) for x in group] for group in given] if nested else given
        return plain

    @staticmethod
    def from_dict(plain: Json) -> Constraint:
        """The constraint that `to_dict` wrote, of whatever kind.

        >>> Constraint.from_dict({"kind": "local_dp", "epsilon": 1.0})
        LocalDP(epsilon=1.0)
        """
        given: Plain = dict(plain) if type(plain) is dict else {}
        kind = STORED.get(str(given.pop("kind", None)))
        if kind is None or given.keys() != {one.name for one in fields(kind)}:
            raise StoredFileError("constraints holds one that is not known; a newer understudy may have written it")
        for name in _NESTED & given.keys():
            given[name] = tuple(tuple(value_from_plain(x) for x in group) for group in given[name])
        truth("positions", given.get("positions", False))
        return kind(**given)

    def by_position(self, values: Sequence[Value], pseudo: Sequence[Value]) -> Constraint:
        """The same with rows and columns by their positions; a `DesignError` where one is not there."""
        return self


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


def as_constraints(given: Constraint | Iterable[Constraint] | None) -> tuple[Constraint, ...]:
    """Constraints as a tuple: none, one, or several.

    >>> from understudy.randomizer.constraints import LocalDP
    >>> as_constraints(LocalDP(1.0)), as_constraints(None)
    ((LocalDP(epsilon=1.0),), ())
    """
    if given is None:
        return ()
    found = (given,) if isinstance(given, Constraint) else tuple(given) if isinstance(given, Iterable) else (given,)
    for one in found:
        if not isinstance(one, Constraint) or type(one) is Constraint:
            raise DesignError(f"constraints holds a {type(one).__name__}; it must hold constraints such as LocalDP(1)")
        if isinstance(one, Multiples):
            raise DesignError("Multiples was removed in 0.3; designs that were stored with it still load")
    return found


def position(what: str, wanted: Value, known: Sequence[Value], kind: str) -> int:
    """Where a value stands among those that are known."""
    for i, value in enumerate(known):
        if value is wanted or np.array_equal(value, wanted):  # type: ignore[arg-type]  # no error, whatever they are
            return i
    raise DesignError(f"{what}: {wanted!r} is no {kind} of the design")


# The kinds -----------------------------------------------------------------------------------------


# Beyond this an epsilon protects nobody, and its exponential is no number for a linear program.
LARGEST_EPSILON = 20.0


@dataclass(frozen=True, slots=True)
class LocalDP(Constraint):
    """Local differential privacy: P_ij <= e^epsilon P_kj for all values i, k and draws j.

    >>> LocalDP(1.0).words
    'Local differential privacy: no draw is more than 2.719 times (e^1) likelier under one value than under another.'
    """

    name: ClassVar[str] = "local_dp"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, LARGEST_EPSILON, f"a number between 0 and {LARGEST_EPSILON:g}")
    epsilon: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        E = exponential(self.epsilon, spare)
        return all(max(x) * E.denominator <= min(x) * E.numerator for x in exact.columns)


@dataclass(frozen=True, slots=True)
class MaximalLeakage(Constraint):
    """Maximal leakage: sum_j max_i P_ij <= e^nats (Issa, Wagner and Kamath, 2020).

    >>> MaximalLeakage(0.0).holds([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])
    True
    """

    name: ClassVar[str] = "maximal_leakage"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, 1e3, "a number of nats between 0 and 1000")
    nats: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return bool(sum(map(max, exact.columns)) <= exponential(self.nats, spare) * exact.one)


@dataclass(frozen=True, slots=True)
class PointwiseLeakage(Constraint):
    """Pointwise maximal leakage: max_i P_ij <= e^nats r_j for each draw j (Saeidian et al., 2023).

    >>> PointwiseLeakage(0.1).holds([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    False
    """

    name: ClassVar[str] = "pointwise_leakage"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, 1e3, "a number of nats between 0 and 1000")
    nats: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        E = exponential(self.nats, spare)
        w = [exact.weights[i] for i in exact.there]
        return all(
            max(x) * exact.total * E.denominator <= sum(map(int.__mul__, w, x)) * E.numerator for x in exact.columns
        )


@dataclass(frozen=True, slots=True)
class TotalVariation(Constraint):
    """Total variation between any two rows: sum_j (P_ij - P_kj)+ <= at_most.

    >>> TotalVariation(0.5).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
    True
    """

    name: ClassVar[str] = "total_variation"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, 1.0, "a number between 0 and 1")
    at_most: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        limit = Fraction(self.at_most) * (1 - spare) * exact.one
        P = exact.kernel[exact.there]
        for a, i in enumerate(exact.there):
            # to a rounding error in floats; in whole numbers only where that could decide
            apart = np.maximum(P[a] - P[a + 1 :], 0.0).sum(axis=1)
            if (apart > self.at_most + 1e-12).any():
                return False
            for b in np.flatnonzero(apart > self.at_most - 1e-9).tolist():
                pairs = zip(exact.rows[i], exact.rows[exact.there[a + 1 + b]], strict=True)
                if sum(x - y for x, y in pairs if x > y) > limit:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class ErrorAtLeast(Constraint):
    """Every guess is wrong with this probability: sum_j max_i p_i P_ij <= 1 - error.

    >>> ErrorAtLeast(0.25).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
    True
    """

    name: ClassVar[str] = "error_at_least"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, 1.0, "a probability")
    error: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        w = [exact.weights[i] for i in exact.there]
        right = sum(max(map(int.__mul__, w, x)) for x in exact.columns)
        return right <= (1 - Fraction(self.error)) * (1 - spare) * exact.total * exact.one


@dataclass(frozen=True, slots=True)
class Floor(Constraint):
    """Full support: every entry of the kernel is at least this.

    >>> Floor(0.01).holds([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    False
    """

    name: ClassVar[str] = "floor"
    allowed: ClassVar[tuple[float, float, str]] = (0.0, 1.0, "a probability")
    measure: ClassVar[bool] = False
    at_least: float

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return min(map(min, exact.rows)) >= Fraction(self.at_least) * exact.one


@dataclass(frozen=True, slots=True)
class Forbidden(Constraint):
    """Pairs of value and pseudo value that are never drawn; with `positions`, of row and column.

    An infinite cost forbids a pair too.

    >>> Forbidden([(0, 1)]).holds([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    True
    """

    name: ClassVar[str] = "forbidden"
    measure: ClassVar[bool] = False
    pairs: tuple[tuple[Any, Any], ...]
    positions: bool = False

    def __post_init__(self) -> None:
        try:
            pairs = tuple((value, drawn) for value, drawn in self.pairs)
        except (TypeError, ValueError):
            raise DesignError(
                f"Forbidden: pairs = {self.pairs!r}; pairs must be pairs of a value and a pseudo value"
            ) from None
        object.__setattr__(self, "pairs", pairs)

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return text.forbidden_words(self.pairs, self.positions)

    def by_position(self, values: Sequence[Value], pseudo: Sequence[Value]) -> Constraint:
        """By positions, checked."""
        rows, columns = (range(len(values)), range(len(pseudo))) if self.positions else (values, pseudo)
        found = tuple(
            (position("Forbidden", a, rows, "value"), position("Forbidden", b, columns, "pseudo value"))
            for a, b in self.pairs
        )
        return Forbidden(found, positions=True)

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return all(exact.rows[i][j] == 0 for i, j in self.pairs)


@dataclass(frozen=True, slots=True)
class Same(Constraint):
    """Groups of values whose rows coincide; with `positions`, of rows.

    >>> Same([[0, 1]]).holds([0.2, 0.3, 0.5], [[0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    True
    """

    name: ClassVar[str] = "same"
    measure: ClassVar[bool] = False
    groups: tuple[tuple[Any, ...], ...]
    positions: bool = False

    def __post_init__(self) -> None:
        given = self.groups
        try:
            if isinstance(given, (str, bytes)) or any(isinstance(g, (str, bytes)) for g in given):
                raise DesignError("Same: groups must be groups of values, not texts")
            groups = tuple(tuple(group) for group in given)
        except TypeError:
            raise DesignError(
                f"Same: groups = {given!r}; groups must be groups of values, as in [[0, 1], [2, 3]]"
            ) from None
        object.__setattr__(self, "groups", groups)

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return text.same_words(self.groups, self.positions)

    def by_position(self, values: Sequence[Value], pseudo: Sequence[Value]) -> Constraint:
        """By positions, checked."""
        rows: Sequence[Value] = range(len(values)) if self.positions else values
        return Same(tuple(tuple(position("Same", a, rows, "value") for a in g) for g in self.groups), positions=True)

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return all(exact.rows[i] == exact.rows[group[0]] for group in self.groups for i in group)


@dataclass(frozen=True, slots=True)
class Multiples(Constraint):
    """Probabilities that are multiples of 1/of: stored designs of 0.1 and 0.2 may have it; it cannot be asked for."""

    name: ClassVar[str] = "multiples"
    measure: ClassVar[bool] = False
    of: int

    def __post_init__(self) -> None:
        """As it was stored, a whole number."""

    def holds_exactly(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return all(x * self.of % exact.one == 0 for row in exact.rows for x in row)


KINDS: dict[str, type[Constraint]] = {
    kind.name: kind
    for kind in (
        LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation, ErrorAtLeast, Floor, Forbidden, Same,
    )
}  # fmt: skip
STORED: dict[str, type[Constraint]] = {**KINDS, Multiples.name: Multiples}
"""What a stored design may hold."""


def describe(constraint: Constraint) -> str:
    """A constraint as it was written, for messages.

    >>> describe(LocalDP(1.0)), describe(Same([[0, 1]]))
    ('LocalDP(1.0)', 'Same(((0, 1),))')
    """
    first = fields(constraint)[0].name
    return f"{type(constraint).__name__}({getattr(constraint, first)!r})"


# What a constraint costs: the distortion with it less the distortion without it, with proven bounds ---


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a constraint, in units of the distortion: proven to be between `at_least` and `at_most`.

    Where a distortion was asked for, it is the leakage that the constraint costs, in nats.
    """

    constraint: Constraint
    price: float
    at_least: float
    at_most: float

    def __repr__(self) -> str:
        return f"Price({describe(self.constraint)}, {self.price:.6g})"


# How messages name rows and columns ----------------------------------------------------------------


class Names(NamedTuple):
    """The values and the pseudo values of a problem; empty where it is a bare matrix."""

    values: tuple[Value, ...] = ()
    pseudo: tuple[Value, ...] = ()

    def row(self, i: int) -> str:
        """One row.

        >>> Names().row(2), Names(("home", "away"), (0, 1)).row(1)
        ('row 2', 'value away')
        """
        return f"value {text.label(self.values[i])}" if self.values else f"row {i}"

    def column(self, j: int) -> str:
        """One column."""
        return f"pseudo value {text.label(self.pseudo[j])}" if self.pseudo else f"column {j}"

    def rows(self, several: Sequence[int]) -> str:
        """Several rows, the first six by name.

        >>> Names().rows([0, 1, 2])
        'rows 0, 1 and 2'
        """
        if len(several) == 1:
            return self.row(several[0])
        told = [text.label(self.values[i]) if self.values else str(i) for i in several]
        *first, last = told if len(told) <= 6 else [*told[:6], f"{len(told) - 6} more"]
        return f"{'values' if self.values else 'rows'} {', '.join(first)} and {last}"

    @property
    def a_column(self) -> str:
        """What a column is called."""
        return "pseudo value" if self.pseudo else "column"
