"""A fleet: thousands of rooms of one design, stepped together, in columns.

A `Stream` is an object with a filter; a `Fleet` is a table with a row for each room. One call takes readings of many
rooms, in any order, and gives each the output that a stream of that room, begun untold under the same key, would give:
bit for bit. What a room needs is a few numbers: which value its readings follow and which one its outputs, the tick of
its clock, its last key, what was charged, and the state of its filter.

**Draws that no retry can change.** All random bits follow from a master key (`understudy.stream.randomness`). A draw
looks at the private value once, at the first key of its tick. What it looked at and what came out is a *decision*. It
is inserted into one durable table if it is absent, and read back, before anything is disguised; so whoever comes twice,
after a crash, a retry or with an older state, finds the decision that stands. A fleet without such a table refuses.

**Keys** of a room only grow. A reading whose key does not come after the last committed one gets no output, ever.
Epochs come by the clock, or not at all.

**Readings that cannot be used** are counted by a `Rule`, and the other rooms go on. Nothing in a message, a count or
a repr tells of a value, a draw or a reading.

Gauss-Markov models run in one compiled loop (`understudy.transform.kalman_pair.RoomPairs`); autoregressions, hidden
Markov models, independent readings and models on a grid go link by link, all rooms side by side
(`understudy.transform.rooms`). Other models, and what these cannot do together, run room by room, by the engine of
streams, behind the same call.
"""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Ints, Json, Mask, Numbers, Plain, Value
from understudy.errors import (
    ConfigurationError,
    LedgerError,
    MissingReadingError,
    ModelError,
    ReadingError,
    SnapshotError,
    UnderstudyError,
)
from understudy.laws.uniforms import ManyUniforms, Uniforms
from understudy.models.gauss_markov import gauss_markov
from understudy.stream.cadence import NUMBER, TIME, Cadence, Duration, as_keys
from understudy.stream.engine import (
    CLOCK_INDEX,
    COIN,
    DESIGN_PRIOR,
    KEYED,
    RELEASED,
    WITHHOLD,
    Batch,
    CausalPolicy,
    Clock,
    Memory,
    Setup,
    StreamDesign,
    StreamState,
    Transaction,
    check_floating,
    phase_of,
)
from understudy.stream.ledger import Ledger, allowance
from understudy.stream.ledger_file import (
    MICRO,
    EpochRow,
    Position,
    StreamRow,
    check_name,
    damage_error,
    decision_checksum,
    digest,
    micronats,
    output_mark,
    seal,
    unseal,
)
from understudy.stream.randomness import DrawSource, MasterKey
from understudy.stream.release import ROW, Watch, is_coarse
from understudy.stream.rollback_guard import RollbackGuard, rollback_error
from understudy.stream.snapshot import dump, load, same_arithmetic, versions
from understudy.transform.gaps import RestartingMap, refill_between
from understudy.transform.kalman_pair import RoomPairs, RoomReadings, RoomState
from understudy.transform.readings import State, Transformation
from understudy.transform.rooms import ALONE, RoomFilters

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET = 1024
"""Rooms that a ledger stores as one piece."""
_NONE = -(2**63)  # no key, no tick
_FEW_SLOTS = 4096  # that stay empty: up to then the compiled loop moves through them
_SETUPS = 16_384  # of rooms that run by themselves, kept
_UNTOLD, _UNKNOWN = -1, -2
_LARGEST_TABLE = 1 << 16
_FORMAT = "understudy fleet"
_VERSION = 1


class Rule(IntEnum):
    """What became of a reading: it was taken, or the rule by which it was not."""

    TAKEN = 0
    """It has an output; a missing one has none, and counts."""
    RANGE = 1
    """The filter would have left the range of double precision."""
    COARSE = 2
    """64 readings in a row lie on a coarse grid where full doubles are declared."""
    UNKNOWN_ROOM = 3
    """Nobody has admitted the room."""
    UNKNOWN_VALUE = 4
    """Its private value is none of the design's."""
    UNTOLD = 5
    """No private value has been given for the room yet."""
    DUPLICATE = 6
    """Its key, or its slot, has been here."""
    LATE = 7
    """Its key comes before one that was committed."""
    INFINITE = 8
    """It is infinite."""
    OFF_CADENCE = 9
    """Its time is too far from a slot."""
    BUDGET = 10
    """The budget of the room does not allow it."""
    FORM = 11
    """It is not of the form that the design declares."""
    GAP = 12
    """The models have no law across the readings that are missing."""
    MODEL = 13
    """The filter of the room raised an error."""


class Outcome(NamedTuple):
    """Outputs of a call, and what became of each reading."""

    outputs: Array
    """(R,) or (R, d); NaN where there is none."""
    rules: NDArray[np.int8]
    """(R,) a `Rule` for each reading."""

    @property
    def counts(self) -> dict[str, int]:
        """How many readings each rule met.

        >>> Outcome(np.zeros(2), np.array([0, 7], dtype=np.int8)).counts
        {'taken': 1, 'late': 1}
        """
        found = np.bincount(self.rules, minlength=len(Rule))
        return {rule.name.lower(): int(found[rule]) for rule in Rule if found[rule]}


class Decisions(NamedTuple):
    """Draws: what each looked at, and what came out; columns of equal length."""

    room: Ints
    """The number of the room."""
    tick: Ints
    generation: Ints
    source: Ints
    """The private value at the first key of the tick, by position."""
    draw: Ints
    """The pseudo value, by position."""
    held: Ints
    """1 where the budget did not allow a draw and the last one stays."""
    micronats: Ints
    """What the draw costs."""


class DecisionStore(Protocol):
    """A durable table of decisions, one for each room and tick, that is never changed."""

    def decide(self, proposed: Decisions) -> Decisions:
        """Insert what is absent, durably, and give back what now stands for each room and tick."""
        ...


# Columns ----------------------------------------------------------------------------------------------

_WIDTHS = {"source": "<i2", "draw": "<i2", "generation": "<i4", "epochs": "<i4", "block": "<i4", "watch": "i1"}
_FIRST = {"source": _UNTOLD, "draw": -1, "tick": _NONE, "last": _NONE}


class _Columns:
    """Rooms in columns: whole numbers by name, filters (F, N), and what only some models need as objects."""

    __slots__ = ("count", "filters", "ints", "objects")

    def __init__(self, ints: dict[str, Ints], filters: Array, objects: dict[str, NDArray[Any]], count: int) -> None:
        self.ints, self.filters, self.objects, self.count = ints, filters, objects, count

    @classmethod
    def empty(cls, names: Sequence[str], rows: int, objects: Sequence[str]) -> _Columns:
        ints = {name: np.empty(0, dtype=np.int64) for name in names}
        return cls(ints, np.empty((rows, 0)), {name: np.empty(0, dtype=object) for name in objects}, 0)

    def add(self, count: int) -> None:
        """So many rooms more, of which nothing is known."""
        have, need = len(self.ints["last"]), self.count + count
        if need > have:
            more = max(need, 2 * have) - have
            for name, column in self.ints.items():
                self.ints[name] = np.concatenate((column, np.full(more, _FIRST.get(name, 0))))
            self.filters = np.concatenate((self.filters, np.zeros((len(self.filters), more))), axis=1)
            for name, held in self.objects.items():
                self.objects[name] = np.concatenate((held, np.full(more, None)))
        self.count = need

    def take(self, which: Ints | slice) -> _Columns:
        """A copy of some rooms."""
        ints = {name: column[which].copy() for name, column in self.ints.items()}
        filters = np.ascontiguousarray(self.filters[:, which])
        filters = filters.copy() if isinstance(which, slice) else filters
        objects = {name: column[which].copy() for name, column in self.objects.items()}
        return _Columns(ints, filters, objects, len(ints["last"]))

    def put(self, which: Ints | slice, part: _Columns) -> None:
        """Write some rooms back; all of them change places with `part`."""
        if isinstance(which, slice) and part.count == len(self.ints["last"]):
            self.ints, self.filters, self.objects = dict(part.ints), part.filters, dict(part.objects)
            return
        for name, column in part.ints.items():
            self.ints[name][which] = column
        self.filters[:, which] = part.filters
        for name, held in part.objects.items():
            self.objects[name][which] = held

    def state(self) -> RoomState:
        ints = self.ints
        return RoomState(
            ints["index"], self.filters, ints["source"], ints["draw"], ints["readings"], ints["released"], ints["watch"]
        )

    def pack(self, first: int, stop: int) -> bytes:
        """Some rooms as bytes, with a checksum."""
        parts = [column[first:stop].astype(_WIDTHS.get(name, "<i8")).tobytes() for name, column in self.ints.items()]
        parts.append(np.ascontiguousarray(self.filters[:, first:stop]).astype("<f8").tobytes())
        for held in self.objects.values():
            parts.append(json.dumps([None if one is None else dump(one) for one in held[first:stop]]).encode())
            parts.append(len(parts[-1]).to_bytes(8, "little"))  # behind, so that it is found from the end
        return seal(b"".join(parts))

    def unpack(self, first: int, stop: int, blob: bytes) -> None:
        """Rooms again; ValueError if that is not what was written."""
        content = unseal(blob)
        if content is None:
            raise ValueError("checksum")
        count, at, end = stop - first, 0, len(content)
        for name in reversed(self.objects):
            length = int.from_bytes(content[end - 8 : end], "little")
            held = json.loads(content[end - 8 - length : end - 8])
            for i, one in enumerate(held):
                self.objects[name][first + i] = None if one is None else load(one)
            end -= 8 + length
        for name, column in self.ints.items():
            width = np.dtype(_WIDTHS.get(name, "<i8"))
            column[first:stop] = np.frombuffer(content, width, count, at)
            at += count * width.itemsize
        filters = np.frombuffer(content, "<f8", len(self.filters) * count, at)
        if at + filters.nbytes != end:
            raise ValueError("length")
        self.filters[:, first:stop] = filters.reshape(len(self.filters), count)


