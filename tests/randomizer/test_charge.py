"""What approximate models give away is charged: budgets keep it, errors allow for it, cards and files say it."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers import OwnGaussMarkov, room, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from randomizer_cases import information_50
from scipy import integrate, stats

import understudy as us
from understudy import text
from understudy.errors import DesignError, InfeasibleError, StoredFileError
from understudy.models.model import Residual
from understudy.randomizer import measures
from understudy.randomizer.design import solve_demand
from understudy.randomizer.guarantee import Guarantee
from understudy.randomizer.residual import Charge, charge
from understudy.serialize import fingerprint

FALSE_ALARM = 1e-6
HOW = "rounded readings"


class Approximate(OwnGaussMarkov):
    """A Gauss-Markov model that says it is off by so much a reading; `gauss_markov` keeps its costs exact."""

    def __init__(self, model, nats, error=0.0, how=HOW):
        super().__init__(model)
        self.gauss_markov, self.nats, self.error, self.how = model, nats, error, how

    def residual(self, T, *, sequences=16, rng=None):
        noise = 0.0 if self.error == 0.0 else self.error * rng.standard_normal()
        return Residual(self.nats * T + noise, self.error, T, self.how)


def family(*nats, prior=None, **changes):
    """Rooms with 0, 1, .. occupants, whose models are off by these nats a reading; None is exact."""
    models = {k: room(k) if x is None else Approximate(room(k), x, **changes) for k, x in enumerate(nats)}
    return us.Family(models, prior=prior)


def made(nats=(1e-6, 3e-6), **demand):
    """A design of two rooms; 0.3 nats unless something else is asked for."""
    return us.design(family(*nats), horizon=50, distortion="mae", **(demand or {"leakage": 0.3}))


def exact_error(design):
    """The error of the best guess from the draw, in fractions."""
    p = [Fraction(x) for x in design.prior.tolist()]
    columns = design.randomizer.kernel.T.tolist()
    return 1 - sum(max(w * Fraction(x) for w, x in zip(p, column, strict=True)) for column in columns) / sum(p)


# --- the charge -------------------------------------------------------------------------------------------------------


def test_exact_models_are_not_charged():
    """None without a residual, with one at zero odds, and with one of a pseudo value alone."""
    assert charge(family(None, None), None) is None
    assert charge(family(None, None, 1e-3, prior=[0.5, 0.5, 0.0]), None) is None
    both = us.Family(lambda v: Approximate(room(v), 1e-3) if v == 0.5 else room(v), values=[0, 1])
    design = us.design(both, pseudo=[0, 0.5, 1], leakage=0.3, distortion="mae", horizon=5)
    assert design.charge is None
    assert (design.residual, design.total_leakage) == (0.0, design.leakage)
    assert "residual" not in str(design)
    assert "residual" not in repr(design) + design.guarantee.json()


def test_the_figures_of_a_charge():
    """Nats for each value, and sums at the odds; what cannot occur is not worked out."""
    found = charge(family(1e-6, None, 4e-6, 1.0, prior=[0.5, 0.25, 0.25, 0.0]), 50)
    assert found.charged == (1e-6 * 50, 0.0, 4e-6 * 50, math.inf)
    assert found.total == pytest.approx(0.5 * 5e-5 + 0.25 * 2e-4, rel=1e-15)
    assert found.variation == pytest.approx(0.5 * 0.005 + 0.25 * 0.01, rel=1e-15)
    assert (found.horizon, found.how) == (50, HOW)
    assert repr(found) == "Charge(7.5e-5 nats over 50 readings)"
    assert found == pickle.loads(pickle.dumps(found)) == copy.deepcopy(found)  # noqa: S301  # our own bytes
    with pytest.raises(AttributeError):
        found.total = 0.0


@given(st.lists(st.tuples(st.floats(1e-9, 1.0), st.floats(0.0, 3.0)), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_charge_is_rounded_up(pairs):
    """Never below the exact sums, and not far above."""
    weights, nats = zip(*pairs, strict=True)
    found = Charge.of(weights, nats, 1, HOW)
    p = [Fraction(w) / sum(map(Fraction, weights)) for w in weights]
    total = sum(w * Fraction(x) for w, x in zip(p, nats, strict=True))
    assert total <= Fraction(found.total) <= total * (1 + Fraction(1, 2**52)) + Fraction(1, 2**1074)
    with mpmath.workdps(50):
        moved = mpmath.fsum(
            mpmath.mpf(w.numerator) / w.denominator * min(mpmath.mpf(1), mpmath.sqrt(mpmath.mpf(x) / 2))
            for w, x in zip(p, nats, strict=True)
        )
        assert moved <= found.variation <= moved * (1 + mpmath.mpf(2) ** -50) + mpmath.mpf(2) ** -1000


def test_a_simulated_residual_is_charged_with_its_error():
    """4.75 standard errors on top, the same each time unless another seed is given; never below zero."""
    models = family(1e-6, 2e-6, error=1e-6)
    first = charge(models, 50)
    assert first == charge(models, 50)
    assert first != charge(models, 50, rng=1)
    assert charge(models, 50, rng=1) == charge(models, 50, rng=np.random.default_rng(1))
    # 4.75 above an estimate that is within 4.9 of the truth, but for 1e-6: above it, but for so little
    assert first.charged[0] > 50e-6
    assert first.charged[1] > 100e-6
    assert charge(family(-1.0, 1e-6), 50).charged[0] == 0.0


@pytest.mark.parametrize(
    ("models", "horizon", "words"),
    [
        (family(1e-6, 1e-6), None, "say for how many readings, horizon="),
        (family(1e-6, 1e-6), 0, "horizon = 0"),
        (family(1e-6, 1e-6), 2.5, "horizon = 2.5"),
        (family(1e-6, 1e-6), True, "horizon = True"),
        (family(1e-6, math.inf), 50, "model of 1 over 50 readings is inf; without a finite one"),
        (family(math.nan, 1e-6), 50, "model of 0 over 50 readings is nan"),
    ],
)
def test_what_cannot_be_charged_is_refused(models, horizon, words):
    """A missing horizon says why it is needed; a residual that bounds nothing is none."""
    with pytest.raises(DesignError, match=re.escape(words)):
        charge(models, horizon)
    with pytest.raises(DesignError, match=re.escape(words)):
        us.design(models, leakage=0.3, horizon=horizon)
    with pytest.raises(DesignError, match=re.escape(words)):
        us.frontier(models, horizon=horizon)


@pytest.mark.parametrize("answer", [0.1, None, Residual(1e-6, 0.0, 49, HOW)])
def test_a_residual_of_something_else_is_refused(answer):
    """Another type, or another number of readings."""
    wrong = Approximate(room(1), 1e-6)
    wrong.residual = lambda T, *, sequences=16, rng=None: answer
    with pytest.raises(DesignError, match="model of 1 must be a Residual for 50 readings"):
        charge(us.Family({0: room(0), 1: wrong}), 50)


def test_odds_and_residuals_belong_together():
    """As many of one as of the other, and finite where a value can occur."""
    for prior, nats in (([0.5, 0.5], [1e-3]), ([0.5, 0.5], [1e-3, math.inf]), ([1.0], [-1e-3]), ([1.0], [math.nan])):
        with pytest.raises(DesignError, match="residual"):
            Charge.of(prior, nats, 5, HOW)
    with pytest.raises(DesignError, match="residual is a float; it must be a Charge"):
        Guarantee.of([0.5, 0.5], np.eye(2), residual=1e-3)


# --- demands ----------------------------------------------------------------------------------------------------------

COST = us.costs(family(None, None, None), horizon=50, distortion="mae").matrix.copy()
amounts = st.floats(-12.0, -1.5).map(lambda x: 10.0**x)


@given(st.lists(amounts, min_size=3, max_size=3), st.floats(0.0, 1.0), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_leakage_and_residual_keep_the_budget(nats, share, seed):
    """In exact fractions of the figures, and in 50 digits of the kernel; and the rest of the budget is used."""
    p = np.random.default_rng(seed).dirichlet(np.ones(3))
    p /= p.sum()
    leak = Charge.of(p, nats, 50, HOW)
    budget = leak.total + share * 0.5
    design = solve_demand(COST.copy(), p.copy(), ("leakage", budget), None, None, leak)
    assert Fraction(design.leakage) + Fraction(design.residual) <= Fraction(budget)
    assert design.total_leakage <= design.budget == budget
    assert Fraction(design.total_leakage) >= Fraction(design.leakage) + Fraction(design.residual)
    spent = max(information_50(design.prior, design.randomizer.kernel)[1], 0)
    assert spent + mpmath.mpf(design.residual) <= mpmath.mpf(budget) + mpmath.mpf(10) ** -45
    assert design.guarantee.within_budget
    alone = us.solve(COST, prior=p, leakage=max(0.0, budget - leak.total))
    assert design.distortion == pytest.approx(alone.distortion, rel=1e-6)


def test_the_residual_comes_off_the_budget():
    """A design through the public name: the kernel of a smaller budget, and figures that add up."""
    design = made()
    assert design.residual == pytest.approx(1e-4, rel=1e-12)
    assert design.charge == charge(design.family, 50)
    assert design.budget == 0.3
    assert design.demand == ("leakage", 0.3)
    assert design.leakage == pytest.approx(0.3 - 1e-4, rel=1e-12)
    exact = us.design(family(None, None), leakage=0.3 - 1e-4, horizon=50, distortion="mae")
    assert np.abs(design.randomizer.kernel - exact.randomizer.kernel).max() < 1e-12
    shares = made(leakage="40%")
    assert shares.budget == pytest.approx(0.4 * math.log(2.0))
    assert shares.total_leakage <= shares.budget


def test_a_budget_that_the_models_exceed():
    """Refused before the work, with residual, horizon and budget; one that they just spend leaves nothing to tell."""
    with pytest.raises(InfeasibleError, match=r"leakage = 9e-05 nats; .* 1e-4 nats over 50 readings \(rounded read"):
        made(leakage=9e-5)
    with pytest.raises(InfeasibleError, match="shorter horizon"):
        us.frontier(family(1e-6, 3e-6), horizon=50, leakages=[0.3, 1e-5])
    design = made(leakage=charge(family(1e-6, 3e-6), 50).total)
    assert design.leakage == 0.0
    assert design.total_leakage == design.budget == design.residual
    everything = made(leakage=math.inf)
    assert everything.leakage == pytest.approx(math.log(2.0))


@given(st.lists(amounts, min_size=3, max_size=3), st.floats(0.0, 1.0), st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_an_error_allows_for_the_residual(nats, share, seed):
    """The error of the best guess from the draw, less the variation, is what was asked: in exact fractions."""
    p = np.random.default_rng(seed).dirichlet(np.full(3, 5.0))
    p /= p.sum()
    leak = Charge.of(p, nats, 50, HOW)
    most = measures.prior_error(p) - leak.variation - 1e-12
    error = share * most
    if most <= 0.0:
        with pytest.raises(InfeasibleError, match="may help by"):
            solve_demand(COST.copy(), p.copy(), ("error_at_least", 1e-9), None, None, leak)
        return
    design = solve_demand(COST.copy(), p.copy(), ("error_at_least", error), None, None, leak)
    assert exact_error(design) - Fraction(leak.variation) >= Fraction(error)
    assert design.guarantee.bayes_error >= error
    assert design.budget is None


def test_an_error_that_cannot_be_had():
    """The models alone may help a guess: the message says by how much, and what is left."""
    leak = charge(family(1e-6, 3e-6), 50)
    with pytest.raises(
        InfeasibleError, match=r"error_at_least = 0.499; .* 0.5, .* over 50 readings .* at most 0.493"
    ) as e:
        made(error_at_least=0.499)
    left = float(re.search(r"at most ([\d.]+) can", str(e.value))[1])
    assert left <= 0.5 - leak.variation
    assert made(error_at_least=left).guarantee.bayes_error >= left
    for bad in (-0.1, math.nan):
        with pytest.raises(DesignError, match=r"error_at_least = .*; it must be 0 or more"):
            made(error_at_least=bad)
    with pytest.raises(DesignError, match="must be a number"):
        made(error_at_least="much")


def test_a_distortion_is_met_as_before():
    """The same kernel as with exact models; the budget is what leaks in all."""
    design, exact = made(distortion_at_most=20.0), made((None, None), distortion_at_most=20.0)
    assert np.array_equal(design.randomizer.kernel, exact.randomizer.kernel)
    assert design.distortion == exact.distortion
    assert design.leakage == exact.leakage
    assert design.budget == design.total_leakage > exact.budget
    assert design.leakage_lower_bound == exact.leakage_lower_bound
    assert design.guarantee.within_budget


@pytest.mark.parametrize("demand", [("leakage", 0.3), ("error_at_least", 0.3)])
def test_forbidden_pairs_and_a_residual(demand):
    """Where the pairs forbid it, the message tells the demand of the draw from that of the user."""
    cost = np.array([[0.0, math.inf], [math.inf, 0.0]])
    leak = Charge.of([0.5, 0.5], [0.01, 0.01], 50, HOW)
    with pytest.raises(InfeasibleError, match=r"forbidden pairs.*the 0.3 asked for, .* over 50 readings"):
        solve_demand(cost, np.array([0.5, 0.5]), demand, None, None, leak)


def test_the_whole_curve():
    """Budgets are for draw and residual together, from the residual to saturation."""
    curve = us.frontier(family(1e-6, 3e-6), horizon=50, distortion="mae")
    exact = us.frontier(family(None, None), horizon=50, distortion="mae")
    leak = charge(family(1e-6, 3e-6), 50)
    assert curve.leakages[0] == leak.total
    assert curve.saturation == pytest.approx(exact.saturation + leak.total, rel=1e-12)
    assert curve.leakages == pytest.approx(exact.leakages + leak.total, rel=1e-12)
    assert curve.distortions == pytest.approx(exact.distortions, rel=1e-9, abs=1e-9)
    assert all(design.total_leakage <= design.budget for design in curve.designs)
    assert curve.errors == pytest.approx(np.maximum(exact.errors - leak.variation, 0.0), abs=1e-9)
    one = us.frontier(family(1e-6, 3e-6), horizon=50, distortion="mae", leakages=[0.3, "40%"])
    assert np.array_equal(one[0].randomizer.kernel, made().randomizer.kernel)


def test_a_design_shows_its_residual():
    """One line more, rounded up; the guarantee for so many readings."""
    design = made((1e-6, 3.00001e-6))
    assert "\n  residual     1.001e-4 nats over 50 readings (rounded readings)\n" in str(design)
    assert str(design).endswith("for the first 50 readings.")
    assert ", residual=1.001e-4, optimal)" in repr(design)
    again = pickle.loads(pickle.dumps(design.charge))  # noqa: S301  # our own bytes
    assert again == design.charge


# --- the card ---------------------------------------------------------------------------------------------------------

FLIP = [[0.8664, 0.1336], [0.1336, 0.8664]]


def card(nats=(2e-6, 8e-6), T=1000, **changes):
    given = {"prior": [0.5, 0.5], "kernel": FLIP, "values": [0, 1], "budget": 0.31}
    given |= changes
    residual = Charge.of(given["prior"], nats, T, HOW)
    return Guarantee.of(**given, residual=residual)


def flat(words):
    return " ".join(words.split())


def test_the_numbers_of_the_card():
    """Each is that of the draw with its charge."""
    g, drawn = card(), Guarantee.of([0.5, 0.5], FLIP, budget=0.31)
    assert g.charge.total == pytest.approx(5e-6)
    assert g.charge.variation == pytest.approx(0.0015)
    assert g.bayes_error == pytest.approx(0.1336 - 0.0015, rel=1e-12)
    assert g.mutual_information == pytest.approx(drawn.mutual_information + 5e-6, rel=1e-14)
    assert g.fano == measures.fano([0.5, 0.5], g.mutual_information) < drawn.fano
    assert g.fano_paper == measures.fano_paper([0.5, 0.5], g.mutual_information)
    assert g.capacity.upper == pytest.approx(drawn.capacity.upper + 8e-6, rel=1e-12)
    assert g.capacity.upper - g.capacity.slack <= drawn.capacity.upper
    assert g.min_entropy_leakage == pytest.approx(math.log((0.8664 + 0.0015) / 0.5), rel=1e-12)
    assert g.maximal_leakage == pytest.approx(math.log(2 * 0.8664 + 0.003), rel=1e-12)
    assert g.local_dp == drawn.local_dp
    assert g.pointwise.worst == drawn.pointwise.worst
    assert (g.guess_after, g.share) == (1.0 - g.bayes_error, g.mutual_information / g.entropy)
    assert card(budget=drawn.mutual_information + 5.1e-6).within_budget
    assert not card(budget=drawn.mutual_information + 4.9e-6).within_budget


def test_nothing_exceeds_what_there_is():
    """A residual that swamps everything: no error is sure, all may be told, and no more than all."""
    g = card((5.0, 5.0))
    assert (g.bayes_error, g.fano) == (0.0, 0.0)
    assert g.share == pytest.approx(1.0)
    for nats in (g.capacity.upper, g.min_entropy_leakage, g.maximal_leakage, g.mutual_information):
        assert nats == pytest.approx(math.log(2.0))
    assert "at least 0 percent" in g.headline
    assert "nan" not in str(g).lower().replace("instan", "")


def test_the_words_of_the_card():
    """The headline names the readings; conditions and small print are those of an approximation."""
    g = card()
    say = text.Setting("constant", 1000, HOW)
    exact = Guarantee.of([0.5, 0.5], FLIP)
    assert g.headline.startswith(say.premise("stated"))
    assert "at least 13.21 percent" in g.headline
    assert text.first_readings(1000) in g.headline
    assert text.residual_fact(g.charge.total, 1000, HOW) in g.card.facts
    assert text.budget_fact(g.budget, True, residual=True) in g.card.facts
    assert g.conditions == say.conditions(g.charge.total, 0, 2)
    assert set(exact.conditions) - set(g.conditions) == {exact.conditions[1]}  # that the model is right, without more
    assert "5e-6 nats" in g.conditions[1]
    assert text.first_readings(1000) in g.conditions[2]
    assert g.against != exact.against
    assert text.first_readings(1000) in g.against
    changed = [topic for topic, words in text.NOT_PROTECTED.items() if words not in g.not_protected]
    assert changed == ["models", "grid"]
    assert any("sum_i p_i KL" in words for words in g.not_protected)
    words = flat(str(g))
    for part in (g.headline, *g.conditions, g.against, *g.not_protected):
        assert part in words
    assert max(map(len, str(g).splitlines())) <= 92
    assert g.measures[1].note == text.fano_note(sharper=True) != text.fano_note(sharper=False)
    one = flat(str(card(T=1)))
    assert text.first_readings(1) in one
    assert "1 readings" not in one
    assert text.CONDITIONS["path"] in card(condition="path").headline


def test_the_worst_cases_are_those_of_the_draw():
    """Their lines say so, and how far off whole events can be."""
    *rest, pointwise, local = card().measures
    for line in (pointwise, local):
        assert line.shown.startswith("draw alone: ")
        assert line.sentence.startswith(text.Setting("estimated").premise(line.prior))
        assert "draw alone" in line.note
        assert "added probability of" in line.note
    for line in rest:
        assert line.sentence.startswith(text.Setting("constant", 1000).premise(line.prior))
        assert "draw alone" not in line.shown
    ruled_out = card(kernel=[[0.5, 0.5], [0.0, 1.0]]).measures[-1]
    assert ruled_out.shown == "no bound (infinite)"
    assert "added probability" not in ruled_out.note


def test_data_and_page_of_the_card():
    """The JSON has the residual, and cards with other residuals are other cards; without one it has no such key."""
    g = card()
    data = json.loads(g.json())
    assert data["residual"] == {"nats": g.charge.total, "variation": g.charge.variation, "readings": 1000, "how": HOW}
    assert data["leakage"]["nats"] == g.mutual_information
    assert data["wrong_guesses"]["after_at_least"] == g.bayes_error
    assert g == card()
    assert g != card(T=999)
    assert "residual" not in Guarantee.of([0.5, 0.5], FLIP).to_dict()
    assert "for the first 1000 readings" in g.html(page=True)
    nasty = Guarantee.of([0.5, 0.5], FLIP, residual=Charge.of([0.5, 0.5], [0.0, 0.0], 5, "<script>"))
    assert "<script>" not in nasty.html()


def test_without_a_guarantee_nothing_is_charged():
    """A parameter that is estimated from the readings: the numbers are those of the draw, as before."""
    assert card(condition="estimated") == Guarantee.of([0.5, 0.5], FLIP, [0, 1], 0.31, "estimated")


@given(st.integers(2, 5), st.integers(2, 5), st.floats(-9.0, 0.5), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_what_is_shown_is_on_the_safe_side(m, n, size, seed):
    """No error rate above the computed one, no leakage below."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n), size=m)
    p = rng.dirichlet(np.ones(m))
    g = card(10.0**size * rng.random(m), prior=p, kernel=P / P.sum(axis=1, keepdims=True), values=None)
    for line in g.measures:
        found = re.fullmatch(
            r"(?:at least|at most|nothing|draw alone:) \(?(-?[\d.e+-]+) (?:nats|percent)\)?", line.shown
        )
        shown = float(found[1]) / (100.0 if line.unit == "probability" else 1.0)
        assert shown <= line.value + 1e-12 if line.bound == "at least" else shown >= line.value - 1e-12


