"""The page of an audit: for those who decide first, for those who check below. It opens offline.

>>> from understudy.adversaries.results import Audit, Row
>>> from understudy.adversaries.statistics import Figure
>>> half = Figure(0.5, 0.45, 0.55)
>>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
>>> audit = Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False)
>>> page = audit_report(audit)
>>> page.startswith("<!DOCTYPE html>"), "What is not protected" in page, "<svg" in page
(True, True, True)

The outcome of an audit in plain words, and whether a strict reader would refuse.

Nothing found and nothing to be found are told apart: where no p value could have been small enough, nothing counts as
found whatever the output gives away, and that is no good news.

An audit in plain words: what was tried, what was learned, and how sure that is. For pages and the terminal.

The second half of an audit's page, for whoever has to check: every figure, the fit of the models, and utility.

The first half of an audit's page, for whoever has to decide: what was tried, what was learned, and what stays open.

What a theorem says and what an experiment showed stand apart: the one holds for every adversary under conditions, the
other for these adversaries and these readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from understudy import _html, text
from understudy._html import box, bullets, details, figure, pairs, paragraphs, table
from understudy._version import __version__
from understudy.adversaries.results import ESTIMATED, Audit, Row, as_clock, causal, clock_only, rate, unchanged
from understudy.adversaries.statistics import Figure, Scores
from understudy.report.facts import AnyDesign, about, card_of, fingerprint, relative_distortion, unit, warnings
from understudy.report.svg import KINDS, Guide, Line, bells, dots, memories
from understudy.text import label

# The outcome of an audit in plain words, and whether a strict reader would refuse --------------------


_NO_PROOF = "That is no proof that nothing is there: it says what these adversaries could see in so many readings."
_UNCHANGED = (
    "The output equals the readings, in all that was judged: nothing was disguised, or the truth was drawn throughout."
)


def verdict(audit: Audit) -> tuple[str, bool]:
    """The outcome in a few sentences, and whether it is a warning."""
    outcome, warning = _outcome(audit)
    lead = [ESTIMATED] if audit.estimated else []
    if audit.how == "released" and unchanged(audit):
        lead.append(_UNCHANGED)
    return " ".join([*lead, outcome]), warning or bool(lead)


def _outcome(audit: Audit) -> tuple[str, bool]:
    if audit.best is None:
        return "No adversary could be run on the disguised output: nothing is known from this audit.", True
    if audit.broken:
        names = ", ".join(row.shown for row in audit.of() if row.beats)
        return (
            f"An adversary does better than the theorem allows ({names}). So one of the theorem's conditions does not "
            "hold for these readings. Do not rely on the bound.",
            True,
        )
    if audit.found:
        return _found(audit)
    if not audit.testable:
        return _untestable(audit), True
    if clock_only(audit):
        return (
            "Adversaries found out something about the private value, but no more than the time of day tells: beyond "
            f"the clock they found nothing (false-alarm rate {audit.level:g} for all together). {_NO_PROOF}",
            False,
        )
    if audit.found_alone:
        return (
            "Adversaries found out something about the private value without the clock, and were not tried with it: "
            "whether it is more than the time of day tells is not known.",
            True,
        )
    return f"No adversary found out anything (false-alarm rate {audit.level:g} for all together). {_NO_PROOF}", False


def _found(audit: Audit) -> tuple[str, bool]:
    beyond = " beyond what the time of day tells" if any(row.clock for row in audit.of()) else ""
    if audit.how == "released":
        return f"Adversaries found out something about the private value from what was released{beyond}.", True
    if audit.bound is not None:
        return f"Adversaries found out something{beyond}, as they may: none did better than the theorem allows.", False
    found = f"Adversaries found out something about the private value{beyond}"
    if audit.estimated:
        return f"{found}.", False
    left = rate(audit) or "No theorem bounds it for this use: the figures are all that is known."
    return f"{found}, as a design that lets something out allows. {left}", False


def _untestable(audit: Audit) -> str:
    rows = audit.of()
    rows = tuple(row for row in rows if row.clock) or rows
    if all(math.isnan(row.p) for row in rows):
        return (
            "Cannot be told from so few stretches of time: the private value hardly varies in them, or not beyond what "
            "the time of day tells. That nothing counts as found says nothing about the output."
        )
    return (
        "Cannot be told from so few stretches of time: even an adversary that is always right would not count as one "
        f"that finds something (false-alarm rate {audit.level:g} for all together). That nothing counts as found says "
        "nothing about the output. A longer recording is needed."
    )


def failed(audit: Audit) -> bool:
    """Whether a strict reader would refuse.

    The bound is beaten, or nothing can be told; of a release also, that something is found in it, beyond the clock
    where that is known, or that it equals the readings.
    """
    if audit.broken or not audit.testable:
        return True
    untold = audit.found_alone and not clock_only(audit)
    return audit.how == "released" and (audit.found or untold or unchanged(audit))


def mark(audit: Audit, row: Row) -> str:
    """The verdict on an adversary, in a few words."""
    if row.reference:
        return "for comparison"
    if row.beats:
        return "beats the bound"
    if not row.found and not row.testable:
        return "not testable"
    if as_clock(audit, row):
        return "finds no more than the clock tells"
    told = "something" if row.found else "nothing"
    return f"finds {told} beyond the clock" if row.clock else f"finds {told}"


# An audit in plain words: what was tried, what was learned, and how sure that is. For pages and the t ---


# What each adversary does, for somebody who has never met one.
_DOES = {
    "blind": "Does not look at the output at all: guesses by the odds.",
    "clock": "Looks at the time of day and the weekday only.",
    "windowed": "Averages readings over stretches of time, as the paper's adversary does; learned which averages tell.",
    "logistic": "Learned from labelled examples which levels, changes and spreads go with which value.",
    "boosting": "Learned from labelled examples with many small decision trees, which follow bends and combinations.",
    "neighbours": "Looks for the most similar stretches among labelled examples.",
    "changes": "Looks for when level, trend or spread change, and learned which changes go with which value.",
    "exact": "Works out the odds of every value from the models and the randomizer, from all readings at once.",
    "smoother": "Works out the odds of a value that moves, reading by reading, from what came before and after.",
    "hmm": "Learned from labelled examples how each value looks and moves, and puts all times together.",
    "redraws": "Looks for draws that should not have been made: takes each stretch for a draw of its own, and adds up.",
    "grid": "Undoes the disguise under each value, and looks for rounded readings.",
    "digits": "Learned what the last digits look like, before and after undoing the disguise.",
    "bits": "Runs the disguise again under each value, and counts the readings that give exactly this output.",
    "oracle": "Is told the value that was played, more than any output tells if the models are right; takes a value "
    "that moves for a Markov chain.",
}
_HOW = {
    "simulated": "on readings simulated by the design's own models",
    "replayed": "on raw readings that were disguised for the audit with fresh draws",
    "released": "on the output as it was released",
}
DATA = {
    "disguised": "the disguised output",
    "noise": "raw readings with as much noise that is independent from reading to reading",
    "offset": "raw readings with an offset of the same size that is held for an epoch",
    "raw": "the raw readings",
}
_MORE = 0.02  # balanced accuracy that is more than a tie
_TESTS = {
    "permutation": "labels are permuted among independent sequences",
    "stretches": "signs of what is told in each stretch of time are changed at random, and Student's test beside it",
}


def does(row: Row) -> str:
    """What an adversary does, in a sentence."""
    return _DOES.get(row.adversary, "An adversary of your own.")


def how(audit: Audit) -> str:
    """What was attacked, in words."""
    return _HOW.get(audit.how, audit.how)


def how_tested(row: Row) -> str:
    """How a p value was found."""
    return _TESTS.get(row.test, row.test)


def learned(audit: Audit) -> list[tuple[str, str]]:
    """How often the best adversary is right, and beside it those who see less or more: who, and of 100 guesses."""
    found = _bests(audit, False)
    share = blind(audit)
    absent = ", as the likeliest value does not occur among the judged" if share == 0.0 else ""
    found.append(("Without looking at anything", f"{100.0 * share:.3g} of 100{absent}"))
    clock = by_clock(audit)
    if clock is not None:
        found.append(("From the clock alone, without any reading", hundred(clock.balanced)))
    return found + _bests(audit, True)


def _bests(audit: Audit, clock: bool) -> list[tuple[str, str]]:
    found = []
    for data, title in DATA.items():
        best = strongest(audit, data, clock)
        if best is not None:
            name = best.title or best.adversary
            found.append((f"From {'the clock and ' if clock else ''}{title} ({name})", hundred(best.balanced)))
    return found


def strongest(audit: Audit, data: str = "disguised", clock: bool = False) -> Row | None:
    """The adversary of highest balanced accuracy among those that use the clock, or do not; references do not count."""
    rows = [row for row in audit.of(data) if row.clock == clock]
    return max(rows, key=lambda row: _sortable(row.balanced.value), default=None)


def blind(audit: Audit) -> float:
    """How often who looks at nothing is right, with each value that was judged counting alike."""
    row = audit.row("blind")
    known = row is not None and math.isfinite(row.balanced.value)
    return row.balanced.value if row is not None and known else 1.0 / max(audit.values, 1)


def by_clock(audit: Audit) -> Row | None:
    """The reference that looks at the clock alone, if there was one."""
    found = [row for row in audit.of(references=True) if row.adversary == "clock"]
    return found[0] if found and not math.isnan(found[0].balanced.value) else None


def counted(audit: Audit) -> str:
    """What the numbers of `learned` mean."""
    noise = (
        " The noise has the same mean error as the disguise. It is noise that is independent from reading to reading, "
        "which averaging takes away, unlike an offset that is held for long."
    )
    return (
        "Each value of the private parameter that was judged counts alike in these numbers, however rare it is. In "
        f"brackets: where the true share lies with {100.0 * audit.confidence:g} percent confidence."
        f"{noise if audit.of('noise') else ''} {chosen(audit)}".rstrip()
    )


def chosen(audit: Audit) -> str:
    """That who is best was not known beforehand; nothing where only one was tried."""
    k = max(sum(row.clock == clock for row in audit.of()) for clock in (False, True))
    if k < 2:
        return ""
    return (
        f"The best of {k} adversaries was chosen afterwards, so that chance makes it look a little better than it is."
    )


def at_least(figure: Figure) -> str:
    """What was learned at least: the lower end of the interval, and never less than nothing.

    >>> at_least(Figure(0.1, 0.04, 0.16)), at_least(Figure(0.1, -0.04, 0.24)), at_least(Figure(*[float("nan")] * 3))
    ('0.040', '0.000', '-')
    """
    return "-" if math.isnan(figure.value) else f"{max(0.0, _sortable(figure.low)):.3f}"


def gains(audit: Audit) -> str:
    """What was learned beyond the odds, by the adversary that shows most of it, in bits."""
    rows = [row for row in audit.of() if not row.clock and math.isfinite(row.nats.value)]
    if not rows:
        return ""
    most = max(rows, key=lambda row: _sortable(row.nats.low))  # who shows most for sure
    bits = Figure(*(x / math.log(2.0) for x in most.nats))
    best = f"{most.shown}, the best of {len(rows)}, chosen afterwards" if len(rows) > 1 else most.shown
    shown = f"the estimate is {bits.value:.3g}{' ' + interval(bits) if interval(bits) else ''}"
    if not bits.low > 0.0:
        return f"In bits, what was learned beyond the odds cannot be told from nothing: {shown} a guess ({best})."
    return (
        f"Beyond the odds at least {bits.low:.3g} bit a guess was learned, with {100.0 * audit.confidence:g} percent "
        f"confidence for each adversary by itself; {shown} ({best}). The true amount may be larger: an adversary can "
        "only show what it knows how to use."
    )


def premise(audit: Audit) -> str:
    """That the best adversary does better than one who is told the played value, and what may be the reason.

    For a constant value right models do not allow it. For one that moves they do: who is told the played values takes
    the private one for a Markov chain, and a value that keeps to a rhythm tells more than that.
    """
    best, told = strongest(audit), audit.row("oracle")
    if best is None or told is None or not best.balanced.value > told.balanced.value + _MORE:
        return ""
    sure = best.balanced.low > told.balanced.high
    rule, why = "With right models nobody can.", "the models are not right"
    if audit.moving:
        rule = ""
        why = (
            "either the models are not right, or the private value moves more regularly than the chain that the one "
            "who sees the played values assumes"
        )
    why = f"So {why}" if sure else f"It may be chance, as the intervals meet; if it is not, {why}"
    return " ".join(
        part
        for part in (
            f"The best adversary ({best.title or best.adversary}) does better than somebody who is told the value that "
            f"was played, and works out the odds by the models: {hundred(best.balanced)} against "
            f"{hundred(told.balanced)}.",
            rule,
            f"{why}. The scores below tell how far the models are from the readings.",
        )
        if part
    )


def sentence(words: str) -> str:
    """A note with a capital letter and a full stop.

    >>> sentence("the rows were sorted")
    'The rows were sorted.'
    """
    return f"{words[:1].upper()}{words[1:].rstrip('.')}." if words else ""


def judged(audit: Audit) -> str:
    """How much the figures rest on."""
    rows = audit.of()
    blocks = max((row.blocks for row in rows), default=0)
    each = "sequences" if audit.guesses == blocks else "stretches of time"
    return (
        f"Every adversary learned from {audit.learned:,} labelled guesses and was judged on {audit.guesses:,} others, "
        f"in {blocks:,} {each}: chance is counted by these, not by single readings."
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    """The strongest first; references behind the others."""
    return sorted(rows, key=lambda row: (row.reference, -_sortable(row.balanced.value), row.shown))


def hundred(figure: Figure) -> str:
    """A share as so many of 100, with its interval.

    >>> hundred(Figure(0.873, 0.86, 0.89))
    '87.3 of 100 [86, 89]'
    """
    if math.isnan(figure.value):
        return "an unknown number of 100"
    ends = interval(Figure(*(100.0 * x for x in figure)))
    return f"{100.0 * figure.value:.3g} of 100" + (f" {ends}" if ends else "")


def interval(figure: Figure) -> str:
    """The ends of an interval; nothing where they are not known.

    >>> interval(Figure(0.5, 0.4, 0.6)), interval(Figure(0.5, float("nan"), 0.6))
    ('[0.4, 0.6]', '')
    """
    if math.isnan(figure.low) or math.isnan(figure.high):
        return ""
    return f"[{figure.low:.3g}, {figure.high:.3g}]"


def percent(figure: Figure | None) -> str:
    """A share in percent, with its interval.

    >>> percent(Figure(0.1334, 0.114, 0.154))
    '13.3 percent [11.4, 15.4]'
    """
    if figure is None or math.isnan(figure.value):
        return "-"
    ends = interval(Figure(*(100.0 * x for x in figure)))
    return f"{100.0 * figure.value:.3g} percent" + (f" {ends}" if ends else "")


def number(figure: Figure | None, digits: int = 3) -> str:
    """A figure with its interval, or a dash."""
    if figure is None or math.isnan(figure.value):
        return "-"
    ends = "" if math.isnan(figure.low) else f" [{figure.low:.{digits}g}, {figure.high:.{digits}g}]"
    return f"{figure.value:.{digits}g}{ends}"


def chance(p: float) -> str:
    """A p value that is never shown as 0.

    >>> chance(0.0421), chance(1e-9), chance(float("nan"))
    ('0.042', '<0.0001', '-')
    """
    return "-" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.2g}"


def bound(audit: Audit) -> str:
    """The theorem's number, with its conditions; nothing where there is none."""
    if audit.bound is None:
        return ""
    moves = "the parameter moving as assumed" if audit.moving else "the parameter constant over the epoch"
    return (
        f"any guess is wrong with probability at least {text.percent(audit.bound, 'down')}, at the stated odds, "
        f"with {moves} and the model right"
    )


