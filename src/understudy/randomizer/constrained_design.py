"""Designs with constraints: from what a user asks to the solvers, and to a `Design`.

What a constraint costs: the distortion with it less the distortion without it, with proven bounds.

Constraints in a stored design: plain values and back, and whether a stored kernel keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Value
from understudy.distortion.costs import Costs
from understudy.errors import DesignError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.randomizer.constrained_solver import Problem, least_leakage_within
from understudy.randomizer.constraints import STORED, Constraint, ErrorAtLeast, Exact, Multiples, Names, shown
from understudy.randomizer.design import Design, solved, total
from understudy.randomizer.measures import entropy
from understudy.randomizer.randomizer import Randomizer
from understudy.randomizer.residual import Charge
from understudy.randomizer.solver import Solution, bounds_of, information, nats
from understudy.serialize import value_from_plain, value_to_plain

# Designs with constraints: from what a user asks to the solvers, and to a `Design` -------------------


UNLIMITED = ("leakage", math.inf)  # the demand where constraints are all that is asked


class Asked(NamedTuple):
    """One demand, the constraints beside it, and what the models themselves give away."""

    demand: tuple[str, Any]
    constraints: tuple[Constraint, ...]
    leak: Charge | None = None


def solved_with(cost: Array, p: Array, asked: Asked, family: Family | None, found: Costs | None) -> Design:
    """A design from checked costs that keeps constraints besides one demand."""
    (name, wanted), leak = asked.demand, asked.leak
    names = (tuple(range(len(p))), tuple(range(cost.shape[1]))) if found is None else (found.values, found.pseudo)
    kept = [one for one in effective(asked, p, *names) if not isinstance(one, Multiples)]
    solution, proven, budget = _answer(cost, p, asked, kept, None if found is None else Names(*map(tuple, names)))
    randomizer = Randomizer._certified(solution.kernel, *((None, None) if found is None else names))
    error = 0.0 if found is None else found.expected(p[:, None] * solution.kernel)[1]
    p.setflags(write=False)
    cost.setflags(write=False)
    distortion, lower = bounds_of(solution)
    if name == "distortion_at_most":
        distortion = min(distortion, wanted)  # met exactly: `least_leakage_within` has made sure of it
        lower = min(lower, distortion)
    gap = max(solution.excess - solution.bound, 0.0)
    status = "optimal" if solution.optimal else "inexact"
    spent = total(solution.leakage, leak) if name == "distortion_at_most" else budget
    return Design(
        randomizer, p, cost, distortion, lower, gap, solution.leakage, spent, asked.demand, status,
        solution.iterations, solution.slope, proven, error, family, found, leak, asked.constraints,
    )  # fmt: skip


def effective(asked: Asked, p: Array, values: Sequence[Value], pseudo: Sequence[Value]) -> tuple[Constraint, ...]:
    """The constraints that the draw itself has to keep, by position.

    An error that was asked for is one, and is raised by what the models help a guess.
    """
    name, wanted = asked.demand
    given = [*asked.constraints, *([ErrorAtLeast(wanted)] if name == "error_at_least" else ())]
    placed = [one.placed(values, pseudo) for one in given]
    if asked.leak is None:
        return tuple(placed)
    leak = asked.leak
    return tuple(
        ErrorAtLeast(leak.asked_of_the_draw(one.error, p)) if isinstance(one, ErrorAtLeast) else one for one in placed
    )


def _answer(
    cost: Array, p: Array, asked: Asked, kept: Sequence[Constraint], names: Names | None
) -> tuple[Solution, float, float | None]:
    """The solution, a leakage that is proven, and the budget that was asked for, if one was."""
    name, wanted = asked.demand
    if name == "distortion_at_most":
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float, np.integer, np.floating)):
            raise DesignError(f"{name} = {wanted!r}; it must be a number")
        return *least_leakage_within(cost, p, kept, float(wanted), names), None
    budget = nats(wanted, entropy(p)) if name == "leakage" else math.inf
    left = budget if asked.leak is None else asked.leak.left_for_the_draw(budget)
    try:
        solution = Problem(cost, p, kept, left, names).solve()
    except InfeasibleError as error:
        if asked.leak is None or name != "leakage" or budget == math.inf:
            raise
        raise InfeasibleError(
            f"{error}; of the {budget:.6g} nats asked for, {asked.leak.total:.3g} are for what the models themselves "
            f"give away over {asked.leak.readings} ({asked.leak.how})"
        ) from None
    return solution, 0.0, None if budget == math.inf else budget


# What a constraint costs: the distortion with it less the distortion without it, with proven bounds ---


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a constraint, in units of the distortion: proven to be between `at_least` and `at_most`.

    Where a distortion was asked for, it is the leakage that the constraint costs, in nats.
    """

    constraint: Constraint
    price: float
    at_least: float
    at_most: float

    def __repr__(self) -> str:
        return f"Price({shown(self.constraint)}, {self.price:.6g})"


