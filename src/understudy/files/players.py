"""Streams that rows are given to: one for a file, or one for each segment of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError, ModelError, UnderstudyWarning
from understudy.files.binding import Binding
from understudy.files.columns import Positions
from understudy.files.rows import BATCH
from understudy.files.sequence import Piece, Whole
from understudy.laws.base import Array
from understudy.randomizer.causal.playing import causal_stream
from understudy.randomizer.playing import Choices, stream
from understudy.stream.cadence import Cadence
from understudy.stream.ledger import Ledger
from understudy.stream.setup import WITHHOLD
from understudy.stream.thetas import Changes
from understudy.transform.restarting import refill_of


@dataclass(frozen=True, slots=True, repr=False)
class Terms:
    """What streams are begun with."""

    design: Any
    ledger: Ledger | None
    name: str
    room: str | None
    epoch: Any
    run: str | None
    abandon: bool
    rng: Any

    @property
    def causal(self) -> bool:
        """Whether the design decides by its clock, with memory."""
        return hasattr(self.design, "decision_every")

    @property
    def refill(self) -> int | None:
        """How many readings in a row the models need at the beginning and after a gap; None if they need none.

        Models that do not agree on it refuse a missing reading, as they do elsewhere.
        """
        design = self.design
        try:
            return refill_of(design.family.model(value) for value in (*design.values, *design.pseudo))
        except ModelError:
            return None

    def clock(self, bound: Binding) -> Any:
        """The length of epochs, or of decisions: as it was given, or so many periods of the family."""
        if self.epoch is None and self.causal and bound.time is not None and bound.period is not None:
            return dt.timedelta(microseconds=self.design.decision_every * bound.period / 1000)
        if isinstance(self.epoch, dt.timedelta) and bound.time is None:
            raise ConfigurationError(f"epoch = {self.epoch!r}; epochs by the clock need a column of times")
        return self.epoch

    def timed(self, bound: Binding) -> bool:
        """Whether readings have their times for keys; epochs of so many readings are counted by readings."""
        counted = isinstance(self.clock(bound), int) or (self.causal and self.clock(bound) is None)
        return bound.time is not None and not counted


class Player:
    """A stream and its run over the rows of one segment."""

    def __init__(
        self,
        terms: Terms,
        bound: Binding,
        segment: str | None,
        Y: Array,
        times: Whole | None,
        theta: Positions | None,
        origin: int | None = None,
    ) -> None:
        self._timed, self._period = terms.timed(bound), bound.period
        name = terms.name if segment is None else f"{terms.name}/{segment}"
        ledger = terms.ledger
        room = terms.room or terms.name
        self._spent = 0.0 if ledger is None else ledger.spent(room)
        known = ledger is not None and ledger.stream(name) is not None
        others = ledger is not None and segment is not None and any(row.name != name for row in ledger.room(room))
        timed = self._timed and bound.period is not None
        choices = Choices(
            name=name,
            room=None if ledger is None else room,
            share="separate" if others else None,
            epoch=terms.clock(bound),
            rng=terms.rng,
            # what a stream does about gaps is fixed when it is begun
            gaps=None if known or terms.refill is None else WITHHOLD,
            period=dt.timedelta(microseconds=(bound.period or 0) / 1000) if timed else None,
            origin=origin if timed else None,
        )
        value = None if theta is None or known else terms.design.values[int(theta[0])]
        begin = causal_stream if terms.causal else stream
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the summary says that each segment has its draw
            self.stream = begin(terms.design, value, ledger, choices)
        # a stream with memory makes its first decision at the first reading, others when they are begun
        self._epoch = self.stream.epoch if known or terms.causal else self.stream.epoch - 1
        run = terms.run or _digest(Y, times, theta)
        self.run = self.stream.run(run if segment is None else f"{run}/{segment}", terms.abandon)
        self.replayed = self.run.recorded
        self.last: int | None = self.run.last if self._timed else None

    def __repr__(self) -> str:
        return f"Player({self.stream!r})"

    def cadence(self, origin: int | None) -> Cadence | None:
        """The slots of the rows: those of the stream, where its readings have times."""
        if self._timed:
            return self.stream._setup.cadence
        return None if self._period is None or origin is None else Cadence.checked(self._period / 1e9, None, origin)

    def apply(self, piece: Piece) -> Array:
        """Disguised readings for a piece of the sequence, for its rows alone."""
        keys = None if piece.times is None or not self._timed else piece.times.view("datetime64[ns]")
        out = self.run.apply(piece.Y, keys, None if piece.theta is None else Changes.of_rows(piece.theta))
        if piece.places is None:
            return np.asarray(out)
        late = np.full((1, out.shape[1]), np.nan)
        return np.concatenate((out, late))[piece.places]

    def finish(self) -> tuple[int, float]:
        """Say that the segment has come to its end; draws that were made, and nats that were charged."""
        self.run.finish()
        return self.stream.epoch - self._epoch, self.stream.spent - self._spent


def _digest(*parts: Any) -> str:
    """A name for a run: that of what it begins with, so that the same file again is the same run."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if part is not None:
            found.update(np.ascontiguousarray(part[:BATCH]).data)
    return "file:" + found.hexdigest()
