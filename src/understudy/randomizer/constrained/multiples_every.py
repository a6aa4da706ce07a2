"""Every kernel of a lattice, where there are few: the cheapest that keeps all is the optimum."""

from __future__ import annotations

import math

import numpy as np

from understudy.randomizer.constrained.multiples_lattice import Counts, Lattice

_FEW = 25_000  # kernels


def countable(lattice: Lattice) -> bool:
    """Whether the lattice has few kernels."""
    many = 1
    for columns in lattice.problem.allowed.sum(axis=1).tolist():
        many *= math.comb(max(_spread(lattice), 0) + columns - 1, columns - 1)
    return many <= _FEW


def best_of_all(lattice: Lattice) -> Counts | None:
    """The cheapest kernel of the lattice that keeps everything; None where none does."""
    n = lattice.shape[1]
    rows = []
    for allowed in lattice.problem.allowed:
        parts = _parts(_spread(lattice), int(allowed.sum()))
        row = np.zeros((len(parts), n), dtype=np.int64)
        row[:, allowed] = parts + lattice.least
        rows.append(row)
    which = np.indices([len(row) for row in rows]).reshape(len(rows), -1)
    every = np.stack([row[k] for row, k in zip(rows, which, strict=True)], axis=1)
    return lattice.cheapest(every, most=len(every))


def _spread(lattice: Lattice) -> int:
    """What a row has to give away above its least."""
    return lattice.of - lattice.shape[1] * lattice.least


def _parts(total: int, among: int) -> Counts:
    """All ways to write a total as a sum of so many whole numbers, in order.

    >>> _parts(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    if among == 1:
        return np.full((1, 1), total, dtype=np.int64)
    rest = [_parts(total - first, among - 1) for first in range(total + 1)]
    firsts = np.repeat(np.arange(total + 1), [len(part) for part in rest])
    return np.hstack([firsts[:, None], np.concatenate(rest)]).astype(np.int64)
