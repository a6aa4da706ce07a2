"""The command line: every command with its options, declarations only.

What a command does stands in `file_commands` (fit, apply, audit), `design_commands` (design, report, guarantee),
`quickstart`, `demo` and `records_commands` (ledger, key, info, paper), which are loaded when the command is called:
help is quick. Options that several commands share are declared once, in `options`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from understudy._version import __version__
from understudy.cli import options as o
from understudy.cli.options import expand_groups, option
from understudy.gateway.commands import gateway
from understudy.gateway.pipe_options import PipeOptions
from understudy.studio.command import studio

PANEL = "From a file to a filter"


def examples(*lines: str) -> str:
    """What stands below the options: each example on a line of its own."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


app = typer.Typer(
    name="understudy",
    help="Share a sensor stream and hide one fact behind it.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals hold secrets
    epilog=examples(
        "understudy quickstart history.csv --reading co2 --private occupancy --time date",
        "understudy demo",
    )
    + "\n\nExit status: 0 done or released, 1 an error, 2 wrong usage, 3 do not release.",
)
_LIVE = "Live, between sensors and listeners"
_LOOK, _PAPER = "Look into what is there", "The paper, and this program"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, option(None, "Print the version and leave.", "--version", callback=_version, is_eager=True)
    ] = False,
    quiet: Annotated[
        bool, option(None, "No progress and no notes on the error stream; warnings and errors stay.", "--quiet")
    ] = False,
    config: Annotated[
        Path | None,
        option("FILE", "Defaults for options, in TOML: a table for each command.", "--config"),
    ] = None,
) -> None:
    from understudy.cli import terminal

    terminal.quiet.set(quiet)
    if config is not None:
        context.default_map = o.read_defaults(config, context)


def _command(function: Callable[..., None], *lines: str, panel: str = PANEL) -> None:
    """Add a command, with its examples."""
    name = function.__name__.replace("_", "-")
    app.command(name, rich_help_panel=panel, epilog=examples(*lines))(expand_groups(function))


