"""What is left of the readings for honest use: how far the output is from them, reading by reading and on the whole.

A disguise is paid for in utility. Measured are the distance of output and reading in each channel, the error of daily
means, alarms at a threshold (as of CO2 above 1000 ppm: how much of the true alarm time is reported, how much is made
up, which episodes are missed), the spectrum, and whatever the user's own function says. No reading is kept. Figures of
one release are about its draws too: where nothing was changed, the truth was played. They are as secret as the
readings, unlike means over fresh draws.

Readings are autocorrelated, so intervals rest on blocks of time: `ratio` for a ratio of sums, `without_each` (the
jackknife) for any figure of the whole. Where several disguised copies of the same readings are there, what varies from
copy to copy is chance too: the draws differ.

The spectrum is Welch's: power by frequency in windows that overlap by half, without those that have a missing reading.
The *log-spectral distance* is the root mean square, over frequencies, of 10 log10 (released / true), in decibels. It is
the distance of two estimates, so it is not nothing even where the law is the same: about 6 dB over the root of the
number of windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Ints, Mask, Plain
from understudy.adversaries.statistics import Figure, Sums, as_json, block_interval, from_json, long_run_variance
from understudy.errors import ConfigurationError

# Intervals over blocks of time ---------------------------------------------------------------------------------------


UNKNOWN = Figure(math.nan, math.nan, math.nan)
_GROUPS = 12  # of blocks, for a figure that has to be worked out anew without each


class Units(NamedTuple):
    """For each entry the number of its block of time and of its copy, both counted from 0; and the confidence."""

    block: NDArray[np.int64]
    copy: NDArray[np.int64]
    confidence: float

    def at(self, which: Mask | tuple[Ints, ...]) -> Units:
        """The units of some entries."""
        return Units(self.block[which], self.copy[which], self.confidence)


def ratio(top: Array, bottom: Array, units: Units, limits: tuple[float, float] = (0.0, math.inf)) -> Figure:
    """The sum of `top` over the sum of `bottom`, with an interval that lies within `limits`.

    R = sum x / sum y. With the rest e = x - R y of each block and copy, the variance of R is

        (V_blocks + V_copies - V_cells) / (sum y)^2,     V = n / (n - 1) sum (sum of e in the unit)^2

    where consecutive blocks may still be correlated. The interval is Student's, with the degrees of freedom of Welch
    and Satterthwaite, or that of `block_interval` at the end where it is wider.

    >>> units = Units(np.arange(4), np.zeros(4, dtype=int), 0.95)
    >>> found = ratio(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), units)
    >>> [round(x, 3) for x in found]
    [2.0, 0.701, 3.299]
    """
    total = float(bottom.sum())
    if not top.size or not total > 0.0:
        return UNKNOWN
    found = float(top.sum()) / total
    blocks, copies = (np.unique(part, return_inverse=True)[1] for part in (units.block, units.copy))
    B, C = int(blocks.max()) + 1, int(copies.max()) + 1
    if B == 1 and C == 1:
        return Figure(found, math.nan, math.nan)
    above, below = (np.bincount(blocks * C + copies, part, B * C).reshape(B, C) for part in (top, bottom))
    cells = above - found * below
    between = _variance(cells.sum(axis=1), in_a_row=True)
    of_copies, of_cells = _variance(cells.sum(axis=0)), _variance(cells.ravel())
    variance = max(between + of_copies - (of_cells if min(B, C) > 1 else 0.0), between, of_copies)
    # (V_1 + V_2)^2 / (V_1^2 / (n_1 - 1) + V_2^2 / (n_2 - 1))
    parts = between**2 / max(B - 1, 1) + of_copies**2 / max(C - 1, 1)
    freedom = (between + of_copies) ** 2 / parts if parts > 0.0 else float(max(B, C) - 1)
    figure = _interval(found, math.sqrt(variance) / total, freedom, units.confidence, limits)
    top, bottom = above.sum(axis=1), below.sum(axis=1)
    seen = bottom > 0.0
    if int(seen.sum()) < 3 or not figure.low < figure.high:
        return figure
    most = min(limits[1], 10.0 * float((top[seen] / bottom[seen]).max()))
    other = block_interval(Sums(top[:, None], bottom[:, None]), units.confidence, (limits[0], most))
    return Figure(found, min(figure.low, other.low), max(figure.high, other.high))


def without_each(
    figure: Callable[[NDArray[np.bool_]], float],
    block: NDArray[np.int64],
    confidence: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Figure:
    """A figure of the whole, with the interval of the jackknife: what it is without each block of time.

    `figure` is given which entries to keep. Blocks are put together to at most twelve.

    >>> y = np.array([1.0, 2.0, 3.0, 2.0])
    >>> [round(x, 3) for x in without_each(lambda keep: float(y[keep].mean()), np.arange(4), 0.95)]
    [2.0, 0.701, 3.299]
    """
    whole = figure(np.ones(block.shape, dtype=bool))
    numbers = np.unique(block, return_inverse=True)[1].reshape(block.shape)
    count = int(numbers.max()) + 1
    if count > _GROUPS:
        numbers, count = numbers * _GROUPS // count, _GROUPS
    if count < 2 or not math.isfinite(whole):
        return Figure(whole, math.nan, math.nan)
    left = np.array([figure(numbers != number) for number in range(count)])
    left = left[np.isfinite(left)]
    if left.size < 2:
        return Figure(whole, math.nan, math.nan)
    # (n - 1) / n sum (figure without i - their mean)^2
    error = math.sqrt((left.size - 1) / left.size * float(np.square(left - left.mean()).sum()))
    return _interval(whole, error, left.size - 1.0, confidence, limits)


def _variance(sums: Array, in_a_row: bool = False) -> float:
    """Of a total of parts whose mean is zero, correlated with their neighbours or not; 0 where there is one."""
    n = sums.size
    return 0.0 if n < 2 else n / (n - 1.0) * (long_run_variance(sums) if in_a_row else float(np.square(sums).sum()))


def _interval(value: float, error: float, freedom: float, confidence: float, limits: tuple[float, float]) -> Figure:
    from scipy.special import stdtrit

    wide = float(stdtrit(max(freedom, 1.0), 0.5 + 0.5 * confidence)) * error
    low, high = limits
    return Figure(value, max(low, value - wide), min(high, value + wide))


# The spectrum --------------------------------------------------------------------------------------------------------


LONGEST, SHORTEST, WINDOWS = 512, 16, 4
"""Readings of a window at most and at least, and the windows that there must be at least."""
_HOUR = 3600.0
_PERIODS = (("slower than 6 h", 6.0 * _HOUR, math.inf), ("1 h to 6 h", _HOUR, 6.0 * _HOUR),
            ("10 min to 1 h", _HOUR / 6.0, _HOUR), ("faster than 10 min", 0.0, _HOUR / 6.0))  # fmt: skip
_READINGS = (("slower than 64 readings", 64.0, math.inf), ("16 to 64 readings", 16.0, 64.0),
             ("4 to 16 readings", 4.0, 16.0), ("faster than 4 readings", 0.0, 4.0))  # fmt: skip
_COVERED = 0.5  # share of the readings that windows should cover
_SEQUENCES = 200  # independent sequences that are looked at


@dataclass(frozen=True, slots=True)
class Band:
    """A band of frequencies: the distance there in decibels, and by how much more (or less) the output moves."""

    name: str
    distance: float
    level: float
    """10 log10 of the power of the output over that of the readings: positive where the output moves more."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Log-spectral distance in decibels, over all frequencies and by bands."""

    distance: Figure
    bands: tuple[Band, ...]
    windows: int
    window: int
    """Readings in a window."""


