"""Times of readings as whole numbers of nanoseconds since 1970, UTC.

Texts are ISO 8601 (``2026-03-01T12:00:00Z``, ``2026-03-01 12:00``, with a fraction of up to nine digits); a time
without a zone is taken for UTC. Numbers are counted from 1970, in the unit that their size tells: 1.7e9 is seconds,
1.7e12 milliseconds, and so on by thousands. A time of day alone ("00:05:00") is counted from midnight, for files with a
column that separates the days. Texts of one length are read all at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Ints

NOT_A_TIME = "is not a time (ISO 8601, or a number since 1970)"
NO_TIME = "has no time"
SECOND = 10**9
_FURTHEST = 2**63 - 1
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r" ?(Z|z|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})?)?",
    re.ASCII,
)
_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?", re.ASCII)
_EPOCH = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?", re.ASCII)
_DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
# where digits stand in 2026-03-01T12:00:00, and what stands between them
_PLACES = {"year": (0, 4), "month": (5, 7), "day": (8, 10), "hour": (11, 13), "minute": (14, 16), "second": (17, 19)}
_BETWEEN = {4: b"-", 7: b"-", 10: b"T ", 13: b":", 16: b":"}


def from_texts(texts: Sequence[str | None]) -> tuple[Ints, dict[int, str]]:
    """Nanoseconds of each text, and what is wrong with the others.

    >>> from_texts(["1970-01-01 00:00:01", "1970-01-01T01:00:01.5+01:00", "yesterday", ""])
    (array([1000000000, 1500000000,          0,          0]), {2: 'is not a time (ISO 8601, or a number since 1970)', \
3: 'has no time'})
    """
    quick = _all_at_once(texts)
    if quick is not None:
        return quick, {}
    out, faults = np.zeros(len(texts), dtype=np.int64), {}
    for i, text in enumerate(texts):
        bare = "" if text is None else text.strip(" \t")
        found = one(bare)
        if found is None:
            faults[i] = NOT_A_TIME if bare else NO_TIME
        else:
            out[i] = found
    return out, faults


def one(text: str) -> int | None:
    """Nanoseconds of one text; None if it is no time."""
    found = _ISO.fullmatch(text)
    if found is None:
        return _of_day(text) if ":" in text else _number(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _length(year, month) and hour < 24 and minute < 60 and second < 60):
        return None
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - _zone(found[8])
    return _fits(seconds * SECOND + int((found[7] or "").ljust(9, "0")))


def from_numbers(values: Any) -> Ints | None:
    """Nanoseconds of whole or other numbers since 1970; None if one of them is not finite or too large.

    >>> from_numbers(np.array([1_700_000_000, 1_700_000_060])).tolist()
    [1700000000000000000, 1700000060000000000]
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(float)
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        return None
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    size = max(abs(float(numbers[0])), 1.0)
    factor = _factor(size)
    if float(np.abs(numbers.astype(float)).max()) * factor > 0.999 * _FURTHEST:
        return None
    if numbers.dtype.kind == "f":
        # whole microseconds: a double has no more digits than that
        return np.rint(numbers * (factor / 1000)).astype(np.int64) * 1000
    return numbers.astype(np.int64) * factor


def _factor(size: float) -> int:
    """Nanoseconds in the unit of a number of this size."""
    return next((10**power for power, limit in ((9, 1e11), (6, 1e14), (3, 1e17)) if size < limit), 1)


def written_like(text: str, nanoseconds: int) -> str:
    """A time in the form of another: with its separator, its zone and at least its digits.

    >>> written_like("2026-03-01 12:00:07+01:00", 1_772_362_800 * SECOND), written_like("08:07:11", 487 * 60 * SECOND)
    ('2026-03-01 12:00:00+01:00', '08:07:00')
    >>> written_like("1772362807", 1_772_362_800 * SECOND), written_like("1772362807.5", 1_772_362_800 * SECOND)
    ('1772362800', '1772362800.0')
    """
    iso = _ISO.fullmatch(text)
    day = None if iso is not None else _OF_DAY.fullmatch(text)
    if iso is None and day is None:
        return _number_like(text, nanoseconds)
    zone = None if iso is None else iso[8]
    local = str(np.datetime64(nanoseconds + _zone(zone) * SECOND, "ns"))  # 2026-03-01T12:00:00.000000000
    second, fraction = (iso[6], iso[7]) if iso is not None else (day[3], day[4]) if day is not None else (None, None)
    digits = local[20:].rstrip("0").ljust(len(fraction or ""), "0")
    time = local[11:16] + (local[16:19] if second or digits or local[17:19] != "00" else "")
    time += f".{digits}" if digits else ""
    if iso is None:
        return time
    if iso[4] is None and local[11:] == "00:00:00.000000000":
        return local[:10]
    return f"{local[:10]}{text[10:11] or 'T'}{time}{zone or ''}"


