"""A studio that runs, a client that speaks plain HTTP to it, and histories to open."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us

MARK = {"x-understudy": "studio"}


def room(people: float) -> us.GaussMarkov:
    """A room whose readings the grey-box candidate fits."""
    return us.GaussMarkov(A=0.9, C=1.0, Q=25.0, R=9.0, b=40.0 + 8.0 * people, mean0=400.0, cov0=90.0)


def history(path: Path, days: int = 40, per_day: int = 96, seed: int = 4) -> Path:
    """A history whose models are right: people in for a part of each day."""
    rng = np.random.default_rng(seed)
    people: list[int] = []
    for _ in range(days):
        day = np.zeros(per_day, dtype=int)
        day[int(per_day * (0.25 + 0.15 * rng.random())) : int(per_day * (0.6 + 0.2 * rng.random()))] = 1
        people += day.tolist()
    y = np.ravel(us.sample(us.Family(room, [0, 1]).along(people), len(people), rng=rng))
    start = dt.datetime(2026, 1, 5)
    step = dt.timedelta(days=1) / per_day
    rows = [f"{start + k * step},{v:.6f},{p}" for k, (v, p) in enumerate(zip(y, people, strict=True))]
    path.write_text("time,co2,occupancy\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@dataclass
class Answer:
    """What a request came to."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Running:
    """A studio that runs as a process of its own."""

    process: subprocess.Popen[str]
    address: str
    folder: Path
    cookie: str = ""
    printed: list[str] = field(default_factory=list)
    guests: list[Any] = field(default_factory=list)
    """What closes the pages that are open."""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(re.search(r":(\d+)/", self.address)[1])

    @property
    def origin(self) -> str:
        """Its own origin."""
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", host: str = "127.0.0.1"
    ) -> Answer:
        """One request with these headers and no others; a header of None is left out."""
        link = http.client.HTTPConnection(host, self.port, timeout=30)
        with contextlib.closing(link):
            given = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie, **(headers or {})}
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    link.putheader(name, value)
            if method == "POST" and "Content-Length" not in given:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body or None)
            found = link.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())

    def get(self, path: str, **headers: str) -> Answer:
        """A GET of the page."""
        return self.request("GET", path, headers)

    def post(self, path: str, given: Any = None, **headers: str) -> Answer:
        """A POST of the page."""
        return self.request("POST", path, {**MARK, **headers}, json.dumps(given or {}).encode())

    def upload(self, name: str, content: bytes, **headers: str) -> Answer:
        """A file from the page."""
        return self.request("POST", "/api/open", {**MARK, "x-file-name": name, **headers}, content)

    def enter(self) -> Running:
        """Exchange the token for the cookie."""
        found = self.request("GET", "/" + self.address.split("/", 3)[3], {"Cookie": None})
        assert found.status == 303, found
        self.cookie = found.headers["set-cookie"].split(";")[0]
        return self

    def settle(self, seconds: float = 120.0) -> dict[str, Any]:
        """The state when no job runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.get("/api/state").json
            if state["job"] is None and not state["busy"]:
                return state
            time.sleep(0.05)
        raise TimeoutError("the job did not end")

    def children(self) -> list[int]:
        """The processes that it has started."""
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)  # noqa: S607  # by PATH
        return [int(pid) for pid in found.stdout.split()]

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def end(self) -> int:
        """Ctrl-C."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        self.printed += self.process.stdout.read().splitlines() if not self.process.stdout.closed else []
        return code


@contextlib.contextmanager
def studio(folder: Path, *arguments: str | Path) -> Iterator[Running]:
    """A studio whose temporary files are in a folder of the test."""
    home = folder / "temporary"
    home.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(home), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "understudy", "studio", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=folder
    )
    printed = []
    try:
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            if found := re.search(r"http://\S+", line):
                running = Running(process, found[0], home, printed=printed)
                try:
                    yield running
                finally:
                    for close in running.guests:
                        close()
                break
        else:
            raise RuntimeError(f"the studio did not start: {printed}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        process.stdout.close()


# The page, by clicks --------------------------------------------------------------------------------------------------


def click(page: Any, name: str) -> None:
    """A button of the view that is open."""
    page.locator(f"main [data-do={name}]:visible").first.click()


def go(page: Any, view: str) -> None:
    """A step of the navigation."""
    page.locator(f"nav a[href='#{view}']").click()
    page.locator(f"body[data-view={view}]").wait_for()


def state_of(page: Any) -> dict[str, Any]:
    """What the studio says, asked by the page."""
    return page.evaluate("fetch('/api/state').then(found => found.json())")


def idle(page: Any, seconds: float = 280.0) -> None:
    """No job runs, and the page shows what the last one made."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = state_of(page)
        shown = page.get_attribute("body", "data-revision") == str(state["revision"])
        if shown and state["job"] is None and not state["busy"]:
            return
        page.wait_for_timeout(50)
    raise TimeoutError("the page did not come to rest")


def act(page: Any, name: str) -> None:
    """A button that begins a job, and its end."""
    with page.expect_response(f"**/api/{name}"):
        click(page, name)
    idle(page)


def read_history(page: Any, path: Path, reading: str, private: str, time_: str | None = None) -> None:
    """Upload a file, say what its columns are, and read it."""
    with page.expect_response("**/api/open"):
        page.set_input_files("#file", path)
    idle(page)
    page.locator(f"#reading input[value='{reading}']").wait_for()
    for box in page.locator("#reading input").all():
        box.set_checked(box.get_attribute("value") == reading)
    page.select_option("#private", private)
    if time_ is not None:
        page.select_option("#time", time_)
    act(page, "data")
    page.locator("[data-name=rows]").wait_for()


def fit_models(page: Any, model: str) -> None:
    """Fit, and wait for what came out."""
    go(page, "fit")
    page.select_option("#model", model)
    act(page, "fit")
    page.locator("[data-model]").wait_for()


def to_design(page: Any) -> None:
    """The design, with the costs that it needs."""
    go(page, "design")
    page.locator("main code[data-name=fingerprint]:visible").wait_for()
    idle(page)


def ask(page: Any, unit: str, amount: str) -> None:
    """An amount, typed; waits until the card has followed."""
    if page.input_value("#demand") != unit:
        solved(page, lambda: page.select_option("#demand", unit))
    solved(page, lambda: (page.fill("#amount", amount), page.press("#amount", "Enter")))


def solved(page: Any, move: Any) -> None:
    """Do something to the slider, and wait until the whole view has followed."""
    view = page.locator("[data-solved], [data-rested]").first
    before = int(view.get_attribute("data-rested") or 0)
    move()
    page.locator(f"[data-rested='{before + 1}']").wait_for()


def numbers(page: Any, name: str) -> list[float | None]:
    """The numbers of this name that the view holds, in full."""
    found = page.locator(f"main [data-name='{name}']").evaluate_all("all => all.map(each => each.dataset.value)")
    return [None if each == "" else float(each) for each in found]


def download(page: Any, name: str, folder: Path) -> Path:
    """A file of the last view, by a click."""
    with page.expect_download() as found:
        page.locator(f"[data-take='{name}']").click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path
