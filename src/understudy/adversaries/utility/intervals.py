"""Intervals over stretches of time: for a ratio of sums, and for any figure of the whole.

Neighbours in time know each other, so single readings are never what an interval rests on. The figures of a stretch
are added up, and what varies from one stretch to the next is taken for chance. Where several disguised copies of the
same readings are there, what varies from copy to copy is chance too: the draws differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.audited import Figure
from understudy.adversaries.judging.intervals import Sums, of_blocks, squares
from understudy.laws.base import Array

UNKNOWN = Figure(math.nan, math.nan, math.nan)
_STRETCHES = 12  # of a figure that has to be worked out anew without each


class Units(NamedTuple):
    """For each entry the number of its stretch of time and of its copy, both counted from 0; and the confidence."""

    block: NDArray[np.int64]
    copy: NDArray[np.int64]
    confidence: float

    def at(self, which: Any) -> Units:
        """The units of some entries."""
        return Units(self.block[which], self.copy[which], self.confidence)


def ratio(top: Array, bottom: Array, units: Units, limits: tuple[float, float] = (0.0, math.inf)) -> Figure:
    """The sum of `top` over the sum of `bottom`, with an interval that lies within `limits`.

    R = sum x / sum y. With the rest e = x - R y of each stretch and copy, the variance of R is

        (V_stretches + V_copies - V_cells) / (sum y)^2,     V = n / (n - 1) sum (sum of e in the unit)^2

    where stretches in a row may still know each other. The interval is Student's, with the degrees of freedom of Welch
    and Satterthwaite, or that of the bootstrap over stretches at the end where it is wider (`intervals.of_blocks`).

    >>> units = Units(np.arange(4), np.zeros(4, dtype=int), 0.95)
    >>> found = ratio(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), units)
    >>> [round(x, 3) for x in found]
    [2.0, 0.701, 3.299]
    """
    total = float(bottom.sum())
    if not top.size or not total > 0.0:
        return UNKNOWN
    found = float(top.sum()) / total
    blocks, copies = (np.unique(part, return_inverse=True)[1] for part in (units.block, units.copy))
    B, C = int(blocks.max()) + 1, int(copies.max()) + 1
    if B == 1 and C == 1:
        return Figure(found, math.nan, math.nan)
    above, below = (np.bincount(blocks * C + copies, part, B * C).reshape(B, C) for part in (top, bottom))
    cells = above - found * below
    between = _variance(cells.sum(axis=1), in_a_row=True)
    of_copies, of_cells = _variance(cells.sum(axis=0)), _variance(cells.ravel())
    variance = max(between + of_copies - (of_cells if min(B, C) > 1 else 0.0), between, of_copies)
    # (V_1 + V_2)^2 / (V_1^2 / (n_1 - 1) + V_2^2 / (n_2 - 1))
    parts = between**2 / max(B - 1, 1) + of_copies**2 / max(C - 1, 1)
    freedom = (between + of_copies) ** 2 / parts if parts > 0.0 else float(max(B, C) - 1)
    figure = _interval(found, math.sqrt(variance) / total, freedom, units.confidence, limits)
    return _skewed(figure, above.sum(axis=1), below.sum(axis=1), units.confidence, limits)


def _skewed(figure: Figure, top: Array, bottom: Array, confidence: float, limits: tuple[float, float]) -> Figure:
    """The figure with an interval that also holds that of the bootstrap, where stretches differ at all."""
    told = bottom > 0.0
    if int(told.sum()) < 3 or not figure.low < figure.high:
        return figure
    most = min(limits[1], 10.0 * float((top[told] / bottom[told]).max()))
    other = of_blocks(Sums(top[:, None], bottom[:, None]), confidence, (limits[0], most))
    return Figure(figure.value, min(figure.low, other.low), max(figure.high, other.high))


def without_each(
    figure: Callable[[NDArray[np.bool_]], float],
    block: NDArray[np.int64],
    confidence: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Figure:
    """A figure of the whole, with the interval of the jackknife: what it is without each stretch of time.

    `figure` is given which entries to keep. Stretches are put together to at most twelve.

    >>> y = np.array([1.0, 2.0, 3.0, 2.0])
    >>> [round(x, 3) for x in without_each(lambda keep: float(y[keep].mean()), np.arange(4), 0.95)]
    [2.0, 0.701, 3.299]
    """
    whole = figure(np.ones(block.shape, dtype=bool))
    numbers = np.unique(block, return_inverse=True)[1].reshape(block.shape)
    count = int(numbers.max()) + 1
    if count > _STRETCHES:
        numbers, count = numbers * _STRETCHES // count, _STRETCHES
    if count < 2 or not math.isfinite(whole):
        return Figure(whole, math.nan, math.nan)
    left = np.array([figure(numbers != number) for number in range(count)])
    left = left[np.isfinite(left)]
    if left.size < 2:
        return Figure(whole, math.nan, math.nan)
    # (n - 1) / n sum (figure without i - their mean)^2
    error = math.sqrt((left.size - 1) / left.size * float(np.square(left - left.mean()).sum()))
    return _interval(whole, error, left.size - 1.0, confidence, limits)


def _variance(sums: Array, in_a_row: bool = False) -> float:
    """Of a total that is made of parts whose mean is zero, which may know their neighbours; 0 where there is one."""
    n = sums.size
    return 0.0 if n < 2 else n / (n - 1.0) * (squares(sums) if in_a_row else float(np.square(sums).sum()))


def _interval(value: float, error: float, freedom: float, confidence: float, limits: tuple[float, float]) -> Figure:
    from scipy.special import stdtrit

    wide = float(stdtrit(max(freedom, 1.0), 0.5 + 0.5 * confidence)) * error
    low, high = limits
    return Figure(value, max(low, value - wide), min(high, value + wide))
