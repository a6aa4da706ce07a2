"""Which pseudo values to use: chosen from a whole interval or box (paper, remark after Theorem 2).

The paper takes the pseudo values as given and remarks that they can be optimised together with the randomizer, one
after the other. `optimise_pseudo` does that. It begins with the support that the best kernel on a fine grid leaves and
with the values that it is given, alternates between kernel and values, and keeps the best. The distortion never rises.

For given positions the best kernel P is a convex problem. For a given kernel every position is a small problem of
its own: the least of sum_i p_i P_ij L(theta_i, x) over x. What the optimum gains by moving position j is, by the
envelope theorem, what the fixed kernel gains, so that a quasi-Newton method takes over with ::

    d D / d x_j = sum_i p_i P_ij dL(theta_i, x_j) / dx

A place is worth having where ::

    c(x) = sum_i p_i exp(-beta L(theta_i, x)) / z_i > 1,        z_i = sum_j q_j exp(-beta L_ij)

(beta the slope of the curve, q the law of the draw). Such places are added to the fine grid until c(x) <= 1 everywhere:
then no further value helps, and (F - ln max c - I_0) / beta bounds what any set of values can reach. The largest
c is found by a scan of the box, each of its peaks looked at closely; between the places of the scan nothing is proven.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Index, Progress, Seed, Value
from understudy.distortion.costs import EXACT, MONTE_CARLO, QUADRATURE, Costs, costs
from understudy.distortion.exact import gradients
from understudy.distortion.measures import Function, Measure
from understudy.errors import DesignError, InfeasibleError, UnderstudyWarning
from understudy.models.family import Family
from understudy.models.model import Model
from understudy.randomizer.design import Design, design, solve_demand
from understudy.randomizer.measures import entropy
from understudy.randomizer.residual import charge
from understudy.randomizer.solver import Solution, as_prior, bounds_of, minimise, nats
from understudy.transform.core import as_share

# The box, and what every place in it costs -------------------------------------------------------------


# places of a scan where costs have a formula, take an integral, or a simulation; in a box a power of two
_PLACES = {EXACT: 401, QUADRATURE: 121, MONTE_CARLO: 41}
_STEP = 1e-3  # of the width, to both sides, for differences of costs

Place = float | tuple[float, ...]
PlaceFunction = Callable[[Any, Any], ArrayLike]  # of a private value and a place


class Box(NamedTuple):
    """The set to choose from: its lowest and highest place, and whether it is a line."""

    low: Array
    high: Array
    line: bool

    @property
    def width(self) -> Array:
        """The sides."""
        return self.high - self.low

    def place(self, x: Array) -> Place:
        """A place as users see it: a number on a line, a tuple in a box."""
        return float(x[0]) if self.line else tuple(x.tolist())

    def inside(self, values: Sequence[Value]) -> Array:
        """The private values that are places of the box, (N, k)."""
        found = []
        for value in values:
            try:
                x = np.atleast_1d(np.asarray(value, dtype=float))
            except (TypeError, ValueError):
                continue
            if x.shape == self.low.shape and (x >= self.low).all() and (x <= self.high).all():
                found.append(x)
        return np.array(found).reshape(-1, self.low.size)

    def scan(self, own: Array, count: int) -> Array:
        """Places all over the box, the private values among them."""
        k = self.low.size
        if k == 1:
            unit = np.linspace(0.0, 1.0, count)[:, None]
        else:
            unit = np.concatenate((_sobol(k, 1 + math.ceil(math.log2(count))), _lattice(k, 2)))
        return np.unique(np.concatenate((self.low + unit * self.width, own)), axis=0)

    def uniform(self, n: int) -> Array:
        """Values at equal distances: on a line from end to end, in a box as close to a lattice as n values come."""
        k = self.low.size
        unit = _lattice(k, max(1, round(n ** (1.0 / k))))
        if len(unit) < n:
            unit = np.concatenate((unit, _sobol(k, math.ceil(math.log2(n)))))
        return np.asarray(self.low + unit[:n] * self.width)


def _lattice(k: int, side: int) -> Array:
    axis = np.linspace(0.0, 1.0, side) if side > 1 else np.array([0.5])
    return np.array(np.meshgrid(*([axis] * k))).reshape(k, -1).T


def _sobol(k: int, power: int) -> Array:
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(k, scramble=False).random_base2(power))


def as_box(bounds: ArrayLike | None, values: Sequence[Value]) -> Box:
    """The set to choose from; by default the range of the private values.

    >>> as_box((0, 4), [])
    Box(low=array([0.]), high=array([4.]), line=True)
    >>> as_box([(0, 1), (-1, 1)], []).line
    False
    """
    if bounds is None:
        try:
            table = np.array([np.asarray(value, dtype=float) for value in values])
        except (TypeError, ValueError):
            raise DesignError(
                "bounds is missing: the private values are no numbers that a set could be made of"
            ) from None
        line = table.ndim == 1
        table = table.reshape(len(values), -1)
        return Box(table.min(axis=0), table.max(axis=0), line)
    try:
        given = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.shape != (2,) and (given.ndim != 2 or given.shape[1] != 2):
        raise DesignError(f"bounds = {bounds!r}; it must be (low, high), or a pair for each coordinate of a box")
    low, high = given.reshape(-1, 2).T
    if not (np.isfinite(given).all() and (low < high).all()):
        raise DesignError(f"bounds = {bounds!r}; they must be finite, each low below its high")
    return Box(low.copy(), high.copy(), given.ndim == 1)


@dataclass(frozen=True, slots=True, eq=False)
class Landscape:
    """A box, the prior of the private values, the budget, and what places cost.

    ``costs(X)`` is (m, N) for places X (N, k), ``exact_slopes(X)`` its derivatives (m, N, k), if there are any.
    `scan` are places all over the box, and `scan_costs` what they cost; `own` are the private values that are places of
    the box. Each cost of a `simulated` landscape takes a while.
    """

    p: Array
    budget: float
    box: Box
    costs: Callable[[Array], Array]
    exact_slopes: Callable[[Array], Array | None] | None
    scan: Array
    scan_costs: Array
    own: Array
    simulated: bool = False

    @property
    def spacing(self) -> float:
        """How far places of the scan are apart, as a share of the sides."""
        return float(2.0 / len(self.scan) ** (1.0 / self.box.low.size))

    def slopes(self, X: Array) -> Array:
        """The derivatives (m, N, k) of the costs, by differences where there are no exact ones."""
        exact = None if self.exact_slopes is None else self.exact_slopes(X)
        if exact is not None:
            return exact
        low, high, _ = self.box
        steps = _STEP * self.box.width * np.eye(low.size)
        up, down = (np.clip(X[:, None] + sign * steps, low, high) for sign in (1.0, -1.0))
        both = self.costs(np.concatenate((up, down)).reshape(-1, low.size))
        apart = np.einsum("nii->ni", up - down)
        rise = np.subtract(*np.split(both, 2, axis=1)).reshape(len(both), *X.shape)
        return np.asarray(rise / np.where(apart > 0.0, apart, 1.0))


def of_function(
    cost: PlaceFunction,
    values: Sequence[Value],
    p: Array,
    budget: float,
    box: Box,
    gradient: PlaceFunction | None,
) -> Landscape:
    """The landscape of a cost function of a private value and a place."""

    def table(X: Array) -> Array:
        rows = [[_number(_call(cost, value, box.place(x), "cost")) for x in X] for value in values]
        return np.array(rows).reshape(len(values), len(X))

    def slopes(X: Array) -> Array | None:
        if gradient is None:
            return None
        rows = [[np.ravel(_call(gradient, value, box.place(x), "gradient")) for x in X] for value in values]
        found = np.array(rows, dtype=float)
        if found.shape != (len(values), *X.shape):
            raise DesignError(f"gradient must give {box.low.size} numbers, one for each coordinate of a place")
        return found

    own = box.inside(values)
    scan = box.scan(own, _PLACES[EXACT])
    return Landscape(p, budget, box, table, None if gradient is None else slopes, scan, table(scan), own)


class CostChoices(NamedTuple):
    """How the distortion of readings is found, as in `us.costs`."""

    horizon: int | None
    distortion: str | Function
    weights: ArrayLike | None
    accuracy: float
    seed: Seed
    fresh: float = 0.0


def of_family(family: Family, budget: float, box: Box, how: CostChoices) -> Landscape:
    """The landscape of a family that is a function of its parameter."""
    models = family._models
    if isinstance(models, Mapping):
        raise DesignError("the family is a mapping and has no models between its values; make it from a function")
    measure = Measure(how.distortion, family.dim, how.weights)
    sources = {i: family.model(value) for i, value in enumerate(family.values)}
    m = len(sources)

    def model(x: Array) -> Model:
        place = box.place(x)
        try:
            return models(place)  # not through the family, which would remember every place
        except Exception as error:
            raise DesignError(
                f"the family has no model at {place!r}, which is within the bounds: {_message(error)}; "
                "the bounds must leave out what has none"
            ) from error

    def costs_at(X: Array) -> Costs:
        targets = {m + j: model(x) for j, x in enumerate(X)}
        known = Family(sources | targets, range(m), family.prior)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the design that is made in the end says it
            # the same random numbers everywhere, so that places are compared and not their luck
            return costs(
                known, targets, how.horizon, how.distortion, how.weights, how.accuracy, how.seed, fresh=how.fresh
            )

    def slopes(X: Array) -> Array | None:
        return gradients(list(sources.values()), model, X, (box.low, box.high), measure, how.horizon, how.fresh)

    middle = 0.5 * (box.low + box.high)[None, :]
    methods = costs_at(middle).method
    own = box.inside(family.values)
    scan = box.scan(own, min(_PLACES[str(method)] for method in methods.ravel()))
    return Landscape(
        family.prior, budget, box, lambda X: costs_at(X).matrix, None if slopes(middle) is None else slopes,
        scan, costs_at(scan).matrix, own, bool((methods == MONTE_CARLO).any()),
    )  # fmt: skip


def _call(f: PlaceFunction, value: Value, place: Place, what: str) -> ArrayLike:
    """What a function of the user's gives; one that fails is told where."""
    try:
        return f(value, place)
    except Exception as error:
        raise DesignError(f"{what}({value!r}, {place!r}) fails, within the bounds: {_message(error)}") from error


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _number(given: ArrayLike) -> float:
    try:
        value = float(given)  # type: ignore[arg-type]  # what is no number fails
    except (TypeError, ValueError):
        raise DesignError(f"cost gives a {type(given).__name__}; it must be a number") from None
    if not value >= 0.0:
        raise DesignError(f"cost gives {value!r}; it must be 0 or more")
    return value


