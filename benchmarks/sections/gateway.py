"""The gateway between real brokers: what a message costs beside a plain relay, how long it takes, and 1,000 sensors.

Needs Mosquitto. Brokers, gateway and relay are processes of their own; processor time is what the kernel counted for
the process alone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Required, Row, Section, duration

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
PEERS = ROOT / "benchmarks" / "peers"
ROOMS, ROUNDS = 200, 5
RATE = 1000  # messages a second, where latency is measured
BEGIN = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
RELAY, BARE, DURABLE = "plain relay", "gateway without ledger", "gateway"


def run(quick: bool) -> Section:
    """The contenders take turns; each run has brokers and a ledger of its own."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # brokers, gateway and client beside each other
    messages, rounds = (4_000, 2) if quick else (20_000, ROUNDS)
    names = (RELAY, BARE, DURABLE)
    cpu: dict[str, list[float]] = {name: [] for name in names}
    wait: dict[str, list[float]] = {name: [] for name in names}
    fsync: list[float] = []
    for _ in range(rounds):
        for name in names:
            with contender(name) as it:
                cpu[name].append(it.cost(messages))
            with contender(name) as it:
                wait[name].append(it.latency(2 if quick else 5))
        fsync.append(fsync_seconds())
    rows = []
    for name, bound in ((RELAY, None), (BARE, 1.3), (DURABLE, 1.75)):
        ratio = statistics.median(cpu[name]) / statistics.median(cpu[RELAY])
        required = None if bound is None else Required(bound, at_most=True)
        rows.append(_row(f"{name}: CPU a message", messages, cpu[name], ratio, required))
    for name in names:
        median, relay = statistics.median(wait[name]), statistics.median(wait[RELAY])
        allowed = {RELAY: None, BARE: 2.0, DURABLE: (relay + 2 * statistics.median(fsync)) / relay}[name]
        required = None if allowed is None else Required(round(allowed, 2), at_most=True)
        rows.append(_row(f"{name}: p50 from sensor to listener", RATE, wait[name], median / relay, required))
    rows.append(_row("fsync of a page", 1, fsync, None, None))
    rows += _thousand(5 if quick else 20)
    rows += _flooded(5 if quick else 15)
    return Section(
        "Gateway: between two Mosquittos",
        "relay or unit in the row",
        rows,
        [
            "The relay has the same client, QoS 1 on both sides, and acknowledges a message when the other broker has "
            f"it; it parses nothing. CPU: {messages:,} messages of {ROOMS} rooms at full speed; median of {rounds}.",
            f"Latency: at {RATE:,} messages a second, from the call that publishes to the arrival at a listener, "
            "both in one process. The durable gateway may take two fsyncs of the same run more than the relay.",
            "1,000 sensors at 1 Hz: share of a core and memory; up: from the start of the process to /readyz, with all "
            "rooms known. One sensor at 100 times its rate: p99 of the 19 others with it, against without.",
        ],
    )


def _row(name: str, samples: int, seconds: list[float], ratio: float | None, required: Required | None) -> Row:
    best, median = duration(min(seconds)), duration(statistics.median(seconds))
    return Row(name, f"{samples:,}", best, median, ratio, required)


