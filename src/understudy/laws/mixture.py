"""Mixtures of laws of one number: exact scores from log space, and an inverse that always ends.

A reading comes from law i with probability w_i. Its score is that of the smaller tail of the mixture,
a sum over the components (`blend`); the inverse is searched between the smallest and the largest
quantile of the components (`inverse`). Where every law is Gaussian, all components are worked on as one array.

The functions take another mixture of the same laws for each reading, which is what a hidden finite state
predicts; `Mixture` is one mixture for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array, Frozen, Law, is_law
from understudy.laws.blend import blockwise, checked_weights, columns
from understudy.laws.components import blended, heights, values
from understudy.laws.gaussian import Gaussian
from understudy.laws.normal_mixture import gaussian_mixture_logpdf, gaussian_mixture_score, gaussian_mixture_value
from understudy.laws.shapes import channels, check_inside, check_reached, shaped
from understudy.laws.single import Part, one_logpdf, one_score, one_value
from understudy.laws.single_any import Share, one_score_of, one_value_of
from understudy.laws.table import Table


class Mixture(Frozen):
    """A reading from one of several laws of one number, with the given probabilities.

    The laws may be any of dimension 1: `Gaussian`, `Scalar`, another `Mixture`, one of your own.

    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Mixture([0.9, 0.1], [Gaussian(20.0, 1.0), Scalar(scipy.stats.t(3, loc=20.0, scale=5.0))])
    >>> law
    Mixture(2 laws, dim=1)
    >>> law.score(20.0)
    0.0
    >>> round(law.score(law.value(30.0)), 9)
    30.0

    Where supports leave a hole the score is constant, and the inverse is an end of the hole.

    >>> hole = Mixture([0.5, 0.5], [Scalar(scipy.stats.uniform(0, 1)), Scalar(scipy.stats.uniform(2, 1))])
    >>> hole.score([1.2, 1.8]).tolist(), round(hole.value(0.0), 9)
    ([0.0, 0.0], 1.0)
    """

    __slots__ = ("_flat", "_given", "_laws", "_log_w", "_parts", "_shares", "_table", "_weights", "dim")

    dim: int
    _laws: tuple[Law, ...]
    _weights: Array
    _given: tuple[float, ...]
    _log_w: Array
    _flat: tuple[Law, ...]
    _parts: tuple[Part, ...]
    _shares: tuple[Share, ...]
    _table: Table

    def __init__(self, weights: Any, laws: Sequence[Law]) -> None:
        put = object.__setattr__  # a hidden state makes one for every reading; the guard of `Frozen` would cost a third
        put(self, "dim", 1)
        put(self, "_laws", _checked_laws(laws))
        put(self, "_weights", checked_weights(weights, len(self._laws)))
        put(self, "_given", tuple(float(weight) for weight in weights))
        parts = [part for part in _flattened(self._weights, self._laws) if part[0] > -math.inf]
        put(self, "_log_w", np.array([log_w for log_w, _ in parts]))
        put(self, "_flat", tuple([law for _, law in parts]))
        normals = _normals(self._flat)
        put(self, "_parts", _plain(self._log_w, normals) if normals else ())
        put(self, "_shares", () if normals else tuple(zip(np.exp(self._log_w).tolist(), self._flat, strict=True)))

    @property
    def weights(self) -> Array:
        """The probabilities of the laws, summing to 1."""
        return self._weights

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws."""
        return self._laws

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixture, (self._given, self._laws)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Mixture({len(self._laws)} laws, dim=1)"

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = Phi^-1(sum_i w_i F_i(y)), element by element; NaN stays NaN."""
        if isinstance(y, float):
            z = one_score(float(y), self._parts) if self._parts else one_score_of(float(y), self._shares)
            if z is not None:
                return z
        readings = channels(y, 1, "reading")[0]
        return shaped(_checked_scores(readings, self._log_w[:, None], self._flat, np.shape(y)), np.shape(y))

    def score_or_end(self, y: Any) -> Any:
        """The score, or -inf below all supports and inf above, where `score` refuses."""
        z = _scores(channels(y, 1, "reading")[0], self._log_w[:, None], self._flat)
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with this score: the inverse of `score`, at an end of the hole if it meets one."""
        if isinstance(z, float):
            y = one_value(float(z), self._parts) if self._parts else one_value_of(float(z), self._shares)
            if y is not None:
                return y
        log_w, laws = self._log_w, self._flat
        if np.ndim(z) == 0:
            return shaped(mixture_value(z, log_w, laws, log_weights=True), ())
        if not hasattr(self, "_table"):
            # past the guard of a frozen value: two threads may both find it missing
            object.__setattr__(self, "_table", _table(log_w, laws))
        return mixture_value(z, log_w, laws, log_weights=True, table=self._table)

    def logpdf(self, y: Any) -> Any:
        """Log-density: log sum_i w_i f_i(y)."""
        if self._parts and isinstance(y, float):
            height = one_logpdf(float(y), self._parts)
            if height is not None:
                return height
        return shaped(mixture_logpdf(y, self._log_w, self._flat, log_weights=True), np.shape(y))


