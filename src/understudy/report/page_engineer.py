"""The second half of the report, for whoever has to check: randomizer, trade-off, models, the gate, and the data."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from understudy.randomizer import card
from understudy.randomizer.causal.making import CausalDesign
from understudy.report.page_candidates import HEAD, candidates, remarks
from understudy.report.page_facts import AnyDesign, about, doubts, measure_name, span, unit
from understudy.report.page_frontier import tradeoff
from understudy.report.page_parts import box, bullets, details, figure, pairs, paragraphs, table
from understudy.report.page_pictures import Curves, curve, heat_map

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
    rows, columns = [card.label(v) for v in design.values], [card.label(v) for v in design.pseudo]
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
    rows, columns = [card.label(v) for v in design.values], [card.label(v) for v in design.pseudo]
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
    from html import escape

    return escape(json.dumps(parameters, indent=1, ensure_ascii=False, default=str))


def _number(x: Any) -> str:
    if x is None:
        return "-"
    if isinstance(x, bool):
        return "yes" if x else "no"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def _probability(x: float) -> str:
    return "0" if x == 0.0 else "<0.0001" if x < 1e-4 else f"{x:.4f}"
