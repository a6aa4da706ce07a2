"""A live feed on a cluster: a fleet a bucket, in the state store of Structured Streaming.

The rows of a micro-batch are grouped by bucket, a hash of the room. The state of a bucket is one blob: its `Fleet` as
Arrow, with decisions and charges, and the outputs that are newer than the watermark, so that a row that comes again
gets the same output again. Spark commits the states of a micro-batch together, or runs it again from the states and
offsets of before, with the same bytes: a sink that is only at least once gets copies, never second outputs.

That holds for sources that give the same rows again. Against others, and against an older checkpoint, there is a
*guard* outside of the checkpoint: a small log for each bucket, which says of each of its micro-batches what its rows
were, as a digest under the master key. It is written, durably, before anything is disguised, if it is absent, and read
back. The same rows again are disguised again; other rows are refused. So a draw, which is a function of state, rows and
key, has one outcome.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy._types import Ints
from understudy.errors import ConfigurationError, LedgerError, SnapshotError
from understudy.randomizer.design import load_design
from understudy.spark.batch import Job, Options, check_key_source, feed, output_schema, probe_fleet, sources
from understudy.spark.marks import Marks
from understudy.spark.rows import OK, TIMED, Columns, Piece, Reader, arrow_schema
from understudy.stream.fleet import Decisions, Fleet
from understudy.stream.ledger_file import MICRO, seal, unseal
from understudy.stream.randomness import MasterKey

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_RECORD = struct.Struct("<q16s8s")
_STATE = "fleet"


def disguise_stream(
    df: DataFrame,
    design: Any,
    *,
    key: str,
    room: str,
    time: str,
    reading: str | Sequence[str],
    private: str,
    marks: str,
    options: Options | None = None,
) -> DataFrame:
    """Disguise a live feed of many rooms on a cluster.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A stream with a watermark on `time`: `df.withWatermark("time", "10 minutes")`. Rows beyond it are dropped, and
        Spark counts them (`numRowsDroppedByWatermark`).
    design, key, room, reading, private
        As in `disguise`.
    time : str
        A column of timestamps.
    marks : str
        A folder of this feed alone, outside of the checkpoint, which driver and executors share: the guard.
    options : Options, optional
        Epochs, cadence, budgets of rooms, buckets. Budgets of groups are for histories.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of room, time, disguised readings, and what `options.keep` names; a reading is null where there is no
        output.

    Raises
    ------
    ConfigurationError
        If a column, an option, the watermark or the key breaks a rule.
    LedgerError
        If the folder belongs to another feed.

    Examples
    --------
    >>> def feed(frame, design):                                    # docs/spark.md has a whole example
    ...     return disguise_stream(
    ...         frame.withWatermark("time", "10 minutes"), design, key="/etc/understudy/master.key", room="room",
    ...         time="time", reading="co2", private="people", marks="/srv/feed-guard", options=Options(period=60),
    ...     )

    """
    options = options or Options()
    check_key_source(key)
    if not df.isStreaming:
        raise ConfigurationError("the input is no stream; us.spark.disguise takes tables")
    if options.group is not None:
        raise ConfigurationError("group= is for histories; the budget of a live feed is that of each room")
    spark = df.sparkSession
    readings = (reading,) if isinstance(reading, str) else tuple(reading)
    columns = Columns(room, time, readings, private, room, tuple(options.keep))
    if columns.check(df.schema) != TIMED:
        raise ConfigurationError(f"column {time!r} holds numbers; a live feed has timestamps, and a watermark on them")
    for name in columns.keep:
        if df.schema[name].dataType.simpleString().startswith("timestamp"):
            raise ConfigurationError(f"column {name!r} has times; a live feed keeps the time of its rows alone")
    if "spark.watermarkDelayMs" not in df.schema[time].metadata:
        raise ConfigurationError(
            f"column {time!r} has no watermark; give it one: df.withWatermark({time!r}, '10 minutes')"
        )
    probe = probe_fleet(design, options, True)
    if probe.dim != len(readings):
        raise ConfigurationError(f"reading= names {len(readings)} columns, and the models have {probe.dim} channels")
    place = Marks(marks)
    place.create()
    head = {"design": design.fingerprint, "buckets": options.buckets, "options": dict(probe.options)}
    _check_head(place.path / "feed.json", head)
    stored = place.path / "design.json"
    if not stored.exists():
        design.save(stored)
    outputs = columns.outputs(df.schema)
    names = [name for name, _ in outputs]
    job = Job(
        str(place.path), "", key, options, (), 0, probe.dim, True, 0, tuple(outputs),
        tuple(sources(columns, names)),
    )  # fmt: skip
    if not str(spark.conf.get(_PROVIDER, "")).endswith("RocksDBStateStoreProvider"):
        spark.conf.set(_PROVIDER, _ROCKS)  # the only one that transformWithState has
    from pyspark.sql import functions as sql

    chosen = [*columns.pinned(df, options.buckets), df[time].alias("event")]
    return (
        df.select(*chosen)
        .withColumn("room", sql.coalesce("room", sql.lit("")))
        .groupBy("bucket")
        .transformWithStateInPandas(_processor(job), output_schema(job, probe), "Append", "EventTime")
    )


def spent_stream(spark: SparkSession, checkpoint: str) -> pa.Table:
    """What a live feed was charged so far, from its checkpoint: one row a room, sorted.

    Parameters
    ----------
    spark : SparkSession
        A session, with the state store of RocksDB.
    checkpoint : str
        The `checkpointLocation` of the query.

    Returns
    -------
    pyarrow.Table
        Columns `room`, `rows` and `nats`.

    Examples
    --------
    >>> def total(spark):
    ...     return spent_stream(spark, "/srv/checkpoint").column("nats")

    """
    spark.conf.set(_PROVIDER, _ROCKS)
    frame = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", _STATE).load()
    tables = []
    for row in frame.select("value.blob").collect():
        state = _State.load(bytes(row["blob"]))
        tables.append(state.fleet.select(["room", "readings", "charged"]).replace_schema_metadata(None))
    names = ["room", "rows", "nats"]
    if not tables:
        return pa.schema(dict(zip(names, (pa.string(), pa.int64(), pa.float64()), strict=True))).empty_table()
    whole = pa.concat_tables(tables).sort_by("room")
    nats = pa.array(np.asarray(whole.column("charged")) / MICRO)
    return pa.table([whole.column("room"), whole.column("readings"), nats], names=names)


def _check_head(path: Path, head: dict[str, Any]) -> None:
    """Begin a feed, or refuse what was begun otherwise."""
    text = json.dumps(head, sort_keys=True)
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
            os.fsync(file.fileno())
        return
    except FileExistsError:
        found = json.loads(path.read_text(encoding="utf-8"))
    if found["design"] != head["design"]:
        raise LedgerError("the feed belongs to another design; give this one a folder and a checkpoint of its own")
    if found["buckets"] != head["buckets"]:
        raise ConfigurationError(
            f"buckets = {head['buckets']}, and the feed was begun with {found['buckets']}, which is for good"
        )
    if found != json.loads(text):
        raise ConfigurationError("the feed was begun with other epochs, cadence, gaps, budget or namespace")


class Guard:
    """What the rows of each micro-batch of a bucket were: a file of digests, which only grows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     guard = Guard(os.path.join(folder, "3"))
    ...     guard.stand(0, b"a" * 16), guard.stand(0, b"a" * 16), guard.stand(0, b"b" * 16), guard.stand(2, b"c" * 16)
    (True, True, False, False)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def stand(self, serial: int, digest: bytes) -> bool:
        """Whether a micro-batch has these rows: it is recorded if it is the next one."""
        file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            count = os.fstat(file).st_size // _RECORD.size
            whole = count
            if count and not self._sound(os.pread(file, _RECORD.size, (count - 1) * _RECORD.size)):
                whole -= 1  # it was being written when the machine stopped
            if serial < whole:
                found = os.pread(file, _RECORD.size, serial * _RECORD.size)
                return self._sound(found) and found == self._record(serial, digest)
            if serial > whole:
                return False
            os.pwrite(file, self._record(serial, digest), serial * _RECORD.size)
            os.fsync(file)
            return True
        finally:
            os.close(file)

    @staticmethod
    def _record(serial: int, digest: bytes) -> bytes:
        check = hashlib.blake2b(struct.pack("<q", serial) + digest, digest_size=8).digest()
        return _RECORD.pack(serial, digest, check)

    @classmethod
    def _sound(cls, record: bytes) -> bool:
        serial, digest, _ = _RECORD.unpack(record)
        return record == cls._record(serial, digest)


