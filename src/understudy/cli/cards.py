"""``understudy guarantee``: the card of a stored design."""

from __future__ import annotations

from pathlib import Path

import typer

import understudy as us
from understudy.errors import ConfigurationError


def show(path: Path, as_json: bool, html: Path | None) -> None:
    """Print the card as text or JSON, or write it as a page."""
    if as_json and html is not None:
        raise ConfigurationError("--json and --html are given; the card is shown in one way at a time")
    card = us.load_design(path).guarantee
    if html is not None:
        try:
            html.write_text(card.html(page=True), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"--html {html}: {error.strerror}") from None
        typer.echo(f"Card written to {html}")
    elif as_json:
        typer.echo(card.json())
    else:
        typer.echo(card.text(), nl=False)
