"""Which pseudo values to play: chosen from a whole interval or box (paper, remark after Theorem 2).

The paper takes the pseudo values as given and remarks that they can be optimised together with the randomizer, one
after the other. `optimise_pseudo` does that from several starts and keeps the best; it is never worse than the start,
and says what was gained over a uniform grid and what no choice of values can reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.distortion.measure import Function
from understudy.distortion.methods import Progress
from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.budget import nats
from understudy.randomizer.charge import charge
from understudy.randomizer.making import design, solved
from understudy.randomizer.measures import entropy
from understudy.randomizer.problem import as_prior
from understudy.randomizer.pseudo.landscape import Landscape, as_box, as_place, of_family, of_function
from understudy.randomizer.pseudo.positions import (
    Layout,
    generated,
    improved,
    laid_out,
    pruned,
    reach,
    snapped,
    supported,
)
from understudy.randomizer.result import Design
from understudy.randomizer.solver import bounds_of

_REACHED = 1e-10  # of what any values can reach, at which a search has nothing left to gain
_EQUAL = 1e-12
_ROUNDING = 1e-13  # two sums over the same kernel may differ by so much


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PseudoSearch:
    """Pseudo values that were searched for, and the design with them; `us.optimise_pseudo` makes one.

    `design` is an ordinary design on the values found, those of no use left out. Beside it stand `start`, the design on
    the values that the search began with, and `grid`, that on as many values at equal distances. `fine` is the
    distortion of the best kernel on all `places` that were looked at. `reach` is what no set of pseudo values goes
    below, as far as these places and the peaks around them tell; between them nothing is proven. `traces` are
    distortions after each stage of the search from each start (those that were needed: a search that has nothing left
    to gain ends), and `slopes` says whether it went by exact slopes.
    """

    design: Design
    positions: Array
    start: Design
    grid: Design
    fine: float
    reach: float
    places: int
    traces: tuple[tuple[float, ...], ...]
    slopes: bool

    def __post_init__(self) -> None:
        self.positions.setflags(write=False)

    def __repr__(self) -> str:
        shown = f"{len(self.positions)} values, distortion={self.distortion:.6g}"
        return f"PseudoSearch({shown}, {100.0 * self.gained:.3g}% less than a grid)"

    def __str__(self) -> str:
        return self.report()

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values found, in order."""
        line = self.positions.ndim == 1
        rows = self.positions[:, None] if line else self.positions
        return tuple(as_place(x, line) for x in rows)

    @property
    def distortion(self) -> float:
        """That of the design found."""
        return self.design.distortion

    @property
    def gained(self) -> float:
        """By which share the distortion is below that of the uniform grid."""
        return _gain(self.distortion, self.grid.distortion)

    @property
    def gained_over_start(self) -> float:
        """By which share it is below that of the start; never negative."""
        return _gain(self.distortion, self.start.distortion)

    def report(self) -> str:
        """What was found and what was gained, in a few lines."""
        n = len(self.positions)
        values = ", ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in self.pseudo[:12])
        beside = [
            (name, other, f"{100.0 * _gain(self.distortion, other.distortion):.3g}% of it gained")
            for name, other in (("the start", self.start), ("a uniform grid", self.grid))
        ]
        lines = [
            f"{n} pseudo value{'s' * (n != 1)}: {values}{', ...' * (n > 12)}",
            f"  distortion       {self.distortion:.8g} at {self.design.leakage:.6g} nats ({self.design.status})",
        ]
        lines += [
            f"  {name:16} {other.distortion:.8g} ({other.cost.shape[1]} values), {gain}" for name, other, gain in beside
        ]
        count, how = len(self.traces), "by exact slopes" if self.slopes else "without exact slopes"
        return "\n".join(
            [
                *lines,
                f"  a fine grid      {self.fine:.8g} ({self.places} values)",
                f"  any values       at least {self.reach:.8g}, as far as these {self.places} places tell",
                f"  {count} start{'s' * (count != 1)}, {how}",
            ]
        )


