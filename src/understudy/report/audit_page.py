"""The page of an audit: first for those who decide, then for those who check. It opens offline.

The first half says what was tried, what was learned and what stays open. A theorem and an experiment stand apart: the
one holds for every adversary under conditions, the other for these adversaries and these readings. The second half has
every figure, the fit of the models, what is left of the readings for honest use, and how the figures were made.

Facts come from `understudy.adversaries.results`, sentences from `understudy.text`.

>>> from understudy.adversaries.results import Audit, Row
>>> from understudy.adversaries.statistics import Figure
>>> half = Figure(0.5, 0.45, 0.55)
>>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
>>> audit = Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False)
>>> page = audit_report(audit)
>>> page.startswith("<!DOCTYPE html>"), 'id="open"' in page, "<svg" in page
(True, True, True)
"""

from __future__ import annotations

import math
from html import escape

from understudy import _html, text
from understudy._html import box, bullets, details, figure, pairs, paragraphs, table
from understudy.adversaries import results
from understudy.adversaries.results import Audit, Row, by_clock, mark, ordered, strongest
from understudy.adversaries.statistics import Figure, Scores
from understudy.adversaries.utility import Channel
from understudy.report.design_page import frontier, made_by
from understudy.report.facts import AnyDesign, about, card_of, price, readings_of, warnings
from understudy.report.svg import KINDS, Guide, Line, bells, dots, memories

