"""What an audit found: figures with intervals, adversary by adversary.

An `Audit` holds aggregate figures and nothing else: no reading, no private value, no path. It can be shown to whoever
may know how well the design holds. What a program decides on is its `Verdict`, one of three: something was found;
nothing was found, and `Audit.smallest_leak` says which leak would have been; or there is too little data to tell, and
`Audit.days_needed` says how many days would do. `Outcome` tells these apart more finely.
The sentences stand in `understudy.text`; `Audit.text` puts them around tables that fit a terminal.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from understudy import text
from understudy._html import fragment, paragraphs, table
from understudy._paths import write_whole
from understudy._types import Plain
from understudy.adversaries.rivals import Rivals
from understudy.adversaries.statistics import Figure, as_json, from_json
from understudy.adversaries.utility import Utility, price_sentences
from understudy.errors import ConfigurationError
from understudy.serialize import read_plain

# What an audit found: figures with intervals, adversary by adversary ---------------------------------


SCHEMA, VERSION = "understudy.audit", 1
_NAMED, _NEW_NAMES = ("adversary", "data"), {"genie": "oracle", "held": "offset"}  # as files of 0.1 have them

DATA = ("disguised", "insider", "scores", "raw", "noise", "offset")
"""What is attacked: the output; the same by insiders, who have labels of other days of the same period; the scores with
their running sums; the readings as they came in; and these with noise of equal distortion: drawn for every reading, or
a constant offset for an epoch."""
_UNKNOWN = Figure(math.nan, math.nan, math.nan)
LITTLE = 0.05
"""Where raw readings add less than this to the clock, in balanced accuracy, there is little to protect."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one adversary made of one kind of data."""

    data: str
    """One of `DATA`."""
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
    turned: Figure = _UNKNOWN
    """Balanced accuracy of the guesses turned around, where they are right less often than chance beyond the interval:
    a leak too. The sign for each block is learned from labels of other blocks of the same period."""
    smallest: float = math.nan
    """The excess in balanced accuracy that its test would have found four times of five."""
    needed: int = 0
    """How many blocks of time would make it testable; 0 where it is, or where no number would do."""

    @property
    def sign_turned(self) -> bool:
        """Whether its guesses are right less often than chance, beyond the interval."""
        return not math.isnan(self.turned.value)

    @property
    def strength(self) -> Figure:
        """Balanced accuracy by the better of both signs."""
        return self.turned if self.turned.value > self.balanced.value else self.balanced

    @property
    def label(self) -> str:
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
    causal: bool = False
    """The design decides as time goes by: its leakage is a rate, by decision."""
    rivals: Rivals | None = None
    """Simple outputs of equal price and the limit beside the design, where a recording was audited."""
    days: float = math.nan
    """How many days were judged; NaN where the period is not known."""

    def __repr__(self) -> str:
        best = self.best
        told = "no adversary" if best is None else f"best {best.label!r} balanced {best.strength.value:.3f}"
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
        return max(self.of(data), key=lambda row: row.strength.value, default=None)

    @property
    def best(self) -> Row | None:
        """The strongest adversary on the disguised data."""
        return self.best_on("disguised")

    @property
    def found(self) -> bool:
        """Whether an adversary found out anything at all; what a design lets out, in nats, is there to be found.

        Where adversaries had the clock only these count: what the clock tells anyway is no finding.
        """
        return any(row.found for row in self.rows_that_count)

    @property
    def found_alone(self) -> bool:
        """Whether an adversary without the clock found anything, be it what the clock tells as well."""
        return any(row.found for row in self.rows_on_output if not row.clock)

    @property
    def testable(self) -> bool:
        """Whether anything could have been found, by those adversaries that `found` counts."""
        return any(row.testable for row in self.rows_that_count)

    @property
    def rows_that_count(self) -> tuple[Row, ...]:
        """The rows that `found` goes by."""
        rows = self.rows_on_output
        return tuple(row for row in rows if row.clock) or rows

    @property
    def rows_on_output(self) -> tuple[Row, ...]:
        """What adversaries, insiders included, made of the disguised output."""
        return (*self.of(), *self.of("insider"))

    @property
    def broken(self) -> bool:
        """Whether an adversary does better than the design's bound allows."""
        return any(row.beats for row in self.of())

    @property
    def outcome(self) -> Outcome:
        """What came out, by those adversaries that `found` counts."""
        if self.best is None:
            return Outcome.NONE_RUN
        if self.broken or self.found:
            return Outcome.BROKEN if self.broken else Outcome.FOUND
        if not self.testable:
            return Outcome.NOT_TESTABLE
        alone = [row for row in self.rows_on_output if row.found and not row.clock]
        if not alone:
            return Outcome.NOTHING
        return Outcome.CLOCK_ONLY if all(_as_clock(self, row) for row in alone) else Outcome.WITHOUT_CLOCK

    @property
    def verdict(self) -> Verdict:
        """What came out, as one of three."""
        outcome = self.outcome
        if outcome in (Outcome.BROKEN, Outcome.FOUND, Outcome.WITHOUT_CLOCK):
            return Verdict.FOUND
        if outcome is Outcome.NOT_TESTABLE and self.found_alone:
            return Verdict.FOUND  # without the clock; whether it is more than the clock gives cannot be told
        if outcome in (Outcome.NONE_RUN, Outcome.NOT_TESTABLE):
            return Verdict.TOO_LITTLE
        at_stake = self.at_stake
        return Verdict.TOO_LITTLE if self.smallest_leak > at_stake > LITTLE else Verdict.NOTHING

    @property
    def smallest_leak(self) -> float:
        """The excess in balanced accuracy that would have been found four times of five, by the strongest adversary.

        Over the clock where adversaries had it, otherwise over chance; NaN where it is not known.
        """
        rows = [row for row in self.rows_that_count if row.testable and not math.isnan(row.smallest)]
        best = max(rows, key=lambda row: _sortable(row.strength.value), default=None)
        return math.nan if best is None else best.smallest

    @property
    def at_stake(self) -> float:
        """What the raw readings add in balanced accuracy: to the clock where there is one, otherwise to chance."""
        rows = self.of("raw")
        rows = tuple(row for row in rows if row.clock) or rows
        return max((row.gain.value for row in rows if not math.isnan(row.gain.value)), default=math.nan)

    @property
    def little_to_protect(self) -> bool:
        """Whether the raw readings add less than 0.05 to the clock, or to chance; False where they are not known."""
        return self.at_stake < LITTLE

    @property
    def days_needed(self) -> float:
        """About how many judged days would be enough to tell; NaN where that is not known."""
        if self.verdict is not Verdict.TOO_LITTLE:
            return math.nan
        rows = [row for row in self.rows_that_count if row.blocks]
        times = [row.needed / row.blocks for row in rows if row.needed]
        if not times and self.testable:
            times = [(self.smallest_leak / self.at_stake) ** 2]  # errors fall with the root of the time
        return math.ceil(self.days * min(times)) if times and not math.isnan(self.days) else math.nan

    @property
    def unchanged(self) -> bool:
        """Whether the output equals the readings, in all that was judged; False where the readings are not known."""
        return bool(self.distortion) and all(figure.value == 0.0 for figure in self.distortion)

    def _repr_html_(self) -> str:
        best, raw = ((row.label, row.balanced) if row is not None else None for row in (self.best, self.best_on("raw")))
        lead = paragraphs(f"{text.best_adversary(best, raw)} {verdict(self)}".lstrip())
        rows = [
            (name, *_cells(self, row)) for data, name in text.DATA.items() for row in self.of(data, references=True)
        ]
        return fragment("Audit", lead, table(text.ROWS_CAPTION, ("readings", *_HEADS), rows) if rows else "")

    def text(self) -> str:
        """The audit as plain text: a table for each kind of data, and what must be known beside it."""
        return audit_text(self)

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
            "verdict": self.verdict.value,
            "smallest_leak": as_json(self.smallest_leak),
            "days_needed": as_json(self.days_needed),
            "little_to_protect": self.little_to_protect,
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
            # `causal` is a field of the file since 0.3; files of 0.1 and 0.2 have only the design's one line to go by
            causal = plain["causal"] if "causal" in plain else str(plain["design"]).startswith("Causal")
            found: Audit = from_json(cls, {**plain, "rows": rows, "causal": causal})
            return found
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise ConfigurationError(f"this audit is damaged: {type(wrong).__name__}") from None


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """The audit that `Audit.save` wrote."""
    return Audit.from_plain(read_plain(path))


