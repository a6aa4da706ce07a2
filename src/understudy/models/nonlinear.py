"""Nonlinear state space models: any functions, any noise, a hidden state as a cloud of points.

::

    X_k = move(X_{k-1}, k) + W_k       Y_k = read(X_k, k) + V_k       X_0 ~ initial, first reading Y_1

As in `GaussMarkov`, step k is the move into X_k and the reading Y_k, and the state kept is the filtered
one, the law of X_{k-1} given y_1..y_{k-1}: so a parameter may move from step to step.

The law of X given the past has no closed form. Two ways to hold it are here: *particles* (any number of
states) and *point masses* on a grid (one state, far more exact). Either way the law of the next reading is
the reading noise moved to the N places read(x_i), a mixture, and its scores are exact for that mixture.
The mixture itself is not exactly the law of the reading. What that gives away is measured by `residual`,
and a design charges it.

An outlier. If every point explains a reading badly, weights are still compared in logarithms: the score
is large and finite, and particles gather at the point that explains it least badly, from where the process
noise spreads them again; a grid is moved to where the mass now is. A reading that no point can explain at all
(noise with a bounded support) is refused.

How far one predictive law of a reading is from another is a divergence (`divergence`), and cancellation must be
avoided: KL(p || q) = int p log(p/q) is small beside its positive and negative parts. With r = log(q/p) it is also

    int p (e^r - 1 - r),        since both laws have total mass 1,

an integral of something that is nowhere negative. One channel: quadrature on a grid that resolves the
noise. Several channels: the mean of (e^r - 1 - r) over readings drawn from p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers, Seed
from understudy.errors import ModelError, ReadingError, StateError
from understudy.laws.law import Law
from understudy.laws.multivariate import ShiftedMixture
from understudy.laws.uniforms import Uniforms
from understudy.models.model import Residual
from understudy.models.particle_filter import (
    Ahead,
    Cloud,
    Dice,
    Extent,
    ParticleFilter,
    PointMassFilter,
    Simulated,
    System,
    effective_size,
    extent_of,
    key_of,
    normalised,
    pushed,
    stretched,
    system,
)

# How far one predictive law of a reading is from another: the divergence, without cancellation -------


_SPACING = 0.4  # of the grid over the scale (quartile to quartile, nearly) of the noise
_FEWEST, _MOST = 81, 4001
_NEAR, _FAR = 3.5, 8.5  # scores of the noise up to which the grid goes beyond the outermost points
_MORE = 8  # times as many particles in a reference
DRAWS = 128
"""Readings drawn for a divergence of several channels."""


def divergence(p: ShiftedMixture, q: ShiftedMixture, rng: np.random.Generator) -> float:
    """KL(p || q) in nats, never negative: quadrature for one channel, `DRAWS` readings for several.

    >>> from understudy.laws.gaussian import Gaussian
    >>> from understudy.laws.multivariate import ReadingNoise
    >>> noise = ReadingNoise(Gaussian(0.0, 1.0))
    >>> p, q = (ShiftedMixture([m], [0.0], noise) for m in (0.0, 1e-4))
    >>> round(divergence(p, q, np.random.default_rng(0)) / 5e-9, 6)
    1.0
    """
    if p.dim > 1:
        y = _drawn(p, DRAWS, rng)
        return float(_excess(np.asarray(q.logpdf(y)) - np.asarray(p.logpdf(y))).mean())
    noise = p.noise.law
    ends = [float(noise.value(z)) for z in (-_NEAR, _NEAR, -_FAR, _FAR)]
    extent = Extent(*(float(a + b) for a, b in zip(extent_of(p.shifts[0], p.log_weights), ends, strict=True)))
    scale = float(noise.value(0.5) - noise.value(-0.5))
    # three points tell the length of the grid, measured by its spacing in the middle
    length = 2.0 * math.exp(float(stretched(extent, 3).log_cells[1]))
    y, log_cells = stretched(extent, int(min(max(length / (_SPACING * scale), _FEWEST), _MOST)))
    log_p, log_q = np.asarray(p.logpdf(y)), np.asarray(q.logpdf(y))
    there = log_p > -np.inf
    log_p, log_q, log_cells = log_p[there], log_q[there], log_cells[there]
    r, mass = log_q - log_p, np.exp(log_p + log_cells)
    # far out p may have underflowed while q has not
    terms = np.where(r < 1.0, mass * _excess(np.minimum(r, 1.0)), np.exp(log_q + log_cells) - mass * (1.0 + r))
    return float(terms.sum())


def _excess(r: Array) -> Array:
    """e^r - 1 - r, which is nowhere negative."""
    return np.asarray(np.expm1(r) - r)


def _drawn(p: ShiftedMixture, count: int, rng: np.random.Generator) -> Array:
    """Readings (d, count) from p, by one of its places and the noise."""
    w = np.exp(p.log_weights)
    chosen = rng.choice(w.size, size=count, p=w / w.sum())
    return np.asarray(p.shifts[:, chosen] + p.noise.law.value(rng.standard_normal((p.dim, count))))


class Diagnosis(NamedTuple):
    """What a record does to the points of a model, one entry a reading, NaN where it is missing."""

    ess: Array
    """Effective sample size: the number of equally weighted points that would be worth as much."""
    loglik: Array
    """Log-density of the reading given those before it."""
    kl: Array
    """Estimate of the divergence of the true predictive law from the model's.

    Particles: a quarter of KL(a || b) + KL(b || a) for two runs with independent keys. The errors of the two
    add up, so this is right on average to first order; what both miss (a mode no particle reached) it
    does not show. Point masses: divergence from a grid twice as fine.
    """

    @property
    def kl_per_reading(self) -> float:
        """Mean of `kl` over the readings that are there."""
        return float(np.nanmean(self.kl))

    def __repr__(self) -> str:
        # its numbers hold the readings
        return f"Diagnosis(steps={len(self.ess)})"


def diagnose(model: Nonlinear, Y: ArrayLike) -> Diagnosis:
    """Run a `Nonlinear` model and a second one beside it over a record."""
    readings = _record(Y, model.dim)
    rng = np.random.default_rng(0)
    exact = model.method == "point-mass"
    twin = model.using(points=2 * model.points) if exact else model.keyed(model.twin_key)
    state, other = model.start(), twin.start()
    out = np.full((3, len(readings)), np.nan)
    for k, row in enumerate(readings):
        if np.isnan(row).any():
            state, other = model.skip(state), twin.skip(other)
            continue
        y = row.item() if model.dim == 1 else row
        p, q = model.predict(state), twin.predict(other)
        kl = divergence(q, p, rng) if exact else 0.25 * (divergence(p, q, rng) + divergence(q, p, rng))
        loglik = p.logpdf(y)
        state, ess = model.seen(state, y)
        other = twin.update(other, y)
        out[:, k] = ess, loglik, kl
    return Diagnosis(*out)


def residual(model: Nonlinear, T: int, sequences: int, rng: np.random.Generator) -> Residual:
    """Sum over T readings of the divergence of a reference from a `Nonlinear` model, over records of the true law."""
    reference, how = _reference(model)
    Y = model.simulate(T, n=sequences, rng=rng).Y
    totals = np.empty(sequences)
    for j in range(sequences):
        mine, true = model.keyed(rng.bytes(32)), reference.keyed(rng.bytes(32))
        state, better, total = mine.start(), true.start(), 0.0
        for row in Y[:, :, j]:
            total += divergence(true.predict(better), mine.predict(state), rng)
            y = row.item() if model.dim == 1 else row
            state, better = mine.update(state, y), true.update(better, y)
        totals[j] = total
    return Residual.estimated(totals, T, f"{how}, {sequences} sequences")


def _reference(model: Nonlinear) -> tuple[Nonlinear, str]:
    if model.method == "point-mass":
        return model.using(points=2 * model.points), f"against a grid of {2 * model.points} points"
    if model.states == 1 and not model.system.move.noisy:
        try:
            return model.using(method="point-mass"), f"against a grid of {model.points} points"
        except ModelError:
            pass  # process noise with atoms or without quantiles: no density to put on a grid
    many = _MORE * model.particles
    return model.using(particles=many), f"against {many} particles"


def _record(Y: ArrayLike, dim: int) -> Array:
    try:
        array = np.asarray(Y, dtype=float)
    except (TypeError, ValueError):
        raise ReadingError(f"Y is of type {type(Y).__name__}; it must be an array of numbers") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dim or not array.size:
        raise ReadingError(f"Y has shape {np.shape(Y)}; a record of this model is (T, {dim}), or (T,) for one channel")
    if np.isinf(array).any():
        raise ReadingError(f"the reading in row {int(np.isinf(array).any(axis=1).argmax())} is infinite")
    return array


# Nonlinear state space models: any functions, any noise, a hidden state as a cloud of points ---------


METHODS = ("particles", "point-mass")
_FEWEST_POINTS = 20


class Nonlinear(Frozen):
    """A state space model with functions of your own.

    `move` and `read` work on all points at once: x has shape (N,) for one state and (n, N) for n, and so
    has what `move` returns; `read` returns (N,) for one channel and (d, N) for d. A second argument is the
    number k of the reading (1, 2, ...). If `move` has an argument named `noise`, it is given the process
    noise and returns the new state itself, so that the noise need not be additive, nor as many numbers as
    there are states.

    `process_noise` and `reading_noise` are laws: Gaussian, `Scalar`, a mixture...; a reading of several
    channels needs Gaussian or `Independent` noise. `initial` is the law of X_0, or X_0 itself.

    ``method="particles"`` holds the state as `particles` weighted points; ``method="point-mass"`` (one state,
    additive noise) as a grid of `points`, takes several times as long, and is so much closer to the true law
    that it is the choice wherever it can be had: measured, below 1e-12 nats a reading with Gaussian moves and
    some 1e-7 with Student's t(3), against 1e-4 to 1e-1 for 1000 particles. Particles are random, but all
    randomness follows from `seed`, or from the secret key given to `keyed`: whitening and colouring with
    the same key undo each other exactly, and a run resumes from its state to the last bit.

    >>> import numpy as np
    >>> import understudy as us
    >>> sensor = Nonlinear(
    ...     move=lambda x: 0.9 * x,
    ...     read=lambda x: 5.0 * np.tanh(x / 5.0),
    ...     process_noise=us.Gaussian(0.0, 1.0),
    ...     reading_noise=us.Gaussian(0.0, 0.25),
    ...     initial=us.Gaussian(0.0, 5.0),
    ... )
    >>> sensor
    Nonlinear(states=1, dim=1, 1000 particles)
    >>> z = us.whiten([1.0, 2.0, 3.0], sensor)
    >>> us.colour(z, sensor).round(9).tolist()
    [1.0, 2.0, 3.0]
    >>> exact = sensor.using(method="point-mass")
    >>> bool(abs(us.whiten([1.0, 2.0, 3.0], exact) - z).max() < 0.05)
    True
    """

    __slots__ = ("_dice", "_filter", "_memo", "_start", "_system", "dim", "method", "particles", "points", "states")

    score_tolerance = 1e-9
    """How far a score may be from the exact one: laws are integrated numerically."""

    def __init__(
        self,
        move: Callable[..., Any],
        read: Callable[..., Any],
        process_noise: Law,
        reading_noise: Law,
        initial: Law | ArrayLike,
        particles: int = 1000,
        method: str = "particles",
        seed: int = 0,
        *,
        points: int = 200,
        key: bytes | None = None,
    ) -> None:
        if method not in METHODS:
            raise ModelError(f"method = {method!r}; it must be one of {', '.join(map(repr, METHODS))}")
        self.method = method
        self.particles = _count("particles", particles, 2)
        self.points = _count("points", points, _FEWEST_POINTS)
        self._dice = Dice(key_of(seed) if key is None else key)
        self._system = system(move, read, process_noise, reading_noise, initial)
        self.dim: int = self._system.noise.dim
        self.states: int = self._system.states
        self._filter: ParticleFilter | PointMassFilter = (
            ParticleFilter(self._system, self.particles, self._dice)
            if method == "particles"
            else PointMassFilter(self._system, self.points)
        )
        # The step that was last asked for, so that predict and update do not both compute it.
        self._memo: dict[str, tuple[Cloud, Ahead]] = {}
        self._check_functions()
        self._start: Cloud = self._filter.start()

    def __repr__(self) -> str:
        size = f"{self.particles} particles" if self.method == "particles" else f"{self.points} points"
        return f"Nonlinear(states={self.states}, dim={self.dim}, {size})"

    def __reduce__(self) -> tuple[Callable[[], Nonlinear], tuple[()]]:
        return partial(Nonlinear, **self._given()), ()

    def _given(self) -> dict[str, Any]:
        parts = self._system
        return {
            "move": parts.move.function,
            "read": parts.read.function,
            "process_noise": parts.process,
            "reading_noise": parts.noise.law,
            "initial": parts.initial,
            "particles": self.particles,
            "method": self.method,
            "points": self.points,
            "key": self._dice.key,
        }

    def keyed(self, key: bytes) -> Nonlinear:
        """The same model with its randomness from another key, 16 to 64 bytes and secret."""
        return Nonlinear(**{**self._given(), "key": key})

    def using(self, *, method: str | None = None, particles: int | None = None, points: int | None = None) -> Nonlinear:
        """The same model, computed otherwise: by another method or with another number of points."""
        changes = {"method": method, "particles": particles, "points": points}
        return Nonlinear(**{**self._given(), **{name: value for name, value in changes.items() if value is not None}})

    @property
    def twin_key(self) -> bytes:
        """Another key that follows from this one: for a second, independent run."""
        return Uniforms(self._dice.key).derive("particles: twin")

    @property
    def system(self) -> System:
        """The functions, the noises and the start."""
        return self._system

    # The recursion --------------------------------------------------------------------------------

    def start(self) -> Cloud:
        """Law of X_0."""
        return self._start

    def predict(self, state: Cloud) -> ShiftedMixture:
        """The reading noise, moved to where the state may be read."""
        return self._ahead(state).law

    def update(self, state: Cloud, y: Numbers) -> Cloud:
        """Weights times likelihood; then particles are drawn anew if few still count, or the grid is laid anew."""
        return self.seen(state, y)[0]

    def skip(self, state: Cloud) -> Cloud:
        """The move alone."""
        return self._filter.without(state[0] + 1, self._ahead(state))

    def seen(self, state: Cloud, y: Numbers) -> tuple[Cloud, float]:
        """The state after a reading, as `update` gives it, and the effective sample size that its weights left."""
        ahead, k = self._ahead(state), state[0] + 1
        if not np.isfinite(np.asarray(y, dtype=float)).all():
            raise ReadingError(f"reading number {k} is not finite; a missing reading goes to skip")
        with np.errstate(over="ignore", invalid="ignore"):
            log_weights = normalised(ahead.log_weights + ahead.law.likelihoods(y))
        if not log_weights.max() > -np.inf:
            raise ReadingError(f"reading number {k} is outside what any state of the model can give")
        return self._filter.after(k, ahead, log_weights, y), effective_size(log_weights)

    def _ahead(self, state: Cloud) -> Ahead:
        kept = self._memo.get("last")
        if kept is not None and kept[0] is state:
            return kept[1]
        if not isinstance(state, tuple) or len(state) != 3 or np.shape(state[1])[-1:] != np.shape(state[2]):
            raise StateError("a state of this model is a Cloud: k, points and as many log-weights")
        ahead = self._filter.ahead(state)
        self._memo["last"] = (state, ahead)
        return ahead

    # The true law, and how far this one is from it --------------------------------------------------

    def simulate(self, T: int, *, n: int = 1, rng: Seed = None) -> Simulated:
        """Draw n sequences of T states and readings from the true model, not from its approximation.

        `rng` is a numpy Generator or a seed; None draws afresh.
        """
        return self._system.simulated(_count("T", T, 1), _count("n", n, 1), np.random.default_rng(rng))

    def diagnose(self, Y: ArrayLike) -> Diagnosis:
        """How the points fare on a record: effective sample size, log-likelihood and divergence, by reading.

        `Y` is (T,) or (T, d), NaN where a reading is missing. See `Diagnosis`.
        """
        return diagnose(self, Y)

    def residual(self, T: int, *, sequences: int | None = None, rng: Seed = None) -> Residual:
        """Divergence of the true law of T readings from this model: what it gives away beyond the randomizer.

        `sequences` records are drawn from the true model (16, or 4 for point masses, whose divergence is tiny);
        on each, at each reading, the divergence of this law from a reference is integrated. The reference
        is a point-mass filter where there is one (twice as fine for a point-mass model), else a particle filter
        with 8 times as many points and another key, whose own error makes the answer about an eighth too
        large; but what both miss (a mode that no particle reached) neither shows. Particles get another key
        for each sequence, so that the answer is the mean over keys.

        The error is the standard error over sequences, widened by Student's factor for so few of them. Where
        few particles count after a reading (see `diagnose`), most of the divergence comes from rare readings
        and few sequences tell little: take more particles, more sequences, or point masses. Expect some 5 ms
        for a reading of a sequence.
        """
        few = 16 if self.method == "particles" else 4
        count = few if sequences is None else _count("sequences", sequences, 2)
        return residual(self, _count("T", T, 1), count, np.random.default_rng(rng))

    def _check_functions(self) -> None:
        """Move and read, tried on the first step."""
        parts, N = self._system, max(self.particles, 8)
        x = parts.begun(self._dice.normals("start", 0, (parts.states, N), parts.states))
        noise = pushed(parts.process, self._dice.normals("moves", 1, (parts.inputs, N), parts.states))
        moved = parts.move.check(x, noise if parts.move.noisy else None)
        parts.read.check(moved if parts.move.noisy else moved + noise)


def _count(name: str, value: int, fewest: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < fewest:
        raise ModelError(f"{name} = {value!r}; it must be a whole number of at least {fewest}")
    return int(value)
