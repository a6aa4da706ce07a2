"""Parameters of a linear system: numbers, arrays, or something given per step, checked once.

Interpretation goes by the number of dimensions. A matrix is a number or a 2-D array, a vector a
number or a 1-D array; one dimension more means one entry per step. `PerStep` says so explicitly,
and a callable is asked with the number of the reading, k = 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from understudy.errors import ModelError
from understudy.laws.base import Array

# Rounding that a covariance may carry: relative to its largest entry, and per row.
_ROUNDING = 64 * float(np.finfo(float).eps)


class PerStep(Sequence[Any]):
    """One value per step: entry 0 belongs to reading 1.

    >>> len(PerStep([0.9, 0.8, 0.7]))
    3
    """

    __slots__ = ("_values",)

    def __init__(self, values: Any) -> None:
        self._values = tuple(values)
        if not self._values:
            raise ModelError("PerStep is empty; it must hold one value for each step")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"PerStep({len(self)} steps)"


class Parameter:
    """One parameter of a system over time; ``parameter.at(k)`` is its checked value at reading k."""

    __slots__ = ("_covariance", "_function", "_rank", "_shape", "_values", "name", "steps")

    def __init__(self, name: str, given: Any, rank: int, size: int | None = None) -> None:
        self.name = name
        self._rank = rank
        self._function: Callable[[int], Any] | None = given if callable(given) else None
        self._values: tuple[Array, ...] = ()
        self._shape: tuple[int, ...] | None = None
        self._covariance = False
        self.steps: int | None = None
        if self._function is not None:
            return
        values = None if type(given) in (int, float) else per_step(name, given, rank, size)
        if values is None:
            self._values = (as_array(name, given, rank),)
        else:
            self._values = _once(lambda v: as_array(name, v, rank), values)
            self.steps = len(self._values)

    @property
    def given(self) -> Any:
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
        self._values = _once(self._checked, self._values)

    def _checked(self, value: Array) -> Array:
        if self._shape is None:
            return value
        value = shaped(self.name, value, self._shape)
        return covariance(self.name, value, self._shape[0]) if self._covariance else value

    def at(self, k: int) -> Array:
        """The value for reading k = 1, 2, ..."""
        if self._function is not None:
            try:
                return self._checked(as_array(self.name, self._function(k), self._rank))
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


def per_step(name: str, given: Any, rank: int, size: int | None) -> Any:
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


def as_array(name: str, given: Any, rank: int) -> Array:
    """A finite array with `rank` axes; a number becomes the array with one entry."""
    if type(given) in (int, float) and math.isfinite(given):  # the same as below, ten times as quick
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


def shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
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


def as_float(name: str, given: Any) -> Array:
    """Numbers as an array of floats of its own, or an error that names the parameter."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise ModelError(f"{name} is ragged; it must be a number or an array of numbers") from None
    if array.dtype.kind not in "fiu":
        raise ModelError(f"{name} is {given!r}; it must be a number or an array of numbers")
    return np.array(array, dtype=float)
