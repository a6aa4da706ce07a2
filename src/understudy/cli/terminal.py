"""What commands say and where: results on the standard output, progress and warnings on the error stream.

A bar is drawn only on a terminal. Elsewhere nothing moves, and what is printed is the same every time.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from understudy.errors import UnderstudyWarning
from understudy._types import Progress as Told



def say(words: str = "", err: bool = False) -> None:
    """A line; to the error stream where the output itself goes to the standard one."""
    typer.echo(words, err=err)


def warn(words: str) -> None:
    """A warning, on the error stream."""
    typer.secho(f"understudy: warning: {words}", fg=typer.colors.YELLOW, err=True)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings of this package as a line each, every text once; those of others as Python shows them."""
    seen: set[str] = set()
    with warnings.catch_warnings():
        before = warnings.showwarning

        def shown(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            words = " ".join(str(message).split())
            if not issubclass(category, UnderstudyWarning):
                before(message, category, filename, lineno, file, line)
            elif words not in seen:
                seen.add(words)
                warn(words)

        warnings.showwarning = shown
        yield


def print_json(found: Any) -> None:
    """Plain data as JSON; what is not defined or infinite is null or a word."""
    typer.echo(json.dumps(_finite(found), indent=2, ensure_ascii=False, default=str, allow_nan=False))


def _finite(found: Any) -> Any:
    if isinstance(found, dict):
        return {str(name): _finite(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_finite(value) for value in found]
    if isinstance(found, float):
        return found if abs(found) < float("inf") else None if found != found else "infinite"
    return found


@contextmanager
def progress(words: str, steps: bool = True) -> Iterator[Told]:
    """A bar on the error stream while something long runs; the function that it yields moves it, from 0 to 1.

    Without `steps` nothing is known of how far it is, and the bar only shows that it runs.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda fraction: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(words, total=1.0 if steps else None)

        def move(fraction: float) -> None:
            bar.update(task, total=1.0, completed=min(max(float(fraction), 0.0), 1.0))

        yield move


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """A table, as wide as the terminal allows."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for k, name in enumerate(head):
        table.add_column(escape(name), justify="right" if k in right else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console(highlight=False, file=sys.stdout).print(table)


def filled(words: str, lead: str = "") -> str:
    """A paragraph of at most 92 columns, later lines under the first."""
    import textwrap

    return textwrap.fill(words, 92, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
