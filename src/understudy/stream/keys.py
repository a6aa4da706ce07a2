"""Keys of readings: a sequence number or a time, as one whole number that grows.

A reading that comes again under the same key gets the output that it got before. So keys are compared
for equality and for order, and are kept exactly: whole numbers as they are, times in nanoseconds.
"""

from __future__ import annotations

import datetime as dt
from operator import lt
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
    elif isinstance(key, (int, np.integer)) and not isinstance(key, np.timedelta64):
        return NUMBER, _in_range(int(key))
    elif isinstance(key, dt.datetime):
        if key.tzinfo is None:
            raise ReadingError("a key is a time without a time zone; give one that has it (UTC, say)")
        since = key - _EPOCH
        nanoseconds = getattr(key, "nanosecond", 0)  # pandas has them
        seconds = since.days * 86_400 + since.seconds
        return TIME, _in_range(seconds * 10**9 + since.microseconds * 1000 + nanoseconds)
    elif isinstance(key, np.datetime64) and not np.isnat(key):
        return TIME, _times(np.array([key]))[0]
    raise ReadingError(
        f"a key is of type {type(key).__name__}; it must be a whole number, a datetime with a time zone or a datetime64"
    )


def as_keys(keys: Any, count: int) -> tuple[str, list[int]]:
    """Those of a batch: one for each reading, all of one kind, each after the one before.

    >>> as_keys(range(5, 8), 3)
    ('number', [5, 6, 7])
    """
    if type(keys) is range and keys.step > 0 and len(keys) == count > 0:
        _in_range(keys[0])
        _in_range(keys[-1])
        return NUMBER, list(keys)
    if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "iu":
        keys = keys.tolist()
    elif isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind == "M" and not np.isnat(keys).any():
        return TIME, _growing(_times(keys), count)
    try:
        given = list(keys)
    except TypeError:
        raise ReadingError(f"keys is of type {type(keys).__name__}; it must hold one for each reading") from None
    if len(given) == count == 1:
        kind, number = as_key(given[0])
        return kind, [number]
    if given and set(map(type, given)) == {int}:
        numbers = _growing(given, count)
        _in_range(numbers[0])
        _in_range(numbers[-1])
        return NUMBER, numbers
    found = [as_key(key) for key in given]
    if len({kind for kind, _ in found}) > 1:
        raise ReadingError("keys are numbers and times; they must be of one kind")
    numbers = _growing([number for _, number in found], count)
    return found[0][0], numbers


def numbered(kind: str, readings: int, keys: Any, count: int) -> tuple[str, list[int]]:
    """The keys of `count` more readings of a stream whose keys are of this kind; without keys, their number counts."""
    if keys is None:
        if kind not in ("", COUNT):
            raise ReadingError("readings of this stream have keys; this one has none")
        return COUNT, list(range(readings, readings + count))
    found, numbers = as_keys(keys, count)
    if kind not in ("", found):
        raise ReadingError(f"keys of this stream are of the kind {kind!r}; this is of the kind {found!r}")
    return found, numbers


def number_array(kind: str, readings: int, keys: Any, count: int) -> tuple[str, Any]:
    """What `numbered` gives, as an array: for batches of so many readings that a list is slow.

    >>> number_array("", 5, None, 3)
    ('count', array([5, 6, 7]))
    """
    if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in "iM" and len(keys) == count > 0:
        if keys.dtype.kind == "M":
            found, numbers = TIME, keys.astype("datetime64[ns]")
            if np.isnat(keys).any() or (numbers.astype(keys.dtype) != keys).any():
                raise ReadingError("a key is no time between 1678 and 2262, the times that 64 bits of nanoseconds hold")
            numbers = numbers.astype(np.int64)
        else:
            found, numbers = NUMBER, keys.astype(np.int64)
            _in_range(int(numbers.min()))
        if kind not in ("", found):
            raise ReadingError(f"keys of this stream are of the kind {kind!r}; this is of the kind {found!r}")
        back = np.flatnonzero(numbers[1:] <= numbers[:-1])
        if back.size:
            raise ReadingError(f"key {back[0] + 1} does not come after key {back[0]}; keys of a batch must grow")
        return found, numbers
    if keys is None and kind in ("", COUNT):
        return COUNT, np.arange(readings, readings + count)
    found, listed = numbered(kind, readings, keys, count)
    return found, np.array(listed, dtype=np.int64)


def _times(keys: Any) -> list[int]:
    fine = keys.astype("datetime64[ns]")
    if (fine.astype(keys.dtype) != keys).any():  # numpy wraps round
        raise ReadingError("a key is a time beyond 64 bits of nanoseconds; it must be between 1678 and 2262")
    return fine.astype(np.int64).tolist()  # type: ignore[no-any-return]  # a list of int


def _growing(numbers: list[int], count: int) -> list[int]:
    if len(numbers) != count:
        raise ReadingError(f"{len(numbers)} keys for {count} reading{'s' * (count != 1)}; each reading needs one")
    if not all(map(lt, numbers, numbers[1:])):
        i = next(i for i in range(1, count) if numbers[i] <= numbers[i - 1])
        raise ReadingError(f"key {i} does not come after key {i - 1}; keys of a batch must grow")
    return numbers


def _in_range(number: int) -> int:
    if not -_LARGEST <= number <= _LARGEST:
        raise ReadingError("a key is beyond 64 bits; a key is a whole number or a time that fits")
    return number
