"""Outputs as the ledger keeps them: a number for one channel, eight bytes a channel for more."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.laws.base import Array


def to_stored(stream: int, numbers: list[int], out: Array) -> list[tuple[int, int, Any]]:
    """Rows for the ledger: stream, key, output.

    >>> to_stored(1, [7], np.array([[1.5]]))
    [(1, 7, 1.5)]
    """
    values: list[Any]
    if out.shape[1] == 1:
        values = out[:, 0].tolist()  # SQLite keeps NaN as NULL
    else:
        values = [row.tobytes() for row in np.ascontiguousarray(out, dtype="<f8")]
    return list(zip([stream] * len(numbers), numbers, values, strict=True))


def from_stored(value: Any, dim: int) -> Any:
    """One output again, as it was to the bit."""
    if dim == 1:
        return np.nan if value is None else value
    return np.frombuffer(value, dtype="<f8")
