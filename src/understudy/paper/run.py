"""Computing the results of the paper, one after the other, and writing them to a folder.

::

    DIR/report.html     everything on one page that opens offline
    DIR/results.json    every number and every table, with the seed and the version that made them
    DIR/results.csv     the numbers, one a row
    DIR/<picture>.svg, DIR/<picture>.png

A result is written as soon as it is there, so an interruption loses only what was being computed.

On the page the claims come first, and above them what matters most: our figure beside the paper's. Nothing on it is
told by colour alone, each picture has a description in words, and it prints.
"""

from __future__ import annotations

import base64
import csv
import importlib
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from html import escape
from io import BytesIO, StringIO
from pathlib import Path

from understudy import _html
from understudy._html import Safe
from understudy._paths import NewFile, write_whole
from understudy._types import Progress
from understudy._version import __version__
from understudy.errors import ConfigurationError, MissingExtraError, StoredFileError
from understudy.paper.setting import Outcome, Settings, Table, fill, words

CATALOGUE = {
    "claims": "claims:compute",
    "estimates": "estimates:compute",
    "tradeoff": "tradeoff:compute",
    "adversary": "estimates:compute_errors",
    "disguised": "estimates:compute_disguised",
    "structure": "examples:compute_structure",
    "noise": "noise:compute",
    "examples": "examples:compute",
    "schedule": "examples:compute_schedule",
    "downstream": "noise:compute_downstream",
    "levels": "tradeoff:compute_levels",
}
"""The results in the order of the report: name -> module and function, ``(settings) -> Outcome``."""

Listener = Callable[[str, float], None]

# How much of a result's time goes into computing it; the rest is drawing. For the bar alone.
_COMPUTING = 0.6


def choose(names: Iterable[str]) -> tuple[str, ...]:
    """The results with these names, in the order of the report; all of them for none.

    >>> choose(["levels", "tradeoff"])
    ('tradeoff', 'levels')
    """
    wanted = list(names)
    for name in wanted:
        if name not in CATALOGUE:
            raise ConfigurationError(f"figure {name!r} is unknown; there are {', '.join(CATALOGUE)}")
    return tuple(name for name in CATALOGUE if not wanted or name in wanted)


def compute(name: str, settings: Settings) -> Outcome:
    """One result by its name."""
    module, _, function = CATALOGUE[name].partition(":")
    outcome: Outcome = getattr(importlib.import_module(f"understudy.paper.{module}"), function)(settings)
    return outcome


def run(
    out: Path, settings: Settings, names: Iterable[str] = (), listen: Listener = lambda name, fraction: None
) -> list[Outcome]:
    """Compute results and write them; ``listen(name, fraction)`` hears how far each one is.

    The fraction is 1.0 once, when the result is in the folder.
    """
    names = choose(names)
    prepare(out)
    outcomes: list[Outcome] = []
    for name in names:
        listen(name, 0.0)
        outcome = compute(name, replace(settings, progress=partial(_tell, listen, name, 0.0, _COMPUTING)))
        _draw(out, outcome, partial(_tell, listen, name, _COMPUTING, 0.99))
        outcomes.append(outcome)
        _write(out, settings, outcomes)
        listen(name, 1.0)
    return outcomes


def _tell(listen: Listener, name: str, begin: float, end: float, fraction: float) -> None:
    listen(name, begin + (end - begin) * fraction)


