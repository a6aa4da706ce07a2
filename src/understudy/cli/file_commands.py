"""The commands that work on files: fit, apply, audit, and all of them in one go (quickstart).

``understudy fit`` reads a labelled history and finds a family of models. ``understudy apply`` disguises a file by a
stored design, row by row, with a ledger that remembers the draws. ``understudy audit`` attacks a design, or a release
that is laid row by row beside its labels, and says what was learned. ``understudy quickstart`` fits to the first part
of a history, designs, reports, and applies and audits on the last part, in a folder of its own.

Each command checks the files that it will write, does its work by the library, and says what came out. Errors name
file, line, column and rule.
"""

from __future__ import annotations

import csv
import json
import math
import time
import warnings as _warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import understudy as us
from understudy import text
from understudy._paths import check_paths, write_whole
from understudy._types import Array, Index
from understudy.adversaries.datasets import Recording
from understudy.adversaries.results import (
    Audit,
    Row,
    adversary_count,
    basis,
    clock_reference,
    is_failure,
    mark,
    price_lines,
    rival_lines,
    rival_sentences,
    sort_rows,
    strongest,
    verdict,
)
from understudy.adversaries.statistics import Scores, score_readings
from understudy.adversaries.utility import utility_sentences
from understudy.apply.apply_file import SIDECAR, apply_file, written
from understudy.apply.binding import bind
from understudy.cli.design_commands import make_design, tell_advice, write_report
from understudy.cli.options import (
    ApplyOptions,
    AuditFiles,
    AuditOptions,
    AuditOutputs,
    Columns,
    DesignOptions,
    TableFormat,
    quantity,
    readings,
    span,
)
from understudy.cli.terminal import print_json, progress, say, show, warn, wrap
from understudy.errors import ConfigurationError, ReadingError, UnderstudyError, UnderstudyWarning
from understudy.identify.history import History, Segment
from understudy.identify.public_inputs import CLOCK, clock_names
from understudy.report.facts import (
    HEAD,
    Advice,
    AnyDesign,
    about,
    advise,
    candidates,
    doubts,
    facts,
    fits,
    misfit,
    refused,
    remarks,
    smallest_leak_seen,
    trusted,
    warnings,
)
from understudy.tables.table import Source, Table, format_of, read_table, title
from understudy.tables.times import SECOND, Kind, Times

if TYPE_CHECKING:
    from understudy.apply.apply_file import Summary


# A labelled history as columns in memory, and its last part -----------------------------------------------------------

_HELD = 0.2  # the share of a history that is kept for trying the filter on
_FEWEST = 10  # rows on either side


def column_names(columns: Columns) -> list[str]:
    """All columns that are needed beside those of the time, each once; the time of day itself is in no column."""
    clock = (CLOCK, *clock_names())
    public = [name for name in columns.public or () if name not in clock]
    found = [columns.segment, *columns.readings, *public, columns.private]
    return list(dict.fromkeys(name for name in found if name is not None))


def read(source: str, columns: Columns) -> Table:
    """All rows of a file, of the columns that are needed."""
    with progress(f"reading {title(source)}") as told:
        form = columns.table
        return read_table(source, column_names(columns), form.file_format, form.delimiter, told, columns.time)


def split_rows(table: Table, segment: str | None, times: Times | None = None) -> tuple[Index, Index]:
    """Which rows to fit to and which to try the filter on: the last fifth, by `times`, or the last segments."""
    total = len(table)
    if segment is not None:
        names = table.entries(segment).names
        order = list(dict.fromkeys(names))
        held = set(order[len(order) - max(1, round(_HELD * len(order))) :])
        if len(held) < len(order):
            last = np.array([name in held for name in names])
            return np.flatnonzero(~last), np.flatnonzero(last)
    cut = total - max(1, round(_HELD * total))
    if cut < _FEWEST or total - cut < _FEWEST:
        raise ConfigurationError(
            f"{table.name} has {total} rows; a fifth of them is held out, which is too few: name another file by --on"
        )
    rows = np.arange(total)
    if times is not None and times.kind is not Kind.OF_DAY and not times.missing.any():
        late = times.ns[:cut].max() > times.ns[cut:].min()
        rows = np.argsort(times.ns, kind="stable") if late else rows
        # a stream takes each time once, as a fit does
        once = rows[cut:][np.unique(times.ns[rows[cut:]], return_index=True)[1]]
        return rows[:cut], once[times.ns[once] > times.ns[rows[:cut]].max()]
    return rows[:cut], rows[cut:]


def write_rows(table: Table, path: Path) -> None:
    """The rows as a CSV file that its owner alone can read, for they hold the private column."""
    lines = StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(zip(*(table.column(name).texts() for name in table.names), strict=True))
    write_whole(path, lines.getvalue(), private=True)


# Fit ------------------------------------------------------------------------------------------------------------------


def fit(source: str, columns: Columns, out: Path, as_json: bool, strict: bool) -> bool:
    """Read, fit, write, and say what came out; whether the exit status is to be 0."""
    check_paths({"HISTORY": source}, {"--out": out})
    family = fit_table(read(source, columns), columns)
    mark = store(family, out)
    about = family.about or {}
    if as_json:
        print_json({"family": str(out), "fingerprint": mark, "values": list(family.values), "about": about})
    else:
        tell_fit(family)
        say(f"Family written to {out}")
        if fits(about) is False and offers_free(about.get("model") or {}):
            say("Noise of any shape may leave less in the scores: --model free")
        say(f"Next: understudy design {out} --leakage 0.1bit --distortion mae -o design.json")
    for words in doubts(about):
        warn(words)
    return not (strict and not fits(about))