# What decides on an audit ---------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What an audit comes to."""

    FOUND = "found"
    NOTHING = "nothing found"
    """And a leak of `Audit.smallest_leak` would have been."""
    TOO_LITTLE = "too little data"
    """To tell; `Audit.days_needed` would do."""


class Outcome(StrEnum):
    """What came out of an audit, or of one adversary."""

    NONE_RUN = "none run"
    """No adversary could be run."""
    BROKEN = "broken"
    """An adversary does better than the design's bound allows."""
    FOUND = "found"
    """Something was learned; beyond the clock, where adversaries had it."""
    NOT_TESTABLE = "not testable"
    """Nothing was found, and nothing could have been."""
    CLOCK_ONLY = "clock only"
    """What was learned is no more than the clock gives."""
    WITHOUT_CLOCK = "without clock"
    """Something was learned without the clock, and was not tried with it."""
    NOTHING = "nothing"
    TURNED = "sign turned"
    """The guesses are right less often than chance: turned around they tell as much."""
    REFERENCE = "reference"
    """Attacks nothing, and stands for comparison."""


def row_outcome(audit: Audit, row: Row) -> Outcome:
    """What came out of one adversary."""
    if row.reference:
        return Outcome.REFERENCE
    if row.beats:
        return Outcome.BROKEN
    if row.sign_turned:
        return Outcome.TURNED
    if row.found:
        return Outcome.CLOCK_ONLY if _as_clock(audit, row) else Outcome.FOUND
    return Outcome.NOTHING if row.testable else Outcome.NOT_TESTABLE


