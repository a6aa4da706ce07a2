"""Nonlinear state space models: any functions, any noise, a hidden state as a cloud of weighted points.

::

    X_k = move(X_{k-1}, k) + W_k       Y_k = read(X_k, k) + V_k       X_0 ~ initial, first reading Y_1

As in `GaussMarkov`, step k is the move into X_k and the reading Y_k, and the state kept is the filtered
one, the law of X_{k-1} given y_1..y_{k-1}: so a parameter may move from step to step. The functions of the user's
(`System`) work on all points at once; their answers are checked, before the first reading in words that help,
afterwards without a word that could tell a reading.

The law of X given the past has no closed form. Two ways to hold it are here: random points (`ParticleFilter`, any
number of states) and the points of a grid (`PointMassFilter`, one state, far more exact). Either way the law of the
next reading is the reading noise moved to the N places read(x_i), a `ShiftedMixture`, and its scores are exact for that
mixture. The mixture itself is not exactly the law of the reading. What that gives away is measured by `residual`,
and a design charges it.

*Particles.* Every random number is a function of a key, the step and the place it is used at (keyed BLAKE2b), so that a
run goes on from a state as if it had never stopped. In up to three states the noise of a step is a lattice with one
random shift, laid over the points in their order along a curve through the state space (Morton's); the divergence from
the true law is then about 10, 2.5 and 2 times less in one, two and three states than with independent draws. In more
states lattices bring nothing, and the draws are independent.

*Point masses.* The law of the state is held as masses at the points of a grid. One step is

    p(x_k given y_1..y_k-1) = sum_i w_i f(x_k - move(x_i)),      f the density of the process noise,

evaluated at the points of a new grid, and then multiplied by the likelihood of y_k. The sum is the trapezoid rule for
an integral over the whole line, whose error for smooth densities falls faster than any power of the spacing. So the
work is to lay the grid (`stretch_grid`): even over the core of the mass, exponentially stretched from there to where
the density has fallen by 45 nats, and one grid for each separate place. After each reading it is laid anew over what
the reading left. The spacing must resolve the noises: from one point to the next, what `move` and `read` give must
change by less than about a deviation of the noise that is added to it (at 0.9 of a deviation the error is 1e-10, at 2
deviations 1e-2); where it changes by more the grid is made finer, up to `FINEST` times. Densities with jumps converge
slowly. Beyond the ends of the grid, some nine deviations out, a reading is measured against its own noise alone.

*An outlier.* If every point explains a reading badly, weights are still compared in logarithms: the score is large and
finite, and particles gather at the point that explains it least badly, from where the process noise spreads them again;
a grid is moved to where the mass now is. A reading that no point can explain at all (noise with a bounded support) is
refused.

How far one predictive law of a reading is from another is a `divergence`, and cancellation must be avoided:
KL(p || q) = int p log(p/q) is small beside its positive and negative parts. With r = log(q/p) it is also

    int p (e^r - 1 - r),        since both laws have total mass 1,

an integral of something that is nowhere negative. One channel: quadrature on a grid that resolves the
noise. Several channels: the mean of (e^r - 1 - r) over readings drawn from p.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Numbers, Seed
from understudy.errors import LawError, ModelError, NumericalError, ReadingError, StateError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, dimension, has_atoms
from understudy.laws.multivariate import ReadingNoise, ShiftedMixture
from understudy.laws.uniforms import Uniforms
from understudy.models.iid_markov import law_dim
from understudy.models.model import Residual

# The parts of a nonlinear state space model: functions of the user's, noises, where it starts --------


_RULE = "it must work on all points at once: x of shape (N,) for one state or (n, N), with numpy functions"


class Function(Frozen):
    """`function` of the points x, of k if it takes a second argument, and of `noise` if it has that argument.

    >>> square = Function(lambda x, k: k * x**2, "read", 1)
    >>> square.at(3, np.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """

    __slots__ = ("_takes_k", "dim", "function", "name", "noisy")

    def __init__(self, function: Callable[..., Any], name: str, dim: int, noisy: bool = False) -> None:
        if not callable(function):
            raise ModelError(f"{name} is of type {type(function).__name__}; it must be a function")
        self.function, self.name, self.dim = function, name, dim
        self._takes_k, takes_noise = _arguments(function)
        self.noisy: bool = noisy and takes_noise

    def __repr__(self) -> str:
        return f"Function({self.name}, dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.function, self.name, self.dim, self.noisy)

    def at(self, k: int, x: Array, noise: Array | None = None) -> Array:
        """The answer for every point: (N,), or (dim, N)."""
        # what a function of the user's says may hold a state, and a state holds the readings
        return self._answer(k, x, noise, lambda fault: NumericalError(f"step {k}: {self.name} {fault}"))

    def check(self, x: Array, noise: Array | None = None) -> Array:
        """The answer at step 1, refused if it is not what it must be."""
        whole = self._answer(1, x, noise, lambda fault: ModelError(f"{self.name} {fault}; {_RULE}"))
        try:
            few = self._call(1, x[..., -2:], None if noise is None else noise[..., -2:])
            alike = np.allclose(few, whole[..., -2:], rtol=1e-9, atol=1e-12)
        except Exception:
            alike = False
        if not alike:
            raise ModelError(f"{self.name} gave other answers for two points alone than among others; {_RULE}")
        return whole

    def _answer(self, k: int, x: Array, noise: Array | None, error: Callable[[str], Exception]) -> Array:
        try:
            answer = np.asarray(self._call(k, x, noise), dtype=float)
        except Exception as caught:
            raise error(f"raised {type(caught).__name__} on points of shape {x.shape}") from None
        if answer.shape != self._shape(x):
            raise error(f"gave shape {answer.shape} for points of shape {x.shape}, not {self._shape(x)}")
        if not np.isfinite(answer).all():
            raise error("gave a number that is not finite")
        return answer

    def _call(self, k: int, x: Array, noise: Array | None) -> Any:
        arguments = (x, k) if self._takes_k else (x,)
        return self.function(*arguments, noise=noise) if self.noisy else self.function(*arguments)

    def _shape(self, x: Array) -> tuple[int, ...]:
        return x.shape[-1:] if self.dim == 1 else (self.dim, x.shape[-1])


def _arguments(function: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether a function takes k (an argument of that name, or a second one without a default), and noise."""
    if isinstance(function, np.ufunc):
        return False, False
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return False, False  # a builtin without a signature takes x alone
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    second = next((p for p in positional[1:] if p.name != "noise"), None)
    takes_k = second is not None and (second.name == "k" or second.default is inspect.Parameter.empty)
    return takes_k, "noise" in parameters


class Simulated(NamedTuple):
    """Draws of the true model: states (T, n, N) and readings (T, d, N), time first, sequence last."""

    X: Array
    Y: Array

    def __repr__(self) -> str:
        return f"Simulated(X {self.X.shape}, Y {self.Y.shape})"


class System(NamedTuple):
    """X_k = move(X_{k-1}, k) + W_k, Y_k = read(X_k, k) + V_k, X_0 from a law or given (a vector)."""

    move: Function
    read: Function
    process: Law
    noise: ReadingNoise
    initial: Law | Array

    @property
    def states(self) -> int:
        """Numbers in the state."""
        return self.move.dim

    def begin(self, z: Array) -> Array:
        """X_0 from standard normals (n, N)."""
        if not isinstance(self.initial, np.ndarray):
            return push(self.initial, z)
        points = np.repeat(self.initial[:, None], z.shape[1], axis=1)
        return points[0] if self.states == 1 else points

    def advance(self, k: int, x: Array, z: Array) -> Array:
        """X_k from X_{k-1} and the standard normals that make the noise."""
        w = push(self.process, z)
        return self.move.at(k, x, w) if self.move.noisy else self.move.at(k, x) + w

    def law(self, k: int, points: Array, log_weights: Array) -> ShiftedMixture:
        """The law of Y_k if X_k is at one of these points."""
        return ShiftedMixture(self.read.at(k, points), log_weights, self.noise)

    @property
    def inputs(self) -> int:
        """Numbers in the process noise."""
        return dimension(self.process)

    def simulate(self, T: int, n: int, rng: np.random.Generator) -> Simulated:
        """N sequences of T steps of the model itself."""
        X, Y = np.empty((T, self.states, n)), np.empty((T, self.noise.dim, n))
        x = self.begin(rng.standard_normal((self.states, n)))
        for k in range(1, T + 1):
            x = self.advance(k, x, rng.standard_normal((self.inputs, n)))
            X[k - 1] = x
            Y[k - 1] = self.read.at(k, x) + push(self.noise.law, rng.standard_normal((self.noise.dim, n)))
        return Simulated(X, Y)


def system(
    move: Callable[..., Any], read: Callable[..., Any], process: Law, noise: Law, initial: Law | ArrayLike
) -> System:
    """A system out of what a user gives, checked."""
    inputs, d = law_dim(process, "process_noise"), law_dim(noise, "reading_noise")
    if has_atoms(noise):
        raise ModelError("reading_noise has atoms; a reading needs noise with a density")
    try:
        reading_noise = ReadingNoise(noise)
    except LawError as error:
        raise ModelError(str(error)) from None
    start: Law | Array = initial if isinstance(initial, Law) else _vector(initial)
    n = start.size if isinstance(start, np.ndarray) else law_dim(start, "initial")
    moves = Function(move, "move", n, noisy=True)
    if not moves.noisy and inputs != n:
        raise ModelError(
            f"process_noise has {inputs} numbers and the state {n}; noise that is added must have as many "
            "(a move with an argument named noise may use another number)"
        )
    return System(moves, Function(read, "read", d), process, reading_noise, start)


def _vector(initial: ArrayLike) -> Array:
    try:
        x = np.atleast_1d(np.array(initial, dtype=float))
    except (TypeError, ValueError):
        raise ModelError(
            f"initial is of type {type(initial).__name__}; it must be a law, a number or a vector of numbers"
        ) from None
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ModelError(f"initial has shape {x.shape}; it must be a law, a finite number or a vector of them")
    x.flags.writeable = False
    return x


def push(law: Law, z: Array) -> Array:
    """Standard normals (m, N) through a law: (N,) for one number, else (m, N)."""
    out = np.asarray(law.value(z[0] if len(z) == 1 else z), dtype=float)
    if not np.isfinite(out).all():
        raise NumericalError("a law of the model gave a number that is not finite")
    return out


# A cloud of weighted points ----------------------------------------------------------------------------


_LATTICE = 3  # states and noises up to which a lattice is better than independent draws
_CELLS = 60  # bits of a place along Morton's curve


class Cloud(NamedTuple):
    """Law of X_k given the first k readings: points (N,) of one state or (n, N), and their log-weights."""

    k: int
    points: Array
    log_weights: Array

    def __repr__(self) -> str:
        return f"Cloud(k={self.k}, {self.log_weights.size} points)"


def cloud(k: int, points: Array, log_weights: Array) -> Cloud:
    """A cloud whose arrays are read-only."""
    x, w = np.array(points, dtype=float), np.array(log_weights, dtype=float)
    x.flags.writeable = w.flags.writeable = False
    return Cloud(k, x, w)


# Weights -------------------------------------------------------------------------------------------


def normalise(log_weights: Array) -> Array:
    """Log-weights of sum 1; all -inf stays so.

    >>> np.exp(normalise(np.array([-1000.0, -1000.0]))).round(12).tolist()
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


def systematic(log_weights: Array, u: float) -> Index:
    """Which points are drawn, N of them in their order: point i about N w_i times.

    >>> systematic(np.log([0.5, 0.25, 0.25, 1e-30]), 0.5).tolist()
    [0, 0, 1, 2]
    """
    heights = np.cumsum(np.exp(log_weights))
    N = heights.size
    chosen = np.searchsorted(heights, heights[-1] * ((np.arange(N) + u) / N))
    return np.asarray(np.minimum(chosen, N - 1))


def order(points: Array) -> Index:
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


def key_of(seed: int) -> bytes:
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


LogDensity = Callable[[Array], Array]


class Extent(NamedTuple):
    """Where mass lies: the ends of the core, and the ends of all of it."""

    low: float
    high: float
    far_low: float
    far_high: float


class Ahead(NamedTuple):
    """What is known of step k before its reading: the points of X_k, their weights, the law of Y_k.

    A point-mass filter also keeps the density of X_k, and where its mass lies.
    """

    points: Array
    log_weights: Array
    law: ShiftedMixture
    density: LogDensity = normalise
    places: Sequence[Extent] = ()


class ParticleFilter(Frozen):
    """The recursion: move by drawn noise, weigh by likelihood, draw anew when fewer than half of the points count."""

    __slots__ = ("count", "dice", "system")

    def __init__(self, system: System, count: int, dice: Dice) -> None:
        self.system, self.count, self.dice = system, count, dice

    def start(self) -> Cloud:
        """Points drawn from the law of X_0."""
        n, N = self.system.states, self.count
        return self._resample(0, self.system.begin(self.dice.normals("start", 0, (n, N), n)), np.full(N, -math.log(N)))

    def ahead(self, state: Cloud) -> Ahead:
        """Every point moved."""
        k, x, log_weights = state[0] + 1, state[1], state[2]
        z = self.dice.normals("moves", k, (self.system.inputs, log_weights.size), self.system.states)
        points = self.system.advance(k, x, z)
        return Ahead(points, log_weights, self.system.law(k, points, log_weights))

    def after(self, k: int, ahead: Ahead, log_weights: Array, y: Numbers) -> Cloud:
        """The points with the weights that the reading left them."""
        return self._resample(k, ahead.points, log_weights)

    def without(self, k: int, ahead: Ahead) -> Cloud:
        """The points as they were moved."""
        return self._resample(k, ahead.points, ahead.log_weights)

    def _resample(self, k: int, points: Array, log_weights: Array) -> Cloud:
        """The points in their order in space, drawn anew if need be."""
        places = order(points)
        points, log_weights = points[..., places], log_weights[places]
        N = log_weights.size
        if effective_size(log_weights) < 0.5 * N:
            points = points[..., systematic(log_weights, float(self.dice.uniforms("choice", k, 1)[0]))]
            log_weights = np.full(N, -math.log(N))
        return cloud(k, points, log_weights)


# Grids that go where the mass is: for integrals of densities over the whole line ---------------------


_CORE, _FAR = 6.0, 45.0  # nats below the highest mass: the ends of the core, and of the grid
OPEN = 30.0
"""An end of a grid that is no deeper than this is not the end."""
_BEND = 4.0  # length of half the core, in units over which the stretch sets in
_MOST_PLACES = 6  # places with a grid of their own; more are taken as one
_FEWEST = 60  # points of such a grid
_COARSE = 81  # points of the grids that only look for the mass
_LOOKS = 40
_WANTED = 23.0  # minus log of the error that a grid may have (1e-10)
FINEST = 8.0
"""A grid is made at most so many times finer than was asked for."""


class Grid(NamedTuple):
    """Points in increasing order, and the logarithms of the lengths that they stand for."""

    points: Array
    log_cells: Array


def stretch_grid(extent: Extent, count: int) -> Grid:
    """A grid that is even over the core and exponentially stretched beyond.

    x(u) = centre + s (u + exp(u - B) - exp(-u - B)) with u evenly spaced: an analytic map, so that the
    trapezoid rule in u loses nothing.

    >>> grid = stretch_grid(Extent(-1.0, 1.0, -1e6, 1e6), 101)
    >>> bool(abs(grid.points[0] + 1e6) < 1.0), float(grid.points[50])
    (True, 0.0)
    >>> density = 1.0 / (np.pi * (1.0 + grid.points**2))
    >>> round(float((density * np.exp(grid.log_cells)).sum()), 5)
    1.0
    """
    centre, half = 0.5 * (extent.low + extent.high), 0.5 * (extent.high - extent.low)
    s = half / _BEND
    u = np.linspace(-_solve((centre - extent.far_low) / s), _solve((extent.far_high - centre) / s), count)
    right, left = np.exp(u - _BEND), np.exp(-u - _BEND)
    return Grid(centre + s * (u + right - left), np.log(s * (u[1] - u[0]) * (1.0 + right + left)))


def _solve(target: float) -> float:
    """The u with u + exp(u - B) - exp(-u - B) = target >= 0, by Newton's method from the right (convex there)."""
    u = min(target, _BEND + math.log1p(target))
    for _ in range(60):
        right, left = math.exp(u - _BEND), math.exp(-u - _BEND)
        step = (u + right - left - target) / (1.0 + right + left)
        u -= step
        if abs(step) < 1e-12 * (1.0 + u):
            break
    return u


def on_grid(log_density: LogDensity, extents: Sequence[Extent], count: int) -> tuple[Array, Array]:
    """Points and log-weights of a density; `count` points in all, but enough in each place."""
    each = max(-(-count // len(extents)), min(count, _FEWEST))
    grids = [stretch_grid(extent, each) for extent in extents]
    points = np.concatenate([grid.points for grid in grids])
    return points, normalise(log_density(points) + np.concatenate([grid.log_cells for grid in grids]))


# Where the mass is ---------------------------------------------------------------------------------


def extent_of(points: Array, log_weights: Array) -> Extent:
    """Where the mass of a cloud of points lies, by the weights."""
    depth = log_weights.max() - log_weights
    core, whole = points[depth < _CORE], points[depth < _FAR]
    return Extent(float(core.min()), float(core.max()), float(whole.min()), float(whole.max()))


def places_of(points: Array, log_weights: Array) -> list[Extent]:
    """The separate places where the points of a grid, in increasing order, have mass; a cell more on each side.

    >>> x = np.linspace(-20.0, 20.0, 401)
    >>> [(round(e.far_low), round(e.far_high)) for e in places_of(x, -8.0 * (np.abs(x) - 10.0) ** 2)]
    [(-12, -8), (8, 12)]
    """
    heavy = np.flatnonzero(log_weights > log_weights.max() - _FAR)
    # two runs are apart if the cells around them do not touch
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(heavy) > 3)])
    if starts.size > _MOST_PLACES:
        starts = starts[:1]
    out = []
    for run in np.split(heavy, starts[1:]):
        core = run[log_weights[run] > log_weights[run].max() - _CORE]
        ends = [core[0] - 1, core[-1] + 1, run[0] - 1, run[-1] + 1]
        out.append(Extent(*(float(points[min(max(i, 0), points.size - 1)]) for i in ends)))
    return out


