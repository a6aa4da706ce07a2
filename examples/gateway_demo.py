"""A gateway at work: two brokers, rooms with people, and an adversary who listens, beside the truth.

    make gateway-demo        or   .venv/bin/python examples/gateway_demo.py --seconds 60

Everything runs as it would in a building, each in a process of its own: a Mosquitto for the sensors, one for the
listeners, `understudy simulate` for the sensors, `understudy gateway` between the two. The adversary knows the models
and averages the last readings of each room. It does so twice: on what leaves the building, and, for comparison, on the
raw readings, which nobody outside ever gets. All data are simulated, and all of it is deleted at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import understudy as us
from understudy.paper.setting import A, B, room

PERIOD, EPOCH, STAY = 60, 3600, 3 * 3600  # seconds of the rooms' time
OUTSIDE = 420.0  # ppm, of the air outside, which is added to the paper's room
SPEED = 900  # simulated seconds in a second
ROOMS, WATCHED = 8, 8  # readings that the adversary averages
LEAKAGE = 0.1  # nats a draw
COMMAND = str(Path(sys.executable).with_name("understudy"))

# What runs ----------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path, *command: str, log: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is ended with the block."""
    with (folder / log).open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(port: int, what: subprocess.Popen[bytes], log: Path) -> None:
    """Until somebody listens on a port."""
    end = time.monotonic() + 30
    while time.monotonic() < end and what.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"{log.stem} did not start:\n{log.read_text(encoding='utf-8')[-1000:]}")


def mosquitto(folder: Path, name: str, port: int) -> tuple[str, ...]:
    """The command of a broker, whose configuration is written."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise SystemExit("the demonstration needs Mosquitto; on Debian: sudo apt-get install mosquitto")
    lines = [*(["user root"] if os.geteuid() == 0 else []), f"listener {port} 127.0.0.1", "allow_anonymous true"]
    (folder / f"{name}.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found, "-c", f"{name}.conf"


def install(folder: Path, inner: int, outer: int, health: int) -> us.Design:
    """What a building has: a design, a master key, the configuration of the gateway; and the rooms to simulate."""
    rooms = us.Family(partial(room, level=OUTSIDE), values=[0, 1])
    design = us.design(rooms, leakage=LEAKAGE, horizon=EPOCH // PERIOD, distortion="mae")
    design.save(folder / "room.json")
    us.MasterKey.new().save(folder / "master.key")
    (folder / "gateway.yaml").write_text(
        f"""\
ledger: gateway.ledger
rollback_guard: guard
key: master.key
health: 127.0.0.1:{health}
in: {{server: "mqtt://127.0.0.1:{inner}"}}
out: {{server: "mqtt://127.0.0.1:{outer}", topic: "disguised/{{room}}/co2"}}
rooms:
  rooms:
    design: room.json
    period: {PERIOD}s
    epoch: {EPOCH}s
    admit: {ROOMS}
    sensors: [{{topic: raw/+/co2, name: co2, value: co2, time: time}}]
    theta: {{topic: private/+/occupancy, value: occupancy, time: time, valid_for: 11min}}
