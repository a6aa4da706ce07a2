"""The ledger: what was drawn, what it cost, what was released, and where each filter stands.

One SQLite file, in WAL mode and with full synchronisation, that only its owner may read: it holds the
draws and the keys. Every change is one transaction, written before anything that depends on it is
released. A process that is killed at any moment leaves the state before or after a step, never between.
That holds through a power cut too if the disk keeps what it has confirmed to SQLite (synchronous=FULL);
no test cuts the power.

One process at a time writes; a lock file beside the ledger says so to others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from understudy.errors import BudgetError, ConfigurationError, LedgerDamagedError, LedgerError
from understudy.stream.lock import Lock
from understudy.stream.witness import Witness

SCHEMA = 1
_TABLES = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE streams(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, room TEXT NOT NULL, design TEXT NOT NULL,
    secret BLOB NOT NULL, insecure INTEGER NOT NULL, options TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE epochs(
    stream INTEGER NOT NULL, epoch INTEGER NOT NULL, source INTEGER NOT NULL, draw INTEGER NOT NULL,
    held INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (stream, epoch)) WITHOUT ROWID;
CREATE TABLE charges(
    id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, room TEXT NOT NULL, epoch INTEGER NOT NULL,
    kind TEXT NOT NULL, micronats INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE TABLE states(
    stream INTEGER PRIMARY KEY, count INTEGER NOT NULL, last INTEGER, content TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE outputs(stream INTEGER NOT NULL, key INTEGER NOT NULL, value, PRIMARY KEY (stream, key)) WITHOUT ROWID;
CREATE TABLE budgets(
    room TEXT PRIMARY KEY, total INTEGER, amount INTEGER, period INTEGER, spent TEXT NOT NULL) WITHOUT ROWID;
"""
MICRO = 1_000_000


class StreamRow(NamedTuple):
    """What the ledger knows of a stream, apart from its draws and its state."""

    id: int
    name: str
    room: str
    design: str
    secret: bytes
    insecure: bool
    options: dict[str, Any]


class StateRow(NamedTuple):
    """Where a filter stands: readings so far, the last key, and the rest as plain values."""

    readings: int
    last: int | None
    content: dict[str, Any]


class EpochRow(NamedTuple):
    """One epoch of a stream: who is played, by whom, and whether the draw is that of the epoch before."""

    epoch: int
    source: int
    draw: int
    held: bool


class Budget(NamedTuple):
    """What a room may give away, in micro-nats: in total, and in each period of so many seconds."""

    room: str
    total: int | None
    amount: int | None
    period: int | None
    when_spent: str


