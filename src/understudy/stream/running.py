"""Readings on their way through a stream: filtered, charged and made ready to be recorded.

A `Run` works on copies. What it did becomes the stream's when the ledger has it, and never if it fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import BudgetError, LedgerError, MissingReadingError, RollbackError
from understudy.laws.base import Array
from understudy.stream.budgets import DRAW, LOST, RESIDUAL, Entry, micronats
from understudy.stream.charges import Clock, blocks_begun
from understudy.stream.ledger import Ledger
from understudy.stream.outputs import to_stored
from understudy.stream.policy import DESIGN_ODDS, Policy
from understudy.stream.rows import EpochRow, Position, StreamRow, checked_outputs
from understudy.stream.switching import continued
from understudy.stream.witness import Seen
from understudy.transform.filter import transformation
from understudy.transform.maps import CausalMap

_MAPS = 64
_CHUNK = 65_536


class Setup:
    """What a stream is made of, apart from where it stands."""

    def __init__(self, policy: Policy, row: StreamRow, ledger: Ledger | None, rng: np.random.Generator | None) -> None:
        self.policy, self.row, self.ledger, self.rng = policy, row, ledger, rng
        self.clock = Clock(row.options.get("epoch"))
        self.timed: bool | None = row.options.get("timed")  # None where the clock makes no epochs
        residual = policy.residual_of_block()
        self.block = 0 if residual is None else residual[1]
        self._maps: dict[tuple[int, int], CausalMap] = {}

    def mapping(self, source: int, column: int) -> CausalMap:
        """The filter from a private value to a pseudo value, by position."""
        found = self._maps.get((source, column))
        if found is None:
            policy = self.policy
            found = transformation(policy.source(source), policy.target(column), False, self.row.secret)
            if len(self._maps) >= _MAPS:
                self._maps.clear()
            self._maps[source, column] = found
        return found

    def per_block(self, marginal: Any) -> int:
        """What a block of readings gives away besides the draw, in micro-nats, at these odds."""
        residual = self.policy.residual_of_block(marginal)
        return 0 if residual is None else micronats(residual[0])

    def spent(self) -> BudgetError:
        """The error for a budget that does not allow what is asked."""
        return BudgetError(f"the budget of {self.row.room!r} is spent; nothing more is released")


class Live(NamedTuple):
    """A stream at one moment: its draw, where it stands, and the filter between the two values."""

    epoch: EpochRow
    at: Position
    map: CausalMap

    def __repr__(self) -> str:
        return f"Live({self.at.readings} readings)"


def first(setup: Setup, source: int) -> Live:
    """The first draw of a stream, charged at the odds of the design."""
    leader, cost = setup.row.options.get("draw_of"), 0
    if leader is not None and setup.ledger is not None:
        epoch = _led(setup.ledger, leader)._replace(source=source, held=False)
    else:
        cost = micronats(setup.policy.leakage_of_draw(DESIGN_ODDS))
        if setup.ledger is not None and not setup.ledger.charge(Entry(setup.row.id, setup.row.room, 0, DRAW, cost)):
            raise BudgetError(f"the budget of {setup.row.room!r} does not allow the draw; nothing is released")
        epoch = EpochRow(0, source, setup.policy.draw(source, setup.rng), False)
    made = setup.mapping(source, epoch.draw)
    per_block = setup.per_block(DESIGN_ODDS)
    at = Position(
        source=source, per_block=per_block, epoch=epoch.epoch, charged=cost, serial=1, state=made.start()
    )  # fmt: skip
    return Live(epoch, at, made)


class Run:
    """One batch, one reading or one change, within one transaction."""

    def __init__(self, setup: Setup, live: Live) -> None:
        self.setup, self.live = setup, live
        self.outputs: Iterable[tuple[int, int, Any, int]] = ()
        self.count = 0  # of outputs

    # Readings --------------------------------------------------------------------------------------------

    def batch(self, Y: Array, kind: str, numbers: list[int], source: int, done: int) -> Array:
        """Readings that have not been here, of a batch of which `done` have: filter them, epoch by epoch."""
        parts, at = [], 0
        while at < len(Y):
            self.turn(kind, numbers[at], source, done + at)
            stop = self.setup.clock.before(self.live.at.tick, numbers, at)
            state, out = self.live.map.apply(self.live.at.state, np.ascontiguousarray(Y[at:stop]))
            self._moved(state, stop - at, kind, numbers[stop - 1])
            parts.append(out)
            at = stop
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.outputs, self.count = to_stored(self.setup.row.id, numbers, whole), len(numbers)
        return whole

    def few(self, values: list[float], kind: str, numbers: list[int], source: int, done: int) -> list[float]:
        """The same for a few finite readings of one channel: one by one, which is then the quicker way."""
        outs: list[float] = []
        at = 0
        while at < len(values):
            self.turn(kind, numbers[at], source, done + at)
            stop = self.setup.clock.before(self.live.at.tick, numbers, at)
            step, state = self.live.map.step, self.live.at.state
            for y in values[at:stop]:
                state, out = step(state, y)
                outs.append(out)
            self._moved(state, stop - at, kind, numbers[stop - 1])
            at = stop
        stream = self.setup.row.id
        checks = checked_outputs(stream, numbers, outs)
        self.outputs, self.count = zip(repeat(stream), numbers, outs, checks), len(outs)
        return outs

    def _moved(self, state: Any, count: int, kind: str, last: int) -> None:
        live, at = self.live, self.live.at
        block, charged = at.block, at.charged
        if self.setup.block:
            begun, block = blocks_begun(block, count, self.setup.block)
            if not self._charge(RESIDUAL, begun * at.per_block):
                raise self.setup.spent()
            charged += begun * at.per_block
        after = Position(
            at.readings + count, last, kind, at.source, at.tick, block, at.per_block, at.stopped, at.epoch, charged,
            at.serial + 1, state,
        )  # fmt: skip
        self.live = Live(live.epoch, after, live.map)

    def _charge(self, kind: str, cost: int, epoch: int | None = None, forced: bool = False) -> bool:
        ledger, row = self.setup.ledger, self.setup.row
        if ledger is None or (cost == 0 and kind != DRAW):
            return True
        return ledger.charge(
            Entry(row.id, row.room, self.live.at.epoch if epoch is None else epoch, kind, cost), forced
        )

    # Epochs and values -----------------------------------------------------------------------------------

    def turn(self, kind: str, number: int, source: int, position: int) -> None:
        """A new epoch if the clock says so, or another private value within the epoch."""
        at = self.live.at
        if self.setup.clock.length is not None:
            tick = self.setup.clock.tick(number)
            if tick != at.tick:
                begun = at.tick is not None or at.readings > 0
                self._at(tick=tick)
                if begun:
                    if not self.next_epoch(source, None):
                        raise BudgetError(
                            f"the budget of {self.setup.row.room!r} is spent, and reading {position} begins an epoch "
                            "that needs a new draw; nothing of this call is released (readings before it can be given "
                            "alone)"
                        )
                    return
        if at.stopped:
            raise self.setup.spent()
        if source != at.source:
            self.switch(source)

    def switch(self, source: int) -> None:
        """Another private value, the same pseudo value."""
        live = self.live
        made = self.setup.mapping(source, live.epoch.draw)
        state = _carried(live, made)
        self.live = Live(live.epoch, live.at._replace(source=source, state=state, serial=live.at.serial + 1), made)

    def stop(self) -> bool:
        """Nothing more until an epoch begins; False, so that a draw is tried *or* the stream stops."""
        self._at(stopped=1, serial=self.live.at.serial + 1)
        return False

    def next_epoch(self, source: int, marginal: Any) -> bool:
        """Draw again and charge it; False if the budget does not allow it and says to stop."""
        setup, live, at = self.setup, self.live, self.live.at
        setup.mapping(source, live.epoch.draw)  # a value without a model is refused before a draw
        leader, number, cost = setup.row.options.get("draw_of"), at.epoch + 1, 0
        if leader is not None and setup.ledger is not None:
            epoch = _led(setup.ledger, leader, after=at.epoch)._replace(source=source, held=False)
        else:
            cost = micronats(setup.policy.leakage_of_draw(marginal))
            if self._charge(DRAW, cost, number):
                epoch = EpochRow(number, source, setup.policy.draw(source, setup.rng), False)
            elif setup.ledger is not None and setup.ledger.holds(setup.row.room):
                epoch, cost = EpochRow(number, source, live.epoch.draw, True), 0
            else:
                return False
        made = setup.mapping(source, epoch.draw)
        at = at._replace(
            source=source, block=0, per_block=setup.per_block(marginal), stopped=0, epoch=epoch.epoch,
            charged=at.charged + cost, serial=at.serial + 1, state=_carried(live, made),
        )  # fmt: skip
        if setup.ledger is not None:
            setup.ledger.add_epoch(setup.row.id, epoch)
        self.live = Live(epoch, at, made)
        return True

    def after_rollback(self, seen: Seen, source: int) -> None:
        """Go on from a position that is older than what was released: what is lost counts as missing, and is charged.

        What was charged since is booked again, and a new draw is made. Keys that were used are not used again.
        """
        live, at = self.live, self.live.at
        lost = max(0, seen.charged - at.charged)
        self._charge(LOST, lost, forced=True)
        state, gap = at.state, max(0, seen.readings - at.readings)
        try:
            for done in range(0, gap, _CHUNK):
                state, _ = live.map.apply(state, np.full((min(_CHUNK, gap - done), live.map.dim), np.nan))
        except MissingReadingError:
            raise RollbackError(
                f"the ledger has lost {gap} readings that were released, and the models have no exact law across "
                "missing ones; begin a stream of another name"
            ) from None
        last = at.last if seen.last is None else seen.last
        tick = None if last is None else self.setup.clock.tick(last)
        self._at(
            state=state, readings=max(at.readings, seen.readings), last=last, kind=seen.kind or at.kind, tick=tick,
            charged=at.charged + lost, serial=max(at.serial, seen.serial),
        )  # fmt: skip
        if not self.next_epoch(source, None):
            raise self.setup.spent()

    def _at(self, **changes: Any) -> None:
        self.live = self.live._replace(at=self.live.at._replace(**changes))


def _carried(live: Live, made: CausalMap) -> Any:
    """The state as another filter goes on from it; before the first reading there is nothing to go on from."""
    return continued(live.map, made, live.at.state) if live.at.readings else made.start()


def _led(ledger: Ledger, leader: str, after: int | None = None) -> EpochRow:
    """The draw of the stream that leads a room: its last one, or the next one after a number."""
    other = ledger.stream(leader)
    if other is None:
        raise LedgerError(f"the ledger has no stream of the name {leader!r} to share a draw with")
    found = ledger.epoch(other.id, after)
    if after is not None and found.epoch <= after:
        raise LedgerError(f"the stream {leader!r}, whose draw is shared, has not begun this epoch; it goes first")
    return found
