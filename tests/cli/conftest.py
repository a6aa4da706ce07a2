"""The command line in this process, and a folder with a labelled history, families and designs."""

from __future__ import annotations

import sys

import pytest
from cli_cases import STAY, Told, family, write_rows

import understudy as us
from understudy.identify.fit import save_family


@pytest.fixture
def understudy(monkeypatch, capsys):
    """The command line in this process, as `main` runs it; wide enough that nothing is cut."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        from understudy.cli import main

        monkeypatch.setattr(sys, "argv", ["understudy", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        found = capsys.readouterr()
        return Told(int(left.value.code or 0), found.out, found.err)

    return call


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with history.csv, today.csv, family.json, misfit.json, and a design of each kind."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "history.csv", 1500, seed=1)
    write_rows(folder / "today.csv", 300, seed=2)
    save_family(family(), folder / "family.json")
    save_family(family(passed=False), folder / "misfit.json")
    demand = {"horizon": 50, "distortion": "mae"}
    us.design(family(per="run"), leakage=0.1, **demand).save(folder / "design.json")
    us.design(family(passed=False, per="run"), leakage=0.1, **demand).save(folder / "bad.json")
    made = us.design_causal(family(per="day"), STAY, rate=0.01, decision_every=15, distortion="mae")
    made.save(folder / "causal.json")
    return folder
