"""The report: one page, with its pictures inside, that opens without a network."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from understudy import __version__
from understudy.paper.base import Outcome, Settings, Table

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 2.5rem auto; max-width: 62rem;
  padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.25rem; margin-top: 2.6rem; border-top: 1px solid #d0d7de; padding-top: 1.2rem; }
p.made { color: #57606a; margin-top: 0; } nav { columns: 2; margin: 1.2rem 0; } nav a { display: block; }
a { color: #1f5fa8; } img { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; } caption { text-align: left; font-weight: 600;
  padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e3e7eb; }
.wide { overflow-x: auto; } pre { white-space: pre-wrap; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } img, table { break-inside: avoid; } }
"""


def page(folder: Path, settings: Settings, outcomes: list[Outcome]) -> str:
    """The report of some outcomes, whose pictures have been written to the folder."""
    how = "quick look: fewer points and sequences, wider bands" if settings.quick else "all points and sequences"
    contents = "".join(f'<a href="#{escape(o.name)}">{escape(o.title)}</a>' for o in outcomes)
    body = "".join(_section(folder, outcome) for outcome in outcomes)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper's results, recomputed</title><style>{_STYLE}</style></head><body>"
        "<h1>The paper's results, recomputed</h1>"
        f'<p class="made">understudy {escape(__version__)}, seed {settings.seed}; {how}.</p>'
        "<p>Nekouei, Sandberg, Skoglund, Johansson: A Model Randomization Approach to Statistical Parameter Privacy, "
        "IEEE Transactions on Automatic Control 68(2), 2023. Every figure below is computed here, with the public "
        "library; where the paper states a number, ours stands beside it.</p>"
        f'<nav aria-label="Contents">{contents}</nav>{body}</body></html>\n'
    )


def _section(folder: Path, outcome: Outcome) -> str:
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in outcome.paragraphs)
    pictures = "".join(_picture(folder / f"{stem}.svg", outcome.title) for stem in outcome.pictures)
    tables = "".join(_table(table) for table in outcome.tables)
    name = escape(outcome.name)
    return f'<section id="{name}"><h2>{escape(outcome.title)}</h2>{text}{pictures}{tables}</section>'


def _picture(path: Path, title: str) -> str:
    # as data, so that the names inside one picture do not meet those inside another
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(title)}: {escape(path.stem)}" src="data:image/svg+xml;base64,{data}">'


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><caption>{escape(table.caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
