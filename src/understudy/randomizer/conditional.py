"""A public clock: one design for each time of day.

The time is public, and it is informative about Theta. With p_s = Pr(Theta given clock s), a kernel P_s for each s, and
weights pi_s for the share of draws made at s, the mean distortion is minimised subject to ::

    I(Theta; ~Theta given clock) = sum_s pi_s I(p_s, P_s) <= I_0

At the optimum the curves D_s(I) of all s have the same slope: nothing is gained by moving leakage from one time to
another. The tangents of the curves at this slope add up to the proof. The split "same leakage" bounds the leakage at
each s instead.

`design_conditional` and `solve_conditional` make a `ConditionalDesign`, whose ``at(s)`` is the design in force at s.
The information of the clock itself, I(Theta; clock), is not protected by any randomizer, and is reported.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Progress, Seed, Value
from understudy.distortion.costs import Costs, costs
from understudy.distortion.measures import Function
from understudy.errors import ConfigurationError, DesignError
from understudy.models.family import Family
from understudy.randomizer.design import Design, solve_demand
from understudy.randomizer.measures import entropy
from understudy.randomizer.residual import Charge, charge
from understudy.randomizer.solver import (
    as_cost,
    as_prior,
    at_slope,
    closed,
    information,
    kernels,
    least_told,
    minimise,
    nats,
    view,
)

# The designs of a clock --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConditionalDesign:
    """A design for each value of a public clock; `us.design_conditional` makes one.

    ``at(s)`` is the `Design` in force at s, with its own prior, budget, streams and card. `distortion` and `leakage`
    are means over the clock, weighed by `weights`; no randomizers with a mean leakage within the budget (with the
    split "same leakage": each within it) have a mean distortion below `lower_bound`. All curves have the slope `slope`.
    """

    kind: ClassVar[str] = "conditional"

    times: tuple[Hashable, ...]
    designs: tuple[Design, ...]
    weights: Array
    distortion: float
    lower_bound: float
    gap: float
    budget: float
    demand: tuple[float | str, str]
    status: str
    slope: float

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    def __repr__(self) -> str:
        m, n = self.designs[0].randomizer.kernel.shape
        return (
            f"ConditionalDesign({len(self.times)} times, {m} x {n}, distortion={self.distortion:.6g}, "
            f"leakage={self.leakage:.6g}, {self.status})"
        )

    def __str__(self) -> str:
        return self.card()

    def __len__(self) -> int:
        return len(self.times)

    def at(self, s: Hashable) -> Design:
        """The design in force when the clock says s."""
        try:
            return self.designs[self.times.index(s)]
        except ValueError:
            raise DesignError(f"the clock has no value {s!r}; it has {list(self.times)!r}") from None

    @property
    def split(self) -> str:
        """How the leakage is split over the clock."""
        return self.demand[1]

    @property
    def leakage(self) -> float:
        """I(Theta; ~Theta given clock): the leakage of a draw given the time, the mean over the clock, in nats."""
        return min(self.budget, math.fsum(self.weights * [design.leakage for design in self.designs]))

    @property
    def total_leakage(self) -> float:
        """The same with what approximate models give away themselves."""
        return math.fsum(self.weights * [design.total_leakage for design in self.designs]) * (1.0 + 1e-15)

    @property
    def leakages(self) -> dict[Hashable, float]:
        """The leakage of a draw at each value of the clock."""
        return {s: design.leakage for s, design in zip(self.times, self.designs, strict=True)}

    @property
    def errors(self) -> dict[Hashable, float]:
        """How often every guess is wrong, at least, by somebody who sees the time and the readings."""
        return {s: design.guarantee.bayes_error for s, design in zip(self.times, self.designs, strict=True)}

    @property
    def worst(self) -> Hashable:
        """The value of the clock at which guesses are wrong least often, of those that occur."""
        found = self.errors
        occurring = [s for s, w in zip(self.times, self.weights, strict=True) if w > 0.0]
        return min(occurring, key=lambda s: found[s])

    @property
    def clock_information(self) -> float:
        """I(Theta; clock): the information of the time itself, which no randomizer hides."""
        overall = self.weights @ [design.prior for design in self.designs]
        given = math.fsum(self.weights * [entropy(design.prior) for design in self.designs])
        return max(0.0, entropy(overall / math.fsum(overall)) - given)

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence, conditions included."""
        charge = self.designs[0].charge
        horizon = None if charge is None else charge.horizon
        return text.conditional_claim(self.total_leakage, self.errors[self.worst], self.worst, horizon)

    def card(self, width: int = 100) -> str:
        """What holds on the whole and at each value of the clock, as plain text."""
        lines = [
            *textwrap.wrap(self.headline, width),
            "",
            f"distortion       {self.distortion:.6g}, at least {self.lower_bound:.8g} for any randomizers "
            f"within the budget ({self.status}; {self.split})",
            f"leakage          {text.number(self.leakage, 'up')} nats given the clock (budget {self.budget:.6g})",
            f"the time alone   {text.number(self.clock_information, 'up')} nats, which nothing here hides",
            "",
            f"{'time':16}{'weight':>9}{'distortion':>13}{'nats':>11}{'wrong before':>15}{'wrong after':>14}",
        ]
        for s, w, design in zip(self.times, self.weights, self.designs, strict=True):
            g = design.guarantee
            before, after = text.percent(g.prior_error, "down"), text.percent(g.bayes_error, "down")
            leakage = text.number(design.leakage, "up")
            lines.append(f"{s!s:16}{w:9.3f}{design.distortion:13.6g}{leakage:>11}{before:>15}{after:>14}")
        lines += ["", *textwrap.wrap(_CONDITIONS, width)]
        return "\n".join(lines)


