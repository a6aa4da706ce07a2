"""The report of a design: one page, for those who decide first and for those who check below. It opens offline.

>>> import understudy as us
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
>>> page = privacy_report(us.design(family, leakage=0.3, distortion="mae"))
>>> page.startswith("<!DOCTYPE html>"), "What is not protected" in page, "<svg" in page
(True, True, True)

The second half of the report, for whoever has to check: randomizer, trade-off, models, the gate, and the data.

The first half of the report, for whoever has to decide: what is hidden, from whom, how well, and what is not.

Every number here has its conditions beside it. Nothing assumes that the reader knows what a model is.
"""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

import numpy as np

from understudy import _html
from understudy import text as card
from understudy._html import box, bullets, details, figure, pairs, paragraphs, table
from understudy._version import __version__
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.design import Design
from understudy.report.facts import (
    HEAD,
    AnyDesign,
    about,
    candidates,
    card_of,
    day,
    doubts,
    fingerprint,
    measure_name,
    misfit,
    moving,
    relative_distortion,
    remarks,
    span,
    tradeoff,
    unit,
    warnings,
)
from understudy.report.svg import Curves, curve, heat_map

# The second half of the report, for whoever has to check: randomizer, trade-off, models, the gate, an ---


_HOW = {
    "exact": "exact, by enumeration of the beliefs",
    "merged": "by enumeration of the beliefs, good to 1e-6",
    "grid": "on a grid of beliefs, good to 1e-6",
    "simulation": "simulated, with the standard error given",
}


def randomizer(design: AnyDesign) -> str:
    """The kernel as a map and as a table, and the proof that goes with it."""
    first = isinstance(design, CausalDesign)
    kernel = (
        design.kernel(design.beliefs.prior.tolist()) if isinstance(design, CausalDesign) else design.randomizer.kernel
    )
    rows, columns = (
        [card.label(v) for v in design.values],
        [card.label(v) for v in design.pseudo],
    )
    when = "At the first decision, before anything is known; later ones depend on the draws so far. " if first else ""
    stays = [float(kernel[i, columns.index(name)]) for i, name in enumerate(rows) if name in columns]
    words = "Map of the randomizer: how often each true value (rows) plays each other value (columns)."
    if stays:
        words += f" The truth is played with probability {min(stays):.3f} to {max(stays):.3f}."
    picture = figure(
        heat_map(rows, columns, kernel.tolist(), words),
        f"{when}A row for each true value, a column for each that is played.",
    )
    head = ("true value", *columns)
    lines = [[name, *(_probability(x) for x in row)] for name, row in zip(rows, kernel.tolist(), strict=True)]
    shown = table("Probability that the true value plays the one above", head, lines, numbers=range(1, len(head)))
    return picture + details("The same as a table", shown) + _proof(design)


def _proof(design: AnyDesign) -> str:
    if isinstance(design, CausalDesign):
        return paragraphs(
            f"Each draw is optimal for what everybody who saw the earlier ones believes, at one slope for all "
            f"({design.slope:.6g} nats for a unit of distortion). Rate and distortion of the long run: "
            f"{_HOW.get(design.long_run.how, design.long_run.how)}."
        )
    gap = "none" if design.gap == 0.0 else f"{design.gap:.2g}"
    return paragraphs(
        f"Proof of the optimum: no randomizer within the budget has a distortion below {design.lower_bound:.8g}; this "
        f"one has {design.distortion:.8g} (gap {gap}, status {design.status})."
    )


