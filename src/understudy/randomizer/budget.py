"""How much may leak: what users write, in nats."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from understudy.errors import DesignError

_WRITTEN = re.compile(r"\s*([-+]?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%]*)\s*")
_UNITS = {"nat": 1.0, "nats": 1.0, "bit": math.log(2.0), "bits": math.log(2.0)}


def nats(leakage: Any, entropy: float) -> float:
    """A budget in nats: a number, "0.3 nats", "0.4 bit", or "40%" of the entropy of the private parameter.

    >>> nats(0.3, entropy=0.7), round(nats("0.4 bit", entropy=0.7), 6), nats("50%", entropy=0.7)
    (0.3, 0.277259, 0.35)
    """
    if isinstance(leakage, str):
        return _written(leakage, entropy)
    try:
        if isinstance(leakage, (bool, np.bool_)):
            raise TypeError
        value = float(leakage)
    except (TypeError, ValueError):
        raise _wrong(leakage) from None
    if not value >= 0.0:
        raise DesignError(f"leakage = {leakage!r}; it must be 0 or more")
    return value


def _written(leakage: str, entropy: float) -> float:
    match = _WRITTEN.fullmatch(leakage)
    number, unit = match.groups() if match else ("", "")
    unit = unit.lower()
    try:
        value = float(number)
    except ValueError:
        raise _wrong(leakage) from None
    if not (value >= 0.0 and math.isfinite(value)):
        raise DesignError(f"leakage = {leakage!r}; it must be 0 or more")
    if unit in ("%", "percent"):
        if value > 100.0:
            raise DesignError(f"leakage = {leakage!r}; a share of the entropy is at most 100%")
        # all of it, rounded up: what tells everything then keeps the budget
        return value / 100.0 * entropy if value < 100.0 else entropy * (1.0 + 1e-14)
    if unit not in _UNITS:
        raise _wrong(leakage)
    return value * _UNITS[unit]


def _wrong(leakage: Any) -> DesignError:
    return DesignError(
        f'leakage = {leakage!r}; it must be a number of nats, or written with its unit: "0.3 nats", "0.4 bit", '
        '"40%" (of the entropy)'
    )
