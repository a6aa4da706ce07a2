"""Expectations over one score: E f(y(z), ~y(z)) with z standard normal, by quadrature.

Two scalar laws driven by one score are two functions of one number, y(z) = F^-1(Phi(z)), so the
expected distortion is an integral over z; for the squared error it is the squared Wasserstein
distance of the laws. The functions are tabulated once a law, on panels of Chebyshev points, and all
pairs are integrated from the tables (Clenshaw and Curtis' rule):

- a panel on which a law is not resolved is halved, for all laws;
- a pair's integrand may still have a corner inside a panel, where the two functions cross; such
  panels are halved for that pair alone, on the polynomials through the tables;
- beyond the last panel the integrand is continued as the power of the tail probability, f ~ p^-alpha,
  that it has on that panel. A tail is a power for a Student law, and then this is exact; if it is
  not, the panels go on until the rest does not matter. With a steady alpha of 1 or more, the integral
  is infinite, and infinity is what comes out.

Every figure comes with an estimate of its error: two rules on every panel, two powers for each
tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import NumericalError, ReadingError
from understudy.laws.base import Array

Values = Callable[[Array], Any]
Integrand = Callable[[Array, Array], Array]

TOLERANCE = 1e-9
"""The relative error that a figure by quadrature may have."""

_N = 32  # intervals of the rule: 33 points, and every other one for the coarse rule
_FIRST = (0.0, 2.5, 5.0, 8.0)
_FURTHER = (11.0, 15.0, 20.0, 27.0, 37.0)
_MOST_PANELS = 300
_NARROWEST = 2.0**-22
_RESOLVED = 1e-10
_CHUNK = 128  # pairs at a time
_HALVINGS = 45
_MOST_ITEMS = 32  # panels in work, a pair
# Beside the readings themselves a difference below this is rounding; its tail is not followed.
_DIGITS = 1e-10
_FAR = 1e6  # and only this many spreads from the median
_LARGEST = 1e150  # a square must fit float64
_INFINITE = 1.0 - 1e-8


def _rule(N: int) -> Array:
    """Weights of the Clenshaw-Curtis rule on N + 1 Chebyshev points, for [-1, 1]."""
    theta = np.pi * np.arange(N + 1) / N
    j = np.arange(1, N // 2 + 1)
    factor = np.where(j == N // 2, 1.0, 2.0) / (4.0 * j * j - 1.0)
    w = (2.0 / N) * (1.0 - np.cos(2.0 * np.outer(theta, j)) @ factor)
    w[[0, -1]] /= 2.0
    return np.asarray(w)


_NODES = -np.cos(np.pi * np.arange(_N + 1) / _N)
_FINE = _rule(_N)
_COARSE = np.zeros(_N + 1)
_COARSE[::2] = _rule(_N // 2)
_BARYCENTRIC = np.where(np.arange(_N + 1) % 2 == 0, 1.0, -1.0)
_BARYCENTRIC[[0, -1]] /= 2.0


def _weights_between() -> Array:
    """What takes the values on every other point to the values on all of them."""
    nodes, w = _NODES[::2], np.where(np.arange(_N // 2 + 1) % 2 == 0, 1.0, -1.0)
    w[[0, -1]] /= 2.0
    return _barycentric(_NODES, nodes, w)


def _barycentric(t: Array, nodes: Array, w: Array) -> Array:
    """The matrices (..., len(t), nodes) that carry values on the nodes to the points t (..., points)."""
    gap = t[..., None] - nodes
    hit = gap == 0.0
    q = w / np.where(hit, 1.0, gap)
    q /= q.sum(axis=-1, keepdims=True)
    return np.where(hit.any(axis=-1, keepdims=True), hit, q)


_BETWEEN = _weights_between()


class Integral(NamedTuple):
    """Integrals with their estimated errors, and the power alpha of the heavier tail of each integrand."""

    value: Array
    error: Array
    power: Array

    def good(self, floor: Any = 0.0) -> Any:
        """Which are known well enough (infinity is)."""
        return np.isinf(self.value) | (self.error <= TOLERANCE * np.abs(self.value) + floor)


class Table:
    """Functions of a score, on panels; a function gives one row of values, or several.

    >>> table = Table([lambda z: z, lambda z: 2.0 * z + 1.0])
    >>> found = table.integrate([0], [1], lambda y, y_out: (y - y_out) ** 2)
    >>> round(float(found.value[0]), 12)
    2.0
    """

    def __init__(self, functions: Sequence[Values]) -> None:
        self._functions = list(functions)
        edges = np.array([-z for z in reversed(_FIRST)] + list(_FIRST[1:]))
        self.left, self.right = edges[:-1], edges[1:]
        parts = [_tabulated(function, _points(self.left, self.right)) for function in self._functions]
        self.rows = [len(part) for part in parts]
        self.values = np.concatenate(parts)  # (rows, panels, points); NaN on a panel where a function fails
        self._refine()
        self.spread = self._spread()
        self.resolved = ~self._unresolved().any(axis=1)

    def integrate(self, first: Any, second: Any, f: Integrand, floor: Any = 0.0) -> Integral:
        """E f(y, ~y) for the rows `first` and `second`, entry by entry; an error below `floor` does not matter."""
        a, b = np.asarray(first, dtype=np.intp), np.asarray(second, dtype=np.intp)
        floor = np.broadcast_to(np.asarray(floor, dtype=float), a.shape)
        found, tails = self._all(a, b, f, floor)
        for edge in _FURTHER:
            short = ~found.good(floor) & (tails > 0.1 * (TOLERANCE * np.abs(found.value) + floor))
            if not short.any():
                break
            self._extend(edge, np.union1d(a[short], b[short]))
            found, tails = self._all(a, b, f, floor)
        return found

    def same(self, a: int, b: int) -> bool:
        """Whether two rows are the same function, to the last bit."""
        return bool(np.array_equal(self.values[a], self.values[b], equal_nan=True))

    # Panels -------------------------------------------------------------------------------------------

    def _spread(self) -> Array:
        """The mean distance of each row from its median, without the tails: the unit of its errors."""
        body = (self.left >= -_FIRST[1]) & (self.right <= _FIRST[1])
        z = _points(self.left[body], self.right[body])
        weight = 0.5 * (self.right - self.left)[body, None] * _FINE * _density(z)
        away = np.abs(self.values[:, body] - self._middle()[:, None, None])
        return np.asarray(np.nansum(away * weight, axis=(1, 2)))

    def _middle(self) -> Array:
        """The median of each row."""
        return np.asarray(self.values[:, np.searchsorted(self.left, 0.0), 0])

    def _unresolved(self) -> Any:
        """Rows and panels where every other point does not tell those between."""
        spread, width = self._spread()[:, None, None], (self.right - self.left)[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            miss = np.abs(self.values - self.values[..., ::2] @ _BETWEEN.T)
            away = np.abs(self.values - self._middle()[:, None, None])
            lost = miss * np.maximum(1.0, away / np.maximum(spread, 1e-300)) * width
            matters = lost * _density(_points(self.left, self.right)) > _RESOLVED * spread
            return (matters & (miss > _RESOLVED * away.max(axis=2, keepdims=True))).any(axis=2)

    def _refine(self) -> None:
        while len(self.left) < _MOST_PANELS:
            width = self.right - self.left
            bad = self._unresolved().any(axis=0) & (width > _NARROWEST)
            bad |= np.isnan(self.values[..., 0]).any(axis=0) & (width > 0.5)
            if not bad.any():
                return
            middle = 0.5 * (self.left + self.right)[bad]
            left, right = np.append(self.left[bad], middle), np.append(middle, self.right[bad])
            fresh = np.concatenate([_tabulated(function, _points(left, right)) for function in self._functions])
            self._replace(~bad, left, right, fresh)

    def _extend(self, edge: float, rows: Any) -> None:
        """One more panel at either end, filled for the functions of these rows alone."""
        if self.right[-1] < edge:
            left, right = np.array([-edge, self.right[-1]]), np.array([self.left[0], edge])
            self._replace(self.left < np.inf, left, right, np.full((len(self.values), 2, _N + 1), np.nan))
        ends = np.flatnonzero((self.left == -edge) | (self.right == edge))
        function_of_row = np.repeat(np.arange(len(self.rows)), self.rows)
        for which in np.unique(function_of_row[rows]):
            of = np.flatnonzero(function_of_row == which)
            if np.isnan(self.values[np.ix_(of, ends)]).all():
                z = _points(self.left[ends], self.right[ends])
                self.values[np.ix_(of, ends)] = _tabulated(self._functions[which], z)

    def _replace(self, kept: Any, left: Array, right: Array, fresh: Array) -> None:
        left, right = np.append(self.left[kept], left), np.append(self.right[kept], right)
        order = np.argsort(left)
        self.left, self.right = left[order], right[order]
        self.values = np.concatenate((self.values[:, kept], fresh), axis=1)[:, order]

    # Integrals ----------------------------------------------------------------------------------------

    def _all(self, a: Any, b: Any, f: Integrand, floor: Array) -> tuple[Integral, Array]:
        parts = [
            self._some(a[at : at + _CHUNK], b[at : at + _CHUNK], f, floor[at : at + _CHUNK])
            for at in range(0, len(a), _CHUNK)
        ]
        value, error, power, tails = (np.concatenate(part) for part in zip(*parts, strict=True))
        error = np.where(self.resolved[a] & self.resolved[b], error, np.inf)
        return Integral(value, error, power), tails

    def _some(self, a: Any, b: Any, f: Integrand, floor: Array) -> tuple[Array, Array, Array, Array]:
        y, y_out = self.values[a], self.values[b]
        z = _points(self.left, self.right)
        known = self._known(a, b)
        F = np.zeros(y.shape)
        F[known] = f(y[known].ravel(), y_out[known].ravel()).reshape(-1, _N + 1)
        weight = 0.5 * (self.right - self.left)[:, None] * _density(z)
        fine, coarse, size = (F * weight) @ _FINE, (F * weight) @ _COARSE, (np.abs(F) * weight) @ _FINE
        tolerance = 0.1 * (TOLERANCE * size.sum(axis=1) + floor)
        error = np.abs(fine - coarse)
        pair, panel = np.nonzero(error > tolerance[:, None] / 8.0)
        if pair.size:
            fine[pair, panel], error[pair, panel] = self._halved(a, b, f, (pair, panel), tolerance)
        total, lost = fine.sum(axis=1), error.sum(axis=1)
        power, tails = np.zeros(len(a)), np.zeros(len(a))
        for side in (-1, 1):
            rest, doubt, alpha = _tail(F, z, known, side)
            with np.errstate(invalid="ignore"):  # inf - inf: a mean that does not exist
                total, tails, power = total + rest, tails + doubt, np.maximum(power, alpha)
        return total, lost + tails, power, tails

    def _known(self, a: Any, b: Any) -> Any:
        """Panels (pairs, panels) on which both functions are known and their difference means something.

        They reach outward from the middle without a break.
        """
        y, y_out, centre = self.values[a], self.values[b], np.searchsorted(self.left, 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            known = (np.maximum(np.abs(y), np.abs(y_out)) < _LARGEST).all(axis=2)
            middle = self._middle()
            away = np.maximum(np.abs(y - middle[a, None, None]), np.abs(y_out - middle[b, None, None]))
            spread = np.maximum(self.spread[a], self.spread[b])[:, None, None]
            blurred = (np.abs(y - y_out) < _DIGITS * away) & (away > _FAR * spread) & (y != y_out)
        known &= ~blurred.any(axis=2)
        right = np.logical_and.accumulate(known[:, centre:], axis=1)
        left = np.logical_and.accumulate(known[:, :centre][:, ::-1], axis=1)[:, ::-1]
        return np.concatenate((left, right), axis=1)

    def _halved(self, a: Any, b: Any, f: Integrand, where: tuple[Any, Any], tolerance: Array) -> tuple[Array, Array]:
        """Integrals over single panels of single pairs, halved where they must be, and their errors."""
        pair, panel = where
        values, errors = np.zeros(len(pair)), np.zeros(len(pair))
        item = np.arange(len(pair))
        low, high = np.full(len(pair), -1.0), np.full(len(pair), 1.0)
        for level in range(_HALVINGS):
            middle = 0.5 * (low + high)
            item = np.concatenate((item, item))
            low, high = np.concatenate((low, middle)), np.concatenate((middle, high))
            fine, error = np.empty((2, len(item)))
            for at in range(0, len(item), 1024):
                some = slice(at, at + 1024)
                fine[some], error[some] = self._item(
                    a, b, f, (pair[item[some]], panel[item[some]], low[some], high[some])
                )
            going = error > 0.02 * tolerance[pair[item]]
            if level == _HALVINGS - 1 or 2 * going.sum() > _MOST_ITEMS * len(pair):
                going[:] = False
            np.add.at(values, item[~going], fine[~going])
            np.add.at(errors, item[~going], error[~going])
            item, low, high = item[going], low[going], high[going]
            if not item.size:
                break
        return values, errors

    def _item(self, a: Any, b: Any, f: Integrand, at: tuple[Any, Any, Array, Array]) -> tuple[Array, Array]:
        """The integral over part of a panel, on the polynomials through the table, and its error."""
        pair, panel, low, high = at
        t = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * _NODES
        carry = _barycentric(t, _NODES, _BARYCENTRIC)
        y = np.einsum("itn,in->it", carry, self.values[a[pair], panel])
        y_out = np.einsum("itn,in->it", carry, self.values[b[pair], panel])
        half = 0.5 * (self.right - self.left)[panel]
        z = (0.5 * (self.right + self.left))[panel][:, None] + half[:, None] * t
        G = f(y.ravel(), y_out.ravel()).reshape(t.shape) * _density(z) * (half * 0.5 * (high - low))[:, None]
        fine = G @ _FINE
        return fine, np.abs(fine - G @ _COARSE)


def _tail(F: Array, z: Array, known: Any, side: int) -> tuple[Array, Array, Array]:
    """What lies beyond the last known panel on one side, the doubt about it, and the power of the tail.

    With f = c p^-alpha, p the tail probability, the rest is f p / (1 - alpha).
    """
    from scipy.special import log_ndtr

    last = (known.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)) if side > 0 else np.argmax(known, axis=1)
    end = z[last, -1 if side > 0 else 0]
    # the panels may be narrow, and a power must show over a good stretch
    goals = end[:, None] * np.array([0.7, 0.8, 0.9, 1.0])
    # (an edge stands in the list twice; the one that belongs to the inner panel is wanted)
    points = np.searchsorted(z.ravel(), goals) if side > 0 else np.searchsorted(z.ravel(), goals, side="right") - 1
    f = F.reshape(len(F), -1)[np.arange(len(F))[:, None], points]
    log_p = log_ndtr(-np.abs(z.ravel()[points]))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_f = np.log(np.abs(f))
        slopes = np.diff(log_f, axis=1) / -np.diff(log_p, axis=1)
        alpha = (log_f[:, 3] - log_f[:, 1]) / (log_p[:, 1] - log_p[:, 3])
        edge = f[:, 3] * np.exp(log_p[:, 3])
        rest, other = edge / (1.0 - alpha), edge / (1.0 - slopes[:, 2])
        steady = np.abs(np.ptp(slopes, axis=1)) < 0.01 * slopes.max(axis=1)
        infinite = steady & (slopes.min(axis=1) > _INFINITE)
        signed = np.copysign(np.inf, f[:, 3])
        doubtful = ~(np.maximum(alpha, slopes[:, 2]) < _INFINITE) & ~infinite
    nothing = ~known.any(axis=1)
    still = f[:, 3] == 0.0
    rest = np.where(still, 0.0, np.where(infinite, signed, np.where(doubtful, 0.0, rest)))
    with np.errstate(invalid="ignore"):  # inf - inf, where the integral is infinite
        doubt = np.where(doubtful, np.inf, np.abs(np.where(infinite, 0.0, rest - other)))
    doubt = np.where(nothing, np.inf, np.where(still | infinite, 0.0, doubt))
    return rest, doubt, np.where(still, 0.0, np.nan_to_num(alpha, nan=0.0, posinf=np.inf, neginf=-np.inf))


def _points(left: Array, right: Array) -> Array:
    """The scores (panels, points) of panels."""
    return np.asarray(0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * _NODES)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))


def _tabulated(function: Values, z: Array) -> Array:
    """Values (rows, panels, points); NaN on every panel where the function fails."""
    try:
        return _asked(function, z)
    except (NumericalError, ReadingError):
        panels: list[Array | None] = []
        for panel in z:
            try:
                panels.append(_asked(function, panel[None, :]))
            except (NumericalError, ReadingError):
                panels.append(None)
    rows = max((len(panel) for panel in panels if panel is not None), default=1)
    failed = np.full((rows, 1, z.shape[1]), np.nan)
    return np.concatenate([failed if panel is None else panel for panel in panels], axis=1)


def _asked(function: Values, z: Array) -> Array:
    values = np.asarray(function(z.ravel()), dtype=float).reshape(-1, *z.shape)
    broken = ~np.isfinite(values).all(axis=2)
    return np.asarray(np.where(broken[..., None], np.nan, values))
