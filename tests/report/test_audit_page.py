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
from understudy import text
from understudy._html import page_entry, page_list, page_text
from understudy.adversaries.results import Audit, Outcome, Row, is_failure, row_outcome, verdict, warns
from understudy.adversaries.statistics import Figure, score_readings
from understudy.adversaries.utility import measure_utility
from understudy.errors import ConfigurationError
from understudy.report.facts import AuditLine, Guide
from understudy.report.figures import plot_audit
from understudy.report.pages import audit_html, audit_report, learned_sentence, premise, privacy_report, right_guesses
from understudy.report.svg import bells, dots, memories

NOT = Figure(math.nan, math.nan, math.nan)


def row(data, adversary, balanced, clock=False, reference=False, found=False, beats=False, title="", testable=True):
    """An adversary with a balanced accuracy, and the rest to match."""
    wide = Figure(balanced, balanced - 0.04, balanced + 0.04)
    wrong = Figure(1.0 - balanced, 0.96 - balanced, 1.04 - balanced)
    nats = Figure(balanced - 0.5, balanced - 0.55, balanced - 0.45)
    p = math.nan if reference else 1e-6 if found else 0.4
    test = "" if reference else "stretches"
    told = (wide, wrong, nats, nats, p, found, beats, 900, 30, 0.2, test, title, testable, min(1.0, 4.0 * p))
    return Row(data, adversary, clock, reference, *told)


