"""The other data sets on the page, and where the premise fails over all of them."""

from __future__ import annotations

from typing import Any

from studies.real_data.tables import Record, interval, minutes, nats, percent, reference, strongest, table, value

LITTLE = 0.05
"""A gain over the clock below this, in balanced accuracy, is called little: set before there were figures."""


def rooms(records: dict[str, Any] | None) -> dict[str, Record]:
    """The records that are rooms."""
    return {name: record for name, record in (records or {}).items() if "points" in record}


def decisions(records: list[Record]) -> tuple[float, ...]:
    """Minutes between decisions that occur, the shortest first."""
    found = {point["minutes"] for record in records for point in record["points"] if point["kind"] == "causal"}
    return tuple(sorted(found))


def summary(results: dict[str, Any]) -> list[str]:
    """The short answer for each."""
    lines = []
    lecture = rooms(results.get("sdu_ou44"))
    presence = {name: r for name, r in lecture.items() if "presence" in name}
    if presence:
        raw = [first(r["raw"]) for r in presence.values()]
        before = _span([value(rows) for rows in raw])
        gains = _span([_gain(rows) for rows in raw])
        silent = [p for r in presence.values() if (p := _at(r, 0.0)) is not None]
        after = _span([value(first(p["rows"])) for p in silent])
        left = _span([_gain(first(p["rows"])) for p in silent])
        lines.append(
            f"**Four rooms (`sdu_ou44`).** Presence is told from raw CO2 with {before}, a gain of {gains} "
            "over the clock; at zero "
            f"budget with {after}, a gain of {left} over the clock."
        )
    climate = rooms(results.get("iotsec"))
    if climate:
        raw = _span([value(first(r["raw"])) for r in climate.values()])
        after = _span([value(first(p["rows"])) for r in climate.values() if (p := _at(r, 0.0)) is not None])
        lines.append(
            "**Temperature and humidity (`iotsec`).** The number of people is told from raw readings with "
            f"{raw} and at zero "
            f"budget with {after}; chance is 0.33 to 0.50."
        )
    control = rooms(results.get("robod"))
    if control:
        best = [max((x["gain"] for x in first(r["raw"]) if x["clock"] and not x["reference"]), default=None)
                for r in control.values()]  # fmt: skip
        there = {name: g for name, g in zip(control, best, strict=True) if g is not None}
        little = [name for name, g in there.items() if g[0] < LITTLE]
        rest = ", ".join(
            f"{name} ({g[0]:+.2f} [{g[1]:.2f}, {g[2]:.2f}])" for name, g in there.items() if name not in little
        )
        if there:
            lines.append(
                "**The negative control (`robod`).** "
                + (
                    f"In {names(little)} there is little to protect: raw CO2 adds next to nothing to the clock. "
                    if little
                    else ""
                )
                + (f"Against expectation it adds something in {rest}." if rest else "")
            )
    lines.append(_noise_line(results))
    lines.append(
        "**The premise fails everywhere**, as far as there are enough readings to see it: what leaks at "
        "zero budget is the wrong "
        "model's, not the randomizer's. No figure on this page is a guarantee."
    )
    return [line for line in lines if line]


def _noise_line(results: dict[str, Any]) -> str:
    """The disguise at zero budget beside noise of equal distortion, over all recordings of the page."""
    told = []
    for how in ("white", "slow"):
        less = total = 0
        for records in results.values():
            for r in rooms(records).values():
                point = _at(r, 0.0)
                for test, rows in (point or {}).get("noise", {}).get(how, {}).items():
                    a, b = value(point["rows"][test] if point else None), value(rows)
                    if a is not None and b is not None and point and percent(point, test) > 0.1:
                        less, total = less + (a < b), total + 1
        told.append(f"{how} noise in {less} of {total} recordings")
    verdict = (
        "With models this wrong it is no better than noise that is as slow as the room."
        if 2 * less <= total
        else "Even with models this wrong it is better than noise."
    )
    return (
        "**Beside noise of equal distortion** the disguise at zero budget leaves the best adversary less "
        f"than {told[0]}, and less "
        f"than {told[1]}. {verdict}"
        if told
        else ""
    )


def _span(values: list[float | None]) -> str:
    there = [v for v in values if v is not None]
    if not there:
        return "-"
    low, high = min(there), max(there)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def first(by_test: dict[str, Any]) -> Any:
    """What belongs to the first recording."""
    return next(iter(by_test.values()))


