"""The card of a causal design: its figures, their sentences, and what is left where theta is estimated."""

import dataclasses
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from causal_cases import HAMMING, STAY, bits
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import errors
from scipy import stats

import understudy as us
from understudy import text
from understudy.errors import DesignError
from understudy.randomizer import measures
from understudy.randomizer.causal_guarantee import (
    Beliefs,
    causal_card,
    least_mean,
    make_plan,
    play,
    posteriors,
    told_the_end,
)

NONE = "No guarantee, audit only"
LEAKAGES = ["rate", "first_charge"]
ERRORS = ["filtering", "smoothing", "first_error"]


@pytest.fixture(scope="module")
def design():
    return us.design_causal(bits([0.6, 0.4]), STAY, rate=0.05, decision_every=15, distortion=HAMMING)


@pytest.fixture(scope="module")
def made(design):
    return causal_card(design, decisions_per_day=96)


@pytest.fixture(scope="module")
def void(design):
    return causal_card(design, decisions_per_day=96, estimated=True)


@pytest.fixture(scope="module")
def nearly(design):
    return causal_card(design, estimated=True, wrong_path=0.03)


def flat(words):
    return " ".join(words.split())


# --- the figures ------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_design(design, made):
    """Rate, first decision, day, distortion; errors of the first decision from its kernel."""
    assert (made.rate, made.first_charge, made.distortion) == (design.rate, design.first_charge, design.distortion)
    assert made.bits == pytest.approx(design.rate / math.log(2.0))
    assert made.per_day == pytest.approx(96 * design.rate)
    assert made.first_day == pytest.approx(design.expected_leakage(96))
    kernel = design.kernel([0.6, 0.4])
    assert made.first_error == pytest.approx(1.0 - np.max(np.array([[0.6], [0.4]]) * kernel, axis=0).sum(), abs=1e-12)
    assert made.first_error == measures.bayes_error([0.6, 0.4], kernel)
    assert made.prior_error == pytest.approx(0.4)
    assert [m.name for m in made.measures] == [*ERRORS, *LEAKAGES, "per_day"]


def test_errors_are_those_of_the_exact_adversaries_on_the_safe_side(design, made):
    """Simulated with other coins, filtering and smoothing err no less than the card says, and not much more."""
    other = errors(design.beliefs, 96, 400, rng=5, margin=24)
    for name in ("filtering", "smoothing"):
        least, found, error = getattr(made, name), getattr(other, name), getattr(other, f"{name}_error")
        assert least <= found + 4.75 * error
        assert least > 0.8 * found
    assert made.smoothing < made.filtering <= made.blind + 1e-12


def test_nothing_is_counted_as_known_before_the_draws():
    """At a rate of zero guesses are blind ones, and what the draws tell is zero."""
    rests = [[0.97, 0.03], [0.07, 0.93]]  # at these odds
    blind = causal_card(us.design_causal(bits([0.7, 0.3]), rests, rate=0.0, distortion=HAMMING))
    assert (blind.filtering, blind.smoothing, blind.first_error) == pytest.approx((0.3, 0.3, 0.3))
    assert blind.blind == pytest.approx(0.3)
    assert blind.rate == blind.first_charge == 0.0
    assert blind.measures[3].shown == "0 nats on average"


def test_what_is_told_at_once_is_seen():
    """A parameter that never moves has no rate at any slope; the first decision and the errors say what it told."""
    told = causal_card(us.design_causal(bits([0.7, 0.3]), np.eye(2), slope=math.inf, distortion=HAMMING))
    assert told.rate == 0.0
    assert told.first_charge == pytest.approx(measures.entropy(np.array([0.7, 0.3])))
    assert told.filtering == told.smoothing == told.first_error == 0.0


def test_matrices_that_take_turns_are_averaged_over_whole_turns():
    """The window of decisions is a whole number of turns, after some decisions that do not count."""
    chains = [STAY, [[0.5, 0.5], [0.5, 0.5]], STAY, STAY, STAY, STAY, STAY]
    card = causal_card(us.design_causal(bits(), chains, slope=1.0, distortion=HAMMING))
    first, last = card.window
    assert (first - 1) % 7 == 0
    assert (last - first + 1) % 7 == 0


# --- bounds from simulation -------------------------------------------------------------------------------------------

SLOW = 0.0002


@pytest.fixture(scope="module")
def slow():
    """A parameter that moves once in 5000 decisions, its card, and the exact smoother over 1400 decisions."""
    design = us.design_causal(bits(), [[1 - SLOW, SLOW], [SLOW, 1 - SLOW]], rate=0.0003, distortion=HAMMING)
    played = play(design.beliefs, 1400, 200, 5)
    seen = posteriors(played.likelihoods, design.beliefs.prior, design.beliefs.transitions).smoothing
    return design, causal_card(design), 1.0 - seen.max(axis=2)


