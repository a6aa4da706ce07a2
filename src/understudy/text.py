"""Every sentence about designs, fits and audits that a person reads.

This is the lowest layer: functions of plain facts (numbers, names, flags), which import nothing else of the package.
Whoever holds the facts calls them; nobody takes a sentence apart again. Error messages stay where they are raised, and
the frames of pages, with what stands on pages alone, are templates in ``report/templates``.

**Numbers.** What is claimed must still be true after rounding. A lower bound on an error rate is rounded down, an
upper bound on a leakage is rounded up. The arithmetic behind the numbers is good to 13 digits at least; so a number
that agrees with a shown one in its first 13 digits counts as that one, and 0.1336 is shown as 13.36 percent whether it
came out as 0.1336 or as 0.13359999999999997.

**Cards.** A `Card` is the guarantee of a design in words: a claim, facts, lines (`Measure`), conditions, and what is
not protected. `Setting` words the bounds of a constant parameter and `MovingSetting` those of one that moves. No bound
goes without its conditions: each sentence says at which prior it holds, that the parameter is constant (or known to
the filter) and the model right. `card_text` writes a card for a terminal, `understudy._html` for a browser.

**Pages.** The sections after that word the warnings of a design, its page, the outcome of an audit, what is left of
the readings for honest use, and the notes of a fit.

>>> print(textwrap.fill(Setting("constant").error("bayes_error", 0.1336).sentence, 80))
At the stated prior, with the parameter constant over the epoch and the model
right, any guess is wrong with probability at least 13.36 percent, however long
it watches.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

# Numbers and names ----------------------------------------------------------------------------------------------------

Side: TypeAlias = Literal["up", "down", "near"]
Pairs: TypeAlias = list[tuple[str, str]]

_SIDES = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "near": ROUND_HALF_EVEN}
# The digits that count; with exponents such that exponentials of leakages of a few hundred nats do not overflow.
_RELIABLE = Context(prec=13, rounding=ROUND_HALF_EVEN, Emax=999_999, Emin=-999_999)
_DAY = 86_400.0
_SHOWN_VALUES = 12
_WIDTH = 80


def number(x: float, side: Side) -> str:
    """Four digits, rounded ``"up"``, ``"down"`` or ``"near"``.

    >>> number(0.29995, "up"), number(0.29995, "down"), number(2e-17, "up"), number(float("inf"), "up")
    ('0.3', '0.2999', '2e-17', 'infinite')
    """
    return _not_finite(x) or _digits(_round(Decimal(repr(float(x))), side))


def percent(x: float, side: Side) -> str:
    """A share in percent, two decimals.

    >>> percent(0.133586, "down"), percent(0.133586, "up"), percent(0.5, "up"), percent(1e-9, "up")
    ('13.35 percent', '13.36 percent', '50 percent', '0.01 percent')
    """
    if not math.isfinite(x):
        return f"{_not_finite(x)} percent"
    share = 100 * _RELIABLE.create_decimal(repr(float(x)))
    return f"{_digits(share.quantize(Decimal('0.01'), _SIDES[side]))} percent"


def digits(x: float, count: int = 3) -> str:
    """So many digits that count, without powers of ten where people do not write them.

    >>> digits(1573.2), digits(0.03125), digits(-1.0), digits(1.5e12), digits(float("nan"))
    ('1570', '0.0312', '-1', '1.5e+12', 'nan')
    """
    return f"{float(f'{x:.{count}g}'):.10g}"


def with_error(value: float, error: float) -> str:
    """A mean, and where it was simulated how well it is known: two standard errors, to the digits that they leave.

    >>> with_error(17.34592, 0.0), with_error(17.34592, 0.021)
    ('17.3459', 'mean 17.346 (known to within 0.042)')
    """
    if not error > 1e-12 * value:
        return f"{value:.6g}"
    return f"mean {value:.{_decimals(2.0 * error)}f} ({known_within(error, value)})"


def known_within(error: float, mean: float = math.inf) -> str:
    """How well a mean is known that has this standard error. It is no tolerance of a single reading.

    >>> known_within(0.021), known_within(96.0, 97.3)
    ('known to within 0.042', 'hardly known: its standard error is 96')
    """
    if 2.0 * error > abs(mean):
        return f"hardly known: its standard error is {digits(error, 2)}"
    return f"known to within {2.0 * error:.{_decimals(2.0 * error)}f}"


def _decimals(error: float) -> int:
    """How many decimals show two digits of an error."""
    return max(0, 1 - math.floor(math.log10(error)))


def factor(nats: float) -> str:
    """The exponential of a leakage, rounded up.

    >>> factor(0.0), factor(1.0), factor(1000.0)
    ('1', '2.719', '1.971e+434')
    """
    return _not_finite(nats) or _digits(_round(_RELIABLE.exp(Decimal(repr(float(nats)))), "up"))


def nats_and_bits(nats: float) -> str:
    """A leakage in nats, rounded up, and in bits.

    >>> nats_and_bits(0.3)
    '0.3 nats (0.4329 bit)'
    """
    return f"{number(nats, 'up')} nats ({number(nats / math.log(2.0), 'up')} bit)"


def bits_and_nats(nats: float) -> str:
    """A leakage in bits, rounded up, and in nats.

    >>> bits_and_nats(0.3)
    '0.4329 bit (0.3 nats)'
    """
    return f"{number(nats / math.log(2.0), 'up')} bit ({number(nats, 'up')} nats)"


def label(value: Hashable) -> str:
    r"""The name of a value: one line, printable, not too long.

    >>> label("meeting\nroom"), label("x" * 60)[-4:]
    ('meeting room', 'xxx…')
    """
    name = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return name if len(name) <= 40 else name[:39] + "…"


def join_names(names: Iterable[Hashable]) -> str:
    """Names in a row.

    >>> join_names(["co2"]), join_names(["co2", "noise", "power"])
    ('co2', 'co2, noise and power')
    """
    *first, last = [label(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def with_count(count: int, noun: str) -> str:
    """A number of things.

    >>> with_count(1, "reading"), with_count(1000, "reading")
    ('1 reading', '1000 readings')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def sentence(words: str) -> str:
    """A note with a capital letter and a full stop.

    >>> sentence("the rows were sorted")
    'The rows were sorted.'
    """
    return f"{words[:1].upper()}{words[1:].rstrip('.')}." if words else ""


def span(seconds: float | None) -> str:
    """A duration.

    >>> span(60.0), span(900.0), span(86400.0), span(90.0), span(0.5), span(5000.0), span(None)
    ('1 min', '15 min', '1 day', '90 s', '0.5 s', '83.3 min', 'unknown')
    """
    if seconds is None:
        return "unknown"
    for size, name in ((_DAY, "day"), (3600.0, "h"), (60.0, "min")):
        count = seconds / size
        if count >= 1.0 and abs(count - round(count)) < 1e-9:
            return with_count(round(count), name) if name == "day" else f"{round(count)} {name}"
    for size, name in ((3600.0, "h"), (60.0, "min")):
        if seconds > 2.0 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:g} s"


def nearest_readings(option: str, given: str, count: int, period: float) -> str:
    """Which number of readings stands for a time that is none.

    >>> nearest_readings("--decision-every", "15min", 2, 600.0)
    '--decision-every 15min: a reading comes every 10 min, so it is 2 readings, 20 min.'
    """
    taken = f"{with_count(count, 'reading')}, {span(count * period)}"
    return f"{option} {given}: a reading comes every {span(period)}, so it is {taken}."


def progress_line(what: str, share: float, elapsed: float, remark: str = "", silent: float = 0.0) -> str:
    """How far some work is after `elapsed` seconds, for a log; a share of 0 is one that is not known yet.

    Work that was `silent` for longer than it should have taken says no more how long it takes.

    >>> progress_line("attacking", 0.4, 60.0), progress_line("tuning", 0.1, 60.0, "AR(1)")
    ('attacking: 40%, about 90 s to go', 'tuning: 10%, about 9 min to go (AR(1))')
    >>> progress_line("disguising", 0.0, 12.3), progress_line("attacking", 0.98, 90.0, silent=30.0)
    ('disguising: 12 s so far', 'attacking: 98%, 90 s so far')
    """
    share = min(max(float(share), 0.0), 1.0)
    left = math.inf if share == 0.0 else (elapsed - silent) * (1.0 - share) / share
    if left >= silent and math.isfinite(left):
        left = round(left) if left <= 120.0 else 60 * round(left / 60.0)
        far = f"{100.0 * share:.0f}%, about {span(left)} to go"
    else:
        far = (
            f"{100.0 * share:.0f}%, " * (share > 0.0)
            + f"{span(round(elapsed) if elapsed <= 120.0 else 60 * round(elapsed / 60.0))} so far"
        )
    return f"{what}: {far}" + (f" ({remark})" if remark else "")


def first_readings(horizon: int) -> str:
    """The readings that a residual is charged for.

    >>> first_readings(1), first_readings(50)
    ('the first reading', 'the first 50 readings')
    """
    return "the first reading" if horizon == 1 else f"the first {with_count(horizon, 'reading')}"


def prior_words(values: Sequence[Hashable], prior: Sequence[float]) -> str:
    """The prior in one line; the first twelve values if there are more.

    >>> prior_words(["in", "out"], [0.25, 0.75])
    'in: 25 percent, out: 75 percent'
    """
    shown = [f"{label(value)}: {percent(p, 'near')}" for value, p in zip(values[:_SHOWN_VALUES], prior, strict=False)]
    more = len(values) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _not_finite(x: float) -> str:
    """The words for what is no number; empty for a number."""
    return "not defined" if math.isnan(x) else "" if math.isfinite(x) else "infinite" if x > 0.0 else "minus infinite"


def _round(x: Decimal, side: Side) -> Decimal:
    return Context(prec=4, rounding=_SIDES[side], Emax=999_999, Emin=-999_999).plus(_RELIABLE.plus(x))


def _digits(x: Decimal) -> str:
    """No zeros at the end; powers of ten only where they help."""
    if x == 0:
        return "0"
    if Decimal("1e-3") <= abs(x) < Decimal("1e5"):
        return format(x, "f").rstrip("0").rstrip(".") if "." in format(x, "f") else format(x, "f")
    return _RELIABLE.plus(x).normalize().__format__("e").replace("E", "e")


