"""Tables: the columns of a file or of a dataframe, with the rules of `understudy.tables.columns`.

`us.fit`, `understudy fit` and `understudy audit` need all rows: a `Table`. `Table(frame)` is one of a dataframe
(pandas, polars, pyarrow; through narwhals) or of a mapping from names to arrays, `read_table` one of a file.
`understudy apply` takes the rows of the same files some at a time: a `Source` has a reader for each format, CSV,
gzipped CSV, Parquet and JSON lines; ``-`` is standard input and output. Its outputs go to a writer (`make_writer`).
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from understudy._paths import STANDARD, Path
from understudy._types import Array, Index, Ints, Plain, Progress
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns
from understudy.tables.columns import ArrowColumn, Column, Entries, Layout, Rows, Values, column_of, join_rows
from understudy.tables.times import Entry, Faults, Times

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    from narwhals.typing import IntoFrame

    from understudy.tables.delimited import Bytes, CsvReader, CsvWriter, JsonLinesReader, JsonLinesWriter
    from understudy.tables.parquet import ParquetReader, ParquetWriter

    Frame: TypeAlias = IntoFrame | Mapping[str, Sequence[Entry] | NDArray[np.generic]]

FORMATS = ("csv", "csv.gz", "parquet", "jsonl")
_ENDINGS = {
    ".csv": "csv", ".txt": "csv", ".tsv": "csv", ".csv.gz": "csv.gz", ".gz": "csv.gz", ".parquet": "parquet",
    ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip


# Files by their format ---------------------------------------------------------------------------


Reader: TypeAlias = "CsvReader | JsonLinesReader | ParquetReader"
"""A file that is read from its beginning, once: `names`, `total`, `batch` and `rows`."""
Writer: TypeAlias = "CsvWriter | JsonLinesWriter | ParquetWriter"
"""A file that is written from its beginning: `write` and `close`."""


def format_of(path: Path | io.BytesIO, given: str | None = None) -> str:
    """The format that is given, or that the ending of a name tells; CSV for standard input and output.

    >>> format_of("room.csv.gz"), format_of("-"), format_of("room.data", "parquet")
    ('csv.gz', 'csv', 'parquet')
    """
    if given is not None:
        if given not in FORMATS:
            raise ConfigurationError(f"format = {given!r}; it must be one of {', '.join(FORMATS)}")
        return given
    if isinstance(path, io.BytesIO):
        raise ConfigurationError("format is missing; bytes in memory have no name that tells it")
    name = os.fspath(path).lower()
    if name == STANDARD:
        return "csv"
    for ending in sorted(_ENDINGS, key=len, reverse=True):
        if name.endswith(ending):
            return _ENDINGS[ending]
    if os.path.isdir(path):
        raise ConfigurationError(f"{os.fspath(path)} is a folder; a file is wanted")
    raise ConfigurationError(
        f"{os.path.basename(name)!r} has no ending that tells its format; it must be one of "
        f"{', '.join(sorted(_ENDINGS))}, or format= says which ({', '.join(FORMATS)})"
    )


def title(path: Path | io.BytesIO) -> str:
    """How messages name a file."""
    if isinstance(path, io.BytesIO):
        return "the frame"
    return "standard input" if os.fspath(path) == STANDARD else os.path.basename(os.fspath(path))


class Source:
    """A file to read, open; close it, or use it in a `with`."""

    def __init__(self, path: Path | io.BytesIO, kind: str, delimiter: str = ",") -> None:
        self.name = title(path)
        self._files: list[IO[bytes]] = []
        self.size: int | None = None
        try:
            self._raw = self._open(path, kind)
            file = gzip.GzipFile(fileobj=self._raw) if kind == "csv.gz" else self._raw
            self.reader = _reader(file, self.name, kind, delimiter)
        except IsADirectoryError:
            self.close()
            raise ConfigurationError(f"{self.name} is a folder; a file is wanted") from None
        except OSError as error:
            self.close()
            raise ConfigurationError(f"{self.name} cannot be read: {error.strerror or 'it is no such file'}") from None
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path | io.BytesIO, kind: str) -> IO[bytes] | pa.BufferReader:
        if isinstance(path, io.BytesIO):
            return path
        if os.fspath(path) != STANDARD:
            file = open(path, "rb")  # noqa: SIM115  # closed by `close`
            self._files.append(file)
            self.size = os.fstat(file.fileno()).st_size
            return file
        if kind == "parquet":
            # its index is at its end, so a pipe has to be kept whole
            return columns.require_pyarrow("Parquet").BufferReader(sys.stdin.buffer.read())
        return sys.stdin.buffer

    def share(self, rows: int) -> float | None:
        """How much of the file is done after so many rows; None if nobody can tell."""
        if self.reader.total:
            return min(rows / self.reader.total, 1.0)
        return min(self._raw.tell() / self.size, 1.0) if self.size and self._files else None

    def close(self) -> None:
        """Close what was opened here."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _reader(file: Bytes | pa.BufferReader, name: str, kind: str, delimiter: str) -> Reader:
    if kind == "parquet":
        from understudy.tables.parquet import ParquetReader

        return ParquetReader(file, name)
    if kind == "jsonl":
        from understudy.tables.delimited import JsonLinesReader

        return JsonLinesReader(file, name)
    from understudy.tables.delimited import CsvReader

    try:
        return CsvReader(file, name, delimiter)
    except (EOFError, gzip.BadGzipFile):
        raise ReadingError(f"{name} is not a whole gzip file") from None


