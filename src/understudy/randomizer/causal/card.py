"""The card of a causal design: what is guaranteed for a parameter that moves, and of what.

A constant parameter has one draw, and one card (`understudy.randomizer.guarantee`). A moving one has a draw for each
decision, and what is told adds up; so this card says for every figure whether it is about a sequence, a day or
a decision. Bounds on guesses are about the best adversary who sees the pseudo path itself: at the time (filtering,
~theta_1 .. ~theta_k for theta_k) or afterwards (smoothing, the whole path). Both are exact given the path and were
averaged over simulated paths. What is shown is a lower bound, which is wrong once in a million and holds however long
the sequence goes on (`understudy.randomizer.causal.bounds`).

**Theta estimated from the readings.** Then no theorem holds, and no figure is a guarantee. One thing can still be
said. Let eps bound the probability that the estimated path differs anywhere from the true one. *Any guess that
the theorem says errs with probability at least e, errs with probability at least e - eps.* Proof: run two
systems on the same readings with the same coins, one that is told theta (output ~Y) and one that estimates it (output
~Y'). Where the paths agree, the two do the same: the draws are the same, and so are the scores and the outputs. So for
any guess g, from outputs, pseudo path and randomness of its own, the two guesses agree but for an event of
probability eps at most, and::

    Pr(g(~Y') != theta_k)  >=  Pr(g(~Y) != theta_k) - Pr(paths differ)  >=  e - eps

The path is all of it, up to the last reading that the adversary sees: eps grows with the length of the sequence, and
with eps >= e nothing is left.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from understudy.errors import DesignError
from understudy.randomizer import card, measures
from understudy.randomizer.causal.bounds import blind, planned, wrong
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.causal.words import (
    ESTIMATED,
    Scope,
    against_words,
    conditions_words,
    lines,
    not_protected_words,
    scopes,
)
from understudy.randomizer.guarantee import _names, _number
from understudy.randomizer.sentences import Measure

SCHEMA, VERSION = "understudy.causal_guarantee", 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalCard:
    """Everything that is guaranteed of a causal design, with its conditions. Make it with `causal_card`.

    Leakages are in nats, errors are probabilities. `filtering` and `smoothing` are the least shares of wrong guesses of
    theta_k at the time and afterwards, on average over the decisions k of `window`, first and last; `first_error` is
    that of theta_1 from the first draw alone. Sequences start at the stated odds, and `decisions` of them were
    simulated. Where `settled`, the chain has forgotten its start before the window and its end after it. `str`, `text`,
    `html` and `json` render it.
    """

    values: tuple[str | int | float, ...]
    prior: tuple[float, ...]
    draws: int
    decision_every: int
    decisions_per_day: float | None
    estimated: bool
    wrong_path: float | None
    rate: float
    rate_error: float
    first_charge: float
    distortion: float
    distortion_error: float
    measure: str
    prior_error: float
    blind: float
    first_error: float
    filtering: float
    smoothing: float
    window: tuple[int, int]
    decisions: int
    settled: bool

    @property
    def holds(self) -> bool:
        """Whether a theorem stands behind the numbers; not if the parameter is estimated from the readings."""
        return not self.estimated

    @property
    def bits(self) -> float:
        """The leakage rate in bits a decision."""
        return self.rate / math.log(2.0)

    @property
    def per_day(self) -> float | None:
        """Nats a day, expected in the long run; None if decisions a day are not known."""
        return None if self.decisions_per_day is None else self.decisions_per_day * self.rate

    @property
    def first_day(self) -> float | None:
        """Nats expected on the first day, whose first decision is apart."""
        if self.decisions_per_day is None:
            return None
        return self.first_charge + max(0.0, self.decisions_per_day - 1.0) * self.rate

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence, conditions included; or that nothing is."""
        return ESTIMATED if self.estimated else self.measures[0].sentence

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every figure with its sentence, the one to quote first."""
        return lines(self)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What is guaranteed of a sequence, of a day and of a decision."""
        return scopes(self)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the figures to hold."""
        return conditions_words(self)

    @property
    def against(self) -> str:
        """Whom the bounds hold off."""
        return against_words(self)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no figure here is about."""
        return not_protected_words(self)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, CausalCard) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        size = f"{len(self.values)} values, {self.draws} draws"
        if self.estimated:
            return f"CausalCard(no guarantee, audit only; {size})"
        error, rate = card.percent(self.filtering, "down"), card.number(self.rate, "up")
        return f"CausalCard({size}, error >= {error}, {rate} nats a decision)"

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The card as plain text."""
        from understudy.randomizer.causal.page import text

        return text(self)

    def html(self, page: bool = False) -> str:
        """The card as an HTML fragment, or as a page of its own; it loads nothing from elsewhere."""
        from understudy.randomizer.causal.page import html

        return html(self, page)

    def _repr_html_(self) -> str:
        return self.html()

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data: infinities are the word ``"infinite"``, what is not defined is None."""
        held = self.holds
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "guaranteed": held,
            "condition": "path" if held else "estimated",
            "headline": self.headline,
            "values": list(self.values),
            "odds": list(self.prior),
            "draws": self.draws,
            "decision_every": self.decision_every,
            "decisions_per_day": self.decisions_per_day,
            "wrong_path": self.wrong_path,
            "leakage": {
                "nats_per_decision": self.rate,
                "bits_per_decision": self.bits,
                "standard_error": self.rate_error,
                "first_decision_nats": self.first_charge,
                "nats_per_day": self.per_day,
                "nats_first_day": self.first_day,
            },
            "wrong_guesses": {
                "blind": self.blind,
                "at_the_time_at_least": self._least(self.filtering),
                "afterwards_at_least": self._least(self.smoothing),
                "of_decisions": list(self.window),
                "decisions_simulated": self.decisions,
                "settled": self.settled,
            },
            "distortion": {"surrogate": _number(self.distortion), "standard_error": _number(self.distortion_error)},
            "measures": [{**asdict(m), "value": _number(m.value)} for m in self.measures],
            "guaranteed_for": [{"of": s.of, "holds": s.holds, "known": s.known} for s in self.scopes],
            "conditions": list(self.conditions),
            "against": self.against,
            "not_protected": list(self.not_protected),
        }

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON; see `to_dict`."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def _least(self, error: float) -> float:
        """What is left of a bound on wrong guesses where the path may be wrong: e - eps, or nothing."""
        if self.holds:
            return error
        return 0.0 if self.wrong_path is None else max(0.0, error - self.wrong_path)


