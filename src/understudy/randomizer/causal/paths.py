"""What a causal randomizer really costs: the distortion along the paths, not that of values that stay.

A decision is made with a surrogate, the distortion of a pair of values that both stay (`us.costs`), for it must not
depend on the live state of a predictor: that state is y. What moving paths cost follows afterwards from the two models
along them, ``family.along``: for Gauss-Markov families exactly, by the recursion of the design, 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.distortion.cost import costs
from understudy.errors import DesignError
from understudy.models.family import Family
from understudy.randomizer.causal.analysis import mean, play
from understudy.randomizer.causal.making import CausalDesign


def path_distortion(
    design: CausalDesign,
    theta: Sequence[Any],
    pseudo: Sequence[Any],
    distortion: Any = None,
    weights: Any = None,
    rng: Any = None,
) -> tuple[float, float]:
    """The mean distortion of the readings along a private and a pseudo path, one value a decision; its error.

    By default that of the design. The error is 0 where it is exact, as it is for Gauss-Markov models.

    >>> import understudy as us
    >>> from understudy.randomizer.causal.making import design_causal
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> flip = [[0.9, 0.1], [0.1, 0.9]]
    >>> made = design_causal(family, flip, slope=0.1, distortion="mae", decision_every=10)
    >>> path_distortion(made, [0, 0, 1], [0, 0, 1])
    (0.0, 0.0)
    >>> value, error = path_distortion(made, [0, 0, 1], [0, 1, 1])
    >>> round(value, 4), error
    (2.652, 0.0)
    """
    if distortion is None:
        if design._given is None:
            raise DesignError(
                "the design was made from a matrix of costs; say which distortion of readings, distortion="
            )
        distortion, weights = design._given
    if len(theta) != len(pseudo) or not len(theta):
        raise DesignError(f"the paths have {len(theta)} and {len(pseudo)} decisions; they must have as many, and some")
    repeat = design.decision_every
    one, other = (design.family.along([v for v in path for _ in range(repeat)]) for path in (theta, pseudo))
    pair = Family({"private": one, "pseudo": other}, values=["private"])
    found = costs(pair, ["pseudo"], repeat * len(theta), distortion, weights, rng=rng)
    return float(found.matrix[0, 0]), float(found.error[0, 0])


@dataclass(frozen=True, slots=True)
class TrueDistortion:
    """The distortion of simulated paths, and what the surrogate says of the same paths; with standard errors."""

    true: float
    true_error: float
    surrogate: float
    surrogate_error: float


def true_distortion(
    design: CausalDesign, decisions: int = 50, paths: int = 50, rng: Any = None, distortion: Any = None
) -> TrueDistortion:
    """The mean distortion along random private paths and the pseudo paths drawn for them.

    Given the paths it is found by `path_distortion`, so that only the choice of the paths is left to chance.

    >>> import understudy as us
    >>> from understudy.randomizer.causal.making import design_causal
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.9, 0.1], [0.1, 0.9]], slope=0.1, distortion="mae", decision_every=5)
    >>> found = true_distortion(made, 20, 20, rng=1)
    >>> 0.0 < found.true < found.surrogate
    True
    """
    if decisions < 1 or paths < 2:
        raise DesignError(f"decisions = {decisions}, paths = {paths}; there must be a decision, and two paths or more")
    generator = np.random.default_rng(rng)
    played = play(design.beliefs, decisions, paths, generator)
    true = np.empty((1, paths))
    for s in range(paths):
        theta = [design.values[i] for i in played.theta[:, s]]
        pseudo = [design.pseudo[j] for j in played.pseudo[:, s]]
        true[0, s], _ = path_distortion(design, theta, pseudo, distortion, rng=generator)
    surrogate = design.beliefs.cost[played.theta, played.pseudo]
    return TrueDistortion(*mean(true), *mean(surrogate))
