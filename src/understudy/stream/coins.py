"""The coins of a stream: random bits that follow from its key, one set for each draw.

The key is 256 bits of the operating system's random source, made once and recorded with the stream. Bits for a draw are
a keyed digest of the number of the epoch and of the readings before it. So a draw cannot be made twice with two
outcomes: a call that failed after it, a replay, a restart or a snapshot that is used again all get the same one.
"""

from __future__ import annotations

import hashlib
import struct

_INDEX = struct.Struct("<qqq")


class Coins:
    """What a draw asks for bits: the part of a numpy Generator that draws use.

    >>> Coins(bytes(32), 3, 45).integers(1 << 53) == Coins(bytes(32), 3, 45).integers(1 << 53)
    True
    """

    __slots__ = ("_asked", "_index", "_key")

    def __init__(self, key: bytes, epoch: int, readings: int) -> None:
        self._key, self._index, self._asked = key, (epoch, readings), 0

    def __repr__(self) -> str:
        return "Coins()"

    def integers(self, high: int) -> int:
        """A whole number from 0 to below `high`, which must be a power of 2."""
        label = _INDEX.pack(*self._index, self._asked)
        self._asked += 1
        return int.from_bytes(hashlib.blake2b(label, key=self._key, person=b"understudy draw").digest()) % high