def spread(points: Array, log_weights: Array, noise: Extent) -> list[Extent]:
    """The separate places where points plus noise have mass.

    >>> spread(np.array([0.0, 50.0]), np.zeros(2), Extent(-1.0, 1.0, -3.0, 3.0))[1]
    Extent(low=49.0, high=51.0, far_low=47.0, far_high=53.0)
    """
    heavy = np.flatnonzero(log_weights > log_weights.max() - _FAR)
    heavy = heavy[np.argsort(points[heavy], kind="stable")]
    apart = 1 + np.flatnonzero(np.diff(points[heavy]) > noise.far_high - noise.far_low)
    if apart.size >= _MOST_PLACES:
        apart = apart[:0]
    runs = [extent_of(points[run], log_weights[run]) for run in np.split(heavy, apart)]
    return [Extent(*(a + b for a, b in zip(run, noise, strict=True))) for run in runs]


def locate(log_density: LogDensity, extent: Extent) -> Extent | None:
    """Where the mass of a density lies, looked for from a guess; None if there is none to be found.

    Coarse grids are laid one after the other: outward while the density is still high at an end, inward
    to where it is. One cell more on each side is kept, since the mass may lie between two points.

    >>> narrow = locate(lambda x: -0.5 * ((x - 200.0) / 0.01) ** 2, Extent(-3.0, 3.0, -9.0, 9.0))
    >>> bool(199.8 < narrow.low < 200.0 < narrow.high < 200.2)
    True
    """
    for _ in range(_LOOKS):
        points, cells = stretch_grid(extent, _COARSE)
        mass = log_density(points) + cells
        if not math.isfinite(mass.max()):
            return None
        depth = mass.max() - mass
        places = places_of(points, mass)
        found = Extent(places[0].low, places[-1].high, places[0].far_low, places[-1].far_high)
        # an end that the mass reaches past moves outward by the width of the grid
        width = extent.far_high - extent.far_low
        below, above = (width if depth[end] < OPEN else 0.0 for end in (0, -1))
        if below or above:
            far_low, far_high = extent.far_low - below, extent.far_high + above
            extent = Extent(far_low if below else found.low, far_high if above else found.high, far_low, far_high)
            continue
        settled = found.high - found.low > 0.5 * (extent.high - extent.low)
        extent = found
        if settled:
            break
    return extent


