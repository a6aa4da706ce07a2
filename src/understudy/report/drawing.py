"""What the figures share: colours that people who see fewer of them can tell apart, and axes to draw on."""

from __future__ import annotations

from typing import Any

from understudy.errors import MissingExtraError

Axes = Any  # matplotlib's, which is not there for everybody

# After Paul Tol's schemes. No two meanings differ by colour alone: lines differ in their dashes too.
BLUE, ROSE, GREY = "#4477aa", "#cc6677", "#777777"

# What the distortions with names are called on an axis.
_DISTORTIONS = {"mae": "mean absolute distortion", "mse": "mean squared distortion"}


def axes(ax: Axes | None) -> Axes:
    """The axes given, or new ones in a figure of their own."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("a figure needs matplotlib (the extra `plot`): pip install matplotlib") from None
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def distortion_label(name: str | None) -> str:
    """What stands on an axis of distortions; `name` is that of the measure, None for bare costs.

    >>> distortion_label("mae"), distortion_label("huber"), distortion_label(None)
    ('mean absolute distortion', 'distortion (huber)', 'distortion')
    """
    return "distortion" if name is None else _DISTORTIONS.get(name, f"distortion ({name})")
