"""What the ledger holds, row by row, and the digests by which damage is noticed.

Rows hold draws and keys, so their texts show neither.

Outputs as the ledger keeps them: a number for one channel, eight bytes a channel for more, and a checksum.

The streams of a ledger, as they stand in its tables.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from itertools import repeat
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from understudy._types import Array
from understudy.errors import ConfigurationError

# What the ledger holds, row by row, and the digests by which damage is noticed -----------------------


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


# Outputs as the ledger keeps them: a number for one channel, eight bytes a channel for more, and a ch ---


def to_stored(stream: int, numbers: list[int], out: Array) -> Iterable[tuple[int, int, Any, int]]:
    """Rows for the ledger: stream, key, output, checksum.

    >>> [row[:3] for row in to_stored(1, [7], np.array([[1.5]]))]
    [(1, 7, 1.5)]
    """
    values: list[Any]
    if out.shape[1] == 1:
        values = out[:, 0].tolist()
        if np.isnan(out).any():
            values = [value if value == value else _NAN for value in values]
    else:
        values = [row.tobytes() for row in np.ascontiguousarray(out, dtype="<f8")]
    return zip(repeat(stream), numbers, values, checked_outputs(stream, numbers, values))


def from_stored(value: Any, dim: int) -> Any:
    """One output again, as it was to the bit."""
    if dim == 1:
        return np.nan if value is None else value
    return np.frombuffer(value, dtype="<f8")


# The streams of a ledger, as they stand in its tables ------------------------------------------------


def check_name(what: str, name: Any) -> None:
    r"""Refuse what cannot be the name of a stream or a room: names stand in messages, in tables and on terminals.

    >>> check_name("name", "lab")
    >>> check_name("name", "lab\n")
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: name = 'lab\n'; it must be a text of printable characters
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(f"{what} = {name!r}; it must be a text of printable characters")


def all_streams(db: sqlite3.Connection) -> dict[str, StreamRow] | None:
    """All streams, by a scan: one that an index or a page has lost would be drawn for again.

    None if they are not what was written, or if there are not as many states.
    """
    found: dict[str, StreamRow] = {}
    columns = "SELECT id, name, room, design, secret, insecure, options, digest FROM streams NOT INDEXED"
    for *row, options, written in db.execute(columns):
        if written != digest(*row, options):
            return None
        number, name, room, design, secret, insecure = row
        found[name] = StreamRow(number, name, room, design, secret, bool(insecure), json.loads(options))
    states = [number for (number,) in db.execute("SELECT stream FROM states ORDER BY stream")]
    return found if states == [row.id for row in found.values()] else None


def add_stream(db: sqlite3.Connection, row: StreamRow) -> None:
    """Record a stream, with an empty state that is filled in the same transaction."""
    options = json.dumps(row.options, sort_keys=True)
    values = (row.id, row.name, row.room, row.design, row.secret, int(row.insecure), options)
    db.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, digest(*values)))
    db.execute("INSERT INTO states VALUES (?, 0, NULL, '', 0, NULL, 0, 0, 0, 0, 0, 0, NULL, '', '')", (row.id,))


def set_options(db: sqlite3.Connection, row: StreamRow) -> None:
    """Record the options of a stream anew."""
    options = json.dumps(row.options, sort_keys=True)
    values = (row.id, row.name, row.room, row.design, row.secret, int(row.insecure), options)
    db.execute("UPDATE streams SET options = ?, digest = ? WHERE id = ?", (options, digest(*values), row.id))
