"""The sentences of the card of a causal design: every figure in plain words, with the conditions it needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from understudy.randomizer import card, sentences
from understudy.randomizer.sentences import Measure

if TYPE_CHECKING:
    from understudy.randomizer.causal.card import CausalCard

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
        "" if not c.rate_error > 0.0 else f" Simulated, with a standard error of {card.number(c.rate_error, 'up')}."
    )

    def error(name: str, title: str, value: float, words: str, note: str) -> Measure:
        shown = card.percent(value, "down")
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
            f"{card.percent(c.blind, 'up')} of the time. {_LATER if c.settled else _UNSETTLED}",
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
            f"Exact. Who sees nothing and guesses best is wrong {card.percent(c.prior_error, 'up')} of the time.",
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
    eps = card.percent(c.wrong_path, "up")
    given = (
        "At the stated odds and transitions, with the models right and an estimated path that differs anywhere from "
        f"the true one with probability at most {eps}, "
    )

    def line(name: str, title: str, least: float, words: str, end: str) -> Measure:
        value = max(0.0, least - (c.wrong_path or 0.0))
        shown = card.percent(value, "down")
        sentence = f"{given}{words.format(shown)} {_over(c)}{end}."
        if value <= 0.0:
            sentence, shown = f"{given}this bound says nothing, because it is not positive.", "nothing"
        note = (
            f"{card.percent(least, 'down')} if the path were known, less {eps}. The path is all of it, up to the last "
            "reading that is seen; the card does not check the probability."
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
    eps = card.percent(c.wrong_path, "up")
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
    common = tuple(words for words in sentences._NOT_PROTECTED if not words.startswith(_CONSTANT))
    own = _NOT_PROTECTED if c.holds else ("The parameter itself and the raw readings, as far as can be proven.",)
    return (*own, _WRONG, *common)


def facts(c: CausalCard) -> list[tuple[str, str]]:
    """What stands at the head of the card: name and content."""
    odds = ", ".join(
        f"{card.label(value)}: {card.percent(p, 'near')}" for value, p in zip(c.values[:12], c.prior, strict=False)
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
                f"{card.number(c.distortion, 'near')}{measure} on average, between values that stay; what moving paths "
                "cost is told by true_distortion.",
            )
        )
    return found


def _over(c: CausalCard) -> str:
    return f"on average over decisions {c.window[0]} to {c.window[1]} of a sequence that starts at the stated odds"


def _readings(every: int) -> str:
    return "reading" if every == 1 else f"{every} readings"


def _nats(x: float) -> str:
    return f"{card.number(x, 'up')} nats ({card.number(x / math.log(2.0), 'up')} bit)"
