"""An audit in plain words: what was tried, what was learned, and how sure that is. For pages and the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from understudy.adversaries.audited import Audit, Figure, Row
from understudy.randomizer import card

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
    "genie": "Is told the value that was played, more than any output tells if the models are right; takes a value "
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
    "held": "raw readings with an offset of the same size that is held for an epoch",
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
    best, told = strongest(audit), audit.row("genie")
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
        f"any guess is wrong with probability at least {card.percent(audit.bound, 'down')}, at the stated odds, with "
        f"{moves} and the model right"
    )


def _sortable(x: float) -> float:
    return -math.inf if math.isnan(x) else x
