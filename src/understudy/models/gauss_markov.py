"""Gauss-Markov readings (paper, Section IV-C): a linear state seen through noise.

::

    X_{k+1} = A X_k + b + W_k      W_k ~ N(0, Q)
    Y_k     = C X_k + d + V_k      V_k ~ N(0, R)       X_0 ~ N(mean0, cov0), first reading Y_1

The predictive law of Y_k is Gaussian, and the Kalman recursion finds it. The state kept here is the
*filtered* one, the law of X_{k-1} given y_1..y_{k-1}, so that the matrices of step k (the move into
X_k and the reading Y_k) are needed only when reading k arrives. That is what lets a parameter move:
theta_k enters the step into x_k.

The methods here are the textbook recursion. The quick one, with gain tables and compiled loops, is
in `understudy.transform`; a test holds the two together.

A `Parameter` of the system is a number, an array or something given per step, checked once. Its
interpretation goes by the number of dimensions. A matrix is a number or a 2-D array, a vector a
number or a 1-D array; one dimension more means one entry per step. `PerStep` says so explicitly,
and a callable is asked with the number of the reading, k = 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers, Plain
from understudy.errors import ModelError, StoredFileError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.models.model import Model, repeat
from understudy.serialize import WAY_OUT, Place, construct, entries, fields, stored_array, truth

# Parameters of a linear system: numbers, arrays, or something given per step, checked once -----------


# Rounding that a covariance may carry: relative to its largest entry, and per row.
_ROUNDING = 64 * float(np.finfo(float).eps)


class PerStep(Sequence[Any]):
    """One value per step: entry 0 belongs to reading 1.

    >>> len(PerStep([0.9, 0.8, 0.7]))
    3
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = tuple(values)
        if not self._values:
            raise ModelError("PerStep is empty; it must hold one value for each step")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int | slice) -> Any:
        return self._values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"PerStep({len(self)} steps)"


Given: TypeAlias = "ArrayLike | PerStep | Callable[[int], ArrayLike]"
"""A parameter as a user gives it: for all steps, one for each step, or a function of the step."""


_T = TypeVar("_T")


class Parameter:
    """One parameter of a system over time; ``parameter.at(k)`` is its checked value at reading k."""

    __slots__ = ("_covariance", "_function", "_rank", "_shape", "_values", "name", "steps")

    def __init__(self, name: str, given: Given, rank: int, size: int | None = None) -> None:
        self.name = name
        self._rank = rank
        self._function: Callable[[int], ArrayLike] | None = None
        self._values: tuple[Array, ...] = ()
        self._shape: tuple[int, ...] | None = None
        self._covariance = False
        self.steps: int | None = None
        if callable(given):
            self._function = given
            return
        values = None if type(given) in (int, float) else per_step(name, given, rank, size)
        if values is None and not isinstance(given, PerStep):
            self._values = (as_array(name, given, rank),)
        elif values is not None:
            self._values = _once(lambda v: as_array(name, v, rank), values)
            self.steps = len(self._values)

    @property
    def arguments(self) -> Any:
        """What makes the same parameter again."""
        if self._function is not None:
            return self._function
        return self._values[0] if self.steps is None else PerStep(self._values)

    @property
    def constant(self) -> bool:
        """Whether the parameter is the same at every step."""
        return self._function is None and self.steps is None

    def settle(self, shape: tuple[int, ...], covariance: bool) -> None:
        """Fix the shape, and check every value now or, for a callable, when it is asked for."""
        self._shape, self._covariance = shape, covariance
        self._values = _once(self._check, self._values)

    def _check(self, value: Array) -> Array:
        if self._shape is None:
            return value
        value = check_shape(self.name, value, self._shape)
        return covariance(self.name, value, self._shape[0]) if self._covariance else value

    def at(self, k: int) -> Array:
        """The value for reading k = 1, 2, ..."""
        if self._function is not None:
            try:
                return self._check(as_array(self.name, self._function(k), self._rank))
            except ModelError:
                if k == 1:
                    raise
                # at run time a matrix may tell the parameter, so the message names none of its numbers
                raise ModelError(
                    f"{self.name} of step {k} breaks a rule: shape, finite entries, or a covariance that is not one"
                ) from None
        if self.steps is None:
            return self._values[0]
        if not 1 <= k <= self.steps:
            raise ModelError(f"{self.name} is given for {self.steps} steps; there is no step {k}")
        return self._values[k - 1]


