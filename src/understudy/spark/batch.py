"""A history on a cluster, in two stages: what is drawn is decided and committed first, and only then is disguised.

The input is pinned: Spark repartitions its rows by bucket, a hash of the budget group, sorts each bucket by room and
time and writes it down once, so that every attempt of every task reads the same rows.

1. *Propose.* A task a bucket runs a `Fleet` on the new rows of its rooms, from the state that the last run left, and
   writes what came out into parts (`understudy.spark.marks`): decisions, states, and a mark for each room. Nothing it
   disguised leaves the task. Rooms whose rows differ from those that a mark has a digest of are refused. The driver
   checks that all tasks had one key and one version, and commits the parts as one run.
2. *Disguise.* A task a bucket runs the same fleet again, with the decisions that stand. It is a function of the pinned
   rows, the marks and the key, whichever attempt it is, wherever it runs. A draw that is not in the marks is an error.

Rows of earlier runs are disguised again from the state of then: the same bytes, and no charge.
"""

from __future__ import annotations

import atexit
import bisect
import datetime as dt
import hashlib
import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from understudy import errors
from understudy._types import Array, Ints, Mask, Plain
from understudy.errors import ConfigurationError, LedgerError, UnderstudyError
from understudy.randomizer.design import load_design
from understudy.spark.marks import DRAWS, FLEET, ROOMS, Marks, PartNames, Run, Work
from understudy.spark.rows import (
    CONFLICT,
    KNOWN,
    OK,
    REFUSED,
    ROW_RULES,
    TIMED,
    Columns,
    Piece,
    Reader,
    arrow_schema,
    spark_type,
)
from understudy.stream.cadence import Duration
from understudy.stream.engine import Clock
from understudy.stream.fleet import Decisions, Fleet
from understudy.stream.ledger_file import MICRO
from understudy.stream.randomness import MasterKey
from understudy.stream.rollback_guard import RollbackGuard
from understudy.stream.snapshot import versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("understudy.spark")
_HELD, _DENIED = 1, 2
_UNTIL_NOW = -(2**63)


