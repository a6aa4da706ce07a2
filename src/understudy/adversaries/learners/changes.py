"""Change detection: where the output changes its level, its trend or its spread, and what that has to do with theta.

A disguise that follows theta betrays it by the *times* of its changes, even if what it plays at any time says nothing.
At each reading the window after it is compared with the window before it, for three things: the mean of the readings,
the mean of their differences, and the logarithm of the variance of the differences (for normals these are, sign and
all, what the likelihood ratio of "something changes here" depends on). In units of its own typical size, a statistic
that is greatest in its neighbourhood and beyond a threshold marks a change, upwards or downwards.

What is learned is a table: how often each value goes with which last change, how long ago, and which next change, how
soon. One table for each channel and each of the three; their evidence is added, and a power makes up for what they
have in common. Where theta is constant in a sequence, the numbers of changes up and down take the place of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.learners.features import Recipe, lengths, recipe_for
from understudy.adversaries.learners.rolling import Window, count, leading, mean, running, shifted, variance
from understudy.adversaries.learners.weighing import Mask, Weighed, weighed
from understudy.laws.base import Array
from understudy._types import Ints as Index

_THRESHOLDS = (3.5, 2.0)  # typical sizes
_TIMES = (1.0, 3.0, 8.0)  # windows: a change is just now, recent, some time ago, long ago
_STATES = 1 + 2 * (len(_TIMES) + 1)  # no change, or up or down with a time
_MOST = 3  # changes are counted up to this many, where theta is constant
_SHRINKAGE = 0.05  # share of a table that the pooled one counts for
_FEWEST = 6  # readings
_MOST_SEQUENCES = 10_000
_TINY = 1e-4



class Detector(NamedTuple):
    """What marks changes: windows of a length, and a threshold for each kind and channel, (3 d,)."""

    recipe: Recipe
    window: int
    thresholds: Array


class Marks(NamedTuple):
    """Where changes are: +1 up, -1 down, 0 none, for each kind and channel: (3 d, T, N)."""

    signs: NDArray[np.int8]
    window: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Change detection, and a table of how theta goes with changes.

    >>> theta = np.zeros((600, 1), dtype=np.int64); theta[100:150] = theta[300:350] = theta[450:500] = 1
    >>> outputs = np.cumsum(theta - 0.1, axis=0)[:, None] + np.random.default_rng(1).normal(size=(600, 1, 1))
    >>> cases = Cases(outputs, theta, np.arange(600)[:, None] // 50, m=2, once=False)
    >>> attack = Changes().learn(cases, None, None)
    >>> bool((attack.logits(cases).argmax(axis=0) == theta).mean() > 0.9)
    True
    """

    name: str = "change detection"

    def objection(self, cases: Cases, known: Known) -> str:
        """It needs sequences that have a before and an after."""
        return "" if cases.T >= _FEWEST else f"sequences of {cases.T} readings are too short for changes in them"

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> Weighed:
        """Mark changes with windows of several lengths, learn the tables, and take the best."""
        if cases.once and cases.N > _MOST_SEQUENCES:
            cases = cases.sequences(np.sort(rng.permutation(cases.N)[:_MOST_SEQUENCES]))
        recipe = recipe_for(cases)
        candidates = []
        for w in _lengths(cases.T):
            scales = _scales(_statistics(cases.outputs, recipe, w))
            for threshold in _THRESHOLDS:
                detector = Detector(recipe, w, threshold * scales)
                candidates.append(partial(_read, cases, _states(cases, marked(cases.outputs, detector)), detector))
        return weighed(candidates, cases, lengths(cases.T)[-1] // 2)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Tables:
    detector: Detector
    logs: Array
    """(tables, states, m)."""

    def evidence(self, cases: Cases) -> Array:
        states = _states(cases, marked(cases.outputs, self.detector))
        found = sum(table[state] for table, state in zip(self.logs, states, strict=True))
        return np.moveaxis(np.asarray(found), -1, 0)


def marked(outputs: Array, detector: Detector) -> Marks:
    """The changes in outputs (T, d, N): statistics beyond their threshold that are greatest within half a window."""
    from scipy.ndimage import maximum_filter1d

    window, thresholds = detector.window, detector.thresholds
    signs = np.zeros((len(thresholds), outputs.shape[0], outputs.shape[2]), dtype=np.int8)
    for at, statistic in enumerate(_statistics(outputs, detector.recipe, window)):
        z = np.where(np.isnan(statistic), 0.0, statistic) / thresholds[at]
        size = np.abs(z)
        top = maximum_filter1d(size, window | 1, axis=0, mode="constant", cval=0.0)
        peak = (size >= 1.0) & (size == top)
        signs[at] = np.where(peak, np.sign(z), 0.0).astype(np.int8)
    return Marks(signs, window)


def _statistics(outputs: Array, recipe: Recipe, w: int) -> list[Array]:
    """For each channel: jump of the mean, of the mean difference, and of the log variance of differences, (T, N)."""
    found = []
    for c in range(outputs.shape[1]):
        x = outputs[:, c] - recipe.centre[c]
        change = x - shifted(x, 1)
        after, before = leading(w), Window(w, -1)
        levels, run, squares = running(x), running(change), running(change * change)
        floor = _TINY * recipe.step[c]
        # the difference into the first reading of the window belongs to neither side
        later, earlier = Window(-1, w), before
        # with few readings on a side everything looks like a change
        few = np.minimum(count(levels, after), count(levels, before)) < max(w // 2, 1)
        jump = mean(levels, after) - mean(levels, before)
        trend = mean(run, later) - mean(run, earlier)
        spread = [np.log(variance(run, squares, side) + floor) for side in (later, earlier)]
        found += [np.where(few, np.nan, each) for each in (jump, trend, spread[0] - spread[1])]
    return found


def _scales(statistics: list[Array]) -> Array:
    """The typical size of each statistic: 1.48 times the median of its absolute value."""
    scales = []
    for statistic in statistics:
        size = np.abs(statistic[~np.isnan(statistic)])
        typical = float(np.median(size)) if size.size else 0.0
        # more than half of them 0: a sensor that holds its value
        typical = typical if typical > 0.0 else float(size.mean()) if size.size and size.any() else 1.0
        scales.append(1.4826 * typical)
    return np.array(scales)


def _states(cases: Cases, marks: Marks) -> list[Index]:
    """The row of each guess in each table."""
    if cases.once:
        ups, downs = ((marks.signs == sign).sum(axis=1) for sign in (1, -1))
        return list(np.minimum(ups, _MOST) * (_MOST + 1) + np.minimum(downs, _MOST))
    return [_since(signs, marks.window) * _STATES + _since(signs[::-1], marks.window)[::-1] for signs in marks.signs]


def _since(signs: NDArray[np.int8], window: int) -> Index:
    """The last change and how long ago it was, as one number: 0 is none."""
    T = len(signs)
    place = np.arange(T)[:, None]
    last = np.maximum.accumulate(np.where(signs != 0, place, -1), axis=0)
    up = np.take_along_axis(signs, np.maximum(last, 0), axis=0) > 0
    long = np.searchsorted(np.array(_TIMES) * window, place - last)
    return np.asarray(np.where(last < 0, 0, 1 + long + up * (len(_TIMES) + 1)), dtype=np.int64)


def _read(cases: Cases, states: list[Index], detector: Detector, where: Mask) -> _Tables:
    """Learn the tables: the log of how much more often a state goes with a value than at all."""
    truth, m = cases.truth[where], cases.m
    rows = (_MOST + 1) ** 2 if cases.once else _STATES**2
    logs = np.zeros((len(states), rows, m))
    counts = np.bincount(truth, minlength=m)
    seen = counts > 0
    if not seen.any():
        return _Tables(detector, logs)
    for table, state in zip(logs, states, strict=True):
        joint = np.bincount(state[where] * m + truth, minlength=rows * m).reshape(rows, m)
        share = joint[:, seen] / counts[seen]
        pooled = share.mean(axis=1, keepdims=True)  # every value counts alike
        found = (share + _SHRINKAGE * pooled) / (1.0 + _SHRINKAGE)
        table[:, seen] = np.log(np.divide(found, pooled, out=np.ones_like(found), where=pooled > 0.0))
    return _Tables(detector, logs)


def _lengths(T: int) -> tuple[int, ...]:
    """Windows, each of which fits twice."""
    return tuple(w for w in lengths(T) if 2 * w < T) or (max(T // 3, 1),)
