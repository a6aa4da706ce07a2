"""One reading at a time from Python, compiled and plain, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Required, Row, Section, duration

ROOT = Path(__file__).resolve().parents[2]
SAME = 1e-9  # step against batch, plain against compiled
KINDS = {  # name -> (environment, required microseconds per step)
    "compiled": ({"UNDERSTUDY_PURE": ""}, 0.25),
    "plain": ({"UNDERSTUDY_PURE": "1"}, 1.0),
}


def run(quick: bool) -> Section:
    """The two kinds of kernels cannot live in one process, so their processes alternate."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    report: dict[str, dict] = {}
    for _ in range(2 if quick else 5):
        for kind in KINDS:
            report[kind] = _child(kind)
            seconds[kind] += report[kind]["seconds"]
    rows = []
    for kind, (_, most) in KINDS.items():
        times = sorted(seconds[kind])
        apart = max(report[kind]["apart"], _apart(report["compiled"]["last"], report[kind]["last"]))
        ran = report[kind]["kernels"]
        failure = "" if apart <= SAME else "outputs differ"
        if ran != kind:
            failure = f"ran the {ran} kernels"
        rows.append(
            Row(
                f"`Transform.step`, {kind}",
                f"{report[kind]['samples']:,}",
                duration(times[0]),
                duration(times[len(times) // 2]),
                times[0] * 1e6,
                Required(most, at_most=True),
                compared=f"{apart:.1e}",
                failure=failure,
            )
        )
    return Section(
        "One reading at a time from Python, scalar",
        "microseconds per step",
        rows,
        [
            "The loop is `for y in readings: state, out = step(state, y)` over Python floats, its own cost "
            "included. Compared with `us.disguise` on the same readings, and plain with compiled.",
        ],
    )


def _apart(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def _child(kind: str) -> dict:
    script = Path(__file__).with_name("step_child.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | KINDS[kind][0],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)
