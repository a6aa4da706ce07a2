"""The first half of an audit's page, for whoever has to decide: what was tried, what was learned, and what stays open.

What a theorem says and what an experiment showed stand apart: the one holds for every adversary under conditions, the
other for these adversaries and these readings.
"""

from __future__ import annotations

from understudy.adversaries.audited import Audit, Figure
from understudy.adversaries.written import ESTIMATED, causal
from understudy.randomizer import card
from understudy.randomizer.card import label
from understudy.report import audit_words as words
from understudy.report.audit_verdict import mark, verdict
from understudy.report.page_facts import AnyDesign, about, card_of, relative_distortion, unit, warnings
from understudy.report.page_parts import box, bullets, pairs, paragraphs, table

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
    notes = [words.sentence(note) for note in audit.notes]
    found = [] if design is None else warnings(design)
    return (
        box([outcome], warning=warning, lead=lead)
        + secret
        + (box(found, warning=True, lead="Of the models") if found else "")
        + paragraphs(f"The audit was made {words.how(audit)}.")
        + pairs("How many of 100 guesses are right", words.learned(audit))
        + paragraphs(words.counted(audit), words.gains(audit), words.premise(audit), words.judged(audit))
        + (box(notes, lead="What must be known beside the figures") if notes else "")
    )


def tried(audit: Audit) -> str:
    """Every adversary in a sentence, with what it got without the clock and with it."""
    rows = words.ordered(row for row in audit.of(references=True) if not row.clock)
    timed = {row.adversary: row for row in audit.of(references=True) if row.clock}
    only = [row for key, row in timed.items() if key not in {each.adversary for each in rows}]
    lines = []
    for row in words.ordered([*rows, *only]):
        other = timed.get(row.adversary) if row.adversary != "clock" else row
        line = [row.title or row.adversary, words.does(row), "-" if row.clock else words.hundred(row.balanced)]
        marks = [row] if other is None or row.reference else [row, other]
        if timed:
            line.append("-" if other is None else words.hundred(other.balanced))
        lines.append([*line, "; ".join(dict.fromkeys(mark(audit, each) for each in marks))])
    head = ["Adversary", "What it does", "Right guesses"] + ["Right guesses with the clock"] * bool(timed) + ["Verdict"]
    shown = table("What was tried on the disguised output, the strongest first; each value counts alike", head, lines)
    if not audit.skipped:
        return shown
    return shown + paragraphs("Not tried:") + bullets(f"{name}: {reason}." for name, reason in audit.skipped.items())


def apart(audit: Audit, design: AnyDesign | None = None) -> str:
    """The theorem on one side and the experiment on the other, with the card of the design where it is at hand."""
    best = audit.best
    theorem = words.bound(audit)
    rows = [
        ("Says", "what no adversary can do", "what these adversaries did"),
        (
            "Wrong guesses",
            _theorem(audit),
            "-" if best is None else f"{words.percent(least_error(audit))}, the best adversary",
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
        return f"at least {card.percent(audit.bound, 'down')}"
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
        for data, title in words.DATA.items():
            best = words.strongest(audit, data, clock)
            if best is not None:
                name = f"The clock and {title}" if clock else f"{title[:1].upper()}{title[1:]}"
                figures = (str(best.balanced), str(best.error), words.at_least(best.nats))
                rows.append([name, best.title or best.adversary, *figures])
    head = ("Seen", "Best adversary", "Balanced accuracy", "Wrong guesses", "Nats a guess, at least")
    shown = table("The best adversary on each kind of data", head, rows, numbers=(2, 3, 4))
    return shown + paragraphs(f"Nats: the lower end of the interval. {words.chosen(audit)}".rstrip()) + _price(audit)


def _price(audit: Audit) -> str:
    if not audit.distortion:
        return ""
    rows = []
    channels = () if audit.utility is None else audit.utility.channels
    names = [channel.name for channel in channels]
    # the same figure as under utility, where that was measured: its interval knows of copies too
    for c, figure in enumerate([channel.mean_absolute for channel in channels] or audit.distortion):
        mean = audit.mean_reading[c] if c < len(audit.mean_reading) else 0.0
        share = f", {100.0 * figure.value / mean:.3g} percent of the mean reading" if mean > 0.0 else ""
        rows.append((names[c] if c < len(names) else f"Channel {c + 1}", f"{words.number(figure)}{share}"))
    return pairs("The price: mean absolute distance of output and reading", rows)


def _one_release(audit: Audit) -> bool:
    return audit.how == "released" and (audit.utility is not None or bool(audit.distortion))


def at_a_glance(audit: Audit, design: AnyDesign | None = None) -> str:
    """The design and the audit in a small table."""
    rows = [("Attacked", f"{words.how(audit)}"), ("Values of the private parameter", str(audit.values))]
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
