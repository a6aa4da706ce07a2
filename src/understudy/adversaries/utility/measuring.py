"""What is left of the readings for honest use: how far the output is from them, reading by reading and on the whole.

A disguise is paid for in utility. Measured are the distance of output and reading in each channel, the error of
daily means, alarms at a threshold (as of CO2 above 1000 ppm: how much of the true alarm time is reported, how much is
made up, which episodes are missed), the spectrum, and whatever the user's own function says. All are means over
stretches of time and over copies, with intervals; no reading is kept.

Figures of one release are about its draws too: where nothing was changed, the truth was played. They are as
secret as the readings, unlike means over fresh draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.audited import Figure
from understudy.adversaries.utility.intervals import UNKNOWN, Units, ratio, without_each
from understudy.adversaries.utility.spectrum import Band, Spectrum, spectrum
from understudy.errors import ConfigurationError
from understudy.laws.base import Array

Own = Callable[[Array, Array], float]

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
    """Mean absolute error over the mean reading."""
    daily: Figure | None = None
    """Mean absolute error of daily means; None where no day is known."""
    days: int = 0
    alarm: Alarm | None = None
    spectrum: Spectrum | None = None


@dataclass(frozen=True, slots=True)
class Utility:
    """What `measure` found, channel by channel, and what the user's own functions say by name."""

    channels: tuple[Channel, ...]
    own: dict[str, Figure] = field(default_factory=dict)
    readings: int = 0
    """Readings that have an output beside them; copies of one are not counted again."""
    copies: int = 1
    blocks: int = 0
    confidence: float = 0.99

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; what is not a number is None."""
        from understudy.adversaries.utility.plain import plain

        return plain(self)

    def text(self) -> str:
        """The figures in sentences, one a line."""
        from understudy.adversaries.utility.plain import lines

        return "\n".join(lines(self))

    @classmethod
    def from_plain(cls, told: Any) -> Utility:
        """What `plain` wrote."""
        from understudy.adversaries.utility.plain import from_plain

        return from_plain(told)


def measure(
    raw: Any,
    released: Any,
    *,
    period: float | None = None,
    hours: Any = None,
    days: Any = None,
    segments: Any = None,
    blocks: Any = None,
    names: Sequence[str] | None = None,
    alarm: Any = None,
    own: Own | Mapping[str, Own] | None = None,
    confidence: float = 0.99,
) -> Utility:
    """How far an output is from the readings that it stands for.

    `raw` (T, d) are the readings and `released` (T, d, N) disguised copies of them; or both are (T, d, N), N
    sequences of their own. NaN is missing. `period` is in seconds; `hours` (of the day), `days` (of the week) and
    `segments` are (T,); `blocks`, (T,) or (T, N), numbers the stretches of time that intervals rest on. `alarm` is a
    threshold for each channel, None for those without; a number alone is that of the first. `own` is called with
    readings and output, both (T, d), of each copy, and without each of a few stretches for its interval.

    >>> raw = np.full((96, 1), 900.0)
    >>> raw[40:60] = 1100.0
    >>> found = measure(raw, raw[:, :, None] + 150.0, period=900.0, alarm=1000.0)
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
    joined = _joined(T, segments)
    stretch = _stretches(blocks, T, N, joined, copies)
    which = np.broadcast_to(np.arange(N) if copies else np.zeros(N, dtype=np.int64), (T, N))
    units = Units(stretch, which, confidence)
    day = _days(T, joined, hours, days, period)
    limits = _thresholds(alarm, d)
    titles = tuple(names) if names is not None else tuple(f"channel {c + 1}" for c in range(d))
    if len(titles) != d:
        raise ConfigurationError(f"names = {titles!r}; there are {d} channels")
    found = tuple(
        _channel(titles[c], Y[:, c], X[:, c], units, joined, day, period, limits[c]) for c in range(d)
    )  # fmt: skip
    said = {name: _said(name, function, Y, X, units) for name, function in _named(own).items()}
    there = (np.isfinite(Y) & np.isfinite(X)).all(axis=1)
    count = int((there.any(axis=1) if copies else there).sum())
    return Utility(found, said, count, N if copies else 1, int(np.unique(stretch).size), confidence)


