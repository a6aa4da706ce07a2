"""Figures: onto the axes given, with the numbers of the design in them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats
from helpers import room
from matplotlib.figure import Figure

import understudy as us
from understudy.distortion.costs import Costs

EXAMPLE = Path(__file__).parent.parent / "examples" / "occupancy.py"

PSEUDO = [0, 0.2, 0.4, 0.6, 0.8, 1]


@pytest.fixture(scope="module")
def curve():
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    return us.frontier(family, PSEUDO, horizon=50, distortion="mae", leakages=[0.6, 0, 0.3, "100%"])


@pytest.fixture(scope="module")
def simulated():
    """A curve whose distortions are known to a standard error only."""

    def model(value):
        return us.AutoRegressive([0.5], intercept=value, noise=us.Scalar(scipy.stats.t(5, scale=1.0 + 0.2 * value)))

    family = us.Family(model, values=[1, 2])
    return us.frontier(family, horizon=5, distortion="mae", accuracy=0.05, leakages=[0.0, 0.2, 0.4])


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return [text.get_text() for text in beside(ax).get_legend().get_texts()]


def beside(ax):
    """The axes on the right, or where there are none the axes themselves."""
    return next((other for other in ax.figure.axes if other.get_label() == "errors"), ax)


def band(ax, label):
    """Lower and upper edge of a band at each leakage."""
    (found,) = [part for part in ax.collections if part.get_label() == label]
    corners = found.get_paths()[0].vertices
    return {x: (corners[corners[:, 0] == x, 1].min(), corners[corners[:, 0] == x, 1].max()) for x in corners[:, 0]}


def test_the_frontier_is_drawn_onto_the_axes_given_in_order_of_leakage(curve, ax):
    """The same axes come back; the curve holds budgets and distortions, sorted."""
    assert us.report.plot_frontier(curve, ax) is ax
    line = ax.lines[0]
    order = np.argsort(curve.leakages)
    np.testing.assert_array_equal(line.get_xdata(), curve.leakages[order])
    np.testing.assert_array_equal(line.get_ydata(), curve.distortions[order])
    assert line.get_ydata()[1] == pytest.approx(17.3458539)
    assert ax.get_xlabel() == "leakage (nats)"
    assert ax.get_ylabel() == "mean absolute distortion"


def test_the_errors_have_an_axis_of_their_own(curve, ax):
    """In percent; the room's at 0.3 nats is 13.36."""
    us.report.plot_frontier(curve, ax)
    assert beside(ax) is not ax
    (line,) = beside(ax).lines
    np.testing.assert_allclose(line.get_ydata(), 100.0 * np.sort(curve.errors)[::-1])
    assert line.get_ydata()[1] == pytest.approx(13.3586, abs=1e-4)


def test_without_errors_there_is_one_axis(curve, ax):
    """And the legend says nothing of guesses."""
    us.report.plot_frontier(curve, ax, errors=False)
    assert beside(ax) is ax
    assert not any("guess" in name for name in labels(ax))


def test_relative_distortion_is_in_percent_of_the_mean_reading(curve, ax):
    """The room's mean reading is 100, so the paper's figure has 17.35 percent."""
    us.report.plot_frontier(curve, ax, relative=True)
    assert ax.lines[0].get_ydata()[1] == pytest.approx(17.3458539)
    assert "% of the mean reading" in ax.get_ylabel()


def test_relative_to_nothing_is_refused(ax):
    """Readings with mean zero have no level to relate to."""
    family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[-1, 1])
    flat = us.frontier(family, distortion="mae", leakages=[0.1])
    with pytest.raises(us.errors.DesignError, match="no mean other than zero"):
        us.report.plot_frontier(flat, ax, relative=True)


def test_the_upper_axis_is_the_share_of_the_entropy(curve, ax):
    """A fair coin has ln 2 nats, which are 100 percent."""
    us.report.plot_frontier(curve, ax)
    (above,) = ax.child_axes
    there, back = above._functions
    assert there(math.log(2.0)) == pytest.approx(100.0)
    assert back(50.0) == pytest.approx(math.log(2.0) / 2.0)


def test_saturation_is_marked_where_the_curve_reaches_it(curve, ax):
    """A line at ln 2; none on a curve that ends before."""
    us.report.plot_frontier(curve, ax)
    assert ax.lines[1].get_xdata() == pytest.approx([math.log(2.0)] * 2)
    assert "saturation, 0.6931 nats" in labels(ax)
    short = type(curve)([curve[1], curve[2]], curve.saturation)
    us.report.plot_frontier(short, other := Figure().subplots())
    assert not any("saturation" in name for name in labels(other))


def test_a_simulated_distortion_has_its_band(simulated, ax):
    """Two standard errors to each side; exact distortions have none."""
    us.report.plot_frontier(simulated, ax)
    edges = band(ax, "two standard errors")
    for design in simulated.designs:
        assert design.distortion_error > 0.0
        low, high = edges[design.budget]
        assert (high - low) / 4.0 == pytest.approx(design.distortion_error)


