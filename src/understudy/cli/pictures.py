"""Pictures that commands draw."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from understudy.errors import ConfigurationError, MissingExtraError
from understudy.paths import write_whole


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ConfigurationError(f"--plot {path}: the name of a picture must end in .png, .svg or .pdf")
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib (the extra `plot`): pip install matplotlib") from None
    mpl.use("Agg")  # a file, no window


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib, whole or not at all, and close it."""
    from matplotlib import pyplot as plt

    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=150)
    plt.close(figure)
    write_whole(path, drawn.getvalue())
