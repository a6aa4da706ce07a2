"""The files of an audit: readings and labels on one period, and a release laid beside them row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from understudy.adversaries.playing.recording import Recording
from understudy.cli.reading import Columns, Roles, located, read
from understudy.errors import ConfigurationError, ReadingError
from understudy.files.binding import bind
from understudy.identify.history import History, Segment
from understudy.laws.base import Array
from understudy.report.page_facts import AnyDesign, about

_UNSAID = {"resampling": None, "public": None, "bins": None, "grid": None, "period": None}


@dataclass(frozen=True, slots=True)
class Files:
    """Which files, and which columns of them; what was not typed is None, and the family's own names hold."""

    labelled: str
    train: str | None = None
    released: str | None = None
    columns: list[str] | None = None
    private: str | None = None
    time: str | None = None
    segment: str | None = None
    format: str | None = None
    delimiter: str = ","


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


def recorded(design: AnyDesign, source: str, files: Files) -> Rows:
    """A labelled file, read as the history that the family was made of."""
    names = _names(design, files)
    return rows_of(design, read(source, names), names)


def rows_of(design: AnyDesign, columns: Columns, names: Roles, rows: Any = slice(None)) -> Rows:
    """Some rows of a labelled file that has been read."""
    with located(columns, rows):
        history = _history(design, columns.frame(rows), names)
    return Rows(_recording(history, design), history.notes)


def beside(design: AnyDesign, source: str, released: str, files: Files) -> Beside:
    """A released file, row by row beside its labels; NaN where nothing was released."""
    names = _names(design, files)
    raw = _has(source, names)
    columns = read(source, names if raw else replace(names, readings=()))
    # a release has no private column: the readings stand in for it, as one must be named
    out = read(released, Roles(names.readings, names.readings[0], names.time, None, (), files.format, files.delimiter))
    with located(columns):
        shown = _history(design, _placed(columns, out, names), names, as_it_is=True)
        if not raw:
            labelled = _recording(shown, design)
            return Beside(labelled, labelled.Y, False, shown.notes)
        history = _history(design, columns.frame(), names)
    return Beside(_recording(history, design), _lined_up(history, shown, out.name, columns.name), True, history.notes)


def _names(design: AnyDesign, files: Files) -> Roles:
    """Which columns are what: as typed, else as the family knows them."""
    bound = bind(design, files.columns, files.private, files.time, files.segment)
    if bound.private is None:
        raise ConfigurationError(
            "no --private: the column with the private value must be named, to judge guesses by it"
        )
    if len(bound.segment) > 1:
        raise ConfigurationError(f"the family has the segments {list(bound.segment)!r}; name one column by --segment")
    segment = bound.segment[0] if bound.segment else None
    public = tuple((about(design).get("public") or {}).get("columns") or ())
    return Roles(bound.readings, bound.private, bound.time, segment, public, files.format, files.delimiter)


def _has(source: str, names: Roles) -> bool:
    """Whether a labelled file has the readings too; the standard input cannot be looked into beforehand."""
    from understudy.files.tables import Source, format_of

    if source == "-":
        return True
    with Source(source, format_of(source, names.format), names.delimiter) as file:
        return any(name in file.reader.names for name in names.readings)


def _history(design: AnyDesign, frame: Any, names: Roles, as_it_is: bool = False) -> History:
    """The rows as the family's own history was understood; a release keeps its digits (`as_it_is`)."""
    from understudy.identify.again import reread
    from understudy.models.family import Family

    family = design.family
    if family is None:
        raise ConfigurationError("the design has no models (us.solve makes none); an audit needs one from us.design")
    known = {
        **_UNSAID, **about(design), "readings": list(names.readings), "private": names.private, "time": names.time,
        "segment": names.segment,
    }  # fmt: skip
    if as_it_is:
        known["grid"] = None
    return reread(frame, Family(family.model, family.values, family.prior, about=known))


def _placed(columns: Columns, out: Columns, names: Roles) -> dict[str, Any]:
    """The labelled rows with released readings in the place of their own."""
    frame = columns.frame()
    rows = _matched(columns, out, names)
    for name in names.readings:
        found = np.full(len(columns), np.nan)
        there = rows >= 0
        found[there] = np.asarray(out.numbers[name])[rows[there]]
        frame[name] = found
    return frame


def _matched(columns: Columns, out: Columns, names: Roles) -> Any:
    """For each labelled row the row of the release, -1 where there is none: by time, or by order without times."""
    if names.time is None or columns.texts[names.time] == out.texts[names.time]:
        if len(columns) != len(out):
            raise ConfigurationError(
                f"{out.name} has {len(out)} rows and {columns.name} has {len(columns)}; without times they must be the "
                "same rows, in the same order"
            )
        return np.arange(len(columns))
    from understudy.identify.clock import as_instants
    from understudy.identify.columns import of_array

    ours, theirs = (as_instants(of_array(names.time, part.texts[names.time])) for part in (columns, out))
    if len(columns) == len(out) and bool((ours.ns == theirs.ns).all()):
        return np.arange(len(columns))
    at = {int(ns): k for k, ns in enumerate(theirs.ns.tolist()) if not theirs.missing[k]}
    known = {int(ns) for k, ns in enumerate(ours.ns.tolist()) if not ours.missing[k]}
    if names.segment is not None or len(at) < int((~theirs.missing).sum()):
        raise ConfigurationError(
            f"{out.name} and {columns.name} have not the same rows in the same order, and times are not unique; "
            "which row belongs to which cannot be told"
        )
    strange = [k for ns, k in at.items() if ns not in known]
    if strange:
        raise ReadingError(
            f"{out.name}, line {out.lines[min(strange)]}: {columns.name} has no row of this time; each released row "
            "needs a label"
        )
    return np.array(
        [-1 if gone else at.get(ns, -1) for ns, gone in zip(ours.ns.tolist(), ours.missing.tolist(), strict=True)]
    )


def _lined_up(history: History, released: History, name: str, labelled: str) -> Array:
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
    from understudy.adversaries.playing.replayed import from_history

    if design.family is None:  # which _history has refused
        raise ConfigurationError("the design has no models")
    return from_history(history, design.family)
