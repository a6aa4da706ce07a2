"""Laws as functions of one score, and the moments of noise that is not Gaussian.

A noise e = law.value(z) is reckoned in units of its own, e = level + scale eps. For the squared error
of a pair of linear models nothing more is needed than these and, for each channel,
kappa = 1 - E eps ~eps = E (eps - ~eps)^2 / 2: integrals over one score.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.distortion.linear import Linear
from understudy.distortion.quadrature import TOLERANCE, Integral, Integrand, Table, Values
from understudy.laws.base import Array, Law
from understudy._types import Mask


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
        seen: dict[Any, int] = {}
        for law in self._kept:
            key = _key(law)
            if key not in seen:
                seen[key] = len(functions)
                functions.append(_values(law, d))
            self._place[id(law)] = seen[key] * d
        self.table = Table(functions)

    def rows(self, laws: Iterable[Law | None]) -> Any:
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
        heavy = np.isinf(laws.sizes.value[rows]).any(axis=1)
        none = np.zeros((m, n), dtype=bool)
        return Noise(level, scale, None, np.zeros((m, n)), none, heavy[:m, None] | heavy[m:], alike & same)
    variances = laws.variances[rows]
    usable = np.isfinite(variances).all(axis=1)
    scale[usable] = np.sqrt(variances[usable])
    heavy = np.isinf(variances).any(axis=1)
    both, either = usable[:m, None] & usable[m:], heavy[:m, None] | heavy[m:]
    kappa, error = _kappa(laws.table, rows, (level, scale), m, both)
    return Noise(level, scale, kappa, error, both & (error <= TOLERANCE), either, alike & same)


def _kappa(table: Table, rows: Any, units: tuple[Array, Array], m: int, usable: Mask) -> tuple[Array | None, Array]:
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
    if _same(table, [rows[0]], [rows[1]]):
        return 0.0, 0.0
    (a, b), (s, t) = level.tolist(), scale.tolist()

    def half_square(y: Array, y_out: Array) -> Array:
        return np.asarray(0.5 * ((y - a) / s - (y_out - b) / t) ** 2)

    found = table.integrate([rows[0]], [rows[1]], half_square, FLOOR)
    return float(found.value[0]), float(found.error[0])


def _same(table: Table, rows: Any, others: Any) -> bool:
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


def _key(law: Law | None) -> Any:
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
