"""The state of a filter as JSON, and back, to the last bit.

States are tuples of numbers, arrays and further tuples. A float is written with the digits that read
back as the same float, an array with its bytes, a named tuple of this package with its name, so that
what comes back is what was there. Nothing else is written, and nothing is ever executed in reading.
"""

from __future__ import annotations

import base64
import importlib
import math
from typing import Any

import numpy as np

from understudy.errors import SnapshotError

_DEEPEST = 16
_DTYPES = ("<f8", "<i8", "|b1")


def to_plain(state: Any, depth: int = 0) -> Any:
    """The state as JSON can hold it.

    >>> to_plain((3, 0.1, None))
    [3, 0.1, None]
    """
    if depth > _DEEPEST:
        raise SnapshotError(f"a state is nested more than {_DEEPEST} deep; it cannot be stored")
    if state is None or type(state) in (int, str, bool):
        return state
    if isinstance(state, (float, np.floating)):
        number = float(state)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(state, (np.integer, np.bool_)):
        return state.item()
    if isinstance(state, np.ndarray):
        array = np.ascontiguousarray(state)
        dtype = {"f": "<f8", "i": "<i8", "b": "|b1"}.get(array.dtype.kind)
        if dtype is None:
            raise SnapshotError(f"a state holds an array of type {array.dtype}; only numbers can be stored")
        raw = array.astype(dtype).tobytes()
        return {"array": base64.b64encode(raw).decode("ascii"), "shape": list(array.shape), "type": dtype}
    if isinstance(state, (tuple, list)):
        parts = [to_plain(part, depth + 1) for part in state]
        name = type(state).__qualname__
        if hasattr(state, "_fields") and type(state).__module__.startswith("understudy."):
            return {"tuple": f"{type(state).__module__}:{name}", "parts": parts}
        return parts
    raise SnapshotError(f"a state holds a {type(state).__name__}; only numbers, arrays and tuples can be stored")


def from_plain(plain: Any, depth: int = 0) -> Any:
    """The state again.

    >>> from_plain(to_plain((3, (0.1, float("-inf")))))
    (3, (0.1, -inf))
    """
    if depth > _DEEPEST:
        raise SnapshotError("a stored state is nested too deep")
    if plain is None or type(plain) in (int, float, str, bool):
        return plain
    if type(plain) is list:
        return tuple(from_plain(part, depth + 1) for part in plain)
    if type(plain) is dict:
        if plain.keys() == {"float"} and plain["float"] in ("inf", "-inf", "nan"):
            return float(plain["float"])
        if plain.keys() == {"array", "shape", "type"}:
            return _array(plain)
        if plain.keys() == {"tuple", "parts"} and type(plain["parts"]) is list:
            return _named(plain["tuple"])(*(from_plain(part, depth + 1) for part in plain["parts"]))
    raise SnapshotError("a stored state is not what it should be")


def _array(plain: dict[str, Any]) -> Any:
    try:
        if plain["type"] not in _DTYPES:
            raise ValueError
        raw = base64.b64decode(plain["array"], validate=True)
        array = np.frombuffer(raw, dtype=plain["type"]).reshape([int(n) for n in plain["shape"]])
    except (ValueError, TypeError):
        raise SnapshotError("a stored array is not what it should be") from None
    return array  # read-only, as it stands on the bytes


def _named(name: Any) -> Any:
    """A named tuple of this package, by its name; nothing else can be asked for."""
    module, _, title = name.partition(":") if type(name) is str else ("", "", "")
    if module.startswith("understudy.") and title.isidentifier():
        try:
            found = getattr(importlib.import_module(module), title, None)
        except ImportError:
            found = None
        if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
            return found
    raise SnapshotError("a stored state names a type that this version does not have")
