"""At every single write of a run one fault: an I/O error, a short write, a full disk, a dead disk, a power cut.

After each the streams go on with no redraw, no changed output and no lost record: what follows is, to the bit, what
would have followed. The run is one of each thing that a ledger records, and is replayed from its beginning after each
fault, as a caller with keys would do it.

By default each operation meets one kind of error and one torn disk; `UNDERSTUDY_FAULTS=all` runs all kinds and eight.
"""

import os
import shutil
import sqlite3
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from stream_fault_layer import KINDS, Fault, FaultLayer, cuts, restore
from stream_helpers import notes_of, table, whole

import understudy as us
from understudy.errors import LedgerError
from understudy.stream import inspection
from understudy.stream import ledger_file as files

ALL = os.environ.get("UNDERSTUDY_FAULTS") == "all"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the layer stands on SQLite's VFS for POSIX")
THETAS = [1, 1, 0, 0, 1]


class Session:
    """The scripted run, on a ledger in a folder, or without one."""

    def __init__(self, design, readings, folder, released=None, say=None):
        self.design, self.readings, self.folder = design, readings, folder
        self.released = {} if released is None else released
        self.say = say or (lambda what: None)
        self.ledger, self.streams, self.lone = None, {}, {}

    def open(self):
        self.close()
        self.ledger = us.Ledger(self.folder / "room.ledger", rollback_guard=self.folder / "guard")
        self.ledger.rows("PRAGMA wal_autocheckpoint=6")  # so that the log is carried over and begun anew in the run
        self.streams = {}

    def close(self):
        if self.ledger is not None:
            self.ledger.close()
        self.ledger, self.streams = None, {}

    def stream(self, name):
        """Begun, or gone on with."""
        if name not in self.streams:
            if self.folder is None:
                self.streams[name] = us.Stream.begin(self.design, 1, None, self.lone[name])
            elif name in self.ledger.names():
                self.streams[name] = us.Stream.open(self.ledger, self.design, name)
            else:
                self.streams[name] = self.design.stream(1, self.ledger, name)
        return self.streams[name]

    def release(self, name, keys, outputs):
        """What leaves: it must be what has left before under this key."""
        for key, y in zip(keys, np.atleast_1d(outputs).tolist(), strict=True):
            assert self.released.setdefault((name, key), y) == y, "an output was changed"
        self.say([(name, key) for key in keys])

    # The actions ----------------------------------------------------------------------------------------------

    def limit(self, total):
        if self.ledger is not None:
            self.ledger.limit("a", total=total)

    def step(self, name, key):
        y = self.stream(name).step(float(self.readings[key]), key=key, theta=THETAS[key % 5])
        self.release(name, [key], y)

    def batch(self, name, start, stop):
        keys = range(start, stop)
        out = self.stream(name).apply(self.readings[start:stop], keys=keys, theta=[THETAS[key % 5] for key in keys])
        self.release(name, keys, out)

    def epoch(self, name, number):
        if self.stream(name).epoch < number:
            self.stream(name).new_epoch(0)
        assert self.stream(name).epoch >= number

    def file(self, name, *cut):
        run = self.stream(name).run("today.csv")
        for start, stop in pairwise(cut):
            keys = range(start, stop)
            out = run.apply(self.readings[start:stop], keys=keys, theta=[THETAS[key % 5] for key in keys])
            self.release(name, keys, out)
        run.finish()

    def play(self, attempt=None):
        """All of it; `attempt` does an action, again if it must."""
        attempt = attempt or (lambda action, *given: action(*given))
        lone = self.folder is None
        if not lone:
            attempt(self.open)
        attempt(self.limit, 50.0)
        for key in range(4):
            attempt(self.step, "a", key)
        attempt(self.batch, "a", 4, 12)
        attempt(self.epoch, "a", 1)
        for key in (12, 13):
            attempt(self.step, "a", key)
        if not lone:
            attempt(self.open)
        attempt(self.file, "a", 14, 20, 26)
        attempt(self.step, "b", 0)
        attempt(self.limit, 40.0)
        for key in (26, 27, 28):
            attempt(self.step, "a", key)
        attempt(self.step, "b", 1)
        self.close()


