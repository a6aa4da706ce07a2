"""The sentences of a guarantee: every bound in plain words, with the conditions it needs.

A sentence says whether it needs the odds as stated, and that the parameter is constant over the epoch and the
model right. Where models are approximate it says for how many readings it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.randomizer import card
from understudy.randomizer.charge import Charge

if TYPE_CHECKING:
    from understudy.randomizer.guarantee import Guarantee

# What stands in each sentence, by the condition that the design was made under.
GIVEN = {
    "constant": "with the parameter constant over the epoch and the model right",
    "path": "with the path of the parameter over the epoch as the hidden value, not moved by the readings, and the "
    "model right",
    "estimated": "with only the draw seen and no readings",
}
_SETTING = {
    "constant": "The parameter is constant over the epoch, and the boundaries of epochs come from the clock.",
    "path": "The hidden value is the whole path of the parameter over the epoch. The readings do not act on it, and "
    "the pseudo path looks at no later part of it.",
    "estimated": "None suffices: the parameter is estimated from the readings.",
}
_ODDS = {"stated": "At the stated odds beforehand", "any": "Whatever the odds beforehand"}
_ESTIMATED = (
    "No guarantee, audit only: the parameter is estimated from the readings, and then no theorem holds. The numbers "
    "below are those of the draw alone and bound nothing that the readings tell."
)
_RIGHT = "The model of each value is right: the readings have its law, the start included."
_CONDITIONS = (
    "One draw an epoch, made from the true parameter and fresh randomness without looking at the readings, and "
    "remembered. A second draw for the same value leaks again.",
    "The random numbers behind the draw, the raw readings and the state of the filter stay secret. The pseudo "
    "parameter need not: every bound holds against somebody who sees it.",
    "All that depends on the parameter and is released passes through the filter, as one joint model.",
    "Which readings are missing does not depend on the parameter: only then is a gap exact. A stream that fills its "
    "gaps (fill=True) does not show them.",
    "Where the odds are 'stated', they are those given above: the adversary knows them, and nothing more. Where they "
    "are 'any', the bound holds for all odds on the values that can occur.",
)
_AGAINST = (
    "Anyone who sees only {seen}, with unlimited computation; who knows the odds, the "
    "randomizer, every model and this software; and even if told the pseudo parameter."
)
_WRONG = (
    "Wrong models: the average leakage can grow by sum_i p_i KL(true law under value i || model of value i), in "
    "nats over the whole sequence. A wrong model of a pseudo value costs no privacy."
)
_ROUNDED = "Rounded readings, unless their model is one of rounded readings: the grid can give the parameter away."
_NOT_PROTECTED = (
    "Other channels: whatever leaves unfiltered (temperature, power, access logs), and other sensors of the same room "
    "with draws or models of their own.",
    "Timing: when readings come, and which are missing.",
    "What is known from elsewhere, such as the time of day. The bounds limit what the readings add to the stated odds.",
    _WRONG,
    "Repeated draws: leakages of draws for the same value add up, and the error rate falls.",
    _ROUNDED,
    "Inputs that react to the raw readings, such as a damper, and a parameter estimated from the readings.",
    "The readings themselves: only the parameter is hidden. Who knows both parameters can undo the disguise.",
    "Anyone who can read the memory, the snapshots or the ledger of the filter.",
    "People's safety: disguised readings are wrong on purpose. Never drive ventilation or alarms from them.",
)
# The same where models are approximate, by construction and by a known amount.
_RIGHT_BUT = (
    "The model of each value is right but for its residual: the readings have the law that it approximates, the start "
    "included, and none is missing. The approximation gives away at most the {nats} nats that are charged ({how}). A "
    "residual that was simulated is charged with 4.75 standard errors on top: too little once in a million.",
    "No more is seen than {first} of an epoch. Each later one gives away a little more.",
)
_WRONG_BUT = (
    "Wrong models: where the readings do not have the law that a model approximates, the average leakage can grow by "
    "more than the residual that is charged, and by sum_i p_i KL(true law under value i || model of value i) in all, "
    "in nats over the whole sequence. A wrong model of a pseudo value costs no privacy."
)
_ROUNDED_BUT = f"{_ROUNDED} What such a model gives away itself is charged for {{first}}, and for no more."


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the card.

    `value` is the number itself, `shown` how it is printed (rounded to the safe side), `odds` is
    ``"stated"`` or ``"any"``, and `sentence` says it in plain words with its conditions.
    """

    name: str
    title: str
    value: float
    unit: str
    bound: str
    odds: str
    shown: str
    sentence: str
    note: str = ""


