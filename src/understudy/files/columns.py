"""Columns of a batch of rows, as numbers, times and labels, and as what a writer needs.

A `Texts` is a column of a CSV file, a `Values` one of JSON lines. Columns of pyarrow are in
`understudy.files.arrow_columns`; they give the same answers, quicker.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.files import numbers, times
from understudy.laws.base import Array
from understudy._types import Index as Positions

Faults = dict[int, str]


class Labels(dict[Hashable, int]):
    """From what stands in the private column to the position of the value, -1 where it is none; found once each."""

    def __init__(self, position: Callable[[Any], int]) -> None:
        super().__init__()
        self._position = position

    def __missing__(self, label: Any) -> int:
        found = self._position(label)
        if len(self) < 100_000:  # a column of readings, named by mistake, must not fill the memory
            self[label] = found
        return found

    def __repr__(self) -> str:
        return "Labels()"


class Column(Protocol):
    """One column of some rows."""

    def __len__(self) -> int: ...

    def cut(self, start: int, stop: int) -> Column:
        """Some of the rows."""
        ...

    def numbers(self) -> tuple[Array, Faults]:
        """Readings, NaN where there is none, and what is wrong with the others."""
        ...

    def times(self) -> tuple[times.Whole, Faults]:
        """Nanoseconds since 1970, and what is wrong with the others."""
        ...

    def positions(self, labels: Labels) -> Positions:
        """Where each label stands among the values."""
        ...

    def texts(self) -> list[str]:
        """For a CSV file."""
        ...

    def values(self) -> list[Any]:
        """For JSON."""
        ...

    def without(self, rows: list[int]) -> Column:
        """The same with nothing in these rows."""
        ...

    def at(self, moved: dict[int, int]) -> Column:
        """The same with other times in some rows, in nanoseconds, written as those that stood there."""
        ...


class Texts:
    """A column of a CSV file.

    >>> column = Texts(["431.5", "", "many"])
    >>> column.numbers()
    (array([431.5,   nan,   nan]), {2: 'is not a number'})
    """

    __slots__ = ("given",)

    def __init__(self, given: list[str]) -> None:
        self.given = given

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        return f"Texts({len(self)})"

    def cut(self, start: int, stop: int) -> Texts:
        """Some of the rows."""
        return Texts(self.given[start:stop])

    def numbers(self) -> tuple[Array, Faults]:
        """Readings from their texts."""
        return numbers.parsed(self.given)

    def times(self) -> tuple[times.Whole, Faults]:
        """Times from their texts."""
        return times.from_texts(self.given)

    def positions(self, labels: Labels) -> Positions:
        """Labels, without blanks around them."""
        return np.fromiter(map(labels.__getitem__, self.given), dtype=np.intp, count=len(self.given))

    def texts(self) -> list[str]:
        """As they stand."""
        return self.given

    def values(self) -> list[Any]:
        """As they stand; nothing is null."""
        return [text or None for text in self.given]

    def without(self, rows: list[int]) -> Texts:
        """Empty fields."""
        return Texts(_emptied(self.given, rows, ""))

    def at(self, moved: dict[int, int]) -> Texts:
        """Texts of the same form."""
        copy = list(self.given)
        for i, time in moved.items():
            copy[i] = times.written_like(copy[i].strip(" \t"), time)
        return Texts(copy)


class Values:
    """A column of JSON lines: numbers, texts, true, false, null.

    >>> Values([431.5, None, "431"]).numbers()
    (array([431.5,   nan,   nan]), {2: 'is a str, not a number'})
    """

    __slots__ = ("given",)

    def __init__(self, given: list[Any]) -> None:
        self.given = given

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        return f"Values({len(self)})"

    def cut(self, start: int, stop: int) -> Values:
        """Some of the rows."""
        return Values(self.given[start:stop])

    def numbers(self) -> tuple[Array, Faults]:
        """Readings; a text is none."""
        faults: Faults = {}
        out = np.full(len(self.given), np.nan)
        for i, value in enumerate(self.given):
            if type(value) is float or (type(value) is int and abs(value) < 2**1000):
                out[i] = value
            elif value is not None:
                faults[i] = f"is a {type(value).__name__}, not a number"
        return numbers.no_infinities(out, faults)

    def times(self) -> tuple[times.Whole, Faults]:
        """Times from texts or numbers."""
        if set(map(type, self.given)) <= {int, float}:
            found = times.from_numbers(np.array(self.given)) if self.given else np.zeros(0, dtype=np.int64)
            if found is not None:
                return found, {}
        return times.from_texts([_time_text(value) for value in self.given])

    def positions(self, labels: Labels) -> Positions:
        """Labels of any type that has a hash."""
        return np.fromiter((labels[_hashed(value)] for value in self.given), dtype=np.intp, count=len(self.given))

    def texts(self) -> list[str]:
        """As JSON has them, texts without quotes."""
        return ["" if value is None else as_text(value) for value in self.given]

    def values(self) -> list[Any]:
        """As they are."""
        return self.given

    def without(self, rows: list[int]) -> Values:
        """Null."""
        return Values(_emptied(self.given, rows, None))

    def at(self, moved: dict[int, int]) -> Values:
        """Texts of the same form, or numbers of the same unit."""
        copy = list(self.given)
        for i, time in moved.items():
            text = times.written_like(copy[i] if type(copy[i]) is str else repr(copy[i]), time)
            copy[i] = text if type(copy[i]) is str else float(text) if "." in text else int(text)
        return Values(copy)


def _emptied(given: list[Any], rows: list[int], nothing: Any) -> list[Any]:
    copy = list(given)
    for i in rows:
        copy[i] = nothing
    return copy


def _time_text(value: Any) -> str | None:
    if type(value) is str:
        return value
    return repr(value) if type(value) in (int, float) else None


def as_text(value: Any) -> str:
    """A value in a field of a CSV file.

    >>> as_text(True), as_text(1.5), as_text("door")
    ('true', '1.5', 'door')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    return str(value)


def as_json(value: Any) -> Any:
    """A value that JSON can hold: times as text, NaN as null.

    >>> as_json(float("nan")), as_json(dt.date(2026, 3, 1))
    (None, '2026-03-01')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float, list, dict)) else as_text(value)


def _hashed(value: Any) -> Hashable:
    """1 and true are not the same label, although Python takes them for equal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, (str, int, float)) else None
