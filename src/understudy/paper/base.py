"""What a result of the paper is made with, and what it comes as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from understudy._types import Progress



def _silent(fraction: float) -> None:
    pass


@dataclass(frozen=True)
class Settings:
    """How a result is computed: the seed, whether quickly, and whom to tell how far it is.

    ``quick`` takes fewer points and sequences, for a first look; the figures have wider bands.
    """

    seed: int = 0
    quick: bool = False
    progress: Progress = field(default=_silent, compare=False)

    def rng(self, name: str) -> np.random.Generator:
        """The random numbers of one result, the same whichever others are computed.

        >>> Settings(seed=1).rng("frontier").integers(1000) == Settings(seed=1).rng("frontier").integers(1000)
        np.True_
        """
        return np.random.default_rng([self.seed, *name.encode()])


@dataclass(frozen=True)
class Table:
    """A small table for the report: a caption, the heads of its columns, and rows of text."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """One result: its numbers by name, and how it is told.

    ``pictures`` are drawn when they are wanted: each function makes a matplotlib figure. ``numbers`` are floats (or
    whole numbers) under flat names: what ``results.json`` and ``results.csv`` hold and golden values are held to.
    """

    name: str
    title: str
    paragraphs: tuple[str, ...]
    numbers: Mapping[str, float]
    tables: tuple[Table, ...] = ()
    pictures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
