"""The trade-off of a design that is at hand: other leakages, the same costs, nothing simulated again."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from understudy.randomizer.causal.beliefs import Beliefs
from understudy.randomizer.causal.limit import long_run
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.curve import Frontier
from understudy.randomizer.making import solved
from understudy.randomizer.result import Design, total
from understudy.randomizer.solver import minimise

_POINTS = 25
_SLOPES = (0.05, 0.5, 2.0, 5.0, 50.0)  # over the scale of the costs; more are put where the curve has gaps
_MORE, _MORE_SIMULATED = 16, 5
_SEED = 20230205


class Tradeoff(NamedTuple):
    """Leakages in nats, what each costs, and the share of guesses that are wrong at least, if there is such a bound."""

    leakages: list[float]
    distortions: list[float]
    errors: list[float] | None


def tradeoff(design: Design | CausalDesign) -> Tradeoff:
    """The least distortion at leakages from nothing to where more is of no use.

    >>> import understudy as us
    >>> found = tradeoff(us.solve([[0, 1], [1, 0]], leakage=0.2))
    >>> round(found.distortions[0], 6), round(found.distortions[-1], 6), round(found.errors[0], 6)
    (0.5, 0.0, 0.5)
    """
    return _of_draws(design) if isinstance(design, Design) else _of_chain(design)


def frontier_of(design: Design) -> Frontier:
    """The designs that other budgets would have given, with the costs of this one.

    >>> import understudy as us
    >>> frontier_of(us.solve([[0, 1], [1, 0]], leakage=0.2))
    Frontier(25 designs, saturation=0.693147 nats)
    """
    matrix, prior = np.ascontiguousarray(design.cost), np.array(design.prior)
    saturation = minimise(matrix, prior, math.inf).leakage
    # closer together at the ends, where the curve bends
    ends = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _POINTS))
    budgets = [total(x, design.charge) for x in (ends * saturation * (1.0 + 1e-12)).tolist()]
    if not np.isfinite(matrix[prior > 0.0]).all(axis=0).any():
        budgets = budgets[1:]  # forbidden pairs: something must be told
    made = [
        solved(matrix.copy(), prior.copy(), ("leakage", b), design.family, design.costs, design.charge) for b in budgets
    ]
    return Frontier(made, total(saturation, design.charge))


def _of_draws(design: Design) -> Tradeoff:
    made = frontier_of(design)
    return Tradeoff(made.leakages.tolist(), made.distortions.tolist(), made.errors.tolist())


def _of_chain(design: CausalDesign) -> Tradeoff:
    b = design.beliefs

    def at(slope: float) -> tuple[float, float]:
        settled = long_run(Beliefs(b.prior, b.transitions, b.cost, slope), _SEED)
        return settled.rate, settled.distortion

    found = {slope: at(slope) for slope in (s / b.scale for s in _SLOPES)}
    for _ in range(_MORE_SIMULATED if design.rate_error > 0.0 else _MORE):
        slopes = sorted(found)
        gaps = [found[high][0] - found[low][0] for low, high in pairwise(slopes)]
        k = int(np.argmax(gaps))
        slope = math.sqrt(slopes[k] * slopes[k + 1])
        found[slope] = at(slope)
    points = sorted([at(math.inf), (design.rate, design.distortion), *found.values()])
    return Tradeoff([rate for rate, _ in points], [d for _, d in points], None)
