"""How the numbers of a column are written, and numbers written in the same way.

The form of an output is a property of its column, never of its own reading: an output with as many decimals as the
reading that it replaces would tell how round that reading was. So the form is learned once, from the first rows
of a file, and from then on the text of an output depends on the output alone. A column has between `least`
and `most` decimals: "431.0" beside "431.5" is (1, 1), "431" beside "431.25" is (0, 2), with zeros left out where
they say nothing.

To round an output to the decimals of its column costs no privacy: it happens after the filter. It is the rounding
of *readings* that leaks, where the model does not know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
"""Texts, in small letters, that stand for a reading that is not there."""

_NUMBER = re.compile(r"[+-]?(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DOUBLE = 16  # significant digits from which a text is one of a double, with all of its digits
_BLANKS = " \t"


class NumberFormat(NamedTuple):
    """Between `least` and `most` decimals; `most` is None for the shortest text that reads back as the same number.

    With `digits` there are at most so many significant ones, because those after them are noise of the arithmetic.

    >>> NumberFormat(1, 1).texts([431.04, -0.01])
    ['431.0', '0.0']
    >>> NumberFormat(0, 2).texts([431.0, 431.5, 431.256])
    ['431', '431.5', '431.26']
    >>> NumberFormat(0, None).texts([431.0, 0.1])
    ['431.0', '0.1']
    >>> NumberFormat(0, None, 12).texts([432.90000000000003, 431.0]), NumberFormat(0, 12, 12).texts([1285 / 3])
    (['432.9', '431.0'], ['428.333333333'])
    """

    least: int
    most: int | None
    digits: int | None = None

    @property
    def step(self) -> float | None:
        """The grid that the text makes; None if it has all digits."""
        return None if self.most is None else 10.0**-self.most

    @property
    def whole(self) -> bool:
        """Whether numbers are written without a point."""
        return self.most == 0

    def texts(self, values: Iterable[float]) -> list[str]:
        """The numbers as text."""
        given: list[float] = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if self.digits is not None:
            known = {value: self._short(value, self.digits) for value in set(given)}
            return [known[value] for value in given]
        if self.most is None:
            return [repr(value + 0.0) for value in given]
        form = f"%.{self.most}f"
        texts = [form % value for value in given]
        nothing = form % -0.0
        if nothing in texts:
            texts = [text[1:] if text == nothing else text for text in texts]
        return texts if self.least == self.most else [self._trimmed(text) for text in texts]

    def rounded(self, values: Array) -> Array:
        """The numbers that the texts stand for."""
        if self.digits is not None:
            there = np.isfinite(values)
            known, places = np.unique(values[there], return_inverse=True)
            short = np.array([float(text) for text in self.texts(known)])
            made = values.copy()
            made[there] = short[places.reshape(-1)] if known.size else short
            return made
        if self.most is None:
            return values
        out = np.round(values, self.most) + 0.0
        return np.where(np.isfinite(out), out, values)

    def _short(self, value: float, digits: int) -> str:
        """With so many significant digits at most, and no more decimals than the column has."""
        if self.most is None:
            return repr(float(f"{value:.{digits}g}") + 0.0)
        text = np.format_float_positional(value, precision=digits, unique=True, fractional=False, trim="-")
        if len(text.partition(".")[2]) > self.most:
            text = f"{value:.{self.most}f}"
        short = self._trimmed(text)
        return short[1:] if short.startswith("-") and not float(short) else short

    def _trimmed(self, text: str) -> str:
        whole, _, decimals = text.partition(".")
        decimals = decimals.rstrip("0").ljust(self.least, "0")
        if not decimals:
            return "0" if whole == "-0" else whole
        return f"{whole}.{decimals}"


def learned(texts: Iterable[str]) -> NumberFormat:
    """The form of numbers that are written so; texts that are none do not count.

    >>> [learned(texts)[:2] for texts in (["431.0", "431.5", ""], ["431", "431.25"], ["4.31e2"])]
    [(1, 1), (0, 2), (0, None)]
    """
    least, most, seen = 99, 0, False
    for text in set(texts):
        found = _NUMBER.fullmatch(text.strip(_BLANKS))
        if found is None:
            continue
        seen = True
        decimals = found[2] or found[3] or ""
        digits = (found[1] or "").lstrip("0") + decimals
        if "e" in text or "E" in text or len(digits.lstrip("0")) >= _DOUBLE:
            return NumberFormat(0, None)
        least, most = min(least, len(decimals)), max(most, len(decimals))
    return NumberFormat(least, most) if seen else NumberFormat(0, None)


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
