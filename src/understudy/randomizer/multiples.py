"""Kernels in multiples of 1/256, or of another power of two, for devices that draw with few random bits.

A lattice with few kernels is looked through (`multiples_every`). A small problem on one that is not too fine is a
mixed-integer program (`multiples_whole`). All else is a search: the kernel of the problem without this demand is
rounded in many ways (`multiples_rounding`), the answer on the coarser lattice is one on this one too, a mixed-integer
program looks around, and steps of probability improve the best (`multiples_steps`) as long as that pays. So a finer
lattice is never worse. Whatever is found keeps every constraint in whole numbers, and no kernel at all costs less than
the bound of the problem without the demand: how far the answer is from the best is not always known, but how far at
most.

Kernels of a constrained problem in whole numbers that sum to N in each row: prices, and what is kept.

Whether a kernel keeps everything is decided in whole numbers, one at a time. Many at once are first looked at in
floats, which lets through all that keep it and some that miss it by a hair.

Every kernel of a lattice, where there are few: the cheapest that keeps all is the optimum.

Kernels of a lattice to begin with: one column for all, and the best kernel off the lattice, rounded in many ways.

What is rounded breaks by a hair what it kept to the letter. So a share of a kernel with room is mixed in, of the size
of a step of the lattice and up, and the rest is rounded: the largest remainders up, or by chance from a fixed seed.

A kernel of a lattice made cheaper by steps from column to column, until no step helps.

A step takes a count from one column and gives it to another: in one row, in any rows at once where there are few, in
all rows at once, or in two rows with columns of their own. A step that helps is made as often as it can be.

Standard output kept clean while a solver runs that prints a line of its own now and then, whatever it is told.

A design may be made, or read again, by a process whose standard output is data: a line of HiGHS among disguised
readings would spoil the file. It prints from outside Python, so the descriptor itself is turned away for as long as it
runs. Where other threads run, which may be writing, nothing is turned away.

The kernel of least cost on a lattice as a mixed-integer linear program for HiGHS (Huangfu and Hall, 2018).

The unknowns are whole numbers of steps away from a kernel of the lattice, so that the numbers stay small however fine
the steps are. Every measure but the mutual information is linear (`program`). That is convex: for any conditional laws
q_0j of the value given the draw j Gibbs' inequality gives::

    I(P) >= sum_ij p_i P_ij ln(q_0ij / p_i)

and each column may have its own. Those of every kernel that comes out and tells too much are added, until one does not
(Duran and Grossmann, 1986).
Nothing of the solver is believed: what comes out is checked in whole numbers, and its bound is not used.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Ints, Mask
from understudy.errors import InfeasibleError
from understudy.randomizer.constrained_solver import Constrained, Program, expanded, program, rows
from understudy.randomizer.constraints import (
    Constraint,
    ErrorAtLeast,
    Exact,
    LocalDP,
    MaximalLeakage,
    Multiples,
    PointwiseLeakage,
    TotalVariation,
    shown,
)
from understudy.randomizer.solver import Solution, information

# Kernels of a constrained problem in whole numbers that sum to N in each row: prices, and what is kep ---


_HAIR = 1e-13  # of a probability: more than rounding in floats, less than a step of any lattice
_BIT = 1e-13  # of a nat
_CHUNK = 1 << 17  # entries of kernels that are looked at together


class Lattice:
    """The kernels of the groups of a problem in multiples of 1/of; `free` is the best kernel on no lattice."""

    def __init__(self, problem: Constrained, best: Solution, of: int) -> None:
        left = problem.left
        self.problem, self.solution, self.of = problem, best, of
        self.free: Array = np.array([best.kernel[g[0]][left.columns] for g in left.groups])
        self.least = math.ceil(left.floor * of)
        self.cost: Array = problem.p[:, None] * problem.L
        self.bound = best.bound / problem.scale
        self.rounding = problem.rounding / problem.scale

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n = self.cost.shape
        return m, n

    def halved(self) -> Lattice:
        """The coarser lattice with half as many steps."""
        return Lattice(self.problem, self.solution, self.of // 2)

    def price(self, K: Ints) -> float:
        """The expected cost, scaled."""
        return math.fsum((self.cost * K).ravel().tolist()) / self.of

    def unbeaten(self, K: Ints) -> bool:
        """Whether no kernel, on the lattice or off it, costs less than this one but for rounding."""
        return self.price(K) - self.bound <= 1e-13 * self.bound + self.rounding

    def kept(self, K: Ints) -> bool:
        """Whether a kernel keeps everything, in whole numbers."""
        if K.min() < self.least or (K[~self.problem.allowed] > 0).any():
            return False
        return self.problem.kept(K / self.of)

    def cheapest(self, many: Ints, most: int = 64) -> Ints | None:
        """The cheapest of many kernels (B, m, n) that keeps everything; `most` are looked at in whole numbers."""
        order = np.argsort(np.einsum("bij,ij->b", many, self.cost), kind="stable")
        for at in order[self.likely(many)[order]][:most]:
            if self.kept(many[at]):
                found: Ints = many[at]
                return found
        return None

    def likely(self, many: Ints) -> Mask:
        """Which of many kernels (B, m, n) keep everything, as floats tell it; none is missed."""
        size = max(1, _CHUNK // max(1, self.cost.size))
        parts = [self._likely(many[at : at + size] / self.of) for at in range(0, len(many), size)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def _likely(self, P: Array) -> Mask:
        problem = self.problem
        total = math.fsum(problem.p)
        ok: Mask = np.ones(len(P), dtype=bool)
        high, low = P.max(axis=1), P.min(axis=1)
        r = np.einsum("i,bij->bj", problem.p / total, P)
        for one in problem.constraints:
            if isinstance(one, LocalDP):
                ok &= (high <= math.exp(one.epsilon) * low + _HAIR).all(axis=1)
            elif isinstance(one, MaximalLeakage):
                ok &= high.sum(axis=1) <= math.exp(min(one.nats, 700.0)) + _HAIR
            elif isinstance(one, PointwiseLeakage):
                ok &= (high <= math.exp(min(one.nats, 700.0)) * r + _HAIR).all(axis=1)
            elif isinstance(one, ErrorAtLeast):
                right = (problem.left.top[:, None] * P).max(axis=1).sum(axis=1)
                ok &= right <= (1.0 - one.error) * math.fsum(problem.prior) + _HAIR
        # what takes longer is asked of those that are left
        for limit in [one.at_most for one in problem.constraints if isinstance(one, TotalVariation)]:
            for i in range(P.shape[1] - 1):
                Q = P[ok]
                apart = np.maximum(Q[:, i, None] - Q[:, i + 1 :], 0.0).sum(axis=2)
                ok[ok] = (apart <= limit + _HAIR).all(axis=1)
        if problem.budget < math.inf and ok.any():
            ok[ok] = self._told(P[ok]) <= problem.budget + _BIT
        return ok

    def told(self, many: Ints) -> Array:
        """I(Theta; ~Theta) of many kernels (B, m, n), in nats."""
        return self._told(many / self.of)

    def _told(self, P: Array) -> Array:
        p = self.problem.p / math.fsum(self.problem.p)
        r = np.einsum("i,bij->bj", p, P)
        ratio = P / np.where(r > 0.0, r, 1.0)[:, None, :]
        told: Array = np.einsum("i,bij->b", p, P * np.log(np.where(ratio > 0.0, ratio, 1.0)))
        return told


def on_lattice(P: Array, of: int, least: int) -> Ints:
    """Rows rounded to whole numbers that sum to `of`, the largest remainders up; none below `least`.

    >>> on_lattice(np.array([[0.15, 0.25, 0.6]]), 8, 0).tolist()
    [[1, 2, 5]]
    """
    K = np.maximum(np.floor(P * of).astype(np.int64), least)
    for row, exact in zip(K, P * of, strict=True):
        while (left := of - int(row.sum())) != 0:
            off = exact - row
            if left > 0:
                row[np.argsort(-np.where(exact > 0.0, off, -math.inf), kind="stable")[: min(left, len(row))]] += 1
            else:
                row[int(np.where(row > least, off, math.inf).argmin())] -= 1
    return K


# Every kernel of a lattice, where there are few: the cheapest that keeps all is the optimum ----------


_FEW = 25_000  # kernels


def countable(lattice: Lattice) -> bool:
    """Whether the lattice has few kernels."""
    many = 1
    for columns in lattice.problem.allowed.sum(axis=1).tolist():
        many *= math.comb(max(_spread(lattice), 0) + columns - 1, columns - 1)
    return many <= _FEW


def best_of_all(lattice: Lattice) -> Ints | None:
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


def _parts(total: int, among: int) -> Ints:
    """All ways to write a total as a sum of so many whole numbers, in order.

    >>> _parts(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    if among == 1:
        return np.full((1, 1), total, dtype=np.int64)
    rest = [_parts(total - first, among - 1) for first in range(total + 1)]
    firsts = np.repeat(np.arange(total + 1), [len(part) for part in rest])
    return np.hstack([firsts[:, None], np.concatenate(rest)]).astype(np.int64)


# Kernels of a lattice to begin with: one column for all, and the best kernel off the lattice, rounded ---


_CHANCES = 48  # roundings by chance for each share
_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)  # in steps of the lattice over the least probability that counts
_FOUND = 3  # roundings of the largest remainders that are kept, each with more room than the one before:
_FURTHER = 2.0  # so many powers of two


