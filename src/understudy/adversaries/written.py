"""An audit as plain text: a table that fits a terminal, then what must be known beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from understudy.adversaries.audited import Audit, Row

_HEADS = ("adversary", "balanced accuracy", "error", "gain", "nats", "p", "")
_NAMES = {
    "disguised": "disguised output",
    "raw": "raw readings",
    "noise": "raw readings with noise of equal distortion",
}


def text(audit: Audit, width: int = 120) -> str:
    """The whole audit in words and columns."""
    parts = [textwrap.fill(headline(audit), width)]
    for data, name in _NAMES.items():
        rows = audit.of(data, references=True)
        if rows:
            parts.append(f"{name}\n{_table(rows)}")
    sizes = f"{audit.guesses:,} guesses judged, {audit.learned:,} to learn from; intervals at {audit.confidence:.0%}"
    notes = [f"- {line}" for line in (f"{sizes}.", *_told(audit), *audit.notes)]
    notes += [f"- not run: {name}, as {reason}" for name, reason in audit.skipped.items()]
    parts.append("\n".join(textwrap.fill(note, width, subsequent_indent="  ") for note in notes))
    return "\n\n".join(parts)


def headline(audit: Audit) -> str:
    """What came out, in one sentence."""
    best = audit.best
    if best is None:
        return "No adversary was run on the disguised output."
    share, low, high = (100.0 * x for x in best.balanced)
    said = f"The best adversary, {best.shown}, is right {share:.1f} percent of the time, balanced over the values"
    said += f" ({low:.1f} to {high:.1f})"
    raw = audit.best_on("raw")
    if raw is not None:
        said += f"; on the raw readings the best, {raw.shown}, is right {100.0 * raw.balanced.value:.1f} percent"
    if audit.broken:
        return f"{said}. It does BETTER than the design's bound allows: a premise fails."
    if audit.bound is not None:
        return f"{said}. None errs less often than the bound of {100.0 * audit.bound:.2f} percent, beyond its interval."
    return f"{said}. {'They found something' if audit.found else 'None found anything'} in the output."


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
    told.append(f"error of the best guess without the output: {audit.prior_error:.4g}.")
    return told


def _table(rows: Sequence[Row]) -> str:
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    mark = "BEATS THE BOUND" if row.beats else "found" if row.found else ""
    p = "" if row.p != row.p else f"{row.p:.2g}" if row.p > 1e-12 else "<1e-12"
    gain = "" if row.gain.value != row.gain.value else f"{row.gain.value:+.3f}"
    return (
        f"{row.shown}{' (reference)' if row.reference else ''}", str(row.balanced), str(row.error), gain,
        str(row.nats), p, mark,
    )  # fmt: skip
