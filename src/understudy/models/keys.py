"""Values of a parameter as plain JSON values, and back.

The values theta of a family are what a stored design is asked with later, so each comes back as
the kind of value it was: 1 stays a whole number, 1.0 a float, a tuple a tuple. Numbers, strings,
truth values and None stand for themselves. What JSON has no form for is tagged::

    (0, "door")            {"tuple": [0, "door"]}
    np.array([0.5, 1.0])   {"array": [0.5, 1.0], "dtype": "float64", "shape": [2]}

A numpy number becomes a Python one: they are equal, and a family takes one for the other. Anything
else is refused, because to bring it back would need code, and a file never names code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import FamilyError, StoredFileError

_RULE = "a value that is stored is a number, a string, True, False, None, a tuple of these, or an array of numbers"
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
# Deep enough for any parameter; the bound keeps a hostile file from exhausting the stack.
_DEEPEST = 8
_LARGEST = 2**64
_MOST_AXES = 32


def value_to_plain(value: Any) -> Any:
    """The parameter value as JSON can hold it.

    >>> import numpy as np
    >>> value_to_plain((1, 1.0, "door"))
    {'tuple': [1, 1.0, 'door']}
    >>> value_to_plain(np.float64(0.5))
    0.5
    """
    return _plain(value, 0)


def value_from_plain(plain: Any) -> Any:
    """The parameter value that `value_to_plain` was given; an array is read-only.

    >>> value_from_plain({"tuple": [1, 1.0, "door"]})
    (1, 1.0, 'door')
    """
    return _value(plain, 0)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, np.generic):
        if value.dtype.name not in _DTYPES and value.dtype.kind != "U":
            raise _refused(value)
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if abs(value) >= _LARGEST:
            raise FamilyError("a value is a whole number of more than 64 bits; such a number cannot be stored")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise FamilyError(f"the value {value!r} cannot be stored; a number must be finite")
        return value
    if type(value) is tuple and depth < _DEEPEST:
        return {"tuple": [_plain(part, depth + 1) for part in value]}
    if type(value) is np.ndarray and depth == 0:  # a tuple with an array inside has no hash
        return _plain_array(value)
    raise _refused(value)


def _plain_array(array: Any) -> dict[str, Any]:
    if array.dtype.name not in _DTYPES:
        raise FamilyError(f"a value is an array of {array.dtype}; {_RULE}")
    if not np.isfinite(array).all():
        raise FamilyError("a value is an array with an entry that is not finite; every entry must be, to be stored")
    return {"array": array.ravel().tolist(), "dtype": array.dtype.name, "shape": list(array.shape)}


def _refused(value: Any) -> FamilyError:
    deep = f" nested more than {_DEEPEST} deep" if type(value) is tuple else ""
    return FamilyError(f"a value is of type {type(value).__name__}{deep}; {_RULE}")


def _value(plain: Any, depth: int) -> Any:
    if plain is None or type(plain) in (bool, str):
        return plain
    if type(plain) is int and abs(plain) < _LARGEST:
        return plain
    if type(plain) is float and math.isfinite(plain):
        return plain
    if type(plain) is dict and depth < _DEEPEST and plain.keys() == {"tuple"} and type(plain["tuple"]) is list:
        return tuple(_value(part, depth + 1) for part in plain["tuple"])
    if type(plain) is dict and depth == 0 and plain.keys() == {"array", "dtype", "shape"}:
        return _array(plain["array"], plain["dtype"], plain["shape"])
    raise StoredFileError(f"the stored file holds a {type(plain).__name__} in the place of a value; {_RULE}")


def _array(entries: Any, dtype: Any, shape: Any) -> Any:
    if type(dtype) is not str or dtype not in _DTYPES:
        raise StoredFileError(f"dtype of a stored array must be one of {', '.join(sorted(_DTYPES))}")
    if type(shape) is not list or len(shape) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise StoredFileError(
            f"shape of a stored array must be a list of at most {_MOST_AXES} whole numbers, 0 or more"
        )
    wanted = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(dtype).kind]
    if type(entries) is not list or not all(type(entry) is wanted for entry in entries):
        raise StoredFileError(f"array must be a list with entries of type {wanted.__name__}, as its dtype says")
    if math.prod(shape) != len(entries):
        raise StoredFileError(f"a stored array has {len(entries)} entries, which do not fill its shape")
    try:
        with np.errstate(over="ignore"):
            array = np.array(entries, dtype=dtype).reshape(shape)
    except (OverflowError, ValueError):
        raise StoredFileError(f"a stored array has an entry or a shape that does not fit its dtype {dtype}") from None
    if not np.isfinite(array).all() or array.ravel().tolist() != entries:
        raise StoredFileError(
            f"a stored array has an entry that {dtype} cannot hold; every entry must be finite and exact"
        )
    array.flags.writeable = False
    return array