class Running:
    """A contender between two brokers, and both ends of it."""

    def __init__(self, inner: Any, outer: Any, process: subprocess.Popen[bytes], site: Any) -> None:
        from mqtt_traffic import Connection, Listener, as_json

        self.process, self.site, self._json = process, site, as_json("co2")
        self.sensors, self.listener = Connection(inner.port, "sensors"), Listener(outer.port, "disguised/#")
        self._following: dict[int, int] = defaultdict(lambda: 1)  # the next reading of each room

    def cpu(self) -> float:
        """Seconds of processor time of the contender so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, room: int, number: int) -> tuple[str, float]:
        """One reading; the topic of its output and when it was sent."""
        at = time.monotonic()
        payload = self._json(BEGIN + dt.timedelta(minutes=number), 100.0 + (number * 7 + room) % 11 / 7.0)
        self.sensors.publish(f"raw/room{room:04}/co2", payload)
        return f"disguised/room{room:04}/co2", at

    def until(self, count: int) -> None:
        """Wait until so many outputs have been heard."""
        from mqtt_broker import wait_until

        wait_until(lambda: len(self.listener.publications) >= count, 120.0, "the outputs")

    def warm(self, rooms: int) -> None:
        """One reading of each room: rooms are admitted, values known, draws made."""
        for room in range(rooms):
            said = f'{{"time": "{BEGIN.isoformat()}", "occupancy": {room % 2}}}'
            self.sensors.publish(f"private/room{room:04}/occupancy", said)
        for room in range(rooms):
            self.send(room, 0)
        self.until(rooms)

    def cost(self, messages: int) -> float:
        """Seconds of processor time a message, as fast as they go."""
        self.warm(ROOMS)
        before, heard = self.cpu(), len(self.listener.publications)
        for number in range(messages):
            self.send(number % ROOMS, 1 + number // ROOMS)
        self.until(heard + messages)
        return (self.cpu() - before) / messages

    def latency(self, seconds: float) -> float:
        """The median time from sensor to listener at a steady rate."""
        self.warm(ROOMS)
        return statistics.median(self.times(range(ROOMS), RATE / ROOMS, seconds)[0])

    def times(self, rooms: range, rate: float, seconds: float, flood: int | None = None) -> tuple[list[float], float]:
        """Times to the listener of readings at so many a second of each room; `flood` has 100 times the rate."""
        step = 1 / (rate * len(rooms))
        sent: dict[str, list[float]] = {}
        first = {name: len(heard) for name, heard in self.listener.by_topic.items()}
        begun, number, extra = time.monotonic(), 0, 0
        following = self._following
        while (now := time.monotonic()) < begun + seconds:
            while begun + number * step <= now:
                room = rooms[number % len(rooms)]
                topic, at = self.send(room, following[room])
                following[room] += 1
                sent.setdefault(topic, []).append(at)
                number += 1
            while flood is not None and begun + extra / (100 * rate) <= now:
                self.send(flood, following[flood])
                following[flood] += 1
                extra += 1
            time.sleep(0.0005)
        spent = time.monotonic() - begun
        self.until(sum(first.values()) + number + extra)
        times = [
            heard.at - at
            for topic, whens in sent.items()
            for at, heard in zip(whens, self.listener.by_topic[topic][first.get(topic, 0) :], strict=False)
        ]
        return times, spent

    def close(self) -> None:
        """Both ends hang up."""
        self.sensors.close()
        self.listener.close()


@contextlib.contextmanager
def contender(name: str) -> Iterator[Running]:
    """A contender that runs, between brokers of its own."""
    from gateway_process import GatewayProcess, Site
    from mqtt_broker import two_brokers

    with tempfile.TemporaryDirectory() as folder, two_brokers(Path(folder)) as (inner, outer):
        theta = "value: occupancy, time: time, valid_for: 3650d"
        site = Site(Path(folder, "site"), inner, outer, theta=theta, policy="stop")
        if name == RELAY:
            command = [sys.executable, str(PEERS / "mqtt_relay.py"), str(inner.port), str(outer.port)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                running = Running(inner, outer, process, site)
                try:
                    yield running
                finally:
                    running.close()
                    process.terminate()
            return
        runner = (str(PEERS / "gateway_without_ledger.py"),) if name == BARE else ()
        with GatewayProcess(site, *runner) as gateway:
            gateway.start()
            running = Running(inner, outer, gateway.process, site)
            try:
                yield running
            finally:
                running.close()
                gateway.stop()


def fsync_seconds(count: int = 50) -> float:
    """The median time of an fsync after a page was written, where the ledgers are."""
    with tempfile.NamedTemporaryFile() as file:
        seconds = []
        for _ in range(count):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)


def _thousand(seconds: float) -> list[Row]:
    """1,000 sensors at 1 Hz: share of a core, memory, and how long a start takes."""
    from gateway_process import GatewayProcess, Site
    from mqtt_broker import two_brokers

    with tempfile.TemporaryDirectory() as folder, two_brokers(Path(folder)) as (inner, outer):
        theta = "value: occupancy, time: time, valid_for: 3650d"
        site = Site(Path(folder, "site"), inner, outer, theta=theta, policy="stop")
        with GatewayProcess(site) as gateway:
            gateway.start()
            running = Running(inner, outer, gateway.process, site)  # type: ignore[arg-type]  # the peer has the same interface
            running.warm(1000)
            before = running.cpu()
            _, spent = running.times(range(1000), 1.0, seconds)
            share, memory = (running.cpu() - before) / spent, gateway.resident("VmHWM") / 2**20
            running.close()
            gateway.stop()
            start = time.monotonic()
            gateway.start()
            up = time.monotonic() - start
            gateway.stop()
    name = "1,000 sensors at 1 Hz"
    return [
        Row(f"{name}: share of a core", "1,000", "", f"{share:.2f}", share, Required(0.5, at_most=True)),
        Row(f"{name}: memory in MB", "1,000", "", f"{memory:.0f}", memory, Required(300, at_most=True)),
        Row(f"{name}: seconds until it is up", "1,000", "", f"{up:.2f}", up, Required(5, at_most=True)),
    ]


def _flooded(seconds: float) -> list[Row]:
    """19 sensors at 2 Hz beside one at 200: what it does to the others' slowest outputs."""
    with contender(DURABLE) as it:
        it.warm(ROOMS)
        alone, _ = it.times(range(19), 2.0, seconds)
        beside, _ = it.times(range(19), 2.0, seconds, flood=19)

    def slowest(times: list[float]) -> float:
        return statistics.quantiles(times, n=100)[98]

    ratio = slowest(beside) / slowest(alone)
    name = "one sensor at 100 times its rate: p99 of the others"
    return [
        Row(name, f"{len(beside):,}", duration(slowest(alone)), duration(slowest(beside)), ratio, Required(2, True))
    ]