def fit_table(table: Table, columns: Columns) -> us.Family:
    """The family that fits best; only what was typed is passed on."""
    from understudy.identify.fit import fit

    rest = _typed_options(columns, "time", "day_first", "segment", "public", "actuators", "period", "bins")
    if columns.model != "auto":
        rest["model"] = columns.model
    if columns.grid != "auto":
        rest["grid"] = None if columns.grid == "none" else steps(columns.grid, len(columns.readings))
    if columns.limits:
        rest["limits"] = ranges(columns.limits, len(columns.readings))
    reading: Any = columns.readings[0] if len(columns.readings) == 1 else list(columns.readings)
    with progress("fitting the models") as told:
        return fit(table, reading=reading, private=columns.private, progress=told, **rest)


def _typed_options(options: Columns | ApplyOptions | TableFormat, *names: str) -> dict[str, Any]:
    """Those of some options that were typed."""
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value}


def steps(text: str, channels: int) -> Any:
    """The step of each channel, None where it has none.

    >>> steps("0.5,none", 2), steps("5", 1)
    ([0.5, None], [5.0])
    """
    try:
        found = [None if part.strip() == "none" else float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != channels:
        raise ConfigurationError(
            f"--grid {text}: auto, none, or a step for each of the {channels} readings is wanted, as in 0.5"
        )
    return found


def ranges(text: str, channels: int) -> list[tuple[float | None, float | None]]:
    """The ends of each channel, None where it has none.

    >>> ranges("0:5000,:40", 2), ranges("0:", 1)
    ([(0.0, 5000.0), (None, 40.0)], [(0.0, None)])
    """
    try:
        ends = [[float(end) if end.strip() else None for end in part.split(":")] for part in text.split(",")]
        found = [(low, high) for low, high in ends]
    except ValueError:
        found = []
    if len(found) != channels:
        raise ConfigurationError(
            f"--limits {text}: low:high for each of the {channels} readings is wanted, as in 0:5000 or 0:"
        )
    return found


def store(family: us.Family, out: Path) -> str:
    """Write the family; returns its fingerprint."""
    from understudy.identify.fit import save_family

    return str(save_family(family, out))


def tell_family(family: us.Family) -> None:
    """What is hidden, in which readings, by which models."""
    about = family.about or {}
    odds = ", ".join(
        f"{value}: {100.0 * p:.3g}%" for value, p in zip(family.values, family.prior.tolist(), strict=True)
    )
    private = about.get("private") or "the private parameter"
    say(f"Hidden:   {private}, one of {len(family.values)} values ({odds})")
    readings = ", ".join(about.get("readings") or []) or f"{family.dim} channels"
    say(f"Readings: {readings}" + (f", one every {text.span(about['period'])}" if about.get("period") else ""))
    say(f"Model:    {(about.get('model') or {}).get('name') or 'as given'}")


def tell_fit(family: us.Family) -> None:
    """The family, the candidates, the gate and the notes."""
    tell_family(family)
    about = family.about or {}
    print_candidates(about.get("model") or {})
    gate = about.get("gate")
    if gate:
        verdicts(gate)
    if about.get("notes"):
        say("\nWhat was done to the data")
        for note in about["notes"]:
            say(wrap(str(note), "  - "))
    say()


def offers_free(model: dict[str, Any]) -> bool:
    """Whether a class with noise of any shape could be used and was not chosen."""
    if "free noise" in str(model.get("name")):
        return False
    found = [row for row in model.get("table") or () if isinstance(row, dict) and "free noise" in str(row.get("name"))]
    return not found or any(row.get("usable", True) for row in found)


def print_candidates(model: dict[str, Any]) -> None:
    """The candidates, and why some of them cannot be used."""
    rows = candidates(model)
    if not rows:
        return
    say()
    show("Candidates, by held-out log-likelihood per reading", HEAD, rows, right=(1, 2, 3, 4))
    for note in remarks(model):
        say(wrap(note, "  - "))
    say()


def verdicts(gate: dict[str, Any]) -> None:
    """The gate: what the scores tell of the private value, window by window, and the diagnostics below it."""
    leak = "LEAK FOUND" if gate.get("outcome") else "FAILED"  # tests of an earlier version
    outcome = {None: "NOT TESTED", True: "passed, no leak found", False: leak}[fits({"gate": gate})]
    say(f"Gate: {outcome} (scores of readings that the models have not seen)")
    if gate.get("sentence"):
        say(wrap(str(gate["sentence"]), "  "))
    rows = text.gate_rows(gate)
    if rows:
        say()
        show("Private value from the scores", text.GATE_HEAD, rows, right=tuple(range(1, len(text.GATE_HEAD))))
        say(wrap(text.gate_method(gate), "  "))
    if gate.get("verdicts"):
        say(
            "\nDiagnostics of the fit, deviations from independent standard normals; they do not decide:"
            if rows
            else "\nTests of the scores:"
        )
    for v in gate.get("verdicts") or ():
        where = "" if v.get("class") is None or v.get("sentence") else f", {v['class']}"
        lead = f"  {'none seen' if v.get('passed') else 'DEVIATION'} "
        say(wrap(f"{v.get('name')}{where}: {v.get('sentence') or v.get('value')}", lead))


# Apply ----------------------------------------------------------------------------------------------------------------

ESTIMATED = (
    "--estimate-private: the private parameter is estimated from the readings. NO THEOREM HOLDS THEN: a wrong estimate "
    "leaves the true value in what is released, and nothing bounds what an adversary learns. No guarantee, audit only."
)
FORGETFUL = (
    "no --ledger: the draw is not remembered. Applying the design to these readings again draws again, and each draw "
    "leaks again. Use --ledger for anything that is released."
)


def apply(path: Path, source: str, target: str, how: ApplyOptions, as_json: bool) -> None:
    """Check, disguise, and say how many rows left."""
    aside = target == "-"
    if aside and as_json:
        raise ConfigurationError("--json and -o - are given; both go to the standard output, name a file for one")
    kind = format_of(target, how.table.file_format if aside else None)
    check_paths({"DESIGN": path, "READINGS": source}, written(target, kind, "--out"), ("--ledger", how.ledger))
    design = us.load_design(path)
    refuse(design, path, how)
    said = loudly(design, how)
    for words in said:
        warn(words)
    found, more = disguise_file(design, source, target, how)
    for words in more:
        warn(words)
    if as_json:
        print_json({"design": str(path), **found.to_plain(), "target": target, "warnings": [*said, *more]})
    else:
        say(str(found), err=aside)


def refuse(design: AnyDesign, path: Path, how: ApplyOptions) -> None:
    """What must be in order before the first row is read."""
    if how.on_error not in ("stop", "skip"):
        raise ConfigurationError(f"--on-error {how.on_error}: it must be stop or skip")
    known = about(design)
    column = known.get("private")
    if how.private is None and not how.estimate_private and not design.blind:
        fitted = f" (the design was made with the column {column!r})" if column else ""
        raise ConfigurationError(
            f"no --private: the column that holds the private parameter must be named{fitted}. Where there is none, "
            "--estimate-private estimates it from the readings, and then nothing is guaranteed"
        )
    if how.private is not None and how.estimate_private:
        raise ConfigurationError("--private and --estimate-private are given; the parameter is known or estimated")
    if how.estimate_private and not isinstance(design, us.CausalDesign):
        raise ConfigurationError(
            f"--estimate-private: {path} draws once a run; only a design for a value that moves can follow one, "
            "`understudy design FAMILY --per day`"
        )
    if refused(known) and not how.accept_misfit:
        raise ConfigurationError(
            f"{path}: the family did not pass its gate. {misfit(known)[0]} Nothing was written; "
            "--accept-misfit applies the design all the same, without that guarantee"
        )


def check_ledger(design: AnyDesign, how: ApplyOptions) -> None:
    """Refuse a stream that was begun with another design, saying what to do; the ledger would refuse it anyhow."""
    if how.ledger is None or not how.ledger.exists():
        return
    from understudy.stream.inspection import summary

    name = how.name or "stream"
    for stream in summary(how.ledger)["streams"]:
        if stream["name"] == name and stream["design"] not in (design.fingerprint, design.former_fingerprint):
            raise ConfigurationError(
                f"--ledger {how.ledger}: its stream {name!r} was begun with another design ({stream['design'][:19]}); "
                "name another stream by --name, or another ledger"
            )


def loudly(design: AnyDesign, how: ApplyOptions) -> list[str]:
    """The warnings that go with what is written."""
    advice = advise(design)
    withheld = advice is not None and advice[0] is Advice.WITHHOLD and fits(about(design))
    found = [text.verdict_line(*advice)] if advice is not None and withheld else list(warnings(design))
    if how.estimate_private:
        found.insert(0, ESTIMATED)
    if how.ledger is None:
        found.append(FORGETFUL)
    return found


def disguise_file(design: AnyDesign, source: str, target: str, how: ApplyOptions) -> tuple[Summary, list[str]]:
    """The file, disguised: what came of it, and warnings on the way."""
    if how.estimate_private and isinstance(design, us.CausalDesign):
        design = with_estimation(design)
    check_ledger(design, how)
    rest = _typed_options(
        how,
        "private",
        "time",
        "day_first",
        "segment",
        "keep",
        "ledger",
        "name",
        "abandon",
        "accept_misfit",
        "period",
        "key",
        "ledger_key",
    )
    rest |= {"rooms": how.room, "rooms_at_most": how.rooms_at_most}
    rest |= _typed_options(how.table, "delimiter")
    rest |= {"reading": how.readings or None, "format": how.table.file_format, "decimals": how.decimals}
    rest["epoch"] = None if how.epoch is None else span("--epoch", how.epoch)
    with _warnings.catch_warnings(record=True) as caught, progress("disguising") as told:
        _warnings.simplefilter("always")
        try:
            found = apply_file(
                design, source, target, on_error=how.on_error, progress=lambda _, share: told(share or 0.0), **rest
            )
        except ReadingError as error:  # filters know positions, not files
            named = title(source) in str(error)
            raise error if named else type(error)(f"{title(source)}: {error}") from None
    return found, list(dict.fromkeys(str(each.message) for each in caught))


def with_estimation(design: us.CausalDesign) -> us.CausalDesign:
    """The same design, for streams that estimate the private value; it says so wherever it is shown."""
    return design.with_estimated_theta()


# The files of an audit: readings and labels on one period, and a release laid beside them row by row ------------------


class Rows(NamedTuple):
    """A file as `us.audit` takes it, and what was done to it. Secret."""

    recording: Recording
    notes: tuple[str, ...]


class Beside(NamedTuple):
    """A release with labels beside it, and the raw readings where the labelled file has them. Secret."""

    labelled: Recording
    """With the raw readings, or with those of the release where the raw ones are not known."""
    output: Array
    raw: bool
    notes: tuple[str, ...]


def read_recording(design: AnyDesign, source: str, names: Columns) -> Rows:
    """A labelled file, read as the history that the family was made of."""
    return rows_of(design, read(source, names), names)


def rows_of(design: AnyDesign, table: Table, names: Columns) -> Rows:
    """The rows of a labelled file that has been read."""
    history = _history(design, table, names)
    return Rows(_recording(history, design), history.notes)


def beside(design: AnyDesign, source: str, released: str, names: Columns) -> Beside:
    """A released file, row by row beside its labels; NaN where nothing was released."""
    raw = _has(source, names)
    table = read(source, names if raw else replace(names, readings=[]))
    # a release has no private column: the readings stand in for it, as one must be named
    out = read(released, replace(names, private=names.readings[0], segment=None, public=None))
    shown = _history(design, _with_released(design, table, out, names), names, as_it_is=True)
    if not raw:
        labelled = _recording(shown, design)
        return Beside(labelled, labelled.Y, False, shown.notes)
    history = _history(design, table, names)
    return Beside(_recording(history, design), _align(history, shown, out.name, table.name), True, history.notes)


def audit_columns(design: AnyDesign, files: AuditFiles, table: TableFormat) -> Columns:
    """Which columns are what: as typed, otherwise as the family knows them."""
    bound = bind(design, files.reading, files.private, files.time, files.segment, day_first=files.day_first)
    private = bound.private or files.private
    if private is None:
        raise ConfigurationError(
            "no --private: the column with the private value must be named, to judge guesses by it"
        )
    if len(bound.segment) > 1:
        raise ConfigurationError(f"the family has the segments {list(bound.segment)!r}; name one column by --segment")
    segment = bound.segment[0] if bound.segment else None
    public = list((about(design).get("public") or {}).get("columns") or ())
    return Columns(
        list(bound.readings), private, bound.time, segment, day_first=bound.day_first, public=public, table=table
    )


def _has(source: str, names: Columns) -> bool:
    """Whether a labelled file has the readings too; the standard input cannot be looked into beforehand."""
    if source == "-":
        return True
    with Source(source, format_of(source, names.table.file_format), names.table.delimiter) as file:
        return any(name in file.reader.names for name in names.readings)


def _history(design: AnyDesign, table: Table, names: Columns, as_it_is: bool = False) -> History:
    """The rows as the family's own history was understood; a release keeps its digits (`as_it_is`)."""
    from understudy.identify.fit import read_again
    from understudy.models.family import Family

    family = design.family
    if family is None:
        raise ConfigurationError("the design has no models (us.solve makes none); an audit needs one from us.design")
    known = {
        **about(design), "readings": list(names.readings), "private": names.private, "time": names.time,
        "segment": names.segment, "day_first": names.day_first,
    }  # fmt: skip
    if as_it_is:
        known["grid"] = None
    return read_again(table, Family(family.model, family.values, family.prior, about=known))


def _with_released(design: AnyDesign, table: Table, out: Table, names: Columns) -> Table:
    """The labelled rows with released readings in the place of their own."""
    rows = _match_rows(table, out, names, float(about(design).get("period") or 0.0))
    for name in names.readings:
        found = np.full(len(table), np.nan)
        found[rows >= 0] = out.numbers(name)[rows[rows >= 0]]
        table = table.add_column(name, found)
    return table


def _match_rows(table: Table, out: Table, names: Columns, period: float) -> Index:
    """For each labelled row the row of the release, -1 where there is none: by time, or by order without times.

    The times of a release are those of its slots, half a period from those of the rows at most.
    """
    if names.time is None:
        if len(table) != len(out):
            raise ConfigurationError(
                f"{out.name} has {len(out)} rows and {table.name} has {len(table)}; without times they must be the "
                "same rows, in the same order"
            )
        return np.arange(len(table))
    ours, theirs = (each.times(names.time, names.day_first) for each in (table, out))
    same = len(table) == len(out) and bool((ours.missing == theirs.missing).all())
    if same and bool((np.abs(ours.ns - theirs.ns) <= round(period * SECOND / 2.0)).all()):
        return np.arange(len(table))
    at = {ns: k for k, ns in enumerate(theirs.ns.tolist()) if not theirs.missing[k]}
    if names.segment is not None or len(at) < int((~theirs.missing).sum()):
        raise ConfigurationError(
            f"{out.name} and {table.name} have not the same rows in the same order, and times are not unique; "
            "which row belongs to which cannot be told"
        )
    known = set(ours.ns[~ours.missing].tolist())
    strange = [k for ns, k in at.items() if ns not in known]
    if strange:
        raise ReadingError(
            f"{out.name}, line {out.line(min(strange))}: {table.name} has no row of this time; each released row "
            "needs a label"
        )
    rows = [-1 if gone else at.get(ns, -1) for ns, gone in zip(ours.ns.tolist(), ours.missing.tolist(), strict=True)]
    return np.array(rows, dtype=np.intp)


def _align(history: History, released: History, name: str, labelled: str) -> Array:
    """Released readings on the rows of the labelled history."""
    sizes = [[len(segment) for segment in each.segments] for each in (history, released)]
    if sizes[0] == sizes[1]:
        return np.concatenate([segment.Y for segment in released.segments])
    if any(segment.times is None for each in (history, released) for segment in each.segments):
        raise ConfigurationError(f"{name} cannot be laid beside {labelled}: their gaps differ, and there are no times")
    at: dict[int, Array] = {}
    for segment in released.segments:
        at.update(zip(_times(segment), segment.Y, strict=True))
    nothing = np.full(history.dim, np.nan)
    return np.array([at.get(ns, nothing) for segment in history.segments for ns in _times(segment)])


def _times(segment: Segment) -> list[int]:
    return [] if segment.times is None else [int(ns) for ns in segment.times]


def _recording(history: History, design: AnyDesign) -> Recording:
    from understudy.adversaries.datasets import from_history

    if design.family is None:  # which _history has refused
        raise ConfigurationError("the design has no models")
    return from_history(history, design.family)


# Audit ----------------------------------------------------------------------------------------------------------------


def audit(path: Path, files: AuditFiles, table: TableFormat, asked: AuditOptions, outputs: AuditOutputs) -> bool:
    """Attack, write, and say what came out; whether the exit status is to be 0."""
    source = one_source(files)
    read = {"DESIGN": path, "READINGS": source, "--train": files.train, "--released": files.released}
    check_paths(read, {"--out": outputs.out, "--save": outputs.save})
    warn_without_learners()
    design = us.load_design(path)
    audit, scores, notes, told = make_audit(design, source, files, table, asked)
    write_audit(audit, design, outputs, scores)
    advice = advise(design, audit)
    if outputs.as_json:
        print_json(
            {
                "design": str(path), "readings": source, "report": _name(outputs.out), "saved": _name(outputs.save),
                "data": notes, "verdict": None if advice is None else advice[0], "audit": audit.plain(),
            }
        )  # fmt: skip
    else:
        if advice is not None:
            tell_advice(*advice)
        tell_audit(audit, notes)
        for what, out in (("Page", outputs.out), ("Figures", outputs.save)):
            if out is not None:
                say(f"{what} written to {out}")
    for line in [*(words for words in warnings(design) if advice is None or words not in advice[1]), *told]:
        warn(line)
    return not (outputs.strict and is_failure(audit))


class AuditResult(NamedTuple):
    """The audit, the scores of the raw readings, what was done to the rows, and warnings on the way."""

    audit: Audit
    scores: Scores | None
    notes: list[str]
    warnings: list[str]


def make_audit(
    design: AnyDesign, source: str | None, files: AuditFiles, table: TableFormat, asked: AuditOptions
) -> AuditResult:
    """Read, and attack; simulated readings where no file is named."""
    notes: list[str] = []
    Y: Recording | None = None
    given: dict[str, Any] = {}
    if source is not None:
        Y, given = _attack_inputs(design, source, files, audit_columns(design, files, table), notes)
    return run_audit(design, Y, given, asked, source is None)._replace(notes=notes)


def run_audit(
    design: AnyDesign, Y: Recording | None, given: dict[str, Any], asked: AuditOptions, simulated: bool = False
) -> AuditResult:
    """The audit of a recording, or of simulated readings; `given` is what else `us.audit` takes."""
    from understudy.adversaries.audit import audit

    given = options(design, asked, simulated) | given
    with _warnings.catch_warnings(record=True) as caught, progress("attacking") as told:
        _warnings.simplefilter("always")
        found = audit(design, Y, progress=lambda done, total, _: told(done / total), **given)
    # those of other packages (that a fit has not settled, say) are no matter of the reader's
    said = list(dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UnderstudyWarning)))
    return AuditResult(_with_offset_caveat(found, design, simulated), _scores(design, Y, found, asked), [], said)


