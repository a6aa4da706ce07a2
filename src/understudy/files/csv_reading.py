"""CSV files, a block of lines at a time.

Python's csv module defines what a file means. Where pyarrow is installed, it reads the blocks in which nothing unusual
happens: as many rows as lines, each with as many fields as the header. All others (a blank line, a quoted line break, a
row that is too short) go through the csv module, which knows the line of each row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import IO, Any

import numpy as np

from understudy.errors import ConfigurationError, ReadingError
from understudy.files import arrow
from understudy.files.columns import Column, Texts
from understudy.files.lines import LONGEST, Block, blocks
from understudy.files.rows import Rows

WIDEST = 100_000
"""Columns that a file may have."""
_MARK = b"\xef\xbb\xbf"  # that the file is UTF-8, as some programs write it


class CsvReader:
    r"""The header of a CSV file, and its rows.

    >>> import io
    >>> reader = CsvReader(io.BytesIO(b"time,co2\n1,431.0\n2,432.5\n"), "room.csv")
    >>> reader.names
    ('time', 'co2')
    >>> [rows.columns["co2"].texts() for rows in reader.rows(["co2"])]
    [['431.0', '432.5']]
    """

    def __init__(self, file: IO[bytes], name: str, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise ConfigurationError(f"delimiter = {delimiter!r}; it must be one character, not a quote or a line end")
        self.name, self.delimiter = name, delimiter
        self._blocks = blocks(file, name, b'"')
        self.names, self._first = self._header()
        self.total: int | None = None
        self.batch: int | None = None

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Iterator[Rows]:
        """All rows, of some columns."""
        places = [self.names.index(name) for name in wanted]
        quick = arrow.found() is not None and self.delimiter.isascii()
        for block in self._rest():
            found = self._quick(block, wanted, places) if quick else None
            yield self._slow(block, wanted, places) if found is None else found

    def _rest(self) -> Iterator[Block]:
        if self._first is not None:
            yield self._first
        yield from self._blocks

    def _header(self) -> tuple[tuple[str, ...], Block | None]:
        for block in self._blocks:
            raw = block.raw.removeprefix(_MARK) if block.line == 1 else block.raw
            text = StringIO(Block(raw, block.line).text(self.name), newline="")
            reader = self._reader(text)
            try:
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
            reader = self._reader(StringIO(block.text(self.name), newline=""))
            return next((len(row) for row in reader if row), 0)
        except (csv.Error, ReadingError):
            return 0  # told by its line when it is read

    def _reader(self, text: StringIO) -> Any:
        csv.field_size_limit(LONGEST)
        return csv.reader(text, delimiter=self.delimiter)

    def _quick(self, block: Block, wanted: Sequence[str], places: list[int]) -> Rows | None:
        """By pyarrow; None where the block has anything that is better told by lines."""
        pa, pc = arrow.found(), arrow.part("csv")
        from understudy.files.arrow_columns import ArrowColumn

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
        fields: list[list[str]] = [[] for _ in places]
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
                    column.append(row[place])
        except csv.Error:
            raise ReadingError(
                f"{self.name}, line {block.line + before}: this cannot be read as CSV (a null byte, or an open quote)"
            ) from None
        columns: dict[str, Column] = {name: Texts(column) for name, column in zip(wanted, fields, strict=True)}
        return Rows(columns, np.array(lines, dtype=np.int64), faults)
