"""Computing the results, one after the other, and writing them to a folder.

::

    DIR/report.html     everything on one page that opens offline
    DIR/results.json    every number and every table, with the seed and the version that made them
    DIR/results.csv     the numbers, one a row
    DIR/<picture>.svg, DIR/<picture>.png

A result is written as soon as it is there, so an interruption loses only what was being computed.

The report: one page, with its pictures inside, that opens without a network.

The claims come first, and above them what matters most: our figure beside the paper's. Nothing on the page is told
by colour alone, each picture has a description in words, and it prints.
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
from typing import Any

from understudy._html import with_policy
from understudy._paths import NewFile, write_whole
from understudy._types import Progress
from understudy._version import __version__
from understudy.errors import ConfigurationError, MissingExtraError, StoredFileError
from understudy.paper.setting import Outcome, Settings, Table

# The report: one page, with its pictures inside, that opens without a network ------------------------


_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 2.5rem auto; max-width: 74rem;
  padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.25rem; margin-top: 2.6rem; border-top: 1px solid #d0d7de; padding-top: 1.2rem; }
p { max-width: 50rem; } p.made { color: #57606a; margin-top: 0; }
nav { max-width: 62rem; columns: 2 22rem; margin: 1.2rem 0; padding-left: 0; }
nav li { break-inside: avoid; margin-left: 1.4rem; } nav ol { margin: 0; padding: 0; }
a { color: #1f5fa8; } figure { margin: 1.2rem 0; } img { max-width: 100%; height: auto; display: block; }
figcaption { color: #57606a; font-size: .88rem; max-width: 50rem; margin-top: .3rem; }
sub { line-height: 0; } .wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.2rem 0; font-size: .92rem; line-height: 1.4; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; max-width: 50rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid #e3e7eb; }
thead th { vertical-align: bottom; border-bottom: 1.5px solid #57606a; } tbody th { font-weight: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; } .verdict.holds { color: #1a6b33; }
.verdict.corrected { color: #7a5200; } .verdict.fails { color: #a5293b; }
@media (max-width: 44rem) { td { min-width: 7rem; } }
@media print {
  @page { margin: 16mm; } body { margin: 0; padding: 0; max-width: none; font-size: 10pt; }
  nav { display: none; } .wide { overflow: visible; } table { font-size: 8pt; } h2, caption { break-after: avoid; }
  figure, tr { break-inside: avoid; } thead { display: table-header-group; } a { color: inherit; }
}
"""

# What the claims module calls them, each with a mark, so that colour is not needed.
_VERDICTS = {
    "holds": ("holds", "✓"),
    "holds with correction": ("corrected", "≈"),
    "does not hold": ("fails", "✗"),
}

