"""What rooms may give away, and what they have: whole micro-nats, booked in the transaction that spends them."""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
from fractions import Fraction
from typing import NamedTuple

from understudy.errors import ConfigurationError
from understudy.stream.ledger_file import MICRO, Budget, digest

STOP, HOLD = "stop", "hold"
DRAW, DECISION, RESIDUAL, LOST = "draw", "decision", "residual", "lost"
_SHARED = {RESIDUAL: "AND epoch = ? ", DECISION: "AND epoch <= ? "}  # kinds of which many go into one row

_DAY = 86_400
_MOST = 10**12


class Entry(NamedTuple):
    """A charge that is asked for."""

    stream: int
    room: str
    epoch: int
    kind: str
    micronats: int


def micronats(nats: float) -> int:
    """Nats in whole millionths, rounded up.

    A float stands for the shortest decimal that reads back as it: 0.1 is a tenth, not the 6e-18 more that the
    nearest double is.

    >>> micronats(0.3), micronats(0.1), micronats(0.3000001)
    (300000, 100000, 300001)
    """
    return math.ceil(_exact(nats) * MICRO)


def allowance(name: str, nats: float | None) -> int | None:
    """What is allowed, in whole millionths, rounded down; 1e-12 nats are forgiven, for sums of floats.

    >>> allowance("total", 4.35), allowance("total", 0.6 + 0.3), allowance("total", 1e-7), allowance("total", None)
    (4350000, 900000, 0, None)
    """
    if nats is None:
        return None
    return math.floor(_exact(_number(name, nats)) * MICRO + Fraction(1, 1_000_000))


def seconds(period: dt.timedelta | float | None) -> int | None:
    """The length of a period: a timedelta, or a number of seconds; whole seconds.

    >>> import datetime as dt
    >>> seconds(dt.timedelta(days=1)), seconds(60)
    (86400, 60)
    """
    if period is None:
        return None
    if isinstance(period, dt.timedelta):
        period = period.total_seconds()
    length = _number("period", period)
    if length < 1 or length != int(length):
        raise ConfigurationError(f"period = {period!r}; it must be a whole number of seconds, 1 or more")
    return int(length)


def _number(name: str, value: float) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number < _MOST:
        raise ConfigurationError(f"{name} = {value!r}; it must be a number, 0 or more")
    return number


def _exact(nats: float) -> Fraction:
    return Fraction(repr(float(nats)))


# The tables ----------------------------------------------------------------------------------------------


def set_budget(db: sqlite3.Connection, budget: Budget) -> None:
    """Record what a room may give away from now on."""
    db.execute("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?, ?)", budget)
    rows = db.execute("SELECT room, total, amount, period, spent FROM budgets ORDER BY room").fetchall()
    db.execute("INSERT OR REPLACE INTO meta VALUES ('budgets', ?)", (digest(*rows),))


def all_budgets(db: sqlite3.Connection) -> dict[str, Budget] | None:
    """What rooms may give away; None if that is not what was written."""
    rows = db.execute("SELECT room, total, amount, period, spent FROM budgets ORDER BY room").fetchall()
    written = db.execute("SELECT value FROM meta WHERE name = 'budgets'").fetchone()
    if written is None or written[0] != digest(*rows):
        return None
    return {row[0]: Budget(*row) for row in rows}


def charges_are_whole(db: sqlite3.Connection, room: str) -> bool:
    """Whether all charges of a room are as they were written."""
    rows = db.execute(
        "SELECT id, stream, room, epoch, kind, micronats, at, digest FROM charges WHERE room = ?", (room,)
    )
    return all(digest(*row[:-1]) == row[-1] for row in rows)


def spent(db: sqlite3.Connection, room: str, since: int | None = None) -> int:
    """Micro-nats charged to a room so far, or since a time."""
    if since is None:
        found = db.execute("SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ?", (room,))
    else:
        query = "SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ? AND at >= ?"
        found = db.execute(query, (room, since))
    return int(found.fetchone()[0])


def allowed(db: sqlite3.Connection, budget: Budget, micronats: int, clock: float) -> bool:
    """Whether the budget has room for a charge; what costs nothing is always allowed."""
    if micronats == 0:
        return True
    if budget.total is not None and spent(db, budget.room) + micronats > budget.total:
        return False
    if budget.amount is not None and budget.period is not None:
        now = _now(db, budget.room, clock)
        return spent(db, budget.room, now - now % budget.period) + micronats <= budget.amount
    return True


def book(db: sqlite3.Connection, entry: Entry, budget: Budget, clock: float) -> None:
    """Write a charge down.

    Those for readings of one epoch, and those for decisions, share a row for each period, so that rows stay few.
    """
    if entry.micronats == 0 and entry.kind != DRAW:
        return
    now = _now(db, entry.room, clock)
    if entry.kind in _SHARED:
        query = "SELECT id, micronats, at FROM charges WHERE room = ? AND stream = ? AND kind = ? "
        query += f"{_SHARED[entry.kind]} ORDER BY at DESC LIMIT 1"
        found = db.execute(query, (entry.room, entry.stream, entry.kind, entry.epoch))
        row = found.fetchone()
        length = budget.period or _DAY
        if row is not None and row[2] // length == now // length:
            values = (row[0], *entry[:-1], row[1] + entry.micronats, now)
            db.execute(
                "UPDATE charges SET epoch = ?, micronats = ?, at = ?, digest = ? WHERE id = ?",
                (entry.epoch, values[-2], now, digest(*values), row[0]),
            )
            return
    number = db.execute("SELECT coalesce(max(id), 0) + 1 FROM charges").fetchone()[0]
    values = (number, *entry, now)
    db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, digest(*values)))


def _now(db: sqlite3.Connection, room: str, clock: float) -> int:
    """The time, which never goes back: a clock that is set back must not open a period again."""
    last = db.execute("SELECT coalesce(max(at), 0) FROM charges WHERE room = ?", (room,)).fetchone()[0]
    return max(int(clock), int(last))
