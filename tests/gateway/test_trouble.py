"""What a gateway does in trouble that is not its own: a room that goes wrong, a flood, a clock, a second gateway."""

import datetime as dt
import json
import subprocess
import time

import gateway_process as g
import gateway_runner as runner
import pytest
from mqtt_broker import two_brokers, wait_until
from mqtt_traffic import Connection, Listener, Sensors, as_json, send

pytestmark = pytest.mark.gateway(seconds=20, reason="real brokers, and a gateway in a process of its own")


def test_a_room_that_goes_wrong_takes_no_other_along(tmp_path):
    """One of 100 rooms sends whole numbers where full digits are declared, and stops; the others have all outputs."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer)
        readings = g.traffic(g.rooms_of(100), 70)
        wrong = "room0042"
        readings[wrong] = [row._replace(value=float(round(row.value))) for row in readings[wrong]]
        others = {name: rows for name, rows in readings.items() if name != wrong}
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site) as gateway:
            gateway.start()
            seen = g.Outputs(listener, readings)
            everything = dict(readings, **{wrong: readings[wrong][:63]})  # up to the 64th, which stops the room
            Sensors(inner.port, everything, seen, window=16).run(60.0)
            with Connection(inner.port, "more") as sensor:
                for row in readings[wrong][63:]:
                    send(sensor, wrong, row)
                wait_until(lambda: coarse(site), 10.0, "a refusal")
            g.settle(listener)
            assert gateway.stop() == 0
            oracle = g.uninterrupted(site, others, g.admitted(site)).outputs
        heard = [p for p in listener.publications if f"/{wrong}/" not in p.topic]
        listener.publications[:] = heard
        g.check_publications(listener, oracle)
        assert len({p.payload for p in listener.by_topic[f"disguised/{wrong}/co2"]}) == 63


def coarse(site):
    """The line of the metrics that counts readings on a coarse grid."""
    return "".join(line for line in site.get("metrics")[1].splitlines() if 'rule="coarse"' in line)


def test_a_flood_waits_in_the_broker(tmp_path):
    """50,000 readings that came while the gateway was away leave it in order; it never takes 300 MB."""
    rooms, each = g.rooms_of(50), 1000
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer, theta="value: occupancy, time: time, valid_for: 1d")
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site) as gateway:
            gateway.start()  # it subscribes; its session stays
            assert gateway.stop() == 0
            readings = {
                name: [r._replace(theta=rows[0].theta) for r in rows] for name, rows in g.traffic(rooms, each).items()
            }
            with Connection(inner.port, "sensors") as sensors:
                for name, rows in readings.items():
                    sensors.publish(f"private/{name}/occupancy", as_json("occupancy")(rows[0].time, rows[0].theta))
                for number in range(each):
                    for name in rooms:
                        row = readings[name][number]
                        sensors.publish(f"raw/{name}/co2", as_json("co2")(row.time, row.value))
                wait_until(lambda: len(sensors.acknowledged) >= 50_050, 60.0, "the broker")
            gateway.start(wait=False)
            wait_until(lambda: len(listener.publications) >= 50_000, 120.0, "the outputs", 0.1)
            most = gateway.resident("VmHWM")
            assert gateway.stop() == 0
            g.check(site, listener, readings)
    print(f"{most / 2**20:.0f} MB at most")
    assert most < 300 * 2**20


def test_a_clock_that_is_set_back_gives_no_second_value(tmp_path):
    """Readings without a time, and a clock that is set back by three seconds: nothing leaves until it has caught up."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(
            tmp_path / "site", inner, outer, lateness=1.0, period=dt.timedelta(milliseconds=500), sensor="value: co2",
            theta="value: occupancy, valid_for: 1d",
        )  # fmt: skip
        command = (runner.__file__, "received", "0", "1", "1", "--twin", "clock set back")
        with (
            Listener(outer.port, "disguised/#") as listener,
            Connection(inner.port, "sensor") as sensor,
            g.GatewayProcess(site, *command) as gateway,
        ):
            gateway.start()
            rows = iter(g.traffic(["lab"], 100)["lab"])
            sensor.publish("private/lab/occupancy", '{"occupancy": 1}')
            end = time.monotonic() + 12.0
            while time.monotonic() < end:
                sensor.publish("raw/lab/co2", json.dumps({"co2": next(rows).value}))
                time.sleep(0.25)
            g.settle(listener, 1.5)
            assert gateway.stop() == 0
        told = [json.loads(publication.payload) for publication in listener.publications]
        times = [dt.datetime.fromisoformat(each["time"]) for each in told]
        assert times == sorted(set(times))
        assert [each["sequence"] for each in told] == list(range(1, len(told) + 1))
        pauses = [b.at - a.at for a, b in zip(listener.publications, listener.publications[1:], strict=False)]
        assert max(pauses) > 2.0  # the clock had to catch up
        assert len(times) > 10


def test_a_second_gateway_on_one_ledger_is_refused(tmp_path):
    """The second one ends with status 1 and says why; the first goes on and loses nothing."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer)
        readings = g.traffic(g.rooms_of(3), 40)
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site) as gateway:
            gateway.start()
            seen = g.Outputs(listener, readings)
            left = [0.3, 0.6]

            def moments(share):
                while left and share > left[0]:
                    left.pop(0)
                    second = subprocess.run(
                        [g.COMMAND, "gateway", str(site.config)],
                        capture_output=True,
                        text=True,
                        timeout=30,
                        check=False,
                    )
                    assert second.returncode == 1
                    assert "is in use by process" in second.stderr

            Sensors(inner.port, readings, seen).run(60.0, moments)
            assert not left
            g.settle(listener)
            assert gateway.stop() == 0
            assert g.check(site, listener, readings).publications == 120
