"""Columns of any dataframe (pandas, polars, pyarrow; through narwhals), or of a mapping from names to arrays.

A column becomes a `Column`: a kind, an array, and which rows are missing. What a column holds decides its kind, not
what library it came from, so that a count is a count as an integer, a float, text or a category.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy.laws.base import Array

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
