"""The second half of an audit's page, for whoever has to check: every figure, the fit of the models, and utility."""

from __future__ import annotations

import math

from understudy.adversaries.audited import Audit, Figure
from understudy.adversaries.judging.scored import Scores
from understudy.report import audit_words as words
from understudy.report.audit_pictures import KINDS, Guide, Line, bells, dots, memories
from understudy.report.audit_verdict import mark
from understudy.report.page_facts import AnyDesign
from understudy.report.page_parts import details, figure, paragraphs, table

_MOST = 12  # panels of scores


def adversaries(audit: Audit) -> str:
    """Balanced accuracy and nats of every adversary as pictures, and all rows as tables."""
    if not audit.of():
        return paragraphs("No adversary was run.")
    parts = _balanced(audit, False) + _balanced(audit, True)
    nats, guides = _lines(audit, "nats", False), [Guide(0.0, "nothing")]
    if audit.budget is not None and not audit.moving:
        guides.append(Guide(audit.budget, "the design's leakage"))
    if nats:
        told = "What each adversary learned without the clock, in nats a guess: estimates with their intervals."
        caption = (
            "What was learned beyond the odds, nats a guess: the estimate, and its interval. What was learned at least "
            "is the lower end. Below nothing: its own odds were worse than those known beforehand. "
            f"{words.chosen(audit)}"
        ).rstrip()
        parts += figure(dots(nats, guides, "nats a guess", told), caption)
    return parts + "".join(_table(audit, data) for data in words.DATA)


def _balanced(audit: Audit, clock: bool) -> str:
    lines = _lines(audit, "balanced", clock)
    if not lines:
        return ""
    guides = [Guide(words.blind(audit), "blind")]
    alone = words.by_clock(audit)
    genie = audit.row("genie")
    if clock and alone is not None:
        guides = [Guide(alone.balanced.value, "the clock alone")]
    elif not clock and genie is not None and math.isfinite(genie.balanced.value):
        guides.append(Guide(genie.balanced.value, "told the played value"))
    best = words.strongest(audit, "disguised", clock)
    how = "with the clock" if clock else "without the clock"
    told = f"Balanced accuracy of each adversary {how}, with intervals, on each kind of data."
    if best is not None:
        told += f" The best on the disguised output, {best.title or best.adversary}, has {best.balanced}."
    if not any(row.clock for row in audit.of()):
        how = ""
    caption = f"Balanced accuracy {how}, with {100.0 * audit.confidence:g} percent intervals.".replace(" ,", ",")
    if any("noise" in line.figures for line in lines):
        caption += " The noise is noise that is independent from reading to reading."
    if any("held" in line.figures for line in lines):
        caption += " The offset is held for an epoch."
    return figure(dots(lines, guides, "balanced accuracy", told), caption)


def fit(audit: Audit, scores: Scores | None = None) -> str:
    """The scores of the raw readings under the models: whether the theorem's main condition holds."""
    found: Scores | None = scores or getattr(audit, "scores", None)
    if audit.how == "simulated":
        return paragraphs("The readings were simulated by the models: they fit by definition.")
    if found is None or not found.rows:
        return paragraphs("The scores of the raw readings under the models are not known to this audit.")
    rows = found.rows[:_MOST]
    lead = (
        "Under right models the scores of the raw readings are independent standard normals, whatever the private "
        "value is. The theorem rests on that. What is off here is what an adversary can find beyond the bound."
    )
    worst = max(rows, key=lambda row: abs(row.spread - 1.0) + abs(row.mean))
    told = "Histograms of scores by value. The furthest from normal is "
    told += f"{worst.value}: mean {worst.mean:.2f}, spread {worst.spread:.2f}."
    shapes = figure(bells(rows, told), "Scores of the raw readings (line) on the bell curve that is right (filled).")
    told = "Correlations of scores with earlier ones, by value, with the band that holds those of white ones."
    white = figure(
        memories(rows, told), "Correlation of a score with earlier ones. The band holds 95 percent of white ones."
    )
    lines = [
        [
            row.value,
            row.channel,
            f"{row.count:,}",
            f"{row.mean:.3f}",
            f"{row.spread:.3f}",
            f"{row.beyond:.5f}",
            _first(row.memory),
        ]
        for row in found.rows
    ]
    head = ("Value", "Channel", "Scores", "Mean (0)", "Spread (1)", "Beyond 4 (0.00006)", "Next to each other (0)")
    shown = table("Scores of the raw readings; in brackets what is right", head, lines, numbers=range(2, 7))
    return paragraphs(lead) + shapes + white + details("The same as a table", shown)


def frontier(design: AnyDesign | None) -> str:
    """The trade-off that the design lies on."""
    if design is None:
        return ""
    from understudy.report.page_engineer import frontier as drawn

    return paragraphs("By the theorem; nothing on this curve was measured.") + drawn(design)


