"""A design: the randomizer of least distortion within a budget of leakage, with its proof.

The private parameter Theta has the prior p. A randomizer draws the pseudo parameter ~Theta with the probabilities
P[i, j] = Pr(~theta_j given theta_i), and the readings are then disguised as those of ~theta. The costs L[i, j] are the
distortion of the readings when value j plays value i. The problem (OP) of the paper is ::

    minimise  D(P) = sum_ij p_i P_ij L_ij     subject to  I(Theta; ~Theta) <= I_0

By Theorem 3 the disguised readings leak no more than I(Theta; ~Theta), the mutual information of one draw, however long
the sequence is.

- `design` finds the costs of a family of models and solves the problem; `solve` takes a matrix of costs. The budget
  is a leakage, an error probability of the adversary, or a distortion (then the leakage is minimised). `Constraint`
  objects can be added to each.
- `Design` holds the randomizer, its distortion and leakage, and a proven lower bound on the distortion of every
  randomizer within the budget. `Design.guarantee` is the card for people.
- `Randomizer` holds the kernel. Each probability is a whole number of 2^-53 and each row sums to one exactly, so a draw
  compares 53 random bits with whole numbers: the kernel that is certified is the one that is sampled.
- `Design.stream` begins a live stream, or continues the one that a ledger has under the same name.
- `Design.save` and `load_design` store a design as JSON. What a file claims is proved again when it is loaded.

Approximate models leak a little with every reading. This residual (`understudy.randomizer.residual`) is subtracted from
the budget before the problem is solved.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import math
import os
import secrets
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Frozen, Json, Plain, Progress, Seed, Value
from understudy.distortion.costs import SEED, Costs, costs, several
from understudy.distortion.measures import Function, Measure
from understudy.errors import (
    ConfigurationError,
    DesignError,
    InfeasibleError,
    ModelError,
    StoredFileError,
    UnderstudyWarning,
)
from understudy.models.family import Family, along
from understudy.models.model import Model, as_target, probe, same_probe
from understudy.randomizer.certificate import Dual, Proof, is_proved, prove, proven_leakage
from understudy.randomizer.constrained_solver import TOLERANCE as CONSTRAINED_TOLERANCE
from understudy.randomizer.constrained_solver import Problem, leakage_bound, least_distortion, least_leakage_within
from understudy.randomizer.constraints import (
    Constraint,
    ErrorAtLeast,
    Exact,
    Multiples,
    Names,
    Price,
    as_constraints,
    describe,
)
from understudy.randomizer.guarantee import Guarantee, PrivacyCard, ReleaseSummary, summarise_release
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
from understudy.randomizer.measures import capacity, entropy, mutual_information
from understudy.randomizer.residual import Approximate, Charge, charge, rounded_up
from understudy.randomizer.solver import (
    TOLERANCE,
    Multipliers,
    Solution,
    as_cost,
    as_prior,
    bounds_of,
    information,
    kernels,
    least_leakage,
    meets,
    minimise,
    nats,
    view,
)
from understudy.serialize import (
    KINDS,
    class_of,
    entries,
    fingerprint,
    kind_of_file,
    matrix_from_plain,
    matrix_to_plain,
    number_from_plain,
    number_to_plain,
    read,
    to_plain,
    value_from_plain,
    value_to_plain,
    write,
)
from understudy.stream.cadence import Cadence, Duration
from understudy.stream.engine import (
    CLOCK_INDEX,
    COIN,
    DESIGN_PRIOR,
    REFUSE,
    RELEASED,
    WITHHOLD,
    Clock,
    StreamDesign,
    check_floating,
)
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import StreamRow, check_name
from understudy.stream.release import DEFAULT_TERMS, Release, Terms, floating_point, release_of
from understudy.stream.stream import Stream, new_secret, period_of
from understudy.transform.core import as_share
from understudy.transform.gaps import refill_between
from understudy.transform.readings import Resolution
from understudy.transform.roundoff import Roundoff

# The randomizer ---------------------------------------------------------------------------------------


BITS = 53


class Randomizer(Frozen):
    """A kernel P[i, j] = Pr(~theta_j given theta_i), and draws from it.

    `values` and `pseudo` name the rows and the columns; without them they are numbered. A kernel that is
    not in whole numbers of 2^-53 is rounded to them.

    >>> import understudy as us
    >>> randomizer = us.Randomizer([[0.9, 0.1], [0.2, 0.8]], values=["away", "home"], pseudo=["away", "home"])
    >>> randomizer.kernel.sum(axis=1).tolist()
    [1.0, 1.0]
    >>> randomizer.draw("home") in ("away", "home")
    True
    """

    __slots__ = ("kernel", "pseudo", "values")

    kernel: Array
    values: tuple[Any, ...]
    pseudo: tuple[Any, ...]

    def __init__(
        self, kernel: ArrayLike, values: Sequence[Value] | None = None, pseudo: Sequence[Value] | None = None
    ) -> None:
        self._set(_round_kernel(kernel), values, pseudo)

    @classmethod
    def from_solver(cls, kernel: Array, values: Sequence[Value] | None, pseudo: Sequence[Value] | None) -> Randomizer:
        """From a kernel that the solver made, which is in whole numbers of 2^-53 already."""
        made = cls.__new__(cls)
        made._set(kernel if kernel.base is None else kernel.copy(), values, pseudo)
        return made

    def _set(self, P: Array, values: Sequence[Value] | None, pseudo: Sequence[Value] | None) -> None:
        m, n = P.shape
        P.setflags(write=False)
        put = object.__setattr__  # a design is made in microseconds; the check of `Frozen` would cost a tenth of it
        put(self, "kernel", P)
        put(self, "values", _default_names(m) if values is None else _names("values", values, m))
        put(self, "pseudo", _default_names(n) if pseudo is None else _names("pseudo", pseudo, n))

    def __repr__(self) -> str:
        # the names of the values are the user's; a draw is a secret and is kept nowhere here
        return f"Randomizer({self.kernel.shape[0]} x {self.kernel.shape[1]})"

    @property
    def counts(self) -> NDArray[np.int64]:
        """The probabilities as whole numbers of 2^-53; each row sums to 2^53."""
        return (self.kernel * 2.0**BITS).astype(np.int64)

    def row(self, value: Value) -> int:
        """Where a value of the private parameter stands."""
        for i, known in enumerate(self.values):
            if equal_values(known, value):
                return i
        raise DesignError(f"the randomizer has no row for a value of type {type(value).__name__}")

    def draw(self, value: Value, rng: np.random.Generator | None = None) -> Any:
        """Draw a pseudo value for a private one, from the random source of the operating system.

        A `rng` is for simulations and tests: its draws can be foretold.
        """
        return self.pseudo[self.draw_index(self.row(value), rng)]

    def draw_index(self, row: int, rng: np.random.Generator | None = None) -> int:
        """The same by position."""
        bits = secrets.randbits(BITS) if rng is None else int(rng.integers(1 << BITS))
        end = 0
        for column, probability in enumerate(self.kernel[row].tolist()):
            end += int(probability * 2.0**BITS)  # exact
            if bits < end:
                return column
        raise DesignError("the randomizer has a row that does not sum to 1")


def _round_kernel(kernel: ArrayLike) -> Array:
    try:
        given = np.asarray(kernel)
    except ValueError:
        given = np.empty(0)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.size == 0:
        raise DesignError("the kernel of a randomizer must be a matrix of probabilities, a row for each value")
    P = np.array(given, dtype=float)
    if not np.isfinite(P).all() or (P < 0.0).any():
        raise DesignError("the kernel of a randomizer holds a number that is negative or not finite")
    total = P.sum(axis=1)
    if (abs(total - 1.0) > 1e-9).any():
        i = int(np.argmax(abs(total - 1.0)))
        raise DesignError(f"row {i} of the randomizer sums to {total[i]:.12g}; each row must sum to 1")
    kernels.whole(view(P.reshape(-1)), *P.shape)
    return P


@lru_cache
def _default_names(size: int) -> tuple[int, ...]:
    return tuple(range(size))


def _names(what: str, names: Sequence[Value], size: int) -> tuple[Value, ...]:
    names = tuple(names)
    if len(names) != size:
        raise DesignError(f"{what} has {len(names)} entries and the kernel has {size}; they must agree")
    return names


# The design -------------------------------------------------------------------------------------------


Frame = TypeVar("Frame")
"""A dataframe of pandas or polars, or a table of pyarrow."""


class AnyDesign:
    """What every kind of design has, whatever its `kind`: "constant", "robust", "causal" or "coin".

    A causal design has a memory, and decides by its clock. One that is `blind` never looks at the private value.
    `terms` say what was asked for about the readings that leave and come in. What is worked out when it is asked for is
    remembered in `_cache`.
    """

    __slots__ = ()

    kind: ClassVar[str]
    file_kind: ClassVar[str]
    blind: ClassVar[bool] = False
    prior: Array
    family: Family | None
    costs: Costs | None
    terms: Terms
    _cache: dict[str, Any]

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        raise NotImplementedError  # each subclass has its own

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values."""
        raise NotImplementedError  # each subclass has its own

    @property
    def essence(self) -> Plain:
        """What tells the design from others with the same values and models, as plain data."""
        raise NotImplementedError  # each subclass has its own

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design; without models, probes of them alone."""
        raise NotImplementedError  # each subclass has its own

    @property
    def guarantee(self) -> PrivacyCard:
        """The card: everything that is guaranteed, with its conditions."""
        raise NotImplementedError  # each subclass has its own

    def _repr_html_(self) -> str:
        return self.guarantee.html()

    def apply(self, frame: Frame, **options: Any) -> Frame:
        """Disguise the rows of a dataframe (pandas, polars or pyarrow), as `us.apply_file` does those of a file.

        `options` are those of `us.apply_frame`: columns (`reading`, `private`, `time`, `room`), `ledger` and the rest.

        >>> import pandas as pd
        >>> import understudy as us
        >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
        >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
        >>> frame = pd.DataFrame({"co2": [4.31, 4.35, 9.9], "people": [0, 0, 1]})
        >>> design.apply(frame, reading="co2", private="people").columns.tolist()
        ['co2', 'disguised']
        """
        # the package itself stands outside of the layers, and finds its public names when they are asked for
        made: Frame = importlib.import_module("understudy").apply_frame(self, frame, **options)
        return made

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file, models included, and return its fingerprint; `us.load_design` reads it.

        Parameters are stored, never code. Models that hold a function cannot be; ``models=False`` leaves all
        models out, and `us.load_design` then wants the family.
        """
        return write(path, self.to_content(models), self.file_kind, VERSION)

    # What a stream asks of a design: `understudy.stream.engine` -----------------------------------------

    @property
    def own_epochs(self) -> Plain:
        """Nothing: epochs are those of the stream."""
        return {}

    def source(self, row: int) -> Model:
        """The model of a private value, by position."""
        return self._models((self.values[row],))[0]

    def target(self, column: int) -> Model:
        """The model of the outputs of a pseudo value, by position; a fixed one where that of the family learns."""
        outputs = self.terms.outputs
        return as_target(self._models((self.pseudo[column],))[0]) if outputs is None else outputs.targets[column]

    @property
    def targets(self) -> tuple[Model, ...]:
        """The models of the outputs of all pseudo values: those of the family, or filters of scores."""
        outputs = self.terms.outputs
        return tuple(map(as_target, self._models(self.pseudo))) if outputs is None else outputs.targets

    def target_along(self, pseudo: Iterable[Value]) -> Model:
        """The model of the outputs along a path of pseudo values, one for each reading."""
        if self.family is not None and self.terms.outputs is None:
            return along([as_target(self.family.model(value)) for value in pseudo])
        return along([self.target(self.column(value)) for value in pseudo])

    def column(self, value: Value) -> int:
        """Where a pseudo value stands."""
        for j, known in enumerate(self.pseudo):
            if equal_values(known, value):
                return j
        raise DesignError(f"the design has no column for a pseudo value of type {type(value).__name__}")

    @property
    def output(self) -> str:
        """What leaves: "lifelike", readings with the law of another value, or "least-change", filters of the scores."""
        return LIFELIKE if self.terms.outputs is None else LEAST_CHANGE

    @property
    def outputs(self) -> LeastChange | None:
        """What is known about least-change outputs, column by column; None for lifelike ones."""
        found = self.terms.outputs
        return found if isinstance(found, LeastChange) else None

    @property
    def output_facts(self) -> tuple[text.OutputFacts, ...]:
        """What was measured of least-change outputs that are ever drawn, for cards; empty for lifelike ones."""
        columns = () if self.outputs is None else self.outputs.columns
        return tuple(
            text.OutputFacts(
                text.label(self.pseudo[j]), *(getattr(column, name) for name in text.OutputFacts._fields[1:])
            )
            for j, column in enumerate(columns)
            if self._is_drawn(j)
        )

    def _is_drawn(self, column: int) -> bool:
        """Whether a pseudo value can be drawn at all."""
        raise NotImplementedError  # each subclass has its own

    def _models(self, values: Iterable[Value]) -> list[Model]:
        if self.family is None:
            raise DesignError("the design has no models (us.solve makes none); a stream needs one from us.design")
        return [self.family.model(value) for value in values]

    @property
    def release(self) -> Release:
        """The public lattice on which readings leave, the form and the range of those that come in."""
        if "release" not in self._cache:
            sources, targets = self._models(self.values), self.targets
            about = (None if self.family is None else self.family.about) or {}
            known = about.get("decimals") or [None] * sources[0].dim
            decimals = [None if places is None or places >= MANY_DECIMALS else int(places) for places in known]
            terms = self.terms
            if terms.readings is None and any(about.get("form") or ()):
                terms = terms._replace(readings=list(about["form"]))
            possible, offset = about.get("possible"), bool(about.get("public"))
            self._cache["release"] = release_of(sources, targets, terms, decimals, possible, offset)
        found: Release = self._cache["release"]
        return found

    @property
    def floating(self) -> Roundoff | None:
        """What rounding leaves of the private value in outputs on the lattice; None where it leaves nothing.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * v, mean0=100.0), values=[0, 1])
        >>> found = us.design(family, leakage=0.1, distortion="mae").floating
        >>> found.how, 0.0 < found.nats(1000) < 1e-9
        ('proved', True)
        """
        if "floating" not in self._cache:
            sources, targets = self._models(self.values), self.targets
            self._cache["floating"] = floating_point(sources, targets, self.release, self.fresh)
        found: Roundoff | None = self._cache["floating"]
        return found

    @property
    def fresh(self) -> float:
        """The fresh share s: scores z are mixed with fresh chance, sqrt(1 - s^2) z + s w, before they are coloured."""
        return self.terms.fresh

    @property
    def resolution(self) -> tuple[float, ...]:
        """The step of the lattice on which readings leave, by channel; 0 where the models have a grid of their own."""
        return self.release.lattice.steps

    @property
    def fingerprint(self) -> str:
        """Tells this design from another; says nothing about the private parameter, and nothing about a draw."""
        if "fingerprint" not in self._cache:
            self._cache["fingerprint"] = self._fingerprint({"release": self.release.to_plain()} | _stored_more(self))
        found: str = self._cache["fingerprint"]
        return found

    @property
    def former_fingerprint(self) -> str:
        """The fingerprint that version 0.1 gave this design: its streams go on."""
        return self._fingerprint(_stored_more(self))

    def _fingerprint(self, more: Plain) -> str:
        members = (*self.values, *self.pseudo)
        return fingerprint(
            self.essence
            | {
                "values": [value_to_plain(value) for value in self.values],
                "pseudo": [value_to_plain(value) for value in self.pseudo],
                "models": [_model_to_plain(model) for model in self._models(members)],
            }
            | more
        )


