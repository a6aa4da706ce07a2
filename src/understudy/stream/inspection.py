"""Looking into a ledger without touching it: what it holds, whether it is whole, what was released; and copying it.

Except to copy it, nothing here reads a draw, a key or a state but to compare its digest; and, in the memory of a stream
that has one, how many nats its decisions have told.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple

from understudy.errors import LedgerBusyError, LedgerDamagedError, LedgerError, SnapshotError
from understudy.stream.cadence import TIME, Cadence
from understudy.stream.ledger_file import (
    MICRO,
    Budget,
    all_budgets,
    check_schema,
    connect,
    damage_error,
    decision_checksum,
    digest,
    faults,
    from_stored,
    is_as_written,
    message_checksum,
    micronats,
    output_mark,
    read_only,
    sync_folder,
    unseal,
)
from understudy.stream.snapshot import load

Path = str | os.PathLike[str]


class Finding(NamedTuple):
    """One thing that was checked."""

    name: str
    passed: bool
    detail: str


def wrapping_key(path: Path) -> str:
    """The id of the master key that the keys of a ledger are wrapped with; empty where they are not, or there is none.

    >>> wrapping_key("no such ledger")
    ''
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return ""
    with closing(read_only(path)) as db, faults(str(path)):
        return check_schema(db, str(path)).key


def summary(path: Path) -> dict[str, Any]:
    """Streams and rooms: readings, epochs, charges, budgets."""
    with closing(read_only(path)) as db, faults(str(path)):
        _require_whole(db, str(path))
        streams = [
            {
                "name": name,
                "room": room,
                "design": design,
                "insecure": bool(insecure),
                "stopped": bool(stopped),
                "untold": bool(unknown) and not json.loads(options).get("estimated"),
                "epochs": epochs,
                "readings": readings,
                "outputs_kept": kept,
                "charged_nats": charged / MICRO,
            }
            for name, room, design, insecure, options, stopped, unknown, readings, epochs, kept, charged in db.execute(
                "SELECT s.name, s.room, s.design, s.insecure, s.options, t.stopped, t.source < 0, t.count, "
                "(SELECT count(*) FROM epochs e WHERE e.stream = s.id), "
                "(SELECT count(*) FROM outputs o WHERE o.stream = s.id), "
                "t.charged FROM streams s JOIN states t ON t.stream = s.id ORDER BY s.id"
            )
        ]
        budgets = all_budgets(db)
        if budgets is None:
            raise damage_error(str(path), "a budget")
        fleets = _fleets(db)
        charged = dict(db.execute("SELECT room, sum(micronats) FROM charges GROUP BY room").fetchall())
    rooms = [
        {"room": room, "charged_nats": charged.get(room, 0) / MICRO, "budget": _nats(budgets.get(room))}
        for room in sorted({s["room"] for s in streams} | budgets.keys())
    ]
    found = {"ledger": os.path.basename(os.fspath(path)), "streams": streams, "rooms": rooms}
    return {**found, "fleets": fleets} if fleets else found


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    """Whether the ledger is of a version that has this table."""
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone())


