"""Which kernels run: the compiled ones where they were built, else the plain ones.

``UNDERSTUDY_PURE=1`` in the environment asks for the plain ones.
"""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType
from typing import Any

import numpy as np


def load_plain(name: str, path: str) -> ModuleType:
    """The kernel module as ordinary Python, whether or not it is compiled too."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no kernel source {os.path.basename(path)}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load() -> Any:
    if os.environ.get("UNDERSTUDY_PURE") == "1":
        source = os.path.join(os.path.dirname(__file__), "_kernels.py")
        return load_plain("understudy.transform._kernels_plain", source)
    from understudy.transform import _kernels

    return _kernels


kernels: Any = _load()

compiled: bool = not kernels.__file__.endswith(".py")


def view(array: Any) -> Any:
    """What the kernels read quickest: arrays when compiled, memoryviews when plain."""
    return array if compiled else memoryview(array)


def table(array: Any) -> Any:
    """The same for a table that is read a few entries at a time: a list when plain."""
    return array if compiled else array.tolist()


def integers(values: Any) -> Any:
    """Indices in the machine's own size, as the compiled kernels want them."""
    return np.asarray(values, dtype=np.intp)
