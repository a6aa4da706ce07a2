"""Stretches of time, the unit of resampling: whole days where there are enough of them, else as long as theta stays.

What a day has in common (who is away, the weather) is not known from its readings. Where theta flickers during the
day, stretches as long as it stays would count that many times over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.adversaries.playing.recording import Ints, Piece, Recording, parts

DAYS = 8
"""From so many days on, a day is the unit of resampling."""
_LEAST_BLOCK = 30
_TURN = 1.5  # hours that a clock goes back within a segment, if it is a new day and not the end of summer time


def blocks_of(recording: Recording, pieces: Sequence[Piece], least: int = 1) -> Ints:
    """(T,) the number of the stretch that each row of the pieces is in, -1 elsewhere; the unit of resampling.

    A stretch is about as long as theta stays on average, and at least `least` rows: a decision, or an epoch. Where
    days are known, and there are enough of them, it is a whole day, or several if theta stays for so long.
    """
    length = max(recording.spell, float(least), float(_LEAST_BLOCK))
    found = np.full(len(recording.Y), -1, dtype=np.int64)
    dates = dates_in(recording, pieces)
    if dates is not None and whole_days(dates) >= DAYS:
        inside, days = dates >= 0, np.unique(dates[dates >= 0])
        together = max(1, round(length * days.size / float(inside.sum())))
        found[inside] = np.searchsorted(days, dates[inside]) // together
        return found
    number = 0
    for piece in pieces:
        for start, stop in parts(piece, length):
            found[start:stop] = number
            number += 1
    return found


def dates_in(recording: Recording, pieces: Sequence[Piece]) -> Ints | None:
    """(T,) the day of each row of the pieces, -1 elsewhere; None where no time is known."""
    dates = dates_of(recording)
    if dates is None:
        return None
    found = np.full(len(dates), -1, dtype=np.int64)
    for start, stop in pieces:
        found[start:stop] = dates[start:stop]
    return found


def unit_of(recording: Recording, pieces: Sequence[Piece]) -> str:
    """What a stretch is, in a sentence for the notes."""
    dates = dates_in(recording, pieces)
    if dates is None:
        return (
            "no time is known, and a stretch is about as long as theta stays: what goes on for longer, as what a day "
            "has in common, is not accounted for"
        )
    days = whole_days(dates)
    if days >= DAYS:
        return "a stretch is a day, or several where theta stays for longer"
    return (
        f"the judged part has {days} whole day{'s' if days != 1 else ''}, and a stretch is about as long as theta "
        f"stays: dependence from day to day cannot be accounted for with fewer than {DAYS} days"
    )


def dates_of(recording: Recording) -> Ints | None:
    """(T,) a number for each day, in their order; None where no time is known.

    A day is new where the clock goes back or the weekday changes. Without a clock days are counted in rows.
    """
    T = len(recording.Y)
    if recording.hours is None:
        if recording.period is None:
            return None
        rows = max(1, round(86_400.0 / recording.period))
        new = np.zeros(T, dtype=bool)
        for start, stop in recording.pieces():
            new[start:stop:rows] = True
        return np.cumsum(new) - 1
    known = np.maximum.accumulate(np.where(np.isnan(recording.hours), 0, np.arange(T)))
    hour = np.nan_to_num(recording.hours[known])
    back = hour[:-1] - hour[1:]
    new = np.where(recording.segments[1:] == recording.segments[:-1], back > _TURN, back > 1e-9)
    if recording.days is not None:
        new |= (recording.days[1:] != recording.days[:-1]) & (recording.days[1:] >= 0) & (recording.days[:-1] >= 0)
    return np.concatenate([[0], np.cumsum(new)]).astype(np.int64)


def whole_days(dates: Ints) -> int:
    """How many days there are, without those that have less than half of what the others have; -1 is no day.

    >>> whole_days(np.repeat([-1, 0, 1, 2], [9, 2, 10, 10]))
    2
    """
    counts = np.unique(dates[dates >= 0], return_counts=True)[1]
    return int((counts >= 0.5 * np.median(counts)).sum()) if counts.size else 0