def _sortable(x: float) -> float:
    return -math.inf if math.isnan(x) else x


# The second half of an audit's page, for whoever has to check: every figure, the fit of the models, a ---


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
            f"{chosen(audit)}"
        ).rstrip()
        parts += figure(dots(nats, guides, "nats a guess", told), caption)
    return parts + "".join(_table(audit, data) for data in DATA)


def _balanced(audit: Audit, clock: bool) -> str:
    lines = _lines(audit, "balanced", clock)
    if not lines:
        return ""
    guides = [Guide(blind(audit), "blind")]
    alone = by_clock(audit)
    oracle = audit.row("oracle")
    if clock and alone is not None:
        guides = [Guide(alone.balanced.value, "the clock alone")]
    elif not clock and oracle is not None and math.isfinite(oracle.balanced.value):
        guides.append(Guide(oracle.balanced.value, "told the played value"))
    best = strongest(audit, "disguised", clock)
    how = "with the clock" if clock else "without the clock"
    told = f"Balanced accuracy of each adversary {how}, with intervals, on each kind of data."
    if best is not None:
        told += f" The best on the disguised output, {best.title or best.adversary}, has {best.balanced}."
    if not any(row.clock for row in audit.of()):
        how = ""
    caption = f"Balanced accuracy {how}, with {100.0 * audit.confidence:g} percent intervals.".replace(" ,", ",")
    if any("noise" in line.figures for line in lines):
        caption += " The noise is noise that is independent from reading to reading."
    if any("offset" in line.figures for line in lines):
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
    from understudy.report.design_page import frontier as drawn

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
            number(c.mean_absolute),
            number(c.root_mean_square),
            number(c.relative),
            number(c.daily),
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
            f"{c.name} {number(c.spectrum.distance)} dB" for c in found.channels if c.spectrum is not None
        )
        titles = ("Channel", "Periods", "Distance, dB", "Power of the output over that of the readings, dB")
        parts += paragraphs(f"Log-spectral distance over all frequencies: {whole}.")
        parts += table("Spectrum, by bands", titles, bands, numbers=(2, 3))
    if found.own:
        lines = [[name, number(value)] for name, value in found.own.items()]
        parts += table("Your own", ("Figure", "Value"), lines, numbers=(1,))
    return parts


