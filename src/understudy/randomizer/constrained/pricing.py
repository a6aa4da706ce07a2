"""What a constraint costs: the distortion with it less the distortion without it, with proven bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.errors import DesignError
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.constrained.constraints import shown
from understudy.randomizer.constrained.designing import Asked, solved_with
from understudy.randomizer.making import solved
from understudy.randomizer.result import Design


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
    >>> from understudy.randomizer.constrained.constraints import Floor
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
