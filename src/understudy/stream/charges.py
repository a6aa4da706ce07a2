"""What is charged, and when: whole millionths of a nat, rounded up; epochs by the clock."""

from __future__ import annotations

import bisect
import datetime as dt
import math
from fractions import Fraction
from typing import Any

from understudy.errors import ConfigurationError, ReadingError
from understudy.stream.keys import TIME
from understudy.stream.ledger import MICRO
from understudy.stream.policy import Policy


def micronats(nats: float) -> int:
    """Nats in whole millionths, rounded up.

    >>> micronats(0.3), micronats(0.3000001)
    (300000, 300001)
    """
    return math.ceil(Fraction(nats) * MICRO)


def residual_charge(policy: Policy, block: int, count: int) -> tuple[int, int]:
    """What `count` more readings cost where models are approximate, and where in its block the last one stands.

    The leak of a block of readings is charged before its first one is released.
    """
    residual = policy.residual_of_block()
    if residual is None:
        return 0, 0
    nats, length = residual
    started = -(-(block + count) // length) - (-(-block // length))
    return started * micronats(nats), (block + count) % length or length


class Clock:
    """Epochs of a fixed length: in seconds for readings with times, in readings for the others.

    >>> clock = Clock(3)
    >>> clock.tick("number", 7)
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

    def tick(self, kind: str, number: int) -> int | None:
        """The number of the epoch that a key falls into."""
        return None if self.length is None else number // self.length

    def before(self, tick: int | None, numbers: list[int], first: int) -> int:
        """The end of the readings from `first` on that fall into the same epoch."""
        if self.length is None or tick is None:
            return len(numbers)
        return bisect.bisect_left(numbers, (tick + 1) * self.length, first)


def check_kind(options: dict[str, Any], kind: str) -> None:
    """Epochs in seconds need keys that are times; epochs in readings need keys that are not."""
    if "timed" in options and options["timed"] != (kind == TIME):
        wanted = "times" if options["timed"] else "numbers"
        raise ReadingError(f"the epochs of this stream are counted by {wanted}; the key is of the kind {kind!r}")
