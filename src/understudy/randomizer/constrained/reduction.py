"""A constrained problem with all that can be taken out of it: rows that coincide, pairs that are never drawn.

Rows that must coincide are one row, with the sum of their odds and the mean of their costs: the information about
the values is then that about their groups. A measure of which nothing is allowed makes all rows coincide. Local
differential privacy lets no column be drawn that is forbidden to some value. Values that cannot occur are left out,
and get a row at the end that is also one of another value, where their pairs allow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InfeasibleError
from understudy.laws.base import Array
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.constrained.constraints import (
    ErrorAtLeast,
    Floor,
    Forbidden,
    LocalDP,
    MaximalLeakage,
    Multiples,
    PointwiseLeakage,
    Same,
    TotalVariation,
    shown,
)

_UNIT = 2.0**53


class Reduced(NamedTuple):
    """The problem that is left: a row for each group that can occur, a column for each that can be drawn.

    `cost` is above `lowest`, what the cheapest pair of each value costs; infinite where a pair is forbidden.
    `top` is the largest odds in each group, `floor` what each entry is at least.
    """

    groups: tuple[tuple[int, ...], ...]
    never: tuple[tuple[int, ...], ...]  # groups that cannot occur
    columns: NDArray[np.intp]
    p: Array
    top: Array
    cost: Array
    lowest: float
    floor: float
    open: NDArray[np.bool_]  # of all values and columns: whether the pair may be drawn
    dear: Array  # costs of all values above their cheapest allowed pair

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which pairs may be drawn."""
        return np.isfinite(self.cost)


def reduced(cost: Array, p: Array, constraints: Sequence[Constraint], budget: float = math.inf) -> Reduced:
    """Take out what can be taken out; `InfeasibleError` where nothing is left."""
    m, n = cost.shape
    free = np.isfinite(cost)
    for one in constraints:
        if isinstance(one, Forbidden):
            for i, j in one.pairs:
                free[i, j] = False
    floor = _floor(constraints, free, n)
    groups = _groups(p, constraints, budget)
    for group in groups:
        free[list(group)] = free[list(group)].all(axis=0)
    there = [g for g in groups if p[list(g)].max() > 0.0]
    rows = [i for g in there for i in g]
    columns = np.arange(n)
    strict = [one for one in constraints if isinstance(one, LocalDP)]
    if strict:
        columns = np.flatnonzero(free[rows].all(axis=0))
        if columns.size == 0:
            raise InfeasibleError(
                f"{shown(strict[0])} with forbidden pairs: every pseudo value is forbidden to some value, and local "
                "differential privacy needs one that all may draw"
            )
        free[rows] &= np.isin(np.arange(n), columns)
    free[rows] &= ~_forced(p, rows, constraints, free)
    for i in range(m):
        if not free[i].any():
            raise InfeasibleError(
                f"row {i}: every pair is forbidden{_because(constraints)}; each value needs an allowed pair"
            )
    columns = columns[free[rows][:, columns].any(axis=0)]
    least = np.where(free, cost, math.inf).min(axis=1)
    dear = np.where(free, cost - least[:, None], math.inf)
    weights = np.array([math.fsum(p[list(g)]) for g in there])
    merged = np.empty((len(there), columns.size))
    for k, g in enumerate(there):
        part = [i for i in g if p[i] > 0.0]
        merged[k] = dear[part[0], columns] if len(part) == 1 else (p[part] / weights[k]) @ dear[part][:, columns]
        merged[k][~free[g[0], columns]] = math.inf  # of values that cannot occur as well
    top = np.array([p[list(g)].max() for g in there])
    lowest = math.fsum((p[rows] * least[rows]).tolist())
    never = tuple(g for g in groups if not p[list(g)].max() > 0.0)
    return Reduced(tuple(there), never, columns, weights, top, merged, lowest, floor, free, dear)


