"""Every option of the command line, declared once.

An option is a type with its words: ``Annotated[str, option("COLUMN", "The column that")]``. Options that go together
are fields of a frozen dataclass (`Columns`, `DesignOptions`, `ApplyOptions`, ...). A command takes such a group as one
parameter, and `expand_groups` shows its fields to the terminal as options of their own; what was not typed is None.

The second part reads a file of defaults. The third turns what was typed into what it means: lists, quantities with a
unit, durations. Errors name the option and the rule. Nothing here loads numpy, so that help is quick.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from understudy.errors import ConfigurationError

if TYPE_CHECKING:
    from understudy._types import Value  # it loads numpy, which help does without

# Groups of options ----------------------------------------------------------------------------------------------------


def option(metavar: str | None, words: str, *names: str, **rules: Any) -> Any:
    """An option: what stands for its value, what it is for, and its names where they are not the parameter's."""
    return typer.Option(*names, metavar=metavar, help=words, **rules)


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its groups as parameters of their own; those that must be given come first.

    >>> def sort(history: History, table: TableFormat, as_json: AsJson = False) -> None:
    ...     print(table)
    >>> list(inspect.signature(expand_groups(sort)).parameters)
    ['history', 'file_format', 'delimiter', 'as_json']
    >>> expand_groups(sort)(history="-", file_format=None, delimiter=";", as_json=False)
    TableFormat(file_format=None, delimiter=';')
    """
    own, hints = inspect.signature(command).parameters, get_type_hints(command, include_extras=True)
    parameters = [each for name, given in own.items() for each in _parameters(name, hints[name], given.default)]
    parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)

    @wraps(command)
    def run(**typed: Any) -> None:
        command(**{name: _value(name, hints[name], typed) for name in own})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature reads
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _parameters(name: str, kind: Any, default: Any) -> Iterator[inspect.Parameter]:
    if not is_dataclass(kind):
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        return
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        empty = each.default is each.default_factory  # both are MISSING where there is none
        yield from _parameters(each.name, hints[each.name], inspect.Parameter.empty if empty else each.default)


def _value(name: str, kind: Any, typed: dict[str, Any]) -> Any:
    if not is_dataclass(kind):
        return typed[name]
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{each.name: _value(each.name, hints[each.name], typed) for each in fields(kind)})  # type: ignore[operator]  # a class


# Options that several commands or groups share ------------------------------------------------------------------------

AsJson = Annotated[bool, option(None, "Print JSON for a program instead of text for people.", "--json")]
Design = Annotated[Path, typer.Argument(metavar="DESIGN", help="A stored design, such as design.json.")]
History = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Readings and labels: CSV (also gzipped), Parquet, JSON lines, or -.")
]
Time = Annotated[str | None, option("COLUMN", "The column with the times of the rows, or two of them: Date,Time.")]
DayFirst = Annotated[bool, option(None, "Dates such as 22/12/2017 begin with the day.", "--day-first")]
Segment = Annotated[str | None, option("COLUMN", "A column that separates days or rooms; nothing carries over.")]
OtherReadings = Annotated[
    list[str] | None,
    option("COLUMN", "The columns of the readings, where they are not those of the design.", "--reading"),
]
Leakage = Annotated[str | None, option("AMOUNT", "How much may leak: nats, or '0.4 bit', or '40%' of the entropy.")]
ErrorAtLeast = Annotated[float | None, option("SHARE", "Instead: how often every guess must be wrong, such as 0.3.")]
DistortionAtMost = Annotated[str | None, option("SIZE", "Instead: the distortion that is acceptable, such as 25ppm.")]
Distortion = Annotated[str, option("MEASURE", "What counts as far: mae or mse.")]
Per = Annotated[str | None, option("UNIT", "What the leakage is per: run (one draw), day or decision (causal).")]
DecisionEvery = Annotated[str | None, option("TIME", "Draw so often: 15min, or a number of readings (default 15 min).")]
Horizon = Annotated[
    int | None,
    option("COUNT", "Readings that the distortion is averaged over (default: long sequences).", min=1),
]
AcceptMisfit = Annotated[
    bool, option(None, "Go on although the gate was not passed; the bounds do not hold then.", "--accept-misfit")
]
Plot = Annotated[Path | None, option("FILE", "Write a picture here (.png, .svg or .pdf; needs the plot extra).")]


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a file is written, where its name does not tell."""

    file_format: Annotated[
        str | None, option("FORMAT", "csv, csv.gz, parquet or jsonl (default: by the ending).", "--format")
    ] = None
    delimiter: Annotated[str, option("CHARACTER", "What stands between the fields of a CSV file.")] = ","


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a history are, and how it is fitted."""

    readings: Annotated[
        list[str], option("COLUMN", "A column of readings; several are modelled together.", "--reading")
    ]
    private: Annotated[str, option("COLUMN", "The column that must not be learned.")]
    time: Time = None
    segment: Segment = None
    day_first: DayFirst = False
    period: Annotated[str | None, option("TIME", "Bring the rows to one every so often, such as 60s.")] = None
    bins: Annotated[str | None, option("BINS", "Put counts of the private column together, such as '0,1-2,3+'.")] = None
    public: Annotated[
        list[str] | None,
        option("COLUMN", "An input that everybody may know, such as weather; 'clock' is the time of day."),
    ] = None
    actuators: Annotated[
        list[str] | None,
        option("COLUMN", "An actuator that reacts to readings: refused as an input, with the reason.", "--actuator"),
    ] = None
    model: Annotated[
        str, option("NAME", "grey-box, autoregressive, free, independent, hidden, or a name of the table.")
    ] = "auto"
    grid: Annotated[
        str, option("STEP", "The step of rounded readings, with commas between channels; auto or none.")
    ] = "auto"
    limits: Annotated[
        str | None, option("RANGE", "What readings can be, such as 0:5000 or 0:; with commas between channels.")
    ] = None
    table: TableFormat = TableFormat()


@dataclass(frozen=True, slots=True)
class ConstraintOptions:
    """What the randomizer must keep beside its demand."""

    local_dp: Annotated[
        float | None, option("EPSILON", "Also: local differential privacy, this epsilon (to 20).", "--local-dp")
    ] = None
    maximal_leakage: Annotated[
        str | None, option("AMOUNT", "Also: at most so much maximal leakage, nats or '0.4 bit'.")
    ] = None
    pointwise_leakage: Annotated[
        str | None, option("AMOUNT", "Also: at most so much leakage by the most telling draw.")
    ] = None
    total_variation: Annotated[
        float | None, option("SHARE", "Also: any two values at most so far apart, such as 0.2.")
    ] = None
    floor: Annotated[float | None, option("SHARE", "Also: every value plays every other at least so often.")] = None
    forbid: Annotated[
        list[str] | None, option("PAIRS", "Also: never played, true:played, such as '0:1,2:0' (repeatable).")
    ] = None
    same: Annotated[list[str] | None, option("GROUPS", "Also: treated alike, such as '0,1;2,3' (repeatable).")] = None

    @property
    def typed(self) -> list[str]:
        """The options that were given."""
        return ["--" + name.replace("_", "-") for name in self.__slots__ if getattr(self, name) is not None]


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """In which form readings leave and come in."""

    resolution: Annotated[
        str | None,
        option("STEP", "Readings leave on multiples of this: a power of two or a decimal; 1/4096 too."),
    ] = None
    form: Annotated[str | None, option("FORM", "How readings come: double, float32 or '6 digits'.", "--readings")] = (
        None
    )
    valid: Annotated[str | None, option("LOW,HIGH", "The public range of readings; others are not taken for any.")] = (
        None
    )
    fresh: Annotated[float | None, option("SHARE", "Mix scores with fresh chance, 0 to 1: wrong models leak less.")] = (
        None
    )
    output: Annotated[
        str | None, option("KIND", "lifelike, or least-change: filters of the scores, fitted to --history.", "--output")
    ] = None
    history: Annotated[
        Path | None, option("FILE", "Labelled readings that a least-change output is fitted to.", "--history")
    ] = None


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """What a design is to meet."""

    leakage: Leakage = None
    error_at_least: ErrorAtLeast = None
    distortion_at_most: DistortionAtMost = None
    constraints: ConstraintOptions = ConstraintOptions()
    distortion: Distortion = "mae"
    per: Per = None
    causal: Annotated[bool, option(None, "Draws that follow a moving value and remember.", "--causal")] = False
    clock: Annotated[bool, option(None, "Draws by the public clock; its routine is published.", "--clock")] = False
    decision_every: DecisionEvery = None
    rate: Annotated[str | None, option("AMOUNT", "The leakage of a decision, instead of --leakage.")] = None
    horizon: Horizon = None
    release: ReleaseOptions = ReleaseOptions()
    pseudo: Annotated[str | None, option("VALUES", "Values that may be played (default: the family's).")] = None
    measured_at_most: Annotated[
        float | None,
        option("ACCURACY", "Instead: the least distortion at which adversaries, measured on --history, reach no more."),
    ] = None
    over: Annotated[
        str, option("WHAT", "ACCURACY is balanced accuracy (chance), or gain over the time of day (clock).")
    ] = "chance"


@dataclass(frozen=True, slots=True)
class CoinOptions:
    """How often a coin hides an epoch, how long that is, and what is played then."""

    q: Annotated[float | None, option("SHARE", "The share of epochs that are hidden, such as 0.5.", "--q")] = None
    leakage: Annotated[
        str | None, option("AMOUNT", "Instead: what an epoch may leak: nats, '0.4 bit', or '40%' of its entropy.")
    ] = None
    epoch: Annotated[str, option("TIME", "The length of an epoch: a time, or a number of readings.")] = "1d"
    readings: Annotated[list[str] | None, option("COLUMN", "The columns of the readings.", "--reading")] = None
    time: Time = None
    day_first: DayFirst = False
    period: Annotated[str | None, option("TIME", "The time from one reading to the next, such as 60s.")] = None
    constant: Annotated[str | None, option("VALUES", "The public constant (default: the median of HISTORY).")] = None
    model: Annotated[Path | None, option("FAMILY", "Lifelike hidden epochs: the likeliest value of this family.")] = (
        None
    )
    values: Annotated[str | None, option("VALUES", "The private values of an epoch (default 0,1).")] = None
    entropy: Annotated[str | None, option("AMOUNT", "What there is to learn about an epoch, at most.")] = None
    carry: Annotated[int, option("COUNT", "So many later epochs tell of an epoch too.", min=0)] = 0
    phase: Annotated[str | None, option("TIME", "A public phase of the epochs (default: by the key).")] = None
    resolution: Annotated[str | None, option("STEP", "Readings leave on multiples of this.")] = None
    table: TableFormat = TableFormat()


@dataclass(frozen=True, slots=True)
class RoomOptions:
    """What can be said of the paper's room alone."""

    values: Annotated[str | None, option("VALUES", "Of the paper's room: its occupancies (default 0,1).")] = None
    prior: Annotated[str | None, option("ODDS", "Of the paper's room: their odds (default: equal).")] = None