def method(audit: Audit) -> str:
    """How intervals and p values were made."""
    tests = sorted({how_tested(row) for row in audit.rows if row.test})
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
        f"end of its interval. {chosen(audit)}".rstrip(),
        judged(audit),
    )


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
            "-" if row.reference else chance(row.corrected), f"{row.seconds:.1f}", mark(audit, row),
        ]
        for row in rows
    ]  # fmt: skip
    title = f"{DATA[data][:1].upper()}{DATA[data][1:]}"
    return details(f"{title}: all figures", table(title, head, lines, numbers=range(1, 7)))


def _share(found: Figure) -> str:
    if math.isnan(found.value):
        return "-"
    ends = "" if math.isnan(found.low) else f" [{100.0 * found.low:.3g}, {100.0 * found.high:.3g}]"
    return f"{100.0 * found.value:.3g}{ends} %"


def _first(memory: tuple[float, ...]) -> str:
    return f"{memory[0]:+.3f}" if memory and math.isfinite(memory[0]) else "-"


# The first half of an audit's page, for whoever has to decide: what was tried, what was learned, and  ---


_APART = (
    "A theorem and an experiment answer different questions. The theorem holds for every adversary, also for one that "
    "nobody has thought of, if its conditions hold. The experiment shows what these adversaries got out of these "
    "readings, whether the conditions hold or not. Neither replaces the other."
)
_TELLING = (
    "The figures on utility are about one release and its draws. Where little was changed, the truth was played. Keep "
    "this page as secret as the raw readings."
)


