"""The office of Candanedo and Feldheim on the page."""

from __future__ import annotations

from typing import Any

from studies.real_data import page_fresh, page_more
from studies.real_data.tables import (
    TESTS,
    Record,
    at,
    control_of,
    gain_of,
    interval,
    minutes,
    nats,
    percent,
    reference,
    rooms_of,
    strongest,
    table,
    two_of,
    value,
)

HEADLINE = "CO2, 5 min, hidden Markov"
HOPE_PERCENT, HOPE_ACCURACY = 10.0, 0.65


def headline(office: dict[str, Record]) -> Record | None:
    """The record that the section is about."""
    return office.get(HEADLINE) or next(iter(office.values()), None)


def summary(records: dict[str, Any]) -> list[str]:
    """The short answer."""
    record = headline(rooms_of(records))
    if record is None:
        return []
    raw = value(record["raw"]["test"])
    clock = reference(record["raw"]["test"], "clock")
    lines = [
        "**The office (`candanedo`).** From raw CO2 the best adversary tells presence with balanced "
        f"accuracy {raw:.2f} on "
        f"the test file; the clock alone, without any reading, with {clock[0] if clock else float('nan'):.2f}."
    ]
    silent = at(record, 0.0)
    control = control_of(record, 0.0)
    if silent is not None:
        rows = silent["rows"]["test"]
        words = f"At zero budget it is {value(rows):.2f}"
        words += f", where {control:.2f} would come out if the model were right" if control is not None else ""
        words += f", at a distortion of {percent(silent, 'test'):.0f} percent of the mean reading"
        gain = value(rows, clock=True)
        words += (
            f"; together with the clock the output adds {gain:+.2f} to what the clock tells" if gain is not None else ""
        )
        lines.append(words + ".")
    lines.append(_hope_line(records))
    lines.append(page_fresh.summary(record))
    return [line for line in lines if line]


def _hope_line(records: dict[str, Any]) -> str:
    found = hope(records)
    if found is None:
        return ""
    name, point, accuracy = found
    met = accuracy < HOPE_ACCURACY
    size = percent(point, "test")
    words = (
        f"**The hope of this study**, below {HOPE_ACCURACY} at a distortion under 10 percent of the mean "
        "reading on the "
        f"test file, is {'met' if met else 'not met'}: the best point under 10 percent ({name}) has {accuracy:.2f} at "
        f"{size:.1f} percent."
    )
    floor = _floor(records, "test", HOPE_ACCURACY)
    if floor is not None and not met:
        words += (
            " No method could promise it: against somebody who looks at single outputs and knows their law on this "
            f"file, {HOPE_ACCURACY} takes a change of {floor:.1f} percent on average, whatever the method."
        )
    return words


def _floor(records: dict[str, Any], test: str, accuracy: float) -> float | None:
    rows = records.get("least distortion", {}).get(test, ())
    return next((row["percent"] for row in rows if row["accuracy"] == accuracy), None)


def hope(records: dict[str, Any]) -> tuple[str, Record, float] | None:
    """The point under 10 percent of the mean reading on test whose best adversary does worst."""
    found = [
        (name, point, value(point["rows"]["test"]))
        for name, record in rooms_of(records).items()
        if len(record["units"]) == 1
        for point in record["points"]
        if percent(point, "test") < HOPE_PERCENT
    ]
    return min((f for f in found if f[2] is not None), key=lambda f: f[2], default=None)


def baselines(records: dict[str, Any]) -> str:
    """The published baselines."""
    rows = records.get("baselines", {}).get("rows", ())
    if not rows:
        return ""
    cells = [
        [
            r["model"],
            r["test"],
            f"{r['published']:.3f}",
            f"{r['accuracy']:.3f}",
            f"{r['balanced']:.3f}",
            f"{r['majority']:.3f}",
        ]
        for r in rows
    ]
    head = ["model", "file", "published", "here", "balanced accuracy", "always the more frequent value"]
    worst = max(abs(r["published"] - r["accuracy"]) for r in rows)
    return f"""
## Published baselines, reproduced

Presence from the CO2 reading of the same minute alone (accuracy), by the authors' script and by scikit-learn here.

{table(head, cells, left=2)}

The linear discriminant comes out to the third decimal; the largest difference of all is {worst:.3f}, of a random
forest that another library grew. Accuracy flatters: on test2 the discriminant hardly beats a guess that never
looks. That is why everything below is *balanced* accuracy.
"""


