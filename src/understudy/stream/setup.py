"""What a stream is made of, apart from where it stands."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np

from understudy.errors import BudgetError, MissingReadingError, ReadingError
from understudy.laws.base import Array
from understudy.laws.uniforms import Uniforms
from understudy.stream.budgets import micronats
from understudy.stream.cadence import Cadence
from understudy.stream.charges import Clock, check_kind
from understudy.stream.coins import Coins
from understudy.stream.keys import TIME
from understudy.stream.ledger import Ledger
from understudy.stream.policy import Remembering, as_policy
from understudy.stream.release import FORGIVEN, LARGEST_SCORE, Release
from understudy.stream.rows import MICRO, StreamRow
from understudy.stream.switching import continued
from understudy.transform.filter import transformation
from understudy.transform.maps import Transformation
from understudy.transform.restarting import restarting

UNTOLD = -1  # the position of a private value that nobody has told yet
REFUSE, WITHHOLD = "refuse", "withhold"  # what to do about missing readings without an exact law across them
_MAPS = 64
_FOR_EVER = 2**62
_MOST_NATS = 1e9


def floating_micronats(nats: float) -> int:
    """What the ledger counts of a bound on what floating point leaves: rounded up, but for `FORGIVEN`."""
    if nats <= FORGIVEN:
        return 0
    if not nats < _MOST_NATS:
        raise BudgetError(
            "floating point cannot be bounded any more over so many readings; begin a stream of another name"
        )
    return micronats(nats - FORGIVEN)


class Setup:
    """Policy, names, ledger and random source of a stream, and its filters as they are needed."""

    def __init__(self, design: Any, row: StreamRow, ledger: Ledger | None) -> None:
        # a policy that draws anew for each epoch, unless it is `remembering`
        self.policy: Any = as_policy(design)
        self.remembering: Remembering | None = self.policy if hasattr(self.policy, "opening") else None
        self.estimator: Any = None if self.remembering is None else self.remembering.estimator()
        self.row, self.ledger = row, ledger
        self.clock = Clock(row.options.get("epoch"))
        self.cadence = Cadence.stored(row.options)
        self.fill: bool = row.options.get("fill", False)
        self.release: Release = self.policy.release
        self.timed: bool | None = row.options.get("timed")  # None where the clock makes no epochs
        residual = self.policy.residual_of_block()
        self.block = 0 if residual is None else residual[1]
        self._maps: dict[tuple[int, int], Transformation] = {}
        self._scores: Uniforms | None = None
        self._plateau = (0, 0)  # numbers of readings, from and to, over which floating point costs the same

    def check_keys(self, kind: str) -> None:
        """Refuse keys of a kind that the epochs of this stream are not counted by, and times without a cadence."""
        if self.timed is not None:
            check_kind(self.timed, kind)
        if kind == TIME and self.cadence is None:
            raise ReadingError(
                "a key is a time, and this stream has no cadence: readings hours apart would count as consecutive. "
                "Begin it with period=, the time from one reading to the next (a stream of version 0.1 takes one when "
                "it is opened, Stream.open(..., period=60))"
            )

    def with_origin(self, origin: int) -> Setup:
        """The same, with slots that are counted from there."""
        if self.cadence is None:
            return self
        cadence = list(self.cadence._replace(origin=origin))
        return self.with_row(self.row._replace(options={**self.row.options, "cadence": cadence}))

    def with_row(self, row: StreamRow) -> Setup:
        """The same for a stream with another cadence."""
        made = copy.copy(self)
        made.row, made.cadence = row, Cadence.stored(row.options)
        return made

    def fresh_score(self, reading: int) -> Array:
        """Independent standard normals (d,) for a reading that has none: they follow from the key and its number."""
        if self._scores is None:
            self._scores = Uniforms(Uniforms(self.row.secret).derive("fresh scores"))
        from scipy.special import ndtri

        return np.asarray(ndtri(self._scores.at(reading, self.policy.source(0).dim)))

    def coins(self, epoch: int, readings: int) -> Coins:
        """The random bits of the draw of an epoch that begins after so many readings."""
        return Coins(self.row.secret, epoch, readings)

    def check_changes(self) -> None:
        """Refuse, before anything is drawn, values between which a filter cannot go on; and make filters ready.

        A refusal later would depend on the private value, and on the draw. A reading that is missing is tried too.
        """
        first = self.mapping(0, 0)
        others = [(i, 0) for i in range(1, len(self.policy.values))] + [
            (0, j) for j in range(1, len(self.policy.pseudo))
        ]
        states = [first.start()]
        with contextlib.suppress(MissingReadingError):  # a gap is then refused whatever the values are
            states.append(first.apply(first.start(), np.full((1, first.dim), np.nan))[0])
        for pair in others:
            for state in states:
                continued(first, self.mapping(*pair), state)
                continued(self.mapping(*pair), first, state)
        if len(self.policy.values) * len(self.policy.pseudo) <= _MAPS:
            for i in range(len(self.policy.values)):
                for j in range(len(self.policy.pseudo)):
                    self.mapping(i, j)  # so that the first use of a pair takes no longer than others

    def mapping(self, source: int, column: int) -> Transformation:
        """The filter from a private value to a pseudo value, by position."""
        found = self._maps.get((source, column))
        if found is None:
            # nothing is read before the private value is told, so that any model serves until then
            one, other = self.policy.source(max(source, 0)), self.policy.target(column)
            if self.row.options.get("gaps") == WITHHOLD:
                found = restarting(one, other, self.row.secret, LARGEST_SCORE)
            else:
                found = transformation(one, other, False, self.row.secret, LARGEST_SCORE)
            if len(self._maps) >= _MAPS:
                self._maps.clear()
            self._maps[source, column] = found
        return found

    def floating_charge(self, before: int, after: int) -> int:
        """Micro-nats that floating point costs more after so many readings than before them.

        The bound is one for all readings of the stream together, and grows with their square.
        """
        first, last = self._plateau
        if first <= before and after <= last:
            return 0
        floating = self.policy.floating
        if floating is None:
            self._plateau = (0, _FOR_EVER)
            return 0
        start, due = (floating_micronats(floating.nats(n)) if n else 0 for n in (before, after))
        # a little early, so that rounding does not decide
        last = floating.readings((FORGIVEN + due / MICRO) * (1.0 - 1e-9))
        self._plateau = (after, max(after, last))
        return due - start

    def per_block(self, marginal: Any) -> int:
        """What a block of readings gives away besides the draw, in micro-nats, at these odds."""
        residual = self.policy.residual_of_block(marginal)
        return 0 if residual is None else micronats(residual[0])

    def stopped(self, released: Any) -> BudgetError:
        """The error for a budget that was spent in the middle of a call, with the outputs before that."""
        count = len(released)
        return BudgetError(
            f"the budget of {self.row.room!r} is spent: the first {count} readings of this call are recorded, and "
            f"their outputs are in the attribute `released` of this error; reading {count} needs a decision beyond it",
            released,
        )

    def spent(self) -> BudgetError:
        """The error for a budget that does not allow what is asked."""
        return BudgetError(f"the budget of {self.row.room!r} is spent; nothing more is released")
