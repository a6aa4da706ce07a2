"""Cold start: what a short script or a command pays before it does anything."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from time import perf_counter

from benchmarks.harness import Required, Row, Section, duration

FIRST_STEP = """
import understudy as us
source = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, d=0.0, mean0=100.0, cov0=1.0)
target = us.GaussMarkov(A=0.9, C=1.0, Q=0.2, R=0.05, b=12.0, d=5.0, mean0=110.0, cov0=2.0)
transform = us.Transform(source, target)
state, out = transform.step(transform.start(), 104.0)
"""
NUMPY, STEP, HELP = "`import numpy`", "`import understudy` and a first step", "`understudy --help`"
BARE = "`python -c pass`"
COMMANDS = {
    NUMPY: ["-c", "import numpy"],
    STEP: ["-c", FIRST_STEP],
    HELP: ["-m", "understudy", "--help"],
    BARE: ["-c", "pass"],
}


def run(quick: bool) -> Section:
    """Processes take turns; the first round only warms the file cache and is not counted."""
    rounds = 10 if quick else 30
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    failed: set[str] = set()
    for turn in range(rounds + 1):
        for name, command in COMMANDS.items():
            start = perf_counter()
            done = subprocess.run(
                [sys.executable, *command], capture_output=True, text=True, check=False, env=dict(os.environ)
            )
            if turn:
                seconds[name].append(perf_counter() - start)
            if done.returncode:
                if name not in failed:
                    print(f"{name} failed:\n{done.stderr}", file=sys.stderr)
                failed.add(name)
    best = {name: min(times) for name, times in seconds.items()}

    def line(name: str, ratio: float | None = None, required: Required | None = None) -> Row:
        median = statistics.median(seconds[name])
        failure = "failed" if name in failed else ""
        return Row(name, "1", duration(best[name]), duration(median), ratio, required, failure=failure)

    return Section(
        "Cold start",
        "time / `import numpy` (for `--help`: seconds)",
        [
            line(NUMPY),
            line(STEP, best[STEP] / best[NUMPY], Required(1.3, at_most=True)),
            line(HELP, best[HELP], Required(0.5, at_most=True)),
            line(BARE),
        ],
        ["Wall time of a whole process on the same core, interpreter start included, bytecode cached."],
    )
