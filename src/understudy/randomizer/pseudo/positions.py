"""Moving pseudo values: kernel and positions in turn, until neither has anything to gain.

For given positions the best kernel P is a convex problem, and for a given kernel every position is a small problem of
its own: the least of sum_i p_i P_ij L(theta_i, x) over x. To alternate between the two never makes anything worse. What
the optimum gains by moving position j is, by the envelope theorem, just what the fixed kernel gains::

    d D / d x_j = sum_i p_i P_ij dL(theta_i, x_j) / dx

so a quasi-Newton method with these slopes takes over where they exist. A place that is worth having has ::

    c(x) = sum_i p_i exp(-beta L(theta_i, x)) / z_i > 1,        z_i = sum_j q_j exp(-beta L_ij)

(beta the slope of the curve, q the law of the draw): values of no use move there. Where c(x) <= 1 everywhere no
further value helps, and (F - ln max c - I_0) / beta bounds what any set of values can reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.pseudo.landscape import Landscape
from understudy.randomizer.pseudo.peaks import Peaks, peaks, star
from understudy.randomizer.solver import Solution, bounds_of, minimise

_ROUNDS = 12
_SAME = 1e-7  # of the width: closer positions are one
_WORTH = 1e-10  # of ln c over 0, for a place to be tried
_NEAR = 1e-6  # of the width: what is so close to a private value or an end may be meant to be it
_GENERATED = (10, 5, 2)  # rounds of new places, by effort
_NETS = ((9, 17), (5, 9), (2, 9))  # how often a place is looked at more closely, and at how many places; by effort
_RARE = 1e-6  # of all draws: what comes more rarely may be left out, if nothing is lost


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


def laid_out(land: Landscape, X: Array, cost: Array | None = None) -> Layout:
    """The best kernel for positions."""
    found = np.ascontiguousarray(land.costs(X) if cost is None else cost)
    return Layout(X, found, minimise(found, land.p, land.budget))


def improved(land: Landscape, start: Layout, told: Callable[[float], None] | None = None) -> tuple[Layout, list[float]]:
    """The layout after a search from `start`, never worse, and its distortion after each stage."""
    best, trace = start, [start.distortion]
    for _ in range(_ROUNDS):
        before = best.distortion
        best = _filled(land, _descended(land, _alternated(land, best)))
        trace.append(best.distortion)
        if told is not None:
            told(best.distortion)
        if not best.distortion < before - 1e-9 * abs(before):
            break
    return best, trace


def pruned(land: Landscape, layout: Layout) -> Layout:
    """Without positions that are never drawn, or are the same as another; never worse."""
    for least in (0.0, _RARE):
        used = layout.law > least
        used[_twins(land, layout.X, used)] = False
        few = laid_out(land, layout.X[used], layout.cost[:, used]) if used.any() else layout
        if few.distortion <= layout.distortion * (1.0 + 1e-13):
            layout = few
    order = np.lexsort(layout.X.T[::-1])
    kernel = np.ascontiguousarray(layout.solution.kernel[:, order])
    return Layout(layout.X[order], layout.cost[:, order], layout.solution._replace(kernel=kernel))


def snapped(land: Landscape, layout: Layout) -> Layout:
    """Positions that are all but a private value, or an end of the set, put there, unless that costs anything."""
    near = _NEAR * np.where(land.width > 0.0, land.width, 1.0)
    X = layout.X.copy()
    for end in (land.low, land.high):
        X = np.where(np.abs(X - end) <= near, end, X)
    for own in land.own:
        X = np.where((np.abs(X - own) <= near).all(axis=1, keepdims=True), own, X)
    moved = np.flatnonzero((X != layout.X).any(axis=1))
    for some in (moved, *(moved[k : k + 1] for k in range(len(moved)))):
        there = layout.X.copy()
        there[some] = X[some]
        if np.array_equal(there, layout.X) or len(np.unique(there, axis=0)) < len(there):
            continue
        new = laid_out(land, there)
        if new.distortion <= layout.distortion * (1.0 + 1e-14):
            layout = new
    return layout


def generated(land: Landscape, whole: Layout) -> Layout:
    """The best kernel on as many places as are of use: those of a layout, and then wherever c(x) is above 1.

    For a given set of places this is a convex problem, so it ends at what no places improve, and not at what no small
    move improves.
    """
    for _ in range(_GENERATED[land.effort]):
        used = whole.law > 1e-14
        found = dearest(land, whole)
        new = found.heights > _WORTH
        if not new.any():
            break
        X = np.concatenate((whole.X[used], found.X[new]))
        next_one = laid_out(land, X, np.concatenate((whole.cost[:, used], found.costs[:, new]), axis=1))
        if not next_one.distortion < whole.distortion * (1.0 - 1e-10):
            break
        whole = next_one
    return whole


def supported(land: Landscape, whole: Layout, n: int) -> Array:
    """As many positions as asked for, made of those that a layout draws: close ones are one, rare ones go."""
    law = land.p @ whole.solution.kernel
    order = np.lexsort(whole.X.T[::-1])
    for close in (0.1, 0.5, 1.5):  # as shares of what the scan keeps apart
        groups: list[list[int]] = []
        for j in order[law[order] > 1e-12].tolist():
            near = [g for g in groups if _apart(land, whole.X[g[-1]], whole.X[j]) <= close * land.spacing]
            if near:
                near[0].append(j)
            else:
                groups.append([j])
        if len(groups) <= n:
            break
    groups.sort(key=lambda g: -float(law[g].sum()))
    X = np.array([law[g] @ whole.X[g] / law[g].sum() for g in groups[:n]])
    spare = land.scan[np.linspace(0, len(land.scan) - 1, n).astype(int)]
    return np.asarray(np.concatenate((X, spare))[:n])


def reach(land: Landscape, layout: Layout) -> float:
    """A distortion that no set of pseudo values goes below, as far as the places that were looked at tell."""
    beta = layout.solution.slope
    if beta == math.inf and land.budget > 0.0:
        # every row its own best place
        least = [-float(peaks(land, partial(_minus, i), -math.inf).heights[0]) for i in range(len(land.p))]
        return min(layout.distortion, math.fsum(land.p * np.minimum(least, layout.cost.min(axis=1))))
    top = float(dearest(land, layout).heights[0])
    if not 0.0 < beta < math.inf:
        return layout.distortion * (1.0 - max(top, 0.0)) if beta == 0.0 else layout.distortion
    F = -float(land.p @ _levels(land, layout))
    return min(layout.distortion, (F - max(top, 0.0) - land.budget) / beta)


def _minus(i: int, costs: Array) -> Array:
    return np.asarray(-costs[i])


# Positions for a kernel ------------------------------------------------------------------------------


def _alternated(land: Landscape, layout: Layout) -> Layout:
    """Each position to the best place of the scan for what it is drawn for, and a new kernel, in turn."""
    for _ in range(_ROUNDS):
        W = land.p[:, None] * layout.solution.kernel
        usable = np.isfinite(land.scanned).all(axis=0)
        there = np.where(usable, W.T @ np.where(usable, land.scanned, 0.0), math.inf)  # (n, places)
        with np.errstate(invalid="ignore"):
            here = np.where(W > 0.0, W * layout.cost, 0.0).sum(axis=0)
        at = there.argmin(axis=1)
        gain = here - there[np.arange(len(at)), at]
        moved = gain > 1e-9 * np.maximum(here, 1e-300)
        if not moved.any():
            break
        X = np.where(moved[:, None], land.scan[at], layout.X)
        new = laid_out(land, X, np.where(moved, land.scanned[:, at], layout.cost))
        if not new.distortion < layout.distortion:
            break
        layout = new
    return layout


def _descended(land: Landscape, layout: Layout) -> Layout:
    """Downhill in all positions that are drawn: by slopes, or, without them, position by position."""
    if not (land.width > 0.0).any() or layout.distortion <= 0.0:
        return layout
    return _quasi_newton(land, layout, np.flatnonzero(layout.law > 0.0)) if land.sloped else _zoomed(land, layout)


def _quasi_newton(land: Landscape, layout: Layout, used: Any) -> Layout:
    from scipy.optimize import minimize

    best, scale = layout, layout.distortion
    shape = (len(used), land.low.size)

    def f(x: Array) -> tuple[float, Array]:
        nonlocal best
        X = layout.X.copy()
        X[used] = land.low + np.clip(x.reshape(shape), 0.0, 1.0) * land.width
        cost = layout.cost.copy()
        cost[:, used] = land.costs(X[used])
        now = laid_out(land, X, cost)
        if now.distortion < best.distortion:
            best = now
        slopes = land.slopes(X[used])
        if slopes is None or not np.isfinite(slopes).all():
            return now.distortion / scale, np.zeros(x.size)
        W = land.p[:, None] * now.solution.kernel[:, used]
        return now.distortion / scale, (np.einsum("ij,ijk->jk", W, slopes) * land.width / scale).ravel()

    start = ((layout.X[used] - land.low) / np.where(land.width > 0.0, land.width, 1.0)).ravel()
    minimize(
        f, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * start.size,
        options={"maxiter": 60, "maxfun": 90, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return best


def _zoomed(land: Landscape, layout: Layout) -> Layout:
    """Without slopes: every position searched for around where it is, ever more closely, kernel after kernel."""
    radius = land.spacing
    rounds, last = (4, 1e-2) if land.effort == 2 else (24, 1e-7)
    for _ in range(rounds):
        W = land.p[:, None] * layout.solution.kernel
        used = np.flatnonzero(layout.law > 0.0)
        X = layout.X.copy()
        for j in used:
            X[j] = _least(land, partial(np.matmul, W[:, j]), X[j], radius)[0]
        new = laid_out(land, X)
        if new.distortion < layout.distortion * (1.0 - 1e-12):
            layout = new
        else:
            radius /= 8.0
        if radius < last:
            break
    return layout


def _least(land: Landscape, f: Callable[[Array], Array], x: Array, radius: float) -> tuple[Array, float]:
    """The place of the least value of a function of the costs, close to x: nets, each closer than the one before."""
    value = float(f(land.costs(x[None, :]))[0])
    zooms, ray = _NETS[land.effort]
    for _ in range(zooms):
        steps = np.linspace(-1.0, 1.0, ray)[:, None] if x.size == 1 else star(x.size)
        net = np.clip(x + radius * steps * land.width, land.low, land.high)
        values = f(land.costs(net))
        at = int(np.argmin(values))
        if values[at] < value:
            x, value = net[at], float(values[at])
        radius /= 0.4 * ray
    return x, value


# Places that are worth having ------------------------------------------------------------------------


def _filled(land: Landscape, layout: Layout) -> Layout:
    """Positions that are of no use moved to where they are."""
    for _ in range(len(layout.X) + 1):
        used = layout.law > 0.0
        twins = _twins(land, layout.X, used)
        used[twins] = False
        idle = np.flatnonzero(~used)
        if not idle.size:
            break
        found = dearest(land, layout)
        count = min(int((found.heights > _WORTH).sum()), idle.size)
        if not count:
            break
        X, cost = layout.X.copy(), layout.cost.copy()
        X[idle[:count]], cost[:, idle[:count]] = found.X[:count], found.costs[:, :count]
        new = laid_out(land, X, cost)
        if not new.distortion < layout.distortion * (1.0 - 1e-13):
            break
        layout = new
    return layout


def dearest(land: Landscape, layout: Layout) -> Peaks:
    """Places that are worth having, the best first, with ln c(x), or what each saves where the curve has no slope."""
    beta, p = layout.solution.slope, land.p
    if 0.0 < beta < math.inf:
        a = _levels(land, layout)

        def worth(costs: Array) -> Array:
            x = np.where(p[:, None] > 0.0, -beta * costs - a[:, None], -math.inf)
            top = np.maximum(x.max(axis=0), -1e300)
            with np.errstate(divide="ignore"):
                return np.asarray(top + np.log(p @ np.exp(x - top)))

        return peaks(land, worth, 0.0)
    least, spent = layout.cost.min(axis=1), layout.distortion

    def saving(costs: Array) -> Array:
        if beta == 0.0:  # one place for all
            return np.asarray(spent - p @ costs) / (spent or 1.0)
        return np.asarray(p @ np.maximum(least[:, None] - costs, 0.0)) / (spent or 1.0)

    return peaks(land, saving, 0.0)


def _levels(land: Landscape, layout: Layout) -> Array:
    """The ln z_i at the law of the draw."""
    beta = layout.solution.slope
    law = land.p @ layout.solution.kernel
    with np.errstate(divide="ignore"):
        x = np.log(law) - beta * layout.cost
    top = x.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(x - top).sum(axis=1)))


def _twins(land: Landscape, X: Array, used: NDArray[np.bool_]) -> list[int]:
    """Positions that another one before them, also used, is the same as."""
    found: list[int] = []
    for j in np.flatnonzero(used).tolist():
        if any(i < j and i not in found and _apart(land, X[i], X[j]) < _SAME for i in np.flatnonzero(used)):
            found.append(j)
    return found


def _apart(land: Landscape, x: Array, y: Array) -> float:
    width = np.where(land.width > 0.0, land.width, 1.0)
    return float(np.abs((x - y) / width).max())
