"""What an adversary is."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array


class Guess(NamedTuple):
    """Which value of the parameter, and how much speaks for each."""

    index: Any
    """Index of the likeliest value of the family: a number, or one for each sequence (N,)."""
    scores: Array
    """Evidence for each value in nats, up to a common constant: (m,), or (m, N)."""


@runtime_checkable
class Adversary(Protocol):
    """Output in, guess out."""

    def guess(self, Y: Any) -> Guess:
        """The guess for a sequence (T,) or (T, d), or for each of (T, d, N)."""
        ...


def guessed(scores: Array, many: bool) -> Guess:
    """The guess that has the greatest score; `scores` is (m, N)."""
    index: NDArray[np.int64] = np.argmax(scores, axis=0)
    return Guess(index, scores) if many else Guess(int(index[0]), scores[:, 0])
