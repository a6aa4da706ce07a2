"""Grids that go where the mass is: for integrals of densities over the whole line.

An even grid is all the quadrature that a smooth density on the line needs: the error of the trapezoid rule
falls faster than any power of the spacing. So the work is to lay the grid. It is `stretched`: even over
the core of the mass, and exponentially stretched from there to where the density has fallen by 45
nats, so that a heavy tail costs a few points only. Where mass lies in several separate places, each has
a grid of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.models.particles import normalised

LogDensity = Callable[[Array], Array]

_CORE, _FAR = 6.0, 45.0  # nats below the highest mass: the ends of the core, and of the grid
OPEN = 30.0
"""An end of a grid that is no deeper than this is not the end."""
_BEND = 4.0  # length of half the core, in units over which the stretch sets in
_MOST_PLACES = 6  # places with a grid of their own; more are taken as one
_FEWEST = 60  # points of such a grid
_COARSE = 81  # points of the grids that only look for the mass
_LOOKS = 40
_WANTED = 23.0  # minus log of the error that a grid may have (1e-10)
FINEST = 8.0
"""A grid is made at most so many times finer than was asked for."""


class Extent(NamedTuple):
    """Where mass lies: the ends of the core, and the ends of all of it."""

    low: float
    high: float
    far_low: float
    far_high: float


class Grid(NamedTuple):
    """Points in increasing order, and the logarithms of the lengths that they stand for."""

    points: Array
    log_cells: Array


def stretched(extent: Extent, count: int) -> Grid:
    """A grid that is even over the core and exponentially stretched beyond.

    x(u) = centre + s (u + exp(u - B) - exp(-u - B)) with u evenly spaced: an analytic map, so that the
    trapezoid rule in u loses nothing.

    >>> grid = stretched(Extent(-1.0, 1.0, -1e6, 1e6), 101)
    >>> bool(abs(grid.points[0] + 1e6) < 1.0), float(grid.points[50])
    (True, 0.0)
    >>> density = 1.0 / (np.pi * (1.0 + grid.points**2))
    >>> round(float((density * np.exp(grid.log_cells)).sum()), 5)
    1.0
    """
    centre, half = 0.5 * (extent.low + extent.high), 0.5 * (extent.high - extent.low)
    s = half / _BEND
    u = np.linspace(-_solved((centre - extent.far_low) / s), _solved((extent.far_high - centre) / s), count)
    right, left = np.exp(u - _BEND), np.exp(-u - _BEND)
    return Grid(centre + s * (u + right - left), np.log(s * (u[1] - u[0]) * (1.0 + right + left)))


def _solved(target: float) -> float:
    """The u with u + exp(u - B) - exp(-u - B) = target >= 0, by Newton's method from the right (convex there)."""
    u = min(target, _BEND + math.log1p(target))
    for _ in range(60):
        right, left = math.exp(u - _BEND), math.exp(-u - _BEND)
        step = (u + right - left - target) / (1.0 + right + left)
        u -= step
        if abs(step) < 1e-12 * (1.0 + u):
            break
    return u


def on_grid(log_density: LogDensity, extents: Sequence[Extent], count: int) -> tuple[Array, Array]:
    """Points and log-weights of a density; `count` points in all, but enough in each place."""
    each = max(-(-count // len(extents)), min(count, _FEWEST))
    grids = [stretched(extent, each) for extent in extents]
    points = np.concatenate([grid.points for grid in grids])
    return points, normalised(log_density(points) + np.concatenate([grid.log_cells for grid in grids]))


# Where the mass is ---------------------------------------------------------------------------------


def extent_of(points: Array, log_weights: Array) -> Extent:
    """Where the mass of a cloud of points lies, by the weights."""
    depth = log_weights.max() - log_weights
    core, whole = points[depth < _CORE], points[depth < _FAR]
    return Extent(float(core.min()), float(core.max()), float(whole.min()), float(whole.max()))


def places_of(points: Array, log_weights: Array) -> list[Extent]:
    """The separate places where the points of a grid, in increasing order, have mass; a cell more on each side.

    >>> x = np.linspace(-20.0, 20.0, 401)
    >>> [(round(e.far_low), round(e.far_high)) for e in places_of(x, -8.0 * (np.abs(x) - 10.0) ** 2)]
    [(-12, -8), (8, 12)]
    """
    heavy = np.flatnonzero(log_weights > log_weights.max() - _FAR)
    # two runs are apart if the cells around them do not touch
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(heavy) > 3)])
    if starts.size > _MOST_PLACES:
        starts = starts[:1]
    out = []
    for run in np.split(heavy, starts[1:]):
        core = run[log_weights[run] > log_weights[run].max() - _CORE]
        ends = [core[0] - 1, core[-1] + 1, run[0] - 1, run[-1] + 1]
        out.append(Extent(*(float(points[min(max(i, 0), points.size - 1)]) for i in ends)))
    return out


