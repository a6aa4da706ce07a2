"""The card: every number with its conditions, rounded to the safe side, in text, JSON and HTML."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import text
from understudy.errors import DesignError
from understudy.randomizer import measures
from understudy.randomizer.guarantee import Guarantee

FLIP = [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]
NAMES = [
    "bayes_error",
    "fano",
    "fano_paper",
    "mutual_information",
    "capacity",
    "min_entropy_leakage",
    "maximal_leakage",
    "pointwise_maximal_leakage",
    "local_dp",
]


def room(**changes):
    return Guarantee.of(**{"prior": [0.5, 0.5], "kernel": FLIP, "values": [0, 1], "budget": 0.3, **changes})


def five(row=(0.48, 0.16, 0.1, 0.1, 0.16)):
    """Occupancy 0 to 4, equally likely, with a kernel that is the same around each value."""
    return Guarantee.of([0.2] * 5, [np.roll(row, i) for i in range(5)], values=range(5))


def flat(words):
    return " ".join(words.split())


# --- the numbers ------------------------------------------------------------------------------------------------------


def test_it_holds_all_the_measures():
    """Each number is that of `measures`."""
    g = room()
    p, P = [0.5, 0.5], FLIP
    assert g.bayes_error == 0.1336
    assert g.prior_error == 0.5
    assert g.mutual_information == measures.mutual_information(p, P)
    assert g.fano == measures.fano(p, g.mutual_information)
    assert g.fano_paper == measures.fano_paper(p, g.mutual_information)
    assert g.local_dp == measures.local_dp(P)
    assert g.maximal_leakage == measures.maximal_leakage(P)
    assert g.pointwise.worst == measures.pointwise_maximal_leakage(p, P).worst
    assert g.capacity.upper == measures.capacity(P).upper
    assert g.min_entropy_leakage == measures.min_entropy_leakage(p, P)
    assert g.bits == pytest.approx(g.mutual_information / math.log(2.0))
    assert g.share == pytest.approx(g.mutual_information / math.log(2.0))
    assert (g.guess_before, g.guess_after) == (0.5, 1.0 - 0.1336)
    assert [m.name for m in g.measures] == NAMES


def test_the_card_is_a_value():
    """Frozen, read-only, comparable, hashable."""
    g = room()
    with pytest.raises(dataclasses.FrozenInstanceError):
        g.bayes_error = 0.5
    assert not g.prior.flags.writeable
    assert g == room()
    assert hash(g) == hash(room())
    assert g != room(budget=0.4)
    assert g != "a card"


def test_theorem_3_is_positive_for_enough_values():
    """Five levels, about 0.2 nats: the paper's bound speaks, the sharp one says more, the exact one most."""
    g = five()
    assert g.mutual_information == pytest.approx(0.21, abs=0.001)
    assert 0.4 < g.fano_paper < g.fano < g.bayes_error == pytest.approx(0.52)
    line = g.measures[2]
    assert line.shown == "at least 43.87 percent"
    assert line.note == text.fano_paper_note(5) != text.fano_paper_note(2)
    assert "43.87 percent" in line.sentence


def test_theorem_3_says_nothing_for_two_values():
    """And the card says so."""
    line = room().measures[2]
    assert line.value < 0.0
    assert line.shown == "nothing (-43.28 percent)"
    assert "percent" not in line.sentence  # a bound that is not positive claims no number
    assert line.note == text.fano_paper_note(2)


def test_the_budget():
    """Kept, not kept, or none."""
    assert room().within_budget is True
    assert room(budget=0.2).within_budget is False
    assert room(budget=None).within_budget is None
    for budget, kept in ((0.3, True), (0.2, False)):
        fact = text.budget_fact(budget, kept, residual=False)
        assert fact in room(budget=budget).card.facts
        assert fact != text.budget_fact(budget, not kept, residual=False)
    assert "Leakage budget" not in dict(room(budget=None).card.facts)


def test_one_value_leaves_nothing_to_hide():
    """Degenerate, and no division by zero."""
    g = Guarantee.of([1.0], [[0.5, 0.5]])
    assert math.isnan(g.share)
    assert g.fano_paper == -math.inf
    assert json.loads(g.json())["leakage"]["share"] is None
    assert "at least 0 percent" in g.headline
    assert "nan" not in str(g).lower().replace("instan", "")