# All peaks of a function over a box, as far as a scan shows them, each looked at closely -------------


Score = Callable[[Array], Array]  # of costs (m, N), one number for each place

_LOOKS = 7  # at what is around a peak, each closer than the one before; 2 where costs are simulated
_MOST = 32  # peaks that are looked at, the highest first; 8 where costs are simulated


class Peaks(NamedTuple):
    """Places (C, k), highest first, what they cost (m, C), and how high they are."""

    X: Array
    costs: Array
    heights: Array


def peaks(land: Landscape, score: Score, level: float) -> Peaks:
    """The highest place of the scan, and all peaks that may be above a level, each as high as it was found to be.

    A place that stands above its neighbours has a peak around it, which may be higher than the place, by at most the
    difference to the neighbours where it has a kink, and by far less where it is smooth.
    """
    from scipy.spatial import cKDTree

    width, k = land.box.width, land.box.low.size
    heights = np.nan_to_num(score(land.scan_costs), nan=-1e300, posinf=1e300, neginf=-1e300)
    unit = land.scan / np.where(width > 0.0, width, 1.0)
    _, near = cKDTree(unit).query(unit, k=min(len(heights), 2 * k + 2))
    around = heights[near.reshape(len(heights), -1)]
    wanted = (heights >= around.max(axis=1)) & (2.0 * heights - around.min(axis=1) > level)
    wanted[int(heights.argmax())] = True
    at = np.flatnonzero(wanted)
    at = at[np.argsort(-heights[at], kind="stable")][: 8 if land.simulated else _MOST]
    found = Peaks(land.scan[at], land.scan_costs[:, at], heights[at])
    star = np.linspace(-1.0, 1.0, 11)[:, None]
    if k > 1:
        star = np.concatenate((np.eye(k), -np.eye(k), 2.0 * _sobol(k, 5) - 1.0))
    radius = land.spacing
    for _ in range(2 if land.simulated else _LOOKS):
        found = _climb(land, score, found, radius * star * width)
        radius *= 0.2 if k == 1 else 0.3
    order = np.argsort(-found.heights, kind="stable")
    return Peaks(found.X[order], found.costs[:, order], found.heights[order])