def fineness(log_weights: Array, steps: Array) -> float:
    """How many times more points the grid needs; at least 1, at most `FINEST`.

    `steps` (N - 1,) say how far the centre of a noise moves from one point to the next, in deviations of
    that noise. They count where there is mass. So does the bend of the density itself: log-weights of a
    normal law with deviation s, h apart, have the second difference (h / s)^2.

    The trapezoid rule for a normal law with deviation s and points h apart has the error exp(-2 (pi s / h)^2),
    and errors count by the mass that is there: at d nats below the highest, h / s may be
    pi sqrt(2 / (23 - d)) for an error of 1e-10.

    >>> round(fineness(np.zeros(3), np.array([2.0, 0.1])), 3)
    2.159
    """
    depth = log_weights.max() - log_weights
    weight = np.sqrt(np.maximum(_WANTED - depth, 0.0) / 2.0) / math.pi
    with np.errstate(invalid="ignore"):
        bends = np.sqrt(np.abs(np.diff(log_weights, 2)))
        bent = (bends * weight[1:-1])[np.isfinite(bends)].max(initial=0.0)
    stepped = (steps * np.maximum(weight[1:], weight[:-1])).max(initial=0.0)
    return min(max(1.0, float(bent), float(stepped)), FINEST)


# One hidden state on a grid: the predictive law by quadrature, nothing random ------------------------


