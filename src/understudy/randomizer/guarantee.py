"""The guarantee of a randomizer: Theorem 3, its sharper relatives, and their conditions.

The paper bounds the error of every estimator of the private parameter by Fano's inequality, from the mutual
information alone. That bound, with its units put right, is one line of the card; it is never positive for two values.
The exact bound is another: an adversary who sees the pseudo parameter itself errs with probability
1 - sum_j max_i p_i P_ij, and as Theta -> ~Theta -> ~Y is a Markov chain, nobody who sees only disguised readings does
better, however many there are. By the same chain each of the other measures (`understudy.randomizer.measures`) of
~Theta bounds that of the readings.

Where models are approximate, their residual (`understudy.randomizer.residual`) breaks the chain a little. The bounds
then include it (`_with_residual`), and hold for the readings that it is charged for.

The numbers stand here, the sentences in `understudy.text`. No number goes without its conditions: every sentence says
at which prior it holds, and that the parameter is constant over the epoch and the model right; the card lists the
rest, and what is not protected at all.

>>> flip = [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]
>>> card = Guarantee.of([0.5, 0.5], flip, values=[0, 1], budget=0.3)
>>> card
Guarantee(2 values, 6 draws, error >= 13.36 percent, leakage <= 0.3 nats)
>>> import textwrap
>>> print(textwrap.fill(card.headline, 80))
At the stated prior, with the parameter constant over the epoch and the model
right, any guess is wrong with probability at least 13.36 percent, however long
it watches.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._html import card_html
from understudy._types import Array, Plain, Value
from understudy.errors import DesignError
from understudy.randomizer import measures
from understudy.randomizer.residual import Charge, rounded_up
from understudy.stream.release import Release
from understudy.text import Card, Measure, MovingSetting, Pairs, Setting, number, percent
from understudy.transform.roundoff import Roundoff

SCHEMA, VERSION = "understudy.guarantee", 1


class ReleaseSummary(NamedTuple):
    """How readings leave a design, and what floating point adds to their leakage."""

    lattice: str
    """The steps of the lattice, in words."""
    steps: tuple[float, ...]
    form: str
    """What the readings that come in are declared to be."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    readings: int
    """The number of readings that the next two are about."""
    nats: float
    variation: float
    within: int
    """Readings after which floating point has added a millionth of a nat."""
    how: str
    possible: tuple[tuple[float | None, float | None], ...] = ()
    """The ends to which outputs beyond them are moved, by channel; None where there is none."""

    @property
    def facts(self) -> Pairs:
        """The same in words, for a card."""
        spans = zip(self.low, self.high, strict=True)
        found = text.release_facts(self.lattice, any(self.steps), self.form, spans, self.possible)
        if self.how:
            found.append(text.floating_fact(self.nats, self.variation, self.readings, self.within, self.how))
        return found


def summarise_release(release: Release, floating: Roundoff | None, horizon: int | None) -> ReleaseSummary:
    """The facts about a release, for a card; over `horizon` readings, or a thousand."""
    T = horizon or 1000
    forms = " and ".join(dict.fromkeys(form.words for form in release.forms))
    words, steps = release.lattice.words, release.lattice.steps
    found: tuple[float, float, int, str] = (0.0, 0.0, 0, "")
    if floating is not None:
        found = floating.nats(T), floating.variation(T), floating.readings(1e-6), floating.how
    return ReleaseSummary(words, steps, forms, release.low, release.high, T, *found, release.ends)