def spread(points: Array, log_weights: Array, noise: Extent) -> list[Extent]:
    """The separate places where points plus noise have mass.

    >>> spread(np.array([0.0, 50.0]), np.zeros(2), Extent(-1.0, 1.0, -3.0, 3.0))[1]
    Extent(low=49.0, high=51.0, far_low=47.0, far_high=53.0)
    """
    heavy = np.flatnonzero(log_weights > log_weights.max() - _FAR)
    heavy = heavy[np.argsort(points[heavy], kind="stable")]
    apart = 1 + np.flatnonzero(np.diff(points[heavy]) > noise.far_high - noise.far_low)
    if apart.size >= _MOST_PLACES:
        apart = apart[:0]
    runs = [extent_of(points[run], log_weights[run]) for run in np.split(heavy, apart)]
    return [Extent(*(a + b for a, b in zip(run, noise, strict=True))) for run in runs]


def located(log_density: LogDensity, extent: Extent) -> Extent | None:
    """Where the mass of a density lies, looked for from a guess; None if there is none to be found.

    Coarse grids are laid one after the other: outward while the density is still high at an end, inward
    to where it is. One cell more on each side is kept, since the mass may lie between two points.

    >>> narrow = located(lambda x: -0.5 * ((x - 200.0) / 0.01) ** 2, Extent(-3.0, 3.0, -9.0, 9.0))
    >>> bool(199.8 < narrow.low < 200.0 < narrow.high < 200.2)
    True
    """
    for _ in range(_LOOKS):
        points, cells = stretched(extent, _COARSE)
        mass = log_density(points) + cells
        if not math.isfinite(mass.max()):
            return None
        depth = mass.max() - mass
        places = places_of(points, mass)
        found = Extent(places[0].low, places[-1].high, places[0].far_low, places[-1].far_high)
        # an end that the mass reaches past moves outward by the width of the grid
        width = extent.far_high - extent.far_low
        below, above = (width if depth[end] < OPEN else 0.0 for end in (0, -1))
        if below or above:
            far_low, far_high = extent.far_low - below, extent.far_high + above
            extent = Extent(far_low if below else found.low, far_high if above else found.high, far_low, far_high)
            continue
        settled = found.high - found.low > 0.5 * (extent.high - extent.low)
        extent = found
        if settled:
            break
    return extent


def fineness(log_weights: Array, steps: Array) -> float:
    """How many times more points the grid needs; at least 1, at most `FINEST`.

    `steps` (N - 1,) say how far the centre of a noise moves from one point to the next, in deviations of
    that noise. They count where there is mass. So does the bend of the density itself: log-weights of a
    normal law with deviation s, h apart, have the second difference (h / s)^2.

    The trapezoid rule for a normal law with deviation s and points h apart has the error exp(-2 (pi s / h)^2),
    and errors count by the mass that is there: at d nats below the highest, h / s may be
    pi sqrt(2 / (23 - d)) for an error of 1e-10.

    >>> round(fineness(np.zeros(3), np.array([2.0, 0.1])), 3)
    2.159
    """
    depth = log_weights.max() - log_weights
    weight = np.sqrt(np.maximum(_WANTED - depth, 0.0) / 2.0) / math.pi
    with np.errstate(invalid="ignore"):
        bends = np.sqrt(np.abs(np.diff(log_weights, 2)))
        bent = (bends * weight[1:-1])[np.isfinite(bends)].max(initial=0.0)
    stepped = (steps * np.maximum(weight[1:], weight[:-1])).max(initial=0.0)
    return min(max(1.0, float(bent), float(stepped)), FINEST)
