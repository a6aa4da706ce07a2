"""A gateway that is killed at any moment publishes each reading's one value, which is that of an uninterrupted run.

Sensors send each reading until they see an output. `UNDERSTUDY_SOAK=1` (`make soak`) makes it ten times as long.
"""

import os
import random
import time

import gateway_process as g
import pytest
from mqtt_broker import two_brokers
from mqtt_traffic import Listener, Sensors

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
