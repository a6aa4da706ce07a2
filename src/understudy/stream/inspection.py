"""Looking into a ledger without touching it: what it holds, whether it is whole, what was released.

Nothing here reads a draw, a key or a state except to compare its digest.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from understudy.errors import LedgerDamagedError, LedgerError
from understudy.stream.keys import TIME
from understudy.stream.ledger import MICRO, digest, faults, read_only
from understudy.stream.outputs import from_stored

Path = str | os.PathLike[str]


class Finding(NamedTuple):
    """One thing that was checked."""

    name: str
    passed: bool
    detail: str


def summary(path: Path) -> dict[str, Any]:
    """Streams and rooms: readings, epochs, charges, budgets."""
    with closing(read_only(path)) as db, faults(str(path)):
        streams = [
            {
                "name": name,
                "room": room,
                "design": design,
                "insecure": bool(insecure),
                "epochs": epochs,
                "readings": readings,
                "outputs_kept": kept,
                "charged_nats": charged / MICRO,
            }
            for name, room, design, insecure, epochs, readings, kept, charged in db.execute(
                "SELECT s.name, s.room, s.design, s.insecure, "
                "(SELECT count(*) FROM epochs e WHERE e.stream = s.id), "
                "(SELECT count FROM states t WHERE t.stream = s.id), "
                "(SELECT count(*) FROM outputs o WHERE o.stream = s.id), "
                "(SELECT coalesce(sum(micronats), 0) FROM charges c WHERE c.stream = s.id) "
                "FROM streams s ORDER BY s.id"
            )
        ]
        budgets = {
            room: {"total": total, "amount": amount, "period": period, "when_spent": spent}
            for room, total, amount, period, spent in db.execute("SELECT * FROM budgets")
        }
        names = sorted({s["room"] for s in streams} | budgets.keys())
        rooms = [
            {
                "room": room,
                "charged_nats": db.execute(
                    "SELECT coalesce(sum(micronats), 0) FROM charges WHERE room = ?", (room,)
                ).fetchone()[0]
                / MICRO,
                "budget": _nats(budgets.get(room)),
            }
            for room in names
        ]
    return {"ledger": os.path.basename(os.fspath(path)), "streams": streams, "rooms": rooms}


def _nats(budget: dict[str, Any] | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    shown = {key: None if budget[key] is None else budget[key] / MICRO for key in ("total", "amount")}
    return {**shown, "period_seconds": budget["period"], "when_spent": budget["when_spent"]}


def verify(path: Path) -> list[Finding]:
    """Check the whole file."""
    found = []
    mode = stat.S_IMODE(os.stat(path).st_mode)
    private = os.name != "posix" or not mode & 0o077
    found.append(Finding("only its owner may read it", private, f"mode {mode:o}"))
    try:
        with closing(read_only(path)) as db, faults(str(path)):
            pages = [row for (row,) in db.execute("PRAGMA integrity_check(3)")]
            found.append(Finding("pages are whole", pages == ["ok"], "; ".join(pages)))
            found += [Finding(name, *_digests(db, table, columns)) for name, table, columns in _DIGESTS]
            found += [Finding(name, not (bad := _count(db, query)), f"{bad} wrong") for name, query in _RULES]
    except LedgerDamagedError as error:
        found.append(Finding("can be read", False, str(error)))
    return found


_DIGESTS = [
    ("streams are as written", "streams", "id, name, room, design, secret, insecure, options"),
    ("draws are as written", "epochs", "stream, epoch, source, draw, held"),
    ("states are as written", "states", "stream, count, last, content"),
]
_RULES = [
    ("every stream has a state", "SELECT count(*) FROM streams WHERE id NOT IN (SELECT stream FROM states)"),
    ("every stream has a draw", "SELECT count(*) FROM streams WHERE id NOT IN (SELECT stream FROM epochs)"),
    ("no charge is negative", "SELECT count(*) FROM charges WHERE micronats < 0"),
    (
        "every draw is charged, held or shared",
        "SELECT count(*) FROM epochs e JOIN streams s ON s.id = e.stream WHERE NOT e.held "
        "AND s.options NOT LIKE '%\"draw_of\"%' AND NOT EXISTS "
        "(SELECT 1 FROM charges c WHERE c.stream = e.stream AND c.epoch = e.epoch AND c.kind = 'draw')",
    ),
    (
        "no output is beyond the state",
        "SELECT count(*) FROM outputs o JOIN states t ON t.stream = o.stream WHERE o.key > t.last",
    ),
    (
        "no budget is overspent",
        "SELECT count(*) FROM budgets b WHERE b.total IS NOT NULL AND "
        "(SELECT coalesce(sum(micronats), 0) FROM charges c WHERE c.room = b.room) > b.total",
    ),
]


def _digests(db: sqlite3.Connection, table: str, columns: str) -> tuple[bool, str]:
    count = bad = 0
    for *values, written in db.execute(f"SELECT {columns}, digest FROM {table}"):  # noqa: S608  # names of ours
        count += 1
        bad += digest(*values) != written
    return not bad, f"{count} rows" if not bad else f"{bad} of {count} rows differ"


def _count(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def released(path: Path, stream: str) -> Iterator[dict[str, Any]]:
    """The outputs of a stream, in order, each with its mark."""
    with closing(read_only(path)) as db, faults(str(path)):
        row = db.execute("SELECT id, design, insecure FROM streams WHERE name = ?", (stream,)).fetchone()
        if row is None:
            raise LedgerError(f"the ledger has no stream of the name {stream!r}")
        number, design, insecure = row
        state = db.execute("SELECT content FROM states WHERE stream = ?", (number,)).fetchone()
        kind = "time_ns" if state and json.loads(state[0]).get("kind") == TIME else "key"
        mark = {"disguised": True, "design": design, **({"insecure": True} if insecure else {})}
        for key, value in db.execute("SELECT key, value FROM outputs WHERE stream = ? ORDER BY key", (number,)):
            if value is None or isinstance(value, float):
                y: Any = value
            else:
                y = [None if x != x else x for x in from_stored(value, 2).tolist()]
            yield {kind: key, "y": y, **mark}
