"""The service between real brokers: bad input, refusals, what is heard of it, and what it does when others fail."""

import contextlib
import datetime as dt
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time

import gateway_process as g
import numpy as np
import pytest
from mqtt_broker import Authority, Broker, free_port, two_brokers, wait_until
from mqtt_traffic import Connection, Listener

import understudy as us
from understudy.apply.binding import forms_of

BROKERS = "starts real brokers and the installed command"
NOISE = np.random.default_rng(11).normal(size=2000)


@pytest.fixture
def site(tmp_path):
    """A gateway's folder between two brokers."""
    with two_brokers(tmp_path) as (inner, outer):
        yield g.Site(tmp_path / "site", inner, outer, lateness=2.0)


def say(sensor, k, co2=None, people=1, room="lab", at=None, retain=False):
    """A private value and a reading of slot k."""
    time = (at or g.BEGIN + k * g.PERIOD).isoformat()
    if people is not None:
        sensor.publish(f"private/{room}/occupancy", json.dumps({"time": time, "occupancy": people}))
    payload = json.dumps({"time": time, "co2": 110.0 + float(NOISE[k]) if co2 is None else co2})
    sensor.publish(f"raw/{room}/co2", payload, retain=retain)


def heard(listener, count, room="lab", seconds=10.0):
    """So many outputs of a room, in the order of arrival."""
    topic = f"disguised/{room}/co2"
    wait_until(lambda: len(listener.by_topic[topic]) >= count, seconds, f"{count} outputs of {room}")
    return listener.by_topic[topic]


def counts(site):
    """The counters of a gateway, by their names."""
    found = {}
    for line in site.get("metrics")[1].splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def lines(gateway):
    """The lines of its log."""
    return [json.loads(line) for line in gateway.log.read_text(encoding="utf-8").splitlines()]


def replace(site, old, new):
    """The configuration with something else in it."""
    text = site.config.read_text(encoding="utf-8")
    assert old in text
    site.config.write_text(text.replace(old, new), encoding="utf-8")


def refused(site, *words):
    """The command ends at the start with status 1, and one line."""
    done = subprocess.run(
        [g.COMMAND, "gateway", str(site.config)], capture_output=True, text=True, timeout=60, check=False
    )
    told = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1, done.stderr
    for word in words:
        assert word in told, told
    assert "Traceback" not in done.stderr
    return told


# What comes -------------------------------------------------------------------------------------------------


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_bad_payloads_are_counted_and_the_others_go_on(site):
    """No number, no path, no JSON, bad UTF-8, 10 MB: the slot is missing; the log has the rule, never the payload."""
    bad = [
        b"4217.25", b"", b"\xff\xfe{}", b'{"co2": "4217.25"}', b'{"co2": 4217.25}', b'{"co2": NaN, "time": 0}',
        b'{"co2": 4217.25, "time": "soon"}', b"[" * 9999, b'{"co2": 4217.25, "time": ' + b"1" * (10 << 20) + b"}",
    ]  # fmt: skip
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            for payload in bad:
                sensor.publish("raw/lab/co2", payload)
            say(sensor, 2, room="hall")
            say(sensor, 2)
            (first, second) = heard(listener, 2)
            heard(listener, 1, "hall")
        done = 'understudy_steps_total{step="acknowledged"}'
        wait_until(lambda: counts(site)[done] == 6 + len(bad), 5.0, "all acknowledged")
        assert counts(site)['understudy_messages_total{kind="unreadable"}'] == len(bad)
        assert gateway.stop() == 0
    assert [json.loads(each.payload)["sequence"] for each in (first, second)] == [1, 2]
    log = gateway.log.read_text(encoding="utf-8")
    assert "4217" not in log
    assert sum(line["event"] == "unreadable" for line in lines(gateway)) == 1


