"""The gateway: readings from one broker, disguised readings to another, for months.

One thread turns one loop. A turn takes what the sockets have, puts readings into the windows of their rooms, and then

1. steps the fleets for all slots that go now and writes the outbox, in one commit (`Plant.disguise`);
2. publishes what was recorded, with QoS 1;
3. marks what the listeners' broker has confirmed, in the commit of the next group;
4. acknowledges the messages whose outputs are marked, and those that have no output.

So a message is acknowledged when nothing depends on it any more. The process may be killed between any two steps: at
the next start what is recorded and not marked goes out first, in the same bytes, and what was not acknowledged comes
again and finds its recorded output. `Gateway.passed` is called between the steps.

When more waits than a few groups, the sensors' socket is not read: nothing is dropped here.
"""

from __future__ import annotations

import datetime as dt
import gc
import heapq
import select
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy._types import Value
from understudy.errors import (
    LedgerBusyError,
    LedgerDamagedError,
    LedgerError,
    ReadingError,
    RollbackError,
)
from understudy.gateway.config import Located, read_config
from understudy.gateway.drift import Drift, read_stopped, write_stopped
from understudy.gateway.entries import Entry, entries_of, master_key
from understudy.gateway.link import Link, Receipt, Subscription, Will
from understudy.gateway.messages import (
    discovery,
    user_properties,
)
from understudy.gateway.operation import HealthServer, Log, Metrics, ServiceManager, budget_bucket
from understudy.gateway.plant import Arrival, Message, Plant, Record
from understudy.gateway.window import PrivateValues, Ready, Window
from understudy.stream.ledger import Ledger

_NS = 1_000_000_000
_LINGER = 0.02  # seconds that marks wait for a group to share its commit
_LOOK = 0.05  # seconds between looks at the windows that wait
_DRAIN = 10.0  # seconds for the last confirmations at the end
_DISCONNECTS = 3  # without an answer, at the start, which say that something else than a broker is there
_TOPICS = 100_000  # that are remembered

# The service ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Room:
    """A room that is running."""

    name: str
    entry: Entry
    window: Window


@dataclass(slots=True)
class _Message:
    """A message that is to be confirmed: which messages came for it, and when."""

    content: bytes
    fleet: str
    sequence: int
    receipts: list[Receipt | None]
    since: float