# Cards ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of a card.

    `value` is the number itself, `shown` how it is printed (rounded to the safe side), `bound` is "at least",
    "at most", "on average" or "if known", `prior` is "stated" or "any", and `sentence` says it with its conditions.
    """

    name: str
    title: str
    value: float
    unit: str
    bound: str
    prior: str
    shown: str
    sentence: str
    note: str = ""
    premise: str = ""
    """The conditions at the head of the sentence, which a card states once."""

    @property
    def says(self) -> str:
        """The sentence without its conditions."""
        rest = self.sentence.removeprefix(self.premise)
        return rest[:1].upper() + rest[1:]

    @property
    def condition(self) -> str:
        """The conditions without the prior."""
        return self.premise.partition(", ")[2].rstrip(" ,")


class Scope(NamedTuple):
    """What is guaranteed of one thing, and which call says so."""

    of: str
    holds: str
    known: str


@dataclass(frozen=True, slots=True)
class Card:
    """A guarantee in words, ready to be written as text or HTML."""

    title: str
    claim: str
    holds: bool
    facts: Pairs
    heading: str
    caption: str
    measures: tuple[Measure, ...]
    conditions: tuple[str, ...]
    against: str
    not_protected: tuple[str, ...]
    scopes: tuple[Scope, ...] = ()
    right_guesses: tuple[float, float] | None = None
    """The share of right guesses before the readings, and at most after them; None where it is not bounded."""

    @property
    def condition(self) -> str:
        """The conditions that all measures have, which are stated once; empty where they differ."""
        found = {measure.condition for measure in self.measures}
        return found.pop() if len(found) == 1 else ""

    @property
    def lead(self) -> str:
        """What stands over the measures: under which conditions they hold."""
        return f"Each line holds {self.condition}, at the prior of its column." if self.condition else self.caption

    def in_words(self, measure: Measure) -> str:
        """A measure in words, with its conditions where the lead has none."""
        return measure.says if self.condition else measure.sentence

    @property
    def sections(self) -> list[tuple[str, tuple[str, ...]]]:
        """What follows the numbers: titles and sentences."""
        return [
            ("Conditions", self.conditions),
            ("Against whom", (self.against,)),
            ("What is not protected", self.not_protected),
        ]


SCOPE_HEAD = ("Of", "Guaranteed", "Known by")
MEASURE_HEAD = ("Measure", "Bound", "Prior", "In words")


def card_text(card: Card) -> str:
    """A card as plain text, at most 80 columns wide."""
    lines = [card.title.upper(), "=" * _WIDTH, *_wrap(card.claim), ""]
    for name, content in card.facts:
        lines += _wrap(content, f"{name:<17}")
    rows = [("Measure", "Bound", "Prior"), *((m.title, m.shown, m.prior) for m in card.measures)]
    wide = [max(len(row[k]) for row in rows) for k in range(3)]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)) for row in rows]
    lines += [
        "",
        table[0],
        "  ".join("-" * w for w in wide),
        *table[1:],
        "",
        "In words",
        *(_wrap(card.lead) if card.condition else ()),
    ]
    for k, m in enumerate(card.measures, start=1):
        lines += _wrap(f"{m.title}. {card.in_words(m)} {m.note}".rstrip(), f"{k:>2}. ")
    scopes = tuple(f"{scope.of}: {scope.holds} ({scope.known})." for scope in card.scopes)
    for title, items in [*([("Guaranteed of", scopes)] if scopes else []), *card.sections]:
        lines += ["", title]
        for item in items:
            lines += _wrap(item, "  - ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def right_guesses(before: float, after: float) -> str:
    """How often the best guess is right without the readings and with them.

    >>> right_guesses(0.5, 0.86641)
    '50 percent before the readings, at most 86.65 percent after'
    """
    return f"{percent(before, 'down')} before the readings, at most {percent(after, 'up')} after"


def _wrap(paragraph: str, lead: str = "") -> list[str]:
    return textwrap.wrap(
        paragraph, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )


# The card of a constant parameter (or of a whole path as one hidden value) --------------------------------------------

CONDITIONS = {
    "constant": "with the parameter constant over the epoch and the model right",
    "path": "with the path of the parameter over the epoch as the hidden value, not moved by the readings, and the "
    "model right",
    "estimated": "with only the draw seen and no readings",
}
"""What each sentence of a card names, by the condition that the design was made under."""
_SETTINGS = {
    "constant": "The parameter is constant over the epoch, and the boundaries of epochs come from the clock.",
    "path": "The hidden value is the whole path of the parameter over the epoch. The readings do not act on it, and "
    "the pseudo path does not depend on later parts of it.",
    "estimated": "No condition suffices: the parameter is estimated from the readings.",
}
PRIORS = {"stated": "At the stated prior", "any": "Whatever the prior"}
_ERROR_TITLES = {
    "bayes_error": "Wrong guesses, best adversary",
    "fano": "Wrong guesses, sharp Fano bound",
    "fano_paper": "Wrong guesses, the paper's Fano bound",
}
_GUESS = "multiplies the probability of guessing {} by at most {}"
NO_GUARANTEE = "No guarantee, audit only: the parameter is estimated from the readings, and then no theorem holds."
_DRAW_ALONE = "The numbers below are those of the draw alone. They bound nothing of what the readings leak."
_NOBODY = "Nobody, as far as can be proven. See what an audit finds."
_MODEL = "The model of each value is right: the readings have its law, the start included."
_DRAWS = (
    "There is one draw an epoch. It is made from the true parameter and fresh randomness without the readings, and it "
    "is remembered. A second draw for the same value leaks again."
)
_SECRETS = (
    "The random numbers behind the draw, the raw readings and the state of the filter stay secret. The pseudo "
    "parameter need not: every bound holds against an adversary who sees it."
)
_JOINT = "Everything that depends on the parameter and is released passes through the filter, as one joint model."
_MISSING = (
    "Which readings are missing does not depend on the parameter: only then is a gap exact. A stream that fills its "
    "gaps (fill=True) does not show them."
)
_PRIOR = (
    "Where the prior is 'stated', it is the one given above: the adversary knows it, and nothing more. Where it is "
    "'any', the bound holds for every prior on the values that can occur."
)
NOT_PROTECTED = {
    "channels": "Other channels: whatever leaves unfiltered (temperature, power, access logs), and other sensors of "
    "the same room with draws or models of their own.",
    "timing": "Timing: when readings come, and which are missing.",
    "side information": "What is known from elsewhere, such as the time of day. The bounds limit what the readings add "
    "to the stated prior.",
    "models": "Wrong models: the average leakage can grow by sum_i p_i KL(true law under value i || model of value i), "
    "in nats over the whole sequence. A wrong model of a pseudo value costs no privacy.",
    "redraws": "Repeated draws: leakages of draws for the same value add up, and the error rate falls.",
    "grid": "Rounded readings, unless their model is one of rounded readings: the grid can reveal the parameter.",
    "inputs": "Inputs that react to the raw readings, such as a damper, and a parameter estimated from the readings.",
    "readings": "The readings themselves: only the parameter is hidden. Who knows both parameters can undo the "
    "disguise.",
    "memory": "Anyone who can read the memory, the snapshots or the ledger of the filter.",
    "safety": "People's safety: disguised readings are wrong on purpose. Never drive ventilation or alarms from them.",
}
"""What no bound is about, by topic."""
_ANY_SOURCE = (
    "No model of a private value need be right: all of each score is fresh chance, so that the outputs follow from the "
    "draws and fresh chance, whatever the law of the readings."
)


def _factor(fresh: float) -> str:
    """1 - s^2, rounded up."""
    return number((1.0 - fresh) * (1.0 + fresh), "up")


def fresh_words(fresh: float, path: bool = False, holds: bool = True) -> str:
    """The theorem of the fresh share, in plain words and in nats; for a path of values, the mean over paths.

    Where no theorem `holds`, what is done alone.
    """
    mixed = f"{fresh:g}: of each score z, sqrt(1 - s^2) z + s w is used, with w fresh standard normals."
    if not holds:
        return mixed
    if fresh == 1.0:
        return "1: each score is replaced by fresh chance. No reading enters the outputs, and no model need be right."
    models = "the mean over paths of KL(true law along the path || model along it)"
    wrong = models if path else "sum_i p_i KL(true law under value i || model of value i)"
    return (
        f"{mixed} With wrong models the output leaks at most the leakage of the draws and {_factor(fresh)} times "
        f"{wrong}, in nats over the whole sequence; the factor is 1 - s^2. It is for this divergence alone, and for no "
        "leakage that was measured."
    )


class OutputFacts(NamedTuple):
    """What was measured of the least-change output of one pseudo value, over so many training days."""

    value: str
    constant: bool
    distortion: float
    interval: tuple[float, float]
    constant_distortion: float
    lifelike_distortion: float
    days: int

    @property
    def words(self) -> str:
        """The same in words."""
        low, high = self.interval
        lifelike = "" if math.isnan(self.lifelike_distortion) else f", lifelike {digits(self.lifelike_distortion, 4)}"
        within = f"{digits(low, 4)} to {digits(high, 4)}" if math.isfinite(high) else "no interval"
        return (
            f"{self.value}, {'a constant' if self.constant else 'a filter'}: {digits(self.distortion, 4)} ({within} "
            f"over {with_count(self.days, 'day')}; best constant {digits(self.constant_distortion, 4)}{lifelike})"
        )


def output_words(columns: Sequence[OutputFacts]) -> str:
    """What a least-change output is, and what it is not."""
    kinds = "a constant" if all(column.constant for column in columns) else "a filter of the scores"
    return (
        f"Least change: {kinds}, fitted to training days and fixed before anything is released. It has no law of "
        "another value, and nothing is proven about its distortion. Mean change on training days, each by what was "
        f"fitted to others, with 95 percent intervals over days: {'; '.join(column.words for column in columns)}."
    )


def _topics(fresh: float) -> dict[str, str]:
    """What no bound is about, with a fresh share."""
    topics = dict(NOT_PROTECTED)
    if fresh:
        topics["models"] = topics["models"].replace("sum_i", f"{_factor(fresh)} sum_i")
        topics["readings"] = "The readings themselves: only the parameter is hidden, and outputs still follow them."
    if fresh == 1.0:
        for topic in ("models", "readings", "grid"):
            del topics[topic]
    return topics


@dataclass(frozen=True, slots=True)
class Setting:
    """What the sentences of a card are conditional on.

    `condition` is a key of `CONDITIONS`. `horizon` is the number of readings that the residual of approximate models
    is charged for, and `how` says how that was found; None where models are exact. `fresh` is the fresh share.
    """

    condition: str
    horizon: int | None = None
    how: str = ""
    fresh: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether a theorem bounds anything; not if the parameter is estimated from the readings."""
        return self.condition != "estimated"

    @property
    def view(self) -> str:
        """What the adversary sees, as the subject of a sentence."""
        if not self.holds:
            return "the draw"
        return "the readings, however many," if self.horizon is None else first_readings(self.horizon)

    @property
    def _leak(self) -> str:
        return "leak" if self.holds and self.horizon != 1 else "leaks"

    def premise(self, prior: str) -> str:
        """The conditions at the head of each sentence."""
        residual = "" if self.horizon is None else " but for its charged residual"
        condition = CONDITIONS[self.condition]
        if self.fresh == 1.0:
            condition = (
                condition.removesuffix("and the model right").rstrip(" ,") + ", whatever the law of the readings"
            )
        return f"{PRIORS[prior]}, {condition}{residual}, "

    def error(self, name: str, value: float, note: str = "") -> Measure:
        """A lower bound on the error of every guess."""
        shown = percent(value, "down")
        until = "" if not self.holds else ", however long it watches"
        if self.horizon is not None:
            until = f", for {self.view}"
        words = f"any guess is wrong with probability at least {shown}{until}."
        if value <= 0.0 and name != "bayes_error":
            words = "this bound says nothing, because it is not positive."
        lead = "at least " if self.holds else "draw alone: "
        if value < 0.0:
            lead, shown = "", f"nothing ({shown})" if math.isfinite(value) else "nothing"
        premise, title = self.premise("stated"), _ERROR_TITLES[name]
        return Measure(
            name, title, value, "probability", "at least", "stated", lead + shown, premise + words, note, premise
        )

    def leakage(self, name: str, title: str, value: float, prior: str, words: str, note: str = "") -> Measure:
        """An upper bound on a leakage; `words` follow the conditions."""
        lead = "at most " if self.holds else "draw alone: "
        premise = self.premise(prior)
        return Measure(
            name, title, value, "nats", "at most", prior, _amount(lead, value), premise + words, note, premise
        )

    def information(self, value: float, share: float) -> Measure:
        """The mutual information; `share` is that of the entropy, not a number if there is none."""
        of_all = "" if math.isnan(share) else f", {percent(share, 'up')} of the entropy"
        words = f"{self.view} {self._leak} at most {nats_and_bits(value)} on average{of_all}."
        note = "An average over draws: a single one can leak more."
        return self.leakage("mutual_information", "Average leakage (mutual information)", value, "stated", words, note)

    def capacity(self, value: float, slack: float) -> Measure:
        """The mutual information at the worst prior, an upper bound that is `slack` too large at most."""
        words = f"{self.view} {self._leak} at most {nats_and_bits(value)} on average."
        note = "A proven upper bound" + (f", at most {number(slack, 'up')} nats too large." if slack > 0.0 else ".")
        return self.leakage("capacity", "Average leakage, worst prior (capacity)", value, "any", words, note)

    def guesses(self, min_entropy: float, maximal: float) -> tuple[Measure, Measure]:
        """What the readings do for one guess of the value, and of any function of it."""
        one = f"seeing {self.view} {_GUESS.format('the hidden value', factor(min_entropy))}."
        any_fact = f"seeing {self.view} {_GUESS.format('any function of the hidden value', factor(maximal))}."
        return (
            self.leakage("min_entropy_leakage", "One guess (min-entropy leakage)", min_entropy, "stated", one),
            self.leakage("maximal_leakage", "Any function of it (maximal leakage)", maximal, "any", any_fact),
        )

    def worst_cases(self, pointwise: float, local: float, beyond: tuple[float, float]) -> tuple[Measure, Measure]:
        """The most informative draw, and any two values.

        What models leak on average bounds no worst case. Where there is a residual the two are those of the draw, and
        `beyond` are the probabilities that are added to them for whole events.
        """
        draw = self if self.horizon is None else Setting("estimated")
        function = _GUESS.format("any function of the hidden value", factor(pointwise))
        if math.isfinite(local):
            ratio = f"seeing {draw.view} changes the probability ratio of any two values by a factor of at most "
            ratio, note = f"{ratio}{factor(local)}.", self._events("under another", beyond[1])
        else:
            ratio = f"there is no bound on how far {draw.view} can change the probability ratio of two values."
            note = "Some draw rules a value out: it never comes from that value."
        return (
            draw.leakage(
                "pointwise_maximal_leakage",
                "Most informative draw (pointwise leakage)",
                pointwise,
                "stated",
                f"seeing {draw.view} {function}, even after the most informative draw.",
                self._events("on average", beyond[0]),
            ),
            draw.leakage("local_dp", "Any two values (local-DP epsilon)", local, "any", ratio, note),
        )

    def _events(self, than: str, added: float) -> str:
        if self.horizon is None:
            return ""
        return (
            "This is of the draw alone: the average leakage of models bounds no worst case. For "
            f"{first_readings(self.horizon)} it holds of whole events: none is more than this factor likelier under "
            f"one value than {than}, up to an added probability of {number(added, 'up')}."
        )

    def conditions(self, residual: float, impossible: int, values: int) -> tuple[str, ...]:
        """All that must be true; `residual` in nats, `impossible` of the `values` have probability zero."""
        if not self.holds:
            return (_SETTINGS[self.condition],)
        right = _ANY_SOURCE if self.fresh == 1.0 else _MODEL
        model = (right,) if self.horizon is None else self._model_with_residual(self.horizon, residual)
        zero = (
            f"Values of probability zero ({impossible} of {values}) never occur. No bound here covers them, those for "
            "any prior included.",
        )
        common = (_DRAWS, _SECRETS, _JOINT, _MISSING, _PRIOR)
        return (_SETTINGS[self.condition], *model, *common, *(zero if impossible else ()))

    def _model_with_residual(self, horizon: int, residual: float) -> tuple[str, str]:
        return (
            "The model of each value is right but for its residual: the readings have the law that it approximates, "
            "the start included, and none is missing. The approximation leaks at most the "
            f"{number(residual, 'up')} nats that are charged ({self.how}). A residual that was simulated is charged "
            "with 4.75 standard errors on top: it is too small once in a million.",
            f"No more is seen than {first_readings(horizon)} of an epoch. Each later one leaks a little more.",
        )

    @property
    def against(self) -> str:
        """The adversary of the bounds."""
        if not self.holds:
            return _NOBODY
        seen = "the disguised readings, of any length"
        return _anyone(seen if self.horizon is None else f"{self.view}, disguised", "prior", "parameter")

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound is about."""
        topics = _topics(self.fresh)
        if self.horizon is not None:
            times = f"{_factor(self.fresh)} " if self.fresh else ""
            topics["models"] = (
                "Wrong models: where the readings do not have the law that a model approximates, the average leakage "
                f"can grow by more than the residual that is charged, and by {times}sum_i p_i KL(true law under value "
                "i || model of value i) in all, in nats over the whole sequence. A wrong model of a pseudo value costs "
                "no privacy."
            )
            topics["grid"] += (
                f" What such a model leaks itself is charged for {first_readings(self.horizon)}, and for no more."
            )
        own = () if self.holds else ("The parameter itself, as far as can be proven.",)
        return (*own, *topics.values())


def best_guess_note(prior_error: float, variation: float | None) -> str:
    """Whose error the exact bound is; `variation` is what approximate models may add to a guess."""
    exact = "Exact for an adversary who sees the pseudo parameter."
    if variation is not None:
        exact = (
            "The error of an adversary who sees the pseudo parameter, less "
            f"{percent(variation, 'up')} for what the models themselves leak."
        )
    return f"{exact} The best guess without the readings is wrong {percent(prior_error, 'up')} of the time."


def fano_note(sharper: bool) -> str:
    """What Fano's bound rests on; `sharper` where it says more than the exact bound less a residual."""
    more = " Here it says more than the line before: a residual weighs less on averages."
    return f"From the average leakage and the prior alone.{more * sharper}"


