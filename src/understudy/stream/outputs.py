"""Outputs as the ledger keeps them: a number for one channel, eight bytes a channel for more, and a checksum."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

from understudy.laws.base import Array
from understudy.stream.rows import checked_outputs

_NAN = float("nan")  # of the usual bits, whatever NaN a filter gives


def to_stored(stream: int, numbers: list[int], out: Array) -> Iterable[tuple[int, int, Any, int]]:
    """Rows for the ledger: stream, key, output, checksum.

    >>> [row[:3] for row in to_stored(1, [7], np.array([[1.5]]))]
    [(1, 7, 1.5)]
    """
    values: list[Any]
    if out.shape[1] == 1:
        values = out[:, 0].tolist()
        if np.isnan(out).any():
            values = [value if value == value else _NAN for value in values]
    else:
        values = [row.tobytes() for row in np.ascontiguousarray(out, dtype="<f8")]
    return zip(repeat(stream), numbers, values, checked_outputs(stream, numbers, values))


def from_stored(value: Any, dim: int) -> Any:
    """One output again, as it was to the bit."""
    if dim == 1:
        return np.nan if value is None else value
    return np.frombuffer(value, dtype="<f8")
