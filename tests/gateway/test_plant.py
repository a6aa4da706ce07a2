"""The plant: one commit a group, outputs of the library bit for bit, and the recorded bytes for what comes again."""

import datetime as dt
import os
import sqlite3
from functools import cache

import numpy as np
import pytest

import understudy as us
from understudy.errors import LedgerError
from understudy.gateway.plant import Arrival, Plant, Terms
from understudy.stream import inspection
from understudy.stream.fleet import Rule

KEY = us.MasterKey(bytes(range(32)))
SECOND = 10**9
MINUTE = 60 * SECOND


@cache
def design():
    """The room of the README."""

    def room(occupants):
        return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)

    return us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")


def written(output):
    return f"{output.room} {output.key} {output.sequence} {output.values[0]!r}".encode()


def opened(folder, render=written, **options):
    ledger = us.Ledger(folder / "plant.ledger", rollback_guard=folder / "guard")
    plant = Plant(ledger, KEY, [Terms("office", design(), period=60, epoch=dt.timedelta(hours=1))], render, **options)
    return ledger, plant


def day(rooms, slots, seed=1):
    """Arrivals of rooms, slot by slot, each with its private value."""
    rng = np.random.default_rng(seed)
    return [
        [
            Arrival("office", f"room {r}", slot * MINUTE, 100.0 + 10.0 * theta + rng.normal(), theta)
            for r in range(rooms)
            for theta in [int(rng.integers(0, 2))]
        ]
        for slot in range(1, slots + 1)
    ]


def library(folder, groups):
    """The same readings through `us.Fleet` alone, one call each slot."""
    with us.Ledger(folder / "library.ledger", rollback_guard=folder / "guard") as ledger:
        rooms = sorted({arrival.room for group in groups for arrival in group})
        fleet = us.Fleet(design(), ledger, "office", key=KEY, rooms=rooms, period=60, epoch=dt.timedelta(hours=1))
        found = {}
        for group in groups:
            times = np.array([a.key for a in group]).view("datetime64[ns]")
            out = fleet.apply([a.room for a in group], times, [a.reading for a in group], [a.theta for a in group])
            found |= {(a.room, a.key): y for a, y in zip(group, out.tolist(), strict=True)}
        return found, {room: fleet.spent(room) for room in rooms}


def test_outputs_and_charges_are_those_of_the_library(tmp_path):
    """However readings fall into groups, and over a restart: the same bits, the same charges."""
    groups = day(5, 80)
    wanted, charges = library(tmp_path, groups)
    ledger, plant = opened(tmp_path)
    plant.admit("office", [f"room {r}" for r in range(5)])
    flat = [arrival for group in groups for arrival in group]
    found, at, sizes = {}, 0, np.random.default_rng(2).integers(1, 40, 200).tolist()
    for size in sizes:
        for record in plant.disguise(flat[at : at + size]):
            assert record.rule == Rule.TAKEN
            found[record.arrival.room, record.arrival.key] = record.values[0]
        at += size
        if size == 7:
            ledger.close()
            ledger, plant = opened(tmp_path)
    assert found == wanted
    assert {room: plant.fleets["office"].spent(room) for room in charges} == charges
    ledger.close()
    assert all(finding.passed for finding in inspection.verify(tmp_path / "plant.ledger"))


def test_a_reading_that_comes_again_gets_the_recorded_bytes(tmp_path):
    """Under the same sequence number, whatever it says, in the same group or after a restart with another form."""
    ledger, plant = opened(tmp_path)
    plant.admit("office", ["lab"])
    first, twin = plant.disguise([Arrival("office", "lab", MINUTE, 101.5, 1), Arrival("office", "lab", MINUTE, 9.0, 0)])
    assert (first.rule, first.sequence, first.replayed) == (Rule.TAKEN, 1, False)
    assert (twin.rule, twin.content, twin.replayed) == (Rule.DUPLICATE, first.content, True)
    plant.disguise([Arrival("office", "lab", 2 * MINUTE, 101.5)])
    ledger.close()
    ledger, plant = opened(tmp_path, render=lambda output: b"another form")
    late, beside = plant.disguise(
        [Arrival("office", "lab", MINUTE, 55.5), Arrival("office", "lab", 2 * MINUTE + 1, 1.5)]
    )
    assert (late.rule, late.content, late.sequence, late.id) == (Rule.LATE, first.content, 1, first.id)
    assert (beside.rule, beside.content) == (Rule.DUPLICATE, None)  # another reading of a slot that is full
    ledger.close()


def test_what_was_not_marked_is_unsent_after_a_restart(tmp_path):
    """In its order, the same bytes; marks are of the next commit."""
    ledger, plant = opened(tmp_path)
    plant.admit("office", ["lab", "hall"])
    records = [record for group in day(2, 3) for record in plant.disguise([a._replace(room="lab") for a in group[:1]])]
    plant.mark([records[0].id])
    assert [message.id for message in plant.unsent()] == [record.id for record in records]
    plant.flush()
    assert not plant.pending
    ledger.close()
    ledger, plant = opened(tmp_path)
    assert plant.unsent() == [(r.id, "office", r.arrival.key, r.sequence, r.content) for r in records[1:]]
    ledger.close()


