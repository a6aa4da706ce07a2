"""An attack that shares no code with `us.audit`, on files as the command line writes them.

For each recording the README's commands are run: a family is fitted to the training days, a design is made, and both
parts are disguised, several times with draws of their own. `understudy audit` attacks the design. Beside it,
scikit-learn attacks the released files: a random forest and gradient boosting on short, long and differenced windows,
and a hidden Markov model on binned levels and differences. Which of them, and with which settings, is chosen by
cross-validation by day on the training days. The attack is judged once, on the other days.

Where it finds more than the upper end of the audit's interval, the audit missed something, and the table says so.

    python -m studies.independent_attack --data ../shared/data --only sdu1     # minutes for each recording
    python -m studies.independent_attack --data ../shared/data --design 0.5bit
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from studies.real_data import data

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

DAY = 86_400
HELD = 0.2
"""The share of the days that is judged, where a recording has no test file."""
FOLDS = 5
DRAWS = 2
LEVEL = 0.99
RESAMPLES = 2000
ROWS = 8_000
"""Rows that a classifier is trained on at most; neighbours are alike."""


# Recordings -----------------------------------------------------------------------------------------------------------


class Recording(NamedTuple):
    """Labelled rows by time: those that everything is chosen on, and those that are judged."""

    readings: tuple[str, ...]
    learn: data.Frame
    judge: data.Frame


def recordings(root: Path) -> dict[str, Callable[[], Recording]]:
    """All that can be named, loaded when they are called."""

    def candanedo(which: str) -> Recording:
        found = {
            name: {"time": frame["date"], "co2": frame["CO2"], "label": frame["Occupancy"]}
            for name, frame in data.candanedo(root).items()
        }
        return Recording(("co2",), found["train"], found[which])

    def sdu(room: int) -> Recording:
        frame = data.sdu(root, room)
        start = np.datetime64("2017-03-01T00:00:00")
        times = np.array([start + np.timedelta64(d, "D") for d in frame["day"].tolist()]) + np.array(
            [np.timedelta64(sum(f * int(x) for f, x in zip((3600, 60, 1), t.split(":"), strict=True)), "s")
             for t in frame["time"].tolist()]
        )  # fmt: skip
        label = (frame["people"] > 0).astype(int)
        return last_days(("co2",), {"time": times.astype("datetime64[s]"), "co2": frame["co2"], "label": label})

    def robod(room: int) -> Recording:
        frame = data.robod(root, room)
        return last_days(("co2",), {"time": frame["time"], "co2": frame["co2"], "label": frame["present"]})

    def iotsec(place: str) -> Recording:
        frame = data.iotsec(root)[place]
        frame = data.where(frame, frame["node"] == frame["node"].min())
        start = np.datetime64("2016-05-01T10:00:00")
        times = np.array([start + np.timedelta64(d, "D") for d in frame["file"].tolist()])
        times = (times + frame["seconds"].astype("timedelta64[s]")).astype("datetime64[s]")
        rows = {"time": times, "temperature": frame["T"], "humidity": frame["RH"], "label": frame["people"]}
        return last_days(("temperature", "humidity"), rows)

    return {
        "candanedo test": lambda: candanedo("test"),
        "candanedo test2": lambda: candanedo("test2"),
        **{f"sdu{room}": (lambda room=room: sdu(room)) for room in (1, 2, 3, 4)},
        **{f"robod{room}": (lambda room=room: robod(room)) for room in (1, 2, 3)},
        **{f"iotsec {place}": (lambda place=place: iotsec(place)) for place in ("A", "B", "C")},
    }


def last_days(readings: tuple[str, ...], rows: data.Frame) -> Recording:
    """The last fifth of the days is judged."""
    rows = data.where(rows, np.argsort(rows["time"], kind="stable"))
    day = rows["time"].astype("datetime64[D]")
    days = np.unique(day)
    first = days[len(days) - max(1, round(HELD * len(days)))]
    return Recording(readings, data.where(rows, day < first), data.where(rows, day >= first))


# What is released -----------------------------------------------------------------------------------------------------


class Day(NamedTuple):
    """One day of released readings (T, d) with the labels (T,) of the same times."""

    output: Numbers
    label: Labels
    day: int


class Release(NamedTuple):
    """What the command line made of a recording: released days, and what the audit says."""

    learn: list[list[Day]]
    judge: list[list[Day]]
    accuracy: float
    low: float
    high: float
    adversary: str


def understudy(*words: object) -> None:
    """Run a command; its output is shown where it fails."""
    command = [sys.executable, "-m", "understudy", "--quiet", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # our own command line
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])}: status {done.returncode}\n{done.stderr[-2000:]}")


def write(path: Path, frame: data.Frame) -> None:
    """Rows as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(frame)
        writer.writerows(
            ["" if isinstance(x, float) and np.isnan(x) else x for x in row]
            for row in zip(*(column.tolist() for column in frame.values()), strict=True)
        )