def check(design, readings, session):
    """The record is whole and is that of an undisturbed run with these secrets; each output can be told again."""
    path = session.folder / "room.ledger"
    assert all(finding.passed for finding in inspection.verify(path))
    again = Session(design, readings, session.folder, session.released)
    again.open()
    rows = {name: again.ledger.stream(name) for name in ("a", "b")}
    spent = {name: again.ledger.spent(name) for name in rows}
    counts = {name: again.stream(name).count for name in rows}
    again.close()
    again.play()
    lone = Session(design, readings, None)
    lone.lone = rows
    lone.play()
    assert lone.released == session.released, "what was released is not what an undisturbed run releases"
    for name, stream in lone.streams.items():
        assert counts[name] == stream.count
        assert spent[name] == stream.spent
    assert table(path, "SELECT stream, epoch FROM epochs ORDER BY 1, 2") == [(1, 0), (1, 1), (2, 0)]
    assert table(path, "SELECT stream, epoch FROM charges ORDER BY 1, 2") == [(1, 0), (1, 1), (2, 0)]


def record(design, readings, folder):
    """An undisturbed run: its layer, its session, and where the notes of the rollback guard lie."""
    where = folder / "undisturbed"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    with FaultLayer() as layer:
        session = Session(design, readings, where, say=layer.say)
        session.play()
    return layer, session, notes_of(where)


# Errors ---------------------------------------------------------------------------------------------------------


