"""The pages of a design and of an audit: first for those who decide, then for those who check. They open offline.

The first half of a design's page says what is hidden, from whom, how well, and what is not protected; nothing in it
assumes that the reader knows what a model is, and every number has its conditions beside it. The second half has the
randomizer with its proof, the trade-off, the models, the gate and the data.

The first half of an audit's page says what was tried, what was learned and what stays open. A theorem and an experiment
stand apart: the one holds for every adversary under conditions, the other for these adversaries and these readings. The
second half has every figure, the fit of the models, what is left of the readings for honest use, and how the figures
were made.

Facts come from `understudy.report.facts` and `understudy.adversaries.results`, sentences from `understudy.text`,
pictures from `understudy.report.svg`.

>>> import understudy as us
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
>>> page = privacy_report(us.design(family, leakage=0.3, distortion="mae"))
>>> page.startswith("<!DOCTYPE html>"), 'id="open"' in page, "<svg" in page
(True, True, True)
>>> from understudy.adversaries.results import Audit, Row
>>> half = Figure(0.5, 0.45, 0.55)
>>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
>>> page = audit_report(Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False))
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
from understudy._html import (
    box,
    bullets,
    details,
    figure,
    page_entry,
    page_list,
    page_table,
    page_text,
    pairs,
    paragraphs,
    table,
)
from understudy._types import Json, Plain, Value
from understudy._version import __version__
from understudy.adversaries import results
from understudy.adversaries.results import Audit, Row, clock_reference, mark, sort_rows, strongest
from understudy.adversaries.statistics import Figure, Scores
from understudy.adversaries.utility import QUANTILES, Channel
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.coin import CoinDesign
from understudy.report.facts import (
    HEAD,
    Advice,
    AnyDesign,
    DrawDesign,
    Guide,
    about,
    advise,
    audit_guides,
    audit_lines,
    bounds_hold,
    candidates,
    card_of,
    day,
    doubts,
    fingerprint,
    fits,
    moving_facts,
    price,
    prior_of,
    readings_of,
    remarks,
    tradeoff,
    unit,
    warnings,
)
from understudy.report.svg import Curves, bells, curve, distributions, dots, heat_map, memories, rival_plane
from understudy.text import join_names, label

_MORE = 0.02  # balanced accuracy that is more than a tie
_MOST = 12  # panels of scores
_OPEN = "What is not protected here"


def privacy_report(design: AnyDesign, audit: str = "") -> str:
    """The page of a design as HTML that loads nothing from elsewhere.

    Parameters
    ----------
    design : Design, CausalDesign or CoinDesign
        The design to describe.
    audit : str
        The HTML of an audit (`us.report.audit_html`), which takes the place that is kept for it.

    Returns
    -------
    str
        A whole page.

    """
    known = about(design)
    title = text.page_title("Privacy report", known.get("private"), readings_of(known))
    last = ("audit", "Audit", audit or paragraphs(page_text("no_audit")))
    if isinstance(design, CoinDesign):
        found = warnings(design)
        alarm = box(found, warning=True, lead=text.WARNING_TITLES[None]) if found else ""
        summary = alarm + paragraphs(design.guarantee.headline) + pairs("At a glance", design.guarantee.facts.facts)
        sections = [("summary", "Summary", summary), ("guarantee", "Guarantee", card_of(design).html())]
        return _html.report(title, made_by(design), [*sections, ("open", _OPEN, _open_points(known)), last])
    return _html.report(
        title,
        made_by(design),
        [
            ("summary", "Summary", _design_summary(design)),
            ("guarantee", "Guarantee", _guarantee(design)),
            ("open", _OPEN, _open_points(known)),
            ("randomizer", "Randomizer", _randomizer(design)),
            ("frontier", "Trade-off", frontier(design)),
            ("costs", "Distortion of each pair", _distortions(design)),
            ("models", "Models", _models(design)),
            ("gate", "Fit of the models", _gate(known)),
            ("data", "Data", _data(design)),
            last,
        ],
    )


def made_by(design: AnyDesign | None) -> str:
    """The version of the software, and the beginning of the design's fingerprint."""
    mark = None if design is None else fingerprint(design)
    return f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")


# Of a design, for those who decide ------------------------------------------------------------------------------------