@pytest.mark.gateway(seconds=12, reason=BROKERS)
def test_what_cannot_be_used_is_missing_by_a_rule(site):
    """Too many rooms; no private value, or one that nobody knows; a time that is late, beside, or far ahead."""
    site.admit = 2
    site.write()
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            say(sensor, 1, room="hall")
            heard(listener, 1, "hall")
            say(sensor, 1, room="attic")  # the third room
            say(sensor, 2, people=None)
            say(sensor, 3, people=7)
            say(sensor, 4)
            (_, fourth) = heard(listener, 2)
            assert json.loads(fourth.payload)["time"] == "2026-03-01T12:04:00Z"
            say(sensor, 3)  # what was missing stays so
            say(sensor, 4, at=g.BEGIN + 4 * g.PERIOD + dt.timedelta(seconds=1))  # another reading of a full slot
            say(sensor, 5, at=dt.datetime.now(dt.UTC) + dt.timedelta(days=400))
            say(sensor, 5)
            heard(listener, 3)
            wait_until(lambda: counts(site).get('understudy_readings_total{rule="future"}'), 5.0, "future")
            found = counts(site)
        assert gateway.stop() == 0
        assert len(listener.publications) == 4
    rules = {
        name.split('"')[1]: value for name, value in found.items() if name.startswith("understudy_readings_total{")
    }
    assert rules == {"taken": 4, "untold": 2, "late": 2, "future": 1, "unknown_room": 2}
    assert found['understudy_messages_total{kind="unknown_value"}'] == 1


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_a_reading_that_comes_again_gets_its_recorded_output(site):
    """Whatever it says, retained too, and after a restart: the same bytes under the same number."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            say(sensor, 2)
            (first, second) = heard(listener, 2)
            wait_until(lambda: counts(site)['understudy_steps_total{step="acknowledged"}'] == 4, 10.0, "marked")
            say(sensor, 1, co2=55.5, retain=True)
            say(sensor, 2)
            assert [each.said for each in heard(listener, 4)[2:]] == [first.said, second.said]
            gateway.kill()
            gateway.start()
            say(sensor, 2, co2=7.25)
            say(sensor, 3)
            said = listener.by_topic["disguised/lab/co2"]
            wait_until(lambda: json.loads(said[-1].payload)["sequence"] == 3, 10.0, "the third output")
            assert len(said) >= 6
            assert {each.said for each in said[:-1]} == {first.said, second.said}
        assert gateway.stop() == 0
    assert ("sequence", "1") in first.properties
    assert ("disguised", "true") in first.properties


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_readings_wait_for_those_before_and_for_their_private_value(site):
    """In any order within the lateness, outputs come in the order of time, and none is missing."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            for k in (3, 2):
                say(sensor, k, people=None)
            for k in (5, 4):
                say(sensor, k)
            for k in (3, 2):
                time = (g.BEGIN + k * g.PERIOD).isoformat()
                sensor.publish("private/lab/occupancy", json.dumps({"time": time, "occupancy": 0}))
            times = [json.loads(each.payload)["time"] for each in heard(listener, 5)]
        assert gateway.stop() == 0
    assert times == [f"2026-03-01T12:0{k}:00Z" for k in range(1, 6)]


@pytest.mark.gateway(seconds=6, reason=BROKERS)
def test_version_3_1_1_on_both_sides(site):
    """Without user properties; the payload has the mark and the number."""
    for server in (site.inner.server, site.outer.server):
        replace(site, f"server: {server}", f"server: {server}\n  version: 3.1.1")
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            told = json.loads(heard(listener, 1)[0].payload)
            gateway.kill()
            say(sensor, 2)
            gateway.start()
            heard(listener, 2)
        assert gateway.stop() == 0
    assert (told["sequence"], told["disguised"]) == (1, True)


# What is refused --------------------------------------------------------------------------------------------


