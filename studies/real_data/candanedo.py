"""One office (Candanedo and Feldheim): presence from CO2, and from CO2, temperature and humidity together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from studies.real_data.choosing import candidates
from studies.real_data.data import candanedo
from studies.real_data.extras import audited
from studies.real_data.frontier import Budgets, Told, studied
from studies.real_data.rooms import Room
from understudy.adversaries.rivals import distortion_limit

THREE = ("CO2", "Temperature", "Humidity")
RATES = (0.0, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, math.inf)
"""Nats a day; infinity plays the true value."""
FREE, STUDENT, HIDDEN = "AR(2), free noise by class", "AR(2), Student-t by class", "hidden Markov"
CLASSES = ("AR(1), Student-t", STUDENT, FREE, "AR(2), normal by class", "grey-box", "independent, kernel", HIDDEN)


def room(root: Path, minutes: int, reading: Any = "CO2", **given: Any) -> Room:
    """The office at a period, learned from train and judged on test and test2."""
    frames = candanedo(root)
    many = not isinstance(reading, str)
    title = f"{'CO2, temperature and humidity' if many else 'CO2'}, {minutes} min"
    return Room(
        name=title,
        train=frames["train"],
        tests={"test": frames["test"], "test2": frames["test2"]},
        reading=list(reading) if many else reading,
        private="Occupancy",
        units=("ppm", "degrees C", "percent")[: 3 if many else 1],
        time="date",
        period=None if minutes == 1 else 60.0 * minutes,
        **given,
    )


def choice(root: Path, quick: bool, told: Told) -> dict[str, Any]:
    """Periods and model classes compared on the training file alone, by the leak at zero budget."""
    tried = [(minutes, name) for minutes in (5, 15) for name in (CLASSES[1:4] if quick else CLASSES)]
    tried += [] if quick else [(1, STUDENT), (1, FREE)]
    return {"candidates": candidates(lambda minutes, name: room(root, minutes, model=name), tried, told)}


def least(root: Path, quick: bool, told: Told) -> dict[str, Any]:
    """What hiding must cost, whatever the method, on each file."""
    limits = {name: distortion_limit((frame["CO2"], frame["Occupancy"])) for name, frame in candanedo(root).items()}
    return {
        name: [
            {"accuracy": accuracy, "distortion": round(ppm, 2), "percent": round(share, 2)}
            for accuracy, ppm, share in zip(limit.accuracies, limit.distortion[0], limit.percent[0], strict=True)
        ]
        for name, limit in limits.items()
    }


def alone(root: Path, quick: bool, told: Told, minutes: int, model: str, full: bool = False) -> dict[str, Any]:
    """CO2 alone at a period: the whole frontier, or three budgets of it."""
    budgets = Budgets({15.0: (0.0, 3.0, math.inf)}, {}, noise=(0.0, 3.0), insider="test2")
    if full and not quick:
        budgets = Budgets(
            {15.0: RATES, 60.0: (1.0, 3.0, 8.0)},
            {60.0: (0.1,), 1440.0: (0.3,)},
            noise=(0.0, 1.0, 3.0, 8.0),
            estimated=(0.0, 3.0),
            controls=(0.0, 3.0),
            insider="test2",
            fresh={0.25: (0.0, 3.0), 0.5: (0.0, 3.0), 1.0: (0.0, 3.0)},
        )
    return studied(room(root, minutes, model=model), budgets, told)


def native(root: Path, quick: bool, told: Told) -> dict[str, Any]:
    """CO2 as it was recorded, a reading a minute: zero budget alone, for twenty thousand readings take long."""
    return studied(room(root, 1, model=STUDENT), Budgets({15.0: (0.0,)}, {}, replicates=1, noise=()), told)


def together(root: Path, quick: bool, told: Told, minutes: int) -> dict[str, Any]:
    """CO2, temperature and humidity in one joint model."""
    rates = {15.0: (0.0, 3.0, math.inf)}
    model = ["VAR(1), normal", "VAR(1), Student-t", "VAR(2), normal", "VAR(2), Student-t"]
    budgets = Budgets(rates, {}, controls=(0.0,), insider="test2", noise=(0.0,))
    return studied(room(root, minutes, THREE, model=model), budgets, told)


def audits(root: Path, quick: bool, told: Told, minutes: int, model: str) -> dict[str, Any]:
    """The package's own audit, with all its adversaries, at two budgets."""
    return audited(room(root, minutes, model=model), (0.0,) if quick else (0.0, 3.0), told)


TASKS: dict[str, Any] = {
    "choice on train": (choice, {}),
    "least distortion": (least, {}),
    "CO2, 5 min, hidden Markov": (alone, {"minutes": 5, "model": HIDDEN, "full": True}),
    "CO2, 5 min": (alone, {"minutes": 5, "model": "auto", "full": True}),
    "CO2, 15 min": (alone, {"minutes": 15, "model": "auto"}),
    "audit, 5 min": (audits, {"minutes": 5, "model": FREE}),
    "CO2, 1 min": (native, {}),
    "three channels, 5 min": (together, {"minutes": 5}),
}