def _gain(rows: list[Record]) -> float | None:
    return value(rows, clock=True)


def _at(record: Record, asked: float | None) -> Record | None:
    return next((p for p in record["points"] if p["asked"] == asked and p["kind"] == "causal"), None)


def cells_of(records: dict[str, Record], clock: bool) -> list[list[str]]:
    """Rows of a table of rooms and budgets."""
    found = []
    for name, r in records.items():
        test = next(iter(r["raw"]))
        before = strongest(r["raw"][test])
        base = [interval(reference(r["raw"][test], "clock")), _signed(_gain(r["raw"][test]))] if clock else []
        found.append([name, r["model"], "raw", "0", before, "-", "-", "-", *base])
        for point in r["points"]:
            noise = point.get("noise", {})
            budget = "true value" if point["asked"] is None else nats(point["nats_a_day"])
            control = next((c for c in r["controls"] if c["asked"] == point["asked"]), None)
            found.append(
                [
                    "",
                    "",
                    budget,
                    f"{percent(point, test):.1f}",
                    strongest(point["rows"][test]),
                    "-" if control is None else _two(value(control["rows"][test])),
                    *(_two(value(noise.get(how, {}).get(test))) for how in ("white", "slow")),
                    *(["", _signed(_gain(point["rows"][test]))] if clock else []),
                ]
            )
    return found


def _two(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"


def _signed(x: float | None) -> str:
    return "-" if x is None else f"{x:+.2f}"


HEAD = [
    "room",
    "model",
    "nats a day",
    "% of mean",
    "best adversary, no clock",
    "model right",
    "white noise",
    "slow noise",
]
CLOCK = ["clock alone", "gain over the clock"]


def sdu(records: dict[str, Any], pictures: set[str]) -> str:
    """Four rooms of a university building."""
    found = rooms(records)
    if not found:
        return ""
    presence = {name: r for name, r in found.items() if "presence" in name}
    counts = {name: r for name, r in found.items() if "presence" not in name}
    bins = "; ".join(f"{name.split(',')[0]}: {', '.join(r['values'])}" for name, r in counts.items())
    parts = [
        "## Four rooms of a university building (`sdu_ou44`)",
        "CO2 means over 15 minutes: the sensors hold a reading for about five minutes, at no regular period, and the "
        "identifier advises a period of about 15. Days are shuffled, so each is a segment of its own; ten "
        "to learn from, five to "
        "be judged on (every third by its random number). A filter starts anew every day.",
        picture("real-data-sdu.svg", "Frontiers of four rooms, presence and counts", pictures),
    ]
    if presence:
        parts += ["**Presence** (nobody, or somebody)", table([*HEAD, *CLOCK], cells_of(presence, clock=True), left=2)]
        parts.append(_read_sdu(presence))
    if counts:
        parts += [f"**Counts in bins**, as the identifier makes them ({bins})"]
        parts.append(table([*HEAD, *CLOCK], cells_of(counts, clock=True), left=2))
        parts.append(_read_counts(counts))
    return "\n\n".join(part for part in parts if part)


def _read_sdu(presence: dict[str, Record]) -> str:
    silent = {name: p for name, r in presence.items() if (p := _at(r, 0.0)) is not None}
    if not silent:
        return ""
    after = {name: value(first(p["rows"])) or 0.0 for name, p in silent.items()}
    before = {name: value(first(presence[name]["raw"])) or 0.0 for name in silent}
    right = {name: _control(presence[name]) for name in silent}
    words = [
        f"Read: at zero budget, without a clock, the best adversary still has {_span(list(after.values()))}, and "
        f"{_span(list(right.values()))} where the model is right. (That is more than one half because five "
        "days are few, "
        "the best of five adversaries is taken, and a filter that starts at midnight shows by how far it has settled "
        "what time it is.)"
    ]
    worse = [name for name in silent if after[name] > before[name] + 0.02]
    if worse:
        words.append(
            f"In {names(worse)} the output tells *more* than the raw readings do: whitening under a wrong model makes "
            "small differences large."
        )
    words.append(_beyond(presence, silent))
    words.append(_against_noise(silent))
    return " ".join(word for word in words if word)


def names(names: list[str]) -> str:
    """Names of rooms in a sentence."""
    return ", ".join(name.split(", presence")[0].split(", counts")[0] for name in names)


def _beyond(found: dict[str, Record], silent: dict[str, Record]) -> str:
    """What is left beyond the clock at zero budget, beside raw readings."""
    gains = {name: g for name, p in silent.items() if (g := _gain(first(p["rows"]))) is not None}
    raw = {name: g for name in gains if (g := _gain(first(found[name]["raw"]))) is not None}
    if not raw:
        return ""
    hidden = [name for name in raw if gains[name] <= 0.5 * max(raw[name], 0.0) + 0.01]
    rest = [name for name in raw if name not in hidden]
    verdict = f"By this measure zero budget hides most of it in {names(hidden)}" if hidden else "It hides it nowhere"
    verdict += f", and not in {names(rest)}." if rest and hidden else "."
    return (
        f"Beyond the clock the output adds {_range(list(gains.values()))} at zero budget, raw readings "
        f"{_range(list(raw.values()))}; intervals are about 0.1 wide on either side. {verdict}"
    )


def _against_noise(points: dict[str, Record]) -> str:
    """Whether the disguise leaves less than noise of equal distortion, room by room."""
    told = []
    for how in ("white", "slow"):
        pairs = [
            (value(first(p["rows"])), value(first(p["noise"][how])))
            for p in points.values()
            if p.get("noise", {}).get(how)
        ]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if both:
            told.append(f"{how} noise in {sum(a < b for a, b in both)} of {len(both)}")
    return f"At zero budget it leaves an adversary less than {' and less than '.join(told)}." if told else ""


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:+.2f}" if f"{low:+.2f}" == f"{high:+.2f}" else f"{low:+.2f} to {high:+.2f}"


