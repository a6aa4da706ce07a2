"""Where the premise fails, over all rooms of the page."""

from __future__ import annotations

from typing import Any

from studies.real_data.tables import Record, rooms_of, table, value


def _silent(record: Record) -> Record | None:
    return next((p for p in record["points"] if p["asked"] == 0.0 and p["kind"] == "causal"), None)


def _picture(name: str, words: str, pictures: set[str]) -> str:
    return f"![{words}]({name})" if name in pictures else ""


def told_rows(results: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """(room, a classifier on the scores, chance, best adversary at zero budget) for every room and recording."""
    found = []
    for dataset, records in results.items():
        for name, r in rooms_of(records).items():
            for test, p in r["premise"].items():
                told = max(p["gate"]["told"], key=lambda t: t["accuracy"] - t["chance"], default=None)
                point = _silent(r)
                if told is None or point is None or test not in point["rows"]:
                    continue
                adversary = value(point["rows"][test])
                title = f"{dataset}: {name}" + (f", {test}" if len(r["premise"]) > 1 else "")
                found.append(
                    (title, told["accuracy"], told["chance"], adversary if adversary is not None else told["chance"])
                )
    return found


def premise(results: dict[str, Any], pictures: set[str]) -> str:
    """All rooms: gate, excess, what scores tell."""
    cells = []
    for dataset, records in results.items():
        for name, r in rooms_of(records).items():
            for test, p in r["premise"].items():
                told = max(p["gate"]["told"], key=lambda t: t["accuracy"] - t["chance"], default=None)
                gate = r["gate"]
                cells.append(
                    [
                        f"{dataset}: {name}",
                        test,
                        "-" if gate is None else "passed" if gate["passed"] else f"{gate['failed']} of {gate['tests']}",
                        f"{p['gate']['failed']} of {p['gate']['tests']}",
                        "-" if told is None else f"{told['accuracy']:.2f} ({told['chance']:.2f})",
                        f"{p['shortfall']:.2f}",
                        f"{p['excess']:.2f}",
                        f"{p['excess'] * 86_400.0 / r['period']:.0f}",
                    ]
                )
    if not cells:
        return ""
    head = [
        "fit",
        "recording",
        "gate on train",
        "gate there",
        "value from scores (chance)",
        "shortfall",
        "excess",
        "excess a day",
    ]
    least = sum(float(row[-2]) < 0.05 for row in cells)
    return "\n\n".join(
        part
        for part in [
            "## The premise, over all rooms",
            "Tests of the scores that fail, how well a classifier tells the private value from scores alone "
            "(best of windows of 1, "
            "15 and 60 readings), and nats a reading as above. The theorem holds with the excess added; a "
            "day of it is in the "
            "last column.",
            _picture("real-data-scores.svg", "What scores tell of the private value in every recording", pictures),
            table(head, cells, left=2),
            f"Read: an excess under 0.05 nats a reading, in {least} of {len(cells)} recordings, comes from "
            "few readings as much as from "
            "a good fit: with some hundred of them a gate sees only gross errors. Scores with a small excess still let "
            "adversaries find something, for they look at whole days. The picture shows both beside chance: where the "
            "square stands to the right of the circle, the adversary has found more in the output than the "
            "gate's classifier in "
            "the scores, often the time of day.",
        ]
        if part
    )
