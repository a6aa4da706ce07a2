"""The coin by epoch on the office: the line between raw readings and a constant, over many seeds of the coin.

A day is an epoch, at a random phase. The adversaries learn from the training recording, played with coins of their own,
and are judged on each test recording with `seeds` plays. Who is right with balanced accuracy a on raw readings and with
one half on a constant is right with a - (a - 1/2) q on those of a coin, if he sees which epochs are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from studies.real_data.attacking import Knowledge, attack, best, cases
from studies.real_data.candanedo import room
from studies.real_data.rooms import read
from understudy.adversaries.datasets import DesignRun

ADVERSARIES = ("windowed", "logistic", "boosting")
SHARES = (0.0, 0.25, 0.5, 0.75)


def line(
    root: Path, shares: Sequence[float] = SHARES, minutes: int = 5, seeds: int = 200, copies: int = 8, seed: int = 1
) -> list[dict[str, Any]]:
    """For each share q of hidden days: the best adversary on each test recording, and the distortion in percent."""
    office = room(root, minutes)
    about = {
        "readings": [office.reading], "private": office.private, "time": office.time, "segment": None, "public": None,
        "period": 60.0 * minutes, "resampling": {"how": "mean"} if minutes > 1 else None, "bins": None, "grid": None,
    }  # fmt: skip
    level = float(np.median(office.train[office.reading]))
    rows = []
    for q in shares:
        design = us.design_coin(q=q, constant=level, values=[0, 1], resolution=2.0**-10, about=about)
        histories = {name: read(frame, design.family) for name, frame in office.tests.items()}
        train = read(office.train, design.family)
        stage = DesignRun(design, round(86_400 / (60 * minutes)))
        rng = np.random.default_rng([seed, round(1000 * q)])

        def played(history: Any, count: int, stage: Any = stage, rng: Any = rng) -> list[Any]:
            return [
                np.stack([stage.run(part.Y, part.theta, rng).output for _ in range(count)], axis=2)
                for part in history.segments
            ]

        outputs = {name: played(history, seeds) for name, history in histories.items()}
        learn = cases(office, train, played(train, copies))
        tests = {name: cases(office, history, outputs[name]) for name, history in histories.items()}
        known = Knowledge(design.family, design.pseudo, np.full((2, 2), 0.5), np.full(2, 0.5), None, None, None, None)
        found = attack(learn, tests, known, list(ADVERSARIES), rng, clock=False)
        row: dict[str, Any] = {"q": q, "seeds": seeds}
        for name, history in histories.items():
            raw, top = [part.Y for part in history.segments], best(found[name])
            apart = [np.abs(y[:, :, None] - o).mean(axis=2) for y, o in zip(raw, outputs[name], strict=True)]
            row[name] = {
                "balanced": None if top is None else top["balanced"],
                "adversary": None if top is None else top["adversary"],
                "each": {each["adversary"]: each["balanced"][0] for each in found[name] if not each["reference"]},
                "percent": round(100.0 * float(np.concatenate(apart).mean() / np.concatenate(raw).mean()), 2),
            }
        rows.append(row)
    return rows


if __name__ == "__main__":
    import sys

    for each in line(Path(sys.argv[1]), minutes=int(sys.argv[2]), seeds=int(sys.argv[3])):
        print(each)
