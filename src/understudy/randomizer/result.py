"""A design: the randomizer, what it costs, what it gives away, and the proof of both."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.distortion.cost import Costs
from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.randomizer import card
from understudy.randomizer.charge import Charge, rounded_up
from understudy.randomizer.constrained.base import Constraint
from understudy.randomizer.guarantee import Guarantee, Released, released
from understudy.randomizer.sampler import Randomizer
from understudy.stream.release import NOTHING_ASKED, Release, Terms

if TYPE_CHECKING:
    from understudy.randomizer.constrained.pricing import Price
    from understudy.stream.stream import Stream
    from understudy.transform.roundoff import Roundoff


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Design:
    """A randomizer with its certificate; `us.design` and `us.solve` make one.

    No kernel within the budget has a distortion below `lower_bound`, and this one has `distortion`: what is
    between them is `gap`. `status` is "optimal" when the gap is closed (1e-9 of what distortion there is
    above the least possible, or as far as double precision can prove), else "inexact". `leakage` is
    I(Theta; ~Theta) in nats, at most `budget`. `demand` tells what was asked for; where that was a distortion,
    no randomizer that meets it leaks less than `leakage_lower_bound`, and the status is of that gap too.

    Where models of the private values are approximate, `charge` holds what they give away themselves, and `residual`
    its total. The budget is then one for `total_leakage`, the sum, and the kernels that `lower_bound` speaks of are
    those that keep it together with the residual.

    `constraints` are kept besides, each exactly; `lower_bound` then speaks of the kernels that keep them too, and a gap
    of 1e-7 counts as closed. In multiples (`Multiples`) the bound is that of all kernels, and the gap is the distance
    to it. Where nothing but constraints was asked for, the demand is a leakage of infinity, and there is no budget.

    >>> import understudy as us
    >>> solved = us.solve([[0, 1], [1, 0]], leakage=0.2)
    >>> solved
    Design(2 x 2, distortion=0.194827, leakage=0.2, optimal)
    >>> solved.lower_bound <= solved.distortion and solved.leakage <= 0.2
    True
    """

    randomizer: Randomizer
    prior: Array
    cost: Array
    distortion: float
    lower_bound: float
    gap: float
    leakage: float
    budget: float | None
    demand: tuple[str, Any]
    status: str
    iterations: int
    slope: float
    leakage_lower_bound: float = 0.0
    distortion_error: float = 0.0
    family: Family | None = None
    costs: Costs | None = None
    charge: Charge | None = None
    constraints: tuple[Constraint, ...] = ()
    terms: Terms = NOTHING_ASKED
    _kept: dict[str, Any] = field(default_factory=dict, init=False)  # what is worked out when it is asked for

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        more = "" if self.charge is None else f"residual={card.number(self.residual, 'up')}, "
        return f"Design({m} x {n}, distortion={self._distortion()}, leakage={self.leakage:.6g}, {more}{self.status})"

    def __str__(self) -> str:
        m, n = self.randomizer.kernel.shape
        name, value = self.demand
        relative = self.relative_distortion
        share = "" if relative is None else f" ({100.0 * relative:.4g}% of the mean reading)"
        known = "" if self.distortion_error == 0.0 else "; the costs themselves are known to the error given"
        asked = "constraints alone" if self.constraints and value == math.inf else f"{name} = {value}"
        lines = [
            f"Design for {m} private and {n} pseudo values, {asked}",
            f"  distortion   {self._distortion()}{share}",
            f"  optimum      at least {self.lower_bound:.8g}, so within {self.gap:.2g} ({self.status}){known}",
            f"  leakage      {self.leakage:.8g} nats ({self.leakage / np.log(2.0):.6g} bits)",
        ]
        if self.charge is not None:
            residual = f"{card.number(self.residual, 'up')} nats over {self.charge.readings} ({self.charge.how})"
            lines.append(f"  residual     {residual}")
        lines += [f"  kept         {one.words}" for one in self.constraints]
        lines.append(f"  guarantee    {self.guarantee.headline}")
        return "\n".join(lines)

    def _distortion(self) -> str:
        if self.distortion_error <= 1e-12 * self.distortion:
            return f"{self.distortion:.6g}"
        digits = max(0, 1 - int(np.floor(np.log10(self.distortion_error))))
        return f"{self.distortion:.{digits}f} +- {self.distortion_error:.{digits}f}"

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
        """Leakage and residual, rounded up: what the readings tell on average, at most."""
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
        if "guarantee" not in self._kept:
            kernel = self.randomizer.kernel
            self._kept["guarantee"] = Guarantee.of(
                self.prior,
                kernel,
                values=self.values,
                budget=self.budget,
                residual=self.charge,
                constraints=[one.words for one in self.constraints],
                release=None if self.family is None else self._released,
            )
        found: Guarantee = self._kept["guarantee"]
        return found

    def _released(self) -> Released:
        horizon = None if self.costs is None else self.costs.horizon
        return released(self.release, self.floating, horizon)

    def price_of(self, constraint: Constraint) -> Price:
        """What one of the constraints costs: the distortion with it less that without it, and proven bounds."""
        from understudy.randomizer.constrained.pricing import price_of

        return price_of(self, constraint)

    # What a stream asks of a design: `understudy.stream.policy` -----------------------------------------

    @property
    def fingerprint(self) -> str:
        """Tells this design from another; says nothing about the private parameter."""
        from understudy.randomizer.playing import fingerprint_of

        if "fingerprint" not in self._kept:
            self._kept["fingerprint"] = fingerprint_of(self)
        found: str = self._kept["fingerprint"]
        return found

    @property
    def former_fingerprint(self) -> str:
        """The fingerprint that version 0.1 gave this design: its streams go on."""
        from understudy.randomizer.playing import fingerprint_of

        return fingerprint_of(self, former=True)

    @property
    def release(self) -> Release:
        """The public lattice on which readings leave, the form and the range of those that come in."""
        if "release" not in self._kept:
            from understudy.randomizer.playing import release_for

            if self.family is None:
                raise DesignError("the design has no models (us.solve makes none), so that nothing is released by it")
            self._kept["release"] = release_for(self.family, self.values, self.pseudo, self.terms)
        found: Release = self._kept["release"]
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
        if "floating" not in self._kept:
            from understudy.randomizer.playing import floating_for

            release = self.release
            if self.family is None:
                raise DesignError("the design has no models, so that nothing is released by it")
            self._kept["floating"] = floating_for(self.family, self.values, self.pseudo, release)
        found: Roundoff | None = self._kept["floating"]
        return found

    @property
    def resolution(self) -> tuple[float, ...]:
        """The step of the lattice on which readings leave, by channel; 0 where the models have a grid of their own."""
        return self.release.lattice.steps

    def row(self, value: Any) -> int:
        """Where a value of the private parameter stands."""
        return self.randomizer.row(value)

    def draw(self, row: int, rng: np.random.Generator | None = None) -> int:
        """Which pseudo value plays the private one of this row, by position."""
        return self.randomizer.draw_index(row, rng)

    def source(self, row: int) -> Model:
        """The model of a private value, by position."""
        from understudy.randomizer.playing import model_of

        return model_of(self, self.values[row])

    def target(self, column: int) -> Model:
        """The model of a pseudo value, by position."""
        from understudy.randomizer.playing import model_of

        return model_of(self, self.pseudo[column])

    def leakage_of_draw(self, marginal: Any = None) -> float:
        """Nats that one draw gives away: at the odds "design", at given ones, or at the worst if None."""
        from understudy.randomizer.playing import leakage_of_draw

        return leakage_of_draw(self, marginal)

    def residual_of_block(self, marginal: Any = "design") -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings, missing ones among them; None if all are exact.

        At the odds "design", at given ones, or at the worst if None. `charge` bounds the divergence of the *first*
        readings of a sequence. A stream charges each later block of as many the same, which assumes that a later
        block diverges no more than the first: so it is, up to the error of the estimate, for a filter that has settled.
        """
        from understudy.randomizer.playing import residual_of_block

        return residual_of_block(self, marginal)

    def stream(
        self,
        theta: Any,
        ledger: Any = None,
        name: str | None = None,
        *,
        room: str | None = None,
        share: str | None = None,
        epoch: Any = None,
        rng: Any = None,
        gaps: str | None = None,
        period: Any = None,
        tolerance: Any = None,
        fill: bool | None = None,
    ) -> Stream:
        """Begin a live stream: draw the pseudo value that plays `theta`, once, and remember it.

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
        from understudy.randomizer.playing import Choices, stream

        choices = Choices(name, room, share, epoch, rng, gaps, period, tolerance, None, fill)
        return stream(self, theta, ledger, choices)

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file, models included, and return its fingerprint.

        Parameters are stored, never code. Models that hold a function cannot be; ``models=False`` leaves all
        models out, and `us.load_design` then wants the family.
        """
        from understudy.randomizer.storage import save

        return save(self, path, models)


_SLOTS = tuple(vars(Design)[one.name].__set__ for one in fields(Design))


def quickly(*given: Any) -> Design:
    """What the constructor makes of all fields but the last three, in half the time: through the slots themselves."""
    made = object.__new__(Design)
    for put, value in zip(_SLOTS, (*given, (), NOTHING_ASKED, {}), strict=True):
        put(made, value)
    return made


def total(leakage: float, charge: Charge | None) -> float:
    """The leakage of a draw and of the models, rounded up."""
    return leakage if charge is None else rounded_up(Fraction(leakage) + Fraction(charge.total))
