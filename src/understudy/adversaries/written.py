"""An audit as plain text: a table that fits a terminal, then what must be known beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from understudy.adversaries.audited import Audit, Row

ESTIMATED = (
    "No guarantee, audit only: the design's streams estimate the private value from the readings, and then no theorem "
    "holds. The figures are all that is known."
)
"""What is said of a design that accepts estimated values."""
_HEADS = ("adversary", "balanced accuracy", "error", "gain", "nats", "p for all", "")
_NAMES = {
    "disguised": "disguised output",
    "raw": "raw readings",
    "noise": "raw readings with noise of equal distortion: noise that is independent from reading to reading",
    "held": "raw readings with an offset of equal distortion that is held for an epoch",
}


def as_clock(audit: Audit, row: Row) -> bool:
    """Whether an adversary without the clock found something, and nothing beyond the clock once it had that too."""
    other = audit.row(row.adversary, row.data, clock=True)
    return row.found and not row.clock and other is not None and not other.found


def clock_only(audit: Audit) -> bool:
    """Whether all that was found is what the clock tells: found without it, and by nobody beyond it."""
    alone = [row for row in audit.of() if row.found and not row.clock]
    return bool(alone) and not audit.found and all(as_clock(audit, row) for row in alone)


def unchanged(audit: Audit) -> bool:
    """Whether the output equals the readings, in all that was judged; False where the readings are not known."""
    return bool(audit.distortion) and all(figure.value == 0.0 for figure in audit.distortion)


def causal(audit: Audit) -> bool:
    """Whether the design decides as time goes by: its leakage is then a rate, by decision."""
    return audit.design.startswith("Causal")


def rate(audit: Audit) -> str:
    """What is known of a causal design by theorem, in a sentence; nothing of others, or where nothing is.

    >>> from understudy.adversaries.audited import Audit
    >>> rate(Audit((), None, 0.5, 0.99, 0.01, 0, 0, "simulated", 2, True, design="CausalDesign()", budget=0.01))[:74]
    'The rate of the design, 0.01 nats a decision, bounds what the whole path o'
    """
    if not causal(audit) or audit.estimated:
        return ""
    size = "" if audit.budget is None else f", {audit.budget:.4g} nats a decision,"
    when = "" if audit.how == "simulated" else ", if its models and its chain are right"
    return (
        f"The rate of the design{size} bounds what the whole path of the private value tells, on average{when}. There "
        "is no bound on the error of a single guess here: of that the figures are all that is known."
    )


def text(audit: Audit, width: int = 120) -> str:
    """The whole audit in words and columns."""
    parts = [textwrap.fill(headline(audit), width)]
    if audit.estimated:
        parts.insert(0, textwrap.fill(ESTIMATED, width))
    for data, name in _NAMES.items():
        rows = audit.of(data, references=True)
        if rows:
            parts.append(f"{name}\n{_table(audit, rows)}")
    sizes = f"{audit.guesses:,} guesses judged, {audit.learned:,} to learn from; intervals at {audit.confidence:.0%}"
    notes = [f"- {line}" for line in (f"{sizes}.", *_told(audit), *audit.notes)]
    notes += [f"- not run: {name}, as {reason}" for name, reason in audit.skipped.items()]
    parts.append("\n".join(textwrap.fill(note, width, subsequent_indent="  ") for note in notes))
    return "\n\n".join(parts)


def headline(audit: Audit) -> str:
    """What came out, in a few sentences."""
    best = audit.best
    if best is None:
        return "No adversary was run on the disguised output."
    share, low, high = (100.0 * x for x in best.balanced)
    said = f"The best adversary, {best.shown}, is right {share:.1f} percent of the time, balanced over the values"
    said += f" ({low:.1f} to {high:.1f})"
    raw = audit.best_on("raw")
    if raw is not None:
        said += f"; on the raw readings the best, {raw.shown}, is right {100.0 * raw.balanced.value:.1f} percent"
    said += "."
    if audit.how == "released" and unchanged(audit):
        said += " The output EQUALS the readings in all that was judged."
    if audit.broken:
        return f"{said} It does BETTER than the design's bound allows: a premise fails."
    if audit.bound is not None:
        said += f" None errs less often than the bound of {100.0 * audit.bound:.2f} percent, beyond its interval."
    return f"{said} {_outcome(audit)}"


def _outcome(audit: Audit) -> str:
    if audit.found:
        beyond = " beyond the clock" if any(row.clock for row in audit.of()) else ""
        return f"They found something in the output{beyond}."
    if not audit.testable:
        return "Whether they found anything cannot be told from so few stretches of time."
    if clock_only(audit):
        return "They found something in the output, but no more than the time of day tells."
    if audit.found_alone:
        return "They found something in the output; whether it is more than the time of day tells was not tried."
    return "None found anything in the output."


def _told(audit: Audit) -> list[str]:
    told = []
    if audit.distortion:
        each = [
            f"{figure.value:.4g} [{figure.low:.4g}, {figure.high:.4g}]"
            + (f" ({figure.value / mean:.1%} of the mean reading)" if mean > 0.0 else "")
            for figure, mean in zip(audit.distortion, audit.mean_reading, strict=True)
        ]
        told.append(f"mean absolute distortion: {', '.join(each)}.")
    if audit.bound is not None:
        told.append(f"bound on the error of every adversary, if the premises hold: {audit.bound:.6g}.")
    known = rate(audit)
    if known:
        told.append(known)
    told.append(f"error of the best guess without the output: {audit.prior_error:.4g}.")
    told.append(
        "nats: an estimate with its interval. At least the lower end was learned; the best was chosen afterwards."
    )
    return told


def _table(audit: Audit, rows: Sequence[Row]) -> str:
    cells = [_HEADS, *(_cells(audit, row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def _cells(audit: Audit, row: Row) -> tuple[str, ...]:
    found = "found, as the clock tells" if as_clock(audit, row) else "found" if row.found else ""
    mark = "BEATS THE BOUND" if row.beats else found
    if not mark and not row.reference and not row.testable:
        mark = "not testable"
    p = row.corrected
    chance = "" if p != p else f"{p:.2g}" if p > 1e-12 else "<1e-12"
    gain = "" if row.gain.value != row.gain.value else f"{row.gain.value:+.3f}"
    return (
        f"{row.shown}{' (reference)' if row.reference else ''}", str(row.balanced), str(row.error), gain,
        str(row.nats), chance, mark,
    )  # fmt: skip
