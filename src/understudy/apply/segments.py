"""Rows of a file as the sequences that a design knows, segment by segment.

A `Batch` is some rows as numbers: readings, times, private values by position, public inputs, and what is wrong with
which row. `prepare` puts readings into the form in which the family was fitted: taken together over its period (the
mean, or the last for sample-and-hold sensors), on its grid, without the public offset. Rows stay: each gets the
disguised reading of the block of time that it lies in, as a sensor with that period would show it.

A `Player` is the stream that the readings of one segment are given to, with its run in the ledger. Time must grow from
row to row. Where the family has a period, each row is put into a slot (`understudy.stream.cadence`, as in live
streams): slots that stay empty are missing readings, and a row that comes late into a full slot has no output. Within a
gap the private parameter is taken for what it was before it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index, Ints, Mask, Value
from understudy.apply.binding import Binding, FileDesign, family_of
from understudy.errors import ConfigurationError, ModelError, ReadingError, UnderstudyWarning
from understudy.identify import resample
from understudy.identify.history import Bins, known_positions
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.coin import CoinDesign
from understudy.randomizer.design import Choices
from understudy.stream.cadence import Cadence
from understudy.stream.engine import WITHHOLD
from understudy.stream.ledger import Ledger
from understudy.stream.release import Release
from understudy.tables.columns import BATCH, Column, Rows, erase_times, join_rows, read_times
from understudy.tables.times import SECOND, Faults, Kind
from understudy.transform.gaps import refill_between

# Rows as a sequence of readings ----------------------------------------------------------------------


LONGEST_GAP = 100_000
_FEW = 4
_FIRST = 1024  # rows that tell where the slots are
_MOST = 262_144  # readings that are given at a time, gaps included


@dataclass(frozen=True, slots=True, repr=False)
class Readings:
    """Readings of one segment, in order: values (T, d), times, private values by position, lines of the file."""

    Y: Array
    times: Ints | None
    theta: Index | None
    lines: Ints


class Piece(NamedTuple):
    """Rows, by position, with the missing readings between them: values, private values, and where the rows stand."""

    rows: Ints
    Y: Array
    theta: Index | None
    places: Ints

    def __repr__(self) -> str:
        return f"Piece({len(self.Y)} readings)"


def out_of_order(times: Ints, unknown: Mask | None, last: int | None) -> list[int]:
    """Rows whose time does not come after all before; times that are `unknown` do not count.

    >>> out_of_order(np.array([1, 3, 2, 3, 4]), None, None)
    [2, 3]
    """
    first = last is None or not len(times) or int(times[0]) > last
    if unknown is None and first and bool((times[1:] > times[:-1]).all()):
        return []
    lowest = np.iinfo(np.int64).min
    if unknown is None:
        unknown = np.zeros(len(times), dtype=bool)
    seen = np.maximum.accumulate(np.concatenate([[lowest if last is None else last], np.where(unknown, lowest, times)]))
    return np.flatnonzero((times <= seen[:-1]) & ~unknown & (seen[:-1] > lowest)).tolist()


def known_before(theta: Index, before: int) -> Index:
    """Private values, each unknown one (-1) taken for the last that was known, or else the next.

    >>> known_before(np.array([-1, 2, -1, 0]), -1).tolist()
    [2, 2, 2, 0]
    """
    known = theta >= 0
    if known.all() or not (known.any() or before >= 0):
        return theta
    last = np.maximum.accumulate(np.where(known, np.arange(len(theta)), -1))
    first = before if before >= 0 else int(theta[known.argmax()])
    return np.where(last >= 0, theta[last], first)


def pieces(Y: Array, theta: Index | None, steps: Ints, before: int) -> Iterator[Piece]:
    """Rows that go on by so many slots each, with missing readings in between; a few at a time where gaps are many.

    Rows that go on by none have come late into a full slot, and are left out. `before` is the private value before the
    first row, or -1.
    """
    taken = np.flatnonzero(steps)
    ends = np.cumsum(steps[taken])
    start = 0
    while start < len(taken):
        base = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, base + _MOST, side="right")), start + 1)
        rows, places = taken[start:stop], ends[start:stop] - base - 1
        wide, held = np.full((int(places[-1]) + 1, Y.shape[1]), np.nan), None
        wide[places] = Y[rows]
        if theta is not None:
            earlier = int(theta[taken[start - 1]]) if start else before
            first = earlier if earlier >= 0 else theta[rows[0]]
            held = np.repeat(np.concatenate([[first], theta[rows[:-1]]]), steps[rows])
            held[places] = theta[rows]
        yield Piece(rows, wide, held, places)
        start = stop


def origin_of_slots(times: Ints, period: int, name: str) -> int:
    """Where the slots of a file begin: at a multiple of the period since 1970, or at the first time, or where most are.

    The first of these from which no row is more than a quarter of a period away. Rows that come more often than the
    family knows them are refused: their law is another.
    """
    times = times[:_FIRST]
    apart = float(np.median(np.diff(times))) if len(times) > _FEW else float("inf")
    if apart < 0.6 * period:
        raise ReadingError(
            f"{name}: rows come every {text.span(apart / SECOND)}, and the family is of readings every "
            f"{text.span(period / SECOND)}; readings of another period have another law. Take every n-th row, or fit a "
            "family to this period"
        )
    for origin in (0, int(times[0])):
        beside = (times - origin + period // 2) % period - period // 2
        if (4 * np.abs(beside) <= period).all():
            return int(times[0]) - int(beside[0])
    return int(times[0]) + round(_phase(times, period), -6)


def _phase(times: Ints, period: int) -> int:
    """Nanoseconds from the first time to the nearest place of the period that suits most of the others."""
    offset = (times - times[0]) / period
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return round((turn + float(np.median(rest - np.rint(rest)))) * period)


# Streams that rows are given to: one for a file, or one for each segment of it -----------------------


@dataclass(frozen=True, slots=True, repr=False)
class Terms:
    """What streams are begun with, and given."""

    design: FileDesign
    bound: Binding
    ledger: Ledger | None
    name: str
    room: str | None
    epoch: int | dt.timedelta | None
    run: str | None
    abandon: bool
    rng: np.random.Generator | None
    longest_gap: int

    @property
    def refill(self) -> int | None:
        """How many readings in a row the models need at the beginning and after a gap; None if they need none.

        Models that do not agree on it refuse a missing reading, as they do elsewhere.
        """
        design = self.design
        try:
            return refill_between(map(family_of(design).model, design.values), design.targets)
        except ModelError:
            return None

    @property
    def clock(self) -> int | dt.timedelta | None:
        """The length of epochs, or of decisions: as it was given, or so many periods of the family."""
        design, period = self.design, None if self.bound.time is None else self.bound.period
        if self.epoch is None and isinstance(design, CausalDesign) and period is not None:
            return dt.timedelta(microseconds=design.decision_every * period / 1000)
        epoch = design.epoch if self.epoch is None and isinstance(design, CoinDesign) else self.epoch
        if isinstance(epoch, dt.timedelta) and self.bound.time is None:
            raise ConfigurationError(f"epoch = {epoch!r}; epochs by the clock need a column of times")
        return epoch

    @property
    def timed(self) -> bool:
        """Whether readings have their times for keys; epochs of so many readings are counted by readings."""
        return self.bound.time is not None and not isinstance(self.clock, int)


class Player:
    """A stream and its run over the rows of one segment, of which `first` are the first; `file` is for messages."""

    def __init__(self, terms: Terms, segment: str | None, first: Readings, file: str) -> None:
        self._terms, self._file = terms, file
        self.filled = self.late = 0  # of the last call: readings missing between rows, and rows that came late
        self.theta = -1  # of the last row
        design, ledger, bound = terms.design, terms.ledger, terms.bound
        name = terms.name if segment is None else f"{terms.name}/{segment}"
        room = terms.room or terms.name
        self._spent = 0.0 if ledger is None else ledger.spent(room)
        known = ledger is not None and ledger.stream(name) is not None
        others = ledger is not None and segment is not None and any(row.name != name for row in ledger.room(room))
        origin = None
        if first.times is not None and bound.period is not None:
            origin = origin_of_slots(first.times, bound.period, file)
        period = dt.timedelta(microseconds=(bound.period or 0) / 1000) if terms.timed else None
        choices = Choices(
            name=name,
            room=None if ledger is None else room,
            share="separate" if others else None,
            epoch=terms.clock,
            rng=terms.rng,
            # what a stream does about gaps is fixed when it is begun
            gaps=None if known or terms.refill is None else WITHHOLD,
            period=period,
            origin=origin if terms.timed else None,
        )
        value = None if first.theta is None or known else design.values[int(first.theta[0])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the summary says that each segment has its draw
            self.stream = design.begin(value, ledger, choices)
        # a stream with memory makes its first decision at the first reading, others when they are begun
        self._epoch = self.stream.epoch - (not known and not isinstance(design, CausalDesign))
        run = terms.run or _digest(first.Y, first.times, first.theta)
        self.run = self.stream.run(run if segment is None else f"{run}/{segment}", terms.abandon)
        self.replayed = self.run.recorded
        self._last: int | None = self.run.last if terms.timed else None
        self._counted = None if origin is None else Cadence(bound.period or 0, (bound.period or 0) // 2, origin)

    def __repr__(self) -> str:
        return f"Player({self.stream!r})"

    @property
    def cadence(self) -> Cadence | None:
        """The slots of the rows: those of the stream, where its readings have times."""
        return self.stream._setup.cadence if self._terms.timed else self._counted

    def apply(self, given: Readings) -> Array:
        """Disguised readings of rows; a stream with times finds its slots itself, others are given missing readings."""
        Y, times, theta = given.Y, given.times, given.theta
        steps, before = self._steps(given), self.theta
        self.theta = -1 if theta is None else int(theta[-1])
        self._last = None if times is None else int(times[-1])
        if steps is None or self._terms.timed:
            keys = times.view("datetime64[ns]") if times is not None and self._terms.timed else None
            return np.asarray(self.run.apply(Y, keys, sources=theta))
        out = np.full(Y.shape, np.nan)
        for piece in pieces(Y, theta, steps, before):
            out[piece.rows] = self.run.apply(piece.Y, sources=piece.theta)[piece.places]
        return out

    def _steps(self, given: Readings) -> Ints | None:
        """How many slots each row goes on, 0 for one that comes late; None if all go on by one, or have no slots."""
        cadence, longest = self.cadence, self._terms.longest_gap
        self.filled = self.late = 0
        if given.times is None or cadence is None:
            return None
        steps = cadence.steps(cadence.slots(given.times), self._last)
        if (steps == 1).all():
            return None
        self.late = int(((steps == 0) & ~np.isnan(given.Y).any(axis=1)).sum())  # others are counted as missing
        self.filled = int(np.maximum(steps - 1, 0).sum())
        too_long = np.flatnonzero(steps - 1 > longest)
        if too_long.size:
            first = too_long[0]
            raise ReadingError(
                f"{self._file}, line {given.lines[first]}: {steps[first] - 1} readings are missing before it, more "
                f"than the {longest} that are filled (longest_gap); a column that separates segments of time (segment) "
                "begins anew after a gap"
            )
        return steps

    def finish(self) -> tuple[int, float]:
        """Say that the segment has come to its end; draws that were made, and nats that were charged."""
        self.run.finish()
        return self.stream.epoch - self._epoch, self.stream.spent - self._spent


def _digest(*parts: Array | Ints | Index | None) -> str:
    """A name for a run: that of what it begins with, so that the same file again is the same run."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if part is not None:
            found.update(np.ascontiguousarray(part[:BATCH]).data)
    return "file:" + found.hexdigest()