def is_failure(audit: Audit) -> bool:
    """Whether a strict reader would refuse.

    The bound is beaten, or nothing can be tested; of a release also, that something was learned from it, beyond the
    clock where that is known, or that it equals the readings.
    """
    if audit.broken or not audit.testable:
        return True
    return audit.how == "released" and (audit.outcome in (Outcome.FOUND, Outcome.WITHOUT_CLOCK) or audit.unchanged)


def warns(audit: Audit) -> bool:
    """Whether the outcome is a warning."""
    if audit.estimated or (audit.how == "released" and audit.unchanged):
        return True
    if audit.outcome == Outcome.FOUND:
        return audit.how == "released"
    return audit.outcome not in (Outcome.CLOCK_ONLY, Outcome.NOTHING)


def strongest(audit: Audit, data: str = "disguised", clock: bool = False) -> Row | None:
    """The adversary of highest balanced accuracy among those that use the clock, or do not; references do not count."""
    rows = [row for row in audit.of(data) if row.clock == clock]
    return max(rows, key=lambda row: _sortable(row.strength.value), default=None)


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """The strongest first; references behind the others."""
    return sorted(rows, key=lambda row: (row.reference, -_sortable(row.strength.value), row.label))


def blind_accuracy(audit: Audit) -> float:
    """The balanced accuracy without the output, over the values that were judged."""
    row = audit.row("blind")
    known = row is not None and math.isfinite(row.balanced.value)
    return row.balanced.value if row is not None and known else 1.0 / max(audit.values, 1)


def clock_reference(audit: Audit) -> Row | None:
    """The reference that uses the clock alone, if there was one."""
    found = [row for row in audit.of(references=True) if row.adversary == "clock"]
    return found[0] if found and not math.isnan(found[0].balanced.value) else None


def adversary_count(audit: Audit) -> int:
    """How many adversaries the best one was chosen from."""
    return max(sum(row.clock == clock for row in audit.of()) for clock in (False, True))


def _as_clock(audit: Audit, row: Row) -> bool:
    """Whether an adversary without the clock found something, and nothing beyond the clock once it had that too."""
    other = audit.row(row.adversary, row.data, clock=True)
    return row.found and not row.clock and other is not None and other.testable and not other.found


def _sortable(x: float) -> float:
    return -math.inf if math.isnan(x) else x


# An audit in words ----------------------------------------------------------------------------------------------------

_HEADS = ("adversary", "balanced accuracy", "error", "gain over the clock", "nats", "adjusted p-value", "verdict")


def verdict(audit: Audit) -> str:
    """The outcome in a few sentences."""
    lead = [text.AUDIT_ESTIMATED] if audit.estimated else []
    if audit.how == "released" and audit.unchanged:
        lead.append(text.UNCHANGED)
    rows = audit.of()
    counted = audit.rows_that_count
    best = max(counted, key=lambda row: _sortable(row.strength.value), default=None)
    if audit.verdict is Verdict.FOUND and not audit.found:  # without the clock
        alone = [row for row in audit.rows_on_output if not row.clock]
        best = max(alone, key=lambda row: _sortable(row.strength.value), default=None)
    clock = clock_reference(audit)
    facts = text.Findings(
        level=audit.level,
        clock=any(row.clock for row in rows),
        released=audit.how == "released",
        bounded=audit.bound is not None,
        estimated=audit.estimated,
        undefined=all(math.isnan(row.p) for row in (tuple(row for row in rows if row.clock) or rows)),
        beating=[row.label for row in rows if row.beats],
        rate=rate(audit),
        too_little=audit.verdict is Verdict.TOO_LITTLE,
        alone=audit.found_alone,
        best=None if best is None else (_with_data(best), best.strength),
        chance=blind_accuracy(audit),
        clock_alone=math.nan if clock is None else clock.balanced.value,
        best_has_clock=clock is not None and best is not None and best.clock,
        smallest=audit.smallest_leak,
        at_stake=audit.at_stake,
        days=audit.days,
        days_needed=audit.days_needed,
        turned=[_with_data(row) for row in audit.rows_on_output if row.sign_turned],
    )
    return " ".join([*lead, text.finding(audit.outcome, facts)])


