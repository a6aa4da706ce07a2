"""Columns of a batch of rows, as numbers, times and labels, and as what a writer needs.

A `Texts` is a column of a CSV file, a `Values` one of JSON lines. Columns of pyarrow are in
`understudy.tables.columns`; they give the same answers, quicker.

Numbers from texts, and texts from numbers.

An output is written with a fixed number of decimals, which is that of its design (`tables.output_format`). Its
text is a function of the output alone: the sign, the digits before the point, and always as many after it. The texts of
the readings that came in have no part in it. A sensor of six significant digits writes 85.1234 and 115.123; outputs
with the decimals of such readings would tell the level behind them.

To round an output to some decimals costs no privacy: it happens after the filter. It is the rounding of *readings* that
leaks, where the model does not know of it.

pyarrow, where it is installed: Parquet needs it, CSV is quicker with it.

Columns of pyarrow: texts of a CSV file, and the typed columns of Parquet.

Rows of a file, some at a time: what every reader gives.
"""

from __future__ import annotations

import datetime as dt
import importlib
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Index, Ints
from understudy.errors import MissingExtraError
from understudy.tables import times

# Numbers from texts, and texts from numbers ----------------------------------------------------------


MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
"""Texts, in small letters, that stand for a reading that is not there."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_BLANKS = " \t"


class NumberFormat(NamedTuple):
    """So many decimals, zeros at the end included.

    >>> NumberFormat(1).texts([431.04, -0.01])
    ['431.0', '0.0']
    >>> NumberFormat(2).rounded(np.array([431.256, np.nan])).tolist()
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

    def rounded(self, values: Array) -> Array:
        """The numbers that the texts stand for; what is missing stays so."""
        with np.errstate(over="ignore"):
            found = np.round(values, self.decimals) + 0.0
        return np.where(np.isfinite(found), found, values)


def parsed(texts: Sequence[str | None]) -> tuple[Array, dict[int, str]]:
    """Numbers from texts, NaN where there is none, and what is wrong with those that are not numbers.

    >>> parsed(["431.5", " 7", "", "NaN", "1_000"])[0].tolist()
    [431.5, 7.0, nan, nan, nan]
    >>> parsed(["431.5", "many", "1e999"])[1]
    {1: 'is not a number', 2: 'is infinite'}
    """
    out = np.full(len(texts), np.nan)
    faults: dict[int, str] = {}
    for i, text in enumerate(texts):
        if text is None:
            continue
        bare = text.strip(_BLANKS)
        if _NUMBER.fullmatch(bare):
            out[i] = float(bare)
        elif bare.lower() not in MISSING:
            infinite = bare.lstrip("+-").lower() in ("inf", "infinity")
            faults[i] = INFINITE if infinite else "is not a number"
    return no_infinities(out, faults)


INFINITE = "is infinite"


def no_infinities(values: Array, faults: dict[int, str]) -> tuple[Array, dict[int, str]]:
    """Infinite readings are faults; they become missing."""
    infinite = np.isinf(values)
    if infinite.any():
        values = np.where(infinite, np.nan, values)
        faults = {**faults, **dict.fromkeys(np.flatnonzero(infinite).tolist(), INFINITE)}
    return values, faults


# Columns of a batch of rows, as numbers, times and labels, and as what a writer needs ----------------


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

    def times(self) -> tuple[Ints, Faults]:
        """Nanoseconds since 1970, and what is wrong with the others."""
        ...

    def positions(self, labels: Labels) -> Index:
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
        return parsed(self.given)

    def times(self) -> tuple[Ints, Faults]:
        """Times from their texts."""
        return times.from_texts(self.given)

    def positions(self, labels: Labels) -> Index:
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
        return no_infinities(out, faults)

    def times(self) -> tuple[Ints, Faults]:
        """Times from texts or numbers."""
        if set(map(type, self.given)) <= {int, float}:
            found = times.from_numbers(np.array(self.given)) if self.given else np.zeros(0, dtype=np.int64)
            if found is not None:
                return found, {}
        return times.from_texts([_time_text(value) for value in self.given])

    def positions(self, labels: Labels) -> Index:
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


# pyarrow, where it is installed: Parquet needs it, CSV is quicker with it ----------------------------


