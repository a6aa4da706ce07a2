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

Where models are approximate, the chain is broken by what they leave of Theta in the scores, and the card says what
is left: see `_charged`.

>>> flip = [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]
>>> card = Guarantee.of([0.5, 0.5], flip, values=[0, 1], budget=0.3)
>>> card
Guarantee(2 values, 6 draws, error >= 13.36 percent, leakage <= 0.3 nats)
>>> import textwrap
>>> print(textwrap.fill(card.headline, 80))
At the stated odds beforehand, with the parameter constant over the epoch and
the model right, any guess is wrong with probability at least 13.36 percent,
however long it watches.

A guarantee on paper: numbers rounded to the safe side, and the card as text or HTML.

What is claimed must still be true after rounding. An error rate that cannot be undercut is rounded
down, a leakage that cannot be exceeded is rounded up. The arithmetic behind the numbers is good to
some 15 digits, and to 13 at least; so a number that agrees with a shown one in its first 13 digits
counts as that one, and 0.1336 is shown as 13.36 percent whether it came out as 0.1336 or as
0.13359999999999997.

What approximate models give away themselves, charged to the design.

A model that is approximate by construction (of rounded readings, say) leaves a little of Theta in its scores, and
its method ``residual(T)`` bounds how much: D_i = KL(true law of T readings under theta_i || model i), in
nats. Two facts turn the D_i of the values, at odds p, into a charge. Both hold also against somebody who is told
~Theta, and for T readings only: each reading adds to D_i.

**On average.** Given ~Theta, the scores under value i are D_i away from white noise, which is the same for all i. So::

    I(Theta; ~Y_1:T) <= I(Theta; ~Theta) + sum_i p_i D_i

**For a guess.** Let d_i be the total variation between the true law and the model's of what is seen under value i. The
chance of any event, "the guess is i" among them, differs by at most d_i; so the success sum_i p_i Pr(guess = i given i)
of any guess differs by at most sum_i p_i d_i, where d_i <= sqrt(D_i / 2) (Pinsker). Under the models no guess does
better than from ~Theta itself; hence every guess errs with probability at least (Bayes error) - sum_i p_i d_i.

Only models of values that can occur are charged. What is wrong with a model of a pseudo value costs nothing.

The sentences of a guarantee: every bound in plain words, with the conditions it needs.