@dataclass(frozen=True)
class Options:
    """How rooms are treated; they are for good, but for `keep`, `partitions`, `limit` of groups and the guard.

    Parameters
    ----------
    epoch, period, tolerance, gaps : optional
        As in `us.Fleet`.
    group : str, optional
        The column of budget groups; by default each room is its own. All rooms of a group lie in one bucket, so that
        one task decides.
    limit : float or mapping of str to float, optional
        Nats that each group may be charged; with a mapping, a group that it lacks may draw nothing.
    per : timedelta, optional
        The period of event time in which a group may be charged its limit; without it the limit is for all times.
    when_spent : {"stop", "hold"}
        Whether a room whose budget is spent gives nothing more, or keeps its last draw.
    keep : sequence of str
        Columns that leave as they are, beside room and time.
    buckets : int
        Parts into which rooms are divided, for good.
    partitions : int, optional
        Tasks of the shuffle; by default as many as Spark shuffles into. Outputs do not depend on it.
    namespace : str
        Sets rooms of one name in two places apart.
    rollback_guard : str, optional
        A folder elsewhere that remembers how far the marks had come, so that an older copy is refused.

    Examples
    --------
    >>> import datetime as dt
    >>> Options(epoch=dt.timedelta(days=1), period=60).buckets
    32

    """

    epoch: dt.timedelta | int | None = None
    period: Duration | None = None
    tolerance: Duration | None = None
    gaps: str | None = None
    group: str | None = None
    limit: float | Mapping[str, float] | None = None
    per: dt.timedelta | None = None
    when_spent: str = "stop"
    keep: Sequence[str] = ()
    buckets: int = 32
    partitions: int | None = None
    namespace: str = "spark"
    rollback_guard: str | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by name and rule."""
        for name in ("buckets", "partitions"):
            count = getattr(self, name)
            if count is not None and (
                isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1 << 16
            ):
                raise ConfigurationError(f"{name} = {count!r}; it must be a whole number from 1 to 65536")
        if self.per is not None and self.limit is None:
            raise ConfigurationError("per= is given without limit=; it is the period of a limit")
        if isinstance(self.limit, Mapping) and self.group is None:
            raise ConfigurationError("limit= is a table of groups, and group= names no column")
        if isinstance(self.keep, str):
            raise ConfigurationError(f"keep = {self.keep!r}; it must be a list of columns")
        limits = self.limit.values() if isinstance(self.limit, Mapping) else [self.limit]
        for limit in limits:
            if limit is not None and not (isinstance(limit, (int, float)) and 0 <= limit < float("inf")):
                raise ConfigurationError(f"limit = {limit!r}; it must be a number of nats, 0 or more")

    @property
    def fleet(self) -> dict[str, Any]:
        """The options of the fleet of a bucket."""
        found: dict[str, Any] = {
            "epoch": self.epoch, "period": self.period, "tolerance": self.tolerance, "gaps": self.gaps,
            "when_spent": self.when_spent, "namespace": self.namespace,
        }  # fmt: skip
        if self.group is None and self.limit is not None:
            found |= {"total": self.limit} if self.per is None else {"amount": self.limit, "per": self.per}
        return found

    def micronats(self, group: str | None) -> int:
        """The limit of a group, where there are groups."""
        limit = self.limit.get(group or "", 0.0) if isinstance(self.limit, Mapping) else self.limit
        return int((limit or 0.0) * MICRO + 1e-6)


@dataclass(frozen=True)
class Job:
    """What a task is told: paths and options, never a key, a reading or a value."""

    marks: str
    token: str
    key: str
    options: Options
    files: tuple[tuple[int, str], ...]
    """Buckets and their pinned files."""
    upto: int
    """Runs that were committed before."""
    dim: int
    timed: bool
    batch: int
    outputs: tuple[tuple[str, str], ...]
    """Names and types of the columns that leave."""
    sources: tuple[str, ...]
    """Where each of them comes from: names of pinned columns."""
    status: tuple[tuple[int, str], ...] = ()
    """Files that say from where rooms go on, by bucket."""
    key_id: str = ""


def disguise(
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
    """Disguise the readings of many rooms on a cluster.

    Draws are decided and committed within the call; outputs are computed when the result is used, as often as it is.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The rows. They are pinned: written once, beneath `marks`, until the driver ends.
    design : Design or CausalDesign
        What all rooms share. Its models must be portable (Gauss-Markov), for executors may differ.
    key : str
        Where each executor finds the master key: a path, ``command:...`` or ``credential:NAME``.
    room, time, private : str
        Columns: a string; a timestamp, or a whole number; and the private value, null where it is that of before.
    reading : str or sequence of str
        The column of each channel; null or NaN where a reading is missing.
    marks : str
        The folder of marks (`understudy.spark.marks`), which driver and executors share.
    options : Options, optional
        Epochs, cadence, budgets, buckets.

    Returns
    -------
    pyspark.sql.DataFrame
        A row for each row of the input: room, time, the disguised readings, and what `options.keep` names. A reading is
        null where there is no output; `us.spark.runs(marks)[-1].counts` says why.

    Raises
    ------
    ConfigurationError
        If a column, an option or the key breaks a rule.
    LedgerError
        If the marks belong to something else, executors differ, or another driver committed meanwhile.

    Examples
    --------
    >>> def run(frame, design):                                     # docs/spark.md has a whole example
    ...     return disguise(
    ...         frame, design, key="/etc/understudy/master.key", room="room", time="time", reading="co2",
    ...         private="people", marks="/srv/marks",
    ...     )

    """
    options = options or Options()
    check_key_source(key)
    if df.isStreaming:
        raise ConfigurationError("the input is a stream; us.spark.disguise_stream takes streams")
    spark = df.sparkSession
    readings = (reading,) if isinstance(reading, str) else tuple(reading)
    columns = Columns(room, time, readings, private, options.group or room, tuple(options.keep))
    timed = columns.check(df.schema) == TIMED
    probe = probe_fleet(design, options, timed)
    if probe.dim != len(readings):
        raise ConfigurationError(f"reading= names {len(readings)} columns, and the models have {probe.dim} channels")
    place = Marks(marks)
    place.create()
    place.clean()
    earlier = place.runs()
    head = {"design": design.fingerprint, "buckets": options.buckets, "options": dict(probe.options)}
    head |= {"group": options.group, "per": None if options.per is None else str(options.per), "timed": timed}
    _check_head(earlier, head)
    work = Work(place)
    atexit.register(work.close)
    design.save(work.folder / "design.json")
    files = _pin(df, columns, options, work.folder / "rows")
    outputs = columns.outputs(df.schema)
    if options.group is not None and files:
        _check_groups(spark, work.folder / "rows", place)
    job = Job(
        str(place.path), work.token, key, options, tuple(sorted(files.items())), len(earlier), probe.dim, timed,
        int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000), tuple(outputs),
        tuple(sources(columns, [name for name, _ in outputs])),
    )  # fmt: skip
    if not files:
        return spark.createDataFrame([], output_schema(job, probe))
    found = _first_stage(spark, job)
    run = _gather(found, head, job, earlier)
    guard = _guard(options, run, len(earlier))
    place.commit(run)
    if guard is not None:
        from understudy.stream.ledger_file import Position

        guard.note({1: Position(serial=run.number)})
        guard.close()
    _tell(run)
    status = tuple((answer["bucket"], answer["status"]) for answer in found if answer["status"])
    job = replace(job, status=status, key_id=str(run.head["key"]))
    return _map(spark, job, _disguise_buckets, output_schema(job, probe))


# The driver -----------------------------------------------------------------------------------------


class _Nowhere:
    """A store for a fleet that is only asked what it is."""

    def decide(self, proposed: Decisions) -> Decisions:
        raise LedgerError("this fleet decides nothing")


def probe_fleet(design: Any, options: Options, timed: bool) -> Fleet:
    """A fleet without rooms under no key, which says whether design and options make sense."""
    try:
        probe = Fleet(design, _Nowhere(), "bucket", key=MasterKey(bytes(32)), **options.fleet)
    except AttributeError:
        raise ConfigurationError(
            f"design is of type {type(design).__name__}; it must be a design with models"
        ) from None
    if not probe.portable:
        raise ConfigurationError(
            "the models of this design are not portable: their outputs depend on the machine's special functions, and "
            "executors may differ; use Gauss-Markov models, or us.Fleet on one machine"
        )
    nothing = np.empty(0, dtype="datetime64[ns]" if timed else np.int64)
    try:
        probe.outcome([], nothing, np.empty((0, probe.dim)), source=np.empty(0, dtype=np.int64))
    except errors.ReadingError as error:
        raise ConfigurationError(f"the column of times does not fit the options: {error}") from None
    clocked = probe.options.get("timed")
    if clocked is not None and clocked != timed:
        raise ConfigurationError("epoch= counts keys of the other kind (times or numbers) than the column of times")
    if options.per is not None and not timed:
        raise ConfigurationError("per= is a period of time, and the keys are numbers")
    if options.group is not None and options.limit is not None:
        length = Clock.checked(options.per)["epoch"] if options.per is not None else 0
        epoch = probe.options.get("epoch")
        if length and (epoch is None or length % epoch):
            raise ConfigurationError(
                "per= of groups must be a whole multiple of epoch=: draws are charged by their tick"
            )
        if design.kind == "causal design" or not _memoryless(probe):
            raise ConfigurationError("limits of groups need a design without memory; give limit= without group=")
    return probe


def _memoryless(fleet: Fleet) -> bool:
    return "memory" not in fleet.to_arrow().column_names


def check_key_source(key: str) -> None:
    """Refuse a key itself, and a source of it that Spark would write down."""
    if not isinstance(key, str):
        raise ConfigurationError(
            f"key is of type {type(key).__name__}; it must say where each executor finds the master key: a path, "
            "'command:...' or 'credential:NAME'. A key itself would be copied into plans and closures"
        )
    if key.startswith("env:"):
        raise ConfigurationError(
            "key= names a variable of the environment, which Spark passes on in its configuration, where the "
            "UI and the event log show it; give a path, 'command:...' or 'credential:NAME'"
        )
    if key.startswith("understudy-key"):
        raise ConfigurationError("key= holds a key; it must say where executors find it: a path or 'command:...'")


def _check_head(earlier: Sequence[Run], head: Plain) -> None:
    """Refuse marks of another design, number of buckets, or options."""
    if not earlier:
        return
    first = earlier[0].head
    if first["design"] != head["design"]:
        raise LedgerError("the marks belong to another design; give this one a folder of its own")
    if first["buckets"] != head["buckets"]:
        raise ConfigurationError(
            f"buckets = {head['buckets']}, and the marks were begun with {first['buckets']}, which is for good"
        )
    for name in ("options", "group", "per", "timed"):
        if json.loads(json.dumps(head[name])) != first[name]:
            raise ConfigurationError(
                "the marks were begun with other epochs, cadence, gaps, budget, group or namespace"
            )


def _pin(df: DataFrame, columns: Columns, options: Options, folder: Path) -> dict[int, str]:
    """Write the rows down, a file for each bucket, sorted."""
    chosen = df.select(*columns.pinned(df, options.buckets))
    spark = df.sparkSession
    count = options.partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    count = min(count, options.buckets)
    sorted_rows = chosen.repartition(count, "bucket").sortWithinPartitions(*columns.order())
    writer = sorted_rows.write.option("compression", "lz4").option("maxRecordsPerFile", 0)
    _guarded(lambda: writer.partitionBy("bucket").parquet(folder.as_uri()), "pinning the input")
    files: dict[int, str] = {}
    for path in sorted(folder.glob("bucket=*/*.parquet")):
        bucket = int(path.parent.name.removeprefix("bucket="))
        if bucket in files:
            raise LedgerError("a bucket was pinned in two files; the rows of a room must lie in one")
        files[bucket] = str(path)
    return files


def _check_groups(spark: SparkSession, rows: Path, place: Marks) -> None:
    """Refuse rooms that are in two groups, or in another one than before: two tasks would decide for them."""
    from pyspark.sql import functions as sql

    frame = (
        spark.read.parquet(rows.as_uri())
        .groupBy("room")
        .agg(sql.min("group").alias("low"), sql.max("group").alias("high"))
    )
    moved = _guarded(lambda: frame.filter(~sql.col("low").eqNullSafe(sql.col("high"))).count(), "the check of groups")
    tables = [table.select(["room", "group"]) for _, table in place.tables(ROOMS)]
    if tables:
        then = pa.concat_tables(tables).group_by(["room", "group"]).aggregate([])
        before = spark.createDataFrame(then.to_pandas())
        both = before.join(frame, "room").filter(sql.col("group") != sql.coalesce(sql.col("low"), sql.lit("")))
        moved += _guarded(both.count, "the check of groups")
    if moved:
        raise ConfigurationError(
            f"{moved} rooms are in two groups, or in another one than before; a room has one group, for good"
        )


def sources(columns: Columns, names: Sequence[str]) -> Iterator[str]:
    """Where each column that leaves comes from."""
    for name in names:
        if name == columns.room:
            yield "room"
        elif name == columns.time:
            yield "time"
        elif name in columns.reading:
            yield f"output {columns.reading.index(name)}"
        else:
            yield f"keep_{columns.keep.index(name)}"


def output_schema(job: Job, probe: Fleet) -> Any:
    """The schema of what leaves; columns of readings say that they are disguised."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for (name, kind), source in zip(job.outputs, job.sources, strict=True):
        mark = {"understudy": probe.mark} if source.startswith("output") else None
        fields.append(StructField(name, spark_type(kind), True, mark))
    return StructType(fields)


