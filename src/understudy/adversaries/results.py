"""What an audit found: figures with intervals, adversary by adversary.

An `Audit` holds aggregate figures and nothing else: no reading, no private value, no path. It can be shown to whoever
may know how well the design holds.

An audit as plain text: a table that fits a terminal, then what must be known beside it.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from understudy._paths import write_whole
from understudy._types import Plain
from understudy.adversaries.statistics import Figure, as_json, from_json
from understudy.adversaries.utility import Utility
from understudy.errors import ConfigurationError
from understudy.serialize import read_plain

# What an audit found: figures with intervals, adversary by adversary ---------------------------------


SCHEMA, VERSION = "understudy.audit", 1
_NAMED, _NEW_NAMES = ("adversary", "data"), {"genie": "oracle", "held": "offset"}  # as files of 0.1 have them

DATA = ("disguised", "raw", "noise", "offset")
"""What is attacked: the output, the readings as they came in, and these with noise of equal distortion: drawn for every
reading, or a constant offset for an epoch."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one adversary made of one kind of data."""

    data: str
    """"disguised", "raw", "noise" or "offset"."""
    adversary: str
    """Its name in the roster."""
    clock: bool
    """Whether it used the time of day and the weekday."""
    reference: bool
    """It attacks nothing: the blind one, the clock, and the one who is told the pseudo value."""
    balanced: Figure
    """Balanced accuracy: how often it is right, averaged over the values of the parameter."""
    error: Figure
    """How often it is wrong."""
    gain: Figure
    """Balanced accuracy less that of the time-aware prior: of the clock where there is one, else of the blind one."""
    nats: Figure
    """Lower bound on what it knows about theta beyond the odds, in nats a guess."""
    p: float
    """Of "it tells nothing about theta"; with the clock, nothing beyond what the clock tells."""
    found: bool
    """The corrected p is within the audit's level; with the clock, it is also right more often than the clock."""
    beats: bool
    """Its error lies below the design's bound beyond its interval, made wider for all adversaries that were tried."""
    guesses: int
    blocks: int
    """Stretches of time that were judged: what the intervals rest on."""
    seconds: float
    test: str = ""
    """How p was found: "permutation" of labels among independent sequences, or signs of "stretches" of time."""
    title: str = ""
    """The adversary's name in words."""
    testable: bool = True
    """Somebody who knew every label would have been found. If not, that nothing was found means nothing."""
    corrected: float = math.nan
    """p corrected for all adversaries that were tried on these data: what `found` goes by."""

    @property
    def shown(self) -> str:
        """Its name in a table."""
        return f"{self.title or self.adversary}{' + clock' if self.clock and self.adversary != 'clock' else ''}"