class Ledger:
    """A durable record of draws, charges, states and outputs, in one file.

    `retain` outputs of each stream are kept, so that a reading that comes again gets the same output;
    older ones are refused. `witness` is a folder that remembers, outside of the ledger, how far it had
    come, so that an older copy of it is refused (by default in the user's state folder; False for none).

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger(os.path.join(folder.name, "room.ledger"), witness=folder.name) as ledger:
    ...     ledger.limit("lab", total=5.0, amount=2.0, period=86_400)
    ...     ledger.spent("lab")
    0.0
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        retain: int = 1_000_000,
        witness: str | os.PathLike[str] | bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(retain, bool) or not isinstance(retain, int) or retain < 1:
            raise ConfigurationError(f"retain = {retain!r}; it must be a whole number of at least 1")
        self.path = os.path.abspath(os.fspath(path))
        self.retain, self._clock = retain, clock
        self._guard = threading.RLock()
        self._stored: dict[int, int] = {}
        _prepare(self.path)
        self._lock = Lock(self.path + ".lock")
        try:
            self._db = _connect(self.path)
            with faults(self.path):
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                if not self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    self._create()
                self.id = check_schema(self._db, self.path)
            self.witness = Witness.of(witness, self.id)
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        with self.transaction():
            for statement in _TABLES.split(";\n"):
                if statement.strip():
                    self._db.execute(statement)
            rows = [("schema", str(SCHEMA)), ("id", os.urandom(16).hex())]
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows)

    def __repr__(self) -> str:
        return f"Ledger({os.path.basename(self.path)})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file free."""
        db, self._db = getattr(self, "_db", None), None  # type: ignore[assignment]  # closed from here on
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()
        if hasattr(self, "witness"):
            self.witness.close()
        self._lock.release()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        with self._guard, faults(self.path):
            if self._db is None:
                raise LedgerError(f"{os.path.basename(self.path)} is closed")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *given: Any) -> list[Any]:
        with self._guard, faults(self.path):
            if self._db is None:
                raise LedgerError(f"{os.path.basename(self.path)} is closed")
            return self._db.execute(query, given).fetchall()

    # Streams and draws -------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The streams that are recorded."""
        return [name for (name,) in self._rows("SELECT name FROM streams ORDER BY id")]

    def stream(self, name: str) -> StreamRow | None:
        """What is recorded of a stream; None if nothing is."""
        found = self._rows(
            "SELECT id, name, room, design, secret, insecure, options, digest FROM streams WHERE name = ?", name
        )
        if not found:
            return None
        *row, options, written = found[0]
        if written != digest(*row, options):
            raise damaged(self.path, "a stream")
        number, title, room, design, secret, insecure = row
        return StreamRow(number, title, room, design, secret, bool(insecure), json.loads(options))

    def room(self, room: str) -> list[StreamRow]:
        """The streams of a room."""
        names = self._rows("SELECT name FROM streams WHERE room = ? ORDER BY id", room)
        return [row for (name,) in names if (row := self.stream(name)) is not None]

    def create(
        self,
        stream: StreamRow,
        charge: int,
        draw: Callable[[], EpochRow],
        state: Callable[[EpochRow], StateRow],
    ) -> tuple[int, EpochRow]:
        """Record a new stream, its first draw and its charge, in one transaction."""
        with self.transaction() as db:
            options = json.dumps(stream.options, sort_keys=True)
            number = db.execute("SELECT coalesce(max(id), 0) + 1 FROM streams").fetchone()[0]
            row = (number, stream.name, stream.room, stream.design, stream.secret, int(stream.insecure))
            db.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, options, digest(*row, options)))
            if not self._charge(number, stream.room, 0, "draw", charge):
                raise BudgetError(f"the budget of {stream.room!r} does not allow the draw; nothing is released")
            epoch = draw()
            self._epoch(number, epoch)
            self._state(number, state(epoch))
        return number, epoch

    def new_epoch(
        self,
        stream: StreamRow,
        source: int,
        draw: Callable[[], int],
        charge: int,
        state: Callable[[EpochRow], StateRow],
    ) -> EpochRow | None:
        """Record the draw of another epoch and its charge; None if the budget forbids it and says to stop."""
        with self.transaction():
            last = self.epoch(stream.id)
            if self._charge(stream.id, stream.room, last.epoch + 1, "draw", charge):
                epoch = EpochRow(last.epoch + 1, source, draw(), False)
            elif self._budget(stream.room).when_spent == "hold":
                epoch = EpochRow(last.epoch + 1, source, last.draw, True)
            else:
                return None
            self._epoch(stream.id, epoch)
            self._state(stream.id, state(epoch))
        return epoch

    def epoch(self, stream: int, number: int | None = None) -> EpochRow:
        """The last epoch of a stream, or the one of this number."""
        found = self._rows(
            "SELECT epoch, source, draw, held, digest FROM epochs WHERE stream = ? AND epoch <= ? "
            "ORDER BY epoch DESC LIMIT 1",
            stream,
            (1 << 62) if number is None else number,
        )
        if not found or found[0][4] != digest(stream, *found[0][:4]):
            raise damaged(self.path, "a draw")
        epoch, source, draw, held, _ = found[0]
        return EpochRow(epoch, source, draw, bool(held))

    def _epoch(self, stream: int, row: EpochRow) -> None:
        values = (stream, row.epoch, row.source, row.draw, int(row.held))
        self._db.execute("INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?)", (*values, digest(*values)))

    # Outputs and states ------------------------------------------------------------------------------

    def record(self, stream: int, outputs: Sequence[tuple[int, int, Any]], state: StateRow, charge: int = 0) -> None:
        """Record outputs and the state after them; they may be released when this returns."""
        with self.transaction() as db:
            if charge:
                room = db.execute("SELECT room FROM streams WHERE id = ?", (stream,)).fetchone()[0]
                if not self._charge(stream, room, self.epoch(stream).epoch, "residual", charge):
                    raise BudgetError(f"the budget of {room!r} does not allow more readings; nothing is released")
            db.executemany("INSERT INTO outputs VALUES (?, ?, ?)", outputs)
            self._state(stream, state)
            self._prune(stream, len(outputs))

    def output(self, stream: int, key: int) -> tuple[Any] | None:
        """What was released under a key."""
        found = self._rows("SELECT value FROM outputs WHERE stream = ? AND key = ?", stream, key)
        return found[0] if found else None

    def state(self, stream: int) -> StateRow:
        """Where the filter stands."""
        found = self._rows("SELECT count, last, content, digest FROM states WHERE stream = ?", stream)
        if not found or found[0][3] != digest(stream, *found[0][:3]):
            raise damaged(self.path, "a state")
        count, last, content, _ = found[0]
        return StateRow(count, last, json.loads(content))

    def set_state(self, stream: int, state: StateRow) -> None:
        """Record a state alone."""
        with self.transaction():
            self._state(stream, state)

    def _state(self, stream: int, row: StateRow) -> None:
        content = json.dumps(row.content, separators=(",", ":"))
        values = (stream, row.readings, row.last, content)
        self._db.execute(
            "INSERT INTO states VALUES (?, ?, ?, ?, ?) ON CONFLICT(stream) DO UPDATE SET "
            "count = excluded.count, last = excluded.last, content = excluded.content, digest = excluded.digest",
            (*values, digest(*values)),
        )

    def _prune(self, stream: int, more: int) -> None:
        """Forget outputs beyond `retain`, a tenth of them at a time."""
        if stream not in self._stored:
            self._stored[stream] = self._rows("SELECT count(*) FROM outputs WHERE stream = ?", stream)[0][0]
        else:
            self._stored[stream] += more
        if self._stored[stream] > self.retain + self.retain // 10:
            self._db.execute(
                "DELETE FROM outputs WHERE stream = ?1 AND key <= "
                "(SELECT key FROM outputs WHERE stream = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)",
                (stream, self.retain),
            )
            del self._stored[stream]

    # Budgets -----------------------------------------------------------------------------------------

    def limit(
        self,
        room: str,
        total: float | None = None,
        *,
        amount: float | None = None,
        period: float | None = None,
        when_spent: str = "stop",
    ) -> None:
        """Say what a room may give away in nats: in `total`, and `amount` in each `period` of so many seconds.

        When it is spent, "stop" releases nothing more, and "hold" keeps the last pseudo parameter for ever.
        """
        for name, value in (("total", total), ("amount", amount), ("period", period)):
            if value is not None and not 0.0 <= float(value) < 1e12:
                raise ConfigurationError(f"{name} = {value!r}; it must be a number, 0 or more")
        if (amount is None) != (period is None) or (period is not None and period < 1):
            raise ConfigurationError("amount and period go together: so many nats in so many seconds (1 or more)")
        if when_spent not in ("stop", "hold"):
            raise ConfigurationError(f"when_spent = {when_spent!r}; it must be 'stop' or 'hold'")
        # what is allowed is rounded down, what is charged is rounded up
        nats = [None if value is None else int(float(value) * MICRO) for value in (total, amount)]
        row = (room, *nats, None if period is None else int(period), when_spent)
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?, ?)", row)

    def spent(self, room: str) -> float:
        """Nats charged to a room so far."""
        return int(self._rows("SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ?", room)[0][0]) / MICRO

    def _budget(self, room: str) -> Budget:
        found = self._rows("SELECT room, total, amount, period, spent FROM budgets WHERE room = ?", room)
        return Budget(*found[0]) if found else Budget(room, None, None, None, "stop")

    def _charge(self, stream: int, room: str, epoch: int, kind: str, micronats: int) -> bool:
        """Book a charge, if the budget has room for it."""
        budget = self._budget(room)
        # the ledger's clock never goes back, or a clock set back would open a period again
        last = self._rows("SELECT coalesce(max(at), 0) FROM charges")[0][0]
        now = max(int(self._clock()), last)
        limits = [(budget.total, 0)]
        if budget.amount is not None and budget.period is not None:
            limits.append((budget.amount, now - now % budget.period))
        for allowed, since in limits:
            if allowed is not None:
                used = self._rows(
                    "SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ? AND at >= ?", room, since
                )[0][0]
                if used + micronats > allowed:
                    return False
        self._db.execute(
            "INSERT INTO charges(stream, room, epoch, kind, micronats, at) VALUES (?, ?, ?, ?, ?, ?)",
            (stream, room, epoch, kind, micronats, now),
        )
        return True


