r"""Lines as machines exchange them: InfluxDB line protocol, JSON lines and SenML, read and written.

The first part is the formats themselves. `read_point` and `write_point` know the line protocol with its escapes, quoted
strings and suffixes; `find` takes a value out of a JSON document by a path such as ``sensors[0].co2``; `read_senml`
resolves the records of a pack as RFC 8428 says, and `write_senml` writes one.

The second part is a `LineFormat` for each: what is a reading in a line, by the `Names` that the user gave, and the line
that leaves. Everything that is not named is dropped. A line that leaves has the form that names and design give it,
never that of the reading: keys stand in one order, numbers come as texts with the decimals of the design.

What cannot be read raises a `ReadingError` with the rule. No error shows what stood there.

>>> read_point(r'air,room=lab\ 1 co2=431.5,open=t,note="it is \"on\"",people=3i 1700000000000000000').fields
{'co2': 431.5, 'open': True, 'note': 'it is "on"', 'people': 3}
>>> lines = InfluxLines(Names(("co2",), private="people", room="room"))
>>> row = lines.read("air,room=lab co2=431.5,people=3i 1700000000000000000")[0]
>>> row.room, row.private, lines.write(row.frame, row.time, ("424.1250",))
('lab', 3, 'air,disguised=true,room=lab co2=424.1250 1700000000000000000')
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from understudy.errors import ConfigurationError, ReadingError

try:
    import orjson
except ImportError:  # it is quicker, not needed
    orjson = None  # type: ignore[assignment]  # a module, or none where the extra is missing

UNITS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds in a unit of time stamps."""
MARK: Final = "disguised"
"""The name under which a line says that its reading is not the true one."""
_LARGEST = 2**63 - 1
_HEADS = 65_536  # heads of lines, one for each sensor, that are remembered

# InfluxDB line protocol -------------------------------------------------------------------------------

Field: TypeAlias = float | int | bool | str


