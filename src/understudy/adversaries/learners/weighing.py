"""A learner that gives evidence, made into an attack: calibrated, smoothed over time, and put together with the clock.

What learning leaves open (a length of windows, powers of the evidence, smoothed or not) is settled on stretches that
were held out; then everything is learned again from all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.learners.holding_out import Split, held_out
from understudy.adversaries.learners.references import ClockTable, clock_table, prior_of
from understudy.adversaries.learners.smoothing_over_time import Tempering, tempered, transitions_of
from understudy.laws.base import Array
from understudy._types import Mask



class Reader(Protocol):
    """What has learned to read an output."""

    def evidence(self, cases: Cases) -> Array:
        """Log-likelihoods of the values up to a common constant: (m, T, N), or (m, N). Finite; 0 tells nothing."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Weighed:
    """An attack: evidence of the output, the clock's where there is one, and how the two become log-probabilities."""

    reader: Reader
    table: ClockTable | None
    clock: bool
    tempering: Tempering

    def __repr__(self) -> str:
        return f"Weighed({type(self.reader).__name__}, {self.tempering})"

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities of each value: (m, T, N), or (m, N) where theta is constant in a sequence."""
        found = self.reader.evidence(cases)
        if not self.clock:
            return self.tempering.logits(found)
        told = np.zeros_like(found) if self.table is None else self.table.evidence(cases)
        return self.tempering.logits(found, told)


def weighed(candidates: Sequence[Callable[[Mask], Reader]], cases: Cases, margin: int = 0) -> Weighed:
    """The best of several readers, each made by learning from the guesses in a mask.

    The first is taken where nothing can be held out.
    """
    splits = held_out(cases, margin)
    clock = clock_held_out(cases, splits)
    tried = []
    for make in candidates:
        evidence = np.zeros((cases.m, *cases.truth.shape))
        for split in splits:
            evidence[:, split.held] = make(split.fit).evidence(cases)[:, split.held]
        tried.append((make, temper(evidence, clock, cases, splits)))
    # the first of equals; without anything held out no score is a number
    chosen, tempering = max(tried, key=lambda pair: pair[1].score if splits else 0.0)
    return joined(chosen(cases.truth >= 0), cases, tempering)


def joined(reader: Reader, cases: Cases, tempering: Tempering) -> Weighed:
    """The attack of a reader that has learned from all there is, with the table of hours of all there is."""
    return Weighed(reader, clock_table(cases), cases.hours is not None, tempering)


def clock_held_out(cases: Cases, splits: Sequence[Split]) -> Array | None:
    """What the clock tells about guesses that were held out, learned from the others; None without a clock."""
    if cases.hours is None:
        return None
    evidence = np.zeros((cases.m, *cases.truth.shape))
    for split in splits:
        table = clock_table(cases, split.fit)
        if table is not None:
            evidence[:, split.held] = table.evidence(cases)[:, split.held]
    return evidence


def temper(evidence: Array, clock: Array | None, cases: Cases, splits: Sequence[Split]) -> Tempering:
    """Powers of the evidence and of the clock's, chosen on what was held out."""
    pieces = (evidence,) if clock is None else (evidence, clock)
    transitions = None if cases.once or cases.T < 2 else transitions_of(cases.labels, cases.m)
    held = np.zeros(cases.truth.shape, dtype=bool)
    for split in splits:
        held |= split.held
    return tempered(pieces, cases.truth, held, prior_of(cases), transitions)
