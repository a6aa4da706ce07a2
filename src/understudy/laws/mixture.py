"""Mixtures of laws of one number: exact scores from log space, and an inverse that always ends.

A reading comes from component i with probability w_i. With z_i its score under component i, the tails of the
mixture are

    F(y) = sum_i w_i Phi(z_i),    1 - F(y) = sum_i w_i Phi(-z_i),

and its score follows from the smaller one. Down to tails of 1e-290 (scores of 36) these sums keep all
their digits as they stand; below, their logarithms are summed. The inverse is searched between the smallest and the
largest quantile of the components, by Newton's method inside a bracket (`invert`).

One core serves all mixtures: `mixture_score`, `mixture_value` and `mixture_logpdf` act on `Components`, which say
what their kind of law is: `Normals`, any `Laws`, or one law of noise `Moved` to many places (a cloud of particles).
Arrays are (K, N), component first. The weights may be another set for each reading, which is what a hidden finite state
predicts; they are kept as logarithms, which matters where an outlier brings back a component whose weight had
underflowed. `Mixture` is one mixture for all readings.

One path stands beside the core: a single reading under normal components, in plain floats. A stream asks
for one reading at a time, and there an array costs 40 to 160 times as much. Whatever is out of the ordinary (tails
below 1e-290, intervals over which the score does not change, NaN) it leaves to the core, by the answer None.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from math import erfc, exp, isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Ints, Mask, Numbers, Plain
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, channels, check_inside, check_reached, dimension, has_atoms, is_law, to_shape
from understudy.serialize import Place, construct, fields, laws_from_plain, laws_to_plain, stored_array

_DEEP = 1e-290  # a term that underflows is then less than a rounding unit of the sum
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_BLOCK = 1 << 16  # entries of an array (K, N) worked on at a time: what fits a processor's cache
_LAST = sys.float_info.max


# The inverse of an increasing function, for many targets at once --------------------------------------

_FREE = 8  # looks before every second move must halve
LIMIT = _FREE + 2 * 2 * 64 + 4
"""No target takes more looks than this."""


class Look(NamedTuple):
    """What the function says at one point for each target."""

    miss: Array
    """Function minus target."""
    move: Array
    """The change that should bring the miss to zero."""
    settled: Mask
    """Whether that move is so small that it ends the search."""
    flat: Mask
    """Whether the function says nothing here, so that the move means nothing."""
    empty: Mask
    """Whether no reading can lie here (density zero): not to be given as the answer."""


def invert(
    look: Callable[[Index, Array], Look], low: Array, high: Array, start: Array, patience: int = 1
) -> tuple[Array, Ints]:
    """The points where the function meets its targets, and the number of looks that each one took.

    ``look(which, points)`` is asked about the targets numbered `which`. The bracket [low, high] must hold
    the answer up to rounding. `patience` settled looks in a row end a search. Of points in an interval
    over which the function does not change, the left end is given; where a miss is NaN, NaN.

    Every point that is looked at becomes one end of the bracket around its target. A move that leaves the
    bracket, or starts where the function is flat, is replaced by halving; after a few moves every second one
    is. Half of the halvings count floats rather than lengths, and there are 2^64 floats, so that the bracket
    is shut, its ends neighbours, after at most `LIMIT` looks whatever the function does.

    >>> cube = lambda which, y: Look(y**3 - 8.0, (8.0 / y**2 - y) / 3, abs(y - 2) < 1e-9, y == 0, y == 0)
    >>> y, looks = invert(cube, np.array([1.0]), np.array([9.0]), np.array([3.0]))
    >>> y.tolist(), looks.tolist()
    ([2.0], [6])
    """
    low, high = low.copy(), high.copy()
    point = np.where(np.isfinite(start), np.minimum(np.maximum(start, low), high), 0.5 * low + 0.5 * high)
    rank_low, rank_high = np.full(low.shape, np.inf), np.full(low.shape, np.inf)
    calm, looks = np.zeros(low.shape, dtype=np.int64), np.zeros(low.shape, dtype=np.int64)
    answer = low.copy()
    todo = np.flatnonzero(low < high)
    for turn in range(LIMIT):
        if not todo.size:
            break
        here = point[todo]
        miss, move, settled, flat, empty = look(todo, here)
        looks[todo] += 1
        # The end with the smaller miss is the better answer, unless no reading can lie there.
        rank = np.where(empty, np.inf, np.abs(miss))
        below = miss < 0
        at = todo[below]
        low[at], rank_low[at] = here[below], rank[below]
        at = todo[~below]
        high[at], rank_high[at] = here[~below], rank[~below]
        a, b = low[todo], high[todo]
        goal = here + move
        usable = ~flat & np.isfinite(goal)
        calm[todo] = np.where(settled & usable, calm[todo] + 1, 0)
        lost = np.isnan(miss)
        found = usable & ((calm[todo] >= patience) | (goal == here)) & ~lost
        shut = ~found & (np.nextafter(a, np.inf) >= b)
        answer[todo[found]] = np.minimum(np.maximum(goal, a), b)[found]
        at = todo[shut]
        answer[at] = np.where(rank_high[at] < rank_low[at], high[at], low[at])
        usable &= (goal > a) & (goal < b)
        if turn >= _FREE and turn % 2:
            usable[:] = False
        if not usable.all():
            goal = np.where(usable, goal, middle_float(a, b) if turn % 4 > 1 else 0.5 * a + 0.5 * b)
        point[todo] = goal
        answer[todo[lost]] = np.nan
        todo = todo[~(found | shut | lost)]
    return answer, looks


def middle_float(a: Array, b: Array) -> Array:
    """The float in the middle when the floats from a to b are counted.

    >>> middle_float(np.array([1.0, -1.0]), np.array([4.0, 1.0])).tolist()
    [2.0, -0.0]
    """
    i, j = _rank(a.view(np.int64)), _rank(b.view(np.int64))
    return _rank((i & j) + ((i ^ j) >> 1)).view(np.float64)


def _rank(bits: Ints) -> Ints:
    """The bits of a float as an integer that grows with it; its own inverse."""
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


# The kinds of components ------------------------------------------------------------------------------


class Components:
    """The components of N mixtures side by side: a kind of law, and log-weights (K, N), or (K, 1) for all alike.

    A kind says how its scores, densities and quantiles are computed, and how the inverse is searched for.
    """

    __slots__ = ("log_w",)

    halley = False
    """Whether Newton's move may be corrected by the second derivative that normal components have."""
    small, patience = 1e-8, 2
    """A move that changes the densities by less ends the search: Newton's error is of second order. Twice in a row,
    because a density may have a step."""
    far = 2.5
    """The score beyond which a search starts from the quantiles of single components."""

    def __init__(self, log_w: Array) -> None:
        self.log_w = log_w

    def at(self, which: Index | slice) -> Components:
        """Those of some of the readings."""
        raise NotImplementedError  # each subclass has its own

    def scores(self, y: Array) -> Array:
        """Scores (K, N) of readings (N,): infinite outside the support of a component."""
        raise NotImplementedError  # each subclass has its own

    def logpdf(self, y: Array) -> Array:
        """Log-densities (K, N) of readings (N,)."""
        raise NotImplementedError  # each subclass has its own

    def values(self, z: Array, counts: Mask | None = None) -> Array:
        """Quantiles (K, N) of scores (N,) or (K, N); only those that `counts`, a mask (K, N), need be right."""
        raise NotImplementedError  # each subclass has its own

    def pace(self, y: Array, x: Array) -> Array:
        """dz_i/dy = f_i / phi(z_i) at readings with the scores x; 0 outside the support."""
        outside = np.isinf(x)
        pace = np.exp(self.logpdf(y) + 0.5 * x * x + _LOG_SQRT_2PI)
        pace[outside] = 0.0
        return pace

    def between(self, z: Array, quantile: Array) -> Array:
        """A point near the quantiles of the mixture, where no component rules the tail."""
        return add_up(np.exp(self.log_w) * quantile)