class Point(NamedTuple):
    """A line of the line protocol."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, Field]
    time: int | None
    """In nanoseconds since 1970."""

    def __repr__(self) -> str:
        return "Point()"


# a comma, an equals sign or a space belongs to a name if a backslash stands right before it
_NAME = r"(?:[^,= \\]|\\[,= ]?+)++"
_MEASUREMENT = re.compile(r"(?:[^, \\]|\\[, ]?+)++")
_TAG = re.compile(rf",({_NAME})=({_NAME})")
_FIELD = re.compile(rf'({_NAME})=("(?:[^"\\]|\\.)*+"|[^," ]++)', re.DOTALL)
_HEAD = re.compile(r"(?:[^ \\]|\\ ?+)++")
_ESCAPED = re.compile(r"\\([,= ])")
_ESCAPED_MEASUREMENT = re.compile(r"\\([, ])")
_ESCAPED_STRING = re.compile(r'\\(["\\])')
_TO_ESCAPE = re.compile(r"([,= ])")
_NUMBERS = frozenset("0123456789.")
_SIGNS = frozenset("+-.0123456789")
_TRUTHS = {word: word[0] in "tT" for word in ("t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE")}


def read_point(line: str, unit: int = 1) -> Point:
    """A line of the line protocol; `unit` is what its time stamp counts, in nanoseconds.

    >>> read_point("air,room=lab co2=431.5 1700000000", unit=UNITS["s"]).time
    1700000000000000000
    """
    head, raw, stamp = _split_line(line)
    measurement, tags = _split_head(head)
    fields = {_unescaped(name): _field(text) for name, text in raw.items()}
    return Point(
        _ESCAPED_MEASUREMENT.sub(r"\1", measurement),
        {_unescaped(name): _unescaped(value) for name, value in tags.items()},
        fields,
        None if stamp is None else _stamp(stamp, unit),
    )


def write_point(point: Point, unit: int = 1) -> str:
    r"""The line of a point, whose names are some that the protocol can hold.

    >>> print(write_point(Point("air 1", {"room": "a=b"}, {"co2": 431.5, "people": 3, "note": 'a "b"'}, 12)))
    air\ 1,room=a\=b co2=431.5,people=3i,note="a \"b\"" 12
    """
    tags = "".join(f",{_escaped(name)}={_escaped(value)}" for name, value in point.tags.items())
    fields = ",".join(f"{_escaped(name)}={_field_text(value)}" for name, value in point.fields.items())
    measurement = _escaped(point.measurement).replace("\\=", "=")
    return f"{measurement}{tags} {fields}" + ("" if point.time is None else f" {point.time // unit}")


def _split_line(line: str) -> tuple[str, dict[str, str], str | None]:
    """Measurement with tags, fields by name, time stamp: as they stand there."""
    if "\\" not in line and '"' not in line:
        parts = line.split(" ")
        count = len(parts)
        if 2 <= count <= 3 and all(parts):
            fields = {}
            for pair in parts[1].split(","):
                name, _, text = pair.partition("=")
                if not name or not text or "=" in text:
                    raise ReadingError("a field is not of the form name=value")
                fields[name] = text
            return parts[0], fields, parts[2] if count == 3 else None
    head = _HEAD.match(line)
    if head is None:
        raise ReadingError("there is no measurement")
    at, end, fields = head.end(), len(line), {}
    while at < end and line[at] == " ":
        at += 1
    while True:
        found = _FIELD.match(line, at)
        if found is None:
            raise ReadingError("a field is not of the form name=value, or a string does not end on its line")
        fields[found[1]] = found[2]
        at = found.end()
        if at < end and line[at] == ",":
            at += 1
            continue
        break
    if at < end and line[at] != " ":
        raise ReadingError("a field is not of the form name=value")
    return head[0], fields, line[at:].strip(" ") or None


def _split_head(head: str) -> tuple[str, dict[str, str]]:
    """The measurement and the tags by name, as they stand there."""
    found = _MEASUREMENT.match(head)
    if found is None or head[0] == "#":
        raise ReadingError("there is no measurement")
    at, tags = found.end(), dict[str, str]()
    while at < len(head):
        pair = _TAG.match(head, at)
        if pair is None:
            raise ReadingError("a tag is not of the form name=value")
        if pair[1] in tags:
            raise ReadingError("a tag stands there twice")
        tags[pair[1]] = pair[2]
        at = pair.end()
    return found[0], tags


def _field(text: str) -> Field:
    """The value of a field."""
    last = text[-1]
    if last in _NUMBERS and text[0] in _SIGNS and text.isascii() and "_" not in text:
        try:
            number = float(text)
        except ValueError:
            raise ReadingError("a field is no number, truth or quoted string") from None
        if math.isinf(number):
            raise ReadingError("a number is beyond double precision")
        return number
    if last == '"' and len(text) > 1:
        return _ESCAPED_STRING.sub(r"\1", text[1:-1])
    if last in "iu" and text.isascii():
        digits = text[1:-1] if text[0] in "+-" and last == "i" else text[:-1]
        if digits.isdigit() and len(digits) <= 20:
            whole = int(text[:-1])
            if (-_LARGEST - 1 <= whole <= _LARGEST) if last == "i" else whole < 2**64:
                return whole
            raise ReadingError("a whole number is beyond 64 bits")
    truth = _TRUTHS.get(text)
    if truth is None:
        raise ReadingError("a field is no number, truth or quoted string")
    return truth


def _field_text(value: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _stamp(text: str, unit: int) -> int:
    """A time stamp in nanoseconds."""
    digits = text[1:] if text[0] == "-" else text
    if not digits.isdigit() or not text.isascii() or len(digits) > 19 or abs(time := int(text) * unit) > _LARGEST:
        raise ReadingError("the time stamp is no whole number, or beyond 64 bits of nanoseconds")
    return time


def _unescaped(name: str) -> str:
    return _ESCAPED.sub(r"\1", name) if "\\" in name else name


def _escaped(name: str) -> str:
    return _TO_ESCAPE.sub(r"\\\1", name)


# JSON -------------------------------------------------------------------------------------------------

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and places in lists, from the outside in."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""What `find` gives where a document has nothing at a path."""
_PATH = re.compile(r"(?:^|\.)([^.\[\]]+)|\[([0-9]{1,4})\]")


