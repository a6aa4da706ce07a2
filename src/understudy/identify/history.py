"""Labelled history: readings, the private parameter beside them, and how that parameter moves.

A `History` is what every fit and every test of a fit is given. Its rows lie on one period. A row that the data lacks is
there with missing readings (NaN), so row k + 1 is always one period after row k. Where time is interrupted a new
`Segment` begins, and nothing is carried over. `identify.resample` makes a history out of a dataframe.

Readings are autocorrelated, so `History.split` and `History.blocks` hold out blocks of time, never single readings.

Labels are the values of the private parameter in order. Counts may be put together in `Bins`, given as edges
(``[0, 1, 3]``), text (``"0,1-2,3+"``) or named groups (``{"away": [0], "at home": [1, 2]}``). A bin is named by what it
holds: "0", "1-2", "3+". If counts take many values and no bins are given, bins are chosen: zero by itself, and the rest
in up to three of about as many rows each.

A `Chain` is the Markov chain of the labels::

    Pr(theta_{k+1} = j given theta_k = i) = (n_ij + 1/m) / (n_i + 1)

n_ij counts changes from i to j between neighbouring rows with known labels, within segments. One transition is added
for each value i, spread over all m values, so no change has probability zero. The probabilities of each hour of the
day are shrunk towards those of the whole day by one hour's worth of rows.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Index, Plain, Value
from understudy.errors import ConfigurationError, ReadingError
from understudy.randomizer.routine import Routine, routine_of
from understudy.tables.columns import Entries, as_text, number, plain
from understudy.tables.table import Table
from understudy.tables.times import Entry, Faults, hours

# Segments and histories ---------------------------------------------------------------------------


ENOUGH = 60
"""Held-out readings of a value that suffice to test its model."""
SHORTEST = 20
"""Rows that a held-out piece must have: fewer say more about the start than about the law."""


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """A block of time without interruption. Its text shows sizes, never a reading or a label.

    >>> Segment("day 1", None, np.array([[400.0], [410.0]]), np.array([0, 1]))
    Segment('day 1', 2 rows, 1 channel, 0 missing, 0 unlabelled)
    """

    name: str
    times: NDArray[np.int64] | None
    """Nanoseconds since 1970 (UTC, or the wall clock where the data named no zone); None without a time column."""
    Y: Array
    """Readings (T, d); NaN is missing."""
    theta: Index
    """Position of each label in `History.values`; -1 is unknown."""
    public: Array | None = None
    """Public inputs (T, q), if there are any."""

    def __post_init__(self) -> None:
        T = len(self.Y)
        if self.Y.ndim != 2 or self.Y.dtype != np.float64:
            raise ConfigurationError(
                f"Y has shape {self.Y.shape} and type {self.Y.dtype}; it must be (T, d) of float64"
            )
        for name in ("times", "theta", "public"):
            part = getattr(self, name)
            if part is not None and len(part) != T:
                raise ConfigurationError(f"{name} has {len(part)} rows and Y has {T}; they must agree")
        object.__setattr__(self, "theta", np.asarray(self.theta, dtype=np.intp))
        for name in ("times", "Y", "theta", "public"):
            object.__setattr__(self, name, _lock(getattr(self, name)))

    def __repr__(self) -> str:
        T, d = self.Y.shape
        return (
            f"Segment({self.name!r}, {text.with_count(T, 'row')}, {text.with_count(d, 'channel')}, "
            f"{int((~self.complete).sum())} missing, {int((self.theta < 0).sum())} unlabelled)"
        )

    def __len__(self) -> int:
        return len(self.Y)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows have a reading in every channel."""
        return np.asarray(~np.isnan(self.Y).any(axis=1))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which rows count in a likelihood: a reading in every channel, and a label."""
        return self.complete & (self.theta >= 0)

    def cut(self, start: int, stop: int) -> Segment:
        """The rows from `start` to `stop`, as a segment of its own."""
        parts = (None if x is None else x[start:stop] for x in (self.times, self.Y, self.theta, self.public))
        return Segment(self.name, *parts)  # type: ignore[arg-type]  # Y and theta are never None


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """Readings, labels and public inputs, in segments. Its text shows counts only.

    >>> y = np.array([[400.0], [410.0], [430.0]])
    >>> history = History(("co2",), "people", None, (), (0, 1), 60.0, (Segment("1", None, y, np.array([0, 1, 1])),), ())
    >>> history
    History(co2 -> people of 2 values, 1 segment, 3 rows of 60 s, 3 used)
    >>> history.counts.tolist()
    [1, 2]
    """

    readings: tuple[str, ...]
    private: str
    time: str | None
    public: tuple[str, ...]
    values: tuple[Value, ...]
    """What the private parameter can be, in order: plain int, float, bool or str; bins are text, "0", "1-2", "3+"."""
    period: float | None
    """Seconds from one row to the next; None without times."""
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]
    """What was done to the data, one plain sentence each."""
    zone: str | None = None
    """The zone of the clock on the wall, such as "Europe/Berlin" or "+08:00"; None where `times` are that clock."""
    bins: Bins | None = None
    """How labels were put together; None where each label is a value."""
    resampled: bool = False
    """Whether rows were put together to rows of a coarser period."""
    day_first: bool = False
    """Whether the dates of the time column begin with the day."""

    def __post_init__(self) -> None:
        for name in ("readings", "public", "values", "segments", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        d, q, m = len(self.readings), len(self.public), len(self.values)
        if not self.segments:
            raise ConfigurationError("segments is empty; a history needs at least one")
        for segment in self.segments:
            if segment.Y.shape[1] != d:
                raise ConfigurationError(
                    f"segment {segment.name!r} has {segment.Y.shape[1]} channels and {d} readings are named"
                )
            if (0 if segment.public is None else segment.public.shape[1]) != q:
                raise ConfigurationError(f"segment {segment.name!r} has not the {q} public inputs that are named")
            if len(segment) and not -1 <= int(segment.theta.min()) <= int(segment.theta.max()) < m:
                raise ConfigurationError(f"segment {segment.name!r} has a label that is not among the {m} values")

    def __repr__(self) -> str:
        period = "" if self.period is None else f" of {self.period:.6g} s"
        sizes = (len(self.values), "value"), (len(self.segments), "segment"), (self.rows, "row")
        values, segments, rows = (text.with_count(*size) for size in sizes)
        used = int(self.counts.sum())
        names = ", ".join(self.readings)
        return f"History({names} -> {self.private} of {values}, {segments}, {rows}{period}, {used} used)"

    @property
    def dim(self) -> int:
        """Number of channels."""
        return len(self.readings)

    @property
    def rows(self) -> int:
        """Number of rows, missing ones included."""
        return sum(len(segment) for segment in self.segments)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with readings and label, for each value."""
        return sum(
            (np.bincount(s.theta[s.used], minlength=len(self.values)) for s in self.segments),
            np.zeros(len(self.values), dtype=np.int64),
        )

    def add_notes(self, notes: Iterable[str]) -> History:
        """The same history with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def stack(self) -> Array:
        """Readings of all segments one below the other: for what does not depend on order."""
        return np.concatenate([s.Y for s in self.segments])

    def split(self, share: float) -> tuple[History, History]:
        """The first part of the time, and the last: `share` of the rows, whole segments where there are many.

        If then a part lacks a value of the private parameter that the history has, or has hardly any of it, pieces
        from all over the time are held out instead.

        >>> segments = [Segment(str(day), None, np.ones((100, 1)), np.zeros(100, dtype=int)) for day in range(8)]
        >>> history = History(("co2",), "people", None, (), (0,), 60.0, segments, ())
        >>> history.split(0.25)[1]
        History(co2 -> people of 1 value, 2 segments, 200 rows of 60 s, 200 used)
        """
        if not 0.0 < share < 1.0:
            raise ConfigurationError(f"share = {share!r}; it must lie between 0 and 1")
        first, last = _ends(self, share)
        seen = self.counts > 0
        # enough to be tested, where the history has so many: a quarter of a fair share
        enough = np.minimum(ENOUGH, np.maximum(seen, self.counts * share / 4.0))

        def lacking(pair: tuple[History, History]) -> tuple[int, ...]:
            absent = tuple(int((seen & (part.counts == 0)).sum()) for part in pair)
            return *absent, int((pair[1].counts < enough).sum())

        if not any(lacking((first, last))):
            return first, last
        return min([(first, last), *self.blocks(max(2, round(1.0 / share)))], key=lacking)

    def blocks(self, k: int = 5) -> list[tuple[History, History]]:
        """Pairs (rest, held out), k of them: each block of time is held out once.

        Where there are at least k segments, whole ones are held out; otherwise segments are cut. If then the rest
        lacks a value of the private parameter that the history has, time is cut finer, and the pieces are dealt out in
        turn.

        >>> segment = Segment("1", None, np.ones((100, 1)), np.repeat([0, 1], 50))
        >>> history = History(("co2",), "people", None, (), (0, 1), 60.0, (segment,), ())
        >>> [(rest.rows, held.rows) for rest, held in history.blocks(4)]
        [(75, 25), (75, 25), (75, 25), (75, 25)]
        """
        if not isinstance(k, int) or k < 2:
            raise ConfigurationError(f"k = {k!r}; it must be a whole number of blocks, at least 2")
        seen = self.counts > 0
        best: list[tuple[History, History]] = []
        lacking = -1
        for finer in (1, 2, 4, 8):
            pieces = _pieces(self, k * finer)
            if len(pieces) < k or (best and min(map(len, pieces)) < SHORTEST):
                break
            pairs = _deal(self, pieces, k, in_turn=finer > 1)
            lacks = sum(int((seen & (rest.counts == 0)).sum()) for rest, _ in pairs)
            if not best or lacks < lacking:
                best, lacking = pairs, lacks
            if not lacking:
                break
        if not best:
            raise ConfigurationError(
                f"the history has {text.with_count(self.rows, 'row')}, too few to hold out {k} blocks of them"
            )
        return best


def _deal(history: History, pieces: list[Segment], k: int, in_turn: bool) -> list[tuple[History, History]]:
    """Pieces to blocks: neighbours together, in blocks of about the same number of rows, or in turn."""
    if in_turn:
        block = np.arange(len(pieces)) % k
    else:
        sizes = np.array([len(piece) for piece in pieces], dtype=float)
        middle = (np.cumsum(sizes) - 0.5 * sizes) / sizes.sum()
        block = np.minimum((middle * k).astype(int), k - 1)
        if np.unique(block).size < k:  # segments of very different lengths
            block = np.arange(len(pieces)) * k // len(pieces)
    held = [[p for p, b in zip(pieces, block, strict=True) if b == at] for at in range(k)]
    rest = [[p for p, b in zip(pieces, block, strict=True) if b != at] for at in range(k)]
    return [
        (replace(history, segments=tuple(others)), replace(history, segments=tuple(own)))
        for others, own in zip(rest, held, strict=True)
    ]


def _ends(history: History, share: float) -> tuple[History, History]:
    """The time cut once: between segments where there are many, otherwise at the row."""
    segments = [segment for segment in history.segments if len(segment)]
    ends = np.cumsum([len(segment) for segment in segments])
    if ends[-1] < 2:
        raise ConfigurationError(f"the history has {text.with_count(history.rows, 'row')}; nothing can be held out")
    row = min(max(round((1.0 - share) * float(ends[-1])), 1), int(ends[-1]) - 1)
    if len(segments) * min(share, 1.0 - share) >= 2.0:
        row = int(ends[np.abs(ends[:-1] - row).argmin()])
    which = int(np.searchsorted(ends, row))
    inside = row - (int(ends[which]) - len(segments[which]))
    before, after = segments[which].cut(0, inside), segments[which].cut(inside, len(segments[which]))
    first, last = (*segments[:which], before), [after, *segments[which + 1 :]]
    return (
        replace(history, segments=first),
        replace(history, segments=tuple(segment for segment in last if len(segment))),
    )


def _pieces(history: History, k: int) -> list[Segment]:
    """Whole segments where there are at least k, otherwise about k blocks of them, in their order."""
    segments = [segment for segment in history.segments if len(segment)]
    if len(segments) >= k:
        return segments
    rows = sum(map(len, segments))
    found = []
    for segment in segments:
        cuts = min(math.ceil(k * len(segment) / rows), len(segment))
        edges = np.linspace(0, len(segment), cuts + 1).round().astype(int).tolist()
        found += [segment.cut(start, stop) for start, stop in pairwise(edges)]
    return found


def _lock(array: NDArray[np.generic] | None) -> NDArray[np.generic] | None:
    if array is None:
        return None
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


# Labels and bins ----------------------------------------------------------------------------------


MOST_VALUES = 10
"""More values of a count than this are put together in bins unless the user says otherwise."""
MOST_NAMES = 50

_RANGE = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)|(\+))?\s*")

Label: TypeAlias = str | float
"""A label as data has it: a name, or a number; a truth value counts as one."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Names of bins and what each holds: numbers from `low` to `high`, both included, or the labels of a group.

    >>> bins = bins_from("0,1-2,3+")
    >>> bins.names, [bins.place(count) for count in (0, 1, 2, 5)]
    (('0', '1-2', '3+'), [0, 1, 1, 2])
    >>> bins_from([0, 1, 3]) == bins
    True
    """

    names: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    groups: tuple[tuple[Label, ...], ...] = ()

    def place(self, *labels: Label) -> int:
        """The bin that holds the first of these labels that is in one; -1 if none is."""
        for label in map(_comparable, labels):
            for k, group in enumerate(self.groups):
                if label in map(_comparable, group):
                    return k
            if not self.groups and not isinstance(label, str):
                for k, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
                    if low <= label <= high:
                        return k
        return -1

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        if self.groups:
            return {"names": list(self.names), "groups": [list(group) for group in self.groups]}
        ends = [[None if np.isinf(x) else x for x in side] for side in (self.low, self.high)]
        return {"names": list(self.names), "low": ends[0], "high": ends[1]}

    @staticmethod
    def from_plain(plain: Plain) -> Bins:
        """The bins that `to_plain` was given."""
        names = tuple(plain["names"])
        if "groups" in plain:
            return Bins(names, groups=tuple(tuple(group) for group in plain["groups"]))
        low = tuple(-np.inf if x is None else float(x) for x in plain["low"])
        return Bins(names, low, tuple(np.inf if x is None else float(x) for x in plain["high"]))


BinsLike: TypeAlias = Bins | str | Mapping[str, Label | Collection[Label]] | ArrayLike
"""Bins, or what they are made from: text, named groups or edges."""


@dataclass(frozen=True, slots=True, repr=False)
class Labels:
    """The values, in order, and the position of each row's label among them; -1 is unknown."""

    values: tuple[Value, ...]
    positions: Index
    bins: Bins | None
    notes: tuple[str, ...]