def constant_columns(lattice: Lattice) -> Ints:
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


def rounded(lattice: Lattice, inner: Array) -> list[Ints]:
    """Roundings that keep everything: with as little as will do of the kernel with room, by remainders; a few."""
    of, least = lattice.of, lattice.least
    alike = on_lattice(inner, of, least)
    if (inner == inner[0]).all():
        alike = np.tile(alike[:1], (len(inner), 1))
    found: list[Ints] = []
    power = -float(of.bit_length() + 2)
    while power < 0.0 and len(found) < _FOUND:
        share = 2.0**power
        K = on_lattice((1.0 - share) * lattice.free + share * inner, of, least)
        kept = bool(lattice.likely(K[None])[0]) and lattice.kept(K)
        if kept:
            found.append(K)
        power += _FURTHER if kept else 0.5
    return [*found, alike] if lattice.kept(alike) else found


def by_chance(lattice: Lattice, inner: Array, seed: int = 0) -> Ints | None:
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


# A kernel of a lattice made cheaper by steps from column to column, until no step helps --------------


_WORK = 1_500_000  # entries of kernels that are looked at for one start, about
_EVERY = 6_000  # steps that are looked at together
_SINGLE = 2_000  # steps of one row that are paired, of more by chance
_ALL = 40  # entries up to which two rows step to any column, else to those that are drawn
_SUBSETS = 5  # rows up to which any of them step together
_MISSED = 40  # steps in a row that cannot be made before all are looked at again
_CHECKED = 500  # entries that may be looked at in floats while a kernel is checked in whole numbers
_GAIN = 1e-15


