"""What commands that write files share: refusing before the work what could not be written after it."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import ConfigurationError, MissingExtraError


def check_folder(option: str, path: Path) -> None:
    """Refuse a file in a folder that does not exist."""
    if not path.parent.is_dir():
        raise ConfigurationError(f"{option} {path}: there is no folder {path.parent}")


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ConfigurationError(f"--plot {path}: the name of a picture must end in .png, .svg or .pdf")
    check_folder("--plot", path)
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib (the extra `plot`): pip install matplotlib") from None
    mpl.use("Agg")  # a file, no window
