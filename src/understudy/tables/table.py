"""Files of rows by their format: CSV, gzipped CSV, Parquet, JSON lines; ``-`` is standard input and output."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from understudy._paths import STANDARD, Path
from understudy._types import Array
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns
from understudy.tables.columns import Column, Rows
from understudy.tables.output_format import Layout

FORMATS = ("csv", "csv.gz", "parquet", "jsonl")
_ENDINGS = {
    ".csv": "csv", ".txt": "csv", ".tsv": "csv", ".csv.gz": "csv.gz", ".gz": "csv.gz", ".parquet": "parquet",
    ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip


class Reader(Protocol):
    """A file that is read from its beginning, once."""

    name: str
    names: tuple[str, ...]
    total: int | None
    batch: int | None

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Any:
        """All rows, of some columns, some at a time."""
        ...


class Writer(Protocol):
    """A file that is written from its beginning."""

    def write(self, columns: Mapping[str, Column], Y: Array) -> None:
        """Some rows: columns that are kept, and outputs, NaN where there is none."""
        ...

    def close(self) -> None:
        """All that is held back."""
        ...


def format_of(path: Path, given: str | None = None) -> str:
    """The format that is given, or that the ending of a name tells; CSV for standard input and output.

    >>> format_of("room.csv.gz"), format_of("-"), format_of("room.data", "parquet")
    ('csv.gz', 'csv', 'parquet')
    """
    if given is not None:
        if given not in FORMATS:
            raise ConfigurationError(f"format = {given!r}; it must be one of {', '.join(FORMATS)}")
        return given
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


def title(path: Path) -> str:
    """How messages name a file."""
    return "standard input" if os.fspath(path) == STANDARD else os.path.basename(os.fspath(path))


class Source:
    """A file to read, open; close it, or use it in a `with`."""

    def __init__(self, path: Path, kind: str, delimiter: str = ",") -> None:
        self.name, self._files = title(path), []  # type: str, list[IO[bytes]]
        self.size: int | None = None
        try:
            self._raw = self._opened(path, kind)
            file: Any = gzip.GzipFile(fileobj=self._raw) if kind == "csv.gz" else self._raw
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

    def _opened(self, path: Path, kind: str) -> Any:
        if os.fspath(path) != STANDARD:
            file = open(path, "rb")  # noqa: SIM115  # closed by `close`
            self._files.append(file)
            self.size = os.fstat(file.fileno()).st_size
            return file
        if kind == "parquet":
            # its index is at its end, so a pipe has to be kept whole
            return columns.needed("Parquet").BufferReader(sys.stdin.buffer.read())
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

    def __exit__(self, *_: object) -> None:
        self.close()


def _reader(file: Any, name: str, kind: str, delimiter: str) -> Reader:
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
    mark: Mapping[str, Any],
    delimiter: str = ",",
) -> Writer:
    """A writer of some format for rows such as the first ones."""
    if kind == "jsonl":
        from understudy.tables.delimited import JsonLinesWriter

        return JsonLinesWriter(file, layout)
    if kind != "parquet":
        from understudy.tables.delimited import CsvWriter

        return CsvWriter(file, layout, delimiter)
    from understudy.tables.parquet import ParquetReader, ParquetWriter

    reader = source.reader
    pa = columns.needed("Parquet")
    if isinstance(reader, ParquetReader):
        types = {name: reader.type_of(name) for name in layout.kept}
    else:
        types = {name: pa.type_for_alias(_type_of_kept(first.columns[name])) for name in layout.kept}
    for name, form in zip(layout.readings, layout.forms, strict=True):
        types[name] = pa.int64() if form.whole else pa.float64()
    return ParquetWriter(file, layout, types, mark, reader if isinstance(reader, ParquetReader) else None)


def _type_of_kept(column: Column) -> str:
    """The type of a column that has none: whole numbers, numbers or texts, as far as the first rows tell."""
    from understudy.tables.columns import Values

    if isinstance(column, Values):
        kinds = {type(value) for value in column.given if value is not None}
        for names, kind in (({int}, "int64"), ({int, float}, "float64"), ({bool}, "bool")):
            if kinds and kinds <= names:
                return kind
    return "string"
