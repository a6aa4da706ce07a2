"""`us.design_causal`: a randomizer with memory, for a private parameter that moves.

Independent draws at every step give a parameter away that stays where it is for long: each draw tells a little, and all
tell about the same. A randomizer that remembers its draws tells only what is new. It takes what everybody who saw its
draws believes of theta_k for the prior, and draws by the kernel that is optimal for it, at one slope for all
decisions (`beliefs.py`). What the sequence tells is the sum of what its draws tell, given those before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from understudy.distortion.cost import Costs, costs
from understudy.distortion.measure import Function
from understudy.distortion.methods import Progress
from understudy.errors import DesignError, InfeasibleError, ModelError
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.randomizer.beliefs import Beliefs, BeliefState, Draw, as_slope, as_transitions, expected_cost
from understudy.randomizer.budget import nats
from understudy.randomizer.causal_limit import LongRun, long_run
from understudy.randomizer.charge import is_approximate
from understudy.randomizer.measures import entropy
from understudy.randomizer.problem import as_cost

_ROUNDS = 80


class CausalDesign(Frozen):
    """A causal randomizer with what it tells and costs; `us.design_causal` makes one.

    `rate` is the expected leakage in nats a decision in the long run and `distortion` the expected surrogate
    distortion, both with standard errors that are 0 unless they were simulated (`long_run.how`). The first decision
    is apart: `first_charge` and `first_distortion`. `slope` is what a unit of distortion is worth, in nats.

    The state is explicit and decisions are pure functions of it, but for the coins.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.01, distortion="mae")
    >>> made
    CausalDesign(2 x 2, rate=0.01, distortion=2.57812, slope=0.105737)
    >>> state, pseudo, charge = made.draw(made.start(), theta=1)
    >>> state, pseudo in (0, 1), charge == made.first_charge
    (BeliefState(decisions=1), True, True)
    """

    __slots__ = (
        "_fingerprint", "_given", "_rows", "beliefs", "costs", "decision_every", "demand", "family",
        "first_charge", "first_distortion", "long_run", "pseudo",
    )  # fmt: skip

    def __init__(
        self,
        family: Family,
        beliefs: Beliefs,
        pseudo: Sequence[Any],
        settled: LongRun,
        choices: dict[str, Any],
    ) -> None:
        self.family, self.beliefs, self.long_run = family, beliefs, settled
        self.pseudo: tuple[Any, ...] = tuple(pseudo)
        self.costs: Costs | None = choices["costs"]
        self.decision_every: int = choices["decision_every"]
        self.demand: tuple[str, Any] = choices["demand"]
        self._given = choices["given"]
        self._rows = _positions(family.values)
        self._fingerprint: list[str] = []
        kernel = beliefs.kernel(beliefs.start().belief)
        self.first_charge: float = beliefs.charge(beliefs.prior.tolist(), kernel)
        self.first_distortion: float = expected_cost(beliefs.prior.tolist(), kernel, beliefs.cost)

    def __reduce__(self) -> tuple[Any, ...]:
        choices = {"costs": self.costs, "decision_every": self.decision_every, "demand": self.demand}
        choices["given"] = self._given
        return type(self), (self.family, self.beliefs, self.pseudo, self.long_run, choices)

    def __repr__(self) -> str:
        m, n = self.beliefs.cost.shape
        rate, distortion = _with_error(self.rate, self.rate_error), _with_error(self.distortion, self.distortion_error)
        return f"CausalDesign({m} x {n}, rate={rate}, distortion={distortion}, slope={self.slope:.6g})"

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        return self.family.values

    @property
    def slope(self) -> float:
        """Nats that a unit of distortion is worth."""
        return self.beliefs.slope

    @property
    def rate(self) -> float:
        """Expected nats a decision, in the long run."""
        return self.long_run.rate

    @property
    def rate_error(self) -> float:
        """Its standard error, 0 if it was not simulated."""
        return self.long_run.rate_error

    @property
    def distortion(self) -> float:
        """The expected surrogate distortion in the long run: that of models whose parameter stays."""
        return self.long_run.distortion

    @property
    def distortion_error(self) -> float:
        """Its standard error, 0 if nothing was simulated."""
        return self.long_run.distortion_error

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel at a belief, (m, n), in whole numbers of 2^-53."""
        return self.beliefs.kernel(self._checked(belief))

    def start(self) -> BeliefState:
        """The state before the first decision."""
        return self.beliefs.start()

    def row(self, theta: Any) -> int:
        """Where a value of the private parameter stands."""
        try:
            return self._rows[theta]
        except (KeyError, TypeError):
            for i, known in enumerate(self.values):
                if np.array_equal(known, theta):
                    return i
        raise DesignError(f"the design has no row for a value of type {type(theta).__name__}")

    def draw(
        self, state: BeliefState, theta: Any, rng: np.random.Generator | None = None, left: float = math.inf
    ) -> Draw:
        """One decision: the state after it, the position of the pseudo value, and the nats that it told.

        The random source is the operating system's; a `rng` is for simulations and tests. A decision that would tell
        more than the `left` nats is made without a look at theta, and tells nothing.
        """
        return self.beliefs.draw(state, self.row(theta), rng, left)

    def next_charge(self, state: BeliefState) -> float:
        """The nats that the next decision will tell: known before it is made, from the pseudo past alone."""
        return self.beliefs.charge(state.belief, self.beliefs.kernel(state.belief))

    def expected_leakage(self, decisions: int) -> float:
        """Nats that so many decisions tell on average, the first apart and the others at the long-run rate."""
        return self.first_charge + max(0, decisions - 1) * self.rate if decisions > 0 else 0.0

    @property
    def numbers(self) -> dict[str, Any]:
        """All numbers that the design rests on, as plain lists."""
        return {
            "prior": self.beliefs.prior.tolist(),
            "transitions": self.beliefs.transitions.tolist(),
            "cost": [[x if math.isfinite(x) else "inf" for x in row] for row in self.beliefs.cost.tolist()],
            "slope": self.slope if math.isfinite(self.slope) else "inf",
            "decision_every": self.decision_every,
        }

    @property
    def fingerprint(self) -> str:
        """Tells this design from another; says nothing about the private parameter."""
        from understudy.models.fingerprint import fingerprint
        from understudy.models.keys import value_to_plain

        if not self._fingerprint:
            values, pseudo = ([value_to_plain(v) for v in those] for those in (self.values, self.pseudo))
            models = [_told(self.family.model(v)) for v in (*self.values, *self.pseudo)]
            told = {"causal": self.numbers, "values": values, "pseudo": pseudo, "models": models}
            self._fingerprint.append(fingerprint(told))
        return self._fingerprint[0]

    def _checked(self, belief: Sequence[float]) -> list[float]:
        b = [float(x) for x in belief]
        if len(b) != len(self.values) or not all(0.0 <= x <= 1.0 for x in b) or abs(math.fsum(b) - 1.0) > 1e-9:
            raise DesignError(f"a belief must hold {len(self.values)} probabilities that sum to 1")
        return b


