"""The reorder window of a room: readings wait for older ones, for one another, and for the private value of their time.

Messages come late, twice and in any order. A filter takes readings in the order of their slots, and a slot that was
passed never comes back. So each slot waits until

- all channels of the room have a reading in it,
- a private value is known that holds at its time, and
- the slot before it has been here;

and for no longer than the lateness, counted from the arrival of its first reading. Then it goes without the slots
before it, which are missing for good; or, if a channel or the private value is lacking, it is missing itself. It is
never scored under the private value of before.

The clock of the window is the time of arrival, not that of the readings: sensors that resend after an outage have
old times, and wait for each other all the same.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from understudy._types import Value
from understudy.gateway.config import Schedule, days_of, minutes_of
from understudy.stream.cadence import Cadence

_HELD = 8  # readings of a room whose times are in the future
_KEPT = 4096  # private values of a room
_FURTHEST = 86_400 * 10**9  # beyond which a time in the future is a fault of a clock


class Ready(NamedTuple):
    """A slot that goes, with what has to be acknowledged for it."""

    key: int
    reading: tuple[float, ...]
    theta: Value
    receipts: list[Any]

    def __repr__(self) -> str:
        return "Ready()"


class Missing(NamedTuple):
    """A slot that is missing for good, by which rule, and what has to be acknowledged for it."""

    rule: str
    receipts: list[Any]


@dataclass(slots=True)
class _Slot:
    key: int
    since: float
    channels: list[float | None]
    receipts: list[Any] = field(default_factory=list)


class PrivateValues:
    """The private values of a room over time, from messages: each holds from its own time on, and so long."""

    def __init__(self, valid_for: int) -> None:
        self.valid_for = valid_for
        self._times: list[int] = []
        self._values: list[Value | None] = []

    def __repr__(self) -> str:
        return f"PrivateValues({len(self._times)})"

    def tell(self, since: int, value: Value | None) -> bool:
        """A value from a time on, or none from then on; False if one of this time is known, which stays."""
        at = bisect.bisect_left(self._times, since)
        if at < len(self._times) and self._times[at] == since:
            return False
        self._times.insert(at, since)
        self._values.insert(at, value)
        return True

    def at(self, time: int) -> tuple[bool, Value | None]:
        """Whether a value holds at a time, and which: the last one that began."""
        at = bisect.bisect_right(self._times, time) - 1
        if at < 0 or time >= self._times[at] + self.valid_for or self._values[at] is None:
            return False, None
        return True, self._values[at]

    def forget(self, before: int) -> int:
        """Forget values that ended before a time, and all but the last few thousand; returns since when they count."""
        if len(self._times) > _KEPT:
            before = max(before, self._times[-_KEPT])
        at = bisect.bisect_right(self._times, before) - 1
        if at > 0:
            del self._times[:at], self._values[:at]
        return before


class Timetable:
    """Private values by the clock.

    >>> work = {"days": "mon-fri", "from": "08:00", "to": "17:00", "value": 1}
    >>> table = Timetable(Schedule.model_validate({"zone": "UTC", "otherwise": 0, "week": [work]}))
    >>> noon = 1772452800 * 10**9  # a Monday
    >>> table.at(noon), table.at(noon + 6 * 3600 * 10**9)
    ((True, 1), (True, 0))
    """

    def __init__(self, schedule: Schedule, value_of: Callable[[Any], Value] = lambda said: said) -> None:
        from zoneinfo import ZoneInfo

        self._zone, self._otherwise = ZoneInfo(schedule.zone), value_of(schedule.otherwise)
        self._spans = [
            (days_of(span.days), minutes_of(span.start), minutes_of(span.end), value_of(span.value))
            for span in schedule.week
        ]

    def at(self, time: int) -> tuple[bool, Value]:
        """The value at a time; a clock always has one."""
        moment = dt.datetime.fromtimestamp(time // 10**9, self._zone)
        minute = moment.hour * 60 + moment.minute
        for days, start, end, value in self._spans:
            day = moment.weekday()
            if end <= start:  # over midnight
                if (day in days and minute >= start) or ((day - 1) % 7 in days and minute < end):
                    return True, value
            elif day in days and start <= minute < end:
                return True, value
        return True, self._otherwise


class Window:
    """The slots of a room that have not gone yet.

    >>> window = Window(Cadence.checked(60, origin=0), 1, 5.0, 0, PrivateValues(600 * 10**9))
    >>> minute = 60 * 10**9
    >>> window.values.tell(0, 1)
    True
    >>> window.add(0, minute, 417.25, "first", 0.0), window.add(0, 3 * minute, 418.5, "third", 0.5)
    (None, None)
    >>> [ready.receipts for ready in window.ready(0.5)], window.deadline
    ([['first']], 5.5)
    >>> window.add(0, 2 * minute, 417.75, "second", 1.0)
    >>> [ready.receipts for ready in window.ready(1.0)]
    [['second'], ['third']]
    """

    def __init__(
        self, cadence: Cadence, channels: int, lateness: float, ahead: int, values: PrivateValues | Timetable
    ) -> None:
        self.cadence, self.channels, self.lateness, self.ahead = cadence, channels, lateness, ahead
        self.values = values
        self.last: int | None = None
        """The last slot that went, or is missing for good."""
        self.deadline = float("inf")
        """When the next slot goes, whatever comes."""
        self._slots: dict[int, _Slot] = {}
        self._held: list[tuple[int, int, float, Any]] = []  # time, channel, number, receipt

    def __len__(self) -> int:
        return len(self._slots) + len(self._held)

    def slot(self, time: int) -> int | None:
        """The slot of a time; None if it is too far from any."""
        slot = self.cadence.slot(time)
        far = abs(time - self.cadence.time(slot)) > max(self.cadence.tolerance, self.cadence.period % 2)
        return None if far else slot

    def add(self, channel: int, time: int, number: float, receipt: Any, now: float) -> str | None:
        """A reading with its time, at a moment of the window's clock; the rule by which it is not taken, if any.

        "late" is one whose slot has gone, and "duplicate" one whose slot has a reading already.
        """
        slot = self.slot(time)
        if slot is None:
            return "off_cadence"
        if self.last is not None and slot <= self.last:
            return "late"
        place = self._slots.get(slot)
        if place is None:
            key = time if self.channels == 1 else self.cadence.time(slot)
            place = self._slots[slot] = _Slot(key, now, [None] * self.channels)
            self.deadline = min(self.deadline, now + self.lateness)
        elif place.channels[channel] is not None:
            if self.channels > 1 or place.key == time:
                place.receipts.append(receipt)
                return None
            return "duplicate"
        place.channels[channel] = number
        place.receipts.append(receipt)
        return None

    def hold(self, channel: int, time: int, number: float, receipt: Any, wall: int) -> bool:
        """Keep a reading whose time is in the future until then; False if there are too many, or it is too far."""
        if len(self._held) >= _HELD or time - wall > _FURTHEST:
            return False
        bisect.insort(self._held, (time, channel, number, receipt), key=lambda held: held[0])
        return True

    def release(self, wall: int) -> Iterator[tuple[int, int, float, Any]]:
        """Readings that were held and whose time has come: channel, time, number, receipt."""
        while self._held and self._held[0][0] <= wall + self.ahead:
            time, channel, number, receipt = self._held.pop(0)
            yield channel, time, number, receipt

    @property
    def holds(self) -> bool:
        """Whether readings of the future are held."""
        return bool(self._held)

    def ready(self, now: float) -> list[Ready | Missing]:
        """The slots that go now, in their order, and those that are missing for good."""
        found: list[Ready | Missing] = []
        # whoever has waited long enough does not wait for older ones that came after it
        latest = max((n for n, place in self._slots.items() if now - place.since >= self.lateness), default=None)
        while self._slots:
            slot = min(self._slots)
            place = self._slots[slot]
            expired = latest is not None and slot <= latest
            whole = None not in place.channels
            known, theta = self.values.at(place.key)
            in_order = self.last is None or slot == self.last + 1
            if whole and known and (in_order or expired):
                found.append(Ready(place.key, tuple(y for y in place.channels if y is not None), theta, place.receipts))
            elif expired:
                found.append(Missing("untold" if whole else "incomplete", place.receipts))
            else:
                break
            del self._slots[slot]
            self.last = slot
        self.deadline = min((place.since for place in self._slots.values()), default=float("inf")) + self.lateness
        return found
