"""The whole trade-off: the least distortion at every leakage."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from understudy._html import fragment, table
from understudy._types import Array, Frozen, Progress, Seed, Value
from understudy.distortion.costs import costs
from understudy.distortion.measures import Function
from understudy.errors import DesignError
from understudy.models.family import Family
from understudy.randomizer.design import Design, solve_demand, total, with_terms
from understudy.randomizer.measures import entropy
from understudy.randomizer.residual import charge
from understudy.randomizer.solver import minimise, nats
from understudy.stream.release import Terms
from understudy.text import FRONTIER_CAPTION, FRONTIER_HEAD, percent

POINTS = 60
_SHOWN = 12  # in a notebook


class Frontier(Frozen):
    """Designs along the curve, in the order of the leakages asked for; `us.frontier` makes one.

    `leakages` are the budgets, `distortions` what they cost, `lower_bounds` what nobody can go below,
    `errors` the probability with which every guess is wrong. `saturation` is the leakage beyond which
    nothing is gained. `frontier[k]` is the design of point k.

    Where models are approximate, `leakages` and `saturation` are of draw and residual together, as a budget is in
    `us.design`, and `errors` has the residual taken off.
    """

    __slots__ = ("designs", "saturation")

    def __init__(self, designs: Iterable[Design], saturation: float) -> None:
        self.designs: tuple[Design, ...] = tuple(designs)
        self.saturation = saturation

    def __repr__(self) -> str:
        return f"Frontier({len(self)} designs, saturation={self.saturation:.6g} nats)"

    def _repr_html_(self) -> str:
        which = np.unique(np.linspace(0, len(self) - 1, min(len(self), _SHOWN)).round().astype(int)).tolist()
        bits = self.leakages / math.log(2.0)
        figures = zip(self.leakages, bits, self.distortions, self.lower_bounds, self.errors, strict=True)
        lines = [
            (f"{nats_:.3f}", f"{bits_:.3f}", f"{paid:.4g}", f"{bound:.4g}", percent(error, "down"))
            for nats_, bits_, paid, bound, error in figures
        ]
        rows = [lines[k] for k in which]
        return fragment("Frontier", table(FRONTIER_CAPTION, FRONTIER_HEAD, rows, range(5)))

    def __len__(self) -> int:
        return len(self.designs)

    def __getitem__(self, k: int) -> Design:
        return self.designs[k]

    @property
    def leakages(self) -> Array:
        """The budgets, in nats."""
        return np.array([design.budget for design in self.designs])

    @property
    def distortions(self) -> Array:
        """The distortion of each design."""
        return np.array([design.distortion for design in self.designs])

    @property
    def lower_bounds(self) -> Array:
        """What no randomizer within the budget can go below."""
        return np.array([design.lower_bound for design in self.designs])

    @property
    def relative_distortions(self) -> Array:
        """Distortion over the mean reading, as in the paper's figure; NaN where there is none."""
        found = [design.relative_distortion for design in self.designs]
        return np.array([math.nan if x is None else x for x in found])

    @property
    def distortion_errors(self) -> Array:
        """Standard errors of the distortions; 0 where they are exact."""
        return np.array([design.distortion_error for design in self.designs])

    @property
    def errors(self) -> Array:
        """The probability with which every guess is wrong, at each design."""
        return np.array([design.guarantee.bayes_error for design in self.designs])


def frontier(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    leakages: Iterable[float | str] | None = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    fresh: float = 0.0,
) -> Frontier:
    """The least distortion at each leakage, from nothing to where more is of no use.

    `leakages` are budgets as in `us.design`; by default 60, from 0 to saturation. The other arguments are
    those of `us.costs`; the costs are found once. Approximate models are charged as in `us.design`: every budget is for
    draw and residual together, and the curve begins where the residual alone is spent. `fresh` is the fresh share.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1, 2])
    >>> curve = us.frontier(family, distortion="mae", leakages=[0, "50%", "100%"])
    >>> curve.distortions.round(4).tolist()
    [0.6667, 0.1873, 0.0]
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family")
    H = entropy(family.prior)
    budgets = None if leakages is None else [nats(leakage, H) for leakage in _several(leakages)]
    leak = charge(family, horizon, rng, fresh)
    if leak is not None and budgets is not None:
        for budget in budgets:
            leak.left_for_the_draw(budget)  # one that the models alone exceed is refused before the work
    found = costs(family, pseudo, horizon, distortion, weights, accuracy, rng, progress, fresh)
    matrix = np.ascontiguousarray(found.matrix)
    saturation = minimise(matrix, family.prior, math.inf).leakage
    if budgets is None:
        # closer together at the ends, where the curve bends; a little past saturation, so that the last has saturated
        ends = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, POINTS))
        budgets = [total(x, leak) for x in (ends * saturation * (1.0 + 1e-12)).tolist()]
        if not np.isfinite(matrix[family.prior > 0.0]).all(axis=0).any():
            budgets = budgets[1:]  # forbidden pairs: something must leak
    designs = [solve_demand(matrix, family.prior, ("leakage", budget), family, found, leak) for budget in budgets]
    designs = [with_terms(made, Terms(fresh=float(fresh))) for made in designs]
    return Frontier(designs, total(saturation, leak))


def _several(leakages: Iterable[float | str]) -> list[float | str]:
    if isinstance(leakages, (str, bytes)) or not isinstance(leakages, Iterable):
        raise DesignError(f"leakages = {leakages!r}; it must be several budgets")
    found = list(leakages)
    if not found:
        raise DesignError("leakages is empty; there must be at least one budget")
    return found