def _climb(land: Landscape, score: Score, now: Peaks, steps: Array) -> Peaks:
    """Each place, or the highest of those a step (N, k) away from it."""
    count, k = now.X.shape
    net = np.clip(now.X[:, None, :] + steps, land.box.low, land.box.high)
    costs = land.costs(net.reshape(-1, k))
    values = np.asarray(score(costs)).reshape(count, -1)
    row, at = np.arange(count), values.argmax(axis=1)
    better = values[row, at] > now.heights
    X = np.where(better[:, None], net[row, at], now.X)
    costs = np.where(better, costs.reshape(len(costs), count, -1)[:, row, at], now.costs)
    return Peaks(X, costs, np.where(better, values[row, at], now.heights))


# Kernel and positions in turn, until neither has anything to gain ------------------------------------


_ROUNDS = 12
_WORTH = 1e-10  # of ln c over 0, for a place to be tried
_NEAR = 1e-6  # of the width: what is so close to a private value or an end may be meant to be it


class Layout(NamedTuple):
    """Positions (n, k), what they cost, and the best kernel for them."""

    X: Array
    cost: Array
    solution: Solution

    @property
    def distortion(self) -> float:
        """What the kernel costs, rounded up."""
        return bounds_of(self.solution)[0]

    @property
    def law(self) -> Array:
        """How often each position is drawn, up to the weights of the private values."""
        return np.asarray(self.solution.kernel.sum(axis=0))


