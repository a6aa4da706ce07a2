"""Groups: many streams in one commit, nothing released before it, and a member that fails takes only itself back."""

import datetime as dt
import sqlite3
import threading

import numpy as np
import pytest
from stream_helpers import opened, played

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, LedgerDamagedError, LedgerError, ReadingError
from understudy.stream import inspection

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def commits(ledger, work):
    """How many transactions SQLite has begun and committed meanwhile, by its own trace."""
    seen = []
    ledger.connection().set_trace_callback(seen.append)
    work()
    ledger.connection().set_trace_callback(None)
    return seen.count("BEGIN IMMEDIATE"), seen.count("COMMIT")


def begun(ledger, design, count, **options):
    with ledger.group() as group:
        tickets = [group.begin(design, 1, name=f"room {k}", **options) for k in range(count)]
    return [ticket.result() for ticket in tickets]


def twins(design, streams):
    """The same streams without a ledger, from their snapshots: what an undisturbed run releases."""
    return [us.Stream(stream._setup.__class__(design, stream._row, None), stream._now) for stream in streams]


def check(ledger):
    assert all(finding.passed for finding in inspection.verify(ledger.path))


def test_a_group_is_one_commit_and_gives_what_single_steps_give(design, readings, tmp_path):
    """Steps, batches, values, epochs and keys that come again, of many streams."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 5, epoch=4)
        lone = twins(design, streams)
        tickets = []

        def play():
            with ledger.group() as group:
                for k, stream in enumerate(streams):
                    tickets.append(group.step(stream, readings[k], key=k, theta=0))
                    tickets.append(group.apply(stream, readings[5 : 6 + 2 * k], keys=range(5, 6 + 2 * k)))
                    tickets.append(group.becomes(stream, 1))
                    tickets.append(group.step(stream, readings[k + 1], key=k))
                    tickets.append(group.new_epoch(stream, 0))
                    tickets.append(group.step(stream, readings[30], key=30))

        assert commits(ledger, play) == (1, 1)
        results = [ticket.result() for ticket in tickets]
        for k, stream in enumerate(lone):
            first, many, _, again, _, last = results[6 * k : 6 * k + 6]
            assert first == again == stream.step(readings[k], key=k, theta=0)
            assert np.array_equal(many, stream.apply(readings[5 : 6 + 2 * k], keys=range(5, 6 + 2 * k)))
            stream.becomes(1)
            stream.new_epoch(0)
            assert last == stream.step(readings[30], key=30)
            assert stream._now[:2] == streams[k]._now[:2]
            assert stream.spent == ledger.spent(f"room {k}")
        check(ledger)


def test_nothing_is_released_before_the_end(design, readings, tmp_path):
    """Tickets say so, plain calls from the same thread are refused, and other threads wait."""
    with opened(tmp_path) as ledger:
        one, two = begun(ledger, design, 2)
        out = []
        with ledger.group() as group:
            ticket = group.step(one, readings[0])
            for early in (
                ticket.result,
                ticket.exception,
                lambda: two.step(readings[0]),
                lambda: one.count,
                one.snapshot,
                lambda: ledger.spent("room 0"),
                lambda: design.stream(1, ledger, "x"),
                lambda: ledger.limit("room 0", total=1.0),
                lambda: ledger.group().__enter__(),
                lambda: one.run("file").apply(readings[:2]),
            ):
                with pytest.raises(LedgerError, match="group"):
                    early()
            other = threading.Thread(target=lambda: out.append(two.step(readings[0])))
            other.start()
            other.join(0.2)
            assert other.is_alive()
            assert out == []
        other.join(10)
        assert len(out) == 1
        assert isinstance(ticket.result(), float)
        assert ticket.exception() is None
        with pytest.raises(LedgerError, match="has ended"):
            group.step(one, readings[1])
        assert (one.count, two.count) == (1, 1)
        with ledger.group() as group, pytest.raises(ConfigurationError, match="not one of the ledger"):
            group.step(design.stream(1), readings[0])
        with ledger.group() as group:
            refused = group.call(one.run("file").apply, readings[:2])
        with pytest.raises(LedgerError, match="run over a file"):
            refused.result()


def test_a_member_that_fails_takes_only_itself_back(design, readings, tmp_path):
    """Bad readings, keys, values and budgets, one after the other with good ones: the others are as if alone."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 8, epoch=4)
        lone = twins(design, streams)
        for room in ("room 3", "room 5"):
            ledger.limit(room, total=ledger.spent(room))
        before = [stream._now for stream in streams]
        with ledger.group() as group:
            tickets = [
                group.step(streams[0], readings[0]),
                group.step(streams[1], float("inf")),
                group.step(streams[2], readings[2], theta=7),
                group.apply(streams[3], readings[:9]),
                group.step(streams[4], readings[4]),
                group.new_epoch(streams[5], 0),
                group.step(streams[6], readings[6], key="no"),
                group.step(streams[7], readings[7]),
            ]
        errors = [None, ReadingError, ConfigurationError, BudgetError, None, BudgetError, ReadingError, None]
        for k, error in enumerate(errors):
            if error is None:
                assert tickets[k].result() == lone[k].step(readings[k])
                assert streams[k]._now[:2] == lone[k]._now[:2]
            else:
                with pytest.raises(error):
                    tickets[k].result()
                assert isinstance(tickets[k].exception(), error)
                assert streams[k].count == 0
                assert streams[k]._recorder.current().position._replace(serial=1, stopped=0) == before[k].position
        assert streams[5]._now.position.stopped  # which is recorded, as it is by a single call
        assert [stream.step(readings[9]) for stream in streams[:3]] == [stream.step(readings[9]) for stream in lone[:3]]
        check(ledger)


