"""A gateway that is killed at one of its steps, again and again; and gateways that do it wrong.

    python gateway_runner.py POINT TIMES LEAST MOST [--twin NAME] CONFIG

Runs the gateway until it passes POINT for the n-th time, n drawn from LEAST to MOST, kills it there with SIGKILL, and
runs the next one; after TIMES kills one runs undisturbed. What a process loads is loaded once and forked: many kills
take little time. Each kill is a line `killed at POINT` on standard output.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from typing import Any

from understudy.gateway import service
from understudy.gateway.plant import Output

POINTS = (
    "received", "committed", "publishing", "published", "confirmed", "marked", "acknowledging", "acknowledged",
)  # fmt: skip


def killed_at(kind: type[service.Gateway], point: str, passage: int) -> type[service.Gateway]:
    """The gateway, killed at the n-th passage of a point."""

    class Killed(kind):  # type: ignore[misc, valid-type]  # a class that is given
        left = passage

        def passed(self, at: str) -> None:
            super().passed(at)
            if at == point:
                Killed.left -= 1
                if Killed.left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    return Killed


# Ways to do it wrong --------------------------------------------------------------------------------------


class EarlyPublisher(service.Gateway):
    """Publishes an output before the transaction that records it has ended."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        render = self.plant._render

        def publishing(output: Output) -> bytes:
            content = bytes(render(output))
            topic, payload = content.split(b"\0", 1)
            self.target.publish(topic, payload, False, [("disguised", "true")])
            self.target.write()
            self.passed("published")
            return content

        self.plant._render = publishing


class EarlyAcknowledger(service.Gateway):
    """Acknowledges a reading before it is recorded."""

    def receive(self, topic: str, payload: bytes, retained: bool, receipt: Any) -> None:
        """Take it, and say at once that it is taken."""
        super().receive(topic, payload, retained, receipt)
        self.source.acknowledge([receipt])
        self.source.write()
        self.passed("acknowledged")


class EarlyMarker(service.Gateway):
    """Marks and acknowledges an output before it is published."""

    def record(self, now: float) -> None:
        """Record a group, and forget that it is to be sent."""
        receipts = [receipt for arrival in self._group for receipt in arrival.tag[1]]
        super().record(now)
        self.plant.mark(list(self._queue))
        self.plant.flush()
        self._acknowledge += receipts
        self.acknowledge()
        self.source.write()


class AtOnce(service.Gateway):
    """Publishes a room's last output again, at once, when its private value changes."""

    def _tell(self, room: Any, at: int, said: Any, *rest: Any) -> bool:
        values = self.__dict__.setdefault("values", {})
        if values.setdefault(room.name, said) != said:
            values[room.name] = said
            fleet = room.entry.fleet
            last = self.plant.find(fleet, room.name, self.plant.last_key(fleet, room.name))
            self._enqueue(last, [])
        return super()._tell(room, at, said, *rest)


class ClockSetBack(service.Gateway):
    """Runs on a machine whose clock is set back by three seconds, five seconds after the start."""

    def run(self) -> None:
        """Serve, with a clock that jumps."""
        begun, tell = time.monotonic(), time.time_ns
        service.time.time_ns = lambda: tell() - (3 * 10**9 if time.monotonic() > begun + 5.0 else 0)
        super().run()


TWINS: dict[str, type[service.Gateway]] = {
    "early publisher": EarlyPublisher,
    "early acknowledger": EarlyAcknowledger,
    "early marker": EarlyMarker,
    "at once": AtOnce,
    "clock set back": ClockSetBack,
}


def run(kind: type[service.Gateway], config: str) -> int:
    """A gateway in a fork, as the command runs it: 0, its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        status = 1
        try:
            service.serve(config, gateway=kind)
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> int:
    """Kill, and kill again, and then let it run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("point", choices=POINTS)
    parser.add_argument("times", type=int)
    parser.add_argument("least", type=int)
    parser.add_argument("most", type=int)
    parser.add_argument("--twin", choices=sorted(TWINS))
    parser.add_argument("config")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the fork is sent it too, and ends by it
    rng = random.Random(1)  # noqa: S311  # moments of a test
    kind = TWINS[asked.twin] if asked.twin else service.Gateway
    for _ in range(asked.times):
        status = run(killed_at(kind, asked.point, rng.randint(asked.least, asked.most)), asked.config)
        if status != -signal.SIGKILL:
            return status
        print(f"killed at {asked.point}", flush=True)
    return run(kind, asked.config)


if __name__ == "__main__":
    sys.exit(main())