@dataclass(frozen=True, slots=True)
class DesignOutputs:
    """The files to write, and whether a program reads what is printed."""

    save: Annotated[Path | None, option("FILE", "Write the design here, as JSON.", "--out", "-o", "--save")] = None
    plot: Plot = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How a file is to be disguised."""

    private: Annotated[str | None, option("COLUMN", "The column with the private value; it does not leave.")] = None
    ledger: Annotated[Path | None, option("FILE", "Where draws are remembered and leakage is counted. Secret.")] = None
    time: Time = None
    keep: Annotated[
        list[str] | None, option("COLUMN", "Pass this column through as it is; it may tell everything.")
    ] = None
    name: Annotated[str | None, option("NAME", "The name of the stream in the ledger (default: stream).")] = None
    readings: OtherReadings = None
    segment: Segment = None
    day_first: DayFirst = False
    room: Annotated[
        str | None,
        option("COLUMN", "Many rooms in one file: the column with the room of a row. Needs --key.", "--room"),
    ] = None
    key: Annotated[
        str | None,
        option(
            "KEY",
            "The master key of --room, or of a wrapped ledger: a file, env:NAME, credential:NAME, 'command:...'.",
            "--key",
        ),
    ] = None
    ledger_key: Annotated[
        str | None, option("KEY", "The master key that the ledger is wrapped with, where it is not that of --key.")
    ] = None
    rooms_at_most: Annotated[int, option("COUNT", "So many rooms are admitted with --room.", min=1)] = 10_000
    period: Annotated[str | None, option("TIME", "The time from row to row, where the design has none.")] = None
    decimals: Annotated[
        int | None, option("COUNT", "Write so many decimals (default: as the design has it).", min=0)
    ] = None
    epoch: Annotated[
        str | None, option("TIME", "Draw again so often by the clock, such as 1d; each draw is charged.")
    ] = None
    table: TableFormat = TableFormat()
    abandon: Annotated[
        bool, option(None, "Give up another run that was interrupted, and begin this one.", "--abandon")
    ] = False
    on_error: Annotated[
        str, option("WHAT", "What a bad reading or time does: stop, or skip (reported). A bad label stops.")
    ] = "stop"
    accept_misfit: AcceptMisfit = False
    estimate_private: Annotated[
        bool, option(None, "Estimate the private value from the readings: NO guarantee then.", "--estimate-private")
    ] = False


@dataclass(frozen=True, slots=True)
class AuditFiles:
    """Which files are read, and their columns; where none is named, the family's own names hold."""

    source: Annotated[
        str | None,
        typer.Argument(metavar="READINGS", help="Raw readings with labels to attack; simulated ones if left out."),
    ] = None
    on: Annotated[str | None, option("FILE", "The same as READINGS.", "--on")] = None
    train: Annotated[str | None, option("FILE", "Adversaries learn from this file (default: half of READINGS).")] = None
    released: Annotated[str | None, option("FILE", "Attack this output, made from READINGS, as it is.")] = None
    private: Annotated[str | None, option("COLUMN", "The column with the private value (default: the design's).")] = (
        None
    )
    time: Time = None
    segment: Segment = None
    reading: OtherReadings = None
    day_first: DayFirst = False


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How to attack."""

    adversaries: Annotated[str | None, option("NAMES", "Only these, with commas between them (default: all).")] = None
    n: Annotated[int | None, option("COUNT", "Sequences or readings that are simulated.", "--n", min=100)] = None
    confidence: Annotated[float, option("SHARE", "Of the intervals.")] = 0.99
    replicates: Annotated[int | None, option("COUNT", "Disguised copies of the readings, with fresh draws.", min=1)] = (
        None
    )
    epoch: Annotated[str | None, option("TIME", "A design of one draw draws again so often, such as 60min.")] = None
    alarm: Annotated[
        str | None,
        option("LEVELS", "Alarms that the output should still raise, one a channel, as in 1000,none."),
    ] = None
    rivals: Annotated[
        bool, option(None, "Compare with a constant, coins, noise and the limit.", "--rivals/--no-rivals")
    ] = True
    seed: Annotated[int | None, option("NUMBER", "The same audit again, bit by bit.", min=0)] = None


@dataclass(frozen=True, slots=True)
class AuditOutputs:
    """Where the page and the figures go, and whether a finding is a failure."""

    out: Annotated[Path | None, option("FILE", "Write a page here, as HTML; it opens offline.", "--out", "-o")] = None
    save: Annotated[Path | None, option("FILE", "Write the figures here, as JSON, for `report --audit`.")] = None
    strict: Annotated[
        bool,
        option(
            None,
            "Exit with status 1 if the bound is beaten, something is found in --released, or nothing can be told.",
            "--strict",
        ),
    ] = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the room in the demonstration, and who plays it: a value chosen by hand, or a leakage to draw one."""

    theta: Annotated[float, option("PEOPLE", "Occupancy of the room: the private parameter.", min=0.0)] = 1.0
    leakage: Annotated[
        str | None, option("AMOUNT", "How much the draw of the understudy may leak (default 0.3 nats).")
    ] = None
    pseudo: Annotated[
        float | None, option("PEOPLE", "Choose the understudy by hand; then there is no guarantee.", min=0.0)
    ] = None


