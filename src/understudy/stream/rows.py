"""What the ledger holds, row by row, and the digests by which damage is noticed.

Rows hold draws and keys, so their texts show neither.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

MICRO = 1_000_000

_ONE = Struct("<qqd").pack
_HEAD = Struct("<qq").pack
_NAN = float("nan")


class StreamRow(NamedTuple):
    """What the ledger knows of a stream, apart from its draws and its position."""

    id: int
    name: str
    room: str
    design: str
    secret: bytes
    insecure: bool
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"StreamRow({self.name!r})"


class EpochRow(NamedTuple):
    """One epoch of a stream: who is played, by whom, and whether the draw is that of the epoch before."""

    epoch: int
    source: int
    draw: int
    held: bool

    def __repr__(self) -> str:
        return f"EpochRow({self.epoch})"


class Position(NamedTuple):
    """Where a stream stands: all that changes with a reading, apart from the draw."""

    readings: int = 0  # so far
    last: int | None = None  # the key of the last one
    kind: str = ""  # of its keys
    source: int = 0  # the private value, by position
    tick: int | None = None  # the number of the epoch by the clock
    block: int = 0  # readings since the residual leak was last charged
    per_block: int = 0  # what a block of readings costs in this epoch, in micro-nats
    stopped: int = 0  # 1 when an epoch was refused, until one begins
    epoch: int = 0  # the number of the epoch in the ledger
    charged: int = 0  # micro-nats charged to this stream so far
    serial: int = 0  # how often a position was recorded
    memory: Any = None  # of the policy, where it has one, and of what guesses the private value
    state: Any = None  # of the filter

    def __repr__(self) -> str:
        return f"Position({self.readings} readings)"


class Budget(NamedTuple):
    """What a room may give away, in micro-nats: in total, and in each period of so many seconds."""

    room: str
    total: int | None
    amount: int | None
    period: int | None
    when_spent: str


def digest(*values: Any) -> str:
    """A digest of a row, which tells damage (it is no signature).

    >>> digest(1, "a", None) == digest(1, "a", "None")
    False
    """
    return hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()


def checked_outputs(stream: int, numbers: list[int], values: list[Any]) -> list[int]:
    """What tells damage of outputs: a checksum for each, of its stream, its key and its value.

    >>> checked_outputs(1, [7], [1.5]) == checked_outputs(1, [8], [1.5])
    False
    """
    if type(values[0]) is bytes:
        return [crc32(value, crc32(_HEAD(stream, key))) for key, value in zip(numbers, values, strict=True)]
    return [crc32(_ONE(stream, key, value)) for key, value in zip(numbers, values, strict=True)]


def is_as_written(stream: Any, key: Any, value: Any, check: Any) -> bool:
    """Whether an output that was read is the one that was written; SQLite keeps NaN as NULL."""
    if value is None:
        value = _NAN
    if type(stream) is not int or type(key) is not int or type(value) not in (float, bytes):
        return False
    return checked_outputs(stream, [key], [value]) == [check]