def _control(record: Record) -> float | None:
    control = next((c for c in record["controls"] if c["asked"] == 0.0), None)
    return None if control is None else value(first(control["rows"]))


def _read_counts(counts: dict[str, Record]) -> str:
    raw = _span([value(first(r["raw"])) for r in counts.values()])
    after = _span([value(first(p["rows"])) for r in counts.values() if (p := _at(r, 0.0)) is not None])
    right = _span([_control(r) for r in counts.values()])
    chance = _span([1.0 / len(r["values"]) for r in counts.values()])
    return (
        f"Read: with several bins raw readings are right {raw} of the time, balanced, zero budget leaves "
        f"{after}, a right model "
        f"{right}; chance is {chance}. Bins are held constant between decisions, which counts of people are not."
    )


def iotsec(records: dict[str, Any], pictures: set[str]) -> str:
    """Three locations, two channels."""
    found = rooms(records)
    if not found:
        return ""
    period = minutes(next(iter(found.values()))["period"])
    units = []
    for name, r in found.items():
        point, test = _at(r, 0.0), next(iter(r["raw"]))
        if point is not None:
            sizes = " and ".join(f"{x:.2g} {u}" for x, u in zip(point["distortion"][test], r["units"], strict=True))
            units.append(f"{name}: {sizes}")
    silent = {name: p for name, r in found.items() if (p := _at(r, 0.0)) is not None}
    after = _span([value(first(p["rows"])) for p in silent.values()])
    raw = _span([value(first(r["raw"])) for r in found.values()])
    right = _span([_control(r) for r in found.values()])
    parts = [
        "## Three locations: people from temperature and humidity (`iotsec`)",
        f"Two channels in one joint model, one draw for both, means over {period}, node 1 of each location. "
        "Files are experiments of one "
        "to two hours and segments of their own; every third is judged on. The clock is the time since an "
        "experiment began, in steps of six minutes: experiments followed a plan. Model classes "
        "are limited to "
        "vector autoregressions; noise without an assumed shape would take minutes for each fit of two "
        "channels. Percentages "
        "are means over both channels; a temperature in degrees Celsius has no natural zero, so they say little by "
        "themselves.",
        picture("real-data-iotsec.svg", "Frontiers of three locations", pictures),
        table([*HEAD, *CLOCK], cells_of(found, clock=True), left=2),
        f"Read: raw readings tell the number of people with {raw}; zero budget leaves {after}, a right "
        f"model {right}. It "
        f"changes readings by little ({'; '.join(units)}), and what a file's level tells of its people goes "
        "with it, but "
        f"wide intervals and a wrong model leave much open. {_against_noise(silent)}",
    ]
    return "\n\n".join(part for part in parts if part)


def picture(name: str, words: str, pictures: set[str]) -> str:
    """A picture, if it is there."""
    return f"![{words}]({name})" if name in pictures else ""
