"""A hidden state as a cloud of weighted points: weights, choice and random numbers of a particle filter.

The points may be random (here) or those of a grid (`point_mass`); either way the law of the reading that
they predict is a `ShiftedMixture`.

Where the randomness comes from. Every number is a function of a key, the step and the place it is used
at (keyed BLAKE2b), so that a run goes on from a state as if it had never stopped. Few of them are drawn.
In up to three states the noise of a step is a lattice with one random shift, laid over the points in
their order along a curve through the state space (Morton's); the divergence from the true law is then
about 10, 2.5 and 2 times less in one, two and three states than with independent draws. In more states
lattices bring nothing, and the draws are independent.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ModelError
from understudy.laws.base import Array, Frozen
from understudy.laws.shifted_mixture import ShiftedMixture
from understudy.laws.uniforms import Uniforms
from understudy.models.state_space import System

_LATTICE = 3  # states and noises up to which a lattice is better than independent draws
_CELLS = 60  # bits of a place along Morton's curve


class Cloud(NamedTuple):
    """Law of X_k given the first k readings: points (N,) of one state or (n, N), and their log-weights."""

    k: int
    points: Array
    log_weights: Array

    def __repr__(self) -> str:
        return f"Cloud(k={self.k}, {self.log_weights.size} points)"


def cloud(k: int, points: Any, log_weights: Any) -> Cloud:
    """A cloud whose arrays are read-only."""
    x, w = np.array(points, dtype=float), np.array(log_weights, dtype=float)
    x.flags.writeable = w.flags.writeable = False
    return Cloud(k, x, w)


# Weights -------------------------------------------------------------------------------------------


def normalised(log_weights: Array) -> Array:
    """Log-weights of sum 1; all -inf stays so.

    >>> np.exp(normalised(np.array([-1000.0, -1000.0]))).round(12).tolist()
    [0.5, 0.5]
    """
    top = log_weights.max()
    if top == -np.inf:
        return log_weights
    moved = log_weights - top
    return np.asarray(moved - math.log(np.exp(moved).sum()))


def effective_size(log_weights: Array) -> float:
    """Number of equally weighted points that are worth as much: 1 / sum w_i^2.

    >>> effective_size(np.log([0.5, 0.5, 1e-30]))
    2.0
    """
    w = np.exp(log_weights)
    return float(1.0 / (w * w).sum())


def systematic(log_weights: Array, u: float) -> NDArray[np.intp]:
    """Which points are drawn, N of them in their order: point i about N w_i times.

    >>> systematic(np.log([0.5, 0.25, 0.25, 1e-30]), 0.5).tolist()
    [0, 0, 1, 2]
    """
    heights = np.cumsum(np.exp(log_weights))
    N = heights.size
    chosen = np.searchsorted(heights, heights[-1] * ((np.arange(N) + u) / N))
    return np.asarray(np.minimum(chosen, N - 1))


def order(points: Array) -> NDArray[np.intp]:
    """The points in their order along Morton's curve: neighbours on it are neighbours in space.

    Coordinates count by rank, so units do not matter. One state is simply sorted.

    >>> order(np.array([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    if points.ndim == 1:
        return np.argsort(points, kind="stable")
    n, N = points.shape
    bits = max(1, min(12, _CELLS // n))
    ranks = np.empty((n, N), dtype=np.int64)
    np.put_along_axis(ranks, np.argsort(points, axis=1, kind="stable"), np.arange(N)[None, :], axis=1)
    cells = (ranks << bits) // N
    place = np.zeros(N, dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        for i in range(min(n, _CELLS)):
            place = (place << 1) | ((cells[i] >> bit) & 1)
    return np.argsort(place, kind="stable")


# Randomness ----------------------------------------------------------------------------------------


class Dice(Frozen):
    """Uniform and normal numbers as a function of key, use and step.

    >>> dice = Dice(b"sixteen bytes ok")
    >>> bool((dice.normals("moves", 3, (1, 8)) == dice.normals("moves", 3, (1, 8))).all())
    True
    """

    __slots__ = ("_key", "_uses")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or not 16 <= len(key) <= 64:
            raise ModelError("the key of a model with particles must be 16 to 64 bytes")
        root = Uniforms(key)
        self._key = key
        self._uses = {use: Uniforms(root.derive(f"particles: {use}")) for use in ("start", "moves", "choice")}

    @property
    def key(self) -> bytes:
        """The secret that everything follows from."""
        return self._key

    def __repr__(self) -> str:
        return "Dice()"

    def __reduce__(self) -> tuple[Any, ...]:
        return Dice, (self._key,)

    def uniforms(self, use: str, k: int, count: int) -> Array:
        """A few uniforms."""
        return self._uses[use].at(k, count)

    def normals(self, use: str, k: int, shape: tuple[int, int], states: int = 1) -> Array:
        """Standard normals (m, N): a shifted lattice in few dimensions, independent ones in many."""
        from scipy.special import ndtri

        m, N = shape
        if max(m, states) <= _LATTICE:
            u = (self.uniforms(use, k, m)[:, None] + _lattice(m, N)) % 1.0
        else:
            digest = hashlib.blake2b(self._uses[use].derive(f"step {k}"), digest_size=16).digest()
            philox = np.random.Philox(key=np.frombuffer(digest, dtype="<u8"))
            u = (np.asarray(philox.random_raw(m * N) >> np.uint64(11), dtype=float) * 2.0**-53).reshape(m, N)
        return np.asarray(ndtri(np.clip(u, 2.0**-54, 1.0 - 2.0**-53)))


def key_of(seed: Any) -> bytes:
    """The key that a seed stands for."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ModelError(f"seed is of type {type(seed).__name__}; it must be a whole number (a key goes to keyed)")
    return hashlib.blake2b(f"seed {int(seed)}".encode(), digest_size=32).digest()


@lru_cache(maxsize=16)
def _lattice(m: int, N: int) -> Array:
    """N points that fill the unit cube of m dimensions evenly (m, N), up to whole numbers.

    Multiples of the inverse powers of the positive root of r^(m + 1) = r + 1: for m = 1 the golden ratio.
    """
    r = 1.5
    for _ in range(64):
        r = (1.0 + r) ** (1.0 / (m + 1.0))
    return np.asarray((r ** -np.arange(1.0, m + 1.0)[:, None] * np.arange(N)) % 1.0)


# The filter ----------------------------------------------------------------------------------------


class Ahead(NamedTuple):
    """What is known of step k before its reading: the points of X_k, their weights, the law of Y_k."""

    points: Array
    log_weights: Array
    law: ShiftedMixture


class ParticleFilter(Frozen):
    """The recursion: move by drawn noise, weigh by likelihood, draw anew when fewer than half of the points count."""

    __slots__ = ("count", "dice", "system")

    def __init__(self, system: System, count: int, dice: Dice) -> None:
        self.system, self.count, self.dice = system, count, dice

    def start(self) -> Cloud:
        """Points drawn from the law of X_0."""
        n, N = self.system.states, self.count
        return self._settled(0, self.system.begun(self.dice.normals("start", 0, (n, N), n)), np.full(N, -math.log(N)))

    def ahead(self, state: Cloud) -> Ahead:
        """Every point moved."""
        k, x, log_weights = state[0] + 1, state[1], state[2]
        z = self.dice.normals("moves", k, (self.system.inputs, log_weights.size), self.system.states)
        points = self.system.moved(k, x, z)
        return Ahead(points, log_weights, self.system.law(k, points, log_weights))

    def after(self, k: int, ahead: Ahead, log_weights: Array, y: Any) -> Cloud:
        """The points with the weights that the reading left them."""
        return self._settled(k, ahead.points, log_weights)

    def without(self, k: int, ahead: Ahead) -> Cloud:
        """The points as they were moved."""
        return self._settled(k, ahead.points, ahead.log_weights)

    def _settled(self, k: int, points: Array, log_weights: Array) -> Cloud:
        """The points in their order in space, drawn anew if need be."""
        places = order(points)
        points, log_weights = points[..., places], log_weights[places]
        N = log_weights.size
        if effective_size(log_weights) < 0.5 * N:
            points = points[..., systematic(log_weights, float(self.dice.uniforms("choice", k, 1)[0]))]
            log_weights = np.full(N, -math.log(N))
        return cloud(k, points, log_weights)
