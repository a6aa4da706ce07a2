"""The guarantee of a causal design: what holds for a parameter that moves, and of what.

A constant parameter has one draw, and one card (`understudy.randomizer.guarantee`). A moving one has a draw for each
decision, and leakages add up; so this card says for every figure whether it is about a sequence, a day or a decision.
Bounds on guesses are about the best adversary who sees the pseudo path itself: at the time (filtering,
~theta_1 .. ~theta_k for theta_k) or afterwards (smoothing, the whole path). Both are exact given the path and are
averaged over simulated paths. A simulation ends somewhere and has finitely many sequences; neither may make a bound
too good.

**The end.** Later draws leak about earlier values too. So the simulated adversary is *told the true value* at the last
decision N that is simulated. Given that value and the pseudo values up to N, the pseudo values after N are independent
of theta_k for k <= N. Hence seeing all of them, without being told, is worth no more, and the bound holds however long
the sequence goes on. How far away N must be follows from the mixing of the chain.

**The number of sequences.** Where changes are rare nearly all simulated sequences look alike, and a standard error
says nothing. With x_1 .. x_n independent and not negative, of mean at most m, and 0 <= c <= 1, the expectation of ::

    E(m) = prod_s (1 + c (x_s / m - 1))

is at most 1, so that E(m) >= 10^6 occurs once in a million at most; the same is true of a mean over several c. The
least mean that is not refuted so is a lower bound, whatever the law of x, for any n.

**Theta estimated from the readings.** Then no theorem holds, and no figure is a guarantee. One thing can still be
said. Let eps bound the probability that the estimated path differs anywhere from the true one. *Any guess that
the theorem says errs with probability at least e, errs with probability at least e - eps.* Proof: run two
systems on the same readings with the same random numbers, one that knows theta (output ~Y) and one that estimates it
(output ~Y'). Where the paths agree, the draws, the scores and the outputs are the same. So for any guess g, from
outputs, pseudo path and randomness of its own, the two guesses agree but for an event of probability eps at most::

    Pr(g(~Y') != theta_k)  >=  Pr(g(~Y) != theta_k) - Pr(paths differ)  >=  e - eps

The path is all of it, up to the last reading that the adversary sees: eps grows with the length of the sequence, and
with eps >= e nothing is left.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from understudy import text
from understudy._html import card_html
from understudy._types import Array, Plain, Value
from understudy.distortion.costs import Costs
from understudy.errors import DesignError
from understudy.randomizer import measures
from understudy.randomizer.causal_belief import Beliefs, LongRun, play, posteriors
from understudy.randomizer.guarantee import json_number, measure_to_dict, named_values
from understudy.text import Card, Measure, MovingSetting, Scope, number, percent

# Wrong guesses of the best adversary: lower bounds from simulation ----------------------------------------------------

ONCE = 1e-6  # that a simulated bound is too good
_SEED = 20230203  # a card that is made twice is the same card
_FORGOTTEN = 1e-3  # what may be left of the second eigenvalue over a margin
_NEAREST = 24  # decisions of a margin at least
_FEW, _MANY = 64, 512  # sequences
_BETS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97])


class Plan(NamedTuple):
    """What is simulated: guesses of decisions `first` to `last` are counted, of `decisions`, in so many sequences.

    `settled` says whether the chain forgets its start before the first of them, and its end after the last.
    """

    first: int
    last: int
    decisions: int
    sequences: int
    settled: bool


class Wrong(NamedTuple):
    """The least share of wrong guesses at the time, and of those afterwards."""

    filtering: float
    smoothing: float


def planned(beliefs: Beliefs, how: str) -> Plan:
    """Whole turns of the matrices, after and before margins that follow the mixing of the chain as far as they may.

    >>> planned(Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0), "exact")
    Plan(first=32, last=79, decisions=110, sequences=512, settled=True)
    """
    few = how in ("exact", "merged")  # few beliefs occur, so that kernels are at hand
    work, inside = (200_000, 48) if few else (20_000, 24)
    turn = beliefs.period
    inside = -(-inside // turn) * turn
    wanted = mixing(beliefs.transitions)
    longest = max(_NEAREST, (work // (2 * _FEW) - inside) // 2)
    margin = -(-int(min(max(wanted, _NEAREST), longest)) // turn) * turn
    decisions = 2 * margin + inside
    sequences = int(min(_MANY, max(_FEW, work // decisions)))
    return Plan(margin + 1, margin + inside, decisions, sequences, wanted <= margin)


def mixing(transitions: Array) -> float:
    """Decisions over which the second eigenvalue of the chain falls to a thousandth; infinite if it never does.

    >>> mixing(np.array([[[0.95, 0.05], [0.05, 0.95]]])), mixing(np.eye(2)[None])
    (66, inf)
    """
    turn = transitions[0] if len(transitions) == 1 else np.linalg.multi_dot(list(transitions))
    moduli = np.sort(abs(np.linalg.eigvals(turn)))
    second = float(moduli[-2]) if len(moduli) > 1 else 0.0
    if second >= 1.0 - 1e-12:
        return math.inf
    return len(transitions) * (1 if second <= _FORGOTTEN else math.ceil(math.log(_FORGOTTEN) / math.log(second)))


def wrong(beliefs: Beliefs, plan: Plan) -> Wrong:
    """The least shares of wrong guesses of the exact adversaries, each too good once in a million at most.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> [round(share, 3) for share in wrong(beliefs, planned(beliefs, "exact"))]
    [0.115, 0.109]
    """
    if beliefs.slope == 0.0:  # the draws leak nothing, and nothing is random
        share = blind(beliefs, plan)
        return Wrong(share, share)
    played = play(beliefs, plan.decisions, plan.sequences, _SEED)
    inside = slice(plan.first - 1, plan.last)
    at_the_time = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions).filtering[inside]
    afterwards = told_the_end(played.likelihoods, played.theta[-1], beliefs)[inside]
    filtering, smoothing = (
        least_mean(np.maximum(1.0 - seen.max(axis=2), 0.0).mean(axis=0)) for seen in (at_the_time, afterwards)
    )
    return Wrong(filtering, min(filtering, smoothing))


def told_the_end(likelihoods: Array, last: Array, beliefs: Beliefs) -> Array:
    """What is believed of each theta_k by who sees the pseudo path and is told theta at its end, (T, N, m)."""
    told = likelihoods.copy()
    told[-1] = np.eye(likelihoods.shape[2])[last]
    return posteriors(told, beliefs.prior, beliefs.transitions).smoothing


def blind(beliefs: Beliefs, plan: Plan) -> float:
    """How often the best guess is wrong that knows the chain alone, over the same decisions."""
    belief, shares = beliefs.prior, []
    for k in range(plan.last):
        shares.append(1.0 - float(belief.max()))
        belief = belief @ beliefs.transitions[k % beliefs.period]
    return max(0.0, math.fsum(shares[plan.first - 1 :]) / (plan.last - plan.first + 1))


def least_mean(x: Array, once: float = ONCE) -> float:
    """A lower bound on the mean of independent numbers that are not negative, wrong with probability `once` at most.

    >>> round(least_mean(np.full(512, 0.2)), 4), round(least_mean(np.array([0.2] * 500 + [0.0] * 12)), 4)
    (0.1938, 0.1837)
    """
    low, high = 0.0, float(x.mean())
    if not high > 0.0:
        return 0.0
    enough = math.log(len(_BETS)) - math.log(once)
    for _ in range(60):
        m = 0.5 * (low + high)
        logs = np.log1p(_BETS[:, None] * (x[None, :] / m - 1.0)).sum(axis=1)
        if float(np.logaddexp.reduce(logs)) >= enough:
            low = m
        else:
            high = m
    return low


# The card -------------------------------------------------------------------------------------------------------------

SCHEMA, VERSION = "understudy.causal_guarantee", 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalCard:
    """Everything that is guaranteed of a causal design, with its conditions. Make it with `causal_card`.

    Leakages are in nats, errors are probabilities. `filtering` and `smoothing` are the least shares of wrong guesses of
    theta_k at the time and afterwards, on average over the decisions k of `window`, first and last; `first_error` is
    that of theta_1 from the first draw alone. Sequences start at the stated prior, and `decisions` of them were
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
        return text.moving_claim(self.measures[0], self.holds)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every figure with its sentence, the one to quote first: wrong guesses, then leakages."""
        say = self._setting
        found = [
            say.error("filtering", self.filtering, say.filtering_note(self.blind)),
            say.error("smoothing", self.smoothing, say.smoothing_note(self.decisions)),
            say.error("first_error", self.first_error, text.first_error_note(self.prior_error)),
            say.leakage("rate", self.rate, text.rate_note(self.rate_error)),
            say.leakage("first_charge", self.first_charge, text.FIRST_CHARGE_NOTE),
        ]
        if self.decisions_per_day is not None and self.per_day is not None and self.first_day is not None:
            note = text.per_day_note(self.first_day)
            found.append(say.leakage("per_day", self.per_day, note, self.decisions_per_day))
        return (*self._of_estimated, *found)

    @property
    def _of_estimated(self) -> tuple[Measure, ...]:
        """What a bound on the probability of a wrong path leaves: e - eps."""
        if self.holds or self.wrong_path is None:
            return ()
        guesses = (("filtering", self.filtering), ("smoothing", self.smoothing))
        return tuple(self._setting.error_of_estimated(name, value, self.wrong_path) for name, value in guesses)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What is guaranteed of a sequence, of a day and of a decision."""
        left = self._of_estimated
        return self._setting.scopes(self.rate, self.first_charge, self.per_day, left[0].shown if left else "")

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the figures to hold."""
        return self._setting.conditions

    @property
    def against(self) -> str:
        """The adversary of the bounds."""
        return self._setting.against

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no figure here is about."""
        return self._setting.not_protected

    @property
    def card(self) -> Card:
        """The whole card in words."""
        heading, caption = self._setting.headings
        facts = text.moving_facts(self.values, self.prior, self.draws, self.decision_every, self.decisions_per_day)
        if math.isfinite(self.distortion):
            facts.append(text.moving_distortion_fact(self.distortion, self.measure))
        return Card(
            title="Privacy card of a moving parameter",
            claim=self.headline,
            holds=self.holds,
            facts=facts,
            heading=heading,
            caption=caption,
            measures=self.measures,
            conditions=self.conditions,
            against=self.against,
            not_protected=self.not_protected,
            scopes=self.scopes,
        )

    @property
    def _setting(self) -> MovingSetting:
        return MovingSetting(self.holds, self.wrong_path, *self.window, self.settled)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, CausalCard) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        size = f"{len(self.values)} values, {self.draws} draws"
        if self.estimated:
            return f"CausalCard(no guarantee, audit only; {size})"
        error, rate = percent(self.filtering, "down"), number(self.rate, "up")
        return f"CausalCard({size}, error >= {error}, {rate} nats a decision)"

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The card as plain text."""
        return text.card_text(self.card)

    def html(self, page: bool = False) -> str:
        """The card as an HTML fragment, or as a page of its own; it loads nothing from elsewhere."""
        return card_html(self.card, page)

    def _repr_html_(self) -> str:
        return self.html()

    def to_dict(self) -> Plain:
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
            "distortion": {
                "surrogate": json_number(self.distortion),
                "standard_error": json_number(self.distortion_error),
            },
            "measures": [measure_to_dict(m) for m in self.measures],
            "guaranteed_for": [scope._asdict() for scope in self.scopes],
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


@runtime_checkable
class MovingDesign(Protocol):
    """What a card needs of a causal design."""

    beliefs: Beliefs
    long_run: LongRun
    costs: Costs | None
    decision_every: int
    estimated: bool
    first_charge: float

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the private parameter."""
        ...

    @property
    def distortion_error(self) -> float:
        """The standard error of the distortion."""
        ...


