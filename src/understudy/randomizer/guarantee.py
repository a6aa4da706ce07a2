"""The guarantee that comes with a randomizer: Theorem 3, its sharper relatives, and what they do not say.

The paper bounds the error of every estimator of the private parameter by Fano's inequality, from the
mutual information alone. That bound, with its units put right, is one line of the card below; it is
never positive for two values. The exact bound is another: who sees the pseudo parameter itself errs
with probability 1 - sum_j max_i p_i P_ij, and as Theta -> ~Theta -> ~Y is a Markov chain, nobody who
sees only disguised readings does better, however many there are. By the same chain each of the other
measures (`understudy.randomizer.measures`) of ~Theta bounds that of the readings.

No number goes without its conditions. Every sentence says whether it needs the odds as stated, and
that the parameter is constant over the epoch and the model right; the card lists the rest, and what
is not protected at all.

>>> flip = [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]
>>> card = Guarantee.of([0.5, 0.5], flip, values=[0, 1], budget=0.3)
>>> card
Guarantee(2 values, 6 draws, error >= 13.36 percent, leakage <= 0.3 nats)
>>> import textwrap
>>> print(textwrap.fill(card.headline, 80))
At the stated odds beforehand, with the parameter constant over the epoch and
the model right, any guess is wrong with probability at least 13.36 percent,
however long it watches.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer import card, measures

SCHEMA, VERSION = "understudy.guarantee", 1

# What stands in each sentence, by the condition that the design was made under.
_GIVEN = {
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
_CONDITIONS = (
    "The model of each value is right: the readings have its law, the start included.",
    "One draw an epoch, made from the true parameter and fresh randomness without looking at the readings, and "
    "remembered. A second draw for the same value leaks again.",
    "The random numbers behind the draw, the raw readings and the state of the filter stay secret. The pseudo "
    "parameter need not: every bound holds against somebody who sees it.",
    "All that depends on the parameter and is released passes through the filter, as one joint model.",
    "Where the odds are 'stated', they are those given above: the adversary knows them, and nothing more. Where they "
    "are 'any', the bound holds for all odds on the values that can occur.",
)
_AGAINST = (
    "Anyone who sees only the disguised readings, of any length, with unlimited computation; who knows the odds, the "
    "randomizer, every model and this software; and even if told the pseudo parameter."
)
_NOT_PROTECTED = (
    "Other channels: whatever leaves unfiltered (temperature, power, access logs), and other sensors of the same room "
    "with draws or models of their own.",
    "Timing: when readings come, and which are missing.",
    "What is known from elsewhere, such as the time of day. The bounds limit what the readings add to the stated odds.",
    "Wrong models: the average leakage can grow by sum_i p_i KL(true law under value i || model of value i), in "
    "nats over the whole sequence. A wrong model of a pseudo value costs no privacy.",
    "Repeated draws: leakages of draws for the same value add up, and the error rate falls.",
    "Rounded readings, unless their model is one of rounded readings: the grid can give the parameter away.",
    "Inputs that react to the raw readings, such as a damper, and a parameter estimated from the readings.",
    "The readings themselves: only the parameter is hidden. Who knows both parameters can undo the disguise.",
    "Anyone who can read the memory, the snapshots or the ledger of the filter.",
    "People's safety: disguised readings are wrong on purpose. Never drive ventilation or alarms from them.",
)


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guarantee:
    """Everything that is guaranteed of one randomizer, with its conditions. Make it with `Guarantee.of`.

    Leakages are in nats, errors are probabilities. `str`, `text`, `html` and `json` render it.

    Theorem 3 says something when there are enough values, here an occupancy of 0 to 4:

    >>> kernel = [np.roll([0.48, 0.16, 0.1, 0.1, 0.16], i) for i in range(5)]
    >>> g = Guarantee.of([0.2] * 5, kernel, values=range(5))
    >>> print(f"{g.mutual_information:.3f} nats: {g.fano_paper:.4f} < {g.fano:.4f} < {g.bayes_error:.4f}")
    0.210 nats: 0.4387 < 0.5095 < 0.5200
    """

    values: tuple[str | int | float, ...]
    prior: Array
    draws: int
    budget: float | None
    condition: str
    entropy: float
    mutual_information: float
    prior_error: float
    bayes_error: float
    fano: float
    fano_paper: float
    min_entropy_leakage: float
    maximal_leakage: float
    pointwise: measures.Pointwise
    local_dp: float
    capacity: measures.Capacity

    @classmethod
    def of(
        cls, prior: Any, kernel: Any, values: Any = None, budget: float | None = None, condition: str = "constant"
    ) -> Guarantee:
        """Measure a kernel ``(m, n)`` at a prior ``(m,)``.

        `values` names the values of the private parameter, `budget` is the mutual information in nats
        that the kernel was designed for. `condition` is ``"constant"``; ``"path"`` if rows stand for
        paths of a parameter that moves; or ``"estimated"`` if the parameter is estimated from the
        readings, which has no guarantee, and the card says so.

        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], budget=0.1).within_budget
        False
        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], condition="hopeful")
        Traceback (most recent call last):
        understudy.errors.DesignError: condition is 'hopeful'; it must be one of constant, path, estimated
        """
        p, P = measures.checked(prior, kernel)
        if condition not in _GIVEN:
            raise DesignError(f"condition is {condition!r}; it must be one of {', '.join(_GIVEN)}")
        if budget is not None:
            budget = measures.checked_nats("budget", budget)
        p.flags.writeable = False
        information = measures.mutual_information(p, P)
        return cls(
            values=_names(values, len(p)),
            prior=p,
            draws=P.shape[1],
            budget=budget,
            condition=condition,
            entropy=measures.entropy(p),
            mutual_information=information,
            prior_error=measures.prior_error(p),
            bayes_error=measures.bayes_error(p, P),
            fano=measures.fano(p, information),
            fano_paper=measures.fano_paper(p, information),
            min_entropy_leakage=measures.min_entropy_leakage(p, P),
            maximal_leakage=measures.maximal_leakage(P, p),
            pointwise=measures.pointwise_maximal_leakage(p, P),
            local_dp=measures.local_dp(P, p),
            capacity=measures.capacity(P, p),
        )

    @property
    def holds(self) -> bool:
        """Whether a theorem stands behind the numbers; not if the parameter is estimated from the readings."""
        return self.condition != "estimated"

    @property
    def bits(self) -> float:
        """The mutual information in bits."""
        return self.mutual_information / math.log(2.0)

    @property
    def share(self) -> float:
        """The mutual information as a share of all there is to know; NaN if there is nothing to know."""
        return self.mutual_information / self.entropy if self.entropy > 0.0 else math.nan

    @property
    def guess_before(self) -> float:
        """How often the best guess is right without the readings."""
        return 1.0 - self.prior_error

    @property
    def guess_after(self) -> float:
        """How often it is right with them, at most."""
        return 1.0 - self.bayes_error

    @property
    def within_budget(self) -> bool | None:
        """Whether the leakage keeps to the budget, to 13 digits; None without a budget."""
        return None if self.budget is None else self.mutual_information <= self.budget * (1.0 + 1e-13)

    @property
    def headline(self) -> str:
        """The guarantee in one sentence, conditions included."""
        return self.measures[0].sentence if self.holds else _ESTIMATED

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the bounds to hold."""
        never = int((self.prior == 0.0).sum())
        zero = (
            f"Values with zero odds ({never} of {len(self.values)}) never occur. No bound here covers them, those for "
            "any odds included.",
        )
        if not self.holds:
            return (_SETTING[self.condition],)
        return (_SETTING[self.condition], *_CONDITIONS, *(zero if never else ()))

    @property
    def against(self) -> str:
        """Whom the bounds hold off."""
        return _AGAINST if self.holds else "Nobody, as far as can be proven. See what an audit finds."

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound here is about."""
        return _NOT_PROTECTED if self.holds else ("The parameter itself, as far as can be proven.", *_NOT_PROTECTED)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every bound with its sentence, the one to quote first."""
        return _lines(self)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Guarantee) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        if not self.holds:
            return f"Guarantee(no guarantee, audit only; {len(self.values)} values, {self.draws} draws)"
        return (
            f"Guarantee({len(self.values)} values, {self.draws} draws, "
            f"error >= {card.percent(self.bayes_error, 'down')}, "
            f"leakage <= {card.number(self.mutual_information, 'up')} nats)"
        )

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The card as plain text."""
        return card.text(self)

    def html(self, page: bool = False) -> str:
        """The card as an HTML fragment, or as a page of its own; it loads nothing from elsewhere."""
        return card.html(self, page)

    def _repr_html_(self) -> str:
        return self.html()

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data: infinities are the word ``"infinite"``, what is not defined is None.

        >>> card = Guarantee.of([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).to_dict()
        >>> card["schema"], card["version"], card["measures"][-1]["value"]
        ('understudy.guarantee', 1, 'infinite')
        """
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "guaranteed": self.holds,
            "condition": self.condition,
            "headline": self.headline,
            "values": list(self.values),
            "odds": self.prior.tolist(),
            "draws": self.draws,
            "entropy_nats": self.entropy,
            "budget_nats": None if self.budget is None else _number(self.budget),
            "within_budget": self.within_budget,
            "leakage": {"nats": self.mutual_information, "bits": self.bits, "share": _number(self.share)},
            "right_guesses": {"before": self.guess_before, "after_at_most": self.guess_after if self.holds else 1.0},
            "wrong_guesses": {"before": self.prior_error, "after_at_least": self.bayes_error if self.holds else 0.0},
            "pointwise_leakage_of_each_draw": [_number(x) for x in self.pointwise.per_draw.tolist()],
            "capacity_slack_nats": self.capacity.slack,
            "measures": [
                {
                    "name": m.name,
                    "title": m.title,
                    "value": _number(m.value),
                    "unit": m.unit,
                    "bound": m.bound,
                    "odds": m.odds,
                    "shown": m.shown,
                    "sentence": m.sentence,
                    "note": m.note,
                }
                for m in self.measures
            ],
            "conditions": list(self.conditions),
            "against": self.against,
            "not_protected": list(self.not_protected),
        }

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON; see `to_dict`.

        >>> import json
        >>> json.loads(Guarantee.of([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]).json())["leakage"]["nats"]
        0.0
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def _lines(g: Guarantee) -> tuple[Measure, ...]:
    """The lines of the card in the order of reading: error rates first, then averages, then worst cases."""
    given = {odds: f"{words}, {_GIVEN[g.condition]}, " for odds, words in _ODDS.items()}
    # without a theorem nothing may be said of the readings
    seen, tell = ("the readings, however many,", "tell") if g.holds else ("the draw", "tells")
    long = ", however long it watches." if g.holds else "."
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
        shown = f"{at_most}{card.number(value, 'up')} nats" if math.isfinite(value) else "no bound (infinite)"
        return Measure(name, title, value, "nats", "at most", odds, shown, given[odds] + words, note)

    return (
        error(
            "bayes_error",
            "Wrong guesses, best adversary",
            g.bayes_error,
            "Exact for whoever sees the pseudo parameter. Who sees nothing and guesses best is wrong "
            f"{card.percent(g.prior_error, 'up')} of the time.",
        ),
        error("fano", "Wrong guesses, sharp Fano bound", g.fano, "From the average leakage and the odds alone."),
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
            f"seeing {seen} multiplies the chance to guess right any fact about the hidden value by at most "
            f"{card.factor(g.pointwise.worst)}, even after the most telling draw.",
        ),
        leakage(
            "local_dp",
            "Any two values (local-DP epsilon)",
            g.local_dp,
            "any",
            f"seeing {seen} shifts the odds between any two values by a factor of at most {card.factor(g.local_dp)}."
            if math.isfinite(g.local_dp)
            else f"there is no bound on how far {seen} can shift the odds between two values.",
            "" if math.isfinite(g.local_dp) else "Some draw rules a value out: it never comes from that one.",
        ),
    )


def _nats(x: float) -> str:
    return f"{card.number(x, 'up')} nats ({card.number(x / math.log(2.0), 'up')} bit)"


def _names(values: Any, m: int) -> tuple[str | int | float, ...]:
    """The values as they can be written down: numbers stay numbers, all else becomes its name."""
    if values is None:
        return tuple(f"value {i}" for i in range(1, m + 1))
    given = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if len(given) != m:
        raise DesignError(f"values has {len(given)} entries and the prior {m}; each value needs its odds")
    return tuple(v if isinstance(v, (int, float)) and abs(v) < 1e300 else str(v)[:80] for v in given)


def _number(x: float) -> float | str | None:
    """A number for JSON, which has no infinities."""
    if math.isnan(x):
        return None
    return x if math.isfinite(x) else "infinite" if x > 0.0 else "minus infinite"
