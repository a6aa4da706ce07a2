"""What a stream needs of a design, and nothing more: which models, which draws, and what they cost.

Two kinds of policy exist. A `Policy` draws anew for each epoch. A `CausalPolicy` decides by a clock, with a memory of
its own draws, for a parameter that moves. Both know the models of all values (`PolicyModels`) and the lattice on which
readings leave.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

from understudy._types import Array, Value
from understudy.models.model import Model
from understudy.stream.release import Release
from understudy.transform.roundoff import Roundoff

CAUSAL = "causal"
"""The kind of a design that decides by its clock, with a memory."""
DESIGN_PRIOR = "design"
"""In place of probabilities: those of the design."""
Memory: TypeAlias = tuple[Any, ...]
"""What a policy or an estimator remembers: a plain value, which the stream keeps."""


class RandomBits(Protocol):
    """A source of random whole numbers, such as a numpy Generator."""

    def integers(self, high: int) -> int:
        """A whole number from 0 to below `high`."""
        ...


class StreamDesign(Protocol):
    """A design that streams are begun with: a `CausalPolicy` where its kind is `CAUSAL`, otherwise a `Policy`."""

    @property
    def kind(self) -> str:
        """Which kind of design it is."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells one design from another; says nothing about the private parameter."""
        ...


class PolicyModels(Protocol):
    """The private and the pseudo values, and their models."""

    @property
    def fingerprint(self) -> str:
        """Tells one policy from another; says nothing about the private parameter."""
        ...

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the private parameter."""
        ...

    @property
    def pseudo(self) -> tuple[Value, ...]:
        """The pseudo values."""
        ...

    def row(self, value: Value) -> int:
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

    def residual_of_block(self, marginal: ArrayLike | None = DESIGN_PRIOR) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings, and their number; None for exact models."""
        ...


class Policy(PolicyModels, Protocol):
    """A new draw for each epoch: with which probabilities, and at which cost. `Design` is one."""

    def draw(self, row: int, rng: RandomBits | None = None) -> int:
        """Which pseudo value plays the private one of this row; `rng` gives the bits, one call of `integers`."""
        ...

    def leakage_of_draw(self, marginal: ArrayLike | None = None) -> float:
        """Nats that one draw gives away at these probabilities; at the worst ones when they are unknown."""
        ...


class CausalPolicy(PolicyModels, Protocol):
    """A policy with a memory of its own draws, for a parameter that moves. `CausalDesign` is one.

    The memory is a plain value that follows from the draws alone; the stream keeps it.
    """

    def opening(self, tick: int) -> Memory:
        """The memory before the first decision, at this number of the clock."""
        ...

    def advance(self, memory: Memory, ticks: int) -> Memory:
        """The memory after so many decisions that were not made, for no reading came."""
        ...

    def path_leakage(self, memory: Memory, next_too: bool = False) -> float:
        """Nats that all draws so far give away; with the next one, which is known before it is made."""
        ...

    def choose(self, memory: Memory, row: int, rng: RandomBits | None = None) -> int:
        """Which pseudo value plays the private one of this row until the next decision; `rng` gives the bits."""
        ...

    def quiet(self, memory: Memory) -> int | None:
        """The pseudo value for a decision that must give nothing away; None where each gives something away."""
        ...

    def after(self, memory: Memory, column: int, quietly: bool) -> Memory:
        """The memory after this pseudo value was drawn, or was taken quietly."""
        ...

    def estimator(self) -> Estimator | None:
        """What estimates the private value from the readings; None where it is given, as it must be for a guarantee."""
        ...


class Estimator(Protocol):
    """Estimates the private value from the readings, one after the other."""

    def start(self, tick: int) -> Memory:
        """The state before the first reading, at this number of the clock."""
        ...

    def step(self, state: Memory, y: Array, moves: int) -> tuple[Memory, int]:
        """The state after the reading `y` (d,), so many ticks after the last one; and the value, by position."""
        ...


def as_policy(design: StreamDesign) -> tuple[PolicyModels, Policy | None, CausalPolicy | None]:
    """What a stream plays by, which is the design itself: its models, and which kind of policy it is."""
    policy: Any = design
    return (policy, None, policy) if design.kind == CAUSAL else (policy, policy, None)