def audited(**more):
    """A small audit of every kind of data, with references, utility and notes."""
    rows = (
        row("disguised", "exact", 0.62, found=True, title="exact Bayes"),
        row("disguised", "windowed", 0.55, title="windowed estimator"),
        row("disguised", "windowed", 0.58, clock=True, title="windowed estimator"),
        row("disguised", "exact", 0.64, clock=True, found=True, title="exact Bayes"),
        row("disguised", "blind", 0.5, reference=True, title="blind"),
        row("disguised", "clock", 0.57, clock=True, reference=True, title="time of day"),
        row("disguised", "oracle", 0.66, reference=True, title="sees the pseudo values"),
        row("noise", "exact", 0.9, found=True, title="exact Bayes"),
        row("offset", "exact", 0.7, found=True, title="exact Bayes"),
        row("raw", "exact", 0.97, found=True, title="exact Bayes"),
        row("raw", "blind", 0.5, reference=True, title="blind"),
    )
    rng = np.random.default_rng(0)
    raw = 900.0 + 100.0 * np.sin(np.arange(2880) / 100.0)[:, None]
    out = raw[:, :, None] + 30.0 * rng.standard_normal((2880, 1, 2))
    utility = measure_utility(
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
    return score_readings(made, us.sample(model, T, rng=3), theta)


CLOCKED = (
    row("disguised", "exact", 0.62, found=True, title="exact Bayes"),
    row("disguised", "exact", 0.58, clock=True, title="exact Bayes"),
    row("disguised", "clock", 0.6, clock=True, reference=True, title="time of day"),
    row("disguised", "blind", 0.5, reference=True, title="blind"),
)
AUDITS = {
    "replayed": audited(),
    "simulated": audited(how="simulated", utility=None),
    "released": audited(how="released", bound=None),
    "broken": audited(rows=(row("disguised", "exact", 0.9, found=True, beats=True),)),
    "nothing": audited(rows=(row("disguised", "exact", 0.51), row("disguised", "blind", 0.5, reference=True))),
    "as the clock tells": audited(rows=CLOCKED, how="released", bound=None),
    "not testable": audited(rows=(row("disguised", "exact", 0.99, testable=False),), how="released"),
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


@pytest.mark.sample(default=2, seconds=1, reason="many pages")
@pytest.mark.parametrize("kind", ["none", "design", "causal"])
def test_theorem_and_experiment_stand_apart(designs, kind):
    """Each under its own heading; with the design its card with every measure, and the trade-off."""
    page = audit_report(AUDITS["replayed"], designs[kind])
    shown = words(page)
    assert page_text("theorem_and_experiment") in shown
    assert text.error_bound(0.3, moving=False) in shown
    assert ("understudy-card" in page.partition("<main>")[2]) == (kind != "none")
    assert ('id="frontier"' in page) == (kind != "none")
    if kind == "design":
        for measure_ in designs[kind].guarantee.measures:
            assert f'data-name="{measure_.name}"' in page
            assert measure_.title in shown
            assert measure_.shown in shown
    for item in (*page_list("not_protected")[1:], text.NOT_PROTECTED["safety"]):
        assert item in shown


def test_the_figures_are_those_of_the_audit():
    """The best adversary with its interval, the clock, raw and noise, utility, notes, and who was not run."""
    shown = words(audit_report(AUDITS["replayed"]))
    for told in (
        "62 of 100 [58, 66]", "57 of 100 [53, 61]", "97 of 100 [93, 101]", "0.380 [0.340, 0.420]",
        "The rows were sorted.", "grid: there is no grid.", "at least 30 percent", "0.620 [0.580, 0.660]",
        "worst error", "faster than 10 min", "2.6 percent of its mean absolute reading", "2.64 [2.53, 2.76]", "<0.0001",
        "38 percent [34, 42], the best adversary",
    ):  # fmt: skip
        assert told in shown, told


def test_the_verdict_comes_first_and_warns_where_it_must():
    """A bound that is beaten, something found in a release, nobody who could be run: warnings; otherwise none."""
    for kind, warned, outcome in (
        ("broken", True, Outcome.BROKEN),
        ("released", True, Outcome.FOUND),
        ("no adversary", True, Outcome.NONE_RUN),
        ("not testable", True, Outcome.NOT_TESTABLE),
        ("as the clock tells", False, Outcome.CLOCK_ONLY),
        ("replayed", False, Outcome.FOUND),
        ("nothing", False, Outcome.NOTHING),
    ):
        made = AUDITS[kind]
        assert made.outcome == outcome
        assert warns(made) is warned
        page = audit_report(made)
        secret = made.how == "released"  # which is a warning of its own
        assert ('role="alert"' in page) is (warned or secret)
        assert verdict(made) in words(page)
        assert verdict(made) in " ".join(made.text().split())
        assert page.index('class="box') < page.index("At a glance")
    assert len({verdict(AUDITS[kind]) for kind in AUDITS}) >= 7


def test_figures_of_one_release_are_called_secret():
    """Its distortion tells about its draws; means over fresh draws do not."""
    assert page_text("one_release") in audit_report(AUDITS["released"])
    assert page_text("one_release") not in audit_report(AUDITS["replayed"])


def test_a_simulation_says_nothing_about_the_sensor():
    """And says so, first among what is not protected."""
    first, *others = page_list("not_protected")
    shown = words(audit_report(AUDITS["simulated"]))
    assert first in shown
    assert shown.index(first) < shown.index(others[0])
    assert first not in words(audit_report(AUDITS["replayed"]))
    scores = scores_of(us.IID(us.Gaussian(0.0, 1.0)))
    for kind, told in (("simulated", False), ("replayed", True)):
        assert (page_text("fit_lead") in words(audit_report(AUDITS[kind], scores=scores))) is told


def test_hostile_names_stay_text():
    """A channel, an adversary or a note that is HTML is shown, not obeyed."""
    evil = '<script>alert("1")</script>'
    utility = measure_utility(np.ones((30, 1)), 2.0 * np.ones((30, 1, 1)), names=(evil,), own={evil: lambda y, x: 1.0})
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
    assert page_text("no_audit") not in page
    assert page.count(page_text("theorem_and_experiment")) == 1
    ids = [attributes["id"] for _, attributes in found.starts if "id" in attributes]
    assert [attributes["href"][1:] for tag, attributes in found.starts if tag == "a"] == ids


def test_the_picture_shows_what_it_is_given():
    """Places on the axis are in proportion, intervals around their points, guides where they belong."""
    lines = [AuditLine("a", {"disguised": Figure(0.6, 0.5, 0.7), "raw": Figure(0.9, 0.8, 1.0)})]
    drawn = dots(lines, [Guide(0.5, "blind")], "share", "two points")
    x = [float(v) for v in re.findall(r'<circle class="disk disguised" cx="([0-9.]+)"', drawn)]
    square = float(re.findall(r'<rect x="([0-9.]+)"', drawn)[-1]) + 4.0
    ends = [
        tuple(map(float, v))
        for v in re.findall(r'<line class="[a-z ]+" x1="([0-9.]+)" x2="([0-9.]+)" y1="[0-9.]+" y2="[0-9.]+"/>', drawn)
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
    wrong = score_readings(us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(0.0, 1.0))}), Y, theta)
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
    told = [each.get_text() for each in ax.get_legend().get_texts()]
    assert told[:3] == [text.DATA_SHORT[data] for data in ("disguised", "noise", "offset")]
    assert set(told[3:]) == {"raw readings", "blind", "oracle"}
    timed = plot_audit(AUDITS["replayed"], Sheet().subplots(), clock=True)
    assert [text.get_text() for text in timed.get_yticklabels()] == ["exact Bayes", "windowed estimator"]
    assert "the clock alone" in [text.get_text() for text in timed.get_legend().get_texts()]
    assert plot_audit(AUDITS["replayed"], Sheet().subplots(), "error").get_xlabel() == "share of wrong guesses"
    assert plot_audit(AUDITS["replayed"], Sheet().subplots(), "nats").get_xlabel().startswith("nats a guess, estimate")
    with pytest.raises(ConfigurationError, match="figure ="):
        plot_audit(AUDITS["replayed"], Sheet().subplots(), "accuracy")
    with pytest.raises(ConfigurationError, match="no adversaries"):
        plot_audit(AUDITS["no adversary"], Sheet().subplots())