def _design_summary(design: DrawDesign) -> str:
    """The verdict and warnings first, then the whole matter in a few sentences and a table."""
    advice, drawn = advise(design), "decision" if isinstance(design, CausalDesign) else "epoch"
    found = warnings(design)
    if advice is not None:
        found = [words for words in found if words not in advice[1] and advice[0] is Advice.RELEASE]
    title = text.WARNING_TITLES[False if fits(about(design)) is False else None]
    alarm = box(found, warning=True, lead=title) if found else ""
    return (
        advice_box(advice)
        + alarm
        + paragraphs(*sentences(design), _price_of_moving(design))
        + _words("private", "prior", "pseudo", drawn, "score", "leakage", *(("fresh",) if design.fresh else ()))
        + _design_glance(design)
    )


def _words(*names: str) -> str:
    """What words mean, where they are first used."""
    said = (page_entry("words", name) for name in names)
    return pairs("Words", [(word, meaning) for word, _, meaning in (each.partition(": ") for each in said)])


def advice_box(advice: tuple[Advice, list[str]] | None) -> str:
    """The verdict with its reasons."""
    if advice is None:
        return ""
    return box(advice[1], warning=advice[0] is Advice.WITHHOLD, lead=text.ADVICE[advice[0]])


def sentences(design: DrawDesign) -> tuple[str, ...]:
    """What is hidden, how, how much leaks and what it costs, a sentence or two each."""
    known = about(design)
    private, readings = label(known.get("private") or "the private parameter"), readings_of(known) or ["the readings"]
    how = "hides" if design.outputs is None else "hides_by_filter"
    hidden = page_text(how, private=private, readings=join_names(readings))
    moves = isinstance(design, CausalDesign)
    share = f"Fresh share {text.fresh_words(design.fresh, moves, card_of(design).holds)}"
    found = [hidden, _leakage(design), price(design).words, *([share] if design.fresh else ())]
    return *found, *([text.output_words(design.output_facts)] if design.outputs is not None else ())


def _leakage(design: DrawDesign) -> str:
    """How much leaks, per what, under which conditions."""
    if not isinstance(design, CausalDesign) or design.estimated:
        return card_of(design).headline
    count = day(design)
    day_ = "" if count is None else f", which is {text.bits_and_nats(design.rate * count)} a day"
    rate, first = text.bits_and_nats(design.rate), text.bits_and_nats(design.first_charge)
    return page_text("moving_leakage", every=_every(design), rate=rate, day=day_, first=first)


def _price_of_moving(design: DrawDesign) -> str:
    """What it costs where the value moves as it did in the data; empty if that is not known."""
    found = moving_facts(design)
    if found is None:
        return ""
    size = f"{text.digits(found.distortion)}{'' if price(design).measure == 'mse' else unit(about(design))}"
    return page_text(
        "price_of_moving", size=size, known=text.known_within(found.error, found.distortion), **found._asdict()
    )


def _guarantee(design: DrawDesign) -> str:
    """The card with all measures."""
    if bounds_hold(design):
        return card_of(design).html()
    return box([page_text("read_warning_first")], warning=True) + _card(design)


def _card(design: AnyDesign) -> str:
    """The card; its claim stands out only where it may be taken for a promise."""
    shown = card_of(design).html()
    return shown if bounds_hold(design) else f'<div class="doubted">{shown}</div>'


def _open_points(known: Plain) -> str:
    """What this data set leaves open, apart from what the card lists."""
    items = [page_text("time_column", name=label(known["time"]))] if known.get("time") else []
    items.append(page_text("unfiltered"))
    if any("hour" in str(key) for key in known.get("chain") or {}):
        items.append(page_text("clock_known"))
    return bullets(items)


def _design_glance(design: DrawDesign) -> str:
    known = about(design)
    rows = [
        ("Hidden", f"{label(known.get('private') or 'the private parameter')}, one of {len(design.values)} values"),
        ("Prior", text.prior_words(design.values, prior_of(design))),
        ("Filtered columns", join_names(readings_of(known) or ["not named"])),
    ]
    if known.get("period"):
        rows.append(("A reading every", text.span(float(known["period"]))))
    drawn = _every(design) if isinstance(design, CausalDesign) else "once an epoch"
    rows += [("Drawn", f"one of {len(design.pseudo)} values, {drawn}"), ("Leakage is counted per", _per(design))]
    if not isinstance(design, CausalDesign):
        g = design.guarantee
        bounded = text.right_guesses(g.guess_before, g.guess_after)
        rows.append(("Right guesses", bounded if g.holds else "no bound: the parameter is estimated from the readings"))
    if known.get("tuning"):
        rows.append(("Found by tuning", text.setting_words(known["tuning"]["chosen"]["setting"])))
    return pairs("At a glance", [*rows, text.models_fact(fits(known))])


