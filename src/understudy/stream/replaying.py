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

from understudy.errors import ConfigurationError, LedgerError, ReadingError
from understudy.laws.base import Array
from understudy.stream import files, snapshots
from understudy.stream.charges import check_kind
from understudy.stream.keys import number_array
from understudy.stream.rows import digest
from understudy.stream.running import Live, Run
from understudy.transform.readings import as_readings, finite_or_missing

if TYPE_CHECKING:
    from understudy.stream.ledger import Ledger
    from understudy.stream.stream import Stream
    from understudy.stream.thetas import Changes


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
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name = {name!r}; a run needs a name, such as that of its file")
        self._stream, self.name, self.rows = stream, name, 0
        # of readings, keys and private values apart, so that it does not matter how rows are cut into batches
        self._hashes = tuple(hashlib.sha256() for _ in range(3))
        # after each batch that is recorded: rows of the file, readings of the stream, digest
        self._marks: list[tuple[int, int, str]] = []
        self._live: Live | None = None  # where the run stands, once it has begun or is replayed
        self.replaying = False
        ledger = stream._setup.ledger
        if ledger is not None:
            with stream._guard:
                self._begin(ledger, abandon)

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
        """Disguise the next rows of the file, (T,) or (T, d), in one transaction; `theta` as in `Stream.apply`."""
        stream = self._stream
        readings = as_readings(Y, stream.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        finite_or_missing(readings)
        with stream._guard:
            at = self._standing().at
            kind, numbers = number_array(at.kind, at.readings, keys, len(readings))
            if stream._setup.timed is not None:
                check_kind(stream._setup.timed, kind)
            thetas = stream._thetas(theta, len(readings))
            out = np.empty(readings.shape)
            done = 0
            while done < len(readings):
                stop = min(len(readings), done + self._until_mark())
                part = readings[done:stop], kind, numbers[done:stop], thetas.after(done)
                out[done:stop] = self._part(*part, done)
                done = stop
        return out[:, 0] if np.ndim(Y) == 1 else out

    def finish(self) -> None:
        """Say that the file has come to its end."""
        if self.replaying:
            raise ReadingError(
                f"the file has ended after {self.rows} rows, and {self.recorded} rows of it have been disguised before"
            )
        ledger = self._stream._setup.ledger
        if ledger is not None:
            row = self._stream._row.id
            ledger.transact(lambda db: _finish(db, row, self.name, ledger.path))

    # What is recorded ------------------------------------------------------------------------------------

    def _begin(self, ledger: Ledger, abandon: bool) -> None:
        stream = self._stream
        row = stream._row.id
        found = ledger._rows("SELECT name, start, finished, digest FROM runs WHERE stream = ?", row)
        if any(digest(row, *values) != written for *values, written in found):
            raise files.damaged(ledger.path, "a run")
        mine = next((start for name, start, _, _ in found if name == self.name), None)
        open_ones = [name for name, _, finished, _ in found if not finished and name != self.name]
        if mine is None:
            if open_ones and not abandon:
                raise LedgerError(
                    f"the run {open_ones[0]!r} of this stream was interrupted; run it again first, or abandon it"
                )
            live = stream._current()
            start = snapshots.taken(stream._row._replace(secret=b""), live.epoch, live.at, True).decode("ascii")
            ledger.transact(lambda db: _insert(db, row, self.name, start, open_ones, ledger.path))
            return
        marks = ledger._rows(
            "SELECT rows, readings, content, digest FROM batches WHERE stream = ? AND name = ? ORDER BY rows",
            row, self.name,
        )  # fmt: skip
        if any(digest(row, self.name, *values) != written for *values, written in marks):
            raise files.damaged(ledger.path, "a batch")
        self._marks = [(rows, readings, content) for rows, readings, content, _ in marks]
        self.replaying = bool(marks)
        _, epoch, at, _ = snapshots.parts(snapshots.loads(mine.encode("ascii")))
        self._live = Live(epoch, at, stream._setup.mapping(at.source, epoch.draw))

    def _standing(self) -> Live:
        """Where the run stands; while rows are new, with the number of the last position of the stream.

        Another private value may have been told to the stream in the meantime, which the rows tell anew. If the
        stream has had other readings, the run cannot go on.
        """
        head = self._stream._current()
        if self._live is None:
            return head
        if self.replaying or self._stream._setup.ledger is None:
            return self._live
        if (head.at.readings, head.at.epoch) != (self._live.at.readings, self._live.at.epoch):
            raise LedgerError(
                f"the stream has gone on since the run {self.name!r} stopped, so the run can be replayed but not "
                "continued; give the further rows under another name"
            )
        return self._live._replace(at=self._live.at._replace(serial=head.at.serial))

    def _until_mark(self) -> int:
        """Rows to the end of the recorded batch that the next row belongs to."""
        if not self.replaying:
            return 2**62
        k = bisect_right(self._marks, self.rows, key=lambda mark: mark[0])
        return self._marks[k][0] - self.rows

    def _part(self, Y: Array, kind: str, numbers: Any, thetas: Changes, done: int) -> Array:
        stream, ledger = self._stream, self._stream._setup.ledger
        fed, content = self._hashes, ""
        if ledger is not None:
            fed = tuple(each.copy() for each in fed)
            for each, array in zip(fed, (Y, numbers, thetas.of_each(len(Y))), strict=True):
                each.update(np.ascontiguousarray(array).data)
            content = "".join(each.hexdigest() for each in fed)
        rows = self.rows + len(Y)
        live = self._standing()
        if live.at.last is not None and numbers[0] <= live.at.last:
            raise ReadingError(
                f"the key of row {self.rows + 1} of the file does not come after the last one of the stream"
            )
        if self.replaying and ledger is not None:
            mark = next((m for m in self._marks if m[0] == rows), None)
            if mark is not None and mark[2] != content:
                raise ReadingError(
                    f"the rows up to {rows} are not those that were disguised before under this name; a second output "
                    "from other readings, or other private values, would leak"
                )
            again = Run(stream._setup, live, lambda number: ledger.epoch_numbered(stream._row.id, number))
            out = again.batch(Y, kind, numbers, thetas, done, keep=False)
            self._live = again.live
            if mark is not None and mark[1] != again.live.at.readings:
                raise LedgerError("a replay did not come to where the run stood; nothing is released")
            self.replaying = rows < self.recorded
        else:

            def work(run: Run) -> Array:
                done_now = run.batch(Y, kind, numbers, thetas, done, keep=False)
                if ledger is not None:
                    values = (stream._row.id, self.name, rows, run.live.at.readings, content)
                    db = ledger._connection()
                    db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", (*values, digest(*values)))
                return done_now

            out = stream._record(work, live)
            self._live = stream._now
            self._marks.append((rows, self._live.at.readings, content))
        self._hashes, self.rows = fed, rows
        return out


def _insert(db: sqlite3.Connection, stream: int, name: str, start: str, abandoned: list[str], path: str) -> None:
    for other in abandoned:
        _finish(db, stream, other, path)
    values = (stream, name, start, 0)
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (*values, digest(*values)))


def _finish(db: sqlite3.Connection, stream: int, name: str, path: str) -> None:
    found = db.execute("SELECT start FROM runs WHERE stream = ? AND name = ?", (stream, name)).fetchone()
    if found is None:
        raise files.damaged(path, "the list of runs")
    db.execute(
        "UPDATE runs SET finished = 1, digest = ? WHERE stream = ? AND name = ?",
        (digest(stream, name, found[0], 1), stream, name),
    )
