"""`us.design_causal`: a randomizer with memory, for a private parameter that is a Markov chain.

Independent draws at every step disclose a parameter that changes slowly: each draw leaks a little, and all leak about
the same value. A randomizer that remembers its draws leaks only what is new. Before each decision it computes the
posterior of theta_k given its own earlier draws (`understudy.randomizer.causal_guarantee`). It takes this posterior for
the prior, and draws from the kernel that is optimal for it at one slope s, in nats a unit of distortion. By the chain
rule the leakage of the sequence is the sum of the conditional leakages of its draws.

- `design_causal` takes the slope, or finds it from a leakage rate in nats a decision by a root search over the rates of
  the long run.
- `CausalDesign` holds the belief recursion and its long run. Decisions are pure functions of an explicit state, except
  for the random draw. It is what a stream asks (`understudy.stream.engine.CausalPolicy`).
- `at_most` converts a budget for a day into a rate; `per_day` is the reverse. `was_ever` is the accuracy of the
  exact adversary on a question about a window of time.
- `path_distortion` and `true_distortion` are the distortion along paths that move. A decision itself is made with a
  surrogate, the distortion of two values that stay (`us.costs`), because it must not depend on the readings.

A file holds the prior, the transitions, the costs and the slope; kernels follow from these. The long run is computed
again on loading, and a file that claims another one is refused. Where it was simulated, both must agree within six
standard errors, and the claim is kept.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Frozen, Plain, Progress, Seed, Value
from understudy.distortion.costs import SEED, Costs, costs
from understudy.distortion.measures import Function, Measure
from understudy.errors import ConfigurationError, DesignError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.randomizer.causal_guarantee import (
    Beliefs,
    BeliefState,
    CausalCard,
    Draw,
    LongRun,
    as_slope,
    as_transitions,
    causal_card,
    expected_cost,
    long_run,
    mean,
    play,
)
from understudy.randomizer.design import (
    MORE_FIELDS,
    SHARED_FIELDS,
    AnyDesign,
    Choices,
    begin_or_open,
    equal_values,
    shared_content,
    shared_parts,
    stored_terms,
)
from understudy.randomizer.least_change import (
    LEAST_CHANGE,
    LIFELIKE,
    LeastChange,
    Recording,
    check_output,
    fit_with_kernel,
    measured_costs,
    runs_of,
)
from understudy.randomizer.measures import entropy
from understudy.randomizer.residual import Approximate
from understudy.randomizer.routine import WEEK, find_routine, offset_of
from understudy.randomizer.solver import as_cost, nats
from understudy.serialize import (
    entries,
    matrix_from_plain,
    number_from_plain,
    number_to_plain,
    truth,
)
from understudy.stream.cadence import Duration
from understudy.stream.engine import DESIGN_PRIOR, Clock
from understudy.stream.ledger import Ledger
from understudy.stream.release import DEFAULT_TERMS, Terms
from understudy.stream.stream import Stream
from understudy.transform.core import as_share
from understudy.transform.readings import Resolution

if TYPE_CHECKING:
    from understudy.randomizer.estimation import Estimator

# The slope of a leakage rate ---------------------------------------------------------------------------


_ROUNDS = 80
_LEAST_SLOPE, _MOST_SLOPE = 1e-9, 1e6  # between which slopes are sought, a unit being the best constant column
_NOTHING = 1e-9  # nats a decision: a chain that leaks no more in the long run has settled


def as_rate(rate: float | str, family: Family) -> float:
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


def at_rate(most: Beliefs, rate: float, rng: Seed) -> tuple[Beliefs, LongRun]:
    """The largest slope found whose leakage in the long run is at most the rate."""
    from scipy.optimize import brentq

    def at(slope: float) -> tuple[Beliefs, LongRun]:
        beliefs = Beliefs(most.prior, most.transitions, most.cost, slope)
        return beliefs, long_run(beliefs, rng)

    everything = most, long_run(most, rng)
    if everything[1].rate <= rate:
        if everything[1].rate <= _NOTHING < entropy(most.prior) and most.cost.shape[1] > 1:
            raise DesignError(
                f"rate = {rate:.6g} nats a decision; by these transitions the parameter settles, so that any slope has "
                "the rate 0 in the long run and a rate says nothing about the first decisions: use us.design for a "
                "parameter that stays, or give a slope"
            )
        return everything
    anything = bool(np.isfinite(most.cost).all(axis=0).any())  # whether a decision may leak nothing
    if rate == 0.0 and anything:
        return at(0.0)
    best, least = None, math.inf

    @cache
    def excess(x: float) -> float:
        """The rate at the logarithm of a slope, above the one that is wanted; 0 where that is met."""
        nonlocal best, least
        found = at(math.exp(x))
        least = min(least, found[1].rate)
        over = found[1].rate - rate
        if over <= 0.0 and (best is None or found[0].slope > best[0].slope):
            best = found
        # a simulated rate is met to half its standard error: the same random numbers serve at every slope
        return 0.0 if -1e-8 * rate - 0.5 * found[1].rate_error <= over <= 0.0 else over

    # first a bracket, by steps of a factor of 4
    here = -math.log(most.scale)
    start = over = excess(here)
    step = math.log(4.0 if anything or over <= 0.0 else 64.0)
    while over * start > 0.0 and _LEAST_SLOPE < math.exp(here) * most.scale < _MOST_SLOPE:
        there, here = here, here - math.copysign(step, start)
        over = excess(here)
    if over * start < 0.0:
        # a rate that jumps is left where it jumps; a simulated one does so at every slope
        tolerance = 1e-3 if everything[1].how == "simulation" else 1e-12
        brentq(excess, there, here, xtol=tolerance, rtol=1e-14, maxiter=_ROUNDS, disp=False)
    if best is None:
        if anything:
            return at(0.0)
        raise InfeasibleError(
            f"rate = {rate:.6g} nats a decision; the forbidden pairs (infinite costs) need about {least:.3g}"
        )
    return best


# The causal design -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CausalChoices:
    """What a causal design was made with, besides models, beliefs and pseudo values.

    `demand` is the rate or the slope that was asked for. `given` is the distortion of readings and its weights; None
    where a matrix of costs was given instead.
    """

    costs: Costs | None
    decision_every: int
    demand: tuple[str, float]
    given: tuple[str | Function, ArrayLike | None] | None
    estimated: bool = False
    terms: Terms = DEFAULT_TERMS
    clock: PublicClock | None = None


class PublicClock(NamedTuple):
    """The clock of a design whose transitions are those of a week: seconds of a decision, and ahead of UTC.

    Of a zone with a name, `offset` is the one that decisions are numbered by; summer time moves the `place`.
    """

    tick: int
    offset: int
    zone: str | None = None

    def place(self, tick: int) -> int:
        """The decision of the week, counted on from week to week, that the clock on the wall shows at a tick.

        >>> winter, summer = 1_767_607_200, 1_783_328_400  # mornings in 2026 at 11 in Berlin, in UTC
        >>> clock = PublicClock(3600, 3600, "Europe/Berlin")
        >>> [clock.place((seconds + 3600) // 3600) % 24 for seconds in (winter, summer)]
        [11, 11]
        """
        if self.zone is None:
            return tick
        began = tick * self.tick - self.offset
        return (began + offset_of(self.zone, began)) // self.tick

    def to_plain(self) -> list[int | str]:
        """As files hold it."""
        return [self.tick, self.offset] if self.zone is None else [self.tick, self.offset, self.zone]


class CausalDesign(AnyDesign, Frozen):
    """A causal randomizer with its leakage and its distortion; `us.design_causal` makes one.

    `rate` is the expected leakage in nats a decision in the long run and `distortion` the expected surrogate
    distortion, both with standard errors that are 0 unless they were simulated (`long_run.how`). The first decision
    is apart: `first_charge` and `first_distortion`. `slope` is what a unit of distortion is worth, in nats.

    The state is explicit and decisions are pure functions of it, except for the random draw.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.01, distortion="mae")
    >>> made
    CausalDesign(2 x 2, rate=0.01, distortion=2.57812, slope=0.105737)
    >>> state, pseudo, charge = made.draw(made.start(), theta=1)
    >>> state, pseudo in (0, 1), charge == made.first_charge
    (BeliefState(decisions=1), True, True)
    """

    kind = "causal"
    file_kind = "causal design"

    __slots__ = (
        "_cache", "_choices", "_rows", "beliefs", "clock", "costs", "decision_every", "demand", "estimated", "family",
        "first_charge", "first_distortion", "long_run", "prior", "pseudo", "terms",
    )  # fmt: skip

    def __init__(
        self,
        family: Family,
        beliefs: Beliefs,
        pseudo: Sequence[Value],
        found: LongRun,
        choices: CausalChoices,
    ) -> None:
        self.family: Family = family
        self.prior, self.beliefs, self.long_run = beliefs.prior, beliefs, found
        self.pseudo: tuple[Any, ...] = tuple(pseudo)
        self.costs, self.decision_every, self.demand = choices.costs, choices.decision_every, choices.demand
        self.estimated, self.terms, self.clock = choices.estimated, choices.terms, choices.clock
        self._choices = choices
        self._rows = _positions(family.values)
        self._cache: dict[str, Any] = {}
        kernel = beliefs.kernel(beliefs.start().belief)
        self.first_charge: float = beliefs.charge(beliefs.prior.tolist(), kernel)
        self.first_distortion: float = expected_cost(beliefs.prior.tolist(), kernel, beliefs.cost)

    def __reduce__(
        self,
    ) -> tuple[type[CausalDesign], tuple[Family, Beliefs, tuple[Value, ...], LongRun, CausalChoices]]:
        return type(self), (self.family, self.beliefs, self.pseudo, self.long_run, self._choices)

    def __repr__(self) -> str:
        m, n = self.beliefs.cost.shape
        rate = text.with_error(self.rate, self.rate_error)
        distortion = text.with_error(self.distortion, self.distortion_error)
        noted = f", fresh={self.fresh:g}" if self.fresh else ""
        noted += f", {LEAST_CHANGE}" if self.terms.outputs is not None else ""
        noted += ", NO GUARANTEE, audit only" if self.estimated else ""
        return f"CausalDesign({m} x {n}, rate={rate}, distortion={distortion}, slope={self.slope:.6g}{noted})"

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
        """Its standard error, 0 if nothing was simulated: neither the long run nor the costs of pairs."""
        found = 0.0 if self.costs is None else float(self.costs.error.max())
        return math.hypot(self.long_run.distortion_error, found)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel at a belief, (m, n), in whole numbers of 2^-53."""
        return self.beliefs.kernel(self._check_belief(belief))

    def _is_drawn(self, column: int) -> bool:
        # without a price of distortion decisions do not depend on the belief beyond its expected cost
        at_first = self.beliefs.kernel(self.prior.tolist())[:, column]
        return bool(self.slope > 0.0 or (at_first > 0.0).any())

    def start(self, tick: int = 0) -> BeliefState:
        """The state before the first decision, at a number of the clock where transitions follow the time of day."""
        return self.beliefs.start(tick)

    def row(self, theta: Value) -> int:
        """Where a value of the private parameter stands."""
        try:
            return self._rows[theta]
        except (KeyError, TypeError):
            for i, known in enumerate(self.values):
                if equal_values(known, theta):
                    return i
        raise DesignError(f"the design has no row for a value of type {type(theta).__name__}")

    def draw(
        self, state: BeliefState, theta: Value, rng: np.random.Generator | None = None, left: float = math.inf
    ) -> Draw:
        """One decision: the state after it, the position of the pseudo value, and its leakage in nats.

        The random source is the operating system's; a `rng` is for simulations and tests. A decision that would leak
        more than the `left` nats is made without a look at theta, and leaks nothing.
        """
        return self.beliefs.draw(state, self.row(theta), rng, left)

    def stream(
        self,
        theta: Value = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        room: str | None = None,
        share: str | None = None,
        every: dt.timedelta | int | None = None,
        rng: Seed = None,
        gaps: str | None = None,
        period: Duration | None = None,
        tolerance: Duration | None = None,
        fill: bool | None = None,
    ) -> Stream:
        """A live stream that decides by the clock, and is given the private value with its readings.

        A decision is made every `decision_every` readings; with `every`, a timedelta, at the full quarters of an hour
        or whatever it is (counted from 1970, in UTC), and readings then have times. The value at the first reading
        after the clock has struck is what the decision looks at. `ledger`, `name`, `room`, `share`, `rng`, `gaps`,
        `period`, `tolerance` and `fill` are as in `Design.stream`: belief, path and charges go through the ledger. A
        decision that the budget of the room does not allow stops the stream, or, where the room holds, is made without
        a look at theta.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
        >>> flip = [[0.98, 0.02], [0.02, 0.98]]
        >>> made = design_causal(family, flip, rate=0.01, distortion="mae", decision_every=15)
        >>> stream = made.stream()
        >>> stream.apply([0.5, 0.7, 0.4], theta=[0, 0, 1]).shape
        (3,)
        >>> stream
        Stream('stream', epoch 1, 3 readings)
        """
        return self.begin(theta, ledger, Choices(name, room, share, every, rng, gaps, period, tolerance, None, fill))

    def begin(self, theta: Value, ledger: Ledger | str | os.PathLike[str] | None, choices: Choices) -> Stream:
        """Begin a stream, or go on with the one that the ledger has under this name; see `stream`."""
        every = choices.epoch
        if choices.share == "independent":
            raise ConfigurationError(
                "share = 'independent'; the decisions of one stream cannot serve another, whose readings come at other "
                "times: sensors of one room belong into one joint model (channels of one stream)"
            )
        if self.estimated and theta is not None:
            raise ConfigurationError("this design estimates the private value from the readings; theta is not for it")
        tick = Clock.as_told(self.own_epochs)
        if tick is not None and every not in (None, tick):
            raise ConfigurationError(f"every = {every!r}; this design decides by the clock, every {tick}")
        try:
            clock = self.own_epochs or Clock.checked(self.decision_every if every is None else every)
        except ConfigurationError:
            raise ConfigurationError(
                f"every = {every!r}; it must be a positive timedelta (readings with times) or a number of readings"
            ) from None
        options = {**clock, "remembers": True} | ({"estimated": True} if self.estimated else {})
        return begin_or_open(self, theta, ledger, choices, options)

    @property
    def guarantee(self) -> CausalCard:
        """What the design promises, in figures and in plain words: text, JSON and HTML."""
        return causal_card(self)

    def with_estimated_theta(self) -> CausalDesign:
        """The same design for streams that estimate the private value from the readings: no guarantee, audit only."""
        choices = replace(self._choices, estimated=True)
        return CausalDesign(self.family, self.beliefs, self.pseudo, self.long_run, choices)

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design. Kernels follow from the belief, and are not kept."""
        distortion, weights = self._choices.given or (None, None)
        given = None
        if isinstance(distortion, str):
            given = [distortion, None if weights is None else np.asarray(weights, dtype=float).tolist()]
        return (
            shared_content(self, self.beliefs.cost, models)
            | {
                "transitions": self.beliefs.transitions.tolist(),
                "slope": number_to_plain(self.slope),
                "decision_every": self.decision_every,
                "demand": [self.demand[0], number_to_plain(float(self.demand[1]))],
                "estimated": self.estimated,
                "given": given,
                "long_run": {name: getattr(self.long_run, name) for name in (*_RUN, "how", "places")},
            }
            | ({} if self.clock is None else {"clock": self.clock.to_plain()})
        )

    @classmethod
    def from_content(cls, content: Plain, family: Family | None) -> CausalDesign:
        """The design in a file; the long run that it claims is worked out again."""
        if content.keys() - MORE_FIELDS - {"clock"} != _FIELDS:
            raise StoredFileError("the fields are not those of a causal design")
        parts = shared_parts(content, family, any_prior="clock" in content)
        if parts.family is None:
            raise StoredFileError("the file holds no models; give the family that the design was made for")
        m, count = len(parts.values), len(entries("transitions", content["transitions"]))
        transitions = matrix_from_plain("transitions", content["transitions"], (count, m, m))
        beliefs = Beliefs(parts.prior, transitions, parts.cost, number_from_plain("slope", content["slope"]))
        every, given = content["decision_every"], content["given"]
        if type(every) is not int or every < 1:
            raise StoredFileError("decision_every must be a whole number")
        name, value = content["demand"]
        if name not in ("rate", "slope"):
            raise StoredFileError("demand must be of rate or slope")
        if given is not None:
            distortion, weights = given
            if type(distortion) is not str:
                raise StoredFileError("given must name a distortion")
            given = distortion, None if weights is None else np.array(weights, dtype=float)
        demand = name, number_from_plain("demand", value)
        estimated = truth("estimated", content["estimated"])
        terms = stored_terms(content, parts.family)
        clock = None
        if "clock" in content:
            kinds = [type(x) for x in entries("clock", content["clock"])]
            if kinds not in ([int, int], [int, int, str]) or content["clock"][0] * count != WEEK:
                raise StoredFileError(
                    "clock must hold two whole numbers and the name of a zone, if it has one, and its decisions must "
                    "make a week"
                )
            clock = PublicClock(*content["clock"])
        choices = CausalChoices(parts.costs, every, demand, given, estimated, terms, clock)
        return cls(parts.family, beliefs, parts.pseudo, _check_long_run(content["long_run"], beliefs), choices)

    def next_charge(self, state: BeliefState) -> float:
        """The leakage of the next decision in nats: known before it is made, from the pseudo past alone."""
        return self.beliefs.charge(state.belief, self.beliefs.kernel(state.belief))

    def expected_leakage(self, decisions: int) -> float:
        """The expected leakage of so many decisions in nats, the first apart and the others at the long-run rate."""
        return self.first_charge + max(0, decisions - 1) * self.rate if decisions > 0 else 0.0

    @property
    def numbers(self) -> Plain:
        """All numbers that the design rests on, as plain lists."""
        return {
            "prior": self.beliefs.prior.tolist(),
            "transitions": self.beliefs.transitions.tolist(),
            "cost": [[x if math.isfinite(x) else "inf" for x in row] for row in self.beliefs.cost.tolist()],
            "slope": self.slope if math.isfinite(self.slope) else "inf",
            "decision_every": self.decision_every,
        } | ({"estimated": True} if self.estimated else {})

    @property
    def essence(self) -> Plain:
        """The numbers, under the name that fingerprints have for them."""
        return {"causal": self.numbers | ({} if self.clock is None else {"clock": self.clock.to_plain()})}

    # What a stream asks of a design with memory: `understudy.stream.engine.CausalPolicy` ------------------

    @property
    def own_epochs(self) -> Plain:
        """The hours of the public clock, where there is one."""
        if self.clock is None:
            return {}
        options: Plain = dict(Clock.checked(dt.timedelta(seconds=self.clock.tick)))
        return options | ({"phase": self.clock.offset * 10**9} if self.clock.offset else {})

    def residual_of_block(self, marginal: ArrayLike | str | None = DESIGN_PRIOR) -> None:
        """None: a causal design has exact models only."""

    def opening(self, tick: int) -> CausalMemory:
        """The prior, taken to this place in the cycle of transitions."""
        if self.clock is None or self.clock.zone is None:
            return CausalMemory(self.start(tick), 0.0)
        return CausalMemory(self.start(self.clock.place(tick)), 0.0, tick)

    def advance(self, memory: CausalMemory, ticks: int) -> CausalMemory:
        """The belief moves with the parameter, whether a decision was made or not."""
        if memory.tick is None or self.clock is None:
            return CausalMemory(self.beliefs.advance(memory.state, ticks), memory.nats)
        tick = memory.tick + ticks
        places = self.clock.place(tick) - self.clock.place(memory.tick)
        return CausalMemory(self.beliefs.advance(memory.state, places), memory.nats, tick)

    def path_leakage(self, memory: CausalMemory, next_too: bool = False) -> float:
        """Nats so far, rounded up at each sum; with those of the next decision."""
        charge = self.next_charge(memory.state) if next_too else 0.0
        return math.nextafter(memory.nats + charge, math.inf) if charge > 0.0 else memory.nats

    def choose(self, memory: CausalMemory, row: int, rng: np.random.Generator | None = None) -> int:
        """A draw from the kernel of the belief."""
        return self.beliefs.draw(memory.state, row, rng).pseudo

    def quiet(self, memory: CausalMemory) -> int | None:
        """The column of least expected cost at the belief, if one is allowed to all values."""
        try:
            return self.beliefs.quiet(memory.state.belief)
        except DesignError:
            return None

    def after(self, memory: CausalMemory, column: int, quietly: bool) -> CausalMemory:
        """The belief after the draw, and after the step of the chain."""
        state, nats = memory.state, memory.nats
        if quietly:
            state = self.beliefs.after(state, None, None)
        else:
            kernel = self.beliefs.kernel(state.belief)
            state, nats = self.beliefs.after(state, kernel, column), self.path_leakage(memory, next_too=True)
        if memory.tick is None or self.clock is None:
            return CausalMemory(state, nats)
        # an hour that is passed over is many places, and where the clock is put back they come again
        places = self.clock.place(memory.tick + 1) - self.clock.place(memory.tick) - 1
        return CausalMemory(self.beliefs.advance(state, places), nats, memory.tick + 1)

    def estimator(self) -> Estimator | None:
        """The family's own Bayes filter, where the design accepts private values that are estimated."""
        if not self.estimated:
            return None
        from understudy.randomizer.estimation import Estimator

        return Estimator(self.family, self.beliefs.transitions, self.decision_every)

    def _check_belief(self, belief: Sequence[float]) -> list[float]:
        b = [float(x) for x in belief]
        if len(b) != len(self.values) or not all(0.0 <= x <= 1.0 for x in b) or abs(math.fsum(b) - 1.0) > 1e-9:
            raise DesignError(f"a belief must hold {len(self.values)} probabilities that sum to 1")
        return b


def design_causal(
    family: Family,
    transition: ArrayLike | None = None,
    pseudo: Iterable[Value] | None = None,
    *,
    clock: Any = None,
    rate: float | str | None = None,
    slope: float | None = None,
    decision_every: int = 1,
    horizon: int | None = None,
    distortion: str | Function | ArrayLike = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    accept_estimated_theta: bool = False,
    resolution: Resolution = None,
    readings: str | Sequence[str | None] | None = None,
    valid: tuple[ArrayLike, ArrayLike] | None = None,
    fresh: float = 0.0,
    output: str = LIFELIKE,
    history: Recording | None = None,
) -> CausalDesign:
    """The causal randomizer for a private parameter that is a Markov chain.

    `transition` (m, m) takes theta from one decision to the next, the first of which has the family's prior; a
    sequence of matrices is used in turn, for the time of day. `pseudo` are the values that may be played. Either
    `rate`, the expected leakage in nats a decision ("0.1 bit" may be written), or `slope` is given; with a rate the
    slope is found at which the long run leaks as much, or less. `decision_every` is the number of readings a decision
    is for.

    `horizon`, `distortion`, `weights`, `accuracy`, `rng` and `progress` say how the surrogate distortion is found, as
    in `us.costs`: that of a pair of values that stay, over the horizon or in the limit. A matrix (m, n) in place of
    the distortion is taken as it is. `path_distortion` is the distortion of a pair of moving paths.

    With `clock`, prior and transitions are those of the public clock, by time of day and kind of day: ``True`` takes
    the routine that `us.fit` found in the history of the family, a labelled history has its own. Decisions are then at
    fixed times, streams need readings with times, and what is counted is what is learned beyond the clock. At
    ``rate=0`` the pseudo path is a function of the clock alone. The routine itself is published with the design.

    The private value must be known. ``accept_estimated_theta=True`` makes a design whose streams estimate it from the
    readings instead. No theorem holds for it, and everything that it writes says "no guarantee, audit only".

    `resolution`, `readings`, `valid`, `fresh`, the fresh share, `output` and `history` are as in `us.design`.

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
    if (transition is None) == (clock is None):
        raise DesignError(f"{'none' if clock is None else 'both'} of transition and clock given; exactly one is needed")
    public = None
    if clock is not None:
        family, transition, public = _by_clock(family, clock, int(decision_every))
    T = as_transitions(() if transition is None else transition, len(family.values))
    names = family.values if pseudo is None else tuple(pseudo)
    share = as_share(fresh)
    _check_path(family, names, share)
    terms = Terms(resolution, readings, valid, share)
    recording = None if (output, history) == (LIFELIKE, None) else check_output(output, history)

    def settle(matrix: Array) -> tuple[tuple[str, float], Beliefs, LongRun]:
        if wanted is not None:
            beliefs = Beliefs(family.prior, T, matrix, wanted)
            return ("slope", wanted), beliefs, long_run(beliefs, rng)
        rate = 0.0 if target is None else target
        return ("rate", rate), *at_rate(Beliefs(family.prior, T, matrix, math.inf), rate, rng)

    found: Costs | None = None
    given: tuple[str | Function, ArrayLike | None] | None = None
    if recording is not None:
        if not isinstance(distortion, str):
            raise DesignError("output = 'least-change' is fitted for the distortion 'mae' or 'mse'")
        measure, given = Measure(distortion, family.dim, weights), (distortion, weights)
        runs = runs_of(family, recording, SEED if rng is None else rng)

        def solved(outputs: LeastChange) -> tuple[tuple[Costs, Any], Array, float]:
            measured = measured_costs(outputs, runs, family, names, measure)
            settled = settle(np.array(measured.matrix))
            return (measured, settled), average_kernel(settled[1]), settled[2].distortion

        shape, models = (len(family.values), len(names)), [family.model(value) for value in names]
        (found, settled), outputs = fit_with_kernel(
            runs, shape, measure, recording.period, share, solved, models, family.prior
        )
        terms = terms._replace(outputs=outputs)
    elif isinstance(distortion, str) or callable(distortion):
        found = costs(family, names, horizon, distortion, weights, accuracy, rng, progress, share)
        matrix, given = np.array(found.matrix), (distortion, weights)
    else:
        matrix = as_cost(distortion)
        if matrix.shape != (len(family.values), len(names)):
            raise DesignError(
                f"distortion has shape {matrix.shape}; it must have a row for each of the {len(family.values)} "
                f"values and a column for each of the {len(names)} pseudo values"
            )
    demand, beliefs, run = settle(matrix) if recording is None else settled
    choices = CausalChoices(found, int(decision_every), demand, given, bool(accept_estimated_theta), terms, public)
    made = CausalDesign(family, beliefs, names, run, choices)
    if any(term is not None for term in (resolution, readings, valid)):
        _ = made.release  # what cannot be kept is refused now
    return made


def average_kernel(beliefs: Beliefs, decisions: int = 200, sequences: int = 50) -> Array:
    """Pr(column given theta) of a causal design in the long run (m, n), from simulated paths with a fixed seed."""
    played = play(beliefs, max(decisions, beliefs.period), sequences, SEED)
    counts = np.zeros(beliefs.cost.shape)
    np.add.at(counts, (played.theta.ravel(), played.pseudo.ravel()), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0.0, counts / np.maximum(total, 1.0), beliefs.kernel(beliefs.prior.tolist())))


def _by_clock(family: Family, clock: Any, every: int) -> tuple[Family, Array, PublicClock]:
    """The family at the beginning of a week, the transitions of the week, and its clock."""
    period = (family.about or {}).get("period") or getattr(clock, "period", None)
    if not period:
        raise ConfigurationError("a design by the clock needs the time between readings; the family has no period")
    tick = round(float(period) * every)
    if abs(tick - float(period) * every) > 1e-6:
        raise ConfigurationError(
            f"decisions are {float(period) * every:g} s apart; by the clock they are whole seconds"
        )
    routine = find_routine(clock, family)
    prior, transitions = routine.chain(tick)
    about = {**(family.about or {}), "period": float(period)}
    return (
        Family(family.model, family.values, prior, about),
        transitions,
        PublicClock(tick, routine.offset, routine.zone),
    )


def _check_path(family: Family, pseudo: Sequence[Value], fresh: float) -> None:
    if not pseudo:
        raise DesignError("pseudo is empty; there must be at least one value")
    for value in family.values:
        if fresh < 1.0 and isinstance(family.model(value), Approximate):
            raise DesignError(
                f"the model of {value!r} is approximate, and what a path of such models gives away is not known; "
                "a causal design needs exact models"
            )
    family.along(family.values)  # members that cannot follow each other are refused, saying why
    family.along(pseudo)


def _positions(values: Sequence[Value]) -> dict[Value, int]:
    return {value: i for i, value in enumerate(values) if getattr(value, "__hash__", None) is not None}


# Streams: the memory that they keep --------------------------------------------------------------------


class CausalMemory(NamedTuple):
    """What a stream remembers: the belief, and the leakage of its draws so far, in nats.

    It follows from the draws alone; its text says how many there were. Where summer time moves the routine, the tick of
    the next decision is among it.
    """

    state: BeliefState
    nats: float
    tick: int | None = None

    def __repr__(self) -> str:
        return f"CausalMemory(decisions={self.state.k})"


# Files --------------------------------------------------------------------------------------------------


_FIELDS = SHARED_FIELDS | {"transitions", "slope", "decision_every", "demand", "estimated", "given", "long_run"}
_RUN = ("rate", "distortion", "rate_error", "distortion_error")
_SIX = 6.0  # standard errors by which a simulation may be off: less than once in 10^8


def _check_long_run(plain: Plain, beliefs: Beliefs) -> LongRun:
    """The long run as the file has it, if it is that of the beliefs."""
    rate, distortion, *errors = (number_from_plain(name, plain[name]) for name in _RUN)
    claim = LongRun(rate, distortion, errors[0], errors[1], plain["how"], plain["places"])
    truth = long_run(beliefs)
    for name in ("rate", "distortion"):
        stated, found = getattr(claim, name), getattr(truth, name)
        error = math.hypot(getattr(claim, name + "_error"), getattr(truth, name + "_error"))
        if not math.isclose(stated, found, rel_tol=1e-6, abs_tol=1e-12 + _SIX * error):
            raise StoredFileError(f"{name} is not what the costs, the slope and the transitions give")
    if claim.how != truth.how:
        raise StoredFileError("the long run was not found in the way that the file says")
    return claim


# Leakage a day, and the accuracy of an adversary about an hour ------------------------------------------


def at_most(leakage_per_day: float | str | None, decisions_per_day: float) -> float:
    """The rate for `us.design_causal` that makes the expected leakage of a day so much: nats a decision.

    The leakage is a number of nats or written with its unit. In expectation only: the leakage of a day depends on the
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
    """The expected leakage of a design: nats and bits a decision and a day, and on the first day.

    >>> import understudy as us
    >>> from understudy.randomizer.causal import design_causal
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
    values: Iterable[Value],
    window: tuple[int, int],
    decisions: int,
    sequences: int = 500,
    rng: Seed = None,
) -> Answer:
    """The accuracy on "was theta ever among these values in this window", as "was anyone in between 14 and 15 h".

    `window` = (first, end) are decisions, counted from 0 and without the end, of a day of `decisions`. The
    adversary is exact: it computes the probability of the event given all pseudo values of the day, those after the
    window too. So nobody who sees disguised readings does better, with the chain and the models as stated.

    >>> import understudy as us
    >>> from understudy.randomizer.causal import design_causal
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = design_causal(family, [[0.95, 0.05], [0.05, 0.95]], rate=0.01)
    >>> found = was_ever(made, [1], window=(56, 60), decisions=96, sequences=200, rng=1)
    >>> round(found.blind, 3), bool(found.blind < found.seeing < 0.75)
    (0.571, True)
    """
    if isinstance(design, CausalDesign):
        beliefs, rows = design.beliefs, [design.row(v) for v in values]
    else:
        positions = _positions(range(len(design.prior)))
        beliefs, rows = design, [positions[v] for v in values]
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


# The distortion along paths --------------------------------------------------------------------------------


def path_distortion(
    design: CausalDesign,
    theta: Sequence[Value],
    pseudo: Sequence[Value],
    distortion: str | Function | None = None,
    weights: ArrayLike | None = None,
    rng: Seed = None,
) -> tuple[float, float]:
    """The mean distortion of the readings along a private and a pseudo path, one value a decision; its error.

    By default that of the design. The error is 0 where it is exact, as it is for Gauss-Markov models.

    >>> import understudy as us
    >>> from understudy.randomizer.causal import design_causal
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
        if design._choices.given is None:
            raise DesignError(
                "the design was made from a matrix of costs; say which distortion of readings, distortion="
            )
        distortion, weights = design._choices.given
    if len(theta) != len(pseudo) or not len(theta):
        raise DesignError(f"the paths have {len(theta)} and {len(pseudo)} decisions; they must have as many, and some")
    repeat = design.decision_every
    one = design.family.along([v for v in theta for _ in range(repeat)])
    other = design.target_along([v for v in pseudo for _ in range(repeat)])
    pair = Family({"private": one, "pseudo": other}, values=["private"])
    found = costs(pair, ["pseudo"], repeat * len(theta), distortion, weights, rng=rng, fresh=design.fresh)
    return float(found.matrix[0, 0]), float(found.error[0, 0])


@dataclass(frozen=True, slots=True)
class TrueDistortion:
    """The distortion of simulated paths, and what the surrogate says of the same paths; with standard errors."""

    true: float
    true_error: float
    surrogate: float
    surrogate_error: float


def true_distortion(
    design: CausalDesign,
    decisions: int = 50,
    paths: int = 50,
    rng: Seed = None,
    distortion: str | Function | None = None,
) -> TrueDistortion:
    """The mean distortion along random private paths and the pseudo paths drawn for them.

    Given the paths it is found by `path_distortion`, so that only the choice of the paths is left to chance.

    >>> import understudy as us
    >>> from understudy.randomizer.causal import design_causal
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