def _fleets(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Fleets: how many rooms and draws, and what they were charged for them in all."""
    found, there = [], _has_table(db, "fleets")
    for number, name, design, key in db.execute("SELECT id, name, design, key FROM fleets") if there else ():
        names = db.execute("SELECT content FROM buckets WHERE fleet = ? AND bucket < 0", (number,))
        rooms = sum(len(json.loads(unseal(content) or b"[]")) for (content,) in names)
        query = "SELECT count(*), coalesce(sum(micronats), 0) FROM decisions WHERE fleet = ?"
        draws, nats = db.execute(query, (number,)).fetchone()
        values = {"name": name, "design": design, "key": key, "rooms": rooms}
        found.append({**values, "draws": draws, "charged_nats": nats / MICRO})
    return found


def _nats(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    total, amount = (None if nats is None else nats / MICRO for nats in (budget.total, budget.amount))
    return {"total": total, "amount": amount, "period_seconds": budget.period, "when_spent": budget.when_spent}


def verify(path: Path) -> list[Finding]:
    """Check the whole file."""
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise LedgerError(f"{os.path.basename(name)} does not exist")
    modes = {
        part: stat.S_IMODE(os.stat(name + part).st_mode)
        for part in ("", "-wal", "-shm", ".lock")
        if os.path.exists(name + part)
    }
    private = os.name != "posix" or not any(mode & 0o077 for mode in modes.values())
    detail = ", ".join(f"{part or 'mode'} {mode:o}" for part, mode in modes.items())
    found = [Finding("only its owner may read it", private, detail)]
    try:
        with closing(read_only(path)) as db, faults(name):
            pages = [row for (row,) in db.execute("PRAGMA integrity_check(3)")]
            # its texts can quote what stands in a row
            found.append(
                Finding("pages are whole", pages == ["ok"], "ok" if pages == ["ok"] else f"{len(pages)} wrong")
            )
            found += [Finding(f"{title} are as written", *_digests(db, table)) for title, table in _DIGESTS.items()]
            outputs = db.execute('SELECT stream, key, value, "check" FROM outputs')
            found.append(Finding("outputs are as written", *_count(is_as_written(*row) for row in outputs)))
            whole = all_budgets(db) is not None
            found.append(Finding("budgets are as written", whole, "ok" if whole else "they differ"))
            for title, query in _RULES:
                bad = db.execute(query).fetchone()[0]
                found.append(Finding(title, not bad, f"{bad} wrong"))
            found.append(Finding("decisions are charged what they told", *_decisions(db)))
            if _has_table(db, "fleets"):
                found.append(Finding("fleets are as written", *_digests(db, "fleets")))
                pieces = db.execute("SELECT content FROM buckets")
                found.append(
                    Finding("rooms of fleets are as written", *_count(unseal(c) is not None for (c,) in pieces))
                )
                rows = db.execute("SELECT * FROM decisions")
                same = _count(decision_checksum(tuple(values)) == written for *values, written in rows)
                found.append(Finding("decisions of fleets are as written", *same))
            if _has_table(db, "outbox"):
                sent = db.execute('SELECT fleet, room, key, sequence, at, content, "check" FROM outbox')
                same = _count(message_checksum(*values) == written for *values, written in sent)
                found.append(Finding("messages that leave are as written", *same))
                told = db.execute("SELECT * FROM private_values")
                same = _count(decision_checksum(tuple(values)) == written for *values, written in told)
                found.append(Finding("private values that were told are as written", *same))
    except LedgerDamagedError as error:
        found.append(Finding("can be read", False, str(error)))
    return found


_DIGESTS = {
    "streams": "streams",
    "draws": "epochs",
    "charges": "charges",
    "states": "states",
    "runs": "runs",
    "batches": "batches",
}
"""What is written in which table, of which each row ends with its digest."""
_RULES = [
    ("every stream has a state", "SELECT count(*) FROM streams WHERE id NOT IN (SELECT stream FROM states)"),
    ("every state has a stream", "SELECT count(*) FROM states WHERE stream NOT IN (SELECT id FROM streams)"),
    (
        "no draw is missing",
        "SELECT count(*) FROM states t WHERE (t.epoch, 1) IS NOT "
        "(SELECT max(epoch), max(epoch) - min(epoch) + 1 = count(*) FROM epochs e WHERE e.stream = t.stream)",
    ),
    (
        "every draw for an epoch is charged, held or shared",
        "SELECT count(*) FROM (SELECT e.stream, e.epoch FROM epochs e JOIN streams s ON s.id = e.stream "
        "WHERE NOT e.held AND s.options NOT LIKE '%\"draw_of\"%' AND s.options NOT LIKE '%\"remembers\"%' "
        "EXCEPT SELECT stream, epoch FROM charges WHERE kind = 'draw')",
    ),
    # Decisions with memory share rows, which name the last that was charged; those that tell nothing are in none.
    (
        "charges for decisions are of decisions that were made",
        "SELECT count(*) FROM charges c LEFT JOIN streams s ON s.id = c.stream "
        "LEFT JOIN epochs e ON e.stream = c.stream AND e.epoch = c.epoch "
        "WHERE (c.kind = 'decision' OR (c.kind = 'draw' AND s.options LIKE '%\"remembers\"%')) AND NOT "
        "(c.kind = 'decision' AND s.options LIKE '%\"remembers\"%' AND c.micronats > 0 AND c.epoch > 0 "
        "AND coalesce(NOT e.held, 0))",
    ),
    (
        "charges add up",
        "SELECT count(*) FROM states t LEFT JOIN "
        "(SELECT stream, sum(micronats) AS total FROM charges GROUP BY stream) c ON c.stream = t.stream "
        "WHERE t.charged IS NOT coalesce(c.total, 0)",
    ),
    (
        "no output is beyond the state",
        "SELECT count(*) FROM outputs o LEFT JOIN states t ON t.stream = o.stream "
        "WHERE t.last IS NULL OR o.key > t.last",
    ),
]


def _require_whole(db: sqlite3.Connection, path: str) -> None:
    """Refuse a ledger whose streams, charges or states are not as they were written."""
    for table in _DIGESTS.values():
        if not _digests(db, table)[0]:
            raise damage_error(path, f"the table of {table}")


def _digests(db: sqlite3.Connection, table: str) -> tuple[bool, str]:
    rows = db.execute(f"SELECT * FROM {table}")  # noqa: S608  # names of ours
    return _count(digest(*values) == written for *values, written in rows)


def _decisions(db: sqlite3.Connection) -> tuple[bool, str]:
    """Whether the decisions of each stream with memory were charged no less than its memory says that they told."""
    rows = db.execute(
        "SELECT t.memory, (SELECT coalesce(sum(micronats), 0) FROM charges c WHERE c.stream = s.id AND "
        "c.kind = 'decision') FROM streams s JOIN states t ON t.stream = s.id WHERE s.options LIKE '%\"remembers\"%'"
    )
    return _count(_covers(charged, memory) for memory, charged in rows)


def _covers(charged: int, memory: str | None) -> bool:
    """Whether so many micro-nats are no less than a memory says were told; that is 0 where it does not say."""
    try:
        found = None if memory is None else load(memory)
        if type(found) is tuple and found:
            found = found[0]  # beside it stands what guesses the private value
        return charged >= micronats(getattr(found, "nats", 0.0))
    except (SnapshotError, TypeError, ValueError):
        return False


def _count(rows: Iterable[bool]) -> tuple[bool, str]:
    """Whether all rows are right, and how many are not."""
    found = list(rows)
    bad = found.count(False)
    return not bad, f"{len(found)} rows" if not bad else f"{bad} of {len(found)} rows differ"


def released_outputs(path: Path, stream: str) -> Iterator[dict[str, Any]]:
    """The outputs of a stream, in order, each with its mark."""
    with closing(read_only(path)) as db, faults(str(path)):
        _require_whole(db, str(path))
        query = "SELECT s.id, s.design, s.insecure, s.options, t.kind FROM streams s JOIN states t ON t.stream = s.id "
        row = db.execute(query + "WHERE s.name = ?", (stream,)).fetchone()
        if row is None:
            raise LedgerError(f"the ledger has no stream of the name {stream!r}")
        number, design, insecure, options, kind = row
        name = "time_ns" if kind == TIME else "key"
        known = json.loads(options)
        mark = output_mark(design, known.get("resolution"), bool(known.get("estimated")), bool(insecure))
        cadence = Cadence.stored(known) if kind == TIME else None
        found = db.execute('SELECT key, value, "check" FROM outputs WHERE stream = ? ORDER BY key', (number,))
        for key, value, check in found:
            if not is_as_written(number, key, value, check):
                raise damage_error(str(path), "an output")
            y = value
            if isinstance(value, bytes):
                y = [None if x != x else x for x in from_stored(value).tolist()]
            # an output carries the time of its slot, not that of the reading
            yield {name: key if cadence is None else cadence.time(cadence.slot(key)), "y": y, **mark}


def backup_ledger(path: Path, copy: Path) -> list[Finding]:
    """Copy a ledger, also while a process writes it, into a new file that only its owner may read.

    What is returned was checked. The copy is of one moment, and is there when it is whole and was verified, or not at
    all. It holds the draws: guard it as you guard the ledger. How far the streams had come is not in it (that is for
    the rollback guard to know), so that going on from it when the ledger has gone further is refused.

    >>> import os, tempfile
    >>> from understudy.stream.ledger import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     room, copy = (os.path.join(folder, name) for name in ("room.ledger", "copy.ledger"))
    ...     with Ledger(room, rollback_guard=False) as ledger:
    ...         all(finding.passed for finding in backup_ledger(room, copy))
    True
    """
    source, target = os.path.realpath(os.fspath(path)), os.path.abspath(os.fspath(copy))
    name, folder = os.path.basename(target), os.path.dirname(target)
    if os.path.lexists(target):
        raise LedgerError(f"{name} exists already; a backup is a new file")
    if os.path.realpath(target) in {source + part for part in ("-wal", "-shm", "-journal", ".lock", ".new")}:
        raise LedgerError(f"{name} is the name of a part of the ledger; choose another one for the backup")
    part = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    at_rest = _at_rest(source)
    with closing(read_only(source)) as db:
        try:
            _copy(db, part, source)
            if at_rest is not None and _at_rest(source) != at_rest:
                raise LedgerBusyError(f"{os.path.basename(source)} was opened while it was copied; copy it again")
            found = verify(part)
            if not all(finding.passed for finding in found):
                raise damage_error(source, "what was copied")
            _name(part, target)
            sync_folder(folder)
        except OSError as error:
            raise LedgerError(f"{name} cannot be made: {error.strerror}") from None
        finally:
            for left in (part, part + "-journal", part + "-wal", part + "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(left)
    return found


def _at_rest(source: str) -> tuple[int, int] | None:
    """What changes when a ledger that nobody has open is written after all; None if it is open."""
    if os.path.lexists(source + "-wal") or not os.path.isfile(source):
        return None
    found = os.stat(source)
    return found.st_mtime_ns, found.st_size


def _copy(db: sqlite3.Connection, part: str, source: str) -> None:
    """All pages, as the reader sees them, into a file that was not there and that nobody else may open."""
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
    with faults(source), closing(connect(part)) as target:
        target.execute("PRAGMA synchronous=FULL")
        target.execute("PRAGMA fullfsync=ON")
        db.backup(target)


def _name(part: str, target: str) -> None:
    """Give a file its name, unless there is such a name by now."""
    try:
        os.link(part, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if os.path.lexists(target):
            raise
        os.rename(part, target)
