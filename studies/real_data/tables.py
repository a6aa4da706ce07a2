"""Small helpers of the page: figures as text, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from studies.real_data.attacking import best

Record = dict[str, Any]

TESTS = {"test": "door mostly closed", "test2": "door mostly open"}
"""The test files of the office."""

WORDS = {
    "blind": "no adversary: the odds alone",
    "clock": "no adversary: the clock alone",
    "windowed": "windowed estimate",
    "logistic": "logistic regression",
    "boosting": "gradient boosting",
    "neighbours": "nearest neighbours",
    "changes": "change detection",
    "exact": "exact Bayes",
    "smoother": "Bayes smoother",
    "hmm": "hidden Markov",
    "redraws": "redraws",
    "grid": "grid inversion",
    "digits": "digits",
}


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> str:
    """A table in Markdown; the first `left` columns are words, the others figures.

    >>> print(table(["room", "rows"], [["a", 3]]))
    | room | rows |
    |---|---:|
    | a | 3 |
    """
    marks = ["---" if k < left else "---:" for k in range(len(head))]
    lines = [head, *([str(cell) for cell in row] for row in rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], f"|{'|'.join(marks)}|", *text[1:]])


def interval(figure: Sequence[float] | None, places: int = 2) -> str:
    """A figure with its interval.

    >>> interval([0.9412, 0.913, 0.96])
    '0.94 [0.91, 0.96]'
    """
    if figure is None or figure[0] is None:
        return "-"
    if figure[0] == 0.0 and figure[2] == -figure[1] and figure[2] > 0.1:
        return "0.00 (the same guesses)"  # nothing varies, so nothing is known of how it would
    return "{0:.{3}f} [{1:.{3}f}, {2:.{3}f}]".format(*figure, places)


def strongest(rows: list[Record], clock: bool = False) -> str:
    """The best adversary's figure and who it is."""
    row = best(rows, clock)
    if row is None:
        return "-"
    return f"{interval(row['gain' if clock else 'balanced'])}, {WORDS.get(row['adversary'], row['adversary'])}"


def value(rows: list[Record] | None, clock: bool = False) -> float | None:
    """The best adversary's balanced accuracy, or with the clock its gain."""
    row = best(rows or [], clock)
    return None if row is None else float(row["gain" if clock else "balanced"][0])


def reference(rows: list[Record], name: str) -> list[float] | None:
    """Balanced accuracy of a reference."""
    return next((row["balanced"] for row in rows if row["adversary"] == name), None)


def nats(a_day: float | None) -> str:
    """Nats a day in words.

    >>> nats(0.0), nats(1.5), nats(None)
    ('0', '1.5', 'unbounded')
    """
    return "unbounded" if a_day is None else f"{a_day:.3g}"


def minutes(period: float) -> str:
    """A period in minutes or seconds.

    >>> minutes(60.0), minutes(900.0), minutes(30.0)
    ('1 min', '15 min', '30 s')
    """
    return f"{period / 60.0:g} min" if period >= 60.0 else f"{period:g} s"


def percent(point: Record, test: str) -> float:
    """Distortion in percent of the mean reading, averaged over channels."""
    found = point["percent"][test]
    return float(sum(found) / len(found))


def at(record: Record, asked: float | None, every: float = 15.0) -> Record | None:
    """The causal point at so many nats a day; None is the true value."""
    for point in record["points"]:
        if point["kind"] == "causal" and point["minutes"] == every and point["asked"] == asked:
            return point
    return None


def control_of(record: Record, asked: float, test: str = "test") -> float | None:
    """The best adversary where the model is right, at a budget."""
    for control in record.get("controls", ()):
        if control["asked"] == asked:
            return value(control["rows"][test])
    return None


def gain_of(rows: list[Record]) -> list[float] | None:
    """The largest gain over the clock of an adversary that has both, with its interval."""
    those = [r["gain"] for r in rows if r["clock"] and not r["reference"]]
    return max(those, key=lambda g: g[0], default=None)


def two_of(rows: list[Record] | None) -> str:
    """The best adversary without the clock, to two places."""
    found = value(rows)
    return "-" if found is None else f"{found:.2f}"


def rooms_of(records: dict[str, Any]) -> dict[str, Record]:
    """The records that are rooms: those that were fitted."""
    return {name: record for name, record in records.items() if "points" in record}


def told_at(record: Record, asked: float, test: str) -> list[Record] | None:
    """Rows of the adversaries at a budget."""
    point = at(record, asked)
    return None if point is None else point["rows"][test]
