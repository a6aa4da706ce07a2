"""Is a stream what its model says? Pictures of scores, of innovations, and of what an adversary makes of readings.

If a model is right, the scores of its readings are independent standard normals: their histogram is the bell curve
and no score tells anything about a later one. The same holds for the innovations of a Kalman filter, divided by their
predicted spread; the sum of their squares at one step, the *normalised innovation squared* (NIS), is then chi-square.

Each function takes arrays by the name under which they are shown, time first; what follows time (channels, sensors) is
pooled. Series differ in their dashes and markers as well as in colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.laws.base import Array
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes

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


def plot_scores(scores: Mapping[str, Any], ax: Axes | None = None) -> Axes:
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
    ax.fill_between(x, bell, color="#d5d5d5", lw=0, label="standard normal", zorder=1)
    edges = np.linspace(-_SHOWN, _SHOWN, _BARS)
    for (name, values), (colour, dashes, _) in zip(scores.items(), STYLES, strict=False):
        flat = _flat(values)
        count, _ = np.histogram(flat, edges)
        beyond = 1.0 - count.sum() / flat.size
        name = f"{name} ({100.0 * beyond:.0f} % beyond)" if beyond > 0.005 else name
        density = count / (flat.size * np.diff(edges))
        line = {"color": colour, "ls": dashes, "lw": 1.4, "zorder": 3, "where": "mid"}
        ax.step((edges[1:] + edges[:-1]) / 2.0, density, label=name, **line)
    ax.plot(x, bell, color="#888888", lw=0.8, zorder=2)
    ax.set(xlabel="score (standard deviations)", ylabel="density", xlim=(-_SHOWN, _SHOWN))
    ax.set_ylim(0.0, max(0.58, ax.get_ylim()[1]))  # room for a legend above the bell
    return _legend(ax)


def plot_autocorrelation(scores: Mapping[str, Any], ax: Axes | None = None, lags: int = 20) -> Axes:
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
    ax.axhspan(-_TWO_SIDES[0.05] * unit, _TWO_SIDES[0.05] * unit, color="#d5d5d5", lw=0, zorder=0)
    for side in (-1.0, 1.0):
        ax.axhline(side * _TWO_SIDES[1e-6] * unit, color="#888888", lw=0.8, ls=(0, (1, 2)), zorder=1)
    ax.axhline(0.0, color="#888888", lw=0.8, zorder=1)
    ax.set(xlabel="lag (readings)", ylabel="correlation", xlim=(0.3, lags + 0.7))
    ax.set_xticks(np.unique(np.linspace(1, lags, 5).round()))
    low, high = ax.get_ylim()
    # white series alone fill the height with chance; as much again around them shows that it is chance
    ax.set_ylim(min(low, -8.0 * unit), max(high, 8.0 * unit))
    return _legend(ax)


def plot_nis(nis: Mapping[str, Any], dim: int = 1, ax: Axes | None = None) -> Axes:
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
    ax.axhspan(low, high, color="#d5d5d5", lw=0, zorder=0, label="holds 95 %")
    for i, ((name, values), (colour, _, marker)) in enumerate(zip(nis.items(), STYLES, strict=False)):
        y = np.asarray(values, dtype=float)
        style = {
            "ls": "none",
            "marker": marker,
            "ms": 3.2,
            "color": colour,
            "mfc": "white" if i else colour,
            "mew": 0.8,
        }
        ax.plot(np.arange(1, len(y) + 1), y, label=name, zorder=3, **style)
    ax.set_yscale("log")
    ax.set(xlabel="reading k", ylabel="normalised innovation squared")
    ax.set_xlim(0, max(len(values) for values in nis.values()) + 1)
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
        ax.annotate(_percent(value), (value, row), (8, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(rows, list(shares))
    ax.set_ylim(len(shares) - 0.5, -0.5)
    ax.set_xlim(0.0, 118.0)
    ax.set_xticks([5, 25, 50, 75, 100])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_series(
    series: Mapping[str, Any], ax: Axes | None = None, x: Any = None, step: bool = False, dots: bool = False
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


def autocorrelation(z: Any, lags: int) -> Array:
    """Mean product of scores `lag` apart, over their mean square, for lags 1..lags; the mean is taken as zero.

    >>> autocorrelation([1.0, -1.0, 1.0, -1.0], 2).tolist()
    [-0.75, 0.5]
    """
    scores = np.asarray(z, dtype=float)
    scores = scores.reshape(len(scores), -1)
    square = float(np.square(scores).sum())
    return np.array([float((scores[lag:] * scores[:-lag]).sum()) / square for lag in range(1, lags + 1)])


def _flat(values: Any) -> Array:
    flat = np.asarray(values, dtype=float).ravel()
    return np.asarray(flat[~np.isnan(flat)])


def _percent(value: float) -> str:
    return f"{value:.2f} %" if value < 10.0 else f"{value:.1f} %"


def _legend(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="best", framealpha=0.9, edgecolor="none", fontsize="small")
    return ax
