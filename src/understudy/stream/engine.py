"""One step of a stream: which pseudo value a reading is disguised as, the filter, the charge, and the record of it all.

A call on a stream is one `Transaction`. It works on copies of the `StreamState`; a `Recorder` makes the result that of
the stream once the ledger has it, and never if the call fails. Within a transaction each reading passes five stations:

1. *Private value* (`as_sources`): given with the reading, given once for a batch, or estimated from the readings.
2. *Epoch* (`Clock`): where the clock says that one begins, a new pseudo value is drawn, or decided on with memory. Each
   way states its cost and asks the budget before it looks at the private value. On a replay the recorded draws serve.
3. *Random bits* (`understudy.stream.randomness`): a keyed digest of the tick of the clock, so that no draw is made
   twice with two outcomes: a call that failed, a replay, a restart and a snapshot that is used again get the same one.
4. *Filter* (`Setup.mapping`): Theorem 1, from the private to the pseudo value. When a value changes, the process behind
   the readings does not start anew, so its predictors must not either (`hand_over_state`; theta_k enters the step into
   x_k). Gauss-Markov filters hand over filtered means and covariances; others the state of the model.
5. *Charge and release*: blocks of readings where models are approximate, what floating point leaves over, and the
   rounding to the lattice of the design (`understudy.stream.release`).
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Ints, Mask, Plain, Value
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
from understudy.models.model import Model
from understudy.stream.cadence import LONGEST_GAP, TIME, Cadence
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import (
    DECISION,
    DRAW,
    LOST,
    MICRO,
    RESIDUAL,
    Entry,
    EpochRow,
    OutputRow,
    Position,
    StreamRow,
    micronats,
    output_checksum,
    placeholder,
    to_stored,
)
from understudy.stream.randomness import BEFORE_CLOCK, DrawSource
from understudy.stream.release import FORGIVEN, LARGEST_SCORE, Release, Watch
from understudy.stream.rollback_guard import GuardRecord
from understudy.transform.core import Chain, transformation
from understudy.transform.gaps import RestartingMap, restarting_map
from understudy.transform.kalman_pair import Pair
from understudy.transform.quantised import Colouring
from understudy.transform.readings import CausalMap, State, Transformation
from understudy.transform.roundoff import Roundoff

_T = TypeVar("_T")

UNKNOWN = -1  # the position of a private value that nobody has given yet
CLOCK_INDEX = "clock"  # of draws, as an option of a stream: by the tick of the clock
RELEASED = "released"  # of draws, as an option of a stream: for readings that have an output, and no others
REFUSE, WITHHOLD = "refuse", "withhold"  # what to do about missing readings without an exact law across them
_MAPS = 64
_DESIGNS = 16  # whose parts are remembered
_PLATEAUS = 64
_FOR_EVER = 2**62
_MOST_NATS = 1e9
_MOST_FLOATING = 0.01  # nats over the horizon
_CHUNK = 65_536
_FEW_SLOTS = 4096  # that stay empty: one by one; more of them in one leap


# What a stream needs of a design: which models, which draws, and what they cost -------------------------

CAUSAL, COIN = "causal", "coin"
"""Kinds of designs: one that decides by its clock, with a memory; and one that shows or hides whole epochs."""
KEYED = "keyed"
"""In place of the phase of epochs: one that follows from the key of the stream."""
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
    """A design that streams are begun with: a `CausalPolicy` where its kind is `CAUSAL`, otherwise a `Policy`.

    Where its kind is `COIN`, it is a `CoinPolicy`.
    """

    @property
    def kind(self) -> str:
        """Which kind of design it is."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells one design from another; says nothing about the private parameter."""
        ...

    @property
    def own_epochs(self) -> Plain:
        """Length and phase of epochs, as the options of a stream have them; empty where the design leaves them open."""
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
    def fresh(self) -> float:
        """The fresh share: scores z are mixed to sqrt(1 - s^2) z + s w."""
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

    def draw_at_no_cost(self, last: int) -> int:
        """The column of an epoch whose draw the budget does not allow, after this one; it must give nothing away."""
        ...


class CoinPolicy(Policy, Protocol):
    """A policy whose draw says what becomes of a whole epoch, with filters of its own. `CoinDesign` is one."""

    def mapping(self, column: int, secret: bytes) -> Transformation:
        """The filter of epochs with this draw, in a stream with this key."""
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


# The clock --------------------------------------------------------------------------------------------


class Clock:
    """Epochs of a fixed length: in seconds for readings with times, in readings for the others.

    The first begins `phase` before the origin of the keys.

    >>> Clock(3).tick(7), Clock(3, phase=2).tick(7)
    (2, 3)
    """

    def __init__(self, length: int | None, phase: int = 0) -> None:
        self.length, self.phase = length, phase

    @staticmethod
    def as_told(options: Plain) -> dt.timedelta | int | None:
        """The length of epochs in these options, as a caller gives it."""
        length: int | None = options.get("epoch")
        return dt.timedelta(microseconds=length / 1000) if length is not None and options["timed"] else length

    @staticmethod
    def checked(epoch: dt.timedelta | int | None) -> dict[str, int | bool]:
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
        return None if self.length is None else (number + self.phase) // self.length

    def ticks(self, numbers: Ints, phase: Ints | None = None) -> Ints:
        """Those of many keys, all alike where no clock makes epochs; each may have a phase of its own."""
        if self.length is None:
            return np.zeros_like(numbers)
        return (numbers + (self.phase if phase is None else phase)) // self.length


