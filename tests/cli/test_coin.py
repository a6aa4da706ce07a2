"""`understudy design-coin`, and what the other commands do with such a design: no private column is asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest

import understudy as us


@pytest.fixture
def history(tmp_path):
    """Twenty days at a quarter of an hour, on every other of which somebody is in."""
    rng = np.random.default_rng(1)
    times = np.datetime64("2026-01-05T00:00:00") + np.arange(1920) * np.timedelta64(15, "m")
    inside = np.arange(1920) // 96 % 2
    co2 = 420.0 + 200.0 * inside + rng.normal(0.0, 10.0, 1920)
    rows = [f"{str(t).replace('T', ' ')},{y:.1f},{n}" for t, y, n in zip(times, co2, inside, strict=True)]
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["date,co2,people", *rows]) + "\n")
    return path


@pytest.mark.long(seconds=12, reason="an audit")
def test_from_a_history_to_a_disguised_file(history, tmp_path, understudy):
    """Design, apply twice (the second a replay), report, card and audit."""
    coin, out, ledger = tmp_path / "coin.json", tmp_path / "out.csv", tmp_path / "room.db"
    columns = ("--reading", "co2", "--time", "date", "--period", "15min")
    told = understudy("design-coin", history, *columns, "--q", "0.5", "-o", coin, "--json")
    found = json.loads(told.out)
    assert (found["kind"], found["hidden_share"], found["epoch"]) == ("coin", 0.5, "1 day")
    assert found["distortion"]["value"] > 0.0
    assert us.load_design(coin).family.about["readings"] == ["co2"]
    told = understudy("apply", coin, history, "-o", out, "--ledger", ledger, "--json")
    assert json.loads(told.out)["draws"] in (20, 21)
    lines = out.read_text().splitlines()
    assert lines[0] == "date,co2"
    raw = [line.split(",")[1] for line in history.read_text().splitlines()[1:]]
    same = np.array([line.split(",")[1] == y for line, y in zip(lines[1:], raw, strict=True)])
    assert 0.0 < same.mean() < 1.0  # twenty coins: all alike twice in a million
    assert (np.diff(same.astype(int)) != 0).sum() <= 21
    understudy("apply", coin, history, "-o", tmp_path / "again.csv", "--ledger", ledger)
    assert (tmp_path / "again.csv").read_text() == out.read_text()
    assert understudy("report", coin, "-o", tmp_path / "report.html").status == 0
    assert "shown whole" in (tmp_path / "report.html").read_text()
    assert json.loads(understudy("guarantee", coin, "--json").out)["guaranteed"]
    few = ("--adversaries", "windowed", "--replicates", "1")
    told = understudy("audit", coin, history, "--private", "people", *few, "--json")
    assert told.status == 0
    assert json.loads(told.out)


def test_lifelike_epochs_of_a_family(tmp_path, understudy):
    """Of its likeliest value; columns are those of the family."""
    from understudy.identify.fit import save_family

    family = us.Family(
        {v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=float(v)) for v in (0, 1)},
        prior=[0.3, 0.7],
        about={"readings": ["co2"], "private": "n", "period": 60.0},
    )
    save_family(family, tmp_path / "family.json")
    out = tmp_path / "coin.json"
    told = understudy(
        "design-coin", "--model", tmp_path / "family.json", "--leakage", "25%", "--epoch", "96", "-o", out
    )
    assert told.status == 0
    made = us.load_design(out)
    assert made.hide == "lifelike"
    assert made.q == pytest.approx(0.75)
    assert float(made.model.b[0]) == 1.0


def test_what_is_missing_is_named(history, understudy):
    for arguments, words in (
        ((history, "--q", "0.5"), "--reading"),
        (("--constant", "1"), "q and leakage"),
        (("--constant", "x", "--q", "1"), "--constant x"),
        (("--constant", "1", "--q", "0.5", "--epoch", "x"), "--epoch x"),
    ):
        told = understudy("design-coin", *arguments)
        assert told.status == 1
        assert words in told.err
