"""What the tests of streams share."""

import os
import shutil
from pathlib import Path

import stream_worker as worker

import understudy as us

SUFFIXES = ("", "-wal", "-shm")


def opened(folder, **options):
    """A ledger with its witness beside it."""
    return us.Ledger(folder / "room.ledger", witness=folder / "witness", **options)


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
