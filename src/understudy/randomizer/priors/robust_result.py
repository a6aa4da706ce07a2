"""A design whose budget holds for every prior of a hull, and its card."""

from __future__ import annotations

import json
import math
import os
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError
from understudy.laws.base import Array
from understudy.randomizer import card
from understudy.randomizer.charge import Charge
from understudy.randomizer.measures import bayes_error, capacity, mutual_information, prior_error
from understudy.randomizer.problem import as_prior
from understudy.randomizer.result import Design, total
from understudy.stream.policy import DESIGN_ODDS

SCHEMA, VERSION = "understudy.robust", 1


@dataclass(frozen=True, slots=True, repr=False, eq=False, kw_only=True)
class RobustDesign(Design):
    """A design that keeps its budget at all odds in the hull of `priors`; `us.design_robust` makes one.

    It is a `Design` for the odds `prior`, with streams, a guarantee and all else. Three things are those of the hull:
    `leakage` is a bound for every prior in it (`worst_leakage`), which streams are charged; `lower_bound` is what no
    randomizer that keeps the budget over the hull goes below; and `worst_prior` are the odds in it at which most is
    told. `weighed` says which odds weigh the distortion: "stated" for `prior`, "worst" for those of the hull that make
    it largest, which `prior` then are.
    """

    priors: Array
    worst_prior: Array
    weighed: str = "stated"

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        more = "" if self.charge is None else f"residual={card.number(self.residual, 'up')}, "
        return (
            f"RobustDesign({m} x {n}, {self._hull()}, distortion={self._distortion()}, "
            f"leakage<={self.leakage:.6g}, {more}{self.status})"
        )

    def __str__(self) -> str:
        return self.card()

    @property
    def any_odds(self) -> bool:
        """Whether the hull holds all odds there are."""
        return bool((self.priors.max(axis=1) == 1.0).sum() == len(self.prior) <= len(self.priors))

    @property
    def worst_leakage(self) -> float:
        """What a draw tells at most, at any odds in the hull."""
        return self.leakage

    @property
    def residual(self) -> float:
        """What the models themselves give away over the horizon, at the worst odds in the hull; 0 if they are exact."""
        if self.charge is None:
            return 0.0
        return max(self._charged(corner).total for corner in self.priors)

    @property
    def total_leakage(self) -> float:
        """Leakage and residual, rounded up: what the readings tell on average at any odds in the hull, at most."""
        return max(total(self.leakage, None if self.charge is None else self._charged(p)) for p in self.priors)

    @property
    def worst_error(self) -> float:
        """How often the best guess is wrong, at the least favourable odds of the hull.

        The chance to guess right is convex in the odds, so here the corners do suffice.
        """
        return min(self._errors())

    def leakage_at(self, prior: Any) -> float:
        """What a draw tells at given odds, in the hull or not."""
        return mutual_information(as_prior(prior, len(self.prior)), self.randomizer.kernel)

    def leakage_of_draw(self, marginal: Any = None) -> float:
        """Nats that one draw gives away: over the hull for "design", at given odds, or at any odds if None."""
        if marginal is None:
            return capacity(self.randomizer.kernel, self.priors.mean(axis=0)).upper
        if isinstance(marginal, str):
            if marginal != DESIGN_ODDS:
                raise ConfigurationError(f"marginal = {marginal!r}; it must be 'design', odds, or None if unknown")
            return self.leakage
        return self.leakage_at(marginal)

    def residual_of_block(self, marginal: Any = DESIGN_ODDS) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings; see `Design.residual_of_block`."""
        if self.charge is not None and isinstance(marginal, str) and marginal == DESIGN_ODDS:
            return self.residual, self.charge.horizon
        return Design.residual_of_block(self, marginal)

    @property
    def headline(self) -> str:
        """What is guaranteed over the hull, in one sentence, conditions included."""
        where = "however long it watches" if self.charge is None else f"over {self.charge.first}"
        told = card.number(self.total_leakage, "up")
        odds = "Whatever the odds beforehand" if self.any_odds else f"At any mixture of the {self._hull()} beforehand"
        guess = ""
        if not self.any_odds:
            guess = f", and any guess is wrong with probability at least {card.percent(self.worst_error, 'down')}"
        return (
            f"{odds}, with the parameter constant over the epoch and the model right, what is seen tells at most "
            f"{told} nats on average{guess}, {where}."
        )

    def card(self, width: int = 100) -> str:
        """The card of the hull as plain text: what holds at all odds in it, and what at each corner."""
        weighed = "the odds in the hull that make it largest" if self.weighed == "worst" else "the stated odds"
        lines = [
            *textwrap.wrap(self.headline, width),
            "",
            f"distortion       {self._distortion()} at {weighed}; at least {self.lower_bound:.8g} for every randomizer "
            f"that keeps the budget over the hull ({self.status})",
            f"leakage          at most {card.number(self.leakage, 'up')} nats over the hull "
            f"(budget {'none' if self.budget is None else format(self.budget, '.6g')}), "
            f"reached at the odds {_odds(self.worst_prior)}",
        ]
        if self.charge is not None:
            lines.append(f"residual         {card.number(self.residual, 'up')} nats over {self.charge.readings}")
        if not self.any_odds:
            lines.append("")
            lines.append(f"{'odds':34}{'nats':>10}{'wrong before':>16}{'wrong after':>15}")
            for p, error in zip(self.priors, self._errors(), strict=True):
                before = card.percent(prior_error(p), "down")
                told = card.number(self.leakage_at(p), "up")
                lines.append(f"{_odds(p):34}{told:>10}{before:>16}{card.percent(error, 'down'):>15}")
        lines += ["", *textwrap.wrap(self.conditions, width)]
        return "\n".join(lines)

    @property
    def conditions(self) -> str:
        """All that must be true for the bounds to hold, and what they do not say."""
        odds = "" if self.any_odds else "the odds beforehand to be a mixture of those listed, "
        return f"This needs {odds}{_CONDITIONS}"

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "headline": self.headline,
            "priors": self.priors.tolist(),
            "any_odds": self.any_odds,
            "worst_odds": self.worst_prior.tolist(),
            "worst_leakage_nats": self.worst_leakage,
            "total_leakage_nats": self.total_leakage,
            "budget_nats": self.budget,
            "distortion": self.distortion,
            "distortion_weighed_by": self.weighed,
            "lower_bound": self.lower_bound,
            "status": self.status,
            "corners": [
                {"odds": p.tolist(), "nats": self.leakage_at(p), "wrong_before": prior_error(p), "wrong_after": error}
                for p, error in zip(self.priors, self._errors(), strict=True)
            ],
            "conditions": self.conditions,
        }

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file and return its fingerprint; see `Design.save`."""
        from understudy.randomizer.priors.robust_storage import save

        return save(self, path, models)

    def _hull(self) -> str:
        if self.any_odds:
            return "any odds"
        return f"{len(self.priors)} prior{'s' * (len(self.priors) != 1)}"

    def _errors(self) -> list[float]:
        moved = [0.0 if self.charge is None else self._charged(p).variation for p in self.priors]
        found = [bayes_error(p, self.randomizer.kernel) for p in self.priors]
        return [max(0.0, error - extra) for error, extra in zip(found, moved, strict=True)]

    def _charged(self, prior: Array) -> Charge:
        if self.charge is None:
            raise ConfigurationError("the models are exact, and nothing is charged for them")
        return Charge.of(prior, self.charge.charged, self.charge.horizon, self.charge.how)


_CONDITIONS = (
    "the parameter to be constant over the epoch, the models of its values to be right, and one draw for an epoch. It "
    "bounds an average: after single draws more can be known. Nothing is said about channels that are not filtered."
)


def _odds(p: Array) -> str:
    shown = " : ".join(f"{100.0 * x:.4g}" for x in np.asarray(p).tolist())
    return shown if len(shown) <= 33 else f"{shown[:30]}..."


def is_near(a: float, b: float) -> bool:
    """Whether two figures of a stored design are the same, as another machine may round them."""
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
