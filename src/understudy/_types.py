"""Types that every package needs: arrays of numbers, values that do not change, and reports of progress."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""
Ints = NDArray[np.int64]
"""Whole numbers: counts, labels, nanoseconds."""
Index = NDArray[np.intp]
"""Positions in another array."""
Mask = NDArray[np.bool_]
"""True where a rule holds."""
Numbers: TypeAlias = float | Array
"""One real number, or an array of them: what a law of one channel acts on."""
Value: TypeAlias = Hashable
"""A value of the private or of the pseudo parameter: a number, a word, a tuple of such."""
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a JSON document can hold."""
Plain = dict[str, Any]
"""A JSON object whose content has not been checked yet."""
Seed: TypeAlias = int | np.random.Generator | None
"""Where random numbers come from: a seed, a generator, or None for the operating system's."""
Period: TypeAlias = str | float | timedelta | np.timedelta64
"""A length of time: words such as "5 min", seconds, or a duration."""
Progress = Callable[[float], None]
"""Hears the share of the work that is done, from 0 to 1."""


class Frozen:
    """A value: each attribute is set once, in the constructor."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"{type(self).__name__} is a value and does not change; make a new one")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is a value and does not change; make a new one")