# Defaults from a file -------------------------------------------------------------------------------------------------

COMMON = "common"
"""The table of options that several commands have."""
_KEY_ITSELF = re.compile("[0-9a-fA-F]{64}")


def read_defaults(path: Path, context: typer.Context) -> dict[str, Any]:
    """The defaults in a TOML file, a table for each command, as the context of the program takes them."""
    import tomllib

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"--config {path}: it cannot be read as TOML ({why})") from None
    common, used = tables.pop(COMMON, {}), set[str]()
    if not isinstance(common, dict):
        raise ConfigurationError(f"{path}, {COMMON}: a table is wanted, [{COMMON}]")

    def defaults(group: Any, tables: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        for name, table in tables.items():
            if name not in group.commands or not isinstance(table, dict):
                wanted = f"a table is wanted that has the name of a command, or [{COMMON}]"
                raise ConfigurationError(f"{path}, [{prefix}{name}]: {wanted}")
        found: dict[str, Any] = {}
        for name, command in group.commands.items():
            table = tables.get(name, {})
            if hasattr(command, "commands"):
                found[name] = defaults(command, table, f"{name}.")
                continue
            known = {each[2:]: one for one in command.params for each in one.opts if each.startswith("--")}
            for key in table.keys() - known.keys():
                raise ConfigurationError(f"{path}, [{prefix}{name}], {key}: the command has no option --{key}")
            shared = {key: value for key, value in common.items() if key in known}
            used.update(shared)
            found[name] = {
                known[key].name: _default(
                    f"{path}, [{prefix + name if key in table else COMMON}], {key}", value, known[key], context
                )
                for key, value in (shared | table).items()
            }
        return found

    found = defaults(context.command, tables)
    for key in common.keys() - used:
        raise ConfigurationError(f"{path}, [{COMMON}], {key}: no command has the option --{key}")
    return found


def _default(where: str, value: Any, parameter: Any, context: typer.Context) -> Any:
    """A value of the file as if it were typed."""
    parts = value if parameter.multiple and isinstance(value, list) else [value]
    if parameter.is_flag != isinstance(value, bool) or not all(isinstance(part, (str, int, float)) for part in parts):
        wanted = "true or false" if parameter.is_flag else "a text or a number"
        raise ConfigurationError(f"{where}: {wanted} is wanted, not {value!r}")
    if parameter.is_flag:
        return value
    typed = [str(part) for part in parts] if parameter.multiple else str(value)
    if parameter.metavar == "KEY" and _KEY_ITSELF.search(str(value)):
        raise ConfigurationError(f"{where}: a key is a secret; name where it is, a file, env:NAME or credential:NAME")
    try:
        parameter.process_value(context, typed)
    except typer.BadParameter as error:
        raise ConfigurationError(f"{where}: {value!r} is not accepted; {error.message}") from None
    return typed


def without_defaults(context: typer.Context, files: AuditFiles) -> AuditFiles:
    """The files and columns that were typed, and not those of the file of defaults."""
    sources = {each.name: context.get_parameter_source(each.name) for each in fields(files)}
    given = [name for name, source in sources.items() if source and source.name == "DEFAULT_MAP"]
    return replace(files, **{name: getattr(AuditFiles(), name) for name in given})


# What was typed, as what it means -------------------------------------------------------------------------------------

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
    "period|bins|public|actuators|grid|limits|model|keep|epoch|format|delimiter|on_error|name|ledger|prior|values|resolution|"
    "readings|valid|decimals|fresh|output|history"
)
_NAMED = re.compile(rf"(?<![\w.'\"-])({_NAMES}) ?= ?(?=\S)")
_LEFT = re.compile(r"(?<![\w.'\"-])(format)= says|(accept_misfit|day_first)=True")


