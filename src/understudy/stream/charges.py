"""What is charged when: epochs by the clock, blocks of readings where models are approximate."""

from __future__ import annotations

import bisect
import datetime as dt
from typing import Any

from understudy.errors import ConfigurationError, ReadingError
from understudy.stream.keys import TIME


def blocks_begun(block: int, count: int, length: int) -> tuple[int, int]:
    """How many blocks of readings `count` more of them begin, and where in its block the last one stands.

    The leak of a block is charged before its first reading is released.

    >>> blocks_begun(0, 1, 50), blocks_begun(1, 49, 50), blocks_begun(50, 1, 50), blocks_begun(3, 100, 50)
    ((1, 1), (0, 50), (1, 1), (2, 3))
    """
    begun = -(-(block + count) // length) - (-(-block // length))
    return begun, (block + count) % length or length


class Clock:
    """Epochs of a fixed length: in seconds for readings with times, in readings for the others.

    >>> clock = Clock(3)
    >>> clock.tick(7)
    2
    >>> clock.before(2, [7, 8, 9, 10], 0)
    2
    """

    def __init__(self, length: int | None) -> None:
        self.length = length

    @staticmethod
    def checked(epoch: Any) -> dict[str, Any]:
        """The length of epochs as it is stored; refuses what is none."""
        if epoch is None:
            return {}
        if isinstance(epoch, dt.timedelta):
            nanoseconds = (epoch.days * 86_400 + epoch.seconds) * 10**9 + epoch.microseconds * 1000
            if nanoseconds > 0:
                return {"epoch": nanoseconds, "timed": True}
        elif isinstance(epoch, int) and not isinstance(epoch, bool) and epoch > 0:
            return {"epoch": epoch, "timed": False}
        raise ConfigurationError(
            f"epoch = {epoch!r}; it must be a positive timedelta (readings with times) or a number of readings"
        )

    def tick(self, number: int) -> int | None:
        """The number of the epoch that a key falls into."""
        return None if self.length is None else number // self.length

    def before(self, tick: int | None, numbers: list[int], first: int) -> int:
        """The end of the readings from `first` on that fall into the same epoch."""
        if self.length is None or tick is None:
            return len(numbers)
        return bisect.bisect_left(numbers, (tick + 1) * self.length, first)


def check_kind(timed: bool, kind: str) -> None:
    """Epochs in seconds need keys that are times; epochs in readings need keys that are not."""
    if timed != (kind == TIME):
        wanted = "times" if timed else "numbers"
        raise ReadingError(f"the epochs of this stream are counted by {wanted}; the key is of the kind {kind!r}")
