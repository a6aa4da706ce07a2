"""A design played over a sequence, as a stream plays it, without ledger and records: what an audit attacks.

A `Design` draws once for a sequence, or once an epoch, for the value of theta at the first reading of the epoch. A
`CausalDesign` decides every so many readings, with memory. Between draws the filters go on from where they stood, by
the same rules as in a stream. Draws come from a generator: nobody's secret depends on them.

Laws of dependent channels as tables: quantiles and scores of one reading in microseconds.

Asking a fitted law for one reading takes milliseconds, most of it an inversion by search. Here the quantiles of each
channel are tabulated at scores 0.002 apart and interpolated; scores are read off the same table backwards, so that both
stay inverses of each other. The error of a score is below 1e-6 where the density does not jump.

The filters of autoregressions on a grid, many readings at a time: the same numbers as reading by reading.

These are the models that a fit gives for most sensors, and asking their laws reading by reading takes a millisecond.
The scores of all readings of one value are found together, since the past of each is known. Noise is found for all
scores together, where channels are independent given the past; what is left is a recursion of plain numbers. Where
channels depend on each other, their laws are tabulated first (`tabulated`), which is good to a millionth of a score.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Ints
from understudy.errors import ConfigurationError, MissingReadingError, ModelError
from understudy.laws.atoms import uniforms_from
from understudy.laws.cells import Rounded
from understudy.laws.multivariate import GaussianCopula, Independent
from understudy.models.autoregressive import AutoRegressive
from understudy.models.model import Model
from understudy.models.on_grid import OnGrid, coloured, scored
from understudy.stream.engine import continued
from understudy.transform.core import CausalMap, colouring, disguise, has_atoms, sample, transformation
from understudy.transform.gaps import refill_of, restarting

# Laws of dependent channels as tables: quantiles and scores of one reading in microseconds -----------


_FAR = 7.0  # scores beyond are asked of the law itself
_STEP = 0.002


class Table:
    """A law of d channels whose scores are correlated normals, L z, on a grid.

    >>> import understudy as us
    >>> law = GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [us.Gaussian(0.0, 4.0), us.Gaussian(1.0, 1.0)])
    >>> table = Table(law)
    >>> round(table.quantile(0, 1.2345), 9), round(table.score(1, 0.5), 9)
    (2.469, -0.5)
    """

    def __init__(self, law: GaussianCopula) -> None:
        self._law = law
        self._L: list[list[float]] = np.linalg.cholesky(law.correlation).tolist()
        at = np.arange(-_FAR, _FAR + 0.5 * _STEP, _STEP)
        found: list[Array] = [np.maximum.accumulate(np.asarray(one.value(at), dtype=float)) for one in law.laws]
        self._at: list[float] = at.tolist()
        self._values: list[list[float]] = [column.tolist() for column in found]

    def __repr__(self) -> str:
        return f"Table(dim={len(self._values)})"

    def quantile(self, i: int, s: float) -> float:
        """The value of channel i that has this score under its own law."""
        if not -_FAR < s < _FAR:
            return float(np.asarray(self._law.laws[i].value(s)))
        k = min(int((s + _FAR) / _STEP), len(self._at) - 2)
        column = self._values[i]
        return column[k] + (column[k + 1] - column[k]) * ((s - self._at[k]) / _STEP)

    def score(self, i: int, y: float) -> float:
        """The score of a value of channel i under its own law."""
        column = self._values[i]
        if not column[0] < y < column[-1]:
            return float(np.asarray(self._law.laws[i].score(y)))
        k = bisect_right(column, y) - 1
        gap = column[k + 1] - column[k]
        return self._at[k] + _STEP * ((y - column[k]) / gap if gap > 0.0 else 0.5)

    def reported(self, z: Sequence[float], mean: Sequence[float], channels: Sequence[Any]) -> list[float]:
        """What is reported for scores z around a mean: each channel follows what was reported of those before it."""
        out: list[float] = []
        w: list[float] = []
        for i, channel in enumerate(channels):
            row = self._L[i]
            before = sum(a * b for a, b in zip(row, w, strict=False))
            y = channel.rounded(mean[i] + self.quantile(i, before + row[i] * z[i]))
            out.append(y)
            w.append((self.score(i, y - mean[i]) - before) / row[i])
        return out


def tabulated(law: Any) -> Table | None:
    """The table of a law, made once; None for laws of another kind."""
    return _table(law) if isinstance(law, GaussianCopula) else None


@lru_cache(maxsize=32)
def _table(law: GaussianCopula) -> Table:
    return Table(law)


# The filters of autoregressions on a grid, many readings at a time: the same numbers as reading by re ---


def suited(models: Sequence[Model]) -> bool:
    """Whether all models are autoregressions of one order on a grid."""
    inside = [model.model if type(model) is OnGrid else None for model in models]
    return all(type(m) is AutoRegressive and m.order == inside[0].order for m in inside)  # type: ignore[union-attr]  # all are of that type


def restarted(
    Y: Array, theta: Ints, pseudo: Ints, sources: Sequence[Any], targets: Sequence[Any], secret: bytes
) -> Array:
    """An output (T, d) along both paths, with readings withheld at the beginning and after gaps, as `Restarting` does.

    >>> import understudy as us, scipy.stats
    >>> noise = us.Scalar(scipy.stats.t(3.0, 0.0, 2.0))
    >>> low, high = (OnGrid(us.AutoRegressive(0.5, level, noise, past=[level]), step=1.0) for level in (5.0, 9.0))
    >>> Y = np.array([[10.0], [11.0], [np.nan], [9.0], [10.0]])
    >>> here, there = np.zeros(5, dtype=int), np.zeros(5, dtype=int)
    >>> np.isnan(restarted(Y, here, there, [low], [high], bytes(32)))[:, 0].tolist()
    [True, False, True, True, False]
    """
    v = uniforms_from(secret).block(0, *Y.shape)
    z = scored(Y, theta, sources, v)
    output = np.full(Y.shape, np.nan)
    rows = np.array([], dtype=np.int64) if z is None else np.flatnonzero(~np.isnan(z).any(axis=1))
    if z is not None and rows.size:
        output[rows] = coloured_path(z[rows], pseudo[rows], targets)
    return output


def disguised(Y: Array, source: OnGrid, target: OnGrid, rng: np.random.Generator) -> Array:
    """Many sequences (T, d, N) of one value disguised as another; none is missing, and the past is the model's."""
    T, d, N = Y.shape
    inside: Any = source.model
    past = np.concatenate([np.repeat(inside.past[::-1, :, None], N, axis=2), Y])  # the earliest first
    p = inside.order
    # yhat_k = intercept + sum_i Phi_i y_{k-i}
    mean = inside.intercept[:, None] + sum(
        np.einsum("ij,tjn->tin", inside.coefficients[i], past[p - 1 - i : p - 1 - i + T]) for i in range(p)
    )
    flat, at = (x.transpose(1, 0, 2).reshape(d, T * N) for x in (Y, mean))
    v = rng.random((d, T * N)) * (1.0 - 2.0**-52) + 2.0**-53
    law = Rounded(inside.noise, source.grid, at[0] if d == 1 else at)
    z = np.reshape(law.score(flat[0], v[0]) if d == 1 else law.score(flat, v), (d, T, N)).transpose(1, 0, 2)
    found = coloured(np.ascontiguousarray(z), target)
    return Y if found is None else found