def per_step(name: str, given: ArrayLike | PerStep, rank: int, size: int | None) -> Sequence[ArrayLike] | None:
    """The sequence of values if `given` is one per step, else None."""
    if isinstance(given, PerStep):
        return given
    array = as_float(name, given)
    if array.ndim == rank + 1 or (rank == 2 and array.ndim == 1):
        values = list(array) if not isinstance(given, (list, tuple)) else list(given)
    elif rank == 1 and array.ndim == 1 and size == 1 and array.size > 1:
        values = list(array)
    else:
        return None
    if not values:
        raise ModelError(f"{name} is empty; it must hold one value for each step")
    return values


def as_array(name: str, given: ArrayLike, rank: int) -> Array:
    """A finite array with `rank` axes; a number becomes the array with one entry."""
    if (
        isinstance(given, (int, float)) and type(given) in (int, float) and math.isfinite(given)
    ):  # the same as below, ten times as quick
        array = np.full((1,) * rank, given, dtype=float)
        array.flags.writeable = False
        return array
    array = as_float(name, given)
    if array.ndim == 0:
        array = array.reshape((1,) * rank)
    if array.ndim != rank or array.size == 0:
        kind = {1: "a number or a vector", 2: "a number or a matrix"}[rank]
        raise ModelError(f"{name} has shape {array.shape}; it must be {kind}")
    if not np.isfinite(array).all():
        raise ModelError(f"{name} has an entry that is not finite ({array[~np.isfinite(array)][0]}); every one must be")
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def covariance(name: str, S: Array, size: int) -> Array:
    """A symmetric positive semidefinite matrix of the given size, or an error that names the eigenvalue."""
    if S.shape != (size, size):
        raise ModelError(f"{name} has shape {S.shape}; it must be {(size, size)}")
    if size == 1 and S.item() >= 0.0 and not S.flags.writeable:
        return S
    scale = float(np.abs(S).max())
    gap = float(np.abs(S - S.T).max())
    if gap > 1e-9 * scale:
        raise ModelError(f"{name} is not symmetric: entries across the diagonal differ by {gap:.6g}")
    if size == 1:
        smallest = float(S[0, 0])
    else:
        S = (S + S.T) / 2.0
        smallest = float(np.linalg.eigvalsh(S)[0])
    if smallest < -_ROUNDING * size * scale:
        raise ModelError(f"{name} has the eigenvalue {smallest:.6g}; a covariance must be positive semidefinite")
    S = np.ascontiguousarray(S)
    S.flags.writeable = False
    return S


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """The array, if it has this shape."""
    if array.shape == shape:
        return array
    hint = ""
    if array.ndim == len(shape) == 1:
        hint = "; for one value per step write us.PerStep(...)"
    elif array.shape == (1, 1):
        hint = "; a matrix is written [[...]], and a sequence of numbers is one number per step"
    raise ModelError(f"{name} has shape {array.shape}; it must be {shape}{hint}")


def spectral_radius(A: Array) -> float:
    """Largest modulus of an eigenvalue."""
    return abs(float(A[0, 0])) if A.size == 1 else float(np.abs(np.linalg.eigvals(A)).max())


def _once(function: Callable[[Any], Array], values: Sequence[Any]) -> tuple[Array, ...]:
    """`function` of each value; a path repeats few distinct objects, and each is worked on once."""
    done: dict[int, Array] = {}
    return tuple(done[id(v)] if id(v) in done else done.setdefault(id(v), function(v)) for v in values)


