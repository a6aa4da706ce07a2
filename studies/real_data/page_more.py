"""More on the office: which family was chosen, all fits side by side, an estimated private value, complete audits."""

from __future__ import annotations

from typing import Any

from studies.real_data.tables import (
    TESTS,
    WORDS,
    Record,
    at,
    control_of,
    gain_of,
    interval,
    nats,
    percent,
    strongest,
    table,
    told_at,
    two_of,
    value,
)

SECOND = "CO2, 5 min"


def choice(records: dict[str, Any], record: Record) -> str:
    """Candidates on the training file."""
    rows = records.get("choice on train", {}).get("candidates", ())
    good = sorted((r for r in rows if "accuracy" in r), key=lambda r: r["accuracy"])
    if not good:
        return ""
    cells = [
        [
            f"{r['minutes']} min",
            r["chosen"],
            f"{r['accuracy']:.2f}",
            WORDS.get(r["best"], r["best"]),
            f"{r['percent'][0]:.0f}",
            f"{r['gate'][0]} of {r['gate'][1]}",
            "-" if r["score"] is None else f"{r['score']:.2f}",
        ]
        for r in good
    ]
    head = ["period", "model class", "best adversary", "which", "distortion, %", "tests failed", "nats a reading"]
    best = good[0]
    return f"""
### Which period, which model class: decided on the training file

Each candidate is fitted on train, which is then disguised at *zero budget*: one value is played throughout. Under a
right model nobody tells anything then (0.5). Adversaries learn from some days of train and are judged on the others.

{table(head, cells, left=2)}

Every class fails the identifier's gate, at every period: no model of this office is right. The least leak on
train has **{best["chosen"]} at {best["minutes"]} min**, with {best["accuracy"]:.2f}; it is what the frontier
below is drawn
for. (Log-densities compare classes of the same period only.) At native minutes neighbours are so much alike that small
errors of the model add up over hundreds of readings. Coarser periods than 15 min leave too few occupied readings in
five days to fit anything. {_second(good)}
"""


def _second(good: list[Record]) -> str:
    """The class that predicts best at the same period, which is followed too."""
    same = [r for r in good if r["minutes"] == good[0]["minutes"] and r["score"] is not None]
    top = max(same, key=lambda r: r["score"], default=None)
    if top is None or top is good[0]:
        return ""
    return (
        f"What predicts best at that period, and what the identifier takes by itself, is {top['chosen']}: "
        f"{top['score'] - good[0]['score']:.1f} nats a reading better, and yet it leaks more "
        f"({top['accuracy']:.2f}) at a "
        f"larger distortion ({top['percent'][0]:.0f} percent). A model that follows the readings closely turns what it "
        "does not know into scores that stand out; a coarse one moves whole distributions. It is followed too."
    )


def fits(rooms: dict[str, Record]) -> str:
    """The premise on both test files."""
    cells = []
    for name, r in rooms.items():
        gate = r["gate"]
        for test in TESTS:
            p = r["premise"][test]
            told = max(p["gate"]["told"], key=lambda t: t["accuracy"] - t["chance"], default=None)
            cells.append(
                [
                    name,
                    r["model"],
                    "-" if gate is None else f"{gate['failed']} of {gate['tests']}",
                    test,
                    f"{p['gate']['failed']} of {p['gate']['tests']}",
                    "-" if told is None else f"{told['accuracy']:.2f} ({told['chance']:.2f})",
                    f"{p['shortfall']:.2f}",
                    f"{p['excess']:.2f}",
                    f"{p['excess'] * 86_400.0 / r['period']:.0f}",
                ]
            )
    head = [
        "fit",
        "model",
        "gate on train",
        "file",
        "gate there",
        "presence from scores (chance)",
        "shortfall",
        "excess",
        "excess a day",
    ]
    return f"""
### Where the premise fails, and by how much

Scores of the test files under the fitted families. *Shortfall* is how much less log-density the readings have than
readings of the model itself would, *excess* a lower bound on KL(truth || model), both in nats a reading. The theorem
adds the excess of all readings to the leakage, so the last column is to be compared with budgets of a few nats a day.

{table(head, cells, left=2)}

The premise fails, and not by a little: by the theorem alone nothing is promised at any period, for the excess of
one day
is larger than any budget that hides something. test2 is another regime (the door was open, air moved faster), and
there every family is far off. What follows is therefore measured, not proven.

{_by_value(rooms)}
"""


