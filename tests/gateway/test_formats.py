"""Line protocol, JSON and SenML: read as others read them, written so that they are read again."""

from __future__ import annotations

import datetime as dt
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from line_protocol_parser import LineFormatError, parse_line

from understudy.errors import ConfigurationError, ReadingError
from understudy.gateway import formats
from understudy.gateway.formats import (
    MISSING,
    InfluxLines,
    JsonLines,
    Names,
    Point,
    SenmlPacks,
    find,
    json_path,
    read_point,
    read_senml,
    read_time,
    write_point,
)

# a backslash at the end of a name, or before a separator, is what the protocol cannot hold
_LETTERS = st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\x85")
_NAMES = st.text(_LETTERS, min_size=1, max_size=12).filter(
    lambda text: not text.endswith("\\") and not re.search(r"\\[,= \\]", text) and not text.startswith(("#", '"'))
)
_FIELDS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.text(_LETTERS, max_size=12),
)
_TIMES = st.integers(-(2**63) + 1, 2**63 - 1)
_POINTS = st.builds(
    Point,
    _NAMES.filter(lambda text: "\\" not in text),
    st.dictionaries(_NAMES, _NAMES, max_size=4),
    st.dictionaries(_NAMES, _FIELDS, min_size=1, max_size=4),
    st.one_of(st.none(), _TIMES),
)


@given(_POINTS)
def test_a_point_is_read_as_it_was_written(point):
    """Writing and reading give the point again, with the type of every field."""
    again = read_point(write_point(point))
    assert again == point
    assert [type(value) for value in again.fields.values()] == [type(value) for value in point.fields.values()]


@given(_POINTS)
def test_the_oracle_reads_what_was_written(point):
    """Another parser finds the same names, values and time."""
    other = parse_line(write_point(point))
    assert other["measurement"] == point.measurement
    assert other["tags"] == point.tags
    assert other["fields"] == point.fields
    assert (other["time"] or None) == (point.time or None)


LINES = [
    "air co2=431.5",
    "air co2=431.5 1700000000000000000",
    "air,room=lab co2=431.5,people=3i 1700000000000000000",
    r"air\,1,room=lab\ 1,a\=b=c\,d co2=-4.5e-3,x\ y=1 -5",
    r'air note="a \"b\" c, d=e",co2=4 12',
    r'air note="back\\slash" 12',
    'air note="" 12',
    "air open=t,shut=F,on=TRUE,off=false 12",
    "air n=18446744073709551615u,m=-9223372036854775808i 12",
    "größe,raum=büro höhe=1.5 12",
    "air co2=.5,b=5. 12",
]


@pytest.mark.parametrize("line", LINES)
def test_lines_are_read_as_the_oracle_reads_them(line):
    """Lines with escapes, quotes, suffixes and truths."""
    point, other = read_point(line), parse_line(line)
    assert (point.measurement, point.tags, point.fields) == (other["measurement"], other["tags"], other["fields"])
    assert (point.time or None) == (other["time"] or None)


def test_the_oracle_comparison_notices_a_wrong_reader(monkeypatch):
    """A reader that forgets the escapes differs from the oracle."""
    monkeypatch.setattr(formats, "_unescaped", lambda name: name)
    assert read_point(LINES[3]).tags != parse_line(LINES[3])["tags"]


