"""A design and readings for all tests of streams."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import stream_worker as worker

import understudy as us


@pytest.fixture(scope="session")
def design():
    """The room with three pseudo values, 0.3 nats a draw."""
    return worker.design()


@pytest.fixture(scope="session")
def readings():
    """Of one person in the room."""
    return us.sample(worker.room(1), 2000, rng=3)


@pytest.fixture(scope="module")
def folder():
    """Somewhere fast, where there is such a place: durability is worked out and not waited for."""
    fast = Path("/dev/shm")  # noqa: S108  # a private folder is made in it
    made = Path(tempfile.mkdtemp(dir=fast if fast.is_dir() and os.access(fast, os.W_OK) else None))
    yield made
    shutil.rmtree(made)
