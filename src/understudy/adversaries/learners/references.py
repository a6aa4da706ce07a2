"""The two references that do not look at the output: what is known beforehand, and what the clock tells.

A gain over the prior means little where people keep office hours: an adversary who knows the time of day knows when
the room is taken. What an output gives away is what is gained over that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Ints, Mask
from understudy.adversaries.knowledge import FLOOR, Cases, Knowledge, normalise

_CELLS = (24, 48, 96)  # of a day
_SHRINKAGE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0)  # visits that the prior counts for
_VISITS = 2  # weekends are told apart from such a number of them on


def prior_of(cases: Cases) -> Array:
    """Shares of the values among the labels, (m,); equal shares if there are none.

    >>> labels = np.array([[0, 1], [0, -1]])
    >>> prior_of(Cases(np.zeros((2, 1, 2)), labels, labels, m=2, once=False)).round(3).tolist()
    [0.667, 0.333]
    """
    counts = cases.counts
    shares = counts / counts.sum() if counts.any() else np.full(cases.m, 1.0 / cases.m)
    shares = np.maximum(shares, FLOOR)
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FixedProbabilities:
    """Log-probabilities that do not depend on the output: those of a table of hours, or the same everywhere."""

    prior: Array
    table: ClockTable | None = None

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        shape = cases.truth.shape
        logs = np.broadcast_to(np.log(self.prior).reshape(-1, *(1,) * len(shape)), (len(self.prior), *shape))
        return normalise(logs + self.table.evidence(cases) if self.table is not None else logs)


@dataclass(frozen=True, slots=True)
class Blind:
    """Who sees nothing: the shares of the values among the labels."""

    name: str = "blind"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There is none."""
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> FixedProbabilities:
        """Count the labels."""
        return FixedProbabilities(prior_of(cases))


@dataclass(frozen=True, slots=True)
class Clock:
    """Who sees the clock alone: shares of the values by time of day, and on weekends apart where these were seen."""

    name: str = "time of day"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """It needs a clock."""
        return "" if cases.hours is not None else "there is no public clock"

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> FixedProbabilities:
        """Count the labels by time of day."""
        return FixedProbabilities(prior_of(cases), clock_table(cases))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClockTable:
    """Log of the share of each value in a cell of the clock over its share at all times.

    `logs` is (m, cells + 1), or (m, 2 cells + 1) with weekends apart; the last column, of unknown times, is 0.
    """

    logs: Array
    cells: int
    """Of a day."""

    def __repr__(self) -> str:
        return f"ClockTable({self.cells} cells a day, {'weekends apart' if self._apart else 'all days alike'})"

    @property
    def _apart(self) -> bool:
        return bool(self.logs.shape[1] > self.cells + 1)

    def cell(self, cases: Cases) -> Ints:
        """The column of each reading, (T, N)."""
        unknown = self.logs.shape[1] - 1
        if cases.hours is None:
            return np.full((cases.T, cases.N), unknown)
        cell = _cells(cases.hours, self.cells)
        weekend = 0 if not self._apart or cases.days is None else self.cells * (cases.days >= 5)
        return np.asarray(np.where(cell >= 0, cell + weekend, unknown))

    def evidence(self, cases: Cases) -> Array:
        """What the clock tells for each value, in the shape (m, ...) of the guesses; 0 where the hour is not known."""
        cell = self.cell(cases)
        return self.logs[:, cell[0] if cases.once else cell]


def clock_table(cases: Cases, where: Mask | None = None) -> ClockTable | None:
    """The table of hours, learned where `where` says; None without a clock or labels.

    Times of day are cells of 60, 30 or 15 minutes. What counts is how often a cell was *visited*: its readings on one
    day are one visit. Shares are drawn to the prior, which counts for some visits. Length of the cells, the number of
    visits that the prior counts for, and whether weekends are apart, are those that foretell a visit best from the
    others.
    """
    judged = cases.truth >= 0 if where is None else where & (cases.truth >= 0)
    if cases.hours is None or not judged.any():
        return None
    hours = cases.hours[0] if cases.once else cases.hours
    judged = judged & ~np.isnan(hours)
    if not judged.any():
        return None
    labels, days = cases.truth[judged], cases.dates[judged]
    weekend = None
    if cases.days is not None:
        weekend = ((cases.days[0] if cases.once else cases.days)[judged] >= 5).astype(np.int64)
        seen = [len(np.unique(days[weekend == kind])) for kind in (0, 1)]
        weekend = weekend if min(seen) >= _VISITS else None
    prior = np.bincount(labels, minlength=cases.m) / len(labels)
    prior = np.maximum(prior, FLOOR) / np.maximum(prior, FLOOR).sum()
    best = max(
        (
            found
            for cells in _CELLS
            for kinds in ((None, weekend) if weekend is not None else (None,))
            for found in _tables(_visits(_cells(hours[judged], cells), kinds, cells, days, labels, cases.m), prior)
        ),
        key=lambda found: found.score,
    )
    logs = np.log(np.maximum(best.shares, FLOOR)) - np.log(prior)[:, None]
    return ClockTable(np.append(logs, np.zeros((cases.m, 1)), axis=1), best.cells)


class _Found(NamedTuple):
    score: float
    shares: Array
    cells: int  # of a day


class _Visits(NamedTuple):
    cell: Ints  # (V,)
    shares: Array  # (V, m): of the values among the readings of the visit
    weight: Array  # (V,): its readings
    cells: int
    day: int  # cells of a day


def _visits(
    cell: Ints, kind: Ints | None, cells: int, days: Ints,
    labels: Ints, m: int,
) -> _Visits:  # fmt: skip
    total = cells if kind is None else 2 * cells
    where = cell if kind is None else cell + cells * kind
    keys, visit = np.unique(days * total + where, return_inverse=True)
    counts = np.bincount(visit.ravel() * m + labels, minlength=len(keys) * m).reshape(-1, m)
    weight = counts.sum(axis=1)
    return _Visits(np.asarray(keys % total), counts / weight[:, None], weight.astype(float), total, cells)


def _tables(visits: _Visits, prior: Array) -> list[_Found]:
    """The table for each strength of the prior, with the log-probability of each visit given the others."""
    m = len(prior)
    n = np.bincount(visits.cell, minlength=visits.cells).astype(float)
    sums = np.stack([np.bincount(visits.cell, weights=visits.shares[:, i], minlength=visits.cells) for i in range(m)])
    found = []
    for strength in _SHRINKAGE:
        drawn = strength * prior[:, None]
        others = (sums[:, visits.cell] - visits.shares.T + drawn) / (n[visits.cell] - 1.0 + strength)
        logs = (visits.shares.T * np.log(np.maximum(others, FLOOR))).sum(axis=0)
        score = float((visits.weight * logs).sum() / visits.weight.sum())
        found.append(_Found(score, (sums + drawn) / (n + strength), visits.day))
    return found


def _cells(hours: Array, cells: int) -> Ints:
    """The cell of the day, -1 if the hour is not known."""
    known = ~np.isnan(hours)
    cell = np.floor(np.where(known, hours, 0.0) * (cells / 24.0)).astype(np.int64) % cells
    return np.asarray(np.where(known, cell, -1))