def json_path(text: str) -> Path:
    """A path such as ``sensors[0].co2`` as its steps.

    >>> json_path("sensors[0].co2"), json_path("co2")
    (('sensors', 0, 'co2'), ('co2',))
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PATH.match(text, at)
        if found is None:
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    if not steps or at < len(text) or not isinstance(steps[0], str):
        raise ConfigurationError(f"path = {text!r}; it must be names with dots between them, as in sensors[0].co2")
    return tuple(steps)


def find(document: Any, path: Path) -> Any:
    """What a document has at a path, or `MISSING`.

    >>> find({"sensors": [{"co2": 431.5}]}, ("sensors", 0, "co2")), find({}, ("co2",))
    (431.5, MISSING)
    """
    if len(path) == 1 and type(document) is dict:  # most often
        return document.get(path[0], MISSING)
    for step in path:
        if isinstance(step, str):
            if not isinstance(document, dict) or step not in document:
                return MISSING
        elif not isinstance(document, list) or step >= len(document):
            return MISSING
        document = document[step]
    return document


def read_json(text: str | bytes) -> Any:
    """A document of JSON; NaN and infinities, which JSON does not have, are refused."""
    try:
        if orjson is not None:
            return orjson.loads(text)
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ReadingError("it is not JSON") from None


def write_json(value: Any) -> str:
    """A value as JSON without spaces."""
    if orjson is not None:
        try:
            return orjson.dumps(value).decode()
        except TypeError:  # a whole number of more than 64 bits
            pass
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _no_constant(_: str) -> None:
    raise ValueError


def as_number(value: Any) -> float | None:
    """A finite number as a float; None for anything else, truths and texts among them.

    >>> as_number(431), as_number(True), as_number("431")
    (431.0, None, None)
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int and abs(value) < 2**1023:
        return float(value)
    return None


_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?(Z|z|[+-]\d\d:?\d\d)?", re.ASCII)
_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECONDS: dict[tuple[str, str, str | None], int] = {}  # the last of them, which many readings share


def read_time(value: Any, unit: int | None = None) -> int:
    """A time in nanoseconds since 1970: a text as in RFC 3339 (UTC, if it has no zone), or a number of units.

    Without a `unit` a number counts seconds, milli-, micro- or nanoseconds by its size: 1.7e9, 1.7e12, 1.7e15, 1.7e18.

    >>> read_time("2026-03-01T12:00:00.25+01:00"), read_time(1772362800), read_time(1772362800.5)
    (1772362800250000000, 1772362800000000000, 1772362800500000000)
    """
    if isinstance(value, str):
        found = _RFC3339.fullmatch(value)
        if found is None:
            raise ReadingError("the time is not of the form 2026-03-01T12:00:00Z")
        day, clock, fraction, zone = found.groups()
        second = _SECONDS.get((day, clock, zone))
        if second is None:
            if len(_SECONDS) > 256:
                _SECONDS.clear()
            try:
                moment = dt.datetime.fromisoformat(f"{day}T{clock}{zone.upper() if zone else 'Z'}")
            except ValueError:
                raise ReadingError("the time is none of the calendar") from None
            since = moment - _1970
            second = _SECONDS[day, clock, zone] = since.days * 86_400 + since.seconds
        time = second * UNITS["s"] + (int(fraction.ljust(9, "0")) if fraction else 0)
    else:
        number = as_number(value)
        if number is None:
            raise ReadingError("the time is neither a text nor a number")
        size = abs(number)
        unit = unit or next((UNITS[name] for name, top in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if size < top), 1)
        if isinstance(value, int):
            time = value * unit
        elif size * unit < 2.0**63:  # a double holds no more than microseconds
            time = round(number * (unit / 1000)) * 1000
        else:
            time = _LARGEST + 1
    if abs(time) > _LARGEST:
        raise ReadingError("the time is beyond 64 bits of nanoseconds")
    return time


