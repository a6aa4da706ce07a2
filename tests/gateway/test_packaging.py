"""What is shipped beside the program: the unit of systemd, the access rules of Mosquitto, the lines of the image."""

import re
import subprocess
import time
from pathlib import Path

import pytest
from mqtt_broker import Broker, wait_until
from mqtt_traffic import Connection, Listener

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
MOST = 2.0
"""Exposure of a service, as systemd rates it from 0 to 10."""
USERS = ("zigbee2mqtt", "presence", "understudy", "homeassistant", "dashboard")


def exposure(unit):
    """What systemd makes of a unit, without running it."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"Overall exposure level for \S+: (\d+\.\d)", told)[1])


@pytest.mark.gateway(seconds=1, reason="needs systemd-analyze")
def test_the_unit_is_hardened(tmp_path):
    """The service can do little more than its work; without its rules the same rating is poor."""
    unit = PACKAGING / "understudy-gateway.service"
    assert exposure(unit) <= MOST
    bare = tmp_path / "bare.service"
    kept = ("[", "Description", "Type", "ExecStart")
    bare.write_text("\n".join(line for line in unit.read_text().splitlines() if line.startswith(kept)) + "\n")
    assert exposure(bare) > MOST


@pytest.mark.gateway(seconds=1, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_reads(tmp_path):
    """No line of the unit is unknown to systemd; a misspelt one is found."""

    def complaints(text):
        unit = tmp_path / "understudy-gateway.service"
        unit.write_text(text.replace("/opt/understudy/bin/understudy", "/bin/true"))
        told = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)  # noqa: S607  # by PATH
        return [line for line in told.stderr.splitlines() if unit.name in line]

    text = (PACKAGING / "understudy-gateway.service").read_text()
    assert complaints(text) == []
    assert complaints(text.replace("ProtectClock", "ProtectClocks")) != []


def guarded(folder, *files):
    """A broker with the rules of these files, and a password for each user."""
    folder.mkdir()
    passwords = folder / "passwd"
    passwords.touch(mode=0o600)
    for user in USERS:
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), user, f"of {user}"], check=True, capture_output=True)  # noqa: S607  # by PATH
    rules = folder / "rules.acl"
    rules.write_text("\n".join((PACKAGING / name).read_text() for name in files))
    lines = (f"password_file {passwords}", *([f"acl_file {rules}"] if files else []))
    return Broker(folder, *lines, anonymous=False)


def as_user(name):
    return {"user": name, "password": f"of {name}"}


def heard(broker, user):
    """Topics that a user hears who asks for everything, after the others have said something, retained and not."""
    topics = {
        "zigbee2mqtt": ("raw/lab/co2", "disguised/forged/co2"),
        "presence": ("private/lab/occupancy",),
        "understudy": ("disguised/lab/co2", "raw/forged/co2"),
    }
    clients = {name: Connection(broker.port, name, **as_user(name)) for name in topics}
    for name, said in topics.items():
        for topic in said:
            clients[name].publish(topic, b"1", retain=True)
    time.sleep(0.2)
    with Listener(broker.port, "#", "raw/#", "private/#", "raw/lab/co2", "disguised/#", **as_user(user)) as listener:
        for name, said in topics.items():
            for topic in said:
                clients[name].publish(topic, b"2")
        own = {"understudy": "raw/lab/co2", "zigbee2mqtt": None}.get(user, "disguised/lab/co2")
        if own:
            wait_until(lambda: listener.by_topic[own], 5.0, f"{own} for {user}")
        time.sleep(0.3)
        found = {publication.topic for publication in listener.publications}
    for client in clients.values():
        client.close()
    return found


@pytest.mark.gateway(seconds=10, reason="a broker for each set of rules")
def test_listeners_never_hear_raw_readings(tmp_path):
    """On one broker with both files, listeners hear disguised readings alone, whatever they ask for; nobody forges."""
    both = ("mosquitto-sensors.acl", "mosquitto-listeners.acl")
    with guarded(tmp_path / "guarded", *both) as broker:
        assert heard(broker, "dashboard") == {"disguised/lab/co2"}
        assert heard(broker, "homeassistant") == {"disguised/lab/co2"}
        assert heard(broker, "understudy") == {"raw/lab/co2", "private/lab/occupancy"}
        assert heard(broker, "zigbee2mqtt") == set()
    with guarded(tmp_path / "open") as broker:  # without the rules the same listener hears everything
        assert {"raw/lab/co2", "private/lab/occupancy"} <= heard(broker, "dashboard")


def test_the_image_runs_what_the_unit_runs():
    """Image and unit start one command, as a user of its own, with ledger and guard in folders of their own."""
    image, unit = ((PACKAGING / name).read_text() for name in ("Dockerfile", "understudy-gateway.service"))
    entry = re.search(r'ENTRYPOINT \["([^"]+)", "([^"]+)"\]\nCMD \["([^"]+)"\]', image)
    assert re.search(r"ExecStart=(.*)", unit)[1].split() == list(entry.groups())
    assert re.search(r"^USER understudy$", image, re.M)
    assert "DynamicUser=yes" in unit
    for folder in ("understudy", "understudy-guard"):
        assert f'"/var/lib/{folder}"' in image
        assert folder in re.search(r"StateDirectory=(.*)", unit)[1].split()