class PrivacyCard:
    """What every card has besides its figures: text, HTML and JSON."""

    __slots__ = ()

    @property
    def card(self) -> Card:
        """The whole card in words."""
        raise NotImplementedError  # each subclass has its own

    def to_dict(self) -> Plain:
        """The card as plain data."""
        raise NotImplementedError  # each subclass has its own

    @property
    def _setting(self) -> Setting | MovingSetting:
        """What the sentences are conditional on."""
        raise NotImplementedError  # each subclass has its own

    @property
    def against(self) -> str:
        """The adversary of the bounds."""
        return self._setting.against

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound here is about."""
        return self._setting.not_protected

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json())

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

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON; see `to_dict`.

        >>> import json
        >>> json.loads(Guarantee.of([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]).json())["leakage"]["nats"]
        0.0
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guarantee(PrivacyCard):
    """Everything that is guaranteed of one randomizer, with its conditions. Make it with `Guarantee.of`.

    Leakages are in nats, errors are probabilities. `str`, `text`, `html` and `json` render it.

    Where models are approximate, `charge` is what they leak themselves, and the numbers are those of the first
    ``charge.horizon`` readings, the charge included. Only `local_dp` and `pointwise` have no such form: they stay
    those of the draw, and their lines say so.

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
    charge: Charge | None = None
    constraints: tuple[str, ...] = ()
    about_release: Callable[[], ReleaseSummary] | None = None
    fresh: float = 0.0
    """The fresh share."""
    output: tuple[text.OutputFacts, ...] = ()
    """Least-change outputs, by pseudo value; none where outputs are lifelike."""

    @classmethod
    def of(
        cls,
        prior: ArrayLike,
        kernel: ArrayLike,
        values: Iterable[Value] | None = None,
        budget: float | None = None,
        condition: str = "constant",
        residual: Charge | None = None,
        constraints: Iterable[str] = (),
        release: Callable[[], ReleaseSummary] | None = None,
    ) -> Guarantee:
        """Measure a kernel ``(m, n)`` at a prior ``(m,)``.

        `values` names the values of the private parameter, `budget` is the mutual information in nats
        that the kernel was designed for. `condition` is ``"constant"``; ``"path"`` if rows stand for
        paths of a parameter that moves; or ``"estimated"`` if the parameter is estimated from the
        readings, which has no guarantee, and the card says so. `residual` is what approximate models leak
        themselves (`Design.charge`), which the budget includes; without a guarantee there is none to charge.
        `constraints` says in words what the kernel was made to keep besides. `release` is asked, when the card is
        written, how readings leave.

        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], budget=0.1).within_budget
        False
        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], condition="hopeful")
        Traceback (most recent call last):
        understudy.errors.DesignError: condition is 'hopeful'; it must be one of constant, path, estimated
        """
        p, P = measures.check_prior_and_kernel(prior, kernel)
        if condition not in text.CONDITIONS:
            raise DesignError(f"condition is {condition!r}; it must be one of {', '.join(text.CONDITIONS)}")
        if budget is not None:
            budget = measures.check_nats("budget", budget)
        if not (residual is None or isinstance(residual, Charge)):
            raise DesignError(f"residual is a {type(residual).__name__}; it must be a Charge, or None for exact models")
        p.flags.writeable = False
        information = measures.mutual_information(p, P)
        drawn = cls(
            values=named_values(values, len(p)),
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
            constraints=tuple(constraints),
            about_release=release,
        )
        return drawn if residual is None or not drawn.holds else _with_residual(drawn, residual)

    @property
    def holds(self) -> bool:
        """Whether a theorem stands behind the numbers; not if the parameter is estimated from the readings."""
        return self.condition != "estimated"

    @property
    def release(self) -> ReleaseSummary | None:
        """How readings leave, and what floating point adds; None for a bare kernel."""
        return None if self.about_release is None else self.about_release()

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
        return text.claim(self.measures[0], self.holds)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the bounds to hold."""
        nats = 0.0 if self.charge is None else self.charge.total
        return self._setting.conditions(nats, int((self.prior == 0.0).sum()), len(self.values))

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every bound with its sentence, the one to quote first: error rates, then averages, then worst cases."""
        say, charge = self._setting, self.charge
        variation = None if charge is None else charge.variation
        sharper = charge is not None and self.fano > self.bayes_error
        beyond = (0.0, 0.0) if charge is None else _beyond(self, charge)
        return (
            say.error("bayes_error", self.bayes_error, text.best_guess_note(self.prior_error, variation)),
            say.error("fano", self.fano, text.fano_note(sharper)),
            say.error("fano_paper", self.fano_paper, text.fano_paper_note(int(np.count_nonzero(self.prior)))),
            say.information(self.mutual_information, self.share),
            say.capacity(self.capacity.upper, self.capacity.slack),
            *say.guesses(self.min_entropy_leakage, self.maximal_leakage),
            *say.worst_cases(self.pointwise.worst, self.local_dp, beyond),
        )

    @property
    def card(self) -> Card:
        """The whole card in words."""
        heading, caption = text.card_headings(self.holds)
        guesses = (self.guess_before, self.guess_after) if self.holds else None
        return Card(
            title="Privacy card",
            claim=self.headline,
            holds=self.holds,
            facts=self._facts(guesses),
            heading=heading,
            caption=caption,
            measures=self.measures,
            conditions=self.conditions,
            against=self.against,
            not_protected=self.not_protected,
            right_guesses=guesses,
        )

    def _facts(self, guesses: tuple[float, float] | None) -> Pairs:
        charge, release = self.charge, self.release
        found = text.hidden_facts(self.values, self.prior.tolist(), self.entropy, self.draws)
        if guesses is not None:
            found.append(("Right guesses", text.right_guesses(*guesses)))
        if self.budget is not None:
            found.append(text.budget_fact(self.budget, bool(self.within_budget), charge is not None))
        found += [text.constraint_fact(words, charge is not None) for words in self.constraints]
        if charge is not None:
            found.append(text.residual_fact(charge.total, charge.horizon, charge.how))
        if self.fresh:
            found.append(("Fresh share", text.fresh_words(self.fresh, holds=self.holds)))
        if self.output:
            found.append(("Output", text.output_words(self.output)))
        return found if release is None else found + release.facts

    @property
    def _setting(self) -> Setting:
        if self.charge is None:
            return Setting(self.condition, fresh=self.fresh)
        return Setting(self.condition, self.charge.horizon, self.charge.how, self.fresh)

    def __repr__(self) -> str:
        if not self.holds:
            return f"Guarantee(no guarantee, audit only; {len(self.values)} values, {self.draws} draws)"
        return (
            f"Guarantee({len(self.values)} values, {self.draws} draws, "
            f"error >= {percent(self.bayes_error, 'down')}, "
            f"leakage <= {number(self.mutual_information, 'up')} nats)"
        )

    def to_dict(self) -> Plain:
        """The card as plain data: infinities are the word ``"infinite"``, what is not defined is None.

        >>> card = Guarantee.of([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]).to_dict()
        >>> card["schema"], card["version"], card["measures"][-1]["value"]
        ('understudy.guarantee', 1, 'infinite')
        """
        c = self.charge
        residual = {} if c is None else {"nats": c.total, "variation": c.variation, "readings": c.horizon, "how": c.how}
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
            "budget_nats": None if self.budget is None else json_number(self.budget),
            "within_budget": self.within_budget,
            **({"residual": residual} if residual else {}),
            **fresh_to_dict(self.fresh),
            **output_to_dict(self.output),
            **({"constraints": list(self.constraints)} if self.constraints else {}),
            **({} if self.release is None else {"release": self.release._asdict()}),
            "leakage": {"nats": self.mutual_information, "bits": self.bits, "share": json_number(self.share)},
            "right_guesses": {"before": self.guess_before, "after_at_most": self.guess_after if self.holds else 1.0},
            "wrong_guesses": {"before": self.prior_error, "after_at_least": self.bayes_error if self.holds else 0.0},
            "pointwise_leakage_of_each_draw": [json_number(x) for x in self.pointwise.per_draw.tolist()],
            "capacity_slack_nats": self.capacity.slack,
            "measures": [measure_to_dict(m) for m in self.measures],
            "conditions": list(self.conditions),
            "against": self.against,
            "not_protected": list(self.not_protected),
        }


