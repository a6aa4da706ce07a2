"""Quick where people wait: fits and designs of a recording, beside version 0.1 where a checkout of it is given.

Set `UNDERSTUDY_DATA` to the folder of the recordings (../shared/data by default) and `UNDERSTUDY_BEFORE` to a checkout
of 0.1 with its extensions built (`git worktree add ../v0.1 v0.1.0`, `python setup.py build_ext --inplace` there).
"""

from __future__ import annotations

import csv
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Required, Row, Section, duration

ROOT = Path(__file__).resolve().parents[2]
FOUR = ["CO2", "Temperature", "Humidity", "Light"]
MOST = 75  # seconds of the processor that a fit and its design may take


class Wait(NamedTuple):
    """What is fitted: readings of so many rows, or a simulated room with four counts of people; seconds wanted."""

    name: str
    readings: list[str]
    rows: int
    fit: float | None
    design: float


WAITS = {
    "one": Wait("one channel, 8,143 rows", ["CO2"], 8143, 8.0, 5.0),
    "four": Wait("four channels, 5,000 rows", FOUR, 5000, 30.0, 30.0),
    "counts": Wait("one channel, four counts, 8,000 rows", [], 8000, None, 15.0),
}


def run(quick: bool) -> Section:
    """Each once, in a process of its own; seconds of the processor, one core."""
    rows: list[Row] = []
    before = os.environ.get("UNDERSTUDY_BEFORE")
    notes = [
        "Recording: UCI Occupancy Detection (Candanedo and Feldheim 2016), `datatraining.txt`, occupancy private; four "
        "counts: readings of an autoregression with Student-t noise on a grid of 0.5. `us.fit` with all defaults, then "
        "`us.design(leakage=0.1, horizon=1440)`. 0.1 may have chosen another model class; it knew no gate that attacks "
        "scores.",
    ]
    recording = data()
    for key, wait in WAITS.items():
        if wait.readings and not recording.exists():
            notes.append(f"{wait.name}: not measured, {recording.name} is not there")
            continue
        ours = measured(ROOT, key)
        theirs = None if before is None else measured(Path(before).resolve(), key)
        for work, wanted in (("fit", wait.fit), ("design", wait.design)):
            required = None if wanted is None else Required(wanted, at_most=True)
            name, seconds = f"{work}, {wait.name}", ours.get(work)
            rows.append(Row(name, "1", _told(seconds), "", seconds, required, failure="" if seconds else "too long"))
            if theirs is not None:
                rows.append(Row(f"{name}: 0.1", "1", _told(theirs.get(work)), "", theirs.get(work)))
    return Section("Quick where people wait", "seconds of the processor", rows, notes)


def _told(seconds: float | None) -> str:
    return f"more than {MOST} s in all" if seconds is None else duration(seconds)


def data() -> Path:
    """The recording."""
    return Path(os.environ.get("UNDERSTUDY_DATA", ROOT.parent / "shared" / "data")) / "candanedo" / "datatraining.txt"


def measured(folder: Path, key: str) -> dict[str, float]:
    """Seconds of a fit and of a design for it with the package of a folder; without what takes too long."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.sections.waits", key]
    told = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode not in (0, -signal.SIGXCPU):
        raise RuntimeError(told.stderr)
    return dict(json.loads(line) for line in told.stdout.splitlines())


def frame_of(key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns, and what `us.fit` is told about them."""
    wait = WAITS[key]
    if not wait.readings:
        return simulated(wait.rows), {"reading": "co2", "private": "people", "period": 60}
    with data().open(newline="") as file:
        _, *lines = csv.reader(file)
        names = ["row", "date", "Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy"]
        columns = dict(zip(names, zip(*lines[: wait.rows], strict=True), strict=True))
    frame: dict[str, Any] = {name: [float(x) for x in columns[name]] for name in wait.readings}
    frame |= {"date": list(columns["date"]), "Occupancy": [int(x) for x in columns["Occupancy"]]}
    return frame, {"reading": wait.readings, "private": "Occupancy", "time": "date"}


def simulated(count: int) -> dict[str, Any]:
    """Readings on a grid with heavy tails, of a room with up to three people."""
    import numpy as np
    import scipy.stats

    import understudy as us

    def room(people: int) -> us.AutoRegressive:
        noise = us.Scalar(scipy.stats.t(4.0, scale=2.0 + people))
        return us.AutoRegressive([0.7, 0.25], 20.0 + 2.0 * people, noise, past=[400.0, 400.0])

    people = np.tile(np.repeat([0, 1, 2, 3], 250), count // 1000)
    co2 = us.sample(us.Family(room, [0, 1, 2, 3]).along(people.tolist()), people.size, rng=1)
    return {"co2": 0.5 * np.round(co2 / 0.5), "people": people}


def measure(key: str) -> None:
    """Print seconds of a fit and of a design for it, with whatever version of the package is imported."""
    import scipy.optimize
    import scipy.stats  # noqa: F401  # what is imported once is not what is waited for

    import understudy as us

    frame, about = frame_of(key)
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (MOST + math.ceil(start), resource.RLIM_INFINITY))
    family = us.fit(frame, **about)
    middle = time.process_time()
    print(json.dumps(["fit", middle - start]), flush=True)
    us.design(family, leakage=0.1, horizon=1440, distortion="mae")
    print(json.dumps(["design", time.process_time() - middle]), flush=True)


if __name__ == "__main__":
    measure(sys.argv[1])
