"""A part of what is learned from is held out, to settle what learning leaves open: by stretches of time.

Neighbours in time know each other. So whole stretches are held out, copies of a stretch go together with it, and
readings whose windows reach into a stretch that is held out are not learned from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy._types import Mask

_GROUPS, _EVERY = 8, 4  # groups of stretches; one in so many is held out
_MANY = 4_000  # guesses


class Split(NamedTuple):
    """Which guesses are learned from and which are held out, in the shape of ``cases.truth``."""

    fit: Mask
    held: Mask


def held_out(cases: Cases, margin: int = 0, folds: int = 4) -> tuple[Split, ...]:
    """Hold out about a quarter, several times: another quarter each time. Empty where nothing can be held out.

    Quarters that have their share of every value come first. `margin` is how many readings next to a stretch that is
    held out are left alone, at most an eighth of its length. Of many sequences in which theta is constant, one quarter
    is enough.

    >>> labels = np.tile([[0], [1]], (40, 1))
    >>> cases = Cases(np.zeros((80, 1, 1)), labels, np.arange(80)[:, None] // 10, 2, once=False)
    >>> [(int(split.held.sum()), int(split.fit.sum())) for split in held_out(cases, folds=2)]
    [(20, 60), (20, 60)]
    """
    truth = cases.truth
    judged = truth >= 0
    groups = _groups(cases)
    every = min(_EVERY, int(groups.max()) + 1)
    if every < 2:
        return ()
    total = np.bincount(truth[judged], minlength=cases.m)
    quarters = [groups % every == offset for offset in range(every)]
    quarters.sort(key=lambda mask: -_balance(truth[judged & mask], total))
    splits = [_split(cases, judged, quarter, margin) for quarter in quarters]
    if cases.once and judged.sum() > _MANY:
        folds = 1
    return tuple(split for split in splits[:folds] if split.held.any() and len(np.unique(truth[split.fit])) > 1)


def _split(cases: Cases, judged: Mask, quarter: Mask, margin: int) -> Split:
    fit = ~quarter
    if not cases.once and margin:
        from scipy.ndimage import maximum_filter1d

        rows = int(quarter.sum(axis=0).max())
        near = 2 * min(margin, rows // 8) + 1
        fit = maximum_filter1d(quarter.astype(np.int8), near, axis=0, mode="constant", cval=0) == 0
    return Split(judged & fit, judged & quarter)


def _groups(cases: Cases) -> NDArray[np.int64]:
    """The number of the group of each guess: stretches in their order, or equal pieces of time where there are few."""
    stretches = cases.stretches
    numbers, rank = np.unique(stretches, return_inverse=True)
    rank = rank.reshape(stretches.shape)
    if cases.once:
        # in no order, for an order may go with the labels
        return np.random.default_rng(0).permutation(len(numbers))[rank]
    if len(numbers) >= _GROUPS:
        return np.asarray(rank * _GROUPS // len(numbers))
    place = rank * cases.T + np.arange(cases.T)[:, None]
    places, order = np.unique(place, return_inverse=True)
    return np.asarray(order.reshape(place.shape) * min(_GROUPS, len(places)) // len(places))


def _balance(labels: NDArray[np.int64], total: NDArray[np.int64]) -> float:
    """How near the shares held out are to a quarter of every value: the least of share held out and share left."""
    there = total > 0
    if not there.any():
        return 0.0
    share = np.bincount(labels, minlength=len(total))[there] / total[there]
    return float(np.minimum(share, (1.0 - share) / (_EVERY - 1.0)).min())
