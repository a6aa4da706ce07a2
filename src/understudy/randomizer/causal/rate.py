"""The slope at which a causal randomizer tells as much as it may, a decision in the long run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import DesignError, InfeasibleError
from understudy.models.family import Family
from understudy.randomizer.budget import nats
from understudy.randomizer.causal.beliefs import Beliefs
from understudy.randomizer.causal.limit import LongRun, long_run
from understudy.randomizer.measures import entropy

_ROUNDS = 80
_NOTHING = 1e-9  # nats a decision: a chain that tells no more in the long run has come to rest


def as_rate(rate: Any, family: Family) -> float:
    """A leakage rate in nats a decision; shares of an entropy are refused, for of which one is not clear."""
    if isinstance(rate, str) and rate.strip().lower().endswith(("%", "percent")):
        raise DesignError(f"rate = {rate!r}; give it in nats or bits a decision")
    try:
        value = nats(rate, entropy(family.prior))
    except DesignError as error:
        raise DesignError(str(error).replace("leakage", "rate", 1)) from None
    if not math.isfinite(value):
        raise DesignError(f"rate = {rate!r}; it must be finite")
    return value


def at_rate(most: Beliefs, rate: float, rng: Any) -> tuple[Beliefs, LongRun]:
    """The largest slope that is found to tell no more than the rate, in the long run."""

    def at(slope: float) -> tuple[Beliefs, LongRun]:
        beliefs = Beliefs(most.prior, most.transitions, most.cost, slope)
        return beliefs, long_run(beliefs, rng)

    everything = most, long_run(most, rng)
    if everything[1].rate <= rate:
        if everything[1].rate <= _NOTHING < entropy(most.prior):
            raise DesignError(
                f"rate = {rate:.6g} nats a decision; by these transitions the parameter settles, so that any slope has "
                "the rate 0 in the long run and a rate says nothing about the first decisions: use us.design for a "
                "parameter that stays, or give a slope"
            )
        return everything
    anything = bool(np.isfinite(most.cost).all(axis=0).any())  # whether a decision may tell nothing
    if rate == 0.0 and anything:
        return at(0.0)
    scale = most.scale
    low, high, best = 0.0, math.inf, None
    s = 1.0 / scale
    # first a bracket, by factors of 4, then regula falsi with the Illinois rule, in the logarithm of the slope
    f_low, f_high = -rate, everything[1].rate - rate
    side, needed = 0, 0.0
    for _ in range(_ROUNDS):
        found = at(s)
        f = found[1].rate - rate
        if f <= 0.0:
            low, f_low, best = s, f, found
            f_high *= 0.5 if side == 1 else 1.0
            side = 1
        else:
            high, f_high = s, f
            f_low *= 0.5 if side == -1 else 1.0
            side = -1
        # a simulated rate is met to half its standard error: the same random numbers serve at every slope
        if best is not None and best[1].rate >= rate * (1.0 - 1e-8) - 0.5 * best[1].rate_error:
            break
        if low == 0.0:
            s, needed = high / (4.0 if anything else 64.0), found[1].rate
            if s * scale < 1e-9:
                break
        elif high == math.inf:
            s = low * 4.0
            if s * scale > 1e6:
                break
        else:
            # a rate that jumps is left where it jumps; a simulated one does so at every slope
            if high <= low * (1.0 + (1e-3 if found[1].how == "simulation" else 1e-12)):
                break
            a, b = math.log(low), math.log(high)
            x = b - f_high * (b - a) / (f_high - f_low) if f_high > f_low else 0.5 * (a + b)
            # where the rate is 0 over a stretch, its end is sought by halving
            x = 0.5 * (a + b) if best is None or best[1].rate == 0.0 or not a < x < b else x
            s = math.exp(x)
    if best is None:
        if anything:
            return at(0.0)
        raise InfeasibleError(
            f"rate = {rate:.6g} nats a decision; the forbidden pairs (infinite costs) need about {needed:.3g}"
        )
    return best
