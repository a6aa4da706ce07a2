"""A law on finitely many numbers: a grid of readings, a count, a switch.

A distribution function with jumps does not make a reading uniform, so the score is randomised (the
distributional transform): with an auxiliary uniform v,

    u = Pr(Y < y) + v Pr(Y = y),    z = Phi^-1(u),

which is exactly standard normal. Each atom owns an interval of scores, and `value` gives the atom
whose interval a score is in. Both tails are summed from their own end, so an atom of probability
1e-30 keeps its digits at the top as at the bottom.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Numbers, Plain
from understudy.errors import LawError, ReadingError
from understudy.laws.law import numbers, position, shaped
from understudy.laws.uniforms import checked_uniforms
from understudy.serialize import Place, construct, fields, stored_array

# A score keeps this distance (times its size, if that is above 1) from the ends of its interval, where the interval
# is wide enough: the ends may be rounded otherwise where the score is turned back.
_MARGIN = 8e-15
# Sums of probabilities below this have lost digits, or everything.
_TINY = 1e-290


class Atoms(Frozen):
    """The law of `values`, distinct numbers, with these `probabilities`.

    A reading must be one of the values exactly, and one of positive probability. `score` needs
    auxiliary uniforms, numbers in (0, 1), one for each reading.

    >>> law = Atoms([400.0, 405.0, 410.0], [0.2, 0.5, 0.3])
    >>> law
    Atoms(3 values, dim=1)
    >>> round(law.score(405.0, v=0.6), 12)
    0.0
    >>> law.value([-3.0, 0.0, 3.0]).tolist()
    [400.0, 405.0, 410.0]
    """

    __slots__ = ("_above", "_below", "_edges", "dim", "probabilities", "values")

    dim: int
    atoms = True

    def __init__(self, values: ArrayLike, probabilities: ArrayLike) -> None:
        at, p = _checked(values, probabilities)
        self._set(at, p)

    def _set(self, values: Array, p: Array) -> None:
        self.dim = 1
        self.values: Array = values
        self.probabilities: Array = p
        self._below, self._above, self._edges = intervals(p)
        for array in (values, p, self._below, self._above, self._edges):
            array.flags.writeable = False

    @classmethod
    def trusted(cls, values: Array, probabilities: Array) -> Atoms:
        """The same for arrays that are known to be sorted, distinct and normalised: nothing is checked."""
        law = cls.__new__(cls)
        law._set(values, probabilities)
        return law

    def __reduce__(self) -> tuple[type[Atoms], tuple[Array, Array]]:
        return Atoms, (self.values, self.probabilities)

    def to_dict(self, place: Place) -> Plain:
        """Values and probabilities; see `understudy.serialize`."""
        return {"values": self.values.tolist(), "probabilities": self.probabilities.tolist()}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Atoms:
        """The law again."""
        given = fields(place, plain, "values", "probabilities")
        return construct(
            place, cls, *(stored_array(place / name, given[name], 1) for name in ("values", "probabilities"))
        )

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Atoms({self.values.size} values, dim=1)"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = Phi^-1(Pr(Y < y) + v Pr(Y = y)), inside the interval that belongs to y; NaN stays NaN."""
        if isinstance(y, float) and isinstance(v, float) and 0.0 < v < 1.0:  # the common case, kept quick
            n = self._one(y)
            if n >= 0:
                return self._one_score(n, v)
        readings, uniforms = numbers(y), checked_uniforms(y, v)
        i = self._find(readings)
        there = ~np.isnan(readings)
        foreign = there & (i < 0)
        if foreign.any():
            at = position(foreign, foreign.shape)
            raise ReadingError(f"the reading{at} is not an atom of the law; it must be one of its values, exactly")
        parts = (self.probabilities[i], self._below[i], self._above[i + 1], self._edges[i], self._edges[i + 1])
        z = np.where(there, randomised_scores(*parts, np.where(there, uniforms, 0.5)), np.nan)
        return shaped(z, z.shape)

    def value(self, z: ArrayLike) -> Numbers:
        """The atom whose interval the score is in; NaN stays NaN."""
        scores = numbers(z)
        first = int(np.argmax(self.probabilities > 0.0))
        i = np.maximum(np.searchsorted(self._edges[1:-1], scores), first)
        return shaped(np.where(np.isnan(scores), np.nan, self.values[i]), scores.shape)

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Logarithm of the probability of the atom; -inf for what is not one, NaN for NaN."""
        if isinstance(y, float):
            n = self._one(y)
            return math.log(self.probabilities[n]) if n >= 0 else math.nan if math.isnan(y) else -math.inf
        readings = numbers(y)
        i = self._find(readings)
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(i < 0, 0.0, self.probabilities[i]))
        return shaped(np.where(np.isnan(readings), np.nan, logs), readings.shape)

    def _one(self, y: float) -> int:
        """`_find` for one reading."""
        i = int(self.values.searchsorted(y))
        return i if i < self.values.size and self.values[i] == y and self.probabilities[i] > 0.0 else -1

    def _one_score(self, i: int, v: float) -> float:
        """`randomised_scores` for one reading: the same operations, and so the same bits."""
        from scipy.special import ndtri

        p, low, high = self.probabilities.item(i), self._edges.item(i), self._edges.item(i + 1)
        u, w = self._below.item(i) + v * p, self._above.item(i + 1) + (1.0 - v) * p
        if min(u, w) < _TINY:
            parts = [np.array(x) for x in (p, self._below[i], self._above[i + 1], low, high, v)]
            return float(randomised_scores(*parts))
        z = float(ndtri(u)) if u <= w else -float(ndtri(w))
        quarter = 0.25 * (high - low)
        below = 0.0 if math.isinf(low) else min(_MARGIN * max(1.0, abs(low)), quarter)
        above = 0.0 if math.isinf(high) else min(_MARGIN * max(1.0, abs(high)), quarter)
        start = max(low + below, math.nextafter(low, math.inf))
        return min(max(z, start), max(high - above, start))

    def _find(self, y: Array) -> Index:
        """Position of each reading among the values; -1 where it is not an atom of positive probability."""
        i = positions(self.values, y)
        return np.where(self.probabilities[i] > 0.0, i, -1)


# Shared with models that mix atoms ---------------------------------------------------------------------


def positions(values: Array, y: Array) -> Index:
    """Where each reading stands in the sorted `values`; -1 where it does not."""
    i = np.minimum(np.searchsorted(values, y), values.size - 1)
    return np.where(values[i] == y, i, -1)


def intervals(p: Array) -> tuple[Array, Array, Array]:
    """For probabilities (..., M): what is below and above each of M + 1 edges, and the edges as scores.

    Atom i owns the scores in ``(edges[i], edges[i + 1]]``; the edges of atoms with positive
    probability are distinct, although rounding might have made them equal.
    """
    from scipy.special import ndtri

    below, above = np.zeros((*p.shape[:-1], p.shape[-1] + 1)), np.zeros((*p.shape[:-1], p.shape[-1] + 1))
    np.cumsum(p, axis=-1, out=below[..., 1:])
    np.cumsum(p[..., ::-1], axis=-1, out=above[..., -2::-1])
    lower = below <= above
    tail = ndtri(np.where(lower, below, above))
    edges = np.maximum.accumulate(np.where(lower, tail, -tail), axis=-1)
    for row in np.argwhere(((p > 0.0) & ~(edges[..., 1:] > edges[..., :-1])).any(axis=-1)):
        _part(edges[tuple(row)], p[tuple(row)])
    return below, above, edges


def _part(edges: Array, p: Array) -> None:
    """Make the edges of atoms distinct that are narrower than the distance of two floats."""
    for i in range(p.size):
        least = np.nextafter(edges[i], np.inf) if p[i] > 0.0 else edges[i]
        edges[i + 1] = max(edges[i + 1], least)


def randomised_scores(p: Array, below: Array, above: Array, low: Array, high: Array, v: Array) -> Array:
    """Phi^-1(below + v p), kept inside (low, high]; everything element by element."""
    from scipy.special import ndtri, ndtri_exp

    u, w = below + v * p, above + (1.0 - v) * p
    lower = u <= w
    tail = np.where(lower, u, w)
    with np.errstate(divide="ignore"):
        z = ndtri(tail)
        tiny = tail < _TINY
        if tiny.any():
            rest, share = np.where(lower, below, above), np.where(lower, v, 1.0 - v)
            z = np.where(tiny, ndtri_exp(np.logaddexp(np.log(rest), np.log(share) + np.log(p))), z)
    z = np.where(lower, z, -z)
    with np.errstate(invalid="ignore"):
        quarter = 0.25 * (high - low)
        start = np.maximum(low + _margin(low, quarter), np.nextafter(low, np.inf))
        stop = np.maximum(high - _margin(high, quarter), start)
    return np.asarray(np.minimum(np.maximum(z, start), stop))


def _margin(edge: Array, most: Array) -> Array:
    return np.where(np.isinf(edge), 0.0, np.minimum(_MARGIN * np.maximum(1.0, np.abs(edge)), most))


def _checked(values: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
    try:
        at, p = np.array(values, dtype=float), np.array(probabilities, dtype=float)
    except (TypeError, ValueError):
        raise LawError("values and probabilities must be vectors of numbers of one length") from None
    if at.ndim != 1 or at.size == 0 or p.shape != at.shape:
        raise LawError(
            f"values has shape {at.shape} and probabilities has shape {p.shape}; both must be (M,) with M at least 1"
        )
    if not np.isfinite(at).all():
        raise LawError(f"values holds {at[~np.isfinite(at)][0].item()!r}; every one must be finite")
    bad = ~(np.isfinite(p) & (p >= 0.0))
    if bad.any():
        raise LawError(f"probabilities holds {p[bad][0].item()!r}; each must be finite and not negative")
    order = np.argsort(at, kind="stable")
    at, p = at[order], p[order]
    same = np.flatnonzero(at[1:] == at[:-1])
    if same.size:
        raise LawError(f"values holds {at[same[0]].item()!r} twice; they must be distinct")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-9:
        raise LawError(f"probabilities sum to {total:.12g}; they must sum to 1")
    if abs(total - 1.0) > p.size * float(np.finfo(float).eps):
        p = p / total  # else kept to the bit, so that a law that was stored comes back as it was
    return at, p
