"""Labels of the private parameter: their values in order, and counts put together in bins.

Bins are edges (``[0, 1, 3]``), text (``"0,1-2,3+"``) or named groups (``{"away": [0], "at home": [1, 2]}``). A bin is
named by what it holds: "0", "1-2", "3+". Where counts take many values and no bins are given, bins are chosen: zero
by itself, and the rest in up to three of about as many rows each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.columns import MISSING_WORDS, Column, as_numbers
from understudy.laws.base import Array

MOST_VALUES = 10
"""More values of a count than this are put together in bins unless the user says otherwise."""
_MOST_NAMES = 50

_RANGE = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)|(\+))?\s*")


@dataclass(frozen=True, slots=True)
class Bins:
    """Names of bins and what each holds: numbers from `low` to `high`, both included, or the labels of a group.

    >>> bins = bins_from("0,1-2,3+")
    >>> bins.names, bins.place([0, 1, 2, 5]).tolist()
    (('0', '1-2', '3+'), [0, 1, 1, 2])
    >>> bins_from([0, 1, 3]) == bins
    True
    """

    names: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    groups: tuple[tuple[Any, ...], ...] = ()

    def place(self, labels: Any) -> NDArray[np.intp]:
        """Which bin each label is in; -1 where it is in none."""
        if self.groups:
            where = {_comparable(label): k for k, group in enumerate(self.groups) for label in group}
            return np.array([where.get(_comparable(label), -1) for label in labels], dtype=np.intp)
        x = np.asarray(labels, dtype=float)
        inside = (x[:, None] >= np.array(self.low)) & (x[:, None] <= np.array(self.high))
        return np.where(inside.any(axis=1), inside.argmax(axis=1), -1).astype(np.intp)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        if self.groups:
            return {"names": list(self.names), "groups": [list(group) for group in self.groups]}
        ends = [[None if np.isinf(x) else x for x in side] for side in (self.low, self.high)]
        return {"names": list(self.names), "low": ends[0], "high": ends[1]}

    @staticmethod
    def from_plain(plain: Any) -> Bins:
        """The bins that `to_plain` was given."""
        names = tuple(plain["names"])
        if "groups" in plain:
            return Bins(names, groups=tuple(tuple(group) for group in plain["groups"]))
        low = tuple(-np.inf if x is None else float(x) for x in plain["low"])
        return Bins(names, low, tuple(np.inf if x is None else float(x) for x in plain["high"]))


@dataclass(frozen=True, slots=True, repr=False)
class Labels:
    """The values, in order, and the position of each row's label among them; -1 is unknown."""

    values: tuple[Any, ...]
    positions: NDArray[np.intp]
    bins: Bins | None
    notes: tuple[str, ...]


def bins_from(given: Any) -> Bins:
    """Bins from edges, text or named groups."""
    if isinstance(given, Bins):
        return given
    if isinstance(given, Mapping):
        groups = [tuple(v) if isinstance(v, (list, tuple, set, range)) else (v,) for v in given.values()]
        flat = [_comparable(label) for group in groups for label in group]
        if len(set(flat)) < len(flat) or not all(groups) or len(groups) < 2:
            raise ConfigurationError(
                "bins has an empty group, a label twice or fewer than 2 groups; each label has one"
            )
        return Bins(tuple(str(name) for name in given), groups=tuple(groups))
    if isinstance(given, str):
        return _from_text(given)
    if isinstance(given, (Sequence, np.ndarray)):
        return _from_edges(given)
    raise ConfigurationError(
        f"bins = {given!r}; it must be edges such as [0, 1, 3], text such as '0,1-2,3+', or named groups of labels"
    )


def _from_text(given: str) -> Bins:
    rule = "text of bins is such as '0,1-2,3+', whole numbers in increasing order"
    low, high = [], []
    for part in given.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ConfigurationError(f"bins = {given!r}; {rule}")
        low.append(float(match[1]))
        high.append(np.inf if match[3] else float(match[2] or match[1]))
    if len(low) < 2 or any(b < a for a, b in zip(low, high, strict=True)):
        raise ConfigurationError(f"bins = {given!r}; {rule}, at least two")
    if any(after <= before for before, after in zip(high, low[1:], strict=False)):
        raise ConfigurationError(f"bins = {given!r}; {rule}, that do not overlap")
    return Bins(tuple(_name(a, b) for a, b in zip(low, high, strict=True)), tuple(low), tuple(high))


def _from_edges(given: Any) -> Bins:
    try:
        edges = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        edges = np.array([])
    if edges.ndim != 1 or edges.size < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ConfigurationError(
            f"bins = {given!r}; edges are at least two finite numbers in increasing order: each bin holds its edge and "
            "what lies below the next, the last all above"
        )
    low = tuple(edges.tolist())
    if all(edge.is_integer() for edge in low):
        high = (*(edge - 1.0 for edge in low[1:]), np.inf)
        return Bins(tuple(_name(a, b) for a, b in zip(low, high, strict=True)), low, high)
    high = (*(float(np.nextafter(edge, -np.inf)) for edge in low[1:]), np.inf)
    names = [f"[{a:g}, {b:g})" for a, b in pairwise(low)]
    return Bins((*names, f"{low[-1]:g}+"), low, high)


def _name(low: float, high: float) -> str:
    if np.isinf(high):
        return f"{low:.0f}+"
    return f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"