BAD_LINES = [
    "air",
    "air ",
    "air 12",
    "air co2",
    "air co2=",
    "air =4",
    "air co2=4,",
    "air,room co2=4",
    "air,room= co2=4",
    ",room=a co2=4",
    'air note="open 12',
    "air co2=4 12 13",
    "air co2=4 noon",
    "air co2=4i5 12",
    "air co2=nan 12",
    "air co2=inf 12",
    "air co2=1_0 12",
    "air co2=\uff11\uff12 12",
    "air co2=1\uff123 12",
    "air co2=0x10 12",
    "air co2=1e999 12",
    "air co2=99999999999999999999i 12",
    "air co2=-1u 12",
    "air co2=4 99999999999999999999",
    'air note="a"b 12',
    "air co2=a=b 12",
    "air,room=a,room=b co2=4 12",
    "air co2=yes 12",
    'air co2=" 12',
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_what_is_no_line_is_refused_without_showing_it(line):
    """The error is a rule: no part of the line stands in it."""
    with pytest.raises(ReadingError) as error:
        read_point(line)
    assert not any(part in str(error.value) for part in re.split(r"[ ,=]", line) if len(part) > 3 and part != "note")


@pytest.mark.parametrize(
    "line", [line for line in BAD_LINES if line in {"air", "air co2", "air co2=", "air co2=4 noon"}]
)
def test_the_oracle_refuses_the_plainest_of_them_too(line):
    """Some of the lines that are refused, as another parser judges them."""
    with pytest.raises(LineFormatError):
        parse_line(line)


@given(st.text(st.sampled_from('ab,= "\\01.i#tu-\t'), max_size=24))
def test_any_text_is_a_point_or_a_rule(line):
    """No text makes anything else than a point or a ReadingError."""
    try:
        point = read_point(line)
    except ReadingError:
        return
    assert point.fields
    assert all(math.isfinite(value) for value in point.fields.values() if isinstance(value, float))


@given(_POINTS, st.sampled_from(sorted(formats.UNITS)))
def test_the_quick_way_and_the_careful_way_agree(point, unit):
    """A line without escapes or quotes is split; with a string behind it, it is scanned: the same comes out."""
    line = write_point(point._replace(time=None))
    careful = read_point(f'{line},last="" 12', formats.UNITS[unit])
    assert {**read_point(line).fields, "last": ""} == careful.fields
    assert careful.time == 12 * formats.UNITS[unit]


# Readings in lines --------------------------------------------------------------------------------------


def test_only_what_is_named_leaves():
    """Other tags and fields, and the private one, are dropped; the mark is a tag among the others, in order."""
    lines = InfluxLines(Names(("co2",), private="people", room="room", keep=("floor", "open")))
    line = "air,floor=2,room=lab,secret=x co2=431.5,people=3i,open=t,other=1 1700000000000000000"
    (row,) = lines.read(line)
    assert (row.room, row.time, row.values, row.private) == ("lab", 1_700_000_000_000_000_000, (431.5,), 3)
    left = lines.write(row.frame, row.time, ("424.1250",))
    assert left == "air,disguised=true,floor=2,room=lab open=t,co2=424.1250 1700000000000000000"


def test_names_with_separators_stay_escaped():
    """Rooms, tags and fields with spaces, commas and equals signs leave as they came."""
    names = Names(("co 2", "t=1"), private="a,b", room="the room", keep=("x y",))
    line = r"air\ 1,the\ room=lab\ \=1,x\ y=\,z co\ 2=4.5,t\=1=20,a\,b=1i 60"
    (row,) = InfluxLines(names).read(line)
    assert (row.room, row.values, row.private) == ("lab =1", (4.5, 20.0), 1)
    again = parse_line(InfluxLines(names).write(row.frame, row.time, ("4.25", "21.0")))
    assert again["measurement"] == "air 1"
    assert again["tags"] == {"disguised": "true", "the room": "lab =1", "x y": ",z"}
    assert again["fields"] == {"co 2": 4.25, "t=1": 21.0}


def test_lines_without_a_reading_are_passed_over():
    """Comments, empty lines, other measurements."""
    lines = InfluxLines(Names(("co2",), room="room"))
    assert [lines.read(line) for line in ("", "  ", "# co2=4", "door,room=lab open=t 5")] == [(), (), (), ()]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("air co2=4 5", "room"),
        ("air,room=lab co2=t 5", "no number"),
        ("air,room=lab co2=4", "time stamp"),
        ("air,room=lab co2=4,t=1,t=oops 5", "field"),
    ],
)
def test_a_reading_that_cannot_be_used_says_which_rule(line, rule):
    """Room, number and time are needed."""
    with pytest.raises(ReadingError, match=rule):
        InfluxLines(Names(("co2",), room="room")).read(line)


def test_some_channels_without_the_others_are_refused():
    """A vector with a part missing is no reading."""
    for lines, line in (
        (InfluxLines(Names(("a", "b"))), "air b=4 5"),
        (JsonLines(Names(("a", "b"))), '{"b": 4, "time": 5}'),
    ):
        with pytest.raises(ReadingError, match="channels"):
            lines.read(line)


