"""The first half of the report, for whoever has to decide: what is hidden, from whom, how well, and what is not.

Every number here has its conditions beside it. Nothing assumes that the reader knows what a model is.
"""

from __future__ import annotations

import math
from typing import Any

from understudy.randomizer import card
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.result import Design
from understudy.report.page_facts import (
    AnyDesign,
    about,
    card_of,
    day,
    measure_name,
    misfit,
    relative_distortion,
    span,
    unit,
    warnings,
)
from understudy.report.page_parts import box, bullets, pairs, paragraphs
from understudy.report.page_paths import moving

_MISFIT = "Warning: the models do not fit"
_UNTESTED = "Warning: the models were not tested, or not all of them"
_REMINDER = "The bounds below are those of models that fit. Read the warning above first."


def title(design: AnyDesign) -> str:
    """The heading of the page."""
    known = about(design)
    if not known.get("private"):
        return "Privacy report"
    return f"Privacy report: {card.label(known['private'])} behind {_listed(known.get('readings') or ['the readings'])}"


def summary(design: AnyDesign) -> str:
    """Warnings first, then the whole matter in a few sentences and a table."""
    found = warnings(design)
    known = about(design)
    lead = _MISFIT if known.get("gate") is not None and misfit(known) else _UNTESTED
    alarm = box(found, warning=True, lead=lead) if found else ""
    return alarm + paragraphs(*sentences(design), moved(design)) + _glance(design)


def sentences(design: AnyDesign) -> tuple[str, ...]:
    """What is hidden, how, how much leaks and what it costs, a sentence or two each."""
    known = about(design)
    private = card.label(known.get("private") or "the private parameter")
    columns = _listed(known.get("readings") or ["the readings"])
    hidden = (
        f"This design hides {private} in {columns}. The true readings are replaced by readings with the law that they "
        "would have had under another value, drawn at random: an understudy plays the part. The law is exact if the "
        "models are right."
    )
    return hidden, leaks(design), costs(design)


def leaks(design: AnyDesign) -> str:
    """How much leaks, per what, under which conditions."""
    if isinstance(design, Design):
        return design.guarantee.headline
    if design.estimated:
        return card_of(design).headline
    every = _every(design)
    count = day(design)
    a_day = "" if count is None else f", which is {_bits(design.rate * count)} a day"
    return (
        f"A new value is drawn {every}, with memory of the draws before. In the long run a draw tells "
        f"{_bits(design.rate)} more on average than was known from those before it{a_day}; the very first one tells "
        f"{_bits(design.first_charge)}. This holds if the parameter moves as assumed, the models are right and "
        "decisions come from the clock."
    )


def costs(design: AnyDesign) -> str:
    """What the disguise does to the readings."""
    known, found = about(design), design.costs
    name = measure_name(None if found is None else found.distortion)
    relative = relative_distortion(design)
    share = "" if relative is None else f", {100.0 * relative:.3g} percent of the mean reading"
    error = "" if not design.distortion_error > 0.0 else f" (standard error {design.distortion_error:.2g})"
    squared = found is not None and found.distortion == "mse"
    size = f"{design.distortion:.4g}{'' if squared else unit(known)}{error}{share}"
    stays = " That is for values that stay so long; those that move cost another amount." if _causal(design) else ""
    over = "" if found is None or found.horizon is None else f" over the first {found.horizon} readings"
    return (
        f"The price: the {name} of a released reading is {size}, on average{over}.{stays} Never drive "
        "ventilation or alarms from released readings."
    )


def moved(design: AnyDesign) -> str:
    """What it costs where the value moves as it did in the data; nothing if that is not known."""
    found = moving(design)
    if found is None:
        return ""
    squared = design.costs is not None and design.costs.distortion == "mse"
    size = f"{found.distortion:.3g}{'' if squared else unit(about(design))}"
    return (
        f"Where the value moves as it did in the data, the same error is about {size} (standard error "
        f"{found.error:.2g}; {found.sequences} simulated sequences of {found.readings} readings, by the models)."
    )


def guarantee(design: AnyDesign) -> str:
    """The card with all measures."""
    lead = box([_REMINDER], warning=True) if warnings(design) else ""
    return lead + card_of(design).html()


def not_protected(design: AnyDesign) -> str:
    """What this data set leaves open, apart from what the card lists."""
    known = about(design)
    items = []
    if known.get("time"):
        items.append(f"The column {known['time']} leaves as it is: when readings come, and which are missing, is seen.")
    items.append(
        "Only the columns named above are filtered. Whatever else is passed on (with --keep, or in another file) may "
        "give the same fact away."
    )
    chain = known.get("chain") or {}
    if any(key for key in chain if "hour" in str(key)):
        items.append(
            "The time of day alone tells much about most private parameters. The bounds limit what the readings add to "
            "the stated odds, not what the clock tells by itself."
        )
    return bullets(items)


def _glance(design: AnyDesign) -> str:
    known = about(design)
    prior = design.beliefs.prior if isinstance(design, CausalDesign) else design.prior
    odds = ", ".join(
        f"{card.label(v)}: {card.percent(p, 'near')}" for v, p in zip(design.values, prior.tolist(), strict=True)
    )
    rows = [
        (
            "Hidden",
            f"{card.label(known.get('private') or 'the private parameter')}, one of {len(design.values)} values",
        ),
        ("Odds beforehand", odds),
        ("Filtered columns", _listed(known.get("readings") or ["not named"])),
    ]
    if known.get("period"):
        rows.append(("A reading every", span(float(known["period"]))))
    rows += [("Drawn", _drawn(design)), ("Leakage is counted per", _per(design))]
    if isinstance(design, Design):
        g = design.guarantee
        rows.append(
            (
                "Right guesses",
                f"{card.percent(g.guess_before, 'down')} without the readings, "
                f"at most {card.percent(g.guess_after, 'up')} with them"
                if g.holds
                else "no bound: the parameter is estimated from the readings",
            )
        )
    gate = known.get("gate")
    verdict = (
        "not tested"
        if gate is None
        else "tested, and they fit"
        if gate.get("passed")
        else "tested, and they do NOT fit"
    )
    rows.append(("The models were", verdict))
    return pairs("At a glance", rows)


def _drawn(design: AnyDesign) -> str:
    played = f"one of {len(design.pseudo)} values"
    return f"{played}, {_every(design)}" if isinstance(design, CausalDesign) else f"{played}, once an epoch"


def _per(design: AnyDesign) -> str:
    per = about(design).get("per") or ("decision" if _causal(design) else "run")
    if not isinstance(design, CausalDesign):
        return f"{per}: {_bits(design.total_leakage)} on average"
    count = day(design)
    if per == "day" and count is not None:
        return f"day ({count:g} decisions): {_bits(design.rate * count)} on average"
    return f"{per}: {_bits(design.rate)} on average"


def _every(design: CausalDesign) -> str:
    period = about(design).get("period")
    n = design.decision_every
    readings = "at every reading" if n == 1 else f"every {n} readings"
    return f"{readings} ({span(float(period) * n)})" if period else readings


def _bits(nats: float) -> str:
    return f"{card.number(nats / math.log(2.0), 'up')} bit ({card.number(nats, 'up')} nats)"


def _causal(design: Any) -> bool:
    return isinstance(design, CausalDesign)


def _listed(names: Any) -> str:
    words = [card.label(name) for name in names]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
