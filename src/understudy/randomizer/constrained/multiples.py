"""Kernels in multiples of 1/256, or of another power of two, for devices that draw with few random bits.

A lattice with few kernels is looked through (`multiples_every`). A small problem on one that is not too fine is a
mixed-integer program (`multiples_whole`). All else is a search: the kernel of the problem without this demand is
rounded in many ways (`multiples_rounding`), the answer on the coarser lattice is one on this one too, a mixed-integer
program looks around, and steps of probability improve the best (`multiples_steps`) as long as that pays. So a finer
lattice is never worse. Whatever is found keeps every constraint in whole numbers, and no kernel at all costs less than
the bound of the problem without the demand: how far the answer is from the best is not always known, but how far at
most.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.errors import InfeasibleError
from understudy.randomizer.constrained.constraints import Multiples, shown
from understudy.randomizer.constrained.multiples_every import best_of_all, countable
from understudy.randomizer.constrained.multiples_lattice import Counts, Lattice, on_lattice
from understudy.randomizer.constrained.multiples_rounding import by_chance, constant_columns, roomy, rounded
from understudy.randomizer.constrained.multiples_steps import improved
from understudy.randomizer.constrained.multiples_whole import Effort, by_program
from understudy.randomizer.constrained.solving import Constrained
from understudy.randomizer.solver import Solution

_SMALL = 40  # entries up to which a mixed-integer program may look everywhere
_COARSE = 1 << 10  # steps up to which it does
_SMALL_TOLD = 12  # the same with a budget, which takes several programs: entries
_COARSE_TOLD = {1: 1 << 8, 2: 1 << 8}  # and steps, by rows
_COARSE_MORE = 1 << 6  # for more rows
_MIDDLE = 40  # entries that are drawn up to which it looks around
_STARTS = 3  # kernels that are improved
_EVERYWHERE = Effort(reach=None, rounds=8, nodes=40)
_AROUND = Effort(reach=2, rounds=3, nodes=10)


def in_multiples(problem: Constrained, best: Solution, of: int) -> Solution:
    """The best kernel found in multiples of 1/of; its bound is that of `best`, the solution without them."""
    lattice = Lattice(problem, best, of)
    K = _found(lattice)
    if K is None:
        raise InfeasibleError(
            f"{shown(Multiples(of))}: no kernel in multiples of 1/{of} was found that keeps the other constraints; "
            "take finer ones"
        )
    return problem.proven(K / of, lattice.bound)


def _found(lattice: Lattice) -> Counts | None:
    """The cheapest kernel of the lattice that is found."""
    if lattice.shape[1] * lattice.least > lattice.of:
        return None
    plain = [*constant_columns(lattice), on_lattice(lattice.free, lattice.of, lattice.least)]
    first = lattice.cheapest(np.stack(plain))
    if first is not None and lattice.unbeaten(first):
        return first
    if countable(lattice):
        return best_of_all(lattice)
    known = [first]
    if _small(lattice):
        most = math.inf if first is None else lattice.price(first)
        program = by_program(lattice, _EVERYWHERE, most)
        if program.settled and program.K is not None:
            return min((K for K in (first, program.K) if K is not None), key=lattice.price)
        known.append(program.K)
    return _searched(lattice, known)


def _small(lattice: Lattice) -> bool:
    """Whether a mixed-integer program may look everywhere."""
    (m, n), of = lattice.shape, lattice.of
    if lattice.problem.budget == math.inf:
        return m * n <= _SMALL and of <= _COARSE
    return m * n <= _SMALL_TOLD and of <= _COARSE_TOLD.get(m, _COARSE_MORE)


def _searched(lattice: Lattice, known: list[Counts | None]) -> Counts | None:
    """The cheapest of what roundings, the coarser lattice, a program and steps give."""
    coarser = _found(lattice.halved()) if lattice.of > 1 else None
    if coarser is not None:
        coarser = 2 * coarser
        if lattice.unbeaten(coarser):
            return coarser
    inner = roomy(lattice)
    roundings = rounded(lattice, inner)
    starts = [K for K in (*known, coarser, *roundings, by_chance(lattice, inner)) if K is not None]
    drawn = int((lattice.free.max(axis=0) > 0.0).sum())
    if len(lattice.free) * drawn <= _MIDDLE:
        around = by_program(lattice, _AROUND, min(map(lattice.price, starts), default=math.inf)).K
        starts += [] if around is None else [around]
    distinct = {K.tobytes(): K for K in starts}
    cheapest = sorted(distinct.values(), key=lattice.price)[:_STARTS]
    # and one that has room: it is dearer, but steps may lead further
    chosen = {K.tobytes(): K for K in [*cheapest, *roundings[1:2]]}
    return min((improved(lattice, K) for K in chosen.values()), key=lattice.price, default=None)