def _channel(
    name: str, y: Array, x: Array, units: Units, joined: NDArray[np.bool_], day: NDArray[np.int64] | None,
    period: float | None, threshold: float | None,
) -> Channel:  # fmt: skip
    there = np.isfinite(y) & np.isfinite(x)
    apart, of = np.abs(x - y)[there], units.at(there)
    if not apart.size:
        return Channel(name, UNKNOWN, UNKNOWN, UNKNOWN)
    one = np.ones(apart.size)
    square = ratio(np.square(apart), one, of)
    root = Figure(*(math.sqrt(max(part, 0.0)) if part == part else math.nan for part in square))
    mean = y[there] * math.copysign(1.0, float(y[there].mean()))
    daily, count = (None, 0) if day is None else _daily(y, x, there, day, units, period)
    return Channel(
        name, ratio(apart, one, of), root, ratio(apart, mean, of), daily, count,
        None if threshold is None else _alarm(y, x, there, joined, units, threshold),
        spectrum(y, x, units.block, joined, period, units.confidence),
    )  # fmt: skip


def _daily(
    y: Array, x: Array, there: NDArray[np.bool_], day: NDArray[np.int64], units: Units, period: float | None
) -> tuple[Figure | None, int]:
    """The mean distance of daily means, of the days that have enough readings, and how many days these are."""
    N, D = y.shape[1], int(day.max()) + 1
    cell = (day[:, None] * N + np.arange(N))[there]
    size = np.bincount(cell, minlength=D * N)
    due = np.bincount(day, minlength=D) if period is None else np.full(D, _DAY / period)
    enough = np.flatnonzero(size >= np.maximum(1.0, _ENOUGH * np.repeat(due, N)))
    if not enough.size:
        return None, 0
    apart = np.bincount(cell, (x - y)[there], D * N)[enough] / size[enough]
    first = np.searchsorted(day, enough // N)  # days do not go back
    of = Units(units.block[first, enough % N], units.copy[first, enough % N], units.confidence)
    return ratio(np.abs(apart), np.ones(enough.size), of), int(np.unique(enough // N).size)


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


def _said(name: str, function: Own, Y: Array, X: Array, units: Units) -> Figure:
    """What the user's function says on average over the copies."""
    rows = units.block[:, 0]

    def value(keep: NDArray[np.bool_]) -> float:
        try:
            found = [float(function(Y[keep][:, :, n], X[keep][:, :, n])) for n in range(X.shape[2])]
        except Exception as error:
            raise ConfigurationError(f"the utility {name!r} stopped with a {type(error).__name__}") from error
        return float(np.mean(found))

    return without_each(value, rows, units.confidence)


def _named(own: Own | Mapping[str, Own] | None) -> dict[str, Own]:
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


def _joined(T: int, segments: Any) -> NDArray[np.bool_]:
    """Whether each reading follows the one before it: (T,)."""
    found = np.ones(T, dtype=bool)
    found[0] = False
    if segments is not None:
        given = np.asarray(segments)
        if given.shape != (T,):
            raise ConfigurationError(f"segments has shape {given.shape}; there are {T} readings")
        found[1:] = given[1:] == given[:-1]
    return found


def _stretches(blocks: Any, T: int, N: int, joined: NDArray[np.bool_], copies: bool) -> NDArray[np.int64]:
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


def _days(T: int, joined: NDArray[np.bool_], hours: Any, days: Any, period: float | None) -> NDArray[np.int64] | None:
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


def _thresholds(alarm: Any, d: int) -> tuple[float | None, ...]:
    if alarm is None:
        return (None,) * d
    if isinstance(alarm, (int, float)) and not isinstance(alarm, bool):
        alarm = (alarm,)
    given = tuple(alarm)
    if len(given) > d or any(x is not None and not math.isfinite(float(x)) for x in given):
        raise ConfigurationError(f"alarm = {given!r}; it must be a number or None for each of {d} channels")
    return tuple(None if x is None else float(x) for x in given) + (None,) * (d - len(given))


__all__ = ["Alarm", "Band", "Channel", "Figure", "Spectrum", "Utility", "measure"]