def test_a_json_line_keeps_its_nesting_and_the_digits_of_the_design():
    """Paths into objects and lists; keys stand in one order, whatever the order of the line."""
    names = Names(("air.co2", "air.t"), private="people", room="room", keep=("meta[1].v",), time="air.at")
    lines = JsonLines(names)
    air = '{"t": 20, "co2": 431, "at": "2026-03-01T12:00:00Z"}'
    line = f'{{"people": 2, "room": "lab %s", "air": {air}, "meta": [0, {{"v": [1, "%"]}}]}}'
    (row,) = lines.read(line)
    assert (row.room, row.values, row.private) == ("lab %s", (431.0, 20.0), 2)
    left = lines.write(row.frame, row.time, ("424.1250", "20.50"))
    assert "424.1250" in left
    assert json.loads(left) == {
        "air": {"at": "2026-03-01T12:00:00Z", "co2": 424.125, "t": 20.5},
        "room": "lab %s",
        "meta": [None, {"v": [1, "%"]}],
        "disguised": True,
    }


def test_what_is_kept_and_absent_is_null():
    """The form of a line does not depend on what is there."""
    lines = JsonLines(Names(("co2",), keep=("x",)))
    (row,) = lines.read('{"co2": 4, "time": 60}')
    assert lines.write(row.frame, 120 * 10**9, ("4.5",)) == '{"time":120,"x":null,"co2":4.5,"disguised":true}'


def test_the_time_of_a_slot_has_the_form_of_the_time():
    """RFC 3339 stays so, with its zone."""
    lines = JsonLines(Names(("co2",), time="at"))
    (row,) = lines.read('{"co2": 4, "at": "2026-03-01T13:00:07+01:00"}')
    assert lines.write(row.frame, row.time - 7 * 10**9, ("4.5",)).startswith('{"at":"2026-03-01T13:00:00+01:00"')