def _map(spark: SparkSession, job: Job, work: Callable[..., Iterator[pa.RecordBatch]], schema: Any) -> DataFrame:
    """A task for each bucket."""
    count = len(job.files)
    return spark.range(0, count, 1, count).mapInArrow(partial(work, job), schema)


def _first_stage(spark: SparkSession, job: Job) -> list[Plain]:
    """Run the first stage: what each bucket answers."""
    frame = _map(spark, job, _propose_buckets, "answer string")
    answers = [json.loads(row["answer"]) for row in _guarded(frame.collect, "the first stage")]
    for answer in answers:
        if "error" in answer:
            kind = getattr(errors, answer["error"], LedgerError)
            raise kind(answer["rule"])
    if {answer["bucket"] for answer in answers} != {bucket for bucket, _ in job.files} or len(answers) != len(
        job.files
    ):
        raise LedgerError("the first stage did not answer once for each bucket")
    return answers


def _guarded(work: Callable[[], Any], what: str) -> Any:
    """Run an action of Spark; its failure is told without the engine's trace, which may hold anything."""
    try:
        return work()
    except UnderstudyError:
        raise
    except Exception as error:
        name = type(error).__name__
    raise LedgerError(
        f"{what} failed in Spark ({name}), and nothing was recorded; the logs of the executors say where"
    ) from None