def lay_out(land: Landscape, X: Array, cost: Array | None = None) -> Layout:
    """The best kernel for positions."""
    found = np.ascontiguousarray(land.costs(X) if cost is None else cost)
    return Layout(X, found, minimise(found, land.p, land.budget))


def places_to_add(land: Landscape, layout: Layout) -> tuple[Peaks, float]:
    """Places that are worth having, the best first, and a distortion that no set of pseudo values goes below.

    The height of a place is ln c(x), or the share that it saves where the curve has no slope: where nothing may leak,
    one place serves all values; where the budget is for everything, each value has its own.
    """
    from scipy.special import logsumexp

    beta, spent, there = layout.solution.slope, layout.distortion, land.p > 0.0
    p = land.p[there]
    if land.budget > 0.0 and 0.0 < beta < math.inf:
        with np.errstate(divide="ignore"):
            law = np.log(land.p @ layout.solution.kernel)
        # ln z_i, and ln c(x) for costs (m, N)
        levels = logsumexp(law - beta * layout.cost[there], axis=1)
        weights = np.log(p) - levels
        found = peaks(land, lambda costs: logsumexp(weights[:, None] - beta * costs[there], axis=0), 0.0)
        bound = (-float(p @ levels) - max(float(found.heights[0]), 0.0) - land.budget) / beta
        return found, min(spent, bound)
    # which rows share a place
    groups = [np.flatnonzero(there)] if land.budget == 0.0 else np.flatnonzero(there)[:, None]
    best = [peaks(land, partial(_saving, land.p, rows), -math.inf) for rows in groups]
    now = np.array([float((land.p[rows] @ layout.cost[rows]).min()) for rows in groups])
    least = np.minimum(now, [-float(one.heights[0]) for one in best])
    order = np.argsort(least - now)
    X, costs = np.array([best[k].X[0] for k in order]), np.array([best[k].costs[:, 0] for k in order]).T
    return Peaks(X, costs, (now - least)[order] / (spent or 1.0)), min(spent, math.fsum(least))


def _saving(p: Array, rows: Index, costs: Array) -> Array:
    return np.asarray(-(p[rows] @ costs[rows]))


