"""``understudy guarantee``: the card of a stored design."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import typer

import understudy as us
from understudy.cli.terminal import filled, warn
from understudy.errors import ConfigurationError
from understudy.paths import check_paths, write_whole
from understudy.report.page_facts import about, card_of, doubts


def show(path: Path, as_json: bool, html: Path | None) -> None:
    """Print the card as text or JSON, or write it as a page."""
    if as_json and html is not None:
        raise ConfigurationError("--json and --html are given; the card is shown in one way at a time")
    check_paths({"DESIGN": path}, {"--html": html})
    design = us.load_design(path)
    card, found = card_of(design), doubts(about(design)) if about(design) else []
    if html is not None:
        write_whole(html, warned(card.html(page=True), found))
        typer.echo(f"Card written to {html}")
    elif as_json:
        typer.echo(card.json())
    else:  # warnings above the card, which is copied and piped without the error stream
        for words in found:
            typer.echo(filled(words, "WARNING: ") + "\n")
        typer.echo(card.text(), nl=False)
        if sys.stdout.isatty():
            return  # both streams would show them
    for words in found:
        warn(words)


def warned(page: str, found: list[str]) -> str:
    """The page of a card, with what speaks against it above it.

    >>> warned("<body>card</body>", ["It does not fit."])
    '<body><div role="alert"><p><strong>Warning.</strong> It does not fit.</p></div>card</body>'
    """
    lines = "".join(f"<p><strong>Warning.</strong> {escape(words)}</p>" for words in found)
    return page.replace("<body>", f'<body><div role="alert">{lines}</div>', 1) if found else page
