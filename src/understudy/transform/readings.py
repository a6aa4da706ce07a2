"""Readings as they come in: shapes, types and missing values, checked at the door.

Time comes first: ``(T,)`` for a scalar model, ``(T, d)``, or ``(T, d, N)`` = time, channel, sensor.
Errors name position, type and rule, never a value.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import IncompleteReadingWarning, ReadingError


def as_readings(Y: Any, dim: int, name: str = "Y") -> Array:
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


def one_reading(y: Any, dim: int) -> Array:
    """One reading as an array (1, d); None is missing."""
    if y is None:
        return np.full((1, dim), np.nan)
    array = _floats(y, "the reading")
    if array.size != dim or array.ndim > 1:
        raise ReadingError(f"the reading has shape {array.shape}; it must have {dim} channel{'s' if dim > 1 else ''}")
    return np.ascontiguousarray(array).reshape(1, dim)


def finite_or_missing(Y: Array) -> NDArray[np.bool_]:
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


def _floats(Y: Any, name: str) -> Array:
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
