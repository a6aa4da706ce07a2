"""The ledger on disk: its rows and their digests, its tables, its file, and the lock that keeps others out.

A ledger is one SQLite file. Each row carries a digest, so that damage is noticed; a row that holds a draw or a key
shows neither in its text. Outputs are kept as a number for one channel, or eight bytes a channel for more, with a
checksum.

The file is made in one piece, beside and then renamed, and opened with the settings that durability rests on. Errors of
SQLite become ours by their code alone: its own texts can quote what stands in a row.

One process at a time writes a ledger. The lock is the system's (``fcntl.flock``), which gives it back when its holder
dies, however it dies; so a ledger needs a POSIX system.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterable, Iterator
from fractions import Fraction
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from understudy._types import Array, Json
from understudy.errors import ConfigurationError, LedgerBusyError, LedgerDamagedError, LedgerError
from understudy.stream.randomness import MasterKey, is_wrapped

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]  # then no ledger is opened

# Rows and their digests -------------------------------------------------------------------------------


MICRO = 1_000_000

_encode = json.JSONEncoder(sort_keys=True).encode
_TEXTS: dict[str, str] = {}  # options as they are stored, of streams of the same terms
_ONE = Struct("<qqd").pack
_HEAD = Struct("<qq").pack
_FIVE = Struct("<5q").pack
_NAN = float("nan")


class StreamRow(NamedTuple):
    """What the ledger knows of a stream, apart from its draws and its position."""

    id: int
    name: str
    room: str
    design: str
    secret: bytes
    insecure: bool
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"StreamRow({self.name!r})"


class EpochRow(NamedTuple):
    """One epoch of a stream: who is played, by whom, and whether the draw is that of the epoch before."""

    epoch: int
    source: int
    draw: int
    held: bool

    def __repr__(self) -> str:
        return f"EpochRow({self.epoch})"

    @property
    def is_placeholder(self) -> bool:
        """Whether it stands where no draw has been made yet: no draw before the first one can be held."""
        return self.held and self.epoch == 0


def placeholder(source: int) -> EpochRow:
    """What stands for the draw of a stream that has made none: nothing is read under it, and it says nothing."""
    return EpochRow(0, max(source, 0), 0, True)


class Position(NamedTuple):
    """Where a stream stands: all that changes with a reading, apart from the draw."""

    readings: int = 0  # so far
    last: int | None = None  # the key of the last one
    kind: str = ""  # of its keys
    source: int = 0  # the private value, by position
    tick: int | None = None  # the number of the epoch by the clock
    block: int = 0  # readings since the residual leak was last charged
    per_block: int = 0  # what a block of readings costs in this epoch, in micro-nats
    stopped: int = 0  # 1 when an epoch was refused, until one begins
    epoch: int = 0  # the number of the epoch in the ledger
    charged: int = 0  # micro-nats charged to this stream so far
    serial: int = 0  # how often a position was recorded
    generation: int = 0  # how often a draw was made again that no clock asked for
    memory: Any = None  # of the policy, where it has one, and of what guesses the private value
    state: Any = None  # of the filter

    def __repr__(self) -> str:
        return f"Position({self.readings} readings)"


Field: TypeAlias = int | float | str | bytes | tuple["Field", ...] | None
"""What a column of a table holds, or a whole row of another table."""
Stored: TypeAlias = float | bytes | None
"""An output in a table: a number, eight bytes a channel, or None where it is missing."""
OutputRow: TypeAlias = tuple[int, int, Stored, int]
"""Stream, key, output, checksum."""


class Budget(NamedTuple):
    """What a room may give away, in micro-nats: in total, and in each period of so many seconds."""

    room: str
    total: int | None
    amount: int | None
    period: int | None
    when_spent: str


DRAW, DECISION, RESIDUAL, LOST = "draw", "decision", "residual", "lost"
"""Kinds of charges."""


class Entry(NamedTuple):
    """A charge that is asked for."""

    stream: int
    room: str
    epoch: int
    kind: str
    micronats: int


def exact_nats(nats: float) -> Fraction:
    """A float as the shortest decimal that reads back as it: 0.1 is a tenth, not the 6e-18 more that the double is."""
    return Fraction(repr(float(nats)))


def micronats(nats: float) -> int:
    """Nats in whole millionths, rounded up.

    >>> micronats(0.3), micronats(0.1), micronats(0.3000001)
    (300000, 100000, 300001)
    """
    return math.ceil(exact_nats(nats) * MICRO)


def digest(*values: Field) -> str:
    """A digest of a row, which tells damage (it is no signature).

    >>> digest(1, "a", None) == digest(1, "a", "None")
    False
    """
    return hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()


def output_checksum(stream: int, key: int, value: float | bytes) -> int:
    """What tells damage of an output: a checksum of its stream, its key and its value.

    >>> output_checksum(1, 7, 1.5) == output_checksum(1, 8, 1.5)
    False
    """
    return crc32(value, crc32(_HEAD(stream, key))) if isinstance(value, bytes) else crc32(_ONE(stream, key, value))


def is_as_written(stream: Field, key: Field, value: Field, check: Field) -> bool:
    """Whether an output that was read is the one that was written; SQLite keeps NaN as NULL."""
    if value is None:
        value = _NAN
    if not isinstance(stream, int) or not isinstance(key, int) or not isinstance(value, (float, bytes)):
        return False
    return output_checksum(stream, key, value) == check


# Fleets --------------------------------------------------------------------------------------------


def decision_checksum(row: tuple[int, ...]) -> int:
    """What tells damage of a decision of a fleet."""
    return crc32(repr(tuple(row)).encode())


def seal(content: bytes) -> bytes:
    """A piece of a fleet with its digest behind it."""
    return content + hashlib.blake2b(content, digest_size=16).digest()


def unseal(sealed: bytes) -> bytes | None:
    """The piece again; None if it is not as it was written.

    >>> unseal(seal(b"rooms")), unseal(b"rooms")
    (b'rooms', None)
    """
    return sealed[:-16] if seal(sealed[:-16]) == sealed else None


def message_checksum(fleet: int, room: int, key: int, sequence: int, at: int, content: bytes) -> int:
    """What tells damage of a message in the outbox."""
    return crc32(content, crc32(_FIVE(fleet, room, key, sequence, at)))


# Outputs -------------------------------------------------------------------------------------------


def to_stored(stream: int, numbers: list[int], out: Array) -> list[OutputRow]:
    """Rows for the ledger: stream, key, output, checksum.

    >>> [row[:3] for row in to_stored(1, [7], np.array([[1.5]]))]
    [(1, 7, 1.5)]
    """
    values: list[Any]
    if out.shape[1] == 1:
        values = np.where(np.isnan(out), _NAN, out)[:, 0].tolist()  # one NaN, whatever its bits were
    else:
        values = [row.tobytes() for row in np.ascontiguousarray(out, dtype="<f8")]
    return [(stream, key, y, output_checksum(stream, key, y)) for key, y in zip(numbers, values, strict=True)]


def from_stored(value: Stored) -> Array:
    """One output again (d,), as it was to the bit."""
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype="<f8")
    return np.array([np.nan if value is None else value])


def output_mark(design: str, resolution: Json, estimated: bool, insecure: bool) -> dict[str, Json]:
    """What an output record carries, so that nobody takes it for a true reading."""
    mark: dict[str, Json] = {"disguised": True, "design": design}
    if resolution is not None:  # version 0.1 did not record it
        mark["resolution"] = resolution
    if estimated:
        mark["guarantee"] = "none, audit only: the private value is estimated"
    return {**mark, "insecure": True} if insecure else mark


# Streams and budgets -------------------------------------------------------------------------------------------


def check_name(what: str, name: str) -> None:
    r"""Refuse what cannot be the name of a stream or a room: names stand in messages, in tables and on terminals.

    >>> check_name("name", "lab")
    >>> check_name("name", "lab\n")
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: name = 'lab\n'; it must be a text of printable characters
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(f"{what} = {name!r}; it must be a text of printable characters")