def found() -> Any:
    """The module pyarrow, or None."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        return None


def needed(what: str) -> Any:
    """The module pyarrow; says how to install it where it is missing."""
    module = found()
    if module is None:
        raise MissingExtraError(f'{what} needs pyarrow (the extra `arrow`): pip install "understudy[arrow]"')
    return module


def part(name: str) -> Any:
    """A part of pyarrow that is there, such as "compute"."""
    return importlib.import_module(f"pyarrow.{name}")


# Columns of pyarrow: texts of a CSV file, and the typed columns of Parquet ---------------------------


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class ArrowColumn:
    """A column of pyarrow, of any type; its answers are those of `Texts` and `Values`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        # few functions of pyarrow know views of texts
        self.array = array.cast("string") if str(array.type) == "string_view" else array

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"ArrowColumn({self.array.type}, {len(self)})"

    def cut(self, start: int, stop: int) -> ArrowColumn:
        """Some of the rows, without a copy."""
        return ArrowColumn(self.array.slice(start, stop - start))

    @property
    def is_text(self) -> bool:
        """Whether it holds texts."""
        types = part("types")
        kind = self.array.type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def numbers(self) -> tuple[Array, Faults]:
        """Readings; a whole column at once where all texts are numbers."""
        types, kind = part("types"), self.array.type
        if self.is_text:
            return self._from_texts()
        if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
            return no_infinities(_doubles(self.array), {})
        if types.is_null(kind):
            return np.full(len(self), np.nan), {}
        rule = f"is of type {kind}, not a number"
        absent = self._absent()
        return np.full(len(self), np.nan), {i: rule for i in range(len(self)) if absent is None or not absent[i]}

    def _from_texts(self) -> tuple[Array, Faults]:
        pa = needed("this column")
        try:
            found = _doubles(self.array.cast(pa.float64()))
        except pa.ArrowInvalid:  # a text that is no number to pyarrow: look at each
            return parsed(self.array.to_pylist())
        if np.isinf(found).any():  # "inf" is a number to pyarrow
            return parsed(self.array.to_pylist())
        return found, {}

    def times(self) -> tuple[Ints, Faults]:
        """Times of any type that has them."""
        types, kind = part("types"), self.array.type
        if self.is_text:
            letters = _letters(self.array)
            quick = None if letters is None else times.from_bytes(letters)
            return (quick, {}) if quick is not None else times.from_texts(self.array.to_pylist())
        if types.is_null(kind):
            return np.zeros(len(self), dtype=np.int64), dict.fromkeys(range(len(self)), times.NO_TIME)
        absent = self._absent()
        faults = {} if absent is None else dict.fromkeys(np.flatnonzero(absent).tolist(), times.NO_TIME)
        array = self.array.fill_null(0) if faults and not types.is_temporal(kind) else self.array
        found: Ints | None = None
        if types.is_timestamp(kind):
            found = _whole(array) * _NANOSECONDS[kind.unit]
            if found.size and kind.unit != "ns" and np.abs(found // _NANOSECONDS[kind.unit] - _whole(array)).any():
                found = None  # beyond 64 bits
        elif types.is_date(kind):
            found = _whole(array.cast("timestamp[s]")) * 10**9
        elif types.is_integer(kind) or types.is_floating(kind):
            found = times.from_numbers(array.to_numpy(zero_copy_only=False))
        if found is None:
            return np.zeros(len(self), dtype=np.int64), dict.fromkeys(range(len(self)), times.NOT_A_TIME)
        return found, faults

    def positions(self, labels: Labels) -> Index:
        """Labels, each different one looked up once."""
        types = part("types")
        if types.is_nested(self.array.type):  # a list or a mapping is no label
            return np.full(len(self), labels[None], dtype=np.intp)
        array = self.array if types.is_dictionary(self.array.type) else self.array.dictionary_encode()
        known = [labels[_label(value)] for value in _listed(array.dictionary)]
        places = np.array([*known, labels[None]], dtype=np.intp)
        codes = array.indices
        if codes.null_count:
            codes = codes.fill_null(len(known)) if len(known) < 2**7 - 1 else codes.cast("int64").fill_null(len(known))
        return np.asarray(places[codes.to_numpy(zero_copy_only=False)])

    def texts(self) -> list[str]:
        """As text; what is not there is empty."""
        if self.is_text:
            return ["" if text is None else text for text in self.array.to_pylist()]
        types = part("types")
        if types.is_timestamp(self.array.type):
            return Texts(["" if t is None else t for t in _iso(self.array)]).texts()
        return ["" if value is None else as_text(value) for value in _listed(self.array)]

    def values(self) -> list[Any]:
        """As JSON can hold them."""
        types = part("types")
        if types.is_timestamp(self.array.type):
            return _iso(self.array)
        return [as_json(value) for value in _listed(self.array)]

    def _absent(self) -> NDArray[np.bool_] | None:
        """Where there is null."""
        if not self.array.null_count:
            return None
        return np.asarray(self.array.is_null().to_numpy(zero_copy_only=False), dtype=bool)

    def at(self, moved: dict[int, int]) -> ArrowColumn:
        """Times of the same type; texts and numbers of the same form."""
        pa, types, kind = needed("this column"), part("types"), self.array.type
        if self.is_text:
            return ArrowColumn(pa.array(Texts(self.texts()).at(moved).given, kind))
        if types.is_timestamp(kind):
            whole = _whole(self.array).copy()
            whole[list(moved)] = [time // _NANOSECONDS[kind.unit] for time in moved.values()]
            return ArrowColumn(pa.array(whole, mask=self._absent()).cast(kind))
        if types.is_integer(kind) or types.is_floating(kind):
            return ArrowColumn(pa.array(Values(self.array.to_pylist()).at(moved).given).cast(kind, safe=False))
        return self

    def without(self, rows: list[int]) -> ArrowColumn:
        """Null."""
        gone = np.zeros(len(self), dtype=bool)
        gone[rows] = True
        pa, compute = needed("this column"), part("compute")
        return ArrowColumn(compute.if_else(pa.array(gone), pa.scalar(None, self.array.type), self.array))


def _listed(array: Any) -> list[Any]:
    """Values of Python; whole numbers for times that Python has none for."""
    try:
        return array.to_pylist()  # type: ignore[no-any-return]  # a list
    except (OverflowError, ValueError):
        width = "int32" if array.type.bit_width == 32 else "int64"
        return array.view(width).to_pylist()  # type: ignore[no-any-return]  # a list


def _doubles(array: Any) -> Array:
    pa = needed("this column")
    if array.type != pa.float64():
        types = part("types")
        if types.is_decimal(array.type):
            # the double nearest to it, as of a text: pyarrow multiplies by a power of ten, which is often one ulp off
            array = array.cast(pa.string())
        # a whole number of more than 53 bits is rounded
        array = array.cast(pa.float64(), safe=False) if not types.is_float16(array.type) else array
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=float)


def _whole(array: Any) -> Ints:
    if array.null_count:
        array = array.cast("int64").fill_null(0)
    return np.asarray(array.view("int64").to_numpy(zero_copy_only=False))


def _letters(array: Any) -> NDArray[np.uint8] | None:
    """Texts of one length, a row of letters each, without a copy; None if their lengths differ."""
    if array.null_count or not len(array):
        return None
    kind = np.int64 if str(array.type) == "large_string" else np.int32
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=kind)[array.offset : array.offset + len(array) + 1]
    length = int(ends[1] - ends[0])
    if not length or (np.diff(ends) != length).any():
        return None
    return np.frombuffer(data, dtype=np.uint8)[int(ends[0]) : int(ends[-1])].reshape(len(array), length)


def _iso(array: Any) -> list[Any]:
    """Times as ISO texts, with a Z where they have a zone."""
    compute = part("compute")
    zone = array.type.tz
    bare = array if zone is None else array.cast(f"timestamp[{array.type.unit}]", safe=False)
    texts = compute.replace_substring(bare.cast("string"), " ", "T")
    texts = compute.replace_substring_regex(texts, r"\.0+$", "").to_pylist()
    return texts if zone is None else [None if text is None else text + "Z" for text in texts]


def _label(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, (str, int, float)) else None if value is None else str(value)


# Rows of a file, some at a time: what every reader gives ---------------------------------------------


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

    return ArrowColumn(needed("this column").concat_arrays([part.array for part in parts]))