def coloured_path(z: Array, pseudo: Ints, targets: Sequence[Any]) -> Array:
    """Scores (T, d) to readings along a pseudo path."""
    T, d = z.shape
    laws = [target.model.noise for target in targets]
    used = sorted(set(pseudo.tolist()))
    separate = d == 1 or all(isinstance(laws[j], Independent) for j in used)
    noise = np.empty(z.shape)
    if separate:
        for j in used:
            at = pseudo == j
            noise[at] = np.reshape(laws[j].value(z[at, 0]), (-1, 1)) if d == 1 else np.asarray(laws[j].value(z[at].T)).T
    if d == 1:
        return _line(noise[:, 0], pseudo, targets)[:, None]
    dependent = None if separate else [tabulated(law) if j in used else None for j, law in enumerate(laws)]
    out = np.empty(z.shape)
    past = np.array(targets[int(pseudo[0])].model.past)
    for k in range(T):
        j = int(pseudo[k])
        model, grid = targets[j].model, targets[j].grid
        mean = model.intercept + np.tensordot(model.coefficients, past, axes=((0, 2), (0, 1)))
        table = None if dependent is None else dependent[j]
        if separate:
            out[k] = [c.rounded(y) for c, y in zip(grid.channels, (noise[k] + mean).tolist(), strict=True)]
        elif table is not None:
            out[k] = table.reported(z[k].tolist(), mean.tolist(), grid.channels)
        else:
            out[k] = Rounded(model.noise, grid, mean).value(z[k])
        past = np.concatenate([out[k][None], past[:-1]])
    return out