# A batch of readings, those of each room in a row -----------------------------------------------------


class _Batch:
    """Readings of a call that are still in play: `row` says which row of the call each is."""

    __slots__ = ("Y", "key", "local", "row", "single", "slot", "source", "steps", "tick")

    def __init__(self, row: Ints, local: Ints, single: bool, key: Ints, slot: Ints, source: Ints, Y: Array) -> None:
        self.row, self.local, self.key, self.slot, self.source, self.Y = row, local, key, slot, source, Y
        self.single = single  # one reading of each room, in their order
        self.steps = self.tick = row

    def keep(self, mask: Mask) -> None:
        for name in ("row", "local", "key", "slot", "source", "Y", "steps", "tick"):
            setattr(self, name, getattr(self, name)[mask])
        self.single = False

    def of_rooms(self, column: Ints) -> Ints:
        """What a column says of the room of each reading."""
        return column if self.single else column[self.local]

    def heads(self) -> Mask:
        """Which readings are the first of their room."""
        first = np.ones(len(self.local), dtype=bool)
        if self.single:
            return first
        np.not_equal(self.local[1:], self.local[:-1], out=first[1:])
        return first


class _Draws(NamedTuple):
    """Rooms at the beginning of a tick: which, the tick, the private value, and the slot of the reading."""

    room: Ints
    tick: Ints
    source: Ints
    slot: Ints


# The fleet --------------------------------------------------------------------------------------------


