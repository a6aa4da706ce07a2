"""An array that the caller gives for the output, checked at the door: what numpy calls `out`."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.errors import ConfigurationError
from understudy.laws.base import Array


def as_output(out: Any, Y: Any, name: str = "Y") -> Array:
    """The array `out`, if results for `Y` can be written into it.

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
    if isinstance(Y, np.ndarray) and np.may_share_memory(out, Y) and not _same(out, Y):
        raise ConfigurationError(f"out shares a part of its memory with {name}; it must be all of {name} or none of it")
    return out


def _same(out: Array, Y: Any) -> bool:
    """Whether both are the same numbers in the same places."""
    same: bool = Y.dtype == out.dtype and Y.flags.c_contiguous and Y.ctypes.data == out.ctypes.data
    return same