def _scores(design: AnyDesign, raw: Recording | None, audit: Audit, asked: AuditOptions) -> Scores | None:
    """Aggregates of the scores of the raw readings, where these are known."""
    known: Scores | None = getattr(audit, "scores", None)
    if known is not None or raw is None or design.family is None or design.blind:
        return known
    return score_readings(design.family, raw.Y, raw.theta, raw.segments, asked.seed)


def _attack_inputs(
    design: AnyDesign, source: str, files: AuditFiles, names: Columns, notes: list[str]
) -> tuple[Recording | None, dict[str, Any]]:
    """The recording that is attacked, None where only a release is known, and what else `us.audit` takes."""
    given: dict[str, Any] = {}
    if files.train is not None:
        given["train"] = read_recording(design, files.train, names).recording
    if files.released is None:
        rows = read_recording(design, source, names)
        notes += rows.notes
        return rows.recording, given
    found = beside(design, source, files.released, names)
    notes += found.notes
    given["released"] = found.output
    if found.raw:
        return found.labelled, given
    notes.append("the labelled file has no readings: what the raw ones would tell is not known")
    r = found.labelled
    theta = [None if i < 0 else design.values[i] for i in r.theta.tolist()]
    return None, {**given, "theta": theta, "hours": r.hours, "days": r.days, "segments": r.segments}


