"""Tests of "the output tells nothing about theta", and their correction for many adversaries.

*Independent sequences.* Nothing is told if the labels could as well stand beside other outputs. Labels are permuted
among the sequences, guesses stay: for one guess a sequence by the tables with the same margins (two values: the
hypergeometric law itself), for paths of labels by exchanging whole paths.

*One recording.* Labels cannot be permuted, for theta stays where it is for hours. With l and g the indicators of label
and guess, less their means (at the same hour of the day, where the clock is known, so that what the clock tells does
not count), each stretch of time has

    x_b = sum over its readings and the values c of  (l_c - mean l_c)(g_c - mean g_c) / n_c

whose sum is m times the balanced accuracy, less 1. If the output tells nothing, each x_b is as likely to be above zero
as below. p is the larger of that of Student's test of the mean (with what neighbours in time know of each other) and
that of changing the signs of stretches at random.
With few stretches it cannot be small: B of them have no p below 2^-B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.intervals import squares
from understudy.laws.base import Array

Ints = NDArray[np.int64]

PERMUTED = 9999
"""Permutations that are drawn where they are not counted through."""
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


def tables(guess: Ints, truth: Ints, m: int, rng: np.random.Generator) -> float:
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
    drawn = np.zeros(PERMUTED)
    left = np.tile(counted, (PERMUTED, 1))
    for c in range(m):
        # the labels beside guess c, drawn from those that are left
        row = _beside(left, int(told[c]), rng)
        left -= row
        if counted[c]:
            drawn += row[:, c] / counted[c]
    return float((1 + (drawn >= found - 1e-12).sum()) / (1 + PERMUTED))


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


def exchanged(guess: Ints, truth: Ints, m: int, rng: np.random.Generator) -> float:
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
    above = 0
    for size in [1000] * (PERMUTED // 1000) + [PERMUTED % 1000]:
        beside = rng.permuted(np.tile(at, (size, 1)), axis=1)
        above += int((agreement[at, beside].sum(axis=1) >= found - 1e-6).sum())
    return (1 + above) / (1 + PERMUTED)


def stretches(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None, rng: np.random.Generator) -> float:
    """The p of guesses along a recording, in flat arrays; `strata` numbers the hour of each, or is None."""
    found = contributions(guess, truth, blocks, m, strata)
    return math.nan if found.size < 2 else max(_student(found), _signs(found, rng))


def contributions(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None) -> Array:
    """x_b of each stretch that is judged."""
    number = np.unique(blocks, return_inverse=True)[1]
    hour = np.zeros(truth.size, dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    size = np.bincount(hour).astype(float)
    total = np.zeros(int(number.max()) + 1 if number.size else 0)
    for c in range(m):
        label, told = (truth == c).astype(float), (guess == c).astype(float)
        if not label.any():
            continue
        label_mean, told_mean = (np.bincount(hour, x) / size for x in (label, told))
        x = (label - label_mean[hour]) * (told - told_mean[hour]) / label.sum()
        total += np.bincount(number, x, total.size)
    return np.asarray(total)


def least(blocks: int) -> float:
    """The least p that a recording of so many stretches can have."""
    return 2.0**-blocks if blocks <= _FEW else 1.0 / (1 + PERMUTED)


def _student(x: Array) -> float:
    from scipy.special import stdtr

    centred = x - x.mean()
    spread = math.sqrt(squares(centred) * x.size / (x.size - 1))  # of the sum
    if spread <= 1e-12 * float(np.abs(x).sum()):
        return 1.0 if float(x.mean()) <= 0.0 else least(x.size)
    return float(stdtr(x.size - 1, -float(x.sum()) / spread))


def _signs(x: Array, rng: np.random.Generator) -> float:
    """Chance of as high a sum if every sign were tossed: all of them, or some drawn at random."""
    slack = 1e-12 * float(np.abs(x).sum())
    if x.size <= _FEW:
        signs = 1.0 - 2.0 * ((np.arange(2**x.size)[:, None] >> np.arange(x.size)) & 1)
        return float(np.mean(signs @ x >= float(x.sum()) - slack))
    signs = rng.choice((-1.0, 1.0), size=(PERMUTED, x.size))
    return float((1 + (signs @ x >= float(x.sum()) - slack).sum()) / (1 + PERMUTED))
