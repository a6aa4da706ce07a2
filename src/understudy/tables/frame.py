"""Columns of any dataframe (pandas, polars, pyarrow; through narwhals), or of a mapping from names to arrays.

A column becomes a `Column`: a kind, an array, and which rows are missing. What a column holds decides its kind, not
what library it came from, so that a count is a count as an integer, a float, text or a category.

Times of rows as nanoseconds, whatever form they came in, periods in words, and the hour on the wall.

Times are datetimes (of any unit, with or without a zone), ISO text ("2015-02-04 17:51:00", "2021-09-07 00:05 +08:00"),
times of day ("00:05:00"), or numbers of seconds. With a zone they are kept in UTC, and the zone is told; without one
they are kept as they stand.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import ConfigurationError, ReadingError

# Columns of any dataframe (pandas, polars, pyarrow; through narwhals), or of a mapping from names to  ---


MISSING_WORDS = frozenset(["", "na", "nan", "n/a", "null", "none", "nat", "<na>", "-"])
_DAY = np.datetime64("1970-01-01", "ns")


@dataclass(frozen=True, slots=True, repr=False)
class Column:
    """One column: `kind` is number, truth, text, instant, duration or time of day."""

    name: str
    kind: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    zone: str | None = None

    def __repr__(self) -> str:
        return f"Column({self.name!r}, {self.kind}, {len(self)} rows, {int(self.missing.sum())} missing)"

    def __len__(self) -> int:
        return len(self.values)


class Table:
    """What is needed of a dataframe: its names, its length, its columns.

    >>> table = Table({"co2": [400.0, None, 420.0], "people": ["0", "1", "1"]})
    >>> table.names, len(table), table.column("co2")
    (('co2', 'people'), 3, Column('co2', number, 3 rows, 1 missing))
    """

    __slots__ = ("_columns", "_extra", "_frame", "names")

    def __init__(self, frame: Any) -> None:
        self._columns: Mapping[str, Any] | None = None
        self._extra: dict[str, Any] = {}
        if isinstance(frame, Mapping):
            self._columns = frame
            self.names = tuple(frame)
            if len({len(frame[name]) for name in frame}) > 1:
                raise ConfigurationError("the columns of the mapping differ in length; they must agree")
            return
        import narwhals as nw

        try:
            found = nw.from_native(frame)
        except TypeError:
            raise ConfigurationError(
                f"the frame is of type {type(frame).__name__}; it must be a dataframe (pandas, polars, a pyarrow table "
                "or another that narwhals knows) or a mapping from names to arrays"
            ) from None
        except nw.exceptions.DuplicateError:
            raise ConfigurationError("the frame has two columns of one name; names must be distinct") from None
        self._frame = found.collect() if isinstance(found, nw.LazyFrame) else found
        self.names = tuple(self._frame.columns)

    def __len__(self) -> int:
        if self._columns is None:
            return len(self._frame)
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def _index(self, name: str) -> Any:
        """The index of a pandas frame, where it is asked for by its name or as "index"."""
        if self._columns is not None or name in self.names:
            return None
        import narwhals as nw

        index = nw.maybe_get_index(self._frame)
        return index.to_series() if index is not None and name in (index.name, "index") else None

    def having(self, name: str, values: Any) -> Table:
        """The same table with one more column, which takes the place of one of its name."""
        if len(values) != len(self):
            raise ConfigurationError(
                f"{name} has {len(values)} entries and the frame {len(self)} rows; they must agree"
            )
        other = object.__new__(Table)
        other._columns, other._extra = self._columns, {**self._extra, name: values}
        if self._columns is None:
            other._frame = self._frame
        other.names = tuple(dict.fromkeys((*self.names, name)))
        return other

    def column(self, name: str, role: str = "a column") -> Column:
        """One column by its name; `role` says in an error what it was wanted for."""
        if name in self._extra:
            return of_array(name, self._extra[name])
        index = self._index(name)
        if index is not None:
            return of_array(name, index)
        if name not in self.names:
            raise ConfigurationError(f"{role} is {name!r}; no such column is among the {len(self.names)} of the frame")
        if self._columns is None:
            return _of_series(name, self._frame[name])
        return of_array(name, self._columns[name])


def _of_series(name: str, series: Any) -> Column:
    import narwhals as nw

    dtype = series.dtype
    missing = series.is_null().to_numpy().astype(bool)
    if dtype == nw.Boolean:
        return Column(name, "truth", series.fill_null(False).to_numpy().astype(bool), missing)
    if dtype.is_integer() and not missing.any():
        return Column(name, "number", series.to_numpy(), missing)
    if dtype.is_numeric():
        values = series.cast(nw.Float64).to_numpy().astype(float)
        return Column(name, "number", values, missing | np.isnan(values))
    if dtype == nw.Datetime:
        zone = getattr(dtype, "time_zone", None)
        if zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return _instants(name, series.to_numpy(), zone)
    if dtype == nw.Date:
        try:
            series = series.cast(nw.Datetime("ns"))
        except (ValueError, OverflowError):  # whose text would quote the date
            raise ReadingError(f"column {name!r} has a date that is no time; it is too far away") from None
        return _instants(name, series.to_numpy(), None)
    if dtype == nw.Duration:
        values = series.to_numpy().astype("timedelta64[ns]")
        return Column(name, "duration", values, np.isnat(values))
    return _of_objects(name, series.to_list())  # text, categories, times of day, mixtures


def of_array(name: str, given: Any) -> Column:
    """A column out of an array or a list.

    >>> of_array("door", [True, False])
    Column('door', truth, 2 rows, 0 missing)
    """
    array = given if isinstance(given, np.ndarray) else None
    if array is None and hasattr(given, "__len__") and not isinstance(given, (list, tuple, range)):
        import narwhals as nw

        try:
            return _of_series(name, nw.from_native(given, series_only=True))
        except TypeError:
            array = np.asarray(given)
    if array is None:
        return _of_objects(name, list(given))
    if array.ndim != 1:
        raise ConfigurationError(f"column {name!r} has shape {array.shape}; a column has one axis")
    if array.dtype.kind == "b":
        return Column(name, "truth", array, np.zeros(array.size, dtype=bool))
    if array.dtype.kind in "iuf":
        return Column(name, "number", array, np.isnan(array))
    if array.dtype.kind == "M":
        return _instants(name, array, None)
    if array.dtype.kind == "m":
        return Column(name, "duration", array.astype("timedelta64[ns]"), np.isnat(array))
    return _of_objects(name, array.tolist())


def _instants(name: str, values: Any, zone: str | None) -> Column:
    values = np.asarray(values).astype("datetime64[ns]")
    return Column(name, "instant", values, np.isnat(values), zone)


def _of_objects(name: str, entries: list[Any]) -> Column:
    """The kind of the entries that are there, if they have one."""
    missing = np.fromiter((_absent(x) for x in entries), dtype=bool, count=len(entries))
    kinds = {_kind(x): k for k, x in reversed(list(enumerate(entries))) if not missing[k]}
    if len(kinds) > 1 or None in kinds:
        at = kinds[None] if None in kinds else sorted(kinds.values())[1]
        raise ReadingError(
            f"column {name!r}, row {at} (counted from 0) is of type {type(entries[at]).__name__}; the entries of a "
            "column are all numbers, all text, all truth values or all times"
        )
    kind = next(iter(kinds), None) or "number"
    if kind == "number":
        values: NDArray[Any] = np.array(
            [np.nan if gone else float(x) for x, gone in zip(entries, missing, strict=True)]
        )
    elif kind == "truth":
        values = np.array([bool(x) and not gone for x, gone in zip(entries, missing, strict=True)])
    elif kind == "text":
        values = np.array(
            ["" if gone else str(x).strip() for x, gone in zip(entries, missing, strict=True)], dtype=object
        )
        missing = missing | np.fromiter((x.lower() in MISSING_WORDS for x in values), dtype=bool, count=len(values))
    elif kind == "time of day":
        clock = [0 if gone else _nanoseconds(x) for x, gone in zip(entries, missing, strict=True)]
        values = np.array(clock, dtype="timedelta64[ns]")
    else:
        texts = ["NaT" if gone else _plain_instant(x) for x, gone in zip(entries, missing, strict=True)]
        zones = {str(x.tzinfo) for x, gone in zip(entries, missing, strict=True) if not gone and _aware(x)}
        values = np.array(texts, dtype="datetime64[ns]") if texts else np.array([], dtype="datetime64[ns]")
        return Column(name, kind, values, missing, zones.pop() if len(zones) == 1 else None)
    return Column(name, kind, values, missing)


def _absent(x: Any) -> bool:
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(x, float) and math.isnan(x)


def _kind(x: Any) -> str | None:
    if isinstance(x, (bool, np.bool_)):
        return "truth"
    if isinstance(x, numbers.Number) and not isinstance(x, complex):
        return "number"
    if isinstance(x, str):
        return "text"
    if isinstance(x, (datetime.datetime, datetime.date, np.datetime64)):
        return "instant"
    return "time of day" if isinstance(x, datetime.time) else None


def _aware(x: Any) -> bool:
    return getattr(x, "tzinfo", None) is not None


def _plain_instant(x: Any) -> str:
    """In UTC, without the zone."""
    if _aware(x):
        x = x.astimezone(datetime.UTC).replace(tzinfo=None)
    return str(x)


def _nanoseconds(x: datetime.time) -> int:
    return ((x.hour * 60 + x.minute) * 60 + x.second) * 1_000_000_000 + x.microsecond * 1000


def as_numbers(column: Column, what: str = "a reading") -> Array:
    """The column as float64, NaN where it is missing; refuses what is no number, by its row.

    >>> as_numbers(of_array("co2", ["400", "", "420.5"])).tolist()
    [400.0, nan, 420.5]
    """
    rule = f"{what} is a finite number or missing"
    if column.kind == "text":
        values = np.full(len(column), np.nan)
        for k in np.flatnonzero(~column.missing):
            try:
                values[k] = float(column.values[k])
            except ValueError:
                raise ReadingError(
                    f"column {column.name!r}, row {k} (counted from 0) is text that is no number; {rule}"
                ) from None
    elif column.kind in ("number", "truth"):
        values = np.where(column.missing, np.nan, column.values.astype(float))
    else:
        raise ReadingError(f"column {column.name!r} holds values of the kind {column.kind}; {rule}")
    infinite = np.isinf(values)
    if infinite.any():
        raise ReadingError(
            f"column {column.name!r}, row {int(infinite.argmax())} (counted from 0) is infinite; {rule} "
            f"({int(infinite.sum())} such rows)"
        )
    return values


# Times of rows as nanoseconds, whatever form they came in, periods in words, and the hour on the wall ---


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

    >>> from understudy.tables.frame import of_array
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