def _model_to_plain(model: Model) -> Plain:
    """The model in a fingerprint; one that holds a function enters by its kind alone."""
    try:
        return to_plain(model)
    except ModelError:
        return {"kind": type(model).__name__, "dim": int(model.dim), "functions": True}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Design(AnyDesign):
    """A randomizer with its certificate; `us.design` and `us.solve` make one.

    No kernel within the budget has a distortion below `lower_bound`, and this one has `distortion`: what is
    between them is `gap`. `status` is "optimal" when the gap is closed (1e-9 of what distortion there is
    above the least possible, or as far as double precision can prove), else "inexact". `leakage` is
    I(Theta; ~Theta) in nats, at most `budget`. `demand` is what was asked for; where that was a distortion,
    no randomizer that meets it leaks less than `leakage_lower_bound`, and the status is of that gap too.

    Where models of the private values are approximate, `charge` holds what they give away themselves, and `residual`
    its total. The budget is then one for `total_leakage`, the sum, and the kernels that `lower_bound` speaks of are
    those that keep it together with the residual.

    `constraints` are kept besides, each exactly; `lower_bound` then speaks of the kernels that keep them too, and a gap
    of 1e-7 counts as closed. Where nothing but constraints was asked for, the demand is a leakage of infinity, and
    there is no budget. `certificate` holds the multipliers that prove the bound.

    >>> import understudy as us
    >>> solved = us.solve([[0, 1], [1, 0]], leakage=0.2)
    >>> solved
    Design(2 x 2, distortion=0.194827, leakage=0.2, optimal)
    >>> solved.lower_bound <= solved.distortion and solved.leakage <= 0.2
    True
    """

    kind: ClassVar[str] = "constant"
    file_kind: ClassVar[str] = "design"
    estimated: ClassVar[bool] = False  # the private value is given, never estimated from the readings

    randomizer: Randomizer
    prior: Array
    cost: Array
    distortion: float
    lower_bound: float
    gap: float
    leakage: float
    budget: float | None
    demand: Demand
    status: str
    iterations: int
    slope: float
    leakage_lower_bound: float = 0.0
    distortion_error: float = 0.0
    family: Family | None = None
    costs: Costs | None = None
    charge: Charge | None = None
    constraints: tuple[Constraint, ...] = ()
    certificate: Multipliers | None = None
    terms: Terms = DEFAULT_TERMS
    _cache: dict[str, Any] = field(default_factory=dict, init=False)  # what is worked out when it is asked for

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        distortion = text.with_error(self.distortion, self.distortion_error)
        more = "" if self.charge is None else f"residual={text.number(self.residual, 'up')}, "
        more += f"fresh={self.fresh:g}, " if self.fresh else ""
        status = self.status if self.terms.outputs is None else LEAST_CHANGE  # no optimum is proven of such outputs
        return f"Design({m} x {n}, distortion={distortion}, leakage={self.leakage:.6g}, {more}{status})"

    def __str__(self) -> str:
        name, value = self.demand
        charge = self.charge
        several = self.family is not None and self.family.dim > 1
        return text.design_summary(
            text.DesignFacts(
                self.randomizer.kernel.shape,
                None if self.constraints and value == math.inf else (name, value),
                text.with_error(self.distortion, self.distortion_error) + f", {text.OVER_CHANNELS}" * several,
                None if several else self.relative_distortion,
                (self.lower_bound, self.gap, self.status, self.distortion_error == 0.0),
                self.leakage,
                None if charge is None else (self.residual, charge.horizon, charge.how),
                [one.words for one in self.constraints],
                self.guarantee.headline,
                self.fresh,
                "" if self.outputs is None else text.output_words(self.output_facts),
            )
        )

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        return self.randomizer.values

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values."""
        return self.randomizer.pseudo

    @property
    def residual(self) -> float:
        """What the models themselves give away over the horizon, in nats; 0 where they are exact."""
        return 0.0 if self.charge is None else self.charge.total

    @property
    def total_leakage(self) -> float:
        """Leakage and residual, rounded up: an upper bound on the leakage of the readings."""
        return total(self.leakage, self.charge)

    @property
    def relative_distortion(self) -> float | None:
        """Distortion over the mean reading, as in the paper's figure; None where there is no mean reading.

        The root of a squared error, so that both are in the units of a reading.
        """
        if self.costs is None or not abs(self.costs.mean_reading) > 0.0:
            return None
        size = math.sqrt(self.distortion) if self.costs.distortion == "mse" else self.distortion
        return size / abs(self.costs.mean_reading)

    @property
    def guarantee(self) -> Guarantee:
        """The card: every measure of what leaks, in words, with its conditions."""
        if "guarantee" not in self._cache:
            kernel = self.randomizer.kernel
            found = Guarantee.of(
                self.prior,
                kernel,
                values=self.values,
                budget=self.budget,
                residual=self.charge,
                constraints=[one.words for one in self.constraints],
                release=None if self.family is None else self._release_summary,
            )
            self._cache["guarantee"] = replace(found, fresh=self.fresh, output=self.output_facts)
        card: Guarantee = self._cache["guarantee"]
        return card

    def _release_summary(self) -> ReleaseSummary:
        horizon = None if self.costs is None else self.costs.horizon
        return summarise_release(self.release, self.floating, horizon)

    def price_of(self, constraint: Constraint) -> Price:
        """What one of the constraints costs: the distortion with it less that without it, and proven bounds.

        The problem is solved again without it.

        >>> import understudy as us
        >>> from understudy.randomizer.constraints import Floor
        >>> us.solve([[0, 1, 2], [2, 1, 0]], leakage=0.3, constraints=[Floor(0.05)]).price_of(Floor(0.05))
        Price(Floor(0.05), 0.020902)
        """
        if not isinstance(constraint, Constraint):
            raise DesignError(
                f"price_of: {constraint!r} is no constraint; it must be one of the design's, as in Floor(0.05)"
            )
        if constraint not in self.constraints:
            raise DesignError(f"{describe(constraint)} is no constraint of the design, so it has no price there")
        rest = tuple(one for one in self.constraints if one != constraint)
        cost, p = np.array(self.cost), np.array(self.prior)
        without = solve_demand(cost, p, self.demand, self.family, self.costs, self.charge, rest)
        if self.demand[0] == "distortion_at_most":
            high = max(0.0, self.leakage - without.leakage_lower_bound)
            low = self.leakage_lower_bound - without.leakage
            return Price(constraint, self.leakage - without.leakage, low, high)
        high = max(0.0, self.distortion - without.lower_bound)
        low = max(0.0, self.lower_bound - without.distortion)
        return Price(constraint, min(max(self.distortion - without.distortion, low), high), low, high)

    @property
    def essence(self) -> Plain:
        """Kernel, prior and charge."""
        found: Plain = {"kernel": self.randomizer.counts.tolist(), "prior": self.prior.tolist()}
        if self.charge is not None:
            found["charge"] = [[repr(nats) for nats in self.charge.charged], self.charge.horizon]
        return found

    def row(self, value: Value) -> int:
        """Where a value of the private parameter stands."""
        return self.randomizer.row(value)

    def _is_drawn(self, column: int) -> bool:
        return bool((self.randomizer.kernel[:, column] > 0.0).any())

    def draw(self, row: int, rng: np.random.Generator | None = None) -> int:
        """Which pseudo value plays the private one of this row, by position."""
        return self.randomizer.draw_index(row, rng)

    def draw_at_no_cost(self, last: int) -> int:
        """The last draw, kept: it gives away nothing more."""
        return last

    def leakage_of_draw(self, marginal: ArrayLike | str | None = None) -> float:
        """Nats that one draw gives away: at the prior "design", at a given one, or at the worst if None."""
        if marginal is None:
            return capacity(self.randomizer.kernel, self.prior).upper
        if isinstance(marginal, str):
            if marginal != DESIGN_PRIOR:
                raise ConfigurationError(
                    f"marginal = {marginal!r}; it must be 'design', probabilities, or None if they are unknown"
                )
            return self.leakage
        return mutual_information(as_prior(marginal, len(self.values)), self.randomizer.kernel)

    def residual_of_block(self, marginal: ArrayLike | str | None = DESIGN_PRIOR) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings, missing ones among them; None if all are exact.

        At the prior "design", at a given one, or at the worst if None. `charge` bounds the divergence of the *first*
        readings of a sequence. A stream charges each later block of as many the same, which assumes that a later
        block diverges no more than the first: so it is, up to the error of the estimate, for a filter that has settled.
        """
        charge = self.charge
        if charge is None:
            return None
        if isinstance(marginal, str) and marginal == DESIGN_PRIOR:
            return charge.total, charge.horizon
        if marginal is None:
            return max(nats for nats, p in zip(charge.charged, self.prior, strict=True) if p > 0.0), charge.horizon
        return charge.at(as_prior(marginal, len(self.values))).total, charge.horizon

    def stream(
        self,
        theta: Value = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        room: str | None = None,
        share: str | None = None,
        epoch: dt.timedelta | int | None = None,
        rng: Seed = None,
        gaps: str | None = None,
        period: Duration | None = None,
        tolerance: Duration | None = None,
        fill: bool | None = None,
    ) -> Stream:
        """Begin a live stream: draw the pseudo value that plays `theta`, once, and remember it.

        Without `theta` it is begun untold: nothing is drawn, charged or released until the private value is given, by
        `Stream.becomes` or with a reading, and the draw is made at the first reading after that.

        `ledger` is a `us.Ledger` or the path of one; a stream that it has under this `name` goes on where it stood,
        without a new draw. `room` names what budgets are for; further streams of a room need `share`: "independent"
        (sensors independent given the parameter: one draw for all) or "separate" (another draw, charged). `epoch` is
        the time (a timedelta) or the number of readings after which to draw again. The random source is the operating
        system's; `rng` is for tests, and whatever is written then says "insecure".

        `gaps` says what to do about missing readings where the models have no exact law across them: "refuse" (the
        default) raises; "withhold" gives nothing out for as many readings in a row as make the law exact again, at the
        beginning and after each gap, and then begins the pseudo model anew. It is fixed when the stream is begun.

        `period` (a timedelta or seconds, by default that of the family) is the cadence of readings that have times:
        each is put into a slot, within `tolerance` (half a period), and slots that stay empty are missing readings.
        With `fill` they are released too, from fresh scores, and so are missing readings: then which of them were
        missing does not show. All of it is fixed when the stream is begun.
        """
        return self.begin(theta, ledger, Choices(name, room, share, epoch, rng, gaps, period, tolerance, None, fill))

    def begin(self, theta: Value, ledger: Ledger | str | os.PathLike[str] | None, choices: Choices) -> Stream:
        """Begin a stream, or go on with the one that the ledger has under this name; see `stream`."""
        # what streams must have in common to share a draw: the kernel, and what its rows and columns stand for
        if "draws" not in self._cache:
            names = [value_to_plain(value) for value in (*self.values, *self.pseudo)]
            self._cache["draws"] = fingerprint({"kernel": self.randomizer.counts.tolist(), "names": names})
        options = {**Clock.checked(choices.epoch), "randomizer": self._cache["draws"]}
        return begin_or_open(self, theta, ledger, choices, options)

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design; without models, probes of them alone."""
        name, value = self.demand
        content = shared_content(self, self.cost, models) | {
            "kernel": self.randomizer.counts.tolist(),
            "numbers": {number: number_to_plain(getattr(self, number)) for number in _NUMBERS},
            "demand": [name, value if isinstance(value, str) else number_to_plain(float(value))],
            "status": self.status,
            "iterations": self.iterations,
        }
        # these only where there is one, so that files of exact models are what they always were
        if self.charge is not None:
            content["charge"] = self.charge.to_dict()
        if self.constraints:
            content["constraints"] = [one.to_dict() for one in self.constraints]
        if self.certificate is not None:
            content["multipliers"] = self.certificate.to_dict()
        return content

    @classmethod
    def from_content(cls, content: Plain, family: Family | None) -> Design:
        """The design in a file, if what it claims is proved; see `load_design`."""
        if content.keys() - {"charge", "constraints", "multipliers"} - MORE_FIELDS != FIELDS:
            raise StoredFileError("the fields are not those of a design")
        parts = shared_parts(content, family)
        leak = stored_charge(content.get("charge"), parts, stored_share(content))
        name, value = content["demand"]
        if name not in ("leakage", "error_at_least", "distortion_at_most"):
            raise StoredFileError("demand must be of leakage, error_at_least or distortion_at_most")
        demand = name, stored_demand(value)
        randomizer = stored_randomizer(content["kernel"], parts)
        claim = _Claim(content)
        beside = tuple(Constraint.from_dict(one) for one in entries("constraints", content.get("constraints", [])))
        by = Multipliers.from_dict(content["multipliers"]) if "multipliers" in content else None
        if by is None and (beside or name == "error_at_least"):
            made = _compare(parts, randomizer, demand, beside, leak)
        else:
            made = _certify(parts, randomizer, (demand, beside, by), leak, claim)
        claim.check(made)
        return with_terms(made, stored_terms(content, parts.family))


_SLOTS = tuple(vars(Design)[one.name].__set__ for one in fields(Design))


def _construct(*given: Any) -> Design:
    """What the constructor makes of all fields but the last two, in half the time: through the slots themselves."""
    made = object.__new__(Design)
    for put, value in zip(_SLOTS, (*given, DEFAULT_TERMS, {}), strict=True):
        put(made, value)
    return made


def total(leakage: float, charge: Charge | None) -> float:
    """The leakage of a draw and of the models, rounded up."""
    return leakage if charge is None else rounded_up(Fraction(leakage) + Fraction(charge.total))


# `us.design` for a family of models, `us.solve` for a cost matrix ------------------------------------


_D = TypeVar("_D", bound=Design)
Demand: TypeAlias = tuple[str, float | str]
"""What is asked for, leakage, error_at_least or distortion_at_most, and how much."""


def solve(
    cost: ArrayLike,
    prior: ArrayLike | None = None,
    *,
    leakage: float | str | None = None,
    error_at_least: float | None = None,
    distortion_at_most: float | None = None,
    constraints: Constraint | Iterable[Constraint] | None = (),
) -> Design:
    """The randomizer of least expected cost that gives away no more than asked, with its proof.

    `cost` is (m, n), 0 or more, infinite where a pair is forbidden; `prior` is uniform by default. Exactly one
    demand is made: `leakage` bounds the mutual information (a number of nats, "0.3 nats", "0.4 bit", "40%" of the
    entropy); `error_at_least` is the probability with which every guess must be wrong; `distortion_at_most`
    asks for the least leakage at that expected cost.

    `constraints` are kept besides, exactly: other measures (`LocalDP`, `MaximalLeakage`, `PointwiseLeakage`,
    `TotalVariation`, `ErrorAtLeast`), full support (`Floor`), and what people have to live with (`Forbidden`, `Same`).
    With constraints there may be no demand at all.

    >>> import numpy as np
    >>> import understudy as us
    >>> x = np.linspace(0, 1, 16)
    >>> solved = us.solve((x[:, None] - x) ** 2, leakage=1.0)
    >>> round(solved.distortion, 12), solved.status
    (0.010060755323, 'optimal')
    >>> us.solve(1.0 - np.eye(3), distortion_at_most=0.1).leakage <= us.solve(1.0 - np.eye(3), leakage="100%").leakage
    True
    >>> from understudy.randomizer.constraints import LocalDP
    >>> us.solve(1.0 - np.eye(2), constraints=[LocalDP(1.0)]).randomizer.kernel.round(4).tolist()
    [[0.7311, 0.2689], [0.2689, 0.7311]]
    """
    matrix = as_cost(cost)
    p = as_prior(prior, matrix.shape[0])
    beside = as_constraints(constraints) if constraints else ()
    demand = _one_demand(leakage, error_at_least, distortion_at_most, bool(beside))
    return solve_demand(matrix, p, demand, None, None, None, beside)


def design(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    leakage: float | str | None = None,
    error_at_least: float | None = None,
    distortion_at_most: float | None = None,
    constraints: Constraint | Iterable[Constraint] | None = (),
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    resolution: Resolution = None,
    readings: str | Sequence[str | None] | None = None,
    valid: tuple[ArrayLike, ArrayLike] | None = None,
    fresh: float = 0.0,
    output: str = LIFELIKE,
    history: Recording | None = None,
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

    `fresh` is the fresh share s, from 0 to 1. Scores z are mixed with fresh standard normals w, to
    sqrt(1 - s^2) z + s w. The outputs keep their law, and what wrong models of the private values leak in the scores,
    their divergence from white noise, shrinks by 1 - s^2; the readings change more. At 1 no reading enters the outputs.

    `output` is "lifelike", readings with the law of the pseudo value, or "least-change", a filter of the scores that
    was fitted to `history` for the least mean change, or a constant where no filter is better
    (`understudy.randomizer.least_change`). Its leakage is bounded in the same way. Its distortion is a mean over
    training days, measured and not proven; `horizon` and `accuracy` play no part in it. `history` is a
    `History` of labelled readings of the family, as `us.Identifier.read` gives it.

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
    beside = as_constraints(constraints) if constraints else ()
    demand = _one_demand(leakage, error_at_least, distortion_at_most, bool(beside))
    if not isinstance(family, Family):
        raise DesignError(f"family is a {type(family).__name__}; it must be a Family (us.solve takes bare costs)")
    # a bad budget is refused before the work, and so is one that the models alone exceed
    budget = _budget_in_nats(demand[1], family.prior) if demand[0] == "leakage" else 0.0
    share = as_share(fresh)
    leak = charge(family, horizon, rng, share)
    if leak is not None and demand[0] == "leakage":
        leak.left_for_the_draw(budget)
    elif leak is not None and demand[0] == "error_at_least":
        leak.asked_of_the_draw(_number(*demand), family.prior)
    terms = Terms(resolution, readings, valid, share)
    recording = None if (output, history) == (LIFELIKE, None) else check_output(output, history)
    if recording is None:
        found = costs(family, pseudo, horizon, distortion, weights, accuracy, rng, progress, share)
        return with_terms(solve_demand(found.matrix, family.prior, demand, family, found, leak, beside), terms)
    names, measure = several(family.values if pseudo is None else pseudo), Measure(distortion, family.dim, weights)
    runs = runs_of(family, recording, SEED if rng is None else rng)

    def solved(outputs: LeastChange) -> tuple[Design, Array, float]:
        measured = measured_costs(outputs, runs, family, names, measure)
        made = solve_demand(np.array(measured.matrix), family.prior, demand, family, measured, leak, beside)
        aim = made.leakage if demand[0] == "distortion_at_most" else made.distortion
        return made, made.randomizer.kernel, aim

    shape, models = (len(family.values), len(names)), [family.model(value) for value in names]
    made, outputs = fit_with_kernel(runs, shape, measure, recording.period, share, solved, models, family.prior)
    return with_terms(made, terms._replace(outputs=outputs))


def with_terms(made: _D, terms: Terms) -> _D:
    """The same design, with what was asked for about the readings that leave and come in."""
    asked = any(term is not None for term in (terms.resolution, terms.readings, terms.valid))
    if not asked and not terms.fresh and terms.outputs is None:
        return made
    made = replace(made, terms=terms)
    if asked:
        _ = made.release  # what cannot be kept is refused now
    return made


def _one_demand(
    leakage: float | str | None, error_at_least: float | None, distortion_at_most: float | None, constraints: bool
) -> Demand:
    """The demand; none where there are constraints is a leakage without limit."""
    if leakage is not None and error_at_least is None and distortion_at_most is None:
        return "leakage", leakage
    demands = {"leakage": leakage, "error_at_least": error_at_least, "distortion_at_most": distortion_at_most}
    given = [(name, value) for name, value in demands.items() if value is not None]
    if constraints and not given:
        return "leakage", math.inf
    if len(given) != 1:
        raise DesignError(
            f"{' and '.join(name for name, _ in given) or 'no demand'} given; "
            "exactly one of leakage, error_at_least and distortion_at_most is needed"
        )
    return given[0]


def _budget_in_nats(wanted: float | str, p: Array) -> float:
    """The budget of a demand; the entropy of the prior is needed only for one that is written in words."""
    if type(wanted) is float and 0.0 <= wanted < math.inf:
        return wanted
    return nats(wanted, entropy(p))


def solve_demand(
    cost: Array,
    p: Array,
    demand: Demand,
    family: Family | None,
    found: Costs | None,
    leak: Charge | None = None,
    constraints: tuple[Constraint, ...] = (),
) -> Design:
    """A design from checked costs, one demand, what the models themselves give away, and constraints."""
    name, wanted = demand
    amount = _budget_in_nats(wanted, p) if name == "leakage" else _number(name, wanted)
    asked, proven = amount, 0.0  # asked of the draw, which must keep the demand together with the models
    if leak is not None and name != "distortion_at_most":
        asked = leak.left_for_the_draw(amount) if name == "leakage" else leak.asked_of_the_draw(amount, p)
    try:
        if constraints:
            names = None if found is None else Names(tuple(found.values), tuple(found.pseudo))
            known = names or Names(tuple(range(len(p))), tuple(range(cost.shape[1])))
            effective = _effective_constraints(demand, constraints, leak, p, known)
            kept = [one for one in effective if not isinstance(one, Multiples)]
            if name == "distortion_at_most":
                solution, proven = least_leakage_within(cost, p, kept, asked, names)
            else:
                solution = Problem(cost, p, kept, asked if name == "leakage" else math.inf, names).solve()
        elif name == "leakage":
            solution = minimise(cost, p, asked)
        elif name == "error_at_least":
            solution = least_distortion(cost, p, asked)
        else:
            solution, proven = least_leakage(cost, p, asked)
    except InfeasibleError as error:
        if leak is None or name == "distortion_at_most" or amount == math.inf:
            raise
        sign, part = ("less", leak.total) if name == "leakage" else ("and", leak.variation)
        raise InfeasibleError(
            f"{error}; that is the {amount:.6g} asked for, {sign} {part:.3g} for what the models themselves give "
            f"away over {leak.readings} ({leak.how})"
        ) from None
    budget: float | None = None
    if name == "distortion_at_most":
        budget = total(solution.leakage, leak)
    elif name == "leakage" and not (constraints and amount == math.inf):
        budget = amount
    return _design_of_solution(solution, (cost, p, demand, proven, budget), family, found, leak, constraints)


def _design_of_solution(
    solution: Solution,
    problem: tuple[Array, Array, Demand, float, float | None],
    family: Family | None,
    found: Costs | None,
    leak: Charge | None,
    constraints: tuple[Constraint, ...] = (),
) -> Design:
    """The design of a solution: of costs and a prior, a demand, a leakage that is proven, and a budget."""
    cost, p, demand, proven, budget = problem
    names = (None, None) if found is None else (found.values, found.pseudo)
    randomizer = Randomizer.from_solver(solution.kernel, *names)
    error = 0.0 if found is None else found.expected(p[:, None] * solution.kernel)[1]
    p.setflags(write=False)
    cost.setflags(write=False)
    distortion, lower = bounds_of(solution)
    if demand[0] == "distortion_at_most":
        distortion = min(distortion, _number(*demand))  # met exactly: the solver has made sure of it
        lower = min(lower, distortion)
    gap = max(solution.excess - solution.bound, 0.0)
    status = "optimal" if solution.optimal else "inexact"
    return _construct(
        randomizer, p, cost, distortion, lower, gap, solution.leakage, budget, demand, status,
        solution.iterations, solution.slope, proven, error, family, found, leak, constraints, solution.multipliers,
    )  # fmt: skip


def _effective_constraints(
    demand: Demand, constraints: tuple[Constraint, ...], leak: Charge | None, p: Array, names: Names
) -> tuple[Constraint, ...]:
    """The constraints that the draw itself has to keep, by position.

    An error that was asked for is one, and is raised by what the models help a guess.
    """
    name, wanted = demand
    given = [*constraints, *([ErrorAtLeast(_number(name, wanted))] if name == "error_at_least" else ())]
    placed = [one.by_position(*names) for one in given]
    if leak is None:
        return tuple(placed)
    return tuple(
        ErrorAtLeast(leak.asked_of_the_draw(one.error, p)) if isinstance(one, ErrorAtLeast) else one for one in placed
    )


def _number(name: str, value: float | str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise DesignError(f"{name} = {value!r}; it must be a number")
    return float(value)


# Streams ----------------------------------------------------------------------------------------------


MANY_DECIMALS = 9
"""So many decimals, which is as far as a fit counts, or more: the readings have all digits."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a stream is begun with, besides design, private value and ledger; None where nothing was said."""

    name: str | None = None
    room: str | None = None
    share: str | None = None
    epoch: dt.timedelta | int | None = None
    rng: Seed = None
    gaps: str | None = None
    period: Duration | None = None
    tolerance: Duration | None = None
    origin: int | None = None
    fill: bool | None = None