def reach_of_any(land: Landscape, layout: Layout) -> float:
    """What no places go below, as far as the scan tells: places are added to a layout as long as they are of use.

    For a given set of places this is a convex problem, so it ends at what no places improve, and not at what no small
    move improves.
    """
    reach = -math.inf
    for _ in range(2 if land.simulated else _ROUNDS):
        found, bound = places_to_add(land, layout)
        reach = max(reach, bound)
        new, used = found.heights > _WORTH, layout.law > 1e-14
        X = np.concatenate((layout.X[used], found.X[new]))
        more = lay_out(land, X, np.concatenate((layout.cost[:, used], found.costs[:, new]), axis=1))
        if not more.distortion < layout.distortion * (1.0 - 1e-10):
            break
        layout = more
    return reach


def support(land: Landscape, layout: Layout, n: int) -> Array:
    """As many positions as asked for, made of those that a layout draws: close ones are one, rare ones go."""
    law = land.p @ layout.solution.kernel
    order = np.lexsort(layout.X.T[::-1])
    unit = layout.X / np.where(land.box.width > 0.0, land.box.width, 1.0)
    groups: list[list[int]] = []
    for close in (0.1, 0.5, 1.5):  # as shares of what the scan keeps apart
        groups = []
        for j in order[law[order] > 1e-12].tolist():
            near = [g for g in groups if np.abs(unit[g[-1]] - unit[j]).max() <= close * land.spacing]
            if near:
                near[0].append(j)
            else:
                groups.append([j])
        if len(groups) <= n:
            break
    groups.sort(key=lambda g: -float(law[g].sum()))
    X = np.array([law[g] @ layout.X[g] / law[g].sum() for g in groups[:n]])
    spare = land.scan[np.linspace(0, len(land.scan) - 1, n).astype(int)]
    return np.asarray(np.concatenate((X, spare))[:n])


def improve(land: Landscape, layout: Layout) -> tuple[Layout, list[float]]:
    """The layout after a search, never worse, and its distortion after each stage."""
    trace = [layout.distortion]
    for _ in range(_ROUNDS):
        layout = _descend(land, _alternate(land, layout))
        trace.append(layout.distortion)
        if not trace[-1] < trace[-2] - 1e-9 * abs(trace[-2]):
            break
    return layout, trace


def _alternate(land: Landscape, layout: Layout) -> Layout:
    """Each position to the best place of the scan for what it is drawn for, and a new kernel, in turn."""
    usable = np.isfinite(land.scan_costs).all(axis=0)
    for _ in range(_ROUNDS):
        W = land.p[:, None] * layout.solution.kernel
        there = np.where(usable, W.T @ np.where(usable, land.scan_costs, 0.0), math.inf)  # (n, places)
        with np.errstate(invalid="ignore"):
            here = np.where(W > 0.0, W * layout.cost, 0.0).sum(axis=0)
        at = there.argmin(axis=1)
        moved = here - there[np.arange(len(at)), at] > 1e-9 * np.maximum(here, 1e-300)
        X = np.where(moved[:, None], land.scan[at], layout.X)
        new = lay_out(land, X, np.where(moved, land.scan_costs[:, at], layout.cost))
        if not new.distortion < layout.distortion:
            break
        layout = new
    return layout


