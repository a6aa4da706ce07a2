"""What an adversary says, weighed against what the clock says.

An adversary whose theta follows the clock already has the time of day in its odds, but not always as much of it as the
clock is worth. A logistic regression on both, learned from training cases, never has less than the better of the two,
but for what it takes to learn so. Without a clock nothing is changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.learners.calibration import Calibration, calibrated
from understudy.adversaries.learners.chains import Clock
from understudy.laws.base import Array

_SURE = 12.0  # nats beyond which odds are not told apart


class Timely(NamedTuple):
    """What the clock says, and what both are worth; None where there is no clock."""

    clock: Clock
    calibration: Calibration | None

    @classmethod
    def learned(cls, said: Array, part: Cases, whole: Cases, rng: np.random.Generator) -> Timely:
        """From log-probabilities of a part of the training cases; the clock from all of them."""
        clock = Clock.learned(whole)
        if clock.odds is None:
            return cls(clock, None)
        return cls(clock, calibrated(_both(said, clock, part), part.truth, part.m, ridge=10.0, rng=rng))

    def logits(self, said: Array, cases: Cases) -> Array:
        """Log-probabilities in the light of the clock."""
        if self.calibration is None or cases.hours is None:
            return said
        return self.calibration.logits(_both(said, self.clock, cases))


ALWAYS = Timely(Clock(None), None)
"""Nothing is changed."""


def _both(said: Array, clock: Clock, cases: Cases) -> Array:
    return np.concatenate([np.clip(said[1:] - said[:1], -_SURE, _SURE), clock.scores(cases)])
