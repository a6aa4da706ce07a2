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
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from understudy import text
from understudy._types import Array, Index, Ints, Mask, Period, Value
from understudy.errors import ConfigurationError, ReadingError, UnderstudyWarning
from understudy.identify.history import MOST_NAMES, BinsLike, History, Segment, as_labels
from understudy.identify.public_inputs import CLOCK, clock_names, clock_values
from understudy.tables.columns import time_names
from understudy.tables.table import Table
from understudy.tables.times import DAY, SECOND, Kind, seconds

if TYPE_CHECKING:
    from understudy.tables.table import Frame

# Rows on one period -------------------------------------------------------------------------------


GAP = 50
"""Periods without a reading after which a new segment begins."""
HOUR = 3600 * SECOND
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

    It is a neat number of seconds where a drift of a quarter of a row at most is the price. Rows that are missing do
    not change it, nor does a sensor that begins anew at another moment.

    >>> spacing([np.array([0, 59, 121, 180, 240, 299]) * SECOND])
    60.0
    >>> spacing([np.array([0, 30, 91, 152, 239, 270, 329, 421, 480]) * SECOND])
    30.0
    """
    steps = [np.diff(ns) for ns in blocks]
    positive = np.concatenate([step[step > 0] for step in steps]) if steps else np.array([])
    if not positive.size:
        raise ConfigurationError("no two rows differ in time; a period cannot be told: state it")
    rough = _fraction(positive, float(np.median(positive)))
    for most in (1, 5):  # where rows are missing, jitter moves the median, and long steps would be miscounted
        rough = _slope(blocks, steps, rough, most, 0.25)[0]
    fits = [_slope(blocks, steps, rough, GAP, within) for within in (0.5, 0.25)]
    for slope, longest in fits:
        precise = slope / SECOND
        for neat in (_neatest(precise), float(round(precise))):
            wrong = abs(neat / precise - 1.0)
            if wrong < 0.01 and wrong * longest <= 0.25:
                return neat
    slope, longest = fits[0]
    rounded = (round(slope / SECOND, digits) for digits in range(9))  # no more digits than the rows tell
    return next((r for r in rounded if abs(r * SECOND / slope - 1.0) * longest <= 0.05), slope / SECOND)


def _neatest(period: float) -> float:
    return min(_NEAT, key=lambda neat: abs(neat - period))


def _fraction(steps: Array, period: float) -> float:
    """The period, or where most rows are missing the fraction of it of which nearly all steps are whole multiples."""
    for parts in range(1, 6):
        ratio = steps * (parts / period)
        count = np.rint(ratio)
        if (np.abs(ratio - count) <= 0.2).mean() >= 0.9 and (count == 1.0).mean() >= 0.25:
            return period / parts
    return period


def _slope(blocks: list[Ints], steps: list[Ints], period: float, most: int, within: float) -> tuple[float, float]:
    """Nanoseconds a row by least squares, and the rows of the longest run.

    A run ends at a step of more than `most` periods, and at one farther than `within` from a whole number of them.
    """
    products, squares, longest = 0.0, 0.0, 1.0
    for ns, step in zip(blocks, steps, strict=True):
        count = np.rint(step / period)
        ends = (count > most) | (np.abs(step / period - count) > within)
        run = np.concatenate([[0], np.cumsum(ends)])
        row, time = np.concatenate([[0.0], np.cumsum(np.where(ends, 0.0, count))]), (ns - ns[0]).astype(float)
        size = np.bincount(run)
        centred, later = (x - (np.bincount(run, x) / size)[run] for x in (row, time))
        products, squares = products + float(centred @ later), squares + float(centred @ centred)
        last = np.cumsum(size) - 1
        longest = max(longest, float((row[last] - row[last - size + 1]).max()))
    return products / squares if squares else period, longest


def place(rows: Rows, period: float) -> tuple[Rows, int, float]:
    """Rows on the period, one for each place from the first to the last; how many met on one place, and the jitter.

    Of rows that meet on one place the first is kept. Jitter is the 99th percentile of distances, in periods.
    """
    step = period * SECOND
    offset = (rows.ns - rows.ns[0]) / step
    # the phase that suits most: the median of what is left after whole periods
    phase = phase_of(offset)
    index = np.rint(offset - phase).astype(np.int64)
    jitter = float(np.quantile(np.abs(offset - phase - index), 0.99))
    origin = rows.ns[0] + round((phase + index[0]) * step)
    index -= index[0]
    kept = np.concatenate([[True], np.diff(index) > 0])
    some = rows.take(kept)
    return some._replace(ns=origin + np.rint(index[kept] * step).astype(np.int64)), int((~kept).sum()), jitter


def phase_of(offset: Array) -> float:
    """Where numbers lie within a whole one: by their mean direction, and the median of what that leaves.

    >>> round(phase_of(np.array([0.2, 1.2, 7.2, 3.9])), 6)
    0.2
    """
    turn = float(np.angle(np.exp(2j * np.pi * offset).mean())) / (2.0 * np.pi)
    rest = offset - turn
    return turn + float(np.median(rest - np.rint(rest)))  # outliers pull the mean direction


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
    for column, given in enumerate(rows.public.T):
        known = ~np.isnan(given)
        seen = np.bincount(which[known], minlength=n)
        total = np.bincount(which[known], weights=given[known], minlength=n)
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


# The parts that columns play ------------------------------------------------------------------------


Names: TypeAlias = str | Iterable[str]
"""One name, or several: of columns, or of model classes."""
_ACTUATOR = re.compile(r"damper|valve|vav|actuator|set.?point|fan.?speed|supply.?air|hvac|command", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a frame play which part, and how their rows and labels are put together.

    `time` may be datetimes, ISO text, times of day or seconds, in one column or in two, "Date,Time"; `day_first` reads
    22/12/2017, which is refused otherwise. Without `time` rows are one `period` apart in their order.
    `period` is in seconds or words ("15min"); when coarser than the data, rows are resampled to it. When it is not
    stated it is the spacing of the rows. `segment` names columns that separate days or rooms. `bins` puts counts
    together, `public` names inputs that do not depend on anything private; "clock" is the time of day. Each of
    `actuators` must be a reading too.
    """

    reading: Names
    private: str
    time: str | None = None
    segment: Names | None = None
    period: Period | None = None
    bins: BinsLike | None = None
    public: Names = ()
    actuators: Names = ()
    day_first: bool = False

    def __post_init__(self) -> None:
        if not self.readings:
            raise ConfigurationError("reading names no column; at least one is needed")
        for name in names_of(self.actuators):
            if name not in self.readings:
                raise ConfigurationError(
                    f"{name!r} is an actuator; what reacts to readings carries the private parameter into the output, "
                    "from which it can be read off; it is safe as another reading "
                    f"(reading=[..., {name!r}]), which is then disguised too"
                )
        roles = {
            "reading": self.readings,
            "private": (self.private,),
            "time": time_names(self.time, ()),
            "public": self.inputs,
            "segment": self.keys,
        }
        used: dict[str, str] = {}
        for role, names in roles.items():
            for name in names:
                if name in used and (role, used[name]) != ("segment", "time"):
                    raise ConfigurationError(
                        f"the column {name!r} is named as {used[name]} and as {role}; it has one role"
                    )
                used[name] = role
        if self.time is None and self.clock:
            raise ConfigurationError("public names 'clock' and there is no time column; it is the time of day")

    @property
    def readings(self) -> tuple[str, ...]:
        """Columns of readings."""
        return names_of(self.reading)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Public inputs, the clock among them."""
        return names_of(self.public)

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that separate segments."""
        return names_of(self.segment or ())

    @property
    def clock(self) -> bool:
        """Whether the time of day is a public input."""
        return CLOCK in self.inputs