_CONDITIONS = (
    "Each draw is for one epoch, over which the parameter is constant, and tells what its line says. A parameter that "
    "lasts over several draws is told about again by each: the leakages then add up, at most."
)


# Solving for all times at once ---------------------------------------------------------------------------


SAME_SLOPE, SAME_LEAKAGE = "same slope", "same leakage"
_ROUNDS = 200


class _Tangent(NamedTuple):
    """One time of day at a slope: the leakage of its kernel, and what no I + slope * (D - lowest) goes below."""

    leakage: float
    bound: float


def solve_conditional(
    cost: ArrayLike,
    priors: Mapping[Hashable, ArrayLike],
    weights: Mapping[Hashable, float] | None = None,
    *,
    leakage: float | str,
    split: str = SAME_SLOPE,
) -> ConditionalDesign:
    """Randomizers for a public clock on a bare cost matrix; see `design_conditional`.

    >>> import numpy as np
    >>> found = solve_conditional(1 - np.eye(2), {"night": [0.95, 0.05], "day": [0.4, 0.6]}, leakage=0.2)
    >>> found
    ConditionalDesign(2 times, 2 x 2, distortion=0.063829, leakage=0.2, optimal)
    >>> found.leakages["night"] < found.leakages["day"]
    True
    """
    matrix = as_cost(cost)
    times, P, pi = _clock(priors, weights, matrix.shape[0])
    return _build(matrix, (times, P, pi), leakage, _split(split), None, None, None)