def in_options(words: str) -> str:
    """An error of the library in the words of the command line: options for the names of arguments.

    >>> in_options("error_at_least = 1.4; it must be between 0 and 0.5")
    '--error-at-least 1.4; it must be between 0 and 0.5'
    >>> in_options("it has no ending, or format= says which (csv); accept_misfit=True goes on")
    'it has no ending, or --format says which (csv); --accept-misfit goes on'
    """
    words = _LEFT.sub(lambda m: "--format says" if m[1] else "--" + m[2].replace("_", "-"), words)
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


def readings(option: str, text: str, period: float | None, notes: list[str] | None = None) -> int:
    """A number of readings: as it is, or as a time.

    A time that the period does not go into is the nearest number, with a note; without `notes` it is refused.

    >>> notes = []
    >>> readings("--decision-every", "15min", 60.0, notes), readings("--decision-every", "4", 900.0, notes), notes
    (15, 4, [])
    >>> readings("--every", "90s", 60.0, notes), notes
    (2, ['--every 90s: a reading comes every 1 min, so it is 2 readings, 2 min.'])
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text):
        count = int(text)
    else:
        from understudy.tables.times import seconds
        from understudy.text import nearest_readings

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
        count = max(1, math.floor(time / period + 0.5))
        if abs(count - time / period) > 1e-6:
            if notes is None:
                raise ConfigurationError(
                    f"{option} {text}: it must be a whole number of readings, one comes every {period:g} s"
                )
            notes.append(nearest_readings(option, text, count, period))
    if count < 1:
        raise ConfigurationError(f"{option} {text}: it must be at least one reading")
    return count


def span(option: str, text: str) -> Any:
    """A time, or a number of readings.

    >>> span("--epoch", "1d"), span("--epoch", "96")
    (datetime.timedelta(days=1), 96)
    """
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    import datetime as dt

    from understudy.tables.times import seconds

    try:
        return dt.timedelta(seconds=seconds(text))
    except ConfigurationError:
        raise ConfigurationError(
            f"{option} {text}: a time or a number of readings is wanted, as in 1d, 15min or 96"
        ) from None