def _per(design: DrawDesign) -> str:
    per = about(design).get("per")
    if not isinstance(design, CausalDesign):
        return f"{per or 'run'}: {text.bits_and_nats(design.total_leakage)} on average"
    count = day(design)
    if per == "day" and count is not None:
        return f"day ({count:g} decisions): {text.bits_and_nats(design.rate * count)} on average"
    return f"{per or 'decision'}: {text.bits_and_nats(design.rate)} on average"


def _every(design: CausalDesign) -> str:
    return text.every_readings(design.decision_every, about(design).get("period"))


# Of a design, for those who check -------------------------------------------------------------------------------------


def _randomizer(design: DrawDesign) -> str:
    """The kernel as a map and as a table, and the proof that goes with it."""
    when = ""
    if isinstance(design, CausalDesign):
        kernel = design.kernel(prior_of(design))
        when = "At the first decision, before any draw; later ones depend on the earlier draws. "
        how = design.long_run.how
        proof = page_text("causal_proof", slope=design.slope, how=page_entry("long_run", how))
    else:
        kernel = design.randomizer.kernel
        gap = "none" if design.gap == 0.0 else f"{design.gap:.2g}"
        facts = {"lower": design.lower_bound, "distortion": design.distortion, "status": design.status}
        proof = page_text("optimum_proof", gap=gap, **facts)
    if design.outputs is not None:
        proof = text.output_words(design.output_facts)
    rows, columns = [label(v) for v in design.values], [label(v) for v in design.pseudo]
    stays = [float(kernel[i, columns.index(name)]) for i, name in enumerate(rows) if name in columns]
    words = page_text("kernel")
    if stays:
        words += f" {page_text('kernel_stays', least=min(stays), most=max(stays))}"
    picture = figure(
        heat_map(rows, columns, kernel.tolist(), words),
        f"{when}A row for each true value, a column for each pseudo value.",
    )
    caption = "Probability of each pseudo value given the true value"
    shown = _matrix(caption, "true value", design.values, design.pseudo, kernel.tolist(), _probability)
    return picture + details("The same as a table", shown) + paragraphs(proof)


def frontier(design: DrawDesign) -> str:
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
    ends = {"first": found.distortions[0], "last": found.distortions[-1], "most": found.leakages[-1]}
    words = page_text("tradeoff", name=name, here=here, **ends)
    caption = "Distortion against leakage."
    if errors:
        caption = "Solid, left: distortion. Dashed, right: error of the best guess, at least."
    head = ["leakage, nats", "bit", name] + (["wrong guesses, at least"] if found.errors is not None else [])
    lines = []
    for k, (nats, d) in enumerate(zip(found.leakages, found.distortions, strict=True)):
        error = [] if found.errors is None else [text.percent(found.errors[k], "down")]
        lines.append([f"{nats:.4g}", f"{nats / math.log(2.0):.4g}", text.digits(d, 5), *error])
    shown = table("The trade-off", head, lines, numbers=range(len(head)), named=False)
    return figure(curve(drawn, words), caption) + details("The same as a table", shown)


def _distortions(design: DrawDesign) -> str:
    """The distortion of each pair."""
    costs = design.costs
    cost = design.beliefs.cost if isinstance(design, CausalDesign) else design.cost
    name = text.measure_name(None if costs is None else costs.distortion)
    caption = f"The {name} of each pseudo value given the true value"
    shown = _matrix(caption, "true value", design.values, design.pseudo, np.asarray(cost).tolist(), _cost)
    if costs is None:
        return shown
    time = "in the limit of long sequences" if costs.horizon is None else f"over {costs.horizon} readings"
    return shown + paragraphs(f"Found {time}: {', '.join(sorted(set(costs.method.ravel().tolist())))}.")


