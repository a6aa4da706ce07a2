"""The page of an audit: sound HTML that loads nothing, says what the audit says, and tells no secret."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_cases import STAY, WARNING, family
from matplotlib.figure import Figure as Sheet
from page_cases import parsed, words

import understudy as us
from understudy.adversaries.audited import Audit, Figure, Row
from understudy.adversaries.scored import scored
from understudy.adversaries.utility import measure
from understudy.errors import ConfigurationError
from understudy.report.audit_figure import plot_audit
from understudy.report.audit_page import audit_html, audit_report
from understudy.report.audit_pictures import Guide, Line, bells, dots, memories
from understudy.report.audit_words import chance, gains, premise, sentence, verdict
from understudy.report.page import privacy_report

NOT = Figure(math.nan, math.nan, math.nan)


def row(data, adversary, balanced, clock=False, reference=False, found=False, beats=False, title=""):
    """An adversary with a balanced accuracy, and the rest to match."""
    wide = Figure(balanced, balanced - 0.04, balanced + 0.04)
    wrong = Figure(1.0 - balanced, 0.96 - balanced, 1.04 - balanced)
    nats = Figure(balanced - 0.5, balanced - 0.55, balanced - 0.45)
    p = math.nan if reference else 1e-6 if found else 0.4
    test = "" if reference else "stretches"
    return Row(data, adversary, clock, reference, wide, wrong, nats, nats, p, found, beats, 900, 30, 0.2, test, title)


def audited(**more):
    """A small audit of every kind of data, with references, utility and notes."""
    rows = (
        row("disguised", "exact", 0.62, found=True, title="exact Bayes"),
        row("disguised", "windowed", 0.55, title="windowed estimator"),
        row("disguised", "windowed", 0.58, clock=True, title="windowed estimator"),
        row("disguised", "blind", 0.5, reference=True, title="blind"),
        row("disguised", "clock", 0.57, clock=True, reference=True, title="time of day"),
        row("disguised", "genie", 0.66, reference=True, title="sees the pseudo values"),
        row("noise", "exact", 0.9, found=True, title="exact Bayes"),
        row("raw", "exact", 0.97, found=True, title="exact Bayes"),
        row("raw", "blind", 0.5, reference=True, title="blind"),
    )
    rng = np.random.default_rng(0)
    raw = 900.0 + 100.0 * np.sin(np.arange(2880) / 100.0)[:, None]
    out = raw[:, :, None] + 30.0 * rng.standard_normal((2880, 1, 2))
    utility = measure(
        raw, out, period=60.0, alarm=950.0, names=("co2",), own={"worst error": lambda y, x: np.max(x - y)}
    )
    told = {
        "rows": rows, "bound": 0.3, "prior_error": 0.45, "confidence": 0.99, "level": 0.01, "guesses": 900,
        "learned": 1000, "how": "replayed", "values": 2, "moving": False, "utility": utility,
        "notes": ("the rows were sorted",), "skipped": {"grid": "there is no grid"},
        "distortion": (Figure(24.0, 22.0, 26.0),), "mean_reading": (900.0,), "design": "Design(2 x 2)", "budget": 0.1,
    }  # fmt: skip
    return Audit(**{**told, **more})


def scores_of(model, T=3000):
    made = us.Family({0: model, 1: model})
    theta = np.arange(T) // 100 % 2
    return scored(made, us.sample(model, T, rng=3), theta)


AUDITS = {
    "replayed": audited(),
    "simulated": audited(how="simulated", utility=None),
    "released": audited(how="released", bound=None),
    "broken": audited(rows=(row("disguised", "exact", 0.9, found=True, beats=True),)),
    "nothing": audited(rows=(row("disguised", "exact", 0.51), row("disguised", "blind", 0.5, reference=True))),
    "no figures": audited(rows=(replace(row("disguised", "exact", 0.51), balanced=NOT, nats=NOT, error=NOT),)),
    "no adversary": audited(rows=(row("disguised", "blind", 0.5, reference=True),), utility=None, distortion=()),
}


@pytest.fixture(scope="module")
def designs():
    return {
        "none": None,
        "design": us.design(family(per="run"), leakage=0.1, horizon=50, distortion="mae"),
        "causal": us.design_causal(family(per="day"), STAY, rate=0.01, decision_every=15, distortion="mae"),
    }


@pytest.mark.parametrize("kind", AUDITS)
def test_the_page_is_sound_and_loads_nothing(kind):
    """Elements are closed in order, ids are unique and led to, nothing comes from elsewhere, no script runs."""
    page = audit_report(AUDITS[kind])
    found = parsed(page)
    assert not {tag for tag, _ in found.starts} & {"script", "link", "iframe", "object", "embed", "img", "form"}
    assert not re.search(r"https?://|url\(|@import|src=", page)
    ids = [attributes["id"] for _, attributes in found.starts if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [attributes["href"][1:] for tag, attributes in found.starts if tag == "a"] == ids
    assert sum(tag == "table" for tag, _ in found.starts) == sum(tag == "caption" for tag, _ in found.starts)
    assert "nan" not in " ".join(found.text).split()
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(picture)  # noqa: S314  # our own
        assert 'role="img"' in picture
        assert "nan" not in picture


@pytest.mark.parametrize("kind", ["none", "design", "causal"])
def test_theorem_and_experiment_stand_apart(designs, kind):
    """Each under its own heading; with the design its card with every measure, and the trade-off."""
    text = words(audit_report(AUDITS["replayed"], designs[kind]))
    assert "what no adversary can do" in text
    assert "what these adversaries did" in text
    assert "The experiment: what was measured" in text
    assert ("The theorem: the guarantee card" in text) == (kind != "none")
    assert ("nothing on this curve was measured" in text) == (kind != "none")
    if kind == "design":
        for measure_ in designs[kind].guarantee.measures:
            assert measure_.title in text
            assert measure_.shown in text
    assert "What is not protected" in text
    assert "Adversaries that were not tried may get more" in text
    assert "never drive ventilation or alarms" in text


def test_the_figures_are_those_of_the_audit():
    """The best adversary with its interval, the clock, raw and noise, utility, notes, and who was not run."""
    text = words(audit_report(AUDITS["replayed"]))
    for told in (
        "62 of 100 [58, 66]", "57 of 100 [53, 61]", "97 of 100 [93, 101]", "0.380 [0.340, 0.420]",
        "The rows were sorted.", "grid: there is no grid.", "at least 30 percent", "0.620 [0.580, 0.660]",
        "worst error", "faster than 10 min", "2.66 percent of the mean reading", "<0.0001",
        "38 percent [34, 42], the best adversary",
    ):  # fmt: skip
        assert told in text, told


def test_the_verdict_comes_first_and_warns_where_it_must():
    """A bound that is beaten, something found in a release, nobody who could be run: warnings; otherwise none."""
    for kind, warned, told in (
        ("broken", True, "Do not rely on the bound"),
        ("released", True, "found out something"),
        ("no adversary", True, "nothing is known"),
        ("replayed", False, "none did better than the theorem allows"),
        ("nothing", False, "no proof that nothing is there"),
    ):
        outcome, warning = verdict(AUDITS[kind])
        assert told in outcome
        assert warning is warned
        page = audit_report(AUDITS[kind])
        assert ('role="alert"' in page) is warned
        assert page.index(outcome[:40]) < page.index("At a glance")


def test_figures_of_one_release_are_called_secret():
    """Its distortion tells about its draws; means over fresh draws do not."""
    assert "Keep this page secret" in audit_report(AUDITS["released"])
    assert "Keep this page secret" not in audit_report(AUDITS["replayed"])


def test_a_simulation_says_nothing_about_the_sensor():
    """And says so, first among what is not protected."""
    text = words(audit_report(AUDITS["simulated"]))
    assert "Your sensor. The readings were simulated" in text
    assert "they fit by definition" in text
    assert "Your sensor." not in words(audit_report(AUDITS["replayed"]))


def test_hostile_names_stay_text():
    """A channel, an adversary or a note that is HTML is shown, not obeyed."""
    evil = '<script>alert("1")</script>'
    utility = measure(np.ones((30, 1)), 2.0 * np.ones((30, 1, 1)), names=(evil,), own={evil: lambda y, x: 1.0})
    made = audited(
        rows=(row("disguised", evil, 0.6, title=evil),),
        notes=(evil,),
        skipped={evil: evil},
        design=evil,
        utility=utility,
    )
    scores = replace(scores_of(us.IID(us.Gaussian(0.0, 1.0))).rows[0], value=evil, channel=evil)
    for page in (audit_report(made), bells([scores], evil) + memories([scores], evil)):
        assert "script" not in {tag for tag, _ in parsed(page).starts}
        assert "&lt;script&gt;" in page
    ElementTree.fromstring(bells([scores], evil))  # noqa: S314  # our own


def test_it_fits_into_the_report_of_the_design(designs):
    """In the place that is kept for it, once, and the report stays sound."""
    page = privacy_report(designs["design"], audit_html(AUDITS["replayed"]))
    found = parsed(page)
    assert "No audit has been made" not in page
    assert page.count("What was tried on the disguised output") == 1
    ids = [attributes["id"] for _, attributes in found.starts if "id" in attributes]
    assert [attributes["href"][1:] for tag, attributes in found.starts if tag == "a"] == ids


def test_the_picture_shows_what_it_is_given():
    """Places on the axis are in proportion, intervals around their points, guides where they belong."""
    lines = [Line("a", {"disguised": Figure(0.6, 0.5, 0.7), "raw": Figure(0.9, 0.8, 1.0)})]
    drawn = dots(lines, [Guide(0.5, "blind")], "share", "two points")
    x = [float(v) for v in re.findall(r'<circle cx="([0-9.]+)"', drawn)]
    square = float(re.findall(r'<rect x="([0-9.]+)"', drawn)[-1]) + 4.0
    ends = [
        tuple(map(float, v))
        for v in re.findall(r'<line x1="([0-9.]+)" x2="([0-9.]+)" y1="[0-9.]+" y2="[0-9.]+" style="stroke:var', drawn)
    ]
    whiskers = [pair for pair in ends if pair[0] != pair[1]]
    assert whiskers[0][0] < x[-1] < whiskers[0][1]
    per = (whiskers[0][1] - whiskers[0][0]) / 0.2
    assert square - x[-1] == pytest.approx(0.3 * per, abs=0.3)
    assert "blind" in drawn


def test_scores_of_a_wrong_model_are_seen():
    """White and normal under the right one; wide and with memory under a wrong one. Aggregates only."""
    right = scores_of(us.IID(us.Gaussian(0.0, 1.0)))
    model = us.GaussMarkov(0.9, 1.0, 1.0, 0.1)
    Y = us.sample(model, 3000, rng=1)
    theta = np.arange(3000) // 100 % 2
    wrong = scored(us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(0.0, 1.0))}), Y, theta)
    for found in right.rows:
        assert abs(found.spread - 1.0) < 5.0 / math.sqrt(2.0 * found.count)  # false alarm below 1e-6
        assert max(map(abs, found.memory)) < 5.5 / math.sqrt(found.count - 20)
        assert sum(found.shares) + found.beyond == pytest.approx(1.0)
    for found in wrong.rows:
        assert found.spread > 1.5
        assert found.memory[0] > 0.5
    picture = bells(wrong.rows, "wide") + memories(wrong.rows, "lasting")
    assert picture.count("<polyline") == 2
    assert not any(f"{abs(y):.3f}" in picture for y in np.asarray(Y).ravel()[:50] if abs(y) > 2.0)


def test_the_figure_of_matplotlib_has_every_adversary():
    """The strongest on top, each kind of data in the legend, lines for who sees less or more; nothing is refused."""
    ax = plot_audit(AUDITS["replayed"], Sheet().subplots())
    assert [text.get_text() for text in ax.get_yticklabels()] == ["exact Bayes", "windowed estimator"]
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told[:3] == ["disguised output", "raw with as much noise", "raw readings"]
    assert set(told[3:]) == {"blind", "told the played value"}
    timed = plot_audit(AUDITS["replayed"], Sheet().subplots(), clock=True)
    assert [text.get_text() for text in timed.get_yticklabels()] == ["windowed estimator"]
    assert "the clock alone" in [text.get_text() for text in timed.get_legend().get_texts()]
    assert plot_audit(AUDITS["replayed"], Sheet().subplots(), "error").get_xlabel() == "share of wrong guesses"
    assert plot_audit(AUDITS["replayed"], Sheet().subplots(), "nats").get_xlabel() == "nats a guess, at least"
    with pytest.raises(ConfigurationError, match="figure ="):
        plot_audit(AUDITS["replayed"], Sheet().subplots(), "accuracy")
    with pytest.raises(ConfigurationError, match="no adversaries"):
        plot_audit(AUDITS["no adversary"], Sheet().subplots())


def test_what_the_clock_tells_is_shown_apart():
    """With it and without: an adversary that uses the clock is compared with the clock, not with chance."""
    text = words(audit_report(AUDITS["replayed"]))
    assert "From the disguised output (exact Bayes) 62 of 100" in text
    assert "From the disguised output and the clock (windowed estimator) 58 of 100" in text
    assert "finds nothing; finds nothing beyond the clock" in text
    pictures = re.findall(r"<svg.*?</svg>", audit_report(AUDITS["replayed"]), re.DOTALL)
    assert ["the clock alone" in picture for picture in pictures] == [False, True, False]


def test_more_than_the_played_value_tells_is_pointed_at():
    """Right models do not allow it; whether it may be chance is said. Up to a tie nothing is."""
    assert premise(AUDITS["replayed"]) == ""
    genie = row("disguised", "genie", 0.6, reference=True)
    for value, told in ((0.61, ""), (0.65, "It may be chance"), (0.75, "So the models are not right")):
        made = audited(rows=(row("disguised", "exact", value), genie))
        assert told in premise(made)
        assert bool(premise(made)) is bool(told)


def test_doubts_about_the_models_stand_on_top():
    """A design whose models failed their gate says so beside the verdict."""
    bad = us.design(family(passed=False, per="run"), leakage=0.1, horizon=50, distortion="mae")
    page = audit_report(AUDITS["replayed"], bad)
    assert page.index(WARNING) < page.index("How many of 100 guesses are right")


def test_words():
    """Small things that are said in many places."""
    assert chance(0.0) == "<0.0001"
    assert sentence("") == ""
    assert "cannot be told from nothing" in gains(AUDITS["nothing"])
    assert gains(AUDITS["no adversary"]) == ""