@pytest.mark.parametrize(
    "line",
    ["[1]", "7", "{", "nonsense", '{"co2": NaN, "time": 5}', '{"co2": "4", "time": 5}', '{"co2": true, "time": 5}',
     '{"co2": 4}', '{"co2": 4, "time": "noon"}', '{"co2": 4, "time": true}', '{"co2": 1e999, "time": 5}',
     '{"co2": 4, "time": "2026-13-01T00:00:00Z"}', '{"co2": 4, "time": 1e300}'],
)  # fmt: skip
def test_json_that_cannot_be_used_is_refused(line):
    """With a rule, and without what stood there; with orjson and without it."""
    for parser in (formats.orjson, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(formats, "orjson", parser)
            with pytest.raises(ReadingError) as error:
                JsonLines(Names(("co2",))).read(line)
            assert "noon" not in str(error.value)


def test_paths_are_checked():
    """Steps into objects and lists; what is no path says its rule."""
    document = {"a": [{"b": 1}], "c": None}
    assert find(document, json_path("a[0].b")) == 1
    assert find(document, json_path("c")) is None
    assert [find(document, json_path(text)) for text in ("a[1].b", "c.d", "x")] == [MISSING] * 3
    for text in ("", ".", "a..b", "[0]", "a[x]", "a["):
        with pytest.raises(ConfigurationError):
            json_path(text)
    for pair in (("a", "a.b"), ("a.b", "a"), ("a[0]", "a.b"), ("a", "a"), ("disguised", "a")):
        with pytest.raises(ConfigurationError):
            JsonLines(Names(pair))


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_times_are_exact(moment):
    """A text of RFC 3339 in nanoseconds, against the arithmetic of datetime."""
    text = moment.isoformat().replace("+00:00", "Z")
    if not 1700 < moment.year < 2200:
        return
    since = moment - moment.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    assert read_time(text) == (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def test_times_know_their_units():
    """By size, or as it is said; fractions of a second to the nanosecond in texts."""
    moment = 1_700_000_000_000_000_000
    assert [read_time(moment // unit) for unit in formats.UNITS.values()] == [moment] * 4
    assert read_time(5, formats.UNITS["ms"]) == 5_000_000
    assert read_time("2023-11-14T22:13:20.123456789Z") == moment + 123_456_789
    assert read_time("2023-11-14 23:13:20+0100") == moment


# SenML --------------------------------------------------------------------------------------------------


def test_the_examples_of_the_standard():
    """Base names, times, units, values and sums as in the examples of RFC 8428, section 5.1."""
    pack = [
        {"bn": "urn:dev:ow:10e2073a0108006:", "bt": 1.276020076001e9, "bu": "A", "bver": 5, "n": "voltage", "u": "V",
         "v": 120.1},
        {"n": "current", "t": -5, "v": 1.2},
        {"n": "current", "t": -4, "v": 1.3},
        {"n": "current", "v": 1.7},
    ]  # fmt: skip
    found = read_senml(pack)
    assert [(r.name.rpartition(":")[2], r.value, r.unit) for r in found] == [
        ("voltage", 120.1, "V"), ("current", 1.2, "A"), ("current", 1.3, "A"), ("current", 1.7, "A"),
    ]  # fmt: skip
    first = 1_276_020_076_001_000_000
    assert [r.time for r in found] == [first, first - 5 * 10**9, first - 4 * 10**9, first]


def test_relative_times_need_now():
    """Below 2**28 a time counts from now."""
    pack = [{"n": "a", "v": 1, "t": -1}]
    assert [r.time for r in read_senml(pack)] == [None]
    assert [r.time for r in read_senml(pack, now=5 * 10**9)] == [4 * 10**9]


@pytest.mark.parametrize(
    "pack",
    [{}, [1], [{"n": "a b", "v": 1}], [{"v": 1}], [{"n": "a", "v": 1, "vs": "x"}], [{"n": "a", "v": "x"}],
     [{"n": "a", "vb": 1}], [{"n": "a", "v": 1, "new_": 1}], [{"n": "a", "v": 1, "bver": 11}],
     [{"n": "a", "v": 1, "bver": None}], [{"n": "a", "v": 1, "t": "x"}], [{"n": 1, "v": 1}],
     [{"n": "a", "v": 1, "u": 1}], [{"n": "a", "v": True}]],
)  # fmt: skip
def test_packs_that_are_wrong_are_refused(pack):
    """Each by a rule of the standard."""
    with pytest.raises(ReadingError):
        read_senml(pack)


def test_a_pack_gives_readings_and_leaves_as_a_pack():
    """The room is what stands before the name; private records of the same time go with the reading."""
    lines = SenmlPacks(Names(("co2",), private="people", room="bn", keep=("u",)))
    pack = [
        {"bn": "urn:dev:lab:", "bt": 1.7e9, "n": "co2", "u": "ppm", "v": 431.5},
        {"n": "people", "v": 3},
        {"n": "door", "vb": True},
        {"n": "co2", "v": 432, "t": 60},
    ]
    rows = lines.read(json.dumps(pack))
    assert [(row.room, row.values, row.private) for row in rows] == [
        ("urn:dev:lab", (431.5,), 3.0), ("urn:dev:lab", (432.0,), None),
    ]  # fmt: skip
    left = json.loads(lines.write(rows[0].frame, rows[0].time, ("424.1250",)))
    assert left == [{"bn": "urn:dev:lab:", "bt": 1700000000, "n": "co2", "u": "ppm", "v": 424.125, "disguised": True}]
    (record,) = read_senml(left)
    assert (record.name, record.time, record.value) == ("urn:dev:lab:co2", 1_700_000_000 * 10**9, 424.125)


def test_a_pack_of_two_channels():
    """One record a channel; a pack that has one of them alone is refused."""
    lines = SenmlPacks(Names(("co2", "t"), room="bn"))
    (row,) = lines.read('[{"bn":"lab/","bt":1700000000,"n":"t","v":20},{"n":"co2","v":431}]')
    assert row.values == (431.0, 20.0)
    left = json.loads(lines.write(row.frame, row.time, ("4.5", "2.5")))
    assert [(r.name, r.value) for r in read_senml(left)] == [("lab/co2", 4.5), ("lab/t", 2.5)]
    with pytest.raises(ReadingError):
        lines.read('[{"bn":"lab/","bt":1700000000,"n":"t","v":20}]')


def test_what_senml_cannot_have_is_refused():
    """Rooms are names, and labels other than the unit do not leave."""
    for names in (Names(("co2",), room="room"), Names(("co2",), keep=("x",))):
        with pytest.raises(ConfigurationError):
            SenmlPacks(names)


def test_the_mark_cannot_be_named():
    """A tag of that name could say that a reading is not disguised."""
    with pytest.raises(ConfigurationError):
        InfluxLines(Names(("co2",), keep=("disguised",)))
