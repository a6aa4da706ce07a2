"""A stream: one live room or sensor. It draws once an epoch, remembers, and turns each y into ~y.

A `Stream` is the one object here that changes. With a ledger, what it returns has been recorded: draw,
charge, state and output are on disk before an output leaves `step` or `apply`. A call that fails, or is
interrupted, has recorded all of its readings or none.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import secrets
import threading
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from understudy._types import Array
from understudy.errors import (
    ConfigurationError,
    LedgerError,
    ReadingError,
    RollbackError,
    SnapshotError,
    UnderstudyWarning,
)
from understudy.models.gauss_markov import GaussMarkov
from understudy.stream import snapshot as snapshots
from understudy.stream.cadence import TIME, Cadence, numbered
from understudy.stream.engine import UNTOLD, Changes, Live, Run, Setup, first, told
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import MICRO, StreamRow, from_stored
from understudy.stream.release import Watch
from understudy.stream.replay import FileRun
from understudy.stream.rollback_guard import check_rollback, rolled_back
from understudy.transform.core import gauss_markov
from understudy.transform.readings import as_readings, finite_or_missing, one_reading, warn_incomplete

_log = logging.getLogger("understudy.stream")
_T = TypeVar("_T")
_LONGEST_WAIT = 86_400.0  # seconds until an output is released
_FEW = 32  # readings of a batch up to which they go one by one


class Stream:
    """Readings in, disguised readings out, for months; `Design.stream` makes one.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    >>> design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    >>> stream = design.stream(theta=1, name="lab")
    >>> y_out = stream.step(105.0)
    >>> again = us.Stream.restore(design, stream.snapshot())
    >>> again.step(109.5) == stream.step(109.5)
    True
    >>> stream
    Stream('lab', epoch 0, 2 readings)
    """

    def __init__(self, setup: Setup, live: Live) -> None:
        """Use `Design.stream`, `Stream.open` or `Stream.restore`."""
        self._setup, self._now = setup, live
        self._watch = Watch(setup.release) if setup.release.watched else None
        self._guard = threading.RLock() if setup.ledger is None else setup.ledger.guard
        self.dim: int = live.map.dim

    # Making one ----------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, design: Any, theta: Any, ledger: Ledger | None, row: StreamRow) -> Stream:
        """Draw for a new stream, durably where there is a ledger, and charge the draw."""
        setup = Setup(design, row, ledger)
        source = UNTOLD if theta is None and setup.remembering is not None else setup.policy.row(theta)
        if ledger is None:
            live = first(setup, source)
        else:
            row, epoch, at = ledger.create(row, lambda named: first(Setup(design, named, ledger), source)[:2])
            setup = Setup(design, row, ledger)
            live = Live(epoch, at, setup.mapping(source, epoch.draw))
            ledger.witness.note(row.id, at)
        _log.debug("stream %s begun", row.name)
        return cls(setup, live)

    @classmethod
    def open(
        cls,
        ledger: Any,
        design: Any,
        name: str,
        *,
        rollback: str = "refuse",
        theta: Any = None,
        period: Any = None,
    ) -> Stream:
        """Go on with a stream of a ledger (or of the path of one), exactly where it stopped.

        `theta` says that the private parameter is another one now. `period` gives a cadence to a stream of version 0.1
        that has none, by default that of the family. A ledger that is older than what was released is
        refused; ``rollback="charge"`` draws again, charges for it and for what the ledger has lost, and counts the
        lost readings as missing.
        """
        check_rollback(rollback)
        if not isinstance(ledger, Ledger):
            with _closing_on_error(Ledger(ledger, rollback=rollback)) as opened:
                return cls.open(opened, design, name, rollback=rollback, theta=theta, period=period)
        row = ledger.stream(name)
        if row is None:
            raise LedgerError(f"the ledger has no stream of the name {name!r}")
        if not _belongs(row, design):
            raise LedgerError(
                f"the stream {name!r} belongs to another design; a draw is good for the design that it was made under"
            )
        epoch, at = ledger.standing(row)
        setup = Setup(design, row, ledger)
        made = cls(setup, Live(epoch, at, setup.mapping(at.source, epoch.draw)))
        seen = ledger.witness.ahead(row.id, at.serial)
        if seen is not None:
            if "charge" not in (rollback, ledger.rollback):
                raise rolled_back("this stream")
            if setup.remembering is not None:
                run = Run(setup, made._now)

                def charged(_: Any) -> None:
                    run.book_lost(seen)
                    ledger.put(row.id, (), run.live.at)

                ledger.transact(charged)  # and not noted by the witness, which is what tells that the ledger is old
                raise RollbackError(
                    "the ledger has lost draws that were released, and with them what an observer believes now; a "
                    "policy with memory cannot go on without: begin a stream of another name (what was lost is charged)"
                )
            source = at.source if theta is None else setup.policy.row(theta)
            made._record(lambda run: run.after_rollback(seen, source))
        elif theta is not None:
            made.becomes(theta)
        made._adopt(period_of(design) if period is None else period, asked=period is not None)
        return made

    def _adopt(self, period: Any, asked: bool) -> None:
        """The cadence that is asked for: that of the stream, or a first one where it was begun without."""
        known, kind = self._setup.cadence, self._now.at.kind
        if period is None:
            return
        cadence = Cadence.checked(period)
        if known is not None:
            if asked and known.period != cadence.period:
                raise ConfigurationError(
                    f"period = {period!r}; the stream {self.name!r} was begun with another one, for good"
                )
        elif kind in ("", TIME):
            self._record(lambda run: run.take_cadence(cadence))

    @classmethod
    def restore(cls, design: Any, blob: bytes) -> Stream:
        """Go on from a snapshot of a stream that has no ledger."""
        content = snapshots.loads(blob)
        row, epoch, at, ledgered = snapshots.parts(content)
        if not _belongs(row, design):
            raise SnapshotError("the snapshot belongs to another design")
        if ledgered:
            raise RollbackError(
                "the snapshot is of a stream with a ledger, which may have gone further; open it with Stream.open, "
                "where the ledger's state wins"
            )
        setup = Setup(design, row, None)
        try:
            made = cls(setup, Live(epoch, at, setup.mapping(at.source, epoch.draw)))
        except (IndexError, TypeError):
            raise SnapshotError("the snapshot names a value that the design does not have") from None
        snapshots.warn_of_versions(content, made._portable)
        return made

    def snapshot(self) -> bytes:
        """All that the stream must remember, as bytes. It holds secrets: keep it as you would a password."""
        with self._guard:
            live = self._current()
            return snapshots.taken(self._row, live.epoch, live.at, self._setup.ledger is not None)

    @property
    def _row(self) -> StreamRow:
        return self._setup.row

    # What one may know of it -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        at = self._now.at
        insecure = ", INSECURE: seeded" if self.insecure else ""
        stopped = ", stopped: budget spent" if at.stopped else ""
        return f"Stream({self.name!r}, epoch {at.epoch}, {at.readings} readings{insecure}{stopped})"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name under which the ledger knows the stream."""
        return self._row.name

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return self._current().at.epoch

    @property
    def count(self) -> int:
        """Readings so far, missing ones included."""
        return self._current().at.readings

    @property
    def insecure(self) -> bool:
        """Whether the draws came from a seed, so that they can be foretold."""
        return self._row.insecure

    @property
    def spent(self) -> float:
        """Nats charged so far: to the room, where there is a ledger."""
        ledger = self._setup.ledger
        return self._now.at.charged / MICRO if ledger is None else ledger.spent(self._row.room)

    @property
    def mark(self) -> dict[str, Any]:
        """What an output record carries, so that nobody takes it for a true reading."""
        steps = list(self._setup.release.lattice.steps)
        mark: dict[str, Any] = {"disguised": True, "design": self._row.design, "resolution": steps}
        if self._setup.estimator is not None:
            mark["guarantee"] = "none, audit only: the private value is estimated"
        return {**mark, "insecure": True} if self.insecure else mark

    # Readings --------------------------------------------------------------------------------------------

    def step(self, y: Any, key: Any = None, theta: Any = None, release_at: Any = None) -> Any:
        """Disguise one reading; None or NaN is missing, and stays so.

        `key` is a number or a time that grows from reading to reading; one that has been here gets the output
        that it got then. A time is put into a slot of the stream's cadence: the first reading of a slot wins, later
        ones get no output (NaN), and slots that stay empty count as missing readings. `theta` says what the private
        parameter is from this reading on. What is returned lies on the lattice of the design.

        `release_at`, a datetime with a time zone or seconds since 1970, is when the call returns: the output is
        recorded first, so that how long it took does not show. A time that has passed by then draws a warning.
        """
        if release_at is not None:
            return _wait(release_at, lambda: self.step(y, key, theta))
        if self.dim == 1 and type(y) is float and math.isfinite(y):
            return self._few([y], None if key is None else (key,), theta)[0]
        row = one_reading(y, self.dim)
        warn_incomplete(row, False, stacklevel=3)
        out = self._run(row, None if key is None else [key], theta)
        return out[0, 0].item() if self.dim == 1 else out[0]

    def apply(self, Y: Any, keys: Any = None, theta: Any = None, release_at: Any = None) -> Array:
        """Disguise a batch, (T,) or (T, d), in one transaction.

        `keys` has one for each reading. `theta` is the private value from the first of them on, or holds one for
        each reading, as a list, an array or a column. `release_at` is as in `step`.
        """
        if release_at is not None:
            found: Array = _wait(release_at, lambda: self.apply(Y, keys, theta))
            return found
        readings = as_readings(Y, self.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        if self.dim == 1 and len(readings) <= _FEW:
            values = readings[:, 0].tolist()
            if all(map(math.isfinite, values)):
                return np.array(self._few(values, keys, theta)).reshape(np.shape(Y))
        warn_incomplete(readings, False, stacklevel=3)
        out = self._run(readings, keys, theta)
        return out[:, 0] if np.ndim(Y) == 1 else out

    def becomes(self, theta: Any) -> None:
        """Say what the private parameter is from the next reading on; the pseudo parameter stays.

        This is recorded whether or not it has changed, or files would tell when it does.
        """
        with self._guard:
            self._refuse_told(theta)
            source = self._setup.policy.row(theta)
            self._record(lambda run: None if source == run.live.at.source else run.switch(source))

    def new_epoch(self, theta: Any, marginal: Any = None) -> None:
        """Draw again, and charge again. Call it by the clock, never because the parameter changed.

        `marginal` are the odds of the values at this epoch: one for each, or "design" for those of the design. Where
        they are unknown, the worst ones are charged. If the budget does not allow the draw, the stream stops
        until one is allowed, or the room holds its last draw, as `Ledger.limit` says.
        """
        if self._setup.remembering is not None:
            raise ConfigurationError("this stream decides by its clock, with memory; it has no other epochs")
        with self._guard:
            source = self._setup.policy.row(theta)
            if not self._record(lambda run: run.next_epoch(source, marginal) or run.stop()):
                raise self._setup.spent()
            _log.debug("stream %s: epoch %d", self._row.name, self._now.at.epoch)

    def run(self, name: str, abandon: bool = False) -> FileRun:
        """A run over a file, of which the ledger keeps draws and positions, not outputs; see `FileRun`.

        A run of this name that was begun before is replayed, and goes on where it stopped. While another one is
        unfinished a new one is refused, unless that is to be abandoned.
        """
        return FileRun(self, name, abandon)

    def close(self) -> None:
        """Close the ledger, if there is one, for all streams that use it."""
        if self._setup.ledger is not None:
            self._setup.ledger.close()

    def _few(self, values: list[float], keys: Any, theta: Any) -> list[float]:
        with self._guard:
            kind, numbers, thetas, old = self._met(len(values), keys, theta)
            before = [self._again(numbers[i], i) for i in range(old)]
            if old == len(values):
                return before
            if self._watch is not None:
                for y in values[old:]:
                    self._watch.one(y)
            out = before + self._record(lambda run: run.few(values[old:], kind, numbers[old:], thetas, old))
            if len(out) < len(values):
                raise self._setup.stopped(np.array(out))
            return out

    def _run(self, Y: Array, keys: Any, theta: Any) -> Array:
        finite_or_missing(Y)  # an infinity is refused before anything happens
        with self._guard:
            kind, numbers, thetas, old = self._met(len(Y), keys, theta)
            before = np.empty((old, Y.shape[1]))
            for i in range(old):
                before[i] = self._again(numbers[i], i)
            if old == len(Y):
                return before
            if self._watch is not None:
                self._watch.many(Y[old:])
            out = self._record(lambda run: run.batch(Y[old:], kind, numbers[old:], thetas, old))
            out = np.concatenate([before, out]) if old else out
            if len(out) < len(Y):
                raise self._setup.stopped(out[:, 0] if self.dim == 1 else out)
            return out

    def _met(self, count: int, keys: Any, theta: Any) -> tuple[str, list[int], Changes, int]:
        """The keys of readings, the private values they are of, and how many of them have been here before."""
        at = self._current().at
        thetas = self._thetas(theta, count)
        kind, numbers = numbered(at.kind, at.readings, keys, count)
        self._setup.check_keys(kind)
        if at.last is None or numbers[0] > at.last:
            return kind, numbers, thetas, 0
        old = bisect_right(numbers, at.last)
        return kind, numbers, thetas.after(old), old

    def _thetas(self, theta: Any, count: int) -> Changes:
        if theta is None:
            return Changes([0], [self._now.at.source])
        self._refuse_told(theta)
        return told(self._setup.policy, theta, count)

    def _refuse_told(self, theta: Any) -> None:
        if self._setup.estimator is not None and theta is not None:
            raise ConfigurationError("this design estimates the private value from the readings; theta is not for it")

    def _again(self, number: int, position: int) -> Any:
        ledger = self._setup.ledger
        found = None if ledger is None else ledger.output(self._row.id, number)
        if found is None and self._is_late(number):
            return np.nan if self.dim == 1 else np.full(self.dim, np.nan)
        if found is None:
            raise ReadingError(
                f"the key of reading {position} does not come after the last one, and no output is kept for it: "
                "it is out of order, older than what the ledger retains, or the clock went back"
            )
        # outputs of version 0.1 were kept in full digits; what leaves from now on is on the lattice
        if self.dim == 1:
            return self._setup.release.one(from_stored(found[0], 1))
        return self._setup.release.rounded(np.array(from_stored(found[0], self.dim))[None, :])[0]

    def _is_late(self, number: int) -> bool:
        """Whether a time falls into a slot that another reading has filled."""
        setup, at = self._setup, self._now.at
        cadence, ledger = setup.cadence, setup.ledger
        if cadence is None or cadence.origin is None or at.kind != TIME or at.last is None:
            return False
        slot = cadence.slot(number)
        if slot == cadence.slot(at.last):
            return True
        middle = cadence.time(slot)
        return ledger is not None and ledger.has_output(
            self._row.id, middle - cadence.period // 2, middle + (cadence.period - 1) // 2
        )

    def fill_until(self, key: Any) -> tuple[list[int], Array]:
        """Release the slots before `key` that stayed empty, in a stream that fills them: their times, and outputs.

        Times are nanoseconds since 1970, outputs (T, d). Call it on schedule; `step` does it too where it finds slots
        that nobody released, and their outputs can then be had by the times of the slots.
        """
        setup = self._setup
        if not setup.fill or setup.cadence is None:
            raise ConfigurationError("this stream was begun without fill=True; empty slots are missing readings")
        with self._guard:
            at = self._current().at
            _, numbers = numbered(at.kind, at.readings, [key], 1)
            if at.last is None or setup.cadence.origin is None:
                return [], np.empty((0, self.dim))
            setup.cadence.slots(numbers)
            count = setup.cadence.slot(numbers[0]) - setup.cadence.slot(at.last) - 1

            def work(run: Run) -> list[tuple[int, Array]]:
                run.skip(count, TIME, 0)
                return run.filled

            filled = self._record(work) if count > 0 else []
            return [time for time, _ in filled], np.array([out for _, out in filled]).reshape(-1, self.dim)

    # What is true, and what is recorded --------------------------------------------------------------------

    def _current(self) -> Live:
        """Where the stream stands; read anew if a call did not come to its end, or went through another object."""
        with self._guard:
            ledger = self._setup.ledger
            if ledger is not None and ledger.serial(self._row.id) != self._now.at.serial:
                known = ledger.stream(self.name)
                if known is not None and known.options != self._row.options:
                    self._setup = self._setup.with_row(known)  # a cadence that another object has begun
                epoch, at = ledger.standing(self._row)
                self._now = Live(epoch, at, self._setup.mapping(at.source, epoch.draw))
            return self._now

    def _record(self, work: Callable[[Run], _T], live: Live | None = None) -> _T:
        """Do some work, which becomes true when, and only when, the ledger has it."""
        run, ledger = Run(self._setup, self._current() if live is None else live), self._setup.ledger
        if ledger is None:
            done = work(run)
            self._now, self._setup = run.numbered(), run.setup
            return done

        def recorded(db: Any) -> _T:
            done = work(run)
            run.numbered()
            if run.setup is not self._setup:
                ledger.set_options(db, run.setup.row)
            ledger.put(self._row.id, run.all_outputs(), run.live.at, run.count + len(run.filled))
            return done

        done = ledger.transact(recorded)
        self._now, self._setup = run.live, run.setup
        ledger.witness.note(self._row.id, run.live.at)
        return done

    @property
    def _portable(self) -> bool:
        """Whether the filter computes the same bits on every machine: + - * / and roots alone."""
        setup, now = self._setup, self._now
        models = (setup.policy.source(now.at.source), setup.policy.target(now.epoch.draw))
        return all(isinstance(gauss_markov(model), GaussMarkov) for model in models)


def _wait(release_at: Any, work: Callable[[], _T]) -> _T:
    """What some work comes to, handed out at a fixed time."""
    if isinstance(release_at, dt.datetime) and release_at.tzinfo is not None:
        due = release_at.timestamp()
    elif isinstance(release_at, (int, float)) and not isinstance(release_at, bool) and abs(release_at) < 1e12:
        due = float(release_at)
    else:
        due = math.inf
    if not due - time.time() < _LONGEST_WAIT:
        raise ConfigurationError(
            f"release_at = {release_at!r}; it must be a datetime with a time zone, or seconds since 1970, within a day"
        )
    done = work()
    left = due - time.time()
    if left > 0.0:
        time.sleep(left)
    else:
        warnings.warn(
            f"an output was ready {-left:.3g} s after the time at which it was to be released; give it more time, or "
            "how long it took shows",
            UnderstudyWarning,
            stacklevel=3,
        )
    return done


def period_of(design: Any) -> Any:
    """Seconds from one reading to the next, where the family of a design knows them."""
    return (getattr(getattr(design, "family", None), "about", None) or {}).get("period")


def _belongs(row: StreamRow, design: Any) -> bool:
    """Whether a stream was begun with this design, by this version of the software or by 0.1."""
    return row.design in (design.fingerprint, getattr(design, "former_fingerprint", None))


@contextmanager
def _closing_on_error(ledger: Ledger) -> Iterator[Ledger]:
    """So that a path that was opened here is free again when nothing came of it."""
    try:
        yield ledger
    except BaseException:
        ledger.close()
        raise


def new_secret(rng: np.random.Generator | None) -> bytes:
    """The key of a stream: 256 bits of the operating system's, or of a seed for tests."""
    return secrets.token_bytes(32) if rng is None else rng.bytes(32)
