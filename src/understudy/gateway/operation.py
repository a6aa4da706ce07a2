"""What an operator sees: counts, health, log lines, and what the service manager is told.

Nothing here is ever given a reading, an output, a private value or a draw: counts are by rule and by step, and labels
are names of the configuration.

`/healthz` answers 200 while the loop turns, `/readyz` 200 while both brokers are connected and the ledger records, and
`/metrics` is for Prometheus. They answer on this machine alone. The log is one JSON object a line on standard error;
about a sensor there is one line a minute at most. Under systemd the service says when it is ready, and keeps the
watchdog quiet.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from understudy.errors import ConfigurationError
from understudy.gateway.formats import write_json

BOUNDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Of histograms, in seconds."""
BUCKETS: Final = ("none", "below a third", "below two thirds", "more")
"""What is left of a budget."""

# Counts ---------------------------------------------------------------------------------------------


class Histogram:
    """Counts by how long something took.

    >>> took = Histogram()
    >>> took.add(0.003)
    >>> took.counts[3], took.count
    (1, 1)
    """

    __slots__ = ("count", "counts", "sum")

    def __init__(self) -> None:
        self.counts, self.count, self.sum = [0] * (len(BOUNDS) + 1), 0, 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """So many that took so long."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.count += count
        self.sum += seconds * count

    def cumulative(self) -> list[tuple[str, float]]:
        """As Prometheus wants it."""
        found, total = [], 0
        for bound, count in zip([*map(str, BOUNDS), "+Inf"], self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class Metrics(Collector):
    """The counts of a gateway."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        """Messages that came: readings, private values, others."""
        self.rules: Counter[str] = Counter()
        """What became of readings."""
        self.steps: Counter[str] = Counter()
        """Groups, published, confirmed, replayed, acknowledged, refused by the broker, failed commits."""
        self.commit = Histogram()
        self.latency = Histogram()
        self.gauges: dict[str, float] = {"queue": 0, "waiting": 0, "unconfirmed": 0, "rooms": 0, "drift": 0}
        self.links: dict[str, bool] = {"in": False, "out": False}
        self.budget: Counter[str] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Everything, for Prometheus."""
        for name, words, counts, label in (
            ("messages", "messages that came", self.messages, "kind"),
            ("readings", "what became of readings", self.rules, "rule"),
            ("steps", "steps of the service", self.steps, "step"),
        ):
            counter = CounterMetricFamily(f"understudy_{name}", words, labels=[label])
            for key, count in sorted(counts.items()):
                counter.add_metric([key], count)
            yield counter
        for name, words, histogram in (
            ("commit_seconds", "how long a commit takes, with its wait for the disk", self.commit),
            ("latency_seconds", "from the arrival of a reading to the confirmation of its output", self.latency),
        ):
            family = HistogramMetricFamily(f"understudy_{name}", words)
            family.add_metric([], histogram.cumulative(), histogram.sum)
            yield family
        for name, value in sorted(self.gauges.items()):
            gauge = GaugeMetricFamily(f"understudy_{name}", f"{name} now")
            gauge.add_metric([], value)
            yield gauge
        up = GaugeMetricFamily("understudy_connected", "whether a broker is connected", labels=["side"])
        for side, there in self.links.items():
            up.add_metric([side], float(there))
        yield up
        left = GaugeMetricFamily("understudy_budget_rooms", "rooms by what is left of their budget", labels=["left"])
        for bucket in BUCKETS:
            left.add_metric([bucket], self.budget[bucket])
        yield left


def budget_bucket(left: float) -> str:
    """What is left of a budget, as a share, in one of four words.

    >>> budget_bucket(0.0), budget_bucket(0.5), budget_bucket(1.0)
    ('none', 'below two thirds', 'more')
    """
    if left <= 0.0:
        return BUCKETS[0]
    return BUCKETS[1] if left < 1 / 3 else BUCKETS[2] if left < 2 / 3 else BUCKETS[3]


# Health ---------------------------------------------------------------------------------------------


class HealthServer:
    """Answers `/healthz`, `/readyz` and `/metrics` on an address of this machine, in a thread of its own."""

    def __init__(self, address: str, metrics: Metrics, alive: Callable[[], bool], ready: Callable[[], str]) -> None:
        registry = CollectorRegistry()
        registry.register(metrics)

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "understudy", ""

            def do_GET(self) -> None:
                pages: dict[str, Callable[[], tuple[bool, bytes]]] = {
                    "/healthz": lambda: (alive(), b"alive\n"),
                    "/readyz": lambda: (not (why := ready()), f"{why or 'ready'}\n".encode()),
                    "/metrics": lambda: (True, generate_latest(registry)),
                }
                page = pages.get(self.path.partition("?")[0])
                good, body = (False, b"") if page is None else page()
                self.send_response(404 if page is None else 200 if good else 503)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *given: Any) -> None:  # noqa: A002  # the name that the base class has
                """Requests are not logged."""

        host, _, port = address.rpartition(":")

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET

        try:
            self._server = Server((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            raise ConfigurationError(f"health: {address} cannot be used: {error.strerror}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# The log --------------------------------------------------------------------------------------------


class Log:
    """Lines of JSON; those about one thing at most once a minute, with how many were left out.

    >>> import io
    >>> lines = io.StringIO()
    >>> log = Log(lines, clock=lambda: 0.0)
    >>> log.about("raw/lab", "unreadable", rule="the payload is no number")
    >>> log.about("raw/lab", "unreadable", rule="the payload is no number")
    >>> lines.getvalue().count("unreadable")
    1
    """

    def __init__(self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, level: str, event: str, **facts: str | int | float | bool) -> None:
        """One line."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = write_json({"time": now, "level": level, "event": event, **facts})
        with contextlib.suppress(OSError, ValueError):
            print(line, file=self._file or sys.stderr, flush=True)

    def about(self, sensor: str, event: str, **facts: str | int | float | bool) -> None:
        """One line about a sensor, unless there was one of this kind within the last minute."""
        now, key = self._clock(), (sensor, event)
        last, left_out = self._last.get(key, (float("-inf"), 0))
        if now - last < 60.0:
            self._last[key] = last, left_out + 1
            return
        if len(self._last) > 10_000:  # sensors that somebody makes up
            self._last.clear()
        self._last[key] = now, 0
        self("warning", event, about=sensor, **facts, **({"left_out": left_out} if left_out else {}))


# The service manager --------------------------------------------------------------------------------


class ServiceManager:
    """What systemd is told over its socket of datagrams; nothing where there is none."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        limit = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
        self.every = int(limit) / 2e6 if limit.isdecimal() and mine and int(limit) else None
        """Seconds between signs of life, half of what the watchdog waits."""
        self._last = 0.0

    def tell(self, *lines: str) -> None:
        """Send lines such as READY=1."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), address)

    def alive(self, now: float) -> None:
        """A sign of life, if it is time for one."""
        if self.every is not None and now - self._last >= self.every:
            self._last = now
            self.tell("WATCHDOG=1")