def test_a_reading_that_cannot_be_used_takes_nothing_along(tmp_path):
    """One infinite, one of an unknown room, one of an unknown value, one with no number: the other 496 leave."""
    ledger, plant = opened(tmp_path)
    plant.admit("office", [f"room {r}" for r in range(499)])
    arrivals = day(500, 1)[0]
    arrivals[3] = arrivals[3]._replace(reading=float("inf"))
    arrivals[4] = arrivals[4]._replace(theta=7)
    arrivals[5] = arrivals[5]._replace(reading="none")
    records = plant.disguise(arrivals)
    assert [record.rule for record in records[3:6]] == [Rule.INFINITE, Rule.UNKNOWN_VALUE, Rule.FORM]
    assert records[499].rule == Rule.UNKNOWN_ROOM
    assert sum(record.content is not None for record in records) == 496
    assert [record.arrival for record in records] == arrivals
    ledger.close()


def test_a_group_that_fails_leaves_nothing_and_can_be_given_again(tmp_path):
    """An error on the way to the commit: no filter has moved, no draw is charged; the next try gives the same bits."""
    groups = day(3, 4)
    wanted, _ = library(tmp_path, groups)
    failing = []

    def render(output):
        if failing:
            raise LedgerError("the disk is full")
        return written(output)

    ledger, plant = opened(tmp_path, render)
    plant.admit("office", [f"room {r}" for r in range(3)])
    found = {}
    for i, group in enumerate(groups):
        if i in (0, 2):
            failing.append(True)
            with pytest.raises(LedgerError, match="the disk is full"):
                plant.disguise(group)
            failing.clear()
            assert len(plant.unsent()) == 3 * i
            if i == 2:
                plant.admit("office", ["annex"])
        found |= {(r.arrival.room, r.arrival.key): r.values[0] for r in plant.disguise(group)}
    assert found == wanted
    assert [record.sequence for record in plant.disguise(groups[-1])] == [4, 4, 4]
    ledger.close()


def test_private_values_that_were_told_are_there_after_a_restart(tmp_path):
    """From when on, and which; those that ended before the horizon are forgotten."""
    ledger, plant = opened(tmp_path)
    plant.admit("office", ["lab"])
    assert plant.tell("office", "lab", 10, 1, 0)
    assert plant.tell("office", "lab", 20, 0, 5)
    assert plant.tell("office", "lab", 30, 1, 25)
    assert plant.tell("office", "lab", 35, None, 25)
    assert not plant.tell("office", "lab", 40, 7, 0)
    assert not plant.tell("office", "attic", 40, 1, 0)
    plant.flush()
    ledger.close()
    ledger, plant = opened(tmp_path)
    assert plant.told("office") == {"lab": [(20, 0), (30, 1), (35, None)]}
    ledger.close()


def test_messages_are_forgotten_in_time_but_for_the_last_of_a_room(tmp_path):
    """What was sent is kept as long as is retained; what was not sent stays; a room goes on counting."""
    now = [1000.0]
    ledger, plant = opened(tmp_path, retain=dt.timedelta(seconds=60), clock=lambda: now[0])
    plant.admit("office", ["quiet", "lab"])
    quiet = plant.disguise([Arrival("office", "quiet", MINUTE, 100.5, 1)])
    plant.mark([quiet[0].id])
    for slot in range(1, 300):
        records = plant.disguise([Arrival("office", "lab", slot * MINUTE, 110 + 1 / (slot + 2), 1)])
        if slot != 2:
            plant.mark([records[0].id])
        now[0] += 1.0
    with sqlite3.connect(tmp_path / "plant.ledger") as db:
        kept = [key // MINUTE for (key,) in db.execute("SELECT key FROM outbox ORDER BY id")]
    assert kept[:2] == [1, 2]  # the last one of the quiet room, and the one that was not sent
    assert 60 <= len(kept) - 2 <= 64
    ledger.close()
    ledger, plant = opened(tmp_path)
    assert plant.disguise([Arrival("office", "quiet", 400 * MINUTE, 100.5)])[0].sequence == 2
    assert plant.disguise([Arrival("office", "lab", 3 * MINUTE, 1.0)])[0][1:] == (Rule.LATE, None, 0, None, 0, False)
    ledger.close()


def test_a_message_that_was_changed_on_disk_is_refused(tmp_path):
    """And found by `verify`."""
    ledger, plant = opened(tmp_path)
    plant.admit("office", ["lab"])
    plant.disguise([Arrival("office", "lab", MINUTE, 100.5, 1)])
    ledger.close()
    with sqlite3.connect(tmp_path / "plant.ledger") as db:
        db.execute("UPDATE outbox SET content = ?", (b"lab 1 1 99.5",))
    db.close()
    assert [f.name for f in inspection.verify(tmp_path / "plant.ledger") if not f.passed] == [
        "messages that leave are as written"
    ]
    ledger, plant = opened(tmp_path)
    with pytest.raises(LedgerError, match="a message in the outbox"):
        plant.unsent()
    ledger.close()
    assert os.stat(tmp_path / "plant.ledger").st_mode & 0o077 == 0
