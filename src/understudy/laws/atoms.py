"""Laws with atoms: finitely many numbers (`Atoms`), and the cells of a sensor that rounds (`Rounding` and its laws).

A distribution function with jumps does not make a reading uniform, so the score is randomised (the
distributional transform): with an auxiliary uniform v,

    u = Pr(Y < y) + v Pr(Y = y),    z = Phi^-1(u),

which is exactly standard normal. Each atom owns an interval of scores, and `value` gives the atom
whose interval a score is in. Both tails are summed from their own end, so an atom of probability
1e-30 keeps its digits at the top as at the bottom.

A sensor that rounds: a channel with a step reports clip(offset + step round((y - offset) / step), low, high). The
values of y that are reported as one number form a *cell*: half a step to either side, and at `low` and `high`
everything beyond. A channel without a step reports y itself. `Rounding` is the grid of all channels.

Three laws share one shape. Channel by channel, a score is u = F(a) + v (F(b) - F(a)), with (a, b) the cell of
the reading, F the law of the unrounded channel given the channels before, and v an auxiliary uniform.

- `CellLaw`: a Gaussian reading. After one channel (exactly), the law of the next given the *cells* before it is no
  longer normal; it is replaced by the normal law with the same mean and variance.
- `CellMixture`: what a point-mass filter predicts. Given point i the channels are independent and normal, channel l
  with the mean centres[l, i]. Everything is summed in logarithms, on the smaller tail.
- `Rounded`: any continuous law. Channel l is conditioned on the *reported* values of the channels before it, as
  if they were exact: the law of a process that lives on the grid (not of a rounded one, which `Quantised` is for).

The arithmetic is that of a standard normal that is known to lie in a cell (a, b) (`truncate`): probability, mean and
variance, right to about 1e-13 (relative, the score relative to 1 and to its size) for cells of 1e-12 to 1e6 standard
deviations, in the middle and far out. The half-width is an argument of its own, because b - a loses its digits where
the cell is narrow. Three ways lead there, each where it loses nothing:

- narrow: the density hardly changes over the cell, and ten Gauss-Legendre nodes integrate it;
- tail: from the inner end a on, it falls as exp(-a s - s^2/2); forty nodes over the 40 units before it is gone;
- middle: differences of the distribution function, of which a good part remains.

Arguments are numbers, or arrays of one shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Numbers, Plain
from understudy.errors import LawError, ModelError, NumericalError, ReadingError
from understudy.laws.law import Law, channels, dimension, has_atoms, is_law, numbers, position, to_shape
from understudy.laws.uniforms import check_uniforms
from understudy.serialize import Place, construct, entries, fields, stored_array

# A law on finitely many numbers: a grid of readings, a count, a switch -------------------------------


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
        at, p = _check_atoms(values, probabilities)
        self._set(at, p)

    def _set(self, values: Array, p: Array) -> None:
        self.dim = 1
        self.values: Array = values
        self.probabilities: Array = p
        self._below, self._above, self._edges = intervals(p)
        for array in (values, p, self._below, self._above, self._edges):
            array.flags.writeable = False

    @classmethod
    def from_sorted(cls, values: Array, probabilities: Array) -> Atoms:
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
        readings, uniforms = numbers(y), check_uniforms(y, v)
        i = self._find(readings)
        there = ~np.isnan(readings)
        foreign = there & (i < 0)
        if foreign.any():
            at = position(foreign, foreign.shape)
            raise ReadingError(f"the reading{at} is not an atom of the law; it must be one of its values, exactly")
        parts = (self.probabilities[i], self._below[i], self._above[i + 1], self._edges[i], self._edges[i + 1])
        z = np.where(there, randomise_scores(*parts, np.where(there, uniforms, 0.5)), np.nan)
        return to_shape(z, z.shape)

    def value(self, z: ArrayLike) -> Numbers:
        """The atom whose interval the score is in; NaN stays NaN."""
        scores = numbers(z)
        first = int(np.argmax(self.probabilities > 0.0))
        i = np.maximum(np.searchsorted(self._edges[1:-1], scores), first)
        return to_shape(np.where(np.isnan(scores), np.nan, self.values[i]), scores.shape)

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Logarithm of the probability of the atom; -inf for what is not one, NaN for NaN."""
        if isinstance(y, float):
            n = self._one(y)
            return math.log(self.probabilities[n]) if n >= 0 else math.nan if math.isnan(y) else -math.inf
        readings = numbers(y)
        i = self._find(readings)
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(i < 0, 0.0, self.probabilities[i]))
        return to_shape(np.where(np.isnan(readings), np.nan, logs), readings.shape)

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
            return float(randomise_scores(*parts))
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


def randomise_scores(p: Array, below: Array, above: Array, low: Array, high: Array, v: Array) -> Array:
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