def test_a_relative_band_knows_that_the_mean_reading_is_uncertain_too(simulated, ax):
    """It is no narrower than that of the distortion alone."""
    us.report.plot_frontier(simulated, ax, relative=True)
    design = simulated[1]
    low, high = band(ax, "two standard errors")[0.2]
    mean, error = design.costs.mean_reading, design.costs.mean_reading_error
    wanted = 100.0 / mean * (design.distortion_error + design.distortion * error / mean)
    assert (high - low) / 4.0 == pytest.approx(wanted)


def test_exact_curves_have_no_bands(curve, ax):
    """Neither of errors nor of what is not proven: the gap is closed."""
    us.report.plot_frontier(curve, ax)
    assert not ax.collections


def test_a_gap_that_can_be_seen_is_drawn(curve, ax):
    """From the lower bound to the curve."""
    from dataclasses import replace

    design = curve[2]
    loose = type(curve)([curve[1], replace(design, lower_bound=0.9 * design.distortion)], curve.saturation)
    us.report.plot_frontier(loose, ax)
    assert band(ax, "down to what is proven")[0.3] == pytest.approx((0.9 * design.distortion, design.distortion))


def test_one_design_without_leakage_and_a_budget_without_end_are_drawn(ax):
    """Figures at the edges have finite scales."""
    family = us.Family(room, values=[0, 1])
    for leakages in ([0.0], [math.inf], [0.1, math.inf]):
        drawn = us.report.plot_frontier(us.frontier(family, horizon=5, leakages=leakages), Figure().subplots())
        assert np.isfinite(drawn.get_xlim()).all()
        assert np.isfinite(drawn.lines[0].get_xdata()).all()
    certain = us.frontier(us.Family(room, values=[1]), pseudo=[0, 1], horizon=5)
    assert us.report.plot_frontier(certain, ax) is ax


def test_the_kernel_has_its_probabilities_written_in(ax):
    """Rows are private values with their odds, columns pseudo values; never is not rounded from rarely."""
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    design = us.design(family, PSEUDO, leakage=0.3, horizon=50, distortion="mae")
    assert us.report.plot_kernel(design, ax) is ax
    np.testing.assert_array_equal(ax.images[0].get_array(), design.randomizer.kernel)
    written = [text.get_text() for text in ax.texts]
    assert written == ["0.866", "0", "0", "0", "0", "0.134", "0.134", "0", "0", "0", "0", "0.866"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0  (50%)", "1  (50%)"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


def test_a_large_kernel_has_a_scale_instead_of_numbers(ax):
    """Thirty columns of numbers could not be read."""
    x = np.linspace(0.0, 1.0, 30)
    us.report.plot_kernel(us.solve((x[:, None] - x) ** 2, leakage=1.0), ax)
    assert not ax.texts
    assert [other.get_ylabel() for other in ax.figure.axes] == ["private value (odds)", "probability"]


def test_costs_are_written_in_and_forbidden_pairs_masked(ax):
    """Infinite is a sign, not a colour."""
    matrix = np.array([[0.0, 3.0, np.inf], [2.0, 0.0, 1.0]])
    found = matrix, np.zeros((2, 3)), np.full((2, 3), "exact"), None
    costs = Costs(*found, 1.0, 0.0, None, "huber", ("a", "b"), (1, 2, 3), 0)
    assert us.report.plot_costs(costs, ax) is ax
    assert [text.get_text() for text in ax.texts] == ["0", "3", "∞", "2", "0", "1"]
    assert np.ma.getmaskarray(ax.images[0].get_array()).tolist() == [[False, False, True], [False] * 3]
    assert ax.get_title() == "distortion (huber), stationary"


def test_simulated_costs_carry_their_errors(simulated, ax):
    """A cost by Monte Carlo is written with its standard error, an exact zero without."""
    us.report.plot_costs(simulated[0].costs, ax)
    written = [text.get_text() for text in ax.texts]
    assert "s.e." not in written[0]
    assert "\n(s.e. " in written[1]


def test_every_figure_can_have_axes_of_its_own(curve):
    """And is drawn to the end without a warning."""
    for function, what in (
        (us.report.plot_frontier, curve),
        (us.report.plot_kernel, curve[0]),
        (us.report.plot_costs, curve[0].costs),
    ):
        drawn = function(what)
        drawn.figure.canvas.draw()
        plt.close(drawn.figure)


def test_without_matplotlib_the_figure_says_how_to_install_it(curve, monkeypatch):
    """All three, and not before something is drawn."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for function, what in (
        (us.report.plot_frontier, curve),
        (us.report.plot_kernel, curve[0]),
        (us.report.plot_costs, curve[0].costs),
    ):
        with pytest.raises(us.errors.MissingExtraError, match="pip install matplotlib"):
            function(what)


def test_loading_the_package_of_figures_does_not_load_matplotlib():
    """It comes with the first figure."""
    code = "import sys, understudy as us; us.report.plot_kernel; print('matplotlib' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


@pytest.mark.long(seconds=4, reason="a process that imports the plotting library")
def test_the_example_runs_and_writes_its_figure(tmp_path):
    """The script of the documentation: a card on the screen, a figure in a file."""
    told = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "occupancy.svg")], capture_output=True, text=True, timeout=120
    )
    assert told.returncode == 0, told.stderr
    assert "PRIVACY CARD" in told.stdout
    assert (tmp_path / "occupancy.svg").read_text().startswith("<?xml")
