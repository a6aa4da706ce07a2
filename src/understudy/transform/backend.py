"""Which kernels run: the compiled ones where they were built, else the plain ones.

``UNDERSTUDY_PURE=1`` in the environment asks for the plain ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from understudy._types import Array, Index


def load_plain(name: str, path: str) -> ModuleType:
    """The kernel module as ordinary Python, whether or not it is compiled too."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no kernel source {os.path.basename(path)}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_kernels(package: str, folder: str, names: list[str]) -> tuple[bool, list[Any]]:
    """All compiled or all plain: compiled loops read arrays, plain ones memoryviews."""
    if os.environ.get("UNDERSTUDY_PURE") != "1":
        modules = [importlib.import_module(f"{package}.{name}") for name in names]
        if not any(str(module.__file__).endswith(".py") for module in modules):
            return True, modules
    return False, [load_plain(f"{package}.{name}_plain", os.path.join(folder, f"{name}.py")) for name in names]


compiled: bool
kernels: Any
kernels_many: Any
kernels_hidden: Any
kernels_rounded: Any
compiled, (kernels, kernels_many, kernels_hidden, kernels_rounded) = load_kernels(
    "understudy.transform",
    os.path.dirname(__file__),
    ["_kernels", "_kernels_many", "_kernels_hidden", "_kernels_rounded"],
)


_plain_view: Any = memoryview  # typed for bytes; here of numbers
view: Callable[[Array | Index], Any] = np.asarray if compiled else _plain_view
"""What the kernels read quickest: arrays when compiled, memoryviews when plain."""
table: Callable[[Array], Any] = np.asarray if compiled else np.ndarray.tolist  # type: ignore[assignment]  # a method
"""The same for a table that is read a few entries at a time: a list when plain."""


def integers(values: Sequence[int] | Index) -> Index:
    """Indices in the machine's own size, as the compiled kernels want them."""
    return np.asarray(values, dtype=np.intp)