def summary(audit: Audit, design: AnyDesign | None = None) -> str:
    """The outcome first, then what speaks against the models, how often the best adversary is right, and on what."""
    outcome, warning = verdict(audit)
    lead = "Warning" if warning else "Outcome"
    secret = box([_TELLING], warning=True, lead="Keep this page secret") if _one_release(audit) else ""
    notes = [sentence(note) for note in audit.notes]
    found = [] if design is None else warnings(design)
    return (
        box([outcome], warning=warning, lead=lead)
        + secret
        + (box(found, warning=True, lead="Of the models") if found else "")
        + paragraphs(f"The audit was made {how(audit)}.")
        + pairs("How many of 100 guesses are right", learned(audit))
        + paragraphs(counted(audit), gains(audit), premise(audit), judged(audit))
        + (box(notes, lead="What must be known beside the figures") if notes else "")
    )


def tried(audit: Audit) -> str:
    """Every adversary in a sentence, with what it got without the clock and with it."""
    rows = ordered(row for row in audit.of(references=True) if not row.clock)
    timed = {row.adversary: row for row in audit.of(references=True) if row.clock}
    only = [row for key, row in timed.items() if key not in {each.adversary for each in rows}]
    lines = []
    for row in ordered([*rows, *only]):
        other = timed.get(row.adversary) if row.adversary != "clock" else row
        line = [row.title or row.adversary, does(row), "-" if row.clock else hundred(row.balanced)]
        marks = [row] if other is None or row.reference else [row, other]
        if timed:
            line.append("-" if other is None else hundred(other.balanced))
        lines.append([*line, "; ".join(dict.fromkeys(mark(audit, each) for each in marks))])
    head = ["Adversary", "What it does", "Right guesses"] + ["Right guesses with the clock"] * bool(timed) + ["Verdict"]
    shown = table("What was tried on the disguised output, the strongest first; each value counts alike", head, lines)
    if not audit.skipped:
        return shown
    return shown + paragraphs("Not tried:") + bullets(f"{name}: {reason}." for name, reason in audit.skipped.items())


