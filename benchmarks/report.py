"""The tables on the screen and as a Markdown page: one source, so that they cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import Row, Section

HEADINGS = ("contender", "samples", "best", "median", "ratio", "required", "verdict", "outputs apart")


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table as text."""
    return (
        row.contender,
        row.samples,
        row.best,
        row.median,
        "" if row.ratio is None else number(row.ratio),
        "" if row.required is None else str(row.required),
        row.verdict,
        row.compared,
    )


def number(ratio: float) -> str:
    """Three digits, and thousands with commas: a ratio is not known better than that."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def markdown(sections: Sequence[Section], machine: Sequence[tuple[str, str]], quick: bool) -> str:
    """The whole page."""
    lines = [
        "# Benchmarks: all tables",
        "",
        "The [summary](benchmarks.md) has the figures that were required. Made by `benchmarks/run.py`; do not edit. "
        "Best of several rounds on one core, contenders taking "
        "turns in one process on the same input; the median stands beside the best. Slow peers work on a "
        "shorter prefix of the input (about ten seconds' worth) and are compared per sample. *Outputs apart* "
        "is the largest absolute difference from understudy's output, unless a table says otherwise. *Required* is "
        "what the project asked of itself before measuring; a miss is reported as a miss.",
        "",
    ]
    if quick:
        lines += ["**A quick run: shorter inputs and fewer rounds; for a first look only.**", ""]
    lines += ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in machine), ""]
    for section in sections:
        lines += [f"## {section.title}", "", f"Ratio is {section.ratio}.", ""]
        lines += [_line(HEADINGS), "|---|" + "---:|" * (len(HEADINGS) - 3) + "---|---:|"]
        lines += [_line(cells(row)) for row in section.rows]
        lines += ["", *(f"- {note}" for note in section.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(tables: str) -> str:
    """The page for readers: the machine, every figure that was required, and where the tables are.

    `tables` is the page that `markdown` makes.
    """
    head, *sections = tables.rstrip().split("\n## ")
    machine = [line for line in head.splitlines() if line.startswith("|")]
    lines = [
        "# Benchmarks",
        "",
        "Made by `benchmarks/run.py`; do not edit. Each row is a figure that the project required of itself before "
        "measuring; a miss is reported as a miss. Best of several rounds on one core, contenders taking turns in one "
        "process. The [tables](benchmarks-tables.md) have every contender, medians, and what is compared with what.",
        "",
        *machine,
        "",
        "| job | contender | ratio | required | verdict |",
        "|---|---|---:|---:|---|",
    ]
    for section in sections:
        title, *rest = section.splitlines()
        for line in rest:
            row = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if line.startswith("|") and len(row) == len(HEADINGS) and row[5] not in ("", "required", "---:"):
                lines.append(_line((title, row[0], row[4], row[5], row[6])))
    pictures = [line for line in tables.splitlines() if line.startswith("![")]
    return "\n".join([*lines, "", *pictures]).rstrip() + "\n"


def merged(older: str, newer: str, measured: str) -> str:
    """The older page with the tables of the newer one in place of those of the same title, or after them.

    Each such table says when it was measured; the head of the page is that of the older run.
    """
    pictures = [line for line in older.splitlines() if line.startswith("![")]
    older = "\n".join(line for line in older.splitlines() if not line.startswith("!["))
    head, *tables = older.rstrip().split("\n## ")
    found = {table.split("\n", 1)[0]: table for table in tables}
    for table in newer.rstrip().split("\n## ")[1:]:
        title, rest = table.split("\n", 1)
        found[title] = f"{title}\n\n*Measured apart from the others: {measured}.*\n{rest}\n"
    page = "\n## ".join([head, *(table.rstrip() + "\n" for table in found.values())]).rstrip()
    return "\n\n".join([page, *pictures]) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def show(section: Section) -> None:
    """Print one table, with rich where it is installed."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(f"\n{section.title}; ratio is {section.ratio}")
        print(_line(HEADINGS))
        for row in section.rows:
            print(_line(cells(row)))
        return
    table = Table(title=section.title, caption=f"ratio: {section.ratio}", title_justify="left")
    for heading in HEADINGS:
        left = heading in ("contender", "verdict")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    colours = {"met": "green", "missed": "red"}
    for row in section.rows:
        table.add_row(*cells(row), style="bold red" if row.failure else colours.get(row.verdict))
    Console(width=None).print(table)
