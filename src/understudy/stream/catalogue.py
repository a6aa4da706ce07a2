"""The streams of a ledger, as they stand in its tables."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from understudy.errors import ConfigurationError
from understudy.stream.rows import StreamRow, digest


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
