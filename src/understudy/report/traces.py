"""Readings and estimates over time, as lines over the number of the reading.

A `Trace` is a line with its name. Two traces that belong together share a colour and differ in their dashes, so that
the figure can be read in print and by people who see fewer colours.

>>> from matplotlib.figure import Figure
>>> true = Trace("true", np.array([100.0, 105.0, 109.8]))
>>> out = Trace("disguised", np.array([100.0, 101.0, 102.0]), colour=ROSE, dashes="dashed")
>>> ax = plot_traces([true, out], Figure().subplots(), ylabel="CO2 (ppm)")
>>> ax.lines[1].get_xdata().tolist(), ax.get_xlabel()
([1, 2, 3], 'reading k')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import MissingExtraError
from understudy.laws.base import Array
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes

# Solid lines lie below and are wider, so that a dashed one on the same values leaves both to be seen.
_STYLES: dict[str, dict[str, Any]] = {
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
        ax.plot(number, trace.values, color=trace.colour, label=trace.label, **_STYLES[trace.dashes])
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, lw=0.8, zorder=1)
        # beside the axes, where no line runs through it
        where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        ax.annotate(name, (1.0, level), (4, 0), color="#555555", fontsize=8, annotation_clip=False, **where)
    ax.set(xlabel="reading k", ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return ax


def panels(columns: int = 1, width: float = 4.6, height: float = 3.4) -> tuple[Any, list[Axes]]:
    """A figure with axes side by side, outside pyplot, so that no window keeps it.

    >>> figure, axes = panels(2)
    >>> len(axes)
    2
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a figure needs matplotlib (the extra `plot`): pip install matplotlib") from None
    figure = Figure(figsize=(width * columns, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


__all__ = ["BLUE", "ROSE", "Trace", "panels", "plot_traces"]
