"""Constraints on a randomizer beside its leakage: other measures, full support, and what people have to live with.

Each is a frozen value. `words` says it for the card, and `holds` checks a kernel in whole numbers: the entries of a
kernel are whole numbers of 2^-53, those of a prior are binary fractions, and an exponential is replaced by a
fraction that is below it by 1e-58 of itself. What holds, holds exactly.

    LocalDP(1.0)                no draw is more than e times likelier under one value than under another
    MaximalLeakage(0.3)         sum_j max_i P_ij <= e^0.3
    PointwiseLeakage(0.5)       max_i P_ij <= e^0.5 r_j for each draw j, r being the law of the draw
    TotalVariation(0.2)         no event is more than 0.2 likelier under one value than under another
    ErrorAtLeast(0.3)           every guess is wrong with this probability
    Floor(0.01)                 every pair is drawn at least so often: full support
    Forbidden([(0, 0.4)])       pairs of value and pseudo value that are never drawn
    Same([[0, 1]])              values whose rows coincide
    Multiples(256)              probabilities are multiples of 1/256

The measures look at the values that can occur, as in `measures`; the last four are about every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from understudy.errors import DesignError
from understudy.randomizer import card
from understudy.randomizer.constrained.base import Constraint, Exact, check, exponential, position

# Beyond this an epsilon protects nobody, and its exponential is no number for a linear program.
LARGEST_EPSILON = 20.0


@dataclass(frozen=True, slots=True)
class LocalDP(Constraint):
    """Local differential privacy: P_ij <= e^epsilon P_kj for all values i, k and draws j.

    >>> LocalDP(1.0).words
    'Local differential privacy: no draw is more than 2.719 times (e^1) likelier under one value than under another.'
    """

    name: ClassVar[str] = "local_dp"
    epsilon: float

    def __post_init__(self) -> None:
        check(self, "epsilon", 0.0, LARGEST_EPSILON, f"a number between 0 and {LARGEST_EPSILON:g}")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return (
            f"Local differential privacy: no draw is more than {card.factor(self.epsilon)} times "
            f"(e^{self.epsilon:.6g}) likelier under one value than under another."
        )

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
    nats: float

    def __post_init__(self) -> None:
        check(self, "nats", 0.0, 1e3, "a number of nats between 0 and 1000")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return (
            f"Maximal leakage of at most {self.nats:.6g} nats: whatever the odds, the chance to guess right any fact "
            f"about the value is multiplied by at most {card.factor(self.nats)}."
        )

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return bool(sum(map(max, exact.columns)) <= exponential(self.nats, spare) * exact.one)


@dataclass(frozen=True, slots=True)
class PointwiseLeakage(Constraint):
    """Pointwise maximal leakage: max_i P_ij <= e^nats r_j for each draw j (Saeidian et al., 2023).

    >>> PointwiseLeakage(0.1).holds([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    False
    """

    name: ClassVar[str] = "pointwise_leakage"
    nats: float

    def __post_init__(self) -> None:
        check(self, "nats", 0.0, 1e3, "a number of nats between 0 and 1000")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return (
            f"Pointwise leakage of at most {self.nats:.6g} nats: at the stated odds, no draw multiplies the chance to "
            f"guess right any fact about the value by more than {card.factor(self.nats)}."
        )

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
    at_most: float

    def __post_init__(self) -> None:
        check(self, "at_most", 0.0, 1.0, "a number between 0 and 1")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return (
            f"Total variation of at most {self.at_most:.6g} between any two values: nothing that is seen is likelier "
            "under one than under another by more."
        )

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
    error: float

    def __post_init__(self) -> None:
        check(self, "error", 0.0, 1.0, "a probability")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return f"At the stated odds every guess is wrong with probability {self.error:.6g} or more."

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
    measure: ClassVar[bool] = False
    at_least: float

    def __post_init__(self) -> None:
        check(self, "at_least", 0.0, 1.0, "a probability")

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        return f"Every value draws every pseudo value with probability {self.at_least:.6g} or more."

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
        if not self.pairs:
            return "No pair of value and pseudo value is ruled out."
        shown = [f"{card.label(value)} as {card.label(drawn)}" for value, drawn in self.pairs[:6]]
        more = f" and {len(self.pairs) - 6} more pairs" if len(self.pairs) > 6 else ""
        by = " (row and column)" if self.positions else ""
        return f"Never played{by}: {', '.join(shown)}{more}."

    def placed(self, values: Sequence[Any], pseudo: Sequence[Any]) -> Constraint:
        """By positions, checked."""
        rows, columns = (range(len(values)), range(len(pseudo))) if self.positions else (values, pseudo)
        found = tuple(
            (position("Forbidden", a, rows, "value"), position("Forbidden", b, columns, "pseudo value"))
            for a, b in self.pairs
        )
        return Forbidden(found, positions=True)

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
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
        shown = "; ".join(", ".join(card.label(value) for value in g) for g in self.groups if len(g) > 1)
        by = " (by row)" if self.positions else ""
        return (
            f"Treated alike{by}, so that nothing tells them apart: {shown}." if shown else "No two values are grouped."
        )

    def placed(self, values: Sequence[Any], pseudo: Sequence[Any]) -> Constraint:
        """By positions, checked."""
        rows: Sequence[Any] = range(len(values)) if self.positions else values
        return Same(tuple(tuple(position("Same", a, rows, "value") for a in g) for g in self.groups), positions=True)

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return all(exact.rows[i] == exact.rows[group[0]] for group in self.groups for i in group)


@dataclass(frozen=True, slots=True)
class Multiples(Constraint):
    """Probabilities that are multiples of 1/of, a power of two: a draw takes so few random bits.

    >>> Multiples(4).holds([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
    True
    """

    name: ClassVar[str] = "multiples"
    measure: ClassVar[bool] = False
    of: int = 256

    def __post_init__(self) -> None:
        of = self.of
        whole = not isinstance(of, bool) and isinstance(of, (int, np.integer))
        if not whole or not 1 <= of <= 1 << 30 or of & (of - 1):
            raise DesignError(f"Multiples: of = {of!r}; it must be a power of two, at most 2^30")
        object.__setattr__(self, "of", int(of))

    @property
    def words(self) -> str:
        """The constraint as a sentence."""
        bits = self.of.bit_length() - 1
        return f"Every probability is a multiple of 1/{self.of}: a draw takes {bits} random bit{'s' * (bits != 1)}."

    def kept(self, exact: Exact, spare: Fraction = Fraction(0)) -> bool:
        """Whether a kernel keeps it."""
        return all(x * self.of % exact.one == 0 for row in exact.rows for x in row)


KINDS: dict[str, type[Constraint]] = {
    kind.name: kind
    for kind in (
        LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation, ErrorAtLeast, Floor, Forbidden, Same, Multiples,
    )
}  # fmt: skip


def shown(constraint: Constraint) -> str:
    """A constraint as it was written, for messages.

    >>> shown(LocalDP(1.0)), shown(Same([[0, 1]]))
    ('LocalDP(1.0)', 'Same(((0, 1),))')
    """
    first = fields(constraint)[0].name
    return f"{type(constraint).__name__}({getattr(constraint, first)!r})"
