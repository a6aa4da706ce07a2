"""A plant: the fleets of one ledger, and the outbox in which stands what leaves.

A service takes readings from somewhere and sends outputs somewhere else, and either side may be killed at any moment.
So outputs are recorded as the very bytes that leave, in the transaction that steps the filters:

1. `Plant.disguise` steps the fleets for a group of arrivals and writes the outbox, in one commit; it returns after it.
2. The caller sends the contents, and calls `Plant.mark` for those that the other side has confirmed.
3. `Plant.unsent` is what was recorded and never confirmed: it is sent first after a restart, in the same bytes.

A reading that comes again under its key gets the recorded bytes, for as long as they are retained; then it is late, and
gets nothing. Sequence numbers count the outputs of a room, without gaps.

Private values that arrive as messages of their own (`Plant.tell`) are recorded here too, so that a message can be
acknowledged before a reading has used it.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Value
from understudy.apply.binding import FileDesign, forms_of
from understudy.errors import ConfigurationError, LedgerError, ReadingError
from understudy.stream.cadence import Duration
from understudy.stream.engine import as_policy
from understudy.stream.fleet import Decisions, DecisionStore, Fleet, Rule
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import damage_error, decision_checksum, message_checksum
from understudy.stream.randomness import MasterKey
from understudy.tables.columns import NumberFormat

_BITE = 256  # messages that are forgotten in a transaction, besides twice as many as it records
_NOBODY = -1  # the place of no private value
_MARKS = 64  # of the time of arrival, in the time that messages are retained


@dataclass(frozen=True, slots=True)
class Terms:
    """What the rooms of a fleet share, for good: the options of `us.Fleet` under its name."""

    name: str
    design: FileDesign
    period: Duration | None = None
    tolerance: Duration | None = None
    epoch: dt.timedelta | int | None = None
    gaps: str | None = None
    total: float | None = None
    amount: float | None = None
    per: dt.timedelta | None = None
    when_spent: str = "stop"

    def fleet(self, store: Ledger | DecisionStore, key: MasterKey) -> Fleet:
        """The fleet of this name in the ledger, which is begun if it is not there."""
        return Fleet(
            self.design,
            store,
            self.name,
            key=key,
            epoch=self.epoch,
            period=self.period,
            tolerance=self.tolerance,
            gaps=self.gaps,
            total=self.total,
            amount=self.amount,
            per=self.per,
            when_spent=self.when_spent,
        )


class Arrival(NamedTuple):
    """A reading of a room, with its key: nanoseconds since 1970 where the fleet has a period, otherwise a number."""

    fleet: str
    room: str
    key: int
    reading: float | tuple[float, ...]
    theta: Value | None = None
    """The private value; None where the room has the one of before."""
    tag: Any = None
    """Whatever the caller wants back."""

    def __repr__(self) -> str:
        return f"Arrival({self.fleet!r}, {self.room!r})"


class Record(NamedTuple):
    """What became of an arrival; what leaves is in `content`, and is on disk."""

    arrival: Arrival
    rule: Rule
    values: tuple[float, ...] | None = None
    """The output, of a new one."""
    sequence: int = 0
    """The number of the output among those of its room, from 1 on."""
    content: bytes | None = None
    """The bytes that leave; None where there is no output, and `rule` says why."""
    id: int = 0
    """The number of the message in the outbox."""
    replayed: bool = False
    """Whether the output was recorded for an earlier arrival of the same key."""

    def __repr__(self) -> str:
        return f"Record({self.rule.name.lower()}, {self.sequence})"


class Message(NamedTuple):
    """What is recorded for an output: the number of its row, its fleet, key and sequence number, and the bytes."""

    id: int
    fleet: str
    key: int
    sequence: int
    content: bytes

    def __repr__(self) -> str:
        return f"Message({self.id})"


class Output(NamedTuple):
    """A new output, which is to be written as bytes."""

    fleet: str
    room: str
    key: int
    """The time of its slot, or its number: never the time of the reading itself."""
    values: tuple[float, ...]
    sequence: int
    tag: Any

    def __repr__(self) -> str:
        return f"Output({self.room!r}, {self.sequence})"


_Latest = dict[int, dict[int, tuple[int, int]]]
"""Of each fleet and room the last message: its sequence number and its id."""
Render = Callable[[Output], bytes]
"""Writes an output as the bytes that leave: a pure function of it."""


class Plant:
    """The fleets of a ledger and their outbox.

    Parameters
    ----------
    ledger : Ledger, optional
        Where everything is recorded. Without one nothing is: a reading that comes again gets no output, and the next
        process draws anew.
    key : MasterKey
        The key from which all draws follow.
    terms : sequence of Terms
        The fleets.
    render : callable
        Writes an `Output` as the bytes that leave, within the transaction.
    retain : timedelta
        How long what was sent is kept for readings that come again; the last message of a room stays.
    confirm : bool
        Whether messages wait to be marked. Otherwise they are recorded as sent: whoever lacks one gives its reading
        again.
    sort : bool
        Whether the arrivals of a group are taken by their keys. Otherwise they are taken as they come, and what
        becomes of a reading does not depend on how readings fall into groups.

    Examples
    --------
    >>> import os, tempfile
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = us.Ledger(os.path.join(folder.name, "plant.ledger"), rollback_guard=folder.name)
    >>> plant = Plant(ledger, us.MasterKey.new(), [Terms("office", design)], lambda out: b"%f" % out.values)
    >>> plant.admit("office", ["lab"])
    >>> records = plant.disguise([Arrival("office", "lab", 1, 0.25, theta=1)])
    >>> records, len(plant.unsent())
    ([Record(taken, 1)], 1)
    >>> plant.mark([record.id for record in records])
    >>> again = plant.disguise([Arrival("office", "lab", 1, 0.75, theta=1)])
    >>> again[0].content == records[0].content, len(plant.unsent())
    (True, 0)
    >>> ledger.close()
    >>> folder.cleanup()

    """

    def __init__(
        self,
        ledger: Ledger | None,
        key: MasterKey,
        terms: Iterable[Terms],
        render: Render,
        *,
        retain: dt.timedelta = dt.timedelta(days=1),
        confirm: bool = True,
        sort: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if retain.total_seconds() < 1:
            raise ConfigurationError(f"retain = {retain}; it must be at least a second")
        self.ledger, self._render, self._clock = ledger, render, clock
        self._confirm, self._sort = confirm, sort
        self._retain = int(retain.total_seconds())
        self.terms = {each.name: each for each in terms}
        self.fleets = {name: each.fleet(ledger or _Memory(), key) for name, each in self.terms.items()}
        self._policies = {name: as_policy(each.design)[0] for name, each in self.terms.items()}
        self._numbers = {name: number for number, name in enumerate(self.fleets)}
        self._latest: _Latest = {number: {} for number in self._numbers.values()}
        self._last, at = 0, None
        if ledger is not None:
            at = self._read_outbox(ledger)
        self._marks: list[int] = []
        self._told: list[tuple[int, int, int, int, int]] = []  # fleet, room, since, source, horizon
        self._ages: deque[tuple[int, int]] = deque(
            [(at, self._last)] if at is not None else []
        )  # time, last id of then
        self._looked = 0  # ids up to this are of rooms that have no newer message
        self._unsure = False

    def _read_outbox(self, ledger: Ledger) -> int | None:
        """Find the last message of each room; returns when the last of all arrived."""
        known = dict(ledger.rows("SELECT name, id FROM fleets"))
        self._numbers = {name: known[name] for name in self.fleets}
        self._latest = {number: {} for number in self._numbers.values()}
        query = "SELECT sequence, id FROM outbox WHERE fleet = ? AND room = ? ORDER BY key DESC LIMIT 1"
        for name, fleet in self.fleets.items():
            for room in range(len(fleet)):
                for latest in ledger.rows(query, self._numbers[name], room):
                    self._latest[self._numbers[name]][room] = latest
        self._last, at = ledger.rows("SELECT coalesce(max(id), 0), at FROM outbox")[0]
        return None if at is None else int(at)

    def __repr__(self) -> str:
        return f"Plant({len(self.fleets)} fleets, {sum(map(len, self.fleets.values()))} rooms)"

    def forms(self, fleet: str) -> tuple[NumberFormat, ...]:
        """How the outputs of a fleet are written, channel by channel: by its design alone."""
        return forms_of(self.terms[fleet].design)

    def admit(self, fleet: str, rooms: Iterable[str]) -> None:
        """Let rooms in, durably; those that are in stay as they are."""
        self._settle()
        self.fleets[fleet].admit(rooms)

    def position(self, fleet: str, value: Value) -> int | None:
        """The place of a private value among those of the design; None if it has no such value."""
        policy = self._policies[fleet]
        try:
            return int(policy.row(value))
        except (ConfigurationError, TypeError, ValueError):
            return None

    def value(self, fleet: str, position: int) -> Value:
        """The private value at a place."""
        return self._policies[fleet].values[position]

    # A group ------------------------------------------------------------------------------------------

    def disguise(self, arrivals: Sequence[Arrival]) -> list[Record]:
        """Disguise a group of readings in one commit; what is returned is on disk, one record for each arrival.

        Within a room arrivals are taken by their keys, unless the plant does not sort. One that cannot be used takes
        nothing but itself along. If the disk fails, a LedgerError is raised, nothing was recorded, and the same
        arrivals may be given again.
        """
        self._settle()
        draft = _Draft(self._last)
        failures: list[Exception] = []

        def run() -> None:
            try:
                self._run(arrivals, draft)
            except Exception as error:
                failures.append(error)
                raise

        self._unsure = True
        if self.ledger is None:
            run()
        else:
            with self.ledger.group() as group:
                group.call(run)
                if failures:
                    raise failures[0]
        self._unsure = False
        self._adopt(draft)
        return [record for record in draft.records if record is not None]

    def flush(self) -> None:
        """Record what was marked and told since the last group, in a commit of its own, if there is anything."""
        if self._marks or self._told:
            self.disguise(())

    @property
    def pending(self) -> bool:
        """Whether there is anything to `flush`."""
        return bool(self._marks or self._told)

    def mark(self, ids: Iterable[int]) -> None:
        """Say that messages were taken by the other side; recorded in the next commit."""
        self._marks += ids

    def unsent(self) -> list[Message]:
        """What was recorded and not marked, in its order."""
        query = 'SELECT id, fleet, room, key, sequence, at, content, "check" FROM outbox WHERE sent = 0 ORDER BY id'
        names = {number: name for name, number in self._numbers.items()}
        return [Message(i, names.get(row[0], ""), row[2], row[3], self._checked(*row)) for i, *row in self._rows(query)]

    def find(self, fleet: str, room: str, key: int) -> Message | None:
        """What is on disk for a reading."""
        number = int(self.fleets[fleet].numbers([room])[0])
        found = self._recorded(Arrival(fleet, room, key, 0.0), self._numbers[fleet], number, None)
        return None if found.content is None else Message(found.id, fleet, key, found.sequence, found.content)

    def last_key(self, fleet: str, room: str) -> int | None:
        """The key of the last output of a room that is recorded."""
        number = int(self.fleets[fleet].numbers([room])[0])
        query = "SELECT max(key) FROM outbox WHERE fleet = ? AND room = ?"
        return next((key for (key,) in self._rows(query, self._numbers[fleet], number)), None)

    def tell(self, fleet: str, room: str, since: int, value: Value | None, horizon: int) -> bool:
        """Record from when on a room has a private value, in the next commit; whether the design has such a value.

        None says that it has none from then on. Values that ended before the horizon are forgotten.
        """
        source = _NOBODY if value is None else self.position(fleet, value)
        number = int(self.fleets[fleet].numbers([room])[0])
        if source is None or number < 0:
            return False
        self._told.append((self._numbers[fleet], number, since, source, horizon))
        return True

    def told(self, fleet: str) -> dict[str, list[tuple[int, Value | None]]]:
        """The private values of rooms that are recorded: from when on, and which."""
        found: dict[str, list[tuple[int, Value | None]]] = {}
        rooms = self.fleets[fleet].rooms
        rows = self._rows("SELECT * FROM private_values WHERE fleet = ? ORDER BY since", self._numbers[fleet])
        for *row, written in rows:
            if decision_checksum(tuple(row)) != written:
                raise self._damage("a private value")
            found.setdefault(rooms[row[1]], []).append(
                (row[2], None if row[3] == _NOBODY else self.value(fleet, row[3]))
            )
        return found

    def _settle(self) -> None:
        """After a group that came to nothing, fleets are read again before anything else."""
        if self._unsure:
            for fleet in self.fleets.values():
                kind = "datetime64[ns]" if fleet.cadence is not None else np.int64
                fleet.outcome([], np.empty(0, dtype=kind), np.empty((0, fleet.dim)))
            self._unsure = False

    # Within the transaction ---------------------------------------------------------------------------

    def _run(self, arrivals: Sequence[Arrival], draft: _Draft) -> None:
        draft.records = [None] * len(arrivals)
        at = int(self._clock())
        by_fleet: dict[str, list[int]] = {}
        for i, arrival in enumerate(arrivals):
            by_fleet.setdefault(arrival.fleet, []).append(i)
        again: list[tuple[int, int, int]] = []  # arrivals that are known perhaps
        for name, places in by_fleet.items():
            if self._sort:
                places.sort(key=lambda i: arrivals[i].key)
            again += self._step(name, places, arrivals, draft, at)
        if self.ledger is not None:
            self.ledger.transact(lambda db: self._write(db, draft, at))
        for place, fleet, room in again:
            draft.records[place] = self._recorded(arrivals[place], fleet, room, draft.records[place])

    def _step(
        self, name: str, places: list[int], arrivals: Sequence[Arrival], draft: _Draft, at: int
    ) -> list[tuple[int, int, int]]:
        """Readings of a fleet: new outputs into the draft; returns those that came again."""
        fleet, number = self.fleets[name], self._numbers[name]
        given = [arrivals[i] for i in places]
        rooms = fleet.numbers([arrival.room for arrival in given])
        keys = np.array([arrival.key for arrival in given], dtype=np.int64)
        values, rules = self._outcome(fleet, rooms, keys, given)
        slots = keys if fleet.cadence is None else fleet.cadence.time(fleet.cadence.slots_of(keys))
        again = []
        sent, recorded, render = int(not self._confirm), self.ledger is not None, self._render
        before, latest, records = self._latest[number], draft.latest.setdefault(number, {}), draft.records
        empty = np.isnan(values).any(axis=1).tolist()
        rows = zip(places, given, rooms.tolist(), slots.tolist(), values.tolist(), rules, empty, strict=True)
        last = draft.last
        for place, arrival, room, slot, value, rule, nothing in rows:
            if rule or nothing:
                records[place] = Record(arrival, Rule(rule))
                if rule in (Rule.DUPLICATE, Rule.LATE):
                    again.append((place, number, room))
                continue
            sequence = (latest.get(room) or before.get(room) or (0, 0))[0] + 1
            output = Output(name, arrival.room, slot, tuple(value), sequence, arrival.tag)
            content = render(output)
            last += 1
            latest[room] = sequence, last
            if recorded:
                check = message_checksum(number, room, arrival.key, sequence, at, content)
                draft.rows.append((last, number, room, arrival.key, sequence, at, content, check, sent))
            records[place] = Record(arrival, Rule.TAKEN, output.values, sequence, content, last)
        draft.last = last
        return again

    @staticmethod
    def _outcome(fleet: Fleet, rooms: Any, keys: Any, given: list[Arrival]) -> tuple[Any, list[int]]:
        """Outputs (R, d) and rules; where a reading is none at all, only that one fails."""
        times = keys.view("datetime64[ns]") if fleet.cadence is not None else keys

        def step(which: slice) -> tuple[Any, list[int]]:
            Y = np.array([arrival.reading for arrival in given[which]], dtype=float).reshape(-1, fleet.dim)
            found = fleet.outcome(rooms[which], times[which], Y, [arrival.theta for arrival in given[which]])
            return found.outputs, found.rules.tolist()

        try:
            return step(slice(None))
        except (ReadingError, TypeError, ValueError):
            if len(given) == 1:
                return np.full((1, fleet.dim), np.nan), [int(Rule.FORM)]
        outputs, rules = np.full((len(given), fleet.dim), np.nan), [int(Rule.FORM)] * len(given)
        for i in range(len(given)):
            try:
                outputs[i], rules[i : i + 1] = step(slice(i, i + 1))
            except (ReadingError, TypeError, ValueError):
                continue
        return outputs, rules

    def _write(self, db: sqlite3.Connection, draft: _Draft, at: int) -> None:
        """New messages, marks, and private values; and forget what is old."""
        db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", draft.rows)
        draft.marks = len(self._marks)
        db.executemany("UPDATE outbox SET sent = 1 WHERE id = ?", [(number,) for number in self._marks])
        draft.told = len(self._told)
        if self._told:
            told = [(*row, decision_checksum(tuple(row))) for *row, _ in self._told]
            db.executemany("INSERT OR IGNORE INTO private_values VALUES (?, ?, ?, ?, ?)", told)
            query = (
                "DELETE FROM private_values WHERE fleet = ?1 AND room = ?2 AND since < (SELECT max(since) FROM "
                "private_values WHERE fleet = ?1 AND room = ?2 AND since <= ?3)"
            )
            ended = {(fleet, room): horizon for fleet, room, *_, horizon in self._told}
            db.executemany(query, [(*place, horizon) for place, horizon in ended.items()])
        self._forget(db, draft, at)

    def _forget(self, db: sqlite3.Connection, draft: _Draft, at: int) -> None:
        """Forget messages that arrived longer ago than is retained, a few at a time, but for the last of each room."""
        ages = self._ages
        if not ages or at >= ages[-1][0] + max(1, self._retain // _MARKS):
            ages.append((at, self._last))
        due = 0
        for age, last in ages:
            if age > at - self._retain:
                break
            due = last
        if due <= self._looked:
            return
        bite = _BITE + 2 * len(draft.rows)
        query = "SELECT id, fleet, room FROM outbox WHERE id > ? AND id <= ? AND sent = 1 ORDER BY id LIMIT ?"
        found = db.execute(query, (self._looked, due, bite)).fetchall()
        latest = self._latest
        old = [(number,) for number, fleet, room in found if latest.get(fleet, {}).get(room, (0, number))[1] != number]
        db.executemany("DELETE FROM outbox WHERE id = ?", old)
        draft.looked = due if len(found) < bite else found[-1][0]

    def _recorded(self, arrival: Arrival, fleet: int, room: int, record: Record | None) -> Record:
        """The message of a reading that has been here under this key; otherwise the record as it is."""
        query = 'SELECT id, key, sequence, at, content, "check" FROM outbox WHERE fleet = ? AND room = ? AND key = ?'
        found = self._rows(query, fleet, room, arrival.key)
        rule = Rule.LATE if record is None else record.rule
        if not found:
            return Record(arrival, rule)
        number, key, sequence, at, content, check = found[0]
        content = self._checked(fleet, room, key, sequence, at, content, check)
        return Record(arrival, rule, None, sequence, content, number, True)

    def _checked(self, fleet: int, room: int, key: int, sequence: int, at: int, content: bytes, check: int) -> bytes:
        if message_checksum(fleet, room, key, sequence, at, content) != check:
            raise self._damage("a message in the outbox")
        return content

    def _rows(self, query: str, *given: Any) -> list[Any]:
        """Rows of the ledger; none without one."""
        return [] if self.ledger is None else self.ledger.rows(query, *given)

    def _damage(self, what: str) -> LedgerError:
        return damage_error("" if self.ledger is None else self.ledger.path, what)

    def _adopt(self, draft: _Draft) -> None:
        """What a group has become, once it is on disk."""
        if None in draft.records:
            raise LedgerError("a record of the group is missing")
        self._last = draft.last
        for number, latest in draft.latest.items():
            self._latest[number] |= latest
        del self._marks[: draft.marks]
        del self._told[: draft.told]
        self._looked = max(self._looked, draft.looked)
        while len(self._ages) > 1 and self._ages[0][1] <= self._looked and self._ages[1][1] <= self._looked:
            self._ages.popleft()


class _Memory:
    """Decisions of one process, where nothing is recorded."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], tuple[int, ...]] = {}

    def decide(self, proposed: Decisions) -> Decisions:
        """What stands for each room and tick, and otherwise what is proposed."""
        rows = [self._rows.setdefault(row[:2], row) for row in zip(*(c.tolist() for c in proposed), strict=True)]
        return Decisions(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


class _Draft:
    """What a group is to become."""

    __slots__ = ("last", "latest", "looked", "marks", "records", "rows", "told")

    def __init__(self, last: int) -> None:
        self.last = last
        self.records: list[Record | None] = []
        self.rows: list[tuple[int, int, int, int, int, int, bytes, int, int]] = []
        self.latest: _Latest = {}
        self.marks = self.told = self.looked = 0
