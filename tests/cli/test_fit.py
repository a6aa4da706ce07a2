"""`understudy fit`: files in, a family out, and errors that say where."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from cli_cases import about, family, refused

from understudy.cli import file_commands as fitting
from understudy.cli.options import Columns, TableFormat
from understudy.identify.fit import load_family

COLUMNS = ("--reading", "co2", "--private", "occupancy", "--time", "date")


@pytest.fixture(scope="module")
def fitted(files, tmp_path_factory):
    """The family of the history, by the real thing."""
    from understudy.cli.file_commands import read

    columns = Columns(["co2"], "occupancy", "date", model="grey-box")
    found = fitting.fit_table(read(str(files / "history.csv"), columns), columns)
    path = tmp_path_factory.mktemp("fitted") / "family.json"
    fitting.store(found, path)
    return path


def test_a_history_becomes_a_family_that_knows_its_columns(fitted):
    """Names, period, chain, model and gate are in the file, and the law is near the one that was simulated."""
    found = load_family(fitted)
    assert found.values == (0, 1)
    assert found.about["readings"] == ["co2"]
    assert found.about["private"] == "occupancy"
    assert found.about["time"] == "date"
    assert found.about["period"] == 60.0
    assert found.about["model"]["name"] == "grey-box"
    assert found.about["gate"] is not None
    # the fixed point of the level is 400 and 480; 1,125 readings tell it to a few ppm
    levels = [_rest(found.model(value)) for value in (0, 1)]
    assert levels[0] == pytest.approx(400.0, abs=8.0)
    assert levels[1] == pytest.approx(480.0, abs=8.0)


def _rest(model):
    """Where the predictions of a model go when nothing is seen any more."""
    state = model.start()
    for _ in range(400):
        state = model.skip(state)
    law = model.predict(state)
    return float(law.value([0.0])[0])


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet"])
def test_every_format_gives_the_same_columns(files, tmp_path, kind):
    """Readings as numbers, labels as they stand."""
    from understudy.cli.file_commands import read

    roles = Columns(["co2"], "occupancy", "date")
    plain = read(str(files / "history.csv"), roles)
    path = tmp_path / f"history.{kind}"
    text = (files / "history.csv").read_text()
    if kind == "csv":
        path.write_text(text)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        names, *rows = [line.split(",") for line in text.splitlines()]
        records = [{"date": r[0], "co2": float(r[1]), "light": int(r[2]), "occupancy": int(r[3])} for r in rows]
        assert names == ["date", "co2", "light", "occupancy"]
        if kind == "jsonl":
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        else:
            pa = pytest.importorskip("pyarrow")
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(records), path)
    found = read(str(path), roles)
    assert (found.numbers("co2") == plain.numbers("co2")).all()
    assert found.entries("occupancy").names == plain.entries("occupancy").names
    assert len(found) == 1500


def test_a_file_may_be_written_otherwise(files, tmp_path):
    """Semicolons between the fields, and a name that tells nothing."""
    from understudy.cli.file_commands import read

    path = tmp_path / "history.dat"
    path.write_text((files / "history.csv").read_text().replace(",", ";"))
    found = read(str(path), Columns(["co2"], "occupancy", "date", table=TableFormat("csv", ";")))
    assert (
        found.numbers("co2") == read(str(files / "history.csv"), Columns(["co2"], "occupancy")).numbers("co2")
    ).all()


def test_what_came_out_is_told(files, tmp_path, understudy, monkeypatch):
    """The model, the candidates, the gate and what was done to the data; and what comes next."""
    monkeypatch.setattr(fitting, "fit_table", lambda *_: family())
    told = understudy("fit", files / "history.csv", *COLUMNS, "-o", tmp_path / "f.json")
    assert told.status == 0, told.err
    for words in (
        "grey-box",
        "Gate: passed",
        "3 rows with the time of an earlier one were dropped",
        "Next: understudy",
    ):
        assert words in told.out
    assert told.err == ""
    assert load_family(tmp_path / "f.json").about == about()


def test_a_family_that_fails_its_gate_is_written_with_the_warning(files, tmp_path, understudy, monkeypatch):
    """Status 0, since the file is there; 1 with --strict, for scripts that must not go on."""
    monkeypatch.setattr(fitting, "fit_table", lambda *_: family(passed=False))
    told = understudy("fit", files / "history.csv", *COLUMNS, "-o", tmp_path / "f.json")
    assert told.status == 0
    assert "Gate: LEAK FOUND" in told.out
    assert "warning: The scores of 1 are not normal" in told.err
    strict = understudy("fit", files / "history.csv", *COLUMNS, "-o", tmp_path / "f.json", "--strict", "--json")
    assert strict.status == 1
    assert json.loads(strict.out)["about"]["gate"]["passed"] is False
    assert load_family(tmp_path / "f.json").about["gate"]["passed"] is False


def test_only_what_was_typed_reaches_the_fit(files, tmp_path, understudy, monkeypatch):
    """Options become arguments of `us.fit`; a grid is none, or a step for each channel."""
    import understudy.identify.fit as identifier

    seen = {}

    def fit(frame, **options):
        seen.update(options, columns=sorted(frame.names))
        return family()

    monkeypatch.setattr(identifier, "fit", fit)
    more = ("--period", "15min", "--bins", "0,1+", "--public", "light", "--grid", "none", "--model", "grey-box")
    more += ("--limits", "0:5000")
    told = understudy("fit", files / "history.csv", *COLUMNS, *more, "-o", tmp_path / "f.json")
    assert told.status == 0, told.err
    progress = seen.pop("progress")
    progress(0.5)
    assert seen == {
        "reading": "co2", "private": "occupancy", "time": "date", "period": "15min", "bins": "0,1+",
        "public": ["light"], "grid": None, "model": "grey-box", "limits": [(0.0, 5000.0)],
        "columns": ["co2", "date", "light", "occupancy"],
    }  # fmt: skip


def test_errors_of_a_file_name_file_line_column_and_rule(files, tmp_path, understudy):
    """And never the value that is wrong."""
    lines = (files / "history.csv").read_text().splitlines()
    bad = tmp_path / "bad.csv"

    def with_line(number, text):
        bad.write_text("\n".join([*lines[: number - 1], text, *lines[number:]]) + "\n")
        return understudy("fit", bad, *COLUMNS, "-o", tmp_path / "f.json")

    told = with_line(7, "2026-03-02 08:05:00,secret77,0,0")
    refused(told, "bad.csv, line 7, column 'co2'", "not a number")
    assert "secret77" not in told.err
    refused(with_line(9, "2026-03-02 08:07:00,400.0"), "bad.csv, line 9", "2 fields and the header has 4")
    refused(understudy("fit", tmp_path / "none.csv", *COLUMNS, "-o", tmp_path / "f.json"), "none.csv", "cannot be read")
    missing = understudy(
        "fit", files / "history.csv", "--reading", "co", "--private", "occupancy", "-o", tmp_path / "f"
    )
    refused(missing, "history.csv has no column 'co'", "wanted are 'co', 'occupancy'", "4 fields")
    refused(with_line(5, "yesterday,400.0,0,0"), "bad.csv, line 5, column 'date'", "not a time")
    bad.write_text("date,co2,light,occupancy\n")
    refused(understudy("fit", bad, *COLUMNS, "-o", tmp_path / "f.json"), "bad.csv has no rows")
    refused(understudy("fit", bad, *COLUMNS, "-o", tmp_path / "none" / "f.json"), "--out", "there is no folder")
    assert not (tmp_path / "f.json").exists()


def test_noise_of_any_shape_is_offered_where_it_could_help():
    """Not where it was chosen, or cannot be used."""
    free = {"name": "AR(2), free noise", "usable": True}
    assert fitting.offers_free({"name": "grey-box", "table": [free]})
    assert fitting.offers_free({"name": "grey-box", "table": []})
    assert not fitting.offers_free({"name": "grey-box", "table": [free | {"usable": False}]})
    assert not fitting.offers_free({"name": "AR(2), free noise", "table": [free]})


def test_an_actuator_is_refused_with_the_reason(files, tmp_path, understudy):
    """A damper that reacts to readings carries the private value into the output."""
    text = (files / "history.csv").read_text().replace("light", "damper", 1)
    (tmp_path / "damper.csv").write_text(text)
    told = understudy("fit", tmp_path / "damper.csv", *COLUMNS, "--actuator", "damper", "-o", tmp_path / "f.json")
    refused(told, "'damper' is an actuator", "safe as another reading")


def test_a_wrong_grid_is_refused(files, tmp_path, understudy):
    """A step for each channel, or none."""
    for text in ("1,2", "fine"):
        told = understudy("fit", files / "history.csv", *COLUMNS, "--grid", text, "-o", tmp_path / "f.json")
        refused(told, f"--grid {text}", "a step for each of the 1 readings")


def test_wrong_limits_are_refused(files, tmp_path, understudy):
    """Two ends for each channel, either of which may be left out."""
    for text in ("0:1,2:3", "5000", "a:b"):
        told = understudy("fit", files / "history.csv", *COLUMNS, "--limits", text, "-o", tmp_path / "f.json")
        refused(told, f"--limits {text}", "low:high for each of the 1 readings")


def test_a_missing_option_is_a_matter_of_usage(files, understudy):
    """Status 2, and which."""
    told = understudy("fit", files / "history.csv", "--private", "occupancy", "-o", "f.json")
    assert told.status == 2
    assert "--reading" in told.err


def test_times_as_people_have_them(files, tmp_path, understudy):
    """Two columns, the day first, late by seconds: told once to fit, and known to apply and audit."""
    import csv
    import datetime as dt

    with (files / "history.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    path, out = tmp_path / "history.csv", tmp_path / "out.csv"
    times = [dt.datetime.fromisoformat(row[0]) + dt.timedelta(seconds=k % 3) for k, row in enumerate(rows)]
    with path.open("w", newline="") as file:
        lines = [[f"{t:%d/%m/%Y}", f"{t:%H:%M:%S}", row[1], row[3]] for t, row in zip(times, rows, strict=True)]
        csv.writer(file).writerows([["Date", "Time", "co2", "occupancy"], *lines])
    fit = ("fit", path, *COLUMNS[:-1], "Date,Time", "--model", "grey-box", "-o", tmp_path / "family.json")
    refused(understudy(*fit), "line 2, column 'Date,Time'", "not guessed", "--day-first")
    told = understudy(*fit, "--day-first")
    assert told.status == 0, told.err
    found = load_family(tmp_path / "family.json").about
    assert (found["time"], found["day_first"], found["period"]) == ("Date,Time", True, 60.0)
    demand = ("--leakage", "0.1bit", "--per", "run", "-o", tmp_path / "design.json")
    assert understudy("design", tmp_path / "family.json", *demand).status == 0
    given = ("--private", "occupancy", "--ledger", tmp_path / "ledger", "-o", out, "--accept-misfit")
    told = understudy("apply", tmp_path / "design.json", path, *given)
    assert told.status == 0, told.err
    with out.open(newline="") as file:
        written = list(csv.reader(file))
    assert written[0] == ["Date", "Time", "co2"]
    assert len(written) == len(rows) + 1
    shown = [dt.datetime.strptime(f"{date} {time}", "%d/%m/%Y %H:%M:%S") for date, time, _ in written[1:]]
    assert set(np.diff(shown)) == {dt.timedelta(minutes=1)}  # how late a row was does not leave
    assert max(abs(a - b) for a, b in zip(shown, times, strict=True)) <= dt.timedelta(seconds=2)
    attack = ("--adversaries", "logistic", "--no-rivals", "--seed", "1", "--json")
    told = understudy("audit", tmp_path / "design.json", path, "--released", out, *attack)
    assert told.status == 0, told.err
    assert json.loads(told.out)["audit"]