def utility(audit: Audit) -> str:
    """What is left of the readings for honest use."""
    found = audit.utility
    if found is None:
        simulated = " of readings that were simulated; of those from a file it is." if audit.how == "simulated" else "."
        return paragraphs(f"Utility was not measured{simulated} The distortion stands with the experiment, above.")
    copies = f", {found.copies} disguised copies of each" if found.copies > 1 else ""
    lead = (
        f"From {found.readings:,} readings with an output beside them{copies}. Intervals at "
        f"{100.0 * found.confidence:g} percent, over {found.blocks} stretches of time."
    )
    lines = [
        [
            c.name,
            words.number(c.mean_absolute),
            words.number(c.root_mean_square),
            words.number(c.relative),
            words.number(c.daily),
        ]
        for c in found.channels
    ]
    head = ("Channel", "Mean absolute error", "Root mean square", "Over the mean reading", "Of daily means")
    parts = paragraphs(lead) + table("How far the output is from the readings", head, lines, numbers=range(1, 5))
    alarms = [
        [
            c.name, f"{c.alarm.threshold:g}", f"{100.0 * c.alarm.time:.3g} %", *(_share(x) for x in
            (c.alarm.reported, c.alarm.false, c.alarm.missed)), str(c.alarm.episodes),
        ]
        for c in found.channels
        if c.alarm is not None
    ]  # fmt: skip
    if alarms:
        names = ("Channel", "Above", "Of the time", "Reported", "Reported by mistake", "Episodes missed", "Episodes")
        parts += table("Alarms at a threshold", names, alarms, numbers=range(1, 7))
    bands = [
        [c.name, band.name, f"{band.distance:.2f}", f"{band.level:+.2f}"]
        for c in found.channels
        if c.spectrum is not None
        for band in c.spectrum.bands
    ]
    if bands:
        whole = "; ".join(
            f"{c.name} {words.number(c.spectrum.distance)} dB" for c in found.channels if c.spectrum is not None
        )
        titles = ("Channel", "Periods", "Distance, dB", "Power of the output over that of the readings, dB")
        parts += paragraphs(f"Log-spectral distance over all frequencies: {whole}.")
        parts += table("Spectrum, by bands", titles, bands, numbers=(2, 3))
    if found.own:
        lines = [[name, words.number(value)] for name, value in found.own.items()]
        parts += table("Your own", ("Figure", "Value"), lines, numbers=(1,))
    return parts


def method(audit: Audit) -> str:
    """How intervals and p values were made."""
    tests = sorted({words.how_tested(row) for row in audit.rows if row.test})
    return paragraphs(
        "Adversaries learn on one part of the time, or on some of the sequences, and are judged on another. They know "
        "the design: models, odds and randomizer, but no draw. Each is tried with the clock and without, where there "
        "is one.",
        "Intervals: exact binomial (Clopper and Pearson) where guesses are independent, else by resampling stretches "
        f"of time. p values: {', '.join(tests) or 'none'}. An adversary counts as one that finds something if its p "
        f"value, corrected for all that were tried on the same data, is at most {audit.level:g} (permutations: Holm's "
        "correction; stretches: signs are changed for all adversaries together, after Westfall and Young).",
        "Not testable: with so few stretches of time, or so little change of the private value in them, no p value "
        "could have been small enough. Then nothing counts as found, whatever the output gives away. A p "
        "value without the clock counts a daily rhythm that output and private value share; with the clock it does "
        "not, and where there is a clock only those with it decide.",
        "Nats: the mean of log q - log prior of the true value, where q are the adversary's odds, mixed with the "
        "prior. Its expectation is a lower bound on the mutual information; what was learned at least is the lower "
        f"end of its interval. {words.chosen(audit)}".rstrip(),
        words.judged(audit),
    )


def _lines(audit: Audit, name: str, clock: bool) -> list[Line]:
    """Adversaries in the order of their strength on the disguised output, without references."""
    rows = {data: {row.adversary: row for row in audit.of(data) if row.clock == clock} for data in KINDS}
    order = [row.adversary for row in words.ordered(rows["disguised"].values())]
    found = []
    for key in dict.fromkeys([*order, *(key for data in KINDS for key in rows[data])]):
        mine = {data: rows[data][key] for data in KINDS if key in rows[data]}
        first = next(iter(mine.values()))
        found.append(Line(first.title or first.adversary, {data: getattr(row, name) for data, row in mine.items()}))
    return found


def _table(audit: Audit, data: str) -> str:
    rows = words.ordered(audit.of(data, references=True))
    if not rows:
        return ""
    head = (
        "Adversary",
        "Balanced accuracy",
        "Error",
        "Gain over the prior",
        "Nats a guess",
        "p for all",
        "Seconds",
        "Verdict",
    )
    lines = [
        [
            row.shown, *(str(x) for x in (row.balanced, row.error, row.gain, row.nats)),
            "-" if row.reference else words.chance(row.corrected), f"{row.seconds:.1f}", mark(audit, row),
        ]
        for row in rows
    ]  # fmt: skip
    title = f"{words.DATA[data][:1].upper()}{words.DATA[data][1:]}"
    return details(f"{title}: all figures", table(title, head, lines, numbers=range(1, 7)))


def _share(found: Figure) -> str:
    if math.isnan(found.value):
        return "-"
    ends = "" if math.isnan(found.low) else f" [{100.0 * found.low:.3g}, {100.0 * found.high:.3g}]"
    return f"{100.0 * found.value:.3g}{ends} %"


def _first(memory: tuple[float, ...]) -> str:
    return f"{memory[0]:+.3f}" if memory and math.isfinite(memory[0]) else "-"
