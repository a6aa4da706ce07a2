"""What an inspection says of streams with memory: marks of what is estimated, and charges of decisions."""

import json
import sqlite3

import numpy as np
import pytest
from causal_cases import STAY
from helpers import room
from stream_helpers import opened

import understudy as us
from understudy.randomizer.causal import design_causal
from understudy.stream import inspection
from understudy.stream.ledger_file import digest

EVERY = 5
FAMILY = us.Family({v: room(v) for v in (0, 1)})
MADE = "charges for decisions are of decisions that were made"
TOLD = "decisions are charged what they told"
EPOCHS = "every draw for an epoch is charged, held or shared"


def design(estimated=False, **changes):
    options = {"rate": 0.05, "horizon": 50, "distortion": "mae", "decision_every": EVERY} | changes
    return design_causal(FAMILY, STAY, accept_estimated_theta=estimated, **options)


def readings(T=60, seed=1):
    theta = np.repeat(np.random.default_rng(seed).integers(0, 2, T // 10), 10).tolist()
    return theta, us.sample(FAMILY.along(theta), T, rng=seed)


def played(folder, made, T=60, limit=None, **told):
    """A ledger with one stream, closed; its path."""
    theta, Y = readings(T)
    with opened(folder) as ledger:
        if limit is not None:
            ledger.limit("lab", total=limit, when_spent="hold")
        stream = made.stream(ledger=ledger, name="lab", room="lab", **told)
        stream.apply(Y, **({} if made.estimated else {"theta": theta}))
        mark = stream.mark
    return folder / "room.ledger", mark


def changed(path, table, values, where="1"):
    """Rows with other values and the digests that belong to them, as a fault of the program would write them."""
    sets = ", ".join(f"{name} = ?" for name in values)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {table} SET {sets} WHERE {where}", tuple(values.values()))  # noqa: S608  # names of ours
        found = db.execute(f"SELECT * FROM {table}")  # noqa: S608  # names of ours
        same = " AND ".join(f"{column[0]} IS ?" for column in found.description[:-1])
        for *row, _ in found.fetchall():
            db.execute(f"UPDATE {table} SET digest = ? WHERE {same}", (digest(*row), *row))  # noqa: S608  # the same
    db.close()


def failed(path):
    return [finding.name for finding in inspection.verify(path) if not finding.passed]


# --- marks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{}, {"rng": 3}])
def test_what_is_exported_has_the_mark_of_the_stream(tmp_path, told):
    """That nothing is guaranteed where theta is estimated, and whether draws came from a seed: word for word."""
    path, mark = played(tmp_path, design(estimated=True), **told)
    records = list(inspection.released_outputs(path, "lab"))
    assert len(records) == 60
    for record in records:
        assert {name: value for name, value in record.items() if name not in ("key", "y")} == mark
    assert mark["guarantee"] == "none, audit only: the private value is estimated"
    assert ("insecure" in mark) == bool(told)


def test_a_design_that_is_told_theta_has_no_such_mark(tmp_path):
    """Neither with memory nor without."""
    path, mark = played(tmp_path, design())
    assert all("guarantee" not in record for record in inspection.released_outputs(path, "lab"))
    assert "guarantee" not in mark


# --- charges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimated", [False, True])
@pytest.mark.parametrize("limit", [None, 0.3, 0.0])
def test_a_ledger_that_is_right_passes(tmp_path, estimated, limit):
    """With a budget that lasts, with one that runs out and holds, and with one that allows nothing."""
    path, _ = played(tmp_path, design(estimated), limit=limit)
    found = {finding.name: finding for finding in inspection.verify(path)}
    assert {MADE, TOLD, EPOCHS} <= found.keys()
    assert all(finding.passed for finding in found.values())
    assert found[TOLD].detail == "1 rows"


def test_decisions_that_tell_nothing_are_charged_nothing(tmp_path):
    """A design of rate zero has no charges, and that is right."""
    path, _ = played(tmp_path, design(rate=0.0))
    assert failed(path) == []
    assert inspection.summary(path)["streams"][0]["charged_nats"] == 0.0


@pytest.mark.parametrize("estimated", [False, True])
def test_decisions_that_were_not_charged_are_found(tmp_path, estimated):
    """Charges and their sum are less by a millionth, or none: the memory of the stream knows what was told."""
    path, _ = played(tmp_path, design(estimated))
    with sqlite3.connect(path) as db:
        ((charged,),) = db.execute("SELECT micronats FROM charges").fetchall()
    db.close()
    changed(path, "charges", {"micronats": charged - 1})
    changed(path, "states", {"charged": charged - 1})
    assert failed(path) == [TOLD]
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM charges")
    db.close()
    changed(path, "states", {"charged": 0})
    assert failed(path) == [TOLD]


@pytest.mark.parametrize("wrong", [{"epoch": 0}, {"epoch": 13}, {"kind": "draw"}])
def test_charges_that_no_decision_made_are_found(tmp_path, wrong):
    """For the beginning, before anything was decided; for a decision that never was; as the draw of an epoch."""
    path, _ = played(tmp_path, design())
    changed(path, "charges", wrong)
    assert MADE in failed(path)


def test_a_charge_for_a_decision_that_was_held_is_found(tmp_path):
    """What is decided without a look at theta costs nothing."""
    path, _ = played(tmp_path, design())
    changed(path, "epochs", {"held": 1}, "epoch = (SELECT max(epoch) FROM charges)")
    assert failed(path) == [MADE]


def test_a_charge_for_a_decision_of_a_stream_without_memory_is_found(tmp_path):
    """Its draws are for epochs."""
    made = us.design(FAMILY, pseudo=[0, 1], leakage=0.2, horizon=50, distortion="mae")
    with opened(tmp_path) as ledger:
        made.stream(0, ledger, "lab").apply(readings()[1])
    path = tmp_path / "room.ledger"
    assert failed(path) == []
    changed(path, "charges", {"kind": "decision"})
    assert failed(path) == [EPOCHS, MADE]


def test_options_say_what_is_remembered_and_what_is_estimated(tmp_path):
    """That is where the inspection reads it."""
    path, _ = played(tmp_path, design(estimated=True))
    with sqlite3.connect(path) as db:
        ((options,),) = db.execute("SELECT options FROM streams").fetchall()
    db.close()
    told = json.loads(options)
    assert told["remembers"] is True
    assert told["estimated"] is True
