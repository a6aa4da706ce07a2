"""One period: the spacing of rows, rows placed on it, and coarser rows made by resampling.

*Placing* keeps every reading and gives it the nearest place on the period, so that jitter of time stamps does no harm.
*Resampling* takes the mean of the readings in each stretch of one period (or the last one, for sensors that hold their
reading), and the label that most of its rows have, of equals the later one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError
from understudy.identify.clock import SECOND
from understudy.laws.base import Array

GAP = 50
"""Periods without a reading after which a new segment begins."""
COARSER = 1.5
"""A stated period of at least so many spacings is a wish to resample."""
_NEAT = [n * unit for unit in (1e-3, 1.0, 60.0, 3600.0) for n in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)]
_NEAT += [0.1, 0.2, 0.25, 0.5, 45.0, 90.0, 86400.0]


class Rows(NamedTuple):
    """Rows of one stretch of data, in time: nanoseconds, readings, positions of labels, public inputs."""

    ns: NDArray[np.int64]
    Y: Array
    theta: NDArray[np.intp]
    public: Array

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Rows:
        """Some of the rows."""
        return Rows(self.ns[which], self.Y[which], self.theta[which], self.public[which])


def spacing(stretches: list[NDArray[np.int64]]) -> float:
    """The period of time stamps, in seconds: the median spacing, made precise over runs without a long gap.

    It is a neat number of seconds where a drift of a quarter of a row at most is the price.

    >>> spacing([np.array([0, 59, 121, 180, 240, 299]) * SECOND])
    60.0
    """
    steps = [np.diff(ns) for ns in stretches]
    positive = np.concatenate([step[step > 0] for step in steps]) if steps else np.array([])
    if not positive.size:
        raise ConfigurationError("no two rows differ in time; a period cannot be told: state it")
    rough = float(np.median(positive))
    # least squares of time on the number of the row, within runs without a long gap
    products, squares, longest = 0.0, 0.0, 1.0
    for ns, step in zip(stretches, steps, strict=True):
        count = np.rint(step / rough)
        for run in np.split(np.arange(ns.size), np.flatnonzero(count > GAP) + 1):
            row = np.concatenate([[0.0], np.cumsum(count[run[:-1]])])
            centred = row - row.mean()
            products += float(centred @ (ns[run] - ns[run[0]]))
            squares, longest = squares + float(centred @ centred), max(longest, float(row[-1]))
    precise = (products / squares if squares else rough) / SECOND
    for neat in (min(_NEAT, key=lambda p: abs(p - precise)), float(round(precise))):
        wrong = abs(neat / precise - 1.0)
        if wrong < 0.01 and wrong * longest <= 0.25:
            return neat
    return precise


def place(rows: Rows, period: float) -> tuple[Rows, int, float]:
    """Rows on the period, one for each place from the first to the last; how many met on one place, and the jitter.

    Of rows that meet on one place the first is kept. Jitter is the 99th percentile of distances, in periods.
    """
    step = period * SECOND
    offset = (rows.ns - rows.ns[0]) / step
    # the phase that suits most: the median of what is left after whole periods
    phase = _phase(offset)
    index = np.rint(offset - phase).astype(np.int64)
    jitter = float(np.quantile(np.abs(offset - phase - index), 0.99))
    origin = rows.ns[0] + round((phase + index[0]) * step)
    index -= index[0]
    kept = np.concatenate([[True], np.diff(index) > 0])
    some = rows.take(kept)
    return some._replace(ns=origin + np.rint(index[kept] * step).astype(np.int64)), int((~kept).sum()), jitter


def _phase(offset: Array) -> float:
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return turn + float(np.median(rest - np.rint(rest)))


def resample(rows: Rows, period: float, last: bool = False) -> tuple[Rows, int]:
    """One row for each period that has readings, and how many had too few readings to count.

    A stretch counts if it has at least half of the readings that such a stretch typically has.

    >>> ns = np.arange(6) * 20 * SECOND
    >>> Y = np.array([[1.0], [2.0], [3.0], [7.0], [7.0], [np.nan]])
    >>> rows = Rows(ns, Y, np.array([0, 0, 1, 1, 0, -1]), Y)
    >>> coarse, few = resample(rows, 60.0)
    >>> coarse.Y.ravel().tolist(), coarse.theta.tolist()
    ([2.0, 7.0], [0, 0])
    """
    step = round(period * SECOND)
    places, which = np.unique(rows.ns // step, return_inverse=True)
    n = places.size
    there = ~np.isnan(rows.Y).any(axis=1)
    count = np.bincount(which[there], minlength=n)
    enough = count >= max(1.0, 0.5 * float(np.median(count[count > 0]))) if there.any() else count > 0
    Y = np.full((n, rows.Y.shape[1]), np.nan)
    if last:
        Y[which[there]] = rows.Y[there]  # the last assignment stays
    else:
        for channel in range(rows.Y.shape[1]):
            total = np.bincount(which[there], weights=rows.Y[there, channel], minlength=n)
            Y[:, channel] = total / np.maximum(count, 1)
    Y[~enough] = np.nan
    public = np.full((n, rows.public.shape[1]), np.nan)
    for column in range(rows.public.shape[1]):
        known = ~np.isnan(rows.public[:, column])
        seen = np.bincount(which[known], minlength=n)
        total = np.bincount(which[known], weights=rows.public[known, column], minlength=n)
        public[seen > 0, column] = total[seen > 0] / seen[seen > 0]
    coarse = Rows(places * step, Y, _majority(which, rows.theta, n), public)
    return coarse, int((~enough & (count > 0)).sum())


def _majority(which: NDArray[np.intp], theta: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """The label that most rows of a stretch have, of equals the later; unknown where most rows are."""
    m = int(theta.max(initial=-1)) + 1
    votes = np.zeros((n, m + 1))
    np.add.at(votes, (which, theta), 1.0)  # unknown ones go to the last column
    unknown = votes[:, m].copy()
    order = np.zeros((n, m + 1))
    order[which, theta] = np.arange(which.size) / max(which.size, 1)  # the last time that each was seen
    votes += np.where(votes > 0.0, 0.5 * order, 0.0)
    best = votes[:, :m].argmax(axis=1) if m else np.full(n, -1)
    known = np.floor(votes[:, :m]).sum(axis=1) >= unknown
    return np.where(known & (votes[:, :m].max(axis=1, initial=0.0) > 0.0), best, -1).astype(np.intp)


def stretched(rows: Rows, period: float) -> list[Rows]:
    """Rows with a place for each period, in stretches that end where no reading is for more than `GAP` periods.

    A place without a row has readings that are missing and the label unknown.
    """
    there = np.flatnonzero(~np.isnan(rows.Y).any(axis=1))
    if not there.size:
        return []
    index = np.rint((rows.ns - rows.ns[0]) / (period * SECOND)).astype(np.int64)
    ends = np.flatnonzero(np.diff(index[there]) > GAP)
    firsts, lasts = there[np.concatenate([[0], ends + 1])], there[np.concatenate([ends, [there.size - 1]])]
    return [
        _filled(rows.take(slice(first, last + 1)), index[first : last + 1], period)
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]


def _filled(rows: Rows, index: NDArray[np.int64], period: float) -> Rows:
    place = index - index[0]
    T = int(place[-1]) + 1
    if len(rows.ns) == T:
        return rows
    ns = rows.ns[0] + np.rint(np.arange(T) * (period * SECOND)).astype(np.int64)
    Y, theta = np.full((T, rows.Y.shape[1]), np.nan), np.full(T, -1, dtype=np.intp)
    public = np.full((T, rows.public.shape[1]), np.nan)
    Y[place], theta[place], public[place] = rows.Y, rows.theta, rows.public
    return Rows(ns, Y, theta, public)
