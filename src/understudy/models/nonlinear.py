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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.errors import ModelError, ReadingError, StateError
from understudy.laws.base import Frozen, Law
from understudy.laws.shifted_mixture import ShiftedMixture
from understudy.laws.uniforms import Uniforms
from understudy.models.divergence import Diagnosis, diagnose, residual
from understudy.models.particles import Cloud, Dice, ParticleFilter, effective_size, key_of, normalised
from understudy.models.point_mass import PointMassFilter
from understudy.models.residual import Residual
from understudy.models.state_space import Simulated, System, pushed, system

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
        initial: Any,
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
        self._filter: Any = (
            ParticleFilter(self._system, self.particles, self._dice)
            if method == "particles"
            else PointMassFilter(self._system, self.points)
        )
        # The step that was last asked for, so that predict and update do not both compute it.
        self._memo: dict[str, Any] = {}
        self._check_functions()
        self._start: Cloud = self._filter.start()

    def __repr__(self) -> str:
        size = f"{self.particles} particles" if self.method == "particles" else f"{self.points} points"
        return f"Nonlinear(states={self.states}, dim={self.dim}, {size})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self._given(),)

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
        return _remade({**self._given(), "key": key})

    def using(self, *, method: str | None = None, particles: int | None = None, points: int | None = None) -> Nonlinear:
        """The same model, computed otherwise: by another method or with another number of points."""
        changes = {"method": method, "particles": particles, "points": points}
        return _remade({**self._given(), **{name: value for name, value in changes.items() if value is not None}})

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
        law: ShiftedMixture = self._ahead(state).law
        return law

    def update(self, state: Cloud, y: Any) -> Cloud:
        """Weights times likelihood; then particles are drawn anew if few still count, or the grid is laid anew."""
        return self.seen(state, y)[0]

    def skip(self, state: Cloud) -> Cloud:
        """The move alone."""
        after: Cloud = self._filter.without(state[0] + 1, self._ahead(state))
        return after

    def seen(self, state: Cloud, y: Any) -> tuple[Cloud, float]:
        """The state after a reading, as `update` gives it, and the effective sample size that its weights left."""
        ahead, k = self._ahead(state), state[0] + 1
        if not np.isfinite(np.asarray(y, dtype=float)).all():
            raise ReadingError(f"reading number {k} is not finite; a missing reading goes to skip")
        with np.errstate(over="ignore", invalid="ignore"):
            log_weights = normalised(ahead.log_weights + ahead.law.likelihoods(y))
        if not log_weights.max() > -np.inf:
            raise ReadingError(f"reading number {k} is outside what any state of the model can give")
        return self._filter.after(k, ahead, log_weights, y), effective_size(log_weights)

    def _ahead(self, state: Cloud) -> Any:
        kept = self._memo.get("last")
        if kept is not None and kept[0] is state:
            return kept[1]
        if not isinstance(state, tuple) or len(state) != 3 or np.shape(state[1])[-1:] != np.shape(state[2]):
            raise StateError("a state of this model is a Cloud: k, points and as many log-weights")
        ahead = self._filter.ahead(state)
        self._memo["last"] = (state, ahead)
        return ahead

    # The true law, and how far this one is from it --------------------------------------------------

    def simulate(self, T: int, *, n: int = 1, rng: Any = None) -> Simulated:
        """Draw n sequences of T states and readings from the true model, not from its approximation.

        `rng` is a numpy Generator or a seed; None draws afresh.
        """
        return self._system.simulated(_count("T", T, 1), _count("n", n, 1), np.random.default_rng(rng))

    def diagnose(self, Y: Any) -> Diagnosis:
        """How the points fare on a record: effective sample size, log-likelihood and divergence, by reading.

        `Y` is (T,) or (T, d), NaN where a reading is missing. See `Diagnosis`.
        """
        return diagnose(self, Y)

    def residual(self, T: int, *, sequences: int | None = None, rng: Any = None) -> Residual:
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


def _remade(given: dict[str, Any]) -> Nonlinear:
    return Nonlinear(**given)


def _count(name: str, value: Any, fewest: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < fewest:
        raise ModelError(f"{name} = {value!r}; it must be a whole number of at least {fewest}")
    return int(value)
