"""Readings and the maps that act on them: shapes, types and missing values, checked at the door.

Time comes first: ``(T,)`` for a scalar model, ``(T, d)``, or ``(T, d, N)`` = time, channel, sensor. A missing reading
is NaN, or None where one reading is given. Errors name position, type and rule, never a value.

A `CausalMap` takes readings in and gives readings out, one at a time or in chunks. It holds no state: the state before
the first reading comes from `start`, and every call returns the next one.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Mask, Numbers
from understudy.errors import ConfigurationError, IncompleteReadingWarning, ReadingError

State: TypeAlias = tuple[Any, ...]
"""What a map carries from reading to reading: a tuple of numbers, arrays and further tuples, which a file can hold; or
what a model of one's own carries."""
Reading: TypeAlias = float | Array | None
"""One reading: a number, an array (d,), or None where it is missing."""


class CausalMap:
    """state, input -> state, output; `step` and `apply` agree bit for bit."""

    dim: int

    def start(self) -> State:
        """State before the first reading."""
        raise NotImplementedError

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d); the output is in `out` if that is given, which may be Y."""
        raise NotImplementedError

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading; None or NaN is missing and stays so."""
        state, out = self.apply(state, one_reading(y, self.dim))
        return state, float(out[0, 0]) if self.dim == 1 else np.asarray(out[0])

    def sensor(self, j: int) -> CausalMap:
        """The map for sensor j of several: the same, unless it needs auxiliary uniforms of its own."""
        return self


class Transformation(CausalMap):
    """A causal map from readings to readings, with a source that can skip while its target goes on."""

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """One step in which the source skips a reading and the target is given the scores z (d,)."""
        raise NotImplementedError


def deliver(made: Array, out: Array | None) -> Array:
    """`made`, or `out` with what was made in it."""
    if out is None or made is out:
        return made
    out[...] = made
    return out


def as_readings(Y: ArrayLike, dim: int, name: str = "Y") -> Array:
    """An array (T, d) or (T, d, N) of floats, NaN where a reading is missing."""
    array = _floats(Y, name)
    if array.ndim == 0 or array.size == 0:
        raise ReadingError(f"{name} has shape {array.shape}; it must hold at least one reading, time first")
    if array.ndim == 1:
        if dim != 1:
            raise ReadingError(
                f"{name} has shape {array.shape}; a model of {dim} channels needs (T, {dim}) or (T, {dim}, N)"
            )
        return np.ascontiguousarray(array)[:, None]
    if array.ndim > 3 or array.shape[1] != dim:
        hint = f"; for {array.shape[1]} sensors write {name}[:, None, :]" if dim == 1 and array.ndim == 2 else ""
        shapes = "(T,), (T, 1) or (T, 1, N)" if dim == 1 else f"(T, {dim}) or (T, {dim}, N)"
        raise ReadingError(f"{name} has shape {array.shape}; this model needs {shapes}{hint}")
    return np.ascontiguousarray(array)


def one_reading(y: ArrayLike | None, dim: int) -> Array:
    """One reading as an array (1, d); None is missing."""
    if y is None:
        return np.full((1, dim), np.nan)
    array = _floats(y, "the reading")
    if array.size != dim or array.ndim > 1:
        raise ReadingError(f"the reading has shape {array.shape}; it must have {dim} channel{'s' if dim > 1 else ''}")
    return np.ascontiguousarray(array).reshape(1, dim)


def finite_or_missing(Y: Array) -> Mask:
    """Which rows (T, N or nothing) are missing, after refusing infinities."""
    bad = np.isinf(Y)
    if bad.any():
        raise infinite(int(np.argwhere(bad)[0][0]))
    return np.asarray(np.isnan(Y).any(axis=1))


def infinite(row: int) -> ReadingError:
    """The error for a reading that is not a finite number."""
    return ReadingError(f"the reading in row {row} is infinite; a reading is a finite number, or NaN if missing")


def warn_incomplete(Y: Array, partial: bool, stacklevel: int = 4) -> None:
    """Say how many vectors had some channels missing and were therefore counted as missing whole."""
    if partial or Y.shape[1] == 1:
        return
    gone = np.isnan(Y).sum(axis=1)
    count = int(((gone > 0) & (gone < Y.shape[1])).sum())
    if count:
        warnings.warn(
            f"{count} readings have some channels missing and count as missing whole "
            "(partial=True uses what is there, for Gauss-Markov models)",
            IncompleteReadingWarning,
            stacklevel=stacklevel,
        )


def as_output(out: Array, Y: ArrayLike, name: str = "Y") -> Array:
    """The array `out`, if results for `Y` can be written into it: what numpy calls `out`.

    >>> import numpy as np
    >>> as_output(np.empty(3), [1.0, 2.0, 3.0]).shape
    (3,)
    >>> as_output(np.empty(2), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: out has shape (2,); it must have that of Y, (3,)
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ConfigurationError(f"out is of type {type(out).__name__}; it must be a numpy array")
    if out.shape != np.shape(Y):
        raise ConfigurationError(f"out has shape {out.shape}; it must have that of {name}, {np.shape(Y)}")
    if out.dtype != np.float64:
        raise ConfigurationError(f"out is of type {out.dtype}; it must be float64, in the machine's byte order")
    if not out.flags.c_contiguous:
        raise ConfigurationError("out is not contiguous; it must be an array in C order, such as numpy.empty gives")
    if not out.flags.writeable:
        raise ConfigurationError("out is read-only; it must be an array that can be written to")
    if isinstance(Y, np.ndarray) and np.may_share_memory(out, Y):
        same = Y.dtype == out.dtype and Y.flags.c_contiguous and Y.ctypes.data == out.ctypes.data
        if not same:
            raise ConfigurationError(
                f"out shares a part of its memory with {name}; it must be all of {name} or none of it"
            )
    return out


def _floats(Y: ArrayLike, name: str) -> Array:
    if isinstance(Y, np.ma.MaskedArray):
        data, mask = np.ma.getdata(Y).copy(), np.ma.getmaskarray(Y)
        if data.dtype.kind == "O":
            data[mask] = None
        return np.where(mask, np.nan, _floats(data, name))
    try:
        array = np.asarray(Y)
    except ValueError:
        raise ReadingError(f"{name} is ragged; every reading must have the same channels") from None
    kind = array.dtype.kind
    if kind == "O":  # numbers mixed with None
        for position, value in np.ndenumerate(array):
            if value is not None and (not isinstance(value, numbers.Real) or isinstance(value, bool)):
                raise ReadingError(
                    f"{name} holds a {type(value).__name__} at {position}; a reading is a number, or None if missing"
                )
        try:
            return array.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise ReadingError(f"{name} holds a number that double precision cannot hold") from None
    if kind not in "fiu":
        raise ReadingError(f"{name} is of type {array.dtype}; readings are numbers")
    return array if array.dtype == np.float64 else array.astype(float)