""",
        encoding="utf-8",
    )
    (folder / "rooms.yaml").write_text(
        f'broker: {{server: "mqtt://127.0.0.1:{inner}"}}\nrooms: {ROOMS}\nperiod: {PERIOD}s\n'
        f"design: room.json\nstay: {STAY}s\n",
        encoding="utf-8",
    )
    return design


# Who listens --------------------------------------------------------------------------------------------


class Adversary:
    """What somebody makes of readings who knows the models: the occupancy that fits the last of them."""

    def __init__(self) -> None:
        self.last: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=WATCHED + 1))

    def guess(self, room: str, reading: float) -> float | None:
        """The occupancy after one more reading; None as long as there are too few."""
        last = self.last[room]
        last.append(reading - OUTSIDE)
        if len(last) <= WATCHED:
            return None
        steps = [(y - A * before) / B for before, y in zip(list(last), list(last)[1:], strict=False)]
        return sum(steps) / len(steps)


class Audience:
    """Sees everything: truth, readings and outputs by room and time, and what the adversary makes of either."""

    def __init__(self, inner: int, outer: int) -> None:
        self.truth: dict[str, int] = {}
        self.held: dict[tuple[str, str], int] = {}
        self.seen: dict[str, dict[str, tuple[float, float | None]]] = {"raw": {}, "disguised": {}}
        self.right: dict[str, int] = {"raw": 0, "disguised": 0}
        self.guesses: dict[str, int] = {"raw": 0, "disguised": 0}
        self.time = ""
        self.lock = threading.Lock()
        self._adversaries = {"raw": Adversary(), "disguised": Adversary()}
        self.clients = [self._listen(inner, "private/#", "raw/#"), self._listen(outer, "disguised/#")]

    def _listen(self, port: int, *topics: str) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.on_connect = lambda client, *_: client.subscribe([(topic, 1) for topic in topics])
        client.on_message = lambda _client, _data, message: self._came(message.topic, json.loads(message.payload))
        client.connect("127.0.0.1", port)
        client.loop_start()
        return client

    def _came(self, topic: str, told: dict[str, object]) -> None:
        kind, name, *_ = topic.split("/")
        with self.lock:
            if kind == "private":
                self.truth[name] = int(str(told["occupancy"]))
                return
            at = str(told["time"])
            if kind == "raw":
                self.held[name, at] = self.truth[name]
            reading = float(str(told["co2"]))
            guess = self._adversaries[kind].guess(name, reading)
            self.seen[kind][name] = reading, guess
            self.time = max(self.time, at)
            truth = self.held.get((name, at))
            if guess is not None and truth is not None:
                self.guesses[kind] += 1
                self.right[kind] += int(guess >= 0.5) == truth

    def share(self, kind: str) -> float:
        """Percent of the guesses that were right."""
        return 100.0 * self.right[kind] / max(self.guesses[kind], 1)

    def close(self) -> None:
        """Listen no more."""
        for client in self.clients:
            client.disconnect()
            client.loop_stop()


# What is shown ------------------------------------------------------------------------------------------


def word(occupied: float) -> str:
    """An occupancy in a word."""
    return "occupied" if occupied >= 0.5 else "empty"


def picture(audience: Audience, left: float, bound: float) -> Group:
    """Each room with its truth and both guesses, and how often they are right."""
    table = Table(title=f"{audience.time[:16].replace('T', ' ')}   ({left:.0f} s to go)", title_justify="left")
    table.add_column("room")
    table.add_column("truth")
    for head in ("raw CO2", "guess from it", "CO2 that leaves", "guess from it"):
        table.add_column(head, justify="right" if "CO2" in head else "left")
    with audience.lock:
        for name, truth in sorted(audience.truth.items()):
            cells: list[str | Text] = [name, Text(word(truth), style="bold")]
            for kind in ("raw", "disguised"):
                reading, guess = audience.seen[kind].get(name, (None, None))
                cells.append("" if reading is None else f"{reading:.0f}")
                right = guess is not None and int(guess >= 0.5) == truth
                cells.append("" if guess is None else Text(word(guess), style="green" if right else "red"))
            table.add_row(*cells)
        summary = Text.assemble(
            ("right so far   ", "dim"), f"from raw readings {audience.share('raw'):.0f} percent, from what leaves ",
            (f"{audience.share('disguised'):.0f} percent", "bold"),
        )  # fmt: skip
    return Group(table, summary, Text(words(bound), style="dim"))


def words(bound: float) -> str:
    """What the card promises."""
    return (
        "promised       of rooms whose occupancy stays for the hour, every guess from that hour's output is wrong in "
        f"at least {100 * bound:.0f} percent"
    )


def main() -> None:
    """Start everything, show it for a while, and end it."""
    parser = argparse.ArgumentParser(description="A gateway at work, and an adversary who listens.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    asked = parser.parse_args()
    readings = int(asked.seconds * SPEED / PERIOD)
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-demo-")))
        inner, outer, health = free_port(), free_port(), free_port()
        for name, port in (("sensors", inner), ("listeners", outer)):
            broker = stack.enter_context(running(folder, *mosquitto(folder, name, port), log=f"{name}.log"))
            wait_for(port, broker, folder / f"{name}.log")
        design = install(folder, inner, outer, health)
        bound = design.guarantee.bayes_error
        console.print(
            f"sensors' broker on port {inner}, listeners' broker on {outer}; {ROOMS} rooms, {SPEED} times as fast as "
            "the clock.\nThe gateway between the two draws for each room once an hour of the rooms' time.\n"
        )
        gateway = stack.enter_context(running(folder, COMMAND, "gateway", "gateway.yaml", log="gateway.log"))
        wait_for(health, gateway, folder / "gateway.log")
        audience = Audience(inner, outer)
        stack.callback(audience.close)
        command = (COMMAND, "simulate", "rooms.yaml", "--speed", str(SPEED), "--readings", str(readings))
        simulate = stack.enter_context(running(folder, *command, log="simulate.log"))
        begun = time.monotonic()
        end = begun + asked.seconds + 30.0  # whatever happens

        def going() -> bool:
            for process, log in ((gateway, "gateway.log"), (simulate, "simulate.log")):
                if process.poll():
                    raise SystemExit((folder / log).read_text(encoding="utf-8")[-1000:])
            return simulate.poll() is None and time.monotonic() < end

        def left() -> float:
            return max(begun + asked.seconds - time.monotonic(), 0.0)

        if console.is_terminal:
            with Live(console=console, refresh_per_second=8) as live:
                while going():
                    live.update(picture(audience, left(), bound))
                    time.sleep(0.125)
                time.sleep(1.0)
                live.update(picture(audience, 0.0, bound))
        else:
            shown = time.monotonic()
            while going():
                if time.monotonic() - shown > 5.0 and audience.guesses["disguised"]:
                    shown = time.monotonic()
                    console.print(said(audience, left()))
                time.sleep(0.1)
            time.sleep(1.0)
            console.print(said(audience, 0.0))
            console.print(words(bound))
        if not audience.guesses["disguised"]:
            raise SystemExit(
                f"nothing left the gateway:\n{(folder / 'gateway.log').read_text(encoding='utf-8')[-1000:]}"
            )


def said(audience: Audience, left: float) -> str:
    """The same in a line."""
    with audience.lock:
        return (
            f"{audience.time[:16].replace('T', ' ')}  {audience.guesses['disguised']:5} guesses, right from raw "
            f"readings {audience.share('raw'):.0f} percent, from what leaves {audience.share('disguised'):.0f} percent"
            f"; {left:.0f} s to go"
        )


if __name__ == "__main__":
    main()
