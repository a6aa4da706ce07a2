"""Columns of a table: one rule for what a cell means, whatever the table came from.

A column of a CSV file, of JSON lines or of a dataframe is a `Values`, one of Parquet (and of CSV, where pyarrow is
installed) an `ArrowColumn`. They give the same answers to the same questions: `numbers`, `times`, `entries`
for labels and names. `understudy.tables.times` has the rules for times; the others are these:

| cell | as a reading | as a label |
|---|---|---|
| nothing, null, NaN, NaT; the words NA, N/A, NaN, NaT, <NA>, null, none; ``-`` | missing | missing |
| ``431``, ``-4.5``, ``.5``, ``1e3``, the same as a number | the number | the number, if all labels are numbers |
| ``inf``, ``1e999``, an infinity | refused: is infinite | refused |
| ``1,5``, ``1_000``, ``0x10``, digits of other scripts, any other text | refused: is not a number | a name |
| true, false | refused | a truth value, if all labels are; so are the words |
| a date, a time | refused | a name, its ISO text |
| a list, a mapping, bytes | refused | refused |

Words count in small and capital letters, blanks around a text do not count, and a category is what it holds. Messages
name the type and the rule, never what stands in the cell.

An output is written with a fixed number of decimals, which is that of its design (`NumberFormat`). Its text is a
function of the output alone: the texts of the readings that came in have no part in it. A sensor of six significant
digits writes 85.1234 and 115.123; outputs with the decimals of such readings would tell the level behind them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import importlib
import math
import numbers
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Index, Ints, Mask
from understudy.errors import ConfigurationError, MissingExtraError
from understudy.tables import times
from understudy.tables.times import Entry, Faults, Kind, Times

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

# What a cell means -----------------------------------------------------------------------------------


MISSING = frozenset(["", "-", "na", "n/a", "nan", "nat", "<na>", "null", "none"])
"""Texts, in small letters, that stand for a cell that is not there."""
INFINITE = "is infinite"
NOT_A_NUMBER = "is not a number"
MARK_IN_NUMBER = f"{NOT_A_NUMBER}: it has a comma or a blank (decimals follow a point, thousands have no mark)"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MARKED = re.compile(r"[+-]?[0-9.]+(?:[,'\u2019\s][0-9.]+)+")
_BLANKS = " \t"
_NO_FRACTION = re.compile(r"\.0+$")


def plain(cell: Entry | np.generic | numbers.Number) -> Entry:
    """A cell as a plain value of Python, a text without blanks around it; None where it is missing.

    >>> [plain(cell) for cell in (" 7", "-", "n/a", float("nan"), np.int64(3), decimal.Decimal("0.5"))]
    ['7', None, None, None, 3, 0.5]
    """
    if isinstance(cell, str):
        text = cell.strip(_BLANKS)
        return None if text.lower() in MISSING else text
    if isinstance(cell, float):
        return None if math.isnan(cell) else float(cell)
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, np.datetime64):
        return plain(str(cell))
    if isinstance(cell, np.timedelta64):
        return plain(cell.astype("timedelta64[us]").item())
    if isinstance(cell, np.generic):
        return plain(cell.item())
    if isinstance(cell, numbers.Real) and not isinstance(cell, int):
        return plain(float(cell))
    return plain(float(cell)) if isinstance(cell, decimal.Decimal) else cell  # type: ignore[return-value]  # an entry


def number(entry: Entry) -> float | None:
    """The number that a plain value is, or that its text says; None if it is none. It may be infinite.

    >>> [number(entry) for entry in ("1e3", 5, "-inf", "1,5", "0x10", True)]
    [1000.0, 5.0, -inf, None, None, None]
    """
    if isinstance(entry, str):
        if _NUMBER.fullmatch(entry):
            return float(entry)
        infinite = entry.lstrip("+-").lower() in ("inf", "infinity") and len(entry) <= 9
        return float(entry) if infinite else None
    if isinstance(entry, bool) or not isinstance(entry, (int, float)):
        return None
    try:
        return float(entry)
    except OverflowError:
        return math.inf


def numbers_of(cells: Iterable[Entry]) -> tuple[Array, Faults]:
    """Numbers of cells, NaN where one is missing, and what is wrong with those that are none.

    >>> numbers_of(["431.5", " 7", "", "NaN", "-", 5])[0].tolist()
    [431.5, 7.0, nan, nan, nan, 5.0]
    >>> numbers_of(["431.5", "many", True, "1e999"])[1]
    {1: 'is not a number', 2: 'is a bool, not a number', 3: 'is infinite'}
    """
    found: list[float] = []
    faults: Faults = {}
    for i, cell in enumerate(cells):
        entry = plain(cell)
        value = math.nan if entry is None else number(entry)
        if value is None:
            kind = "dict" if isinstance(entry, dict) else type(entry).__name__
            words = MARK_IN_NUMBER if isinstance(entry, str) and _MARKED.fullmatch(entry) else NOT_A_NUMBER
            faults[i] = words if isinstance(entry, str) else f"is a {kind}, not a number"
        found.append(math.nan if value is None else value)
    return no_infinities(np.array(found, dtype=float), faults)


def no_infinities(values: Array, faults: Faults) -> tuple[Array, Faults]:
    """Infinite readings are faults; they become missing."""
    infinite = np.isinf(values)
    if infinite.any():
        values = np.where(infinite, np.nan, values)
        faults = {**faults, **dict.fromkeys(np.flatnonzero(infinite).tolist(), INFINITE)}
    return values, faults


def as_text(value: Entry) -> str:
    """A value in a field of a CSV file.

    >>> as_text(True), as_text(1.5), as_text("door"), as_text(None)
    ('true', '1.5', 'door', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def as_json(value: Entry) -> Entry:
    """A value that JSON can hold: times as text, NaN as null.

    >>> as_json(float("nan")), as_json(dt.date(2026, 3, 1))
    (None, '2026-03-01')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, int, float, list, dict)):
        return value
    return as_text(value)


# Columns ---------------------------------------------------------------------------------------------


class Entries(NamedTuple):
    """What stands in a column, each different entry at least once; and for each row, which of them.

    `words` are the entries as they stand, without blanks: a family may have a value of the name "none".
    """

    words: list[Entry]
    codes: Index

    @property
    def distinct(self) -> list[Entry]:
        """The entries as plain values, None where one is missing."""
        return [plain(word) for word in self.words]

    def __repr__(self) -> str:
        return f"Entries({len(self.words)} in {len(self.codes)} rows)"

    @property
    def names(self) -> list[str]:
        """The entry of each row as a name, such as that of a segment: "" where it is missing.

        >>> Values([1, 1.0, None, "b"]).entries().names
        ['1', '1', '', 'b']
        """
        whole = [int(e) if isinstance(e, float) and e.is_integer() else e for e in self.distinct]
        texts = [as_text(entry) for entry in whole]
        return [texts[code] for code in self.codes.tolist()]


class Values:
    """A column of values: texts of CSV, values of JSON lines or of a dataframe (numbers and times as an array, in UTC).

    >>> Values([431.5, None, "431", "many"]).numbers()
    (array([431.5,   nan, 431. ,   nan]), {3: 'is not a number'})
    """

    __slots__ = ("given", "zone")

    def __init__(self, given: Sequence[Entry] | NDArray[np.generic], zone: str | None = None) -> None:
        self.given, self.zone = given, zone

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        return f"Values({len(self)})"

    def _array(self, kinds: str) -> NDArray[np.generic] | None:
        """The array, if it is one of these kinds."""
        return self.given if isinstance(self.given, np.ndarray) and self.given.dtype.kind in kinds else None

    def cut(self, start: int, stop: int) -> Values:
        """Rows that follow each other."""
        return Values(self.given[start:stop], self.zone)

    def take(self, rows: Index) -> Values:
        """Some of the rows."""
        if isinstance(self.given, np.ndarray):
            return Values(self.given[rows], self.zone)
        return Values([self.given[k] for k in rows.tolist()])

    def numbers(self) -> tuple[Array, Faults]:
        """Readings, NaN where there is none, and what is wrong with the others."""
        array = self._array("iuf")
        return numbers_of(self.values()) if array is None else no_infinities(array.astype(float), {})

    def times(self, day_first: bool = False) -> Times:
        """Nanoseconds since 1970, and what is wrong with the others."""
        array = self._array("iufMm")
        if array is None:
            return times.of_entries([plain(value) for value in self.values()], day_first)
        return times.of_array(array, self.zone)

    def entries(self) -> Entries:
        """Labels of any type; 1 and true are not the same, although Python takes them for equal."""
        places: dict[tuple[str, Entry], int] = {}
        words: list[Entry] = []
        codes = np.empty(len(self), dtype=np.intp)
        for i, value in enumerate(self.values()):
            key = type(value).__name__, value if not isinstance(value, (list, dict)) else None
            codes[i] = places.setdefault(key, len(places))
            if len(words) < len(places):
                words.append(value.strip(_BLANKS) if isinstance(value, str) else plain(value))
        return Entries(words, codes)

    def texts(self) -> list[str]:
        """For a CSV file: as JSON has them, texts without quotes."""
        return [as_text(value) for value in self.values()]

    def values(self) -> list[Entry]:
        """For JSON: as they are, times of an array as texts."""
        if not isinstance(self.given, np.ndarray):
            return list(self.given)
        if self.given.dtype.kind in "Mm":
            return [_NO_FRACTION.sub("", text) for text in self.given.astype(str).tolist()]
        found: list[Entry] = self.given.tolist()
        return found

    def without(self, rows: list[int]) -> Values:
        """The same with nothing in these rows."""
        gone = set(rows)
        return Values([None if i in gone else value for i, value in enumerate(self.values())])

    def at(self, moved: dict[int, int]) -> Values:
        """The same with other times in some rows, in nanoseconds: texts of the same form, numbers of the same unit."""
        copy = self.values()
        for i, time in moved.items():
            was = copy[i]
            text = times.write_like(was.strip(_BLANKS) if isinstance(was, str) else repr(was), time)
            copy[i] = text if isinstance(was, str) else float(text) if "." in text else int(text)
        return Values(copy)


# pyarrow, where it is installed: Parquet needs it, CSV is quicker with it ----------------------------


def find_pyarrow() -> ModuleType | None:
    """The module pyarrow, or None."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        return None


def require_pyarrow(what: str) -> ModuleType:
    """The module pyarrow; says how to install it where it is missing."""
    module = find_pyarrow()
    if module is None:
        raise MissingExtraError(f'{what} needs pyarrow (the extra `arrow`): pip install "understudy[arrow]"')
    return module


def part(name: str) -> ModuleType:
    """A part of pyarrow that is there, such as "compute"."""
    return importlib.import_module(f"pyarrow.{name}")


class ArrowColumn:
    """A column of pyarrow, of any type; its answers are those of `Values`."""

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        # few functions of pyarrow know views of texts
        self.array = array.cast("string") if str(array.type) == "string_view" else array

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"ArrowColumn({self.array.type}, {len(self)})"

    def cut(self, start: int, stop: int) -> ArrowColumn:
        """Rows that follow each other, without a copy."""
        return ArrowColumn(self.array.slice(start, stop - start))

    def take(self, rows: Index) -> ArrowColumn:
        """Some of the rows."""
        return ArrowColumn(self.array.take(require_pyarrow("this column").array(rows)))

    @property
    def _flat(self) -> pa.Array:
        """The array, with what its codes stand for where it has codes."""
        return self.array.dictionary_decode() if part("types").is_dictionary(self.array.type) else self.array

    @property
    def _absent(self) -> Mask:
        """Where there is null."""
        return np.asarray(self.array.is_null().to_numpy(zero_copy_only=False), dtype=bool)

    def numbers(self) -> tuple[Array, Faults]:
        """Readings; a whole column at once where all texts are numbers."""
        types, array = part("types"), self._flat
        kind = array.type
        if _is_text(kind):
            return _from_texts(array)
        if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
            return no_infinities(_doubles(array), {})
        rule = f"is of type {kind}, not a number"
        return np.full(len(self), np.nan), dict.fromkeys(np.flatnonzero(~self._absent).tolist(), rule)

    def times(self, day_first: bool = False) -> Times:
        """Times of any type that has them."""
        types, array = part("types"), self._flat
        kind, absent = array.type, self._absent
        if _is_text(kind):
            quick = _quick_times(array, absent)
            return quick or times.of_entries([plain(text) for text in array.to_pylist()], day_first)
        if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
            return times.of_array(array.to_numpy(zero_copy_only=False), getattr(kind, "tz", None))
        if types.is_time(kind):
            clock = array.cast("time64[ns]").view("int64").fill_null(0)
            return Times(clock.to_numpy(zero_copy_only=False), absent, Kind.OF_DAY, {})
        if types.is_decimal(kind):
            return times.of_array(_doubles(array))
        if not (types.is_integer(kind) or types.is_floating(kind)):
            wrong = dict.fromkeys(np.flatnonzero(~absent).tolist(), times.NOT_A_TIME)
            return Times(np.zeros(len(self), dtype=np.int64), absent, None, wrong)
        there = times.of_array(array.drop_null().to_numpy(zero_copy_only=False))
        if not absent.any():
            return there
        ns, rows = np.zeros(len(self), dtype=np.int64), np.flatnonzero(~absent)
        ns[rows] = there.ns
        missing = absent.copy()
        missing[rows] = there.missing
        return there._replace(ns=ns, missing=missing, faults={int(rows[i]): r for i, r in there.faults.items()})

    def entries(self) -> Entries:
        """Labels, each different one looked up once."""
        types = part("types")
        if types.is_nested(self.array.type):  # a list or a mapping is no label
            return Entries([[], None], self._absent.astype(np.intp))
        array = self.array if types.is_dictionary(self.array.type) else self.array.dictionary_encode()
        cells = ArrowColumn(array.dictionary).cells()
        words = [cell.strip(_BLANKS) if isinstance(cell, str) else plain(cell) for cell in cells]
        codes = array.indices
        if codes.null_count:
            codes = codes.cast("int64").fill_null(len(words))
        return Entries([*words, None], codes.to_numpy(zero_copy_only=False).astype(np.intp))

    def texts(self) -> list[str]:
        """As text; what is not there is empty."""
        return [as_text(value) for value in self.cells()]

    def values(self) -> list[Entry]:
        """As JSON can hold them."""
        return [as_json(value) for value in self.cells()]

    def cells(self) -> list[Entry]:
        """Values of Python, timestamps as texts; whole numbers for times that Python has none for."""
        array = self._flat
        if part("types").is_timestamp(array.type):
            return _iso(array)
        try:
            return array.to_pylist()  # type: ignore[no-any-return]  # a list
        except (OverflowError, ValueError):
            width = "int32" if array.type.bit_width == 32 else "int64"
            return array.view(width).to_pylist()  # type: ignore[no-any-return]  # a list

    def at(self, moved: dict[int, int]) -> ArrowColumn:
        """Times of the same type; texts and numbers of the same form."""
        pa, types, array = require_pyarrow("this column"), part("types"), self._flat
        kind = array.type
        if _is_text(kind):
            return ArrowColumn(pa.array(Values(self.texts()).at(moved).given, kind))
        if types.is_integer(kind) or types.is_floating(kind):
            return ArrowColumn(pa.array(Values(array.to_pylist()).at(moved).given).cast(kind, safe=False))
        if types.is_temporal(kind):
            ns = self.times().ns.copy()
            ns[list(moved)] = list(moved.values())
            whole = (
                "time64[ns]" if types.is_time(kind) else "duration[ns]" if types.is_duration(kind) else "timestamp[ns]"
            )
            made = pa.array(ns, mask=self._absent).view(whole)
            if types.is_timestamp(kind):
                made = made.cast(pa.timestamp("ns", kind.tz))
            return ArrowColumn(made.cast(kind, safe=False))
        return self

    def without(self, rows: list[int]) -> ArrowColumn:
        """Null."""
        gone = np.zeros(len(self), dtype=bool)
        gone[rows] = True
        pa, compute, array = require_pyarrow("this column"), part("compute"), self._flat
        return ArrowColumn(compute.if_else(pa.array(gone), pa.scalar(None, array.type), array))


def _is_text(kind: pa.DataType) -> bool:
    types = part("types")
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _from_texts(array: pa.Array) -> tuple[Array, Faults]:
    """Numbers of texts; one by one where a text is no number to pyarrow, or infinite, which it takes for a number."""
    pa = require_pyarrow("this column")
    try:
        found = _doubles(array.cast(pa.float64()))
    except pa.ArrowInvalid:
        return numbers_of(array.to_pylist())
    return numbers_of(array.to_pylist()) if np.isinf(found).any() else (found, {})


def _quick_times(array: pa.Array, absent: Mask) -> Times | None:
    """Times of texts all at once, where all are of the extended form and have a zone, or none has; otherwise None."""
    pa, compute = require_pyarrow("this column"), part("compute")
    for kind, zone in ((Kind.LOCAL, None), (Kind.ZONED, "UTC")):
        try:
            ns = array.cast(pa.timestamp("ns", zone)).view("int64").fill_null(0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
        if zone is None or not len(array):
            return Times(ns, absent, None if absent.all() else kind, {})
        tails = compute.utf8_slice_codeunits(array.drop_null(), -6).value_counts().to_pylist()
        return Times(ns, absent, kind, {}, times.zones_of({tail["values"]: tail["counts"] for tail in tails}))
    return None


def _doubles(array: pa.Array) -> Array:
    pa, types = require_pyarrow("this column"), part("types")
    if types.is_decimal(array.type):
        # the double nearest to it, as of a text: pyarrow multiplies by a power of ten, which is often one ulp off
        array = array.cast(pa.string())
    if array.type != pa.float64() and not types.is_float16(array.type):
        # a whole number of more than 53 bits is rounded
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=float)


def _iso(array: pa.Array) -> list[Entry]:
    """Times as ISO texts, with a Z where they have a zone."""
    compute = part("compute")
    zone = array.type.tz
    bare = array if zone is None else array.cast(f"timestamp[{array.type.unit}]", safe=False)
    texts = compute.replace_substring(bare.cast("string"), " ", "T")
    found: list[str | None] = compute.replace_substring_regex(texts, r"\.0+$", "").to_pylist()
    return [text if text is None or zone is None else text + "Z" for text in found]


Column: TypeAlias = Values | ArrowColumn
"""One column of some rows."""

# Times in one column or in two -----------------------------------------------------------------------


_MIDNIGHT = re.compile(r"[T ]00:00(?::00(?:\.0+)?)?$")


def time_names(time: str | None, names: Container[str]) -> tuple[str, ...]:
    """The columns that a time is read from: the one of that name, otherwise the two with a comma between them.

    >>> time_names("Date,Time", ["Date", "Time", "co2"]), time_names("Date,Time", ["Date,Time"]), time_names(None, [])
    (('Date', 'Time'), ('Date,Time',), ())
    """
    if time is None:
        return ()
    parts = tuple(part.strip() for part in time.split(","))
    return parts if len(parts) == 2 and all(parts) and time not in names else (time,)


def read_times(columns: Mapping[str, Column], time: str, day_first: bool = False) -> Times:
    """The times of rows; two cells are joined by a blank and read as one.

    >>> found = read_times({"Date": Values(["1970/01/01"]), "Time": Values(["00:00:01"])}, "Date,Time")
    >>> found.ns.tolist()
    [1000000000]
    """
    return _time_column(columns, time_names(time, columns)).times(day_first)


def write_times(columns: Mapping[str, Column], time: str, moved: dict[int, int]) -> dict[str, Column]:
    """The columns with other times in some rows, in nanoseconds, in the form that they have."""
    names = time_names(time, columns)
    found = _time_column(columns, names).at(moved)
    if len(names) == 1:
        return {**columns, time: found}
    texts = found.texts()
    halves = zip(*(texts[i].split(" ", 1) for i in moved), strict=True)
    changed = zip(names, halves, strict=True)
    return {**columns, **{name: _put(columns[name], dict(zip(moved, half, strict=True))) for name, half in changed}}


def erase_times(columns: Mapping[str, Column], time: str, rows: list[int]) -> dict[str, Column]:
    """The columns without a time in some rows."""
    return {**columns, **{name: columns[name].without(rows) for name in time_names(time, columns)}}


def _time_column(columns: Mapping[str, Column], names: tuple[str, ...]) -> Column:
    if len(names) == 1:
        return columns[names[0]]
    date, clock = ([plain(cell) for cell in columns[name].values()] for name in names)
    pairs = zip(date, clock, strict=True)
    return Values(
        [None if None in pair else _MIDNIGHT.sub("", as_text(pair[0])) + f" {as_text(pair[1])}" for pair in pairs]
    )


def _put(column: Column, texts: dict[int, str]) -> Column:
    """The column with these texts in some rows, as its own type has them."""
    if isinstance(column, ArrowColumn) and part("types").is_temporal(column.array.type):
        return column.at(dict(zip(texts, times.of_entries(list(texts.values())).ns.tolist(), strict=True)))
    cells = column.values()
    for i, text in texts.items():
        cells[i] = text if isinstance(cells[i], str) else int(text)
    if isinstance(column, Values):
        return Values(cells)
    return ArrowColumn(require_pyarrow("this column").array(cells).cast(column._flat.type))


# Columns of dataframes -------------------------------------------------------------------------------


def column_of(name: str, given: Sequence[Entry] | NDArray[np.generic] | nw.Series[Any]) -> Column:
    """A column out of a list, an array, or a series of pandas, polars or pyarrow.

    >>> column_of("co2", [400.0, None, "420"]).numbers()[0].tolist()
    [400.0, nan, 420.0]
    """
    if isinstance(given, (list, tuple, range)):
        return Values(list(given))
    if not isinstance(given, np.ndarray):
        import narwhals as nw

        try:
            return _of_series(nw.from_native(given, series_only=True))
        except TypeError:
            given = np.asarray(given)
    if given.ndim != 1:
        raise ConfigurationError(f"column {name!r} has shape {given.shape}; a column has one axis")
    return Values(given if given.dtype.kind in "iufMm" else given.tolist())


def _of_series(series: nw.Series[Any]) -> Column:
    """A series as an array where it is one of numbers or of times, as a list otherwise."""
    import narwhals as nw

    dtype = series.dtype
    if series.implementation.is_pyarrow():
        return ArrowColumn(series.to_arrow())
    zone = getattr(dtype, "time_zone", None)
    if zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    exact = dtype.is_float() or dtype in (nw.Datetime, nw.Duration) or dtype.is_integer()
    if exact and not (dtype.is_integer() and series.is_null().any()):  # as floats these would lose digits
        array = series.to_numpy()
        if array.dtype.kind in "iufMm":
            return Values(array, zone)
    return Values(series.to_list(), zone)


# Rows of a file, some at a time: what every reader gives ---------------------------------------------


BATCH = 65_536
"""Rows of texts that are in work at a time."""
WIDE = 4 * BATCH
"""Rows of numbers that are: they take less memory, and a batch is a transaction of the ledger."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Some rows: the columns that were asked for, the line of each in the file, and what is wrong with whole rows."""

    columns: dict[str, Column]
    lines: Ints
    faults: Faults = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"Rows({len(self)} rows of {len(self.columns)} columns)"

    def cut(self, start: int, stop: int) -> Rows:
        """Some of them."""
        columns = {name: column.cut(start, stop) for name, column in self.columns.items()}
        faults = {i - start: rule for i, rule in self.faults.items() if start <= i < stop}
        return Rows(columns, self.lines[start:stop], faults)


def batches(blocks: Iterable[Rows], size: int | None = None) -> Iterator[Rows]:
    """The same rows, `size` of them at a time (65,536).

    >>> some = [Rows({"a": Values(["x"] * n)}, np.arange(n)) for n in (2, 3, 4)]
    >>> [len(rows) for rows in batches(some, 5)]
    [5, 4]
    """
    size = BATCH if size is None else size
    waiting: list[Rows] = []
    count = 0
    for block in blocks:
        at = 0
        while count + len(block) - at >= size:
            stop = at + size - count
            yield join_rows([*waiting, block.cut(at, stop) if at or stop < len(block) else block])
            waiting, count, at = [], 0, stop
        if at < len(block):
            waiting.append(block.cut(at, len(block)) if at else block)
            count += len(block) - at
    if waiting:
        yield join_rows(waiting)


def join_rows(parts: list[Rows]) -> Rows:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    faults: Faults = {}
    at = 0
    for part in parts:
        faults |= {at + i: rule for i, rule in part.faults.items()}
        at += len(part)
    columns = {name: _stack([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Rows(columns, np.concatenate([part.lines for part in parts]), faults)


def _stack(parts: list[Column]) -> Column:
    arrays = [part.array for part in parts if isinstance(part, ArrowColumn)]
    if len(arrays) == len(parts):
        return ArrowColumn(require_pyarrow("this column").concat_arrays(arrays))
    if arrays:  # blocks of a CSV file, some by pyarrow and some not
        return Values([text or None for part in parts for text in part.texts()])
    return Values([value for part in parts for value in part.values()])


# Rows that are written -------------------------------------------------------------------------------


class NumberFormat(NamedTuple):
    """So many decimals, zeros at the end included.

    >>> NumberFormat(1).texts([431.04, -0.01])
    ['431.0', '0.0']
    >>> NumberFormat(2).round(np.array([431.256, np.nan])).tolist()
    [431.26, nan]
    """

    decimals: int

    @property
    def whole(self) -> bool:
        """Whether numbers are written without a point."""
        return self.decimals == 0

    def texts(self, values: Iterable[float]) -> list[str]:
        """The numbers as text."""
        given: list[float] = values.tolist() if isinstance(values, np.ndarray) else list(values)
        form = f"%.{self.decimals}f"
        texts = [form % value for value in given]
        nothing = form % -0.0
        return [text[1:] if text == nothing else text for text in texts] if nothing in texts else texts

    def round(self, values: Array) -> Array:
        """The numbers that the texts stand for; what is missing stays so."""
        with np.errstate(over="ignore"):
            found = np.round(values, self.decimals) + 0.0
        return np.where(np.isfinite(found), found, values)


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the columns that leave, in the order of the source; those that are readings have a channel and a form.

    >>> layout = Layout(("time", "co2"), ("co2",), (NumberFormat(1),))
    >>> layout.other_columns, layout.channel("co2"), layout.channel("time")
    (('time',), 0, None)
    """

    names: tuple[str, ...]
    readings: tuple[str, ...]
    forms: tuple[NumberFormat, ...]

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns that leave as they are."""
        return tuple(name for name in self.names if name not in self.readings)

    def channel(self, name: str) -> int | None:
        """The channel of a reading; None for a column that leaves as it is."""
        return self.readings.index(name) if name in self.readings else None

    def texts(self, channel: int, y: Array, missing: str) -> list[str]:
        """The outputs of a channel as texts."""
        form, there = self.forms[channel], ~np.isnan(y)
        if there.all():
            return form.texts(y)
        texts = iter(form.texts(y[there]))
        return [next(texts) if known else missing for known in there.tolist()]