def _models(design: DrawDesign) -> str:
    """The model that was chosen, what it was chosen over, and its parameters."""
    model = about(design).get("model") or {}
    if not model:
        family = design.family
        kinds = [] if family is None else sorted({type(family.model(v)).__name__ for v in design.values})
        given = f"The models were given, not fitted: {', '.join(kinds)}."
        return paragraphs(given if kinds else "The design was made from bare costs.")
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
    """What scores of readings that the models have not seen tell of the private value; the diagnostics below it."""
    found, wrong = known.get("gate"), doubts(known)
    passed = str((found or {}).get("sentence") or page_text("gate_passed"))
    parts = box(wrong, warning=True) if wrong else paragraphs(passed)
    if not found:
        return parts
    if found.get("scores") and found.get("false_alarm"):
        parts += paragraphs(page_text("gate_size", scores=found["scores"], false_alarm=found["false_alarm"]))
    rows = text.gate_rows(found)
    if rows:
        parts += table("Private value from the scores", text.GATE_HEAD, rows, numbers=range(1, len(text.GATE_HEAD)))
        parts += paragraphs(text.gate_method(found), page_text("gate_diagnostics"))
    lines = []
    for v in found.get("verdicts") or ():
        numbers = [_number(v.get(key)) for key in ("value", "p", "limit")]
        where = label("all" if v.get("class") is None else v["class"])
        seen = "none seen" if v.get("passed") else "deviation"
        lines.append([str(v.get("name", "")), where, *numbers, seen, str(v.get("sentence") or "")])
    return parts + (page_table("gate", lines) if lines else "")


def _data(design: DrawDesign) -> str:
    """Columns, period, grid, how the parameter moves, and what was done to the data."""
    known = about(design)
    if not known:
        return paragraphs(page_text("no_data"))
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


def _chain(design: DrawDesign) -> str:
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
    return "forbidden" if math.isinf(x) else text.digits(x, 5)


def audit_report(audit: Audit, design: AnyDesign | None = None, scores: Scores | None = None) -> str:
    """The page of an audit as HTML that loads nothing from elsewhere.

    Parameters
    ----------
    audit : Audit
        What adversaries learned.
    design : Design or CausalDesign, optional
        The design that was audited; its card and its trade-off are then on the page too.
    scores : Scores, optional
        The scores of the raw readings under the models.

    Returns
    -------
    str
        A whole page.

    """
    known = {} if design is None else about(design)
    drawn = None if isinstance(design, CoinDesign) else design
    curve = "" if drawn is None else paragraphs(page_text("by_theorem")) + frontier(drawn)
    return _html.report(
        text.page_title("Audit", known.get("private"), readings_of(known)),
        made_by(design),
        [
            ("summary", "Summary", _summary(audit, design) + _glance(audit, design)),
            ("tried", "Adversaries and their verdicts", _adversary_sentences(audit)),
            ("apart", "Theorem and experiment", _apart(audit, design)),
            ("rivals", "Rivals and the limit", _rivals(audit)),
            ("open", "What is not protected", _not_protected(audit, known.get("time"))),
            ("adversaries", "All figures", _adversaries(audit)),
            ("fit", "Fit of the models", _fit(audit, scores)),
            ("frontier", "Trade-off", curve),
            ("utility", "Utility", _utility(audit)),
            ("method", "Method", _method(audit)),
        ],
    )


def audit_html(audit: Audit, scores: Scores | None = None) -> str:
    """The audit as a part of another page: what `privacy_report(design, audit=...)` takes.

    The card, the trade-off and what is not protected stand on that page already.
    """
    sections = (
        ("Adversaries and their verdicts", _adversary_sentences(audit)),
        ("Theorem and experiment", _apart(audit, None)),
        *((("Rivals and the limit", _rivals(audit)),) if audit.rivals is not None else ()),
        ("All figures", _adversaries(audit)),
        ("Fit of the models", _fit(audit, scores)),
        ("Utility", _utility(audit)),
        ("Method", _method(audit)),
    )
    return _summary(audit, None) + "".join(f"<h3>{escape(title)}</h3>{content}" for title, content in sections)


# Of an audit, for those who decide ------------------------------------------------------------------------------------


def _summary(audit: Audit, design: AnyDesign | None) -> str:
    """The outcome, warnings about the models, how often the best adversary is right, and what that rests on."""
    warning = results.warns(audit)
    one_release = audit.how == "released" and (audit.utility is not None or bool(audit.distortion))
    notes = [text.sentence(note) for note in audit.notes]
    advice = None if design is None else advise(design, audit)
    found = [] if design is None or advice is not None else warnings(design)
    return (
        advice_box(advice)
        + box([results.verdict(audit)], warning=warning, lead="Warning" if warning else "Outcome")
        + (box([page_text("one_release")], warning=True, lead="Keep this page secret") if one_release else "")
        + (box(found, warning=True, lead="The models") if found else "")
        + paragraphs(f"The audit was made {page_entry('attacked', audit.how)}.")
        + _words("private", "balanced", "score", "clock")
        + pairs("Right guesses of 100", right_guesses(audit))
        + paragraphs(
            _accuracy_note(audit),
            learned_sentence(audit),
            premise(audit),
            results.basis(audit),
        )
        + (box(notes, lead="Notes") if notes else "")
    )


