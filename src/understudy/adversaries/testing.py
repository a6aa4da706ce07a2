"""Tests of "the output tells nothing about theta", and their correction for many adversaries.

*Independent sequences.* Nothing is told if the labels could as well stand beside other outputs. Labels are permuted
among the sequences, guesses stay: for one guess a sequence by the tables with the same margins (two values: the
hypergeometric law itself), for paths of labels by exchanging whole paths.

*One recording.* Labels cannot be permuted, for theta stays where it is for hours. With l and g the indicators of label
and guess, less their means (at the same time of day, where the clock is known, so that what the clock tells does not
count), each stretch of time has

    x_b = sum over its readings and the values c of  (l_c - mean l_c)(g_c - mean g_c) / n_c

whose sum is m times the balanced accuracy, less 1. If the output tells nothing, each x_b is as likely to be above zero
as below. p is the larger of that of Student's test of the mean (with what neighbours in time know of each other) and
that of changing the signs of stretches at random. Of k stretches that share a mean (those with the same time of day,
or all of them) each is in what is taken off the others, and their x_b go together: the variance of the sum is
k / (k - 1) times what it seems.
With few stretches p cannot be small: B of them have none below 2^-B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.intervals import squares
from understudy.laws.base import Array

Ints = NDArray[np.int64]

PERMUTED = 9999
"""Permutations that are drawn where they are not counted through, and nothing asks for more."""
MOST_PERMUTED = 1_000_000
_CLEAR = 50  # of the first permutations that do as well: p is far above any level that needs more of them
_AT_ONCE = 4_000_000  # numbers
_FEW = 14  # stretches whose signs are all gone through


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Which of several hypotheses fall, at this false-alarm rate for all together (Holm, 1979).

    >>> holm([0.001, 0.06, 0.012, float("nan")], 0.05)
    [True, False, True, False]
    """
    order = sorted((x, i) for i, x in enumerate(p) if x == x)
    falls = [False] * len(p)
    for rank, (x, i) in enumerate(order):
        if x > level / (len(order) - rank):
            break
        falls[i] = True
    return falls


def permutations_for(tried: int, level: float) -> int:
    """How many permutations p needs, so that it can be ten times below the level of the strictest of so many tests.

    >>> permutations_for(4, 0.01), permutations_for(30, 0.01), permutations_for(30, 0.0001)
    (9999, 30000, 1000000)
    """
    return int(min(max(PERMUTED, math.ceil(10.0 * tried / level - 1e-6)), MOST_PERMUTED))


def _counted(above: Callable[[int], int], draws: int) -> float:
    """The p of so many permutations, of which `above` makes some and tells how many do as well."""
    first = min(PERMUTED, draws)
    found = above(first)
    if found >= _CLEAR or first == draws:
        return (1 + found) / (1 + first)
    return (1 + found + above(draws - first)) / (1 + draws)


def tables(guess: Ints, truth: Ints, m: int, rng: np.random.Generator, draws: int | None = None) -> float:
    """The p of one guess for each independent sequence: how often permuted labels do as well.

    >>> truth = np.repeat([0, 1], 20)
    >>> tables(truth, truth, 2, np.random.default_rng(0)) < 1e-10, tables(truth * 0, truth, 2, np.random.default_rng(0))
    (True, 1.0)
    """
    counted, told = np.bincount(truth, minlength=m), np.bincount(guess, minlength=m)
    seen = np.flatnonzero(counted)
    if seen.size < 2:
        return math.nan
    hits = np.bincount(truth[guess == truth], minlength=m)
    if m == 2:
        from scipy.stats import hypergeom

        # balanced accuracy grows with the number of right guesses of either value, the margins given
        return float(min(1.0, hypergeom.sf(hits[1] - 1, truth.size, counted[1], told[1])))
    found = (hits[seen] / counted[seen]).sum()

    def above(count: int) -> int:
        drawn = np.zeros(count)
        left = np.tile(counted, (count, 1))
        for c in range(m):
            # the labels beside guess c, drawn from those that are left
            row = _beside(left, int(told[c]), rng)
            left -= row
            if counted[c]:
                drawn += row[:, c] / counted[c]
        return int((drawn >= found - 1e-12).sum())

    return _counted(above, draws or PERMUTED)