# SenML (RFC 8428) -------------------------------------------------------------------------------------

_BASE = ("bn", "bt", "bu", "bv", "bs", "bver")
_KNOWN = frozenset((*_BASE, "n", "u", "v", "vs", "vb", "vd", "s", "t", "ut"))
_SENML_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9:./_]*")
_VERSION, _RELATIVE = 10, 2**28  # of the format; times below the latter are counted from now


class Record(NamedTuple):
    """A record of a pack, resolved: nothing of it depends on the records before."""

    name: str
    time: int | None
    """In nanoseconds since 1970; None where it was to be counted from now, and now is not known."""
    value: Field | None
    """Of v, vs, vb or vd; None where there is a sum alone."""
    unit: str | None

    def __repr__(self) -> str:
        return "Record()"


def read_senml(pack: Any, now: int | None = None) -> list[Record]:
    """The resolved records of a pack; `now` is what relative times are counted from, in nanoseconds.

    >>> pack = [{"bn": "lab:", "bt": 1700000000, "n": "co2", "u": "ppm", "v": 431.5}, {"n": "open", "vb": True, "t": 5}]
    >>> [(record.name, record.time, record.value, record.unit) for record in read_senml(pack)]
    [('lab:co2', 1700000000000000000, 431.5, 'ppm'), ('lab:open', 1700000005000000000, True, None)]
    """
    if not isinstance(pack, list):
        raise ReadingError("a pack of SenML is a list of records")
    base: dict[str, Any] = {}
    found = []
    for record in pack:
        if not isinstance(record, dict):
            raise ReadingError("a record of SenML is an object")
        base.update((label, record[label]) for label in _BASE if label in record)
        if any(label not in _KNOWN and label[-1:] == "_" for label in record):
            raise ReadingError("a record has a label that must be understood, and is not known")
        if base.get("bver", _VERSION) > _VERSION if _is_number(base.get("bver", _VERSION)) else True:
            raise ReadingError("the version of SenML is later than 10, or no number")
        found.append(_resolve(record, base, now))
    return [record for record in found if record is not None]


def _resolve(record: Mapping[str, Any], base: Mapping[str, Any], now: int | None) -> Record | None:
    """One record with what the base says; None where it carries bases alone."""
    given = [label for label in ("v", "vs", "vb", "vd") if label in record]
    if not given and "s" not in record and "n" not in record:
        return None
    if len(given) > 1:
        raise ReadingError("a record has two values")
    name, first = record.get("n", ""), base.get("bn", "")
    if not isinstance(name, str) or not isinstance(first, str) or not _SENML_NAME.fullmatch(first + name):
        raise ReadingError("the name of a record has other characters than A-Z a-z 0-9 - : . / _, or none")
    value: Any = record[given[0]] if given else None
    if given == ["v"]:
        value = as_number(value)
        shift = as_number(base.get("bv", 0))
        if value is None or shift is None:
            raise ReadingError("the value v of a record is no number")
        value = value + shift if "bv" in base else value
    elif given and not isinstance(value, bool if given == ["vb"] else str):
        raise ReadingError("the value of a record is not of the kind that its label says")
    unit = record.get("u", base.get("bu"))
    if unit is not None and not isinstance(unit, str):
        raise ReadingError("the unit of a record is no text")
    return Record(first + name, _senml_time(record.get("t", 0), base.get("bt", 0), now), value, unit)


def _senml_time(own: Any, base: Any, now: int | None) -> int | None:
    if not _is_number(own) or not _is_number(base):
        raise ReadingError("the time of a record is no number")
    seconds = own + base if own else base
    if seconds >= _RELATIVE:
        return read_time(seconds, UNITS["s"])
    return None if now is None else now + read_time(seconds, UNITS["s"])


def _is_number(value: Any) -> bool:
    return as_number(value) is not None


