"""Readings on a grid, quickly: the maps of a `Quantised` model.

On the way out a rounded process is the unrounded one, rounded: the pair of Kalman filters of
`understudy.transform.kalman_pair`, and a rounding. On the way in the filter runs in a compiled loop where there is one:
matched moments for every model, point masses for one channel with noise. A reading that the loop cannot do (far out in
a tail, or a missing one among point masses) is done by the model's own methods, and the loop goes on after it. The
state of a whitening is the number of readings so far and the state of the model.

**Blocks side by side.** Each reading needs the state after the one before, so the loop waits for itself. But a filter
forgets: begun somewhere before, from a guess, it soon has the state that it would have had, to the last bit. So long
runs are cut into eight blocks that go side by side, each begun early enough; where a block ends exactly in the state in
which the next one began, both are what one after the other gives, and where it does not, the readings from there on are
done again.

**Narrow cells.** Polynomials, fitted once for a filter, spare its loop the exponentials. In a cell of half-width h (in
standard deviations) around m, the density is proportional to exp(-c t - g t^2 / 2) with t in (-1, 1), c = m h and
g = h^2. Over the cells of one filter g hardly varies, so the mean of t over -c, and its variance, are polynomials of
few terms in c^2 and g; so are the parts of ::

    W(w, g) = int_0^1 exp(-w s - g s^2 / 2) ds = even(w^2, g) - w odd(w^2, g)

of which a score is the inverse: the t with t W(c t, g t^2) = D is t_0 = -log(1 - c D) / c for g = 0, and in general
t_0 times a polynomial in c t_0 and g t_0^2. There are two sets of degrees. The short one serves steps up to about a
quarter of a standard deviation, and cells up to four standard deviations out; the long one steps up to a half. Each fit
is compared with what it stands for; where neither is good enough there is no table, and the loop takes the longer way.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Mask, Numbers
from understudy.errors import NumericalError, ReadingError, StateError
from understudy.laws.atoms import NARROW_PAIRS
from understudy.laws.uniforms import Uniforms
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.quantised import Quantised
from understudy.models.quantised_residual import USUAL, CellState, freeze, leap_cells
from understudy.transform.backend import compiled, kernels_rounded, view
from understudy.transform.kalman_pair import Pair, left_the_range, white
from understudy.transform.readings import CausalMap, Reading, State, infinite

# Narrow cells -----------------------------------------------------------------------------------------

TOP = 0.36
"""Largest c^2 of the long polynomials: cells further out take the longer way."""
FAR_OUT = 16.0
"""The same for the short ones, over g: four standard deviations."""
_WIDEST = 0.0667  # largest g: steps up to about half a standard deviation
_GOOD = 5e-11  # largest error of a fit, in the units of a score
_NODES = 20
_ROOM = 1.05  # over the largest c t_0

Function = Callable[[Array, Array], Array]
Span = tuple[float, float]


class Degrees(NamedTuple):
    """How long the polynomials are."""

    moments: tuple[int, ...]
    """In c^2, of the coefficients of 1, u, u^2 with u = g in its range, as (-1, 1)."""
    parts: tuple[int, ...]
    """The same for even and odd."""
    logarithm: int
    factor: tuple[int, ...]
    """In c t_0, of the coefficients of the powers of g t_0^2."""


SHORT = Degrees((3, 2), (3, 2), 4, (5, 3, 2))
LONG = Degrees((5, 3, 1), (5, 3, 1), 6, (7, 6, 5, 3, 2, 1))


class Narrow(NamedTuple):
    """Tables in the order in which the loops read them."""

    moments: Array
    scores: Array
    short: bool


@lru_cache(maxsize=64)
def narrow(least: float, most: float) -> Narrow | None:
    """The tables for g between `least` and `most`; None where there are none good enough.

    >>> narrow(0.009, 0.00903).short, narrow(0.058, 0.06).short
    (True, False)
    >>> narrow(0.5, 0.6) is None
    True
    """
    if not 0.0 < least < most < _WIDEST:
        return None
    return _tables(least, most, SHORT) or _tables(least, most, LONG)


def _tables(least: float, most: float, degrees: Degrees) -> Narrow | None:
    middle, scale = 0.5 * (least + most), 2.0 / (most - least)
    top = min(TOP, FAR_OUT * least) if degrees is SHORT else TOP
    spans, unit = ((0.0, top), (least, most)), (middle, scale)
    shift, variance = (_fitted(f, degrees.moments, spans, unit) for f in (_shift, _spread))
    even, odd = (_fitted(f, degrees.parts, spans, unit) for f in (_even, _odd))
    # s = tanh(c t_0 / 2), with some room
    w = _ROOM * math.sqrt(top)
    end = math.tanh(0.5 * w) ** 2
    logarithm = _fitted(_logarithm, (degrees.logarithm,), ((0.0, end), (least, most)), unit)
    factor = _fitted(_factor, degrees.factor, ((-w, w), (0.0, most)), (0.0, 1.0), by=lambda g: g)
    # a score is m + h t; a mean that is off enters the next score, and a variance by a quarter at most
    worst = math.sqrt(most) * max(error for _, error in (even, odd, logarithm, factor))
    if max(worst, shift[1], 0.25 * variance[1]) > _GOOD:
        return None
    rows = [_padded(row, degrees.moments, LONG.moments) for row, _ in (shift, variance)]
    moments = np.concatenate(([least, most, middle, scale, top], *rows))
    scores = np.concatenate(([middle, scale], even[0], odd[0], logarithm[0], factor[0]))
    moments.flags.writeable = scores.flags.writeable = False
    return Narrow(moments, scores, degrees is SHORT)


def _padded(row: Array, degrees: tuple[int, ...], full: tuple[int, ...]) -> Array:
    """The coefficients among zeros, in the places of longer polynomials: these then give the same numbers."""
    out, read, at = np.zeros(sum(full) + len(full)), 0, 0
    for j, degree in enumerate(full):
        if j < len(degrees):
            out[at : at + degrees[j] + 1] = row[read : read + degrees[j] + 1]
            read += degrees[j] + 1
        at += degree + 1
    return out


def _fitted(
    f: Function,
    degrees: tuple[int, ...],
    spans: tuple[Span, Span],
    unit: tuple[float, float],
    by: Callable[[Array], Array] = np.ones_like,
) -> tuple[Array, float]:
    """Coefficients of x (fastest) and of (g - unit[0]) unit[1], and the largest error, by least squares.

    What is fitted, and its error, is f(x, g) times by(g).
    """
    t = 0.5 + 0.5 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    x, g = np.meshgrid(*(low + (high - low) * t for low, high in spans))
    u = (g - unit[0]) * unit[1]
    units = np.abs(x).max(), np.abs(u).max()
    powers = [(i, j) for j, degree in enumerate(degrees) for i in range(degree + 1)]
    columns = np.stack([(x / units[0]) ** i * (u / units[1]) ** j for i, j in powers], axis=-1).reshape(-1, len(powers))
    weight = by(g).ravel()
    columns, wanted = columns * weight[:, None], f(x, g).ravel() * weight
    coefficients = np.linalg.lstsq(columns / weight.max(), wanted / weight.max(), rcond=None)[0]
    error = float(np.abs(columns @ coefficients - wanted).max())
    return coefficients / np.array([units[0] ** i * units[1] ** j for i, j in powers]), error


def _rule(low: float) -> tuple[Array, Array]:
    t, weights = np.polynomial.legendre.leggauss(20)
    return 0.5 * (1.0 - low) * t + 0.5 * (1.0 + low), 0.5 * (1.0 - low) * weights


def _integral(c: Array, g: Array, odd: bool, power: int, low: float) -> Array:
    """Integral over (low, 1) of t^power exp(-g t^2 / 2) times cosh(c t), or sinh(c t)."""
    t, weights = _rule(low)
    wave = (np.sinh if odd else np.cosh)(c[..., None] * t)
    return np.asarray((wave * np.exp(-0.5 * g[..., None] * t * t)) @ (weights * t**power))


def _mean(square: Array, g: Array) -> Array:
    """-E[t] / c, as a function of c^2."""
    c = np.sqrt(square)
    return _integral(c, g, True, 1, -1.0) / (c * _integral(c, g, False, 0, -1.0))


def _shift(square: Array, g: Array) -> Array:
    """1 + g E[t] / c: what is left of an innovation, as the mean over its cell."""
    return 1.0 - g * _mean(square, g)


def _spread(square: Array, g: Array) -> Array:
    """The variance of t, times g."""
    c = np.sqrt(square)
    second = _integral(c, g, False, 2, -1.0) / _integral(c, g, False, 0, -1.0)
    return g * (second - square * _mean(square, g) ** 2)


def _logarithm(x: Array, g: Array) -> Array:
    return np.asarray(np.arctanh(np.sqrt(x)) / np.sqrt(x))


def _even(square: Array, g: Array) -> Array:
    return _integral(np.sqrt(square), g, False, 0, 0.0)


def _odd(square: Array, g: Array) -> Array:
    c = np.sqrt(square)
    return _integral(c, g, True, 0, 0.0) / c


def _factor(c: Array, g: Array) -> Array:
    """(t - 1) / g, where t solves t W(c t, g t^2) = W(c, 0): t_0 is 1 here, which loses nothing."""
    s, weights = _rule(0.0)
    D = np.exp(-c[..., None] * s) @ weights
    t = np.ones_like(c)
    for _ in range(6):  # Newton's method, from an error of g/6
        x = t[..., None] * s
        W = np.exp(-x * (c[..., None] + 0.5 * g[..., None] * x)) @ weights
        t = t + (D - t * W) * np.exp(t * (c + 0.5 * g * t))
    return np.asarray((t - 1.0) / g)


# What the filter comes to with time, for one state and one channel ------------------------------------

_FORGOTTEN = 45.0  # natural logarithm: exp(-45) of a guess is beneath the last bit, with some room


class Settled(NamedTuple):
    """What a filter of one state comes to."""

    g: tuple[float, float]
    """The range of half^2 / S: between no variance left in a cell and the most."""
    variance: float
    """Sigma_{k|k}."""
    pole: float
    """The part of an error in the mean that is left after a reading."""


def settled_filter(linear: GaussMarkov, step: float) -> Settled:
    """The filter of matched moments under a constant model of one state and one channel, with cells of width `step`.

    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> settled = settled_filter(GaussMarkov(0.95, 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0), 0.1)
    >>> round(settled.pole, 3), round(settled.variance, 3)
    (0.374, 0.061)
    """
    A, _, Q, C, _, R = linear.row(1).tolist()
    square = (0.5 * step) ** 2
    ends, poles, variance = [], [], 0.0
    for left in (square / 3.0, 0.0):
        P = float(linear.cov0.item())
        for _ in range(10_000):
            F = A * P * A + Q
            S = C * C * F + R
            # Sigma_{k|k} = Sigma R / S + K^2 Var[y | cell]
            after = F * R / S + (C * F / S) ** 2 * left
            if abs(after - P) <= 1e-12 * after:
                break
            P = after
        ends.append(square / S)
        # A (1 - K C (1 - Var[y | cell] / S))
        poles.append(abs(A) * (1.0 - C * C * F / S * (1.0 - left / S)))
        variance = max(variance, P)
    return Settled((0.999 * min(ends), 1.001 * max(ends)), variance, max(poles))


def early(pole: float) -> int:
    """How many readings before its first a block begins; 0 where the filter does not forget."""
    if not pole < 0.999:
        return 0
    return 32 + math.ceil(_FORGOTTEN / -math.log(max(pole, 0.01)))


# The maps ---------------------------------------------------------------------------------------------

# Readings in a block: many, because each block costs 70 us (and not 2^17, as eight blocks that begin at multiples
# of a power of two would share a few lines of the cache); fewer where each is handled one by one.
_BLOCK, _VARYING = 130_944, 4096
_LANES = 8  # blocks that go side by side
_EMPTY = np.empty(0)
_PAIRS = np.array(NARROW_PAIRS).ravel()
_PAIRS.flags.writeable = False


def whitening(model: Quantised, uniforms: Uniforms) -> Whitening | None:
    """The map from readings of the model to scores; None where only its own methods serve."""
    if model.method == "moments":
        alone = model.linear.states == model.dim == 1 and model.linear.constant
        return LineWhitening(model, uniforms) if alone else MomentWhitening(model, uniforms)
    if model.dim == 1 and float(model.linear.at(1).R.item()) > 0.0:
        return PointWhitening(model, uniforms)
    return None


def colouring(model: Quantised) -> Colouring:
    """The map from scores to readings of the model."""
    return Colouring(model)


class Colouring(CausalMap):
    """Scores to the unrounded process, which is rounded when it leaves."""

    def __init__(self, model: Quantised) -> None:
        self.dim = model.dim
        self.unrounded = Pair(white(model.dim), model.linear)
        self._grid = model.grid

    def start(self) -> State:
        """That of the unrounded process."""
        return self.unrounded.start()

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading."""
        state, value = self.unrounded.step(state, y)
        rounding = self._grid.channels[0] if self.dim == 1 else self._grid
        return state, rounding.round(value)  # type: ignore[arg-type]  # a number, or an array (d,)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        checked, out = self.unrounded.checked(state), np.empty(Y.shape) if out is None else out
        for first in range(0, len(Y), _BLOCK):
            part = out[first : first + _BLOCK]
            checked, _ = self.unrounded.advance(checked, Y[first : first + _BLOCK], part)
            self.round_all(part)
        return checked, out

    def leap(self, state: State, count: int) -> State | None:
        """As the unrounded process does."""
        return self.unrounded.leap(self.unrounded.checked(state), count)

    def round_all(self, part: Array) -> None:
        """Round readings (T, d) where they stand."""
        for i, (step, offset, low, high) in enumerate(self._grid.channels):
            if step:
                column = part[:, 0] if self.dim == 1 else part[:, i].copy()
                kernels_rounded.round_all(view(column), len(column), step, offset)
                if math.isfinite(low) or math.isfinite(high):
                    np.clip(column, low, high, out=column)
                if self.dim > 1:
                    part[:, i] = column