def optimise_pseudo(
    family: Family,
    n: int | None = None,
    start: Iterable[Any] | None = None,
    bounds: Any = None,
    *,
    leakage: Any,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    starts: int = 4,
    rng: Any = None,
    progress: Progress | None = None,
) -> PseudoSearch:
    """Choose the pseudo values of a design from an interval or a box, and the randomizer with them.

    The family must be a function of its parameter. `bounds` is (low, high), or a pair for each coordinate of a box,
    whose values are tuples; by default the range of the private values. `start` are values to begin with, by default a
    uniform grid. `n` values at most are chosen; by default as many as `start` has, or, without it, one more than there
    are private ones: more are never needed. `starts` counts the beginnings at most: the start, the support of the best
    kernel on as many values as one likes, then random ones, drawn by `rng` (a numpy Generator or a seed). `leakage`,
    `horizon`, `distortion`, `weights`, `accuracy` and `progress` are those of `us.design`. Its other demands
    (`distortion_at_most`, `error_at_least`) and its constraints are not: they are for a `us.design` on what is found.

    Models that are linear and Gaussian are followed by exact slopes of their distortion; others by differences of it,
    or, where it is simulated, without slopes.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[-1, 1])
    >>> found = optimise_pseudo(family, n=2, leakage=0.3, distortion="mse")
    >>> found
    PseudoSearch(2 values, distortion=0.462963, 13.4% less than a grid)
    >>> [round(x, 6) for x in found.pseudo]
    [-0.732828, 0.732828]
    >>> found.distortion <= found.start.distortion
    True
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family (optimise_positions takes a cost)")
    budget = nats(leakage, entropy(family.prior))
    # one seed for all that is simulated, so that designs are compared and not their luck
    seed = None if rng is None else int(np.random.default_rng(rng).integers(2**62))
    box = as_box(bounds, family.values)
    count, first = _asked(n, start, len(family.values), box)
    leak = charge(family, horizon, seed)
    left = budget if leak is None else leak.left_for_the_draw(budget)
    land = of_family(family, family.prior, left, box, (horizon, distortion, weights, accuracy, seed))

    def made(X: Array) -> Design:
        return design(
            family, [as_place(x, box[2]) for x in X], leakage=leakage, horizon=horizon, distortion=distortion,
            weights=weights, accuracy=accuracy, rng=seed,
        )  # fmt: skip

    return _searched(land, count, first, starts, seed, progress, made, box[2])


def optimise_positions(
    cost: Callable[[Any, Any], Any],
    values: Iterable[Any],
    bounds: Any = None,
    *,
    leakage: Any,
    n: int | None = None,
    prior: Any = None,
    start: Iterable[Any] | None = None,
    gradient: Callable[[Any, Any], Any] | None = None,
    starts: int = 4,
    rng: Any = None,
    progress: Progress | None = None,
) -> PseudoSearch:
    """The same for a bare cost ``cost(theta, x)`` of playing the place x for the private value theta.

    ``gradient(theta, x)`` is its derivative in x, if there is one to give. The other arguments are those of
    `optimise_pseudo`, and `prior` are the odds of the private values, equal ones by default. The design that is found
    names its columns by number; `pseudo` has the places.

    >>> found = optimise_positions(lambda a, x: (a - x) ** 2, [-1, 1], n=2, leakage=0.3,
    ...                            gradient=lambda a, x: 2 * (x - a))
    >>> [round(x, 6) for x in found.pseudo], round(found.distortion, 9)
    ([-0.732828, 0.732828], 0.462963197)
    """
    private = list(values)
    if not private:
        raise DesignError("values is empty; there must be at least one private value")
    if not callable(cost):
        raise DesignError(f"cost is a {type(cost).__name__}; it must be a function cost(theta, x)")
    p = as_prior(prior, len(private))
    box = as_box(bounds, private)
    count, first = _asked(n, start, len(private), box)
    land = of_function(cost, private, p, nats(leakage, entropy(p)), box, gradient)

    def made(X: Array) -> Design:
        return solved(np.ascontiguousarray(land.costs(X)), p.copy(), ("leakage", leakage), None, None)

    return _searched(land, count, first, starts, rng, progress, made, box[2])


def _asked(n: Any, start: Iterable[Any] | None, m: int, box: tuple[Array, Array, bool]) -> tuple[int, Array | None]:
    """How many values, and those to begin with, if any, as places (n, k)."""
    first = None
    if start is not None:
        try:
            given = np.array([np.atleast_1d(np.asarray(x, dtype=float)) for x in start])
        except (TypeError, ValueError):
            raise DesignError("start must hold numbers, or tuples of as many as the box has sides") from None
        if given.ndim != 2 or given.shape[1] != box[0].size or not len(given):
            raise DesignError(f"start has the shape {given.shape}; each value has {box[0].size} coordinates")
        outside = ~((given >= box[0]) & (given <= box[1])).all(axis=1)
        if outside.any():
            first_one = as_place(given[int(outside.argmax())], box[2])
            raise DesignError(f"start has {first_one!r}, which is outside of the bounds")
        first = given
    if n is None:
        return (m + 1 if first is None else len(first)), first
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise DesignError(f"n = {n!r}; it must be a whole number of at least 1")
    if first is not None and len(first) > n:
        raise DesignError(f"n = {n}, and start has {len(first)} values; it may have at most n")
    return int(n), first


def _searched(
    land: Landscape,
    n: int,
    first: Array | None,
    starts: Any,
    rng: Any,
    progress: Progress | None,
    made: Callable[[Array], Design],
    line: bool,
) -> PseudoSearch:
    if isinstance(starts, bool) or not isinstance(starts, (int, np.integer)) or starts < 1:
        raise DesignError(f"starts = {starts!r}; it must be a whole number of at least 1")
    generator = np.random.default_rng(0 if rng is None else rng)
    uniform = _uniform(land, n)
    begun = uniform if first is None else np.concatenate((first, uniform[: n - len(first)]))
    whole = freely = laid_out(land, land.scan, land.scanned)
    found: list[Layout] = []
    traces, lowest = [], -math.inf
    for number in range(int(starts)):
        if number == 0:
            X = begun
        elif number == 1:
            X = supported(land, freely, n)
        else:
            X = land.low + generator.random((n, land.low.size)) * land.width
        layout, trace = improved(land, laid_out(land, X))
        found.append(layout)
        traces.append(tuple(trace))
        lowest = max(lowest, reach(land, layout))
        if progress is not None:
            progress((number + 1.0) / starts)
        if layout.distortion > lowest * (1.0 + _REACHED) and number == 0:
            # what could be reached with as many values as one likes, and a better place to begin
            freely = generated(land, min(whole, layout, key=lambda one: one.distortion))
            lowest = max(lowest, reach(land, freely))
        if layout.distortion <= lowest * (1.0 + _REACHED):
            break  # nothing is left to gain, from wherever
    if progress is not None:
        progress(1.0)
    least = min(one.distortion for one in found)
    # of those that are as good as the best, the one with the fewest values
    best = min(
        (pruned(land, one) for one in found if one.distortion <= least * (1.0 + _EQUAL)), key=lambda one: len(one.X)
    )
    best = snapped(land, best)
    start, grid, mine = made(begun if first is None else first), made(uniform), made(best.X)
    if not mine.distortion <= start.distortion * (1.0 + _ROUNDING):
        best, mine = laid_out(land, begun if first is None else first), start
    positions = np.array(best.X[:, 0] if line else best.X)
    return PseudoSearch(
        mine, positions, start, grid, bounds_of(whole.solution)[0],
        min(max(lowest, reach(land, best)), mine.distortion), len(land.scan), tuple(traces), land.exact,
    )  # fmt: skip


def _uniform(land: Landscape, n: int) -> Array:
    """Values at equal distances: on a line from end to end, in a box as close to a lattice as n values come."""
    k = land.low.size
    if k == 1:
        unit = np.linspace(0.0, 1.0, n)[:, None] if n > 1 else np.full((1, 1), 0.5)
    else:
        side = max(1, round(n ** (1.0 / k)))
        axis = np.linspace(0.0, 1.0, side) if side > 1 else np.array([0.5])
        unit = np.array(np.meshgrid(*([axis] * k))).reshape(k, -1).T
        if len(unit) < n:
            from scipy.stats import qmc

            unit = np.concatenate((unit, qmc.Sobol(k, scramble=False).random(n)))
        unit = unit[:n]
    return np.asarray(land.low + unit * land.width)


def _gain(new: float, old: float) -> float:
    return max(0.0, 1.0 - new / old) if old > new * (1.0 + 1e-12) else 0.0