# --- the words --------------------------------------------------------------------------------------------------------


def test_the_headline_has_its_number_and_its_conditions():
    """The prior, the constant parameter, the right model and the error rate, rounded down."""
    headline = room().headline
    assert headline == room().measures[0].sentence
    for part in (text.PRIORS["stated"], text.CONDITIONS["constant"], "at least 13.36 percent"):
        assert part in headline


@pytest.mark.parametrize("render", [Guarantee.text, Guarantee.html, Guarantee.json])
@pytest.mark.parametrize("make", [room, five])
def test_no_sentence_goes_without_its_conditions(render, make):
    """Every measure, in every rendering: for programs its sentence whole, for people the conditions once above all."""
    g = make()
    written = render(g)
    if render == Guarantee.html:
        written = Reader.of(written).words
    written = flat(written)
    for m in g.measures:
        assert m.sentence.startswith(f"{text.PRIORS[m.prior]}, {text.CONDITIONS['constant']}, ")
        assert (m.sentence if render == Guarantee.json else g.card.in_words(m)) in written
        assert m.note in written
        assert m.shown in written
    assert text.CONDITIONS["constant"] in g.card.lead
    assert render == Guarantee.json or g.card.lead in written
    for sentence in (*g.conditions, g.against, *g.not_protected):
        assert sentence in written


def test_which_measures_need_the_prior():
    """Capacity, maximal leakage and local DP hold at any prior; nothing else does."""
    assert {m.name for m in room().measures if m.prior == "any"} == {"capacity", "maximal_leakage", "local_dp"}
    assert {m["name"] for m in room().to_dict()["measures"] if m["odds"] == "any"} == {
        "capacity", "maximal_leakage", "local_dp",
    }  # fmt: skip


def test_the_small_print_is_there():
    """Conditions, adversary, and every topic of what is not protected."""
    g, written = room(), flat(str(room()))
    assert set(text.NOT_PROTECTED) == {
        "channels", "timing", "side information", "models", "redraws", "grid", "inputs", "readings", "memory", "safety",
    }  # fmt: skip
    assert g.not_protected == tuple(text.NOT_PROTECTED.values())
    assert len(set(g.conditions)) == 7
    for words in (*g.conditions, g.against, *g.not_protected):
        assert words in written


def test_values_of_probability_zero_are_mentioned():
    """They do not count, and the card says that nothing covers them."""
    g = Guarantee.of([0.5, 0.5, 0.0], [[0.8, 0.2], [0.2, 0.8], [1.0, 0.0]])
    assert g.local_dp == pytest.approx(math.log(4.0))
    assert g.capacity.odds[2] == 0.0
    assert len(g.conditions) == len(room().conditions) + 1
    assert "1 of 3" in g.conditions[-1]
    assert g.conditions[-1] in flat(str(g))