class Normals(Components):
    """Normal laws: means and scales (standard deviations), (K, N) or (K, 1).

    >>> parts = Normals.of([0.5, 0.5], [-5.0, 5.0], [1.0, 1.0])
    >>> mixture_score(np.array([0.0, 5.0, 400.0]), parts).round(6).tolist()
    [0.0, 0.67449, 395.001755]
    """

    __slots__ = ("mean", "scale")

    halley = True
    small, patience = 1e-5, 1  # Halley's error is of third order
    far = -1.0

    def __init__(self, log_w: Array, mean: Array, scale: Array) -> None:
        self.log_w, self.mean, self.scale = log_w, mean, scale

    @classmethod
    def of(cls, weights: ArrayLike, means: ArrayLike, scales: ArrayLike) -> Normals:
        """From weights, means and scales with the component on their last axis, (K,) or (N, K)."""
        return cls(
            log_columns(weights), *(np.atleast_2d(np.asarray(array, dtype=float)).T for array in (means, scales))
        )

    def at(self, which: Index | slice) -> Normals:
        """Those of some of the readings."""
        return Normals(*(columns(array, which) for array in (self.log_w, self.mean, self.scale)))

    def scores(self, y: Array) -> Array:
        """(y - m_i) / s_i."""
        return np.asarray((y - self.mean) / self.scale)

    def logpdf(self, y: Array) -> Array:
        """Log phi(z_i) - log s_i."""
        height = self.scores(y)
        height *= height
        height *= -0.5
        height -= np.log(self.scale) + _LOG_SQRT_2PI
        return height

    def values(self, z: Array, counts: Mask | None = None) -> Array:
        """m_i + s_i z."""
        return np.asarray(self.mean + self.scale * z)

    def pace(self, y: Array, x: Array) -> Array:
        """1 / s_i."""
        return np.asarray(1.0 / self.scale)

    def between(self, z: Array, quantile: Array) -> Array:
        """The quantile of the normal law with the mean and the variance of the mixture."""
        w = np.exp(self.log_w)
        mean = add_up(w * self.mean)
        return np.asarray(mean + z * np.sqrt(add_up(w * (self.scale**2 + (self.mean - mean) ** 2))))


