"""A real InfluxDB reads what the pipe writes: every line is accepted, and every digit comes back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from decimal import Decimal

import pipe_driver as driver
import pytest

from understudy.gateway.formats import read_point

pytestmark = pytest.mark.gateway(seconds=4, reason="starts an InfluxDB")

CONFIG = """
reporting-enabled = false
bind-address = "127.0.0.1:{rpc}"
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
query-log-enabled = false
[monitor]
store-enabled = false
[http]
bind-address = "127.0.0.1:{port}"
log-enabled = false
flux-enabled = false
"""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def influx(tmp_path):
    """An InfluxDB on a free port of the loopback, in a process group of its own; ended by its id."""
    daemon = shutil.which("influxd")
    assert daemon is not None, "no influxd: make system installs it"
    port = _free_port()
    config = tmp_path / "influx.conf"
    config.write_text(CONFIG.format(folder=tmp_path / "influx", port=port, rpc=_free_port()))
    with (tmp_path / "influx.log").open("wb") as log:
        process = subprocess.Popen(
            [daemon, "run", "-config", str(config)], stdout=log, stderr=log, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/ping", timeout=5)  # noqa: S310  # ours, on the loopback
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, (tmp_path / "influx.log").read_text()
                time.sleep(0.1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _post(address, path, body=b"", **parameters):
    request = urllib.request.Request(f"{address}/{path}?{urllib.parse.urlencode(parameters)}", data=body, method="POST")  # noqa: S310  # ours
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # ours, on the loopback
        return answer.read()


def _texts(content: bytes) -> dict:
    """The reading of each line as it is written, by room and time."""
    found = {}
    for line in content.decode().splitlines():
        point = read_point(line)
        found[point.tags["the room"], point.time] = line.rpartition("co2=")[2].split(" ")[0]
    return found


def test_what_is_written_is_read_back_in_every_digit(tmp_path, influx):
    """Times, rooms with spaces, tags and decimals; what the database gives back is what the pipe wrote."""
    driver.prepare(tmp_path)
    given = driver.readings(2000, 5)
    lines = "".join(r.line.replace("room=lab", r"the\ room=lab\ \,") + "\n" for r in given)
    done = driver.run(tmp_path, [*driver.options(tmp_path), "--room", "the room"], lines)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2000
    _post(influx, "query", q='CREATE DATABASE "building"')
    assert _post(influx, "write", done.stdout, db="building", precision="ns") == b""
    query = 'SELECT * FROM "air" GROUP BY "the room"'
    answer = json.loads(_post(influx, "query", db="building", q=query, epoch="ns"), parse_float=str, parse_int=str)
    found, wanted = {}, _texts(done.stdout)
    for series in answer["results"][0]["series"]:
        columns = series["columns"]
        assert sorted(columns) == ["co2", "disguised", "floor", "time"]
        for row in series["values"]:
            cells = dict(zip(columns, row, strict=True))
            assert (cells["disguised"], cells["floor"]) == ("true", "2")
            found[series["tags"]["the room"], int(cells["time"])] = cells["co2"]
    assert {key: Decimal(text) for key, text in found.items()} == {key: Decimal(text) for key, text in wanted.items()}
    rounded = {key: f"{float(text):.2f}" for key, text in wanted.items()}  # the comparison notices two digits less
    assert {key: Decimal(text) for key, text in found.items()} != {key: Decimal(text) for key, text in rounded.items()}
