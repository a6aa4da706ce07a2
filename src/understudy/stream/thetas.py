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

    def of_places(self, places: Any) -> Changes:
        """Those of some readings of the batch, by position."""
        if len(self.starts) == 1:
            return self
        return Changes.of_rows([self.at(i)[0] for i in places.tolist()]) if len(places) else self

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
    values = _column(theta)
    if values.ndim != 1 or len(values) != count:
        raise ReadingError(f"theta has the shape {values.shape}; it must be a value, or hold one for each of {count}")
    if values.dtype == object:
        # whatever they are, neighbours that are the same object or equal plain values are one
        starts = [i for i in range(count) if i == 0 or not _same(values[i], values[i - 1])]
    else:
        starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    rows = []
    for i in starts:
        try:
            rows.append(policy.row(values[i].item() if isinstance(values[i], np.generic) else values[i]))
        except (ConfigurationError, TypeError, ValueError):
            raise ReadingError(f"theta of reading {i} is none of the values of the design") from None
    return Changes(starts, rows)


def _many(theta: Any) -> bool:
    return isinstance(theta, list) or hasattr(theta, "to_numpy") or (isinstance(theta, np.ndarray) and theta.ndim > 0)


def _column(theta: Any) -> Any:
    """Values as an array of one axis; anything but numbers, truths and texts as objects, one for each reading."""
    if isinstance(theta, np.ma.MaskedArray):
        if np.ma.is_masked(theta):
            first = int(np.flatnonzero(np.ma.getmaskarray(theta).ravel())[0])
            raise ReadingError(f"theta of reading {first} is masked; each reading needs a value")
        theta = theta.data
    if isinstance(theta, np.ndarray):
        return theta
    if not isinstance(theta, list):
        theta = _told_by(theta)
        if isinstance(theta, np.ndarray) and (theta.dtype != object or theta.ndim != 1):
            return theta
    listed = theta if isinstance(theta, list) else list(theta)
    kinds = {type(value) for value in listed}
    return np.array(listed) if len(kinds) == 1 and kinds <= {int, float, bool, str} else _objects(listed)


def _told_by(column: Any) -> Any:
    """What a column of a dataframe holds; an arrow array has its own way to say so."""
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False


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