def fano_paper_note(possible: int) -> str:
    """What the bound of the paper is; it needs more than two values that can occur."""
    never = " With two values it is never positive."
    return f"Theorem 3 of the paper, its one bit written as ln 2 nats.{never * (possible == 2)}"


def claim(first: Measure, holds: bool) -> str:
    """The guarantee in one sentence, conditions included; or that there is none."""
    return first.sentence if holds else f"{NO_GUARANTEE} {_DRAW_ALONE}"


def card_headings(holds: bool) -> tuple[str, str]:
    """Heading and caption of the bounds of a card."""
    if holds:
        return "What is guaranteed", "Each bound with its meaning; each needs the conditions below"
    return "The draw alone", "Not guaranteed of the readings"


def hidden_facts(values: Sequence[Hashable], prior: Sequence[float], entropy: float, draws: int) -> Pairs:
    """What is hidden and what is drawn."""
    return [
        ("Hidden", f"one of {len(values)} values, entropy {number(entropy, 'near')} nats"),
        ("Prior", f"{prior_words(values, prior)}. The adversary is assumed to know it."),
        ("Drawn instead", f"one of {draws} pseudo values, once an epoch"),
    ]


def budget_fact(budget: float, kept: bool, residual: bool) -> tuple[str, str]:
    """Whether the leakage is within its budget."""
    verdict = "kept" if kept else "NOT KEPT"
    by = "the draw and the residual" if residual else "the draw"
    return "Leakage budget", f"{number(budget, 'down')} nats on average, {verdict} by {by}"


def constraint_fact(words: str, residual: bool) -> tuple[str, str]:
    """What a randomizer was made to keep beside its budget."""
    return "Constraint", f"Of the draw: {words}" if residual else words


def residual_fact(nats: float, horizon: int, how: str) -> tuple[str, str]:
    """What approximate models leak."""
    size = f"{number(nats, 'up')} nats over {with_count(horizon, 'reading')} ({how})"
    return "Residual", f"{size}, the leakage of the models themselves. It is in the bounds."


def release_facts(
    lattice: str,
    rounded: bool,
    form: str,
    spans: Iterable[tuple[float, float]],
    possible: Sequence[tuple[float | None, float | None]],
) -> Pairs:
    """In which form readings leave, and which may come in."""
    grid = f"rounded to multiples of {lattice}" if rounded else "on the grid of the models"
    if any(end is not None for ends in possible for end in ends):
        grid += f", within {', '.join(map(_range_words, possible))}"
    ranges = ", ".join(f"{low:.6g} to {high:.6g}" for low, high in spans)
    return [("Readings leave", f"{grid}, and in no other form"), ("Readings come", f"as {form}, from {ranges}")]


def _range_words(ends: tuple[float | None, float | None]) -> str:
    """A range for a person to read.

    >>> _range_words((0.0, 1250.5)), _range_words((None, 5.0))
    ('0 to 1250.5', 'any to 5')
    """
    low, high = ("any" if end is None else f"{end:.6g}" for end in ends)
    return f"{low} to {high}"


def floating_fact(nats: float, variation: float, readings: int, within: int, how: str) -> tuple[str, str]:
    """What floating point adds to the leakage; the total variation counts for every bound on a guess."""
    return (
        "Floating point",
        f"adds at most {number(nats, 'up')} nats over the first {readings} readings, and changes no probability by "
        f"more than {number(variation, 'up')}; a millionth of a nat after {within} readings ({how}; without missing "
        "readings). Streams charge it. It is not in the bounds below.",
    )


def _amount(lead: str, nats: float) -> str:
    return f"{lead}{number(nats, 'up')} nats" if math.isfinite(nats) else "no bound (infinite)"


def _anyone(seen: str, known: str, told: str) -> str:
    return (
        f"Anyone who sees only {seen}, with unlimited computation; who knows the {known}, the randomizer, every model "
        f"and this software; and even if told the pseudo {told}."
    )


# The card of a coin by epoch -----------------------------------------------------------------------------------------


