"""Rooms with people coming and going, as their sensors would publish them: something to try a gateway on.

Each room follows the models of a design: its readings have the law of the private value that holds at their time, and
the value changes now and then, drawn from the prior of the design. Readings and private values are messages of JSON, a
topic each, with the time of the simulated room. A file of YAML or TOML says which rooms there are::

    broker: {server: "mqtt://127.0.0.1:1883"}
    rooms: 20                           # or names: [lab, hall]
    design: room.json                   # without it the paper's room
    topic: raw/{room}/co2
    theta: {topic: "private/{room}/occupancy"}

Simulated time may run faster than the clock. It then begins in the past, never comes before its time, and goes on at
the pace of the clock when it has caught up: the gateway holds back times that are ahead of the clock.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from understudy._types import Array, Value
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.gateway.config import Broker, Seconds, Section, read_file
from understudy.models.family import Family, same_state
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.model import Model

_SECOND = 1_000_000_000
_LEAD = 64  # rounds that may wait for the broker's confirmation


def _template(given: Any) -> str:
    if not isinstance(given, str) or given.count("{room}") != 1 or set(given.replace("{room}", "")) & set("{}+#\0"):
        raise ValueError("it must be a topic with {room} once, such as raw/{room}/co2, and no + or #")
    return given


Template = Annotated[str, BeforeValidator(_template)]


class PrivateValue(Section):
    """Where the private value of a room is published."""

    topic: Template = "private/{room}/occupancy"
    value: str = Field(default="occupancy", description="its name in the message")
    repeat: Seconds = Field(default=600.0, description="after which it is said again though it has not changed")


class RoomsFile(Section):
    """The rooms of a simulation, and the broker that their sensors publish to."""

    broker: Broker
    rooms: int | list[str] = Field(1, description="how many, or their names")
    design: Path | None = Field(None, description="whose models the rooms follow; without it the paper's room")
    topic: Template = "raw/{room}/co2"
    value: str = Field("co2", description="the name of the reading in the message")
    theta: PrivateValue = PrivateValue()
    period: Seconds = Field(60.0, description="between two readings of a room")
    stay: Seconds = Field(2700.0, description="for which a private value lasts, on average")

    @field_validator("rooms")
    @classmethod
    def _some(cls, given: int | list[str]) -> int | list[str]:
        many = given if isinstance(given, int) else len(set(given))
        if not 1 <= many <= 100_000 or (isinstance(given, list) and many < len(given)):
            raise ValueError("it must be a number from 1 to 100,000, or names that differ")
        if isinstance(given, list) and any(not name or set(name) & set("/+#\0") for name in given):
            raise ValueError("a name of a room is a part of a topic: it must not be empty or hold /, + or #")
        return given

    @property
    def names(self) -> list[str]:
        """The names of the rooms."""
        if isinstance(self.rooms, list):
            return self.rooms
        width = len(str(self.rooms))
        return [f"room{number:0{width}}" for number in range(1, self.rooms + 1)]


def read_rooms(path: str | Path) -> RoomsFile:
    """The rooms that a file describes; paths in it are relative to it."""
    found, file, lines = read_file(path, RoomsFile)
    named: dict[tuple[str, ...], Path | None] = {("design",): found.design}
    named |= {("broker", name): getattr(found.broker, name) for name in ("password_file", "ca", "cert", "key")}
    there = {place: file.parent / name for place, name in named.items() if name is not None}
    for place, name in there.items():
        if not name.is_file():
            raise ConfigurationError(f"{file.name}:{lines[place]}: {'.'.join(place)}: there is no such file")
    broker = found.broker.model_copy(update={place[-1]: name for place, name in there.items() if len(place) > 1})
    return found.model_copy(update={"broker": broker, "design": there.get(("design",))})


# Rooms --------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A reading of a room, and the private value that holds when it is taken."""

    room: str
    theta: Value
    changed: bool
    reading: tuple[float, ...]


