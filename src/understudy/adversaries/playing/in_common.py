"""Whether two recordings share rows: an adversary who learned from what it is judged on has learned nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array

WINDOW = 64
"""Rows in a row that must agree to the bit."""
CHANGES = 16
"""How often the readings must change among them: sensors that stand still agree by chance."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def in_common(one: Array, other: Array) -> int:
    """How many rows of `other` (T, d) are in stretches of readings that `one` holds too.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(500, 1)), rng.normal(size=(500, 1))
    >>> in_common(first, second), in_common(first, np.concatenate([second, first[:100]]))
    (0, 100)
    """
    (known, _), (marks, good) = _windows(one), _windows(other)
    shared = np.flatnonzero(good & np.isin(marks, known))
    rows = np.zeros(len(other) + 1, dtype=np.int64)
    np.add.at(rows, shared, 1)
    np.add.at(rows, shared + WINDOW, -1)
    return int((np.cumsum(rows)[:-1] > 0).sum())


def _windows(Y: Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A number for each window of rows, and whether the window changes often enough to be known again."""
    count = len(Y) - WINDOW + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=bool)
    bits = (np.ascontiguousarray(Y, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    row, mark = np.zeros(len(Y), dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    for channel in bits.T:
        row = (row ^ channel) * _FACTOR
        row ^= row >> np.uint64(29)
    for k in range(WINDOW):
        mark = mark * _FACTOR + row[k : k + count]
    changed = np.concatenate([[0], np.cumsum((Y[1:] != Y[:-1]).any(axis=1))])
    missing = np.concatenate([[0], np.cumsum(np.isnan(Y).any(axis=1))])
    good = (changed[WINDOW - 1 :] - changed[:count] >= CHANGES) & (missing[WINDOW:] == missing[:count])
    return mark, np.asarray(good)