def design_causal(
    family: Family,
    transition: Any,
    pseudo: Iterable[Any] | None = None,
    *,
    rate: Any = None,
    slope: Any = None,
    decision_every: int = 1,
    horizon: int | None = None,
    distortion: str | Function | Any = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    rng: Any = None,
    progress: Progress | None = None,
) -> CausalDesign:
    """The causal randomizer for a private parameter that is a Markov chain.

    `transition` (m, m) takes theta from one decision to the next, the first of which has the family's prior; a
    sequence of matrices is used in turn, for the time of day. `pseudo` are the values that may be played. Either
    `rate`, the expected leakage in nats a decision ("0.1 bit" may be written), or `slope` is given; with a rate the
    slope is found at which the long run tells as much, or less. `decision_every` is the number of readings a decision
    is for.

    `horizon`, `distortion`, `weights`, `accuracy`, `rng` and `progress` say how the surrogate distortion is found, as
    in `us.costs`: that of a pair of values that stay, over the horizon or in the limit. A matrix (m, n) in place of
    the distortion is taken as it is. What a pair of moving paths really costs is told by `path_distortion`.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> made = design_causal(family, [[0.9, 0.1], [0.1, 0.9]], slope=2.0, distortion=[[0, 1], [1, 0]])
    >>> round(made.rate, 6), round(made.distortion, 6), round(made.first_charge, 6)
    (0.128572, 0.119203, 0.327813)
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family")
    if (rate is None) == (slope is None):
        raise DesignError(f"{'both' if rate is not None else 'none'} of rate and slope given; exactly one is needed")
    if isinstance(decision_every, bool) or not isinstance(decision_every, (int, np.integer)) or decision_every < 1:
        raise DesignError(f"decision_every = {decision_every!r}; it must be a whole number of readings, 1 or more")
    target = None if rate is None else as_rate(rate, family)
    wanted = None if slope is None else as_slope(slope)
    T = as_transitions(transition, len(family.values))
    names = family.values if pseudo is None else tuple(pseudo)
    _check_path(family, names)
    found: Costs | None = None
    if isinstance(distortion, str) or callable(distortion):
        found = costs(family, names, horizon, distortion, weights, accuracy, rng, progress)
        matrix = np.array(found.matrix)
    else:
        matrix = as_cost(distortion)
        if matrix.shape != (len(family.values), len(names)):
            raise DesignError(
                f"distortion has shape {matrix.shape}; it must have a row for each of the {len(family.values)} "
                f"values and a column for each of the {len(names)} pseudo values"
            )
    if wanted is not None:
        beliefs = Beliefs(family.prior, T, matrix, wanted)
        settled = long_run(beliefs, rng)
    else:
        beliefs, settled = _at_rate(Beliefs(family.prior, T, matrix, math.inf), target or 0.0, rng)
    given = None if found is None else (distortion, weights)
    demand = ("rate", target) if slope is None else ("slope", wanted)
    choices = {"costs": found, "decision_every": int(decision_every), "demand": demand, "given": given}
    return CausalDesign(family, beliefs, names, settled, choices)


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


def _at_rate(most: Beliefs, rate: float, rng: Any) -> tuple[Beliefs, LongRun]:
    """The largest slope that is found to tell no more than the rate, in the long run."""

    def at(slope: float) -> tuple[Beliefs, LongRun]:
        beliefs = Beliefs(most.prior, most.transitions, most.cost, slope)
        return beliefs, long_run(beliefs, rng)

    everything = most, long_run(most, rng)
    if everything[1].rate <= rate:
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


def _check_path(family: Family, pseudo: Sequence[Any]) -> None:
    if not pseudo:
        raise DesignError("pseudo is empty; there must be at least one value")
    for value in family.values:
        if is_approximate(family.model(value)):
            raise DesignError(
                f"the model of {value!r} is approximate, and what a path of such models gives away is not known; "
                "a causal design needs exact models"
            )
    family.along(family.values)  # members that cannot follow each other are refused, saying why
    family.along(pseudo)


def _told(model: Model) -> dict[str, Any]:
    from understudy.models.stored import to_plain

    try:
        return to_plain(model)
    except ModelError:
        return {"kind": type(model).__name__, "dim": int(model.dim), "functions": True}


def _positions(values: Sequence[Any]) -> dict[Any, int]:
    return {value: i for i, value in enumerate(values) if getattr(value, "__hash__", None) is not None}


def _with_error(value: float, error: float) -> str:
    return f"{value:.6g}" if not error > 0.0 else f"{value:.4g} +- {error:.1g}"