class Occupancy:
    """A room whose private value moves: readings one period apart, with the law of the value that holds.

    `stay` is the mean number of readings for which a value lasts. A change is a change to another value, with the odds
    of the prior. Models that cannot follow one another (of several kinds, or with states of several sizes) are
    refused where values would change.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> room = Occupancy("lab", family, stay=5.0, rng=np.random.default_rng(1))
    >>> [room.sample().theta for _ in range(12)]
    [1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    """

    def __init__(self, name: str, family: Family, stay: float, rng: np.random.Generator) -> None:
        self.name, self._family, self._stay, self._rng = name, family, stay, rng
        self._values, self._prior = list(family.values), np.asarray(family.prior, dtype=float)
        models = [family.model(value) for value in self._values]
        if math.isfinite(stay) and any(not same_state(models[0], other) for other in models[1:]):
            raise ConfigurationError("the models of this design cannot follow one another; no private value may change")
        self._at = int(rng.choice(len(self._values), p=self._prior))
        self._state: Any = models[self._at].start()
        self._begun = False

    def __repr__(self) -> str:
        return f"Occupancy({self.name!r})"

    def sample(self) -> Sample:
        """The next reading."""
        changed = not self._begun
        if self._begun and self._rng.random() < 1.0 / self._stay:
            odds = np.where(np.arange(len(self._values)) == self._at, 0.0, self._prior)
            if odds.sum() > 0.0:
                self._at = int(self._rng.choice(len(self._values), p=odds / odds.sum()))
                changed = True
        self._begun = True
        value = self._values[self._at]
        self._state, y = _emit(self._family.model(value), self._state, self._rng)
        return Sample(self.name, value, changed, tuple(np.atleast_1d(np.asarray(y, dtype=float)).tolist()))


def _emit(model: Model[Any], state: Any, rng: np.random.Generator) -> tuple[Any, float | Array]:
    """A reading with the law of the model, and the state after it."""
    z = rng.standard_normal(model.dim) if model.dim > 1 else float(rng.standard_normal())
    emit = getattr(model, "emit", None)
    if emit is not None:
        after, y = emit(state, z)
        return after, y
    y = model.predict(state).value(z)
    return model.update(state, y), y


# Publishing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pace:
    """When simulated readings are published.

    `speed` is the number of simulated seconds in a second, `first` the time of the first reading in nanoseconds, and
    `count` how many rounds there are (None for no end).
    """

    speed: float
    period: int
    first: int
    count: int | None

    @classmethod
    def of(cls, speed: float, period: float, count: int | None, now: float) -> Pace:
        """From now on at the speed of the clock; otherwise from so long ago that the last round is due by now.

        >>> Pace.of(60.0, 60.0, 10, now=6000.0).first // 10**9
        5400
        """
        if not 0.0 < speed <= 1e6:
            raise ConfigurationError(f"speed = {speed!r}; it must be above 0 and at most a million")
        every = round(period * _SECOND)
        slot = int(now * _SECOND) // every
        ago = 0 if speed <= 1.0 else (math.ceil(86_400 / period) if count is None else count)
        return cls(speed, every, (slot - ago) * every, count)

    def rounds(self) -> Iterator[tuple[int, float]]:
        """The time of each round in nanoseconds, and after how many seconds it is due."""
        number = 0
        while self.count is None or number < self.count:
            yield self.first + number * self.period, number * self.period / _SECOND / self.speed
            number += 1


