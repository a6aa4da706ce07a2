"""Rows of a cluster: which columns may be given, how they are pinned, and how a task reads them.

A task sees the rows of one bucket, room by room, in the order of their times, in pieces of any length. What a piece
ends with may be half a slot, so it is held back until the rest of the slot is there: no rule depends on where the
pieces were cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy._types import Array, Ints, Mask, Value
from understudy.errors import ConfigurationError
from understudy.stream.cadence import Cadence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

TIMED, COUNTED = "timestamp", "bigint"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_PRIVATE = (*_NUMBERS, "boolean", "string")
_KEPT = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_LIMIT = 9_200_000_000_000_000  # microseconds around 1970 that nanoseconds can count

OK, ROOM, TIME, NAME, CONFLICT, KNOWN, REFUSED = range(7)
ROW_RULES = ("", "room_missing", "time_missing", "room_name", "conflict", "late", "refused_room")
"""What is decided before a fleet sees a row, beside the `Rule` of a fleet."""


@dataclass(frozen=True)
class Columns:
    """The columns of an input by their parts; what is not named does not leave."""

    room: str
    time: str
    reading: tuple[str, ...]
    private: str
    group: str
    keep: tuple[str, ...]

    def check(self, schema: StructType) -> str:
        """Refuse columns of a wrong type, by name and rule; whether keys are times or numbers."""
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        for name in (self.room, self.time, *self.reading, self.private, self.group, *self.keep):
            if name not in types:
                raise ConfigurationError(f"the input has no column {name!r}; it has {', '.join(map(repr, types))}")
        if len(types) < len(schema.fields):
            raise ConfigurationError("the input has two columns of one name; give each its own")
        if len({self.room, self.time, self.private, *self.reading}) < 3 + len(self.reading):
            raise ConfigurationError("room, time, reading and private must be different columns")
        if self.private in self.keep or any(name in self.keep for name in self.reading):
            raise ConfigurationError("keep= names the private column or a reading; neither may leave as it is")
        for name in (self.room, self.group):
            if types[name] != "string":
                raise ConfigurationError(
                    f"column {name!r} is of type {types[name]}; rooms and groups are strings: cast it"
                )
        for name in self.reading:
            if types[name] not in _NUMBERS:
                why = (
                    "its scale is not that of a double" if types[name].startswith("decimal") else "it holds no numbers"
                )
                raise ConfigurationError(f"column {name!r} is of type {types[name]}; {why}: cast it to double")
        if types[self.private] not in _PRIVATE:
            raise ConfigurationError(
                f"column {self.private!r} is of type {types[self.private]}; values are numbers, truths or strings"
            )
        if types[self.time] == "timestamp_ntz":
            raise ConfigurationError(
                f"column {self.time!r} has times without a zone; cast it to timestamp in a known zone"
            )
        if types[self.time] not in (TIMED, *_WHOLE):
            raise ConfigurationError(
                f"column {self.time!r} is of type {types[self.time]}; keys are timestamps or integers"
            )
        for name in self.keep:
            if types[name] not in _KEPT:
                raise ConfigurationError(f"column {name!r} is of type {types[name]}, which keep= does not carry")
        return TIMED if types[self.time] == TIMED else COUNTED

    def outputs(self, schema: StructType) -> list[tuple[str, str]]:
        """Names and types of what leaves, in the order of the input: readings as doubles."""
        kept = {self.room, self.time, *self.keep}
        found = []
        for field in schema.fields:
            if field.name in self.reading:
                found.append((field.name, "double"))
            elif field.name in kept:
                found.append((field.name, field.dataType.simpleString()))
        return found

    def pinned(self, df: DataFrame, buckets: int) -> list[Column]:
        """The columns that are pinned, under names of ours."""
        from pyspark.sql import functions as sql

        at, timed = df[_quoted(self.time)], self.check(df.schema) == TIMED
        number = sql.unix_micros(at) if timed else at.cast("bigint")
        group = df[_quoted(self.group)]
        chosen = [
            sql.pmod(sql.xxhash64(group), sql.lit(buckets)).cast("int").alias("bucket"),
            group.alias("group"),
            df[_quoted(self.room)].alias("room"),
            number.alias("time"),
            *(df[_quoted(name)].cast("double").alias(f"reading_{i}") for i, name in enumerate(self.reading)),
            df[_quoted(self.private)].alias("private"),
            *(df[_quoted(name)].alias(f"keep_{i}") for i, name in enumerate(self.keep)),
        ]
        return chosen

    def order(self) -> list[str]:
        """In which order a bucket is sorted, so that equal rows come in one order."""
        return ["bucket", "room", "time", *(f"reading_{i}" for i in range(len(self.reading))), "private"]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(outputs: Sequence[tuple[str, str]]) -> pa.Schema:
    """The Arrow form of what leaves."""
    return pa.schema([(name, _KEPT[kind]) for name, kind in outputs])


def spark_type(kind: str) -> DataType:
    """A type of Spark by its simple name."""
    from pyspark.sql import types

    named = {
        "tinyint": types.ByteType, "smallint": types.ShortType, "int": types.IntegerType, "bigint": types.LongType,
        "float": types.FloatType, "double": types.DoubleType, "boolean": types.BooleanType, "string": types.StringType,
        "binary": types.BinaryType, "date": types.DateType, "timestamp": types.TimestampType,
        "timestamp_ntz": types.TimestampNTZType,
    }  # fmt: skip
    return named[kind]()


@dataclass
class Piece:
    """Some rows of a bucket, as columns: whole slots, room by room, in order."""

    table: pa.Table
    names: list[str]
    """The rooms of the piece, in their order."""
    local: Ints
    """(R,) which of them each row is of; -1 where there is none."""
    time: Ints
    """(R,) nanoseconds since 1970, or numbers."""
    Y: Array
    source: Ints
    """(R,) private values by position, -1 where none is given, -2 where it is none of the design's."""
    rules: Ints
    """(R,) by `ROW_RULES`."""

    def runs(self) -> Iterator[tuple[str, int, int]]:
        """Each room, with its first row and the one after its last."""
        edges = np.flatnonzero(np.diff(self.local)) + 1
        for first, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(self.local)], strict=True):
            if stop > first and self.local[first] >= 0:
                yield self.names[int(self.local[first])], first, stop

    def group(self, row: int) -> str | None:
        """The budget group of a row."""
        found: str | None = self.table.column("group")[row].as_py()
        return found

    def content(self) -> bytes:
        """The rows as bytes of `WIDTH` each, for their digest."""
        found = np.column_stack([self.time, self.Y.view(np.int64), self.source])
        return np.ascontiguousarray(found).tobytes()

    @property
    def width(self) -> int:
        """Bytes of a row."""
        channels: int = self.Y.shape[1]
        return 8 * (2 + channels)


