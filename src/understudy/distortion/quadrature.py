"""Expectations over one score: E f(y(z), ~y(z)) with z standard normal, by quadrature or as a finite sum.

Two scalar laws driven by one score are two functions of one number, y(z) = F^-1(Phi(z)). The expected distortion is an
integral over z; for the squared error it is the squared Wasserstein distance of the laws. A `Table` holds the functions
of all laws on panels of Chebyshev points, and integrates all pairs by the rule of Clenshaw and Curtis:

- a panel on which a law is not resolved is halved, for all laws;
- a pair's integrand may still have a corner inside a panel, where the two functions cross; such panels are halved for
  that pair alone, on the polynomials through the tables;
- beyond the last panel the integrand is continued as the power of the tail probability, f ~ p^-alpha, that it has on
  that panel. For a Student law this is exact; otherwise the panels go on until the rest does not matter. With a steady
  alpha of 1 or more the integral is infinite.

The error of every figure is estimated by two rules on every panel and two powers for each tail. For a function of the
user's own that may mean nothing: it can be zero at all points of a panel, and one between two of them. Such a function
is looked at closely. Panels are cut into pieces of about 1/100, with a rule for each, and its values at random places
of each piece (always the same ones) are compared with the polynomial through the points of the rule. Pieces that fail
are halved; if halving does not show what the random place did, the miss is the error, and the figure is not good.

`Laws` holds distinct laws in one table, and the moments of noise that is not Gaussian: e = level + scale eps and, for
each channel of a pair, kappa = 1 - E eps ~eps = E (eps - ~eps)^2 / 2. The squared error of linear models needs no more.

Laws with finitely many values are two staircases under one score. Where neither takes a step both readings are known,
so E d(y, ~y) is a sum over the intervals between the steps of either (`together`). It is exact whether the score is
drawn or comes from a reading and an auxiliary uniform, which puts the score of an atom anywhere in its interval.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Index, Mask, Numbers
from understudy.distortion.exact import Linear
from understudy.errors import NumericalError, ReadingError
from understudy.laws.atoms import Atoms, intervals
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent
from understudy.laws.scalar import Shifted

# Expectations over one score: E f(y(z), ~y(z)) with z standard normal, by quadrature -----------------


Values = Callable[[Array], ArrayLike]
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
_PIECES = 1536  # that all panels together are cut into where an integrand is looked at closely
_RANDOM = 16  # random places, a piece


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


def _barycentric(t: Array, nodes: Array = _NODES) -> Array:
    """The matrices (..., len(t), nodes) that carry values on Chebyshev nodes to the points t (..., points)."""
    w = np.where(np.arange(len(nodes)) % 2 == 0, 1.0, -1.0)
    w[[0, -1]] /= 2.0
    gap = t[..., None] - nodes
    hit = gap == 0.0
    q = w / np.where(hit, 1.0, gap)
    q /= q.sum(axis=-1, keepdims=True)
    return np.where(hit.any(axis=-1, keepdims=True), hit, q)


# what takes the values on every other point to the values on all of them
_BETWEEN = _barycentric(_NODES, _NODES[::2])


@cache
def _cut(pieces: int) -> tuple[Array, Array, Array]:
    """A panel in pieces: places (pieces, points) in [-1, 1], matrices from panel to places, from rule to random ones.

    The places of a piece are the points of its rule, then the random ones.
    """
    own = np.random.default_rng(pieces).uniform(-1.0, 1.0, (pieces, _RANDOM))
    inside = np.concatenate((np.tile(_NODES, (pieces, 1)), own), axis=1)
    t = -1.0 + (2.0 * np.arange(pieces)[:, None] + 1.0 + inside) / pieces
    return t, _barycentric(t.ravel()), _barycentric(own)


class Integral(NamedTuple):
    """Integrals with their estimated errors, and the power alpha of the heavier tail of each integrand."""

    value: Array
    error: Array
    power: Array

    def good(self, floor: Numbers = 0.0) -> Mask:
        """Which are known well enough (infinity is)."""
        return np.asarray(np.isinf(self.value) | (self.error <= TOLERANCE * np.abs(self.value) + floor))


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
        self.resolved: Mask = np.asarray(~self._unresolved().any(axis=1))

    def integrate(
        self, first: ArrayLike, second: ArrayLike, f: Integrand, floor: Numbers = 0.0, closely: bool = False
    ) -> Integral:
        """E f(y, ~y) for the rows `first` and `second`, entry by entry; an error below `floor` does not matter.

        An `f` of which nothing is known has to be looked at `closely`.
        """
        a, b = np.asarray(first, dtype=np.intp), np.asarray(second, dtype=np.intp)
        floor = np.broadcast_to(np.asarray(floor, dtype=float), a.shape)
        found, tails = self._all(a, b, f, floor, closely)
        for edge in _FURTHER:
            short = ~found.good(floor) & (tails > 0.1 * (TOLERANCE * np.abs(found.value) + floor))
            if not short.any():
                break
            self._extend(edge, np.union1d(a[short], b[short]))
            again, tails[short] = self._all(a[short], b[short], f, floor[short], closely)
            for part, new in zip(found, again, strict=True):
                part[short] = new
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

    def _unresolved(self) -> Mask:
        """Rows and panels where every other point does not tell those between."""
        spread, width = self._spread()[:, None, None], (self.right - self.left)[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            miss = np.abs(self.values - self.values[..., ::2] @ _BETWEEN.T)
            away = np.abs(self.values - self._middle()[:, None, None])
            lost = miss * np.maximum(1.0, away / np.maximum(spread, 1e-300)) * width
            matters = lost * _density(_points(self.left, self.right)) > _RESOLVED * spread
            return np.asarray((matters & (miss > _RESOLVED * away.max(axis=2, keepdims=True))).any(axis=2))

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

    def _extend(self, edge: float, rows: Index) -> None:
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

    def _replace(self, kept: Mask, left: Array, right: Array, fresh: Array) -> None:
        left, right = np.append(self.left[kept], left), np.append(self.right[kept], right)
        order = np.argsort(left)
        self.left, self.right = left[order], right[order]
        self.values = np.concatenate((self.values[:, kept], fresh), axis=1)[:, order]

    # Integrals ----------------------------------------------------------------------------------------

    def _all(self, a: Index, b: Index, f: Integrand, floor: Array, closely: bool) -> tuple[Integral, Array]:
        parts = [
            self._some(a[at : at + _CHUNK], b[at : at + _CHUNK], f, floor[at : at + _CHUNK], closely)
            for at in range(0, len(a), _CHUNK)
        ]
        value, error, power, tails = (np.concatenate(part) for part in zip(*parts, strict=True))
        error = np.where(self.resolved[a] & self.resolved[b], error, np.inf)
        return Integral(value, error, power), tails

    def _some(self, a: Index, b: Index, f: Integrand, floor: Array, closely: bool) -> tuple[Array, Array, Array, Array]:
        y, y_out = self.values[a], self.values[b]
        z = _points(self.left, self.right)
        known = self._known(a, b)
        F = np.zeros(y.shape)
        F[known] = f(y[known].ravel(), y_out[known].ravel()).reshape(-1, _N + 1)
        total, lost = self._pieces(a, b, f, floor, known) if closely else self._panels(a, b, f, floor, F)
        power, tails = np.zeros(len(a)), np.zeros(len(a))
        for side in (-1, 1):
            rest, doubt, alpha = _tail(F, z, known, side)
            with np.errstate(invalid="ignore"):  # inf - inf: a mean that does not exist
                total, tails, power = total + rest, tails + doubt, np.maximum(power, alpha)
        return total, lost + tails, power, tails

    def _panels(self, a: Index, b: Index, f: Integrand, floor: Array, F: Array) -> tuple[Array, Array]:
        """Integrals over all panels, from the values F of f on them, and their errors."""
        weight = 0.5 * (self.right - self.left)[:, None] * _density(_points(self.left, self.right))
        fine, error = _both_rules(F * weight)
        tolerance = 0.1 * (TOLERANCE * ((np.abs(F) * weight) @ _FINE).sum(axis=1) + floor)
        pair, panel = np.nonzero(error > tolerance[:, None] / 8.0)
        if pair.size:
            whole = np.full(len(pair), -1.0), np.full(len(pair), 1.0)
            fine[pair, panel], error[pair, panel] = self._halved(a, b, f, (pair, panel, *whole), tolerance)
        return fine.sum(axis=1), error.sum(axis=1)

    def _pieces(self, a: Index, b: Index, f: Integrand, floor: Array, known: Mask) -> tuple[Array, Array]:
        """Integrals over all known panels, each cut into pieces, and their errors."""
        pieces = max(1, _PIECES // len(self.left))
        t, carry, across = _cut(pieces)
        half, middle = (0.5 * (self.right + sign * self.left)[:, None, None] for sign in (-1.0, 1.0))
        weight = _density(middle + half * t) * (half / pieces)
        values = {row: (self.values[row] @ carry.T).reshape(weight.shape) for row in np.union1d(a, b).tolist()}
        low = -1.0 + 2.0 * np.arange(pieces) / pieces
        total, lost = np.zeros((2, len(a)))
        for p, there in enumerate(known):
            y, y_out = values[int(a[p])][there], values[int(b[p])][there]
            G = f(y.ravel(), y_out.ravel()).reshape(y.shape) * weight[there]
            rule, random = G[..., : _N + 1], G[..., _N + 1 :]
            fine, error = _both_rules(rule)
            miss = np.abs(random - (across @ rule[..., None])[..., 0]).max(axis=2)
            allowed = 0.1 * (TOLERANCE * float((np.abs(rule) @ _FINE).sum()) + floor[p])
            worse = np.maximum(error, miss) > 0.02 * allowed
            total[p], lost[p] = fine[~worse].sum(), error[~worse].sum()
            if worse.any():
                panel, piece = np.nonzero(worse)
                where = np.full(len(piece), p), np.flatnonzero(there)[panel], low[piece], low[piece] + 2.0 / pieces
                better, doubt = self._halved(a, b, f, where, np.full(len(a), allowed))
                # what a random place saw and halving did not find is still there
                blind = (error[worse] <= 0.02 * allowed) & (np.abs(better - fine[worse]) <= allowed)
                total[p] += better.sum()
                lost[p] += np.where(blind, np.maximum(doubt, miss[worse]), doubt).sum()
        return total, lost

    def _known(self, a: Index, b: Index) -> Mask:
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

    def _halved(
        self, a: Index, b: Index, f: Integrand, where: tuple[Index, Index, Array, Array], tolerance: Array
    ) -> tuple[Array, Array]:
        """Integrals over parts of single panels of single pairs, halved where they must be, and their errors."""
        pair, panel, low, high = where
        values, errors = np.zeros(len(pair)), np.zeros(len(pair))
        item = np.arange(len(pair))
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

    def _item(self, a: Index, b: Index, f: Integrand, at: tuple[Index, Index, Array, Array]) -> tuple[Array, Array]:
        """The integral over part of a panel, on the polynomials through the table, and its error."""
        pair, panel, low, high = at
        t = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * _NODES
        carry = _barycentric(t)
        y = np.einsum("itn,in->it", carry, self.values[a[pair], panel])
        y_out = np.einsum("itn,in->it", carry, self.values[b[pair], panel])
        half = 0.5 * (self.right - self.left)[panel]
        z = (0.5 * (self.right + self.left))[panel][:, None] + half[:, None] * t
        G = f(y.ravel(), y_out.ravel()).reshape(t.shape) * _density(z) * (half * 0.5 * (high - low))[:, None]
        return _both_rules(G)


def _both_rules(G: Array) -> tuple[Array, Array]:
    """Integrals of values on the points of a rule, and how far the coarser rule is from them."""
    fine = G @ _FINE
    return fine, np.abs(fine - G @ _COARSE)


def _tail(F: Array, z: Array, known: Mask, side: int) -> tuple[Array, Array, Array]:
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


# Laws as functions of one score, and the moments of noise that is not Gaussian -----------------------


FLOOR = 1e-13
"""In units of the laws: an error that is rounding."""


class Laws:
    """Distinct laws of d independent channels, tabulated together; None is the standard normal law.

    >>> import understudy as us
    >>> laws = Laws([us.Gaussian(3.0, 4.0), None], 1)
    >>> laws.means.round(9).tolist(), laws.variances.round(9).tolist()
    ([3.0, 0.0], [4.0, 1.0])
    """

    def __init__(self, laws: Iterable[Law | None], d: int) -> None:
        self.dim = d
        self._kept = list(laws)  # an id stands for a law only while the law lives
        functions: list[Values] = []
        self._place: dict[int, int] = {}
        seen: dict[bytes | int | None, int] = {}
        for law in self._kept:
            key = _key(law)
            if key not in seen:
                seen[key] = len(functions)
                functions.append(_values(law, d))
            self._place[id(law)] = seen[key] * d
        self.table = Table(functions)

    def rows(self, laws: Iterable[Law | None]) -> Index:
        """The rows (laws, d) of these laws in the table."""
        return np.array([self._place[id(law)] for law in laws], dtype=np.intp)[:, None] + np.arange(self.dim)

    @cached_property
    def sizes(self) -> Integral:
        """The mean absolute value of each row."""
        rows = np.arange(len(self.table.values))
        return self.table.integrate(rows, rows, _size)

    @cached_property
    def means(self) -> Array:
        """The mean of each row; NaN where there is none, or none is found."""
        rows, size = np.arange(len(self.table.values)), self.sizes
        # a mean may be zero, and is judged beside the mean size
        allowed = np.where(np.isfinite(size.value), TOLERANCE * size.value, 0.0) + FLOOR * self.table.spread
        mean = self.table.integrate(rows, rows, _itself, allowed)
        there = np.isfinite(size.value) & size.good(allowed) & mean.good(allowed)
        return np.where(there, mean.value, np.nan)

    @cached_property
    def variances(self) -> Array:
        """The variance of each row; NaN where none is found."""
        found = np.full(len(self.means), np.nan)
        for row, mean in enumerate(self.means):
            about = 0.0 if np.isnan(mean) else float(mean)
            square = self.table.integrate([row], [row], _squared_from(about))
            # an infinite square is infinite about every point; a finite one needs the mean
            if square.good()[0] and (np.isinf(square.value[0]) or not np.isnan(mean)):
                found[row] = square.value[0]
        return found


class Noise(NamedTuple):
    """What is known of the noises of some sources and some targets, d channels each."""

    level: Array  # (models, d), the sources first; 0 where there is none
    scale: Array  # (models, d); 1 where there is none
    kappa: Array | None  # (d, sources, targets); None where all are 0
    error: Array  # (sources, targets), of the moments, relative
    usable: Mask  # (sources, targets): the moments exist and are known
    heavy: Mask  # (sources, targets): the moment that the measure needs is infinite
    cancels: Mask  # (sources, targets): the noises are the same, and enter alike


def noise_of(laws: Laws, sources: list[Linear], targets: list[Linear], squared: bool) -> Noise:
    """The moments; second ones only if the squared error is asked for."""
    m, n = len(sources), len(targets)
    rows = laws.rows([form.law for form in [*sources, *targets]])
    level, scale = np.nan_to_num(laws.means[rows], nan=0.0), np.ones(rows.shape)
    alike = np.array([[_enter_alike(a, b) for b in targets] for a in sources])
    same = np.array([[_same(laws.table, rows[i], rows[m + j]) for j in range(n)] for i in range(m)])
    if not squared:
        heavy: Mask = np.asarray(np.isinf(laws.sizes.value[rows]).any(axis=1))
        none = np.zeros((m, n), dtype=bool)
        return Noise(level, scale, None, np.zeros((m, n)), none, heavy[:m, None] | heavy[m:], alike & same)
    variances = laws.variances[rows]
    usable: Mask = np.asarray(np.isfinite(variances).all(axis=1))
    scale[usable] = np.sqrt(variances[usable])
    heavy = np.asarray(np.isinf(variances).any(axis=1))
    both, either = usable[:m, None] & usable[m:], heavy[:m, None] | heavy[m:]
    kappa, error = _kappa(laws.table, rows, (level, scale), m, both)
    return Noise(level, scale, kappa, error, both & (error <= TOLERANCE), either, alike & same)


def _kappa(table: Table, rows: Index, units: tuple[Array, Array], m: int, usable: Mask) -> tuple[Array | None, Array]:
    level, scale = units
    d, n = rows.shape[1], len(rows) - m
    kappa, error = np.zeros((d, m, n)), np.zeros((m, n))
    done: dict[tuple[int, int], tuple[float, float]] = {}
    for i, j in np.argwhere(usable):
        for channel in range(d):
            pair = (int(rows[i, channel]), int(rows[m + j, channel]))
            if pair not in done:
                done[pair] = _one_kappa(table, pair, level[[i, m + j], channel], scale[[i, m + j], channel])
            kappa[channel, i, j] = done[pair][0]
            error[i, j] += done[pair][1]
    return (kappa if kappa.any() else None), error


def _one_kappa(table: Table, rows: tuple[int, int], level: Array, scale: Array) -> tuple[float, float]:
    if _same(table, rows[:1], rows[1:]):
        return 0.0, 0.0
    (a, b), (s, t) = level.tolist(), scale.tolist()

    def half_square(y: Array, y_out: Array) -> Array:
        return np.asarray(0.5 * ((y - a) / s - (y_out - b) / t) ** 2)

    found = table.integrate([rows[0]], [rows[1]], half_square, FLOOR)
    return float(found.value[0]), float(found.error[0])


def _same(table: Table, rows: Iterable[int], others: Iterable[int]) -> bool:
    return all(a == b or table.same(int(a), int(b)) for a, b in zip(rows, others, strict=True))


def _enter_alike(a: Linear, b: Linear) -> bool:
    """Whether two recursions differ at most in their offsets, so that the same noise cancels."""
    one, other = a.recursion, b.recursion
    if one is other:
        return True
    if not (one.constant and other.constant and one.states == other.states):
        return False
    pairs = [(one.A, other.A), (one.Q, other.Q), (one.C, other.C), (one.R, other.R), (one.cov0, other.cov0)]
    return all(np.array_equal(p, q) for p, q in pairs)


def _key(law: Law | None) -> bytes | int | None:
    """Equal for laws that are surely equal: a family makes its noise anew for every value."""
    if law is None:
        return None
    try:
        return pickle.dumps(law)
    except Exception:  # whatever a law of the user's own does; it is then equal to itself only
        return id(law)


def _values(law: Law | None, d: int) -> Values:
    """The values of a law on scores (N,), the same for all of its d channels: d rows."""
    if law is None:
        return lambda z: np.tile(z, (d, 1))
    if d == 1:
        return law.value
    return lambda z: law.value(np.tile(z, (d, 1)))


def _size(y: Array, _: Array) -> Array:
    return np.abs(y)


def _itself(y: Array, _: Array) -> Array:
    return y


def _squared_from(about: float) -> Integrand:
    return lambda y, _: np.asarray((y - about) ** 2)


# Readings with finitely many values: the distortion of a pair is a finite sum ------------------------


class Staircase(NamedTuple):
    """The values of one channel, in increasing order, and their probabilities."""

    values: Array
    probabilities: Array

    @property
    def mean(self) -> float:
        """The mean value."""
        return float(self.values @ self.probabilities)


def staircases(law: Law) -> list[Staircase] | None:
    """One for each channel, if all channels are independent and have finitely many values.

    >>> [steps.mean for steps in staircases(Atoms([0.0, 4.0], [0.5, 0.5]))]
    [2.0]
    """
    if isinstance(law, Atoms):
        return [Staircase(law.values, law.probabilities)]
    if isinstance(law, Independent):
        parts = [staircases(channel) for channel in law.laws]
        return None if None in parts else [part[0] for part in parts if part is not None]
    if isinstance(law, Shifted):
        inner = staircases(law.law)
        if inner is None:
            return None
        shifts = np.broadcast_to(np.asarray(law.shift, dtype=float), (len(inner),))
        return [Staircase(steps.values + by, steps.probabilities) for steps, by in zip(inner, shifts, strict=True)]
    return None


def together(one: Staircase, other: Staircase) -> tuple[Array, Array, Array]:
    """The values that two laws take under one score, and the probability that they do.

    >>> y, y_out, p = together(Staircase(np.array([0.0, 1.0]), np.array([0.5, 0.5])),
    ...                        Staircase(np.array([0.0, 1.0]), np.array([0.25, 0.75])))
    >>> y.tolist(), y_out.tolist(), p.tolist()
    ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.25, 0.25, 0.5])
    """
    # each edge by what is below it and what is above it, so that a rare value keeps its digits on either side
    below, above, edges = (
        np.concatenate(parts) for parts in zip(*(_inner(steps.probabilities) for steps in (one, other)), strict=True)
    )
    order = np.argsort(edges, kind="stable")
    below, above = (np.concatenate(((a,), part[order], (b,))) for part, a, b in ((below, 0.0, 1.0), (above, 1.0, 0.0)))
    width = np.where(below[1:] <= above[:-1], np.diff(below), -np.diff(above))
    # an interval belongs to the value whose lower edge is the last at or below its own lower edge
    first = np.append(-np.inf, edges[order])
    i, j = (np.searchsorted(_inner(steps.probabilities)[2], first, side="right") for steps in (one, other))
    there = width > 0.0
    return one.values[i[there]], other.values[j[there]], width[there]


def _inner(probabilities: Array) -> tuple[Array, Array, Array]:
    """What is below and above each edge between two values, and the edges as scores."""
    below, above, edges = intervals(probabilities)
    return below[1:-1], above[1:-1], edges[1:-1]
