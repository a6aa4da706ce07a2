"""A gateway in a process of its own, between two real brokers; and what must be true of what came out.

`Site(folder)` is an installation: design, master key, configuration. `GatewayProcess` runs the installed command, or
a runner of `gateway_runner`, and may be killed and stopped. `uninterrupted` is the oracle: the same readings through a
`us.Fleet` with the same key, in one go, without broker, outbox or restart. `check` holds the publications, the ledger
and the oracle together.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mqtt_broker import Broker, free_port, wait_until
from mqtt_traffic import Listener, Reading

import understudy as us
from understudy.apply.binding import forms_of
from understudy.stream import inspection

PERIOD, EPOCH = dt.timedelta(minutes=1), dt.timedelta(minutes=30)
BEGIN = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
COMMAND = str(Path(sys.executable).with_name("understudy"))


def room(people):
    """The paper's room."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def rooms_of(count):
    """Names of so many rooms."""
    return [f"room{i:04}" for i in range(count)]


def traffic(rooms, each, seed=1) -> dict[str, list[Reading]]:
    """Readings of rooms whose private value changes now and then."""
    rng = np.random.default_rng(seed)
    family = us.Family(room, values=[0, 1])
    found = {}
    for name in rooms:
        thetas = (np.cumsum(rng.random(each) < 0.1) + rng.integers(2)) % 2
        Y = us.sample(family.along(thetas.tolist()), each, rng=rng).ravel()
        found[name] = [
            Reading(BEGIN + k * PERIOD, int(theta), float(y))
            for k, (theta, y) in enumerate(zip(thetas, Y, strict=True))
        ]
    return found