@dataclass(frozen=True)
class Reader:
    """How the rows of a bucket are read."""

    values: Mapping[Value, int]
    """Positions of the private values."""
    dim: int
    timed: bool
    cadence: Cadence | None
    batch: int
    """Rows of a piece."""

    def pieces(self, path: str) -> Iterator[Piece]:
        """The rows of a file of one bucket."""
        held: pa.Table | None = None
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(batch_size=self.batch):
                table = pa.Table.from_batches([batch])
                whole = self.piece(table if held is None else pa.concat_tables([held, table]).combine_chunks())
                same = self._same_slot(whole)
                starts = np.flatnonzero(~same)
                cut = int(starts[-1]) if len(starts) else 0
                held = whole.table.slice(cut)
                if cut:
                    yield self._judge(_slice(whole, cut), same[:cut])
        if held is not None and held.num_rows:
            yield self.whole(held.combine_chunks())

    def whole(self, table: pa.Table) -> Piece:
        """A table of whole slots, in order."""
        piece = self.piece(table)
        return self._judge(piece, self._same_slot(piece))

    def piece(self, table: pa.Table) -> Piece:
        """Columns of a table as numbers."""
        coded = pc.dictionary_encode(table.column("room").combine_chunks())
        names = coded.dictionary.to_pylist()
        local = np.array(pc.fill_null(coded.indices, -1), dtype=np.int64)
        there = np.array(pc.is_valid(table.column("time")))
        number = np.array(pc.fill_null(table.column("time"), 0), dtype=np.int64)
        rules = np.zeros(len(local), dtype=np.int64)
        if self.timed:
            there &= np.abs(number) < _LIMIT
            number = np.where(there, number, 0) * 1000
        rules[~there] = TIME
        unfit = [i for i, name in enumerate(names) if not name or not name.isprintable()]
        if unfit:
            rules[np.isin(local, unfit)] = NAME
        rules[local < 0] = ROOM
        columns = [_floats(table.column(f"reading_{i}")) for i in range(self.dim)]
        Y = np.column_stack(columns) + 0.0  # no negative zero, which would be another row with equal values
        return Piece(table, names, local, number, Y, self._positions(table.column("private")), rules)

    def _positions(self, column: pa.ChunkedArray) -> Ints:
        coded = pc.dictionary_encode(column.combine_chunks())
        found = np.array([self._position(value) for value in coded.dictionary.to_pylist()] + [-1], dtype=np.int64)
        return np.asarray(found[pc.fill_null(coded.indices, len(found) - 1).to_numpy()])

    def _position(self, value: Any) -> int:
        if value is None or value != value:
            return -1
        found: int = self.values.get(value, -2)
        return found

    def _same_slot(self, piece: Piece) -> Mask:
        """Whether each row is in the slot of the row before."""
        same = np.zeros(len(piece.local), dtype=bool)
        slot = piece.time
        if self.timed and self.cadence is not None:
            slot = self.cadence.slots_of(piece.time)
        same[1:] = (
            (piece.local[1:] == piece.local[:-1]) & (slot[1:] == slot[:-1]) & (piece.rules[1:] == piece.rules[:-1])
        )
        return same

    @staticmethod
    def _judge(piece: Piece, same: Mask) -> Piece:
        """Slots whose private values differ, or whose readings of one time do, are in conflict: no row is used."""
        if not same[1:].any():
            return piece
        source, Y, time = piece.source, piece.Y, piece.time
        other = (source[1:] != source[:-1]) | (
            (time[1:] == time[:-1]) & ~((Y[1:] == Y[:-1]) | (np.isnan(Y[1:]) & np.isnan(Y[:-1]))).all(axis=1)
        )
        bad = np.flatnonzero(same[1:] & other) + 1
        if len(bad):
            slot = np.cumsum(~same)
            piece.rules[np.isin(slot, slot[bad]) & (piece.rules == OK)] = CONFLICT
        return piece


def _slice(piece: Piece, stop: int) -> Piece:
    return Piece(
        piece.table.slice(0, stop), piece.names, piece.local[:stop], piece.time[:stop], piece.Y[:stop],
        piece.source[:stop], piece.rules[:stop],
    )  # fmt: skip


def _floats(column: pa.ChunkedArray) -> Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(pc.fill_null(array, float("nan")).to_numpy(zero_copy_only=False), dtype=float)