_CORE_SCORE, _FAR_SCORE = 3.5, 8.5  # the ends of the core of a law, and of all of it, by its scores
_BLOCK = 128  # points worked on at a time
_LIGHTEST = 90.0  # nats below the heaviest target: what is lighter is left out
_DEEP = 1e-150  # a density below which logarithms are summed
_REACH = 30.0  # score of the noise beyond which nothing is left of it that this density would miss


class Smooth(Frozen):
    """A law of one number with a density, and where its mass lies."""

    __slots__ = ("extent", "law", "reach", "scale")

    def __init__(self, law: Law, name: str) -> None:
        if has_atoms(law):
            raise ModelError(f"{name} has atoms; a point-mass filter needs a density")
        try:
            ends = [float(law.value(z)) for z in (-_CORE_SCORE, _CORE_SCORE, -_FAR_SCORE, _FAR_SCORE)]
        except ArithmeticError:
            raise ModelError(
                f"{name} has no finite quantiles at the scores +-{_FAR_SCORE}; its tails are too heavy"
            ) from None
        self.law = law
        self.extent = Extent(*ends)
        self.scale = float(law.value(0.5) - law.value(-0.5))
        try:
            self.reach = float(law.value(-_REACH)), float(law.value(_REACH))
        except ArithmeticError:  # the tail leaves float64 before
            self.reach = -math.inf, math.inf

    def __reduce__(self) -> tuple[Any, ...]:
        return Smooth, (self.law, "law")

    def density(self, e: Array) -> Array:
        """The density at every entry of `e`, which is overwritten."""
        if not isinstance(self.law, Gaussian):
            return np.asarray(np.exp(self.law.logpdf(e)))
        mean, variance = self.law.mean, self.law.cov
        e -= mean
        e *= e
        e *= -0.5 / variance
        np.exp(e, out=e)
        e *= 1.0 / math.sqrt(2.0 * math.pi * variance)
        return e

    def log_density(self, e: Array) -> Array:
        """Its logarithm."""
        return np.asarray(self.law.logpdf(e), dtype=float)


