"""`understudy design family.json`: every demand, what the leakage is per, and what does not go together."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from cli_cases import STAY, WARNING, family, refused

import understudy as us
from understudy.adversaries.tuning import Outcome
from understudy.identify.fit import save_family


def test_a_design_keeps_what_the_family_knows(files, tmp_path, understudy):
    """Columns, period and what the leakage is per are in the file, which is the design that Python makes."""
    told = understudy("design", files / "family.json", "--per", "run", "--leakage", "0.1bit", "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    found = us.load_design(tmp_path / "d.json")
    assert found.family.about["per"] == "run"
    assert found.family.about["readings"] == ["co2"]
    assert found.family.about["period"] == 60.0
    same = us.design(family(per="run"), leakage="0.1 bit", distortion="mae")
    assert (found.randomizer.kernel == same.randomizer.kernel).all()
    assert found.leakage <= 0.1 * math.log(2.0)
    assert "hides occupancy in co2" in told.out
    assert "at least" in told.out


def test_each_kind_of_demand_is_met(files, understudy):
    """An error, a distortion with its unit, and JSON for each."""
    error = json.loads(understudy("design", files / "family.json", "--error-at-least", "0.35", "--json").out)
    assert error["wrong_guesses"]["at_least"] == pytest.approx(0.35, abs=1e-9)
    size = json.loads(understudy("design", files / "family.json", "--distortion-at-most", "15 ppm", "--json").out)
    assert size["distortion"]["value"] <= 15.0
    assert size["distortion"]["unit"] == "ppm"
    assert np.allclose(np.sum(size["kernel"], axis=1), 1.0)
    some = json.loads(understudy("design", files / "family.json", "--leakage", "0", "--pseudo", "1", "--json").out)
    assert some["pseudo"] == [1]
    assert some["leakage"]["nats_a_day"] == 0.0


def test_a_stored_family_may_have_pseudo_values_of_its_own(tmp_path, understudy):
    """Its models of values that the parameter never takes make the design that Python makes; others are refused."""
    room = us.Family(lambda v: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * v, mean0=100.0, cov0=1.0), values=[0, 1])
    save_family(room, tmp_path / "family.json", pseudo=[0.2, 0.6])
    asked = ("design", tmp_path / "family.json", "--per", "run", "--leakage", "0.3", "--horizon", "50")
    told = understudy(*asked, "--pseudo", "0,0.2,0.6,1", "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    same = us.design(room, [0, 0.2, 0.6, 1], leakage=0.3, horizon=50, distortion="mae")
    found = us.load_design(tmp_path / "d.json")
    assert found.pseudo == (0, 0.2, 0.6, 1)
    assert (found.randomizer.kernel == same.randomizer.kernel).all()
    refused(understudy(*asked, "--pseudo", "0,0.4,1"), "no model for '0.4'")


@pytest.mark.parametrize("per", ["run", "day"])
def test_a_fresh_share(files, tmp_path, understudy, per):
    """It is that of the stored design, and said with its theorem; what is no share is refused by its option."""
    options = ("--per", per, "--leakage", "0.1bit", "--fresh", "0.6")
    told = understudy("design", files / "family.json", *options, "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    assert us.load_design(tmp_path / "d.json").fresh == 0.6
    assert "0.64 times" in " ".join(told.out.split())
    assert json.loads(understudy("design", files / "family.json", *options, "--json").out)["fresh"] == 0.6
    refused(understudy("design", files / "family.json", *options[:-1], "1.5"), "--fresh 1.5")


@pytest.mark.parametrize("per", ["run", "day"])
def test_an_output_of_least_change(files, tmp_path, understudy, per):
    """Fitted to a file of labelled readings, stored, said on the card, and used to disguise a file."""
    options = ("--per", per, "--leakage", "0.1bit", "--output", "least-change", "--history", files / "history.csv")
    told = understudy("design", files / "family.json", *options, "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    assert us.load_design(tmp_path / "d.json").output == "least-change"
    assert "Least change" in " ".join(told.out.split())
    assert json.loads(understudy("design", files / "family.json", *options, "--json").out)["output"] == "least-change"
    out = tmp_path / "out.csv"
    given = ("--private", "occupancy", "--ledger", tmp_path / "ledger", "-o", out)
    applied = understudy("apply", tmp_path / "d.json", files / "today.csv", *given)
    assert applied.status == 0, applied.err
    assert len(out.read_text().splitlines()) == len((files / "today.csv").read_text().splitlines())
    refused(understudy("design", files / "family.json", *options[:-2]), "--history")
    refused(understudy("design", files / "family.json", *options[:-3], "pretty"), "--output 'pretty'")


def test_a_leakage_per_day_is_shared_among_its_decisions(files, tmp_path, understudy):
    """A bit a day, 96 decisions: the rate is a 96th of it, and the transitions are those of 15 readings."""
    told = understudy("design", files / "family.json", "--per", "day", "--leakage", "1bit", "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    found = us.load_design(tmp_path / "d.json")
    assert isinstance(found, us.CausalDesign)
    assert found.family.about["per"] == "day"
    assert found.decision_every == 15
    assert found.rate == pytest.approx(math.log(2.0) / 96, rel=1e-6)
    assert np.allclose(found.beliefs.transitions[0], np.linalg.matrix_power(np.array(STAY), 15))
    assert "every 15 readings (15 min)" in " ".join(told.out.split())
    assert "1 bit (0.6932 nats) a day" in " ".join(told.out.split())


@pytest.mark.sample(default=2, seconds=1, reason="many commands")
@pytest.mark.parametrize(
    "options", [("--per", "decision", "--leakage", "0.01"), ("--rate", "0.01"), ("--causal", "--rate", "0.01")]
)
def test_a_rate_is_that_of_a_decision(files, understudy, options):
    """By any of its names."""
    told = understudy("design", files / "family.json", *options, "--decision-every", "30min", "--json")
    found = json.loads(told.out)
    assert found["per"] == "decision"
    assert found["leakage"]["nats_a_decision"] == pytest.approx(0.01, rel=1e-6)
    assert found["leakage"]["decision_every_readings"] == 30
    assert found["leakage"]["nats_a_day"] == pytest.approx(0.48, rel=1e-6)


@pytest.mark.sample(default=2, seconds=1, reason="many commands")
@pytest.mark.parametrize(("time", "count"), [("90s", 2), ("80s", 1), ("10s", 1), ("14.6min", 15), ("15min", 15)])
def test_a_decision_comes_at_the_nearest_reading(files, understudy, time, count):
    """At least one; of two that are as near the later. A note says which, where the period does not go into it."""
    told = understudy("design", files / "family.json", "--rate", "0.01", "--decision-every", time, "--json")
    found = json.loads(told.out)
    assert found["leakage"]["decision_every_readings"] == count
    notes = [note for note in found["remarks"] if note.startswith(f"--decision-every {time}")]
    exact = time == "15min"
    assert len(notes) == (0 if exact else 1)
    assert exact or f"{count} reading" in notes[0]


def test_a_moving_parameter_is_pointed_out(files, tmp_path, understudy):
    """Draws follow it, by the clock where that is known; one draw is told to stay; nothing where it stayed."""
    told = json.loads(understudy("design", files / "family.json", "--leakage", "0.1", "--json").out)
    assert (told["per"], "--per run for one draw" in told["remarks"][0]) == ("day", True)
    save_family(family(period=None), tmp_path / "rows.json")
    assert (
        json.loads(understudy("design", tmp_path / "rows.json", "--leakage", "0.1", "--json").out)["per"] == "decision"
    )
    told = understudy("design", files / "family.json", "--leakage", "40%").out
    assert "played throughout" in " ".join(told.split())
    still = family(chain={"transition": [[1.0, 0.0], [0.0, 1.0]], "prior": [0.6, 0.4], "transitions": 1000})
    save_family(still, tmp_path / "still.json")
    told = json.loads(understudy("design", tmp_path / "still.json", "--leakage", "0.1", "--json").out)
    assert (told["per"], told["remarks"]) == ("run", [])


def test_a_family_that_does_not_fit_warns_in_its_design_too(files, tmp_path, understudy):
    """On the error stream and in JSON, and the file carries it on."""
    told = understudy("design", files / "misfit.json", "--leakage", "0.1", "-o", tmp_path / "d.json", "--json")
    assert told.status == 0
    assert WARNING in told.err
    assert json.loads(told.out)["warnings"] == [WARNING]
    assert us.load_design(tmp_path / "d.json").family.about["gate"]["warning"] == WARNING


@pytest.mark.long(seconds=4, reason="two designs with simulated distortion")
def test_models_without_a_formula_get_a_horizon(tmp_path, understudy):
    """Their distortion is simulated over so many readings, which is said; --horizon says of how many."""
    models = {v: us.AutoRegressive([0.5], intercept=float(v), noise=_heavy(1.0 + v)) for v in (0, 1)}
    save_family(us.Family(models, about={"readings": ["co2"], "private": "n"}), tmp_path / "f.json")
    told = understudy("design", tmp_path / "f.json", "--leakage", "0.1", "--json")
    assert json.loads(told.out)["distortion"]["horizon"] == 480
    assert "--horizon" in json.loads(told.out)["remarks"][0]
    told = understudy("design", tmp_path / "f.json", "--leakage", "0.1", "--json", "--horizon", "7")
    assert json.loads(told.out)["distortion"]["horizon"] == 7


def _heavy(scale):
    import scipy.stats

    return us.Scalar(scipy.stats.t(5, scale=scale))


def test_what_does_not_go_together_is_refused(files, tmp_path, understudy):
    """With the option and the reason; nothing is written."""
    plain = family(chain=None, period=None)
    save_family(plain, tmp_path / "plain.json")
    out = tmp_path / "d.json"
    for arguments, words in (
        ((files / "family.json",), ("no demand given", "--leakage")),
        ((files / "family.json", "--leakage", "1", "--error-at-least", ".3"), ("--leakage and --error-at-least",)),
        ((files / "family.json", "--leakage", "1", "--per", "week"), ("--per week", "run, day, decision")),
        ((files / "family.json", "--leakage", "1", "--per", "run", "--causal"), ("--per run", "--causal")),
        ((files / "family.json", "--error-at-least", ".3", "--per", "day"), ("--error-at-least goes with --per run",)),
        ((files / "family.json", "--per", "decision"), ("--leakage and --rate: missing",)),
        ((files / "family.json", "--per", "day", "--leakage", "40%"), ("nats or bits a day",)),
        ((files / "family.json", "--rate", "1", "--decision-every", "0"), ("at least one reading",)),
        ((files / "family.json", "--rate", "1", "--decision-every", "soon"), ("15 or 15min",)),
        ((files / "family.json", "--distortion-at-most", "25 degC"), ("in ppm, not in degC",)),
        ((files / "family.json", "--distortion-at-most", "much"), ("a number is wanted",)),
        ((files / "family.json", "--distortion-at-most", "5%"), ("unit of the readings",)),
        ((files / "family.json", "--leakage", "1", "--pseudo", "0,7"), ("no model for '7'", "it has 0, 1")),
        ((files / "family.json", "--leakage", "1", "--values", "0,1"), ("--values", "paper's room")),
        ((files / "family.json", "--leakage", "1", "--prior", ".5,.5"), ("--prior", "paper's room")),
        ((tmp_path / "plain.json", "--leakage", "1", "--per", "day"), ("how the parameter moves",)),
        ((tmp_path / "none.json", "--leakage", "1"), ("does not exist",)),
        ((files / "design.json", "--leakage", "1"), ("understudy family was expected",)),
        (("--per", "day"), ("--per day", "give its file")),
        (("--causal",), ("--causal: it is for a family",)),
    ):
        refused(understudy("design", *arguments, "-o", out), *words)
    assert not out.exists()


def test_a_unit_that_nobody_knows_is_taken_and_said(tmp_path, understudy):
    """A family without units cannot check it."""
    save_family(family(units=None), tmp_path / "f.json")
    told = understudy("design", tmp_path / "f.json", "--distortion-at-most", "15ppm")
    assert "ppm is taken for the unit of the readings" in told.out


def test_a_picture_of_a_family(files, tmp_path, understudy):
    """The trade-off with the design on it; a causal design is drawn in its report."""
    path = tmp_path / "curve.svg"
    told = understudy("design", files / "family.json", "--per", "run", "--leakage", "0.1", "--plot", path)
    assert told.status == 0, told.err
    assert path.read_text().startswith("<?xml")
    refused(understudy("design", files / "family.json", "--rate", "0.01", "--plot", path), "understudy report")


def test_tuning_by_measurement_is_asked_for_by_name(files, tmp_path, understudy, monkeypatch):
    """The history is read as that of the family, and the design of the search is stored; demands do not go with it."""
    seen = {}

    def tune(table, *, family, at_most, over, progress):
        seen.update(columns=set(table.names), at_most=at_most, over=over)
        made = us.design_causal(family, STAY, slope=0.0, distortion="mae", horizon=20)
        return us.Tuning(Outcome.FOUND, at_most, "chance", 0.95, 8, ("logistic",), (), None, made, None, ())

    monkeypatch.setattr(us, "tune", tune, raising=False)
    path, history = files / "family.json", files / "history.csv"
    told = understudy("design", path, "--measured-at-most", "0.65", "--history", history, "-o", tmp_path / "d.json")
    assert told.status == 0, told.err
    assert seen == {"columns": {"date", "co2", "occupancy"}, "at_most": 0.65, "over": "chance"}
    clock = ("--measured-at-most", "0.1", "--over", "clock", "--history", history, "-o", tmp_path / "d.json")
    assert understudy("design", path, *clock).status == 0
    assert (seen["at_most"], seen["over"]) == (0.1, "clock")
    refused(understudy("design", path, "--leakage", "0.1bit", "--over", "clock"), "is for --measured-at-most")
    assert us.load_design(tmp_path / "d.json").rate == 0.0
    refused(understudy("design", path, "--measured-at-most", "0.65"), "--history FILE")
    both = ("--measured-at-most", "0.65", "--history", history, "--leakage", "0.1bit")
    refused(understudy("design", path, *both), "stands alone")
