"""Options that several commands share.

What was typed, as what it means: lists, quantities with a unit, durations. Errors name the option and the rule.

Constraints as typed after ``understudy design``: other measures, a floor, pairs and groups.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.errors import ConfigurationError

if TYPE_CHECKING:
    from understudy._types import Value  # it loads numpy, which help does without

# Options that several commands share -----------------------------------------------------------------


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


# What was typed, as what it means: lists, quantities with a unit, durations. Errors name the option a ---


_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9].*?)?\s*")
_SQUARED = re.compile(r"(\^2|²|2)$")


def budget(leakage: str | None) -> str | float | None:
    """A leakage as typed: a bare number is one of nats."""
    try:
        return None if leakage is None else float(leakage)
    except ValueError:
        return leakage


_NAMES = (
    "leakage|rate|error_at_least|distortion_at_most|distortion|pseudo|horizon|decision_every|reading|private|time|segment|"
    "period|bins|public|actuators|grid|model|keep|epoch|format|delimiter|on_error|name|ledger|prior|values|resolution|"
    "readings|valid|decimals"
)
_NAMED = re.compile(rf"(?<![\w.'\"-])({_NAMES}) ?= ?(?=\S)")
_LEFT = re.compile(r"(?<![\w.'\"-])(format)= says|(accept_misfit)=True")


def in_options(words: str) -> str:
    """An error of the library in the words of the command line: options for the names of arguments.

    >>> in_options("error_at_least = 1.4; it must be between 0 and 0.5")
    '--error-at-least 1.4; it must be between 0 and 0.5'
    >>> in_options("it has no ending, or format= says which (csv); accept_misfit=True goes on")
    'it has no ending, or --format says which (csv); --accept-misfit goes on'
    """
    words = _LEFT.sub(lambda m: "--format says" if m[1] else "--accept-misfit", words)
    return _NAMED.sub(lambda m: f"--{m[1].replace('_', '-')} ".replace("actuators", "actuator"), words)


def numbers(option: str, text: str) -> list[float | int]:
    """Numbers with commas between them; whole ones stay whole.

    >>> numbers("--pseudo", "0, .5,1")
    [0, 0.5, 1]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"{option} {text}: numbers with commas between them are wanted, as in 0,.5,1"
        ) from None
    return [int(x) if x.is_integer() else x for x in found]


def quantity(option: str, text: str, units: Sequence[str | None] | None = None) -> tuple[float, str]:
    """A number with or without a unit, which must be that of the readings if that is known.

    >>> quantity("--distortion-at-most", "25ppm"), quantity("--distortion-at-most", "25")
    ((25.0, 'ppm'), (25.0, ''))
    >>> quantity("--distortion-at-most", "25 ppm", units=["degC"])
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: --distortion-at-most 25 ppm: the readings are in degC, not in ppm
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{option} {text}: a number is wanted, with its unit or without, as in 25ppm or 25")
    unit = match[2] or ""
    if unit == "%":
        raise ConfigurationError(f"{option} {text}: a share is not accepted here; give it in the unit of the readings")
    known = {str(u) for u in units or () if u}
    if unit and known and unit not in known and _SQUARED.sub("", unit) not in known:
        raise ConfigurationError(f"{option} {text}: the readings are in {' and '.join(sorted(known))}, not in {unit}")
    return float(match[1]), unit


def values_named(option: str, text: str, values: tuple[Value, ...]) -> list[Value]:
    """Values of a family by their names, with commas between them.

    >>> values_named("--pseudo", "0, 3+", (0, "1-2", "3+"))
    [0, '3+']
    """
    names = {str(value): value for value in values}
    found = []
    for part in (part.strip() for part in text.split(",")):
        if part not in names:
            known = ", ".join(names)
            raise ConfigurationError(f"{option} {text}: the family has no model for {part!r}; it has {known}")
        found.append(names[part])
    return found


def readings(option: str, text: str, period: float | None) -> int:
    """A number of readings: as it is, or as a time that the period goes into.

    >>> readings("--decision-every", "15min", 60.0), readings("--decision-every", "4", 900.0)
    (15, 4)
    >>> readings("--every", "90s", 60.0)
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: --every 90s: it must be a whole number of readings, one comes every 60 s
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text):
        count = float(text)
    else:
        from understudy.tables.times import seconds

        try:
            time = seconds(text)
        except ConfigurationError:
            raise ConfigurationError(
                f"{option} {text}: a number of readings or a time is wanted, as in 15 or 15min"
            ) from None
        if not period:
            raise ConfigurationError(
                f"{option} {text}: the family does not say how often a reading comes; give a number of readings"
            )
        count = time / period
        if abs(count - round(count)) > 1e-6:
            raise ConfigurationError(
                f"{option} {text}: it must be a whole number of readings, one comes every {period:g} s"
            )
    if round(count) < 1:
        raise ConfigurationError(f"{option} {text}: it must be at least one reading")
    return round(count)