def office(records: dict[str, Any], pictures: set[str]) -> str:
    """The section on the office."""
    rooms = rooms_of(records)
    record = headline(rooms)
    if record is None:
        return ""
    rooms = {name: r for name, r in rooms.items() if r is record} | rooms
    parts = [
        "## One office: presence from CO2 (`candanedo`)",
        page_more.choice(records, record),
        page_more.fits(rooms),
        _frontier(records, record, pictures),
        _least(records, record),
        _hope(records),
        page_fresh.fresh(rooms),
        page_more.others(rooms, record, pictures),
        page_more.estimated(record),
        page_more.audits(records),
    ]
    return "\n\n".join(part.strip() for part in parts if part)


def _point_rows(record: Record, test: str) -> list[list[str]]:
    rows = []
    for point in record["points"]:
        noise = point.get("noise", {})
        label = f"decision every {point['minutes']:g} min" if point["kind"] == "causal" else _epoch(point["minutes"])
        budget = "none (true value)" if point["asked"] is None else nats(point["nats_a_day"])
        control = (
            control_of(record, point["asked"], test)
            if point["kind"] == "causal" and point["minutes"] == 15.0 and point["asked"] is not None
            else None
        )
        rows.append(
            [
                label,
                budget,
                f"{sum(point['distortion'][test]) / len(point['distortion'][test]):.0f}",
                f"{percent(point, test):.1f}",
                strongest(point["rows"][test]),
                "-" if control is None else f"{control:.2f}",
                *(two_of(noise.get(how, {}).get(test)) for how in ("white", "slow")),
                interval(gain_of(point["rows"][test])),
            ]
        )
    return rows


def _epoch(every: float) -> str:
    return (
        "drawn anew every hour"
        if every == 60.0
        else "drawn anew every day"
        if every == 1440.0
        else f"every {every:g} min"
    )


def _frontier(records: dict[str, Any], record: Record, pictures: set[str]) -> str:
    head = [
        "design",
        "nats a day",
        "ppm",
        "% of mean",
        "best adversary, no clock",
        "model right",
        "white noise",
        "slow noise",
        "gain over the clock",
    ]
    parts = [f"### The frontier: {record['model']}, {minutes(record['period'])}"]
    if "real-data-frontier.svg" in pictures:
        parts.append("![Best adversary by distortion on both test files, beside noise](real-data-frontier.svg)")
    for test, words in TESTS.items():
        raw, clock = record["raw"][test], reference(record["raw"][test], "clock")
        parts.append(
            f"**{test}** ({words}). Raw readings: {strongest(raw)}; gain over the clock "
            f"{interval(gain_of(raw))}. The clock "
            f"alone: {interval(clock)}."
        )
        parts.append(table(head, _point_rows(record, test), left=1))
    parts.append(_read_frontier(records, record))
    return "\n\n".join(parts)


def _read_frontier(records: dict[str, Any], record: Record) -> str:
    silent, raw = at(record, 0.0), value(record["raw"]["test"])
    if silent is None or raw is None:
        return ""
    best, control = value(silent["rows"]["test"]), control_of(record, 0.0)
    points = [p for p in record["points"] if p.get("noise")]
    beaten = {
        how: sum(
            (value(p["rows"]["test"]) or 0.0) < (value(p["noise"][how].get("test")) or 0.0)
            for p in points
            if p["noise"][how]
        )
        for how in ("white", "slow")
    }
    tried = {how: sum(bool(p["noise"][how]) for p in points) for how in ("white", "slow")}
    gains = [g for p in points if (g := gain_of(p["rows"]["test"])) is not None]
    words = [
        f"Read: on test the best adversary falls from {raw:.2f} to {best:.2f} at zero budget; with a right "
        "model it would be "
        f"{control:.2f} there, so "
        + (
            f"{best - control:.2f} of balanced accuracy is what the wrong model gives away and no randomizer can hide."
            if best is not None and control is not None and best - control > 0.02
            else "the wrong model gives away little."
        )
        if control is not None
        else "",
        f"At equal distortion the disguise leaves the adversary less than white noise does at {beaten['white']} of "
        f"{tried['white']} budgets, and less than slow noise at {beaten['slow']} of {tried['slow']}.",
    ]
    if gains:
        words.append(
            "Beyond the clock there is next to nothing to find on this file, disguised or raw: the largest "
            "gain at any budget "
            f"is {max(g[0] for g in gains):+.2f}, and of raw readings "
            f"{(gain_of(record['raw']['test']) or [0.0])[0]:+.2f}."
        )
    words.insert(1, _carried(records, best))
    words.append(_regime(record, silent))
    return " ".join(word for word in words if word)


