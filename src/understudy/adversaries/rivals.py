"""What a design is compared with: simple rivals, and the least distortion that hiding costs at all.

*The limit.* Somebody who looks at one output at a time, and knows the laws Q_i of the output under each of m values,
has the balanced accuracy (1/m) sum over outputs of max_i Q_i; for two values this is 1/2 + TV(Q_0, Q_1)/2. A method
that keeps him to at most `a` has a mean absolute distortion of at least

    min  sum_i p_i W(P_i, Q_i)   subject to   sum over outputs of max_i Q_i <= m a,

with P_i the laws of the readings, p_i their shares, and W the least mean distance of a transport. It is a linear
program over cells of the reading (`distortion_limit`). Cells lie as near to each other as their nearest points do, and
outputs are told apart by cell only, so that the figure stays a lower bound. Transports go along the line, cell by cell,
so that the program grows with the number of cells and not with its square. Adversaries who look at more than one output
only raise what hiding costs. An output between two cells may be moved to the better end of the gap: on a gap the cost
is linear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Ints
from understudy.adversaries.datasets import Labels, Recording, as_table, make_recording
from understudy.errors import ConfigurationError
from understudy.identify.history import History

# The limit ------------------------------------------------------------------------------------------------------------


CELLS = 100
"""Cells of the reading, each with about as many readings."""
ACCURACIES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class DistortionLimit:
    """The least mean absolute distortion of any method, at several balanced accuracies of who sees single outputs."""

    accuracies: tuple[float, ...]
    distortion: tuple[tuple[float, ...], ...]
    """For each channel, at each accuracy, in the unit of the reading."""
    mean_reading: tuple[float, ...]
    """Mean absolute reading by channel."""
    values: int
    """How many values of the private parameter occur; all of them enter at once."""

    @property
    def percent(self) -> tuple[tuple[float, ...], ...]:
        """The distortion in percent of the mean absolute reading, for each channel at each accuracy."""
        pairs = zip(self.distortion, self.mean_reading, strict=True)
        return tuple(tuple(100.0 * x / mean if mean > 0.0 else math.nan for x in line) for line, mean in pairs)


def distortion_limit(
    history: History | Recording | tuple[ArrayLike, Labels],
    accuracies: Iterable[float] = ACCURACIES,
    cells: int = CELLS,
) -> DistortionLimit:
    """The least distortion of any method whose single outputs tell the private value no better than stated.

    Parameters
    ----------
    history : History, Recording, or a pair of arrays
        Labelled readings. A pair holds readings (T,) or (T, d) and one private value a row; None and NaN are unknown.
    accuracies : iterable of float
        Balanced accuracies, from 1/m (chance, for m values) to 1.
    cells : int
        Cells of the reading. More cells make the bound tighter, and the laws of small recordings less certain.

    Returns
    -------
    DistortionLimit
        The limit by channel, in the unit of the reading and in percent of its mean. With several channels each has a
        limit of its own: who sees all of them sees no less. With more than two values the limit is for all of them
        together, not for pairs.

    Raises
    ------
    ConfigurationError
        If fewer than two values occur, or an accuracy does not lie from chance to 1.

    Examples
    --------
    Half of the readings are 400 and half are 1000. Who must not be told apart at all must meet, at 300 a reading:

    >>> limit = distortion_limit(([400.0, 1000.0] * 50, [0, 1] * 50), accuracies=[0.5, 0.75, 1.0])
    >>> [round(x, 6) for x in limit.distortion[0]]
    [300.0, 150.0, 0.0]
    >>> [round(x, 2) for x in limit.percent[0]]
    [42.86, 21.43, 0.0]

    """
    if isinstance(cells, bool) or not isinstance(cells, (int, np.integer)) or cells < 2:
        raise ConfigurationError(f"cells = {cells!r}; it must be a whole number of at least 2")
    Y, theta = _labelled_rows(history)
    wanted = tuple(float(a) for a in accuracies)
    return limit_of(Y, theta, wanted, int(cells))


def limit_of(Y: Array, theta: Ints, accuracies: Sequence[float], cells: int = CELLS) -> DistortionLimit:
    """The limit of readings (T, d) with the positions of their private values, -1 where unknown."""
    lines, means, values = [], [], int(np.unique(theta[theta >= 0]).size)
    if values < 2:
        raise ConfigurationError("fewer than two private values occur; there is nothing to be hidden")
    for a in accuracies:
        if not 1.0 / values - 1e-9 <= a <= 1.0 + 1e-9:
            raise ConfigurationError(f"accuracy {a!r}: it must lie from chance, 1/{values}, to 1")
    for y in Y.T:
        there = np.isfinite(y) & (theta >= 0)
        label = np.unique(theta[there], return_inverse=True)[1]
        known = label.size > 0 and int(label.max()) == values - 1
        # a channel that lacks a value altogether tells nothing of what hiding that value costs
        lines.append(_least_distortions(y[there], label, accuracies, cells) if known else [math.nan] * len(accuracies))
        means.append(float(np.abs(y[there]).mean()) if there.any() else math.nan)
    return DistortionLimit(tuple(accuracies), tuple(map(tuple, lines)), tuple(means), values)


def _labelled_rows(history: History | Recording | tuple[ArrayLike, Labels]) -> tuple[Array, Ints]:
    if isinstance(history, Recording):
        return history.Y, history.theta
    if isinstance(history, History):
        parts = history.segments
        return np.concatenate([part.Y for part in parts]), np.concatenate([part.theta for part in parts])
    if not isinstance(history, (tuple, list)) or len(history) != 2:
        raise ConfigurationError("history must be a history, a recording, or a pair of readings and private values")
    Y = as_table(history[0], "readings")
    theta = np.asarray(history[1], dtype=object).ravel()
    values = list(dict.fromkeys(v for v in theta.tolist() if v is not None and v == v))
    recording = make_recording(Y, theta.tolist(), values)
    return recording.Y, recording.theta


def _least_distortions(y: Array, label: Ints, accuracies: Sequence[float], cells: int) -> list[float]:
    """The optimum of the linear program at each accuracy, for one channel; labels are 0 .. m - 1, all of them there."""
    import scipy.sparse as sp
    from scipy.optimize import linprog

    low, high, place = _cells(y, cells)
    k, m = len(low), int(label.max()) + 1
    if k == 1:
        return [0.0] * len(accuracies)
    counts = np.bincount(label * k + place, minlength=m * k).reshape(m, k).astype(float)
    shares, laws = counts.sum(axis=1) / counts.sum(), counts / counts.sum(axis=1, keepdims=True)
    unit = float(high[-1] - low[0])
    gap, width = (low[1:] - high[:-1]) / unit, (high - low) / unit
    one, none = sp.identity(k, format="csr"), sp.csr_matrix((k, k))
    # what leaves cell j to the right arrives at cell j + 1, to the left at j - 1; beyond the ends there is nothing
    ahead, back = sp.eye(k, k, k=-1, format="csr"), sp.eye(k, k, k=1, format="csr")
    # unknown, for each value: what stays, sets out to the right, to the left, passes to the right, passes to the left
    right, left = np.append(gap, 0.0), np.insert(gap, 0, 0.0)
    cost = np.concatenate([np.zeros(k), right, left, right + width, left + width])
    most = np.full((5, k), np.inf)
    most[[1, 3], -1] = most[[2, 4], 0] = 0.0
    bounds = np.column_stack([np.zeros(5 * k * m + k), np.append(np.tile(most.ravel(), m), np.full(k, np.inf))])
    given = sp.hstack([one, one, one, none, none])
    stops = [sp.hstack([none, ahead, none, ahead - one, none]), sp.hstack([none, none, back, none, back - one])]
    output = sp.hstack([one, none, none, none, none]) + stops[0] + stops[1]
    # s_j >= Q_i(j) for each value i, and the sum of s is m times the accuracy
    above = sp.hstack([sp.block_diag([output] * m), sp.vstack([-one] * m)])
    passing = sp.hstack([sp.block_diag([-sp.vstack(stops)] * m), sp.csr_matrix((2 * k * m, k))])
    total = sp.hstack([sp.csr_matrix((1, 5 * k * m)), sp.csr_matrix(np.ones((1, k)))])
    A = sp.vstack([above, passing, total]).tocsr()
    equal = sp.hstack([sp.block_diag([given] * m), sp.csr_matrix((k * m, k))]).tocsr()
    objective = np.concatenate([*(share * cost for share in shares), np.zeros(k)])
    found = []
    for a in accuracies:
        limit = np.append(np.zeros(A.shape[0] - 1), m * min(max(a, 1.0 / m), 1.0))
        solution = linprog(objective, A_ub=A, b_ub=limit, A_eq=equal, b_eq=laws.ravel(), bounds=bounds)
        found.append(max(0.0, unit * float(solution.fun)) if solution.status == 0 else math.nan)
    return found


def _cells(y: Array, cells: int) -> tuple[Array, Array, Ints]:
    """The least and the greatest reading of each cell, and the cell of each reading; cells hold about as many."""
    edges = np.unique(np.quantile(y, np.linspace(0.0, 1.0, cells + 1)))
    place = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, max(0, len(edges) - 2))
    place = np.unique(place, return_inverse=True)[1]
    order = np.argsort(y, kind="stable")
    first = np.searchsorted(place[order], np.arange(int(place.max()) + 1))
    return y[order][first], y[order][np.append(first[1:], len(y)) - 1], place.astype(np.int64)
