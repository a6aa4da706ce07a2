"""The card of a causal design: what is guaranteed for a parameter that moves, and of what.

A constant parameter has one draw, and one card (`understudy.randomizer.guarantee`). A moving one has a draw for each
decision, and what is told adds up; so this card says for every figure whether it is about a sequence, a day or
a decision. Bounds on guesses are about the best adversary who sees the pseudo path itself: at the time (filtering,
~theta_1 .. ~theta_k for theta_k) or afterwards (smoothing, the whole path). Both are exact given the path and were
averaged over simulated paths. What is shown is a lower bound, which is wrong once in a million and holds however long
the sequence goes on (`understudy.randomizer.causal_guarantee`).

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

How often the best guess of a moving parameter is wrong at least: bounds from simulation that do hold.

A simulation ends somewhere and has finitely many sequences. Neither may make a bound too good.

**The end.** Later draws tell about earlier values too, and where the parameter moves slowly they do so for long. So the
simulated adversary is *told the true value* at the last decision N that is simulated. Given that value and the
pseudo values up to N, the pseudo values after N are independent of theta_k for k <= N: the chain is a Markov chain, and
draws depend on the present value and the pseudo past. Hence to see all of them, without being told, tells no more; and
who knows more errs no more. The bound holds however long the sequence goes on. That N is far away matters only for how
much is given up, and how far follows from the mixing of the chain.

**The number of sequences.** Where changes are rare nearly all simulated sequences look alike, and a standard error says
nothing. With x_1 .. x_n independent and not negative, of mean at most m, and 0 <= c <= 1, the expectation of ::

    E(m) = prod_s (1 + c (x_s / m - 1))

is at most 1, so that E(m) >= 10^6 comes once in a million at most; the same is true of a mean over several c. The least
mean that is not refuted so is a lower bound, whatever the law of x, for any n.

The sentences of the card of a causal design: every figure in plain words, with the conditions it needs.

The card of a causal design on paper: as text, and as HTML in the style of the card of a constant parameter.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from understudy._html import with_policy
from understudy._types import Array
from understudy.errors import DesignError
from understudy.randomizer import guarantee, measures
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_belief import Beliefs, play, posteriors
from understudy.randomizer.guarantee import _STYLE, _WIDTH, Measure, _e, _filled, _names, _number, _row

# How often the best guess of a moving parameter is wrong at least: bounds from simulation that do hol ---


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
    if beliefs.slope == 0.0:  # the draws tell nothing, and chance has no part in it
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


# The sentences of the card of a causal design: every figure in plain words, with the conditions it ne ---


ESTIMATED = (
    "No guarantee, audit only: the parameter is estimated from the readings, and then no theorem holds. Figures that "
    "say 'if known' are those of a parameter that is known, and bound nothing here."
)
_GIVEN = (
    "At the stated odds and transitions, with the parameter known to the filter and not moved by the readings, and the "
    "models right, "
)
_IF_KNOWN = "Not here, but if the parameter were known to the filter: "
_CONDITIONS = (
    "The parameter is a Markov chain with the stated odds at first and the stated transitions from decision to "
    "decision. With other transitions the charges are those of a chain that is not there.",
    "It is known when a decision is made, not estimated from the readings, and the readings do not act on it.",
    "The model of each value is right, along the whole path: the readings have its law, the start included.",
    "Decisions come from the clock, not from changes of the parameter, and are made from the parameter, the pseudo "
    "values before and fresh randomness alone. Draws are remembered and never made again.",
    "The random numbers behind the draws, the raw readings and the state of the filter stay secret. The pseudo path "
    "need not: every bound holds against somebody who sees it.",
    "All that depends on the parameter and is released passes through the filter, as one joint model.",
)
_AGAINST = (
    "Anyone who sees only the disguised readings, with unlimited computation; who knows the odds, the transitions, the "
    "randomizer, every model and this software; and even if told the pseudo path."
)
_NOT_PROTECTED = (
    "What is finally known about one day or one decision: draws before and after it tell about it too. Only the sum "
    "over the sequence bounds everything.",
    "Unlucky draws: leakages are averages over draws, and after a telling one the belief may be sharp.",
)
_WRONG = (
    "Wrong models: the average leakage can grow by the mean over paths of KL(true law along the path || model along "
    "it), in nats over the whole sequence. A wrong model of a pseudo value costs no privacy."
)
_CONSTANT = ("Repeated draws", "Wrong models")  # what is said of these elsewhere is about a constant parameter


_AT_THE_TIME = (
    "any guess of the value of a decision, from all readings until the next decision, is wrong at least {} of the time"
)
_AFTERWARDS = (
    "any guess of the value of a decision, from all readings before and after, is wrong at least {} of the time"
)
_LATER = "By then the chain has forgotten its start."
_UNSETTLED = (
    "The parameter moves so slowly that by then its start is not forgotten: this is about these decisions, and "
    "later ones may be guessed better."
)


class Scope(NamedTuple):
    """What is guaranteed of one thing, and how it is known."""

    of: str
    holds: str
    known: str


def lines(c: CausalCard) -> tuple[Measure, ...]:
    """The lines of the card: wrong guesses first, then leakages."""
    held = c.holds
    given, lead = (_GIVEN, "") if held else (_IF_KNOWN, "if known: ")
    bound = "at least" if held else "if known"
    over = _over(c)
    simulated = (
        ""
        if not c.rate_error > 0.0
        else f" Simulated, with a standard error of {guarantee.number(c.rate_error, 'up')}."
    )

    def error(name: str, title: str, value: float, words: str, note: str) -> Measure:
        shown = guarantee.percent(value, "down")
        sentence = f"{given}{words.format(shown)}"
        return Measure(
            name, title, value, "probability", bound, "stated", (lead or "at least ") + shown, sentence, note
        )

    def leakage(name: str, title: str, value: float, words: str, note: str) -> Measure:
        shown = _nats(value)
        kind = "on average" if held else "if known"
        return Measure(
            name,
            title,
            value,
            "nats",
            kind,
            "stated",
            f"{lead}{shown} on average",
            f"{given}{words.format(shown)}",
            note,
        )

    found = [
        error(
            "filtering",
            "Wrong guesses at the time, best adversary",
            c.filtering,
            f"{_AT_THE_TIME} {over}.",
            "That of whoever sees the pseudo values up to then (filtering). Who knows the chain alone is wrong "
            f"{guarantee.percent(c.blind, 'up')} of the time. {_LATER if c.settled else _UNSETTLED}",
        ),
        error(
            "smoothing",
            "Wrong guesses afterwards, best adversary",
            c.smoothing,
            f"{_AFTERWARDS} {over}, however long it goes on.",
            f"That of whoever waits for the pseudo path until decision {c.decisions} (smoothing) and is told the true "
            "value of that decision besides, so that nothing later could help."
            + (
                ""
                if c.settled
                else " The parameter moves so slowly that being told this gives much away, and the bound is low."
            ),
        ),
        error(
            "first_error",
            "Wrong guesses of the first value",
            c.first_error,
            "any guess of the first value, from all readings before the second decision, is wrong with probability at "
            "least {}.",
            f"Exact. Who sees nothing and guesses best is wrong {guarantee.percent(c.prior_error, 'up')} of the time.",
        ),
        leakage(
            "rate",
            "Leakage a decision, in the long run",
            c.rate,
            "a decision adds {} on average to what was told before.",
            f"What a decision adds is known before it is made, and is charged.{simulated}",
        ),
        leakage(
            "first_charge",
            "Leakage of the first decision",
            c.first_charge,
            "the first decision tells {} on average over its draws.",
            "Exact. It costs more than later ones where nothing was told before.",
        ),
    ]
    if c.per_day is not None and c.first_day is not None:
        found.append(
            leakage(
                "per_day",
                "Leakage a day, expected",
                c.per_day,
                f"the {c.decisions_per_day:g} decisions of a day add {{}} on average to what was told before.",
                f"On the first day {_nats(c.first_day)}. A budget keeps every day within a bound, not the mean alone.",
            )
        )
    return (*_still_held(c), *found)


def _still_held(c: CausalCard) -> tuple[Measure, ...]:
    """What a bound on the chance of a wrong path leaves: e - eps."""
    if c.holds or c.wrong_path is None:
        return ()
    eps = guarantee.percent(c.wrong_path, "up")
    given = (
        "At the stated odds and transitions, with the models right and an estimated path that differs anywhere from "
        f"the true one with probability at most {eps}, "
    )

    def line(name: str, title: str, least: float, words: str, end: str) -> Measure:
        value = max(0.0, least - (c.wrong_path or 0.0))
        shown = guarantee.percent(value, "down")
        sentence = f"{given}{words.format(shown)} {_over(c)}{end}."
        if value <= 0.0:
            sentence, shown = f"{given}this bound says nothing, because it is not positive.", "nothing"
        note = (
            f"{guarantee.percent(least, 'down')} if the path were known, less {eps}. The path is all of it, up to the "
            "last reading that is seen; the card does not check the probability."
        )
        return Measure(
            name, title, value, "probability", "at least", "stated", shown if value <= 0.0 else f"at least {shown}",
            sentence, note,
        )  # fmt: skip

    return (
        line(
            "filtering_if_right",
            f"Wrong guesses at the time, if the path is wrong at most {eps} of the time",
            c.filtering,
            _AT_THE_TIME,
            "",
        ),
        line(
            "smoothing_if_right",
            f"Wrong guesses afterwards, if the path is wrong at most {eps} of the time",
            c.smoothing,
            _AFTERWARDS,
            ", whatever is seen afterwards",
        ),
    )


def scopes(c: CausalCard) -> tuple[Scope, ...]:
    """What is guaranteed of a sequence, a day and a decision."""
    if not c.holds:
        audit = "what an audit finds"
        still = _still_held(c)
        guesses = "nothing"
        if still:
            guesses = f"nothing of leakages; wrong guesses {still[0].shown}, if the path is wrong as seldom as stated"
        return (
            Scope("a sequence", "nothing: all readings may tell all there is", audit),
            Scope("the same with a budget", "nothing: a budget bounds the draws, not the readings", audit),
            Scope("a day", "nothing", audit),
            Scope("a decision", guesses, audit),
        )
    rate, first = _nats(c.rate), _nats(c.first_charge)
    day = "its draws add at most its charges to what was told before"
    if c.per_day is not None:
        day += f", {_nats(c.per_day)} expected"
    return (
        Scope(
            "a sequence",
            f"all readings tell at most the sum of the charges, on average: {first} for the first decision and about "
            f"{rate} for each other",
            "expected_leakage(K) beforehand, charges on the way",
        ),
        Scope("the same with a budget", "at most the budget, whatever is drawn", "draw(..., left=budget - spent)"),
        Scope("a day", day, "per_day, at_most"),
        Scope("a decision", "its draw adds its charge, known before it is made", "next_charge(state)"),
    )


def conditions_words(c: CausalCard) -> tuple[str, ...]:
    """All that must be true for the figures to hold."""
    if c.holds:
        return _CONDITIONS
    none = "None suffices: the parameter is estimated from the readings."
    if c.wrong_path is None:
        return (none,)
    eps = guarantee.percent(c.wrong_path, "up")
    return (
        f"None suffices for a bound on leakages. Lines that say 'if the path is wrong at most {eps} of the time' need "
        "that probability, and these:",
        *(words for words in _CONDITIONS if "not estimated" not in words),
    )


def against_words(c: CausalCard) -> str:
    """Whom the bounds hold off."""
    return _AGAINST if c.holds else "Nobody, as far as can be proven. See what an audit finds."


def not_protected_words(c: CausalCard) -> tuple[str, ...]:
    """What no figure here is about."""
    common = tuple(words for words in guarantee._NOT_PROTECTED if not words.startswith(_CONSTANT))
    own = _NOT_PROTECTED if c.holds else ("The parameter itself and the raw readings, as far as can be proven.",)
    return (*own, _WRONG, *common)


def facts(c: CausalCard) -> list[tuple[str, str]]:
    """What stands at the head of the card: name and content."""
    odds = ", ".join(
        f"{guarantee.label(value)}: {guarantee.percent(p, 'near')}"
        for value, p in zip(c.values[:12], c.prior, strict=False)
    )
    more = len(c.values) - 12
    measure = f" ({c.measure})" if c.measure else ""
    found = [
        ("Hidden", f"a parameter that moves among {len(c.values)} values, as a Markov chain"),
        ("Odds at first", f"{odds}{f', and {more} more' if more > 0 else ''}. The adversary is taken to know them, and "
         "the transitions."),
        ("Drawn instead", f"one of {c.draws} pseudo values for every {_readings(c.decision_every)}, with memory of the "
         "draws before"),
    ]  # fmt: skip
    if c.decisions_per_day is not None:
        found.append(("Decisions a day", f"{c.decisions_per_day:g}"))
    if math.isfinite(c.distortion):
        found.append(
            (
                "Distortion",
                f"{guarantee.number(c.distortion, 'near')}{measure} on average, between values that stay; what moving "
                "paths cost is told by true_distortion.",
            )
        )
    return found


def _over(c: CausalCard) -> str:
    return f"on average over decisions {c.window[0]} to {c.window[1]} of a sequence that starts at the stated odds"


def _readings(every: int) -> str:
    return "reading" if every == 1 else f"{every} readings"


def _nats(x: float) -> str:
    return f"{guarantee.number(x, 'up')} nats ({guarantee.number(x / math.log(2.0), 'up')} bit)"


# The card of a causal design: what is guaranteed for a parameter that moves, and of what -------------


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
        error, rate = guarantee.percent(self.filtering, "down"), guarantee.number(self.rate, "up")
        return f"CausalCard({size}, error >= {error}, {rate} nats a decision)"

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The card as plain text."""
        return text(self)

    def html(self, page: bool = False) -> str:
        """The card as an HTML fragment, or as a page of its own; it loads nothing from elsewhere."""
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