def all_streams(db: sqlite3.Connection, key: MasterKey | None = None) -> dict[str, StreamRow] | None:
    """All streams, by a scan: one that an index or a page has lost would be drawn for again.

    Their keys are unwrapped with the master key, if they are wrapped. None if they are not what was written, or if
    there are not as many states.
    """
    found: dict[str, StreamRow] = {}
    columns = "SELECT id, name, room, design, secret, insecure, options, digest FROM streams NOT INDEXED"
    for *row, options, written in db.execute(columns):
        if written != digest(*row, options):
            return None
        number, name, room, design, stored, insecure = row
        if is_wrapped(stored) != (key is not None):
            return None
        secret = stored if key is None else key.unwrap(stored)
        found[name] = StreamRow(number, name, room, design, secret, bool(insecure), json.loads(options))
    states = [number for (number,) in db.execute("SELECT stream FROM states ORDER BY stream")]
    return found if states == [row.id for row in found.values()] else None


def stream_values(row: StreamRow, key: MasterKey | None) -> tuple[Field, ...]:
    """A row of the streams, with the key of the stream under the master key, if there is one."""
    values = _stream_values(row, row.secret if key is None else key.wrap(row.secret))
    return (*values, digest(*values))


def set_options(db: sqlite3.Connection, row: StreamRow) -> None:
    """Record the options of a stream anew."""
    stored = db.execute("SELECT secret FROM streams WHERE id = ?", (row.id,)).fetchone()[0]
    values = _stream_values(row, stored)
    db.execute("UPDATE streams SET options = ?, digest = ? WHERE id = ?", (values[-1], digest(*values), row.id))