def _beside(left: Ints, size: int, rng: np.random.Generator) -> Ints:
    """So many labels out of each row, without putting back."""
    row = np.zeros_like(left)
    need = np.full(len(left), size)
    rest = left.sum(axis=1)
    for c in range(left.shape[1] - 1):
        rest = rest - left[:, c]
        row[:, c] = rng.hypergeometric(left[:, c], rest, need)
        need = need - row[:, c]
    row[:, -1] = need
    return row


def exchanged(guess: Ints, truth: Ints, m: int, rng: np.random.Generator, draws: int | None = None) -> float:
    """The p of guesses (T, N) along N independent sequences: whole paths of labels are exchanged. -1 is not judged."""
    N = truth.shape[1]
    counted = np.bincount(truth[truth >= 0], minlength=m)
    seen = np.flatnonzero(counted)
    if N < 2 or seen.size < 2:
        return math.nan
    # agreement[a, b]: what the guesses of sequence a gain beside the labels of sequence b
    agreement = np.zeros((N, N))
    for c in seen:
        agreement += (guess == c).astype(np.float32).T @ (truth == c).astype(np.float32) / counted[c]
    found = float(np.trace(agreement))
    at = np.arange(N)

    def above(count: int) -> int:
        total = 0
        for size in _portions(count, N):
            beside = rng.permuted(np.tile(at, (size, 1)), axis=1)
            total += int((agreement[at, beside].sum(axis=1) >= found - 1e-6).sum())
        return total

    return _counted(above, draws or PERMUTED)


def _portions(count: int, wide: int) -> list[int]:
    """Rows of so many numbers, in portions that can be held."""
    size = max(1, min(count, _AT_ONCE // max(wide, 1)))
    return [size] * (count // size) + ([count % size] if count % size else [])


def stretches(
    guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None, rng: np.random.Generator,
    draws: int | None = None,
) -> float:  # fmt: skip
    """The p of guesses along a recording, in flat arrays; `strata` numbers the time of day of each, or is None.

    A stratum below 0 does not count. NaN where the labels do not differ within strata: then nothing can be told.
    """
    varied = contributions(truth, truth, blocks, m, strata) > 1e-9
    if int(varied.sum()) < 2:
        return math.nan
    found = contributions(guess, truth, blocks, m, strata)[varied]
    wider = math.sqrt(found.size / (found.size - 1)) if strata is None else _shared(truth, blocks, strata)
    return max(_student(found, wider), _signs(found, wider, rng, draws or PERMUTED))


def _shared(truth: Ints, blocks: Ints, strata: Ints) -> float:
    """The root of k / (k - 1), averaged, for the k stretches that have a stratum in common."""
    counts = strata >= 0
    number, hour = (np.unique(x[counts], return_inverse=True)[1] for x in (blocks, strata))
    each = np.unique(hour * (int(number.max()) + 1) + number) // (int(number.max()) + 1)
    k = np.bincount(each)[hour].astype(float)
    return math.sqrt(float(np.mean(k / np.maximum(k - 1.0, 0.5))))


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


def least(blocks: int) -> float:
    """The least p that a recording of so many stretches can have."""
    return 2.0**-blocks if blocks <= _FEW else 1.0 / (1 + PERMUTED)


def _student(x: Array, wider: float) -> float:
    from scipy.special import stdtr

    centred = x - x.mean()
    spread = math.sqrt(squares(centred) * x.size / (x.size - 1))  # of the sum
    if spread <= 1e-12 * float(np.abs(x).sum()):
        return 1.0 if float(x.mean()) <= 0.0 else least(x.size)
    return float(stdtr(max(x.size - 2, 1), -float(x.sum()) / (wider * spread)))  # two means were taken off


def _signs(x: Array, wider: float, rng: np.random.Generator, draws: int) -> float:
    """Chance of as high a sum if every sign were tossed: all of them, or some drawn at random."""
    least_sum = (float(x.sum()) - 1e-12 * float(np.abs(x).sum())) / wider
    if x.size <= _FEW:
        signs = 1.0 - 2.0 * ((np.arange(2**x.size)[:, None] >> np.arange(x.size)) & 1)
        return float(np.mean(signs @ x >= least_sum))

    def above(count: int) -> int:
        total = 0
        for size in _portions(count, x.size):
            signs = 1.0 - 2.0 * rng.integers(0, 2, size=(size, x.size), dtype=np.int8)
            total += int((signs @ x >= least_sum).sum())
        return total

    return _counted(above, draws)
