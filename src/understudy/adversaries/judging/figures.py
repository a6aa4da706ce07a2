"""From what an adversary says to figures: logits and cases in, shares, nats and p out.

Two guesses are read off the same log-probabilities q. The error is that of the likeliest value, argmax q. For the
balanced accuracy, where rare values count as much as frequent ones, it is argmax q / p with p the odds in the labels
that were learned from; without that a rare value would never be guessed, and whatever is known of it would not show.

The nats are those of Barber and Agakov: with p the odds among the judged labels, the mean of log q - log p is at
most the mutual information of theta and the output, whatever q is. q is mixed with a thousandth of p, so that one
guess that was too sure of itself does not spoil the mean; that too only lowers it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.audited import Figure
from understudy.adversaries.cases import Cases
from understudy.adversaries.judging.intervals import Sums, balanced_trials, clopper_pearson, of_blocks
from understudy.adversaries.learners.references import days_of
from understudy.errors import ConfigurationError
from understudy.laws.base import Array
from understudy._types import Ints


MIXED = 1e-3
"""The share of the prior that is mixed into what an adversary says before its logarithm is taken."""
_MOSTLY = 0.95  # of the guesses must be at times of day that come on several days
_FINEST = 1.0 / 60.0  # minutes


class Judged(NamedTuple):
    """The guesses of one adversary, flat: one entry for each that is judged."""

    truth: Ints
    blocks: Ints
    guess: Ints
    """The likeliest value."""
    fair: Ints
    """The value that the output speaks for most, beside the odds."""
    score: Array
    """log q - log p of the true value."""
    m: int

    def __repr__(self) -> str:
        return f"Judged({self.truth.size} guesses)"


class Figures(NamedTuple):
    """All that a row of an audit tells in numbers."""

    balanced: Figure
    error: Figure
    gain: Figure
    nats: Figure


def judged(logits: Array, cases: Cases, prior: Array) -> Judged:
    """The guesses of an adversary who says `logits`, and learned from labels of the odds `prior` (m,)."""
    truth = cases.truth
    if logits.shape != (cases.m, *truth.shape):
        raise ConfigurationError(f"an adversary says logits of shape {logits.shape}; {(cases.m, *truth.shape)} is due")
    known = truth >= 0
    said, labels = logits[:, known], truth[known]
    if not np.isfinite(said).all():
        raise ConfigurationError("an adversary says logits that are not finite; every one must be")
    odds = np.maximum(prior, 1e-9)
    # rounded, so that somebody who says the odds themselves has no preference
    beside = np.round(said - np.log(odds / odds.sum())[:, None], 9)
    p = np.bincount(labels, minlength=cases.m) / max(labels.size, 1)
    at = np.arange(labels.size)
    q = np.exp(said - np.logaddexp.reduce(said, axis=0))[labels, at]
    with np.errstate(divide="ignore"):
        score = np.log((1.0 - MIXED) * q / p[labels] + MIXED)
    return Judged(
        labels.astype(np.int64), cases.stretches[known], said.argmax(axis=0), beside.argmax(axis=0), score, cases.m
    )


def figures(made: Judged, reference: Judged | None, independent: bool, confidence: float) -> Figures:
    """The figures, and the gain over a reference that was judged on the same cases.

    `independent` says that guesses are independent trials; otherwise intervals are over stretches of time.
    """
    shares = (0.0, 1.0)
    right, seen = _right(made), np.unique(made.truth).size
    base = np.full(right.shape, 1.0 / seen) if reference is None else _right(reference)
    gain = of_blocks(_by_value(made, right - base), confidence, (-1.0, 1.0))
    p = np.bincount(made.truth, minlength=made.m) / made.truth.size
    ends = (math.log(MIXED), max(0.0, -math.log(p[p > 0.0].min())))
    nats = of_blocks(_whole(made, made.score), confidence, ends)
    if _constant(made):
        sure = 1.0 / seen
        return Figures(Figure(sure, sure, sure), error_of(made, independent, confidence), gain, nats)
    if independent:
        trials = np.bincount(made.truth, minlength=made.m)
        hits = np.bincount(made.truth[right > 0.0], minlength=made.m)
        balanced = balanced_trials(hits, trials, confidence)
        return Figures(balanced, error_of(made, True, confidence), gain, nats)
    balanced = of_blocks(_by_value(made, right), confidence, shares)
    return Figures(balanced, error_of(made, False, confidence), gain, nats)


def _constant(made: Judged) -> bool:
    return bool((made.fair == made.fair[0]).all())


def _right(made: Judged) -> Array:
    """Where the guess is right.

    Who always says the same knows nothing. He is right for one of the values that occur, and counts so even if the
    one that he says is not among them: it is only by chance that he has not said another.
    """
    if _constant(made):
        return np.full(made.truth.shape, 1.0 / np.unique(made.truth).size)
    return np.asarray(made.fair == made.truth, dtype=np.float64)


def error_of(made: Judged, independent: bool, confidence: float) -> Figure:
    """How often the likeliest value is wrong."""
    wrong = made.guess != made.truth
    if independent:
        return clopper_pearson(int(wrong.sum()), wrong.size, confidence)
    return of_blocks(_whole(made, wrong.astype(float)), confidence, (0.0, 1.0))


def hours_of(cases: Cases) -> Ints | None:
    """The time of day of each guess as a number, in the shape of ``cases.truth``; None without a clock.

    Times are as fine as the readings: an adversary with the clock may be as exact. Weekdays are apart where each has
    been seen often enough, or else weekends, or none. Times are coarser only where they would come on one day only,
    and what even so does is -1. Where theta is constant in a sequence, the time is that of its first reading.
    """
    if cases.hours is None:
        return None
    hours = cases.hours[0] if cases.once else cases.hours
    judged, dates = cases.truth >= 0, days_of(cases)
    kinds: list[tuple[Ints, int]] = [(np.zeros(hours.shape, dtype=np.int64), 2)]
    if cases.days is not None:
        day = cases.days[0] if cases.once else cases.days
        kinds = [(day + 1, 3), ((day >= 5).astype(np.int64), 2), *kinds]
    found = np.full(hours.shape, -1, dtype=np.int64)
    for width in _widths(cases.hours):
        cells = max(1, round(1440.0 / width))
        cell = np.where(np.isnan(hours), cells, np.rint(np.nan_to_num(hours) * cells / 24.0) % cells).astype(np.int64)
        for kind, need in kinds:
            stratum = cell + (cells + 1) * kind
            often = _visited(stratum[judged], dates[judged])
            found[judged] = np.where(often >= 2, stratum[judged], -1)
            if often.size and float(np.mean(often >= need)) >= _MOSTLY:
                return found
    return found


def _widths(hours: Array) -> list[float]:
    """Minutes of a cell of the day: from one reading to the next, and coarser ones."""
    steps = np.diff(hours, axis=0)
    steps = steps[steps > 1e-9] * 60.0
    finest = max(float(np.median(steps)), _FINEST) if steps.size else 60.0
    return [finest, *(w for w in (5.0, 10.0, 15.0, 30.0, 60.0) if w > 1.01 * finest)]


def _visited(stratum: Ints, dates: Ints) -> Ints:
    """On how many days the stratum of each guess occurs."""
    date = np.unique(dates, return_inverse=True)[1]
    cell = np.unique(stratum, return_inverse=True)[1]
    size = int(date.max()) + 1 if date.size else 1
    return np.asarray(np.bincount(np.unique(cell * size + date) // size)[cell], dtype=np.int64)


def _by_value(made: Judged, x: Array) -> Sums:
    """Sums of x in each stretch, apart for each true value."""
    number = np.unique(made.blocks, return_inverse=True)[1]
    B = int(number.max()) + 1
    cell = number * made.m + made.truth
    top, bottom = (np.bincount(cell, weight, B * made.m).reshape(B, made.m) for weight in (x, x * 0.0 + 1.0))
    return Sums(np.asarray(top), np.asarray(bottom))


def _whole(made: Judged, x: Array) -> Sums:
    """Sums of x in each stretch."""
    number = np.unique(made.blocks, return_inverse=True)[1]
    top, bottom = (np.bincount(number, weight).astype(np.float64) for weight in (x, x * 0.0 + 1.0))
    return Sums(top[:, None], bottom[:, None])