def design_conditional(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    priors: Mapping[Hashable, ArrayLike],
    weights: Mapping[Hashable, float] | None = None,
    leakage: float | str,
    split: str = SAME_SLOPE,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    channel_weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
) -> ConditionalDesign:
    """A randomizer for each value of a public clock, such as the hour of the day.

    `priors` holds for each value s of the clock the prior of the private parameter then; `weights` how often a draw is
    made at s, equally often by default. `leakage` bounds I(Theta; ~Theta given clock), the mean over the clock, with
    `split` "same slope", which makes the mean distortion least; or, with "same leakage", the leakage at every single
    s. In percent it is a share of the entropy given the clock. `channel_weights` are the weights of `us.design`, the
    other arguments as there. ``found.at(s)`` is the design in force at s.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    >>> prior = {"night": [0.9, 0.08, 0.02], "day": [0.2, 0.3, 0.5]}
    >>> found = design_conditional(family, priors=prior, weights={"night": 2, "day": 1}, leakage="30%",
    ...                            distortion="mae")
    >>> found.at("day")
    Design(3 x 3, distortion=0.514803, leakage=0.515991, optimal)
    >>> found.worst
    'night'
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family (solve_conditional takes costs)")
    times, P, pi = _clock(priors, weights, len(family.values))
    chosen = _split(split)
    overall = family_at(family, as_prior(pi @ P, len(family.values)))
    leak = charge(overall, horizon, rng)
    found = costs(overall, pseudo, horizon, distortion, channel_weights, accuracy, rng, progress)
    return _build(np.array(found.matrix, order="C"), (times, P, pi), leakage, chosen, family, found, leak)


def clock_priors(family: Family, floor: float = 0.0) -> dict[int, Array]:
    """What the hour of the day says about the parameter, hour by hour, as `us.fit` found it.

    `floor` mixes equal probabilities in, so that no value is impossible at an hour at which it was never seen.

    >>> import understudy as us
    >>> chain = {"values": [0, 1], "by_hour": [[1.0, 0.0]] * 8 + [[0.25, 0.75]] * 16}
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1], about={"chain": chain})
    >>> clock_priors(family, floor=0.1)[3].round(6).tolist()
    [0.95, 0.05]
    """
    from understudy.serialize import value_from_plain

    chain = (family.about or {}).get("chain")
    if not isinstance(chain, dict) or chain.get("by_hour") is None:
        raise ConfigurationError("the family does not say what the clock tells; us.fit does, of data with times")
    if not (isinstance(floor, (int, float)) and 0.0 <= floor < 1.0):
        raise ConfigurationError(f"floor = {floor!r}; it must be a share, from 0 to less than 1")
    named = [value_from_plain(value) for value in chain["values"]]
    try:
        order = [named.index(value) for value in family.values]
    except ValueError:
        raise ConfigurationError("the clock of the family is one for other values than it has") from None
    m = len(order)
    table = np.asarray(chain["by_hour"], dtype=float)[:, order]
    return {hour: as_prior((1.0 - floor) * row / row.sum() + floor / m, m) for hour, row in enumerate(table)}


def family_at(family: Family, prior: Array) -> Family:
    """The family with another prior; its models stay those that were worked out."""
    return Family(family.model, family.values, prior, family.about)


def _split(split: str) -> str:
    if split not in (SAME_SLOPE, SAME_LEAKAGE):
        raise DesignError(f"split = {split!r}; it must be {SAME_SLOPE!r} or {SAME_LEAKAGE!r}")
    return str(split)


def _clock(
    priors: Mapping[Hashable, ArrayLike], weights: Mapping[Hashable, float] | None, m: int
) -> tuple[tuple[Hashable, ...], Array, Array]:
    """Values of the clock, their priors (S, m) and weights (S,)."""
    if not isinstance(priors, Mapping):
        raise DesignError(
            f"priors is a {type(priors).__name__}; it must be a mapping with a prior for each value of the clock"
        )
    if not priors:
        raise DesignError("priors is empty; it must give a prior for at least one value of the clock")
    times = tuple(priors)
    P = np.stack([_prior_at(s, priors[s], m) for s in times])
    if weights is None:
        return times, P, np.full(len(times), 1.0 / len(times))
    if not isinstance(weights, Mapping) or set(weights) != set(times):
        raise DesignError("weights must give one number for each value of the clock that has a prior")
    try:
        pi = np.array([float(weights[s]) for s in times])
    except (TypeError, ValueError):
        raise DesignError("weights must be numbers, how often a draw is made at each value of the clock") from None
    if not (np.isfinite(pi).all() and (pi >= 0.0).all() and pi.sum() > 0.0):
        raise DesignError(f"weights = {pi.tolist()}; they must be 0 or more, and one of them positive")
    return times, P, pi / pi.sum()


def _prior_at(time: Hashable, prior: ArrayLike, m: int) -> Array:
    try:
        return as_prior(prior, m)
    except DesignError as error:
        raise DesignError(f"priors[{time!r}]: {error}") from error


def _build(
    cost: Array,
    clock: tuple[tuple[Hashable, ...], Array, Array],
    leakage: float | str,
    split: str,
    family: Family | None,
    found: Costs | None,
    leak: Charge | None,
) -> ConditionalDesign:
    times, P, pi = clock
    budget = nats(leakage, float(pi @ [entropy(p) for p in P]))
    leaks = [None if leak is None else Charge.of(p, leak.charged, leak.horizon, leak.how) for p in P]
    rest = [0.0 if one is None else one.total for one in leaks]
    if split == SAME_LEAKAGE:
        spent, slope = [budget] * len(times), math.nan
    else:
        left = budget - float(pi @ rest) * (1.0 + 1e-15)
        if left < 0.0 and leak is not None:
            leak.left_for_the_draw(budget)  # says by how much
            left = 0.0
        draws, slope = shares(cost, P, pi, left)
        spent = [x + y for x, y in zip(draws, rest, strict=True)]
    designs = [
        solve_demand(cost, p.copy(), ("leakage", x), None if family is None else family_at(family, p), found, one)
        for p, x, one in zip(P, spent, leaks, strict=True)
    ]
    lower = math.fsum(pi * [design.lower_bound for design in designs])
    if split == SAME_SLOPE and 0.0 < slope < math.inf:
        lower = max(_lower(cost, P, pi, slope * f, left) for f in (1.0, 1.0 - 1e-9, 1.0 + 1e-9))
    return _sum_up(times, pi, designs, budget, (leakage, split), slope, lower)


def _sum_up(
    times: tuple[Hashable, ...],
    pi: Array,
    designs: list[Design],
    budget: float,
    demand: tuple[float | str, str],
    slope: float,
    lower: float,
) -> ConditionalDesign:
    units = (len(times) + 4) * 2.0**-53
    distortion = math.fsum(pi * [design.distortion for design in designs]) * (1.0 + units)
    lower = min(lower * (1.0 - units), distortion)
    # above what is cheapest for every value, which nobody goes below
    least = math.fsum(
        w * math.fsum(p * low for p, low in zip(design.prior, design.cost.min(axis=1), strict=True) if p > 0.0)
        for w, design in zip(pi, designs, strict=True)
    )
    excess = max(distortion - least, 0.0)
    rounding = (4.0 * units + 8e-15) * distortion
    proven = (
        all(design.status == "optimal" for design in designs)
        if demand[1] == SAME_LEAKAGE
        else closed(excess, excess - (distortion - lower), rounding)
    )
    return ConditionalDesign(
        times, tuple(designs), pi, distortion, lower, max(distortion - lower, 0.0), budget, demand,
        "optimal" if proven else "inexact", slope,
    )  # fmt: skip


def shares(cost: Array, P: Array, pi: Array, budget: float) -> tuple[list[float], float]:
    """The leakage of each time of day so that the mean is the budget and all curves have one slope; and that slope."""
    used = [k for k in range(len(pi)) if pi[k] > 0.0]
    most = [minimise(cost, p, math.inf).leakage for p in P]
    least = [least_told(cost, p)[1] for p in P]
    if math.fsum(pi[k] * most[k] for k in used) <= budget:
        return [x * (1.0 + 1e-12) for x in most], math.inf
    if budget == 0.0:
        return [0.0] * len(pi), 0.0

    def leakages_at(slope: float) -> list[float]:
        return [_tune(cost, p, slope).leakage if w > 0.0 else 0.0 for p, w in zip(P, pi, strict=True)]

    def mean(leakages: list[float]) -> float:
        return math.fsum(pi[k] * leakages[k] for k in used)

    p = pi @ P
    slope = minimise(cost, p / p.sum(), budget).slope if np.isfinite(cost).all() else 1.0
    slope = slope if 0.0 < slope < math.inf else 1.0
    low, high = (0.0, least), (math.inf, most)
    for _ in range(_ROUNDS):
        now = leakages_at(slope)
        spent = mean(now)
        low, high = ((slope, now), high) if spent <= budget else (low, (slope, now))
        if abs(spent - budget) <= 1e-14 * budget or high[0] - low[0] <= 1e-15 * low[0]:
            break
        slope = _between(low[0], high[0], mean(low[1]), mean(high[1]), budget)
    # where a curve is straight its leakage jumps with the slope: the same share of each jump
    below, above = mean(low[1]), mean(high[1])
    t = (budget - below) / (above - below) if above > below else 0.0
    found = [x + t * (y - x) for x, y in zip(low[1], high[1], strict=True)]
    return _within_budget(found, pi, budget), slope


def _between(low: float, high: float, below: float, above: float, wanted: float) -> float:
    """A slope between two: by the logarithm, drawn to where the line through both meets the budget."""
    if low == 0.0:
        return high / 4.0
    if high == math.inf:
        return low * 4.0
    share = (wanted - below) / (above - below) if above > below else 0.5
    share = min(max(share, 0.02), 0.98) if high > 1.0001 * low else 0.5
    return float(low * (high / low) ** share)


def _within_budget(leakages: list[float], pi: Array, budget: float) -> list[float]:
    """The same, a little less where rounding would exceed the budget."""
    weights = [Fraction(w) for w in pi.tolist()]
    for k in range(40):
        lowered = [x * (1.0 - (2.0**k) * 2e-16) if k else x for x in leakages]
        if sum(w * Fraction(x) for w, x in zip(weights, lowered, strict=True)) <= Fraction(budget):
            return lowered
    return [0.0] * len(leakages)


def _tune(cost: Array, p: Array, slope: float) -> _Tangent:
    """The least I + slope * (D - lowest) of a time of day: the leakage of the kernel there, and a proven bound."""
    m, n = cost.shape
    L, base, r = np.empty(m * n), np.empty(m * n), np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(base), view(r))
    if code:
        minimise(cost, p, math.inf)  # raises, saying what is wrong
    b = slope * float(r[1])
    if not 0.0 < b < math.inf:
        return _Tangent(0.0, 0.0)
    kernels.saturated(view(L), m, n, view(base))
    found = at_slope(L, p, b, base)
    return _Tangent(information(p, found.kernel), max(0.0, found.bound - found.rounding))


def _lower(cost: Array, P: Array, pi: Array, slope: float, budget: float) -> float:
    """What no randomizers within the budget go below: the tangents of all curves at one slope, added up."""
    total, scale = 0.0, 0.0
    for p, w in zip(P, pi, strict=True):
        if w > 0.0:
            # D_s >= lowest + (bound - I_s) / slope for every kernel
            lowest = math.fsum(p[p > 0.0] * cost.min(axis=1)[p > 0.0])
            total += w * (lowest + _tune(cost, p, slope).bound / slope)
            scale += w * lowest
    return total - budget / slope - 4e-15 * (scale + budget / slope)
