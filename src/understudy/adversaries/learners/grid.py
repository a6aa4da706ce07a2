"""Who knows that the raw readings were on a grid: inversion and low-order digits, as learners.

Where the design knows no grid (a float map of readings that have one), it is sought: some outputs are inverted under
every pair of parameters, and the right pair lands on a grid (`us.detect_grid`).

Both attacks begin where a sequence does, for there the states of both models are known.

Undoing "disguise, then round": the likelihood of a rounded output under a pair of parameters.

Given the past, the plain map is increasing in the reading: ~y = c + r (y - e) in each channel, r = ~L / L. A released
cell therefore stands for an interval of readings, and the grid points in it are all that y can have been. With r >= 1
there is at most one, so the whole input can be followed; where there is none, the pair is refuted. With r < 1 there
are several, and a few particles draw among them. Either way the likelihood of the output is

    p(~y_1..T given i, j) = prod_k Pr_i(y_k among those that ~y_k leaves open, given y_1..k-1),

where the law of the rounded process is approximated by a Kalman filter with step^2/12 more noise.

The adversary who knows that readings live on a grid (the trap in Section 5 of the design).

A float map of a grid is undone by trying: invert the output under every pair of true and pseudo parameter; only the
right pair lands on the grid. One reading is enough. If the output was rounded afterwards, the distance to the grid
says nothing for a map that merely shifts, and little otherwise; then the likelihood of the rounded output, with the
input decoded reading by reading, is what tells the pairs apart (`understudy.adversaries.learners.grid`).

Against `Quantised`, whose scores are filled up with secret uniforms, neither is better than guessing.

The adversary who learns from low-order digits what he cannot work out.

Features of an output: where its readings and their differences lie between grid values (bins and harmonics), and, for
each value of the parameter, the same for the output inverted under it: how near to the grid it comes, whether its
nearest grid values lead back to the output, and how likely those are. Between pseudo parameters the features are
averaged with their odds given the output. A multinomial logistic regression with a ridge is fitted on labelled outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Frozen, Value
from understudy.adversaries.knowledge import Attack, Cases, Guess, Knowledge, make_guess
from understudy.adversaries.learners.calibration import Calibration, fit_logistic, fit_scores
from understudy.adversaries.learners.inversion import TraceReader, obstacle, trace_attack
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.identify.grid import FEWEST_CHANGES, Grid, detect_grid
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid
from understudy.transform.core import disguise, loglik
from understudy.transform.readings import as_readings

# Undoing "disguise, then round": the likelihood of a rounded output under a pair of parameters -------


_IMPOSSIBLE = -14.0  # log-likelihood of a reading that no input explains: once in a million, for what we do not know
_EDGE = 1e-7  # of a step: a float on the edge of its cell may fall to either side
_SURE_decoder = 1.0 - 1e-9


def decode(Y: Array, source: GaussMarkov, target: GaussMarkov, grid: tuple[Array, Array], particles: int) -> Array:
    """Log-likelihood (N,) of rounded outputs Y (T, d, N), if readings of `source` on the grid (steps, offsets) came in.

    A row that is missing in one sequence must be missing in all.
    """
    step, offset = grid
    T, d, N = Y.shape
    rng = np.random.default_rng(0)
    M = particles if _narrows(source, target, T) else 1
    nothing = np.zeros(d)
    whiten, colour = _Predictor(source, N * M, nothing), _Predictor(target, N * M, nothing)
    law = _Predictor(source, N * M, step**2 / 12.0)
    total, weight = np.zeros(N), np.zeros((N, M))
    for k in range(T):
        gone = bool(np.isnan(Y[k]).any())
        mean, mean_out, mean_law = whiten.predict(gone), colour.predict(gone), law.predict(gone)
        if gone:
            continue
        L, L_out, L_law = whiten.L, colour.L, law.L
        released = np.repeat(Y[k], M, axis=1)
        e, e_out, e_law = (np.empty((d, N * M)) for _ in range(3))
        z, u = np.empty((d, N * M)), np.empty((d, N * M))
        for c in range(d):
            # ~y = base + r (y - centre): what the channels before have settled, and what this one adds
            centre, base = mean[c] + L[c, :c] @ z[:c], mean_out[c] + L_out[c, :c] @ z[:c]
            r = L_out[c, c] / L[c, c]
            middle, half = (centre + (released[c] - base) / r - offset[c]) / step[c], (0.5 + _EDGE) / r
            first, last = np.ceil(middle - half), np.floor(middle + half)
            none = last < first
            first = np.where(none, np.rint(middle), first)
            last = np.where(none, first, last)
            at, sd = mean_law[c] + L_law[c, :c] @ u[:c], L_law[c, c]
            low, high = ((offset[c] + step[c] * edge - at) / sd for edge in (first - 0.5, last + 0.5))
            chance, place = _between(low, high, rng if M > 1 else None)
            weight += np.where(none, _IMPOSSIBLE, np.log(chance)).reshape(N, M)
            index = first
            if M > 1:
                index = np.clip(np.rint((at + sd * place - offset[c]) / step[c]), first, last)
            y = offset[c] + step[c] * index
            e[c], e_law[c] = y - mean[c], y - mean_law[c]
            z[c], u[c] = (y - centre) / L[c, c], (y - at) / sd
            e_out[c] = base + r * (y - centre) - mean_out[c]
        whiten.update(e)
        colour.update(e_out)
        law.update(e_law)
        top = weight.max(axis=1, keepdims=True)
        share = np.exp(weight - top)
        total += top[:, 0] + np.log(share.mean(axis=1))
        weight = np.log(share / share.mean(axis=1, keepdims=True))
        if M > 1:
            chosen = _resample(share, rng)
            for predictor in (whiten, colour, law):
                predictor.x = predictor.x[:, chosen]
            weight[:] = 0.0
    return total


class _Predictor:
    """The Kalman predictor of a model for many sequences at once; `extra` is variance added to the readings' noise."""

    def __init__(self, model: GaussMarkov, count: int, extra: Array) -> None:
        self.model, self.extra, self.k, self.settled = model, np.diag(extra), 0, False
        self.x: Array = np.repeat(model.mean0[:, None], count, axis=1)
        self.P: Array = model.cov0
        self.L: Array = np.eye(model.dim)
        self.K: Array = np.zeros((model.states, model.dim))

    def predict(self, gone: bool) -> Array:
        """Move to the next reading: its mean (d, count). `L` is the factor of its covariance, `extra` left out."""
        self.k += 1
        A, b, Q, C, d, R = self.model.at(self.k)
        self.x = A @ self.x + b[:, None]
        if gone or not self.settled:
            P = A @ self.P @ A.T + Q
            S = C @ P @ C.T + R
            self.L = np.asarray(np.linalg.cholesky(S), dtype=float)
            # K = Sigma C' (S + extra)^-1, Joseph form for the covariance
            self.K = np.asarray(np.linalg.solve(S + self.extra, C @ P).T, dtype=float)
            J = np.eye(self.model.states) - self.K @ C
            before, self.P = self.P, P if gone else J @ P @ J.T + self.K @ (R + self.extra) @ self.K.T
            moved = float(np.abs(self.P - before).max())
            self.settled = self.model.constant and not gone and moved <= 1e-14 * float(np.abs(self.P).max())
        return np.asarray(C @ self.x + d[:, None])

    def update(self, innovation: Array) -> None:
        """Take in a reading, given as its distance from the mean."""
        self.x = self.x + self.K @ innovation