def _gather(answers: Sequence[Plain], head: Plain, job: Job, earlier: Sequence[Run]) -> Run:
    """One run out of what the tasks answered."""
    for name, what in (("key", "master keys"), ("versions", "versions of understudy, or machines")):
        if len({json.dumps(answer[name], sort_keys=True) for answer in answers}) > 1:
            raise LedgerError(f"executors have different {what}; nothing was recorded or disguised")
    key = answers[0]["key"]
    if earlier and earlier[0].head["key"] != key:
        raise LedgerError(
            f"the marks were begun under the master key {earlier[0].head['key']}; the executors have {key}"
        )
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update(answer["counts"])
    parts: dict[int, PartNames] = {
        answer["bucket"]: {what: (at[0], at[1]) for what, at in answer["parts"].items()}
        for answer in answers
        if answer["parts"]
    }
    totals = {
        name: sum(answer[name] for answer in answers) for name in ("rooms", "rows", "draws", "micronats", "refused")
    }
    return Run(
        len(earlier) + 1, totals["rooms"], totals["rows"], totals["draws"], totals["micronats"] / MICRO,
        totals["refused"], dict(sorted(counts.items())), job.token,
        {**head, "key": key, "versions": answers[0]["versions"]}, parts,
    )  # fmt: skip


def _guard(options: Options, run: Run, committed: int) -> RollbackGuard | None:
    if options.rollback_guard is None:
        return None
    place = f"spark-{run.head['key']}-{str(run.head['design'])[-16:]}"
    guard = RollbackGuard.of(options.rollback_guard, place)
    if guard.ahead(1, committed) is not None:
        guard.close()
        raise errors.RollbackError(
            "the marks are older than what was disguised with them: they were restored from a backup or rolled back. "
            "To go on from them would leak; bring back the newest marks"
        )
    return guard


def _tell(run: Run) -> None:
    """A line for the log, of counts alone."""
    _LOG.info("run %d: %d rooms, %d rows, %d draws", run.number, run.rooms, run.rows, run.draws)
    if run.refused:
        _LOG.warning("run %d: %d rooms refused, whose rows differ under times that are known", run.number, run.refused)


# Tasks ----------------------------------------------------------------------------------------------


def _buckets(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, str]]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield job.files[number]


