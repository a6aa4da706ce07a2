"""Killed at any moment in groups with failing members, replays, epochs and late rows: real processes, SIGKILL."""

import os
import random
import signal
import sqlite3
import time

import group_worker as worker
import pytest

import understudy as us

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def fork(folder, attempt, twin=None, kill_after=None):
    """Run the worker in a fork of this process (no import to wait for); whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            worker.play(folder, attempt, twin)
            os._exit(0)
        finally:
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def kills(folder, count, seed, twin=None):
    """So many kills at random moments, and then an undisturbed run."""
    folder.mkdir()
    moments = random.Random(seed)  # noqa: S311  # moments, not secrets
    for attempt in range(count):
        fork(folder, attempt, twin, moments.uniform(0.0, 0.12))
    return fork(folder, count, twin)


@pytest.mark.parametrize("runs", [2, pytest.param(30, marks=pytest.mark.long(seconds=50, reason="300 kills"))])
def test_killed_in_groups(tmp_path, runs):
    """One draw an epoch and stream, outputs equal to those of the undisturbed run, and charges right."""
    assert kills(tmp_path / "undisturbed", 0, 0)
    worker.check(tmp_path / "undisturbed")
    for run in range(runs):
        assert kills(tmp_path / str(run), 10, run)
        worker.check(tmp_path / str(run))


@pytest.mark.parametrize("twin", worker.TWINS)
def test_the_same_test_finds_what_is_done_wrong(tmp_path, twin):
    """A group without savepoints, readings in the index of a draw, and fresh randomness for each attempt."""

    def wrong():
        for run in range(4):
            assert kills(tmp_path / str(run), 10, run, twin)
            worker.check(tmp_path / str(run))

    with pytest.raises((AssertionError, us.errors.UnderstudyError, sqlite3.Error)):
        wrong()
