"""`understudy design --clock`: a design by the public clock, applied and reported."""

from __future__ import annotations

import json

import pytest

import understudy as us


@pytest.mark.long(seconds=6, reason="a fit, a design, a file and a page from the command line")
def test_a_design_by_the_clock(tmp_path, understudy):
    """From a family that says what the hours tell; the routine is published, and the page says so."""
    from understudy.identify.fit import save_family

    hours = [[0.95, 0.05]] * 8 + [[0.1, 0.9]] * 10 + [[0.95, 0.05]] * 6
    chain = {"values": [0, 1], "period": 900.0, "transition": [[0.95, 0.05], [0.1, 0.9]], "by_hour": hours}
    about = {"period": 900.0, "readings": ["co2"], "private": "people", "time": "date", "chain": chain}
    models = {v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=2.0 * v) for v in (0, 1)}
    save_family(us.Family(models, prior=[0.6, 0.4], about=about), tmp_path / "family.json")
    out = tmp_path / "clock.json"
    told = understudy("design", tmp_path / "family.json", "--clock", "--leakage", "0", "-o", out, "--json")
    found = json.loads(told.out)
    assert (found["kind"], found["clock"]) == ("causal", True)
    assert found["leakage"]["nats_a_day"] == 0.0
    assert us.load_design(out).clock == (900, 0, None)
    assert understudy("report", out, "-o", tmp_path / "report.html").status == 0
    assert "published" in (tmp_path / "report.html").read_text()
    rows = [f"2026-03-02 {k // 4:02d}:{15 * (k % 4):02d}:00,{0.1 * k:.6f}371,0" for k in range(96)]
    (tmp_path / "today.csv").write_text("\n".join(["date,co2,people", *rows]) + "\n")
    options = ("--private", "people", "--ledger", tmp_path / "room.db", "--accept-misfit")
    assert understudy("apply", out, tmp_path / "today.csv", "-o", tmp_path / "out.csv", *options).status == 0
    readings = [float(line.split(",")[1]) for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert len(readings) == 96
    assert min(readings[50:70]) > max(readings[10:30])  # somebody is played to be in by day alone
    assert understudy("design", tmp_path / "family.json", "--clock", "--per", "run", "--leakage", "0").status == 1
