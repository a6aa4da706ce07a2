"""What a learner looks at: a table of features, one row for each guess.

Where theta moves there is a row for each reading. Its features come from windows around it and before it, of several
lengths: levels, differences, means, variances, slopes, extremes, and what differences of two channels have in common.
Where theta is constant there is a row for each sequence (`sequence_features`). The clock is among the features if the
cases have one.

What the features need to know beforehand, lengths of windows and scales, is settled once on the cases that are learned
from (`recipe_for`), and used again on those that are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.learners.rolling import (
    Running,
    Window,
    centred,
    count,
    extremes,
    mean,
    ratio,
    running,
    shifted,
    slope,
    trailing,
    variance,
)  # fmt: skip
from understudy.laws.base import Array

_LONGEST = 241  # readings: longer windows tell what the clock tells
_WINDOWS = 4
_TINY = 1e-4  # of a typical variance: what is added before a logarithm is taken
_PAIRS = 10  # of channels; with more, neighbours only


class Features(NamedTuple):
    """A table: one row for each guess, one named column for each feature. NaN where there is nothing to tell."""

    values: Array
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recipe:
    """How features are made: settled on what is learned from."""

    once: bool
    length: int
    """Readings in a sequence that was learned from."""
    windows: tuple[int, ...]
    clock: bool
    weekdays: bool
    gaps: bool
    """Whether readings were missing."""
    centre: Array
    """A typical reading of each channel, (d,)."""
    spread: Array
    """A typical variance of the readings, (d,)."""
    step: Array
    """A typical square of a difference, (d,)."""
    edges: Array
    """Levels between which time is counted, (d, bins - 1)."""

    def __repr__(self) -> str:
        what = "sequence" if self.once else "reading"
        return f"Recipe(a row for each {what}, {len(self.centre)} channels, windows {self.windows})"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which channels are compared."""
        d = len(self.centre)
        every = tuple((i, j) for i in range(d) for j in range(i + 1, d))
        return every if len(every) <= _PAIRS else tuple((i, i + 1) for i in range(d - 1))