def frontier(design: AnyDesign) -> str:
    """The trade-off with this design on it."""
    found = tradeoff(design)
    causal = isinstance(design, CausalDesign)
    here = (design.rate if isinstance(design, CausalDesign) else design.total_leakage), design.distortion
    name = measure_name(None if design.costs is None else design.costs.distortion)
    squared = design.costs is not None and design.costs.distortion == "mse"
    y = name + ("" if squared or not unit(about(design)) else f",{unit(about(design))}")
    x = "leakage, nats a decision" if causal else "leakage, nats"
    errors = None if found.errors is None else [100.0 * e for e in found.errors]
    drawn = Curves(found.leakages, found.distortions, errors, here, (x, y, "wrong guesses, at least, %"))
    words = (
        f"The {name} falls from {found.distortions[0]:.4g} where nothing leaks to {found.distortions[-1]:.4g} at "
        f"{found.leakages[-1]:.3g} nats. This design is at {here[0]:.3g} nats and {here[1]:.4g}."
    )
    told = (
        "Solid, left: distortion. Dashed, right: how often the best guess is wrong at least."
        if errors
        else "Distortion against leakage."
    )
    head = ["leakage, nats", "bit", name] + (["wrong guesses, at least"] if found.errors is not None else [])
    lines = []
    for k, (nats, d) in enumerate(zip(found.leakages, found.distortions, strict=True)):
        line = [f"{nats:.4g}", f"{nats / math.log(2.0):.4g}", f"{d:.5g}"]
        lines.append(line + ([card.percent(found.errors[k], "down")] if found.errors is not None else []))
    shown = table("The trade-off", head, lines, numbers=range(len(head)), named=False)
    return figure(curve(drawn, words), told) + details("The same as a table", shown)


def distortions(design: AnyDesign) -> str:
    """What each pair costs."""
    found = design.costs
    cost = design.beliefs.cost if isinstance(design, CausalDesign) else design.cost
    rows, columns = (
        [card.label(v) for v in design.values],
        [card.label(v) for v in design.pseudo],
    )
    lines = [
        [name, *("forbidden" if math.isinf(x) else f"{x:.5g}" for x in row)]
        for name, row in zip(rows, np.asarray(cost).tolist(), strict=True)
    ]
    name = measure_name(None if found is None else found.distortion)
    how = ""
    if found is not None:
        time = "in the limit of long sequences" if found.horizon is None else f"over {found.horizon} readings"
        how = f"Found {time}: {', '.join(sorted(set(found.method.ravel().tolist())))}."
    head = ("true value", *columns)
    return table(
        f"The {name} when the true value plays the one above", head, lines, numbers=range(1, len(head))
    ) + paragraphs(how)


def models(design: AnyDesign) -> str:
    """The model that was chosen, what it was chosen over, and its parameters."""
    model = about(design).get("model") or {}
    if not model:
        kinds = (
            sorted({type(design.family.model(v)).__name__ for v in design.values}) if design.family is not None else []
        )
        return paragraphs(
            f"The models were given, not fitted: {', '.join(kinds)}."
            if kinds
            else "The design was made from bare costs."
        )
    parts = paragraphs(f"Chosen: {model.get('reason') or model.get('name')}.")
    rows = candidates(model)
    if rows:
        caption = "Candidates, by log-likelihood per reading on blocks of time that were held out"
        parts += table(caption, HEAD, rows, numbers=(1, 2, 3, 4))
    parts += bullets(remarks(model))
    if model.get("parameters"):
        parts += details("Parameters", f"<pre>{_json(model['parameters'])}</pre>")
    return parts


def gate(design: AnyDesign) -> str:
    """Whether the models fit what was held out, test by test."""
    known = about(design)
    found = known.get("gate")
    found_wrong = doubts(known)
    alarm = box(found_wrong, warning=True) if found_wrong else paragraphs("All tests on held-out data were passed.")
    if not found:
        return alarm
    lines = []
    for v in found.get("verdicts") or ():
        where = v.get("class") if v.get("class") is not None else "all"
        lines.append(
            [
                str(v.get("name", "")), card.label(where), *(_number(v.get(key)) for key in ("value", "p", "limit")),
                "passed" if v.get("passed") else "failed", str(v.get("sentence") or ""),
            ]
        )  # fmt: skip
    head = ("Test", "Value", "Statistic", "p", "Limit", "Verdict", "In words")
    if found.get("scores") and found.get("false_alarm"):
        alarm += paragraphs(
            f"{found['scores']} scores of held-out readings were tested. A right model fails some test by chance with "
            f"a probability of about {found['false_alarm']:g}; one that passes is not proven right."
        )
    return alarm + (table("Scores on held-out data, test by test", head, lines, numbers=(2, 3, 4)) if lines else "")


