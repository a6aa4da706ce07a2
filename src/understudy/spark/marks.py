"""Marks: the ledger of a cluster, a folder of Parquet files and of run manifests.

Tasks of a cluster die, are retried, and run twice. So no task changes anything that counts: it writes *parts*, files of
names that nobody else has, and hands their names and digests to the driver. One process, the driver, then makes a
*manifest* of them, and brings it to its number by one exclusive link, which either is there whole or is not. What no
manifest names has never been.

    marks/runs/00000001.json     a manifest: design, key id, options, and the parts of each bucket with their digests
    marks/parts/<token>/         the parts of a run, never changed: fleets, draws, and one mark a room
    marks/inputs/<token>/        the pinned input of a call, its design, and a lock; removed when its driver ends

A *mark* says of a room and a run: first and last time, rows, draws, the charge in micro-nats, a digest of the rows
under the key of the room, the id of the master key and the fingerprint of the design. It is as secret as a ledger.
Driver and executors must see the folder under one path (a shared mount); a task that does not see it is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy._types import Json, Plain
from understudy.errors import ConfigurationError, LedgerDamagedError, LedgerError
from understudy.stream.ledger_file import MICRO, digest

_FORMAT = "understudy marks"
_VERSION = 1
FLEET, DRAWS, ROOMS = "fleet", "draws", "rooms"
"""What parts hold: states of rooms after a run, its decisions, and its marks."""

PartNames = dict[str, tuple[str, str]]
"""Parts of a bucket: by what they hold, the name of a file and its digest."""


@dataclass(frozen=True)
class Run:
    """One call of `disguise`, as its manifest records it.

    Examples
    --------
    >>> Run(1, rooms=2, rows=600, draws=2, nats=0.6, counts={"taken": 600}).refused
    0

    """

    number: int
    """1, 2, ..., in the order of commits."""
    rooms: int = 0
    """Rooms that got a mark: those with new rows."""
    rows: int = 0
    """New rows of these rooms."""
    draws: int = 0
    nats: float = 0.0
    """What the run charged."""
    refused: int = 0
    """Rooms with other rows under known times: they got no output."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many new rows met each rule, by name."""
    token: str = ""
    head: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """Design, key, versions and options."""
    parts: Mapping[int, PartNames] = field(default_factory=dict, repr=False)

    def to_dict(self) -> Plain:
        """As JSON can hold it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["counts"], fields["head"] = dict(self.counts), dict(self.head)
        fields["parts"] = {str(bucket): names for bucket, names in sorted(self.parts.items())}
        return {"format": _FORMAT, "version": _VERSION, **fields}


class Work:
    """The scratch folder of a call: its pinned input. A lock says that the driver lives."""

    def __init__(self, marks: Marks) -> None:
        self.token = secrets.token_hex(8)
        self.folder = marks.path / "inputs" / self.token
        self.parts = marks.path / "parts" / self.token
        for folder in (self.folder, self.parts):
            folder.mkdir(mode=0o700)
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it; outputs that were not computed yet can no longer be."""
        if self._lock >= 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