def test_a_group_that_is_left_by_an_exception_leaves_nothing(design, readings, tmp_path):
    """On disk and in memory: streams stand where they stood, new ones are not there, and a retry has the same bits."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 3, epoch=4, period=60)
        before, spent = [stream._now for stream in streams], ledger.spent("room 0")
        keys = [NOON + dt.timedelta(minutes=k) for k in range(9)]
        tickets = []

        def leave():
            with ledger.group() as group:
                tickets.extend(group.apply(stream, readings[:9], keys=range(9)) for stream in streams[:2])
                tickets.extend([group.step(streams[2], readings[0], key=keys[0]), group.begin(design, 1, name="new")])
                raise ZeroDivisionError

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                leave()
            for ticket in tickets:
                with pytest.raises(ZeroDivisionError):
                    ticket.result()
            assert [stream._now for stream in streams] == before
            assert ledger.names() == ["room 0", "room 1", "room 2"]
            assert ledger.spent("room 0") == spent
        lone = twins(design, streams)
        with ledger.group() as group:
            tickets = [group.apply(stream, readings[:9], keys=range(9)) for stream in streams[:2]]
        for ticket, stream in zip(tickets, lone, strict=False):
            assert np.array_equal(ticket.result(), stream.apply(readings[:9], keys=range(9)))
        check(ledger)


def test_where_the_transaction_has_ended_the_whole_group_has_failed(design, readings, tmp_path, monkeypatch):
    """As a full disk ends it: later members are refused, and nothing is recorded by itself."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 3)
        before = [stream._now for stream in streams]
        put = us.Ledger.put

        def full(self, stream, *given, **options):
            put(self, stream, *given, **options)
            if stream == 2:
                self.connection().execute("ROLLBACK")
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorname = "SQLITE_FULL"
                raise error

        monkeypatch.setattr(us.Ledger, "put", full)
        tickets = []

        def play():
            with ledger.group() as group:
                for k, stream in enumerate(streams):
                    tickets.append(group.step(stream, readings[k]))

        with pytest.raises(LedgerError, match="disk is full"):
            play()
        monkeypatch.undo()
        assert len(tickets) == 1
        with pytest.raises(LedgerError, match="disk is full"):
            tickets[0].result()
        assert [stream._recorder.current() for stream in streams] == before
        assert ledger.rows("SELECT count(*) FROM outputs") == [(0,)]
        lone = twins(design, streams)
        assert [stream.step(readings[0]) for stream in streams] == [stream.step(readings[0]) for stream in lone]


