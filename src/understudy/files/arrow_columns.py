"""Columns of pyarrow: texts of a CSV file, and the typed columns of Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.files import arrow, numbers, times
from understudy.files.columns import Faults, Labels, Positions, Texts, Values, as_json, as_text
from understudy.laws.base import Array

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
        types = arrow.part("types")
        kind = self.array.type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def numbers(self) -> tuple[Array, Faults]:
        """Readings; a whole column at once where all texts are numbers."""
        types, kind = arrow.part("types"), self.array.type
        if self.is_text:
            return self._from_texts()
        if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
            return numbers.no_infinities(_doubles(self.array), {})
        if types.is_null(kind):
            return np.full(len(self), np.nan), {}
        rule = f"is of type {kind}, not a number"
        absent = self._absent()
        return np.full(len(self), np.nan), {i: rule for i in range(len(self)) if absent is None or not absent[i]}

    def _from_texts(self) -> tuple[Array, Faults]:
        pa = arrow.needed("this column")
        try:
            found = _doubles(self.array.cast(pa.float64()))
        except pa.ArrowInvalid:  # a text that is no number to pyarrow: look at each
            return numbers.parsed(self.array.to_pylist())
        if np.isinf(found).any():  # "inf" is a number to pyarrow
            return numbers.parsed(self.array.to_pylist())
        return found, {}

    def times(self) -> tuple[times.Whole, Faults]:
        """Times of any type that has them."""
        types, kind = arrow.part("types"), self.array.type
        if self.is_text:
            letters = _letters(self.array)
            quick = None if letters is None else times.from_bytes(letters)
            return (quick, {}) if quick is not None else times.from_texts(self.array.to_pylist())
        if types.is_null(kind):
            return np.zeros(len(self), dtype=np.int64), dict.fromkeys(range(len(self)), times.NO_TIME)
        absent = self._absent()
        faults = {} if absent is None else dict.fromkeys(np.flatnonzero(absent).tolist(), times.NO_TIME)
        array = self.array.fill_null(0) if faults and not types.is_temporal(kind) else self.array
        found: times.Whole | None = None
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

    def positions(self, labels: Labels) -> Positions:
        """Labels, each different one looked up once."""
        types = arrow.part("types")
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
        types = arrow.part("types")
        if types.is_timestamp(self.array.type):
            return Texts(["" if t is None else t for t in _iso(self.array)]).texts()
        return ["" if value is None else as_text(value) for value in _listed(self.array)]

    def values(self) -> list[Any]:
        """As JSON can hold them."""
        types = arrow.part("types")
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
        pa, types, kind = arrow.needed("this column"), arrow.part("types"), self.array.type
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
        pa, compute = arrow.needed("this column"), arrow.part("compute")
        return ArrowColumn(compute.if_else(pa.array(gone), pa.scalar(None, self.array.type), self.array))


def _listed(array: Any) -> list[Any]:
    """Values of Python; whole numbers for times that Python has none for."""
    try:
        return array.to_pylist()  # type: ignore[no-any-return]  # a list
    except (OverflowError, ValueError):
        width = "int32" if array.type.bit_width == 32 else "int64"
        return array.view(width).to_pylist()  # type: ignore[no-any-return]  # a list


def _doubles(array: Any) -> Array:
    pa = arrow.needed("this column")
    if array.type != pa.float64():
        types = arrow.part("types")
        if types.is_decimal(array.type):
            # the double nearest to it, as of a text: pyarrow multiplies by a power of ten, which is often one ulp off
            array = array.cast(pa.string())
        # a whole number of more than 53 bits is rounded
        array = array.cast(pa.float64(), safe=False) if not types.is_float16(array.type) else array
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=float)


def _whole(array: Any) -> times.Whole:
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
    compute = arrow.part("compute")
    zone = array.type.tz
    bare = array if zone is None else array.cast(f"timestamp[{array.type.unit}]", safe=False)
    texts = compute.replace_substring(bare.cast("string"), " ", "T")
    texts = compute.replace_substring_regex(texts, r"\.0+$", "").to_pylist()
    return texts if zone is None else [None if text is None else text + "Z" for text in texts]


def _label(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, (str, int, float)) else None if value is None else str(value)
