"""Rounds of groups over many streams, in a process that may be killed at any moment; and what must be true after that.

In each round every stream has a reading. Some come late: after the next one, when they get no output any more. Which
of them do differs from attempt to attempt, as it does where rows are sent again after a crash. Some members fail when
their draw is written, or everything, and their reading is given again in the next round.

`TWINS` are ways to do it wrong, which the same check must find.
"""

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

import stream_worker

import understudy as us
from understudy.errors import ReadingError
from understudy.stream import inspection
from understudy.stream.engine import Setup, Transaction
from understudy.stream.randomness import DrawSource

STREAMS, ROUNDS, EPOCH = 5, 50, 6
DESIGN = stream_worker.design()
DESIGN.stream(1).step(100.0)  # all that a process works out once, before it is forked


READINGS = [us.sample(stream_worker.room(1), ROUNDS, rng=s + 3).ravel().tolist() for s in range(STREAMS)]


def theta(stream, key):
    return (stream + key // 4) % 2


def is_late(stream, key, attempt):
    return (stream * 31 + key * 7 + attempt * 13) % 6 == 0


def fails_once(stream, key):
    return (stream * 5 + key) % 7 == 0


# Ways to do it wrong ----------------------------------------------------------------------------------------------


def without_savepoints(self, group, work, done):
    """A naive group: members share the transaction, and one that fails leaves what it wrote."""
    return work()


def by_readings(self, at, number, generation, tick):
    """The number of readings in the index of a draw."""
    return DrawSource(self.row.secret, number, at.readings)


def by_chance(self, at, number, generation, tick):
    """The operating system's randomness for each draw."""
    return DrawSource(secrets.token_bytes(32), 0, 0)


TWINS = {
    "naive": (us.Ledger, "_transact_within", without_savepoints),
    "readings": (Setup, "draw_source", by_readings),
    "chance": (Setup, "draw_source", by_chance),
}


# The run ----------------------------------------------------------------------------------------------------------


def patch(log, twin):
    """Write down each draw as it is made, recorded or not; fail members; do it wrong where that is asked for."""
    draw, put, failed = Transaction._draw, us.Ledger.put, set()

    def logged(self, request):
        made = draw(self, request)
        os.write(log, f"{self.setup.row.name} {request.tick} {request.source} {made.epoch.draw}\n".encode())
        return made

    def failing(self, stream, outputs, at, note=True):
        place = (stream, at.last)
        fails = outputs and fails_once(*place) and place not in failed
        failed.add(place)
        if fails and at.last % 4 == 0:
            raise ReadingError("a member that fails, with its draw and its charge written")
        put(self, stream, outputs, at, note)
        if fails:
            raise ReadingError("a member that fails, with everything written")

    Transaction._draw, us.Ledger.put = logged, failing
    if twin is not None:
        owner, name, wrong = TWINS[twin]
        setattr(owner, name, wrong)


def play(folder, attempt, twin=None):
    """All rounds, from the beginning; each output is told after its group, as it would leave."""
    told = os.open(folder / "released", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    patch(os.open(folder / "draws", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), twin)
    with us.Ledger(folder / "room.ledger", rollback_guard=folder / "guard") as ledger:
        with ledger.group() as group:
            tickets = [group.begin(DESIGN, None, name=f"s{s}", epoch=EPOCH) for s in range(STREAMS)]
        streams = [ticket.result() for ticket in tickets]
        again = [[] for _ in streams]
        for key in range(ROUNDS):
            calls = []
            with ledger.group() as group:
                for s, stream in enumerate(streams):
                    rows = again[s] + ([] if is_late(s, key, attempt) else [key])
                    rows += [key - 1] if key and is_late(s, key - 1, attempt) else []
                    again[s] = []
                    for row in rows:
                        calls.append((s, row, group.step(stream, READINGS[s][row], key=row, theta=theta(s, row))))
            for s, row, ticket in calls:
                error = ticket.exception()
                if error is None:
                    os.write(told, f"{s} {row} {ticket.result().hex()}\n".encode())
                elif not isinstance(error, ReadingError):
                    raise error
                elif "fails" in str(error):
                    again[s].append(row)


# What must be true ------------------------------------------------------------------------------------------------


def check(folder):
    """One draw an epoch and stream, whatever was tried; outputs those of an undisturbed run over the same rows."""
    path = folder / "room.ledger"
    assert all(finding.passed for finding in inspection.verify(path)), "the record is not whole"
    tried = {}
    for line in Path(folder / "draws").read_text().splitlines():
        name, tick, source, draw = line.split()
        assert tried.setdefault((name, tick, source), draw) == draw, "an epoch was drawn twice, with two outcomes"
    with closing(sqlite3.connect(path)) as db:
        outputs = {
            (stream - 1, key): value for stream, key, value in db.execute("SELECT stream, key, value FROM outputs")
        }
        charges = db.execute("SELECT stream, epoch FROM charges WHERE kind = 'draw' ORDER BY 1, 2").fetchall()
        draws = db.execute("SELECT stream, epoch FROM epochs WHERE NOT held ORDER BY 1, 2").fetchall()
    assert charges == draws, "a draw is not charged, or twice"
    for line in Path(folder / "released").read_text().splitlines():
        parts = line.split()
        if len(parts) == 3 and "p" in parts[2]:
            s, key, value = int(parts[0]), int(parts[1]), float.fromhex(parts[2])
            assert outputs.get((s, key)) == value, "an output was changed or lost"
    with us.Ledger(path, rollback_guard=folder / "guard") as ledger:
        for s in range(STREAMS):
            lone = us.Stream.begin(DESIGN, None, None, ledger.stream(f"s{s}"))
            keys = sorted(key for stream, key in outputs if stream == s)
            assert len(keys) > ROUNDS // 2
            for key in keys:
                y = lone.step(READINGS[s][key], key=key, theta=theta(s, key))
                assert y == outputs[s, key], "an output is not that of the undisturbed run"
            stream = us.Stream.open(ledger, DESIGN, f"s{s}")
            assert stream.count == lone.count == len(keys)
            assert stream.spent == lone.spent
            assert stream._now.position._replace(serial=0) == lone._now.position._replace(serial=0)
