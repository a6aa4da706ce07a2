"""The command line: every command with its options, declarations only.

What a command does stands in `file_commands` (fit, apply, audit), `design_commands` (design, report, guarantee),
`quickstart`, `demo` and `records_commands` (ledger, info, paper), which are loaded when the command is called: help is
quick. Options that several commands share are declared once, in `options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy._version import __version__
from understudy.cli import options as o

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


_FIT = examples(
    "understudy fit history.csv --reading co2 --private occupancy --time date -o family.json",
    "understudy fit rooms.parquet --reading co2 --private people --bins '0,1-2,3+' --segment day --period 15min "
    "-o family.json",
)


def fit(
    history: o.History,
    reading: o.Reading,
    private: o.Private,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Write the family here, as JSON.")],
    time: o.Time = None,
    segment: o.Segment = None,
    period: o.Period = None,
    bins: o.Bins = None,
    public: o.Public = None,
    actuator: o.Actuator = None,
    model: o.Model = "auto",
    grid: o.Grid = "auto",
    file_format: o.Format = None,
    delimiter: o.Delimiter = ",",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if the models do not fit.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Find models of the readings under each private value, and test on held-out data whether they fit."""
    from understudy.cli.file_commands import Columns
    from understudy.cli.file_commands import fit as run

    columns = Columns(
        reading, private, time, segment, public, actuator, period, bins, model, grid, file_format, delimiter
    )
    if not run(history, columns, out, as_json, strict):
        raise typer.Exit(1)


_DESIGN = examples(
    "understudy design family.json --leakage 0.1bit --distortion mae -o design.json",
    "understudy design family.json --error-at-least 0.3 -o design.json",
    "understudy design family.json --per day --leakage 1bit --decision-every 15min -o design.json",
    "understudy design --leakage 40%",
    "understudy design family.json --local-dp 1 --floor 0.01 -o design.json",
)


def design(
    family: Annotated[
        Path | None,
        typer.Argument(metavar="FAMILY", help="A stored family, such as family.json; the paper's room if left out."),
    ] = None,
    leakage: o.Leakage = None,
    error_at_least: o.ErrorAtLeast = None,
    distortion_at_most: o.DistortionAtMost = None,
    local_dp: o.LocalDP = None,
    maximal_leakage: o.MaximalLeakage = None,
    pointwise_leakage: o.PointwiseLeakage = None,
    total_variation: o.TotalVariation = None,
    floor: o.Floor = None,
    forbid: o.Forbid = None,
    same: o.Alike = None,
    distortion: o.Distortion = "mae",
    per: o.Per = None,
    causal: Annotated[bool, typer.Option("--causal", help="Draws that follow a moving value and remember.")] = False,
    decision_every: o.DecisionEvery = None,
    rate: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="The leakage of a decision, instead of --leakage.")
    ] = None,
    horizon: o.Horizon = None,
    resolution: o.Resolution = None,
    form: o.Form = None,
    valid: o.Valid = None,
    pseudo: Annotated[
        str | None, typer.Option(metavar="VALUES", help="Values that may be played (default: the family's).")
    ] = None,
    values: Annotated[
        str | None, typer.Option(metavar="VALUES", help="Of the paper's room: its occupancies (default 0,1).")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(metavar="ODDS", help="Of the paper's room: their odds (default: equal).")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--out", "-o", "--save", metavar="FILE", help="Write the design here, as JSON.")
    ] = None,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
) -> None:
    """Find the best randomizer for a family, or for the paper's room, with the proof that none is better."""
    from understudy.cli.design_commands import DesignOptions as Wanted
    from understudy.cli.design_commands import EndsOptions as Asked
    from understudy.cli.design_commands import Outputs, Room, TypedConstraints
    from understudy.cli.design_commands import design as run

    also = TypedConstraints(local_dp, maximal_leakage, pointwise_leakage, total_variation, floor, forbid, same)
    wanted = Wanted(
        leakage,
        rate,
        error_at_least,
        distortion_at_most,
        distortion,
        pseudo,
        horizon,
        per,
        decision_every,
        causal,
        also,
        Asked(resolution, form, valid),
    )
    run(family, wanted, Room(values, prior), Outputs(save, plot, as_json))


_REPORT = examples(
    "understudy report design.json -o report.html",
    "understudy report design.json --audit audit.json -o report.html",
)


