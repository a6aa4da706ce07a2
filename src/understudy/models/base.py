"""What a model is: the law of a whole measurement sequence, as a causal recursion.

Sampling, likelihood, whitening, colouring and every check derive from the four methods below, so a
class of your own that has them works everywhere. States are values: `update` and `skip` return a
new one and leave the old one alone.

A reading of a model with ``dim == 1`` is a float; with ``dim > 1`` it is an array ``(dim,)``.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from understudy.laws.base import Law


@runtime_checkable
class Model(Protocol):
    """A causal recursion: the state before y_1, and what each reading does to it.

    A model may also have ``emit(state, z) -> (state, y)``, for one that must feed back something
    else than what it releases (a rounded sensor).
    """

    @property
    def dim(self) -> int:
        """Number of channels of a reading."""
        ...

    def start(self) -> Any:
        """State before y_1."""
        ...

    def predict(self, state: Any) -> Law:
        """Law of the next reading given the past."""
        ...

    def update(self, state: Any, y: Any) -> Any:
        """State after the reading `y`."""
        ...

    def skip(self, state: Any) -> Any:
        """State after a missing reading."""
        ...