# --- the truth, enumerated --------------------------------------------------------------------------------------------


def toy(rng, m, n, K, size):
    """Odds, a kernel, white scores on K points, and true laws of the scores near them: the model is the white law."""
    p, P = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(n), size=m)
    P /= P.sum(axis=1, keepdims=True)
    white = rng.dirichlet(np.full(K, 3.0))
    true = np.array([(1.0 - size) * white + size * rng.dirichlet(np.full(K, 0.5)) for _ in range(m)])
    return p, P, white, true / true.sum(axis=1, keepdims=True)


def divergence(a, b):
    """KL(a || b), rounded up; in 50 digits, as small ones cancel."""
    with mpmath.workdps(50):
        one, other = mpmath.fsum(a.tolist()), mpmath.fsum(b.tolist())
        terms = [(x / one, y / other) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x > 0.0]
        return float(mpmath.fsum(x * mpmath.log(x / y) for x, y in terms)) * (1.0 + 1e-12) + 1e-30


@given(st.integers(2, 4), st.integers(2, 4), st.integers(2, 5), st.floats(0.0, 1.0), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_bound_holds_of_the_truth(m, n, K, size, seed):
    """Against who sees the pseudo value and the scores, all guesses and events enumerated; D_i and d_i are known."""
    rng = np.random.default_rng(seed)
    p, P, white, true = toy(rng, m, n, K, size)
    nats = [divergence(row, white) for row in true]
    residual = Charge.of(p, nats, K, HOW)
    g = Guarantee.of(p, P, residual=residual)
    seen = (P[:, :, None] * true[:, None, :]).reshape(m, -1)  # what is seen under each value: draw and scores
    slightly = 1e-12
    # total variation is no more than what is taken for it
    assert all(
        0.5 * np.abs(row - white).sum() <= d + slightly for row, d in zip(true, residual.variations, strict=True)
    )
    assert measures.bayes_error(p, seen) >= g.bayes_error - slightly
    assert measures.bayes_error(p, seen) >= g.fano - slightly
    assert measures.bayes_error(p, seen) >= g.fano_paper - slightly
    assert measures.mutual_information(p, seen) <= g.mutual_information + slightly
    for _ in range(5):
        assert measures.mutual_information(rng.dirichlet(np.ones(m)), seen) <= g.capacity.upper + slightly
    assert measures.min_entropy_leakage(p, seen) <= g.min_entropy_leakage + slightly
    assert measures.maximal_leakage(seen) <= g.maximal_leakage + slightly
    pointwise, local = (float(re.search(r"probability of ([\d.e-]+)\.$", x.note)[1]) for x in g.measures[-2:])
    # the worst event is all that is seen with more than the factor
    average = p @ seen
    for i in range(m):
        assert np.maximum(seen[i] - math.exp(g.pointwise.worst) * average, 0.0).sum() <= pointwise + slightly
        for k in range(m):
            assert np.maximum(seen[i] - math.exp(g.local_dp) * seen[k], 0.0).sum() <= local + slightly


def test_without_the_charge_the_bounds_are_wrong():
    """The twin: laws that differ, and an adversary who errs less often than the draw alone allows."""
    rng = np.random.default_rng(5)
    broken = {"error": 0, "information": 0, "fact": 0}
    for _ in range(50):
        p, P, _, true = toy(rng, 2, 2, 4, 0.5)
        seen = (P[:, :, None] * true[:, None, :]).reshape(2, -1)
        broken["error"] += measures.bayes_error(p, seen) < measures.bayes_error(p, P) - 1e-6
        broken["information"] += measures.mutual_information(p, seen) > measures.mutual_information(p, P) + 1e-6
        broken["fact"] += measures.maximal_leakage(seen) > measures.maximal_leakage(P) + 1e-6
    assert min(broken.values()) >= 25


class Shifted(Approximate):
    """Independent readings N(v, 1) to the model; the truth has a mean that is off by `shift`."""

    def __init__(self, v, shift):
        super().__init__(us.GaussMarkov(0.0, 1.0, 0.5, 0.5, b=v, mean0=0.0, cov0=0.0), 0.5 * shift**2)
        self.v, self.shift = v, shift

    def truth(self, rng, T, n):
        return self.v + self.shift + rng.standard_normal((T, 1, n))


def test_a_brute_force_adversary_on_a_known_truth():
    """Readings off by +-0.02: the best test of the scores beats the draw, and not the card (false alarm 1e-6).

    Given ~theta the scores are N(+-0.02, 1) for 25 readings: D = 0.005 and the total variation is known, 0.0399.
    """
    T, shift, n = 25, 0.02, 400_000
    off = us.Family({0: Shifted(0.0, shift), 1: Shifted(1.0, -shift)})
    design = us.design(off, leakage=0.01, horizon=T, distortion="mse")
    variation = 2.0 * stats.norm.cdf(0.5 * shift * math.sqrt(T)) - 1.0
    assert design.charge.charged == pytest.approx([0.5 * shift**2 * T] * 2)
    assert variation < design.charge.variation < 1.3 * variation
    from_draw, promised = measures.bayes_error(design.prior, design.randomizer.kernel), design.guarantee.bayes_error

    def wrong(s, j):
        """The smaller weight at a sum of scores s over its spread, under either value."""
        m = shift * math.sqrt(T)
        return min(0.5 * design.randomizer.kernel[i, j] * stats.norm.pdf(s - x) for i, x in enumerate((m, -m)))

    best = sum(integrate.quad(wrong, -10.0, 10.0, args=(j,), limit=400)[0] for j in range(2))
    assert promised == pytest.approx(0.4, abs=0.001)
    assert promised <= best < from_draw - 0.005
    # the same adversary at work on readings that were disguised
    rng = np.random.default_rng(7)
    mistakes = 0
    for i, model in enumerate(off.model(v) for v in off.values):
        drawn = rng.random(n) < design.randomizer.kernel[i, 1]
        for j in range(2):
            Y = model.truth(rng, T, int((drawn == j).sum()))
            out = us.disguise(Y, model.gauss_markov, off.model(j).gauss_markov)
            s = (out - off.model(j).v).sum(axis=0).ravel() * 2.0 * shift
            guess = np.log(design.randomizer.kernel[0, j] / design.randomizer.kernel[1, j]) + s < 0.0
            mistakes += int((guess != i).sum())
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1.0 - FALSE_ALARM / 2], 2 * n, best)
    assert low <= mistakes <= high
    assert mistakes >= stats.binom.ppf(FALSE_ALARM, 2 * n, promised)


