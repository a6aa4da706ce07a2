"""The page of a design: first for those who decide, then for those who check. It opens offline.

The first half says what is hidden, from whom, how well, and what is not protected; nothing in it assumes that the
reader knows what a model is, and every number has its conditions beside it. The second half has the randomizer with its
proof, the trade-off, the models, the gate and the data.

Facts come from `understudy.report.facts`, sentences from `understudy.text`.

>>> import understudy as us
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
>>> page = privacy_report(us.design(family, leakage=0.3, distortion="mae"))
>>> page.startswith("<!DOCTYPE html>"), 'id="open"' in page, "<svg" in page
(True, True, True)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

import numpy as np

from understudy import _html, text
from understudy._html import box, bullets, details, figure, pairs, paragraphs, table
from understudy._types import Json, Plain, Value
from understudy._version import __version__
from understudy.randomizer.causal import CausalDesign
from understudy.report.facts import (
    HEAD,
    AnyDesign,
    about,
    candidates,
    card_of,
    day,
    doubts,
    fingerprint,
    fits,
    moving,
    price,
    prior_of,
    readings_of,
    remarks,
    tradeoff,
    unit,
    warnings,
)
from understudy.report.svg import Curves, curve, heat_map
from understudy.text import label


def privacy_report(design: AnyDesign, audit: str = "") -> str:
    """The page of a design as HTML that loads nothing from elsewhere.

    Parameters
    ----------
    design : Design or CausalDesign
        The design to describe.
    audit : str
        The HTML of an audit (`us.report.audit_html`), which takes the place that is kept for it.

    Returns
    -------
    str
        A whole page.

    """
    known = about(design)
    return _html.report(
        text.page_title("Privacy report", known.get("private"), readings_of(known)),
        made_by(design),
        [
            ("summary", "Summary", _summary(design)),
            ("guarantee", "Guarantee", _guarantee(design)),
            ("open", "What is not protected here", _not_protected(known)),
            ("randomizer", "Randomizer", _randomizer(design)),
            ("frontier", "Trade-off", frontier(design)),
            ("costs", "Distortion of each pair", _distortions(design)),
            ("models", "Models", _models(design)),
            ("gate", "Fit of the models", _gate(known)),
            ("data", "Data", _data(design)),
            ("audit", "Audit", audit or paragraphs(text.NO_AUDIT)),
        ],
    )


def made_by(design: AnyDesign | None) -> str:
    """The version of the software, and the beginning of the design's fingerprint."""
    mark = None if design is None else fingerprint(design)
    return f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")


# For those who decide -------------------------------------------------------------------------------------------------


def _summary(design: AnyDesign) -> str:
    """Warnings first, then the whole matter in a few sentences and a table."""
    found = warnings(design)
    title = text.WARNING_TITLES[False if fits(about(design)) is False else None]
    alarm = box(found, warning=True, lead=title) if found else ""
    return alarm + paragraphs(*sentences(design), _price_of_moving(design)) + _glance(design)


def sentences(design: AnyDesign) -> tuple[str, ...]:
    """What is hidden, how, how much leaks and what it costs, a sentence or two each."""
    known = about(design)
    return text.hides(known.get("private"), readings_of(known)), _leakage(design), price(design).words


def _leakage(design: AnyDesign) -> str:
    """How much leaks, per what, under which conditions."""
    if not isinstance(design, CausalDesign) or design.estimated:
        return card_of(design).headline
    count = day(design)
    a_day = None if count is None else design.rate * count
    return text.moving_leakage(_every(design), design.rate, a_day, design.first_charge)


def _price_of_moving(design: AnyDesign) -> str:
    """What it costs where the value moves as it did in the data; empty if that is not known."""
    found = moving(design)
    if found is None:
        return ""
    size = f"{found.distortion:.3g}{'' if price(design).measure == 'mse' else unit(about(design))}"
    return text.price_of_moving(size, found.error, found.sequences, found.readings)


def _guarantee(design: AnyDesign) -> str:
    """The card with all measures."""
    lead = box([text.READ_WARNING_FIRST], warning=True) if warnings(design) else ""
    return lead + card_of(design).html()


def _not_protected(known: Plain) -> str:
    """What this data set leaves open, apart from what the card lists."""
    items = [text.time_column(known["time"])] if known.get("time") else []
    items.append(text.UNFILTERED)
    if any("hour" in str(key) for key in known.get("chain") or {}):
        items.append(text.CLOCK_KNOWN)
    return bullets(items)


