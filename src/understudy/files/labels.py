"""From what stands in the private column to the values of a design.

A file says 1, "1", 1.0 or true; a design has a value 1, 1.0, "1" or a bin "1-2". Two are the same if they are equal, or
equal as texts, or equal as numbers; what is in a bin is that bin. Anything else is no value of the design.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from understudy.files.columns import Labels
from understudy.files.numbers import MISSING
from understudy.identify.labels import Bins

_TRUTH = {"true": 1.0, "false": 0.0}


def labels_of(values: Sequence[Any], bins: Any = None) -> Labels:
    """Where each label stands among the values; -1 for one that is no value of the design, or missing.

    `bins` are those of the family, as plain values.

    >>> found = labels_of([0, 1])
    >>> found["1"], found[1.0], found["true"], found["2"], found[None]
    (1, 1, 1, -1, -1)
    >>> from understudy.identify.labels import bins_from
    >>> people = labels_of(["0", "1-2", "3+"], bins_from("0,1-2,3+").to_plain())
    >>> people["2"], people[7], people["3+"]
    (1, 2, 2)
    """
    exact: dict[Any, int] = {}
    numeric: dict[float, int] = {}
    for i, value in enumerate(values):
        exact.setdefault(_plain(value), i)
        number = _number(value)
        if number is not None:
            numeric.setdefault(number, i)
    held = None if bins is None else Bins.from_plain(bins)
    places = [] if held is None else [exact.get(name, -1) for name in held.names]

    def position(label: Any) -> int:
        text = label.strip() if isinstance(label, str) else _plain(label)
        if text in exact:
            return exact[text]
        if label is None or text.lower() in MISSING:
            return -1
        number = _number(label)
        if held is not None:
            return _binned(held, places, text, number)
        return -1 if number is None else numeric.get(number, -1)

    return Labels(position)


def _binned(bins: Bins, places: list[int], text: str, number: float | None) -> int:
    tried: list[Any] = [] if number is None else [number]
    if bins.groups:
        tried.insert(0, text)
    for label in tried:
        bin_ = int(bins.place([label])[0])
        if bin_ >= 0:
            return places[bin_]
    return -1


def _plain(value: Any) -> Any:
    """A text, so that 1, 1.0 and true are told apart where a design has them all."""
    return value if isinstance(value, str) else repr(value)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = _TRUTH.get(value.strip().lower(), value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
