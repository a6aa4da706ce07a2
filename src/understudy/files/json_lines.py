"""JSON lines: an object a line, with the same names in each; and such lines written, each with its mark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from understudy.errors import ReadingError
from understudy.files.columns import Column, Values, as_json
from understudy.files.layout import Layout
from understudy.files.lines import Block, blocks
from understudy.files.rows import Rows
from understudy.laws.base import Array

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

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.total: int | None = None
        self.batch: int | None = None
        self._blocks = blocks(file, name, blank=b" \t\r\n")
        self._first: Block | None = None
        self.names = self._header()

    def _header(self) -> tuple[str, ...]:
        for block in self._blocks:
            for i, line in enumerate(block.raw.split(b"\n")):
                if line.strip():
                    self._first = block
                    found = _object(line)
                    if not isinstance(found, dict):
                        raise ReadingError(f"{self.name}, line {block.line + i}: {found}")
                    return tuple(found)
        raise ReadingError(f"{self.name} is empty; each line must hold a JSON object")

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Iterator[Rows]:
        """All rows, of some columns."""
        for block in self._rest():
            yield self._block(block, wanted)

    def _rest(self) -> Iterator[Block]:
        if self._first is not None:
            yield self._first
        yield from self._blocks

    def _block(self, block: Block, wanted: Sequence[str]) -> Rows:
        fields: list[list[Any]] = [[] for _ in wanted]
        lines: list[int] = []
        faults: dict[int, str] = {}
        for i, line in enumerate(block.raw.split(b"\n")):
            if not line.strip():
                continue
            found = _object(line)
            if isinstance(found, str):
                faults[len(lines)], found = found, {}
            lines.append(block.line + i)
            for column, name in zip(fields, wanted, strict=True):
                column.append(found.get(name))
        columns: dict[str, Column] = {name: Values(column) for name, column in zip(wanted, fields, strict=True)}
        return Rows(columns, np.array(lines, dtype=np.int64), faults)


def _object(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # the text of the error would quote the line
        return "the line is not JSON"
    if b"\\ud" in line.lower() and _halved(found):
        return "the line has one half of a surrogate pair, which is no character"
    return found if isinstance(found, dict) else "the line is not a JSON object"


def _halved(found: Any) -> bool:
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
        there = ~np.isnan(Y[:, channel])
        texts = iter(self._layout.forms[channel].texts(Y[there, channel]))
        return [next(texts) if known else "null" for known in there.tolist()]

    def close(self) -> None:
        """Nothing is held back."""
