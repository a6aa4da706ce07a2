"""The command line: thin, each command in a file of its own, loaded when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.version import __version__

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
def design(
    leakage: Annotated[
        str | None, typer.Option(help="How much may leak: nats, or '0.4 bit', or '40%' of the entropy (default 0.3).")
    ] = None,
    error_at_least: Annotated[
        float | None, typer.Option(help="Instead: how often every guess must be wrong, such as 0.3.")
    ] = None,
    distortion_at_most: Annotated[
        float | None, typer.Option(help="Instead: the distortion that is acceptable, such as 25.")
    ] = None,
    horizon: Annotated[int, typer.Option(min=1, help="Readings that the distortion is averaged over.")] = 50,
    distortion: Annotated[str, typer.Option(help="What counts as far: mae or mse.")] = "mae",
    values: Annotated[str, typer.Option(help="Occupancies that the room can have.")] = "0,1",
    prior: Annotated[str | None, typer.Option(help="Their odds (default: equal).")] = None,
    pseudo: Annotated[str, typer.Option(help="Occupancies that may be played.")] = "0,.2,.4,.6,.8,1",
    save: Annotated[Path | None, typer.Option(help="Write the design here, as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture here (.png, .svg or .pdf; needs the plot extra).")
    ] = None,
) -> None:
    """Find the best randomizer for the paper's room, with the proof that none is better."""
    from understudy.cli.designing import Choices, Outputs, budget, run

    demands = {
        "leakage": budget(leakage),
        "error_at_least": error_at_least,
        "distortion_at_most": distortion_at_most,
    }
    run(Choices(values, prior, pseudo, horizon, distortion), demands, Outputs(save, plot))


@app.command()
def guarantee(
    path: Annotated[Path, typer.Argument(metavar="DESIGN", help="A stored design, such as room.json.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page here instead.")] = None,
) -> None:
    """Show what a stored design guarantees: every measure in words, with its conditions."""
    from understudy.cli.cards import show

    show(path, as_json, html)


@app.command()
def demo(
    theta: Annotated[float, typer.Option(min=0.0, help="Occupancy of the room: the private parameter.")] = 1.0,
    leakage: Annotated[
        str | None, typer.Option(help="How much the draw of the understudy may leak (default 0.3 nats).")
    ] = None,
    pseudo: Annotated[
        float | None, typer.Option(min=0.0, help="Choose the understudy by hand instead; then there is no guarantee.")
    ] = None,
    steps: Annotated[int, typer.Option(min=60, max=1_000_000, help="Number of readings.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 3,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture here (.png, .svg or .pdf; needs the plot extra).")
    ] = None,
) -> None:
    """Disguise the readings of the paper's room, and see what an adversary who averages learns."""
    from understudy.cli.demo import Part, run
    from understudy.cli.designing import budget

    run(Part(theta, pseudo, budget(leakage)), steps, seed, plot)


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and the numbers.")] = Path(
        "paper-results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and sequences, for a first look.")] = False,
    figure: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this result; may be given several times.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulations.")] = 0,
) -> None:
    """Recompute every result of the paper, with our figure beside each of its claims."""
    from understudy.cli.paper import run

    run(out, quick, figure or [], seed)


ledgers = typer.Typer(help="Look into a ledger: what was drawn, charged and released.", no_args_is_help=True)
app.add_typer(ledgers, name="ledger")

_LEDGER = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of a ledger.")]


@ledgers.command("show")
def ledger_show(
    path: _LEDGER, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False
) -> None:
    """Show streams, epochs, what was charged and what is left; no draw, no key and no state is shown."""
    from understudy.cli.ledgers import show

    show(path, as_json)


@ledgers.command("verify")
def ledger_verify(path: _LEDGER) -> None:
    """Check the whole file: pages, digests, sums and permissions. Exit status 1 if anything is wrong."""
    from understudy.cli.ledgers import verify

    verify(path)


@ledgers.command("export")
def ledger_export(
    path: _LEDGER,
    stream: Annotated[str, typer.Argument(help="The name of a stream.")],
    out: Annotated[Path | None, typer.Option(help="Write here instead of to the terminal.")] = None,
) -> None:
    """Write the outputs that were released, one JSON object a line, each with its mark."""
    from understudy.cli.ledgers import export

    export(path, stream, out)


def main() -> None:
    """Run the command line; an error of ours is one line, not a traceback."""
    import sys

    from understudy.errors import UnderstudyError

    try:
        app()
    except (UnderstudyError, OSError) as error:
        typer.secho(f"understudy: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)