def as_float(name: str, given: ArrayLike) -> Array:
    """Numbers as an array of floats of its own, or an error that names the parameter."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise ModelError(f"{name} is ragged; it must be a number or an array of numbers") from None
    if array.dtype.kind not in "fiu":
        raise ModelError(f"{name} is {given!r}; it must be a number or an array of numbers")
    return np.array(array, dtype=float)


# Gauss-Markov readings (paper, Section IV-C): a linear state seen through noise ----------------------


# Eigenvalues of a double unit root are found to about 1e-8, so 1 is told from more than 1 at this.
_UNIT_ROOT = 1e-7

# What rounding leaves of a variance that is zero, in the Joseph form: the square of the unit roundoff.
_NOTHING = 1e-26


class System(NamedTuple):
    """The matrices of one step: the move into X_k and the reading Y_k."""

    A: Array
    b: Array
    Q: Array
    C: Array
    d: Array
    R: Array

    def row(self) -> Array:
        """All of them in this order, flattened: what the compiled loops read."""
        return np.concatenate([matrix.ravel() for matrix in self])


class Filtered(NamedTuple):
    """Law of X_k given the first k readings."""

    k: int
    mean: Array
    cov: Array


# The axes of each parameter, as it is stored.
_AXES = {"A": 2, "b": 1, "Q": 2, "C": 2, "d": 1, "R": 2}


class GaussMarkov(Frozen):
    """A linear Gaussian state space model.

    Scalars or arrays. `A` and `C` fix the number of states n and of channels d. A parameter may be
    given per step, as a sequence (`us.PerStep`, or an array with one axis more) or as a callable of
    k = 1, 2, ...: the entry of step k governs the move into X_k *and* the reading Y_k.

    Q, R and cov0 are positive semidefinite; every innovation covariance must be positive definite.
    A constant `A` with spectral radius above 1 is refused unless `allow_unstable`. Without `mean0`
    and `cov0`, X_0 has the stationary law, which needs a constant, stable system.

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    >>> round(float(us.whiten([106.0], room)[0]), 6)
    0.952381
    """

    __slots__ = (
        "_parameters",
        "_row",
        "_system",
        "allow_unstable",
        "constant",
        "cov0",
        "dim",
        "mean0",
        "memo",
        "states",
        "steps",
    )

    def __init__(
        self,
        A: Given,
        C: Given,
        Q: Given,
        R: Given,
        b: Given = 0.0,
        d: Given = 0.0,
        mean0: ArrayLike | None = None,
        cov0: ArrayLike | None = None,
        *,
        allow_unstable: bool = False,
    ) -> None:
        pA, pC = Parameter("A", A, 2), Parameter("C", C, 2)
        n = pA.at(1).shape[0]
        channels = pC.at(1).shape[0]
        self.allow_unstable: bool = bool(allow_unstable)
        self.states: int = n
        self.dim: int = channels
        pb, pd = Parameter("b", _zeros(b, n), 1, n), Parameter("d", _zeros(d, channels), 1, channels)
        pQ, pR = Parameter("Q", Q, 2), Parameter("R", R, 2)
        self._parameters = (pA, pb, pQ, pC, pd, pR)
        lengths = {p.steps for p in self._parameters if p.steps is not None}
        if len(lengths) > 1:
            raise ModelError(f"parameters are given for {sorted(lengths)} steps; these numbers must agree")
        self.steps: int | None = lengths.pop() if lengths else None
        self.constant: bool = all(p.constant for p in self._parameters)
        for parameter, shape in zip(
            self._parameters, [(n, n), (n,), (n, n), (channels, n), (channels,), (channels, channels)], strict=True
        ):
            parameter.settle(shape, covariance=parameter.name in "QR")
        self._system: System | None = System(*(p.at(1) for p in self._parameters)) if self.constant else None
        self._row: Array | None = None if self._system is None else self._system.row()
        if self._system is not None:
            radius = spectral_radius(self._system.A)
            if radius > 1.0 + _UNIT_ROOT and not allow_unstable:
                raise ModelError(
                    f"A has an eigenvalue of modulus {radius:.6g}; above 1 the readings grow without bound "
                    "(allow_unstable=True if that is meant)"
                )
        self.mean0, self.cov0 = self._initial(mean0, cov0)
        self._check_innovations()
        # Room for what the transformation works out once about this model.
        self.memo: dict[str, Any] = {}

    def to_dict(self, place: Place) -> Plain:
        """The matrices, one for each step where they change; see `understudy.serialize`."""
        plain: Plain = {}
        for name, given in self.arguments.items():
            if callable(given):
                raise ModelError(
                    f"{name} is a function of the step, which cannot be stored; give it as us.PerStep, or {WAY_OUT}"
                )
            if isinstance(given, PerStep):
                plain[name] = {"per_step": [matrix.tolist() for matrix in given]}
            else:
                plain[name] = given.tolist() if isinstance(given, np.ndarray) else given
        return plain

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> GaussMarkov:
        """The model again, its start as it was worked out once: another machine may round it otherwise."""
        given = fields(place, plain, *_AXES, "mean0", "cov0", "allow_unstable")
        arguments: dict[str, Any] = {}
        for name, axes in _AXES.items():
            here = place / name
            if type(given[name]) is dict:
                steps = entries(here / "per_step", fields(here, given[name], "per_step", kind=False)["per_step"])
                arguments[name] = construct(here, PerStep, [stored_array(here, step, axes) for step in steps])
            else:
                arguments[name] = stored_array(here, given[name], axes)
        arguments["mean0"] = stored_array(place / "mean0", given["mean0"], 1)
        arguments["cov0"] = stored_array(place / "cov0", given["cov0"], 2)
        arguments["allow_unstable"] = truth(place / "allow_unstable", given["allow_unstable"])
        model = construct(place, cls, **arguments)
        for name, found in model.arguments.items():
            # the constructor takes a vector of the wrong length for a number per step where it wants one number
            if isinstance(found, PerStep) and type(given[name]) is not dict:
                raise StoredFileError(f"{place}.{name} has {len(found)} entries; it must have one")
        return model

    def __repr__(self) -> str:
        # The matrices tell the private parameter, so they are not shown.
        kind = "constant" if self.constant else "per step"
        return f"GaussMarkov(states={self.states}, dim={self.dim}, {kind})"

    def __reduce__(self) -> tuple[Callable[[], GaussMarkov], tuple[()]]:
        # a copy is made anew, so that its arrays are read-only again and nothing worked out comes along
        return partial(GaussMarkov, **self.arguments), ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that make the same model again, bit for bit; mean0 and cov0 as they were worked out."""
        parameters = {p.name: p.arguments for p in self._parameters}
        return {**parameters, "mean0": self.mean0, "cov0": self.cov0, "allow_unstable": self.allow_unstable}

    @classmethod
    def from_continuous(
        cls,
        A: ArrayLike,
        C: ArrayLike,
        Q: ArrayLike,
        R: ArrayLike,
        b: ArrayLike = 0.0,
        d: ArrayLike = 0.0,
        mean0: ArrayLike | None = None,
        cov0: ArrayLike | None = None,
        *,
        period: float,
        allow_unstable: bool = False,
    ) -> GaussMarkov:
        """Sample dX = (A X + b) dt + dW, cov dW = Q dt, every `period`; Y_k = C X(k period) + d + V_k.

        Exact, by the matrix exponential of Van Loan's block matrix and doubling.

        >>> import understudy as us
        >>> room = us.GaussMarkov.from_continuous(A=-0.1, C=1.0, Q=0.2, R=0.1, b=50.0, period=0.5)
        >>> round(float(room.A[0, 0]), 6)
        0.951229
        """
        from scipy.linalg import expm

        if not (isinstance(period, (int, float)) and 0.0 < period < float("inf")):
            raise ModelError(f"period = {period!r}; it must be a positive number")
        F = as_array("A", A, 2)
        n = F.shape[0]
        F = check_shape("A", F, (n, n))
        u = check_shape("b", as_array("b", _zeros(b, n), 1), (n,))
        Qc = covariance("Q", as_array("Q", Q, 2), n)
        # Over a short time s: expm([[-F, Q], [0, F']] s) = [[., e^-Fs Qd], [0, e^F's]], and b beside it.
        # The backward e^-Fs is harmless only while |F| s is small, so the rest is done by doubling.
        doublings = max(0, math.ceil(math.log2(max(1e-300, float(np.abs(F).sum(axis=1).max()) * period))))
        s = period / 2.0**doublings
        block = np.zeros((2 * n, 2 * n))
        block[:n, :n], block[:n, n:], block[n:, n:] = -F, Qc, F.T
        E = expm(block * s)
        Ad = E[n:, n:].T
        Qd = Ad @ E[:n, n:]
        drift = np.zeros((n + 1, n + 1))
        drift[:n, :n], drift[:n, n] = F, u
        bd = expm(drift * s)[:n, n]
        for _ in range(doublings):
            Qd = Qd + Ad @ Qd @ Ad.T
            bd = bd + Ad @ bd
            Ad = Ad @ Ad
        return cls(Ad, C, (Qd + Qd.T) / 2.0, R, bd, d, mean0, cov0, allow_unstable=allow_unstable)

    # The matrices ---------------------------------------------------------------------------------

    def at(self, k: int) -> System:
        """The matrices of step k = 1, 2, ..."""
        if self._system is not None:
            return self._system
        return System(*(p.at(k) for p in self._parameters))

    def row(self, k: int) -> Array:
        """The matrices of step k, flattened one after the other."""
        return self.at(k).row() if self._row is None else self._row

    @property
    def A(self) -> Array:
        """State matrix of a constant model; `at(k)` serves every model."""
        return self._constant().A

    @property
    def b(self) -> Array:
        """State offset of a constant model."""
        return self._constant().b

    @property
    def Q(self) -> Array:
        """State noise covariance of a constant model."""
        return self._constant().Q

    @property
    def C(self) -> Array:
        """Output matrix of a constant model."""
        return self._constant().C

    @property
    def d(self) -> Array:
        """Output offset of a constant model."""
        return self._constant().d

    @property
    def R(self) -> Array:
        """Measurement noise covariance of a constant model."""
        return self._constant().R

    def _constant(self) -> System:
        if self._system is None:
            raise ModelError("the matrices change with time; at(k) gives those of step k")
        return self._system

    # The recursion --------------------------------------------------------------------------------

    def start(self) -> Filtered:
        """Law of X_0."""
        return Filtered(0, self.mean0, self.cov0)

    def predict(self, state: Filtered) -> Gaussian:
        """Y_k ~ N(C xhat_{k|k-1} + d, C Sigma_{k|k-1} C' + R)."""
        system = self.at(state.k + 1)
        x, P = self._move(state, system)
        C, d, R = system.C, system.d, system.R
        return Gaussian(C @ x + d, C @ P @ C.T + R)

    def update(self, state: Filtered, y: Numbers) -> Filtered:
        """xhat_{k|k} = xhat_{k|k-1} + K (y - C xhat_{k|k-1} - d), Joseph form for the covariance."""
        system = self.at(state.k + 1)
        x, P = self._move(state, system)
        K, after = self.gain(P, system)
        return Filtered(state.k + 1, x + K @ (np.atleast_1d(y) - system.C @ x - system.d), after)

    @staticmethod
    def gain(P: Array, system: System) -> tuple[Array, Array]:
        """The gain at a reading before which the covariance is P, and the covariance after it."""
        C, R = system.C, system.R
        S = C @ P @ C.T + R
        # K = Sigma C' S^-1
        K = np.asarray(np.linalg.solve(S, C @ P).T, dtype=float)
        J = np.eye(len(P)) - K @ C
        P = J @ P @ J.T + K @ R @ K.T
        return K, (P + P.T) / 2.0

    def skip(self, state: Filtered) -> Filtered:
        """xhat_{k|k} = xhat_{k|k-1}."""
        x, P = self._move(state, self.at(state.k + 1))
        return Filtered(state.k + 1, x, P)

    def skip_many(self, state: Filtered, count: int) -> Filtered:
        """So many missing readings, to the bits of one after the other; a constant model soon comes to rest.

        >>> room = GaussMarkov(A=0.5, C=1.0, Q=1.0, R=1.0, b=1.0)
        >>> [part.item() for part in room.skip_many(Filtered(0, np.zeros(1), np.zeros((1, 1))), 3)[1:]]
        [1.75, 1.3125]
        """
        if self._system is None or count == 1:
            for _ in range(count):
                state = self.skip(state)
            return state
        A, b, Q = self._system.A, self._system.b, self._system.Q
        k, mean, cov = state
        if self.states == 1:  # in plain numbers, which are what products of one by one are
            a, shift, noise, x, P = (float(part.item()) for part in (A, b, Q, mean, cov))
            for _ in range(count):
                before = x, P
                x, P = a * x + shift, a * P * a + noise
                if before == (x, P):
                    break
            return Filtered(k + count, np.array([x]), np.array([[P]]))
        after = repeat(self.skip, state, count, lambda state: state.mean.tobytes() + state.cov.tobytes())
        return after._replace(k=k + count)

    @staticmethod
    def _move(state: Filtered, system: System) -> tuple[Array, Array]:
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q
        A, b, Q = system.A, system.b, system.Q
        return A @ state.mean + b, A @ state.cov @ A.T + Q

    # Checks ---------------------------------------------------------------------------------------

    def _initial(self, mean0: ArrayLike | None, cov0: ArrayLike | None) -> tuple[Array, Array]:
        n = self.states
        if mean0 is None or cov0 is None:
            if self._system is None or spectral_radius(self._system.A) >= 1.0 - _UNIT_ROOT:
                raise ModelError(
                    "mean0 and cov0 must be given: a system that is not constant and stable has no stationary law"
                )
            A, b, Q = self._system[:3]
            mean0 = np.linalg.solve(np.eye(n) - A, b) if mean0 is None else mean0
            cov0 = _stationary_covariance(A, Q) if cov0 is None else cov0
        mean = check_shape("mean0", as_array("mean0", _zeros(mean0, n), 1), (n,))
        cov = cov0 if not np.isscalar(cov0) or n == 1 or cov0 else np.zeros((n, n))
        return mean, covariance("cov0", as_array("cov0", cov, 2), n)

    def _check_scalar(self, A: float, b: float, Q: float, C: float, d: float, R: float) -> None:
        """The same for one state and one channel, in plain numbers: families are made of many small models."""
        P = cov0 = float(self.cov0.item())
        for k in (1, 2):
            moved = A * P * A + Q
            S = C * moved * C + R
            if not (math.isfinite(S) and _NOTHING * (C * A) ** 2 * cov0 < S):
                raise _no_law(k, S)
            P = moved * (R / S)

    def _check_innovations(self) -> None:
        """A reading that is known beforehand has no law; n + 1 steps show any constant system that gets there."""
        if self.states == self.dim == 1 and self._system is not None:
            self._check_scalar(*(float(matrix.item()) for matrix in self._system))
            return
        state = Filtered(0, np.zeros(self.states), self.cov0)
        for k in range(1, 1 + (self.states + 1 if self.constant else 1)):
            system = self.at(k)
            C, R = system.C, system.R
            _, P = self._move(state, system)
            S = C @ P @ C.T + R
            # channels may have very different units, so the matrix is judged as a correlation
            unit = np.sqrt(np.maximum(np.diag(S), np.finfo(float).tiny))
            smallest = float(np.linalg.eigvalsh(S)[0])
            floor = _NOTHING * float(np.abs(C @ system.A).max()) ** 2 * float(np.abs(self.cov0).max())
            if not (float(np.linalg.eigvalsh(S / np.outer(unit, unit))[0]) > 1e-15 and np.diag(S).min() > floor):
                raise _no_law(k, smallest)
            state = self.update(state._replace(k=k - 1), np.zeros(self.dim))


def _no_law(k: int, smallest: float) -> ModelError:
    return ModelError(
        f"the innovation covariance C Sigma C' + R of reading {k} has the eigenvalue {smallest:.6g}; "
        "it must be positive definite, and not so small beside cov0 that rounding decides"
    )


def _zeros(given: _T, size: int) -> _T | Array:
    """The number 0 stands for a vector of zeros; no other number stands for a longer vector."""
    return np.zeros(size) if isinstance(given, (int, float)) and given == 0 else given


def _stationary_covariance(A: Array, Q: Array) -> Array:
    """P = A P A' + Q by doubling: P <- P + A P A', A <- A A."""
    P = Q
    while float(np.abs(A).max()) > 1e-200:
        P = P + A @ P @ A.T
        A = A @ A
    return (P + P.T) / 2.0


def gauss_markov(model: Model) -> GaussMarkov | None:
    """The Gauss-Markov form of a model, if it has one."""
    return model if isinstance(model, GaussMarkov) else getattr(model, "gauss_markov", None)


def innovations(model: Model) -> tuple[GaussMarkov | None, Law] | None:
    """The recursion and the law of a model with independent innovations, if it is one."""
    return getattr(model, "innovations", None)
