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

from understudy.adversaries import testing
from understudy.adversaries.audited import Figure
from understudy.adversaries.cases import Cases
from understudy.adversaries.intervals import Sums, balanced_trials, clopper_pearson, of_blocks
from understudy.errors import ConfigurationError
from understudy.laws.base import Array

Ints = NDArray[np.int64]

MIXED = 1e-3
"""The share of the prior that is mixed into what an adversary says before its logarithm is taken."""


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
    right = (made.fair == made.truth).astype(float)
    base = right * 0.0 + 1.0 / made.m if reference is None else (reference.fair == reference.truth).astype(float)
    gain = of_blocks(_by_value(made, right - base), confidence, (-1.0, 1.0))
    p = np.bincount(made.truth, minlength=made.m) / made.truth.size
    ends = (math.log(MIXED), max(0.0, -math.log(p[p > 0.0].min())))
    nats = of_blocks(_whole(made, made.score), confidence, ends)
    if (made.fair == made.fair[0]).all():  # who always says the same is right for one value, and for no other
        sure = 1.0 / np.unique(made.truth).size if (made.truth == made.fair[0]).any() else 0.0
        return Figures(Figure(sure, sure, sure), error_of(made, independent, confidence), gain, nats)
    if independent:
        trials = np.bincount(made.truth, minlength=made.m)
        hits = np.bincount(made.truth[right > 0.0], minlength=made.m)
        balanced = balanced_trials(hits, trials, confidence)
        return Figures(balanced, error_of(made, True, confidence), gain, nats)
    balanced = of_blocks(_by_value(made, right), confidence, shares)
    return Figures(balanced, error_of(made, False, confidence), gain, nats)


def error_of(made: Judged, independent: bool, confidence: float) -> Figure:
    """How often the likeliest value is wrong."""
    wrong = made.guess != made.truth
    if independent:
        return clopper_pearson(int(wrong.sum()), wrong.size, confidence)
    return of_blocks(_whole(made, wrong.astype(float)), confidence, (0.0, 1.0))


def p_value(
    made: Judged, cases: Cases, independent: bool, strata: Ints | None, rng: np.random.Generator
) -> tuple[float, str]:
    """The p of "it tells nothing about theta", and how it was found; `strata` has the shape of ``cases.truth``."""
    if independent and cases.once:
        return testing.tables(made.fair, made.truth, made.m, rng), "permutation"
    known = cases.truth >= 0
    if independent:
        guess = np.full(cases.truth.shape, -1)
        guess[known] = made.fair
        return testing.exchanged(guess, cases.truth, made.m, rng), "permutation"
    hour = None if strata is None else strata[known]
    return testing.stretches(made.fair, made.truth, made.blocks, made.m, hour, rng), "stretches"


def hours_of(cases: Cases) -> Ints | None:
    """The hour of each guess as a number, weekends apart where weekdays are known; None without a clock.

    Where theta is constant in a sequence, that of its first reading.
    """
    if cases.hours is None:
        return None
    hour = np.where(np.isnan(cases.hours), 24.0, cases.hours).astype(np.int64)
    if cases.days is not None:
        hour = hour + 25 * (cases.days >= 5)
    return np.asarray(hour[0] if cases.once else hour, dtype=np.int64)


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