@dataclass(frozen=True, repr=False)
class Audit:
    """What adversaries learned, in aggregate figures. `us.audit` makes one.

    `bound` is the error that no adversary goes below if the design's premises hold, None where there is no such
    number; `prior_error` that of the best guess without the output. Intervals are at `confidence`, and an adversary
    counts as one that found something at false-alarm rate `level` for all adversaries of the same data together.
    """

    rows: tuple[Row, ...]
    bound: float | None
    prior_error: float
    confidence: float
    level: float
    guesses: int
    """Guesses that each adversary was judged on."""
    learned: int
    """Labelled guesses that each could learn from."""
    how: str
    """"simulated", "replayed" (raw readings, disguised here) or "released" (an output that was made elsewhere)."""
    values: int
    """How many values the private parameter has."""
    moving: bool
    """Whether the private value moves in a sequence."""
    notes: tuple[str, ...] = ()
    """What a reader must know beside the figures, one plain sentence each."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Adversaries that were not run, each with the reason."""
    distortion: tuple[Figure, ...] = ()
    """Mean absolute distance of output and reading, by channel."""
    mean_reading: tuple[float, ...] = ()
    """Mean absolute reading by channel: what the distortion is a share of."""
    noise: tuple[float, ...] = ()
    """Mean absolute distance of the readings with noise, by channel."""
    utility: Utility | None = None
    seconds: float = 0.0
    design: str = ""
    """The design in one line."""
    budget: float | None = None
    """What the design lets out, in nats: of a draw, or a decision where the private value moves."""
    estimated: bool = False
    """The design accepts private values that the edge estimates: there is no guarantee, only this audit."""

    def __repr__(self) -> str:
        best = self.best
        told = "no adversary" if best is None else f"best {best.shown!r} balanced {best.balanced.value:.3f}"
        nothing = "nothing found" if self.testable else "not testable"
        verdict = "BROKEN" if self.broken else "found" if self.found else nothing
        return f"Audit({self.how}, {len(self.rows)} rows, {told}, {verdict})"

    def __str__(self) -> str:
        return self.text()

    def of(self, data: str = "disguised", references: bool = False) -> tuple[Row, ...]:
        """The rows of one kind of data, without the references or with them."""
        return tuple(row for row in self.rows if row.data == data and (references or not row.reference))

    def row(self, adversary: str, data: str = "disguised", clock: bool = False) -> Row | None:
        """The row of one adversary, None if it was not run."""
        for row in self.rows:
            if (row.adversary, row.data, row.clock) == (adversary, data, clock):
                return row
        return None

    def best_on(self, data: str) -> Row | None:
        """The adversary of highest balanced accuracy on one kind of data; references do not count."""
        return max(self.of(data), key=lambda row: row.balanced.value, default=None)

    @property
    def best(self) -> Row | None:
        """The strongest adversary on the disguised data."""
        return self.best_on("disguised")

    @property
    def found(self) -> bool:
        """Whether an adversary found out anything at all; what a design lets out, in nats, is there to be found.

        Where adversaries had the clock only these count: what the clock tells anyway is no finding.
        """
        return any(row.found for row in self._counted)

    @property
    def found_alone(self) -> bool:
        """Whether an adversary without the clock found anything, be it what the clock tells as well."""
        return any(row.found for row in self.of() if not row.clock)

    @property
    def testable(self) -> bool:
        """Whether anything could have been found, by those adversaries that `found` counts."""
        return any(row.testable for row in self._counted)

    @property
    def _counted(self) -> tuple[Row, ...]:
        rows = self.of()
        return tuple(row for row in rows if row.clock) or rows

    @property
    def broken(self) -> bool:
        """Whether an adversary does better than the design's bound allows."""
        return any(row.beats for row in self.of())

    def text(self) -> str:
        """The audit as plain text: one table, and what must be known beside it."""
        return text(self)

    def plain(self) -> Plain:
        """The audit as JSON can hold it; what is not a number is None."""
        best = self.best
        return {
            "schema": SCHEMA,
            "version": VERSION,
            **as_json(self),
            "best": None if best is None else {"adversary": best.adversary, "clock": best.clock},
            "found": self.found,
            "found_alone": self.found_alone,
            "testable": self.testable,
            "broken": self.broken,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the audit to a JSON file; `load_audit` reads it again."""
        write_whole(path, json.dumps(self.plain(), indent=1, allow_nan=False, ensure_ascii=False) + "\n")

    @classmethod
    def from_plain(cls, plain: Plain) -> Audit:
        """The audit that `plain` wrote."""
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
            raise ConfigurationError(f"this is no audit; its schema must be {SCHEMA!r}")
        if plain.get("version") != VERSION:
            raise ConfigurationError(f"this audit has version {plain.get('version')!r}; this software reads {VERSION}")
        try:
            rows = [{**row, **{key: _NEW_NAMES.get(row[key], row[key]) for key in _NAMED}} for row in plain["rows"]]
            found: Audit = from_json(cls, {**plain, "rows": rows})
            return found
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise ConfigurationError(f"this audit is damaged: {type(wrong).__name__}") from None


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """The audit that `Audit.save` wrote."""
    return Audit.from_plain(read_plain(path))


# An audit as plain text: a table that fits a terminal, then what must be known beside it -------------


ESTIMATED = (
    "No guarantee, audit only: the design's streams estimate the private value from the readings, and then no theorem "
    "holds. The figures are all that is known."
)
"""What is said of a design that accepts estimated values."""
_HEADS = ("adversary", "balanced accuracy", "error", "gain over the clock", "nats", "adjusted p-value", "")
_NAMES = {
    "disguised": "disguised output",
    "raw": "raw readings",
    "noise": "raw readings with noise of equal distortion: noise that is independent from reading to reading",
    "offset": "raw readings with an offset of equal distortion that is held for an epoch",
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

    >>> from understudy.adversaries.results import Audit
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
