"""Designs with constraints: from what a user asks to the solvers.

`answer` takes one demand and the constraints beside it, with what approximate models give away themselves, to the
solver of constrained problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Value
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.constrained_solver import Problem, least_leakage_within
from understudy.randomizer.constraints import Constraint, ErrorAtLeast, Names
from understudy.randomizer.measures import entropy
from understudy.randomizer.residual import Charge
from understudy.randomizer.solver import Solution, nats

# Designs with constraints: from what a user asks to the solvers, and to a `Design` -------------------


UNLIMITED = ("leakage", math.inf)  # the demand where constraints are all that is asked


class Asked(NamedTuple):
    """One demand, the constraints beside it, and what the models themselves give away."""

    demand: tuple[str, Any]
    constraints: tuple[Constraint, ...]
    leak: Charge | None = None


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


def answer(
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
