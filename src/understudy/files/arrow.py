"""pyarrow, where it is installed: Parquet needs it, CSV is quicker with it."""

from __future__ import annotations

import importlib
from typing import Any

from understudy.errors import MissingExtraError


def found() -> Any:
    """The module pyarrow, or None."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        return None


def needed(what: str) -> Any:
    """The module pyarrow; says how to install it where it is missing."""
    module = found()
    if module is None:
        raise MissingExtraError(f'{what} needs pyarrow (the extra `arrow`): pip install "understudy[arrow]"')
    return module


def part(name: str) -> Any:
    """A part of pyarrow that is there, such as "compute"."""
    return importlib.import_module(f"pyarrow.{name}")