# The card of a causal design on paper: as text, and as HTML in the style of the card of a constant pa ---


def text(c: CausalCard) -> str:
    """The card as plain text, at most 92 columns wide."""
    lines = ["PRIVACY CARD OF A MOVING PARAMETER", "=" * _WIDTH, *_filled(c.headline), ""]
    for name, content in facts(c):
        lines += _filled(content, f"{name:<17}")
    for k, m in enumerate(c.measures, start=1):
        lines += ["", *_filled(f"{m.title}: {m.shown}", f"{k}. ")]
        lines += _filled(f"{m.sentence} {m.note}".rstrip(), "   ")
    lines += ["", "Guaranteed of"]
    for scope in c.scopes:
        lines += _filled(f"{scope.of}: {scope.holds} ({scope.known}).", "  - ")
    for title, items in _sections(c):
        lines += ["", title]
        for item in items:
            lines += _filled(item, "  - ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def html(c: CausalCard, page: bool = False) -> str:
    """The card as HTML: a fragment, or a whole page. Nothing is loaded from elsewhere."""
    about = "".join(f'<tr><th scope="row">{_e(name)}</th><td>{_e(content)}</td></tr>' for name, content in facts(c))
    rows = "".join(_row(m) for m in c.measures)
    of = "".join(
        f'<tr><th scope="row">{_e(s.of)}</th><td>{_e(s.holds)}</td><td>{_e(s.known)}</td></tr>' for s in c.scopes
    )
    rest = "".join(
        f"<h3>{_e(title)}</h3><ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>"
        for title, items in _sections(c)
    )
    title, caption = "What is guaranteed", "Each figure with its meaning; every one needs the conditions below"
    if not c.holds:
        title, caption = "What is not guaranteed", "Figures of a parameter that is known; this one is estimated"
        if c.wrong_path is not None:
            title = "What holds if the path is nearly always right, and what does not hold"
            caption = "Figures that say 'if known' are of a parameter that is known; this one is estimated"
    body = (
        f'<section class="understudy-card{"" if c.holds else " void"}" aria-label="Privacy card">'
        f"<style>{_STYLE}</style><h2>Privacy card of a moving parameter</h2>"
        f'<p class="claim">{_e(c.headline)}</p>'
        f'<table class="facts"><caption>What is hidden</caption><tbody>{about}</tbody></table>'
        f"<h3>{_e(title)}</h3><table><caption>{_e(caption)}</caption>"
        '<thead><tr><th scope="col">Measure</th><th scope="col">Figure</th><th scope="col">Odds</th>'
        f'<th scope="col">In words</th></tr></thead><tbody>{rows}</tbody></table>'
        "<h3>Of a sequence, a day, a decision</h3><table><caption>What holds, and how it is known</caption>"
        '<thead><tr><th scope="col">Of</th><th scope="col">Holds</th><th scope="col">Known by</th></tr></thead>'
        f"<tbody>{of}</tbody></table>{rest}</section>"
    )
    if not page:
        return body
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Privacy card</title></head>'
        f"<body>{body}</body></html>\n"
    )


def _sections(c: CausalCard) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("Holds under these conditions", c.conditions),
        ("Against whom", (c.against,)),
        ("What is not protected", c.not_protected),
    ]