def _descend(land: Landscape, layout: Layout) -> Layout:
    """Downhill in all positions that are drawn, by the slopes of the costs."""
    from scipy.optimize import minimize

    used = np.flatnonzero(layout.law > 0.0)
    low, width = land.box.low, land.box.width
    if not (width > 0.0).any() or layout.distortion <= 0.0:
        return layout
    best, scale = layout, layout.distortion

    def f(x: Array) -> tuple[float, Array]:
        nonlocal best
        X, cost = layout.X.copy(), layout.cost.copy()
        X[used] = low + np.clip(x.reshape(len(used), -1), 0.0, 1.0) * width
        cost[:, used] = land.costs(X[used])
        now = lay_out(land, X, cost)
        if now.distortion < best.distortion:
            best = now
        slopes = land.slopes(X[used])
        if not np.isfinite(slopes).all():
            return now.distortion / scale, np.zeros(x.size)
        W = land.p[:, None] * now.solution.kernel[:, used]
        return now.distortion / scale, (np.einsum("ij,ijk->jk", W, slopes) * width / scale).ravel()

    start = ((layout.X[used] - low) / np.where(width > 0.0, width, 1.0)).ravel()
    minimize(
        f, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * start.size,
        options={"maxiter": 60, "maxfun": 15 if land.simulated else 90, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return best


def prune(land: Landscape, layout: Layout) -> Layout:
    """Without positions that nothing is lost without: those never drawn, and one of two that are the same; in order."""
    rest = [j for j in np.lexsort(layout.X.T[::-1]).tolist() if layout.law[j] > 0.0]
    best = lay_out(land, layout.X[rest], layout.cost[:, rest])
    for j in sorted(rest, key=layout.law.__getitem__)[: len(rest) - 1]:
        fewer = [i for i in rest if i != j]
        with contextlib.suppress(InfeasibleError):  # forbidden pairs may need the position
            few = lay_out(land, layout.X[fewer], layout.cost[:, fewer])
            if few.distortion <= layout.distortion * (1.0 + 1e-13):
                best, rest = few, fewer
    return best


def snap(land: Landscape, layout: Layout) -> Layout:
    """Positions that are all but a private value, or an end of the set, put there, unless that costs anything."""
    near = _NEAR * np.where(land.box.width > 0.0, land.box.width, 1.0)
    X = layout.X.copy()
    for end in (land.box.low, land.box.high):
        X = np.where(np.abs(X - end) <= near, end, X)
    for own in land.own:
        X = np.where((np.abs(X - own) <= near).all(axis=1, keepdims=True), own, X)
    for j in np.flatnonzero((X != layout.X).any(axis=1)).tolist():
        there = layout.X.copy()
        there[j] = X[j]
        if len(np.unique(there, axis=0)) == len(there):
            new = lay_out(land, there)
            layout = new if new.distortion <= layout.distortion * (1.0 + 1e-14) else layout
    return layout


# The search ---------------------------------------------------------------------------------------------


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
        return f"PseudoSearch({shown}, {100.0 * self.saving:.3g}% less than a grid)"

    def __str__(self) -> str:
        return self.report()

    @property
    def pseudo(self) -> tuple[Place, ...]:
        """The pseudo values found, in order."""
        return tuple(self.positions.tolist() if self.positions.ndim == 1 else map(tuple, self.positions.tolist()))

    @property
    def distortion(self) -> float:
        """That of the design found."""
        return self.design.distortion

    @property
    def saving(self) -> float:
        """By which share the distortion is below that of the uniform grid."""
        return _gain(self.distortion, self.grid.distortion)

    @property
    def saving_over_start(self) -> float:
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
    start: Iterable[ArrayLike] | None = None,
    bounds: ArrayLike | None = None,
    *,
    leakage: float | str,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    starts: int = 4,
    rng: Seed = None,
    progress: Progress | None = None,
    fresh: float = 0.0,
) -> PseudoSearch:
    """Choose the pseudo values of a design from an interval or a box, and the randomizer with them.

    The family must be a function of its parameter. `bounds` is (low, high), or a pair for each coordinate of a box,
    whose values are tuples; by default the range of the private values. `start` are values to begin with, by default a
    uniform grid. `n` values at most are chosen; by default as many as `start` has, or, without it, one more than there
    are private ones: more are never needed. `starts` counts the beginnings at most: the support of the
    best kernel on a fine grid, the start, then random ones, drawn by `rng` (a numpy Generator or a
    seed). `leakage`, `horizon`, `distortion`, `weights`, `accuracy`, `progress` and `fresh` are those of `us.design`.
    Its other demands (`distortion_at_most`, `error_at_least`) and its constraints are not: they are for a `us.design`
    on what is found.

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
    count, first = _start(n, start, len(family.values), box)
    share = as_share(fresh)
    leak = charge(family, horizon, seed, share)
    left = budget if leak is None else leak.left_for_the_draw(budget)
    land = of_family(family, left, box, CostChoices(horizon, distortion, weights, accuracy, seed, share))

    def build(X: Array) -> Design:
        return design(
            family, [box.place(x) for x in X], leakage=leakage, horizon=horizon, distortion=distortion,
            weights=weights, accuracy=accuracy, rng=seed, fresh=share,
        )  # fmt: skip

    return _search(land, count, first, starts, seed, progress, build)


def optimise_positions(
    cost: PlaceFunction,
    values: Iterable[Value],
    bounds: ArrayLike | None = None,
    *,
    leakage: float | str,
    n: int | None = None,
    prior: ArrayLike | None = None,
    start: Iterable[ArrayLike] | None = None,
    gradient: PlaceFunction | None = None,
    starts: int = 4,
    rng: Seed = None,
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
    count, first = _start(n, start, len(private), box)
    land = of_function(cost, private, p, nats(leakage, entropy(p)), box, gradient)

    def build(X: Array) -> Design:
        return solve_demand(np.ascontiguousarray(land.costs(X)), p.copy(), ("leakage", leakage), None, None)

    return _search(land, count, first, starts, rng, progress, build)


def _start(n: int | None, start: Iterable[ArrayLike] | None, m: int, box: Box) -> tuple[int, Array | None]:
    """How many values, and those to begin with, if any, as places (n, k)."""
    first = None
    if start is not None:
        try:
            given = np.array([np.atleast_1d(np.asarray(x, dtype=float)) for x in start])
        except (TypeError, ValueError):
            raise DesignError("start must hold numbers, or tuples of as many as the box has sides") from None
        if given.ndim != 2 or given.shape[1] != box.low.size or not len(given):
            raise DesignError(f"start has the shape {given.shape}; each value has {box.low.size} coordinates")
        outside = ~((given >= box.low) & (given <= box.high)).all(axis=1)
        if outside.any():
            place = box.place(given[int(outside.argmax())])
            raise DesignError(f"start has {place!r}, which is outside of the bounds")
        first = given
    if n is None:
        return (m + 1 if first is None else len(first)), first
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise DesignError(f"n = {n!r}; it must be a whole number of at least 1")
    if first is not None and len(first) > n:
        raise DesignError(f"n = {n}, and start has {len(first)} values; it may have at most n")
    return int(n), first


def _search(
    land: Landscape,
    n: int,
    first: Array | None,
    starts: int,
    rng: Seed,
    progress: Progress | None,
    build: Callable[[Array], Design],
) -> PseudoSearch:
    if isinstance(starts, bool) or not isinstance(starts, (int, np.integer)) or starts < 1:
        raise DesignError(f"starts = {starts!r}; it must be a whole number of at least 1")
    generator = np.random.default_rng(0 if rng is None else rng)
    box, uniform = land.box, land.box.uniform(n)
    begun = uniform if first is None else np.concatenate((first, uniform[: n - len(first)]))
    whole = lay_out(land, land.scan, land.scan_costs)
    reach = -math.inf
    layouts: list[Layout] = []
    traces = []
    for number in range(int(starts)):
        if number < 2:
            X = begun if number else support(land, whole, n)
        else:
            X = box.low + generator.random(begun.shape) * box.width
        layout, trace = improve(land, lay_out(land, X))
        layouts.append(layout)
        traces.append(tuple(trace))
        reach = max(reach, places_to_add(land, layout)[1])
        if number == 0 and layout.distortion > reach * (1.0 + _REACHED):
            # what could be reached with as many values as one likes
            reach = max(reach, reach_of_any(land, min(whole, layout, key=lambda one: one.distortion)))
        if progress is not None:
            progress((number + 1.0) / starts)
        if layout.distortion <= reach * (1.0 + _REACHED):
            break  # nothing is left to gain, from wherever
    if progress is not None:
        progress(1.0)
    least = min(one.distortion for one in layouts)
    # of those that are as good as the best, the one with the fewest values
    equal = [prune(land, one) for one in layouts if one.distortion <= least * (1.0 + _EQUAL)]
    best = snap(land, min(equal, key=lambda one: len(one.X)))
    start, grid, mine = build(begun if first is None else first), build(uniform), build(best.X)
    if not mine.distortion <= start.distortion * (1.0 + _ROUNDING):
        best, mine = lay_out(land, begun if first is None else first), start
    return PseudoSearch(
        mine, np.array(best.X[:, 0] if box.line else best.X), start, grid, whole.distortion,
        min(reach, mine.distortion), len(land.scan), tuple(traces), land.exact_slopes is not None,
    )  # fmt: skip


def _gain(new: float, old: float) -> float:
    return max(0.0, 1.0 - new / old) if old > new * (1.0 + 1e-12) else 0.0