class CoinFacts(NamedTuple):
    """What a coin by epoch comes to: probabilities, nats, and in words how long an epoch is and what hides one."""

    hidden: float
    values: int
    entropy: float
    leakage: float
    carry: int
    epoch: str
    keyed: bool
    hide: str
    distortion: tuple[float, float | None] | None

    @property
    def claim(self) -> str:
        """The card in one sentence."""
        return (
            f"Whatever the truth is, an epoch ({self.epoch}) leaks at most {nats_and_bits(self.leakage)} on average: "
            f"{percent(1.0 - self.hidden, 'up')} of the epochs are shown as they are, the others are played from fresh "
            "chance alone. An epoch that is shown is shown whole."
        )

    @property
    def facts(self) -> Pairs:
        """What was designed."""
        phase = "a phase that follows from the key of the stream" if self.keyed else "a public phase"
        rows = [
            ("Hidden", f"one of {self.values} values an epoch, at most {nats_and_bits(self.entropy)}"),
            ("Epochs", f"{self.epoch} each, with {phase}"),
            ("Hidden epochs", f"{percent(self.hidden, 'down')} of them, by a coin that never looks at the readings"),
            ("Played then", f"a {self.hide} output, from fresh chance"),
        ]
        if self.distortion is not None:
            size, share = self.distortion
            of_mean = "" if share is None else f", {percent(share, 'up')} of the mean reading"
            rows.append(("Distortion", f"{number(size, 'up')} a reading on average{of_mean}, in the given history"))
        return rows

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every figure with its sentence."""
        q, m = self.hidden, self.values
        unseen = q ** (1 + self.carry)  # all epochs whose readings tell of it are hidden
        right = 1.0 - unseen * (1.0 - 1.0 / m)
        found = [
            Measure(
                "right_guesses", "Right guesses, values weighed alike", right, "probability", "at most", "any",
                f"at most {percent(right, 'up')}",
                f"A guess about an epoch is right with probability at most {percent(right, 'up')} on average over the "
                f"{m} values (balanced accuracy), whatever their prior is, if epochs tell nothing of each other.",
                "Where a value stays over several epochs, guesses are right more often.",
            ),
            Measure(
                "leakage", "Average leakage of an epoch", self.leakage, "nats", "on average", "any",
                f"{number(self.leakage, 'up')} nats on average",
                f"Whatever the prior, an epoch leaks at most {nats_and_bits(self.leakage)} on average over the coin.",
                "An average over the coin: an epoch that is shown leaks all of it.",
            ),
        ]  # fmt: skip
        for count in (7, 30):
            nats = (1.0 - q**count) * self.entropy
            found.append(
                Measure(
                    f"stays_{count}", f"A value that stays for {count} epochs", nats, "nats", "on average", "any",
                    f"{number(nats, 'up')} nats on average",
                    f"A value that stays the same over {count} epochs leaks at most {nats_and_bits(nats)}: "
                    f"{percent(1.0 - q**count, 'up')} of what there is, for one shown epoch tells it.",
                )
            )  # fmt: skip
        return tuple(found)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the figures to hold; no model is among it."""
        later = f" and the {with_count(self.carry, 'epoch')} after it" if self.carry else ""
        return (
            f"What happens in an epoch acts on the readings of that epoch{later} alone. CO2 carries over midnight: the "
            "first readings of an epoch that is shown tell of the end of the one before, and what they tell is not "
            "counted (carry= counts it).",
            f"The private value of an epoch has an entropy of at most {number(self.entropy, 'up')} nats. Where it "
            "moves within an epoch, the value is its whole path, and the entropy that of the path.",
            "There is one coin an epoch, drawn before its first output, and remembered. A coin drawn again for the "
            "same epoch shows more of them.",
            "The random numbers behind the coin stay secret until the epoch has ended. The coin itself need not: a "
            "constant output shows it.",
        )

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no bound is about."""
        return (
            "A shown epoch: everything in it, the pattern of missing readings included, is as it was.",
            "Which readings come at all: in a hidden epoch a missing reading gets an output like any other, but a row "
            "that is not there gets none, unless the stream fills its slots (fill=True).",
            "What neighbouring epochs tell of each other: who is in on shown days is likely to be in on hidden ones.",
            NOT_PROTECTED["channels"],
            "What is known from elsewhere, such as the time of day: it stays known in hidden epochs.",
        )


COIN_AGAINST = (
    "Anyone who sees all outputs, with unlimited computation and any knowledge of the building, right models included; "
    "and even if told which epochs are shown."
)


# Designs in a few lines; for several priors, for a public clock, and with constraints ---------------------------------


class DesignFacts(NamedTuple):
    """What a design comes to.

    `demand` is None for constraints alone, and `distortion` is in words, with its error. `bound` is the lower bound,
    the gap, the status, and whether the costs are exact. `residual` is what the models leak, over how many readings,
    and how that was found.
    """

    sizes: tuple[int, ...]
    demand: tuple[str, float | str] | None
    distortion: str
    relative_distortion: float | None
    bound: tuple[float, float, str, bool]
    leakage: float
    residual: tuple[float, int, str] | None
    constraints: Sequence[str]
    claim: str
    fresh: float = 0.0
    output: str = ""


def design_summary(facts: DesignFacts) -> str:
    """A design in a few lines."""
    m, n = facts.sizes
    demand = "constraints alone" if facts.demand is None else f"{facts.demand[0]} = {facts.demand[1]}"
    relative = facts.relative_distortion
    share = "" if relative is None else f" ({100.0 * relative:.4g}% of the mean reading)"
    lower, gap, status, exact = facts.bound
    known = "" if exact else "; the costs themselves are known as well as the mean"
    lines = [
        f"Design for {m} private and {n} pseudo values, {demand}",
        f"  distortion   {facts.distortion}{share}",
        f"  optimum      at least {lower:.8g}, so within {gap:.2g} ({status}){known}"
        if not facts.output
        else f"  output       {facts.output}",
        f"  leakage      {facts.leakage:.8g} nats ({facts.leakage / math.log(2.0):.6g} bits)",
    ]
    if facts.residual is not None:
        nats, horizon, how = facts.residual
        lines.append(f"  residual     {number(nats, 'up')} nats over {with_count(horizon, 'reading')} ({how})")
    lines += [f"  kept         {words}" for words in facts.constraints]
    lines += [f"  fresh share  {facts.fresh:g}"] if facts.fresh else []
    return "\n".join([*lines, f"  guarantee    {facts.claim}"])


def _duration(horizon: int | None) -> str:
    return "however long it watches" if horizon is None else f"over {first_readings(horizon)}"


def robust_claim(priors: int | None, nats: float, error: float, horizon: int | None) -> str:
    """What holds at every mixture of so many priors, conditions included; at every prior if `priors` is None."""
    where, guess = PRIORS["any"], ""
    if priors is not None:
        where = f"At any mixture of the {with_count(priors, 'prior')}"
        guess = f", and any guess is wrong with probability at least {percent(error, 'down')}"
    return (
        f"{where}, {CONDITIONS['constant']}, the output leaks at most {number(nats, 'up')} nats on average{guess}, "
        f"{_duration(horizon)}."
    )


def robust_conditions(any_prior: bool, fresh: float = 0.0) -> str:
    """All that must be true for the bounds of a hull of priors to hold, and what they do not say."""
    share = f" Fresh share {fresh_words(fresh)}" if fresh else ""
    mixture = "" if any_prior else "the odds beforehand to be a mixture of those listed, "
    return (
        f"This needs {mixture}the parameter to be constant over the epoch, the models of its values to be right, and "
        "one draw for an epoch. It bounds an average: after single draws more can be known. Nothing is said about "
        f"channels that are not filtered.{share}"
    )


def robust_card(card: Mapping[str, Any], distortion: str, residual: tuple[float, int] | None, width: int) -> str:
    """The card of a hull of priors, from its facts: what holds at all of them, and what at each corner."""
    weighed = "the stated odds"
    if card["distortion_weighed_by"] == "worst":
        weighed = "the odds in the hull that make it largest"
    lines = [
        *textwrap.wrap(card["headline"], width),
        "",
        f"distortion       {distortion} at {weighed}; at least {card['lower_bound']:.8g} for every randomizer "
        f"that keeps the budget over the hull ({card['status']})",
        f"leakage          at most {number(card['worst_leakage_nats'], 'up')} nats over the hull "
        f"(budget {card['budget_nats']:.6g}), reached at the odds {_percentages(card['worst_odds'])}",
    ]
    if residual is not None:
        lines.append(f"residual         {number(residual[0], 'up')} nats over {with_count(residual[1], 'reading')}")
    if not card["any_odds"]:
        lines += ["", f"{'odds':34}{'nats':>10}{'wrong before':>16}{'wrong after':>15}"]
        for corner in card["corners"]:
            before, after = (percent(corner[name], "down") for name in ("wrong_before", "wrong_after"))
            odds, nats = _percentages(corner["odds"]), number(corner["nats"], "up")
            lines.append(f"{odds:34}{nats:>10}{before:>16}{after:>15}")
    return "\n".join([*lines, "", *textwrap.wrap(card["conditions"], width)])


def _percentages(prior: Iterable[float]) -> str:
    words = " : ".join(f"{100.0 * p:.4g}" for p in prior)
    return words if len(words) <= 33 else f"{words[:30]}..."


def conditional_claim(nats: float, error: float, worst: Hashable, horizon: int | None) -> str:
    """What holds given a public clock, conditions included; `worst` is the time at which guesses are best."""
    return (
        f"At the stated prior of each time, {CONDITIONS['constant']}, the output leaks at most {number(nats, 'up')} "
        "nats a draw beyond the time, and any guess by an adversary who knows the time is wrong with probability at "
        f"least {percent(error, 'down')} (at {worst!r}, the worst time), {_duration(horizon)}."
    )


class ClockFacts(NamedTuple):
    """What a design for a public clock comes to on the whole."""

    claim: str
    distortion: float
    lower_bound: float
    status: str
    split: str
    leakage: float
    budget: float
    clock_information: float
    fresh: float = 0.0


class ClockRow(NamedTuple):
    """What it comes to at one value of the clock."""

    time: Hashable
    weight: float
    distortion: float
    leakage: float
    prior_error: float
    bayes_error: float


_CLOCK_CONDITIONS = (
    "Each draw is for one epoch, over which the parameter is constant, and leaks what its line says. Where a parameter "
    "lasts over several draws, each of them leaks about it: the leakages then add up, at most."
)


def conditional_card(whole: ClockFacts, rows: Iterable[ClockRow], width: int) -> str:
    """The card of a design for a public clock."""
    lines = [
        *textwrap.wrap(whole.claim, width),
        "",
        f"distortion       {whole.distortion:.6g}, at least {whole.lower_bound:.8g} for any randomizers "
        f"within the budget ({whole.status}; {whole.split})",
        f"leakage          {number(whole.leakage, 'up')} nats given the clock (budget {whole.budget:.6g})",
        f"the time alone   {number(whole.clock_information, 'up')} nats, which nothing here hides",
        "",
        f"{'time':16}{'weight':>9}{'distortion':>13}{'nats':>11}{'wrong before':>15}{'wrong after':>14}",
    ]
    for row in rows:
        before, after = percent(row.prior_error, "down"), percent(row.bayes_error, "down")
        nats = number(row.leakage, "up")
        lines.append(f"{row.time!s:16}{row.weight:9.3f}{row.distortion:13.6g}{nats:>11}{before:>15}{after:>14}")
    share = f" Fresh share {fresh_words(whole.fresh)}" if whole.fresh else ""
    return "\n".join([*lines, "", *textwrap.wrap(_CLOCK_CONDITIONS + share, width)])


_CONSTRAINTS = {
    "local_dp": "Local differential privacy: no draw is more than {factor} times (e^{limit:.6g}) likelier under one "
    "value than under another.",
    "maximal_leakage": "Maximal leakage of at most {limit:.6g} nats: whatever the prior, the probability of guessing "
    "any function of the value is multiplied by at most {factor}.",
    "pointwise_leakage": "Pointwise leakage of at most {limit:.6g} nats: at the stated prior, no draw multiplies the "
    "probability of guessing any function of the value by more than {factor}.",
    "total_variation": "Total variation of at most {limit:.6g} between any two values: no event is more probable under "
    "one than under another by more.",
    "error_at_least": "At the stated prior every guess is wrong with probability {limit:.6g} or more.",
    "floor": "Every value draws every pseudo value with probability {limit:.6g} or more.",
    "multiples": "Every probability is a multiple of 1/{limit:.0f}.",
}


def constraint_words(kind: str, limit: float) -> str:
    """A constraint that is one number.

    >>> constraint_words("error_at_least", 0.25)
    'At the stated prior every guess is wrong with probability 0.25 or more.'
    """
    return _CONSTRAINTS[kind].format(limit=limit, factor=factor(limit))


def forbidden_words(pairs: Sequence[tuple[Hashable, Hashable]], positions: bool) -> str:
    """Pairs of value and pseudo value that are never drawn."""
    if not pairs:
        return "No pair of value and pseudo value is ruled out."
    shown = [f"{label(value)} as {label(drawn)}" for value, drawn in pairs[:6]]
    more = f" and {len(pairs) - 6} more pairs" if len(pairs) > 6 else ""
    return f"Never drawn{' (row and column)' if positions else ''}: {', '.join(shown)}{more}."


def same_words(groups: Iterable[Sequence[Hashable]], positions: bool) -> str:
    """Values with equal rows."""
    shown = "; ".join(", ".join(label(value) for value in group) for group in groups if len(group) > 1)
    by = " (by row)" if positions else ""
    return f"Equal rows{by}, so that nothing distinguishes them: {shown}." if shown else "No two values are grouped."


# The card of a parameter that moves -----------------------------------------------------------------------------------

KNOWN = (
    "At the stated prior and transitions, with the parameter known to the filter and not moved by the readings, and "
    "the models right, "
)
IF_KNOWN = "Not here, but if the parameter were known to the filter: "
_MOVING_ESTIMATED = "Figures that say 'if known' are those of a known parameter, and bound nothing here."
_CHAIN = (
    "The parameter is a Markov chain with the stated prior at first and the stated transitions from decision to "
    "decision. With other transitions the charges are wrong."
)
_ROUTINE = (
    "Given the public clock, the parameter is a Markov chain with the transitions of the stated routine, by time of "
    "day and kind of day. With another one the charges are wrong; a design at rate 0 needs no such condition, for it "
    "never looks at the parameter."
)
_PUBLISHED = (
    "The routine: at which times of which kind of day the parameter has which value. It is published with the design, "
    "and the output follows it. Whoever knows the time learns it, from the design or from the output."
)
_NOT_ESTIMATED = (
    "It is known when a decision is made, not estimated from the readings, and the readings do not act on it."
)
_MOVING_CONDITIONS = (
    "The model of each value is right, along the whole path: the readings have its law, the start included.",
    "Decisions come from the clock, not from changes of the parameter. They are made from the parameter, the earlier "
    "pseudo values and fresh randomness alone. Draws are remembered and never made again.",
    "The random numbers behind the draws, the raw readings and the state of the filter stay secret. The pseudo path "
    "need not: every bound holds against an adversary who sees it.",
    _JOINT,
)
_MOVING_TITLES = {
    "filtering": "Wrong guesses at the time",
    "smoothing": "Wrong guesses afterwards",
    "first_error": "Wrong guesses of the first value",
    "rate": "Leakage a decision, in the long run",
    "first_charge": "Leakage of the first decision",
    "per_day": "Leakage a day, expected",
}
_MOVING_OPEN = (
    "What is finally known about one day or one decision: earlier and later draws leak about it too. Only the sum "
    "over the sequence bounds everything.",
    "Unlucky draws: leakages are averages over draws, and after an informative one the posterior may be sharp.",
)


@dataclass(frozen=True, slots=True)
class MovingSetting:
    """What the sentences of the card of a moving parameter are conditional on.

    `known` says whether the filter knows the parameter; `wrong_path` bounds the probability that an estimated path
    differs anywhere from the true one, None where nothing bounds it. Guesses are averaged over the decisions `first`
    to `last`, and `settled` says whether the chain forgets its start before them. `fresh` is the fresh share. With
    `clock` the prior and the transitions are those of the public clock.
    """

    known: bool
    wrong_path: float | None
    first: int
    last: int
    settled: bool
    fresh: float = 0.0
    clock: bool = False

    @property
    def _known(self) -> str:
        return KNOWN.replace("and the models right", "whatever the law of the readings") if self.fresh == 1.0 else KNOWN

    def error(self, name: str, value: float, note: str) -> Measure:
        """A lower bound on the share of wrong guesses of one kind."""
        shown = percent(value, "down")
        words = self._guess(name, shown, ", however long it goes on" if name == "smoothing" else "")
        title = _MOVING_TITLES[name] + (", best adversary" if name != "first_error" else "")
        lead, bound = ("at least ", "at least") if self.known else ("if known: ", "if known")
        given = self._known if self.known else ""
        sentence = f"{given or IF_KNOWN}{words}."
        return Measure(name, title, value, "probability", bound, "stated", lead + shown, sentence, note, given)

    def error_of_estimated(self, name: str, value: float, eps: float) -> Measure:
        """What a bound on the probability of a wrong path leaves of a bound on guesses: the difference."""
        left, wrong = max(0.0, value - eps), percent(eps, "up")
        given = (
            "At the stated prior and transitions, with the models right and an estimated path that differs anywhere "
            f"from the true one with probability at most {wrong}, "
        )
        shown = percent(left, "down")
        words = self._guess(name, shown, ", whatever is seen afterwards" if name == "smoothing" else "")
        if left <= 0.0:
            words = "this bound says nothing, because it is not positive"
        note = (
            f"{percent(value, 'down')} if the path were known, less {wrong}. The path is all of it, up to the last "
            "reading that is seen; the card does not check the probability."
        )
        title = f"{_MOVING_TITLES[name]}, estimated path"
        least = f"at least {shown}" if left > 0.0 else "nothing"
        return Measure(
            f"{name}_if_right", title, left, "probability", "at least", "stated", least, f"{given}{words}.", note
        )

    def leakage(self, name: str, value: float, note: str, decisions: float = 0.0) -> Measure:
        """An expected leakage: of a decision, the first decision or a day of so many `decisions`."""
        size = nats_and_bits(value)
        words = {
            "rate": f"a decision leaks {size} on average beyond the earlier ones.",
            "first_charge": f"the first decision leaks {size} on average over its draws.",
            "per_day": f"the {decisions:g} decisions of a day leak {size} on average beyond the earlier ones.",
        }[name]
        given, lead, bound = (self._known, "", "on average") if self.known else (IF_KNOWN, "if known: ", "if known")
        shown = f"{lead}{number(value, 'up')} nats on average"
        once = given if self.known else ""
        return Measure(name, _MOVING_TITLES[name], value, "nats", bound, "stated", shown, given + words, note, once)

    def _guess(self, name: str, shown: str, end: str) -> str:
        if name == "first_error":
            return (
                "any guess of the first value, from all readings before the second decision, is wrong with "
                f"probability at least {shown}"
            )
        seen = "until the next decision" if name == "filtering" else "before and after"
        return (
            f"any guess of the value of a decision, from all readings {seen}, is wrong at least {shown} of the time on "
            f"average over decisions {self.first} to {self.last} of a sequence that starts at the stated prior{end}"
        )

    def filtering_note(self, blind: float) -> str:
        """Who the adversary at the time is; `blind` is the error of a guess from the chain alone."""
        start = "By then the chain has forgotten its start."
        if not self.settled:
            start = (
                "The parameter moves so slowly that by then its start is not forgotten: this is about these decisions, "
                "and later ones may be guessed better."
            )
        return (
            "The error of an adversary who sees the pseudo values up to then (filtering). A guess from the chain alone "
            f"is wrong {percent(blind, 'up')} of the time. {start}"
        )

    def smoothing_note(self, decisions: int) -> str:
        """Who the adversary afterwards is."""
        slow = " The parameter moves so slowly that knowing this value helps much, and the bound is low."
        return (
            f"The error of an adversary who waits for the pseudo path until decision {decisions} (smoothing) and is "
            "told the true value of that decision as well, so that nothing later could help."
            f"{slow * (not self.settled)}"
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true."""
        if self.known:
            right = (_ANY_SOURCE, *_MOVING_CONDITIONS[1:]) if self.fresh == 1.0 else _MOVING_CONDITIONS
            return (_ROUTINE if self.clock else _CHAIN, _NOT_ESTIMATED, *right)
        if self.wrong_path is None:
            return (_SETTINGS["estimated"],)
        return (
            "No condition suffices for a bound on leakages. The lines of an estimated path need that it is wrong with "
            f"probability at most {percent(self.wrong_path, 'up')}, and these:",
            _CHAIN,
            *_MOVING_CONDITIONS,
        )

    @property
    def against(self) -> str:
        """The adversary of the bounds."""
        return _anyone("the disguised readings", "prior, the transitions", "path") if self.known else _NOBODY

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What no figure is about."""
        topics = {topic: words for topic, words in _topics(self.fresh).items() if topic != "redraws"}
        if self.fresh < 1.0:
            times = f"{_factor(self.fresh)} times " if self.fresh else ""
            topics["models"] = (
                f"Wrong models: the average leakage can grow by {times}the mean over paths of KL(true law along the "
                "path || model along it), in nats over the whole sequence. A wrong model of a pseudo value costs no "
                "privacy."
            )
        own = _MOVING_OPEN if self.known else ("The parameter itself and the raw readings, as far as can be proven.",)
        return (*((_PUBLISHED,) if self.clock else ()), *own, *topics.values())

    @property
    def headings(self) -> tuple[str, str]:
        """Heading and caption of the figures."""
        if self.known:
            return "What is guaranteed", "Each figure with its meaning; each needs the conditions below"
        if self.wrong_path is None:
            return "What is not guaranteed", "Figures of a known parameter; this one is estimated"
        return (
            "What holds if the path is nearly always right, and what does not hold",
            "Figures that say 'if known' are of a known parameter; this one is estimated",
        )

    def scopes(self, rate: float, first_charge: float, per_day: float | None, left: str) -> tuple[Scope, ...]:
        """What is guaranteed of a sequence, a day and a decision; `left` is the bound that an estimated path leaves."""
        if not self.known:
            audit = "what an audit finds"
            guesses = "nothing"
            if left:
                guesses = f"nothing of leakages; wrong guesses {left}, if the path is wrong as seldom as stated"
            return (
                Scope("a sequence", "nothing: the readings may leak everything", audit),
                Scope("the same with a budget", "nothing: a budget bounds the draws, not the readings", audit),
                Scope("a day", "nothing", audit),
                Scope("a decision", guesses, audit),
            )
        day = "its draws leak at most its charges beyond the earlier ones"
        if per_day is not None:
            day += f", {nats_and_bits(per_day)} expected"
        return (
            Scope(
                "a sequence",
                f"all readings leak at most the sum of the charges on average: {nats_and_bits(first_charge)} for the "
                f"first decision and about {nats_and_bits(rate)} for each other",
                "expected_leakage(K) beforehand, charges on the way",
            ),
            Scope("the same with a budget", "at most the budget, whatever is drawn", "draw(..., left=budget - spent)"),
            Scope("a day", day, "per_day, at_most"),
            Scope("a decision", "its draw leaks its charge, known before it is made", "next_charge(state)"),
        )


def moving_claim(first: Measure, known: bool) -> str:
    """The guarantee in one sentence, conditions included; or that there is none."""
    return first.sentence if known else f"{NO_GUARANTEE} {_MOVING_ESTIMATED}"


def clock_claim(rate: float, per_day: float | None) -> str:
    """The promise of a design by the clock.

    >>> clock_claim(0.0, None)
    'With the models right, nobody learns more about the parameter than the public clock tells.'
    """
    lead = "With the models right, nobody learns more about the parameter than the public clock tells"
    if rate == 0.0:
        return f"{lead}."
    day = "" if per_day is None else f", {nats_and_bits(per_day)} a day"
    return f"{lead}, but for {nats_and_bits(rate)} a decision on average{day}."


def first_error_note(prior_error: float) -> str:
    """How exact the bound on the first value is."""
    return f"Exact. The best guess without the readings is wrong {percent(prior_error, 'up')} of the time."


def rate_note(standard_error: float) -> str:
    """How the long-run leakage is known."""
    simulated = f" Simulated, with a standard error of {number(standard_error, 'up')}."
    return f"What a decision leaks is known before it is made, and is charged.{simulated * (standard_error > 0.0)}"


FIRST_CHARGE_NOTE = "Exact. It costs more than later ones where nothing was known before."


def per_day_note(first_day: float) -> str:
    """What is different on the first day, and what a budget does."""
    return f"On the first day {nats_and_bits(first_day)}. A budget keeps every day within a bound, not the mean alone."


def moving_facts(
    values: Sequence[Hashable], prior: Sequence[float], draws: int, every: int, a_day: float | None
) -> Pairs:
    """What is hidden, and what is drawn for how many readings."""
    readings = "reading" if every == 1 else f"{every} readings"
    found = [
        ("Hidden", f"a parameter that moves among {len(values)} values, as a Markov chain"),
        ("Prior at first", f"{prior_words(values, prior)}. The adversary is assumed to know it, and the transitions."),
        ("Drawn instead", f"one of {draws} pseudo values for every {readings}, with memory of the earlier draws"),
    ]
    return found if a_day is None else [*found, ("Decisions a day", f"{a_day:g}")]


def moving_distortion_fact(distortion: float, measure: str, measured: bool = False) -> tuple[str, str]:
    """What the disguise costs, by the costs of values that stay, or as it was measured on training days."""
    name = f" ({measure})" if measure else ""
    if measured:
        return "Distortion", f"{number(distortion, 'near')}{name} on average over training days."
    return (
        "Distortion",
        f"{number(distortion, 'near')}{name} on average between values that stay. true_distortion gives that of moving "
        "paths.",
    )


# Warnings and the page of a design ------------------------------------------------------------------------------------

UNTESTED = (
    "Whether the models fit the sensor was not tested. Every bound is for readings that have the law of the models; "
    "where they have not, more leaks."
)
MISFIT = "The scores of held-out readings depend on the private value. Every bound is for scores that do not."
NOTHING_HIDDEN = (
    "This design hides nothing: the best guess of the private value need never be wrong. Ask for less leakage, or for "
    "wrong guesses."
)
WARNING_TITLES = {False: "Warning: the models did not pass their gate", None: "Warning: not all models were tested"}
"""The head of the warnings, by whether the models fit; None where that was not tested."""
_FITS = {
    True: "tested, and no leak was found",
    False: "tested, and did NOT pass",
    None: "not tested",
}
_MEASURES = {"mae": "mean absolute error", "mse": "mean squared error"}


def untested_values(values: Iterable[Hashable]) -> str:
    """Which values the gate could not test.

    >>> untested_values(["3+"])
    'Value 3+: not tested, too few held-out readings.'
    """
    names = [label(value) for value in values]
    return f"Value{'s' * (len(names) > 1)} {', '.join(names)}: not tested, too few held-out readings."


def gate_window(window: int, unit: str = "day") -> str:
    """What a classifier looked at.

    >>> gate_window(1), gate_window(60), gate_window(0)
    ('single scores', 'windows of 60 scores', 'whole days')
    """
    return "single scores" if window == 1 else f"windows of {window} scores" if window else f"whole {unit}s"


def gate_verdict(outcome: str, windows: Sequence[Mapping[str, Any]], untested: Sequence[Hashable], fewest: int) -> str:
    """The verdict of a gate, from its outcome and the figures of each window, with the leak that would have been seen.

    >>> one = {"window": 15, "accuracy": 0.71, "control": 0.5, "excess": 0.21, "low": 0.1, "high": 0.32, "p": 1e-6}
    >>> one |= {"nats": 0.12, "seen": 0.14}
    >>> gate_verdict("leak", [one], (), 50).split(":")[0]
    'The scores of readings that the models have not seen reveal the private value'
    >>> gate_verdict("passed", [one], (), 50).split(":")[0]
    'No leak was found in the scores'
    """
    few = f" {untested_values(untested)} Each has fewer than {fewest}." if untested else ""
    if outcome == "leak":
        worst = min(windows, key=lambda each: (each["p"], -each["excess"]))
        return (
            "The scores of readings that the models have not seen reveal the private value: "
            f"{gate_window(worst['window'])} guess it with balanced accuracy {worst['accuracy']:.2f}, where fresh "
            f"scores reach {worst['control']:.2f} "
            f"(leak {worst['excess']:.2f}, interval {worst['low']:.2f} to {worst['high']:.2f}; {worst['nats']:.2g} "
            f"nats a reading). The guarantee assumes scores that do not depend on it, and does not hold as stated.{few}"
        )
    found = [each for each in windows if each["seen"] < 1.0 - each["control"]]
    sizes = join_names([f"{each['seen']:.2f} from {gate_window(each['window'])}" for each in found]) if found else ""
    if outcome == "passed":
        return (
            "No leak was found in the scores: a leak, in balanced accuracy above chance, would have been found nine "
            f"times out of ten from these sizes on: {sizes}. Smaller ones are not excluded."
        )
    seen = f" A leak would have been found from these sizes on: {sizes}." if sizes else ""
    return (
        "Whether the scores reveal the private value was not tested: there are too few readings, days or changes of "
        f"the value to tell.{few}{seen} The guarantee assumes that they do not: record more days, or merge values."
    )


GATE_HEAD = ("from", "accuracy", "fresh scores", "leak", "nats a reading", "seen from")
"""The head of the table of a gate."""


def gate_rows(gate: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each window of a stored gate; none for one of an earlier version."""
    attack = gate.get("attack") or {}
    return [
        (
            gate_window(w["window"], attack.get("unit", "day")),
            f"{w['accuracy']:.3f}",
            f"{w['control']:.3f}",
            f"{w['excess']:+.3f} [{w['low']:.2f}, {w['high']:.2f}]",
            f"{w['nats']:+.3f} [{w['nats_low']:.2f}, {w['nats_high']:.2f}]",
            f"{w['seen']:.2f}" if w["seen"] < 1.0 - w["control"] else "none",
        )
        for w in attack.get("windows") or ()
    ]


