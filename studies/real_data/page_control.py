"""The negative control on the page."""

from __future__ import annotations

from typing import Any

from studies.real_data.page_others import CLOCK, HEAD, LITTLE, cells_of, first, names
from studies.real_data.tables import interval, rooms_of, strongest, table


def robod(records: dict[str, Any], pictures: set[str]) -> str:
    """The negative control."""
    found = rooms_of(records)
    if not found:
        return ""
    cells, gains, same = [], {}, []
    for name, r in found.items():
        rows, test = first(r["raw"]), next(iter(r["raw"]))
        clock = next((x for x in rows if x["adversary"] == "clock"), None)
        best = max((x for x in rows if x["clock"] and not x["reference"]), key=lambda x: x["gain"][0], default=None)
        alone = max(
            (x for x in rows if not x["clock"] and not x["reference"]), key=lambda x: x["nats"][0], default=None
        )
        gains[name] = None if best is None else best["gain"]
        if max((p["percent"][test][0] for p in r["points"]), default=1.0) < 0.05:
            same.append(name)
        cells.append(
            [
                name,
                f"{100.0 * r['recordings'][test]['shares'][1]:.0f}",
                strongest(rows),
                "-" if alone is None else f"{max(0.0, alone['nats'][0]):.2f}",
                interval(None if clock is None else clock["balanced"]),
                interval(gains[name]),
            ]
        )
    head = ["room", "present, %", "raw CO2, best adversary, no clock", "nats a guess", "clock alone"]
    parts = [
        "## The negative control (`robod`)",
        "Three rooms, CO2 every five minutes, 29 days; the first two thirds of the time are learned from. "
        "*Nats a guess* is a lower "
        "bound on what raw readings tell of presence.",
        table([*head, "gain of raw CO2 over the clock"], cells, left=1),
        _read_control(gains, same),
        "What the designs do to it, for completeness:",
        table([*HEAD, *CLOCK], cells_of(found, clock=True), left=2),
    ]
    return "\n\n".join(part for part in parts if part)


def _read_control(gains: dict[str, Any], same: list[str]) -> str:
    """Whether there is anything to protect, room by room."""
    little = [name for name, g in gains.items() if g is not None and g[0] < LITTLE]
    rest = [name for name, g in gains.items() if g is not None and g[0] >= LITTLE]
    words = [f"Read: a gain under {LITTLE} is called little, a limit that was set before there were figures."]
    if little:
        words.append(
            f"**There is little to protect in {names(little)}**: an adversary with readings *and* clock "
            "does no better than "
            "one with the clock. Disguising these readings costs distortion and hides what nobody could see."
        )
    if rest:
        told = ", ".join(
            f"{gains[name][0]:+.2f} [{gains[name][1]:.2f}, {gains[name][2]:.2f}] in {name}" for name in rest
        )
        words.append(
            f"In {names(rest)} it is not the clean negative control that was expected: the best of five "
            "adversaries, picked on "
            f"the test data, adds {told} to the clock. "
            "That is few nats (table), but it is not nothing, and the clock alone is weak there."
        )
        unsure = [name for name in rest if gains[name][1] <= 0.0]
        if unsure:
            words.append(f"In {names(unsure)} the interval holds zero: it may be chance.")
    if same:
        words.append(
            f"In {names(same)} the identifier finds too few readings of one value to give it a law of its "
            "own. The family "
            "then has one law for both, and a design of it changes nothing and hides nothing; its notes say so."
        )
    return " ".join(words)
