"""Times of rows as whole nanoseconds since 1970, periods in words, and the hour on the wall.

Every entrance (a dataframe, CSV, JSON lines, Parquet) reads times by these rules:

| what stands there | what it is |
|---|---|
| ``2026-03-01T12:00:00Z``, ``2026-03-01 12:00``, ``2026-03-01`` | ISO 8601, extended; up to nine decimals of a second |
| ``20260301T120000Z`` | ISO 8601, basic |
| ``2026/03/01 12:00``, ``2026/3/1 9:05:30`` | the year first, with slashes, points or dashes |
| ``01/03/2026 12:00``, ``1.3.2026`` | the day first, where the caller says so; otherwise refused: it may be the month |
| ``20260301`` | a date, where all numbers of the column are dates from 1900 to 2199; otherwise a number |
| ``+01:00``, ``+0100``, ``+01``, ``Z`` after a time | its zone; the time is kept in UTC |
| ``00:05:00``, ``9:30``, a time of day | counted from midnight, for files with a column that separates days |
| 1.7e9, 1.7e12, 1.7e15, 1.7e18 | seconds, milli-, micro- and nanoseconds since 1970, told by their size |
| a datetime, a date, a duration | itself; a duration is counted from the beginning |

A time without a zone is kept as it stands, as if it were UTC. The times of a column are all of one kind: with a zone,
without one, times of day, or numbers. The first row decides, and rows of another kind are faults.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from understudy._types import Index, Ints, Mask, Period
from understudy.errors import ConfigurationError

SECOND = 10**9
DAY = 86_400 * SECOND
Faults: TypeAlias = dict[int, str]
"""What is wrong with some rows: the rule that each breaks, never what stands there."""
Entry: TypeAlias = (
    "bool | int | float | str | bytes | dt.datetime | dt.date | dt.time | dt.timedelta | list[Entry] | "
    "dict[str, Entry] | None"
)
"""What a cell of a table can hold."""
NOT_A_TIME = "is not a time (ISO 8601, or a number since 1970)"
DAY_FIRST = "is a date of which the day or the month stands first, and which is not guessed (day_first=True: the day)"
NO_TIME = "has no time"

_FURTHEST = 2**63 - 1
_ISO = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})"
    r"(?:[T ]([0-9]{2})(?:(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)? ?(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_DATE = re.compile(r"(?:19|20|21)[0-9]{6}")
_WRITTEN = re.compile(
    r"(?:([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})|([0-9]{1,2})([-/.])([0-9]{1,2})\6([0-9]{4}))"
    r"(?:([T ])([0-9]{1,2})(:.+))?"
)
_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.([0-9]*))?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNITS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}


class Kind(Enum):
    """In which way a time is written."""

    ZONED = "a time with a zone"
    LOCAL = "a time without a zone"
    OF_DAY = "a time of day"
    NUMBER = "a number"


class Times(NamedTuple):
    """The times of a column: nanoseconds, rows without one, of which kind, their zones, and what is wrong."""

    ns: Ints
    missing: Mask
    kind: Kind | None
    faults: Faults
    zones: Counter[str] = Counter()  # noqa: RUF012  # never changed
    unit: str = "s"

    @property
    def zone(self) -> str | None:
        """The most frequent zone; UTC for numbers that are counted from 1970, None for others and for wall clocks."""
        return self.zones.most_common(1)[0][0] if self.zones else None

    @property
    def unknown(self) -> Faults:
        """Rows that have no usable time, missing ones among them."""
        return {**dict.fromkeys(np.flatnonzero(self.missing).tolist(), NO_TIME), **self.faults}


# Times of cells one by one ---------------------------------------------------------------------------


class _Instant(NamedTuple):
    ns: int
    kind: Kind
    zone: str | None = None
    unit: str = "s"


def of_entries(entries: Sequence[Entry], day_first: bool = False) -> Times:
    """The times of cells, None where one is missing.

    >>> found = of_entries(["1970-01-01 00:00:01", "yesterday", None, "19700101T000002"])
    >>> found.ns.tolist(), found.faults
    ([1000000000, 0, 0, 2000000000], {1: 'is not a time (ISO 8601, or a number since 1970)'})
    """
    ns, missing = np.zeros(len(entries), dtype=np.int64), np.zeros(len(entries), dtype=bool)
    faults: Faults = {}
    zones: Counter[str] = Counter()
    first: _Instant | None = None
    dates = _all_dates(entries)
    for i, entry in enumerate(entries):
        if entry is None:
            missing[i] = True
            continue
        found = _instant(entry, dates, day_first)
        if found is None:
            other = _iso_form(entry) if isinstance(entry, str) and not day_first else None
            faults[i] = DAY_FIRST if other is not None and other.day_first else NOT_A_TIME
            continue
        first = first or found
        if found.kind is not first.kind:
            faults[i] = f"is {found.kind.value}, and the first is {first.kind.value}"
            continue
        ns[i] = found.ns
        if found.zone is not None:
            zones[found.zone] += 1
    return Times(ns, missing, first and first.kind, faults, zones, "s" if first is None else first.unit)


def _all_dates(entries: Sequence[Entry]) -> bool:
    """Whether the numbers among the cells are all dates without marks."""
    numbers = [str(e) for e in entries if type(e) is int or (isinstance(e, str) and _NUMBER.fullmatch(e))]
    return bool(numbers) and all(_DATE.fullmatch(n) and _of_iso(n) for n in numbers)


def _instant(entry: Entry, dates: bool, day_first: bool = False) -> _Instant | None:
    """One time; None if it is none."""
    if isinstance(entry, bool):
        return None
    if isinstance(entry, (int, float)):
        return _of_number(entry, dates)
    if isinstance(entry, str):
        if _NUMBER.fullmatch(entry):
            return _of_number(_as_number(entry), dates)
        return _of_iso(entry) or _of_day(entry) or _of_written(entry, day_first)
    if isinstance(entry, dt.datetime) and entry.tzinfo is not None:
        utc = _of_iso(entry.astimezone(dt.UTC).replace(tzinfo=None).isoformat())
        return None if utc is None else _Instant(utc.ns, Kind.ZONED, _zone_name(entry))
    if isinstance(entry, dt.date):  # datetimes too
        return _of_iso(entry.isoformat())
    if isinstance(entry, dt.time):
        return _of_day(entry.replace(tzinfo=None).isoformat())
    if isinstance(entry, dt.timedelta):
        return _fits(_Instant(entry // dt.timedelta(microseconds=1) * 1000, Kind.NUMBER))
    return None


def _as_number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() and len(text) <= 20 else float(text)


def _zone_name(moment: dt.datetime) -> str:
    name: str = getattr(moment.tzinfo, "key", None) or moment.isoformat()[-6:]
    return "UTC" if name == "+00:00" else name


def _of_iso(text: str) -> _Instant | None:
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, hour, _, minute, second, fraction, zone = found.groups()
    shift = _shift(zone)
    try:
        moment = dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    if shift is None:
        return None
    since = moment - dt.datetime(1970, 1, 1)
    ns = (since.days * 86_400 + since.seconds - shift) * SECOND + int((fraction or "").ljust(9, "0"))
    if zone is None:
        return _fits(_Instant(ns, Kind.LOCAL))
    return _fits(_Instant(ns, Kind.ZONED, "UTC" if zone in "Zz" else zone))


class _IsoForm(NamedTuple):
    """A date that people write, as ISO 8601; what stands between its parts, and how it is written."""

    text: str
    mark: str
    day_first: bool
    width: int  # of the day, the month and the hour: 2, or 1 where one of them has a single digit


def _iso_form(text: str) -> _IsoForm | None:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    year, mark, month, day, *other, between, hour, rest = found.groups()
    if year is None:
        day, mark, month, year = other
    clock = "" if hour is None else f"{between}{int(hour):02}{rest}"
    width = min(map(len, (day, month, hour or day)))
    return _IsoForm(f"{year}-{int(month):02}-{int(day):02}{clock}", mark, found[1] is None, width)


def _of_written(text: str, day_first: bool) -> _Instant | None:
    form = _iso_form(text)
    return None if form is None or (form.day_first and not day_first) else _of_iso(form.text)


def _of_day(text: str) -> _Instant | None:
    found = _OF_DAY.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour >= 24 or minute >= 60 or second >= 60:
        return None
    seconds = hour * 3600 + minute * 60 + second
    return _Instant(seconds * SECOND + int((found[4] or "").ljust(9, "0")), Kind.OF_DAY)


def _of_number(number: int | float, dates: bool) -> _Instant | None:
    if dates:
        return _of_iso(str(number))
    if not abs(number) < 2.0**63:  # NaN and infinities among them
        return None
    unit = _unit(abs(number))
    zone = "UTC" if abs(number) * _UNITS[unit] > 1e8 * SECOND else None
    if isinstance(number, int):
        return _fits(_Instant(number * _UNITS[unit], Kind.NUMBER, zone, unit))
    # whole microseconds: a double has no more digits than that
    return _fits(_Instant(round(number * (_UNITS[unit] / 1000)) * 1000, Kind.NUMBER, zone, unit))


def _unit(size: float) -> str:
    """The unit of a number of this size."""
    return next((unit for unit, limit in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if size < limit), "ns")


def _fits(found: _Instant) -> _Instant | None:
    return found if abs(found.ns) <= _FURTHEST else None


def _shift(zone: str | None) -> int | None:
    """Seconds that a zone is ahead of UTC; None if no zone is so far ahead."""
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    if int(digits[:2]) >= 24 or int(digits[2:]) >= 60:
        return None
    ahead = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -ahead if zone[0] == "-" else ahead


# Times of a whole array ------------------------------------------------------------------------------


def of_array(values: NDArray[np.generic], zone: str | None = None) -> Times:
    """The times of an array of numbers, datetimes (of UTC, if they have a zone) or durations.

    >>> of_array(np.array([1_700_000_000, 1_700_000_060])).ns.tolist()
    [1700000000000000000, 1700000060000000000]
    """
    if values.dtype.kind in "iuf":
        return _of_numbers(values)
    missing = np.isnat(values)
    found = values.astype(f"{values.dtype.kind}8[ns]")
    there = ~missing
    far = there & (found.astype(values.dtype) != values)  # beyond 64 bits
    ns = np.where(missing | far, 0, found.astype(np.int64))
    zones = Counter({zone.removeprefix("UTC") if zone[3:] else zone: int(there.sum())} if zone else {})
    kind = Kind.NUMBER if values.dtype.kind == "m" else Kind.LOCAL if zone is None else Kind.ZONED
    return Times(ns, missing, kind, dict.fromkeys(np.flatnonzero(far).tolist(), NOT_A_TIME), zones)


def _of_numbers(values: NDArray[np.generic]) -> Times:
    whole = values.dtype.kind != "f"
    numbers = values if whole else values.astype(float)
    size = np.abs(numbers.astype(float))
    missing = np.isnan(size)
    there = size[~missing]
    if whole and there.size and there.min() >= 19_000_101 and there.max() < 22_000_000:
        entries: list[Entry] = numbers.tolist()
        if _all_dates(entries):
            return of_entries(entries)
    factors = np.select([size < 1e11, size < 1e14, size < 1e17], [SECOND, 10**6, 10**3], 1)
    far = ~missing & ~(size * factors <= 0.999 * _FURTHEST)
    kept = np.where(missing | far, 0, numbers)
    ns = kept.astype(np.int64) * factors
    if not whole:
        ns = np.rint(kept * (factors / 1000)).astype(np.int64) * 1000
    unit = _unit(float(there[0])) if there.size else "s"
    zones = Counter({"UTC": int((size * factors > 1e8 * SECOND).sum())})
    faults = dict.fromkeys(np.flatnonzero(far).tolist(), NOT_A_TIME)
    return Times(np.where(missing | far, 0, ns), missing, Kind.NUMBER, faults, +zones, unit)


def zones_of(tails: dict[str, int]) -> Counter[str]:
    """The zones at the ends of texts that are times with one, from the last six letters of each and how many have them.

    >>> zones_of({"+01:00": 3, "00:00Z": 1, ":00+02": 1})
    Counter({'+01:00': 3, 'UTC': 1, '+02': 1})
    """
    zones: Counter[str] = Counter()
    for tail, count in tails.items():
        at = max(tail.rfind("+"), tail.rfind("-"))
        zones["UTC" if at < 0 else tail[at:]] += count
    return zones


# Times that are written ------------------------------------------------------------------------------


def write_like(text: str, nanoseconds: int) -> str:
    """A time in the form of another: with its separator, its zone and at least its digits.

    >>> write_like("2026-03-01 12:00:07+01:00", 1_772_362_800 * SECOND), write_like("08:07:11", 487 * 60 * SECOND)
    ('2026-03-01 12:00:00+01:00', '08:07:00')
    >>> write_like("1772362807", 1_772_362_800 * SECOND), write_like("1772362807.5", 1_772_362_800 * SECOND)
    ('1772362800', '1772362800.0')
    >>> write_like("20260301T120007Z", 1_772_366_400 * SECOND), write_like("20260302", 1_772_323_200 * SECOND)
    ('20260301T120000Z', '20260301')
    >>> write_like("1/3/2026 9:00", 1_772_362_800 * SECOND), write_like("2026/03/01 12:00:07", 1_772_362_800 * SECOND)
    ('1/3/2026 11:00', '2026/03/01 11:00:00')
    """
    day, iso = _OF_DAY.fullmatch(text), _ISO.fullmatch(text)
    form = _iso_form(text) if day is None and iso is None else None
    if form is not None:
        found = write_like(form.text, nanoseconds)
        parts = [found[:4], *(f"{int(part):0{form.width}}" for part in found[5:10].split("-"))]
        clock = f"{found[10]}{int(found[11:13]):0{form.width}}{found[13:]}" if found[10:] else ""
        return form.mark.join(parts[::-1] if form.day_first else parts) + clock
    if day is None and (iso is None or (_NUMBER.fullmatch(text) and not _near_date(text, nanoseconds))):
        return _number_like(text, nanoseconds)
    zone = None if iso is None else iso[10]
    local = str(np.datetime64(nanoseconds + (_shift(zone) or 0) * SECOND, "ns"))  # 2026-03-01T12:00:00.000000000
    second, fraction = (iso[8], iso[9]) if iso is not None else (day[3], day[4]) if day is not None else (None, None)
    digits = local[20:].rstrip("0").ljust(len(fraction or ""), "0")
    time = local[11:16] + (local[16:19] if second or digits or local[17:19] != "00" else "")
    time += f".{digits}" if digits else ""
    if iso is None:
        return time
    date = local[:10] if iso[2] else local[:10].replace("-", "")
    if iso[5] is None and local[11:] == "00:00:00.000000000":
        return date
    time = time if iso[2] else time.replace(":", "")
    return f"{date}{text[len(date) : len(date) + 1] or 'T'}{time}{zone or ''}"


def _near_date(text: str, nanoseconds: int) -> bool:
    """Whether eight digits were read as a date: it is nearer to the time than the number is."""
    date = _of_iso(text)
    return date is not None and abs(date.ns - nanoseconds) < abs(int(text) * SECOND - nanoseconds)


def _number_like(text: str, nanoseconds: int) -> str:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    factor = _UNITS[_unit(abs(float(text)))]
    whole, rest = divmod(abs(nanoseconds), factor)
    places = len(str(factor)) - 1
    digits = str(rest).rjust(places, "0").rstrip("0").ljust(len(found[1] or ""), "0") if places else ""
    return f"{'-' if nanoseconds < 0 else ''}{whole}{'.' + digits if digits else ''}"


# Periods, and the hour of the day --------------------------------------------------------------------


_PERIODS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}
_PERIOD = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*([a-z]*?)s?\s*", re.IGNORECASE)


def seconds(period: Period) -> float:
    """A period in seconds: a number of them, a timedelta, or words.

    >>> seconds(60), seconds("15 min"), seconds("1h"), seconds("30s")
    (60.0, 900.0, 3600.0, 30.0)
    """
    found = None
    if isinstance(period, dt.timedelta):
        found = period.total_seconds()
    elif isinstance(period, np.timedelta64):
        found = float(period / np.timedelta64(1, "s"))
    elif isinstance(period, str):
        match = _PERIOD.fullmatch(period)
        unit = match and (match[2].lower() or "s")
        if match and unit in _PERIODS and period.strip():
            found = float(match[1] or 1.0) * _PERIODS[unit]
    elif not isinstance(period, bool) and isinstance(period, (int, float, np.integer, np.floating)):
        found = float(period)
    if found is None or not 1e-6 <= found < 1e9:
        raise ConfigurationError(
            f"period = {period!r}; it must be a number of seconds above 0, or a text such as '30s', '15min' or '1h'"
        )
    return found


def hours(ns: Ints, zone: str | None) -> Index:
    """Hour of the day, 0 to 23, on the clock on the wall.

    >>> hours(np.array([0, 23 * 3600 * SECOND]), "+02:00").tolist()
    [2, 1]
    """
    if zone is None or zone == "UTC":
        local = ns
    elif re.fullmatch(r"[+-]\d\d(?::?\d\d)?", zone):
        local = ns + (_shift(zone) or 0) * SECOND
    else:
        local = ns + _zone_offset(ns, zone)
    return ((local // (3600 * SECOND)) % 24).astype(np.intp)


def _zone_offset(ns: Ints, zone: str) -> Ints:
    """What a named zone adds to UTC; it changes on whole quarters of an hour."""
    import zoneinfo

    try:
        found = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ConfigurationError(
            f"the zone {zone!r} is not known on this machine; install the package tzdata"
        ) from None
    quarters, which = np.unique(ns // (900 * SECOND), return_inverse=True)
    moments = (dt.datetime.fromtimestamp(int(q) * 900, tz=dt.UTC) for q in quarters)
    shifts = [found.utcoffset(moment.astimezone(found)) or dt.timedelta() for moment in moments]
    return np.array([round(s.total_seconds()) * SECOND for s in shifts], dtype=np.int64)[which]
