"""A constrained problem with all that can be taken out of it: rows that coincide, pairs that are never drawn.

Rows that must coincide are one row, with the sum of their odds and the mean of their costs: the information about
the values is then that about their groups. A measure of which nothing is allowed makes all rows coincide. Local
differential privacy lets no column be drawn that is forbidden to some value. Values that cannot occur are left out,
and get a row at the end that is also one of another value, where their pairs allow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

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
from understudy.randomizer.constrained.naming import Names

_UNIT = 1 << 53


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


def reduced(
    cost: Array, p: Array, constraints: Sequence[Constraint], budget: float = math.inf, names: Names | None = None
) -> Reduced:
    """Take out what can be taken out; `InfeasibleError` where nothing is left."""
    names = names or Names()
    n = cost.shape[1]
    free = np.isfinite(cost)
    for one in constraints:
        if isinstance(one, Forbidden):
            for i, j in one.pairs:
                free[i, j] = False
    for i in np.flatnonzero(~free.any(axis=1)).tolist():
        raise InfeasibleError(
            f"{names.row(i)}: every pair is forbidden ({_because(cost[i])}); each value needs an allowed pair"
        )
    floor = _floor(constraints, cost, free, names)
    groups = _groups(p, constraints, budget)
    for group in groups:
        free[list(group)] = free[list(group)].all(axis=0)
        if not free[group[0]].any():
            raise InfeasibleError(
                f"{names.rows(group)} must be treated alike ({_alike(p, constraints, budget)}), and no "
                f"{names.a_column} is allowed to all of them; allow one, or let them differ"
            )
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
    allowed = free.copy()
    free[rows] &= ~_forced(p, rows, constraints, free)
    for i in np.flatnonzero(~free.any(axis=1)).tolist():
        others = [k for k in rows if not allowed[k, allowed[i]].all()]
        raise InfeasibleError(
            f"{_forcing(p, constraints)} with forbidden pairs: {names.row(i)} may draw no {names.a_column} without "
            f"telling too much, since each that it may draw is forbidden to others ({names.rows(others)}); allow more"
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


def _floor(constraints: Sequence[Constraint], cost: Array, free: NDArray[np.bool_], names: Names) -> float:
    """What every entry is at least, as a number that can be drawn."""
    floors = [one for one in constraints if isinstance(one, Floor) and one.at_least > 0.0]
    if not floors:
        return 0.0
    most = max(floors, key=lambda one: one.at_least)
    n = cost.shape[1]
    steps = min([one.of for one in constraints if isinstance(one, Multiples)], default=_UNIT)
    least = math.ceil(most.at_least * float(steps))  # a power of two times a double: exact
    if n * least > steps:
        exact = steps == _UNIT
        finest = " (in whole numbers of 2^-53)" if exact else f" (a multiple of 1/{steps})"
        close = exact and abs(n * most.at_least - 1.0) < 1e-9
        said = f"{least / steps!r}{finest}" if close else f"{least / steps:.6g}{'' if exact else finest}"
        raise InfeasibleError(
            f"{shown(most)}: {n} probabilities of at least {said} sum to more than 1; "
            f"at most {steps // n / steps!r} can be asked"
        )
    if not free.all():
        i, j = np.argwhere(~free)[0].tolist()
        raise InfeasibleError(
            f"{shown(most)}: {names.row(i)} may not draw {names.column(j)} ({_because(cost[i, j])}), and is asked to; "
            "a floor and forbidden pairs do not go together"
        )
    return least / steps


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


def _forcing(p: Array, constraints: Sequence[Constraint]) -> str:
    """What takes columns out in `_forced`."""
    return " and ".join(
        shown(one)
        for one in constraints
        if isinstance(one, PointwiseLeakage) or (isinstance(one, ErrorAtLeast) and _guessless(one, p))
    )


def _because(costs: Any) -> str:
    """By what pairs with these costs are forbidden."""
    infinite = np.isinf(costs)
    if infinite.all():
        return "infinite costs" if infinite.size > 1 else "its cost is infinite"
    return "Forbidden and infinite costs" if infinite.any() else "Forbidden"


def _alike(p: Array, constraints: Sequence[Constraint], budget: float) -> str:
    """What makes rows coincide."""
    named = ["leakage = 0"] if budget == 0.0 else []
    for one in constraints:
        if isinstance(one, Same):
            named.append("Same")
        elif isinstance(one, (LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation)) and _nothing(one):
            named.append(shown(one))
        elif isinstance(one, ErrorAtLeast) and _guessless(one, p):
            named.append(f"{shown(one)}, where nothing may be gained by a guess")
    return " and ".join(named)


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
        elif isinstance(one, ErrorAtLeast) and _guessless(one, p):
            # values that are likeliest alike are drawn alike
            joined(np.flatnonzero(p == p.max()).tolist())
    found: dict[int, list[int]] = {}
    for i, h in enumerate(home):
        found.setdefault(h, []).append(i)
    return [tuple(g) for g in found.values()]


def _guessless(one: ErrorAtLeast, p: Array) -> bool:
    """Whether nothing may be gained by a guess."""
    return one.error >= 1.0 - float(p.max()) / math.fsum(p) - 1e-15


def _nothing(one: LocalDP | MaximalLeakage | PointwiseLeakage | TotalVariation) -> bool:
    limit = one.epsilon if isinstance(one, LocalDP) else one.at_most if isinstance(one, TotalVariation) else one.nats
    return limit == 0.0
