"""The command line: thin, each command in a file of its own, loaded when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import __version__

app = typer.Typer(
    name="understudy",
    help="Share a sensor stream and hide one fact behind it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold secrets
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()
def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Say what is installed, and whether the compiled loops are running."""
    from understudy.cli.info import show

    show(as_json)


@app.command()
def demo(
    theta: Annotated[float, typer.Option(min=0.0, help="Occupancy of the room: the private parameter.")] = 1.0,
    pseudo: Annotated[
        float, typer.Option(min=0.0, help="Occupancy that the understudy plays: the pseudo parameter.")
    ] = 0.6,
    steps: Annotated[int, typer.Option(min=60, max=1_000_000, help="Number of readings.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated room.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture here (.png or .svg; needs the plot extra).")
    ] = None,
) -> None:
    """Disguise the readings of the paper's room, and see what an adversary who averages learns."""
    from understudy.cli.demo import run

    run(theta, pseudo, steps, seed, plot)


def main() -> None:
    """Run the command line; an error of ours is one line, not a traceback."""
    import sys

    from understudy.errors import UnderstudyError

    try:
        app()
    except (UnderstudyError, OSError) as error:
        typer.secho(f"understudy: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)
