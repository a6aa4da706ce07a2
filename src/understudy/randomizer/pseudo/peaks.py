"""All peaks of a function over a box, as far as a scan shows them, each looked at closely.

A scan has the function at places all over the box. A place of it that stands above its neighbours has a peak around it,
and the peak may be higher than the place: by about an eighth of the second difference where the function is smooth, by
at most the difference to the neighbours where it has a kink. Peaks that may reach a level are looked at ever more
closely, all of them together, since costs are quicker for many places at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.pseudo.landscape import Landscape

Score = Callable[[Array], Array]  # of costs (m, N), one number for each place

# by effort: how often what is around peaks of a line is divided, and how many parabolas follow; nets in a box
_LINE = ((2, 4), (1, 4), (1, 1))
_NETS = (5, 4, 2)
_PARTS = np.array([0.2, 0.4, 0.6, 0.8])
_MOST = (64, 24, 8)  # peaks that are looked at, the highest first
_FAR = 1e300


class Peaks(NamedTuple):
    """Places (C, k), highest first, what they cost (m, C), and how high they are."""

    X: Array
    costs: Array
    heights: Array


def peaks(land: Landscape, score: Score, level: float) -> Peaks:
    """The highest place of the scan, and all peaks that may be above a level, each as high as it was found to be."""
    if land.low.size > 1:
        at = _chosen(*_cloud(land, _finite(score(land.scanned))), level, land)
        return _climbed(land, score, land.scan[at])
    X, costs = land.scan, land.scanned
    finer, rounds = _LINE[land.effort]
    for _ in range(finer):
        # both sides of every peak divided, so that two peaks of one place come apart
        at = _chosen(*_line(_finite(score(costs))), level, land)
        sides = np.concatenate([X[at] + (X[np.clip(at + k, 0, len(X) - 1)] - X[at]) * _PARTS for k in (-1, 1)])
        new = np.setdiff1d(sides, X)[:, None]
        X, first = np.unique(np.concatenate((X, new)), return_index=True)
        X, costs = X[:, None], np.concatenate((costs, land.costs(new)), axis=1)[:, first]
    at = _chosen(*_line(_finite(score(costs))), level, land)
    gaps = np.diff(X[:, 0], prepend=X[0, 0], append=X[-1, 0])
    radius = np.maximum(gaps[at], gaps[at + 1])
    return _parabolas(land, score, Peaks(X[at], costs[:, at], np.asarray(score(costs[:, at]))), radius, rounds)


def _finite(heights: Array) -> Array:
    return np.nan_to_num(heights, nan=-_FAR, posinf=_FAR, neginf=-_FAR)


def _chosen(heights: Array, local: NDArray[np.bool_], above: Array, level: float, land: Landscape) -> NDArray[np.intp]:
    """The highest place, and those that are peaks and may be above the level, highest first."""
    wanted = local & (above > level)
    wanted[int(heights.argmax())] = True
    at = np.flatnonzero(wanted)
    return at[np.argsort(-heights[at], kind="stable")][: max(8, _MOST[land.effort] // land.low.size**2)]


def _line(heights: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """Heights on a line, which of them stand above both neighbours, and how high the peak around each may be."""
    padded = np.concatenate(([-math.inf], heights, [-math.inf]))
    local = (heights >= padded[:-2]) & (heights >= padded[2:])
    edge = np.concatenate(([heights[0]], heights, [heights[-1]]))
    return heights, local, heights + np.abs(edge[:-2] - heights) + np.abs(edge[2:] - heights)


def _cloud(land: Landscape, heights: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """The same for places of a box: those above all of their nearest neighbours."""
    from scipy.spatial import cKDTree

    width = np.where(land.width > 0.0, land.width, 1.0)
    _, near = cKDTree(land.scan / width).query(land.scan / width, k=min(len(heights), 2 * land.low.size + 2))
    around = heights[near.reshape(len(heights), -1)]
    return heights, heights >= around.max(axis=1), 2.0 * heights - around.min(axis=1)


def _climbed(land: Landscape, score: Score, X: Array) -> Peaks:
    """All places moved uphill at once, by nets, each closer than the one before."""
    costs = land.costs(X)
    found, radius, steps = Peaks(X.copy(), costs, np.asarray(score(costs))), land.spacing, star(land.low.size)
    for _ in range(_NETS[land.effort]):
        found = _higher(land, score, found, radius * np.broadcast_to(steps * land.width, (len(X), *steps.shape)))[0]
        radius *= 0.3
    return _ordered(found)


def _parabolas(land: Landscape, score: Score, found: Peaks, radius: Array, rounds: int) -> Peaks:
    """All places of a line moved at once to the tops of parabolas, through ever closer places."""
    for _ in range(rounds):
        sides = radius[:, None, None] * np.array([[-1.0], [1.0]])
        centre = found.heights
        found, values = _higher(land, score, found, sides)
        with np.errstate(all="ignore"):
            # where the parabola through three places has a top
            top = 0.5 * (values[:, 0] - values[:, 1]) / (values[:, 0] - 2.0 * centre + values[:, 1])
        moved = np.where(np.isfinite(top) & (centre >= values.max(axis=1)), np.clip(top, -1.0, 1.0), 0.0)
        found = _higher(land, score, found, (radius * moved)[:, None, None])[0]
        radius = radius / 6.0
    return _ordered(found)


def _ordered(found: Peaks) -> Peaks:
    order = np.argsort(-found.heights, kind="stable")
    return Peaks(found.X[order], found.costs[:, order], found.heights[order])


def _higher(land: Landscape, score: Score, now: Peaks, steps: Array) -> tuple[Peaks, Array]:
    """Each place or the highest of those a step (C, N, k) away from it; and how high these are, (C, N)."""
    count, k = now.X.shape
    net = np.clip(now.X[:, None, :] + steps, land.low, land.high)
    costs = land.costs(net.reshape(-1, k))
    values = np.asarray(score(costs)).reshape(count, -1)
    row, at = np.arange(count), values.argmax(axis=1)
    better = values[row, at] > now.heights
    X = np.where(better[:, None], net[row, at], now.X)
    costs = np.where(better, costs.reshape(len(costs), count, -1)[:, row, at], now.costs)
    return Peaks(X, costs, np.where(better, values[row, at], now.heights)), values


def star(k: int) -> Array:
    """Steps along and between the axes."""
    from scipy.stats import qmc

    net = 2.0 * qmc.Sobol(k, scramble=False).random_base2(5) - 1.0
    return np.concatenate((np.eye(k), -np.eye(k), net))