def causal_card(
    design: CausalDesign,
    *,
    decisions_per_day: float | None = None,
    estimated: bool = False,
    wrong_path: float | None = None,
) -> CausalCard:
    """The card of a causal design.

    `decisions_per_day` adds what a day tells. With `estimated`, or if the design says so, theta is estimated from the
    readings, and the card says "no guarantee, audit only"; `wrong_path` then bounds the probability that the estimated
    path differs anywhere from the true one, and the card has the line that still holds.

    >>> import textwrap
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = us.design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.02, distortion="mae")
    >>> causal_card(made, decisions_per_day=96)
    CausalCard(2 values, 2 draws, error >= 16.68 percent, 0.02 nats a decision)
    >>> print(textwrap.fill(causal_card(made, estimated=True).headline, 80))
    No guarantee, audit only: the parameter is estimated from the readings, and then
    no theorem holds. Figures that say 'if known' are those of a parameter that is
    known, and bound nothing here.
    >>> causal_card(made, estimated=True, wrong_path=0.05).measures[0].shown
    'at least 11.68 percent'
    """
    if not isinstance(design, CausalDesign):
        raise DesignError(f"design is a {type(design).__name__}; it must be a CausalDesign")
    estimated = bool(estimated) or design.estimated
    if decisions_per_day is not None:
        decisions_per_day = _positive(decisions_per_day)
    if wrong_path is not None:
        if not estimated:
            raise DesignError("wrong_path is about a path that is estimated; give it with estimated=True")
        wrong_path = _probability(wrong_path)
    b = design.beliefs
    plan = planned(b, design.long_run.how)
    found = wrong(b, plan)
    kernel = b.kernel(b.prior.tolist())
    return CausalCard(
        values=_names(design.values, len(design.values)),
        prior=tuple(b.prior.tolist()),
        draws=len(design.pseudo),
        decision_every=design.decision_every,
        decisions_per_day=decisions_per_day,
        estimated=estimated,
        wrong_path=wrong_path,
        rate=design.rate,
        rate_error=design.rate_error,
        first_charge=design.first_charge,
        distortion=design.distortion,
        distortion_error=design.distortion_error,
        measure=design._given[0] if design._given is not None and isinstance(design._given[0], str) else "",
        prior_error=measures.prior_error(b.prior),
        blind=blind(b, plan),
        first_error=measures.bayes_error(b.prior, kernel),
        filtering=found.filtering,
        smoothing=found.smoothing,
        window=(plan.first, plan.last),
        decisions=plan.decisions,
        settled=plan.settled,
    )


def _positive(number: Any) -> float:
    plain = _plain(number)
    if plain is None or not 0.0 < plain < math.inf:
        raise DesignError(f"decisions_per_day = {number!r}; it must be a positive number")
    return plain


def _probability(p: Any) -> float:
    plain = _plain(p)
    if plain is None or not 0.0 <= plain <= 1.0:
        raise DesignError(f"wrong_path = {p!r}; it must be a probability, from 0 to 1")
    return float(plain)


def _plain(number: Any) -> int | float | None:
    """A number of Python, from one of numpy too; None if it is none."""
    if isinstance(number, (np.integer, np.floating)):
        number = number.item()
    return None if isinstance(number, bool) or not isinstance(number, (int, float)) else number
