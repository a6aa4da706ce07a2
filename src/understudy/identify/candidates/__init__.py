"""Candidates: one fitted model class, and what all fitters share.

A `Candidate` holds one model for each value of the private parameter, and what was found on the way. Each fitter has a
file of its own: `grey_box`, `autoregressive`, `independent`, `hidden_markov`.

Fitters take the rows of all segments in one array (`Rows`). A label that is unknown governs a step all the same. The
last one known is taken for it (the first one, before any is known), and the reading counts as missing: the state goes
on, the likelihood has no term. Values with few readings share the parameters of a neighbour (`groups`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy import text
from understudy._types import Array, Index, Mask, Value
from understudy.errors import ModelError
from understudy.laws.gaussian import Gaussian
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.model import Model
from understudy.transform.backend import integers, kernels, view
from understudy.transform.kalman_pair import bad_innovation, white
from understudy.transform.readings import infinite

if TYPE_CHECKING:
    from understudy.identify.history import History


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """One model class, fitted. Its text shows counts, no parameter and no reading.

    >>> import understudy as us
    >>> models = {0: us.IID(us.Gaussian(400.0, 9.0)), 1: us.IID(us.Gaussian(600.0, 25.0))}
    >>> Candidate("independent, normal", models, {"mean": [400.0, 600.0], "variance": [9.0, 25.0]}, 4)
    Candidate('independent, normal', 2 values, 4 free parameters)
    """

    name: str
    """What it is, in words; the table of candidates has it in its first column."""
    models: Mapping[Value, Model]
    """The model of each value, in the order of the values."""
    parameters: dict[str, Any]
    """Plain numbers and lists, for people and for JSON."""
    count: int
    """Number of free parameters."""
    notes: tuple[str, ...] = ()
    """What was done and what gave way, one plain sentence each."""

    def __repr__(self) -> str:
        return f"Candidate({self.name!r}, {text.with_count(len(self.models), 'value')}, {self.count} free parameters)"


def gaussian(mean: Array, cov: Array) -> Gaussian:
    """A normal law of one channel or of several."""
    return Gaussian(float(mean[0]), float(cov[0, 0])) if len(mean) == 1 else Gaussian(mean, cov)


# The rows of a history as the fitters want them: all segments in one array, labels without holes -----


FEWEST = 30
"""Readings that a value must have for parameters of its own."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """All segments one after the other; rows that do not count in the likelihood are NaN."""

    Y: Array
    """(N, d); NaN in every channel where a reading is incomplete or its label unknown."""
    theta: Index
    """(N,) the label that governs the step, 0..m-1."""
    starts: Index
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

    def counts(self, m: int) -> list[int]:
        """Rows that count, of each of m values."""
        found: list[int] = np.bincount(self.theta[self.used], minlength=m).tolist()
        return found

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
    Y = np.concatenate([mask_readings(segment.Y, segment.theta) for segment in parts])
    theta = np.concatenate([fill_labels(segment.theta) for segment in parts])
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


def mask_readings(Y: Array, theta: Index) -> Array:
    """Readings, NaN in every channel where one is missing or the label is unknown."""
    out = np.array(Y, dtype=float)
    out[np.isnan(out).any(axis=1) | (theta < 0)] = np.nan
    return out


def fill_labels(theta: Index) -> Index:
    """The labels with the unknown ones filled in: by the last known, at the start by the first known.

    >>> fill_labels(np.array([-1, 2, -1, 0])).tolist()
    [2, 2, 2, 0]
    """
    known = theta >= 0
    if not known.any():
        return np.zeros(len(theta), dtype=np.intp)
    last = np.maximum.accumulate(np.where(known, np.arange(len(theta)), -1))
    return np.asarray(theta[np.where(last < 0, int(known.argmax()), last)], dtype=np.intp)


def groups(counts: Sequence[int], values: Sequence[Value], least: int = FEWEST) -> tuple[Index, tuple[str, ...]]:
    """Which parameters each value has: its own, or where it has few readings those of the nearest with enough.

    Values stand in order, so the nearest is the most like it. Returns the group of each value and notes.

    >>> groups([100, 3, 50], ["0", "1-2", "3+"])[0].tolist()
    [0, 0, 1]
    """
    enough = [i for i, count in enumerate(counts) if count >= least]
    if not enough:
        return np.zeros(len(counts), dtype=np.intp), (text.fit_note("one law", least=least),)
    notes = []
    found = []
    for i, count in enumerate(counts):
        near = min(enough, key=lambda j: (abs(i - j), j))
        found.append(enough.index(near))
        if near != i:
            notes.append(text.fit_note("law of another value", value=values[i], count=count, other=values[near]))
    return np.array(found, dtype=np.intp), tuple(notes)


def lags(rows: Rows, order: int) -> tuple[Index, Array]:
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
    ends, before = lags(rows, order)
    later = lags(rows, order - 1)[0] if order > 1 else np.flatnonzero(rows.used)
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


def cell_deviations(rows: Rows) -> Array:
    """For each channel step / sqrt(12), with the smallest distance of two different readings for a step.

    This is the standard deviation within a cell of a grid: no law need be narrower than that.
    """
    found = []
    for column in rows.Y[rows.used].T:
        values = np.unique(column)
        gaps = np.diff(values)
        gaps = gaps[gaps > 1e-9 * max(1.0, float(np.abs(values).max()))]
        found.append(float(gaps.min()) if gaps.size else 0.0)
    return np.array(found) / math.sqrt(12.0)


# The Kalman filter along the labelled path ------------------------------------------------------------


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_EMPTY = np.empty(0)


def kalman_filter(members: list[GaussMarkov], Y: Array, theta: Index) -> tuple[Array, Array]:
    """Log-densities and scores of one segment by the compiled Kalman recursion; rows with NaN are missing.

    >>> members = [GaussMarkov(0.5, 1.0, 1.0, 0.0, mean0=0.0, cov0=0.0)]
    >>> kalman_filter(members, np.array([[1.0], [0.5]]), np.array([0, 0]))[1].ravel().tolist()
    [1.0, 0.0]
    """
    T, d = Y.shape
    if T == 0:
        return np.empty(0), np.empty((0, d))
    n, start, noise = members[0].states, members[theta[0]], white(d)
    Y = np.ascontiguousarray(Y)
    z, scale = np.empty((T, d)), np.empty(T)
    x, xt = np.concatenate([start.mean0, np.zeros(d)]), np.zeros(1 + d)
    P, Pt = start.cov0.ravel().copy(), np.zeros(1)
    widths = (kernels.gain_width(s, d) + kernels.system_width(s, d) + kernels.workspace(s, d) for s in (n, 1))
    done, why = kernels.run_off_table(
        view(Y.reshape(-1)), view(z.reshape(-1)), view(scale), 0, T, d, False,
        view(np.concatenate([m.row(1) for m in members])), view(integers(theta)), n, view(x), view(P), view(_EMPTY),
        view(noise.row(1)), view(integers([0])), 1, view(xt), view(Pt), view(_EMPTY),
        view(np.empty(d, dtype=np.intp)), view(np.empty(3 * d + sum(widths))),
    )  # fmt: skip
    if why == kernels.INFINITE:
        raise infinite(done)
    if why in (kernels.BAD_SOURCE, kernels.BAD_TARGET):
        raise bad_innovation(done + 1)
    with np.errstate(divide="ignore"):
        return np.log(scale) - 0.5 * np.square(z).sum(axis=1) - d * _HALF_LOG_2PI, z
