"""The work on a file: what is wrong with its rows is said, and they are disguised, segment by segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from understudy.errors import ReadingError
from understudy.files.batch import Batch, carried, check_segments
from understudy.files.binding import Binding
from understudy.files.players import Player, Terms
from understudy.files.preparing import Prepared, prepared
from understudy.files.sequence import Sequence as Readings
from understudy.files.sequence import known_before, out_of_order
from understudy.files.summary import FEW, BadRow
from understudy.laws.base import Array

MISFIT = "none as stated: the models failed their gate"
"""The guarantee of outputs of a family that failed its gate, in their mark."""


class Work:
    """Where the work on a file stands."""

    def __init__(self, bound: Binding, terms: Terms, longest_gap: int, skip: bool, name: str) -> None:
        self.bound, self.terms = bound, terms
        gate = (terms.design.family.about or {}).get("gate") or {}
        self._misfit = not gate.get("passed", True)
        self._longest_gap, self._skip, self._name = longest_gap, skip, name
        self._player: Player | None = None
        self._readings = Readings(bound.period, longest_gap, terms.timed(bound))
        self._segment: str | None = None
        self._latest: int | None = None  # the time of the last row
        self._done: set[str] = set()
        self._bad: list[BadRow] = []
        self.rows = self._missing = self._skipped = self._filled = self._draws = self._replayed = self.moved = 0
        self._nats = 0.0
        self._moved_times: dict[int, int] = {}  # rows of the batch whose times are not those of their slots
        self.refill, self.withheld, self.late = terms.refill, 0, 0
        self.mark = self._marked({"disguised": True, "design": terms.design.fingerprint})

    def __repr__(self) -> str:
        return f"Work({self.rows} rows)"

    def _marked(self, mark: dict[str, Any]) -> dict[str, Any]:
        """The mark of a stream, which does not know of the gate, with what that found."""
        if not self._misfit:
            return mark
        return {**mark, "guarantee": "; ".join(filter(None, (mark.get("guarantee"), MISFIT)))}

    @property
    def told(self) -> dict[str, Any]:
        """What the summary says of it."""
        return {
            "rows": self.rows, "missing": self._missing, "filled": self._filled, "skipped": self._skipped,
            "bad_rows": tuple(self._bad), "segments": len(self._done), "replayed": self._replayed,
            "draws": self._draws, "nats": self._nats, "mark": self.mark, "withheld": self.withheld,
        }  # fmt: skip

    # Rows --------------------------------------------------------------------------------------------------

    def checked(self, batch: Batch) -> Batch:
        """The batch with rows out of order among its faults; raises at the first fault unless they are skipped."""
        if batch.segments is not None and "" in batch.segments:
            batch = replace(batch, segments=carried(batch.segments, self._segment))
        if not self.rows:
            check_segments(batch, self.bound)
        late: list[int] = []
        for segment, start, stop in self._stretches(batch):
            if batch.times is None:
                break
            last = self._latest if segment == self._segment and not start else None
            unknown = None if batch.unplaced is None else batch.unplaced[start:stop]
            late += [start + i for i in out_of_order(batch.times[start:stop], unknown, last)]
        if late:
            for i in late:
                batch.faults.setdefault(i, (self.bound.time, "does not come after the times before it"))
            unplaced = np.zeros(len(batch), dtype=bool) if batch.unplaced is None else batch.unplaced.copy()
            unplaced[late] = True
            batch = replace(batch, unplaced=unplaced)
        if batch.faults:
            self._report(batch)
        return batch

    def _report(self, batch: Batch) -> None:
        unlabelled = set(batch.unlabelled)
        for i in sorted(batch.faults):
            row = BadRow(int(batch.lines[i]), *batch.faults[i])
            if not self._skip:
                raise ReadingError(f"{self._name}, {row}")
            if i in unlabelled:  # to leave these out would show which they are
                raise ReadingError(
                    f"{self._name}, {row}; the private value of this row is not known, and rows are not skipped for "
                    "that: their empty readings would show where it is. Fill in the labels, or repair the row"
                )
            if len(self._bad) < FEW:
                self._bad.append(row)
        self._skipped += len(batch.faults)

    def disguised(self, batch: Batch) -> Array:
        """The outputs of all rows, NaN where there is none."""
        bad = sorted(batch.faults)
        self._moved_times = {}
        Y = batch.Y
        if bad:
            Y = Y.copy()
            Y[bad] = np.nan
        missing = np.asarray(np.isnan(Y).any(axis=1))
        if Y.shape[1] > 1 and missing.any():
            Y = np.where(missing[:, None], np.nan, Y)  # a vector with a part missing is missing
        out: Array | None = None
        late = self.late
        for segment, start, stop in self._stretches(batch):
            self._enter(segment, int(batch.lines[start]))
            placed: Any = slice(start, stop)
            if batch.unplaced is not None:
                placed = start + np.flatnonzero(~batch.unplaced[start:stop])
            found = self._played(batch, Y, placed)
            if len(found) == len(batch):
                out = found
                break
            out = np.full(Y.shape, np.nan) if out is None else out
            out[placed] = found
        if out is None:
            out = np.full(Y.shape, np.nan)
        self.rows += len(batch)
        self._missing += int(missing.sum()) - len(bad)
        if self.refill is not None:
            self.withheld += int((np.isnan(out).any(axis=1) & ~missing).sum()) - (self.late - late)
        return out

    def on_time(self, batch: Batch) -> dict[str, Any]:
        """The columns of a batch that was disguised: an output carries the time of its slot, not that of the row."""
        if not self._moved_times or self.bound.time is None:
            return batch.columns
        return {**batch.columns, self.bound.time: batch.columns[self.bound.time].at(self._moved_times)}

    def _note_times(self, times: Any, placed: Any, length: int) -> None:
        """Remember the slots of rows whose times are beside them; rows that are taken together keep their own."""
        cadence = self._readings.cadence
        if cadence is None or self.bound.resampling is not None or not len(times):
            return
        slots = cadence.time(cadence.slots(times))
        rows = np.arange(length)[placed]
        off = np.flatnonzero(slots != times)
        self._moved_times.update(zip(rows[off].tolist(), slots[off].tolist(), strict=True))

    def _played(self, batch: Batch, Y: Array, placed: Any) -> Array:
        """Outputs of some rows, all of one segment."""
        Y = Y[placed]
        if not len(Y):
            return Y
        times, theta, inputs = (None if x is None else x[placed] for x in (batch.times, batch.theta, batch.inputs))
        if times is not None:
            self._latest = int(times[-1])
        ready = prepared(self.bound, Y, times, theta, inputs, batch.lines[placed])
        self.moved += ready.moved
        out = ready.back(self._through(ready), Y, self.terms.design.release)
        if times is not None:
            self._note_times(times, placed, len(batch))
        return out

    def _through(self, ready: Prepared) -> Array:
        """What the stream makes of readings."""
        theta = None if ready.theta is None else known_before(ready.theta, self._readings.theta)
        if theta is not None and theta[0] < 0:
            line = ready.lines[0]
            raise ReadingError(f"{self._name}, line {line} and after: no row has a private value of the design")
        if self._player is None:
            origin = None if ready.times is None else self._readings.origin(ready.times, self._name)
            self._player = Player(self.terms, self.bound, self._segment, ready.Y, ready.times, theta, origin)
            self._replayed += self._player.replayed
            self.mark = self._marked(self._player.stream.mark)
            self._readings.last, self._readings.cadence = self._player.last, self._player.cadence(origin)
        pieces = self._readings.pieces(ready.Y, ready.times, theta, ready.lines, self._name)
        parts = [self._player.apply(piece) for piece in pieces]
        self.late, self._readings.late = self.late + self._readings.late, 0
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    # Segments ----------------------------------------------------------------------------------------------

    def _stretches(self, batch: Batch) -> Iterator[tuple[str | None, int, int]]:
        """Rows of one segment: its name, the first row and the end."""
        if batch.segments is None:
            yield None, 0, len(batch)
            return
        start = 0
        names = batch.segments
        for i in range(1, len(names) + 1):
            if i == len(names) or names[i] != names[start]:
                yield names[start], start, i
                start = i

    def _enter(self, segment: str | None, line: int) -> None:
        """Begin anew where another segment begins."""
        if segment is None or segment == self._segment:
            return
        if segment in self._done:
            raise ReadingError(
                f"{self._name}, line {line}, column {', '.join(map(repr, self.bound.segment))}: this segment has been "
                "before; the rows of a segment must stand together"
            )
        self.finish()
        self._segment, self._latest = segment, None
        self._readings = Readings(self.bound.period, self._longest_gap, self.terms.timed(self.bound))

    def finish(self) -> None:
        """The end of a segment, or of the file."""
        self._filled += self._readings.filled
        self._readings.filled = 0
        if self._player is not None:
            draws, nats = self._player.finish()
            self._draws, self._nats = self._draws + draws, self._nats + nats
            self._done.add(self._segment or "")
            self._player = None