def test_what_the_clock_gives_is_shown_apart():
    """With it and without: an adversary that uses the clock is compared with the clock, not with chance."""
    page = audit_report(AUDITS["replayed"])
    rows = dict(right_guesses(AUDITS["replayed"]))
    for data, clock, share in (("disguised", "", "62 of 100"), ("disguised", "the clock and ", "64 of 100")):
        name = f"From {clock}{text.DATA[data]} (exact Bayes)"
        assert rows[name].startswith(share)
        assert f"{name} {share}" in words(page)
    marks = [text.row_verdict(Outcome.NOTHING, clock) for clock in (False, True)]
    assert "; ".join(marks) in words(page)
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert ["the clock alone" in picture for picture in pictures] == [False, True, False, False]


def test_more_than_the_oracle_knows_is_pointed_at():
    """Right models do not allow it; whether it may be chance is said. Up to a tie nothing is."""
    assert premise(AUDITS["replayed"]) == ""
    oracle = row("disguised", "oracle", 0.6, reference=True)
    told = []
    for value in (0.61, 0.65, 0.75):
        made = audited(rows=(row("disguised", "exact", value), oracle))
        told.append(premise(made))
        assert bool(told[-1]) is (value > 0.62)
        assert not told[-1] or f"{100.0 * value:.3g} of 100" in told[-1]
    _, chance, sure = told
    assert "chance" in chance
    assert "chance" not in sure


def test_a_value_that_moves_may_be_guessed_better_than_by_the_oracle():
    """A rhythm that is no Markov chain is another reason than wrong models, and both are named."""
    rows = (row("disguised", "exact", 0.75), row("disguised", "oracle", 0.6, reference=True))
    still, moving = (premise(audited(rows=rows, moving=moves)) for moves in (False, True))
    assert "Markov chain" in moving
    assert "Markov chain" not in still
    assert all("models are not right" in words for words in (still, moving))


def test_doubts_about_the_models_stand_on_top():
    """A design whose models failed their gate says so beside the verdict."""
    bad = us.design(family(passed=False, per="run"), leakage=0.1, horizon=50, distortion="mae")
    page = audit_report(AUDITS["replayed"], bad)
    assert page.index(WARNING) < page.index("Right guesses of 100")


def test_words():
    """Small things that are said in many places."""
    assert text.p_value(0.0) == "<0.0001"
    assert text.sentence("") == ""
    assert learned_sentence(AUDITS["nothing"])
    assert "at least" not in learned_sentence(AUDITS["nothing"])
    assert learned_sentence(AUDITS["no adversary"]) == ""
    own = page_entry("does", "mine", "own")
    assert all(page_entry("does", row.adversary, "own") != own for row in AUDITS["replayed"].rows)


def test_nothing_to_be_found_is_not_nothing_found():
    """Where no p could be small enough the page warns, rows say so, and a strict reader refuses, in every use."""
    made = AUDITS["not testable"]
    assert row_outcome(made, made.rows[0]) == made.outcome == Outcome.NOT_TESTABLE
    assert verdict(made) in words(audit_report(made))
    assert verdict(made) in " ".join(made.text().split())
    assert verdict(AUDITS["nothing"]) not in words(audit_report(made))
    for how in ("simulated", "replayed", "released"):
        assert is_failure(replace(made, how=how))
    assert not is_failure(replace(AUDITS["nothing"], how="released"))
    # with a clock those with it decide
    alone = (row("disguised", "exact", 0.9, found=True), row("disguised", "exact", 0.9, clock=True, testable=False))
    assert is_failure(audited(rows=alone, how="replayed"))
    same = tuple(replace(each, p=math.nan) for each in alone[1:])
    assert audited(rows=same).outcome == audited(rows=alone).outcome == Outcome.NOT_TESTABLE
    assert verdict(audited(rows=same)) != verdict(audited(rows=alone))  # the value hardly varies


def test_an_output_that_equals_the_readings_is_refused():
    """Of a release, though nothing is found; a distance that is small is none."""
    made = replace(AUDITS["nothing"], how="released", bound=None)
    for size, equal in ((0.0, True), (1e-9, False)):
        told = replace(made, distortion=(Figure(0.0, 0.0, 0.0), Figure(size, 0.0, size)), mean_reading=(1.0, 1.0))
        assert is_failure(told) is equal
        assert told.unchanged is equal
        assert (text.UNCHANGED in verdict(told)) is equal
        assert warns(told) is equal
        assert (text.UNCHANGED in " ".join(told.text().split())) is equal
    assert not is_failure(replace(made, distortion=(), how="released"))  # the readings are not known


