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

    Optional: ``emit(state, z) -> (state, y)``, for a model that must feed back something else than
    what it releases (a rounded sensor). Two attributes open faster paths, to the same answer:
    ``gauss_markov``, an equivalent `GaussMarkov` model or None, and ``innovations``, a pair of a
    `GaussMarkov` recursion with standard normal noise (None where readings do not depend on each
    other) and the law that its scores have in truth.
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


def is_model(thing: Any) -> bool:
    """Whether something has the four methods of a model, and a dimension."""
    return hasattr(thing, "dim") and all(
        callable(getattr(thing, name, None)) for name in ("start", "predict", "update", "skip")
    )