def expanded(problem: Reduced, kernel: Array) -> Array:
    """The kernel of all values from that of the groups; entries are whole numbers of 2^-53 before and after."""
    m, n = problem.open.shape
    P = np.zeros((m, n))
    for g, row in zip(problem.groups, kernel, strict=True):
        for i in g:
            P[i, problem.columns] = row
    rows = [g[0] for g in problem.groups]
    for g in problem.never:
        members, free = list(g), problem.open[g[0]]
        dear = np.where(free, problem.dear[members].max(axis=0), 0.0)
        fits = [k for k in rows if not (P[k] > 0.0)[~free].any()]
        if fits:
            # like another value: no measure would be larger if this one could occur
            P[members] = P[min(fits, key=lambda k: float(P[k] @ dear))]
        else:
            P[members, int(np.where(free, dear, math.inf).argmin())] = 1.0
    return P


def _floor(constraints: Sequence[Constraint], free: NDArray[np.bool_], n: int) -> float:
    """What every entry is at least, as a number that can be drawn."""
    floors = [one for one in constraints if isinstance(one, Floor) and one.at_least > 0.0]
    if not floors:
        return 0.0
    most = max(floors, key=lambda one: one.at_least)
    steps = min([float(one.of) for one in constraints if isinstance(one, Multiples)], default=_UNIT)
    floor = math.ceil(most.at_least * steps) / steps  # a power of two times a double: exact
    if n * floor > 1.0:
        finest = "" if steps == _UNIT else f" (a multiple of 1/{steps:.0f})"
        raise InfeasibleError(
            f"{shown(most)}: {n} probabilities of at least {floor:.6g}{finest} sum to more than 1; "
            f"at most {1.0 / n:.6g} can be asked"
        )
    if not free.all():
        i, j = np.argwhere(~free)[0].tolist()
        raise InfeasibleError(
            f"{shown(most)}: row {i} may not draw column {j}{_because(constraints)}, and is asked to; "
            "a floor and forbidden pairs do not go together"
        )
    return floor


def _forced(p: Array, rows: list[int], constraints: Sequence[Constraint], free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns that nobody can draw because of those to whom they are forbidden.

    With a pointwise leakage max_i P_ij <= e^L r_j <= e^L (odds of those who may draw j) max_i P_ij. Where nothing may
    be gained by a guess, p_i P_ij <= p_k P_kj for the likeliest value k.
    """
    gone = np.zeros(free.shape[1], dtype=bool)
    for one in constraints:
        if isinstance(one, PointwiseLeakage):
            odds = (np.where(free[rows], p[rows][:, None], 0.0)).sum(axis=0) / p[rows].sum()
            gone |= math.exp(one.nats) * odds < 1.0 - 1e-12
        elif isinstance(one, ErrorAtLeast) and one.error >= 1.0 - float(p.max()) / math.fsum(p):
            gone |= ~free[int(p.argmax())]
    return gone


def _because(constraints: Sequence[Constraint]) -> str:
    named = [shown(one) for one in constraints if isinstance(one, Forbidden)]
    return f" ({', '.join([*named, 'infinite costs'])})" if named else " (infinite costs)"


def _groups(p: Array, constraints: Sequence[Constraint], budget: float) -> list[tuple[int, ...]]:
    """The values in groups whose rows coincide, in the order of their first."""
    home = list(range(len(p)))

    def joined(members: Sequence[int]) -> None:
        homes = {home[i] for i in members}
        for i, h in enumerate(home):
            if h in homes:
                home[i] = min(homes)

    there = np.flatnonzero(p > 0.0).tolist()
    if budget == 0.0:
        joined(there)
    for one in constraints:
        if isinstance(one, Same):
            for group in one.groups:
                joined(group)
        elif isinstance(one, (LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation)) and _nothing(one):
            joined(there)
        elif isinstance(one, ErrorAtLeast) and one.error >= 1.0 - float(p.max()) / math.fsum(p) - 1e-15:
            # nothing may be gained by a guess: values that are likeliest alike are drawn alike
            joined(np.flatnonzero(p == p.max()).tolist())
    found: dict[int, list[int]] = {}
    for i, h in enumerate(home):
        found.setdefault(h, []).append(i)
    return [tuple(g) for g in found.values()]


def _nothing(one: LocalDP | MaximalLeakage | PointwiseLeakage | TotalVariation) -> bool:
    limit = one.epsilon if isinstance(one, LocalDP) else one.at_most if isinstance(one, TotalVariation) else one.nats
    return limit == 0.0