def names_of(given: Names) -> tuple[str, ...]:
    """Names, from one or several.

    >>> names_of("co2"), names_of(["co2", "rh"])
    (('co2',), ('co2', 'rh'))
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError(f"columns are named by text; {names!r} is not")
    return names


# From a dataframe to a `History` ------------------------------------------------------------------


FEW = 50
"""A value with fewer rows than this gets a note: a law can hardly be told from them."""
_MOST_PLACES = 100_000_000
FACTOR = 5.0
"""A jump of the median reading by this factor is one of scale."""

Groups = list[tuple[str, Index]]
"""The name of each segment and its rows."""
Blocks = list[tuple[str, Rows]]
"""The name of a segment and a block of its rows without a long gap."""


def intake(
    frame: Frame | Table, columns: Columns, *, last: bool = False, values: Sequence[Value] | None = None
) -> History:
    """The history in a dataframe (pandas, polars, pyarrow) or a mapping from names to arrays.

    When the period is coarser than the data, readings are averaged over it, and the label is the one that most rows
    have; `last` takes the last reading instead of the mean, for sensors that hold one. `values` states the values of
    the private parameter where they are known, so that not all need occur.

    >>> times = ["00:00", "00:02", "00:01", "00:01", "00:04"]
    >>> frame = {"t": times, "co2": [400, 420, 410, 1, 440], "n": [0, 0, 1, 0, 1]}
    >>> history = intake(frame, Columns(reading="co2", private="n", time="t"))
    >>> history
    History(co2 -> n of 2 values, 1 segment, 5 rows of 60 s, 4 used)
    >>> for note in history.notes[:4]:
    ...     print(note)
    the rows were not in the order of time, and were sorted
    1 row with the time of an earlier one dropped: the first was kept
    the period is 1 min, the spacing of the rows
    1 of 5 rows without a reading
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    if not len(table):
        raise ReadingError("the frame has no rows")
    notes, private = text.Notes(), columns.private
    for name in names_of(columns.actuators):
        notes.add("actuator", name=name)
    for name in filter(_ACTUATOR.search, columns.inputs):
        notes.add("looks like an actuator", name=name)
    labels = as_labels(table, private, columns.bins, values)
    if len(labels.values) < 2:
        raise ConfigurationError(f"the private parameter {private!r} takes one value only; there is nothing to hide")
    notes += labels.notes
    Y = _readings(table, columns.readings, notes)
    if values is None and columns.bins is None and labels.bins is not None:
        _check_count(table, private, Y)
    public = [name for name in columns.inputs if name != CLOCK]
    inputs = [table.numbers(name, "public", "a public input") for name in public]
    U = np.column_stack(inputs) if inputs else np.empty((len(table), 0))
    groups = _groups(table, columns.keys, notes)
    rows = Rows(np.zeros(len(table), dtype=np.int64), Y, labels.positions, U)
    zone, resampled = None, False
    if columns.time is None:
        step = None if columns.period is None else seconds(columns.period)
        blocks = _in_order(rows, groups)
        order = np.arange(len(table))
    else:
        ns, missing, zone = _times(table, columns.time, columns.day_first, groups, notes)
        there = [(name, which[~missing[which]]) for name, which in groups]
        order = np.concatenate([np.empty(0, dtype=np.intp), *(which for _, which in there)])
        order = order[np.argsort(ns[order], kind="stable")]
        rows = rows._replace(ns=ns)
        if values is None and zone is None:
            _note_clock(table, columns.time, ns, there, notes)
        blocks, step, resampled = _in_time(rows, there, columns.period, last, notes)
    if values is None:
        _note_marks(table, columns.readings, rows.Y, notes)
        _note_scale(table, columns.readings, rows, order, notes)
    if columns.clock:
        public += clock_names()
    segments = _segments(blocks, columns.clock, zone, notes)
    segments = [_fill_public(part, bool(public), notes) for part in segments]
    history = History(
        columns.readings, private, columns.time, tuple(public), labels.values, step, tuple(segments), (), zone,
        labels.bins, resampled, columns.day_first,
    )  # fmt: skip
    _add_remarks(history, values is None, notes)
    return history.add_notes(notes)


