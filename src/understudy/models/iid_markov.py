"""Independent readings (paper, Section IV-A) and Markovian readings (Section IV-B).

`IID`: every reading is a draw from one law. `Markov`: the law of the next reading depends on the last one alone, by a
function that the user gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from understudy._types import Frozen, Numbers, Plain
from understudy.errors import MissingReadingError, ModelError
from understudy.laws.law import Law, dimension, has_atoms, is_law
from understudy.serialize import Place, construct, fields, from_plain, to_plain


def law_dim(law: Law, what: str) -> int:
    """Dimension of a law; refuses what is not one."""
    if not is_law(law):
        raise ModelError(
            f"{what} is of type {type(law).__name__}; it must be a law, with score, value and logpdf "
            "(a frozen scipy.stats distribution becomes one with us.Scalar)"
        )
    return dimension(law)


class IID(Frozen):
    """Readings that are independent draws from one law.

    >>> import understudy as us
    >>> model = us.IID(us.Gaussian(5.0, 4.0))
    >>> float(us.whiten([7.0, 3.0], model)[0])
    1.0
    """

    __slots__ = ("dim", "law")

    def __init__(self, law: Law) -> None:
        self.dim = law_dim(law, "law")
        self.law = law

    def to_dict(self, place: Place) -> Plain:
        """The law; see `understudy.serialize`."""
        return {"law": to_plain(self.law, "law", place / "law")}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> IID:
        """The model again."""
        law = from_plain(fields(place, plain, "law")["law"], "law", place / "law")
        return construct(place, cls, law)

    def __repr__(self) -> str:
        return f"IID(dim={self.dim})"

    @property
    def atoms(self) -> bool:
        """Whether the law has atoms, so that scores need auxiliary uniforms."""
        return has_atoms(self.law)

    @property
    def innovations(self) -> tuple[None, Law]:
        """Readings are innovations."""
        return None, self.law

    def start(self) -> None:
        """There is nothing to remember."""
        return

    def predict(self, state: None) -> Law:
        """The law, always."""
        return self.law

    def update(self, state: None, y: Numbers) -> None:
        """A reading changes nothing."""
        return

    def skip(self, state: None) -> None:
        """A missing reading changes nothing."""
        return


class MarkovState(NamedTuple):
    """How many readings there were, the last one seen (None before the first), how many missing since."""

    k: int
    last: Numbers | None
    missing: int


class Markov(Frozen):
    """y_1 from `initial`, then y_k from ``transition(y_{k-1})``, or ``transition(y_{k-1}, k)``.

    `k` is the number of the reading whose law is asked for, so the first call has k = 2.

    The law of a reading that follows a gap is an integral that has no closed form in general.
    Where you know it, give ``gap(y_last, steps)``: the law of the reading `steps` >= 2 after
    `y_last` (None when no reading was seen yet); with a third argument it receives k. Without
    `gap`, a missing reading is refused.

    Readings on a grid: give `us.Atoms` for the initial law and for every transition.

    >>> import understudy as us
    >>> model = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0 + 0.1 * y * y))
    >>> us.whiten([0.0, 1.0], model).tolist()
    [0.0, 1.0]
    """

    __slots__ = ("_gap_takes_k", "_transition_takes_k", "dim", "gap", "initial", "transition")

    defers_gaps = True

    def __init__(
        self,
        initial: Law,
        transition: Callable[..., Law],
        gap: Callable[..., Law] | None = None,
    ) -> None:
        self.dim = law_dim(initial, "initial")
        self.initial = initial
        self.transition = transition
        self.gap = gap
        self._transition_takes_k = takes_k(transition, 1, "transition")
        self._gap_takes_k = gap is not None and takes_k(gap, 2, "gap")

    def __repr__(self) -> str:
        return f"Markov(dim={self.dim})"

    @property
    def atoms(self) -> bool:
        """Whether the initial law has atoms, and so all: transitions must be of the same kind."""
        return has_atoms(self.initial)

    def start(self) -> MarkovState:
        """No reading yet."""
        return MarkovState(0, None, 0)

    def predict(self, state: MarkovState) -> Law:
        """Initial law, transition, or the law across a gap."""
        k, last, missing = state
        clock = (k + 1,)
        if missing and self.gap is not None:
            return self.gap(last, missing + 1, *(clock if self._gap_takes_k else ()))
        if last is None:
            return self.initial
        return self.transition(last, *(clock if self._transition_takes_k else ()))

    def update(self, state: MarkovState, y: Numbers) -> MarkovState:
        """Only the last reading matters."""
        k, _, _ = state
        return MarkovState(k + 1, y, 0)

    def skip(self, state: MarkovState) -> MarkovState:
        """One more is missing; refused where no law across a gap is known."""
        k, last, missing = state
        if self.gap is None:
            raise MissingReadingError(
                f"reading number {k + 1} is missing, and this Markov model has no law across a gap; "
                "give Markov(..., gap=) or fill the gap before"
            )
        return MarkovState(k + 1, last, missing + 1)


def takes_k(function: Callable[..., Any], arguments: int, name: str) -> bool:
    """Whether `function` takes one more positional argument than `arguments`."""
    if not callable(function):
        raise ModelError(f"{name} is of type {type(function).__name__}; it must be a function")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return False  # a builtin without a signature takes no k
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > arguments or any(p.kind is p.VAR_POSITIONAL for p in parameters)
