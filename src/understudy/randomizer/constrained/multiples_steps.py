"""A kernel of a lattice made cheaper by steps from column to column, until no step helps.

A step takes a count from one column and gives it to another: in one row, in any rows at once where there are few, in
all rows at once, or in two rows with columns of their own. A step that helps is made as often as it can be.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from understudy.randomizer.constrained.multiples_lattice import Counts, Lattice

_WORK = 1_500_000  # entries of kernels that are looked at for one start, about
_EVERY = 6_000  # steps that are looked at together
_SINGLE = 2_000  # steps of one row that are paired, of more by chance
_ALL = 40  # entries up to which two rows step to any column, else to those that are drawn
_SUBSETS = 5  # rows up to which any of them step together
_MISSED = 40  # steps in a row that cannot be made before all are looked at again
_CHECKED = 500  # entries that may be looked at in floats while a kernel is checked in whole numbers
_GAIN = 1e-15


def improved(lattice: Lattice, K: Counts, work: int = _WORK) -> Counts:
    """The kernel after all steps that pay, the largest gain first."""
    every = np.arange(lattice.shape[1])
    alike = _alike(lattice)
    while work > 0:
        Q, looked = _swept(lattice, K, alike, every)
        work -= looked
        if Q is K:
            drawn = every if lattice.cost.size <= _ALL else np.flatnonzero(K.max(axis=0) > 0)
            Q, looked = _swept(lattice, K, _pairs(lattice, K, drawn), drawn)
            work -= looked
        if Q is K:
            break
        K = Q
    return K


def _swept(lattice: Lattice, K: Counts, steps: Counts, columns: NDArray[np.intp]) -> tuple[Counts, int]:
    """The kernel after the steps that can be made, one after the other, and how much was looked at."""
    part = K[:, columns]
    steps = steps[(part + steps >= lattice.least).all(axis=(1, 2))]
    likely = np.flatnonzero(lattice.likely(part + steps))
    before, missed = K, 0
    for at in likely:
        step = np.zeros_like(K)
        step[:, columns] = steps[at]
        if (K is before or lattice.likely((K + step)[None])[0]) and lattice.kept(K + step):
            K, missed = _along(lattice, K + step, step), 0
        elif (missed := missed + 1) == _MISSED:
            break
    return K, steps.size + _CHECKED * len(likely)


def _along(lattice: Lattice, K: Counts, step: Counts) -> Counts:
    """The kernel after the same step as often as it can be made, twice as many each time."""
    while lattice.kept(Q := K + step):
        K, step = Q, 2 * step
    return K


def _alike(lattice: Lattice) -> Counts:
    """Steps between two columns in one row, in some or in all (B, m, n): those that pay, the largest gain first."""
    m, n = lattice.shape
    a, b = np.nonzero(~np.eye(n, dtype=bool))
    if m <= _SUBSETS:
        rows = (np.arange(1, 1 << m)[:, None] >> np.arange(m)) & 1
    else:
        rows = np.vstack([np.eye(m, dtype=np.int64), np.ones((1, m), dtype=np.int64)])
    gain = rows @ (lattice.cost[:, a] - lattice.cost[:, b])
    gain[rows @ ~lattice.problem.allowed[:, b] > 0] = 0.0
    s, c = np.unravel_index(_first(gain.ravel(), m * n), gain.shape)
    steps = np.zeros((len(s), m, n), dtype=np.int64)
    at = np.arange(len(s))
    steps[at, :, a[c]] = -rows[s]
    steps[at, :, b[c]] = rows[s]
    return steps


def _pairs(lattice: Lattice, K: Counts, columns: NDArray[np.intp]) -> Counts:
    """Steps in two rows (B, m, columns) that pay together, the largest gain first; where there are many, some."""
    m, n = len(lattice.cost), len(columns)
    cost, allowed = lattice.cost[:, columns], lattice.problem.allowed[:, columns]
    full = (K[:, columns] > lattice.least)[:, :, None] & allowed[:, None, :]
    i, a, b = np.nonzero(full & ~np.eye(n, dtype=bool))
    rng = np.random.default_rng(len(i))
    if len(i) > _SINGLE:
        some = np.sort(rng.choice(len(i), _SINGLE, replace=False))
        i, a, b = i[some], a[some], b[some]
    gain = cost[i, a] - cost[i, b]
    pays = (i[:, None] < i) & (gain[:, None] + gain > _GAIN)
    if lattice.problem.budget < math.inf:
        told = lattice.told(K[:, columns] + _placed((m, n), (i, a, b)))
        room = lattice.problem.budget - float(lattice.told(K[None])[0])
        pays &= told[:, None] + told <= 2.0 * lattice.problem.budget - room  # as if steps did not meet
    x, y = np.nonzero(pays)
    if len(x) > _EVERY and lattice.problem.budget == math.inf:
        some = rng.choice(len(x), _EVERY, replace=False)
        x, y = x[some], y[some]
    order = _first(gain[x] + gain[y], m * n)
    x, y = x[order], y[order]
    return _placed((m, n), (i[x], a[x], b[x])) + _placed((m, n), (i[y], a[y], b[y]))


def _placed(shape: tuple[int, int], step: tuple[NDArray[np.intp], ...]) -> Counts:
    """Steps of one count each (B, m, n): row, from this column, to that one."""
    i, a, b = step
    steps = np.zeros((len(i), *shape), dtype=np.int64)
    steps[np.arange(len(i)), i, a] = -1
    steps[np.arange(len(i)), i, b] = 1
    return steps


def _first(gain: NDArray[np.float64], entries: int) -> NDArray[np.intp]:
    """Where the largest gains are, in order; fewer of them for kernels of many entries."""
    order = np.argsort(-gain, kind="stable")
    return order[gain[order] > _GAIN][: min(_EVERY, _WORK // entries)]
