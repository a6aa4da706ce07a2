"""Odds that are not known: a budget that holds for every prior in a convex hull.

The leakage I(p, P) is concave in the odds p. A randomizer that keeps its budget at two priors may break it between
them: [[.8, .2], [.2, .8]] gives away 0.039 nats at odds of 95 to 5, either way round, and 0.193 in the middle. Here the
budget is kept at *every* mixture of the priors that are given, or at any odds at all (`priors="all"`, the capacity).

The kernel comes from a saddle point (`saddle`), mixed with one that tells less until the bound over the whole hull
(`hull`) is within the budget. No kernel that keeps the budget over the hull has a distortion below `lower_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from understudy.distortion.cost import Costs, costs
from understudy.distortion.measure import Function
from understudy.distortion.methods import Progress
from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.budget import nats
from understudy.randomizer.charge import Charge, charge
from understudy.randomizer.making import with_terms
from understudy.randomizer.measures import entropy
from understudy.randomizer.priors.hull import as_corners
from understudy.randomizer.priors.robust_result import RobustDesign
from understudy.randomizer.priors.robust_solver import Robust, robust
from understudy.randomizer.problem import as_cost, as_prior
from understudy.randomizer.sampler import Randomizer
from understudy.stream.release import Terms


def solve_robust(cost: Any, priors: Any, *, leakage: Any, prior: Any = None) -> RobustDesign:
    """The randomizer of least expected cost whose leakage is within the budget at all odds in a hull.

    `priors` are vectors of odds; the budget holds for every mixture of them. "all" is any odds. `prior` weighs the
    cost: odds of its own, which join the hull; "worst" for the largest expected cost over the hull; by default the mean
    of the priors (equal odds with "all"). A `leakage` in percent is a share of the entropy of these odds.

    >>> import numpy as np
    >>> found = solve_robust(1 - np.eye(2), [[0.95, 0.05], [0.05, 0.95]], leakage=0.1)
    >>> found
    RobustDesign(2 x 2, 2 priors, distortion=0.280205, leakage<=0.1, optimal)
    >>> found.worst_prior.round(6).tolist(), found.lower_bound <= found.distortion
    ([0.5, 0.5], True)
    """
    matrix = as_cost(cost)
    B, C, p = _odds(priors, prior, None, matrix.shape[0])
    budget = nats(leakage, entropy(p))
    return _designed(robust(matrix, B, C, budget), matrix, B, C, (leakage, budget), None, None, None)


def design_robust(
    family: Family,
    pseudo: Iterable[Any] | None = None,
    *,
    priors: Any,
    leakage: Any,
    prior: Any = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    rng: Any = None,
    progress: Progress | None = None,
    resolution: Any = None,
    readings: Any = None,
    valid: Any = None,
) -> RobustDesign:
    """The randomizer for a family whose odds are known only to lie in the hull of some priors.

    `priors` and `prior` are as in `solve_robust`, except that with "all" the cost is weighed by the family's own odds;
    the rest as in `us.design`. What comes back is a design like others, with streams, and says what holds over the
    hull: `worst_prior`, `worst_leakage`, `card`. Its streams are charged with the worst leakage.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    >>> quiet, busy = [0.8, 0.15, 0.05], [0.1, 0.3, 0.6]
    >>> found = design_robust(family, [0, 0.5, 1, 1.5, 2], priors=[quiet, busy], leakage=0.3, distortion="mae")
    >>> found.status, bool(found.worst_leakage <= 0.3)
    ('optimal', True)
    >>> found.leakage_at([0.45, 0.225, 0.325]) <= found.worst_leakage
    True
    """
    if not isinstance(family, Family):
        raise DesignError(
            f"family is a {type(family).__name__}; it must be a Family (us.solve_robust takes bare costs)"
        )
    B, C, p = _odds(priors, prior, family.prior, len(family.values))
    budget = nats(leakage, entropy(p))
    middle = B.mean(axis=1)
    leak = charge(_with_prior(family, middle / middle.sum()), horizon, rng)
    left = budget
    if leak is not None:
        left = min(_charge_at(leak, corner).left_for_the_draw(budget) for corner in B.T)
    found = costs(_with_prior(family, p), pseudo, horizon, distortion, weights, accuracy, rng, progress)
    solution = robust(np.array(found.matrix, order="C"), B, C, left)
    made = _designed(solution, found.matrix, B, C, (leakage, budget), family, found, leak)
    return with_terms(made, Terms(resolution, readings, valid))


def _odds(priors: Any, prior: Any, own: Array | None, m: int) -> tuple[Array, Array, Array]:
    """Corners of the hull, corners of what weighs the cost, and the odds that an entropy is taken of."""
    B = as_corners(priors, m)
    if isinstance(prior, str):
        if prior != "worst":
            raise DesignError(f"prior = {prior!r}; it must be odds, or 'worst' for the largest cost over the hull")
        middle = B.mean(axis=1)
        return B, B, middle / middle.sum()
    if prior is not None:
        p = as_prior(prior, m)
        return np.column_stack((B, p)), p[:, None], p
    p = np.asarray(own) if own is not None and isinstance(priors, str) else as_prior(B.mean(axis=1), m)
    return B, p[:, None], p


def _with_prior(family: Family, prior: Array) -> Family:
    """The family at other odds; its models stay those that were worked out."""
    if np.array_equal(family.prior, prior):
        return family
    return Family(family.model, family.values, prior, family.about)


def _charge_at(leak: Charge, prior: Array) -> Charge:
    return Charge.of(prior, leak.charged, leak.horizon, leak.how)


def _designed(
    found: Robust,
    cost: Array,
    B: Array,
    C: Array,
    demand: tuple[Any, float],
    family: Family | None,
    measured: Costs | None,
    leak: Charge | None,
) -> RobustDesign:
    p = as_prior(C @ found.weights, len(cost))
    names = (None, None) if measured is None else (measured.values, measured.pseudo)
    weights = p[:, None] * found.kernel
    error = 0.0 if measured is None else measured.expected(weights)[1]
    corners = np.ascontiguousarray(B.T)
    for array in (p, cost, corners):
        array.setflags(write=False)
    return RobustDesign(
        Randomizer._certified(found.kernel, *names), p, cost, found.upper, found.lower,
        found.gap, found.worst.upper, demand[1], ("leakage", demand[0]),
        "optimal" if found.optimal else "inexact", found.steps, 1.0 / found.price if found.price > 0.0 else math.inf,
        0.0, error, None if family is None else _with_prior(family, p), measured,
        None if leak is None else _charge_at(leak, p),
        priors=corners, worst_prior=found.worst.prior, weighed="worst" if C.shape[1] > 1 else "stated",
    )  # fmt: skip
