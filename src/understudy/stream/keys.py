"""Keys of readings: a sequence number or a time, as one whole number that grows.

A reading that comes again under the same key gets the output that it got before. So keys are compared
for equality and for order, and are kept exactly: whole numbers as they are, times in nanoseconds.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from understudy.errors import ReadingError

COUNT, NUMBER, TIME = "count", "number", "time"
_LARGEST = 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def as_key(key: Any) -> tuple[str, int]:
    """The kind of a key, and the number that stands for it.

    >>> import datetime as dt
    >>> as_key(17)
    ('number', 17)
    >>> as_key(dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc))
    ('time', 1000000000)
    """
    if isinstance(key, (bool, np.bool_)):
        pass
    elif isinstance(key, (int, np.integer)):
        return NUMBER, _in_range(int(key))
    elif isinstance(key, dt.datetime):
        if key.tzinfo is None:
            raise ReadingError("a key is a time without a time zone; give one that has it (UTC, say)")
        since = key - _EPOCH
        return TIME, _in_range((since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000)
    elif isinstance(key, np.datetime64) and not np.isnat(key):
        return TIME, _in_range(int(key.astype("datetime64[ns]").astype(np.int64)))
    raise ReadingError(
        f"a key is of type {type(key).__name__}; it must be a whole number, a datetime with a time zone or a datetime64"
    )


def as_keys(keys: Any, count: int) -> tuple[str, list[int]]:
    """Those of a batch: one for each reading, all of one kind, each after the one before."""
    given = list(keys)
    if len(given) != count:
        raise ReadingError(f"{len(given)} keys for {count} readings; each reading needs one")
    found = [as_key(key) for key in given]
    if len({kind for kind, _ in found}) != 1:
        raise ReadingError("keys are numbers and times; they must be of one kind")
    numbers = [number for _, number in found]
    for i in range(1, count):
        if numbers[i] <= numbers[i - 1]:
            raise ReadingError(f"key {i} does not come after key {i - 1}; keys of a batch must grow")
    return found[0][0], numbers


def _in_range(number: int) -> int:
    if not -_LARGEST <= number <= _LARGEST:
        raise ReadingError("a key is beyond 64 bits; a key is a whole number or a time that fits")
    return number