class Laws(Components):
    """Any laws of one number.

    A reading outside the support of one component counts 0 or 1 there: its score is infinite. A law with a method
    ``score_or_end`` says so itself; of another law that refuses such a reading, those below its median count as
    below the support.
    """

    __slots__ = ("laws",)

    def __init__(self, log_w: Array, laws: Sequence[Law]) -> None:
        self.log_w, self.laws = log_w, laws

    def at(self, which: Index | slice) -> Laws:
        """Those of some of the readings."""
        return Laws(columns(self.log_w, which), self.laws)

    def scores(self, y: Array) -> Array:
        """By each law."""
        return self._each(_component_score, y)

    def logpdf(self, y: Array) -> Array:
        """By each law."""
        return self._each(lambda law, y: np.asarray(law.logpdf(y), dtype=float), y)

    def values(self, z: Array, counts: Mask | None = None) -> Array:
        """By each law; the last float for a quantile beyond it."""
        return self._each(_component_value, z, counts)

    def _each(self, function: Callable[[Law, Array], Array], y: Array, counts: Mask | None = None) -> Array:
        """A function of law and readings for every law, (K, N); 0 for the readings to which a law adds nothing."""
        rows = np.broadcast_to(y, (len(self.laws), y.shape[-1]))
        known = ~np.isnan(rows)
        out = np.where(known, 0.0, np.nan)
        wanted = known & (self.log_w > -np.inf) if counts is None else known & counts
        for i, law in enumerate(self.laws):
            if wanted[i].all():
                out[i] = function(law, rows[i])
            elif wanted[i].any():
                out[i, wanted[i]] = function(law, rows[i, wanted[i]])
        return out


class Moved(Components):
    """One law of noise, moved to K places (K, 1): its scores are the same function of y - place for all of them."""

    __slots__ = ("noise", "place")

    patience = 1
    far = math.inf

    def __init__(self, log_w: Array, place: Array, noise: Noise) -> None:
        self.log_w, self.place, self.noise = log_w, place, noise

    def at(self, which: Index | slice) -> Moved:
        """Those of some of the readings."""
        return Moved(columns(self.log_w, which), self.place, self.noise)

    def scores(self, y: Array) -> Array:
        """Scores of the noise."""
        return self.noise.scores(y - self.place)

    def logpdf(self, y: Array) -> Array:
        """Log-densities of the noise."""
        return np.asarray(self.noise.law.logpdf(y - self.place), dtype=float)

    def values(self, z: Array, counts: Mask | None = None) -> Array:
        """Quantiles of the noise, moved."""
        return np.asarray(self.place + np.asarray(self.noise.law.value(z), dtype=float))

    def between(self, z: Array, quantile: Array) -> Array:
        """A quantile of the noise, its scale widened by the spread of the places."""
        w = np.exp(self.log_w)
        mean = add_up(w * self.place)
        spread = np.sqrt(add_up(w * (self.place - mean) ** 2)) / self.noise.scale
        middle = mean + self.noise.middle
        return np.asarray(middle + (add_up(w * quantile) - middle) * np.hypot(1.0, spread))


class Noise:
    """A law of one number with its median and the length from score -1/2 to 1/2; scores are infinite outside."""

    __slots__ = ("_ends", "law", "middle", "scale")

    def __init__(self, law: Law) -> None:
        self.law = law
        self._ends = self._end(-37.0, -math.inf), self._end(37.0, math.inf)  # beyond them nothing is left of a tail
        low, self.middle, high = (float(law.value(z)) for z in (-0.5, 0.0, 0.5))
        self.scale = high - low

    def _end(self, z: float, otherwise: float) -> float:
        try:
            return float(self.law.value(z))
        except ArithmeticError:  # a heavy tail that leaves float64 before the score does
            return otherwise

    def scores(self, e: Array) -> Array:
        """Scores, infinite where the density is zero."""
        low, high = self._ends
        beyond = (e < low) | (e > high)
        if not beyond.any():
            return np.asarray(self.law.score(e), dtype=float)
        beyond[beyond] = np.asarray(self.law.logpdf(e[beyond])) == -np.inf
        z = np.where(e < self.middle, -np.inf, np.inf)
        if not beyond.all():
            z[~beyond] = self.law.score(e[~beyond])
        return z


