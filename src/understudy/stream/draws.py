"""How a pseudo value is come by: a new draw for an epoch, a decision with memory, or the draw of another stream.

Each way says what it costs, asks whether the budget allows it, and only then looks at the private value. On a replay
the draws are those that were recorded, and nothing is charged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from understudy.errors import BudgetError, ConfigurationError, LedgerError
from understudy.stream.budgets import DECISION, DRAW, micronats
from understudy.stream.ledger import Ledger
from understudy.stream.policy import DESIGN_ODDS
from understudy.stream.rows import EpochRow, Position
from understudy.stream.setup import Setup

Charge = Callable[[str, int, int], bool]  # kind, micro-nats, epoch: whether the budget allows it


class Taken(NamedTuple):
    """A draw: its epoch, what it cost in micro-nats, and the memory of the policy after it."""

    epoch: EpochRow
    cost: int
    memory: Any = None

    def __repr__(self) -> str:
        return f"Taken({self.epoch.epoch})"


def first_draw(setup: Setup, source: int, charge: Charge) -> Taken:
    """The draw that a stream begins with, charged at the odds of the design.

    A policy with memory decides at the first reading, whose time it must know. Until then a value is set down that
    nothing is read under, and that says nothing.
    """
    policy = setup.policy
    if setup.remembering is not None:
        setup.check_changes()
        return Taken(EpochRow(0, max(source, 0), 0, True), 0)
    leader = setup.row.options.get("draw_of")
    if leader is not None and setup.ledger is not None:
        return Taken(_led(setup.ledger, leader)._replace(source=source, held=False), 0)
    cost = micronats(policy.leakage_of_draw(DESIGN_ODDS))
    if not charge(DRAW, cost, 0):
        raise BudgetError(f"the budget of {setup.row.room!r} does not allow the draw; nothing is released")
    return Taken(EpochRow(0, source, policy.draw(source, setup.coins(0, 0)), False), cost)


def next_draw(
    setup: Setup, at: Position, held: int, source: int, marginal: Any, charge: Charge, recorded: EpochRow | None
) -> Taken | None:
    """The draw of a new epoch; None if the budget does not allow it and says to stop.

    `held` is the pseudo value until now, which stays where the budget says to hold.
    """
    policy, number = setup.policy, at.epoch + 1
    leader = setup.row.options.get("draw_of")
    if leader is not None and setup.ledger is not None:
        epoch = recorded or _led(setup.ledger, leader, after=at.epoch)._replace(source=source, held=False)
        return Taken(epoch, 0)
    cost = micronats(policy.leakage_of_draw(marginal))
    if recorded is not None:
        return Taken(recorded, 0 if recorded.held else cost)
    if charge(DRAW, cost, number):
        return Taken(EpochRow(number, source, policy.draw(source, setup.coins(number, at.readings)), False), cost)
    if _holds(setup):
        return Taken(EpochRow(number, source, held, True), 0)
    return None


def next_decision(
    setup: Setup, at: Position, tick: int, source: int, charge: Charge, recorded: EpochRow | None
) -> Taken | None:
    """A decision of a policy with memory, at this number of the clock; None if the budget says to stop.

    What it will give away follows from the draws before it, and so does whether the budget allows it. Where it does
    not and the room holds, the decision is made without a look at the private value.
    """
    policy, number = setup.remembering, at.epoch + 1
    if policy is None:
        raise ConfigurationError("this policy has no memory")
    if at.memory is None or at.tick is None:
        memory = policy.opening(tick)
    else:
        memory = policy.passed(at.memory, tick - at.tick - 1)
    cost = micronats(policy.told(memory, next_too=True)) - micronats(policy.told(memory))
    if recorded is not None:
        epoch = recorded
    elif charge(DECISION, cost, number):
        epoch = EpochRow(number, source, policy.choose(memory, source, setup.coins(number, at.readings)), False)
    elif _holds(setup) and (column := policy.quiet(memory)) is not None:
        epoch = EpochRow(number, source, column, True)
    else:
        return None
    return Taken(epoch, 0 if epoch.held else cost, policy.after(memory, epoch.draw, epoch.held))


def _holds(setup: Setup) -> bool:
    return setup.ledger is not None and setup.ledger.holds(setup.row.room)


def _led(ledger: Ledger, leader: str, after: int | None = None) -> EpochRow:
    """The draw of the stream that leads a room: its last one, or the next one after a number."""
    other = ledger.stream(leader)
    if other is None:
        raise LedgerError(f"the ledger has no stream of the name {leader!r} to share a draw with")
    found = ledger.epoch(other.id, after)
    if after is not None and found.epoch <= after:
        raise LedgerError(f"the stream {leader!r}, whose draw is shared, has not begun this epoch; it goes first")
    return found