def _by_value(rooms: dict[str, Record]) -> str:
    """Mean, spread and memory of the scores by value, for the first fit."""
    name, record = next(iter(rooms.items()))
    cells: dict[tuple[str, str, str], dict[str, float]] = {}
    for test, found in record["premise"].items():
        for row in found["gate"]["by_value"]:
            cells.setdefault((test, str(row["channel"]), str(row["value"])), {})[row["test"]] = row["found"]
    if not cells:
        return ""
    rows = [
        [test, channel, label, *(f"{figure[k]:.2f}" if k in figure else "-" for k in ("mean", "spread", "memory"))]
        for (test, channel, label), figure in cells.items()
    ]
    head = ["file", "channel", record["private"], "mean (0)", "spread (1)", "memory (0)"]
    return (
        f"Scores of {name} by value, with what is right in brackets; memory is the sum of the squared correlations "
        f"with the ten scores before:\n\n{table(head, rows, left=3)}"
    )


def others(rooms: dict[str, Record], record: Record, pictures: set[str]) -> str:
    """All fits side by side."""
    cells = []
    for name, r in rooms.items():
        for asked in (0.0, 1.0, 3.0, 8.0):
            point = at(r, asked)
            if point is None:
                continue
            for test in TESTS:
                sizes = ", ".join(
                    f"{x:.3g} {unit}" for x, unit in zip(point["distortion"][test], r["units"], strict=True)
                )
                cells.append(
                    [
                        name,
                        f"{asked:g}",
                        test,
                        sizes,
                        f"{percent(point, test):.1f}",
                        two_of(r["raw"][test]),
                        strongest(point["rows"][test]),
                        "-" if asked or control_of(r, 0.0, test) is None else f"{control_of(r, 0.0, test):.2f}",
                        interval(gain_of(point["rows"][test])),
                    ]
                )
    head = [
        "fit",
        "nats a day",
        "file",
        "distortion",
        "% of mean",
        "raw",
        "best adversary, no clock",
        "model right",
        "gain over the clock",
    ]
    picture = (
        "\n\n![Frontiers of the other fits of the office on the test file](real-data-office.svg)\n"
        if "real-data-office.svg" in pictures
        else ""
    )
    return f"""
### All fits of the office side by side

A decision every 15 minutes. Three channels are one joint model with one draw; their distortion is the mean of the three
channels' percentages.
{picture}
{table(head, cells, left=1)}

{_read_others(rooms)}
"""


def _read_others(rooms: dict[str, Record]) -> str:
    words = []
    three = next((r for r in rooms.values() if len(r["units"]) == 3), None)
    if three is not None and (point := at(three, 0.0)) is not None:
        words.append(
            f"Three channels together are told from raw readings with {two_of(three['raw']['test'])} on "
            "test, and at zero budget "
            f"with {two_of(point['rows']['test'])} where {control_of(three, 0.0) or float('nan'):.2f} were "
            "right: temperature and "
            "humidity bring laws of their own that do not fit either, and a joint model has more ways to be wrong."
        )
    one = rooms.get("CO2, 1 min")
    if one is not None and (point := at(one, 0.0)) is not None:
        words.append(
            f"At native minutes zero budget leaves {two_of(point['rows']['test'])} on test; a family that fits "
            "the minutes badly hides little, whatever is drawn."
        )
    second = rooms.get(SECOND)
    if second is not None and (point := at(second, 0.0)) is not None:
        words.append(
            f"{second['model']} at 5 min, which predicts best, leaves {two_of(point['rows']['test'])} at "
            "zero budget, at "
            f"{percent(point, 'test'):.0f} percent."
        )
    return " ".join(words)


