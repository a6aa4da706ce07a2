"""What a result of the paper is made with, and what it comes as.

The paper's room (Section V) and the two estimators of its occupancy.

::

    X_{k+1} = 0.95 X_k + 10 Theta + W_k,   Y_k = X_k + V_k,   variances 0.1,   X_0 ~ N(100, 1)

Theta is 0 or 1 with equal probability, ~Theta one of 0, 0.2, .., 1, and T = 50.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array, Progress

# What a result of the paper is made with, and what it comes as ---------------------------------------


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


# The paper's room (Section V) and the two estimators of its occupancy --------------------------------


A, B, VARIANCE = 0.95, 10.0, 0.1
VALUES = (0, 1)
PSEUDO = (0, 0.2, 0.4, 0.6, 0.8, 1)
HORIZON = 50
WINDOW = 10


def room(occupants: float) -> us.GaussMarkov:
    """CO2 in a room with this many people."""
    return us.GaussMarkov(A=A, C=1.0, Q=VARIANCE, R=VARIANCE, b=B * occupants, mean0=100.0, cov0=1.0)


def family(values: tuple[float, ...] = VALUES) -> us.Family:
    """The room with these occupancies, equally likely."""
    return us.Family(room, values=values)


def windows(Y: Array, k: int = HORIZON, window: int = WINDOW) -> tuple[Array, Array]:
    """Ybar, the mean of readings k - window + 1 .. k (counted from 1), and Ybarbar, that of one reading earlier.

    Time is the first axis of Y.
    """
    return Y[k - window : k].mean(axis=0), Y[k - window - 1 : k - 1].mean(axis=0)


def printed_estimator(Y: Array, k: int = HORIZON, window: int = WINDOW) -> Array:
    """The estimator as printed, (Ybar - Ybarbar) / a."""
    now, before = windows(Y, k, window)
    return np.asarray((now - before) / A)


def consistent(Y: Array, k: int = HORIZON, window: int = WINDOW) -> Array:
    """The estimator that the model calls for, (Ybar - a Ybarbar) / b: X_{k+1} - a X_k = b Theta + W_k."""
    now, before = windows(Y, k, window)
    return np.asarray((now - A * before) / B)


def guess(estimate: Array, values: tuple[float, ...] = VALUES) -> Array:
    """The value nearest to an estimate."""
    nearest = np.abs(np.asarray(estimate)[..., None] - np.asarray(values)).argmin(axis=-1)
    return np.asarray(np.asarray(values)[nearest])