def blocks_begun(block: int, count: int, length: int) -> tuple[int, int]:
    """How many blocks of readings `count` more of them begin, and where in its block the last one stands.

    The leakage of a block is charged before its first reading is released.

    >>> blocks_begun(0, 1, 50), blocks_begun(1, 49, 50), blocks_begun(50, 1, 50), blocks_begun(3, 100, 50)
    ((1, 1), (0, 50), (1, 1), (2, 3))
    """
    begun = -(-(block + count) // length) - (-(-block // length))
    return begun, (block + count) % length or length


# Setup: what a stream is made of, apart from where it stands ------------------------------------------


def floating_micronats(nats: float) -> int:
    """What the ledger counts of a bound on what floating point leaves: rounded up, but for `FORGIVEN`."""
    if nats <= FORGIVEN:
        return 0
    if not nats < _MOST_NATS:
        raise BudgetError(
            "floating point cannot be bounded any more over so many readings; begin a stream of another name"
        )
    return micronats(nats - FORGIVEN)


class DesignParts:
    """What all streams of a design have in common, worked out once: its policy, its prices, and filters without a key.

    `DesignParts.of` remembers those of the designs that were used last.
    """

    _known: ClassVar[dict[int, tuple[StreamDesign, DesignParts]]] = {}  # by identity, which the design keeps alive

    def __init__(self, design: StreamDesign) -> None:
        self.policy, self.memoryless, self.causal = as_policy(design)
        policy: Any = self.policy
        self.coin: CoinPolicy | None = policy if design.kind == COIN else None
        self.estimator: Estimator | None = None if self.causal is None else self.causal.estimator()
        self.release: Release = self.policy.release
        residual = self.policy.residual_of_block()
        self.block = 0 if residual is None else residual[1]
        self.maps: dict[tuple[int, int], Transformation] = {}
        self._prices: dict[Any, tuple[int, int]] = {}  # at the prior of the design, and at the worst probabilities
        self._plateaus: list[tuple[int, int, int]] = []  # readings, from and to, and what floating point costs there

    @classmethod
    def of(cls, design: StreamDesign) -> DesignParts:
        """Those of a design."""
        found = cls._known.get(id(design))
        if found is None:
            found = design, cls(design)
            while len(cls._known) >= _DESIGNS:
                cls._known.pop(next(iter(cls._known)), None)
            cls._known[id(design)] = found
        return found[1]

    def prices(self, marginal: ArrayLike | None) -> tuple[int, int]:
        """What a draw costs in micro-nats at these probabilities, and a block of readings besides."""
        usual = marginal is None or isinstance(marginal, str)
        if usual and marginal in self._prices:
            return self._prices[marginal]
        residual = self.policy.residual_of_block(marginal)
        draw = 0 if self.memoryless is None else micronats(self.memoryless.leakage_of_draw(marginal))
        found = draw, 0 if residual is None else micronats(residual[0])
        if usual:
            self._prices[marginal] = found
        return found

    def floating_plateau(self, readings: int) -> tuple[int, int, int]:
        """From and to how many readings floating point costs as much as over so many, and what, in micro-nats."""
        for plateau in self._plateaus:
            if plateau[0] <= readings <= plateau[1]:
                return plateau
        floating = self.policy.floating
        if floating is None:
            plateau = (0, _FOR_EVER, 0)
        else:
            due = floating_micronats(floating.nats(readings)) if readings else 0
            # a little early, so that rounding does not decide
            last = floating.readings((FORGIVEN + due / MICRO) * (1.0 - 1e-9))
            plateau = (readings, max(readings, last), due)
        self._plateaus = [plateau, *self._plateaus[: _PLATEAUS - 1]]
        return plateau


def phase_of(options: Plain, secret: bytes) -> int:
    """How long before the origin of its keys the first epoch of a stream begins: as given, or by its key."""
    phase: int | str = options.get("phase", 0)
    if isinstance(phase, int):
        return phase
    found = Uniforms(secret).derive("phase of epochs")
    return int.from_bytes(found[:16], "little") % int(options["epoch"])


def check_floating(design: Any) -> None:
    """Refuse a design on whose lattice floating point would leave more than a hundredth of a nat over the horizon."""
    if "floating is small" in design._cache:
        return
    floating = design.floating
    T = (None if design.costs is None else design.costs.horizon) or 1000
    nats = 0.0 if floating is None else floating.nats(T)
    if not nats <= _MOST_FLOATING:
        raise ConfigurationError(
            f"floating point would leave {nats:.3g} nats of the private value in the first {T} readings "
            f"({floating.how}), more than {_MOST_FLOATING:g}; give the design a coarser resolution= than "
            f"{design.release.lattice.words}, or a narrower range valid="
        )
    design._cache["floating is small"] = True


class Setup:
    """Policy, names, ledger and random source of a stream, and its filters as they are needed."""

    def __init__(self, design: StreamDesign, row: StreamRow, ledger: Ledger | None) -> None:
        self.parts = parts = DesignParts.of(design)
        self.policy, self.causal, self.estimator = parts.policy, parts.causal, parts.estimator
        self.row, self.ledger = row, ledger
        self.clock = Clock(row.options.get("epoch"), phase_of(row.options, row.secret))
        self.cadence = Cadence.stored(row.options)
        self.fill: bool = row.options.get("fill", False)
        self.release: Release = parts.release
        self.timed: bool | None = row.options.get("timed")  # None where the clock makes no epochs
        self.block = parts.block
        self._maps: dict[tuple[int, int], Transformation] = {}
        self._scores: Uniforms | None = None
        self._plateau = (0, 0)  # numbers of readings, from and to, over which floating point costs the same

    @property
    def epochs(self) -> Policy:
        """The policy of a stream that draws anew for each epoch."""
        if self.parts.memoryless is None:
            raise ConfigurationError("this stream decides by its clock, with memory; it has no other epochs")
        return self.parts.memoryless

    def check_keys(self, kind: str) -> None:
        """Refuse keys of a kind that the epochs of this stream are not counted by, and times without a cadence."""
        if self.timed is not None and self.timed != (kind == TIME):
            wanted = "times" if self.timed else "numbers"
            raise ReadingError(f"the epochs of this stream are counted by {wanted}; the key is of the kind {kind!r}")
        if kind == TIME and self.cadence is None:
            raise ReadingError(
                "a key is a time, and this stream has no cadence: readings hours apart would count as consecutive. "
                "Begin it with period=, the time from one reading to the next (a stream of version 0.1 takes one when "
                "it is opened, Stream.open(..., period=60))"
            )

    def with_options(self, options: dict[str, Any]) -> Setup:
        """The same for a stream with other options, such as where its slots begin."""
        other = copy.copy(self)
        other.row, other.cadence = self.row._replace(options=options), Cadence.stored(options)
        return other

    def with_cadence(self, cadence: Cadence) -> Setup:
        """The same for a stream with this cadence."""
        return self.with_options({**self.row.options, "cadence": list(cadence)})

    def fresh_score(self, reading: int, count: int = 1) -> Array:
        """Standard normals (T, d) for readings that have none: they follow from the key and their numbers."""
        if self._scores is None:
            self._scores = Uniforms(Uniforms(self.row.secret).derive("fresh scores"))
        from scipy.special import ndtri

        return np.asarray(ndtri(self._scores.block(reading, count, self.policy.source(0).dim)))

    def check_changes(self) -> None:
        """Refuse, before anything is drawn, values between which a filter cannot go on; and make filters ready.

        A refusal later would depend on the private value, and on the draw. A reading that is missing is tried too.
        """
        values, pseudo = len(self.policy.values), len(self.policy.pseudo)
        first = self.mapping(0, 0)
        states = [first.start()]
        with contextlib.suppress(MissingReadingError):  # a gap is then refused whatever the values are
            states.append(first.apply(first.start(), np.full((1, first.dim), np.nan))[0])
        for pair in [(i, 0) for i in range(1, values)] + [(0, j) for j in range(1, pseudo)]:
            for state in states:
                hand_over_state(first, self.mapping(*pair), state)
                hand_over_state(self.mapping(*pair), first, state)
        if values * pseudo <= _MAPS:
            for i in range(values):
                for j in range(pseudo):
                    self.mapping(i, j)  # so that the first use of a pair takes no longer than others

    def mapping(self, source: int, column: int) -> Transformation:
        """The filter from a private value to a pseudo value, by position."""
        known = self._maps.get((source, column)) or self.parts.maps.get((source, column))
        if known is None and self.parts.coin is not None:
            known = self._maps[source, column] = self.parts.coin.mapping(column, self.row.secret)
        if known is None:
            # nothing is read before the private value is given, so that any model serves until then
            one, other = self.policy.source(max(source, 0)), self.policy.target(column)
            secret, fresh = self.row.secret, self.policy.fresh
            if self.row.options.get("gaps") == WITHHOLD:
                known = restarting_map(one, other, secret, LARGEST_SCORE, fresh)
            else:
                known = transformation(one, other, False, secret, LARGEST_SCORE, fresh)
            # one that needs no key serves all streams of the design
            maps = self.parts.maps if isinstance(known, Pair) else self._maps
            if len(maps) >= _MAPS:
                maps.clear()
            maps[source, column] = known
        return known

    def charge(self, kind: str, cost: int, epoch: int, forced: bool = False) -> bool:
        """Book micro-nats, if the budget of the room has room for them; without a ledger nothing is booked."""
        if self.ledger is None or (cost == 0 and kind != DRAW):
            return True
        return self.ledger.charge(Entry(self.row.id, self.row.room, epoch, kind, cost), forced)

    def floating_charge(self, before: int, after: int) -> int:
        """Micro-nats that floating point costs more after so many readings than before them.

        The bound is one for all readings of the stream together, and grows with their square.
        """
        first, last = self._plateau
        if first <= before and after <= last:
            return 0
        start = self.parts.floating_plateau(before)[2] if before else 0
        first, last, due = self.parts.floating_plateau(after)
        self._plateau = (max(first, 1), last)
        return due - start

    def draw_source(self, at: Position, number: int, generation: int, tick: int | None) -> DrawSource:
        """The random bits of a draw, by its index: see `understudy.stream.randomness`.

        A stream that was begun by version 0.2 or before keeps the index of then: `number` of the epoch, and readings.
        """
        if self.row.options.get("index") != CLOCK_INDEX:
            return DrawSource(self.row.secret, number, at.readings)
        if self.clock.length is None:
            tick = 0
        elif tick is None:
            tick = BEFORE_CLOCK if at.tick is None else at.tick
        return DrawSource.at_tick(self.row.secret, generation, tick)

    def holds(self) -> bool:
        """Whether the room keeps its last draw when the budget is spent."""
        return self.ledger is not None and self.ledger.holds(self.row.room)

    @property
    def draws_released(self) -> bool:
        """Whether epochs without an output pass without a draw: not where streams share theirs, one for one."""
        row = self.row
        if row.options.get("draws") != RELEASED or "draw_of" in row.options:
            return False
        return self.ledger is None or all(r.options.get("draw_of") != row.name for r in self.ledger.room(row.room))

    def leading_draw(self, after: int | None = None) -> EpochRow | None:
        """The draw of the stream that leads the room, if one does: its last one, or the next one after a number."""
        leader = self.row.options.get("draw_of")
        if leader is None or self.ledger is None:
            return None
        other = self.ledger.stream(leader)
        if other is None:
            raise LedgerError(f"the ledger has no stream of the name {leader!r} to share a draw with")
        draw = self.ledger.epoch(other.id, after)
        if after is not None and draw.epoch <= after:
            raise LedgerError(f"the stream {leader!r}, whose draw is shared, has not begun this epoch; it goes first")
        return draw

    def cut_short(self, outputs: Array) -> BudgetError:
        """The error for a budget that was spent in the middle of a call, with the outputs (T, d) before that."""
        count = len(outputs)
        return BudgetError(
            f"the budget of {self.row.room!r} is spent: the first {count} readings of this call are recorded, and "
            f"their outputs are in the attribute `released` of this error; reading {count} needs a decision beyond it",
            outputs[:, 0] if outputs.shape[1] == 1 else outputs,
        )

    def no_budget(self) -> BudgetError:
        """The error for a budget that does not allow what is asked."""
        return BudgetError(f"the budget of {self.row.room!r} is spent; nothing more is released")


# Draws: a new one for an epoch, a decision with memory, or the draw of another stream -----------------


class EpochDraw(NamedTuple):
    """A draw: its epoch, what it cost in micro-nats, the memory of the policy after it, and its generation."""

    epoch: EpochRow
    cost: int
    memory: Memory | None = None
    generation: int = 0

    def __repr__(self) -> str:
        return f"EpochDraw({self.epoch.epoch})"


class EpochRequest(NamedTuple):
    """What a new epoch is begun with."""

    source: int
    """The private value, by position."""
    marginal: ArrayLike | None = None
    """Probabilities of the private values at this epoch; None where they are unknown."""
    tick: int | None = None
    """The number of the epoch by the clock; None where no clock asks for it."""
    again: bool = False
    """Whether it is drawn again although no clock asks for it: that begins a generation."""


def first_draw(setup: Setup, source: int) -> EpochDraw:
    """The draw that a stream begins with, charged at the prior of the design.

    A policy with memory decides at the first reading, whose time it must know; and a stream whose private value nobody
    has given yet draws at the first reading after it was. Until then a value is set down that nothing is read under,
    and that says nothing.
    """
    if setup.causal is not None:
        setup.check_changes()
        return EpochDraw(placeholder(source), 0)
    leading = setup.leading_draw()
    if leading is not None and not leading.is_placeholder:
        return EpochDraw(leading._replace(source=source, held=False), 0)
    if leading is not None or source == UNKNOWN:
        return EpochDraw(placeholder(source), 0)
    cost = setup.parts.prices(DESIGN_PRIOR)[0]
    if not setup.charge(DRAW, cost, 0):
        raise BudgetError(f"the budget of {setup.row.room!r} does not allow the draw; nothing is released")
    bits = setup.draw_source(Position(), 0, 0, None)
    return EpochDraw(EpochRow(0, source, setup.epochs.draw(source, bits), False), cost)


# Private values: one for a whole batch, one for each reading, or estimated from the readings ----------


Thetas: TypeAlias = Value | list[Value] | NDArray[Any]
"""A private value, or one for each reading: a list, an array, a column."""
Sources: TypeAlias = Sequence[int] | Ints
"""Private values by position, one for each reading."""


def as_sources(policy: PolicyModels, theta: Thetas, count: int) -> Sources:
    """The private values of `count` readings: `theta` is a value of the policy, or holds one for each reading."""
    column = isinstance(theta, list) or hasattr(theta, "to_numpy") or (isinstance(theta, np.ndarray) and theta.ndim > 0)
    try:
        row = policy.row(theta)  # type: ignore[arg-type]  # an array can be a value too
    except ConfigurationError:
        if not column:
            raise
    else:
        return [row] if count == 1 else np.full(count, row)
    values = _as_column(theta)
    if values.ndim != 1 or len(values) != count:
        raise ReadingError(f"theta has the shape {values.shape}; it must be a value, or hold one for each of {count}")
    starts = range(count) if values.dtype == object else [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    rows = []
    for i in starts:
        try:
            rows.append(policy.row(values[i].item() if isinstance(values[i], np.generic) else values[i]))
        except (ConfigurationError, TypeError, ValueError):
            raise ReadingError(f"theta of reading {i} is none of the values of the design") from None
    return np.repeat(rows, np.diff([*starts, count]))


def _as_column(theta: Thetas) -> NDArray[Any]:
    """Values as an array of one axis; anything but numbers, truths and texts as objects, one for each reading."""
    if isinstance(theta, np.ma.MaskedArray) and np.ma.is_masked(theta):
        first = int(np.flatnonzero(np.ma.getmaskarray(theta).ravel())[0])
        raise ReadingError(f"theta of reading {first} is masked; each reading needs a value")
    if hasattr(theta, "to_pylist"):  # an arrow array
        theta = theta.to_pylist()
    elif hasattr(theta, "to_numpy"):
        theta = theta.to_numpy()
    if isinstance(theta, np.ndarray):
        return np.asarray(theta)
    listed = list(theta)  # type: ignore[arg-type]  # a list by now
    kinds = {type(value) for value in listed}
    if len(kinds) == 1 and kinds <= {int, float, bool, str}:
        return np.array(listed)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


# Going on under other models: what becomes of a filter's state when a value has changed ---------------


def hand_over_state(old: CausalMap, new: CausalMap, state: State) -> State:
    """The state of `old`, as one that `new` goes on from; refuses where there is no such thing.

    A state that the old model has already moved on must not be handed to a model that moves otherwise: a hidden Markov
    chain is moved when a reading has been seen, and a gap of a `Markov` model is bridged after its end. Such a change
    is refused, where `Family.along`, which keeps what is needed, goes on.

    >>> import understudy as us
    >>> from understudy.transform.core import transformation
    >>> a, b = (us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=v) for v in (0.0, 1.0))
    >>> old, new = transformation(a, b, False, None), transformation(b, a, False, None)
    >>> len(hand_over_state(old, new, old.start()))
    5
    """
    if isinstance(old, Pair) and isinstance(new, Pair):
        if (old.n, old.m, old.dim) == (new.n, new.m, new.dim):
            return old.carried(state)
    elif isinstance(old, Chain) and isinstance(new, Chain):
        if len(old.maps) == len(new.maps):
            return tuple(hand_over_state(a, b, part) for a, b, part in zip(old.maps, new.maps, state, strict=True))
    elif isinstance(old, RestartingMap) and isinstance(new, RestartingMap):
        if old.refill == new.refill:
            # whether a colouring could be handed over is asked although it may not have begun: otherwise a change
            # would be refused or not by the moment at which it comes
            left, source, target, *due = state
            coloured = hand_over_state(old.target, new.target, old.target.start() if target is None else target)
            source = hand_over_state(old.source, new.source, source)
            return (left, source, None if target is None else coloured, *due)
    elif isinstance(old, Colouring) and isinstance(new, Colouring):
        return hand_over_state(old.unrounded, new.unrounded, state)
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


def _check_not_moved(one: Model, other: Model, state: State) -> None:
    """Refuse a state in which `one` has done already what is for `other` to do."""
    if one is other:
        return
    moves = getattr(one, "transition", None)
    if isinstance(moves, np.ndarray) and not np.array_equal(moves, getattr(other, "transition", np.empty(0))):
        raise ModelError(
            "the hidden state was moved by the transition of the old value already, and the new value has another one; "
            "hidden Markov models between which a stream switches must share their transition"
        )
    if getattr(one, "defers_gaps", False):
        inner = state[1] if len(state) == 2 else state  # with atoms, after the number of readings
        if inner[2] and getattr(one, "gap", None) is not getattr(other, "gap", None):
            raise ModelError(
                "the last readings are missing, and no exact law across a gap is known where the value changes in it; "
                "switch after the next reading"
            )


# One transaction: readings are filtered, charged and made ready to be recorded ------------------------


class StreamState(NamedTuple):
    """A stream at one moment: its draw, its position, and the filter between the two values."""

    epoch: EpochRow
    position: Position
    map: Transformation

    def __repr__(self) -> str:
        return f"StreamState({self.position.readings} readings)"


def first_state(setup: Setup, source: int) -> StreamState:
    """A stream at its beginning, with its first draw."""
    draw = first_draw(setup, source)
    causal = setup.mapping(source, draw.epoch.draw)
    position = Position(
        source=source,
        per_block=setup.parts.prices(DESIGN_PRIOR)[1],
        epoch=draw.epoch.epoch,
        charged=draw.cost,
        serial=1,
        state=causal.start(),
    )
    return StreamState(draw.epoch, position, causal)


class Batch(NamedTuple):
    """Readings that have not been here before, of a call of which `done` have."""

    Y: Array
    """(T, d)."""
    kind: str
    """Of their keys."""
    numbers: Sequence[int] | Ints
    """Their keys."""
    sources: Sources
    done: int = 0


class Transaction:
    """One batch, one reading or one change.

    With `recorded` it is a replay: that function knows the draws, and nothing is charged or recorded again.
    """

    def __init__(self, setup: Setup, state: StreamState, recorded: Callable[[int], EpochRow] | None = None) -> None:
        self.setup, self.live, self._recorded = setup, state, recorded
        self._serial = state.position.serial + 1  # one number a call, whatever happens in it
        self.outputs: list[OutputRow] = []  # for the ledger
        self.filled: list[tuple[int, Array]] = []  # outputs of slots that stayed empty, by the times of the slots
        self.readings: Ints | None = None  # of the stream after each row of a batch

    # Readings --------------------------------------------------------------------------------------------

    def batch(self, given: Batch, keep: bool = True) -> Array:
        """Filter and release a batch, epoch by epoch.

        Outputs of readings that come late into a full slot are NaN, and so are those of readings that are missing.
        """
        Y, kind, numbers, sources, done = given
        keys = np.asarray(numbers, dtype=np.int64)
        steps, times = self._slots(kind, keys, done)
        setup, release = self.setup, self.setup.release
        self.readings = self.live.position.readings + np.cumsum(steps)
        taken = np.flatnonzero(steps)
        if len(taken) < len(Y):
            Y, times, sources = np.ascontiguousarray(Y[taken]), times[taken], np.asarray(sources)[taken]
        skipped = steps[taken] - 1
        outside = release.outside(Y)
        fresh = outside if not setup.fill else outside | np.isnan(Y).any(axis=1)
        Y = release.admitted(Y, done + taken)
        ticks = self._ticks(times, np.isnan(Y).any(axis=1) & ~fresh)
        if setup.estimator is not None:
            # a glitch tells an estimator nothing
            seen = np.where(outside[:, None], np.nan, Y) if outside.any() else Y
            sources = self._estimate(setup.estimator, seen, ticks)
        out, at = np.empty(Y.shape), 0
        for start, stop in _runs(np.asarray(sources), ticks, np.cumsum(skipped)):
            before, place = self.live, done + int(taken[start])
            if skipped[start]:
                self.skip(int(skipped[start]), kind, place)
            if not self.prepare(int(ticks[start]), int(sources[start]), place, start):
                self.live = before  # the gap before a decision that is refused has not been passed
                break
            self._filter(Y[start:stop], fresh[start:stop], out[start:stop], kind, int(keys[taken[stop - 1]]))
            at = stop
        out = release.rounded(out[:at], out[:at])
        if keep and setup.ledger is not None:
            self.outputs += to_stored(setup.row.id, keys[taken[:at]].tolist(), out)
        if len(taken) == len(keys):
            return out
        whole = np.full((len(keys) if at == len(taken) else int(taken[at]), Y.shape[1]), np.nan)
        whole[taken[:at]] = out
        return whole

    def few(self, values: list[float], kind: str, numbers: list[int], sources: Sources, done: int) -> list[float]:
        """The same for a few finite readings of one channel: one by one where they need their filter alone."""
        setup, at, count = self.setup, 0, len(values)
        outs: list[float] = []
        times = self._times_of_few(values, kind, numbers)
        if times is None:
            outs += self.batch(Batch(np.array(values)[:, None], kind, numbers, sources, done))[:, 0].tolist()
            return outs
        rows = sources if isinstance(sources, list) else np.asarray(sources).tolist()
        while at < count:
            source, tick, stop = rows[at], setup.clock.tick(times[at]), at + 1
            if not self.prepare(tick, source, done + at, at):
                break
            while stop < count and rows[stop] == source and setup.clock.tick(times[stop]) == tick:
                stop += 1
            step, state, leave = self.live.map.step, self.live.position.state, setup.release.one
            for y in values[at:stop]:
                state, out = step(state, y)
                outs.append(leave(out))  # type: ignore[arg-type]  # one channel
            released = sum(out == out for out in outs[at:])
            self._advance(state, stop - at, kind, numbers[stop - 1], released)
            at = stop
        if setup.ledger is not None:
            stream = setup.row.id
            self.outputs += [
                (stream, key, y, output_checksum(stream, key, y)) for key, y in zip(numbers, outs, strict=False)
            ]
        return outs

    def _times_of_few(self, values: list[float], kind: str, numbers: list[int]) -> list[int] | None:
        """What the clock counts readings by; None where they need more than their filter."""
        setup, live = self.setup, self.live
        bounds, cadence, last = setup.release.single, setup.cadence, live.position.last
        if bounds is None or setup.estimator is not None or min(values) < bounds[0] or max(values) > bounds[1]:
            return None
        if isinstance(live.map, RestartingMap) and (setup.fill or live.map.is_behind(live.position.state)):
            return None  # outputs may be due from a filter that has to withhold: they come from fresh scores
        if cadence is None:
            return numbers
        # with a cadence: one reading that has a time, in the next slot
        if len(values) > 1 or cadence.origin is None or kind != TIME or last is None:
            return None
        slot = cadence.slot(numbers[0])
        time = cadence.time(slot)
        return [time] if slot == cadence.slot(last) + 1 and abs(numbers[0] - time) <= cadence.tolerance else None

    def _filter(self, Y: Array, fresh: Mask, out: Array, kind: str, last: int) -> None:
        """Readings in a row, in one epoch and of one value; those that are `fresh` are coloured from fresh scores."""
        causal, state, first = self.live.map, self.live.position.state, self.live.position.readings
        single = fresh
        if isinstance(causal, RestartingMap) and (self.setup.fill or fresh.any() or causal.is_behind(state)):
            single = np.ones_like(fresh)
        empty = fresh & np.isnan(Y).any(axis=1) if fresh.any() else fresh
        for start, stop in _runs(single, empty):
            if empty[start]:
                state, out[start:stop] = causal.fresh(state, self.setup.fresh_score(first + start, stop - start))
            elif single[start]:
                for i in range(start, stop):
                    state, out[i] = self._filter_one(causal, state, Y[i : i + 1], bool(fresh[i]), first + i)
            else:
                state, out[start:stop] = causal.apply(state, np.ascontiguousarray(Y[start:stop]))
        self._advance(state, len(Y), kind, last, int((~np.isnan(out).any(axis=1)).sum()))

    def _filter_one(
        self, causal: Transformation, state: State, row: Array, fresh: bool, reading: int
    ) -> tuple[State, Array]:
        """One reading (1, d) that needs, or may need, an output from fresh scores: it is out of range, or withheld."""
        missing = bool(np.isnan(row).any())
        z = self.setup.fresh_score(reading)
        if isinstance(causal, RestartingMap):
            if fresh:
                return causal.beyond(state, z[0])
            due = self.setup.fill or (causal.is_behind(state) and not missing)
            state, out = causal.apply(state, np.ascontiguousarray(row))
            withheld = due and bool(np.isnan(out).any())
            return causal.colour(state, z[0]) if withheld else (state, out[0])
        try:
            state, out = causal.fresh(state, z)
            return state, out[0]
        except MissingReadingError:
            pass
        # a source that cannot miss a reading is given the end of the range, on the grid of the models if they have one:
        # to refuse would tell of the reading
        release = self.setup.release
        row = np.clip(row, release.low, release.high)
        for i, grid in enumerate(release.grids):
            if grid is not None:
                row[:, i] = grid.round(row[:, i])
        state, out = causal.apply(state, row)
        return state, out[0]

    def skip(self, count: int, kind: str, position: int) -> None:
        """Slots that stayed empty, for both predictors; in a stream that fills them each has an output of its own."""
        causal, at, cadence = self.live.map, self.live.position, self.setup.cadence
        if self.setup.fill:
            self._fill(count, kind, position)
            return
        state = causal.leap(at.state, count) if count > _FEW_SLOTS else None
        if state is None:
            if count > LONGEST_GAP:
                raise ReadingError(
                    f"{count} slots stayed empty before reading {position}, more than the {LONGEST_GAP} that these "
                    "models move through; begin a stream of another name"
                )
            state = _after_missing(causal, at.state, count)
        last = at.last
        if cadence is not None and last is not None:
            last = cadence.time(cadence.slot(last) + count)
        self._advance(state, count, kind, last, 0)

    def _fill(self, count: int, kind: str, position: int) -> None:
        """Outputs for empty slots, from fresh scores; recorded under the times of the slots."""
        setup, last = self.setup, self.live.position.last
        if count > _CHUNK or setup.cadence is None or last is None:
            raise ReadingError(
                f"{count} slots stayed empty before reading {position}; at most {_CHUNK} are filled at once: release "
                "them on schedule, or begin a stream of another name"
            )
        times = setup.cadence.time(setup.cadence.slot(last) + 1 + np.arange(count))
        out = np.empty((count, self.live.map.dim))
        ticks = setup.clock.ticks(times)
        for start, stop in _runs(ticks):  # epochs begin by the clock, whether slots are empty or not
            if not self.prepare(int(ticks[start]), self.live.position.source, position):
                raise setup.no_budget()
            empty = np.full((stop - start, out.shape[1]), np.nan)
            self._filter(empty, np.ones(stop - start, dtype=bool), out[start:stop], kind, int(times[stop - 1]))
        out = setup.release.rounded(out, out)
        self.filled += zip(times.tolist(), out, strict=True)
        if setup.ledger is not None:
            self.outputs += to_stored(setup.row.id, times.tolist(), out)

    def _slots(self, kind: str, keys: Ints, done: int) -> tuple[Ints, Ints]:
        """How many slots each reading goes on, 0 where it comes late into a full one; and the times of their slots.

        The first time of all is the origin of the slots. Without a cadence each reading goes on by one.
        """
        cadence = self.setup.cadence
        if kind != TIME or cadence is None:
            return np.ones(len(keys), dtype=np.int64), keys
        if cadence.origin is None:
            cadence = cadence._replace(origin=int(keys[0]))
            self.setup = self.setup.with_cadence(cadence)
        slots = cadence.slots(keys, done)
        return cadence.steps(slots, self.live.position.last), cadence.time(slots)

    def _ticks(self, times: Ints, silent: Mask) -> Ints:
        """The epochs of readings by the clock; one without an output stays in the epoch before, and draws nothing."""
        setup, before = self.setup, self.live.position.tick
        ticks = setup.clock.ticks(times)
        if setup.clock.length is None or not silent.any() or not setup.draws_released:
            return ticks
        last = np.maximum.accumulate(np.where(silent, -1, np.arange(len(ticks))))
        return np.where(last >= 0, ticks[last], ticks[0] if before is None else before)

    def take_cadence(self, cadence: Cadence) -> None:
        """A cadence for a stream that has none, from its last reading on."""
        self.setup = self.setup.with_cadence(cadence._replace(origin=self.live.position.last))

    def _estimate(self, estimator: Estimator, Y: Array, ticks: Ints) -> Ints:
        """Private values that the estimator of the design finds in the readings, by position."""
        at = self.live.position
        memory, state = at.memory or (None, None)
        tick, rows = at.tick, np.empty(len(Y), dtype=np.int64)
        for i, (y, now) in enumerate(zip(Y, ticks.tolist(), strict=True)):
            moves = 0 if state is None or tick is None else now - tick
            state, rows[i] = estimator.step(estimator.start(now) if state is None else state, y, moves)
            tick = now
        self._move(at._replace(memory=(memory, state)))
        return rows

    def _advance(self, state: State, count: int, kind: str, last: int | None, outputs: int) -> None:
        """The state after so many readings, of which so many have an output."""
        at, setup = self.live.position, self.setup
        block, cost = at.block, 0
        released = at.readings if setup.block else at.block
        if setup.block:
            begun, block = blocks_begun(block, count, setup.block)
            cost = begun * at.per_block
        else:
            block += outputs  # where no blocks are charged, this counts what floating point is charged for
        floating = setup.floating_charge(released, released + outputs)
        for due in (cost, floating):
            if due and not self._charge(RESIDUAL, due):
                raise setup.no_budget()
        after = Position(
            at.readings + count, last, kind, at.source, at.tick, block, at.per_block, at.stopped, at.epoch,
            at.charged + cost + floating, self._serial, at.generation, at.memory, state,
        )  # fmt: skip
        self._move(after)

    def _charge(self, kind: str, cost: int, epoch: int | None = None, forced: bool = False) -> bool:
        if self._recorded is not None:
            return True
        return self.setup.charge(kind, cost, self.live.position.epoch if epoch is None else epoch, forced)

    # Epochs and values -----------------------------------------------------------------------------------

    def prepare(self, tick: int | None, source: int, position: int, released: int = 0) -> bool:
        """A new epoch if `tick` of the clock is another one, or another private value within the epoch.

        Where the budget does not allow the epoch, the call is refused. But what a policy with memory may still give
        away depends on its draws, and a refusal of all of them would tell of them: what comes before the decision
        that is refused, `released` readings of this call, is recorded and goes out. Then this is False.
        """
        at, setup = self.live.position, self.setup
        if source == UNKNOWN:
            raise ReadingError(f"reading {position}: the private value has not been told; give theta with the readings")
        tick = None if setup.clock.length is None else tick
        waits = setup.causal is None and self.live.epoch.is_placeholder
        if waits or (tick is not None and tick != at.tick):
            if not waits and at.tick is None and at.readings == 0 and setup.causal is None:
                self._move(at._replace(tick=tick))  # the draw that the stream began with is of its first epoch
            elif self.next_epoch(EpochRequest(source, DESIGN_PRIOR if waits else None, tick)):
                return True
            elif released and setup.causal is not None:
                return False
            else:
                raise BudgetError(
                    f"the budget of {setup.row.room!r} is spent, and reading {position} begins an epoch that needs a "
                    "new draw; nothing of this call is released (readings before it can be given alone)"
                )
        if at.stopped:
            raise setup.no_budget()
        if source != at.source:
            self.switch(source)
        return True

    def switch(self, source: int, draw: int | None = None) -> None:
        """Another private value; the same pseudo value, or one that was drawn elsewhere."""
        epoch = self.live.epoch if draw is None else self.live.epoch._replace(source=source, draw=draw)
        causal = self.setup.mapping(source, epoch.draw)
        position = self.live.position._replace(source=source, state=self._state_under(causal))
        self.live = StreamState(epoch, position, causal)

    def _state_under(self, causal: Transformation) -> State:
        """The state as another filter goes on from it; before the first reading there is nothing to go on from."""
        at = self.live.position
        return hand_over_state(self.live.map, causal, at.state) if at.readings else causal.start()

    def stop(self) -> None:
        """Nothing more until an epoch begins."""
        self._move(self.live.position._replace(stopped=1))

    def next_epoch(self, request: EpochRequest) -> bool:
        """Draw again and charge it; False if the budget does not allow it and says to stop."""
        setup, at, source = self.setup, self.live.position, request.source
        setup.mapping(source, self.live.epoch.draw)  # a value without a model is refused before a draw
        draw = self._draw(request)
        if draw is None:
            return False
        causal = setup.mapping(source, draw.epoch.draw)
        position = at._replace(
            source=source,
            tick=at.tick if request.tick is None else request.tick,
            block=0 if setup.block else at.block,
            per_block=setup.parts.prices(request.marginal)[1],
            stopped=0,
            epoch=draw.epoch.epoch,
            charged=at.charged + draw.cost,
            generation=draw.generation,
            memory=draw.memory,
            state=self._state_under(causal),
        )
        if setup.ledger is not None and self._recorded is None:
            setup.ledger.add_epoch(setup.row.id, draw.epoch)
        self.live = StreamState(draw.epoch, position, causal)
        return True

    def _draw(self, request: EpochRequest) -> EpochDraw | None:
        """The draw of a new epoch, or a decision with memory; None if the budget does not allow it and says to stop.

        What a decision will give away follows from the draws before it, and so does whether the budget allows it. Where
        it does not and the room holds, the draw is one at no cost, or the decision is made without a look at theta.
        """
        setup, at, source, policy = self.setup, self.live.position, request.source, self.setup.causal
        number, generation = at.epoch + 1, at.generation
        row = None if self._recorded is None else self._recorded(number)
        leading = setup.leading_draw(at.epoch)
        if leading is not None:
            return EpochDraw(row or leading._replace(source=source, held=False), 0, None, generation)
        memory: Memory = ()
        if policy is None:
            kind, cost = DRAW, setup.parts.prices(request.marginal)[0]
            choose: Callable[[int, RandomBits], int] = setup.epochs.draw
            quiet: Callable[[], int | None] = partial(setup.epochs.draw_at_no_cost, self.live.epoch.draw)
        else:
            memory = self._memory_at(policy, request.tick or 0)
            after, before = (micronats(policy.path_leakage(memory, next_too)) for next_too in (True, False))
            kind, cost = DECISION, after - before
            choose, quiet = partial(policy.choose, memory), partial(policy.quiet, memory)
        if row is None and self._charge(kind, cost, number):
            generation += request.again
            bits = setup.draw_source(at, number, generation, request.tick)
            row = EpochRow(number, source, choose(source, bits), False)
        elif row is None and setup.holds() and (column := quiet()) is not None:
            row = EpochRow(number, source, column, True)
        if row is None:
            return None
        cost = 0 if row.held else cost
        if policy is None:
            return EpochDraw(row, cost, None, generation)
        memory = policy.after(memory, row.draw, row.held)
        return EpochDraw(row, cost, memory if setup.estimator is None else (memory, at.memory[1]), generation)

    def _memory_at(self, policy: CausalPolicy, tick: int) -> Memory:
        """The memory before a decision at this number of the clock."""
        at = self.live.position
        memory = at.memory[0] if self.setup.estimator is not None else at.memory
        if memory is None or at.tick is None:
            return policy.opening(tick)
        return policy.advance(memory, tick - at.tick - 1)

    def after_rollback(self, seen: GuardRecord, source: int) -> None:
        """Go on from a position that is older than what was released: what is lost counts as missing, and is charged.

        What was charged since is booked again, and a new draw is made. Keys that were used are not used again.
        """
        self.book_lost(seen)
        at = self.live.position
        gap = max(0, seen.readings - at.readings)
        try:
            state = _after_missing(self.live.map, at.state, gap)
        except MissingReadingError:
            raise RollbackError(
                f"the ledger has lost {gap} readings that were released, and the models have no exact law across "
                "missing ones; begin a stream of another name"
            ) from None
        last = at.last if seen.last is None else seen.last
        self._serial = max(at.serial, seen.serial) + 1
        self._move(
            at._replace(
                state=state,
                readings=at.readings + gap,
                last=last,
                kind=seen.kind or at.kind,
                tick=None if last is None else self.setup.clock.tick(last),
                generation=max(at.generation, seen.generation),
            )
        )
        if not self.next_epoch(EpochRequest(source, again=True)):
            raise self.setup.no_budget()

    def book_lost(self, seen: GuardRecord) -> None:
        """Charge again what the ledger has lost of charges."""
        at = self.live.position
        lost = max(0, seen.charged - at.charged)
        self._charge(LOST, lost, forced=True)
        self._move(at._replace(charged=at.charged + lost))

    def finish(self) -> StreamState:
        """The end of the work, as the next position."""
        at = self.live.position
        if at.serial != self._serial:
            self._move(at._replace(serial=self._serial))
        return self.live

    def _move(self, position: Position) -> None:
        self.live = StreamState(self.live.epoch, position, self.live.map)


def _runs(*columns: Ints | Mask) -> Iterable[tuple[int, int]]:
    """First and end of the rows over which no column changes.

    >>> list(_runs(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 6])))
    [(0, 2), (2, 3), (3, 4)]
    """
    changes = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    ends = [*(np.flatnonzero(changes) + 1).tolist(), len(columns[0])] if len(columns[0]) else []
    return zip([0, *ends], ends, strict=False)


def _after_missing(causal: CausalMap, state: State, count: int) -> State:
    """The state after so many missing readings."""
    for done in range(0, count, _CHUNK):
        state, _ = causal.apply(state, np.full((min(_CHUNK, count - done), causal.dim), np.nan))
    return state


# What is true of a stream, and what is recorded -------------------------------------------------------


class Recorder:
    """A stream as its setup and its newest state; each piece of work becomes true when, and only when, it is recorded.

    `Stream` and `FileRun` share one.
    """

    def __init__(self, setup: Setup, state: StreamState) -> None:
        self.setup, self.state = setup, state
        self.watch = Watch(setup.release) if setup.release.watched else None
        self.guard = threading.RLock() if setup.ledger is None else setup.ledger.guard
        self.dim = state.map.dim

    def current(self) -> StreamState:
        """Where the stream stands; read anew if a call did not come to its end, or went through another object."""
        with self.guard:
            ledger, row = self.setup.ledger, self.setup.row
            if ledger is not None:
                ledger.check_turn()
            if ledger is not None and ledger.serial(row.id) != self.state.position.serial:
                known = ledger.stream(row.name)
                if known is not None and known.options != row.options:
                    self.setup = self.setup.with_options(known.options)  # a cadence that another object has begun
                epoch, at = ledger.standing(row)
                self.state = StreamState(epoch, at, self.setup.mapping(at.source, epoch.draw))
            return self.state

    def record(self, work: Callable[[Transaction], _T], state: StreamState | None = None) -> _T:
        """Do some work in one transaction, from where the stream stands or from a given state."""
        run, ledger = Transaction(self.setup, self.current() if state is None else state), self.setup.ledger
        if ledger is None:
            result = work(run)
            self.state, self.setup = run.finish(), run.setup
            return result

        def recorded() -> _T:
            result = work(run)
            run.finish()
            if run.setup is not self.setup:
                ledger.set_options(run.setup.row)
            ledger.put(self.setup.row.id, run.outputs, run.live.position)
            return result

        with self.guard:
            result = ledger.record(recorded)
            ledger.when_abandoned(partial(self._restore, self.state, self.setup))
            self.state, self.setup = run.live, run.setup
        return result

    def _restore(self, state: StreamState, setup: Setup) -> None:
        self.state, self.setup = state, setup

    def sources(self, theta: Thetas | None, count: int) -> Sources:
        """The private values of readings, by position; without any, the one that was given last."""
        if theta is None:
            return [self.state.position.source] if count == 1 else np.full(count, self.state.position.source)
        self.refuse_value()
        return as_sources(self.setup.policy, theta, count)

    def refuse_value(self) -> None:
        """Refuse a private value where the design estimates it."""
        if self.setup.estimator is not None:
            raise ConfigurationError("this design estimates the private value from the readings; theta is not for it")