def estimated(record: Record) -> str:
    """The private value estimated."""
    found = record.get("estimated") or ()
    if not found:
        return ""
    cells = [
        [
            nats(e["asked"]),
            test,
            f"{e['right'][test]:.2f}",
            two_of(told_at(record, e["asked"], test)),
            strongest(e["rows"][test]),
        ]
        for e in found
        for test in TESTS
    ]
    head = [
        "nats a day",
        "file",
        "estimate right",
        "best adversary, presence told",
        "best adversary, presence estimated",
    ]
    return f"""
### Presence told, or estimated

The theorem wants the private value *told*. Where nobody tells it, the family's own Bayes filter can estimate it
from the
same readings; then nothing is promised.

{table(head, cells, left=2)}

{_read_estimated(record, found)}
"""


def _read_estimated(record: Record, found: list[Record]) -> str:
    first = found[0]
    told, guessed = value(told_at(record, first["asked"], "test")), value(first["rows"]["test"])
    right = first["right"]
    words = f"Accuracy of the estimate: {right['test']:.2f} on test and {right['test2']:.2f} on test2. "
    if told is None or guessed is None:
        return words
    if guessed > told + 0.02:
        return words + f"Estimating costs privacy on test: {guessed:.2f} where telling leaves {told:.2f}."
    return words + (
        f"On test it does not show ({guessed:.2f} against {told:.2f}): the leak of the wrong model is as "
        "large as that of "
        "wrong labels. That is no licence: an adversary can run the recursion backwards, and nothing bounds "
        "what it finds."
    )


def audits(records: dict[str, Any]) -> str:
    """The package's audit."""
    found = records.get("audit, 5 min", {}).get("audits", ())
    if not found:
        return ""
    parts = ["### Every adversary: the complete audit", ""]
    names = list(dict.fromkeys(r["adversary"] for a in found for r in a["rows"]))
    head = ["adversary", "raw", "raw, clock"]
    for a in found:
        head += [f"{a['asked']:g} nats a day", "with clock", "noise"]
    cells = []
    for name in names:
        row = [WORDS.get(name, "told the pseudo value (reference)" if name == "oracle" else name)]
        first = found[0]["rows"]
        row += [_cell(first, name, "raw", False), _cell(first, name, "raw", True)]
        for a in found:
            row += [
                _cell(a["rows"], name, *which)
                for which in (("disguised", False), ("disguised", True), ("noise", False))
            ]
        cells.append(row)
    parts.append(
        f"`us.audit` with its whole roster on `test`, {records['audit, 5 min']['model']} at 5 min, learned "
        "from the disguised "
        "training file; balanced accuracy, noise of equal distortion beside it. A star marks what the audit "
        "calls found: "
        "more than chance, or with the clock more than the clock, at 5 percent for all adversaries of a "
        "column together."
    )
    parts += ["", table(head, cells, left=1), "", _read_audits(found)]
    return "\n".join(parts)


def _cell(rows: list[Record], name: str, data: str, clock: bool) -> str:
    row = next((r for r in rows if r["adversary"] == name and r["data"] == data and r["clock"] is clock), None)
    return "-" if row is None else f"{row['balanced'][0]:.2f}{'*' if row['found'] else ''}"


def _read_audits(found: list[Record]) -> str:
    words = []
    for a in found:
        those = [r for r in a["rows"] if r["data"] == "disguised" and not r["reference"]]
        stars = sorted({WORDS.get(r["adversary"], r["adversary"]) for r in those if r["found"]})
        words.append(
            f"At {a['asked']:g} nats a day "
            f"{'nobody finds anything' if not stars else 'something is found by ' + ' and '.join(stars)} "
            f"(distortion {100.0 * a['distortion'][0] / a['mean'][0]:.0f} percent, {a['seconds']:.0f} s for the audit)."
        )
    skipped = {name: why for a in found for name, why in a["skipped"].items()}
    if skipped:
        words.append(
            "Not run: " + "; ".join(f"{WORDS.get(n, n)} ({why.rstrip('.')})" for n, why in skipped.items()) + "."
        )
    return " ".join(words)