def options(design: AnyDesign, asked: AuditOptions, simulated: bool) -> dict[str, Any]:
    """What was typed, as `us.audit` takes it."""
    if not 0.5 <= asked.confidence < 1.0:
        raise ConfigurationError(f"--confidence {asked.confidence:g}: it must lie from 0.5 to below 1, as in 0.99")
    found: dict[str, Any] = {"confidence": asked.confidence, "rivals": asked.rivals}
    if asked.adversaries is not None and asked.adversaries != "all":
        found["adversaries"] = [name.strip() for name in asked.adversaries.split(",") if name.strip()]
    for name in ("n", "replicates"):
        if getattr(asked, name) is not None:
            found[name] = getattr(asked, name)
    if asked.seed is not None:
        found["rng"] = asked.seed
    if asked.epoch is not None:
        if simulated or not isinstance(design, us.Design):
            raise ConfigurationError(
                f"--epoch {asked.epoch}: it is for a design of one draw on readings of a file; this draws by itself"
            )
        found["epoch"] = readings("--epoch", asked.epoch, about(design).get("period"))
    if asked.alarm is not None:
        found["alarm"] = levels(asked.alarm, 1 if design.family is None else design.family.dim)
    return found


def levels(text: str, channels: int) -> tuple[float | None, ...]:
    """The threshold of each channel, None where it has none; fewer than there are channels are those of the first.

    >>> levels("1000ppm,none", 2), levels("1000", 3)
    ((1000.0, None), (1000.0,))
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > channels:
        raise ConfigurationError(f"--alarm {text}: {len(parts)} levels are given and there are {channels} readings")
    return tuple(None if part == "none" else quantity("--alarm", part)[0] for part in parts)


def one_source(files: AuditFiles) -> str | None:
    """The file that is attacked, named in one way or the other; options about a file are refused where none is."""
    if files.source is not None and files.on is not None:
        raise ConfigurationError(f"READINGS is {files.source} and --on is {files.on}; they are the same, name one")
    source = files.on if files.source is None else files.source
    typed = [each.name for each in fields(files) if getattr(files, each.name)]
    if source is None and typed:
        raise ConfigurationError(f"--{typed[0]} is given and no READINGS; without a file the readings are simulated")
    return source


def _with_offset_caveat(audit: Audit, design: AnyDesign, simulated: bool) -> Audit:
    if simulated or not about(design).get("public"):
        return audit
    note = (
        "the public offset was taken off the readings first, which anybody can do; distortion and alarms are without it"
    )
    return replace(audit, notes=(*audit.notes, note))


def warn_without_learners() -> None:
    """Say before the work, and not after it, that adversaries will be missing."""
    if find_spec("sklearn") is None:
        warn(text.NO_LEARNERS)


def write_audit(audit: Audit, design: AnyDesign, outputs: AuditOutputs, scores: Scores | None = None) -> None:
    """The page and the figures as files; those of a release for their owner only."""
    from understudy.report.pages import audit_report

    private = audit.how == "released"  # utility of one release tells about its draws
    if outputs.out is not None:
        write_whole(outputs.out, audit_report(audit, design, scores), private)
    if outputs.save is not None:
        found = {**audit.plain(), "scores": None if scores is None else scores.plain()}
        text = json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        write_whole(outputs.save, text, private)


def tell_audit(audit: Audit, notes: list[str]) -> None:
    """The outcome, the adversaries by strength, what they are compared with, utility and notes."""
    for line in (verdict(audit), *price_lines(audit)):
        say(wrap(line))
    say()
    alone = clock_reference(audit)
    for clock, words in ((False, ""), (True, " with the clock")):
        rows = sort_rows(row for row in audit.of() if row.clock == clock)
        if rows:
            told = f", which alone has {alone.balanced}" if clock and alone is not None else ", the strongest first"
            head = ("adversary", "balanced accuracy", "wrong", "nats, at least", "adjusted p-value", "verdict")
            lines = [
                (row.title or row.adversary, *_figures(row), text.p_value(row.corrected), mark(audit, row))
                for row in rows
            ]
            show(f"Adversaries on the disguised output{words}{told}", head, lines, right=(1, 2, 3, 4))
            say()
    _print_references(audit)
    if audit.rivals is not None:
        show("Rivals and the limit", text.RIVAL_COLUMNS, rival_lines(audit.rivals), right=(2, 3, 4))
        for line in rival_sentences(audit.rivals):
            say(wrap(line))
        say()
    if audit.bound is not None:
        say(wrap(f"By the theorem {text.error_bound(audit.bound, audit.moving)}."))
    say(wrap(basis(audit)))
    wide = f"In brackets: {100.0 * audit.confidence:g} percent intervals."
    nats = "Nats: learned beyond the prior with a guess, at least; the lower end of the interval."
    say(wrap(f"{wide} {nats} {text.best_of(adversary_count(audit))}".rstrip()))
    _print_list("What is left for honest use", [] if audit.utility is None else utility_sentences(audit.utility))
    _print_list("What must be known beside the figures", audit.notes)
    _print_list("Not tried", [f"{name}: {reason}" for name, reason in audit.skipped.items()])
    _print_list("What was done to the data", notes)
    say()


def _print_references(audit: Audit) -> None:
    """References, and the best adversaries on readings that are not disguised."""
    lines = [(row.label, *_figures(row)) for row in sort_rows(audit.of(references=True)) if row.reference]
    for clock in (False, True):
        for data in ("insider", "scores", "noise", "offset", "raw"):
            best = strongest(audit, data, clock)
            if best is not None:
                lines.append((f"best on {text.DATA[data]}: {best.label}", *_figures(best)))
    if lines:
        show("For comparison", ("who", "balanced accuracy", "wrong", "nats, at least"), lines, right=(1, 2, 3))
        say()


def _print_list(heading: str, items: Collection[str]) -> None:
    if items:
        say(f"\n{heading}")
        for item in items:
            say(wrap(item, "  - "))


def _figures(row: Row) -> tuple[str, str, str]:
    return str(row.balanced), _bare(row.error.value), text.at_least(row.nats)


def _bare(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.3f}"


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)


# Quickstart -----------------------------------------------------------------------------------------------------------

LEDGER, FAMILY, DESIGN, REPORT, HELD, OUT, AUDIT = (
    "room.db", "family.json", "design.json", "report.html", "heldout.csv", "disguised.csv", "audit.html",
)  # fmt: skip


QUICK_ADVERSARIES = "logistic,boosting,smoother,hmm"
"""Who attacks what quickstart made: the strongest of each kind, so that it ends soon; `understudy audit` has all."""
QUICK_LIMIT = 0.65
"""Balanced accuracy to which quickstart keeps adversaries where the models do not fit."""


def quickstart(
    source: str,
    columns: Columns,
    wanted: DesignOptions,
    on: str | None,
    accept: bool,
    audit: bool,
    out: Path,
    as_json: bool,
) -> int:
    """All steps; the status of the program: 0 released, 3 not to be released, 1 where a step failed."""
    made = (FAMILY, DESIGN, REPORT, HELD, OUT, OUT + SIDECAR, AUDIT)
    began, steps = time.perf_counter(), []

    def step(name: str, result: str) -> None:
        steps.append((name, f"{time.perf_counter() - began:.1f}", result))
        if not as_json:
            say(f"{steps[-1][1]:>6} s  {name}: {result}", err=True)

    with folder(out):
        check_paths(
            {"HISTORY": source, "--on": on},
            {f"--out {name}": out / name for name in made},
            (f"--out {LEDGER}", out / LEDGER),
        )
        warn_without_learners()
        found = read(source, columns)
        step("read", f"{len(found)} rows of {found.name}")
        before, after = found, None
        if on is None:
            times = found.times(columns.time, columns.day_first) if columns.time else None
            before, after = (found.take(rows) for rows in split_rows(found, columns.segment, times))
        family = fit_table(before, columns)
        store(family, out / FAMILY)
    about = family.about or {}
    model = (about.get("model") or {}).get("name") or "as given"
    gate = {None: "were not tested", True: "show no leak", False: "REVEAL the private value"}[fits(about)]
    step("fit", f"{model}; its scores of held-out readings {gate}")
    measured, unmeasured = None, ""
    if not trusted(about) and not accept:
        try:
            measured = tune_table(before, columns, family)
            step("tune", text.tuning_line(measured.to_dict()))
        except UnderstudyError as error:
            unmeasured = text.sentence(str(error))
            step("tune", unmeasured)
    tuned = None if measured is None else measured.design
    try:
        design, notes = make_design(family, wanted) if tuned is None else (tuned, [])
    except UnderstudyError:
        if not unmeasured:
            raise
        return _tell_nothing_made(family, [unmeasured, *misfit(about), text.OTHER_WAYS], out, as_json)
    about = about if tuned is None else tuned.family.about or {}
    design.save(out / DESIGN)
    step("design", line(design))
    write_report(design, out / REPORT)
    step("report", str(out / REPORT))
    why, applied, failure = obstacle(about, accept), None, None
    if why and (measured is not None or unmeasured):
        why = unmeasured if measured is None else " ".join(measured.sentences)
    if not why:
        if after is not None:
            write_rows(after, out / HELD)
        table = TableFormat() if on is None else TableFormat(delimiter=columns.table.delimiter)
        how = ApplyOptions(columns.private, out / LEDGER, columns.time, table=table, accept_misfit=accept)
        try:
            result, told = disguise_file(design, str(out / HELD) if on is None else on, str(out / OUT), how)
            applied = {**result.to_plain(), "warnings": told}
            step("apply", f"{out / OUT}, from {'the last part of the history' if on is None else on}")
        except UnderstudyError as error:  # what was made before is of use all the same
            why = failure = f"nothing was disguised: {error}"
    found_out = None
    if audit and not why:
        rows = read(on or source, columns) if after is None else after
        try:
            found_out = _audit_held_out(design, columns, before, rows, out)
            step("audit", f"{out / AUDIT}; {outcome(found_out)}")
        except UnderstudyError as error:
            failure = f"no audit was made: {error}"
    advice, reasons = advise(design, found_out) or (Advice.RELEASE, [])
    if why and failure is None:
        advice, reasons = Advice.WITHHOLD, [*([why] if why not in reasons else []), *reasons]
    if as_json:
        print_json({"verdict": advice, "reasons": reasons, "folder": str(out), "family": about, "design": facts(design),
                    "applied": applied, "remarks": notes,
                    "audit": None if found_out is None else found_out.plain()})  # fmt: skip
    else:
        say()
        if failure is None:
            tell_advice(advice, reasons)
        tell_family(family if tuned is None else tuned.family)
        for note in notes:
            say(wrap(note, "Note: "))
        files(out)
    for words in [*warnings(design), *([failure] if failure else [])]:
        if accept or words not in reasons:
            warn(words)
    return 1 if failure else 3 if advice is Advice.WITHHOLD and not accept else 0


def _tell_nothing_made(family: us.Family, reasons: list[str], out: Path, as_json: bool) -> int:
    """The verdict on a history of which no design can be made, and the status of the program."""
    if as_json:
        print_json({"verdict": Advice.WITHHOLD, "reasons": reasons, "folder": str(out), "family": family.about,
                    "design": None, "applied": None, "remarks": [], "audit": None})  # fmt: skip
    else:
        say()
        tell_advice(Advice.WITHHOLD, reasons)
        tell_family(family)
        files(out)
    return 3


def tune_table(table: Table, columns: Columns, family: us.Family) -> us.Tuning:
    """Tuning that ends soon: few model classes, one period, no budget."""
    about = family.about or {}
    name, period = str((about.get("model") or {}).get("name")), about.get("period")
    with progress("tuning") as told:
        tune = partial(
            us.tune,
            table,
            reading=list(columns.readings),
            private=columns.private,
            at_most=QUICK_LIMIT,
            models=tuple(dict.fromkeys(("adaptive", name, "AR(1), Student-t"))),
            budgets=(0.0,),
            adversaries=("boosting", "logistic"),
            progress=told,
            limits=about.get("limits"),
            **_typed_options(columns, "time", "day_first", "segment", "period", "bins"),
        )
        found = tune(periods=[900.0 if columns.time and period is not None and period < 300.0 else None])
        # runs of some minutes have no quarter of an hour to speak of; their many rows leave time for one path
        return found if found.steps else tune(periods=[None], models=(name,), outputs=("least-change",))


def _audit_held_out(design: AnyDesign, columns: Columns, learned: Table, judged: Table, out: Path) -> Audit:
    """Attack the design on rows that it has not seen, by adversaries who know those that it was made from."""
    train, rows = (rows_of(design, table, columns).recording for table in (learned, judged))
    made = run_audit(design, rows, {"train": train}, AuditOptions(adversaries=QUICK_ADVERSARIES, replicates=2))
    write_audit(made.audit, design, AuditOutputs(out=out / AUDIT), made.scores)
    return made.audit


def outcome(audit: Audit) -> str:
    """An audit in a few words."""
    best, raw = (strongest(audit, data, False) for data in ("disguised", "raw"))
    if best is None:
        return "no adversary could be tried without the clock"
    before = "" if raw is None else f", {raw.balanced.value:.3f} without disguise"
    if not audit.testable:
        before += "; too few stretches of time to tell"
    return f"the best adversary's balanced accuracy is {best.balanced.value:.3f}{before}"


def obstacle(about: dict[str, Any], accept: bool) -> str:
    """Why nothing is released; empty if something is."""
    if accept or about.get("tuning") is not None or trusted(about):
        return ""
    if fits(about):
        return text.more_days(smallest_leak_seen(about))
    return "The models were not tested." if fits(about) is None else "The scores of held-out readings reveal the value."


@contextmanager
def folder(out: Path) -> Iterator[None]:
    """A folder to write to, without a ledger: another run with it would draw again for the same readings.

    It is removed again if nothing was written to it.
    """
    known = out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {out}: it must be a folder ({error.strerror})") from None
    if (out / LEDGER).exists():
        raise ConfigurationError(
            f"--out {out}: there is a ledger {LEDGER} already, and drawing again for the same readings leaks again; "
            "name another folder, or go on with `understudy apply`"
        )
    try:
        yield
    finally:
        if not known and not any(out.iterdir()):
            out.rmdir()


def line(design: AnyDesign) -> str:
    """A design in a few words."""
    told = facts(design)
    leakage = told["leakage"]
    bits = leakage.get("bits", leakage.get("bits_a_decision"))
    per = told["per"]
    if per == "day" and leakage.get("bits_a_day") is not None:
        bits = leakage["bits_a_day"]
    size = told["distortion"]
    share = size["share_of_mean_reading"]
    relative = "" if share is None else f" ({100.0 * share:.3g}% of the mean reading)"
    relative = f" ({text.OVER_CHANNELS})" if len(told["readings"] or ()) > 1 else relative
    return f"{bits:.4g} bit a {per}, {size['measure']} {size['value']:.4g}{relative}"


def files(out: Path) -> None:
    """Where everything is."""
    say()
    known = (
        (FAMILY, "the models, their fit and the gate"),
        (DESIGN, "the randomizer with its proof; no secret"),
        (REPORT, "one page, opens offline"),
        (OUT, "disguised readings"),
        (AUDIT, "what adversaries learned from rows like these; opens offline"),
        (LEDGER, "draws and leakage spent; SECRET, keep it"),
        (HELD, "the rows that were held out, with labels; SECRET"),
    )
    show("Written", ("file", "what it is"), [(str(out / name), what) for name, what in known if (out / name).exists()])