def release(recording: Recording, demand: Sequence[str], draws: int) -> Release:
    """Run the README's commands in a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {"learn": recording.learn, "judge": recording.judge}
        for part, frame in parts.items():
            write(folder / f"{part}.csv", frame)
        columns = [word for reading in recording.readings for word in ("--reading", reading)]
        family, design, saved = (folder / f"{what}.json" for what in ("family", "design", "audit"))
        understudy("fit", folder / "learn.csv", *columns, "--private", "label", "--time", "time", "-o", family)
        understudy("design", family, *demand, "-o", design)
        found = {}
        for part, frame in parts.items():
            found[part] = []
            for k in range(draws):
                out, ledger = folder / f"{part}-{k}.csv", folder / f"{part}-{k}.db"
                more = ["--private", "label", "--ledger", ledger, "--accept-misfit"]
                understudy("apply", design, folder / f"{part}.csv", "-o", out, *more)
                found[part].append(days_of(out, frame, recording.readings))
        understudy("audit", design, folder / "judge.csv", "--train", folder / "learn.csv", "--save", saved)
        rows = json.loads(saved.read_text())["rows"]
    rows = [row for row in rows if row["data"] == "disguised" and not row["clock"] and not row["reference"]]
    best = max(rows, key=lambda row: row["balanced"][0])
    return Release(found["learn"], found["judge"], *best["balanced"], best["adversary"])


def days_of(path: Path, frame: data.Frame, readings: tuple[str, ...]) -> list[Day]:
    """Released rows by day, each with the label that most rows of its period have."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    seconds = np.array([row["time"].replace("T", " ") for row in rows], dtype="datetime64[s]").astype(np.int64)
    output = np.array([[float(row[name]) if row[name] else np.nan for name in readings] for row in rows])
    at, label = frame["time"].astype(np.int64), frame["label"].astype(np.int64)
    period = int(np.median(np.diff(seconds)))
    lows = np.searchsorted(at, seconds)
    highs = np.maximum(np.searchsorted(at, seconds + period), lows + 1)
    keep = lows < len(at)
    lows, highs, output, seconds = lows[keep], highs[keep], output[keep], seconds[keep]
    counts = [np.bincount(label[a:b]) for a, b in zip(lows.tolist(), highs.tolist(), strict=True)]
    labels = np.array([len(c) - 1 - int(c[::-1].argmax()) for c in counts], dtype=np.int64)
    there = ~np.isnan(output).any(axis=1)
    output, labels, day = output[there], labels[there], (seconds // DAY)[there]
    return [Day(output[day == d], labels[day == d], int(d)) for d in np.unique(day)]


# Features -------------------------------------------------------------------------------------------------------------

WINDOWS = {"short": (1, 3, 8), "long": (15, 60, 180), "differenced": (2, 5, 15, 45)}


def features(output: Numbers, kind: str) -> Numbers:
    """Means and spreads over windows that end, begin and are centred at each reading; or of differences alone."""
    T = len(output)
    columns = [np.zeros((T, 1))]
    if kind in ("short", "all"):
        padded = np.pad(output, ((8, 8), (0, 0)), mode="edge")
        columns += [padded[8 + lag : 8 + lag + T] for lag in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
    if kind in ("long", "all"):
        columns += [output - output.mean(axis=0), output - np.median(output, axis=0)]
        for window in WINDOWS["long"]:
            means = [moving(output, window, side) for side in (-1, 0, 1)]
            spread = np.sqrt(np.maximum(moving(output**2, window, 0) - means[1] ** 2, 0.0))
            columns += [*means, spread, means[2] - means[0], output - means[1]]
    if kind in ("differenced", "all"):
        step = np.diff(output, axis=0, prepend=output[:1])
        columns += [step, step**2]
        for window in WINDOWS["differenced"]:
            columns += [moving(step, window, side) for side in (-1, 1)]
            columns += [moving(np.abs(step), window, 0), moving((step == 0.0) * 1.0, window, 0)]
            before = np.concatenate([step[:1], step[:-1]])
            columns += [moving(step * before, window, 0)]
    return np.concatenate(columns, axis=1)


def moving(x: Numbers, window: int, side: int) -> Numbers:
    """Means over so many rows before (-1), around (0) or after (1) each, fewer at the ends."""
    T = len(x)
    total = np.concatenate([np.zeros((1, x.shape[1])), x.cumsum(axis=0)])
    reach = {-1: (window - 1, 0), 0: (window // 2, window // 2), 1: (0, window - 1)}[side]
    start = np.maximum(np.arange(T) - reach[0], 0)
    stop = np.minimum(np.arange(T) + reach[1] + 1, T)
    return np.asarray((total[stop] - total[start]) / (stop - start)[:, None])


# Attacks --------------------------------------------------------------------------------------------------------------

Attack = Callable[[Sequence[Day], Sequence[Day], int], list[Labels]]
"""Days to learn from, days to guess, and how many values there are -> guesses for each day."""


def classifier(kind: str, make: Callable[[], object]) -> Attack:
    """A classifier on features of one kind, values weighted alike."""

    def attack(learn: Sequence[Day], judge: Sequence[Day], m: int) -> list[Labels]:
        X = np.concatenate([features(day.output, kind) for day in learn])
        y = np.concatenate([day.label for day in learn])
        thin = max(1, len(y) // ROWS)
        X, y = X[::thin], y[::thin]
        made = make()
        made.fit(X, y, sample_weight=1.0 / np.bincount(y, minlength=m)[y])
        return [np.asarray(made.predict(features(day.output, kind)), dtype=np.int64) for day in judge]

    return attack


def hidden_markov(kind: str, cells: int, weight: float) -> Attack:
    """A chain of the private value with a histogram of binned features in each state; all times are combined.

    Outputs that are neighbours are dependent, so the logarithms of the densities count by `weight`.
    """

    def view(output: Numbers) -> Numbers:
        step = np.diff(output, axis=0, prepend=output[:1])
        return {
            "level": output,
            "difference": step,
            "both": np.concatenate([output, moving(step, 5, 0)], axis=1),
            "size": np.concatenate([moving(np.abs(step), 15, 0), output - moving(output, 60, 0)], axis=1),
        }[kind]

    def attack(learn: Sequence[Day], judge: Sequence[Day], m: int) -> list[Labels]:
        X, y = np.concatenate([view(day.output) for day in learn]), np.concatenate([day.label for day in learn])
        edges = [np.unique(np.quantile(x, np.linspace(0.0, 1.0, cells + 1)[1:-1])) for x in X.T]
        tables = []
        for x, cuts in zip(X.T, edges, strict=True):
            count = np.ones((m, len(cuts) + 1))
            np.add.at(count, (y, np.searchsorted(cuts, x)), 1.0)
            tables.append(np.log(count / count.sum(axis=1, keepdims=True)))
        moves = np.ones((m, m))
        for day in learn:
            np.add.at(moves, (day.label[:-1], day.label[1:]), 1.0)
        A = np.log(moves / moves.sum(axis=1, keepdims=True))
        prior = np.log(np.bincount(y, minlength=m) + 1.0) - np.log(len(y) + m)
        guesses = []
        for day in judge:
            columns = zip(view(day.output).T, edges, tables, strict=True)
            logs = weight * sum(table[:, np.searchsorted(cuts, x)] for x, cuts, table in columns)
            guesses.append((_posterior(np.asarray(logs).T, A, prior) - prior).argmax(axis=1))
        return guesses

    return attack


def _posterior(logs: Numbers, A: Numbers, prior: Numbers) -> Numbers:
    """Log-posteriors (T, m) of a chain, by forward and backward recursions."""
    forward, backward = np.empty_like(logs), np.zeros_like(logs)
    forward[0] = prior + logs[0]
    for k in range(1, len(logs)):
        forward[k] = logs[k] + np.logaddexp.reduce(forward[k - 1][:, None] + A, axis=0)
        forward[k] -= forward[k].max()
    for k in range(len(logs) - 2, -1, -1):
        backward[k] = np.logaddexp.reduce(A + logs[k + 1] + backward[k + 1], axis=1)
        backward[k] -= backward[k].max()
    found = forward + backward
    return np.asarray(found - np.logaddexp.reduce(found, axis=1)[:, None])


def attacks() -> dict[str, Attack]:
    """Everything that is chosen from, by name."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    found: dict[str, Attack] = {}
    for kind in ("short", "long", "differenced", "all"):
        for leaf in (5, 50):
            found[f"forest, {kind}, leaves of {leaf}"] = classifier(
                kind, lambda leaf=leaf: RandomForestClassifier(60, min_samples_leaf=leaf, n_jobs=1, random_state=1)
            )
        for leaves, rounds in ((4, 60), (15, 80)):
            found[f"boosting, {kind}, {leaves} leaves"] = classifier(
                kind,
                lambda leaves=leaves, rounds=rounds: HistGradientBoostingClassifier(
                    max_iter=rounds, max_leaf_nodes=leaves, learning_rate=0.08, early_stopping=False, random_state=1
                ),
            )
    for kind in ("level", "difference", "both", "size"):
        for weight in (1.0, 0.1, 0.02):
            found[f"HMM, {kind}, weight {weight:g}"] = hidden_markov(kind, 12, weight)
    return found


# Judgement ------------------------------------------------------------------------------------------------------------


def balanced(days: Sequence[Day], guesses: Sequence[Labels], m: int) -> tuple[float, Numbers]:
    """Balanced accuracy, and right guesses and all guesses (days, values, 2) for resampling."""
    counts = np.array(
        [
            [[np.sum((guess == v) & (day.label == v)), np.sum(day.label == v)] for v in range(m)]
            for day, guess in zip(days, guesses, strict=True)
        ],
        dtype=float,
    )
    return accuracy_of(counts.sum(axis=0)), counts


def accuracy_of(counts: Numbers) -> float:
    """Balanced accuracy of summed counts (values, 2)."""
    seen = counts[:, 1] > 0
    return float((counts[seen, 0] / counts[seen, 1]).mean())


def interval(counts: Numbers, rng: np.random.Generator) -> tuple[float, float]:
    """Days are resampled; draws of one day stay together, as the counts are summed over them."""
    picks = rng.integers(len(counts), size=(RESAMPLES, len(counts)))
    found = [accuracy_of(total) for total in counts[picks].sum(axis=1) if (total[:, 1] > 0).sum() > 1]
    low, high = np.quantile(found, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]) if found else (0.0, 1.0)
    return float(low), float(high)


def choose(learn: Sequence[Day], m: int, among: dict[str, Attack]) -> tuple[str, float]:
    """The best of them by cross-validation by day."""
    days = np.unique([day.day for day in learn])
    fold = {int(d): k % min(FOLDS, len(days)) for k, d in enumerate(days)}
    best = ("", -1.0)
    for name, attack in among.items():
        judged, guesses = [], []
        for k in range(min(FOLDS, len(days))):
            own = [day for day in learn if fold[day.day] != k]
            others = [day for day in learn if fold[day.day] == k]
            if len(np.unique(np.concatenate([day.label for day in own]))) < 2:
                continue
            judged += others
            guesses += attack(own, others, m)
        reached = balanced(judged, guesses, m)[0] if judged else 0.0
        best = (name, reached) if reached > best[1] else best
    return best


class Line(NamedTuple):
    """One row of the table."""

    recording: str
    audit: str
    attack: str
    chosen: str
    verdict: str


def compare(name: str, recording: Recording, demand: Sequence[str], draws: int) -> Line:
    """Both on one recording."""
    found = release(recording, demand, draws)
    m = int(max(recording.learn["label"].max(), recording.judge["label"].max())) + 1
    learn = [day for those in found.learn for day in those]
    chosen, reached = choose(found.learn[0], m, attacks())
    attack = attacks()[chosen]
    counts = sum(balanced(those, attack(learn, those, m), m)[1] for those in found.judge)
    counts = np.asarray(counts)
    value = accuracy_of(counts.sum(axis=0))
    low, high = interval(counts, np.random.default_rng(1))
    verdict = "agrees" if value <= found.high else "THE AUDIT MISSED IT"
    return Line(
        name,
        f"{found.accuracy:.3f} [{found.low:.3f}, {found.high:.3f}] {found.adversary}",
        f"{value:.3f} [{low:.3f}, {high:.3f}]",
        f"{chosen} ({reached:.3f} on training days)",
        verdict,
    )


def main() -> int:
    """The table, a line as soon as it is known; status 1 where the audit missed something."""
    parser = argparse.ArgumentParser(prog="python -m studies.independent_attack", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the data sets")
    parser.add_argument("--only", action="append", help="a recording, such as sdu1; all where none is named")
    parser.add_argument("--design", default="0.1bit", help="leakage of the design that is attacked")
    parser.add_argument("--draws", type=int, default=DRAWS, help="disguised copies of each part")
    asked = parser.parse_args()
    known = recordings(asked.data)
    missed = False
    print(" | ".join(("recording", "audit, 99 percent", "attack, 99 percent by day", "chosen", "verdict")), flush=True)
    for name in asked.only or known:
        demand = ["--leakage", asked.design, "--distortion", "mae"]
        line = compare(name, known[name](), demand, asked.draws)
        missed |= line.verdict != "agrees"
        print(" | ".join(line), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
