"""The configuration: what is accepted, and that each error names line, key and rule, and no secret."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import understudy as us
from understudy.errors import ConfigurationError
from understudy.gateway.config import Config, read_config, topics_overlap
from understudy.gateway.entries import entries_of

PLAIN = """\
ledger: a.ledger
key: master.key
in:
  server: mqtt://sensors:1883
  user: me
out: {server: "mqtt://listeners:1883"}
rooms:
  lab:
    design: room.json
    sensors: [{topic: raw/lab/co2}]
    theta: {topic: presence/lab, valid_for: 10min}
"""
TOML = """\
ledger = "a.ledger"
key = "master.key"
[in]
server = "mqtt://sensors:1883"
[out]
server = "mqtt://listeners:1883"
[rooms.lab]
design = "room.json"
sensors = [{topic = "raw/lab/co2"}]
theta = {topic = "presence/lab", valid_for = "10min"}
"""


def read(folder, text, name="gateway.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return read_config(folder / name)


def test_a_plain_configuration_has_defaults(tmp_path):
    """In YAML and in TOML the same."""
    config = read(tmp_path, PLAIN).config
    lab = config.rooms["lab"]
    assert (config.input.port, config.input.group, config.output.topic) == (1883, 1000, "disguised/{room}")
    assert (lab.lateness, lab.theta.valid_for, lab.on_drift, lab.many) == (5.0, 600.0, "stop", False)
    toml = read(tmp_path, TOML, "gateway.toml").config
    assert toml.rooms == config.rooms


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "rule"),
    [
        ("ledger: a.ledger", "ledger: a.ledger\nledgers: b", 2, "ledgers", "no such key"),
        ("ledger: a.ledger\n", "", None, "ledger", "missing"),
        ("key: master.key", "key: master.key\nkey: other", 3, "key", "twice"),
        ("key: master.key", "key: master.key\nretain: soon", 3, "retain", "seconds"),
        ("key: master.key", "key: master.key\nhealth: 0.0.0.0:80", 3, "health", "127.0.0.1"),
        ("mqtt://sensors:1883", "http://sensors", 4, "in.server", "mqtt://"),
        ("mqtt://sensors:1883", "mqtt://me:hunter2@sensors", 4, "in.server", "password"),
        ("  user: me", "  password: hunter2", 5, "in.password", r"\$\{NAME\}"),
        ("  user: me", "  user: ${NOT_THERE}", 5, "in.user", "NOT_THERE"),
        ("  user: me", "  cert: a.pem", 3, "in", "cert and key"),
        ("  user: me", "  version: 4", 5, "in.version", "5"),
        ("  user: me", "  group: 0", 5, "in.group", "1"),
        ("mqtt://listeners:1883", "mqtt://sensors:1883", 6, "out.client_id", None),
        ("lab:", '"lab":', None, None, None),
        ("[{topic: raw/lab/co2}]", "[]", 10, "rooms.lab.sensors", "1"),
        ("topic: raw/lab/co2", "topic: raw/#", 10, "rooms.lab.sensors.0.topic", "no #"),
        ("topic: raw/lab/co2", "topic: raw/+/co2", 8, "rooms.lab", "all topics"),
        ("topic: raw/lab/co2", "topic: raw/lab/co2, payload: json", 10, "rooms.lab.sensors.0", "value is missing"),
        ("topic: raw/lab/co2", "topic: raw/lab/co2, value: a..b", 10, "rooms.lab.sensors.0", "path"),
        ("topic: presence/lab", "topic: raw/lab/co2", 11, "rooms.lab.theta.topic", "estimate"),
        ("topic: presence/lab", "topic: raw/lab/co2/people", 11, "rooms.lab.theta.topic", "estimate"),
        (", valid_for: 10min", "", 11, "rooms.lab.theta", "valid_for"),
        ("{topic: presence/lab, valid_for: 10min}", "{}", 11, "rooms.lab.theta", "topic and schedule"),
        ("    design: room.json", "    design: room.json\n    fill: true", 8, "rooms.lab", "fill"),
        (
            "    design: room.json",
            "    design: room.json\n    budget: {total: 40%}",
            10,
            "rooms.lab.budget.total",
            "nats",
        ),
        (
            "    design: room.json",
            "    design: room.json\n    budget: {amount: 1}",
            10,
            "rooms.lab.budget",
            "go together",
        ),
        ("    design: room.json", "    design: room.json\n    admit: 3", 8, "rooms.lab", "with a .* in them"),
        ("rooms:", "rooms: [", 9, None, "YAML"),
        ("ledger:", "ledger:\n\t-", 2, None, "YAML"),
    ],
)
def test_an_error_names_line_key_and_rule(tmp_path, monkeypatch, old, new, line, key, rule):
    """And never a secret; the line is that of the key, or of the one above it."""
    assert old in PLAIN
    monkeypatch.delenv("NOT_THERE", raising=False)
    text = PLAIN.replace(old, new, 1)
    if rule is None and key is None:
        assert "lab" in read(tmp_path, text).config.rooms
        return
    if key == "out.client_id":
        text = text.replace(
            'out: {server: "mqtt://sensors:1883"', 'out: {client_id: understudy-in, server: "mqtt://sensors:1883"'
        )
        rule = "differ"
    with pytest.raises(ConfigurationError, match=rule) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    place = "gateway.yaml" if line is None else f"gateway.yaml:{line}"
    assert told.startswith(f"{place}: {key}: " if key else place), told
    assert "hunter2" not in told


def test_an_error_of_toml_names_the_line(tmp_path):
    """Of the key, or of its table."""
    with pytest.raises(ConfigurationError, match=r"^gateway.toml:7: rooms.lab.colour: there is no such key"):
        read(tmp_path, TOML.replace('design = "room.json"', 'design = "room.json"\ncolour.of = 1'), "gateway.toml")
    with pytest.raises(ConfigurationError, match=r"^gateway.toml:4: in.server: "):
        read(tmp_path, TOML.replace("mqtt://sensors:1883", "sensors"), "gateway.toml")
    with pytest.raises(ConfigurationError, match="it is no TOML"):
        read(tmp_path, "a = = 1", "gateway.toml")


def test_outputs_must_not_come_back_as_readings(tmp_path):
    """On one broker, whatever its name; on two the same topics are fine."""
    text = PLAIN.replace("mqtt://listeners:1883", "mqtt://127.0.0.1:1883").replace(
        "mqtt://sensors:1883", "mqtt://localhost"
    )
    clash = text.replace('1883"}', '1883", topic: "raw/{room}/co2"}')
    with pytest.raises(
        ConfigurationError, match=r"gateway.yaml:6: out.topic: on the same broker it overlaps with raw/lab/co2"
    ):
        read(tmp_path, clash)
    told = text.replace('1883"}', '1883", topic: "presence/{room}"}')
    with pytest.raises(ConfigurationError, match=r"overlaps with presence/lab"):
        read(tmp_path, told)
    assert read(tmp_path, clash.replace("127.0.0.1:1883", "127.0.0.1:1884")).config.output.topic == "raw/{room}/co2"


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "+/b", True),
        ("a/+", "a/b/c", False),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("a/b/#", "a", False),
        ("a", "b", False),
        ("a/+/c", "a/b/d", False),
    ],
)
def test_filters_overlap_as_mqtt_says(one, other, overlap):
    """In both directions."""
    assert topics_overlap(one, other) is topics_overlap(other, one) is overlap


def test_secrets_come_from_the_environment(tmp_path, monkeypatch):
    """A password is in neither the repr of a configuration nor its errors."""
    monkeypatch.setenv("IN_PASSWORD", "hunter2")
    config = read(tmp_path, PLAIN.replace("  user: me", "  user: me\n  password: ${IN_PASSWORD}")).config
    assert config.input.password is not None
    assert config.input.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(config)


def test_the_example_and_the_schema_are_of_this_program(tmp_path):
    """`init` writes a configuration that is accepted; the schema knows its keys; neither overwrites."""
    command = Path(sys.executable).with_name("understudy")
    for _ in range(2):
        done = subprocess.run([command, "gateway", "init"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "exists" in done.stderr
    located = read_config(tmp_path / "gateway.yaml")
    commented = (tmp_path / "gateway.yaml").read_text(encoding="utf-8")
    assert set(located.config.rooms) == {"lab"}
    # what is commented out there is right too
    live = "\n".join(
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line for line in commented.splitlines()[4:]
    )
    whole = yaml.safe_load(live)
    assert {"offices", "lab"} == set(whole["rooms"])
    whole["in"].pop("ca")
    assert Config.model_validate(whole).homeassistant is not None
    told = subprocess.run([command, "gateway", "schema"], capture_output=True, text=True, check=True)
    assert set(json.loads(told.stdout)["properties"]) >= set(whole)
    assert os.listdir(tmp_path) == ["gateway.yaml"]


def located(folder, rooms):
    design = us.design(us.Family(room, values=["low", "high"]), leakage=0.3, horizon=50, distortion="mae")
    design.save(folder / "room.json")
    return read(folder, PLAIN[: PLAIN.index("rooms:")] + rooms)


def room(level):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * (level == "high"), mean0=100.0, cov0=1.0)


@pytest.mark.parametrize(
    ("rooms", "rule"),
    [
        (
            "{lab: {design: none.json, sensors: [{topic: a}], THETA}}}",
            "lab.design: none.json: ",
        ),
        (
            "{lab: {design: room.json, sensors: [{topic: a}], THETA}}}",
            "lab.period: period is miss",
        ),
        (
            "{lab: {ROOM, sensors: [{topic: a}, {topic: c}], THETA}}}",
            "lab.sensors: the design is of 1 channel; ",
        ),
        (
            "{lab: {ROOM, sensors: [{topic: a, name: time}], THETA}}}",
            "lab.sensors: names of channels",
        ),
        (
            "{lab: {ROOM, sensors: [{topic: a}], THETA, values: {x: 7}}}}",
            "lab.theta.values.x: 7 is none",
        ),
        (
            "{lab: {ROOM, sensors: [{topic: a}], theta: {schedule: {otherwise: none}}}}",
            "lab.theta.schedule.otherwise: 'none' is none",
        ),
        (
            "{lab: {ROOM, sensors: [{topic: a}], THETA}}, "
            "hall: {design: room.json, period: 30, sensors: [{topic: c}], theta: {topic: d, valid_for: 1}}}",
            "hall: its rooms are in the fleet 'room' with those of 'lab'",
        ),
    ],
)
def test_a_design_that_does_not_fit_is_refused_by_line_and_key(tmp_path, rooms, rule):
    """Its file, its channels, its private values, and the other rooms of its fleet."""
    for short, whole in (("ROOM", "design: room.json, period: 60"), ("THETA", "theta: {topic: b, valid_for: 1")):
        rooms = rooms.replace(short, whole)
    read_so_far = located(tmp_path, f"rooms: {rooms}")
    with pytest.raises(ConfigurationError) as caught:
        entries_of(read_so_far)
    assert str(caught.value).startswith("gateway.yaml:7: rooms.")
    assert rule in str(caught.value)


def test_private_values_are_those_of_the_design(tmp_path):
    """By their names, whatever a message calls them, and by the clock."""
    theta = "{topic: b, valid_for: 60, values: {'1': high, '0': low}}"
    clock = "{schedule: {otherwise: low, week: [{days: mon-sun, from: '00:00', to: '24:00', value: high}]}}"
    for given in (theta, clock):
        rooms = f"{{lab: {{design: room.json, period: 60, sensors: [{{topic: a}}], theta: {given}}}}}"
        (entry,) = entries_of(located(tmp_path, f"rooms: {rooms}"))
        if given == clock:
            assert entry.values().at(0) == (True, "high")
        else:
            assert [entry.private_value(said) for said in (1.0, "0", 7.0)] == ["high", "low", None]
    assert entry.fleet == "room"