class Fleet:
    """Many rooms of one design, disguised together; draws follow from a master key, and are decided once.

    Parameters
    ----------
    design : Design or CausalDesign
        What all rooms share.
    store : Ledger or DecisionStore
        Where decisions are recorded. A ledger records the rooms too, so that the fleet goes on after a crash: a fleet
        that it has under this name is opened. With another store the caller keeps `to_arrow`.
    name : str
        The name of the fleet.
    key : MasterKey
        The key from which all draws follow.
    rooms : sequence of str, optional
        Rooms to admit.
    admit : int
        Rooms that appear by themselves are admitted until the fleet has so many in all; each draws and charges.
    epoch : timedelta or int, optional
        The time, or the difference of keys, after which each room draws again; without it a room draws once.
    period, tolerance : timedelta or float, optional
        The cadence of readings whose keys are times; slots stand at whole multiples of the period since 1970.
    gaps : {"refuse", "withhold"}, optional
        What to do about missing readings where the models have no exact law across them, as in `Design.stream`.
    total, amount, per : float, float and timedelta, optional
        Nats that each room may give away in all, and in each period of event time.
    when_spent : {"stop", "hold"}
        Whether a room whose budget is spent gives nothing more, or keeps its last draw.
    namespace : str, optional
        Sets rooms of one name in two places apart; by default the name of the fleet.

    Examples
    --------
    >>> import os, tempfile
    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> design = us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")
    >>> folder = tempfile.TemporaryDirectory()
    >>> with us.Ledger(os.path.join(folder.name, "plant.ledger"), rollback_guard=folder.name) as ledger:
    ...     fleet = us.Fleet(design, ledger, "plant", key=us.MasterKey.new(), rooms=["lab", "hall"])
    ...     outputs = fleet.apply(["lab", "hall"], [1, 1], [101.2, 99.7], theta=[1, 0])
    ...     fleet
    Fleet('plant', 2 rooms, 2 readings)
    >>> folder.cleanup()

    """

    def __init__(
        self,
        design: StreamDesign,
        store: Ledger | DecisionStore,
        name: str,
        *,
        key: MasterKey,
        rooms: Iterable[str] = (),
        admit: int = 0,
        epoch: dt.timedelta | int | None = None,
        period: Duration | None = None,
        tolerance: Duration | None = None,
        gaps: str | None = None,
        total: float | None = None,
        amount: float | None = None,
        per: dt.timedelta | None = None,
        when_spent: str = "stop",
        namespace: str | None = None,
    ) -> None:
        check_name("name", name)
        if not isinstance(key, MasterKey):
            raise ConfigurationError(f"key is of type {type(key).__name__}; it must be a MasterKey")
        if store is None:
            raise ConfigurationError(
                "a fleet needs a store of its decisions: a us.Ledger, or an object that inserts what is absent into "
                "one durable table; without it a retry could draw again"
            )
        if isinstance(admit, bool) or not isinstance(admit, int) or admit < 0:
            raise ConfigurationError(f"admit = {admit!r}; it must be a whole number, 0 or more")
        if (amount is None) != (per is None) or when_spent not in ("stop", "hold"):
            raise ConfigurationError("amount and per go together; when_spent must be 'stop' or 'hold'")
        check_floating(design)
        self.name, self._design, self._key = name, design, key
        options: Plain = {
            "index": CLOCK_INDEX,
            "namespace": name if namespace is None else namespace,
        }
        options |= {} if design.kind == COIN else {"draws": RELEASED}  # a coin is tossed whether readings come or not
        own = design.own_epochs
        if own and epoch not in (None, Clock.as_told(own)):
            raise ConfigurationError(f"epoch = {epoch!r}; this design has epochs of its own: {Clock.as_told(own)}")
        options |= {"when_spent": when_spent, "admit": admit, **(own or Clock.checked(epoch))}
        options |= {} if period is None else {"cadence": list(Cadence.checked(period, tolerance, 0))}
        options |= {} if total is None else {"total": allowance("total", total)}
        if per is not None:
            length = Clock.checked(per)
            if not length.get("timed"):
                raise ConfigurationError(f"per = {per!r}; it must be a timedelta: periods are of the time of readings")
            options |= {"amount": allowance("amount", amount), "per": length["epoch"]}
        if gaps is not None:
            options["gaps"] = gaps
        self._ledger = store if isinstance(store, Ledger) else None
        self._store: DecisionStore = _Table(store) if isinstance(store, Ledger) else store
        self._set_up(options)
        self.guard: RollbackGuard | None = None
        if isinstance(self._store, _Table):
            self._open(self._store)
        self.admit(rooms)

    def _set_up(self, options: Plain) -> None:
        """What follows from design and options."""
        self.options = options
        self._lock = threading.RLock() if self._ledger is None else self._ledger.guard
        row = StreamRow(0, self.name, self.name, self._design.fingerprint, bytes(32), False, _stream_options(options))
        self._base = base = Setup(self._design, row, None)
        if base.estimator is not None:
            raise ConfigurationError("this design estimates the private value; a fleet is given it with the readings")
        policy, phase = base.policy, options.get("phase")
        self._clock = Clock(options.get("epoch"), 0 if phase in (None, KEYED) else phase)
        self._phases: Ints | None = np.empty(0, dtype=np.int64) if phase == KEYED else None  # of each room
        self.dim = policy.source(0).dim
        self.cadence = base.cadence
        models = [
            *(policy.source(i) for i in range(len(policy.values))),
            *(policy.target(j) for j in range(len(policy.pseudo))),
        ]
        waits = False
        if options.get("gaps") == WITHHOLD:  # refuses, before any draw
            waits = refill_between(models[: len(policy.values)], models[len(policy.values) :]) is not None
        if base.causal is not None:
            base.check_changes()
        linear = [gauss_markov(model) for model in models]
        many = len(policy.values)
        self._pairs = None
        if not waits and not policy.fresh and base.parts.coin is None:
            self._pairs = RoomPairs.of(linear[:many], linear[many:], base.release.watched)
        self._setups: dict[int, Setup] = {}
        self._filters = None if self._pairs is not None else self._filters_of(base)
        self._uniforms: dict[str, ManyUniforms] = {}
        self._whole = _table_of(policy.values)
        self._total, self._amount, self._per = (options.get(name) for name in ("total", "amount", "per"))
        names = ["source", "draw", "tick", "generation", "readings", "released", "last", "charged", "epochs"]
        names += ["index", "watch"] + ["block"] * bool(base.block) + ["period", "spent"] * (self._per is not None)
        filters = self._pairs or self._filters
        objects = ["state"] * (filters is None) + ["memory"] * (base.causal is not None)
        self._columns = _Columns.empty(names, 0 if filters is None else filters.rows, objects)
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._kind, self.serial, self._stale = "", 0, False

    @staticmethod
    def _filters_of(base: Setup) -> RoomFilters | None:
        """Filters of all rooms side by side, where the models have such a form."""
        policy = base.policy
        try:
            sources = [base.mapping(i, 0) for i in range(len(policy.values))]
            filters = RoomFilters.of(sources, [base.mapping(0, j) for j in range(len(policy.pseudo))])
        except (ConfigurationError, ModelError):
            return None  # a value without a model is refused when it comes
        if filters is not None:
            try:
                base.check_changes()
            except ModelError:
                filters.switches = False
        return filters

    def __repr__(self) -> str:
        readings = int(self._columns.ints["readings"][: len(self)].sum())
        return f"Fleet({self.name!r}, {len(self)} rooms, {readings} readings)"

    def __len__(self) -> int:
        return self._columns.count

    @property
    def rooms(self) -> list[str]:
        """The rooms, by their numbers."""
        return list(self._names)

    @property
    def columnar(self) -> bool:
        """Whether all rooms run side by side."""
        return self._pairs is not None or self._filters is not None

    @property
    def portable(self) -> bool:
        """Whether the same bits come out on every machine: all rooms run in one loop of sums and products."""
        return self._pairs is not None

    @property
    def mark(self) -> dict[str, Json]:
        """What an output record carries, so that nobody takes it for a true reading."""
        steps: list[Json] = list(self._base.release.lattice.steps)
        return output_mark(self._design.fingerprint, steps, False, False)

    def spent(self, room: str) -> float:
        """Nats charged to a room so far."""
        return int(self._columns.ints["charged"][self._number(room)]) / MICRO

    def count(self, room: str) -> int:
        """Readings of a room so far, missing ones included."""
        return int(self._columns.ints["readings"][self._number(room)])

    def _number(self, room: str) -> int:
        try:
            return self._numbers[room]
        except KeyError:
            raise ConfigurationError("the fleet has no such room") from None

    def numbers(self, rooms: Iterable[str]) -> Ints:
        """The numbers of rooms, which `apply` takes in place of their names and finds more quickly; -1 for others."""
        known = self._numbers
        return np.array([known.get(room, -1) for room in rooms], dtype=np.int64)

    def admit(self, rooms: Iterable[str]) -> None:
        """Let rooms in, durably; those that are in stay as they are. Nothing is drawn until a reading comes."""
        new = [room for room in dict.fromkeys(rooms) if room not in self._numbers]
        for room in new:
            check_name("room", room)
        if not new:
            return
        first = len(self._names)
        if self._ledger is not None:
            ledger, names = self._ledger, self._names + new
            buckets = range(first // BUCKET, -(-len(names) // BUCKET))
            blank = copy.copy(self._columns)
            columns = _Columns(dict(blank.ints), blank.filters, dict(blank.objects), blank.count)
            columns.add(len(new))

            def work(db: sqlite3.Connection) -> None:
                for bucket in buckets:
                    lo, hi = bucket * BUCKET, min((bucket + 1) * BUCKET, len(names))
                    self.put_names(db, bucket, names)
                    _put_bucket(db, self._id, bucket, self.serial, columns.pack(lo, hi))

            ledger.transact(work)
            self._columns = columns
        else:
            self._columns.add(len(new))
        self._names += new
        self._numbers |= {room: first + i for i, room in enumerate(new)}

    def put_names(self, db: sqlite3.Connection, bucket: int, names: list[str] | None = None) -> None:
        """Record the names of the rooms of a bucket, within a transaction."""
        text = json.dumps((self._names if names is None else names)[bucket * BUCKET : (bucket + 1) * BUCKET])
        _put_bucket(db, self._id, -1 - bucket, 0, seal(text.encode()))

    # Readings -----------------------------------------------------------------------------------------

    def apply(
        self, rooms: Sequence[str] | Ints, keys: Iterable[Any] | NDArray[Any], Y: ArrayLike, theta: Any = None
    ) -> Array:
        """Disguise readings of many rooms: R rows, those of a room in their order, rooms interleaved in any way.

        Parameters
        ----------
        rooms : sequence of str, or array of int of shape (R,)
            The room of each reading, by name or by number.
        keys : sequence of int or datetime of shape (R,)
            Numbers or times that grow from reading to reading within a room.
        Y : array of shape (R,) or (R, d)
            The readings, NaN where one is missing.
        theta : optional
            The private value: one for all, or one for each reading; None or NaN where the room has the one of before.

        Returns
        -------
        array of the shape of Y
            NaN where there is no output; `outcome` says why.

        """
        return self.outcome(rooms, keys, Y, theta).outputs

    def outcome(
        self,
        rooms: Sequence[str] | Ints,
        keys: Iterable[Any] | NDArray[Any],
        Y: ArrayLike,
        theta: Any = None,
        source: Ints | None = None,
    ) -> Outcome:
        """What `apply` gives, with the rule that each reading met.

        `source` (R,) may stand for `theta`: private values by position, -1 where the room has the one of before.
        """
        with self._lock:
            if self._stale and isinstance(self._store, _Table):
                self._set_up(self.options)
                self._open(self._store)
            return self._outcome(rooms, keys, Y, theta, source)

    def _outcome(
        self,
        rooms: Sequence[str] | Ints,
        keys: Iterable[Any] | NDArray[Any],
        Y: ArrayLike,
        theta: Any,
        source: Ints | None,
    ) -> Outcome:
        readings, count = self._readings(Y)
        rules = np.zeros(count, dtype=np.int8)
        number = self._find_rooms(rooms, count)
        key = self._find_keys(keys, count)
        source = self._find_values(theta, count) if source is None else self._check_positions(source, count)
        if count and source.min() == _UNKNOWN:
            rules[source == _UNKNOWN] = Rule.UNKNOWN_VALUE
        if not np.isfinite(readings.sum()):
            rules[np.isinf(readings).any(axis=1)] = Rule.INFINITE
        if count and number.min() < 0:
            rules[number < 0] = Rule.UNKNOWN_ROOM
        slot = self._find_slots(key, rules)
        readings = self._in_form(readings, rules)
        rows = np.flatnonzero(rules == 0) if rules.any() else _count_to(count)
        which, batch = self._sort(rows, number, key, slot, source, readings, rules)
        outputs = np.full((count, self.dim), np.nan)
        if len(batch.row):
            self._record(which, batch, outputs, rules)
        return Outcome(outputs[:, 0] if np.ndim(Y) == 1 else outputs, rules)

    def _readings(self, Y: ArrayLike) -> tuple[Array, int]:
        try:
            array = np.asarray(Y, dtype=float)
        except (TypeError, ValueError):
            raise ReadingError("Y does not hold numbers alone; a reading that is missing is NaN") from None
        if (
            array.ndim not in (1, 2)
            or (array.ndim == 1 and self.dim != 1)
            or (array.ndim == 2 and array.shape[1] != self.dim)
        ):
            raise ReadingError(f"Y has shape {array.shape}; readings of a fleet are rows of {self.dim} channels")
        return array.reshape(-1, self.dim), len(array)

    def _find_rooms(self, rooms: Sequence[str] | Ints, count: int) -> Ints:
        if isinstance(rooms, np.ndarray) and rooms.dtype.kind in "iu":
            number = rooms.astype(np.int64, copy=False)
            if number.shape == (count,):
                if not count or (number.min() >= 0 and number.max() < len(self)):
                    return number
                return np.where((number < 0) | (number >= len(self)), -1, number)
        listed = rooms.tolist() if hasattr(rooms, "tolist") else list(rooms)
        if len(listed) != count:
            raise ReadingError(f"{len(listed)} rooms for {count} readings; each reading needs one")
        number = self.numbers(listed)
        if (number < 0).any() and self.options["admit"]:
            new = list(dict.fromkeys(room for room, at in zip(listed, number.tolist(), strict=True) if at < 0))
            new = [room for room in new if isinstance(room, str) and room.isprintable() and room]
            self.admit(new[: max(0, self.options["admit"] - len(self))])
            number = self.numbers(listed)
        return number

    def _find_keys(self, keys: Iterable[Any] | NDArray[Any], count: int) -> Ints:
        if isinstance(keys, np.ndarray) and keys.dtype == np.int64 and keys.ndim == 1:
            kind, found = NUMBER, keys
        elif isinstance(keys, np.ndarray) and keys.dtype == "datetime64[ns]" and keys.ndim == 1:
            kind, found = TIME, keys.view(np.int64)
            if (found == _NONE).any():
                raise ReadingError("a key is no time; each reading needs one")
        else:
            pairs = [as_keys([key], 1) for key in keys]  # each by itself: those of many rooms need not grow
            if len({kind for kind, _ in pairs}) > 1:
                raise ReadingError("keys are numbers and times; they must be of one kind")
            kind = pairs[0][0] if pairs else self._kind or NUMBER
            found = np.array([numbers[0] for _, numbers in pairs], dtype=np.int64)
        if len(found) != count:
            raise ReadingError(f"{len(found)} keys for {count} readings; each reading needs one")
        if self._kind not in ("", kind):
            raise ReadingError(f"keys of this fleet are of the kind {self._kind!r}; these are of the kind {kind!r}")
        self._base.check_keys(kind)
        if self.options.get("timed") is not None and self.options["timed"] != (kind == TIME):
            raise ReadingError("the epochs of this fleet are counted by keys of the other kind (times or numbers)")
        if self._per is not None and kind != TIME:
            raise ReadingError("the budget of this fleet counts periods of time; keys must be times")
        self._kind = kind
        return found

    def _find_values(self, theta: Any, count: int) -> Ints:
        """Private values by position: -1 where none is given, -2 where it is none of the design's."""
        if self._base.parts.coin is not None:
            return np.zeros(count, dtype=np.int64)  # it never looks at the private value
        if theta is None:
            return np.full(count, _UNTOLD)
        policy = self._base.policy
        listed = isinstance(theta, (list, np.ndarray)) or hasattr(theta, "to_numpy") or hasattr(theta, "to_pylist")
        if not listed:
            return np.full(count, policy.row(theta))
        given = theta.to_pylist() if hasattr(theta, "to_pylist") else theta
        given = given.to_numpy() if hasattr(given, "to_numpy") else given
        array = np.asarray(given) if not isinstance(given, list) or _plain(given) else None
        if array is None or array.dtype == object:
            values = list(given)
            found = np.array([self._find_value(value) for value in values], dtype=np.int64)
        elif array.dtype.kind in "biu" and array.size and self._whole is not None:
            low, table = self._whole
            places = array.astype(np.int64) - low
            if places.min() < 0 or places.max() >= len(table):
                places = np.where((places < 0) | (places >= len(table)), len(table) - 1, places)
            found = table[places]
        else:
            found = np.full(array.shape, _UNKNOWN)
            if array.dtype.kind == "f":
                found[np.isnan(array)] = _UNTOLD
            for i, value in enumerate(policy.values):
                if isinstance(value, (bool, int, float, str, np.generic)):
                    found = np.where(array == value, i, found)
        if found.shape != (count,):
            raise ReadingError(f"theta has the shape {found.shape}; it must be one value, or one for each of {count}")
        return found

    def _check_positions(self, source: Ints, count: int) -> Ints:
        found = np.asarray(source, dtype=np.int64)
        if found.shape != (count,):
            raise ReadingError(f"source has the shape {found.shape}; it must hold a position for each of {count}")
        beyond = (found < _UNTOLD) | (found >= len(self._base.policy.values))
        return np.where(beyond, _UNKNOWN, found) if beyond.any() else found

    def _find_value(self, value: Value) -> int:
        if value is None or (isinstance(value, float) and value != value):
            return _UNTOLD
        try:
            return self._base.policy.row(value)
        except (UnderstudyError, TypeError, ValueError):
            return _UNKNOWN

    def _find_slots(self, key: Ints, rules: NDArray[np.int8]) -> Ints:
        """The slot of each key: the key itself where there is no cadence."""
        cadence = self.cadence
        if cadence is None or self._kind != TIME:
            return key
        slot = cadence.slots_of(key)
        off = np.abs(key - cadence.time(slot)) > max(cadence.tolerance, cadence.period % 2)
        rules[off & (rules == 0)] = Rule.OFF_CADENCE
        return slot

    def _in_form(self, Y: Array, rules: NDArray[np.int8]) -> Array:
        """Readings moved to the grid of the models, where the design declares a form; others meet their rule."""
        release = self._base.release
        for i, (form, grid) in enumerate(zip(release.forms, release.grids, strict=True)):
            if form.kind in ("double", "grid"):
                continue
            there = np.flatnonzero((rules == 0) & (Y[:, i] >= release.low[i]) & (Y[:, i] <= release.high[i]))
            fits = form.fits(Y[there, i])
            rules[there[~fits]] = Rule.FORM
            if grid is not None:
                Y = Y.copy()
                Y[there[fits], i] = grid.round(Y[there[fits], i])
        return Y

    def _sort(
        self, rows: Ints, number: Ints, key: Ints, slot: Ints, source: Ints, Y: Array, rules: NDArray[np.int8]
    ) -> tuple[Ints | slice, _Batch]:
        """The rooms of a call, and its readings room by room, those that are late or untold aside."""
        if len(rows) < len(number):
            number, key, slot, source, Y = number[rows], key[rows], slot[rows], source[rows], Y[rows]
        columns = self._columns.ints
        which: Ints | slice = number
        single = True
        if len(number) == len(self) and np.array_equal(number, _count_to(len(self))):
            which, local = slice(0, len(self)), number
        else:
            seat = np.empty(len(self), dtype=np.int64)
            local = _count_to(len(number))
            seat[number] = local
            if not np.array_equal(seat[number], local):  # some room has several readings
                order = np.argsort(number, kind="stable")
                rows, key, slot, source, Y = rows[order], key[order], slot[order], source[order], Y[order]
                which, local = np.unique(number[order], return_inverse=True)
                single = False
        batch = _Batch(rows, local, single, key, slot, source, Y)
        last, told = columns["last"][which], columns["source"][which]
        if self.cadence is not None and self._kind == TIME:
            last = np.where(last == _NONE, _NONE, self.cadence.slots_of(last))
        if len(batch.row):
            self._drop_late(batch, last, rules)
        # a room without a value takes that of the reading before, or the one of before the call
        first = batch.heads()
        if len(first) and batch.source.min() < 0:
            given = batch.source >= 0
            start = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
            newest = np.maximum.accumulate(np.where(given, np.arange(len(first)), -1))
            batch.source = np.where(newest >= start, batch.source[newest], told[batch.local])
            untold = batch.source < 0
            if untold.any():
                rules[batch.row[untold]] = Rule.UNTOLD
                batch.keep(~untold)
                first = batch.heads()
        if self.cadence is None or self._kind != TIME:
            batch.steps = _constant(1, len(first))
        else:
            before = _before(batch, first, last)
            batch.steps = np.where(before == _NONE, 1, batch.slot - before)
        if self._clock.length is None:
            batch.tick = _constant(0, len(first))
        else:
            cadence = self.cadence if self._kind == TIME else None
            phases = None if self._phases is None else self._phases_of(which)[batch.local]
            batch.tick = self._clock.ticks(batch.key if cadence is None else cadence.time(batch.slot), phases)
            silent = np.asarray(np.isnan(batch.Y).any(axis=1))
            if self.options.get("draws") == RELEASED and silent.any():
                batch.tick = _last_ticks(batch, first, silent, columns["tick"][which])
        return which, batch

    def _phases_of(self, which: Ints | slice) -> Ints:
        """How long before the origin of the keys the epochs of rooms begin, where that follows from their keys."""
        known = self._phases if self._phases is not None else np.empty(0, dtype=np.int64)
        if len(known) < len(self):
            new = [phase_of(self.options, self._room_key(i)) for i in range(len(known), len(self))]
            known = self._phases = np.concatenate((known, np.array(new, dtype=np.int64)))
        return known[which]

    def _drop_late(self, batch: _Batch, last: Ints, rules: NDArray[np.int8]) -> None:
        """Leave out readings whose slot does not come after the last one of their room."""
        late = batch.slot <= _before(batch, batch.heads(), last)
        if not late.any():
            return
        for room in np.unique(batch.local[late]).tolist():
            top = int(last[room])
            for i in range(*np.searchsorted(batch.local, (room, room + 1)).tolist()):
                slot = int(batch.slot[i])
                late[i] = slot <= top
                if slot <= top:
                    rules[batch.row[i]] = Rule.DUPLICATE if slot == top else Rule.LATE
                top = max(top, slot)
        batch.keep(~late)

    # One call -----------------------------------------------------------------------------------------

    def _record(self, which: Ints | slice, batch: _Batch, outputs: Array, rules: NDArray[np.int8]) -> None:
        """Run a batch on a copy of its rooms, and make that true when it is recorded."""
        part = self._columns.take(which)
        numbers = np.arange(len(self)) if isinstance(which, slice) else which
        ledger = self._ledger

        def work(_: sqlite3.Connection | None = None) -> None:
            self._run(part, numbers, batch, outputs, rules)

        if ledger is None:
            work()
            self._columns.put(which, part)
            self.serial += 1
            if self.guard is not None:
                self.guard.note({1: Position(serial=self.serial)})
            return
        columns, serial = self._columns, self.serial + 1
        former = columns.take(which)

        def recorded(db: sqlite3.Connection) -> None:
            work()
            columns.put(which, part)
            try:
                for bucket in np.unique(numbers // BUCKET).tolist():
                    blob = columns.pack(bucket * BUCKET, min((bucket + 1) * BUCKET, len(self)))
                    _put_bucket(db, self._id, bucket, serial, blob)
                self._put_serial(db, serial)
            finally:
                columns.put(which, former)

        def restore() -> None:
            columns.put(which, former)
            self.serial, self._stale = serial - 1, True  # read again before the next call

        with ledger.guard:
            try:
                ledger.transact(recorded, lambda: self._note(serial))
            except LedgerError:
                self._stale = True  # whether it was recorded may be open
                raise
            ledger.when_abandoned(restore)
            columns.put(which, part)
            self.serial = serial

    def _note(self, serial: int) -> None:
        if self.guard is not None:
            self.guard.note({self._id: Position(serial=serial)})

    def _run(self, part: _Columns, numbers: Ints, batch: _Batch, outputs: Array, rules: NDArray[np.int8]) -> None:
        """Disguise a batch, the readings of one tick of each room at a time."""
        first = batch.heads()
        if first.all():
            self._run_tick(part, numbers, batch, np.ones(len(first), dtype=bool), outputs, rules)
            return
        turn = ~first
        turn[1:] &= batch.tick[1:] != batch.tick[:-1]
        number: Ints = np.cumsum(turn, dtype=np.int64)
        number -= np.maximum.accumulate(np.where(first, number, 0))  # ticks of the room before this one, in this call
        for n in range(int(number.max()) + 1):
            now = copy.copy(batch)
            if number.any():
                now.keep(number == n)
            self._run_tick(part, numbers, now, now.heads(), outputs, rules)

    def _run_tick(
        self, part: _Columns, numbers: Ints, batch: _Batch, first: Mask, outputs: Array, rules: NDArray[np.int8]
    ) -> None:
        """Readings of one tick for each room, of which `first` are the first."""
        ints = part.ints
        head = _count_to(len(first)) if batch.single else np.flatnonzero(first)
        room = batch.local if batch.single else batch.local[head]
        tick = batch.tick if batch.single else batch.tick[head]
        need = (batch.of_rooms(ints["draw"])[head] < 0) | (batch.of_rooms(ints["tick"])[head] != tick)
        draw = batch.of_rooms(ints["draw"])
        change = _constant(0, len(first))
        guarded = room if self._limited else room[need]
        backup = part.take(guarded) if len(guarded) else None
        if need.any():
            decided, drawers = head[need], room[need]
            if self._base.block:  # slots that stayed empty belong to the epoch before
                self._charge_blocks(part, drawers, batch.steps[decided] - 1, batch.slot[decided])
            allowed, drawn = self._decide(
                part, numbers, _Draws(drawers, batch.tick[decided], batch.source[decided], batch.slot[decided])
            )
            chosen = np.full(part.count, -1)
            chosen[drawers] = np.where(allowed, drawn, -2)
            mine = batch.of_rooms(chosen)
            draw = np.where(mine >= 0, mine, draw)
            change = change.copy()
            change[decided] = 1
            if not allowed.all():
                refused = mine == -2
                rules[batch.row[refused]] = Rule.BUDGET
                batch = copy.copy(batch)
                batch.keep(~refused)
                draw, change = draw[~refused], change[~refused]
        if not len(batch.row):
            return
        costly = self._may_cost(ints, batch)
        before = (ints["readings"].copy(), ints["released"].copy()) if costly else None
        out, why = self._filter(part, numbers, batch, draw, change)
        if why.any():
            taken = np.flatnonzero(why == Rule.TAKEN)
            ints["last"][batch.local[taken]] = batch.key[taken]  # in order: the last one of each room stays
        else:
            ints["last"][slice(None) if batch.single else batch.local] = batch.key
        if before is not None:
            self._charge_readings(part, batch, before, change, why)
        if backup is not None and why.any():
            self._take_back(part, guarded, backup, batch, change, out, why)
        if why.any():
            rules[batch.row] = why
        outputs[slice(None) if batch.single and len(out) == len(outputs) else batch.row] = self._base.release.rounded(
            out, out
        )

    def _take_back(
        self, part: _Columns, guarded: Ints, backup: _Columns, batch: _Batch, change: Ints, out: Array, why: Ints
    ) -> None:
        """A room whose first reading of a tick failed, or whose budget is spent, has not been here."""
        failed = why != Rule.TAKEN
        whole = np.zeros(part.count, dtype=bool)
        whole[batch.local[failed & ((change == 1) | (why == Rule.BUDGET))]] = True
        again = np.flatnonzero(whole[guarded])
        if not len(again):
            return
        part.put(guarded[again], backup.take(again))
        reason = np.zeros(part.count, dtype=why.dtype)
        bad = np.flatnonzero(failed & whole[batch.local])[::-1]  # backwards: the first reason of each room stays
        reason[batch.local[bad]] = why[bad]
        mine = whole[batch.local]
        why[mine] = reason[batch.local[mine]]
        out[mine] = np.nan

    @property
    def _limited(self) -> bool:
        return self._total is not None or self._amount is not None

    # Decisions ----------------------------------------------------------------------------------------

    def _decide(self, part: _Columns, numbers: Ints, asked: _Draws) -> tuple[Mask, Ints]:
        """Draw for rooms at the beginning of a tick, and have it recorded: whether each may, and the pseudo value."""
        ints, base = part.ints, self._base
        room, tick, source, slot = asked
        held = np.zeros(len(room), dtype=np.int64)
        draw = np.full(len(room), -1)
        memories: list[Memory] = []
        if base.causal is None:
            # the first draw at the prior of the design, then at the worst one
            first = ints["epochs"][room] == 0
            cost = np.where(first, base.parts.prices(DESIGN_PRIOR)[0], 0)
            if not first.all():
                cost = np.where(first, cost, base.parts.prices(None)[0])
        else:
            pairs = zip(room.tolist(), tick.tolist(), strict=True)
            opening = [self._memory_at(base.causal, part, *pair) for pair in pairs]
            leaks = [[micronats(base.causal.path_leakage(m, after)) for after in (True, False)] for m in opening]
            cost = np.array([after - before for after, before in leaks], dtype=np.int64)
            memories = opening
        allowed = self._allows(part, room, cost, slot)
        hold = self.options["when_spent"] == "hold"
        for i, (k, at, who) in enumerate(zip(room.tolist(), tick.tolist(), source.tolist(), strict=True)):
            if self._pairs is None:
                base.mapping(who, max(int(ints["draw"][k]), 0))  # a value without a model is refused before a draw
            if allowed[i]:
                bits = DrawSource.at_tick(self._room_key(int(numbers[k])), int(ints["generation"][k]), at)
                draw[i] = (
                    base.epochs.draw(who, bits) if base.causal is None else base.causal.choose(memories[i], who, bits)
                )
            elif hold:
                quiet = self._quiet(int(ints["draw"][k])) if base.causal is None else base.causal.quiet(memories[i])
                if quiet is not None and quiet >= 0:
                    draw[i], held[i], cost[i], allowed[i] = quiet, 1, 0, True
        mine = np.flatnonzero(allowed)
        if len(mine):
            ids = numbers[room[mine]]
            proposed = Decisions(
                ids, tick[mine], ints["generation"][room[mine]], source[mine], draw[mine], held[mine], cost[mine]
            )
            standing = self._store.decide(proposed)
            if not (np.array_equal(standing.room, ids) and np.array_equal(standing.tick, proposed.tick)):
                raise LedgerError("the store of decisions did not give back those that were asked for")
            draw[mine], held[mine], cost[mine] = standing.draw, standing.held, standing.micronats
            rooms = room[mine]
            ints["tick"][rooms] = tick[mine]
            ints["epochs"][rooms] += 1
            if "block" in ints:
                ints["block"][rooms] = 0
            self._book(part, rooms, cost[mine], slot[mine])
            if base.causal is not None:
                for i in mine.tolist():
                    part.objects["memory"][room[i]] = base.causal.after(memories[i], int(draw[i]), bool(held[i]))
        return allowed, draw

    def _quiet(self, last: int) -> int | None:
        """The draw of an epoch that the budget does not allow, after this one; a coin needs none before it."""
        needs = self._base.parts.coin is None
        return None if needs and last < 0 else self._base.epochs.draw_at_no_cost(max(last, 0))

    @staticmethod
    def _memory_at(policy: CausalPolicy, part: _Columns, room: int, tick: int) -> Memory:
        """The memory of a room before a decision at this tick."""
        memory = part.objects["memory"][room]
        if memory is None:
            return policy.opening(tick)
        return policy.advance(memory, tick - int(part.ints["tick"][room]) - 1)

    def _allows(self, part: _Columns, room: Ints, cost: Ints, slot: Ints) -> Mask:
        """Which rooms have budget left for a cost; what costs nothing is always allowed."""
        free = cost == 0
        if self._total is not None:
            free |= part.ints["charged"][room] + cost <= self._total
        elif self._amount is None:
            return np.ones(len(room), dtype=bool)
        if self._amount is not None:
            now = self._period_of(slot)
            spent = np.where(part.ints["period"][room] == now, part.ints["spent"][room], 0)
            within = spent + cost <= self._amount
            free = ((free if self._total is not None else True) & within) | (cost == 0)
        return np.asarray(free)

    def _period_of(self, slot: Ints) -> Ints:
        times = slot if self.cadence is None else self.cadence.time(slot)
        return np.asarray(times // (self._per or 1))

    def _book(self, part: _Columns, room: Ints, cost: Ints, slot: Ints) -> None:
        """Add a cost to what rooms have been charged, in all and in the period of their readings."""
        ints = part.ints
        ints["charged"][room] += cost
        if self._per is not None:
            now = self._period_of(slot)
            ints["spent"][room] = np.where(ints["period"][room] == now, ints["spent"][room], 0) + cost
            ints["period"][room] = now

    def _charge_readings(
        self, part: _Columns, batch: _Batch, before: tuple[Ints, Ints], change: Ints, why: Ints
    ) -> None:
        """Charge what readings cost besides the draw: approximate models by blocks, and floating point.

        Readings of a room whose budget does not allow that get the rule in `why`.
        """
        ints, base = part.ints, self._base
        counted = (ints["readings"], before[0]) if base.block else (ints["released"], before[1])
        cost = self._floating(counted[0]) - self._floating(counted[1])
        if base.block:
            skipped, begins = np.zeros(part.count, dtype=np.int64), change == 1
            rooms = batch.local[begins]  # the slots before an epoch have been charged
            skipped[rooms] = np.where(before[0][rooms] > 0, batch.steps[begins] - 1, 0)
            cost += self._blocks(part, _count_to(part.count), ints["readings"] - before[0] - skipped)
        if not cost.any():
            return
        room = np.flatnonzero(cost)
        slot = np.zeros(part.count, dtype=np.int64)
        slot[batch.local] = batch.slot
        allowed = self._allows(part, room, cost[room], slot[room])
        self._book(part, room[allowed], cost[room[allowed]], slot[room[allowed]])
        if not allowed.all():
            spent = np.zeros(part.count, dtype=bool)
            spent[room[~allowed]] = True
            why[spent[batch.local]] = Rule.BUDGET

    def _charge_blocks(self, part: _Columns, room: Ints, count: Ints, slot: Ints) -> None:
        """Charge so many readings, which are missing, to the epoch that they end."""
        count = np.where(part.ints["readings"][room] > 0, count, 0)
        if count.any():
            self._book(part, room, self._blocks(part, room, count), slot)

    def _blocks(self, part: _Columns, room: Ints, count: Ints) -> Ints:
        """Micro-nats for the blocks that so many more readings begin, as `engine.blocks_begun` counts them."""
        ints, length = part.ints, self._base.block
        block = ints["block"][room]
        begun = -(-(block + count) // length) - (-(-block // length))
        ints["block"][room] = np.where(count > 0, (block + count - 1) % length + 1, block)
        first, later = (self._base.parts.prices(marginal)[1] for marginal in (DESIGN_PRIOR, None))
        return np.asarray(begun * np.where(ints["epochs"][room] <= 1, first, later))

    def _may_cost(self, ints: dict[str, Ints], batch: _Batch) -> bool:
        """Whether readings of this batch may cost anything besides a draw."""
        if self._base.block:
            return True
        most = int(ints["released"].max()) + (1 if batch.single else len(batch.row))
        return bool(self._base.parts.floating_plateau(most)[2])

    def _floating(self, counts: Ints) -> Ints:
        """Micro-nats that floating point costs over so many readings."""
        found = np.unique(counts)
        levels = [self._base.parts.floating_plateau(n)[2] for n in found.tolist()]
        return np.array(levels, dtype=np.int64)[np.searchsorted(found, counts)]

    # Filters ------------------------------------------------------------------------------------------

    def _filter(self, part: _Columns, numbers: Ints, batch: _Batch, draw: Ints, change: Ints) -> tuple[Array, Ints]:
        """Outputs (R, d) before they are rounded, and the rule of each reading."""
        alone = self._base.release.outside(batch.Y)
        if self.cadence is not None and self._kind == TIME:
            alone |= batch.steps > _FEW_SLOTS + 1
        if self._pairs is not None and not alone.any():
            return self._pairs.run(
                RoomReadings(batch.Y, batch.local, batch.steps, batch.source, draw, change), part.state()
            )
        out, why = np.full(batch.Y.shape, np.nan), np.zeros(len(batch.row), dtype=np.int64)
        single = np.zeros(part.count, dtype=bool)
        single[batch.local if not self.columnar else batch.local[alone]] = True
        there: Any = slice(None) if not alone.any() else ~single[batch.local]
        if self.columnar:
            Y, local, steps = batch.Y[there], batch.local[there], batch.steps[there]
            rows = RoomReadings(Y, local, steps, batch.source[there], draw[there], change[there])
            out[there], found = self._run_together(rows, part, numbers)
            single[local[found == ALONE]] = True
            why[there] = np.maximum(found, 0)
        mine = np.flatnonzero(single[batch.local])
        if not len(mine):
            return out, why
        edges = np.flatnonzero(np.diff(batch.local[mine])) + 1
        for run in np.split(mine, edges):
            room = int(batch.local[run[0]])
            out[run], why[run] = self._run_alone(
                part, int(numbers[room]), room, batch, run, int(draw[run[0]]), bool(change[run[0]])
            )
        return out, why

    def _run_together(self, rows: RoomReadings, part: _Columns, numbers: Ints) -> tuple[Array, Ints]:
        """Readings of many rooms side by side: outputs, and a rule, or `ALONE`."""
        if self._pairs is not None or self._filters is None:
            return self._pairs.run(rows, part.state())  # type: ignore[union-attr]  # one of the two is there
        coarse, watched = np.zeros(len(rows.room), dtype=bool), self._base.release.watched
        if watched:
            coarse = np.asarray(is_coarse(rows.Y[:, watched]).any(axis=1))

        def uniforms(domain: str, room: Ints, reading: Ints) -> Array:
            known = self._uniforms.get(domain)
            if known is None:
                key_of = self._room_key if not domain else lambda i: Uniforms(self._room_key(i)).derive(domain)
                known = self._uniforms[domain] = ManyUniforms(self.dim, key_of)
            return known.at(numbers[room], reading)

        return self._filters.run(rows, part.state(), uniforms, coarse, ROW)

    def _run_alone(
        self, part: _Columns, number: int, room: int, batch: _Batch, rows: Ints, draw: int, change: bool
    ) -> tuple[Array, int]:
        """Readings of one room, by the engine of streams: outputs, and one rule for all of them."""
        ints, setup = part.ints, self._setup_of(number)
        nothing = np.full((len(rows), self.dim), np.nan)
        source, old = int(batch.source[rows[0]]), int(ints["draw"][room])
        begun = int(ints["readings"][room]) > 0
        state = self._state_of(part, room) if begun else ()
        watch = Watch(setup.release) if setup.release.watched else None
        try:
            if watch is not None:
                watch.count = int(ints["watch"][room])
                watch.many(batch.Y[rows])
        except ReadingError:
            return nothing, Rule.COARSE
        if begun and len(rows) == 1 and not change and (source, draw) == (int(ints["source"][room]), old):
            found = self._step_alone(setup.mapping(source, draw), state, batch, int(rows[0]))
            if found is not None:
                after, out = found
                self._put_state(part, room, after)
                ints["readings"][room] += 1
                ints["released"][room] += 1
                if watch is not None:
                    ints["watch"][room] = watch.count
                return np.array([[out]]), Rule.TAKEN
        try:
            now = (int(ints["source"][room]), old) if begun else (source, draw)
            at = Position(
                readings=int(ints["readings"][room]),
                last=int(ints["last"][room]) if begun else None,
                kind=self._kind,
                source=now[0],
                block=0 if setup.block else int(ints["released"][room]),
                state=state if begun else setup.mapping(*now).start(),
            )
            run = Transaction(setup, StreamState(EpochRow(1, now[0], now[1], False), at, setup.mapping(*now)))
            if begun and (change or draw != old):
                if batch.steps[rows[0]] > 1:
                    run.skip(int(batch.steps[rows[0]]) - 1, self._kind, 0)
                run.switch(source, draw)
            given = Batch(batch.Y[rows], self._kind, batch.key[rows], batch.source[rows], 0)
            out = run.batch(given, keep=False)
        except MissingReadingError:
            return nothing, Rule.GAP
        except Exception:  # a model of one's own may raise anything; the other rooms go on
            return nothing, Rule.MODEL
        position = run.live.position
        ints["readings"][room] = position.readings
        ints["released"][room] += int((~np.isnan(out).any(axis=1)).sum())
        ints["source"][room], ints["draw"][room] = position.source, draw
        if watch is not None:
            ints["watch"][room] = watch.count
        self._put_state(part, room, position.state)
        return out, Rule.TAKEN

    def _step_alone(
        self, causal: Transformation, state: State, batch: _Batch, row: int
    ) -> tuple[State, Numbers] | None:
        """The next reading of one room by its filter alone; None where it needs more than that."""
        y, bounds = float(batch.Y[row, 0]), self._base.release.single
        if self.dim > 1 or self._pairs is not None or isinstance(causal, RestartingMap) or batch.steps[row] > 1:
            return None
        if bounds is None or not bounds[0] <= y <= bounds[1]:
            return None
        try:
            return causal.step(state, y)
        except Exception:  # which the engine of streams meets again, and counts
            return None

    def _state_of(self, part: _Columns, room: int) -> State:
        """The state of the filter of a room that has begun."""
        if self._pairs is not None:
            return self._pairs.state_of(part.state(), room)
        if self._filters is not None:
            return self._filters.state(part.filters[:, room].tolist())
        known: State = part.objects["state"][room]
        return known

    def _put_state(self, part: _Columns, room: int, state: State) -> None:
        if self._pairs is not None:
            self._pairs.set_state(part.state(), room, state)
        elif self._filters is not None:
            part.filters[:, room] = self._filters.column(state)
        else:
            part.objects["state"][room] = state

    def _setup_of(self, number: int) -> Setup:
        """The setup of a stream of this room."""
        known = self._setups.get(number)
        if known is None:
            if len(self._setups) >= _SETUPS:
                self._setups.clear()
            row = self._base.row._replace(name=self._names[number], secret=self._room_key(number))
            known = self._setups[number] = Setup(self._design, row, None)
        return known

    def _room_key(self, number: int) -> bytes:
        return self._key.room_key(self.options["namespace"], self._design.fingerprint, self._names[number])

    # The ledger ---------------------------------------------------------------------------------------

    def _open(self, table: _Table) -> None:
        """Go on with the fleet that the ledger has under this name, or record a new one."""
        ledger = table.ledger
        found = ledger.rows("SELECT * FROM fleets WHERE name = ?", self.name)
        if self.guard is not None:
            self.guard.close()
        self.guard = ledger.guard_beside("fleets")
        if not found:

            def work(db: sqlite3.Connection) -> int:
                last = db.execute("SELECT coalesce(max(id), 0) FROM fleets").fetchone()[0]
                number = max(int(last), self.guard.newest() if self.guard is not None else 0) + 1
                values = (number, *self._fleet_values(), 0)
                db.execute("INSERT INTO fleets VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, digest(*values)))
                return number

            self._id: int = ledger.transact(work)
            table.fleet = self._id
            return
        number, _, design, key, options, serial, written = found[0]
        if digest(*found[0][:-1]) != written:
            raise damage_error(ledger.path, "the list of fleets")
        if design != self._design.fingerprint:
            raise LedgerError(f"the fleet {self.name!r} belongs to another design")
        if key != self._key.id:
            raise LedgerError(f"the fleet {self.name!r} was begun under the master key {key}; this is {self._key.id}")
        stored = json.loads(options)
        if "draws" not in stored:  # a fleet of before draws for missing readings too, for good
            self.options.pop("draws", None)
        if {**stored, "admit": 0, "kind": ""} != {**self.options, "admit": 0, "kind": ""}:
            raise ConfigurationError(
                f"the fleet {self.name!r} was begun with other epochs, cadence, gaps, budget or namespace, for good"
            )
        if self.guard is not None and self.guard.ahead(number, serial) is not None:
            raise rollback_error("this fleet")
        self._id, self.serial, table.fleet = number, serial, number
        self._load_rooms(ledger)

    def _fleet_values(self) -> tuple[Any, ...]:
        return self.name, self._design.fingerprint, self._key.id, json.dumps(self.options, sort_keys=True)

    def _put_serial(self, db: sqlite3.Connection, serial: int) -> None:
        values = (self._id, *self._fleet_values(), serial)
        db.execute("UPDATE fleets SET serial = ?, digest = ? WHERE id = ?", (serial, digest(*values), self._id))

    def _load_rooms(self, ledger: Ledger) -> None:
        rows = ledger.rows("SELECT bucket, content FROM buckets WHERE fleet = ?", self._id)
        blobs = dict(rows)
        for bucket in range(len(blobs) // 2):
            try:
                names = json.loads(unseal(blobs[-1 - bucket]) or b"")
                first = len(self._names)
                self._columns.add(len(names))
                self._columns.unpack(first, first + len(names), blobs[bucket])
            except (KeyError, ValueError, SnapshotError):
                raise damage_error(ledger.path, "a bucket of a fleet") from None
            self._names += names
        self._numbers = {room: i for i, room in enumerate(self._names)}
        last = self._columns.ints["last"][: len(self)]
        if (last != _NONE).any():
            self._kind = TIME if self.cadence is not None else NUMBER

    # Runs ---------------------------------------------------------------------------------------------

    def run(self, name: str) -> FleetRun:
        """A run over a file, recorded whole at its end; one that is recorded under this name is repeated."""
        if not isinstance(self._store, _Table):
            raise ConfigurationError("a run over a file needs a fleet with a ledger")
        return FleetRun(self, self._store, name)

    def _shadow(self, table: _Table) -> Fleet:
        """A copy that nothing records, with the decisions of this one."""
        other = copy.copy(self)
        other._ledger, other.guard, other._store = None, None, _Pending(table)
        other._columns = self._columns.take(slice(0, len(self)))
        other._names, other._numbers = list(self._names), dict(self._numbers)
        return other

    def _adopt(self, other: Fleet) -> None:
        self._columns, self._names, self._numbers = other._columns, other._names, other._numbers
        self._kind = other._kind

    def _pack(self) -> bytes:
        """All rooms, for a run that may have to be repeated from here."""
        count = len(self)
        names = json.dumps({"kind": self._kind, "rooms": self._names, "versions": versions()}).encode()
        return len(names).to_bytes(8, "little") + names + self._columns.pack(0, count)

    def _unpack(self, blob: bytes) -> None:
        length = int.from_bytes(blob[:8], "little")
        head = json.loads(blob[8 : 8 + length])
        if isinstance(head, list):  # of before versions were recorded
            head = {"kind": head[0], "rooms": head[1:], "versions": versions()}
        if not self.portable and not same_arithmetic(head["versions"]):
            raise LedgerError(
                "the run was recorded on another machine or with other versions, and the outputs of these models "
                "depend on the machine's arithmetic; repeat it where it was made"
            )
        self._kind, self._names = head["kind"], head["rooms"]
        self._numbers = {room: i for i, room in enumerate(self._names)}
        columns = self._columns
        self._columns = _Columns.empty(list(columns.ints), len(columns.filters), list(columns.objects))
        self._columns.add(len(self._names))
        self._columns.unpack(0, len(self._names), blob[8 + length :])

    # Arrow --------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """All rooms as an Arrow table, one row each, with a version and a checksum; no key is in it.

        It holds draws and private values: it is as secret as a ledger. To go on from an older one would leak;
        `from_arrow` refuses that if it has a rollback guard.
        """
        import pyarrow as pa

        count, columns = len(self), {"room": pa.array(self._names, pa.string())}
        for name, column in self._columns.ints.items():
            columns[name] = pa.array(column[:count].astype(_WIDTHS.get(name, "<i8")))
        for i, row in enumerate(self._columns.filters):
            columns[f"filter {i}"] = pa.array(row[:count].copy())
        for name, held in self._columns.objects.items():
            columns[name] = pa.array([None if one is None else dump(one) for one in held[:count]], pa.string())
        head = {
            "format": _FORMAT, "version": _VERSION, "name": self.name, "design": self._design.fingerprint,
            "key": self._key.id, "options": self.options, "kind": self._kind, "serial": self.serial,
            "versions": versions(), "checksum": _tabledecision_checksum(columns.values()),
        }  # fmt: skip
        return pa.table(columns).replace_schema_metadata({_FORMAT: json.dumps(head, sort_keys=True)})

    @classmethod
    def from_arrow(
        cls,
        table: pa.Table,
        design: StreamDesign,
        store: DecisionStore,
        *,
        key: MasterKey,
        rollback_guard: str | os.PathLike[str] | None = None,
    ) -> Fleet:
        """Go on with the rooms of a table that `to_arrow` gave.

        `store` must be the table of decisions that the fleet had. `rollback_guard` is a folder that remembers how far
        the fleet had come, so that an older table is refused. Models whose outputs depend on the machine's arithmetic
        go on under the same versions and the same kind of machine only.
        """
        if isinstance(store, Ledger):
            raise ConfigurationError("a fleet with a ledger goes on from the ledger: us.Fleet(design, ledger, name)")
        try:
            head = json.loads((table.schema.metadata or {})[_FORMAT.encode()])
            if head["format"] != _FORMAT or not isinstance(head["version"], int):
                raise ValueError
        except (KeyError, ValueError, TypeError):
            raise SnapshotError("the table is none of a fleet, or has lost its metadata") from None
        if head["version"] > _VERSION:
            raise SnapshotError(f"the table is of a newer version; this understudy knows up to {_VERSION}")
        parts = {name: table.column(name).combine_chunks() for name in table.column_names}
        if _tabledecision_checksum(parts.values()) != head["checksum"]:
            raise SnapshotError("the table is damaged: its checksum does not fit its content")
        if head["design"] != design.fingerprint or head["key"] != key.id:
            raise SnapshotError("the table belongs to another design or another master key")
        fleet = cls.__new__(cls)
        fleet.name, fleet._design, fleet._key = head["name"], design, key
        fleet._ledger, fleet._store = None, store
        fleet._set_up(head["options"])
        if not fleet.portable and not same_arithmetic(head["versions"]):
            raise SnapshotError(
                "the table was made on another machine or with other versions, and the outputs of these models depend "
                "on the machine's arithmetic; go on where it was made"
            )
        fleet.guard = None
        if rollback_guard is not None:
            place = digest(key.id, head["options"]["namespace"], fleet.name)
            fleet.guard = RollbackGuard.of(rollback_guard, place)
            if fleet.guard.ahead(1, head["serial"]) is not None:
                raise rollback_error("this fleet")
        columns, names = fleet._columns, parts.pop("room").to_pylist()
        columns.add(len(names))
        try:
            for name in columns.ints:
                columns.ints[name][: len(names)] = parts.pop(name).to_numpy()
            for i in range(len(columns.filters)):
                columns.filters[i, : len(names)] = parts.pop(f"filter {i}").to_numpy()
            for name, held in columns.objects.items():
                held[: len(names)] = [None if one is None else load(one) for one in parts.pop(name).to_pylist()]
        except KeyError:
            raise SnapshotError("the table lacks a column that it must have") from None
        fleet._names, fleet._numbers = names, {room: i for i, room in enumerate(names)}
        fleet._kind, fleet.serial = head["kind"], head["serial"]
        return fleet


def _tabledecision_checksum(columns: Iterable[Any]) -> str:
    """Of what the columns say, whatever their buffers look like."""
    found = hashlib.blake2b(digest_size=16)
    for column in columns:
        texts = column.type == "string"
        found.update(json.dumps(column.to_pylist()).encode() if texts else column.to_numpy().tobytes())
    return found.hexdigest()


class _Table:
    """The decisions of a ledger, within the transaction of a call."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.fleet = ledger, 0

    def decide(self, proposed: Decisions) -> Decisions:
        """Insert what is absent; where something was there already, that stands."""
        db = self.ledger.connection()
        columns = [column.tolist() for column in proposed]
        rows = [(self.fleet, *row, decision_checksum((self.fleet, *row))) for row in zip(*columns, strict=True)]
        before = db.total_changes
        db.executemany("INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        if db.total_changes - before == len(rows):
            return proposed
        standing = [self.standing(*row[1:3]) for row in rows]
        if None in standing:
            raise damage_error(self.ledger.path, "a decision")
        found = [row for row in standing if row is not None]
        return Decisions(*(np.array(column, dtype=np.int64) for column in zip(*found, strict=True)))

    def standing(self, room: int, tick: int) -> tuple[int, ...] | None:
        """The decision of a room and tick, if one was made."""
        query = "SELECT * FROM decisions WHERE fleet = ? AND room = ? AND tick = ?"
        found = self.ledger.rows(query, self.fleet, room, tick)
        if not found:
            return None
        if decision_checksum(found[0][:-1]) != found[0][-1]:
            raise damage_error(self.ledger.path, "a decision")
        return tuple(found[0][1:-1])


class _Pending:
    """Decisions of a run that is not recorded yet, beside those that stand."""

    def __init__(self, table: _Table) -> None:
        self.table, self.new = table, dict[tuple[int, int], tuple[int, ...]]()

    def decide(self, proposed: Decisions) -> Decisions:
        """What stands, and otherwise what is proposed, which is recorded with the run."""
        rows = []
        for row in zip(*(column.tolist() for column in proposed), strict=True):
            standing = self.new.get(row[:2]) or self.table.standing(*row[:2])
            if standing is None:
                standing = self.new[row[:2]] = row
            rows.append(standing)
        return Decisions(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


class FleetRun:
    """A run over a file of many rooms: all of it is recorded, or nothing.

    Outputs must not leave before `finish` has returned. A run that was interrupted has recorded nothing, and begins
    again with the same bits. One that was finished is repeated from the rooms that it began with: the same rows give
    the same outputs, and cost nothing; other rows under its name are refused.
    """

    def __init__(self, fleet: Fleet, table: _Table, name: str) -> None:
        self._fleet, self._table, self._name = fleet, table, name
        self._shadow = fleet._shadow(table)
        found = table.ledger.rows("SELECT rows, start FROM fleet_runs WHERE fleet = ? AND name = ?", table.fleet, name)
        self._rows: str | None = None
        self._begun = len(fleet)
        self._start = b"" if found else fleet._pack()
        if found:
            self._rows = found[0][0]
            try:
                self._shadow._unpack(found[0][1])
            except (ValueError, KeyError, IndexError, TypeError, SnapshotError):
                raise damage_error(table.ledger.path, "a run of a fleet") from None
        self._content = [hashlib.blake2b(digest_size=16) for _ in range(4)]
        self._spent = int(self._shadow._columns.ints["charged"].sum())

    @property
    def replayed(self) -> bool:
        """Whether the run was recorded before."""
        return self._rows is not None

    @property
    def draws(self) -> int:
        """Draws of this run that were not made before."""
        return len(self._pending.new)

    @property
    def nats(self) -> float:
        """What this run charges."""
        return 0.0 if self.replayed else (int(self._shadow._columns.ints["charged"].sum()) - self._spent) / MICRO

    @property
    def _pending(self) -> _Pending:
        store = self._shadow._store
        if not isinstance(store, _Pending):
            raise LedgerError("this run is finished")
        return store

    def outcome(self, rooms: Sequence[str], keys: NDArray[Any], Y: Array, source: Ints) -> Outcome:
        """As `Fleet.outcome`; the outputs must wait for `finish`."""
        text = "\0".join(rooms).encode() + b"\0"
        for part, content in zip(self._content, (text, keys.tobytes(), Y.tobytes(), source.tobytes()), strict=True):
            part.update(content)
        return self._shadow.outcome(rooms, keys, Y, source=source)

    def finish(self) -> None:
        """Record the run; or, for one that was recorded, make sure that its rows are those of then."""
        rows = digest(*(part.hexdigest() for part in self._content))
        if self._rows is not None:
            if rows != self._rows:
                raise LedgerError(
                    "a run of this name was recorded with other rows, and other readings under known times would be a "
                    "second output for them; give the new rows alone, under another name of the run"
                )
            return
        fleet, shadow, table, serial = self._fleet, self._shadow, self._table, self._fleet.serial + 1
        new = [(table.fleet, *row) for row in self._pending.new.values()]

        def work(db: sqlite3.Connection) -> None:
            checked = [(*row, decision_checksum(row)) for row in new]
            db.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", checked)
            for bucket in range(-(-len(shadow) // BUCKET)):
                first, stop = bucket * BUCKET, min((bucket + 1) * BUCKET, len(shadow))
                if stop > self._begun:
                    shadow.put_names(db, bucket)
                _put_bucket(db, table.fleet, bucket, serial, shadow._columns.pack(first, stop))
            db.execute("INSERT INTO fleet_runs VALUES (?, ?, ?, ?)", (table.fleet, self._name, rows, self._start))
            fleet._put_serial(db, serial)

        table.ledger.transact(work, lambda: fleet._note(serial))
        fleet._adopt(shadow)
        fleet.serial = serial


def _put_bucket(db: sqlite3.Connection, fleet: int, bucket: int, serial: int, content: bytes) -> None:
    db.execute(
        "INSERT INTO buckets(fleet, bucket, serial, content) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (fleet, bucket) DO UPDATE SET serial = excluded.serial, content = excluded.content",
        (fleet, bucket, serial, content),
    )


def _stream_options(options: Mapping[str, Json]) -> Plain:
    """The options that a stream of the fleet has: none about epochs, which the fleet makes."""
    return {name: value for name, value in options.items() if name in ("cadence", "gaps", "index")}


def _before(batch: _Batch, first: Mask, last: Ints) -> Ints:
    """The slot before that of each reading in its room, where `last` holds those before the call."""
    if batch.single:
        return last
    before = np.empty_like(batch.slot)
    before[1:] = batch.slot[:-1]
    np.copyto(before, last[batch.local], where=first)
    return before


def _last_ticks(batch: _Batch, first: Mask, silent: Mask, before: Ints) -> Ints:
    """The ticks of readings; a `silent` one, without an output, has that of the last other one of its room.

    `before` are the ticks of the rooms before the call.
    """
    there = np.arange(len(first))
    start = np.maximum.accumulate(np.where(first, there, 0))
    last = np.maximum.accumulate(np.where(silent, -1, there))
    earlier = batch.of_rooms(before)
    return np.where(last >= start, batch.tick[last], np.where(earlier == _NONE, batch.tick[start], earlier))


def _table_of(values: Sequence[Value]) -> tuple[int, Ints] | None:
    """Positions of whole numbers in a table, from the least one on, with an unknown one at its end; None for others."""
    if not all(isinstance(value, (bool, int)) and abs(value) < _LARGEST_TABLE for value in values):
        return None
    whole = np.array(values, dtype=np.int64)
    table = np.full(int(whole.max() - whole.min()) + 2, _UNKNOWN)
    table[whole - whole.min()] = np.arange(len(whole))
    return int(whole.min()), table


def _plain(values: list[Any]) -> bool:
    """Whether all values are numbers, truths or texts, of one type."""
    kinds = {type(value) for value in values}
    return len(kinds) <= 1 and kinds <= {int, float, bool, str}


_SHARED: dict[str, Ints] = {}


def _shared(name: str, stop: int, make: Callable[[int], Ints]) -> Ints:
    """The first entries of an array that all calls share, and none writes."""
    found = _SHARED.get(name)
    if found is None or len(found) < stop:
        found = _SHARED[name] = make(max(stop, 1024, 0 if found is None else 2 * len(found)))
        found.flags.writeable = False
    return found[:stop]


def _count_to(stop: int) -> Ints:
    """0, 1, 2, ... below `stop`."""
    return _shared("count", stop, lambda size: np.arange(size, dtype=np.int64))


def _constant(value: int, count: int) -> Ints:
    """The same number so many times."""
    return _shared(str(value), count, lambda size: np.full(size, value, dtype=np.int64))
