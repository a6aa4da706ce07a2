"""A labelled history as columns in memory, with errors that name file, line, column and rule; and its last part."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from understudy.cli.terminal import progress
from understudy.errors import ConfigurationError, ReadingError, UnderstudyError
from understudy.paths import write_whole

_HELD = 0.2  # the share of a history that is kept for trying the filter on
_FEWEST = 10  # rows on either side
_ALL = slice(None)
_ROW = re.compile(r"column ('[^']*'), row (\d+) \(counted from 0\)")


@dataclass(frozen=True, slots=True, repr=False)
class Roles:
    """What each column is for: readings and public inputs are numbers, the others are taken as they stand.

    And how the file is written, where its name does not tell.
    """

    readings: Sequence[str]
    private: str
    time: str | None = None
    segment: str | None = None
    public: Sequence[str] = ()
    format: str | None = None
    delimiter: str = ","

    @property
    def names(self) -> list[str]:
        """All columns that are needed, each once; the clock is none."""
        found = [self.time, self.segment, *self.readings, *self.public, self.private]
        return list(dict.fromkeys(name for name in found if name is not None and not self.is_clock(name)))

    def is_clock(self, name: str) -> bool:
        """Whether a public input is the time of day itself, which no column holds."""
        return name in self.public and name.startswith("clock")


@dataclass(frozen=True, slots=True, repr=False)
class Columns:
    """The columns of a file, as texts and, where they are readings, as numbers."""

    name: str
    texts: dict[str, list[str]]
    numbers: dict[str, Any]
    lines: Any

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def frame(self, rows: slice | Any = _ALL) -> dict[str, Any]:
        """What `us.fit` takes."""
        found: dict[str, Any] = {}
        for name, texts in self.texts.items():
            found[name] = self.numbers[name][rows] if name in self.numbers else _some(texts, rows)
        return found


def read(source: str, roles: Roles) -> Columns:
    """All rows of a file, of the columns that are needed."""
    from understudy.files.binding import check_names
    from understudy.files.rows import joined
    from understudy.files.tables import Source, format_of

    with (
        Source(source, format_of(source, roles.format), roles.delimiter) as file,
        progress(f"reading {file.name}") as told,
    ):
        check_names(roles.names, file.reader.names, file.name)
        parts, count = [], 0
        for rows in file.reader.rows(roles.names):
            if rows.faults:
                k = min(rows.faults)
                raise ReadingError(f"{file.name}, line {rows.lines[k]}: {rows.faults[k]}")
            parts.append(rows)
            count += len(rows)
            told(file.share(count) or 0.0)
    if not count:
        raise ReadingError(f"{file.name} has no rows below its header")
    whole = joined(parts)
    numbers = {}
    for name in (*roles.readings, *roles.public):
        if name not in whole.columns:
            continue
        numbers[name], faults = whole.columns[name].numbers()
        if faults:
            k = min(faults)
            raise ReadingError(f"{file.name}, line {whole.lines[k]}, column {name!r}: a reading {faults[k]}")
    return Columns(file.name, {name: whole.columns[name].texts() for name in roles.names}, numbers, whole.lines)


@contextmanager
def located(columns: Columns, rows: Any = _ALL) -> Iterator[None]:
    """Errors that name a row of the frame as errors that name file and line."""
    try:
        yield
    except UnderstudyError as error:
        lines = columns.lines[rows]
        words = _ROW.sub(lambda row: f"{columns.name}, line {lines[int(row[2])]}, column {row[1]}", str(error), count=1)
        raise type(error)(words) from None


def parted(columns: Columns, roles: Roles) -> tuple[Any, Any]:
    """Which rows to fit to and which to try the filter on: the last fifth, or the last segments."""
    total = len(columns)
    if roles.segment is not None:
        order = list(dict.fromkeys(columns.texts[roles.segment]))
        held = set(order[len(order) - max(1, round(_HELD * len(order))) :])
        if len(held) < len(order):
            last = np.array([name in held for name in columns.texts[roles.segment]])
            return np.flatnonzero(~last), np.flatnonzero(last)
    cut = total - max(1, round(_HELD * total))
    if cut < _FEWEST or total - cut < _FEWEST:
        raise ConfigurationError(
            f"{columns.name} has {total} rows; a fifth of them is held out, which is too few: name another file by --on"
        )
    return np.arange(cut), np.arange(cut, total)


def write_rows(columns: Columns, rows: Any, path: Path) -> None:
    """Some rows as a CSV file that its owner alone can read, for they hold the private column."""
    lines = StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(columns.texts)
    writer.writerows(zip(*(_some(texts, rows) for texts in columns.texts.values()), strict=True))
    write_whole(path, lines.getvalue(), private=True)


def _some(texts: list[str], rows: Any) -> list[str]:
    return texts[rows] if isinstance(rows, slice) else [texts[k] for k in rows]
