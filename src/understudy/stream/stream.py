"""A stream: one live room or sensor. It draws once an epoch, remembers, and turns each reading y into ~y.

`Design.stream` makes one, `Stream.open` goes on with one of a ledger, `Stream.restore` with one of a snapshot. `step`
takes one reading, `apply` a batch, `run` a file.

A `Stream` is the one object here that changes. With a ledger, what it returns has been recorded: draw, charge, state
and output are on disk before an output leaves `step` or `apply`. A call that fails, or is interrupted, has recorded all
of its readings or none. What one call does is in `understudy.stream.engine`.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import os
import secrets
import sqlite3
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from understudy._html import fragment, pairs
from understudy._types import Array, Ints, Json, Numbers, Value
from understudy.errors import (
    ConfigurationError,
    LedgerError,
    ReadingError,
    RollbackError,
    SnapshotError,
    UnderstudyWarning,
)
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.stream import snapshot as snapshots
from understudy.stream.cadence import TIME, Cadence, Duration, Key, Keys, number_key_array, number_keys
from understudy.stream.engine import (
    UNKNOWN,
    Batch,
    EpochRequest,
    Recorder,
    Setup,
    StreamDesign,
    StreamState,
    Thetas,
    Transaction,
    first_state,
)
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import MICRO, StreamRow, from_stored, output_mark
from understudy.stream.replay import FileRun
from understudy.stream.rollback_guard import GuardRecord, check_rollback, rollback_error
from understudy.text import STREAM_CAPTION, STREAM_FACTS
from understudy.transform.readings import Reading, as_readings, finite_or_missing, one_reading, warn_incomplete

_log = logging.getLogger("understudy.stream")
_T = TypeVar("_T")
_FEW = 32  # readings of a batch up to which they go one by one: up to then five times as quick
_LONGEST_WAIT = 86_400.0  # seconds until an output is released


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

    def __init__(self, setup: Setup, state: StreamState) -> None:
        """Use `Design.stream`, `Stream.open` or `Stream.restore`."""
        self._recorder = Recorder(setup, state)
        self._guard = self._recorder.guard
        self.dim: int = state.map.dim

    # Making one ----------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, design: StreamDesign, theta: Value, ledger: Ledger | None, row: StreamRow) -> Stream:
        """Draw for a new stream, durably where there is a ledger, and charge the draw."""
        setup = Setup(design, row, ledger)
        source = UNKNOWN if theta is None else setup.policy.row(theta)
        if ledger is None:
            state = first_state(setup, source)
        else:

            def begin(named: StreamRow) -> StreamState:
                setup.row = named
                return first_state(setup, source)

            state = ledger.create(row, begin)
        _log.debug("stream %s begun", row.name)
        return cls(setup, state)

    @classmethod
    def open(
        cls,
        ledger: Ledger | str | os.PathLike[str],
        design: StreamDesign,
        name: str,
        *,
        rollback: str = "refuse",
        theta: Value = None,
        period: Duration | None = None,
    ) -> Stream:
        """Go on with a stream of a ledger, exactly where it stopped.

        Parameters
        ----------
        ledger : Ledger or path
            The ledger, or the path of one.
        design : Design
            The design that the stream was begun with.
        name : str
            The name of the stream.
        rollback : {"refuse", "charge"}
            What to do about a ledger that is older than what was released. "charge" draws again, charges for it and
            for what the ledger has lost, and counts the lost readings as missing.
        theta : optional
            The private parameter, if it is another one now.
        period : timedelta or float, optional
            A cadence for a stream of version 0.1 that has none; by default that of the family.

        Returns
        -------
        Stream

        Raises
        ------
        LedgerError
            There is no such stream, or it belongs to another design.
        RollbackError
            The ledger is older than what was released.

        """
        check_rollback(rollback)
        if not isinstance(ledger, Ledger):
            opened = Ledger(ledger, rollback=rollback)
            try:
                return cls.open(opened, design, name, rollback=rollback, theta=theta, period=period)
            except BaseException:
                opened.close()  # so that the path is free again when nothing came of it
                raise
        row = ledger.stream(name)
        if row is None:
            raise LedgerError(f"the ledger has no stream of the name {name!r}")
        if not _belongs(row, design):
            raise LedgerError(
                f"the stream {name!r} belongs to another design; a draw is good for the design that it was made under"
            )
        epoch, at = ledger.standing(row)
        setup = Setup(design, row, ledger)
        stream = cls(setup, StreamState(epoch, at, setup.mapping(at.source, epoch.draw)))
        seen = ledger.rollback_guard.ahead(row.id, at.serial)
        if seen is not None:
            if "charge" not in (rollback, ledger.rollback):
                raise rollback_error("this stream")
            stream._charge_lost(ledger, seen, theta)
        elif theta is not None:
            stream.becomes(theta)
        stream._adopt(period_of(design) if period is None else period, asked=period is not None)
        return stream

    def _charge_lost(self, ledger: Ledger, seen: GuardRecord, theta: Value) -> None:
        """Go on although the ledger is older than what was released; a policy with memory cannot."""
        setup, at = self._setup, self._now.position
        if setup.causal is None:
            source = at.source if theta is None else setup.policy.row(theta)
            if source == UNKNOWN:
                raise ConfigurationError(
                    "the ledger is older than what was released, and the private value is not known to it; give theta="
                )
            self._recorder.record(lambda run: run.after_rollback(seen, source))
            return
        run = Transaction(setup, self._now)

        def book(_: sqlite3.Connection) -> None:
            run.book_lost(seen)
            ledger.put(setup.row.id, (), run.live.position, note=False)  # the guard tells that the ledger is old

        ledger.transact(book)
        raise RollbackError(
            "the ledger has lost draws that were released, and with them what an observer believes now; a "
            "policy with memory cannot go on without: begin a stream of another name (what was lost is charged)"
        )

    def _adopt(self, period: Duration | None, asked: bool) -> None:
        """The cadence that is asked for: that of the stream, or a first one where it was begun without."""
        known, kind = self._setup.cadence, self._now.position.kind
        if period is None:
            return
        cadence = Cadence.checked(period)
        if known is not None:
            if asked and known.period != cadence.period:
                raise ConfigurationError(
                    f"period = {period!r}; the stream {self.name!r} was begun with another one, for good"
                )
        elif kind in ("", TIME):
            self._recorder.record(lambda run: run.take_cadence(cadence))

    @classmethod
    def restore(cls, design: StreamDesign, blob: bytes) -> Stream:
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
            stream = cls(setup, StreamState(epoch, at, setup.mapping(at.source, epoch.draw)))
        except (IndexError, TypeError):
            raise SnapshotError("the snapshot names a value that the design does not have") from None
        snapshots.warn_of_versions(content, stream._portable)
        return stream

    def snapshot(self) -> bytes:
        """All that the stream must remember, as bytes. It holds secrets: keep it as you would a password."""
        with self._guard:
            state = self._recorder.current()
            return snapshots.make(self._row, state.epoch, state.position, self._setup.ledger is not None)

    @property
    def _setup(self) -> Setup:
        return self._recorder.setup

    @property
    def _now(self) -> StreamState:
        return self._recorder.state

    @property
    def _row(self) -> StreamRow:
        return self._recorder.setup.row

    # What one may know of it -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        at = self._now.position
        insecure = ", INSECURE: seeded" if self.insecure else ""
        stopped = ", stopped: budget spent" if at.stopped else ""
        untold = ", untold" if at.source == UNKNOWN and self._setup.estimator is None else ""
        return f"Stream({self.name!r}, epoch {at.epoch}, {at.readings} readings{untold}{insecure}{stopped})"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name under which the ledger knows the stream."""
        return self._row.name

    @property
    def ledger(self) -> Ledger | None:
        """The ledger that the stream is recorded in; None without one."""
        return self._setup.ledger

    def _repr_html_(self) -> str:
        facts = (str(self.epoch), str(self.count), f"{self.spent:.6g}")
        return fragment(self.name, pairs(STREAM_CAPTION, list(zip(STREAM_FACTS, facts, strict=True))))

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return self._recorder.current().position.epoch

    @property
    def count(self) -> int:
        """Readings so far, missing ones included."""
        return self._recorder.current().position.readings

    @property
    def insecure(self) -> bool:
        """Whether the draws came from a seed, so that they can be foretold."""
        return self._row.insecure

    @property
    def spent(self) -> float:
        """Nats charged so far: to the room, where there is a ledger."""
        ledger = self._setup.ledger
        return self._now.position.charged / MICRO if ledger is None else ledger.spent(self._row.room)

    @property
    def mark(self) -> dict[str, Json]:
        """What an output record carries, so that nobody takes it for a true reading."""
        steps: list[Json] = list(self._setup.release.lattice.steps)
        return output_mark(self._row.design, steps, self._setup.estimator is not None, self.insecure)

    # Readings --------------------------------------------------------------------------------------------

    def step(
        self, y: Reading, key: Key | None = None, theta: Value = None, release_at: dt.datetime | float | None = None
    ) -> Numbers:
        """Disguise one reading; None or NaN is missing, and stays so.

        Parameters
        ----------
        y : float, array of shape (d,) or None
            The reading.
        key : int or datetime, optional
            A number or a time that grows from reading to reading; one that has been here gets the output that it got
            then. A time is put into a slot of the stream's cadence: the first reading of a slot wins, later ones get no
            output (NaN), and slots that stay empty count as missing readings.
        theta : optional
            The private parameter from this reading on.
        release_at : datetime or float, optional
            A datetime with a time zone or seconds since 1970, at which the call returns: the output is recorded first,
            so that how long it took does not show. A time that has passed by then draws a warning.

        Returns
        -------
        float or array of shape (d,)
            A value on the lattice of the design.

        """
        if release_at is not None:
            return _wait(release_at, lambda: self.step(y, key, theta))
        keys = None if key is None else (key,)
        if self.dim == 1 and type(y) is float and math.isfinite(y):
            return self._few([y], keys, theta)[0]
        row = one_reading(y, self.dim)
        warn_incomplete(row, False, stacklevel=3)
        out = self._many(row, keys, theta)
        return float(out[0, 0]) if self.dim == 1 else np.asarray(out[0])

    def apply(
        self,
        Y: ArrayLike,
        keys: Keys | None = None,
        theta: Thetas | None = None,
        release_at: dt.datetime | float | None = None,
    ) -> Array:
        """Disguise a batch in one transaction.

        Parameters
        ----------
        Y : array of shape (T,) or (T, d)
            The readings, NaN where one is missing.
        keys : sequence of int or datetime, optional
            One for each reading.
        theta : optional
            The private value from the first of them on, or one for each reading as a list, an array or a column.
        release_at : datetime or float, optional
            As in `step`.

        Returns
        -------
        array of the shape of Y

        """
        if release_at is not None:
            return _wait(release_at, lambda: self.apply(Y, keys, theta))
        readings = as_readings(Y, self.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        if self.dim == 1 and len(readings) <= _FEW:
            values = readings[:, 0].tolist()
            if all(map(math.isfinite, values)):
                return np.array(self._few(values, keys, theta)).reshape(np.shape(Y))
        warn_incomplete(readings, False, stacklevel=3)
        out = self._many(readings, keys, theta)
        return out[:, 0] if np.ndim(Y) == 1 else out

    def becomes(self, theta: Value) -> None:
        """Say what the private parameter is from the next reading on; the pseudo parameter stays.

        This is recorded whether or not it has changed, or files would tell when it does.
        """
        with self._guard:
            if theta is not None:
                self._recorder.refuse_value()
            source = self._setup.policy.row(theta)
            self._recorder.record(lambda run: None if source == run.live.position.source else run.switch(source))

    def new_epoch(self, theta: Value, marginal: ArrayLike | None = None) -> None:
        """Draw again, and charge again. Call it by the clock, never because the parameter changed.

        `marginal` are the probabilities of the values at this epoch: one for each, or "design" for the prior of the
        design. Where they are unknown, the worst ones are charged. If the budget does not allow the draw, the stream
        stops until one is allowed, or the room holds its last draw, as `Ledger.limit` says.
        """
        policy = self._setup.epochs
        with self._guard:
            request = EpochRequest(policy.row(theta), marginal, again=True)

            def draw_or_stop(run: Transaction) -> bool:
                allowed = run.next_epoch(request)
                if not allowed:
                    run.stop()
                return allowed

            if not self._recorder.record(draw_or_stop):
                raise self._setup.no_budget()
            _log.debug("stream %s: epoch %d", self._row.name, self._now.position.epoch)

    def run(self, name: str, abandon: bool = False) -> FileRun:
        """A run over a file, of which the ledger keeps draws and positions, not outputs; see `FileRun`.

        A run of this name that was begun before is replayed, and goes on where it stopped. While another one is
        unfinished a new one is refused, unless that is to be abandoned.
        """
        return FileRun(self._recorder, name, abandon)

    def close(self) -> None:
        """Close the ledger, if there is one, for all streams that use it."""
        if self._setup.ledger is not None:
            self._setup.ledger.close()

    def _few(self, values: list[float], keys: Keys | None, theta: Thetas | None) -> list[float]:
        """Outputs of a few finite readings of one channel."""
        recorder = self._recorder
        with self._guard:
            at = recorder.current().position
            sources = recorder.sources(theta, len(values))
            kind, numbers = number_keys(at.kind, at.readings, keys, len(values))
            old = self._known(kind, numbers, at.last)
            out = [float(self._again(numbers[i], i)) for i in range(old)]
            if old == len(values):
                return out
            if recorder.watch is not None:
                for y in values[old:]:
                    recorder.watch.one(y)
            new = values[old:], kind, numbers[old:], sources[old:], old
            out += recorder.record(lambda run: run.few(*new), recorder.state)
            if len(out) < len(values):
                raise self._setup.cut_short(np.array(out)[:, None])
            return out

    def _many(self, Y: Array, keys: Keys | None, theta: Thetas | None) -> Array:
        """Outputs (T, d) of readings (T, d)."""
        finite_or_missing(Y)  # an infinity is refused before anything happens
        recorder = self._recorder
        with self._guard:
            at = recorder.current().position
            sources = recorder.sources(theta, len(Y))
            kind, numbers = number_key_array(at.kind, at.readings, keys, len(Y))
            old = self._known(kind, numbers, at.last)
            before = np.empty((old, Y.shape[1]))
            for i in range(old):
                before[i] = self._again(int(numbers[i]), i)
            if old == len(Y):
                return before
            if recorder.watch is not None:
                recorder.watch.many(Y[old:])
            out = recorder.record(
                lambda run: run.batch(Batch(Y[old:], kind, numbers[old:], sources[old:], old)), recorder.state
            )
            out = np.concatenate([before, out]) if old else out
            if len(out) < len(Y):
                raise self._setup.cut_short(out)
            return out

    def _known(self, kind: str, numbers: list[int] | Ints, last: int | None) -> int:
        """How many of these keys have been here before."""
        self._recorder.setup.check_keys(kind)
        return 0 if last is None or numbers[0] > last else bisect_right(numbers, last)

    def _again(self, number: int, position: int) -> Numbers:
        """The output that was released under a key."""
        ledger = self._setup.ledger
        kept = None if ledger is None else ledger.output(self._row.id, number)
        if kept is None and self._is_late(number):
            return np.nan if self.dim == 1 else np.full(self.dim, np.nan)
        if kept is None:
            raise ReadingError(
                f"the key of reading {position} does not come after the last one, and no output is kept for it: "
                "it is out of order, older than what the ledger retains, or the clock went back"
            )
        # outputs of version 0.1 were kept in full digits; what leaves from now on is on the lattice
        rounded = self._setup.release.rounded(from_stored(kept[0])[None, :])[0]
        return float(rounded[0]) if self.dim == 1 else rounded

    def _is_late(self, number: int) -> bool:
        """Whether a time falls into a slot that another reading has filled."""
        setup, at = self._setup, self._now.position
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

    def fill_until(self, key: Key) -> tuple[list[int], Array]:
        """Release the slots before `key` that stayed empty, in a stream that fills them: their times, and outputs.

        Times are nanoseconds since 1970, outputs (T, d). Call it on schedule; `step` does it too where it finds slots
        that nobody released, and their outputs can then be had by the times of the slots.
        """
        setup = self._setup
        if not setup.fill or setup.cadence is None:
            raise ConfigurationError("this stream was begun without fill=True; empty slots are missing readings")
        with self._guard:
            at = self._recorder.current().position
            _, numbers = number_keys(at.kind, at.readings, [key], 1)
            if at.last is None or setup.cadence.origin is None:
                return [], np.empty((0, self.dim))
            setup.cadence.slots(numbers)
            count = setup.cadence.slot(numbers[0]) - setup.cadence.slot(at.last) - 1

            def fill(run: Transaction) -> list[tuple[int, Array]]:
                run.skip(count, TIME, 0)
                return run.filled

            filled = self._recorder.record(fill) if count > 0 else []
            return [time for time, _ in filled], np.array([out for _, out in filled]).reshape(-1, self.dim)

    @property
    def _portable(self) -> bool:
        """Whether the filter computes the same bits on every machine: + - * / and roots alone."""
        setup, now = self._setup, self._now
        models = (setup.policy.source(max(now.position.source, 0)), setup.policy.target(now.epoch.draw))
        return not setup.policy.fresh and all(isinstance(gauss_markov(model), GaussMarkov) for model in models)


def _wait(release_at: dt.datetime | float, work: Callable[[], _T]) -> _T:
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
    result = work()
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
    return result


def period_of(design: StreamDesign) -> Duration | None:
    """Seconds from one reading to the next, where the family of a design knows them."""
    period: Duration | None = (getattr(getattr(design, "family", None), "about", None) or {}).get("period")
    return period


def _belongs(row: StreamRow, design: StreamDesign) -> bool:
    """Whether a stream was begun with this design, by this version of the software or by 0.1."""
    return row.design in (design.fingerprint, getattr(design, "former_fingerprint", None))


def new_secret(rng: np.random.Generator | None) -> bytes:
    """The key of a stream: 256 bits of the operating system's, or of a seed for tests."""
    return secrets.token_bytes(32) if rng is None else rng.bytes(32)
