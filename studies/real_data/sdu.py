"""Four rooms of the building OU44 (Arendt et al.): presence and counts from CO2, whole days as segments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from studies.real_data.data import sdu, where
from studies.real_data.frontier import Budgets, Told, studied
from studies.real_data.rooms import Room

RATES = (0.0, 2.0, 6.0, math.inf)


def room(root: Path, number: int, bins: Any, minutes: int = 15, **given: Any) -> Room:
    """A room at 15 min: two days of three to learn from, the others to judge on. Days are in random order anyway."""
    frame = sdu(root, number)
    days = np.unique(frame["day"])
    held = frame["day"] % 3 == 2
    weekday = {str(day): int(frame["weekday"][frame["day"] == day][0]) for day in days}
    return Room(
        name=f"room {number}, {'presence' if bins == '0,1+' else 'counts'}",
        train=where(frame, ~held),
        tests={"held-out days": where(frame, held)},
        reading="co2",
        private="people",
        units=("ppm",),
        time="time",
        segment="day",
        period=60.0 * minutes,
        bins=bins,
        weekdays=weekday,
        **given,
    )


def studied_room(root: Path, quick: bool, told: Told, number: int, bins: Any) -> dict[str, Any]:
    """One room, for presence or counts."""
    few = quick or bins is None
    rates = {15.0 if bins is not None else 30.0: (0.0, 6.0, math.inf) if few else RATES}
    budgets = Budgets(rates, {}, noise=() if bins is None else (0.0, 2.0), controls=(0.0,))
    return studied(room(root, number, bins), budgets, told)


TASKS: dict[str, Any] = {
    f"room {number}, {words}": (studied_room, {"number": number, "bins": bins})
    for bins, words in (("0,1+", "presence"), (None, "counts"))
    for number in (1, 2, 3, 4)
}