def apart(audit: Audit, design: AnyDesign | None = None) -> str:
    """The theorem on one side and the experiment on the other, with the card of the design where it is at hand."""
    best = audit.best
    theorem = bound(audit)
    rows = [
        ("Says", "what no adversary can do", "what these adversaries did"),
        (
            "Wrong guesses",
            _theorem(audit),
            "-" if best is None else f"{percent(least_error(audit))}, the best adversary",
        ),
        (
            "Rests on",
            "models that are right, draws by the rules, odds as stated",
            f"{audit.guesses:,} guesses; {100.0 * audit.confidence:g} percent confidence",
        ),
        (
            "Says nothing about",
            "readings that do not have the law of the models",
            "adversaries that were not tried, and other readings",
        ),
    ]
    head = ("", "The theorem", "The experiment")
    parts = paragraphs(_APART) + table("Theorem and experiment, side by side", head, rows)
    if theorem:
        parts += paragraphs(f"The theorem in full: {theorem}.")
    if design is not None:
        parts += f"<h3>The theorem: the guarantee card</h3>{card_of(design).html()}"
    return parts + f"<h3>The experiment: what was measured</h3>{_measured(audit)}"


def _theorem(audit: Audit) -> str:
    """What the theorem says about wrong guesses, in a cell."""
    if audit.estimated:
        return "no guarantee, audit only: the private value is estimated from the readings"
    if audit.bound is not None:
        return f"at least {text.percent(audit.bound, 'down')}"
    if not causal(audit):
        return "no bound for this use"
    size = (
        "is bounded by the rate"
        if audit.budget is None
        else f"is at most {audit.budget:.4g} nats a decision, on average"
    )
    return f"no bound on a single guess here; what the whole path tells {size}"