def headline(g: Guarantee) -> str:
    """The guarantee in one sentence, conditions included."""
    return lines(g)[0].sentence if g.holds else _ESTIMATED


def conditions(g: Guarantee) -> tuple[str, ...]:
    """All that must be true for the bounds to hold."""
    if not g.holds:
        return (_SETTING[g.condition],)
    right = (_RIGHT,) if g.charge is None else tuple(_filled(words, g.charge) for words in _RIGHT_BUT)
    never = int((g.prior == 0.0).sum())
    zero = (
        f"Values with zero odds ({never} of {len(g.values)}) never occur. No bound here covers them, those for "
        "any odds included.",
    )
    return (_SETTING[g.condition], *right, *_CONDITIONS, *(zero if never else ()))


def against(g: Guarantee) -> str:
    """Whom the bounds hold off."""
    if not g.holds:
        return "Nobody, as far as can be proven. See what an audit finds."
    seen = "the disguised readings, of any length" if g.charge is None else f"{g.charge.first}, disguised"
    return _AGAINST.format(seen=seen)


def not_protected(g: Guarantee) -> tuple[str, ...]:
    """What no bound here is about."""
    if not g.holds:
        return ("The parameter itself, as far as can be proven.", *_NOT_PROTECTED)
    if g.charge is None:
        return _NOT_PROTECTED
    changed = {_WRONG: _WRONG_BUT, _ROUNDED: _filled(_ROUNDED_BUT, g.charge)}
    return tuple(changed.get(words, words) for words in _NOT_PROTECTED)


def lines(g: Guarantee) -> tuple[Measure, ...]:
    """The lines of the card in the order of reading: error rates first, then averages, then worst cases."""
    but = "" if g.charge is None else " but for its charged residual"
    given = {odds: f"{words}, {GIVEN[g.condition]}{but}, " for odds, words in _ODDS.items()}
    # without a theorem nothing may be said of the readings
    seen, tell = ("the readings, however many,", "tell") if g.holds else ("the draw", "tells")
    long = ", however long it watches." if g.holds else "."
    worst_seen, pointwise, local = seen, "", ""
    if g.charge is not None:
        seen, tell, long = g.charge.first, "tell" if g.charge.horizon > 1 else "tells", f", for {g.charge.first}."
        worst_seen, pointwise, local = "the draw", *_worst_cases(g, g.charge)
    weighs_less = g.charge is not None and g.fano > g.bayes_error
    at_least, at_most = ("at least ", "at most ") if g.holds else ("draw alone: ", "draw alone: ")

    def error(name: str, title: str, value: float, note: str) -> Measure:
        shown = card.percent(value, "down")
        sentence = f"{given['stated']}any guess is wrong with probability at least {shown}{long}"
        if value <= 0.0 and name != "bayes_error":
            sentence = f"{given['stated']}this bound says nothing, because it is not positive."
        if value < 0.0:
            shown = f"nothing ({shown})" if math.isfinite(value) else "nothing"
        return Measure(
            name, title, value, "probability", "at least", "stated", at_least * (value >= 0.0) + shown, sentence, note
        )

    def leakage(name: str, title: str, value: float, odds: str, words: str, note: str = "") -> Measure:
        of_draw = g.charge is not None and name in ("pointwise_maximal_leakage", "local_dp")
        lead = "draw alone: " if of_draw else at_most
        shown = f"{lead}{card.number(value, 'up')} nats" if math.isfinite(value) else "no bound (infinite)"
        conditions = f"{_ODDS[odds]}, {GIVEN['estimated']}, " if of_draw else given[odds]
        return Measure(name, title, value, "nats", "at most", odds, shown, conditions + words, note)

    return (
        error(
            "bayes_error",
            "Wrong guesses, best adversary",
            g.bayes_error,
            ("Exact for whoever sees the pseudo parameter." if g.charge is None else _guessing(g.charge))
            + " Who sees nothing and guesses best is wrong "
            f"{card.percent(g.prior_error, 'up')} of the time.",
        ),
        error(
            "fano",
            "Wrong guesses, sharp Fano bound",
            g.fano,
            "From the average leakage and the odds alone."
            + (" Here it says more than the line before: a residual weighs less on averages." * weighs_less),
        ),
        error(
            "fano_paper",
            "Wrong guesses, the paper's Fano bound",
            g.fano_paper,
            "Theorem 3 of the paper, its one bit written as ln 2 nats."
            + (" With two values it is never positive." if np.count_nonzero(g.prior) == 2 else ""),
        ),
        leakage(
            "mutual_information",
            "Average leakage (mutual information)",
            g.mutual_information,
            "stated",
            f"on average {seen} {tell} at most {_nats(g.mutual_information)}"
            + (f", {card.percent(g.share, 'up')} of all there is to know." if g.entropy > 0.0 else "."),
            "An average over draws: a single one can tell more.",
        ),
        leakage(
            "capacity",
            "Average leakage at the worst odds (capacity)",
            g.capacity.upper,
            "any",
            f"on average {seen} {tell} at most {_nats(g.capacity.upper)}.",
            "A proven upper bound"
            + (f", at most {card.number(g.capacity.slack, 'up')} nats too large." if g.capacity.slack > 0.0 else "."),
        ),
        leakage(
            "min_entropy_leakage",
            "One guess (min-entropy leakage)",
            g.min_entropy_leakage,
            "stated",
            f"seeing {seen} multiplies the chance to guess the hidden value right by at most "
            f"{card.factor(g.min_entropy_leakage)}.",
        ),
        leakage(
            "maximal_leakage",
            "Any fact about it (maximal leakage)",
            g.maximal_leakage,
            "any",
            f"seeing {seen} multiplies the chance to guess right any fact about the hidden value by at most "
            f"{card.factor(g.maximal_leakage)}.",
        ),
        leakage(
            "pointwise_maximal_leakage",
            "Most telling draw (pointwise leakage)",
            g.pointwise.worst,
            "stated",
            f"seeing {worst_seen} multiplies the chance to guess right any fact about the hidden value by at most "
            f"{card.factor(g.pointwise.worst)}, even after the most telling draw.",
            pointwise,
        ),
        leakage(
            "local_dp",
            "Any two values (local-DP epsilon)",
            g.local_dp,
            "any",
            f"seeing {worst_seen} shifts the odds between any two values by a factor of at most "
            f"{card.factor(g.local_dp)}."
            if math.isfinite(g.local_dp)
            else f"there is no bound on how far {worst_seen} can shift the odds between two values.",
            local if math.isfinite(g.local_dp) else "Some draw rules a value out: it never comes from that one.",
        ),
    )


