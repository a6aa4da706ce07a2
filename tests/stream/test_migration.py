"""Ledgers of older versions are brought up in one transaction, when they are opened for writing.

`tests/fixtures/ledgers/make.py` made one with the code of each version of the tables that ever landed.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from stream_fault_layer import Fault, FaultLayer
from stream_helpers import released_as

import understudy as us
from understudy.errors import LedgerError, RollbackError
from understudy.stream import inspection
from understudy.stream import ledger_file as files
from understudy.stream.rollback_guard import RollbackGuard

FIXTURES = Path(__file__).parents[1] / "fixtures" / "ledgers"
VERSIONS = ["schema_1", "schema_2", "schema_3"]
FORMER = {"schema_1": 1, "schema_2": 2, "schema_3": 3}


@cache
def stored_design(version):
    return us.load_design(FIXTURES / version / "design.json")


def copy(version, folder):
    """A copy of a fixture, with the permissions that git does not keep: the ledger, its guard, and what is known."""
    shutil.copytree(FIXTURES / version, folder, dirs_exist_ok=True)
    (folder / "room.ledger").chmod(0o600)
    return folder / "room.ledger", stored_design(version), json.loads((folder / "facts.json").read_text())


def opened(folder, **options):
    return us.Ledger(folder / "room.ledger", rollback_guard=folder / "guard", **options)


def schema(path):
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_go_on_where_they_stood(version, tmp_path):
    """Draws, charges, outputs and positions are those of then; what comes next is what would have come, rounded."""
    path, design, facts = copy(version, tmp_path)
    assert schema(path) == FORMER[version]
    with opened(tmp_path) as ledger:
        assert schema(path) == files.SCHEMA
        assert ledger.names() == ["counted", "clocked", "again"]
        for name, nats in facts["spent"].items():
            assert ledger.spent(name) == nats
        for name in ledger.names():
            stream = us.Stream.open(ledger, design, name)
            assert stream.count == facts["count"][name]
            assert stream._now.position.generation == (FORMER[version] == 3 and name == "again")
            again = stream.apply(facts["readings"][:8], keys=range(8))
            assert released_as(again, facts["released"][name][:8], design.resolution)
            out = stream.step(facts["readings"][20], key=facts["count"][name])
            assert released_as([out], facts["following"][name], design.resolution)
            # streams that exist keep the index of their draws
            assert stream._row.options.get("index") == (None if FORMER[version] < 3 else "clock")
        new = design.stream(1, ledger, "new")
        new.step(100.0)
    assert all(finding.passed for finding in inspection.verify(path))
    with opened(tmp_path) as ledger:
        assert us.Stream.open(ledger, design, "new").count == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rollback_guard_is_brought_up_too(version, tmp_path):
    """What it had seen counts: an older copy is refused by this version, and by those before it."""
    path, design, _ = copy(version, tmp_path)
    before = path.read_bytes()
    with opened(tmp_path) as ledger:
        seen = ledger.rollback_guard.ahead(1, 0)
        assert (seen.readings, seen.last, seen.kind, seen.generation) == (8, 7, "number", 0)
        assert ledger.rollback_guard.newest() == 3
        us.Stream.open(ledger, design, "counted").step(100.0, key=8)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.write_bytes(before)
    with opened(tmp_path) as ledger, pytest.raises(RollbackError):
        us.Stream.open(ledger, design, "counted")
    (folder,) = (tmp_path / "guard").iterdir()
    if FORMER[version] == 3:  # which versions up to 0.2 refuse anyway
        assert [file.name for file in folder.iterdir()] == ["streams"]
        return
    # what versions up to 0.2 look at when they open a ledger: the largest name of a file of forty bytes
    named = [int(file.name) for file in folder.iterdir() if file.name.isdecimal() and file.stat().st_size == 40]
    assert max(named) > 3


@pytest.mark.sample(default=2, seconds=2, reason="a fault at every write, of every kind")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "kind",
    [
        "error",
        *(
            pytest.param(kind, marks=pytest.mark.long(seconds=8, reason="a run for each write"))
            for kind in ("full", "dead")
        ),
    ],
)
def test_a_fault_at_every_write_leaves_the_old_or_the_new_version(version, kind, tmp_path):
    """And opened again it is brought up, with nothing lost."""
    found = set()
    for at in range(60):
        where = tmp_path / str(at)
        path, design, facts = copy(version, where)
        with FaultLayer(Fault(at, kind)) as layer:
            try:
                opened(where).close()
                told = False
            except LedgerError:
                told = True
        found.add((told, schema(path)))
        assert schema(path) in (FORMER[version], files.SCHEMA)
        with opened(where) as ledger:
            assert [us.Stream.open(ledger, design, name).count for name in ledger.names()] == list(
                facts["count"].values()
            )
        assert all(finding.passed for finding in inspection.verify(path))
        if not layer.injected:
            break
    assert at > 5
    assert {(True, FORMER[version]), (False, files.SCHEMA)} <= found


def open_and_die(where, number):
    """Open a ledger in this process, which dies before the statement of this number, or else after the last."""
    connect, left = files.connect, iter(range(number))

    def traced(*given):
        db = connect(*given)
        db.set_trace_callback(lambda _: None if next(left, None) is not None else os._exit(9))
        return db

    files.connect = traced
    opened(where).close()
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.sample(default=1, seconds=3, reason="a kill before every statement")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kill_while_it_is_brought_up(version, tmp_path):
    """Killed before each statement: the old version or the new one is there, and nothing in between."""
    left = set()
    for number in range(40):
        where = tmp_path / str(number)
        path, _, _ = copy(version, where)
        child = os.fork()
        if child == 0:
            open_and_die(where, number)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        left.add(schema(path))
        if not killed:
            break
        with opened(where) as ledger:
            assert len(ledger.names()) == 3
            assert ledger.rollback_guard.newest() == 3
        assert schema(path) == files.SCHEMA
    assert left == {FORMER[version], files.SCHEMA}


def test_older_ledgers_are_inspected_or_say_how(tmp_path):
    """Version 2 is read as it is, without a change to the file; version 1 says that it must be opened once."""
    path, _, facts = copy("schema_2", tmp_path / "two")
    before = path.read_bytes()
    told = inspection.summary(path)
    assert [stream["readings"] for stream in told["streams"]] == list(facts["count"].values())
    assert all(finding.passed for finding in inspection.verify(path))
    inspection.backup_ledger(path, tmp_path / "copy")
    assert path.read_bytes() == before
    path, _, _ = copy("schema_1", tmp_path / "one")
    with pytest.raises(LedgerError, match="open it for writing once"):
        inspection.summary(path)
    # the first layout is refused: no version that wrote it could begin a stream (us.design did not import from 9b5474c
    # to 3a018b2, the commits that had it), so that nobody has such a ledger with anything in it
    shutil.copy(FIXTURES / "schema_1_first" / "room.ledger", tmp_path / "room.ledger")
    (tmp_path / "room.ledger").chmod(0o600)
    with pytest.raises(LedgerError, match="before the first version"):
        opened(tmp_path)


def test_a_damaged_state_is_not_brought_up(tmp_path):
    """What is not as it was written stays as it is, and is refused."""
    path, _, _ = copy("schema_2", tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE states SET count = count + 1 WHERE stream = 2")
        db.commit()
    with pytest.raises(us.errors.LedgerDamagedError, match="a state"):
        opened(tmp_path)
    assert schema(path) == 2


def test_a_guard_without_former_files_is_made_without_a_barrier(tmp_path):
    """A new ledger has one file of records; what is there twice is read once."""
    guard = RollbackGuard.of(tmp_path, "x")
    assert guard.newest() == 0
    guard.close()
    assert [file.name for file in (tmp_path / "x").iterdir()] == ["streams"]
    assert np.frombuffer((tmp_path / "x" / "streams").read_bytes(), dtype="u1").size == 64