def _line(noise: Array, pseudo: Ints, targets: Sequence[Any]) -> Array:
    """One channel: y_k = round(intercept + sum of phi_i y_{k-i} + e_k)."""
    parts = [(t.model.coefficients[:, 0, 0].tolist(), float(t.model.intercept[0]), t.grid.channels[0]) for t in targets]
    past = targets[int(pseudo[0])].model.past[:, 0].tolist()
    out = np.empty(len(noise))
    for k, (e, j) in enumerate(zip(noise.tolist(), pseudo.tolist(), strict=True)):
        phi, intercept, channel = parts[j]
        y = channel.rounded(e + (intercept + sum(a * b for a, b in zip(phi, past, strict=True))))
        out[k] = y
        past = [y, *past[:-1]]
    return out


# A design played over a sequence, as a stream plays it, without ledger and records: what an audit att ---


class Played(NamedTuple):
    """An output and how it came about."""

    output: Array
    pseudo: Ints
    """(T,), positions of the pseudo values."""
    restarts: int
    """Gaps after which the filters had to begin anew, as the models have no law across them."""


class Stage:
    """A design ready to be played; filters are made once where they need no auxiliary uniforms."""

    def __init__(self, design: Any, epoch: int | None = None) -> None:
        if getattr(design, "family", None) is None:
            raise ConfigurationError(
                "the design has no models (us.solve makes none); an audit needs one from us.design"
            )
        self.design, self.family = design, design.family
        self.causal = hasattr(design, "decision_every")
        self.every: int | None = design.decision_every if self.causal else epoch
        self.sources: list[Model] = [self.family.model(value) for value in design.values]
        self.targets: list[Model] = [self.family.model(value) for value in design.pseudo]
        self.atoms = any(has_atoms(model) or not hasattr(model, "atoms") for model in self.sources)
        self.quick = suited((*self.sources, *self.targets))
        self._maps: dict[tuple[int, int], CausalMap] = {}
        try:
            self.refill = refill_of((*self.sources, *self.targets))
        except ModelError:
            self.refill = None

    def draws(self, theta: Ints, rng: np.random.Generator) -> Ints:
        """The pseudo path (T,) for a path of private values, none of them unknown."""
        T, every = len(theta), self.every or len(theta)
        firsts = theta[::every].tolist()
        if not self.causal:
            drawn = [self.design.draw(row, rng) for row in firsts]
        else:
            drawn, state, beliefs = [], self.design.start(), self.design.beliefs
            for row in firsts:
                state, column, _ = beliefs.draw(state, row, rng)
                drawn.append(column)
        return np.repeat(np.array(drawn, dtype=np.int64), every)[:T]

    def played(self, Y: Array, theta: Ints, rng: np.random.Generator) -> Played:
        """Readings (T, d) of one sequence, disguised with fresh draws."""
        theta = known_throughout(theta)
        Y = np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)
        if self.causal and self.design.estimated:
            theta = self._estimated(Y)
        pseudo = self.draws(theta, rng)
        secret = rng.bytes(32)
        try:
            return Played(self._released(self._through(Y, theta, pseudo, secret)), pseudo, 0)
        except MissingReadingError:
            return self._in_runs(Y, theta, pseudo, secret)

    def _estimated(self, Y: Array) -> Ints:
        """The private values as the edge would guess them, where the design accepts that."""
        from understudy.randomizer.estimation import Estimator

        made = Estimator(self.family, self.design.beliefs.transitions, self.design.decision_every)
        rows = Y[:, 0].tolist() if self.family.dim == 1 else list(Y)
        return np.array(made.rows(rows), dtype=np.int64)

    def _through(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Array:
        """The output along both paths."""
        if self.quick and self.refill is not None:
            return restarted(Y, theta, pseudo, self.sources, self.targets, secret)
        maps: dict[tuple[int, int], CausalMap] = {} if self.atoms else self._maps

        def between(i: int, j: int) -> CausalMap:
            if (i, j) not in maps:
                pair = self.sources[i], self.targets[j]
                waits = self.refill is not None
                maps[i, j] = restarting(*pair, secret) if waits else transformation(*pair, False, secret)
            return maps[i, j]

        try:
            return along(between, Y, theta, pseudo)
        except ModelError:  # filters that cannot go on from one another; a model of the whole path may know how
            paths = ([values[k] for k in path.tolist()] for values, path in self._paths(theta, pseudo))
            one, other = (self.family.along(path) for path in paths)
            return np.asarray(disguise(Y, one, other, secret)).reshape(Y.shape)

    def _paths(self, theta: Ints, pseudo: Ints) -> tuple[tuple[Any, Ints], tuple[Any, Ints]]:
        return (self.design.values, theta), (self.design.pseudo, pseudo)

    def _in_runs(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Played:
        """Each run of readings without a gap from a new beginning."""
        output, restarts = np.full(Y.shape, np.nan), -1
        there = np.asarray(~np.isnan(Y).any(axis=1))
        cuts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(Y)]
        for start, stop in pairwise(cuts):
            if there[start]:
                rows = slice(start, stop)
                output[rows] = self._through(np.ascontiguousarray(Y[rows]), theta[rows], pseudo[rows], secret)
                restarts += 1
        return Played(self._released(output), pseudo, max(restarts, 0))

    def _released(self, output: Array) -> Array:
        """Outputs (T, d) on the lattice of the design, as streams release them."""
        found: Array = self.design.release.rounded(output)
        return found

    def readings(self, theta: Ints, rng: np.random.Generator) -> Array:
        """Readings (T, d) of the models themselves along a path of private values."""
        z = rng.standard_normal((len(theta), self.family.dim))
        if self.quick:
            return coloured_path(z, theta, self.sources)
        made = [colouring(model) for model in self.sources]
        try:
            return along(lambda i, _: made[i], z, theta, theta * 0)
        except ModelError:
            model = self.family.along([self.design.values[i] for i in theta.tolist()])
            return np.asarray(sample(model, len(theta), rng=rng)).reshape(z.shape)


def along(between: Callable[[int, int], CausalMap], Y: Array, theta: Ints, pseudo: Ints) -> Array:
    """Readings through the filters of both paths, piece by piece; the state goes on from one to the next."""
    changes = np.flatnonzero((theta[1:] != theta[:-1]) | (pseudo[1:] != pseudo[:-1])) + 1
    cuts = [0, *changes.tolist(), len(Y)]
    out = np.empty(Y.shape)
    old: CausalMap | None = None
    state: Any = None
    for start, stop in pairwise(cuts):
        new = between(int(theta[start]), int(pseudo[start]))
        if new is not old:
            state = new.start() if old is None else continued(old, new, state)
        state, out[start:stop] = new.apply(state, np.ascontiguousarray(Y[start:stop]))
        old = new
    return out


def known_throughout(theta: Ints) -> Ints:
    """A path whose unknown values are those before them, or, at the beginning, the first that is known.

    >>> known_throughout(np.array([-1, 1, -1, 0, -1])).tolist()
    [1, 1, 1, 0, 0]
    """
    known = np.flatnonzero(theta >= 0)
    if not known.size:
        raise ConfigurationError("a sequence has no known private value at all; it cannot be played")
    last = np.maximum.accumulate(np.where(theta >= 0, np.arange(len(theta)), known[0]))
    return np.asarray(theta[last])