def rewrap_streams(db: sqlite3.Connection, streams: Iterable[StreamRow], header: Header, key: MasterKey | None) -> None:
    """Record the keys of streams anew, wrapped with another master key, or plain; draws follow from what is wrapped."""
    for row in streams:
        values = stream_values(row, key)
        db.execute("UPDATE streams SET secret = ?, digest = ? WHERE id = ?", (values[4], values[-1], row.id))
    _set_header(db, header._replace(key="" if key is None else key.id))


def set_budget(db: sqlite3.Connection, budget: Budget) -> None:
    """Record what a room may give away from now on."""
    db.execute("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?, ?)", budget)
    rows = db.execute("SELECT * FROM budgets ORDER BY room").fetchall()
    db.execute("INSERT OR REPLACE INTO meta VALUES ('budgets', ?)", (digest(*rows),))


def all_budgets(db: sqlite3.Connection) -> dict[str, Budget] | None:
    """What rooms may give away; None if that is not what was written."""
    rows = db.execute("SELECT * FROM budgets ORDER BY room").fetchall()
    written = db.execute("SELECT value FROM meta WHERE name = 'budgets'").fetchone()
    if written is None or written[0] != digest(*rows):
        return None
    return {row[0]: Budget(*row) for row in rows}


def _options_text(options: dict[str, Any]) -> str:
    """The options of a stream as they are stored."""
    name = repr(options)  # in which 1, 1.0 and True are three things
    text = _TEXTS.get(name)
    if text is None:
        if len(_TEXTS) >= 64:
            _TEXTS.clear()
        text = _TEXTS[name] = _encode(options)
    return text


def _stream_values(row: StreamRow, stored: bytes) -> tuple[Field, ...]:
    return (row.id, row.name, row.room, row.design, stored, int(row.insecure), _options_text(row.options))


# The file ------------------------------------------------------------------------------------------


Parts = tuple[tuple[str, int, int], ...]  # path, device and number of each file

