"""What an audit found: figures with intervals, adversary by adversary.

An `Audit` holds aggregate figures and nothing else: no reading, no private value, no path. It can be shown to whoever
may know how well the design holds.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from understudy.errors import ConfigurationError
from understudy.paths import write_whole
from understudy.randomizer.document import read_plain

if TYPE_CHECKING:
    from understudy.adversaries.utility.measuring import Utility

SCHEMA, VERSION = "understudy.audit", 1
_NEW = ("estimated",)  # fields that older files lack

DATA = ("disguised", "raw", "noise", "held")
"""What is attacked: the output, the readings as they came in, and these with noise of equal distortion: drawn for every
reading, or held for an epoch."""


class Figure(NamedTuple):
    """A figure with its interval.

    >>> print(Figure(0.8664, 0.86, 0.8727))
    0.866 [0.860, 0.873]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Row:
    """What one adversary made of one kind of data."""

    data: str
    """"disguised", "raw", "noise" or "held"."""
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
        from understudy.adversaries.written import text

        return text(self)

    def plain(self) -> dict[str, Any]:
        """The audit as JSON can hold it; what is not a number is None."""
        told: dict[str, Any] = {"schema": SCHEMA, "version": VERSION}
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name == "rows":
                value = [{f.name: _plain(getattr(row, f.name)) for f in fields(row)} for row in value]
            elif part.name == "utility":
                value = None if value is None else value.plain()
            told[part.name] = _plain(value)
        best = self.best
        told["best"] = None if best is None else {"adversary": best.adversary, "clock": best.clock}
        verdicts = {"found": self.found, "found_alone": self.found_alone, "testable": self.testable}
        return told | verdicts | {"broken": self.broken}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the audit to a JSON file; `load_audit` reads it again."""
        write_whole(path, json.dumps(self.plain(), indent=1, allow_nan=False, ensure_ascii=False) + "\n")

    @classmethod
    def from_plain(cls, told: Any) -> Audit:
        """The audit that `plain` wrote."""
        if not isinstance(told, dict) or told.get("schema") != SCHEMA:
            raise ConfigurationError(f"this is no audit; its schema must be {SCHEMA!r}")
        if told.get("version") != VERSION:
            raise ConfigurationError(f"this audit has version {told.get('version')!r}; this software reads {VERSION}")
        try:
            parts = {part.name: told[part.name] for part in fields(cls) if part.name in told or part.name not in _NEW}
            parts["rows"] = tuple(_row(row) for row in parts["rows"])
            parts["distortion"] = tuple(_figure(x) for x in parts["distortion"])
            for name in ("mean_reading", "noise"):
                parts[name] = tuple(_number(x) for x in parts[name])
            parts["notes"] = tuple(parts["notes"])
            if parts["utility"] is not None:
                from understudy.adversaries.utility.measuring import Utility

                parts["utility"] = Utility.from_plain(parts["utility"])
            return cls(**parts)
        except (KeyError, TypeError, ValueError) as wrong:
            raise ConfigurationError(f"this audit is damaged: {type(wrong).__name__}") from None


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """The audit that `Audit.save` wrote."""
    return Audit.from_plain(read_plain(path))


def _plain(value: Any) -> Any:
    """Tuples are lists, and what is not a number is None: JSON has neither."""
    if isinstance(value, (tuple, list)):
        return [_plain(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _number(x: Any) -> float:
    return math.nan if x is None else float(x)


def _figure(told: Any) -> Figure:
    return Figure(*(_number(x) for x in told))


def _row(told: dict[str, Any]) -> Row:
    figures = {name: _figure(told[name]) for name in ("balanced", "error", "gain", "nats")}
    return Row(**{**told, **figures, "p": _number(told["p"]), "corrected": _number(told.get("corrected"))})