def make_writer(
    file: IO[bytes],
    kind: str,
    layout: Layout,
    source: Source,
    first: Rows,
    mark: Plain,
    delimiter: str = ",",
) -> Writer:
    """A writer of some format for rows such as the first ones."""
    reader = source.reader
    if kind == "jsonl":
        from understudy.tables.delimited import JsonLinesWriter

        return JsonLinesWriter(file, layout)
    if kind != "parquet":
        from understudy.tables.delimited import CsvReader, CsvWriter

        return CsvWriter(file, layout, reader.delimiter if isinstance(reader, CsvReader) else delimiter)
    from understudy.tables.parquet import ParquetReader, ParquetWriter

    pa = columns.require_pyarrow("Parquet")
    if isinstance(reader, ParquetReader):
        types = {name: reader.type_of(name) for name in layout.other_columns}
    else:
        types = {name: pa.type_for_alias(_type_of_kept(first.columns[name])) for name in layout.other_columns}
    for name, form in zip(layout.readings, layout.forms, strict=True):
        types[name] = pa.int64() if form.whole else pa.float64()
    return ParquetWriter(file, layout, types, mark, reader if isinstance(reader, ParquetReader) else None)


def _type_of_kept(column: Column) -> str:
    """The type of a column that has none: whole numbers, numbers or texts, as far as the first rows tell."""
    if isinstance(column, Values):
        kinds = {type(value) for value in column.values() if value is not None}
        for names, kind in (({int}, "int64"), ({int, float}, "float64"), ({bool}, "bool")):
            if kinds and kinds <= names:
                return kind
    return "string"


# All rows of a file or of a frame --------------------------------------------------------------------


_Given: TypeAlias = "Column | Sequence[Entry] | NDArray[np.generic] | nw.Series[Any]"


class Table:
    """What is needed of all rows: names, columns, and how an error names a place.

    >>> table = Table({"co2": [400.0, None, 420.0], "people": ["0", "1", "1"]})
    >>> table.names, len(table), table.numbers("co2").tolist()
    (('co2', 'people'), 3, [400.0, nan, 420.0])
    """

    def __init__(self, frame: Frame) -> None:
        self.name = "the frame"
        self._lines: Ints | None = None
        self._hidden: dict[str, _Given] = {}
        self._columns: dict[str, _Given]
        if isinstance(frame, Mapping):
            lengths = {len(frame[name]) for name in frame}
            if len(lengths) > 1:
                raise ConfigurationError("the columns of the mapping differ in length; they must agree")
            self._length, self._columns = max(lengths, default=0), dict(frame)
        else:
            self._length, self._columns, self._hidden = _of_frame(frame)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.name}, {len(self.names)} columns)"

    def __len__(self) -> int:
        return self._length

    @staticmethod
    def of_rows(name: str, rows: Rows) -> Table:
        """The rows of a file."""
        made = Table({})
        made.name, made._length, made._lines, made._columns = name, len(rows), rows.lines, dict(rows.columns)
        return made

    def take(self, rows: Index) -> Table:
        """Some of the rows."""
        lines = np.arange(len(self)) if self._lines is None else self._lines
        some = {name: self.column(name).take(rows) for name in self.names}
        return Table.of_rows(self.name, Rows(some, lines[rows]))

    def add_column(self, name: str, values: Sequence[Entry] | NDArray[np.generic]) -> Table:
        """The same table with one more column, which takes the place of one of its name."""
        if len(values) != len(self):
            raise ConfigurationError(
                f"{name} has {len(values)} entries and the frame {len(self)} rows; they must agree"
            )
        made = Table({})
        made.name, made._length, made._lines, made._hidden = self.name, len(self), self._lines, self._hidden
        made._columns = {**self._columns, name: values}
        return made

    def column(self, name: str, role: str = "a column") -> Column:
        """One column by its name; `role` says in an error what it was wanted for."""
        places = {**self._hidden, **self._columns}
        if name not in places:
            raise ConfigurationError(
                f"{role} is {name!r}; no such column is among the {len(self.names)} of {self.name}"
            )
        given = places[name]
        return given if isinstance(given, (Values, ArrowColumn)) else column_of(name, given)

    def place(self, name: str, row: int) -> str:
        """How an error names a cell: by line of a file, by row of a frame; never by what stands there."""
        if self._lines is None:
            return f"column {name!r}, row {row} (counted from 0)"
        return f"{self.name}, line {self._lines[row]}, column {name!r}"

    def line(self, row: int) -> int:
        """The line of a row in its file; the row itself, from 0, in a frame."""
        return row if self._lines is None else int(self._lines[row])

    def refuse(self, name: str, faults: Faults, rule: str) -> None:
        """Refuse the first of the rows that are wrong, if there are any."""
        if faults:
            first = min(faults)
            more = f" ({len(faults)} such rows)" if len(faults) > 1 else ""
            raise ReadingError(f"{self.place(name, first)} {faults[first]}; {rule}{more}")

    def numbers(self, name: str, role: str = "reading", what: str = "a reading") -> Array:
        """A column as numbers, NaN where one is missing; refuses what is none.

        >>> Table({"co2": ["400", "-", "420.5"]}).numbers("co2").tolist()
        [400.0, nan, 420.5]
        """
        found, faults = self.column(name, role).numbers()
        self.refuse(name, faults, f"{what} is a finite number or missing")
        return found

    def times(self, name: str, day_first: bool = False) -> Times:
        """A column as times, or two whose names have a comma between them; some may be missing. Refuses what is none.

        >>> found = Table({"time": ["2021-09-07 00:00 +08:00", "2021-09-07 00:05 +08:00"]}).times("time")
        >>> np.diff(found.ns).tolist(), found.zone
        ([300000000000], '+08:00')
        """
        names = columns.time_names(name, {**self._hidden, **self._columns})
        found = columns.read_times({each: self.column(each, "time") for each in names}, name, day_first)
        self.refuse(name, found.faults, "times are ISO texts such as 2015-02-04 17:51:00, datetimes or numbers")
        return found

    def entries(self, name: str, role: str = "a column") -> Entries:
        """A column as labels or names."""
        return self.column(name, role).entries()


