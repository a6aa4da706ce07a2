"""A file with many rooms interleaved in time: one fleet, recorded at once, the same file again the same bytes."""

import csv
import datetime as dt

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.errors import ConfigurationError, LedgerError

KEY = us.MasterKey(bytes(range(32)))
COLUMNS = {"reading": "co2", "private": "people", "time": "time", "rooms": "room"}


def model(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(model, values=[0, 1]), leakage=0.2, horizon=20, distortion="mae")


def write(path, rows, rooms=6, seed=1, late=True):
    """Rows of some rooms, interleaved, some without a reading, with gaps, and one that comes late."""
    rng = np.random.default_rng(seed)
    clock = np.zeros(rooms, dtype=int)
    people = rng.integers(0, 2, rooms)
    start = dt.datetime(2026, 3, 1)
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["time", "room", "co2", "people"])
        for i in range(rows):
            r = int(rng.integers(rooms))
            clock[r] += 1 + (rng.random() < 0.1) * rng.integers(1, 30)
            if rng.random() < 0.03:
                people[r] = 1 - people[r]
            when = start + dt.timedelta(minutes=int(clock[r]), seconds=int(rng.integers(0, 20)))
            if late and i == rows // 2:
                when = start
            reading = "" if rng.random() < 0.1 else f"{100 + 10 * rng.standard_normal():.12f}"
            out.writerow([when.isoformat(sep=" "), f"room {r}", reading, people[r]])


