"""From a dataframe to a `History`: rows on one period, in segments, with a note on everything that was done.

`intake` accepts rows in any order, times in any form, jitter, gaps, missing readings and labels, and several segments.
It refuses a reading that is no number, a label in none of the bins, and any input that is not public.

The period is stated, or it is the spacing of the rows (`spacing`). Rows come to it in one of two ways:

- *Placing* (`place`) keeps every reading and gives it the nearest place on the period. Jitter of time stamps does no
  harm then.
- *Resampling* (`resample`) makes one row of all rows within a period, if the stated period is coarser than the data.
  The reading is the mean, or the last one for a sample-and-hold sensor. The label is the most frequent one, and of
  equally frequent ones the latest. `History.resampled` says that this was done.

`cut_at_gaps` then cuts rows into blocks where no reading comes for more than `GAP` periods. Each becomes a segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from understudy._types import Array, Index, Ints, Mask, Value
from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.history import BinsLike, History, Segment, as_labels
from understudy.identify.public_inputs import CLOCK, clock_names, clock_values
from understudy.tables.table import Table
from understudy.tables.times import DAY, SECOND, Kind, Period, in_words, seconds

if TYPE_CHECKING:
    from understudy.tables.table import Frame

# Rows on one period -------------------------------------------------------------------------------


GAP = 50
"""Periods without a reading after which a new segment begins."""
COARSER = 1.5
"""A stated period of at least so many spacings is a wish to resample."""
_NEAT = [n * unit for unit in (1e-3, 1.0, 60.0, 3600.0) for n in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)]
_NEAT += [0.1, 0.2, 0.25, 0.5, 45.0, 90.0, 86400.0]


class Rows(NamedTuple):
    """Rows of one block of data, in time: nanoseconds, readings, positions of labels, public inputs."""

    ns: Ints
    Y: Array
    theta: Index
    public: Array

    def take(self, which: Index | Mask | slice) -> Rows:
        """Some of the rows."""
        return Rows(self.ns[which], self.Y[which], self.theta[which], self.public[which])


def spacing(blocks: list[Ints]) -> float:
    """The period of time stamps, in seconds: the median spacing, made precise over runs without a long gap.

    It is a neat number of seconds where a drift of a quarter of a row at most is the price.

    >>> spacing([np.array([0, 59, 121, 180, 240, 299]) * SECOND])
    60.0
    """
    steps = [np.diff(ns) for ns in blocks]
    positive = np.concatenate([step[step > 0] for step in steps]) if steps else np.array([])
    if not positive.size:
        raise ConfigurationError("no two rows differ in time; a period cannot be told: state it")
    rough = float(np.median(positive))
    # least squares of time on the number of the row, within runs without a long gap
    products, squares, longest = 0.0, 0.0, 1.0
    for ns, step in zip(blocks, steps, strict=True):
        count = np.rint(step / rough)
        for run in np.split(np.arange(ns.size), np.flatnonzero(count > GAP) + 1):
            row = np.concatenate([[0.0], np.cumsum(count[run[:-1]])])
            centred = row - row.mean()
            products += float(centred @ (ns[run] - ns[run[0]]))
            squares, longest = squares + float(centred @ centred), max(longest, float(row[-1]))
    precise = (products / squares if squares else rough) / SECOND
    for neat in (min(_NEAT, key=lambda p: abs(p - precise)), float(round(precise))):
        wrong = abs(neat / precise - 1.0)
        if wrong < 0.01 and wrong * longest <= 0.25:
            return neat
    return precise


def place(rows: Rows, period: float) -> tuple[Rows, int, float]:
    """Rows on the period, one for each place from the first to the last; how many met on one place, and the jitter.

    Of rows that meet on one place the first is kept. Jitter is the 99th percentile of distances, in periods.
    """
    step = period * SECOND
    offset = (rows.ns - rows.ns[0]) / step
    # the phase that suits most: the median of what is left after whole periods
    phase = _phase(offset)
    index = np.rint(offset - phase).astype(np.int64)
    jitter = float(np.quantile(np.abs(offset - phase - index), 0.99))
    origin = rows.ns[0] + round((phase + index[0]) * step)
    index -= index[0]
    kept = np.concatenate([[True], np.diff(index) > 0])
    some = rows.take(kept)
    return some._replace(ns=origin + np.rint(index[kept] * step).astype(np.int64)), int((~kept).sum()), jitter


def _phase(offset: Array) -> float:
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return turn + float(np.median(rest - np.rint(rest)))


def resample(rows: Rows, period: float, last: bool = False) -> tuple[Rows, int]:
    """One row for each period that has readings, and how many had too few readings to count.

    A block counts if it has at least half of the readings that such a block typically has.

    >>> ns = np.arange(6) * 20 * SECOND
    >>> Y = np.array([[1.0], [2.0], [3.0], [7.0], [7.0], [np.nan]])
    >>> rows = Rows(ns, Y, np.array([0, 0, 1, 1, 0, -1]), Y)
    >>> coarse, few = resample(rows, 60.0)
    >>> coarse.Y.ravel().tolist(), coarse.theta.tolist()
    ([2.0, 7.0], [0, 0])
    """
    step = round(period * SECOND)
    places, which = np.unique(rows.ns // step, return_inverse=True)
    n = places.size
    there = ~np.isnan(rows.Y).any(axis=1)
    count = np.bincount(which[there], minlength=n)
    enough = count >= max(1.0, 0.5 * float(np.median(count[count > 0]))) if there.any() else count > 0
    Y = np.full((n, rows.Y.shape[1]), np.nan)
    if last:
        Y[which[there]] = rows.Y[there]  # the last assignment stays
    else:
        for channel in range(rows.Y.shape[1]):
            total = np.bincount(which[there], weights=rows.Y[there, channel], minlength=n)
            Y[:, channel] = total / np.maximum(count, 1)
    Y[~enough] = np.nan
    public = np.full((n, rows.public.shape[1]), np.nan)
    for column in range(rows.public.shape[1]):
        known = ~np.isnan(rows.public[:, column])
        seen = np.bincount(which[known], minlength=n)
        total = np.bincount(which[known], weights=rows.public[known, column], minlength=n)
        public[seen > 0, column] = total[seen > 0] / seen[seen > 0]
    coarse = Rows(places * step, Y, _majority(which, rows.theta, n), public)
    return coarse, int((~enough & (count > 0)).sum())


def _majority(which: Index, theta: Index, n: int) -> Index:
    """The label that most rows of a block have, of equals the later; unknown where most rows are."""
    m = int(theta.max(initial=-1)) + 1
    votes = np.zeros((n, m + 1))
    np.add.at(votes, (which, theta), 1.0)  # unknown ones go to the last column
    unknown = votes[:, m].copy()
    order = np.zeros((n, m + 1))
    order[which, theta] = np.arange(which.size) / max(which.size, 1)  # the last time that each was seen
    votes += np.where(votes > 0.0, 0.5 * order, 0.0)
    best = votes[:, :m].argmax(axis=1) if m else np.full(n, -1)
    known = np.floor(votes[:, :m]).sum(axis=1) >= unknown
    return np.where(known & (votes[:, :m].max(axis=1, initial=0.0) > 0.0), best, -1).astype(np.intp)


def cut_at_gaps(rows: Rows, period: float) -> list[Rows]:
    """Rows with a place for each period, in blocks that end where no reading is for more than `GAP` periods.

    A place without a row has readings that are missing and the label unknown.
    """
    there = np.flatnonzero(~np.isnan(rows.Y).any(axis=1))
    if not there.size:
        return []
    index = np.rint((rows.ns - rows.ns[0]) / (period * SECOND)).astype(np.int64)
    ends = np.flatnonzero(np.diff(index[there]) > GAP)
    firsts, lasts = there[np.concatenate([[0], ends + 1])], there[np.concatenate([ends, [there.size - 1]])]
    return [
        _fill(rows.take(slice(first, last + 1)), index[first : last + 1], period)
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]


def _fill(rows: Rows, index: Ints, period: float) -> Rows:
    place = index - index[0]
    T = int(place[-1]) + 1
    if len(rows.ns) == T:
        return rows
    ns = rows.ns[0] + np.rint(np.arange(T) * (period * SECOND)).astype(np.int64)
    Y, theta = np.full((T, rows.Y.shape[1]), np.nan), np.full(T, -1, dtype=np.intp)
    public = np.full((T, rows.public.shape[1]), np.nan)
    Y[place], theta[place], public[place] = rows.Y, rows.theta, rows.public
    return Rows(ns, Y, theta, public)


# Rows into blocks: by their times, or in the order they stand in -------------------------------------


_MOST_PLACES = 100_000_000

Groups = list[tuple[str, Index]]
"""The name of each segment and its rows."""


def count_noun(n: int, what: str) -> str:
    """A number and a noun.

    >>> count_noun(1, "row"), count_noun(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what if n == 1 else what + 's'}"


