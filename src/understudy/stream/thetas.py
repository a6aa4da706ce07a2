"""The private value of each reading: one for a whole batch, one for each, or guessed from the readings."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError, ReadingError
from understudy.laws.base import Array
from understudy.stream.charges import Clock

_END = 2**63 - 1


class Changes:
    """Where in a batch the private value changes, and to which, by position.

    >>> thetas = Changes.of_rows([0, 0, 1, 1, 1, 0])
    >>> thetas.at(0), thetas.at(3), thetas.at(5)[0]
    ((0, 2), (1, 5), 0)
    """

    __slots__ = ("rows", "starts")

    def __init__(self, starts: list[int], rows: list[int]) -> None:
        self.starts, self.rows = starts, rows

    @classmethod
    def of_rows(cls, rows: Any) -> Changes:
        """From the position of the value of each reading."""
        codes = np.asarray(rows)
        starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()]
        return cls(starts, [int(codes[i]) for i in starts])

    def at(self, i: int) -> tuple[int, int]:
        """The value of reading i, and the first reading after it that may have another."""
        k = bisect_right(self.starts, i)
        return self.rows[k - 1], self.starts[k] if k < len(self.starts) else _END

    def of_each(self, count: int) -> Any:
        """The position of the value of each of the first readings of the batch."""
        starts = np.minimum(self.starts, count)
        return np.repeat(np.array(self.rows, dtype="<i2"), np.diff(starts, append=count))

    def after(self, count: int) -> Changes:
        """Those of the batch without its first readings."""
        if count == 0 or len(self.starts) == 1:
            return self
        k = bisect_right(self.starts, count) - 1
        return Changes([0, *(start - count for start in self.starts[k + 1 :])], self.rows[k:])


def told(policy: Any, theta: Any, count: int) -> Changes:
    """The private values of `count` readings: `theta` is a value of the policy, or holds one for each reading.

    Who has positions already hands over `Changes`.
    """
    if isinstance(theta, Changes):
        return theta
    if not _many(theta):
        return Changes([0], [policy.row(theta)])
    try:
        return Changes([0], [policy.row(theta)])  # an array can be a value too
    except ConfigurationError:
        pass
    if hasattr(theta, "to_numpy"):
        theta = theta.to_numpy()
    values = np.asarray(theta) if not isinstance(theta, list) or len({type(v) for v in theta}) == 1 else _objects(theta)
    if values.ndim != 1 or len(values) != count:
        raise ReadingError(f"theta has the shape {values.shape}; it must be a value, or hold one for each of {count}")
    moved = values[1:] != values[:-1]
    starts = [0, *(np.flatnonzero(moved) + 1).tolist()]
    rows = []
    for i in starts:
        try:
            rows.append(policy.row(values[i].item() if isinstance(values[i], np.generic) else values[i]))
        except ConfigurationError:
            raise ReadingError(f"theta of reading {i} is none of the values of the design") from None
    return Changes(starts, rows)


def _many(theta: Any) -> bool:
    return isinstance(theta, list) or hasattr(theta, "to_numpy") or (isinstance(theta, np.ndarray) and theta.ndim > 0)


def _objects(values: list[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def guessed(estimator: Any, state: Any, clock: Clock, tick: int | None, Y: Array, numbers: Any) -> tuple[Any, Changes]:
    """Private values that an estimator finds in the readings, and its state after them."""
    rows = []
    for y, number in zip(Y, numbers, strict=True):
        now = clock.tick(int(number))
        if state is None:
            state, moves = estimator.start(now or 0), 0
        else:
            moves = 0 if now is None or tick is None else now - tick
        state, row = estimator.step(state, y, moves)
        tick = now
        rows.append(row)
    return state, Changes.of_rows(rows)
