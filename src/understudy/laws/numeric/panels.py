"""A density of one number in panels, each with a Gauss-Legendre rule that has been seen to be enough.

A panel is halved until both halves together agree with it, the error measured against the smaller of
the two tails that it belongs to: so both tails keep their relative accuracy, down to `FLOOR`. The mass
is added up from both ends for the same reason. What lies between a point and the next edge is
integrated afresh with the same rule, so that nothing is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy.laws.inverse import Look, invert

FLOOR = 1e-16
"""The tail probability down to which panels are used; |z| is 8.2 there."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = 160
_MOST = 20_000
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

Height = Callable[[Array], Array]
Grain = Callable[[Array], Array]


def _matrices() -> tuple[Array, Array]:
    """What takes values at the nodes to integrals of their polynomial from -1 to each node, and to its ends."""
    n = _NODES.size
    legendre = np.polynomial.legendre.legvander(_NODES, n)
    # int_-1^x P_k = (P_{k+1}(x) - P_{k-1}(x)) / (2 k + 1), and coefficient k = (2 k + 1) / 2 sum_i w_i P_k(x_i) f_i
    integral = np.empty((n, n))
    integral[:, 0] = _NODES + 1.0
    for k in range(1, n):
        integral[:, k] = (legendre[:, k + 1] - legendre[:, k - 1]) / (2 * k + 1)
    transform = (np.arange(n) + 0.5)[:, None] * (legendre[:, :n] * _WEIGHTS[:, None]).T
    ends = np.array([[(-1.0) ** k for k in range(n)], [1.0] * n])
    return integral @ transform, (ends @ transform).T


_CUMULATIVE, _ENDS = _matrices()


