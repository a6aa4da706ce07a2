"""``understudy report``: the page of a stored design, and what every command says of a design."""

from __future__ import annotations

from pathlib import Path

import understudy as us
from understudy.cli.terminal import filled, print_json, progress, say, warn
from understudy.errors import ConfigurationError
from understudy.paths import check_paths, write_whole
from understudy.report.page_facts import AnyDesign, facts, warnings
from understudy.report.page_officer import sentences


def run(path: Path, out: Path | None, as_json: bool, audit: Path | None = None) -> None:
    """Write the page, with an audit on it if there is one, or print what is on it as JSON, or both."""
    if audit is not None and out is None:
        raise ConfigurationError("--audit is given and no --out; an audit goes on the page, as in -o report.html")
    if out is None and not as_json:
        raise ConfigurationError("neither --out nor --json is given; say where the page goes, as in -o report.html")
    check_paths({"DESIGN": path, "--audit": audit}, {"--out": out})
    design = us.load_design(path)
    if out is not None:
        written(design, out, "" if audit is None else _attached(audit))
    if as_json:
        print_json({"design": str(path), "report": None if out is None else str(out), **facts(design)})
    else:
        say(f"Report written to {out}")
    for words in warnings(design):
        warn(words)


def _attached(audit: Path) -> str:
    from understudy.cli.auditing import attached

    return attached(audit)


def written(design: AnyDesign, out: Path, audit: str = "") -> None:
    """The page as a file; `audit` is the HTML of one."""
    from understudy.report.page import privacy_report

    with progress("report", steps=False):
        page = privacy_report(design, audit)
    write_whole(out, page)


def in_words(design: AnyDesign) -> str:
    """What a design hides, tells and costs, in paragraphs for a terminal."""
    return "\n".join(filled(words) for words in sentences(design))
