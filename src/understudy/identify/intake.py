"""From a dataframe to a `History`: one period, segments, labels in order, and a note for everything that was done.

What is accepted: rows in any order, times in any form, jitter, gaps, missing readings and labels, several segments.
What is refused: a reading that is no number, a label in none of the bins, and any input that is not public.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.columns import Column, Table, as_numbers
from understudy.identify.history import History, Segment
from understudy.identify.labels import as_labels
from understudy.identify.periods import GAP, Rows
from understudy.identify.placing import Groups, counted, in_order, in_time, times
from understudy.identify.public import CLOCK, clock_names, clock_values

FEW = 50
"""A value with fewer rows than this gets a note: a law can hardly be told from them."""
_ACTUATOR = re.compile(r"damper|valve|vav|actuator|set.?point|fan.?speed|supply.?air|hvac|command", re.IGNORECASE)
_WHY = (
    "what reacts to readings carries the private parameter into the output, from which it can be read off; "
    "it is safe as another reading (reading=[..., {name!r}]), which is then disguised too"
)


def intake(
    frame: Any,
    *,
    reading: str | Iterable[str],
    private: str,
    time: str | None = None,
    segment: str | Iterable[str] | None = None,
    period: Any = None,
    bins: Any = None,
    public: str | Iterable[str] = (),
    actuators: str | Iterable[str] = (),
    last: bool = False,
    values: Sequence[Any] | None = None,
) -> History:
    """The history in a dataframe (pandas, polars, pyarrow) or a mapping from names to arrays.

    `time` may be datetimes, ISO text, times of day or seconds; without it rows are one `period` apart in their order.
    `period` is in seconds or words ("15min"); when coarser than the data, readings are averaged over it, and the
    label is the one that most rows have (`last=True` takes the last reading instead of the mean, for sensors that hold
    one). When it is not stated it is the spacing of the rows. `segment` names columns that separate days or rooms.
    `bins` puts counts together, `public` names inputs that do not depend on anything private; "clock" is the time of
    day. Each of `actuators` must be a reading too. `values` states the values of the private parameter where they are
    known, so that not all need occur.

    >>> times = ["00:00", "00:02", "00:01", "00:01", "00:04"]
    >>> frame = {"t": times, "co2": [400, 420, 410, 1, 440], "n": [0, 0, 1, 0, 1]}
    >>> history = intake(frame, reading="co2", private="n", time="t")
    >>> history
    History(co2 -> n of 2 values, 1 segment, 5 rows of 60 s, 4 used)
    >>> for note in history.notes[:4]:
    ...     print(note)
    the rows were not in the order of time, and were sorted
    1 row with the time of an earlier one was dropped: the first was kept
    the period is 60 s, the spacing of the rows
    1 of 5 rows has no reading
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    readings, publics, keys = _names(reading), _names(public), _names(() if segment is None else segment)
    _roles(readings, private, time, publics, keys, _names(actuators))
    if not len(table):
        raise ReadingError("the frame has no rows")
    notes = [f"{name!r} is an actuator; as a reading it is disguised with the others" for name in _names(actuators)]
    notes += [
        f"{name!r} looks like an actuator: it must not be named public if it reacts to readings, since it would give "
        "the private parameter away"
        for name in publics
        if _ACTUATOR.search(name)
    ]
    labels = as_labels(table.column(private, "private"), bins, values)
    if len(labels.values) < 2:
        raise ConfigurationError(f"the private parameter {private!r} takes one value only; there is nothing to hide")
    notes += labels.notes
    if time is None and CLOCK in publics:
        raise ConfigurationError("public names 'clock' and there is no time column; it is the time of day")
    Y = _readings(table, readings, notes)
    columns = {name: as_numbers(table.column(name, "public"), "a public input") for name in publics if name != CLOCK}
    U = np.column_stack(list(columns.values())) if columns else np.empty((len(table), 0))
    groups = _groups(table, keys, notes)
    zone: str | None = None
    step: float | None
    if time is None:
        rows = Rows(np.zeros(len(table), dtype=np.int64), Y, labels.positions, U)
        stretches, step = in_order(rows, groups, period)
    else:
        ns, missing, zone = times(table.column(time, "time"), groups, notes)
        rows = Rows(ns, Y, labels.positions, U)
        stretches, step = in_time(rows, missing, groups, period, last, notes)
    segments = _segments(stretches, CLOCK in publics, zone, notes)
    q = (*columns, *(clock_names() if CLOCK in publics else ()))
    segments = [_public_filled(part, bool(q), notes) for part in segments]
    history = History(readings, private, time, q, labels.values, step, tuple(segments), (), zone, labels.bins)
    return history.having(segments, *notes, *_remarks(history, values is None))


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError(f"columns are named by text; {names!r} is not")
    return names