def run(design, folder, source="rooms.csv", target="out.csv", **options):
    options = {"period": "1 min", "epoch": dt.timedelta(hours=1), "key": KEY, "ledger": folder / "plant.db"} | options
    return us.apply_file(design, folder / source, folder / target, **COLUMNS, **options)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def _guards(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_every_room_is_what_its_own_file_would_be(tmp_path, design):
    """The oracle: each room alone, as a fleet of one, row by row."""
    write(tmp_path / "rooms.csv", 400)
    summary = run(design, tmp_path)
    given, found = read(tmp_path / "rooms.csv"), read(tmp_path / "out.csv")
    assert list(found[0]) == ["time", "room", "co2"]
    assert [row["room"] for row in found] == [row["room"] for row in given]
    assert summary.rows == 400
    assert summary.segments == 6
    assert any("1 (the time comes before" in note for note in summary.notes)
    for room in {row["room"] for row in given}:
        with us.Ledger(tmp_path / f"{room}.db", rollback_guard=False) as ledger:
            options = {"epoch": dt.timedelta(hours=1), "period": 60, "namespace": "fleet"}
            fleet = us.Fleet(design, ledger, "alone", key=KEY, rooms=[room], **options)
            for row, out in zip(given, found, strict=True):
                if row["room"] != room:
                    continue
                y = float(row["co2"]) if row["co2"] else np.nan
                key = np.datetime64(row["time"].replace(" ", "T"), "ns")
                expected = fleet.apply([room], np.array([key]), [y], [int(row["people"])])[0]
                assert (float(out["co2"]) if out["co2"] else np.nan) == pytest.approx(expected, nan_ok=True, abs=6e-5)


def test_the_same_file_again_is_the_same_file_and_costs_nothing(tmp_path, design):
    write(tmp_path / "rooms.csv", 300)
    first = run(design, tmp_path)
    again = run(design, tmp_path, target="again.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    assert (again.draws, again.nats, again.replayed) == (0, 0.0, 300)
    assert first.draws > 6
    assert first.nats > 0.0


def test_other_rows_under_known_times_are_refused(tmp_path, design):
    write(tmp_path / "rooms.csv", 3000)
    run(design, tmp_path)
    text = (tmp_path / "rooms.csv").read_text().splitlines()
    cells = text[-1].split(",")
    text[-1] = ",".join([*cells[:2], "123.456", cells[3]])
    (tmp_path / "rooms.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(LedgerError, match="other rows"):
        run(design, tmp_path, target="other.csv")
    assert not (tmp_path / "other.csv").exists()


def test_an_interrupted_run_has_recorded_nothing(tmp_path, design, monkeypatch):
    write(tmp_path / "rooms.csv", 200)
    expected = run(design, tmp_path, ledger=tmp_path / "other.db", target="expected.csv")

    def full(*_):
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(us.Ledger, "_commit", full)
        with pytest.raises(LedgerError):
            run(design, tmp_path)
    assert not (tmp_path / "out.csv").exists()
    summary = run(design, tmp_path)
    assert (summary.draws, summary.nats, summary.replayed) == (expected.draws, expected.nats, 0)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_a_second_file_goes_on_where_the_first_stopped(tmp_path, design):
    """Two files of one history are, byte for byte, the file of the whole, but for the second head."""
    write(tmp_path / "rooms.csv", 240, late=False)
    lines = (tmp_path / "rooms.csv").read_text().splitlines(keepends=True)
    (tmp_path / "one.csv").write_text("".join(lines[:121]))
    (tmp_path / "two.csv").write_text("".join(lines[:1] + lines[121:]))
    run(design, tmp_path, target="whole.csv", ledger=tmp_path / "whole.db")
    run(design, tmp_path, source="one.csv", target="first.csv")
    run(design, tmp_path, source="two.csv", target="second.csv")
    whole = (tmp_path / "whole.csv").read_text().splitlines()
    parts = [(tmp_path / name).read_text().splitlines() for name in ("first.csv", "second.csv")]
    assert whole == parts[0] + parts[1][1:]


def test_too_many_rooms_are_not_admitted(tmp_path, design):
    write(tmp_path / "rooms.csv", 100, late=False)
    summary = run(design, tmp_path, rooms_at_most=4)
    assert summary.segments == 4
    assert any("more rooms than are admitted" in note for note in summary.notes)


@pytest.mark.parametrize(
    ("without", "lack"), [("key", "a master key"), ("ledger", "a ledger"), ("period", "period is missing")]
)
def test_what_many_rooms_need_is_named(tmp_path, design, without, lack):
    write(tmp_path / "rooms.csv", 20)
    with pytest.raises(ConfigurationError, match=lack):
        run(design, tmp_path, **{without: None})


def test_the_command_line(tmp_path, design):
    write(tmp_path / "rooms.csv", 100)
    design.save(tmp_path / "design.json")
    runner = CliRunner()
    assert runner.invoke(app, ["key", "new", str(tmp_path / "master.key")]).exit_code == 0
    words = [
        "apply", str(tmp_path / "design.json"), str(tmp_path / "rooms.csv"), "-o", str(tmp_path / "out.csv"),
        "--reading", "co2", "--private", "people", "--time", "time", "--room", "room", "--period", "1min",
        "--ledger", str(tmp_path / "plant.db"), "--key", str(tmp_path / "master.key"),
    ]  # fmt: skip
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(read(tmp_path / "out.csv")) == 100


def test_without_rooms_a_key_opens_a_wrapped_ledger(tmp_path, design):
    write(tmp_path / "room.csv", 50, rooms=1, late=False)
    columns = {"reading": "co2", "private": "people", "time": "time", "period": "1 min", "ledger": tmp_path / "room.db"}
    us.apply_file(design, tmp_path / "room.csv", tmp_path / "out.csv", key=KEY, **columns)
    with pytest.raises(LedgerError):
        us.apply_file(design, tmp_path / "room.csv", tmp_path / "again.csv", **columns)
    us.apply_file(design, tmp_path / "room.csv", tmp_path / "again.csv", key=KEY, **columns)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()


@pytest.mark.parametrize("other", [False, True], ids=["its own key", "another key"])
def test_a_file_of_rooms_opens_a_wrapped_ledger(tmp_path, design, other):
    write(tmp_path / "rooms.csv", 100)
    design.save(tmp_path / "design.json")
    KEY.save(tmp_path / "master.key")
    wrapping = us.MasterKey(bytes(range(1, 33))) if other else KEY
    wrapping.save(tmp_path / "wrap.key")
    with us.Ledger(tmp_path / "plant.db", key=wrapping):
        pass
    words = [
        "apply", str(tmp_path / "design.json"), str(tmp_path / "rooms.csv"), "-o", str(tmp_path / "out.csv"),
        "--reading", "co2", "--private", "people", "--time", "time", "--room", "room", "--period", "1min",
        "--ledger", str(tmp_path / "plant.db"), "--key", str(tmp_path / "master.key"),
    ]  # fmt: skip
    if other:
        refused = CliRunner().invoke(app, words)
        assert refused.exit_code != 0
        assert not (tmp_path / "out.csv").exists()
        words += ["--ledger-key", str(tmp_path / "wrap.key")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(read(tmp_path / "out.csv")) == 100
    # what wraps the ledger changes no draw
    run(design, tmp_path, target="plain.csv", ledger=tmp_path / "other.db", epoch=None)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
