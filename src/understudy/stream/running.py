"""Readings on their way through a stream: filtered, charged and made ready to be recorded.

A `Run` works on copies. What it did becomes the stream's when the ledger has it, and never if it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import BudgetError, ConfigurationError, MissingReadingError, ReadingError, RollbackError
from understudy.laws.base import Array
from understudy.stream.budgets import DRAW, LOST, RESIDUAL, Entry
from understudy.stream.cadence import LONGEST_GAP, Cadence, Places
from understudy.stream.charges import blocks_begun
from understudy.stream.draws import Taken, first_draw, next_decision, next_draw
from understudy.stream.keys import TIME
from understudy.stream.outputs import to_stored
from understudy.stream.policy import DESIGN_ODDS
from understudy.stream.rows import EpochRow, Position, checked_outputs
from understudy.stream.setup import UNTOLD, Setup
from understudy.stream.switching import continued
from understudy.stream.thetas import Changes, guessed
from understudy.stream.witness import Seen
from understudy.transform.maps import CausalMap
from understudy.transform.pair import Pair
from understudy.transform.restarting import Restarting

_CHUNK = 65_536
_FEW_SLOTS = 4096  # that stay empty: one by one; more of them in one leap


def _next(skipped: Any, at: int, stop: int) -> int:
    """The first reading after `at` with an empty slot before it, or `stop`."""
    gaps = np.flatnonzero(skipped[at + 1 : stop])
    return at + 1 + int(gaps[0]) if gaps.size else stop


class Live(NamedTuple):
    """A stream at one moment: its draw, where it stands, and the filter between the two values."""

    epoch: EpochRow
    at: Position
    map: Any  # a `Transformation`

    def __repr__(self) -> str:
        return f"Live({self.at.readings} readings)"


def first(setup: Setup, source: int) -> Live:
    """A stream at its beginning, with its first draw."""

    def charge(kind: str, cost: int, epoch: int) -> bool:
        row = setup.row
        return setup.ledger is None or setup.ledger.charge(Entry(row.id, row.room, epoch, kind, cost))

    taken = first_draw(setup, source, charge)
    made = setup.mapping(source, taken.epoch.draw)
    at = Position(
        source=source, per_block=setup.per_block(DESIGN_ODDS), epoch=taken.epoch.epoch, charged=taken.cost, serial=1,
        state=made.start(),
    )  # fmt: skip
    return Live(taken.epoch, at, made)


class Run:
    """One batch, one reading or one change, within one transaction.

    With `recorded` it is a replay: that function knows the draws, and nothing is charged or recorded again.
    """

    def __init__(self, setup: Setup, live: Live, recorded: Callable[[int], EpochRow] | None = None) -> None:
        self.setup, self.live, self._recorded = setup, live, recorded
        self._started = live
        self.outputs: Iterable[tuple[int, int, Any, int]] = ()
        self.count = 0  # of outputs
        self.filled: list[tuple[int, Array]] = []  # outputs of slots that stayed empty, by the times of the slots
        self.readings: Any = ()  # how many readings the stream has had after each row of a batch

    # Readings --------------------------------------------------------------------------------------------

    def batch(self, Y: Array, kind: str, numbers: Any, thetas: Changes, done: int, keep: bool = True) -> Array:
        """Readings that have not been here, of a batch of which `done` have: filter and release them, epoch by epoch.

        Outputs of readings that come late into a full slot are NaN, and so are those of readings that are missing.
        """
        places = self._places(kind, numbers, done)
        taken = np.arange(len(Y)) if places is None else places.taken
        times: Any = numbers if places is None else places.times
        Y = Y if places is None else np.ascontiguousarray(Y[taken])
        release = self.setup.release
        outside = release.outside(Y)
        fresh = outside if not self.setup.fill else outside | np.isnan(Y).any(axis=1)
        Y = release.admitted(Y, done + taken)
        seen = np.where(outside[:, None], np.nan, Y) if outside.any() else Y  # a glitch tells an estimator nothing
        thetas = self._guessed(thetas if places is None else thetas.of_places(taken), seen, times)
        out, at = np.empty(Y.shape), 0
        self.readings = np.empty(len(Y), dtype=np.int64)
        while at < len(Y):
            before = self.live
            if places is not None and places.skipped[at]:
                self.skip(int(places.skipped[at]), kind, done + int(taken[at]))
            source, changes = thetas.at(at)
            if not self.turn(kind, int(times[at]), source, done + int(taken[at]), released=at):
                self.live = before  # the gap before a decision that is refused has not been passed
                break
            stop = min(changes, self.setup.clock.before(self.live.at.tick, times, at), len(Y))
            if places is not None:
                stop = _next(places.skipped, at, stop)
            self.readings[at:stop] = self.live.at.readings + 1 + np.arange(stop - at)
            self._filter(Y[at:stop], fresh[at:stop], out[at:stop], kind, int(numbers[taken[stop - 1]]))
            at = stop
        out = release.rounded(out[:at], out[:at])
        if keep and at and self.setup.ledger is not None:
            kept = [numbers[i] for i in taken[:at].tolist()] if places is not None else numbers[:at]
            self.outputs, self.count = to_stored(self.setup.row.id, kept, out), at
        if places is None:
            return out
        count = len(numbers) if at == len(taken) else int(taken[at])  # where a stop of the budget has cut it short
        whole = np.full((count, Y.shape[1]), np.nan)
        whole[taken[:at]] = out
        rows = np.searchsorted(taken[:at], np.arange(count), side="right")
        self.readings = np.concatenate(([self._started.at.readings], self.readings[:at]))[rows]
        return whole

    def _filter(self, Y: Array, fresh: Any, out: Array, kind: str, last: int) -> None:
        """Readings in a row, in one epoch and of one value; those that are `fresh` are coloured from fresh scores."""
        live, state, first = self.live, self.live.at.state, self.live.at.readings
        withheld = isinstance(live.map, Restarting) and (self.setup.fill or fresh.any() or live.map.is_behind(state))
        cuts = np.flatnonzero(np.diff(fresh, prepend=fresh[0], append=~fresh[-1])).tolist()
        start = 0
        for stop in cuts:
            if fresh[start]:
                for i in range(start, stop):
                    state, out[i] = self._fresh(live.map, state, Y[i : i + 1], first + i)
            elif withheld:
                for i in range(start, stop):
                    due = self.setup.fill or (live.map.is_behind(state) and not np.isnan(Y[i]).any())
                    state, row = live.map.apply(state, np.ascontiguousarray(Y[i : i + 1]))
                    if due and np.isnan(row).any():
                        state, row = live.map.coloured(state, self.setup.fresh_score(first + i))
                    out[i] = row
            else:
                state, out[start:stop] = live.map.apply(state, np.ascontiguousarray(Y[start:stop]))
            start = stop
        self._moved(state, len(Y), kind, last, int((~np.isnan(out).any(axis=1)).sum()))

    def _fresh(self, causal: Any, state: Any, row: Array, reading: int) -> tuple[Any, Array]:
        """An output from fresh scores for a row that is missing and filled, or out of range."""
        z = self.setup.fresh_score(reading)
        if np.isnan(row).any() or not isinstance(causal, Restarting):
            try:
                found: tuple[Any, Array] = causal.fresh(state, z)
                return found
            except MissingReadingError:
                if np.isnan(row).any():
                    raise
            # a source that cannot miss a reading is given the end of the range: to refuse would tell of the reading
            release = self.setup.release
            state, out = causal.apply(state, np.clip(row, release.low, release.high))
            return state, out[0]
        state, out = causal.beyond(state, z)
        return state, out

    def skip(self, count: int, kind: str, position: int) -> None:
        """Slots that stayed empty, for both predictors; in a stream that fills them each has an output of its own."""
        live, at = self.live, self.live.at
        if self.setup.fill:
            self._fill(count, kind, position)
            return
        state = live.map.leap(at.state, count) if isinstance(live.map, Pair) and count > _FEW_SLOTS else None
        if state is None:
            if count > LONGEST_GAP:
                raise ReadingError(
                    f"{count} slots stayed empty before reading {position}, more than the {LONGEST_GAP} that these "
                    "models move through; begin a stream of another name"
                )
            state = at.state
            for done in range(0, count, _CHUNK):
                empty = np.full((min(_CHUNK, count - done), live.map.dim), np.nan)
                state, _ = live.map.apply(state, empty)
        cadence, last = self.setup.cadence, at.last
        if cadence is not None and last is not None:
            last = cadence.time(cadence.slot(last) + count)
        self._moved(state, count, kind, last, 0)

    def _fill(self, count: int, kind: str, position: int) -> None:
        """Outputs for empty slots, from fresh scores; recorded under the times of the slots."""
        cadence, last = self.setup.cadence, self.live.at.last
        if count > _CHUNK or cadence is None or last is None:
            raise ReadingError(
                f"{count} slots stayed empty before reading {position}; at most {_CHUNK} are filled at once: release "
                "them on schedule, or begin a stream of another name"
            )
        times = cadence.time(cadence.slot(last) + 1 + np.arange(count)).tolist()
        at = 0
        while at < count:  # epochs begin by the clock, whether slots are empty or not
            if not self.turn(kind, times[at], self.live.at.source, position):
                raise self.setup.spent()
            stop = min(self.setup.clock.before(self.live.at.tick, times, at), count)
            empty = np.full((stop - at, self.live.map.dim), np.nan)
            out = np.empty(empty.shape)
            self._filter(empty, np.ones(stop - at, dtype=bool), out, kind, times[stop - 1])
            self.filled += list(zip(times[at:stop], self.setup.release.rounded(out, out), strict=True))
            at = stop

    def _places(self, kind: str, numbers: Any, done: int) -> Places | None:
        """The slots of readings that have times; the first time of all is the origin of the slots."""
        cadence = self.setup.cadence
        if kind != TIME or cadence is None:
            return None
        if cadence.origin is None:
            cadence = self._begin_slots(int(numbers[0]))
        # most often nothing is missing and nothing is late, and readings are what they are without a cadence
        last = self.live.at.last
        return None if cadence.is_regular(numbers, last) else cadence.places(numbers, last, done)

    def take_cadence(self, cadence: Cadence) -> None:
        """A cadence for a stream that has none, from its last reading on."""
        row = self.setup.row
        options = {**row.options, "cadence": list(cadence._replace(origin=self.live.at.last))}
        self.setup = self.setup.with_row(row._replace(options=options))

    def _begin_slots(self, origin: int) -> Cadence:
        self.setup = self.setup.with_origin(origin)
        cadence = self.setup.cadence
        if cadence is None:
            raise ConfigurationError("a stream without a cadence has no slots")
        return cadence

    def few(self, values: list[float], kind: str, numbers: list[int], thetas: Changes, done: int) -> list[float]:
        """The same for a few finite readings of one channel: one by one, which is then the quicker way."""
        release, cadence = self.setup.release, self.setup.cadence
        bounds = release.single
        if bounds is None or cadence is not None or self.setup.estimator is not None or self._is_behind():
            return self._few_in_slots(values, kind, numbers, thetas, done)
        low, high = bounds
        if not all(low <= y <= high for y in values):
            return list(self.batch(np.array(values).reshape(-1, 1), kind, numbers, thetas, done)[:, 0].tolist())
        outs: list[float] = []
        at = 0
        while at < len(values):
            source, changes = thetas.at(at)
            if not self.turn(kind, numbers[at], source, done + at, released=at):
                break
            stop = min(changes, self.setup.clock.before(self.live.at.tick, numbers, at))
            step, state, leave = self.live.map.step, self.live.at.state, release.one
            for y in values[at:stop]:
                state, out = step(state, y)
                outs.append(leave(out))
            stop = min(stop, len(values))
            self._moved(state, stop - at, kind, numbers[stop - 1], stop - at)
            at = stop
        self._keep(numbers[:at], outs)
        return outs

    def _few_in_slots(
        self, values: list[float], kind: str, numbers: list[int], thetas: Changes, done: int
    ) -> list[float]:
        """One reading that has a time, in the next slot, by the quick way; anything else as a batch."""
        release, cadence, live = self.setup.release, self.setup.cadence, self.live
        if (
            len(values) == 1
            and cadence is not None
            and cadence.origin is not None
            and kind == TIME
            and release.single is not None
            and release.single[0] <= values[0] <= release.single[1]
            and live.at.last is not None
            and self.setup.estimator is None
            and not self._is_behind()
        ):
            off = numbers[0] - cadence.origin
            slot = (off + cadence.period // 2) // cadence.period
            beside = abs(off - slot * cadence.period) <= cadence.tolerance
            if beside and slot == cadence.slot(live.at.last) + 1:
                source, _ = thetas.at(0)
                if not self.turn(kind, cadence.time(slot), source, done):
                    return []
                state, out = self.live.map.step(self.live.at.state, values[0])
                if out == out or not self.setup.fill:
                    outs = [release.one(out)]
                    self._moved(state, 1, kind, numbers[0], int(out == out))
                    self._keep(numbers, outs)
                    return outs
        out = self.batch(np.array(values).reshape(-1, 1), kind, numbers, thetas, done)[:, 0]
        listed: list[float] = out.tolist()
        return listed

    def all_outputs(self) -> Iterable[tuple[int, int, Any, int]]:
        """Rows for the ledger: of readings, and of slots that stayed empty and were filled."""
        if not self.filled:
            return self.outputs
        times, rows = [time for time, _ in self.filled], np.array([out for _, out in self.filled])
        return chain(to_stored(self.setup.row.id, times, rows), self.outputs)

    def _is_behind(self) -> bool:
        """Whether outputs are due from a filter that has to withhold: then they come from fresh scores."""
        return isinstance(self.live.map, Restarting) and self.live.map.is_behind(self.live.at.state)

    def _keep(self, numbers: list[int], outs: list[float]) -> None:
        if outs and self.setup.ledger is not None:
            stream = self.setup.row.id
            checks = checked_outputs(stream, numbers, outs)
            self.outputs, self.count = zip(repeat(stream), numbers, outs, checks), len(outs)

    def _guessed(self, thetas: Changes, Y: Array, numbers: Any) -> Changes:
        """The private values as they are told; or guessed from the readings, where the design accepts that."""
        if self.setup.estimator is None:
            return thetas
        at = self.live.at
        memory, guess = at.memory or (None, None)
        guess, thetas = guessed(self.setup.estimator, guess, self.setup.clock, at.tick, Y, numbers)
        self._at(memory=(memory, guess))
        return thetas

    def _moved(self, state: Any, count: int, kind: str, last: int | None, outputs: int) -> None:
        """The state after so many readings, of which so many have an output."""
        live, at = self.live, self.live.at
        block, charged = at.block, at.charged
        if self.setup.block:
            begun, block = blocks_begun(block, count, self.setup.block)
            if not self._charge(RESIDUAL, begun * at.per_block):
                raise self.setup.spent()
            charged += begun * at.per_block
        else:
            block += outputs  # where no blocks are charged, this counts what floating point is charged for
        released = at.readings if self.setup.block else at.block
        cost = self.setup.floating_charge(released, released + outputs)
        if cost:
            if not self._charge(RESIDUAL, cost):
                raise self.setup.spent()
            charged += cost
        after = Position(
            at.readings + count, last, kind, at.source, at.tick, block, at.per_block, at.stopped, at.epoch, charged,
            at.serial, at.memory, state,
        )  # fmt: skip
        self.live = Live(live.epoch, after, live.map)

    def _charge(self, kind: str, cost: int, epoch: int | None = None, forced: bool = False) -> bool:
        ledger, row = self.setup.ledger, self.setup.row
        if ledger is None or self._recorded is not None or (cost == 0 and kind != DRAW):
            return True
        return ledger.charge(
            Entry(row.id, row.room, self.live.at.epoch if epoch is None else epoch, kind, cost), forced
        )

    # Epochs and values -----------------------------------------------------------------------------------

    def turn(self, kind: str, number: int, source: int, position: int, released: int = 0) -> bool:
        """A new epoch if the clock says so, or another private value within the epoch.

        Where the budget does not allow the epoch, the call is refused. But what a policy with memory may still give
        away depends on its draws, and a refusal of all of them would tell of them: what comes before the decision
        that is refused, `released` readings of this call, is recorded and goes out. Then this is False.
        """
        at = self.live.at
        if source == UNTOLD:
            raise ReadingError(f"reading {position}: the private value has not been told; give theta with the readings")
        if self.setup.clock.length is not None:
            tick = self.setup.clock.tick(number)
            if tick != at.tick:
                if at.tick is None and at.readings == 0 and self.setup.remembering is None:
                    self._at(tick=tick)  # the draw that the stream began with is that of its first epoch
                elif self.next_epoch(source, None, tick):
                    return True
                elif released and self.setup.remembering is not None:
                    return False
                else:
                    raise BudgetError(
                        f"the budget of {self.setup.row.room!r} is spent, and reading {position} begins an epoch "
                        "that needs a new draw; nothing of this call is released (readings before it can be given "
                        "alone)"
                    )
        if at.stopped:
            raise self.setup.spent()
        if source != at.source:
            self.switch(source)
        return True

    def switch(self, source: int) -> None:
        """Another private value, the same pseudo value."""
        live = self.live
        made = self.setup.mapping(source, live.epoch.draw)
        state = _carried(live, made)
        self.live = Live(live.epoch, live.at._replace(source=source, state=state), made)

    def stop(self) -> bool:
        """Nothing more until an epoch begins; False, so that a draw is tried *or* the stream stops."""
        self._at(stopped=1)
        return False

    def next_epoch(self, source: int, marginal: Any, tick: int | None = None) -> bool:
        """Draw again and charge it; False if the budget does not allow it and says to stop."""
        setup, live, at = self.setup, self.live, self.live.at
        setup.mapping(source, live.epoch.draw)  # a value without a model is refused before a draw
        recorded = None if self._recorded is None else self._recorded(at.epoch + 1)
        taken = self._taken(source, marginal, tick, recorded)
        if taken is None:
            return False
        epoch, cost, memory = taken
        made = setup.mapping(source, epoch.draw)
        at = at._replace(
            source=source, tick=at.tick if tick is None else tick, block=0 if setup.block else at.block,
            per_block=setup.per_block(marginal),
            stopped=0, epoch=epoch.epoch, charged=at.charged + cost, memory=memory, state=_carried(live, made),
        )  # fmt: skip
        if setup.ledger is not None and recorded is None:
            setup.ledger.add_epoch(setup.row.id, epoch)
        self.live = Live(epoch, at, made)
        return True

    def _taken(self, source: int, marginal: Any, tick: int | None, recorded: EpochRow | None) -> Taken | None:
        setup, live, at = self.setup, self.live, self.live.at
        if setup.remembering is None or tick is None:
            return next_draw(setup, at, live.epoch.draw, source, marginal, self._charge, recorded)
        if setup.estimator is None:
            return next_decision(setup, at, tick, source, self._charge, recorded)
        memory, guess = at.memory
        taken = next_decision(setup, at._replace(memory=memory), tick, source, self._charge, recorded)
        return None if taken is None else taken._replace(memory=(taken.memory, guess))

    def after_rollback(self, seen: Seen, source: int) -> None:
        """Go on from a position that is older than what was released: what is lost counts as missing, and is charged.

        What was charged since is booked again, and a new draw is made. Keys that were used are not used again.
        """
        self.book_lost(seen)
        live, at = self.live, self.live.at
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
            serial=max(at.serial, seen.serial),
        )  # fmt: skip
        if not self.next_epoch(source, None):
            raise self.setup.spent()

    def book_lost(self, seen: Seen) -> None:
        """Charge again what the ledger has lost of charges."""
        lost = max(0, seen.charged - self.live.at.charged)
        self._charge(LOST, lost, forced=True)
        self._at(charged=self.live.at.charged + lost)

    def numbered(self) -> Live:
        """The end of the work, as the next position: one number a call, whatever happened in it."""
        self._at(serial=self.live.at.serial + 1)
        return self.live

    def _at(self, **changes: Any) -> None:
        self.live = self.live._replace(at=self.live.at._replace(**changes))


def _carried(live: Live, made: CausalMap) -> Any:
    """The state as another filter goes on from it; before the first reading there is nothing to go on from."""
    return continued(live.map, made, live.at.state) if live.at.readings else made.start()
