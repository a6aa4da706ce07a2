"""What the gateway announces to Home Assistant has the keys that Home Assistant publishes, and tells no occupancy."""

import json
from pathlib import Path

import gateway_process as g
import pytest
from mqtt_broker import two_brokers, wait_until
from mqtt_traffic import Connection, Listener, send

KNOWN = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "homeassistant_discovery.json").read_text(encoding="utf-8")
)
HOME = "homeassistant: {unit: ppm, device_class: carbon_dioxide}"


class UnknownKeyError(ValueError):
    """A key that Home Assistant does not know there."""


def written_out(part, payload):
    """A payload with its full keys; refuses one that is neither an abbreviation nor a full key of this part."""
    keys = KNOWN[part]
    unknown = [key for key in payload if key not in keys and key not in keys.values()]
    if unknown:
        raise UnknownKeyError(f"{part} has the unknown keys {unknown}")
    found = {keys.get(key, key): value for key, value in payload.items()}
    missing = [key for key in KNOWN["required"].get(part, ()) if key not in found]
    if missing:
        raise UnknownKeyError(f"{part} lacks {missing}")
    return found


def announced(payload):
    """A whole discovery payload, written out."""
    root = written_out("root", payload)
    root["device"], root["origin"] = written_out("device", root["device"]), written_out("origin", root["origin"])
    root["components"] = {
        name: written_out("sensor", each | _shared(root)) for name, each in root["components"].items()
    }
    return root


def _shared(root):
    """What components take from the device."""
    return {key: root[key] for key in ("state_topic",) if key in root}


@pytest.mark.gateway(seconds=5, reason="real brokers, and a gateway in a process of its own")
def test_discovery_is_what_home_assistant_reads(tmp_path):
    """A retained announcement a room, with known keys; names say disguised; availability follows the gateway."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer, top=HOME)
        readings = g.traffic(["lab"], 2)
        with Connection(inner.port, "sensor") as sensor, g.GatewayProcess(site) as gateway:
            gateway.start()
            for row in readings["lab"]:
                send(sensor, "lab", row)
            with Listener(outer.port) as late:  # after it was said: what is retained must do
                wait_until(lambda: any("/config" in topic for topic in late.by_topic), 5.0, "discovery")
                topic = next(topic for topic in late.by_topic if topic.endswith("/config"))
                first = late.by_topic[topic][0]
                assert first.retain
                assert topic.split("/")[:2] == ["homeassistant", "device"]
                root = announced(json.loads(first.payload))
                with Connection(outer.port, "homeassistant") as home:
                    home.publish("homeassistant/status", "online")
                    wait_until(lambda: len(late.by_topic[topic]) > 1, 5.0, "discovery, again")
                assert late.by_topic[topic][-1].payload == first.payload
                [(_, sensor_)] = root["components"].items()
                assert sensor_["platform"] == "sensor"
                assert sensor_["state_topic"] == "disguised/lab/co2"
                assert "disguised" in sensor_["name"]
                assert "disguised" in root["device"]["name"]
                assert sensor_["device_class"] not in KNOWN["occupancy"]
                status = root["availability_topic"]
                wait_until(lambda: late.by_topic[status], 5.0, "availability")
                assert late.by_topic[status][-1].payload == root.get("payload_available", "online").encode()
                gateway.kill()  # the broker says so, by the last will
                gone = root.get("payload_not_available", "offline").encode()
                wait_until(lambda: late.by_topic[status][-1].payload == gone, 20.0, "the last will")


def test_a_payload_that_home_assistant_does_not_know_is_found():
    """A misspelt key, a missing origin, a component without an identity: each is refused."""
    good = {
        "dev": {"ids": ["a"]}, "o": {"name": "understudy"}, "avty_t": "status",
        "cmps": {"co2": {"p": "sensor", "uniq_id": "a_co2", "stat_t": "disguised/lab"}},
    }  # fmt: skip
    assert announced(good)["components"]["co2"]["unique_id"] == "a_co2"
    component = good["cmps"]["co2"]
    bad = (
        {**good, "components_": {}},
        {key: value for key, value in good.items() if key != "o"},
        {**good, "cmps": {"co2": {key: value for key, value in component.items() if key != "uniq_id"}}},
        {**good, "cmps": {"co2": {**component, "stat_topic": "disguised/lab"}}},
    )
    for payload in bad:
        with pytest.raises(UnknownKeyError):
            announced(payload)