def mixture_score(y: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False) -> Array:
    """Scores of readings `y` under mixtures of `laws`; the weights are (K,), or one row (N, K) a reading.

    Weights (or their logarithms, with ``log_weights=True``) and laws are taken as checked.

    >>> from understudy.laws.gaussian import Gaussian
    >>> laws = [Gaussian(0.0, 1.0), Gaussian(10.0, 4.0)]
    >>> mixture_score([1.0, 12.0], [[1.0, 0.0], [0.0, 1.0]], laws).tolist()
    [1.0, 1.0]
    """
    readings = channels(y, 1, "reading")[0]
    return _checked_scores(readings, _log_columns(weights, log_weights), laws, np.shape(y)).reshape(np.shape(y))


def mixture_value(
    z: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False, table: Table | None = None
) -> Array:
    """The readings with scores `z`: the inverse of `mixture_score`.

    >>> from understudy.laws.gaussian import Gaussian
    >>> mixture_value([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], [Gaussian(0.0, 1.0), Gaussian(10.0, 4.0)]).tolist()
    [1.0, 12.0]
    """
    wanted = channels(z, 1, "score")[0]
    y = _values(wanted, _log_columns(weights, log_weights), laws, table)
    check_reached(y, wanted, np.shape(z), "score")
    return y.reshape(np.shape(z))


def mixture_logpdf(y: Any, weights: Any, laws: Sequence[Law], *, log_weights: bool = False) -> Array:
    """Log-densities of readings `y` under mixtures of `laws`.

    >>> from understudy.laws.gaussian import Gaussian
    >>> mixture_logpdf([0.0], [0.5, 0.5], [Gaussian(0.0, 1.0), Gaussian(0.0, 1.0)]).round(6).tolist()
    [-0.918939]
    """
    readings = channels(y, 1, "reading")[0]
    return _heights(readings, _log_columns(weights, log_weights), laws).reshape(np.shape(y))


def _checked_laws(laws: Any) -> tuple[Law, ...]:
    try:
        given = tuple(laws)
    except TypeError:
        raise LawError(f"laws is of type {type(laws).__name__}; it must be a list of laws of one number") from None
    for i, law in enumerate(given):
        if type(law) is Gaussian and law.dim == 1:
            continue
        if not is_law(law):
            raise LawError(f"law {i} is of type {type(law).__name__}; it must be a law")
        dim = getattr(law, "dim", 1)
        if dim != 1:
            raise LawError(f"law {i} has dim = {dim}; a mixture is of laws of one number (see GaussianMixture)")
        if getattr(law, "atoms", False):
            raise LawError(f"law {i} has atoms; a mixture is of continuous laws (a mixture of Atoms is Atoms itself)")
    return given


def _flattened(weights: Array, laws: Sequence[Law]) -> list[tuple[float, Law]]:
    """Log-weights and laws, with those of an inner mixture in its place."""
    parts: list[tuple[float, Law]] = []
    for weight, law in zip(weights.tolist(), laws, strict=True):
        log_w = math.log(weight) if weight > 0.0 else -math.inf
        inner = zip(law._log_w.tolist(), law._flat, strict=True) if isinstance(law, Mixture) else [(0.0, law)]
        parts += [(log_w + other, part) for other, part in inner]
    return parts


def _log_columns(weights: Any, log_weights: bool) -> Array:
    """Log-weights as (K, N) or (K, 1)."""
    w = np.asarray(weights, dtype=float)
    if not log_weights:
        with np.errstate(divide="ignore"):
            w = np.log(w)
    return np.ascontiguousarray((w[None, :] if w.ndim == 1 else w).T)


def _normals(laws: Sequence[Law]) -> tuple[Array, Array] | None:
    """Means and standard deviations, if every law is Gaussian."""
    given = [law.given for law in laws if type(law) is Gaussian]
    if len(given) < len(laws):
        return None
    return np.array([mean for mean, _ in given]), np.sqrt([variance for _, variance in given])


def _plain(log_w: Array, normals: tuple[Array, Array]) -> tuple[Part, ...]:
    """Weights, means and standard deviations as numbers."""
    return tuple(zip(np.exp(log_w).tolist(), normals[0].tolist(), normals[1].tolist(), strict=True))


def _checked_scores(y: Array, log_w: Array, laws: Sequence[Law], shape: tuple[int, ...]) -> Array:
    z = _scores(y, log_w, laws)
    check_inside(z, shape)
    check_reached(z, y, shape, "reading")
    return z


def _scores(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    """Scores of readings (N,), infinite outside every support."""
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_score(y, log_w.T, *normals, log_weights=True)
    return blockwise(lambda part, block: blended(part, columns(log_w, block), laws), y)


def _values(z: Array, log_w: Array, laws: Sequence[Law], table: Table | None = None) -> Array:
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_value(z, log_w.T, *normals, log_weights=True, table=table)
    return blockwise(lambda part, block: values(part, columns(log_w, block), laws, table)[0], z)


def _heights(y: Array, log_w: Array, laws: Sequence[Law]) -> Array:
    normals = _normals(laws)
    if normals is not None:
        return gaussian_mixture_logpdf(y, log_w.T, *normals, log_weights=True)
    return blockwise(lambda part, block: heights(part, columns(log_w, block), laws), y)


def _table(log_w: Array, laws: Sequence[Law]) -> Table:
    column = log_w[:, None]
    return Table(lambda z: _values(z, column, laws), lambda y: _heights(y, column, laws))
