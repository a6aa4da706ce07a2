"""CSV files and JSON lines, read and written a block of lines at a time.

Python's csv module defines what a CSV file means. Where pyarrow is installed, it reads the blocks in which nothing
unusual happens: as many rows as lines, each with as many fields as the header. All others (a blank line, a quoted line
break, a row that is too short) go through the csv module, which knows the line of each row. JSON lines hold an object
a line, with the same names in each.

What is written are the texts of time and kept columns as they came, and readings in the form that the design gives
them. A line of comment would break most readers of CSV, so the mark that the readings are disguised stands in a file
beside it, ``<file>.meta.json``; each JSON line has the mark in it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from typing import IO, TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from understudy._types import Array
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns as arrow
from understudy.tables.columns import ArrowColumn, Column, Layout, Rows, Values, as_json
from understudy.tables.times import Entry

if TYPE_CHECKING:
    import _csv

# Whole lines of a file of texts, a few megabytes at a time, with the number of the first -------------


BLOCK = 1 << 22
LONGEST = 1 << 24
"""Bytes that a line, or a quoted field, may have."""
EMPTIEST = 1 << 24
"""Bytes of line ends that a file may have beyond its other bytes; a packed file of a megabyte can hold a gigabyte."""


def _outside(raw: bytes, quote: bytes) -> int:
    r"""The end of the last line that ends outside of quotes; all at once, for there may be millions inside.

    >>> _outside(b'1\n"2\n",3\n"', b'"')
    9
    """
    letters = np.frombuffer(raw, dtype=np.uint8)
    inside = np.logical_xor.accumulate(letters == quote[0])
    ends = np.flatnonzero((letters == ord("\n")) & ~inside)
    return int(ends[-1]) + 1 if ends.size else 0


class Bytes(Protocol):
    """An open file of bytes, packed or not."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, or what is left."""
        ...


class Block(NamedTuple):
    """Whole lines, and the number of the first of them, from 1."""

    raw: bytes
    line: int

    def __repr__(self) -> str:
        return f"Block({len(self.raw)} bytes)"

    def text(self, name: str) -> str:
        """The lines as text; refuses what is not UTF-8."""
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.line + self.raw.count(b"\n", 0, error.start)
            raise ReadingError(
                f"{name}, line {line}: the text is not UTF-8; export the file as text in UTF-8, such as CSV"
            ) from None


def blocks(file: Bytes, name: str, quote: bytes = b"", size: int = BLOCK, *, blank: bytes = b"\r\n") -> Iterator[Block]:
    r"""The file in blocks that end with a line; with a `quote`, where no quoted field is open.

    Blocks of nothing but `blank` characters are left out, and a file that has hardly anything else is refused.

    >>> import io
    >>> [block.line for block in blocks(io.BytesIO(b"a\nb\nc"), "x", size=3)]
    [1, 2, 3]
    """
    rest, line, empty, held = b"", 1, 0, 0
    while True:
        more = file.read(size)
        whole = rest + more
        ends = more.count(b"\n")
        dense = 4 * ends > len(more) or not more.strip(blank)  # others are not counted in full, which takes time
        filled = len(more.translate(None, blank)) if dense else len(more)
        empty += len(more) - 2 * filled
        if empty > EMPTIEST:
            raise ReadingError(f"{name}, after line {line}: the file is blank over more than {EMPTIEST >> 20} MiB")
        if not more:
            if whole.strip(blank):
                yield Block(whole, line)
            return
        end = whole.rfind(b"\n") + 1
        if quote and whole.count(quote, 0, end) % 2:
            # within an open quote a line does not end the row: wait for the rest of it
            end = _outside(whole, quote)
        held += ends  # ends of lines that are not counted yet
        if not end:
            if len(whole) > LONGEST:
                raise ReadingError(f"{name}, line {line}: the line or a quoted field in it does not end")
            rest = whole
            continue
        if filled or whole[:end].strip(blank):
            yield Block(whole[:end], line)
        left = whole.count(b"\n", end)
        line, held, rest = line + held - left, left, whole[end:]