_SPREADSHEET = 30_000.0, 60_000.0
"""Days since 1900, as spreadsheets count them from 1982 to 2064."""


def _readings(table: Table, names: tuple[str, ...], notes: text.Notes) -> Array:
    Y = np.column_stack([table.numbers(name) for name in names])
    gone = np.isnan(Y)
    for name, count in zip(names, gone.sum(axis=0).tolist(), strict=True):
        notes.tally("rows without a reading", count, name=name)
    part = gone.any(axis=1) & ~gone.all(axis=1)
    notes.tally("rows without some channels", int(part.sum()))
    Y[part] = np.nan
    if np.isnan(Y).all():
        raise ReadingError(f"{table.name}: no row has a reading in every channel of {', '.join(names)}")
    return Y


def _warn(notes: text.Notes, kind: str, place: str, **facts: int) -> None:
    """A note that is a warning too: what follows may be worth nothing."""
    notes.add(kind, place=place, **facts)
    warnings.warn(notes[-1], UnderstudyWarning, stacklevel=4)


def _check_count(table: Table, private: str, Y: Array) -> None:
    """Refuse to choose bins where the private column has as many values as a measurement has."""
    count = len(set(table.entries(private).distinct) - {None})
    if count > MOST_NAMES and count >= min(np.unique(y[~np.isnan(y)]).size for y in Y.T):
        raise ConfigurationError(
            f"{table.name}: the private column {private!r} takes {count} values, no fewer than a reading does; are the "
            "columns of readings and of the private parameter exchanged? If not, state bins='0,1-2,3+'"
        )


