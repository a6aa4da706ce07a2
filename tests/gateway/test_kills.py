"""A gateway that is killed at any moment publishes each reading's one value, which is that of an uninterrupted run.

Sensors send each reading until they see an output. `UNDERSTUDY_SOAK=1` (`make soak`) makes it ten times as long.
"""

import datetime as dt
import json
import os
import random
import time

import gateway_process as g
import gateway_runner as runner
import pytest
from mqtt_broker import two_brokers, wait_until
from mqtt_traffic import Connection, Listener, Sensors, send

SOAK = os.environ.get("UNDERSTUDY_SOAK") == "1"


def disturbed(site, gateway, listener, readings, events, seconds, window=4):
    """Send all readings while things happen: `events` are shares of the outputs with what happens there."""
    outputs = g.Outputs(listener, readings)
    left = sorted(events, key=lambda event: event[0])

    def moments(share):
        while left and share >= left[0][0]:
            left.pop(0)[1]()

    sensors = Sensors(site.inner.port, readings, outputs, window=window)
    sensors.run(seconds, moments)
    assert not left
    g.settle(listener)
    assert gateway.stop() == 0
    return sensors


def test_a_killed_gateway_publishes_each_value_once(tmp_path):
    """Three kills in 200 readings of five sensors: one value a reading, repeated byte for byte, that of the oracle."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer)
        readings = g.traffic(g.rooms_of(5), 40)
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site) as gateway:
            gateway.start()
            events = [(share, gateway.restart) for share in (0.2, 0.5, 0.8)]
            disturbed(site, gateway, listener, readings, events, 60.0)
            found = g.check(site, listener, readings)
    assert gateway.starts == 4
    assert found.outputs == 200


@pytest.mark.gateway(seconds=120, reason="16 kills and half a minute of silence, with real brokers")
def test_nothing_is_lost_or_changed_by_kills(tmp_path, record_property):
    """SIGKILL of the gateway and of either broker, and a gateway that is stopped for half a minute."""
    kills, broker_kills, each = (100, 20, 1000) if SOAK else (10, 3, 100)
    rng = random.Random(7)  # noqa: S311  # moments of a test
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer)
        readings = g.traffic(g.rooms_of(20), each)
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site) as gateway:
            gateway.start()

            def stopped():
                gateway.signal(19)
                time.sleep(30.0)
                gateway.signal(18)

            events = [(rng.random() * 0.98, gateway.restart) for _ in range(kills)]
            events += [
                (rng.random() * 0.98, lambda b=b: b.restart(0.2)) for b in (inner, outer) for _ in range(broker_kills)
            ]
            events += [(0.5, stopped)]
            sensors = disturbed(site, gateway, listener, readings, events, 3000.0 if SOAK else 240.0)
            found = g.check(site, listener, readings)
    assert gateway.starts == kills + 1
    assert inner.kills == outer.kills == broker_kills
    assert found.outputs == 20 * each
    again = found.publications - found.outputs
    record_property("sent again by sensors", sensors.resent)  # what brokers lost when they were killed is in here
    record_property("published again", again)
    print(f"{found.outputs} outputs, {again} published again, {sensors.resent} readings sent again by their sensors")


RUNNER = runner.__file__


@pytest.mark.gateway(seconds=10, reason="20 kills at each of eight points, with real brokers")
@pytest.mark.parametrize(("point", "most"), [(point, 20 if point == "received" else 2) for point in runner.POINTS])
def test_a_gateway_killed_between_two_steps_loses_nothing(tmp_path, point, most):
    """20 kills at one step, under sensors that send each reading once: every reading has its value all the same."""
    with two_brokers(tmp_path) as (inner, outer):
        site = g.Site(tmp_path / "site", inner, outer)
        readings = g.traffic(g.rooms_of(6), 60)
        command = (RUNNER, point, "20", "1", str(most))
        with Listener(outer.port, "disguised/#") as listener, g.GatewayProcess(site, *command) as gateway:
            gateway.start()
            Sensors(inner.port, readings, g.Outputs(listener, readings), window=2, again=1e9).run(90.0)
            wait_until(lambda: gateway.log.read_text().count(f"killed at {point}") == 20, 1.0, "20 kills")
            g.settle(listener)
            assert gateway.stop() == 0
            found = g.check(site, listener, readings)
    assert found.outputs == 360


def outputs_after_a_kill(folder, point, passage, twin, order):
    """What is published for three readings of a room: some before a kill at a passage of a step, others after it."""
    with two_brokers(folder) as (inner, outer):
        site = g.Site(folder / "site", inner, outer, lateness=2.0)
        rows = g.traffic(["lab"], 3)["lab"]
        command = (RUNNER, point, "1", passage, passage, *(["--twin", twin] if twin else []))
        with (
            Listener(outer.port, "disguised/#") as listener,
            Connection(inner.port, "sensor") as sensor,
            g.GatewayProcess(site, *command) as gateway,
        ):
            gateway.start()
            for number in order[0]:
                send(sensor, "lab", rows[number])
            wait_until(lambda: f"killed at {point}" in gateway.log.read_text(), 10.0, "a kill")
            wait_until(lambda: site.ready, 10.0, "the next gateway")
            for number in order[1]:
                send(sensor, "lab", rows[number])
            g.settle(listener, 2.5)
            assert gateway.stop() == 0
        return {
            number: {
                publication.payload  # with the number of the output
                for publication in listener.publications
                if dt.datetime.fromisoformat(json.loads(publication.payload)["time"]) == row.time
            }
            for number, row in enumerate(rows)
        }


@pytest.mark.gateway(seconds=10, reason="a kill of a gateway, and of one that publishes too early")
def test_a_reading_that_comes_after_a_kill_changes_no_output(tmp_path):
    """Reading 1 comes after 2 was published and the gateway killed: it is late. Published early, there are two of 2."""
    order = (0, 2), (1, 2)
    found = outputs_after_a_kill(tmp_path / "gateway", "published", "2", None, order)
    assert [len(outputs) for outputs in found.values()] == [1, 0, 1]
    found = outputs_after_a_kill(tmp_path / "twin", "published", "3", "early publisher", order)
    assert len(found[2]) == 2


@pytest.mark.gateway(seconds=20, reason="kills of gateways that acknowledge or mark too early")
@pytest.mark.parametrize(("point", "twin"), [("acknowledged", "early acknowledger"), ("publishing", "early marker")])
def test_a_reading_that_is_sent_once_has_its_output(tmp_path, point, twin):
    """After a kill each reading has an output, though it is not sent again; acknowledged or marked early, not."""
    order = (0, 1, 2), ()
    found = outputs_after_a_kill(tmp_path / "gateway", point, "2", None, order)
    assert [len(values) for values in found.values()] == [1, 1, 1]
    found = outputs_after_a_kill(tmp_path / "twin", point, "2", twin, order)
    assert min(len(values) for values in found.values()) == 0
