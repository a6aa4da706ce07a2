"""Figures that set one thing beside another: exact against simulated, the filter against noise, bound against bound.

A `Line` is what is compared: some points with a name, and with standard errors if they were simulated. Lines differ in
colour, in dashes and in markers, so that they can be told apart without colour.

>>> from matplotlib.figure import Figure
>>> lines = [Line("filter", [10, 100], [8.0, 22.0]), Line("noise", [10, 100], [54.0, 590.0])]
>>> ax = plot_costs_over_time(lines, Figure().subplots(), unit="ppm")
>>> ax.get_ylabel(), ax.get_yscale(), [text.get_text() for text in ax.get_legend().get_texts()]
('mean absolute distortion (ppm)', 'log', ['filter', 'noise'])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from understudy.errors import DesignError, MissingExtraError
from understudy.laws.base import Array, Frozen
from understudy.randomizer.curve import Frontier
from understudy.report.curves import plot_frontier
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes

# After Paul Tol's bright scheme; each has dashes and a marker of its own as well.
_STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "ls": "-", "marker": "o"},
    {"color": ROSE, "ls": (0, (5, 2)), "marker": "s"},
    {"color": "#228833", "ls": (0, (5, 2, 1, 2)), "marker": "^"},
    {"color": "#aa7700", "ls": (0, (1, 1.5)), "marker": "D"},
    {"color": GREY, "ls": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
)


class Line(Frozen):
    """Points (x, y) with a name; `error` are the standard errors of y, and `marked` the x that get a marker."""

    __slots__ = ("error", "label", "marked", "x", "y")

    def __init__(self, label: str, x: Any, y: Any, error: Any = None, marked: Iterable[float] = ()) -> None:
        self.label = label
        self.x, self.y = _points(x, label), _points(y, label)
        self.error = None if error is None else _points(error, label)
        self.marked = tuple(float(value) for value in marked)
        for array in (self.y, self.error):
            if array is not None and array.shape != self.x.shape:
                raise DesignError(f"line {label!r} has {self.x.size} points x and {array.size} of y or error")

    def __repr__(self) -> str:
        return f"Line({self.label!r}, {self.x.size} points)"


def _points(values: Any, label: str) -> Array:
    array = np.array(values, dtype=float)
    if array.ndim != 1 or not array.size:
        raise DesignError(f"line {label!r} has an array of shape {array.shape}; it must be (n,), with n at least 1")
    array.flags.writeable = False
    return array


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
    ax.legend([*old, shown], [*names, points.label], loc="upper right", framealpha=0.9, edgecolor="none")
    return ax


def add_root_axis(ax: Axes, mean: float) -> Axes:
    """A second scale on the right of squared distortions: their square root, in percent of `mean`.

    >>> from matplotlib.figure import Figure
    >>> add_root_axis(Figure().subplots(), 100.0).get_ylabel()
    'root mean square distortion, % of the mean reading'
    """

    def root(square: Any) -> Any:
        # a scale starts a little below zero
        return 100.0 / mean * np.sign(square) * np.sqrt(np.abs(square))

    def square(root: Any) -> Any:
        return np.sign(root) * (mean / 100.0 * np.asarray(root)) ** 2

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
    ax = _lines(axes(ax), lines)
    ax.set(xscale="log", yscale="log", xlabel="number of readings T")
    ax.set_ylabel("mean absolute distortion" + (f" ({unit})" if unit else ""))
    ax.grid(which="major", color="#dddddd", lw=0.6)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend above lines that rise
    ax.legend(loc="upper left", framealpha=0.9, edgecolor="none")
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
    ax = _lines(axes(ax), lines)
    if blind is not None:
        line = ax.axhline(blind, color="#333333", lw=1.0, ls=(0, (1, 3)), zorder=1)
        line.set_label("blind guess")
    ax.set(xscale="log", yscale="log", ylim=(least, 1.0))
    ax.set(xlabel="number of readings T", ylabel="probability of a wrong guess, best adversary")
    ax.grid(which="major", color="#dddddd", lw=0.6)
    ax.legend(loc="lower left", framealpha=0.9, edgecolor="none")
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
    for name, label in names.items():
        y = 100.0 * np.array([getattr(card, name) for card in cards])
        says = y > 0.0
        if says.any():
            lines.append(Line(label, x[says], y[says]))
    ax = _lines(axes(ax), lines)
    line = ax.axhline(100.0 * cards[0].prior_error, color="#333333", lw=1.0, ls=(0, (1, 3)), zorder=1)
    line.set_label("blind guess")
    right = float(x.max()) or 1.0
    ax.set(xlim=(-0.01 * right, 1.02 * right), ylim=(0.0, 106.0 * cards[0].prior_error or 1.0))
    ax.set(xlabel="leakage (nats)", ylabel="wrong guesses, at least (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93), framealpha=0.9, edgecolor="none")
    return ax


def _lines(ax: Axes, lines: Iterable[Line]) -> Axes:
    for line, style in zip(lines, _cycle(), strict=False):
        at = [int(np.abs(line.x - x).argmin()) for x in line.marked]
        dots = {} if at else {"marker": ""}
        ax.plot(line.x, line.y, **{**style, **dots}, lw=1.8, ms=6, markevery=at or None, label=line.label, zorder=3)
        if line.error is not None:
            low, high = line.y - 2.0 * line.error, line.y + 2.0 * line.error
            ax.fill_between(line.x, low, high, color=style["color"], alpha=0.25, lw=0)
    return ax


def _cycle() -> Iterable[dict[str, Any]]:
    while True:
        yield from _STYLES