def _with_residual(g: Guarantee, charge: Charge) -> Guarantee:
    """The guarantee of a draw, and of what approximate models add to it over the readings charged for.

    With D_i nats and variation d_i of value i, at any prior q on the values that can occur, and whatever the draw j::

        I_q <= I_q(draw) + sum_i q_i D_i <= capacity + max_i D_i
        success <= success(draw) + sum_i p_i d_i                       hence the error and the min-entropy leakage
        sum_y max_i P(y given i) <= sum_j max_i P_ij + sum_i d_i       hence the maximal leakage

    the last because no density exceeds the model's by more than its excess over it, which integrates to d_i.
    None of the three can exceed what there is to know.
    """
    p = g.prior[g.prior > 0.0]
    c = charge.at(g.prior)
    D = [x for x, w in zip(c.charged, g.prior.tolist(), strict=True) if w > 0.0]
    d = math.fsum(x for x, w in zip(c.variations, g.prior.tolist(), strict=True) if w > 0.0)
    information = min(_sum(g.mutual_information, c.total), max(g.entropy, g.mutual_information))
    capacity = min(_sum(g.capacity.upper, max(D)), max(math.log(p.size), g.capacity.upper))
    guess, most = g.min_entropy_leakage, float(p.max())
    return replace(
        g,
        charge=c,
        mutual_information=information,
        bayes_error=max(0.0, g.bayes_error - c.variation),
        fano=measures.fano(p, information),
        fano_paper=measures.fano_paper(p, information),
        min_entropy_leakage=min(guess + math.log1p(c.variation * math.exp(-guess) / most), max(guess, -math.log(most))),
        maximal_leakage=min(math.log1p(math.expm1(g.maximal_leakage) + d), max(g.maximal_leakage, math.log(p.size))),
        capacity=g.capacity._replace(upper=capacity, slack=_sum(g.capacity.slack, capacity - g.capacity.upper)),
    )