def write_senml(base: str, name: str, time: int, text: str, unit: str | None = None) -> str:
    """A pack of one disguised record; `text` is the number as it is to be written.

    >>> write_senml("lab:", "co2", 1_700_000_000_250_000_000, "424.1250", "ppm")
    '[{"bn":"lab:","bt":1700000000.25,"n":"co2","u":"ppm","v":424.1250,"disguised":true}]'
    """
    return f"[{{{_base_text(base, time)}{_record_text(name, text, unit)}}}]"


def _base_text(base: str, time: int) -> str:
    name = f'"bn":{write_json(base)},' if base else ""
    return f'{name}"bt":{_seconds_text(time)},'


def _record_text(name: str, text: str, unit: str | None) -> str:
    of_unit = "" if unit is None else f'"u":{write_json(unit)},'
    return f'"n":{write_json(name)},{of_unit}"v":{text},"{MARK}":true'


def _seconds_text(time: int) -> str:
    """Nanoseconds as seconds, with no more decimals than they have."""
    whole, rest = divmod(abs(time), UNITS["s"])
    return f"{'-' if time < 0 else ''}{whole}" + (f".{rest:09d}".rstrip("0") if rest else "")


# Readings in lines ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """What is what in a line; for JSON each name is a path."""

    readings: tuple[str, ...]
    """One for each channel."""
    private: str | None = None
    room: str | None = None
    keep: tuple[str, ...] = ()
    time: str | None = None
    """Where the time stands; for JSON alone, "time" unless it is said."""
    unit: int | None = None
    """What time stamps count, in nanoseconds."""
    measurements: tuple[str, ...] = ()
    """The measurements of lines that are read; all, where none is named."""


class Row(NamedTuple):
    """A reading of a line. Secret."""

    room: str | None
    time: int
    values: tuple[float, ...]
    private: Any
    """As it stands there; None where there is none."""
    frame: Any
    """What the line that leaves is made of, apart from time and reading."""

    def __repr__(self) -> str:
        return "Row()"


class LineFormat(Protocol):
    """Lines with readings, and lines that leave."""

    def read(self, line: str) -> Sequence[Row]:
        """The readings of a line; none where it has none. ReadingError where it cannot be read."""
        ...

    def write(self, frame: Any, time: int, texts: Sequence[str]) -> str:
        """The line that leaves, with a number for each channel as it is to be written."""
        ...


class _Head(NamedTuple):
    """What the measurement and the tags of a line say."""

    room: str | None
    private: str | None
    prefix: str  # of the line that leaves