def _number_like(text: str, nanoseconds: int) -> str:
    found = _EPOCH.fullmatch(text)
    if found is None:
        return text
    whole, rest = divmod(abs(nanoseconds), _factor(max(float(found[2]), 1.0)))
    places = len(str(_factor(max(float(found[2]), 1.0)))) - 1
    digits = str(rest).rjust(places, "0").rstrip("0").ljust(len(found[3] or ""), "0") if places else ""
    return f"{'-' if nanoseconds < 0 else ''}{whole}{'.' + digits if digits else ''}"


def _number(text: str) -> int | None:
    found = _EPOCH.fullmatch(text)
    if found is None or len(found[2]) > 19:
        return None
    factor = _factor(max(float(found[2]), 1.0))
    whole = int(found[2]) * factor + int((found[3] or "0").ljust(9, "0")[:9]) * factor // SECOND
    return _fits(-whole if found[1] == "-" else whole)


def _of_day(text: str) -> int | None:
    found = _OF_DAY.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour >= 24 or minute >= 60 or second >= 60:
        return None
    return (hour * 3600 + minute * 60 + second) * SECOND + int((found[4] or "").ljust(9, "0"))


def _fits(nanoseconds: int) -> int | None:
    return nanoseconds if abs(nanoseconds) <= _FURTHEST else None


def _zone(text: str | None) -> int:
    """Seconds that a zone is ahead of UTC."""
    if text is None or text in "Zz":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    ahead = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -ahead if text[0] == "-" else ahead


def _days(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970 of a date of the Gregorian calendar."""
    # years from March on, so that the leap day is the last
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _length(year: Any, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 if month == 2 and not leap else int(_DAYS[month - 1])


def _all_at_once(texts: Sequence[str | None]) -> Ints | None:
    """The same for texts that all have one of the usual forms; None where they have not."""
    if not len(texts) or texts[0] is None:
        return None
    length = len(texts[0])
    try:
        raw = "".join(texts).encode("ascii")  # type: ignore[arg-type]  # a None among them ends here
    except (TypeError, UnicodeEncodeError):
        return None
    if len(raw) != length * len(texts) or set(map(len, texts)) != {length}:  # type: ignore[arg-type]  # no None is left
        return None
    return from_bytes(np.frombuffer(raw, dtype=np.uint8).reshape(len(texts), length))


def from_bytes(letters: NDArray[np.uint8]) -> Ints | None:
    """Nanoseconds of texts of one length, a row of letters each, if all are times of the usual form."""
    length = letters.shape[1]
    if length < 10:
        return None
    end = length
    ahead: Any = 0
    if length > 19 and (letters[:, -1] == ord("Z")).all():
        end -= 1
    elif length > 22 and (letters[:, -3] == ord(":")).all() and np.isin(letters[:, -6], list(b"+-")).all():
        parts = _digits(letters[:, [-5, -4]]), _digits(letters[:, [-2, -1]])
        if parts[0] is None or parts[1] is None:
            return None
        ahead = np.where(letters[:, -6] == ord("-"), -1, 1) * (parts[0] * 3600 + parts[1] * 60)
        end -= 6
    if end not in (10, 16, 19) and not (20 < end <= 29 and (letters[:, 19] == ord(".")).all()):
        return None
    for place, allowed in _BETWEEN.items():
        if place < end and not np.isin(letters[:, place], list(allowed)).all():
            return None
    found: dict[str, Any] = {}
    for name, (first, last) in _PLACES.items():
        found[name] = _digits(letters[:, first:last]) if last <= end else np.int64(0)
        if found[name] is None:
            return None
    fraction = _digits(letters[:, 20:end]) if end > 20 else np.int64(0)
    if fraction is None or not _valid(found):
        return None
    seconds = _days(found["year"], found["month"], found["day"]) * 86_400
    seconds = seconds + found["hour"] * 3600 + found["minute"] * 60 + found["second"] - ahead
    if int(np.abs(seconds).max()) >= _FURTHEST // SECOND:
        return None
    return np.asarray(seconds * SECOND + fraction * 10 ** (29 - max(end, 20)), dtype=np.int64)


def _digits(letters: NDArray[np.uint8]) -> Any:
    values = letters - np.uint8(48)  # what is below wraps round to above
    if (values > 9).any():
        return None
    total = np.zeros(len(values), dtype=np.int64)
    for column in range(values.shape[1]):
        total = total * 10 + values[:, column]
    return total


def _valid(found: dict[str, Any]) -> bool:
    year, month, day = found["year"], found["month"], found["day"]
    if (month < 1).any() or (month > 12).any() or (day < 1).any() or (day > _DAYS[month - 1]).any():
        return False
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    if ((month == 2) & (day == 29) & ~leap).any():
        return False
    return bool((found["hour"] < 24).all() and (found["minute"] < 60).all() and (found["second"] < 60).all())
