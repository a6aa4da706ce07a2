"""Small adversaries and designs for tests of the audit itself: quick, and with outcomes that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import normalise as normalise

PSEUDO = [0, 0.2, 0.4, 0.6, 0.8, 1]


def room(occupants: float) -> Any:
    """The paper's room."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def room_design(leakage: float = 0.3) -> Any:
    """The paper's design."""
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    return us.design(family, pseudo=PSEUDO, leakage=leakage, horizon=50, distortion="mae")


def plain_family(apart: float = 2.0) -> Any:
    """Independent readings whose mean is theta."""
    return us.Family(lambda v: us.IID(us.Gaussian(apart * v, 1.0)), values=[0, 1])


def switching(T: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """A path of zeros and ones that changes with this probability at each reading."""
    return (rng.integers(2) + np.cumsum(rng.random(T) < rate)) % 2


@dataclass(frozen=True)
class Normal:
    """Looks at one number of a sequence, or at each reading: normal with the mean and variance of each value."""

    of: int | None = None
    """Which reading of the sequence; the mean of all if None. Without meaning where theta moves."""
    name: str = "one number"

    def objection(self, cases: Cases, known: Any) -> str:
        return ""

    def number(self, cases: Cases) -> np.ndarray:
        y = np.nan_to_num(cases.outputs[:, 0])
        if not cases.once:
            return y
        return y.mean(axis=0) if self.of is None else y[self.of]

    def learn(self, cases: Cases, known: Any, rng: np.random.Generator) -> Any:
        x, truth = self.number(cases), cases.truth
        at = [x[truth == c] if (truth == c).sum() > 1 else x for c in range(cases.m)]
        odds = np.bincount(truth[truth >= 0], minlength=cases.m) + 0.5
        parts = [(float(v.mean()), float(v.std()) + 1e-9, float(np.log(w))) for v, w in zip(at, odds, strict=True)]
        return NormalAttack(self, parts)


@dataclass(frozen=True)
class NormalAttack:
    """What `Normal` has learned."""

    learner: Normal
    parts: list[tuple[float, float, float]]

    def logits(self, cases: Cases) -> np.ndarray:
        x = self.learner.number(cases)
        return normalise(np.stack([w - np.log(s) - 0.5 * ((x - mu) / s) ** 2 for mu, s, w in self.parts]))