_MORE = 0.02  # balanced accuracy that is more than a tie
_MOST = 12  # panels of scores


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
    curve = "" if design is None else paragraphs(text.BY_THEOREM) + frontier(design)
    return _html.report(
        text.page_title("Audit", known.get("private"), readings_of(known)),
        made_by(design),
        [
            ("summary", "Summary", _summary(audit, design) + _glance(audit, design)),
            ("tried", "Adversaries and their verdicts", _tried(audit)),
            ("apart", "Theorem and experiment", _apart(audit, design)),
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
        ("Adversaries and their verdicts", _tried(audit)),
        ("Theorem and experiment", _apart(audit, None)),
        ("All figures", _adversaries(audit)),
        ("Fit of the models", _fit(audit, scores)),
        ("Utility", _utility(audit)),
        ("Method", _method(audit)),
    )
    return _summary(audit, None) + "".join(f"<h3>{escape(title)}</h3>{content}" for title, content in sections)


# For those who decide -------------------------------------------------------------------------------------------------


def _summary(audit: Audit, design: AnyDesign | None) -> str:
    """The outcome, warnings about the models, how often the best adversary is right, and what that rests on."""
    warning = results.warns(audit)
    one_release = audit.how == "released" and (audit.utility is not None or bool(audit.distortion))
    notes = [text.sentence(note) for note in audit.notes]
    found = [] if design is None else warnings(design)
    return (
        box([results.verdict(audit)], warning=warning, lead="Warning" if warning else "Outcome")
        + (box([text.ONE_RELEASE], warning=True, lead="Keep this page secret") if one_release else "")
        + (box(found, warning=True, lead="The models") if found else "")
        + paragraphs(f"The audit was made {text.attacked(audit.how)}.")
        + pairs("Right guesses of 100", right_guesses(audit))
        + paragraphs(
            text.accuracy_note(audit.confidence, bool(audit.of("noise")), results.tried(audit)),
            learned(audit),
            premise(audit),
            results.judged(audit),
        )
        + (box(notes, lead="Notes") if notes else "")
    )


def right_guesses(audit: Audit) -> text.Pairs:
    """How often the best adversary is right, and beside it those who see less or more: who, and of 100 guesses."""
    share, clock = results.blind(audit), by_clock(audit)
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


def learned(audit: Audit) -> str:
    """What was learned beyond the prior, by the adversary that shows most of it, in bits; empty where none does."""
    rows = [row for row in audit.of() if not row.clock and math.isfinite(row.nats.value)]
    if not rows:
        return ""
    most = max(rows, key=lambda row: -math.inf if math.isnan(row.nats.low) else row.nats.low)
    return text.learned_bits(most.nats, most.shown, len(rows), audit.confidence)


def premise(audit: Audit) -> str:
    """That the best adversary does better than the oracle, and the possible reasons; empty where it does not."""
    best, oracle = strongest(audit), audit.row("oracle")
    if best is None or oracle is None or not best.balanced.value > oracle.balanced.value + _MORE:
        return ""
    return text.beats_oracle(best.title or best.adversary, best.balanced, oracle.balanced, audit.moving)


def _tried(audit: Audit) -> str:
    """Every adversary in a sentence, with what it learned without the clock and with it."""
    rows = [row for row in audit.of(references=True) if not row.clock]
    timed = {row.adversary: row for row in audit.of(references=True) if row.clock}
    only = [row for key, row in timed.items() if key not in {each.adversary for each in rows}]
    lines = []
    for row in ordered([*rows, *only]):
        other = timed.get(row.adversary) if row.adversary != "clock" else row
        line = [row.title or row.adversary, text.adversary_does(row.adversary)]
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
    parts = paragraphs(text.THEOREM_AND_EXPERIMENT)
    parts += table("Theorem and experiment, side by side", ("", "The theorem", "The experiment"), rows)
    if audit.bound is not None:
        parts += paragraphs(f"The theorem in full: {text.error_bound(audit.bound, audit.moving)}.")
    if design is not None:
        parts += f"<h3>The theorem: the privacy card</h3>{card_of(design).html()}"
    return parts + f"<h3>The experiment: what was measured</h3>{_measured(audit)}"


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


def _measured(audit: Audit) -> str:
    rows = []
    for clock in (False, True):
        for data, title in text.DATA.items():
            best = strongest(audit, data, clock)
            if best is not None:
                name = f"The clock and {title}" if clock else _capital(title)
                figures = (str(best.balanced), str(best.error), text.at_least(best.nats))
                rows.append([name, best.title or best.adversary, *figures])
    head = ("Seen", "Best adversary", "Balanced accuracy", "Wrong guesses", "Nats a guess, at least")
    shown = table("The best adversary on each kind of data", head, rows, numbers=(2, 3, 4))
    note = f"Nats: the lower end of the interval. {text.best_of(results.tried(audit))}".rstrip()
    return shown + paragraphs(note) + _price(audit)


def _price(audit: Audit) -> str:
    if not audit.distortion:
        return ""
    channels = () if audit.utility is None else audit.utility.channels
    # the same figure as under utility, where that was measured: its interval includes copies
    figures = [channel.mean_absolute for channel in channels] or audit.distortion
    rows = []
    for c, measured in enumerate(figures):
        mean = audit.mean_reading[c] if c < len(audit.mean_reading) else 0.0
        name = channels[c].name if c < len(channels) else f"Channel {c + 1}"
        rows.append((name, text.distortion_fact(measured, mean)))
    return pairs("The price: mean absolute distance of output and reading", rows)


def _glance(audit: Audit, design: AnyDesign | None) -> str:
    """The design and the audit in a small table."""
    rows = [("Attacked", text.attacked(audit.how)), ("Values of the private parameter", str(audit.values))]
    if audit.design:
        rows.append(("Design", audit.design))
    if design is not None:
        cost = price(design)
        rows.append(("Distortion by design", f"{cost.size} ({cost.share})" if cost.share else cost.size))
    if audit.budget is not None:
        rows.append(("Leakage by design", f"{audit.budget:.4g} nats {'a decision' if audit.causal else 'a draw'}"))
    if audit.estimated:
        rows.append(("Guarantee", text.AUDIT_ESTIMATED))
    return pairs("At a glance", [*rows, ("Duration of the audit", f"{audit.seconds:.0f} s")])


def _not_protected(audit: Audit, time: str | None) -> str:
    """What neither the theorem nor this audit covers."""
    return bullets([*text.audit_not_protected(audit.how == "simulated", time), text.NOT_PROTECTED["safety"]])


# For those who check --------------------------------------------------------------------------------------------------


def _adversaries(audit: Audit) -> str:
    """Balanced accuracy and nats of every adversary as pictures, and all rows as tables."""
    if not audit.of():
        return paragraphs("No adversary was run.")
    parts = _balanced(audit, False) + _balanced(audit, True)
    nats, guides = _lines(audit, "nats", False), [Guide(0.0, "nothing")]
    if audit.budget is not None and not audit.moving:
        guides.append(Guide(audit.budget, "the design's leakage"))
    if nats:
        words = "What each adversary learned without the clock, in nats a guess: estimates with their intervals."
        caption = (
            "Learned beyond the prior, nats a guess: the estimate, and its interval. What was learned at least is the "
            "lower end. Negative: the adversary's own posterior was worse than the prior. "
            f"{text.best_of(results.tried(audit))}"
        ).rstrip()
        parts += figure(dots(nats, guides, "nats a guess", words), caption)
    return parts + "".join(_table(audit, data) for data in text.DATA)


def _balanced(audit: Audit, clock: bool) -> str:
    lines = _lines(audit, "balanced", clock)
    if not lines:
        return ""
    guides = [Guide(results.blind(audit), "blind")]
    alone, oracle, best = by_clock(audit), audit.row("oracle"), strongest(audit, "disguised", clock)
    if clock and alone is not None:
        guides = [Guide(alone.balanced.value, "the clock alone")]
    elif not clock and oracle is not None and math.isfinite(oracle.balanced.value):
        guides.append(Guide(oracle.balanced.value, "oracle"))
    how = "with the clock" if clock else "without the clock"
    words = f"Balanced accuracy of each adversary {how}, with intervals, on each kind of data."
    if best is not None:
        words += f" The best on the disguised output, {best.title or best.adversary}, has {best.balanced}."
    which = f" {how}" if any(row.clock for row in audit.of()) else ""
    caption = f"Balanced accuracy{which}, with {100.0 * audit.confidence:g} percent intervals."
    return figure(dots(lines, guides, "balanced accuracy", words), caption)


def _lines(audit: Audit, name: str, clock: bool) -> list[Line]:
    """Adversaries in the order of their strength on the disguised output, without references."""
    rows = {data: {row.adversary: row for row in audit.of(data) if row.clock == clock} for data in KINDS}
    order = [row.adversary for row in ordered(rows["disguised"].values())]
    found = []
    for key in dict.fromkeys([*order, *(key for data in KINDS for key in rows[data])]):
        mine = {data: rows[data][key] for data in KINDS if key in rows[data]}
        first = next(iter(mine.values()))
        found.append(Line(first.title or first.adversary, {data: getattr(row, name) for data, row in mine.items()}))
    return found


def _table(audit: Audit, data: str) -> str:
    rows = ordered(audit.of(data, references=True))
    if not rows:
        return ""
    head = ("Adversary", "Balanced accuracy", "Error", "Gain over the clock", "Nats a guess", "Adjusted p-value")
    lines = [_cells(audit, row) for row in rows]
    title = _capital(text.DATA[data])
    return details(f"{title}: all figures", table(title, (*head, "Seconds", "Verdict"), lines, numbers=range(1, 7)))


def _cells(audit: Audit, row: Row) -> list[str]:
    figures = [str(x) for x in (row.balanced, row.error, row.gain, row.nats)]
    p = "-" if row.reference else text.p_value(row.corrected)
    return [row.shown, *figures, p, f"{row.seconds:.1f}", mark(audit, row)]


def _fit(audit: Audit, scores: Scores | None) -> str:
    """The scores of the raw readings under the models: whether the theorem's main condition holds."""
    if audit.how == "simulated":
        return paragraphs("The readings were simulated by the models: they fit by definition.")
    if scores is None or not scores.rows:
        return paragraphs("The scores of the raw readings under the models are not known to this audit.")
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
    moments = ("Scores", "Mean (0)", "Standard deviation (1)", "Beyond 4 (0.00006)", "Autocorrelation at lag 1 (0)")
    caption = "Scores of the raw readings; in brackets what is right"
    shown = table(caption, ("Value", "Channel", *moments), lines, numbers=range(2, 7))
    return (
        paragraphs(text.FIT_LEAD)
        + figure(bells(rows, shape), "Scores of the raw readings (line) on the normal density (filled).")
        + figure(memories(rows, lags), "Autocorrelation of scores by lag. The band holds 95 percent of white noise.")
        + details("The same as a table", shown)
    )


def _utility(audit: Audit) -> str:
    """What is left of the readings for honest use."""
    found = audit.utility
    if found is None:
        return paragraphs(text.utility_not_measured(audit.how == "simulated"))
    say = text.with_interval
    lines = [
        [c.name, say(c.mean_absolute), say(c.root_mean_square), say(c.relative), say(c.daily)] for c in found.channels
    ]
    head = ("Channel", "Mean absolute error", "Root mean square", "Over the mean reading", "Of daily means")
    parts = paragraphs(text.utility_lead(found.readings, found.copies, found.blocks, found.confidence))
    parts += table("Distance of the output from the readings", head, lines, numbers=range(1, 5))
    parts += _alarms(found.channels) + _spectra(found.channels)
    if found.own:
        own = [[name, say(value)] for name, value in found.own.items()]
        parts += table("Your own", ("Figure", "Value"), own, numbers=(1,))
    return parts


def _alarms(channels: tuple[Channel, ...]) -> str:
    lines = []
    for c in channels:
        if c.alarm is not None:
            shares = (c.alarm.reported, c.alarm.false, c.alarm.missed)
            shown = [text.share_in_percent(share, " %") for share in shares]
            above = (f"{c.alarm.threshold:g}", f"{100.0 * c.alarm.time:.3g} %")
            lines.append([c.name, *above, *shown, str(c.alarm.episodes)])
    head = ("Channel", "Above", "Of the time", "Reported", "Reported by mistake", "Episodes missed", "Episodes")
    return table("Alarms at a threshold", head, lines, numbers=range(1, 7)) if lines else ""


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
    head = ("Channel", "Periods", "Distance, dB", "Power of the output over that of the readings, dB")
    shown = table("Spectrum, by bands", head, lines, numbers=(2, 3))
    return paragraphs(f"Log-spectral distance over all frequencies: {whole}.") + shown


def _method(audit: Audit) -> str:
    """How intervals and p-values were made."""
    tests = sorted({text.p_value_method(row.test) for row in audit.rows if row.test})
    return paragraphs(*text.audit_method(tests, audit.level, results.tried(audit)), results.judged(audit))


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
