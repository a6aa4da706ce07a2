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
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy._types import Ints as Whole

LONGEST_GAP = 1_000_000
"""Empty slots that a stream moves through one by one; beyond them the models must be able to leap."""

_SECOND = 1_000_000_000
_FURTHEST = 2**62 - 2**60  # nanoseconds from the origin, so that nothing wraps round


class Places(NamedTuple):
    """What a batch of new readings comes to: which are taken, how many slots stay empty before each, their times."""

    taken: Whole
    """Positions in the batch; the others come late into a slot that is full."""
    skipped: Whole
    times: Whole


class Cadence(NamedTuple):
    """A period, the tolerance for times beside their slot, and the origin of the slots, in nanoseconds."""

    period: int
    tolerance: int = 0
    origin: int | None = None

    @classmethod
    def checked(cls, period: Any, tolerance: Any = None, origin: Any = None) -> Cadence:
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
    def stored(cls, options: dict[str, Any]) -> Cadence | None:
        """That of a stream, from its options."""
        found = options.get("cadence")
        return None if found is None else cls(*found)

    def slots(self, times: Any, first: int = 0) -> Whole:
        """The slot of each time; refuses one that is too far from its slot, by position."""
        numbers = np.asarray(times, dtype=np.int64)
        origin = int(numbers[0]) if self.origin is None else self.origin
        if max(abs(int(numbers[0]) - origin), abs(int(numbers[-1]) - origin)) > _FURTHEST:
            raise ReadingError(f"the time of a reading is more than {_FURTHEST / _SECOND / 86_400 / 365:.0f} years off")
        from_origin = numbers - origin
        found = (from_origin + self.period // 2) // self.period
        off = np.flatnonzero(np.abs(from_origin - found * self.period) > max(self.tolerance, self.period % 2))
        if off.size:
            raise ReadingError(
                f"the time of reading {first + int(off[0])} is more than {self.tolerance / _SECOND:g} s from its slot; "
                f"this stream has a reading every {self.period / _SECOND:g} s"
            )
        return np.asarray(found)

    def slot(self, time: int) -> int:
        """The slot of one time that was accepted before."""
        return (time - (self.origin or 0) + self.period // 2) // self.period

    def time(self, slots: Any) -> Any:
        """The time of slots."""
        return (self.origin or 0) + slots * self.period

    def is_regular(self, times: Any, last: int | None) -> bool:
        """Whether times stand exactly on slots, one after the other, the first one after that of `last`."""
        numbers = np.asarray(times)
        first = int(numbers[0])
        origin = first if self.origin is None else self.origin
        if (first - origin) % self.period or (last is not None and self.slot(first) != self.slot(last) + 1):
            return False
        end = int(numbers[-1]) - first == (len(numbers) - 1) * self.period
        return end and bool((np.diff(numbers) == self.period).all())

    def places(self, times: Any, last: int | None, first: int = 0) -> Places:
        """Where new readings go, in order, after the one at `last`; `first` numbers them in errors."""
        slots = self.slots(times, first)
        before = slots[0] - 1 if last is None else self.slot(last)
        # the slot of the reading before, or the highest so far: times grow, so that slots do not fall
        steps = np.diff(slots, prepend=before)
        taken = np.flatnonzero(steps > 0)
        return Places(taken, steps[taken] - 1, np.asarray(self.time(slots[taken])))


def _nanoseconds(name: str, given: Any, least: int = 1) -> int:
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