class Gateway:
    """A gateway as a configuration describes it; `run` is the service.

    A subclass may override `passed`, which is called between the steps with their names: "received", "committed",
    "publishing", "published", "confirmed", "marked", "acknowledging", "acknowledged".
    """

    def __init__(self, located: Located, log: Log | None = None) -> None:
        config = located.config
        self.located, self.config, self.log = located, config, log or Log()
        self.metrics = Metrics()
        self.manager = ServiceManager()
        self.entries = entries_of(located)
        key = master_key(located)
        guard = None if config.rollback_guard is None else located.file(config.rollback_guard)
        self.ledger = Ledger(located.file(config.ledger), rollback_guard=guard)
        try:
            self.plant = Plant(
                self.ledger,
                key,
                {entry.fleet: entry.terms for entry in self.entries}.values(),
                lambda output: output.tag[0].entry.write(output),
                retain=dt.timedelta(seconds=config.retain),
            )
            self._links()
        except BaseException:
            self.ledger.close()
            raise
        self._rooms: dict[tuple[str, str], _Room] = {}
        self._entered: Counter[str] = Counter()  # rooms by their entry
        self._routes: dict[str, list[tuple[_Room, int]]] = {}
        self._told = {entry.fleet: self.plant.told(entry.fleet) for entry in self.entries}
        for entry in self.entries:
            self._begin_rooms(entry)
        self._drift = {entry.name: Drift(entry.terms.design, entry.config.on_drift) for entry in self.entries}
        self._places: dict[tuple[str, Value], int] = {}
        self._stopped_file = located.file(config.ledger).with_suffix(".stopped.json")
        self._stopped = read_stopped(self._stopped_file)
        for entry in self.entries:
            if entry.config.on_drift == "stop":
                self._drift[entry.name].tripped.update(self._stopped.get(entry.fleet, ()))
        self._touched: set[tuple[str, str]] = set()
        self._looked, self._waiting = 0.0, 0
        self._ready: deque[Arrival] = deque()
        self._group: list[Arrival] = []  # that is recorded, or is tried again
        self._again, self._failures = 0.0, 0
        self._queue: deque[int] = deque()  # numbers of messages to publish
        # and of those that leave at a time: by their topics, since an order of arrival would tell what the time hides
        self._scheduled: list[tuple[float, bytes, int]] = []
        self._release = {
            entry.fleet: (entry.cadence, entry.config.release)
            for entry in self.entries
            if entry.config.release is not None
        }
        self._messages: dict[int, _Message] = {}  # by number, until they are confirmed
        self._unconfirmed: dict[int, int] = {}  # numbers of messages by those of the connection
        self._marked: list[_Message] = []  # that the next commit marks
        self._marks_since: float | None = None
        self._told_receipts: list[Receipt | None] = []
        self._acknowledge: list[Receipt | None] = []
        self._stopping = False
        self._turned = time.monotonic()
        self._minute = 0.0
        self._postponed: list[tuple[str, bytes, bool, Receipt | None]] = []  # of rooms that are to be admitted
        self._new: dict[str, dict[str, None]] = {}  # these rooms, by their entry
        self._coming: dict[tuple[str, str, int], list[Receipt | None]] = {}  # readings on the way to the ledger
        self._pause, self._refusals = 0.0, 0  # of publishing, after a refusal
        for message in self.plant.unsent():
            self._enqueue(message, [])

    def _links(self) -> None:
        config, located = self.config, self.located
        subscriptions = {s.topic: s for entry in self.entries for s in entry.subscriptions()}
        self.source = Link(located, "in", subscriptions=list(subscriptions.values()), on_message=self.receive)
        home = config.homeassistant
        self._status = f"{config.output.client_id}/status"
        wanted = [] if home is None else [Subscription(f"{home.prefix}/status", False, ("homeassistant", "prefix"))]
        self.target = Link(
            located,
            "out",
            subscriptions=wanted,
            will=None if home is None else Will(self._status, b"online", b"offline"),
            on_message=self._home_assistant_said,
            on_confirm=self._confirmed,
            on_state=self._target_changed,
        )

    def passed(self, point: str) -> None:
        """Called between the steps of the service; it does nothing."""

    # Rooms ----------------------------------------------------------------------------------------------

    def _begin_rooms(self, entry: Entry) -> None:
        """The rooms that are known at the start."""
        names = [entry.name] if not entry.config.many else entry.config.names or []
        for name in names:
            self._check_room(entry, name)
        self.plant.admit(entry.fleet, names)
        if entry.config.many and entry.config.admit is not None:  # those that were admitted before
            others = {e.name for e in self.entries if e.fleet == entry.fleet and not e.config.many}
            others |= {n for e in self.entries if e.fleet == entry.fleet for n in e.config.names or ()}
            others |= {name for fleet, name in self._rooms if fleet == entry.fleet}
            names = [*names, *(name for name in self.plant.fleets[entry.fleet].rooms if name not in others)]
        for name in names:
            self._begin(entry, name)

    def _check_room(self, entry: Entry, name: str) -> None:
        if not _is_topic_part(name):
            raise self.located.error(
                ("rooms", entry.name), f"{name!r} cannot be the name of a room: it is part of topics"
            )

    def _begin(self, entry: Entry, name: str) -> _Room:
        known = self._rooms.get((entry.fleet, name))
        if known is not None:
            raise self.located.error(
                ("rooms", entry.name),
                f"the room {name!r} is one of {known.entry.name!r} too, in the same fleet; a room belongs to one entry",
            )
        values = entry.values()
        if isinstance(values, PrivateValues):
            for since, value in self._told[entry.fleet].get(name, ()):
                values.tell(since, value)
        ahead = round(entry.config.ahead * _NS)
        window = Window(entry.cadence, len(entry.readers), entry.config.lateness, ahead, values)
        last = self.plant.last_key(entry.fleet, name)
        window.last = None if last is None else entry.cadence.slot(last)
        room = self._rooms[entry.fleet, name] = _Room(name, entry, window)
        self._entered[entry.name] += 1
        if self.target.up:
            self._announce(room)
        return room

    def _route(self, topic: str) -> list[tuple[_Room, int]] | None:
        """The rooms and channels that a topic is of, -1 for private values; None if a room is to be admitted first."""
        found: list[tuple[_Room, int]] = []
        for entry in self.entries:
            topics = [*enumerate(entry.config.topics)]
            topics += [] if entry.config.theta.topic is None else [(-1, entry.config.theta.topic)]
            for channel, pattern in topics:
                if not _matches(topic, pattern):
                    continue
                name = entry.room(topic, pattern)
                room = self._rooms.get((entry.fleet, name))
                if room is not None and room.entry is entry:
                    found.append((room, channel))
                elif self._may_enter(entry, name):
                    return None
        if found:
            if len(self._routes) >= _TOPICS:
                self._routes.clear()
            self._routes[topic] = found
        return found

    def _may_enter(self, entry: Entry, name: str) -> bool:
        """Whether there is place for a room that appears by itself; one for which there is none is counted."""
        new = self._new.setdefault(entry.name, {})
        here = len(new) + self._entered[entry.name]
        if name in new:
            return True
        taken = (entry.fleet, name) in self._rooms  # by another entry
        if entry.config.admit is None or here >= entry.config.admit or taken or not _is_topic_part(name):
            self.metrics.rules["unknown_room"] += 1
            self.log.about(entry.name, "unknown_room", limit=entry.config.admit or 0)
            return False
        new[name] = None
        return True

    def _admit(self) -> None:
        """Let in the rooms that have appeared, in one commit for each entry, and take their messages."""
        try:
            for entry in self.entries:
                new = list(self._new.get(entry.name, ()))
                if new:
                    self.plant.admit(entry.fleet, new)
                    del self._new[entry.name]
                    for name in new:
                        self._begin(entry, name)
                    self.log("info", "admitted", entry=entry.name, rooms=len(self.plant.fleets[entry.fleet]))
        except LedgerError as error:
            self._failed(error)
            return
        postponed, self._postponed = self._postponed, []
        for given in postponed:
            self.receive(*given)

    # What comes -----------------------------------------------------------------------------------------

    def receive(self, topic: str, payload: bytes, retained: bool, receipt: Receipt | None) -> None:
        """A message of the sensors' broker: a reading, a private value, or neither."""
        self.passed("received")
        routes = self._routes.get(topic) or self._route(topic)
        if routes is None:
            self._postponed.append((topic, payload, retained, receipt))
            return
        kept = False
        wall = time.time_ns()
        for room, channel in routes:
            entry = room.entry
            try:
                said = (entry.theta if channel < 0 else entry.readers[channel])(payload, wall)
            except ReadingError as error:
                self.metrics.messages["unreadable"] += 1
                self.log.about(topic, "unreadable", rule=str(error))
                continue
            if said.time is None and retained:  # when it was said is not known
                self.metrics.messages["retained"] += 1
                continue
            at = wall if said.time is None else said.time
            if channel < 0:
                self.metrics.messages["private"] += 1
                kept |= self._tell(room, at, said.value, receipt, wall)
            else:
                self.metrics.messages["reading"] += 1
                kept |= self._add(room, channel, at, said.value, receipt, wall)
        if not kept:
            self._acknowledge.append(receipt)

    def _tell(self, room: _Room, at: int, said: Any, receipt: Receipt | None, wall: int) -> bool:
        """A private value; whether its message is acknowledged later."""
        entry, values = room.entry, room.window.values
        value = entry.private_value(said)
        if value is None:
            self.metrics.messages["unknown_value"] += 1
            self.log.about(room.name, "unknown_value")
        if at > wall + 86_400 * _NS:
            self.metrics.messages["future"] += 1
            return False
        if not isinstance(values, PrivateValues) or not values.tell(at, value):
            return False
        last = room.window.last
        horizon = values.forget(at - 86_400 * _NS if last is None else min(at, entry.cadence.time(last)))
        self.plant.tell(entry.fleet, room.name, at, value, horizon)
        self._told_receipts.append(receipt)
        self._marks_since = self._marks_since or time.monotonic()
        self._touched.add((entry.fleet, room.name))
        return True

    def _add(self, room: _Room, channel: int, at: int, number: float, receipt: Receipt | None, wall: int) -> bool:
        """A reading with its time; whether its message is acknowledged later."""
        window = room.window
        if at > wall + window.ahead:
            if window.hold(channel, at, number, receipt, wall):
                self.metrics.rules["held"] += 1
                return True
            self.metrics.rules["future"] += 1
            self.log.about(room.name, "future", rule="the time is too far ahead of the clock of this machine")
            return False
        rule = window.add(channel, at, number, receipt, time.monotonic())
        if rule is None:
            self._touched.add((room.entry.fleet, room.name))
            return True
        if rule in ("late", "duplicate"):
            slot = window.slot(at)
            key = at if window.channels == 1 else room.entry.cadence.time(slot or 0)
            coming = self._coming.get((room.entry.fleet, room.name, key))
            if coming is not None:
                coming.append(receipt)
                return True
            found = self.plant.find(room.entry.fleet, room.name, key)
            if found is not None:
                self.metrics.steps["replayed"] += 1
                self._enqueue(found, [receipt])
                return True
        self.metrics.rules[rule] += 1
        self.log.about(room.name, rule)
        return False

    def _gather(self, now: float) -> None:
        """Slots that go now into the queue; those that are missing for good are counted and acknowledged."""
        if now - self._looked >= _LOOK:
            self._looked, self._waiting = now, sum(len(room.window) for room in self._rooms.values())
            wall = time.time_ns()
            for name, room in self._rooms.items():
                if room.window.holds:
                    for channel, at, number, receipt in room.window.release(wall):
                        if not self._add(room, channel, at, number, receipt, wall):
                            self._acknowledge.append(receipt)
                if room.window.deadline <= now:
                    self._touched.add(name)
        going: dict[str, list[tuple[_Room, Ready]]] = {}
        for name in self._touched:
            room = self._rooms[name]
            for each in room.window.ready(now):
                if isinstance(each, Ready):
                    going.setdefault(room.entry.name, []).append((room, each))
                else:
                    self.metrics.rules[each.rule] += 1
                    self.log.about(room.name, each.rule)
                    self._acknowledge += each.receipts
        self._touched.clear()
        for entry, slots in going.items():
            self._judge(entry, slots)
            for room, each in slots:
                if self._drift[entry].withholds(room.name):
                    self.metrics.rules["drift"] += 1
                    self._acknowledge += each.receipts
                    continue
                arrival = self._arrival(room, each, now)
                self._ready.append(arrival)
                self._coming[arrival.fleet, arrival.room, each.key] = each.receipts

    def _judge(self, name: str, slots: list[tuple[_Room, Ready]]) -> None:
        """Test the scores of readings before anything of them leaves."""
        drift, entry = self._drift[name], slots[0][0].entry
        Y = np.array([ready.reading for _, ready in slots])
        keys = np.array([ready.key for _, ready in slots], dtype=np.int64)
        if entry.preparation.changes:
            Y = entry.preparation.readings(Y, keys)
        source = np.array([self._position(entry, ready.theta) for _, ready in slots], dtype=np.int64)
        for room in drift.judge([room.name for room, _ in slots], Y, source, entry.cadence.slots_of(keys)):
            self.log(
                "error", "drift", room=room, policy=drift.policy, rule="its scores have come to tell its private value"
            )
            if drift.policy == "stop":
                self._stopped.setdefault(entry.fleet, []).append(room)
                write_stopped(self._stopped_file, self._stopped)

    def _position(self, entry: Entry, theta: Value) -> int:
        """The place of a private value in the design."""
        found = self._places.get((entry.fleet, theta))
        if found is None:
            found = self._places[entry.fleet, theta] = self.plant.position(entry.fleet, theta) or 0
        return found

    @staticmethod
    def _arrival(room: _Room, ready: Ready, now: float) -> Arrival:
        entry, reading = room.entry, ready.reading
        if entry.preparation.changes:
            Y = entry.preparation.readings(np.array([reading]), np.array([ready.key]))
            reading = tuple(Y[0].tolist())
        return Arrival(entry.fleet, room.name, ready.key, reading, ready.theta, (room, ready.receipts, now))

    @property
    def _full(self) -> bool:
        """Whether so much waits that the sensors' socket is not read."""
        most = 4 * self.config.input.group
        waiting = len(self._ready) + len(self._group) + len(self._messages) + len(self._marked)
        waiting += len(self._postponed) + self._waiting
        return waiting >= most or (self._failures > 0 and waiting >= self.config.input.group)

    # A turn ---------------------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Record a group, publish what is recorded, and acknowledge what is done."""
        if self._postponed and now >= self._again:
            self._admit()
        self._gather(now)
        if now >= self._again:
            late = self._marks_since is not None and now - self._marks_since >= _LINGER
            if not self._group:
                while self._ready and len(self._group) < self.config.input.group:
                    self._group.append(self._ready.popleft())
            if self._group or late or (self._stopping and self.plant.pending):
                self.record(now)
        self.publish()
        self.acknowledge()

    def record(self, now: float) -> None:
        """A group in one commit, with the marks and the private values that wait."""
        marked, told = self._marked, self._told_receipts
        start = time.perf_counter()
        try:
            records = self.plant.disguise(self._group)
        except LedgerError as error:
            self._failed(error)
            return
        self.metrics.commit.add(time.perf_counter() - start)
        self.metrics.steps["groups"] += 1
        if self._failures:
            self.log("info", "recording")
        self._failures = 0
        self._group, self._marked, self._told_receipts, self._marks_since = [], [], [], None
        self.passed("committed")
        for record in records:
            self._take(record)
        if marked:
            self.passed("marked")
        for message in marked:
            self._acknowledge += message.receipts
        self._acknowledge += told

    def _take(self, record: Record) -> None:
        room, receipts, since = record.arrival.tag
        self._coming.pop((record.arrival.fleet, room.name, record.arrival.key), None)
        if record.content is None:
            self.metrics.rules[record.rule.name.lower()] += 1
            self.log.about(room.name, record.rule.name.lower())
            self._acknowledge += receipts
            return
        self.metrics.rules["taken" if not record.replayed else "replayed"] += 1
        key, fleet = record.arrival.key, record.arrival.fleet
        self._enqueue(Message(record.id, fleet, key, record.sequence, record.content), receipts, since)

    def _enqueue(self, message: Message, receipts: Sequence[Receipt | None], since: float | None = None) -> None:
        """A message to be published, at its time; one that is on its way already has more to acknowledge."""
        number, fleet, key, sequence, content = message
        known = self._messages.get(number)
        if known is not None:
            known.receipts += receipts
            return
        self._messages[number] = _Message(content, fleet, sequence, list(receipts), since or time.monotonic())
        cadence, release = self._release.get(fleet, (None, 0.0))
        due = 0.0 if cadence is None else cadence.time(cadence.slot(key)) / _NS + release
        if due > time.time():
            heapq.heappush(self._scheduled, (due, content, number))
        else:
            self._queue.append(number)

    def publish(self) -> None:
        """Send what is recorded, as far as the window of the broker allows."""
        wall = time.time()
        while self._scheduled and self._scheduled[0][0] <= wall:
            self._queue.append(heapq.heappop(self._scheduled)[2])
        if self._pause and time.monotonic() < self._pause:
            return
        while self._queue and self.target.up and len(self._unconfirmed) < self.target.window:
            number = self._queue[0]
            message = self._messages[number]
            topic, payload = message.content.split(b"\0", 1)
            self.passed("publishing")
            mid = self.target.publish(topic, payload, self.config.output.retain, self._mark(message))
            if mid is None:
                return
            self._queue.popleft()
            self._unconfirmed[mid] = number
            self.metrics.steps["published"] += 1
            self.passed("published")

    def _mark(self, message: _Message) -> list[tuple[str, str]]:
        terms = self.plant.terms.get(message.fleet)  # none of a fleet that the configuration names no more
        return user_properties("" if terms is None else terms.design.fingerprint, message.sequence)

    def _confirmed(self, mid: int, taken: bool) -> None:
        """The listeners' broker has a message, or does not want it."""
        number = self._unconfirmed.pop(mid, None)
        if number is None:
            return
        if not taken:
            self.metrics.steps["refused"] += 1
            self.log.about("out", "refused", rule="the broker does not let this user publish there")
            self._queue.append(number)
            self._refusals += 1
            self._pause = time.monotonic() + min(60.0, 2.0 ** min(self._refusals - 1, 6))
            return
        self._refusals = 0
        self.passed("confirmed")
        message = self._messages.pop(number)
        now = time.monotonic()
        self.metrics.steps["confirmed"] += 1
        self.metrics.latency.add(now - message.since)
        self.plant.mark([number])
        self._marked.append(message)
        self._marks_since = self._marks_since or now

    def acknowledge(self) -> None:
        """Acknowledge messages whose outputs are marked, and those that have none."""
        if not self._acknowledge:
            return
        receipts = list(dict.fromkeys(receipt for receipt in self._acknowledge if receipt is not None))
        self._acknowledge = []
        if receipts:
            self.passed("acknowledging")
            self.metrics.steps["acknowledged"] += self.source.acknowledge(receipts)
            self.passed("acknowledged")

    def _failed(self, error: LedgerError) -> None:
        """The ledger did not record: go on when it does, unless nothing but a person can help."""
        if isinstance(error, (RollbackError, LedgerDamagedError, LedgerBusyError)) or self.ledger.stopped:
            raise error
        self._failures += 1
        self.metrics.steps["failed"] += 1
        self._again = time.monotonic() + min(60.0, 2.0 ** min(self._failures - 1, 6))
        self.log.about("ledger", "not_recorded", rule=str(error))

    def _target_changed(self, up: bool) -> None:
        """The listeners' broker is there again, or gone: what it has not confirmed goes out again, in its order."""
        self.metrics.links["out"] = up
        self.log("info" if up else "warning", "connected" if up else "disconnected", side="out")
        if up:
            for room in self._rooms.values():
                self._announce(room)
            return
        self._queue = deque(sorted({*self._unconfirmed.values(), *self._queue}))
        self._unconfirmed.clear()

    # Home Assistant -------------------------------------------------------------------------------------

    def _announce(self, room: _Room) -> None:
        home = self.config.homeassistant
        if home is None:
            return
        output = self.config.output
        topic = output.topic.replace("{room}", room.name)
        names = room.entry.writer.names
        self.target.announce(*discovery(home, room.name, topic, names, output.payload == "json", self._status))

    def _home_assistant_said(self, topic: str, payload: bytes, retained: bool, receipt: Receipt | None) -> None:
        if receipt is not None:
            self.target.acknowledge([receipt])
        if payload == b"online":
            for room in self._rooms.values():
                self._announce(room)

    # The loop -------------------------------------------------------------------------------------------

    def ready(self) -> str:
        """Why the gateway is not ready; empty if it is."""
        found = [f"{side} is not connected" for side, link in self._sides() if not link.up]
        found += ["the ledger does not record"] if self._failures else []
        return ", ".join(found)

    def alive(self) -> bool:
        """Whether the loop turns."""
        return time.monotonic() - self._turned < 30.0

    def _sides(self) -> tuple[tuple[str, Link], tuple[str, Link]]:
        return ("in", self.source), ("out", self.target)

    def stop(self, *_: object) -> None:
        """Take no more readings, send what is recorded, and leave."""
        self._stopping = True

    def run(self) -> None:
        """Serve until `stop`; the ledger is closed at the end."""
        health = None
        waker, woken = socket.socketpair()
        for end in (waker, woken):
            end.setblocking(False)
        former = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, self.stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            if self.config.health != "off":
                health = HealthServer(self.config.health, self.metrics, self.alive, self.ready)
            self.log("info", "started", rooms=len(self._rooms), unsent=len(self._messages))
            self.manager.tell("READY=1", "STATUS=connecting")
            started, deadline = False, float("inf")
            gc.freeze()  # what was loaded stays, and is not looked through again
            gc.set_threshold(50_000, 20, 20)
            while True:
                now = time.monotonic()
                self._turned = now
                if self._stopping:
                    if deadline == float("inf"):
                        self.log("info", "stopping")
                        self.manager.tell("STOPPING=1")
                        deadline = now + _DRAIN
                    if now > deadline or self._drained():
                        break
                self._tick(now, started)
                started = started or (self.source.up and self.target.up)
                self.turn(now)
                self._wait(woken)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former)
            waker.close()
            woken.close()
            for _, link in self._sides():
                link.close()
            if health is not None:
                health.close()
            self.ledger.close()
            self.log("info", "stopped", unsent=len(self._messages))

    def _drained(self) -> bool:
        """Whether nothing is under way that another second would finish."""
        waiting = len(self._messages) > len(self._scheduled) and self.target.up
        return not (self._ready or self._group or waiting or self.plant.pending or self._acknowledge)

    def _tick(self, now: float, started: bool) -> None:
        for side, link in self._sides():
            link.tick(now)
            if self.metrics.links[side] != link.up and side == "in":
                self.log("info" if link.up else "warning", "connected" if link.up else "disconnected", side=side)
                self.metrics.links[side] = link.up
            if not started:
                if link.refusal is not None:
                    raise link.refusal
                if link.unanswered >= _DISCONNECTS:
                    raise self.located.error(
                        (side, "server"), "what is there closes the connection: it is no broker of MQTT, or wants TLS"
                    )
        self.manager.alive(now)
        if now - self._minute >= 5.0:
            self._minute = now
            self._measure()

    def _measure(self) -> None:
        gauges = self.metrics.gauges
        gauges["queue"] = len(self._ready) + len(self._group) + len(self._queue)
        gauges["waiting"] = self._waiting
        gauges["unconfirmed"] = len(self._unconfirmed)
        gauges["rooms"] = len(self._rooms)
        gauges["drift"] = sum(len(drift.tripped) for drift in self._drift.values())
        budget: Counter[str] = Counter()
        for room in self._rooms.values():
            total = room.entry.terms.total
            if total is not None:
                spent = self.plant.fleets[room.entry.fleet].spent(room.name)
                budget[budget_bucket(1.0 - spent / total if total else 0.0)] += 1
        self.metrics.budget = budget  # at once: another thread reads it

    def _wait(self, woken: socket.socket) -> None:
        """Until a socket has something, or something is due."""
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        watched: dict[int, tuple[Link, bool]] = {}
        quick = False
        for side, link in self._sides():
            if link.wants_write:
                link.write()
            sock = link.socket
            if sock is None:
                continue
            reads = not (side == "in" and (self._full or self._stopping))
            events = (select.POLLIN if reads else 0) | (select.POLLOUT if link.wants_write else 0)
            poll.register(sock, events | select.POLLHUP)
            watched[sock.fileno()] = link, reads
            quick |= reads and link.buffered
        busy = (
            quick or bool((self._ready or self._postponed) and time.monotonic() >= self._again) or bool(self._touched)
        )
        wait = 0.0 if busy else _LINGER if self._marks_since is not None else _LOOK
        if self._scheduled:
            wait = max(0.0, min(wait, self._scheduled[0][0] - time.time()))
        for number, event in poll.poll(wait * 1000):
            if number == woken.fileno():
                while _received(woken):
                    pass
                continue
            link, reads = watched[number]
            if event & select.POLLOUT:
                link.write()
            if event & ~select.POLLOUT and (reads or event & (select.POLLHUP | select.POLLERR)):
                link.read()
        if quick:
            for link, reads in watched.values():
                if reads and link.buffered:
                    link.read()


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(64)
    except BlockingIOError:
        return b""


def _matches(topic: str, pattern: str) -> bool:
    parts, wanted = topic.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(w in ("+", p) for p, w in zip(parts, wanted, strict=True))


def _is_topic_part(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & set("/+#") and len(name) <= 200


def serve(path: str, gateway: Callable[[Located], Gateway] = Gateway) -> None:
    """Read a configuration and serve until the process is told to stop."""
    gateway(read_config(path)).run()
