"""A gateway that is killed at one of its steps, again and again; and gateways that do it wrong.

    python gateway_runner.py POINT TIMES MOST SEED [--twin NAME] CONFIG

Runs the gateway until it passes POINT for the n-th time, n drawn from 1 to MOST, kills it there with SIGKILL, and runs
the next one; after TIMES kills one runs undisturbed. What a process loads is loaded once and forked, so that many kills
take little time. Each kill is a line `killed at POINT` on standard output.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys

from understudy.gateway import service

POINTS = (
    "received", "committed", "publishing", "published", "confirmed", "marked", "acknowledging", "acknowledged",
)  # fmt: skip


def killed_at(kind: type[service.Gateway], point: str, passage: int) -> type[service.Gateway]:
    """The gateway, killed at the n-th passage of a point."""

    class Killed(kind):  # type: ignore[misc, valid-type]
        left = passage

        def passed(self, at: str) -> None:
            super().passed(at)
            if at == point:
                Killed.left -= 1
                if Killed.left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    return Killed


TWINS: dict[str, type[service.Gateway]] = {}


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
    parser.add_argument("most", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--twin", choices=sorted(TWINS))
    parser.add_argument("config")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the fork is sent it too, and ends by it
    rng = random.Random(asked.seed)  # noqa: S311  # moments of a test
    kind = TWINS[asked.twin] if asked.twin else service.Gateway
    for _ in range(asked.times):
        status = run(killed_at(kind, asked.point, rng.randint(1, asked.most)), asked.config)
        if status != -signal.SIGKILL:
            return status
        print(f"killed at {asked.point}", flush=True)
    return run(kind, asked.config)


if __name__ == "__main__":
    sys.exit(main())