def lengths(T: int) -> tuple[int, ...]:
    """Lengths of windows for sequences of T readings: odd, from a few readings to a quarter of the time.

    >>> lengths(8000), lengths(50), lengths(1)
    ((5, 19, 67, 241), (5, 9, 13), (1,))
    """
    if T < 3:
        return (1,)
    longest = min(max(T // 4, 3), _LONGEST)
    ideal = np.geomspace(min(5, max(longest // 3, 3)), longest, _WINDOWS)
    return tuple(sorted({2 * round((length - 1.0) / 2.0) + 1 for length in ideal.tolist()}))


def recipe_for(cases: Cases) -> Recipe:
    """The recipe for cases that are learned from.

    >>> from understudy.adversaries.cases import Cases
    >>> labels = np.zeros((100, 2), dtype=np.int64)
    >>> recipe_for(Cases(np.zeros((100, 3, 2)), labels, labels, m=2, once=False))
    Recipe(a row for each reading, 3 channels, windows (5, 9, 15, 25))
    """
    Y = cases.outputs
    T, d, _ = Y.shape
    some = Y[:, :, : max(1, 2_000_000 // max(T * d, 1))]
    centre, spread, step = np.zeros(d), np.ones(d), np.ones(d)
    edges = np.zeros((d, 9))
    for c in range(d):
        x = some[:, c]
        squares = np.diff(x, axis=0).ravel() ** 2
        x, squares = x[~np.isnan(x)], squares[~np.isnan(squares)]
        if x.size:
            centre[c] = np.median(x)
            spread[c] = _positive(np.quantile(np.abs(x - centre[c]), 0.8) ** 2)
            edges[c] = np.quantile(x, np.linspace(0.1, 0.9, 9))
        if squares.size:
            step[c] = _positive(np.quantile(squares, 0.9))
    # padding at the end of a sequence is no gap
    there = np.asarray(~np.isnan(Y).all(axis=1))
    after = np.logical_or.accumulate(there[::-1], axis=0)[::-1]
    gone = bool((after & ~there).any())
    return Recipe(
        cases.once, T, lengths(T), cases.hours is not None, cases.days is not None and cases.hours is not None,
        gone, centre, spread, step, edges,
    )  # fmt: skip


def features(cases: Cases, recipe: Recipe) -> Features:
    """The table of features: rows in the order of ``labels.ravel()``, or one for each sequence if theta is constant."""
    if recipe.once:
        from understudy.adversaries.learners.sequence_features import sequence_features

        return sequence_features(cases, recipe)
    found = _Columns()
    T, d, N = cases.outputs.shape
    changes = []
    for c in range(d):
        x = cases.outputs[:, c] - recipe.centre[c]
        change = x - shifted(x, 1)
        changes.append(change)
        _levels(found, f"y{c}", x, recipe, c)
        _spreads(found, f"y{c}", change, recipe, c)
    for i, j in recipe.pairs:
        _together(found, f"y{i} y{j}", changes[i], changes[j], recipe.step[[i, j]], recipe.windows)
    if recipe.gaps:
        there = running(np.where(np.isnan(cases.outputs).all(axis=1), np.nan, 1.0))
        for w in recipe.windows:
            found.add(f"readings there, {w}", count(there, centred(w)))
    if recipe.clock:
        clock_columns(found.add, cases.hours, cases.days if recipe.weekdays else None, recipe.weekdays, (T, N))
    return found.table(T * N)


def clock_columns(
    add: Callable[[str, Array], None],
    hours: Array | None,
    days: NDArray[np.int64] | None,
    weekdays: bool,
    shape: tuple[int, ...],
) -> None:
    """Sine and cosine of the hour, the hour, and whether it is a weekend."""
    hour = np.full(shape, np.nan) if hours is None else np.asarray(hours, dtype=float)
    turn = 2.0 * np.pi * hour / 24.0
    add("clock sine", np.sin(turn))
    add("clock cosine", np.cos(turn))
    add("clock hour", hour)
    if weekdays:
        day = np.full(shape, -1.0) if days is None else np.asarray(days, dtype=float)
        add("clock weekend", np.where(day < 0.0, np.nan, (day >= 5.0).astype(float)))


def _levels(found: _Columns, name: str, x: Array, recipe: Recipe, c: int) -> None:
    """Level, differences, means, slopes, spread of the level, extremes."""
    found.add(f"{name} level", x)
    for lag in dict.fromkeys((1, *(max(w // 2, 1) for w in recipe.windows))):
        found.add(f"{name} difference, {lag} back", x - shifted(x, lag))
        found.add(f"{name} difference, {lag} ahead", shifted(x, -lag) - x)
    run, squares = running(x), running(x * x)
    floor = _TINY * recipe.spread[c]
    for w in recipe.windows:
        found.add(f"{name} mean around, {w}", mean(run, centred(w)))
        found.add(f"{name} mean before, {w}", mean(run, trailing(w)))
        if w < 3:
            continue
        found.add(f"{name} slope, {w}", slope(x, w))
        found.add(f"{name} log variance, {w}", np.log(variance(run, squares, centred(w)) + floor))
        low, high = extremes(x, w)
        found.add(f"{name} above the least, {w}", x - low)
        found.add(f"{name} below the greatest, {w}", high - x)


def _spreads(found: _Columns, name: str, change: Array, recipe: Recipe, c: int) -> None:
    """How much the readings change from one to the next."""
    run, squares = running(change), running(change * change)
    still = running(np.where(np.isnan(change), np.nan, (change == 0.0).astype(float)))
    floor = _TINY * recipe.step[c]
    for w in recipe.windows:
        if w < 3:
            continue
        around = variance(run, squares, centred(w))
        found.add(f"{name} deviation of differences around, {w}", np.sqrt(around))
        found.add(f"{name} log variance of differences around, {w}", np.log(around + floor))
        before = variance(run, squares, trailing(w))
        found.add(f"{name} log variance of differences before, {w}", np.log(before + floor))
        found.add(f"{name} share unchanged, {w}", mean(still, centred(w)))


def _together(found: _Columns, name: str, a: Array, b: Array, step: Array, windows: tuple[int, ...]) -> None:
    """Mean product and correlation of the differences of two channels."""
    gone = np.isnan(a) | np.isnan(b)
    a, b = np.where(gone, np.nan, a) / np.sqrt(step[0]), np.where(gone, np.nan, b) / np.sqrt(step[1])
    product, aa, bb = running(a * b), running(a * a), running(b * b)
    found.add(f"{name} product of differences", a * b)
    for w in windows:
        if w < 3:
            continue
        found.add(f"{name} mean product of differences, {w}", mean(product, centred(w)))
        found.add(f"{name} correlation of differences, {w}", correlation(product, aa, bb, centred(w)))


def correlation(product: Running, aa: Running, bb: Running, window: Window) -> Array:
    """Correlation about zero of two series in units of their typical changes, drawn to zero where both are still."""
    scale = np.sqrt((mean(aa, window) + _TINY) * (mean(bb, window) + _TINY))
    return ratio(mean(product, window), np.where(np.isnan(scale), 0.0, scale))


class _Columns:
    """Columns as they come."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.columns: list[Array] = []

    def add(self, name: str, column: Array) -> None:
        self.names.append(name)
        self.columns.append(column)

    def table(self, rows: int) -> Features:
        values = np.empty((rows, len(self.columns)), order="F")
        for f, column in enumerate(self.columns):
            values[:, f] = column.ravel()
        return Features(values, tuple(self.names))


def _positive(value: float) -> float:
    return float(value) if value > 1e-24 else 1e-12