def begin_or_open(
    design: AnyDesign, theta: Value, ledger: Ledger | str | os.PathLike[str] | None, choices: Choices, options: Plain
) -> Stream:
    """A new stream with these options; or the one of this name, whose terms must be those that are given, if any."""
    name, room = choices.name, choices.room
    title = "stream" if name is None else name
    if not isinstance(title, str) or not title or not (room is None or (isinstance(room, str) and room)):
        raise ConfigurationError(f"name = {name!r}, room = {room!r}; both must be texts")
    if choices.fill not in (None, True, False):
        raise ConfigurationError(f"fill = {choices.fill!r}; it must be True or False")
    if choices.gaps not in (None, REFUSE, WITHHOLD):
        raise ConfigurationError(f"gaps = {choices.gaps!r}; it must be 'refuse' or 'withhold'")
    generator = None if choices.rng is None else np.random.default_rng(choices.rng)
    if ledger is not None and not isinstance(ledger, Ledger):
        opened = Ledger(ledger)
        try:
            return begin_or_open(design, theta, opened, replace(choices, rng=generator), options)
        except BaseException:
            opened.close()  # or its lock would outlive the call
            raise
    known = None if ledger is None else ledger.stream(title)
    if ledger is not None and known is not None:
        _check_same_terms(known, choices)
        return Stream.open(ledger, design, title, theta=theta, period=choices.period)
    check_name("name", title)
    check_name("room", title if room is None else room)
    check_floating(design)
    options = {
        **options, **_cadence(design, choices), "resolution": list(design.release.lattice.steps), "index": CLOCK_INDEX,
    }  # fmt: skip
    if design.kind != COIN:  # a toss that waits for a reading would show, under the toss before, which ones are missing
        options["draws"] = RELEASED
    gaps = choices.gaps
    if gaps is None and "cadence" in options:
        with contextlib.suppress(ModelError):
            gaps = None if _refill(design) is None else WITHHOLD  # a slot that stays empty is no error
    if gaps == WITHHOLD:
        _refill(design)  # refuses, before anything is drawn
        options = options | {"gaps": WITHHOLD}
    group = title if room is None else room
    if ledger is not None:
        options = options | _shared_draw(options, ledger, group, choices.share)
    row = StreamRow(0, title, group, design.fingerprint, new_secret(generator), generator is not None, options)
    return Stream.begin(design, theta, ledger, row)