SCHEMA = 4
"""Versions of the tables: 1 and 2 are of before 0.1 and of 0.1 and 0.2; `open_to_write` brings them up."""
_STATES = (
    "CREATE TABLE states(stream INTEGER PRIMARY KEY, count INTEGER NOT NULL, last INTEGER, kind TEXT NOT NULL, "
    "source INTEGER NOT NULL, tick INTEGER, block INTEGER NOT NULL, per_block INTEGER NOT NULL, "
    "stopped INTEGER NOT NULL, epoch INTEGER NOT NULL, charged INTEGER NOT NULL, serial INTEGER NOT NULL, "
    "{}state TEXT NOT NULL, digest TEXT NOT NULL)"
)
_STATES_OF = {
    1: _STATES.format(""),
    2: _STATES.format("memory TEXT, "),
    3: _STATES.format("generation INTEGER NOT NULL DEFAULT 0, memory TEXT, "),
}
_STATES_OF[4] = _STATES_OF[3]
TABLES = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE streams(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, room TEXT NOT NULL, design TEXT NOT NULL, "
    "secret BLOB NOT NULL, insecure INTEGER NOT NULL, options TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE epochs(stream INTEGER NOT NULL, epoch INTEGER NOT NULL, source INTEGER NOT NULL, "
    "draw INTEGER NOT NULL, held INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (stream, epoch)) WITHOUT ROWID",
    "CREATE TABLE charges(id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, room TEXT NOT NULL, epoch INTEGER NOT NULL, "
    "kind TEXT NOT NULL, micronats INTEGER NOT NULL, at INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE INDEX charges_of_rooms ON charges(room, at)",
    _STATES_OF[SCHEMA],
    "CREATE TABLE runs(stream INTEGER NOT NULL, name TEXT NOT NULL, start TEXT NOT NULL, finished INTEGER NOT NULL, "
    "digest TEXT NOT NULL, PRIMARY KEY (stream, name)) WITHOUT ROWID",
    "CREATE TABLE batches(stream INTEGER NOT NULL, name TEXT NOT NULL, rows INTEGER NOT NULL, "
    "readings INTEGER NOT NULL, content TEXT NOT NULL, digest TEXT NOT NULL, "
    "PRIMARY KEY (stream, name, rows)) WITHOUT ROWID",
    'CREATE TABLE outputs(stream INTEGER NOT NULL, key INTEGER NOT NULL, value, "check" INTEGER NOT NULL, '
    "PRIMARY KEY (stream, key)) WITHOUT ROWID",
    "CREATE TABLE budgets(room TEXT PRIMARY KEY, total INTEGER, amount INTEGER, period INTEGER, "
    "spent TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE fleets(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, design TEXT NOT NULL, key TEXT NOT NULL, "
    "options TEXT NOT NULL, serial INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE decisions(fleet INTEGER NOT NULL, room INTEGER NOT NULL, tick INTEGER NOT NULL, "
    "generation INTEGER NOT NULL, source INTEGER NOT NULL, draw INTEGER NOT NULL, held INTEGER NOT NULL, "
    'micronats INTEGER NOT NULL, "check" INTEGER NOT NULL, PRIMARY KEY (fleet, room, tick)) WITHOUT ROWID',
    "CREATE TABLE buckets(id INTEGER PRIMARY KEY, fleet INTEGER NOT NULL, bucket INTEGER NOT NULL, "
    "serial INTEGER NOT NULL, content BLOB NOT NULL, UNIQUE (fleet, bucket))",
    "CREATE TABLE fleet_runs(fleet INTEGER NOT NULL, name TEXT NOT NULL, rows TEXT NOT NULL, start BLOB NOT NULL, "
    "PRIMARY KEY (fleet, name))",
    # outputs of keys up to `key` had arrived before the second `at`; a wrong row only forgets outputs early
    "CREATE TABLE arrivals(stream INTEGER NOT NULL, at INTEGER NOT NULL, key INTEGER NOT NULL, "
    "PRIMARY KEY (stream, at)) WITHOUT ROWID",
    # what a service sends, in the bytes that leave; `sent` is 1 when it was taken
    "CREATE TABLE outbox(id INTEGER PRIMARY KEY, fleet INTEGER NOT NULL, room INTEGER NOT NULL, key INTEGER NOT NULL, "
    'sequence INTEGER NOT NULL, at INTEGER NOT NULL, content BLOB NOT NULL, "check" INTEGER NOT NULL, '
    "sent INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX outbox_of_rooms ON outbox(fleet, room, key)",
    "CREATE INDEX outbox_unsent ON outbox(id) WHERE sent = 0",
    "CREATE TABLE private_values(fleet INTEGER NOT NULL, room INTEGER NOT NULL, since INTEGER NOT NULL, "
    'source INTEGER NOT NULL, "check" INTEGER NOT NULL, PRIMARY KEY (fleet, room, since)) WITHOUT ROWID',
)
_SINCE = {"runs": 2, "batches": 2, "fleets": 3, "decisions": 3, "buckets": 3, "fleet_runs": 3, "arrivals": 3}
_SINCE |= {"outbox": 4, "private_values": 4}
"""The version that each table is of, where that is not the first."""
SETTINGS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",  # macOS: the drive's own cache too
    "PRAGMA cell_size_check=ON",
    "PRAGMA journal_size_limit=16777216",
    "PRAGMA cache_size=-16384",  # kB: what a large group changes stays in memory until its commit
    "PRAGMA temp_store=MEMORY",  # what savepoints keep of pages is secret too, and quick
)

