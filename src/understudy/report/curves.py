"""The trade-off as a curve: what a leakage costs, and what it does to an adversary's guesses."""

from __future__ import annotations

import numpy as np

from understudy.distortion.methods import MONTE_CARLO
from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.curve import Frontier
from understudy.randomizer.measures import entropy
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes, distortion_label

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
    x = np.minimum(frontier.leakages, max(frontier.saturation, _largest(frontier.leakages)))[order]
    scale = _scale(frontier, relative)
    y, low = scale * frontier.distortions[order], scale * frontier.lower_bounds[order]
    top = float(y.max()) or 1.0
    right = float(x.max()) or frontier.saturation or 1.0

    marker = "o" if len(x) <= _FEW else ""
    shown = [ax.plot(x, y, color=BLUE, lw=1.8, marker=marker, ms=4, label="distortion", zorder=3)[0]]
    if (y - low).max() > _VISIBLE * top:
        shown.append(ax.fill_between(x, low, y, color=BLUE, alpha=0.3, lw=0, label="down to what is proven"))
    if _simulated(frontier):
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
    (beside or ax).legend(handles=shown, loc="upper right", framealpha=0.9, edgecolor="none")
    return ax


def _largest(leakages: Array) -> float:
    finite = leakages[np.isfinite(leakages)]
    return float(finite.max()) if finite.size else 0.0


def _scale(frontier: Frontier, relative: bool) -> float:
    """What a distortion is multiplied by to be shown."""
    if not relative:
        return 1.0
    costs = frontier[0].costs
    mean = float("nan") if costs is None else abs(costs.mean_reading)
    if not mean > 0.0:
        raise DesignError("relative=True; these readings have no mean other than zero to relate a distortion to")
    return 100.0 / mean


def _simulated(frontier: Frontier) -> bool:
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