def causal_card(
    design: MovingDesign,
    *,
    decisions_per_day: float | None = None,
    estimated: bool = False,
    wrong_path: float | None = None,
) -> CausalCard:
    """The card of a causal design.

    `decisions_per_day` adds the leakage of a day. With `estimated`, or if the design says so, theta is estimated from
    the readings, and the card says "no guarantee, audit only"; `wrong_path` then bounds the probability that the
    estimated path differs anywhere from the true one, and the card has the line that still holds.

    >>> import textwrap
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = us.design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.02, distortion="mae")
    >>> causal_card(made, decisions_per_day=96)
    CausalCard(2 values, 2 draws, error >= 16.68 percent, 0.02 nats a decision)
    >>> print(textwrap.fill(causal_card(made, estimated=True).headline, 80))
    No guarantee, audit only: the parameter is estimated from the readings, and then
    no theorem holds. Figures that say 'if known' are those of a known parameter,
    and bound nothing here.
    >>> causal_card(made, estimated=True, wrong_path=0.05).measures[0].shown
    'at least 11.68 percent'
    """
    if not isinstance(design, MovingDesign):
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
        values=named_values(design.values, len(design.values)),
        prior=tuple(b.prior.tolist()),
        draws=b.cost.shape[1],
        decision_every=design.decision_every,
        decisions_per_day=decisions_per_day,
        estimated=estimated,
        wrong_path=wrong_path,
        rate=design.long_run.rate,
        rate_error=design.long_run.rate_error,
        first_charge=design.first_charge,
        distortion=design.long_run.distortion,
        distortion_error=design.distortion_error,
        measure="" if design.costs is None else design.costs.distortion or "",
        prior_error=measures.prior_error(b.prior),
        blind=blind(b, plan),
        first_error=measures.bayes_error(b.prior, kernel),
        filtering=found.filtering,
        smoothing=found.smoothing,
        window=(plan.first, plan.last),
        decisions=plan.decisions,
        settled=plan.settled,
    )


def _positive(number: float) -> float:
    plain = _plain(number)
    if plain is None or not 0.0 < plain < math.inf:
        raise DesignError(f"decisions_per_day = {number!r}; it must be a positive number")
    return plain


def _probability(p: float) -> float:
    plain = _plain(p)
    if plain is None or not 0.0 <= plain <= 1.0:
        raise DesignError(f"wrong_path = {p!r}; it must be a probability, from 0 to 1")
    return float(plain)


def _plain(number: float) -> int | float | None:
    """A number of Python, from one of numpy too; None if it is none."""
    if isinstance(number, (np.integer, np.floating)):
        number = number.item()
    return None if isinstance(number, bool) or not isinstance(number, (int, float)) else number
