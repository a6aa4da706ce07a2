"""`understudy apply`: what leaves, what is refused, and what is said loudly."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cli_cases import WARNING, about, refused

import understudy as us
from understudy.cli.file_commands import with_estimation as estimating

LOUD = "NO THEOREM HOLDS"


def applied(understudy, files, out, *more, design="design.json", source="today.csv"):
    return understudy("apply", files / design, files / source, "-o", out, *more)


def table(path):
    return [line.split(",") for line in path.read_text().splitlines()]


@pytest.mark.sample(default=1, seconds=1, reason="many commands")
@pytest.mark.parametrize("design", ["design.json", "causal.json"])
def test_only_time_and_readings_leave(files, tmp_path, understudy, design):
    """Every row, in order, with its time; the label and the light, which tells it, stay."""
    out = tmp_path / "out.csv"
    told = applied(understudy, files, out, "--private", "occupancy", "--ledger", tmp_path / "l.db", design=design)
    assert told.status == 0, told.err
    before, after = table(files / "today.csv"), table(out)
    assert after[0] == ["date", "co2"]
    assert [row[0] for row in after] == [row[0] for row in before]
    assert "300 rows disguised" in told.out
    mark = json.loads((tmp_path / "out.csv.meta.json").read_text())
    assert mark["disguised"] is True
    assert mark["design"] == us.load_design(files / design).fingerprint


def test_the_same_again_with_the_same_ledger_is_the_same_file(files, tmp_path, understudy):
    """Nothing is drawn or charged a second time; another ledger is another draw."""
    outs = [tmp_path / f"{k}.csv" for k in range(2)]
    for out in outs:
        more = ("--private", "occupancy", "--ledger", tmp_path / "l.db", "--json")
        told = applied(understudy, files, out, *more, design="causal.json")
        found = json.loads(told.out)
        assert found["rows"] == 300
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert (found["draws"], found["nats"], found["replayed"]) == (0, 0.0, 300)


def test_without_the_private_column_nothing_is_done(files, tmp_path, understudy):
    """The refusal names the column that the design knows, and what the other way costs."""
    told = applied(understudy, files, tmp_path / "out.csv", "--ledger", tmp_path / "l.db")
    refused(told, "no --private", "'occupancy'", "--estimate-private", "nothing is guaranteed")
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "l.db").exists()


def test_a_misfit_is_refused_unless_it_is_accepted(files, tmp_path, understudy):
    """In the words of the gate; accepted, the warning goes with it."""
    out, more = tmp_path / "out.csv", ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    told = applied(understudy, files, out, *more, design="bad.json")
    refused(told, WARNING, "--accept-misfit", "Nothing was written")
    assert not out.exists()
    told = applied(understudy, files, out, *more, "--accept-misfit", "--json", design="bad.json")
    assert told.status == 0, told.err
    assert WARNING in told.err
    assert WARNING in json.loads(told.out)["warnings"]
    assert out.exists()


def test_an_estimated_value_is_said_loudly_everywhere(files, tmp_path, understudy):
    """On the error stream, in JSON and in the mark of the file; and one draw a run cannot follow an estimate."""
    out = tmp_path / "out.csv"
    more = ("--estimate-private", "--ledger", tmp_path / "l.db", "--json")
    told = applied(understudy, files, out, *more, design="causal.json")
    assert told.status == 0, told.err
    assert LOUD in told.err
    found = json.loads(told.out)
    assert LOUD in found["warnings"][0]
    assert "none" in found["mark"]["guarantee"]
    assert "none" in json.loads((tmp_path / "out.csv.meta.json").read_text())["guarantee"]
    refused(applied(understudy, files, out, "--estimate-private"), "--estimate-private", "--per day")
    both = applied(understudy, files, out, "--estimate-private", "--private", "occupancy", design="causal.json")
    refused(both, "known or estimated")


def test_an_estimating_design_is_the_same_but_for_its_guarantee(files):
    """The same randomizer, another fingerprint."""
    design = us.load_design(files / "causal.json")
    other = estimating(design)
    assert other.estimated
    assert not design.estimated
    assert other.rate == design.rate
    assert other.fingerprint != design.fingerprint


def test_without_a_ledger_it_is_said_what_that_means(files, tmp_path, understudy):
    """Each run draws again."""
    told = applied(understudy, files, tmp_path / "out.csv", "--private", "occupancy")
    assert told.status == 0
    assert "draws again" in told.err


def test_a_kept_column_leaves_and_is_warned_of(files, tmp_path, understudy):
    """The private one never does."""
    out, more = tmp_path / "out.csv", ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    told = applied(understudy, files, out, *more, "--keep", "light")
    assert told.status == 0
    assert table(out)[0] == ["date", "co2", "light"]
    assert "may give the private parameter away" in told.err
    refused(applied(understudy, files, out, *more, "--keep", "occupancy"), "never leaves")


def test_a_bad_row_stops_with_its_line_or_is_skipped(files, tmp_path, understudy):
    """File, line, column and rule, never what stood there; skipped rows are counted and listed."""
    lines = (files / "today.csv").read_text().splitlines()
    lines[10] = lines[10].replace(lines[10].split(",")[1], "secret77")
    lines[20] = "," + lines[20].split(",", 1)[1]
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines) + "\n")
    more = ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    told = understudy("apply", files / "design.json", bad, "-o", tmp_path / "out.csv", *more)
    refused(told, "bad.csv, line 11, column 'co2'", "not a number")
    assert "secret77" not in told.err
    assert not (tmp_path / "out.csv").exists()
    more = ("--private", "occupancy", "--ledger", tmp_path / "other.db", "--on-error", "skip", "--json")
    told = understudy("apply", files / "design.json", bad, "-o", tmp_path / "out.csv", *more)
    found = json.loads(told.out)
    assert found["skipped"] == 2
    assert [row["line"] for row in found["bad_rows"]] == [11, 21]
    assert len(table(tmp_path / "out.csv")) == 301
    assert "secret77" not in told.out + told.err
    refused(applied(understudy, files, tmp_path / "x.csv", *more[:2], "--on-error", "guess"), "stop or skip")


@pytest.mark.long(seconds=3, reason="a design of a slow model")
def test_a_gap_that_models_cannot_cross_names_the_file(files, tmp_path, understudy):
    """Members that need one reading and two after a gap cannot withhold the same; the error names the file."""
    import scipy.stats

    noise = us.Scalar(scipy.stats.laplace())
    lags = {0: [0.5], 1: [0.4, 0.1]}
    models = {v: us.AutoRegressive(lags[v], 200.0, noise, past=[400.0] * len(lags[v])) for v in lags}
    family = us.Family(models, about=about(grid=None))
    us.design(family, leakage=0.1, horizon=5, distortion="mae").save(tmp_path / "d.json")
    lines = (files / "today.csv").read_text().splitlines()
    lines[10] = lines[10].replace(lines[10].split(",")[1], "")
    (tmp_path / "gap.csv").write_text("\n".join(lines) + "\n")
    more = ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    told = understudy("apply", tmp_path / "d.json", tmp_path / "gap.csv", "-o", tmp_path / "o.csv", *more)
    refused(told, "gap.csv", "missing")


def test_another_design_needs_another_stream(files, tmp_path, understudy):
    """The refusal says what to do, and doing it works."""
    more = ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    assert applied(understudy, files, tmp_path / "a.csv", *more).status == 0
    told = applied(understudy, files, tmp_path / "b.csv", *more, design="causal.json")
    refused(told, "begun with another design", "--name")
    assert applied(understudy, files, tmp_path / "b.csv", *more, "--name", "co2", design="causal.json").status == 0


def test_standard_input_and_output(files):
    """The readings alone go to the standard output; what is said goes to the other stream."""
    with (files / "today.csv").open("rb") as file:
        arguments = ["apply", str(files / "design.json"), "-", "-o", "-", "--private", "occupancy"]
        command = [sys.executable, "-m", "understudy", *arguments]
        told = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == "date,co2"
    assert len(lines) == 301
    assert "300 rows disguised" in told.stderr


def test_json_and_readings_cannot_both_go_to_the_standard_output(files, understudy):
    """One must be a file."""
    told = understudy("apply", files / "design.json", "x.csv", "-o", "-", "--private", "occupancy", "--json")
    refused(told, "--json and -o -")


def test_an_epoch_draws_again_by_the_clock(files, tmp_path, understudy):
    """Five hours of readings, an epoch an hour: five draws, each charged."""
    more = ("--private", "occupancy", "--ledger", tmp_path / "l.db", "--json")
    found = json.loads(applied(understudy, files, tmp_path / "a.csv", *more, "--epoch", "1h").out)
    assert found["draws"] == 5
    assert found["nats"] > 0.1
    told = applied(understudy, files, tmp_path / "a.csv", *more, "--epoch", "often")
    refused(told, "--epoch often", "1d, 15min or 96")


def test_what_cannot_be_read_or_written_is_refused(files, tmp_path, understudy):
    """In one line."""
    more = ("--private", "occupancy", "--ledger", tmp_path / "l.db")
    refused(understudy("apply", tmp_path / "d.json", files / "today.csv", "-o", tmp_path / "o.csv", *more), "d.json")
    refused(understudy("apply", files / "design.json", tmp_path / "no.csv", "-o", tmp_path / "o.csv", *more), "no.csv")
    refused(applied(understudy, files, tmp_path / "none" / "o.csv", *more), "there is no folder")
    told = applied(understudy, files, tmp_path / "o.csv", "--private", "people", *more[2:])
    refused(told, "today.csv", "'people'")
