"""``understudy paper``: every result of the paper, recomputed into a folder.

Each result is written as soon as it is there, so Ctrl-C keeps those that are done. On a terminal there is one bar
over all of them; elsewhere (a log, a pipe) a line for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from understudy.cli.terminal import print_json
from understudy.paper.base import Outcome, Settings
from understudy.paper.page import glance
from understudy.paper.run import CATALOGUE, chosen
from understudy.paper.run import run as compute

Told = Callable[[str, float], None]


def run(out: Path, quick: bool, figures: list[str], seed: int, as_json: bool = False) -> None:
    """Compute, showing how far it is, and say what came out and where it is."""
    names = chosen(figures)
    # a program reads the standard output; how far it is goes to the error stream then
    console = Console(highlight=False, stderr=as_json)
    began = time.perf_counter()
    finished: list[str] = []
    bar, told = _heard(console, names, finished)
    try:
        with bar:
            outcomes = compute(out, Settings(seed=seed, quick=quick), names, told)
    except KeyboardInterrupt:
        kept = f"{len(finished)} of {len(names)} results are in {out / 'report.html'}"
        typer.echo(f"understudy: stopped; {kept if finished else 'nothing was finished'}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        numbers = {outcome.name: {k: float(v) for k, v in outcome.numbers.items()} for outcome in outcomes}
        print_json({"folder": str(out), "seed": seed, "quick": quick, "results": numbers})
        return
    tell(console, outcomes)
    # not through the console, which would break a path in two
    typer.echo(
        f"{len(outcomes)} of {len(CATALOGUE)} results in {time.perf_counter() - began:.0f} s"
        + (" (without --quick: more points, narrower bands)" if quick else "")
        + f"\nReport, opens offline:  {out / 'report.html'}"
        f"\nNumbers and tables:     {out / 'results.json'}, results.csv"
        f"\nFigures:                {sum(len(outcome.pictures) for outcome in outcomes)}, each as .svg and .png"
    )


def tell(console: Console, outcomes: list[Outcome]) -> None:
    """The verdicts, and the figures that matter most beside the paper's."""
    console.print()
    for outcome in outcomes:
        if outcome.name == "claims":
            n = outcome.numbers
            total = n["holds"] + n["holds_with_correction"] + n["does_not_hold"]
            console.print(
                f"[bold]{total:.0f} claims of the paper checked:[/] {n['holds']:.0f} hold, "
                f"{n['holds_with_correction']:.0f} hold with a correction, {n['does_not_hold']:.0f} does not hold."
            )
    found = glance(outcomes)
    if found.rows:
        table = Table(*found.columns, box=SIMPLE_HEAD, pad_edge=False)
        for row in found.rows:
            table.add_row(*row)
        console.print(table)
        console.print()


def _heard(console: Console, names: tuple[str, ...], finished: list[str]) -> tuple[AbstractContextManager[Any], Told]:
    """A bar, or a line for each result where there is no terminal; and the function that moves it."""
    if not console.is_terminal:

        def line(name: str, fraction: float) -> None:
            if fraction == 1.0:
                finished.append(name)
                typer.echo(f"{len(finished):>2} of {len(names)}  {name}", err=console.stderr)

        return nullcontext(), line
    bar = Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(names[0], total=len(names))

    def move(name: str, fraction: float) -> None:
        bar.update(task, description=name, completed=names.index(name) + fraction)
        if fraction == 1.0:
            finished.append(name)

    return bar, move
