"""The transformation again, for many sequences at once: how many readings would have given exactly this output.

A disguise maps doubles to doubles. Between two neighbours of the one side there may be none, one or many of the other,
and so an output can be *impossible* under a pair of parameters, although its law is right to fifteen digits. Whoever
knows the pair can run the transformation again, bit for bit, on every number near the one that he gets by undoing it,
and count how many give the output that was released. In exact arithmetic that count, times the distance between two
readings, is the width of what the output leaves open. In floating point the quotient of both is a likelihood:

    Pr(output | pair) / (what a continuous law says) = count * spacing(y) / (cell * dy/d~y)

Where outputs are rounded to a step, a cell is that step; otherwise it is the spacing of doubles at the output. If
readings come in another form than doubles (float32, a decimal step), that form's numbers are counted.

`Machine` has the transformation with its states in arrays, and `counted` does one reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, UnderstudyError
from understudy.laws.base import Array, Law
from understudy.models.base import Model
from understudy.models.markov import Markov
from understudy.transform.backend import kernels_many, view
from understudy.transform.filter import transformation
from understudy.transform.maps import CausalMap, Chain, Emit, NothingMissing, ScoreEach, ValueEach
from understudy.transform.pair import Pair
from understudy._types import Ints

State = tuple[Any, ...]
"""Arrays whose last axis are the sequences."""

MOST = 4096.0
"""Readings behind an output beyond which they are not counted: their number tells too little."""

SLACK = 1.0
"""Cells by which an output may be missed where the state before it is not known exactly."""

_BELOW = np.int64(-(2**63))
_FAR = 2.0**20  # spacings of the output over which the slope is taken
_SIGNIFICANT = {"double": 53, "float32": 24}


# The forms that readings have ------------------------------------------------------------------------


class Form(NamedTuple):
    """The numbers that a reading can be: doubles, float32, or multiples of a decimal step.

    >>> Form("double").spacing(np.array([1.0, 200.0])).tolist() == [2.0**-52, 2.0**-45]
    True
    >>> Form("float32").nearest(np.array([0.1])).item() == float(np.float32(0.1))
    True
    >>> Form("decimal", 100.0).nearest(np.array([0.123])).tolist()
    [0.12]
    """

    name: str
    scale: float = 1.0
    """Steps in a unit, of decimals."""

    def spacing(self, y: Array) -> Array:
        """Distance from a number of this form to the next one."""
        if self.name == "decimal":
            return np.full(np.shape(y), 1.0 / self.scale)
        return np.ldexp(np.spacing(np.abs(y)), 53 - _SIGNIFICANT[self.name])

    def nearest(self, y: Array) -> Array:
        """The number of this form that is nearest."""
        return self.number(self.ordinal(y))

    def ordinal(self, y: Array) -> Ints:
        """Numbers of this form, counted: those of neighbours differ by one."""
        if self.name == "decimal":
            return np.asarray(np.rint(y * self.scale), dtype=np.int64)
        if self.name == "float32":
            with np.errstate(over="ignore"):
                return _ordered(np.asarray(y, dtype=np.float32).view(np.int32).astype(np.int64), np.int64(-(2**31)))
        return _ordered(np.ascontiguousarray(y).view(np.int64), _BELOW)

    def number(self, ordinal: Ints) -> Array:
        """The number with this ordinal."""
        if self.name == "decimal":
            return np.asarray(ordinal / self.scale)
        if self.name == "float32":
            bits = _ordered(ordinal, np.int64(-(2**31)))
            return np.asarray(bits.astype(np.int32).view(np.float32), dtype=float)
        return _ordered(ordinal, _BELOW).view(np.float64)


def _ordered(bits: Ints, sign: np.int64) -> Ints:
    """Bits of floats as integers in the order of the floats, and back: those below zero are counted downwards."""
    return np.where(bits < 0, sign - bits, bits)


DOUBLE = Form("double")


def spacing(y: Array) -> Array:
    """Spacing of doubles at a number; without bound at zero, which is a multiple of everything.

    >>> spacing(np.array([0.0, 1.0])).tolist() == [np.inf, 2.0**-52]
    True
    """
    return np.where(y == 0.0, np.inf, np.spacing(np.abs(y)))


# The transformation of many sequences ----------------------------------------------------------------


class Link(Protocol):
    """A causal map of many sequences: states in arrays."""

    cost: float

    def start(self, N: int) -> State:
        """States before the first reading."""
        ...

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        """Readings (d, N), the k-th ones; NaN for what is impossible."""
        ...

    def back(self, k: int, state: State, out: Array) -> Array:
        """The readings that give this, but for rounding."""
        ...


class Machine:
    """The transformation from readings of one model to readings of another, forwards bit for bit and backwards.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> machine = Machine(room(1), room(0), 2)
    >>> state, out = machine.step(0, machine.start(3), np.array([[105.0, 104.0, 106.0]]))
    >>> out.tolist() == us.disguise([[[105.0, 104.0, 106.0]]], room(1), room(0)).tolist()[0]
    True
    """

    def __init__(self, source: Model, target: Model, T: int) -> None:
        causal = transformation(source, target, False, None)
        parts = causal.maps if isinstance(causal, Chain) else (causal,)
        self.links: list[Link] = [link for part in parts for link in _links(part, T)]
        self.dim = causal.dim
        self.cost = max(link.cost for link in self.links)
        """Of a reading, in units of one that goes through two compiled Kalman predictors with many others."""
        self.linear = isinstance(causal, Pair)

    def start(self, N: int) -> State:
        """States of N sequences before the first reading."""
        return tuple(link.start(N) for link in self.links)

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        """Readings (d, N), the k-th ones."""
        after = []
        for link, part in zip(self.links, state, strict=True):
            part, Y = link.step(k, part, Y)
            after.append(part)
        return tuple(after), Y

    def back(self, k: int, state: State, out: Array) -> Array:
        """The readings that give this output, but for rounding."""
        for link, part in zip(self.links[::-1], state[::-1], strict=True):
            out = link.back(k, part, out)
        return out

    def root(self, k: int) -> Array:
        """Cholesky factor (d, d) of the source's innovation covariance at reading k; Gauss-Markov pairs only."""
        (link,) = self.links
        return np.asarray(link.root(k))  # type: ignore[attr-defined]  # a pair's


