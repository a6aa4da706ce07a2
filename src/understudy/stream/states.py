"""The state of a filter as JSON, and back, to the last bit.

States are tuples of numbers, arrays and further tuples. A float is written with the digits that read
back as the same float, an array with its bytes, a named tuple with its name, so that what comes back is
what was there. Nothing else is written, and in reading no code is run but that of named tuples, of this
package or of a module that is loaded already.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
import sys
from typing import Any

import numpy as np

from understudy.errors import SnapshotError

_DEEPEST = 16
_DTYPES = {"<f8": "float64", "<i8": "int64", "|b1": "bool"}
_NUMBERS = frozenset((int, float))
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dump(state: Any) -> str:
    """The state as text.

    >>> dump((3, 0.1))
    '[3, 0.1]'
    """
    if type(state) is tuple and _NUMBERS.issuperset(map(type, state)):
        text = repr(list(state))  # JSON, and quick, unless a number is inf or nan
        if "n" not in text:
            return text
    return _encode(to_plain(state))


def load(text: str) -> Any:
    """The state again."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError("a stored state is not what it should be") from None
    return from_plain(plain)


def to_plain(state: Any, depth: int = 0) -> Any:
    """The state as JSON can hold it.

    >>> to_plain((3, 0.1, None))
    [3, 0.1, None]
    """
    if depth > _DEEPEST:
        raise SnapshotError(f"a state is nested more than {_DEEPEST} deep; it cannot be stored")
    if state is None or type(state) in (int, str, bool):
        return state
    if isinstance(state, float):
        number = float(state)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(state, (np.integer, np.bool_)):
        return state.item()
    if isinstance(state, np.ndarray):
        return _plain_array(state)
    if isinstance(state, (tuple, list)):
        parts = [to_plain(part, depth + 1) for part in state]
        if not hasattr(state, "_fields"):
            return parts
        module, name = type(state).__module__, type(state).__qualname__
        if getattr(sys.modules.get(module), name, None) is not type(state):
            raise SnapshotError(f"a state holds a {name}, which no module has by this name; use a plain tuple")
        return {"tuple": f"{module}:{name}", "parts": parts}
    raise SnapshotError(f"a state holds a {type(state).__name__}; only numbers, arrays and tuples can be stored")


def _plain_array(array: Any) -> dict[str, Any]:
    types = [plain for plain, name in _DTYPES.items() if array.dtype == name]
    if not types:
        raise SnapshotError(f"a state holds an array of type {array.dtype}; only float64, int64 and bool can be stored")
    # the order in memory decides in which order a product is summed
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    raw = array.astype(types[0]).tobytes(order)
    return {"array": base64.b64encode(raw).decode("ascii"), "shape": list(array.shape), "type": types[0] + order}


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
        kind, order = plain["type"][:-1], plain["type"][-1:]
        if kind not in _DTYPES or order not in ("C", "F"):
            raise ValueError
        raw = base64.b64decode(plain["array"], validate=True)
        array = np.frombuffer(raw, dtype=kind).reshape([int(n) for n in plain["shape"]], order=order)
    except (ValueError, TypeError):
        raise SnapshotError("a stored array is not what it should be") from None
    return array  # read-only, as it stands on the bytes


def _named(name: Any) -> Any:
    """A named tuple by its name: of this package, or of a module that is loaded already; nothing else."""
    module, _, title = name.partition(":") if type(name) is str else ("", "", "")
    found = None
    if title.isidentifier():
        if module.startswith("understudy."):
            try:
                importlib.import_module(module)
            except ImportError:
                module = ""
        found = getattr(sys.modules.get(module), title, None)
    if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
        return found
    raise SnapshotError("a stored state names a type that is not loaded")
