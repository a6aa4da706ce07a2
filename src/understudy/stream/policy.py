"""What a stream needs of a design, and nothing more."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from understudy.models.base import Model

DESIGN_ODDS = "design"


@runtime_checkable
class Policy(Protocol):
    """Who plays whom, with what probability, and what it costs. `Design` is one."""

    @property
    def fingerprint(self) -> str:
        """Tells one policy from another; says nothing about the private parameter."""
        ...

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        ...

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values."""
        ...

    def row(self, value: Any) -> int:
        """Where a value of the private parameter stands."""
        ...

    def draw(self, row: int, rng: np.random.Generator | None = None) -> int:
        """Which pseudo value plays the private one of this row: drawn from the operating system's random source."""
        ...

    def source(self, row: int) -> Model:
        """The model of a private value."""
        ...

    def target(self, column: int) -> Model:
        """The model of a pseudo value."""
        ...

    def leakage_of_draw(self, marginal: Any = None) -> float:
        """Nats that one draw gives away at these odds; at the worst ones when they are unknown."""
        ...

    def residual_of_block(self, marginal: Any = DESIGN_ODDS) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings at these odds, if any are approximate."""
        ...
