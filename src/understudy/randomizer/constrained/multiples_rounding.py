"""Kernels of a lattice to begin with: one column for all, and the best kernel off the lattice, rounded in many ways.

What is rounded breaks by a hair what it kept to the letter. So a share of a kernel with room is mixed in, of the size
of a step of the lattice and up, and the rest is rounded: the largest remainders up, or by chance from a fixed seed.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.errors import InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.constrained.multiples_lattice import Counts, Lattice, on_lattice
from understudy.randomizer.constrained.program import program

_CHANCES = 48  # roundings by chance for each share
_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)  # in steps of the lattice over the least probability that counts
_FOUND = 3  # roundings of the largest remainders that are kept, each with more room than the one before:
_FURTHER = 2.0  # so many powers of two


def constant_columns(lattice: Lattice) -> Counts:
    """One column as often as can be, for all values alike, where it is allowed to all (B, m, n)."""
    m, n = lattice.shape
    free = lattice.problem.allowed.all(axis=0)
    K = np.full((n, m, n), lattice.least, dtype=np.int64)
    for j in range(n):
        K[j, :, j] = lattice.of - (n - 1) * lattice.least
    return K[free]


def roomy(lattice: Lattice) -> Array:
    """A kernel that keeps everything with room: all rows the same where that is allowed."""
    problem, P = lattice.problem, lattice.free
    r = problem.p @ P / problem.p.sum()
    if problem.allowed[:, r > 0.0].all():
        return np.tile(r, (len(P), 1))
    left = problem.left
    pairs = [(i, k) for i in range(len(P)) for k in range(i + 1, len(P))]
    try:
        rows = program(problem.p, left.top, problem.L, problem.allowed, left.floor, problem.constraints, pairs)
        X = problem.start(rows)
    except InfeasibleError:
        return P
    return np.ascontiguousarray(X[:, : len(P)].T)


def rounded(lattice: Lattice, inner: Array) -> list[Counts]:
    """Roundings that keep everything: with as little as will do of the kernel with room, by remainders; a few."""
    of, least = lattice.of, lattice.least
    alike = on_lattice(inner, of, least)
    if (inner == inner[0]).all():
        alike = np.tile(alike[:1], (len(inner), 1))
    found: list[Counts] = []
    power = -float(of.bit_length() + 2)
    while power < 0.0 and len(found) < _FOUND:
        share = 2.0**power
        K = on_lattice((1.0 - share) * lattice.free + share * inner, of, least)
        kept = bool(lattice.likely(K[None])[0]) and lattice.kept(K)
        if kept:
            found.append(K)
        power += _FURTHER if kept else 0.5
    return [*found, alike] if lattice.kept(alike) else found


def by_chance(lattice: Lattice, inner: Array, seed: int = 0) -> Counts | None:
    """The cheapest of many roundings by chance; None where none keeps everything."""
    rng = np.random.default_rng([seed, lattice.of])
    of, least = lattice.of, lattice.least
    some = []
    for share in (0.0, *(min(0.5, math.sqrt(lattice.cost.size) * x / of) for x in _SHARES)):
        P = (1.0 - share) * lattice.free + share * inner
        down = np.maximum(np.floor(P * of).astype(np.int64), least)
        left = of - down.sum(axis=1)
        if (left < 0).any():
            continue
        # the largest remainders up, each moved by chance
        key = np.where(P > 0.0, P * of - down, -math.inf) + rng.gumbel(scale=0.3, size=(_CHANCES, *P.shape))
        rank = np.argsort(np.argsort(-key, axis=2, kind="stable"), axis=2, kind="stable")
        most = (P > 0.0).sum(axis=1)
        if (left > most).any():
            continue
        some.append(down + (rank < left[:, None]))
    return lattice.cheapest(np.concatenate(some), most=8) if some else None