def test_an_infinite_epsilon_says_what_it_means():
    """A draw that rules a value out."""
    g = Guarantee.of([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    assert g.measures[-1].shown == "no bound (infinite)"
    assert "factor of" not in g.measures[-1].sentence  # no number is claimed
    assert g.measures[-1].note


def test_an_estimated_parameter_has_no_guarantee():
    """The words stand everywhere, and nothing is said about the readings."""
    g = room(condition="estimated")
    assert not g.holds
    for written in (str(g), repr(g), g.html(), g.json()):
        assert "no guarantee, audit only" in flat(written).lower()
    assert not g.card.holds
    assert 'data-holds="false"' in g.html()
    assert 'data-holds="true"' in room().html()
    assert text.card_headings(True)[0] not in g.html()
    assert all(m.sentence.startswith(f"{text.PRIORS[m.prior]}, {text.CONDITIONS['estimated']}, ") for m in g.measures)
    assert all(m.shown.startswith(("draw alone: ", "nothing")) for m in g.measures)
    assert not any("readings" in m.sentence.replace("no readings", "") for m in g.measures)
    data = g.to_dict()
    assert data["guaranteed"] is False
    assert data["right_guesses"]["after_at_most"] == 1.0
    assert data["wrong_guesses"]["after_at_least"] == 0.0


def test_a_moving_parameter_is_named():
    """Rows that stand for paths."""
    g = room(condition="path")
    assert all(text.CONDITIONS["path"] in m.sentence for m in g.measures)
    assert text.CONDITIONS["constant"] not in g.headline


# --- rounding ---------------------------------------------------------------------------------------------------------

SLIGHTLY = Decimal("1e-12")
shares = st.one_of(st.floats(0.0, 1.0), st.integers(0, 10_000).map(lambda k: k / 10_000))
amounts = st.one_of(st.floats(0.0, 1e6), st.floats(-30, 6).map(lambda x: 10.0**x), st.integers(0, 9999).map(float))


@given(shares)
@settings(max_examples=200, deadline=None)
def test_percentages_stay_on_their_side(x):
    """Down is never above, up never below (to rounding), and both within a hundredth of a percent."""
    down, up = (Decimal(text.percent(x, side).removesuffix(" percent")) / 100 for side in ("down", "up"))
    exact = Decimal(x)
    assert down <= exact * (1 + SLIGHTLY)
    assert up >= exact * (1 - SLIGHTLY)
    assert up - down <= Decimal("0.0001")


@given(amounts)
@settings(max_examples=200, deadline=None)
def test_amounts_stay_on_their_side(x):
    """Four digits, and the factor they stand for."""
    down, up = Decimal(text.number(x, "down")), Decimal(text.number(x, "up"))
    exact = Decimal(repr(x))
    assert down <= exact * (1 + SLIGHTLY)
    assert up >= exact * (1 - SLIGHTLY)
    assert up - down <= exact * Decimal("0.0011")
    if x < 700.0:
        factor = Decimal(text.factor(x))
        assert Decimal(math.exp(x)) * (1 - SLIGHTLY) <= factor <= Decimal(math.exp(x)) * Decimal("1.0011")


def test_negative_numbers_are_rounded_down_too():
    """Down is towards minus infinity."""
    assert text.percent(-0.432811, "down") == "-43.29 percent"
    assert text.number(-0.432811, "down") == "-0.4329"


def test_rounding_noise_is_not_shown():
    """What a sum of floats does to 0.1336 costs no hundredth; a true difference does."""
    assert text.percent(math.nextafter(0.1336, 0.0), "down") == "13.36 percent"
    assert text.percent(0.1336 - 1e-9, "down") == "13.35 percent"
    assert text.number(math.nextafter(0.3, 1.0), "up") == "0.3"
    assert text.number(0.3 + 1e-9, "up") == "0.3001"


@given(st.integers(2, 5), st.integers(2, 5), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_what_the_card_claims_is_true(m, n, seed):
    """The numbers as printed: no error rate above the true one, no leakage below."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n), size=m)
    g = Guarantee.of(rng.dirichlet(np.ones(m)), P / P.sum(axis=1, keepdims=True))
    for line in g.measures:
        found = re.fullmatch(r"(?:at least|at most|nothing) \(?(-?[\d.e+-]+) (?:nats|percent)\)?", line.shown)
        shown = float(found[1]) / (100.0 if line.unit == "probability" else 1.0)
        if line.bound == "at least":
            assert shown <= line.value + 1e-12
        else:
            assert shown >= line.value - 1e-12


# --- renderings -------------------------------------------------------------------------------------------------------


def test_text_is_tidy():
    """At most 92 columns, no tabs, no blanks at the ends, columns aligned."""
    written = str(room())
    assert written == room().text()
    lines = written.splitlines()
    assert max(map(len, lines)) <= 92
    assert all(line == line.rstrip() and "\t" not in line for line in lines)
    head = next(line for line in lines if line.startswith("Measure"))
    rows = [line for line in lines if line.endswith(("  stated", "  any"))]
    assert len(rows) == len(NAMES)
    assert {max(line.rfind(" stated"), line.rfind(" any")) + 1 for line in rows} == {head.index("Prior")}


def test_repr_is_short_and_keeps_values_out():
    """One line, no names of values."""
    g = room(values=["secret lab", "boardroom"])
    assert repr(g) == "Guarantee(2 values, 6 draws, error >= 13.36 percent, leakage <= 0.3 nats)"


def test_json_round_trips():
    """Valid JSON without NaN, every number to the last digit, infinities as a word, schema and version."""
    g = Guarantee.of([0.3, 0.7], [[0.5, 0.5, 0.0, 0.0], [0.0, 0.25, 0.75, 0.0]], values=["a", "b"], budget=0.5)

    def refuse(word):
        raise AssertionError(word)

    data = json.loads(g.json(), parse_constant=refuse)
    assert data == g.to_dict()
    assert (data["schema"], data["version"]) == ("understudy.guarantee", 1)
    assert data["values"] == ["a", "b"]
    assert data["odds"] == g.prior.tolist()
    assert data["leakage"] == {"nats": g.mutual_information, "bits": g.bits, "share": g.share}
    values = {m["name"]: m["value"] for m in data["measures"]}
    assert values["local_dp"] == "infinite"
    assert values["bayes_error"] == g.bayes_error
    assert values["capacity"] == g.capacity.upper
    assert data["pointwise_leakage_of_each_draw"][3] is None


def test_infinite_budgets_and_odd_values_are_written_down():
    """No budget is too large, no name too strange."""
    g = room(budget=math.inf, values=[np.float64(0.5), (1, math.nan)])
    data = json.loads(g.json())
    assert data["budget_nats"] == "infinite"
    assert data["values"] == [0.5, "(1, nan)"]


class Reader(HTMLParser):
    """Collects tags and words, and fails where a tag is not closed in order."""

    VOID = frozenset({"meta", "rect"})

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.parts = [], [], [], []

    @classmethod
    def of(cls, text):
        reader = cls()
        reader.feed(text)
        reader.close()
        assert not reader.open
        return reader

    @property
    def words(self):
        return flat(" ".join(self.parts))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.parts.append(data)


@pytest.mark.parametrize("page", [False, True])
@pytest.mark.parametrize("condition", ["constant", "path", "estimated"])
def test_html_is_well_formed_and_whole(page, condition):
    """Tags close in order; nothing is loaded or run; tables have captions and headings."""
    g = room(condition=condition)
    written = g.html(page=page)
    reader = Reader.of(written)
    assert {"script", "link", "img", "iframe"}.isdisjoint(reader.tags)
    assert not re.search(r"https?:|url\(|@import|javascript:", written)
    assert reader.tags.count("caption") == reader.tags.count("table") == 2
    assert reader.attributes.count(("th", "scope", "col")) == 4
    assert reader.attributes.count(("th", "scope", "row")) >= len(NAMES)
    assert written.startswith("<!DOCTYPE html>") == page
    assert g.headline in reader.words
    assert g._repr_html_() == g.html()


def test_user_text_is_escaped():
    """A value's name is text, in HTML and on a terminal."""
    nasty = "<script>alert('x')</script>&\"\x1b[31m"
    g = room(values=[nasty, "b\nc"])
    written = g.html()
    assert "<script" not in written
    assert "&lt;script&gt;" in written
    assert "script" not in Reader.of(written).tags
    assert "\x1b" not in written + str(g)
    assert "b c: 50 percent" in " ".join(str(g).split())
    assert json.loads(g.json())["values"][0] == nasty


def test_many_values_do_not_flood_the_card():
    """The first dozen are named, all are in the data."""
    g = Guarantee.of(np.full(40, 1 / 40), np.full((40, 3), 1 / 3))
    assert "and 28 more" in flat(str(g))
    assert "value 13" not in str(g)
    assert len(g.to_dict()["values"]) == 40


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"values": [0, 1, 2]}, "values has 3 entries and the prior 2"),
        ({"budget": -1.0}, "budget is -1.0"),
        ({"budget": "0.3"}, "budget is '0.3'"),
        ({"condition": "perhaps"}, "condition is 'perhaps'"),
        ({"prior": [0.5, 0.4]}, "sums to 0.9"),
        ({"kernel": [[1.0, 0.1], [0.5, 0.5]]}, "row 0 of the kernel sums to 1.1"),
    ],
)
def test_what_breaks_a_rule_is_refused(changes, words):
    """The message names the value and the rule."""
    with pytest.raises(DesignError, match=re.escape(words)):
        room(**changes)