def _component_score(law: Law, y: Array) -> Array:
    """Scores, infinite outside the support, NaN where they cannot be computed."""
    score = getattr(law, "score_or_end", law.score)
    try:
        return np.asarray(score(y), dtype=float)
    except (ReadingError, NumericalError):
        return np.array([_one_component_score(law, score, reading) for reading in y.tolist()])


def _one_component_score(law: Law, score: Callable[[float], Numbers], y: float) -> float:
    try:
        return float(score(y))
    except ReadingError:
        return -math.inf if y < law.value(0.0) else math.inf
    except NumericalError:
        return math.nan


def _component_value(law: Law, z: Array) -> Array:
    """Quantiles; the last float for one that is beyond it."""
    try:
        return np.asarray(law.value(z), dtype=float)
    except NumericalError:
        return np.array([_one_component_value(law, score) for score in z.tolist()])


def _one_component_value(law: Law, z: float) -> float:
    try:
        return float(law.value(z))
    except NumericalError:
        return math.copysign(_LAST, z)


# The core: scores, densities and quantiles of mixtures ------------------------------------------------


def mixture_score(y: Array, parts: Components) -> Array:
    """Scores of readings (N,): infinite outside every support, NaN where one cannot be computed."""
    return _blockwise(lambda y, parts: blend_scores(parts.scores(y), parts.log_w), y, parts)


def mixture_logpdf(y: Array, parts: Components) -> Array:
    """Log-densities of readings (N,).

    >>> mixture_logpdf(np.array([0.0]), Normals.of([0.5, 0.5], [0.0, 0.0], [1.0, 1.0])).round(6).tolist()
    [-0.918939]
    """
    return _blockwise(lambda y, parts: log_sum(parts.log_w + parts.logpdf(y)), y, parts)


def mixture_value(z: Array, parts: Components, table: Table | None = None) -> Array:
    """The readings with scores (N,): the inverse of `mixture_score`; NaN for one beyond all floats.

    A `table` of the mixture, if all readings have the same, gives better points to start from.

    >>> mixture_value(np.array([0.0, 0.67449]), Normals.of([0.5, 0.5], [-5.0, 4.0], [1.0, 1.0])).round(3).tolist()
    [-0.5, 4.0]
    """
    return _blockwise(lambda z, parts: search(z, parts, table)[0], z, parts)


def blend_scores(z: Array, log_w: Array) -> Array:
    """Score of a mixture from those of its components; infinite where every component is, NaN where one is.

    >>> blend_scores(np.array([[-1.0, 40.0], [1.0, 60.0]]), np.log([[0.5], [0.5]])).round(6).tolist()
    [0.0, 40.017314]
    """
    from scipy.special import ndtr, ndtri

    w = np.exp(log_w)
    small = ndtr(-np.abs(z))
    large = 1.0 - small
    left = z < 0.0
    below = add_up(w * np.where(left, small, large))
    above = add_up(w * np.where(left, large, small))
    out = np.asarray(ndtri(np.minimum(below, above)))
    out = np.where(above < below, -out, out)
    deep = np.minimum(below, above) < _DEEP
    if deep.any():
        at = np.flatnonzero(deep)
        out[at] = _deep_score(z.take(at, axis=1), columns(log_w, at))
    return out


def _deep_score(z: Array, log_w: Array) -> Array:
    from scipy.special import log_ndtr, ndtri_exp

    below = np.logaddexp.reduce(log_w + log_ndtr(z), axis=0)
    above = np.logaddexp.reduce(log_w + log_ndtr(-z), axis=0)
    out = np.where(above < below, -ndtri_exp(above), ndtri_exp(below))
    lost = np.isinf(out)
    if lost.any():
        # log Phi(-z) = -z^2/2 has left float64, and beside it the weights are nothing: the nearest one counts.
        nearest = np.where(log_w > -np.inf, np.abs(z), np.inf).min(axis=0)
        out[lost] = np.copysign(nearest, out)[lost]
    return np.asarray(out)


