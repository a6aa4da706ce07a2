"""Rows of a file, some at a time: what every reader gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.files.columns import Column, Texts, Values

BATCH = 65_536
"""Rows of texts that are in work at a time."""
WIDE = 4 * BATCH
"""Rows of numbers that are: they take less memory, and a batch is a transaction of the ledger."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Some rows: the columns that were asked for, the line of each in the file, and what is wrong with whole rows."""

    columns: dict[str, Column]
    lines: NDArray[np.int64]
    faults: dict[int, str] = field(default_factory=dict)

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

    >>> some = [Rows({"a": Texts(["x"] * n)}, np.arange(n)) for n in (2, 3, 4)]
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
            yield joined([*waiting, block.cut(at, stop) if at or stop < len(block) else block])
            waiting, count, at = [], 0, stop
        if at < len(block):
            waiting.append(block.cut(at, len(block)) if at else block)
            count += len(block) - at
    if waiting:
        yield joined(waiting)


def joined(parts: list[Rows]) -> Rows:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    faults: dict[int, str] = {}
    at = 0
    for part in parts:
        faults |= {at + i: rule for i, rule in part.faults.items()}
        at += len(part)
    columns = {name: _stacked([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Rows(columns, np.concatenate([part.lines for part in parts]), faults)


def _stacked(parts: list[Any]) -> Column:
    kinds = {type(part) for part in parts}
    if kinds == {Values}:
        return Values([value for part in parts for value in part.given])
    if Texts in kinds:
        return Texts([text for part in parts for text in part.texts()])
    from understudy.files.arrow import needed
    from understudy.files.arrow_columns import ArrowColumn

    return ArrowColumn(needed("this column").concat_arrays([part.array for part in parts]))
