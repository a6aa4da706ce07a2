"""Which kernels run: the compiled ones where they were built, otherwise the plain ones.

``UNDERSTUDY_PURE=1`` in the environment asks for the plain ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType
from typing import Any


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