def test_whether_a_member_fails_does_not_depend_on_the_private_value(design, readings, tmp_path):
    """The same calls under either value, good and bad ones: the same errors, in words too."""
    told = []
    for theta in (0, 1):
        folder = tmp_path / str(theta)
        folder.mkdir()
        with opened(folder) as ledger:
            with ledger.group() as group:
                tickets = [group.begin(design, theta, name=f"room {k}", epoch=4) for k in range(4)]
            streams = [ticket.result() for ticket in tickets]
            ledger.limit("room 0", total=ledger.spent("room 0"))
            calls = [
                (0, readings[:9]),
                (1, [*readings[:3], np.inf]),
                (2, readings[:9]),
                (3, [readings[0], 1e9, np.nan]),
            ]
            with ledger.group() as group:
                tickets = [group.apply(streams[k], Y, theta=theta) for k, Y in calls]
                tickets += [group.step(stream, readings[9], key=3, theta=theta) for stream in streams]
                tickets += [group.new_epoch(stream, theta) for stream in streams]
            told.append([repr(ticket.exception()) for ticket in tickets])
    assert told[0] == told[1]
    assert 3 < sum(each != "None" for each in told[0]) < len(told[0])


def test_followers_fail_with_their_leader(design, readings, tmp_path):
    """Where the leader did not come to an epoch, those that share its draw do not either; a retry has one draw."""
    with opened(tmp_path) as ledger:
        leader = design.stream(1, ledger, "a", room="lab", epoch=4)
        follower = design.stream(1, ledger, "b", room="lab", share="independent", epoch=4)
        with ledger.group() as group:
            bad = group.apply(leader, [*readings[:6], np.inf], keys=range(7))
            late = group.apply(follower, readings[:6], keys=range(6))
        with pytest.raises(ReadingError):
            bad.result()
        with pytest.raises(LedgerError, match="goes first"):
            late.result()
        with ledger.group() as group:
            tickets = [group.apply(stream, readings[:6], keys=range(6)) for stream in (leader, follower)]
        assert all(len(ticket.result()) == 6 for ticket in tickets)
        assert played(leader) == played(follower)
        check(ledger)


def test_a_damaged_row_is_one_members_error(design, readings, tmp_path):
    """An output that stands there already under the key: its stream fails, and the others go on."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 3)
        ledger.transact(lambda db: db.execute("INSERT INTO outputs VALUES (2, 5, 1.0, 0)"))
        with ledger.group() as group:
            tickets = [group.step(stream, readings[0], key=5) for stream in streams]
        assert [type(ticket.exception()) for ticket in tickets] == [type(None), LedgerDamagedError, type(None)]
        assert [stream.count for stream in streams] == [1, 0, 1]


def test_done_is_called_after_the_commit(design, tmp_path):
    """At once where the ledger is alone; after the block in a group, and never for what failed."""
    with opened(tmp_path) as ledger:
        seen = []
        ledger.transact(lambda db: seen.append("work"), lambda: seen.append(ledger.connection().in_transaction))
        assert seen == ["work", False]
        seen.clear()

        def fail(db):
            raise ReadingError("no")

        with ledger.group() as group:
            good = group.call(ledger.transact, lambda db: 3, lambda: seen.append("good"))
            bad = group.call(ledger.transact, fail, lambda: seen.append("bad"))
            assert seen == []
        assert (good.result(), seen) == (3, ["good"])
        assert isinstance(bad.exception(), ReadingError)


def test_the_rollback_guard_is_told_after_the_commit(design, readings, tmp_path, monkeypatch):
    """Once a group, and not of a group that came to nothing; an older copy is then noticed for each stream."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 3)
        notes = []
        note = type(ledger.rollback_guard).note

        def noted(self, places):
            notes.append((dict(places), ledger.connection().in_transaction))
            note(self, places)

        monkeypatch.setattr(type(ledger.rollback_guard), "note", noted)

        def leave():
            with ledger.group() as group:
                group.step(streams[0], readings[0])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            leave()
        assert notes == []
        old = (tmp_path / "room.ledger").read_bytes(), (tmp_path / "room.ledger-wal").read_bytes()
        with ledger.group() as group:
            for stream in streams[:2]:
                group.step(stream, readings[0])
            group.step(streams[2], np.inf)
            group.step(streams[0], readings[1])
        assert [(sorted(places), inside) for places, inside in notes] == [([1, 2], False)]
        assert notes[0][0][1].readings == 2
    monkeypatch.undo()
    (tmp_path / "room.ledger").write_bytes(old[0])
    (tmp_path / "room.ledger-wal").write_bytes(old[1])
    (tmp_path / "room.ledger-wal").chmod(0o600)
    with opened(tmp_path) as ledger:
        for name in ("room 0", "room 1"):
            with pytest.raises(us.errors.RollbackError):
                us.Stream.open(ledger, design, name)
        assert us.Stream.open(ledger, design, "room 2").count == 0


