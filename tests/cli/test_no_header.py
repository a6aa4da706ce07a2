"""A file without a header: its first readings and private values are no names, and no error shows them."""

import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us

SECRETS = ("2026-03-01T00:00:00Z", "77123.456789", "occupied-by-nine")
DATA = ("--reading", "co2", "--private", "occupancy", "--time", "date")


def rows(count=40):
    return [SECRETS, *((f"2026-03-01T00:{k:02d}:00Z", str(400.0 + k), "0") for k in range(1, count))]


def headerless(folder, kind):
    """The rows in a file of some format; where a format must have names, the first row stands in their place."""
    path = folder / f"bare.{kind}"
    text = "".join(",".join(row) + "\n" for row in rows())
    if kind == "csv":
        path.write_text(text)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif kind == "tsv":
        path.write_text(text.replace(",", ";"))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(SECRETS, row, strict=True))) + "\n" for row in rows()))
    else:
        columns = [pa.array([row[k] for row in rows()]) for k in range(3)]
        pq.write_table(pa.table(columns, names=list(SECRETS)), path)
    return path


def shown(told):
    return [secret for secret in SECRETS if secret in told.out + told.err]


COMMANDS = {
    "fit": ("fit", 0, *DATA, "-o", "family-of-none.json"),
    "quickstart": ("quickstart", 0, *DATA, "-o", 1),
    "quickstart --on": ("quickstart", "history.csv", "--on", 0, *DATA, "-o", 1, "--accept-misfit", "--no-audit"),
    "apply": ("apply", "design.json", 0, "--private", "occupancy", "-o", 2),
    "apply a bare file": ("apply", "design.json", 0, "--private", "9", "--time", "", "--reading", "7", "-o", 2),
    "audit": ("audit", "design.json", 0, "--n", "100"),
    "audit --on --train": ("audit", "design.json", "--on", "today.csv", "--train", 0),
    "audit --released": ("audit", "design.json", "--on", "today.csv", "--released", 0),
}


# the fit before `--on` takes some seconds, and that file is read as `apply` reads it
CASES = [
    (command, kind)
    for command in COMMANDS
    for kind in ("csv", "csv.gz", "tsv", "jsonl", "parquet")
    if kind == "csv" or command != "quickstart --on"
]


@pytest.mark.sample(default=10, seconds=5, reason="36 commands")
@pytest.mark.parametrize(("command", "kind"), CASES)
def test_no_field_of_the_first_line_is_shown(files, tmp_path, understudy, monkeypatch, command, kind):
    """Every command that reads a file names what it wants and how many fields there are."""
    monkeypatch.chdir(files)
    source = headerless(tmp_path, kind)
    places = source, tmp_path / "results", tmp_path / "out.csv"
    told = understudy(*(places[part] if isinstance(part, int) else part for part in COMMANDS[command]))
    assert told.status == 1
    assert not shown(told)
    assert "has no column" in told.err
    assert "3 fields" in told.err


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_no_name_of_a_frame_is_shown(make):
    """The same of a dataframe that was read without a header."""
    columns = {secret: np.arange(3.0) for secret in SECRETS}
    with pytest.raises(us.errors.ConfigurationError, match="among the 3 of the frame") as caught:
        us.fit(make(columns), reading="co2", private="occupancy", time="date")
    assert not [secret for secret in SECRETS if secret in str(caught.value)]


@pytest.mark.parametrize("command", ["fit", "apply", "audit"])
def test_a_name_that_comes_twice_is_shown_only_if_it_was_asked_for(files, tmp_path, understudy, command):
    """Two fields of the first line may be the same reading."""
    asked, other = tmp_path / "asked.csv", tmp_path / "other.csv"
    today = (files / "today.csv").read_text().splitlines()
    head = today[0].split(",")
    twice = head.index("co2")
    asked.write_text("".join(f"{line},{line.split(',')[twice]}\n" for line in today))
    other.write_text("77123.456789,77123.456789\n" + "1,2\n" * 30)
    for path in (asked, other):
        arguments = {
            "fit": ("fit", path, *DATA, "-o", tmp_path / "family.json"),
            "apply": ("apply", files / "design.json", path, "--private", "occupancy", "-o", tmp_path / "out.csv"),
            "audit": ("audit", files / "design.json", path, "--n", "100"),
        }[command]
        told = understudy(*arguments)
        assert told.status == 1
        assert not shown(told)
        assert ("'co2' twice" in told.err) == (path == asked)


def test_two_columns_of_one_name_in_a_frame():
    """A pandas frame allows it; the name is not shown, since it may be a reading."""
    frame = pd.DataFrame([[1.0, 2.0]] * 3, columns=["77123.456789"] * 2)
    with pytest.raises(us.errors.ConfigurationError, match="two columns of one name") as caught:
        us.fit(frame, reading="co2", private="occupancy")
    assert "77123" not in str(caught.value)