def bins_from(given: BinsLike) -> Bins:
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


def _from_edges(given: ArrayLike) -> Bins:
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


def suggest_bins(counts: Array) -> Bins:
    """Bins for counts: zero (or the smallest) by itself, the rest in up to three of about as many rows each.

    >>> suggest_bins(np.repeat([0, 1, 2, 3, 4, 5, 6], [70, 10, 10, 10, 10, 10, 10])).names
    ('0', '1-2', '3-4', '5+')
    """
    first = float(counts.min())
    rest = np.sort(counts[counts > first])
    cuts = np.unique(rest[[rest.size * k // 3 for k in range(3)]])
    return _from_edges(np.concatenate([[first], cuts]))


def as_labels(table: Table, name: str, bins: BinsLike | None = None, values: Sequence[Value] | None = None) -> Labels:
    """The labels of a column, in bins if they are given or needed; `values` are those that are known, if they are.

    >>> found = as_labels(Table({"people": [0, 2, None, 1]}), "people")
    >>> found.values, found.positions.tolist()
    ((0, 1, 2), [0, 2, -1, 1])
    """
    entries = table.entries(name, "private")
    missing = np.array([entry is None for entry in entries.distinct], dtype=bool)[entries.codes]
    if missing.all():
        raise ReadingError(f"column {name!r} has no label in any row; at least two different ones are needed")
    notes = text.Notes()
    notes.tally("rows without a label", int(missing.sum()), name=name)
    fault, rule = "has a label that is none of the known values", "each label is one of the known values or missing"
    made = None
    if values is None:
        labels = _parse_labels(table, name, entries)
        distinct = sorted({label for label in labels if label is not None})
        numeric = all(isinstance(label, float) for label in distinct)
        automatic = isinstance(bins, str) and bins == "auto"
        if numeric and (automatic or (bins is None and len(distinct) > MOST_VALUES)):
            bins = suggest_bins(np.array([labels[code] for code in entries.codes[~missing]], dtype=float))
            words = ", ".join(bins.names)
            notes.add("bins", name=name, values=len(distinct), bins=words, given=words.replace(" ", ""))
        elif automatic:
            bins = None
        values = tuple(int(x) if isinstance(x, float) and x.is_integer() else x for x in distinct)
        if bins is not None:
            made = bins_from(bins)
            if not (numeric or made.groups):
                raise ConfigurationError(f"bins are of numbers and {name!r} holds other labels; give named groups")
            values, fault = made.names, "is in none of the bins"
            rule = f"each label must be in one of {', '.join(made.names)}"
        elif len(distinct) > MOST_NAMES:
            raise ConfigurationError(
                f"{name!r} takes {len(distinct)} values; a label takes at most {MOST_NAMES}: put them in bins, "
                "if this is the private column"
            )
    elif bins is not None:
        made = bins_from(bins)
    positions = known_positions(entries, values, made)
    table.refuse(name, dict.fromkeys(np.flatnonzero(positions == UNKNOWN).tolist(), fault), rule)
    return Labels(tuple(values), positions, made, tuple(notes))


def _parse_labels(table: Table, name: str, entries: Entries) -> list[Any]:
    """Each different label: all are truth values, or all are numbers, or all are names; None is missing."""
    there = [entry for entry in entries.distinct if entry is not None]
    for k, entry in enumerate(entries.distinct):
        faults: Faults = {}
        if isinstance(entry, (list, dict, bytes)):
            faults = dict.fromkeys(np.flatnonzero(entries.codes == k).tolist(), "is no label")
        elif number(entry) in (math.inf, -math.inf):
            faults = dict.fromkeys(np.flatnonzero(entries.codes == k).tolist(), "is infinite")
        table.refuse(name, faults, "a label is a finite number, a name or a truth value")
    read: Callable[[Entry], Value] = as_text
    if all(_truth(entry) is not None for entry in there):
        read = _truth
    elif all(number(entry) is not None for entry in there):
        read = number
    return [None if entry is None else read(entry) for entry in entries.distinct]


def _truth(entry: Entry) -> bool | None:
    """A truth value, or the word for one."""
    if isinstance(entry, str):
        return {"true": True, "false": False}.get(entry.lower())
    return entry if isinstance(entry, bool) else None


UNKNOWN = -2
"""The position of a label that is none of the known values; -1 is that of a missing one."""


def known_positions(entries: Entries, values: Sequence[Value], bins: Bins | None = None) -> Index:
    """The place of each label among known values, through the bins they were made with.

    A table says 1, "1", 1.0 or true; a family has a value 1, 1.0, "1" or a bin "1-2". What is in a bin is that bin; two
    are the same if they are equal as texts, or equal as numbers. Anything else is no known value.

    >>> labels = Table({"people": ["0", 5, 1.0, None, "many", True]}).entries("people")
    >>> known_positions(labels, ("0", "1-2", "3+"), bins_from("0,1-2,3+")).tolist()
    [0, 2, 1, -1, -2, 1]
    """
    exact: dict[str, int] = {}
    numeric: dict[float, int] = {}
    for k, value in enumerate(values):
        exact.setdefault(value if isinstance(value, str) else repr(value), k)
        amount = _amount(value)
        if amount is not None:
            numeric.setdefault(amount, k)

    def position(label: Entry) -> int:
        if label is None:
            return -1
        amount, word = _amount(label), as_text(label) if isinstance(label, (str, dt.date)) else repr(label)
        place = -1 if bins is None else bins.place(word, *(() if amount is None else (amount,)))
        if bins is not None and place >= 0:
            return exact.get(bins.names[place], UNKNOWN)
        if word in exact:
            return exact[word]
        if plain(label) is None:
            return -1
        return UNKNOWN if amount is None or bins is not None else numeric.get(amount, UNKNOWN)

    return np.array([position(label) for label in entries.words], dtype=np.intp)[entries.codes]


def _amount(value: Entry | Value) -> float | None:
    """A label or a value as a finite number; true is 1."""
    if isinstance(value, (str, bool)) and _truth(value) is not None:
        return float(bool(_truth(value)))
    amount = number(plain(value)) if isinstance(value, (str, int, float, np.generic)) else None
    return amount if amount is not None and math.isfinite(amount) else None


def _comparable(label: Label) -> Label:
    """1, 1.0 and True are one label; text is text."""
    return label if isinstance(label, str) else float(label)


# The Markov chain of the labels -------------------------------------------------------------------


_HOURS = 24
_ARRAYS = ("transition", "prior", "by_hour", "transition_by_hour", "stationary", "durations")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Chain:
    """The chain of the private parameter, at one period. Its text shows sizes only.

    >>> from understudy.identify.history import History, Segment
    >>> segment = Segment("1", None, np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 0]))
    >>> chain = chain_of(History(("co2",), "people", None, (), (0, 1), 60.0, (segment,), ()))
    >>> chain
    Chain(2 values, 1 min, 5 transitions)
    >>> chain.transition.round(3).tolist()
    [[0.625, 0.375], [0.5, 0.5]]
    """

    values: tuple[Value, ...]
    period: float | None
    transition: Array
    """(m, m), rows sum to one: from one row of the data to the next."""
    prior: Array
    """Share of each value among the labels."""
    transitions: int
    """How many pairs of neighbouring labels there were."""
    by_hour: Array | None = None
    """(24, m): share of each value at each hour of the day; None without times."""
    transition_by_hour: Array | None = None
    """(24, m, m): the transition into a row of each hour of the day; None without times."""
    zone: str | None = None
    routine: Routine | None = None
    """By time of day and kind of day; None without times."""

    def __post_init__(self) -> None:
        for name in ("transition", "prior", "by_hour", "transition_by_hour"):
            array = getattr(self, name)
            object.__setattr__(self, name, None if array is None else _lock(np.array(array, dtype=float)))

    def __repr__(self) -> str:
        period = "" if self.period is None else f"{text.span(self.period)}, "
        return f"Chain({len(self.values)} values, {period}{self.transitions} transitions)"

    @property
    def stationary(self) -> Array:
        """The law that the transitions lead to; it differs from `prior` where the data are short."""
        m = len(self.values)
        # pi (P - I) = 0 and sum(pi) = 1
        system = np.vstack([self.transition.T - np.eye(m), np.ones(m)])
        found = np.linalg.lstsq(system, np.concatenate([np.zeros(m), [1.0]]), rcond=None)[0]
        found = np.maximum(found, 0.0)
        return np.asarray(found / found.sum(), dtype=float)

    @property
    def durations(self) -> Array:
        """Expected time in each value before it changes: in seconds, or in rows without a period."""
        stay = np.minimum(np.diag(self.transition), 1.0 - 1e-15)
        return np.asarray((self.period or 1.0) / (1.0 - stay), dtype=float)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it, for people too: with the stationary law and the durations."""
        from understudy.serialize import value_to_plain

        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return {
            "values": [value_to_plain(value) for value in self.values],
            "period": self.period,
            "transitions": self.transitions,
            "zone": self.zone,
            **{name: None if array is None else array.tolist() for name, array in arrays.items()},
            **({} if self.routine is None else {"routine": self.routine.to_plain()}),
        }


def chain_of(history: History) -> Chain:
    """The chain of a history's labels."""
    m = len(history.values)
    labels = [segment.theta for segment in history.segments]
    totals = np.bincount(np.concatenate([theta[theta >= 0] for theta in labels]), minlength=m).astype(float)
    if not totals.sum():
        raise ConfigurationError("no row has a label; the chain of the private parameter cannot be estimated")
    counts = np.zeros((m, m))
    for theta in labels:
        counts += _changes(theta, m)
    transition = (counts + 1.0 / m) / (counts.sum(axis=1, keepdims=True) + 1.0)
    prior = totals / totals.sum()
    by_hour = transition_by_hour = routine = None
    if all(segment.times is not None for segment in history.segments):
        by_hour, transition_by_hour = _hourly(history, prior, transition)
        routine = routine_of(history.segments, m, history.zone)
    return Chain(
        history.values, history.period, transition, prior, int(counts.sum()), by_hour, transition_by_hour,
        history.zone, routine,
    )  # fmt: skip


def _changes(theta: Index, m: int) -> Array:
    before, after = theta[:-1], theta[1:]
    known = (before >= 0) & (after >= 0)
    return np.bincount(before[known] * m + after[known], minlength=m * m).reshape(m, m).astype(float)


def _hourly(history: History, prior: Array, transition: Array) -> tuple[Array, Array]:
    m = len(history.values)
    shares, changes = np.zeros((_HOURS, m)), np.zeros((_HOURS, m, m))
    for segment in history.segments:
        theta = segment.theta
        hour = hours(segment.times, history.zone)  # type: ignore[arg-type]  # the caller looked
        known = theta >= 0
        np.add.at(shares, (hour[known], theta[known]), 1.0)
        pair = known[1:] & known[:-1]
        np.add.at(changes, (hour[1:][pair], theta[:-1][pair], theta[1:][pair]), 1.0)
    worth = max(1.0, 3600.0 / (history.period or 3600.0))
    by_hour = (shares + worth * prior) / (shares.sum(axis=1, keepdims=True) + worth)
    moved = (changes + worth * transition) / (changes.sum(axis=2, keepdims=True) + worth)
    return by_hour, moved