def _with_data(row: Row) -> str:
    return row.label if row.data == "disguised" else f"{row.label} with insider labels"


def rival_lines(rivals: Rivals) -> list[tuple[str, ...]]:
    """The rivals as rows of `understudy.text.RIVAL_COLUMNS`."""
    found = []
    for row in rivals.rows:
        percent = [
            100.0 * x / mean if mean > 0.0 else math.nan
            for x, mean in zip(row.distortion, rivals.mean_reading, strict=True)
        ]
        found.append(text.rival_line(row.name, row.level, row.distortion, percent, row.price, row.balanced))
    return found


def rival_sentences(rivals: Rivals) -> list[str]:
    """Where the design stands beside a coin and the limit."""
    coin = rivals.coin_line(rivals.design.price)
    above = rivals.above_coin, rivals.clearly_above_coin
    return text.rival_sentences(above, rivals.design.balanced.value, coin, rivals.ratios, rivals.adversaries)


def rate(audit: Audit) -> str:
    """What is known of a causal design by theorem, in a sentence; empty for others, or where nothing is."""
    if not audit.causal or audit.estimated:
        return ""
    return text.rate_bound(audit.budget, audit.how == "simulated")


def basis(audit: Audit) -> str:
    """How much the figures rest on, in a sentence."""
    return text.judged_on(audit.learned, audit.guesses, max((row.blocks for row in audit.of()), default=0))


def mark(audit: Audit, row: Row) -> str:
    """The verdict on an adversary, in a few words."""
    return text.row_verdict(row_outcome(audit, row), row.clock)


def audit_text(audit: Audit, width: int = 120) -> str:
    """The whole audit in words and columns, for a terminal."""
    best, raw = ((row.label, row.balanced) if row is not None else None for row in (audit.best, audit.best_on("raw")))
    parts = [textwrap.fill(f"{text.best_adversary(best, raw)} {verdict(audit)}".lstrip(), width)]
    for data, name in text.DATA.items():
        rows = audit.of(data, references=True)
        if rows:
            parts.append(f"{name}\n{_columns([_HEADS, *(_cells(audit, row) for row in rows)])}")
    if audit.rivals is not None:
        parts.append(f"rivals and the limit\n{_columns([text.RIVAL_COLUMNS, *rival_lines(audit.rivals)])}")
        parts.append(textwrap.fill(" ".join(rival_sentences(audit.rivals)), width))
    notes = [f"- {line}" for line in (*_notes(audit), *audit.notes)]
    notes += [f"- not run: {name}, as {reason}" for name, reason in audit.skipped.items()]
    parts.append("\n".join(textwrap.fill(note, width, subsequent_indent="  ") for note in notes))
    return "\n\n".join(parts)


def price_lines(audit: Audit) -> list[str]:
    """What the disguise changed along the real path, a sentence for each channel; empty where it was not measured."""
    lead = "Measured on one release:" if audit.how == "released" else "Measured on held-out readings:"
    return [] if audit.utility is None else [f"{lead} {words}" for words in price_sentences(audit.utility)]


def _notes(audit: Audit) -> list[str]:
    paid = price_lines(audit)
    distortion = list(zip(audit.distortion, audit.mean_reading, strict=True)) if audit.distortion and not paid else []
    bound = None if audit.bound is None else text.error_bound(audit.bound, audit.moving)
    theorem = [note for note in (text.by_theorem(bound), rate(audit)) if note]
    rest = text.figure_notes(audit.confidence, distortion, audit.prior_error)
    return [
        basis(audit),
        *rest[:-2],
        *paid,
        *theorem,
        *rest[-2:],
        *filter(None, [text.best_of(adversary_count(audit))]),
    ]


def _columns(cells: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def _cells(audit: Audit, row: Row) -> tuple[str, ...]:
    gain = "" if math.isnan(row.gain.value) else f"{row.gain.value:+.3f}"
    figures = (str(row.balanced), str(row.error), gain, str(row.nats))
    chance = "" if row.reference else text.p_value(row.corrected)
    return (row.label, *figures, chance, mark(audit, row))