def test_what_the_clock_gives_is_no_finding():
    """Found without the clock only: no warning, no failure, and named so. Untried with the clock it stays a finding."""
    made = AUDITS["as the clock tells"]
    assert not is_failure(made)
    assert made.outcome == row_outcome(made, made.rows[0]) == Outcome.CLOCK_ONLY
    both = (text.row_verdict(Outcome.CLOCK_ONLY, False), text.row_verdict(Outcome.NOTHING, True))
    assert "; ".join(both) in words(audit_report(made))
    assert both[0] in made.text()
    beyond = replace(made, rows=(made.rows[0], replace(made.rows[1], found=True), *made.rows[2:]))
    assert is_failure(beyond)
    assert beyond.outcome == row_outcome(beyond, beyond.rows[0]) == Outcome.FOUND
    assert "beyond the clock" in verdict(beyond)
    other = replace(made, rows=(made.rows[0], replace(made.rows[1], adversary="windowed"), *made.rows[2:]))
    assert is_failure(other)
    assert warns(other)
    assert other.outcome == Outcome.WITHOUT_CLOCK


def test_what_was_learned_at_least_is_the_lower_end():
    """Not the estimate, never below nothing; that the best of several was chosen afterwards is said."""
    made = audited(rows=(row("disguised", "exact", 0.8), row("disguised", "windowed", 0.6)), budget=None)
    low = (0.8 - 0.55) / math.log(2.0)
    assert f"at least {low:.3g} bit" in learned_sentence(made)
    assert "the best of 2" in learned_sentence(made)
    assert "the best of" not in learned_sentence(audited(rows=made.rows[:1]))
    page = words(audit_report(made))
    assert "The disguised output exact 0.800 [0.760, 0.840] 0.200 [0.160, 0.240] 0.250" in page
    assert page.count(text.best_of(2)) >= 3
    poor = words(audit_report(audited(rows=(row("disguised", "exact", 0.51),))))
    assert "0.490 [0.450, 0.530] 0.000" in poor


def test_who_looks_at_nothing_is_counted_over_the_values_that_were_judged():
    """One of three values does not occur: chance is a half, as the blind row says."""
    made = audited(values=3)
    assert ("Without any data", "50 of 100") in right_guesses(made)
    ax = plot_audit(made, Sheet().subplots())
    assert [line.get_xdata()[0] for line in ax.get_lines() if line.get_label() == "blind"] == [0.5]
    none = audited(values=3, rows=(row("disguised", "exact", 0.5), row("disguised", "blind", 0.0, reference=True)))
    assert any(told.startswith("0 of 100, ") for _, told in right_guesses(none))


def test_what_bounds_a_causal_design_is_said():
    """Its rate bounds the whole path, and a single guess is not bounded here; of an estimated one nothing is."""
    rows = (row("disguised", "smoother", 0.7, found=True),)
    told = {"rows": rows, "bound": None, "causal": True, "budget": 0.0123, "moving": True}
    for how in ("simulated", "replayed"):
        made = audited(how=how, **told)
        known = text.rate_bound(0.0123, how == "simulated")
        assert "0.0123 nats a decision" in known
        for shown in (verdict(made), " ".join(made.text().split()), words(audit_report(made))):
            assert known in shown
            assert text.rate_bound(0.0123, how != "simulated") not in shown
    still = audited(rows=rows, bound=None, moving=True)  # a design of one draw has no rate
    assert "nats a decision" not in verdict(still)
    guessed = audited(estimated=True, **told)
    for shown in (verdict(guessed), " ".join(guessed.text().split()), words(audit_report(guessed))):
        assert text.AUDIT_ESTIMATED in shown
        assert text.rate_bound(0.0123, False) not in shown
    assert warns(guessed)


def test_files_of_0_1_know_causal_designs_by_their_name():
    """They have no field for it; what is written now has."""
    plain = audited(design="CausalDesign(2 x 2)").plain()
    assert plain["causal"] is False
    assert Audit.from_plain(plain).causal is False
    del plain["causal"]
    assert Audit.from_plain(plain).causal is True


def test_the_kinds_of_noise_are_named():
    """Wherever a figure stands that was measured with noise or with an offset."""
    page, written = audit_report(AUDITS["replayed"]), AUDITS["replayed"].text()
    for data, share in (("noise", "90"), ("offset", "70")):
        assert text.DATA[data] in written
        assert f"From {text.DATA[data]} (exact Bayes) {share}" in words(page)
    picture = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0]
    assert f"{text.DATA_SHORT['offset']}: 0.700" in picture
    assert max(float(x) for x in re.findall(r'<text x="([0-9]+)" y="16">', picture)) < 800.0