def report(
    path: o.Design,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the page here, as HTML.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put this audit on the page, which `audit --save` wrote.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write one page on a design: for those who decide first, for those who check below. It opens offline."""
    from understudy.cli.design_commands import report as run

    run(path, out, as_json, audit)


_APPLY = examples(
    "understudy apply design.json today.csv -o disguised.csv --private occupancy --ledger room.db",
    "understudy apply design.json - -o - --private occupancy --ledger room.db < today.csv > disguised.csv",
)


def apply(
    path: o.Design,
    source: Annotated[str, typer.Argument(metavar="READINGS", help="The file to disguise, or - for standard input.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Write here, or - for standard output.")],
    private: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the private value; it does not leave.")
    ] = None,
    ledger: o.Ledger = None,
    time: o.Time = None,
    keep: o.Keep = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the stream in the ledger (default: stream).")
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The columns of the readings, where they are not those of the design."),
    ] = None,
    segment: o.Segment = None,
    period: o.Cadence = None,
    decimals: o.Decimals = None,
    epoch: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Draw again so often by the clock, such as 1d; each draw is charged."),
    ] = None,
    file_format: o.Format = None,
    delimiter: o.Delimiter = ",",
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give up another run that was interrupted, and begin this one.")
    ] = False,
    on_error: o.OnError = "stop",
    accept_misfit: o.AcceptMisfit = False,
    estimate_private: o.EstimatePrivate = False,
    as_json: o.AsJson = False,
) -> None:
    """Disguise the readings of a file. Only time and filtered readings leave, unless --keep names more."""
    from understudy.cli.file_commands import How
    from understudy.cli.file_commands import apply as run

    how = How(
        private, time, ledger, name, keep, on_error, accept_misfit, estimate_private, reading, segment, epoch,
        file_format, delimiter, abandon, period, decimals,
    )  # fmt: skip
    run(path, source, out, how, as_json)


_AUDIT = examples(
    "understudy audit design.json",
    "understudy audit design.json --on heldout.csv -o audit.html",
    "understudy audit design.json --on test.csv --train history.csv --alarm 1000 -o audit.html --save audit.json",
    "understudy audit design.json today.csv --released disguised.csv --strict",
)


def audit(
    path: o.Design,
    source: Annotated[
        str | None,
        typer.Argument(metavar="READINGS", help="Raw readings with labels to attack; simulated ones if left out."),
    ] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="FILE", help="The same as READINGS.")] = None,
    train: Annotated[
        str | None, typer.Option(metavar="FILE", help="Adversaries learn from this file (default: half of READINGS).")
    ] = None,
    released: Annotated[
        str | None, typer.Option(metavar="FILE", help="Attack this output, made from READINGS, as it is.")
    ] = None,
    private: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the private value (default: the design's).")
    ] = None,
    time: o.Time = None,
    segment: o.Segment = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The columns of the readings, where they are not those of the design."),
    ] = None,
    adversaries: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Only these, with commas between them (default: all).")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=100, metavar="COUNT", help="Sequences or readings that are simulated.")
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="SHARE", help="Of the intervals.")] = 0.99,
    replicates: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Disguised copies of the readings, with fresh draws.")
    ] = None,
    epoch: Annotated[
        str | None, typer.Option(metavar="TIME", help="A design of one draw draws again so often, such as 60min.")
    ] = None,
    alarm: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS", help="Alarms that the output should still raise, one a channel, as in 1000,none."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="The same audit again, bit by bit.")] = None,
    file_format: o.Format = None,
    delimiter: o.Delimiter = ",",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a page here, as HTML; it opens offline.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures here, as JSON, for `report --audit`.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with status 1 if the bound is beaten, something is found in --released, or nothing can be told.",
        ),
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Attack a design, or an output, with adversaries that know it, and say what they learned, with confidence."""
    from understudy.cli.file_commands import AuditOptions as Asked
    from understudy.cli.file_commands import Files, Outputs, one_source, refuse_columns
    from understudy.cli.file_commands import audit as run

    files = None
    source = one_source(source, on)
    if source is None:
        refuse_columns({"train": train, "released": released, "columns": reading, "private": private, "time": time,
                        "segment": segment})  # fmt: skip
    else:
        files = Files(source, train, released, reading, private, time, segment, file_format, delimiter)
    asked = Asked(adversaries, n, confidence, replicates, epoch, seed, alarm)
    if not run(path, files, asked, Outputs(out, save, as_json, strict)):
        raise typer.Exit(1)


_QUICKSTART = examples(
    "understudy quickstart history.csv --reading co2 --private occupancy --time date --leakage 0.1bit",
)


def quickstart(
    history: o.History,
    reading: o.Reading,
    private: o.Private,
    time: o.Time = None,
    segment: o.Segment = None,
    period: o.Period = None,
    bins: o.Bins = None,
    public: o.Public = None,
    actuator: o.Actuator = None,
    model: o.Model = "auto",
    grid: o.Grid = "auto",
    file_format: o.Format = None,
    delimiter: o.Delimiter = ",",
    leakage: o.Leakage = None,
    error_at_least: o.ErrorAtLeast = None,
    distortion_at_most: o.DistortionAtMost = None,
    distortion: o.Distortion = "mae",
    per: o.Per = None,
    decision_every: o.DecisionEvery = None,
    horizon: o.Horizon = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="FILE", help="Disguise this file (default: the end of the history).")
    ] = None,
    accept_misfit: o.AcceptMisfit = False,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Attack what was made (some minutes).")] = True,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for everything that is written.")
    ] = Path("understudy-results"),
    as_json: o.AsJson = False,
) -> None:
    """Fit, design, report, apply and audit in one go, with a summary at the end."""
    from understudy.cli.design_commands import DesignOptions as Wanted
    from understudy.cli.file_commands import Columns
    from understudy.cli.quickstart import quickstart as run

    columns = Columns(
        reading, private, time, segment, public, actuator, period, bins, model, grid, file_format, delimiter
    )
    if (leakage, error_at_least, distortion_at_most) == (None, None, None):
        leakage = "0.1 bit"
    wanted = Wanted(
        leakage, None, error_at_least, distortion_at_most, distortion, None, horizon, per, decision_every, False
    )
    if not run(history, columns, wanted, on, accept_misfit, audit, out, as_json):
        raise typer.Exit(1)


for _command, _epilog in (
    (quickstart, _QUICKSTART), (fit, _FIT), (design, _DESIGN), (report, _REPORT), (apply, _APPLY), (audit, _AUDIT),
):  # fmt: skip
    app.command(rich_help_panel=PANEL, epilog=_epilog)(_command)  # in the order in which they are used


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