def _roles(
    readings: tuple[str, ...],
    private: str,
    time: str | None,
    public: tuple[str, ...],
    segment: tuple[str, ...],
    actuators: tuple[str, ...],
) -> None:
    if not readings:
        raise ConfigurationError("reading names no column; at least one is needed")
    for name in actuators:
        if name not in readings:
            raise ConfigurationError(f"{name!r} is an actuator; " + _WHY.format(name=name))
    roles = {
        "reading": readings,
        "private": (private,),
        "time": _names(time or ()),
        "public": public,
        "segment": segment,
    }
    used: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            if name in used and (role, used[name]) != ("segment", "time"):
                raise ConfigurationError(f"the column {name!r} is named as {used[name]} and as {role}; it has one role")
            used[name] = role


def _readings(table: Table, names: tuple[str, ...], notes: list[str]) -> NDArray[np.float64]:
    Y = np.column_stack([as_numbers(table.column(name, "reading")) for name in names])
    gone = np.isnan(Y)
    for name, count in zip(names, gone.sum(axis=0).tolist(), strict=True):
        if count:
            notes.append(f"{counted(count, 'row')} without a reading in {name!r}")
    part = gone.any(axis=1) & ~gone.all(axis=1)
    if part.any():
        notes.append(f"{counted(int(part.sum()), 'row')} with some channels missing counted as missing whole")
        Y[part] = np.nan
    if gone.all(axis=1).all() or np.isnan(Y).all():
        raise ReadingError(f"no row has a reading in every channel of {', '.join(names)}")
    return Y


def _groups(table: Table, keys: tuple[str, ...], notes: list[str]) -> Groups:
    """Rows of each segment, in the order of first appearance."""
    everything = np.arange(len(table))
    if not keys:
        return [("1", everything)]
    columns = [table.column(key, "segment") for key in keys]
    missing = np.any([column.missing for column in columns], axis=0)
    if missing.any():
        notes.append(f"{counted(int(missing.sum()), 'row')} without an entry in {', '.join(keys)} dropped")
    found: dict[tuple[str, ...], list[int]] = {}
    texts = [_texts(column) for column in columns]
    for k in np.flatnonzero(~missing).tolist():
        found.setdefault(tuple(text[k] for text in texts), []).append(k)
    return [("/".join(key), np.array(rows)) for key, rows in found.items()]


def _texts(column: Column) -> list[str]:
    if column.kind == "number":
        return [f"{x:.12g}" for x in column.values.tolist()]
    return [str(x) for x in column.values.tolist()]


def _segments(stretches: list[tuple[str, Rows]], clock: bool, zone: str | None, notes: list[str]) -> list[Segment]:
    long = [(name, rows) for name, rows in stretches if len(rows.Y) >= 2]
    if len(long) < len(stretches):
        notes.append(f"{counted(len(stretches) - len(long), 'segment')} of a single row dropped")
    names = [name for name, _ in long]
    cut = len(names) - len(set(names))
    if cut:
        notes.append(
            f"{counted(cut, 'gap')} of more than {GAP} periods without a reading: a new segment begins after each"
        )
    if not long:
        raise ReadingError("no segment has two rows; readings that follow each other are needed")
    made, seen = [], dict.fromkeys(names, 0)
    for name, rows in long:
        seen[name] += 1
        title = name if names.count(name) == 1 else f"{name}.{seen[name]}"
        times = rows.ns if rows.ns.size else None
        U = np.column_stack([rows.public, clock_values(rows.ns, zone)]) if clock else rows.public
        made.append(Segment(title, times, rows.Y, rows.theta, U))
    return made


def _public_filled(segment: Segment, wanted: bool, notes: list[str]) -> Segment:
    """Public inputs that are missing keep their last value; before the first, the reading counts as missing."""
    if not wanted or segment.public is None:
        return Segment(segment.name, segment.times, segment.Y, segment.theta)
    U, Y = segment.public.copy(), segment.Y.copy()
    gone = np.isnan(U)
    if not gone.any():
        return segment
    for column in range(U.shape[1]):
        last = np.maximum.accumulate(np.where(gone[:, column], -1, np.arange(len(U))))
        U[:, column] = np.where(last >= 0, U[np.maximum(last, 0), column], np.nan)
    start = np.isnan(U).any(axis=1)
    Y[start], U[start] = np.nan, 0.0
    lost = f" ({int(start.sum())} readings before the first are not used)" if start.any() else ""
    notes.append(
        f"{int(gone.any(axis=1).sum())} rows of segment {segment.name!r} lack a public input; it keeps its last value"
        f"{lost}"
    )
    return Segment(segment.name, segment.times, Y, segment.theta, U)


def _remarks(history: History, learning: bool) -> list[str]:
    """What a user should know about what came out."""
    rows, gone = history.rows, sum(int((~s.complete).sum()) for s in history.segments)
    remarks = [f"{gone} of {rows} rows {'has' if gone == 1 else 'have'} no reading"] if gone else []
    counts = history.counts
    if not learning:
        return remarks
    if (counts == 0).any():
        none = ", ".join(repr(v) for v, n in zip(history.values, counts, strict=True) if not n)
        raise ConfigurationError(f"the value {none} of {history.private!r} has no row with a reading; put it in a bin")
    for value, count in zip(history.values, counts.tolist(), strict=True):
        if count < FEW:
            remarks.append(
                f"the value {value!r} of {history.private!r} has {counted(count, 'row')} only; its law can hardly be "
                "told from so few, put it in a bin with others"
            )
    return remarks
