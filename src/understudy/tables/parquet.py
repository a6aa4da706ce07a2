"""Parquet files, by pyarrow, some rows at a time.

Kept columns keep their types (a time has its unit and zone) and their compression. Readings leave as doubles, or as
whole numbers of 64 bits where the design has no decimals, and are always packed in the same way: the width and the
packing of the raw ones tell of them. The mark that readings are disguised is in the metadata of the file and of each
column of readings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array, Plain
from understudy.errors import ReadingError
from understudy.tables import columns as arrow
from understudy.tables.columns import WIDE, ArrowColumn, Column, Layout, NumberFormat, Rows

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"understudy"
_GROUP = 4 * WIDE  # rows of a row group, the usual million


class ParquetReader:
    """Names, types and rows of a Parquet file; lines are numbers of rows, from 1."""

    def __init__(self, file: IO[bytes] | pa.BufferReader, name: str) -> None:
        pa = arrow.require_pyarrow("Parquet")
        self.name, self._source = name, file
        try:
            self._file = self._open(())
        except pa.ArrowInvalid:
            raise ReadingError(f"{name} is not a Parquet file") from None
        self.schema = self._file.schema_arrow
        self.names = tuple(self.schema.names)
        self.total: int | None = self._file.metadata.num_rows
        self.batch: int | None = WIDE

    def _open(self, coded: Sequence[str]) -> pa.parquet.ParquetFile:
        # pages as they are needed: a row group may be the whole file
        return arrow.part("parquet").ParquetFile(
            self._source, read_dictionary=list(coded), buffer_size=1 << 20, pre_buffer=False
        )

    def rows(self, wanted: Sequence[str], labels: str | None = None) -> Iterator[Rows]:
        """All rows, of some columns; one of labels is read as codes."""
        pa, first = arrow.require_pyarrow("Parquet"), 1
        texts = labels is not None and arrow.part("types").is_string(self.type_of(labels))
        file = self._open([labels] if texts and labels is not None else [])
        try:
            for batch in file.iter_batches(WIDE, columns=list(wanted), use_threads=False):
                columns: dict[str, Column] = {name: ArrowColumn(batch.column(name)) for name in wanted}
                yield Rows(columns, np.arange(first, first + batch.num_rows))
                first += batch.num_rows
        except (pa.ArrowInvalid, OSError):
            raise ReadingError(f"{self.name} is damaged after row {first - 1}") from None

    def type_of(self, name: str) -> pa.DataType:
        """The type of a column; texts for one that is kept as codes."""
        types, kind = arrow.part("types"), self.schema.field(name).type
        return kind.value_type if types.is_dictionary(kind) else kind

    @property
    def chunks(self) -> dict[str, pa.parquet.ColumnChunkMetaData]:
        """What the first row group says of each column."""
        metadata = self._file.metadata
        group = metadata.row_group(0) if metadata.num_row_groups else None
        found = [] if group is None else [group.column(i) for i in range(group.num_columns)]
        return {chunk.path_in_schema: chunk for chunk in found}


def _has_codes(chunk: pa.parquet.ColumnChunkMetaData) -> bool:
    """Whether a column is kept as codes of a dictionary throughout: one of many different numbers outgrows it."""
    outgrown = "PLAIN" in chunk.encodings and chunk.total_uncompressed_size > 4 * chunk.num_values
    return chunk.has_dictionary_page and not outgrown


class ParquetWriter:
    """Row groups of a million rows with time, readings and what is kept."""

    def __init__(
        self,
        file: IO[bytes],
        layout: Layout,
        types: Mapping[str, pa.DataType],
        mark: Plain,
        source: ParquetReader | None = None,
    ) -> None:
        pa = arrow.require_pyarrow("Parquet")
        told = {MARK: json.dumps(mark).encode("utf-8")}
        names = layout.names
        fields = [pa.field(n, types[n], metadata=told if n in layout.readings else None) for n in names]
        self.schema = pa.schema(fields, metadata=told)
        self._layout, self._types = layout, types
        # how readings are packed is ours: the packing of the raw ones tells of them
        packing, coded = dict.fromkeys(names, "snappy"), list(layout.other_columns)
        if source is not None:
            chunks = source.chunks
            used = {name: chunk.compression.lower() for name, chunk in chunks.items()}
            packing |= {name: used[name] for name in coded if used.get(name) in _CODECS}
            packing |= {name: "none" for name in coded if used.get(name) == "uncompressed"}
            coded = [name for name in coded if name in chunks and _has_codes(chunks[name])]
        self._writer = arrow.part("parquet").ParquetWriter(
            file, self.schema, compression=packing, use_dictionary=coded or False
        )
        self._waiting: list[Any] = []
        self._count = 0

    def write(self, columns: Mapping[str, Column], Y: Array) -> None:
        """Some rows; a reading that is missing is null."""
        pa = arrow.require_pyarrow("Parquet")
        arrays, layout = [], self._layout
        for name in layout.names:
            channel, kind = layout.channel(name), self._types[name]
            if channel is None:
                arrays.append(_as_array(columns[name], kind))
            else:
                arrays.append(_readings(Y[:, channel], kind, layout.forms[channel]))
        self._waiting.append(pa.record_batch(arrays, schema=self.schema))
        self._count += len(Y)
        if self._count >= _GROUP:
            self._flush()

    def close(self) -> None:
        """What waits, and the end of the file."""
        if self._waiting:
            self._flush()
        self._writer.close()

    def __del__(self) -> None:
        # a run that failed has closed the file: pyarrow would write its end to it
        writer = getattr(self, "_writer", None)
        if writer is not None:
            writer.is_open = False

    def _flush(self) -> None:
        pa = arrow.require_pyarrow("Parquet")
        self._writer.write_table(pa.Table.from_batches(self._waiting, self.schema), row_group_size=self._count)
        self._waiting, self._count = [], 0


_LARGEST = 2.0**62
_CODECS = ("snappy", "gzip", "brotli", "zstd", "lz4", "lz4_raw")


def _as_array(column: Column, kind: pa.DataType) -> pa.Array:
    pa, types = arrow.require_pyarrow("Parquet"), arrow.part("types")
    if isinstance(column, ArrowColumn):
        array = column.array.dictionary_decode() if types.is_dictionary(column.array.type) else column.array
        return array if array.type == kind else array.cast(kind)
    return pa.array(column.texts() if types.is_string(kind) else column.values(), type=kind)


def _readings(y: Array, kind: pa.DataType, form: NumberFormat) -> pa.Array:
    """Outputs of one channel: doubles, or whole numbers where the design knows no decimals; null if missing."""
    pa, types = arrow.require_pyarrow("Parquet"), arrow.part("types")
    missing = np.isnan(y)
    mask = missing if missing.any() else None
    y = form.round(y)
    if not types.is_integer(kind):
        return pa.array(y, mask=mask)
    whole = np.clip(np.where(missing, 0.0, y), -_LARGEST, _LARGEST)
    return pa.array(whole.astype(np.int64), mask=mask)