def _guessing(charge: Charge) -> str:
    return (
        f"That of whoever sees the pseudo parameter, less {card.percent(charge.variation, 'up')} for what the models "
        "themselves give away."
    )


def _worst_cases(g: Guarantee, charge: Charge) -> tuple[str, str]:
    """What the worst cases of the draw become for whole events: a factor, and a probability on top.

    With P for the readings and Q for the models, each d_i apart under value i: P_i(A) <= Q_i(A) + d_i, the draw bounds
    Q_i(A) by e^x Q(A), and Q(A) <= P(A) + sum_k p_k d_k. Between two values the same with Q_k and d_k.
    """
    d = sorted((x for x, w in zip(charge.variations, g.prior.tolist(), strict=True) if w > 0.0), reverse=True)
    lead = "Of the draw alone: what models give away on average bounds no worst case. Of"
    first = f"{lead} {charge.first} it holds for events as a whole: none is more than"

    def beyond(nats: float, multiplied: float, added: float) -> str:
        return card.number(min(1.0, math.exp(min(nats, 700.0)) * multiplied + added), "up")

    pointwise = (
        f"{first} this factor likelier under one value than on average, up to an added probability of "
        f"{beyond(g.pointwise.worst, charge.variation, d[0])}."
    )
    local = (
        f"{first} this factor likelier under one value than under another, up to an added probability of "
        f"{beyond(g.local_dp, d[0], d[1] if len(d) > 1 else 0.0)}."
    )
    return pointwise, local


def _filled(words: str, charge: Charge) -> str:
    return words.format(nats=card.number(charge.total, "up"), first=charge.first, how=charge.how)


def _nats(x: float) -> str:
    return f"{card.number(x, 'up')} nats ({card.number(x / math.log(2.0), 'up')} bit)"
