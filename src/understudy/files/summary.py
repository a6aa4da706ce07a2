"""What is told after a file was disguised: counts, places of bad rows, charges. No reading, no value, no distortion."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

FEW = 20
"""Bad rows that are named."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """Where a row was bad, and why; never what stood there."""

    line: int
    column: str | None
    rule: str

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column!r}"
        return f"line {self.line}{column}: {self.rule}"


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a file that was disguised.

    `missing` are rows without a whole reading, skipped ones apart; `filled` readings that were missing between rows, by
    the clock; `withheld` rows with a reading whose output did not leave, because the models have no exact law for it;
    `replayed` rows that had been disguised before, in a run that was interrupted or is repeated. `draws` and `nats` are
    those of this call.

    >>> print(Summary("room.csv", "out.csv", rows=3, draws=1, nats=0.1, columns=("time", "co2")))
    room.csv -> out.csv: 3 rows disguised
      columns that leave   time, co2
      missing readings     0
      draws                1, charged 0.1 nats
    """

    source: str
    target: str
    rows: int = 0
    missing: int = 0
    filled: int = 0
    skipped: int = 0
    bad_rows: tuple[BadRow, ...] = ()
    segments: int = 0
    replayed: int = 0
    draws: int = 0
    nats: float = 0.0
    seconds: float = 0.0
    columns: tuple[str, ...] = ()
    mark: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    withheld: int = 0

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    def to_json(self) -> str:
        """As a JSON text."""
        return json.dumps(self.to_plain())

    def __str__(self) -> str:
        lines = [f"{self.source} -> {self.target}: {self.rows} row{'s' * (self.rows != 1)} disguised"]
        lines.append(f"  columns that leave   {', '.join(self.columns)}")
        gaps = f", and {self.filled} between rows" if self.filled else ""
        lines.append(f"  missing readings     {self.missing}{gaps}")
        if self.segments > 1:
            lines.append(f"  segments             {self.segments}")
        if self.replayed:
            lines.append(f"  replayed             {self.replayed} readings that had been disguised before")
        lines.append(f"  draws                {self.draws}, charged {self.nats:.6g} nats")
        if self.skipped:
            lines.append(f"  bad rows             {self.skipped}, written without a reading")
            lines += [f"    {row}" for row in self.bad_rows]
            more = self.skipped - len(self.bad_rows)
            lines += [f"    and {more} more"] if more else []
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