def gate_method(gate: Mapping[str, Any]) -> str:
    """How the table of a gate came about."""
    attack = gate["attack"]
    return (
        f"The classifier ({attack['learner']}) judged each {attack['unit']} after training on others "
        f"({with_count(attack['units'], attack['unit'])}); fresh scores are standard normals with the same labels. "
        "Accuracies are balanced, nats are gained over the prior of the labels, above fresh scores. The intervals hold "
        "together. A leak of the size in the last column would have been found nine times out of ten; none means that "
        "none could have been."
    )


def measure_name(name: str | None) -> str:
    """The name of a distortion in a sentence.

    >>> measure_name("mae"), measure_name("tolerant"), measure_name(None)
    ('mean absolute error', 'distortion (tolerant)', 'distortion')
    """
    return "distortion" if name is None else _MEASURES.get(name, f"distortion ({name})")


def page_title(kind: str, private: Hashable, readings: Sequence[Hashable]) -> str:
    """The heading of a page about a design; `private` is None where no column is known."""
    return kind if private is None else f"{kind}: {label(private)} behind {join_names(readings or ['the readings'])}"


def every_readings(every: int, period: float | None) -> str:
    """How often a causal design decides.

    >>> every_readings(15, 60.0)
    'every 15 readings (15 min)'
    """
    readings = "at every reading" if every == 1 else f"every {every} readings"
    return f"{readings} ({span(period * every)})" if period else readings


ChannelSize: TypeAlias = tuple[str, float, str]
"""A channel, its distortion, and the unit with a space before it."""
OVER_CHANNELS = "mean over channels, each in its own unit"


class Price(NamedTuple):
    """The distortion of a design as it is shown: its measure, size and unit, over how many readings.

    `several` says that the readings have several channels; `channels` are the figures of each, where they are known.
    """

    measure: str | None
    value: float
    error: float
    relative: float | None
    unit: str
    horizon: int | None
    moving: bool
    several: bool = False
    channels: tuple[ChannelSize, ...] = ()

    @property
    def size(self) -> str:
        """The distortion with its unit, a squared one without; channel by channel first where there are several."""
        plain = self.measure == "mse"
        mean = f"{digits(self.value, 4)}{'' if plain else self.unit}"
        if not self.several:
            return mean
        each = [f"{digits(size, 4)}{'' if plain else unit} in {name}" for name, size, unit in self.channels]
        return ", ".join([*each, f"{mean} as {OVER_CHANNELS}"])

    @property
    def share(self) -> str:
        """The distortion as a share of the mean reading."""
        if self.relative is None or self.several:  # a share of what has several units says nothing
            return ""
        return f"{100.0 * self.relative:.3g} percent of the mean reading"

    @property
    def words(self) -> str:
        """What the disguise does to the readings."""
        error = f" ({known_within(self.error, self.value)})" if self.error > 0.0 else ""
        share = f", {self.share}" if self.share else ""
        over = "" if self.horizon is None else f" over the first {self.horizon} readings"
        stays = " That is for values that stay so long; values that move have another distortion." * self.moving
        return (
            f"The price: the {measure_name(self.measure)} of a released reading is {self.size}{error}{share}, on "
            f"average{over}.{stays} Never drive ventilation or alarms from released readings."
        )


def models_fact(fits: bool | None) -> tuple[str, str]:
    """Whether the models were tested, and what was found."""
    return "The models were", _FITS[fits]


# Audits ---------------------------------------------------------------------------------------------------------------

Interval: TypeAlias = tuple[float, float, float]
"""A figure and the ends of its interval."""

AUDIT_ESTIMATED = (
    "No guarantee, audit only: the design's streams estimate the private value from the readings, and then no theorem "
    "holds. The figures are all that is known."
)
_TOO_LITTLE = "Too little data to tell"
UNCHANGED = (
    "The output equals the readings, in all that was judged: nothing was disguised, or the true value was drawn "
    "throughout."
)
_NO_PROOF = "This is no proof that nothing leaks: it says what these adversaries could detect in so many readings."
DATA = {
    "disguised": "the disguised output",
    "insider": "the disguised output, with labels of other days of the same period",
    "scores": "scores of the raw readings, and their running sums",
    "noise": "raw readings with noise of equal distortion, independent from reading to reading",
    "offset": "raw readings with an offset of equal distortion, constant over an epoch",
    "raw": "the raw readings",
}
"""What is attacked, in the order of tables."""
DATA_SHORT = {
    "disguised": "disguised output",
    "insider": "the same, insider labels",
    "scores": "scores and their sums",
    "noise": "raw, independent noise",
    "offset": "raw, constant offset",
    "raw": "raw readings",
}
"""The same in a legend."""