def _accuracy_note(audit: Audit) -> str:
    """What numbers of right guesses mean."""
    noise = page_text("noise") if audit.of("noise") else ""
    said = (
        page_text("accuracy", confidence=100.0 * audit.confidence),
        noise,
        text.best_of(results.adversary_count(audit)),
    )
    return " ".join(words for words in said if words)


def right_guesses(audit: Audit) -> text.Pairs:
    """How often the best adversary is right, and beside it those who see less or more: who, and of 100 guesses."""
    share, clock = results.blind_accuracy(audit), clock_reference(audit)
    absent = ", as the most probable value does not occur among the judged" if share == 0.0 else ""
    found = [*_best_of_each(audit, False), ("Without any data", f"{100.0 * share:.3g} of 100{absent}")]
    if clock is not None:
        found.append(("From the clock alone", text.share_of_100(clock.balanced)))
    return found + _best_of_each(audit, True)


def _best_of_each(audit: Audit, clock: bool) -> text.Pairs:
    best = {title: strongest(audit, data, clock) for data, title in text.DATA.items()}
    lead = "From the clock and " if clock else "From "
    return [
        (f"{lead}{title} ({row.title or row.adversary})", text.share_of_100(row.balanced))
        for title, row in best.items()
        if row is not None
    ]


def learned_sentence(audit: Audit) -> str:
    """What was learned beyond the prior, by the adversary that shows most of it, in bits; empty where none does."""
    rows = [row for row in audit.of() if not row.clock and math.isfinite(row.nats.value)]
    if not rows:
        return ""
    most = max(rows, key=lambda row: -math.inf if math.isnan(row.nats.low) else row.nats.low)
    value, low, high = (x / math.log(2.0) for x in most.nats)
    best = f"{most.label}, the best of {len(rows)}, chosen afterwards" if len(rows) > 1 else most.label
    facts = {"shown": text.with_interval((value, low, high)), "best": best}
    if not low > 0.0:
        return page_text("learned_nothing", **facts)
    return page_text("learned", least=low, confidence=100.0 * audit.confidence, **facts)


def premise(audit: Audit) -> str:
    """That the best adversary does better than the oracle, and the possible reasons; empty where it does not.

    Right models do not allow it for a constant value. They do for one that moves: the oracle takes it for a Markov
    chain, and a value with a rhythm is more predictable than that.
    """
    best, oracle = strongest(audit), audit.row("oracle")
    if best is None or oracle is None or not best.balanced.value > oracle.balanced.value + _MORE:
        return ""
    rule, why = "With right models nobody can. ", "the models are not right"
    if audit.moving:
        rule, why = "", "either the models are not right, or the private value moves more regularly than a Markov chain"
    sure = best.balanced.low > oracle.balanced.high
    why = f"So {why}" if sure else f"It may be chance, as the intervals meet; if it is not, {why}"
    shown = {"best": text.share_of_100(best.balanced), "oracle": text.share_of_100(oracle.balanced)}
    return page_text("beats_oracle", name=best.title or best.adversary, why=f"{rule}{why}.", **shown)


def _adversary_sentences(audit: Audit) -> str:
    """Every adversary in a sentence, with what it learned without the clock and with it."""
    rows = [row for row in audit.of(references=True) if not row.clock]
    timed = {row.adversary: row for row in audit.of(references=True) if row.clock}
    only = [row for key, row in timed.items() if key not in {each.adversary for each in rows}]
    lines = []
    for row in sort_rows([*rows, *only]):
        other = timed.get(row.adversary) if row.adversary != "clock" else row
        line = [row.title or row.adversary, page_entry("does", row.adversary, "own")]
        line.append("-" if row.clock else text.share_of_100(row.balanced))
        if timed:
            line.append("-" if other is None else text.share_of_100(other.balanced))
        marks = [row] if other is None or row.reference else [row, other]
        lines.append([*line, "; ".join(dict.fromkeys(mark(audit, each) for each in marks))])
    head = ["Adversary", "Method", "Right guesses"] + ["Right guesses with the clock"] * bool(timed) + ["Verdict"]
    shown = table("Adversaries on the disguised output, the strongest first; each value has equal weight", head, lines)
    if not audit.skipped:
        return shown
    return shown + paragraphs("Not tried:") + bullets(f"{name}: {reason}." for name, reason in audit.skipped.items())


