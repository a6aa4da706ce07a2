"""What a stream is made of, apart from where it stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.errors import BudgetError
from understudy.stream.budgets import micronats
from understudy.stream.charges import Clock
from understudy.stream.ledger import Ledger
from understudy.stream.policy import Remembering, as_policy
from understudy.stream.rows import StreamRow
from understudy.transform.filter import transformation
from understudy.transform.maps import CausalMap

UNTOLD = -1  # the position of a private value that nobody has told yet
_MAPS = 64


class Setup:
    """Policy, names, ledger and random source of a stream, and its filters as they are needed."""

    def __init__(self, design: Any, row: StreamRow, ledger: Ledger | None, rng: np.random.Generator | None) -> None:
        # a policy that draws anew for each epoch, unless it is `remembering`
        self.policy: Any = as_policy(design)
        self.remembering: Remembering | None = self.policy if hasattr(self.policy, "opening") else None
        self.estimator: Any = None if self.remembering is None else self.remembering.estimator()
        self.row, self.ledger, self.rng = row, ledger, rng
        self.clock = Clock(row.options.get("epoch"))
        self.timed: bool | None = row.options.get("timed")  # None where the clock makes no epochs
        residual = self.policy.residual_of_block()
        self.block = 0 if residual is None else residual[1]
        self._maps: dict[tuple[int, int], CausalMap] = {}

    def mapping(self, source: int, column: int) -> CausalMap:
        """The filter from a private value to a pseudo value, by position."""
        found = self._maps.get((source, column))
        if found is None:
            # nothing is read before the private value is told, so that any model serves until then
            one, other = self.policy.source(max(source, 0)), self.policy.target(column)
            found = transformation(one, other, False, self.row.secret)
            if len(self._maps) >= _MAPS:
                self._maps.clear()
            self._maps[source, column] = found
        return found

    def per_block(self, marginal: Any) -> int:
        """What a block of readings gives away besides the draw, in micro-nats, at these odds."""
        residual = self.policy.residual_of_block(marginal)
        return 0 if residual is None else micronats(residual[0])

    def spent(self) -> BudgetError:
        """The error for a budget that does not allow what is asked."""
        return BudgetError(f"the budget of {self.row.room!r} is spent; nothing more is released")