# What is to be seen on each picture, for those who do not see it; by its name.
DESCRIPTIONS = {
    "estimates": (
        "Estimated occupancy over 100 readings, for one and two people, raw and with noise added. The estimator "
        "consistent with the model stays on 1 and 2; the one as printed falls towards 0; in a room that only fills "
        "up it stays near 1 and 2."
    ),
    "tradeoff": (
        "Distortion against leakage, from 0 to ln 2 nats: absolute distortion in percent of the mean reading on the "
        "left, squared distortion on the right. Both fall to nothing at ln 2, and simulated points lie on the "
        "curves."
    ),
    "adversary": (
        "Probability of a wrong guess against leakage for three adversaries, with the bounds as lines. The "
        "consistent estimator and the best adversary lie on the exact bound; the estimator as printed stays far "
        "above it where much leaks; Theorem 3 is never above zero."
    ),
    "true-and-disguised": "CO2 over 50 readings: the true ones rise steeply, the disguised ones a little.",
    "estimator-output": (
        "Estimated occupancy over time on true and on disguised readings. The consistent estimator stays on 1 and "
        "on 0.6; the one as printed falls in both cases."
    ),
    "structure-sensor": (
        "Block diagram: the sensor sends readings to the privacy filter, and the filter sends disguised readings to "
        "a user who is not trusted."
    ),
    "structure-filter": (
        "Block diagram of the privacy filter: a randomizer draws the understudy once; the nonlinear transformation "
        "takes every reading."
    ),
    "structure-transformation": (
        "Block diagram of the transformation for three channels: each is scored given the true past, and turned "
        "into a value given the disguised past."
    ),
    "structure-markov": (
        "Block diagram of the transformation for a Markov model: whiten by the model of the true value, colour by "
        "that of the pseudo value."
    ),
    "structure-room": "Block diagram of two Kalman predictors for the room: one state and one channel on each side.",
    "structure-office": (
        "Block diagram of two Kalman predictors for the office: three channels, four states on one side and three "
        "on the other."
    ),
    "structure-schedule": "Block diagram of two Kalman predictors for a schedule: covariances carried along.",
    "noise": (
        "Left, mean distortion against the number of readings at equal error of the best adversary: noise on each "
        "reading grows without end, the filter levels off. Right, the error of the best adversary: under fixed "
        "noise it falls to nothing, under the filter it stays where it is."
    ),
    "examples": (
        "For an i.i.d., a Markov and a three-channel Gauss-Markov example: true and disguised readings, the scores "
        "of the output, which are standard normal under the target and not under the source, and their correlation "
        "in time, which is nil under the target alone."
    ),
    "averages": (
        "Left, running means: of raw and noisy readings they tend to the truth, of disguised ones to the "
        "understudy. Right, wrong guesses against readings averaged: they vanish for raw and noisy readings, and "
        "level off at the bound for disguised ones."
    ),
    "schedule": (
        "A day of 240 readings: CO2, occupancy and an adversary's estimates. The true schedule comes out as a later "
        "one, and the estimates from disguised readings follow the later one."
    ),
    "downstream": (
        "Normalised innovations of a Kalman filter, on one stream and on all: on disguised readings they lie in "
        "their bounds and are white; after Laplace noise they do not and are not."
    ),
    "levels": (
        "For occupancies 0 to 4: distortion and wrong guesses against leakage, and three lower bounds of wrong "
        "guesses, of which the exact one is the highest and the paper's the lowest."
    ),
    "levels_randomizer": (
        "Two maps of the randomizer for occupancies 0 to 4, at 20 and at 40 percent of the entropy: whole numbers "
        "alone are played, mostly near the truth."
    ),
}


def page(folder: Path, settings: Settings, outcomes: list[Outcome]) -> str:
    """The report of some outcomes, whose pictures have been written to the folder."""
    how = "quick look: fewer points and sequences, wider bands" if settings.quick else "all points and sequences"
    contents = "".join(f'<li><a href="#{escape(o.name)}">{escape(o.title)}</a></li>' for o in outcomes)
    found = glance(outcomes)
    body = "".join(_section(folder, outcome) for outcome in outcomes)
    return with_policy(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper's results, recomputed</title><style>{_STYLE}</style></head><body>"
        "<h1>The paper's results, recomputed</h1>"
        f'<p class="made">understudy {escape(__version__)}, seed {settings.seed}; {how}.</p>'
        "<p>Nekouei, Sandberg, Skoglund, Johansson: A Model Randomization Approach to Statistical Parameter Privacy, "
        "IEEE Transactions on Automatic Control 68(2), 2023. Every figure below is computed here, with the public "
        "library; where the paper states a number, ours stands beside it.</p>"
        f"{table_html(found) if found.rows else ''}"
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main>{body}</main></body></html>\n'
    )


def glance(outcomes: list[Outcome]) -> Table:
    """What matters most, ours beside the paper's; as many rows as the outcomes have numbers for.

    >>> glance([]).rows
    ()
    """
    numbers = {outcome.name: outcome.numbers for outcome in outcomes}
    rows: list[tuple[str, ...]] = []
    if "claims" in numbers:
        n = numbers["claims"]
        high, low = n["consistent_error_at_0.68"], n["consistent_error_at_0.3"]
        least = math.floor(1e4 * n["bound_at_0.3"]) / 100.0
        rows = [
            ("distortion at I_0 = 0.3, of mean CO2", "about 0.8 %", f"{n['distortion_at_0.3']:.2f} %"),
            (
                "errors from I_0 = 0.68 to 0.3 grow",
                "over 100 times",
                f"{low / high:.0f} times ({100.0 * high:.2f} % to {100.0 * low:.1f} %)",
            ),
            (
                "printed estimator, raw readings",
                "reliable",
                f"wrong in {100.0 * n['printed_error_at_ln2']:.1f} %",
            ),
            ("any guess at I_0 = 0.3 is wrong", "no positive bound", f"in {least:.2f} % at least"),
        ]
    if "noise" in numbers:
        n = numbers["noise"]
        for T in (50, 1000):
            noise, filter_ = n[f"gaussian_ppm_{T}"], n[f"filter_ppm_{T}"]
            rows.append(
                (f"noise for the same errors, T = {T}", "not computed", f"{noise:.0f} ppm; filter {filter_:.1f} ppm")
            )
    return Table("At a glance", ("what", "the paper says", "we get"), tuple(rows))