def _cadence(design: StreamDesign, choices: Choices) -> Plain:
    """The cadence and what happens to empty slots, as they are stored."""
    period = period_of(design) if choices.period is None else choices.period
    if period is None:
        if choices.tolerance is not None:
            raise ConfigurationError("tolerance = is for readings with times; give period= too")
        return {"fill": True} if choices.fill else {}
    cadence = Cadence.checked(period, choices.tolerance, choices.origin)
    return {"cadence": list(cadence), **({"fill": True} if choices.fill else {})}


def _refill(design: AnyDesign) -> int | None:
    """How many readings in a row the models need after a gap, all of them as many; refuses models that differ."""
    if design.family is None:
        return None
    return refill_between(map(design.source, range(len(design.values))), design.targets)


def _check_same_terms(known: StreamRow, choices: Choices) -> None:
    """Refuse to go on with a stream under other terms than it was begun with."""
    stored = {key: value for key, value in known.options.items() if key in ("epoch", "timed")}
    if choices.epoch is not None and Clock.checked(choices.epoch) != stored:
        raise ConfigurationError(f"the stream {known.name!r} has epochs of another length, fixed when it was begun")
    if choices.room is not None and choices.room != known.room:
        raise ConfigurationError(
            f"the stream {known.name!r} belongs to the room {known.room!r}, not to {choices.room!r}"
        )
    others = (("gaps", choices.gaps, REFUSE), ("fill", choices.fill, False))
    for option, given, usual in others:
        if given is not None and given != known.options.get(option, usual):
            raise ConfigurationError(
                f"{option} = {given!r}; the stream {known.name!r} was begun with another choice, for good"
            )
    if choices.tolerance is not None:
        found = Cadence.stored(known.options)
        if found is None or Cadence.checked(found.period / 1e9, choices.tolerance).tolerance != found.tolerance:
            raise ConfigurationError(
                f"tolerance = {choices.tolerance!r}; the stream {known.name!r} was begun with another one, for good"
            )