def _glance(design: AnyDesign) -> str:
    known = about(design)
    rows = text.glance(known.get("private"), design.values, prior_of(design), readings_of(known))
    if known.get("period"):
        rows.append(("A reading every", text.span(float(known["period"]))))
    drawn = _every(design) if isinstance(design, CausalDesign) else "once an epoch"
    rows += [("Drawn", f"one of {len(design.pseudo)} values, {drawn}"), ("Leakage is counted per", _per(design))]
    if not isinstance(design, CausalDesign):
        g = design.guarantee
        bounded = text.right_guesses(g.guess_before, g.guess_after)
        rows.append(("Right guesses", bounded if g.holds else "no bound: the parameter is estimated from the readings"))
    return pairs("At a glance", [*rows, text.models_fact(fits(known))])


def _per(design: AnyDesign) -> str:
    per = about(design).get("per")
    if not isinstance(design, CausalDesign):
        return f"{per or 'run'}: {text.bits_and_nats(design.total_leakage)} on average"
    count = day(design)
    if per == "day" and count is not None:
        return f"day ({count:g} decisions): {text.bits_and_nats(design.rate * count)} on average"
    return f"{per or 'decision'}: {text.bits_and_nats(design.rate)} on average"


def _every(design: CausalDesign) -> str:
    return text.every_readings(design.decision_every, about(design).get("period"))


# For those who check --------------------------------------------------------------------------------------------------


def _randomizer(design: AnyDesign) -> str:
    """The kernel as a map and as a table, and the proof that goes with it."""
    when = ""
    if isinstance(design, CausalDesign):
        kernel = design.kernel(prior_of(design))
        when = "At the first decision, before any draw; later ones depend on the earlier draws. "
        proof = text.causal_proof(design.slope, design.long_run.how)
    else:
        kernel = design.randomizer.kernel
        proof = text.optimum_proof(design.lower_bound, design.distortion, design.gap, design.status)
    rows, columns = [label(v) for v in design.values], [label(v) for v in design.pseudo]
    stays = [float(kernel[i, columns.index(name)]) for i, name in enumerate(rows) if name in columns]
    picture = figure(
        heat_map(rows, columns, kernel.tolist(), text.kernel_words(stays)),
        f"{when}A row for each true value, a column for each pseudo value.",
    )
    caption = "Probability of each pseudo value given the true value"
    shown = _matrix(caption, "true value", design.values, design.pseudo, kernel.tolist(), _probability)
    return picture + details("The same as a table", shown) + paragraphs(proof)


def frontier(design: AnyDesign) -> str:
    """The trade-off with this design on it."""
    found = tradeoff(design)
    causal = isinstance(design, CausalDesign)
    here = (design.rate if isinstance(design, CausalDesign) else design.total_leakage), design.distortion
    measure = price(design).measure
    name = text.measure_name(measure)
    y = name if measure == "mse" or not unit(about(design)) else f"{name},{unit(about(design))}"
    x = "leakage, nats a decision" if causal else "leakage, nats"
    errors = None if found.errors is None else [100.0 * e for e in found.errors]
    drawn = Curves(found.leakages, found.distortions, errors, here, (x, y, "wrong guesses, at least, %"))
    words = text.tradeoff_words(name, found.distortions[0], found.distortions[-1], found.leakages[-1], here)
    caption = "Distortion against leakage."
    if errors:
        caption = "Solid, left: distortion. Dashed, right: error of the best guess, at least."
    head = ["leakage, nats", "bit", name] + (["wrong guesses, at least"] if found.errors is not None else [])
    lines = []
    for k, (nats, d) in enumerate(zip(found.leakages, found.distortions, strict=True)):
        error = [] if found.errors is None else [text.percent(found.errors[k], "down")]
        lines.append([f"{nats:.4g}", f"{nats / math.log(2.0):.4g}", f"{d:.5g}", *error])
    shown = table("The trade-off", head, lines, numbers=range(len(head)), named=False)
    return figure(curve(drawn, words), caption) + details("The same as a table", shown)


def _distortions(design: AnyDesign) -> str:
    """The distortion of each pair."""
    costs = design.costs
    cost = design.beliefs.cost if isinstance(design, CausalDesign) else design.cost
    name = text.measure_name(None if costs is None else costs.distortion)
    caption = f"The {name} of each pseudo value given the true value"
    shown = _matrix(caption, "true value", design.values, design.pseudo, np.asarray(cost).tolist(), _cost)
    how = "" if costs is None else text.costs_found(costs.horizon, costs.method.ravel().tolist())
    return shown + paragraphs(how)