def _of_frame(frame: IntoFrame) -> tuple[int, dict[str, _Given], dict[str, _Given]]:
    """Rows and columns of a dataframe; and the index of a pandas frame, by its name or as "index"."""
    import narwhals as nw

    try:
        known = nw.from_native(frame)
    except TypeError:
        raise ConfigurationError(
            f"the frame is of type {type(frame).__name__}; it must be a dataframe (pandas, polars, a pyarrow table "
            "or another that narwhals knows) or a mapping from names to arrays"
        ) from None
    except nw.exceptions.DuplicateError:
        raise ConfigurationError("the frame has two columns of one name; names must be distinct") from None
    whole = known.collect() if isinstance(known, nw.LazyFrame) else known
    index = nw.maybe_get_index(whole)
    hidden = {} if index is None else {str(each): index for each in (index.name, "index")}
    return len(whole), {name: whole[name] for name in whole.columns}, hidden


def read_table(
    path: Path,
    wanted: Sequence[str],
    kind: str | None = None,
    delimiter: str = ",",
    progress: Progress | None = None,
    time: str | None = None,
) -> Table:
    """All rows of a file, of the columns that are needed; refuses a row that has not as many fields as the header."""
    with Source(path, format_of(path, kind), delimiter) as file:
        wanted = list(dict.fromkeys((*columns.time_names(time, file.reader.names), *wanted)))
        check_names(wanted, file.reader.names, file.name)
        parts, count = [], 0
        for rows in file.reader.rows(wanted):
            if rows.faults:
                first = min(rows.faults)
                raise ReadingError(f"{file.name}, line {rows.lines[first]}: {rows.faults[first]}")
            parts.append(rows)
            count += len(rows)
            if progress is not None:
                progress(file.share(count) or 0.0)
    if not count:
        raise ReadingError(f"{file.name} has no rows below its header")
    return Table.of_rows(file.name, join_rows(parts))


def check_names(wanted: Sequence[str], names: Sequence[str], file: str) -> None:
    """Refuse a file that lacks a column, or has one twice.

    What stands in its first line is not shown: where the header is missing, that is a reading and a private value.

    >>> check_names(["co2", "people"], ["431.0", "3"], "room.csv")
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: room.csv has no column 'co2'; wanted are 'co2', 'people', and its first line \
has 2 fields: it must hold the names of the columns
    """
    for name in wanted:
        if name not in names:
            count = f"{len(names)} field{'s' * (len(names) != 1)}"
            why = "" if any(each in names for each in wanted) else ": it must hold the names of the columns"
            raise ConfigurationError(
                f"{file} has no column {name!r}; wanted are {', '.join(map(repr, wanted))}, and its first line has "
                f"{count}{_nearest(name, names) or why}"
            )
        if list(names).count(name) > 1:
            raise ConfigurationError(f"{file} has the column {name!r} twice; which is meant cannot be told")


_DIGIT = re.compile(r"[-+.]?[0-9]")


def _nearest(name: str, names: Sequence[str]) -> str:
    """The name that was probably meant. A first line that has a number is perhaps a row, of which nothing is shown.

    >>> _nearest("co2", ["date", "CO2_ppm"]), _nearest("co2", ["431.0", "CO2_ppm"])
    ("; is 'CO2_ppm' meant?", '')
    """
    known = {} if any(_DIGIT.match(each) for each in names) else {each.casefold(): each for each in names}
    return "".join(f"; is {known[each]!r} meant?" for each in get_close_matches(name.casefold(), known, 1))
