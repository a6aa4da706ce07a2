"""The command line: thin, each command in a file of its own, loaded when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy._version import __version__
from understudy.cli import app as _path
from understudy.cli import options as o
from understudy.cli.app import examples

app = typer.Typer(
    name="understudy",
    help="Share a sensor stream and hide one fact behind it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold secrets
    epilog=examples(
        "understudy quickstart history.csv --reading co2 --private occupancy --time date",
        "understudy demo",
    ),
)
_LOOK, _PAPER = "Look into what is there", "The paper, and this program"


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


_path.declare(app)


@app.command(rich_help_panel=_LOOK, epilog=examples("understudy guarantee design.json --html card.html"))
def guarantee(
    path: o.Design,
    as_json: o.AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page here instead.")] = None,
) -> None:
    """Show what a stored design guarantees: every measure in words, with its conditions."""
    from understudy.cli.design_commands import show

    show(path, as_json, html)


ledgers = typer.Typer(
    help="Look into a ledger: what was drawn, charged and released.",
    no_args_is_help=True,
    epilog=examples("understudy ledger show room.db"),
)
app.add_typer(ledgers, name="ledger", rich_help_panel=_LOOK)

_Ledger = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of a ledger.")]


@ledgers.command("show", epilog=examples("understudy ledger show room.db"))
def ledger_show(path: _Ledger, as_json: o.AsJson = False) -> None:
    """Show streams, epochs, what was charged and what is left; no draw, no key and no state is shown."""
    from understudy.cli.records_commands import show_ledger as show

    show(path, as_json)


@ledgers.command("verify", epilog=examples("understudy ledger verify room.db"))
def ledger_verify(path: _Ledger, as_json: o.AsJson = False) -> None:
    """Check the whole file: pages, digests, sums and permissions. Exit status 1 if anything is wrong."""
    from understudy.cli.records_commands import verify

    verify(path, as_json)


@ledgers.command("export", epilog=examples("understudy ledger export room.db co2 --out co2.jsonl"))
def ledger_export(
    path: _Ledger,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The name of a stream.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write here instead of to the terminal.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out: say in JSON how many were written. The outputs are always JSON.")
    ] = False,
) -> None:
    """Write the outputs that were released, one JSON object a line, each with its mark."""
    from understudy.cli.records_commands import export

    export(path, stream, out, as_json)


@ledgers.command("backup", epilog=examples("understudy ledger backup room.db room-backup.db"))
def ledger_backup(
    path: _Ledger,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="The new file; one that is there is not replaced.")],
    as_json: o.AsJson = False,
) -> None:
    """Copy a ledger, also while it is in use: consistent, verified, and readable by its owner alone."""
    from understudy.cli.records_commands import backup

    backup(path, copy, as_json)


@app.command(rich_help_panel=_PAPER, epilog=examples("understudy demo", "understudy demo --theta 1 --pseudo 0.6"))
def demo(
    theta: Annotated[
        float, typer.Option(min=0.0, metavar="PEOPLE", help="Occupancy of the room: the private parameter.")
    ] = 1.0,
    leakage: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="How much the draw of the understudy may leak (default 0.3 nats)."),
    ] = None,
    pseudo: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="PEOPLE", help="Choose the understudy by hand; then there is no guarantee."),
    ] = None,
    steps: Annotated[int, typer.Option(min=60, max=1_000_000, metavar="COUNT", help="Number of readings.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Seed of the simulation.")] = 3,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
) -> None:
    """Disguise the readings of the paper's room, and see what an adversary who averages learns."""
    from understudy.cli.demo import Part, run
    from understudy.cli.options import budget

    run(Part(theta, pseudo, budget(leakage)), steps, seed, plot, as_json)


@app.command(rich_help_panel=_PAPER, epilog=examples("understudy paper --quick --figure tradeoff"))
def paper(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the report, the figures and the numbers.")
    ] = Path("paper-results"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and sequences, for a first look.")] = False,
    figure: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this result; may be given several times.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Seed of the simulations.")] = 0,
    as_json: o.AsJson = False,
) -> None:
    """Recompute every result of the paper, with our figure beside each of its claims."""
    from understudy.cli.records_commands import run

    run(out, quick, figure or [], seed, as_json)


@app.command(rich_help_panel=_PAPER, epilog=examples("understudy info --json"))
def info(as_json: o.AsJson = False) -> None:
    """Say what is installed, and whether the compiled loops are running."""
    from understudy.cli.records_commands import show_info as show

    show(as_json)


def main() -> None:
    """Run the command line; an error is one line, not a traceback, unless UNDERSTUDY_TRACEBACK is set."""
    import os
    import sys

    from understudy.cli.options import in_options
    from understudy.cli.terminal import plain_warnings
    from understudy.errors import UnderstudyError

    try:
        with plain_warnings():
            app()
    except (UnderstudyError, OSError) as error:
        words = (
            f"{error.filename} is a folder; a file is wanted" if isinstance(error, IsADirectoryError) else str(error)
        )
        typer.secho(f"understudy: {in_options(' '.join(words.split()))}", fg=typer.colors.RED, err=True)
        sys.exit(1)
    except Exception as error:
        if os.environ.get("UNDERSTUDY_TRACEBACK"):
            raise
        # not what it says, which may hold a reading: only what kind of thing it is
        kind = type(error).__name__
        words = f"understudy: a fault of the program ({kind}); UNDERSTUDY_TRACEBACK=1 shows where, please report it"
        typer.secho(words, fg=typer.colors.RED, err=True)
        sys.exit(3)
