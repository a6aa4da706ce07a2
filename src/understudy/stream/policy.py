"""What a stream needs of a design, and nothing more."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from understudy.models.model import Model
from understudy.stream.release import Release
from understudy.transform.roundoff import Roundoff

DESIGN_ODDS = "design"


class Cast(Protocol):
    """Who may be played, and by whom."""

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

    def source(self, row: int) -> Model:
        """The model of a private value."""
        ...

    def target(self, column: int) -> Model:
        """The model of a pseudo value."""
        ...

    @property
    def release(self) -> Release:
        """The lattice on which readings leave, and what may come in."""
        ...

    @property
    def floating(self) -> Roundoff | None:
        """What rounding leaves of the private value in outputs on the lattice; None where it leaves nothing."""
        ...

    def residual_of_block(self, marginal: Any = DESIGN_ODDS) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings at these odds, if any are approximate."""
        ...


@runtime_checkable
class Policy(Cast, Protocol):
    """Who plays whom, with what probability, and what it costs: a new draw for each epoch. `Design` is one."""

    def draw(self, row: int, rng: Any = None) -> int:
        """Which pseudo value plays the private one of this row; `rng` gives the bits, one call of `integers`."""
        ...

    def leakage_of_draw(self, marginal: Any = None) -> float:
        """Nats that one draw gives away at these odds; at the worst ones when they are unknown."""
        ...


@runtime_checkable
class Remembering(Cast, Protocol):
    """A policy with a memory of its own draws, for a parameter that moves. `CausalDesign` is one.

    The memory is a plain value that follows from the draws alone; the stream keeps it.
    """

    def opening(self, tick: int) -> Any:
        """The memory before the first decision, at this number of the clock."""
        ...

    def passed(self, memory: Any, ticks: int) -> Any:
        """The memory after so many decisions that were not made, for no reading came."""
        ...

    def told(self, memory: Any, next_too: bool = False) -> float:
        """Nats that all draws so far give away; with the next one, which is known before it is made."""
        ...

    def choose(self, memory: Any, row: int, rng: Any = None) -> int:
        """Which pseudo value plays the private one of this row until the next decision; `rng` gives the bits."""
        ...

    def quiet(self, memory: Any) -> int | None:
        """The pseudo value for a decision that must give nothing away; None where each gives something away."""
        ...

    def after(self, memory: Any, column: int, quietly: bool) -> Any:
        """The memory after this pseudo value was drawn, or was taken quietly."""
        ...

    def estimator(self) -> Any:
        """What guesses the private value from the readings; None where it is given, as it must be for a guarantee."""
        ...


def as_policy(design: Any) -> Any:
    """What a stream plays by: the design itself, or the policy that it says stands for it."""
    return getattr(design, "policy", design)
