"""Simulated rooms publish what a gateway wants: readings with the law of the private value said before them."""

import datetime as dt
import json
import subprocess
import time

import gateway_process as g
import pytest
from mqtt_broker import Authority, Broker, free_port, wait_until
from mqtt_traffic import Listener

import understudy as us
from understudy.checks import whiteness
from understudy.errors import ConfigurationError
from understudy.gateway.simulate import Pace, read_rooms

ROOMS, READINGS = 3, 400


def written(folder, broker, **more):
    """A file of rooms."""
    lines = {"broker": f"{{server: {broker.server}}}", "rooms": ROOMS, "stay": "20min", **more}
    path = folder / "rooms.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return path


def simulated(path, *options):
    """Run the installed command."""
    command = [g.COMMAND, "simulate", str(path), "--speed", "100000", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def count(listener):
    """How many readings were heard."""
    return sum(publication.topic.startswith("raw/") for publication in listener.publications)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What three simulated rooms say, twice with one seed and once with another, and when it began."""
    folder = tmp_path_factory.mktemp("simulate")
    runs, begun = [], time.time()
    with Broker(folder / "broker") as broker:
        path = written(folder, broker)
        for seed in (1, 1, 2):
            with Listener(broker.port, name=f"of seed {seed}") as listener:
                done = simulated(path, "--readings", str(READINGS), "--seed", str(seed))
                assert done.returncode == 0, done.stderr
                wait_until(lambda at=listener: count(at) == ROOMS * READINGS, 10.0, "the readings")
                runs.append([(p.topic, json.loads(p.payload)) for p in listener.publications])
    return runs, begun


def paths(run):
    """Of each room: times, private values that hold, readings."""
    holds, found = {}, {}
    for topic, told in run:
        kind, name, _ = topic.split("/")
        time = dt.datetime.fromisoformat(told["time"])
        if kind == "private":
            holds[name] = told["occupancy"]
        else:
            found.setdefault(name, []).append((time, holds[name], told["co2"]))
    return found


def test_readings_have_the_law_of_what_was_said_before_them(said):
    """Scores along the private values are white (false alarm 1e-6); along values that never change they are not."""
    for rows in paths(said[0][0]).values():
        _, thetas, Y = zip(*rows, strict=True)
        assert len(set(thetas)) == 2
        family = us.Family(g.room, values=[0, 1])
        assert whiteness(us.whiten(list(Y), family.along(thetas))).p_value > 1e-6
        assert whiteness(us.whiten(list(Y), g.room(thetas[0]))).p_value < 1e-6


def test_times_are_slots_of_the_past_up_to_now(said):
    """Times stand at multiples of the period, one after the other, and none is ahead of the clock."""
    runs, begun = said
    for rows in paths(runs[0]).values():
        stamps = [round(time.timestamp()) for time, _, _ in rows]
        assert stamps == list(range(stamps[0], stamps[0] + 60 * READINGS, 60))
        assert stamps[0] % 60 == 0
        assert stamps[-1] <= begun + 60


def test_a_seed_repeats_people_and_readings(said):
    """The same seed gives the same values and readings, another one others."""
    one, same, other = ([(v, y) for rows in paths(run).values() for _, v, y in rows] for run in said[0])
    assert one == same
    assert one != other


def test_a_simulation_in_real_time_begins_now():
    """At the speed of the clock the first reading is of the present slot; faster ones begin in the past."""
    assert Pace.of(1.0, 60.0, None, now=6030.0).first == 6000 * 10**9
    assert Pace.of(10.0, 60.0, 5, now=6030.0).first == (6000 - 300) * 10**9
    assert [due for _, due in Pace.of(10.0, 60.0, 3, now=6030.0).rounds()] == [0.0, 6.0, 12.0]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("room", 3, "rooms.yaml:4: room: there is no such key"),
        ("rooms", "[a, b, a]", "rooms.yaml:2: rooms: it must be a number from 1 to 100,000, or names that differ"),
        ("topic", "raw/co2", "rooms.yaml:4: topic: it must be a topic with {room} once"),
        ("period", "-3", "rooms.yaml:4: period: it must be a number of seconds above 0"),
        ("design", "nowhere.json", "rooms.yaml:4: design: there is no such file"),
    ],
)
def test_mistakes_in_the_file_name_line_and_key(tmp_path, key, value, rule):
    """A mistake is an error with its line, its key and the rule."""

    class Nowhere:
        server = "mqtt://127.0.0.1:1"

    with pytest.raises(ConfigurationError) as error:
        read_rooms(written(tmp_path, Nowhere, **{key: value}))
    assert str(error.value).startswith(rule)


def test_a_broker_that_is_not_there_is_an_error(tmp_path):
    """Exit status 1, and which broker it was."""

    class Nowhere:
        server = f"mqtt://127.0.0.1:{free_port()}"

    done = simulated(written(tmp_path, Nowhere), "--readings", "1")
    assert done.returncode == 1
    assert f"{Nowhere.server} does not answer" in done.stderr


@pytest.mark.gateway(seconds=8, reason="a broker with TLS and passwords, and three simulations")
def test_a_broker_with_tls_and_a_password(tmp_path):
    """The right authority and password let it publish; a wrong password or another authority is an error."""
    authority = Authority(tmp_path / "ca")
    passwords = tmp_path / "passwd"
    passwords.touch(mode=0o600)
    command = ["mosquitto_passwd", "-b", str(passwords), "rooms", "one that is right"]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "right").write_text("one that is right\n")
    (tmp_path / "wrong").write_text("one that is wrong\n")
    lines = (f"password_file {passwords}", "max_connections 10")
    other = Authority(tmp_path / "other", "another authority")
    with Broker(tmp_path / "broker", *lines, authority=authority, anonymous=False) as broker:
        status = {}
        for word, ca in (("right", authority), ("wrong", authority), ("right", other)):
            said = f"{{server: {broker.server}, user: rooms, password_file: {word}, ca: {ca.crt}}}"
            path = tmp_path / "rooms.yaml"
            path.write_text(f"broker: {said}\nrooms: 2\n")
            done = simulated(path, "--readings", "3")
            status[word, ca.name] = done.returncode, done.stderr
            assert "one that" not in done.stderr
            assert "Traceback" not in done.stderr
    assert [code for code, _ in status.values()] == [0, 1, 1], status