def _check_atoms(values: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
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


# A standard normal in a cell --------------------------------------------------------------------------


_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_WIDE, _LEAST_DIFFERENCE = 0.02, 1e-290  # a difference of two tails keeps 14 digits; smaller ones lose them
_GONE = 40.0  # exp(-40) of a tail is beneath rounding


def _rule(count: int, low: float) -> tuple[Array, Array]:
    """Nodes on (low, 1), and columns that turn values there into the means of f, f t and f t^2."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    t = 0.5 * ((1.0 - low) * nodes + 1.0 + low)
    return t, 0.5 * weights[:, None] * t[:, None] ** np.arange(3.0)


_NARROW, _NARROW_SUMS = _rule(10, -1.0)
_TAIL, _TAIL_SUMS = _rule(40, 0.0)


class Truncated(NamedTuple):
    """What is known of a standard normal that lies in a cell."""

    log_probability: Numbers
    """Logarithm of the probability of the cell."""
    mean: Numbers
    """Mean, given that it lies there."""
    variance: Numbers
    """Variance, given that it lies there."""


def truncate(a: Numbers, b: Numbers, half: Numbers) -> Truncated:
    """The standard normal given that it lies between `a` and `b`; `half` is half the width, inf if that is.

    >>> cell = truncate(-0.5, 0.5, 0.5)
    >>> round(cell.log_probability, 12), cell.mean, round(cell.variance, 12)
    (-0.959916333696, 0.0, 0.080589154601)
    >>> cell = truncate(40.0, math.inf, math.inf)
    >>> round(cell.log_probability, 9), round(cell.mean, 9)
    (-804.608442014, 40.024968847)
    """
    if isinstance(a, float) and isinstance(b, float) and isinstance(half, float):
        if a + b < 0.0:
            log_probability, mean, variance = _one(-b, -a, half)
            return Truncated(log_probability, -mean, variance)
        return Truncated(*_one(a, b, half))
    with np.errstate(invalid="ignore"):
        left = np.asarray(a + b < 0.0)
    lower, upper = np.where(left, -b, a), np.where(left, -a, b)
    half = np.broadcast_to(half, left.shape)
    with np.errstate(invalid="ignore"):
        narrow = half * np.maximum(0.5 * (lower + upper), 1.0) <= 1.0
    tail = ~narrow & (lower >= 1.0)
    out = np.empty((3, *left.shape))
    for way, where in ((_narrow, narrow), (_tail, tail), (_middle, ~narrow & ~tail)):
        if where.any():
            out[:, where] = way(lower[where], upper[where], half[where])
    return Truncated(out[0], np.where(left, -out[1], out[1]), out[2])


def log_probability(a: Array, b: Array, half: Array) -> Array:
    """The first part of `truncated` alone, for arrays: quicker where no cell is narrow.

    >>> log_probability(np.array([-0.5]), np.array([0.5]), np.array([0.5])).round(12).tolist()
    [-0.959916333696]
    """
    from scipy.special import erfc

    if half.min() > _WIDE:
        with np.errstate(invalid="ignore"):
            left = a + b < 0.0
        P = 0.5 * (erfc(_SQRT_HALF * np.where(left, -b, a)) - erfc(_SQRT_HALF * np.where(left, -a, b)))
        if P.min() > _LEAST_DIFFERENCE:
            return np.asarray(np.log(P))
    return np.asarray(truncate(a, b, half).log_probability)


def _narrow(a: Numbers, b: Numbers, half: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    # x = m + h t:  phi(x) = phi(m) exp(-h t (m + h t / 2))
    m = 0.5 * (a + b)
    s = np.multiply.outer(half, _NARROW)
    sums = np.exp(-s * (np.asarray(m)[..., None] + 0.5 * s)) @ _NARROW_SUMS
    M0, M1, M2 = np.moveaxis(sums, -1, 0)
    centre = M1 / M0
    return (
        np.log(2.0 * half * M0) - 0.5 * m * m - _LOG_SQRT_2PI,
        m + half * centre,
        half * half * (M2 / M0 - centre * centre),
    )


def _tail(a: Numbers, b: Numbers, half: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    # x = a + s:  phi(x) = phi(a) exp(-s (a + s / 2)), gone where the exponent reaches 40
    with np.errstate(over="ignore"):
        end = np.minimum(2.0 * half, 2.0 * _GONE / (a + np.hypot(a, math.sqrt(2.0 * _GONE))))
        s = np.multiply.outer(end, _TAIL)
        sums = np.exp(-s * (np.asarray(a)[..., None] + 0.5 * s)) @ _TAIL_SUMS
        M0, M1, M2 = np.moveaxis(sums, -1, 0)
        centre = M1 / M0
        log_probability = np.log(end * M0) - 0.5 * a * a - _LOG_SQRT_2PI
    return log_probability, a + end * centre, end * end * (M2 / M0 - centre * centre)


def tail_log_probability(a: Array, half: Array) -> Array:
    """Logarithms of the probabilities of many cells of a tail, from a on: to the bits of one cell.

    >>> float(tail_log_probability(np.array([40.0]), np.array([0.5]))[0]) == truncate(40.0, 41.0, 0.5).log_probability
    True
    """
    with np.errstate(over="ignore"):
        end = np.minimum(2.0 * half, 2.0 * _GONE / (a + np.hypot(a, math.sqrt(2.0 * _GONE))))
        s = np.multiply.outer(end, _TAIL)
        # one product of a row and a matrix for each: that of many rows is added up otherwise
        M0 = np.matmul(np.exp(-s * (a[:, None] + 0.5 * s))[:, None, :], _TAIL_SUMS)[:, 0, 0]
        return np.asarray(np.log(end * M0) - 0.5 * a * a - _LOG_SQRT_2PI)


def _middle(a: Numbers, b: Numbers, half: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    from scipy.special import ndtr

    outside = ndtr(a) + ndtr(-b)
    P = ndtr(-a) - ndtr(-b)
    with np.errstate(divide="ignore"):
        log_probability = np.where(a < 0.0, np.log1p(-np.minimum(outside, 1.0)), np.log(P))
    # mean = (phi(a) - phi(b)) / P, variance = 1 + (a phi(a) - b phi(b)) / P - mean^2
    at_a, at_b = np.exp(-0.5 * a * a) / _SQRT_2PI, np.exp(-0.5 * b * b) / _SQRT_2PI
    with np.errstate(invalid="ignore"):
        edges = np.where(at_a > 0.0, a * at_a, 0.0) - np.where(at_b > 0.0, b * at_b, 0.0)
    mean = (at_a - at_b) / P
    return log_probability, mean, 1.0 + edges / P - mean * mean


# One number at a time, ten times as quick ------------------------------------------------------------------------

NARROW_PAIRS = [(float(t), *map(float, sums)) for t, sums in zip(_NARROW, _NARROW_SUMS, strict=True) if t > 0.0]


def _one(a: float, b: float, half: float) -> tuple[float, float, float]:
    """The same for a cell whose middle is not negative, in plain numbers."""
    m = 0.5 * (a + b)
    if half == 0.0:  # so far out that double precision does not tell its ends apart
        return -math.inf, m, 0.0
    if half * max(m, 1.0) <= 1.0:
        M0 = M1 = M2 = 0.0
        for t, w0, w1, w2 in NARROW_PAIRS:
            s = half * t
            right, left = math.exp(-s * (0.5 * s + m)), math.exp(-s * (0.5 * s - m))
            M0 += w0 * (left + right)
            M1 += w1 * (right - left)
            M2 += w2 * (left + right)
        centre = M1 / M0
        log_probability = math.log(2.0 * half * M0) - 0.5 * m * m - _LOG_SQRT_2PI
        return log_probability, m + half * centre, half * half * (M2 / M0 - centre * centre)
    if a >= 1.0:
        tail = _tail(a, b, half)
        return float(tail[0]), float(tail[1]), float(tail[2])
    below, above = 0.5 * math.erfc(-a * _SQRT_HALF), 0.5 * math.erfc(b * _SQRT_HALF)
    P = 0.5 * math.erfc(a * _SQRT_HALF) - above
    at_a, at_b = math.exp(-0.5 * a * a) / _SQRT_2PI, math.exp(-0.5 * b * b) / _SQRT_2PI
    edges = (a * at_a if at_a else 0.0) - (b * at_b if at_b else 0.0)
    mean = (at_a - at_b) / P
    log_probability = math.log1p(-(below + above)) if a < 0.0 else math.log(P)
    return log_probability, mean, 1.0 + edges / P - mean * mean


# Scores ----------------------------------------------------------------------------------------------------------


def scores(a: Numbers, b: Numbers, log_probability: Numbers, v: Numbers) -> Numbers:
    """Randomised score of a cell of the standard normal: Phi^-1(Phi(a) + v (Phi(b) - Phi(a))), between a and b.

    >>> round(float(scores(-1.0, 1.0, truncate(-1.0, 1.0, 1.0).log_probability, 0.5)), 12) + 0.0
    0.0
    >>> cell = truncate(40.0, 41.0, 0.5)
    >>> round(float(scores(40.0, 41.0, cell.log_probability, 0.5)), 9)
    40.017314127
    """
    from scipy.special import log_ndtr

    score = from_tails(log_ndtr(a), log_ndtr(-b), log_probability, v)
    if isinstance(score, float):
        return min(max(score, a), b)
    return np.clip(score, a, b)


def from_tails(below: Numbers, above: Numbers, log_probability: Numbers, v: Numbers) -> Numbers:
    """The score of a part of any law: from the logarithms of what lies below it, above it and in it.

    The smaller of F = below + v P and 1 - F = above + (1 - v) P keeps its digits, being a sum of positive terms.
    """
    from scipy.special import ndtri_exp

    if isinstance(log_probability, float) and isinstance(v, float):
        under = float(np.logaddexp(below, math.log(v) + log_probability))
        over = float(np.logaddexp(above, math.log1p(-v) + log_probability))
        # rounding may leave the sum of everything a little above one
        return float(ndtri_exp(min(under, 0.0)) if under < over else -ndtri_exp(min(over, 0.0)))
    uniforms = np.asarray(v, dtype=float)
    lower = np.logaddexp(below, np.log(uniforms) + log_probability)
    upper = np.logaddexp(above, np.log1p(-uniforms) + log_probability)
    return np.asarray(np.where(lower < upper, ndtri_exp(np.minimum(lower, 0.0)), -ndtri_exp(np.minimum(upper, 0.0))))


# The grid of a sensor ---------------------------------------------------------------------------------


TOLERANCE = 1e-9
"""How far from a grid point a reading may be, in steps (and four roundings of the reading): 0.1 is no float."""

_ULPS = 4.0 * float(np.finfo(float).eps)


class Cells(NamedTuple):
    """The cells of some readings: grid points, ends, and half the width (inf where an end is)."""

    at: Numbers
    lower: Numbers
    upper: Numbers
    half: Numbers


class Channel(NamedTuple):
    """The grid of one channel; a step of 0 means none."""

    step: float
    offset: float
    low: float
    high: float

    def round(self, y: Numbers) -> Numbers:
        """What is reported for y, a number or an array."""
        step, offset, low, high = self
        if not step:
            return y
        point = offset + step * np.rint((y - offset) / step)
        if isinstance(y, float):
            return min(max(float(point), low), high)
        return np.clip(point, low, high) if low > -math.inf or high < math.inf else point

    def cells(self, y: Numbers, channel: int) -> Cells:
        """The cells of readings, which must lie on the grid."""
        step, offset, low, high = self
        if isinstance(y, float):
            index = (y - offset) / step
            point = offset + step * round(index) if math.isfinite(index) else math.inf
            if not (abs(y - point) <= TOLERANCE * step + _ULPS * abs(y) and low <= point <= high):
                raise _off_the_grid(channel)
            lower = -math.inf if point <= low else point - 0.5 * step
            upper = math.inf if point >= high else point + 0.5 * step
            return Cells(point, lower, upper, 0.5 * step if lower > -math.inf and upper < math.inf else math.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            points = offset + step * np.rint((y - offset) / step)
            near = np.abs(y - points) <= TOLERANCE * step + _ULPS * np.abs(y)
        if not np.all(near & (low <= points) & (points <= high)):
            raise _off_the_grid(channel)
        first, last = points <= low, points >= high
        ends = np.where(first, -np.inf, points - 0.5 * step), np.where(last, np.inf, points + 0.5 * step)
        return Cells(points, *ends, np.where(first | last, np.inf, 0.5 * step))

    def between(self, y: float, z: float) -> Array:
        """All values that are reported between y and z."""
        step, offset, _, _ = self
        first, last = (round((float(self.round(end)) - offset) / step) for end in (y, z))
        return np.clip(offset + step * np.arange(first, last + 1, dtype=float), self.low, self.high)


GRID_FIELDS = ("step", "offset", "low", "high")
"""What makes a grid, one entry for each channel."""

PerChannel: TypeAlias = "float | Sequence[float | None] | Array | None"
"""One number for all channels, or one for each; None where there is none."""


class Rounding(Frozen):
    """Steps, offsets and ends of all channels, checked.

    >>> grid = Rounding(2, step=[5.0, 0.1], low=[0.0, None])
    >>> [channel.round(y) for channel, y in zip(grid.channels, (-7.0, 21.37))]
    [0.0, 21.400000000000002]
    >>> grid.channels[0].cells(0.0, 0)
    Cells(at=0.0, lower=-inf, upper=2.5, half=inf)
    """

    __slots__ = ("arguments", "channels", "dim")

    def __init__(
        self,
        dim: int,
        step: PerChannel,
        offset: PerChannel = 0.0,
        low: PerChannel = None,
        high: PerChannel = None,
    ) -> None:
        self.dim = dim
        steps = _each("step", step, dim)
        self.channels: tuple[Channel, ...] = tuple(
            _channel(*row)
            for row in zip(
                range(dim),
                steps,
                _each("offset", offset, dim),
                _each("low", low, dim, steps),
                _each("high", high, dim, steps),
                strict=True,
            )
        )
        if not any(channel.step for channel in self.channels):
            raise ModelError(f"step = {step!r}; at least one channel must be rounded, by a positive step")
        self.arguments: dict[str, PerChannel] = {"step": step, "offset": offset, "low": low, "high": high}

    def to_dict(self) -> Plain:
        """Steps, offsets and ends by channel; None for an end that is none."""
        columns = zip(GRID_FIELDS, zip(*self.channels, strict=True), strict=True)
        return {name: [None if math.isinf(end) else end for end in each] for name, each in columns}

    def __repr__(self) -> str:
        return f"Rounding(dim={self.dim})"

    def __reduce__(self) -> tuple[type[Rounding], tuple[int | PerChannel, ...]]:
        return Rounding, (self.dim, *self.arguments.values())

    @property
    def everywhere(self) -> bool:
        """Whether every channel is rounded."""
        return all(channel.step for channel in self.channels)

    def round(self, y: Array) -> Array:
        """What is reported for readings with the channel on the last axis."""
        return np.stack([channel.round(y[..., i]) for i, channel in enumerate(self.channels)], axis=-1)


def stored_grid(given: Plain, place: Place) -> Plain:
    """Steps, offsets and ends of a stored grid, one entry for each channel."""
    grid = {name: entries(place / name, given[name]) for name in GRID_FIELDS}
    for name, each in grid.items():
        for entry in each:
            if not (entry is None and name in ("low", "high")):
                stored_array(place / name, entry, 0)
    return grid


def _off_the_grid(channel: int) -> ReadingError:
    return ReadingError(
        f"channel {channel} is not on its grid; a reading is offset + step times a whole number, "
        f"to {TOLERANCE:g} of a step, and not beyond low or high"
    )


def _each(
    name: str, given: PerChannel, dim: int, steps: Sequence[float | None] | None = None
) -> Sequence[float | None]:
    """One entry a channel; a single one serves all, but ends only those that are rounded."""
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(listed, Sequence):
        return [listed if steps is None or steps[i] else None for i in range(dim)]
    if len(listed) != dim:
        raise ModelError(f"{name} = {given!r}; it must be a number, or one for each of {dim} channels")
    return list(listed)


def _channel(i: int, step: float | None, offset: float | None, low: float | None, high: float | None) -> Channel:
    step = 0.0 if step is None else _number("step", step, i)
    offset = _number("offset", offset, i)
    if step < 0.0:
        raise ModelError(f"step of channel {i} = {step!r}; a step is positive (0 or None: this channel is not rounded)")
    if step and _ULPS * abs(offset) > TOLERANCE * step:
        raise ModelError(
            f"offset of channel {i} = {offset!r} with the step {step!r}; double precision cannot hold such a grid "
            "(an offset can be less than a step)"
        )
    ends = []
    for name, given, none in (("low", low, -math.inf), ("high", high, math.inf)):
        if given is None or (isinstance(given, (int, float)) and given == none):
            ends.append(none)
            continue
        end = _number(name, given, i)
        if not step:
            raise ModelError(f"{name} of channel {i} = {end!r}; a channel that is not rounded has no {name}")
        point = offset + step * round((end - offset) / step)
        if abs(end - point) > TOLERANCE * step + _ULPS * abs(end):
            raise ModelError(
                f"{name} of channel {i} = {end!r}; it must be a grid point, offset + step times a whole number"
            )
        ends.append(point)
    if ends[0] > ends[1]:
        raise ModelError(f"low of channel {i} = {ends[0]!r} is above high = {ends[1]!r}")
    return Channel(step, offset, ends[0], ends[1])


def _number(name: str, given: float | None, i: int) -> float:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise ModelError(f"{name} of channel {i} = {given!r}; it must be a number")
    if not math.isfinite(given):
        raise ModelError(f"{name} of channel {i} = {given!r}; it must be finite")
    return float(given)


# Laws of what is reported -----------------------------------------------------------------------------


_ROUNDING = 8.0 * float(np.finfo(float).eps)

State = TypeVar("State")
"""What the channels before say about the next one."""


class _GridLaw(Frozen, Generic[State]):
    """What is reported of a law by a sensor with a grid, channel by channel."""

    __slots__ = ("_grid", "dim")

    atoms = True
    dim: int
    _grid: Rounding

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"{type(self).__name__}(dim={self.dim})"

    def _start(self, rows: Sequence[Numbers]) -> State:
        """What is known before any channel is; `rows` are the readings, or the scores, of all channels."""
        raise NotImplementedError  # each subclass has its own

    def _score(self, i: int, state: State, y: Numbers, v: Numbers) -> tuple[Numbers, State]:
        """The score of channel i, and what is known after it."""
        raise NotImplementedError  # each subclass has its own

    def _value(self, i: int, state: State, z: Numbers) -> tuple[Numbers, State]:
        """What is reported for channel i, and what is known after it."""
        raise NotImplementedError  # each subclass has its own

    def _log_probability(self, i: int, state: State, y: Numbers) -> tuple[Numbers, State]:
        """Logarithm of the probability of the cell, and what is known after it."""
        raise NotImplementedError  # each subclass has its own

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Randomised scores; `v` are uniforms in (0, 1), one for each reading."""
        rows, uniforms = self._rows(y, "reading"), self._rows(check_uniforms(y, v), "uniform")
        state, z = self._start(rows), list[Numbers]()
        for i in range(self.dim):
            score, state = self._score(i, state, rows[i], uniforms[i])
            z.append(score)
        return to_shape(np.array(z), np.shape(y))

    def value(self, z: ArrayLike) -> Numbers:
        """What is reported; the inverse of `score`."""
        rows = self._rows(z, "score")
        state, y = self._start(rows), list[Numbers]()
        for i in range(self.dim):
            reported, state = self._value(i, state, rows[i])
            y.append(reported)
        return to_shape(np.array(y), np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Logarithm of the probability of the cell (of the density, for channels that are not rounded)."""
        rows = self._rows(y, "reading")
        state, total = self._start(rows), np.zeros(())
        for i in range(self.dim):
            log_probability, state = self._log_probability(i, state, rows[i])
            total = np.asarray(total + log_probability)
        return to_shape(total, np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    def _rows(self, y: ArrayLike, what: str) -> Sequence[Numbers]:
        """The channels of one reading as numbers, or of many as arrays (N,)."""
        rows = channels(y, self.dim, what)
        return rows[:, 0].tolist() if np.ndim(y) == (self.dim > 1) else list(rows)


Moments = tuple[Array, Array]
"""Mean (d,) and covariance (d, d) of one law; (d, N) and (d, d, N) of many."""


class CellLaw(_GridLaw[Moments]):
    """Law of what is reported of N(mean, cov) by a sensor with this grid.

    >>> law = CellLaw(20.2, 4.0, Rounding(1, step=1.0))
    >>> law
    CellLaw(dim=1)
    >>> law.value(1.0)
    22.0
    >>> round(law.score(22.0, v=0.5), 6), law.value(law.score(22.0, v=0.5))
    (0.872532, 22.0)
    >>> round(math.exp(law.logpdf(22.0)), 6)
    0.132774
    """

    __slots__ = ("_cov", "_mean")

    def __init__(self, mean: ArrayLike, cov: ArrayLike, grid: Rounding) -> None:
        self.dim, self._grid = grid.dim, grid
        self._mean: Array = np.asarray(mean, dtype=float).reshape(grid.dim)
        self._cov: Array = np.asarray(cov, dtype=float).reshape(grid.dim, grid.dim)

    def __reduce__(self) -> tuple[type[CellLaw], tuple[Array, Array, Rounding]]:
        return CellLaw, (self._mean, self._cov, self._grid)

    @property
    def parts(self) -> Moments:
        """Mean and covariance of the unrounded reading."""
        return self._mean, self._cov

    def _start(self, rows: Sequence[Numbers]) -> Moments:
        if self.dim == 1 or isinstance(rows[0], float):
            return self._mean, self._cov
        count = len(rows[0])
        return np.repeat(self._mean[:, None], count, axis=1), np.repeat(self._cov[:, :, None], count, axis=2)

    def _after(self, i: int, state: Moments, shift: Numbers, variance: Numbers) -> Moments:
        return condition(*state, i, shift, variance) if i + 1 < self.dim else state

    def _score(self, i: int, state: Moments, y: Numbers, v: Numbers) -> tuple[Numbers, Moments]:
        channel, (q, s) = self._grid.channels[i], _normal(state, i)
        if not channel.step:
            e = y - q
            return e / s, self._after(i, state, e, 0.0)
        cell = channel.cells(y, i)
        a, b, half = (cell.lower - q) / s, (cell.upper - q) / s, cell.half / s
        log_probability, mean, variance = truncate(a, b, half)
        # away from the ends of the cell by what rounding can do to q + s z
        room = np.minimum(_ROUNDING * (np.abs(q) + np.abs(cell.at) + channel.step) / s, 0.25 * half)
        z = np.minimum(np.maximum(scores(a, b, log_probability, v), a + room), b - room)
        return np.asarray(z), self._after(i, state, s * mean, s * s * variance)

    def _value(self, i: int, state: Moments, z: Numbers) -> tuple[Numbers, Moments]:
        channel, (q, s) = self._grid.channels[i], _normal(state, i)
        y = channel.round(q + s * z)
        return y, state if i + 1 == self.dim else self._log_probability(i, state, y)[1]

    def _log_probability(self, i: int, state: Moments, y: Numbers) -> tuple[Numbers, Moments]:
        log_probability, shift, variance = observe(self._grid.channels[i], i, _normal(state, i), y)
        return log_probability, self._after(i, state, shift, variance)


def _normal(state: Moments, i: int) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation of channel i, numbers or rows."""
    mean, cov = state
    return (float(mean[i]), math.sqrt(cov[i, i])) if mean.ndim == 1 else (mean[i], np.sqrt(cov[i, i]))


def observe(channel: Channel, i: int, normal: tuple[Numbers, Numbers], y: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """What a reading of channel i says, of mean and standard deviation as given.

    Logarithm of its probability (or density); how far the mean moves; the variance that is left.
    """
    q, s = normal
    if not channel.step:
        e = y - q
        return -0.5 * (e / s) ** 2 - np.log(s) - _LOG_SQRT_2PI, e, 0.0
    cell = channel.cells(y, i)
    log_probability, mean, variance = truncate((cell.lower - q) / s, (cell.upper - q) / s, cell.half / s)
    return log_probability, s * mean, s * s * variance


def condition(mean: Array, cov: Array, i: int, shift: Numbers, variance: Numbers) -> Moments:
    """A joint normal law after its entry i was found to have mean + `shift` and `variance`; moments of the result.

    ::

        K = cov[:, i] / S,    mean += K shift,    cov -= K K' (S - variance),    S = cov[i, i]

    A third axis of `cov`, and a second of `mean`, are so many laws side by side.
    """
    S = cov[i, i]
    K = cov[:, i] / S
    outer = K[:, None] * K[None, :]
    # in this order, so that what is known exactly is left with its variance to the last digit
    return mean + K * shift, (cov - outer * S) + outer * variance


_NOTHING = -1e300  # a logarithm that stands for no probability at all


class CellMixture(_GridLaw[Array]):
    """Law of what is reported of sum_i weights_i prod_l N(centres[l, i], sds[l]^2) by a sensor with this grid.

    >>> law = CellMixture(np.array([0.5, 0.5]), np.array([[19.0, 21.0]]), np.array([1.0]), Rounding(1, step=1.0))
    >>> law
    CellMixture(2 points, dim=1)
    >>> law.value([-1.0, 0.0, 1.0]).tolist()
    [19.0, 20.0, 21.0]
    >>> law.value(law.score(17.0, v=0.1))
    17.0
    """

    __slots__ = ("_centres", "_log_weights", "_sds", "_weights")

    def __init__(self, weights: Array, centres: Array, sds: Array, grid: Rounding) -> None:
        self.dim, self._grid = grid.dim, grid
        self._weights, self._centres, self._sds = weights, centres, sds
        with np.errstate(divide="ignore"):
            self._log_weights: Array = np.log(weights)

    def __repr__(self) -> str:
        return f"CellMixture({self._weights.size} points, dim={self.dim})"

    def __reduce__(self) -> tuple[type[CellMixture], tuple[Array, Array, Array, Rounding]]:
        return CellMixture, (self._weights, self._centres, self._sds, self._grid)

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Weights (points,), centres (channels, points) and standard deviations (channels,)."""
        return self._weights, self._centres, self._sds

    # The state are the logarithms of the weights that the channels before have left, (readings, points).

    def _start(self, rows: Sequence[Numbers]) -> Array:
        return self._log_weights[None, :]

    def _score(self, i: int, state: Array, y: Numbers, v: Numbers) -> tuple[Numbers, Array]:
        cell = self._grid.channels[i].cells(np.atleast_1d(y), i)
        each = state + self._cells(i, cell)
        inside = _sum(each)
        if not (inside > _NOTHING).all():
            raise NumericalError(f"channel {i} is too far out for double precision")
        below, above = self._tails(i, state, cell.lower)[0], self._tails(i, state, cell.upper)[1]
        tail = np.minimum(np.maximum(below, inside), np.maximum(above, inside))
        # logarithms are right to their size times this, and the score stays inside its cell by as much
        lost = _ROUNDING * (20.0 - tail) * np.exp(np.minimum(tail - inside, 600.0))
        kept = np.clip(v, np.minimum(lost, 0.25), 1.0 - np.minimum(lost, 0.25))
        return from_tails(below, above, inside, kept), each - inside[:, None]

    def _value(self, i: int, state: Array, z: Numbers) -> tuple[Numbers, Array]:
        y = self._find(i, state, np.atleast_1d(z))
        if i + 1 == self.dim:
            return y, state
        each = state + self._cells(i, self._grid.channels[i].cells(y, i))
        return y, each - _sum(each)[:, None]

    def _log_probability(self, i: int, state: Array, y: Numbers) -> tuple[Numbers, Array]:
        each = state + self._cells(i, self._grid.channels[i].cells(np.atleast_1d(y), i))
        total = _sum(each)
        return total, each - total[:, None]

    def _cells(self, i: int, cell: Cells) -> Array:
        """Logarithm of the probability of each cell given each point, (readings, points)."""
        q, s = self._centres[i], self._sds[i]
        lower, upper, half = (np.asarray(end)[:, None] for end in (cell.lower, cell.upper, cell.half))
        wide = np.broadcast_to(half / s, (half.size, q.size))
        return log_probability((lower - q) / s, (upper - q) / s, wide)

    def _tails(self, i: int, logs: Array, y: Numbers) -> tuple[Array, Array]:
        """Logarithms of F(y) and 1 - F(y)."""
        from scipy.special import log_ndtr

        t = (np.asarray(y)[:, None] - self._centres[i]) / self._sds[i]
        return _sum(logs + log_ndtr(t)), _sum(logs + log_ndtr(-t))

    def _find(self, i: int, logs: Array, z: Array) -> Array:
        """The first cell whose upper end has at least the score z, by bisection of whole numbers."""
        from scipy.special import ndtri_exp

        channel = self._grid.channels[i]
        step, offset, low, high = channel
        q, s = self._centres[i], self._sds[i]
        # no component has its quantile outside of these
        first = np.rint((channel.round(q.min() + s * z) - offset) / step)
        last = np.rint((channel.round(q.max() + s * z) - offset) / step)
        while (first < last).any():
            middle = np.floor(0.5 * (first + last))
            below, above = self._tails(i, logs, offset + step * (middle + 0.5))
            edge = np.where(below < above, ndtri_exp(np.minimum(below, 0.0)), -ndtri_exp(np.minimum(above, 0.0)))
            reached = (edge >= z) & (first < last)
            last = np.where(reached, middle, last)
            first = np.where(~reached & (first < last), middle + 1.0, first)
        return np.asarray(np.clip(offset + step * first, low, high))


def _sum(logs: Array) -> Array:
    """Logarithm of the sum over the last axis of what is given as logarithms."""
    top = np.maximum(logs.max(axis=-1), _NOTHING)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


ROOM = 1e-7
"""Of a cell, at either end: what an inverse of a law may be off by."""


class Rounded(_GridLaw[Array]):
    """What is reported of a law on a grid that has a step in every channel; `shift` is added to it before rounding.

    A shift may be an array, one entry (or one vector) for each of many readings.

    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Rounded(Scalar(scipy.stats.t(4.0, 20.2, 2.0)), Rounding(1, step=1.0))
    >>> law.value(1.0)
    22.0
    >>> law.value(law.score(22.0, v=0.3))
    22.0
    >>> round(float(np.exp(law.logpdf(np.arange(-500.0, 600.0))).sum()), 6)
    1.0
    """

    __slots__ = ("_law", "_shift")

    def __init__(self, law: Law, grid: Rounding, shift: Numbers = 0.0) -> None:
        if not is_law(law) or has_atoms(law):
            raise LawError(f"the law is of type {type(law).__name__}; only a continuous law can be rounded")
        if dimension(law) != grid.dim or not grid.everywhere:
            raise LawError(f"the law has {dimension(law)} channels; each must have a step of the grid")
        self.dim, self._grid = grid.dim, grid
        self._law, self._shift = law, shift

    def __reduce__(self) -> tuple[type[Rounded], tuple[Law, Rounding, Numbers]]:
        return Rounded, (self._law, self._grid, self._shift)

    # The state is the whole reading: the law is triangular, so that the channels to come do not matter.

    def _start(self, rows: Sequence[Numbers]) -> Array:
        return np.array(rows)

    def _score(self, i: int, state: Array, y: Numbers, v: Numbers) -> tuple[Numbers, Array]:
        return cell_scores(*self._ends(i, state, y), v), state

    def _log_probability(self, i: int, state: Array, y: Numbers) -> tuple[Numbers, Array]:
        return _cell_log_probability(*self._ends(i, state, y)), state

    def value(self, z: ArrayLike) -> Numbers:
        """What is reported; the inverse of `score`."""
        w = channels(z, self.dim, "score").reshape(np.shape(z)).copy()
        y, one = w.copy(), self.dim == 1
        for i, channel in enumerate(self._grid.channels):
            now = np.asarray(self._law.value(w[()])) + self._shift
            if one:
                return to_shape(np.asarray(channel.round(now)), np.shape(z))
            now[:i] = y[:i]
            y[i] = now[i] = channel.round(now[i])
            w[i] = np.asarray(self._law.score(now - self._shift))[i]  # the next channel follows what was reported
        return y

    def _ends(self, i: int, state: Array, y: Numbers) -> tuple[Numbers, Numbers]:
        """The scores of the ends of the cell of channel i, given the channels before it as they are reported."""
        cell = self._grid.channels[i].cells(y, i)
        ends = []
        for end, beyond in ((cell.lower, -math.inf), (cell.upper, math.inf)):
            finite = np.isfinite(end)
            z = np.where(finite, self._score_at(i, state, np.where(finite, end, cell.at)), beyond)
            ends.append(float(z) if isinstance(y, float) else z)
        return ends[0], ends[1]

    def _score_at(self, i: int, state: Array, end: Array) -> Array:
        if self.dim == 1:
            return np.asarray(self._law.score((end - self._shift)[()]))
        moved = state.copy()
        moved[i] = end
        z = np.asarray(self._law.score(moved - self._shift))
        return np.asarray(z[i])


def _cell_log_probability(a: Numbers, b: Numbers) -> Numbers:
    with np.errstate(invalid="ignore"):
        return truncate(a, b, 0.5 * (b - a)).log_probability


def cell_scores(a: Numbers, b: Numbers, v: Numbers) -> Numbers:
    """Scores between those of the ends of cells, at the uniforms v.

    >>> round(cell_scores(-1.0, 1.0, 0.5), 12)
    0.0
    """
    z = scores(a, b, _cell_log_probability(a, b), v)
    room = np.minimum(ROOM * np.minimum(b - a, 1.0), 0.25 * (b - a))
    kept = np.minimum(np.maximum(z, a + room), b - room)
    return float(kept) if isinstance(a, float) else kept