def convolve(targets: Array, log_weights: Array, noise: Smooth) -> LogDensity:
    """The density of target plus noise."""
    heavy = np.flatnonzero(log_weights > log_weights.max() - _LIGHTEST)
    heavy = heavy[np.argsort(targets[heavy], kind="stable")]
    m, log_w = targets[heavy], log_weights[heavy]
    w = np.exp(log_w)

    def log_density(x: Array) -> Array:
        out = np.empty(x.size)
        for i in range(0, x.size, _BLOCK):
            part = x[i : i + _BLOCK]
            # only targets within reach of the noise matter, unless nothing else is there
            first, last = np.searchsorted(m, (part.min() - noise.reach[1], part.max() - noise.reach[0]))
            height = np.einsum("i,ij->j", w[first:last], noise.density(part - m[first:last, None]))
            deep = height < _DEEP
            height[deep] = 1.0
            out[i : i + _BLOCK] = np.log(height)
            if deep.any():
                terms = noise.log_density(part[deep] - m[:, None]) + log_w[:, None]
                out[i : i + _BLOCK][deep] = np.logaddexp.reduce(terms, axis=0)
        return out

    return log_density


class PointMassFilter(Frozen):
    """The recursion on grids of `count` points, or more where the noises are narrow."""

    __slots__ = ("count", "noise", "system")

    def __init__(self, system: System, count: int) -> None:
        if system.states != 1:
            raise ModelError(f"the model has {system.states} states; method='point-mass' serves one state")
        if system.move.noisy:
            raise ModelError("move takes the noise as an argument; method='point-mass' needs noise that is added")
        self.system, self.count = system, count
        self.noise = Smooth(system.process, "process_noise")

    def start(self) -> Cloud:
        """The law of X_0 on a grid."""
        if isinstance(self.system.initial, np.ndarray):
            N = self.count
            return cloud(0, self.system.begin(np.empty((1, N))), np.full(N, -math.log(N)))
        law = Smooth(self.system.initial, "initial")
        return self._grid(0, law.log_density, [law.extent])

    def ahead(self, state: Cloud) -> Ahead:
        """The density moved and spread by the noise."""
        k, x, log_weights = state[0] + 1, state[1], state[2]
        targets = self.system.move.at(k, x)
        density, places = convolve(targets, log_weights, self.noise), spread(targets, log_weights, self.noise.extent)
        count = self.count
        for _ in range(2):
            points, log_weights = on_grid(density, places, count)
            law = self.system.law(k, points, log_weights)
            finer = fineness(log_weights, law.steps)
            if count > self.count or finer == 1.0:
                break
            count = math.ceil(finer * self.count)
        return Ahead(points, log_weights, law, density, places)

    def after(self, k: int, ahead: Ahead, log_weights: Array, y: Numbers) -> Cloud:
        """The density times the likelihood, on a grid laid anew."""

        def posterior(x: Array) -> Array:
            return ahead.density(x) + self.system.law(k, x, np.zeros(x.size)).likelihoods(y)

        if log_weights[[0, -1]].max() < log_weights.max() - OPEN:
            return self._grid(k, posterior, places_of(ahead.points, log_weights))
        # the reading lies so far out that the mass is beyond the grid
        first, last = ahead.places[0], ahead.places[-1]
        extent = locate(posterior, Extent(first.low, last.high, first.far_low, last.far_high))
        if extent is None:
            raise ReadingError(f"reading number {k} is outside what any state of the model can give")
        return self._grid(k, posterior, [extent])

    def without(self, k: int, ahead: Ahead) -> Cloud:
        """The density as it was moved."""
        return self._grid(k, ahead.density, ahead.places)

    def _grid(self, k: int, density: LogDensity, places: Sequence[Extent]) -> Cloud:
        """A grid that resolves the density and the noise of the move to come."""
        points, log_weights = on_grid(density, places, self.count)
        targets = self.system.move.at(max(k, 1), points)
        finer = fineness(log_weights, np.abs(np.diff(targets)) / self.noise.scale)
        if finer > 1.0:
            points, log_weights = on_grid(density, places, math.ceil(finer * self.count))
        return cloud(k, points, log_weights)