def interval(figure: Interval, count: int = 3, scale: float = 1.0) -> str:
    """The ends of an interval; empty where they are not known.

    >>> interval((0.5, 0.4, 0.6)), interval((0.5, float("nan"), 0.6))
    ('[0.4, 0.6]', '')
    """
    low, high = scale * figure[1], scale * figure[2]
    return "" if math.isnan(low) or math.isnan(high) else f"[{digits(low, count)}, {digits(high, count)}]"


def with_interval(figure: Interval | None, count: int = 3) -> str:
    """A figure with its interval, or a dash.

    >>> with_interval((1.5, 1.25, 1.75)), with_interval(None)
    ('1.5 [1.25, 1.75]', '-')
    """
    if figure is None or math.isnan(figure[0]):
        return "-"
    return f"{digits(figure[0], count)} {interval(figure, count)}".rstrip()


def share_of_100(figure: Interval) -> str:
    """A share as so many of 100, with its interval.

    >>> share_of_100((0.873, 0.86, 0.89))
    '87.3 of 100 [86, 89]'
    """
    if math.isnan(figure[0]):
        return "an unknown number of 100"
    return f"{100.0 * figure[0]:.3g} of 100 {interval(figure, scale=100.0)}".rstrip()


def share_in_percent(figure: Interval | None, sign: str = " percent") -> str:
    """A share in percent, with its interval.

    >>> share_in_percent((0.1334, 0.114, 0.154))
    '13.3 percent [11.4, 15.4]'
    """
    if figure is None or math.isnan(figure[0]):
        return "-"
    return f"{digits(100.0 * figure[0])}{sign} {interval(figure, scale=100.0)}".rstrip()


def p_value(p: float) -> str:
    """A p-value that is never shown as 0.

    >>> p_value(0.0421), p_value(1e-9), p_value(float("nan"))
    ('0.042', '<0.0001', '-')
    """
    return "-" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.2g}"


def at_least(figure: Interval) -> str:
    """The lower end of an interval, and never less than nothing.

    >>> at_least((0.1, 0.04, 0.16)), at_least((0.1, -0.04, 0.24)), at_least((float("nan"),) * 3)
    ('0.040', '0.000', '-')
    """
    value, low, _ = figure
    return "-" if math.isnan(value) else f"{max(0.0, 0.0 if math.isnan(low) else low):.3f}"


class Findings(NamedTuple):
    """What the sentence on the outcome of an audit depends on."""

    level: float
    """The false-alarm rate of all adversaries together."""
    clock: bool
    """Whether adversaries with the clock were tried."""
    released: bool
    bounded: bool
    """Whether a theorem bounds the error of a guess."""
    estimated: bool
    undefined: bool
    """Whether no p-value is defined."""
    beating: Sequence[str] = ()
    """The adversaries that beat the bound."""
    rate: str = ""
    """What bounds the leakage of a causal design, in words."""
    too_little: bool = False
    """Whether there is too little data to tell."""
    alone: bool = False
    """Whether something was learned without the clock."""
    best: tuple[str, Interval] | None = None
    """The best adversary that counts, and its balanced accuracy."""
    chance: float = math.nan
    """The balanced accuracy of who guesses without any data."""
    clock_alone: float = math.nan
    """That of who has the clock alone; NaN where nobody was tried with it."""
    best_has_clock: bool = False
    smallest: float = math.nan
    """The excess over that which would have been found four times of five."""
    at_stake: float = math.nan
    """The excess that the raw readings have."""
    days: float = math.nan
    days_needed: float = math.nan
    turned: Sequence[str] = ()
    """Adversaries that are right less often than chance."""


def finding(kind: str, facts: Findings) -> str:
    """The outcome of an audit with the figures that it rests on; `kind` as `outcome` takes it."""
    said = [outcome(kind, facts)]
    chance = "" if facts.best_has_clock else f"chance gives {100.0 * facts.chance:.3g}"
    clock = "" if math.isnan(facts.clock_alone) else f"the clock alone {100.0 * facts.clock_alone:.3g}"
    base = ", ".join(filter(None, (chance, clock))) if chance else clock.replace("alone", "alone gives")
    if facts.best is not None:
        said.append(f"The best of them, {facts.best[0]}, is right {share_of_100(facts.best[1])}; {base}.")
    quiet = kind in ("nothing", "clock only")
    if quiet and not math.isnan(facts.smallest):
        said.append(
            f"A leak of {facts.smallest:.2g} in balanced accuracy would have been found, four times of five"
            + (f", and the raw readings have {facts.at_stake:.2g}." if facts.too_little else ".")
        )
    if facts.too_little and not math.isnan(facts.days_needed):
        said.append(f"About {facts.days_needed:,.0f} judged days would do; these are {facts.days:,.3g}.")
    if facts.turned:
        many = len(facts.turned) > 1
        said.append(
            f"{', '.join(facts.turned)} {'are' if many else 'is'} right less often than chance: that is a leak with "
            "the sign turned, not safety."
        )
    if facts.at_stake < 0.05:
        said.append(
            "There is little to protect: the raw readings add less than 0.05 in balanced accuracy to "
            f"{'what the clock tells' if facts.clock else 'chance'}."
        )
    return " ".join(said)


def outcome(kind: str, facts: Findings) -> str:
    """The outcome of an audit; `kind` is a value of `understudy.adversaries.results.Outcome`."""
    alarm = f"(false-alarm rate {facts.level:g} for all together)"
    if kind == "none run":
        return "No adversary could be run on the disguised output: nothing is known from this audit."
    if kind == "broken":
        return (
            f"An adversary does better than the theorem allows ({', '.join(facts.beating)}). So one of the theorem's "
            "conditions does not hold for these readings. Do not rely on the bound."
        )
    if kind == "found":
        return _findings(facts)
    if kind == "not testable":
        return _not_testable(facts, alarm)
    if facts.too_little:
        return f"{_TOO_LITTLE}: no adversary learned anything {alarm}, and hardly any could have been found."
    if kind == "clock only":
        return (
            "Adversaries learned something about the private value, but no more than the clock gives: beyond the clock "
            f"they learned nothing {alarm}. {_NO_PROOF}"
        )
    if kind == "without clock":
        return (
            "Adversaries learned something about the private value without the clock, and were not tried with it: "
            "whether it is more than the clock gives is not known."
        )
    return f"No adversary learned anything {alarm}. {_NO_PROOF}"


def _findings(facts: Findings) -> str:
    beyond = " beyond the clock" if facts.clock else ""
    if facts.released:
        return f"Adversaries learned something about the private value from what was released{beyond}."
    if facts.bounded:
        return f"Adversaries learned something{beyond}, as they may: none did better than the theorem allows."
    learned = f"Adversaries learned something about the private value{beyond}"
    if facts.estimated:
        return f"{learned}."
    left = facts.rate or "No theorem bounds it for this use: the figures are all that is known."
    return f"{learned}, as a design with leakage allows. {left}"


def _not_testable(facts: Findings, alarm: str) -> str:
    if facts.alone:
        return (
            "Adversaries learned something about the private value without the clock. Whether it is more than the "
            "clock gives cannot be told: there are too few days for that."
        )
    few = f"{_TOO_LITTLE}: there are too few blocks of time."
    if facts.undefined:
        return (
            f"{few} The private value hardly varies in them, or not beyond the clock. That nothing was detected says "
            "nothing about the output."
        )
    return (
        f"{few} Even an adversary that is always right would not be detected {alarm}. That nothing was detected says "
        "nothing about the output. A longer recording is needed."
    )


def row_verdict(kind: str, clock: bool) -> str:
    """The verdict on one adversary; `kind` as `understudy.adversaries.results.row_outcome` gives it."""
    if kind in ("found", "nothing"):
        learned = "something" if kind == "found" else "nothing"
        return f"learns {learned} beyond the clock" if clock else f"learns {learned}"
    return {
        "reference": "for comparison",
        "broken": "BEATS THE BOUND",
        "not testable": "not testable",
        "clock only": "learns no more than the clock gives",
        "sign turned": "right less often than chance: a leak with the sign turned",
    }[kind]


# Rivals of a design, in an audit --------------------------------------------------------------------------------------

RIVALS = {
    "raw": "raw readings",
    "design": "this design",
    "constant": "constant output",
    "coin": "coin by epoch",
    "white noise": "white noise",
    "slow noise": "slow noise, half-life an hour",
}
"""What a design is compared with."""
RIVAL_COLUMNS = ("output", "at", "distortion", "percent of the mean", "of the constant's", "balanced accuracy")


def rival_line(
    name: str, level: str, distortion: Sequence[float], percent: Sequence[float], price: float, accuracy: Interval
) -> tuple[str, ...]:
    """A rival as a row of `RIVAL_COLUMNS`.

    >>> rival_line("coin", "equal accuracy", [48.0], [6.67], 0.178, (0.7, 0.7, 0.7))
    ('coin by epoch', 'equal accuracy', '48', '6.67', '0.178', '0.700')
    """
    sizes = ["; ".join("-" if math.isnan(x) else digits(x) for x in many) for many in (distortion, percent)]
    exact = accuracy[1] == accuracy[2]
    shown = f"{accuracy[0]:.3f}" if exact else f"{accuracy[0]:.3f} [{accuracy[1]:.3f}, {accuracy[2]:.3f}]"
    level = "" if level == "as it is" else level
    return RIVALS[name], level, *sizes, "-" if math.isnan(price) else f"{price:.3g}", shown


def rival_sentences(
    above: tuple[bool, bool], accuracy: float, coin: float, ratios: Sequence[float], adversaries: Sequence[str]
) -> list[str]:
    """Where a design stands beside a coin and the limit; `above`: whether it lies above the line, and clearly so."""
    line = f"at its distortion a coin by epoch gives {100.0 * coin:.3g} of 100, and the design {100.0 * accuracy:.3g}"
    if above[0]:
        sure = "" if above[1] else ", though within its interval"
        said = [f"The design lies above the coin line{sure}: {line}. A coin would hide more at this price."]
    else:
        said = [f"The design lies on or below the coin line: {line}."]
    known = [x for x in ratios if not math.isnan(x)]
    if known:
        times = "; ".join("-" if math.isnan(x) else f"{x:.3g}" for x in ratios)
        said.append(
            f"Its distortion is {times} times the least that any method needs to keep who sees single outputs to its "
            "accuracy (ratio to the limit)."
        )
    else:
        said.append("The limit is zero at its accuracy: single raw readings tell no more than that.")
    return [*said, f"All were attacked by {', '.join(adversaries)}, without the clock."]


def rate_bound(nats: float | None, simulated: bool) -> str:
    """What a theorem says of a causal design."""
    size = "" if nats is None else f", {nats:.4g} nats a decision,"
    when = "" if simulated else ", if its models and its chain are right"
    return (
        f"The rate of the design{size} bounds the leakage of the whole path on average{when}. There is no bound on the "
        "error of a single guess here: the figures are all that is known of it."
    )


def error_bound(bound: float, moving: bool) -> str:
    """The bound on the error of every adversary, with its conditions."""
    moves = "the parameter moving as assumed" if moving else "the parameter constant over the epoch"
    return (
        f"any guess is wrong with probability at least {percent(bound, 'down')}, at the stated prior, with {moves} and "
        "the model right"
    )


NO_LEARNERS = (
    "scikit-learn is not installed, so the strongest adversaries will not be tried; pip install 'understudy[sklearn]'"
)


def best_of(k: int) -> str:
    """That the best adversary was not known beforehand; empty where only one was tried."""
    if k < 2:
        return ""
    return (
        f"The best of {k} adversaries was chosen afterwards, so that chance makes it look a little better than it is."
    )


def judged_on(learned: int, guesses: int, blocks: int) -> str:
    """How much the figures rest on."""
    each = "sequences" if guesses == blocks else "blocks of time"
    return (
        f"Every adversary learned from {learned:,} labelled guesses and was judged on {guesses:,} others, in "
        f"{blocks:,} {each}: readings are autocorrelated, so intervals resample these, not single readings."
    )


def best_adversary(best: tuple[str, Interval] | None, raw: tuple[str, Interval] | None) -> str:
    """The best adversary by name and balanced accuracy, and the best on the raw readings; empty where none was run."""
    if best is None:
        return ""
    beside = f"; on the raw readings the best, {raw[0]}, has {share_in_percent(raw[1])}" if raw is not None else ""
    return f"The best adversary, {best[0]}, has a balanced accuracy of {share_in_percent(best[1])}{beside}."


def by_theorem(bound: str | None) -> str:
    """The bound of a theorem as a note; empty where there is none."""
    return "" if bound is None else f"by the theorem {bound}."


def figure_notes(confidence: float, distortion: Sequence[tuple[Interval, float]], prior_error: float) -> list[str]:
    """How the figures of an audit are to be read."""
    notes = [f"intervals are at {confidence:.0%}."]
    if distortion:
        notes.append(f"mean absolute distortion: {'; '.join(distortion_fact(*pair) for pair in distortion)}.")
    return [
        *notes,
        f"error of the best guess without the output: {prior_error:.4g}.",
        "nats: an estimate with its interval. At least the lower end was learned.",
    ]


def distortion_fact(figure: Interval, mean: float) -> str:
    """A measured distortion with its interval, and its share of the mean reading."""
    share = f", {100.0 * figure[0] / mean:.3g} percent of the mean reading" if mean > 0.0 else ""
    return f"{with_interval(figure)}{share}"


# Notes of an audit: what a reader must know beside the figures --------------------------------------------------------