class InfluxLines:
    """Readings in lines of the line protocol: fields, with the room as a tag."""

    def __init__(self, names: Names) -> None:
        if MARK in (names.room, *names.keep, *names.readings):
            raise ConfigurationError(f"a name is {MARK!r}, which is the tag that says so of the line that leaves")
        self._names, self._unit = names, names.unit or 1
        self._heads: dict[str, _Head | None] = {}
        self._single = names.readings[0] if len(names.readings) == 1 else None
        self._starts = [f"{_escaped(name)}=" for name in names.readings]
        self._keep = [_escaped(name) for name in names.keep]
        self._fields = [_escaped(name) for name in names.readings]
        self._private = None if names.private is None else _escaped(names.private)

    def __repr__(self) -> str:
        return "InfluxLines()"

    def read(self, line: str) -> Sequence[Row]:
        """The reading of a line."""
        if not line or line[0] == "#" or line.isspace():
            return ()
        head, fields, stamp = _split_line(line)
        known = self._heads[head] if head in self._heads else self._read_head(head)
        if known is None:
            return ()
        values = {name: _field(text) for name, text in fields.items()}
        found: list[float] = []
        for name in self._fields:
            value = values.get(name)
            if value is None:
                if found or any(other in values for other in self._fields):
                    raise ReadingError("the line has some channels of the reading, and not all")
                return ()
            if isinstance(value, (bool, str)):
                raise ReadingError("the reading is no number")
            found.append(float(value))
        if stamp is None:
            raise ReadingError("there is no time stamp, by which the line would be known again")
        room, private, frame = known
        if room is None and self._names.room is not None:
            raise ReadingError("the line has no tag with its room")
        said: Field | None = private
        if self._private is not None and self._private in values:
            said = values[self._private]
        if self._keep:
            frame += "".join(f"{name}={fields[name]}," for name in self._keep if name in fields)
        return (Row(room, _stamp(stamp, self._unit), tuple(found), said, frame),)

    def _read_head(self, head: str) -> _Head | None:
        """What measurement and tags say; None for a measurement that is not read."""
        measurement, tags = _split_head(head)
        names = self._names
        plain = {_unescaped(name): value for name, value in tags.items()}
        leaving = {name: plain[name] for name in (*names.keep, names.room) if name is not None and name in plain}
        leaving[MARK] = "true"
        prefix = ",".join([measurement, *(f"{_escaped(name)}={leaving[name]}" for name in sorted(leaving))])
        room, private = (None if name is None else plain.get(name) for name in (names.room, names.private))
        known = _Head(
            None if room is None else _unescaped(room), None if private is None else _unescaped(private), prefix + " "
        )
        read = not names.measurements or _ESCAPED_MEASUREMENT.sub(r"\1", measurement) in names.measurements
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        self._heads[head] = known if read else None
        return self._heads[head]

    def write(self, frame: Any, time: int, texts: Sequence[str]) -> str:
        """Measurement, tags and kept fields, then the readings."""
        if self._single is not None:
            return f"{frame}{self._starts[0]}{texts[0]} {time // self._unit}"
        fields = ",".join([start + text for start, text in zip(self._starts, texts, strict=True)])
        return f"{frame}{fields} {time // self._unit}"


class JsonLines:
    """Readings in JSON, an object a line."""

    def __init__(self, names: Names) -> None:
        self._names, time = names, json_path(names.time or "time")
        self._readings = [json_path(name) for name in names.readings]
        self._time, self._keep = time, [json_path(name) for name in names.keep]
        self._private = None if names.private is None else json_path(names.private)
        self._room = None if names.room is None else json_path(names.room)
        leaving = [time, *([] if self._room is None else [self._room]), *self._keep, *self._readings, (MARK,)]
        self._form, order = _nested(leaving)
        self._order = None if order == sorted(order) else order

    def __repr__(self) -> str:
        return "JsonLines()"

    def read(self, line: str) -> Sequence[Row]:
        """The reading of a line."""
        if not line or line.isspace():
            return ()
        document = read_json(line)
        if not isinstance(document, dict):
            raise ReadingError("it is not an object of JSON")
        values: list[float] = []
        for path in self._readings:
            value = document.get(path[0]) if len(path) == 1 else find(document, path)
            if value is None or value is MISSING:
                if values or any(find(document, other) not in (None, MISSING) for other in self._readings):
                    raise ReadingError("the line has some channels of the reading, and not all")
                return ()
            number = as_number(value)
            if number is None:
                raise ReadingError("the reading is no number")
            values.append(number)
        written = find(document, self._time)
        if written is MISSING or written is None:
            raise ReadingError("there is no time, by which the line would be known again")
        time = read_time(written, self._names.unit)
        kept: list[str] = []
        room = None
        if self._room is not None:
            room = find(document, self._room)
            room = str(room) if type(room) is int else room
            if not isinstance(room, str):
                raise ReadingError("the room is missing, or no text")
            kept.append(write_json(find(document, self._room)))
        for path in self._keep:
            value = find(document, path)
            kept.append("null" if value is MISSING else write_json(value))
        private = None if self._private is None else find(document, self._private)
        return (Row(room, time, tuple(values), None if private is MISSING else private, (written, time, kept)),)

    def write(self, frame: Any, time: int, texts: Sequence[str]) -> str:
        """Time, room, what is kept, and the readings; the time in the form in which it came."""
        written, own, kept = frame
        if time != own:
            written = self._moved(written, time)
        parts = (write_json(written), *kept, *texts, "true")
        return self._form % (parts if self._order is None else tuple(parts[i] for i in self._order))

    def _moved(self, written: Any, time: int) -> Any:
        """Another time in the form of one."""
        from understudy.tables.times import write_like

        if isinstance(written, str):
            return write_like(written, time)
        unit = self._names.unit
        if unit is None:
            return read_json(write_like(repr(written), time))
        return time // unit if isinstance(written, int) else time / unit