def data(design: AnyDesign) -> str:
    """Columns, period, grid, how the parameter moves, and what was done to the data."""
    known = about(design)
    if not known:
        return paragraphs("Nothing is known about the data: the design was made from models alone.")
    rows = [
        ("Readings", ", ".join(map(str, known.get("readings") or ()))),
        ("Private column", str(known.get("private"))),
    ]
    rows += [
        (name, str(known[key])) for key, name in (("time", "Time column"), ("segment", "Segments by")) if known.get(key)
    ]
    if known.get("period"):
        rows.append(("Period", span(float(known["period"]))))
    public = (known.get("public") or {}).get("columns")
    if public:
        rows.append(("Public inputs, taken off and put back", ", ".join(map(str, public))))
    if known.get("bins"):
        names = known["bins"].get("names") if isinstance(known["bins"], dict) else known["bins"]
        rows.append(("Bins", ", ".join(map(str, names or ()))))
    if known.get("resampling"):
        how = known["resampling"]
        rows.append(("Resampled", f"{how.get('how')} of the rows in {span(how.get('period'))}"))
    rows += [(f"Grid of {name}", words) for name, words in _grids(known)]
    parts = pairs("The data", rows)
    parts += _chain(design)
    notes = [str(note) for note in known.get("notes") or ()]
    return parts + ("<h3>What was done to the data</h3>" + bullets(notes) if notes else "")


def _grids(known: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, grid in zip(known.get("readings") or (), known.get("grid") or (), strict=False):
        words = (
            "none found"
            if not grid
            else f"multiples of {grid.get('step'):g}" + (f" from {grid['offset']:g}" if grid.get("offset") else "")
        )
        found.append((str(name), words))
    return found


def _chain(design: AnyDesign) -> str:
    if isinstance(design, CausalDesign):
        T = design.beliefs.transitions
        names = [card.label(v) for v in design.values]
        which = "" if len(T) == 1 else f" (the first of {len(T)}, which take turns)"
        lines = [[name, *(f"{x:.4f}" for x in row)] for name, row in zip(names, T[0].tolist(), strict=True)]
        head = ("from", *names)
        return table(
            f"How the parameter moves from one decision to the next{which}", head, lines, numbers=range(1, len(head))
        )
    matrix = (about(design).get("chain") or {}).get("transition")
    if not isinstance(matrix, list):
        return ""
    names = [card.label(v) for v in design.values]
    if len(matrix) != len(names):
        return ""
    lines = [[name, *(f"{x:.5f}" for x in row)] for name, row in zip(names, matrix, strict=True)]
    head = ("from", *names)
    return table("How the parameter moved from one reading to the next", head, lines, numbers=range(1, len(head)))


def _json(parameters: Any) -> str:

    return escape(json.dumps(parameters, indent=1, ensure_ascii=False, default=str))


def _number(x: Any) -> str:
    if x is None:
        return "-"
    if isinstance(x, bool):
        return "yes" if x else "no"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def _probability(x: float) -> str:
    return "0" if x == 0.0 else "<0.0001" if x < 1e-4 else f"{x:.4f}"


# The first half of the report, for whoever has to decide: what is hidden, from whom, how well, and wh ---


_MISFIT = "Warning: the models do not fit"
_UNTESTED = "Warning: the models were not tested, or not all of them"
_REMINDER = "The bounds below are those of models that fit. Read the warning above first."


def page_title(design: AnyDesign) -> str:
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


# The report of a design: one page, for those who decide first and for those who check below. It opens ---


_NO_AUDIT = (
    "No audit has been made of this design. A theorem says what cannot be learned if its conditions hold; an audit "
    "says what adversaries did learn from real readings. They stand apart, and one does not replace the other."
)


def privacy_report(design: AnyDesign, audit: str = "") -> str:
    """The page of a design, or of a causal one, as HTML that loads nothing from elsewhere.

    `audit` is the HTML of an audit, which takes the place that is kept for it.
    """
    title = page_title(design)
    sections = [
        ("summary", "In short", summary(design)),
        ("guarantee", "What is guaranteed", guarantee(design)),
        ("open", "What is not protected here", not_protected(design)),
        ("randomizer", "The randomizer", randomizer(design)),
        ("frontier", "The trade-off", frontier(design)),
        ("costs", "What each pair costs", distortions(design)),
        ("models", "The models", models(design)),
        ("gate", "Do the models fit?", gate(design)),
        ("data", "The data", data(design)),
        ("audit", "Audit", audit or _html.paragraphs(_NO_AUDIT)),
    ]
    mark = fingerprint(design)
    made = f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")
    return _html.report(title, made, sections)
