"""A stream: one live room or sensor. It draws once an epoch, remembers, and turns each y into ~y.

A `Stream` is the one object here that changes. With a ledger, what it returns has been recorded: draw,
charge, state and output are on disk before an output leaves `step` or `apply`.
"""

from __future__ import annotations

import logging
import secrets
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.errors import BudgetError, ConfigurationError, LedgerError, ReadingError, RollbackError, SnapshotError
from understudy.laws.base import Array
from understudy.models.gauss_markov import GaussMarkov
from understudy.stream import snapshots
from understudy.stream.charges import Clock, check_kind, micronats, residual_charge
from understudy.stream.keys import COUNT, as_key, as_keys
from understudy.stream.ledger import MICRO, EpochRow, Ledger, StateRow, StreamRow
from understudy.stream.outputs import from_stored, to_stored
from understudy.stream.policy import Policy
from understudy.stream.states import from_plain, to_plain
from understudy.stream.switching import continued
from understudy.transform.filter import transformation
from understudy.transform.maps import CausalMap, gauss_markov
from understudy.transform.readings import as_readings, finite_or_missing, one_reading, warn_incomplete

_log = logging.getLogger("understudy.stream")
DESIGN_ODDS = "design"


@dataclass(frozen=True, slots=True, repr=False)
class _Now:
    """Where a stream stands: all that changes with a reading."""

    epoch: EpochRow
    state: Any
    count: int = 0
    last: int | None = None
    kind: str = ""
    source: int = 0
    tick: int | None = None  # the number of the epoch by the clock
    block: int = 0  # readings since the residual leak was last charged
    stopped: bool = False

    def row(self) -> StateRow:
        content = {
            "state": to_plain(self.state), "kind": self.kind, "source": self.source,
            "tick": self.tick, "block": self.block, "stopped": self.stopped,
        }  # fmt: skip
        return StateRow(self.count, self.last, content)

    @classmethod
    def of(cls, epoch: EpochRow, row: StateRow) -> _Now:
        try:
            c = row.content
            state = from_plain(c["state"])
            return cls(
                epoch, state, row.readings, row.last, c["kind"], c["source"], c["tick"], c["block"], c["stopped"]
            )
        except (KeyError, TypeError):
            raise SnapshotError("a stored state is not what it should be") from None


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

    def __init__(self, policy: Policy, row: StreamRow, now: _Now, ledger: Ledger | None, spent: int) -> None:
        """Use `Design.stream`, `Stream.open` or `Stream.restore`."""
        self._policy, self._row, self._now, self._ledger, self._spent = policy, row, now, ledger, spent
        self._clock = Clock(row.options.get("epoch"))
        self._guard = threading.RLock()
        self._rng: np.random.Generator | None = None
        self._map = self._mapping(now.source, now.epoch.draw)
        self.dim: int = self._map.dim

    # Making one ----------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, policy: Policy, theta: Any, ledger: Any, row: StreamRow, rng: np.random.Generator | None) -> Stream:
        """Draw for a new stream, durably where there is a ledger, and charge the draw."""
        source = policy.row(theta)
        leader = row.options.get("draw_of")
        charge = 0 if leader is not None else micronats(policy.leakage_of_draw(DESIGN_ODDS))

        def draw() -> EpochRow:
            if leader is None:
                return EpochRow(0, source, policy.draw(source, rng), False)
            return _shared_draw(ledger, leader, None)._replace(source=source)

        def first(epoch: EpochRow) -> _Now:
            made = transformation(policy.source(source), policy.target(epoch.draw), False, row.secret)
            return _Now(epoch, made.start(), source=source)

        if ledger is None:
            now = first(draw())
        else:
            number, epoch = ledger.create(row, charge, draw, lambda epoch: first(epoch).row())
            row, now = row._replace(id=number), first(epoch)
            ledger.witness.note(number, epoch.epoch, 0)
        made = cls(policy, row, now, ledger, charge)
        made._rng = rng
        _log.debug("stream %s begun", row.name)
        return made

    @classmethod
    def open(cls, ledger: Any, design: Policy, name: str, *, rollback: str = "refuse", theta: Any = None) -> Stream:
        """Go on with a stream of a ledger, exactly where it stopped.

        A ledger that is older than what was released is refused; ``rollback="charge"`` draws again for `theta`,
        charges for it, and starts the filter anew.
        """
        if not isinstance(ledger, Ledger):
            ledger = Ledger(ledger)
        row = ledger.stream(name)
        if row is None:
            raise LedgerError(f"the ledger has no stream of the name {name!r}")
        if row.design != design.fingerprint:
            raise LedgerError(
                f"the stream {name!r} belongs to another design; a draw is good for the design that it was made under"
            )
        if rollback not in ("refuse", "charge"):
            raise ConfigurationError(f"rollback = {rollback!r}; it must be 'refuse' or 'charge'")
        now = _Now.of(ledger.epoch(row.id), ledger.state(row.id))
        made = cls(design, row, now, ledger, 0)
        try:
            ledger.witness.check(row.id, now.epoch.epoch, now.count)
        except RollbackError:
            if rollback == "refuse":
                raise
            made._draw_again(now.source if theta is None else design.row(theta))
        return made

    @classmethod
    def restore(cls, design: Policy, blob: bytes) -> Stream:
        """Go on from a snapshot of a stream that has no ledger."""
        content = snapshots.loads(blob)
        try:
            stored = content["stream"]
            row = StreamRow(
                0, stored["name"], stored["room"], stored["design"], bytes.fromhex(stored["secret"]),
                bool(stored["insecure"]), stored["options"],
            )  # fmt: skip
            epoch = EpochRow(*content["epoch"])
            now = _Now.of(epoch, StateRow(content["count"], content["last"], content["content"]))
            spent, ledgered = int(content["spent"]), bool(content["ledgered"])
        except (KeyError, TypeError, ValueError):
            raise SnapshotError("the snapshot lacks a part that it must have") from None
        if row.design != design.fingerprint:
            raise SnapshotError("the snapshot belongs to another design")
        if ledgered:
            raise RollbackError(
                "the snapshot is of a stream with a ledger, which may have gone further; open it with Stream.open, "
                "where the ledger's state wins"
            )
        made = cls(design, row, now, None, spent)
        snapshots.warn_of_versions(content, made._portable)
        return made

    def snapshot(self) -> bytes:
        """All that the stream must remember, as bytes. It holds secrets: keep it as you would a password."""
        with self._guard:
            now, row = self._now, self._row
            state = now.row()
            stored = {
                "name": row.name, "room": row.room, "design": row.design, "secret": row.secret.hex(),
                "insecure": row.insecure, "options": row.options,
            }  # fmt: skip
            return snapshots.dumps(
                {
                    "stream": stored,
                    "epoch": list(now.epoch),
                    "count": state.readings,
                    "last": state.last,
                    "content": state.content,
                    "spent": self._spent,
                    "ledgered": self._ledger is not None,
                    "insecure": row.insecure,
                }
            )

    # What one may know of it -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        insecure = ", INSECURE: seeded" if self.insecure else ""
        stopped = ", stopped: budget spent" if self._now.stopped else ""
        return f"Stream({self.name!r}, epoch {self.epoch}, {self.count} readings{insecure}{stopped})"

    @property
    def name(self) -> str:
        """The name under which the ledger knows the stream."""
        return self._row.name

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return self._now.epoch.epoch

    @property
    def count(self) -> int:
        """Readings so far, missing ones included."""
        return self._now.count

    @property
    def insecure(self) -> bool:
        """Whether the draws came from a seed, so that they can be foretold."""
        return self._row.insecure

    @property
    def spent(self) -> float:
        """Nats charged so far: to the room, where there is a ledger."""
        return self._spent / MICRO if self._ledger is None else self._ledger.spent(self._row.room)

    @property
    def mark(self) -> dict[str, Any]:
        """What an output record carries, so that nobody takes it for a true reading."""
        mark: dict[str, Any] = {"disguised": True, "design": self._row.design}
        return {**mark, "insecure": True} if self.insecure else mark

    # Readings --------------------------------------------------------------------------------------------

    def step(self, y: Any, key: Any = None, theta: Any = None) -> Any:
        """Disguise one reading; None or NaN is a missing one and stays so.

        `key` is its number or its time: a reading that comes again under its key gets its output again. `theta`
        is the value of the private parameter from this reading on, where it has changed.
        """
        row = one_reading(y, self.dim)
        warn_incomplete(row, False, stacklevel=3)
        out = self._run(row, None if key is None else [key], theta)
        return out[0, 0].item() if self.dim == 1 else out[0]

    def apply(self, Y: Any, keys: Any = None, theta: Any = None) -> Array:
        """Disguise a batch, (T,) or (T, d), in one transaction; `keys` has one for each reading."""
        readings = as_readings(Y, self.dim)
        if readings.ndim == 3:
            raise ReadingError("Y has sensors as its third axis; a stream is one sensor (its channels are the second)")
        warn_incomplete(readings, False, stacklevel=3)
        out = self._run(readings, keys, theta)
        return out[:, 0] if np.ndim(Y) == 1 else out

    def becomes(self, theta: Any) -> None:
        """Say what the private parameter is from the next reading on; the pseudo parameter stays."""
        with self._guard:
            source = self._policy.row(theta)
            if source != self._now.source:
                self._switch(source)

    def new_epoch(self, theta: Any, marginal: Any = None) -> None:
        """Draw again, and charge again. Call it by the clock, never because the parameter changed.

        `marginal` are the odds of the values at this epoch: one for each, or "design" for those of the design. Where
        they are unknown, the worst ones are charged.
        """
        with self._guard:
            self._require_running(drawing=True)
            self._now, self._map = self._next_epoch(self._now, self._policy.row(theta), marginal)
            self._note()

    def close(self) -> None:
        """Close the ledger, if there is one."""
        if self._ledger is not None:
            self._ledger.close()

    def _run(self, Y: Array, keys: Any, theta: Any) -> Array:
        finite_or_missing(Y)  # an infinity is refused before anything happens
        with self._guard:
            source = self._now.source if theta is None else self._policy.row(theta)
            kind, numbers = self._numbered(keys, len(Y))
            check_kind(self._row.options, kind)
            old = self._old(numbers)
            out = np.empty(Y.shape)
            for i in range(old):
                out[i] = self._again(numbers[i], i)
            at = old
            while at < len(Y):
                self._require_running()
                self._turn(source, kind, numbers[at])
                stop = self._clock.before(self._now.tick, numbers, at)
                out[at:stop] = self._release(Y[at:stop], kind, numbers[at:stop])
                at = stop
            return out

    def _numbered(self, keys: Any, count: int) -> tuple[str, list[int]]:
        now = self._now
        if keys is None:
            if now.kind not in ("", COUNT):
                raise ReadingError("readings of this stream have keys; this one has none")
            return COUNT, list(range(now.count, now.count + count))
        kind, numbers = as_keys(keys, count) if count > 1 else _alone(keys)
        if now.kind not in ("", kind):
            raise ReadingError(f"keys of this stream are of the kind {now.kind!r}; this is of the kind {kind!r}")
        return kind, numbers

    def _old(self, numbers: list[int]) -> int:
        """How many of these readings have been here before."""
        last = self._now.last
        if last is None or numbers[0] > last:
            return 0
        return sum(number <= last for number in numbers)

    def _again(self, number: int, position: int) -> Any:
        found = None if self._ledger is None else self._ledger.output(self._row.id, number)
        if found is None:
            raise ReadingError(
                f"the key of reading {position} does not come after the last one, and no output is kept for it: "
                "it is out of order, older than what the ledger retains, or the clock went back"
            )
        return from_stored(found[0], self.dim)

    def _turn(self, source: int, kind: str, number: int) -> None:
        """A new epoch if the clock says so, or another private value within the epoch."""
        now = self._now
        tick = self._clock.tick(kind, number)
        if tick != now.tick:
            if now.tick is not None or now.count:
                self._now, self._map = self._next_epoch(replace(now, tick=tick), source, None)
                self._require_running()
                return
            self._now = now = replace(now, tick=tick)
        if source != now.source:
            self._switch(source)

    def _switch(self, source: int) -> None:
        now, mapping = self._now, self._mapping(source, self._now.epoch.draw)
        self._now = replace(now, source=source, state=continued(self._map, mapping, now.state))
        self._map = mapping

    def _release(self, Y: Array, kind: str, numbers: list[int]) -> Array:
        """Filter, record, and only then give out."""
        now = self._now
        state, out = self._map.apply(now.state, np.ascontiguousarray(Y))
        charge, block = residual_charge(self._policy, now.block, len(Y))
        after = replace(now, state=state, count=now.count + len(Y), last=numbers[-1], kind=kind, block=block)
        if self._ledger is not None:
            self._ledger.record(self._row.id, to_stored(self._row.id, numbers, out), after.row(), charge)
        self._spent += charge
        self._now = after
        self._note()
        return out

    # Epochs ----------------------------------------------------------------------------------------------

    def _next_epoch(self, now: _Now, source: int, marginal: Any) -> tuple[_Now, CausalMap]:
        leader = self._row.options.get("draw_of")
        charge = 0 if leader is not None else micronats(self._policy.leakage_of_draw(marginal))

        def draw() -> int:
            if leader is None or self._ledger is None:
                return self._policy.draw(source, self._rng)
            return _shared_draw(self._ledger, leader, now.epoch.epoch + 1).draw

        def follow(epoch: EpochRow) -> tuple[_Now, CausalMap]:
            mapping = self._mapping(source, epoch.draw)
            state = continued(self._map, mapping, now.state)
            return replace(now, epoch=epoch, state=state, source=source, block=0, stopped=False), mapping

        self._mapping(source, now.epoch.draw)  # a value without a model is refused before a draw
        if self._ledger is None:
            self._spent += charge
            return follow(EpochRow(now.epoch.epoch + 1, source, draw(), False))
        epoch = self._ledger.new_epoch(self._row, source, draw, charge, lambda e: follow(e)[0].row())
        if epoch is None:
            stopped = replace(now, stopped=True)
            self._ledger.set_state(self._row.id, stopped.row())
            self._now = stopped
            raise BudgetError(f"the budget of {self._row.room!r} is spent; nothing more is released")
        _log.debug("stream %s: epoch %d", self._row.name, epoch.epoch)
        return follow(epoch)

    def _draw_again(self, source: int) -> None:
        """After a rollback that the user accepts: a new draw, charged, and a filter that starts anew."""
        now = self._now
        fresh = self._mapping(source, now.epoch.draw).start()
        self._map = self._mapping(source, now.epoch.draw)
        self._now, self._map = self._next_epoch(replace(now, state=fresh), source, None)
        self._note(force=True)

    def _mapping(self, source: int, column: int) -> CausalMap:
        return transformation(self._policy.source(source), self._policy.target(column), False, self._row.secret)

    def _require_running(self, drawing: bool = False) -> None:
        if self._now.stopped and not drawing:
            raise BudgetError(f"the budget of {self._row.room!r} is spent; nothing more is released")

    def _note(self, force: bool = False) -> None:
        if self._ledger is not None:
            self._ledger.witness.note(self._row.id, self._now.epoch.epoch, self._now.count)

    @property
    def _portable(self) -> bool:
        """Whether the filter computes the same bits on every machine: + - * / and roots alone."""
        models = (self._policy.source(self._now.source), self._policy.target(self._now.epoch.draw))
        return all(isinstance(gauss_markov(model), GaussMarkov) for model in models)


def _alone(keys: Any) -> tuple[str, list[int]]:
    given = list(keys)
    if len(given) != 1:
        raise ReadingError(f"{len(given)} keys for 1 reading; each reading needs one")
    kind, number = as_key(given[0])
    return kind, [number]


def _shared_draw(ledger: Ledger, name: str, epoch: int | None) -> EpochRow:
    """The draw of the stream that leads a room: its last one, or that of an epoch which it has begun."""
    other = ledger.stream(name)
    if other is None:
        raise LedgerError(f"the ledger has no stream of the name {name!r} to share a draw with")
    found = ledger.epoch(other.id, epoch)
    if epoch is not None and found.epoch < epoch:
        raise LedgerError(f"the stream {name!r}, whose draw is shared, has not begun this epoch; it goes first")
    return found


def new_secret(rng: np.random.Generator | None) -> bytes:
    """The key of a stream: 256 bits of the operating system's, or of a seed for tests."""
    return secrets.token_bytes(32) if rng is None else rng.bytes(32)