def prepare(out: Path) -> None:
    """Refuse before the work what could not be written after it, and make the folder."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
    except ImportError:
        raise MissingExtraError("the figures need matplotlib (the extra `plot`): pip install matplotlib") from None
    if out.exists() and not out.is_dir():
        raise ConfigurationError(f"--out {out}: there is a file of that name; it must be a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        NewFile(out / "report.html").discard()
    except StoredFileError as error:
        raise ConfigurationError(f"--out {out}: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"--out {out}: the folder cannot be written ({error.strerror})") from None


def _draw(out: Path, outcome: Outcome, progress: Progress) -> None:
    from matplotlib import pyplot as plt

    # text as outlines: the page looks the same without the fonts it was drawn with
    with plt.rc_context({"svg.hashsalt": "understudy", "svg.fonttype": "path"}):
        for count, (stem, draw) in enumerate(outcome.pictures.items(), start=1):
            figure = draw()
            for ending, how in ((".svg", {"metadata": {"Date": None}}), (".png", {"dpi": 150})):
                drawn = BytesIO()
                figure.savefig(drawn, format=ending[1:], **how)
                write_whole(out / f"{stem}{ending}", drawn.getvalue())
            plt.close(figure)
            progress(count / len(outcome.pictures))


def _write(out: Path, settings: Settings, outcomes: list[Outcome]) -> None:
    numbers = {
        outcome.name: {name: float(x) if math.isfinite(x) else None for name, x in outcome.numbers.items()}
        for outcome in outcomes
    }
    results = {
        outcome.name: {
            "title": outcome.title,
            "numbers": numbers[outcome.name],
            "tables": [asdict(table) for table in outcome.tables],
        }
        for outcome in outcomes
    }
    made = {"understudy": __version__, "seed": settings.seed, "quick": settings.quick, "results": results}
    write_whole(out / "results.json", json.dumps(made, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
    lines = StringIO(newline="")
    writer = csv.writer(lines)
    writer.writerow(("result", "number", "value"))
    for name, found in numbers.items():
        writer.writerows((name, number, value) for number, value in found.items())
    write_whole(out / "results.csv", lines.getvalue())
    write_whole(out / "report.html", page(out, settings, outcomes))


# The page -------------------------------------------------------------------------------------------------------------

# The verdicts of the claims, each with a class and a mark, so that colour is not needed.
_VERDICTS = {
    "holds": ("holds", "✓"),
    "holds with correction": ("corrected", "≈"),
    "does not hold": ("fails", "✗"),
}


def page(folder: Path, settings: Settings, outcomes: list[Outcome]) -> str:
    """The report of some outcomes, whose pictures have been written to the folder."""
    how = "quick look: fewer points and sequences, wider bands" if settings.quick else "all points and sequences"
    contents = "".join(f'<li><a href="#{escape(o.name)}">{escape(o.title)}</a></li>' for o in outcomes)
    found = glance(outcomes)
    title = words()["page"]["title"]
    body = _html.fill(
        "paper.html",
        title=title,
        made=f"understudy {__version__}, seed {settings.seed}; {how}.",
        glance=Safe(table_html(found) if found.rows else ""),
        contents=Safe(contents),
        sections=Safe("".join(_section(folder, outcome) for outcome in outcomes)),
    )
    return _html.document(title, body, "paper.css")


def glance(outcomes: list[Outcome]) -> Table:
    """What matters most, ours beside the paper's; as many rows as the outcomes have numbers for.

    >>> glance([]).rows
    ()
    """
    known = {outcome.name: dict(outcome.numbers) for outcome in outcomes}
    if "claims" in known:
        n = known["claims"]
        n["consistent_factor"] = n["consistent_error_at_0.3"] / n["consistent_error_at_0.68"]
        n["bound_rounded_down"] = math.floor(1e4 * n["bound_at_0.3"]) / 1e4
    rows = (
        (row["what"], row["paper"], fill(row["ours"], known[row["result"]]))
        for row in words()["glance"]
        if row["result"] in known
    )
    return Table("At a glance", ("what", "the paper says", "we get"), tuple(rows))


def _section(folder: Path, outcome: Outcome) -> str:
    text = "".join(f"<p>{_indices(paragraph)}</p>" for paragraph in outcome.paragraphs)
    pictures = "".join(_picture(folder / f"{stem}.svg") for stem in outcome.pictures)
    tables = "".join(table_html(table) for table in outcome.tables)
    name = escape(outcome.name)
    return f'<section id="{name}"><h2>{escape(outcome.title)}</h2>{text}{pictures}{tables}</section>'


def _picture(path: Path) -> str:
    # as data, so that the names inside one picture do not meet those inside another
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    description = fill(words()["pictures"].get(path.stem, path.stem), {})
    return (
        f'<figure><img alt="{escape(description)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(path.name)}, {escape(path.stem)}.png</figcaption></figure>"
    )


def table_html(shown: Table) -> str:
    """A table as HTML: numbers under each other, a verdict with its mark.

    >>> costs = Table("Costs", ("T", "ppm", "verdict"), (("50", "17.3", "holds"), ("500", "25.7", "does not hold")))
    >>> '<td class="number">17.3</td>' in table_html(costs), "✗ does not hold" in table_html(costs)
    (True, True)
    """
    columns = list(zip(*shown.rows, strict=True))
    numbers = [k for k, column in enumerate(columns) if all(map(_is_number, column))]
    named = bool(columns) and len(set(columns[0])) == len(columns[0]) and 0 not in numbers
    rows = [[_cell(cell) for cell in row] for row in shown.rows]
    return _html.table(_indices(shown.caption), [_indices(head) for head in shown.columns], rows, numbers, named)


def _cell(text: str) -> Safe:
    if text in _VERDICTS:
        kind, mark = _VERDICTS[text]
        return Safe(f'<span class="verdict {kind}">{mark} {escape(text)}</span>')
    return _indices(text)


def _is_number(text: str) -> bool:
    """Whether a cell goes to the right of its column: a number, with its unit or error.

    >>> [_is_number(text) for text in ("17.35%", "< 1e-300", "64.7 ± 0.3", "ln 2", "0.5 (0.4 to 0.6)", "b = 1")]
    [True, True, True, True, True, False]
    """
    number = r"[<-]? ?-?[\d,.]+(e[-+]?\d+)?"
    return bool(re.fullmatch(rf"ln 2|one channel|{number}( ± {number}| \({number} to {number}\))? ?%?", text))


def _indices(text: str) -> Safe:
    """Text for HTML, with indices below the line.

    >>> _indices("X_0 < I_0")
    'X<sub>0</sub> &lt; I<sub>0</sub>'
    """
    return Safe(re.sub(r"\b([IX])_0\b", r"\1<sub>0</sub>", escape(text)))
