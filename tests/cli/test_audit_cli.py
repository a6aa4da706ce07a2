"""`understudy audit`: simulated, on a file, on a release; its page and figures; what it refuses; when it fails."""

from __future__ import annotations

import csv
import json
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest
from cli_cases import one_line, refused, write_rows

import understudy as us
from understudy._html import page_text
from understudy.adversaries.results import Outcome, is_failure, load_audit, mark
from understudy.text import (
    AUDIT_ESTIMATED,
    DATA,
    UNCHANGED,
    best_of,
    error_bound,
    row_verdict,
)

QUICK = ("--adversaries", "windowed", "--seed", "1")
SMALL = ("--adversaries", "windowed,changes", "--seed", "1", "--n", "1000")


@pytest.fixture(scope="module")
def released(files, tmp_path_factory):
    """The rows of today.csv as they left, and labels without readings."""
    from understudy.apply.apply_file import apply_file

    folder = tmp_path_factory.mktemp("released")
    design = us.load_design(files / "causal.json")
    apply_file(design, files / "today.csv", folder / "out.csv", private="occupancy", ledger=folder / "room.db")
    with (files / "today.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([row[0], row[3]] for row in rows)
    with (folder / "other.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["date", "co2"], ["2031-01-01 00:00:00", "400.0"], *[row[:2] for row in rows[1:]]])
    return folder


@pytest.fixture(scope="module")
def simulated(files, tmp_path_factory):
    """One audit of simulated readings, with all that it writes."""
    from typer.testing import CliRunner

    from understudy.cli import app

    folder = tmp_path_factory.mktemp("simulated")
    command = [
        "audit",
        str(files / "design.json"),
        *SMALL,
        "-o",
        str(folder / "a.html"),
        "--save",
        str(folder / "a.json"),
    ]
    told = CliRunner().invoke(app, command, env={"COLUMNS": "160"})
    assert told.exit_code == 0, told.output
    return folder, told.output


def test_a_simulated_audit_says_what_was_found(simulated):
    """Adversaries by strength, references apart, the bound, and where everything is."""
    folder, out = simulated
    audit = load_audit(folder / "a.json")
    assert audit.how == "simulated"
    assert not audit.broken
    rows = sorted(audit.of(), key=lambda row: -row.balanced.value)
    assert out.index(rows[0].label) < out.index(rows[-1].label) < out.index("For comparison") < out.index("blind")
    for row in rows:
        assert str(row.balanced) in out
        assert mark(audit, row) in out
    assert error_bound(audit.bound, audit.moving) in one_line(out)
    assert f"Page written to {folder / 'a.html'}" in one_line(out)


def test_the_page_has_the_card_and_opens_offline(simulated, files):
    """The same as from Python; nothing on it comes from elsewhere."""
    folder, _ = simulated
    page = (folder / "a.html").read_text(encoding="utf-8")
    from understudy.report.pages import audit_report

    design = us.load_design(files / "design.json")
    assert page == audit_report(load_audit(folder / "a.json"), design)
    assert design.guarantee.headline in page
    assert "http:" not in page
    assert "https:" not in page


def test_an_audit_goes_into_the_report(simulated, files, tmp_path, understudy):
    """In the place that is kept for it; without a page, or without an audit in the file, it is refused."""
    folder, _ = simulated
    out = tmp_path / "report.html"
    told = understudy("report", files / "design.json", "--audit", folder / "a.json", "-o", out)
    assert told.status == 0, told.err
    page = out.read_text(encoding="utf-8")
    assert page_text("theorem_and_experiment") in page
    assert page_text("no_audit") not in page
    refused(understudy("report", files / "design.json", "--audit", folder / "a.json", "--json"), "-o report.html")
    refused(understudy("report", files / "design.json", "--audit", files / "design.json", "-o", out), "no audit")
    refused(understudy("report", files / "design.json", "--audit", tmp_path / "none.json", "-o", out), "none.json")


@pytest.mark.long(seconds=1, reason="two audits")
def test_the_same_seed_gives_the_same_audit(simulated, files, understudy):
    """All figures, but for the time that it took."""
    folder, _ = simulated
    told = understudy("audit", files / "design.json", *SMALL, "--json")
    assert told.status == 0, told.err
    assert told.err == ""
    first, again = load_audit(folder / "a.json").plain(), json.loads(told.out)["audit"]
    for audit in (first, again):
        audit.pop("seconds")
        for row in audit["rows"]:
            row.pop("seconds")
    assert first == again


@pytest.mark.long(seconds=11, reason="a whole audit of a file from the command line")
def test_a_file_is_attacked_as_the_family_reads_it(files, tmp_path, understudy):
    """Columns are the design's own; raw readings, noise and utility come with it, and no reading is printed."""
    out, save = tmp_path / "a.html", tmp_path / "a.json"
    command = ("audit", files / "causal.json", files / "history.csv", *QUICK, "--replicates", "1", "--alarm", "430")
    told = understudy(*command, "-o", out, "--save", save, "--json")
    assert told.status == 0, told.err
    found = json.loads(told.out)
    audit = found["audit"]
    assert audit["how"] == "replayed"
    assert {row["data"] for row in audit["rows"]} == {"disguised", "raw", "noise", "offset", "scores"}
    assert any(row["clock"] for row in audit["rows"])
    assert audit["utility"]["channels"][0]["name"] == "co2"
    assert audit["utility"]["channels"][0]["alarm"]["threshold"] == 430.0
    page = out.read_text(encoding="utf-8")
    assert "Scores of the raw readings" in page
    report = tmp_path / "report.html"
    assert understudy("report", files / "causal.json", "--audit", save, "-o", report).status == 0
    assert "Scores of the raw readings" in report.read_text(encoding="utf-8")
    with (files / "history.csv").open(newline="") as file:
        readings = [row["co2"] for row in csv.DictReader(file)]
    assert not any(reading[:9] in told.out + page + save.read_text(encoding="utf-8") for reading in readings)


@pytest.mark.long(seconds=3, reason="a whole audit from the command line")
def test_another_file_to_learn_from(files, understudy):
    """Then all of the file is judged; a design of one draw draws again by the clock."""
    command = ("audit", files / "design.json", files / "today.csv", "--train", files / "history.csv", *QUICK)
    told = understudy(*command, "--epoch", "60min", "--replicates", "2", "--json")
    assert told.status == 0, told.err
    audit = json.loads(told.out)["audit"]
    assert audit["learned"] == 3000
    assert audit["guesses"] == 600
    assert any("constant" in note for note in audit["notes"])


@pytest.mark.long(seconds=7, reason="two whole audits from the command line")
def test_a_release_is_attacked_as_it_is(files, released, tmp_path, understudy):
    """Row by row beside its labels, with the raw readings or without; what is written is for its owner."""
    out, save = tmp_path / "a.html", tmp_path / "a.json"
    command = ("--released", released / "out.csv", *QUICK)
    told = understudy("audit", files / "causal.json", files / "today.csv", *command, "-o", out, "--save", save)
    assert told.status == 0, told.err
    assert load_audit(save).how == "released"
    assert "nats, at least" in told.out
    assert "Keep this page secret" in out.read_text(encoding="utf-8")
    if sys.platform != "win32":
        assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(save.stat().st_mode) == 0o600
    told = understudy("audit", files / "causal.json", released / "labels.csv", *command, "--json")
    assert told.status == 0, told.err
    found = json.loads(told.out)
    assert {row["data"] for row in found["audit"]["rows"]} == {"disguised"}
    assert found["audit"]["utility"] is None
    assert any("no readings" in note for note in found["data"])


def test_the_release_is_that_of_the_rows(files, released):
    """What is attacked is what was written, in its order; a shorter release is laid beside by time."""
    from understudy.cli.file_commands import audit_columns, beside
    from understudy.cli.options import AuditFiles, TableFormat

    design = us.load_design(files / "causal.json")
    with (released / "out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    found = beside(
        design, str(files / "today.csv"), str(released / "out.csv"), audit_columns(design, AuditFiles(), TableFormat())
    )
    assert found.output[:, 0].tolist() == [float(row[1]) for row in rows[1:]]
    with (released / "part.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *rows[101:301]])
    part = beside(
        design, str(files / "today.csv"), str(released / "part.csv"), audit_columns(design, AuditFiles(), TableFormat())
    )
    assert np.isnan(part.output[:100]).all()
    assert part.output[100:300, 0].tolist() == [float(row[1]) for row in rows[101:301]]
    assert part.labelled.Y.tolist() == found.labelled.Y.tolist()


def test_what_is_refused(files, released, tmp_path, understudy):
    """One line each, with the option or the column and the rule; nothing is written."""
    design, today = files / "design.json", files / "today.csv"
    for arguments, words in (
        ((design, "--train", today), ["--train", "no READINGS"]),
        ((design, "--reading", "co2"), ["--reading", "no READINGS"]),
        ((design, today, "--private", "people"), ["today.csv", "'people'"]),
        ((design, today, "--reading", "co3"), ["today.csv", "'co3'"]),
        ((design, today, "--reading", "co2", "--reading", "light"), ["1 channel"]),
        ((design, tmp_path / "none.csv"), ["none.csv"]),
        ((design, "--adversaries", "nobody"), ["'nobody'", "windowed"]),
        ((design, "--confidence", "1.5"), ["--confidence 1.5"]),
        ((design, "--epoch", "60min"), ["--epoch 60min"]),
        ((files / "causal.json", today, "--epoch", "60min"), ["--epoch 60min"]),
        ((design, today, "--epoch", "90s"), ["--epoch 90s", "whole number of readings"]),
        ((design, today, "--alarm", "high"), ["--alarm high"]),
        ((design, today, "--alarm", "1,2"), ["--alarm 1,2", "2 levels"]),
        ((design, today, "--released", released / "other.csv"), ["other.csv, line 2", "no row of this time"]),
        ((design, "-o", tmp_path / "none" / "a.html"), ["--out", "there is no folder"]),
        ((files / "family.json",), ["family.json"]),
    ):
        refused(understudy("audit", *arguments), *words)
    assert list(tmp_path.iterdir()) == []


def test_errors_say_no_reading(files, tmp_path, understudy):
    """A reading that is text is named by file, line, column and rule."""
    bad = tmp_path / "bad.csv"
    bad.write_text((files / "today.csv").read_text().replace("\n", "\n2026-03-01 00:00:00,secret7,0,0\n", 1))
    told = understudy("audit", files / "design.json", bad)
    refused(told, "bad.csv, line 2, column 'co2'")
    assert "secret7" not in told.err


def test_a_package_that_is_missing_is_said_and_the_others_run(files, understudy, monkeypatch):
    """Without scikit-learn its adversaries are listed with the way to install it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    told = understudy("audit", files / "design.json", "--adversaries", "windowed,boosting", "--n", "400", "--seed", "1")
    assert told.status == 0, told.err
    assert "boosting" in told.out[told.out.index("Not tried") :]
    assert "sklearn" in told.out[told.out.index("Not tried") :]


@pytest.mark.long(seconds=14, reason="an audit of 6000 rows from the command line")
def test_a_release_that_is_not_disguised_is_found(files, tmp_path, understudy):
    """The raw readings of some days, passed on as they are but for a unit, under --strict: status 1, the page warns."""
    plain, out = tmp_path / "plain.csv", tmp_path / "a.html"
    days = write_rows(tmp_path / "days.csv", 6000, seed=1)
    with days.open(newline="") as file, plain.open("w", newline="") as target:
        head, *rows = csv.reader(file)
        csv.writer(target).writerows([head[:2], *([row[0], float(row[1]) + 1.0] for row in rows)])
    command = ("audit", files / "causal.json", days, "--released", plain, *QUICK, "--strict")
    told = understudy(*command, "-o", out)
    assert told.status == 1, told.err
    assert "learns something" in one_line(told.out)
    assert 'role="alert"' in out.read_text(encoding="utf-8")


def test_strict_fails_where_it_should(simulated, files, understudy, monkeypatch):
    """A bound that is beaten, or something found in a release, is status 1; what a design lets out is not."""
    audit = load_audit(simulated[0] / "a.json")
    assert audit.found  # the design lets out 0.1 nats, and 1000 sequences show it
    assert not is_failure(audit)
    beaten = replace(audit, rows=tuple(replace(row, beats=not row.reference) for row in audit.rows))
    assert is_failure(beaten)
    assert is_failure(replace(audit, how="released"))
    monkeypatch.setattr("understudy.adversaries.audit.audit", lambda *a, **k: beaten)
    for options, status in (((), 0), (("--strict",), 1)):
        told = understudy("audit", files / "design.json", *options)
        assert told.status == status
        assert "does better than the theorem allows" in one_line(told.out)


def short(folder, changed):
    """Six hours with three stays of each value, labels beside them, and an output that is theirs or is moved."""
    rng = np.random.default_rng(3)
    theta = np.repeat([0, 1, 0, 1, 0, 1], 60)
    Y = 400.0 + 50.0 * theta + 5.0 * rng.standard_normal(360)
    times = np.datetime64("2026-03-02T00:00:00") + np.arange(360) * np.timedelta64(60, "s")
    labelled, released = folder / "short.csv", folder / "released.csv"
    with labelled.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["date", "co2", "occupancy"],
                *([f"{t}Z", f"{y:.4f}", int(o)] for t, y, o in zip(times, Y, theta, strict=True)),
            ]
        )
    with released.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["date", "co2"], *([f"{t}Z", f"{y + changed:.4f}"] for t, y in zip(times, Y, strict=True))]
        )
    return labelled, released


@pytest.mark.long(seconds=10, reason="two whole audits")
@pytest.mark.parametrize(
    "changed", [0.0, pytest.param(0.5, marks=pytest.mark.long(seconds=5, reason="two whole audits"))]
)
def test_a_short_release_of_raw_readings_does_not_pass(files, tmp_path, understudy, changed):
    """No p could be small enough, so nothing can be told: a warning and status 1, not "no adversary found anything"."""
    labelled, released = short(tmp_path, changed)
    out = tmp_path / "a.html"
    command = ("audit", files / "causal.json", labelled, "--released", released, *QUICK, "-o", out)
    told = understudy(*command, "--private", "occupancy")
    assert told.status == 0, told.err
    assert "Too little data" in one_line(told.out)
    assert row_verdict(Outcome.NOT_TESTABLE, False) in told.out
    assert (UNCHANGED in one_line(told.out)) is (changed == 0.0)
    assert row_verdict(Outcome.NOTHING, False) not in one_line(told.out)
    assert "Too little data" in out.read_text(encoding="utf-8")
    assert understudy(*command, "--private", "occupancy", "--strict").status == 1


@pytest.mark.long(seconds=4, reason="two whole audits from the command line")
@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner's mode there")
def test_files_about_a_release_are_closed_though_they_were_open(files, released, tmp_path, understudy):
    """A file that everybody could read is its owner's alone before anything is written; of other audits it stays."""
    out, save = tmp_path / "a.html", tmp_path / "a.json"
    for each in (out, save):
        each.write_text("old")
        each.chmod(0o644)
    simple = ("audit", files / "design.json", *SMALL, "-o", out, "--save", save)
    assert understudy(*simple).status == 0
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(save.stat().st_mode) == 0o644
    command = ("audit", files / "causal.json", files / "today.csv", "--released", released / "out.csv", *QUICK)
    told = understudy(*command, "-o", out, "--save", save)
    assert told.status == 0, told.err
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(save.stat().st_mode) == 0o600


def test_words_of_the_terminal(simulated, files, understudy, monkeypatch):
    """Nats are lower ends, the best was chosen afterwards, noise is independent; an estimate has no guarantee."""
    folder, out = simulated
    audit = load_audit(folder / "a.json")
    for row in audit.of():
        assert f"{max(0.0, row.nats.low):.3f}" in out
    assert best_of(2) in one_line(out)
    assert DATA["noise"] in one_line(out)
    guessed = replace(audit, estimated=True, bound=None)
    monkeypatch.setattr("understudy.adversaries.audit.audit", lambda *a, **k: guessed)
    told = understudy("audit", files / "design.json")
    assert AUDIT_ESTIMATED in one_line(told.out)


def test_missing_learners_are_told_before_the_work(monkeypatch, capsys):
    from understudy.cli import file_commands

    file_commands.warn_without_learners()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(file_commands, "find_spec", lambda _: None)
    file_commands.warn_without_learners()
    assert "the strongest adversaries will not be tried; pip install 'understudy[sklearn]'" in capsys.readouterr().err
