"""A causal design at work: the memory that a stream keeps for it, and the making of streams."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from understudy.errors import ConfigurationError, DesignError
from understudy.laws.base import Frozen
from understudy.models.base import Model
from understudy.randomizer.causal.beliefs import BeliefState
from understudy.randomizer.playing import Choices, begun_or_opened
from understudy.stream.charges import Clock
from understudy.stream.release import Release
from understudy.stream.stream import Stream
from understudy.transform.roundoff import Roundoff

if TYPE_CHECKING:
    from understudy.randomizer.causal.making import CausalDesign


class Told(NamedTuple):
    """What a stream remembers: the belief, and the nats that its draws have given away.

    It follows from the draws alone; its text tells how many there were.
    """

    state: BeliefState
    nats: float

    def __repr__(self) -> str:
        return f"Told(decisions={self.state.k})"


class CausalPolicy(Frozen):
    """What a stream asks of a causal design: see `understudy.stream.policy.Remembering`."""

    __slots__ = ("design",)

    def __init__(self, design: CausalDesign) -> None:
        self.design = design

    @property
    def fingerprint(self) -> str:
        """That of the design."""
        return self.design.fingerprint

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        return self.design.values

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values."""
        return self.design.pseudo

    def row(self, value: Any) -> int:
        """Where a value of the private parameter stands."""
        return self.design.row(value)

    def source(self, row: int) -> Model:
        """The model of a private value."""
        return self.design.family.model(self.design.values[row])

    def target(self, column: int) -> Model:
        """The model of a pseudo value."""
        return self.design.family.model(self.design.pseudo[column])

    @property
    def release(self) -> Release:
        """That of the design."""
        return self.design.release

    @property
    def floating(self) -> Roundoff | None:
        """That of the design."""
        return self.design.floating

    def residual_of_block(self, marginal: Any = None) -> None:
        """None: a causal design has exact models only."""

    def opening(self, tick: int) -> Told:
        """The prior, taken to this place in the cycle of transitions."""
        return Told(self.design.start(tick), 0.0)

    def passed(self, memory: Told, ticks: int) -> Told:
        """The belief moves with the parameter, whether a decision was made or not."""
        return Told(self.design.beliefs.passed(memory.state, ticks), memory.nats)

    def told(self, memory: Told, next_too: bool = False) -> float:
        """Nats so far, rounded up at each sum; with those of the next decision."""
        if not next_too:
            return memory.nats
        charge = self.design.next_charge(memory.state)
        return math.nextafter(memory.nats + charge, math.inf) if charge > 0.0 else memory.nats

    def choose(self, memory: Told, row: int, rng: Any = None) -> int:
        """A draw from the kernel of the belief."""
        return self.design.beliefs.draw(memory.state, row, rng).pseudo

    def quiet(self, memory: Told) -> int | None:
        """The column of least expected cost at the belief, if one is allowed to all values."""
        try:
            return self.design.beliefs.quiet(memory.state.belief)
        except DesignError:
            return None

    def after(self, memory: Told, column: int, quietly: bool) -> Told:
        """The belief after the draw, and after the step of the chain."""
        beliefs, state = self.design.beliefs, memory.state
        if quietly:
            return Told(beliefs.after(state, None, None), memory.nats)
        return Told(beliefs.after(state, beliefs.kernel(state.belief), column), self.told(memory, next_too=True))

    def estimator(self) -> Any:
        """The family's own Bayes filter, where the design accepts private values that are estimated."""
        if not self.design.estimated:
            return None
        from understudy.randomizer.estimating import Estimator

        return Estimator(self.design.family, self.design.beliefs.transitions, self.design.decision_every)


def causal_stream(design: CausalDesign, theta: Any, ledger: Any, choices: Choices) -> Stream:
    """Begin a stream, or go on with the one that the ledger has under this name; see `CausalDesign.stream`."""
    share, every = choices.share, choices.epoch
    if share == "independent":
        raise ConfigurationError(
            "share = 'independent'; the decisions of one stream cannot serve another, whose readings come at other "
            "times: sensors of one room belong into one joint model (channels of one stream)"
        )
    if design.estimated and theta is not None:
        raise ConfigurationError("this design estimates the private value from the readings; theta is not for it")
    try:
        clock = Clock.checked(design.decision_every if every is None else every)
    except ConfigurationError:
        raise ConfigurationError(
            f"every = {every!r}; it must be a positive timedelta (readings with times) or a number of readings"
        ) from None
    if design.estimated:
        clock["estimated"] = True
    return begun_or_opened(design, theta, ledger, choices, clock | {"remembers": True})
