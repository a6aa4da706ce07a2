"""The inverse of an increasing function, for many targets at once: Newton's method that cannot get lost.

Every point that is looked at becomes one end of the bracket around its target. A move that leaves the
bracket, or starts where the function is flat, is replaced by halving; after a few moves every second one
is. Half of the halvings count floats rather than lengths, and there are 2^64 floats, so that the bracket
is shut, its ends neighbours, after at most `LIMIT` looks whatever the function does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy._types import Mask
from understudy._types import Index


_FREE = 8  # looks before every second move must halve
LIMIT = _FREE + 2 * 2 * 64 + 4
"""No target takes more looks than this."""


class Look(NamedTuple):
    """What the function says at one point for each target."""

    miss: Array
    """Function minus target."""
    move: Array
    """The change that should bring the miss to zero."""
    settled: Mask
    """Whether that move is so small that it ends the search."""
    flat: Mask
    """Whether the function says nothing here, so that the move means nothing."""
    empty: Mask
    """Whether no reading can lie here (density zero): not to be given as the answer."""


def invert(
    look: Callable[[Index, Array], Look], low: Array, high: Array, start: Array, patience: int = 1
) -> tuple[Array, NDArray[np.int64]]:
    """The points where the function meets its targets, and the number of looks that each one took.

    ``look(which, points)`` is asked about the targets numbered `which`. The bracket [low, high] must hold
    the answer up to rounding. `patience` settled looks in a row end a search. Of points in a stretch
    over which the function does not change, the left end is given; where a miss is NaN, NaN.

    >>> cube = lambda which, y: Look(y**3 - 8.0, (8.0 / y**2 - y) / 3, abs(y - 2) < 1e-9, y == 0, y == 0)
    >>> y, looks = invert(cube, np.array([1.0]), np.array([9.0]), np.array([3.0]))
    >>> y.tolist(), looks.tolist()
    ([2.0], [6])
    """
    low, high = low.copy(), high.copy()
    point = np.where(np.isfinite(start), np.minimum(np.maximum(start, low), high), 0.5 * low + 0.5 * high)
    rank_low, rank_high = np.full(low.shape, np.inf), np.full(low.shape, np.inf)
    calm, looks = np.zeros(low.shape, dtype=np.int64), np.zeros(low.shape, dtype=np.int64)
    answer = low.copy()
    todo = np.flatnonzero(low < high)
    for turn in range(LIMIT):
        if not todo.size:
            break
        here = point[todo]
        miss, move, settled, flat, empty = look(todo, here)
        looks[todo] += 1
        # The end with the smaller miss is the better answer, unless no reading can lie there.
        rank = np.where(empty, np.inf, np.abs(miss))
        below = miss < 0
        at = todo[below]
        low[at], rank_low[at] = here[below], rank[below]
        at = todo[~below]
        high[at], rank_high[at] = here[~below], rank[~below]
        a, b = low[todo], high[todo]
        goal = here + move
        usable = ~flat & np.isfinite(goal)
        calm[todo] = np.where(settled & usable, calm[todo] + 1, 0)
        lost = np.isnan(miss)
        found = usable & ((calm[todo] >= patience) | (goal == here)) & ~lost
        shut = ~found & (np.nextafter(a, np.inf) >= b)
        answer[todo[found]] = np.minimum(np.maximum(goal, a), b)[found]
        at = todo[shut]
        answer[at] = np.where(rank_high[at] < rank_low[at], high[at], low[at])
        usable &= (goal > a) & (goal < b)
        if turn >= _FREE and turn % 2:
            usable[:] = False
        if not usable.all():
            goal = np.where(usable, goal, middle_float(a, b) if turn % 4 > 1 else 0.5 * a + 0.5 * b)
        point[todo] = goal
        answer[todo[lost]] = np.nan
        todo = todo[~(found | shut | lost)]
    return answer, looks


def middle_float(a: Array, b: Array) -> Array:
    """The float in the middle when the floats from a to b are counted.

    >>> middle_float(np.array([1.0, -1.0]), np.array([4.0, 1.0])).tolist()
    [2.0, -0.0]
    """
    i, j = _rank(a.view(np.int64)), _rank(b.view(np.int64))
    return _rank((i & j) + ((i ^ j) >> 1)).view(np.float64)


def _rank(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bits of a float as an integer that grows with it; its own inverse."""
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))