def search(z: Array, parts: Components, table: Table | None = None) -> tuple[Array, Ints]:
    """The quantiles of scores (N,), and the number of looks that each took."""
    quantile = parts.values(z)
    weighs = parts.log_w != -np.inf  # NaN weighs, and makes NaN
    if weighs.all():
        low, high = quantile.min(axis=0), quantile.max(axis=0)
    else:
        low = np.where(weighs, quantile, np.inf).min(axis=0)
        high = np.where(weighs, quantile, -np.inf).max(axis=0)
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    ends = np.zeros(z.shape, dtype=bool)

    def look(which: Index, y: Array) -> Look:
        some = parts.at(which)
        x = some.scores(y)
        if not some.halley:
            ends[which] |= np.isinf(x).any(axis=0)
        return _assess(some, side[which] * x, some.pace(y, x), goal[which], side[which])

    start = np.full(z.shape, np.nan) if table is None else table.start(z)
    unknown = np.flatnonzero(np.isnan(start))
    if unknown.size:
        start[unknown] = _start(z[unknown], parts.at(unknown), quantile.take(unknown, axis=1))
    y, looks = invert(look, low, high, start, parts.patience)
    y = _out_of_holes(y, parts, np.flatnonzero(ends))
    return np.where(np.abs(y) < _LAST, y, np.nan), looks


def _start(z: Array, parts: Components, quantile: Array) -> Array:
    """A point near the quantile.

    With q the tail beyond the quantile, w_i Q_i(y) <= q for every component: so y lies beyond each
    Q_i^-1(q / w_i), and where one component rules the tail it is the farthest of them.
    """
    from scipy.special import log_ndtr, ndtri_exp

    start = parts.between(z, quantile)
    at = np.flatnonzero(np.abs(z) > parts.far)
    if at.size:
        some, z = parts.at(at), z[at]
        side = np.where(z < 0.0, -1.0, 1.0)
        excess = log_ndtr(-np.abs(z)) - some.log_w
        counts = excess < 0.0
        beyond = side * some.values(-side * ndtri_exp(np.minimum(excess, -1e-300)), counts)
        farthest = np.where(counts, beyond, -np.inf).max(axis=0)
        start[at] = np.where(np.isfinite(farthest), side * farthest, start[at])
    return start


def _assess(parts: Components, x: Array, pace: Array, goal: Array, side: Array) -> Look:
    """What a mixture says about the quantile of score ``side * goal`` (side 1 or -1) at one point for each.

    `x` are the scores of the components, with the sign turned so that the target is above the middle; `pace` is the
    rate dz_i/dy at which they change, so that the densities are phi(x) times it. Newton's method is applied to the
    score, which in the tails of a Gaussian is a straight line.
    """
    from scipy.special import ndtr, ndtri

    log_w = parts.log_w
    w = np.exp(log_w)
    tail = add_up(w * ndtr(-x))
    score = np.asarray(-ndtri(tail))
    density = w * pace * np.exp(-0.5 * x * x)
    total = add_up(density)
    deep = tail < _DEEP
    if deep.any():
        at = np.flatnonzero(deep)
        score[at], part = _deep_parts(x.take(at, axis=1), columns(pace, at), columns(log_w, at))
        density[:, at], total[at] = part, add_up(part)
        scale = np.where(deep, 1.0, np.exp(0.5 * score * score))
    else:
        scale = np.exp(0.5 * score * score)
    # dz/dy = f / phi(z)
    slope = total * scale
    change = density * pace
    turn = change * (x if parts.halley else np.clip(x, -1e300, 1e300))
    # the rate at which the densities of the components change
    rate = add_up(change + np.abs(turn)) / total
    miss = score - goal
    move = -miss / slope
    if parts.halley:
        # z'' / z' = d log f / dy + z z', with d log f / dy = - sum_i f_i x_i pace_i / f
        move /= np.clip(1.0 + 0.5 * move * (score * slope - add_up(turn) / total), 0.5, 2.0)
    # a score that changes by less than 1e-13 over the width of a component tells nothing about the reading
    flat = ~(slope > 1e-13 * rate)
    settled = np.abs(move) * (rate + (1.0 + np.abs(score)) * slope) < parts.small
    return Look(side * miss, side * move, settled, flat, ~(total > 0.0))


def _deep_parts(x: Array, pace: Array, log_w: Array) -> tuple[Array, Array]:
    """The score, and the components' densities over phi(score)."""
    from scipy.special import log_ndtr, ndtri_exp

    score = -ndtri_exp(np.logaddexp.reduce(log_w + log_ndtr(-x), axis=0))
    log_density = log_w + np.log(pace) - 0.5 * x * x
    return score, np.exp(log_density + 0.5 * score * score)


def _out_of_holes(y: Array, parts: Components, at: Index) -> Array:
    """Answers that were rounded into a hole between supports are moved to the float beside it."""

    def empty(y: Array, at: Index) -> Mask:
        return np.isneginf(mixture_logpdf(y, parts.at(at)))

    out = at[empty(y[at], at)] if at.size else at
    for end in (-np.inf, np.inf):
        if not out.size:
            break
        beside = np.nextafter(y[out], end)
        good = ~empty(beside, out)
        y[out[good]] = beside[good]
        out = out[~good]
    return y


