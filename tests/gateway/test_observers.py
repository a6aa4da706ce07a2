"""What somebody learns who hears everything that a gateway publishes: when, how long, how often, in which form.

The design gives away nothing (leakage 0), so that whatever a publication tells of the private value is a fault of the
service. The adversary is trained on labelled rooms and judged on others.
"""

import datetime as dt
import json
import time
from collections import defaultdict

import gateway_process as g
import gateway_runner as runner
import numpy as np
import pytest
from mqtt_broker import two_brokers, wait_until
from mqtt_traffic import Connection, Listener, send
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold

ROOMS, SLOTS, PACE = 40, 50, 0.15
"""Rooms, readings of each, and seconds from one to the next."""
LIMIT = 4.89
"""Standard deviations that chance passes once in a million times, on either side."""


def captured(folder, twin=None):
    """Readings, and what a listener heard, of rooms whose sensors send on a fixed schedule."""
    with two_brokers(folder) as (inner, outer):
        site = g.Site(folder / "site", inner, outer, leakage=0.0)
        readings = g.traffic(g.rooms_of(ROOMS), SLOTS, seed=5)
        command = () if twin is None else (runner.__file__, "received", "0", "1", "1", "--twin", twin)
        rng = np.random.default_rng(8)
        with (
            Listener(outer.port, "disguised/#") as listener,
            Connection(inner.port, "sensors") as sensors,
            g.GatewayProcess(site, *command) as gateway,
        ):
            gateway.start()
            begun = time.monotonic()
            for slot in range(SLOTS):
                time.sleep(max(begun + slot * PACE - time.monotonic(), 0.0))
                for room in rng.permutation(ROOMS):  # an order that does not know the private values
                    name = g.rooms_of(ROOMS)[room]
                    send(sensors, name, readings[name][slot])
            heard = g.Outputs(listener, readings)
            wait_until(lambda: sum(len(heard(name)) for name in readings) == ROOMS * SLOTS, 20.0, "the outputs")
            g.settle(listener)
            assert gateway.stop() == 0
        return readings, listener.publications


def features(readings, publications):
    """For each room and slot what was heard from its publication on to that of the next slot."""
    times = {row.time.isoformat(): slot for slot, row in enumerate(next(iter(readings.values())))}
    heard = defaultdict(list)
    for publication in publications:
        told = json.loads(publication.payload)
        slot = times[told["time"].replace("Z", "+00:00")]
        heard[publication.topic.split("/")[1], slot].append((publication, told))
    found = np.full((ROOMS, SLOTS, 9), np.nan)
    for room, name in enumerate(readings):
        for slot in range(SLOTS):
            (first, told), *_ = again = heard[name, slot]
            found[room, slot] = (
                first.at, len(first.payload), len(again), again[-1][0].at - first.at, told["sequence"] - slot,
                len(first.properties), first.retain, told["co2"], len(first.topic),
            )  # fmt: skip
    found[:, :, 0] -= np.median(found[:, :, 0], axis=0)  # lateness within the slot
    late = np.diff(found[:, :, :1], axis=1, prepend=np.nan)
    before = np.roll(found, 1, axis=1)
    before[:, 0] = np.nan
    return np.concatenate([found, late, before], axis=2)


def evidence(X, labels):
    """How many standard deviations the adversary's guesses on rooms it has not seen are above those of chance."""
    rooms, slots, _ = X.shape
    flat, y, groups = X.reshape(rooms * slots, -1), labels.ravel(), np.repeat(np.arange(rooms), slots)
    guesses = np.empty(rooms * slots)
    for train, test in GroupKFold(5).split(flat, y, groups):
        model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(flat[train], y[train])
        guesses[test] = model.predict_proba(flat[test])[:, 1]
    guesses = guesses.reshape(rooms, slots) - guesses.reshape(rooms, slots).mean(axis=0)
    rng = np.random.default_rng(3)
    chance = [float((guesses * labels[rng.permutation(rooms)]).sum()) for _ in range(2000)]
    return (float((guesses * labels).sum()) - np.mean(chance)) / np.std(chance)


@pytest.mark.gateway(seconds=40, reason="a gateway with 40 rooms, twice, and an adversary who is trained")
def test_publications_tell_nothing_of_the_private_value(tmp_path):
    """Times, lengths, numbers and forms tell neither the value nor its changes; republishing on changes is found."""
    readings, publications = captured(tmp_path / "gateway")
    values = np.array([[row.theta for row in rows] for rows in readings.values()])
    changes = np.roll((np.diff(values, axis=1, prepend=values[:, :1]) != 0).astype(int), -1, axis=1)
    X = features(readings, publications)
    told = {"value": evidence(X, values), "change": evidence(X, changes)}
    readings, publications = captured(tmp_path / "twin", "at once")
    twin = evidence(features(readings, publications), changes)
    print({name: round(found, 2) for name, found in told.items()}, "twin", round(twin, 2))
    assert max(map(abs, told.values())) < LIMIT
    assert twin > LIMIT


def delays(folder, release):
    """Values, and seconds from each slot to its output, where the sensors of occupied rooms are slower than others."""
    period = dt.timedelta(seconds=0.5)
    rooms, slots = g.rooms_of(20), 30
    with two_brokers(folder) as (inner, outer):
        site = g.Site(
            folder / "site", inner, outer, leakage=0.0, period=period, lateness=0.3, more=release,
            theta="value: occupancy, time: time, valid_for: 0.5s",
        )  # fmt: skip
        rows = g.traffic(rooms, slots, seed=6)
        values = np.array([[row.theta for row in rows[name]] for name in rooms])
        with (
            Listener(outer.port, "disguised/#") as listener,
            Connection(inner.port, "sensors") as sensors,
            g.GatewayProcess(site) as gateway,
        ):
            gateway.start()
            offset = time.time() - time.monotonic()
            first = dt.datetime.fromtimestamp(np.ceil(time.time()) + 1, dt.UTC)
            for slot in range(slots):
                at = first + slot * period
                for occupied in (0, 1):
                    time.sleep(max(at.timestamp() + 0.15 * occupied - time.time(), 0.0))
                    for room in np.flatnonzero(values[:, slot] == occupied):
                        send(sensors, rooms[room], rows[rooms[room]][slot]._replace(time=at))
            g.settle(listener, 1.0)
            assert gateway.stop() == 0
        found = np.full((len(rooms), slots, 1), np.nan)
        for publication in listener.publications:
            at = dt.datetime.fromisoformat(json.loads(publication.payload)["time"])
            place = rooms.index(publication.topic.split("/")[1]), round((at - first) / period)
            found[place] = publication.at + offset - at.timestamp()
        return values, found


@pytest.mark.gateway(seconds=50, reason="two gateways, half a minute of readings as time passes")
def test_a_fixed_time_of_release_hides_when_readings_come(tmp_path):
    """Sensors that are slower where somebody is tell it by the times of outputs, but not where these are fixed."""
    values, found = delays(tmp_path / "fixed", "release: 0.4s")
    assert np.isfinite(found).mean() > 0.9
    assert abs(evidence(found, values)) < LIMIT
    values, found = delays(tmp_path / "twin", "")
    assert evidence(found, values) > LIMIT
