"""`understudy quickstart`: all steps in one folder."""

from __future__ import annotations

import json
import stat
import sys

import pytest
from cli_cases import WARNING, family, one_line, refused, write_rows

import understudy as us
from understudy.cli import file_commands as auditing
from understudy.cli import file_commands as fitting
from understudy.cli.file_commands import read
from understudy.cli.file_commands import split_rows as parted
from understudy.cli.options import AuditOptions, Columns

COLUMNS = ("--reading", "co2", "--private", "occupancy", "--time", "date")


@pytest.fixture
def known(monkeypatch):
    """A fit that is there at once; `passed` decides on the gate, `seen` keeps what it was given."""
    found = {"passed": True, "rows": None}

    def fitted(frame, columns):
        found["rows"] = len(frame)
        return family(found["passed"])

    monkeypatch.setattr(fitting, "fit_table", fitted)
    return found


def test_everything_is_in_the_folder(files, tmp_path, understudy, known):
    """Fitted to four fifths, applied to the last fifth; secrets are readable by their owner alone."""
    out = tmp_path / "results"
    told = understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", "--leakage", "0.1bit", "-o", out)
    assert told.status == 0, told.err
    names = {path.name for path in out.iterdir()}
    assert {"family.json", "design.json", "report.html", "disguised.csv", "room.db", "heldout.csv"} <= names
    assert known["rows"] == 1200
    held = (out / "heldout.csv").read_text().splitlines()
    assert len(held) == 301
    assert held[-1].split(",")[0] == (files / "history.csv").read_text().splitlines()[-1].split(",")[0]
    disguised = (out / "disguised.csv").read_text().splitlines()
    assert disguised[0] == "date,co2"
    assert len(disguised) == 301
    assert us.load_design(out / "design.json").family.about["per"] == "day"
    if sys.platform != "win32":
        for name in ("heldout.csv", "room.db"):
            assert stat.S_IMODE((out / name).stat().st_mode) == 0o600
    for step in ("read: 1500 rows", "fit: grey-box", "design: 0.1 bit a day", "report:", "apply:"):
        assert step in told.err
    assert "Written" in told.out


@pytest.mark.long(seconds=2, reason="a quickstart with pages and a file of its own")
def test_another_file_can_be_named(files, tmp_path, understudy, known):
    """Then the whole history is fitted to, and nothing is held out; the summary is JSON on request."""
    out = tmp_path / "results"
    more = ("--on", files / "today.csv", "--per", "day", "--leakage", "1bit", "--json")
    told = understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", *more, "-o", out)
    assert told.status == 0, told.err
    assert known["rows"] == 1500
    found = json.loads(told.out)
    assert found["applied"]["rows"] == 300
    assert found["design"]["per"] == "day"
    assert not (out / "heldout.csv").exists()


def test_a_misfit_stops_before_the_last_step(files, tmp_path, understudy, known):
    """Status 3, the reasons and the report; accepted, it goes on with the warning."""
    known["passed"] = False
    told = understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", "-o", tmp_path / "a")
    assert told.status == 3
    assert told.out.lstrip().startswith("DO NOT RELEASE.")
    assert WARNING in one_line(told.out)
    assert "tuning needs at least 4" in one_line(told.out)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"family.json", "design.json", "report.html"}
    told = understudy(
        "quickstart", files / "history.csv", *COLUMNS, "--no-audit", "--accept-misfit", "-o", tmp_path / "b"
    )
    assert told.status == 0
    assert WARNING in told.err
    assert (tmp_path / "b" / "disguised.csv").exists()


def test_what_was_made_is_kept_if_the_last_step_fails(files, tmp_path, understudy, known):
    """The report is there and status 1 says that the readings are not; the file and the line are named."""
    lines = (files / "today.csv").read_text().splitlines()
    lines[10] = lines[10].replace(lines[10].split(",")[1], "many")
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    told = understudy(
        "quickstart", files / "history.csv", *COLUMNS, "--no-audit", "--on", tmp_path / "bad.csv", "-o", tmp_path / "r"
    )
    assert told.status == 1
    assert "nothing was disguised: bad.csv, line 11, column 'co2'" in told.err
    assert (tmp_path / "r" / "report.html").exists()
    assert not (tmp_path / "r" / "disguised.csv").exists()


def test_a_folder_with_a_ledger_is_refused(files, tmp_path, understudy, known):
    """A second draw for the same readings leaks again."""
    out = tmp_path / "results"
    assert understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", "-o", out).status == 0
    refused(
        understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", "-o", out),
        "leaks again",
        "another folder",
    )
    (tmp_path / "file").write_text("")
    refused(
        understudy("quickstart", files / "history.csv", *COLUMNS, "--no-audit", "-o", tmp_path / "file"),
        "must be a folder",
    )


def test_the_last_segments_are_held_out(files, tmp_path):
    """Whole ones; and a history that is too short for it is refused."""
    lines = (files / "history.csv").read_text().splitlines()[:101]
    path = tmp_path / "days.csv"
    path.write_text("\n".join([lines[0] + ",day", *(f"{line},{k // 10}" for k, line in enumerate(lines[1:]))]))
    roles = Columns(["co2"], "occupancy", "date", "day")
    before, after = parted(read(str(path), roles), roles.segment)
    assert before.tolist() == list(range(80))
    assert after.tolist() == list(range(80, 100))
    path.write_text("\n".join(lines[:20]))
    short = Columns(["co2"], "occupancy", "date")
    with pytest.raises(us.errors.ConfigurationError, match="name another file by --on"):
        parted(read(str(path), short), short.segment)


@pytest.mark.long(seconds=25, reason="fits, gates and audits a simulated room with nothing replaced")
def test_the_whole_way_with_the_real_fit(tmp_path, understudy, monkeypatch):
    """No stand-in: a room that was simulated passes its gate, its readings are disguised, and two adversaries try."""
    few = AuditOptions(adversaries="windowed,changes")
    monkeypatch.setattr(auditing, "AuditOptions", lambda **_: few)
    out = tmp_path / "results"
    write_rows(tmp_path / "long.csv", 6000, seed=1, minutes=15)  # two months: two days would not be released
    more = ("--model", "grey-box", "--grid", "none", "--per", "day", "--leakage", "1bit", "--json")
    told = understudy("quickstart", tmp_path / "long.csv", *COLUMNS, *more, "-o", out)
    assert told.status == 0, told.err
    found = json.loads(told.out)
    assert found["family"]["gate"]["passed"] is True
    assert found["applied"]["rows"] == 1200
    assert found["design"]["leakage"]["bits_a_day"] == pytest.approx(1.0, rel=1e-4)
    assert found["audit"]["how"] == "replayed"
    assert found["audit"]["guesses"] == 4 * 1200
    assert not any(row["beats"] for row in found["audit"]["rows"])
    assert "What is not protected" in (out / "audit.html").read_text()
