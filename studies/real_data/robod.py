"""Three rooms of ROBOD (Tekler et al.), the negative control: CO2 says little about presence here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from studies.real_data.data import robod, where
from studies.real_data.frontier import Budgets, Told, studied
from studies.real_data.rooms import Room


def room(root: Path, number: int, **given: Any) -> Room:
    """A room at 5 min: the first two thirds of the time to learn from, the last to judge on."""
    frame = robod(root, number)
    cut = np.sort(frame["time"])[len(frame["time"]) * 2 // 3]
    return Room(
        name=f"room {number}",
        train=where(frame, frame["time"] < cut),
        tests={"last third": where(frame, frame["time"] >= cut)},
        reading="co2",
        private="present",
        units=("ppm",),
        time="time",
        **given,
    )


def studied_room(root: Path, quick: bool, told: Told, number: int) -> dict[str, Any]:
    """One room."""
    rates = {15.0: (0.0, 3.0)}
    return studied(room(root, number), Budgets(rates, {}, noise=(0.0,), controls=(0.0,), replicates=1), told)


TASKS: dict[str, Any] = {f"room {number}": (studied_room, {"number": number}) for number in (1, 2, 3)}