def _sum(a: float, b: float) -> float:
    return rounded_up(Fraction(a) + Fraction(b))


def _beyond(g: Guarantee, charge: Charge) -> tuple[float, float]:
    """What is added to the worst cases of the draw, for whole events: to `pointwise`, and to `local_dp`.

    With P for the readings and Q for the models, each d_i apart under value i: P_i(A) <= Q_i(A) + d_i, the draw bounds
    Q_i(A) by e^x Q(A), and Q(A) <= P(A) + sum_k p_k d_k. Between two values the same with Q_k and d_k.
    """
    d = sorted((x for x, w in zip(charge.variations, g.prior.tolist(), strict=True) if w > 0.0), reverse=True)

    def add(nats: float, multiplied: float, plus: float) -> float:
        return min(1.0, math.exp(min(nats, 700.0)) * multiplied + plus)

    pointwise = add(g.pointwise.worst, charge.variation, d[0])
    return pointwise, add(g.local_dp, d[0], d[1] if len(d) > 1 else 0.0)


def named_values(values: Iterable[Value] | None, m: int) -> tuple[str | int | float, ...]:
    """The values as they can be written down: numbers stay numbers, all others become their names."""
    if values is None:
        return tuple(f"value {i}" for i in range(1, m + 1))
    given = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if len(given) != m:
        raise DesignError(f"values has {len(given)} entries and the prior {m}; each value needs its probability")
    return tuple(v if isinstance(v, (int, float)) and abs(v) < 1e300 else str(v)[:80] for v in given)


def fresh_to_dict(fresh: float) -> Plain:
    """The fresh share of a card as plain data, with what it multiplies the divergence of wrong models by."""
    return {"fresh": {"share": fresh, "factor": (1.0 - fresh) * (1.0 + fresh)}} if fresh else {}


def output_to_dict(output: Iterable[text.OutputFacts]) -> Plain:
    """The least-change outputs of a card as plain data."""
    found = [{name: _json(part) for name, part in column._asdict().items()} for column in output]
    return {"output": {"kind": "least-change", "columns": found}} if found else {}


def _json(part: object) -> object:
    if isinstance(part, tuple):
        return [_json(each) for each in part]
    return json_number(part) if isinstance(part, float) else part


def measure_to_dict(measure: Measure) -> Plain:
    """A line of a card as plain data, under the names that stored cards have."""
    found = {**asdict(measure), "value": json_number(measure.value)}
    return {("odds" if name == "prior" else name): value for name, value in found.items()}


def json_number(x: float) -> float | str | None:
    """A number for JSON, which has no infinities."""
    if math.isnan(x):
        return None
    return x if math.isfinite(x) else "infinite" if x > 0.0 else "minus infinite"
