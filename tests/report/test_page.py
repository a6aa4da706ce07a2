"""The report of a design: sound HTML that loads nothing, says what the design says, and warns where it must."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_cases import STAY, WARNING, about, family
from page_cases import parsed, words

import understudy as us
from understudy import text
from understudy._html import page_text
from understudy.report.facts import facts, fits, frontier_of, misfit, refused, tradeoff, warnings
from understudy.report.pages import privacy_report
from understudy.report.svg import Curves, curve, heat_map, ticks


@pytest.fixture(scope="module")
def designs():
    """Of every kind: fitted and fit, fitted and misfit, causal, from models alone, from bare costs."""
    fitted = us.design(family(per="run"), leakage=0.1, horizon=50, distortion="mae")
    return {
        "fitted": fitted,
        "misfit": us.design(family(passed=False, per="run"), leakage=0.1, horizon=50, distortion="mse"),
        "causal": us.design_causal(family(per="day"), STAY, rate=0.01, decision_every=15, distortion="mae"),
        "models": us.design(us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), [0, 1, 2]), leakage=0.2, distortion="mae"),
        "bare": us.solve(1.0 - np.eye(3), leakage=0.3),
        "forbidden": us.solve([[0, 1, np.inf], [np.inf, 1, 0]], leakage=0.2),
    }


@pytest.mark.sample(default=2, seconds=3, reason="six pages")
@pytest.mark.parametrize("kind", ["fitted", "misfit", "causal", "models", "bare", "forbidden"])
def test_the_page_is_sound_and_loads_nothing(designs, kind):
    """Elements are closed in order, ids are unique and led to, nothing comes from elsewhere, no script runs."""
    page = privacy_report(designs[kind])
    found = parsed(page)
    tags = {tag for tag, _ in found.starts}
    assert not tags & {"script", "link", "iframe", "object", "embed", "img", "form"}
    assert not re.search(r"https?://|url\(|@import|src=", page)
    ids = [attributes["id"] for _, attributes in found.starts if "id" in attributes]
    assert len(ids) == len(set(ids))
    led = [attributes["href"][1:] for tag, attributes in found.starts if tag == "a"]
    assert led == ids
    assert page.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en"}) in found.starts
    assert sum(tag == "h1" for tag, _ in found.starts) == 1


@pytest.mark.sample(default=1, seconds=2, reason="three pages")
@pytest.mark.parametrize("kind", ["fitted", "causal", "bare"])
def test_tables_can_be_followed_by_ear(designs, kind):
    """Each has a caption, and every head a scope; every picture is described."""
    page = privacy_report(designs[kind])
    found = parsed(page)
    tables = sum(tag == "table" for tag, _ in found.starts)
    assert tables == sum(tag == "caption" for tag, _ in found.starts) > 4
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in found.starts if tag == "th")
    pictures = [attributes for tag, attributes in found.starts if tag == "svg"]
    assert all(attributes["role"] == "img" and len(attributes["aria-label"]) > 20 for attributes in pictures)


def test_it_has_a_dark_side_and_prints(designs):
    """Colours are variables, and on paper the light ones hold."""
    page = privacy_report(designs["fitted"])
    assert "@media screen and (prefers-color-scheme:dark)" in page
    assert "@media print" in page


@pytest.mark.sample(default=1, seconds=2, reason="two pages")
@pytest.mark.parametrize("kind", ["fitted", "causal"])
def test_pictures_are_xml(designs, kind):
    """Every SVG on the page parses by itself."""
    pictures = re.findall(r"<svg.*?</svg>", privacy_report(designs[kind]), re.DOTALL)
    assert len(pictures) >= 2
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314  # our own


def test_the_first_part_says_what_is_hidden_and_what_not(designs):
    """Private column, readings, prior, the guarantee with its conditions, every measure, and what stays open."""
    design = designs["fitted"]
    page = privacy_report(design)
    shown = words(page)
    for sentence in (
        page_text("hides", private="occupancy", readings="co2"),
        design.guarantee.headline,
        text.prior_words([0, 1], [0.6, 0.4]),
        page_text("time_column", name="date"),
        page_text("unfiltered"),
        text.NOT_PROTECTED["safety"],
        " ".join(text.models_fact(True)),
        page_text("no_audit"),
    ):
        assert sentence in shown
    for measure in design.guarantee.measures:
        assert f'data-name="{measure.name}"' in page
        assert measure.shown in shown
    for item in (*design.guarantee.conditions, *design.guarantee.not_protected):
        assert " ".join(item.split()) in shown


def test_the_second_part_has_the_numbers(designs):
    """Kernel, proof, costs, candidates, gate and notes."""
    design = designs["fitted"]
    shown = words(privacy_report(design))
    assert f"{design.randomizer.kernel[0, 0]:.4f}" in shown
    assert f"{design.lower_bound:.8g}" in shown
    assert f"{design.cost[0, 1]:.5g}" in shown
    assert all(note in shown for note in design.family.about["notes"])
    gate = design.family.about["gate"]
    assert all(cell in shown for row in text.gate_rows(gate) for cell in row)
    assert gate["sentence"] in shown
    assert text.gate_method(gate) in shown
    assert f"{design.family.about['chain']['transition'][0][1]:.5f}" in shown


def test_a_misfit_is_the_first_thing_that_is_said(designs):
    """Before anything else, again at the guarantee and at the gate; a family that fits has no warning."""
    page = privacy_report(designs["misfit"])
    assert page.count(WARNING) >= 2
    assert page.index(WARNING) < page.index("At a glance")
    assert 'role="alert"' in page
    assert all(cell in words(page) for row in text.gate_rows(designs["misfit"].family.about["gate"]) for cell in row)
    assert text.models_fact(False)[1] in page
    assert 'role="alert"' not in privacy_report(designs["fitted"])


def test_models_that_nobody_tested_say_so(designs):
    """Given models, bare costs, and a family without a gate."""
    for kind in ("models", "bare"):
        assert text.UNTESTED in privacy_report(designs[kind])
    assert misfit(about(gate=None)) == [text.UNTESTED]
    assert [fits(about(gate=gate)) for gate in (None, {"passed": False}, {"passed": True})] == [None, False, True]


def test_a_gate_that_could_not_test_is_not_called_a_misfit():
    """By its outcome; one of an earlier version by its values, if none of its tests failed."""
    good, bad = {"name": "mean", "passed": True}, {"name": "mean", "passed": False}
    assert fits(about(gate={"passed": False, "outcome": "untested", "warning": "few"})) is None
    assert misfit(about(gate={"passed": False, "outcome": "untested", "warning": "few"})) == ["few"]
    assert fits(about(gate={"passed": False, "untested": ["3+"], "verdicts": [good]})) is None
    assert fits(about(gate={"passed": False, "untested": ["3+"], "verdicts": [good, bad]})) is False
    assert [refused(about(gate=gate)) for gate in (None, {"passed": False}, {"passed": True})] == [False, True, False]


@pytest.mark.long(seconds=3, reason="a causal design and its whole page")
def test_an_estimated_parameter_has_no_guarantee_on_its_page():
    """No number of the card reads as a bound."""
    made = us.design_causal(family(), STAY, rate=0.01, distortion="mae", accept_estimated_theta=True)
    page = privacy_report(made)
    assert page.index(text.NO_GUARANTEE) < page.index("At a glance")
    assert 'data-holds="false"' in page


def test_hostile_names_stay_text():
    """A column, a value or a note that is HTML is shown, not obeyed."""
    evil = '<script>alert("1")</script>'
    models = {evil: us.IID(us.Gaussian(0.0, 1.0)), "b & c": us.IID(us.Gaussian(3.0, 1.0))}
    told = about(readings=[evil], private=evil, notes=[evil], chain=None)
    told["model"]["name"] = evil
    told["gate"] |= {"passed": False, "warning": evil}
    page = privacy_report(us.design(us.Family(models, about=told), leakage=0.3, distortion="mae"))
    assert "script" not in {tag for tag, _ in parsed(page).starts}
    assert "&lt;script&gt;" in page


def test_a_design_of_many_values_fits_on_the_page():
    """The map leaves the numbers out and the table keeps them."""
    x = np.arange(30.0)
    page = privacy_report(us.solve(np.abs(x[:, None] - x), leakage=1.0))
    parsed(page)
    assert page.count("<rect") >= 900


def test_facts_are_plain(designs):
    """JSON holds them, whatever the design; the numbers are those of the design."""
    for design in designs.values():
        assert json.loads(json.dumps(facts(design)))["kind"] in ("one draw", "causal")
    found = facts(designs["fitted"])
    assert found["leakage"]["nats"] == designs["fitted"].leakage
    assert found["wrong_guesses"]["at_least"] == designs["fitted"].guarantee.bayes_error
    assert found["distortion"]["unit"] == "ppm"
    causal = facts(designs["causal"])
    assert causal["leakage"]["decisions_a_day"] == 96.0
    assert causal["leakage"]["nats_a_day"] == pytest.approx(0.96)
    assert causal["wrong_guesses"]["afterwards_at_least"] <= causal["wrong_guesses"]["at_least"]
    assert warnings(designs["misfit"]) == [WARNING]


def test_the_trade_off_is_that_of_the_family(designs):
    """The same points as `us.frontier` at the same budgets, and the design lies on the curve."""
    design = designs["fitted"]
    mine = frontier_of(design)
    budgets = mine.leakages[[0, 5, 12, 20]].tolist()
    theirs = us.frontier(family(), horizon=50, distortion="mae", leakages=budgets)
    assert np.allclose(mine.distortions[[0, 5, 12, 20]], theirs.distortions, rtol=1e-9)
    assert np.interp(design.leakage, mine.leakages, mine.distortions) == pytest.approx(design.distortion, rel=0.02)


def test_the_trade_off_of_a_chain_falls(designs):
    """More leakage, less distortion; the design is a point of it."""
    found = tradeoff(designs["causal"])
    assert found.errors is None
    assert (np.diff(found.leakages) >= 0).all()
    assert (np.diff(found.distortions) <= 1e-9).all()
    assert designs["causal"].rate in found.leakages
    assert found.distortions[-1] == pytest.approx(0.0, abs=1e-12)


def test_pictures_show_what_they_are_given():
    """Corners of the curve at the corners of the axes, the darkest cell for the largest probability."""
    drawn = curve(Curves([0.0, 1.0], [4.0, 0.0], None, (0.5, 2.0), ("x", "y", "")), "falls from 4 to nothing")
    points = re.search(r'class="one" points="([^"]*)"', drawn)[1].split()
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points)
    assert x0 < x1
    assert y0 < y1  # down the page
    cx, cy = (float(re.search(rf'{name}="([0-9.]+)"', drawn)[1]) for name in ("cx", "cy"))
    assert cx == pytest.approx((x0 + x1) / 2, abs=0.2)
    assert cy == pytest.approx((y0 + y1) / 2, abs=0.2)
    shades = re.findall(r'fill-opacity="([0-9.]+)"', heat_map(["a"], ["b", "c"], [[0.2, 0.8]], "two"))
    assert float(shades[0]) < float(shades[1])


def test_ticks_are_round_and_few():
    """Whatever the scale."""
    for top in (3e-7, 0.04, 0.99, 1.0, 7.3, 42.0, 8e5):
        found = ticks(top)
        assert 3 <= len(found) <= 9
        assert found[-1] <= top * (1 + 1e-9)
    assert ticks(0.0) == ticks(float("inf")) == [0.0]


def test_spans_in_words():
    """As people say them."""
    shown = [text.span(x) for x in (None, 0.25, 60.0, 5400.0, 172800.0)]
    assert shown == ["unknown", "0.25 s", "1 min", "90 min", "2 days"]


@pytest.mark.long(seconds=4, reason="simulates days until the error is small")
def test_what_a_moving_value_costs_is_found_along_its_paths(designs):
    """Simulated days agree with the exact distortion of the same kind of paths, and stand on the page."""
    from understudy.randomizer.causal import true_distortion
    from understudy.report.facts import moving_facts

    design = designs["causal"]
    found, exact = moving_facts(design, sequences=15), true_distortion(design, 96, 15, rng=1)
    apart = abs(found.distortion - exact.true)
    assert apart < 5.0 * np.hypot(found.error, exact.true_error)  # 1e-6
    assert found.readings == 1440
    shown = moving_facts(design)
    known = text.known_within(shown.error)
    told = page_text("price_of_moving", size=f"{shown.distortion:.3g} ppm", known=known, **shown._asdict())
    assert (shown.sequences, shown.readings) == (8, 1440)
    assert told in words(privacy_report(design))
    assert moving_facts(designs["bare"]) is None
    assert moving_facts(designs["models"]) is None
