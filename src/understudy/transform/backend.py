"""The kernels of transformations, compiled where they were built (`understudy._compiled`), and the arrays they read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from understudy._compiled import load_kernels as load_kernels
from understudy._compiled import load_plain as load_plain
from understudy._types import Array, Index

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
