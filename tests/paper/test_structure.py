"""Diagrams say what ran, with the sizes that were there, and nothing in them overlaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from scipy import stats

import understudy as us
from understudy.paper.examples import compute_structure as compute
from understudy.paper.examples import office, structure
from understudy.paper.setting import Settings, room
from understudy.report.figures import plot_predictors, plot_sensor, plot_transformation, ran
from understudy.transform.kalman_pair import gains, scalar_gains


@pytest.fixture(scope="module")
def outcome():
    return compute(Settings(quick=True))


def words(ax):
    return [text.get_text() for text in ax.texts]


def overlaps(figure):
    """Pairs of texts whose boxes meet, and texts in a box that reach out of it."""
    figure.canvas.draw()
    (ax,) = figure.axes
    texts = [(text.get_text(), text.get_window_extent()) for text in ax.texts if text.get_text()]
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    bad = [(a, b) for (a, one), (b, two) in itertools.combinations(texts, 2) if one.overlaps(two)]
    for name, extent in texts:
        for box in boxes:
            inside = box.x0 <= extent.x0 and extent.x1 <= box.x1 and box.y0 <= extent.y0 and extent.y1 <= box.y1
            if extent.overlaps(box) and not inside:
                bad.append((name, "its box"))
    return bad


@pytest.mark.long(seconds=3, reason="draws a figure and measures every letter")
def test_no_text_overlaps_another_or_leaves_its_box(outcome):
    """In every diagram of the report, at its own size."""
    assert len(outcome.pictures) == 7
    for name, draw in outcome.pictures.items():
        assert overlaps(draw()) == [], name


@pytest.mark.sample(default=1, seconds=5, reason="two figures, drawn and measured")
@pytest.mark.parametrize("size", [(5.0, 2.5), (16.0, 9.0)])
def test_letters_follow_the_size_of_the_axes_given(size):
    """Small and large axes of a user's own."""
    found = structure(Settings(quick=True))
    for plot, what in ((plot_sensor, found.design), (plot_transformation, found.office), (plot_predictors, found.room)):
        figure = Figure(figsize=size)
        plot(what, figure.subplots())
        assert overlaps(figure) == []


def test_the_check_for_overlaps_sees_one():
    """The twin: a second text on top of the first is found."""
    figure = plot_sensor(structure(Settings(quick=True)).design, Figure(figsize=(10, 2)).subplots()).figure
    text = figure.axes[0].texts[0]
    figure.axes[0].text(*text.get_position(), "on top")
    assert overlaps(figure)


def test_sizes_are_those_of_the_design_and_of_the_gain_tables(outcome):
    """Numbers in boxes come from the objects, not from the drawing."""
    found = structure(Settings(quick=True))
    rows = scalar_gains(room(1)).rows
    assert any(f"gain table: {rows} rows" in line for line in found.room.source.lines)
    assert any(f"gain table: {gains(office(True)).rows} rows" in line for line in found.office.source.lines)
    assert found.office.source.lines[0] == "4 states"
    assert found.office.target.lines[0] == "3 states"
    assert (outcome.numbers["m"], outcome.numbers["n"]) == (2, 6)
    assert outcome.numbers["leakage"] == pytest.approx(0.3, abs=1e-9)
    assert outcome.numbers["distortion"] == pytest.approx(17.346, abs=1e-3)
    assert "kernel P: 2 private x 6 pseudo values, 2 in use" in words(outcome.pictures["structure-filter"]().axes[0])


def test_the_engine_is_the_one_that_ran():
    """Scalar, matrix, carried along a path, and a model's own methods."""
    found = structure(Settings(quick=True))
    assert found.room.engine.startswith("scalar loop")
    assert found.office.engine.startswith("matrix loop")
    assert (found.schedule.on_tables, found.schedule.carried) == (0, 240)
    assert not found.fan.gauss_markov
    assert found.fan.source.lines == ("score by the model's own methods (Markov)",)


def test_a_gap_throws_the_gains_off_the_tables():
    """A missing reading shows: some readings have their covariances carried along, until the tables serve again."""
    Y = us.sample(room(1), 200, rng=1)
    Y[20:40] = np.nan
    seen = ran(us.Transform(room(1), room(0.6)), Y)
    assert seen.carried >= 20
    assert seen.on_tables >= 100
    assert seen.on_tables + seen.carried == 200


def test_a_chain_shows_all_its_links():
    """An autoregression with heavy tails: nothing missing, a predictor, then one law for every innovation."""
    source = us.AutoRegressive([0.5, 0.2], noise=us.Scalar(stats.t(4)))
    seen = ran(us.Transform(source, us.IID(us.Gaussian(0.0, 1.0))), us.sample(source, 30, rng=1))
    assert seen.source.lines == (
        "check that none is missing",
        "Kalman predictor, 2 states",
        "score by one law for all readings",
    )
    assert seen.target.lines == ("value by one law for all readings",)
    figure = Figure(figsize=(12, 4))
    plot_transformation(seen, figure.subplots())
    assert overlaps(figure) == []
