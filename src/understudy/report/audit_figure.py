"""An audit as a figure: what each adversary makes of the output, of raw readings, and of readings with noise."""

from __future__ import annotations

import math

from understudy.adversaries.audited import Audit
from understudy.errors import ConfigurationError
from understudy.report.audit_words import blind, by_clock, ordered
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes

_STYLES = {
    "disguised": (BLUE, "o", BLUE, "disguised output"),
    "noise": (GREY, "^", "white", "raw, as much independent noise"),
    "held": (GREY, "v", "white", "raw, as large a held offset"),
    "raw": (ROSE, "s", "white", "raw readings"),
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
    >>> from understudy.adversaries.audited import Audit, Figure, Row
    >>> half = Figure(0.5, 0.45, 0.55)
    >>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
    >>> ax = plot_audit(Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False), Sheet().subplots())
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('balanced accuracy', ['windowed'])
    """
    if figure not in _NAMES:
        raise ConfigurationError(f"figure = {figure!r}; it must be one of {', '.join(_NAMES)}")
    found = {data: {row.adversary: row for row in audit.of(data) if row.clock == clock} for data in _STYLES}
    order = [row.adversary for row in ordered(found["disguised"].values())]
    order += [key for rows in found.values() for key in rows if key not in order]
    order = list(dict.fromkeys(order))
    if not order:
        raise ConfigurationError(f"the audit has no adversaries to draw {'with' if clock else 'without'} the clock")
    ax = axes(ax)
    kinds = [data for data in _STYLES if found[data]]
    for place, data in enumerate(kinds):
        colour, marker, face, title = _STYLES[data]
        points = [(y, getattr(found[data][key], figure)) for y, key in enumerate(order) if key in found[data]]
        points = [(y, value) for y, value in points if math.isfinite(value.value)]
        # side by side, so that intervals do not hide each other
        at = [y + 0.22 * (place - (len(kinds) - 1) / 2.0) for y, _ in points]
        ends = [[_reach(v.value, v.low) for _, v in points], [_reach(v.high, v.value) for _, v in points]]
        style = {"ls": "none", "marker": marker, "ms": 5, "mfc": face, "mew": 1.2, "elinewidth": 1.4, "zorder": 3}
        ax.errorbar([v.value for _, v in points], at, xerr=ends, color=colour, label=title, **style)
    for x, words, dashes in _guides(audit, figure, clock):
        ax.axvline(x, color="#222222", lw=1.0, ls=dashes, label=words, zorder=1)
    titles = {row.adversary: row.title or row.adversary for rows in found.values() for row in rows.values()}
    ax.set_yticks(range(len(order)), [titles[key] for key in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
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


def _guides(audit: Audit, figure: str, clock: bool) -> list[tuple[float, str, object]]:
    if figure == "nats":
        return [(0.0, "nothing", (0, (1, 1.5)))]
    if figure == "error":
        found: list[tuple[float, str, object]] = [(audit.prior_error, "without the output", (0, (1, 1.5)))]
        return found if audit.bound is None else [*found, (audit.bound, "the design's bound", (0, (5, 2)))]
    alone, genie = by_clock(audit), audit.row("genie")
    if clock and alone is not None:
        return [(alone.balanced.value, "the clock alone", (0, (5, 2)))]
    lines: list[tuple[float, str, object]] = [(blind(audit), "blind", (0, (1, 1.5)))]
    if genie is not None and math.isfinite(genie.balanced.value):
        lines.append((genie.balanced.value, "told the played value", (0, (6, 2, 1, 2))))
    return lines


def _reach(high: float, low: float) -> float:
    return max(0.0, high - low) if math.isfinite(high) and math.isfinite(low) else 0.0