def messages(told: RoomsFile, sample: Sample, at: int, said: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Topics and payloads of a sample: the private value where it is new or due again, and then the reading."""
    stamp = {"time": _text(at)}
    if sample.changed or at - said[sample.room] >= told.theta.repeat * _SECOND:
        said[sample.room] = at
        yield told.theta.topic.replace("{room}", sample.room), _json({**stamp, told.theta.value: sample.theta})
    names = [told.value] if len(sample.reading) == 1 else [f"{told.value}{i}" for i in range(len(sample.reading))]
    yield told.topic.replace("{room}", sample.room), _json({**stamp, **dict(zip(names, sample.reading, strict=True))})


def _text(at: int) -> str:
    whole, rest = divmod(at, _SECOND)
    second = datetime.fromtimestamp(whole, UTC).isoformat().removesuffix("+00:00")
    return second + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


@dataclass
class Simulation:
    """Rooms, and the pace at which they are published; `watch` is told each sample before it is sent."""

    told: RoomsFile
    pace: Pace
    seed: int | None = None
    watch: Callable[[Sample, int], None] | None = None

    def __post_init__(self) -> None:
        family = _family(self.told)
        seeds = np.random.SeedSequence(secrets.randbits(128) if self.seed is None else self.seed)
        stay = max(self.told.stay / self.told.period, 1.0)
        self._rooms = [
            Occupancy(name, family, stay, np.random.default_rng(child))
            for name, child in zip(self.told.names, seeds.spawn(len(self.told.names)), strict=True)
        ]

    def run(self, stop: threading.Event | None = None) -> int:
        """Publish until the last round, or until `stop`; the number of readings that the broker has confirmed."""
        stop = stop or threading.Event()
        said: dict[str, int] = {}
        readings, begun = 0, time.monotonic()
        with _Publisher(self.told.broker) as out:
            for at, due in self.pace.rounds():
                ahead = at / _SECOND - time.time()
                if stop.wait(max(begun + due - time.monotonic(), ahead, 0.0)):
                    break
                for room in self._rooms:
                    sample = room.sample()
                    if self.watch is not None:
                        self.watch(sample, at)
                    for topic, payload in messages(self.told, sample, at, said):
                        out.publish(topic, payload)
                readings += len(self._rooms)
                if not out.wait(len(self._rooms) * _LEAD, stop):
                    break
            out.wait(0, stop)
            return readings - out.unconfirmed


def paper_room(people: float) -> GaussMarkov:
    """CO2 in the paper's room (Section V), which a simulation without a design has."""
    return GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def _family(told: RoomsFile) -> Family:
    from understudy.randomizer.design import load_design

    if told.design is None:
        return Family(paper_room, [0, 1])
    design = load_design(told.design)
    family: Family | None = getattr(design, "family", None)
    if family is None:
        raise ConfigurationError(f"{told.design.name} holds no models that rooms could follow")
    if (family.about or {}).get("public"):
        raise ConfigurationError(f"{told.design.name} has public inputs; rooms are simulated without any")
    return family


class _Publisher:
    """A client that publishes at QoS 1, comes back by itself, and knows how many messages are not confirmed yet."""

    def __init__(self, broker: Broker) -> None:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        version = mqtt.MQTTv5 if broker.newest else mqtt.MQTTv311
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=broker.client_id, protocol=version)
        self._client.max_inflight_messages_set(1000)
        self._client.reconnect_delay_set(1, 60)
        if broker.user is not None:
            self._client.username_pw_set(broker.user, _password(broker))
        if broker.tls:
            ca, cert, key = (None if path is None else str(path) for path in (broker.ca, broker.cert, broker.key))
            self._client.tls_set(ca, cert, key)
        self._server = broker.server
        self._sent = self._confirmed = 0
        self._changed = threading.Condition()
        self._refused = ""
        self._ready = threading.Event()
        self._client.on_connect, self._client.on_publish = self._connected, self._published
        try:
            self._client.connect(broker.host, broker.port, keepalive=round(broker.keepalive))
        except OSError as error:
            raise UnderstudyError(
                f"{broker.server} does not answer: {error.strerror or type(error).__name__}"
            ) from None

    def _connected(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._refused = str(reason) if reason.is_failure else ""
        self._ready.set()

    def _published(self, client: Any, _: Any, number: int, reason: Any, properties: Any) -> None:
        with self._changed:
            self._confirmed += 1
            self._changed.notify_all()

    def __enter__(self) -> _Publisher:
        self._client.loop_start()
        if not self._ready.wait(30.0) or self._refused:
            self._client.loop_stop()
            raise UnderstudyError(f"{self._server} refused the connection: {self._refused or 'no answer'}")
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message, now or when the broker is back."""
        self._client.publish(topic, payload, qos=1)
        self._sent += 1

    @property
    def unconfirmed(self) -> int:
        """Messages that the broker has not confirmed."""
        return self._sent - self._confirmed

    def wait(self, most: int, stop: threading.Event) -> bool:
        """Wait until at most so many messages are unconfirmed; False where `stop` comes before."""
        with self._changed:
            while self.unconfirmed > most:
                if stop.is_set():
                    return False
                self._changed.wait(0.2)
        return True


def _password(broker: Broker) -> str | None:
    if broker.password_file is None:
        return None if broker.password is None else broker.password.get_secret_value()
    return broker.password_file.read_text(encoding="utf-8").strip()


# The command --------------------------------------------------------------------------------------------


def run(path: Path, speed: float, readings: int | None, seed: int | None, as_json: bool = False) -> None:
    """Publish what the file describes, until the last reading or Ctrl-C, with a line of progress every ten seconds."""
    import signal

    told = read_rooms(path)
    if readings is not None and readings < 1:
        raise ConfigurationError(f"readings = {readings!r}; it must be at least 1")
    pace = Pace.of(speed, told.period, readings, time.time())
    stop = threading.Event()
    shown = [time.monotonic(), 0.0]

    def watch(sample: Sample, at: int) -> None:
        shown[1] += 1
        if time.monotonic() - shown[0] > 10.0:
            shown[0] = time.monotonic()
            print(f"{shown[1]:,.0f} readings, up to {_text(at)}", file=sys.stderr, flush=True)

    simulation = Simulation(told, pace, seed, watch)
    many = len(told.names)
    print(
        f"{many} room{'s' * (many != 1)}, a reading every {told.period:g} s of their time, {speed:g} times as fast, "
        f"from {_text(pace.first)} on, to {told.broker.server}",
        file=sys.stderr,
        flush=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    done = simulation.run(stop)
    if as_json:
        facts = {"server": told.broker.server, "rooms": many, "first": _text(pace.first), "readings": done}
        print(json.dumps(facts, indent=2))
    else:
        print(f"{done:,} readings published", file=sys.stderr)