def test_who_waits_long_errs_no_less_than_the_card_says_of_a_slow_parameter(slow):
    """Against the exact smoother, who sees 600 decisions more than are counted (false alarm 1e-6)."""
    _, card, wrong = slow
    first, last = card.window
    each = wrong[first - 1 : last].mean(axis=0)
    assert card.smoothing < each.mean() + stats.norm.isf(1e-6) * each.std(ddof=1) / math.sqrt(len(each))
    assert 0.02 < card.smoothing < card.filtering


def test_a_slow_parameter_is_said_to_be_slow(slow, made):
    """The card says which decisions it is about, that the start is not forgotten, and why the bound is low."""
    _, card, _ = slow
    assert not card.settled
    assert made.settled
    at_the_time, afterwards = card.measures[:2]
    say = text.MovingSetting(True, None, *card.window, settled=False)
    assert at_the_time.note == say.filtering_note(card.blind)
    assert at_the_time.note != replace(say, settled=True).filtering_note(card.blind)
    assert afterwards.note == say.smoothing_note(card.decisions)
    assert made.measures[1].note == replace(say, settled=True).smoothing_note(made.decisions)
    for m in (at_the_time, afterwards):
        assert f"decisions {card.window[0]} to {card.window[1]} " in m.sentence
    assert f"decision {card.decisions} " in afterwards.note
    assert card.to_dict()["wrong_guesses"]["settled"] is False
    assert card.to_dict()["wrong_guesses"]["of_decisions"] == list(card.window)


def enumerated(beliefs, decisions, about, told):
    """How often the best guess of theta_about is wrong, over all paths: with all draws, and the last value if told."""
    m, n = beliefs.cost.shape
    table = {}
    for pseudo in itertools.product(range(n), repeat=decisions):
        state, kernels = beliefs.start(), []
        for j in pseudo:
            kernels.append(beliefs.kernel(state.belief))
            state = beliefs.after(state, kernels[-1], j)
        for theta in itertools.product(range(m), repeat=decisions):
            p = beliefs.prior[theta[0]]
            for k in range(decisions):
                p *= kernels[k][theta[k], pseudo[k]]
                if k:
                    p *= beliefs.transitions[(k - 1) % beliefs.period][theta[k - 1], theta[k]]
            seen = (pseudo, theta[-1] if told else None)
            table.setdefault(seen, np.zeros(m))[theta[about]] += p
    return 1.0 - math.fsum(chances.max() for chances in table.values())


@pytest.mark.parametrize("chain", [STAY, [[0.7, 0.3], [0.1, 0.9]], [STAY, [[0.4, 0.6], [0.5, 0.5]]]])
def test_being_told_the_end_is_worth_more_than_any_future(chain):
    """By enumeration: told theta_4 one errs about theta_2 no more than with the draws of seven decisions.

    The twin: of the persistent chain, who sees the draws of four and is told nothing errs more, so that a simulation
    that just ends is too good.
    """
    beliefs = Beliefs([0.6, 0.4], chain, HAMMING, slope=1.5)
    told, waits, now = (enumerated(beliefs, *case) for case in ((4, 1, True), (7, 1, False), (4, 1, False)))
    assert 0.0 < told <= waits + 1e-12
    assert waits < now - (1e-3 if chain is STAY else -1e-12)
    played = play(beliefs, 4, 4000, 3)
    each = 1.0 - told_the_end(played.likelihoods, played.theta[-1], beliefs)[1].max(axis=1)
    assert abs(each.mean() - told) < 4.9 * each.std() / math.sqrt(len(each))


def misses(bound, sample, truth, count=500):
    rng = np.random.default_rng(6)
    return sum(bound(sample(rng)) > truth for _ in range(count))


def by_student(x):
    return x.mean() - stats.t.isf(0.05, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x))


@pytest.mark.sample(default=2, seconds=2, reason="many problems, solved and proved")
@pytest.mark.parametrize(
    ("sample", "truth"),
    [
        (lambda rng: 0.5 * (rng.random(64) > 0.01), 0.495),
        (lambda rng: rng.beta(5.0, 0.02, 64), 5.0 / 5.02),
        (lambda rng: rng.random(64) ** 3, 0.25),
    ],
)
def test_the_lower_bound_of_a_mean_holds_for_any_law(sample, truth):
    """At 5 percent it is wrong no more often than that, also where nearly all numbers are alike (false alarm 1e-6)."""
    most = stats.binom.isf(1e-6, 500, 0.05)
    assert misses(lambda x: least_mean(x, 0.05), sample, truth) <= most


def test_a_standard_error_is_no_such_bound():
    """The twin: where one number in a hundred differs, Student's bound is wrong half of the time."""
    assert misses(by_student, lambda rng: 0.5 * (rng.random(64) > 0.01), 0.495) > 200


