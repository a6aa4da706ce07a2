"""Designs for a public clock, one for each of its values, and what they come to together."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer import card
from understudy.randomizer.measures import entropy
from understudy.randomizer.result import Design


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConditionalDesign:
    """A design for each value of a public clock; `us.design_conditional` makes one.

    ``at(s)`` is the `Design` in force at s, with its own odds, budget, streams and card. `distortion` and `leakage` are
    means over the clock, weighed by `weights`; no randomizers with a mean leakage within the budget (with the split
    "same leakage": each within it) have a mean distortion below `lower_bound`. `slope` is the one that all curves have.
    """

    times: tuple[Hashable, ...]
    designs: tuple[Design, ...]
    weights: Array
    distortion: float
    lower_bound: float
    gap: float
    budget: float
    demand: tuple[Any, str]
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
        """I(Theta; ~Theta given clock): what a draw tells beyond the time, the mean over the clock, in nats."""
        return min(self.budget, math.fsum(self.weights * [design.leakage for design in self.designs]))

    @property
    def total_leakage(self) -> float:
        """The same with what approximate models give away themselves."""
        return math.fsum(self.weights * [design.total_leakage for design in self.designs]) * (1.0 + 1e-15)

    @property
    def leakages(self) -> dict[Hashable, float]:
        """What a draw tells at each value of the clock."""
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
        """I(Theta; clock): what the time tells by itself, and no randomizer hides."""
        overall = self.weights @ [design.prior for design in self.designs]
        given = math.fsum(self.weights * [entropy(design.prior) for design in self.designs])
        return max(0.0, entropy(overall / math.fsum(overall)) - given)

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence, conditions included."""
        worst = self.worst
        error = self.errors[worst]
        charge = self.designs[0].charge
        watched = "however long it watches" if charge is None else f"over {charge.first}"
        told = card.number(self.total_leakage, "up")
        return (
            f"At the stated odds of each time, with the parameter constant over the epoch and the model right, what is "
            f"seen tells at most {told} nats a draw beyond what the time tells, and any guess of who knows the "
            f"time is wrong with probability at least {card.percent(error, 'down')} (at {worst!r}, the worst time), "
            f"{watched}."
        )

    def card(self, width: int = 100) -> str:
        """What holds on the whole and at each value of the clock, as plain text."""
        lines = [
            *textwrap.wrap(self.headline, width),
            "",
            f"distortion       {self.distortion:.6g}, at least {self.lower_bound:.8g} for any randomizers "
            f"within the budget ({self.status}; {self.split})",
            f"leakage          {card.number(self.leakage, 'up')} nats given the clock (budget {self.budget:.6g})",
            f"the time alone   {card.number(self.clock_information, 'up')} nats, which nothing here hides",
            "",
            f"{'time':16}{'weight':>9}{'distortion':>13}{'nats':>11}{'wrong before':>15}{'wrong after':>14}",
        ]
        for s, w, design in zip(self.times, self.weights, self.designs, strict=True):
            g = design.guarantee
            before, after = card.percent(g.prior_error, "down"), card.percent(g.bayes_error, "down")
            told = card.number(design.leakage, "up")
            lines.append(f"{s!s:16}{w:9.3f}{design.distortion:13.6g}{told:>11}{before:>15}{after:>14}")
        lines += ["", *textwrap.wrap(_CONDITIONS, width)]
        return "\n".join(lines)


_CONDITIONS = (
    "Each draw is for one epoch, over which the parameter is constant, and tells what its line says. A parameter that "
    "lasts over several draws is told about again by each: the leakages then add up, at most."
)
