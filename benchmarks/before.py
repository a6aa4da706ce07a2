"""What a release of streams costs, beside an earlier version: each contender in a process of its own, in turn.

    git worktree add ../v0.1 v0.1.0 && (cd ../v0.1 && python setup.py build_ext --inplace)
    python benchmarks/before.py --before ../v0.1

For each row the best of several rounds of this checkout and of the earlier one, one core, alternating, and their ratio.
`us.disguise` of the earlier version has no lattice; it is compared with `us.disguise(resolution=)` of this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = ("step", "step, ledger", "apply", "disguise", "file", "fit", "design of a fit")


def best(work, rounds: int) -> float:
    """The shortest of some rounds, in seconds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def measured(row: str) -> float:
    """Seconds of one row, with whatever version of the package is imported."""
    import numpy as np

    import understudy as us

    def room(people):
        return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)

    if row in ("fit", "design of a fit"):
        return identified(row)
    family = us.Family(room, values=[0, 1], about={"decimals": [2]} if row == "file" else None)
    design = us.design(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")
    Y = us.sample(room(1), T=1_000_000, rng=1)
    if row == "step":
        stream, values = design.stream(1), Y[:20_000].tolist()
        stream.step(values[0])
        return best(lambda: [stream.step(y) for y in values], 7) / len(values)
    if row == "step, ledger":
        with tempfile.TemporaryDirectory(dir=".") as folder, us.Ledger(f"{folder}/a", witness=False) as ledger:
            stream, values = design.stream(1, ledger, "a"), Y[:300].tolist()
            stream.step(values[0])
            return best(lambda: [stream.step(y) for y in values], 7) / len(values)
    if row == "apply":
        stream = design.stream(1)
        stream.apply(Y[:10])
        return best(lambda: stream.apply(Y), 15)
    if row == "disguise":
        source, target, out = room(1), room(0), np.empty_like(Y)
        more = {"resolution": design.resolution} if hasattr(design, "resolution") else {}
        return best(lambda: us.disguise(Y, source, target, out=out, **more), 40)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        from understudy.apply.apply_file import apply_file
    except ImportError:  # its place until 0.2
        from understudy.files.applying import apply_file

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        times = np.datetime64("2026-01-01T00:00:00", "ms") + np.arange(len(Y)) * np.timedelta64(60_000, "ms")
        people = pa.array(np.ones(len(Y), dtype=np.int64))
        pq.write_table(pa.table({"time": times, "co2": Y, "people": people}), source)
        columns = {"reading": "co2", "private": "people", "time": "time", "period": "1 min"}
        return best(lambda: apply_file(design, source, target, **columns), 5)


def identified(row: str) -> float:
    """CPU seconds of a fit with all defaults to 8,000 readings on a grid with heavy tails, or of a design for it."""
    import understudy as us
    from benchmarks.sections.waits import simulated

    frame = simulated(8000)
    start = time.process_time()
    family = us.fit(frame, reading="co2", private="people", period=60)
    if row == "design of a fit":
        start = time.process_time()
        us.design(family, leakage=0.1, horizon=1440, distortion="mae")
    return time.process_time() - start


def ran(folder: Path, row: str) -> float:
    """The same in a process with the package of a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run(
        [sys.executable, __file__, "--row", row], env=environment, capture_output=True, text=True, check=True
    )
    return float(json.loads(told.stdout.splitlines()[-1]))


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="a checkout of the earlier version, with its extensions built")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", choices=ROWS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(measured(given.row)))
        return
    if given.before is None:
        parser.error("--before is missing")
    print(f"{'':16}{'now':>12}{'before':>12}{'ratio':>8}")
    for row in ROWS:
        now, before = [], []
        for _ in range(given.rounds):
            now.append(ran(ROOT, row))
            before.append(ran(given.before.resolve(), row))
        print(f"{row:16}{1e6 * min(now):10.2f}us{1e6 * min(before):10.2f}us{min(now) / min(before):8.2f}", flush=True)


if __name__ == "__main__":
    main()