# How far one predictive law of a reading is from another: the divergence, without cancellation -------


_SPACING = 0.4  # of the grid over the scale (quartile to quartile, nearly) of the noise
_FEWEST_CELLS, _MOST = 81, 4001
_NEAR, _FAR_NOISE = 3.5, 8.5  # scores of the noise up to which the grid goes beyond the outermost points
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
        y = _draw(p, DRAWS, rng)
        return float(_excess(np.asarray(q.logpdf(y)) - np.asarray(p.logpdf(y))).mean())
    noise = p.noise.law
    ends = [float(noise.value(z)) for z in (-_NEAR, _NEAR, -_FAR_NOISE, _FAR_NOISE)]
    extent = Extent(*(float(a + b) for a, b in zip(extent_of(p.shifts[0], p.log_weights), ends, strict=True)))
    scale = float(noise.value(0.5) - noise.value(-0.5))
    # three points tell the length of the grid, measured by its spacing in the middle
    length = 2.0 * math.exp(float(stretch_grid(extent, 3).log_cells[1]))
    y, log_cells = stretch_grid(extent, int(min(max(length / (_SPACING * scale), _FEWEST_CELLS), _MOST)))
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


def _draw(p: ShiftedMixture, count: int, rng: np.random.Generator) -> Array:
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
    twin = model.with_method(points=2 * model.points) if exact else model.with_key(model.twin_key)
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
        state, ess = model.observe(state, y)
        other = twin.update(other, y)
        out[:, k] = ess, loglik, kl
    return Diagnosis(*out)


