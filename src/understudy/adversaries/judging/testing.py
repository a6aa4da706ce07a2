"""Tests of "the output tells nothing about theta" by permuted labels, and their correction for many adversaries.

Nothing is told if the labels of independent sequences could as well stand beside other outputs. Labels are permuted
among the sequences, guesses stay: for one guess a sequence by the tables with the same margins (two values: the
hypergeometric law itself), for paths of labels by exchanging whole paths. (One recording: `stretching`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from understudy._types import Ints


PERMUTED = 9999
"""Permutations that are drawn where they are not counted through, and nothing asks for more."""
MOST_PERMUTED = 1_000_000
_CLEAR = 50  # of the first permutations that do as well: p is far above any level that needs more of them
_AT_ONCE = 4_000_000  # numbers


def holm(p: Sequence[float]) -> list[float]:
    """Every p corrected for all of them: a hypothesis falls at a level that its corrected p is within (Holm, 1979).

    >>> holm([0.001, 0.06, 0.012, float("nan")])
    [0.003, 0.06, 0.024, nan]
    """
    order = sorted((x, i) for i, x in enumerate(p) if x == x)
    corrected, least = [math.nan] * len(p), 0.0
    for rank, (x, i) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * x))
        corrected[i] = least
    return corrected


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
        for size in portions(count, N):
            beside = rng.permuted(np.tile(at, (size, 1)), axis=1)
            total += int((agreement[at, beside].sum(axis=1) >= found - 1e-6).sum())
        return total

    return _counted(above, draws or PERMUTED)


def portions(count: int, wide: int) -> list[int]:
    """Rows of so many numbers, in portions that can be held."""
    size = max(1, min(count, _AT_ONCE // max(wide, 1)))
    return [size] * (count // size) + ([count % size] if count % size else [])