def _section(folder: Path, outcome: Outcome) -> str:
    text = "".join(f"<p>{_words(paragraph)}</p>" for paragraph in outcome.paragraphs)
    pictures = "".join(_picture(folder / f"{stem}.svg") for stem in outcome.pictures)
    tables = "".join(table_html(table) for table in outcome.tables)
    name = escape(outcome.name)
    return f'<section id="{name}"><h2>{escape(outcome.title)}</h2>{text}{pictures}{tables}</section>'


def _picture(path: Path) -> str:
    # as data, so that the names inside one picture do not meet those inside another
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    words = DESCRIPTIONS.get(path.stem, path.stem)
    return (
        f'<figure><img alt="{escape(words)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(path.name)}, {escape(path.stem)}.png</figcaption></figure>"
    )


def table_html(table: Table) -> str:
    """A table as HTML: numbers under each other, a verdict with its mark.

    >>> table = Table("Costs", ("T", "ppm", "verdict"), (("50", "17.3", "holds"), ("500", "25.7", "does not hold")))
    >>> '<td class="number">17.3</td>' in table_html(table), "✗ does not hold" in table_html(table)
    (True, True)
    """
    columns = list(zip(*table.rows, strict=True))
    numeric = [all(map(_is_number, column)) for column in columns]
    named = bool(columns) and len(set(columns[0])) == len(columns[0]) and not numeric[0]
    heads = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{_words(head)}</th>'
        for head, right in zip(table.columns, numeric, strict=True)
    )
    rows = []
    for row in table.rows:
        cells = [_cell(cell, right) for cell, right in zip(row, numeric, strict=True)]
        if named:
            cells[0] = f'<th scope="row">{_words(row[0])}</th>'
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table><caption>{_words(table.caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(text: str, right: bool) -> str:
    if text in _VERDICTS:
        kind, mark = _VERDICTS[text]
        return f'<td><span class="verdict {kind}">{mark} {escape(text)}</span></td>'
    return f'<td class="number">{escape(text)}</td>' if right else f"<td>{_words(text)}</td>"


def _is_number(text: str) -> bool:
    """Whether a cell goes to the right of its column: a number, with its unit or error.

    >>> [_is_number(text) for text in ("17.35%", "< 1e-300", "64.7 ± 0.3", "ln 2", "0.5 (0.4 to 0.6)", "b = 1")]
    [True, True, True, True, True, False]
    """
    number = r"[<-]? ?-?[\d,.]+(e[-+]?\d+)?"
    return bool(re.fullmatch(rf"ln 2|one channel|{number}( ± {number}| \({number} to {number}\))? ?%?", text))


def _words(text: str) -> str:
    """Text for HTML, with indices below the line.

    >>> _words("X_0 < I_0")
    'X<sub>0</sub> &lt; I<sub>0</sub>'
    """
    return re.sub(r"\b([IX])_0\b", r"\1<sub>0</sub>", escape(text))


# Computing the results, one after the other, and writing them to a folder ----------------------------


CATALOGUE = {
    "claims": "claims:compute",
    "estimates": "estimates:compute",
    "tradeoff": "tradeoff:compute",
    "adversary": "adversary:compute",
    "disguised": "estimates:compute_disguised",
    "structure": "structure:compute",
    "noise": "noise:compute",
    "examples": "examples:compute",
    "schedule": "schedule:compute",
    "downstream": "downstream:compute",
    "levels": "tradeoff:compute_levels",
}
"""The results in the order of the report: name -> module and function, ``(settings) -> Outcome``."""

Told = Callable[[str, float], None]

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
    out: Path, settings: Settings, names: Iterable[str] = (), told: Told = lambda name, fraction: None
) -> list[Outcome]:
    """Compute results and write them; ``told(name, fraction)`` hears how far each one is.

    The fraction is 1.0 once, when the result is in the folder.
    """
    names = choose(names)
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