class Whitening(CausalMap):
    """Readings to scores: blocks through a loop, and what it leaves by the methods of the model."""

    has_rooms = False
    """Whether `rooms` serves."""

    def __init__(self, model: Quantised, uniforms: Uniforms) -> None:
        self.dim, self.states = model.dim, model.linear.states
        self._model, self._uniforms = model, uniforms
        self._grid = np.array([row for channel in model.grid.channels for row in channel])
        self._rounded = [i for i, channel in enumerate(model.grid.channels) if channel.step]

    def sensor(self, j: int) -> Whitening:
        """The same for sensor j of several, with uniforms of its own."""
        other = copy.copy(self)
        other._uniforms = self._uniforms.sensor(j)
        return other

    def start(self) -> State:
        """No reading yet."""
        return 0, self._model.start()

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        k, known = self._checked(state)
        out = np.empty(Y.shape) if out is None else out
        size = _BLOCK if self._model.linear.constant else _VARYING
        room = self._room(min(size, len(Y)))
        uniforms = np.empty((min(size, len(Y)), self.dim))
        for first in range(0, len(Y), size):
            rows = Y[first : first + size]
            v = self._uniforms.block(k, len(rows), self.dim, uniforms[: len(rows)])
            some = tuple(part[: len(rows)] for part in room)
            known = self._block(known, rows, v, some, (out[first : first + size], first))
            k += len(rows)
        if not (np.isfinite(known.mean).all() and np.isfinite(known.cov).all()):
            raise left_the_range()
        return (k, known), out

    def _block(
        self, known: CellState, Y: Array, v: Array, room: tuple[Array, ...], where: tuple[Array, int]
    ) -> CellState:
        """Scores of a block into the array `where`, which begins at the row beside it."""
        out, before = where
        missing = np.asarray(np.isnan(Y).any(axis=1))
        alone: dict[int, Numbers] = {}
        k = 0
        while True:
            known, k, why = self._run(known, Y, v, room, k)
            if why == kernels_rounded.DONE:
                break
            if why == kernels_rounded.INFINITE:
                raise infinite(before + k)
            last = k + 1
            if missing[k]:
                last = k + int(np.argmin(missing[k:])) if not missing[k:].all() else len(Y)
                known = self._model.skip_many(known, last - k)
            else:
                known, alone[k] = self._alone(known, Y[k], v[k], before + k)
            room[0].reshape(len(Y), -1)[k:last] = np.nan
            k = last
        self._scores(room, v, out)
        for row, z in alone.items():
            out[row] = z
        return known

    def _alone(self, known: CellState, y: Array, v: Array, row: int) -> tuple[CellState, Numbers]:
        """One reading by the methods of the model."""
        model = self._model
        one, u = (float(y[0]), float(v[0])) if self.dim == 1 else (y, v)
        try:
            z = model.predict(known).score(one, u)
            return model.update(known, one), z
        except ReadingError as error:
            raise ReadingError(f"row {row}: {error}") from None
        except NumericalError as error:
            raise NumericalError(str(error), row) from None

    def _checked(self, state: State) -> tuple[int, CellState]:
        """The state, if it can be one of this map's; it may have been through a file."""
        wrong = StateError("a state of this filter is the number of readings and the state of its model")
        try:
            k, (step, *parts) = state
            mean, cov, points, weights, spacing = (np.asarray(part, dtype=float) for part in parts)
        except (TypeError, ValueError):
            raise wrong from None
        n = self._model.linear.states
        shapes = (mean.shape, cov.shape, points.shape, spacing.shape)
        if not (type(k) is int and k >= 0 and type(step) is int) or shapes != ((n,), (n, n), (weights.size,), ()):
            raise wrong
        if not all(np.isfinite(part).all() for part in (mean, cov, points, weights, spacing)):
            raise StateError("the entries of a state are finite numbers")
        return k, CellState(step, mean, cov, points, weights, float(spacing))

    def rooms(self, x: Array, P: Array, Y: Array, V: Array) -> tuple[Array, Mask]:
        """Scores (R, d) of one reading of each of R rooms, and whose is for the model itself.

        Rows of the means x (R, n) and of the covariances P (R, n n) move on.
        """
        raise NotImplementedError  # each subclass has its own

    # What the loops do ----------------------------------------------------------------------------

    def _room(self, count: int) -> tuple[Array, ...]:
        """Where a loop leaves what it finds, one row a reading."""
        return (np.empty((count, self.dim)),)

    def _scores(self, room: tuple[Array, ...], v: Array, out: Array) -> None:
        """Scores from what the loop has left: signed tails, for channels that are rounded."""
        out[:] = room[0]
        for i in self._rounded:
            out[:, i] = from_tail(out[:, i])

    def _run(self, known: CellState, Y: Array, v: Array, room: tuple[Array, ...], k: int) -> tuple[CellState, int, int]:
        raise NotImplementedError  # each subclass has its own


