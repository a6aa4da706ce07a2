"""The parts of a nonlinear state space model: functions of the user's, noises, where it starts.

A function works on all points at once. It is called with what it asks for, and its answer is checked:
before the first reading in words that help, afterwards without a word that could tell a reading.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import LawError, ModelError, NumericalError
from understudy.laws.base import Array, Frozen, Law, is_law
from understudy.laws.shifted_mixture import ReadingNoise, ShiftedMixture
from understudy.models.iid import law_dim

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


def _arguments(function: Any) -> tuple[bool, bool]:
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
    initial: Any

    @property
    def states(self) -> int:
        """Numbers in the state."""
        return self.move.dim

    def begun(self, z: Array) -> Array:
        """X_0 from standard normals (n, N)."""
        if is_law(self.initial):
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
        return int(getattr(self.process, "dim", 1))

    def simulated(self, T: int, n: int, rng: np.random.Generator) -> Simulated:
        """N sequences of T steps of the model itself."""
        X, Y = np.empty((T, self.states, n)), np.empty((T, self.noise.dim, n))
        x = self.begun(rng.standard_normal((self.states, n)))
        for k in range(1, T + 1):
            x = self.moved(k, x, rng.standard_normal((self.inputs, n)))
            X[k - 1] = x
            Y[k - 1] = self.read.at(k, x) + pushed(self.noise.law, rng.standard_normal((self.noise.dim, n)))
        return Simulated(X, Y)


def system(move: Any, read: Any, process: Any, noise: Any, initial: Any) -> System:
    """A system out of what a user gives, checked."""
    inputs, d = law_dim(process, "process_noise"), law_dim(noise, "reading_noise")
    if getattr(noise, "atoms", False):
        raise ModelError("reading_noise has atoms; a reading needs noise with a density")
    try:
        reading_noise = ReadingNoise(noise)
    except LawError as error:
        raise ModelError(str(error)) from None
    start = initial if is_law(initial) else _vector(initial)
    n = law_dim(start, "initial") if is_law(start) else int(start.size)
    moves = Function(move, "move", n, noisy=True)
    if not moves.noisy and inputs != n:
        raise ModelError(
            f"process_noise has {inputs} numbers and the state {n}; noise that is added must have as many "
            "(a move with an argument named noise may use another number)"
        )
    return System(moves, Function(read, "read", d), process, reading_noise, start)


def _vector(initial: Any) -> Array:
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


def pushed(law: Any, z: Array) -> Array:
    """Standard normals (m, N) through a law: (N,) for one number, else (m, N)."""
    out = np.asarray(law.value(z[0] if len(z) == 1 else z), dtype=float)
    if not np.isfinite(out).all():
        raise NumericalError("a law of the model gave a number that is not finite")
    return out