def _note_clock(table: Table, time: str, ns: Ints, groups: Groups, notes: text.Notes) -> None:
    """Say where a clock on the wall goes back by an hour, or skips one in the night to a Sunday."""
    for _, which in groups:
        steps = np.diff(ns[which])
        beyond = steps - np.median(steps) if steps.size else steps
        now = ns[which[1:]]
        night = ((now // DAY + 3) % 7 == 6) & (now % DAY <= 4 * HOUR)
        for kind, rows in ("clock back", (beyond == -HOUR) & (steps < 0)), ("clock forward", (beyond == HOUR) & night):
            for row in which[1:][rows].tolist():
                _warn(notes, kind, table.place(time, row))


def _note_marks(table: Table, names: tuple[str, ...], Y: Array, notes: text.Notes) -> None:
    """Say where several readings are one number that lies far from all others, as -999 does: a mark, no reading."""
    for name, y in zip(names, Y.T, strict=True):
        sizes, counts = np.unique(y[~np.isnan(y)], return_counts=True)
        for k, rest in (0, sizes[1:]), (-1, sizes[:-1]):
            seldom = 2 < counts[k] < 0.1 * counts.sum() and sizes[k] != 0.0  # what is off reads 0
            if seldom and rest.size > FEW and np.abs(rest - sizes[k]).min() > np.ptp(rest):
                row = int(np.flatnonzero(y == sizes[k])[0])
                _warn(notes, "mark", table.place(name, row), count=int(counts[k]))


def _note_scale(table: Table, names: tuple[str, ...], rows: Rows, order: Index, notes: text.Notes) -> None:
    """Say where readings jump to another range for more than a day, with one private value before and after."""
    order = order[~np.isnan(rows.Y[order, 0])]
    if order.size <= 2 * FEW:
        return
    from scipy.ndimage import median_filter

    when, theta = rows.ns[order], rows.theta[order]
    for name, y in zip(names, rows.Y[order].T, strict=True):
        level = median_filter(y, 5, mode="nearest")  # without single outliers
        low, high = (f.accumulate(level)[:-1] for f in (np.minimum, np.maximum))
        after_low, after_high = (f.accumulate(level[::-1])[::-1][1:] for f in (np.minimum, np.maximum))
        gap = np.maximum(after_low - high, low - after_high)[FEW - 1 : -FEW]
        k = int(gap.argmax()) + FEW
        parts = level[:k], level[k:]
        small, large = sorted(abs(float(np.median(part))) for part in parts)
        common = set(theta[:k].tolist()) & set(theta[k:].tolist()) - {-1}
        long = not when.any() or min(when[k - 1] - when[0], when[-1] - when[k]) > 0.9 * DAY
        if gap.max() > 0.0 and long and common and (gap.max() > max(map(np.ptp, parts)) or large > FACTOR * small):
            _warn(notes, "scale", table.place(name, int(order[k])))


def _groups(table: Table, keys: tuple[str, ...], notes: text.Notes) -> Groups:
    """Rows of each segment, in the order of first appearance."""
    if not keys:
        return [("1", np.arange(len(table)))]
    names = [table.entries(key, "segment").names for key in keys]
    found: dict[tuple[str, ...], list[int]] = {}
    for k, key in enumerate(zip(*names, strict=True)):
        found.setdefault(key, []).append(k)
    missing = sum(len(rows) for key, rows in found.items() if not all(key))
    notes.tally("rows dropped", missing, what=f"an entry in {', '.join(keys)}")
    return [("/".join(key), np.array(rows)) for key, rows in found.items() if all(key)]


def _times(
    table: Table, name: str, day_first: bool, groups: Groups, notes: text.Notes
) -> tuple[Ints, Mask, str | None]:
    """Nanoseconds of each row, which rows have no time, and the zone; times of day are counted on past midnight."""
    found = table.times(name, day_first)
    if found.unit != "s":
        notes.add("unit of times", name=name, unit=found.unit)
    if len(found.zones) > 1:
        notes.add("several zones", count=len(found.zones), zone=found.zone)
    if found.missing.all():
        raise ReadingError(f"column {name!r} has no time in any row")
    notes.tally("rows dropped", int(found.missing.sum()), what=f"a time in {name!r}")
    ns = found.ns.copy()
    if found.kind is Kind.NUMBER and found.unit == "s":
        counted, steps = ns[~found.missing] / SECOND, np.abs(np.diff(ns[~found.missing])) / SECOND
        if counted.min() > _SPREADSHEET[0] and counted.max() < _SPREADSHEET[1] and 0.0 < np.median(steps) < 0.5:
            _warn(notes, "spreadsheet", table.place(name, int(np.flatnonzero(~found.missing)[0])))
    if found.kind is Kind.OF_DAY:
        nights = 0
        for _, which in groups:
            there = which[~found.missing[which]]
            back = np.diff(ns[there]) < 0
            # a clock that goes back by half a day or more has passed midnight, unless rows are in no order at all
            if back.any() and (np.diff(ns[there])[back] < -DAY // 2).all():
                ns[there[1:]] += np.cumsum(back) * DAY
                nights += int(back.sum())
        notes.tally("midnights", nights, "time")
    return ns, found.missing, found.zone


def _in_order(rows: Rows, groups: Groups) -> Blocks:
    """Without times: rows as they stand, one period apart."""
    numbered = [(name, rows.take(which)._replace(ns=np.arange(which.size) * SECOND)) for name, which in groups]
    blocks = [(name, part) for name, some in numbered for part in cut_at_gaps(some, 1.0)]
    return [(name, part._replace(ns=np.empty(0, dtype=np.int64))) for name, part in blocks]


def _in_time(
    rows: Rows, groups: Groups, period: Period | None, last: bool, notes: text.Notes
) -> tuple[Blocks, float, bool]:
    """Blocks on one period, in seconds: sorted, without doubles, placed or resampled, and which of the two."""
    parts, unsorted, doubled = [], False, 0
    for name, which in groups:
        if which.size:
            order = which[np.argsort(rows.ns[which], kind="stable")]
            unsorted |= bool((order != which).any())
            first = np.concatenate([[True], np.diff(rows.ns[order]) > 0])
            doubled += int((~first).sum())
            parts.append((name, rows.take(order[first])))
    if unsorted:
        notes.add("rows sorted")
    notes.tally("doubles", doubled)
    native = spacing([part.ns for _, part in parts])
    step = native if period is None else seconds(period)
    if sum(float(part.ns[-1] - part.ns[0]) for _, part in parts) / (step * SECOND) > _MOST_PLACES:
        raise ConfigurationError(f"period = {step:g} s gives more than {_MOST_PLACES} rows; state a longer one")
    coarser = step >= COARSER * native
    if coarser:
        how = "the last reading" if last else "the mean of the readings"
        notes.add("resampled", native=text.span(native), period=text.span(step), how=how)
    elif period is None:
        _note_period(step, np.concatenate([np.diff(part.ns) for _, part in parts]) / SECOND, notes)
    lost, jitter, blocks = 0, 0.0, []
    for name, part in parts:
        if coarser:
            placed, few = resample(part, step, last)
        else:
            placed, few, stray = place(part, step)
            jitter = max(jitter, stray)
        lost += few
        blocks += [(name, piece) for piece in cut_at_gaps(placed, step)]
    if jitter > 0.05:
        notes.add("jitter", stray=jitter * step, period=text.span(step))
    notes.tally("thin periods" if coarser else "rows on one place", lost, "period" if coarser else "row")
    return blocks, step, coarser


def _note_period(period: float, steps: Array, notes: text.Notes) -> None:
    neat = _neatest(period)
    if period in (neat, round(period)):
        notes.add("period", period=text.span(period))
        return
    low, high = np.quantile(steps, [0.05, 0.95])
    what = "leave one place empty" if neat < period else "put two rows on one place"
    count = max(2, round(max(period, neat) / abs(period - neat)))
    notes.add("odd period", period=text.span(period), low=low, high=high, neat=text.span(neat), what=what, count=count)


def _segments(blocks: Blocks, clock: bool, zone: str | None, notes: text.Notes) -> list[Segment]:
    long = [(name, rows) for name, rows in blocks if len(rows.Y) >= 2]
    notes.tally("single rows", len(blocks) - len(long), "segment")
    names = [name for name, _ in long]
    notes.tally("gaps", len(names) - len(set(names)), "gap", most=GAP)
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


def _fill_public(segment: Segment, wanted: bool, notes: text.Notes) -> Segment:
    """Public inputs that are missing keep their last value; before the first, the reading counts as missing."""
    if not wanted or segment.public is None:
        return Segment(segment.name, segment.times, segment.Y, segment.theta)
    gone = np.isnan(segment.public)
    if not gone.any():
        return segment
    U, Y = segment.public.copy(), segment.Y.copy()
    last = np.maximum.accumulate(np.where(gone, -1, np.arange(len(U))[:, None]), axis=0)
    U = np.where(last >= 0, np.take_along_axis(U, np.maximum(last, 0), axis=0), np.nan)
    start = np.isnan(U).any(axis=1)
    Y[start], U[start] = np.nan, 0.0
    notes.tally("public inputs filled", int(gone.any(axis=1).sum()), segment=segment.name, lost=int(start.sum()))
    return Segment(segment.name, segment.times, Y, segment.theta, U)


def _add_remarks(history: History, learning: bool, notes: text.Notes) -> None:
    """What a user should know about what came out."""
    gone = sum(int((~s.complete).sum()) for s in history.segments)
    if gone:
        notes.add("no reading", gone=gone, rows=text.with_count(history.rows, "row"))
    if not learning:
        return
    counts = dict(zip(history.values, history.counts.tolist(), strict=True))
    if not all(counts.values()):
        none = ", ".join(repr(value) for value, count in counts.items() if not count)
        raise ConfigurationError(f"the value {none} of {history.private!r} has no row with a reading; put it in a bin")
    for value, count in counts.items():
        if count < FEW:
            notes.tally("few rows", count, value=value, private=history.private)