def suggested(counts: Array) -> Bins:
    """Bins for counts: zero (or the smallest) by itself, the rest in up to three of about as many rows each.

    >>> suggested(np.repeat([0, 1, 2, 3, 4, 5, 6], [70, 10, 10, 10, 10, 10, 10])).names
    ('0', '1-2', '3-4', '5+')
    """
    first = float(counts.min())
    rest = np.sort(counts[counts > first])
    cuts = np.unique(rest[[rest.size * k // 3 for k in range(3)]])
    return _from_edges(np.concatenate([[first], cuts]))


def as_labels(column: Column, bins: Any = None, values: Sequence[Any] | None = None) -> Labels:
    """The labels of a column, in bins if they are given or needed; `values` are those that are known, if they are.

    >>> from understudy.identify.columns import of_array
    >>> found = as_labels(of_array("people", [0, 2, None, 1]))
    >>> found.values, found.positions.tolist()
    ((0, 1, 2), [0, 2, -1, 1])
    """
    notes = []
    labels, there = _plain(column), np.flatnonzero(~column.missing)
    if not there.size:
        raise ReadingError(f"column {column.name!r} has no label in any row; at least two different ones are needed")
    if column.missing.any():
        notes.append(f"{int(column.missing.sum())} rows have no label in {column.name!r}; their readings are not used")
    if values is not None:
        made = None if bins is None else bins_from(bins)
        return Labels(tuple(values), positions_of(column, values, made), made, tuple(notes))
    numeric = labels.dtype.kind == "f"
    automatic = isinstance(bins, str) and bins == "auto"
    distinct = (
        np.unique(labels[there]) if labels.dtype != object else np.array(sorted(set(labels[there])), dtype=object)
    )
    if numeric and (automatic or (bins is None and distinct.size > MOST_VALUES)):
        bins = suggested(labels[there])
        notes.append(
            f"{column.name!r} takes {distinct.size} values; they were put together as {', '.join(bins.names)} "
            f"(bins={','.join(bins.names)!r} says the same, any other choice takes its place)"
        )
    elif automatic:
        bins = None
    positions = np.full(len(column), -1, dtype=np.intp)
    if bins is not None:
        made = bins_from(bins)
        if not (numeric or made.groups):
            raise ConfigurationError(f"bins are of numbers and {column.name!r} holds {column.kind}; give named groups")
        positions[there] = made.place(labels[there])
        outside = there[positions[there] < 0]
        if outside.size:
            raise ReadingError(
                f"column {column.name!r}, row {outside[0]} (counted from 0) is in none of the bins "
                f"{', '.join(made.names)}; each label must be in one ({outside.size} such rows)"
            )
        return Labels(made.names, positions, made, tuple(notes))
    if distinct.size > _MOST_NAMES:
        raise ConfigurationError(
            f"{column.name!r} takes {distinct.size} values; a label takes at most {_MOST_NAMES}: put them in bins"
        )
    positions[there] = np.searchsorted(distinct, labels[there])
    return Labels(tuple(_value(x) for x in distinct.tolist()), positions, None, tuple(notes))


def positions_of(column: Column, values: Sequence[Any], bins: Any = None) -> NDArray[np.intp]:
    """The place of each label among known values, through the bins they were made with; -1 where it is missing.

    A label that is not known is refused by its row, without saying what it is.

    >>> from understudy.identify.columns import of_array
    >>> positions_of(of_array("people", [0, 5, None]), ("0", "1-2", "3+"), bins_from("0,1-2,3+").to_plain()).tolist()
    [0, 2, -1]
    """
    labels, there = _plain(column), np.flatnonzero(~column.missing)
    found = np.full(len(column), -1, dtype=np.intp)
    if bins is not None:
        made = bins if isinstance(bins, Bins) else Bins.from_plain(bins)
        if labels.dtype.kind != "f" and not made.groups:
            raise ReadingError(f"column {column.name!r} holds {column.kind}; its bins are of numbers")
        found[there] = made.place(labels[there])
    else:
        where = {_comparable(value): k for k, value in enumerate(values)}
        if labels.dtype == object:  # text, but of numbers when the values were learned, or the other way round
            where = {str(value): k for value, k in where.items()} if where.keys() - set(labels[there]) else where
        found[there] = [where.get(_comparable(label), -1) for label in labels[there].tolist()]
    unknown = there[found[there] < 0]
    if unknown.size:
        raise ReadingError(
            f"column {column.name!r}, row {unknown[0]} (counted from 0) has a label that is none of the known values; "
            f"each label is one of them or missing ({unknown.size} such rows)"
        )
    return found


def _plain(column: Column) -> NDArray[Any]:
    """Numbers as float, truth as bool, text as text unless all of it is numbers."""
    if column.kind == "truth":
        return column.values
    if column.kind == "number":
        return as_numbers(column, "a label")
    if column.kind == "text":
        try:
            return np.array([np.nan if x.lower() in MISSING_WORDS else float(x) for x in map(str, column.values)])
        except ValueError:
            return column.values
    raise ReadingError(f"column {column.name!r} holds values of the kind {column.kind}; a label is a number or a name")


def _comparable(label: Any) -> Any:
    """1, 1.0 and True are one label; text is text."""
    return label if isinstance(label, str) else float(label)


def _value(x: Any) -> Any:
    """A whole number as int."""
    return int(x) if isinstance(x, float) and x.is_integer() else x
