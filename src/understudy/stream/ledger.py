"""The ledger: what was drawn, what it cost, what was released, and where each filter stands.

One SQLite file, in WAL mode and with full synchronisation, that only its owner may read: it holds the
draws and the keys. Every change is one transaction, written before anything that depends on it is
released. A process that is killed at any moment leaves the state before or after a step, never between.
That holds through a power cut too if the disk keeps what it has confirmed to SQLite (synchronous=FULL).

One process at a time writes; a lock file beside the ledger says so to others. Where somebody has gone around the
lock, or has deleted or replaced the file, the next transaction stops the ledger: what it would record could be lost, or
would be a second record of the same readings.

What rooms may give away, and what they have, are whole micro-nats, booked in the transaction that spends them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from numpy.typing import ArrayLike

from understudy._types import Array, Numbers, Value
from understudy.errors import ConfigurationError, LedgerBusyError, LedgerError
from understudy.stream import ledger_file as files
from understudy.stream.cadence import Key, Keys
from understudy.stream.ledger_file import (
    DRAW,
    MICRO,
    Budget,
    Entry,
    EpochRow,
    Lock,
    OutputRow,
    Position,
    Stored,
    StreamRow,
    all_budgets,
    all_streams,
    check_name,
    digest,
    exact_nats,
    is_as_written,
    set_options,
)
from understudy.stream.randomness import MasterKey
from understudy.stream.rollback_guard import RollbackGuard, check_rollback, rollback_error
from understudy.stream.snapshot import dump, load
from understudy.transform.readings import Reading

_OUTPUT = "INSERT INTO outputs VALUES (?, ?, ?, ?)"
_STATE = (
    "UPDATE states SET count = ?2, last = ?3, kind = ?4, source = ?5, tick = ?6, block = ?7, per_block = ?8, "
    "stopped = ?9, epoch = ?10, charged = ?11, serial = ?12, generation = ?13, memory = ?14, state = ?15, "
    "digest = ?16 WHERE stream = ?1"
)
_INSERTS = {
    "streams": "INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "epochs": "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?)",
    "charges": "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "states": "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
}
_SHARED = {"residual": "AND epoch = ? ", "decision": "AND epoch <= ? "}  # kinds of which many go into one row
_DAY = 86_400
_BITE = 256  # outputs that are forgotten in a transaction, besides twice as many as it records
_MARKS = 64  # of arrivals, in the time that outputs are kept
_LAST_KEY = 2**63 - 1
_MOST = 10**12
_T = TypeVar("_T")
_State = TypeVar("_State", bound="_Standing")
_ABANDONED: list[sqlite3.Connection] = []  # connections that a fork must neither use nor close


class _Standing(Protocol):
    """A stream at one moment."""

    @property
    def epoch(self) -> EpochRow: ...
    @property
    def position(self) -> Position: ...


class Ledger:
    """A durable record of draws, charges, states and outputs, in one file.

    `retain` outputs of each stream are kept, so that a reading that comes again gets the same output; older ones are
    refused. A timedelta keeps each for so long after its arrival; they are forgotten when further readings of the
    stream come, a few at a time. `rollback_guard` is a folder that remembers, outside of the ledger, how far it had
    come, so that an older copy of it is refused (by default in the user's state folder; False for none); `witness` is
    the name that it had before. ``rollback="charge"`` accepts an older copy, and draws again for its streams. `clock`
    tells the seconds that periods of budgets and times of arrival are counted in. A ledger needs a POSIX system, for
    its lock.

    `key` is a `MasterKey`, kept elsewhere, which the keys of the streams are wrapped with: draws to come then do not
    follow from the file alone. It is taken by a new ledger; `understudy key rewrap` changes that of another.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger(os.path.join(folder.name, "room.ledger"), rollback_guard=folder.name) as ledger:
    ...     ledger.limit("lab", total=5.0, amount=2.0, period=86_400)
    ...     ledger.spent("lab")
    0.0
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        retain: int | dt.timedelta = 1_000_000,
        rollback_guard: str | os.PathLike[str] | bool | None = None,
        rollback: str = "refuse",
        clock: Callable[[], float] = time.time,
        witness: str | os.PathLike[str] | bool | None = None,
        key: MasterKey | None = None,
    ) -> None:
        self._lifetime = math.ceil(retain.total_seconds()) if isinstance(retain, dt.timedelta) else None
        count = retain if isinstance(retain, int) and not isinstance(retain, bool) else 0
        if (count if self._lifetime is None else self._lifetime) < 1:
            raise ConfigurationError(f"retain = {retain!r}; it must be a whole number of at least 1, or a timedelta")
        check_rollback(rollback)
        self.path = os.path.realpath(os.fspath(path))
        self.retain, self.rollback, self._clock = retain, rollback, clock
        self._db: sqlite3.Connection | None = None
        self.guard = threading.RLock()  # of its streams too: whoever holds it has the whole ledger
        self._owner = os.getpid()
        self._count = count
        self._kept: dict[int, int] = {}  # outputs on disk, at most so many of a stream
        self._arrivals: dict[int, tuple[int, int | None]] = {}  # the last arrival, and a key up to which to forget
        self._serials: dict[int, int] = {}  # of the positions that were read or put last
        self._audited: dict[str, int] = {}  # rooms whose charges have been read once, and the last time of any
        self._last_stream = 0
        self._last_charge: int | None = None
        self._stopped: LedgerError | None = None  # why it is of no use until it is opened again
        self._version: int | None = None  # SQLite's count of what other connections wrote; None until it is read
        # None while they are changed, and until they have been read after that
        self._streams: dict[str, StreamRow] | None = None
        self._rooms: dict[str, list[str]] = {}  # names of the streams of a room
        self._budgets: dict[str, Budget] | None = None
        self._group: Group | None = None
        self._turn: _Turn | None = None  # of the member of a group that is running
        self._notes: dict[int, Position] = {}  # for the rollback guard, after the commit
        self._later = _nothing_later()
        self._charges_later: list[tuple[files.Field, ...]] | None = None  # of the stream that is begun so
        self._changed = False  # whether a member of a group has changed the options of a stream
        self.rollback_guard = RollbackGuard(None)
        self._key: MasterKey | None = None
        self._lock = Lock(self.path + ".lock")
        try:
            files.prepare(self.path)
            self._db, self._header, self._parts = files.open_to_write(self.path)
            self.id = self._header.id
            with self._faults():
                self._version = self._foreign_changes()
            self._take_key(key)
            numbers = [row.id for row in self._known().values()]
            self._limits()
            self._guard_folder = witness if rollback_guard is None else rollback_guard
            self.rollback_guard = RollbackGuard.of(self._guard_folder, self.id)
            if self.rollback_guard.newest() > max(numbers, default=0) and rollback == "refuse":
                raise rollback_error("one of its streams, which is not in it,")
        except BaseException:
            self.close()
            raise

    def _take_key(self, key: MasterKey | None) -> None:
        """The master key that the keys of streams are wrapped with, if it is that of the ledger; a new one takes it."""
        if key is not None and not isinstance(key, MasterKey):
            raise ConfigurationError(f"key is of type {type(key).__name__}; it must be a MasterKey, or None")
        name, wanted, given = os.path.basename(self.path), self._header.key, "" if key is None else key.id
        if wanted and wanted != given:
            what = f"not {given}" if given else "and none is given"
            raise LedgerError(f"the keys in {name} are wrapped with the master key {wanted}, {what}; give key=")
        if key is not None and not wanted:
            if self._known():
                raise LedgerError(
                    f"the keys in {name} are not wrapped; wrap them first: understudy key rewrap {name} --new-key ..."
                )
            self.rewrap(key)
        self._key = key

    def rewrap(self, key: MasterKey | None) -> None:
        """Wrap the keys of all streams with another master key, in one transaction; None stores them plain.

        No draw changes: draws follow from the keys, not from how they are stored. What was stored before is
        overwritten in the file, but copies and backups of it need the key that they were wrapped with.
        """

        def work(db: sqlite3.Connection) -> None:
            files.rewrap_streams(db, self._known().values(), self._header, key)

        with self.guard:
            self.refuse_in_group("rewrapping")
            with self._faults():
                self.connection().execute("PRAGMA secure_delete=ON")
            self.transact(work)
            self._key, self._header = key, self._header._replace(key="" if key is None else key.id)
            with self._faults():
                self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def __repr__(self) -> str:
        return f"Ledger({os.path.basename(self.path)})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def close(self) -> None:
        """Give the file free. A ledger that nobody holds any more closes itself."""
        if not hasattr(self, "_lock"):
            return  # its constructor refused
        if self._owner != os.getpid():
            if self._db is not None:
                _ABANDONED.append(self._db)
            self._db = None
            return
        with self.guard:
            db, self._db = self._db, None
            if db is not None:
                with contextlib.suppress(sqlite3.Error):
                    db.close()
            self.rollback_guard.close()
            self._lock.release()

    def guard_beside(self, name: str) -> RollbackGuard:
        """A rollback guard for something else that the ledger holds, in the folder of its own."""
        return RollbackGuard.of(self._guard_folder, os.path.join(self.id, name))

    def transact(self, work: Callable[[sqlite3.Connection], _T], done: Callable[[], None] | None = None) -> _T:
        """All of it or nothing: what `work` writes is on disk when this returns, or was never written.

        Within a group it is on disk when the group is; `done` is called then, and what is returned must not leave
        before. Nobody outside sees more of a `work` that fails than that it failed.
        """
        return self.record(lambda: work(self.connection()), done)

    def record(self, work: Callable[[], _T], done: Callable[[], None] | None = None) -> _T:
        """As `transact`, for `work` that asks for the connection where it needs it.

        In a group, what needs none, such as one more reading of a stream, waits in memory. It is written before
        anything is read or written otherwise, and at the latest before the commit: many rows of a table in one go.
        """
        with self.guard:
            self.check_turn()
            if self._group is not None:
                return self._transact_within(self._group, work, done)
            db = self.connection()
            try:
                self._begin(db)
                result = work()
                self._commit(db)
            except BaseException as error:
                self._abandon(db, error)
                raise
            self._finish(() if done is None else (done,))
            return result

    @contextlib.contextmanager
    def group(self) -> Iterator[Group]:
        """A group: what many streams do within the block is recorded in one commit, at its end.

        >>> import os, tempfile
        >>> import understudy as us
        >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
        >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
        >>> folder = tempfile.TemporaryDirectory()
        >>> with us.Ledger(os.path.join(folder.name, "rooms.ledger"), rollback_guard=False) as ledger:
        ...     with ledger.group() as group:
        ...         begun = [group.begin(design, 1, name=f"room {k}") for k in range(3)]
        ...     streams = [ticket.result() for ticket in begun]
        ...     with ledger.group() as group:
        ...         tickets = [group.step(stream, 0.5) for stream in streams]
        ...     outputs = [ticket.result() for ticket in tickets]
        >>> len(outputs)
        3
        >>> folder.cleanup()
        """
        with self.guard:
            if self._group is not None:
                raise LedgerError("a group is open already; groups do not stand in one another")
            db, group = self.connection(), Group(self)
            try:
                self._begin(db)
                self._group = group
                yield group
                group.check()
                self._commit(self.connection())
            except BaseException as error:
                self._group = None
                self._serials.clear()
                group.fail(files.as_ledger_error(error, self.path) if isinstance(error, files.ERRORS) else error)
                self._abandon(db, error)
                raise
            self._group, group.open = None, False
            self._finish(group.done)

    def check_turn(self) -> None:
        """Refuse what would return before the group is on disk that the same thread has open."""
        if self._group is not None and not self._group.running:
            raise LedgerError(
                "a group of this ledger is open, and nothing is released before its end: call the methods of the "
                "group (group.step(stream, y)) in its block, or wait for its end"
            )

    def when_abandoned(self, restore: Callable[[], None]) -> None:
        """Call this if the group that is open comes to nothing; without a group there is nothing to undo."""
        if self._group is not None:
            self._group.restores.append(restore)

    def refuse_in_group(self, what: str) -> None:
        """Refuse what cannot be undone with a group."""
        if self._group is not None:
            raise LedgerError(f"{what} cannot be in a group; call it outside of the block")

    def _transact_within(self, group: Group, work: Callable[[], _T], done: Callable[[], None] | None) -> _T:
        """One member of a group, in a savepoint of its own, which is released before the next one begins.

        A member that writes nothing but its next position needs none: what it would write waits until it has succeeded.
        """
        db = self._usable()
        self._changed, self._turn = False, _Turn()
        turn = self._turn
        try:
            group.check()
            result = work()
            if turn.saved:
                db.execute("RELEASE member")
        except BaseException as error:
            self._turn = None
            for stream in turn.notes:
                self._kept.pop(stream, None)
                self._arrivals.pop(stream, None)
            if self._changed:
                self._streams = None
            self._restore_savepoint(db, group, error, turn.saved)
            if isinstance(error, files.ERRORS):
                raise files.as_ledger_error(error, self.path) from None
            raise
        self._turn = None
        if group.ticket is not None:
            group.waiting += [_Waiting(group.ticket, row, self._notes.get(row.stream)) for row in turn.rows]
        self._notes.update(turn.notes)
        if done is not None:
            group.done.append(done)
        return result

    def _restore_savepoint(self, db: sqlite3.Connection, group: Group, error: BaseException, saved: bool) -> None:
        """Take back what a member wrote; or the whole group, where SQLite has ended its transaction or may have.

        A full disk ends the transaction, and the next member would then be recorded by itself.
        """
        ours = isinstance(error, Exception) and not isinstance(error, files.ERRORS)
        if db.in_transaction and (ours or isinstance(error, sqlite3.IntegrityError)):
            if not saved:  # it has written nothing
                return
            try:
                db.execute("ROLLBACK TO member")
                db.execute("RELEASE member")
            except sqlite3.Error as second:
                error = second
            else:
                return
        if group.failure is None:
            group.fail(files.as_ledger_error(error, self.path) if isinstance(error, files.ERRORS) else error)
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")

    def _begin(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            self._settled()
        self._notes = {}
        db.execute("BEGIN IMMEDIATE")
        self._check_sole_writer()

    def _commit(self, db: sqlite3.Connection) -> None:
        self._check_place(self._parts)
        db.execute("COMMIT")
        self._check_place(self._parts[:1])  # a commit waits for the disk, and the file may have gone meanwhile

    def _abandon(self, db: sqlite3.Connection, error: BaseException) -> None:
        """After an error: nothing of the transaction stays, on disk or in memory."""
        self._kept.clear()
        self._arrivals.clear()
        self._audited.clear()
        self._streams = self._budgets = self._last_charge = None
        self._later = _nothing_later()
        with contextlib.suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        if isinstance(error, files.ERRORS):
            self._forget()
            raise files.as_ledger_error(error, self.path) from None

    def _finish(self, done: Sequence[Callable[[], None]]) -> None:
        """What follows a commit."""
        notes, self._notes = self._notes, {}
        self.rollback_guard.note(notes)
        for call in done:
            call()

    def _check_sole_writer(self) -> None:
        """Stop if another connection has written: what is known here of the streams is not what is recorded."""
        version = self._foreign_changes()
        if self._version is None:
            self._version = version
        elif version != self._version:
            raise self._stop(
                LedgerBusyError(
                    f"another process has written to {os.path.basename(self.path)} since it was opened here, and no "
                    "lock has kept it out; nothing was recorded and nothing released here. Stop one of the two, and "
                    "open the ledger again"
                )
            )

    def _foreign_changes(self) -> int:
        return int(self.connection().execute("PRAGMA data_version").fetchone()[0])

    def _check_place(self, parts: files.Parts) -> None:
        """Stop if the files that are written are not those that the next process will find."""
        what = files.find_displacement(parts)
        if what is not None:
            raise self._stop(LedgerError(f"{what}; nothing is released. Put things right, and open the ledger again"))

    @property
    def stopped(self) -> bool:
        """Whether it is of no use until it is opened again."""
        return self._stopped is not None

    def _stop(self, error: LedgerError) -> LedgerError:
        """The error, which any further use of this ledger meets too."""
        self._stopped = error
        return error

    def _forget(self) -> None:
        """After an error of SQLite, which may count as a change by others: all streams are read anew."""
        self._version = None
        self._serials.clear()

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            with files.faults(self.path):
                yield
        except LedgerError:
            self._forget()
            raise

    def _settled(self) -> sqlite3.Connection:
        """The connection, with nothing half done: an interrupt may have cut a rollback short."""
        self.check_turn()
        db = self.connection()
        if db.in_transaction and self._group is None:
            with self._faults():
                db.execute("ROLLBACK")
        return db

    def connection(self) -> sqlite3.Connection:
        """The open connection, with all that waited written, and with a savepoint if a member of a group is running.

        It refuses after a fork, after `close`, and after an error that stopped the ledger.
        """
        db = self._usable()
        if self._later["streams"] or (self._group is not None and self._group.waiting):
            self._write_later(db)
        if self._turn is not None and not self._turn.saved:
            db.execute("SAVEPOINT member")
            self._turn.saved = True
        return db

    def _usable(self) -> sqlite3.Connection:
        if self._db is None:
            raise LedgerError(f"{os.path.basename(self.path)} is closed")
        if self._owner != os.getpid():
            raise LedgerError(f"{os.path.basename(self.path)} was opened before a fork; open it in one process only")
        if self._stopped is not None:
            raise type(self._stopped)(*self._stopped.args)
        return self._db

    def rows(self, query: str, *given: int | str) -> list[Any]:
        """What a query finds."""
        with self.guard, self._faults():
            return self.connection().execute(query, given).fetchall()

    # Streams and draws -------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The streams that are recorded."""
        with self.guard:
            return list(self._known())

    def stream(self, name: str) -> StreamRow | None:
        """What is recorded of a stream; None if nothing is."""
        with self.guard:
            return self._known().get(name)

    def room(self, room: str) -> list[StreamRow]:
        """The streams of a room."""
        with self.guard:
            known = self._known()
            return [known[name] for name in self._rooms.get(room, ())]

    def _known(self) -> dict[str, StreamRow]:
        if self._streams is None:
            with self.guard, self._faults():
                found = all_streams(self.connection(), self._key)
            if found is None:
                raise files.damage_error(self.path, "the list of streams")
            self._streams, self._rooms = found, {}
            self._last_stream = max((row.id for row in found.values()), default=0)
            for row in found.values():
                self._rooms.setdefault(row.room, []).append(row.name)
        return self._streams

    def create(
        self,
        stream: StreamRow,
        begin: Callable[[StreamRow], _State],
    ) -> _State:
        """Record a new stream, its first draw and its charge, in one transaction; `begin` makes its first state."""

        def work(db: sqlite3.Connection) -> _State:
            # a number that the rollback guard knows belonged to a stream that this copy has lost
            row = stream._replace(id=max(self._last_stream, self.rollback_guard.newest()) + 1)
            db.execute(_INSERTS["streams"], files.stream_values(row, self._key))
            state = begin(row)
            self.add_epoch(row.id, state.epoch)
            db.execute(_INSERTS["states"], _state_values(row.id, state.position))
            self._learn(row, state.position)
            return state

        check_name("name", stream.name)
        check_name("room", stream.room)
        with self.guard:
            if stream.name in self._known():
                raise LedgerError(f"the ledger has a stream of the name {stream.name!r} already")
            if self._group is not None and stream.room not in self._rooms and stream.room not in self._limits():
                return self._create_later(self._group, stream, begin)
            return self.transact(work)

    def _create_later(self, group: Group, stream: StreamRow, begin: Callable[[StreamRow], _State]) -> _State:
        """The same in a group, for a stream that has a room of its own without a budget: it depends on no other row.

        So what it writes can wait until something else is read or written, or until the commit. Thousands of streams
        are begun together, and rows of one table are written in one go.
        """
        self.check_turn()
        group.check()
        row = stream._replace(id=max(self._last_stream, self.rollback_guard.newest()) + 1)
        self._charges_later = []
        try:
            state = begin(row)
        finally:
            charges, self._charges_later = self._charges_later, None
        self._later["charges"] += charges
        self._later["streams"].append(files.stream_values(row, self._key))
        self._later["epochs"].append(_epoch_values(row.id, state.epoch))
        self._later["states"].append(_state_values(row.id, state.position))
        self._learn(row, state.position)
        return state

    def _learn(self, row: StreamRow, at: Position) -> None:
        """Know a stream that is new; if its transaction comes to nothing, all streams are read anew."""
        self._known()[row.name], self._last_stream = row, row.id
        self._rooms.setdefault(row.room, []).append(row.name)
        self._serials[row.id], self._kept[row.id] = at.serial, 0
        (self._notes if self._turn is None else self._turn.notes)[row.id] = at

    def _write_later(self, db: sqlite3.Connection) -> None:
        """Write what could wait."""
        later, self._later, group = self._later, _nothing_later(), self._group
        waiting: list[_Waiting] = []
        if group is not None:
            waiting, group.waiting = group.waiting, waiting
            if group.failure is not None:
                return  # its transaction may have ended, and what is written now would stay
        try:
            for table, rows in later.items():
                db.executemany(_INSERTS[table], rows)
            if waiting:
                self._write_waiting(db, waiting)
        except BaseException as error:
            ours = files.as_ledger_error(error, self.path) if isinstance(error, files.ERRORS) else error
            if group is not None:
                group.fail(ours)
            raise ours from None

    def _write_waiting(self, db: sqlite3.Connection, waiting: Sequence[_Waiting]) -> None:
        """Write the positions of members together; where a row does not fit what is there, each by itself.

        That is damage, and the error of one stream: its members fail from there on, and the others stand.
        """
        db.execute("SAVEPOINT waiting")
        try:
            _write_positions(db, [one.row for one in waiting])
        except sqlite3.IntegrityError:
            db.execute("ROLLBACK TO waiting")
            failed: dict[int, LedgerError] = {}
            for ticket, row, former in waiting:
                if row.stream not in failed:
                    db.execute("SAVEPOINT one")
                    try:
                        _write_positions(db, [row])
                    except sqlite3.IntegrityError as broken:
                        db.execute("ROLLBACK TO one")
                        failed[row.stream] = files.as_ledger_error(broken, self.path)
                        self._unlearn(row.stream, former)
                    db.execute("RELEASE one")
                ticket.fail(failed.get(row.stream))
        db.execute("RELEASE waiting")

    def _unlearn(self, stream: int, former: Position | None) -> None:
        """Forget where a stream would have stood, so that it is read again."""
        for known in (self._serials, self._kept, self._arrivals, self._notes):
            known.pop(stream, None)
        if former is not None:
            self._notes[stream] = former

    def standing(self, row: StreamRow) -> tuple[EpochRow, Position]:
        """The last draw of a stream and where it stands, if all that is recorded of it fits together."""
        with self.guard:
            self._settled()
            found = self.rows("SELECT * FROM states WHERE stream = ?", row.id)
            if not found or found[0][-1] != digest(*found[0][:-1]):
                raise files.damage_error(self.path, "a state")
            memory, state = found[0][-3:-1]
            at = Position(*found[0][1:-3])._replace(memory=None if memory is None else load(memory), state=load(state))
            epoch = self.epoch(row.id)
            query = "SELECT count(*), max(epoch) - min(epoch) + 1 FROM epochs WHERE stream = ?"
            count, wanted = self.rows(query, row.id)[0]
            if epoch.epoch != at.epoch or count != wanted:
                raise files.damage_error(self.path, "the list of draws")
            query = "SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ? AND stream = ?"
            if self.rows(query, row.room, row.id)[0][0] != at.charged:
                raise files.damage_error(self.path, "the list of charges")
            self._serials[row.id] = at.serial
        return epoch, at

    def serial(self, stream: int) -> int | None:
        """The serial of the position that was put last, recorded or not: another one is not the newest."""
        return self._serials.get(stream)

    def epoch(self, stream: int, after: int | None = None) -> EpochRow:
        """The last epoch of a stream; or the first one after a number, or else the last one."""
        query = "SELECT epoch, source, draw, held, digest FROM epochs WHERE stream = ? "
        found = [] if after is None else self.rows(query + "AND epoch > ? ORDER BY epoch LIMIT 1", stream, after)
        found = found or self.rows(query + "ORDER BY epoch DESC LIMIT 1", stream)
        if not found or found[0][4] != digest(stream, *found[0][:4]):
            raise files.damage_error(self.path, "a draw")
        number, source, draw, held, _ = found[0]
        return EpochRow(number, source, draw, bool(held))

    def epoch_numbered(self, stream: int, number: int) -> EpochRow:
        """A certain epoch of a stream."""
        found = self.epoch(stream, number - 1)
        if found.epoch != number:
            raise files.damage_error(self.path, "the list of draws")
        return found

    def output(self, stream: int, key: int) -> tuple[Stored] | None:
        """What was released under a key."""
        with self.guard:
            self._settled()
            found = self.rows('SELECT value, "check" FROM outputs WHERE stream = ? AND key = ?', stream, key)
        if not found:
            return None
        value, check = found[0]
        if not is_as_written(stream, key, value, check):
            raise files.damage_error(self.path, "an output")
        return (value,)

    def has_output(self, stream: int, first: int, last: int) -> bool:
        """Whether something was released under a key from `first` to `last`."""
        return bool(
            self.rows("SELECT 1 FROM outputs WHERE stream = ? AND key BETWEEN ? AND ? LIMIT 1", stream, first, last)
        )

    # Within a transaction ----------------------------------------------------------------------------

    def add_epoch(self, stream: int, row: EpochRow) -> None:
        """Record a draw."""
        self.connection().execute(_INSERTS["epochs"], _epoch_values(stream, row))

    def set_options(self, row: StreamRow) -> None:
        """Record the options of a stream anew, such as where its slots begin."""
        known, self._streams, self._changed = self._known(), None, True
        set_options(self.connection(), row)
        known[row.name] = row
        self._streams = known

    def put(self, stream: int, outputs: Sequence[OutputRow], at: Position, note: bool = True) -> None:
        """Record outputs, and the position after them; they may be released after the commit.

        The rollback guard is told then, unless its `note` of how far the stream had come is to stay.
        """
        row = _Row(stream, outputs, _state_values(stream, at))
        waits = self._turn is not None and not self._turn.saved and self._retains(stream, len(outputs))
        db = None if waits else self.connection()
        if self._turn is not None and stream not in self._serials:
            raise files.damage_error(self.path, "the position before this one")  # which waited, and did not fit
        self._serials[stream] = at.serial
        if note:
            (self._notes if self._turn is None else self._turn.notes)[stream] = at
        if db is None and self._turn is not None:
            self._turn.rows.append(row)
        elif db is not None:
            _write_positions(db, [row])
            if outputs and self._lifetime is None:
                self._keep_count(db, stream, len(outputs))
            elif outputs:
                self._keep_time(db, stream, len(outputs), outputs[-1][1])

    def charge(self, entry: Entry, forced: bool = False) -> bool:
        """Book a charge, if the budget has room for it, or if it is for what has happened already."""
        budget = self._budget(entry.room)
        last = self._audited.get(entry.room, None if entry.room in self._rooms else 0)  # a new room has no charges
        if last is None:
            rows = self.connection().execute("SELECT * FROM charges WHERE room = ?", (entry.room,)).fetchall()
            if any(digest(*values) != written for *values, written in rows):
                raise files.damage_error(self.path, "a charge")
            last = max((row[-2] for row in rows), default=0)
        # a clock that is set back must not open a period again
        now = self._audited[entry.room] = max(int(self._clock()), last)
        if not forced and not self._allows(budget, entry.micronats, now):
            return False
        if entry.micronats or entry.kind == DRAW:
            self._book(entry, now, budget.period or _DAY)
        return True

    def _allows(self, budget: Budget, micronats: int, now: int) -> bool:
        """Whether the budget has room for a charge; what costs nothing is always allowed."""
        if micronats == 0:
            return True
        if budget.total is not None and self._spent(budget.room) + micronats > budget.total:
            return False
        if budget.amount is None or budget.period is None:
            return True
        return self._spent(budget.room, now - now % budget.period) + micronats <= budget.amount

    def _book(self, entry: Entry, now: int, period: int) -> None:
        """Write a charge down.

        Those for readings of one epoch, and those for decisions, share a row for each period, so that rows stay few.
        """
        if entry.kind in _SHARED:
            db = self.connection()
            query = "SELECT id, micronats, at FROM charges WHERE room = ? AND stream = ? AND kind = ? "
            query += f"{_SHARED[entry.kind]} ORDER BY at DESC LIMIT 1"
            row = db.execute(query, (entry.room, entry.stream, entry.kind, entry.epoch)).fetchone()
            if row is not None and row[2] // period == now // period:
                total = row[1] + entry.micronats
                written = digest(row[0], *entry[:-1], total, now)
                query = "UPDATE charges SET epoch = ?, micronats = ?, at = ?, digest = ? WHERE id = ?"
                db.execute(query, (entry.epoch, total, now, written, row[0]))
                return
        if self._last_charge is None:
            self._last_charge = int(self.rows("SELECT coalesce(max(id), 0) FROM charges")[0][0])
        self._last_charge += 1  # one that was given to a charge that came to nothing is not given again
        values = (self._last_charge, *entry, now)
        if self._charges_later is not None:
            self._charges_later.append((*values, digest(*values)))
        else:
            self.connection().execute(_INSERTS["charges"], (*values, digest(*values)))

    def holds(self, room: str) -> bool:
        """Whether the room keeps its last draw when the budget is spent."""
        return self._budget(room).when_spent == "hold"

    def _retains(self, stream: int, more: int) -> bool:
        """Whether so many more outputs are kept without a look at those that are there; they are counted then."""
        if self._lifetime is not None and more:
            at, due = self._arrivals.get(stream, (None, None))
            return at is not None and due is None and int(self._clock()) < at + self._interval
        kept = self._kept.get(stream)
        if kept is None or kept + more - self._count > self._spare:
            return not more
        self._kept[stream] = kept + more
        return True

    @property
    def _spare(self) -> int:
        """Outputs beyond `retain` that a stream may have before some are forgotten."""
        return min(self._count // 10, _BITE)

    @property
    def _interval(self) -> int:
        """Seconds from one mark of arrivals to the next."""
        return max(1, (self._lifetime or 0) // _MARKS)

    def _keep_count(self, db: sqlite3.Connection, stream: int, more: int) -> None:
        """Forget outputs beyond `retain`, once there are a tenth more of them: a bounded number at a time."""
        kept = self._kept.get(stream)
        if kept is None:
            kept = int(db.execute("SELECT count(*) FROM outputs WHERE stream = ?", (stream,)).fetchone()[0])
        else:
            kept += more
        excess = kept - self._count
        if excess > self._spare:
            kept -= _forget_outputs(db, stream, min(excess, _BITE + 2 * more), _LAST_KEY)
        self._kept[stream] = kept

    def _keep_time(self, db: sqlite3.Connection, stream: int, more: int, last: int) -> None:
        """Forget outputs that arrived longer ago than `retain`, a bounded number at a time.

        When they arrived is known from marks, of which there are at most 64 in that time: all outputs of keys up to
        that of a mark had arrived by then. Without marks, as in a ledger that kept a number, time begins now.
        """
        lifetime, now = self._lifetime or 0, int(self._clock())
        at, due = self._arrivals.get(stream, (None, None))
        if at is None:
            at = db.execute("SELECT max(at) FROM arrivals WHERE stream = ?", (stream,)).fetchone()[0]
        if at is None or now >= at + self._interval:
            at = now  # not less than that of the last mark, though a clock was set back
            db.execute("INSERT OR REPLACE INTO arrivals VALUES (?, ?, ?)", (stream, now, last))
            query = "SELECT max(key) FROM arrivals WHERE stream = ? AND at <= ?"
            due = db.execute(query, (stream, now - lifetime)).fetchone()[0]
        if due is not None:
            bite = _BITE + 2 * more
            if _forget_outputs(db, stream, bite, due) < bite:
                db.execute("DELETE FROM arrivals WHERE stream = ? AND key <= ?", (stream, due))
                due = None
        self._arrivals[stream] = at, due

    # Budgets -----------------------------------------------------------------------------------------

    def limit(
        self,
        room: str,
        total: float | None = None,
        *,
        amount: float | None = None,
        period: dt.timedelta | float | None = None,
        when_spent: str = "stop",
    ) -> None:
        """Say what a room may give away in nats: in `total`, and `amount` in each `period`, seconds or a timedelta.

        When it is spent, "stop" releases nothing more, and "hold" keeps the last pseudo parameter instead of drawing
        again (a stream with memory takes the one of least expected cost, without a look at theta). What is said last
        holds; without figures there is no limit. Periods are counted from 1970, in UTC.
        """
        check_name("room", room)
        if (amount is None) != (period is None):
            raise ConfigurationError("amount and period go together: so many nats in so many seconds")
        if when_spent not in ("stop", "hold"):
            raise ConfigurationError(f"when_spent = {when_spent!r}; it must be 'stop' or 'hold'")
        nats = allowance("total", total), allowance("amount", amount)
        budget = Budget(room, *nats, _seconds(period), when_spent)
        self._budgets = None
        self.transact(lambda db: files.set_budget(db, budget))

    def spent(self, room: str) -> float:
        """Nats charged to a room so far."""
        with self.guard, self._faults():
            self._settled()
            return self._spent(room) / MICRO

    def _spent(self, room: str, since: int = 0) -> int:
        """Micro-nats charged to a room so far, or since a time."""
        query = "SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ? AND at >= ?"
        return int(self.connection().execute(query, (room, since)).fetchone()[0])

    def _budget(self, room: str) -> Budget:
        return self._limits().get(room) or Budget(room, None, None, None, "stop")

    def _limits(self) -> dict[str, Budget]:
        """All budgets; a lost one would be no limit at all."""
        if self._budgets is None:
            with self.guard, self._faults():
                found = all_budgets(self.connection())
            if found is None:
                raise files.damage_error(self.path, "a budget")
            self._budgets = found
        return self._budgets


def _forget_outputs(db: sqlite3.Connection, stream: int, count: int, last: int) -> int:
    """Forget the oldest outputs of a stream, so many at most and none after a key; returns how many there were."""
    query = (
        "DELETE FROM outputs WHERE stream = ?1 AND key <= (SELECT max(key) FROM (SELECT key FROM outputs "
        "WHERE stream = ?1 AND key <= ?3 ORDER BY key LIMIT ?2))"
    )
    return db.execute(query, (stream, count, last)).rowcount


def _nothing_later() -> dict[str, list[tuple[files.Field, ...]]]:
    """Rows that wait to be written, by their table."""
    return {table: [] for table in _INSERTS}


class _Row(NamedTuple):
    """What one more position of a stream is recorded as: its outputs, and its row of the states."""

    stream: int
    outputs: Sequence[OutputRow]
    state: tuple[files.Field, ...]


def _write_positions(db: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    """Record positions; an IntegrityError where one does not fit what is there."""
    outputs = rows[0].outputs if len(rows) == 1 else [output for row in rows for output in row.outputs]
    if outputs:
        db.executemany(_OUTPUT, outputs)
    if db.executemany(_STATE, [row.state for row in rows]).rowcount != len(rows):
        raise sqlite3.IntegrityError


def _epoch_values(stream: int, row: EpochRow) -> tuple[files.Field, ...]:
    """A row of the draws."""
    values = (stream, row.epoch, row.source, row.draw, int(row.held))
    return (*values, digest(*values))


def _state_values(stream: int, at: Position) -> tuple[files.Field, ...]:
    """A row of the states."""
    values = (stream, *at[:-2], None if at.memory is None else dump(at.memory), dump(at.state))
    return (*values, digest(*values))


# Groups ----------------------------------------------------------------------------------------------


class Ticket(Generic[_T]):
    """What a member of a group will have come to, once the group is on disk."""

    __slots__ = ("_error", "_group", "_value")

    def __init__(self, group: Group) -> None:
        self._group = group
        self._value: _T | None = None
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return "Ticket()"

    def exception(self) -> BaseException | None:
        """Why the member has failed, or the whole group; None if neither has."""
        if self._group.failure is not None:
            return self._group.failure
        if self._group.open:
            raise LedgerError("the group is not on disk yet; nothing of it is released before the end of its block")
        return self._error

    def result(self) -> _T:
        """The output, or whatever the call returns; raises the error of the member, or that of the group."""
        error = self.exception()
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]  # it was set where there was no error

    def fail(self, error: Exception | None) -> None:
        """An error that was found when the member was written, after it had come to something."""
        if error is not None:
            self._error, self._value = error, None


class _Turn:
    """What a member of a group does: whether it has a savepoint, as one that has written, and rows that wait."""

    __slots__ = ("notes", "rows", "saved")

    def __init__(self) -> None:
        self.saved = False
        self.rows: list[_Row] = []
        self.notes: dict[int, Position] = {}  # for the rollback guard


class _Waiting(NamedTuple):
    """A row that waits, of a member that has succeeded so far, and what the rollback guard was to be told before it."""

    ticket: Ticket[Any]
    row: _Row
    former: Position | None


class _Member(Protocol):
    """What a group asks of a stream."""

    @property
    def ledger(self) -> Ledger | None: ...
    @property
    def step(self) -> Callable[..., Numbers]: ...
    @property
    def apply(self) -> Callable[..., Array]: ...
    @property
    def becomes(self) -> Callable[[Value], None]: ...
    @property
    def new_epoch(self) -> Callable[..., None]: ...


class Group:
    """Calls of many streams in one commit; `Ledger.group` makes one.

    Each call is done at once, and gives a `Ticket`: its result can be had after the block. A call that fails takes
    nothing but itself back, for it has a savepoint of its own, or has only made rows that wait in memory; its ticket
    raises the error. Where the disk fails, or the block is left by an exception, nothing of the group is recorded, all
    tickets raise, and every stream stands where it stood.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.open, self.running = True, False
        self.failure: BaseException | None = None
        self.ticket: Ticket[Any] | None = None  # of the call that is running
        self.waiting: list[_Waiting] = []
        self.done: list[Callable[[], None]] = []
        self.restores: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"Group({os.path.basename(self.ledger.path)})"

    def call(self, function: Callable[..., _T], *given: Any, **options: Any) -> Ticket[_T]:
        """Call something that records in this ledger, as a member of the group."""
        self.check()
        if self.running:
            raise LedgerError("a member of a group is running; members do not stand in one another")
        ticket: Ticket[_T] = Ticket(self)
        self.running, self.ticket = True, ticket
        try:
            ticket._value = function(*given, **options)
        except Exception as error:  # whatever it is, it is for whoever asks for the result
            ticket._error = error
        finally:
            self.running = False
        self.check()
        return ticket

    def begin(self, design: Any, theta: Value = None, **options: Any) -> Ticket[Any]:
        """Begin a stream of a design, as `design.stream` does with these options; the result is the stream."""
        return self.call(design.stream, theta, self.ledger, **options)

    def step(self, stream: _Member, y: Reading, key: Key | None = None, theta: Value = None) -> Ticket[Numbers]:
        """One reading of a stream, as `Stream.step`."""
        return self.call(self._mine(stream).step, y, key, theta)

    def apply(self, stream: _Member, Y: ArrayLike, keys: Keys | None = None, theta: Any = None) -> Ticket[Array]:
        """A batch of a stream, as `Stream.apply`."""
        return self.call(self._mine(stream).apply, Y, keys, theta)

    def becomes(self, stream: _Member, theta: Value) -> Ticket[None]:
        """Another private value of a stream, as `Stream.becomes`."""
        return self.call(self._mine(stream).becomes, theta)

    def new_epoch(self, stream: _Member, theta: Value, marginal: ArrayLike | None = None) -> Ticket[None]:
        """Another draw of a stream, as `Stream.new_epoch`."""
        return self.call(self._mine(stream).new_epoch, theta, marginal)

    def check(self) -> None:
        """Refuse to go on with a group that has failed or has ended."""
        if self.failure is not None:
            raise self.failure
        if not self.open:
            raise LedgerError("the group has ended; open another one")

    def fail(self, error: BaseException) -> None:
        """Nothing of the group is recorded: streams stand where they stood."""
        if self.failure is None:
            self.failure = error
        self.waiting.clear()
        while self.restores:
            self.restores.pop()()

    def _mine(self, stream: _Member) -> _Member:
        if stream.ledger is not self.ledger:
            raise ConfigurationError("the stream is not one of the ledger that this group is of")
        return stream


def allowance(name: str, nats: float | None) -> int | None:
    """What is allowed, in whole millionths, rounded down; 1e-12 nats are forgiven, for sums of floats.

    >>> allowance("total", 4.35), allowance("total", 0.6 + 0.3), allowance("total", 1e-7), allowance("total", None)
    (4350000, 900000, 0, None)
    """
    return None if nats is None else math.floor(exact_nats(_number(name, nats)) * MICRO + Fraction(1, 1_000_000))


def _seconds(period: dt.timedelta | float | None) -> int | None:
    """The length of a period: a timedelta, or a number of seconds; whole seconds."""
    if period is None:
        return None
    length = _number("period", period.total_seconds() if isinstance(period, dt.timedelta) else period)
    if length < 1 or length != int(length):
        raise ConfigurationError(f"period = {period!r}; it must be a whole number of seconds, 1 or more")
    return int(length)


def _number(name: str, value: float) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number < _MOST:
        raise ConfigurationError(f"{name} = {value!r}; it must be a number, 0 or more")
    return number
