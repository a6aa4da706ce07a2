"""What the tests of streams share."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import stream_worker as worker

import understudy as us

FULL = 100.0 + 2.0**0.5 / 1000.0
"""A reading with all the digits of a double."""

SUFFIXES = ("", "-wal", "-shm")


def opened(folder, **options):
    """A ledger with its rollback guard beside it."""
    return us.Ledger(folder / "room.ledger", rollback_guard=folder / "guard", **options)


def played(stream):
    """What the stream plays, by position, which only a test may look at."""
    return stream._now.epoch.draw


def whole(design, stream, Y):
    """What an undisturbed stream of one epoch releases."""
    target = worker.room(design.pseudo[played(stream)])
    return us.disguise(Y, worker.room(1), target, resolution=design.resolution)


def along(design, Y, draws):
    """What a stream releases whose draws, by position, were these."""
    family = us.Family(worker.room, values=[0, 0.5, 1])
    target = family.along([design.pseudo[draw] for draw in draws])
    return us.disguise(Y, worker.room(1), target, resolution=design.resolution)


def released_as(out, exact, steps, error=1e-8):
    """Whether outputs are what exact ones, known to an error, become on the lattice."""
    out, exact = (np.asarray(Y, dtype=float).reshape(len(Y), -1) for Y in (out, exact))
    for channel, step in enumerate(steps):
        y, x = out[:, channel], exact[:, channel]
        if not np.array_equal(np.isnan(y), np.isnan(x)):
            return False
        y, x = y[~np.isnan(y)], x[~np.isnan(x)]
        multiples = y / step if step else np.zeros(1)
        if (np.abs(y - x) > 0.5 * step + error).any() or (np.abs(multiples - np.rint(multiples)) > 1e-6).any():
            return False
    return True


def copied(source, target):
    """Put a copy of a ledger's files in place of another's."""
    for suffix in SUFFIXES:
        Path(f"{target}{suffix}").unlink(missing_ok=True)
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")


def in_child(work):
    """Run in a fork, and give back what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            said = work() or "done"
        except BaseException as error:  # whatever it is, the parent must see it
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode()[:60_000])
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def table(path, query):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def notes_of(where):
    """The notes of the rollback guard: their paths, by number."""
    return {path.stat().st_ino: str(path) for path in (where / "guard").rglob("*") if path.is_file()}
