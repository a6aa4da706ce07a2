"""Runs over files: the same file again, however often it was interrupted.

For a live stream the ledger keeps every output for a while. For a file that would be the file again, so it keeps what
the outputs follow from: the position that the run began at, the draws, the key of the stream, and after each
batch how many rows there were and a digest of them. A run that comes again is replayed from its beginning with
the recorded draws, charges nothing, and goes on where it had stopped. Other rows than before are refused: a second
output for the same time, from other readings, is a second look at them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Ints
from understudy.errors import ConfigurationError, LedgerError, ReadingError
from understudy.stream import ledger_file, snapshot
from understudy.stream.cadence import Keys, number_key_array
from understudy.stream.engine import UNKNOWN, Batch, Recorder, Sources, StreamState, Thetas, Transaction
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import digest
from understudy.transform.readings import as_readings, finite_or_missing, warn_incomplete

if TYPE_CHECKING:
    from hashlib import _Hash

_MARK = 65_536  # rows after which a digest is kept, within a batch too: it can then be replayed in smaller ones


Hashes: TypeAlias = "tuple[_Hash, ...]"
"""Of readings, keys and private values apart, so that it does not matter how rows are cut into batches."""


class Mark(NamedTuple):
    """The end of rows that were recorded together: rows of the file, readings of the stream, digest of the rows."""

    rows: int
    readings: int
    content: str


class FileRun:
    """A run of a stream over a file; `Stream.run` makes one.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> stream = us.design(family, leakage=0.1, horizon=50, distortion="mae").stream(theta=0)
    >>> run = stream.run("today.csv")
    >>> run.apply([0.1, 0.2, 0.3], theta=[0, 0, 1]).shape
    (3,)
    >>> run.finish()
    >>> run.rows
    3
    """

    def __init__(self, stream: Recorder, name: str, abandon: bool = False) -> None:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ConfigurationError(f"name = {name!r}; a run needs a name in plain letters, such as that of its file")
        self._stream, self.name, self.rows = stream, name, 0
        self._hashes: Hashes = tuple(hashlib.sha256() for _ in range(3))
        self._marks: list[Mark] = []
        self._state: StreamState | None = None  # where the run stands, once it has begun or is replayed
        self._begun = self._broken = False
        self._abandoned: list[str] = []
        self.replaying = False
        self._former = False  # whether version 0.1 has recorded it, with missing readings between the rows
        ledger = stream.setup.ledger
        if ledger is not None:
            with stream.guard:
                self._find(ledger, abandon)

    @property
    def last(self) -> int | None:
        """The key of the last reading before the next row, as a number; None if there is none."""
        with self._stream.guard:
            return self._standing().position.last

    @property
    def recorded(self) -> int:
        """Rows that have been here before."""
        return self._marks[-1].rows if self._marks else 0

    def apply(
        self, Y: ArrayLike, keys: Keys | None = None, theta: Thetas | None = None, sources: Sources | None = None
    ) -> Array:
        """Disguise the next rows of the file, (T,) or (T, d), in one transaction; `theta` as in `Stream.apply`.

        `sources` are the private values by their positions, where those are known already. Rows that were recorded in
        one batch are replayed together: nothing of it goes out before all of it was compared with what was there.
        """
        stream = self._stream
        self._refuse_in_group()
        readings = as_readings(Y, stream.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        finite_or_missing(readings)
        warn_incomplete(readings, False, stacklevel=3)
        with stream.guard:
            before = self.rows, self._hashes, self._state, self.replaying
            try:
                given = sources if theta is None else stream.sources(theta, len(readings))
                out = self._parts(readings, keys, given)
            except BaseException:
                self._undo(before)
                raise
        if len(out) < len(readings):
            raise stream.setup.cut_short(out)
        return out[:, 0] if np.ndim(Y) == 1 else out

    def finish(self) -> None:
        """Say that the file has come to its end."""
        self._refuse_in_group()
        if self.replaying:
            raise ReadingError(
                f"the file has ended after {self.rows} rows, and {self.recorded} rows of it have been disguised before"
            )
        ledger = self._stream.setup.ledger
        if ledger is not None and self._begun:
            row = self._stream.setup.row.id
            ledger.transact(lambda db: _finish(db, row, self.name, ledger.path))

    def _refuse_in_group(self) -> None:
        if self._stream.setup.ledger is not None:
            self._stream.setup.ledger.refuse_in_group("a run over a file")

    # What is recorded ------------------------------------------------------------------------------------

    def _find(self, ledger: Ledger, abandon: bool) -> None:
        """What the ledger has of this run and of others."""
        stream = self._stream
        row = stream.setup.row.id
        found = ledger.rows("SELECT name, start, finished, digest FROM runs WHERE stream = ?", row)
        if any(digest(row, *values) != written for *values, written in found):
            raise ledger_file.damage_error(ledger.path, "a run")
        mine = next((start for name, start, _, _ in found if name == self.name), None)
        if mine is None:
            self._abandoned = [name for name, _, finished, _ in found if not finished]
            if self._abandoned and not abandon:
                raise LedgerError(
                    f"the run {self._abandoned[0]!r} of this stream was interrupted; run it again first, or abandon it"
                )
            return
        marks = ledger.rows(
            "SELECT rows, readings, content, digest FROM batches WHERE stream = ? AND name = ? ORDER BY rows",
            row, self.name,
        )  # fmt: skip
        if not marks or any(digest(row, self.name, *values) != written for *values, written in marks):
            raise ledger_file.damage_error(ledger.path, "a batch")
        self._marks = [Mark(rows, readings, content) for rows, readings, content, _ in marks]
        self._begun = self.replaying = True
        began, epoch, at, _ = snapshot.parts(snapshot.loads(mine.encode("ascii")))
        self._former = "cadence" not in began.options and stream.setup.cadence is not None
        self._state = StreamState(epoch, at, stream.setup.mapping(at.source, epoch.draw))

    def _standing(self) -> StreamState:
        """Where the run stands. For new rows that is where the stream stands, which must not have gone on elsewhere.

        Another private value may have been told to the stream in between. The rows tell it anew; so the filter goes
        on from the state that the run left, and a replay gives the same.
        """
        if self._broken:
            raise LedgerError(f"the run {self.name!r} was interrupted in a call; begin it again with Stream.run")
        if self.replaying and self._state is not None:
            return self._state
        head, mine = self._stream.current(), self._state
        if mine is None:
            return head
        if (head.position.readings, head.position.epoch) != (mine.position.readings, mine.position.epoch):
            raise LedgerError(
                f"the stream has gone on since the run {self.name!r} stopped, so the run can be replayed but not "
                "continued; give the further rows under another name"
            )
        return StreamState(
            head.epoch, head.position._replace(source=mine.position.source, state=mine.position.state), mine.map
        )

    def _undo(self, before: tuple[int, Hashes, StreamState | None, bool]) -> None:
        """After an error: as before the call, unless the ledger has gone on, as an interrupt can make it."""
        self.rows, self._hashes, self._state, self.replaying = before
        ledger = self._stream.setup.ledger
        if ledger is not None:
            query = "SELECT coalesce(max(rows), 0) FROM batches WHERE stream = ? AND name = ?"
            try:
                self._broken = ledger.rows(query, self._stream.setup.row.id, self.name)[0][0] != self.recorded
            except LedgerError:
                self._broken = True

    def _parts(self, Y: Array, keys: Keys | None, sources: Sources | None) -> Array:
        """Outputs of the next rows, those that were recorded together at a time."""
        stream, ledger = self._stream, self._stream.setup.ledger
        at = self._standing().position
        kind, numbers = number_key_array(at.kind, at.readings, keys, len(Y))
        stream.setup.check_keys(kind)
        if at.last is not None and len(Y) and numbers[0] <= at.last:
            raise ReadingError(
                f"the key of row {self.rows + 1} of the file does not come after the last one of the stream"
            )
        given = np.full(len(Y), UNKNOWN) if sources is None else np.asarray(sources)
        parts, done = [np.empty((0, stream.dim))], 0
        while done < len(Y):
            stop = self._until_mark(done, len(Y))
            state = self._standing()
            known = np.full(stop - done, state.position.source) if sources is None else given[done:stop]
            batch = Batch(Y[done:stop], kind, numbers[done:stop], known, done)
            if self.replaying and ledger is not None:
                out = self._replay(batch, given[done:stop], state, ledger)
            else:
                out = self._extend(batch, given[done:stop], state)
            parts.append(out)
            done += len(out)
            if done < stop:
                break
        return np.concatenate(parts)

    def _next_mark(self) -> Mark:
        """The end of the recorded batch that the next row belongs to."""
        return self._marks[bisect_right(self._marks, self.rows, key=lambda mark: mark.rows)]

    def _until_mark(self, done: int, count: int) -> int:
        """The row of this call at which the recorded batch ends that the next row belongs to."""
        if not self.replaying:
            return count
        end = self._next_mark().rows
        stop = done + end - self.rows
        if stop > count:
            raise ReadingError(
                f"rows {self.rows + 1} to {end} of this run were recorded together, and {count - done} "
                "of them are given; give them in one call, so that they can be compared before anything goes "
                f"out{self._note()}"
            )
        return stop

    def _note(self) -> str:
        """What to do about a run that version 0.1 has recorded."""
        if not self._former:
            return ""
        return (
            ". Version 0.1 has recorded this run, and counted the missing readings between its rows: it is replayed or "
            "finished by understudy 0.1; this version goes on with new rows under another name of the run (--abandon)"
        )

    def _replay(self, batch: Batch, given: Ints, state: StreamState, ledger: Ledger) -> Array:
        """The outputs of rows that have been here, if they are the same rows; `given` private values are -1 without."""
        stream, mark = self._stream, self._next_mark()
        hashes, content = _feed(self._hashes, batch, given)
        if mark.content != content:
            raise ReadingError(
                f"the rows up to {mark.rows} are not those that were disguised before under this name; a second "
                f"output from other readings, or other private values, would leak{self._note()}"
            )
        again = Transaction(stream.setup, state, lambda number: ledger.epoch_numbered(stream.setup.row.id, number))
        out = again.batch(batch, keep=False)
        if mark.readings != again.live.position.readings:
            raise LedgerError("a replay did not come to where the run stood; nothing is released")
        self._state, self._hashes, self.rows = again.live, hashes, mark.rows
        self.replaying = self.rows < self.recorded
        return out

    def _extend(self, batch: Batch, given: Ints, state: StreamState) -> Array:
        """The outputs of new rows, recorded with the digests of the rows."""
        stream, ledger, row = self._stream, self._stream.setup.ledger, self._stream.setup.row
        hashes, marks = self._hashes, list[Mark]()
        if stream.watch is not None:
            stream.watch.many(batch.Y)

        def work(run: Transaction) -> Array:
            nonlocal hashes
            out = run.batch(batch, keep=False)
            if ledger is None or run.readings is None:
                return out
            for a, b in _cuts(self.rows, len(out)):  # a stop of the budget may have cut it short
                part = batch._replace(Y=batch.Y[a:b], numbers=batch.numbers[a:b])
                hashes, content = _feed(hashes, part, given[a:b])
                marks.append(Mark(self.rows + b, int(run.readings[b - 1]), content))
            db = ledger.connection()
            if not self._begun:
                start = snapshot.make(row._replace(secret=b""), state.epoch, state.position, True).decode("ascii")
                for other in self._abandoned:
                    _finish(db, row.id, other, ledger.path)
                values = (row.id, self.name, start, 0)
                db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (*values, digest(*values)))
            rows = [(row.id, self.name, *mark) for mark in marks]
            db.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", [(*r, digest(*r)) for r in rows])
            return out

        out = stream.record(work, state)
        self._state, self._begun = stream.state, True
        self.rows += len(out)
        self._hashes = hashes
        self._marks += marks
        return out


def _cuts(rows: int, count: int) -> list[tuple[int, int]]:
    """The new rows of a call in pieces, cut where the number of rows of the file is a multiple of `_MARK`.

    >>> _cuts(65_000, 1000)
    [(0, 536), (536, 1000)]
    """
    ends = [*range(_MARK - rows % _MARK, count, _MARK), count] if count else []
    return list(zip([0, *ends], ends, strict=False))


def _feed(hashes: Hashes, batch: Batch, given: Ints) -> tuple[Hashes, str]:
    """The hashes after these rows, and their digest."""
    after = tuple(each.copy() for each in hashes)
    for each, array in zip(after, (batch.Y, batch.numbers, given.astype("<i2")), strict=True):
        each.update(np.ascontiguousarray(array).data)
    return after, "".join(each.hexdigest() for each in after)


def _finish(db: sqlite3.Connection, stream: int, name: str, path: str) -> None:
    found = db.execute("SELECT start FROM runs WHERE stream = ? AND name = ?", (stream, name)).fetchone()
    if found is None:
        raise ledger_file.damage_error(path, "the list of runs")
    db.execute(
        "UPDATE runs SET finished = 1, digest = ? WHERE stream = ? AND name = ?",
        (digest(stream, name, found[0], 1), stream, name),
    )
