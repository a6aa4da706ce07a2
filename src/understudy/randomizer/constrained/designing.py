"""Designs with constraints: from what a user asks to the solvers, and to a `Design`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy.distortion.cost import Costs
from understudy.errors import DesignError, InfeasibleError
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.budget import nats
from understudy.randomizer.charge import Charge
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.constrained.constraints import ErrorAtLeast, Multiples
from understudy.randomizer.constrained.leakage import least_leakage_with
from understudy.randomizer.constrained.multiples import in_multiples
from understudy.randomizer.constrained.naming import Names
from understudy.randomizer.constrained.solving import Constrained
from understudy.randomizer.measures import entropy
from understudy.randomizer.result import Design, total
from understudy.randomizer.sampler import Randomizer
from understudy.randomizer.solver import Solution, bounds_of

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
    kept = effective(asked, p, *names)
    solution, proven, budget = _answer(cost, p, asked, kept, None if found is None else Names(*map(tuple, names)))
    randomizer = Randomizer._certified(solution.kernel, *((None, None) if found is None else names))
    error = 0.0 if found is None else found.expected(p[:, None] * solution.kernel)[1]
    p.setflags(write=False)
    cost.setflags(write=False)
    distortion, lower = bounds_of(solution)
    if name == "distortion_at_most":
        distortion = min(distortion, wanted)  # met exactly: `least_leakage_with` has made sure of it
        lower = min(lower, distortion)
    gap = max(solution.excess - solution.bound, 0.0)
    status = "optimal" if solution.optimal else "inexact"
    spent = total(solution.leakage, leak) if name == "distortion_at_most" else budget
    return Design(
        randomizer, p, cost, distortion, lower, gap, solution.leakage, spent, asked.demand, status,
        solution.iterations, solution.slope, proven, error, family, found, leak, asked.constraints,
    )  # fmt: skip


def effective(asked: Asked, p: Array, values: Sequence[Any], pseudo: Sequence[Any]) -> tuple[Constraint, ...]:
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
    grain = min([one.of for one in kept if isinstance(one, Multiples)], default=0)
    if name == "distortion_at_most":
        if grain:
            raise DesignError("Multiples and distortion_at_most: probabilities in multiples go with a leakage")
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float, np.integer, np.floating)):
            raise DesignError(f"{name} = {wanted!r}; it must be a number")
        return *least_leakage_with(cost, p, kept, float(wanted), names), None
    budget = nats(wanted, entropy(p)) if name == "leakage" else math.inf
    left = budget if asked.leak is None else asked.leak.left_for_the_draw(budget)
    try:
        problem = Constrained(cost, p, kept, left, names)
        solution = problem.solved()
        if grain:
            solution = in_multiples(problem, solution, grain)
    except InfeasibleError as error:
        if asked.leak is None or name != "leakage" or budget == math.inf:
            raise
        raise InfeasibleError(
            f"{error}; of the {budget:.6g} nats asked for, {asked.leak.total:.3g} are for what the models themselves "
            f"give away over {asked.leak.readings} ({asked.leak.how})"
        ) from None
    return solution, 0.0, None if budget == math.inf else budget