def test_a_ledger_that_is_closed_in_a_group(design, readings, tmp_path):
    """Nothing of it is recorded, and the error says what happened."""
    ledger = opened(tmp_path)
    (stream,) = begun(ledger, design, 1)
    tickets = []

    def leave():
        with ledger.group() as group:
            tickets.append(group.step(stream, readings[0]))
            ledger.close()

    with pytest.raises(LedgerError, match="closed"):
        leave()
    with pytest.raises(LedgerError, match="closed"):
        tickets[0].result()
    with opened(tmp_path) as ledger:
        assert us.Stream.open(ledger, design, "room 0").count == 0


def test_steps_alone_wait_and_are_written_together(design, readings, tmp_path):
    """No savepoint, and one statement for each table; what reads meanwhile finds them, and a new process too."""
    with opened(tmp_path) as ledger:
        streams, seen = begun(ledger, design, 3), []
        lone = twins(design, streams)
        ledger.connection().set_trace_callback(seen.append)
        with ledger.group() as group:
            tickets = [group.step(stream, readings[0], key=0) for stream in streams]
            tickets += [group.step(stream, readings[1], key=1) for stream in streams]
            assert not [statement for statement in seen if "outputs" in statement or "SAVEPOINT" in statement]
            again = group.step(streams[2], readings[9], key=1)
        ledger.connection().set_trace_callback(None)
        assert sum(statement.startswith("SAVEPOINT member") for statement in seen) == 0
        assert again.result() == tickets[5].result()
        expected = [[stream.step(readings[k], key=k) for stream in lone] for k in (0, 1)]
        assert [ticket.result() for ticket in tickets] == expected[0] + expected[1]
        assert [stream._recorder.current() for stream in streams] == [stream._now for stream in streams]
        check(ledger)
    with opened(tmp_path) as ledger:
        for k, stream in enumerate(lone):
            assert us.Stream.open(ledger, design, f"room {k}")._now.position == stream._now.position


@pytest.mark.parametrize("last", ["step", "epoch"])
def test_damage_that_is_found_late_fails_what_rests_on_it(design, readings, tmp_path, last):
    """Steps after the one whose row does not fit fail with it; the stream stands before it, and others go on."""
    with opened(tmp_path) as ledger:
        streams = begun(ledger, design, 3)
        one, bad, three = streams
        ledger.transact(lambda db: db.execute("INSERT INTO outputs VALUES (2, 5, 1.0, 0)"))
        with ledger.group() as group:
            tickets = [group.step(stream, readings[k], key=k) for k in (4, 5, 6) for stream in streams]
            if last == "step":
                group.step(one, readings[4], key=4)  # which reads, so that all is written
                resumed = group.step(bad, readings[7], key=7)
            else:
                resumed = group.new_epoch(bad, 0)  # which rests on what is found out while it runs
        errors = [type(ticket.exception()) for ticket in tickets]
        good = type(None)
        assert errors == [good] * 3 + [good, LedgerDamagedError, good] * 2
        assert [one.count, three.count] == [3, 3]
        if last == "step":
            assert isinstance(resumed.result(), float)
            assert (bad.count, bad._now.position.last) == (2, 7)
        else:
            assert isinstance(resumed.exception(), LedgerDamagedError)
            assert (bad.count, bad._now.position.last, bad.epoch) == (1, 4, 0)
        keys = [key for (key,) in ledger.rows("SELECT key FROM outputs WHERE stream = 2 ORDER BY key")]
        assert keys == ([4, 5, 7] if last == "step" else [4, 5])  # 5 is what was there