@dataclass
class _State:
    """What is kept of a bucket between micro-batches."""

    serial: int
    """Micro-batches so far."""
    last: bytes
    """The digest of the last one."""
    fleet: pa.Table
    recent: pa.Table
    """Outputs that are newer than the watermark: room, time, digest of the row, and the channels."""

    def dump(self) -> bytes:
        sink = io.BytesIO()
        for table in (self.fleet, self.recent):
            part = pa.BufferOutputStream()
            with pa.ipc.new_stream(part, table.schema) as writer:
                writer.write_table(table)
            content = part.getvalue().to_pybytes()
            sink.write(len(content).to_bytes(8, "little") + content)
        return seal(self.serial.to_bytes(8, "little") + self.last + sink.getvalue())

    @classmethod
    def load(cls, blob: bytes) -> _State:
        content = unseal(blob)
        if content is None:
            raise SnapshotError("the state of a bucket is damaged: its checksum does not fit its content")
        tables, at = [], 24
        while at < len(content):
            length = int.from_bytes(content[at : at + 8], "little")
            tables.append(pa.ipc.open_stream(content[at + 8 : at + 8 + length]).read_all())
            at += 8 + length
        return cls(int.from_bytes(content[:8], "little"), content[8:24], *tables)


class _InState:
    """Decisions that are durable with the state: the guard pins the rows of the micro-batch that they follow from."""

    def decide(self, proposed: Decisions) -> Decisions:
        return proposed


