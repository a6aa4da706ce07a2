"""`us.design_causal`: a randomizer with memory, for a private parameter that moves.

Independent draws at every step give a parameter away that stays where it is for long: each draw tells a little, and all
tell about the same. A randomizer that remembers its draws tells only what is new. It takes what everybody who saw its
draws believes of theta_k for the prior, and draws by the kernel that is optimal for it, at one slope for all
decisions (`beliefs.py`). What the sequence tells is the sum of what its draws tell, given those before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from understudy.distortion.cost import Costs, costs
from understudy.distortion.measure import Function
from understudy.distortion.methods import Progress
from understudy.errors import DesignError, ModelError
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.randomizer.causal.beliefs import Beliefs, BeliefState, Draw, as_slope, as_transitions, expected_cost
from understudy.randomizer.causal.limit import LongRun, long_run
from understudy.randomizer.causal.rate import as_rate, at_rate
from understudy.randomizer.charge import is_approximate
from understudy.randomizer.problem import as_cost
from understudy.stream.release import Release, Terms
from understudy.transform.roundoff import Roundoff


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
        "_fingerprint", "_floating", "_given", "_release", "_rows", "beliefs", "costs", "decision_every", "demand",
        "estimated", "family",
        "first_charge", "first_distortion", "long_run", "pseudo", "terms",
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
        self.estimated: bool = choices.get("estimated", False)
        self._given = choices["given"]
        self._rows = _positions(family.values)
        self.terms: Terms = choices.get("terms") or Terms()
        self._fingerprint: list[str] = []
        self._release: list[Release] = []
        self._floating: list[Roundoff | None] = []
        kernel = beliefs.kernel(beliefs.start().belief)
        self.first_charge: float = beliefs.charge(beliefs.prior.tolist(), kernel)
        self.first_distortion: float = expected_cost(beliefs.prior.tolist(), kernel, beliefs.cost)

    def __reduce__(self) -> tuple[Any, ...]:
        choices: dict[str, Any] = {"costs": self.costs, "decision_every": self.decision_every, "demand": self.demand}
        choices |= {"given": self._given, "estimated": self.estimated, "terms": self.terms}
        return type(self), (self.family, self.beliefs, self.pseudo, self.long_run, choices)

    def __repr__(self) -> str:
        m, n = self.beliefs.cost.shape
        rate, distortion = _with_error(self.rate, self.rate_error), _with_error(self.distortion, self.distortion_error)
        noted = ", NO GUARANTEE, audit only" if self.estimated else ""
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
        return self.beliefs.kernel(self._checked(belief))

    def start(self, tick: int = 0) -> BeliefState:
        """The state before the first decision, at a number of the clock where transitions follow the time of day."""
        return self.beliefs.start(tick)

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

    def stream(
        self,
        theta: Any = None,
        ledger: Any = None,
        name: str | None = None,
        *,
        room: str | None = None,
        share: str | None = None,
        every: Any = None,
        rng: Any = None,
        gaps: str | None = None,
        period: Any = None,
        tolerance: Any = None,
        fill: bool | None = None,
    ) -> Any:
        """A live stream that decides by the clock, and is told the private value with its readings.

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
        from understudy.randomizer.causal.playing import causal_stream
        from understudy.randomizer.playing import Choices

        choices = Choices(name, room, share, every, rng, gaps, period, tolerance, None, fill)
        return causal_stream(self, theta, ledger, choices)

    @property
    def release(self) -> Release:
        """The public lattice on which readings leave, the form and the range of those that come in."""
        from understudy.randomizer.playing import release_for

        if not self._release:
            self._release.append(release_for(self.family, self.values, self.pseudo, self.terms))
        return self._release[0]

    @property
    def floating(self) -> Roundoff | None:
        """What rounding leaves of the private values in outputs on the lattice; None where it leaves nothing."""
        from understudy.randomizer.playing import floating_for

        if not self._floating:
            self._floating.append(floating_for(self.family, self.values, self.pseudo, self.release))
        return self._floating[0]

    @property
    def resolution(self) -> tuple[float, ...]:
        """The step of the lattice on which readings leave, by channel; 0 where the models have a grid of their own."""
        return self.release.lattice.steps

    @property
    def guarantee(self) -> Any:
        """What the design promises, in figures and in plain words: text, JSON and HTML (`CausalCard`)."""
        from understudy.randomizer.causal.card import causal_card

        return causal_card(self)

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file and return its fingerprint; `us.load_design` reads it again.

        Parameters are stored, never code; ``models=False`` leaves the models out, and the family is wanted on loading.
        """
        from understudy.randomizer.causal.storage import save

        return save(self, path, models)

    @property
    def policy(self) -> Any:
        """What streams play by."""
        from understudy.randomizer.causal.playing import CausalPolicy

        return CausalPolicy(self)

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
        } | ({"estimated": True} if self.estimated else {})

    @property
    def fingerprint(self) -> str:
        """Tells this design from another; says nothing about the private parameter."""
        if not self._fingerprint:
            self._fingerprint.append(self._print({"release": self.release.to_plain()}))
        return self._fingerprint[0]

    @property
    def former_fingerprint(self) -> str:
        """The fingerprint that version 0.1 gave this design: its streams go on."""
        return self._print({})

    def _print(self, more: dict[str, Any]) -> str:
        from understudy.models.fingerprint import fingerprint
        from understudy.models.keys import value_to_plain

        values, pseudo = ([value_to_plain(v) for v in those] for those in (self.values, self.pseudo))
        models = [_told(self.family.model(v)) for v in (*self.values, *self.pseudo)]
        return fingerprint({"causal": self.numbers, "values": values, "pseudo": pseudo, "models": models, **more})

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
    accept_estimated_theta: bool = False,
    resolution: Any = None,
    readings: Any = None,
    valid: Any = None,
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

    The private value must be known. ``accept_estimated_theta=True`` makes a design whose streams estimate it from the
    readings instead. No theorem holds for it, and everything that it writes says "no guarantee, audit only".

    `resolution`, `readings` and `valid` are as in `us.design`.

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
        beliefs, settled = at_rate(Beliefs(family.prior, T, matrix, math.inf), target or 0.0, rng)
    given = None if found is None else (distortion, weights)
    demand = ("rate", target) if slope is None else ("slope", wanted)
    terms = Terms(resolution, readings, valid)
    choices = {
        "costs": found, "decision_every": int(decision_every), "demand": demand, "given": given,
        "estimated": bool(accept_estimated_theta), "terms": terms,
    }  # fmt: skip
    made = CausalDesign(family, beliefs, names, settled, choices)
    if terms != Terms():
        _ = made.release  # what cannot be kept is refused now
    return made


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