def spectrum(
    raw: Array, released: Array, stretch: NDArray[np.int64], joined: NDArray[np.bool_], period: float | None,
    confidence: float = 0.99,
) -> Spectrum | None:  # fmt: skip
    """The spectra of one channel, true and released (T, N), compared; None where there are too few readings.

    `stretch` (T, N) numbers the stretches of time, `joined` (T,) says whether a reading follows the one before it.

    >>> rng = np.random.default_rng(1)
    >>> y = rng.standard_normal((4096, 1))
    >>> found = spectrum(y, 2.0 * y, np.arange(4096)[:, None] // 512, np.arange(4096) > 0, 60.0)
    >>> round(found.distance.value, 3), [band.name for band in found.bands][-1], found.window
    (6.021, 'faster than 10 min', 512)
    """
    raw, released, stretch = raw[:, :_SEQUENCES], released[:, :_SEQUENCES], stretch[:, :_SEQUENCES]
    starts, length = _windows(np.isfinite(raw) & np.isfinite(released), joined)
    if len(starts) < WINDOWS:
        return None
    frequencies, true = _powers(raw, starts, length)
    shown = _powers(released, starts, length)[1]
    block = stretch[starts[:, 0], starts[:, 1]]

    def distance(keep: NDArray[np.bool_]) -> float:
        return _distance(true[keep].mean(axis=0), shown[keep].mean(axis=0)) if keep.any() else math.nan

    # whatever power a channel that stands still has, its logarithm says nothing
    if not (true.mean(axis=0) > 0.0).all() or not (shown.mean(axis=0) > 0.0).all():
        return None
    found = without_each(distance, block, confidence, (0.0, math.inf))
    bands = _bands(frequencies, true.mean(axis=0), shown.mean(axis=0), period)
    return Spectrum(found, bands, len(starts), length)


