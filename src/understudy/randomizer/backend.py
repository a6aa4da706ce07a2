"""The kernels of the randomizer problem: compiled where they were built, else plain."""

from __future__ import annotations

import os
from typing import Any

from understudy.transform.backend import load_kernels

compiled: bool
kernels: Any
compiled, (kernels,) = load_kernels("understudy.randomizer", os.path.dirname(__file__), ["_kernels"])


def view(array: Any) -> Any:
    """What the kernels read quickest of a flat array: itself when compiled, a memoryview when plain."""
    return array if compiled else memoryview(array)
