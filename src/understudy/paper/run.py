"""Computing the results, one after the other, and writing them to a folder.

::

    DIR/report.html     everything on one page that opens offline
    DIR/results.json    every number and every table, with the seed and the version that made them
    DIR/results.csv     the numbers, one a row
    DIR/<picture>.svg, DIR/<picture>.png

A result is written as soon as it is there, so an interruption loses only what was being computed.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from understudy import __version__
from understudy.errors import ConfigurationError, MissingExtraError, StoredFileError
from understudy.paper.base import Outcome, Progress, Settings
from understudy.paper.page import page
from understudy.paths import NewFile, write_whole

# The order of the report. Each is a module with `compute(settings) -> Outcome`.
CATALOGUE = (
    "claims", "estimates", "tradeoff", "adversary", "disguised", "structure",
    "noise", "examples", "schedule", "downstream", "levels",
)  # fmt: skip

Told = Callable[[str, float], None]

# How much of a result's time goes into computing it; the rest is drawing. For the bar alone.
_COMPUTING = 0.6


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The results with these names, in the order of the report; all of them for none.

    >>> chosen(["levels", "tradeoff"])
    ('tradeoff', 'levels')
    """
    wanted = list(names)
    for name in wanted:
        if name not in CATALOGUE:
            raise ConfigurationError(f"figure {name!r} is unknown; there are {', '.join(CATALOGUE)}")
    return tuple(name for name in CATALOGUE if not wanted or name in wanted)


def compute(name: str, settings: Settings) -> Outcome:
    """One result by its name."""
    outcome: Outcome = importlib.import_module(f"understudy.paper.{name}").compute(settings)
    return outcome


def run(
    out: Path, settings: Settings, names: Iterable[str] = (), told: Told = lambda name, fraction: None
) -> list[Outcome]:
    """Compute results and write them; ``told(name, fraction)`` hears how far each one is.

    The fraction is 1.0 once, when the result is in the folder.
    """
    names = chosen(names)
    prepare(out)
    outcomes: list[Outcome] = []
    for name in names:
        told(name, 0.0)
        outcome = compute(name, replace(settings, progress=partial(_tell, told, name, 0.0, _COMPUTING)))
        _draw(out, outcome, partial(_tell, told, name, _COMPUTING, 0.99))
        outcomes.append(outcome)
        _write(out, settings, outcomes)
        told(name, 1.0)
    return outcomes


def _tell(told: Told, name: str, begin: float, end: float, fraction: float) -> None:
    told(name, begin + (end - begin) * fraction)


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
    numbers = {outcome.name: _plain(outcome) for outcome in outcomes}
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
    rows = [(name, key, value) for name, found in numbers.items() for key, value in found.items()]
    lines = StringIO(newline="")
    csv.writer(lines).writerows([("result", "number", "value"), *rows])
    write_whole(out / "results.csv", lines.getvalue())
    write_whole(out / "report.html", page(out, settings, outcomes))


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {name: float(x) if math.isfinite(x) else None for name, x in outcome.numbers.items()}
