"""Hidden Markov models along a path of the parameter.

A `HiddenMarkov` model moves its probabilities when a reading has been seen, into the hidden state of the next. Along a
path that move is the next member's: the entry of step k governs the move into the hidden state of reading k. So the
state kept here is the filtered one, and is moved when the next reading is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.errors import ModelError
from understudy.laws.base import Frozen, Law
from understudy.laws.channels import reweighted
from understudy.models.hidden_markov import HiddenMarkov, HiddenState


class HiddenPath(Frozen):
    """Hidden Markov models along a path: member k moves the hidden state into reading k, and reads it.

    Only the first member's `initial` is used, for the hidden state at the first reading.

    >>> import understudy as us
    >>> laws = [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]
    >>> still, moving = (HiddenMarkov([[1.0 - p, p], [p, 1.0 - p]], [1.0, 0.0], laws) for p in (0.0, 0.5))
    >>> path = HiddenPath([still, still, moving])
    >>> us.whiten([0.0, 1.0, 2.5], path).round(9).tolist()
    [0.0, 1.0, 0.0]
    """

    __slots__ = ("atoms", "dim", "members", "steps")

    def __init__(self, members: Sequence[HiddenMarkov]) -> None:
        self.members = tuple(members)
        self.dim = self.members[0].dim
        self.steps = len(self.members)
        self.atoms = any(member.atoms for member in self.members)

    def __repr__(self) -> str:
        return f"HiddenPath(states={self.members[0].states}, steps={self.steps}, dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return HiddenPath, (self.members,)

    # The state: readings so far, and the probabilities of the hidden state at the last of them, given all of them.

    def start(self) -> tuple[int, HiddenState]:
        """Probabilities at the first reading, which nothing moves into."""
        return 0, self.members[0].start()

    def predict(self, state: tuple[int, HiddenState]) -> Law:
        """The mixture of the laws of this step's member."""
        return self._member(state).predict(self._moved(state))

    def update(self, state: tuple[int, HiddenState], y: Any) -> tuple[int, HiddenState]:
        """Bayes' rule under this step's member."""
        laws = self._member(state).emissions
        return state[0] + 1, tuple(reweighted(self._moved(state), [float(law.logpdf(y)) for law in laws]))

    def skip(self, state: tuple[int, HiddenState]) -> tuple[int, HiddenState]:
        """The move alone."""
        return state[0] + 1, self._moved(state)

    def _moved(self, state: tuple[int, HiddenState]) -> HiddenState:
        k, p = state
        return p if k == 0 else self._member(state).skip(p)

    def _member(self, state: tuple[int, HiddenState]) -> HiddenMarkov:
        if state[0] >= self.steps:
            raise ModelError(f"the path has {self.steps} steps; there is no step {state[0] + 1}")
        return self.members[state[0]]
