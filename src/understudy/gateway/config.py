"""The configuration of a gateway: a file of YAML or TOML, and what each of its keys means.

A key that is not known is refused, and an error names the line and the key. Passwords stand in files of their own or in
the environment, ``${NAME}``; one that stands in the configuration is refused, and none is ever shown.

>>> topics_overlap("raw/+/co2", "raw/lab/#"), topics_overlap("raw/+/co2", "raw/lab/t")
(True, False)
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from understudy._types import Value
from understudy.errors import ConfigurationError
from understudy.gateway.formats import json_path
from understudy.randomizer.solver import nats
from understudy.tables.times import seconds

# What stands in the file --------------------------------------------------------------------------


def _seconds(given: Any) -> float:
    try:
        return seconds(given)
    except (ConfigurationError, TypeError):
        raise ValueError("it must be a number of seconds above 0, or a text such as '30s', '15min' or '1d'") from None


def _nats(given: Any) -> float:
    try:
        if isinstance(given, str) and "%" in given:
            raise ConfigurationError
        return nats(given, 0.0)
    except (ConfigurationError, TypeError):
        raise ValueError("it must be a number of nats, or a text such as '2 bit' or '0.5 nats'") from None


def _filter(given: str) -> str:
    """A topic or a topic filter with + in it."""
    parts = given.split("/") if isinstance(given, str) else []
    if not given or "\0" in given or len(given.encode()) > 65_535 or given.startswith("$"):
        raise ValueError("it must be a topic of MQTT, such as raw/lab/co2, and none that begins with $")
    if any("#" in part or ("+" in part and part != "+") for part in parts):
        raise ValueError("it may have + for the name of the room, as a whole part (raw/+/co2), and no #")
    return given


Seconds: TypeAlias = Annotated[float, BeforeValidator(_seconds)]
Nats: TypeAlias = Annotated[float, BeforeValidator(_nats)]
Topic: TypeAlias = Annotated[str, BeforeValidator(_filter)]
Unit: TypeAlias = Literal["s", "ms", "us", "ns"]


class Section(BaseModel):
    """A part of a configuration: frozen, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


_S = TypeVar("_S", bound=Section)


