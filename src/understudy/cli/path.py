"""The path from a file to a filter: fit, design, report, apply, and all of them at once. Declarations only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import options as o

PANEL = "From a file to a filter"


def examples(*lines: str) -> str:
    """What stands below the options: each example on a line of its own."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def declare(app: typer.Typer) -> None:
    """Add the commands, in the order in which they are used."""
    app.command(rich_help_panel=PANEL, epilog=_QUICKSTART)(quickstart)
    app.command(rich_help_panel=PANEL, epilog=_FIT)(fit)
    app.command(rich_help_panel=PANEL, epilog=_DESIGN)(design)
    app.command(rich_help_panel=PANEL, epilog=_REPORT)(report)
    app.command(rich_help_panel=PANEL, epilog=_APPLY)(apply)


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
    from understudy.cli.fitting import Columns, run

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
)


def design(
    family: Annotated[
        Path | None,
        typer.Argument(metavar="FAMILY", help="A stored family, such as family.json; the paper's room if left out."),
    ] = None,
    leakage: o.Leakage = None,
    error_at_least: o.ErrorAtLeast = None,
    distortion_at_most: o.DistortionAtMost = None,
    distortion: o.Distortion = "mae",
    per: o.Per = None,
    causal: Annotated[bool, typer.Option("--causal", help="Draws that follow a moving value and remember.")] = False,
    decision_every: o.DecisionEvery = None,
    rate: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="The leakage of a decision, instead of --leakage.")
    ] = None,
    horizon: o.Horizon = None,
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
    from understudy.cli.designing import Outputs, Room, run
    from understudy.cli.family_designs import Wanted

    wanted = Wanted(
        leakage, rate, error_at_least, distortion_at_most, distortion, pseudo, horizon, per, decision_every, causal
    )
    run(family, wanted, Room(values, prior), Outputs(save, plot, as_json))


_REPORT = examples("understudy report design.json -o report.html")


def report(
    path: o.Design,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the page here, as HTML.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write one page on a design: for those who decide first, for those who check below. It opens offline."""
    from understudy.cli.reporting import run

    run(path, out, as_json)


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
    from understudy.cli.applying import How, run

    how = How(
        private, time, ledger, name, keep, on_error, accept_misfit, estimate_private, reading, segment, epoch,
        file_format, delimiter, abandon,
    )  # fmt: skip
    run(path, source, out, how, as_json)


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
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for everything that is written.")
    ] = Path("understudy-results"),
    as_json: o.AsJson = False,
) -> None:
    """Fit, design, report and apply in one go, with a summary at the end."""
    from understudy.cli.family_designs import Wanted
    from understudy.cli.fitting import Columns
    from understudy.cli.quickstarting import run

    columns = Columns(
        reading, private, time, segment, public, actuator, period, bins, model, grid, file_format, delimiter
    )
    if (leakage, error_at_least, distortion_at_most) == (None, None, None):
        leakage = "0.1 bit"
    wanted = Wanted(
        leakage, None, error_at_least, distortion_at_most, distortion, None, horizon, per, decision_every, False
    )
    if not run(history, columns, wanted, on, accept_misfit, out, as_json):
        raise typer.Exit(1)