def _propose_buckets(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for bucket, path in _buckets(job, batches):
        try:
            answer = _Bucket(job, bucket, path).propose()
        except UnderstudyError as error:  # tried again it would be the same
            answer = {"error": type(error).__name__, "rule": str(error)}
        yield pa.record_batch([pa.array([json.dumps(answer)])], names=["answer"])


def _disguise_buckets(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for bucket, path in _buckets(job, batches):
        yield from _Bucket(job, bucket, path).disguise()


class _Recorder:
    """A store for the first stage: what is proposed, or what the plan of budgets makes of it."""

    def __init__(self, plan: Mapping[tuple[str, int], int]) -> None:
        self.plan, self.fleet = plan, None  # type: tuple[Mapping[tuple[str, int], int], Fleet | None]
        self.rows: list[tuple[str, int, int, int, int, int, int]] = []
        self.draws: dict[str, int] = {}

    def decide(self, proposed: Decisions) -> Decisions:
        names = self.fleet.rooms if self.fleet is not None else []
        columns = [column.copy() for column in proposed]
        for i, (number, tick) in enumerate(zip(columns[0].tolist(), columns[1].tolist(), strict=True)):
            room = names[number]
            if self.plan.get((room, tick)) == _HELD:
                columns[4][i], columns[5][i], columns[6][i] = self.draws[room], 1, 0
            self.draws[room] = int(columns[4][i])
            self.rows.append((room, tick, *(int(column[i]) for column in columns[2:])))
        return Decisions(*columns)


class _Standing:
    """A store for the second stage: what stands, and nothing else."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self.fleet: Fleet | None = None
        self._first: dict[str, tuple[int, int]] = {}
        whole = pa.concat_tables(tables).sort_by([("room", "ascending"), ("tick", "ascending")])
        self._columns = [whole.column(name).to_numpy() for name in _DRAW_NAMES[1:8]]
        names = whole.column("room").to_pylist()
        edges = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]] + [len(names)]
        for first, stop in itertools.pairwise(edges):
            self._first[names[first]] = (first, stop)

    def decide(self, proposed: Decisions) -> Decisions:
        names = self.fleet.rooms if self.fleet is not None else []
        rows = [self.find(names[n], t) for n, t in zip(proposed.room.tolist(), proposed.tick.tolist(), strict=True)]
        if None in rows:
            raise LedgerError("a draw is asked for that the marks do not have")
        found = np.array(rows, dtype=np.int64)
        return Decisions(proposed.room, proposed.tick, *(column[found] for column in self._columns[1:6]))

    def find(self, room: str, tick: int) -> int | None:
        """The row of a decision."""
        first, stop = self._first.get(room, (0, 0))
        at = bisect.bisect_left(self._columns[0], tick, first, stop)
        return at if at < stop and self._columns[0][at] == tick else None

    def denied(self, room: str) -> Ints:
        """The ticks that the budget of its group denies to a room."""
        first, stop = self._first.get(room, (0, 0))
        held = self._columns[4][first:stop]
        return np.asarray(self._columns[0][first:stop][held == _DENIED])


_DRAW_NAMES = ("room", "tick", "generation", "source", "draw", "held", "micronats", "reserved", "group")
_DRAW_TYPES = (pa.string(), *(pa.int64(),) * 7, pa.string())


@dataclass
class _Known:
    """What the marks say of a room: the times, counts and digests of its runs."""

    run: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    digest: list[bytes] = field(default_factory=list)

    def within(self, time: Ints) -> tuple[Ints, Mask]:
        """In which run each time lies, or would have to, and whether it does."""
        at = np.searchsorted(np.array(self.first), time, side="right") - 1
        inside = (at >= 0) & (time <= np.array(self.last)[np.maximum(at, 0)])
        return at, inside


@dataclass
class _Tally:
    """What a room has in a run: first and last time, rows, and their digest."""

    group: str
    first: int
    last: int
    rows: int
    hash: Any


class _Bucket:
    """The rows of one bucket, in a task."""

    def __init__(self, job: Job, bucket: int, path: str) -> None:
        self.job, self.bucket, self.path = job, bucket, path
        self.marks = Marks(job.marks)
        work = self.marks.path / "inputs" / job.token
        if not (work / "lock").exists():
            raise LedgerError(
                "the folder of marks that the driver uses is not here; driver and executors must share it"
            )
        self.key = MasterKey.read(job.key)
        if job.key_id and self.key.id != job.key_id:
            raise LedgerError(
                f"the run was committed under the master key {job.key_id}; this executor has {self.key.id}"
            )
        self.design: Any = load_design(work / "design.json")
        self.runs = self.marks.runs(job.upto + bool(job.key_id))
        self.probe = probe_fleet(self.design, job.options, job.timed)
        values = {value: i for i, value in enumerate(self.design.family.values)}
        self.reader = Reader(values, job.dim, job.timed, self.probe.cadence, job.batch)
        self.clock = Clock(self.probe.options.get("epoch"))
        self.known = self._known()

    def _known(self) -> dict[str, _Known]:
        found: dict[str, _Known] = {}
        for run in self.runs[: self.job.upto]:
            table = self.marks.read(run, self.bucket, ROOMS)
            if table is None:
                continue
            columns = [table.column(name).to_pylist() for name in ("room", "first", "last", "rows", "digest")]
            for room, *mark in zip(*columns, strict=True):
                one = found.setdefault(room, _Known())
                for held, value in zip(
                    (one.run, one.first, one.last, one.rows, one.digest), (run.number, *mark), strict=True
                ):
                    held.append(value)  # type: ignore[attr-defined]  # lists of several types
        return found

    def _fleet(self, upto: int, store: _Recorder | _Standing) -> Fleet:
        """The fleet as run `upto` left it."""
        table = self._state(upto)
        if table is None:
            fleet = Fleet(self.design, store, "bucket", key=self.key, **self.job.options.fleet)
        else:
            fleet = Fleet.from_arrow(table, self.design, store, key=self.key)
        store.fleet = fleet
        return fleet

    def _state(self, upto: int) -> pa.Table | None:
        for run in reversed(self.runs[:upto]):
            table = self.marks.read(run, self.bucket, FLEET)
            if table is not None:
                return table
        return None

    def decisions(self) -> list[pa.Table]:
        """What the runs decided, one table each."""
        tables = [self.marks.read(run, self.bucket, DRAWS) for run in self.runs]
        empty = pa.schema(list(zip(_DRAW_NAMES, _DRAW_TYPES, strict=True))).empty_table()
        return [empty, *(table for table in tables if table is not None)]

    def _keys(self, time: Ints) -> Any:
        return time.view("datetime64[ns]") if self.job.timed else time

    def _ticks(self, time: Ints) -> Ints:
        cadence = self.probe.cadence
        if cadence is not None and self.job.timed:
            time = cadence.time(cadence.slots_of(time))
        return self.clock.ticks(time)

    # The first stage ----------------------------------------------------------------------------------

    def propose(self) -> Plain:
        """Run the new rows, and write down what is to be committed."""
        starts, counts = self._look() if self.known else ({}, Counter())
        refused = {room for room, start in starts.items() if start < 0}
        trial = _Trial(self, refused, {})
        if self.job.options.group is not None and self.job.options.limit is not None:
            plan = trial.plan()
            if any(plan.values()):
                trial = _Trial(self, refused, plan)
        counts += trial.counts
        marks = trial.marks()
        answer: Plain = {
            "bucket": self.bucket, "key": self.key.id, "versions": _versions(), "counts": dict(counts),
            "refused": len(refused), "rooms": marks.num_rows, "status": "", "parts": {},
        }  # fmt: skip
        for name in ("rows", "draws", "micronats"):
            answer[name] = int(np.asarray(marks.column(name)).sum())
        draws = trial.draws()
        if marks.num_rows or draws.num_rows:
            tables = {ROOMS: marks, DRAWS: draws, FLEET: trial.fleet.to_arrow()}
            token = self.job.token
            answer["parts"] = {
                what: self.marks.write(token, self.bucket, what, table) for what, table in tables.items()
            }
        if starts:
            table = pa.table(
                {"room": pa.array(starts.keys(), pa.string()), "start": pa.array(starts.values(), pa.int64())}
            )
            answer["status"] = self.marks.write(self.job.token, self.bucket, "status", table)[0]
        return answer

    def _look(self) -> tuple[dict[str, int], Counter[str]]:
        """After which run each room with marks begins, -1 where its rows are others than those of then."""
        seen: dict[str, list[_Tally]] = {}
        fresh: set[str] = set()
        counts: Counter[str] = Counter()
        for piece in self.reader.pieces(self.path):
            content, width = piece.content(), piece.width
            for room, first, stop in piece.runs():
                known = self.known.get(room)
                if known is None:
                    continue
                if room not in seen:
                    seen[room] = [_Tally("", 0, 0, 0, self._hash(room)) for _ in known.run]
                tallies = seen[room]
                rows = np.arange(first, stop)[np.isin(piece.rules[first:stop], (OK, CONFLICT))]
                time = piece.time[rows]
                at, inside = known.within(time)
                for k in np.unique(at[inside]).tolist():
                    which = rows[inside & (at == k)]
                    tallies[k].rows += len(which)
                    tallies[k].hash.update(content[which[0] * width : (which[-1] + 1) * width])
                counts["late"] += int((~inside & (time <= known.last[-1])).sum())
                if (time > known.last[-1]).any():
                    fresh.add(room)
        starts = {room: self._start(self.known[room], tallies, room in fresh) for room, tallies in seen.items()}
        return starts, counts

    @staticmethod
    def _start(known: _Known, tallies: Sequence[_Tally], fresh: bool) -> int:
        """The run after which a room goes on: before the first of its runs that is here again, or after the last."""
        here = [k for k, tally in enumerate(tallies) if tally.rows]
        if not here:
            return known.run[-1]
        same = all(tallies[k].rows == known.rows[k] and tallies[k].hash.digest() == known.digest[k] for k in here)
        whole = here == list(range(here[0], here[-1] + 1)) and (not fresh or here[-1] == len(tallies) - 1)
        return known.run[here[0]] - 1 if same and whole else -1

    def _hash(self, room: str) -> Any:
        key = self.key.room_key(self.job.options.namespace, self.design.fingerprint, room)
        return hashlib.blake2b(key=key, person=b"understudy rows", digest_size=16)

    # The second stage ---------------------------------------------------------------------------------

    def disguise(self) -> Iterator[pa.RecordBatch]:
        """The rows again, disguised by the decisions that stand."""
        job, there = self.job, self.decisions()
        starts, fleets = self._starts(), dict[int, Fleet]()
        standing = _Standing(there)
        schema = arrow_schema(job.outputs)
        for piece in self.reader.pieces(self.path):
            start, rules = self._route(piece, starts, standing)
            out = np.full(piece.Y.shape, np.nan)
            for upto in np.unique(start[rules == OK]).tolist():
                if upto not in fleets:
                    fleets[upto] = self._fleet(upto, _Standing(there))
                rows = np.flatnonzero((rules == OK) & (start == upto))
                out[rows] = feed(fleets[upto], piece, rows, self._keys(piece.time[rows])).outputs
            yield _output(job, piece, out, schema)

    def _starts(self) -> dict[str, int]:
        for bucket, name in self.job.status:
            if bucket == self.bucket:
                import pyarrow.parquet as pq

                table = pq.read_table(self.marks.path / "parts" / self.job.token / name)
                return dict(zip(table.column("room").to_pylist(), table.column("start").to_pylist(), strict=True))
        return {}

    def _route(self, piece: Piece, starts: Mapping[str, int], standing: _Standing) -> tuple[Ints, Ints]:
        """After which run the fleet stands that each row goes to, and by which rule a row goes to none."""
        start, rules = np.full(len(piece.time), self.job.upto), piece.rules.copy()
        for room, first, stop in piece.runs():
            part, time = rules[first:stop], piece.time[first:stop]
            if room in self.known:
                start[first:stop] = starts[room]
                if starts[room] < 0:
                    part[part == OK] = REFUSED
                _, inside = self.known[room].within(time)
                part[(part == OK) & ~inside & (time <= self.known[room].last[-1])] = KNOWN
            denied = standing.denied(room)
            if len(denied):
                part[(part == OK) & np.isin(self._ticks(time), denied)] = REFUSED
        return start, rules


def feed(fleet: Fleet, piece: Piece, rows: Ints, keys: Any) -> Any:
    """Give a fleet some rows of a piece."""
    local = piece.local[rows]
    names = [piece.names[i] for i in dict.fromkeys(local.tolist())]
    fleet.admit(names)
    numbers = np.full(len(piece.names), -1)
    numbers[list(dict.fromkeys(local.tolist()))] = fleet.numbers(names)
    Y = piece.Y[rows]
    return fleet.outcome(numbers[local], keys, Y, source=piece.source[rows])


def _output(job: Job, piece: Piece, out: Array, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for source, form in zip(job.sources, schema, strict=True):
        if source.startswith("output"):
            column: Any = pa.array(out[:, int(source.split()[1])], from_pandas=True)
        else:
            column = piece.table.column(source)
            if source == "time":
                column = column.cast(pa.int64())
        columns.append(column.cast(form.type))
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()[0]


class _Trial:
    """A fleet that runs the new rows of a bucket, to see what it would draw."""

    def __init__(self, bucket: _Bucket, refused: set[str], plan: Mapping[tuple[str, int], int]) -> None:
        self.bucket, self.store = bucket, _Recorder(plan)
        job = bucket.job
        self.fleet = bucket._fleet(job.upto, self.store)
        self.counts: Counter[str] = Counter()
        self._before = self.fleet.to_arrow()
        if "draw" in self._before.column_names:
            names = self._before.column("room").to_pylist()
            self.store.draws = dict(zip(names, self._before.column("draw").to_pylist(), strict=True))
        self._tallies: dict[str, _Tally] = {}
        self._standing = _Standing(bucket.decisions())
        self._denied: dict[str, list[int]] = {}
        for (room, tick), what in plan.items():
            if what == _DENIED:
                self._denied.setdefault(room, []).append(tick)
        for piece in bucket.reader.pieces(bucket.path):
            rules = self._tally(piece, refused)
            rows = np.flatnonzero(rules == OK)
            for rule, count in zip(*np.unique(rules[rules != OK], return_counts=True), strict=True):
                if rule != KNOWN:  # those have been counted, or are here again
                    self.counts["budget" if rule == len(ROW_RULES) else ROW_RULES[rule]] += int(count)
            if len(rows):
                found = feed(self.fleet, piece, rows, bucket._keys(piece.time[rows]))
                self.counts.update(found.counts)
        self._after = self.fleet.to_arrow()

    def _tally(self, piece: Piece, refused: set[str]) -> Ints:
        """Count the new rows of each room into its mark; by which rule each row goes to no fleet."""
        bucket, rules = self.bucket, piece.rules.copy()
        content, width = piece.content(), piece.width
        for room, first, stop in piece.runs():
            part, time = rules[first:stop], piece.time[first:stop]
            if room in refused:
                part[part == OK] = REFUSED
                continue
            new = np.isin(part, (OK, CONFLICT))
            if room in bucket.known:
                new &= time > bucket.known[room].last[-1]
                part[~new & np.isin(part, (OK, CONFLICT))] = KNOWN
            rows = np.flatnonzero(new)
            if not len(rows):
                continue
            tally = self._tallies.get(room)
            if tally is None:
                group = (piece.group(first) or "") if bucket.job.options.group is not None else room
                tally = self._tallies[room] = _Tally(group, int(time[rows[0]]), 0, 0, bucket._hash(room))
            tally.last, tally.rows = int(time[rows[-1]]), tally.rows + len(rows)
            tally.hash.update(content[(first + rows[0]) * width : (first + rows[-1] + 1) * width])
            denied = [*self._denied.get(room, ()), *self._standing.denied(room).tolist()]
            if denied:
                part[(part == OK) & np.isin(bucket._ticks(time), denied)] = len(ROW_RULES)
        return rules

    def marks(self) -> pa.Table:
        """One mark a room that something was taken of."""
        key, design = self.bucket.key.id, self.bucket.design.fingerprint
        charged, draws = self._gain("charged"), Counter(row[0] for row in self.store.rows if row[5] == 0)
        readings = self._gain("readings")
        here = [(room, t) for room, t in sorted(self._tallies.items()) if readings.get(room) or draws.get(room)]
        names = [room for room, _ in here]
        return pa.table({
            "room": pa.array(names, pa.string()),
            "group": pa.array([t.group for _, t in here], pa.string()),
            "run": pa.array([self.bucket.job.upto + 1] * len(here), pa.int64()),
            "first": pa.array([t.first for _, t in here], pa.int64()),
            "last": pa.array([t.last for _, t in here], pa.int64()),
            "rows": pa.array([t.rows for _, t in here], pa.int64()),
            "draws": pa.array([draws.get(room, 0) for room in names], pa.int64()),
            "micronats": pa.array([charged.get(room, 0) for room in names], pa.int64()),
            "digest": pa.array([t.hash.digest() for _, t in here], pa.binary()),
            "key": pa.array([key] * len(here), pa.string()),
            "design": pa.array([design] * len(here), pa.string()),
        })  # fmt: skip

    def draws(self) -> pa.Table:
        """The decisions, those that a budget denied among them."""
        reserve = self._reserves()
        rows: list[tuple[Any, ...]] = []
        for row in self.store.rows:
            rows.append((*row, reserve.pop(row[0], 0), self._tallies[row[0]].group))
        for (room, tick), what in self.store.plan.items():
            if what == _DENIED:
                rows.append((room, tick, 0, -1, -1, _DENIED, 0, 0, self._tallies[room].group))
        rows.sort(key=lambda row: (row[0], row[1]))
        columns = zip(*rows, strict=True) if rows else [()] * len(_DRAW_NAMES)
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, _DRAW_TYPES, strict=True)]
        return pa.table(arrays, names=list(_DRAW_NAMES))

    def _gain(self, name: str) -> dict[str, int]:
        """By how much a column of the fleet has grown, by room."""
        after = np.asarray(self._after.column(name), dtype=np.int64).copy()
        before = np.asarray(self._before.column(name), dtype=np.int64)
        after[: len(before)] -= before  # rooms are only added
        return dict(zip(self._after.column("room").to_pylist(), after.tolist(), strict=True))

    def _reserves(self) -> dict[str, int]:
        """What readings of each room cost besides the draws."""
        found = self._gain("charged")
        for row in self.store.rows:
            found[row[0]] -= row[6]
        return {room: cost for room, cost in found.items() if cost > 0}

    def plan(self) -> dict[tuple[str, int], int]:
        """What budgets of groups make of the draws that were asked for: by room and tick, held or denied.

        Within a group draws are decided by tick, then by room. The first draw of a room pays for its readings too.
        """
        options, bucket = self.bucket.job.options, self.bucket
        per = Clock.checked(options.per)["epoch"] if options.per is not None else 0
        length = self.bucket.clock.length or 1
        spent: Counter[tuple[str, int]] = Counter()

        def period(tick: int) -> int:
            return tick * length // per if per else 0

        for run in bucket.runs[: bucket.job.upto]:
            table = bucket.marks.read(run, bucket.bucket, DRAWS)
            for group, tick, cost, more in _rows_of(table, "group", "tick", "micronats", "reserved"):
                spent[group, period(tick)] += cost + more
        reserve, found = self._reserves(), dict[tuple[str, int], int]()
        last = dict(zip(self._before.column("room").to_pylist(), self._before.column("draw").to_pylist(), strict=True))
        for room, tick, _, _, draw, _, cost in sorted(self.store.rows, key=lambda row: (row[1], row[0])):
            group = self._tallies[room].group
            due = cost + reserve.get(room, 0)
            if spent[group, period(tick)] + due <= options.micronats(group):
                spent[group, period(tick)] += due
                reserve.pop(room, None)
                last[room] = draw
            elif options.when_spent == "hold" and last.get(room, -1) >= 0:
                found[room, tick] = _HELD
            else:
                found[room, tick] = _DENIED
        return found


def _rows_of(table: pa.Table | None, *names: str) -> Iterator[tuple[Any, ...]]:
    if table is not None:
        yield from zip(*(table.column(name).to_pylist() for name in names), strict=True)


def _versions() -> Plain:
    """What executors must agree on."""
    found = versions()
    return {name: found[name] for name in ("understudy", "machine")}