def _apart(audit: Audit, design: AnyDesign | None) -> str:
    """The theorem on one side and the experiment on the other, with the card of the design where it is at hand."""
    error = least_error(audit)
    measured = "-" if error is None else f"{text.share_in_percent(error)}, the best adversary"
    size = f"{audit.guesses:,} guesses; {100.0 * audit.confidence:g} percent confidence"
    rows = [
        ("Says", "what no adversary can do", "what these adversaries did"),
        ("Wrong guesses", _theorem(audit), measured),
        ("Rests on", "models that are right, draws by the rules, the prior as stated", size),
        (
            "Says nothing about",
            "readings that do not have the law of the models",
            "adversaries that were not tried, and other readings",
        ),
    ]
    parts = paragraphs(page_text("theorem_and_experiment"))
    parts += page_table("apart", rows)
    if audit.bound is not None:
        parts += paragraphs(f"The theorem in full: {text.error_bound(audit.bound, audit.moving)}.")
    if design is not None:
        parts += f"<h3>The theorem: the privacy card</h3>{_card(design)}"
    return parts + f"<h3>The experiment: what was measured</h3>{_figure_sentences(audit)}"


def _theorem(audit: Audit) -> str:
    """What the theorem says about wrong guesses, in a cell."""
    if audit.estimated:
        return "no guarantee, audit only: the private value is estimated from the readings"
    if audit.bound is not None:
        return f"at least {text.percent(audit.bound, 'down')}"
    if not audit.causal:
        return "no bound for this use"
    size = "bounded by the rate" if audit.budget is None else f"at most {audit.budget:.4g} nats a decision, on average"
    return f"no bound on a single guess here; the leakage of the whole path is {size}"


def least_error(audit: Audit) -> Figure | None:
    """The error of the adversary that errs least on the disguised output, without the clock: at the prior as stated."""
    errors = [row.error for row in audit.of() if not row.clock and not math.isnan(row.error.value)]
    return min(errors, key=lambda error: error.value, default=None)


def _figure_sentences(audit: Audit) -> str:
    rows = []
    for clock in (False, True):
        for data, title in text.DATA.items():
            best = strongest(audit, data, clock)
            if best is not None:
                name = f"The clock and {title}" if clock else _capital(title)
                figures = (str(best.balanced), str(best.error), text.at_least(best.nats))
                rows.append([name, best.title or best.adversary, *figures])
    shown = page_table("best", rows)
    note = f"Nats: the lower end of the interval. {text.best_of(results.adversary_count(audit))}".rstrip()
    return shown + paragraphs(note) + _price(audit)


def _price(audit: Audit) -> str:
    """What the disguise changed, by channel: the mean over all, over each day and draw, and the most."""
    if not audit.distortion:
        return ""
    if audit.utility is None:
        sizes = zip(audit.distortion, audit.mean_reading, strict=True)
        rows = [(f"Channel {c + 1}", text.distortion_fact(*size)) for c, size in enumerate(sizes)]
        return pairs("The price: mean absolute distance of output and reading", rows)
    channels = audit.utility.channels
    lines = []
    for c in channels:
        spread = [text.digits(x) for x in c.quantiles] or ["-"] * len(QUANTILES)
        means = text.with_interval(c.mean_absolute), text.share_in_percent(c.relative, "")
        most = "-" if math.isnan(c.largest) else text.digits(c.largest)
        lines.append([c.name, c.unit or "-", *means, *spread, most])
    if len(channels) > 1:
        mean = sum(c.mean_absolute.value for c in channels) / len(channels)
        lines.append([_capital(text.OVER_CHANNELS), "-", text.digits(mean), *["-"] * (len(QUANTILES) + 2)])
    over = text.spans_in_draws(channels[0].spans, channels[0].over, audit.utility.copies)
    return page_table("price", lines) + paragraphs(page_text("price_spread", over=over))


_MOST_PLANES = 4  # channels whose rivals are drawn