class Panels:
    """The panels of one density: `height` is its logarithm in the coordinate w, up to a constant.

    >>> normal = Panels(lambda w: -0.5 * w * w, np.linspace(-12.0, 12.0, 9), 1e-9, "it")
    >>> round(math.exp(normal.log_mass) - math.sqrt(2.0 * math.pi), 12)
    0.0
    >>> normal.scores(np.array([-8.0, 0.5])).round(12).tolist()
    [-8.0, 0.5]
    >>> normal.places(np.array([-8.0, 0.5])).round(12).tolist()
    [-8.0, 0.5]
    """

    def __init__(self, height: Height, edges: Array, accuracy: float, name: str, grain: Grain | None = None) -> None:
        self.height = height
        left, right, g, log_mass, log_error = _halved(height, edges, accuracy / 30.0, name, grain)
        self.edges = np.append(left, right[-1])
        self._g = g
        self.log_scale = float(log_mass.max())
        mass = np.exp(log_mass - self.log_scale)
        self.total = float(mass.sum())
        self.below = np.concatenate([[0.0], np.cumsum(mass)])
        self.above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
        self.log_mass = self.log_scale + math.log(self.total)
        self._log_error = log_error
        self._positive(g.max(axis=1) == -np.inf, name)

    def _positive(self, empty: NDArray[np.bool_], name: str) -> None:
        least = FLOOR * self.total
        if empty.any() and (empty & (self.below[:-1] > least) & (self.above[1:] > least)).any():
            raise NumericalError(
                f"{name} is -inf on an interval inside the support: the density must be positive there, or the score "
                "would not increase (a density that underflows is to be computed in log space)"
            )

    @cached_property
    def error(self) -> float:
        """Largest error of a score above the floor: sqrt(pi / 2) times the largest relative error of a tail."""
        error = np.exp(self._log_error - self.log_scale)
        with np.errstate(invalid="ignore"):
            below, above = np.cumsum(error) / self.below[1:], np.cumsum(error[::-1])[::-1] / self.above[:-1]
        half, least = 0.5 * self.total, FLOOR * self.total
        kept = [float(error.sum()) / self.total]
        kept += [*below[(self.below[1:] > least) & (self.below[:-1] < half)]]
        kept += [*above[(self.above[:-1] > least) & (self.above[1:] < half)]]
        return _SQRT_HALF_PI * (max(kept) + kept[0])

    def tails(self, w: Array) -> tuple[Array, Array, Array]:
        """The smaller tail probability at each w inside the edges, its side (-1 or 1), and the height there."""
        j = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, self.edges.size - 2)
        a, b = self.edges[j], self.edges[j + 1]
        left = self.below[j] + self.below[j + 1] < self.total
        start = np.where(left, a, w)
        half = 0.5 * np.where(left, w - a, b - w)
        points = np.concatenate([(start + half)[:, None] + half[:, None] * _NODES, w[:, None]], axis=1)
        g = self.height(points.ravel()).reshape(points.shape) - self.log_scale
        # a sum and not a matrix product, which may round one point and many points differently
        part = half * (np.exp(g[:, :-1]) * _WEIGHTS).sum(axis=1)
        p = (np.where(left, self.below[j], self.above[j + 1]) + part) / self.total
        return p, np.where(left, -1.0, 1.0), g[:, -1] + self.log_scale - self.log_mass

    def scores(self, w: Array) -> Array:
        """Scores of points whose tail is above the floor."""
        from scipy.special import ndtri

        p, side, _ = self.tails(w)
        return np.asarray(-side * ndtri(p))

    @cached_property
    def _knots(self) -> tuple[Array, Array, Array]:
        """Scores of the edges; and places with rough scores, many in a panel, to start a search from."""
        from scipy.special import ndtri

        half = 0.5 * np.diff(self.edges)[:, None]
        part = half * (np.exp(self._g - self.log_scale) @ _CUMULATIVE.T)
        w = 0.5 * (self.edges[:-1] + self.edges[1:])[:, None] + half * _NODES
        low, high = self.below[:-1, None] + part, self.above[:-1, None] - part
        low = np.clip(low, self.below[:-1, None], self.below[1:, None]) / self.total
        high = np.clip(high, self.above[1:, None], self.above[:-1, None]) / self.total
        rough = np.where(low < high, ndtri(low), -ndtri(high)).ravel()
        ends = np.where(self.below < self.above, ndtri(self.below / self.total), -ndtri(self.above / self.total))
        return ends, np.maximum.accumulate(rough), w.ravel()

    def places(self, z: Array) -> Array:
        """The w with score z, inverse of `scores`, for |z| at most that of the floor."""
        from scipy.special import ndtri

        ends, rough, at = self._knots
        j = np.clip(np.searchsorted(ends, z, side="right") - 1, 0, ends.size - 2)

        def look(which: NDArray[np.intp], w: Array) -> Look:
            p, side, g = self.tails(w)
            found = -side * ndtri(p)
            miss = found - z[which]
            # dz/dw = density / phi(z)
            move = -miss * np.exp(-0.5 * found * found - g) / math.sqrt(2.0 * math.pi)
            close = (np.abs(miss) < 1e-7) & (np.abs(move) < 1e-6)
            empty = np.isneginf(g)
            return Look(miss, move, close, empty, empty)

        return invert(look, self.edges[j], self.edges[j + 1], np.interp(z, rough, at))[0]


