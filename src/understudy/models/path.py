"""A parameter that moves: the model of y when theta follows a path (paper, first remark).

theta_k enters the step into x_k, the law of Y_k given the past; the predictor's state continues
through the switches. Members of the path must therefore share the kind and the size of their state.

Gauss-Markov members make one Gauss-Markov model, whose matrices change with the step, and rounded ones with
one grid the same model behind that grid. Hidden Markov members with as many hidden states make a `HiddenPath`, any
others a `Path`. Models that are approximate and models with an `emit` of their own are refused: what such
a path gives away is not known, and could not be charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import FamilyError, MissingReadingError, ModelError
from understudy.laws.base import Frozen, Law
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.matrices import PerStep


class Path(Frozen):
    """The model whose step k is that of ``members[k - 1]``; any model with the four methods.

    A missing reading is skipped by the member of its step. A member that only counts what is missing
    and gives the law across the whole gap afterwards (`Markov`, which says so by `defers_gaps`) knows
    nothing of the others, so with such members a gap across a switch is refused.
    """

    __slots__ = ("dim", "members", "steps")

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = tuple(members)
        self.dim = self.members[0].dim
        self.steps = len(self.members)

    def __repr__(self) -> str:
        return f"Path(steps={len(self.members)}, dim={self.dim})"

    @property
    def atoms(self) -> bool:
        """Whether a member has atoms, so that scores need auxiliary uniforms."""
        return any(getattr(member, "atoms", False) for member in self.members)

    # The state: readings so far, how many of the last are missing, the state of the members.

    def start(self) -> tuple[int, int, Any]:
        """Where the first member starts."""
        return 0, 0, self.members[0].start()

    def predict(self, state: tuple[int, int, Any]) -> Law:
        """Law under the member of this step."""
        return self._member(state).predict(state[2])

    def update(self, state: tuple[int, int, Any], y: Any) -> tuple[int, int, Any]:
        """Update under the member of this step."""
        return state[0] + 1, 0, self._member(state).update(state[2], y)

    def skip(self, state: tuple[int, int, Any]) -> tuple[int, int, Any]:
        """Skip under the member of this step."""
        return state[0] + 1, state[1] + 1, self._member(state).skip(state[2])

    def _member(self, state: tuple[int, int, Any]) -> Model:
        k, missing, _ = state
        if k >= len(self.members):
            raise ModelError(f"the path has {len(self.members)} steps; there is no step {k + 1}")
        member = self.members[k]
        gap = self.members[k - missing : k]
        if getattr(member, "defers_gaps", False) and any(other is not member for other in gap):
            raise MissingReadingError(
                f"readings before number {k + 1} are missing across a switch of the path, and no exact law is known"
            )
        return member


def along(members: Sequence[Model]) -> Model:
    """One model out of one member per step; see the module for which."""
    distinct = list({id(m): m for m in members}.values())
    first = distinct[0]
    for other in distinct[1:]:
        if type(other) is not type(first) or not same_state(first, other):
            raise FamilyError(
                f"the path switches between a {type(first).__name__} of {first.dim} channels and a "
                f"{type(other).__name__} of {other.dim}; members of a path must share type, channels and the "
                "dimension of their state (of a General model, the memory)"
            )
    from understudy.models.hidden_markov import HiddenMarkov
    from understudy.models.hidden_path import HiddenPath
    from understudy.models.quantised import Quantised

    if type(first) is Quantised:
        return _rounded(members)
    for attribute, why in (("residual", "are approximate"), ("emit", "feed back something else than they release")):
        if hasattr(first, attribute):
            raise FamilyError(
                f"the path is of {type(first).__name__} models, which {why}; members of a path must be exact models "
                "that go on from what they have read, or Quantised models with one grid"
            )
    if isinstance(first, HiddenMarkov):
        return HiddenPath(members)  # type: ignore[arg-type]  # all of one type
    linear = {id(m): m if isinstance(m, GaussMarkov) else getattr(m, "gauss_markov", None) for m in distinct}
    if all(isinstance(m, GaussMarkov) for m in linear.values()):
        return _switched([linear[id(m)] for m in members])  # type: ignore[misc]  # the line above says so
    return Path(members)


def _switched(members: Sequence[GaussMarkov]) -> GaussMarkov:
    systems = [m.at(k) for k, m in enumerate(members, start=1)]
    A, b, Q, C, d, R = (PerStep(matrices) for matrices in zip(*systems, strict=True))
    return GaussMarkov(A, C, Q, R, b, d, members[0].mean0, members[0].cov0)


def _rounded(members: Sequence[Any]) -> Model:
    """The switched model behind the grid that all members, of one type, share."""
    first = members[0]
    if any(m.grid.channels != first.grid.channels or m.given["method"] != first.given["method"] for m in members):
        raise FamilyError("the path is of Quantised models with several grids or methods; members must share both")
    behind = _switched([m.linear for m in members])
    return type(first)(behind, **first.grid.given, method=first.given["method"])  # type: ignore[no-any-return]  # a model


def same_state(one: Model, other: Model) -> bool:
    """Whether one model can go on from the state of the other."""
    # a past that is cut to the memory of one member is too short for another
    memory = getattr(one, "memory", None) == getattr(other, "memory", None)
    return memory and one.dim == other.dim and same_kind(one.start(), other.start())


def same_kind(one: Any, other: Any) -> bool:
    """Whether two states agree in types, lengths and shapes; their values do not count.

    >>> same_kind((0, (0.5, 0.5)), (7, (0.1, 0.9))), same_kind((), (0,))
    (True, False)
    """
    return bool(_shape(one) == _shape(other))


def _shape(state: Any) -> Any:
    """What must agree for a state to continue: types and shapes, not values."""
    if isinstance(state, (tuple, list)):
        return type(state), tuple(_shape(part) for part in state)
    return type(state), np.shape(state) if isinstance(state, np.ndarray) else None