# SQLite's text about a damaged list of tables may be none
ERRORS = (sqlite3.Error, UnicodeDecodeError)
_TOLD = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk refuses (an error, or a limit of file sizes)",
    "SQLITE_READONLY": "the file cannot be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_PERM": "the file cannot be opened",
    "SQLITE_BUSY": "another program holds the file",
    "SQLITE_LOCKED": "another program holds the file",
    "SQLITE_NOMEM": "there is not enough memory",
    "SQLITE_PROTOCOL": "another program holds the file",
}


def prepare(path: str) -> None:
    """Make the file if there is none, with nobody else's rights; refuse one that others may read. Needs the lock."""
    name = os.path.basename(path)
    if not os.path.lexists(path):
        if os.path.lexists(path + "-wal"):
            raise damage_error(path, "the file itself, of which only the part ending in -wal is there,")
        _create(path)
        return
    for part in (path, path + "-wal", path + "-shm"):
        try:
            found = os.stat(part)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise LedgerError(f"{os.path.basename(part)} is not a file; a ledger is one")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise LedgerError(
                f"{os.path.basename(part)} can be read by others (mode {stat.S_IMODE(found.st_mode):o}); "
                "it holds secrets: chmod 600 it first"
            )
        if found.st_nlink > 1:
            raise LedgerError(f"{name} has two names (a hard link); two processes could write it at once")
        if part == path and not found.st_size:
            raise damage_error(path, "the file, which is empty,")