def _rivals(audit: Audit) -> str:
    """The design beside simple rivals and the least distortion that any method needs."""
    rivals = audit.rivals
    if rivals is None:
        return ""
    parts = paragraphs(page_text("rivals", epoch=rivals.epoch), *results.rival_sentences(rivals))
    for c, mean in enumerate(rivals.mean_reading[:_MOST_PLANES]):
        if mean > 0.0:
            name = f"channel {c + 1}: " if len(rivals.mean_reading) > 1 else ""
            words = f"{name}balanced accuracy against distortion of the design, its rivals and the limit."
            parts += figure(rival_plane(rivals, c, _capital(words)), f"{name}{page_text('rival_plane')}")
    lines = [list(line) for line in results.rival_lines(rivals)]
    return parts + table("Rivals of the design", list(text.RIVAL_COLUMNS), lines)


def _glance(audit: Audit, design: AnyDesign | None) -> str:
    """The design and the audit in a small table."""
    rows = [("Attacked", page_entry("attacked", audit.how)), ("Values of the private parameter", str(audit.values))]
    if audit.design:
        rows.append(("Design", audit.design))
    if design is not None and not isinstance(design, CoinDesign):
        cost = price(design)
        stays = ", for a value that stays" if cost.moving else ""
        size = f"{cost.size} ({cost.share})" if cost.share else cost.size
        rows.append((f"Distortion by design{stays}", size))
    rows += [("Distortion as measured", words) for words in results.price_lines(audit)]
    if audit.budget is not None:
        per = "a decision" if audit.causal else "an epoch" if isinstance(design, CoinDesign) else "a draw"
        rows.append(("Leakage by design", f"{audit.budget:.4g} nats {per}"))
    if audit.estimated:
        rows.append(("Guarantee", text.AUDIT_ESTIMATED))
    return pairs("At a glance", [*rows, ("Duration of the audit", f"{audit.seconds:.0f} s")])


def _not_protected(audit: Audit, time: str | None) -> str:
    """What neither the theorem nor this audit covers."""
    sensor, *items = page_list("not_protected")
    items = [sensor, *items] if audit.how == "simulated" else items
    if time is not None:
        items.append(f"The column {label(time)}, which leaves as it is.")
    return bullets([*items, text.NOT_PROTECTED["safety"]])


# Of an audit, for those who check -------------------------------------------------------------------------------------


def _adversaries(audit: Audit) -> str:
    """Balanced accuracy and nats of every adversary as pictures, and all rows as tables."""
    if not audit.of():
        return paragraphs("No adversary was run.")
    parts = _balanced_accuracy(audit, False) + _balanced_accuracy(audit, True)
    nats, guides = audit_lines(audit, "nats", False), audit_guides(audit, "nats", False)
    if audit.budget is not None and not audit.moving:
        guides.append(Guide(audit.budget, "the design's leakage"))
    if nats:
        words = "What each adversary learned without the clock, in nats a guess: estimates with their intervals."
        caption = page_text("nats", best_of=text.best_of(results.adversary_count(audit)))
        parts += figure(dots(nats, guides, "nats a guess", words), caption)
    return parts + "".join(_table(audit, data) for data in text.DATA)


def _balanced_accuracy(audit: Audit, clock: bool) -> str:
    lines = audit_lines(audit, "balanced", clock)
    if not lines:
        return ""
    best = strongest(audit, "disguised", clock)
    how = "with the clock" if clock else "without the clock"
    words = f"Balanced accuracy of each adversary {how}, with intervals, on each kind of data."
    if best is not None:
        words += f" The best on the disguised output, {best.title or best.adversary}, has {best.balanced}."
    which = f" {how}" if any(row.clock for row in audit.of()) else ""
    caption = f"Balanced accuracy{which}, with {100.0 * audit.confidence:g} percent intervals."
    return figure(dots(lines, audit_guides(audit, "balanced", clock), "balanced accuracy", words), caption)


def _table(audit: Audit, data: str) -> str:
    rows = sort_rows(audit.of(data, references=True))
    if not rows:
        return ""
    title = _capital(text.DATA[data])
    shown = page_table("figures", [_cells(audit, row) for row in rows], title=title)
    return details(f"{title}: all figures", shown)


def _cells(audit: Audit, row: Row) -> list[str]:
    figures = [str(x) for x in (row.balanced, row.error, row.gain, row.nats)]
    p = "-" if row.reference else text.p_value(row.corrected)
    return [row.label, *figures, p, f"{row.seconds:.1f}", mark(audit, row)]