def least_error(audit: Audit) -> Figure | None:
    """The error of the adversary that errs least on the disguised output, without the clock: by the odds as stated."""
    rows = [row for row in audit.of() if not row.clock and row.error.value == row.error.value]
    return min(rows, key=lambda row: row.error.value).error if rows else None


def not_protected(audit: Audit, design: AnyDesign | None = None) -> str:
    """What neither the theorem nor this audit covers."""
    items = [
        "Adversaries that were not tried may get more. So may these with more labelled readings.",
        "Only the filtered channels were attacked. Another column, another sensor of the room, or an access log may "
        "give the same fact away.",
        "What the clock tells. Time of day and weekday are public, and tell much about most private parameters; "
        "the table says how much.",
        "When readings come, and which are missing.",
        "The readings themselves: only the private parameter is hidden in them.",
        "More draws for the same value, as after a restart without the ledger: each tells again.",
    ]
    if audit.how == "simulated":
        items.insert(
            0, "Your sensor. The readings were simulated by the models, which are right there by definition. Only an "
            "audit on real readings shows what a wrong model gives away.",
        )  # fmt: skip
    time = None if design is None else about(design).get("time")
    if time:
        items.append(f"The column {label(time)}, which leaves as it is.")
    return bullets(items) + paragraphs(
        "Disguised readings are wrong on purpose: never drive ventilation or alarms from them."
    )


