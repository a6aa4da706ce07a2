"""Noise moved to one of many places: the law of a reading whose hidden state is a cloud of points.

If the state is at x_i with weight w_i and the reading is read(x_i) plus noise, the law of the reading is
the noise law moved to each read(x_i), weighted by w_i: a mixture whose c.d.f. and density are sums over
the cloud. All parts have one noise law, so a thousand of them are worked on as one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array, Frozen, Law
from understudy.laws.blend import Parts, assess, blended_score
from understudy.laws.gaussian import Gaussian
from understudy.laws.independent import Independent
from understudy.laws.inverse import Index, Look, invert
from understudy.laws.shapes import channels, check_inside, check_reached, shaped

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_BLOCK = 1 << 16  # entries of a table places x readings worked on at a time
_SMALL, _SMALL_HALLEY = 1e-8, 1e-5  # Newton's error is of second order, Halley's of third
_FAR = 37.0  # a score beyond which nothing is left of a tail


class _Normal:
    """A standard normal channel."""

    middle, scale = 0.0, 1.0

    def scores(self, e: Array) -> Array:
        return e

    def logpdf(self, e: Array) -> Array:
        out = e * e
        out *= -0.5
        out -= _LOG_SQRT_2PI
        return np.asarray(out)

    def values(self, z: Array) -> Array:
        return z


class _Channel:
    """A channel with any law of one number; outside its support scores are infinite."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._ends = self._end(-_FAR, -math.inf), self._end(_FAR, math.inf)
        low, self.middle, high = (float(law.value(z)) for z in (-0.5, 0.0, 0.5))
        self.scale = high - low

    def _end(self, z: float, otherwise: float) -> float:
        try:
            return float(self._law.value(z))
        except ArithmeticError:  # a heavy tail that leaves float64 before the score does
            return otherwise

    def scores(self, e: Array) -> Array:
        low, high = self._ends
        beyond = (e < low) | (e > high)
        if not beyond.any():
            return np.asarray(self._law.score(e), dtype=float)
        beyond[beyond] = self.logpdf(e[beyond]) == -np.inf
        z = np.where(e < self.middle, -np.inf, np.inf)
        if not beyond.all():
            z[~beyond] = self._law.score(e[~beyond])
        return z

    def logpdf(self, e: Array) -> Array:
        return np.asarray(self._law.logpdf(e), dtype=float)

    def values(self, z: Array) -> Array:
        return np.asarray(self._law.value(z), dtype=float)


class ReadingNoise(Frozen):
    """Noise of a reading as independent channels behind a triangular matrix: v = mean + L e.

    A Gaussian has standard normal channels. Other laws have L = I: one number, or `Independent` ones.
    """

    __slots__ = ("_channels", "_law", "_log_det", "_mean", "_root", "dim")

    def __init__(self, law: Law) -> None:
        d = int(getattr(law, "dim", 1))
        self.dim: int = d
        self._law = law
        self._channels: Sequence[Any]
        if isinstance(law, Gaussian):
            self._mean = np.reshape(law.mean, (d, 1))
            self._root: Array | None = np.linalg.cholesky(np.reshape(law.cov, (d, d)))
            self._channels = (_Normal(),) * d
        elif d == 1 or isinstance(law, Independent):
            self._mean, self._root = np.zeros((d, 1)), None
            self._channels = tuple(_Channel(part) for part in (law.laws if isinstance(law, Independent) else (law,)))
        else:
            raise LawError(
                f"reading_noise is a {type(law).__name__} of {d} channels; noise of several channels must be "
                "Gaussian or Independent"
            )
        self._log_det = 0.0 if self._root is None else float(np.log(np.diag(self._root)).sum())

    def __repr__(self) -> str:
        return f"ReadingNoise(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadingNoise, (self._law,)

    @property
    def law(self) -> Law:
        """The law that was given."""
        return self._law

    @property
    def channels(self) -> Sequence[Any]:
        """The laws of e, one a channel."""
        return self._channels

    @property
    def log_det(self) -> float:
        """Log det L."""
        return self._log_det

    def places(self, shifts: Array) -> Array:
        """L^-1 (shifts + mean): where the channels of e are moved to."""
        return self.solve(shifts + self._mean)

    def solve(self, y: Array) -> Array:
        """L^-1 y, for (d, N)."""
        if self._root is None:
            return y
        L, e = self._root, np.empty_like(y)
        for i in range(self.dim):
            t = y[i]
            for j in range(i):
                t = t - L[i, j] * e[j]
            e[i] = t / L[i, i]
        return e

    def multiply(self, e: Array) -> Array:
        """L e, for (d, N)."""
        if self._root is None:
            return e
        L, y = self._root, np.empty_like(e)
        for i in range(self.dim):
            y[i] = L[i, 0] * e[0]
            for j in range(1, i + 1):
                y[i] = y[i] + L[i, j] * e[j]
        return y


