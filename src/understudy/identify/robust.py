"""Bad samples and jumps, found by the filter: what a Gaussian fit must leave out.

The filter of the present fit goes through the readings. One that lies further from its prediction than five standard
deviations is set aside: it counts as missing, so it moves neither the state nor a variance, and the next ones are
judged by a prediction that knows nothing of it. Where more than four readings in a row would be set aside, the level
itself has jumped: they are taken back, and the segment is cut before the first of them.

At most one reading in a hundred of a value (five, for values with few) is set aside or cut at. Under a normal law
five standard deviations are passed once in 1.7 million, so on clean data nothing is lost and no variance is biased;
where more readings lie out there, the noise has heavy tails, and a normal law is told by its 99 percent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.identify.labelled import Indices, Mask, Rows
from understudy.identify.predicting import filtered
from understudy.identify.regression import allowance, distance_limit
from understudy.models.gauss_markov import GaussMarkov

LONGEST = 4
"""Bad samples in a row; more are a jump of the level."""
_APART = 3  # a bad sample disturbs the predictions of those after it, which are judged once it is gone


def set_aside(models: list[GaussMarkov], rows: Rows) -> Rows:
    """The rows without bad samples, cut at jumps; `models` has one for each label.

    >>> models = [GaussMarkov(0.5, 1.0, 1.0, 0.1, mean0=0.0, cov0=1.0)]
    >>> y, zeros = np.zeros((200, 1)), np.zeros(200, dtype=np.intp)
    >>> y[50:54] = 700.0
    >>> rows = set_aside(models, Rows(y, zeros, np.array([0]), np.ones(200, dtype=bool)))
    >>> np.flatnonzero(~rows.used).tolist()
    [50, 51, 52, 53]
    """
    limit = distance_limit(rows.dim)
    m = len(models)
    most = np.array([allowance(int(n)) for n in np.bincount(rows.theta[rows.used], minlength=m)])
    whole, aside, cuts = rows, np.zeros(len(rows.Y), dtype=bool), rows.opening
    for _ in range(200):
        left = most - np.bincount(rows.theta[aside | (cuts & ~whole.opening)], minlength=m)
        distance = _distances(models, rows)
        marked = _first_of_each(np.nan_to_num(distance, nan=0.0), limit, left[rows.theta] > 0)
        marked = _within_allowance(marked, distance, rows.theta, left)
        if not marked.size:
            break
        aside[marked] = True
        for first, last in _runs(aside, whole.used, cuts):
            aside[first : last + 1] = False
            cuts = cuts.copy()
            cuts[first] = True
        Y = np.where(aside[:, None], np.nan, whole.Y)
        rows = Rows(Y, whole.theta, np.flatnonzero(cuts), whole.used & ~aside)
    return replace(rows)


def _distances(models: list[GaussMarkov], rows: Rows) -> np.ndarray:
    """Squared lengths of the scores; NaN where no reading counts."""
    return np.concatenate([np.square(filtered(models, rows.Y[s], rows.theta[s])[1]).sum(axis=1) for s in rows.pieces])


def _first_of_each(distance: np.ndarray, limit: float, open_: Mask) -> Indices:
    """The far ones that have no other far one close before them."""
    far = np.flatnonzero((distance > limit) & open_)
    return far[np.diff(far, prepend=-_APART - 1) > _APART]


def _within_allowance(marked: Indices, distance: np.ndarray, theta: Indices, left: np.ndarray) -> Indices:
    """Of each value no more than may still be set aside: the furthest."""
    kept = []
    for i, most in enumerate(left):
        mine = marked[theta[marked] == i]
        kept.append(mine[np.argsort(-distance[mine], kind="stable")[: max(int(most), 0)]])
    return np.sort(np.concatenate(kept))


def _runs(aside: Mask, used: Mask, cuts: Mask) -> list[tuple[int, int]]:
    """Stretches of more than LONGEST readings set aside with none kept between them, within a segment."""
    at = np.flatnonzero(used)
    flags, edge = aside[at], cuts[at]
    found = []
    start = None
    for position in np.flatnonzero(flags):
        if start is None or not flags[position - 1] or edge[position]:
            start = position
        if position - start == LONGEST:
            stop = position
            while stop + 1 < len(at) and flags[stop + 1] and not edge[stop + 1]:
                stop += 1
            found.append((int(at[start]), int(at[stop])))
    return found