def _shared_draw(options: Plain, ledger: Ledger, room: str, share: str | None) -> Plain:
    """Whether another stream of the room is played by the same draw; refuses where nobody has said."""
    others = ledger.room(room)
    if not others:
        return {}
    if share == "separate":
        warnings.warn(
            f"the streams of {room!r} have separate draws: each gives away its own leakage, and all are charged",
            UnderstudyWarning,
            stacklevel=4,
        )
        return {}
    if share == "independent":
        first = others[0]
        if first.options.get("randomizer") != options.get("randomizer"):
            raise ConfigurationError(
                f"the stream {first.name!r} of {room!r} has another randomizer; a draw is shared by designs of one"
            )
        return {"draw_of": first.name}
    raise ConfigurationError(
        f"{room!r} has the stream {others[0].name!r} already. Sensors of one room belong into one joint model "
        "(channels of one stream). If they are independent given the parameter, say share='independent' (one draw for "
        "all); share='separate' draws again and charges for it"
    )


# Files: versioned JSON with a fingerprint, parameters only, never code ---------------------------------


VERSION, VERSIONS = 2, (1, 2)
"""Of files of designs; version 1, of understudy 0.1, says nothing about the release: the default serves."""

_NUMBERS = (
    "distortion", "lower_bound", "gap", "leakage", "leakage_lower_bound", "budget", "slope", "distortion_error",
)  # fmt: skip
SHARED_FIELDS = {"values", "pseudo", "prior", "cost", "costs", "family", "probes", "release"}
FIELDS = SHARED_FIELDS | {"kernel", "numbers", "demand", "status", "iterations"}
_NO_SOLUTION = "the kernel is not a solution for the prior, the costs and the demand"
_DEARER, _DEARER_IN_MULTIPLES = 1e-6, 1e-2  # what a stored kernel may cost above one that is found anew