def improved(lattice: Lattice, K: Ints, work: int = _WORK) -> Ints:
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


def _swept(lattice: Lattice, K: Ints, steps: Ints, columns: NDArray[np.intp]) -> tuple[Ints, int]:
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


def _along(lattice: Lattice, K: Ints, step: Ints) -> Ints:
    """The kernel after the same step as often as it can be made, twice as many each time."""
    while lattice.kept(Q := K + step):
        K, step = Q, 2 * step
    return K


def _alike(lattice: Lattice) -> Ints:
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


def _pairs(lattice: Lattice, K: Ints, columns: NDArray[np.intp]) -> Ints:
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


def _placed(shape: tuple[int, int], step: tuple[NDArray[np.intp], ...]) -> Ints:
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


# Standard output kept clean while a solver runs that prints a line of its own now and then, whatever  ---


_OUT = 1


@contextmanager
def silent() -> Iterator[None]:
    """What is printed inside, by whatever language, goes nowhere."""
    if threading.active_count() > 1:
        yield
        return
    _flushed()
    try:
        kept = os.dup(_OUT)
    except OSError:  # there is no standard output
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _OUT)
        os.close(nowhere)
        yield
    finally:
        _flushed()
        os.dup2(kept, _OUT)
        os.close(kept)


def _flushed() -> None:
    """Write what Python and C still hold back."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)


# The kernel of least cost on a lattice as a mixed-integer linear program for HiGHS (Huangfu and Hall, ---


_PRICE, _GAP = 1e3, 1e-6  # the largest cost of a step, and the gap at which the solver stops
_SEEN = 1e-8  # of the price: a gap that is larger says nothing
_MARGIN = 1e-3  # of a step; the solver's own tolerance is 1e-6 of one
_SHARP = 1e-3  # the largest share that is mixed into a kernel before its row is taken
_TANGENTS = 16  # to begin with, where there are two values
_OPTIMAL, _INFEASIBLE = 0, 2


class Effort(NamedTuple):
    """How far from the centre to look (None: everywhere), how many programs, and the branches of each."""

    reach: int | None
    rounds: int
    nodes: int


class Found(NamedTuple):
    """A kernel that keeps everything, if there is one, and whether the solver says that none is cheaper."""

    K: Ints | None
    settled: bool


class Tangents:
    """What the mutual information is at least, column by column: w_j >= sum_i p_i P_ij ln(q_i / p_i) for some q."""

    def __init__(self, lattice: Lattice) -> None:
        self.p: Array = lattice.problem.p / math.fsum(lattice.problem.p)
        self.budget = lattice.problem.budget
        self.rows: dict[bytes, Array] = {}
        if self.budget < math.inf:
            self.add(lattice.free)
        if self.budget < math.inf and len(self.p) == 2:
            for x in np.linspace(0.0, 1.0, _TANGENTS + 2)[1:-1]:
                self._touch(np.log([x, 1.0 - x]) - np.log(self.p))

    def add(self, P: Array) -> float:
        """Touch the information of a kernel; by how much that is above the budget."""
        over = information(self.p, np.ascontiguousarray(P).reshape(-1)) - self.budget
        share = min(_SHARP, max(1e-9, 0.1 * over))
        r = self.p @ P
        for j in np.flatnonzero(r > 0.0):
            self._touch(np.log((1.0 - share) * P[:, j] / r[j] + share))
        return over

    def _touch(self, ratio: Array) -> None:
        row = self.p * ratio
        self.rows.setdefault(row.round(12).tobytes(), row)

    def onto(self, told: Program) -> Program:
        """A program with these rows, an unknown w for each column, and the budget for their sum."""
        if not self.rows:
            return told
        R, k = told.G.shape
        G = np.zeros((R + len(self.rows), k + 1))
        G[:R, :k] = told.G
        G[R:, : len(self.p)] = np.stack([*self.rows.values()])
        G[R:, k] = -1.0
        F = np.zeros((len(told.F) + 1, k + 1))
        F[:-1, :k] = told.F
        F[-1, k] = 1.0
        return told._replace(G=G, F=F, f=np.append(told.f, self.budget))


def by_program(lattice: Lattice, effort: Effort, most: float = math.inf) -> Found:
    """The cheapest kernel within reach of the best one off the lattice, as the solver finds it.

    `most` is the price of one that is known: pairs of which a single step costs more are left out.
    """
    m, n = lattice.shape
    tangents = Tangents(lattice)
    cheap: Mask = lattice.cost <= (math.inf if lattice.least else most * lattice.of * (1.0 + 1e-9))
    centre = on_lattice(lattice.free, lattice.of, lattice.least)
    asked = [one for one in lattice.problem.constraints if not isinstance(one, Multiples)]
    margins = [0.0] * len(asked)  # in steps
    # a row that touches the information at the best kernel is exceeded by it close by
    spared = 0.0 if effort.reach is None else _MARGIN
    for _ in range(effort.rounds):
        strict = [_stricter(one, x / lattice.of) if x else one for one, x in zip(asked, margins, strict=True)]
        result = _solved(lattice, centre, strict, tangents, spared, effort, cheap)
        settled = effort.reach is None and not spared and not any(margins)
        if result.x is None:
            return Found(None, settled and result.status == _INFEASIBLE)
        K: Ints = centre + np.rint(result.x.reshape(n, -1)[:, :m].T).astype(np.int64)
        if (K.sum(axis=1) != lattice.of).any():
            break
        if lattice.kept(K):
            seen = _GAP * float(lattice.cost[cheap].max()) / _PRICE / lattice.of <= _SEEN * lattice.price(K)
            return Found(K, seen and settled and result.status == _OPTIMAL)
        if result.status != _OPTIMAL:
            break
        exact = Exact(lattice.problem.prior, expanded(lattice.problem.left, K / lattice.of))
        broken = [not one.kept(exact) for one in asked]
        if any(broken):
            margins = [max(_MARGIN, 4.0 * x) if off else x for x, off in zip(margins, broken, strict=True)]
        else:
            over = tangents.add(K / lattice.of)
            if over * lattice.of < _MARGIN:  # less than the solver can tell
                spared = max(_MARGIN, 4.0 * spared)
    return Found(None, False)


def _solved(
    lattice: Lattice,
    centre: Ints,
    asked: Sequence[Constraint],
    tangents: Tangents,
    spared: float,
    effort: Effort,
    cheap: Mask,
) -> Any:
    """HiGHS' answer, in steps from the centre."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    problem, of = lattice.problem, lattice.of
    m = len(problem.p)
    pairs = [(i, k) for i in range(m) for k in range(i + 1, m)]
    floor = lattice.least / of
    told = program(problem.p, problem.left.top, problem.L, problem.allowed, floor, asked, pairs)
    told = tangents.onto(told)
    A, b, sums, lowest, highest = rows(told, max(1.0, min(tangents.budget, 700.0)))
    X = _around(told, centre)
    at = X.ravel()
    low, high = lowest * of - at, highest * of - at
    kernel = np.zeros(X.shape, dtype=bool)
    kernel[:, :m] = True
    inside = kernel.ravel()
    # of a step: bounds of whole numbers are whole
    low[inside], high[inside] = np.rint(low[inside]), np.rint(high[inside])
    if effort.reach is not None:
        idle = np.zeros(X.shape, dtype=bool)
        idle[centre.max(axis=0) == 0, :m] = True
        reach = np.where(idle.ravel(), 0.0, float(effort.reach))
        low[inside] = np.maximum(low, -reach)[inside]
        high[inside] = np.minimum(high, reach)[inside]
    price = np.zeros(X.shape)
    cost = np.where(cheap, lattice.cost, 0.0)
    price[:, :m] = cost.T * (_PRICE / max(float(cost.max()), 1e-300))
    if not cheap.all():
        dear = np.zeros(X.shape, dtype=bool)
        dear[:, :m] = ~cheap.T
        low[dear.ravel()] = high[dear.ravel()] = -at[dear.ravel()]
    rules = [LinearConstraint(sums, 0.0, 0.0)]
    if A.shape[0]:
        limits = b * of - A @ at
        if tangents.rows:
            limits[-1] -= spared
        rules.append(LinearConstraint(A, -np.inf, limits))
    with silent():
        return milp(
            price.ravel(),
            integrality=inside.astype(float),
            bounds=Bounds(low, high),
            constraints=rules,
            options={"node_limit": effort.nodes, "mip_rel_gap": 0.0, "presolve": False},
        )


