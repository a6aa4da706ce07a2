"""Making designs: `us.design` for a family of models, `us.solve` for a bare cost matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from understudy.distortion.cost import Costs, costs
from understudy.distortion.measure import Function
from understudy.distortion.methods import Progress
from understudy.errors import DesignError, InfeasibleError
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.budget import nats
from understudy.randomizer.charge import Charge, charge
from understudy.randomizer.inverse import least_distortion, least_leakage
from understudy.randomizer.measures import entropy
from understudy.randomizer.problem import as_cost, as_prior
from understudy.randomizer.result import Design, quickly, total
from understudy.randomizer.sampler import Randomizer
from understudy.randomizer.solver import Solution, bounds_of, minimise
from understudy.stream.release import Terms

_D = TypeVar("_D", bound=Design)


def solve(
    cost: Any,
    prior: Any = None,
    *,
    leakage: Any = None,
    error_at_least: Any = None,
    distortion_at_most: Any = None,
    constraints: Any = (),
) -> Design:
    """The randomizer of least expected cost that gives away no more than asked, with its proof.

    `cost` is (m, n), 0 or more, infinite where a pair is forbidden; `prior` is uniform by default. Exactly one
    demand is made: `leakage` bounds the mutual information (a number of nats, "0.3 nats", "0.4 bit", "40%" of the
    entropy); `error_at_least` is the probability with which every guess must be wrong; `distortion_at_most`
    asks for the least leakage at that expected cost.

    `constraints` are kept besides, exactly: other measures (`LocalDP`, `MaximalLeakage`, `PointwiseLeakage`,
    `TotalVariation`, `ErrorAtLeast`), full support (`Floor`), and what people have to live with (`Forbidden`, `Same`,
    `Multiples`). With constraints there may be no demand at all.

    >>> import numpy as np
    >>> import understudy as us
    >>> x = np.linspace(0, 1, 16)
    >>> solved = us.solve((x[:, None] - x) ** 2, leakage=1.0)
    >>> round(solved.distortion, 12), solved.status
    (0.010060755323, 'optimal')
    >>> us.solve(1.0 - np.eye(3), distortion_at_most=0.1).leakage <= us.solve(1.0 - np.eye(3), leakage="100%").leakage
    True
    >>> from understudy.randomizer.constrained.constraints import LocalDP
    >>> us.solve(1.0 - np.eye(2), constraints=[LocalDP(1.0)]).randomizer.kernel.round(4).tolist()
    [[0.7311, 0.2689], [0.2689, 0.7311]]
    """
    matrix = as_cost(cost)
    p = as_prior(prior, matrix.shape[0])
    if constraints:
        beside = _constraints(constraints)
        return _solved_with(matrix, p, _at_most_one(leakage, error_at_least, distortion_at_most, beside), beside)
    demand = _one_demand(leakage, error_at_least, distortion_at_most)
    return solved(matrix, p, demand, None, None)


def design(
    family: Family,
    pseudo: Iterable[Any] | None = None,
    *,
    leakage: Any = None,
    error_at_least: Any = None,
    distortion_at_most: Any = None,
    constraints: Any = (),
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    rng: Any = None,
    progress: Progress | None = None,
    resolution: Any = None,
    readings: Any = None,
    valid: Any = None,
) -> Design:
    """The randomizer for a family of models: which pseudo value plays which private one, and how often.

    `pseudo` are the values that may be played, by default the family's own. Exactly one of `leakage`,
    `error_at_least` and `distortion_at_most` is given, as in `us.solve`, or none where there are `constraints`, which
    go with each of them. `horizon`, `distortion`, `weights`, `accuracy`, `rng` and `progress` say how the distortion is
    found, as in `us.costs`. The horizon affects the distortion only: the bound on the leakage holds for sequences of
    every length.

    That is so for exact models. One that is approximate, such as one of rounded readings, gives away a little itself
    with every reading. This residual is charged for `horizon` readings, which must then be given: of a leakage it is
    taken off before the randomizer is found, to an error it is added, and the guarantee is one for so
    many readings. See `Design.charge`.

    `resolution` is the step of the public lattice on which readings leave: a power of two or a decimal, or one for each
    channel; by default about a thousandth of the smallest conditional standard deviation of a target. `readings`
    declares the form of those that come in: "double", "float32" or "6 digits". `valid` is their public range
    (low, high); what lies outside is not taken for a reading. See `Design.release`.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    >>> found = us.design(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")
    >>> found
    Design(2 x 6, distortion=17.3459, leakage=0.3, optimal)
    >>> found.randomizer.kernel.round(3).tolist()
    [[0.866, 0.0, 0.0, 0.0, 0.0, 0.134], [0.134, 0.0, 0.0, 0.0, 0.0, 0.866]]
    """
    beside = _constraints(constraints) if constraints else ()
    demand = _at_most_one(leakage, error_at_least, distortion_at_most, beside)
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family (us.solve takes bare costs)")
    # a bad budget is refused before the work, and so is one that the models alone exceed
    budget = nats(demand[1], entropy(family.prior)) if demand[0] == "leakage" else 0.0
    leak = charge(family, horizon, rng)
    if leak is not None and demand[0] == "leakage":
        leak.left_for_the_draw(budget)
    elif leak is not None and demand[0] == "error_at_least":
        leak.asked_of_the_draw(_number(*demand), family.prior)
    found = costs(family, pseudo, horizon, distortion, weights, accuracy, rng, progress)
    if beside:
        made = _solved_with(found.matrix, family.prior, demand, beside, family, found, leak)
    else:
        made = solved(found.matrix, family.prior, demand, family, found, leak)
    return with_terms(made, Terms(resolution, readings, valid))


def with_terms(made: _D, terms: Terms) -> _D:
    """The same design, with what was asked for about the readings that leave and come in."""
    if all(term is None for term in terms):
        return made
    made = replace(made, terms=terms)
    _ = made.release  # what cannot be kept is refused now
    return made


def _one_demand(leakage: Any, error_at_least: Any, distortion_at_most: Any) -> tuple[str, Any]:
    if leakage is not None and error_at_least is None and distortion_at_most is None:
        return "leakage", leakage
    demands = {"leakage": leakage, "error_at_least": error_at_least, "distortion_at_most": distortion_at_most}
    given = [(name, value) for name, value in demands.items() if value is not None]
    if len(given) != 1:
        raise DesignError(
            f"{' and '.join(name for name, _ in given) or 'no demand'} given; "
            "exactly one of leakage, error_at_least and distortion_at_most is needed"
        )
    return given[0]


def solved(
    cost: Array,
    p: Array,
    demand: tuple[str, Any],
    family: Family | None,
    found: Costs | None,
    leak: Charge | None = None,
) -> Design:
    """A design from checked costs, one demand, and what the models themselves give away."""
    name, wanted = demand
    budget: float | None
    proven = 0.0
    if name == "leakage":
        budget = wanted if type(wanted) is float and 0.0 <= wanted < math.inf else nats(wanted, entropy(p))
        solution = minimise(cost, p, budget) if leak is None else _charged(cost, p, name, budget, leak)
    elif name == "distortion_at_most":
        solution, proven = least_leakage(cost, p, _number(name, wanted))
        budget = total(solution.leakage, leak)
    else:
        budget = None
        error = _number(name, wanted)
        solution = least_distortion(cost, p, error) if leak is None else _charged(cost, p, name, error, leak)
    names = (None, None) if found is None else (found.values, found.pseudo)
    randomizer = Randomizer._certified(solution.kernel, *names)
    error = 0.0 if found is None else found.expected(p[:, None] * solution.kernel)[1]
    p.setflags(write=False)
    cost.setflags(write=False)
    distortion, lower = bounds_of(solution)
    if name == "distortion_at_most":
        distortion = min(distortion, wanted)  # met exactly: `least_leakage` has made sure of it
        lower = min(lower, distortion)
    gap = max(solution.excess - solution.bound, 0.0)
    status = "optimal" if solution.optimal else "inexact"
    return quickly(
        randomizer, p, cost, distortion, lower, gap, solution.leakage, budget, demand, status,
        solution.iterations, solution.slope, proven, error, family, found, leak,
    )  # fmt: skip


def _charged(cost: Array, p: Array, name: str, wanted: float, leak: Charge) -> Solution:
    """The randomizer that meets a demand together with what the models give away."""
    by_leakage = name == "leakage"
    asked = leak.left_for_the_draw(wanted) if by_leakage else leak.asked_of_the_draw(wanted, p)
    try:
        return minimise(cost, p, asked) if by_leakage else least_distortion(cost, p, asked)
    except InfeasibleError as error:
        sign, amount = ("less", leak.total) if by_leakage else ("and", leak.variation)
        raise InfeasibleError(
            f"{error}; that is the {wanted:.6g} asked for, {sign} {amount:.3g} for what the models themselves give "
            f"away over {leak.readings} ({leak.how})"
        ) from None


def _at_most_one(
    leakage: Any, error_at_least: Any, distortion_at_most: Any, constraints: tuple[Any, ...]
) -> tuple[str, Any]:
    """The demand; none where there are constraints is a leakage without limit."""
    if constraints and leakage is None and error_at_least is None and distortion_at_most is None:
        return "leakage", math.inf
    return _one_demand(leakage, error_at_least, distortion_at_most)


def _constraints(given: Any) -> tuple[Any, ...]:
    from understudy.randomizer.constrained.base import as_constraints

    return as_constraints(given)


def _solved_with(
    cost: Array,
    p: Array,
    demand: tuple[str, Any],
    constraints: tuple[Any, ...],
    family: Family | None = None,
    found: Costs | None = None,
    leak: Charge | None = None,
) -> Design:
    """A design that keeps constraints; what makes it is loaded when one is asked for."""
    from understudy.randomizer.constrained.designing import Asked, solved_with

    return solved_with(cost, p, Asked(demand, constraints, leak), family, found)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise DesignError(f"{name} = {value!r}; it must be a number")
    return float(value)