# Rows as the family knows readings -------------------------------------------------------------------


class Prepared(NamedTuple):
    """Readings for the stream, the offset to add, and the reading of each row."""

    readings: Readings
    offset: Array | None
    which: Index | None  # None where rows and readings are one and the same
    moved: int  # readings that were off the grid

    def __repr__(self) -> str:
        return f"Prepared({len(self.readings.Y)} readings)"

    def back(self, out: Array, Y: Array, release: Release) -> Array:
        """Outputs of the rows, from those of the readings, on the lattice; nothing where the row had nothing."""
        found = out if self.offset is None else release.within(release.rounded(out + self.offset))
        if self.which is None:
            return found
        return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, found[self.which])


def prepare(bound: Binding, rows: Readings, inputs: Array | None) -> Prepared:
    """Rows of one segment, in order, in the form in which the family was fitted; `inputs` are public ones."""
    Y, times, theta, lines = rows.Y, rows.times, rows.theta, rows.lines
    which: Index | None = None
    if bound.resampling is not None and times is not None and bound.period is not None:
        codes = np.zeros(len(Y), dtype=np.intp) if theta is None else theta
        public = np.empty((len(Y), 0)) if inputs is None else inputs
        fine = resample.Rows(times, Y, codes, public)
        coarse, _ = resample.resample(fine, bound.period / SECOND, bound.resampling == "last")
        which = np.searchsorted(coarse.ns, times, side="right") - 1
        lines = lines[np.searchsorted(times, coarse.ns)]
        Y, times, inputs = coarse.Y, coarse.ns, None if inputs is None else coarse.public
        theta = None if theta is None else coarse.theta
    Y, moved = _snap(bound, Y)
    offset = None
    if bound.offset is not None:
        named = {} if inputs is None else dict(zip(bound.inputs, inputs.T, strict=True))
        offset = bound.offset.of(named, times, bound.zone)
        Y = Y - offset
    return Prepared(Readings(Y, times, theta, lines), offset, which, moved)