class Broker(Section):
    """A broker, and who the gateway is there."""

    server: str = Field(description="mqtt://host:1883, or mqtts://host:8883 with TLS")
    version: Literal[5, "5", "3.1.1"] = Field(5, description="of MQTT: 5 or 3.1.1")
    client_id: str = Field("", description="by which the broker knows the session; needed where two gateways share one")
    user: str | None = None
    password: SecretStr | None = Field(None, description="${NAME} of the environment")
    password_file: Path | None = None
    ca: Path | None = Field(None, description="certificates that the broker's must be signed by")
    cert: Path | None = Field(None, description="the gateway's own certificate")
    key: Path | None = Field(None, description="and its key")
    keepalive: Seconds = 30.0

    @field_validator("server")
    @classmethod
    def _server(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not hold a user or a password; they are keys of their own")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or port == -1 or parts.path not in ("", "/"):
            raise ValueError("it must be mqtt://host:1883 or mqtts://host:8883")
        return given

    @model_validator(mode="after")
    def _together(self) -> Broker:
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file exclude each other")
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key go together")
        if not self.tls and (self.ca or self.cert):
            raise ValueError("ca, cert and key are for mqtts:// servers")
        return self

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.server).scheme == "mqtts"

    @property
    def host(self) -> str:
        """The name of the machine."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.server).port or (8883 if self.tls else 1883)

    @property
    def newest(self) -> bool:
        """Whether MQTT 5 is spoken."""
        return str(self.version) == "5"


class Input(Broker):
    """The broker of the sensors."""

    client_id: str = "understudy-in"
    session_expiry: Seconds = Field(7 * 86_400.0, description="how long the broker keeps what comes meanwhile")
    group: int = Field(1000, ge=1, le=65_535, description="readings in a commit at most, and unacknowledged ones")


class Output(Broker):
    """The broker of the listeners."""

    client_id: str = "understudy-out"
    topic: str = Field("disguised/{room}", description="where an output goes; {room} is the name of its room")
    payload: Literal["json", "number"] = "json"
    retain: bool = False
    window: int = Field(1000, ge=1, le=65_535, description="messages that are not confirmed yet, at most")

    @field_validator("topic")
    @classmethod
    def _template(cls, given: str) -> str:
        if "{room}" not in given or set(re.findall(r"\{([^}]*)\}", given)) != {"room"} or set(given) & set("+#\0"):
            raise ValueError("it must hold {room} and no other name in braces, and no + or #")
        return _filter(given)


class _Message(Section):
    """Where a number stands in messages."""

    payload: Literal["number", "json", "senml"] | None = None
    value: str | None = Field(None, description="a path in JSON such as sensors[0].co2, or the name of a SenML record")
    time: str | None = Field(None, description="the path of the time in JSON; without it the time of arrival counts")
    unit: Unit | None = Field(None, description="of times that are numbers; without it their size tells")

    @model_validator(mode="after")
    def _paths(self) -> _Message:
        if self.kind == "number" and (self.value or self.time):
            raise ValueError("value and time are paths in JSON: payload is 'number'")
        if self.kind == "json":
            for name, path in (("value", self.value), ("time", self.time)):
                try:
                    _ = path is None or json_path(path)
                except ConfigurationError:
                    raise ValueError(
                        f"{name} must be a path: names with dots between them, as in sensors[0].co2"
                    ) from None
        if self.kind == "json" and self.value is None:
            raise ValueError("value is missing: the path of the number in JSON")
        if self.kind == "senml" and self.time is not None:
            raise ValueError("time is no path here: records of SenML have their own")
        return self

    @property
    def kind(self) -> str:
        """How payloads are written: as said, or as JSON where there is a path, otherwise as a number."""
        return self.payload or ("json" if self.value or self.time else "number")


class Sensor(_Message):
    """A channel of the readings of a room."""

    topic: Topic
    name: str | None = Field(None, description="of the channel, in what leaves; by default that of the design")


class Span(Section):
    """A part of the week with a private value."""

    days: str = Field("mon-sun", description="mon-fri, or sat,sun")
    start: str = Field("00:00", alias="from")
    end: str = Field("24:00", alias="to")
    value: Value

    @field_validator("days")
    @classmethod
    def _days(cls, given: str) -> str:
        days_of(given)
        return given

    @field_validator("start", "end")
    @classmethod
    def _clock(cls, given: str) -> str:
        minutes_of(given)
        return given


class Schedule(Section):
    """Private values by the clock."""

    zone: str = Field("UTC", description="of the clock, such as Europe/Stockholm")
    otherwise: Value
    week: list[Span] = Field(default_factory=list, description="the first one that holds counts")

    @field_validator("zone")
    @classmethod
    def _zone(cls, given: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(given)
        except (KeyError, ValueError, OSError):
            raise ValueError("it is no time zone that this machine knows") from None
        return given


class Theta(_Message):
    """Where the private value comes from."""

    topic: Topic | None = None
    valid_for: Seconds | None = Field(None, description="how long a value counts after its own time")
    values: dict[str, Value] | None = Field(None, description="private values of the design by what messages say")
    schedule: Schedule | None = None

    @model_validator(mode="after")
    def _source(self) -> Theta:
        if (self.topic is None) == (self.schedule is None):
            raise ValueError("one of topic and schedule is needed")
        if self.topic is not None and self.valid_for is None:
            raise ValueError("valid_for is missing: how long a value counts after its own time")
        return self


class Budget(Section):
    """What each room may give away."""

    total: Nats | None = None
    amount: Nats | None = None
    per: Seconds | None = None
    when_spent: Literal["stop", "hold"] = "stop"

    @model_validator(mode="after")
    def _pair(self) -> Budget:
        if (self.amount is None) != (self.per is None):
            raise ValueError("amount and per go together: so much in each period")
        return self


class Rooms(Section):
    """A room; or many, whose names stand under the + of their topics."""

    design: Path
    fleet: str | None = Field(None, description="the name of the fleet in the ledger; that of the design's file")
    period: Seconds | None = Field(None, description="between readings; that of the design")
    tolerance: Seconds | None = None
    epoch: Seconds | None = Field(None, description="after which each room draws again; without it, once")
    sensors: list[Sensor] = Field(min_length=1, description="one for each channel of the design, in its order")
    theta: Theta
    lateness: Seconds = Field(5.0, description="how long a reading waits for older ones, and for its private value")
    release: Seconds | None = Field(None, description="outputs leave so long after the time of their slot, not before")
    ahead: Seconds = Field(10.0, description="how far a time may be ahead of the clock")
    on_drift: Literal["stop", "hold", "pass"] = "stop"
    budget: Budget = Budget()
    accept_misfit: bool = False
    fill: bool = False
    names: list[str] | None = Field(None, description="rooms under the +")
    admit: int | None = Field(None, ge=1, description="so many rooms under the +, as they appear")

    @model_validator(mode="after")
    def _wildcards(self) -> Rooms:
        topics = [sensor.topic for sensor in self.sensors] + ([self.theta.topic] if self.theta.topic else [])
        if any(topic.split("/").count("+") > 1 for topic in topics):
            raise ValueError("a topic has at most one +, which is the name of the room")
        if any("+" in topic for topic in topics) != all("+" in topic for topic in topics):
            raise ValueError("either all topics have a + for the name of the room, or none has")
        if self.many and self.names is None and self.admit is None:
            raise ValueError("names or admit is missing: which rooms under the +, or how many at most")
        if not self.many and (self.names is not None or self.admit is not None):
            raise ValueError("names and admit are for topics with a + in them")
        if self.release is not None and self.release <= self.lateness:
            raise ValueError(
                "release must be longer than the lateness: a reading may wait so long before it is recorded"
            )
        if self.fill:
            raise ValueError(
                "fill is for single streams (Design.stream); rooms of a gateway stand in fleets, which have none: "
                "slots without a reading stay empty here, and everybody sees which"
            )
        return self

    @property
    def many(self) -> bool:
        """Whether topics have a + for the name of the room."""
        return any("+" in sensor.topic.split("/") for sensor in self.sensors)

    @property
    def topics(self) -> list[str]:
        """Of readings."""
        return [sensor.topic for sensor in self.sensors]


class HomeAssistant(Section):
    """Discovery by Home Assistant."""

    prefix: str = Field("homeassistant", description="of its topics")
    unit: str | None = Field(None, description="of the readings, such as ppm")
    device_class: str | None = Field(None, description="of the readings, such as carbon_dioxide")

    @field_validator("device_class")
    @classmethod
    def _class(cls, given: str | None) -> str | None:
        if given in ("occupancy", "presence", "motion", "moving"):
            raise ValueError("it must not be one of occupancy: that is what is hidden")
        return given


class Config(Section):
    """A gateway."""

    ledger: Path
    key: str = Field(description="the master key: a file, env:NAME, credential:NAME or command:...")
    retain: Seconds = Field(86_400.0, description="how long outputs are kept for readings that come again")
    rollback_guard: Path | None = Field(None, description="the folder that remembers how far the ledger had come")
    input: Input = Field(alias="in")
    output: Output = Field(alias="out")
    homeassistant: HomeAssistant | None = None
    health: str = Field("127.0.0.1:9464", description="where /healthz, /readyz and /metrics answer; 'off' for none")
    rooms: dict[str, Rooms] = Field(min_length=1)

    @field_validator("health")
    @classmethod
    def _address(cls, given: str) -> str:
        host, _, port = given.rpartition(":")
        if given != "off" and not (
            host in ("127.0.0.1", "localhost", "[::1]") and port.isdecimal() and int(port) < 65_536
        ):
            raise ValueError("it must be 127.0.0.1 and a port, or 'off': it is for this machine alone")
        return given


# Reading it -----------------------------------------------------------------------------------------

Place: TypeAlias = tuple[str | int, ...]
_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Located:
    """A configuration, with the line of each key."""

    def __init__(self, config: Config, path: Path, lines: Mapping[Place, int]) -> None:
        self.config, self.path, self._lines = config, path, lines

    def error(self, place: Place, rule: str) -> ConfigurationError:
        """The error for a key, with its line."""
        return _error(self.path, self._lines, place, rule)

    def with_config(self, config: Config) -> Located:
        """The same file with another configuration."""
        return Located(config, self.path, self._lines)

    def file(self, named: Path | str) -> Path:
        """A file that the configuration names, beside it unless it is absolute."""
        return self.path.parent / named


def read_config(path: str | os.PathLike[str]) -> Located:
    """The configuration in a file, checked as far as it goes without its designs and brokers."""
    found = Located(*read_file(path, Config))
    _check_topics(found)
    return found


def read_file(path: str | os.PathLike[str], kind: type[_S]) -> tuple[_S, Path, dict[Place, int]]:
    """What a file holds as a section of this kind, with its path and the line of each key."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"{file.name} cannot be read: {why}") from None
    tree, lines = _toml(text, file) if file.suffix == ".toml" else _yaml(text, file)
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{file.name}: keys and values are wanted; see `understudy gateway init`")
    for place, value in _leaves(tree):
        if place[-1] == "password" and not (isinstance(value, str) and _NAME.fullmatch(value)):
            rule = "it must be ${NAME}, of the environment, or stand in a password_file"
            raise _error(file, lines, place, rule)
    tree = _with_environment(tree, (), file, lines)
    try:
        return kind.model_validate(tree), file.absolute(), lines
    except ValidationError as error:
        first, *others = error.errors(include_input=False, include_url=False)
        more = f" ({len(others)} more)" if others else ""
        raise _error(file, lines, first["loc"], _rule(first) + more) from None


