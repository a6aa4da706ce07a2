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
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array
from understudy.errors import ConfigurationError, LedgerError, ReadingError
from understudy.stream import ledger_file as _ledger_file
from understudy.stream import snapshot
from understudy.stream.cadence import number_array
from understudy.stream.engine import UNTOLD, Changes, Live, Run
from understudy.stream.ledger_file import digest
from understudy.transform.readings import as_readings, finite_or_missing, warn_incomplete

if TYPE_CHECKING:
    from understudy.stream.ledger import Ledger
    from understudy.stream.stream import Stream


_MARK = 65_536  # rows after which a digest is kept, within a batch too: it can then be replayed in smaller ones


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

    def __init__(self, stream: Stream, name: str, abandon: bool = False) -> None:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ConfigurationError(f"name = {name!r}; a run needs a name in plain letters, such as that of its file")
        self._stream, self.name, self.rows = stream, name, 0
        # of readings, keys and private values apart, so that it does not matter how rows are cut into batches
        self._hashes = tuple(hashlib.sha256() for _ in range(3))
        # after each batch that is recorded: rows of the file, readings of the stream, digest
        self._marks: list[tuple[int, int, str]] = []
        self._live: Live | None = None  # where the run stands, once it has begun or is replayed
        self._begun = self._broken = False
        self._abandoned: list[str] = []
        self.replaying = False
        self._former = False  # whether version 0.1 has recorded it, with missing readings between the rows
        ledger = stream._setup.ledger
        if ledger is not None:
            with stream._guard:
                self._find(ledger, abandon)

    @property
    def last(self) -> int | None:
        """The key of the last reading before the next row, as a number; None if there is none."""
        with self._stream._guard:
            return self._standing().at.last

    @property
    def recorded(self) -> int:
        """Rows that have been here before."""
        return self._marks[-1][0] if self._marks else 0

    def apply(self, Y: Any, keys: Any = None, theta: Any = None) -> Array:
        """Disguise the next rows of the file, (T,) or (T, d), in one transaction; `theta` as in `Stream.apply`.

        Rows that were recorded in one batch are replayed together: nothing of it goes out before all of it was
        compared with what was there.
        """
        stream = self._stream
        readings = as_readings(Y, stream.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        finite_or_missing(readings)
        warn_incomplete(readings, False, stacklevel=3)
        with stream._guard:
            before = self.rows, self._hashes, self._live, self.replaying
            try:
                out = self._parts(readings, keys, theta)
            except BaseException:
                self._undo(before)
                raise
        if len(out) < len(readings):
            raise stream._setup.stopped(out[:, 0] if stream.dim == 1 else out)
        return out[:, 0] if np.ndim(Y) == 1 else out

    def finish(self) -> None:
        """Say that the file has come to its end."""
        if self.replaying:
            raise ReadingError(
                f"the file has ended after {self.rows} rows, and {self.recorded} rows of it have been disguised before"
            )
        ledger = self._stream._setup.ledger
        if ledger is not None and self._begun:
            row = self._stream._row.id
            ledger.transact(lambda db: _finish(db, row, self.name, ledger.path))

    # What is recorded ------------------------------------------------------------------------------------

    def _find(self, ledger: Ledger, abandon: bool) -> None:
        """What the ledger has of this run and of others."""
        stream = self._stream
        row = stream._row.id
        found = ledger._rows("SELECT name, start, finished, digest FROM runs WHERE stream = ?", row)
        if any(digest(row, *values) != written for *values, written in found):
            raise _ledger_file.damaged(ledger.path, "a run")
        mine = next((start for name, start, _, _ in found if name == self.name), None)
        if mine is None:
            self._abandoned = [name for name, _, finished, _ in found if not finished]
            if self._abandoned and not abandon:
                raise LedgerError(
                    f"the run {self._abandoned[0]!r} of this stream was interrupted; run it again first, or abandon it"
                )
            return
        marks = ledger._rows(
            "SELECT rows, readings, content, digest FROM batches WHERE stream = ? AND name = ? ORDER BY rows",
            row, self.name,
        )  # fmt: skip
        if not marks or any(digest(row, self.name, *values) != written for *values, written in marks):
            raise _ledger_file.damaged(ledger.path, "a batch")
        self._marks = [(rows, readings, content) for rows, readings, content, _ in marks]
        self._begun = self.replaying = True
        began, epoch, at, _ = snapshot.parts(snapshot.loads(mine.encode("ascii")))
        self._former = "cadence" not in began.options and stream._setup.cadence is not None
        self._live = Live(epoch, at, stream._setup.mapping(at.source, epoch.draw))

    def _standing(self) -> Live:
        """Where the run stands. For new rows that is where the stream stands, which must not have gone on elsewhere.

        Another private value may have been told to the stream in between. The rows tell it anew; so the filter goes
        on from the state that the run left, and a replay gives the same.
        """
        if self._broken:
            raise LedgerError(f"the run {self.name!r} was interrupted in a call; begin it again with Stream.run")
        if self.replaying and self._live is not None:
            return self._live
        head, mine = self._stream._current(), self._live
        if mine is None:
            return head
        if (head.at.readings, head.at.epoch) != (mine.at.readings, mine.at.epoch):
            raise LedgerError(
                f"the stream has gone on since the run {self.name!r} stopped, so the run can be replayed but not "
                "continued; give the further rows under another name"
            )
        return Live(head.epoch, head.at._replace(source=mine.at.source, state=mine.at.state), mine.map)

    def _undo(self, before: tuple[Any, ...]) -> None:
        """After an error: as before the call, unless the ledger has gone on, as an interrupt can make it."""
        self.rows, self._hashes, self._live, self.replaying = before
        ledger = self._stream._setup.ledger
        if ledger is not None:
            query = "SELECT coalesce(max(rows), 0) FROM batches WHERE stream = ? AND name = ?"
            try:
                self._broken = ledger._rows(query, self._stream._row.id, self.name)[0][0] != self.recorded
            except LedgerError:
                self._broken = True

    def _parts(self, Y: Array, keys: Any, theta: Any) -> Array:
        stream = self._stream
        at = self._standing().at
        kind, numbers = number_array(at.kind, at.readings, keys, len(Y))
        stream._setup.check_keys(kind)
        if at.last is not None and len(Y) and numbers[0] <= at.last:
            raise ReadingError(
                f"the key of row {self.rows + 1} of the file does not come after the last one of the stream"
            )
        thetas = None if theta is None else stream._thetas(theta, len(Y))
        parts, done = [np.empty((0, stream.dim))], 0
        while done < len(Y):
            stop = self._until_mark(done, len(Y))
            each = None if thetas is None else thetas.after(done)
            out = self._part(Y[done:stop], kind, numbers[done:stop], each, done)
            parts.append(out)
            done += len(out)
            if done < stop:
                break
        return np.concatenate(parts)

    def _until_mark(self, done: int, count: int) -> int:
        """The row of this call at which the recorded batch ends that the next row belongs to."""
        if not self.replaying:
            return count
        k = bisect_right(self._marks, self.rows, key=lambda mark: mark[0])
        stop = done + self._marks[k][0] - self.rows
        if stop > count:
            raise ReadingError(
                f"rows {self.rows + 1} to {self._marks[k][0]} of this run were recorded together, and {count - done} "
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

    def _part(self, Y: Array, kind: str, numbers: Any, told: Changes | None, done: int) -> Array:
        stream, ledger = self._stream, self._stream._setup.ledger
        live = self._standing()
        thetas = Changes([0], [live.at.source]) if told is None else told
        if self.replaying and ledger is not None:
            mark = self._marks[bisect_right(self._marks, self.rows, key=lambda m: m[0])]
            fed, content = _fed(self._hashes, Y, numbers, told)
            if mark[2] != content:
                raise ReadingError(
                    f"the rows up to {mark[0]} are not those that were disguised before under this name; a second "
                    f"output from other readings, or other private values, would leak{self._note()}"
                )
            again = Run(stream._setup, live, lambda number: ledger.epoch_numbered(stream._row.id, number))
            out = again.batch(Y, kind, numbers, thetas, done, keep=False)
            if mark[1] != again.live.at.readings:
                raise LedgerError("a replay did not come to where the run stood; nothing is released")
            self._live, self._hashes, self.rows = again.live, fed, mark[0]
            self.replaying = self.rows < self.recorded
            return out
        begins, hashes, marks = not self._begun, [self._hashes], []
        if stream._watch is not None:
            stream._watch.many(Y)

        def work(run: Run) -> Array:
            out = run.batch(Y, kind, numbers, thetas, done, keep=False)
            if ledger is not None:
                # a stop of the budget may have cut it short
                for a, b in _cuts(self.rows, len(out)):
                    fed, content = _fed(hashes[0], Y[a:b], numbers[a:b], None if told is None else told.after(a))
                    hashes[0] = fed
                    marks.append((self.rows + b, int(run.readings[b - 1]), content))
                db = ledger._connection()
                if begins:
                    start = snapshot.taken(stream._row._replace(secret=b""), live.epoch, live.at, True).decode("ascii")
                    _insert(db, stream._row.id, self.name, start, self._abandoned, ledger.path)
                rows = [(stream._row.id, self.name, *mark) for mark in marks]
                db.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", [(*r, digest(*r)) for r in rows])
            return out

        out = stream._record(work, live)
        self._live, self._begun = stream._now, True
        self.rows += len(out)
        self._hashes = hashes[0]
        self._marks += marks
        return out


def _cuts(rows: int, count: int) -> list[tuple[int, int]]:
    """The new rows of a call in pieces, cut where the number of rows of the file is a multiple of `_MARK`.

    >>> _cuts(65_000, 1000)
    [(0, 536), (536, 1000)]
    """
    ends = [*range(_MARK - rows % _MARK, count, _MARK), count] if count else []
    return list(zip([0, *ends], ends, strict=False))


def _fed(hashes: Any, Y: Array, numbers: Any, told: Changes | None) -> tuple[Any, str]:
    """The hashes after these rows, and their digest; private values that are not told are hashed as such."""
    rows = np.full(len(Y), UNTOLD, dtype="<i2") if told is None else told.of_each(len(Y))
    fed = tuple(each.copy() for each in hashes)
    for each, array in zip(fed, (Y, numbers, rows), strict=True):
        each.update(np.ascontiguousarray(array).data)
    return fed, "".join(each.hexdigest() for each in fed)


def _insert(db: sqlite3.Connection, stream: int, name: str, start: str, abandoned: list[str], path: str) -> None:
    for other in abandoned:
        _finish(db, stream, other, path)
    values = (stream, name, start, 0)
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (*values, digest(*values)))


def _finish(db: sqlite3.Connection, stream: int, name: str, path: str) -> None:
    found = db.execute("SELECT start FROM runs WHERE stream = ? AND name = ?", (stream, name)).fetchone()
    if found is None:
        raise _ledger_file.damaged(path, "the list of runs")
    db.execute(
        "UPDATE runs SET finished = 1, digest = ? WHERE stream = ? AND name = ?",
        (digest(stream, name, found[0], 1), stream, name),
    )