def _measured(audit: Audit) -> str:
    rows = []
    for clock in (False, True):
        for data, title in DATA.items():
            best = strongest(audit, data, clock)
            if best is not None:
                name = f"The clock and {title}" if clock else f"{title[:1].upper()}{title[1:]}"
                figures = (str(best.balanced), str(best.error), at_least(best.nats))
                rows.append([name, best.title or best.adversary, *figures])
    head = ("Seen", "Best adversary", "Balanced accuracy", "Wrong guesses", "Nats a guess, at least")
    shown = table("The best adversary on each kind of data", head, rows, numbers=(2, 3, 4))
    return shown + paragraphs(f"Nats: the lower end of the interval. {chosen(audit)}".rstrip()) + _price(audit)


def _price(audit: Audit) -> str:
    if not audit.distortion:
        return ""
    rows = []
    channels = () if audit.utility is None else audit.utility.channels
    names = [channel.name for channel in channels]
    # the same figure as under utility, where that was measured: its interval knows of copies too
    for c, measured in enumerate([channel.mean_absolute for channel in channels] or audit.distortion):
        mean = audit.mean_reading[c] if c < len(audit.mean_reading) else 0.0
        share = f", {100.0 * measured.value / mean:.3g} percent of the mean reading" if mean > 0.0 else ""
        rows.append((names[c] if c < len(names) else f"Channel {c + 1}", f"{number(measured)}{share}"))
    return pairs("The price: mean absolute distance of output and reading", rows)


def _one_release(audit: Audit) -> bool:
    return audit.how == "released" and (audit.utility is not None or bool(audit.distortion))


def at_a_glance(audit: Audit, design: AnyDesign | None = None) -> str:
    """The design and the audit in a small table."""
    rows = [("Attacked", f"{how(audit)}"), ("Values of the private parameter", str(audit.values))]
    if audit.design:
        rows.append(("Design", audit.design))
    if design is not None:
        relative = relative_distortion(design)
        share = "" if relative is None else f" ({100.0 * relative:.3g} percent of the mean reading)"
        rows.append(("Distortion by design", f"{design.distortion:.4g}{unit(about(design))}{share}"))
    if audit.budget is not None:
        rows.append(("Leakage by design", f"{audit.budget:.4g} nats {'a decision' if causal(audit) else 'a draw'}"))
    if audit.estimated:
        rows.append(("Guarantee", ESTIMATED))
    rows.append(("Time that the audit took", f"{audit.seconds:.0f} s"))
    return pairs("At a glance", rows)


# The page of an audit: for those who decide first, for those who check below. It opens offline -------


def audit_report(audit: Audit, design: AnyDesign | None = None, scores: Scores | None = None) -> str:
    """The page of an audit as HTML that loads nothing from elsewhere; with the design, its card and trade-off too.

    `scores` are those of the raw readings under the models, where the audit does not hold them itself.
    """
    title = _title(design)
    sections = [
        ("summary", "In short", summary(audit, design) + at_a_glance(audit, design)),
        ("tried", "What was tried", tried(audit)),
        ("apart", "Theorem and experiment", apart(audit, design)),
        ("open", "What is not protected", not_protected(audit, design)),
        ("adversaries", "Adversaries", adversaries(audit)),
        ("fit", "Do the readings have the law of the models?", fit(audit, scores)),
        ("frontier", "The trade-off", frontier(design)),
        ("utility", "What is left for honest use", utility(audit)),
        ("method", "How the figures were made", method(audit)),
    ]
    mark = None if design is None else fingerprint(design)
    made = f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")
    return _html.report(title, made, sections)


def audit_html(audit: Audit, scores: Scores | None = None) -> str:
    """The audit as a part of another page: what `privacy_report(design, audit=...)` takes.

    The card, the trade-off and what is not protected stand on that page already.
    """
    return "".join(
        f"<h3>{escape(title)}</h3>{content}" if title else content
        for title, content in (
            ("", summary(audit)),
            ("What was tried", tried(audit)),
            ("Theorem and experiment", apart(audit)),
            ("Adversaries", adversaries(audit)),
            ("Do the readings have the law of the models?", fit(audit, scores)),
            ("What is left for honest use", utility(audit)),
            ("How the figures were made", method(audit)),
        )
    )


def _title(design: AnyDesign | None) -> str:
    from understudy.text import label

    known = {} if design is None else about(design)
    if not known.get("private"):
        return "Audit of a disguise"
    names = ", ".join(label(name) for name in known.get("readings") or ["the readings"])
    return f"Audit: {label(known['private'])} behind {names}"
