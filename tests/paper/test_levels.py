"""Five levels of occupancy: golden values, the three bounds in their order, and the whole card."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import ALPHA
from paper_golden import GOLDEN
from scipy.stats import binomtest

import understudy as us
from understudy.paper import setting as room
from understudy.paper import tradeoff
from understudy.paper.setting import Settings


@pytest.fixture(scope="module")
def outcome():
    return tradeoff.compute_levels(Settings(quick=True))


@pytest.fixture(scope="module")
def design():
    family = room.family(tradeoff.VALUES)
    return us.design(family, tradeoff.PSEUDO, leakage="20%", horizon=room.HORIZON, distortion="mae")


def test_the_numbers_are_the_golden_ones(outcome):
    for name, (value, tolerance) in GOLDEN["levels"].items():
        assert outcome.numbers[name] == pytest.approx(value, abs=tolerance), name


@pytest.mark.long(seconds=1, reason="a result of the paper in full")
def test_quick_and_full_find_the_same(outcome):
    full = tradeoff.compute_levels(Settings())
    assert {**full.numbers, "points": 0} == {**outcome.numbers, "points": 0}
    assert full.numbers["points"] > 60


def test_the_three_bounds_stand_in_their_order_and_the_papers_says_something(outcome):
    n = outcome.numbers
    for share in tradeoff.SHARES:
        # Theorem 3 with its one bit in nats
        paper = (math.log(5) - share / 100 * math.log(5) - math.log(2)) / math.log(5)
        assert n[f"fano_paper_{share}"] == pytest.approx(paper, abs=1e-9)
        assert 0.0 < n[f"fano_paper_{share}"] < n[f"fano_{share}"] < n[f"bayes_error_{share}"] < 0.8
        # h(e) + e ln(m - 1) = H - I_0
        e = n[f"fano_{share}"]
        h = -e * math.log(e) - (1 - e) * math.log(1 - e)
        assert h + e * math.log(4) == pytest.approx(math.log(5) - n[f"leakage_{share}"], abs=1e-9)


def test_who_sees_the_pseudo_value_is_wrong_as_often_as_stated(design):
    """The best guess, simulated (binomial, false alarm 1e-6); a guess that takes the draw at its word is worse."""
    rng, n, P = np.random.default_rng(2), 100_000, design.randomizer.kernel
    theta = rng.integers(5, size=n)
    drawn = (rng.random(n)[:, None] > np.cumsum(P, axis=1)[theta]).sum(axis=1)
    wrong = int((P.argmax(axis=0)[drawn] != theta).sum())
    assert binomtest(wrong, n, design.guarantee.bayes_error).pvalue > ALPHA
    blind = int((rng.permutation(P.argmax(axis=0)[drawn]) != theta).sum())
    assert binomtest(blind, n, design.guarantee.bayes_error).pvalue < ALPHA


def test_values_between_the_private_ones_bring_nothing(design):
    """They cost what their neighbours cost on average, so they can be left out of the offer."""
    assert not design.randomizer.kernel[:, 1::2].any()
    family = room.family(tradeoff.VALUES)
    without = us.design(family, tradeoff.VALUES, leakage="20%", horizon=room.HORIZON, distortion="mae")
    assert without.distortion == pytest.approx(design.distortion, rel=1e-9)
    cost = design.cost
    np.testing.assert_allclose(cost[:, 1::2], 0.5 * (cost[:, :-1:2] + cost[:, 2::2]), rtol=1e-9, atol=1e-9)


def test_the_whole_card_is_told(outcome, design):
    text = [cell for table in outcome.tables for row in table.rows for cell in row]
    g = design.guarantee
    for measure in g.measures:
        assert measure.shown in text
    for line in (*g.conditions, g.against, *g.not_protected):
        assert line in text
    assert any(g.headline in paragraph for paragraph in outcome.paragraphs)
    for table in outcome.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_the_table_has_every_tenth_percent(outcome):
    assert [row[0] for row in outcome.tables[0].rows] == [str(share) for share in range(0, 101, 10)]
    assert [row[-1] == "nothing" for row in outcome.tables[0].rows] == [share >= 60 for share in range(0, 101, 10)]


def test_the_figures_have_units(outcome):
    figure = outcome.pictures["levels"]()
    assert figure.axes[0].get_ylabel() == "mean absolute distortion (ppm)"
    assert figure.axes[1].get_ylabel() == "wrong guesses, at least (%)"
    drawn = [line for line in figure.axes[1].lines if line.get_label() == "the paper's Fano bound"]
    assert drawn[0].get_xdata().max() < math.log(2.5)  # not drawn where it says nothing
    figure.canvas.draw()
    outcome.pictures["levels_randomizer"]().canvas.draw()