def chosen(state: State, which: Any) -> State:
    """The states of some sequences, with repetitions if asked for."""
    return tuple(chosen(part, which) if isinstance(part, tuple) else part[..., which] for part in state)


def _links(causal: CausalMap, T: int) -> list[Link]:
    if isinstance(causal, Chain):
        return [link for part in causal.maps for link in _links(part, T)]
    if isinstance(causal, NothingMissing):
        return []
    if isinstance(causal, Pair):
        return [_Filters(causal, T)]
    if isinstance(causal, ScoreEach):
        return [_Each(causal.law, causal.law.score, causal.law.value)]
    if isinstance(causal, ValueEach):
        return [_Each(causal.law, causal.law.value, causal.law.score)]
    return [_Steps(causal)]


class _Filters:
    """Two Kalman predictors back to back."""

    cost = 1.0

    def __init__(self, pair: Pair, T: int) -> None:
        if 0 < pair.limit < T:
            raise ConfigurationError("the gains of a model do not settle; it is not run again")
        self.pair = pair
        self.tables: tuple[Any, ...] = pair.tables
        if pair.limit == 0:
            sides = (pair.source, pair.target)
            self.tables = tuple(view(side.table(0, T, side.model.cov0.ravel().copy())) for side in sides)

    def start(self, N: int) -> State:
        pair = self.pair
        first = pair.start()[1 : 1 + pair.n + pair.m]
        x, xt = np.zeros((pair.n + pair.dim, N)), np.zeros((pair.m + pair.dim, N))
        x[: pair.n], xt[: pair.m] = np.array(first[: pair.n])[:, None], np.array(first[pair.n :])[:, None]
        return x, xt

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        x, xt = state
        after = x.copy(), xt.copy()
        return after, self._run(k, Y, (self.tables[0], self.pair.n, after[0]), (self.tables[1], self.pair.m, after[1]))

    def back(self, k: int, state: State, out: Array) -> Array:
        x, xt = state[0].copy(), state[1].copy()
        return self._run(k, out, (self.tables[1], self.pair.m, xt), (self.tables[0], self.pair.n, x))

    def _run(self, k: int, Y: Array, source: tuple[Any, int, Array], target: tuple[Any, int, Array]) -> Array:
        (a, n, x), (b, m, xt) = source, target
        d, N = Y.shape
        out = np.empty((d, N))
        y, made = view(np.ascontiguousarray(Y).reshape(-1)), view(out.reshape(-1))
        flat, flat_out = view(x.reshape(-1)), view(xt.reshape(-1))
        if self.pair.scalar:
            kernels_many.run_scalar_many(y, made, 1, N, a, flat, b, flat_out, k)
        else:
            work = view(np.empty(N * (d + 1 + max(n, m))))
            kernels_many.run_many(y, made, 1, N, d, a, n, flat, b, m, flat_out, k, work)
        return out

    def root(self, k: int) -> Array:
        """Cholesky factor of the source's innovation covariance."""
        n, d, flat = self.pair.n, self.pair.dim, np.asarray(self.tables[0])
        width = 9 if self.pair.scalar else 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
        row = flat.reshape(-1, width)[min(k, flat.size // width - 1)]
        if self.pair.scalar:
            return np.asarray(row[6:7].reshape(1, 1))
        first = 2 * n * (n + d) + d * n + d + 2 * n
        return np.asarray(row[first : first + d * d].reshape(d, d))


class _Each:
    """One law for all readings."""

    cost = 20.0

    def __init__(self, law: Law, there: Callable[..., Any], back: Callable[..., Any]) -> None:
        self.law, self._there, self._back = law, there, back

    def start(self, N: int) -> State:
        return ()

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        return state, _mapped(self._there, Y)

    def back(self, k: int, state: State, out: Array) -> Array:
        return _mapped(self._back, out)


def _mapped(function: Callable[..., Any], Y: Array) -> Array:
    """A law's function of values (d, N), NaN where it refuses one."""
    d, N = Y.shape
    result = np.full((d, N), np.nan)
    there = np.isfinite(Y).all(axis=0)
    if not there.any():
        return result
    values = Y[0, there] if d == 1 else np.ascontiguousarray(Y[:, there].T).T
    try:
        with np.errstate(all="ignore"):
            result[:, there] = np.reshape(function(values), (d, -1))
    except UnderstudyError:
        for s in np.flatnonzero(there).tolist():
            try:
                result[:, s] = np.reshape(function(Y[0, s] if d == 1 else Y[:, s].copy()), d)
            except UnderstudyError:
                continue
    return result


class _Steps:
    """A map that takes one reading of one sequence at a time."""

    def __init__(self, causal: Any) -> None:
        self.causal, self.model = causal, causal.model
        name = type(causal).__name__
        self.emits = isinstance(causal, Emit) or name == "HiddenValues"
        if not self.emits and name not in ("Score", "HiddenScores"):
            raise ConfigurationError(f"a map of type {name} is not run again")
        # what finds a quantile by searching for it takes milliseconds
        self.cost = 400.0 if isinstance(self.model, Markov) or name.startswith("Hidden") else 10_000.0

    def start(self, N: int) -> State:
        states = np.empty(N, dtype=object)
        states[:] = [self.causal.start()] * N if N else []
        return (states,)

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        after, out = state[0].copy(), np.full(Y.shape, np.nan)
        for s in np.flatnonzero(np.isfinite(Y).all(axis=0)).tolist():
            try:
                after[s], out[:, s] = self.causal.step(after[s], Y[0, s].item() if len(Y) == 1 else Y[:, s].copy())
            except UnderstudyError:
                continue
        return (after,), out

    def back(self, k: int, state: State, out: Array) -> Array:
        result = np.full(out.shape, np.nan)
        for s in np.flatnonzero(np.isfinite(out).all(axis=0)).tolist():
            value = out[0, s].item() if len(out) == 1 else out[:, s].copy()
            try:
                law = self.model.predict(state[0][s])
                result[:, s] = np.reshape(law.score(value) if self.emits else law.value(value), len(out))
            except UnderstudyError:
                continue
        return result


# Counting --------------------------------------------------------------------------------------------


class Release(NamedTuple):
    """How outputs leave: rounded to a step in each channel, or as doubles where the step is 0."""

    steps: tuple[float, ...]

    def rounded(self, out: Array, channel: int) -> Array:
        """What leaves of an output."""
        step = self.steps[channel]
        if step == 0.0:
            return out
        scale = float(np.rint(1.0 / step))
        # a decimal step as decimals are rounded; + 0.0, as there is no -0.0 among what leaves
        return np.asarray((np.rint(out * scale) / scale if scale * step == 1.0 else np.rint(out / step) * step) + 0.0)

    def cell(self, out: Array, channel: int) -> Array:
        """Width of what leaves as the same output."""
        return np.maximum(np.spacing(np.abs(out)), self.steps[channel])

    def share(self, out: Array, channel: int) -> Array:
        """How many doubles leave as this output, against a continuous law: 1 but for ties, where steps are fine."""
        step = self.steps[channel]
        if step == 0.0:
            return np.ones(out.shape)
        ends = [out + sign * 0.5 * step for sign in (-1.0, 1.0)]
        within = [(self.rounded(end, channel) == out).astype(float) for end in ends]
        doubles = DOUBLE.ordinal(ends[1]) - DOUBLE.ordinal(ends[0]) - 1 + within[0] + within[1]
        spacing = np.spacing(np.abs(out))
        fine = (step > spacing) & (step <= MOST * spacing) & (doubles > 0)
        return np.where(fine, doubles * spacing / step, 1.0)


def counted(
    machine: Machine, k: int, state: State, out: Array, release: Release, form: Form = DOUBLE, reach: int = 2
) -> tuple[State, Array]:
    """One reading of outputs (d, N): states after it, and likelihoods of each against a continuous law, (2, d, N).

    The first counts readings that give exactly this output, the second those that miss it by `SLACK` cells at most: the
    state from which a reading started is known to a few cells only, if several readings gave an output before. They are
    1 where nothing can be told: where there are more than `MOST` readings behind an output, where undoing fails or an
    output is missing. `reach` is how many neighbours are tried on either side, for what undoing gets wrong.

    >>> import understudy as us
    >>> low, high = us.IID(us.Gaussian(0.0, 1.0)), us.IID(us.Gaussian(64.0, 1.0))
    >>> machine, rng = Machine(high, low, 1), np.random.default_rng(1)
    >>> honest, other = us.disguise(64.0 + rng.standard_normal((1, 1, 50)), high, low)[0], rng.standard_normal((1, 50))
    >>> for out in (honest, other):
    ...     _, found = counted(machine, 0, machine.start(50), out, Release((0.0,)))
    ...     print((found[0] > 10.0).mean() > 0.9, (found[0] == 0.0).mean() > 0.9)
    True False
    False True
    """
    with np.errstate(all="ignore"):  # zero has no neighbours to speak of, and some readings are impossible
        return _counted(machine, k, state, out, release, form, reach)


def _counted(
    machine: Machine, k: int, state: State, out: Array, release: Release, form: Form, reach: int
) -> tuple[State, Array]:
    d, N = out.shape
    found = np.ones((2, d, N))
    Y = machine.back(k, state, out)
    for c in range(d):
        # dy/d~y, over a distance that rounding does not show in
        far = np.zeros((d, 1))
        far[c] = 1.0
        delta = _FAR * np.spacing(np.abs(out[c]))
        ends = [machine.back(k, state, out + sign * far * delta)[c] for sign in (-1.0, 1.0)]
        slope = (ends[1] - ends[0]) / (2.0 * delta)
        made = machine.step(k, state, Y)[1][c]
        y = Y[c] - (made - out[c]) * slope
        cell = release.cell(out[c], c)
        behind = cell * slope / form.spacing(y)
        told = np.flatnonzero(np.isfinite(y) & (behind > 0.0) & (behind <= MOST))
        Y[c] = np.where(np.isfinite(y), y, Y[c])
        if told.size:
            some = chosen(state, told)
            goal = out[c, told], cell[told] * slope[told]
            Y[c, told], hits = _around(machine, k, some, Y[:, told], c, goal, release, form, reach)
            found[0, c, told] = hits[0] / (behind[told] * release.share(out[c, told], c))
            wide = (2.0 * SLACK + 1.0) * behind[told]
            found[1, c, told] = np.where(wide < 1.0, hits[1] / wide, 1.0)
    there = np.isfinite(Y).all(axis=0)
    after, _ = machine.step(k, state, Y)
    return after, np.where(there, found, 1.0)


def _around(
    machine: Machine, k: int, state: State, Y: Array, c: int, goal: tuple[Array, Array], release: Release, form: Form,
    reach: int,
) -> tuple[Array, Array]:  # fmt: skip
    """The reading nearest to the middle of those that give the output in channel c, and how many do, (2, N)."""
    out, width = goal
    N = out.size
    middle = form.ordinal(Y[c])
    low, high = form.ordinal(Y[c] - 0.5 * width), form.ordinal(Y[c] + 0.5 * width)
    window = np.arange(-reach, reach + 1)[:, None]
    ordinals = np.concatenate([low + window, high + window])
    tried = np.ones(ordinals.shape, dtype=bool)
    tried[len(window) :] = ordinals[len(window) :] > low + reach  # what both windows hold is tried once
    inside = np.maximum(high - low - 2 * reach - 1, 0)
    at = np.nonzero(tried)
    candidates = Y[:, at[1]]
    candidates[c] = form.number(ordinals[at])
    made = machine.step(k, chosen(state, at[1]), candidates)[1][c]
    missed = np.full(ordinals.shape, np.inf)
    missed[at] = np.abs(made - out[at[1]])
    hit = np.zeros(ordinals.shape, dtype=bool)
    hit[at] = release.rounded(made, c) == out[at[1]]
    hits = hit.sum(axis=0) + np.where(hit.any(axis=0), inside, 0)
    close = (missed <= SLACK * release.cell(out, c)).sum(axis=0)
    # of the hits the one in the middle, otherwise the one that comes nearest to the output
    far = np.where(hit, np.abs(ordinals - middle).astype(float), np.inf)
    best = np.where(hit.any(axis=0), far.argmin(axis=0), np.where(np.isnan(missed), np.inf, missed).argmin(axis=0))
    centre = (inside > 0) & hit.any(axis=0)
    each = np.arange(N)
    return np.where(centre, form.number(middle), form.number(ordinals[best, each])), np.stack([hits, close]).astype(
        float
    )