class Marks:
    """The folder, for the driver and for tasks."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        if "://" in text:
            raise ConfigurationError(
                "marks is a URI; it must be the path of a folder that driver and executors share (a mount), for a run "
                "is committed by an exclusive link"
            )
        self.path = Path(text).resolve()

    def create(self) -> None:
        """Make the folder, where it is missing."""
        for folder in (self.path, *(self.path / name for name in ("runs", "parts", "inputs"))):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(f"the folder of marks cannot be made: {error.strerror}") from None
        if self.path.stat().st_mode & 0o077:
            raise ConfigurationError(
                "the folder of marks can be read by others; it is as secret as a ledger: chmod 700"
            )

    def runs(self, upto: int | None = None) -> list[Run]:
        """All runs, or the first so many, in their order."""
        found: list[Run] = []
        while upto is None or len(found) < upto:
            path = self._manifest(len(found) + 1)
            try:
                content = path.read_text(encoding="utf-8")
            except FileNotFoundError:
                if upto is not None:
                    raise LedgerError("a run that was committed is not here: the marks are not those of then") from None
                break
            found.append(_parse(content, len(found) + 1))
        numbers = [int(name.stem) for name in (self.path / "runs").glob("*.json")] if found or upto is None else []
        if upto is None and numbers and max(numbers) != len(found):
            raise LedgerDamagedError("a manifest is missing among those of the marks; bring back a whole copy")
        return found

    def commit(self, run: Run) -> None:
        """Make a run true: all of it or nothing, and only if no other driver was quicker."""
        folder = self.path / "runs"
        text = json.dumps(run.to_dict(), sort_keys=True)
        new = folder / f".{run.token}"
        _write(new, f"{digest(text)}\n{text}\n".encode())
        try:
            os.link(new, self._manifest(run.number))
        except FileExistsError:
            raise LedgerError(
                "another driver committed a run meanwhile; call again, with the marks as they are now"
            ) from None
        except OSError as error:
            raise LedgerError(f"the run cannot be committed: {error.strerror}") from None
        finally:
            new.unlink()
        _sync(folder)

    def clean(self) -> None:
        """Remove what drivers left that are no more: pinned inputs, and parts that no manifest names."""
        known = {run.token for run in self.runs()}
        for folder in (self.path / "inputs").iterdir():
            if not _abandoned(folder):
                continue
            if folder.name not in known:
                shutil.rmtree(self.path / "parts" / folder.name, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _manifest(self, number: int) -> Path:
        return self.path / "runs" / f"{number:08d}.json"

    # Parts ------------------------------------------------------------------------------------------

    def write(self, token: str, bucket: int, what: str, table: pa.Table) -> tuple[str, str]:
        """Write a part under a name that nobody else has: its name and its digest."""
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        name = f"{bucket}-{what}-{secrets.token_hex(8)}.parquet"
        _write(self.path / "parts" / token / name, sink.getvalue())
        return name, _digest(sink.getvalue())

    def read(self, run: Run, bucket: int, what: str) -> pa.Table | None:
        """A part as it was written; None where the run has none of this bucket."""
        names = run.parts.get(bucket)
        if names is None:
            return None
        name, written = names[what]
        try:
            content = (self.path / "parts" / run.token / name).read_bytes()
        except OSError as error:
            raise LedgerDamagedError(f"a part of run {run.number} cannot be read: {error.strerror}") from None
        if _digest(content) != written:
            raise LedgerDamagedError(f"a part of run {run.number} is damaged: its digest does not fit its content")
        return pq.read_table(io.BytesIO(content))

    def tables(self, what: str) -> Iterator[tuple[Run, pa.Table]]:
        """All parts of one kind."""
        for run in self.runs():
            for bucket in run.parts:
                table = self.read(run, bucket, what)
                if table is not None:
                    yield run, table


def spent(marks: str | os.PathLike[str]) -> pa.Table:
    """What was charged so far: one row for each budget group (by default a room), sorted by its name.

    Parameters
    ----------
    marks : str or path
        The folder of marks.

    Returns
    -------
    pyarrow.Table
        Columns `group`, `rooms`, `rows`, `draws` and `nats`. Only the names of groups tell of a place; none tells of a
        value or a draw.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spent(folder).num_rows
    0

    """
    found = [table.select(["group", "room", "rows", "draws", "micronats"]) for _, table in Marks(marks).tables(ROOMS)]
    if not found:
        names = {
            "group": pa.string(),
            "rooms": pa.int64(),
            "rows": pa.int64(),
            "draws": pa.int64(),
            "nats": pa.float64(),
        }
        return pa.schema(names).empty_table()
    whole = pa.concat_tables(found).group_by("group")
    sums = whole.aggregate([("room", "count_distinct"), ("rows", "sum"), ("draws", "sum"), ("micronats", "sum")])
    sums = sums.sort_by("group")
    columns = [sums["group"], sums["room_count_distinct"], sums["rows_sum"], sums["draws_sum"]]
    nats = pa.array(np.asarray(sums["micronats_sum"]) / MICRO)
    return pa.table([*columns, nats], names=["group", "rooms", "rows", "draws", "nats"])


def runs(marks: str | os.PathLike[str]) -> list[Run]:
    """The runs that the marks record, with what each charged and how many rows met each rule.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs(folder)
    []

    """
    return Marks(marks).runs()


def _parse(content: str, number: int) -> Run:
    written, _, text = content.partition("\n")
    text = text.removesuffix("\n")
    if digest(text) != written:
        raise LedgerDamagedError(f"manifest {number} is damaged: its digest does not fit its content")
    fields: Plain = json.loads(text)
    if fields.pop("format") != _FORMAT or fields["number"] != number:
        raise LedgerDamagedError(f"manifest {number} is none of this place")
    if fields.pop("version") > _VERSION:
        raise LedgerError(f"manifest {number} is of a newer version; this understudy knows up to {_VERSION}")
    parts = fields.pop("parts").items()
    fields["parts"] = {int(bucket): {what: (at[0], at[1]) for what, at in names.items()} for bucket, names in parts}
    return Run(**fields)


def _abandoned(folder: Path) -> bool:
    """Whether the driver of a scratch folder is no more."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False  # it is being made
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """A new file that only its owner may read, on the disk when this returns."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
