"""Files as a user of the command line has them, and what it says of them."""

from __future__ import annotations

import csv
import datetime as dt
from typing import NamedTuple

import numpy as np

import understudy as us

WARNING = "The scores of 1 are not normal, so the guarantee does not hold as stated."
STAY = [[0.98, 0.02], [0.03, 0.97]]


class Told(NamedTuple):
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str


def room(people):
    return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=1.0, b=40.0 + 8.0 * people, mean0=420.0, cov0=20.0)


def write_rows(path, count, seed, minutes=1):
    """A CSV file of one room, people coming and going, a row every so many minutes."""
    rng = np.random.default_rng(seed)
    people, now = [], 0
    for _ in range(count):
        now = 1 - now if rng.random() < 0.025 else now
        people.append(now)
    co2 = us.sample(us.Family(room, [0, 1]).along(people), count, rng=rng)
    start = dt.datetime(2026, 3, 2, 8, 0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "co2", "light", "occupancy"])
        for k, (y, n) in enumerate(zip(co2.tolist(), people, strict=True)):
            writer.writerow([(start + dt.timedelta(minutes=minutes * k)).isoformat(sep=" "), repr(y), 300 * n, n])
    return path


def about(passed=True, **more):
    """What a fitted family says of itself."""
    verdict = {"name": "shape", "class": 1, "value": 0.1, "p": 1e-9, "limit": 1e-3, "passed": passed, "sentence": "x"}
    low, excess = (-0.03, 0.02) if passed else (0.08, 0.13)
    window = {"window": 15, "accuracy": 0.5 + excess, "control": 0.5, "control_error": 0.02, "excess": excess}
    window |= {"low": low, "high": excess + 0.05, "nats": 0.0123, "nats_low": -0.01, "nats_high": 0.04}
    window |= {"seen": 0.0789, "p": 0.2}
    gate = {
        "outcome": "passed" if passed else "leak",
        "passed": passed,
        "sentence": "No leak above 0.08." if passed else WARNING,
        "warning": None if passed else WARNING,
        "false_alarm": 0.01,
        "scores": 1234,
        "untested": [],
        "attack": {"learner": "boosted trees", "unit": "day", "units": 12, "windows": [window]},
        "verdicts": [verdict],
    }
    return {
        "readings": ["co2"],
        "private": "occupancy",
        "time": "date",
        "segment": None,
        "period": 60.0,
        "public": None,
        "grid": [None],
        "units": ["ppm"],
        "chain": {"transition": STAY, "prior": [0.6, 0.4], "transitions": 1000},
        "model": {"name": "grey-box", "parameters": {"a": 0.9}, "table": [{"name": "grey-box", "score": -2.0}]},
        "gate": gate,
        "notes": ["3 rows with the time of an earlier one were dropped"],
    } | more


def family(passed=True, **more):
    return us.Family({v: room(v) for v in (0, 1)}, prior=[0.6, 0.4], about=about(passed, **more))


def refused(told, *words):
    """Status 1, one line on the error stream that has these words, no traceback, nothing printed."""
    assert told.status == 1
    assert told.out == ""
    assert told.err.count("\n") == 1, told.err
    assert told.err.startswith("understudy: ")
    assert "Traceback" not in told.err
    for word in words:
        assert word in told.err, (word, told.err)


def one_line(text):
    """Text with all white space as single spaces."""
    return " ".join(text.split())
