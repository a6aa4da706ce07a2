"""Rows of a file as the sequences that a design knows, segment by segment.

A `Batch` is some rows as numbers: readings, times, private values by position, public inputs, and what is wrong with
which row. `prepared` puts readings into the form in which the family was fitted: taken together over its period (the
mean, or the last for sample-and-hold sensors), on its grid, without the public offset. Rows stay: each gets the
disguised reading of the block of time that it lies in, as a sensor with that period would show it.

A `ReadingSequence` puts them in order, one period apart. Time must grow from row to row. Where the family has a period,
each row is put into a slot (`understudy.stream.cadence`, as in live streams): slots that stay empty are missing
readings, and a row that comes late into a full slot has no output. Within a gap the private parameter is taken for what
it was before it.

A `Player` is the stream that the readings of one segment are given to, with its run in the ledger.
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
from understudy.randomizer.design import Choices
from understudy.stream.cadence import Cadence, Places
from understudy.stream.engine import WITHHOLD, PrivateValues
from understudy.stream.ledger import Ledger
from understudy.stream.release import Release
from understudy.tables.columns import BATCH, Column, Rows, join_rows
from understudy.tables.times import SECOND, Faults, Kind
from understudy.transform.gaps import refill_of

# Rows as a sequence of readings ----------------------------------------------------------------------


LONGEST_GAP = 100_000
_FEW = 4
_FIRST = 1024  # rows that tell where the slots are
_MOST = 262_144  # readings that are given at a time, gaps included


class Piece(NamedTuple):
    """Readings for the stream: values, times, private values by position; and which of them are rows of the file."""

    Y: Array
    times: Ints | None
    theta: Index | None
    places: Ints | None  # None if all are; -1 for a row that came late into a full slot
    rows: slice

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


class ReadingSequence:
    """Where a sequence stands: the time and the private value of its last reading, and its slots."""

    def __init__(self, period: int | None, longest_gap: int = LONGEST_GAP, timed: bool = False) -> None:
        self.period, self.longest_gap, self.timed = period, longest_gap, timed
        self.cadence: Cadence | None = None
        self.last: int | None = None
        self.theta = -1
        self.filled = self.late = 0

    def __repr__(self) -> str:
        return f"Sequence({self.filled} filled)"

    def origin(self, times: Ints, name: str) -> int | None:
        """Where the slots begin: at a multiple of the period since 1970, or at the first time, or where most rows are.

        The first of these from which no row is more than a quarter of a period away.
        """
        if self.period is None:
            return None
        times = times[:_FIRST]
        self._check_period(times, name)
        for origin in (0, int(times[0])):
            beside = (times - origin + self.period // 2) % self.period - self.period // 2
            if (4 * np.abs(beside) <= self.period).all():
                return int(times[0]) - int(beside[0])
        return int(times[0]) + round(_phase(times, self.period), -6)

    def pieces(self, Y: Array, times: Ints | None, theta: Index | None, lines: Ints, name: str) -> Iterator[Piece]:
        """Readings in order. A stream with times finds its slots itself; for others missing ones are put in between.

        Those are given a few at a time where gaps are many.
        """
        if not len(Y):
            return
        places = self._places(Y, times, lines, name)
        before, earlier = self.theta, self.last
        if theta is not None:
            self.theta = int(theta[-1])
        if times is not None:
            self.last = int(times[-1])
        if places is None or times is None or self.timed:
            yield Piece(Y, times, theta, None, slice(0, len(Y)))
            return
        taken, steps = places.taken, places.skipped + 1
        ends = np.cumsum(steps)
        start = 0
        while start < len(taken):
            base = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, base + _MOST, side="right")), start + 1)
            rows = taken[start:stop]
            was = earlier, before
            if start:
                was = int(times[taken[start - 1]]), -1 if theta is None else int(theta[taken[start - 1]])
            end = int(taken[stop]) if stop < len(taken) else len(Y)
            whole = slice(int(taken[start]) if start else 0, end)
            yield self._filled(Y, times, theta, steps[start:stop], was, rows, whole)
            start = stop

    def _places(self, Y: Array, times: Ints | None, lines: Ints, name: str) -> Places | None:
        """The slots of rows; None where there are none, or all rows take one after the other."""
        if times is None or self.cadence is None or self.cadence.is_regular(times, self.last):
            return None
        places = self.cadence.places(times, self.last)
        if len(places.taken) < len(times):
            late = np.ones(len(times), dtype=bool)
            late[places.taken] = False
            self.late += int((late & ~np.isnan(Y).any(axis=1)).sum())  # others are counted as missing
        if len(places.taken) == len(times) and not places.skipped.any():
            return None
        self.filled += int(places.skipped.sum())
        too_long = np.flatnonzero(places.skipped > self.longest_gap)
        if too_long.size:
            raise ReadingError(
                f"{name}, line {lines[places.taken[too_long[0]]]}: {places.skipped[too_long[0]]} readings are missing "
                f"before it, more than the {self.longest_gap} that are filled (longest_gap); a column that separates "
                "segments of time (segment) begins anew after a gap"
            )
        return places

    def _check_period(self, times: Ints, name: str) -> None:
        """Refuse rows that come more often than the family knows them: their law is another."""
        apart = float(np.median(np.diff(times))) if len(times) > _FEW else float("inf")
        if self.period is not None and apart < 0.6 * self.period:
            raise ReadingError(
                f"{name}: rows come every {text.span(apart / SECOND)}, and the family is of readings every "
                f"{text.span(self.period / SECOND)}; readings of another period have another law. Take every n-th row, "
                "or fit a family to this period"
            )

    def _filled(
        self,
        Y: Array,
        times: Ints,
        theta: Index | None,
        steps: Ints,
        was: tuple[int | None, int],
        rows: Ints,
        whole: slice,
    ) -> Piece:
        """Rows with missing readings between them; rows that came late into a full slot have no place."""
        places = np.cumsum(steps) - 1
        count = int(places[-1]) + 1
        wide = np.full((count, Y.shape[1]), np.nan)
        wide[places] = Y[rows]
        of_rows = np.full(whole.stop - whole.start, -1, dtype=np.int64)
        of_rows[rows - whole.start] = places
        if theta is None:
            return Piece(wide, None, None, of_rows, whole)
        held = np.repeat(np.concatenate([[was[1] if was[1] >= 0 else theta[rows[0]]], theta[rows[:-1]]]), steps)
        held[places] = theta[rows]
        return Piece(wide, None, held, of_rows, whole)


def _phase(times: Ints, period: int) -> int:
    """Nanoseconds from the first time to the nearest place of the period that suits most of the others."""
    offset = (times - times[0]) / period
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return round((turn + float(np.median(rest - np.rint(rest)))) * period)


# Streams that rows are given to: one for a file, or one for each segment of it -----------------------


@dataclass(frozen=True, slots=True, repr=False)
class Terms:
    """What streams are begun with."""

    design: FileDesign
    ledger: Ledger | None
    name: str
    room: str | None
    epoch: int | dt.timedelta | None
    run: str | None
    abandon: bool
    rng: np.random.Generator | None

    @property
    def causal(self) -> bool:
        """Whether the design decides by its clock, with memory."""
        return self.design.kind == "causal"

    @property
    def refill(self) -> int | None:
        """How many readings in a row the models need at the beginning and after a gap; None if they need none.

        Models that do not agree on it refuse a missing reading, as they do elsewhere.
        """
        design = self.design
        try:
            return refill_of(family_of(design).model(value) for value in (*design.values, *design.pseudo))
        except ModelError:
            return None

    def clock(self, bound: Binding) -> int | dt.timedelta | None:
        """The length of epochs, or of decisions: as it was given, or so many periods of the family."""
        design, period = self.design, None if bound.time is None else bound.period
        if self.epoch is None and isinstance(design, CausalDesign) and period is not None:
            return dt.timedelta(microseconds=design.decision_every * period / 1000)
        if isinstance(self.epoch, dt.timedelta) and bound.time is None:
            raise ConfigurationError(f"epoch = {self.epoch!r}; epochs by the clock need a column of times")
        return self.epoch

    def timed(self, bound: Binding) -> bool:
        """Whether readings have their times for keys; epochs of so many readings are counted by readings."""
        counted = isinstance(self.clock(bound), int) or (self.causal and self.clock(bound) is None)
        return bound.time is not None and not counted


class Player:
    """A stream and its run over the rows of one segment."""

    def __init__(
        self,
        terms: Terms,
        bound: Binding,
        segment: str | None,
        Y: Array,
        times: Ints | None,
        theta: Index | None,
        origin: int | None = None,
    ) -> None:
        self._timed, self._period = terms.timed(bound), bound.period
        name = terms.name if segment is None else f"{terms.name}/{segment}"
        ledger = terms.ledger
        room = terms.room or terms.name
        self._spent = 0.0 if ledger is None else ledger.spent(room)
        known = ledger is not None and ledger.stream(name) is not None
        others = ledger is not None and segment is not None and any(row.name != name for row in ledger.room(room))
        timed = self._timed and bound.period is not None
        choices = Choices(
            name=name,
            room=None if ledger is None else room,
            share="separate" if others else None,
            epoch=terms.clock(bound),
            rng=terms.rng,
            # what a stream does about gaps is fixed when it is begun
            gaps=None if known or terms.refill is None else WITHHOLD,
            period=dt.timedelta(microseconds=(bound.period or 0) / 1000) if timed else None,
            origin=origin if timed else None,
        )
        value = None if theta is None or known else terms.design.values[int(theta[0])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the summary says that each segment has its draw
            self.stream = terms.design.begin(value, ledger, choices)
        # a stream with memory makes its first decision at the first reading, others when they are begun
        self._epoch = self.stream.epoch if known or terms.causal else self.stream.epoch - 1
        run = terms.run or _digest(Y, times, theta)
        self.run = self.stream.run(run if segment is None else f"{run}/{segment}", terms.abandon)
        self.replayed = self.run.recorded
        self.last: int | None = self.run.last if self._timed else None

    def __repr__(self) -> str:
        return f"Player({self.stream!r})"

    def cadence(self, origin: int | None) -> Cadence | None:
        """The slots of the rows: those of the stream, where its readings have times."""
        if self._timed:
            return self.stream._setup.cadence
        return None if self._period is None or origin is None else Cadence.checked(self._period / 1e9, None, origin)

    def apply(self, piece: Piece) -> Array:
        """Disguised readings for a piece of the sequence, for its rows alone."""
        keys = None if piece.times is None or not self._timed else piece.times.view("datetime64[ns]")
        out = self.run.apply(piece.Y, keys, None if piece.theta is None else PrivateValues.of_rows(piece.theta))
        if piece.places is None:
            return np.asarray(out)
        late = np.full((1, out.shape[1]), np.nan)
        return np.concatenate((out, late))[piece.places]

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
    """Readings for the stream, their times and private values, the offset to add, and the reading of each row."""

    Y: Array
    times: Ints | None
    theta: Index | None
    lines: Ints
    offset: Array | None
    which: Index | None  # None where rows and readings are one and the same
    moved: int  # readings that were off the grid

    def __repr__(self) -> str:
        return f"Prepared({len(self.Y)} readings)"

    def back(self, out: Array, Y: Array, release: Release) -> Array:
        """Outputs of the rows, from those of the readings, on the lattice; nothing where the row had nothing."""
        found = out if self.offset is None else release.rounded(out + self.offset)
        if self.which is None:
            return found
        return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, found[self.which])


def prepared(
    bound: Binding, Y: Array, times: Ints | None, theta: Index | None, inputs: Array | None, lines: Ints
) -> Prepared:
    """Readings of one segment, in order."""
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
    Y, moved = _snapped(bound, Y)
    if bound.offset is None:
        return Prepared(Y, times, theta, lines, None, which, moved)
    named = {} if inputs is None else dict(zip(bound.inputs, inputs.T, strict=True))
    offset = bound.offset.of(named, times, bound.zone)
    return Prepared(Y - offset, times, theta, lines, offset, which, moved)


def _snapped(bound: Binding, Y: Array) -> tuple[Array, int]:
    """Readings on the grid of the family, and how many were not."""
    if not any(cell is not None for cell in bound.grid):
        return Y, 0
    near, moved = Y.copy(), 0
    for channel, cell in enumerate(bound.grid):
        if cell is not None:
            near[:, channel] = cell.snap(Y[:, channel])
            moved += int((np.abs(near[:, channel] - Y[:, channel]) > 1e-6 * cell.step).sum())
    return near, moved


def aligned(parts: Iterable[Rows], bound: Binding) -> Iterator[Rows]:
    """The same rows in batches that do not cut a period in two."""
    if bound.resampling is None or bound.time is None or bound.period is None:
        yield from parts
        return
    waiting: list[Rows] = []
    for part in parts:
        rows = join_rows([*waiting, part])
        found = rows.columns[bound.time].times()
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
        """Rows of which the private value is not known: no value of the design, missing, or in a row not understood."""
        return [] if self.theta is None or not self.theta.size else np.flatnonzero(self.theta < 0).tolist()


def understood(rows: Rows, bound: Binding, labels: Labels | None) -> Batch:
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
        found = columns[bound.time].times()
        times, kind, wrong = found.ns, found.kind, found.unknown
        if wrong:
            unplaced = np.zeros(len(rows), dtype=bool)
            unplaced[list(wrong)] = True
            # what cannot be read may be anything, the private value in the wrong column too
            columns[bound.time] = columns[bound.time].without(sorted(wrong))
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


def carried(segments: list[str], before: str | None) -> list[str]:
    """Rows without a segment belong to the one before, or else to the next."""
    last = before or next((name for name in segments if name), "")
    out = []
    for name in segments:
        last = name or last
        out.append(last)
    return out
