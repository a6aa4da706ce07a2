"""The cadence of a stream: one slot a period, into which readings are put by their time and by nothing else.

The laws of a model are those of readings one period apart. A reading that comes hours after the last is not the next
one: between them lie slots that stayed empty, and both predictors have to move on through them. So a stream whose
readings have times has a period. Its slots stand at whole multiples of it from an origin, the time of the first reading
unless another one is given.

- A time is put into the nearest slot, if it is within the tolerance (half a period by default); otherwise refused.
- The first reading of a slot wins. Later ones get no output, and count for nothing.
- Slots that stay empty are missing readings, for source and target alike.

These are rules of the time alone. They cannot depend on the private parameter more than the times do.

>>> minutes = Cadence.checked(60, origin=0)
>>> minutes.slots(np.array([0, 61, 179, 185]) * 10**9).tolist()
[0, 1, 3, 3]

Every reading has a *key*: a sequence number or a time, as one whole number that grows. A reading that comes again under
the same key gets the output that it got before. So keys are compared for equality and for order, and are kept exactly:
whole numbers as they are, times in nanoseconds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from operator import lt
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy._types import Ints
from understudy.errors import ConfigurationError, ReadingError

Key: TypeAlias = int | dt.datetime | np.datetime64
"""A sequence number, or a time with a time zone."""
Keys: TypeAlias = Iterable[Key] | NDArray[Any]
"""One for each reading."""
Duration: TypeAlias = dt.timedelta | np.timedelta64 | float
"""A length of time; a number counts seconds."""
COUNT, NUMBER, TIME = "count", "number", "time"
"""Kinds of keys: none, so that readings are counted; numbers; times."""

_Slots = TypeVar("_Slots", int, Ints)

# Slots ----------------------------------------------------------------------------------------------


LONGEST_GAP = 1_000_000
"""Empty slots that a stream moves through one by one; beyond them the models must be able to leap."""

_SECOND = 1_000_000_000
_FURTHEST = 2**62 - 2**60  # nanoseconds from the origin, so that nothing wraps round


class Cadence(NamedTuple):
    """A period, the tolerance for times beside their slot, and the origin of the slots, in nanoseconds."""

    period: int
    tolerance: int = 0
    origin: int | None = None

    @classmethod
    def checked(cls, period: Duration, tolerance: Duration | None = None, origin: int | None = None) -> Cadence:
        """From what a user gives: a timedelta or seconds; refuses what is none.

        >>> Cadence.checked(60)
        Cadence(period=60000000000, tolerance=30000000000, origin=None)
        """
        length = _nanoseconds("period", period)
        within = length // 2 if tolerance is None else _nanoseconds("tolerance", tolerance, least=0)
        if within > length // 2:
            raise ConfigurationError(f"tolerance = {tolerance!r}; it must be at most half of the period")
        return cls(length, within, origin)

    @classmethod
    def stored(cls, options: Mapping[str, Any]) -> Cadence | None:
        """That of a stream, from its options."""
        found = options.get("cadence")
        return None if found is None else cls(*found)

    def slots(self, times: Sequence[int] | Ints, first: int = 0) -> Ints:
        """The slot of each time; refuses one that is too far from its slot, by position."""
        numbers = np.asarray(times, dtype=np.int64)
        origin = int(numbers[0]) if self.origin is None else self.origin
        if max(abs(int(numbers[0]) - origin), abs(int(numbers[-1]) - origin)) > _FURTHEST:
            raise ReadingError(f"the time of a reading is more than {_FURTHEST / _SECOND / 86_400 / 365:.0f} years off")
        start, ahead = divmod(int(numbers[0]) - origin, self.period)
        if not ahead and (np.diff(numbers) == self.period).all():  # most often; divisions take far longer
            return np.arange(start, start + len(numbers))
        from_origin = numbers - origin
        found = (from_origin + self.period // 2) // self.period
        off = np.flatnonzero(np.abs(from_origin - found * self.period) > max(self.tolerance, self.period % 2))
        if off.size:
            raise ReadingError(
                f"the time of reading {first + int(off[0])} is more than {self.tolerance / _SECOND:g} s from its slot; "
                f"this stream has a reading every {self.period / _SECOND:g} s"
            )
        return np.asarray(found)

    def slots_of(self, times: Ints) -> Ints:
        """The nearest slot of each time, however far it is."""
        return np.asarray((times - (self.origin or 0) + self.period // 2) // self.period)

    def slot(self, time: int) -> int:
        """The slot of one time that was accepted before."""
        return (time - (self.origin or 0) + self.period // 2) // self.period

    def time(self, slots: _Slots) -> _Slots:
        """The time of a slot, or of an array of them."""
        return (self.origin or 0) + slots * self.period

    def steps(self, slots: Ints, last: int | None) -> Ints:
        """How many slots each new reading goes on, after the one at `last`: 0 where it comes late into a full slot.

        >>> Cadence.checked(60, origin=0).steps(np.array([3, 3, 4, 7]), 120_000_000_000)
        array([1, 0, 1, 3])
        """
        return np.diff(slots, prepend=slots[0] - 1 if last is None else self.slot(last))


def _nanoseconds(name: str, given: Duration, least: int = 1) -> int:
    rule = f"it must be a timedelta or a number of seconds, {'above 0' if least else '0 or more'}"
    if isinstance(given, dt.timedelta):
        found = (given.days * 86_400 + given.seconds) * _SECOND + given.microseconds * 1000
    elif isinstance(given, np.timedelta64) and np.datetime_data(given)[0] != "generic" and not np.isnat(given):
        found = int(given.astype("timedelta64[ns]").astype(np.int64))
    elif isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, (bool, np.timedelta64)):
        found = round(float(given) * _SECOND) if -1e9 < given < 1e9 else -1
    else:
        raise ConfigurationError(f"{name} = {given!r}; {rule}")
    if not least <= found < 2**62:
        raise ConfigurationError(f"{name} = {given!r}; {rule}")
    return found


# Keys -----------------------------------------------------------------------------------------------


_LARGEST = 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def as_key(key: Key) -> tuple[str, int]:
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
        return TIME, int(_times(np.array([key]))[0])
    raise ReadingError(
        f"a key is of type {type(key).__name__}; it must be a whole number, a datetime with a time zone or a datetime64"
    )


def as_keys(keys: Keys, count: int) -> tuple[str, list[int] | Ints]:
    """Those of a batch: one for each reading, all of one kind, each after the one before.

    >>> as_keys(range(5, 8), 3)
    ('number', [5, 6, 7])
    """
    if isinstance(keys, np.ndarray) and keys.ndim == 1:
        if keys.dtype.kind == "M":
            return TIME, _growing(_times(keys), count)
        if keys.dtype.kind == "i":
            return NUMBER, _growing(keys.astype(np.int64), count)
    try:
        given = list(keys)
    except TypeError:
        raise ReadingError(f"keys is of type {type(keys).__name__}; it must hold one for each reading") from None
    if len(given) == count == 1:
        kind, number = as_key(given[0])
        return kind, [number]
    if given and set(map(type, given)) == {int}:
        return NUMBER, _growing(given, count)
    pairs = [as_key(key) for key in given]
    if len({kind for kind, _ in pairs}) > 1:
        raise ReadingError("keys are numbers and times; they must be of one kind")
    return pairs[0][0] if pairs else NUMBER, _growing([number for _, number in pairs], count)


def number_keys(kind: str, readings: int, keys: Keys | None, count: int) -> tuple[str, list[int]]:
    """The keys of `count` more readings of a stream whose keys are of this kind; without keys, their number counts."""
    if keys is None and kind in ("", COUNT):
        return COUNT, list(range(readings, readings + count))
    found, numbers = _same_kind(kind, keys, count)
    return found, numbers.tolist() if isinstance(numbers, np.ndarray) else numbers


def number_key_array(kind: str, readings: int, keys: Keys | None, count: int) -> tuple[str, Ints]:
    """What `number_keys` gives, as an array: for batches of so many readings that a list is slow.

    >>> number_key_array("", 5, None, 3)
    ('count', array([5, 6, 7]))
    """
    if keys is None and kind in ("", COUNT):
        return COUNT, np.arange(readings, readings + count)
    found, numbers = _same_kind(kind, keys, count)
    return found, np.asarray(numbers, dtype=np.int64)


def _same_kind(kind: str, keys: Keys | None, count: int) -> tuple[str, list[int] | Ints]:
    if keys is None:
        raise ReadingError("readings of this stream have keys; this one has none")
    found, numbers = as_keys(keys, count)
    if kind not in ("", found):
        raise ReadingError(f"keys of this stream are of the kind {kind!r}; this is of the kind {found!r}")
    return found, numbers


def _times(keys: NDArray[Any]) -> Ints:
    try:
        fine = keys.astype("datetime64[ns]")
        whole = not np.isnat(keys).any() and not (fine.astype(keys.dtype) != keys).any()  # before 2.5 numpy wraps round
    except OverflowError:
        whole = False
    if not whole:
        raise ReadingError("a key is no time between 1678 and 2262, the times that 64 bits of nanoseconds hold")
    return fine.astype(np.int64)


_Numbers = TypeVar("_Numbers", list[int], Ints)


def _growing(numbers: _Numbers, count: int) -> _Numbers:
    if len(numbers) != count:
        raise ReadingError(f"{len(numbers)} keys for {count} reading{'s' * (count != 1)}; each reading needs one")
    array = isinstance(numbers, np.ndarray)
    if not (np.all(numbers[1:] > numbers[:-1]) if array else all(map(lt, numbers, numbers[1:]))):
        i = next(i for i in range(1, count) if numbers[i] <= numbers[i - 1])
        raise ReadingError(f"key {i} does not come after key {i - 1}; keys of a batch must grow")
    for end in (numbers[0], numbers[-1]):
        _in_range(int(end))
    return numbers


def _in_range(number: int) -> int:
    if not -_LARGEST <= number <= _LARGEST:
        raise ReadingError("a key is beyond 64 bits; a key is a whole number or a time that fits")
    return number