def test_the_lower_bound_is_of_use():
    """Three percent below 512 numbers that are alike; more where they scatter; never above the mean, nor below zero."""
    rng = np.random.default_rng(2)
    assert 0.968 * 0.2 < least_mean(np.full(512, 0.2)) < 0.2
    x = 0.4 * rng.random(512)
    assert by_student(x) * 0.8 < least_mean(x) < x.mean()
    assert least_mean(np.zeros(64)) == 0.0
    assert 0.0 < least_mean(np.array([0.0] * 63 + [1.0])) < 1e-3


def test_margins_follow_the_mixing_of_the_chain():
    """Where the second eigenvalue needs longer margins are longer, up to what can be afforded; turns count whole."""
    found = [make_plan(Beliefs([0.5, 0.5], [[1 - p, p], [p, 1 - p]], HAMMING, 1.0), "exact") for p in (0.3, 0.05, 0.02)]
    assert [plan.first - 1 for plan in found] == [24, 66, 170]
    assert all(plan.settled for plan in found)
    assert all(plan.decisions - plan.last == plan.first - 1 for plan in found)
    never = make_plan(Beliefs([0.5, 0.5], np.eye(2), HAMMING, 1.0), "exact")
    assert not never.settled
    assert never.decisions * never.sequences <= 200_000
    week = make_plan(Beliefs([0.5, 0.5], [STAY] * 168, HAMMING, 1.0), "simulation")
    assert ((week.first - 1) % 168, week.last % 168) == (0, 0)


@settings(max_examples=3, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(0.05, 3.0))
def test_what_is_left_of_a_bound_is_less_by_the_chance_of_a_wrong_path(eps, slope):
    """E - eps, and nothing below zero: in the figures and in what is shown, which is rounded down."""
    design = us.design_causal(bits(), STAY, slope=slope, distortion=HAMMING)
    held, left = causal_card(design), causal_card(design, estimated=True, wrong_path=eps)
    for of, name in zip(left.measures[:2], ("filtering", "smoothing"), strict=True):
        exact = max(0.0, getattr(held, name) - eps)
        assert of.value == pytest.approx(exact, abs=1e-15)
        if exact > 0.0:
            shown = float(re.fullmatch(r"at least ([\d.]+) percent", of.shown).group(1))
            assert shown <= 100.0 * exact * (1.0 + 1e-12) < shown + 0.0101
        else:
            assert of.shown == "nothing"
            assert "of the time" not in of.sentence


# --- the words --------------------------------------------------------------------------------------------------------


def test_every_figure_has_one_sentence_with_its_conditions(made):
    """Each sentence names prior, transitions, a known parameter and right models, and ends once."""
    assert all(part in text.KNOWN for part in ("prior", "transitions", "known to the filter", "models right"))
    for m in made.measures:
        assert m.sentence.startswith(text.KNOWN)
        assert m.sentence.endswith(".")
        assert "{" not in m.sentence + m.note
    assert made.headline == made.measures[0].sentence
    assert made.holds


def test_it_says_what_holds_of_a_sequence_a_day_and_a_decision(made):
    """And what does not, and under which conditions."""
    assert [s.of for s in made.scopes] == ["a sequence", "the same with a budget", "a day", "a decision"]
    assert text.nats_and_bits(made.first_charge) in made.scopes[0].holds
    assert "4.8 nats" in made.scopes[2].holds
    assert len(made.conditions) == 6
    assert any("Markov chain" in words for words in made.conditions)
    for topic, words in text.NOT_PROTECTED.items():
        assert (words in made.not_protected) is (topic not in ("models", "redraws"))
    assert any("KL(" in words for words in made.not_protected)


def test_an_estimated_parameter_has_no_guarantee(void):
    """The headline says so, no figure is called a bound, nothing is guaranteed of anything."""
    assert void.headline.startswith(NONE)
    assert not void.holds
    assert repr(void) == "CausalCard(no guarantee, audit only; 2 values, 2 draws)"
    for m in void.measures:
        assert m.bound == "if known"
        assert m.shown.startswith("if known: ")
        assert m.sentence.startswith(text.IF_KNOWN)
    assert all(s.holds.startswith("nothing") for s in void.scopes)
    assert len(void.conditions) == 1
    assert not void.card.holds
    assert void.to_dict()["wrong_guesses"]["at_the_time_at_least"] == 0.0
    assert "at least" not in " ".join(m.shown for m in void.measures)


def test_a_design_that_estimates_has_no_other_card():
    """Asked for by name, and then nothing brings the guarantee back."""
    accepted = us.design_causal(bits(), STAY, slope=1.0, distortion=HAMMING, accept_estimated_theta=True)
    for asked in (False, True):
        assert causal_card(accepted, estimated=asked).headline.startswith(NONE)


