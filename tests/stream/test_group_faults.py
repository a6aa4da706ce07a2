"""The fault layer over groups: at every write of a run of groups an error, a short write, a full or dead disk, a cut.

A group that meets a fault is recorded whole or not at all, and the caller gives it again: nothing is drawn twice, no
output changes, and what was told before stands. Every third operation by default; `UNDERSTUDY_FAULTS=all` runs all.
"""

import os
import shutil
import warnings
from functools import partial

import numpy as np
import pytest
from stream_fault_layer import KINDS, Fault, FaultLayer, cuts, restore
from stream_helpers import notes_of, table

import understudy as us
from understudy.errors import LedgerError, ReadingError
from understudy.stream import inspection

ALL = os.environ.get("UNDERSTUDY_FAULTS") == "all"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the layer stands on SQLite's VFS for POSIX")
NAMES = ("a", "b", "c")
ROUNDS = 6


class Session:
    """The scripted run: streams are begun in a group, and step in groups with members that fail or come again."""

    def __init__(self, design, readings, where, released=None, say=None):
        self.design, self.readings, self.where = design, readings, where
        self.released, self.say = {} if released is None else released, say or (lambda _: None)
        self.ledger, self.streams = None, []

    def open(self):
        self.close()
        self.ledger = us.Ledger(self.where / "room.ledger", rollback_guard=self.where / "guard")
        self.ledger.rows("PRAGMA wal_autocheckpoint=6")
        self.streams = []

    def close(self):
        if self.ledger is not None:
            self.ledger.close()
        self.ledger = None

    def begin(self):
        with self.ledger.group() as group:
            tickets = [group.begin(self.design, None, name=name, epoch=3) for name in NAMES]
        self.streams = [ticket.result() for ticket in tickets]

    def round(self, key):
        if not self.streams:
            self.begin()
        calls = []
        with self.ledger.group() as group:
            for name, stream in zip(NAMES, self.streams, strict=True):
                calls.append((name, key, group.step(stream, self.readings[key], key=key, theta=key % 2)))
            calls.append(("b", None, group.step(self.streams[1], np.inf, key=key + 1)))
            calls.append(("a", key, group.step(self.streams[0], self.readings[0], key=key)))  # it comes again
        told = []
        for name, at, ticket in calls:
            if at is None:
                with pytest.raises(ReadingError):
                    ticket.result()
                continue
            y = ticket.result()
            assert self.released.setdefault((name, at), y) == y, "an output was changed"
            told.append((name, at))
        self.say(told)

    def play(self, attempt=None):
        attempt = attempt or (lambda action: action())
        attempt(self.open)
        attempt(self.begin)
        for key in range(ROUNDS):
            attempt(partial(self.round, key))
        self.close()

    def check(self):
        """The record is whole, and is that of an undisturbed run with these keys."""
        assert all(finding.passed for finding in inspection.verify(self.where / "room.ledger"))
        self.open()
        for name in NAMES:
            lone = us.Stream.begin(self.design, None, None, self.ledger.stream(name))
            for key in range(ROUNDS):
                y = lone.step(self.readings[key], key=key, theta=key % 2)
                assert self.released[name, key] == y, "an output is not that of the undisturbed run"
            stream = us.Stream.open(self.ledger, self.design, name)
            assert (stream.count, stream.spent, stream.epoch) == (lone.count, lone.spent, lone.epoch)
        self.close()
        for what in ("epochs WHERE NOT held", "charges"):
            found = table(self.where / "room.ledger", f"SELECT stream, epoch FROM {what} ORDER BY 1, 2")  # noqa: S608  # ours
            assert found == [(stream, epoch) for stream in (1, 2, 3) for epoch in (1, 2)]


def run(design, readings, where, fault=None, reopens=False):
    """The run with one fault, or none: the layer, the session, and how often the caller heard of it."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    heard = []
    with FaultLayer(fault) as layer, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the rollback guard cannot be written")
        session = Session(design, readings, where, say=layer.say)

        def attempt(action):
            try:
                action()
            except LedgerError as error:
                heard.append(error)
                if reopens:
                    session.close()
                layer.heal()
                if reopens:
                    session.open()
                action()

        session.play(attempt)
    return layer, session, heard


def test_an_error_at_the_writes_of_groups(design, readings, folder):
    """Whether the caller goes on with the same objects or opens the ledger again."""
    operations = run(design, readings, folder / "groups")[0].operations
    heard = runs = 0
    for at in range(operations):
        kinds = KINDS if ALL else KINDS[at % 4 : at % 4 + 1] if at % 3 == 0 else ()
        for kind in kinds:
            for reopens in (False, True) if ALL else (at % 2 == 0,):
                layer, session, told = run(design, readings, folder / "groups", Fault(at, kind), reopens)
                assert layer.injected
                with FaultLayer():
                    session.check()
                heard += bool(told)
                runs += 1
    assert heard > runs // 3 > 5


@pytest.mark.parametrize("variant", ["lost", "kept", "torn"])
def test_a_power_cut_after_the_writes_of_groups(design, readings, folder, variant):
    """What was told before the cut stands, the others are given again, and the end is the same."""
    layer, session, _ = run(design, readings, folder / "groups")
    notes, seen, disks = notes_of(session.where), set(), 0
    for number, _, disk in cuts(layer.events, [variant]):
        picture = hash((tuple(disk.files.items()), tuple(disk.notes.items()), len(disk.said)))
        if picture in seen or (not ALL and number % 5):
            continue
        seen.add(picture)
        disks += 1
        where = folder / "cut groups"
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        restore(disk, str(session.where), where, notes, variant != "lost")
        said = {key for keys in disk.said for key in keys}
        with FaultLayer():
            again = Session(design, readings, where, {key: session.released[key] for key in said})
            again.play()
            again.check()
    assert disks > 5
