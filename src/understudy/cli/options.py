"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of text for people.")]
Design = Annotated[Path, typer.Argument(metavar="DESIGN", help="A stored design, such as design.json.")]
History = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Readings and labels: CSV (also gzipped), Parquet, JSON lines, or -.")
]
Reading = Annotated[
    list[str], typer.Option(metavar="COLUMN", help="A column of readings; several are modelled together.")
]
Private = Annotated[str, typer.Option(metavar="COLUMN", help="The column that must not be learned.")]
Time = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the times of the rows.")]
Segment = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="A column that separates days or rooms; nothing carries over.")
]
Period = Annotated[str | None, typer.Option(metavar="TIME", help="Bring the rows to one every so often, such as 60s.")]
Bins = Annotated[
    str | None, typer.Option(metavar="BINS", help="Put counts of the private column together, such as '0,1-2,3+'.")
]
Public = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="An input that everybody may know, such as weather; 'clock' is the time of day."
    ),
]
Actuator = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="An actuator that reacts to readings: refused as an input, with the reason."),
]
Grid = Annotated[
    str, typer.Option(metavar="STEP", help="The step of rounded readings, with commas between channels; auto or none.")
]
Model = Annotated[
    str,
    typer.Option(metavar="NAME", help="grey-box, autoregressive, free, independent, hidden, or a name of the table."),
]
Leakage = Annotated[
    str | None,
    typer.Option(metavar="AMOUNT", help="How much may leak: nats, or '0.4 bit', or '40%' of the entropy."),
]
ErrorAtLeast = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Instead: how often every guess must be wrong, such as 0.3.")
]
DistortionAtMost = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Instead: the distortion that is acceptable, such as 25ppm.")
]
LocalDP = Annotated[
    float | None,
    typer.Option("--local-dp", metavar="EPSILON", help="Also: local differential privacy, this epsilon (to 20)."),
]
MaximalLeakage = Annotated[
    str | None, typer.Option(metavar="AMOUNT", help="Also: at most so much maximal leakage, nats or '0.4 bit'.")
]
PointwiseLeakage = Annotated[
    str | None, typer.Option(metavar="AMOUNT", help="Also: at most so much leakage by the most telling draw.")
]
TotalVariation = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Also: any two values at most so far apart, such as 0.2.")
]
Floor = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Also: every value plays every other at least so often.")
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(metavar="PAIRS", help="Also: never played, true:played, such as '0:1,2:0' (repeatable)."),
]
Alike = Annotated[
    list[str] | None,
    typer.Option("--same", metavar="GROUPS", help="Also: treated alike, such as '0,1;2,3' (repeatable)."),
]
Multiples = Annotated[
    int | None, typer.Option(metavar="COUNT", help="Also: probabilities in multiples of 1/COUNT, a power of two.")
]
Distortion = Annotated[str, typer.Option(metavar="MEASURE", help="What counts as far: mae or mse.")]
Per = Annotated[
    str | None, typer.Option(metavar="UNIT", help="What the leakage is per: run (one draw), day or decision (causal).")
]
DecisionEvery = Annotated[
    str | None, typer.Option(metavar="TIME", help="Draw so often: 15min, or a number of readings (default 15 min).")
]
Horizon = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="COUNT", help="Readings that the distortion is averaged over (default: long sequences)."
    ),
]
Resolution = Annotated[
    str | None,
    typer.Option(metavar="STEP", help="Readings leave on multiples of this: a power of two or a decimal; 1/4096 too."),
]
Form = Annotated[
    str | None,
    typer.Option("--readings", metavar="FORM", help="How readings come: double, float32 or '6 digits'."),
]
Valid = Annotated[
    str | None, typer.Option(metavar="LOW,HIGH", help="The public range of readings; others are not taken for any.")
]
Decimals = Annotated[
    int | None, typer.Option(min=0, metavar="COUNT", help="Write so many decimals (default: as the design has it).")
]
Cadence = Annotated[
    str | None, typer.Option("--period", metavar="TIME", help="The time from row to row, where the design has none.")
]
Ledger = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where draws are remembered and leakage is counted. Secret.")
]
AcceptMisfit = Annotated[
    bool, typer.Option("--accept-misfit", help="Go on although the models do not fit; the bounds do not hold then.")
]
EstimatePrivate = Annotated[
    bool, typer.Option("--estimate-private", help="Estimate the private value from the readings: NO guarantee then.")
]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Pass this column through as it is; it may tell everything.")
]
OnError = Annotated[
    str,
    typer.Option(metavar="WHAT", help="What a bad reading or time does: stop, or skip (reported). A bad label stops."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="csv, csv.gz, parquet or jsonl (default: by the ending)."),
]
Delimiter = Annotated[str, typer.Option(metavar="CHARACTER", help="What stands between the fields of a CSV file.")]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a picture here (.png, .svg or .pdf; needs the plot extra).")
]