def _prepare(path: str) -> None:
    """Create the file with nobody else's rights, or refuse one that others may read."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise LedgerError(f"{os.path.basename(path)} is not a file; a ledger is one") from None
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise LedgerError(
                f"{os.path.basename(path)} can be read by others (mode {stat.S_IMODE(found.st_mode):o}); "
                "it holds secrets: chmod 600 it first"
            ) from None
    except OSError as error:
        raise LedgerError(f"{os.path.basename(path)} cannot be created: {error.strerror}") from None


def _connect(path: str, mode: str = "rw") -> sqlite3.Connection:
    from urllib.parse import quote

    with faults(path):
        return sqlite3.connect(
            f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )


def read_only(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection that can look and not write, while another process goes on."""
    name = os.path.abspath(os.fspath(path))
    if not os.path.isfile(name):
        raise LedgerError(f"{os.path.basename(name)} does not exist")
    db = _connect(name, "ro")
    check_schema(db, name)
    return db


def check_schema(db: sqlite3.Connection, path: str) -> str:
    """The identity of the ledger, if the file is one of a version that this one knows."""
    with faults(path):
        try:
            meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            raise damaged(path, "the file, which is no ledger,") from None
    if not str(meta.get("schema", "")).isdigit() or "id" not in meta:
        raise damaged(path, "the header")
    if int(meta["schema"]) > SCHEMA:
        raise LedgerError(
            f"{os.path.basename(path)} is of version {meta['schema']}; this understudy knows up to {SCHEMA}"
        )
    return str(meta["id"])


def damaged(path: str, what: str) -> LedgerDamagedError:
    """The error for a ledger that is not what it should be."""
    return LedgerDamagedError(
        f"{os.path.basename(path)} is damaged: {what} is not what was written; nothing is released. "
        "See the guide on backups before going on"
    )


@contextlib.contextmanager
def faults(path: str) -> Iterator[None]:
    """SQLite's errors as ours; its messages hold no values."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerError(f"{os.path.basename(path)}: {error}; nothing was recorded and nothing released") from None
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise LedgerError(f"{os.path.basename(path)}: a record is there already; nothing released") from None
        raise damaged(path, f"the file ({error})") from None


def digest(*values: Any) -> str:
    """A digest of a row, which tells damage (it is no signature)."""
    text = "\x1f".join(value.hex() if isinstance(value, bytes) else str(value) for value in values)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