def load_design(path: str | os.PathLike[str], family: Family | None = None) -> Any:
    """Read a design that `Design.save`, `CausalDesign.save` or `CoinDesign.save` wrote, and check it.

    Parameters
    ----------
    path : str or path
        A file that ``save`` wrote, by this version or by 0.1.
    family : Family, optional
        Where the file holds no models, the family to attach; without it the design has none: its randomizer and its
        guarantee are there, its streams are not. Where the file holds models, the family takes their place. It must be
        the one that the design was made for, which is checked as far as a probe of its models can.

    Returns
    -------
    Design, CausalDesign, RobustDesign or CoinDesign

    Raises
    ------
    StoredFileError
        If the file is damaged, was edited, or claims what it does not prove.

    Notes
    -----
    Nothing is solved again. The counts of each row of the kernel sum to 2^53 exactly, its mutual information keeps the
    budget with rounding allowed for, each constraint is checked exactly, and the lower bound is proved anew by one dual
    evaluation at the stored multipliers (`understudy.randomizer.certificate`). Files of 0.2 and before hold no
    multipliers of constraints: such a design with constraints, or with an error that was asked for, is compared with
    one that is found anew. So is the long run of a causal design.
    The costs are taken as they stand: that they are those of the models is not checked.

    Examples
    --------
    >>> import os, tempfile
    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))})
    >>> made = us.design(family, leakage=0.3, distortion="mae")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = made.save(os.path.join(folder, "room.json"))
    ...     loaded = us.load_design(os.path.join(folder, "room.json"))
    >>> loaded
    Design(2 x 2, distortion=0.400758, leakage=0.3, optimal)
    >>> bool((loaded.randomizer.kernel == made.randomizer.kernel).all())
    True

    """
    kind = kind_of_file(path)
    kind = kind if kind in KINDS["design"] else "design"
    document = read(path, kind, VERSIONS)
    content = {"release": None, **document.content} if document.version == 1 else document.content
    try:
        return class_of("design", kind).from_content(content, family)
    except StoredFileError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, ConfigurationError) as error:
        # the message names the kind of error, never the content
        raise StoredFileError(
            f"{os.fspath(path)!s}: the design does not hold together ({type(error).__name__}); "
            "it was not written by this program, or by another version of it"
        ) from None