def fit(
    history: o.History,
    columns: o.Columns,
    out: Annotated[Path, option("FILE", "Write the family here, as JSON.", "--out", "-o")],
    strict: Annotated[bool, option(None, "Exit with status 1 if the gate is not passed.", "--strict")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Find models of the readings under each private value, and test on held-out data whether they fit."""
    from understudy.cli.file_commands import fit as run

    if not run(history, columns, out, as_json, strict):
        raise typer.Exit(1)


def design(
    wanted: o.DesignOptions,
    room: o.RoomOptions,
    outputs: o.DesignOutputs,
    family: Annotated[
        Path | None,
        typer.Argument(metavar="FAMILY", help="A stored family, such as family.json; the paper's room if left out."),
    ] = None,
) -> None:
    """Find the best randomizer for a family, or for the paper's room, with the proof that none is better."""
    from understudy.cli.design_commands import design as run

    run(family, wanted, room, outputs)


def design_coin(
    wanted: o.CoinOptions,
    history: Annotated[
        str | None, typer.Argument(metavar="HISTORY", help="Past readings, whose median and distortion are published.")
    ] = None,
    save: Annotated[Path | None, option("FILE", "Write the design here, as JSON.", "--out", "-o")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Show or hide whole epochs by a coin: the design without models, whose bound holds whatever the truth is."""
    from understudy.cli.design_commands import design_coin as run

    run(history, wanted, save, as_json)


def report(
    path: o.Design,
    out: Annotated[Path | None, option("FILE", "Write the page here, as HTML.", "--out", "-o")] = None,
    audit: Annotated[Path | None, option("FILE", "Put this audit on the page, which `audit --save` wrote.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write one page on a design: for those who decide first, for those who check below. It opens offline."""
    from understudy.cli.design_commands import report as run

    run(path, out, as_json, audit)


def apply(
    path: o.Design,
    source: Annotated[str, typer.Argument(metavar="READINGS", help="The file to disguise, or - for standard input.")],
    out: Annotated[str, option("FILE", "Write here, or - for standard output.", "--out", "-o")],
    how: o.ApplyOptions,
    as_json: o.AsJson = False,
) -> None:
    """Disguise the readings of a file. Only time and filtered readings leave, unless --keep names more."""
    from understudy.cli.file_commands import apply as run

    run(path, source, out, how, as_json)


def pipe(path: o.Design, how: PipeOptions) -> None:
    """Disguise lines from standard input to standard output, as they come: line protocol, JSON lines or SenML."""
    from understudy.cli.terminal import quiet
    from understudy.gateway.pipe import run

    run(path, how, quiet.get())


def audit(
    context: typer.Context,
    path: o.Design,
    files: o.AuditFiles,
    asked: o.AuditOptions,
    table: o.TableFormat,
    outputs: o.AuditOutputs,
) -> None:
    """Attack a design, or an output, with adversaries that know it, and say what they learned, with confidence."""
    from understudy.cli.file_commands import audit as run

    # columns that are named once for all commands do not ask for a file
    simulated = files.source is None and files.on is None
    if not run(path, o.without_defaults(context, files) if simulated else files, table, asked, outputs):
        raise typer.Exit(1)


def quickstart(
    history: o.History,
    columns: o.Columns,
    leakage: o.Leakage = None,
    error_at_least: o.ErrorAtLeast = None,
    distortion_at_most: o.DistortionAtMost = None,
    distortion: o.Distortion = "mae",
    per: o.Per = None,
    decision_every: o.DecisionEvery = None,
    horizon: o.Horizon = None,
    on: Annotated[str | None, option("FILE", "Disguise this file (default: the end of the history).", "--on")] = None,
    accept_misfit: o.AcceptMisfit = False,
    audit: Annotated[bool, option(None, "Attack what was made (some minutes).", "--audit/--no-audit")] = True,
    out: Annotated[Path, option("FOLDER", "Folder for everything that is written.", "--out", "-o")] = Path(
        "understudy-results"
    ),
    as_json: o.AsJson = False,
) -> None:
    """Fit, design, report, apply and audit in one go, with a summary at the end."""
    from understudy.cli.file_commands import quickstart as run

    if (leakage, error_at_least, distortion_at_most) == (None, None, None):
        leakage = "0.1 bit"
    wanted = o.DesignOptions(
        leakage,
        error_at_least,
        distortion_at_most,
        distortion=distortion,
        per=per,
        decision_every=decision_every,
        horizon=horizon,
    )
    if status := run(history, columns, wanted, on, accept_misfit, audit, out, as_json):
        raise typer.Exit(status)


# in the order in which they are used
_command(quickstart, "understudy quickstart history.csv --reading co2 --private occupancy --time date --leakage 0.1bit")
_command(
    fit,
    "understudy fit history.csv --reading co2 --private occupancy --time date -o family.json",
    "understudy fit rooms.parquet --reading co2 --private people --bins '0,1-2,3+' --segment day --period 15min "
    "-o family.json",
)
_command(
    design,
    "understudy design family.json --leakage 0.1bit --distortion mae -o design.json",
    "understudy design family.json --error-at-least 0.3 -o design.json",
    "understudy design family.json --per day --leakage 1bit --decision-every 15min -o design.json",
    "understudy design --leakage 40%",
    "understudy design family.json --local-dp 1 --floor 0.01 -o design.json",
)
_command(
    design_coin,
    "understudy design-coin history.csv --reading co2 --time date --period 1min --q 0.5 -o coin.json",
    "understudy design-coin --constant 420 --leakage 25% --epoch 96 -o coin.json",
)
_command(
    report,
    "understudy report design.json -o report.html",
    "understudy report design.json --audit audit.json -o report.html",
)
_command(
    apply,
    "understudy apply design.json today.csv -o disguised.csv --private occupancy --ledger room.db",
    "understudy apply design.json - -o - --private occupancy --ledger room.db < today.csv > disguised.csv",
)
_command(
    pipe,
    "understudy pipe design.json --format influx --reading co2 --private occupancy --room room --ledger room.db",
    panel=_LIVE,
)
_command(
    audit,
    "understudy audit design.json",
    "understudy audit design.json --on heldout.csv -o audit.html",
    "understudy audit design.json --on test.csv --train history.csv --alarm 1000 -o audit.html --save audit.json",
    "understudy audit design.json today.csv --released disguised.csv --strict",
)


app.add_typer(gateway, name="gateway", rich_help_panel=PANEL)


app.command(
    rich_help_panel=_LOOK,
    epilog=examples("understudy studio", "understudy studio history.csv", "understudy studio design.json"),
)(studio)


@app.command(rich_help_panel=_LOOK, epilog=examples("understudy guarantee design.json --html card.html"))
def guarantee(
    path: o.Design,
    as_json: o.AsJson = False,
    html: Annotated[Path | None, option("FILE", "Write a page here instead.")] = None,
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
    out: Annotated[Path | None, option("FILE", "Write here instead of to the terminal.", "--out", "-o")] = None,
    as_json: Annotated[
        bool, option(None, "With --out: say in JSON how many were written. The outputs are always JSON.", "--json")
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


keys = typer.Typer(
    help="Make and name master keys, from which the draws of many rooms follow.",
    no_args_is_help=True,
    epilog=examples("understudy key new master.key"),
)
app.add_typer(keys, name="key", rich_help_panel=_LOOK)

_KeySource = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="A file, env:NAME, credential:NAME (systemd) or 'command:...', whose output is the key."
    ),
]


@keys.command("new", epilog=examples("understudy key new master.key"))
def key_new(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; one that is there is not replaced.")],
    as_json: o.AsJson = False,
) -> None:
    """Make a master key, in a file that only its owner may read, and print its id."""
    from understudy.cli.records_commands import new_key

    new_key(path, as_json)


@keys.command("show-id", epilog=examples("understudy key show-id env:UNDERSTUDY_KEY"))
def key_show_id(source: _KeySource, as_json: o.AsJson = False) -> None:
    """Print the id of a master key, which tells one key from another and nothing else."""
    from understudy.cli.records_commands import show_key_id

    show_key_id(source, as_json)


@keys.command("rewrap", epilog=examples("understudy key rewrap room.ledger --new-key master.key"))
def key_rewrap(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger, which no other process has open.")],
    new_key: Annotated[str, option("KEY", "The master key to wrap the keys of its streams with.")],
    old_key: Annotated[str | None, option("KEY", "The one that they are wrapped with, if any.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Wrap the keys that a ledger stores with another master key; no draw changes."""
    from understudy.cli.records_commands import rewrap_ledger

    rewrap_ledger(path, old_key, new_key, as_json)


@app.command(rich_help_panel=_LIVE, epilog=examples("understudy simulate rooms.yaml --speed 60 --readings 1000"))
def simulate(
    path: Annotated[Path, typer.Argument(metavar="ROOMS", help="The rooms, in YAML or TOML.")],
    speed: Annotated[float, option("FACTOR", "So many times as fast as the clock, from the past on.", "--speed")] = 1.0,
    readings: Annotated[int | None, option("N", "End after so many readings of each room.", "--readings")] = None,
    seed: Annotated[int | None, option("N", "The same people and readings every time.", "--seed")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Publish rooms with people coming and going to an MQTT broker: something to try a gateway on."""
    from understudy.gateway.commands import need_extra

    need_extra()
    from understudy.gateway.simulate import run

    run(path, speed, readings, seed, as_json)


@app.command(rich_help_panel=_PAPER, epilog=examples("understudy demo", "understudy demo --theta 1 --pseudo 0.6"))
@expand_groups
def demo(
    part: o.Part,
    steps: Annotated[int, option("COUNT", "Number of readings.", min=60, max=1_000_000)] = 1000,
    seed: Annotated[int, option("NUMBER", "Seed of the simulation.", min=0)] = 3,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
) -> None:
    """Disguise the readings of the paper's room, and see what an adversary who averages learns."""
    from understudy.cli.demo import run

    run(part, steps, seed, plot, as_json)


@app.command(rich_help_panel=_PAPER, epilog=examples("understudy paper --quick --figure tradeoff"))
def paper(
    out: Annotated[Path, option("FOLDER", "Folder for the report, the figures and the numbers.", "--out", "-o")] = Path(
        "paper-results"
    ),
    quick: Annotated[bool, option(None, "Fewer points and sequences, for a first look.", "--quick")] = False,
    figure: Annotated[list[str] | None, option("NAME", "Only this result; may be given several times.")] = None,
    seed: Annotated[int, option("NUMBER", "Seed of the simulations.", min=0)] = 0,
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


class Shell(StrEnum):
    """A shell that can complete commands and options."""

    BASH, ZSH, FISH = "bash", "zsh", "fish"


@app.command(
    rich_help_panel=_PAPER,
    epilog=examples(
        "understudy completion bash > ~/.local/share/bash-completion/completions/understudy",
        "understudy completion zsh > ~/.zfunc/_understudy",
        "understudy completion fish > ~/.config/fish/completions/understudy.fish",
    ),
)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")],
    as_json: o.AsJson = False,
) -> None:
    """Print the script that makes a shell complete commands and options. The examples say where it goes.

    It is in use in the next shell. For zsh, .zshrc needs the lines `fpath+=~/.zfunc` and
    `autoload -Uz compinit && compinit`.
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="understudy", complete_var="_UNDERSTUDY_COMPLETE", shell=shell.value)
    if as_json:
        from understudy.cli.terminal import print_json

        print_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script)


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
        sys.exit(1)  # 3 says that a design must not be released