def _narrows(source: GaussMarkov, target: GaussMarkov, T: int) -> bool:
    """Whether the map brings readings nearer to each other anywhere, so that a cell stands for several."""
    none = np.zeros(source.dim)
    a, b = _Predictor(source, 1, none), _Predictor(target, 1, none)
    for _ in range(min(T, 200)):
        a.predict(False)
        b.predict(False)
        if (np.diag(b.L) < _SURE_decoder * np.diag(a.L)).any():
            return True
    return False


def _between(low: Array, high: Array, rng: np.random.Generator | None) -> tuple[Array, Array]:
    """Probability that a standard normal falls between, and a draw of it given that."""
    from scipy.special import ndtr, ndtri

    # both ends on the side of the smaller tail
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, above = ndtr(a), ndtr(b)
    chance = np.maximum(above - below, 1e-300)
    if rng is None:
        return chance, chance
    draw = ndtri(np.clip(below + rng.random(low.shape) * (above - below), 1e-300, 1.0 - 1e-16))
    return chance, np.where(flip, -draw, draw)


def _resample(share: Array, rng: np.random.Generator) -> Array:
    """Systematic resampling in each row: which columns of the flat state go on."""
    N, M = share.shape
    ends = np.cumsum(share, axis=1)
    points = (rng.random((N, 1)) + np.arange(M)) / M * ends[:, -1:]
    chosen = np.minimum((points[:, :, None] > ends[:, None, :]).sum(axis=2), M - 1)
    return np.asarray((chosen + M * np.arange(N)[:, None]).ravel())