class StoredParts(NamedTuple):
    """What the files of all kinds of designs hold, checked."""

    values: list[Value]
    pseudo: list[Value]
    prior: Array
    cost: Array
    family: Family | None
    costs: Costs | None


def shared_content(design: AnyDesign, cost: Array, models: bool) -> Plain:
    """What the files of all kinds of designs hold; beside each model a probe, by which a family is known again."""
    family = design.family
    return {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "prior": design.prior.tolist(),
        "cost": matrix_to_plain(cost),
        "costs": None if design.costs is None else design.costs.to_dict(),
        "family": family.to_dict(design.pseudo) if models and family is not None else None,
        "probes": None if family is None else [probe(family.model(v)) for v in (*design.values, *design.pseudo)],
        "release": None if family is None else design.release.to_plain(),
    } | _stored_more(design)


MORE_FIELDS = {"fresh", "outputs"}


def _stored_more(design: AnyDesign) -> Plain:
    """Fresh share and outputs as files and fingerprints have them: only where there are any, so that others stay."""
    found: Plain = {"fresh": design.fresh} if design.fresh else {}
    outputs = design.terms.outputs
    return found if outputs is None else found | {"outputs": outputs.to_plain()}


def stored_outputs(content: Plain, columns: int, dim: int) -> LeastChange | None:
    """The least-change outputs that a file holds."""
    if "outputs" not in content:
        return None
    found = LeastChange.from_plain(content["outputs"])
    if len(found.columns) != columns or any(target.dim != dim for target in found.targets):
        raise StoredFileError("outputs must hold a model for each pseudo value, with the channels of the family")
    return found


def stored_share(content: Plain) -> float:
    """The fresh share that a file states."""
    return as_share(content["fresh"]) if "fresh" in content else 0.0


def shared_parts(content: Plain, family: Family | None, any_prior: bool = False) -> StoredParts:
    """What `shared_content` wrote, with the family that is given in place of the stored one, if it is the same."""
    values = [value_from_plain(value) for value in entries("values", content["values"])]
    pseudo = [value_from_plain(value) for value in entries("pseudo", content["pseudo"])]
    cost = as_cost(matrix_from_plain("cost", content["cost"], (len(values), len(pseudo))))
    prior = as_prior(matrix_from_plain("prior", content["prior"], (len(values),)), len(values))
    if family is not None and any_prior and not np.array_equal(family.prior, prior):
        family = Family(family.model, family.values, prior, family.about)
    attached = _attach_family(content, values, pseudo, family)
    if attached is not None and not np.array_equal(attached.prior, prior):
        raise StoredFileError("the family has another prior than the design was made for")
    plain = content["costs"]
    return StoredParts(
        values, pseudo, prior, cost, attached, None if plain is None else Costs.from_dict(plain, cost, values, pseudo)
    )


def _attach_family(content: Plain, values: list[Value], pseudo: list[Value], family: Family | None) -> Family | None:
    probes = content["probes"]
    if probes is None:
        if family is not None:
            raise StoredFileError("the design was made from bare costs; there is no family to attach")
        return None
    if family is None:
        if content["family"] is None:
            return None
        family = Family.from_dict(content["family"])
    if len(family.values) != len(values) or not all(map(_same_value, family.values, values)):
        raise StoredFileError("the family has other values than the design was made for")
    members = [*values, *pseudo]
    if len(probes) != len(members):
        raise StoredFileError("probes must hold one entry for each value and pseudo value")
    for position, (value, expected) in enumerate(zip(members, probes, strict=True)):
        if not same_probe(probe(family.model(value)), expected):
            where = f"value {position}" if position < len(values) else f"pseudo value {position - len(values)}"
            raise StoredFileError(f"the model of {where} is not the one that the design was made for")
    return family


_PLAIN_VALUES = frozenset((int, float, str, bool))


def equal_values(a: Value, b: Value) -> bool:
    """Whether two values of a parameter are equal, arrays included."""
    if a is b:
        return True
    if type(a) in _PLAIN_VALUES and type(b) in _PLAIN_VALUES:
        return bool(a == b)
    return bool(np.array_equal(a, b))  # type: ignore[arg-type]  # any object will do


def _same_value(a: Value, b: Value) -> bool:
    return type(a) is type(b) and equal_values(a, b)


def stored_randomizer(counts: Json, parts: StoredParts) -> Randomizer:
    """The kernel of a file, exactly: whole numbers, none negative, that sum to 2^53 in each row."""
    rows = [[x if type(x) is int else -1 for x in entries("kernel", row)] for row in entries("kernel", counts)]
    if any(min(row, default=-1) < 0 or sum(row) != 1 << BITS for row in rows):
        raise StoredFileError("kernel must hold whole numbers that sum to 2^53 in each row")
    kernel = matrix_from_plain("kernel", [[x / (1 << BITS) for x in row] for row in rows], parts.cost.shape)
    return Randomizer(kernel, parts.values, parts.pseudo)


def stored_charge(plain: Json, parts: StoredParts, fresh: float = 0.0) -> Charge | None:
    """What the models are charged with, if the file says so and they are what it says."""
    there = (parts.prior > 0.0).tolist()
    models = [] if parts.family is None else [parts.family.model(value) for value in parts.family.values]
    approximate = [isinstance(model, Approximate) for model in models]
    if plain is None:
        if fresh < 1.0 and any(a and b for a, b in zip(approximate, there, strict=bool(models))):
            raise StoredFileError(
                "the models are approximate, and the design was made without a charge for what they give away; "
                "make it again"
            )
        return None
    if type(plain) is not dict or parts.costs is None:
        raise StoredFileError("charge must say what the models give away, in a design that was made from models")
    made = Charge.from_dict(plain, parts.prior, parts.costs.horizon)
    exact_but_charged = [x > 0.0 and not a for x, a in zip(made.charged, approximate, strict=bool(models))]
    if models and (any(exact_but_charged) or not any(approximate)):
        raise StoredFileError("charge is for models that are approximate, and those of the family are not")
    return made