def _snap(bound: Binding, Y: Array) -> tuple[Array, int]:
    """Readings on the grid of the family, and how many were not."""
    if not any(cell is not None for cell in bound.grid):
        return Y, 0
    near, moved = Y.copy(), 0
    for channel, cell in enumerate(bound.grid):
        if cell is not None:
            near[:, channel] = cell.snap(Y[:, channel])
            moved += int((np.abs(near[:, channel] - Y[:, channel]) > 1e-6 * cell.step).sum())
    return near, moved


def align(parts: Iterable[Rows], bound: Binding) -> Iterator[Rows]:
    """The same rows in batches that do not cut a period in two."""
    if bound.resampling is None or bound.time is None or bound.period is None:
        yield from parts
        return
    waiting: list[Rows] = []
    for part in parts:
        rows = join_rows([*waiting, part])
        found = read_times(rows.columns, bound.time, bound.day_first)
        place = found.ns // bound.period
        known = np.ones(len(rows), dtype=bool)
        known[list(found.unknown)] = False
        earlier = np.flatnonzero(known & (place != place[known][-1])) if known.any() else np.arange(0)
        cut = int(earlier[-1]) + 1 if earlier.size else 0
        if cut:
            yield rows.cut(0, cut)
        waiting = [rows.cut(cut, len(rows)) if cut else rows]
    yield from waiting