# The adversary who knows that readings live on a grid (the trap in Section 5 of the design) ----------


_STRAY = 0.01  # share of readings that may miss the grid although the pair is right
_NEAR = 1e-9  # of a step: what counts as on the grid, besides the rounding of the readings


GivenGrid: TypeAlias = Grid | float | Array | tuple[Grid | float, ...] | list[float] | list[Grid]
"""A grid or its step, for all channels or one for each."""


class GridInversion(Frozen):
    """Tries every pair of parameters and sees under which one the input was on the grid.

    `family` holds the models of the unrounded readings (or of rounded ones, which have them inside), `pseudo` the
    values of the pseudo parameter, `grid` what `detect_grid` found, or the steps themselves. `kernel` is the
    randomizer, uniform if it is not given. It knows everything but theta, ~theta and the readings.

    >>> import numpy as np, understudy as us
    >>> room = lambda people: us.GaussMarkov(0.9 - 0.1 * people, 1.0, 0.5 + people, 0.5, mean0=50.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1])
    >>> whole = np.round(us.sample(room(1), T=1, n=100, rng=1))
    >>> out = us.disguise(whole, source=room(1), target=room(0.3))
    >>> float(GridInversion(family, [0.3, 0.7], grid=1.0).guess(out).index.mean())
    1.0
    """

    __slots__ = ("family", "kernel", "offsets", "particles", "pseudo", "steps")

    def __init__(
        self,
        family: Family,
        pseudo: Iterable[Value],
        grid: GivenGrid,
        kernel: ArrayLike | None = None,
        *,
        particles: int = 16,
    ) -> None:
        self.family = family
        self.pseudo: tuple[Value, ...] = tuple(pseudo)
        self.steps, self.offsets = steps_of(grid, family.dim)
        self.kernel: Array = kernel_of(kernel, len(family.values), len(self.pseudo))
        self.particles = particles

    def __repr__(self) -> str:
        return f"GridInversion({len(self.family.values)} values, {len(self.pseudo)} pseudo values)"

    def guess(self, Y: ArrayLike) -> Guess:
        """The guess for a sequence (T,) or (T, d), or for each of (T, d, N)."""
        readings = as_readings(Y, self.family.dim)
        many = readings.ndim == 3
        out = readings if many else readings[:, :, None]
        with np.errstate(divide="ignore"):
            prior = np.log(self.family.prior)[:, None] + np.log(self.kernel)
        evidence = self.evidence(out) + prior[:, :, None]
        # Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p(~y given i, j)
        top = evidence.max(axis=(0, 1))
        with np.errstate(divide="ignore"):
            scores = np.log(np.exp(evidence - top).sum(axis=1)) + top
        return make_guess(scores, many)

    def evidence(self, Y: Array) -> Array:
        """What speaks for each pair of parameters, (m, n, N), in outputs (T, d, N): a log-likelihood, or nearly one."""
        m, n, N = *self.kernel.shape, Y.shape[2]
        sources, targets = models_of(self.family, self.family.values), models_of(self.family, self.pseudo)
        rounded = on_grid(Y, self.steps, self.offsets)
        linear = all(isinstance(model, GaussMarkov) for model in (*sources, *targets))
        result = np.empty((m, n, N))
        for i, source in enumerate(sources):
            for j, target in enumerate(targets):
                if isinstance(source, GaussMarkov) and isinstance(target, GaussMarkov) and linear and rounded.any():
                    result[i, j, rounded] = self._decoded(Y[:, :, rounded], source, target)
                rest = ~rounded if linear else np.ones(N, dtype=bool)
                if rest.any():
                    result[i, j, rest] = self._inverted(Y[:, :, rest], source, target)
        return result

    def _decoded(self, Y: Array, source: GaussMarkov, target: GaussMarkov) -> Array:
        grid = self.steps, self.offsets
        gone = np.asarray(np.isnan(Y).any(axis=1))
        if (gone == gone[:, :1]).all():
            return decode(Y, source, target, grid, self.particles)
        each = [decode(Y[:, :, s : s + 1], source, target, grid, self.particles) for s in range(Y.shape[2])]
        return np.concatenate(each)

    def _inverted(self, Y: Array, source: Model, target: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        r = distance(back, self.steps, self.offsets)
        # near the grid, or anywhere: densities on the half step to either side
        width = _NEAR + 64.0 * float(np.finfo(float).eps) * np.abs(back) / self.steps[:, None]
        near = np.log((1.0 - _STRAY) * np.exp(-r / width) / (2.0 * width) + _STRAY)
        return np.asarray(np.nansum(near, axis=(0, 1)) + loglik(Y, target))


def steps_of(grid: GivenGrid, dim: int) -> tuple[Array, Array]:
    """Steps and offsets of all channels, from grids or from the steps themselves."""
    grids: tuple[Grid | float, ...] = tuple(grid) if isinstance(grid, (tuple, list, np.ndarray)) else (grid,) * dim
    if len(grids) != dim:
        raise ConfigurationError(f"{len(grids)} grids for {dim} channels; each channel has one")
    steps = np.array([g.step or math.nan if isinstance(g, Grid) else float(g) for g in grids], dtype=float)
    offsets = np.array([g.offset if isinstance(g, Grid) else 0.0 for g in grids])
    if not (steps > 0.0).all():
        raise ConfigurationError(f"grid = {grid!r}; each channel needs a positive step")
    return steps, offsets


def kernel_of(kernel: ArrayLike | None, m: int, n: int) -> Array:
    """The randomizer's kernel as an array; uniform if there is none."""
    P = np.full((m, n), 1.0 / n) if kernel is None else np.asarray(getattr(kernel, "kernel", kernel), dtype=float)
    if P.shape != (m, n) or not (P >= 0.0).all() or not np.allclose(P.sum(axis=1), 1.0):
        raise ConfigurationError(f"kernel has shape {P.shape}; it must be ({m}, {n}), rows of probabilities")
    return P


def models_of(family: Family, values: Iterable[Value]) -> list[Model]:
    """The models of unrounded readings; a rounded sensor has one inside."""
    members = [family.model(value) for value in values]
    inside = [getattr(model, "linear", model) for model in members]
    return [model if (linear := gauss_markov(model)) is None else linear for model in inside]


def distance(Y: Array, steps: Array, offsets: Array) -> Array:
    """Distance of readings (T, d, N) from the grid, in steps: 0 to one half."""
    place = (Y - offsets[:, None]) / steps[:, None]
    return np.asarray(np.abs(place - np.rint(place)))


def on_grid(Y: Array, steps: Array, offsets: Array) -> NDArray[np.bool_]:
    """Which sequences of (T, d, N) lie on the grid."""
    slack = _NEAR + 64.0 * float(np.finfo(float).eps) * np.abs(Y) / steps[:, None]
    return np.asarray(~(distance(Y, steps, offsets) > slack).any(axis=(0, 1)))


# The adversary who learns from low-order digits what he cannot work out ------------------------------


_BINS = 8
_FLOOR = 1e-9  # of a step: nearer is as good as on the grid


class LowDigits(Frozen):
    """A logistic regression on what low-order digits look like, before and after inverting.

    Arguments as for `GridInversion`. `fit` returns another that has learned from labelled outputs, simulated or real.

    >>> import numpy as np, understudy as us
    >>> room = lambda people: us.GaussMarkov(0.9 - 0.1 * people, 1.0, 0.5 + people, 0.5, mean0=50.0, cov0=1.0)
    >>> def outputs(theta, seed):
    ...     whole = np.round(us.sample(room(theta), T=5, n=100, rng=seed))
    ...     return us.disguise(whole, source=room(theta), target=room(0.3))
    >>> label = np.repeat([0, 1], 100)
    >>> learned = LowDigits(us.Family(room, values=[0, 1]), pseudo=[0.3], grid=1.0).fit(
    ...     np.concatenate([outputs(0, 1), outputs(1, 2)], axis=2), label
    ... )
    >>> bool((learned.guess(np.concatenate([outputs(0, 3), outputs(1, 4)], axis=2)).index == label).all())
    True
    """

    __slots__ = ("calibration", "family", "grid", "kernel", "offsets", "pseudo", "ridge", "steps")

    def __init__(
        self, family: Family, pseudo: Iterable[Value], grid: GivenGrid, kernel: ArrayLike | None = None, *,
        ridge: float = 1.0, calibration: Calibration | None = None,
    ) -> None:  # fmt: skip
        if not ridge > 0.0:
            raise ConfigurationError(f"ridge = {ridge!r}; it must be positive")
        self.family = family
        self.pseudo: tuple[Value, ...] = tuple(pseudo)
        self.grid = grid
        self.steps, self.offsets = steps_of(grid, family.dim)
        self.kernel: Array = kernel_of(kernel, len(family.values), len(self.pseudo))
        self.ridge = float(ridge)
        self.calibration = calibration

    def __repr__(self) -> str:
        state = "has not learned" if self.calibration is None else "learned"
        return f"LowDigits({len(self.family.values)} values, {len(self.pseudo)} pseudo values, {state})"

    def fit(self, Y: ArrayLike, index: ArrayLike) -> LowDigits:
        """One that has learned from outputs (T, d, N) and the index of the parameter of each, (N,)."""
        readings, labels = as_readings(Y, self.family.dim), np.asarray(index)
        m = len(self.family.values)
        if readings.ndim != 3 or labels.shape != readings.shape[2:] or not np.isin(labels, range(m)).all():
            raise ConfigurationError(
                f"outputs of shape {readings.shape} and labels of shape {labels.shape}; "
                f"it learns from (T, d, N) and N labels from 0 to {m - 1}"
            )
        found = fit_logistic(self.features(readings), labels, m, ridge=self.ridge)
        return LowDigits(self.family, self.pseudo, self.grid, self.kernel, ridge=self.ridge, calibration=found)

    def guess(self, Y: ArrayLike) -> Guess:
        """The guess for a sequence (T,) or (T, d), or for each of (T, d, N)."""
        if self.calibration is None:
            raise ConfigurationError("this adversary has learned nothing yet; fit(Y, index) returns one that has")
        readings = as_readings(Y, self.family.dim)
        many = readings.ndim == 3
        return make_guess(self.calibration.logits(self.features(readings if many else readings[:, :, None])), many)

    def features(self, Y: Array) -> Array:
        """What it looks at, (features, N), in outputs (T, d, N)."""
        sources, targets = models_of(self.family, self.family.values), models_of(self.family, self.pseudo)
        wide = [_with_rounding(model, self.steps) for model in (*sources, *targets)]
        odds = np.stack([loglik(Y, model) for model in wide[len(sources) :]])
        with np.errstate(divide="ignore"):
            odds = odds + np.log(self.family.prior @ self.kernel)[:, None]
        odds = np.exp(odds - np.logaddexp.reduce(odds, axis=0))
        columns = [self._digits(Y)]
        if len(Y) > 1:
            columns.append(self._digits(np.diff(Y, axis=0) + self.offsets[:, None]))
        for i, source in enumerate(sources):
            inverted = [self._inverted(Y, source, target, wide[i]) for target in targets]
            columns.append(np.sum([w * f for w, f in zip(odds, inverted, strict=True)], axis=0))
        return np.concatenate(columns)

    def _digits(self, Y: Array) -> Array:
        """Bins and harmonics of the place between two grid values, by channel."""
        place = (Y - self.offsets[:, None]) / self.steps[:, None]
        turn = 2.0 * np.pi * place
        waves = [f(h * turn) for h in range(1, _HARMONICS + 1) for f in (np.cos, np.sin)]
        cell = np.floor(_BINS * (place - np.floor(place)))
        bins = [cell == b for b in range(_BINS)]
        there = ~np.isnan(Y)
        return np.concatenate([_mean(np.where(there, feature, np.nan)) for feature in (*waves, *bins)])

    def _inverted(self, Y: Array, source: Model, target: Model, wide: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        near = distance(back, self.steps, self.offsets)
        steps, offsets = self.steps[:, None], self.offsets[:, None]
        snapped = offsets + steps * np.rint((back - offsets) / steps)
        missed = np.abs(disguise(snapped, source=source, target=target) - Y) / steps
        return np.concatenate(
            [
                _mean(np.log10(near + _FLOOR)),
                _mean(np.cos(2.0 * np.pi * near)),
                _mean(np.cos(4.0 * np.pi * near)),
                _mean(np.where(np.isnan(missed), np.nan, missed > 0.5 + 1e-6)),
                _mean(missed),
                loglik(snapped, wide)[None] / len(Y),
            ]
        )


def _mean(feature: Array) -> Array:
    """Mean over the readings that are there of (T, d, N), as (d, N)."""
    return np.asarray(np.nansum(feature, axis=0) / np.maximum((~np.isnan(feature)).sum(axis=0), 1))


def _with_rounding(model: Model, steps: Array) -> Model:
    """A Gauss-Markov model with the variance of rounding, step^2/12, in its readings' noise."""
    if not isinstance(model, GaussMarkov):
        return model
    given = model.given
    extra = np.diag(steps**2 / 12.0)
    R = (lambda k: model.at(k).R + extra) if not model.constant else model.R + extra
    return GaussMarkov(**{**given, "R": R})


# Who knows that the raw readings were on a grid: inversion and low-order digits, as learners ---------


_TRIED = 2  # sequences that are searched for a grid
_LEARNED = 2000  # sequences that are learned from
_WORK = 20_000_000  # readings times pairs of parameters times particles
_SLOW = 3_000_000  # readings times pairs that inverted digits may take
_ALONE = 20_000  # sequences times pairs, where models go through one sequence at a time
_CHUNK = 4000  # sequences at a time
_HARMONICS = 4
_WIDTHS = (3, 15, 61)
_SURE = 20.0  # nats beyond which scores are not told apart

NO_GRID = "the raw readings have no grid that is known or could be found"


class GridInverter(Frozen):
    """Tries every pair of parameters and sees under which one the input was on the grid.

    For a theta that is constant over whole sequences (`GridInversion`), for one that moves reading by reading
    (`understudy.adversaries.learners.inversion`).
    """

    __slots__ = ()

    name = "grid inversion"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """The output must be disguised, there must be a grid, and the models must be such that they can be undone."""
        if known.raw:
            return "the output is not disguised; there is nothing to invert"
        if not cases.once:
            return _moving_objection(cases, known)
        if not _quick(known) and cases.N * known.kernel.size > _ALONE:
            return f"models without a Gauss-Markov form are inverted one by one, and {cases.N} sequences are too many"
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """The grid, where it is not known, and what the scores are worth."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        if not cases.once:
            step, offset = float(grid[0][0]), float(grid[1][0])
            return trace_attack(TraceReader(known, (step, offset), known.decision_every or cases.T), cases, known, rng)
        adversary = GridInversion(plain_family(known), known.pseudo, _grids(*grid), known.kernel)
        return fit_scores(InversionScores(adversary), cases.sequences(slice(0, _LEARNED)), cases, rng, ridge=1.0)


def _moving_objection(cases: Cases, known: Knowledge) -> str:
    """Why a theta that moves is not attacked by inverting; nothing if it is."""
    if known.grid is None:
        return NO_GRID
    if on_grid(whole_rows(cases.outputs), *known.grid).all():
        return "the output is on the grid itself, and inverting it would need the raw readings"
    return obstacle([gauss_markov(model) for model in (*known.sources, *known.targets)])


class InversionScores(NamedTuple):
    """Scores of each value beside the first, bounded, (m - 1, N). Long sequences are cut short.

    Outputs that no model can be inverted for (gaps, where a model has no law across them) score 0.
    """

    adversary: GridInversion

    def scores(self, cases: Cases) -> Array:
        """(m - 1, N)."""
        adversary, Y = self.adversary, whole_rows(cases.outputs)
        rounded = on_grid(Y, adversary.steps, adversary.offsets).mean() > 0.5
        work = cases.N * adversary.kernel.size * (adversary.particles if rounded else 1)
        T = int(np.clip(_WORK // work, min(2, cases.T), cases.T))
        found = []
        for first in range(0, cases.N, _CHUNK):
            part = Y[:T, :, first : first + _CHUNK]
            try:
                scores = adversary.guess(part).scores
            except UnderstudyError:
                scores = np.zeros((cases.m, part.shape[2]))
            found.append(np.clip(scores[1:] - scores[:1], -_SURE, _SURE))
        return np.concatenate(found, axis=1)


class Digits(Frozen):
    """A logistic regression on low-order digits (`LowDigits`)."""

    __slots__ = ()

    name = "low-order digits"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There must be a grid."""
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """What digits look like under each value."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        few = cases.sequences(slice(0, 10 * _LEARNED)) if cases.once else cases
        inverting: LowDigits | None = None
        if cases.once and not known.raw and cases.N * cases.T * known.kernel.size <= _SLOW and _quick(known):
            few = cases.sequences(slice(0, _LEARNED))
            inverting = LowDigits(plain_family(known), known.pseudo, _grids(*grid), known.kernel)
        return fit_scores(DigitScores(*grid, inverting), few, cases, rng)


class DigitScores(NamedTuple):
    """The grid, and features of inverted outputs where they can be had.

    >>> cases = Cases(np.zeros((5, 1, 3)), np.zeros((5, 3), dtype=int), np.zeros((5, 3), dtype=int), 2, False)
    >>> DigitScores(np.ones(1), np.zeros(1), None).scores(cases).shape
    (48, 5, 3)
    """

    steps: Array
    offsets: Array
    inverting: LowDigits | None

    def scores(self, cases: Cases) -> Array:
        """What is looked at: (F, N), or (F, T, N) in windows around each reading."""
        Y, found = whole_rows(cases.outputs), []
        for first in range(0, cases.N, _CHUNK):
            part = Y[:, :, first : first + _CHUNK]
            if self.inverting is not None:
                found.append(self.inverting.features(part))
            else:
                waves, there = _waves(part, self.steps, self.offsets)
                found.append(_averages(waves, there, cases.once))
        return np.concatenate(found, axis=-1)


def _waves(Y: Array, steps: Array, offsets: Array) -> tuple[Array, Array]:
    """Harmonics of the place between two grid values, of readings and differences, (F, T, N); and which are there."""
    place = (Y - offsets[:, None]) / steps[:, None]
    moved = np.diff(place, axis=0, prepend=place[:1])
    turns = [2.0 * np.pi * h * x for x in (place, moved) for h in range(1, _HARMONICS + 1)]
    waves = np.concatenate([f(turn).transpose(1, 0, 2) for turn in turns for f in (np.cos, np.sin)])
    there = ~np.isnan(waves)
    return np.where(there, waves, 0.0), there.astype(float)


def _averages(waves: Array, there: Array, once: bool) -> Array:
    """Means over the sequence, or over windows of several widths."""
    if once:
        return np.asarray(waves.sum(axis=1) / np.maximum(there.sum(axis=1), 1.0))
    F, T, N = waves.shape
    total, count = (np.concatenate([np.zeros((F, 1, N)), np.cumsum(x, axis=1)], axis=1) for x in (waves, there))
    k, found = np.arange(T), []
    for width in _WIDTHS:
        high, low = np.minimum(k + width // 2 + 1, T), np.maximum(k - width // 2, 0)
        found.append((total[:, high] - total[:, low]) / np.maximum(count[:, high] - count[:, low], 1.0))
    return np.concatenate(found)


def whole_rows(Y: Array) -> Array:
    """Outputs in which a reading is there with all its channels, or missing."""
    return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)


def plain_family(known: Knowledge) -> Family:
    """The models of readings before they are put on a grid."""
    return Family(lambda value: _plain(known.family.model(value)), known.family.values, known.prior)


def _plain(model: Model) -> Model:
    return model.model if type(model) is OnGrid else model


def _quick(known: Knowledge) -> bool:
    """Whether all models have a Gauss-Markov form, so that many sequences go through them at once."""
    models: list[Model] = [getattr(_plain(m), "linear", _plain(m)) for m in (*known.sources, *known.targets)]
    return all(gauss_markov(model) is not None for model in models)


def _grids(steps: Array, offsets: Array) -> tuple[Grid, ...]:
    """Grids as `detect_grid` tells them, with no more than step and offset in them."""
    rest = (None, None, 1.0, 0.0, None, None, 0.0, 1, None, False, 0, 0, 0, 0.0)
    return tuple(Grid(s, o, *rest) for s, o in zip(steps.tolist(), offsets.tolist(), strict=True))


def grid_of(cases: Cases, known: Knowledge) -> tuple[Array, Array] | None:
    """Steps and offsets of all channels: what is known, or what inverting some outputs shows; None if nothing."""
    if known.grid is not None:
        return known.grid
    if known.raw:
        return _detect([cases.outputs[:, :, s] for s in range(min(cases.N, _TRIED))])
    if not cases.once:
        return None
    family = plain_family(known)
    for s in range(min(cases.N, _TRIED)):
        # under the right pair the input is on its grid, under the others nearly never: no label is needed
        back = []
        for theta, value in itertools.product(family.values, known.pseudo):
            try:
                back.append(_invert(cases.outputs[:, :, s], family, theta, value))
            except UnderstudyError:
                continue
        found = _detect(back)
        if found is not None:
            return found
    return None


def _invert(Y: Array, family: Family, theta: Value, pseudo: Value) -> Array:
    return disguise(whole_rows(Y), source=family.model(pseudo), target=family.model(theta))


def _detect(sequences: list[Array]) -> tuple[Array, Array] | None:
    """The coarsest grid that some sequence (T, d) has in every channel."""
    best: tuple[Array, Array] | None = None
    for Y in sequences:
        steps, offsets = [], []
        for column in whole_rows(Y).T:
            grid = _grid(column)
            if grid is None:
                break  # a search costs something, and one channel without a grid settles it
            steps.append(grid[0])
            offsets.append(grid[1])
        if len(steps) == Y.shape[1] and (best is None or sum(steps) > float(best[0].sum())):
            best = np.array(steps), np.array(offsets)
    return best


def _grid(y: Array) -> tuple[float, float] | None:
    try:
        grid = detect_grid(y)
    except UnderstudyError:
        return None
    if not isinstance(grid, Grid) or grid.step is None or grid.changes < FEWEST_CHANGES:
        return None
    return grid.step, grid.offset