SPLITS = {
    "halves": "the first half of the time is learned from, the second judged",
    "segments": "the first segments are learned from, the others judged",
    "alternate segments": "every second segment is learned from, the others judged",
    "alternate blocks": "blocks from all over the time are learned from and judged in turn, so that what is judged has "
    "neighbours on both sides that were learned from",
    "short alternate blocks": "blocks from all over the time are learned from and judged in turn, though the value "
    "stays longer than they do, so that what is judged has neighbours on both sides that were learned from",
    "recordings": "one recording is learned from, another one judged",
}
"""How a recording is cut into what is learned from and what is judged."""
CHAIN_NOTE = "the private value moves by the chain of the design, from one decision to the next"
HIDDEN_CLOCK_NOTE = "only one of the recordings has a clock: it is used for days, and no adversary sees it"
EXACT_P_NOTE = "p is exact: labels are permuted among independent sequences"
NO_SCORES_NOTE = "scores are not attacked: the models give none for readings with these gaps"
ESTIMATED_NOTE = "the design accepts private values that the edge estimates: no guarantee, audit only"
_WHY_FEWER = {
    "memory": "so many are held at a time",
    "models": "its models take their time",
    "decisions": "each decision takes its time",
}


def split_note(kind: str, complete: bool) -> str:
    """How a recording is cut; `complete` says that all values occur in both parts."""
    return SPLITS[kind] + ("" if complete else "; even so a private value does not occur in both parts")


def block_note(days: int | None, fewest: int) -> str:
    """What a block of time is, where the judged part has so many whole days, or no time is known."""
    if days is None:
        return (
            "no time is known, and a block is about as long as the private value stays: what lasts longer, as what the "
            "readings of "
            "a day have in common, is not accounted for"
        )
    if days >= fewest:
        return "a block is a day, or several where the private value stays for longer"
    return (
        f"the judged part has {days} whole day{'s' if days != 1 else ''}, and a block is about as long as the value "
        f"stays: dependence from day to day cannot be accounted for with fewer than {fewest} days"
    )


def epoch_note(epoch: int) -> str:
    """That a design for a constant value is played on one that moves."""
    return f"the private value moves, and the design is for a constant one: it draws anew every {epoch} readings"


def long_run_note(T: int) -> str:
    """That sequences are finite although the design is for the limit."""
    return f"the design is for the limit of long sequences; simulated ones have {T} readings"


def fewer_sequences(made: int, T: int, wanted: int, why: str) -> str:
    """That fewer sequences were simulated; `why` is "memory", "models" or "decisions"."""
    return f"{made:,} sequences of {T} readings were simulated in place of {wanted:,}: {_WHY_FEWER[why]}"


def withheld_note(outputs: float, refill: int) -> str:
    """That outputs of each judged copy are withheld."""
    return (
        f"of each judged copy {outputs:,.0f} outputs are withheld: the models need {refill} readings in a row at the "
        "beginning and after a gap; they are guessed from the others"
    )


def restart_note(gaps: float) -> str:
    """That filters begin anew after the gaps of each judged copy."""
    return (
        f"the models have no law across missing readings: at {gaps:,.0f} gaps of each judged copy the filters began "
        "anew, which a stream refuses to do"
    )


def premise_notes(spell: float | None) -> list[str]:
    """What the theorem assumes and real readings do not give; `spell` is how long theta stays, None if it may move."""
    notes = ["no bound is stated beside real readings: it holds where the models are right, and they are only fitted"]
    if spell is not None:
        notes.append(
            "the guarantee is for a value that is constant over an epoch and drawn with the stated prior; here it "
            f"stays for {spell:,.0f} readings on average, and draws for the same stay add up"
        )
    return notes


def shared_rows_note(shared: int, rows: int) -> str:
    """That rows are both learned from and judged."""
    return f"{shared:,} of {rows:,} judged rows are in the recording that was learned from as well"


def unknown_labels_note(labels: int) -> str:
    """That labels are no value of the family."""
    return f"{labels:,} labels are no value of the family, and are taken for unknown"


def absent_values_note(absent: int, values: int) -> str:
    """That values do not occur."""
    return f"{absent} of the {values} values do not occur among the judged; figures are of the others"


def blocks_note(blocks: int, fewest: int) -> list[str]:
    """How many blocks of time the figures rest on."""
    notes = [f"intervals and p rest on {blocks} blocks of time"]
    few = "there are so few blocks that little can be said about how much the figures vary"
    return [*notes, few] if blocks < fewest else notes


def no_power_note(clock: bool) -> str:
    """That nothing could have been found."""
    beyond = " beyond the clock" if clock else ""
    return f"who knows every label would not count as one that finds it{beyond}: there is too little"


# What is left of the readings for honest use --------------------------------------------------------------------------


def spans_in_draws(spans: int, over: str, copies: int) -> str:
    """How many days or blocks of time have a mean change of their own.

    >>> spans_in_draws(14, "day", 2)
    '14 whole days in 2 draws'
    """
    return f"{with_count(spans, 'whole day' if over == 'day' else 'block')} in {with_count(copies, 'draw')}"


def reading_error(
    channel: str, error: tuple[float, float, float], spread: Sequence[float], over: str, unit: str = ""
) -> str:
    """How far released readings are from the true ones: `error` is mean, share of the mean reading, and largest.

    `spread` are quantiles at 10, 50 and 90 percent of the mean changes of each of what `over` names.

    >>> reading_error("co2", (1.5, 0.0037, 9.0), [1.0, 1.4, 2.0], "14 days in 2 draws", " ppm")
    'co2 is off by 1.5 ppm on average, 0.37 percent of its mean absolute reading. Over 14 days in 2 draws that mean is \
1 ppm (10 percent), 1.4 ppm (median) and 2 ppm (90 percent); at most a reading is off by 9 ppm.'
    """
    mean, relative, largest = error
    if math.isnan(mean):
        return f"{channel}: no reading has an output beside it."
    share = "" if math.isnan(relative) else f", {digits(100.0 * relative, 2)} percent of its mean absolute reading"
    said = f"{channel} is off by {digits(mean)}{unit} on average{share}."
    if spread:
        low, middle, high = (f"{digits(x)}{unit}" for x in spread)
        said += f" Over {over} that mean is {low} (10 percent), {middle} (median) and {high} (90 percent)"
        said += f"; at most a reading is off by {digits(largest)}{unit}."
    return said


def daily_error(channel: str, error: float, days: int, unit: str) -> str:
    """How far a released daily mean is from the true one."""
    return f"{channel}: a daily mean is off by {digits(error)}{unit} on average ({with_count(days, 'day')})."


def spectrum_error(channel: str, decibels: float) -> str:
    """How far the spectrum of the output is from that of the readings."""
    return f"{channel}: the spectrum of the output is {decibels:.2g} dB from that of the readings."


def alarm_error(channel: str, above: str, shares: tuple[float, float, float], episodes: int) -> str:
    """What becomes of an alarm: the shares that are reported, reported by mistake, and missed."""
    reported, false, missed = ("-" if math.isnan(x) else f"{100.0 * x:.3g} percent" for x in shares)
    if not episodes:
        return f"{channel}: readings are never above {above}; the output is, {false} of the time."
    return (
        f"{channel}: of the time above {above}, {reported} is reported; of the other time, {false} is reported by "
        f"mistake; {missed} of {episodes} episodes are missed completely."
    )


# Notes of a fit -------------------------------------------------------------------------------------------------------

_FIT_NOTES = {
    # from a frame to a history
    "actuator": "{name!r} is an actuator; as a reading it is disguised with the others",
    "looks like an actuator": "{name!r} looks like an actuator: it must not be named public if it reacts to readings, "
    "since it would give the private parameter away",
    "rows without a label": "{count} without a label in {name!r}; their readings are not used",
    "bins": "{name!r} takes {values} values; they were put together as {bins} (bins={given!r} says the same, any other "
    "choice takes its place)",
    "rows without a reading": "{count} without a reading in {name!r}",
    "rows without some channels": "{count} with some channels missing counted as missing whole",
    "rows dropped": "{count} without {what} dropped",
    "unit of times": "the numbers in {name!r} were taken for times in {unit}, since 1970",
    "several zones": "the times have {count} zones; the hour of the day is counted in {zone}, the most frequent",
    "midnights": "the times of day pass midnight {count}; days were counted on from there",
    "rows sorted": "the rows were not in the order of time, and were sorted",
    "doubles": "{count} with the time of an earlier one dropped: the first was kept",
    "clock back": "{place}: the clock goes back by an hour, as where summer time ends; of two rows at one time the "
    "first was kept. Times in UTC or with a zone keep both",
    "clock forward": "{place}: the clock skips an hour, as where summer time begins; its rows count as missing. Times "
    "in UTC or with a zone have no such gap",
    "scale": "{place}: the readings jump to another range and stay there; if the unit or the sensor has changed, "
    "convert the rows before this one, or leave them out",
    "mark": "{place}: this reading and others ({count} in all) are one number that lies far from all the rest, as "
    "marks of missing readings do; leave such cells empty",
    "spreadsheet": "{place}: the numbers look like days as spreadsheets count them, and are taken for seconds; format "
    "the column as date and time, such as 2024-03-04 10:00, and export it again",
    "period": "the period is {period}, the spacing of the rows",
    "odd period": "the period is {period}, the spacing of the rows, and not a round one: 9 in 10 steps take {low:.6g} "
    "to {high:.6g} s. A stated period of {neat} would {what} in every {count}",
    "resampled": "rows of {native} were resampled to {period}: {how} in each period, the label that most of its rows "
    "have (of equals the later), stamped with its beginning",
    "thin periods": "{count} with less than half of the usual readings count as missing",
    "jitter": "time stamps stray by up to {stray:.3g} s from a period of {period} (99 in 100 by less); each row was "
    "moved to the nearest place",
    "rows on one place": "{count} on the place of an earlier one dropped",
    "single rows": "{count} of a single row dropped",
    "gaps": "{count} of more than {most} periods without a reading: a new segment begins after each",
    "public inputs filled": "{count} of segment {segment!r} without a public input; it keeps its last value ({lost} "
    "readings before the first are not used)",
    "no reading": "{gone} of {rows} without a reading",
    "few rows": "the value {value!r} of {private!r} has {count} only; its law can hardly be estimated from so few, put "
    "it in a bin with others",
    # grids and held readings
    "grid": "{name!r}: {grid}",
    "wide value": "{private} {value} holds very different counts, by a factor of {factor} and more, in too few blocks "
    "of time to test whether they are one value; finer bins leak less where they are not",
    "mixed value": "{private} {value} stands for several values: from block to block its scores differ more than one "
    "value explains (rank correlation {correlation:.2f} between the halves of {blocks} blocks){advice}",
    "range": "readings of {name!r} pile up at an end, as if clipped; later ones may go further, so that the range that "
    "the models allow goes on for a margin of a whole span; say limits=(low, high) where the sensor's range is known",
    "rounded first": "readings of {name!r} are rounded to {step:g} before anything else, so that those on a grid "
    "cannot be told from the others",
    "rounded form": "readings of {name!r} are written as {form}, which is a grid of its own; they are rounded to "
    "{step:g} before anything else",
    "moved to the grid": "{count} of {name!r} off the grid moved to its nearest value",
    "models on a grid": "the models live on a grid of step {steps} (OnGrid)",
    "models behind a grid": "the models are behind a grid of step {steps} (Quantised, {method})",
    "holds": "{name!r} holds its reading: {held:.0f} percent repeat the one before, every {hold} rows; its true period "
    "is {period}",
    "holds irregularly": "{name!r} holds its reading: {held:.0f} percent repeat the one before, typically {run} in a "
    "row, at no regular period: no model of such rows fits; state a period of about {period} (period={seconds:g})",
    "holds without times": "{name!r} holds its reading: {held:.0f} percent repeat the one before; give times, or every "
    "row once, so that no reading comes twice",
    # tests of the scores of held-out readings
    "scores: mean": "{who}: the scores have the mean {x:.3g}; 0 is right.",
    "scores: spread": "{who}: the scores have the standard deviation {x:.3g}; 1 is right.",
    "scores: shape": "{who}: the distribution functions of the scores and of a standard normal differ by "
    "up to {x:.3g}.",
    "scores: memory": "{who}: the scores have autocorrelation {x:.3g} at lag {lag}; 0 is right.",
    "scores: memory of the spread": "{who}: the sizes of the scores have autocorrelation {x:.3g} at lag {lag}; 0 is "
    "right.",
    "scores: channels": "{one} and {other}: their scores have the correlation {x:.3g}; 0 is right.",
    # public inputs, candidates and the choice among them
    "public input": "the public input {name!r} moves the readings {sure} ({errors:.1f} standard errors)",
    "no law across gaps": "{name} has no exact law across a missing reading: a stream stops there, or withholds the "
    "next readings until it has one again (gaps='withhold', which files do by themselves)",
    "law of another value": "the value {value!r} has {count} readings, too few: it has the law of {other!r}",
    "one law": "no value has {least} readings: all values share one law",
    "readings left out": "{left} of {of} readings were too far from their prediction and did not count",
    "readings set aside": "{aside} of {of} readings were set aside as bad samples, and the level was taken to jump at "
    "{cuts}",
    "set aside unsettled": "each fit set other readings aside than the one before; the last one stands",
    "heavy tails": "noise with heavy tails, which a normal law does not have, at {values}",
    "root moved": "a root of modulus {radius:.6g} was moved to {to:.6g}: the level must come to rest",
    "no law at the start": "the first {order} readings of a stream, and of what follows a gap, have no fitted law",
    "no sensor noise": "the likelihood asks for no sensor noise at all in some channel: the state is seen as it is",
    "free noise": "The law of the innovations is a mixture of normals, whose number is chosen on held-out time",
    "adaptive": "The models learn as they go. The first {order} readings of a stream, and of what follows a gap, have "
    "no fitted law; where one is a target, a fixed autoregression stands in for it",
    "no chance": "gives some held-out reading no chance at all",
    "model as asked for": "{name}, as asked for",
    "optimisation ended": "the optimisation was ended after {steps} steps, before it had settled",
}


