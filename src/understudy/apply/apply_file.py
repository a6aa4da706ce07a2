"""`apply_file`: a file of readings in, a file of disguised readings out; `apply_frame` the same for dataframes.

Rows are read, disguised and written some ten thousands at a time, in the order of the file, so that a file of any
length takes the same memory. Only the time and the disguised readings leave, and what is named to be kept.

**Bad rows** (a text that is no number, an infinity, a time that does not grow) stop the run at the first, or are
skipped. A skipped row is written, with an empty reading: rows out are rows in, in the same order, and the reading
counts as missing. The filters move on through it as through any gap. A row without a usable time has no place in the
sequence; the filters do not see it, unless there is a period by which the gap that it leaves is filled. Whatever could
not be read does not leave. A row whose private value is not known always stops the run: an empty reading there
would show it.

**Gaps** that the models have no exact law across (autoregressions with other than Gaussian noise) cost some outputs:
at the beginning of a sequence and after each gap as many are withheld as the models need readings in a row, and are
written as empty readings. The summary counts them.

**Interrupted runs.** With a ledger, the same file again gives the same file: draws are recorded before anything is
written, and a run that was interrupted is replayed from its beginning.

**Many rooms.** With `rooms`, a column says of which room each row is; rooms may be interleaved in any way. All draws
follow from a master key, the ledger holds the rooms as a fleet, and the whole file is recorded at once, before it gets
its name: a run that was interrupted has recorded nothing, and the same file again gives the same file.

Output appears under its name when it is whole, and not before (`understudy._paths`). The summary says counts, places of
bad rows and charges: no reading, no value, no distortion.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import json
import os
import sys
import time as clock
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np

from understudy import text
from understudy._paths import STANDARD, NewFile, Path, check_paths, write_whole
from understudy._types import Array, Index, Ints, Period, Plain
from understudy.apply.binding import Binding, FileDesign, bind, family_of, forms_of
from understudy.apply.segments import (
    LONGEST_GAP,
    Batch,
    Labels,
    Player,
    Readings,
    Terms,
    align,
    check_segments,
    fill_segments,
    known_before,
    out_of_order,
    prepare,
    read_batch,
)
from understudy.errors import ConfigurationError, ReadingError, StoredFileError, UnderstudyWarning
from understudy.identify.history import Bins
from understudy.stream.engine import WITHHOLD
from understudy.stream.fleet import Fleet, FleetRun, Rule
from understudy.stream.inspection import wrapping_key
from understudy.stream.ledger import Ledger
from understudy.stream.ledger_file import digest
from understudy.stream.randomness import MasterKey
from understudy.tables.columns import Column, Layout, NumberFormat, batches, part, require_pyarrow, write_times
from understudy.tables.delimited import MARK
from understudy.tables.table import Source, Writer, format_of, make_writer, title
from understudy.tables.times import SECOND, Kind

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

# What is told after a file was disguised: counts, places of bad rows, charges. No reading, no value,  ---


FEW = 20
"""Bad rows that are named."""
_FIRST_ROWS = 1024  # that a run is named after


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
    mark: Plain = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    withheld: int = 0

    def to_plain(self) -> Plain:
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


# The work on a file: what is wrong with its rows is said, and they are disguised, segment by segment ---


MISFIT = "none as stated: the models did not pass their gate"
"""The guarantee of outputs of a family that did not pass its gate, in their mark."""


class Work:
    """Where the work on a file stands."""

    def __init__(self, terms: Terms, skip: bool, name: str) -> None:
        self.bound, self.terms = terms.bound, terms
        self._misfit = _failed_gate(terms.design) is not None
        self._skip, self._name = skip, name
        self._player: Player | None = None
        self._segment: str | None = None
        self._latest: int | None = None  # the time of the last row
        self._kind: Kind | None = None  # of all times
        self._done: set[str] = set()
        self._bad: list[BadRow] = []
        self.rows = self._missing = self._skipped = self._filled = self._draws = self._replayed = self.moved = 0
        self._nats = 0.0
        self._moved_times: dict[int, int] = {}  # rows of the batch whose times are not those of their slots
        self.refill, self.withheld, self.late = terms.refill, 0, 0
        self.mark = self._marked({"disguised": True, "design": terms.design.fingerprint})

    def __repr__(self) -> str:
        return f"Work({self.rows} rows)"

    @property
    def notes(self) -> list[str]:
        """What is to be said of rows that have no output."""
        return []

    def _marked(self, mark: Plain) -> Plain:
        """The mark of a stream, which does not know of the gate, with what that found."""
        if not self._misfit:
            return mark
        return {**mark, "guarantee": "; ".join(filter(None, (mark.get("guarantee"), MISFIT)))}

    @property
    def counts(self) -> Plain:
        """What the summary says of it."""
        return {
            "rows": self.rows, "missing": self._missing, "filled": self._filled, "skipped": self._skipped,
            "bad_rows": tuple(self._bad), "segments": len(self._done), "replayed": self._replayed,
            "draws": self._draws, "nats": self._nats, "mark": self.mark, "withheld": self.withheld,
        }  # fmt: skip

    # Rows --------------------------------------------------------------------------------------------------

    def check(self, batch: Batch) -> Batch:
        """The batch with rows out of order among its faults; raises at the first fault unless they are skipped."""
        if batch.segments is not None and "" in batch.segments:
            batch = replace(batch, segments=fill_segments(batch.segments, self._segment))
        if not self.rows:
            check_segments(batch, self.bound)
        self._check_kind(batch)
        late: list[int] = []
        for segment, start, stop in self._blocks(batch):
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

    def _check_kind(self, batch: Batch) -> None:
        """Refuse rows whose times are of another kind than those of the rows before them."""
        self._kind = self._kind or batch.kind
        if batch.kind is not None and self._kind is not None and batch.kind is not self._kind:
            rule = f"is {batch.kind.value}, and the first is {self._kind.value}"
            raise ReadingError(f"{self._name}, {BadRow(int(batch.lines[0]), self.bound.time, rule)}")

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
        out, late = np.full(Y.shape, np.nan), self.late
        for segment, start, stop in self._blocks(batch):
            self._enter(segment, int(batch.lines[start]))
            placed: slice | Index = slice(start, stop)
            if batch.unplaced is not None:
                placed = start + np.flatnonzero(~batch.unplaced[start:stop])
            out[placed] = self._outputs(batch, Y, placed)
        self.rows += len(batch)
        self._missing += int(missing.sum()) - len(bad)
        if self.refill is not None:
            self.withheld += int((np.isnan(out).any(axis=1) & ~missing).sum()) - (self.late - late)
        return out

    def on_time(self, batch: Batch) -> dict[str, Column]:
        """The columns of a batch that was disguised: an output carries the time of its slot, not that of the row."""
        if not self._moved_times or self.bound.time is None:
            return batch.columns
        return write_times(batch.columns, self.bound.time, self._moved_times)

    def _note_times(self, player: Player, times: Ints, placed: slice | Index, length: int) -> None:
        """Remember the slots of rows whose times are beside them; rows that are taken together keep their own."""
        cadence = player.cadence
        if cadence is None or self.bound.resampling is not None:
            return
        slots = cadence.time(cadence.slots(times))
        rows = np.arange(length)[placed]
        off = np.flatnonzero(slots != times)
        self._moved_times.update(zip(rows[off].tolist(), slots[off].tolist(), strict=True))

    def _outputs(self, batch: Batch, Y: Array, placed: slice | Index) -> Array:
        """Outputs of some rows, all of one segment."""
        times = None if batch.times is None else batch.times[placed]
        theta = None if batch.theta is None else batch.theta[placed]
        inputs = None if batch.inputs is None else batch.inputs[placed]
        rows = Readings(Y[placed], times, theta, batch.lines[placed])
        if not len(rows.Y):
            return rows.Y
        ready = prepare(self.bound, rows, inputs)
        self.moved += ready.moved
        player, out = self._through(ready.readings)
        if times is not None:
            self._latest = int(times[-1])
            self._note_times(player, times, placed, len(batch))
        return ready.back(out, rows.Y, self.terms.design.release)

    def _through(self, readings: Readings) -> tuple[Player, Array]:
        """What the stream makes of readings."""
        if readings.theta is not None:
            theta = known_before(readings.theta, -1 if self._player is None else self._player.theta)
            readings = replace(readings, theta=theta)
            if theta[0] < 0:
                line = readings.lines[0]
                raise ReadingError(f"{self._name}, line {line} and after: no row has a private value of the design")
        if self._player is None:
            self._player = Player(self.terms, self._segment, readings, self._name)
            self._replayed += self._player.replayed
            self.mark = self._marked(self._player.stream.mark)
        out = self._player.apply(readings)
        self.late, self._filled = self.late + self._player.late, self._filled + self._player.filled
        return self._player, out

    # Segments ----------------------------------------------------------------------------------------------

    def _blocks(self, batch: Batch) -> Iterator[tuple[str | None, int, int]]:
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

    def finish(self) -> None:
        """The end of a segment, or of the file."""
        if self._player is not None:
            draws, nats = self._player.finish()
            self._draws, self._nats = self._draws + draws, self._nats + nats
            self._done.add(self._segment or "")
            self._player = None


class RoomWork(Work):
    """The work on a file of many rooms, whose readings go to a fleet; everything is recorded by `finish`."""

    def __init__(self, terms: Terms, skip: bool, name: str, fleet: Fleet) -> None:
        super().__init__(terms, skip, name)
        self._fleet, self._met = fleet, np.zeros(len(Rule), dtype=np.int64)
        self._run: FleetRun | None = None
        self.mark = self._marked(fleet.mark)

    @property
    def counts(self) -> Plain:
        """What the summary says of it."""
        run = self._run
        found = {**super().counts, "segments": len(self._fleet)}
        return found if run is None else {**found, "draws": run.draws, "nats": run.nats}

    def check(self, batch: Batch) -> Batch:
        """The batch; raises at the first fault unless they are skipped. Times are in order within a room only."""
        for i in [i for i, room in enumerate(batch.segments or []) if not room]:
            batch.faults.setdefault(i, (self.bound.segment[0], "is empty; each row needs a room"))
        self._check_kind(batch)
        if batch.faults:
            self._report(batch)
        return batch

    def disguised(self, batch: Batch) -> Array:
        """The outputs of all rows, NaN where there is none."""
        out, bad = np.full(batch.Y.shape, np.nan), sorted(batch.faults)
        Y = batch.Y.copy() if bad else batch.Y
        Y[bad] = np.nan
        missing = np.asarray(np.isnan(Y).any(axis=1))
        rooms, times, cadence = batch.segments or [], batch.times, self._fleet.cadence
        placed = np.array([bool(room) for room in rooms])
        if batch.unplaced is not None:
            placed &= ~batch.unplaced
        which = np.flatnonzero(placed)
        if times is None or cadence is None or batch.theta is None:
            raise ReadingError(f"{self._name}: rows of many rooms need a time and a private value")
        rows = Readings(Y[which], times[which], batch.theta[which], batch.lines[which])
        ready = prepare(self.bound, rows, None if batch.inputs is None else batch.inputs[which])
        self.moved += ready.moved
        named = [rooms[i] for i in which.tolist()]
        if self._run is None:
            first = (
                f"{named[:_FIRST_ROWS]} {times[which][:_FIRST_ROWS].tolist()} {ready.readings.Y[:_FIRST_ROWS].tolist()}"
            )
            self._run = self._fleet.run(self.terms.run or f"file:{digest(first)}")
        given = np.ascontiguousarray(ready.readings.Y)
        found = self._run.outcome(
            named, times[which].view("datetime64[ns]"), given, batch.theta[which].astype(np.int64)
        )
        self._met += np.bincount(found.rules, minlength=len(Rule))
        out[which] = ready.back(found.outputs, rows.Y, self.terms.design.release)
        slots = cadence.time(cadence.slots_of(times[which]))
        off = np.flatnonzero(slots != times[which])
        self._moved_times = dict(zip(which[off].tolist(), slots[off].tolist(), strict=True))
        self.rows += len(batch)
        self._missing += int(missing.sum()) - len(bad)
        return out

    def finish(self) -> None:
        """Record the whole file."""
        if self._run is not None:
            self._run.finish()
            self._replayed = self.rows if self._run.replayed else 0

    @property
    def notes(self) -> list[str]:
        """Why rows have no output."""
        met = {
            rule: int(count) for rule, count in zip(Rule, self._met, strict=True) if count and rule is not Rule.TAKEN
        }
        return [text.refused_rows({rule.name.lower(): count for rule, count in met.items()})] if met else []


# The file that is written: under its name when it is whole, and not before (see `understudy._paths`) ---


SIDECAR = ".meta.json"
"""The ending of the mark beside a CSV file."""


def check_target(source: Path, target: Path, kind: str, ledger: Ledger | Path | None = None) -> None:
    """Refuse a target that is the source or the ledger, and whatever is no file in a folder that is there."""
    known = ledger.path if isinstance(ledger, Ledger) else ledger
    check_paths({"source": source}, written(target, kind, "target"), ("ledger", known))


def written(target: Path, kind: str, name: str) -> dict[str, str]:
    """The files that are written for a target, by the names under which errors speak of them."""
    path = os.fspath(target)
    marked = path != STANDARD and kind in ("csv", "csv.gz")
    return {name: path} | ({f"the mark beside {name}": path + SIDECAR} if marked else {})


class Target:
    """A file that gets its name by `finish`; leaving the `with` before that deletes it."""

    def __init__(self, path: Path | io.BytesIO, kind: str) -> None:
        self.kind, self.memory = kind, path if isinstance(path, io.BytesIO) else None
        self.path = "" if isinstance(path, io.BytesIO) else os.fspath(path)
        self.standard = self.path == STANDARD
        self._new: NewFile | None = None
        self._raw: IO[bytes] | None = None
        self._file: Any = None

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._new is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._file.close()
        self._new.discard()

    @property
    def file(self) -> IO[bytes]:
        """The open file, made when it is first asked for."""
        if self._raw is None:
            if self.standard or self.memory is not None:
                self._raw = sys.stdout.buffer if self.memory is None else self.memory
            else:
                self._new = NewFile(self.path)
                self._raw = self._new.file
            # no name and no time inside, so that the same rows make the same file
            packed = self.kind == "csv.gz"
            self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if packed else self._raw
        return self._file  # type: ignore[no-any-return]  # a file

    def finish(self, meta: Plain | None) -> None:
        """Give the file its name, and `meta` beside it where its format has no place for a mark."""
        with self.faults():
            file, raw = self.file, self._raw
            if raw is None:
                return
            if file is not raw:
                file.close()
            raw.flush()
            if self._new is None:
                return
            if meta is not None:  # first, so that no file stands there without its mark
                write_whole(self.path + SIDECAR, json.dumps(meta, indent=1, sort_keys=True) + "\n")
            self._new.keep()

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Errors of the disk as ours."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            name = "standard output" if self.standard else repr(self.path)
            why = os.strerror(error.errno) if error.errno else "the disk refuses"
            raise StoredFileError(f"{name} cannot be written: {why}; nothing new stands under that name") from None


# `apply_file`: a file of readings in, a file of disguised readings out -------------------------------


Progress = Callable[[int, float | None], None]
"""Is told how many rows are done, and which share of the file, where that is known."""


def apply_file(
    design: FileDesign,
    source: Path | io.BytesIO,
    target: Path | io.BytesIO,
    *,
    reading: str | Sequence[str] | None = None,
    private: str | None = None,
    time: str | None = None,
    segment: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    period: Period | None = None,
    ledger: Ledger | Path | None = None,
    name: str = "stream",
    room: str | None = None,
    rooms: str | None = None,
    key: MasterKey | Path | None = None,
    ledger_key: MasterKey | Path | None = None,
    rooms_at_most: int = 10_000,
    epoch: int | dt.timedelta | None = None,
    run: str | None = None,
    abandon: bool = False,
    on_error: str = "stop",
    longest_gap: int = LONGEST_GAP,
    format: str | None = None,  # noqa: A002  # what users call it
    target_format: str | None = None,
    delimiter: str = ",",
    decimals: int | None = None,
    accept_misfit: bool = False,
    day_first: bool = False,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> Summary:
    r"""Disguise the readings of a file.

    Columns are those that the family was fitted to, or as named: `reading` (one for each channel), `private`, `time`,
    and `segment`, a column that separates days or rooms ("" for none, whatever the family says). `keep` names further
    columns that leave as they are. A time in two columns is named "Date,Time"; `day_first` reads 22/12/2017 where the
    family does not say so already. `period` is the distance of rows, by which gaps are noticed. Formats are told by
    the endings of names or by `format` and `target_format`: "csv", "csv.gz", "parquet", "jsonl"; "-" is standard input
    and output.

    `ledger`, `name`, `room`, `epoch` and `rng` are as in `Design.stream` (for a `CausalDesign` the epoch is the time
    between decisions). Without a ledger the draw is forgotten, and the same file again would be another draw.
    `run` names the run in the ledger, else its first rows do; `abandon` gives up another one that was interrupted.
    Each segment is a sequence of its own that begins anew, with a draw that is charged; its rows stand together.

    `rooms` is a column with the name of a room in each row, for a file of many rooms; it leaves with the time. They
    need a `ledger`, a `key` (a `MasterKey`, or where `MasterKey.read` finds one), times and a period; at most
    `rooms_at_most` rooms are admitted. `ledger_key` opens a ledger whose keys are wrapped; without it `key` does.

    Outputs lie on the lattice of the design, and are written with as many decimals as tell its values apart, or with
    `decimals`; nothing about their form is learned from the file.

    `on_error` is "stop" or "skip". A family that did not pass its gate is refused unless `accept_misfit`.

    >>> import os, tempfile
    >>> from pathlib import Path
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
    >>> folder = tempfile.TemporaryDirectory()
    >>> source, target = (os.path.join(folder.name, name) for name in ("room.csv", "disguised.csv"))
    >>> _ = Path(source).write_text("time,co2,people\n2026-03-01 12:00,4.31,0\n2026-03-01 12:01,4.35,1\n")
    >>> columns = {"reading": "co2", "private": "people", "time": "time"}
    >>> summary = apply_file(design, source, target, period="1 min", **columns)
    >>> summary.rows, summary.draws, summary.columns
    (2, 1, ('time', 'co2'))
    >>> Path(target).read_text().splitlines()[0]
    'time,co2'
    >>> folder.cleanup()
    """
    if on_error not in ("stop", "skip"):
        raise ConfigurationError(f"on_error = {on_error!r}; it must be 'stop' or 'skip'")
    notes = check_gate(design, accept_misfit)
    bound = bind(design, reading, private, time, segment if rooms is None else rooms, keep, period, day_first)
    if rooms is not None:
        _check_rooms(bound, segment, ledger, key)
    forms = forms_of(design, decimals)
    standard = not isinstance(target, io.BytesIO) and os.fspath(target) == STANDARD
    kinds = (format_of(source, format), format_of(target, target_format or (format if standard else None)))
    if not (isinstance(source, io.BytesIO) or isinstance(target, io.BytesIO)):
        check_target(source, target, kinds[1], ledger)
    if bound.keep:
        warnings.warn(
            f"the columns {', '.join(map(repr, bound.keep))} leave as they are. Only readings are disguised: whatever "
            "else leaves may give the private parameter away",
            UnderstudyWarning,
            stacklevel=2,
        )
    if rooms is not None:
        bound = replace(bound, keep=tuple(dict.fromkeys((rooms, *bound.keep))))
    start = clock.perf_counter()
    opened = (
        ledger
        if ledger is None or isinstance(ledger, Ledger)
        else open_ledger(ledger, key, ledger_key, rooms is not None)
    )
    try:
        # one generator for all, or each segment of a seeded run would have the same draw
        source_of_draws = None if rng is None else np.random.default_rng(rng)
        terms = Terms(design, bound, opened, name, room, epoch, run, abandon, source_of_draws, longest_gap)
        _ = terms.clock  # which may refuse
        with Source(source, kinds[0], delimiter) as file, Target(target, kinds[1]) as made:
            bound.check(file.reader.names, file.name)
            work = Work(terms, on_error == "skip", file.name)
            if rooms is not None and opened is not None and key is not None:
                fleet = _fleet(terms, opened, key, rooms_at_most)
                work = RoomWork(terms, on_error == "skip", file.name, fleet)
            layout = _layout(bound, forms, file, kinds[1], notes)
            _through(work, file, made, layout, delimiter, progress, notes)
    finally:
        if opened is not ledger and opened is not None:
            opened.close()
    return Summary(
        source=file.name, target="standard output" if made.standard else title(target), columns=layout.names,
        seconds=clock.perf_counter() - start, notes=tuple(notes), **work.counts,
    )  # fmt: skip


_Frame = TypeVar("_Frame")


def apply_frame(design: FileDesign, frame: _Frame, *, room: str | None = None, **options: Any) -> _Frame:
    """Disguise the rows of a dataframe.

    It is `apply_file` for what is in memory: the same columns, the same outputs, and the draw is made and recorded in
    the same way. Only time, readings and kept columns come back, with a column ``disguised`` that is true throughout.

    Parameters
    ----------
    design : Design, CausalDesign or CoinDesign
        What the rows are disguised by.
    frame : DataFrame of pandas or polars, LazyFrame of polars, or Table of pyarrow
        Rows with readings, and with the private value. A lazy frame is collected.
    room : str, optional
        A column with the room of each row, which `apply_file` calls `rooms`.
    options
        The other options of `apply_file`: `reading`, `private`, `time`, `segment`, `keep`, `period`, `ledger`, `key`,
        `epoch`, `rng` and the rest, but none about formats.

    Returns
    -------
    a frame of the same kind
        Rows in the order of `frame`; a pandas frame keeps its index.

    Raises
    ------
    ConfigurationError
        If `frame` is no such frame, or an option is wrong.
    ReadingError
        If a row cannot be read; it names the row and the rule, never what stands there.

    Examples
    --------
    >>> import polars as pl
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
    >>> frame = pl.DataFrame({"co2": [4.31, 4.35, 9.9], "people": [0, 0, 1]})
    >>> us.apply_frame(design, frame, reading="co2", private="people").columns
    ['co2', 'disguised']

    """
    pa = require_pyarrow("a dataframe")
    if wrong := sorted({"format", "target_format", "delimiter"} & options.keys()):
        raise ConfigurationError(f"{wrong[0]} = {options[wrong[0]]!r}; a dataframe has no format")
    given, index = _with_index(frame, options.get("time") or (family_of(design).about or {}).get("time"))
    source, target = io.BytesIO(), io.BytesIO()
    part("parquet").write_table(given.to_arrow(), source)
    source.seek(0)
    options |= {"format": "parquet", "target_format": "parquet"}
    summary = apply_file(design, source, target, rooms=room, **options)
    for note in summary.notes:
        warnings.warn(note, UnderstudyWarning, stacklevel=2)
    target.seek(0)
    made = part("parquet").read_table(target)
    if MARK in made.column_names:
        raise ConfigurationError(f"a column has the name {MARK!r}, under which each row says what it is")
    made = made.append_column(MARK, pa.array([True] * len(made)))
    return _in_kind(made, given, index)  # type: ignore[no-any-return]  # a frame of the kind that was given


def _with_index(frame: Any, time: str | None) -> tuple[nw.DataFrame[Any], bool]:
    """The frame, collected; and whether its index, which holds the times, has become a column of it."""
    import narwhals as nw

    try:
        known = nw.from_native(frame)
    except (TypeError, nw.exceptions.DuplicateError):
        known = None
    known = known.collect() if isinstance(known, nw.LazyFrame) else known
    kinds = (nw.Implementation.PANDAS, nw.Implementation.POLARS, nw.Implementation.PYARROW)
    if known is None or known.implementation not in kinds:
        raise ConfigurationError(
            f"the frame is of type {type(frame).__name__}; it must be a dataframe of pandas or polars or a table of "
            "pyarrow, whose columns have distinct names"
        )
    index = nw.maybe_get_index(known)
    if index is None or time is None or time in known.columns or time != (index.name or "index"):
        return known, False
    return nw.from_native(known.to_native().reset_index(), eager_only=True), True


def _in_kind(made: pa.Table, given: nw.DataFrame[Any], index: bool) -> Any:
    """A table as a frame of the kind that was given, with its index."""
    import narwhals as nw

    whole = nw.from_native(made, eager_only=True)
    if given.implementation.is_polars():
        return whole.to_polars()
    if not given.implementation.is_pandas():
        return made
    found, before = whole.to_pandas(), given.to_native()
    if index:
        return found.set_index(before.columns[0])
    found.index = before.index
    return found


def _check_rooms(
    bound: Binding, segment: str | Sequence[str] | None, ledger: Ledger | Path | None, key: MasterKey | Path | None
) -> None:
    """Refuse what a file of many rooms cannot have, or lacks."""
    lacking = [
        what
        for what, given in (("a ledger", ledger), ("a master key", key), ("a time column", bound.time))
        if given is None
    ]
    lacking += ["a period"] * (bound.period is None) + ["a design that has a private column"] * (bound.private is None)
    if lacking:
        raise ConfigurationError(f"rooms = {bound.segment[0]!r}; a file of many rooms needs {', '.join(lacking)} too")
    if segment or bound.resampling is not None:
        raise ConfigurationError(
            "a file of many rooms has no segments, and its family must be of the readings themselves (not of their "
            "means over a period)"
        )


def _master(key: MasterKey | Path) -> MasterKey:
    return key if isinstance(key, MasterKey) else MasterKey.read(key)


def open_ledger(path: Path, key: MasterKey | Path | None, wrapping: MasterKey | Path | None, rooms: bool) -> Ledger:
    """The ledger, unwrapped; the key of a file of many rooms unwraps it only if it is wrapped with that one."""
    if wrapping is None and key is not None and (not rooms or wrapping_key(path) == _master(key).id):
        wrapping = key
    return Ledger(path) if wrapping is None else Ledger(path, key=_master(wrapping))


def _fleet(terms: Terms, ledger: Ledger, key: MasterKey | Path, most: int) -> Fleet:
    """The fleet of a file of many rooms."""
    found = _master(key)
    period = dt.timedelta(microseconds=(terms.bound.period or 0) / 1000)
    name = "fleet" if terms.name == "stream" else terms.name
    gaps = None if terms.refill is None else WITHHOLD
    return Fleet(
        terms.design, ledger, name, key=found, admit=most, epoch=terms.clock, period=period, gaps=gaps
    )  # fmt: skip


def _through(
    work: Work,
    file: Source,
    target: Target,
    layout: Layout,
    delimiter: str,
    progress: Progress | None,
    notes: list[str],
) -> None:
    """All rows from one file to the other."""
    bound, design = work.bound, work.terms.design
    about = family_of(design).about or {}
    bins = about.get("bins")
    labels = None if bound.private is None else Labels(design.values, None if bins is None else Bins.from_plain(bins))
    writer: Writer | None = None
    for rows in align(
        batches(file.reader.rows(bound.wanted(file.reader.names), bound.private), file.reader.batch), bound
    ):
        batch = work.check(read_batch(rows, bound, labels))
        out = work.disguised(batch)
        if writer is None:  # now there is a draw, and with it the mark
            writer = make_writer(target.file, target.kind, layout, file, rows, work.mark, delimiter)
        with target.faults():
            writer.write(work.on_time(batch), out)
        if progress is not None:
            progress(work.rows, file.share(work.rows))
    if writer is None:
        raise ReadingError(f"{file.name} has no rows; there is nothing to disguise")
    work.finish()
    notes += [*_notes_of(work), *work.notes]
    with target.faults():
        writer.close()
    meta = None
    if target.kind in ("csv", "csv.gz"):
        meta = {**work.mark, "columns": list(layout.readings), "rows": work.rows}
        if target.standard:
            notes.append("standard output carries no mark that the readings are disguised; say so where it goes")
    target.finish(meta)


def _notes_of(work: Work) -> list[str]:
    """What was done to the readings."""
    notes = []
    if work.bound.resampling is not None and work.bound.period is not None:
        what = "the mean" if work.bound.resampling == "mean" else "the last"
        period = text.span(work.bound.period / SECOND)
        notes.append(
            f"the family is of {what} of the readings in each {period}: each row has the disguised reading of the "
            "stretch that it lies in"
        )
    if work.withheld:
        needed = f"{work.refill} reading{'s' * (work.refill != 1)}"
        notes.append(
            f"outputs that were withheld, and are empty: {work.withheld}; the law of a reading is known only after "
            f"{needed} in a row, so that nothing leaves for the first {needed} of a sequence and after each gap"
        )
    if work.late:
        notes.append(f"rows that came late into a slot that another row had filled: {work.late}; they have no output")
    if work.moved:
        notes.append(f"{work.moved} readings off the grid of the family were moved to its nearest value")
    return notes


def _layout(bound: Binding, forms: tuple[NumberFormat, ...], file: Source, kind: str, notes: list[str]) -> Layout:
    layout = Layout(bound.leaving(file.reader.names), bound.readings, forms)
    notes += [
        f"the column {name!r}, which separates segments, did not leave; --keep {name} keeps it"
        for name in bound.segment
        if name not in layout.names
    ]
    if kind == "jsonl" and MARK in layout.names:
        raise ConfigurationError(f"a column has the name {MARK!r}, under which each line of JSON says what it is")
    return layout


def check_gate(design: FileDesign, accept_misfit: bool) -> list[str]:
    """Refuse a family that did not pass its gate, unless that is accepted or its protection was measured."""
    measured = (family_of(design).about or {}).get("tuning")
    if measured is not None:
        return list(text.tuning_sentences(measured))
    fault = _failed_gate(design)
    if fault is None:
        return []
    if not accept_misfit:
        raise ConfigurationError(
            f"the family did not pass its gate: {fault.rstrip('.')}. What scores leave of the private parameter in the "
            "readings is not bounded; accept_misfit=True goes on nevertheless"
        )
    return [f"the family did not pass its gate, which was accepted: {fault}"]


def _failed_gate(design: FileDesign) -> str | None:
    """What the gate found, or that it could not test; None if the family passed, or has no gate."""
    gate = (family_of(design).about or {}).get("gate") or {}
    if gate.get("passed", True):
        return None
    return gate.get("warning") or "the scores of held-out readings depend on the private parameter"