class ShiftedMixture(Frozen):
    """The law of a reading whose noise is moved to one of N places, with given probabilities.

    `shifts` is (N,) for one channel or (d, N). With L the root of a Gaussian noise's covariance, L^-1 y
    is a mixture with independent channels in each part, so its conditional laws, channel by channel, are
    mixtures with the same places and changed weights; and L is triangular, so these are the scores of y.

    >>> law = ShiftedMixture(np.array([-3.0, 3.0]), np.log([0.5, 0.5]), ReadingNoise(Gaussian(0.0, 1.0)))
    >>> law
    ShiftedMixture(2 points, dim=1)
    >>> round(law.value(0.0), 9) + 0.0
    0.0
    >>> round(law.score(law.value(2.5)), 9)
    2.5
    """

    __slots__ = ("_log_w", "_noise", "_places", "_shifts", "dim")

    def __init__(self, shifts: Any, log_weights: Any, noise: ReadingNoise) -> None:
        self.dim: int = noise.dim
        self._noise = noise
        self._shifts = np.reshape(np.asarray(shifts, dtype=float), (noise.dim, -1))
        # components come first: (d, N, 1) and (N, 1)
        self._places = noise.places(self._shifts)[:, :, None]
        self._log_w = np.asarray(log_weights, dtype=float)[:, None]

    @property
    def log_weights(self) -> Array:
        """Logarithms of the probabilities (N,)."""
        return self._log_w[:, 0]

    @property
    def noise(self) -> ReadingNoise:
        """The noise that is moved."""
        return self._noise

    @property
    def shifts(self) -> Array:
        """Where it is moved to: (d, N)."""
        return self._shifts

    def __repr__(self) -> str:
        return f"ShiftedMixture({self._log_w.size} points, dim={self.dim})"

    @property
    def steps(self) -> Array:
        """How far each place is from the one before it (N - 1,), in scales of the noise; the farthest channel."""
        scales = np.array([channel.scale for channel in self._noise.channels])[:, None]
        return np.asarray((np.abs(np.diff(self._places[:, :, 0], axis=1)) / scales).max(axis=0))

    def likelihoods(self, y: Any) -> Array:
        """Log-density of one reading for each place (N,): what the weights are updated by."""
        return self._parts(channels(y, self.dim, "reading")[:, :1])[:, 0]

    def logpdf(self, y: Any) -> Any:
        """Log-density of the joint law of the channels."""
        rows = channels(y, self.dim, "reading")
        out = [_log_sum(np.add(parts := self._parts(block), self._log_w, out=parts)) for block in self._blocks(rows)]
        return shaped(np.concatenate(out), np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    def score(self, y: Any, v: Any = None) -> Any:
        """Scores of the channels, each given those before it."""
        rows = channels(y, self.dim, "reading")
        with np.errstate(all="ignore"):
            z = np.concatenate([self._scores(block) for block in self._blocks(rows)], axis=1)
        check_inside(z, np.shape(y))
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with these scores, channel after channel."""
        rows = channels(z, self.dim, "score")
        with np.errstate(all="ignore"):
            y = np.concatenate([self._values(block) for block in self._blocks(rows)], axis=1)
        check_reached(y, rows, np.shape(z), "score")
        return shaped(y, np.shape(z))

    def _blocks(self, rows: Array) -> list[Array]:
        size = max(1, _BLOCK // self._log_w.size)
        return [rows[:, first : first + size] for first in range(0, max(1, rows.shape[1]), size)]

    def _parts(self, rows: Array) -> Array:
        """Log-density (N, M) of the readings (d, M) for each place."""
        e = self._noise.solve(rows)
        first, *others = zip(self._noise.channels, self._places, e, strict=True)
        total: Array = first[0].logpdf(first[2] - first[1])
        for channel, place, row in others:
            total += channel.logpdf(row - place)
        total -= self._noise.log_det
        return total

    def _scores(self, rows: Array) -> Array:
        e = self._noise.solve(rows)
        z, log_w = np.empty(rows.shape), self._log_w
        for i, (channel, place) in enumerate(zip(self._noise.channels, self._places, strict=True)):
            z[i] = blended_score(channel.scores(e[i] - place), log_w)
            if i + 1 < self.dim:
                log_w = _given(log_w + channel.logpdf(e[i] - place))
        return z

    def _values(self, rows: Array) -> Array:
        e, log_w = np.empty(rows.shape), self._log_w
        for i, (channel, place) in enumerate(zip(self._noise.channels, self._places, strict=True)):
            e[i] = _quantiles(channel, place, log_w, rows[i])
            if i + 1 < self.dim:
                log_w = _given(log_w + channel.logpdf(e[i] - place))
        return self._noise.multiply(e)


def _given(log_w: Array) -> Array:
    return np.asarray(log_w - _log_sum(log_w.copy()))


def _log_sum(terms: Array) -> Array:
    """Log of the sum of exponentials over the places; the terms are overwritten."""
    top = terms.max(axis=0)
    top = np.where(np.isinf(top), 0.0, top)
    terms -= top
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(terms.sum(axis=0)))


def _quantiles(channel: Any, place: Array, log_w: Array, z: Array) -> Array:
    """Where the mixture of one channel has the scores z: between the outermost quantiles of its parts."""
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    quantile = channel.values(z)
    weighs = log_w > -np.inf
    low = np.where(weighs, place, np.inf).min(axis=0) + quantile
    high = np.where(weighs, place, -np.inf).max(axis=0) + quantile
    w = np.exp(log_w)
    mean = (w * place).sum(axis=0)
    spread = np.sqrt((w * (place - mean) ** 2).sum(axis=0)) / channel.scale
    start = mean + channel.middle + (quantile - channel.middle) * np.hypot(1.0, spread)
    normal = isinstance(channel, _Normal)

    def look(which: Index, y: Array) -> Look:
        e = y - place
        x = channel.scores(e)
        # dz/dy = f / phi(z)
        pace = (
            np.ones_like(x)
            if normal
            else np.where(np.isinf(x), 0.0, np.exp(channel.logpdf(e) + 0.5 * x * x + _LOG_SQRT_2PI))
        )
        weights = log_w if log_w.shape[1] == 1 else log_w[:, which]
        return assess(
            Parts(side[which] * x, pace, weights),
            goal[which],
            side[which],
            _SMALL_HALLEY if normal else _SMALL,
            halley=normal,
        )

    answer, _ = invert(look, low + 0.0 * z, high + 0.0 * z, start)
    return np.where(np.isnan(z), np.nan, answer)