def from_tail(tail: Array) -> Array:
    """Scores from signed tails."""
    from scipy.special import ndtri

    return np.asarray(np.copysign(ndtri(np.abs(tail)), tail))


def _systems(linear: GaussMarkov, k: int, count: int) -> tuple[Array, int]:
    """Rows of the system for readings k + 1 to k + count, and how far apart they stand."""
    if linear.constant:
        return linear.row(1), 0
    rows = [linear.row(step) for step in range(k + 1, k + count + 1)]
    return np.concatenate(rows), rows[0].size


class MomentWhitening(Whitening):
    """Matched moments, any number of states and channels."""

    @property
    def has_rooms(self) -> bool:  # type: ignore[override]  # it depends on the model
        """For a constant system."""
        return self._model.linear.constant

    def rooms(self, x: Array, P: Array, Y: Array, V: Array) -> tuple[Array, Mask]:
        """As `run_cells` does it."""
        linear = self._model.linear
        n, d = linear.states, self.dim
        tails, out, bad = np.empty(Y.shape), np.empty(Y.shape), np.zeros(len(Y), dtype=np.intp)
        kernels_rounded.cells_rooms(
            view(Y.reshape(-1)), view(V.reshape(-1)), view(tails.reshape(-1)), len(Y), n, d, view(linear.row(1)),
            view(self._grid), view(x.reshape(-1)), view(P.reshape(-1)), view(_PAIRS),
            view(np.empty((n + d) * (n + d + 2) + n * n)), view(np.empty(3)), view(bad),
        )  # fmt: skip
        self._scores((tails,), V, out)
        return out, bad != kernels_rounded.DONE

    def _run(self, known: CellState, Y: Array, v: Array, room: tuple[Array, ...], k: int) -> tuple[CellState, int, int]:
        linear = self._model.linear
        n, d = linear.states, self.dim
        x, P = np.array(known.mean), np.array(known.cov).ravel()
        # the rows stand at the readings of the block, the first of which may be behind
        rows, stride = _systems(linear, known.k, len(Y) - k) if k < len(Y) else (_EMPTY, 0)
        work = np.empty((n + d) * (n + d + 2) + n * n)
        stop, why = kernels_rounded.run_cells(
            view(Y[k:].reshape(-1)), view(v[k:].reshape(-1)), view(room[0][k:].reshape(-1)), 0, len(Y) - k,
            n, d, view(rows), stride, view(self._grid), view(x), view(P), view(_PAIRS), view(work), view(np.empty(3)),
        )  # fmt: skip
        return CellState(known.k + stop, freeze(x), freeze(P.reshape(n, n))), k + stop, why


