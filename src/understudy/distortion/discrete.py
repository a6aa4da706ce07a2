"""Readings with finitely many values: the distortion of a pair is a finite sum.

Under one score z, two laws with atoms are two staircases. Where neither takes a step, both readings are
known, so E d(y, ~y) is a sum over the intervals between the steps of either, weighted by their
probabilities. An atom is scored anywhere in its interval, by the auxiliary uniform, which is just where the
score of a draw would have been: the sum is exact whether z is drawn, or comes from a reading and a uniform.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.laws.atoms import Atoms, intervals
from understudy.laws.base import Array
from understudy.laws.independent import Independent
from understudy.laws.shifted import Shifted


class Staircase(NamedTuple):
    """The values of one channel, in increasing order, and their probabilities."""

    values: Array
    probabilities: Array

    @property
    def mean(self) -> float:
        """The mean value."""
        return float(self.values @ self.probabilities)


def staircases(law: Any) -> list[Staircase] | None:
    """One for each channel, if all channels are independent and have finitely many values.

    >>> [steps.mean for steps in staircases(Atoms([0.0, 4.0], [0.5, 0.5]))]
    [2.0]
    """
    if isinstance(law, Atoms):
        return [Staircase(law.values, law.probabilities)]
    if isinstance(law, Independent):
        parts = [staircases(channel) for channel in law.laws]
        return None if None in parts else [part[0] for part in parts if part is not None]
    if isinstance(law, Shifted):
        inner = staircases(law.law)
        if inner is None:
            return None
        shifts = np.broadcast_to(np.asarray(law.shift, dtype=float), (len(inner),))
        return [Staircase(steps.values + by, steps.probabilities) for steps, by in zip(inner, shifts, strict=True)]
    return None


def together(one: Staircase, other: Staircase) -> tuple[Array, Array, Array]:
    """The values that two laws take under one score, and the probability that they do.

    >>> y, y_out, p = together(Staircase(np.array([0.0, 1.0]), np.array([0.5, 0.5])),
    ...                        Staircase(np.array([0.0, 1.0]), np.array([0.25, 0.75])))
    >>> y.tolist(), y_out.tolist(), p.tolist()
    ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.25, 0.25, 0.5])
    """
    # each edge by what is below it and what is above it, so that a rare value keeps its digits on either side
    below, above, edges = (
        np.concatenate(parts) for parts in zip(*(_inner(steps.probabilities) for steps in (one, other)), strict=True)
    )
    order = np.argsort(edges, kind="stable")
    below, above = (np.concatenate(((a,), part[order], (b,))) for part, a, b in ((below, 0.0, 1.0), (above, 1.0, 0.0)))
    width = np.where(below[1:] <= above[:-1], np.diff(below), -np.diff(above))
    # an interval belongs to the value whose lower edge is the last at or below its own lower edge
    first = np.append(-np.inf, edges[order])
    i, j = (np.searchsorted(_inner(steps.probabilities)[2], first, side="right") for steps in (one, other))
    there = width > 0.0
    return one.values[i[there]], other.values[j[there]], width[there]


def _inner(probabilities: Array) -> tuple[Array, Array, Array]:
    """What is below and above each edge between two values, and the edges as scores."""
    below, above, edges = intervals(probabilities)
    return below[1:-1], above[1:-1], edges[1:-1]