def _models(design: AnyDesign) -> str:
    """The model that was chosen, what it was chosen over, and its parameters."""
    model = about(design).get("model") or {}
    if not model:
        family = design.family
        kinds = [] if family is None else sorted({type(family.model(v)).__name__ for v in design.values})
        return paragraphs(text.models_given(kinds))
    parts = paragraphs(f"Chosen: {model.get('reason') or model.get('name')}.")
    rows = candidates(model)
    if rows:
        caption = "Candidates, by log-likelihood per reading on held-out blocks of time"
        parts += table(caption, HEAD, rows, numbers=(1, 2, 3, 4))
    parts += bullets(remarks(model))
    if model.get("parameters"):
        shown = json.dumps(model["parameters"], indent=1, ensure_ascii=False, default=str)
        parts += details("Parameters", f"<pre>{escape(shown)}</pre>")
    return parts


def _gate(known: Plain) -> str:
    """Whether the models fit held-out data, test by test."""
    found, wrong = known.get("gate"), doubts(known)
    parts = box(wrong, warning=True) if wrong else paragraphs(text.GATE_PASSED)
    if not found:
        return parts
    if found.get("scores") and found.get("false_alarm"):
        parts += paragraphs(text.gate_size(found["scores"], found["false_alarm"]))
    lines = []
    for v in found.get("verdicts") or ():
        numbers = [_number(v.get(key)) for key in ("value", "p", "limit")]
        where = label("all" if v.get("class") is None else v["class"])
        passed = "passed" if v.get("passed") else "failed"
        lines.append([str(v.get("name", "")), where, *numbers, passed, str(v.get("sentence") or "")])
    head = ("Test", "Value", "Statistic", "p-value", "Limit", "Verdict", "In words")
    return parts + (table("Scores on held-out data, test by test", head, lines, numbers=(2, 3, 4)) if lines else "")


def _data(design: AnyDesign) -> str:
    """Columns, period, grid, how the parameter moves, and what was done to the data."""
    known = about(design)
    if not known:
        return paragraphs(text.NO_DATA)
    rows = [("Readings", ", ".join(readings_of(known))), ("Private column", str(known.get("private")))]
    names = (("time", "Time column"), ("segment", "Segments by"))
    rows += [(name, str(known[key])) for key, name in names if known.get(key)]
    if known.get("period"):
        rows.append(("Period", text.span(float(known["period"]))))
    public = (known.get("public") or {}).get("columns")
    if public:
        rows.append(("Public inputs, subtracted and added again", ", ".join(map(str, public))))
    bins = known.get("bins")
    if bins:
        rows.append(("Bins", ", ".join(map(str, (bins.get("names") if isinstance(bins, dict) else bins) or ()))))
    how = known.get("resampling")
    if how:
        rows.append(("Resampled", f"{how.get('how')} of the rows in {text.span(how.get('period'))}"))
    grids = zip(readings_of(known), known.get("grid") or (), strict=False)
    rows += [(f"Grid of {name}", _grid(grid)) for name, grid in grids]
    notes = [str(note) for note in known.get("notes") or ()]
    done = f"<h3>What was done to the data</h3>{bullets(notes)}" if notes else ""
    return pairs("The data", rows) + _chain(design) + done


def _grid(grid: Plain | None) -> str:
    if not grid:
        return "none found"
    return f"multiples of {grid.get('step'):g}" + (f" from {grid['offset']:g}" if grid.get("offset") else "")


def _chain(design: AnyDesign) -> str:
    values = design.values
    if isinstance(design, CausalDesign):
        T = design.beliefs.transitions
        which = "" if len(T) == 1 else f" (the first of {len(T)}, which take turns)"
        caption = f"Transitions of the parameter from one decision to the next{which}"
        return _matrix(caption, "from", values, values, T[0].tolist(), lambda x: f"{x:.4f}")
    matrix = (about(design).get("chain") or {}).get("transition")
    if not isinstance(matrix, list) or len(matrix) != len(values):
        return ""
    caption = "Transitions of the parameter from one reading to the next"
    return _matrix(caption, "from", values, values, matrix, lambda x: f"{x:.5f}")


def _matrix(
    caption: str,
    corner: str,
    rows: Iterable[Value],
    columns: Sequence[Value],
    cells: Iterable[Sequence[float]],
    shown: Callable[[float], str],
) -> str:
    """Numbers by value and pseudo value, or by value and value."""
    lines = [[label(name), *(shown(x) for x in row)] for name, row in zip(rows, cells, strict=True)]
    return table(caption, (corner, *map(label, columns)), lines, numbers=range(1, len(columns) + 1))


def _number(x: Json) -> str:
    if x is None:
        return "-"
    if isinstance(x, bool):
        return "yes" if x else "no"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def _probability(x: float) -> str:
    return "0" if x == 0.0 else "<0.0001" if x < 1e-4 else f"{x:.4f}"


def _cost(x: float) -> str:
    return "forbidden" if math.isinf(x) else f"{x:.5g}"
