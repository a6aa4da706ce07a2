"""What commands that write a picture share."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import ConfigurationError, MissingExtraError


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ConfigurationError(f"--plot {path}: the name of a picture must end in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ConfigurationError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib (the extra `plot`): pip install matplotlib") from None
    mpl.use("Agg")  # a file, no window