def with_fault(design, readings, folder, fault, reopens):
    """The run with one fault: the layer, the session, and what the caller heard of it."""
    where = folder / "faulty"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    heard = []
    with FaultLayer(fault) as layer, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the rollback guard cannot be written")
        session = Session(design, readings, where, say=layer.say)

        def attempt(action, *given):
            try:
                action(*given)
            except LedgerError as error:
                heard.append(str(error))
                if reopens:
                    session.close()  # on the disk as it is
                layer.heal()
                if reopens:
                    session.open()
                action(*given)

        session.play(attempt)
    values = [repr(y)[:6] for y in (*session.released.values(), *readings[:29].tolist())]
    assert not any(value in text for text in heard for value in values), "an error quotes a value"
    return layer, session, heard


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        (KINDS[0], 2),
        *(pytest.param(kind, 1, marks=pytest.mark.long(seconds=8, reason="a run for each write")) for kind in KINDS),
    ],
)
def test_an_error_at_every_single_write(design, readings, folder, kind, every, record_property):
    """Whether the caller goes on with the same objects or opens the ledger again: nothing redrawn, changed or lost."""
    operations = record(design, readings, folder)[0].operations
    met = heard = runs = 0
    for at in range(operations):
        for reopens in (False, True):
            if not ALL and (KINDS[(at + reopens) % len(KINDS)] != kind or at // len(KINDS) % every):
                continue
            runs += 1
            layer, session, told = with_fault(design, readings, folder, Fault(at, kind), reopens)
            with FaultLayer():
                check(design, readings, session)
            met += layer.injected > 0
            heard += bool(told)
    record_property("faults", met)
    print(f"{kind}: {operations} operations, {met} faults met in {runs} runs, {heard} of them heard of")
    assert met == runs > operations // (3 * every)
    assert heard > runs // 3


def test_a_sync_that_fails_does_not_say_that_nothing_was_recorded(design, readings, folder):
    """If the process dies then, the step stands in the log: its key gets that output, whatever the reading says now."""
    where, left = folder / "unsynced", folder / "left"
    where.mkdir()
    with FaultLayer() as layer, us.Ledger(where / "room.ledger", rollback_guard=where / "guard") as ledger:
        stream = design.stream(1, ledger, "a")
        stream.step(float(readings[0]), key=0)
        stream.step(float(readings[1]), key=1)
        first = max(at for at, event in enumerate(layer.events) if event.kind == "sync")
        assert [event.kind for event in layer.events[first:]] == ["sync", "note"]
        layer.fault = Fault(layer.operations + 4, "error")  # two pages and their heads before it
        with pytest.raises(LedgerError, match="whether it was recorded") as caught:
            stream.step(float(readings[2]), key=2)
        assert "nothing was recorded" not in str(caught.value)
        assert stream.count == 2
        shutil.copytree(where, left)  # as a killed process leaves it
    with us.Ledger(left / "room.ledger", rollback_guard=left / "guard") as ledger:
        stream = us.Stream.open(ledger, design, "a")
        assert stream.count == 3
        assert stream.step(float(readings[7]), key=2) == whole(design, stream, readings[:3])[2]


def test_an_error_that_is_swallowed_is_found(design, readings, folder, monkeypatch):
    """The twin that must fail: a ledger that takes a failed commit for a good one."""

    def careless(self, work, done=None):
        db = self.connection()
        if db.in_transaction:
            db.execute("ROLLBACK")
        db.execute("BEGIN IMMEDIATE")
        result = work()
        try:
            db.execute("COMMIT")
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
        self._finish(())
        return result

    operations = record(design, readings, folder)[0].operations
    monkeypatch.setattr(us.Ledger, "record", careless)
    found = 0
    for at in range(operations // 2, operations // 2 + 40):
        try:
            check(design, readings, with_fault(design, readings, folder, Fault(at, "error"), True)[1])
        except (AssertionError, us.errors.UnderstudyError):
            found += 1
    assert found > 5


# Power cuts -----------------------------------------------------------------------------------------------------


def after_cut(design, readings, folder, disk, root, notes, released, rubbish):
    """Go on from a disk: what was said before the cut is recorded there, and the run comes to the same end."""
    where = folder / "cut"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    restore(disk, root, where, notes, rubbish)
    said = {key for keys in disk.said for key in keys}
    with FaultLayer():
        session = Session(design, readings, where, {key: released[key] for key in said})
        session.open()
        for name in {name for name, _ in said}:
            row = session.ledger.stream(name)
            assert row is not None, "a draw was lost"
            keys = sorted(key for stream, key in said if stream == name)
            assert us.Stream.open(session.ledger, design, name).count > keys[-1], "a record was lost"
            stored = {key for key in keys if session.ledger.output(row.id, key) is not None}
            assert stored | set(range(14, 26)) >= set(keys), "a record was lost"
        session.close()
        session.play()
        check(design, readings, session)


def cut_and_go_on(design, readings, folder, run, chosen, enough=None):
    """How many of the disks there are, how many of them are different, and what is wrong with some."""
    _, session, notes = run
    secrets = dict(table(session.folder / "room.ledger", "SELECT name, secret FROM streams"))
    seen, disks, failures = set(), 0, []
    for number, variant, disk in chosen:
        disks += 1
        picture = hash((tuple(disk.files.items()), tuple(disk.notes.items()), len(disk.said)))
        if picture in seen:
            continue
        seen.add(picture)
        try:
            after_cut(design, readings, folder, disk, str(session.folder), notes, session.released, variant != "lost")
            if disk.said:
                here = dict(table(folder / "cut" / "room.ledger", "SELECT name, secret FROM streams"))
                told = {name for keys in disk.said for name, _ in keys}
                assert all(here[name] == secrets[name] for name in told), "a stream drew again"
        except (AssertionError, us.errors.UnderstudyError) as error:
            failures.append((number, variant, f"{type(error).__name__}: {error}"))
            if len(failures) == enough:
                break
    return disks, len(seen), failures


@pytest.mark.long(seconds=3, reason="a run for each write")
@pytest.mark.parametrize(
    "variant",
    [
        "lost",
        pytest.param("kept", marks=pytest.mark.long(seconds=7, reason="a disk after each write")),
        pytest.param("torn", marks=pytest.mark.long(seconds=8, reason="a disk after each write")),
    ],
)
def test_a_power_cut_after_every_single_write(design, readings, folder, variant, record_property):
    """Unsynced pages lost, kept, or torn by sectors: every disk is gone on from, and none is refused."""
    variants = [f"torn{k}" for k in range(8)] if ALL and variant == "torn" else [variant]
    run = record(design, readings, folder)
    operations = run[0].operations
    disks, distinct, failures = cut_and_go_on(design, readings, folder, run, cuts(run[0].events, variants))
    record_property("cuts", disks)
    print(f"{variant}: {operations} operations, {disks} cuts, {distinct} different disks, {len(failures)} failures")
    assert failures == []
    assert disks >= operations * len(variants)
    assert distinct > operations // 5


@pytest.mark.long(seconds=6, reason="a run for each sync, and several disks for each run")
def test_a_failed_sync_and_then_a_power_cut(design, readings, folder, record_property):
    """A sync that failed may have dropped what it was to keep, and the next one does not bring it back.

    So the ledger must write it again: the caller goes on with the same objects, and later the power goes off.
    """
    events = record(design, readings, folder)[0].events
    kinds = [event.kind for event in events if event.kind != "said"]
    syncs = [at for at, kind in enumerate(kinds) if kind == "sync"]
    disks, failures = 0, []
    for at in syncs:
        layer, session, _ = with_fault(design, readings, folder, Fault(at, "error"), False)
        dropped = next(number for number, event in enumerate(layer.events) if event.kind == "dropped")
        after = [number for number, event in enumerate(layer.events) if event.kind == "said" and number > dropped]
        wanted = set(range(dropped, len(layer.events))) if ALL else {*after[:1], *after[at % 7 :: 7]}
        chosen = (cut for cut in cuts(layer.events, ["lost"]) if cut[0] in wanted)
        run = layer, session, notes_of(session.folder)
        found = cut_and_go_on(design, readings, folder, run, chosen)
        disks += found[0]
        failures += found[-1]
    record_property("cuts", disks)
    print(f"failed sync, then cut: {len(syncs)} syncs, {disks} cuts, {len(failures)} failures")
    assert failures == []
    assert disks > len(syncs) > 20


def test_a_ledger_that_does_not_wait_for_the_disk_is_found(design, readings, folder, monkeypatch):
    """The twin that must fail: `synchronous=OFF`, of which a cut leaves less than was released."""
    monkeypatch.setattr(files, "SETTINGS", ("PRAGMA synchronous=OFF",))
    run = record(design, readings, folder)
    failures = cut_and_go_on(design, readings, folder, run, cuts(run[0].events, ["lost"]), enough=3)[-1]
    assert any("lost" in text or "was changed" in text for _, _, text in failures)


def test_a_ledger_that_returns_before_its_commit_is_found(design, readings, folder, monkeypatch):
    """The twin that must fail: each transaction is committed when the next one begins."""

    def late(self, work, done=None):
        db = self.connection()
        self._settled()
        db.execute("BEGIN IMMEDIATE")
        result = work()
        self._finish(())
        return result

    def settle(self):
        db = self.connection()
        if db.in_transaction:
            db.execute("COMMIT")
        return db

    def close(self, really=us.Ledger.close):
        if getattr(self, "_db", None) is not None:
            settle(self)
        really(self)

    monkeypatch.setattr(us.Ledger, "record", late)
    monkeypatch.setattr(us.Ledger, "_settled", settle)
    monkeypatch.setattr(us.Ledger, "close", close)
    run = record(design, readings, folder)
    failures = cut_and_go_on(design, readings, folder, run, cuts(run[0].events, ["lost"]), enough=3)[-1]
    assert any("a record was lost" in text or "RollbackError" in text for _, _, text in failures)


def test_the_layer_sees_everything_that_is_written(design, readings, folder):
    """Disks worked out from the record, with everything kept, are the files as they are on the disk."""
    layer, _, notes = record(design, readings, folder)
    *_, (_, _, disk) = cuts(layer.events, ["kept"])
    assert {path: Path(path).read_bytes() for path in disk.files} == disk.files
    assert [Path(path).name for path in disk.files] == ["room.ledger"]
    assert {number: Path(notes[number]).read_bytes() for number in disk.notes} == disk.notes
    assert len(disk.said) == 14
    kinds = {event.kind for event in layer.events}
    assert kinds == {"create", "write", "truncate", "sync", "delete", "rename", "folder", "note", "said"}