# A batch of rows as numbers --------------------------------------------------------------------------


Fault = tuple[str | None, str]
"""The column that is wrong, None for the whole row, and the rule that it breaks."""


class Labels(NamedTuple):
    """The values of the design, and the bins of its family."""

    values: Sequence[Value]
    bins: Bins | None


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Rows as numbers: readings, times, private values by position, segments, and what is wrong, by row."""

    columns: dict[str, Column]
    lines: Ints
    Y: Array
    inputs: Array | None  # public ones
    times: Ints | None
    kind: Kind | None  # of the times
    theta: Index | None
    segments: list[str] | None
    faults: dict[int, Fault]
    unplaced: Mask | None  # rows without a time

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows, {len(self.faults)} bad)"

    @property
    def unlabelled(self) -> list[int]:
        """Rows of which the private value is not known: no value of the design, missing, or in a row not read_batch."""
        return [] if self.theta is None or not self.theta.size else np.flatnonzero(self.theta < 0).tolist()


def read_batch(rows: Rows, bound: Binding, labels: Labels | None) -> Batch:
    """What the columns of some rows say."""
    faults: dict[int, Fault] = {i: (None, rule) for i, rule in rows.faults.items()}
    columns = dict(rows.columns)

    def add(name: str, found: Faults) -> None:
        for i, rule in found.items():
            faults.setdefault(i, (name, rule))

    def numbers(name: str) -> Array:
        found, wrong = columns[name].numbers()
        add(name, wrong)
        return found

    times, kind, unplaced = None, None, None
    if bound.time is not None:
        found = read_times(columns, bound.time, bound.day_first)
        times, kind, wrong = found.ns, found.kind, found.unknown
        if wrong:
            unplaced = np.zeros(len(rows), dtype=bool)
            unplaced[list(wrong)] = True
            # what cannot be read may be anything, the private value in the wrong column too
            columns = erase_times(columns, bound.time, sorted(wrong))
        add(bound.time, wrong)
    Y = np.column_stack([numbers(name) for name in bound.readings])
    theta = None
    if labels is not None and bound.private is not None:
        theta = known_positions(columns[bound.private].entries(), labels.values, labels.bins)
        unknown = theta < 0
        if unknown.any():
            theta = np.where(unknown, -1, theta)
            add(bound.private, dict.fromkeys(np.flatnonzero(unknown).tolist(), "holds no value of the design"))
    inputs = None
    if bound.offset is not None and bound.inputs:
        inputs = np.column_stack([numbers(name) for name in bound.inputs])
        for name, u in zip(bound.inputs, inputs.T, strict=True):
            add(name, dict.fromkeys(np.flatnonzero(np.isnan(u)).tolist(), "is missing, and the offset needs it"))
    segments = None
    if bound.segment:
        parts = [_segment_names(columns[name]) for name in bound.segment]
        for name, texts in zip(bound.segment, parts, strict=True):
            add(name, {i: "is missing" for i, text in enumerate(texts) if not text})
        segments = ["/".join(texts) if all(texts) else "" for texts in zip(*parts, strict=True)]
    return Batch(columns, rows.lines, Y, inputs, times, kind, theta, segments, faults, unplaced)


def _segment_names(column: Column) -> list[str]:
    """The text of each cell, by which the ledger knows its stream; "" where the cell is missing."""
    return [text if name else "" for text, name in zip(column.texts(), column.entries().names, strict=True)]


def check_segments(batch: Batch, bound: Binding) -> None:
    """Refuse a segment that begins where the private value changes: each draw anew would show when that was.

    The rows are the first of a file. Refused is a segment of which each beginning is a change to (or from) some private
    values, where each change to (or from) these is a beginning. Three beginnings may be chance; and where times go back
    at one, the rows are of several rooms one after the other, and their ends are no news.
    """
    if batch.segments is None or batch.theta is None or len(batch) < 2:
        return
    names, theta = np.array(batch.segments, dtype=object), batch.theta
    begins = np.flatnonzero(names[1:] != names[:-1])
    if begins.size < _CHANCE or (batch.times is not None and (batch.times[begins + 1] <= batch.times[begins]).any()):
        return
    before, after = theta[:-1], theta[1:]
    changes = before != after
    if not changes[begins].all():
        return
    for side in (before, after):
        if np.array_equal(np.flatnonzero(changes & np.isin(side, side[begins])), begins):
            raise ConfigurationError(
                f"segment = {', '.join(bound.segment)}; it begins anew exactly where the private column "
                f"{bound.private!r} changes, so that the draws at its beginnings would show when that is. A segment "
                "must not depend on the private column"
            )


_CHANCE = 3  # beginnings that must be there to tell


def fill_segments(segments: list[str], before: str | None) -> list[str]:
    """Rows without a segment belong to the one before, or else to the next."""
    last = before or next((name for name in segments if name), "")
    out = []
    for name in segments:
        last = name or last
        out.append(last)
    return out
