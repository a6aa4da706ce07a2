"""Numbers from texts, and texts from numbers.

An output is written with a fixed number of decimals, which is that of its design (`understudy.files.layout`). Its
text is a function of the output alone: the sign, the digits before the point, and always as many after it. The texts of
the readings that came in have no part in it. A sensor of six significant digits writes 85.1234 and 115.123; outputs
with the decimals of such readings would tell the level behind them.

To round an output to some decimals costs no privacy: it happens after the filter. It is the rounding of *readings* that
leaks, where the model does not know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
"""Texts, in small letters, that stand for a reading that is not there."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_BLANKS = " \t"


class NumberFormat(NamedTuple):
    """So many decimals, zeros at the end included.

    >>> NumberFormat(1).texts([431.04, -0.01])
    ['431.0', '0.0']
    >>> NumberFormat(2).rounded(np.array([431.256, np.nan])).tolist()
    [431.26, nan]
    """

    decimals: int

    @property
    def whole(self) -> bool:
        """Whether numbers are written without a point."""
        return self.decimals == 0

    def texts(self, values: Iterable[float]) -> list[str]:
        """The numbers as text."""
        given: list[float] = values.tolist() if isinstance(values, np.ndarray) else list(values)
        form = f"%.{self.decimals}f"
        texts = [form % value for value in given]
        nothing = form % -0.0
        return [text[1:] if text == nothing else text for text in texts] if nothing in texts else texts

    def rounded(self, values: Array) -> Array:
        """The numbers that the texts stand for; what is missing stays so."""
        with np.errstate(over="ignore"):
            found = np.round(values, self.decimals) + 0.0
        return np.where(np.isfinite(found), found, values)


def parsed(texts: Sequence[str | None]) -> tuple[Array, dict[int, str]]:
    """Numbers from texts, NaN where there is none, and what is wrong with those that are not numbers.

    >>> parsed(["431.5", " 7", "", "NaN", "1_000"])[0].tolist()
    [431.5, 7.0, nan, nan, nan]
    >>> parsed(["431.5", "many", "1e999"])[1]
    {1: 'is not a number', 2: 'is infinite'}
    """
    out = np.full(len(texts), np.nan)
    faults: dict[int, str] = {}
    for i, text in enumerate(texts):
        if text is None:
            continue
        bare = text.strip(_BLANKS)
        if _NUMBER.fullmatch(bare):
            out[i] = float(bare)
        elif bare.lower() not in MISSING:
            infinite = bare.lstrip("+-").lower() in ("inf", "infinity")
            faults[i] = INFINITE if infinite else "is not a number"
    return no_infinities(out, faults)


INFINITE = "is infinite"


def no_infinities(values: Array, faults: dict[int, str]) -> tuple[Array, dict[int, str]]:
    """Infinite readings are faults; they become missing."""
    infinite = np.isinf(values)
    if infinite.any():
        values = np.where(infinite, np.nan, values)
        faults = {**faults, **dict.fromkeys(np.flatnonzero(infinite).tolist(), INFINITE)}
    return values, faults