def _nested(paths: Sequence[Path]) -> tuple[str, list[int]]:
    """Nested JSON with a place for each path, and which path each place is for."""
    tree: dict[str | int, Any] = {}
    for i, path in enumerate(paths):
        node: Any = tree
        for step in path[:-1]:
            node = node.setdefault(step, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict) or path[-1] in node:
            raise ConfigurationError("two names have one place in the lines that leave; give each its own")
        node[path[-1]] = i
    order: list[int] = []
    return _form_of(tree, order), order


def _form_of(tree: Any, order: list[int]) -> str:
    if not isinstance(tree, dict):
        order.append(tree)
        return "%s"
    if all(isinstance(step, int) for step in tree):
        parts = [_form_of(tree[i], order) if i in tree else "null" for i in range(max(tree) + 1)]
        return f"[{','.join(parts)}]"
    if any(isinstance(step, int) for step in tree):
        raise ConfigurationError("two names take one place for a list and for an object; give each its own")
    parts = [f"{write_json(name).replace('%', '%%')}:{_form_of(node, order)}" for name, node in tree.items()]
    return "{" + ",".join(parts) + "}"


class SenmlPacks:
    """Readings in SenML, a pack a line; the room is what stands before the name of the reading."""

    def __init__(self, names: Names) -> None:
        if names.room not in (None, "bn"):
            raise ConfigurationError(f"room = {names.room!r}; of SenML it must be 'bn', what stands before the name")
        if set(names.keep) - {"u"}:
            raise ConfigurationError(f"keep = {list(names.keep)!r}; of SenML nothing but the unit is kept: 'u'")
        self._names = names

    def __repr__(self) -> str:
        return "SenmlPacks()"

    def read(self, line: str) -> Sequence[Row]:
        """The readings of a pack: those of one name before and one time belong together."""
        if not line or line.isspace():
            return ()
        names, found = self._names, dict[tuple[str, int | None], dict[str, Record]]()
        for record in read_senml(read_json(line)):
            for name in (*names.readings, *(() if names.private is None else (names.private,))):
                if record.name.endswith(name) and (
                    len(record.name) == len(name) or record.name[-len(name) - 1] in ":/._-"
                ):
                    found.setdefault((record.name[: -len(name)], record.time), {})[name] = record
        rows = []
        for (base, time), records in found.items():
            readings = [records.get(name) for name in names.readings]
            if not any(readings):
                continue
            if time is None:
                raise ReadingError("the time of a record is relative, so that it would not be known again")
            values = [None if record is None else as_number(record.value) for record in readings]
            if None in readings or None in values:
                raise ReadingError("a channel of the reading is missing, or no number")
            private = None if names.private is None or names.private not in records else records[names.private].value
            if names.room is not None and not base:
                raise ReadingError("nothing stands before the name of the reading, which would be its room")
            units = tuple(None if record is None or "u" not in names.keep else record.unit for record in readings)
            room = None if names.room is None else base.rstrip(":/._-") or base
            numbers = tuple(value for value in values if value is not None)
            rows.append(Row(room, time, numbers, private, (base if names.room is not None else "", units)))
        return rows

    def write(self, frame: Any, time: int, texts: Sequence[str]) -> str:
        """A pack with a record for each channel."""
        base, units = frame
        records = [_record_text(*each) for each in zip(self._names.readings, texts, units, strict=True)]
        return "[{" + _base_text(base, time) + "},{".join(records) + "}]"


FORMATS: Final[Mapping[str, Callable[[Names], LineFormat]]] = {
    "influx": InfluxLines,
    "jsonl": JsonLines,
    "senml": SenmlPacks,
}
"""Formats of lines by their names."""