class Feed:
    """The fleet of a bucket, for one micro-batch."""

    def __init__(self, job: Job, bucket: int, blob: bytes | None) -> None:
        self.job, self.bucket = job, bucket
        folder = Path(job.marks)
        if not (folder / "feed.json").exists():
            raise LedgerError(
                "the folder of marks that the driver uses is not here; driver and executors must share it"
            )
        self.key, self.design = MasterKey.read(job.key), load_design(folder / "design.json")
        self.state = None if blob is None else _State.load(blob)
        if self.state is None:
            self.fleet = Fleet(self.design, _InState(), "bucket", key=self.key, **job.options.fleet)
        else:
            self.fleet = Fleet.from_arrow(self.state.fleet, self.design, _InState(), key=self.key)
        values = {value: i for i, value in enumerate(self.design.family.values)}
        self.reader = Reader(values, job.dim, True, self.fleet.cadence, 0)

    def disguise(self, table: pa.Table, watermark: int) -> tuple[bytes, pa.Table]:
        """The rows of a micro-batch: the state after it, and what leaves. `watermark` is in milliseconds."""
        piece = self.reader.whole(table)
        digests = self._row_digests(piece)
        serial, last = (0, bytes(16)) if self.state is None else (self.state.serial, self.state.last)
        now = self._hash(last, *digests)
        (Path(self.job.marks) / "parts").mkdir(mode=0o700, exist_ok=True)
        if not Guard(Path(self.job.marks) / "parts" / f"{self.bucket}.guard").stand(serial, now):
            raise LedgerError(
                "this micro-batch was disguised before with other rows, or the checkpoint is not the one that the "
                "guard knows: to go on would release second outputs. Bring back the newest checkpoint and its input"
            )
        out = np.full(piece.Y.shape, np.nan)
        fresh = self._repeat(piece, digests, out)
        if len(fresh):
            found = feed(self.fleet, piece, fresh, piece.time[fresh].view("datetime64[ns]"))
            out[fresh] = found.outputs
        after = _State(serial + 1, now, self.fleet.to_arrow(), self._recent(piece, digests, out, watermark))
        return after.dump(), self._leaving(piece, out)

    def _hash(self, *parts: bytes) -> bytes:
        secret = self.key.room_key(self.job.options.namespace, self.design.fingerprint, f"bucket {self.bucket}\n")
        found = hashlib.blake2b(key=secret, person=b"understudy feed", digest_size=16)
        for part in parts:
            found.update(len(part).to_bytes(8, "little") + part)
        return found.digest()

    def _row_digests(self, piece: Piece) -> list[bytes]:
        content, width = piece.content(), piece.width
        names = [piece.names[i] if i >= 0 else "" for i in piece.local.tolist()]
        secret = self.key.room_key(self.job.options.namespace, self.design.fingerprint, "rows of a feed\n")
        rows = [name.encode() + b"\0" + content[i * width : (i + 1) * width] for i, name in enumerate(names)]
        return [hashlib.blake2b(row, key=secret, digest_size=16).digest() for row in rows]

    def _repeat(self, piece: Piece, digests: Sequence[bytes], out: Any) -> Ints:
        """Give rows that are here again their outputs of then; which rows are new."""
        usable = np.flatnonzero(piece.rules == OK)
        recent = None if self.state is None else self.state.recent
        if recent is None or not recent.num_rows:
            return usable
        known = {row: i for i, row in enumerate(recent.column("row").to_pylist())}
        outputs = np.column_stack([np.asarray(recent.column(f"output {i}")) for i in range(self.job.dim)])
        fresh = []
        for row in usable.tolist():
            at = known.get(digests[row])
            if at is None:
                fresh.append(row)
            else:
                out[row] = outputs[at]
        return np.array(fresh, dtype=np.int64)

    def _recent(self, piece: Piece, digests: Sequence[bytes], out: Any, watermark: int) -> pa.Table:
        rows = np.flatnonzero(~np.isnan(out).any(axis=1))
        columns: dict[str, Any] = {
            "time": piece.time[rows],
            "row": pa.array([digests[i] for i in rows.tolist()], pa.binary()),
        }
        columns |= {f"output {i}": out[rows, i] for i in range(self.job.dim)}
        new = pa.table(columns)
        if self.state is not None:
            known = pa.array(self.state.recent.column("row").to_pylist(), pa.binary())
            new = new.filter(pc.invert(pc.is_in(new.column("row"), value_set=known)))
            new = pa.concat_tables([self.state.recent, new])
        return new.filter(pc.greater(new.column("time"), pa.scalar(watermark * 10**6, pa.int64()))).combine_chunks()

    def _leaving(self, piece: Piece, out: Any) -> pa.Table:
        columns = []
        for source, form in zip(self.job.sources, arrow_schema(self.job.outputs), strict=True):
            if source.startswith("output"):
                column: Any = pa.array(out[:, int(source.split()[1])], from_pandas=True)
            else:
                column = piece.table.column(source)
                column = column.cast(pa.int64()) if source == "time" else column
            columns.append(column.cast(form.type))
        return pa.Table.from_arrays(columns, schema=arrow_schema(self.job.outputs))


def _processor(job: Job) -> Any:
    """What Spark runs for each bucket; the class is made here, so that this module does without pyspark."""
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import BinaryType, StructField, StructType

    class FeedProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark may not be here when types are checked
        def init(self, handle: Any) -> None:
            self._value = handle.getValueState(_STATE, StructType([StructField("blob", BinaryType(), True)]))

        def handleInputRows(self, key: Any, rows: Iterable[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            tables = [pa.Table.from_pandas(part, preserve_index=False) for part in rows]
            whole = _joined(tables, job)
            if not whole.num_rows:
                return
            blob = bytes(self._value.get()[0]) if self._value.exists() else None
            state, out = Feed(job, int(key[0]), blob).disguise(whole, timerValues.getCurrentWatermarkInMs())
            self._value.update((state,))
            yield out.to_pandas()

        def close(self) -> None:
            pass

    return FeedProcessor()


def _joined(tables: Sequence[pa.Table], job: Job) -> pa.Table:
    """The rows of a micro-batch in one order, whatever order they came in."""
    whole = pa.concat_tables(tables, promote_options="permissive")
    order = ["room", "time", *(f"reading_{i}" for i in range(job.dim)), "private"]
    return whole.sort_by([(name, "ascending") for name in order]).combine_chunks()