def _create(path: str) -> None:
    """A whole ledger or none: written beside, then renamed."""
    new = path + ".new"
    try:
        for left in (new, new + "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with faults(path), contextlib.closing(connect(new)) as db:
            db.execute("BEGIN")
            for statement in TABLES:
                db.execute(statement)
            db.execute("INSERT INTO meta VALUES ('budgets', ?)", (digest(),))
            _set_header(db, Header(os.urandom(16).hex(), SCHEMA))
            db.execute("COMMIT")
        os.rename(new, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise LedgerError(f"{os.path.basename(path)} cannot be created: {error.strerror}") from None


def sync_folder(folder: str) -> None:
    """Hand the names in a folder to the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def connect(path: str, mode: str = "mode=rw") -> sqlite3.Connection:
    """A connection; texts that are no longer texts come back with marks in them, and fail their digest."""
    from urllib.parse import quote

    with faults(path):
        db = sqlite3.connect(
            f"file:{quote(path)}?{mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


class Header(NamedTuple):
    """What a ledger says of itself: its identity, the version of its tables, and the id of its master key, if any."""

    id: str
    schema: int
    key: str = ""

    @property
    def rows(self) -> dict[str, str]:
        """As it is stored; without a master key as it always was."""
        parts = {"schema": str(self.schema), "id": self.id} | ({"key": self.key} if self.key else {})
        return {**parts, "digest": digest(*parts.values())}


def _set_header(db: sqlite3.Connection, header: Header) -> None:
    db.execute("DELETE FROM meta WHERE name = 'key'")
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", header.rows.items())


def open_to_write(path: str) -> tuple[sqlite3.Connection, Header, Parts]:
    """A connection with the settings that durability rests on, the header of the ledger, and its files."""
    before = _parts(path)
    db = connect(path)
    try:
        header = check_schema(db, path)  # first: a database of somebody else's is not touched
        with faults(path):
            if db.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise LedgerError(f"{os.path.basename(path)}: this disk does not allow a write-ahead log")
            for setting in SETTINGS:
                db.execute(setting)
            db.execute("BEGIN IMMEDIATE")  # a file that cannot be written is refused now, not at the first reading
            if header.schema == SCHEMA:
                db.execute("UPDATE meta SET value = value WHERE name = 'schema'")
                db.execute("ROLLBACK")
            else:
                header = _bring_up(db, path, header)
                db.execute("COMMIT")
        parts = _parts(path)
        if parts[:1] != before[:1]:
            raise LedgerError(f"{os.path.basename(path)} was replaced while it was opened; open it again")
        return db, header, parts
    except BaseException:
        db.close()
        raise


def _parts(path: str) -> Parts:
    """The files that a connection keeps open, as far as they are there, the ledger itself first."""
    found = []
    for part in (path, path + "-wal", path + "-shm"):
        with contextlib.suppress(FileNotFoundError):
            stands = os.stat(part)
            found.append((part, stands.st_dev, stands.st_ino))
    return tuple(found)


def find_displacement(parts: Parts) -> str | None:
    """What has become of the files of an open ledger, if they are not where they were; None if they are.

    SQLite goes on with a file that has lost its name, and nobody will find what it writes.
    """
    for part, device, number in parts:
        try:
            found = os.stat(part)
        except OSError:
            return f"{os.path.basename(part)} was deleted or moved while the ledger was open"
        if found.st_ino != number or found.st_dev != device:
            return f"{os.path.basename(part)} was replaced by another file while the ledger was open"
        if found.st_nlink > 1:
            return f"{os.path.basename(part)} was given a second name (a hard link) while the ledger was open"
    return None


def read_only(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection that can look and not write, while another process goes on."""
    name = os.path.realpath(os.fspath(path))
    if not os.path.isfile(name):
        raise LedgerError(f"{os.path.basename(name)} does not exist")
    # a ledger that nobody has open has no -wal; read in the usual way, SQLite would leave one behind
    db = connect(name, "mode=ro" if os.path.exists(name + "-wal") else "immutable=1")
    try:
        with faults(name):
            db.execute("BEGIN")  # all that is read is of one moment
        if check_schema(db, name).schema < 2:
            raise LedgerError(
                f"{os.path.basename(name)} is of an older version; open it for writing once, which brings it up"
            )
    except BaseException:
        db.close()
        raise
    return db


def _bring_up(db: sqlite3.Connection, path: str, header: Header) -> Header:
    """Bring a ledger of an older version up to this one, within a transaction: its states, tables and header.

    Streams that exist go on with their draws and the index of these; all states are of generation 0.
    """
    if header.schema < 3:
        states = []
        for *values, written in db.execute("SELECT * FROM states ORDER BY stream").fetchall():
            if written != digest(*values):
                raise damage_error(path, "a state")
            memory = () if header.schema >= 2 else (None,)
            row = (*values[:12], 0, *memory, *values[12:])
            states.append((*row, digest(*row)))
        db.execute("DROP TABLE states")
        db.execute(_STATES_OF[SCHEMA])
        db.executemany("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", states)
    former = _tables_of(header.schema) | {_STATES_OF[SCHEMA]}
    for table in TABLES:  # in their order: an index comes after its table
        if table not in former:
            db.execute(table)
    header = header._replace(schema=SCHEMA)
    _set_header(db, header)
    return header


def _tables_of(schema: int) -> set[str]:
    """The tables of a ledger of this version."""
    names = {table: table.split("(")[0].split()[-1] for table in TABLES}
    found = {table for table in TABLES if _SINCE.get(names[table], 1) <= schema and names[table] != "states"}
    return found | {_STATES_OF[schema]}


def check_schema(db: sqlite3.Connection, path: str) -> Header:
    """The header of the ledger, if the file is one of a version that this one knows."""
    with faults(path):
        found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
        if TABLES[0] not in found:
            raise damage_error(path, "the file, which is no ledger,")
        meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    schema, identity, key = (str(meta.get(name, "")) for name in ("schema", "id", "key"))
    if schema == "1" and "digest" not in meta:
        raise LedgerError(
            f"{os.path.basename(path)} was made before the first version; it has no streams: delete it, and begin anew"
        )
    header = Header(identity, int(schema) if schema.isdecimal() else 0, key)
    if meta.get("digest") != header.rows["digest"]:
        raise damage_error(path, "the header")
    version = header.schema
    if not 1 <= version <= SCHEMA:
        raise LedgerError(
            f"{os.path.basename(path)} is of version {schema}; this understudy knows versions up to {SCHEMA}: take a "
            "newer one"
        )
    if found != _tables_of(version):
        raise damage_error(path, "the list of tables")
    return header


def damage_error(path: str, what: str) -> LedgerDamagedError:
    """The error for a ledger that is not what it should be."""
    return LedgerDamagedError(
        f"{os.path.basename(path)} is damaged: {what} is not what was written; nothing is released. "
        "See the guide on streams before going on"
    )


def as_ledger_error(error: BaseException, path: str) -> LedgerError:
    """An error of SQLite as one of ours, without its text."""
    code = str(getattr(error, "sqlite_errorname", ""))
    if code.endswith("_FSYNC"):  # it stands in the log, and is found there if the process dies before the next write
        return LedgerError(
            f"{os.path.basename(path)}: the disk does not confirm what was written ({code}); nothing is released, and "
            "whether it was recorded is known when the ledger is opened again"
        )
    told = _TOLD.get("_".join(code.split("_")[:2]))
    if told is None:  # our statements are fixed, so anything else means that the file is not what they expect
        return damage_error(path, f"the file ({code or type(error).__name__})")
    return LedgerError(f"{os.path.basename(path)}: {told} ({code}); nothing was recorded and nothing released")


@contextlib.contextmanager
def faults(path: str) -> Iterator[None]:
    """Errors of SQLite as ours."""
    try:
        yield
    except ERRORS as error:
        raise as_ledger_error(error, path) from None


# The lock ------------------------------------------------------------------------------------------


_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK)


class Lock:
    """Held from the constructor to `release`, or until nobody has the object any more."""

    def __init__(self, path: str) -> None:
        self.path, self._file = os.path.realpath(path), -1
        if fcntl is None:
            raise ConfigurationError(
                "a ledger needs a POSIX system (Linux, macOS): its lock is fcntl.flock, which this Python does not "
                "have; without it two processes could draw twice for one reading. Streams without a ledger work here"
            )
        name = os.path.basename(path).removesuffix(".lock")
        if self.path in _HELD:
            raise LedgerBusyError(f"{name} is open in this process already; close it first, or use the open one")
        try:
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise LedgerError(f"{name} cannot be locked: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            self._close()
            if error.errno not in _TAKEN:
                raise LedgerError(f"{name} cannot be locked: {error.strerror}; keep it on a local disk") from None
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise LedgerBusyError(f"{name} is in use by {who}; one process at a time writes a ledger") from None
        _HELD[self.path] = self
        with contextlib.suppress(OSError):  # for the message only
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others in. The file stays: to delete it would let two processes lock two files of one name."""
        if self._file >= 0:
            _HELD.pop(self.path, None)
            self._close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)


# The system lets one process lock a file twice.
_HELD: weakref.WeakValueDictionary[str, Lock] = weakref.WeakValueDictionary()


def _in_child() -> None:
    """A fork shares the lock of its parent, and would keep it after the parent has let go."""
    for lock in list(_HELD.values()):
        lock.release()


if hasattr(os, "register_at_fork"):  # POSIX
    os.register_at_fork(after_in_child=_in_child)
