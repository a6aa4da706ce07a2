"""Times of rows as nanoseconds, whatever form they came in, periods in words, and the hour on the wall.

Times are datetimes (of any unit, with or without a zone), ISO text ("2015-02-04 17:51:00", "2021-09-07 00:05 +08:00"),
times of day ("00:05:00"), or numbers of seconds. With a zone they are kept in UTC, and the zone is told; without one
they are kept as they stand.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.columns import Column

SECOND = 1_000_000_000
DAY = 86_400 * SECOND

_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}
_PERIOD = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*([a-z]*?)s?\s*", re.IGNORECASE)
_OFFSET = re.compile(r"\s*(Z|[+-]\d\d(?::?\d\d)?)$")
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
_DATE = re.compile(r"(19|20|21)\d\d([01]\d[0-3]\d)?")  # a year, or a date without marks
_OF_DAY = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")


class Instants(NamedTuple):
    """Nanoseconds, which of them are missing, the zone, and notes."""

    ns: NDArray[np.int64]
    missing: NDArray[np.bool_]
    zone: str | None
    of_day: bool
    notes: tuple[str, ...]


def seconds(period: Any) -> float:
    """A period in seconds: a number of them, a timedelta, or words.

    >>> seconds(60), seconds("15 min"), seconds("1h"), seconds("30s")
    (60.0, 900.0, 3600.0, 30.0)
    """
    found = None
    if isinstance(period, datetime.timedelta):
        found = period.total_seconds()
    elif isinstance(period, np.timedelta64):
        found = float(period / np.timedelta64(1, "s"))
    elif isinstance(period, str):
        match = _PERIOD.fullmatch(period)
        unit = match and (match[2].lower() or "s")
        if match and unit in _UNITS and period.strip():
            found = float(match[1] or 1.0) * _UNITS[unit]
    elif not isinstance(period, bool) and isinstance(period, (int, float, np.integer, np.floating)):
        found = float(period)
    if found is None or not 1e-6 <= found < 1e9:
        raise ConfigurationError(
            f"period = {period!r}; it must be a number of seconds above 0, or a text such as '30s', '15min' or '1h'"
        )
    return found


def in_words(period: float) -> str:
    """A period as people say it.

    >>> in_words(900.0), in_words(60.0), in_words(45.0), in_words(7200.0)
    ('15 min', '60 s', '45 s', '2 h')
    """
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if period >= 2.0 * size and period % size == 0.0:
            return f"{period / size:.0f} {unit}"
    if period > 120.0:
        return f"{period / 60.0:.3g} min" if period < 7200.0 else f"{period / 3600.0:.3g} h"
    return f"{period:.6g} s"


def as_instants(column: Column) -> Instants:
    """The times of a column.

    >>> from understudy.identify.columns import of_array
    >>> found = as_instants(of_array("time", ["2021-09-07 00:00 +08:00", "2021-09-07 00:05 +08:00"]))
    >>> np.diff(found.ns).tolist(), found.zone
    ([300000000000], '+08:00')
    """
    if column.kind == "number":
        return _numbers(column)
    if column.kind == "text":
        return _texts(column)
    if column.kind in ("instant", "duration", "time of day"):
        ns = np.where(column.missing, 0, column.values.astype(np.int64))
        return Instants(ns, column.missing, column.zone, column.kind == "time of day", ())
    raise ReadingError(
        f"column {column.name!r} holds values of the kind {column.kind}; a time is a datetime or a number"
    )


def _numbers(column: Column) -> Instants:
    """Seconds; numbers that would be beyond the year 5000 are a finer unit."""
    values, notes = column.values, []
    there = np.abs(values[~column.missing].astype(float))
    if np.isinf(there).any():
        raise ReadingError(f"column {column.name!r} has an infinite entry; a time is a finite number or missing")
    largest = float(np.median(there)) if there.size else 0.0
    unit, name = next(u for u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")) if largest * u[0] < 1e11)
    if unit != 1.0:
        notes.append(f"the numbers in {column.name!r} were taken for times in {name}, since 1970")
    factor = round(unit * SECOND)
    if values.dtype.kind in "iu":
        ns = values.astype(np.int64) * factor
    else:
        ns = np.rint(np.where(column.missing, 0.0, values.astype(float)) * factor).astype(np.int64)
    return Instants(ns, column.missing, "UTC" if largest * unit > 1e8 else None, False, tuple(notes))


def _texts(column: Column) -> Instants:
    there = np.flatnonzero(~column.missing)
    texts = [str(column.values[k]) for k in there]
    ns = np.zeros(len(column), dtype=np.int64)
    if texts and all(map(_NUMBER.fullmatch, texts)) and not all(map(_DATE.fullmatch, texts)):
        # numbers in a text file: numpy would take 1422886740 for a year
        whole = all(text.lstrip("-").isdigit() for text in texts)
        values = np.zeros(len(column), dtype=np.int64 if whole else float)
        try:
            values[there] = [int(text) if whole else float(text) for text in texts]
        except OverflowError:
            raise ReadingError(f"column {column.name!r} has a number that is no time; it is too large") from None
        return _numbers(replace(column, kind="number", values=values))
    if texts and all(map(_DATE.fullmatch, texts)):
        texts = [f"{text[:4]}-{text[4:6]}-{text[6:]}" if len(text) == 8 else text for text in texts]
    if texts and all(_OF_DAY.fullmatch(text) for text in texts[:10]):
        ns[there] = [_of_day(column, int(k)) for k in there]
        return Instants(ns, column.missing, None, True, ())
    offsets = [_OFFSET.search(text) for text in texts]
    # a date alone ends in -04, which is no zone
    marks = ["" if found is None or ":" not in text else found[1] for text, found in zip(texts, offsets, strict=True)]
    bare = [text[: found.start()] if mark and found else text for text, found, mark in
            zip(texts, offsets, marks, strict=True)]  # fmt: skip
    kinds = set(marks)
    if "" in kinds and len(kinds) > 1:
        at = int(there[marks.index("")])
        raise ReadingError(
            f"column {column.name!r}, row {at} (counted from 0) has a time without a zone and others have one; "
            "times have a zone in every row or in none"
        )
    shift = {mark: _shift(mark) for mark in kinds}
    try:
        local = np.array(bare, dtype="datetime64[ns]").astype(np.int64)
    except ValueError:
        local = np.array([_one(column, int(k), text) for k, text in zip(there, bare, strict=True)], dtype=np.int64)
    ns[there] = local - np.array([shift[mark] for mark in marks], dtype=np.int64)
    zone = max(kinds, key=marks.count) if kinds else ""
    notes: tuple[str, ...] = ()
    if len(kinds) > 1:
        notes = (f"the times have {len(kinds)} zones; the hour of the day is counted in {zone}, the most frequent",)
    return Instants(ns, column.missing, {"": None, "Z": "UTC"}.get(zone, zone), False, notes)


def _of_day(column: Column, k: int) -> int:
    match = _OF_DAY.fullmatch(str(column.values[k]))
    if match is None:
        raise ReadingError(
            f"column {column.name!r}, row {k} (counted from 0) is text that is no time of day; "
            "the rows before it are, such as 00:05:00"
        )
    return round((int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3] or 0.0)) * SECOND)


def _one(column: Column, k: int, text: str) -> int:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ReadingError(
            f"column {column.name!r}, row {k} (counted from 0) is text that is no time; "
            "a time in text has the ISO form, such as 2015-02-04 17:51:00"
        ) from None
    return int(np.datetime64(found, "ns").astype(np.int64))


def _shift(mark: str) -> int:
    if mark in ("", "Z"):
        return 0
    digits = mark[1:].replace(":", "").ljust(4, "0")
    return (-1 if mark[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * SECOND


def hours(ns: NDArray[np.int64], zone: str | None) -> NDArray[np.intp]:
    """Hour of the day, 0 to 23, on the clock on the wall.

    >>> hours(np.array([0, 23 * 3600 * SECOND]), "+02:00").tolist()
    [2, 1]
    """
    if zone is None or zone == "UTC":
        local = ns
    elif re.fullmatch(r"[+-]\d\d(?::?\d\d)?", zone):
        local = ns + _shift(zone)
    else:
        local = ns + _zoned(ns, zone)
    return ((local // (3600 * SECOND)) % 24).astype(np.intp)


def _zoned(ns: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """What a named zone adds to UTC; it changes on whole quarters of an hour."""
    import zoneinfo

    try:
        found = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ConfigurationError(
            f"the zone {zone!r} is not known on this machine; install the package tzdata"
        ) from None
    quarters, which = np.unique(ns // (900 * SECOND), return_inverse=True)
    moments = (datetime.datetime.fromtimestamp(int(q) * 900, tz=datetime.UTC) for q in quarters)
    shifts = [found.utcoffset(moment.astimezone(found)) or datetime.timedelta() for moment in moments]
    return np.array([round(s.total_seconds()) * SECOND for s in shifts], dtype=np.int64)[which]
