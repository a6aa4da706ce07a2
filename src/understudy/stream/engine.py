"""Readings on their way through a stream: filtered, charged and made ready to be recorded.

A `Run` works on copies. What it did becomes the stream's when the ledger has it, and never if it fails.

Going on under other models: what becomes of a filter's state when a parameter has changed.

The process behind the readings does not start anew because the parameter moved, so its predictors must
not either (design, 4.8: theta_k enters the step into x_k). Gauss-Markov filters, rounded or not, hand over filtered
means and covariances; others hand over the state of the model, where old and new model have the same kind of it.

A state that the old model has already moved on must not be handed to a model that moves otherwise: a hidden Markov
chain is moved when a reading has been seen, and a gap of a `Markov` model is bridged after its end. Such a change is
refused, where `Family.along`, which keeps what is needed, goes on.

The coins of a stream: random bits that follow from its key, one set for each draw.

The key is 256 bits of the operating system's random source, made once and recorded with the stream. Bits for a draw are
a keyed digest of the number of the epoch and of the readings before it. So a draw cannot be made twice with two
outcomes: a call that failed after it, a replay, a restart or a snapshot that is used again all get the same one.

What is charged when: epochs by the clock, blocks of readings where models are approximate.

What a stream is made of, apart from where it stands.

How a pseudo value is come by: a new draw for an epoch, a decision with memory, or the draw of another stream.

Each way says what it costs, asks whether the budget allows it, and only then looks at the private value. On a replay
the draws are those that were recorded, and nothing is charged.

The private value of each reading: one for a whole batch, one for each, or guessed from the readings.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import datetime as dt
import hashlib
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array
from understudy.errors import (
    BudgetError,
    ConfigurationError,
    LedgerError,
    MissingReadingError,
    ModelError,
    ReadingError,
    RollbackError,
)
from understudy.laws.uniforms import Uniforms
from understudy.models.family import same_kind, same_state
from understudy.stream.budget import DECISION, DRAW, LOST, RESIDUAL, Entry, micronats
from understudy.stream.cadence import LONGEST_GAP, TIME, Cadence, Places
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import MICRO, EpochRow, Position, StreamRow, checked_outputs, to_stored
from understudy.stream.policy import DESIGN_ODDS, Remembering, as_policy
from understudy.stream.release import FORGIVEN, LARGEST_SCORE, Release
from understudy.stream.rollback_guard import Seen
from understudy.transform.core import CausalMap, Chain, Transformation, transformation
from understudy.transform.gaps import Restarting, restarting
from understudy.transform.kalman_pair import Pair
from understudy.transform.quantised import Colouring

# Going on under other models: what becomes of a filter's state when a parameter has changed ----------


def continued(old: CausalMap, new: CausalMap, state: Any) -> Any:
    """The state of `old`, as one that `new` goes on from; refuses where there is no such thing.

    >>> import understudy as us
    >>> from understudy.transform.core import transformation
    >>> a, b = (us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=v) for v in (0.0, 1.0))
    >>> old, new = transformation(a, b, False, None), transformation(b, a, False, None)
    >>> len(continued(old, new, old.start()))
    5
    """
    if isinstance(old, Pair) and isinstance(new, Pair):
        if (old.n, old.m, old.dim) == (new.n, new.m, new.dim):
            return old.carried(state)
    elif isinstance(old, Chain) and isinstance(new, Chain):
        if len(old.maps) == len(new.maps):
            return tuple(continued(a, b, part) for a, b, part in zip(old.maps, new.maps, state, strict=True))
    elif isinstance(old, Restarting) and isinstance(new, Restarting):
        if old.refill == new.refill:
            return _restarted(old, new, state)
    elif isinstance(old, Colouring) and isinstance(new, Colouring):
        return continued(old.unrounded, new.unrounded, state)
    elif type(old) is type(new) and same_kind(old.start(), new.start()):
        one, other = getattr(old, "model", None), getattr(new, "model", None)
        if one is None or other is None:
            return state  # one law for every reading: at most a count is handed over
        if type(one) is type(other) and same_state(one, other):
            _check_not_moved(one, other, state)
            return state
    raise ModelError(
        "the state of this filter cannot go on under the models of another value: they must be of one type and have "
        "states of one kind and size"
    )


def _restarted(old: Restarting, new: Restarting, state: Any) -> Any:
    """A colouring that has not begun has no state to hand over; whether it could is asked nevertheless.

    Else a change would be refused or not by the moment at which it comes.
    """
    left, source, target, *due = state
    coloured = continued(old.target, new.target, old.target.start() if target is None else target)
    return (left, continued(old.source, new.source, source), None if target is None else coloured, *due)


def _check_not_moved(one: Any, other: Any, state: Any) -> None:
    """Refuse a state in which `one` has done already what is for `other` to do."""
    if one is other:
        return
    moves = getattr(one, "transition", None)
    if isinstance(moves, np.ndarray) and not np.array_equal(moves, other.transition):
        raise ModelError(
            "the hidden state was moved by the transition of the old value already, and the new value has another one; "
            "hidden Markov models between which a stream switches must share their transition"
        )
    if getattr(one, "defers_gaps", False) and _missing(state) and not _bridged_alike(one, other):
        raise ModelError(
            "the last readings are missing, and no exact law across a gap is known where the value changes in it; "
            "switch after the next reading"
        )


def _bridged_alike(one: Any, other: Any) -> bool:
    """Whether two `Markov` models have the same law across a gap."""
    return one.gap is other.gap


def _missing(state: Any) -> int:
    """How many of the last readings a `Markov` model has left to bridge."""
    inner = state[1] if len(state) == 2 else state  # with atoms, after the number of readings
    return int(inner[2])


# The coins of a stream: random bits that follow from its key, one set for each draw ------------------


_INDEX = struct.Struct("<qqq")


class Coins:
    """What a draw asks for bits: the part of a numpy Generator that draws use.

    >>> Coins(bytes(32), 3, 45).integers(1 << 53) == Coins(bytes(32), 3, 45).integers(1 << 53)
    True
    """

    __slots__ = ("_asked", "_index", "_key")

    def __init__(self, key: bytes, epoch: int, readings: int) -> None:
        self._key, self._index, self._asked = key, (epoch, readings), 0

    def __repr__(self) -> str:
        return "Coins()"

    def integers(self, high: int) -> int:
        """A whole number from 0 to below `high`, which must be a power of 2."""
        label = _INDEX.pack(*self._index, self._asked)
        self._asked += 1
        return int.from_bytes(hashlib.blake2b(label, key=self._key, person=b"understudy draw").digest()) % high


# What is charged when: epochs by the clock, blocks of readings where models are approximate ----------


def blocks_begun(block: int, count: int, length: int) -> tuple[int, int]:
    """How many blocks of readings `count` more of them begin, and where in its block the last one stands.

    The leak of a block is charged before its first reading is released.

    >>> blocks_begun(0, 1, 50), blocks_begun(1, 49, 50), blocks_begun(50, 1, 50), blocks_begun(3, 100, 50)
    ((1, 1), (0, 50), (1, 1), (2, 3))
    """
    begun = -(-(block + count) // length) - (-(-block // length))
    return begun, (block + count) % length or length


class Clock:
    """Epochs of a fixed length: in seconds for readings with times, in readings for the others.

    >>> clock = Clock(3)
    >>> clock.tick(7)
    2
    >>> clock.before(2, [7, 8, 9, 10], 0)
    2
    """

    def __init__(self, length: int | None) -> None:
        self.length = length

    @staticmethod
    def checked(epoch: Any) -> dict[str, Any]:
        """The length of epochs as it is stored; refuses what is none."""
        if epoch is None:
            return {}
        if isinstance(epoch, dt.timedelta):
            nanoseconds = (epoch.days * 86_400 + epoch.seconds) * 10**9 + epoch.microseconds * 1000
            if nanoseconds > 0:
                return {"epoch": nanoseconds, "timed": True}
        elif isinstance(epoch, int) and not isinstance(epoch, bool) and epoch > 0:
            return {"epoch": epoch, "timed": False}
        raise ConfigurationError(
            f"epoch = {epoch!r}; it must be a positive timedelta (readings with times) or a number of readings"
        )

    def tick(self, number: int) -> int | None:
        """The number of the epoch that a key falls into."""
        return None if self.length is None else number // self.length

    def before(self, tick: int | None, numbers: list[int], first: int) -> int:
        """The end of the readings from `first` on that fall into the same epoch."""
        if self.length is None or tick is None:
            return len(numbers)
        return bisect.bisect_left(numbers, (tick + 1) * self.length, first)


def check_kind(timed: bool, kind: str) -> None:
    """Epochs in seconds need keys that are times; epochs in readings need keys that are not."""
    if timed != (kind == TIME):
        wanted = "times" if timed else "numbers"
        raise ReadingError(f"the epochs of this stream are counted by {wanted}; the key is of the kind {kind!r}")


# What a stream is made of, apart from where it stands ------------------------------------------------


UNTOLD = -1  # the position of a private value that nobody has told yet
REFUSE, WITHHOLD = "refuse", "withhold"  # what to do about missing readings without an exact law across them
_MAPS = 64
_FOR_EVER = 2**62
_MOST_NATS = 1e9


def floating_micronats(nats: float) -> int:
    """What the ledger counts of a bound on what floating point leaves: rounded up, but for `FORGIVEN`."""
    if nats <= FORGIVEN:
        return 0
    if not nats < _MOST_NATS:
        raise BudgetError(
            "floating point cannot be bounded any more over so many readings; begin a stream of another name"
        )
    return micronats(nats - FORGIVEN)


class Setup:
    """Policy, names, ledger and random source of a stream, and its filters as they are needed."""

    def __init__(self, design: Any, row: StreamRow, ledger: Ledger | None) -> None:
        # a policy that draws anew for each epoch, unless it is `remembering`
        self.policy: Any = as_policy(design)
        self.remembering: Remembering | None = self.policy if hasattr(self.policy, "opening") else None
        self.estimator: Any = None if self.remembering is None else self.remembering.estimator()
        self.row, self.ledger = row, ledger
        self.clock = Clock(row.options.get("epoch"))
        self.cadence = Cadence.stored(row.options)
        self.fill: bool = row.options.get("fill", False)
        self.release: Release = self.policy.release
        self.timed: bool | None = row.options.get("timed")  # None where the clock makes no epochs
        residual = self.policy.residual_of_block()
        self.block = 0 if residual is None else residual[1]
        self._maps: dict[tuple[int, int], Transformation] = {}
        self._scores: Uniforms | None = None
        self._plateau = (0, 0)  # numbers of readings, from and to, over which floating point costs the same

    def check_keys(self, kind: str) -> None:
        """Refuse keys of a kind that the epochs of this stream are not counted by, and times without a cadence."""
        if self.timed is not None:
            check_kind(self.timed, kind)
        if kind == TIME and self.cadence is None:
            raise ReadingError(
                "a key is a time, and this stream has no cadence: readings hours apart would count as consecutive. "
                "Begin it with period=, the time from one reading to the next (a stream of version 0.1 takes one when "
                "it is opened, Stream.open(..., period=60))"
            )

    def with_origin(self, origin: int) -> Setup:
        """The same, with slots that are counted from there."""
        if self.cadence is None:
            return self
        cadence = list(self.cadence._replace(origin=origin))
        return self.with_row(self.row._replace(options={**self.row.options, "cadence": cadence}))

    def with_row(self, row: StreamRow) -> Setup:
        """The same for a stream with another cadence."""
        made = copy.copy(self)
        made.row, made.cadence = row, Cadence.stored(row.options)
        return made

    def fresh_score(self, reading: int) -> Array:
        """Independent standard normals (d,) for a reading that has none: they follow from the key and its number."""
        if self._scores is None:
            self._scores = Uniforms(Uniforms(self.row.secret).derive("fresh scores"))
        from scipy.special import ndtri

        return np.asarray(ndtri(self._scores.at(reading, self.policy.source(0).dim)))

    def coins(self, epoch: int, readings: int) -> Coins:
        """The random bits of the draw of an epoch that begins after so many readings."""
        return Coins(self.row.secret, epoch, readings)

    def check_changes(self) -> None:
        """Refuse, before anything is drawn, values between which a filter cannot go on; and make filters ready.

        A refusal later would depend on the private value, and on the draw. A reading that is missing is tried too.
        """
        first = self.mapping(0, 0)
        others = [(i, 0) for i in range(1, len(self.policy.values))] + [
            (0, j) for j in range(1, len(self.policy.pseudo))
        ]
        states = [first.start()]
        with contextlib.suppress(MissingReadingError):  # a gap is then refused whatever the values are
            states.append(first.apply(first.start(), np.full((1, first.dim), np.nan))[0])
        for pair in others:
            for state in states:
                continued(first, self.mapping(*pair), state)
                continued(self.mapping(*pair), first, state)
        if len(self.policy.values) * len(self.policy.pseudo) <= _MAPS:
            for i in range(len(self.policy.values)):
                for j in range(len(self.policy.pseudo)):
                    self.mapping(i, j)  # so that the first use of a pair takes no longer than others

    def mapping(self, source: int, column: int) -> Transformation:
        """The filter from a private value to a pseudo value, by position."""
        found = self._maps.get((source, column))
        if found is None:
            # nothing is read before the private value is told, so that any model serves until then
            one, other = self.policy.source(max(source, 0)), self.policy.target(column)
            if self.row.options.get("gaps") == WITHHOLD:
                found = restarting(one, other, self.row.secret, LARGEST_SCORE)
            else:
                found = transformation(one, other, False, self.row.secret, LARGEST_SCORE)
            if len(self._maps) >= _MAPS:
                self._maps.clear()
            self._maps[source, column] = found
        return found

    def floating_charge(self, before: int, after: int) -> int:
        """Micro-nats that floating point costs more after so many readings than before them.

        The bound is one for all readings of the stream together, and grows with their square.
        """
        first, last = self._plateau
        if first <= before and after <= last:
            return 0
        floating = self.policy.floating
        if floating is None:
            self._plateau = (0, _FOR_EVER)
            return 0
        start, due = (floating_micronats(floating.nats(n)) if n else 0 for n in (before, after))
        # a little early, so that rounding does not decide
        last = floating.readings((FORGIVEN + due / MICRO) * (1.0 - 1e-9))
        self._plateau = (after, max(after, last))
        return due - start

    def per_block(self, marginal: Any) -> int:
        """What a block of readings gives away besides the draw, in micro-nats, at these odds."""
        residual = self.policy.residual_of_block(marginal)
        return 0 if residual is None else micronats(residual[0])

    def stopped(self, released: Any) -> BudgetError:
        """The error for a budget that was spent in the middle of a call, with the outputs before that."""
        count = len(released)
        return BudgetError(
            f"the budget of {self.row.room!r} is spent: the first {count} readings of this call are recorded, and "
            f"their outputs are in the attribute `released` of this error; reading {count} needs a decision beyond it",
            released,
        )

    def spent(self) -> BudgetError:
        """The error for a budget that does not allow what is asked."""
        return BudgetError(f"the budget of {self.row.room!r} is spent; nothing more is released")


# How a pseudo value is come by: a new draw for an epoch, a decision with memory, or the draw of anoth ---


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


# The private value of each reading: one for a whole batch, one for each, or guessed from the readings ---


_END = 2**63 - 1


class Changes:
    """Where in a batch the private value changes, and to which, by position.

    >>> thetas = Changes.of_rows([0, 0, 1, 1, 1, 0])
    >>> thetas.at(0), thetas.at(3), thetas.at(5)[0]
    ((0, 2), (1, 5), 0)
    """

    __slots__ = ("rows", "starts")

    def __init__(self, starts: list[int], rows: list[int]) -> None:
        self.starts, self.rows = starts, rows

    @classmethod
    def of_rows(cls, rows: Any) -> Changes:
        """From the position of the value of each reading."""
        codes = np.asarray(rows)
        starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()]
        return cls(starts, [int(codes[i]) for i in starts])

    def at(self, i: int) -> tuple[int, int]:
        """The value of reading i, and the first reading after it that may have another."""
        k = bisect_right(self.starts, i)
        return self.rows[k - 1], self.starts[k] if k < len(self.starts) else _END

    def of_each(self, count: int) -> Any:
        """The position of the value of each of the first readings of the batch."""
        starts = np.minimum(self.starts, count)
        return np.repeat(np.array(self.rows, dtype="<i2"), np.diff(starts, append=count))

    def of_places(self, places: Any) -> Changes:
        """Those of some readings of the batch, by position."""
        if len(self.starts) == 1:
            return self
        return Changes.of_rows([self.at(i)[0] for i in places.tolist()]) if len(places) else self

    def after(self, count: int) -> Changes:
        """Those of the batch without its first readings."""
        if count == 0 or len(self.starts) == 1:
            return self
        k = bisect_right(self.starts, count) - 1
        return Changes([0, *(start - count for start in self.starts[k + 1 :])], self.rows[k:])


def told(policy: Any, theta: Any, count: int) -> Changes:
    """The private values of `count` readings: `theta` is a value of the policy, or holds one for each reading.

    Who has positions already hands over `Changes`.
    """
    if isinstance(theta, Changes):
        return theta
    if not _many(theta):
        return Changes([0], [policy.row(theta)])
    try:
        return Changes([0], [policy.row(theta)])  # an array can be a value too
    except ConfigurationError:
        pass
    values = _column(theta)
    if values.ndim != 1 or len(values) != count:
        raise ReadingError(f"theta has the shape {values.shape}; it must be a value, or hold one for each of {count}")
    if values.dtype == object:
        # whatever they are, neighbours that are the same object or equal plain values are one
        starts = [i for i in range(count) if i == 0 or not _same(values[i], values[i - 1])]
    else:
        starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    rows = []
    for i in starts:
        try:
            rows.append(policy.row(values[i].item() if isinstance(values[i], np.generic) else values[i]))
        except (ConfigurationError, TypeError, ValueError):
            raise ReadingError(f"theta of reading {i} is none of the values of the design") from None
    return Changes(starts, rows)


def _many(theta: Any) -> bool:
    return isinstance(theta, list) or hasattr(theta, "to_numpy") or (isinstance(theta, np.ndarray) and theta.ndim > 0)


def _column(theta: Any) -> Any:
    """Values as an array of one axis; anything but numbers, truths and texts as objects, one for each reading."""
    if isinstance(theta, np.ma.MaskedArray):
        if np.ma.is_masked(theta):
            first = int(np.flatnonzero(np.ma.getmaskarray(theta).ravel())[0])
            raise ReadingError(f"theta of reading {first} is masked; each reading needs a value")
        theta = theta.data
    if isinstance(theta, np.ndarray):
        return theta
    if not isinstance(theta, list):
        theta = _told_by(theta)
        if isinstance(theta, np.ndarray) and (theta.dtype != object or theta.ndim != 1):
            return theta
    listed = theta if isinstance(theta, list) else list(theta)
    kinds = {type(value) for value in listed}
    return np.array(listed) if len(kinds) == 1 and kinds <= {int, float, bool, str} else _objects(listed)


def _told_by(column: Any) -> Any:
    """What a column of a dataframe holds; an arrow array has its own way to say so."""
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False


def _objects(values: list[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def guessed(estimator: Any, state: Any, clock: Clock, tick: int | None, Y: Array, numbers: Any) -> tuple[Any, Changes]:
    """Private values that an estimator finds in the readings, and its state after them."""
    rows = []
    for y, number in zip(Y, numbers, strict=True):
        now = clock.tick(int(number))
        if state is None:
            state, moves = estimator.start(now or 0), 0
        else:
            moves = 0 if now is None or tick is None else now - tick
        state, row = estimator.step(state, y, moves)
        tick = now
        rows.append(row)
    return state, Changes.of_rows(rows)


# Readings on their way through a stream: filtered, charged and made ready to be recorded -------------


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
