"""One verdict on top of each page, and bounds that stand out only where they are promises."""

from dataclasses import replace

import pytest
from cli_cases import STAY, family
from page_cases import words

import understudy as us
from understudy.adversaries import results
from understudy.adversaries.results import Audit, Row
from understudy.adversaries.statistics import Figure
from understudy.report.facts import Advice, advise, bounds_hold, card_of, misfit
from understudy.report.pages import audit_report, privacy_report

SETTING = {"model": "adaptive", "period": 900.0, "clock": False, "budget": 0.0, "output": "lifelike", "fresh": 0.5}
FINAL = {
    "days": 6, "distortion": 0.1, "adversary": "boosting", "accuracy": 0.6, "low": 0.5, "high": 0.7, "raw": 0.9,
    "noise": 0.8, "constant": 0.2, "coin": 0.7, "clock": 0.7,
}  # fmt: skip
TUNING = {
    "outcome": "found", "at_most": 0.65, "over": "chance", "confidence": 0.95, "days": 20,
    "adversaries": ["boosting", "logistic"], "chosen": {"setting": SETTING}, "promise": 0.0, "decisions_a_day": 96.0,
    "final": FINAL,
}  # fmt: skip


def tuned(fresh=0.5, **final):
    """A design that was found by tuning, with these figures."""
    found = TUNING | {"chosen": {"setting": SETTING | {"fresh": fresh}}, "final": FINAL | final}
    return us.design_causal(
        family(passed=False, tuning=found), STAY, slope=0.0, decision_every=15, distortion="mae", fresh=fresh
    )


def attacked(low, value):
    """An audit whose best adversary has this balanced accuracy, at least `low`."""
    best, rest = Figure(value, low, min(1.0, 2.0 * value - low)), Figure(0.4, 0.3, 0.5)
    row = Row("disguised", "boosting", False, False, best, rest, rest, rest, 0.4, False, False, 100, 10, 0.1)
    return Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "replayed", 2, False)


def test_what_was_measured_is_no_promise():
    """The bound is there, and does not stand out; the page of the audit has the verdict too."""
    design = tuned()
    assert advise(design)[0] is Advice.MEASURED
    assert not bounds_hold(design)
    page = privacy_report(design)
    assert page.count('<div class="doubted">') == 1
    for each in (page, audit_report(attacked(0.5, 0.55), design)):
        assert each.index("Release only with a measured protection.") < each.index("At a glance")
    assert 'class="doubted"' in audit_report(attacked(0.5, 0.55), design)
    assert misfit(design.family.about) == [misfit(design.family.about)[0]]


def test_an_output_without_readings_needs_no_model():
    """With a fresh share of 1 bounds hold; the page says that it is worth no more than a constant."""
    design = tuned(fresh=1.0)
    assert bounds_hold(design)
    page = privacy_report(design)
    assert '<div class="doubted">' not in page
    assert "worth no more than a constant" in words(page)
    assert "worth no more than a constant" not in words(privacy_report(tuned()))


@pytest.mark.parametrize(("constant", "said"), [(0.2, False), (0.1, True), (0.05, True)])
def test_a_constant_that_is_no_dearer_is_named(constant, said):
    """Whoever pays as much may as well give nothing away."""
    assert ("prefer it" in " ".join(advise(tuned(constant=constant))[1])) is said


def test_an_audit_that_finds_more_than_tuning_withholds():
    """Only where its whole interval lies above what was asked for."""
    assert advise(tuned(), attacked(0.64, 0.7))[0] is Advice.MEASURED
    assert advise(tuned(), attacked(0.66, 0.7))[0] is Advice.WITHHOLD
    nothing = replace(attacked(0.66, 0.7), rows=())
    assert advise(tuned(), nothing)[0] is Advice.MEASURED


def test_conditions_stand_once_on_a_card():
    """Each sentence has them for programs; on the card they are in the claim and in the list."""
    design = us.design(us.Family({v: us.IID(us.Gaussian(v, 1.0)) for v in (0, 3)}), leakage=0.3, distortion="mae")
    measures = design.guarantee.card.measures
    clause = "with the parameter constant over the epoch and the model right"
    assert sum(clause in each.sentence for each in measures) == len(measures) > 3
    assert all(each.sentence.endswith(each.says[1:]) and clause not in each.says for each in measures)
    for shown in (words(design.guarantee.html()), " ".join(design.guarantee.text().split())):
        assert shown.count(clause) == 2  # in the claim, and over the lines


def test_an_audit_that_errs_less_than_the_card_allows_withholds():
    """Also where no bound is stated beside real readings; an adversary who learned nothing is no contradiction."""
    design = us.design_causal(family(), STAY, rate=0.01, decision_every=15, distortion="mae")
    least = design_error(design)
    for error, found, kind in ((least - 0.1, True, Advice.WITHHOLD), (least - 0.1, False, Advice.RELEASE),
                               (least + 0.1, True, Advice.RELEASE)):  # fmt: skip
        audit = attacked(0.5, 0.55)
        row = replace(audit.rows[0], found=found, error=Figure(error, error - 0.02, error + 0.02))
        assert advise(design, replace(audit, rows=(row,)))[0] is kind


def design_error(design):
    """The share of wrong guesses that the card promises."""
    return next(each.value for each in card_of(design).card.measures if each.name == "filtering")


def test_the_sentence_of_an_audit_has_the_figures_of_its_table():
    """Of the best without the clock: chance, and what the clock gives beside it."""
    alone = Row("disguised", "boosting", False, False, *[Figure(0.9, 0.8, 1.0)] * 4, 1e-6, True, False, 100, 10, 0.1)
    clock = replace(alone, adversary="clock", clock=True, reference=True, found=False, balanced=Figure(0.96, 0.9, 1.0))
    timed = replace(alone, clock=True, found=False, testable=False, balanced=Figure(0.95, 0.9, 1.0))
    told = results.verdict(replace(attacked(0.5, 0.55), rows=(alone, clock, timed)))
    assert "is right 90 of 100 [80, 100]; chance gives 50, the clock alone 96." in told