def in_order(rows: Rows, groups: Groups, period: Period | None) -> tuple[list[tuple[str, Rows]], float | None]:
    """Without times: rows as they stand, one period apart."""
    step = None if period is None else seconds(period)
    blocks = []
    for name, which in groups:
        numbered = rows.take(which)._replace(ns=np.arange(which.size) * SECOND)
        blocks += [(name, part) for part in cut_at_gaps(numbered, 1.0)]
    return [(name, part._replace(ns=np.empty(0, dtype=np.int64))) for name, part in blocks], step


def times(table: Table, name: str, groups: Groups, notes: list[str]) -> tuple[Ints, Mask, str | None]:
    """Nanoseconds of each row, which rows have no time, and the zone; times of day are counted on past midnight."""
    found = table.times(name)
    if found.unit != "s":
        notes.append(f"the numbers in {name!r} were taken for times in {found.unit}, since 1970")
    if len(found.zones) > 1:
        notes.append(
            f"the times have {len(found.zones)} zones; the hour of the day is counted in {found.zone}, "
            "the most frequent"
        )
    if found.missing.all():
        raise ReadingError(f"column {name!r} has no time in any row")
    if found.missing.any():
        notes.append(f"{count_noun(int(found.missing.sum()), 'row')} without a time in {name!r} dropped")
    ns = found.ns.copy()
    if found.kind is Kind.OF_DAY:
        nights = 0
        for _, which in groups:
            there = which[~found.missing[which]]
            back = np.diff(ns[there]) < 0
            # a clock that goes back by half a day or more has passed midnight, unless rows are in no order at all
            if back.any() and (np.diff(ns[there])[back] < -DAY // 2).all():
                ns[there[1:]] += np.cumsum(back) * DAY
                nights += int(back.sum())
        if nights:
            notes.append(
                f"the times of day pass midnight {count_noun(nights, 'time')}; days were counted on from there"
            )
    return ns, found.missing, found.zone


def in_time(
    rows: Rows,
    missing: Mask,
    groups: Groups,
    period: Period | None,
    last: bool,
    notes: list[str],
) -> tuple[list[tuple[str, Rows]], float, bool]:
    """Blocks on one period, in seconds: sorted, without doubles, placed or resampled, and which of the two."""
    sorted_rows, unsorted, doubled = [], False, 0
    for name, which in groups:
        which = which[~missing[which]]
        if not which.size:
            continue
        order = which[np.argsort(rows.ns[which], kind="stable")]
        unsorted |= bool((order != which).any())
        first = np.concatenate([[True], np.diff(rows.ns[order]) > 0])
        doubled += int((~first).sum())
        sorted_rows.append((name, rows.take(order[first])))
    if unsorted:
        notes.append("the rows were not in the order of time, and were sorted")
    if doubled:
        was = "was" if doubled == 1 else "were"
        notes.append(f"{count_noun(doubled, 'row')} with the time of an earlier one {was} dropped: the first was kept")
    native = spacing([part.ns for _, part in sorted_rows])
    step = native if period is None else seconds(period)
    if sum(float(part.ns[-1] - part.ns[0]) for _, part in sorted_rows) / (step * SECOND) > _MOST_PLACES:
        raise ConfigurationError(f"period = {step:g} s gives more than {_MOST_PLACES} rows; state a longer one")
    if step >= COARSER * native:
        return _resample_all(sorted_rows, native, step, last, notes), step, True
    if period is None:
        notes.append(f"the period is {in_words(step)}, the spacing of the rows")
    met, jitter, blocks = 0, 0.0, []
    for name, part in sorted_rows:
        placed, together, stray = place(part, step)
        met, jitter = met + together, max(jitter, stray)
        blocks += [(name, piece) for piece in cut_at_gaps(placed, step)]
    if jitter > 0.05:
        notes.append(
            f"time stamps stray by up to {jitter * step:.3g} s from a period of {in_words(step)} (99 in 100 by less); "
            "each row was moved to the nearest place"
        )
    if met:
        notes.append(f"{count_noun(met, 'row')} on the place of an earlier one dropped")
    return blocks, step, False


def _resample_all(
    parts: list[tuple[str, Rows]], native: float, step: float, last: bool, notes: list[str]
) -> list[tuple[str, Rows]]:
    how = "the last reading" if last else "the mean of the readings"
    notes.append(
        f"rows of {in_words(native)} were resampled to {in_words(step)}: {how} in each period, the label that most "
        "of its rows have (of equals the later), stamped with its beginning"
    )
    few, blocks = 0, []
    for name, part in parts:
        coarse, thin = resample(part, step, last)
        few += thin
        blocks += [(name, piece) for piece in cut_at_gaps(coarse, step)]
    if few:
        notes.append(f"{count_noun(few, 'period')} with less than half of the usual readings count as missing")
    return blocks


# From a dataframe to a `History` ------------------------------------------------------------------


FEW = 50
"""A value with fewer rows than this gets a note: a law can hardly be told from them."""
_ACTUATOR = re.compile(r"damper|valve|vav|actuator|set.?point|fan.?speed|supply.?air|hvac|command", re.IGNORECASE)
_WHY = (
    "what reacts to readings carries the private parameter into the output, from which it can be read off; "
    "it is safe as another reading (reading=[..., {name!r}]), which is then disguised too"
)


def intake(
    frame: Frame | Table,
    *,
    reading: str | Iterable[str],
    private: str,
    time: str | None = None,
    segment: str | Iterable[str] | None = None,
    period: Period | None = None,
    bins: BinsLike | None = None,
    public: str | Iterable[str] = (),
    actuators: str | Iterable[str] = (),
    last: bool = False,
    values: Sequence[Value] | None = None,
) -> History:
    """The history in a dataframe (pandas, polars, pyarrow) or a mapping from names to arrays.

    `time` may be datetimes, ISO text, times of day or seconds; without it rows are one `period` apart in their order.
    `period` is in seconds or words ("15min"); when coarser than the data, readings are averaged over it, and the
    label is the one that most rows have (`last=True` takes the last reading instead of the mean, for sensors that hold
    one). When it is not stated it is the spacing of the rows. `segment` names columns that separate days or rooms.
    `bins` puts counts together, `public` names inputs that do not depend on anything private; "clock" is the time of
    day. Each of `actuators` must be a reading too. `values` states the values of the private parameter where they are
    known, so that not all need occur.

    >>> times = ["00:00", "00:02", "00:01", "00:01", "00:04"]
    >>> frame = {"t": times, "co2": [400, 420, 410, 1, 440], "n": [0, 0, 1, 0, 1]}
    >>> history = intake(frame, reading="co2", private="n", time="t")
    >>> history
    History(co2 -> n of 2 values, 1 segment, 5 rows of 60 s, 4 used)
    >>> for note in history.notes[:4]:
    ...     print(note)
    the rows were not in the order of time, and were sorted
    1 row with the time of an earlier one was dropped: the first was kept
    the period is 60 s, the spacing of the rows
    1 of 5 rows has no reading
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    readings, publics, keys = _names(reading), _names(public), _names(() if segment is None else segment)
    _roles(readings, private, time, publics, keys, _names(actuators))
    if not len(table):
        raise ReadingError("the frame has no rows")
    notes = [f"{name!r} is an actuator; as a reading it is disguised with the others" for name in _names(actuators)]
    notes += [
        f"{name!r} looks like an actuator: it must not be named public if it reacts to readings, since it would give "
        "the private parameter away"
        for name in publics
        if _ACTUATOR.search(name)
    ]
    labels = as_labels(table, private, bins, values)
    if len(labels.values) < 2:
        raise ConfigurationError(f"the private parameter {private!r} takes one value only; there is nothing to hide")
    notes += labels.notes
    if time is None and CLOCK in publics:
        raise ConfigurationError("public names 'clock' and there is no time column; it is the time of day")
    Y = _readings(table, readings, notes)
    columns = {name: table.numbers(name, "public", "a public input") for name in publics if name != CLOCK}
    U = np.column_stack(list(columns.values())) if columns else np.empty((len(table), 0))
    groups = _groups(table, keys, notes)
    zone: str | None = None
    step: float | None
    resampled = False
    if time is None:
        rows = Rows(np.zeros(len(table), dtype=np.int64), Y, labels.positions, U)
        blocks, step = in_order(rows, groups, period)
    else:
        ns, missing, zone = times(table, time, groups, notes)
        rows = Rows(ns, Y, labels.positions, U)
        blocks, step, resampled = in_time(rows, missing, groups, period, last, notes)
    segments = _segments(blocks, CLOCK in publics, zone, notes)
    q = (*columns, *(clock_names() if CLOCK in publics else ()))
    segments = [_fill_public(part, bool(q), notes) for part in segments]
    history = History(
        readings, private, time, q, labels.values, step, tuple(segments), (), zone, labels.bins, resampled
    )
    return history.having(segments, *notes, *_remarks(history, values is None))


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError(f"columns are named by text; {names!r} is not")
    return names


def _roles(
    readings: tuple[str, ...],
    private: str,
    time: str | None,
    public: tuple[str, ...],
    segment: tuple[str, ...],
    actuators: tuple[str, ...],
) -> None:
    if not readings:
        raise ConfigurationError("reading names no column; at least one is needed")
    for name in actuators:
        if name not in readings:
            raise ConfigurationError(f"{name!r} is an actuator; " + _WHY.format(name=name))
    roles = {
        "reading": readings,
        "private": (private,),
        "time": _names(time or ()),
        "public": public,
        "segment": segment,
    }
    used: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            if name in used and (role, used[name]) != ("segment", "time"):
                raise ConfigurationError(f"the column {name!r} is named as {used[name]} and as {role}; it has one role")
            used[name] = role


def _readings(table: Table, names: tuple[str, ...], notes: list[str]) -> Array:
    Y = np.column_stack([table.numbers(name) for name in names])
    gone = np.isnan(Y)
    for name, count in zip(names, gone.sum(axis=0).tolist(), strict=True):
        if count:
            notes.append(f"{count_noun(count, 'row')} without a reading in {name!r}")
    part = gone.any(axis=1) & ~gone.all(axis=1)
    if part.any():
        notes.append(f"{count_noun(int(part.sum()), 'row')} with some channels missing counted as missing whole")
        Y[part] = np.nan
    if gone.all(axis=1).all() or np.isnan(Y).all():
        raise ReadingError(f"no row has a reading in every channel of {', '.join(names)}")
    return Y


def _groups(table: Table, keys: tuple[str, ...], notes: list[str]) -> Groups:
    """Rows of each segment, in the order of first appearance."""
    everything = np.arange(len(table))
    if not keys:
        return [("1", everything)]
    names = [table.entries(key, "segment").names for key in keys]
    found: dict[tuple[str, ...], list[int]] = {}
    for k, key in enumerate(zip(*names, strict=True)):
        found.setdefault(key, []).append(k)
    missing = sum(len(rows) for key, rows in found.items() if not all(key))
    if missing:
        notes.append(f"{count_noun(missing, 'row')} without an entry in {', '.join(keys)} dropped")
    return [("/".join(key), np.array(rows)) for key, rows in found.items() if all(key)]


def _segments(blocks: list[tuple[str, Rows]], clock: bool, zone: str | None, notes: list[str]) -> list[Segment]:
    long = [(name, rows) for name, rows in blocks if len(rows.Y) >= 2]
    if len(long) < len(blocks):
        notes.append(f"{count_noun(len(blocks) - len(long), 'segment')} of a single row dropped")
    names = [name for name, _ in long]
    cut = len(names) - len(set(names))
    if cut:
        notes.append(
            f"{count_noun(cut, 'gap')} of more than {GAP} periods without a reading: a new segment begins after each"
        )
    if not long:
        raise ReadingError("no segment has two rows; readings that follow each other are needed")
    made, seen = [], dict.fromkeys(names, 0)
    for name, rows in long:
        seen[name] += 1
        title = name if names.count(name) == 1 else f"{name}.{seen[name]}"
        times = rows.ns if rows.ns.size else None
        U = np.column_stack([rows.public, clock_values(rows.ns, zone)]) if clock else rows.public
        made.append(Segment(title, times, rows.Y, rows.theta, U))
    return made


def _fill_public(segment: Segment, wanted: bool, notes: list[str]) -> Segment:
    """Public inputs that are missing keep their last value; before the first, the reading counts as missing."""
    if not wanted or segment.public is None:
        return Segment(segment.name, segment.times, segment.Y, segment.theta)
    U, Y = segment.public.copy(), segment.Y.copy()
    gone = np.isnan(U)
    if not gone.any():
        return segment
    for column in range(U.shape[1]):
        last = np.maximum.accumulate(np.where(gone[:, column], -1, np.arange(len(U))))
        U[:, column] = np.where(last >= 0, U[np.maximum(last, 0), column], np.nan)
    start = np.isnan(U).any(axis=1)
    Y[start], U[start] = np.nan, 0.0
    lost = f" ({int(start.sum())} readings before the first are not used)" if start.any() else ""
    notes.append(
        f"{int(gone.any(axis=1).sum())} rows of segment {segment.name!r} lack a public input; it keeps its last value"
        f"{lost}"
    )
    return Segment(segment.name, segment.times, Y, segment.theta, U)


def _remarks(history: History, learning: bool) -> list[str]:
    """What a user should know about what came out."""
    rows, gone = history.rows, sum(int((~s.complete).sum()) for s in history.segments)
    remarks = [f"{gone} of {rows} rows {'has' if gone == 1 else 'have'} no reading"] if gone else []
    counts = history.counts
    if not learning:
        return remarks
    if (counts == 0).any():
        none = ", ".join(repr(v) for v, n in zip(history.values, counts, strict=True) if not n)
        raise ConfigurationError(f"the value {none} of {history.private!r} has no row with a reading; put it in a bin")
    for value, count in zip(history.values, counts.tolist(), strict=True):
        if count < FEW:
            remarks.append(
                f"the value {value!r} of {history.private!r} has {count_noun(count, 'row')} only; its law can hardly "
                "be estimated from so few, put it in a bin with others"
            )
    return remarks