def fit_note(kind: str, **facts: Hashable) -> str:
    """What was done to the data, or found on the way to a family.

    >>> fit_note("law of another value", value="3+", count=7, other="1-2")
    "the value '3+' has 7 readings, too few: it has the law of '1-2'"
    """
    return _FIT_NOTES[kind].format(**facts)


class Notes(list[str]):
    """The notes of a fit, one after the other.

    >>> notes = Notes()
    >>> notes.add("rows sorted")
    >>> notes.tally("doubles", 0)
    >>> notes.tally("rows dropped", 2, what="a time in 't'")
    >>> notes
    ['the rows were not in the order of time, and were sorted', "2 rows without a time in 't' dropped"]
    """

    def add(self, kind: str, **facts: Hashable) -> None:
        """One more note."""
        self.append(fit_note(kind, **facts))

    def tally(self, kind: str, count: int, noun: str = "row", **facts: Hashable) -> None:
        """One more note, where the count is not 0."""
        if count:
            self.add(kind, count=with_count(count, noun), **facts)


def best_model(name: str, alone: bool, limited: bool, runner: tuple[str, str] | None = None) -> str:
    """Why a model class was chosen; `runner` is the second and the margin: none, clear or unclear.

    >>> best_model("grey-box", False, False, ("AR(1), normal", "clear"))
    'grey-box predicts held-out readings best, clearly better than AR(1), normal'
    """
    if alone:
        return f"{name}, the only one that was tried"
    reason = f"{name} predicts held-out readings best{' of those that can be used' if limited else ''}"
    if runner is None:
        return reason
    second, margin = runner
    if margin == "none":
        return f"{reason}, by next to nothing: {second} does as well"
    return f"{reason}, {'clearly' if margin == 'clear' else 'not clearly'} better than {second}"


def chain_notes(
    values: Iterable[Hashable], shares: Iterable[float], durations: Iterable[float], timed: bool
) -> list[str]:
    """How often each value is there, and for how long: in seconds if `timed`, otherwise in rows.

    >>> chain_notes([0, 1], [0.8, 0.2], [600.0, 120.0], True)
    ['0: 80 percent of the time, for 10 min at a time', '1: 20 percent of the time, for 2 min at a time']
    """
    long = [span(float(round(time))) if timed else f"{time:.0f} rows" for time in durations]
    return [
        f"{value}: {100.0 * share:.0f} percent of the time, for {time} at a time"
        for value, share, time in zip(values, shares, long, strict=True)
    ]


def free_noise_offered(name: str, other: str, passes: bool) -> str:
    """That a class without an assumed shape of the noise was tried, since the scores of the first leak.

    >>> free_noise_offered("grey-box", "AR(1), free noise by class", True)
    'the scores of grey-box reveal the private value; AR(1), free noise by class passes the gate, and was taken instead'
    """
    first = f"the scores of {name} reveal the private value"
    if passes:
        return f"{first}; {other} passes the gate, and was taken instead"
    return f"{first}; {other} was tried instead, and does not pass either"


def grid_words(facts: Mapping[str, Any], fewest: int) -> str:
    """The grid of a channel, by the fields of a `Grid`; with fewer changes than `fewest` nothing is said of it."""
    step, coarser, readings = facts["step"], facts["mostly"], facts["readings"]
    if facts["values"] == 1 and readings > fewest:
        return f"constant: all {readings} readings are equal"
    if facts["changes"] < fewest:
        return f"too few readings to tell ({readings} readings, {facts['changes']} changes)"
    if step is None:
        said = ["no grid found"]
        if coarser is not None:
            share = f"{100.0 * coarser[1]:.0f} percent"
            said = [f"no grid holds nearly all readings, but {share} have the step {coarser[0]:.6g}"]
    elif facts["values"] == 2:
        said = [f"two values only, {step:.6g} apart"]
    else:
        said = [f"on a grid of step {step:.6g}" + (f", offset {facts['offset']:.6g}" if facts["offset"] else "")]
        if facts["share"] < 1.0:
            said.append(f"{100.0 * (1.0 - facts['share']):.2g} percent of readings off it")
        if facts["written"] is not None:
            said.append(f"written to {facts['written']:.3g}")
        if coarser is not None:
            said.append(f"{100.0 * coarser[1]:.0f} percent near the coarser step {coarser[0]:.6g}")
    if facts["sample_and_hold"]:
        every = f"every {facts['hold']} readings" if facts["hold"] else f"typically {facts['run']} in a row"
        source = "" if step is not None or facts["hold"] else ", or made from rounded readings"
        said.append(f"held{source}: {100.0 * facts['held']:.0f} percent repeat the reading before, {every}")
    ends = [name for name, end in (("smallest", facts["low"]), ("largest", facts["high"])) if end is not None]
    if ends:
        said.append(f"readings pile up at the {' and the '.join(ends)} value: clipped?")
    return "; ".join(said)


# Rows of many rooms -----------------------------------------------------------------------------------

_REFUSALS = {
    "range": "the filter would have left the range of numbers",
    "coarse": "64 readings in a row lie on a coarse grid, where the design declares full doubles",
    "unknown_room": "more rooms than are admitted",
    "unknown_value": "a private value that the design does not have",
    "untold": "no private value is known for the room yet",
    "duplicate": "another row has filled the slot",
    "late": "the time comes before one that was recorded",
    "infinite": "the reading is infinite",
    "off_cadence": "the time is too far from a slot",
    "budget": "the budget of the room is spent",
    "form": "not of the form that the design declares",
    "gap": "no law across the missing readings",
    "model": "the model of the room gave an error",
}


def refused_rows(counts: dict[str, int]) -> str:
    """Why rows of many rooms have no output.

    >>> refused_rows({"late": 3, "budget": 1})
    'rows without an output: 3 (the time comes before one that was recorded), 1 (the budget of the room is spent)'
    """
    return "rows without an output: " + ", ".join(f"{count} ({_REFUSALS[rule]})" for rule, count in counts.items())


# Tuning by measurement --------------------------------------------------------------------------------


def setting_words(setting: Mapping[str, Any]) -> str:
    """A setting in a few words.

    >>> setting_words({"model": "adaptive", "period": 900.0, "clock": False, "output": "lifelike", "budget": 0.0,
    ...     "fresh": 0.5})
    'adaptive, 15 min, lifelike output, fresh share 0.5, no budget'
    """
    period = setting["period"]
    parts = [str(setting["model"]), "period of the data" if period is None else f"{period / 60.0:g} min"]
    parts += ["clock"] if setting["clock"] else []
    budget = f"{setting['budget']:g} nats a day" if setting["budget"] else "no budget"
    return ", ".join([*parts, f"{setting['output']} output", f"fresh share {setting['fresh']:g}", budget])


def tuning_note(kind: str, **facts: Any) -> str:
    """One sentence about the search, for progress and notes."""
    if kind == "fitted":
        return f"{facts['model']}: fitted without block {facts['done']} of {facts['total']}"
    if kind == "path":
        period = "" if facts["period"] is None else f" at {facts['period'] / 60.0:g} min"
        return f"{facts['model']}{period} was left out: {facts['why']}"
    if kind == "setting":
        return f"{setting_words(facts)} was left out: {facts['why']}"
    figures = f"best adversary {facts['accuracy']:.3f}, at most {facts['upper']:.3f}"
    return f"{setting_words(facts)}: {100.0 * facts['size']:.1f} percent, {figures}"


def tuning_line(facts: Mapping[str, Any]) -> str:
    """The outcome of a search in a few words."""
    final = facts["final"]
    if final is None and not facts.get("steps", True):
        return "no setting could be measured"
    if final is None:
        return f"{facts['outcome']}; no design keeps adversaries to {facts['at_most']:g}"
    figures = f"{final['accuracy']:.2f} on days that tuning never saw, raw {final['raw']:.2f}"
    return f"{setting_words(facts['chosen']['setting'])}; {figures}, {100.0 * final['distortion']:.1f} percent change"


ADVICE = {
    "release": "Release.",
    "measured": "Release only with a measured protection.",
    "withhold": "Do not release.",
}
"""The heading of a verdict on a design, by its kind."""


def rivals_words(final: Mapping[str, Any]) -> str:
    """What the same adversaries reach otherwise on the same days; empty for figures of an earlier version."""
    if "coin" not in final:
        return ""
    clock = "" if final["clock"] is None else f"the time of day alone {final['clock']:.2f}, "
    return (
        f"On the same days: raw readings {final['raw']:.2f}, {clock}white noise of the same size {final['noise']:.2f}, "
        f"a coin by day of the same cost {final['coin']:.2f}; a constant gives nothing away and costs "
        f"{100.0 * final['constant']:.1f} percent."
    )


def more_days(seen: float | None) -> str:
    """That a test of the models could have missed a leak, and what would help."""
    size = (
        "a large leak" if seen is None or not math.isfinite(seen) else f"a leak below {seen:.2f} in balanced accuracy"
    )
    return (
        f"The models passed their test, but it would have missed {size}: the history has too few days. More labelled "
        "days would help."
    )


def verdict_line(advice: str, reasons: Sequence[str]) -> str:
    """A verdict and its first reason, for a warning beside other output."""
    return " ".join([ADVICE[advice], *reasons[:1]])


OTHER_WAYS = (
    "What would help: more labelled days, counts in place of presence or the other way round (--bins), another column "
    "of readings, or a design that needs no model (understudy design-coin)."
)


def best_adversary_words(accuracy: float) -> str:
    """What the best adversary of an audit reached."""
    return f"Measured on held-out readings: the best adversary has a balanced accuracy of {accuracy:.2f}."


def beyond_promise(best: float | None) -> str:
    """That an audit contradicts the guarantee."""
    figure = "" if best is None else f" (balanced accuracy {best:.2f})"
    return f"An adversary found more on held-out readings than the design allows{figure}: the models are wrong."


def tuning_sentences(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is promised, what was measured, and what it costs; or why there is no design."""
    limit, days = facts["at_most"], with_count(facts["days"], "day")
    what = "balanced accuracy" if facts["over"] == "chance" else "gain over the clock"
    if facts["outcome"] == "too few days":
        return (
            f"No design: with {days} even an output that does not depend on the readings could not be shown to keep "
            f"the {what} to {limit:g}. More labelled days are needed.",
        )
    if facts["outcome"] == "nothing passed" and not facts.get("steps", True):
        why = f": {facts['notes'][0]}" if facts.get("notes") else ""
        return (f"No design: no setting could be measured on {days}{why}".rstrip(".") + ".",)
    if facts["outcome"] == "nothing passed":
        return (f"No design: no setting that was tried keeps the {what} of every adversary to {limit:g}.",)
    chosen, final, share = facts["chosen"], facts["final"], 100.0 * facts["confidence"]
    nats, apart = facts["promise"] * facts["decisions_a_day"], with_count(final["days"], "day")
    promised = "nothing" if nats == 0.0 else f"at most {nats:.3g} nats a day in expectation"
    given = "whatever the readings" if chosen["setting"]["fresh"] == 1.0 else "if the models are right"
    return (
        f"Promised, {given}: the draws tell {promised}.",
        f"Measured against these adversaries, not promised: on {apart} that tuning never saw, the best of "
        f"{join_names(facts['adversaries'])} had a {what} of {final['accuracy']:.2f} "
        f"[{final['low']:.2f}, {final['high']:.2f}] at {share:.0f} percent confidence; raw readings gave "
        f"{final['raw']:.2f}.",
        f"Cost on {'that day' if final['days'] == 1 else 'those days'}: readings change by "
        f"{100.0 * final['distortion']:.1f} percent of their mean on average.",
        f"Setting: {setting_words(chosen['setting'])}.",
    )


NO_READING_ENTERS = (
    "What is released does not depend on the readings. It tells nothing about the private value, whatever the models, "
    "and is worth no more than a constant. No output that follows the readings was shown to hide enough; more labelled "
    "days may allow one."
)
CONSTANT_IS_BETTER = "On these days a constant costs no more and gives nothing away: prefer it, or label more days."


def constant_words(facts: Mapping[str, Any]) -> list[str]:
    """That a design which was tuned is no better than a constant, where it is not."""
    final, setting = facts["final"], facts["chosen"]["setting"]
    if setting["fresh"] == 1.0 and not setting["budget"] and not setting["clock"]:
        return [NO_READING_ENTERS]
    constant = final.get("constant")
    return [CONSTANT_IS_BETTER] if constant is not None and constant <= final["distortion"] else []


# What a notebook shows ------------------------------------------------------------------------------------------------

FRONTIER_CAPTION = "The least distortion at each leakage, proven between the bound and what the design has"
FRONTIER_HEAD = ("nats", "bits", "distortion", "lower bound", "every guess wrong")
FAMILY_CAPTION = "Models of the readings under each private value"
FAMILY_HEAD = ("value", "prior", "model")
STREAM_CAPTION = "Where the stream stands"
STREAM_FACTS = ("epoch", "readings", "nats charged")
ROWS_CAPTION = "What each adversary made of the readings"