# CSV files, a block of lines at a time ---------------------------------------------------------------


WIDEST = 100_000
"""Columns that a file may have."""
_MARK = b"\xef\xbb\xbf"  # that the file is UTF-8, as some programs write it


def _count_fields(lines: str, delimiter: str) -> int:
    """Fields of the first row that has any."""
    return next((len(row) for row in csv.reader(StringIO(lines, newline=""), delimiter=delimiter) if row), 0)


class CsvReader:
    r"""The header of a CSV file, and its rows; another delimiter is taken where a header has one field by the given.

    >>> import io
    >>> reader = CsvReader(io.BytesIO(b"time,co2\n1,431.0\n2,432.5\n"), "room.csv")
    >>> reader.names
    ('time', 'co2')
    >>> [rows.columns["co2"].texts() for rows in reader.rows(["co2"])]
    [['431.0', '432.5']]
    """

    def __init__(self, file: Bytes, name: str, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise ConfigurationError(f"delimiter = {delimiter!r}; it must be one character, not a quote or a line end")
        self.name, self.delimiter = name, delimiter  # until the header shows another one
        self._blocks: Iterator[Block] = blocks(file, name, b'"')
        self.names, first = self._header()
        self._blocks = chain([] if first is None else [first], self._blocks)
        self.total: int | None = None
        self.batch: int | None = None

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Iterator[Rows]:
        """All rows, of some columns."""
        places = [self.names.index(name) for name in wanted]
        quick = arrow.find_pyarrow() is not None and self.delimiter.isascii()
        for block in self._blocks:
            found = self._quick(block, wanted, places) if quick else None
            yield self._slow(block, wanted, places) if found is None else found

    def _header(self) -> tuple[tuple[str, ...], Block | None]:
        for block in self._blocks:
            raw = block.raw.removeprefix(_MARK) if block.line == 1 else block.raw
            lines = Block(raw, block.line).text(self.name)
            try:
                if _count_fields(lines, self.delimiter) == 1:
                    self.delimiter = max(self.delimiter, *";\t|,", key=lambda mark: _count_fields(lines, mark))
                reader = self._reader(text := StringIO(lines, newline=""))
                row = next((row for row in reader if row), None)
            except csv.Error:
                raise ReadingError(f"{self.name}, line {block.line}: the header cannot be read") from None
            if row is not None:
                if len(row) > WIDEST:
                    raise ReadingError(f"{self.name}: the header has {len(row)} fields; it may have {WIDEST}")
                left = text.read().encode("utf-8")
                first = Block(left, block.line + reader.line_num) if left else next(self._blocks, None)
                names = tuple(name.strip() for name in row)
                # R writes the names of rows without a name above them
                return ("", *names) if self._width(first) == len(names) + 1 else names, first
        raise ReadingError(f"{self.name} is empty; its first line must hold the names of its columns")

    def _width(self, block: Block | None) -> int:
        """Fields of the first row."""
        if block is None:
            return 0
        try:
            return _count_fields(block.text(self.name), self.delimiter)
        except (csv.Error, ReadingError):
            return 0  # told by its line when it is read

    def _reader(self, text: StringIO) -> _csv.Reader:
        csv.field_size_limit(LONGEST)
        return csv.reader(text, delimiter=self.delimiter)

    def _quick(self, block: Block, wanted: Sequence[str], places: list[int]) -> Rows | None:
        """By pyarrow; None where the block has anything that is better told by lines."""
        pa, pc = arrow.require_pyarrow("this file"), arrow.part("csv")
        if b"\0" in block.raw or (b"\r" in block.raw and block.raw.count(b"\r") != block.raw.count(b"\r\n")):
            return None
        lines = block.raw.count(b"\n") + (not block.raw.endswith(b"\n"))
        numbered = [str(place) for place in places]  # names may come twice
        try:
            table = pc.read_csv(
                pa.BufferReader(block.raw),
                pc.ReadOptions(
                    column_names=[str(i) for i in range(len(self.names))], use_threads=False,
                    block_size=len(block.raw) + 1,
                ),
                pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pc.ConvertOptions(
                    include_columns=numbered, column_types=dict.fromkeys(numbered, pa.string()),
                    strings_can_be_null=False,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            return None
        if table.num_rows != lines:
            return None
        arrays = [pa.concat_arrays(table.column(number).chunks) for number in numbered]
        columns: dict[str, Column] = {name: ArrowColumn(array) for name, array in zip(wanted, arrays, strict=True)}
        return Rows(columns, np.arange(block.line, block.line + lines))

    def _slow(self, block: Block, wanted: Sequence[str], places: list[int]) -> Rows:
        """By the csv module, with the line on which each row begins."""
        width, reader = len(self.names), self._reader(StringIO(block.text(self.name), newline=""))
        fields: list[list[Entry]] = [[] for _ in places]
        lines: list[int] = []
        faults: dict[int, str] = {}
        before = 0
        try:
            for row in reader:
                line, before = before, reader.line_num
                if not row:
                    continue
                if len(row) != width:
                    faults[len(lines)] = f"the row has {len(row)} fields and the header has {width}"
                    row = [""] * width  # what stands where cannot be told: the private value may be anywhere
                lines.append(block.line + line)
                for column, place in zip(fields, places, strict=True):
                    column.append(row[place] or None)
        except csv.Error:
            raise ReadingError(
                f"{self.name}, line {block.line + before}: this cannot be read as CSV (a null byte, or an open quote)"
            ) from None
        columns: dict[str, Column] = {name: Values(column) for name, column in zip(wanted, fields, strict=True)}
        return Rows(columns, np.array(lines, dtype=np.int64), faults)


# CSV files written ---------------------------------------------------------------------------------


class CsvWriter:
    r"""A header, and rows.

    >>> import io
    >>> from understudy.tables.columns import NumberFormat, Values
    >>> file = io.BytesIO()
    >>> writer = CsvWriter(file, Layout(("time", "co2"), ("co2",), (NumberFormat(1),)))
    >>> writer.write({"time": Values(["1", "2"])}, np.array([[431.04], [np.nan]]))
    >>> file.getvalue()
    b'time,co2\n1,431.0\n2,\n'
    """

    def __init__(self, file: IO[bytes], layout: Layout, delimiter: str = ",") -> None:
        self._file, self._layout, self._delimiter = file, layout, delimiter
        self._write([layout.names])

    def write(self, columns: Mapping[str, Column], Y: Array) -> None:
        """Some rows; a reading that is missing is empty."""
        self._write(zip(*[self._texts(name, columns, Y) for name in self._layout.names], strict=True))

    def _texts(self, name: str, columns: Mapping[str, Column], Y: Array) -> list[str]:
        channel = self._layout.channel(name)
        return columns[name].texts() if channel is None else self._layout.texts(channel, Y[:, channel], "")

    def close(self) -> None:
        """Nothing is held back."""

    def _write(self, rows: Iterable[Sequence[str]]) -> None:
        table = list(rows)
        text = self._plain(table)
        if text is None:
            text = self._quote(table, csv.QUOTE_MINIMAL)
        if "\r" in text:  # which the csv module leaves without quotes, although its reader ends a line there
            text = self._quote(table, csv.QUOTE_ALL)
        self._file.write(text.encode("utf-8"))

    def _plain(self, table: list[Sequence[str]]) -> str | None:
        """The lines where no field needs quotes, which is much the quicker way; None where one does."""
        width = len(self._layout.names)
        text = "\n".join(map(self._delimiter.join, table)) + "\n"
        fields = text.count(self._delimiter) == len(table) * (width - 1)
        # an empty field that is alone would be a blank line
        return text if width > 1 and fields and '"' not in text and text.count("\n") == len(table) else None

    def _quote(self, table: list[Sequence[str]], quoting: Literal[0, 1]) -> str:
        file = StringIO()
        csv.writer(file, delimiter=self._delimiter, lineterminator="\n", quoting=quoting).writerows(table)
        return file.getvalue()


# JSON lines ----------------------------------------------------------------------------------------


MARK = "disguised"
"""The name under which every line says that it is disguised."""


class JsonLinesReader:
    r"""The names in the first line, and all lines.

    >>> import io
    >>> reader = JsonLinesReader(io.BytesIO(b'{"time": 1, "co2": 431.0}\n{"time": 2}\n'), "room.jsonl")
    >>> reader.names
    ('time', 'co2')
    >>> [rows.columns["co2"].values() for rows in reader.rows(["co2"])]
    [[431.0, None]]
    """

    def __init__(self, file: Bytes, name: str) -> None:
        self.name = name
        self.total: int | None = None
        self.batch: int | None = None
        self._blocks: Iterator[Block] = blocks(file, name, blank=b" \t\r\n")
        self.names = self._header()

    def _header(self) -> tuple[str, ...]:
        for block in self._blocks:
            for i, line in enumerate(block.raw.split(b"\n")):
                if line.strip():
                    self._blocks = chain([block], self._blocks)
                    found = _object(line)
                    if isinstance(found, str):
                        raise ReadingError(f"{self.name}, line {block.line + i}: {found}")
                    return tuple(name for name, _ in found.pairs)
        raise ReadingError(f"{self.name} is empty; each line must hold a JSON object")

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Iterator[Rows]:
        """All rows, of some columns."""
        for block in self._blocks:
            yield self._block(block, wanted)

    def _block(self, block: Block, wanted: Sequence[str]) -> Rows:
        fields: list[list[Entry]] = [[] for _ in wanted]
        lines: list[int] = []
        faults: dict[int, str] = {}
        for i, line in enumerate(block.raw.split(b"\n")):
            if not line.strip():
                continue
            found = _object(line)
            if isinstance(found, _Object) and len(found) < len(found.pairs):
                found = "the line has a name twice; which is meant cannot be told"
            if isinstance(found, str):
                faults[len(lines)], found = found, _Object([])
            lines.append(block.line + i)
            for column, name in zip(fields, wanted, strict=True):
                column.append(found.get(name))
        columns: dict[str, Column] = {name: Values(column) for name, column in zip(wanted, fields, strict=True)}
        return Rows(columns, np.array(lines, dtype=np.int64), faults)


class _Object(dict[str, Entry]):
    """An object of JSON that still knows whether a name came twice."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Entry]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def _object(line: bytes) -> _Object | str:
    """The object of a line, or what is wrong with it."""
    try:
        found = _DECODER.decode(line.removeprefix(_MARK).decode("utf-8"))
    except (ValueError, RecursionError):  # the text of the error would quote the line
        return "the line is not JSON"
    if not isinstance(found, _Object):
        return "the line is not a JSON object"
    if b"\\ud" in line.lower() and _has_half_character(found):
        return "the line has one half of a surrogate pair, which is no character"
    return found


def _has_half_character(found: _Object) -> bool:
    """Whether a text in it cannot be written as UTF-8."""
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


class JsonLinesWriter:
    """Lines with time, readings and what is kept, and the mark."""

    def __init__(self, file: IO[bytes], layout: Layout) -> None:
        self._file, self._layout = file, layout

    def write(self, columns: Mapping[str, Column], Y: Array) -> None:
        """Some rows; a reading that is missing is null."""
        parts = [
            [f"{json.dumps(name)}: {text}" for text in self._texts(name, columns, Y)] for name in self._layout.names
        ]
        end = f', "{MARK}": true}}\n'
        self._file.write("".join(["{" + ", ".join(row) + end for row in zip(*parts, strict=True)]).encode("utf-8"))

    def _texts(self, name: str, columns: Mapping[str, Column], Y: Array) -> list[str]:
        channel = self._layout.channel(name)
        if channel is None:
            return [json.dumps(as_json(value), ensure_ascii=False) for value in columns[name].values()]
        return self._layout.texts(channel, Y[:, channel], "null")

    def close(self) -> None:
        """Nothing is held back."""
