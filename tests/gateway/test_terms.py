"""What a design asks of readings that come one by one is what `understudy apply` asks of a file."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pipe_driver as driver
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError
from understudy.gateway.formats import FORMATS, Names
from understudy.gateway.pipe import LinePipe, renderer
from understudy.gateway.plant import Plant
from understudy.gateway.terms import UNKNOWN, Preparation, terms_of
from understudy.identify.history import bins_from
from understudy.identify.public_inputs import Offset, clock_names

ABOUT = {"readings": ["co2"], "private": "people", "time": "time", "period": 60.0}
CELLS = {"step": 0.5, "offset": 0.0, "low": None, "high": None}
CLOCK = Offset(tuple(clock_names()), np.array([[3.0, 0.0, -2.0, 1.0]]), np.array([0.5])).to_plain()
GATE = {"passed": False, "warning": "the scores tell"}


def _design(about, values=(0, 1)):
    family = us.Family(lambda v: driver.room(v if isinstance(v, int) else int(v != "0")), values=values, about=about)
    return us.design(family, leakage=0.3, horizon=50, distortion="mae")


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ({}, False),
        ({"grid": [CELLS]}, True),
        ({"public": CLOCK, "zone": "Europe/Stockholm"}, True),
        ({"bins": bins_from("0,1+").to_plain()}, False),
    ],
    ids=["plain", "grid", "clock", "bins"],
)
def test_the_pipe_gives_what_apply_gives(tmp_path, more, changes):
    """A file of two rooms, and the same rows as lines: the same digits, whatever the family remembers."""
    design = _design({**ABOUT, **more}, ("0", "1+") if "bins" in more else (0, 1))
    given = [r._replace(theta=3 * r.theta) if "bins" in more else r for r in _rows()]
    key = us.MasterKey.new()
    rows = [f"{np.datetime64(r.time, 'ns')}Z,{r.room},{r.y!r},{r.theta}" for r in given]
    (tmp_path / "in.csv").write_text("\n".join(["time,room,co2,people", *rows]) + "\n")
    with us.Ledger(tmp_path / "a.db", rollback_guard=False) as ledger:
        apply_file(design, tmp_path / "in.csv", tmp_path / "out.csv", rooms="room", ledger=ledger, key=key, name="x")
    wanted = [line.split(",")[-1] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    preparation = Preparation(design)
    assert preparation.changes == changes
    assert _piped(tmp_path / "b.db", design, preparation, key, given) == wanted
    if changes:  # what is not prepared gives something else
        assert _piped(tmp_path / "c.db", design, Preparation(_design(ABOUT)), key, given) != wanted


def _piped(path, design, preparation, key, given):
    """The digits of the outputs of the same rows as lines."""
    lines = FORMATS["influx"](Names(("co2",), "people", "room"))
    with us.Ledger(path, rollback_guard=False) as ledger:
        plant = Plant(ledger, key, [terms_of(design, "x")], renderer(lines, design, preparation), sort=False)
        pipe = LinePipe(lines, plant, preparation, None, 2)
        left = b"".join(pipe.disguise([r.line]) for r in given).decode().splitlines()
    return [line.split("co2=")[1].split(" ")[0] for line in left]


class _Row(driver.Reading):
    def _replace(self, **changed):
        return _Row(**{name: changed.get(name, getattr(self, name)) for name in ("room", "time", "y", "theta")})


def _rows():
    found = []
    for i, r in enumerate(driver.readings(120, 2)):
        found.append(_Row(r.room, r.time, round(r.y, 5), (i // 2 // 40 + i % 2) % 2))
    return found


def test_terms_come_from_the_design():
    """The period of the family, decisions by its clock; what is typed comes before."""
    assert terms_of(_design(ABOUT), "x").period == dt.timedelta(seconds=60)
    assert terms_of(_design(ABOUT), "x", period="5 min").period == dt.timedelta(seconds=300)
    assert terms_of(_design(ABOUT), "x", paced=False).period is None
    assert terms_of(_design(ABOUT), "x", epoch=dt.timedelta(days=1), total=2.0).total == 2.0


@pytest.mark.parametrize(
    ("about", "word"),
    [
        ({"period": None}, "period"),
        ({"gate": GATE}, "gate"),
        ({"public": {**CLOCK, "columns": ["outside", *clock_names()[1:]]}}, "outside"),
        ({"resampling": {"how": "mean"}}, "mean"),
    ],
)
def test_what_cannot_run_live_is_refused(about, word):
    """With the rule; a gate that was not passed can be accepted by name."""
    design = _design({**ABOUT, **about})
    with pytest.raises(ConfigurationError, match=word):
        terms_of(design, "x")
    if word == "gate":
        assert terms_of(design, "x", accept_misfit=True).name == "x"


def test_private_values_are_found_as_in_a_file():
    """Texts, numbers and truths that say the same are the same; what the design does not have is UNKNOWN."""
    preparation = Preparation(_design({**ABOUT, "bins": bins_from("0,1-2,3+").to_plain()}, ("0", "1-2", "3+")))
    assert [preparation.theta(said) for said in ("0", 0.0, 2, "1-2", 7, True)] == ["0", "0", "1-2", "1-2", "3+", "1-2"]
    assert preparation.theta(None) is None
    assert [preparation.theta(said) for said in (-1, "many", [1], {})] == [UNKNOWN] * 4