class _Leaves(NamedTuple):
    """Panels side by side: edges, heights at the nodes, log masses and log errors."""

    left: Array
    right: Array
    g: Array
    log_mass: Array
    log_error: Array

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> _Leaves:
        return _Leaves(*(part[which] for part in self))

    def joined(self, other: _Leaves) -> _Leaves:
        return _Leaves(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def _halved(height: Height, edges: Array, tolerance: float, name: str, grain: Grain | None) -> _Leaves:
    """Panels that are good enough, from left to right."""
    a, b = edges[:-1], edges[1:]
    g = log_mass = np.empty(0)
    done: _Leaves | None = None
    scale = -math.inf
    for _ in range(_LEVELS):
        middle = 0.5 * (a + b)
        left, right = np.stack([a, middle], axis=1).ravel(), np.stack([middle, b], axis=1).ravel()
        if log_mass.size:
            half_g, half_mass = _rule(height, left, right)
        else:  # the first time, panels and halves in one call
            both_g, both_mass = _rule(height, np.concatenate([a, left]), np.concatenate([b, right]))
            (g, half_g), (log_mass, half_mass) = np.split(both_g, [a.size]), np.split(both_mass, [a.size])
        scale = max(scale, float(half_mass.max()))
        pair = np.exp(half_mass - scale).reshape(-1, 2).sum(axis=1)
        error = np.abs(pair - np.exp(log_mass - scale))
        small = error <= tolerance * _smaller_tail(a, pair, scale, done)
        if not small.all() and grain is not None:
            # rounding of the readings: the height changes by this much from one float to the next
            rounding = _span(g) / (b - a) * grain(middle) + 1e-15 * (1.0 + np.abs(log_mass))
            small |= error <= 8.0 * pair * rounding
        small |= (b - a) <= 256.0 * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        with np.errstate(divide="ignore"):
            log_error = np.repeat(np.log(error / np.where(pair > 0.0, pair, 1.0)), 2) + half_mass
        halves, kept = _Leaves(left, right, half_g, half_mass, log_error), np.repeat(small, 2)
        good, going = halves.chosen(kept), halves.chosen(~kept)
        done = good if done is None else done.joined(good)
        if not going.left.size:
            done = done.chosen(np.argsort(done.left))
            suspect = _suspect(done, tolerance, grain)
            if not suspect.any():
                return done
            done, going = done.chosen(~suspect), done.chosen(suspect)
        if going.left.size > _MOST:
            break
        a, b, g, log_mass, _ = going
    raise NumericalError(
        f"{name} cannot be integrated to the accuracy asked for (it jumps or oscillates too often); ask for less"
    )


def _suspect(panels: _Leaves, tolerance: float, grain: Grain | None) -> NDArray[np.bool_]:
    """Panels that do not continue each other.

    A jump, or the slope of a narrow peak, between an edge and the node next to it is seen by neither a panel
    nor its halves. But then the polynomials on both sides of the edge disagree there.
    """
    out = np.zeros(panels.left.size, dtype=bool)
    scale = float(panels.log_mass.max())
    mass, size = np.exp(panels.log_mass - scale), panels.right - panels.left
    wide = np.maximum(size[1:], size[:-1])
    with np.errstate(all="ignore"):
        ends = panels.g @ _ENDS
        here, there = ends[:-1, 1], ends[1:, 0]
        # No node is nearer to an edge than 0.0053 of the panel.
        at_stake = np.abs(np.exp(here - scale) - np.exp(there - scale)) * 0.006 * wide
        tail = np.minimum(np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[::-1][1:])
        torn = (np.abs(here - there) > 1e-8) & (at_stake > tolerance * np.maximum(tail, FLOOR * mass.sum()))
        if torn.any() and grain is not None:
            slope = _span(panels.g) / size
            torn &= np.abs(here - there) > 8.0 * np.maximum(slope[1:], slope[:-1]) * grain(panels.left[1:])
    torn &= wide > 512.0 * np.spacing(np.abs(panels.left[1:]))
    out[:-1] |= torn
    out[1:] |= torn
    return out


def _span(g: Array) -> Array:
    """How much the height changes in each panel, -inf left out."""
    return np.asarray(np.ptp(np.where(np.isfinite(g), g, g.max(axis=1, keepdims=True)), axis=1))


def _rule(height: Height, a: Array, b: Array) -> tuple[Array, Array]:
    """Heights at the nodes of each panel, and the logarithm of its mass."""
    half = 0.5 * (b - a)
    g = height(((0.5 * (a + b))[:, None] + half[:, None] * _NODES).ravel()).reshape(-1, _NODES.size)
    top = g.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return g, top + np.log(np.exp(g - top[:, None]) @ _WEIGHTS) + np.log(half)


def _smaller_tail(a: Array, pair: Array, scale: float, done: _Leaves | None) -> Array:
    """The smaller of the masses up to and from each panel, itself included, but not less than the floor."""
    starts, mass = a, pair
    if done is not None:
        starts, mass = np.concatenate([a, done.left]), np.concatenate([pair, np.exp(done.log_mass - scale)])
    order = np.argsort(starts)
    sorted_mass = mass[order]
    tail = np.empty(starts.size)
    tail[order] = np.minimum(np.cumsum(sorted_mass), np.cumsum(sorted_mass[::-1])[::-1])
    return np.asarray(np.maximum(tail[: a.size], FLOOR * sorted_mass.sum()))
