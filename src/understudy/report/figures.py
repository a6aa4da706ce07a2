"""Figures with matplotlib (the extra `plot`): of designs, of what adversaries learn, and of readings over time.

Each function draws onto the axes that it is given, or onto a figure of its own, and returns the axes. Colours follow
Paul Tol's schemes; lines differ in dashes and markers as well, so that they can be distinguished without colour.

- Designs: `plot_frontier`, `plot_bounds`, `plot_kernel`, `plot_costs`.
- Comparisons of `Line`, points with a name and perhaps standard errors: exact against simulated, the filter against
  noise, bound against bound.
- Adversaries: an `ErrorCurve` holds counts, not rates, so that every point has its exact binomial confidence band and a
  test can ask whether so few wrong guesses could come by chance; `plot_audit` draws an audit.
- Readings over time: `Trace` and `plot_traces`, `plot_series`.
- Diagnostics: if a model is right, the scores of its readings are independent standard normals, and the sum of their
  squares at one step, the *normalised innovation squared* (NIS), is chi-square.

>>> from matplotlib.figure import Figure
>>> lines = [Line("filter", [10, 100], [8.0, 22.0]), Line("noise", [10, 100], [54.0, 590.0])]
>>> ax = plot_costs_over_time(lines, Figure().subplots(), unit="ppm")
>>> ax.get_ylabel(), ax.get_yscale(), [text.get_text() for text in ax.get_legend().get_texts()]
('mean absolute distortion (ppm)', 'log', ['filter', 'noise'])
>>> bounds = Bounds(np.array([0.3]), exact=np.array([0.1336]), fano=np.array([0.1336]), fano_paper=np.array([-0.43]))
>>> curve = ErrorCurve(1000, {"best": np.array([131])}, bounds)
>>> curve.rates("best").tolist(), [round(float(x[0]), 3) for x in curve.band("best")]
([0.131], [0.105, 0.161])
>>> true = Trace("true", np.array([100.0, 105.0, 109.8]))
>>> out = Trace("disguised", np.array([100.0, 101.0, 102.0]), colour=ROSE, dashes="dashed")
>>> ax = plot_traces([true, out], Figure().subplots(), ylabel="CO2 (ppm)")
>>> ax.lines[1].get_xdata().tolist(), ax.get_xlabel()
([1, 2, 3], 'reading k')

The paper's block diagrams are drawn from what runs: which stages a transformation has, and how large they are. `ran`
sends readings through a transformation, one by one, and notes which engine took them: a pair of Kalman predictors on
gain tables (a scalar loop for one state and one channel, otherwise a matrix loop), the same with covariances carried
along (after a gap, or when the system changes with time), or a chain of maps that whiten and colour by a model's own
methods. The drawings then show these stages with their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Frozen
from understudy.adversaries.results import Audit
from understudy.distortion.costs import MONTE_CARLO, Costs
from understudy.errors import ConfigurationError, DesignError, MissingExtraError
from understudy.randomizer.design import Design
from understudy.randomizer.frontier import Frontier
from understudy.randomizer.measures import entropy
from understudy.report.facts import audit_guides, audit_lines
from understudy.report.svg import probability
from understudy.text import DATA_SHORT, label
from understudy.transform.backend import compiled
from understudy.transform.core import Chain, Emit, NothingMissing, Score, ScoreEach, Transform, ValueEach
from understudy.transform.kalman_pair import Pair, Side, white

# Colours and axes -----------------------------------------------------------------------------------------------------


Axes = Any  # matplotlib's, which is not there for everybody

# After Paul Tol's schemes. No two meanings differ by colour alone: lines differ in their dashes and markers too.
BLUE, ROSE, GREY = "#4477aa", "#cc6677", "#777777"
_GREEN, _BLACK = "#228833", "#222222"
_BAND, _RULE = "#d5d5d5", "#888888"  # what chance alone would fill, and thin lines for orientation
_BESIDE = {"framealpha": 0.9, "edgecolor": "none"}  # a legend over lines

# What the distortions with names are called on an axis.
_DISTORTIONS = {"mae": "mean absolute distortion", "mse": "mean squared distortion"}


def axes(ax: Axes | None) -> Axes:
    """The axes given, or new ones in a figure of their own."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("a figure needs matplotlib (the extra `plot`): pip install matplotlib") from None
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _finish(ax: Axes, **legend: Any) -> Axes:
    """No frame above and on the right, and a legend."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**legend)
    return ax


def distortion_label(name: str | None) -> str:
    """What stands on an axis of distortions; `name` is that of the measure, None for bare costs.

    >>> distortion_label("mae"), distortion_label("huber"), distortion_label(None)
    ('mean absolute distortion', 'distortion (huber)', 'distortion')
    """
    return "distortion" if name is None else _DISTORTIONS.get(name, f"distortion ({name})")


# The trade-off --------------------------------------------------------------------------------------------------------


# A gap between curve and lower bound is drawn from this share of the height of the figure on.
_VISIBLE = 2e-3
# Up to so many designs each has its dot.
_FEW = 12
# Saturation is marked if it is within this many times the largest leakage.
_WITHIN = 1.001


def plot_frontier(frontier: Frontier, ax: Axes | None = None, relative: bool = False, errors: bool = True) -> Axes:
    """Distortion against leakage, and beside it the probability with which every guess is wrong.

    The lower axis is in nats, the upper one in percent of the entropy, that is of all there is to know.
    `relative` shows the distortion in percent of the mean reading, as the paper does. `errors` adds a second axis on
    the right with the error of the best guess. Where they can be seen, two bands are drawn: what lies between
    the curve and its proven lower bound, and two standard errors to each side of a distortion that was simulated.
    A vertical line marks saturation, from where on a larger leakage gains nothing.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> curve = us.frontier(family, distortion="mae", leakages=["0%", "50%", "100%"])
    >>> ax = us.report.plot_frontier(curve, Figure().subplots())
    >>> ax.lines[0].get_ydata().round(4).tolist()
    [1.5, 0.3301, 0.0]
    """
    ax = axes(ax)
    order = np.argsort(frontier.leakages, kind="stable")
    # no budget at all is one at saturation
    most = max([frontier.saturation, *frontier.leakages[np.isfinite(frontier.leakages)].tolist()])
    x = np.minimum(frontier.leakages, most)[order]
    scale = _scale(frontier, relative)
    y, low = scale * frontier.distortions[order], scale * frontier.lower_bounds[order]
    top = float(y.max()) or 1.0
    right = float(x.max()) or frontier.saturation or 1.0

    marker = "o" if len(x) <= _FEW else ""
    shown = [ax.plot(x, y, color=BLUE, lw=1.8, marker=marker, ms=4, label="distortion", zorder=3)[0]]
    if (y - low).max() > _VISIBLE * top:
        shown.append(ax.fill_between(x, low, y, color=BLUE, alpha=0.3, lw=0, label="down to what is proven"))
    if _is_simulated(frontier):
        error = _error(frontier, relative)[order]
        band = ax.fill_between(x, y - 2.0 * error, y + 2.0 * error, color=GREY, alpha=0.4, lw=0)
        band.set_label("two standard errors")
        shown.append(band)
    if 0.0 < frontier.saturation <= _WITHIN * right:
        line = ax.axvline(frontier.saturation, color=GREY, lw=1.0, ls=(0, (1, 2)), zorder=1)
        line.set_label(f"saturation, {frontier.saturation:.4g} nats")
        shown.append(line)

    label = distortion_label(None if frontier[0].costs is None else frontier[0].costs.distortion)
    ax.set_xlabel("leakage (nats)")
    ax.set_ylabel(label + (", % of the mean reading" if relative else ""))
    # a little air, so that curves that end on an axis are seen whole
    ax.set(xlim=(-0.01 * right, 1.02 * right), ylim=(-0.015 * top, 1.06 * top))
    ax.spines[["top", "right"]].set_visible(False)
    _share_axis(ax, entropy(frontier[0].prior))
    beside = _error_axis(ax, x, 100.0 * frontier.errors[order], marker) if errors else None
    if beside is not None:
        shown.insert(1, beside.lines[0])
    # on the axes on top, over the lines
    (beside or ax).legend(handles=shown, loc="upper right", **_BESIDE)
    return ax


def _scale(frontier: Frontier, relative: bool) -> float:
    """What a distortion is multiplied by to be shown."""
    if not relative:
        return 1.0
    costs = frontier[0].costs
    mean = float("nan") if costs is None else abs(costs.mean_reading)
    if not mean > 0.0:
        raise DesignError("relative=True; these readings have no mean other than zero to relate a distortion to")
    return 100.0 / mean


def _is_simulated(frontier: Frontier) -> bool:
    return any(
        design.distortion_error > 0.0 and design.costs is not None and bool((design.costs.method == MONTE_CARLO).any())
        for design in frontier.designs
    )


def _error(frontier: Frontier, relative: bool) -> Array:
    """Standard errors as they are shown: those of distortion and mean reading go together, so they are added up."""
    error, costs = frontier.distortion_errors, frontier[0].costs
    if relative and costs is not None:
        error = error + frontier.distortions * costs.mean_reading_error / abs(costs.mean_reading)
    return error * _scale(frontier, relative)


def _share_axis(ax: Axes, H: float) -> None:
    """A second scale above: the leakage in percent of the entropy."""
    if H <= 0.0:
        return
    above = ax.secondary_xaxis("top", functions=(lambda x: 100.0 * x / H, lambda share: share * H / 100.0))
    above.set_xlabel("leakage (% of the entropy)")


def _error_axis(ax: Axes, x: Array, percent: Array, marker: str) -> Axes:
    """A second axis on the right: how often the best guess is wrong.

    Its scale goes on above the curve. With two values the two curves have the same form, and one scale for both
    would draw them on top of each other.
    """
    beside = ax.twinx()
    beside.set_label("errors")
    dashes = {"color": ROSE, "lw": 1.6, "ls": (0, (5, 2)), "marker": marker, "ms": 4}
    beside.plot(x, percent, label="wrong guesses, at least", **dashes)
    most = min(100.0, 1.6 * float(percent.max())) or 1.0
    beside.set(ylim=(-0.015 * most, 1.06 * most), ylabel="wrong guesses, at least (%)")
    beside.spines[["top", "left"]].set_visible(False)
    for side, axis, colour in (("left", ax, BLUE), ("right", beside, ROSE)):
        axis.yaxis.label.set_color(colour)
        axis.spines[side].set_color(colour)
        axis.tick_params(axis="y", colors=colour)
    return beside


# Comparisons ----------------------------------------------------------------------------------------------------------


# After Paul Tol's bright scheme; each has dashes and a marker of its own as well.
_STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "ls": "-", "marker": "o"},
    {"color": ROSE, "ls": (0, (5, 2)), "marker": "s"},
    {"color": _GREEN, "ls": (0, (5, 2, 1, 2)), "marker": "^"},
    {"color": "#aa7700", "ls": (0, (1, 1.5)), "marker": "D"},
    {"color": GREY, "ls": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
)


class Line(Frozen):
    """Points (x, y) with a name; `error` are the standard errors of y, and `marked` the x that get a marker."""

    __slots__ = ("error", "label", "marked", "x", "y")

    def __init__(
        self, label: str, x: ArrayLike, y: ArrayLike, error: ArrayLike | None = None, marked: Iterable[float] = ()
    ) -> None:
        self.label = label
        self.x, self.y = np.array(x, dtype=float), np.array(y, dtype=float)
        self.error = None if error is None else np.array(error, dtype=float)
        self.marked = tuple(float(value) for value in marked)
        if self.x.ndim != 1 or not self.x.size:
            raise DesignError(f"line {label!r} has points of shape {self.x.shape}; it must be (n,), with n at least 1")
        for array in (self.y, self.error):
            if array is not None and array.shape != self.x.shape:
                raise DesignError(f"line {label!r} has {self.x.size} points x and {array.size} of y or error")

    def __repr__(self) -> str:
        return f"Line({self.label!r}, {self.x.size} points)"


def panels(columns: int = 1, width: float = 6.4, height: float = 4.6) -> tuple[Any, list[Axes]]:
    """A new figure with axes side by side, each of this width and height in inches.

    >>> figure, axes = panels(2)
    >>> len(axes)
    2
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a figure needs matplotlib (the extra `plot`): pip install matplotlib") from None
    figure = Figure(figsize=(columns * width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def plot_checked_frontier(frontier: Frontier, points: Line, ax: Axes | None = None, relative: bool = False) -> Axes:
    """The exact trade-off with simulated points on top, two standard errors to each side.

    `points` are leakages in nats and distortions in the frontier's own unit; with `relative` both are shown
    in percent of the mean reading, as in `plot_frontier`.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> curve = us.frontier(family, distortion="mae", leakages=["0%", "50%", "100%"])
    >>> ax = plot_checked_frontier(curve, Line("simulated", [0.0], [1.52], [0.02]), Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['distortion', 'saturation, 0.6931 nats', 'simulated']
    """
    ax = plot_frontier(frontier, ax, relative=relative, errors=False)
    costs = frontier[0].costs
    scale = 100.0 / abs(costs.mean_reading) if relative and costs is not None else 1.0
    error = None if points.error is None else 2.0 * scale * points.error
    shown = ax.errorbar(points.x, scale * points.y, error, fmt="D", ms=5, color=ROSE, mfc="white", mew=1.4, capsize=3)
    shown.set_label(points.label)
    for part in (shown[0], *shown[1], *shown[2]):
        part.set_zorder(4)
        part.set_clip_on(False)
    old = ax.get_legend().legend_handles
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    ax.legend([*old, shown], [*names, points.label], loc="upper right", **_BESIDE)
    return ax


def add_root_axis(ax: Axes, mean: float) -> Axes:
    """A second scale on the right of squared distortions: their square root, in percent of `mean`.

    >>> from matplotlib.figure import Figure
    >>> add_root_axis(Figure().subplots(), 100.0).get_ylabel()
    'root mean square distortion, % of the mean reading'
    """

    def root(square: ArrayLike) -> Array:
        # a scale starts a little below zero
        return np.asarray(100.0 / mean * np.sign(square) * np.sqrt(np.abs(square)))

    def square(root: ArrayLike) -> Array:
        return np.asarray(np.sign(root) * (mean / 100.0 * np.asarray(root)) ** 2)

    beside = ax.secondary_yaxis("right", functions=(root, square))
    low, high = ax.get_ylim()
    # a root crowds its ticks near zero: those without room are left out
    ticks = [0.0]
    for tick in beside.yaxis.get_major_locator().tick_values(0.0, root(high)):
        if 0.05 * (high - low) < square(tick) - square(ticks[-1]) and square(tick) <= high:
            ticks.append(float(tick))
    beside.set_yticks(ticks)
    beside.set_ylabel("root mean square distortion, % of the mean reading")
    return beside


def plot_costs_over_time(lines: Iterable[Line], ax: Axes | None = None, unit: str = "") -> Axes:
    """Distortion against the number of readings, one line a mechanism, both axes logarithmic."""
    ax = _over_time(_lines(axes(ax), lines))
    ax.set_ylabel("mean absolute distortion" + (f" ({unit})" if unit else ""))
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend above lines that rise
    ax.legend(loc="upper left", **_BESIDE)
    return ax


def _over_time(ax: Axes) -> Axes:
    ax.set(xscale="log", yscale="log", xlabel="number of readings T")
    ax.grid(which="major", color="#dddddd", lw=0.6)
    return ax


def plot_errors_over_time(
    lines: Iterable[Line], ax: Axes | None = None, blind: float | None = None, least: float = 1e-6
) -> Axes:
    """How often the best adversary is wrong against the number of readings, one line a mechanism.

    `blind` is the error of a guess without the readings; errors below `least` fall off the scale.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_errors_over_time([Line("noise", [10, 100], [0.4, 0.01])], Figure().subplots(), blind=0.5)
    >>> [float(limit) for limit in ax.get_ylim()]
    [1e-06, 1.0]
    """
    ax = _lines(axes(ax), lines, blind)
    _over_time(ax).set(ylim=(least, 1.0), ylabel="probability of a wrong guess, best adversary")
    ax.legend(loc="lower left", **_BESIDE)
    return ax


def plot_bounds(frontier: Frontier, ax: Axes | None = None) -> Axes:
    """What each bound says of wrong guesses along a frontier: the exact one, the sharp Fano bound, the paper's.

    A bound that is not positive says nothing, and is not drawn.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1, 2])
    >>> ax = plot_bounds(us.frontier(family, distortion="mae"), Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['best adversary (exact)', 'sharp Fano bound', "the paper's Fano bound", 'blind guess']
    """
    cards = [frontier[k].guarantee for k in np.argsort(frontier.leakages, kind="stable")]
    x = np.array([card.mutual_information for card in cards])
    names = {
        "bayes_error": "best adversary (exact)",
        "fano": "sharp Fano bound",
        "fano_paper": "the paper's Fano bound",
    }
    lines = []
    for name, title in names.items():
        y = 100.0 * np.array([getattr(card, name) for card in cards])
        says = y > 0.0
        if says.any():
            lines.append(Line(title, x[says], y[says]))
    blind = 100.0 * cards[0].prior_error
    ax = _lines(axes(ax), lines, blind)
    right = float(x.max()) or 1.0
    ax.set(xlim=(-0.01 * right, 1.02 * right), ylim=(0.0, 1.06 * blind or 1.0))
    ax.set(xlabel="leakage (nats)", ylabel="wrong guesses, at least (%)")
    return _finish(ax, loc="upper right", bbox_to_anchor=(1.0, 0.93), **_BESIDE)


def _lines(ax: Axes, lines: Iterable[Line], blind: float | None = None) -> Axes:
    """Each line in a style of its own; `blind` is the error of a guess without the readings."""
    for line, style in zip(lines, cycle(_STYLES), strict=False):
        at = [int(np.abs(line.x - x).argmin()) for x in line.marked]
        dots = {} if at else {"marker": ""}
        ax.plot(line.x, line.y, **{**style, **dots}, lw=1.8, ms=6, markevery=at or None, label=line.label, zorder=3)
        if line.error is not None:
            low, high = line.y - 2.0 * line.error, line.y + 2.0 * line.error
            ax.fill_between(line.x, low, high, color=style["color"], alpha=0.25, lw=0)
    if blind is not None:
        ax.axhline(blind, color="#333333", lw=1.0, ls=(0, (1, 3)), zorder=1, label="blind guess")
    return ax


# Errors of adversaries ------------------------------------------------------------------------------------------------


_OPEN = ((ROSE, "^"), (_GREEN, "s"), (BLUE, "o"), ("#aa3377", "D"))


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of every adversary's error at some leakages.

    `exact` is 1 - sum_j max_i p_i P_ij, which nobody goes below; `fano` the sharp Fano bound; `fano_paper` Theorem 3
    with its units right.
    """

    leakages: Array
    exact: Array
    fano: Array
    fano_paper: Array

    @classmethod
    def of(cls, designs: Iterable[Design]) -> Bounds:
        """The bounds of some designs, at their budgets.

        >>> import understudy as us
        >>> bounds = Bounds.of(us.solve(1 - np.eye(2), leakage=budget) for budget in (0.1, 0.3))
        >>> bounds.exact.round(4).tolist()
        [0.2802, 0.1336]
        """
        found = tuple(designs)
        cards = [design.guarantee for design in found]
        named = [np.array([getattr(card, name) for card in cards]) for name in ("bayes_error", "fano", "fano_paper")]
        return cls(np.array([design.leakage if design.budget is None else design.budget for design in found]), *named)


@dataclass(frozen=True)
class ErrorCurve:
    """Wrong guesses of each adversary out of `n` at each leakage of `bounds`, which hold there.

    `lines` are the same bounds at more leakages, to draw them as curves.
    """

    n: int
    wrong: Mapping[str, NDArray[np.int64]]
    bounds: Bounds
    lines: Bounds | None = None

    def rates(self, name: str) -> Array:
        """The share of wrong guesses of an adversary."""
        return np.asarray(self.wrong[name] / self.n)

    def band(self, name: str, confidence: float = 0.99) -> tuple[Array, Array]:
        """Clopper and Pearson's confidence limits of the error probability, at each leakage."""
        from scipy.stats import beta

        w, tail = np.asarray(self.wrong[name]), (1.0 - confidence) / 2.0
        low = np.where(w > 0, beta.ppf(tail, np.maximum(w, 1), self.n - w + 1), 0.0)
        high = np.where(w < self.n, beta.ppf(1.0 - tail, w + 1, np.maximum(self.n - w, 1)), 1.0)
        return low, high

    def chances(self, name: str) -> Array:
        """The chance of so few wrong guesses, or fewer, of somebody whose error is the exact bound.

        One-sided and exact; below a false-alarm rate it says that the adversary beats the bound.
        """
        from scipy.stats import binom

        return np.asarray(binom.cdf(self.wrong[name], self.n, self.bounds.exact))


def plot_errors(curve: ErrorCurve, ax: Axes | None = None, log: bool = True, confidence: float = 0.99) -> Axes:
    """Error probabilities against leakage, with confidence bands; lines for the bounds.

    On a logarithmic scale bounds that are not positive cannot be drawn, and the legend says so.

    >>> from matplotlib.figure import Figure
    >>> import understudy as us
    >>> bounds = Bounds.of(us.solve(1 - np.eye(2), leakage=budget) for budget in (0.0, 0.3))
    >>> curve = ErrorCurve(1000, {"best": np.array([498, 131])}, bounds)
    >>> ax = plot_errors(curve, Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['best', 'exact bound', 'sharp Fano', 'Theorem 3, units right (never positive)']
    """
    ax = axes(ax)
    x = curve.bounds.leakages
    lines = curve.lines or curve.bounds
    floor = 0.2 / curve.n
    for (name, wrong), (colour, marker) in zip(curve.wrong.items(), _OPEN, strict=False):
        low, high = curve.band(name, confidence)
        # on a logarithmic scale a band that reaches down to zero is drawn to the floor of the figure
        ax.fill_between(x, np.maximum(low, floor) if log else low, high, color=colour, alpha=0.25, lw=0)
        seen = np.where(np.asarray(wrong) > 0, curve.rates(name), np.nan) if log else curve.rates(name)
        # open markers of different forms: one that lies on another leaves it to be seen
        style = {"marker": marker, "ms": 5 + 2 * (marker == "o"), "mfc": "none", "mew": 1.2, "ls": "none"}
        ax.plot(x, seen, color=colour, label=name, zorder=3, **style)
    ax.plot(lines.leakages, lines.exact, color=_BLACK, lw=1.2, label="exact bound", zorder=4)
    ax.plot(lines.leakages, lines.fano, color=GREY, lw=3.0, ls=(0, (1, 1.5)), label="sharp Fano", zorder=2)
    drawn = np.where(lines.fano_paper > 0.0, lines.fano_paper, np.nan) if log else lines.fano_paper
    never = " (never positive)" if log and not (lines.fano_paper > 0.0).any() else ""
    ax.plot(lines.leakages, drawn, color=GREY, lw=1.2, ls=(0, (6, 2, 1, 2)), label=f"Theorem 3, units right{never}")
    ax.set(xlabel="leakage $I_0$ (nats)", ylabel="probability of a wrong guess")
    if log:
        ax.set_yscale("log")
        ax.set_ylim(max(floor, 0.3 * float(lines.exact.min())), 1.0)
    else:
        ax.axhspan(-2.0, 0.0, color=GREY, alpha=0.12, lw=0)
        ax.set_ylim(min(-0.05, 1.05 * float(lines.fano_paper.min())), 0.6)
    return _finish(ax, frameon=False, fontsize=8, loc="lower left")


def plot_error_ratios(
    curve: ErrorCurve, names: Iterable[str], ax: Axes | None = None, confidence: float = 0.99
) -> Axes:
    """Errors over the exact bound, with confidence limits: nobody can be below 1 but by chance.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> bounds = Bounds.of([us.solve(1 - np.eye(2), leakage=0.3)])
    >>> ax = plot_error_ratios(ErrorCurve(1000, {"best": np.array([131])}, bounds), ["best"], Figure().subplots())
    >>> ax.get_ylabel()
    'wrong guesses / exact bound'
    """
    ax = axes(ax)
    names = list(names)
    x, exact = curve.bounds.leakages, curve.bounds.exact
    ax.axhline(1.0, color=_BLACK, lw=1.2, label="exact bound")
    styles = dict(zip(curve.wrong, _OPEN, strict=False))
    for place, name in enumerate(names):
        colour, marker = styles[name]
        rate = curve.rates(name) / exact
        low, high = (limit / exact for limit in curve.band(name, confidence))
        # side by side, so that equal results are seen as two
        at = x + 0.006 * (place - (len(names) - 1) / 2.0)
        style = {"marker": marker, "ms": 4, "mfc": "none", "ls": "none", "elinewidth": 1.0, "capsize": 2}
        ax.errorbar(at, rate, (rate - low, high - rate), color=colour, label=name, **style)
    ax.set(xlabel="leakage $I_0$ (nats)", ylabel="wrong guesses / exact bound")
    return _finish(ax, frameon=False, fontsize=8, loc="upper left")


# Matrices as heat maps ------------------------------------------------------------------------------------------------


# Beyond so many rows or columns numbers would not be readable; a scale of colours stands for them.
_WRITTEN = 12
_WIDE = 7
_TICKS = 24
_FAINT = "#8a8a8a"
_COLOURS = "Blues"  # one hue, light to dark: the order is seen without seeing the hue


def plot_kernel(design: Design, ax: Axes | None = None) -> Axes:
    """The randomizer as a map: a row for each private value, with its odds; a column for each pseudo value.

    A 0 is a pair that is never drawn. Up to 12 rows and columns the probabilities are written in, beyond
    that a scale of colours stands for them.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> ax = us.report.plot_kernel(us.solve([[0, 1], [1, 0]], leakage=0.2), Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['0.805', '0.195', '0.195', '0.805']
    """
    P = design.randomizer.kernel
    rows = [f"{label(value)}  ({100.0 * p:.3g}%)" for value, p in zip(design.values, design.prior, strict=True)]
    words = [[probability(x) for x in row] for row in P.tolist()]
    ax = _map(axes(ax), P, words, (rows, list(map(label, design.pseudo))), (0.0, 1.0, "probability"))
    ax.set(xlabel="pseudo value, drawn", ylabel="private value (odds)")
    return ax


def plot_costs(costs: Costs, ax: Axes | None = None) -> Axes:
    """The distortion of each pair as a map; what was simulated has its standard error below it.

    A forbidden pair, of infinite cost, is hatched.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 2])
    >>> ax = us.report.plot_costs(us.costs(family, pseudo=[0, 1, 2], distortion="mae"), Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2', '2', '1', '0']
    """
    L = costs.matrix
    finite = L[np.isfinite(L)]
    top = float(finite.max()) if finite.size else 0.0
    words = [
        [_cost(x, error if method == MONTE_CARLO else 0.0) for x, error, method in zip(*line, strict=True)]
        for line in zip(L.tolist(), costs.error.tolist(), costs.method.tolist(), strict=True)
    ]
    names = list(map(label, costs.values)), list(map(label, costs.pseudo))
    ax = _map(axes(ax), L, words, names, (0.0, top or 1.0, distortion_label(costs.distortion)))
    time = "stationary" if costs.horizon is None else f"over {costs.horizon} readings"
    ax.set(xlabel="pseudo value", ylabel="private value")
    ax.set_title(f"{distortion_label(costs.distortion)}, {time}", fontsize="medium")
    return ax


def _map(
    ax: Axes, matrix: Array, words: list[list[str]], names: tuple[list[str], list[str]], scale: tuple[float, float, str]
) -> Axes:
    """Colours, names and numbers; `scale` is the value of the lightest and of the darkest colour, and its title."""
    low, high, title = scale
    shown = np.ma.masked_invalid(matrix)
    image = ax.imshow(shown, cmap=_COLOURS, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    if shown.mask.any():  # what is masked is not painted, and the ground is seen
        ax.patch.set(hatch="///", facecolor="white", edgecolor="#bbbbbb")
    m, n = matrix.shape
    for axis, labels in ((ax.yaxis, names[0]), (ax.xaxis, names[1])):
        every = -(-len(labels) // _TICKS)
        axis.set_ticks(range(0, len(labels), every), labels[::every])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if max(m, n) > _WRITTEN:
        bar = ax.figure.colorbar(image, ax=ax, label=title)
        bar.outline.set_visible(False)
        return ax
    # white lines between the cells
    ax.set_xticks(np.arange(0.5, n - 1), minor=True)
    ax.set_yticks(np.arange(0.5, m - 1), minor=True)
    ax.grid(which="minor", color="white", lw=2)
    ax.tick_params(which="minor", length=0)
    for i, row in enumerate(words):
        for j, word in enumerate(row):
            dark = np.isfinite(matrix[i, j]) and (matrix[i, j] - low) > 0.6 * (high - low)
            ink = "white" if dark else _FAINT if word == "0" else "#333333"
            ax.text(j, i, word, ha="center", va="center", color=ink, fontsize="medium" if n <= _WIDE else "small")
    return ax


def _cost(x: float, error: float) -> str:
    r"""Three digits, with the standard error if there is one.

    >>> _cost(129.848, 0.0), _cost(0.0, 0.0), _cost(float("inf"), 0.0), _cost(17.3456, 0.021)
    ('130', '0', '∞', '17.35\n(s.e. 0.02)')
    """
    if not np.isfinite(x):
        return "∞"
    if error <= 1e-6 * abs(x):  # rounding, not chance
        return f"{x:.3g}"
    digits = max(0, -int(np.floor(np.log10(error))))
    return f"{x:.{digits}f}\n(s.e. {error:.{digits}f})"


# Readings over time ---------------------------------------------------------------------------------------------------


# Solid lines lie below and are wider, so that a dashed one on the same values leaves both to be seen.
_DASHES: dict[str, dict[str, Any]] = {
    "solid": {"ls": "-", "lw": 1.8, "zorder": 2},
    "dashed": {"ls": (0, (4, 1.5)), "lw": 1.2, "zorder": 3},
    "dotted": {"ls": (0, (1, 1.2)), "lw": 1.4, "zorder": 3},
}


@dataclass(frozen=True)
class Trace:
    """A line over time: its name, its values, and the number of the reading that the first of them belongs to."""

    label: str
    values: Array
    first: int = 1
    colour: str = BLUE
    dashes: str = "solid"


def plot_traces(
    traces: Iterable[Trace], ax: Axes | None = None, ylabel: str = "", levels: Mapping[str, float] | None = None
) -> Axes:
    """Draw lines over the number of the reading; `levels` are thin horizontal lines with their names beside them.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_traces([Trace("estimate", np.ones(3), first=11)], Figure().subplots(), levels={"truth": 1.0})
    >>> [text.get_text() for text in ax.texts], ax.lines[0].get_xdata().tolist()
    (['truth'], [11, 12, 13])
    """
    ax = axes(ax)
    for trace in traces:
        number = np.arange(trace.first, trace.first + len(trace.values))
        ax.plot(number, trace.values, color=trace.colour, label=trace.label, **_DASHES[trace.dashes])
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, lw=0.8, zorder=1)
        # beside the axes, where no line runs through it
        where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        ax.annotate(name, (1.0, level), (4, 0), color="#555555", fontsize=8, annotation_clip=False, **where)
    ax.set(xlabel="reading k", ylabel=ylabel)
    return _finish(ax, frameon=False, fontsize=8)


# Audits ---------------------------------------------------------------------------------------------------------------


_OF_DATA = {
    "disguised": (BLUE, "o", BLUE),
    "insider": (BLUE, ".", BLUE),
    "scores": (GREY, "D", "white"),
    "noise": (GREY, "^", "white"),
    "offset": (GREY, "v", "white"),
    "raw": (ROSE, "s", "white"),
}
_OF_GUIDES = {
    "nothing": (0, (1, 1.5)),
    "without the output": (0, (1, 1.5)),
    "blind": (0, (1, 1.5)),
    "the design's bound": (0, (5, 2)),
    "the clock alone": (0, (5, 2)),
    "oracle": (0, (6, 2, 1, 2)),
}
_NAMES = {
    "balanced": "balanced accuracy",
    "error": "share of wrong guesses",
    "nats": "nats a guess, estimate and interval",
}


def plot_audit(audit: Audit, ax: Axes | None = None, figure: str = "balanced", clock: bool = False) -> Axes:
    """Adversaries one below the other, the strongest first, with their intervals: without the clock, or with it.

    `figure` is "balanced", "error" or "nats". Lines mark what is known without the output, and the design's bound.
    Noise is independent from reading to reading.

    >>> from matplotlib.figure import Figure as Sheet
    >>> from understudy.adversaries.results import Audit, Row
    >>> from understudy.adversaries.statistics import Figure
    >>> half = Figure(0.5, 0.45, 0.55)
    >>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
    >>> ax = plot_audit(Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False), Sheet().subplots())
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('balanced accuracy', ['windowed'])
    """
    if figure not in _NAMES:
        raise ConfigurationError(f"figure = {figure!r}; it must be one of {', '.join(_NAMES)}")
    lines = audit_lines(audit, figure, clock)
    if not lines:
        raise ConfigurationError(f"the audit has no adversaries to draw {'with' if clock else 'without'} the clock")
    ax = axes(ax)
    kinds = [data for data in _OF_DATA if any(data in line.figures for line in lines)]
    for place, data in enumerate(kinds):
        colour, marker, face = _OF_DATA[data]
        points = [(y, line.figures[data]) for y, line in enumerate(lines) if data in line.figures]
        points = [(y, value) for y, value in points if math.isfinite(value.value)]
        # side by side, so that intervals do not hide each other
        at = [y + 0.22 * (place - (len(kinds) - 1) / 2.0) for y, _ in points]
        ends = [[_reach(v.value, v.low) for _, v in points], [_reach(v.high, v.value) for _, v in points]]
        style = {"ls": "none", "marker": marker, "ms": 5, "mfc": face, "mew": 1.2, "elinewidth": 1.4, "zorder": 3}
        ax.errorbar([v.value for _, v in points], at, xerr=ends, color=colour, label=DATA_SHORT[data], **style)
    for guide in audit_guides(audit, figure, clock):
        ax.axvline(guide.at, color=_BLACK, lw=1.0, ls=_OF_GUIDES[guide.name], label=guide.name, zorder=1)
    ax.set_yticks(range(len(lines)), [line.name for line in lines])
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlabel(_NAMES[figure])
    ax.grid(axis="x", color="#dddddd", lw=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    handles, names = ax.get_legend_handles_labels()
    order_of = sorted(range(len(names)), key=lambda k: hasattr(handles[k], "get_linestyle"))  # lines behind
    # above the axes: inside it would lie on somebody's interval
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2, "frameon": False, "fontsize": "small"}
    ax.legend([handles[k] for k in order_of], [names[k] for k in order_of], **above)
    return ax


def _reach(high: float, low: float) -> float:
    return max(0.0, high - low) if math.isfinite(high) and math.isfinite(low) else 0.0


# Diagnostics of scores ------------------------------------------------------------------------------------------------


# Colour, dashes, marker; after Paul Tol's schemes. No two series differ by colour alone.
STYLES: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (ROSE, (0, (5, 2)), "s"),
    (GREY, (0, (1, 1.2)), "^"),
    ("#117733", (0, (6, 1.5, 1, 1.5)), "D"),
    ("#332288", (0, (2, 1)), "v"),
)

# How much of a standard normal is shown, and in how many bars.
_SHOWN, _BARS = 4.5, 46
# Two sides of a normal law hold this share outside so many standard deviations.
_TWO_SIDES = {0.05: 1.959964, 1e-6: 4.891638}


def plot_scores(scores: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Histograms of scores, on the bell curve that they have if the model is right.

    The share that lies outside -4.5 .. 4.5 stands in the legend, where there is any to speak of.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_scores({"right": np.random.default_rng(0).standard_normal((1000, 3))}, Figure().subplots())
    >>> ax.get_xlabel(), len(ax.lines)
    ('score (standard deviations)', 2)
    """
    ax = axes(ax)
    x = np.linspace(-_SHOWN, _SHOWN, 181)
    bell = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    ax.fill_between(x, bell, color=_BAND, lw=0, label="standard normal", zorder=1)
    edges = np.linspace(-_SHOWN, _SHOWN, _BARS)
    for (name, values), (colour, dashes, _) in zip(scores.items(), STYLES, strict=False):
        flat = np.asarray(values, dtype=float).ravel()
        flat = flat[~np.isnan(flat)]
        count, _ = np.histogram(flat, edges)
        beyond = 1.0 - count.sum() / flat.size
        name = f"{name} ({100.0 * beyond:.0f} % beyond)" if beyond > 0.005 else name
        density = count / (flat.size * np.diff(edges))
        line = {"color": colour, "ls": dashes, "lw": 1.4, "zorder": 3, "where": "mid"}
        ax.step((edges[1:] + edges[:-1]) / 2.0, density, label=name, **line)
    ax.plot(x, bell, color=_RULE, lw=0.8, zorder=2)
    ax.set(xlabel="score (standard deviations)", ylabel="density", xlim=(-_SHOWN, _SHOWN))
    ax.set_ylim(0.0, max(0.58, ax.get_ylim()[1]))  # room for a legend above the bell
    return _legend(ax)


def plot_autocorrelation(scores: Mapping[str, ArrayLike], ax: Axes | None = None, lags: int = 20) -> Axes:
    """Correlation of each score with those before it, averaged over channels and sensors.

    The band holds a lag of white scores with 95 percent; the dotted lines hold it up to one false alarm in a million.

    >>> from matplotlib.figure import Figure
    >>> z = np.random.default_rng(0).standard_normal((1000, 3))
    >>> ax = plot_autocorrelation({"white": z}, Figure().subplots(), lags=10)
    >>> bool(np.abs(ax.lines[0].get_ydata()).max() < 0.1)
    True
    """
    ax = axes(ax)
    names = list(scores)
    least = np.inf
    for i, (name, (colour, _, marker)) in enumerate(zip(names, STYLES, strict=False)):
        z = np.asarray(scores[name], dtype=float)
        r = autocorrelation(z, lags)
        least = min(least, z.size)
        # side by side, so that markers of series that agree do not hide each other
        at = np.arange(1, lags + 1) + 0.36 * (i - (len(names) - 1) / 2.0)
        ax.plot(at, r, ls="none", marker=marker, ms=4, color=colour, mfc="white" if i else colour, label=name, zorder=3)
        ax.vlines(at, 0.0, r, color=colour, lw=0.8, zorder=2)
    unit = 1.0 / np.sqrt(least)
    ax.axhspan(-_TWO_SIDES[0.05] * unit, _TWO_SIDES[0.05] * unit, color=_BAND, lw=0, zorder=0)
    for side in (-1.0, 1.0):
        ax.axhline(side * _TWO_SIDES[1e-6] * unit, color=_RULE, lw=0.8, ls=(0, (1, 2)), zorder=1)
    ax.axhline(0.0, color=_RULE, lw=0.8, zorder=1)
    ax.set(xlabel="lag (readings)", ylabel="correlation", xlim=(0.3, lags + 0.7))
    ax.set_xticks(np.unique(np.linspace(1, lags, 5).round()))
    low, high = ax.get_ylim()
    # white series alone fill the height with chance; as much again around them shows that it is chance
    ax.set_ylim(min(low, -8.0 * unit), max(high, 8.0 * unit))
    return _legend(ax)


def plot_nis(nis: Mapping[str, ArrayLike], dim: int = 1, ax: Axes | None = None) -> Axes:
    """The normalised innovation squared of single streams over time, with the bounds that hold 95 percent of it.

    `nis` holds a stream (T,) by name, `dim` is the number of channels. The scale is logarithmic.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_nis({"right": np.random.default_rng(0).standard_normal(50) ** 2}, 1, Figure().subplots())
    >>> ax.get_yscale()
    'log'
    """
    from scipy.special import chdtri

    ax = axes(ax)
    low, high = chdtri(dim, 0.975), chdtri(dim, 0.025)
    ax.axhspan(low, high, color=_BAND, lw=0, zorder=0, label="holds 95 %")
    for i, ((name, values), (colour, _, marker)) in enumerate(zip(nis.items(), STYLES, strict=False)):
        y = np.asarray(values, dtype=float)
        style = {"ls": "none", "marker": marker, "ms": 3.2, "mfc": "white" if i else colour, "mew": 0.8}
        ax.plot(np.arange(1, len(y) + 1), y, color=colour, label=name, zorder=3, **style)
    ax.set_yscale("log")
    ax.set(xlabel="reading k", ylabel="normalised innovation squared")
    ax.set_xlim(0, max(np.size(values) for values in nis.values()) + 1)
    return _legend(ax)


def plot_shares(shares: Mapping[str, float], due: float, ax: Axes | None = None) -> Axes:
    """One share a line (of innovations out of bounds, say), in percent, and a line where they ought to be.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_shares({"disguised": 0.0502, "with noise": 0.98}, 0.05, Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['5.02 %', '98.0 %']
    """
    ax = axes(ax)
    rows = np.arange(len(shares))
    values = 100.0 * np.array(list(shares.values()))
    ax.axvline(100.0 * due, color=GREY, lw=1.0, ls=(0, (1, 2)), zorder=1)
    ax.hlines(rows, 100.0 * due, values, color=BLUE, lw=1.2, zorder=2)
    ax.plot(values, rows, ls="none", marker="o", ms=6, color=BLUE, zorder=3)
    for row, value in zip(rows, values, strict=True):
        shown = f"{value:.2f} %" if value < 10.0 else f"{value:.1f} %"
        ax.annotate(shown, (value, row), (8, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(rows, list(shares))
    ax.set_ylim(len(shares) - 0.5, -0.5)
    ax.set_xlim(0.0, 118.0)
    ax.set_xticks([5, 25, 50, 75, 100])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_series(
    series: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    x: ArrayLike | None = None,
    step: bool = False,
    dots: bool = False,
) -> Axes:
    """Series over time by name: readings, schedules (`step`), estimates (`dots`). The first reading is number 1.

    >>> from matplotlib.figure import Figure
    >>> ax = plot_series({"true": [0, 0, 1, 1], "disguised": [0, 1, 1, 2]}, Figure().subplots(), step=True)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['true', 'disguised']
    """
    ax = axes(ax)
    for (name, values), (colour, dashes, marker) in zip(series.items(), STYLES, strict=False):
        y = np.asarray(values, dtype=float)
        at = np.arange(1, len(y) + 1) if x is None else np.asarray(x, dtype=float)
        if dots:
            ax.plot(at, y, ls="none", marker=marker, ms=3, mfc="none", mew=0.8, color=colour, label=name)
        else:
            ax.plot(at, y, color=colour, ls=dashes, lw=1.6, drawstyle="steps-mid" if step else None, label=name)
    ax.set_xlabel("reading k")
    return _legend(ax)


def autocorrelation(z: ArrayLike, lags: int) -> Array:
    """Mean product of scores `lag` apart, over their mean square, for lags 1..lags; the mean is taken as zero.

    >>> autocorrelation([1.0, -1.0, 1.0, -1.0], 2).tolist()
    [-0.75, 0.5]
    """
    scores = np.asarray(z, dtype=float)
    scores = scores.reshape(len(scores), -1)
    square = float(np.square(scores).sum())
    return np.array([float((scores[lag:] * scores[:-lag]).sum()) / square for lag in range(1, lags + 1)])


def _legend(ax: Axes) -> Axes:
    return _finish(ax, loc="best", fontsize="small", **_BESIDE)


# Block diagrams, drawn from what runs ---------------------------------------------------------------------------------


# Sizes in inches of a drawing at its own size; letters shrink and grow with the axes that are given.
_TITLE, _LINE = 9.5, 8.0
_HIGH, _FIRST, _GAP, _PAD = 0.165, 0.2, 0.06, 0.11
_WORDS = {
    Score: "score by the model's own methods",
    ScoreEach: "score by one law for all readings",
    Emit: "value by the model's own methods",
    ValueEach: "value by one law for all readings",
    NothingMissing: "check that none is missing",
}


@dataclass(frozen=True)
class Stage:
    """One side of a transformation: its title, and lines that tell how it runs and how large it is."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """What ran when a transformation took T readings of `dim` channels.

    `on_tables` of them had their gains from the tables, for `carried` the covariances were carried along; both are 0
    where there are no Kalman predictors. `engine` says in words what ran.
    """

    dim: int
    T: int
    engine: str
    on_tables: int
    carried: int
    source: Stage
    target: Stage

    @property
    def gauss_markov(self) -> bool:
        """Whether the stages are two Kalman predictors."""
        return self.on_tables + self.carried > 0


def ran(transform: Transform, Y: Any) -> Ran:
    """Send readings (T,) or (T, d) through a transformation and note what they went through.

    >>> import understudy as us
    >>> room = lambda v: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * v, mean0=100.0, cov0=1.0)
    >>> seen = ran(us.Transform(room(1), room(0.6)), us.sample(room(1), 50, rng=0))
    >>> seen.on_tables, seen.carried, seen.engine.startswith("scalar loop")
    (50, 0, True)
    """
    readings = np.asarray(Y, dtype=float)
    causal = transform._map
    state, carried = transform.start(), 0
    for k in range(len(readings)):
        state, _ = transform.apply(state, readings[k : k + 1])
        # covariances stand in the state behind the means
        carried += isinstance(causal, Pair) and len(state) > 1 + causal.n + causal.m
    T = len(readings)
    how = "compiled" if compiled else "plain Python"
    if isinstance(causal, Pair):
        loop = "scalar loop" if causal.scalar else "matrix loop"
        sides = (
            _predictor("Kalman predictor, $\\theta$", causal.source, T),
            _predictor("Kalman predictor, $\\tilde{\\theta}$", causal.target, T),
        )
        return Ran(transform.dim, T, f"{loop}, {how}", T - carried, carried, *sides)
    links = causal.maps if isinstance(causal, Chain) else (causal,)
    one, two = (
        Stage(title, tuple(_link(x) for x in _flat(link)))
        for title, link in zip(("whiten, $\\theta$", "colour, $\\tilde{\\theta}$"), links, strict=True)
    )
    return Ran(transform.dim, T, "whiten, then colour", 0, 0, one, two)


def plot_sensor(design: Design, ax: Axes | None = None) -> Axes:
    """Sensor, privacy filter, user (the paper's first figure), with the sizes of a design.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> ax = plot_sensor(us.design(family, leakage=0.3, distortion="mae"), Figure(figsize=(9, 2)).subplots())
    >>> "leakage 0.3 nats" in " ".join(text.get_text() for text in ax.texts)
    True
    """
    m, n = design.randomizer.kernel.shape
    page = _Page(ax, 10.4, 1.9)
    error = 100.0 * design.guarantee.bayes_error
    sensor = [f"m = {m} private values", *_channels(design)]
    middle = [
        f"randomizer {m} x {n}",
        f"leakage {design.leakage:.4g} nats",
        f"{_cost_label(design)} {design.distortion:.4g}",
    ]
    # a bound from below, so rounded down
    user = ["sees the output alone", "any guess of Θ is wrong with", f"{int(100.0 * error) / 100.0:g} % at least"]
    page.box(0.75, 0.35, 2.2, Stage("sensor", tuple(sensor)), 1.2)
    page.box(4.0, 0.35, 2.7, Stage("privacy filter", tuple(middle)), 1.2, BLUE)
    page.box(7.75, 0.35, 2.35, Stage("user, not trusted", tuple(user)), 1.2)
    page.arrow([(0.1, 0.95), (0.75, 0.95)], "$\\Theta$", (0.3, 1.13))
    page.arrow([(2.95, 0.95), (4.0, 0.95)], "$Y_k$", (3.45, 1.13))
    page.arrow([(6.7, 0.95), (7.75, 0.95)], "$\\tilde{Y}_k$", (7.2, 1.15))
    return page.ax


def plot_filter(design: Design, seen: Ran, ax: Axes | None = None) -> Axes:
    """Randomizer and transformation (the paper's structure of the filter), with what ran."""
    m, n = design.randomizer.kernel.shape
    page = _Page(ax, 9.4, 4.2)
    page.region(1.2, 0.2, 6.9, 3.8, "privacy filter")
    used = int((design.randomizer.kernel > 0.0).any(axis=0).sum())
    top = [
        f"kernel P: {m} private x {n} pseudo values, {used} in use",
        f"I = {design.leakage:.4g} nats, {design.status}",
    ]
    page.box(3.1, 2.45, 4.2, Stage("randomizer, drawn once", tuple(top)), 1.05, ROSE)
    bottom = [seen.engine, f"T = {seen.T} readings, {_many(seen.dim, 'channel')}"]
    page.box(3.1, 0.55, 4.2, Stage("nonlinear transformation, every reading", tuple(bottom)), 1.05, BLUE)
    page.arrow([(0.2, 2.98), (3.1, 2.98)], "$\\Theta$", (0.6, 3.16))
    page.arrow([(2.2, 2.98), (2.2, 1.32), (3.1, 1.32)])
    page.dot(2.2, 2.98)
    page.arrow([(0.2, 0.84), (3.1, 0.84)], "$Y_k$", (0.6, 1.02))
    page.arrow([(5.2, 2.45), (5.2, 1.6)], "$\\tilde{\\Theta}$", (5.45, 2.03))
    page.arrow([(7.3, 1.08), (9.2, 1.08)], "$\\tilde{Y}_k$", (8.65, 1.28))
    return page.ax


def plot_transformation(seen: Ran, ax: Axes | None = None, most: int = 3) -> Axes:
    """Feedforward and feedback, channel by channel (the paper's general structure); up to `most` channels drawn."""
    rows = min(seen.dim, most)
    step, high = 1.12, 0.56
    memory = max(_height(seen.source), _height(seen.target))
    low = 0.75 + memory  # bottom of the last row
    width, left, right = 3.3, 2.1, 7.3
    page = _Page(ax, 12.3, low + rows * step + 0.35)
    page.region(1.75, 0.15, width + 0.7, low + rows * step, "feedforward: true past")
    page.region(right - 0.35, 0.15, width + 0.7, low + rows * step, "feedback: disguised past")
    for row in range(rows):
        l = seen.dim if row == rows - 1 else row + 1  # noqa: E741  # the paper's letter
        y = low + (rows - 1 - row) * step
        middle = y + high / 2.0
        score = f"$z_k^{{{l}}}=\\Phi^{{-1}}\\,F_{{{l},k,\\theta}}(y_k^{{{l}}}\\,|\\,\\mathrm{{past}})$"
        value = (
            f"$\\tilde{{y}}_k^{{{l}}}=F^{{-1}}_{{{l},k,\\tilde{{\\theta}}}}(\\Phi(z_k^{{{l}}})\\,|\\,\\mathrm{{past}})$"
        )
        page.box(left, y, width, Stage(score, ()), high, BLUE)
        page.box(right, y, width, Stage(value, ()), high, ROSE)
        page.arrow([(0.15, middle), (left, middle)], f"$y_k^{{{l}}}$", (0.4, middle + 0.17))
        page.arrow([(left + width, middle), (right, middle)], f"$z_k^{{{l}}}$", (6.15, middle + 0.19))
        page.arrow([(right + width, middle), (12.1, middle)], f"$\\tilde{{y}}_k^{{{l}}}$", (11.85, middle + 0.19))
        page.dot(1.15, middle)
        page.dot(11.4, middle)
        if row:
            before = f"{{1:{l - 1}}}" if l > 2 else "1"
            above = middle + step - high / 2.0
            for x, letter in ((left + width / 2.0, "y"), (right + width / 2.0, "\\tilde{y}")):
                page.arrow([(x, above), (x, y + high)], f"${letter}_k^{before}$", (x + 0.33, (above + y + high) / 2.0))
    # the past: readings go into the predictors' memories, whose laws go up to the maps
    top, base = low + (rows - 1) * step + high / 2.0, 0.3
    center = base + memory / 2.0
    page.box(left, base, width, seen.source, memory)
    page.box(right, base, width, seen.target, memory)
    page.arrow([(1.15, top), (1.15, center), (left, center)])
    page.arrow([(11.4, top), (11.4, center), (right + width, center)])
    for x, past in ((left + width / 2.0, "$y_{1:k-1}$"), (right + width / 2.0, "$\\tilde{y}_{1:k-1}$")):
        page.arrow([(x, base + memory), (x, low)], past, (x + 0.55, (base + memory + low) / 2.0))
    return page.ax


def plot_predictors(seen: Ran, ax: Axes | None = None) -> Axes:
    """Two Kalman predictors back to back (the paper's Gauss-Markov structure, Theorem 4), with their sizes."""
    memory = max(_height(seen.source), _height(seen.target))
    lines = ("all channels at once,", "L lower triangular") if seen.dim > 1 else ()
    low, high, width, left, right = 0.95 + memory, _height(Stage("", lines)) + 0.1, 3.3, 1.9, 6.9
    page = _Page(ax, 12.1, low + high + 0.75)
    page.box(left, low, width, Stage("$z_k=L_k^{-1}(y_k-\\hat{y}_{k|k-1})$", lines), high, BLUE)
    page.box(right, low, width, Stage("$\\tilde{y}_k=\\hat{\\tilde{y}}_{k|k-1}+\\tilde{L}_k z_k$", lines), high, ROSE)
    page.box(left, 0.25, width, seen.source, memory, BLUE)
    page.box(right, 0.25, width, seen.target, memory, ROSE)
    middle, center = low + high / 2.0, 0.25 + memory / 2.0
    page.arrow([(0.15, middle), (left, middle)], "$y_k$", (0.45, middle + 0.18))
    page.arrow([(left + width, middle), (right, middle)], "$z_k$", (6.05, middle + 0.18))
    page.arrow([(right + width, middle), (11.9, middle)], "$\\tilde{y}_k$", (11.5, middle + 0.2))
    page.dot(1.05, middle)
    page.dot(10.95, middle)
    page.arrow([(1.05, middle), (1.05, center), (left, center)])
    page.arrow([(10.95, middle), (10.95, center), (right + width, center)])
    for x, law in (
        (left + width / 2.0, "$\\hat{y}_{k|k-1},\\ L_k$"),
        (right + width / 2.0, "$\\hat{\\tilde{y}}_{k|k-1},\\ \\tilde{L}_k$"),
    ):
        page.arrow([(x, 0.25 + memory), (x, low)], law, (x + 0.75, (0.25 + memory + low) / 2.0))
    gains = f"{seen.on_tables} with gains from the tables, {seen.carried} with covariances carried along"
    page.note(
        6.05, low + high + 0.4, f"{seen.engine}; T = {_many(seen.T, 'reading')}, {_many(seen.dim, 'channel')}: {gains}"
    )
    return page.ax


class _Page:
    """Axes in inches of the drawing's own size, and what is drawn on them."""

    def __init__(self, ax: Axes | None, width: float, height: float) -> None:
        given = ax
        self.ax = ax = axes(ax)
        if given is None:
            ax.figure.set_size_inches(width, height)
        ax.set(xlim=(0.0, width), ylim=(0.0, height), aspect="equal")
        ax.axis("off")
        w, h = ax.figure.get_size_inches() * ax.get_position().size if given is not None else (width, height)
        self.scale = min(w / width, h / height)

    def box(self, x: float, y: float, width: float, stage: Stage, height: float, colour: str = GREY) -> None:
        """A box with a title and lines below it."""
        from matplotlib.patches import FancyBboxPatch

        style: dict[str, Any] = {
            "boxstyle": "round,pad=0,rounding_size=0.08",
            "ec": colour,
            "fc": "white",
            "lw": 1.4,
            "zorder": 3,
        }
        self.ax.add_patch(FancyBboxPatch((x, y), width, height, **style))
        at = y + height / 2.0 + (_HIGH * len(stage.lines) + (_GAP if stage.lines else 0.0)) / 2.0
        self._text(x + width / 2.0, at, stage.title, _TITLE, weight="bold")
        for i, line in enumerate(stage.lines):
            self._text(x + width / 2.0, at - _GAP - _HIGH * (i + 1), line, _LINE)

    def region(self, x: float, y: float, width: float, height: float, title: str) -> None:
        """A dashed frame around boxes, named in its upper left corner."""
        from matplotlib.patches import Rectangle

        self.ax.add_patch(
            Rectangle((x, y), width, height, fc="#f4f4f4", ec="#999999", ls=(0, (4, 2)), lw=1.0, zorder=1)
        )
        self._text(x + 0.08, y + height - 0.15, title, _LINE, ha="left", style="italic")

    def arrow(self, points: list[tuple[float, float]], label: str = "", at: tuple[float, float] = (0.0, 0.0)) -> None:
        """An arrow along points, with a label somewhere near it."""
        *way, before, last = points
        corners = np.array([*way, before])
        if len(corners) > 1:
            self.ax.plot(corners[:, 0], corners[:, 1], color="#333333", lw=1.2, solid_capstyle="butt", zorder=2)
        arrow = {"arrowstyle": "-|>", "color": "#333333", "lw": 1.2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10}
        self.ax.annotate("", last, before, arrowprops=arrow, zorder=2)
        if label:
            self._text(*at, label, _TITLE + 1.0)

    def dot(self, x: float, y: float) -> None:
        """Where a line branches."""
        self.ax.plot([x], [y], marker="o", ms=4 * self.scale, color="#333333", zorder=2)

    def note(self, x: float, y: float, words: str) -> None:
        """A line of text on its own."""
        self._text(x, y, words, _LINE + 0.5, style="italic")

    def _text(self, x: float, y: float, words: str, size: float, **how: Any) -> None:
        self.ax.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": size * self.scale, "zorder": 4, **how})


def _predictor(title: str, side: Side, T: int) -> Stage:
    model, table = side.model, side.gains
    if model is white(model.dim):
        return Stage(title, ("white noise",))
    if table is None:
        which = len(np.unique(side.systems(0, T)[1]))
        return Stage(
            title,
            (
                _many(side.states, "state"),
                f"{_many(which, 'system')} along the path",
                "no gain table: covariances carried along",
            ),
        )
    rows = f"gain table: {_many(table.rows, 'row')}, " + (
        "the last for ever after" if table.frozen else "then carried along"
    )
    return Stage(title, (_many(side.states, "state"), rows, f"rows used: {min(T, table.rows)} of {table.rows}"))


def _flat(link: Any) -> Iterable[Any]:
    return [part for inner in link.maps for part in _flat(inner)] if isinstance(link, Chain) else [link]


def _link(link: Any) -> str:
    if isinstance(link, Pair):
        states = link.n if link.target.model is white(link.dim) else link.m
        return f"Kalman predictor, {_many(states, 'state')}"
    return _WORDS[type(link)] + (f" ({type(link.model).__name__})" if isinstance(link, Score | Emit) else "")


def _height(stage: Stage) -> float:
    return _FIRST + _GAP + _HIGH * len(stage.lines) + 2.0 * _PAD


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _channels(design: Design) -> list[str]:
    found = [] if design.family is None else [_many(design.family.dim, "channel")]
    horizon = None if design.costs is None else design.costs.horizon
    return found if horizon is None else [*found, f"T = {horizon} readings"]


def _cost_label(design: Design) -> str:
    return distortion_label(None if design.costs is None else design.costs.distortion)
