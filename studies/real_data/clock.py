"""Designs by the public clock at zero budget: distortion, and the gain of the best adversary over the clock.

The routine, the models and the design are those of the training days alone; the test recordings are looked at once.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from studies.real_data import candanedo, sdu
from studies.real_data.rooms import Room, fitted, read
from understudy.adversaries.datasets import from_history

ADVERSARIES = ("windowed", "logistic", "boosting")


def rooms(root: Path) -> dict[str, Room]:
    """The office at 15 min, with the class that was chosen on its training file, and the first of the other rooms."""
    return {
        "candanedo": candanedo.room(root, 15, model=candanedo.STUDENT),
        "sdu 1": sdu.room(root, 1, "0,1+"),
    }


def beyond(room: Room, seeds: int = 5) -> dict[str, Any]:
    """For each test recording: distortion in percent, the clock alone, and each adversary with the clock."""
    family = fitted(room).family_
    train = from_history(read(room.train, family), family)
    design = us.design_causal(family, clock=True, rate=0.0, distortion="mae", horizon=96)
    found: dict[str, Any] = {}
    for name, frame in room.tests.items():
        recording = from_history(read(frame, family), family)
        rows: list[dict[str, float]] = []
        for seed in range(seeds):
            audit = us.audit(
                design, recording, train=train, adversaries=list(ADVERSARIES), rng=seed, replicates=1, noise=False,
                utility=False,
            )  # fmt: skip
            gains = {row.adversary: row.gain.value for row in audit.rows if row.clock and row.data == "disguised"}
            gains |= {f"raw {row.adversary}": row.gain.value for row in audit.rows if row.clock and row.data == "raw"}
            clock = next(
                row.balanced.value for row in audit.rows if row.adversary == "clock" and row.data == "disguised"
            )
            percent = 100.0 * audit.distortion[0].value / audit.mean_reading[0]
            rows.append({"percent": percent, "clock alone": clock, **gains})
        found[name] = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
    return found


if __name__ == "__main__":
    import sys

    for title, each in rooms(Path(sys.argv[1])).items():
        start = time.process_time()
        print(title, beyond(each, int(sys.argv[2])), f"{time.process_time() - start:.0f} s", flush=True)
