"""A hidden state as a cloud of weighted points: weights, choice and random numbers of a particle filter.

The points may be random (`ParticleFilter`) or those of a grid (`PointMassFilter`); either way the law of the reading
that they predict is a `ShiftedMixture`.

Where the randomness comes from. Every number is a function of a key, the step and the place it is used
at (keyed BLAKE2b), so that a run goes on from a state as if it had never stopped. Few of them are drawn.
In up to three states the noise of a step is a lattice with one random shift, laid over the points in
their order along a curve through the state space (Morton's); the divergence from the true law is then
about 10, 2.5 and 2 times less in one, two and three states than with independent draws. In more states
lattices bring nothing, and the draws are independent.

A nonlinear state space model (`System`) has functions of the user's, noises and a start. A function works on all
points at once. It is called with what it asks for, and its answer is checked: before the first reading in words that
help, afterwards without a word that could tell a reading.

Integrals of densities over the whole line need grids that go where the mass is (`stretched`). An even grid is all the
quadrature that a smooth density on the line needs: the error of the trapezoid rule falls faster than any power of the
spacing. So the work is to lay the grid. It is `stretched`: even over the core of the mass, and exponentially
stretched from there to where the density has fallen by 45 nats, so that a heavy tail costs a few points only. Where
mass lies in several separate places, each has a grid of its own.

With one hidden state on a grid (`PointMassFilter`) the predictive law is a quadrature, and nothing is random. The law
of the state is held as masses at the points of a grid. One step is

    p(x_k given y_1..y_k-1) = sum_i w_i f(x_k - move(x_i)),      f the density of the process noise,

evaluated at the points of a new grid, and then multiplied by the likelihood of y_k. The sum is the
trapezoid rule for an integral over the whole line, whose error for smooth densities falls faster than any
power of the spacing: from some number of points on, twice as many change nothing but the last digits.

The grid goes where the mass is. After each reading it is laid anew over what the reading left,
which may be far narrower than what was predicted, in several places, or far away from it; the sum above gives
the density at any new point.

What it needs: the spacing must resolve the noises. From one point to the next, what `move` and `read` give
must change by less than about a deviation of the noise that is added to it: at 0.9 of a deviation the error
is 1e-10, at 2 deviations 1e-2. Where it changes by more the grid is made finer, up to `FINEST` times.
Densities with jumps (uniform, exponential noise) converge slowly. `Nonlinear.residual` measures the error
that is left, against twice as many points.

Beyond the ends of the grid, some nine deviations out, a reading is measured against its own noise alone:
its score is finite and larger than it should be, in one case of 1e17.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Index, Numbers
from understudy.errors import LawError, ModelError, NumericalError, ReadingError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, dimension, has_atoms
from understudy.laws.multivariate import ReadingNoise, ShiftedMixture
from understudy.laws.uniforms import Uniforms
from understudy.models.iid_markov import law_dim

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
        try:
            answer = np.asarray(self._called(k, x, noise), dtype=float)
        except Exception as error:
            # what a function of the user's says may hold a state, and a state holds the readings
            raise NumericalError(f"step {k}: {self.name} raised {type(error).__name__}") from None
        if answer.shape != self._shape(x):
            raise NumericalError(f"step {k}: {self.name} gave shape {answer.shape} for points of shape {x.shape}")
        if not np.isfinite(answer).all():
            raise NumericalError(f"step {k}: {self.name} gave a number that is not finite")
        return answer

    def check(self, x: Array, noise: Array | None = None) -> Array:
        """The answer at step 1, refused if it is not what it must be."""
        name, shape = self.name, self._shape(x)
        try:
            whole = np.asarray(self._called(1, x, noise), dtype=float)
        except Exception as error:
            raise ModelError(f"{name} raised {type(error).__name__} on points of shape {x.shape}; {_RULE}") from None
        if whole.shape != shape:
            raise ModelError(f"{name} gave shape {whole.shape} for points of shape {x.shape}, not {shape}; {_RULE}")
        if not np.isfinite(whole).all():
            raise ModelError(f"{name} gave a number that is not finite at the start; it must be finite")
        try:
            few = self._called(1, x[..., -2:], None if noise is None else noise[..., -2:])
            alike = np.allclose(few, whole[..., -2:], rtol=1e-9, atol=1e-12)
        except Exception:
            alike = False
        if not alike:
            raise ModelError(f"{name} gave other answers for two points alone than among others; {_RULE}")
        return whole

    def _called(self, k: int, x: Array, noise: Array | None) -> Any:
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

    def begun(self, z: Array) -> Array:
        """X_0 from standard normals (n, N)."""
        if not isinstance(self.initial, np.ndarray):
            return pushed(self.initial, z)
        points = np.repeat(self.initial[:, None], z.shape[1], axis=1)
        return points[0] if self.states == 1 else points

    def moved(self, k: int, x: Array, z: Array) -> Array:
        """X_k from X_{k-1} and the standard normals that make the noise."""
        w = pushed(self.process, z)
        return self.move.at(k, x, w) if self.move.noisy else self.move.at(k, x) + w

    def law(self, k: int, points: Array, log_weights: Array) -> ShiftedMixture:
        """The law of Y_k if X_k is at one of these points."""
        return ShiftedMixture(self.read.at(k, points), log_weights, self.noise)

    @property
    def inputs(self) -> int:
        """Numbers in the process noise."""
        return dimension(self.process)

    def simulated(self, T: int, n: int, rng: np.random.Generator) -> Simulated:
        """N sequences of T steps of the model itself."""
        X, Y = np.empty((T, self.states, n)), np.empty((T, self.noise.dim, n))
        x = self.begun(rng.standard_normal((self.states, n)))
        for k in range(1, T + 1):
            x = self.moved(k, x, rng.standard_normal((self.inputs, n)))
            X[k - 1] = x
            Y[k - 1] = self.read.at(k, x) + pushed(self.noise.law, rng.standard_normal((self.noise.dim, n)))
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


def pushed(law: Law, z: Array) -> Array:
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
    density: LogDensity = normalised
    places: Sequence[Extent] = ()


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

    def after(self, k: int, ahead: Ahead, log_weights: Array, y: Numbers) -> Cloud:
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


def stretched(extent: Extent, count: int) -> Grid:
    """A grid that is even over the core and exponentially stretched beyond.

    x(u) = centre + s (u + exp(u - B) - exp(-u - B)) with u evenly spaced: an analytic map, so that the
    trapezoid rule in u loses nothing.

    >>> grid = stretched(Extent(-1.0, 1.0, -1e6, 1e6), 101)
    >>> bool(abs(grid.points[0] + 1e6) < 1.0), float(grid.points[50])
    (True, 0.0)
    >>> density = 1.0 / (np.pi * (1.0 + grid.points**2))
    >>> round(float((density * np.exp(grid.log_cells)).sum()), 5)
    1.0
    """
    centre, half = 0.5 * (extent.low + extent.high), 0.5 * (extent.high - extent.low)
    s = half / _BEND
    u = np.linspace(-_solved((centre - extent.far_low) / s), _solved((extent.far_high - centre) / s), count)
    right, left = np.exp(u - _BEND), np.exp(-u - _BEND)
    return Grid(centre + s * (u + right - left), np.log(s * (u[1] - u[0]) * (1.0 + right + left)))


def _solved(target: float) -> float:
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
    grids = [stretched(extent, each) for extent in extents]
    points = np.concatenate([grid.points for grid in grids])
    return points, normalised(log_density(points) + np.concatenate([grid.log_cells for grid in grids]))


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


def located(log_density: LogDensity, extent: Extent) -> Extent | None:
    """Where the mass of a density lies, looked for from a guess; None if there is none to be found.

    Coarse grids are laid one after the other: outward while the density is still high at an end, inward
    to where it is. One cell more on each side is kept, since the mass may lie between two points.

    >>> narrow = located(lambda x: -0.5 * ((x - 200.0) / 0.01) ** 2, Extent(-3.0, 3.0, -9.0, 9.0))
    >>> bool(199.8 < narrow.low < 200.0 < narrow.high < 200.2)
    True
    """
    for _ in range(_LOOKS):
        points, cells = stretched(extent, _COARSE)
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


def predicted(targets: Array, log_weights: Array, noise: Smooth) -> LogDensity:
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
            return cloud(0, self.system.begun(np.empty((1, N))), np.full(N, -math.log(N)))
        law = Smooth(self.system.initial, "initial")
        return self._grid(0, law.log_density, [law.extent])

    def ahead(self, state: Cloud) -> Ahead:
        """The density moved and spread by the noise."""
        k, x, log_weights = state[0] + 1, state[1], state[2]
        targets = self.system.move.at(k, x)
        density, places = predicted(targets, log_weights, self.noise), spread(targets, log_weights, self.noise.extent)
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
        extent = located(posterior, Extent(first.low, last.high, first.far_low, last.far_high))
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