def _windows(there: NDArray[np.bool_], joined: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Where windows begin, (W, 2) rows and sequences, and how long they are.

    The longest that leave enough of them and cover half of the readings; where gaps are many, those that cover most.
    """
    whole = there & joined[:, None]
    best, most = (np.empty((0, 2), dtype=np.int64), SHORTEST), -1
    for length in (LONGEST >> k for k in range((LONGEST // SHORTEST).bit_length())):
        starts = _find_windows(there, whole, length)
        inside = np.zeros(there.shape, dtype=bool)
        for k, n in starts:
            inside[k : k + length, n] = True
        covered = int(inside.sum())
        if len(starts) >= 2 * WINDOWS and covered >= _COVERED * int(there.sum()):
            return starts, length
        if len(starts) >= WINDOWS and covered > most:
            best, most = (starts, length), covered
    return best


def _find_windows(there: NDArray[np.bool_], whole: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    T, N = there.shape
    if length > T:
        return np.empty((0, 2), dtype=np.int64)
    sums = np.concatenate([np.zeros((1, N), dtype=np.int64), whole.cumsum(axis=0)])
    # the first reading of a window must be there, the others must also follow the one before
    full = there[: T - length + 1] & (sums[length:] - sums[1 : T - length + 2] == length - 1)
    found: list[tuple[int, int]] = []
    for n in range(N):
        free = 0
        for k in np.flatnonzero(full[:, n]).tolist():
            if k >= free:
                found.append((k, n))
                free = k + length // 2
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _powers(y: Array, starts: NDArray[np.int64], length: int) -> tuple[Array, Array]:
    """Frequencies (a reading is 1), without that of the mean, and the power of each window at them."""
    from scipy.signal import periodogram

    rows = starts[:, :1] + np.arange(length)
    frequencies, power = periodogram(y[rows, starts[:, 1:]], window="hann", detrend="constant", axis=1)
    return np.asarray(frequencies[1:]), np.asarray(power[:, 1:])


def _distance(true: Array, shown: Array) -> float:
    return math.sqrt(float(np.square(10.0 * np.log10(shown / true)).mean()))


def _bands(frequencies: Array, true: Array, shown: Array, period: float | None) -> tuple[Band, ...]:
    lengths = (1.0 if period is None else period) / frequencies
    found = []
    for name, fast, slow in _READINGS if period is None else _PERIODS:
        inside = (lengths >= fast) & (lengths < slow)
        if inside.any():
            level = 10.0 * math.log10(float(shown[inside].sum()) / float(true[inside].sum()))
            found.append(Band(name, _distance(true[inside], shown[inside]), level))
    return tuple(found)


# The figures of a channel --------------------------------------------------------------------------------------------


Own = Callable[[Array, Array], float]
"""A measure of the user: readings and output in, a number out."""
Thresholds = float | Sequence[float | None]
"""Of alarms: that of the first channel, or one for each."""

_DAY = 86_400.0
_SHARE = (0.0, 1.0)
_ENOUGH = 0.5  # of the readings of a day that must be there for its mean
_STRETCHES = 24  # that the time is cut into where nothing is said about it


@dataclass(frozen=True, slots=True)
class Alarm:
    """What becomes of an alarm at a threshold."""

    threshold: float
    reported: Figure
    """Share of the true alarm time in which the output is above the threshold too."""
    false: Figure
    """Share of the other time in which it is."""
    missed: Figure
    """Share of the episodes during which it never is."""
    episodes: int
    """Stretches of true alarm, each counted once."""
    time: float
    """Share of the time that is true alarm."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The figures of one channel, in the unit of its readings."""

    name: str
    mean_absolute: Figure
    root_mean_square: Figure
    relative: Figure
    """Mean absolute error over the mean absolute reading."""
    daily: Figure | None = None
    """Mean absolute error of daily means; None where no day is known."""
    days: int = 0
    alarm: Alarm | None = None
    spectrum: Spectrum | None = None
    unit: str = ""
    quantiles: tuple[float, ...] = ()
    """At `QUANTILES`: the mean absolute errors of whole days, or blocks of time, one for each in every copy."""
    over: str = ""
    """"day" or "block": what has the mean absolute errors of `quantiles`."""
    spans: int = 0
    """How many days or blocks these are."""
    largest: float = math.nan
    """The largest absolute error of a reading."""
    raw: tuple[float, ...] = ()
    """At `LEVELS`: the quantiles of the readings, coarse, so that none of them is a reading itself."""
    released: tuple[float, ...] = ()
    """At `LEVELS`: those of the output."""
    shares: tuple[tuple[float, ...], ...] = ()
    """The shares of readings, and of the output, in bars of one width from the least to the greatest of both."""


LEVELS = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_BARS = 32
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Utility:
    """What `measure_utility` found, channel by channel, and what the user's own functions say by name."""

    channels: tuple[Channel, ...]
    own: dict[str, Figure] = field(default_factory=dict)
    readings: int = 0
    """Readings that have an output beside them; copies of one are not counted again."""
    copies: int = 1
    blocks: int = 0
    confidence: float = 0.99

    def plain(self) -> Plain:
        """As JSON can hold it; what is not a number is None."""
        found: Plain = as_json(self)
        return found

    def text(self) -> str:
        """The figures in sentences, one a line."""
        return "\n".join((*price_sentences(self), *utility_sentences(self)))

    @classmethod
    def from_plain(cls, plain: Plain) -> Utility:
        """What `plain` wrote."""
        found: Utility = from_json(cls, plain)
        return found


def measure_utility(
    raw: ArrayLike,
    released: ArrayLike,
    *,
    period: float | None = None,
    hours: ArrayLike | None = None,
    days: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    alarm: Thresholds | None = None,
    own: Own | Mapping[str, Own] | None = None,
    confidence: float = 0.99,
) -> Utility:
    """How far an output is from the readings that it stands for.

    `raw` (T, d) are the readings and `released` (T, d, N) disguised copies of them; or both are (T, d, N), N
    sequences of their own. NaN is missing. `period` is in seconds; `hours` (of the day), `days` (of the week) and
    `segments` are (T,); `blocks`, (T,) or (T, N), numbers the stretches of time that intervals rest on. `names` and
    `units` are those of the channels. `alarm` is a
    threshold for each channel, None for those without; a number alone is that of the first. `own` is called with
    readings and output, both (T, d), of each copy, and without each of a few stretches for its interval.

    >>> raw = np.full((96, 1), 900.0)
    >>> raw[40:60] = 1100.0
    >>> found = measure_utility(raw, raw[:, :, None] + 150.0, period=900.0, alarm=1000.0)
    >>> channel = found.channels[0]
    >>> channel.mean_absolute.value, channel.daily.value, channel.alarm.reported.value, channel.alarm.false.value
    (150.0, 150.0, 1.0, 1.0)
    """
    Y, X = np.asarray(raw, dtype=float), np.asarray(released, dtype=float)
    if X.ndim == 2:
        X = X[:, :, None]
    if X.ndim != 3 or Y.shape not in (X.shape, X.shape[:2]) or not all(X.shape):
        raise ConfigurationError(
            f"readings of shape {Y.shape} and an output of shape {X.shape}; they must be (T, d) and (T, d, N), or both "
            "(T, d, N)"
        )
    if not 0.0 < confidence < 1.0:
        raise ConfigurationError(f"confidence = {confidence!r}; it must lie between 0 and 1")
    T, d, N = X.shape
    copies = Y.ndim == 2
    Y = np.broadcast_to(Y[:, :, None], X.shape) if copies else Y
    joined = _find_joins(T, segments)
    stretch = _stretches(blocks, T, N, joined, copies)
    which = np.broadcast_to(np.arange(N) if copies else np.zeros(N, dtype=np.int64), (T, N))
    cells = Units(stretch, which, confidence)
    day = _days(T, joined, hours, days, period)
    limits = _thresholds(alarm, d)
    titles = tuple(names) if names is not None else tuple(f"channel {c + 1}" for c in range(d))
    said_units = (None,) * d if units is None else tuple(units)
    for option, given in (("names", titles), ("units", said_units)):
        if len(given) != d:
            raise ConfigurationError(f"{option} = {given!r}; there are {d} channels")
    found = tuple(
        _channel((titles[c], said_units[c] or ""), Y[:, c], X[:, c], cells, joined, day, period, limits[c])
        for c in range(d)
    )
    said = {name: _evaluate(name, function, Y, X, cells) for name, function in _name_functions(own).items()}
    there = (np.isfinite(Y) & np.isfinite(X)).all(axis=1)
    count = int((there.any(axis=1) if copies else there).sum())
    return Utility(found, said, count, N if copies else 1, int(np.unique(stretch).size), confidence)


def _channel(
    title: tuple[str, str], y: Array, x: Array, units: Units, joined: NDArray[np.bool_], day: NDArray[np.int64] | None,
    period: float | None, threshold: float | None,
) -> Channel:  # fmt: skip
    there = np.isfinite(y) & np.isfinite(x)
    apart, of = np.abs(x - y)[there], units.at(there)
    name, unit = title
    if not apart.size:
        return Channel(name, UNKNOWN, UNKNOWN, UNKNOWN, unit=unit)
    one = np.ones(apart.size)
    square = ratio(np.square(apart), one, of)
    root = Figure(*(math.sqrt(max(part, 0.0)) if part == part else math.nan for part in square))
    over, spans, means = _span_means(y, x, there, day, units, period)
    daily, count = (None, 0) if day is None else _daily(y, x, there, day, units, period)
    sizes = _sizes(y[there], x[there])
    return Channel(
        name, ratio(apart, one, of), root, ratio(apart, np.abs(y[there]), of), daily, count,
        None if threshold is None else _alarm(y, x, there, joined, units, threshold),
        spectrum(y, x, units.block, joined, period, units.confidence),
        unit, tuple(np.quantile(means, QUANTILES).tolist()), over, spans, float(apart.max()), *sizes,
    )  # fmt: skip


def _sizes(y: Array, x: Array) -> tuple[tuple[float, ...], tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """The quantiles of readings and of outputs, to a hundredth of what both span or less, and their shares in bars."""
    low, high = min(y.min(), x.min()), max(y.max(), x.max())
    step = 10.0 ** math.ceil(math.log10(max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-300)) - 2)
    levels = []
    for part in (y, x):
        inner = np.rint(np.quantile(part, LEVELS[1:-1]) / step).tolist()
        ends = math.floor(part.min() / step), math.ceil(part.max() / step)
        levels.append(tuple(float(f"{step * k:.12g}") for k in (ends[0], *inner, ends[1])))
    edges = np.linspace(min(levels[0][0], levels[1][0]), max(levels[0][-1], levels[1][-1]), _BARS + 1)
    shares = tuple(tuple((np.histogram(part, edges)[0] / part.size).tolist()) for part in (y, x))
    return levels[0], levels[1], shares


def _daily(
    y: Array, x: Array, there: NDArray[np.bool_], day: NDArray[np.int64], units: Units, period: float | None
) -> tuple[Figure | None, int]:
    """The mean distance of daily means, of the days that have enough readings, and how many days these are."""
    N = y.shape[1]
    enough, apart = _day_means(x - y, there, day, period)
    if not enough.size:
        return None, 0
    first = np.searchsorted(day, enough // N)  # days do not go back
    of = Units(units.block[first, enough % N], units.copy[first, enough % N], units.confidence)
    return ratio(np.abs(apart), np.ones(enough.size), of), int(np.unique(enough // N).size)


def _day_means(
    change: Array, there: NDArray[np.bool_], day: NDArray[np.int64], period: float | None
) -> tuple[NDArray[np.int64], Array]:
    """The days of copies that have enough readings, numbered day * N + copy, and the mean change (T, N) of each."""
    N, D = change.shape[1], int(day.max()) + 1
    cell = (day[:, None] * N + np.arange(N))[there]
    size = np.bincount(cell, minlength=D * N)
    due = np.bincount(day, minlength=D) if period is None else np.full(D, _DAY / period)
    enough = np.flatnonzero(size >= np.maximum(1.0, _ENOUGH * np.repeat(due, N)))
    return enough, np.bincount(cell, change[there], D * N)[enough] / size[enough]


def _span_means(
    y: Array, x: Array, there: NDArray[np.bool_], day: NDArray[np.int64] | None, units: Units, period: float | None
) -> tuple[str, int, Array]:
    """The mean absolute changes of whole days in each copy, and how many days; of blocks where no day is whole."""
    N = y.shape[1]
    if day is not None:
        enough, means = _day_means(np.abs(x - y), there, day, period)
        if enough.size:
            return "day", int(np.unique(enough // N).size), means
    spans, block = np.unique(units.block[there], return_inverse=True)
    cell = block * N + np.nonzero(there)[1]
    size = np.bincount(cell)
    means = np.bincount(cell, np.abs(x - y)[there])[size > 0] / size[size > 0]
    return "block", int(spans.size), means


def _alarm(
    y: Array, x: Array, there: NDArray[np.bool_], joined: NDArray[np.bool_], units: Units, threshold: float
) -> Alarm:
    true, told = there & (np.nan_to_num(y) > threshold), there & (np.nan_to_num(x) > threshold)
    of = units.at(there)
    reported = ratio((true & told)[there].astype(float), true[there].astype(float), of, _SHARE)
    false = ratio((~true & told)[there].astype(float), (there & ~true)[there].astype(float), of, _SHARE)
    missed, where = [], []
    seen: set[tuple[int, int]] = set()
    for n in range(y.shape[1]):
        for rows in _runs(true[:, n], there[:, n], joined):
            missed.append(float(not told[rows, n].any()))
            where.append((rows[0], n))
            # copies tell of the same episode
            seen.add((int(rows[0]), 0 if units.copy[0, -1] or y.shape[1] == 1 else n))
    at = tuple(np.array(where, dtype=np.int64).reshape(-1, 2).T)
    share = ratio(np.array(missed), np.ones(len(missed)), units.at(at), _SHARE)
    return Alarm(threshold, reported, false, share, len(seen), float(true[there].mean()))


def _runs(true: NDArray[np.bool_], there: NDArray[np.bool_], joined: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """The rows of each episode; a missing reading does not end one, a new segment does."""
    segment = np.cumsum(~joined)
    rows = np.flatnonzero(there)
    on = true[rows]
    if not on.any():
        return []
    cut = np.flatnonzero((np.diff(on.astype(int)) != 0) | (np.diff(segment[rows]) != 0)) + 1
    return [part for part in np.split(rows, cut) if true[part[0]]]


def _evaluate(name: str, function: Own, Y: Array, X: Array, units: Units) -> Figure:
    """What the user's function says on average over the copies."""
    rows = units.block[:, 0]

    def value(keep: NDArray[np.bool_]) -> float:
        try:
            found = [float(function(Y[keep][:, :, n], X[keep][:, :, n])) for n in range(X.shape[2])]
        except Exception as error:
            raise ConfigurationError(f"the utility {name!r} stopped with a {type(error).__name__}") from error
        return float(np.mean(found))

    return without_each(value, rows, units.confidence)


def _name_functions(own: Own | Mapping[str, Own] | None) -> dict[str, Own]:
    if own is None:
        return {}
    if isinstance(own, Mapping):
        wrong = [name for name, function in own.items() if not callable(function)]
        if wrong:
            raise ConfigurationError(f"the utility {wrong[0]!r} is no function of readings and output")
        return {str(name): function for name, function in own.items()}
    if not callable(own):
        raise ConfigurationError(f"a utility of type {type(own).__name__}; it must be a function, or functions by name")
    return {str(getattr(own, "__name__", "utility")): own}


def _find_joins(T: int, segments: ArrayLike | None) -> NDArray[np.bool_]:
    """Whether each reading follows the one before it: (T,)."""
    found = np.ones(T, dtype=bool)
    found[0] = False
    if segments is not None:
        given = np.asarray(segments)
        if given.shape != (T,):
            raise ConfigurationError(f"segments has shape {given.shape}; there are {T} readings")
        found[1:] = given[1:] == given[:-1]
    return found


def _stretches(blocks: ArrayLike | None, T: int, N: int, joined: NDArray[np.bool_], copies: bool) -> NDArray[np.int64]:
    """The stretch of each reading, (T, N): as given, else segments, pieces of the time, or sequences."""
    if blocks is not None:
        given = np.asarray(blocks)
        if given.shape not in ((T,), (T, N)):
            raise ConfigurationError(f"blocks has shape {given.shape}; it must be ({T},) or ({T}, {N})")
        return np.broadcast_to(given if given.ndim == 2 else given[:, None], (T, N)).astype(np.int64)
    if not copies and N > 1:
        return np.broadcast_to(np.arange(N), (T, N)).astype(np.int64)
    segment = np.cumsum(~joined) - 1
    pieces = segment if segment[-1] + 1 >= _STRETCHES // 2 else np.arange(T) * _STRETCHES // T
    return np.broadcast_to(pieces[:, None], (T, N)).astype(np.int64)


def _days(
    T: int, joined: NDArray[np.bool_], hours: ArrayLike | None, days: ArrayLike | None, period: float | None
) -> NDArray[np.int64] | None:
    """The number of the day of each reading, (T,); None where no day is known."""
    new = ~joined
    if hours is not None:
        hour = np.asarray(hours, dtype=float)
        if hour.shape != (T,):
            raise ConfigurationError(f"hours has shape {hour.shape}; there are {T} readings")
        if not np.isfinite(hour).any():
            return None
        new = new | np.concatenate([[True], hour[1:] < hour[:-1]])
        if days is not None:
            week = np.asarray(days)
            new = new | np.concatenate([[True], week[1:] != week[:-1]])
    elif period is not None:
        place = np.arange(T) - np.flatnonzero(~joined)[np.cumsum(~joined) - 1]
        new = new | (place % max(1, round(_DAY / period)) == 0)
    else:
        return None
    return np.asarray(np.cumsum(new) - 1, dtype=np.int64)


def _thresholds(alarm: Thresholds | None, d: int) -> tuple[float | None, ...]:
    if alarm is None:
        return (None,) * d
    given = tuple(alarm) if isinstance(alarm, Iterable) and not isinstance(alarm, str) else (alarm,)
    if len(given) > d or not all(x is None or _is_threshold(x) for x in given):
        raise ConfigurationError(
            f"alarm = {alarm!r}; it must be a finite number or None for each of {d} channels, and no truth value"
        )
    return tuple(None if x is None else float(x) for x in given) + (None,) * (d - len(given))


def _is_threshold(x: float) -> bool:
    """Whether this is a finite number; True and False are none, though Python counts them as 1 and 0."""
    return isinstance(x, Real) and not isinstance(x, bool) and math.isfinite(x)


__all__ = ["Alarm", "Band", "Channel", "Figure", "Spectrum", "Utility", "measure_utility"]


# Utility in plain sentences --------------------------------------------------------------------------


def price_sentences(utility: Utility) -> list[str]:
    """What the disguise changed, a sentence for each channel.

    >>> price_sentences(measure_utility([[400.0], [410.0]], [[401.0], [412.0]], units=["ppm"]))[0][:48]
    'channel 1 is off by 1.5 ppm on average, 0.37 per'
    """
    found = []
    for c in utility.channels:
        error = c.mean_absolute.value, c.relative.value, c.largest
        over = text.spans_in_draws(c.spans, c.over, utility.copies)
        found.append(text.reading_error(c.name, error, c.quantiles, over, _spaced(c)))
    return found


def _spaced(channel: Channel) -> str:
    return f" {channel.unit}" if channel.unit else ""


def utility_sentences(utility: Utility) -> list[str]:
    """What becomes of daily means, alarms and spectra, and figures of the user's own, a sentence each."""
    found = []
    for c in utility.channels:
        unit = _spaced(c)
        if c.daily is not None:
            found.append(text.daily_error(c.name, c.daily.value, c.days, unit))
        if c.alarm is not None:
            shares = (c.alarm.reported.value, c.alarm.false.value, c.alarm.missed.value)
            found.append(text.alarm_error(c.name, f"{c.alarm.threshold:g}{unit}", shares, c.alarm.episodes))
        if c.spectrum is not None:
            found.append(text.spectrum_error(c.name, c.spectrum.distance.value))
    return found + [f"{name}: {figure.value:.4g}." for name, figure in utility.own.items()]
