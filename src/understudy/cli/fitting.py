"""``understudy fit``: from a file with readings and labels to a family of models, and whether they fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import understudy as us
from understudy.cli.reading import Roles, located, read
from understudy.cli.terminal import filled, print_json, progress, say, show, warn
from understudy.errors import ConfigurationError
from understudy.paths import check_paths
from understudy.report.page_candidates import HEAD, candidates, remarks
from understudy.report.page_facts import doubts, misfit, span


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of the file are; lists may be empty, and what was not typed is None."""

    readings: list[str]
    private: str
    time: str | None = None
    segment: str | None = None
    public: list[str] | None = None
    actuators: list[str] | None = None
    period: str | None = None
    bins: str | None = None
    model: str | None = None
    grid: str = "auto"
    format: str | None = None
    delimiter: str = ","


def run(source: str, columns: Columns, out: Path, as_json: bool, strict: bool) -> bool:
    """Read, fit, write, and say what came out; whether the exit status is to be 0."""
    check_paths({"HISTORY": source}, {"--out": out})
    found = read(source, roles(columns))
    with located(found):
        family = fitted(found.frame(), columns)
    mark = stored(family, out)
    about = family.about or {}
    if as_json:
        print_json({"family": str(out), "fingerprint": mark, "values": list(family.values), "about": about})
    else:
        tell(family)
        say(f"Family written to {out}")
        if misfit(about) and about.get("gate") is not None and offers_free(about.get("model") or {}):
            say("Noise of any shape may fit where this one does not: --model free")
        say(f"Next: understudy design {out} --leakage 0.1bit --distortion mae -o design.json")
    for words in doubts(about):
        warn(words)
    return not (strict and misfit(about))


def roles(columns: Columns) -> Roles:
    """Which columns of the file are needed, and what for."""
    c = columns
    return Roles(c.readings, c.private, c.time, c.segment, tuple(c.public or ()), c.format, c.delimiter)


def fitted(frame: Any, columns: Columns) -> us.Family:
    """The family that fits best; only what was typed is passed on."""
    from understudy.identify.identifier import fit

    given: dict[str, Any] = {
        "time": columns.time,
        "segment": columns.segment,
        "public": columns.public,
        "actuators": columns.actuators,
        "period": columns.period,
        "bins": columns.bins,
        "model": None if columns.model == "auto" else columns.model,
    }
    rest = {name: value for name, value in given.items() if value}
    if columns.grid != "auto":
        rest["grid"] = None if columns.grid == "none" else steps(columns.grid, len(columns.readings))
    reading: Any = columns.readings[0] if len(columns.readings) == 1 else list(columns.readings)
    with progress("fitting the models") as told:
        return fit(frame, reading=reading, private=columns.private, progress=told, **rest)


def steps(text: str, channels: int) -> Any:
    """The step of each channel, None where it has none.

    >>> steps("0.5,none", 2), steps("5", 1)
    ([0.5, None], [5.0])
    """
    try:
        found = [None if part.strip() == "none" else float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != channels:
        raise ConfigurationError(
            f"--grid {text}: auto, none, or a step for each of the {channels} readings is wanted, as in 0.5"
        )
    return found


def stored(family: us.Family, out: Path) -> str:
    """Write the family; returns its fingerprint."""
    from understudy.identify.storing import save_family

    return str(save_family(family, out))


def loaded(path: Path) -> us.Family:
    """A family from its file."""
    from understudy.identify.storing import load_family

    found: us.Family = load_family(path)
    if not isinstance(found, us.Family):
        raise ConfigurationError(f"{path} holds no family; `understudy fit` writes one")
    return found


def tell(family: us.Family) -> None:
    """The family, the candidates, the gate and the notes."""
    about = family.about or {}
    odds = ", ".join(
        f"{value}: {100.0 * p:.3g}%" for value, p in zip(family.values, family.prior.tolist(), strict=True)
    )
    private = about.get("private") or "the private parameter"
    say(f"Hidden:   {private}, one of {len(family.values)} values ({odds})")
    readings = ", ".join(about.get("readings") or []) or f"{family.dim} channels"
    say(f"Readings: {readings}" + (f", one every {span(about['period'])}" if about.get("period") else ""))
    model = about.get("model") or {}
    say(f"Model:    {model.get('name') or 'as given'}")
    compared(model)
    gate = about.get("gate")
    if gate:
        verdicts(gate)
    if about.get("notes"):
        say("\nWhat was done to the data")
        for note in about["notes"]:
            say(filled(str(note), "  - "))
    say()


def offers_free(model: dict[str, Any]) -> bool:
    """Whether a class with noise of any shape could be used and was not chosen."""
    if "free noise" in str(model.get("name")):
        return False
    found = [row for row in model.get("table") or () if isinstance(row, dict) and "free noise" in str(row.get("name"))]
    return not found or any(row.get("usable", True) for row in found)


def compared(model: dict[str, Any]) -> None:
    """The candidates, and why some of them cannot be used."""
    rows = candidates(model)
    if not rows:
        return
    say()
    show("Candidates, by held-out log-likelihood per reading", HEAD, rows, right=(1, 2, 3, 4))
    for note in remarks(model):
        say(filled(note, "  - "))
    say()


def verdicts(gate: dict[str, Any]) -> None:
    """The gate, a line for each test."""
    say(f"Gate: {'passed' if gate.get('passed') else 'FAILED'} (scores on held-out data)")
    for v in gate.get("verdicts") or ():
        where = "" if v.get("class") is None or v.get("sentence") else f", {v['class']}"
        lead = f"  {'ok  ' if v.get('passed') else 'FAIL'} "
        say(filled(f"{v.get('name')}{where}: {v.get('sentence') or v.get('value')}", lead))
