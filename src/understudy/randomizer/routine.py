"""The routine: how the private value depends on the public clock, by time of day and kind of day.

Who knows the time knows a good part of the presence in an office. A design by the clock takes that for public: it
counts what readings tell *beyond* the clock, and its pseudo path may follow the routine freely.

A `Routine` holds the shares of the values at each quarter of an hour, on weekdays and on weekends. `routine_of`
estimates it from labelled days: counts are smoothed over the time of day by a kernel, whose width has the best
likelihood of each day given the others; a kind of day is drawn towards all days with the weight of one day, and no
value is impossible.

`Routine.chain` is the Markov chain of a week with exactly these shares. From one decision to the next the value stays
where it can (a maximal coupling of the two laws), and with a probability L it is drawn afresh::

    T_t = (1 - L) (coupling of pi_t and pi_t+1) + L (1 pi_t+1'),        so that  pi_t T_t = pi_t+1

L is such that the chain changes as often as the value did in the history.

The routine follows the clock on the wall. Where the zone of the history is known by name, summer time moves it: an hour
of the week is passed over in spring, and comes twice in autumn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from understudy._types import Array, Index, Ints, Plain
from understudy.errors import ConfigurationError, DesignError, StoredFileError
from understudy.models.family import Family
from understudy.randomizer.solver import as_prior
from understudy.serialize import matrix_from_plain, value_from_plain

STEP, DAY, WEEK = 900, 86_400, 604_800
"""Seconds of a step of the routine, of a day and of a week; a week begins on Thursday, as 1970 did."""
STEPS = DAY // STEP
_NS = 1_000_000_000
_WIDTHS = (900.0, 1800.0, 3600.0, 7200.0)  # seconds, of which the likeliest is taken
_FEW = 3  # days below which the widths are not compared
_USUAL = 3600.0
_FLOOR = 1e-3  # equal probabilities that are mixed in
_LEAST = 1e-3  # probability of a fresh draw, so that the chain forgets


class LabelledSegment(Protocol):
    """Rows of a history: times in nanoseconds since 1970, and positions of the values, -1 where unknown."""

    @property
    def times(self) -> Ints | None:
        """(T,)."""
        ...

    @property
    def theta(self) -> Index:
        """(T,)."""
        ...


class Routine(NamedTuple):
    """Shares of the values by kind of day (weekday, weekend) and step of the day, and how often the value changes."""

    shares: Array
    """(2, 96, m), rows sum to one."""
    moves: float
    """Changes a day."""
    offset: int
    """Seconds that the clock on the wall is ahead of UTC."""
    days: tuple[int, int]
    """Weekdays and weekend days that were seen."""
    width: float
    """Seconds of the kernel."""
    zone: str | None = None
    """The name of the zone whose clock it is, where that has summer time; `offset` is then the one at the beginning."""

    def __repr__(self) -> str:
        return f"Routine({self.shares.shape[2]} values, {self.days[0]} weekdays, {self.days[1]} weekend days)"

    def to_plain(self) -> Plain:
        """As JSON can hold it."""
        plain = {**self._asdict(), "shares": self.shares.round(9).tolist(), "days": list(self.days)}
        return {name: value for name, value in plain.items() if name != "zone" or value is not None}

    @classmethod
    def from_plain(cls, plain: Plain, order: Sequence[int]) -> Routine:
        """What `to_plain` wrote, with the values in this order."""
        try:
            shares = matrix_from_plain("shares", plain["shares"], (2, STEPS, len(plain["shares"][0][0])))[:, :, order]
            found = cls(
                shares, float(plain["moves"]), int(plain["offset"]), tuple(plain["days"]), float(plain["width"]),
                plain.get("zone"),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError):
            raise StoredFileError("the routine of the family is damaged; fit it again") from None
        if found.zone is not None and not isinstance(found.zone, str):
            raise StoredFileError("the zone of the routine must be a name")
        if not (shares >= 0.0).all() or not np.allclose(shares.sum(axis=2), 1.0, atol=1e-6):
            raise StoredFileError("the routine of the family must hold probabilities")
        return found

    def chain(self, tick: int) -> tuple[Array, Array]:
        """The law (m,) at the beginning of a week, and the transitions (count, m, m) of its decisions, a tick apart."""
        if not 0 < tick <= DAY or DAY % tick:
            raise DesignError(f"decisions are {tick} s apart; by the clock they must go into a day")
        # the share in the middle of each decision, between those of the steps on both sides
        middle = (np.arange(DAY // tick) + 0.5) * tick / STEP - 0.5
        low, part = np.floor(middle).astype(int), (middle % 1.0)[:, None]
        days = (1.0 - part) * self.shares[:, low % STEPS] + part * self.shares[:, (low + 1) % STEPS]
        kinds = [0, 0, 1, 1, 0, 0, 0]  # from Thursday on
        laws = np.concatenate([days[kind] for kind in kinds])
        laws /= laws.sum(axis=1, keepdims=True)
        after = np.roll(laws, -1, axis=0)
        apart = 0.5 * np.abs(laws - after).sum(axis=1)
        fresh = 1.0 - (laws * after).sum(axis=1)
        least, most = float(apart.mean()), float(fresh.mean())
        wanted = self.moves * tick / DAY
        share = min(1.0, max(_LEAST, (wanted - least) / (most - least) if most > least else 1.0))
        return laws[0], np.array([_transition(p, q, share) for p, q in zip(laws, after, strict=True)])


def _transition(p: Array, q: Array, share: float) -> Array:
    """From the law p to the law q: coupled as far as can be, but for a `share` that is drawn afresh."""
    both = np.minimum(p, q)
    T = np.diag(both / p)
    left = float((q - both).sum())
    if left > 0.0:
        T += np.outer((p - both) / p, (q - both) / left)
    T = (1.0 - share) * T + share * q
    return np.asarray(T / T.sum(axis=1, keepdims=True))


def routine_of(segments: Iterable[LabelledSegment], m: int, zone: str | None = None) -> Routine:
    """The routine of labelled rows with times, on the clock on the wall of a zone; without one, that of the times."""
    counts: dict[tuple[int, int], Array] = {}  # by day and segment: days of several segments may bear one date
    changes = pairs = 0.0
    offset: int | None = None
    for number, segment in enumerate(segments):
        if segment.times is None:
            raise ConfigurationError("a routine needs times; the history has none")
        theta, times = np.asarray(segment.theta), np.asarray(segment.times) // _NS
        if offset is None and len(times):
            offset = offset_of(zone, int(times[0]))
        quarters, which = np.unique(times // STEP, return_inverse=True)  # summer time begins on one
        ahead = [offset_of(zone, quarter * STEP) for quarter in quarters.tolist()]
        times = times + np.array(ahead, dtype=np.int64)[which]
        known = theta >= 0
        seconds, codes = times[known], theta[known]
        if len(seconds) > 1:
            changes += float((codes[1:] != codes[:-1]).sum())
            pairs += float(seconds[-1] - seconds[0])
        for day in np.unique(seconds // DAY).tolist():
            mine = seconds // DAY == day
            table = counts.setdefault((day, number), np.zeros((STEPS, m)))
            np.add.at(table, (seconds[mine] % DAY // STEP, codes[mine]), 1.0)
    if not counts:
        raise ConfigurationError("no row of the history has a label; there is no routine to be seen")
    days = sorted(counts)
    tables = np.array([counts[day] for day in days])
    kinds = np.array([int((day + 3) % 7 >= 5) for day, _ in days])
    width = _USUAL
    if len(days) >= _FEW:
        fits = {w: _likelihood(tables, kinds, w) for w in _WIDTHS}
        width = max(fits, key=lambda w: fits[w])
    seen = int((kinds == 0).sum()), int((kinds == 1).sum())
    shares, moves = _shares(tables, kinds, width), changes * DAY / pairs if pairs else 0.0
    return Routine(shares, moves, offset or 0, seen, width, zone if is_named(zone) else None)


def _shares(tables: Array, kinds: Array, width: float) -> Array:
    """Smoothed shares (2, 96, m) of days of these kinds."""
    apart = np.abs(np.arange(STEPS)[:, None] - np.arange(STEPS))
    kernel = np.exp(-0.5 * (np.minimum(apart, STEPS - apart) * STEP / width) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    m = tables.shape[2]
    everything = tables.sum(axis=(0, 1))
    a_day = float(tables.sum()) / len(tables) / STEPS  # labels of a step of one day
    pooled = kernel @ tables.sum(axis=0) + 0.1 * a_day * everything / everything.sum()
    pooled /= pooled.sum(axis=1, keepdims=True)
    found = np.empty((2, STEPS, m))
    for kind in (0, 1):
        found[kind] = kernel @ tables[kinds == kind].sum(axis=0) + a_day * pooled
    found /= found.sum(axis=2, keepdims=True)
    return np.asarray((1.0 - _FLOOR) * found + _FLOOR / m)


def _likelihood(tables: Array, kinds: Array, width: float) -> float:
    """The log-likelihood of each day given the others."""
    total = 0.0
    for k in range(len(tables)):
        rest = np.arange(len(tables)) != k
        total += float((tables[k] * np.log(_shares(tables[rest], kinds[rest], width)[kinds[k]])).sum())
    return total


_FIXED = re.compile(r"([+-])(\d\d):?(\d\d)?")


def is_named(zone: str | None) -> bool:
    """Whether a zone has a name, so that its clock may be put forward and back."""
    return zone not in (None, "UTC") and _FIXED.fullmatch(str(zone)) is None


@lru_cache(maxsize=4096)
def offset_of(zone: str | None, time: int) -> int:
    """Seconds that the clock of a zone is ahead of UTC at a time in seconds since 1970.

    >>> offset_of("+08:00", 0), offset_of("-0530", 0), offset_of("Europe/Berlin", 0), offset_of(None, 0)
    (28800, -19800, 3600, 0)
    """
    if zone is None or zone == "UTC":
        return 0
    written = _FIXED.fullmatch(zone)
    if written is not None:
        ahead = int(written[2]) * 3600 + int(written[3] or 0) * 60
        return -ahead if written[1] == "-" else ahead
    import datetime as dt
    import zoneinfo

    try:
        found = dt.datetime.fromtimestamp(time, zoneinfo.ZoneInfo(zone)).utcoffset()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ConfigurationError(
            f"the zone {zone!r} is not known on this machine; install the package tzdata"
        ) from None
    return 0 if found is None else round(found.total_seconds())


def find_routine(clock: Any, family: Family) -> Routine:
    """The routine that ``clock=`` asks for: that of the family (True), a given one, or that of a labelled history."""
    if isinstance(clock, Routine):
        if clock.shares.shape[2] != len(family.values):
            raise DesignError("the routine is one of other values than the family has")
        return clock
    if clock is not True:
        segments, values = getattr(clock, "segments", None), getattr(clock, "values", None)
        if segments is None or values is None:
            raise DesignError(f"clock is a {type(clock).__name__}; it must be True, a routine or a labelled history")
        if tuple(values) != tuple(family.values):
            raise DesignError("the history has other values than the family, or another order of them")
        return routine_of(segments, len(values), getattr(clock, "zone", None))
    chain = (family.about or {}).get("chain") or {}
    try:
        named = [value_from_plain(value) for value in chain["values"]]
        order = [named.index(value) for value in family.values]
    except (KeyError, ValueError):
        raise ConfigurationError(
            "the family does not say what the clock tells; us.fit does, of data with times"
        ) from None
    if chain.get("routine") is not None:
        return Routine.from_plain(chain["routine"], order)
    if chain.get("by_hour") is None or not chain.get("period"):
        raise ConfigurationError("the family does not say what the clock tells; us.fit does, of data with times")
    # of a family that was fitted before: hours of the day, all days alike
    hours = np.array([as_prior(row, len(order)) for row in np.asarray(chain["by_hour"], dtype=float)[:, order]])
    leave = 1.0 - np.diag(np.asarray(chain["transition"], dtype=float))[order]
    moves = float(np.asarray(family.prior) @ leave) * DAY / float(chain["period"])
    shares = (1.0 - _FLOOR) * np.repeat(hours, STEPS // 24, axis=0) + _FLOOR / len(order)
    return Routine(np.array([shares, shares]), moves, 0, (0, 0), math.nan)