@pytest.mark.gateway(seconds=10, reason=BROKERS)
def test_tls_with_an_authority_of_ones_own(tmp_path):
    """Both sides encrypted; a broker of another authority is refused at the start, by key and line."""
    good, bad = Authority(tmp_path / "good"), Authority(tmp_path / "bad", "somebody else")
    with (
        Broker(tmp_path / "in", authority=good) as inner,
        Broker(tmp_path / "out", f"listener {free_port()} 127.0.0.1", authority=good) as outer,
    ):
        site = g.Site(tmp_path / "site", inner, outer)
        for server in (inner.server, outer.server):
            replace(site, f"server: {server}", f"server: {server}\n  ca: {good.crt}")
        with g.GatewayProcess(site) as gateway:
            gateway.start()
            assert gateway.stop() == 0
        replace(site, str(good.crt), str(bad.crt))
        refused(site, "gateway.yaml:8: in.ca:", "certificate")
        replace(site, str(bad.crt), str(site.config))
        refused(site, "gateway.yaml:8: in.ca:")
        replace(site, f"mqtts://localhost:{inner.port}\n  ca: {site.config}", f"mqtt://localhost:{inner.port}")
        replace(site, f"ca: {site.config}", f"ca: {good.crt}")
        refused(site, "in.server:", "TLS")


@pytest.mark.gateway(seconds=12, reason=BROKERS)
def test_users_and_passwords(tmp_path):
    """The right one is let in; a wrong one ends the start by key and line, and is shown nowhere."""
    users, tool = tmp_path / "users", shutil.which("mosquitto_passwd")
    for user, word in (("inside", "hunter2"), ("outside", "hunter3")):
        subprocess.run([tool, "-b", *([] if users.exists() else ["-c"]), users, user, word], check=True)
    users.chmod(0o600)
    rules = tmp_path / "rules"
    rules.write_text("user inside\ntopic read raw/#\ntopic read private/#\nuser outside\ntopic write disguised/#\n")
    rules.chmod(0o600)
    options = (f"password_file {users}", f"acl_file {rules}")
    with (
        Broker(tmp_path / "in", *options, anonymous=False) as inner,
        Broker(tmp_path / "out", *options, anonymous=False) as outer,
    ):
        site = g.Site(tmp_path / "site", inner, outer)
        refused(site, "gateway.yaml:", ".user:")
        word = site.folder / "in.password"
        word.write_text("hunter2\n")
        word.chmod(0o600)
        replace(site, f"server: {inner.server}", f"server: {inner.server}\n  user: inside\n  password_file: {word}")
        replace(site, f"server: {outer.server}", f"server: {outer.server}\n  user: outside\n  password: ${{OUT_WORD}}")
        refused(site, "out.password", "no variable OUT_WORD")
        os.environ["OUT_WORD"] = "hunter4"
        try:
            told = refused(site, "gateway.yaml:", "out.user:")
            os.environ["OUT_WORD"] = "hunter3"
            with g.GatewayProcess(site) as gateway:
                gateway.start()
                assert gateway.stop() == 0
                assert "hunter" not in told + gateway.log.read_text(encoding="utf-8")
            word.chmod(0o644)
            refused(site, "in.password_file", "chmod 600")
        finally:
            del os.environ["OUT_WORD"]


