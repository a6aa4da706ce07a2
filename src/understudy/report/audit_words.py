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
    "genie": "Is told the value that was played: more than any output can tell, if the models are right.",
}
_HOW = {
    "simulated": "on readings simulated by the design's own models",
    "replayed": "on raw readings that were disguised for the audit with fresh draws",
    "released": "on the output as it was released",
}
DATA = {
    "disguised": "the disguised output",
    "noise": "raw readings with as much noise",
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


def verdict(audit: Audit) -> tuple[str, bool]:
    """The outcome in a sentence, and whether it is a warning."""
    if audit.best is None:
        return "No adversary could be run on the disguised output: nothing is known from this audit.", True
    if audit.broken:
        names = ", ".join(row.shown for row in audit.of() if row.beats)
        return (
            f"An adversary does better than the theorem allows ({names}). So one of the theorem's conditions does not "
            "hold for these readings. Do not rely on the bound.",
            True,
        )
    if audit.found and audit.how == "released":
        return "Adversaries found out something about the private value from what was released.", True
    if audit.bound is not None and audit.found:
        return "Adversaries found out something, as they may: none did better than the theorem allows.", False
    if audit.found:
        return (
            "Adversaries found out something about the private value, as a design that lets something out allows. No "
            "theorem bounds it for this use: the figures are all that is known.",
            False,
        )
    return (
        f"No adversary found out anything (false-alarm rate {audit.level:g} for all together). That is no proof that "
        "nothing is there: it says what these adversaries could see in so many readings.",
        False,
    )


def learned(audit: Audit) -> list[tuple[str, str]]:
    """How often the best adversary is right, and beside it those who see less or more: who, and of 100 guesses."""
    found = _bests(audit, False)
    found.append(("Without looking at anything", f"{100.0 / max(audit.values, 1):.3g} of 100"))
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
            found.append((f"From {title}{' and the clock' if clock else ''} ({name})", hundred(best.balanced)))
    return found


def strongest(audit: Audit, data: str = "disguised", clock: bool = False) -> Row | None:
    """The adversary of highest balanced accuracy among those that use the clock, or do not; references do not count."""
    rows = [row for row in audit.of(data) if row.clock == clock]
    return max(rows, key=lambda row: _sortable(row.balanced.value), default=None)


def by_clock(audit: Audit) -> Row | None:
    """The reference that looks at the clock alone, if there was one."""
    found = [row for row in audit.of(references=True) if row.adversary == "clock"]
    return found[0] if found and not math.isnan(found[0].balanced.value) else None


def counted(audit: Audit) -> str:
    """What the numbers of `learned` mean."""
    return (
        "Each value of the private parameter counts alike in these numbers, however rare it is. In brackets: where the "
        f"true share lies with {100.0 * audit.confidence:g} percent confidence. The noise has the same mean error as "
        "the disguise."
    )


def gains(audit: Audit) -> str:
    """What was learned beyond the odds, by the adversary that shows most of it, in bits."""
    rows = [row for row in audit.of() if not row.clock and math.isfinite(row.nats.value)]
    if not rows:
        return ""
    most = max(rows, key=lambda row: _sortable(row.nats.low))  # who shows most for sure
    bits = Figure(*(x / math.log(2.0) for x in most.nats))
    shown = f"{bits.value:.3g} bit a guess{' ' + interval(bits) if interval(bits) else ''}"
    if not bits.low > 0.0:
        return f"In bits, what was learned beyond the odds cannot be told from nothing: at best {shown} ({most.shown})."
    return (
        f"Beyond the odds at least {shown} was learned ({most.shown}). The true amount may be larger: an adversary can "
        "only show what it knows how to use."
    )


def premise(audit: Audit) -> str:
    """That the best adversary does better than one who is told the played value, which right models do not allow."""
    best, told = strongest(audit), audit.row("genie")
    if best is None or told is None or not best.balanced.value > told.balanced.value + _MORE:
        return ""
    sure = best.balanced.low > told.balanced.high
    why = "So the models are not right" if sure else "It may be chance, as the intervals meet"
    return (
        f"The best adversary ({best.title or best.adversary}) does better than somebody who is told the value that was "
        f"played, and works out the odds by the models: {hundred(best.balanced)} against {hundred(told.balanced)}. "
        f"With right models nobody can. {why}; the scores below tell how far they are from the readings."
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


def mark(row: Row) -> str:
    """The verdict on an adversary, in a few words."""
    if row.reference:
        return "for comparison"
    if row.beats:
        return "beats the bound"
    told = "something" if row.found else "nothing"
    return f"finds {told} beyond the clock" if row.clock else f"finds {told}"


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
