"""Real MQTT brokers for tests: Mosquitto on a free port of the loopback, killed, stopped and started again.

`Broker(folder)` writes a configuration, starts Mosquitto in a process group of its own and waits for its port. A broker
that is killed comes back on the same port with the same store, so that sessions and queued messages go on from what had
been stored. Nothing is ended by name, only by process id.

`Authority(folder)` makes a certificate authority, and certificates of it for the loopback: brokers with TLS, and with
certificates of clients.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0
"""That a broker may take to listen, or to end."""


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(true, seconds: float, what: str, every: float = 0.01) -> None:
    """Wait for a condition; after `seconds` it is an error that names `what`."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(every)


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port of the loopback."""
    with socket.socket() as found:
        found.settimeout(0.5)
        return found.connect_ex(("127.0.0.1", port)) == 0


def mosquitto() -> str:
    """The path of Mosquitto, which Debian keeps outside of a user's search path."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise FileNotFoundError("the tests of the gateway need Mosquitto: `make system` installs it")
    return found


class Broker:
    """A Mosquitto of its own: its port, its store, its process.

    `lines` are added to the configuration. With an `authority` the broker speaks TLS alone. `save` is the number of
    seconds between two saves of the store: what a kill may lose.
    """

    def __init__(
        self,
        folder: Path,
        *lines: str,
        authority: Authority | None = None,
        port: int | None = None,
        save: int = 1,
        anonymous: bool = True,
    ) -> None:
        self.folder, self.authority, self.port = Path(folder), authority, port or free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "mosquitto.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.kills = 0
        told = [
            *(["user root"] if os.geteuid() == 0 else []),  # who else could not write into folders of tests
            "persistence true",
            f"persistence_location {self.folder}/",
            f"autosave_interval {save}",
            "max_inflight_messages 1000",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            "log_dest stderr",
            f"listener {self.port} 127.0.0.1",
            f"allow_anonymous {str(anonymous).lower()}",
        ]
        if authority is not None:
            crt, key = authority.certificate("localhost")
            told += [f"cafile {authority.crt}", f"certfile {crt}", f"keyfile {key}"]
        self.config = self.folder / "mosquitto.conf"
        self.config.write_text("\n".join([*told, *lines]) + "\n", encoding="utf-8")
        self.start()

    @property
    def server(self) -> str:
        """Its address, as the configuration of a gateway says it."""
        return f"mqtt://127.0.0.1:{self.port}" if self.authority is None else f"mqtts://localhost:{self.port}"

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, on its port, with what its store holds."""
        assert not self.running
        with self.log.open("ab") as log:
            command = [mosquitto(), "-c", str(self.config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: listens(self.port) or not self.running, SECONDS, f"mosquitto on port {self.port}")
        if not self.running:
            raise RuntimeError(f"mosquitto has ended: {self.log.read_text(encoding='utf-8')[-500:]}")

    def _signal(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL: what had not been saved is lost."""
        self._signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(SECONDS)
        self.kills += 1

    def restart(self, away: float = 0.0) -> None:
        """Kill it, and start it again after `away` seconds."""
        self.kill()
        time.sleep(away)
        self.start()

    def save(self) -> None:
        """Have it write its store."""
        self._signal(signal.SIGUSR1)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it in order, whatever state it is in."""
        if not self.running:
            return
        assert self.process is not None
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait(SECONDS)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def two_brokers(folder: Path, **options) -> Iterator[tuple[Broker, Broker]]:
    """The sensors' broker and the listeners' one."""
    with Broker(folder / "in", **options) as inner, Broker(folder / "out", **options) as outer:
        yield inner, outer


# Certificates ---------------------------------------------------------------------------------------------


@dataclass
class Authority:
    """A certificate authority of a test, and the certificates that it has signed, by OpenSSL."""

    folder: Path
    name: str = "authority of a test"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.crt, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        _openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", self.key, "-out", self.crt, "-days", "2", "-subj", f"/CN={self.name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def certificate(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key, for a server or a client of this name."""
        crt, key, request = (self.folder / f"{name}.{suffix}" for suffix in ("crt", "key", "csr"))
        if crt.exists():  # a broker that is starting may read it
            return crt, key
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n", encoding="ascii")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.crt, "-CAkey", self.key, "-CAcreateserial", "-days", "2",
            "-extfile", extensions, "-out", crt,
        )  # fmt: skip
        return crt, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)  # noqa: S607  # by PATH