@dataclass
class Site:
    """What an installation has on disk, beside its brokers."""

    folder: Path
    inner: Broker
    outer: Broker
    lateness: float = 20.0
    top: str = ""  # further lines at the top level
    budget: str = "{total: 40.0}"
    period: dt.timedelta = PERIOD
    sensor: str = "value: co2, time: time"  # where the reading stands in a message
    theta: str = "value: occupancy, time: time, valid_for: 60s"
    admit: int = 1000
    policy: str = "pass"  # about drift
    leakage: float = 0.3
    more: str = ""  # another line of the rooms
    health: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.design = us.design(us.Family(room, values=[0, 1]), leakage=self.leakage, horizon=50, distortion="mae")
        self.design.save(self.folder / "room.json")
        us.MasterKey.new().save(self.folder / "master.key")
        self.ledger = self.folder / "gateway.ledger"
        self.config = self.folder / "gateway.yaml"
        self.write()

    def write(self) -> None:
        """The configuration."""
        self.config.write_text(
            f"""\
ledger: {self.ledger}
key: {self.folder / "master.key"}
rollback_guard: {self.folder / "guard"}
health: 127.0.0.1:{self.health}
{self.top}
in:
  server: {self.inner.server}
  keepalive: 10s
out:
  server: {self.outer.server}
  topic: disguised/{{room}}/co2
  keepalive: 10s
rooms:
  offices:
    design: room.json
    period: {self.period.total_seconds():g}s
    epoch: {EPOCH.total_seconds():g}s
    lateness: {self.lateness}s
    admit: {self.admit}
    on_drift: {self.policy}
    {self.more}
    budget: {self.budget}
    sensors: [{{topic: raw/+/co2, name: co2, {self.sensor}}}]
    theta: {{topic: private/+/occupancy, {self.theta}}}
""",
            encoding="utf-8",
        )

    def fleet(self, ledger: us.Ledger) -> us.Fleet:
        """The fleet of its rooms, in its ledger or in another."""
        key, design = us.MasterKey.read(self.folder / "master.key"), us.load_design(self.folder / "room.json")
        return us.Fleet(design, ledger, "room", key=key, period=PERIOD, epoch=EPOCH, total=40.0)

    def get(self, page: str) -> tuple[int, str]:
        """Status and text of a page of its health."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/{page}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @property
    def ready(self) -> bool:
        """Whether it takes readings and gives outputs."""
        return self.get("readyz")[0] == 200


class GatewayProcess:
    """The installed command, or a runner, in a process group of its own."""

    def __init__(self, site: Site, *runner: str) -> None:
        self.site, self.runner, self.starts = site, runner, 0
        self.log = site.folder / "gateway.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> GatewayProcess:
        """Start it; and wait until it is ready."""
        support = str(Path(__file__).parent)
        path = os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, *self.runner] if self.runner else [COMMAND, "gateway"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.site.config)],
                stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        self.starts += 1
        if wait:
            wait_until(lambda: self.site.ready or not self.running, 30.0, "the gateway", 0.05)
            if not self.running:
                raise RuntimeError(f"the gateway has ended: {self.log.read_text(encoding='utf-8')[-2000:]}")
        return self

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        """Send its group a signal."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        if self.running:
            self.signal(signal.SIGKILL)
        self.process.wait(10)

    def restart(self) -> None:
        """Kill it, and start it again without waiting for it."""
        self.kill()
        self.start(wait=False)

    def stop(self, seconds: float = 15.0) -> int:
        """SIGTERM: it drains, and ends; its exit status."""
        assert self.process is not None
        if self.running:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def resident(self, what: str = "VmRSS") -> int:
        """Its memory in bytes (`VmHWM`: the most so far)."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith(what + ":")).split()[1]) * 1024

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.signal(signal.SIGCONT)
            self.kill()


# What came out --------------------------------------------------------------------------------------------


def key_of(time: dt.datetime) -> int:
    """Nanoseconds since 1970."""
    since = time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


class Outputs:
    """Outputs as a listener has them, by room and number of the reading."""

    def __init__(self, listener: Listener, readings: Mapping[str, Sequence[Reading]]) -> None:
        self._listener, self._read = listener, dict.fromkeys(readings, 0)
        self._numbers = {
            name: {row.time.isoformat(): number for number, row in enumerate(rows)} for name, rows in readings.items()
        }
        self.there: dict[str, set[int]] = {name: set() for name in readings}

    def __call__(self, room: str) -> set[int]:
        """The numbers of the readings of a room whose output was seen."""
        listed = self._listener.by_topic[f"disguised/{room}/co2"]
        for publication in listed[self._read[room] :]:
            time = dt.datetime.fromisoformat(json.loads(publication.payload)["time"])
            self.there[room].add(self._numbers[room][time.isoformat()])
            self._read[room] += 1
        return self.there[room]


@dataclass(frozen=True)
class Undisturbed:
    """What the oracle gives: outputs by room and time, as they are written; decisions; charges by room."""

    outputs: dict[tuple[str, int], str]
    decisions: list[tuple]
    spent: dict[str, float]


_DECISIONS = "SELECT room, tick, generation, source, draw, held, micronats FROM decisions WHERE fleet = 1 ORDER BY 1, 2"


def uninterrupted(site: Site, readings: Mapping[str, Sequence[Reading]], rooms: Sequence[str]) -> Undisturbed:
    """The same readings through a fleet with the same key, in the order of time; `rooms` in the order of the ledger."""
    folder = site.folder / "oracle"
    folder.mkdir()
    rows = sorted((row.time, name, row.theta, row.value) for name, listed in readings.items() for row in listed)
    names = [name for _, name, _, _ in rows]
    keys = np.array([key_of(time) for time, *_ in rows]).view("datetime64[ns]")
    with us.Ledger(folder / "ledger", rollback_guard=folder / "guard") as ledger:
        fleet = site.fleet(ledger)
        fleet.admit(rooms)
        found = fleet.outcome(names, keys, np.array([row[3] for row in rows]), theta=[row[2] for row in rows])
        assert set(found.counts) == {"taken"}
        texts = forms_of(us.load_design(site.folder / "room.json"))[0].texts(found.outputs)
        outputs = dict(zip(zip(names, keys.view(np.int64).tolist(), strict=True), texts, strict=True))
        spent = {name: fleet.spent(name) for name in rooms}
    with closing(sqlite3.connect(folder / "ledger")) as db:
        return Undisturbed(outputs, db.execute(_DECISIONS).fetchall(), spent)


@dataclass(frozen=True)
class Found:
    """What a run has shown, in counts."""

    outputs: int
    publications: int
    most: int


def check_publications(listener: Listener, outputs: Mapping[tuple[str, int], str]) -> Found:
    """Each reading has one value, which is the oracle's; what was published again is the same, byte for byte."""
    said = defaultdict(set)
    times = defaultdict(int)
    for publication in listener.publications:
        told = json.loads(publication.payload, parse_float=str)
        place = publication.topic.split("/")[1], key_of(dt.datetime.fromisoformat(told["time"]))
        said[place].add(publication.said)
        times[place] += 1
        assert told["disguised"] is True, "an output without its mark"
        assert place in outputs, "an output of no reading"
        assert told["co2"] == outputs[place], "an output is not that of the uninterrupted run"
    assert all(len(variants) == 1 for variants in said.values()), "an output was published again in other bytes"
    assert said.keys() == outputs.keys(), "a reading has no output"
    sequences = defaultdict(list)
    for (name, stamp), variants in said.items():
        sequences[name].append((stamp, json.loads(next(iter(variants))[1])["sequence"]))
    for numbers in sequences.values():
        assert [number for _, number in sorted(numbers)] == list(range(1, len(numbers) + 1)), "a gap in the sequence"
    return Found(len(said), len(listener.publications), max(times.values()))


def admitted(site: Site) -> list[str]:
    """The rooms of the ledger, in their order, from what the program itself tells of it."""
    with us.Ledger(site.ledger, rollback_guard=site.folder / "guard") as ledger:
        return site.fleet(ledger).rooms


def check(site: Site, listener: Listener, readings: Mapping[str, Sequence[Reading]]) -> Found:
    """Everything that must be true after a run: what was heard, what was drawn, what was charged."""
    assert all(finding.passed for finding in inspection.verify(site.ledger)), "the record is not whole"
    rooms = admitted(site)
    oracle = uninterrupted(site, readings, rooms)
    with closing(sqlite3.connect(site.ledger)) as db:
        assert db.execute(_DECISIONS).fetchall() == oracle.decisions, "draws are not those of the uninterrupted run"
    with us.Ledger(site.ledger, rollback_guard=site.folder / "guard") as ledger:
        fleet = site.fleet(ledger)
        assert {name: fleet.spent(name) for name in rooms} == oracle.spent, "charges are not those of the oracle"
    return check_publications(listener, oracle.outputs)


def settle(listener: Listener, quiet: float = 0.5, seconds: float = 20.0) -> None:
    """Wait until nothing has come for a while."""
    end = time.monotonic() + seconds
    count = -1
    while count != len(listener.publications) and time.monotonic() < end:
        count = len(listener.publications)
        time.sleep(quiet)