def log_sum(terms: Array) -> Array:
    """Logarithm of the sum over the components of the exponentials."""
    top = terms.max(axis=0)
    top = np.where(np.isinf(top), 0.0, top)
    return np.asarray(top + np.log(add_up(np.exp(terms - top))))


def columns(array: Array, at: Index | slice) -> Array:
    """The columns `at` of (K, N); one column stands for all."""
    if array.shape[1] == 1:
        return array
    return array[:, at] if isinstance(at, slice) else array.take(at, axis=1)


def log_columns(weights: ArrayLike) -> Array:
    """Logarithms, (K, N) or (K, 1), of weights with the component on the last axis, (N, K) or (K,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.ascontiguousarray(np.atleast_2d(np.asarray(weights, dtype=float)).T)))


def add_up(terms: Array) -> Array:
    """The sum over the components, added up in the same order for one reading and for many."""
    return np.asarray(terms.sum(axis=0) if terms.shape[1] > 1 else np.add.accumulate(terms, axis=0)[-1])


def blocks(count: int, components: int) -> Iterable[slice]:
    """Parts of `count` readings that are small enough to be worked on at a time."""
    size = max(1, min(8192, _BLOCK // components))
    return (slice(first, first + size) for first in range(0, max(count, 1), size))


def _blockwise(function: Callable[[Array, Components], Array], y: Array, parts: Components) -> Array:
    out = np.empty(y.shape)
    with np.errstate(all="ignore"):
        for block in blocks(y.size, len(parts.log_w)):
            out[block] = function(y[block], parts.at(block))
    return out


_SPAN, _NODES = 5.0, 513
_STEP = 2.0 * _SPAN / (_NODES - 1)


class Table:
    """Quantiles of one mixture on a grid of scores, with cubic interpolation: where to start the search for others.

    The slopes at the nodes come from the density. The start of a search shows in the last digit of its end, so a law
    has one table for all of its values, however many are asked for at a time.

    >>> table = Table(Normals.of([0.5, 0.5], [0.0, 1.0], [1.0, 2.0]))
    >>> z = np.array([0.123, 4.0])
    >>> np.abs(table.start(z) - mixture_value(z, Normals.of([0.5, 0.5], [0.0, 1.0], [1.0, 2.0]))).max() < 1e-6
    np.True_
    """

    __slots__ = ("_slope", "_y")

    def __init__(self, parts: Components) -> None:
        z = np.linspace(-_SPAN, _SPAN, _NODES)
        with np.errstate(all="ignore"):
            self._y = mixture_value(z, parts)
            # dy/dz = phi(z) / f(y), for a step of the grid
            log_slope = -0.5 * z * z - _LOG_SQRT_2PI - mixture_logpdf(self._y, parts)
            self._slope = _STEP * np.exp(np.minimum(log_slope, 700.0))

    def start(self, z: Array) -> Array:
        """A point near the quantile of score z, NaN beyond the nodes."""
        place = (z + _SPAN) / _STEP
        inside = (place >= 0.0) & (place < _NODES - 1)
        place = np.where(inside, place, 0.0)
        node = place.astype(np.intp)
        t = place - node
        y, slope = self._y, self._slope
        low, rise = y[node], y[node + 1] - y[node]
        a, b = slope[node] - rise, rise - slope[node + 1]
        return np.where(inside, low + t * (rise + (1.0 - t) * ((1.0 - t) * a + t * b)), np.nan)


# One reading under normal components, in plain floats -------------------------------------------------


_ROOT_HALF = math.sqrt(0.5)
LOOKS = 30
"""Points that a search in plain floats looks at before it gives up."""

Part = tuple[float, float, float]
"""Weight, mean and scale of a component."""


def one_score(y: float, parts: Sequence[Part]) -> float | None:
    """Z = Phi^-1(sum_i w_i Phi((y - m_i) / s_i)), or None.

    >>> round(one_score(5.0, [(0.5, -5.0, 1.0), (0.5, 5.0, 1.0)]), 6)
    0.67449
    """
    from scipy.special import ndtri

    below = above = 0.0
    for w, mean, scale in parts:
        z = (y - mean) / scale
        small = 0.5 * erfc(abs(z) * _ROOT_HALF)
        if z < 0.0:
            below += w * small
            above += w * (1.0 - small)
        else:
            below += w * (1.0 - small)
            above += w * small
    if below <= above:
        return float(ndtri(below)) if below > _DEEP else None
    return -float(ndtri(above)) if above > _DEEP else None


def one_logpdf(y: float, parts: Sequence[Part]) -> float | None:
    """Log-density, or None.

    >>> round(one_logpdf(0.0, [(0.5, 0.0, 1.0), (0.5, 0.0, 1.0)]), 6)
    -0.918939
    """
    logs = [-0.5 * ((y - mean) / scale) ** 2 for _, mean, scale in parts]
    top = max(logs)
    if not isfinite(top):
        return None
    total = sum(w / scale * exp(height - top) for (w, _, scale), height in zip(parts, logs, strict=True))
    return top + log(total) - _LOG_SQRT_2PI if total > _DEEP else None


def one_value(z: float, parts: Sequence[Part]) -> float | None:
    """The reading with score `z`, or None: Halley's method as in the core, inside a bracket.

    >>> round(one_value(0.67449, [(0.5, -5.0, 1.0), (0.5, 4.0, 1.0)]), 3)
    4.0
    """
    from scipy.special import ndtri

    side, goal = (-1.0, -z) if z < 0.0 else (1.0, z)
    q = 0.5 * erfc(goal * _ROOT_HALF)
    if not q > _DEEP:
        return None
    # everything below is mirrored for z < 0, so that the target is above the middle: u = side y
    quantiles = [side * mean + scale * goal for _, mean, scale in parts]
    low, high = min(quantiles), max(quantiles)
    beyond = [side * mean - scale * float(ndtri(q / w)) for w, mean, scale in parts if q < w]
    u = max(beyond) if beyond else sum(part[0] * quantile for part, quantile in zip(parts, quantiles, strict=True))
    u = min(max(u, low), high)
    for _ in range(LOOKS):
        tail = total = bend = rate = 0.0
        for w, mean, scale in parts:
            x = (u - side * mean) / scale
            density = w * exp(-0.5 * x * x) / scale
            change = density / scale
            tail += 0.5 * w * erfc(x * _ROOT_HALF)
            total += density
            bend -= change * x
            rate += change * (1.0 + abs(x))
        if not (_DEEP < tail < 1.0 and total > 0.0):
            return None
        score = -float(ndtri(tail))
        slope = total * exp(0.5 * score * score)
        if not slope * total > 1e-12 * rate:
            return None
        miss = score - goal
        move = -miss / slope
        move /= min(max(1.0 + 0.5 * move * (score * slope + bend / total), 0.5), 2.0)
        if miss < 0.0:
            low = u
        else:
            high = u
        if abs(move) * (rate / total + (1.0 + abs(score)) * slope) < Normals.small:
            return side * min(max(u + move, low), high)
        u = u + move if low < u + move < high else 0.5 * low + 0.5 * high
    return None


# The law ----------------------------------------------------------------------------------------------


class Mixture(Frozen):
    """A reading from one of several laws of one number, with the given probabilities.

    The laws may be any of dimension 1: `Gaussian`, `Scalar`, another `Mixture`, one of your own.

    Parameters
    ----------
    weights : array_like, shape (K,)
        Probabilities of the laws.
    laws : sequence of laws
        K laws of one number, without atoms.

    Raises
    ------
    LawError
        If the weights are not probabilities, or a law is not a continuous law of one number.

    Examples
    --------
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

    __slots__ = ("_components", "_given", "_laws", "_parts", "_table", "_weights", "dim")

    dim: int
    _laws: tuple[Law, ...]
    _weights: Array
    _given: tuple[float, ...]
    _components: Components
    _parts: tuple[Part, ...]
    _table: Table

    def __init__(self, weights: Sequence[float] | Array, laws: Sequence[Law]) -> None:
        put = object.__setattr__  # a hidden state makes one for every reading; the guard of `Frozen` would cost a third
        put(self, "dim", 1)
        put(self, "_laws", _check_laws(laws))
        put(self, "_weights", check_weights(weights, len(self._laws)))
        put(self, "_given", tuple(float(weight) for weight in weights))
        parts = [part for part in _flatten(self._weights, self._laws) if part[0] > -math.inf]
        components = components_of(np.array([[log_w] for log_w, _ in parts]), [law for _, law in parts])
        put(self, "_components", components)
        put(self, "_parts", _plain(components) if isinstance(components, Normals) else ())

    @property
    def weights(self) -> Array:
        """The probabilities of the laws, summing to 1."""
        return self._weights

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws."""
        return self._laws

    @property
    def normals(self) -> tuple[Part, ...]:
        """Weight, mean and scale of each component where all are normal; otherwise empty."""
        return self._parts

    @property
    def components(self) -> Components:
        """What is mixed in the end: inner mixtures taken apart, laws of weight zero left out."""
        return self._components

    def __reduce__(self) -> tuple[type[Mixture], tuple[tuple[float, ...], tuple[Law, ...]]]:
        return Mixture, (self._given, self._laws)

    def to_dict(self, place: Place) -> Plain:
        """Weights as they were given, before they are divided by their sum, and laws; see `understudy.serialize`."""
        return {"weights": list(self._given), "laws": laws_to_plain(self._laws, place / "laws")}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Mixture:
        """The law again."""
        given = fields(place, plain, "weights", "laws")
        weights = stored_array(place / "weights", given["weights"], 1)
        return construct(place, cls, weights, laws_from_plain(given["laws"], place / "laws"))

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Mixture({len(self._laws)} laws, dim=1)"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = Phi^-1(sum_i w_i F_i(y)), element by element; NaN stays NaN."""
        if self._parts and isinstance(y, float):
            z = one_score(float(y), self._parts)
            if z is not None:
                return z
        readings = channels(y, 1, "reading")[0]
        scores = mixture_score(readings, self._components)
        check_inside(scores, np.shape(y))
        check_reached(scores, readings, np.shape(y), "reading")
        return to_shape(scores, np.shape(y))

    def score_or_end(self, y: ArrayLike) -> Numbers:
        """The score, or -inf below all supports and inf above, where `score` refuses."""
        return to_shape(mixture_score(channels(y, 1, "reading")[0], self._components), np.shape(y))

    def value(self, z: ArrayLike) -> Numbers:
        """The reading with this score: the inverse of `score`, at an end of the hole if it meets one."""
        if self._parts and isinstance(z, float):
            y = one_value(float(z), self._parts)
            if y is not None:
                return y
        scores = channels(z, 1, "score")[0]
        if np.ndim(z) and not hasattr(self, "_table"):
            # past the guard of a frozen value: two threads may both find it missing
            object.__setattr__(self, "_table", Table(self._components))
        readings = mixture_value(scores, self._components, self._table if np.ndim(z) else None)
        check_reached(readings, scores, np.shape(z), "score")
        return to_shape(readings, np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density: log sum_i w_i f_i(y)."""
        if self._parts and isinstance(y, float):
            height = one_logpdf(float(y), self._parts)
            if height is not None:
                return height
        return to_shape(mixture_logpdf(channels(y, 1, "reading")[0], self._components), np.shape(y))


def components_of(log_w: Array, laws: Sequence[Law]) -> Components:
    """Components of the given laws of one number, with log-weights (K, N) or (K, 1); normal laws in one array."""
    given = [law.arguments for law in laws if type(law) is Gaussian]
    if len(given) < len(laws):
        return Laws(log_w, laws)
    means, variances = np.array(given, dtype=float).T[:, :, None]
    return Normals(log_w, means, np.sqrt(variances))


def _plain(parts: Normals) -> tuple[Part, ...]:
    """Weights, means and standard deviations as numbers."""
    arrays = (np.exp(parts.log_w), parts.mean, parts.scale)
    return tuple(zip(*(array[:, 0].tolist() for array in arrays), strict=True))


def _flatten(weights: Array, laws: Sequence[Law]) -> list[tuple[float, Law]]:
    """Log-weights and laws, with those of an inner mixture in its place."""
    parts: list[tuple[float, Law]] = []
    for weight, law in zip(weights.tolist(), laws, strict=True):
        log_w = math.log(weight) if weight > 0.0 else -math.inf
        if isinstance(law, Mixture):
            parts += [(log_w + other, part) for other, part in _flatten(law.weights, law.laws)]
        else:
            parts.append((log_w, law))
    return parts


def _check_laws(laws: Sequence[Law]) -> tuple[Law, ...]:
    try:
        given = tuple(laws)
    except TypeError:
        raise LawError(f"laws is of type {type(laws).__name__}; it must be a list of laws of one number") from None
    for i, law in enumerate(given):
        if type(law) is Gaussian and law.dim == 1:
            continue
        if not is_law(law):
            raise LawError(f"law {i} is of type {type(law).__name__}; it must be a law")
        dim = dimension(law)
        if dim != 1:
            raise LawError(f"law {i} has dim = {dim}; a mixture is of laws of one number (see GaussianMixture)")
        if has_atoms(law):
            raise LawError(f"law {i} has atoms; a mixture is of continuous laws (a mixture of Atoms is Atoms itself)")
    return given


def check_weights(weights: ArrayLike, count: int, what: str = "laws") -> Array:
    """Weights of a mixture, summing to 1."""
    try:
        w = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise LawError(f"weights are of type {type(weights).__name__}; they must be a vector of numbers") from None
    if w.ndim != 1 or w.size == 0:
        raise LawError(f"weights have shape {w.shape}; they must be a vector with one weight for each law")
    if w.size != count:
        raise LawError(f"there are {w.size} weights and {count} {what}; each needs one weight")
    for i, weight in enumerate(w.tolist()):
        if not 0.0 <= weight < math.inf:
            raise LawError(f"weight {i} is {weight!r}; weights must be finite and not negative")
    total = math.fsum(w.tolist())
    if abs(total - 1.0) > 1e-9:
        raise LawError(f"the weights sum to {total!r}; they must sum to 1")
    w /= total
    w.flags.writeable = False
    return w