class LineWhitening(Whitening):
    """Matched moments, one state and one channel of a constant system."""

    has_rooms = True

    def __init__(self, model: Quantised, uniforms: Uniforms) -> None:
        super().__init__(model, uniforms)
        self._system = model.linear.row(1)
        settled = settled_filter(model.linear, model.grid.channels[0].step)
        tables = narrow(*settled.g)
        self._moments: Array = _NO_TABLE if tables is None else tables.moments
        self._narrow: Array = _EMPTY if tables is None else tables.scores
        self._short = tables is not None and tables.short
        self._variance = settled.variance
        self._early = early(settled.pole) if self._short and compiled else 0

    def _room(self, count: int) -> tuple[Array, ...]:
        return np.empty(count), np.empty(count)

    def _scores(self, room: tuple[Array, ...], v: Array, out: Array) -> None:
        E, D = room
        wide = slice(None) if not self._narrow.size else np.flatnonzero(D < 0.0)
        if self._narrow.size:
            half = 0.5 * self._model.grid.channels[0].step
            scores = kernels_rounded.line_scores_short if self._short else kernels_rounded.line_scores
            scores(view(E), view(D), view(v.reshape(-1)), view(out.reshape(-1)), len(E), half, view(self._narrow))
        out[wide, 0] = from_tail(E[wide])

    def _run(self, known: CellState, Y: Array, v: Array, room: tuple[Array, ...], k: int) -> tuple[CellState, int, int]:
        x, P = float(known.mean.item()), float(known.cov.item())
        data = view(Y.reshape(-1)), view(v.reshape(-1)), view(room[0]), view(room[1])
        here, x, P = self._side_by_side(data, k, x, P)
        stop, why, x, P = self._line(data, here, len(Y), x, P)
        return CellState(known.k + stop - k, freeze(np.array([x])), freeze(np.array([[P]]))), stop, why

    def rooms(self, x: Array, P: Array, Y: Array, V: Array) -> tuple[Array, Mask]:
        """As `run_line` does it."""
        room, out, bad = self._room(len(Y)), np.empty(Y.shape), np.zeros(len(Y), dtype=np.intp)
        kernels_rounded.line_rooms(
            view(Y.reshape(-1)), view(V.reshape(-1)), view(room[0]), view(room[1]), len(Y), view(self._system),
            view(self._grid), view(x.reshape(-1)), view(P.reshape(-1)), view(self._moments), view(_PAIRS),
            view(np.empty(3)), view(bad),
        )  # fmt: skip
        self._scores(room, V, out)
        return out, bad != kernels_rounded.DONE

    def _line(self, data: tuple[Any, ...], k: int, stop: int, x: float, P: float) -> tuple[int, int, float, float]:
        after: tuple[int, int, float, float] = kernels_rounded.run_line(
            *data, k, stop, view(self._system), view(self._grid), x, P, view(self._moments), view(_PAIRS),
            view(np.empty(3)),
        )  # fmt: skip
        return after

    def _side_by_side(self, data: tuple[Any, ...], k: int, x: float, P: float) -> tuple[int, float, float]:
        """How far the readings from k on could be done side by side, and the state there."""
        y, early = data[0], self._early
        length = (len(y) - k) // _LANES
        if not early or length < 4 * early:
            return k, x, P
        C, d = float(self._system[3]), float(self._system[4])
        states = np.empty(4 * _LANES + 1)
        states[0], states[_LANES] = x, P
        for j in range(1, _LANES):
            begin = k + j * length - early
            guess = (float(y[begin - 1]) - d) / C
            if not math.isfinite(guess):
                return k, x, P
            stop, _, *state = self._line(data, begin, begin + early, guess, self._variance)
            if stop < begin + early:
                return k, x, P
            states[j], states[_LANES + j] = state
        kernels_rounded.run_lanes(
            *data, k, length, view(self._system), view(self._grid), view(states), view(self._moments), view(_PAIRS),
            view(np.empty(3)),
        )  # fmt: skip
        begin_x, begin_P, end_x, end_P = states[:-1].reshape(4, _LANES).tolist()
        if not states[-1]:
            return k, x, P
        good = 1
        while good < _LANES and begin_x[good] == end_x[good - 1] and begin_P[good] == end_P[good - 1]:
            good += 1
        return k + good * length, end_x[good - 1], end_P[good - 1]