def test_a_path_that_is_nearly_always_right_leaves_one_line_each(made, nearly):
    """Guesses at the time and afterwards; the headline does not change, and leakages get no bound."""
    assert nearly.headline.startswith(NONE)
    assert [m.bound for m in nearly.measures[:2]] == ["at least", "at least"]
    assert all(m.bound == "if known" for m in nearly.measures[2:])
    assert nearly.measures[0].value == pytest.approx(made.filtering - 0.03)
    for m in nearly.measures[:2]:
        assert "at most 3 percent" in m.sentence
    told = nearly.to_dict()
    assert told["guaranteed"] is False
    assert told["wrong_guesses"]["afterwards_at_least"] == pytest.approx(made.smoothing - 0.03)
    assert nearly.measures[0].shown in nearly.scopes[-1].holds
    assert len(nearly.conditions) > 3


# --- paper ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["made", "void", "nearly"])
def test_the_text_holds_everything_and_is_narrow(name, request):
    """All sentences, at most 92 columns."""
    card = request.getfixturevalue(name)
    written = card.text()
    assert str(card) == written
    assert max(map(len, written.splitlines())) <= 92
    whole = flat(written)
    lines = [card.card.in_words(m) for m in card.measures]
    for words in (card.headline, *lines, *card.conditions, *card.not_protected):
        assert flat(words) in whole
    assert not card.card.condition or flat(card.card.lead) in whole
    for m in card.measures:
        assert f"{m.title} {m.shown} {m.prior}" in whole


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.words = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", ["made", "void", "nearly"])
def test_the_page_is_closed_and_loads_nothing(name, request):
    """Tags match, every figure is there, no address is."""
    card = request.getfixturevalue(name)
    page = card.html(page=True)
    parser = _Tags()
    parser.feed(page)
    assert parser.open == []
    assert card._repr_html_() in page
    assert not re.search(r"https?:|src=|@import|<script", page)
    words = flat(" ".join(parser.words))
    for m in card.measures:
        assert flat(card.card.in_words(m)) in words
    assert ('class="understudy-card void"' in page) == (not card.holds)


def test_names_of_values_are_escaped():
    """A value that looks like HTML stays text."""
    family = us.Family({"<b>in</b>": bits().model(0), "out": bits().model(1)})
    card = causal_card(us.design_causal(family, STAY, slope=1.0, distortion=HAMMING))
    assert "<b>in" not in card.html()
    assert "&lt;b&gt;in" in card.html()


def test_json_goes_round(made, nearly):
    """Plain data with a schema, from which the figures come back."""
    for card in (made, nearly):
        back = json.loads(card.json())
        assert back == json.loads(json.dumps(card.to_dict()))
        assert back["schema"] == "understudy.causal_guarantee"
        assert back["leakage"]["nats_per_decision"] == card.rate
        assert back["headline"] == card.headline
        assert len(back["guaranteed_for"]) == 4
    assert json.loads(made.json())["leakage"]["nats_per_day"] == pytest.approx(4.8)


def test_the_card_is_a_value(design, made):
    """Frozen, comparable, the same when made twice."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rate = 0.0
    assert made == causal_card(design, decisions_per_day=96)
    assert hash(made) == hash(causal_card(design, decisions_per_day=96))
    assert made != causal_card(design)
    assert made != 1


def test_what_breaks_a_rule_is_refused(design):
    """Choices that make no sense are named."""
    with pytest.raises(DesignError, match="estimated=True"):
        causal_card(design, wrong_path=0.1)
    with pytest.raises(DesignError, match=r"wrong_path = 1\.5"):
        causal_card(design, estimated=True, wrong_path=1.5)
    with pytest.raises(DesignError, match="decisions_per_day = 0"):
        causal_card(design, decisions_per_day=0)
    with pytest.raises(DesignError, match="decisions_per_day = True"):
        causal_card(design, decisions_per_day=True)
    with pytest.raises(DesignError, match=r"decisions_per_day = .*nan"):
        causal_card(design, decisions_per_day=np.float64("nan"))
    with pytest.raises(DesignError, match="CausalDesign"):
        causal_card(bits())


def test_numbers_of_numpy_are_numbers(design, made, nearly):
    """Whole ones and floats; the card is the same, and its JSON too."""
    for kind in (np.int64, np.float32):
        found = causal_card(design, decisions_per_day=kind(96))
        assert found == made
        assert found.json() == made.json().replace("96,", "96.0,") or found.json() == made.json()
    assert causal_card(design, estimated=True, wrong_path=np.float64(0.03)) == nearly


def test_the_measure_of_distortion_is_named():
    """And one that was given as a matrix has none."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    assert "(mae) on average" in causal_card(us.design_causal(family, STAY, slope=0.5, distortion="mae")).text()
