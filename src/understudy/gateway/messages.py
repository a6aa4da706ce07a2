"""Messages: what stands in those that come, and how those that leave are written.

A message that comes is a number, JSON or SenML, with its own time or without. What cannot be read raises a
`ReadingError` with the rule; no error shows what stood there.

A message that leaves has the form that design and configuration give it: its keys stand in one order, its numbers have
the decimals of the design, its time is that of the slot. Nothing of the message that came goes into it.

`discovery` describes the outputs to Home Assistant. Names say "disguised", and nothing is ever announced as occupancy.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from understudy._types import Json, Value
from understudy._version import __version__
from understudy.errors import ReadingError
from understudy.gateway.config import HomeAssistant, Theta, _Message
from understudy.gateway.formats import (
    MARK,
    MISSING,
    UNITS,
    as_number,
    find,
    json_path,
    read_json,
    read_senml,
    read_time,
    write_json,
)
from understudy.gateway.plant import Output
from understudy.tables.columns import NumberFormat

LONGEST = 1 << 16
"""Bytes of a payload that is read at all."""
_NUMBER = re.compile(rb"\s*[-+]?(?:\d{1,64}(?:\.\d{0,64})?|\.\d{1,64})(?:[eE][-+]?\d{1,3})?\s*")

# What comes -----------------------------------------------------------------------------------------


class Said(NamedTuple):
    """What a message says, and the time that it says; None where it says none."""

    value: Any
    time: int | None

    def __repr__(self) -> str:
        return "Said()"


Reader = Callable[[bytes, int], Said]
"""Reads a payload that arrived at a time; raises `ReadingError`."""


def reader_of(message: _Message, number: bool = True) -> Reader:
    """The reader of the payloads of a sensor; or, without `number`, of private values, which may be texts.

    >>> from understudy.gateway.config import Sensor
    >>> reader_of(Sensor(topic="raw/lab", value="co2", time="at"))(b'{"co2": 417.25, "at": 1772362800}', 0)[:]
    (417.25, 1772362800000000000)
    >>> reader_of(Sensor(topic="raw/lab"))(b"NaN", 0)
    Traceback (most recent call last):
    understudy.errors.ReadingError: the payload is no number
    """
    if message.kind == "json":
        return _json_reader(message, number)
    if message.kind == "senml":
        return _senml_reader(message, number)
    return _read_number if number else _read_text


def _checked(payload: bytes) -> bytes:
    if len(payload) > LONGEST:
        raise ReadingError(f"the payload is longer than {LONGEST} bytes")
    return payload


def _read_number(payload: bytes, now: int) -> Said:
    if not _NUMBER.fullmatch(_checked(payload)):
        raise ReadingError("the payload is no number")
    number = as_number(float(payload))
    if number is None:
        raise ReadingError("the number is beyond double precision")
    return Said(number, None)


def _read_text(payload: bytes, now: int) -> Said:
    try:
        return _read_number(payload, now)
    except ReadingError:
        pass
    try:
        return Said(_checked(payload).decode().strip(), None)
    except UnicodeDecodeError:
        raise ReadingError("the payload is no text") from None


def _json_reader(message: _Message, number: bool) -> Reader:
    value_at = json_path(message.value or "")
    time_at = None if message.time is None else json_path(message.time)
    unit = None if message.unit is None else UNITS[message.unit]

    def read(payload: bytes, now: int) -> Said:
        document = read_json(_checked(payload))
        value = find(document, value_at)
        if value is MISSING:
            raise ReadingError("the path of the value is absent")
        if number:
            value = as_number(value)
            if value is None:
                raise ReadingError("the value is no number")
        elif not isinstance(value, (bool, int, float, str)):
            raise ReadingError("the value is neither a number nor a text")
        if time_at is None:
            return Said(value, None)
        time = find(document, time_at)
        if time is MISSING:
            raise ReadingError("the path of the time is absent")
        return Said(value, read_time(time, unit))

    return read


def _senml_reader(message: _Message, number: bool) -> Reader:
    def read(payload: bytes, now: int) -> Said:
        pack = read_json(_checked(payload))
        found = [r for r in read_senml(pack, now) if message.value is None or r.name == message.value]
        if len(found) != 1:
            raise ReadingError("the pack does not have exactly one such record")
        value = as_number(found[0].value) if number else found[0].value
        if value is None:
            raise ReadingError("the value is no number")
        return Said(value, found[0].time)

    return read


def private_value(theta: Theta, said: Any) -> Value:
    """The private value that a message stands for, by the names that the configuration gives them.

    >>> theta = Theta(topic="door/lab", valid_for=60, values={"ON": 1, "OFF": 0, "true": 1, "2": 1})
    >>> [private_value(theta, said) for said in ("ON", True, 2.0, "OFF")]
    [1, 1, 1, 0]
    """
    if theta.values is None:
        return int(said) if isinstance(said, float) and said.is_integer() and abs(said) < 2**53 else said
    if isinstance(said, bool):
        name = str(said).lower()
    elif isinstance(said, float) and said.is_integer() and abs(said) < 2**53:
        name = str(int(said))
    else:
        name = str(said)
    return theta.values.get(name)


# What leaves ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes outputs as messages: the topic, a zero byte, and the payload.

    >>> writer = Writer("disguised/{room}", True, ("co2",), (NumberFormat(2),), 60 * 10**9, "sha256:0a")
    >>> writer(Output("office", "lab", 1772362800 * 10**9, (417.25,), 17, None)).split(bytes(1))[1].decode()
    '{"co2":417.25,"time":"2026-03-01T11:00:00Z","sequence":17,"disguised":true,"design":"sha256:0a"}'
    """

    topic: str
    """Where outputs go; {room} is the name of the room."""
    json: bool
    names: tuple[str, ...]
    forms: tuple[NumberFormat, ...]
    period: int
    design: str

    def __call__(self, output: Output) -> bytes:
        """The message of an output."""
        texts = [form.texts((value,))[0] for form, value in zip(self.forms, output.values, strict=True)]
        topic = self.topic.replace("{room}", output.room)
        if not self.json:
            return f"{topic}\0{texts[0]}".encode()
        values = ",".join(f"{write_json(name)}:{text}" for name, text in zip(self.names, texts, strict=True))
        time = time_text(output.key, self.period)
        payload = f'{{{values},"time":"{time}","sequence":{output.sequence},"{MARK}":true,"design":"{self.design}"}}'
        return f"{topic}\0{payload}".encode()