A sentence says whether it needs the odds as stated, and that the parameter is constant over the epoch and the
model right. Where models are approximate it says for how many readings it holds.
"""

from __future__ import annotations

import html as _html
import json
import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from understudy._html import with_policy
from understudy._types import Array
from understudy.errors import DesignError, InfeasibleError
from understudy.models.family import Family
from understudy.models.model import Model, Residual
from understudy.randomizer import measures
from understudy.randomizer.measures import prior_error
from understudy.stream.release import Release
from understudy.transform.roundoff import Roundoff

# A guarantee on paper: numbers rounded to the safe side, and the card as text or HTML ----------------


_WIDTH = 92
_SHOWN_VALUES = 12
_SIDES = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "near": ROUND_HALF_EVEN}
# The digits that count; with exponents such that exponentials of leakages of a few hundred nats do not overflow.
_RELIABLE = Context(prec=13, rounding=ROUND_HALF_EVEN, Emax=999_999, Emin=-999_999)


def number(x: float, side: str) -> str:
    """Four digits, rounded ``"up"``, ``"down"`` or ``"near"``.

    >>> number(0.29995, "up"), number(0.29995, "down"), number(2e-17, "up"), number(float("inf"), "up")
    ('0.3', '0.2999', '2e-17', 'infinite')
    """
    return _words(x) or _plain(_rounded(Decimal(repr(float(x))), side))


def percent(x: float, side: str) -> str:
    """A share in percent, two decimals.

    >>> percent(0.133586, "down"), percent(0.133586, "up"), percent(0.5, "up"), percent(1e-9, "up")
    ('13.35 percent', '13.36 percent', '50 percent', '0.01 percent')
    """
    share = _words(x) or _plain(
        (100 * _RELIABLE.create_decimal(repr(float(x)))).quantize(Decimal("0.01"), _SIDES[side])
    )
    return f"{share} percent"


def factor(nats: float) -> str:
    """The exponential of a leakage, rounded up.

    >>> factor(0.0), factor(1.0), factor(1000.0)
    ('1', '2.719', '1.971e+434')
    """
    return _words(nats) or _plain(_rounded(_RELIABLE.exp(Decimal(repr(float(nats)))), "up"))


def label(value: Any) -> str:
    r"""A value's name on the card: one line, printable, not too long.

    >>> label("meeting\nroom"), label("x" * 60)[-4:]
    ('meeting room', 'xxx…')
    """
    name = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return name if len(name) <= 40 else name[:39] + "…"


def _words(x: float) -> str:
    """What is no number in words, else nothing."""
    return "not defined" if math.isnan(x) else "" if math.isfinite(x) else "infinite" if x > 0.0 else "minus infinite"


def _rounded(x: Decimal, side: str) -> Decimal:
    return Context(prec=4, rounding=_SIDES[side], Emax=999_999, Emin=-999_999).plus(_RELIABLE.plus(x))


def _plain(x: Decimal) -> str:
    """No zeros at the end; powers of ten only where they help."""
    if x == 0:
        return "0"
    if Decimal("1e-3") <= abs(x) < Decimal("1e5"):
        return format(x, "f").rstrip("0").rstrip(".") if "." in format(x, "f") else format(x, "f")
    return _RELIABLE.plus(x).normalize().__format__("e").replace("E", "e")


def odds(guarantee: Guarantee) -> str:
    """The stated odds in one line, the first few of them if there are many."""
    shown = [
        f"{label(value)}: {percent(p, 'near')}"
        for value, p in zip(guarantee.values[:_SHOWN_VALUES], guarantee.prior.tolist(), strict=False)
    ]
    more = len(guarantee.values) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """What stands at the head of the card: name and content."""
    g = guarantee
    lines = [
        ("Hidden", f"one of {len(g.values)} values; {number(g.entropy, 'near')} nats are there to be known"),
        ("Odds beforehand", f"{odds(g)}. The adversary is taken to know them."),
        ("Drawn instead", f"one of {g.draws} pseudo values, once an epoch"),
    ]
    if g.holds:
        after = percent(g.guess_after, "up")
        lines.append(("Right guesses", f"{percent(g.guess_before, 'down')} before the readings, at most {after} after"))
    if g.budget is not None:
        verdict = "kept" if g.within_budget else "NOT KEPT"
        by = "the draw" if g.charge is None else "the draw and the residual"
        lines.append(("Leakage budget", f"{number(g.budget, 'down')} nats on average, {verdict} by {by}"))
    of_draw = "" if g.charge is None else "Of the draw: "
    lines += [("Also kept", f"{of_draw}{words}") for words in g.constraints]
    if g.charge is not None:
        lines.append(
            (
                "Residual",
                f"{number(g.charge.total, 'up')} nats over {g.charge.readings} ({g.charge.how}), which the models "
                "themselves give away. It is in the bounds.",
            )
        )
    if g.release is not None:
        lines += released_card(g.release)
    return lines


def released_card(r: Released) -> list[tuple[str, str]]:
    """How readings leave, what may come in, and what floating point adds: name and content."""
    spans = ", ".join(f"{low:.6g} to {high:.6g}" for low, high in zip(r.low, r.high, strict=True))
    lattice = "on the grid of the models" if not any(r.steps) else f"rounded to multiples of {r.lattice}"
    lines = [("Readings leave", f"{lattice}, and in no other form"), ("Readings come", f"as {r.form}, from {spans}")]
    if r.how:
        # the total variation counts for every bound on a guess
        lines.append(
            (
                "Floating point",
                f"adds at most {number(r.nats, 'up')} nats over the first {r.readings} readings, and moves no "
                f"probability by more than {number(r.variation, 'up')}; a millionth of a nat after {r.within} readings "
                f"({r.how}; without missing readings). Streams charge it. It is not in the bounds below.",
            )
        )
    return lines


def text(guarantee: Guarantee) -> str:
    """The card as plain text, at most 92 columns wide."""
    g = guarantee
    lines = ["PRIVACY CARD", "=" * _WIDTH, *_filled(g.headline), ""]
    for name, content in facts(g):
        lines += _filled(content, f"{name:<17}")
    measures = g.measures
    columns = [("Measure", *(m.title for m in measures)), ("Bound", *(m.shown for m in measures))]
    wide = [max(map(len, column)) for column in columns]
    lines += ["", f"{'Measure':<{wide[0]}}  {'Bound':<{wide[1]}}  Odds", "  ".join("-" * w for w in (*wide, 6))]
    lines += [f"{m.title:<{wide[0]}}  {m.shown:<{wide[1]}}  {m.odds}" for m in measures]
    lines += ["", "In words"]
    for k, m in enumerate(measures, start=1):
        lines += _filled(f"{m.title}. {m.sentence} {m.note}".rstrip(), f"{k:>2}. ")
    for title, items in sections(g):
        lines += ["", title]
        for item in items:
            lines += _filled(item, "  - ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def sections(guarantee: Guarantee) -> list[tuple[str, tuple[str, ...]]]:
    """What follows the numbers, title by title."""
    return [
        ("Holds under these conditions", guarantee.conditions),
        ("Against whom", (guarantee.against,)),
        ("What is not protected", guarantee.not_protected),
    ]


def _filled(paragraph: str, lead: str = "") -> list[str]:
    return textwrap.wrap(
        paragraph, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )


_STYLE = """
.understudy-card{max-width:60rem;margin:1rem 0;padding:1.25rem 1.5rem;border:1px solid #c9d1d9;border-radius:8px;
background:#fff;color:#1b1f24;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;text-align:left}
.understudy-card h2{margin:0 0 .5rem;font-size:1.25rem}
.understudy-card h3{margin:1.25rem 0 .35rem;font-size:1.02rem}
.understudy-card .claim{margin:0 0 1rem;padding:.7rem .9rem;border-left:4px solid #1a5fb4;background:#eef4fb;
font-size:1.06rem}
.understudy-card.void .claim{border-left-color:#a51d2d;background:#fdecee}
.understudy-card table{width:100%;border-collapse:collapse;background:#fff;color:inherit;font-size:.93rem}
.understudy-card caption{caption-side:top;text-align:left;font-weight:600;padding:.2rem 0 .35rem;color:inherit}
.understudy-card th,.understudy-card td{padding:.42rem .6rem;text-align:left;vertical-align:top;
border-bottom:1px solid #d8dee4;background:#fff}
.understudy-card thead th{border-bottom:2px solid #57606a}
.understudy-card tbody th{font-weight:600;width:24%}
.understudy-card td.bound{font-variant-numeric:tabular-nums;width:20%}
.understudy-card .facts th{width:10rem}
.understudy-card .note{display:block;color:#57606a}
.understudy-card ul{margin:.2rem 0;padding-left:1.3rem}
.understudy-card svg{display:block;width:100%;max-width:40rem;height:auto;margin:.2rem 0 .8rem}
@media (max-width:640px){.understudy-card thead{position:absolute;left:-9999px}.understudy-card tr{display:block;
padding:.3rem 0;border-bottom:1px solid #d8dee4}.understudy-card tbody th,.understudy-card .facts th,.understudy-card
td,.understudy-card td.bound{display:block;width:auto;padding:.1rem .2rem;border:0}
.understudy-card td.odds::after{content:" odds"}}
@media print{.understudy-card{border:0;padding:0;max-width:none;font-size:10pt;print-color-adjust:exact;
-webkit-print-color-adjust:exact}.understudy-card tr,.understudy-card li{break-inside:avoid}
.understudy-card h3{break-after:avoid}}
"""


def html(guarantee: Guarantee, page: bool = False) -> str:
    """The card as HTML: a fragment for a notebook or a report, or a whole page. Nothing is loaded from elsewhere."""
    g = guarantee
    rows = "".join(_row(m) for m in g.measures)
    about = "".join(f'<tr><th scope="row">{_e(name)}</th><td>{_e(content)}</td></tr>' for name, content in facts(g))
    rest = "".join(
        f"<h3>{_e(title)}</h3><ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>"
        for title, items in sections(g)
    )
    title, caption = "What is guaranteed", "Each bound with its meaning; every one needs the conditions below"
    if not g.holds:
        title, caption = "The draw alone", "Not guaranteed of the readings"
    card = (
        f'<section class="understudy-card{"" if g.holds else " void"}" aria-label="Privacy card">'
        f"<style>{_STYLE}</style><h2>Privacy card</h2>"
        f'<p class="claim">{_e(g.headline)}</p>{_bars(g)}'
        f'<table class="facts"><caption>What is hidden</caption><tbody>{about}</tbody></table>'
        f"<h3>{_e(title)}</h3><table><caption>{_e(caption)}</caption>"
        '<thead><tr><th scope="col">Measure</th><th scope="col">Bound</th><th scope="col">Odds</th>'
        f'<th scope="col">In words</th></tr></thead><tbody>{rows}</tbody></table>{rest}</section>'
    )
    if not page:
        return card
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Privacy card</title></head>'
        f"<body>{card}</body></html>\n"
    )


def _row(measure: Measure) -> str:
    m = measure
    note = f'<span class="note">{_e(m.note)}</span>' if m.note else ""
    return (
        f'<tr><th scope="row">{_e(m.title)}</th><td class="bound">{_e(m.shown)}</td><td class="odds">{_e(m.odds)}</td>'
        f"<td>{_e(m.sentence)}{note}</td></tr>"
    )


def _bars(guarantee: Guarantee) -> str:
    """Right guesses before and after, drawn."""
    g = guarantee
    before, after = percent(g.guess_before, "down"), percent(g.guess_after, "up")
    bars = "".join(
        f'<text x="0" y="{y + 15}" font-size="13" fill="#1b1f24">{name}</text>'
        f'<rect x="190" y="{y}" width="330" height="20" fill="#e6eaef"/>'
        f'<rect x="190" y="{y}" width="{330 * share:.1f}" height="20" fill="{colour}"/>'
        f'<text x="530" y="{y + 15}" font-size="13" fill="#1b1f24">{shown}</text>'
        for y, name, share, colour, shown in (
            (2, "Right guesses before", g.guess_before, "#8a94a0", before),
            (30, "and after, at most", g.guess_after, "#1a5fb4", after),
        )
    )
    words = f"Right guesses: {before} before the readings, at most {after} after."
    return f'<svg viewBox="0 0 660 54" role="img" aria-label="{_e(words)}">{bars}</svg>' if g.holds else ""


def _e(words: str) -> str:
    return _html.escape(words, quote=True)


# What approximate models give away themselves, charged to the design ---------------------------------


_SEED = 20230203  # a design that is computed twice is the same design
# What `least_distortion` forgives where an error is asked that cannot be exceeded.
_ROUNDING = 1e-15


@dataclass(frozen=True, slots=True, repr=False)
class Charge:
    """What the models of a family give away over `horizon` readings; `charge` makes one.

    `charged` holds nats for each value: 0 where its model is exact, infinite where it was not worked out because the
    value cannot occur. `total` is sum_i p_i charged_i, what is added to the average leakage; `variation` is
    sum_i p_i min(1, sqrt(charged_i / 2)), by how much a guess can be right more often. Both are rounded up. `how` says
    in a few words how the residuals were found.

    >>> found = Charge.of([0.5, 0.5], [2e-6, 0.0], horizon=1000, how="rounded readings")
    >>> found
    Charge(1e-6 nats over 1000 readings)
    >>> found.total, round(found.variation, 6)
    (1e-06, 0.0005)
    """

    charged: tuple[float, ...]
    total: float
    variation: float
    horizon: int
    how: str

    @classmethod
    def of(cls, prior: Any, charged: Iterable[float], horizon: int, how: str) -> Charge:
        """The charge of given residuals, in nats for each value, at given odds."""
        nats, p = tuple(map(float, charged)), [Fraction(float(x)) for x in prior]
        if len(nats) != len(p):
            raise DesignError(f"there are {len(nats)} residuals and {len(p)} odds; each value needs both")
        there = [(w / sum(p), x) for w, x in zip(p, nats, strict=True) if w > 0]
        if not all(0.0 <= x < math.inf for _, x in there):
            raise DesignError("a residual is negative or not finite; a value that can occur must have a finite one")
        total = rounded_up(sum((w * Fraction(x) for w, x in there), Fraction(0)))
        moved = rounded_up(sum((w * Fraction(_variation(x)) for w, x in there), Fraction(0)))
        return cls(nats, total, moved, horizon, how)

    def __repr__(self) -> str:
        return f"Charge({number(self.total, 'up')} nats over {self.readings})"

    @property
    def readings(self) -> str:
        """How many readings, in words."""
        return f"{self.horizon} reading{'s' * (self.horizon != 1)}"

    @property
    def first(self) -> str:
        """Which readings, in words."""
        return "the first reading" if self.horizon == 1 else f"the first {self.readings}"

    @property
    def variations(self) -> tuple[float, ...]:
        """For each value, how far the chance of anything that is seen can be from the model's."""
        return tuple(map(_variation, self.charged))

    def left_for_the_draw(self, budget: float) -> float:
        """What the draw may leak where `budget` nats may leak in all: the rest, rounded down.

        >>> Charge.of([1.0], [0.125], 50, "rounded readings").left_for_the_draw(0.5)
        0.375
        """
        if budget == math.inf:
            return budget
        left = Fraction(budget) - Fraction(self.total)
        if left < 0:
            raise InfeasibleError(
                f"leakage = {budget:.6g} nats; the models themselves may give away {number(self.total, 'up')} "
                f"nats over {self.readings} ({self.how}), whatever the randomizer: allow more, or a shorter horizon"
            )
        nearest = float(left)
        return math.nextafter(nearest, 0.0) if Fraction(nearest) > left else nearest

    def asked_of_the_draw(self, error: float, prior: Array) -> float:
        """How often a guess from the draw must be wrong for one from the readings to be wrong with `error`.

        >>> found = Charge.of([0.5, 0.5], [0.03125, 0.03125], 50, "rounded readings")
        >>> found.variation, found.asked_of_the_draw(0.25, np.array([0.5, 0.5]))
        (0.125, 0.375)
        """
        if not 0.0 <= error < math.inf:
            return error  # refused further on
        wanted, most = rounded_up(Fraction(error) + Fraction(self.variation)), prior_error(prior)
        if wanted > most + _ROUNDING:
            raise InfeasibleError(
                f"error_at_least = {error:.6g}; who always guesses the likeliest value is wrong with probability "
                f"{most:.6g}, and what the models themselves give away over {self.readings} ({self.how}) may help by "
                f"{number(self.variation, 'up')}, so at most "
                f"{number(max(0.0, most - self.variation), 'down')} can be asked"
            )
        return wanted


def charge(family: Family, horizon: int | None, rng: Any = None) -> Charge | None:
    """What the models of a family give away over `horizon` readings; None where all that can occur are exact.

    `rng` is a numpy Generator or a seed, for residuals that are simulated; the seed is fixed by default. What is
    charged is then 4.75 standard errors more than the estimate.

    >>> import understudy as us
    >>> charge(us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1]), horizon=None) is None
    True
    """
    p = family.prior.tolist()
    models = [family.model(value) for value in family.values]
    if not any(w > 0.0 and is_approximate(model) for w, model in zip(p, models, strict=True)):
        return None
    T = _readings(horizon)
    generator = np.random.default_rng(_SEED if rng is None else rng)
    charged, how = [], []
    for w, value, model in zip(p, family.values, models, strict=True):
        if not is_approximate(model):
            charged.append(0.0)
        elif w > 0.0:
            found = _residual(model, value, T, generator)
            charged.append(max(0.0, found.charged))  # an estimate can be below zero, a divergence cannot
            how.append(found.how)
        else:
            charged.append(math.inf)
    return Charge.of(p, charged, T, ", ".join(dict.fromkeys(how)))


def is_approximate(model: Model) -> bool:
    """Whether a model is approximate by construction, and says by how much."""
    return callable(getattr(model, "residual", None))


def rounded_up(exact: Fraction) -> float:
    """The smallest double that is not below.

    >>> Fraction(rounded_up(Fraction(1, 3))) >= Fraction(1, 3)
    True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _readings(horizon: Any) -> int:
    if horizon is None:
        raise DesignError(
            "horizon is missing: a model that is approximate, such as one of rounded readings, gives away a little "
            "with each; say for how many readings, horizon="
        )
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise DesignError(f"horizon = {horizon!r}; it must be a whole number of at least 1")
    return int(horizon)


def _residual(model: Any, value: Any, T: int, rng: np.random.Generator) -> Residual:
    found = model.residual(T, rng=rng)
    if not isinstance(found, Residual) or found.steps != T:
        raise DesignError(f"the residual of the model of {value!r} must be a Residual for {T} readings, as asked")
    if not math.isfinite(found.charged):
        raise DesignError(
            f"the residual of the model of {value!r} over {T} readings is {found.charged}; without a finite one "
            "nothing can be guaranteed"
        )
    return found


def _variation(nats: float) -> float:
    """Pinsker: sqrt(D / 2), at most 1, rounded up."""
    if nats >= 2.0:
        return 1.0
    root = 0.5 * math.sqrt(2.0 * nats)  # this way round nothing underflows
    return root if Fraction(root) ** 2 >= Fraction(nats) / 2 else math.nextafter(root, 1.0)


# The sentences of a guarantee: every bound in plain words, with the conditions it needs --------------


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
    right = (_RIGHT,) if g.charge is None else tuple(_filled_sentences(words, g.charge) for words in _RIGHT_BUT)
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
    changed = {_WRONG: _WRONG_BUT, _ROUNDED: _filled_sentences(_ROUNDED_BUT, g.charge)}
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
        shown = percent(value, "down")
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
        shown = f"{lead}{number(value, 'up')} nats" if math.isfinite(value) else "no bound (infinite)"
        conditions = f"{_ODDS[odds]}, {GIVEN['estimated']}, " if of_draw else given[odds]
        return Measure(name, title, value, "nats", "at most", odds, shown, conditions + words, note)

    return (
        error(
            "bayes_error",
            "Wrong guesses, best adversary",
            g.bayes_error,
            ("Exact for whoever sees the pseudo parameter." if g.charge is None else _guessing(g.charge))
            + " Who sees nothing and guesses best is wrong "
            f"{percent(g.prior_error, 'up')} of the time.",
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
            + (f", {percent(g.share, 'up')} of all there is to know." if g.entropy > 0.0 else "."),
            "An average over draws: a single one can tell more.",
        ),
        leakage(
            "capacity",
            "Average leakage at the worst odds (capacity)",
            g.capacity.upper,
            "any",
            f"on average {seen} {tell} at most {_nats(g.capacity.upper)}.",
            "A proven upper bound"
            + (f", at most {number(g.capacity.slack, 'up')} nats too large." if g.capacity.slack > 0.0 else "."),
        ),
        leakage(
            "min_entropy_leakage",
            "One guess (min-entropy leakage)",
            g.min_entropy_leakage,
            "stated",
            f"seeing {seen} multiplies the chance to guess the hidden value right by at most "
            f"{factor(g.min_entropy_leakage)}.",
        ),
        leakage(
            "maximal_leakage",
            "Any fact about it (maximal leakage)",
            g.maximal_leakage,
            "any",
            f"seeing {seen} multiplies the chance to guess right any fact about the hidden value by at most "
            f"{factor(g.maximal_leakage)}.",
        ),
        leakage(
            "pointwise_maximal_leakage",
            "Most telling draw (pointwise leakage)",
            g.pointwise.worst,
            "stated",
            f"seeing {worst_seen} multiplies the chance to guess right any fact about the hidden value by at most "
            f"{factor(g.pointwise.worst)}, even after the most telling draw.",
            pointwise,
        ),
        leakage(
            "local_dp",
            "Any two values (local-DP epsilon)",
            g.local_dp,
            "any",
            f"seeing {worst_seen} shifts the odds between any two values by a factor of at most {factor(g.local_dp)}."
            if math.isfinite(g.local_dp)
            else f"there is no bound on how far {worst_seen} can shift the odds between two values.",
            local if math.isfinite(g.local_dp) else "Some draw rules a value out: it never comes from that one.",
        ),
    )


def _guessing(charge: Charge) -> str:
    return (
        f"That of whoever sees the pseudo parameter, less {percent(charge.variation, 'up')} for what the models "
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
        return number(min(1.0, math.exp(min(nats, 700.0)) * multiplied + added), "up")

    pointwise = (
        f"{first} this factor likelier under one value than on average, up to an added probability of "
        f"{beyond(g.pointwise.worst, charge.variation, d[0])}."
    )
    local = (
        f"{first} this factor likelier under one value than under another, up to an added probability of "
        f"{beyond(g.local_dp, d[0], d[1] if len(d) > 1 else 0.0)}."
    )
    return pointwise, local


def _filled_sentences(words: str, charge: Charge) -> str:
    return words.format(nats=number(charge.total, "up"), first=charge.first, how=charge.how)


def _nats(x: float) -> str:
    return f"{number(x, 'up')} nats ({number(x / math.log(2.0), 'up')} bit)"


# The guarantee that comes with a randomizer: Theorem 3, its sharper relatives, and what they do not s ---


SCHEMA, VERSION = "understudy.guarantee", 1


class Released(NamedTuple):
    """How readings leave a design, and what floating point adds to what they tell."""

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


def released(release: Release, floating: Roundoff | None, horizon: int | None) -> Released:
    """The facts about a release, for a card; over `horizon` readings, or a thousand."""
    T = horizon or 1000
    forms = " and ".join(dict.fromkeys(form.words for form in release.forms))
    words, steps = release.lattice.words, release.lattice.steps
    found = (0.0, 0.0, 0, "") if floating is None else _floating(floating, T)
    return Released(words, steps, forms, release.low, release.high, T, *found)


def _floating(floating: Roundoff, T: int) -> tuple[float, float, int, str]:
    return floating.nats(T), floating.variation(T), floating.readings(1e-6), floating.how


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guarantee:
    """Everything that is guaranteed of one randomizer, with its conditions. Make it with `Guarantee.of`.

    Leakages are in nats, errors are probabilities. `str`, `text`, `html` and `json` render it.

    Where models are approximate, `charge` is what they give away themselves, and the numbers are those of the first
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
    about_release: Callable[[], Released] | None = None

    @classmethod
    def of(
        cls,
        prior: Any,
        kernel: Any,
        values: Any = None,
        budget: float | None = None,
        condition: str = "constant",
        residual: Charge | None = None,
        constraints: Iterable[str] = (),
        release: Callable[[], Released] | None = None,
    ) -> Guarantee:
        """Measure a kernel ``(m, n)`` at a prior ``(m,)``.

        `values` names the values of the private parameter, `budget` is the mutual information in nats
        that the kernel was designed for. `condition` is ``"constant"``; ``"path"`` if rows stand for
        paths of a parameter that moves; or ``"estimated"`` if the parameter is estimated from the
        readings, which has no guarantee, and the card says so. `residual` is what approximate models give away
        themselves (`Design.charge`), which the budget includes; without a guarantee there is none to charge.
        `constraints` says in words what the kernel was made to keep besides. `release` is asked, when the card is
        written, how readings leave.

        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], budget=0.1).within_budget
        False
        >>> Guarantee.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], condition="hopeful")
        Traceback (most recent call last):
        understudy.errors.DesignError: condition is 'hopeful'; it must be one of constant, path, estimated
        """
        p, P = measures.checked(prior, kernel)
        if condition not in GIVEN:
            raise DesignError(f"condition is {condition!r}; it must be one of {', '.join(GIVEN)}")
        if budget is not None:
            budget = measures.checked_nats("budget", budget)
        if not (residual is None or isinstance(residual, Charge)):
            raise DesignError(f"residual is a {type(residual).__name__}; it must be a Charge, or None for exact models")
        p.flags.writeable = False
        information = measures.mutual_information(p, P)
        drawn = cls(
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
            constraints=tuple(constraints),
            about_release=release,
        )
        return drawn if residual is None or not drawn.holds else _charged(drawn, residual)

    @property
    def holds(self) -> bool:
        """Whether a theorem stands behind the numbers; not if the parameter is estimated from the readings."""
        return self.condition != "estimated"

    @property
    def release(self) -> Released | None:
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
        return headline(self)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the bounds to hold."""
        return conditions(self)

    @property
    def against(self) -> str:
        """Whom the bounds hold off."""
        return against(self)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound here is about."""
        return not_protected(self)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every bound with its sentence, the one to quote first."""
        return lines(self)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Guarantee) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        if not self.holds:
            return f"Guarantee(no guarantee, audit only; {len(self.values)} values, {self.draws} draws)"
        return (
            f"Guarantee({len(self.values)} values, {self.draws} draws, "
            f"error >= {percent(self.bayes_error, 'down')}, "
            f"leakage <= {number(self.mutual_information, 'up')} nats)"
        )

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
            "budget_nats": None if self.budget is None else _number(self.budget),
            "within_budget": self.within_budget,
            **({"residual": residual} if residual else {}),
            **({"constraints": list(self.constraints)} if self.constraints else {}),
            **({} if self.release is None else {"release": self.release._asdict()}),
            "leakage": {"nats": self.mutual_information, "bits": self.bits, "share": _number(self.share)},
            "right_guesses": {"before": self.guess_before, "after_at_most": self.guess_after if self.holds else 1.0},
            "wrong_guesses": {"before": self.prior_error, "after_at_least": self.bayes_error if self.holds else 0.0},
            "pointwise_leakage_of_each_draw": [_number(x) for x in self.pointwise.per_draw.tolist()],
            "capacity_slack_nats": self.capacity.slack,
            "measures": [{**asdict(m), "value": _number(m.value)} for m in self.measures],
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


def _charged(g: Guarantee, charge: Charge) -> Guarantee:
    """The guarantee of a draw, and of what approximate models add to it over the readings charged for.

    With D_i nats and variation d_i of value i, at any odds q on the values that can occur, and whatever the draw j::

        I_q <= I_q(draw) + sum_i q_i D_i <= capacity + max_i D_i
        success <= success(draw) + sum_i p_i d_i                       hence the error and the min-entropy leakage
        sum_y max_i P(y given i) <= sum_j max_i P_ij + sum_i d_i       hence the maximal leakage

    the last because no density exceeds the model's by more than its excess over it, which integrates to d_i.
    None of the three can exceed what there is to know.
    """
    p = g.prior[g.prior > 0.0]
    c = Charge.of(g.prior, charge.charged, charge.horizon, charge.how)  # at the odds of this card
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