def _around(told: Program, K: Ints) -> Array:
    """All unknowns (n, k) at a kernel in counts: each that is above the rest of its rows as low as it may be."""
    m, n = K.shape
    X = np.zeros((n, told.unknowns))
    X[:, :m] = K.T
    for v in range(m, told.unknowns):
        below = told.G[told.G[:, v] < 0.0]
        X[:, v] = np.maximum((X[:, :m] @ below[:, :m].T).max(axis=1), 0.0)
    return X


def _stricter(one: Constraint, by: float) -> Constraint:
    """A constraint with its limit a little closer."""
    if isinstance(one, LocalDP):
        return LocalDP(max(0.0, one.epsilon - by))
    if isinstance(one, MaximalLeakage):
        return MaximalLeakage(max(0.0, one.nats - by))
    if isinstance(one, PointwiseLeakage):
        return PointwiseLeakage(max(0.0, one.nats - by))
    if isinstance(one, TotalVariation):
        return TotalVariation(max(0.0, one.at_most - by))
    if isinstance(one, ErrorAtLeast):
        return ErrorAtLeast(min(1.0, one.error + by))
    return one


# Kernels in multiples of 1/256, or of another power of two, for devices that draw with few random bit ---


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


def _found(lattice: Lattice) -> Ints | None:
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


def _searched(lattice: Lattice, known: list[Ints | None]) -> Ints | None:
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