@pytest.mark.gateway(seconds=15, reason=BROKERS)
def test_a_ledger_that_is_not_to_be_used_ends_the_start(site):
    """In use, readable by others, of another design, rolled back."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        refused(site, "gateway.ledger is in use by process")
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            assert gateway.stop() == 0
            former = site.ledger.read_bytes()
            gateway.start()
            say(sensor, 2)
            heard(listener, 2)
            assert gateway.stop() == 0
    site.ledger.chmod(0o644)
    refused(site, "can be read by others")
    site.ledger.chmod(0o600)
    latest = site.ledger.read_bytes()
    site.ledger.write_bytes(former)
    refused(site, "older than what this fleet has released")
    site.ledger.write_bytes(latest)
    design = (site.folder / "room.json").read_bytes()
    us.design(us.Family(g.room, values=[0, 1]), leakage=0.2, horizon=50, distortion="mae").save(
        site.folder / "room.json"
    )
    refused(site, "belongs to another design")
    (site.folder / "room.json").write_bytes(design)
    replace(site, "period: 60s", "period: 30s")
    refused(site, "begun with other epochs, cadence")


@pytest.mark.gateway(seconds=6, reason=BROKERS)
def test_something_that_is_no_broker_ends_the_start(site):
    """And a broker that is not there yet does not: it is waited for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        replace(site, site.inner.server, f"mqtt://127.0.0.1:{port}")
        process = subprocess.Popen([g.COMMAND, "gateway", str(site.config)], stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            server.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                server.accept()[0].close()
        assert process.returncode == 1
        assert "in.server: what is there closes the connection" in process.communicate()[1]
    with g.GatewayProcess(site) as gateway:
        gateway.start(wait=False)
        wait_until(lambda: site.get("readyz") == (503, "in is not connected\n"), 10.0, "not ready")
        assert gateway.stop() == 0


@pytest.mark.gateway(seconds=4, reason=BROKERS)
def test_check_says_what_would_be_done_and_does_nothing(site):
    """Both brokers are asked; nothing is published, no ledger is made."""
    with Listener(site.outer.port, "#") as listener, Listener(site.inner.port, "#") as inside:
        done = subprocess.run(
            [g.COMMAND, "gateway", "check", str(site.config)], capture_output=True, text=True, check=True
        )
        for words in (
            "raw/+/co2",
            "private/+/occupancy",
            "disguised/<room>/co2",
            "up to 1000 rooms",
            "nothing was published",
        ):
            assert words in done.stdout.replace("Nothing", "nothing")
        facts = json.loads(
            subprocess.run(
                [g.COMMAND, "gateway", "check", str(site.config), "--json"], capture_output=True, check=True
            ).stdout
        )
        assert facts["brokers"] == {"in": True, "out": True}
        assert not site.ledger.exists()
        assert not listener.publications
        assert not inside.publications
    site.outer.close()
    done = subprocess.run(
        [g.COMMAND, "gateway", "check", str(site.config)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "out.server: nothing answers there" in done.stderr) == (1, True)


# What is heard of it ----------------------------------------------------------------------------------------


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_home_assistant_is_told_and_told_again(site):
    """Discovery is retained, comes again when Home Assistant is back, and the will says when the gateway is gone."""
    site.top = "homeassistant: {unit: ppm, device_class: carbon_dioxide}"
    site.write()
    topic, status = "homeassistant/device/understudy_lab/config", "understudy-out/status"
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor, Connection(site.outer.port, "home") as home:
            say(sensor, 1)
            heard(listener, 1)
            home.publish("homeassistant/status", "online")
            wait_until(lambda: len(listener.by_topic[topic]) == 2, 5.0, "discovery again")
        gateway.kill()
        wait_until(lambda: len(listener.by_topic[status]) == 2, 5.0, "the will")
    first, second = listener.by_topic[topic]
    assert first.payload == second.payload
    assert [each.payload for each in listener.by_topic[status]] == [b"online", b"offline"]
    assert json.loads(first.payload)["cmps"]["co2"]["stat_t"] == "disguised/lab/co2"
    with Listener(site.outer.port, "homeassistant/#", name="later") as later:
        wait_until(lambda: later.by_topic[topic], 5.0, "retained")


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_the_service_manager_is_told(site, monkeypatch):
    """READY, signs of life for the watchdog, STOPPING: datagrams on a real socket."""
    address = str(site.folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(5.0)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        with g.GatewayProcess(site) as gateway:
            gateway.start()
            told = [manager.recv(1000).decode() for _ in range(4)]
            gateway.signal(signal.SIGSTOP)
            time.sleep(1.5)
            manager.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    manager.recv(1000)
            time.sleep(1.0)
            with pytest.raises(BlockingIOError):  # a process that stands still says nothing
                manager.recv(1000)
            gateway.signal(signal.SIGCONT)
            manager.settimeout(5.0)
            assert gateway.stop() == 0
            while "STOPPING=1" not in (last := manager.recv(1000).decode()):
                assert last == "WATCHDOG=1"
    assert "READY=1" in told[0].splitlines()
    assert told[1:] == ["WATCHDOG=1"] * 3


@pytest.mark.gateway(seconds=6, reason=BROKERS)
def test_health_answers_this_machine_alone_and_metrics_hold_no_secret(site):
    """What was read, drawn and told is in no label and no line."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            for k in range(1, 40):
                say(sensor, k, people=k // 10 % 2)
            heard(listener, 39)
        assert site.get("healthz") == (200, "alive\n")
        assert site.get("nothing")[0] == 404
        wait_until(lambda: counts(site).get("understudy_rooms"), 10.0, "gauges")
        text, found = site.get("metrics")[1], counts(site)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", site.health), timeout=2.0)
        assert gateway.stop() == 0
    assert found['understudy_readings_total{rule="taken"}'] == 39
    assert found['understudy_budget_rooms{left="more"}'] == 1
    labels = {word for line in text.splitlines() if "{" in line for word in line[line.index("{") :].split('"')[1::2]}
    assert not any(label.replace(".", "").isdigit() and label in {"0", "1"} for label in labels)
    log = gateway.log.read_text(encoding="utf-8")
    assert not any(f"{110.0 + noise:.3f}"[:7] in text + log for noise in NOISE[1:40])


# What others do ---------------------------------------------------------------------------------------------


@pytest.mark.gateway(seconds=10, reason=BROKERS)
def test_a_full_disk_releases_and_acknowledges_nothing_until_there_is_room(site):
    """The process cannot make its files longer for a while; then it goes on, and nothing is lost."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            wait_until(lambda: counts(site)['understudy_steps_total{step="acknowledged"}'] == 2, 5.0, "acknowledged")
            pid = gateway.process.pid
            former = resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            for k in range(2, 30):
                say(sensor, k)
            wait_until(lambda: site.get("readyz") == (503, "the ledger does not record\n"), 10.0, "not ready")
            time.sleep(1.0)
            assert counts(site)['understudy_steps_total{step="acknowledged"}'] == 2
            assert len(listener.publications) == 1
            resource.prlimit(pid, resource.RLIMIT_FSIZE, former)
            heard(listener, 29, seconds=30.0)
            wait_until(lambda: site.ready, 10.0, "ready again")
        assert gateway.stop() == 0
    events = [line["event"] for line in lines(gateway)]
    assert events.count("not_recorded") == 1
    assert events.count("recording") == 1


@pytest.mark.gateway(seconds=15, reason=BROKERS)
def test_a_broker_that_is_away_is_waited_for(site):
    """The listeners' one: readings go on being recorded, within bounds, and leave when it is back, in their order."""
    replace(site, "in:\n", "in:\n  group: 50\n")
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            site.outer.save()  # the session of the listener
            time.sleep(1.0)
            site.outer.kill()
            wait_until(lambda: site.get("readyz") == (503, "out is not connected\n"), 10.0, "not ready")
            for k in range(2, 600):
                say(sensor, k)
            time.sleep(2.0)
            site.outer.start()
            published = heard(listener, 599, seconds=40.0)
        assert gateway.stop() == 0
    numbers = [json.loads(each.payload)["sequence"] for each in published]
    assert sorted(set(numbers)) == list(range(1, 600))
    assert [n for i, n in enumerate(numbers) if n not in numbers[:i]] == list(range(1, 600))


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_sigterm_sends_what_is_recorded_and_leaves(site):
    """A group is finished; what waits in its window comes again at the next start."""
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            say(sensor, 1)
            heard(listener, 1)
            say(sensor, 3)  # waits for slot 2
            time.sleep(0.3)
            assert gateway.stop() == 0
            assert len(listener.publications) == 1
            say(sensor, 2)
            gateway.start()
            times = [json.loads(each.payload)["time"] for each in heard(listener, 3)]
        assert gateway.stop() == 0
    assert times == [f"2026-03-01T12:0{k}:00Z" for k in (1, 2, 3)]
    assert [line["event"] for line in lines(gateway)].count("stopped") == 2


@pytest.mark.gateway(seconds=15, reason=BROKERS)
@pytest.mark.parametrize("policy", ["stop", "pass"])
def test_a_room_whose_scores_tell_its_private_value_is_stopped(site, policy):
    """The labels of its readings are wrong half of the time. A stop holds over a restart, until a person ends it."""
    replace(site, "on_drift: pass", f"on_drift: {policy}")
    replace(site, "epoch: 1800s", "epoch: 1d")
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            for k in range(1, 600):
                say(sensor, k, co2=110.0 + 4.0 * (k // 7 % 2) + float(NOISE[k]), people=k // 7 % 2)
                say(sensor, k, room="right", people=1)
            heard(listener, 599, "right", seconds=30.0)
            wait_until(lambda: counts(site).get("understudy_drift") == 1, 10.0, "drift")
            g.settle(listener)
            before = len(listener.by_topic["disguised/lab/co2"])
            assert (before == 599) == (policy == "pass")
            gateway.kill()
            gateway.start()
            say(sensor, 600)
            say(sensor, 600, room="right")
            heard(listener, 600, "right")
            g.settle(listener)
            assert len(listener.by_topic["disguised/lab/co2"]) == before + (policy == "pass")
            assert gateway.stop() == 0
            stopped = site.ledger.with_suffix(".stopped.json")
            assert stopped.exists() == (policy == "stop")
            if policy == "stop":
                assert json.loads(stopped.read_text(encoding="utf-8")) == {"room": ["lab"]}
                stopped.unlink()
                gateway.start()
                say(sensor, 601)
                heard(listener, before + 1)
                assert gateway.stop() == 0
    assert [line["room"] for line in lines(gateway) if line["event"] == "drift"] == ["lab"]


@pytest.mark.gateway(seconds=10, reason=BROKERS)
def test_outputs_leave_on_a_fixed_cadence(site):
    """Three seconds after their slot, whenever the reading came and whatever was killed meanwhile."""
    replace(site, "period: 60s", "period: 1s\n    release: 3s")
    replace(site, "lateness: 2.0s", "lateness: 1s")
    replace(site, "valid_for: 60s", "valid_for: 1s")
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            shift = time.time() - time.monotonic()
            begin = int(time.time()) + 1
            for k in range(6):
                time.sleep(max(0.0, begin + k + (0.1, 0.7)[k % 2] - time.time()))
                say(sensor, k, at=dt.datetime.fromtimestamp(begin + k, dt.UTC))
                if k == 3:
                    time.sleep(0.3)
                    gateway.kill()
                    gateway.start(wait=False)
            published = heard(listener, 6)
        assert gateway.stop() == 0
    after = [
        each.at + shift - dt.datetime.fromisoformat(json.loads(each.payload)["time"]).timestamp() for each in published
    ]
    assert all(late >= 2.99 for late in after), after  # never before


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_a_broker_that_does_not_take_outputs_is_told_from_one_that_does(tmp_path):
    """What the listeners' broker refuses stays unsent and unacknowledged; it leaves when the rules let it."""
    rules = tmp_path / "rules"
    rules.write_text("topic read disguised/#\n")
    rules.chmod(0o600)
    with Broker(tmp_path / "in") as inner, Broker(tmp_path / "out", f"acl_file {rules}") as outer:
        site = g.Site(tmp_path / "site", inner, outer)
        with g.GatewayProcess(site) as gateway, Listener(outer.port, "disguised/#") as listener:
            gateway.start()
            with Connection(inner.port, "sensor") as sensor:
                say(sensor, 1)
                wait_until(lambda: counts(site).get('understudy_steps_total{step="refused"}'), 10.0, "refused")
                assert counts(site)['understudy_steps_total{step="acknowledged"}'] == 1  # the private value
                rules.write_text("topic readwrite disguised/#\n")
                outer._signal(signal.SIGHUP)
                heard(listener, 1, seconds=15.0)
            assert gateway.stop() == 0
        assert "refused" in {line["event"] for line in lines(gateway)}


@pytest.mark.gateway(seconds=8, reason=BROKERS)
def test_channels_rooms_and_forms_side_by_side(site):
    """Two channels from one message of JSON, two from a pack and JSON, private values by the clock: as the library."""

    def climate(people):
        return us.GaussMarkov(
            A=[[0.9, 0.0], [0.1, 0.8]], C=np.eye(2), Q=0.1 * np.eye(2), R=0.1 * np.eye(2), b=[10.0 * people, people],
            mean0=[100.0, 20.0], cov0=np.eye(2),
        )  # fmt: skip

    design = us.design(us.Family(climate, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")
    design.save(site.folder / "climate.json")
    text = site.config.read_text(encoding="utf-8")
    site.config.write_text(
        text[: text.index("rooms:")]
        + """\
rooms:
  lab:
    design: climate.json
    period: 1min
    sensors:
      - {topic: raw/lab, value: air.co2, time: at, name: co2}
      - {topic: raw/lab, value: air.t, time: at, name: t}
    theta: {topic: door/lab, values: {open: 0, shut: 1}, valid_for: 1d}
  halls:
    design: climate.json
    period: 1min
    names: [north, south]
    sensors:
      - {topic: pack/+, value: "n:co2", payload: senml, name: co2}
      - {topic: temperature/+, value: t, time: at, name: t}
    theta: {topic: people/+, value: n, time: at, valid_for: 1min}
  attic:
    design: climate.json
    period: 1min
    sensors:
      - {topic: raw/attic, value: air.co2, time: at, name: co2}
      - {topic: raw/attic, value: air.t, time: at, name: t}
    theta: {schedule: {zone: UTC, otherwise: 0, week: [{days: mon-sun, from: "12:10", to: "12:20", value: 1}]}}
""",
        encoding="utf-8",
    )
    rng, times = np.random.default_rng(4), [g.BEGIN + k * g.PERIOD for k in range(40)]
    Y = {room: 100.0 + rng.normal(size=(40, 2)) for room in ("lab", "north", "attic")}
    thetas = {
        "lab": [1] * 40,
        "north": [k % 2 for k in range(40)],
        "attic": [int(10 <= k < 20) for k in range(40)],
    }
    with g.GatewayProcess(site) as gateway, Listener(site.outer.port, "disguised/#") as listener:
        gateway.start()
        with Connection(site.inner.port, "sensor") as sensor:
            sensor.publish("door/lab", "shut")  # without a time: it holds from now on, for readings of now
            for k, time_of in enumerate(times):
                at = time_of.isoformat()
                for room in ("lab", "attic"):
                    air = {"co2": Y[room][k][0], "t": Y[room][k][1]}
                    sensor.publish(f"raw/{room}", json.dumps({"at": at, "air": air}))
                sensor.publish("people/north", json.dumps({"at": at, "n": thetas["north"][k]}))
                pack = [{"bn": "n:", "bt": time_of.timestamp(), "n": "co2", "v": Y["north"][k][0]}, {"n": "x", "v": 1}]
                sensor.publish("temperature/north", json.dumps({"at": at, "t": Y["north"][k][1]}))
                sensor.publish("pack/north", json.dumps(pack))
            heard_of = {room: payloads(listener, room, 40) for room in ("north", "attic")}
        untold = 'understudy_readings_total{rule="untold"}'
        wait_until(lambda: counts(site).get(untold) == 40, 10.0, "readings from before their private value")
        assert gateway.stop() == 0
    assert not listener.by_topic["disguised/lab/co2"]
    keys = np.array([g.key_of(at) for at in times]).view("datetime64[ns]")
    with us.Ledger(site.folder / "library", rollback_guard=False) as ledger:
        key = us.MasterKey.read(site.folder / "master.key")
        fleet = us.Fleet(design, ledger, "climate", key=key, rooms=["north", "attic"], period=60)
        for room, told in heard_of.items():
            out = fleet.apply([room] * 40, keys, Y[room], thetas[room])
            texts = [form.texts(column) for form, column in zip(forms_of(design), out.T, strict=True)]
            assert [[each["co2"], each["t"]] for each in told] == [list(row) for row in zip(*texts, strict=True)]


def payloads(listener, room, count):
    """The payloads of so many outputs of a room."""
    return [json.loads(each.payload, parse_float=str) for each in heard(listener, count, room, seconds=20.0)]