def stored_demand(value: Json) -> str | float:
    """How much was asked for: in words, or a number."""
    if type(value) is str and value not in ("infinite", "undefined"):
        return value
    return number_from_plain("demand", value)


def stored_terms(content: Plain, family: Family | None) -> Terms:
    """What a file says about the readings that leave and come in."""
    plain, fresh = content["release"], stored_share(content)
    if plain is None or family is None:
        return Terms(fresh=fresh)
    outputs = stored_outputs(content, len(content["pseudo"]), family.dim)
    if plain.keys() - {"possible"} != {"resolution", "readings", "valid"}:  # the family says what is possible
        raise StoredFileError("release must say resolution, readings and valid")
    return Terms(plain["resolution"], plain["readings"], tuple(plain["valid"]), fresh, outputs)


class _Claim:
    """The figures that a file states."""

    def __init__(self, content: Plain) -> None:
        plain = content["numbers"]
        budget = plain["budget"]
        self.numbers = {name: number_from_plain(name, plain[name]) for name in _NUMBERS if name != "budget"}
        self.budget = None if budget is None else number_from_plain("budget", budget)
        self.status, self.iterations = content["status"], content["iterations"]
        if type(self.iterations) is not int:
            raise StoredFileError("status or iterations is not what the kernel, the prior and the costs give")

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    def check(self, made: Design) -> None:
        """Refuse a file that states something else than its kernel, prior and costs give."""
        for name, claim in {**self.numbers, "budget": self.budget}.items():
            truth = getattr(made, name)
            scale = made.distortion - made.lower_bound if name == "gap" else 0.0
            # the slope of constraints is known to fewer digits than the rest, and no part of a proof
            if not (made.constraints and name == "slope") and not agree(claim, truth, scale):
                raise StoredFileError(f"{name} is not what the kernel, the prior and the costs give")
        if self.status != made.status:
            raise StoredFileError("status or iterations is not what the kernel, the prior and the costs give")


def agree(claim: float | None, truth: float | None, scale: float = 0.0) -> bool:
    """Whether two figures are the same, as another machine may round them."""
    if claim is None or truth is None:
        return claim is truth
    if math.isnan(claim) or math.isnan(truth):
        return math.isnan(claim) and math.isnan(truth)
    return math.isclose(claim, truth, rel_tol=1e-6, abs_tol=1e-12 * abs(truth) + abs(scale) + 1e-30)


def _certify(
    parts: StoredParts,
    stored: Randomizer,
    asked: tuple[Demand, tuple[Constraint, ...], Multipliers | None],
    leak: Charge | None,
    claim: _Claim,
) -> Design:
    """The design of a stored kernel, if that keeps all that was asked and proves the bounds that are claimed.

    With multipliers the problem is one with constraints, an error that was asked for being one of them.
    """
    (demand, constraints, by), p, cost, kernel = asked, parts.prior, parts.cost, stored.kernel
    name, wanted = demand
    leakage = information(p, kernel.reshape(-1))
    # where a distortion was asked for, the budget is the leakage of the kernel, and a little more for rounding
    budget, left = total(leakage, leak), leakage * (1.0 + 1e-14)
    if name != "distortion_at_most":
        budget = _budget_in_nats(wanted, p) if name == "leakage" else math.inf
        left = budget if leak is None else leak.left_for_the_draw(budget)
    tolerance = TOLERANCE if by is None else CONSTRAINED_TOLERANCE
    if by is None:
        proof = prove(cost, p, kernel, left, claim["slope"], claim.iterations)
    else:
        names = Names(stored.values, stored.pseudo)
        problem = Problem(cost, p, _effective_constraints(demand, constraints, leak, p, names), left)
        proof = Proof(problem.prove(kernel, by)._replace(iterations=claim.iterations), problem.rounding)
    solution = proof.solution
    leak_gap = 0.0
    if name == "distortion_at_most":
        limit = _number(name, wanted)
        if not meets(solution, cost, p, limit):
            raise StoredFileError(_NO_SOLUTION)
        least = Dual(leakage_bound(solution, left, limit), 1e-14 * leakage)
        if by is None:
            least = proven_leakage(cost, p, kernel, limit, claim["slope"])
        if not is_proved(claim["leakage_lower_bound"], least.value, leakage, least.rounding, tolerance):
            raise StoredFileError("leakage_lower_bound is not what the kernel, the prior and the costs give")
        leak_gap = leakage - claim["leakage_lower_bound"] - tolerance * leakage - 1e-14
    closed = solution.optimal and leak_gap <= 0.0
    if claim.status == "optimal" and not closed:
        raise StoredFileError(_NO_SOLUTION)
    figures = cost, p, demand, claim["leakage_lower_bound"], None if by and budget == math.inf else budget
    made = _design_of_solution(solution, figures, parts.family, parts.costs, leak, constraints)
    rounding = proof.rounding + 1e-15 * made.distortion
    claims = (solution.excess - claim["gap"], solution.bound), (claim["lower_bound"], made.lower_bound)
    if not all(is_proved(bound, least, solution.excess, rounding, tolerance) for bound, least in claims):
        raise StoredFileError("lower_bound is not what the kernel, the prior and the costs give")
    # what was claimed is proved; a gap that was not closed when the file was written stays so
    inexact = claim.status == "inexact" and (claim["gap"] > tolerance * solution.excess or leak_gap > 0.0)
    lower = claim["lower_bound"] if agree(claim["lower_bound"], made.lower_bound) else made.lower_bound
    slack = max(made.distortion - lower, 0.1 * tolerance * solution.excess)
    gap = claim["gap"] if agree(claim["gap"], made.gap, slack) else made.gap
    status = "inexact" if inexact else made.status
    return replace(made, randomizer=stored, lower_bound=lower, gap=gap, status=status)


def _compare(
    parts: StoredParts, stored: Randomizer, demand: Demand, constraints: tuple[Constraint, ...], leak: Charge | None
) -> Design:
    """The design of a stored kernel that keeps all constraints, exactly, and costs no more than one found anew."""
    fresh = solve_demand(parts.cost, parts.prior, demand, parts.family, parts.costs, leak, constraints)
    exact, p = Exact(fresh.prior, stored.kernel), fresh.prior
    kept = _effective_constraints(demand, constraints, leak, p, Names(stored.values, stored.pseudo))
    drawn = (stored.kernel > 0.0) & (p[:, None] > 0.0)
    distortion = math.fsum(((p[:, None] * stored.kernel)[drawn] * fresh.cost[drawn]).tolist())
    leakage = information(p, stored.kernel.reshape(-1))
    spent = total(leakage, leak)
    inverse = demand[0] == "distortion_at_most"
    coarse = any(isinstance(one, Multiples) for one in constraints)
    dearer = _DEARER_IN_MULTIPLES if coarse else _DEARER
    if (
        not all(one.holds_exactly(exact) for one in kept)
        or (fresh.budget is not None and not inverse and spent > fresh.budget)
        or (
            inverse
            and (distortion > _number(*demand) * (1.0 + 1e-15) or leakage > fresh.leakage * (1.0 + dearer) + 1e-12)
        )
        or (not inverse and distortion > fresh.distortion * (1.0 + dearer))
        or distortion < fresh.lower_bound * (1.0 - 1e-12)
    ):
        raise StoredFileError("the kernel is not a solution for the prior, the costs, the demand and the constraints")
    if (fresh.randomizer.kernel == stored.kernel).all():
        return replace(fresh, randomizer=stored)
    gap = max(distortion - fresh.lower_bound, 0.0)
    budget = spent if inverse else fresh.budget
    status = "inexact" if coarse else fresh.status
    # the multipliers are those of the kernel that was found anew: the file is compared again when it is loaded again
    return replace(
        fresh,
        randomizer=stored,
        distortion=distortion,
        leakage=leakage,
        budget=budget,
        gap=gap,
        status=status,
        certificate=None,
    )