def _fit(audit: Audit, scores: Scores | None) -> str:
    """The scores of the raw readings under the models: whether the theorem's main condition holds."""
    if audit.how == "simulated":
        return paragraphs(page_text("fit_simulated"))
    if scores is None or not scores.rows:
        return paragraphs(page_text("fit_unknown"))
    rows = scores.rows[:_MOST]
    worst = max(rows, key=lambda row: abs(row.spread - 1.0) + abs(row.mean))
    shape = f"Histograms of scores by value. The furthest from normal is {worst.value}: mean {worst.mean:.2f}, "
    shape += f"standard deviation {worst.spread:.2f}."
    lags = "Autocorrelations of scores, by value, with the band that holds 95 percent of those of white noise."
    lines = []
    for row in scores.rows:
        first = f"{row.memory[0]:+.3f}" if row.memory and math.isfinite(row.memory[0]) else "-"
        numbers = (f"{row.count:,}", f"{row.mean:.3f}", f"{row.spread:.3f}", f"{row.beyond:.5f}", first)
        lines.append([row.value, row.channel, *numbers])
    return (
        paragraphs(page_text("fit_lead"))
        + figure(bells(rows, shape), "Scores of the raw readings (line) on the normal density (filled).")
        + figure(memories(rows, lags), "Autocorrelation of scores by lag. The band holds 95 percent of white noise.")
        + details("The same as a table", page_table("scores", lines))
    )


def _utility(audit: Audit) -> str:
    """What is left of the readings for honest use."""
    found = audit.utility
    if found is None:
        why = " for simulated readings; it is for those from a file" if audit.how == "simulated" else ""
        return paragraphs(page_text("utility_not_measured", why=why))
    say = text.with_interval
    lines = [
        [c.name, say(c.mean_absolute), say(c.root_mean_square), say(c.relative), say(c.daily)] for c in found.channels
    ]
    copies = f", {found.copies} disguised copies of each" if found.copies > 1 else ""
    size = {"readings": found.readings, "blocks": found.blocks, "confidence": 100.0 * found.confidence}
    parts = paragraphs(page_text("utility_lead", copies=copies, **size)) + page_table("utility", lines)
    parts += _distributions(found.channels) + _alarms(found.channels) + _spectra(found.channels)
    if found.own:
        parts += page_table("own", [[name, say(value)] for name, value in found.own.items()])
    return parts


def _distributions(channels: tuple[Channel, ...]) -> str:
    channels = tuple(c for c in channels if c.shares)
    if not channels:
        return ""
    lines = [
        [name, what, *(text.digits(x, 4) for x in levels)]
        for c in channels
        for name, what, levels in ((c.name, "readings", c.raw), (c.name, "output", c.released))
    ]
    words = "Histograms of readings and of the output, by channel; the table beside it has their quantiles."
    caption = "How often each size occurs: readings (filled) and what is released (line)."
    return figure(distributions(channels, words), caption) + page_table("distribution", lines)


def _alarms(channels: tuple[Channel, ...]) -> str:
    lines = []
    for c in channels:
        if c.alarm is not None:
            shares = (c.alarm.reported, c.alarm.false, c.alarm.missed)
            shown = [text.share_in_percent(share, " %") for share in shares]
            above = (f"{c.alarm.threshold:g}", f"{100.0 * c.alarm.time:.3g} %")
            lines.append([c.name, *above, *shown, str(c.alarm.episodes)])
    return page_table("alarms", lines) if lines else ""


def _spectra(channels: tuple[Channel, ...]) -> str:
    spectra = [(c.name, c.spectrum) for c in channels if c.spectrum is not None]
    if not spectra:
        return ""
    whole = "; ".join(f"{name} {text.with_interval(found.distance)} dB" for name, found in spectra)
    lines = [
        [name, band.name, f"{band.distance:.2f}", f"{band.level:+.2f}"]
        for name, found in spectra
        for band in found.bands
    ]
    return paragraphs(f"Log-spectral distance over all frequencies: {whole}.") + page_table("spectra", lines)


def _method(audit: Audit) -> str:
    """How intervals and p-values were made."""
    tests = ", ".join(sorted({page_entry("tests", row.test) for row in audit.rows if row.test})) or "none"
    method = page_list("method", tests=tests, level=audit.level, best_of=text.best_of(results.adversary_count(audit)))
    return paragraphs(*method, results.basis(audit))


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