def _carried(records: dict[str, Any], found: float | None) -> str:
    """Whether what was chosen on train holds on test."""
    rows = [r for r in records.get("choice on train", {}).get("candidates", ()) if "accuracy" in r]
    least = min((r["accuracy"] for r in rows), default=None)
    if least is None or found is None or found < least + 0.05:
        return ""
    return (
        f"**The choice made on train did not carry over**: there this family left {least:.2f}, on days that "
        "the adversary had "
        "not seen but the family had."
    )


def _regime(record: Record, silent: Record) -> str:
    """What the change of regime does to those who learned before it, and to those who learned within it."""
    after, raw = value(silent["rows"]["test2"]), value(record["raw"]["test2"])
    inside, before = (value(rows.get("test2, insider")) for rows in (silent["rows"], record["raw"]))
    if after is None or raw is None:
        return ""
    words = (
        f"On test2, another regime, adversaries who learned from train have {after:.2f} at zero budget ({raw:.2f} raw)"
    )
    words += ": no better than chance, which is no privacy, for signs change with the regime." if after < 0.55 else "."
    if inside is not None and before is not None:
        words += (
            " One who has labels of the first half of test2 itself tells presence in its second half with "
            f"{inside:.2f} at "
            f"zero budget, and with {before:.2f} from raw readings."
        )
        if inside > before + 0.02:
            words += " The output of a family that is far off tells *more* than the readings it hides."
    return words


def _least(records: dict[str, Any], record: Record) -> str:
    found = records.get("least distortion", {})
    names = [name for name in ("train", "test", "test2") if name in found]
    if not names:
        return ""
    accuracies = [row["accuracy"] for row in found[names[0]]]
    cells = [[name, *(f"{row['percent']:.1f}" for row in found[name])] for name in names]
    return f"""
### What hiding must cost, whatever the method

Somebody who looks at one output at a time, and knows its law in both cases, is right as often as the two laws
differ. To
keep *him* to a balanced accuracy, readings must be moved until the laws are near enough. The least mean change that
does it is a linear program over the raw readings, and no method of any kind goes below it (percent of the mean
reading):

{table(["file", *(f"{a:g}" for a in accuracies)], cells, left=1)}

An adversary who looks at whole sequences, as ours do, makes it dearer still. This is why distortion cannot be small
in a closed office: occupied and empty readings are hundreds of ppm apart.
"""


def _hope(records: dict[str, Any]) -> str:
    found = hope(records)
    if found is None:
        return ""
    name, point, accuracy = found
    noise = {how: value(point.get("noise", {}).get(how, {}).get("test")) for how in ("white", "slow")}
    told = ", ".join(f"{x:.2f} for {how} noise of equal distortion" for how, x in noise.items() if x is not None)
    raw = value(rooms_of(records)[name]["raw"]["test"])
    met = accuracy < HOPE_ACCURACY
    budget = "no budget" if point["asked"] is None else f"{nats(point['nats_a_day'])} nats a day"
    return f"""
### The hope, and what came of it

Hoped for: at a distortion under 10 percent of the mean reading, the best adversary's balanced accuracy on test
falls from
about 0.95 to below 0.65, and below what noise of equal distortion achieves. Found: of all designs tried that stay under
10 percent there, the lowest accuracy is **{accuracy:.2f}** (raw {raw:.2f}), at {percent(point, "test"):.1f} percent
with {name}, {budget}{"; " + told if told else ""}. **The hope is {"met" if met else "not met"}.** {_why(records, met)}
"""


def _why(records: dict[str, Any], met: bool) -> str:
    floor, none = (_floor(records, "test", a) for a in (HOPE_ACCURACY, 0.5))
    if met or floor is None or none is None:
        return ""
    verdict = "Nor could any method promise it" if floor >= HOPE_PERCENT else "It is near what any method could promise"
    return (
        f"{verdict}: against somebody who looks at single outputs only, but knows their law on this very file, "
        f"{floor:.1f} percent is the least for 0.65 and {none:.1f} percent for 0.5. (Our adversaries know less, the "
        "law on train, and more, whole sequences.)"
    )