# --- files ------------------------------------------------------------------------------------------------------------


def rewrite(path, change):
    """Change the content of a document and give it the fingerprint of what it now holds."""
    document = json.loads(path.read_text())
    change(document["content"])
    covered = {key: document[key] for key in ("format", "version", "content")}
    path.write_text(json.dumps({**document, "fingerprint": fingerprint(covered)}))


@pytest.mark.sample(default=2, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("demand", [{"leakage": "0.3 nats"}, {"error_at_least": 0.2}, {"distortion_at_most": 20.0}])
def test_a_charged_design_comes_back(tmp_path, demand):
    """Every figure and the same card, with the family attached and without."""
    design = us.design(
        family(1e-6, None, 2e-6, 1.0, prior=[0.4, 0.3, 0.3, 0.0]), horizon=50, distortion="mae", **demand
    )
    mark = design.save(tmp_path / "design.json", models=False)
    for attached in (None, design.family):
        loaded = us.load_design(tmp_path / "design.json", family=attached)
        assert loaded.charge == design.charge
        assert (loaded.budget, loaded.leakage, loaded.residual) == (design.budget, design.leakage, design.residual)
        assert same_bits(loaded.randomizer.kernel, design.randomizer.kernel)
        assert str(loaded) == str(design)
        card = design.guarantee.to_dict()
        if attached is None:  # what floating point adds is known of the models alone
            assert set(card.pop("release")) >= {"lattice", "steps", "nats", "how"}
        assert loaded.guarantee.to_dict() == card
        assert (loaded.guarantee == design.guarantee) == (attached is not None)
    assert loaded.save(tmp_path / "again.json", models=False) == mark


def test_files_of_exact_models_are_as_before(tmp_path):
    """No field for a charge is written, and a file without one loads as exact."""
    design = made((None, None))
    design.save(tmp_path / "design.json")
    assert "charge" not in json.loads((tmp_path / "design.json").read_text())["content"]
    loaded = us.load_design(tmp_path / "design.json")
    assert (loaded.charge, loaded.residual) == (None, 0.0)


def test_approximate_models_need_a_charge(tmp_path):
    """A file without a charge does not take models that have a residual; nor one with a charge models without."""
    path = tmp_path / "design.json"
    made((None, None)).save(path)
    with pytest.raises(StoredFileError, match="the models are approximate, and the design was made without a charge"):
        us.load_design(path, family=family(None, 1e-6))
    made().save(path, models=False)
    rewrite(path, lambda content: content.pop("charge"))
    with pytest.raises(StoredFileError):
        us.load_design(path, family=family(1e-6, 3e-6))
    made().save(path, models=False)
    for others in (family(None, None), family(None, 3e-6)):
        with pytest.raises(StoredFileError, match="charge is for models that are approximate"):
            us.load_design(path, family=others)
    assert us.load_design(path, family=family(1e-6, 3e-6)).charge == made().charge


def set_charge(**changes):
    return lambda content: content["charge"].update(changes)


LIES = {
    "smaller residuals": (set_charge(charged=[1e-9, 1e-9]), "not what its residuals and the prior give"),
    "a smaller total": (set_charge(total=1e-9), "not what its residuals and the prior give"),
    "a smaller variation": (set_charge(variation=1e-9), "not what its residuals and the prior give"),
    "negative residuals": (set_charge(charged=[-1e-6, 1e-4]), "does not hold together"),
    "infinite residuals": (set_charge(charged=["infinite", 1e-4]), "does not hold together"),
    "undefined residuals": (set_charge(charged=["undefined", 1e-4]), "does not hold together"),
    "too few residuals": (set_charge(charged=[1e-4]), "charge.charged has the shape"),
    "more readings": (set_charge(horizon=5000), "charge.horizon must be the horizon"),
    "half a reading": (set_charge(horizon=50.0), "charge.horizon must be the horizon"),
    "control characters": (set_charge(how="\x1b[31m"), "charge.how must be a few words"),
    "a long story": (set_charge(how="x" * 501), "charge.how must be a few words"),
    "no story": (set_charge(how=None), "charge.how must be a few words"),
    "a field too many": (set_charge(note=1), "charge has a field too many"),
    "a number": (lambda content: content.update(charge=1e-4), "charge must say"),
    "no charge": (lambda content: content.pop("charge"), "not a solution|is not what"),
    "no costs": (lambda content: content.update(costs=None), "charge must say"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_charge_that_lies_is_refused(tmp_path, name):
    """Whatever its fingerprint: figures, readings and words are checked."""
    change, words = LIES[name]
    path = tmp_path / "design.json"
    made().save(path, models=False)
    rewrite(path, lambda content: None)
    assert us.load_design(path).charge == made().charge
    rewrite(path, change)
    with pytest.raises(StoredFileError, match=words):
        us.load_design(path)


def test_a_kernel_that_forgets_the_residual_is_refused(tmp_path):
    """One that keeps the budget by itself, and not with what the models give away."""
    path = tmp_path / "design.json"
    for demand in ({"leakage": 0.3}, {"error_at_least": 0.2}):
        greedy = made((None, None), **demand).randomizer.counts.tolist()
        made(**demand).save(path, models=False)
        rewrite(path, lambda content, kernel=greedy: content.update(kernel=kernel))
        with pytest.raises(StoredFileError, match=r"not a solution|does not keep"):
            us.load_design(path)


def test_the_card_of_a_stored_design(tmp_path, capsys):
    """The command line shows the residual."""
    from understudy.cli.design_commands import show

    made().save(tmp_path / "design.json", models=False)
    show(tmp_path / "design.json", False, None)
    assert "Residual         1e-4 nats over 50 readings (rounded readings)" in capsys.readouterr().out
