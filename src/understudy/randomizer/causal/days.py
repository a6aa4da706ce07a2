"""Budgets that people understand: so much a day, and what an adversary can say about an hour."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.budget import nats
from understudy.randomizer.causal.analysis import play
from understudy.randomizer.causal.beliefs import Beliefs
from understudy.randomizer.causal.making import CausalDesign


def at_most(leakage_per_day: Any, decisions_per_day: float) -> float:
    """The rate for `us.design_causal` with which a day tells so much: nats a decision.

    The leakage is a number of nats or written with its unit. In expectation only: how much a day tells depends on the
    draws. To keep every day within a budget give each draw what is left of it, ``design.draw(..., left=...)``.

    >>> at_most(1.92, decisions_per_day=96)
    0.02
    >>> round(at_most("1 bit", decisions_per_day=24), 6)
    0.028881
    """
    if isinstance(leakage_per_day, str) and "%" in leakage_per_day:
        raise DesignError(f"leakage_per_day = {leakage_per_day!r}; give it in nats or bits a day")
    number = isinstance(decisions_per_day, (int, float, np.integer, np.floating)) and decisions_per_day > 0
    if not number or isinstance(decisions_per_day, bool) or not math.isfinite(decisions_per_day):
        raise DesignError(f"decisions_per_day = {decisions_per_day!r}; it must be a positive number")
    return nats(leakage_per_day, 0.0) / float(decisions_per_day)


def per_day(design: CausalDesign, decisions_per_day: int) -> dict[str, float]:
    """What a design tells in expectation: nats and bits a decision and a day, and on the first day.

    >>> import understudy as us
    >>> from understudy.randomizer.causal.making import design_causal
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=at_most(1.0, 96))
    >>> {name: round(value, 4) for name, value in per_day(made, 96).items()}
    {'nats a decision': 0.0104, 'nats a day': 1.0, 'bits a day': 1.4427, 'nats on the first day': 1.1168}
    """
    day = decisions_per_day * design.rate
    return {
        "nats a decision": design.rate,
        "nats a day": day,
        "bits a day": day / math.log(2.0),
        "nats on the first day": design.expected_leakage(decisions_per_day),
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """How often the best adversary answers a question right who sees the whole pseudo path.

    `blind` is the accuracy of who knows the prior and the transitions alone. What is learned is between the two.
    """

    seeing: float
    seeing_error: float
    blind: float


def was_ever(
    design: CausalDesign | Beliefs,
    values: Iterable[Any],
    window: tuple[int, int],
    decisions: int,
    sequences: int = 500,
    rng: Any = None,
) -> Answer:
    """The accuracy on "was theta ever among these values in this window", as "was anyone in between 14 and 15 h".

    `window` = (first, end) are decisions, counted from 0 and without the end, of a day of `decisions`. The
    adversary is exact: it computes the probability of the event given all pseudo values of the day, those after the
    window too. So nobody who sees disguised readings does better, with the chain and the models as stated.

    >>> import understudy as us
    >>> from understudy.randomizer.causal.making import design_causal
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.95, 0.05], [0.05, 0.95]], rate=0.01)
    >>> found = was_ever(made, [1], window=(56, 60), decisions=96, sequences=200, rng=1)
    >>> round(found.blind, 3), bool(found.blind < found.seeing < 0.75)
    (0.571, True)
    """
    beliefs = design.beliefs if isinstance(design, CausalDesign) else design
    rows = [design.row(v) if isinstance(design, CausalDesign) else int(v) for v in values]
    first, end = window
    if not 0 <= first < end <= decisions:
        raise DesignError(f"window = {window!r}; it must be (first, end) with 0 <= first < end <= {decisions}")
    if not rows or len(set(rows)) == len(beliefs.prior):
        raise DesignError("the values of the question must be some of the private values, not none and not all")
    played = play(beliefs, decisions, sequences, rng)
    p = chance_of_none(beliefs, rows, window, played.likelihoods)
    right = np.maximum(p, 1.0 - p)
    nothing = chance_of_none(beliefs, rows, window, np.ones((decisions, 1, len(beliefs.prior))))
    error = float(right.std(ddof=1) / math.sqrt(len(right))) if len(right) > 1 else math.nan
    return Answer(float(right.mean()), error, float(max(nothing[0], 1.0 - nothing[0])))


def chance_of_none(beliefs: Beliefs, rows: list[int], window: tuple[int, int], likelihoods: Array) -> Array:
    """Pr(theta in none of these rows throughout the window, given the draws), for each sequence.

    Two forward recursions: over all paths, and over those that keep out of the rows while the window lasts.
    """
    N = likelihoods.shape[1]
    every = np.tile(beliefs.prior, (N, 1))
    out = every.copy()
    for k in range(len(likelihoods)):
        every, out = every * likelihoods[k], out * likelihoods[k]
        if window[0] <= k < window[1]:
            out[:, rows] = 0.0
        total = every.sum(axis=1, keepdims=True)
        T = beliefs.transitions[k % beliefs.period]
        every, out = (every / total) @ T, (out / total) @ T
    return np.asarray(out.sum(axis=1) / every.sum(axis=1))