def residual(model: Nonlinear, T: int, sequences: int, rng: np.random.Generator) -> Residual:
    """Sum over T readings of the divergence of a reference from a `Nonlinear` model, over records of the true law."""
    reference, how = _reference(model)
    Y = model.simulate(T, n=sequences, rng=rng).Y
    totals = np.empty(sequences)
    for j in range(sequences):
        mine, true = model.with_key(rng.bytes(32)), reference.with_key(rng.bytes(32))
        state, better, total = mine.start(), true.start(), 0.0
        for row in Y[:, :, j]:
            total += divergence(true.predict(better), mine.predict(state), rng)
            y = row.item() if model.dim == 1 else row
            state, better = mine.update(state, y), true.update(better, y)
        totals[j] = total
    return Residual.from_totals(totals, T, f"{how}, {sequences} sequences")


def _reference(model: Nonlinear) -> tuple[Nonlinear, str]:
    if model.method == "point-mass":
        return model.with_method(points=2 * model.points), f"against a grid of {2 * model.points} points"
    if model.states == 1 and not model.system.move.noisy:
        try:
            return model.with_method(method="point-mass"), f"against a grid of {model.points} points"
        except ModelError:
            pass  # process noise with atoms or without quantiles: no density to put on a grid
    many = _MORE * model.particles
    return model.with_method(particles=many), f"against {many} particles"


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
    >>> exact = sensor.with_method(method="point-mass")
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
        return partial(Nonlinear, **self._own_arguments()), ()

    def _own_arguments(self) -> dict[str, Any]:
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

    def with_key(self, key: bytes) -> Nonlinear:
        """The same model with its randomness from another key, 16 to 64 bytes and secret."""
        return Nonlinear(**{**self._own_arguments(), "key": key})

    def with_method(
        self, *, method: str | None = None, particles: int | None = None, points: int | None = None
    ) -> Nonlinear:
        """The same model, computed otherwise: by another method or with another number of points."""
        changes = {"method": method, "particles": particles, "points": points}
        return Nonlinear(
            **{**self._own_arguments(), **{name: value for name, value in changes.items() if value is not None}}
        )

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
        return self.observe(state, y)[0]

    def skip(self, state: Cloud) -> Cloud:
        """The move alone."""
        return self._filter.without(state[0] + 1, self._ahead(state))

    def observe(self, state: Cloud, y: Numbers) -> tuple[Cloud, float]:
        """The state after a reading, as `update` gives it, and the effective sample size that its weights left."""
        ahead, k = self._ahead(state), state[0] + 1
        if not np.isfinite(np.asarray(y, dtype=float)).all():
            raise ReadingError(f"reading number {k} is not finite; a missing reading goes to skip")
        with np.errstate(over="ignore", invalid="ignore"):
            log_weights = normalise(ahead.log_weights + ahead.law.likelihoods(y))
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
        return self._system.simulate(_count("T", T, 1), _count("n", n, 1), np.random.default_rng(rng))

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
        x = parts.begin(self._dice.normals("start", 0, (parts.states, N), parts.states))
        noise = push(parts.process, self._dice.normals("moves", 1, (parts.inputs, N), parts.states))
        moved = parts.move.check(x, noise if parts.move.noisy else None)
        parts.read.check(moved if parts.move.noisy else moved + noise)


def _count(name: str, value: int, fewest: int) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < fewest:
        raise ModelError(f"{name} = {value!r}; it must be a whole number of at least {fewest}")
    return int(value)