def _rule(error: Any) -> str:
    if error["type"] == "missing":
        return "it is missing"
    if error["type"] == "extra_forbidden":
        return "there is no such key"
    return str(error["msg"]).removeprefix("Value error, ")


def _error(path: Path, lines: Mapping[Place, int], place: Place, rule: str) -> ConfigurationError:
    name = ".".join(map(str, place))
    while place and place not in lines:
        place = place[:-1]
    where = f"{path.name}:{lines[place]}" if place else path.name
    return ConfigurationError(f"{where}: {name}: {rule}" if name else f"{where}: {rule}")


def _leaves(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, (*place, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from _leaves(value, (*place, i))
    elif place:
        yield place, tree


def _with_environment(tree: Any, place: Place, path: Path, lines: Mapping[Place, int]) -> Any:
    """The tree with what the environment has for each ${NAME}."""
    if isinstance(tree, dict):
        return {key: _with_environment(value, (*place, key), path, lines) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_environment(value, (*place, i), path, lines) for i, value in enumerate(tree)]
    if not isinstance(tree, str):
        return tree

    def replaced(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise _error(path, lines, place, f"the environment has no variable {found[1]}")
        return value

    return _NAME.sub(replaced, tree)


def _yaml(text: str, path: Path) -> tuple[Any, dict[Place, int]]:
    """What a text of YAML holds, and the line of each key; a key that stands there twice is refused."""
    lines: dict[Place, int] = {}

    def walk(node: yaml.Node, place: Place) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                if inner in lines:
                    raise _error(path, {inner: key.start_mark.line + 1}, inner, "it stands there twice")
                lines[inner] = key.start_mark.line + 1
                walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                lines[*place, i] = value.start_mark.line + 1
                walk(value, (*place, i))

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            walk(root, ())
        return _text_keys(yaml.safe_load(text)), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}:{mark.line + 1}" if mark is not None else path.name
        raise ConfigurationError(
            f"{where}: it is no YAML ({getattr(error, 'problem', None) or 'it ends early'})"
        ) from None
    except RecursionError:
        raise ConfigurationError(f"{path.name}: it is no YAML that a configuration has (too deep)") from None


def _text_keys(tree: Any) -> Any:
    """The tree with texts as keys: YAML reads 101 as a number."""
    if isinstance(tree, dict):
        return {str(key): _text_keys(value) for key, value in tree.items()}
    return [_text_keys(value) for value in tree] if isinstance(tree, list) else tree


_TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")


def _toml(text: str, path: Path) -> tuple[Any, dict[Place, int]]:
    """What a text of TOML holds, and the line of each key that stands on a line of its own."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path.name}: it is no TOML ({error})") from None
    lines: dict[Place, int] = {}
    table: Place = ()
    count: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found, key = _TABLE.match(line), _KEY.match(line)
        if found:
            table = _parts(found[1])
            if line.lstrip().startswith("[["):
                count[table] = count.get(table, -1) + 1
                table = (*table, count[table])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault((*table, *_parts(key[1])), number)
    return tree, lines


def _parts(name: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


# Topics ---------------------------------------------------------------------------------------------


def topics_overlap(one: str, other: str) -> bool:
    """Whether a topic can match both filters."""
    a, b = one.split("/"), other.split("/")
    for mine, yours in zip(a, b, strict=False):
        if "#" in (mine, yours):
            return True
        if mine != yours and "+" not in (mine, yours):
            return False
    return len(a) == len(b) or (a if len(a) > len(b) else b)[min(len(a), len(b)) :] == ["#"]


def _check_topics(located: Located) -> None:
    """Refuse private values that readings tell, and outputs that come back as readings."""
    config = located.config
    readings: list[tuple[Place, str]] = [
        (("rooms", name, "sensors", i, "topic"), sensor.topic)
        for name, room in config.rooms.items()
        for i, sensor in enumerate(room.sensors)
    ]
    for name, room in config.rooms.items():
        theta = room.theta.topic
        if theta is None:
            continue
        for _, topic in readings:
            if topics_overlap(theta, topic + "/#"):
                raise located.error(
                    ("rooms", name, "theta", "topic"),
                    f"it is a topic of readings ({topic}), or stands below one: a private value that is derived from "
                    "readings is an estimate, and no guarantee holds for it",
                )
    taken: dict[str, Place] = {}
    for place, topic in readings:
        clash = next((other for other in taken if topics_overlap(topic, other)), None)
        same = clash is not None and taken[clash][:2] == place[:2] and clash == topic  # channels of one message
        if clash is not None and not same:
            raise located.error(place, f"its messages are those of {clash} too; a message belongs to one sensor")
        taken[topic] = place
    if _same_server(config.input, config.output):
        out = "/".join("+" if "{room}" in part else part for part in config.output.topic.split("/"))
        told: list[tuple[Place, str]] = [
            (("rooms", name, "theta", "topic"), room.theta.topic)
            for name, room in config.rooms.items()
            if room.theta.topic is not None
        ]
        for place, topic in readings + told:
            if topics_overlap(out, topic):
                rule = f"on the same broker it overlaps with {topic} ({'.'.join(map(str, place))}), and would come back"
                raise located.error(("out", "topic"), rule)
        if config.input.client_id == config.output.client_id:
            raise located.error(("out", "client_id"), "it must differ from that of `in` on the same broker")


def _same_server(one: Broker, other: Broker) -> bool:
    """Whether both are one broker, as far as names and addresses tell."""
    import socket

    if one.port != other.port:
        return False

    def addresses(host: str) -> set[str]:
        try:
            return {host, *(str(found[4][0]) for found in socket.getaddrinfo(host, None))}
        except OSError:
            return {host}

    local = {"127.0.0.1", "::1"}
    a, b = addresses(one.host), addresses(other.host)
    return bool(a & b) or bool(a & local and b & local)


# Days and clocks ------------------------------------------------------------------------------------

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def days_of(text: str) -> set[int]:
    """The days of the week, 0 for Monday, that a text names.

    >>> sorted(days_of("mon-wed,sun"))
    [0, 1, 2, 6]
    """
    found: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise ValueError("it must be days such as mon-fri or sat,sun")
        start, end = _DAYS.index(first), _DAYS.index(last or first)
        found |= {day % 7 for day in range(start, end + 1 if end >= start else end + 8)}
    return found


def minutes_of(text: str) -> int:
    """Minutes since midnight.

    >>> minutes_of("08:30"), minutes_of("24:00")
    (510, 1440)
    """
    match = re.fullmatch(r"(\d\d):(\d\d)", text)
    minutes = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else 1441
    if minutes > 1440:
        raise ValueError("it must be a time of day such as 08:30")
    return minutes
