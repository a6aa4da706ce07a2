"""Checks of plain JSON values: what a stored file must hold before a constructor sees it.

A file may come from anywhere, so nothing in it is believed: types are the very ones that JSON gives, fields
are exactly those that are asked for, numbers are finite. What is wrong is named by its place; what stands in
the file is not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from understudy.errors import StoredFileError
from understudy.laws.base import Array

_T = TypeVar("_T")

Plain = dict[str, Any]


def kind_of(where: str, plain: Any, kinds: Iterable[str]) -> str:
    """The kind of a mapping, if it is one of these.

    >>> kind_of("law", {"kind": "Atoms"}, ("Atoms", "Gaussian"))
    'Atoms'
    """
    kind = plain.get("kind") if type(plain) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise StoredFileError(f"{where} must be a mapping whose kind is one of {', '.join(kinds)}")
    return kind


def fields(where: str, plain: Any, *names: str, kind: bool = True) -> Plain:
    """The mapping, if it has exactly these fields (and, unless said otherwise, a kind)."""
    if type(plain) is not dict:
        raise StoredFileError(f"{where} must be a mapping with the fields {', '.join(names)}")
    wanted = {*names, "kind"} if kind else {*names}
    missing = sorted(wanted - plain.keys())
    if missing:
        raise StoredFileError(f"{where} lacks the field {missing[0]!r}; it must have {', '.join(names)}")
    extra = plain.keys() - wanted
    if extra:
        # a short name is a slip to be shown; anything else in a file is not repeated
        shown = sorted(repr(key) for key in extra if type(key) is str and key.isidentifier() and len(key) <= 32)
        raise StoredFileError(
            f"{where} has a field too many{': ' + shown[0] if shown else ''}; it must have {', '.join(names)} only"
        )
    return plain


def entries(where: str, given: Any) -> list[Any]:
    """A list, of anything."""
    if type(given) is not list:
        raise StoredFileError(f"{where} must be a list")
    return given


def array(where: str, given: Any, axes: int) -> Array:
    """Finite numbers, nested `axes` deep."""
    _check_numbers(where, given, axes)
    try:
        return np.array(given, dtype=float)
    except (ValueError, OverflowError):
        raise StoredFileError(f"{where} is ragged, or has a number beyond double precision") from None


def _check_numbers(where: str, given: Any, axes: int) -> None:
    if axes:
        if type(given) is not list:
            raise StoredFileError(f"{where} must be a list, nested one deeper for each of its axes")
        for part in given:
            _check_numbers(where, part, axes - 1)
    elif type(given) not in (int, float) or (type(given) is float and not math.isfinite(given)):
        raise StoredFileError(f"{where} has an entry of type {type(given).__name__}; each must be a finite number")


def numbers(where: str, given: Any) -> Any:
    """A number, or a vector of numbers."""
    return array(where, given, 1 if type(given) is list else 0)[()]


def truth(where: str, given: Any) -> bool:
    """True or False."""
    if type(given) is not bool:
        raise StoredFileError(f"{where} must be true or false")
    return given


def made(where: str, make: Callable[..., _T], *given: Any, **named: Any) -> _T:
    """What the constructor makes; what it refuses is a fault of the file."""
    try:
        return make(*given, **named)
    except (ValueError, ArithmeticError) as error:  # ours are ValueErrors; numpy has some for numbers out of range
        raise StoredFileError(f"{where} breaks a rule: {error}") from None
