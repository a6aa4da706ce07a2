"""`understudy apply --period` and `--decimals`: what the design does not know is asked for, not guessed from rows."""

from __future__ import annotations

import json

import pytest
from cli_cases import about, refused, room

import understudy as us

PRIVATE = ("--private", "occupancy")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """A design whose family knows its columns, and not how far apart the rows are."""
    path = tmp_path_factory.mktemp("unknown") / "design.json"
    family = us.Family({v: room(v) for v in (0, 1)}, prior=[0.6, 0.4], about=about(per="run", period=None))
    us.design(family, leakage=0.1, horizon=50, distortion="mae").save(path)
    return path


def readings(path):
    """The texts of the readings."""
    return [line.split(",")[1] for line in path.read_text().splitlines()[1:]]


def test_times_without_a_period_are_refused_and_the_option_is_named(unknown, files, tmp_path, understudy):
    """Nothing is read, drawn or written."""
    more = (*PRIVATE, "--ledger", tmp_path / "l.db")
    told = understudy("apply", unknown, files / "today.csv", "-o", tmp_path / "out.csv", *more)
    refused(told, "period is missing", "--period", "'date'")
    assert not list(tmp_path.iterdir())


def test_the_period_fills_gaps(unknown, files, tmp_path, understudy):
    """Rows that the clock misses are missing readings; a period that cannot be one is refused."""
    lines = (files / "today.csv").read_text().splitlines(keepends=True)
    source = tmp_path / "gaps.csv"
    source.write_text("".join(lines[:50] + lines[60:200] + lines[201:]))
    ledger = ("--ledger", tmp_path / "l.db")
    told = understudy(
        "apply", unknown, source, "-o", tmp_path / "out.csv", *PRIVATE, *ledger, "--period", "1min", "--json"
    )
    assert told.status == 0, told.err
    found = json.loads(told.out)
    assert (found["rows"], found["filled"]) == (289, 11)
    for wrong in ("soon", "-5s", "0"):
        told = understudy("apply", unknown, source, "-o", tmp_path / "x.csv", *PRIVATE, "--period", wrong)
        assert told.status in (1, 2)
        assert "Traceback" not in told.err
        assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("decimals", [0, 2, 7])
def test_decimals_are_those_that_are_given(files, tmp_path, understudy, decimals):
    """Each output has as many, zeros at the end included; the default is what the lattice of the design needs."""
    more = (*PRIVATE, "--ledger", tmp_path / "l.db")
    assert understudy("apply", files / "design.json", files / "today.csv", "-o", tmp_path / "a.csv", *more).status == 0
    told = understudy(
        "apply", files / "design.json", files / "today.csv", "-o", tmp_path / "b.csv", *more, "--decimals", decimals
    )
    assert told.status == 0, told.err
    plain, given = readings(tmp_path / "a.csv"), readings(tmp_path / "b.csv")
    assert {len(text.partition(".")[2]) for text in plain} == {3}
    assert {len(text.partition(".")[2]) for text in given} == {decimals}
    apart = [abs(float(a) - float(b)) for a, b in zip(plain, given, strict=True)]
    assert max(apart) <= 0.5 * 10.0**-decimals + 0.0005


@pytest.mark.parametrize("decimals", ["-1", "16", "two"])
def test_decimals_that_are_none_are_refused(files, tmp_path, understudy, decimals):
    """Before anything is read or written."""
    told = understudy(
        "apply", files / "design.json", files / "today.csv", "-o", tmp_path / "out.csv", *PRIVATE, "--decimals",
        decimals,
    )  # fmt: skip
    assert told.status in (1, 2)
    assert "decimals" in told.err
    assert "Traceback" not in told.err
    assert not list(tmp_path.iterdir())
