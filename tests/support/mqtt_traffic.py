"""Both ends of a gateway: sensors that send a reading again until they see its output, and a listener that keeps all.

`Sensors` publishes the readings of many rooms, each room's in order and at most `window` ahead of its outputs. What has
no output after `again` seconds is sent again, whether the broker had acknowledged it or not: so nothing that a killed
broker lost stays lost. With every reading, and before it, goes the private value of its time.

`Listener` keeps every publication of a broker with the time of its arrival, in the order of arrival.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

WAIT = 10.0
"""Seconds that a connection may take."""


class Reading(NamedTuple):
    """What a sensor measures at a time, and the private value of that time."""

    time: dt.datetime
    theta: Any
    value: float


@dataclass(frozen=True)
class Publication:
    """A message as it arrived."""

    at: float
    topic: str
    payload: bytes
    retain: bool
    properties: tuple[tuple[str, str], ...]

    @property
    def said(self) -> tuple[str, bytes, tuple[tuple[str, str], ...]]:
        """Everything that a publication of the same output must say again, byte for byte."""
        return self.topic, self.payload, self.properties


class Connection:
    """A client of MQTT 5 that comes back by itself, with its session."""

    def __init__(self, port: int, name: str, subscribe: Iterable[str] = (), session: int = 0, **login: str) -> None:
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
        self.client.max_inflight_messages_set(1000)
        self.client.reconnect_delay_set(0.05, 0.5)
        if login:
            self.client.username_pw_set(login["user"], login["password"])
        self._topics = [(topic, mqtt.SubscribeOptions(qos=1, retainAsPublished=True)) for topic in subscribe]
        self._ready = threading.Event()
        self.refused: list[str] = []
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = lambda _, __, message: self.receive(message)
        self.acknowledged: set[int] = set()  # ids of messages that the broker has
        self.client.on_publish = lambda _, __, number, *rest: self.acknowledged.add(number)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval, properties.ReceiveMaximum = session, 1000
        self.client.connect("127.0.0.1", port, keepalive=30, clean_start=session == 0, properties=properties)
        self.client.loop_start()
        if not self._ready.wait(WAIT):
            raise TimeoutError(f"{name}: no connection to port {port}")

    def _connected(self, client: mqtt.Client, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.refused.append(str(reason))
        elif self._topics:
            client.subscribe(self._topics)
        else:
            self._ready.set()

    def receive(self, message: mqtt.MQTTMessage) -> None:
        """What becomes of a message."""

    def publish(self, topic: str, payload: bytes | str, retain: bool = False) -> int:
        """Send a message, and give its id; the client sends it again after a reconnection."""
        return int(self.client.publish(topic, payload, qos=1, retain=retain).mid)

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Listener(Connection):
    """Everything that a broker publishes under some topics, in the order of arrival; its session is kept."""

    def __init__(self, port: int, *topics: str, name: str = "listener", **login: str) -> None:
        self.publications: list[Publication] = []
        self.by_topic: dict[str, list[Publication]] = defaultdict(list)
        super().__init__(port, name, topics or ("#",), session=3600, **login)

    def receive(self, message: mqtt.MQTTMessage) -> None:
        """Keep it."""
        properties = getattr(message.properties, "UserProperty", [])
        said = tuple((str(name), str(value)) for name, value in properties)
        made = Publication(time.monotonic(), message.topic, bytes(message.payload), bool(message.retain), said)
        self.publications.append(made)
        self.by_topic[message.topic].append(made)


def as_json(name: str) -> Callable[[dt.datetime, Any], bytes]:
    """A payload with its time and a number under this name."""
    return lambda time, value: json.dumps({"time": time.isoformat(), name: value}).encode()


def send(to: Connection, room: str, row: Reading) -> int:
    """Publish a reading, and before it the private value of its time; the number of the message."""
    to.publish(f"private/{room}/occupancy", as_json("occupancy")(row.time, row.theta))
    return to.publish(f"raw/{room}/co2", as_json("co2")(row.time, row.value))


@dataclass
class Sensors:
    """The readings of many rooms on their way through a gateway; `run` ends when each has its output.

    `seen` says how many of a room's readings, from the first on, have an output, or a set of their numbers.
    """

    port: int
    readings: Mapping[str, Sequence[Reading]]
    outputs: Callable[[str], set[int]]
    window: int = 4
    again: float = 1.0
    pause: float = 0.0
    sent: int = 0
    resent: int = 0

    def run(self, seconds: float, moments: Callable[[float], None] = lambda share: None) -> None:
        """Send everything; `moments` is told again and again which share of all outputs is there."""
        end = time.monotonic() + seconds
        first = dict.fromkeys(self.readings, 0)  # without an output
        following = dict.fromkeys(self.readings, 0)  # not sent yet
        flying: dict[tuple[str, int], tuple[float, int]] = {}
        total = sum(map(len, self.readings.values()))
        with contextlib.closing(Connection(self.port, "sensors", session=3600)) as to:
            while True:
                done = 0
                for room, rows in self.readings.items():
                    there = self.outputs(room)
                    done += len(there)
                    while first[room] in there:
                        flying.pop((room, first[room]), None)
                        first[room] += 1
                    while following[room] < min(len(rows), first[room] + self.window):
                        flying[room, following[room]] = self._send(to, room, rows[following[room]])
                        following[room] += 1
                    for number in range(first[room], following[room]):
                        at, sending = flying[room, number]
                        late = time.monotonic() - at > self.again
                        if late and number not in there and sending in to.acknowledged:
                            flying[room, number] = self._send(to, room, rows[number])
                            self.resent += 1
                moments(done / total)
                if done >= total:
                    return
                if time.monotonic() > end:
                    raise TimeoutError(f"{total - done} of {total} readings have no output after {seconds:g} s")
                time.sleep(0.005)

    def _send(self, to: Connection, room: str, row: Reading) -> tuple[float, int]:
        number = send(to, room, row)
        self.sent += 1
        if self.pause:
            time.sleep(self.pause)
        return time.monotonic(), number
