"""docs/real-data.md, its appendix and its pictures, from the figures that are kept.

Words that judge are chosen by the figures. The page says what was found; the appendix has the tables of each data set.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from studies.real_data import figures, page_control, page_office, page_others, page_premise, page_words
from studies.real_data.tables import TESTS, Record

NAME, APPENDIX = "real-data", "real-data-tables"


def write(results: dict[str, Any], docs: Path) -> list[Path]:
    """Write the page and its pictures; returns what was written."""
    docs.mkdir(parents=True, exist_ok=True)
    pictures = draw(results, docs)
    names = {p.name for p in pictures}
    written = []
    for name, text in ((NAME, page(results, names)), (APPENDIX, appendix(results, names))):
        path = docs / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return [*written, *pictures]


def page(results: dict[str, Any], pictures: set[str]) -> str:
    """What was found; data sets that were not run are left out, and it is said."""
    where = f"The tables and figures of each data set are in the [appendix]({APPENDIX}.md)."
    parts = [page_words.opening(results), where, page_premise.premise(results, pictures), page_words.closing(results)]
    return _joined(parts)


def appendix(results: dict[str, Any], pictures: set[str]) -> str:
    """The tables of each data set, at length."""
    parts = [f"# Real data: all tables\n\nThe [summary]({NAME}.md) says what was found, and how it was done."]
    if "candanedo" in results:
        parts += [page_office.baselines(results["candanedo"]), page_office.office(results["candanedo"], pictures)]
    for name, section in (("sdu_ou44", page_others.sdu), ("iotsec", page_others.iotsec), ("robod", page_control.robod)):
        if name in results:
            parts.append(section(results[name], pictures))
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(filled(part) for part in parts if part) + "\n"


def filled(part: str) -> str:
    r"""Paragraphs and items in lines of one width; tables, titles, pictures and code as they are.

    >>> print(filled("## Title\n\none\ntwo"))
    ## Title
    <BLANKLINE>
    one two
    """
    return "\n\n".join(_filled(block) for block in part.strip().split("\n\n"))


def _filled(block: str) -> str:
    if block.startswith("- "):
        return "\n".join(_lines(item, "  ") for item in block.split("\n"))
    return block if block.startswith(("|", "#", "!", "    ")) else _lines(block)


def _lines(text: str, indent: str = "") -> str:
    given = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return textwrap.fill(" ".join(text.split()), 119, **given)


def rooms(records: dict[str, Any] | None) -> dict[str, Record]:
    """The records that are rooms: those that were fitted."""
    return {name: record for name, record in (records or {}).items() if "points" in record}


def draw(results: dict[str, Any], docs: Path) -> list[Path]:
    """All pictures that there are figures for."""
    made = []
    office = rooms(results.get("candanedo"))
    headline = page_office.headline(office)
    if headline is not None:
        panels = [(f"{test}: {words}", headline, test) for test, words in TESTS.items()]
        floors = results["candanedo"].get("least distortion")
        made.append(figures.frontiers(panels, docs / f"{NAME}-frontier.svg", floors=floors))
    periods = [(name, record, "test") for name, record in office.items() if record is not headline]
    if periods:
        made.append(figures.frontiers(periods, docs / f"{NAME}-office.svg", columns=min(3, len(periods))))
    for dataset, columns in (("sdu_ou44", 2), ("iotsec", 3)):
        panels = [(n, r, next(iter(r["raw"]))) for n, r in rooms(results.get(dataset)).items()]
        if panels:
            panels.sort(key=lambda panel: ("presence" not in panel[0], panel[0]))
            short = {"sdu_ou44": "sdu"}.get(dataset, dataset)
            minutes = page_others.decisions([r for _, r, _ in panels])
            made.append(figures.frontiers(panels, docs / f"{NAME}-{short}.svg", columns=columns, minutes=minutes))
    rows = page_premise.told_rows(results)
    if rows:
        made.append(figures.told(rows, docs / f"{NAME}-scores.svg"))
    return made
