"""The rows of a history as the fitters want them: all segments in one array, labels without holes.

A label that is unknown governs a step all the same. The last one known is taken for it (the first one, before
any is known), and the reading counts as missing: the state goes on, the likelihood has no term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ModelError
from understudy.laws.base import Array
from understudy._types import Mask
from understudy._types import Index as Indices

if TYPE_CHECKING:
    from understudy.identify.history import History


FEWEST = 30
"""Readings that a value must have for parameters of its own."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """All segments one after the other; rows that do not count in the likelihood are NaN."""

    Y: Array
    """(N, d); NaN in every channel where a reading is incomplete or its label unknown."""
    theta: Indices
    """(N,) the label that governs the step, 0..m-1."""
    starts: Indices
    """The first row of each segment."""
    used: Mask
    """(N,) rows that count."""

    @property
    def dim(self) -> int:
        """Number of channels."""
        return int(self.Y.shape[1])

    @property
    def pieces(self) -> list[slice]:
        """The segments."""
        edges = [*self.starts.tolist(), len(self.Y)]
        return [slice(a, b) for a, b in pairwise(edges)]

    @property
    def opening(self) -> Mask:
        """(N,) whether a segment starts at the row."""
        mask = np.zeros(len(self.Y), dtype=bool)
        mask[self.starts] = True
        return mask


def rows_of(history: History) -> Rows:
    """The rows of a history; a history without any labelled reading is refused."""
    parts = [segment for segment in history.segments if segment.used.any()]
    if not parts:
        raise ModelError("the history has no labelled reading; a fit needs some for each value")
    Y = np.concatenate([masked(segment.Y, segment.theta) for segment in parts])
    theta = np.concatenate([governing(segment.theta) for segment in parts])
    lengths = [len(segment.Y) for segment in parts]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
    used = ~np.isnan(Y[:, 0])
    least = max(8, 4 * Y.shape[1])
    if int(used.sum()) < least:
        raise ModelError(f"the history has {int(used.sum())} labelled readings; a fit needs at least {least}")
    if np.ptp(Y[used], axis=0).min() == 0.0:
        channel = history.readings[int(np.ptp(Y[used], axis=0).argmin())]
        raise ModelError(f"the channel {channel!r} never changes; such a channel has no law to fit and nothing to hide")
    return Rows(Y, theta, starts, used)


def masked(Y: Array, theta: Indices) -> Array:
    """Readings, NaN in every channel where one is missing or the label is unknown."""
    out = np.array(Y, dtype=float)
    out[np.isnan(out).any(axis=1) | (theta < 0)] = np.nan
    return out


def governing(theta: Indices) -> Indices:
    """The labels with the unknown ones filled in: by the last known, at the start by the first known.

    >>> governing(np.array([-1, 2, -1, 0])).tolist()
    [2, 2, 2, 0]
    """
    known = theta >= 0
    if not known.any():
        return np.zeros(len(theta), dtype=np.intp)
    last = np.maximum.accumulate(np.where(known, np.arange(len(theta)), -1))
    return np.asarray(theta[np.where(last < 0, int(known.argmax()), last)], dtype=np.intp)


def groups(counts: Sequence[int], values: Sequence[object], least: int = FEWEST) -> tuple[Indices, tuple[str, ...]]:
    """Which parameters each value has: its own, or where it has few readings those of the nearest with enough.

    Values stand in order, so the nearest is the most like it. Returns the group of each value and notes.

    >>> groups([100, 3, 50], ["0", "1-2", "3+"])[0].tolist()
    [0, 0, 1]
    """
    enough = [i for i, count in enumerate(counts) if count >= least]
    if not enough:
        return np.zeros(len(counts), dtype=np.intp), (f"no value has {least} readings: all values share one law.",)
    notes = []
    found = []
    for i, count in enumerate(counts):
        near = min(enough, key=lambda j: (abs(i - j), j))
        found.append(enough.index(near))
        if near != i:
            notes.append(f"the value {values[i]!r} has {count} readings, too few: it has the law of {values[near]!r}.")
    return np.array(found, dtype=np.intp), tuple(notes)


def lagged(rows: Rows, order: int) -> tuple[Indices, Array]:
    """Rows that count and whose `order` predecessors do too, and these (n, order * d), the latest first."""
    N, d = rows.Y.shape
    inside = np.arange(N) - np.repeat(rows.starts, np.diff([*rows.starts.tolist(), N]))
    good = rows.used & (inside >= order)
    for lag in range(1, order + 1):
        good[lag:] &= rows.used[:-lag]
    at = np.flatnonzero(good)
    return at, np.stack([rows.Y[at - lag] for lag in range(1, order + 1)], axis=1).reshape(len(at), order * d)


def start_law(rows: Rows, order: int) -> tuple[Array, Array]:
    """Mean and covariance of `order` readings in a row, the latest first: where a segment is before its first step.

    From the first readings of the segments where there are enough of them, else from all readings.
    """
    d = rows.dim
    ends, before = lagged(rows, order)
    later = lagged(rows, order - 1)[0] if order > 1 else np.flatnonzero(rows.used)
    windows = np.stack([rows.Y[later - lag] for lag in range(order)], axis=1).reshape(len(later), order * d)
    segment = np.searchsorted(rows.starts, later, side="right")
    _, first = np.unique(segment, return_index=True)
    if len(first) >= 5 + 2 * order * d:
        windows = windows[first]
    if len(windows) <= order * d:
        windows = before if len(ends) > order * d else np.tile(rows.Y[rows.used], (1, order))
    cov = np.atleast_2d(np.cov(windows, rowvar=False))
    spread = float(np.trace(cov)) / len(cov)
    if not spread > 0.0:
        spread = float(np.var(rows.Y[rows.used]))
    return windows.mean(axis=0), cov + 1e-6 * spread * np.eye(len(cov))


def resolution(rows: Rows) -> Array:
    """For each channel the smallest distance of two different readings: no law need be narrower than that."""
    found = []
    for column in rows.Y[rows.used].T:
        values = np.unique(column)
        gaps = np.diff(values)
        gaps = gaps[gaps > 1e-9 * max(1.0, float(np.abs(values).max()))]
        found.append(float(gaps.min()) if gaps.size else math.nan)
    return np.array(found)
