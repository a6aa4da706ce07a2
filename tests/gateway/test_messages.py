"""Payloads that come and that leave."""

import json

import pytest

from understudy.errors import ReadingError
from understudy.gateway.config import HomeAssistant, Sensor, Theta
from understudy.gateway.messages import LONGEST, Writer, discovery, private_value, reader_of
from understudy.gateway.plant import Output
from understudy.tables.columns import NumberFormat

SECOND = 10**9
NUMBER = Sensor(topic="raw/lab")
JSON = Sensor(topic="raw/lab", value="data[0].co2", time="at", unit="ms")
SENML = Sensor(topic="raw/lab", value="lab:co2", payload="senml")


@pytest.mark.parametrize(
    ("sensor", "payload", "value", "time"),
    [
        (NUMBER, b"417.25", 417.25, None),
        (NUMBER, b" -4e2\n", -400.0, None),
        (JSON, b'{"data": [{"co2": 417.25}], "at": 1772362800500}', 417.25, 1772362800 * SECOND + SECOND // 2),
        (JSON, b'{"data": [{"co2": 417}], "at": "2026-03-01T12:00:00+01:00"}', 417.0, 1772362800 * SECOND),
        (
            SENML,
            b'[{"bn": "lab:", "bt": 1772362800, "n": "co2", "v": 417.25}, {"n": "t", "v": 21}]',
            417.25,
            1772362800 * SECOND,
        ),
    ],
)
def test_readings_are_read(sensor, payload, value, time):
    """In each form, with and without a time."""
    assert reader_of(sensor)(payload, 0)[:] == (value, time)


@pytest.mark.parametrize(
    ("sensor", "payload", "rule"),
    [
        (NUMBER, b"", "no number"),
        (NUMBER, b"NaN", "no number"),
        (NUMBER, b"inf", "no number"),
        (NUMBER, b"1_0", "no number"),
        (NUMBER, b"4217.25 ppm", "no number"),
        (NUMBER, b"\xff\xfe", "no number"),
        (NUMBER, b"1e999", "double precision"),
        (NUMBER, b"1" * (10 << 20), "longer than"),
        (JSON, b'{"data": [], "at": 0}', "path of the value is absent"),
        (JSON, b'{"data": [{"co2": 4217.25}]}', "path of the time is absent"),
        (JSON, b'{"data": [{"co2": "4217.25"}], "at": 0}', "no number"),
        (JSON, b'{"data": [{"co2": true}], "at": 0}', "no number"),
        (JSON, b'{"data": [{"co2": NaN}], "at": 0}', "not JSON"),
        (JSON, b'{"data": [{"co2": 4217.25}], "at": "noon"}', "time"),
        (JSON, b'{"data": [{"co2": 4217.25}], "at": true}', "time"),
        (JSON, b"[" * 50_000, "not JSON"),
        (JSON, b"\xff", "not JSON"),
        (SENML, b'[{"n": "lab:co2", "v": 4217.25}, {"n": "lab:co2", "v": 1}]', "exactly one"),
        (SENML, b'[{"n": "lab:co2", "vs": "4217.25"}]', "no number"),
        (SENML, b'{"n": "lab:co2", "v": 4217.25}', None),
    ],
)
def test_what_cannot_be_read_is_refused_by_a_rule(sensor, payload, rule):
    """That does not show what stood there."""
    with pytest.raises(ReadingError, match=rule) as caught:
        reader_of(sensor)(payload, 0)
    assert "4217" not in str(caught.value)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("payload", "value"), [(b"2", 2), (b"2.0", 2), (b"ON", "ON"), (b"1.5", 1.5), (b" occupied ", "occupied")]
)
def test_private_values_are_numbers_or_texts(payload, value):
    """As they are said, or under the names that the configuration gives them."""
    theta = Theta(topic="presence/lab", valid_for=60)
    assert private_value(theta, reader_of(theta, number=False)(payload, 0).value) == value
    with pytest.raises(ReadingError, match="longer"):
        reader_of(theta, number=False)(b"x" * (LONGEST + 1), 0)
    with pytest.raises(ReadingError, match="no text"):
        reader_of(theta, number=False)(b"\xff", 0)
    named = Theta(topic="presence/lab", valid_for=60, values={"ON": 1})
    assert private_value(named, "OFF") is None


def test_the_form_of_a_message_is_that_of_the_design():
    """Digits, order of keys and decimals of the time are the same whatever the reading was; a zero has no sign."""
    writer = Writer("out/{room}", True, ("co2", "t"), (NumberFormat(2), NumberFormat(0)), 60 * SECOND, "sha256:0a")
    payloads = [
        writer(Output("f", "lab", k * 60 * SECOND, values, 7, None)).split(b"\0")[1]
        for k, values in enumerate([(400.0, 21.0), (417.256, 20.6), (-0.001, -0.2)])
    ]
    assert [json.loads(payload)["co2"] for payload in payloads] == [400.0, 417.26, 0.0]
    assert payloads[0].startswith(b'{"co2":400.00,"t":21,"time":"1970-01-01T00:00:00Z","sequence":7,"disguised":true')
    assert [list(json.loads(payload)) for payload in payloads] == [
        ["co2", "t", "time", "sequence", "disguised", "design"]
    ] * 3
    plain = Writer("out/{room}", False, ("co2",), (NumberFormat(2),), 60 * SECOND, "sha256:0a")
    assert plain(Output("f", "lab", 0, (400.0,), 1, None)) == b"out/lab\x00400.00"


def test_discovery_says_disguised_and_never_occupancy():
    """The announcement of a room: one device, a sensor for each channel, availability."""
    topic, payload = discovery(HomeAssistant(unit="ppm"), "lab 1", "out/lab 1", ["co2"], True, "gateway/status")
    told = json.loads(payload)
    assert topic == f"homeassistant/device/{told['dev']['ids'][0]}/config"
    (component,) = told["cmps"].values()
    assert (component["p"], component["stat_t"], told["avty_t"]) == ("sensor", "out/lab 1", "gateway/status")
    assert "disguised" in component["name"]
    assert "disguised" in told["dev"]["name"]
    assert "occupancy" not in payload.decode()
    with pytest.raises(ValueError, match="occupancy"):
        HomeAssistant(device_class="occupancy")
