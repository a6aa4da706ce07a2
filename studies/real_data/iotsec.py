"""Three locations of the Room Climate Datasets (Morgner et al.): people from temperature and humidity, two channels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from studies.real_data.data import iotsec, where
from studies.real_data.frontier import Budgets, Told, studied
from studies.real_data.rooms import Room

RATES = (0.0, 10.0, math.inf)
MODELS = ("VAR(1), normal", "VAR(1), Student-t", "VAR(2), normal", "VAR(2), Student-t")


def room(root: Path, place: str, node: int, **given: Any) -> Room:
    """One sensor node: two files of three to learn from, the others to judge on. Each file is an experiment."""
    frame = iotsec(root)[place]
    frame = where(frame, frame["node"] == node)
    held = frame["file"] % 3 == 2
    return Room(
        name=f"location {place}, node {node}",
        train=where(frame, ~held),
        tests={"held-out files": where(frame, held)},
        reading=["T", "RH"],
        private="people",
        units=("degrees C", "percent"),
        time="seconds",
        segment="file",
        block=2 * 3600.0,  # a file is about two hours
        pace=10.0,
        model=list(MODELS),
        **given,
    )


def studied_room(root: Path, quick: bool, told: Told, place: str, node: int) -> dict[str, Any]:
    """One node."""
    rates = {15.0: RATES}
    return studied(room(root, place, node, period=120.0), Budgets(rates, {}, noise=(0.0,), controls=(0.0,)), told)


TASKS: dict[str, Any] = {
    f"location {place}, node {node}": (studied_room, {"place": place, "node": node})
    for place, node in (("A", 1), ("B", 1), ("C", 1))
}
