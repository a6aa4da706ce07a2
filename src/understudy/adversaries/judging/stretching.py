"""The test of "the output tells nothing about theta" along one recording.

Labels cannot be permuted, for theta stays where it is for hours. With l and g the indicators of label and guess, less
their means (at the same time of day, where the clock is known, so that what the clock tells does not count), each
stretch of time has

    x_b = sum over its readings and the values c of  (l_c - mean l_c)(g_c - mean g_c) / n_c

whose sum is m times the balanced accuracy, less 1. If the output tells nothing, each x_b is as likely to be above zero
as below. p is the larger of that of Student's test of the mean (with what neighbours in time know of each other) and
that of changing the signs of stretches at random. Of k stretches that share a mean (those with the same time of day,
or all of them) each is in what is taken off the others, and their x_b go together: the variance of the sum is
k / (k - 1) times what it seems.

With few stretches p cannot be small: B of them have none below 2^-B. If each of twenty adversaries had to be below a
twentieth of the level, a week could never tell. So signs are changed for all adversaries at once, as what a stretch
holds is the same for all of them, and each sum is compared with the largest (Westfall and Young, 1993, stepping down).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.judging.intervals import squares
from understudy.adversaries.judging.testing import PERMUTED, holm, portions
from understudy.laws.base import Array
from understudy._types import Ints


_FEW = 14  # stretches whose signs are all gone through


class Agreement(NamedTuple):
    """What guesses and labels have in common: x_b of every stretch, and in which of them labels vary at all."""

    x: Array
    varied: NDArray[np.bool_]
    wider: float
    """How much further the sum strays than it seems to."""


def agreement(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None) -> Agreement | None:
    """Of guesses along a recording, in flat arrays; `strata` numbers the time of day of each, or is None.

    A stratum below 0 does not count. None where the labels do not differ within strata: then nothing can be told.
    """
    varied = contributions(truth, truth, blocks, m, strata) > 1e-9
    count = int(varied.sum())
    if count < 2:
        return None
    wider = math.sqrt(count / (count - 1)) if strata is None else _shared(truth, blocks, strata)
    return Agreement(np.where(varied, contributions(guess, truth, blocks, m, strata), 0.0), varied, wider)


def alone(found: Agreement | None, rng: np.random.Generator, draws: int = PERMUTED) -> float:
    """The p of one adversary, as if no other had been tried; NaN where nothing can be told."""
    if found is None:
        return math.nan
    return max(_student(found), _tossed([found], rng, draws)[0])


def together(found: Sequence[Agreement | None], rng: np.random.Generator, draws: int = PERMUTED) -> list[float]:
    """The p of each of several adversaries of the same recording, corrected for all of them.

    >>> days = Agreement(np.full(9, 0.1), np.full(9, True), 1.06)
    >>> round(alone(days, np.random.default_rng(0)), 4), together([days] * 20, np.random.default_rng(0))[0] < 0.01
    (0.002, True)
    """
    those = [one for one in found if one is not None]
    corrected = iter(map(max, holm([_student(one) for one in those]), _tossed(those, rng, draws)))
    return [math.nan if one is None else next(corrected) for one in found]


def _shared(truth: Ints, blocks: Ints, strata: Ints) -> float:
    """The root of k / (k - 1) for the k stretches that have a stratum in common, averaged over what labels vary."""
    counts = strata >= 0
    number, hour = (np.unique(x[counts], return_inverse=True)[1] for x in (blocks, strata))
    each = np.unique(hour * (int(number.max()) + 1) + number) // (int(number.max()) + 1)
    k, size = np.bincount(each)[hour].astype(float), np.bincount(hour).astype(float)
    weight = np.zeros(hour.size)
    for c in np.unique(truth[counts]):
        label = (truth[counts] == c).astype(float)
        weight += np.square(label - (np.bincount(hour, label) / size)[hour]) / label.sum()
    return math.sqrt(float(np.average(k / np.maximum(k - 1.0, 0.5), weights=weight)))


def contributions(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None) -> Array:
    """x_b of each stretch that is judged; rows of a stratum below 0 add nothing."""
    number = np.unique(blocks, return_inverse=True)[1]
    hour = np.zeros(truth.size, dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    counts = 1.0 if strata is None else (strata >= 0).astype(float)
    size = np.bincount(hour).astype(float)
    total = np.zeros(int(number.max()) + 1 if number.size else 0)
    for c in range(m):
        label, told = (truth == c).astype(float), (guess == c).astype(float)
        if not label.any():
            continue
        label_mean, told_mean = (np.bincount(hour, x) / size for x in (label, told))
        x = counts * (label - label_mean[hour]) * (told - told_mean[hour]) / label.sum()
        total += np.bincount(number, x, total.size)
    return np.asarray(total)


def _student(found: Agreement) -> float:
    from scipy.special import stdtr

    x = found.x[found.varied]
    centred = x - x.mean()
    spread = math.sqrt(squares(centred) * x.size / (x.size - 1))  # of the sum
    if spread <= 1e-12 * float(np.abs(x).sum()):
        return float(x.mean() <= 0.0)
    return float(stdtr(max(x.size - 2, 1), -float(x.sum()) / (found.wider * spread)))  # two means were taken off


def _tossed(found: Sequence[Agreement], rng: np.random.Generator, draws: int) -> list[float]:
    """Chance that the largest of the sums, each over its root of squares, is as high if every sign were tossed."""
    if not found:
        return []
    x = np.stack([one.x for one in found], axis=1)
    x = x[np.any([one.varied for one in found], axis=0)]
    size = np.sqrt(np.square(x).sum(axis=0))
    x = x / np.where(size > 0.0, size, 1.0)
    at_least = x.sum(axis=0) / [one.wider for one in found] - 1e-9
    order = np.argsort(-at_least, kind="stable")
    x, at_least = x[:, order], at_least[order]
    above, total = np.zeros(len(found)), 0
    for signs in _signs(len(x), rng, draws):
        # of each and of those that come after it: what is clearer than this one has fallen already
        largest = np.maximum.accumulate((signs @ x)[:, ::-1], axis=1)[:, ::-1]
        above += (largest >= at_least).sum(axis=0)
        total += len(signs)
    drawn = int(len(x) > _FEW)
    p = np.maximum.accumulate((drawn + above) / (drawn + total))
    return [float(x) for x in p[np.argsort(order)]]


def _signs(count: int, rng: np.random.Generator, draws: int) -> Iterator[Array]:
    """Rows of signs: every one there is, or some drawn at random."""
    if count <= _FEW:
        yield np.where((np.arange(2**count)[:, None] >> np.arange(count)) & 1, -1.0, 1.0)
        return
    for size in portions(draws, count):
        yield np.where(rng.integers(0, 2, size=(size, count), dtype=np.int8), -1.0, 1.0)
