"""A design and readings for all tests of streams."""

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