_NO_TABLE = np.zeros(29)
_NO_TABLE[4] = -1.0  # no c^2 is as small


class PointWhitening(Whitening):
    """Point masses: one state, one channel."""

    def leap(self, state: State, count: int) -> State | None:
        """Many missing readings in one move; None where the system changes with time."""
        k, known = self._checked(state)
        linear = self._model.linear
        return (k + count, leap_cells(known, linear.at(1), count)) if linear.constant else None

    def _run(self, known: CellState, Y: Array, v: Array, room: tuple[Array, ...], k: int) -> tuple[CellState, int, int]:
        linear = self._model.linear
        count = known.points.size
        W, U = np.empty(USUAL.most), np.empty(USUAL.most)
        if count <= USUAL.most:
            W[:count] = known.weights
        first = float(known.points[0]) if count else 0.0
        # a state without spacing is none of this loop's
        number = count if known.spacing > 0.0 and count <= USUAL.most else 0
        state = np.array([first, known.spacing, known.mean.item(), known.cov.item(), number])
        rows, stride = _systems(linear, known.k, len(Y) - k) if k < len(Y) else (_EMPTY, 0)
        stop, why = kernels_rounded.run_points(
            view(Y[k:].reshape(-1)), view(v[k:].reshape(-1)), view(room[0][k:].reshape(-1)), 0, len(Y) - k,
            view(rows), stride, view(self._grid), view(np.array(USUAL, dtype=float)), view(state), view(W), view(U),
        )  # fmt: skip
        if stop == 0:
            return known, k, why
        first, spacing, mean, variance, number = state.tolist()
        points = first + spacing * np.arange(int(number))
        after = CellState(
            known.k + stop, freeze(np.array([mean])), freeze(np.array([[variance]])), freeze(points),
            freeze(W[: int(number)]), spacing,
        )  # fmt: skip
        return after, k + stop, why