def price_of(design: Design, constraint: Constraint) -> Price:
    """What one of the constraints of a design costs: the problem is solved again without it.

    >>> import understudy as us
    >>> from understudy.randomizer.constraints import Floor
    >>> design = us.solve([[0, 1, 2], [2, 1, 0]], leakage=0.3, constraints=[Floor(0.05)])
    >>> price_of(design, Floor(0.05))
    Price(Floor(0.05), 0.020902)
    """
    if not isinstance(constraint, Constraint):
        raise DesignError(
            f"price_of: {constraint!r} is no constraint; it must be one of the design's, as in Floor(0.05)"
        )
    if constraint not in design.constraints:
        raise DesignError(f"{shown(constraint)} is no constraint of the design, so it has no price there")
    rest = tuple(one for one in design.constraints if one != constraint)
    cost, p = np.array(design.cost), np.array(design.prior)
    free = not rest and design.demand[0] == "leakage" and design.demand[1] == math.inf
    if rest or free:
        without = solved_with(cost, p, Asked(design.demand, rest, design.charge), design.family, design.costs)
    else:
        without = solved(cost, p, design.demand, design.family, design.costs, design.charge)
    if design.demand[0] == "distortion_at_most":
        high = design.leakage - without.leakage_lower_bound
        return Price(
            constraint, design.leakage - without.leakage, design.leakage_lower_bound - without.leakage, max(0.0, high)
        )
    high = max(0.0, design.distortion - without.lower_bound)
    low = max(0.0, design.lower_bound - without.distortion)
    return Price(constraint, min(max(design.distortion - without.distortion, low), high), low, high)


# Constraints in a stored design: plain values and back, and whether a stored kernel keeps them -------


_NESTED = ("pairs", "groups")  # fields that hold values of a family, in tuples of tuples
# How much a stored kernel may cost above one that is found anew: rounding, and what a search leaves to chance.
_DEARER, _DEARER_IN_MULTIPLES = 1e-6, 1e-2


def constraints_to_plain(constraints: Sequence[Constraint]) -> list[dict[str, Any]]:
    """Constraints as JSON can hold them.

    >>> from understudy.randomizer.constraints import Forbidden, LocalDP
    >>> constraints_to_plain([LocalDP(1.0), Forbidden([(0, "door")])])
    [{'kind': 'local_dp', 'epsilon': 1.0}, {'kind': 'forbidden', 'pairs': [[0, 'door']], 'positions': False}]
    """

    def plain(name: str, value: Any) -> Any:
        return [[value_to_plain(x) for x in group] for group in value] if name in _NESTED else value

    return [
        {"kind": one.name, **{f.name: plain(f.name, getattr(one, f.name)) for f in fields(one)}} for one in constraints
    ]


def constraints_from_plain(plain: Any) -> tuple[Constraint, ...]:
    """The constraints that `constraints_to_plain` was given.

    >>> constraints_from_plain([{"kind": "local_dp", "epsilon": 1.0}])
    (LocalDP(epsilon=1.0),)
    """
    if type(plain) is not list:
        raise StoredFileError("constraints must be a list")
    found = []
    for entry in plain:
        kind = STORED.get(str(entry.get("kind"))) if type(entry) is dict else None
        if kind is None or entry.keys() - {"kind"} != {f.name for f in fields(kind)}:
            raise StoredFileError("constraints holds one that is not known; a newer understudy may have written it")
        given = {
            name: tuple(tuple(value_from_plain(x) for x in group) for group in value) if name in _NESTED else value
            for name, value in entry.items()
            if name != "kind"
        }
        if type(given.get("positions", False)) is not bool:
            raise StoredFileError("positions must be true or false")
        found.append(kind(**given))
    return tuple(found)


def with_stored_kernel(fresh: Design, stored: Randomizer) -> Design:
    """A design with constraints and the stored kernel, if that one keeps them all, exactly, and costs no more."""
    asked = Asked(fresh.demand, fresh.constraints, fresh.charge)
    exact = Exact(fresh.prior, stored.kernel)
    kept = effective(asked, fresh.prior, stored.values, stored.pseudo)
    drawn = (stored.kernel > 0.0) & (fresh.prior[:, None] > 0.0)
    distortion = math.fsum(((fresh.prior[:, None] * stored.kernel)[drawn] * fresh.cost[drawn]).tolist())
    leakage = information(fresh.prior, stored.kernel.reshape(-1))
    spent = total(leakage, fresh.charge)
    name, wanted = fresh.demand
    inverse = name == "distortion_at_most"
    coarse = any(isinstance(one, Multiples) for one in fresh.constraints)
    dearer = _DEARER_IN_MULTIPLES if coarse else _DEARER
    if (
        not all(one.kept(exact) for one in kept)
        or (fresh.budget is not None and not inverse and spent > fresh.budget)
        or (inverse and (distortion > wanted * (1.0 + 1e-15) or leakage > fresh.leakage * (1.0 + dearer) + 1e-12))
        or (not inverse and distortion > fresh.distortion * (1.0 + dearer))
        or distortion < fresh.lower_bound * (1.0 - 1e-12)
    ):
        raise StoredFileError("the kernel is not a solution for the prior, the costs, the demand and the constraints")
    if (fresh.randomizer.kernel == stored.kernel).all():
        return replace(fresh, randomizer=stored)
    gap = max(distortion - fresh.lower_bound, 0.0)
    budget = spent if inverse else fresh.budget
    status = "inexact" if coarse else fresh.status
    return replace(
        fresh, randomizer=stored, distortion=distortion, leakage=leakage, budget=budget, gap=gap, status=status
    )