def time_text(time: int, period: int) -> str:
    """The time of a slot as in RFC 3339, with the decimals that the period needs.

    >>> time_text(1772362800_500_000_000, 500_000_000), time_text(1772362800_000_000_000, 10**9)
    ('2026-03-01T11:00:00.500Z', '2026-03-01T11:00:00Z')
    """
    seconds, rest = divmod(time, UNITS["s"])
    text = _second_text(seconds)
    for digits, unit in ((0, "s"), (3, "ms"), (6, "us"), (9, "ns")):
        if period % UNITS[unit] == 0 and time % UNITS[unit] == 0:
            return text + (f".{rest // UNITS[unit]:0{digits}d}Z" if digits else "Z")
    return text + f".{rest:09d}Z"


@lru_cache(4096)
def _second_text(seconds: int) -> str:
    """A second, which the rooms of a building share."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def user_properties(design: str, sequence: int | None = None) -> list[tuple[str, str]]:
    """The mark of a message of MQTT 5, so that nobody takes it for a true reading."""
    mark = [(MARK, "true"), ("design", design)]
    return mark if sequence is None else [*mark, ("sequence", str(sequence))]


# Home Assistant -------------------------------------------------------------------------------------


def device_id(room: str) -> str:
    """A name for Home Assistant: letters, digits, - and _ alone, another one for each room.

    >>> device_id("lab"), device_id("lab 1")
    ('understudy_lab', 'understudy_lab_1_99e093ed')
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", room)
    tail = "" if plain == room else "_" + hashlib.blake2b(room.encode(), digest_size=4).hexdigest()
    return f"understudy_{plain}{tail}"


def discovery(
    asked: HomeAssistant, room: str, topic: str, names: Sequence[str], json: bool, availability: str
) -> tuple[str, bytes]:
    """The topic and the payload that announce the outputs of a room to Home Assistant."""
    identity = device_id(room)
    components: dict[str, Json] = {}
    for name in names:
        component: dict[str, Json] = {
            "p": "sensor",
            "name": f"{name} disguised",
            "uniq_id": f"{identity}_{re.sub(r'[^A-Za-z0-9_-]', '_', name)}",
            "stat_t": topic,
            "stat_cla": "measurement",
        }
        if json:
            component["val_tpl"] = "{{ value_json[" + write_json(name).replace('"', "'") + "] }}"
        component |= {} if asked.unit is None else {"unit_of_meas": asked.unit}
        component |= {} if asked.device_class is None else {"dev_cla": asked.device_class}
        components[re.sub(r"[^A-Za-z0-9_-]", "_", name)] = component
    payload: Json = {
        "dev": {"ids": [identity], "name": f"{room} (disguised)", "mf": "understudy", "mdl": "disguised readings"},
        "o": {"name": "understudy", "sw": __version__},
        "cmps": components,
        "avty_t": availability,
        "qos": 1,
    }
    return f"{asked.prefix}/device/{identity}/config", write_json(payload).encode()
